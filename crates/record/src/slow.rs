//! Why round trips were slow: causes, single ones event by event, and what this host cannot show of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::side::Side;

/// A hook or a source of stamps that this host does not offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// The hook, such as `sk_data_ready`, or `BPF` for all of them.
    pub hook: String,
    /// The reason of its absence, and a remedy.
    pub why: String,
    /// The detail that it would add.
    pub adds: String,
}

impl Missing {
    /// The name for all hooks in the kernel.
    pub const ALL: &str = "BPF";
}

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Client to server.
    Request,
    /// Server to client.
    Reply,
}

/// A cause of slow transactions, or of a core's stalls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Name of the cause, such as `preempted`.
    pub cause: String,
    /// The thread that caused it, such as `stress-ng (pid 4711)`; empty without one.
    pub who: String,
    /// Slow transactions in which it took at least a tenth of the lost time; of a core's stalls, those that it caused.
    pub count: u64,
    /// Time lost to it, in ns, out of the time by which all slow transactions exceeded the typical p50; of a core's stalls, their
    /// sum.
    pub lost_ns: u64,
    /// A remedy, naming a knob or a path option.
    pub advice: String,
}

/// One transaction, event by event: the hooks that it passed, and what else happened on either side's core meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Its RTT.
    pub rtt_ns: u64,
    /// Entry of its send call, in ns since the start of the first traced block.
    pub at_ns: u64,
    /// Its sequence number.
    pub sequence: u32,
    /// Its cause; empty where it was not slow.
    pub cause: String,
    /// In the order of time.
    pub events: Vec<Event>,
}

/// A stamp on a transaction's way, or an event on either side's core meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Time since the entry of its send call, in ns; negative for events that were under way before.
    pub at_ns: i64,
    /// The hook or event, as the kernel names it.
    pub name: String,
    /// The side it belongs to; `null` for neither.
    pub side: Option<Side>,
    /// The CPU, where it is known.
    pub cpu: Option<u32>,
    /// The rest, such as `swapper/1 → hairpin (4711)`; may be empty.
    pub detail: String,
}
