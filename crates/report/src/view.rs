//! The contents of a report as data; [`view`](crate::view()) computes it from the records.
//!
//! Times are nanoseconds. A value that a record does not hold is `null` or an empty list, never zero. Every text may come from
//! another host: it is printable (see [`prose::clean`](crate::prose::clean)), but not escaped for any format.

use serde::Serialize;

use hairpin_record::any::AnyRecord;
use hairpin_record::explain::{Explain, Explained};
use hairpin_record::run::Origin;

mod mesh;
mod noise;
mod stamped;

pub use hairpin_record::design::{CableType, Design, DesignCable, DesignPart};
pub use hairpin_record::published::Published;
pub use mesh::{MeshHost, MeshMap, MeshPair};
pub use noise::{CoreStalls, HostNoise, StallCause};
pub use stamped::{Delay, OneWay, Split, SplitPart, SplitPiece};

/// A record to show.
#[derive(Clone, Debug)]
pub struct Input {
    /// The run's id, or the file's name.
    pub name: String,
    pub record: AnyRecord,
}

/// Figures that no record holds, to show beside the measured ones.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Published round trips.
    pub published: Vec<Published>,
    /// Types of cable to choose from.
    pub cables: Vec<CableType>,
    /// The NIC designs to choose from for an explained path.
    pub designs: Option<fn(&Explain, &Explained) -> Vec<Design>>,
}

/// The whole report. `web/src/view.ts` has the same fields, and those that `drawn/page.rs` adds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct View {
    /// Name and version of the tool that made the report.
    pub tool: String,
    /// Creation time, RFC 3339 in UTC.
    pub made: String,
    /// Sentences: the fastest path, the parts of the gap to the floor, the next thing to try.
    pub summary: Vec<String>,
    /// The records in the order given.
    pub records: Vec<Record>,
    /// Every row of every run, in the order of the runs.
    pub rows: Vec<Row>,
    /// RTT against size: a curve for each path of a run that was measured at two sizes or more.
    pub curves: Vec<Curve>,
    /// Stages of a round trip: one entry for each path of each explain record.
    pub breakdowns: Vec<Breakdown>,
    /// One for each pair of arms of each compare record, each setting of each `tune try` record, and each level of each sweep.
    pub comparisons: Vec<Comparison>,
    /// Round trips against the offered rate: one entry for each path and size of each load record.
    pub loads: Vec<LoadCurve>,
    /// One for each mesh record.
    pub meshes: Vec<MeshMap>,
    /// One for each record of `check --host`.
    pub noises: Vec<HostNoise>,
    /// Frame rates: one entry for each row of each stream record, and for each bounce record.
    pub frames: Vec<Frames>,
    /// The known times of each check record.
    pub checks: Vec<Checked>,
    /// Stages of an application's transactions: one entry for each sum of each record of `explain` on a running program.
    pub applications: Vec<Application>,
    /// Reads of a PCI device: one entry for each `floor pcie` record of a device.
    pub reads: Vec<DeviceReads>,
    /// The costs of a NIC driver's steps, of each `floor pcie` record without a device.
    pub steps: Vec<DriverStep>,
    /// Facts of all hosts, differing ones first.
    pub facts: Vec<Fact>,
    /// The hosts of [`Fact::values`], in the same order: `client of 1`, `server of 1` …
    pub hosts: Vec<String>,
    /// Types of cable that a reader can choose for a [`Breakdown::designs`].
    pub cables: Vec<CableType>,
    /// Published figures to show beside the measured ones.
    pub published: Vec<Published>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// The record's number in this report, from 1; rows and curves refer to it.
    pub number: usize,
    /// The run's id, or the file's name.
    pub name: String,
    /// The schema, such as `hairpin.run/1`.
    pub schema: String,
    /// Name and version of the tool that made the record.
    pub tool: String,
    /// The command line that repeats the measurement, quoted for a POSIX shell.
    pub command: String,
    /// Start time, RFC 3339 in UTC.
    pub started: String,
    /// The link in words: `loopback`, `veth, mtu 1500`, `host 192.0.2.1`.
    pub link: String,
    /// Source and drift of the clock, in words.
    pub clock: String,
    /// Why the measurement ended early, if it did.
    pub ended: Option<String>,
    /// Warnings about the whole record.
    pub warnings: Vec<Warning>,
}

