//! Summaries of a distribution of times.

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
