//! Ratios with intervals: how much faster one thing is than another, and how certain that is.
//!
//! Round-trip times are skewed and drift together, so pairs measured close in time are compared by the logarithm of their ratio.
//! Means of logarithms are geometric means of ratios, and swapping the two sides only changes the sign.
//!
//! ```text
//!   pairs ──ln(a / b)──▶ LogMean (one cell) ──pooled──▶ LogMean (many cells) ──interval──▶ Ratio { ratio, low, high }
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use thiserror::Error;

/// The reason for a missing mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoMean {
    /// An interval needs a spread, and a spread needs two values.
    #[error("{0} values are too few for an interval: measure at least 2")]
    TooFew(usize),
    /// A ratio was zero, negative or without end.
    #[error("a ratio has no logarithm: both figures must be above zero")]
    NoLogarithm,
}

/// The mean of logarithms of ratios with what is needed for its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogMean {
    /// Mean of the logarithms.
    mean: f64,
    /// Variance of that mean (not of the values).
    variance: f64,
    /// Degrees of freedom of the variance; infinite if the variance is zero.
    freedom: f64,
}

/// A ratio and the interval that holds the true one with the confidence asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The geometric mean of the ratios.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl LogMean {
    /// The mean of `logs`, each the natural logarithm of one pair's ratio. The pairs are assumed to be independent.
    ///
    /// # Errors
    /// Fewer than two values, or one that is not finite.
    pub fn of(logs: &[f64]) -> Result<LogMean, NoMean> {
        let spread = standard_deviation(logs)?;
        let n = logs.len() as f64;
        Ok(LogMean { mean: logs.iter().sum::<f64>() / n, variance: spread * spread / n, freedom: n - 1.0 })
    }

    /// The mean of several cells, all weighted equally, however many pairs they have: the logarithm of the cells' geometric mean.
    /// The degrees of freedom follow Welch and Satterthwaite (Biometrics Bulletin 2, 1946), since cells differ in their spread.
    ///
    /// # Errors
    /// `cells` is empty.
    pub fn pooled(cells: &[LogMean]) -> Result<LogMean, NoMean> {
        if cells.is_empty() {
            return Err(NoMean::TooFew(0));
        }
        let n = cells.len() as f64;
        let sum: f64 = cells.iter().map(|cell| cell.variance).sum();
        let parts: f64 = cells.iter().map(|cell| cell.variance * cell.variance / cell.freedom).sum();
        Ok(LogMean {
            mean: cells.iter().map(|cell| cell.mean).sum::<f64>() / n,
            variance: sum / (n * n),
            freedom: if parts > 0.0 { sum * sum / parts } else { f64::INFINITY },
        })
    }

    /// The ratio with its interval from Student's t distribution at `confidence`, such as 0.95, clamped to 0..1.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Ratio {
        let error = self.variance.sqrt();
        // Without spread the width is 0; multiplying by an infinite quantile would give NaN.
        let half = if error > 0.0 { error * t_quantile(0.5 + confidence.clamp(0.0, 1.0) / 2.0, self.freedom) } else { 0.0 };
        Ratio { ratio: self.mean.exp(), low: (self.mean - half).exp(), high: (self.mean + half).exp() }
    }
}

/// The sample standard deviation of `values` (n − 1).
///
/// # Errors
/// Fewer than two values, or one that is not finite.
pub fn standard_deviation(values: &[f64]) -> Result<f64, NoMean> {
    if !values.iter().all(|value| value.is_finite()) {
        return Err(NoMean::NoLogarithm);
    }
    if values.len() < 2 {
        return Err(NoMean::TooFew(values.len()));
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    Ok((values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

/// The t distribution's quantile `q`. For large `freedom`, where the t distribution's series converge badly, the normal
/// distribution's quantile is used; the two differ by less than 2 in 10,000.
#[must_use]
pub fn t_quantile(q: f64, freedom: f64) -> f64 {
    if freedom > 1e4 {
        return Normal::standard().inverse_cdf(q);
    }
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(q))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    #[test]
    fn an_interval_as_by_hand() {
        // logs 0.0, 0.1, 0.2: mean 0.1, sd 0.1, standard error 0.1/√3 = 0.057735; t(2) = 4.30265; half width 0.248414.
        let ratio = LogMean::of(&[0.0, 0.1, 0.2]).unwrap().interval(0.95);
        near(ratio.ratio, 0.1f64.exp(), 1e-12);
        near(ratio.low, (0.1f64 - 0.248_414).exp(), 1e-5);
        near(ratio.high, (0.1f64 + 0.248_414).exp(), 1e-5);
    }

    #[test]
    fn pooling_weighs_cells_alike_and_lowers_the_freedom_to_the_noisiest() {
        let quiet = LogMean::of(&[-0.1, -0.1, -0.1, -0.1]).unwrap();
        let noisy = LogMean::of(&[0.0, 0.1, 0.2]).unwrap();
        let pooled = LogMean::pooled(&[quiet, noisy]).unwrap();
        near(pooled.mean, 0.0, 1e-12);
        near(pooled.variance, noisy.variance / 4.0, 1e-12);
        near(pooled.freedom, 2.0, 1e-9);
        // Equal cells: the degrees of freedom add up, so the interval is narrower than a cell's by √2 and a little more.
        let both = LogMean::pooled(&[noisy, noisy]).unwrap();
        near(both.freedom, 4.0, 1e-9);
        near(both.variance, noisy.variance / 2.0, 1e-12);
    }

    #[test]
    fn values_without_spread_have_no_width() {
        let same = LogMean::of(&[0.5; 4]).unwrap();
        let ratio = LogMean::pooled(&[same, same]).unwrap().interval(0.95);
        assert_eq!((ratio.low, ratio.high), (ratio.ratio, ratio.ratio));
    }

    #[test]
    fn missing_interval_has_a_reason() {
        assert_eq!(LogMean::of(&[]), Err(NoMean::TooFew(0)));
        assert_eq!(LogMean::of(&[0.1]), Err(NoMean::TooFew(1)));
        assert_eq!(LogMean::of(&[0.1, f64::NEG_INFINITY]), Err(NoMean::NoLogarithm));
        assert_eq!(LogMean::pooled(&[]), Err(NoMean::TooFew(0)));
        assert_eq!(NoMean::TooFew(1).to_string(), "1 values are too few for an interval: measure at least 2");
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        // The sum of twelve uniform values is nearly normal; a fixed generator (Numerical Recipes' LCG) keeps the test
        // deterministic.
        let mut seed = 1u32;
        let mut uniform = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(seed) / f64::from(u32::MAX)
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let tries = 2000;
        let held = (0..tries).filter(|_| {
            let logs: Vec<f64> = (0..5).map(|_| 0.3 + 0.1 * normal()).collect();
            let ratio = LogMean::of(&logs).unwrap().interval(0.95);
            (ratio.low..=ratio.high).contains(&0.3f64.exp())
        });
        near(held.count() as f64 / f64::from(tries), 0.95, 0.02);
    }

    proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(logs in prop::collection::vec(-1.0f64..1.0, 2..20)) {
            let ratio = LogMean::of(&logs).unwrap().interval(0.95);
            let swapped: Vec<f64> = logs.iter().map(|log| -log).collect();
            let swapped = LogMean::of(&swapped).unwrap().interval(0.95);
            prop_assert!((ratio.ratio * swapped.ratio - 1.0).abs() < 1e-9);
            prop_assert!((ratio.low * swapped.high - 1.0).abs() < 1e-9);
            prop_assert!(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high);
        }
    }
}
