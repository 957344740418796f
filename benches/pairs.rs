//! Compares two arms cell by cell, by the method of `hairpin compare`: rounds of both in random order, pairs of one core state, an interval of 95 %.
//!
//! ```text
//!   cell ──▶ hairpin_lab::experiment::outside ──▶ a line of the table: both figures, their ratio with its interval, the bound, a word
//!               └─ each round is a line of pairs.jsonl, and --resume goes on after the last
//! ```

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::path::Path;

use clap::Args;
use hairpin_lab::experiment::outside::{self, Block, Until};
use hairpin_record::compare::Comparison;
use hairpin_record::experiment::{Estimate, Figure};
use hairpin_record::statistics::Ratio;
use hairpin_sys::signal::{SIGINT, SIGTERM, Signals};
use hairpin_units::Nanos;
use serde_json::{Value, json};

use super::record::{self, Stop, write};
use journal::Journal;

mod journal;

/// An interval that shows two things to be equal is at most this wide.
pub(crate) const WIDEST: f64 = 0.02;
/// Tries of a block: other tools fail now and then.
const TRIES: usize = 5;

/// Flags of every benchmark of pairs.
#[derive(Args)]
pub(crate) struct Flags {
    /// Go on with the pairs in the record, if they are of the same programs
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    pub(crate) record: record::Flags,
}

/// The bound of a cell's ratio. It holds if the whole interval is within it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    AtMost(f64),
    /// The interval includes 1 or lies below it, and is at most [`WIDEST`] wide.
    NoSlower,
    /// The interval lies within this share of 1.
    Within(f64),
    None,
}

impl Limit {
    /// `ok`, `-` without a bound, or how it is missed.
    fn judged(self, found: Ratio) -> &'static str {
        match self {
            Limit::AtMost(most) if found.low > most => "MISS",
            Limit::AtMost(most) if found.high > most => "over",
            Limit::NoSlower if found.low > 1.0 => "slow",
            Limit::NoSlower if found.high - found.low > WIDEST => "wide",
            Limit::Within(share) if found.low > 1.0 + share || found.high < 1.0 - share => "MISS",
            Limit::Within(share) if found.low < 1.0 - share || found.high > 1.0 + share => "over",
            Limit::AtMost(_) | Limit::NoSlower | Limit::Within(_) => "ok",
            Limit::None => "-",
        }
    }

    fn text(self) -> String {
        match self {
            Limit::AtMost(most) => format!("{most:.2}"),
            Limit::NoSlower => "1".to_owned(),
            Limit::Within(share) => format!("±{:.0}%", share * 100.0),
            Limit::None => "-".to_owned(),
        }
    }
}

/// The result of a cell.
pub(crate) struct Line {
    pub(crate) cell: String,
    pub(crate) limit: Limit,
    /// Pairs that its bound takes.
    pub(crate) wanted: usize,
    pub(crate) found: Result<Comparison, String>,
}

impl Line {
    fn p50(&self) -> Option<&Estimate> {
        self.found.as_ref().ok()?.figures.iter().find(|estimate| estimate.figure == Figure::P50)
    }

    /// The ratio with its interval, if it comes from the requested number of pairs.
    pub(crate) fn ratio(&self) -> Option<Ratio> {
        let of = self.p50().filter(|of| of.pairs >= self.wanted as u64)?;
        Some(Ratio { ratio: of.ratio?, low: of.low?, high: of.high? })
    }

