//! `make bench-packet`: round trips and bounced frames over the packet rings, compared with sockperf and testpmd.
//!
//! ```text
//!   rtt       hairpin against sockperf              64-byte frames over veth, spinning: xdp, xdp native, packet; beside some the shortest C program
//!                                                   over the same ring
//!   size      xdp at 1,500 bytes against 64         cost of a larger frame
//!   bounce    hairpin against testpmd               frames/s sent back, in ns per frame; xdp-bench in the kernel for information
//!   curve     hairpin with batches of 1 to 64       for information
//! ```
//!
//! Exit codes: 0 every bound that was measured is met, 1 failed, 3 a bound is missed or a cell lacks pairs, 4 something that it
//! needs is not here.

use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

use clap::Args;
use hairpin_lab::experiment::outside::{Arms, Block, Until};
use hairpin_record::run::Run;
use hairpin_session::time::rfc3339;
use hairpin_units::Nanos;
use serde_json::json;

use super::bound::{Limit, middle};
use super::children::{self, words};
use super::control::{compiled, control, identity};
use super::hairpin::{Tool, measure};
use super::pairs::{Flags, Pairs};
use super::peers::cells::{Cell as SockperfCell, Link, Transport, Wait};
use super::peers::sockperf::{Ahead, Place};
use super::peers::veth::Veth;
use super::record::{Stop, publish};
use bouncers::{Bouncer, Yard};
use generate::Came;

mod bouncers;
mod generate;
mod table;

