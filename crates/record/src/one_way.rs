//! One-way delays: each direction of a round trip by the time of day of both hosts, with the error that their clocks allow.
//!
//! A [`OneWay`] stands in [`Row::one_way`](crate::run::Row::one_way), and is `None` there unless `--one-way` asked for it.
//! Request, reply and their difference are each summarized in ns over all transactions, so the p50 of both directions do not add
//! up to anything. Times may be negative, where the clocks differ by more than the delay. A [`ClockState`] tells what a host's
//! clock follows and by how much it may be off, as the daemon that steers it says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The one-way delays of a row. Each figure lies within `bound_ns` of the truth, in either direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneWay {
    /// Client's send call entered → server's receive call returned. Negative where the clocks differ by more than the delay.
    pub request_ns: SignedTimes,
    /// Server's send call entered → client's receive call returned.
    pub reply_ns: SignedTimes,
    /// Request less reply, of each transaction; right to within twice `bound_ns`, since an offset of the clocks adds to one and
    /// is taken off the other.
    pub asymmetry_ns: SignedTimes,
    /// Largest error of a delay, in ns: the sum of `parts`.
    pub bound_ns: f64,
    /// The parts of the bound.
    pub parts: Vec<ErrorPart>,
    /// What both clocks have in common, in words.
    pub source: String,
    /// The client's clock when it was read last; `null` where both sides read one clock.
    pub client: Option<ClockState>,
    /// The server's.
    pub server: Option<ClockState>,
    /// Times that both clocks' states were read.
    pub readings: u64,
    /// Transactions with the times of one side alone.
    pub unmatched: u64,
    /// Blocks left out, because a clock was set or changed its rate in them.
    pub blocks_rejected: u64,
    /// Delays below 0, of either direction; the bound explains those that are no further below it.
    pub negative: u64,
    /// Of these, delays further below 0 than the bound: one of the clocks is worse than its daemon says.
    pub impossible: u64,
    /// Why no more blocks counted, if the clocks lost their common source in mid-run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Summary of times that may be negative, in ns. A quantile that the count does not support is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignedTimes {
    /// Transactions.
    pub count: u64,
    /// Least.
    pub min: Option<i64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<i64>,
    /// 90th percentile.
    pub p90: Option<i64>,
    /// 99th percentile.
    pub p99: Option<i64>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p999: Option<i64>,
    /// Largest.
    pub max: Option<i64>,
}

/// A part of an error bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorPart {
    /// What may be off.
    pub what: String,
    /// By how much at most.
    pub ns: f64,
}

/// The source of a host's time of day and its error bound, by the word of the daemon that steers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockState {
    /// The daemon: `chrony`, `ptp4l` or both.
    pub daemon: String,
    /// The source of the time of day.
    pub follows: Follows,
    /// Largest error against that, in ns: the sum of `parts`.
    pub error_ns: f64,
    /// The parts of it.
    pub parts: Vec<ErrorPart>,
    /// Growth of the error until the next reading, in parts per 10^9 of the time.
    pub growth_ppb: f64,
}

/// The source of a host's time of day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Follows {
    /// A server of NTP, by its address.
    Ntp(String),
    /// A reference clock, by its ID.
    Reference(String),
    /// A clock of PTP.
    Ptp {
        /// Its identity.
        clock: String,
        /// This host's own identity in PTP.
        own: String,
    },
    /// Nothing: others may follow this host.
    Itself {
        /// This host's own identity in PTP, if it speaks it.
        ptp: Option<String>,
    },
}
