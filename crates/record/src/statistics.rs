//! A ratio with its interval, the ratio of two rates, and the quantiles that intervals take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// A ratio and the interval that holds the true one with the confidence asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The estimate.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The quantile `q` (0 to 1) of Student's t distribution with `freedom` degrees of freedom; infinite where the distribution is
/// not defined. For large `freedom`, where the t distribution's series converge badly, the normal distribution's quantile is
/// used; the two differ by less than 2 in 10,000.
///
/// ```
/// use hairpin_record::statistics::t_quantile;
///
/// // The factor of a 95 % interval from ten values.
/// assert!((t_quantile(0.975, 9.0) - 2.262).abs() < 0.001);
/// ```
#[must_use]
pub fn t_quantile(q: f64, freedom: f64) -> f64 {
    if freedom > 1e4 {
        return Normal::standard().inverse_cdf(q);
    }
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(q))
}

/// The lower and upper end of the interval for the rate of `second` divided by the rate of `first`. Each is a count of events,
/// which come independently of each other, and the time in which they were counted, in the same unit for both. A lower end that
/// the counts do not support is 0, an upper one infinite.
///
/// ```
/// use hairpin_record::statistics::rate_ratio;
///
/// // 1,000 events in 10 s, then 1,000 in 5 s: twice the rate.
/// let (low, high) = rate_ratio((1_000, 10.0), (1_000, 5.0), 0.95);
/// assert!(low < 2.0 && 2.0 < high);
/// // Without an event in the first count there is no upper end.
/// assert_eq!(rate_ratio((0, 1.0), (1, 1.0), 0.95).1, f64::INFINITY);
/// ```
///
/// The second count's share of both has a binomial distribution. Its tail is bounded by the inequality of Zubkov and Serov
/// (Theory of Probability and its Applications 57, 2013), so the interval holds the ratio with `confidence` or more at any
/// counts, however small.
#[must_use]
pub fn rate_ratio(first: (u64, f64), second: (u64, f64), confidence: f64) -> (f64, f64) {
    let z = Normal::standard().inverse_cdf(f64::midpoint(1.0, confidence));
    // The share of the second count, as a ratio of rates.
    let odds = |share: f64| share / (1.0 - share) * (first.1 / second.1);
    let (low, high) = (1.0 - most_share(first.0, second.0, z), most_share(second.0, first.0, z));
    (odds(low), odds(high))
}

/// The largest share at which `count` events or fewer, out of `count + others`, are still possible at the normal quantile `z`.
fn most_share(count: u64, others: u64, z: f64) -> f64 {
    if others < 2 {
        return 1.0;
    }
    // As floating point from the start: counts from a file may have any size.
    let (count, all) = (count as f64, count as f64 + others as f64);
    let seen = (count + 1.0) / all;
    let (mut low, mut high) = (seen, 1.0);
    for _ in 0..HALVINGS {
        let share = f64::midpoint(low, high);
        // The relative entropy of the seen share.
        let distance = seen * (seen / share).ln() + (1.0 - seen) * ((1.0 - seen) / (1.0 - share)).ln();
        if all * distance < z * z / 2.0 { low = share } else { high = share }
    }
    high
}

/// Enough for a share to its last bits.
const HALVINGS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Binomial, DiscreteCDF};

    fn near(got: f64, want: f64, by: f64) {
        assert!((got - want).abs() <= by, "{got} is not within {by} of {want}");
    }

    #[test]
    fn quantiles_are_those_of_the_published_table() {
        // Fisher and Yates, Statistical Tables, table III: two-sided 5 % and 1 %.
        for (freedom, five, one) in [(1.0, 12.706, 63.657), (2.0, 4.303, 9.925), (9.0, 2.262, 3.250), (39.0, 2.023, 2.708)] {
            near(t_quantile(0.975, freedom), five, 5e-4 * five);
            near(t_quantile(0.995, freedom), one, 5e-4 * one);
        }
        near(t_quantile(0.975, 1e4), 1.96020, 1e-4);
        near(t_quantile(0.975, f64::INFINITY), 1.95996, 1e-5);
    }

    /// The chance of a count as low as this, were the share at the end of its interval.
    fn missed(count: u64, others: u64, confidence: f64) -> f64 {
        let (low, high) = rate_ratio((others, 1.0), (count, 1.0), confidence);
        let of = |share: f64| Binomial::new(share, count + others).unwrap();
        let above = if high.is_finite() { of(high / (1.0 + high)).cdf(count) } else { 0.0 };
        let below = if low > 0.0 { 1.0 - of(low / (1.0 + low)).cdf(count - 1) } else { 0.0 };
        above.max(below)
    }

    #[test]
    fn an_interval_of_rates_misses_no_more_often_than_it_says_at_any_counts() {
        for confidence in [0.95, 0.999] {
            let allowed = (1.0 - confidence) / 2.0;
            let counts = || (0..30).chain([60, 300, 2_000]);
            for (count, others) in counts().flat_map(|count| counts().map(move |others| (count, others))) {
                let missed = missed(count, others, confidence);
                assert!(missed <= allowed * 1.000_001, "{count} and {others}: {missed}");
            }
        }
        // And not much less often, with counts that say something.
        let missed = missed(300, 300, 0.95);
        assert!(missed > 0.02, "{missed}");
    }

    #[test]
    fn rates_are_by_the_time_of_each_count() {
        let (low, high) = rate_ratio((1_000, 10.0), (1_000, 5.0), 0.95);
        assert!(low < 2.0 && 2.0 < high, "{low} to {high}");
        near(low * high, 4.0, 0.01);
        let (low, high) = rate_ratio((0, 1.0), (20, 1.0), 0.95);
        assert!(low > 2.0 && high == f64::INFINITY, "{low} to {high}");
        assert_eq!(rate_ratio((0, 1.0), (0, 1.0), 0.95), (0.0, f64::INFINITY));
        assert_eq!(rate_ratio((0, 1.0), (1, 1.0), 0.95).1, f64::INFINITY);
        let (low, high) = rate_ratio((u64::MAX / 4, 1.0), (u64::MAX / 4, 1.0), 0.95);
        assert!(low > 0.999 && high < 1.001, "{low} to {high}");
    }
}
