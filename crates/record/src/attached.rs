//! The schema `hairpin.explain-attached/1`: how an application spends the time of its transactions, observed from the kernel
//! without the application's co-operation.
//!
//! ```text
//!   transaction   an alternation of direction on one connection: message in, message out
//!   sum           from its first hook to its last one: exactly the sum of its stages
//!   view          which sides' sockets are on this host; sums of different views are not the same thing
//! ```
//! Times are integer nanoseconds. The only data on other processes is their name and number. Later versions of the schema only
//! add fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::{Direction, Finding, Missing};
use crate::head::{Body, Record};
use crate::run::{HostFacts, Quantiles, Row, Side};
use crate::warning::Note;

/// The record `hairpin.explain-attached/1`, which `hairpin explain :PORT --json` prints: a head and an [`AttachedBody`].
///
/// The kernel's hooks stamped the messages of other programs, which took no part. [`totals`](AttachedBody::totals) has the sums
/// of all transactions, one [`Total`] per view and side of the watched process, and in it the stages in the order in which a
/// transaction passes them. `connections` and `slowest` single some out, the busiest and the slowest first. Quantiles are in ns;
/// one that the count does not support is `None`, and so is the process of a side that is not on this host.
/// [`Attached::parse`](Record::parse) fails where a field is missing or wrong; `slow_observer` and `findings`, which older
/// records lack, are 0 and empty.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Attached(attached) = record else { continue };
///     let most = &attached.totals[0];
///     assert_eq!((attached.transactions, most.sum_ns.p50, most.sum_ns.p99), (194, Some(29_679), None)); // too few for p99
///     for stage in most.stages.iter().filter(|stage| most.is_common(stage)) {
///         println!("{}: p50 {:?} ns, {:.0} % of all time", stage.name, stage.ns.p50, 100.0 * stage.share);
///     }
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Attached = Record<AttachedBody>;

impl Body for AttachedBody {
    const SCHEMA: &'static str = "hairpin.explain-attached/1";
}

/// One run of `hairpin explain :PORT`, `PROGRAM` or `PID`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Attached")]
pub struct AttachedBody {
    /// Facts of this host.
    pub host: HostFacts,
    /// The connections that are watched.
    pub watched: Watched,
    /// Time for which the hooks were attached, in ns.
    pub duration_ns: u64,
    /// Hooks that this host does not offer, and the detail each of them would add.
    pub missing: Vec<Missing>,
    /// Transactions with every stamp that they need: those of `totals`.
    pub transactions: u64,
    /// Exchanges that could not be matched to a transaction: the sum of `unmatched_by`.
    pub unmatched: u64,
    /// The same by reason.
    pub unmatched_by: Unmatched,
    /// Transactions that were open when the watching ended.
    pub open: u64,
    /// Transactions lost because the ring out of the kernel was full.
    pub lost: u64,
    /// Connections not watched because the kernel's table was full, counted each time.
    pub untracked: u64,
    /// All transactions, grouped by view and by the side of the watched process; the largest group first.
    pub totals: Vec<Total>,
    /// Connections, the one with most transactions first; where there are many, one that came late lacks its first transactions.
    pub connections: Vec<Connection>,
    /// Number of other connections. One with the addresses of an earlier one counts with it, unless thousands of others came
    /// between the two.
    pub other_connections: u64,
    /// The slowest transactions, slowest first.
    pub slowest: Vec<Slow>,
    /// Causes of slow transactions, the most costly first.
    pub causes: Vec<SlowCause>,
    /// Number of slow transactions: those above `slow_above` of their total, at most 256 of each. `causes`
    /// covers them, without the `slow_observer` ones.
    pub slow: u64,
    /// Slow transactions during which a thread of the watching hairpin itself had the CPU: in no cause, and not in `slowest`.
    #[serde(default)]
    pub slow_observer: u64,
    /// `p99`, or `p90` with too few transactions for that; `null` with too few for either.
    pub slow_above: Option<String>,
    /// Findings about all transactions, slow or not; empty if there are none.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// With `--request`: the figures of the client of Hairpin's own that asked meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Box<Row>>,
    /// Every way in which these figures may mislead.
    pub warnings: Vec<Note>,
}

/// Exchanges that are not transactions, counted by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unmatched {
    /// Another request was sent before the reply was complete, or a reply before its request was read.
    pub pipelined: u64,
    /// Requests that were not answered before the connection ended.
    pub unanswered: u64,
    /// Exchanges without a needed stamp.
    pub half_seen: u64,
    /// Exchanges whose stamps go back in time: events of two messages met on two CPUs.
    pub out_of_order: u64,
}

impl Unmatched {
    /// Sum over all reasons.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, count)| count).sum()
    }

    /// Each reason in words, with its count.
    pub fn causes(&self) -> [(&'static str, u64); 4] {
        [
            ("pipelined", self.pipelined),
            ("unanswered", self.unanswered),
            ("half seen", self.half_seen),
            ("out of order", self.out_of_order),
        ]
    }
}