/// Payload in bytes of a 64-byte frame (without FCS) over Ethernet, IPv4 and UDP.
const SMALL: u32 = 64 - 42;
/// Payload in bytes of a 1,500-byte frame.
const LARGE: u32 = 1500 - 42;
/// A pair on which AF_XDP sends on a queue of its own.
const APART: &str = "veth:tx-queues=2";
/// A pair with two queues each way …
const BOTH: &str = "veth:queues=2";
/// … and how AF_XDP sends on a queue of its own there in native mode, where veth keeps the queues apart: each side receives where
/// the other sends.
const NATIVE: &str = "xdp:spin,mode=native,queue=0,send-queue=1/xdp:spin,mode=native,queue=1,send-queue=0";
/// Frames under way in a flood: fewer than the chunks that a ring favouring delay begins with.
const WINDOW: usize = 128;
/// Pairs per cell of a full record.
const PAIRS: usize = 30;
/// How long a flood for information is counted.
const FLOOD: Nanos = Nanos::from_millis(250);

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- packet`.
#[derive(Args)]
pub(crate) struct Options {
    /// Cells to measure; all without it
    #[arg(long, value_delimiter = ',')]
    cells: Vec<String>,
    /// Pairs per cell; there are twice as many rounds at most
    #[arg(long, default_value_t = PAIRS)]
    pairs: usize,
    /// The client's CPU and the server's
    #[arg(long, value_delimiter = ',', num_args = 2, default_value = "0,1")]
    cpu: Vec<u32>,
    /// Act as the generator of a bounce cell: a load in JSON
    #[arg(long, hide = true)]
    generate: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

/// The arm of the C program, in cells that have it; 0 is sockperf, 1 is hairpin.
const SHORTEST: usize = 2;
/// The comparisons with the C program, which have no bound.
const FLOORS: [(&str, Arms); 2] = [(table::FLOOR, [1, SHORTEST]), (table::GAP, [SHORTEST, 0])];

/// One comparison: the figure of the first over that of the second.
struct Cell {
    name: &'static str,
    kind: Kind,
    /// The ratio's bound.
    most: f64,
    /// The ring of the shortest C program (`frames.c`) over the same link, where there is one.
    shortest: Option<&'static str>,
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

/// Queues to send and to receive on at either end of a link; `None`: the kernel's default, one of each.
fn queues(link: &str) -> Option<[u32; 2]> {
    match link {
        APART => Some([2, 1]),
        BOTH => Some([2, 2]),
        _ => None,
    }
}

/// Every cell with its bound, in the order measured.
fn cells() -> Vec<Cell> {
    let cell = |name, kind, most| Cell { name, kind, most, shortest: None };
    vec![
        cell("rtt-xdp", Kind::Rtt(APART, "xdp:spin"), 0.38),
        Cell { shortest: Some("xdp"), ..cell("rtt-xdp-one-queue", Kind::Rtt("veth", "xdp:spin"), 0.38) },
        cell("rtt-xdp-native", Kind::Rtt(BOTH, NATIVE), 0.46),
        Cell { shortest: Some("packet"), ..cell("rtt-packet", Kind::Rtt("veth", "packet:spin"), 0.50) },
        cell("size-1500-over-64", Kind::Size, 1.25),
        cell("bounce-testpmd", Kind::Flood(bouncing("adaptive"), Bouncer::Testpmd), 1.0),
    ]
}

/// The generator of a bounce cell, if this process is started as one.
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
    let full = options.cells.is_empty() && options.pairs >= PAIRS;
    let cells: Vec<Cell> = cells()
        .into_iter()
        .filter(|cell| options.cells.is_empty() || options.cells.iter().any(|name| name == cell.name))
        .collect();
    if cells.is_empty() {
        return Err(Stop::Failed(format!("no cell is called {}; one is rtt-xdp", options.cells.join(","))));
    }
    let cpus = [options.cpu[0], options.cpu[1]];
    let tool = Tool { program: options.flags.record.hairpin.clone(), cpus: Some(cpus) };
    let build = tool.build()?;
    let started = rfc3339(SystemTime::now());
    let directory = options.flags.record.directory("packet", full)?;
    let versions = versions()?;
    let programs = format!("{} {} {}", identity(&build, &["frames"], cpus)?, versions["sockperf"], versions["dpdk"]);
    let mut pairs = Pairs::open(&options.flags, &directory, &programs, Until::Pairs(options.pairs))?;
    let veth = Veth::new().map_err(|why| Stop::Missing(format!("two network namespaces need root: {why}")))?;
    let shortest = compiled("frames", &[])?;
    let yard = Yard::new(&tool.program, cpus, &veth)?;
    let mut sample: Option<Run> = None;

    for cell in &cells {
        // sockperf has as many queues as the path beside it.
        let alike = match cell.kind {
            Kind::Rtt(link, _) => Some(Veth::with_queues(queues(link))?),
            _ => None,
        };
        let mut place = Place { cpus, veth: alike.as_ref(), ports: 21_000.. };
        let mut ahead = Ahead::of(SockperfCell { transport: Transport::Udp, wait: Wait::Spin, link: Link::Veth, size: SMALL });
        let mut ping = |link, spec, size, length, warmup| {
            let run = measure(&mut tool.ping(link, spec, size, length, warmup))?;
            let block = Block::of_row(&run.results[0]);
            sample.get_or_insert(run);
            block
        };
        let mut compared = vec![("", [1, 0], Limit::AtMost(cell.most))];
        if cell.shortest.is_some() {
            compared.extend(FLOORS.map(|(name, arms)| (name, arms, Limit::None)));
        }
        pairs.measure_all(cell.name, &compared, &mut |arm, length, warmup| match (&cell.kind, arm) {
            (Kind::Rtt(..), SHORTEST) => {
                let (Some(ring), Some(veth)) = (cell.shortest, place.veth) else { return Err("no such program".to_owned()) };
                control(&shortest, &[ring], cpus, length, SMALL, &[&veth.client, &veth.server])
            }
            (Kind::Rtt(link, spec), _) => {
                ahead.fill(&mut place)?;
                if arm == 0 { ahead.measure(cpus) } else { ping(link, spec, SMALL, length, warmup) }
            }
            (Kind::Size, 0) => ping(APART, "xdp:spin", SMALL, length, warmup),
            (Kind::Size, _) => ping(APART, "xdp:spin", LARGE, length, warmup),
            (Kind::Flood(_, other), 0) => Ok(per_frame(&flood(&yard, other, length)?, cpus)),
            (Kind::Flood(one, _), _) => {
                let mut distance = tool.distance()?;
                let came = flood(&yard, one, length)?;
                distance.extend(tool.distance()?);
                Ok(per_frame(&came, cpus).with_cores(distance))
            }
        })?;
    }
    pairs.check()?;
    let curve = if full { curve(&yard) } else { Vec::new() };
    let ceiling = full.then(|| flood(&yard, &Bouncer::XdpBench, FLOOD).map(|came| came.ns_per_frame()));

    pairs.check()?;
    if let Some(run) = &mut sample {
        publish(&mut run.body.place.hosts, &mut run.head.command);
    }
    let text = table::cells(&pairs.lines) + &table::text(&curve, ceiling.as_ref());
    let record = json!({
        "schema": "hairpin.packet-bench/2",
        "started": started,
        "ended": rfc3339(SystemTime::now()),
        "build": build,
        "host": sample.as_ref().map(|run| &run.place.hosts.client),
        "versions": versions,
        "cpus": cpus,
        "frame_bytes": { "small": 64, "large": 1500 },
        "window": WINDOW,
        "commands": {
            "ping": sample.as_ref().map(|run| run.head.command.join(" ")),
            "bounce": words(&yard.command(&bouncing("adaptive"))),
            "testpmd": words(&yard.command(&Bouncer::Testpmd)),
            "xdp_bench": words(&yard.command(&Bouncer::XdpBench)),
        },
        "ns_per_frame_by_batch": curve.iter().map(|(batch, ns)| json!({ "batch": batch, "ns_per_frame": ns })).collect::<Vec<_>>(),
        "xdp_bench_ns_per_frame": ceiling.as_ref().and_then(|found| found.as_ref().ok()),
    });
    pairs.finish(&directory, "packet", &text, record)?;
    Ok(pairs.missed())
}

/// Circulates a window of 64-byte frames and counts the returned ones; a lost frame is an error.
fn flood(yard: &Yard<'_>, bouncer: &Bouncer, length: Nanos) -> Result<Came, String> {
    let came = yard.measure(bouncer, yard.load(64, WINDOW, length.0 / 1_000_000))?;
    match (came.lost, came.frames) {
        (0, 1..) => Ok(came),
        (lost, frames) => Err(format!("{lost} frames lost beside {frames} that came back")),
    }
}

/// A block of a flood: its time per frame stands where others have the median of their round trips.
fn per_frame(came: &Came, cpus: [u32; 2]) -> Block {
    Block::of_median(came.ns_per_frame(), came.frames, cpus)
}

/// Time per frame against batch size, the middle of three runs each.
fn curve(yard: &Yard<'_>) -> Vec<(u32, f64)> {
    let of_batch = |batch: u32| -> Result<f64, String> {
        let bouncer = bouncing(&batch.to_string());
        let once = || flood(yard, &bouncer, FLOOD).map(|came| came.ns_per_frame());
        Ok(middle(vec![once()?, once()?, once()?]))
    };
    let batches = [1, 2, 4, 8, 16, 32, 64];
    batches
        .into_iter()
        .filter_map(|batch| Some((batch, of_batch(batch).map_err(|why| eprintln!("batch {batch}: {why}")).ok()?)))
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