    fn mark(&self) -> &'static str {
        match (&self.found, self.ratio()) {
            (Err(_), _) => "none",
            (_, None) => "few",
            (_, Some(ratio)) => self.limit.judged(ratio),
        }
    }

    /// True if its bound is missed, or it lacks pairs.
    pub(crate) fn missed(&self) -> bool {
        !matches!(self.mark(), "ok" | "-")
    }

    fn text(&self) -> String {
        let (cell, mark) = (&self.cell, self.mark());
        let comparison = match &self.found {
            Ok(comparison) => comparison,
            // The reason stands last, behind the command.
            Err(why) => {
                let why = why.rsplit_once("status: ").map_or(why.as_str(), |(_, rest)| rest).replace('\n', " ");
                return format!("{cell:<23} {mark}: {why:.50}");
            }
        };
        let of = self.p50().cloned().unwrap_or_default();
        let ns = |ns: Option<f64>| match ns {
            Some(ns) if ns < 10_000.0 => format!("{ns:.1}"),
            Some(ns) => format!("{ns:.0}"),
            None => "-".to_owned(),
        };
        let interval = of.low.zip(of.high).map_or("-".to_owned(), |(low, high)| format!("{low:.4}-{high:.4}"));
        format!(
            "{cell:<23} {:>7} {:>7} {:>8} {:>6} {interval:>13} {:>5} {mark}",
            format!("{}/{}", of.pairs, comparison.pairs + comparison.dropped),
            ns(of.value),
            ns(of.base),
            of.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.4}")),
            self.limit.text(),
        )
    }

    fn record(&self) -> Value {
        let mut record = json!({ "cell": self.cell, "bound": self.limit.text(), "mark": self.mark(), "met": !self.missed() });
        match &self.found {
            Ok(comparison) => record["comparison"] = json!(comparison),
            Err(why) => record["error"] = json!(why),
        }
        record
    }
}

/// The lines of a table; `heads` are the names of both columns, of which the first is divided by the second.
pub(crate) fn table(lines: &[Line], heads: [&str; 2]) -> String {
    table_of("p50", lines, heads)
}

/// The same of another figure.
pub(crate) fn table_of(figure: &str, lines: &[Line], heads: [&str; 2]) -> String {
    let [first, second] = heads;
    let mut text = format!("{figure} in ns; ratio = {first} / {second}, 95 % interval. Pairs: used / rounds.\n\n");
    let _ = writeln!(
        text,
        "{:<23} {:>7} {first:>7} {second:>8} {:>6} {:>13} {:>5}\n{}",
        "cell",
        "pairs",
        "ratio",
        "interval",
        "bound",
        "-".repeat(80)
    );
    lines.iter().for_each(|line| text.push_str(&(line.text() + "\n")));
    text
}

/// A benchmark of pairs while it measures.
pub(crate) struct Pairs {
    signals: Signals,
    journal: Journal,
    until: Until,
    /// The cells so far.
    pub(crate) lines: Vec<Line>,
}

impl Pairs {
    /// Blocks Ctrl-C, and opens the record in `directory`; `programs` tells the compared programs from other builds.
    pub(crate) fn open(flags: &Flags, directory: &Path, programs: &str, until: Until) -> Result<Pairs, Stop> {
        let signals = Signals::block(&[SIGINT, SIGTERM]).map_err(|e| format!("signals: {e}"))?;
        let journal = Journal::open(&directory.join("pairs.jsonl"), programs, flags.resume)?;
        Ok(Pairs { signals, journal, until, lines: Vec::new() })
    }

    /// Ends the benchmark after Ctrl-C.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if interrupted(&self.signals) { Err(Stop::Interrupted) } else { Ok(()) }
    }

    /// Measures a cell: `block` takes the number of the arm, of which 1 is compared with 0, and the block's length and warm-up.
    pub(crate) fn measure(
        &mut self,
        cell: &str,
        limit: Limit,
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
        let found =
            outside::pairs(*until, RandomState::new().hash_one(cell), before, &mut tried, &mut |pair| journal.add(cell, pair));
        let found = match found {
            Err(None) => return Err(Stop::Interrupted),
            Err(Some(why)) => Err(why),
            Ok(comparison) => Ok(comparison),
        };
        let wanted = match until {
            Until::Time(_) | Until::Width(..) => 0,
            Until::Pairs(wanted) => *wanted,
        };
        let line = Line { cell: cell.to_owned(), limit, wanted, found };
        eprintln!("{}", line.text());
        self.lines.push(line);
        Ok(())
    }

    /// Prints the table, and writes the record: `table.txt`, and `name`.json with the cells and the fields of `record`.
    pub(crate) fn finish(&self, directory: &Path, name: &str, text: &str, mut record: Value) -> Result<(), Stop> {
        record["cells"] = self.lines.iter().map(Line::record).collect();
        print!("{text}");
        write(&directory.join("table.txt"), text)?;
        write(&directory.join(format!("{name}.json")), &format!("{record}\n"))?;
        eprintln!("record: {}", directory.display());
        Ok(())
    }

    pub(crate) fn missed(&self) -> bool {
        self.lines.iter().any(Line::missed)
    }
}

