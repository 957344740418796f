//! Bounds, and the words for how an interval lies to its bound. A bound holds if the whole interval does.
//!
//! ```text
//!   low ├────┤ high   │ bound      ok
//!              low ├──┼──┤ high    unclear: more of the same would tell; no pass
//!                     │ ├────┤     MISS
//! ```
//! Intervals are of 95 %. Those of rounds are the product's own, widened where rounds that follow each other are alike; those of
//! counts are exact (Clopper and Pearson, Biometrika 26, 1934).

use hairpin_record::paired::{Shift, shift};
use statrs::distribution::{Beta, ContinuousCDF};

/// Confidence of each interval.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// An interval that shows two things to be equal is at most this wide.
pub(crate) const WIDEST: f64 = 0.02;

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// The interval includes 1 or lies below it, and is at most [`WIDEST`] wide.
    NoSlower,
    /// The interval lies within this share of 1.
    Within(f64),
    None,
}

/// How an interval lies to its bound, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    /// There is no bound.
    Dash,
    Ok,
    Unclear,
    Miss,
    /// Too little was measured for an interval.
    Few,
    /// Nothing was measured.
    None,
}

impl Word {
    /// True if a bound does not hold.
    pub(crate) fn missed(self) -> bool {
        !matches!(self, Word::Ok | Word::Dash)
    }
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Word::Ok => "ok",
            Word::Unclear => "unclear",
            Word::Miss => "MISS",
            Word::Dash => "-",
            Word::Few => "few",
            Word::None => "none",
        })
    }
}

impl Limit {
    /// The word for an interval from `low` to `high`.
    pub(crate) fn judged(self, low: f64, high: f64) -> Word {
        let of = |holds: bool, misses: bool| match (holds, misses) {
            (true, _) => Word::Ok,
            (_, true) => Word::Miss,
            _ => Word::Unclear,
        };
        match self {
            Limit::AtMost(most) => of(high <= most, low > most),
            Limit::AtLeast(least) => of(low >= least, high < least),
            Limit::NoSlower => of(low <= 1.0 && high - low <= WIDEST, low > 1.0),
            Limit::Within(share) => of(low >= 1.0 - share && high <= 1.0 + share, low > 1.0 + share || high < 1.0 - share),
            Limit::None => Word::Dash,
        }
    }

    /// The same of an interval that may be missing.
    pub(crate) fn of(self, found: Option<Shift>) -> Word {
        match found {
            None if self == Limit::None => Word::Dash,
            None => Word::None,
            Some(found) => self.judged(found.low, found.high),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Limit::AtMost(most) => format!("{most:.2}"),
            Limit::AtLeast(least) => format!("{least:.2}"),
            Limit::NoSlower => "1".to_owned(),
            Limit::Within(share) => format!("±{:.0}%", share * 100.0),
            Limit::None => "-".to_owned(),
        }
    }
}

/// The typical value of rounds, in the order measured. Fewer than six have an interval without ends.
pub(crate) fn of_rounds(values: &[f64]) -> Option<Shift> {
    shift(values, CONFIDENCE)
}

/// The median; NaN of nothing.
pub(crate) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The share of `counted` in `all`, as independent trials.
pub(crate) fn of_count(counted: usize, all: usize) -> Option<Shift> {
    if all == 0 {
        return None;
    }
    let (k, n, tail) = (counted as f64, all as f64, (1.0 - CONFIDENCE) / 2.0);
    let end = |a: f64, b: f64, q: f64| Beta::new(a, b).map(|beta| beta.inverse_cdf(q));
    let low = if counted == 0 { 0.0 } else { end(k, n - k + 1.0, tail).unwrap_or(0.0) };
    let high = if counted == all { 1.0 } else { end(k + 1.0, n - k, 1.0 - tail).unwrap_or(1.0) };
    Some(Shift { typical: k / n, low, high })
}

