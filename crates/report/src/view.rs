//! What a report shows, worked out once from the records: the page, Markdown, SVG and the terminal's plots only draw it.
//!
//! ```text
//!   records of every kind            ──▶ View ──▶ html   (JSON inside the page, drawn by web/)
//!                                           ├──▶ markdown
//!                                           ├──▶ svg
//!                                           └──▶ term
//! ```
//! Times are nanoseconds. What a record does not hold is `null` or an empty list, never a zero. Every text may come from another host: it is printable (see
//! [`prose::clean`](crate::prose::clean)), but not escaped for any format.

mod breakdowns;
mod checks;
mod comparisons;
mod curves;
mod distribution;
mod facts;
mod frames;
mod labels;
mod loads;
mod records;
mod rows;
mod series;
mod summary;

use serde::Serialize;

use hairpin_record::any::AnyRecord;
use hairpin_record::core_states::CoreStates;
use hairpin_record::head::TOOL;
use hairpin_record::run::{Origin, Run};

pub use hairpin_record::published::Published;

use crate::notes::hosts;
use labels::Labels;

/// A record to be shown.
#[derive(Clone, Debug)]
pub struct Given {
    /// The run's id, or the file's name.
    pub name: String,
    /// What it holds.
    pub record: AnyRecord,
}

/// The view of these records, in their order. `made` is the time of making, RFC 3339 in UTC; `published` can be shown beside the measured figures.
pub fn view(given: &[Given], made: &str, published: Vec<Published>) -> View {
    let labels = Labels::of(given);
    let states = core_states(given);
    let rows = rows::rows(given, &labels, &states);
    let (hosts, facts) = facts::facts(given);
    View {
        tool: TOOL.into(),
        made: made.into(),
        summary: summary::summary(given, &labels, &states),
        records: given.iter().enumerate().map(|(at, given)| records::record(at + 1, given)).collect(),
        curves: curves::curves(given, &rows),
        rows,
        breakdowns: breakdowns::breakdowns(given),
        comparisons: comparisons::comparisons(given),
        loads: loads::loads(given),
        frames: frames::frames(given),
        checks: checks::checks(given),
        facts,
        hosts,
        published,
    }
}

/// In which state the cores of every row were; rows of other hosts have other cores.
fn core_states(given: &[Given]) -> CoreStates {
    CoreStates::of(runs(given).flat_map(|(_, run)| run.results.iter().map(move |row| (hosts(run), row))))
}

/// Every run among the records, with its number.
fn runs(given: &[Given]) -> impl Iterator<Item = (usize, &Run)> {
    given.iter().enumerate().filter_map(|(at, given)| match &given.record {
        AnyRecord::Run(run) => Some((at + 1, &**run)),
        _ => None,
    })
}

/// The whole report. `web/src/view.ts` has the same fields.
#[derive(Clone, Debug, Default, Serialize)]
pub struct View {
    /// Name and version of the tool that made the report.
    pub tool: String,
    /// When it was made, RFC 3339 in UTC.
    pub made: String,
    /// In words: what is fastest, what the gap to the floor is made of, what to try.
    pub summary: Vec<String>,
    /// The records that were given, in their order.
    pub records: Vec<Record>,
    /// Every row of every run, in the order of the runs.
    pub rows: Vec<Row>,
    /// RTT against size: a curve for each path of a run that was measured at two sizes or more.
    pub curves: Vec<Curve>,
    /// Where the time went: one for each path of each explain record.
    pub breakdowns: Vec<Breakdown>,
    /// One for each pair of arms of each compare record, each setting of each `tune try` record, and each level of each sweep.
    pub comparisons: Vec<Comparison>,
    /// Round trips against the rate at which they are due: one for each path and size of each load record.
    pub loads: Vec<LoadCurve>,
    /// Frames a second: one for each row of each stream record, and each bounce record.
    pub frames: Vec<Frames>,
    /// The known times of each check record.
    pub checks: Vec<Checked>,
    /// Facts of all hosts, those that differ first.
    pub facts: Vec<Fact>,
    /// The hosts whose facts they are: `client of 1`, `server of 1` …, in the order of [`Fact::values`].
    pub hosts: Vec<String>,
    /// Published figures that can be shown beside the measured ones.
    pub published: Vec<Published>,
}

/// A record that was given.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// Its number in this report, from 1: rows and curves name it.
    pub number: usize,
    /// The run's id, or the file's name.
    pub name: String,
    /// Its schema, such as `hairpin.run/1`.
    pub schema: String,
    /// The version that made it.
    pub tool: String,
    /// The command line that makes it again, quoted for a POSIX shell.
    pub command: String,
    /// When it started, RFC 3339 in UTC.
    pub started: String,
    /// What lies between the two sides, in words: `loopback`, `veth, mtu 1500`, `host 192.0.2.1`.
    pub link: String,
    /// How the clock did, in words.
    pub clock: String,
    /// Why it ended early, if it did.
    pub ended: Option<String>,
    /// Warnings that are not a row's.
    pub warnings: Vec<Warning>,
}

