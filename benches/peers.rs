//! `make bench-peers`: hairpin against sockperf by turns, on the same cores; over UDP in the same rounds also with sockets as
//! sockperf has them, and the shortest C program with sockets as hairpin has them.
//!
//! Exit codes: 0 every bound that was measured is met, 1 failed, 3 a bound is missed or a cell lacks pairs, 4 something that it
//! needs is not here.

use std::process::Command;
use std::time::SystemTime;

use clap::Args;
use hairpin_lab::experiment::outside::{Block, Until};
use hairpin_record::run::Run;
use hairpin_session::time::rfc3339;
use serde_json::json;

use super::children::words;
use super::control::{compiled, control, identity};
use super::hairpin::{Tool, measure};
use super::pairs::{Flags, Pairs};
use super::record::{Stop, publish};
use cells::{Cell, Link};
use others::Other;
use sockperf::{Ahead, Place};
use table::{NO_PEER, SHORTEST, SOCKPERF, at_most, peak};
use veth::Veth;

pub(super) mod cells;
mod costs;
mod others;
mod output;
pub(super) mod sockperf;
mod table;
pub(super) mod veth;

/// Pairs per cell of a full record.
const PAIRS: usize = 40;

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- peers`.
#[derive(Args)]
pub(crate) struct Options {
    /// Cells to measure, such as udp-spin-loopback-64,tcp-block-veth-14; all without it
    #[arg(long, value_delimiter = ',')]
    cells: Vec<Cell>,
    /// Pairs per cell; there are twice as many rounds at most
    #[arg(long, default_value_t = PAIRS)]
    pairs: usize,
    /// The client's CPU and the server's
    #[arg(long, value_delimiter = ',', num_args = 2, default_value = "0,1")]
    cpu: Vec<u32>,
    /// Measure the memory of 10^9 transactions too (minutes); HAIRPIN_BENCH_LONG=1 does the same
    #[arg(long)]
    long: bool,
    /// Only cells; no wall time, own cost and other tools
    #[arg(long)]
    cells_only: bool,
    /// Peers that you have built, by the paths of their programs: netperf, neper's tcp_rr and udp_rr, sfnt-pingpong
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Other>,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let full = options.cells.is_empty() && options.pairs >= PAIRS && !options.cells_only;
    let mut cells = if options.cells.is_empty() { cells::all() } else { options.cells.clone() };
    let cpus = [options.cpu[0], options.cpu[1]];
    let tool = Tool { program: options.flags.record.hairpin.clone(), cpus: Some(cpus) };
    let build = tool.build()?;
    let started = rfc3339(SystemTime::now());
    let directory = options.flags.record.directory("peers", full)?;
    let versions = versions()?;
    let programs = format!("{} {}", identity(&build, &["equal"], cpus)?, versions["sockperf"]);
    let mut pairs = Pairs::open(&options.flags, &directory, &programs, Until::Pairs(options.pairs))?;

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

    let shortest = compiled("equal", &[])?;
    let mut place = Place { cpus, veth: veth.as_ref(), ports: 21_000.. };
    let mut sample: Option<Run> = None;
    for &cell in &cells {
        let mut ahead = Ahead::of(cell);
        pairs.measure_all(&cell.to_string(), &table::comparisons(cell), &mut |arm, length, warmup| {
            ahead.fill(&mut place)?;
            match arm {
                SOCKPERF => ahead.measure(cpus),
                SHORTEST => {
                    let wait = cell.wait.to_string();
                    let place = place.veth.filter(|_| cell.link == Link::Veth).map(|veth| [&*veth.client, &*veth.server]);
                    control(&shortest, &[&wait], cpus, length, cell.size, place.as_ref().map_or(&[], |place| place))
                }
                _ => {
                    let path = if arm == NO_PEER { cell.path() + ",connected=off" } else { cell.path() };
                    let run = measure(&mut tool.ping(&cell.link.to_string(), &path, cell.size, length, warmup))?;
                    let block = Block::of_row(&run.results[0]);
                    sample.get_or_insert(run);
                    block
                }
            }
        })?;
    }

    let mut bounds = table::means(&pairs.lines);
    let mut information = Vec::new();
    if !options.cells_only {
        let others = [&others::PACKAGED, options.peers.as_slice()].concat();
        for &cell in &cells {
            pairs.check()?;
            for found in others::measure(cell, &others, &mut place) {
                found.map_or_else(|why| eprintln!("{cell}: {why}"), |found| information.push(found));
            }
        }
        bounds.push(at_most("own cost over a null endpoint", &tool.own_costs(), 45.0, "ns"));
        let scratch = tempfile::tempdir().map_err(|e| format!("no scratch directory: {e}"))?;
        bounds.push(at_most("wall time of a 1.1 s run", &tool.wall_times(scratch.path()), 1.6, "s"));
        if options.long || std::env::var_os("HAIRPIN_BENCH_LONG").is_some_and(|value| value == "1") {
            pairs.check()?;
            eprintln!("10^9 transactions over memory: some minutes");
            bounds.push(peak("RSS after 10^9 transactions", &tool.memory_of_a_billion(), 16.0, "MiB"));
        }
    }

    pairs.check()?;
    if let Some(run) = &mut sample {
        publish(&mut run.body.place.hosts, &mut run.head.command);
    }
    let text = table::tables(&pairs.lines) + &table::text(&bounds, &information);
    let some_cell = cells.first().copied();
    let record = json!({
        "schema": "hairpin.peers/3",
        "started": started,
        "ended": rfc3339(SystemTime::now()),
        "build": build,
        "tool": sample.as_ref().map(|run| &run.head.tool),
        "host": sample.as_ref().map(|run| &run.place.hosts.client),
        "clock": sample.as_ref().map(|run| &run.place.clock),
        "versions": versions,
        "cpus": cpus,
        "pairs_wanted": options.pairs,
        "commands": match some_cell {
            Some(cell) => {
                let [client, server] = place.sockperf(cell)?;
                let hairpin = sample.as_ref().map(|run| run.head.command.join(" "));
                json!({ "hairpin": hairpin, "sockperf_client": words(&client), "sockperf_server": words(&server) })
            }
            None => json!(null),
        },
        "bounds": bounds,
        "information": information,
    });
    pairs.finish(&directory, "peers", &text, record)?;
    let missed = pairs.missed() || bounds.iter().any(|bound| bound.word.missed());
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
    let netpipe = Command::new("dpkg-query").args(["-W", "-f", "${Version}", "netpipe-tcp"]).output().ok();
    let netpipe = netpipe.filter(|of| of.status.success()).map(|of| String::from_utf8_lossy(&of.stdout).into_owned());
    Ok(json!({ "sockperf": sockperf, "qperf": first("qperf").ok(), "iperf": first("iperf").ok(), "netpipe-tcp": netpipe }))
}
