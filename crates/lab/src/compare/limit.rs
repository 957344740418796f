//! `--fail-if 'p99 > +5%'`: a threshold, crossed when an interval lies wholly beyond it.

use std::str::FromStr;

use hairpin_record::compare::{Arm, Compare, CompareBody, Comparison, Matched, OTHER_HOST, Threshold};
use hairpin_record::experiment::{Estimate, Figure};

use super::stored::{NO_COMMON_STATE, ONE_EACH, OTHER_CPUS, OTHER_HOSTS, no_common_state};

#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    given: String,
    figure: Figure,
    /// True if a greater ratio fails; false if a lesser one does.
    above: bool,
    ratio: f64,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let bad = || {
            format!(
                "\"{text}\" is not a threshold: write a figure, > or <, and a percentage, such as 'p99 > +5%' or 'rate < -3%'"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(bad)?;
        let figure = text[..at].trim().parse()?;
        let percent = text[at + 1..].trim().strip_suffix('%').ok_or_else(bad)?;
        let percent: f64 = percent.trim().parse().map_err(|_| bad())?;
        if !percent.is_finite() || percent <= -100.0 {
            return Err(bad());
        }
        Ok(Limit { given: text.trim().into(), figure, above: text.as_bytes()[at] == b'>', ratio: 1.0 + percent / 100.0 })
    }
}

impl Limit {
    /// Applies the threshold to every comparison of a record.
    pub(crate) fn hold(&self, record: &CompareBody) -> Vec<Threshold> {
        let held = |comparison: &Comparison| {
            let found = comparison.figures.iter().find(|estimate| estimate.figure == self.figure);
            let endless = found.and_then(|found| without_interval(record, comparison, found));
            let endless = endless.map(|why| format!("{} has no interval: {why}", self.figure));
            let why = unfit(record, comparison).map(str::to_owned).or(endless);
            let (crossed, unknown) = match (why, found.map(|found| self.is_crossed(found))) {
                (Some(why), _) => (false, Some(why)),
                (None, Some(Ok(crossed))) => (crossed, None),
                (None, Some(Err(why))) => (false, Some(why)),
                (None, None) => (false, Some(format!("{} could not be compared: it takes more transactions", self.figure))),
            };
            let not_excluded = found.filter(|_| !crossed && unknown.is_none()).and_then(|found| self.not_excluded(found));
            Threshold { given: self.given.clone(), arm: comparison.arm.clone(), crossed, unknown, not_excluded, confirmed: None }
        };
        record.comparisons.iter().map(held).collect()
    }

    /// Whether the interval lies wholly beyond the threshold. The error says why that cannot be told.
    fn is_crossed(&self, found: &Estimate) -> Result<bool, String> {
        let (Some(low), Some(high)) = (found.low, found.high) else {
            return Err(format!("{} has no interval: measure longer", self.figure));
        };
        if found.pairs < super::verdict::FEWEST as u64 && found.between_runs.is_none() {
            return Err(format!("{} pairs of blocks with {} are too few: measure longer", found.pairs, self.figure));
        }
        Ok(if self.above { low > self.ratio } else { high < self.ratio })
    }

    /// The end of the interval beyond the threshold, if it reaches there.
    fn not_excluded(&self, found: &Estimate) -> Option<f64> {
        if self.above { found.high.filter(|high| *high > self.ratio) } else { found.low.filter(|low| *low < self.ratio) }
    }

    pub fn figure(&self) -> Figure {
        self.figure
    }
}

/// Applies the thresholds to a comparison measured in turn. Part of a measurement gives no verdict.
pub(crate) fn held(limits: &[Limit], record: &Compare) -> Vec<Threshold> {
    let mut held: Vec<Threshold> = limits.iter().flat_map(|limit| limit.hold(record)).collect();
    if record.head.interrupted || record.head.error.is_some() {
        let why = record.head.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        for threshold in &mut held {
            (threshold.crossed, threshold.not_excluded) = (false, None);
            threshold.unknown = Some(format!("it ended early{why}"));
        }
    }
    held
}

/// Why stored runs say nothing of a threshold, whatever their figures.
fn unfit(record: &CompareBody, comparison: &Comparison) -> Option<&'static str> {
    match (comparison.runs?, comparison.matched) {
        (_, Matched::All) if record.warnings.iter().any(|note| note.code == OTHER_HOST) => Some(OTHER_HOSTS),
        (_, Matched::All) => Some(OTHER_CPUS),
        ([1, 1], _) => Some(ONE_EACH),
        _ => None,
    }
}

/// Why a figure of stored runs has no interval, if longer runs would have none either.
fn without_interval(record: &CompareBody, comparison: &Comparison, found: &Estimate) -> Option<&'static str> {
    if comparison.runs.is_none() || found.low.is_some() || found.between_runs.is_some() {
        return None;
    }
    if found.pairs > 0 {
        return Some("no side has two runs at a distance of the cores that both had");
    }
    let arm = |name: &str| record.arms.iter().find(|arm| arm.name == name);
    let (a, b) = (arm(&comparison.against)?, arm(&comparison.arm)?);
    let without = |arm: &Arm| !arm.blocks.iter().any(|block| block.figure(found.figure).is_some());
    if without(a) || without(b) {
        return Some("blocks have no value of it, and the cores were at several distances in these runs");
    }
    no_common_state(a, b).then_some(NO_COMMON_STATE)
}

