//! Messages between the processes of a run.
//!
//! ```text
//!   verb ── Order ──▶ own worker ── Answer ──▶ verb             socketpair; both are one program
//!   verb ── Request ─▶ serve ── Order ──▶ its worker            TCP; a request is checked before it becomes an order
//!        ◀─ Answer ───       ◀─ Answer ──
//!
//!   a row:   Plan ─▶ ◀─ Ready(address)   Row ─▶ ◀─ Ready   Go ─▶ ◀─ Progress* ◀─ Client   Done ─▶ ◀─ Server
//!            server's side               client's side                                    server's side
//! ```

use std::net::IpAddr;
use std::path::PathBuf;

use hairpin_plan::job::{Address, Job, Listen};
use hairpin_record::bounce::Bounced;
use hairpin_record::frames::Rings;
use hairpin_record::load::OpenFound;
use hairpin_record::progress::Progress;
use hairpin_record::run::{ClockFacts, CpuSide, FlowFacts, Granted, HostFacts, Pcie, Quantiles, Row, TcpSide};
use hairpin_record::stack::Stack;
use hairpin_record::warning::Note;
use hairpin_units::{BitRate, Nanos};
use serde::{Deserialize, Serialize};

use crate::io::IoSpec;
use crate::time_source::Told;

mod bulk;
mod links;
mod packets;
mod times;
mod traced;

pub use bulk::{BulkReport, BulkWork};
pub use links::{At, Medium, Overlay};
pub use packets::{
    AskRings, BounceReport, BounceWork, Count, Flush, InterfaceFacts, NotAFlush, Send, StreamCounts, StreamReport, StreamWork,
};
pub use times::{Timed, Times};
pub use traced::{Half, NicHalf, NicReport, named_hooks, read_halves};

/// An order from a verb to its own worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Use these CPUs and no others.
    StayOn(Vec<u32>),
    /// Say whether this library, loaded before the C library, provides the sockets of this process.
    Stack(String),
    /// Enter new namespaces, before anything else.
    Enter(Namespace),
    /// Create the link, with the client's end in the namespace of process `peer_pid`.
    MakeLink {
        medium: Medium,
        /// MTU of both ends in bytes.
        mtu: Option<u32>,
        queues: Option<u32>,
        /// Transmit queues of both ends, if not `queues`.
        tx_queues: Option<u32>,
        /// The pid of the other worker.
        peer_pid: u32,
    },
    /// Add a port to the bridge, with the other end of its pair in the namespace of process `peer_pid`; the rest as for the link.
    MakePort {
        mtu: Option<u32>,
        queues: Option<u32>,
        tx_queues: Option<u32>,
        peer_pid: u32,
        /// Its number, from 1.
        port: u32,
    },
    /// Create your end of the link above the pair below it.
    MakeOverlay(Overlay),
    /// Set up your end of the link.
    SetUp(LinkEnd),
    /// List the addresses at which this network namespace is reached.
    Addresses,
    /// Say from which address this network namespace would send to this one.
    Towards(IpAddr),
    /// Read the host's facts.
    Facts {
        /// The interface that the traffic passes.
        interface: Option<String>,
        /// The first CPU of this side.
        cpu: Option<u32>,
        threads: u32,
        /// True for the server's side, which has another default CPU.
        server: bool,
    },
    /// Write every sample of the following rows to a Parquet file.
    Raw {
        path: PathBuf,
        /// Path spec, request and reply bytes of each row; those of the reply if they are known.
        rows: Vec<(String, u64, Option<u64>)>,
    },
    /// Answer requests: the server's side of a row.
    Plan {
        job: Box<Job>,
        /// The address to listen on.
        listen: Listen,
        /// The client is held to this rate of requests.
        most_per_s: Option<f64>,
    },
    /// Measure: the client's side of a row.
    Row {
        job: Box<Job>,
        /// The server's address.
        peer: Address,
        /// Index of the row in the run, for the raw file.
        index: u32,
        /// True if a watcher wants snapshots: each progress message then holds the data since the one before.
        snapshots: bool,
        /// True if a watcher draws the progress: it comes more often, and each message waits for `Go`.
        drawn: bool,
    },
    /// The flows are open: start measuring.
    Go,
    /// Open the rings of an interface, and keep them until the next order of this kind; `None` closes them.
    Rings(Option<Box<AskRings>>),
    /// Send numbered frames on the open rings, count them, or both.
    Stream(Box<StreamWork>),
    /// Send frames that arrive on the open rings back, until stopped.
    Bounce(Box<BounceWork>),
    /// Run one end of the bulk streams that fill the link, until stopped.
    Bulk(BulkWork),
    /// Read an interface's address and counters.
    Interface(String),
    /// No more rows: finish the raw file.
    End,
}

