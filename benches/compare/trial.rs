//! One comparison by `hairpin compare`, and what it said.

use std::process::Command;
use std::time::Duration;

use hairpin_record::compare::Compare;
use hairpin_record::experiment::{Figure, Verdict};
use hairpin_record::run::Run;
use serde::{Deserialize, Serialize};

use super::super::children;
use super::{Cell, Options};

/// One comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    pub(super) verdict: Verdict,
    /// By how much the second side's server waited longer, as a share of p50; `None` where it did not.
    pub(super) injected: Option<f64>,
    pub(super) ratio: Option<f64>,
    /// Half the interval's width as a share.
    pub(super) half: Option<f64>,
    /// The standard deviation between runs, as a share; of a gate.
    pub(super) between_runs: Option<f64>,
    pub(super) pairs: u64,
    pub(super) dropped: u64,
}

/// A delay in ns, and the share of p50 that it was measured to be.
pub(super) struct Delay {
    pub(super) ns: f64,
    pub(super) share: f64,
}

/// A path against itself.
pub(super) fn against_itself(options: &Options, cell: &Cell, round: usize) -> Result<Trial, String> {
    let (mut command, seconds) = comparison(options, cell, round);
    command.args(["--link", cell.link, "--", cell.path, "--", cell.path]);
    let record = compared(&mut command, 60.0 + 2.0 * seconds)?;
    let verdict = record.comparisons.first().ok_or("no comparison")?.verdict;
    told(&record, verdict, None)
}

pub(super) fn comparison(options: &Options, cell: &Cell, round: usize) -> (Command, f64) {
    let seconds = options.seconds.unwrap_or(cell.part.seconds());
    let mut command = Command::new(&options.flags.hairpin);
    command.args(["compare", "--json", "--no-store", "--seed", &round.to_string(), "--duration", &format!("{seconds}s")]);
    (command, seconds)
}

pub(super) fn compared(command: &mut Command, limit_s: f64) -> Result<Compare, String> {
    let text = children::run(command, Duration::from_secs_f64(limit_s))?;
    // A gate that closes says so on stderr too.
    let json = text.lines().rfind(|line| line.starts_with('{')).ok_or_else(|| format!("hairpin printed no JSON: {text}"))?;
    let record: Compare = serde_json::from_str(json).map_err(|e| format!("hairpin's JSON: {e}"))?;
    record.head.error.as_ref().map_or(Ok(()), |error| Err(format!("hairpin: {error}")))?;
    Ok(record)
}

pub(super) fn told(record: &Compare, verdict: Verdict, delay: Option<Delay>) -> Result<Trial, String> {
    let comparison = record.comparisons.first().ok_or("no comparison")?;
    let found = comparison.figures.iter().find(|found| found.figure == Figure::P50);
    Ok(Trial {
        verdict,
        injected: delay.map(|delay| delay.share),
        ratio: found.and_then(|found| found.ratio),
        half: found.and_then(|found| Some((found.high? / found.low?).sqrt() - 1.0)),
        between_runs: found.and_then(|found| found.between_runs),
        pairs: comparison.pairs,
        dropped: comparison.dropped,
    })
}

pub(super) fn ping(options: &Options, link: &str, path: &str, seconds: f64) -> Result<Run, String> {
    serde_json::from_str(&pinged(options, &["--link", link], path, seconds, &[])?).map_err(|e| format!("hairpin's JSON: {e}"))
}

pub(super) fn pinged(options: &Options, target: &[&str], path: &str, seconds: f64, more: &[&str]) -> Result<String, String> {
    let mut command = Command::new(&options.flags.hairpin);
    let duration = format!("{seconds}s");
    command.arg("ping").args(target).args(["--path", path, "--duration", &duration, "--warmup", "0.1s", "--json", "--no-store"]);
    command.args(more);
    children::run(&mut command, Duration::from_secs_f64(60.0 + 2.0 * seconds))
}