/// A reason why a figure may mislead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub code: String,
    /// The observation, a likely cause, and advice.
    pub message: String,
}

/// The results of one path at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The row's number in this report, from 1; part of the URL of a selection.
    pub number: usize,
    /// [`Record::number`] of its run.
    pub record: usize,
    pub path: String,
    /// A short, unique name: the path with whatever distinguishes it from the other rows (size, flows, pace, link).
    pub label: String,
    pub origin: Origin,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a reply.
    pub reply_bytes: u64,
    /// Connections or sockets.
    pub flows: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// The requested rate in 1/s, if paced.
    pub pace_per_s: Option<f64>,
    /// Number of RTT samples.
    pub count: u64,
    /// Requests without an answer in time.
    pub lost: u64,
    /// Transactions per second.
    pub transactions_per_s: f64,
    pub rtt: Summary,
    /// Server's receive → send.
    pub turnaround: Option<Summary>,
    /// User and system time of the client per transaction.
    pub cpu_client_ns: Option<f64>,
    /// User and system time of the server per transaction.
    pub cpu_server_ns: Option<f64>,
    /// Lower and upper end of the round trip's physical floor, if one was declared.
    pub floor_ns: Option<[f64; 2]>,
    /// Points of the percentile plot: the RTT at ever higher quantiles, up to the highest that the count supports.
    pub percentiles: Vec<Percentile>,
    /// The distribution in buckets, without empty ones. A bucket's width is at most 1/64 of its value; 1/32 or 1/16 if there
    /// would be more than 200 buckets; and 1/16 where less than a hundredth of all samples lies on the bucket's side. The density
    /// is count divided by width.
    pub buckets: Vec<Bucket>,
    /// The RTT over time.
    pub series: Series,
    /// Its parts by host and wire, where stamps were taken.
    pub split: Option<Split>,
    /// Its two ways apart, where both clocks follow one source.
    pub one_way: Option<OneWay>,
    pub warnings: Vec<Warning>,
    /// Why the row is not comparable with the others: its cores were at another distance. `null` if it is.
    pub apart: Option<String>,
}

/// A distribution in figures; a value that the count does not support is `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub min: Option<u64>,
    /// For readers who ask for it; never a headline.
    pub mean: Option<f64>,
    /// Median, with the ends of its 95 % interval.
    pub p50: Quantile,
    pub p90: Quantile,
    pub p99: Quantile,
    /// 99.9th percentile.
    pub p999: Quantile,
    pub max: Option<u64>,
}

/// A quantile and its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantile {
    /// The value; `null` where fewer than ten samples lie beyond it.
    pub ns: Option<u64>,
    /// Lower end of the 95 % interval, computed from the row's blocks, since blocks are independent and samples are not. `null`
    /// with too few blocks, and for p90, which blocks do not store.
    pub low_ns: Option<u64>,
    pub high_ns: Option<u64>,
}

/// A point of the percentile plot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// 0 to 1.
    pub q: f64,
    /// RTT at `q`.
    pub ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The least time in the bucket.
    pub from_ns: u64,
    /// The largest time in the bucket.
    pub to_ns: u64,
    /// Number of samples.
    pub count: u64,
}

/// A row over time, column by column, in at most 240 intervals. If several points of the record fall into one interval, it holds
/// the range of their quantiles; quantiles are never averaged.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Start of each interval in ms since measuring began.
    pub at_ms: Vec<f64>,
    /// Lowest p50 in the interval.
    pub p50_low_ns: Vec<Option<u64>>,
    /// Highest p50.
    pub p50_high_ns: Vec<Option<u64>>,
    /// Highest p99.
    pub p99_ns: Vec<Option<u64>>,
    /// Largest RTT.
    pub max_ns: Vec<u64>,
    /// Cache-line round trip between the two cores, the largest among the blocks that began in the interval;
    /// `null` without such blocks.
    pub core_rtt_ns: Vec<Option<u64>>,
    /// True where two clocks disagreed.
    pub clock_suspect: Vec<bool>,
}