/// True after Ctrl-C, or if the signals cannot be read.
fn interrupted(signals: &Signals) -> bool {
    !matches!(signals.next(), Ok(None))
}

#[cfg(test)]
pub(crate) mod tests {
    use hairpin_record::experiment::Verdict;

    use super::*;

    /// A line whose ratio comes from this many pairs of 40 rounds.
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
        Line { cell: cell.to_owned(), limit, wanted: 40, found: Ok(comparison(vec![of])) }
    }

    fn comparison(figures: Vec<Estimate>) -> Comparison {
        let json = json!({
            "arm": "B", "against": "A", "verdict": Verdict::Same, "needs_s": null,
            "pairs": 40, "dropped": 2, "states_used": [], "figures": figures,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_bound_holds_if_the_whole_interval_does() {
        for (limit, low, high, mark) in [
            (Limit::AtMost(0.38), 0.360, 0.375, "ok"),
            (Limit::AtMost(0.38), 0.368, 0.388, "over"),
            (Limit::AtMost(0.38), 0.489, 0.494, "MISS"),
            (Limit::NoSlower, 0.995, 1.005, "ok"),
            (Limit::NoSlower, 0.95, 0.96, "ok"),
            (Limit::NoSlower, 1.001, 1.003, "slow"),
            (Limit::NoSlower, 1.01, 1.05, "slow"),
            (Limit::NoSlower, 0.98, 1.01, "wide"),
            (Limit::NoSlower, 0.90, 0.95, "wide"),
            (Limit::Within(0.03), 0.98, 1.02, "ok"),
            (Limit::Within(0.03), 0.96, 0.98, "over"),
            (Limit::Within(0.03), 1.04, 1.05, "MISS"),
            (Limit::Within(0.03), 0.90, 0.96, "MISS"),
            (Limit::None, 1.2, 1.3, "-"),
        ] {
            let line = line("c", limit, [f64::midpoint(low, high), low, high], 40);
            assert_eq!((line.mark(), line.missed()), (mark, !["ok", "-"].contains(&mark)), "{limit:?} {low} {high}");
        }
    }

    #[test]
    fn a_cell_that_lacks_pairs_or_failed_is_shown_and_missed() {
        let few = line("few", Limit::AtMost(2.0), [0.9; 3], 39);
        let infinite = Line { found: Ok(comparison(vec![Estimate::default()])), ..line("five", Limit::None, [0.9; 3], 40) };
        let dropped = Line { found: Ok(comparison(Vec::new())), ..line("all dropped", Limit::None, [0.9; 3], 40) };
        let failed = Line { found: Err("sockperf took\nlonger ".repeat(20)), ..line("failed", Limit::None, [0.9; 3], 40) };
        let lines = [few, infinite, dropped, failed];
        assert_eq!(lines.each_ref().map(Line::mark), ["few", "few", "few", "none"]);
        assert!(lines.iter().all(Line::missed));
        assert!(lines[3].text().contains("none: sockperf took longer"), "{}", lines[3].text());
        let failed = Line {
            found: Err("arm A: a command ended with exit status: 2: no xdp".into()),
            ..line("x", Limit::None, [0.9; 3], 40)
        };
        assert!(failed.text().ends_with("none: 2: no xdp"), "{}", failed.text());
        assert_eq!(lines[3].record()["error"], lines[3].found.clone().unwrap_err());
    }

    #[test]
    fn the_table_fits_80_columns() {
        let lines = [
            line("udp-block-loopback-1024", Limit::AtMost(1.05), [1.0473, 1.0101, 1.0853], 40),
            line("udp:spin", Limit::NoSlower, [1.2; 3], 40),
            Line { found: Err("a reason ".repeat(20)), ..line("tcp-block-loopback-1024", Limit::None, [0.9; 3], 40) },
        ];
        let text = table(&lines, ["hairpin", "sockperf"]);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
        assert!(text.contains("40/42  8801.0    88010 1.0473 1.0101-1.0853  1.05 over"), "{text}");
    }
}
