//! Compares two arms cell by cell, by the method of `hairpin compare`: rounds of both in random order, pairs of one core state,
//! an interval of 95 %.
//!
//! ```text
//!   cell ──▶ hairpin_lab::experiment::outside ──▶ a line for each state of the cores: both figures, their ratio with its interval, the bound, a word
//!               └─ each round is a line of pairs.jsonl, and --resume goes on after the last
//! ```
//! States are never put together: a line speaks of one distance of the cores, and a bound holds if it does in each that has
//! enough pairs.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use clap::Args;
use hairpin_lab::experiment::outside::{self, Arms, Block, InState, Pair, Until};
use hairpin_record::compare::Comparison;
use hairpin_record::experiment::{Estimate, Figure};
use hairpin_record::statistics::Ratio;
use hairpin_sys::signal::{SIGINT, SIGTERM, Signals};
use hairpin_units::Nanos;
use serde_json::{Value, json};

use super::bound::{Limit, Word};
use super::code;
use super::journal::Journal;
use super::record::{self, Stop, write};

/// Tries of a block: other tools fail now and then.
const TRIES: usize = 5;
/// The fewest pairs of a state that are judged, unless fewer are wanted in all; as everywhere in `hairpin compare`.
const FEWEST: usize = 12;

/// Flags of every benchmark of pairs.
#[derive(Args)]
pub(crate) struct Flags {
    /// Go on with the pairs in the record, if they are of the same programs
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    pub(crate) record: record::Flags,
}

/// One comparison of a cell.
pub(crate) struct Line {
    pub(crate) cell: String,
    /// The names of both sides; empty where a cell has one comparison.
    pub(crate) compared: &'static str,
    arms: Arms,
    pub(crate) limit: Limit,
    /// Pairs that its bound takes.
    pub(crate) wanted: usize,
    /// Over all states of the cores: how many pairs there are.
    pub(crate) found: Result<Comparison, String>,
    /// In each state by itself, nearest first.
    pub(crate) rows: Vec<Row>,
}

/// The ratio in one state of the cores.
pub(crate) struct Row {
    /// The distance of the cores in ns; `None` where it plays no part, or was never told.
    pub(crate) cores: Option<u64>,
    comparison: Comparison,
}

fn p50(comparison: &Comparison) -> Option<&Estimate> {
    comparison.figures.iter().find(|estimate| estimate.figure == Figure::P50)
}

impl Row {
    fn pairs(&self) -> u64 {
        p50(&self.comparison).map_or(0, |of| of.pairs)
    }
}

impl Line {
    /// True if all states together lack the requested pairs.
    fn lacks(&self) -> bool {
        let pairs = self.found.as_ref().ok().and_then(p50).map_or(0, |of| of.pairs);
        pairs < self.wanted as u64
    }

    /// The ratio in one state with its interval, if it comes from enough pairs.
    pub(crate) fn ratio(&self, row: &Row) -> Option<Ratio> {
        let fewest = if self.wanted == 0 { FEWEST } else { self.wanted.min(FEWEST) };
        let of = p50(&row.comparison).filter(|of| !self.lacks() && of.pairs >= fewest as u64)?;
        Some(Ratio { ratio: of.ratio?, low: of.low?, high: of.high? })
    }

    pub(crate) fn word(&self, row: &Row) -> Word {
        self.ratio(row).map_or(Word::Few, |of| self.limit.judged(of.low, of.high))
    }

    /// True if its bound does not hold in a state that has enough pairs, or none has.
    pub(crate) fn missed(&self) -> bool {
        let mut judged = self.rows.iter().map(|row| self.word(row)).filter(|word| *word != Word::Few).peekable();
        judged.peek().is_none() || judged.any(Word::missed)
    }