/// Namespaces that a worker enters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespace {
    /// New ones, as root.
    New,
    /// New ones in a user namespace of its own.
    NewUser,
    /// New ones in the user namespace of this process.
    JoinUser(u32),
    /// The network namespace of this process.
    JoinNetwork(u32),
    /// The network namespace of this file.
    JoinFile(PathBuf),
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    pub interface: String,
    /// Addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Generic receive offload.
    pub gro: Option<bool>,
    /// TCP segmentation offload.
    pub tso: Option<bool>,
    /// Outgoing rate (tbf).
    pub rate: Option<BitRate>,
    /// net.ipv4.tcp_timestamps.
    pub timestamps: Option<bool>,
    /// Disables IPv6 on it, so that the kernel sends nothing of its own.
    pub quiet: bool,
}

/// A client's request to `hairpin serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// The facts of the server's host.
    Facts {
        /// Measuring threads of the row.
        threads: u32,
    },
    /// Get ready to answer the requests of this job.
    Plan(Box<Job>),
    /// Measuring begins.
    Go,
    /// Put the hooks on the tracepoints, or take them off.
    Hooks(bool),
    /// Put the hooks of these names on the tracepoints, and no others. A server of an earlier version does not take it.
    Only(Vec<String>),
    /// A traced block is over: report the records of the server's host.
    Halves,
    /// Have the packets of one transaction in N stamped where they leave and enter the host; 0 for none. Only to a server whose
    /// facts say that it does so.
    Stamps(u32),
    /// A stamped block is over: report the stamps of the server's host.
    Nics,
    /// A traced block is over: report its times by the time of day of the server's host.
    Times,
    /// Tell the source of the time of day of the server's host, and its largest error.
    Clock,
    /// A sign of life from the client.
    Beat,
    /// The probe stands still, as told by [`Answer::Pause`].
    Paused,
    /// The row is over: report the server's figures.
    Done,
}

