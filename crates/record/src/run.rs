//! The schema `hairpin.run/1`: the settings of a run, its results, and warnings about them.
//!
//! Times are integer nanoseconds with the unit in the field's name. A quantile that the sample count does not support is `null`
//! (see [`Quantile::is_supported_by`](hairpin_units::Quantile::is_supported_by)). Later versions of the schema only add fields.
//!
//! A [`Row`] has the results of one path at one size. `rtt_ns` summarizes its RTTs, and `histogram` holds their whole
//! distribution, which can be added to that of other rows. `blocks` and `series` are the course of the run. Fields of options
//! that were not used are `None` or empty. `warnings` has every reason to doubt the row's figures.
//!
//! ```
//! use hairpin_record::histogram::Decoded;
//! use hairpin_record::run::Run;
//! use hairpin_units::Quantile;
//!
//! # let json = &std::fs::read("tests/data/run-1.json").unwrap();
//! let run = Run::parse(json)?;
//! for row in &run.results {
//!     let histogram = Decoded::decode(&row.histogram)?;
//!     assert_eq!(histogram.count(), row.transactions);
//!     assert_eq!(histogram.quantile(Quantile::P50), row.rtt_ns.p50);
//!     for warning in &row.warnings {
//!         println!("{}: {}", row.path, warning.message);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hairpin_units::Picos;

use crate::floor::Floor;
use crate::head::{Body, Place, Record};
use crate::incident::Incidents;
use crate::one_way::OneWay;
pub use crate::own_request::OwnRequest;
pub use crate::place::{ClockFacts, HostFacts, Hosts, Link};
pub use crate::quantiles::{Interpolated, Quantiles};
pub use crate::side::{Origin, Side, Silence};
use crate::split::Split;
use crate::stack::Stacks;
use crate::warning::Note;

/// The record `hairpin.run/1`, which `hairpin ping --json` prints: a head and a [`RunBody`].
///
/// [`Run::parse`](Record::parse) reads one run; [`AnyRecord::all`](crate::any::AnyRecord::all) reads a file whose records may be of
/// other kinds.
///
/// ```
/// use hairpin_record::run::Run;
///
/// # let json = &std::fs::read("tests/data/run-1.json").unwrap();
/// let run = Run::parse(json)?;
/// let (udp, tcp) = (&run.results[0], &run.results[1]);
/// assert_eq!((udp.transactions, udp.lost, udp.rtt_ns.p50), (40_000, 0, Some(4_883)));
/// assert_eq!((tcp.transactions, tcp.rtt_ns.p999), (4_000, None)); // too few round trips for p99.9
/// # Ok::<(), serde_json::Error>(())
/// ```
pub type Run = Record<RunBody>;

/// [`Row::reply`] of a row about the first reply to each request.
pub const FIRST_REPLY: &str = "first";
/// [`Row::reply`] of a row about the last reply to each request, which makes the replies complete.
pub const LAST_REPLY: &str = "last";

impl Body for RunBody {
    const SCHEMA: &'static str = "hairpin.run/1";
}

/// One run: the command that made it, both hosts, the link between them, and a row per path and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Run")]
pub struct RunBody {
    /// Hosts, link and clock.
    #[serde(flatten)]
    pub place: Place,
    /// One row per path and size, in the order measured.
    pub results: Vec<Row>,
}

