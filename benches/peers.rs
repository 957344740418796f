//! `make bench-peers`: hairpin against sockperf, pair by pair, in the same minutes on the same cores.
//!
//! ```text
//!   for each cell, until enough pairs are kept:      H S H      hairpin, sockperf, hairpin: the cores' distance must be the same in both H
//!       pairs.jsonl ◀── one line an attempt          ratio = geometric mean of both H / S
//!   table.txt, peers.json ◀── cells, bounds, commands, versions, host
//! ```
//!
//! Exit codes: 0 every bound that was measured is met, 1 failed, 3 a bound is missed or a cell lacks pairs, 4 something that it needs is not here.

use std::process::Command;
use std::time::{Instant, SystemTime};

use clap::Args;
use hairpin_record::run::Run;
use hairpin_session::time::rfc3339;
use hairpin_sys::signal::{SIGINT, SIGTERM, Signals};
use serde_json::json;

use super::children::words;
use super::record::{Flags, Stop, write};
use cells::{Cell, Link};
use hairpin::Tool;
use measure::{Journal, Wanted, check};
use sockperf::{Place, Ready};
use table::{at_most, ratio_bounds};
use veth::Veth;

pub(super) mod cells;
pub(super) mod hairpin;
pub(super) mod measure;
mod others;
pub(super) mod output;
pub(super) mod pairs;
pub(super) mod sockperf;
mod table;
pub(super) mod veth;

