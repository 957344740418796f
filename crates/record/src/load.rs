//! The schema `hairpin.load/1`: round trips against the offered rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::head::{Body, Place, Record};
use crate::own_request::OwnRequest;
use crate::recorder::Recorder;
use crate::run::{Cpu, Granted, Origin, Quantiles, Silence};
use crate::split::Split;
use crate::warning::Note;

/// The record `hairpin.load/1`, which `hairpin load --json` prints: a head and a [`LoadBody`].
///
/// A [`LoadCurve`] has one [`LoadRow`] per offered rate, in 1/s, and the [`Knee`] up to which the path keeps up. The RTT from due
/// starts when a request was due, even if it was sent later, and counts every request that was due. The RTT from sent starts at
/// the send call.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Load(load) = record else { continue };
///     for curve in &load.results {
///         for row in &curve.rates {
///             println!("{} at {}/s: p99 {:?} ns from due", curve.path, row.offered_per_s, row.rtt_from_due_ns.p99);
///         }
///         let knee = curve.knee.as_ref().and_then(|knee| knee.keeps_up_per_s);
///         println!("{} keeps up with {knee:?}/s", curve.path);
///     }
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Load = Record<LoadBody>;

impl Body for LoadBody {
    const SCHEMA: &'static str = "hairpin.load/1";
}

/// One curve per path and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Load")]
pub struct LoadBody {
    /// Hosts, link and clock.
    #[serde(flatten)]
    pub place: Place,
    /// The times at which requests are due.
    pub schedule: ScheduleFacts,
    /// TCP streams that filled the same link during the measurement.
    pub bulk_streams: u32,
    /// One curve per path and size, in the order measured.
    pub results: Vec<LoadCurve>,
}

/// The times at which requests are due.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleFacts {
    /// `fixed`, `poisson` or `replay`.
    pub kind: String,
    /// Of `poisson`: the same intervals again for the same seed.
    pub seed: Option<u64>,
    /// Of `replay`: the recording.
    pub file: Option<String>,
}

/// Results of one path at one size, over rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadCurve {
    /// The path spec in canonical form.
    pub path: String,
    /// Source of the figures.
    pub origin: Origin,
    /// Payload of a request; the largest of a recording.
    pub request_bytes: u64,
    /// Payload of a reply.
    pub reply_bytes: u64,
    /// Connections or sockets over which the requests went.
    pub flows: u32,
    /// Measuring threads on the client.
    pub threads: u32,
    /// Room for requests in flight per flow; one that finds no room waits, and its due time is kept.
    pub outstanding: u32,
    /// The rate of a closed loop with as many requests in flight, where the rates were found from it.
    pub saturation_per_s: Option<f64>,
    /// The knee of the curve; `null` where fewer than two rates were measured to their end, or no rate had requests enough for a
    /// median.
    pub knee: Option<Knee>,
    /// One row per rate, in the order measured.
    pub rates: Vec<LoadRow>,
    /// Options requested of the kernel, and their values in force.
    pub granted: Vec<Granted>,
    /// With `--request` of the user's own: what was asked and answered, at all rates together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_request: Option<Box<OwnRequest>>,
}

/// The highest rate at which a path keeps up. Going up from the lowest rate, a path keeps up as long as it
/// answers `achieved_share` of the requests due and the quantile of its RTT from due stays within `factor`
/// times its least value until then. A rate that fails is measured again, and is beyond the knee only if it
/// fails again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The highest rate at which it keeps up; `null`: not even the lowest.
    pub keeps_up_per_s: Option<f64>,
    /// The first rate at which it does not; `null`: it keeps up with all that were measured to their end.
    pub beyond_per_s: Option<f64>,
    /// The failed condition: `achieved` or `latency`.
    pub why: Option<String>,
    /// The quantile of the RTT from due that decides: the largest up to p99 that every rate's count supports.
    pub quantile: f64,
    /// Largest allowed multiple of its least value until then.
    pub factor: f64,
    /// The share of the offered rate that must be achieved.
    pub achieved_share: f64,
    /// `stalls` if the place of the knee between the two rates is unknown, because stalls of the client's core explain every
    /// failure between them; `null` if the two rates bound the knee.
    #[serde(default)]
    pub unclear: Option<String>,
}