/// RTT of one path against size.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// [`Record::number`] of its run.
    pub record: usize,
    /// A short name without size.
    pub label: String,
    /// [`Row::number`]s, ordered by size.
    pub rows: Vec<usize>,
    /// The straight lines through RTT p50, with the step between them if there is one; `null` with fewer than three sizes.
    pub fit: Option<hairpin_record::fit::Fit>,
    /// Rows that the fit leaves out because of the state of the cores, or the reason for a missing fit.
    pub fit_note: Option<String>,
}

/// The stages of one path's round trips.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Breakdown {
    /// [`Record::number`] of its record.
    pub record: usize,
    pub label: String,
    pub origin: Origin,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Number of transactions measured without any hook.
    pub untraced_count: u64,
    /// RTT p50 without any hook: the headline.
    pub untraced_p50_ns: Option<u64>,
    /// RTT p50 of the traced transactions.
    pub traced_p50_ns: Option<u64>,
    /// Number of typical transactions (p40 to p60).
    pub typical_count: u64,
    /// Mean RTT of the typical transactions; equals the sum of their stages, observer and residual.
    pub typical_ns: f64,
    /// Number of slow transactions (beyond p99).
    pub slow_count: u64,
    /// Mean RTT of the slow transactions.
    pub slow_ns: f64,
    /// In the order of a round trip; `observer` and `residual` last.
    pub stages: Vec<StageRow>,
    /// Its parts by host and wire, where stamps were taken.
    pub split: Option<Split>,
    /// Where a NIC and a cable stand in this round trip.
    pub wire: Wire,
    /// The same in a sentence.
    pub wire_said: String,
    /// True if the first of `designs` is the one that was declared for the measurement.
    pub declared: bool,
    /// NIC designs whose floor can be drawn beside or within this round trip.
    pub designs: Vec<Design>,
    /// Causes of slow transactions, the largest total time first.
    pub causes: Vec<Cause>,
    pub warnings: Vec<Warning>,
}

/// Where a NIC and a cable stand in a measured round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    #[default]
    /// Nowhere, since both sides are on one host: their floor stands beside the measured time.
    Beside,
    /// In the time outside of both hosts, as its floor.
    Outside,
    /// In the time of the ring: the device with these latencies is emulated.
    Ring,
}

/// A part of a round trip.
#[derive(Clone, Debug, Serialize)]
pub struct StageRow {
    pub name: String,
    /// The kind of work, in a word: `waking`, `kernel`, `calls`, `program`, `waiting`, `pieces`, `ring`, `outside`, `hooks`, `no
    /// stage`.
    pub part: String,
    /// `client`, `server`, or empty.
    pub side: String,
    /// `request`, `reply`, or empty.
    pub direction: String,
    /// Mean over the typical transactions.
    pub typical_ns: f64,
    /// Mean over the slow transactions.
    pub slow_ns: f64,
    /// Median over the transactions that passed the stage.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
}

/// A cause of slow transactions.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    pub cause: String,
    /// The process or thread responsible.
    pub who: String,
    /// Number of slow transactions with this cause.
    pub count: u64,
    /// Total time lost.
    pub lost_ns: u64,
    pub advice: String,
}

/// One arm compared with the first.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// The first arm, the baseline.
    pub against: String,
    /// The other arm.
    pub arm: String,
    /// `faster`, `slower`, `same`, `unclear`.
    pub verdict: String,
    /// The figure that the verdict is about.
    pub figure: String,
    /// The verdict in a sentence.
    pub sentence: String,
    pub ratios: Vec<Ratio>,
    /// True if the arms were measured in turn; false for two stored runs.
    pub interleaved: bool,
    /// Differences below this share do not matter.
    pub margin: f64,
    /// The joint confidence of all intervals.
    pub confidence: f64,
}

/// The comparison of one figure.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// `p50`, `p99`, `p99.9`, `rate` or `cpu`.
    pub figure: String,
    /// The first arm's value: ns, or 1/s for `rate`.
    pub against: Option<f64>,
    /// The other arm's value.
    pub value: Option<f64>,
    /// The other arm's value divided by the first arm's, from pairs of blocks.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub low: Option<f64>,
    /// Upper end of the ratio's interval.
    pub high: Option<f64>,
}

