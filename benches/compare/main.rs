//! `make bench-compare`: how often `hairpin compare` tells apart what is the same, and how often it finds a small difference that is there.
//!
//! ```text
//!   null     A against the same A, short: a verdict of faster or slower is a false alarm       ≤ 5 % of the trials
//!   same     A against the same A on spinning paths for 60 s                                     ≥ 80 % say `same`
//!   power    A against A whose server waits 1 % of p50 longer (spin) or 5 % (block), for 30 s    ≥ 90 % say `slower`
//! ```
//! The trials of all cells are taken in turn. Exit codes: 0 the bounds are met, 1 failed, 3 one is missed.

#![forbid(unsafe_code)]
// The parts shared with the peer benchmark have more than this one needs.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use hairpin_record::compare::Compare;
use hairpin_record::experiment::{Figure, Verdict};
use hairpin_record::run::Run;
use serde_json::json;

#[path = "../peers/children.rs"]
mod children;
#[path = "../peers/record.rs"]
mod record;

use record::{Flags, Stop, write};

/// A cell: its part, path and link, and the share of p50 by which the second side is slower.
struct Cell {
    part: Part,
    path: &'static str,
    link: &'static str,
    slower: f64,
}

const CELLS: [Cell; 8] = [
    Cell { part: Part::Null, path: "udp:spin", link: "loopback", slower: 0.0 },
    Cell { part: Part::Null, path: "tcp:spin", link: "veth", slower: 0.0 },
    Cell { part: Part::Null, path: "udp:block", link: "loopback", slower: 0.0 },
    Cell { part: Part::Null, path: "memory", link: "loopback", slower: 0.0 },
    Cell { part: Part::Same, path: "udp:spin", link: "loopback", slower: 0.0 },
    Cell { part: Part::Same, path: "tcp:spin", link: "veth", slower: 0.0 },
    Cell { part: Part::Power, path: "udp:spin", link: "loopback", slower: 0.01 },
    Cell { part: Part::Power, path: "udp:block", link: "loopback", slower: 0.05 },
];

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Part {
    /// False alarms of short comparisons
    Null,
    /// How many say `same` after a minute
    Same,
    /// Small differences that are there
    Power,
}

impl Part {
    const ALL: [Part; 3] = [Part::Null, Part::Same, Part::Power];

    /// Length of a comparison.
    fn seconds(self) -> f64 {
        match self {
            Part::Null => 6.0,
            Part::Same => 60.0,
            Part::Power => 30.0,
        }
    }

    /// Trials of a cell: of `null` 200 in all.
    fn trials(self) -> usize {
        match self {
            Part::Null => 50,
            Part::Same => 10,
            Part::Power => 20,
        }
    }

    /// The share of verdicts that count, and whether it must be at most or at least so.
    fn bound(self) -> (&'static str, f64, bool) {
        match self {
            Part::Null => ("faster or slower", 0.05, true),
            Part::Same => ("same", 0.80, false),
            Part::Power => ("slower", 0.90, false),
        }
    }