/// `5 of 40: 12.5 % (4.2-26.8)`
pub(crate) fn share_text(counted: usize, all: usize) -> String {
    match of_count(counted, all) {
        None => format!("{counted} of {all}"),
        Some(found) => {
            format!("{counted} of {all}: {:.1} % ({:.1}-{:.1})", 100.0 * found.typical, 100.0 * found.low, 100.0 * found.high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_if_the_whole_interval_does() {
        for (limit, low, high, word) in [
            (Limit::AtMost(0.38), 0.360, 0.375, Word::Ok),
            (Limit::AtMost(0.38), 0.368, 0.388, Word::Unclear),
            (Limit::AtMost(0.38), 0.489, 0.494, Word::Miss),
            (Limit::AtLeast(0.9), 0.91, 1.0, Word::Ok),
            (Limit::AtLeast(0.9), 0.83, 1.0, Word::Unclear),
            (Limit::AtLeast(0.9), 0.5, 0.89, Word::Miss),
            (Limit::NoSlower, 0.995, 1.005, Word::Ok),
            (Limit::NoSlower, 0.95, 0.96, Word::Ok),
            (Limit::NoSlower, 1.001, 1.003, Word::Miss),
            (Limit::NoSlower, 1.01, 1.05, Word::Miss),
            (Limit::NoSlower, 0.98, 1.01, Word::Unclear),
            (Limit::NoSlower, 0.90, 0.95, Word::Unclear),
            (Limit::Within(0.03), 0.98, 1.02, Word::Ok),
            (Limit::Within(0.03), 0.96, 0.98, Word::Unclear),
            (Limit::Within(0.03), 1.04, 1.05, Word::Miss),
            (Limit::Within(0.03), 0.90, 0.96, Word::Miss),
            (Limit::AtMost(9.0), f64::NEG_INFINITY, f64::INFINITY, Word::Unclear),
            (Limit::None, 1.2, 1.3, Word::Dash),
        ] {
            let found = limit.judged(low, high);
            assert_eq!((found, found.missed()), (word, !matches!(word, Word::Ok | Word::Dash)), "{limit:?} {low} {high}");
        }
        assert_eq!((Limit::AtMost(1.0).of(None), Limit::None.of(None)), (Word::None, Word::Dash));
    }

    #[test]
    fn the_middle_is_by_size_and_not_by_place() {
        assert_eq!(middle(vec![3.0, 9.0, 1.0]), 3.0);
        assert!(middle(Vec::new()).is_nan());
    }

    #[test]
    fn counts_have_exact_intervals() {
        // Of 0 and of all trials the ends are closed forms: 1 - (α/2)^(1/n); of 10 in 100 they are those of published tables.
        for (counted, all, low, high) in
            [(0, 200, 0.0, 0.01828), (20, 20, 0.83157, 1.0), (10, 100, 0.04900, 0.17622), (1, 35, 0.00072, 0.14917)]
        {
            let found = of_count(counted, all).unwrap();
            assert!((found.low - low).abs() < 2e-5 && (found.high - high).abs() < 2e-5, "{counted} of {all}: {found:?}");
        }
        assert_eq!(of_count(0, 0), None);
        assert_eq!(share_text(10, 100), "10 of 100: 10.0 % (4.9-17.6)");
    }

    #[test]
    fn rounds_that_resemble_their_neighbours_widen_the_interval() {
        let noise = |at: usize| f64::from((at * 37 % 101) as u32) / 101.0 - 0.5;
        let calm: Vec<f64> = (0..96).map(|at| 100.0 + noise(at)).collect();
        let moody: Vec<f64> = (0..96).map(|at| 100.0 + noise(at) + if at / 12 % 2 == 0 { 2.0 } else { -2.0 }).collect();
        let plain = hairpin_record::paired::plain(&moody, CONFIDENCE).unwrap();
        let [calm, moody] = [calm, moody].map(|values| of_rounds(&values).unwrap());
        assert!(moody.high - moody.low > 2.0 * (plain.high - plain.low), "{moody:?} {plain:?}");
        let limit = Limit::AtMost(plain.high);
        assert_eq!((limit.of(Some(calm)), limit.of(Some(moody)), limit.of(Some(plain))), (Word::Ok, Word::Unclear, Word::Ok));
    }
}
