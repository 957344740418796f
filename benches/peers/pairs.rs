//! Attempts at a pair: which are kept, and what the kept ones say about a cell.

use hairpin_record::paired::moods;
use hairpin_record::run::Block;
use hairpin_record::statistics::{LogMean, NoMean, standard_deviation};
use serde::{Deserialize, Serialize};

/// Confidence of every interval.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// How far apart the two cores were while hairpin measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Every block below the split.
    Near,
    /// Every block at or above it.
    Far,
    /// Blocks on both sides of it.
    Mixed,
    /// No block knows.
    Unknown,
}

/// One run of hairpin: its median and the state of the cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hairpin {
    /// Median RTT in ns; where a cell is about a rate, ns per frame.
    pub(crate) p50_ns: f64,
    /// Round trips.
    pub(crate) transactions: u64,
    pub(crate) state: State,
    /// The cache-line round trip of each block that has one.
    pub(crate) core_rtt_ns: Vec<u64>,
}

/// One attempt at a pair, as the record keeps it: a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) cell: String,
    /// RFC 3339, UTC.
    pub(crate) at: String,
    /// Which build of hairpin ran, so that a resumed record does not mix two.
    pub(crate) build: String,
    /// hairpin before and after the other; those that ran.
    pub(crate) hairpin: Vec<Hairpin>,
    /// The other's figure of the same kind, if it came to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) other_p50_ns: Option<f64>,
    /// Why there are figures missing, if something failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The state of a run from its blocks, split at `split_ns`.
pub(crate) fn state(blocks: &[Block], split_ns: u64) -> State {
    let mut near = blocks.iter().filter_map(|block| block.core_rtt_ns).map(|ns| ns < split_ns);
    match near.next() {
        None => State::Unknown,
        Some(first) if near.any(|other| other != first) => State::Mixed,
        Some(true) => State::Near,
        Some(false) => State::Far,
    }
}

impl State {
    /// True if a run in this state can be held against another.
    pub(crate) fn is_one(self) -> bool {
        matches!(self, State::Near | State::Far)
    }
}

impl Attempt {
    /// Medians of hairpin before, the other, hairpin after, if all ran in one state.
    fn kept(&self) -> Option<(State, f64, f64, f64)> {
        let [before, after] = self.hairpin.as_slice() else { return None };
        let kept = self.error.is_none() && before.state.is_one() && before.state == after.state;
        kept.then_some((before.state, before.p50_ns, self.other_p50_ns?, after.p50_ns))
    }

    /// True if this attempt counts as a pair.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept().is_some()
    }
}

/// A cell's figures from its kept pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Findings {
    pub(crate) pairs: usize,
    /// Pairs kept that ran while the cores were near.
    pub(crate) near: usize,
    /// Geometric mean of the medians.
    pub(crate) hairpin_ns: f64,
    pub(crate) other_ns: f64,
    /// hairpin / the other.
    pub(crate) ratio: LogMean,
    /// One run of the other / the next of the same state.
    pub(crate) itself: Option<LogMean>,
    /// The spread of a single such ratio.
    pub(crate) itself_sd: Option<f64>,
}

/// What `attempts`, all of one cell and in the order made, say.
///
/// # Errors
/// Fewer than two pairs were kept, or a median is zero.
pub(crate) fn findings(attempts: &[&Attempt]) -> Result<Findings, NoMean> {
    let kept: Vec<_> = attempts.iter().filter_map(|attempt| attempt.kept()).collect();
    let ratios: Vec<f64> =
        kept.iter().map(|(_, before, other, after)| f64::midpoint(before.ln(), after.ln()) - other.ln()).collect();
    let ratio = LogMean::of(&spread(&ratios))?;
    let mean = |log: fn(&(State, f64, f64, f64)) -> f64| (kept.iter().map(log).sum::<f64>() / kept.len() as f64).exp();
    let neighbours = kept.windows(2).filter(|two| two[0].0 == two[1].0);
    let itself: Vec<f64> = neighbours.map(|two| (two[1].2 / two[0].2).ln()).collect();
    Ok(Findings {
        pairs: kept.len(),
        near: kept.iter().filter(|pair| pair.0 == State::Near).count(),
        hairpin_ns: mean(|(_, before, _, after)| f64::midpoint(before.ln(), after.ln())),
        other_ns: mean(|(_, _, other, _)| other.ln()),
        ratio,
        itself: LogMean::of(&itself).ok(),
        itself_sd: standard_deviation(&itself).ok(),
    })
}