    fn text(&self, row: &Row) -> String {
        let of = p50(&row.comparison).cloned().unwrap_or_default();
        let ns = |ns: Option<f64>| match ns {
            Some(ns) if ns < 10_000.0 => format!("{ns:.1}"),
            Some(ns) => format!("{ns:.0}"),
            None => "-".to_owned(),
        };
        let interval = of.low.zip(of.high).map_or("-".to_owned(), |(low, high)| format!("{low:.4}-{high:.4}"));
        format!(
            "{:<23} {:>4} {:>7} {:>8} {:>6} {interval:>13} {:>5} {}",
            self.cell,
            row.pairs(),
            ns(of.value),
            ns(of.base),
            of.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.4}")),
            self.limit.text(),
            self.word(row),
        )
    }

    /// A cell that failed: the reason stands last, behind the command.
    fn failed(&self) -> Option<String> {
        let why = self.found.as_ref().err()?;
        let why = why.rsplit_once("status: ").map_or(why.as_str(), |(_, rest)| rest).replace('\n', " ");
        Some(format!("{:<23} {}: {why:.50}", self.cell, Word::None))
    }

    fn record(&self) -> Value {
        let of_state = |row: &Row| {
            let word = self.word(row).to_string();
            json!({ "core_rtt_ns": row.cores, "mark": word, "comparison": row.comparison })
        };
        let mut record = json!({ "cell": self.cell, "bound": self.limit.text(), "met": !self.missed() });
        if !self.compared.is_empty() {
            record["compared"] = self.compared.into();
        }
        record["states"] = self.rows.iter().map(of_state).collect();
        if let Err(why) = &self.found {
            record["error"] = why.as_str().into();
        }
        record
    }
}

/// The distances of the cores that the lines were measured at, nearest first.
pub(crate) fn distances(lines: &[&Line]) -> Vec<Option<u64>> {
    let all: BTreeSet<Option<u64>> = lines.iter().flat_map(|line| &line.rows).map(|row| row.cores).collect();
    all.into_iter().collect()
}

/// The text for such a distance.
pub(crate) fn distance_text(cores: Option<u64>) -> String {
    cores.map_or("without a distance of the cores".to_owned(), |ns| format!("cores at {ns} ns"))
}

/// The lines of a table, by the distance of the cores; `heads` are the names of both columns, of which the first is divided by
/// the second.
pub(crate) fn table(lines: &[Line], heads: [&str; 2]) -> String {
    table_of("p50", &lines.iter().collect::<Vec<_>>(), heads)
}

/// The same of another figure.
pub(crate) fn table_of(figure: &str, lines: &[&Line], heads: [&str; 2]) -> String {
    let [first, second] = heads;
    let mut text = format!("{figure} in ns; ratio = {first} / {second}, 95 % interval.\n\n");
    let _ = writeln!(
        text,
        "{:<23} {:>4} {first:>7} {second:>8} {:>6} {:>13} {:>5}\n{}",
        "cell",
        "n",
        "ratio",
        "interval",
        "bound",
        "-".repeat(80)
    );
    for cores in distances(lines) {
        let _ = writeln!(text, "{}", distance_text(cores));
        let rows = lines.iter().flat_map(|line| line.rows.iter().map(move |row| (line, row)));
        rows.filter(|(_, row)| row.cores == cores).for_each(|(line, row)| text.push_str(&(line.text(row) + "\n")));
    }
    for line in lines.iter().filter(|line| line.rows.is_empty()) {
        let nothing = || format!("{:<23} {}", line.cell, Word::Few);
        text.push_str(&(line.failed().unwrap_or_else(nothing) + "\n"));
    }
    text
}

/// A benchmark of pairs while it measures.
pub(crate) struct Pairs {
    signals: Signals,
    journal: Journal<Pair>,
    /// When a cell ends.
    pub(crate) until: Until,
    /// The command that is measured.
    pub(crate) hairpin: PathBuf,
    /// The cells so far.
    pub(crate) lines: Vec<Line>,
}

impl Pairs {
    /// Blocks Ctrl-C, and opens the record in `directory`; `programs` tells the compared programs from other builds.
    pub(crate) fn open(flags: &Flags, directory: &Path, programs: &str, until: Until) -> Result<Pairs, Stop> {
        let signals = Signals::block(&[SIGINT, SIGTERM]).map_err(|e| format!("signals: {e}"))?;
        let journal = Journal::open(&directory.join("pairs.jsonl"), programs, flags.resume)?;
        Ok(Pairs { signals, journal, until, hairpin: flags.record.hairpin.clone(), lines: Vec::new() })
    }

