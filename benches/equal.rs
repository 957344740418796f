//! `make bench-equal`: `hairpin ping` by turns with the shortest C program over the same kind of sockets, connected on both sides (`equal.c`).
//!
//! Other tools leave their sockets unconnected, so that each send looks up its route: held against those, a tool with connected sockets is ahead before it has
//! done anything. The bound: the interval of p50 over p50 includes 1 or lies below it, and is at most 2 % wide.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use hairpin_lab::experiment::outside;
use hairpin_record::experiment::Figure;
use hairpin_record::histogram::Times;
use hairpin_record::run::{CpuSide, Row};
use hairpin_sys::signal::{SIGINT, SIGTERM, Signals};
use hairpin_sys::thread::allowed_cpus;
use hairpin_units::Nanos;
use serde_json::json;

use super::builds::{judged, ping};
use super::children::run;
use super::record::{Flags, Stop, write};

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
    let signals = Signals::block(&[SIGINT, SIGTERM]).map_err(|e| format!("signals: {e}"))?;
    let directory = options.flags.directory("equal", true)?;
    // Where `hairpin ping` measures too, unless it is told otherwise.
    let allowed = allowed_cpus().map_err(|e| format!("the CPUs of this process: {e}"))?;
    let [client, server, ..] = allowed[..] else { return Err(Stop::Missing("this takes two CPUs, and one is allowed".into())) };
    let program = compiled()?;
    let (mut found, mut text) = (Vec::new(), String::new());
    for policy in POLICIES {
        let compared = outside::pairs(
            Duration::from_secs_f64(options.seconds),
            RandomState::new().hash_one(policy),
            &mut |arm, length, warmup| {
                if signals.next().is_ok_and(|signal| signal.is_some()) {
                    return Err(None);
                }
                match arm {
                    0 => shortest(&program, policy, [client, server], length).map_err(Some),
                    // The C program cannot tell how far the cores are from each other, so that no pair may ask for it.
                    _ => {
                        let row = ping(&options.flags.hairpin, &format!("udp:{policy}"), length, warmup).map_err(Some)?;
                        Ok(Row { blocks: Vec::new(), ..row })
                    }
                }
            },
        );
        let comparison = compared.map_err(|why| why.map_or(Stop::Interrupted, Stop::Failed))?;
        let (line, missed) = judged(comparison.figures.iter().find(|of| of.figure == Figure::P50), ["C", "hairpin"]);
        let line = format!("udp:{policy:<6} {line}");
        println!("{line}");
        let _ = writeln!(text, "{line}{}", if missed { "  MISSED" } else { "" });
        found.push(json!({ "policy": policy, "bytes": BYTES, "met": !missed, "comparison": comparison }));
    }
    write(&directory.join("table.txt"), &text)?;
    let record = json!({ "schema": "hairpin.equal/1", "seconds": options.seconds, "policies": found });
    write(&directory.join("equal.json"), &format!("{record}\n"))?;
    Ok(found.iter().any(|policy| policy["met"] == false))
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

/// One run of it as a row: its median stands for its round trips.
fn shortest(program: &Path, policy: &str, cpus: [u32; 2], length: Nanos) -> Result<Row, String> {
    let mut command = Command::new(program);
    command.arg(policy).args(cpus.map(|cpu| cpu.to_string()));
    command.args([(length.0 / 1_000_000).max(1).to_string(), BYTES.to_string()]);
    let said = run(&mut command, Duration::from_secs(30))?;
    let mut words = said.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(p50)), Some(Ok(transactions))) = (words.next(), words.next()) else {
        return Err(format!("{} said \"{}\"", program.display(), said.trim()));
    };
    let mut times = Times::new();
    // A quantile wants samples; only the median is compared.
    (0..transactions.min(1_000)).for_each(|_| times.record(p50));
    let mut row = Row { path: format!("C, {policy}"), transactions, duration_ns: length.0, ..Row::default() };
    row.histogram = times.encode();
    row.cpu.client.cpus = vec![cpus[0]];
    row.cpu.server = Some(CpuSide { cpus: vec![cpus[1]], ..CpuSide::default() });
    Ok(row)
}
