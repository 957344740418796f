//! `make bench-packet`: round trips and bounced frames over the packet rings, held against sockperf and testpmd.
//!
//! ```text
//!   rtt       hairpin, sockperf, hairpin            64-byte frames over veth, spinning: xdp, xdp native, packet
//!   size      xdp at 1,500 bytes, at 64, at 1,500   what a larger frame costs
//!   bounce    hairpin, testpmd, hairpin             frames/s sent back, in ns per frame; xdp-bench in the kernel for information
//!   curve     hairpin with batches of 1 to 64       for information
//! ```
//! Every pair is kept only if the distance between the cores was the same before and after (`core_rtt_ns`).
//!
//! Exit codes: 0 every bound that was measured is met, 1 failed, 3 a bound is missed or a cell lacks pairs, 4 something that it needs is not here.

use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

use clap::Args;
use hairpin_record::statistics::Ratio;
use hairpin_session::time::rfc3339;
use hairpin_sys::signal::{SIGINT, SIGTERM, Signals};
use serde_json::json;

use super::children::{self, words};
use super::peers::cells::{Cell as SockperfCell, Link, Transport, Wait};
use super::peers::hairpin::Tool;
use super::peers::measure::{self, Journal, Wanted, check};
use super::peers::pairs::{self, Hairpin, findings};
use super::peers::sockperf::{Place, Ready};
use super::peers::veth::Veth;
use super::record::{Flags, Stop, write};
use bouncers::{Bouncer, Yard};

mod bouncers;
mod generate;
mod table;

