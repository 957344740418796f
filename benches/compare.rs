//! `make bench-compare`: the rate of false alarms of `hairpin compare`, and its rate of finding a small real
//! difference.
//!
//! ```text
//!   null     A against the same A, short: a verdict of faster or slower is a false word           } ≤ 5 % of the words said, of both parts
//!   same     A against the same A on spinning paths for 60 s                                      } ≥ 80 % say `same`
//!   power    the two ports of an echo server (delayed.c) that waits at the second, for 30 s:
//!            1 % of p50 (spin) or 5 % (block)                                                       ≥ 80 % say `slower`
//!   gate     --baseline with ten runs, each row measured anew five times, nothing changed         ≤ 2 % of the words said close the gate
//!   change   the same, and the server has come to wait 5 % of p50 longer                          ≥ 80 % of the gates close
//! ```
//! A word is any verdict but `unclear`. A share is told with its exact 95 % interval, and a bound holds if the whole interval
//! does: for that all of 20 trials must say the word, and none of the first 72 words may be false.
//!
//! The ten runs of a gate's baseline are those before the last ten gates, as moods of a host last for minutes. A change of 5 %
//! can be found that often where runs differ by at most 1.5 % (standard deviation); where they differ more, `change` has no
//! bound, and the table says so.
//!
//! `injected` is how much longer the server really waited. In `power` a program that shares no code with hairpin makes that wait
//! and measures it, during the very comparison; in `change` it is the difference of the turn-arounds by hairpin's own server. The
//! trials of all cells are taken in turn. Exit codes: 0 the bounds are met, 1 failed, 3 one is missed or unclear.

use std::fmt::{self, Write as _};
use std::time::Duration;

use clap::{Args, ValueEnum};
use hairpin_record::experiment::Verdict;
use hairpin_sys::signal::{SIGINT, SIGTERM, Signals};

use super::bound::{Limit, Word, middle, of_count, share_text};
use super::control::sources;
use super::hairpin::Tool;
use super::journal::Journal;
use super::pairs::interrupted;
use super::record::{Flags, Stop};
use gate::{BASELINE, Baseline};
use trial::Trial;

mod delayed;
mod gate;
mod trial;

/// A cell: its part, path and link, and the share of p50 by which the second side is slower.
struct Cell {
    part: Part,
    path: &'static str,
    link: &'static str,
    slower: f64,
}

const CELLS: [Cell; 12] = [
    Cell { part: Part::Null, path: "udp:spin", link: "loopback", slower: 0.0 },
    Cell { part: Part::Null, path: "tcp:spin", link: "veth", slower: 0.0 },
    Cell { part: Part::Null, path: "udp:block", link: "loopback", slower: 0.0 },
    Cell { part: Part::Null, path: "memory", link: "loopback", slower: 0.0 },
    Cell { part: Part::Same, path: "udp:spin", link: "loopback", slower: 0.0 },
    Cell { part: Part::Same, path: "tcp:spin", link: "veth", slower: 0.0 },
    Cell { part: Part::Power, path: "udp:spin", link: "echo", slower: 0.01 },
    Cell { part: Part::Power, path: "udp:block", link: "echo", slower: 0.05 },
    Cell { part: Part::Gate, path: "udp:spin", link: "loopback", slower: 0.0 },
    Cell { part: Part::Gate, path: "tcp:spin", link: "veth", slower: 0.0 },
    Cell { part: Part::Change, path: "udp:spin", link: "loopback", slower: 0.05 },
    Cell { part: Part::Change, path: "tcp:spin", link: "veth", slower: 0.05 },
];

/// Pause between the runs of the first baseline.
const APART: Duration = Duration::from_secs(15);
/// Standard deviation between runs up to which a gate must find a change of 5 %.
const RUNS_DIFFER: f64 = 0.015;

/// The parts of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Part {
    /// False alarms of short comparisons
    Null,
    /// Share of verdicts `same` after a minute
    Same,
    /// Small differences that are there
    Power,
    /// False alarms of a gate against several runs of a baseline
    Gate,
    /// A change of 5 % that such a gate must find
    Change,
}

impl Part {
    const ALL: [Part; 5] = [Part::Null, Part::Same, Part::Power, Part::Gate, Part::Change];

    /// Length of a comparison, or of each run of a gate.
    fn seconds(self) -> f64 {
        match self {
            Part::Gate | Part::Change => 1.0,
            Part::Null => 6.0,
            Part::Same => 60.0,
            Part::Power => 30.0,
        }
    }

    /// Trials of a cell: of `null` and of `gate` 200 in all.
    fn trials(self) -> usize {
        match self {
            Part::Gate => 100,
            Part::Change => 20,
            Part::Null => 50,
            Part::Same => 20,
            Part::Power => 20,
        }
    }