/// Results of one path at one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The path spec in canonical form: both sides written out, defaults left out.
    pub path: String,
    /// Source of the figures.
    pub origin: Origin,
    /// Of a multicast group: the reply that the figures are of: `first`, `last`, or that of the responder with this address and
    /// port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a reply.
    pub reply_bytes: u64,
    /// Connections or sockets over which the requests went.
    pub flows: u32,
    /// Measuring threads on the client.
    pub threads: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// The requested rate in 1/s if the run was paced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_per_s: Option<f64>,
    /// Requests answered within the measured time.
    pub transactions: u64,
    /// Requests never answered in time.
    pub lost: u64,
    /// Replies that came after their request was given up.
    pub late: u64,
    /// Replies that came a second time.
    pub duplicates: u64,
    /// Replies overtaken by the reply of a later request of the same flow.
    pub reordered: u64,
    /// Invalid replies: wrong length, cookie, or (with `--verify`) content.
    pub corrupt: u64,
    /// Measured time: the sum of the blocks, without `gap_ns`.
    pub duration_ns: u64,
    /// Time between blocks, spent on folding samples and on cache-line pings; with `--hw-stamps` that of the blocks of its split
    /// too.
    pub gap_ns: u64,
    /// Time for which a probe stood still because another session measured at its server; a part of `gap_ns`, and of no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_ns: Option<u64>,
    /// transactions / duration.
    pub transactions_per_s: f64,
    /// RTT: client's send call entered → reply in the caller's buffer.
    pub rtt_ns: Quantiles,
    /// With `--rate`: from the time the request was due → reply in the caller's buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_from_due_ns: Option<Quantiles>,
    /// With `--rate`: outcomes of the requests that were due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
    /// Stretches of 100 ms and more in which requests were out and no reply came: the 16 longest of each thread, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silences: Vec<Silence>,
    /// Server: receive call returned → send call entered; `null` under `--echo`. After the first 1,000 requests
    /// and where they come faster than one in 10 us, of one in about 100 us.
    pub turnaround_ns: Option<Quantiles>,
    /// With `--hw-stamps`: how much of the RTT is either host's and how much the wire's, in blocks of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Box<Split>>,
    /// `tcp-crr` only: the parts of a transaction, timed apart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts_ns: BTreeMap<String, Quantiles>,
    /// The RTTs as an HDR histogram, V2 compressed, base64.
    pub histogram: String,
    /// With `--rate`: the RTTs from due in the same form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram_from_due: Option<String>,
    /// The last 4096 blocks.
    pub blocks: Vec<Block>,
    /// A point per max(100 ms, duration / 4096).
    pub series: Vec<Point>,
    /// The 64 slowest transactions, slowest first.
    pub slowest: Vec<Slow>,
    /// CPU time of both sides.
    pub cpu: Cpu,
    /// TCP's own counters; `null` for other paths.
    pub tcp: Option<Tcp>,
    /// System calls beyond the path's own send and receive, such as re-arming `quickack`, client and server together.
    pub extra_calls: u64,
    /// The queue and CPU on which the replies of each flow came in, as far as the kernel reports them; of at most 256 flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_facts: Vec<FlowFacts>,
    /// With more than 256 flows: how many of them came in on each queue and CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_groups: Vec<FlowGroup>,
    /// Options requested of the kernel, and their values in force.
    pub granted: Vec<Granted>,
    /// Libraries in the place of the kernel's sockets, and what passed the kernel all the same; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Box<Stacks>>,
    /// The declared physical floor; `null` where none was declared.
    pub floor: Option<Box<Floor>>,
    /// One-way delays; absent where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<Box<OneWay>>,
    /// The path `niq` only: the emulated design, and the work of its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub niq: Option<Box<Niq>>,
    /// With `--request` of the user's own: what was asked and answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_request: Option<Box<OwnRequest>>,
    /// With `--explain-above`: the round trips above its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incidents: Option<Box<Incidents>>,
    /// Every way in which these figures may mislead.
    pub warnings: Vec<Note>,
}

/// Outcomes of requests with due times fixed in advance. The distribution from due counts `requests`: every
/// request that was due, with unanswered ones at the time that they had waited when the run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Due {
    /// Requests that were due; with `--hw-stamps` not in the blocks of its split.
    pub requests: u64,
    /// Requests never sent, because no earlier one had been answered when the run ended.
    pub unsent: u64,
    /// Requests that were sent and never answered.
    pub unanswered: u64,
    /// Further requests that would have been due, at the mean rate, while the instrument did work of its own between blocks
    /// (`gap_ns`): not sent, and in no figure.
    pub left_out: u64,
    /// From the beginning to the end of the run, or to the last reply; without the blocks of a split.
    pub wall_ns: u64,
    /// Answers, including late ones, / `wall_ns`.
    pub answered_per_s: f64,
}

/// The NIC that the path `niq` emulated, and the work of its driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Niq {
    /// The NIC design whose latency was emulated; `null` for none: shared memory as it is.
    pub nic: Option<String>,
    /// Declared one-way latency of a request, in ns; `null` if nothing was emulated.
    pub request_ns: Option<Picos>,
    /// The same of a reply.
    pub reply_ns: Option<Picos>,
    /// Time taken off the device's time of each way, in ns, because the design's figure is from program to
    /// program: this program's own part, measured before the row. `null` if nothing was taken off.
    #[serde(default)]
    pub own_ns: Option<f64>,
    /// Transactions of the client's driver on PCI Express, as a NIC of this design would have them.
    pub client: Pcie,
    /// The same of the server's.
    pub server: Option<Pcie>,
    /// Transactions that overlap a stall of either core: more than 2 us between two looks at the clock. `null` if stalls were not
    /// watched.
    pub stalled: Option<u64>,
    /// Mean RTT of the transactions without a stall.
    pub rtt_mean_without_stalled_ns: Option<f64>,
}

/// Transactions on PCI Express of one port, as a driver for such a NIC would make them; here the lines lie in
/// memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pcie {
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Lines that the CPU wrote to send.
    pub posted_writes: u64,
    /// Lines that the CPU read and found a frame in.
    pub reads: u64,
    /// Descriptors that the NIC fetched.
    pub descriptor_fetches: u64,
    /// Reads of frames' bytes by the NIC.
    pub dma_reads: u64,
    /// Writes of frames' bytes by the NIC.
    pub dma_writes: u64,
    /// Writes that returned credits.
    pub credit_writes: u64,
    /// Reads of the other side's credits.
    pub credit_reads: u64,
}

