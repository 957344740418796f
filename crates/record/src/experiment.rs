//! Parts shared by the records of all experiments: blocks of arms, figures, intervals, and the verdict of a comparison.
//!
//! An arm is one way to do the work. A block is a short measurement of one arm. A round has one block of every arm in random
//! order, so that both blocks of a pair share the host's other activity.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure that arms are compared by: a quantile of the RTT in ns, the rate in 1/s, or CPU time in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Figure {
    /// Median RTT.
    #[default]
    #[serde(rename = "p50")]
    P50,
    /// 99th percentile of the RTT.
    #[serde(rename = "p99")]
    P99,
    /// 99.9th percentile of the RTT.
    #[serde(rename = "p99.9")]
    P999,
    /// Transactions per second.
    #[serde(rename = "rate")]
    Rate,
    /// User and system time per transaction, of both sides where both are known.
    #[serde(rename = "cpu")]
    Cpu,
}

impl Figure {
    /// All figures, in the order of tables.
    pub const ALL: [Figure; 5] = [Figure::P50, Figure::P99, Figure::P999, Figure::Rate, Figure::Cpu];

    /// True if a higher value is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        self == Figure::Rate
    }

    /// Its name in flags and records, such as `p99.9`; [`FromStr`] reads it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Figure::P50 => "p50",
            Figure::P99 => "p99",
            Figure::P999 => "p99.9",
            Figure::Rate => "rate",
            Figure::Cpu => "cpu",
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Figure, String> {
        let found = Figure::ALL.into_iter().find(|figure| figure.name() == text);
        found.ok_or_else(|| format!("there is no figure \"{text}\" to compare by; there are: p50, p99, p99.9, rate, cpu"))
    }
}

/// One block of one arm: a short measurement within a round. A figure that its transactions do not support is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmBlock {
    /// The round that it belongs to.
    pub round: u32,
    /// Start, in ns since the first block.
    pub at_ns: u64,
    /// Transactions in it.
    pub transactions: u64,
    /// Requests that were never answered in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Measured length.
    pub duration_ns: u64,
    /// Median RTT, interpolated between steps of the clock.
    pub p50_ns: Option<f64>,
    /// 99th percentile of the RTT, if ten lie beyond it.
    pub p99_ns: Option<f64>,
    /// 99.9th percentile of the RTT, if ten lie beyond it.
    #[serde(rename = "p99.9_ns")]
    pub p999_ns: Option<f64>,
    /// User and system time per transaction, warm-up included, of both sides where both are known.
    pub cpu_ns: Option<f64>,
    /// Cache-line round trip between the cores of both sides, the larger of before and after; `null` where they share no memory.
    pub core_rtt_ns: Option<u64>,
    /// The state of the cores: an index into the record's `states`; `null` if they changed within the block, or if the arm runs
    /// on other CPUs than the first.
    pub state: Option<u32>,
}

impl ArmBlock {
    /// A figure of the block, above 0: times in ns, a rate in transactions per second. `None` where the block has none, such as a
    /// quantile of too few transactions.
    #[must_use]
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        let found = match figure {
            Figure::P50 => self.p50_ns,
            Figure::P99 => self.p99_ns,
            Figure::P999 => self.p999_ns,
            Figure::Rate => (self.duration_ns > 0).then(|| self.transactions as f64 / self.duration_ns as f64 * 1e9),
            Figure::Cpu => self.cpu_ns,
        };
        found.filter(|value| value.is_finite() && *value > 0.0)
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A state of the two cores: their distance was about the same in all blocks of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// The median cache-line round trip of its blocks; `null` where the two sides share no memory, so that there is one state.
    pub core_rtt_ns: Option<u64>,
    /// Blocks in it, of all arms.
    pub blocks: u64,
}

/// Ratio of one figure of an arm to that of the arm it is compared with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The figure.
    pub figure: Figure,
    /// This arm's figure over the other's: the Hodges-Lehmann estimate from pairs of blocks. `null`: too few for the figure.
    pub ratio: Option<f64>,
    /// Lower end of the interval; `null`: not known.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// (ratio − 1) × the other arm's figure, in ns, or in 1/s for the rate.
    pub difference: Option<f64>,
    /// Lower end of the difference's interval.
    pub difference_low: Option<f64>,
    /// Upper end of the difference's interval.
    pub difference_high: Option<f64>,
    /// Pairs that it comes from.
    pub pairs: u64,
    /// Blocks of a side that were merged into one value of a pair: more than 1 if one block has too few transactions for the
    /// quantile.
    pub blocks_per_value: f64,
    /// Correlation of neighbouring pairs; above 0 it has widened the interval.
    pub autocorrelation: Option<f64>,
    /// The other arm's typical figure over the blocks of the ratio, all with the same weight: in ns, or in 1/s for the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<f64>,
    /// This arm's figure likewise: ratio × `base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Factor by which the interval is wider than for independent pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub widened: Option<f64>,
    /// With several stored runs: the standard deviation of ln(figure) from run to run, which the interval includes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_runs: Option<f64>,
}

/// Verdict of a comparison, by the interval of a ratio. The better side of 1 is below it for times, and above it for the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The interval lies wholly on the better side of 1.
    Faster,
    /// The interval lies wholly on the worse side of 1.
    Slower,
    /// The interval holds 1 and lies wholly within the margin.
    Same,
    /// The interval holds 1 and reaches beyond the margin, there are fewer than 12 pairs, or there are only two single stored
    /// runs.
    Unclear,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Unclear => "unclear",
        })
    }
}
