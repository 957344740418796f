//! Slow round trips of `ping --explain-above`: their counts in the row of a run, and the schema `hairpin.incident/1`, a line of
//! their file for each.
//!
//! [`Incidents`] stands in [`Row::incidents`](crate::run::Row::incidents), and with the counts so far in each line of
//! [`progress`](crate::progress): how many round trips were above the limit, for how many there is a line and why not for the others, their
//! causes, and in the row the slowest ones event by event. An [`Incident`] is one of those lines, complete in itself: RTT and
//! limit in ns, the causes with the largest first, the stages beside their typical time, and the events in the order of time. It
//! is only written here: a reader goes by its published schema, and [`AnyRecord::all`](crate::any::AnyRecord::all) takes it for
//! no record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::head::Body;
use crate::side::Side;
use crate::slow::{Cause, Direction, Event, Missing, Timeline};

/// The incidents of a row: its round trips above a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Incidents {
    /// The limit as asked for: `200us`, `p99.9 x3`.
    pub above: String,
    /// The RTT above which a round trip is an incident now; `null` until enough round trips support the percentile.
    pub above_ns: Option<u64>,
    /// Incidents so far, with a line or without.
    pub count: u64,
    /// Incidents that have a line in `file`.
    pub written: u64,
    /// Incidents without a line, because of the limit of lines per second.
    pub over_rate: u64,
    /// Incidents without a line, because the file has reached its size limit.
    pub over_size: u64,
    /// Incidents without a line, because they are not among the 64 slowest of their block.
    #[serde(default)]
    pub over_block: u64,
    /// Incidents without a line, because the file could not be written.
    pub failed: u64,
    /// Path of the file that has the lines.
    pub file: String,
    /// Events and stamps that found no room, of the blocks that were read. An incident that goes on after the first lost event of
    /// its block is not explained.
    #[serde(default)]
    pub lost_events: u64,
    /// Their main causes, the most frequent first; each incident counts with one. `not looked at`: seen by hooks, and not among
    /// the slowest of its block.
    pub causes: Vec<Cause>,
    /// The last one, without its events; `null` if there was none.
    pub last: Option<Timeline>,
    /// The slowest ones event by event, slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<Timeline>,
    /// Hooks that this host lacks, and what each would add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

/// One incident: a line of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Incident {
    /// Always `hairpin.incident/1`.
    pub schema: String,
    /// When its request was sent, in UTC (RFC 3339).
    pub at: String,
    /// The row's path spec in canonical form.
    pub path: String,
    /// The peer: `HOST:PORT`, or `loopback`, `veth` …
    pub peer: String,
    /// Its RTT.
    pub rtt_ns: u64,
    /// The limit that it was above.
    pub above_ns: u64,
    /// The p50 of the round trips that its causes and stages are compared with; `null` where none was seen whole yet.
    pub typical_rtt_ns: Option<u64>,
    /// Its sequence number.
    pub sequence: u32,
    /// Incidents before it, since the last line, that have no line because of a limit or a full disk.
    pub dropped: u64,
    /// Its causes, with the time that each took beyond a typical round trip, the largest first; empty where its stamps could not
    /// be matched.
    pub causes: Vec<Cause>,
    /// Its stages in order, hooks included.
    pub stages: Vec<StageTime>,
    /// Its moments, and what happened meanwhile on the cores, in the order of time.
    pub events: Vec<Event>,
}

/// A stage of one incident, beside its time in typical round trips.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StageTime {
    /// Its name.
    pub stage: String,
    /// The side that it belongs to.
    pub side: Side,
    /// Its direction.
    pub direction: Direction,
    /// Its duration.
    pub ns: u64,
    /// The mean of typical round trips; `null` where they do not pass it.
    pub typical_ns: Option<u64>,
}

impl Body for Incident {
    const SCHEMA: &'static str = "hairpin.incident/1";
}
