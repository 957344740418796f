//! `make bench-equal`: `hairpin ping` by turns with the shortest C program over the same kind of sockets, connected on both sides
//! (`equal.c`).
//!
//! Other tools leave their sockets unconnected, so that each send looks up its route: a tool with connected sockets is ahead of
//! them from the start. The bound: the whole interval of p50 over p50 is at most 1.03, in each state of the cores. A blocking
//! receive of hairpin's ends after 100 ms at most; held against the program with the same limit it has no bound, and shows what
//! the limit takes.

use std::time::Duration;

use clap::Args;
use hairpin_lab::experiment::outside::{Block, Until};
use hairpin_sys::thread::allowed_cpus;
use serde_json::json;

use super::bound::Limit;
use super::control::{compiled, control, identity};
use super::hairpin::{Tool, measure};
use super::pairs::{Flags, Pairs, table};
use super::record::Stop;

/// Payload in bytes.
const BYTES: u32 = 64;
/// Most that hairpin's p50 may be, over that of the program.
const MOST: f64 = 1.03;
/// The cells by name: how the program waits, hairpin's path, and the bound.
const CELLS: [(&str, &str, &str, Limit); 3] = [
    ("udp:spin", "spin", "udp:spin", Limit::AtMost(MOST)),
    ("udp:block", "block", "udp:block", Limit::AtMost(MOST)),
    ("udp:block-c-100ms", "block-100ms", "udp:block", Limit::None),
];

/// `udp` against the shortest C program with connected sockets: the p50 of hairpin over that of the program
#[derive(Args)]
pub(crate) struct Options {
    /// Time of each cell, in s
    #[arg(long, default_value_t = 120.0)]
    seconds: f64,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let directory = options.flags.record.directory("equal", true)?;
    let allowed = allowed_cpus().map_err(|e| format!("the CPUs of this process: {e}"))?;
    let [client, server, ..] = allowed[..] else { return Err(Stop::Missing("this takes two CPUs, and one is allowed".into())) };
    let cpus = [client, server];
    let tool = Tool { program: options.flags.record.hairpin.clone(), cpus: Some(cpus) };
    let until = Until::Time(Duration::from_secs_f64(options.seconds));
    let mut pairs = Pairs::open(&options.flags, &directory, &identity(&tool.build()?, &["equal"], cpus)?, until)?;
    let program = compiled("equal", &[])?;
    for (cell, waits, path, limit) in CELLS {
        pairs.measure(cell, limit, &mut |arm, length, warmup| match arm {
            0 => control(&program, &[waits], cpus, length, BYTES, &[]),
            _ => Block::of_row(&measure(&mut tool.ping("loopback", path, BYTES, length, warmup))?.results[0]),
        })?;
    }
    let text = table(&pairs.lines, ["hairpin", "C"]);
    let record = json!({ "schema": "hairpin.equal/2", "seconds": options.seconds, "bytes": BYTES });
    pairs.finish(&directory, "equal", &text, record)?;
    Ok(pairs.missed())
}