/// What may be wrong with a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Which.
    pub code: String,
    /// What was seen, a likely cause, what to do.
    pub message: String,
}

/// What one path did at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its number in this report, from 1; part of the address that links to a selection.
    pub number: usize,
    /// [`Record::number`] of its run.
    pub record: usize,
    /// The path spec in canonical form.
    pub path: String,
    /// The path as a reader wants it: short, with what tells it from the other rows (size, flows, pace, link).
    pub label: String,
    /// Measured, emulated or published.
    pub origin: Origin,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a reply.
    pub reply_bytes: u64,
    /// Connections or sockets.
    pub flows: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// The asked rate in 1/s, if it was paced.
    pub pace_per_s: Option<f64>,
    /// Samples behind the RTTs.
    pub count: u64,
    /// Requests never answered in time.
    pub lost: u64,
    /// Transactions per second.
    pub transactions_per_s: f64,
    /// RTT.
    pub rtt: Summary,
    /// Server: received → sent.
    pub turnaround: Option<Summary>,
    /// User and system time per transaction of each side, in ns.
    pub cpu_client_ns: Option<f64>,
    /// The same of the server.
    pub cpu_server_ns: Option<f64>,
    /// The physical floor of its round trip where one was declared: lower and upper end.
    pub floor_ns: Option<[f64; 2]>,
    /// Points of the percentile plot: the RTT at ever higher quantiles, as far as the count supports them.
    pub percentiles: Vec<Percentile>,
    /// The distribution, in buckets of at most 1/64 of their value, 1/32 or 1/16 where that makes more than 200 of them, and 1/16 where less than a hundredth
    /// of all lies on their side; empty ones left out. A time is as likely as its bucket's count for its width.
    pub buckets: Vec<Bucket>,
    /// The run's course.
    pub series: Series,
    /// What may be wrong with it.
    pub warnings: Vec<Warning>,
    /// Why it is not to be ranked with the other rows: its cores were in another state; `null` if it is.
    pub apart: Option<String>,
}

/// A distribution in figures; what the count does not support is `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Least.
    pub min: Option<u64>,
    /// Mean, for those who ask; no headline.
    pub mean: Option<f64>,
    /// Median, with the ends of its 95 % interval.
    pub p50: Quantile,
    /// 90th percentile.
    pub p90: Quantile,
    /// 99th percentile.
    pub p99: Quantile,
    /// 99.9th percentile.
    pub p999: Quantile,
    /// Largest.
    pub max: Option<u64>,
}

/// A quantile and its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantile {
    /// The value; `null` where fewer than ten samples lie beyond it.
    pub ns: Option<u64>,
    /// Lower end of the 95 % interval from the row's blocks (they, not samples, are independent); `null` where there are too few, and for p90, which blocks
    /// do not keep.
    pub low_ns: Option<u64>,
    /// Upper end.
    pub high_ns: Option<u64>,
}

/// A point of the percentile plot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// Quantile, 0 to 1.
    pub q: f64,
    /// RTT there.
    pub ns: u64,
}

/// A bucket of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Least time that it counts.
    pub from_ns: u64,
    /// Largest time that it counts.
    pub to_ns: u64,
    /// Samples in it.
    pub count: u64,
}

/// A row's course, column by column, at most 240 intervals. Where several points of the record fall into one interval, its quantiles are the range of theirs:
/// quantiles are not averaged.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Start of each interval since the start of measuring, in ms.
    pub at_ms: Vec<f64>,
    /// Least p50 of the points within.
    pub p50_low_ns: Vec<Option<u64>>,
    /// Largest p50.
    pub p50_high_ns: Vec<Option<u64>>,
    /// Largest p99.
    pub p99_ns: Vec<Option<u64>>,
    /// Largest RTT.
    pub max_ns: Vec<u64>,
    /// Cache-line round trip between the two cores, the largest of the blocks that began within; `null` where none did or it is not known.
    pub core_rtt_ns: Vec<Option<u64>>,
    /// True where two clocks disagreed.
    pub clock_suspect: Vec<bool>,
}

/// RTT against size of one path.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// [`Record::number`] of its run.
    pub record: usize,
    /// The path as a reader wants it, without size.
    pub label: String,
    /// [`Row::number`]s, in the order of sizes.
    pub rows: Vec<usize>,
    /// The lines through RTT p50 with the step between them, if there is one; `null` with fewer than three sizes.
    pub fit: Option<hairpin_record::fit::Fit>,
    /// What was left out of the fit, or why there is none, where that is for the state of the cores.
    pub fit_note: Option<String>,
}