/// A stretch of uninterrupted measuring: 65,536 transactions or 100 ms, whichever ends first, and more with over 1,024 requests
/// in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Start of the block, in ns since the start of measuring.
    pub at_ns: u64,
    /// Transactions in it.
    pub count: u64,
    /// Median RTT.
    pub p50: Option<u64>,
    /// 99th percentile of the RTT.
    pub p99: Option<u64>,
    /// Cache-line round trip between the cores of both sides, the larger of the medians just before and just after the block;
    /// `null` where the two sides share no memory.
    pub core_rtt_ns: Option<u64>,
    /// 99.9th percentile of the RTT, where ten lie beyond it.
    #[serde(rename = "p99.9", default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<u64>,
    /// Measured length; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// True if two clocks disagreed by more than 50 ns over this block.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clock_suspect: bool,
    /// The measuring thread, if there is more than one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thread: u32,
    /// The quantiles once more, between the steps of the clock and of the histogram; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpolated_ns: Option<Interpolated>,
}

/// A point of the series over time: the transactions of one interval. A quantile that their number does not support is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Start of the interval, since the start of measuring.
    pub at_ns: u64,
    /// Transactions in it.
    pub count: u64,
    /// Median RTT.
    pub p50: Option<u64>,
    /// 99th percentile of the RTT.
    pub p99: Option<u64>,
    /// Largest RTT.
    pub max: u64,
    /// The measuring thread, if there is more than one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thread: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// One of the 64 slowest transactions of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Slow {
    /// Its RTT.
    pub rtt_ns: u64,
    /// Entry of its send call, in ns since the start of measuring.
    pub at_ns: u64,
    /// Its sequence number.
    pub sequence: u32,
}

/// CPU time of both sides from the start of warm-up to the end of the row; figures per transaction count those of warm-up too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The client's worker and its cores.
    pub client: CpuSide,
    /// The server's; `null` under `--echo`.
    pub server: Option<CpuSide>,
}

/// CPU time of one side. The worker's own times come from getrusage(2) and /proc/self/schedstat, those of its cores from
/// /proc/stat, whose step is 10 ms on most kernels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuSide {
    /// The CPUs that the measuring threads were pinned to.
    pub cpus: Vec<u32>,
    /// The worker in user mode.
    pub user_ns: u64,
    /// The worker in the kernel.
    pub system_ns: u64,
    /// Hard interrupts on its cores; `null` where /proc/stat cannot be read.
    pub irq_ns: Option<u64>,
    /// Soft interrupts on its cores.
    pub softirq_ns: Option<u64>,
    /// Time the hypervisor gave to others while its cores wanted to run.
    pub steal_ns: Option<u64>,
    /// Time that other processes took on its cores, to within the step of /proc/stat.
    pub foreign_ns: Option<u64>,
    /// Times the worker gave up its core to wait.
    pub switches_voluntary: u64,
    /// Times the worker was pushed off its core.
    pub switches_involuntary: u64,
    /// CPU time per transaction: on the client that of the measured blocks alone, on the server without the time for meeting the
    /// client's core. `null` if a sleeping side was woken more than once in ten transactions only to check its stop flag, which
    /// is the instrument's own work.
    pub per_transaction_ns: Option<f64>,
    /// Packets that busy polling took from devices of its network namespace (BusyPollRxPackets), for any process in it; absent
    /// where the side did not ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_polled_packets: Option<u64>,
    /// Interrupts on its cores by name, where any happened.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interrupts: BTreeMap<String, u64>,
}

/// TCP's counters of both sides, from TCP_INFO, over all connections of the row, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tcp {
    /// The client's connections.
    pub client: TcpSide,
    /// The server's; `null` under `--echo`.
    pub server: Option<TcpSide>,
}

/// TCP's counters of one side. Figures per transaction are `null` where the kernel's counters of 32 bits may have wrapped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpSide {
    /// Sending maximum segment size in bytes, of the last connection.
    pub mss: u32,
    /// Segments sent per transaction, pure ACKs included.
    pub segments_out_per_transaction: Option<f64>,
    /// Segments received per transaction, pure ACKs included.
    pub segments_in_per_transaction: Option<f64>,
    /// Segments sent again.
    pub retransmitted: u64,
}

/// The queue and CPU on which the kernel delivered one flow's replies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowFacts {
    /// Index of the flow.
    pub flow: u32,
    /// The client's port; 0 where the path has none.
    pub local_port: u16,
    /// SO_INCOMING_NAPI_ID; absent where the device has none (loopback, plain veth).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_id: Option<u32>,
    /// The CPU that took in its last packet (SO_INCOMING_CPU); absent where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming_cpu: Option<u32>,
}

/// The most flows with an entry each in [`Row::flow_facts`]. With more, [`Row::flow_groups`] counts them by queue and CPU, so
/// that a record stays small.
pub const MOST_FLOW_FACTS: usize = 256;

/// The flows whose replies the kernel delivered on one queue and CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowGroup {
    /// Their number.
    pub flows: u32,
    /// SO_INCOMING_NAPI_ID; absent where the device has none (loopback, plain veth).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_id: Option<u32>,
    /// The CPU that took in the last packet of each (SO_INCOMING_CPU); absent where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming_cpu: Option<u32>,
}

/// An option requested of the kernel, and its value in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Granted {
    /// The side whose option it is.
    pub side: Side,
    /// The option's name.
    pub option: String,
    /// The requested value.
    pub asked: String,
    /// The value in force.
    pub got: String,
    /// The reason of a difference; empty without one.
    pub why: String,
}