/// Keeps a threshold crossed only if the repetition crosses it again. Where the repetition cannot tell, there is no verdict.
pub(crate) fn confirm(first: &mut [Threshold], again: &[Threshold]) {
    for (threshold, again) in first.iter_mut().zip(again) {
        if let (true, Some(why)) = (threshold.crossed, &again.unknown) {
            threshold.unknown = Some(format!("crossed at first; measured once more, {why}"));
        } else {
            threshold.confirmed = threshold.crossed.then_some(again.crossed);
        }
        threshold.crossed &= again.crossed;
        threshold.not_excluded = threshold.not_excluded.or(again.not_excluded);
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::experiment::Verdict;
    use hairpin_record::head::{Head, Record};

    use super::*;

    fn estimate(low: f64, high: f64) -> Estimate {
        Estimate {
            figure: Figure::P99,
            ratio: Some((low * high).sqrt()),
            low: Some(low),
            high: Some(high),
            pairs: 40,
            ..Estimate::default()
        }
    }

    #[test]
    fn thresholds_parse() {
        let limit: Limit = "p99 > +5%".parse().unwrap();
        assert_eq!((limit.figure, limit.above, limit.ratio), (Figure::P99, true, 1.05));
        let limit: Limit = "rate<-3 %".parse().unwrap();
        assert_eq!((limit.figure, limit.above, limit.ratio), (Figure::Rate, false, 0.97));
        for text in ["", "p99", "p99 > 5", "p99 > five%", "p98 > 5%", "> 5%", "rate < -100%", "p99 > inf%"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }

    #[test]
    fn crossed_only_if_the_whole_interval_is_beyond() {
        let limit: Limit = "p99 > +5%".parse().unwrap();
        assert_eq!(limit.is_crossed(&estimate(1.051, 1.2)), Ok(true));
        assert_eq!(limit.is_crossed(&estimate(1.04, 1.2)), Ok(false));
        let limit: Limit = "p99 < -5%".parse().unwrap();
        assert_eq!(limit.is_crossed(&estimate(0.9, 0.94)), Ok(true));
        assert_eq!(limit.is_crossed(&estimate(0.9, 0.96)), Ok(false));
        assert_eq!([estimate(0.9, 0.96), estimate(0.96, 0.99)].map(|found| limit.not_excluded(&found)), [Some(0.9), None]);
        assert!(limit.is_crossed(&Estimate { low: None, ..estimate(0.9, 0.94) }).is_err());
        assert!(limit.is_crossed(&Estimate { pairs: 11, ..estimate(0.9, 0.94) }).is_err());
    }

    #[test]
    fn part_of_a_measurement_gives_no_verdict() {
        let comparison = Comparison {
            arm: "B".into(),
            against: "A".into(),
            verdict: Verdict::Slower,
            needs_s: None,
            pairs: 40,
            dropped: 0,
            states_used: vec![0],
            matched: Default::default(),
            runs: None,
            figures: vec![estimate(1.06, 1.2)],
        };
        let whole = Record {
            head: Head::default(),
            body: CompareBody {
                host: None,
                design: None,
                method: super::super::verdict::method(Figure::P99, 1, 1, 0.02),
                states: Vec::new(),
                arms: Vec::new(),
                comparisons: vec![comparison],
                thresholds: Vec::new(),
                placements: Vec::new(),
                warnings: Vec::new(),
            },
        };
        let limits: [Limit; 2] = ["p99 > +5%", "p99 > +10%"].map(|limit| limit.parse().unwrap());
        let found = held(&limits, &whole);
        assert_eq!((found[0].crossed, found[1].crossed, found[1].not_excluded), (true, false, Some(1.2)));

        let interrupted = Head { interrupted: true, ..Head::default() };
        let failed = Head { error: Some("the peer is gone".into()), ..Head::default() };
        for (head, why) in [(interrupted, "it ended early"), (failed, "it ended early: the peer is gone")] {
            for found in held(&limits, &Record { head, ..whole.clone() }) {
                assert_eq!((found.crossed, found.not_excluded), (false, None));
                assert_eq!(found.unknown.as_deref(), Some(why));
            }
        }
    }

    #[test]
    fn threshold_counts_only_if_crossed_twice() {
        let threshold = |crossed| Threshold {
            given: "p99 > +5%".into(),
            arm: "B".into(),
            crossed,
            unknown: None,
            not_excluded: None,
            confirmed: None,
        };
        let mut first = [threshold(true), threshold(true), threshold(false)];
        confirm(&mut first, &[threshold(true), threshold(false), threshold(true)]);
        assert_eq!(first.each_ref().map(|threshold| threshold.crossed), [true, false, false]);
        assert_eq!(first.each_ref().map(|threshold| threshold.confirmed), [Some(true), Some(false), None]);

        // A repetition with too few pairs neither confirms nor clears.
        let mut first = [threshold(true)];
        confirm(&mut first, &[Threshold { unknown: Some("11 pairs are too few".into()), ..threshold(false) }]);
        assert_eq!((first[0].crossed, first[0].confirmed), (false, None));
        assert_eq!(first[0].unknown.as_deref(), Some("crossed at first; measured once more, 11 pairs are too few"));
    }
}
