//! The schema `hairpin.check/1`: the cost of the instrument, how well it reports a delay that it did not cause itself, and
//! whether an emulated NIC keeps its declared latency.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::head::{Body, Record};
use crate::run::ClockFacts;

/// The record `hairpin.check/1`, which `hairpin check --json` prints: a head and a [`CheckBody`].
///
/// A device caused delays that were known beforehand, and the instrument reported them: `delays` has one [`Delay`] per length,
/// the shortest first, and `latencies` one [`Latency`] per declared latency of an emulated NIC. An `error_ns` is the reported
/// time minus the true one, and each row passes or fails by a bound, in ns too. The verdict is on all of them, and on the clock.
/// `elapsed` is `None` where the clock is the one that it would be compared with. [`Check::parse`](Record::parse) fails where a
/// field is missing or wrong; records from before latencies and `elapsed` have none, with 0 for bound and tries of the former.
///
/// ```
/// use hairpin_record::check::{Check, Verdict};
///
/// # let json = &std::fs::read("tests/data/check-1.json").unwrap();
/// let check = Check::parse(json)?;
/// assert_eq!((check.verdict, check.delays.len()), (Verdict::Passed, 5));
/// assert!(check.delays.iter().all(|delay| delay.error_ns.abs() <= check.bound_ns as f64));
/// assert!(check.latencies.is_empty() && check.elapsed.is_none()); // a record from before these
/// # Ok::<(), serde_json::Error>(())
/// ```
pub type Check = Record<CheckBody>;

impl Body for CheckBody {
    const SCHEMA: &'static str = "hairpin.check/1";
}

/// The instrument's own cost, and its errors at known delays, at known latencies and against a second clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Check")]
pub struct CheckBody {
    /// Passed if every delay and every latency was reported within its bound, the clock agreed with another one, and its steps
    /// are fine enough to tell the shortest delay from none.
    pub verdict: Verdict,
    /// The clock behind every stamp; `drift_ppb` is `null`, since a check is too short to tell.
    pub clock: ClockFacts,
    /// Time per transaction of the whole measuring loop over a path that does nothing, both stamps included: the median of many
    /// short blocks.
    pub own_cost_ns: f64,
    /// The same in the quickest of these blocks, in ns: the cost without disturbance.
    pub own_cost_least_ns: f64,
    /// Largest allowed error of a reported delay, in ns; at least one step of the clock.
    pub bound_ns: u64,
    /// One row per delay, the shortest first.
    pub delays: Vec<Delay>,
    /// Number of tries of the delays, at most three: each after a failure. The rows are those of the last
    /// try. 0 in older records.
    #[serde(default)]
    pub delay_tries: u32,
    /// Largest allowed difference between the RTT measured over the emulated NIC and the sum of its parts, in
    /// ns; at least one step of the clock.
    #[serde(default)]
    pub latency_bound_ns: u64,
    /// As `delay_tries`, for the latencies.
    #[serde(default)]
    pub latency_tries: u32,
    /// The emulated NIC at several declared latencies, the shortest first; none where it cannot be measured here.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    /// The reason why `latencies` is empty; `null` if it is not.
    #[serde(default)]
    pub no_latencies: Option<String>,
    /// The clock over the whole check, compared with another one; `null` if the clock is that other one, and in older records.
    #[serde(default)]
    pub elapsed: Option<Elapsed>,
}

/// Duration of the check by the clock behind every stamp, and by another clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Elapsed {
    /// The other clock: `monotonic_raw`, read by code that has nothing to do with the calibration.
    pub against: String,
    /// By the clock behind every stamp.
    pub clock_ns: u64,
    /// By the other clock.
    pub other_ns: u64,
    /// Deviation of the first clock from the second, in parts per million.
    pub error_ppm: f64,
    /// Largest allowed deviation, in parts per million.
    pub bound_ppm: f64,
    /// Passed if it is within the bound.
    pub verdict: Verdict,
}

/// A declared latency, and the round trip measured over it: 2 × declared + turn-around + own. The figures are those of one round
/// of interleaved blocks, the one with the middle error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// One way, as declared to the device.
    pub declared_ns: u64,
    /// The server's turn-around, p50.
    pub turnaround_ns: f64,
    /// The program's own part of a round trip, p50 in ns: both ends in turn on one core, nothing emulated,
    /// with the same pause each way.
    pub own_ns: f64,
    /// Sum of these parts, in ns.
    pub sum_ns: f64,
    /// The RTT, p50.
    pub measured_ns: f64,
    /// Measured minus sum.
    pub error_ns: f64,
    /// Passed if the error is within the bound.
    pub verdict: Verdict,
}

/// A delay that a device injected, and the delay that the instrument reported, both less those of a block with no delay. The
/// figures are those of one round of interleaved blocks, the one with the median error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// Delay that the device was set to, in ns.
    pub asked_ns: u64,
    /// Delay by the device's own clock, in ns: its p50 minus its p50 without a delay.
    pub injected_ns: f64,
    /// Delay that the instrument reported, in ns: its p50 RTT minus its p50 RTT without a delay.
    pub reported_ns: f64,
    /// Reported minus injected.
    pub error_ns: f64,
    /// Passed if the error is within the bound.
    pub verdict: Verdict,
}

/// The outcome of a test: whether the error lies within the bound that stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the bound.
    Passed,
    /// Not within the bound.
    Failed,
}