    fn counts(self, verdict: Verdict) -> bool {
        match self {
            Part::Null => matches!(verdict, Verdict::Faster | Verdict::Slower),
            Part::Same => verdict == Verdict::Same,
            Part::Power => verdict == Verdict::Slower,
        }
    }
}

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench compare --profile dev --`.
#[derive(Parser)]
struct Options {
    /// A part alone; repeatable; all if not given
    #[arg(long)]
    part: Vec<Part>,
    /// Trials of each cell instead of 50 (null), 10 (same) and 20 (power)
    #[arg(long)]
    trials: Option<usize>,
    /// Length of each comparison in s instead of 6, 60 and 30
    #[arg(long)]
    seconds: Option<f64>,
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.flags.run("compare", "an hour", || bench(&options))
}

/// One comparison.
struct Trial {
    verdict: Verdict,
    ratio: Option<f64>,
    /// Half the interval's width as a share.
    half: Option<f64>,
    pairs: u64,
    dropped: u64,
}

/// Measures; true if a bound is missed.
fn bench(options: &Options) -> Result<bool, Stop> {
    let directory = options.flags.directory("compare", true)?;
    let lines = directory.join("trials.jsonl");
    let mut lines = fs::File::create(&lines).map_err(|e| format!("{}: {e}", lines.display()))?;
    let mut text = format!(
        "{:6} {:10} {:9} {:>7} {:>6} {:>6} {:>6} {:>6} {:>7} {:>8} {:>9} {:>6} {:>8}\n",
        "part",
        "path",
        "link",
        "slower",
        "trials",
        "faster",
        "slower",
        "same",
        "unclear",
        "ratio",
        "interval",
        "pairs",
        "dropped"
    );
    let mut missed = false;
    for part in Part::ALL.into_iter().filter(|part| options.part.is_empty() || options.part.contains(part)) {
        let cells: Vec<&Cell> = CELLS.iter().filter(|cell| cell.part == part).collect();
        let mut found: BTreeMap<usize, Vec<Trial>> = BTreeMap::new();
        for round in 0..options.trials.unwrap_or(part.trials()) {
            for (at, cell) in cells.iter().enumerate() {
                let trial = trial(options, cell, round)?;
                eprintln!("{} {}/{}: {}", name(part), cell.path, round + 1, trial.verdict);
                let line = json!({"part": name(part), "path": cell.path, "link": cell.link, "slower": cell.slower, "verdict": trial.verdict,
                    "ratio": trial.ratio, "half_interval": trial.half, "pairs": trial.pairs, "dropped": trial.dropped});
                writeln!(lines, "{line}").map_err(|e| e.to_string())?;
                found.entry(at).or_default().push(trial);
            }
        }
        let (words, bound, at_most) = part.bound();
        let (mut all, mut counted) = (0, 0);
        for (at, trials) in &found {
            let count = trials.iter().filter(|trial| part.counts(trial.verdict)).count();
            (all, counted) = (all + trials.len(), counted + count);
            let _ = writeln!(text, "{}", line(cells[*at], trials));
            // False alarms are counted over all cells, the rest cell by cell.
            if !at_most {
                missed |= (count as f64) < bound * trials.len() as f64;
            }
        }
        if at_most {
            missed |= counted as f64 > bound * all as f64;
        }
        let sign = if at_most { "at most" } else { "at least" };
        let _ = writeln!(text, "{}: {counted} of {all} say {words}; {sign} {} % may or must\n", name(part), bound * 100.0);
    }
    text.push_str(if missed { "a bound is MISSED\n" } else { "all bounds are met\n" });
    write(&directory.join("table.txt"), &text)?;
    print!("{text}");
    eprintln!("record: {}", directory.display());
    Ok(missed)
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Null => "null",
        Part::Same => "same",
        Part::Power => "power",
    }
}

fn line(cell: &Cell, trials: &[Trial]) -> String {
    let of = |verdict| trials.iter().filter(|trial| trial.verdict == verdict).count();
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    format!(
        "{:6} {:10} {:9} {:>6}% {:6} {:6} {:6} {:6} {:7} {:8.4} ±{:7.2}% {:6.0} {:8.0}",
        name(cell.part),
        cell.path,
        cell.link,
        cell.slower * 100.0,
        trials.len(),
        of(Verdict::Faster),
        of(Verdict::Slower),
        of(Verdict::Same),
        of(Verdict::Unclear),
        middle(trials.iter().filter_map(|trial| trial.ratio).collect()),
        100.0 * middle(trials.iter().filter_map(|trial| trial.half).collect()),
        middle(trials.iter().map(|trial| trial.pairs as f64).collect()),
        middle(trials.iter().map(|trial| trial.dropped as f64).collect()),
    )
}

fn trial(options: &Options, cell: &Cell, round: usize) -> Result<Trial, String> {
    let seconds = options.seconds.unwrap_or(cell.part.seconds());
    let mut second = cell.path.to_owned();
    if cell.slower > 0.0 {
        let _ = write!(second, ",delay={:.0}", cell.slower * p50(options, cell)?);
    }
    let mut command = Command::new(&options.flags.hairpin);
    command.args(["compare", "--link", cell.link, "--json", "--seed", &round.to_string(), "--duration", &format!("{seconds}s")]);
    command.args(["--", cell.path, "--", &second]);
    let text = children::run(&mut command, Duration::from_secs_f64(60.0 + 2.0 * seconds))?;
    let record: Compare = serde_json::from_str(&text).map_err(|e| format!("hairpin's JSON: {e}"))?;
    if let Some(error) = record.error {
        return Err(format!("hairpin: {error}"));
    }
    let comparison = record.comparisons.first().ok_or("no comparison")?;
    let found = comparison.figures.iter().find(|found| found.figure == Figure::P50);
    Ok(Trial {
        verdict: comparison.verdict,
        ratio: found.and_then(|found| found.ratio),
        half: found.and_then(|found| Some((found.high? / found.low?).sqrt() - 1.0)),
        pairs: comparison.pairs,
        dropped: comparison.dropped,
    })
}

/// The median RTT in ns, measured for a second just before.
fn p50(options: &Options, cell: &Cell) -> Result<f64, String> {
    let mut command = Command::new(&options.flags.hairpin);
    command.args([
        "ping",
        "--link",
        cell.link,
        "--path",
        cell.path,
        "--duration",
        "1s",
        "--warmup",
        "0.1s",
        "--json",
        "--no-store",
    ]);
    let run: Run = serde_json::from_str(&children::run(&mut command, Duration::from_secs(60))?)
        .map_err(|e| format!("hairpin's JSON: {e}"))?;
    run.results.first().and_then(|row| row.rtt_ns.p50).map(|ns| ns as f64).ok_or_else(|| "no p50".into())
}