/// The connections that were watched: those to a server's port, or those of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Watched {
    /// The server's port, if one was given.
    pub port: Option<u16>,
    /// The process, if one was given; its descendants are watched too.
    pub pid: Option<i32>,
    /// Name of the process; `null` where a port was given.
    pub comm: Option<String>,
    /// The sides on which the process took part in transactions, for a port the server; empty without any.
    pub roles: Vec<Side>,
    /// Ports on which it serves, as far as known at the start.
    pub serves: Vec<u16>,
}

/// The sides of a transaction that are on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Client and server: from the client's send to its read of the reply.
    Both,
    /// The server alone: from the request's arrival to the reply's last packet.
    Server,
    /// The client alone: from its send to its read of the reply.
    Client,
}

/// Times of the transactions with one view and with the watched process on the same sides, over all connections or over one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Total {
    /// The sides that were seen.
    pub view: View,
    /// The sides of the watched process; for a watched port, the server.
    #[serde(default)]
    pub roles: Vec<Side>,
    /// From the first hook to the last.
    pub sum_ns: Quantiles,
    /// The same as an HDR histogram, V2 compressed, base64; `null` for a connection, whose quantiles have
    /// only two digits.
    pub histogram: Option<String>,
    /// In the order in which a transaction passes them.
    pub stages: Vec<Stage>,
}

impl Total {
    /// True if at least half of the transactions passed the stage: only then are its quantiles those of a typical one.
    pub fn is_common(&self, stage: &Stage) -> bool {
        stage.ns.count.saturating_mul(2) >= self.sum_ns.count
    }
}

/// The time between two neighbouring hooks, over all transactions that passed both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Its name; if the hook between two stages was not passed, both names joined by ` + `.
    pub name: String,
    /// The side it belongs to; `null` between the two.
    pub side: Option<Side>,
    /// Its direction; `null` for a stage that spans both.
    pub direction: Option<Direction>,
    /// The hook at its start, as the kernel names it.
    pub from: String,
    /// The hook at its end.
    pub to: String,
    /// Duration in ns, over the `count` transactions that passed this stage.
    pub ns: Quantiles,
    /// Its part of the sum of all transactions of this view, 0 to 1; those of all stages add up to 1.
    pub share: f64,
}

/// A connection, or a client and a server of datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connection {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The server's address and port.
    pub server: String,
    /// The client's address and port.
    pub client: String,
    /// The process that reads the requests; `null` if the server is not on this host.
    pub server_process: Option<Process>,
    /// The process that reads the replies; `null` if the client is not on this host.
    pub client_process: Option<Process>,
    /// Totals of the connection's transactions.
    pub total: Total,
}

/// A process at one end of a connection, and the thread of it that read the last message there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Number of the process (pid).
    pub pid: i32,
    /// Number of the thread (tid); that of the main thread equals `pid`.
    pub thread: i32,
    /// The thread's name as the kernel keeps it: 15 bytes at most.
    pub comm: String,
}

/// One of the slowest transactions: its stages, the stage to blame, and the cause. A record has 16 at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slow {
    /// Start, in ns since the hooks were attached.
    pub at_ns: u64,
    /// From its first hook to its last.
    pub sum_ns: u64,
    /// The sides that were seen.
    pub view: View,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The server's address and port.
    pub server: String,
    /// The client's address and port.
    pub client: String,
    /// Its stages, in order.
    pub stages: Vec<SlowStage>,
    /// The stage that exceeded its usual time by most: its p50, or less if most transactions do not have it.
    pub stage: String,
    /// Its excess over that time, in ns.
    pub stage_excess_ns: u64,
    /// The cause, such as `preempted`; `nothing seen` without an event that explains it.
    pub cause: String,
    /// Time lost to the cause, in ns; `null` if not seen.
    #[serde(default)]
    pub cause_ns: Option<u64>,
    /// The thread that caused it, such as `stress-ng (4711)`; empty without one.
    pub who: String,
}

/// A stage of one slow transaction, with its time there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowStage {
    /// As in [`Stage`].
    pub name: String,
    /// As in [`Stage`].
    pub side: Option<Side>,
    /// Duration in ns.
    pub ns: u64,
}

/// A cause of slow transactions. There is one entry for each thread that caused it and each stage that it made long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCause {
    /// Name of the cause, such as `preempted`.
    pub cause: String,
    /// The thread that caused it, such as `stress-ng (4711)`; empty without one.
    pub who: String,
    /// The thread's name alone; empty without one, or if it ended before its name was read.
    #[serde(default)]
    pub program: String,
    /// The thread's process; `null` without one.
    #[serde(default)]
    pub pid: Option<i32>,
    /// The stage that it made long.
    pub stage: String,
    /// Number of transactions.
    pub count: u64,
    /// Sum of their excess over p50 of their view, in ns.
    pub lost_ns: u64,
    /// A remedy, such as a setting to change.
    pub advice: String,
}