    /// The verdicts that count, in words, and the bound on their share.
    fn bound(self) -> (&'static str, Limit) {
        match self {
            Part::Null => ("faster or slower", Limit::None),
            Part::Same => ("same", Limit::AtLeast(0.80)),
            Part::Power => ("slower", Limit::AtLeast(0.80)),
            Part::Gate => ("slower: the gate closes", Limit::AtMost(0.02)),
            Part::Change => ("slower: the gate closes", Limit::AtLeast(0.80)),
        }
    }

    fn counts(self, verdict: Verdict) -> bool {
        match self {
            Part::Null => matches!(verdict, Verdict::Faster | Verdict::Slower),
            Part::Same => verdict == Verdict::Same,
            Part::Power | Part::Gate | Part::Change => verdict == Verdict::Slower,
        }
    }
}

/// The share of false words in the words said, where nothing differs.
const FALSE_WORDS: Limit = Limit::AtMost(0.05);

/// Options of the benchmark, after `cargo bench --package hairpin-cli --bench bench -- compare`.
#[derive(Args)]
pub(crate) struct Options {
    /// A part alone; repeatable; all if not given
    #[arg(long)]
    part: Vec<Part>,
    /// Trials of each cell instead of 50 (null), 20 (same), 20 (power), 100 (gate) and 20 (change)
    #[arg(long)]
    trials: Option<usize>,
    /// Length of each comparison in s instead of 6, 60 and 30, and of each run of a gate instead of 1
    #[arg(long)]
    seconds: Option<f64>,
    /// Go on after the trials in the record, if they are of the same build
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    flags: Flags,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", name(self.part), self.path, self.link)
    }
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let directory = options.flags.directory("compare", true)?;
    let signals = Signals::block(&[SIGINT, SIGTERM]).map_err(|e| format!("signals: {e}"))?;
    let tool = Tool { program: options.flags.hairpin.clone(), cpus: None };
    let programs = format!("{} {} {:?}", tool.build()?, sources(&["delayed"])?, options.seconds);
    let mut journal = Journal::open(&directory.join("trials.jsonl"), &programs, options.resume)?;
    let mut text = format!(
        "{:6} {:10} {:9} {:>7} {:>8} {:>6} {:>6} {:>6} {:>6} {:>7} {:>8} {:>9} {:>7} {:>6} {:>8}\n",
        "part",
        "path",
        "link",
        "slower",
        "injected",
        "trials",
        "faster",
        "slower",
        "same",
        "unclear",
        "ratio",
        "interval",
        "runs",
        "pairs",
        "dropped"
    );
    let mut words = Vec::new();
    // Of the parts in which nothing differs.
    let (mut said, mut wrong) = (0, 0);
    for part in Part::ALL.into_iter().filter(|part| options.part.is_empty() || options.part.contains(part)) {
        let cells: Vec<&Cell> = CELLS.iter().filter(|cell| cell.part == part).collect();
        let found = taken(options, part, &cells, &mut journal, &signals)?;
        let (says, limit) = part.bound();
        let (mut all, mut alarms) = (0, 0);
        for (cell, trials) in cells.iter().zip(&found) {
            let counted = trials.iter().filter(|trial| part.counts(trial.verdict)).count();
            let of_cell = trials.iter().filter(|trial| trial.verdict != Verdict::Unclear).count();
            let false_words = trials.iter().filter(|trial| matches!(trial.verdict, Verdict::Faster | Verdict::Slower)).count();
            (all, alarms) = (all + of_cell, alarms + false_words);
            let _ = writeln!(text, "{}", line(cell, trials));
            let differ = middle(trials.iter().filter_map(|trial| trial.between_runs).collect());
            let mut limit = if part == Part::Gate { Limit::None } else { limit };
            if part == Part::Change && differ > RUNS_DIFFER {
                let _ = writeln!(text, "  no bound: runs differ by {:.1} %", 100.0 * differ);
                limit = Limit::None;
            }
            if limit != Limit::None {
                let word = limit.of(of_count(counted, trials.len()));
                let share = share_text(counted, trials.len());
                let _ = writeln!(text, "  {share} say {says}; bound {}: {word}", limit.text());
                words.push(word);
            }
        }
        match part {
            Part::Null | Part::Same => (said, wrong) = (said + all, wrong + alarms),
            Part::Gate => {
                let word = limit.of(of_count(alarms, all));
                let _ = writeln!(
                    text,
                    "  {} of the words said close the gate; bound {}: {word}",
                    share_text(alarms, all),
                    limit.text()
                );
                words.push(word);
            }
            Part::Power | Part::Change => {}
        }
        text.push('\n');
        if part == Part::Same || part == Part::Null && !options.part.is_empty() && !options.part.contains(&Part::Same) {
            let word = FALSE_WORDS.of(of_count(wrong, said));
            let share = share_text(wrong, said);
            let _ = writeln!(
                text,
                "false words where nothing differs: {share} of the words said; bound {}: {word}\n",
                FALSE_WORDS.text()
            );
            words.push(word);
        }
    }
    let missed = words.into_iter().any(Word::missed);
    text.push_str(if missed { "a bound is missed or unclear\n" } else { "all bounds are met\n" });
    options.flags.table(&directory, text)?;
    Ok(missed)
}

