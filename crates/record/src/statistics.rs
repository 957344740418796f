//! A ratio with its interval, and the quantiles that intervals take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

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
}