/// An answer from a worker or from `hairpin serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The order was carried out.
    Done,
    /// The worker has entered its namespaces.
    Entered {
        /// Why /sys does not show these namespaces, if it does not.
        sysfs: Option<String>,
    },
    /// The host's facts and, from a worker, its clock.
    Facts {
        facts: HostFacts,
        /// The instrument's clock.
        clock: ClockFacts,
        /// Packets can be stamped where they leave and enter this host ([`Request::Stamps`]); a server of an earlier version says
        /// nothing of it.
        #[serde(default)]
        stamps: bool,
    },
    /// The server's side gives its address; the client's side has opened its flows.
    Ready(Option<Address>),
    /// The provider of the worker's sockets.
    Stack(StackFound),
    /// Number of the row's flows that the client's side has open so far.
    Opened(u32),
    /// Progress of a row, about once a second.
    Progress(Box<Progress>),
    /// A traced block is over; the next one begins on request.
    Block,
    /// Records of the server's host for a traced block.
    Halves(Vec<Half>),
    /// Stamps of the server's host for a stamped block.
    Nics(Box<NicReport>),
    /// Times of a traced block by the time of day of the server's host.
    Times(Times),
    /// The time of day of the server's host.
    Clock(Box<Told>),
    /// The client's side's report of a row.
    Client(Box<ClientReport>),
    /// The server's side's report of a row.
    Server(Box<ServerReport>),
    /// The rings are open.
    Rings {
        /// The first choice that opened.
        io: Box<IoSpec>,
        /// Features that the kernel granted for these rings.
        rings: Rings,
        /// The same for the second interface.
        output: Option<Rings>,
        /// `io: why not` of every earlier choice, which did not open.
        passed_over: Vec<String>,
    },
    /// Counts of a stream so far, about once a second.
    Streaming(StreamCounts),
    /// The report of a stream.
    Streamed(Box<StreamReport>),
    /// Counts of a bouncer so far, about once a second.
    Bouncing {
        /// Time since the start.
        at: Nanos,
        frames: Bounced,
    },
    /// The report of a bouncer.
    Bounced(Box<BounceReport>),
    /// The report of this end of the bulk streams.
    Bulk(BulkReport),
    /// An interface's address and counters.
    Interface(InterfaceFacts),
    /// The addresses at which the network namespace is reached.
    Addresses(Vec<At>),
    /// The address that the network namespace would send from; `None` if it has no route.
    From(Option<IpAddr>),
    /// To a probe: another session measures, for about this time if it is known. In a row: stand still. To a request between
    /// rows: ask again after it.
    Pause(Option<Nanos>),
    /// To a probe that stands still: go on.
    Resume,
    /// The client's side stands still, and goes on with `Go`.
    Paused,
    /// The order failed; nothing was measured.
    Failed(Failure),
}

/// Whether a library provides the sockets of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFound {
    /// The library provides them.
    pub in_place: bool,
    /// The library that provides them, if not the C library.
    pub provider: Option<String>,
    /// The library asked for is in the worker's memory.
    pub mapped: bool,
    /// The loader heeds no environment variables in the worker.
    pub secure: bool,
}

/// Why a side did nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The operation that failed, on which object, and a remedy.
    pub message: String,
    /// True if a capability or a device is missing (exit code 4).
    pub missing: bool,
}

/// The client's side's report of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// The row without the server's side.
    pub row: Row,
    /// Transactions of any kind, warm-up included: the divisor of counters that run over the whole row.
    pub exchanges: u64,
    /// True if the run was stopped.
    pub stopped: bool,
    /// Why the row ended early, if it did.
    pub error: Option<String>,
    /// Relative change of the clock's rate over the row, in parts per 10^9.
    pub drift_ppb: Option<f64>,
    /// Results of an open loop that are not in the row.
    #[serde(default)]
    pub open: Option<Box<OpenFound>>,
    /// A group's rows: of the first replies, and of the replies of each responder.
    #[serde(default)]
    pub replies: Vec<Row>,
}

/// The server's side's report of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Time from the return of the receive call to the entry of the send call.
    pub turnaround_ns: Quantiles,
    /// Requests answered, warm-up included.
    pub answered: u64,
    /// Why the row ended early, if it did.
    pub error: Option<String>,
    /// CPU time of the server's side.
    pub cpu: CpuSide,
    /// TCP's counters, as totals.
    pub tcp: Option<TcpSide>,
    /// Requested options, and their values in force.
    pub granted: Vec<Granted>,
    /// Queue and CPU of the requests' delivery, per flow.
    pub flow_facts: Vec<FlowFacts>,
    /// System calls beyond receive and send.
    pub extra_calls: u64,
    /// Driver steps of an emulated NIC.
    #[serde(default)]
    pub pcie: Option<Pcie>,
    /// The library in the place of the kernel's sockets.
    #[serde(default)]
    pub stack: Option<Stack>,
    /// Frames of the responder of a group.
    #[serde(default)]
    pub bounced: Option<Bounced>,
    pub warnings: Vec<Note>,
}
