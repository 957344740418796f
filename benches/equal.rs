//! `make bench-equal`: `hairpin ping` by turns with the shortest C program over the same kind of sockets, connected on both sides (`equal.c`).
//!
//! Other tools leave their sockets unconnected, so that each send looks up its route: a tool with connected sockets is ahead of them from
//! the start. The bound: the interval of p50 over p50 includes 1 or lies below it, and is at most 2 % wide.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use hairpin_lab::experiment::outside::{Block, Until};
use hairpin_sys::thread::allowed_cpus;
use hairpin_units::Nanos;
use serde_json::json;

use super::children::run;
use super::hairpin::{Tool, measure};
use super::pairs::{Flags, Limit, Pairs, table};
use super::record::Stop;

/// Payload in bytes.
const BYTES: u32 = 64;
const POLICIES: [&str; 2] = ["spin", "block"];

/// `udp` against the shortest C program with connected sockets: the p50 of hairpin over that of the program
#[derive(Args)]
pub(crate) struct Options {
    /// Time of each wait policy, in s
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
    let mut pairs = Pairs::open(&options.flags, &directory, &tool.build()?, until)?;
    let program = compiled()?;
    for policy in POLICIES {
        let path = format!("udp:{policy}");
        pairs.measure(&path, Limit::NoSlower, &mut |arm, length, warmup| match arm {
            0 => shortest(&program, policy, cpus, length),
            _ => Block::of_row(&measure(&mut tool.ping("loopback", &path, BYTES, length, warmup))?.results[0]),
        })?;
    }
    let text = table(&pairs.lines, ["hairpin", "C"]);
    let record = json!({ "schema": "hairpin.equal/2", "seconds": options.seconds, "bytes": BYTES });
    pairs.finish(&directory, "equal", &text, record)?;
    Ok(pairs.missed())
}

/// The C program, compiled into the build's scratch directory.
fn compiled() -> Result<PathBuf, Stop> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("equal");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/equal.c");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"]).arg(&program).arg(source);
    run(&mut cc, Duration::from_secs(60)).map_err(Stop::Missing)?;
    Ok(program)
}

/// One run of it.
fn shortest(program: &Path, policy: &str, cpus: [u32; 2], length: Nanos) -> Result<Block, String> {
    let mut command = Command::new(program);
    command.arg(policy).args(cpus.map(|cpu| cpu.to_string()));
    command.args([(length.0 / 1_000_000).max(1).to_string(), BYTES.to_string()]);
    let said = run(&mut command, Duration::from_secs(30))?;
    let mut words = said.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(p50)), Some(Ok(transactions))) = (words.next(), words.next()) else {
        return Err(format!("{} said \"{}\"", program.display(), said.trim()));
    };
    Ok(Block::of_median(p50 as f64, transactions, cpus))
}
