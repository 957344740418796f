//! Round trips by stamps and synchronised clocks: their parts by host and wire, and their two ways.

use hairpin_record::split::StampCounts;
use serde::Serialize;

/// How much of the round trips of a row, a rate or an explained path is either host's and how much the wire's.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Split {
    /// The hosts' and the wire's parts of the typical round trips; or that there is nothing to show.
    pub headline: String,
    /// RTT and the parts of each host and the wire, as quantiles; empty if there is nothing to show.
    pub quantiles: String,
    /// The stamps, the outcomes of the transactions, and why stamps are no better.
    pub said: Vec<String>,
    pub rtt_p50_ns: Option<u64>,
    pub rtt_p99_ns: Option<u64>,
    /// Layer of the client's stamps: `hardware`, `software` or `none`.
    pub stamps_client: String,
    pub stamps_server: String,
    /// Outcomes of the stamped transactions.
    pub counts: StampCounts,
    /// Number of typical transactions (RTT from p40 to p60).
    pub typical_count: u64,
    /// Their mean RTT, which `bar` adds up to; `null` if the record's is no number.
    pub typical_ns: Option<f64>,
    /// The parts that make up a round trip, as fine as they are known, in the order of the bar.
    pub bar: Vec<SplitPiece>,
    /// All that is known: parts, then sums of them.
    pub parts: Vec<SplitPart>,
}

/// A piece of the bar.
#[derive(Clone, Debug, Serialize)]
pub struct SplitPiece {
    /// The part's name in the record.
    pub name: String,
    /// Where its time passes: `client's host`, `wire`, `server's host`, `wire and far side`.
    pub part: String,
    /// Mean over the typical transactions.
    pub ns: f64,
}

/// A part of a round trip, or a sum of parts.
#[derive(Clone, Debug, Serialize)]
pub struct SplitPart {
    /// Its name in the record; a sum has `= ` before it.
    pub name: String,
    /// Transactions that have it.
    pub count: u64,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// Mean over the typical transactions; `null` if the record's is no number.
    pub typical_ns: Option<f64>,
}

/// The one-way delays of a row.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OneWay {
    /// The delays with their bound, what the clocks have in common, and reasons for doubt.
    pub said: Vec<String>,
    /// `request`, `reply`, and `request - reply`.
    pub delays: Vec<Delay>,
}

/// The delay of one way, or the difference of both.
#[derive(Clone, Debug, Serialize)]
pub struct Delay {
    pub way: String,
    pub count: u64,
    /// Negative where the clocks differ by more than the delay.
    pub p50_ns: Option<i64>,
    pub p99_ns: Option<i64>,
    /// The largest error of each figure, in either direction.
    pub bound_ns: Option<f64>,
}