/// Where the time of one path's round trips went.
#[derive(Clone, Debug, Serialize)]
pub struct Breakdown {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// The path as a reader wants it.
    pub label: String,
    /// Measured or emulated.
    pub origin: Origin,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Transactions without any hook.
    pub untraced_count: u64,
    /// RTT p50 without any hook: the headline.
    pub untraced_p50_ns: Option<u64>,
    /// RTT p50 of the traced transactions.
    pub traced_p50_ns: Option<u64>,
    /// How many transactions are typical (p40 to p60).
    pub typical_count: u64,
    /// Mean RTT of these: what their stages, observer and residual add up to.
    pub typical_ns: f64,
    /// How many are slow (beyond p99).
    pub slow_count: u64,
    /// Mean RTT of these.
    pub slow_ns: f64,
    /// In the order in which a round trip passes them; `observer` and `residual` last.
    pub stages: Vec<Stage>,
    /// What the slow ones met, the one that took most time first.
    pub causes: Vec<Cause>,
    /// What may be wrong with it.
    pub warnings: Vec<Warning>,
}

/// A part of a round trip.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// `client`, `server`, or empty.
    pub side: String,
    /// `request`, `reply`, or empty.
    pub direction: String,
    /// Mean over the typical transactions.
    pub typical_ns: f64,
    /// Mean over the slow ones.
    pub slow_ns: f64,
    /// Median over those that passed it.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
}

/// Something that slow transactions met.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// What.
    pub cause: String,
    /// Who did it.
    pub who: String,
    /// How many of the slow ones.
    pub count: u64,
    /// Time lost to it.
    pub lost_ns: u64,
    /// What to do.
    pub advice: String,
}

/// One arm held against the first.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// The first arm, which the other is held against.
    pub against: String,
    /// The other arm.
    pub arm: String,
    /// `faster`, `slower`, `same`, `unclear`.
    pub verdict: String,
    /// The figure that the verdict is about.
    pub figure: String,
    /// What the verdict means here, in a sentence.
    pub sentence: String,
    /// Every figure.
    pub ratios: Vec<Ratio>,
    /// True if the arms were measured in turn; false for two runs that were stored before.
    pub interleaved: bool,
    /// A difference of less than this share does not matter.
    pub margin: f64,
    /// All intervals together hold with this confidence.
    pub confidence: f64,
}

/// How one figure compares.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Its name: `p50`, `p99`, `p99.9`, `rate`, `cpu`.
    pub figure: String,
    /// The first arm's value: ns, or 1/s for `rate`.
    pub against: Option<f64>,
    /// The other arm's.
    pub value: Option<f64>,
    /// The other's over the first's, from pairs of blocks.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// What one path did at each rate that was offered to it.
#[derive(Clone, Debug, Serialize)]
pub struct LoadCurve {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// The path with its payload.
    pub label: String,
    /// Measured or emulated.
    pub origin: Origin,
    /// Up to which rate it keeps up, in words.
    pub knee: String,
    /// The highest rate at which it keeps up.
    pub keeps_up_per_s: Option<f64>,
    /// The first rate at which it does not.
    pub beyond_per_s: Option<f64>,
    /// In the order measured.
    pub rates: Vec<LoadRate>,
    /// Each kind of warning of its rates once.
    pub warnings: Vec<Warning>,
}

/// One rate, offered for a while.
#[derive(Clone, Debug, Serialize)]
pub struct LoadRate {
    /// The rate at which requests were due.
    pub offered_per_s: f64,
    /// Answers per second.
    pub achieved_per_s: f64,
    /// Requests that were due.
    pub due: u64,
    /// Requests given up.
    pub lost: u64,
    /// How many times the rate had been measured before.
    pub repeat: u32,
    /// RTT from the time each request was due.
    pub from_due: Summary,
    /// RTT from the time each request was sent.
    pub from_sent: Summary,
}

/// Frames a second in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Frames {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// How frames are sent and received.
    pub label: String,
    /// `inject`, `receive` or `bounce`.
    pub direction: String,
    /// Bytes of every frame without FCS; `null` where they are the sender's choice.
    pub frame_bytes: Option<u64>,
    /// The highest rate at which nothing was lost.
    pub lossless_per_s: Option<f64>,
    /// The least rate at which most trials lost frames.
    pub loses_per_s: Option<f64>,
    /// As fast as the sender can, or as it was paced.
    pub offered_per_s: Option<f64>,
    /// What arrived of that.
    pub delivered_per_s: Option<f64>,
    /// Frames lost of that.
    pub lost: u64,
    /// What may be wrong with it.
    pub warnings: Vec<Warning>,
}

/// A time that is known, and what the instrument reported.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// [`Record::number`] of its record.
    pub record: usize,
    /// `injected delay` or `emulated NIC`.
    pub what: String,
    /// The time that was asked for or declared.
    pub asked_ns: u64,
    /// The time that the round trip took by what is known of it.
    pub known_ns: f64,
    /// The time that was reported.
    pub reported_ns: f64,
    /// Reported less known.
    pub error_ns: f64,
    /// The error may be no larger.
    pub bound_ns: u64,
    /// True if it is not.
    pub passed: bool,
}

/// One fact of every host.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// Its name, as in the record and in `hairpin tune list`.
    pub name: String,
    /// Its value on each host; `null` where it could not be read or the record has none.
    pub values: Vec<Option<String>>,
    /// True if the values that are there differ.
    pub differs: bool,
}
