//! The median RTT of a row with its 95 % interval.
//!
//! A row's interval comes from the medians of its blocks, as in a report. A row too short for that has the interval between two
//! of its samples: the median lies between the k-th from below and the k-th from above with the probability that of n tosses of
//! a coin neither side shows fewer than k times. Six samples are the fewest with 95 %, and they give a median where a record
//! leaves p50 blank.

use hairpin_record::histogram::Decoded;
use hairpin_record::run::Row;

use crate::columns::within;
use crate::contents::distribution::summary;

/// The share of medians that may lie beyond either end.
const TAIL: f64 = 0.025;
/// With more samples but too few blocks, the samples are too much alike for an interval of this kind.
const MOST: u64 = 1000;
/// A narrower interval, relative to the median, need not be shown.
const WIDE: f64 = 0.02;

/// A median in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Median {
    pub(crate) ns: f64,
    /// The ends of its 95 % interval, if there is one.
    pub(crate) ends: Option<[f64; 2]>,
}

impl Median {
    /// The interval, if it is too wide to pass over.
    pub(crate) fn wide(&self) -> Option<[f64; 2]> {
        self.ends.filter(|[low, high]| high - low > self.ns * WIDE)
    }
}

/// The median RTT of a row; `None` with fewer than six samples.
pub(crate) fn median(row: &Row) -> Option<Median> {
    let p50 = summary(&row.rtt_ns, &row.blocks).p50;
    let ends = p50.low_ns.zip(p50.high_ns).map(|(low, high)| [low as f64, high as f64]);
    let few = || of_few(row);
    match p50.ns {
        Some(ns) => Some(Median { ns: ns as f64, ends: ends.or_else(|| few()?.ends) }),
        None => few(),
    }
}

fn of_few(row: &Row) -> Option<Median> {
    let count = row.rtt_ns.count;
    let outside = (count <= MOST).then(|| outside(count)).filter(|outside| *outside > 0)?;
    let times = Decoded::decode(&row.histogram).ok().filter(|times| times.count() == count)?;
    let at = |rank: u64| {
        let mut up_to = 0;
        let found = times.counts().find(|(_, often)| {
            up_to += often;
            up_to >= rank
        });
        found.map(|(ns, _)| within(ns, &row.rtt_ns) as f64)
    };
    let ns = f64::midpoint(at(count.div_ceil(2))?, at(count / 2 + 1)?);
    Some(Median { ns, ends: Some([at(outside)?, at(count + 1 - outside)?]) })
}

/// The rank of the sample at which the interval begins, counted from 1; 0 if there are too few samples for one.
fn outside(count: u64) -> u64 {
    let mut term = 0.5f64.powf(count as f64);
    let (mut up_to, mut rank) = (term, 0);
    while up_to <= TAIL && rank < count {
        rank += 1;
        term *= (count + 1 - rank) as f64 / rank as f64;
        up_to += term;
    }
    rank
}

#[cfg(test)]
mod tests {
    use hairpin_record::histogram::Times;
    use hairpin_record::run::Block;

    use super::*;

    fn row(times: impl IntoIterator<Item = u64>) -> Row {
        let mut all = Times::new();
        times.into_iter().for_each(|ns| all.record(ns));
        Row { rtt_ns: all.quantiles(), histogram: all.encode(), ..Row::default() }
    }

    #[test]
    fn ranks_are_those_of_the_published_table() {
        // Conover, Practical Nonparametric Statistics: the interval of the median, 95 %.
        assert_eq!([5, 6, 8, 9, 10, 20, 100].map(outside), [0, 1, 1, 2, 2, 6, 40]);
    }

    #[test]
    fn few_samples_have_a_median_from_six_on() {
        assert_eq!(median(&row(1..=5)), None);
        assert_eq!(median(&row([10, 20, 30, 40, 50, 60])), Some(Median { ns: 35.0, ends: Some([10.0, 60.0]) }));
        assert_eq!(median(&row((1..=9).map(|n| n * 10))), Some(Median { ns: 50.0, ends: Some([20.0, 80.0]) }));
        let broken = Row { histogram: "***".into(), ..row(1..=10) };
        assert_eq!(median(&broken), None);
    }

    #[test]
    fn blocks_go_before_samples_and_a_narrow_interval_is_passed_over() {
        let mut long = row((0..500).map(|n| 1_000 + n));
        assert_eq!(median(&long).unwrap().wide(), median(&long).unwrap().ends, "of samples");
        long.blocks = (0..20).map(|n| Block { p50: Some(1_250 + n % 3), ..Block::default() }).collect();
        let found = median(&long).unwrap();
        assert!(found.ends.is_some() && found.wide().is_none(), "{found:?}");
    }
}