/// Payload in bytes of a 64-byte frame (without FCS) over Ethernet, IPv4 and UDP.
const SMALL: u32 = 64 - 42;
/// Payload in bytes of a 1,500-byte frame.
const LARGE: u32 = 1500 - 42;
/// A pair on which AF_XDP sends on a queue of its own …
const APART: &str = "veth:tx-queues=2";
/// … and how it does so in native mode, where veth keeps the queues apart: each side receives where the other sends.
const NATIVE: &str = "xdp:spin,mode=native,queue=0,send-queue=1/xdp:spin,mode=native,queue=1,send-queue=0";
/// Frames under way in a flood: fewer than the chunks that a ring favouring delay begins with.
const WINDOW: usize = 128;
/// Confidence of every interval.
const CONFIDENCE: f64 = 0.95;

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench --profile dev -- packet`.
#[derive(Args)]
pub(crate) struct Options {
    /// Cells to measure; all without it
    #[arg(long, value_delimiter = ',')]
    cells: Vec<String>,
    /// Pairs to keep per cell [default: 30]
    #[arg(long)]
    pairs: Option<usize>,
    /// Go on with today's record if it was made with the same build
    #[arg(long)]
    resume: bool,
    /// The client's CPU and the server's
    #[arg(long, value_delimiter = ',', num_args = 2, default_value = "0,1")]
    cpu: Vec<u32>,
    /// Cache-line round trips below this many ns are of near cores
    #[arg(long, default_value_t = 250)]
    split_ns: u64,
    /// Be the generator of a bounce cell: a load in JSON
    #[arg(long, hide = true)]
    generate: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

/// One comparison: the figure of the first over that of the second.
struct Cell {
    name: &'static str,
    kind: Kind,
    /// The ratio's bound.
    most: f64,
}

enum Kind {
    /// RTT of a path spec over a link against sockperf's spinning UDP with the same payload.
    Rtt(&'static str, &'static str),
    /// RTT of `xdp:spin` with large frames against small ones, where sending has a queue of its own.
    Size,
    /// Time per frame of one bouncer against another in a flood of 64-byte frames.
    Flood(Bouncer, Bouncer),
}

fn bouncing(flush: &str) -> Bouncer {
    Bouncer::Hairpin { io: "xdp:spin", flush: flush.to_owned() }
}

/// Every cell with its bound, in the order measured.
fn cells() -> Vec<Cell> {
    vec![
        Cell { name: "rtt-xdp", kind: Kind::Rtt(APART, "xdp:spin"), most: 0.38 },
        Cell { name: "rtt-xdp-one-queue", kind: Kind::Rtt("veth", "xdp:spin"), most: 0.38 },
        Cell { name: "rtt-xdp-native", kind: Kind::Rtt("veth:queues=2", NATIVE), most: 0.46 },
        Cell { name: "rtt-packet", kind: Kind::Rtt("veth", "packet:spin"), most: 0.56 },
        Cell { name: "size-1500-over-64", kind: Kind::Size, most: 1.25 },
        Cell { name: "bounce-testpmd", kind: Kind::Flood(bouncing("adaptive"), Bouncer::Testpmd), most: 1.0 },
    ]
}

/// The generator of a bounce cell, if this process is to be one.
pub(crate) fn play(options: &Options) -> Option<ExitCode> {
    let load = options.generate.as_ref()?;
    Some(match serde_json::from_str(load).map_err(|e| e.to_string()).and_then(generate::generate) {
        Ok(came) => {
            println!("{}", json!(came));
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    })
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let signals = Signals::block(&[SIGINT, SIGTERM]).map_err(|e| format!("signals: {e}"))?;
    let full = options.cells.is_empty() && options.pairs.is_none();
    let cells: Vec<Cell> = cells()
        .into_iter()
        .filter(|cell| options.cells.is_empty() || options.cells.iter().any(|name| name == cell.name))
        .collect();
    if cells.is_empty() {
        return Err(Stop::Failed(format!("no cell is called {}; one is rtt-xdp", options.cells.join(","))));
    }
    let wanted = options.pairs.unwrap_or(30);
    let tool =
        Tool { program: options.flags.hairpin.clone(), cpus: [options.cpu[0], options.cpu[1]], split_ns: options.split_ns };
    let build = tool.build()?;
    let started = rfc3339(SystemTime::now());
    let directory = options.flags.directory("packet", full)?;
    let versions = versions()?;
    let veth = Veth::new().map_err(|why| Stop::Missing(format!("two network namespaces need root: {why}")))?;
    let yard = Yard::new(&tool, &veth)?;
    let mut place = Place { cpus: tool.cpus, veth: Some(&veth), ports: 21_000.. };
    let mut journal = Journal::open(&directory.join("pairs.jsonl"), &build, options.resume)?;
    let mut host = None;

    for cell in &cells {
        let enough = Wanted { cell: cell.name.into(), build: &build, pairs: wanted, attempts: 2 * wanted };
        match &cell.kind {
            Kind::Rtt(link, spec) => {
                let once = || {
                    let (found, run) = tool.measured(&mut tool.ping(link, spec, SMALL))?;
                    host.get_or_insert(run.body.place.hosts.client);
                    Ok(found)
                };
                let sockperf = SockperfCell { transport: Transport::Udp, wait: Wait::Spin, link: Link::Veth, size: SMALL };
                let measured = |ready: Ready| Ok(ready.measure()?.p50_ns);
                measure::pairs(&enough, &mut journal, &signals, once, |many| place.ready(sockperf, many), measured)?;
            }
            Kind::Size => {
                let of = |size| tool.measured(&mut tool.ping(APART, "xdp:spin", size)).map(|(found, _)| found);
                measure::pairs(&enough, &mut journal, &signals, || of(LARGE), ready, |()| Ok(of(SMALL)?.p50_ns))?;
            }
            Kind::Flood(one, other) => {
                let flood = |bouncer| flood(&yard, bouncer);
                measure::pairs(&enough, &mut journal, &signals, || with_state(&tool, || flood(one)), ready, |()| flood(other))?;
            }
        }
        let (kept, tried) = journal.count(cell.name);
        eprintln!("{}: {kept} pairs kept of {tried}", cell.name);
    }
    check(&signals)?;
    let curve = if full { curve(&yard) } else { Vec::new() };
    let ceiling = full.then(|| flood(&yard, &Bouncer::XdpBench));

    let lines: Vec<table::Line> = cells
        .iter()
        .map(|cell| {
            let own: Vec<_> = journal.attempts.iter().filter(|attempt| attempt.cell == cell.name).collect();
            let error = own.iter().rev().find_map(|attempt| attempt.error.clone());
            let found = findings(&own).map_err(|e| error.unwrap_or_else(|| e.to_string()));
            table::Line { name: cell.name, tried: own.len(), wanted, most: cell.most, found }
        })
        .collect();
    let text = table::text(&lines, &curve, ceiling.as_ref());
    let record = json!({
        "schema": "hairpin.packet-bench/1",
        "started": started,
        "ended": rfc3339(SystemTime::now()),
        "build": build,
        "host": host,
        "versions": versions,
        "cpus": tool.cpus,
        "split_ns": options.split_ns,
        "frame_bytes": { "small": 64, "large": 1500 },
        "window": WINDOW,
        "commands": {
            "ping": words(&tool.ping(APART, "xdp:spin", SMALL)),
            "bounce": words(&yard.command(&bouncing("adaptive"))),
            "testpmd": words(&yard.command(&Bouncer::Testpmd)),
            "xdp_bench": words(&yard.command(&Bouncer::XdpBench)),
        },
        "cells": lines.iter().filter_map(table::Line::kept).collect::<Vec<_>>(),
        "ns_per_frame_by_batch": curve.iter().map(|(batch, ns)| json!({ "batch": batch, "ns_per_frame": ns })).collect::<Vec<_>>(),
        "xdp_bench_ns_per_frame": ceiling.as_ref().and_then(|found| found.as_ref().ok()),
    });
    write(&directory.join("table.txt"), &text)?;
    write(&directory.join("packet.json"), &format!("{record}\n"))?;
    print!("{text}");
    eprintln!("record: {}", directory.display());
    Ok(lines.iter().any(table::Line::missed))
}

/// Nothing has to be made ready: each run of the other starts when it is its turn.
fn ready(many: usize) -> Result<Vec<()>, String> {
    Ok(vec![(); many])
}

/// Time per frame in ns while a window of 64-byte frames goes round; a frame lost is an error.
fn flood(yard: &Yard<'_>, bouncer: &Bouncer) -> Result<f64, String> {
    let came = yard.measure(bouncer, yard.load(64, WINDOW, 250))?;
    match (came.lost, came.frames) {
        (0, 1..) => Ok(came.seconds * 1e9 / came.frames as f64),
        (lost, frames) => Err(format!("{lost} frames lost beside {frames} that came back")),
    }
}

/// A figure, with the cores' distance before it and after it.
fn with_state(tool: &Tool, figure: impl FnOnce() -> Result<f64, String>) -> Result<Hairpin, String> {
    let cores = || -> Result<Vec<u64>, String> {
        let mut command = tool.ping("loopback", "memory:spin", 8);
        command.args(["--count", "20000"]);
        Ok(tool.measured(&mut command)?.0.core_rtt_ns)
    };
    let mut core_rtt_ns = cores()?;
    let p50_ns = figure()?;
    core_rtt_ns.extend(cores()?);
    let near = core_rtt_ns.iter().filter(|ns| **ns < tool.split_ns).count();
    let state = match near {
        _ if core_rtt_ns.is_empty() => pairs::State::Unknown,
        0 => pairs::State::Far,
        all if all == core_rtt_ns.len() => pairs::State::Near,
        _ => pairs::State::Mixed,
    };
    Ok(Hairpin { p50_ns, transactions: 0, state, core_rtt_ns })
}

/// Time per frame against batch size, the middle of three runs each.
fn curve(yard: &Yard<'_>) -> Vec<(u32, f64)> {
    let middle = |batch: u32| -> Result<f64, String> {
        let bouncer = bouncing(&batch.to_string());
        let mut runs = [flood(yard, &bouncer)?, flood(yard, &bouncer)?, flood(yard, &bouncer)?];
        runs.sort_by(f64::total_cmp);
        Ok(runs[1])
    };
    let batches = [1, 2, 4, 8, 16, 32, 64];
    batches
        .into_iter()
        .filter_map(|batch| Some((batch, middle(batch).map_err(|why| eprintln!("batch {batch}: {why}")).ok()?)))
        .collect()
}

/// The version of each tool; all of them must be here.
fn versions() -> Result<serde_json::Value, Stop> {
    let first = |tool: &str| -> Result<String, Stop> {
        let output = Command::new(tool)
            .arg("--version")
            .output()
            .map_err(|e| Stop::Missing(format!("{tool}: {e}; install it: apt-get install sockperf dpdk-dev xdp-tools")))?;
        let text = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or("").trim().to_owned())
    };
    let dpdk = children::run(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "dpdk-dev"]), Duration::from_secs(10))
        .map_err(|why| Stop::Missing(format!("{why}; install DPDK's testpmd: apt-get install dpdk-dev")))?;
    Ok(json!({ "sockperf": first("sockperf")?, "dpdk": dpdk.trim(), "xdp-bench": first("xdp-bench")? }))
}

/// The interval of a cell.
fn interval(found: &pairs::Findings) -> Ratio {
    found.ratio.interval(CONFIDENCE)
}