/// The trials of each cell of a part: those of the journal, and then the rest.
fn taken(
    options: &Options,
    part: Part,
    cells: &[&Cell],
    journal: &mut Journal<Trial>,
    signals: &Signals,
) -> Result<Vec<Vec<Trial>>, Stop> {
    let wanted = options.trials.unwrap_or(part.trials());
    let mut found: Vec<Vec<Trial>> = cells.iter().map(|cell| journal.of(&cell.to_string())).collect();
    found.iter_mut().for_each(|trials| trials.truncate(wanted));
    if found.iter().all(|trials| trials.len() == wanted) {
        return Ok(found);
    }
    // Ctrl-C ends the measuring hairpin too.
    let stopped = |why| if interrupted(signals) { Stop::Interrupted } else { Stop::Failed(why) };
    let mut baselines: Vec<Baseline> = Vec::new();
    if matches!(part, Part::Gate | Part::Change) {
        baselines = cells.iter().map(|cell| Baseline::begin(options, cell)).collect::<Result<_, _>>().map_err(stopped)?;
        for _ in 1..BASELINE {
            std::thread::sleep(APART);
            if interrupted(signals) {
                return Err(Stop::Interrupted);
            }
            let mut both = baselines.iter_mut().zip(cells);
            both.try_for_each(|(baseline, cell)| baseline.measure(options, cell)).map_err(stopped)?;
        }
    }
    for round in 0..wanted {
        for (at, cell) in cells.iter().enumerate().filter(|(at, _)| found[*at].len() <= round).collect::<Vec<_>>() {
            if interrupted(signals) {
                return Err(Stop::Interrupted);
            }
            let trial = match part {
                Part::Gate | Part::Change => {
                    baselines[at].measure(options, cell).and_then(|()| baselines[at].gate(options, cell))
                }
                Part::Power => delayed::power(options, cell, round),
                Part::Null | Part::Same => trial::against_itself(options, cell, round),
            };
            let trial = trial.map_err(stopped)?;
            // A trial that Ctrl-C ended early does not count.
            if interrupted(signals) {
                return Err(Stop::Interrupted);
            }
            eprintln!("{cell}, {} of {wanted}: {}", round + 1, trial.verdict);
            journal.add(&cell.to_string(), &trial)?;
            found[at].push(trial);
        }
    }
    Ok(found)
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Null => "null",
        Part::Same => "same",
        Part::Power => "power",
        Part::Gate => "gate",
        Part::Change => "change",
    }
}

fn line(cell: &Cell, trials: &[Trial]) -> String {
    let of = |verdict| trials.iter().filter(|trial| trial.verdict == verdict).count();
    let percent = |share: f64| if share.is_finite() { format!("{:.2}%", share * 100.0) } else { "-".into() };
    format!(
        "{:6} {:10} {:9} {:>6}% {:>8} {:6} {:6} {:6} {:6} {:7} {:8.4} ±{:7.2}% {:>7} {:6.0} {:8.0}",
        name(cell.part),
        cell.path,
        cell.link,
        cell.slower * 100.0,
        percent(middle(trials.iter().filter_map(|trial| trial.injected).collect())),
        trials.len(),
        of(Verdict::Faster),
        of(Verdict::Slower),
        of(Verdict::Same),
        of(Verdict::Unclear),
        middle(trials.iter().filter_map(|trial| trial.ratio).collect()),
        100.0 * middle(trials.iter().filter_map(|trial| trial.half).collect()),
        percent(middle(trials.iter().filter_map(|trial| trial.between_runs).collect())),
        middle(trials.iter().map(|trial| trial.pairs as f64).collect()),
        middle(trials.iter().map(|trial| trial.dropped as f64).collect()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_of_twenty_trials_meet_the_bound_and_nineteen_leave_it_unclear() {
        let word = |part: Part, counted, all| part.bound().1.of(of_count(counted, all));
        assert_eq!([20, 19, 10].map(|found| word(Part::Power, found, 20)), [Word::Ok, Word::Unclear, Word::Miss]);
        assert_eq!([0, 1, 20].map(|closed| word(Part::Gate, closed, 200)), [Word::Ok, Word::Unclear, Word::Miss]);
        // Out of the words said: a rule that hardly ever speaks shows nothing.
        assert_eq!(
            [(0, 72), (0, 35), (20, 100)].map(|(wrong, said)| FALSE_WORDS.of(of_count(wrong, said))),
            [Word::Ok, Word::Unclear, Word::Miss]
        );
    }
}