    /// Ends the benchmark after Ctrl-C.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if interrupted(&self.signals) { Err(Stop::Interrupted) } else { Ok(()) }
    }

    /// Measures a cell: `block` takes the number of the arm (1 is compared with 0), and the block's length and warm-up.
    pub(crate) fn measure(
        &mut self,
        cell: &str,
        limit: Limit,
        block: &mut dyn FnMut(usize, Nanos, Nanos) -> Result<Block, String>,
    ) -> Result<(), Stop> {
        self.measure_all(cell, &[("", [1, 0], limit)], block)
    }

    /// The same for several arms in the same rounds; each comparison has the names of what it compares, its arms and its bound.
    pub(crate) fn measure_all(
        &mut self,
        cell: &str,
        comparisons: &[(&'static str, Arms, Limit)],
        block: &mut dyn FnMut(usize, Nanos, Nanos) -> Result<Block, String>,
    ) -> Result<(), Stop> {
        let Pairs { signals, journal, until, .. } = self;
        let mut tried = |arm, length, warmup| {
            let mut last = None;
            for _ in 0..TRIES {
                if interrupted(signals) {
                    return Err(None);
                }
                match block(arm, length, warmup) {
                    // A block that Ctrl-C ended early does not count.
                    Ok(_) if interrupted(signals) => return Err(None),
                    Ok(block) => return Ok(block),
                    Err(why) => {
                        eprintln!("{cell}: {why}");
                        last = Some(why);
                    }
                }
            }
            // Ctrl-C ends the other tools too.
            Err(last.filter(|_| !interrupted(signals)))
        };
        let before = journal.of(cell);
        let arms: Vec<Arms> = comparisons.iter().map(|(_, arms, _)| *arms).collect();
        let seed = RandomState::new().hash_one(cell);
        let found = outside::pairs(&arms, *until, seed, before, &mut tried, &mut |pair| journal.add(cell, pair));
        let wanted = match until {
            Until::Time(_) | Until::Width(..) => 0,
            Until::Pairs(wanted) => *wanted,
        };
        let found: Vec<Result<Comparison, String>> = match found {
            Err(None) => return Err(Stop::Interrupted),
            Err(Some(why)) => comparisons.iter().map(|_| Err(why.clone())).collect(),
            Ok(found) => found.into_iter().map(Ok).collect(),
        };
        let first = self.lines.len();
        for (&(compared, arms, limit), found) in comparisons.iter().zip(found) {
            self.lines.push(Line { cell: cell.to_owned(), compared, arms, limit, wanted, found, rows: Vec::new() });
        }
        self.settle();
        for line in &self.lines[first..] {
            let compared = if line.compared.is_empty() { String::new() } else { format!("{}, ", line.compared) };
            let told = |row: &Row| eprintln!("{} {compared}{}", line.text(row), distance_text(row.cores));
            line.rows.iter().for_each(told);
            line.failed().iter().for_each(|failed| eprintln!("{failed}"));
        }
        Ok(())
    }

    /// Splits all cells by the same states of the cores.
    fn settle(&mut self) {
        let measured: Vec<Vec<Pair>> = self.lines.iter().map(|line| self.journal.of(&line.cell)).collect();
        let experiments: Vec<(&[Pair], Arms)> = self
            .lines
            .iter()
            .zip(&measured)
            .map(|(line, pairs)| (if line.found.is_ok() { pairs.as_slice() } else { &[] }, line.arms))
            .collect();
        for (line, states) in self.lines.iter_mut().zip(outside::by_state(&experiments)) {
            let row = |state: InState| Row { cores: state.core_rtt_ns, comparison: state.comparison };
            line.rows = states.into_iter().map(row).collect();
        }
    }

    /// Prints the table, and writes the record: `table.txt`, and `name`.json with the cells and the fields of `record`.
    pub(crate) fn finish(&self, directory: &Path, name: &str, text: &str, mut record: Value) -> Result<(), Stop> {
        record["cells"] = self.lines.iter().map(Line::record).collect();
        record["code"] = code::line(&self.hairpin).into();
        write(&directory.join(format!("{name}.json")), &format!("{record}\n"))?;
        Ok(record::table(directory, text.to_owned(), &self.hairpin)?)
    }

    pub(crate) fn missed(&self) -> bool {
        self.lines.iter().any(Line::missed)
    }
}

/// True after Ctrl-C, or if the signals cannot be read.
pub(crate) fn interrupted(signals: &Signals) -> bool {
    !matches!(signals.next(), Ok(None))
}

#[cfg(test)]
pub(crate) mod tests {
    use hairpin_record::experiment::Verdict;

    use super::*;

    /// A line with one state, whose ratio comes from this many pairs.
    pub(crate) fn line(cell: &str, limit: Limit, [ratio, low, high]: [f64; 3], pairs: u64) -> Line {
        let of = Estimate {
            figure: Figure::P50,
            ratio: Some(ratio),
            low: Some(low),
            high: Some(high),
            base: Some(88_010.4),
            value: Some(8_801.04),
            pairs,
            ..Estimate::default()
        };
        made(cell, limit, vec![of])
    }

    /// The same with the cores at this distance.
    pub(crate) fn at(mut line: Line, cores: u64) -> Line {
        line.rows[0].cores = Some(cores);
        line
    }

    fn made(cell: &str, limit: Limit, figures: Vec<Estimate>) -> Line {
        let rows = vec![Row { cores: Some(120), comparison: comparison(figures.clone()) }];
        let found = Ok(comparison(figures));
        Line { cell: cell.to_owned(), compared: "", arms: [1, 0], limit, wanted: 40, found, rows }
    }

    fn comparison(figures: Vec<Estimate>) -> Comparison {
        let json = json!({
            "arm": "B", "against": "A", "verdict": Verdict::Same, "needs_s": null,
            "pairs": 40, "dropped": 2, "states_used": [], "figures": figures,
        });
        serde_json::from_value(json).unwrap()
    }

    fn words(line: &Line) -> Vec<Word> {
        line.rows.iter().map(|row| line.word(row)).collect()
    }

    #[test]
    fn a_cell_that_lacks_pairs_or_failed_is_shown_and_missed() {
        let few = line("few", Limit::AtMost(2.0), [0.9; 3], 39);
        let infinite = made("five", Limit::None, vec![Estimate::default()]);
        let dropped = made("all dropped", Limit::None, Vec::new());
        let mut nothing = made("no pair of one state", Limit::None, Vec::new());
        nothing.rows.clear();
        let mut failed = line("failed", Limit::None, [0.9; 3], 40);
        (failed.found, failed.rows) = (Err("sockperf took\nlonger ".repeat(20)), Vec::new());
        let lines = [few, infinite, dropped, nothing, failed];
        assert!(lines.iter().all(Line::missed));
        assert!(lines.iter().flat_map(words).all(|word| word == Word::Few));
        let text = table(&lines, ["hairpin", "sockperf"]);
        assert!(text.contains("none: sockperf took longer") && text.contains("no pair of one state    few"), "{text}");
        assert_eq!(lines[4].record()["error"], lines[4].found.clone().unwrap_err());
        let mut failed = line("x", Limit::None, [0.9; 3], 40);
        failed.found = Err("arm A: a command ended with exit status: 2: no xdp".into());
        assert!(failed.failed().unwrap().ends_with("none: 2: no xdp"), "{:?}", failed.failed());
    }

    #[test]
    fn each_state_is_judged_by_itself_and_one_with_few_pairs_is_not() {
        let of = |far: [f64; 3], pairs: u64| {
            let mut near = line("c", Limit::AtMost(1.0), [0.9, 0.89, 0.91], 40);
            near.rows.extend(at(line("c", Limit::AtMost(1.0), far, pairs), 510).rows);
            near
        };
        let good = of([0.8, 0.79, 0.81], 12);
        assert_eq!((words(&good), good.missed()), (vec![Word::Ok, Word::Ok], false));
        let far_misses = of([1.1, 1.09, 1.11], 12);
        assert_eq!((words(&far_misses), far_misses.missed()), (vec![Word::Ok, Word::Miss], true));
        let rarely_far = of([1.1, 1.09, 1.11], 11);
        assert_eq!((words(&rarely_far), rarely_far.missed()), (vec![Word::Ok, Word::Few], false));
        let text = table(&[good, at(line("d", Limit::None, [0.7; 3], 40), 510)], ["a", "b"]);
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("cores at")).collect();
        assert_eq!(heads, ["cores at 120 ns", "cores at 510 ns"], "{text}");
        let (near, far) = text.split_once("cores at 510 ns").unwrap();
        assert!(
            near.contains("0.9000") && !near.contains("0.8000") && far.contains("0.8000") && far.contains("0.7000"),
            "{text}"
        );
    }

    #[test]
    fn the_table_fits_80_columns() {
        let mut failed = line("tcp-block-loopback-1024", Limit::None, [0.9; 3], 40);
        (failed.found, failed.rows) = (Err("a reason ".repeat(20)), Vec::new());
        let lines = [
            line("udp-block-loopback-1024", Limit::AtMost(1.05), [1.0473, 1.0101, 1.0853], 40),
            line("udp:spin", Limit::NoSlower, [1.2; 3], 40),
            failed,
        ];
        let text = table(&lines, ["hairpin", "sockperf"]);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
        assert!(text.contains("  40  8801.0    88010 1.0473 1.0101-1.0853  1.05 unclear"), "{text}");
    }
}