/// Seconds that an attempt takes, for the estimate.
const SECONDS_PER_ATTEMPT: f64 = 1.8;

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench --profile dev -- peers`.
#[derive(Args)]
pub(crate) struct Options {
    /// Cells to measure, such as udp-spin-loopback-64,tcp-block-veth-14; all without it
    #[arg(long, value_delimiter = ',')]
    cells: Vec<Cell>,
    /// Pairs to keep per cell [default: 40]
    #[arg(long)]
    pairs: Option<usize>,
    /// Attempts per cell at most; twice the pairs without it
    #[arg(long)]
    attempts: Option<usize>,
    /// Go on with today's record if it was made with the same build
    #[arg(long)]
    resume: bool,
    /// The client's CPU and the server's
    #[arg(long, value_delimiter = ',', num_args = 2, default_value = "0,1")]
    cpu: Vec<u32>,
    /// Cache-line round trips below this many ns are of near cores
    #[arg(long, default_value_t = 250)]
    split_ns: u64,
    /// Measure the memory of 10^9 transactions too (minutes); HAIRPIN_BENCH_LONG=1 does the same
    #[arg(long)]
    long: bool,
    /// Only cells; no wall time, own cost, qperf and iperf
    #[arg(long)]
    cells_only: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let signals = Signals::block(&[SIGINT, SIGTERM]).map_err(|e| format!("signals: {e}"))?;
    let full = options.cells.is_empty() && options.pairs.is_none() && !options.cells_only;
    let mut cells = if options.cells.is_empty() { cells::all() } else { options.cells.clone() };
    let wanted = options.pairs.unwrap_or(40);
    let most = options.attempts.unwrap_or(2 * wanted);
    let cpus = [options.cpu[0], options.cpu[1]];
    let tool = Tool { program: options.flags.hairpin.clone(), cpus, split_ns: options.split_ns };
    let build = tool.build()?;
    let started = rfc3339(SystemTime::now());
    let directory = options.flags.directory("peers", full)?;
    let mut journal = Journal::open(&directory.join("pairs.jsonl"), &build, options.resume)?;
    let versions = versions()?;

    let mut not_here = None;
    let veth = if cells.iter().any(|cell| cell.link == Link::Veth) {
        Veth::new().map_err(|why| not_here = Some(format!("no veth cells, they need root: {why}"))).ok()
    } else {
        None
    };
    if let Some(why) = &not_here {
        eprintln!("{why}");
        cells.retain(|cell| cell.link != Link::Veth);
    }

    let missing: usize = cells.iter().map(|&cell| wanted.saturating_sub(journal.count(&cell.to_string()).0)).sum();
    let minutes = missing as f64 * SECONDS_PER_ATTEMPT / 60.0;
    eprintln!("{} cells, {missing} pairs to measure: {minutes:.0} minutes if none is dropped", cells.len());
    let mut place = Place { cpus, veth: veth.as_ref(), ports: 21_000.. };
    let mut sample: Option<Run> = None;
    let begin = Instant::now();
    for (index, &cell) in cells.iter().enumerate() {
        let before = journal.count(&cell.to_string()).1;
        let enough = Wanted { cell: cell.to_string(), build: &build, pairs: wanted, attempts: most };
        let once = || {
            let (found, run) = tool.measure(cell)?;
            sample.get_or_insert(run);
            Ok(found)
        };
        let measured = |ready: Ready| Ok(ready.measure()?.p50_ns);
        measure::pairs(&enough, &mut journal, &signals, once, |many| place.ready(cell, many), measured)?;
        let (kept, tried) = journal.count(&cell.to_string());
        let gone = begin.elapsed().as_secs() / 60;
        eprintln!(
            "[{:>2}/{}] {cell}: {kept} pairs kept of {tried} ({} new), {gone} min gone",
            index + 1,
            cells.len(),
            tried - before
        );
    }

    let mut information = Vec::new();
    let mut bounds = Vec::new();
    let lines = table::lines(&cells, &journal.attempts, wanted);
    bounds.extend(ratio_bounds(&lines));
    if !options.cells_only {
        for &cell in &cells {
            check(&signals)?;
            for found in others::measure(cell, &mut place) {
                found.map_or_else(|why| eprintln!("{cell}: {why}"), |found| information.push(found));
            }
        }
        bounds.push(at_most("own cost over a null endpoint", &tool.own_cost(), 50.0, "ns"));
        let scratch = tempfile::tempdir().map_err(|e| format!("no scratch directory: {e}"))?;
        bounds.push(at_most("wall time of a 1.1 s run", &tool.wall_time(scratch.path()), 1.6, "s"));
        if options.long || std::env::var_os("HAIRPIN_BENCH_LONG").is_some_and(|value| value == "1") {
            check(&signals)?;
            eprintln!("10^9 transactions over memory: some minutes");
            bounds.push(at_most("RSS after 10^9 transactions", &tool.memory_of_a_billion(), 64.0, "MiB"));
        }
    }

    let text = table::text(&lines, &bounds, &information);
    let some_cell = cells.first().copied();
    let record = json!({
        "schema": "hairpin.peers/1",
        "started": started,
        "ended": rfc3339(SystemTime::now()),
        "build": build,
        "tool": sample.as_ref().map(|run| &run.head.tool),
        "host": sample.as_ref().map(|run| &run.place.hosts.client),
        "clock": sample.as_ref().map(|run| &run.place.clock),
        "versions": versions,
        "cpus": cpus,
        "split_ns": options.split_ns,
        "pairs_wanted": wanted,
        "attempts_at_most": most,
        "commands": match some_cell {
            Some(cell) => {
                let [client, server] = place.sockperf(cell)?;
                json!({ "hairpin": words(&tool.command(cell)), "sockperf_client": words(&client), "sockperf_server": words(&server) })
            }
            None => json!(null),
        },
        "cells": lines.iter().filter_map(table::Line::kept).collect::<Vec<_>>(),
        "bounds": bounds,
        "information": information,
    });
    write(&directory.join("table.txt"), &text)?;
    write(&directory.join("peers.json"), &format!("{record}\n"))?;
    print!("{text}");
    eprintln!("record: {}", directory.display());
    let missed = table::missed(&lines, &bounds);
    match not_here {
        Some(why) if !missed => Err(Stop::Missing(why)),
        _ => Ok(missed),
    }
}

/// The first line of each tool's version; sockperf must be here, the others may.
fn versions() -> Result<serde_json::Value, Stop> {
    let first = |tool: &str| -> Result<String, String> {
        // iperf and qperf end with a status other than 0.
        let output = Command::new(tool).arg("--version").output().map_err(|e| format!("{tool}: {e}"))?;
        let text = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or("").trim().to_owned())
    };
    let sockperf = first("sockperf").map_err(|why| Stop::Missing(format!("{why}; install it: apt-get install sockperf")))?;
    Ok(json!({ "sockperf": sockperf, "qperf": first("qperf").ok(), "iperf": first("iperf").ok() }))
}