/// The values that far from their mean that an interval which takes them as independent is as wide as one that does not: pairs share no run, but the host's
/// moods last longer than a pair.
fn spread(logs: &[f64]) -> Vec<f64> {
    let times = moods(logs, CONFIDENCE);
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    logs.iter().map(|log| mean + (log - mean) * times).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An attempt with these figures in ns.
    pub(crate) fn attempt(cell: &str, states: [State; 2], before: u64, other: f64, after: u64) -> Attempt {
        let run =
            |p50_ns: u64, state| Hairpin { p50_ns: p50_ns as f64, transactions: 50_000, state, core_rtt_ns: vec![120, 130] };
        Attempt {
            cell: cell.to_owned(),
            at: "2026-11-20T12:00:00Z".to_owned(),
            build: "b".to_owned(),
            hairpin: vec![run(before, states[0]), run(after, states[1])],
            other_p50_ns: Some(other),
            error: None,
        }
    }

    fn block(core_rtt_ns: Option<u64>) -> Block {
        Block { count: 1, core_rtt_ns, ..Block::default() }
    }

    #[test]
    fn a_state_is_one_only_if_all_blocks_agree() {
        let of = |values: &[Option<u64>]| state(&values.iter().map(|&ns| block(ns)).collect::<Vec<_>>(), 250);
        assert_eq!(of(&[Some(120), None, Some(249)]), State::Near);
        assert_eq!(of(&[Some(250), Some(510)]), State::Far);
        assert_eq!(of(&[Some(120), Some(510)]), State::Mixed);
        assert_eq!(of(&[None]), State::Unknown);
        assert_eq!(of(&[]), State::Unknown);
    }

    #[test]
    fn pairs_of_two_states_are_dropped() {
        use State::{Far, Mixed, Near, Unknown};
        for states in [[Near, Near], [Far, Far]] {
            assert!(attempt("c", states, 1, 1.0, 1).is_kept());
        }
        for states in [[Near, Far], [Far, Near], [Mixed, Mixed], [Unknown, Unknown], [Near, Mixed]] {
            assert!(!attempt("c", states, 1, 1.0, 1).is_kept());
        }
        assert!(!Attempt { error: Some("no".to_owned()), ..attempt("c", [Near, Near], 1, 1.0, 1) }.is_kept());
        assert!(!Attempt { other_p50_ns: None, ..attempt("c", [Near, Near], 1, 1.0, 1) }.is_kept());
    }

    #[test]
    fn a_ratio_is_of_both_runs_around_and_the_other_is_held_against_its_like_neighbour() {
        use State::{Far, Near};
        // 4000 and 9000 have the geometric mean 6000.
        let made = [
            attempt("c", [Near, Near], 4000, 6000.0, 9000),
            attempt("c", [Near, Far], 1, 1.0, 1),
            attempt("c", [Near, Near], 6000, 12_000.0, 6000),
            attempt("c", [Far, Far], 12_000, 12_000.0, 12_000),
        ];
        let found = findings(&made.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((found.pairs, found.near), (3, 2));
        // Ratios 1, 1/2, 1: the third root of 1/2.
        assert!((found.ratio.interval(0.95).ratio - 0.5f64.powf(1.0 / 3.0)).abs() < 1e-9);
        assert!((found.hairpin_ns - (6000.0f64 * 6000.0 * 12_000.0).powf(1.0 / 3.0)).abs() < 1e-6);
        // One neighbour alone is in the same state, too few for a spread.
        assert_eq!((found.itself, found.itself_sd), (None, None));
        assert!(findings(&[]).is_err());
    }

    #[test]
    fn pairs_that_resemble_their_neighbours_have_a_wider_interval() {
        use State::Near;
        // The same forty ratios of 0.98 and 1.02: by turns, and in two moods of twenty.
        let width = |slow: fn(usize) -> bool| {
            let made: Vec<Attempt> = (0..40)
                .map(|at| {
                    attempt(
                        "c",
                        [Near, Near],
                        if slow(at) { 10_200 } else { 9_800 },
                        10_000.0,
                        if slow(at) { 10_200 } else { 9_800 },
                    )
                })
                .collect();
            let ratio = findings(&made.iter().collect::<Vec<_>>()).unwrap().ratio.interval(CONFIDENCE);
            ratio.high - ratio.low
        };
        let (turns, moods) = (width(|at| at.is_multiple_of(2)), width(|at| at < 20));
        assert!(moods > 3.0 * turns, "{turns} {moods}");
    }

    #[test]
    fn a_line_of_the_record_reads_back() {
        let made = attempt("c", [State::Near, State::Far], 4000, 6000.5, 9000);
        let line = serde_json::to_string(&made).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Attempt>(&line).unwrap(), made);
    }
}