/// The results of one path at each offered rate.
#[derive(Clone, Debug, Serialize)]
pub struct LoadCurve {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// The path with its payload.
    pub label: String,
    pub origin: Origin,
    /// The knee in words.
    pub knee: String,
    /// The highest rate that the path sustains.
    pub keeps_up_per_s: Option<f64>,
    /// The first rate that it does not sustain.
    pub beyond_per_s: Option<f64>,
    /// In the order measured.
    pub rates: Vec<LoadRate>,
    /// Each kind of warning once.
    pub warnings: Vec<Warning>,
}

/// The results at one offered rate.
#[derive(Clone, Debug, Serialize)]
pub struct LoadRate {
    /// The rate at which requests were due.
    pub offered_per_s: f64,
    /// The same in words: `20.0 k/s`.
    pub offered_said: String,
    /// Answers per second.
    pub achieved_per_s: f64,
    /// Number of requests due.
    pub due: u64,
    /// Requests given up.
    pub lost: u64,
    /// Number of earlier measurements of this rate.
    pub repeat: u32,
    /// True if the cores were in another state than at most rates of the curve.
    pub apart: bool,
    /// RTT from the time each request was due.
    pub from_due: Summary,
    /// RTT from the time each request was sent.
    pub from_sent: Summary,
    /// Its parts by host and wire, of round trips with one request in flight, where stamps were taken.
    pub split: Option<Split>,
}

/// Frame rates in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Frames {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// Back end and wait policy.
    pub label: String,
    /// `inject`, `receive` or `bounce`.
    pub direction: String,
    /// Frame size without FCS; `null` if the sender chooses it.
    pub frame_bytes: Option<u64>,
    /// The highest rate without loss.
    pub lossless_per_s: Option<f64>,
    /// The lowest rate at which most trials lost frames.
    pub loses_per_s: Option<f64>,
    /// The paced rate, or the sender's maximum.
    pub offered_per_s: Option<f64>,
    /// The part of the offered rate that arrived.
    pub delivered_per_s: Option<f64>,
    /// Frames lost at the offered rate.
    pub lost: u64,
    pub warnings: Vec<Warning>,
}

/// A known time and the instrument's report of it.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// `injected delay` or `emulated NIC`.
    pub what: String,
    /// The requested or declared time.
    pub asked_ns: u64,
    /// The true duration of the round trip, as far as it is known.
    pub known_ns: f64,
    pub reported_ns: f64,
    /// `reported_ns` - `known_ns`.
    pub error_ns: f64,
    /// The largest allowed error.
    pub bound_ns: u64,
    /// True if the error is within the bound.
    pub passed: bool,
}

/// The transactions of an application that ran, as far as one or both of its sides were seen.
#[derive(Clone, Debug, Serialize)]
pub struct Application {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// The sides that were seen, and the span of the sum, in words.
    pub said: String,
    /// From the first hook to the last.
    pub sum: ApplicationStage,
    /// In the order in which a transaction passes them.
    pub stages: Vec<ApplicationStage>,
}

/// The time between two neighbouring hooks.
#[derive(Clone, Debug, Serialize)]
pub struct ApplicationStage {
    pub name: String,
    /// `client`, `server`, or empty.
    pub side: String,
    pub count: u64,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// Its part of the sum of all transactions, 0 to 1.
    pub share: f64,
}

/// 4-byte reads of a PCI device by the CPU.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReads {
    /// [`Record::number`] of its record.
    pub record: usize,
    pub label: String,
    pub count: u64,
    pub times: Summary,
}

/// The cost of a step of a NIC driver over ordinary memory.
#[derive(Clone, Debug, Serialize)]
pub struct DriverStep {
    /// [`Record::number`] of its record.
    pub record: usize,
    pub name: String,
    pub implementation: String,
    pub alone_ns: f64,
    /// The same in a row of several; `null` if the step cannot be done in a row.
    pub in_a_row_ns: Option<f64>,
}

/// One fact of every host.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// The name used in the record and in `hairpin tune list`.
    pub name: String,
    /// The value on each host; `null` if it could not be read or the record does not have it.
    pub values: Vec<Option<String>>,
    /// True if the known values differ.
    pub differs: bool,
}
