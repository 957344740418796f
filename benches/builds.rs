//! `make bench-builds OLD=… NEW=…`: two builds of the command by turns in one run, path by path, to show that a change of the measuring loop costs nothing.
//!
//! ```text
//!   round    old │ new, or new │ old: each a `hairpin ping` of its own, pinned as it pins itself
//!   path     p50 of new over p50 of old with its 95 % interval, by the pairs, core states and intervals of `hairpin compare`
//! ```
//! The bound of a path is met if its interval includes 1 or lies below it and is at most 2 % wide.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use hairpin_lab::experiment::outside;
use hairpin_record::experiment::{Estimate, Figure};
use hairpin_record::run::{Row, Run};
use hairpin_sys::signal::{SIGINT, SIGTERM, Signals};
use hairpin_units::Nanos;
use serde_json::json;

use super::children::run;
use super::record::{Flags, Stop, from_caller, write};

/// Every path that is held, over loopback unless it takes a pair of interfaces.
const PATHS: [&str; 8] = ["udp:spin", "tcp:spin", "unix:spin", "memory", "niq:spin", "xdp:spin", "packet:spin", "udp:block"];
const OVER_VETH: [&str; 2] = ["xdp", "packet"];
/// An interval may be as wide as this.
const WIDEST: f64 = 0.02;

/// Two builds of the command by turns: the p50 of the new one over that of the old one, path by path
#[derive(Args)]
pub(crate) struct Options {
    /// The command built before the change
    #[arg(long)]
    old: PathBuf,
    /// The command built after it [default: the one just built]
    #[arg(long)]
    new: Option<PathBuf>,
    /// Paths to measure, separated by commas; all of them without it
    #[arg(long, value_delimiter = ',')]
    paths: Vec<String>,
    /// Time of each path, in s
    #[arg(long, default_value_t = 120.0)]
    seconds: f64,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let signals = Signals::block(&[SIGINT, SIGTERM]).map_err(|e| format!("signals: {e}"))?;
    let new = options.new.as_deref().map_or_else(|| options.flags.hairpin.clone(), from_caller);
    let programs = [from_caller(&options.old), new];
    let all = options.paths.is_empty();
    let paths: Vec<&str> = if all { PATHS.into() } else { options.paths.iter().map(String::as_str).collect() };
    let directory = options.flags.directory("builds", all)?;
    let (mut found, mut text) = (Vec::new(), String::new());
    for path in paths {
        let compared = outside::pairs(
            Duration::from_secs_f64(options.seconds),
            RandomState::new().hash_one(path),
            &mut |arm, length, warmup| {
                if signals.next().is_ok_and(|signal| signal.is_some()) {
                    return Err(None);
                }
                ping(&programs[arm], path, length, warmup).map_err(Some)
            },
        );
        let (line, missed) = match compared {
            Ok(comparison) => {
                let (line, missed) =
                    judged(comparison.figures.iter().find(|estimate| estimate.figure == Figure::P50), ["old", "new"]);
                found.push(json!({ "path": path, "met": !missed, "comparison": comparison }));
                (line, missed)
            }
            Err(None) => return Err(Stop::Interrupted),
            Err(Some(why)) => {
                found.push(json!({ "path": path, "met": false, "error": why }));
                (format!("failed: {why}"), true)
            }
        };
        let line = format!("{path:<12} {line}");
        println!("{line}");
        let _ = writeln!(text, "{line}{}", if missed { "  MISSED" } else { "" });
    }
    let missed = found.iter().filter(|path| path["met"] == false).count();
    let sum = format!(
        "{missed} of {} paths miss the bound: p50 of new over old includes 1 or lies below, at most {WIDEST} wide",
        found.len()
    );
    println!("{sum}");
    write(&directory.join("table.txt"), &format!("{text}{sum}\n"))?;
    let record = json!({ "schema": "hairpin.builds/1", "seconds": options.seconds, "widest": WIDEST, "paths": found });
    write(&directory.join("builds.json"), &format!("{record}\n"))?;
    Ok(missed > 0)
}

/// One row of a `hairpin ping`, over loopback or for a ring over a veth pair.
pub(crate) fn ping(program: &Path, path: &str, length: Nanos, warmup: Nanos) -> Result<Row, String> {
    let link = if OVER_VETH.iter().any(|name| path.split([':', ',']).next() == Some(name)) { "veth" } else { "loopback" };
    let mut command = Command::new(program);
    command.args(["ping", "--link", link, "--path", path, "--json", "--no-store"]);
    command.args(["--duration", &format!("{}ns", length.0), "--warmup", &format!("{}ns", warmup.0)]);
    let run: Run =
        serde_json::from_str(&run(&mut command, Duration::from_secs(30))?).map_err(|e| format!("{}: {e}", program.display()))?;
    match (run.head.error.clone(), run.body.results.into_iter().next()) {
        (None, Some(row)) => Ok(row),
        (why, _) => Err(format!("{}: {}", program.display(), why.unwrap_or_else(|| "no result".to_owned()))),
    }
}

/// A path in words, and whether it misses the bound.
pub(crate) fn judged(p50: Option<&Estimate>, [first, second]: [&str; 2]) -> (String, bool) {
    let Some(&Estimate { ratio: Some(ratio), low: Some(low), high: Some(high), base, value, pairs, .. }) = p50 else {
        return ("too few pairs for an interval: measure for longer".to_owned(), true);
    };
    let (slower, wide) = (low > 1.0, high - low > WIDEST);
    let word = match (slower, wide) {
        (true, _) => "slower",
        (false, true) => "too wide to tell",
        (false, false) if high < 1.0 => "lies below 1",
        (false, false) => "includes 1",
    };
    let ns = |value: Option<f64>| value.map_or_else(String::new, |ns| format!("{ns:.1}"));
    (
        format!(
            "{first} {:>9} ns  {second} {:>9} ns  ratio {ratio:.4} [{low:.4}, {high:.4}]  {pairs:>4} pairs  {word}",
            ns(base),
            ns(value)
        ),
        slower || wide,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: f64, high: f64) -> (String, bool) {
        let p50 = Estimate {
            ratio: Some(f64::midpoint(low, high)),
            low: Some(low),
            high: Some(high),
            base: Some(1000.0),
            ..Estimate::default()
        };
        judged(Some(&p50), ["old", "new"])
    }

    #[test]
    fn a_path_is_met_if_it_is_no_slower_and_its_interval_is_narrow() {
        for (low, high, word, missed) in [
            (0.995, 1.005, "includes 1", false),
            (0.95, 0.96, "lies below 1", false),
            (1.001, 1.003, "slower", true),
            (1.01, 1.05, "slower", true),
            (0.98, 1.01, "too wide", true),
            (0.90, 0.95, "too wide", true),
        ] {
            let (line, found) = of(low, high);
            assert!(found == missed && line.contains(word), "{low} to {high}: {line}");
        }
        assert!(judged(None, ["old", "new"]).1, "no interval");
    }
}
