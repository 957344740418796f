//! What the processes of a run say to each other.
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
use hairpin_record::warning::Note;
use hairpin_units::{BitRate, Nanos};
use serde::{Deserialize, Serialize};

use crate::io::IoSpec;

mod bulk;
mod packets;
mod traced;

pub use bulk::{BulkReport, BulkWork};
pub use packets::{
    AskRings, BounceReport, BounceWork, Count, Flush, InterfaceFacts, NotAFlush, Send, StreamCounts, StreamReport, Work,
};
pub use traced::Half;

/// What a verb tells its own worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Use these CPUs and no others.
    StayOn(Vec<u32>),
    /// Go into namespaces of your own, as the first thing.
    Enter(Namespace),
    /// Make the pair of devices, the other end in that process's namespace.
    MakePair {
        /// MTU of both ends in bytes.
        mtu: Option<u32>,
        /// Queues of both ends.
        queues: Option<u32>,
        /// Transmit queues, where they are to be others.
        tx_queues: Option<u32>,
        /// The other worker.
        peer_pid: u32,
    },
    /// Set up your end of the pair.
    SetUp(End),
    /// Read the host's facts.
    Facts {
        /// The interface the traffic passes.
        interface: Option<String>,
        /// The first CPU of this side.
        cpu: Option<u32>,
        /// Measuring threads.
        threads: u32,
        /// Which default CPU.
        server: bool,
    },
    /// Write every sample of the rows that follow here.
    Raw {
        /// The file.
        path: PathBuf,
        /// Path spec, request and reply bytes of each row.
        rows: Vec<(String, u64, u64)>,
    },
    /// Answer requests: the server's side of a row.
    Plan {
        /// What to do.
        job: Box<Job>,
        /// Where to listen.
        listen: Listen,
    },
    /// Measure: the client's side of a row.
    Row {
        /// What to do.
        job: Box<Job>,
        /// Where the server is.
        peer: Address,
        /// Index of the row in the run, for the raw file.
        index: u32,
        /// Somebody looks on: have each line of progress hold what came since the one before.
        snapshots: bool,
    },
    /// The flows are open: measure now.
    Go,
    /// Open the rings of an interface, and keep them until the next order of this kind; `None` closes them.
    Rings(Option<Box<AskRings>>),
    /// Send numbered frames, count them, or both, on the open rings.
    Stream(Box<Work>),
    /// Bounce what comes to the open rings until stopped.
    Bounce(Box<BounceWork>),
    /// Be one end of streams that fill the link, until stopped.
    Bulk(BulkWork),
    /// Read an interface's address and counters.
    Interface(String),
    /// No more rows: finish the raw file.
    End,
}

/// Which namespaces a worker enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespace {
    /// New ones, as root.
    New,
    /// New ones in a user namespace of its own.
    NewUser,
    /// New ones in the user namespace of that process.
    JoinUser(u32),
    /// The network namespace of that process.
    JoinNetwork(u32),
}

/// One end of a veth pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The device.
    pub interface: String,
    /// Its addresses, with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Generic receive offload.
    pub gro: Option<bool>,
    /// TCP segmentation offload.
    pub tso: Option<bool>,
    /// Outgoing rate (tbf).
    pub rate: Option<BitRate>,
    /// net.ipv4.tcp_timestamps.
    pub timestamps: Option<bool>,
    /// No IPv6 on it, so that the kernel sends nothing of its own.
    pub quiet: bool,
}

/// What a client asks of `hairpin serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// The facts of the server's host.
    Facts {
        /// Measuring threads.
        threads: u32,
    },
    /// Make ready to answer this.
    Plan(Box<Job>),
    /// Measuring begins.
    Go,
    /// Put the hooks on the tracepoints, or take them off.
    Hooks(bool),
    /// A traced block is over: say what you saw of it.
    Halves,
    /// Still here.
    Beat,
    /// The row is over: say what you saw.
    Done,
}

/// What comes back, from a worker or from `hairpin serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Done as ordered.
    Done,
    /// In namespaces of its own.
    Entered {
        /// Why /sys does not show them, if it does not.
        sysfs: Option<String>,
    },
    /// The host's facts and, from a worker, its clock.
    Facts {
        /// The facts.
        facts: HostFacts,
        /// The instrument's clock.
        clock: ClockFacts,
    },
    /// A server's side announces where it can be met; a client's has opened its flows.
    Ready(Option<Address>),
    /// About once a second.
    Progress(Box<Progress>),
    /// A traced block is over; the next begins when told to go.
    Block,
    /// What the server's host saw of a traced block.
    Halves(Vec<Half>),
    /// What the client's side found.
    Client(Box<ClientReport>),
    /// What the server's side saw.
    Server(Box<ServerReport>),
    /// The rings are open: how, and what was granted. `passed_over` says why an earlier choice did not open.
    Rings {
        /// The choice that opened.
        io: Box<IoSpec>,
        /// What was granted.
        rings: Rings,
        /// The same of the second interface.
        output: Option<Rings>,
        /// `io: why not`, of every choice before.
        passed_over: Vec<String>,
    },
    /// What was sent and counted until now, about once a second.
    Streaming(StreamCounts),
    /// What was sent and counted.
    Streamed(Box<StreamReport>),
    /// What was bounced until now, about once a second.
    Bouncing {
        /// Since the start.
        at: Nanos,
        /// The counts.
        frames: Bounced,
    },
    /// What was bounced.
    Bounced(Box<BounceReport>),
    /// What this end of the bulk streams carried.
    Bulk(BulkReport),
    /// An interface.
    Interface(InterfaceFacts),
    /// It could not be done; nothing was measured.
    Failed(Failure),
}

/// Why a side did nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What failed, on what, and what to do.
    pub message: String,
    /// True if a capability or a device is missing (exit code 4).
    pub missing: bool,
}

/// What the client's side found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// The row, but for the server's side.
    pub row: Row,
    /// Transactions of any kind, warm-up included: what accounts over the whole row are divided by.
    pub exchanges: u64,
    /// True if the run was stopped.
    pub stopped: bool,
    /// Why it ended early, if it did.
    pub error: Option<String>,
    /// Relative change of the clock's rate over the row, in parts per 10^9.
    pub drift_ppb: Option<f64>,
    /// What an open loop found beside the row.
    #[serde(default)]
    pub open: Option<Box<OpenFound>>,
}

/// What the server's side saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Receive call returned → send call entered.
    pub turnaround_ns: Quantiles,
    /// Requests answered, warm-up included.
    pub answered: u64,
    /// Why it ended early, if it did.
    pub error: Option<String>,
    /// Its CPU time.
    pub cpu: CpuSide,
    /// TCP's accounts, as totals.
    pub tcp: Option<TcpSide>,
    /// Asked and granted.
    pub granted: Vec<Granted>,
    /// Where requests were delivered.
    pub flow_facts: Vec<FlowFacts>,
    /// System calls beyond receive and send.
    pub extra_calls: u64,
    /// What the driver of an emulated NIC did.
    #[serde(default)]
    pub pcie: Option<Pcie>,
    /// What it noticed.
    pub warnings: Vec<Note>,
}
