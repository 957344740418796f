//! Summaries of a distribution of times, in ns.
//!
//! A quantile is `None`, in JSON `null`, if fewer than ten times lie beyond it: p50 needs 20 times, p90 100, p99 1,000 and p99.9
//! 10,000. Quantiles of several summaries have no meaningful mean; add the histograms instead
//! ([`Decoded::add`](crate::histogram::Decoded::add)).
//!
//! ```
//! use hairpin_record::histogram::Times;
//!
//! let mut times = Times::new();
//! (0..999).for_each(|_| times.record(5));
//! let summary = times.quantiles();
//! assert_eq!((summary.count, summary.min, summary.max), (999, Some(5), Some(5)));
//! assert_eq!((summary.p90, summary.p99), (Some(5), None)); // nine times lie beyond p99
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Summary of a distribution of times in ns. Quantiles come from the histogram (three digits), min, max and mean are exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Samples.
    pub count: u64,
    /// Exact minimum.
    pub min: Option<u64>,
    /// Exact mean.
    pub mean: Option<f64>,
    /// Standard deviation, for comparison with other tools; RTTs are skewed, so it is no headline figure.
    pub stddev: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p999: Option<u64>,
    /// Exact maximum.
    pub max: Option<u64>,
}

/// Quantiles in ns that lie between two steps: a shift of less than a step moves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interpolated {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile, where ten lie beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// 99.9th percentile, where ten lie beyond it.
    #[serde(rename = "p99.9", default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
}
