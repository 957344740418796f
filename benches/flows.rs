//! `make bench-flows`: many flows with one request in flight on each, by turns with the shortest C program that does the same
//! with epoll (`flows.c`), and one flow through io_uring by turns with the shortest C program that does the same (`ring.c`) and
//! with other ways through the kernel.

use std::process::Command;

use clap::Args;
use hairpin_lab::experiment::outside::{Block, Until};
use hairpin_sys::thread::allowed_cpus;
use hairpin_units::Nanos;
use serde_json::json;

use super::bound::Limit;
use super::control::{compiled, control, identity};
use super::hairpin::{Tool, cores, measure};
use super::pairs::{Flags, Line, Pairs, table_of};
use super::record::Stop;

/// Payload in bytes.
const BYTES: u32 = 64;
const FLOWS: [u32; 3] = [256, 1_000, 10_000];
/// A name, the path of hairpin, and what the C program beside it does.
const PATHS: [(&str, &str, &str); 10] = [
    ("tcp:epoll", "tcp:epoll", "tcp"),
    ("udp:epoll", "udp:epoll", "udp"),
    ("uring-tcp,defer", "uring-tcp:block,ring=defer-taskrun", "tcp"),
    ("uring-udp,defer", "uring-udp:block,ring=defer-taskrun", "udp"),
    ("uring-tcp", "uring-tcp:block", "tcp"),
    ("uring-udp", "uring-udp:block", "udp"),
    ("uring-tcp,defer/C", "uring-tcp:block,ring=defer-taskrun", "tcp,defer"),
    ("uring-udp,defer/C", "uring-udp:block,ring=defer-taskrun", "udp,defer"),
    ("uring-tcp/C", "uring-tcp:block", "tcp,ring"),
    ("uring-udp/C", "uring-udp:block", "udp,ring"),
];
/// Most that hairpin's time per transaction may be, over that of the C program.
const MOST: f64 = 1.05;
/// A block of many flows is long beside the round trip of all of them.
const LEAST: Nanos = Nanos(500_000_000);
/// One flow: a name, a path of hairpin, against `ring.c` or another path of hairpin, and the bound of the ratio.
const ONE_FLOW: [(&str, &str, Against, Limit); 7] = [
    ("spin/C", "uring-udp:spin", Against::Ring("plain"), Limit::AtMost(1.03)),
    ("spin,defer/C", "uring-udp:spin,ring=defer-taskrun", Against::Ring("defer"), Limit::AtMost(1.03)),
    ("multishot/C", "uring-udp:spin,recv=multishot", Against::Ring("multishot"), Limit::AtMost(1.03)),
    ("spin/udp:spin", "uring-udp:spin", Against::Path("udp:spin"), Limit::AtMost(1.0)),
    ("spin,defer/udp:spin", "uring-udp:spin,ring=defer-taskrun", Against::Path("udp:spin"), Limit::AtMost(1.0)),
    ("multishot/single", "uring-udp:spin,recv=multishot", Against::Path("uring-udp:spin"), Limit::None),
    ("sqpoll/call", "uring-udp:spin,submit=sqpoll", Against::Path("uring-udp:spin"), Limit::None),
];

#[derive(Clone, Copy)]
enum Against {
    /// The C program, with this kind of ring.
    Ring(&'static str),
    Path(&'static str),
}

/// Many flows beside a C program with epoll and io_uring, and one through io_uring beside a C program and other paths
#[derive(Args)]
pub(crate) struct Options {
    /// Pairs of each cell
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Cells to measure, separated by commas, by the begin of their names; all of them without it
    #[arg(long, value_delimiter = ',')]
    cells: Vec<String>,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let wanted = |cell: &str| options.cells.is_empty() || options.cells.iter().any(|begin| cell.starts_with(begin.as_str()));
    let directory = options.flags.record.directory("flows", options.cells.is_empty())?;
    let allowed = allowed_cpus().map_err(|e| format!("the CPUs of this process: {e}"))?;
    let [client, server, ..] = allowed[..] else { return Err(Stop::Missing("this takes two CPUs, and one is allowed".into())) };
    let cpus = [client, server];
    let tool = Tool { program: options.flags.record.hairpin.clone(), cpus: Some(cpus) };
    let programs = identity(&tool.build()?, &["flows", "ring"], cpus)?;
    let mut pairs = Pairs::open(&options.flags, &directory, &programs, Until::Pairs(options.pairs))?;
    let [flows_c, ring_c] = [compiled("flows", &["-luring"])?, compiled("ring", &["-luring"])?];
    for (name, path, sockets) in PATHS {
        for flows in FLOWS {
            let cell = format!("{name}-{flows}");
            if !wanted(&cell) {
                continue;
            }
            pairs.measure(&cell, Limit::AtMost(MOST), &mut |arm, length, warmup| {
                let length = length.max(LEAST);
                match arm {
                    0 => control(&flows_c, &[sockets, &flows.to_string()], cpus, length, BYTES, &[]),
                    _ => many(&mut tool.ping("loopback", path, BYTES, length, warmup), flows, cpus),
                }
            })?;
        }
    }
    let rtts = pairs.lines.len();
    for (cell, path, against, limit) in ONE_FLOW {
        if !wanted(cell) {
            continue;
        }
        pairs.measure(cell, limit, &mut |arm, length, warmup| {
            let hairpin = |path| Block::of_row(&measure(&mut tool.ping("loopback", path, BYTES, length, warmup))?.results[0]);
            match (arm, against) {
                (0, Against::Ring(kind)) => control(&ring_c, &[kind], cpus, length, BYTES, &[]),
                (0, Against::Path(other)) => hairpin(other),
                _ => hairpin(path),
            }
        })?;
    }
    let (many, one): (Vec<&Line>, Vec<&Line>) = (pairs.lines[..rtts].iter().collect(), pairs.lines[rtts..].iter().collect());
    let many = table_of("Time per transaction", &many, ["hairpin", "C"]);
    let one = table_of("RTT p50", &one, ["first", "second"]);
    pairs.finish(&directory, "flows", &format!("{many}\n{one}"), json!({ "schema": "hairpin.flows/1", "bytes": BYTES }))?;
    Ok(pairs.missed())
}

/// One run of hairpin over many flows: its time per transaction.
fn many(command: &mut Command, flows: u32, cpus: [u32; 2]) -> Result<Block, String> {
    let run = measure(command.args(["--flows", &flows.to_string()]))?;
    let row = &run.results[0];
    Ok(Block::of_median(1e9 / row.transactions_per_s, row.transactions, cpus).with_cores(cores(row)))
}
