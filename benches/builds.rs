//! `make bench-builds OLD=… NEW=…`: two builds of the command by turns, path by path, to show that a change of the measuring loop
//! costs nothing.
//!
//! The bound of a path is met if the interval of new over old includes 1 or lies below it and is at most 2 % wide.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hairpin_lab::experiment::outside::{Block, Until};
use hairpin_units::Nanos;
use serde_json::json;

use super::bound::{Limit, WIDEST};
use super::hairpin::{Tool, measure};
use super::pairs::{Flags, Pairs, table};
use super::record::{Stop, from_caller};

/// Every path that is compared, over loopback unless it takes a pair of interfaces.
const PATHS: [&str; 8] = ["udp:spin", "tcp:spin", "unix:spin", "memory", "niq:spin", "xdp:spin", "packet:spin", "udp:block"];
const OVER_VETH: [&str; 2] = ["xdp", "packet"];
/// With `memory` the cores alternate between two states several times a second, and a shorter block is more often in one of them.
const MEMORY: Nanos = Nanos(50_000_000);
/// Payload in bytes.
const BYTES: u32 = 64;

/// Two builds of the command by turns: the p50 of the new one over that of the old one, path by path
#[derive(Args)]
pub(crate) struct Options {
    /// The command built before the change
    #[arg(long)]
    old: PathBuf,
    /// The command built after the change [default: the one just built]
    #[arg(long)]
    new: Option<PathBuf>,
    /// Paths to measure, separated by commas; all of them without it
    #[arg(long, value_delimiter = ',')]
    paths: Vec<String>,
    /// The most time of each path, in s; it ends as soon as the interval is narrow enough
    #[arg(long, default_value_t = 600.0)]
    seconds: f64,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let new = options.new.as_deref().map_or_else(|| options.flags.record.hairpin.clone(), from_caller);
    let builds = [from_caller(&options.old), new].map(|program| Tool { program, cpus: None });
    let all = options.paths.is_empty();
    let paths: Vec<&str> = if all { PATHS.into() } else { options.paths.iter().map(String::as_str).collect() };
    let directory = options.flags.record.directory("builds", all)?;
    let programs = format!("{} {}", builds[0].build()?, builds[1].build()?);
    let mut pairs =
        Pairs::open(&options.flags, &directory, &programs, Until::Width(WIDEST, Duration::from_secs_f64(options.seconds)))?;
    pairs.hairpin.clone_from(&builds[1].program);
    for path in paths {
        let link = if OVER_VETH.iter().any(|name| path.split([':', ',']).next() == Some(name)) { "veth" } else { "loopback" };
        let most = if path == "memory" { MEMORY } else { Nanos(u64::MAX) };
        pairs.measure(path, Limit::NoSlower, &mut |arm, length, warmup| {
            let length = length.min(most);
            Block::of_row(&measure(&mut builds[arm].ping(link, path, BYTES, length, warmup))?.results[0])
        })?;
    }
    let missed = pairs.lines.iter().filter(|line| line.missed()).count();
    let text = format!(
        "{}{missed} of {} paths miss the bound: the interval includes 1 or lies below, and is at most {WIDEST} wide\n",
        table(&pairs.lines, ["new", "old"]),
        pairs.lines.len()
    );
    pairs.finish(
        &directory,
        "builds",
        &text,
        json!({ "schema": "hairpin.builds/2", "seconds": options.seconds, "widest": WIDEST }),
    )?;
    Ok(missed > 0)
}