/// Results at one offered rate: what became of the requests that were due, and the distributions of their times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRow {
    /// The rate at which requests were due.
    pub offered_per_s: f64,
    /// Answers, including late ones, per second of wall time (`wall_ns`).
    pub achieved_per_s: f64,
    /// Requests that were due: as many as the distribution from due counts.
    pub due: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests that were due but not sent before the end of the run. Each counts in the RTT from due with the time until that
    /// end, a lower bound.
    pub unsent: u64,
    /// Requests sent and never answered. Each counts in the RTT from due with the time until the end of the run.
    #[serde(default)]
    pub unanswered: u64,
    /// Further requests that would have been due while the instrument did work of its own between blocks (`gap_ns`): not sent,
    /// and in no figure.
    #[serde(default)]
    pub left_out: u64,
    /// From the beginning of the schedule to its end, or to the last reply.
    #[serde(default)]
    pub wall_ns: u64,
    /// Stretches of 100 ms and more in which requests were out and no reply came: the 16 longest, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silences: Vec<Silence>,
    /// Requests that were due while the table of requests in flight, or the path, was full: sent as soon as there was room, with
    /// their due time kept.
    pub found_no_room: u64,
    /// Requests answered.
    pub transactions: u64,
    /// Requests given up.
    pub lost: u64,
    /// Replies that came after their request was given up.
    pub late: u64,
    /// Replies that came a second time.
    pub duplicates: u64,
    /// Replies overtaken by the reply of a later request of the same flow.
    pub reordered: u64,
    /// Invalid replies.
    pub corrupt: u64,
    /// Measured time of the schedule, without `gap_ns`.
    pub duration_ns: u64,
    /// Time between blocks, spent on folding samples.
    pub gap_ns: u64,
    /// From the time the request was due → reply in the caller's buffer.
    pub rtt_from_due_ns: Quantiles,
    /// From the send call entered → reply in the caller's buffer.
    pub rtt_from_sent_ns: Quantiles,
    /// Delay of sending, in ns: send call entered - due.
    pub lateness_ns: Quantiles,
    /// The same without the requests that were due while the client's core stood still.
    pub lateness_undisturbed_ns: Quantiles,
    /// The distributions as HDR histograms, V2 compressed, base64.
    pub histograms: LoadHistograms,
    /// Stalls of the client's core; `null` where it sleeps while it waits, or waits in turns of its own.
    pub stalls: Option<StallFacts>,
    /// Traffic of the bulk streams during the row; `null` without them.
    pub bulk: Option<BulkFacts>,
    /// CPU time of both sides.
    pub cpu: Cpu,
    /// With `--hw-stamps`: how much of the RTT is either host's and how much the wire's at this rate, in a row of its own with
    /// one request in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Box<Split>>,
    /// Every way in which these figures may mislead.
    pub warnings: Vec<Note>,
    /// Number of the repetition: 0 for the first measurement of the rate, 1 and 2 for those after a failure.
    #[serde(default)]
    pub repeat: u32,
}

/// The distributions of a row in ns, each an HDR histogram, V2 compressed, base64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadHistograms {
    /// RTT from due.
    pub rtt_from_due: String,
    /// RTT from sent.
    pub rtt_from_sent: String,
    /// Lateness.
    pub lateness: String,
    /// Lateness of the requests that were not due while the client's core stood still.
    pub lateness_undisturbed: String,
}

/// Gaps of more than 2 us between two looks at the clock while a spinning client waited. A gap within a send or receive call is
/// not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallFacts {
    /// Number of stalls.
    pub count: u64,
    /// Their total duration in ns.
    pub total_ns: u64,
    /// Their share of the measured time of all threads.
    pub share: f64,
}

/// Traffic of the bulk streams during a row, its warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkFacts {
    /// Bytes received by the server's end.
    pub bytes: u64,
    /// From the first byte to the last.
    pub duration_ns: u64,
    /// bytes × 8 / duration.
    pub bits_per_s: f64,
}

/// Figures that only an open loop has, as a worker sends them to the side that writes the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenFound {
    /// Requests sent.
    pub sent: u64,
    /// Requests that found no room when they were due.
    pub found_no_room: u64,
    /// Delay of sending, in ns.
    pub lateness_ns: Quantiles,
    /// The same without those due in a stall.
    pub lateness_undisturbed_ns: Quantiles,
    /// RTT from due and lateness, encoded.
    pub histograms: LoadHistograms,
    /// Number of stalls, and their total duration in ns.
    pub stalls: (u64, u64),
}

impl OpenFound {
    /// The open loop's distributions; `None` if the recorder does not keep them.
    pub fn distributions(recorder: &Recorder) -> Option<OpenFound> {
        let (from_due, lateness) = (recorder.from_due()?, recorder.lateness()?);
        Some(OpenFound {
            lateness_ns: lateness.all.quantiles(),
            lateness_undisturbed_ns: lateness.undisturbed.quantiles(),
            histograms: LoadHistograms {
                rtt_from_due: from_due.encode(),
                rtt_from_sent: String::new(),
                lateness: lateness.all.encode(),
                lateness_undisturbed: lateness.undisturbed.encode(),
            },
            ..OpenFound::default()
        })
    }
}
