//! What a measurement of frames per second is asked, whom it tells how it gets on, and why there is none.

use hairpin_plan::job::Sides;
use hairpin_record::stream::{Direction, Step};
use hairpin_units::Nanos;
use hairpin_wire::framing::{ETHERNET_HEADER, MIN_FRAME_WITHOUT_FCS};

use hairpin_session::error::Blame;
use hairpin_session::io::IoPair;
use hairpin_session::link::VethSpec;
use hairpin_session::message::StreamCounts;
use hairpin_session::side::SideError;

/// Each trial of a search where no duration is given.
pub const TRIAL: Nanos = Nanos::from_millis(500);

/// What to measure, and where.
#[derive(Debug)]
pub struct Plan {
    /// The other end.
    pub target: Target,
    /// One row each.
    pub rows: Vec<Ask>,
    /// Queues of each side.
    pub queues: u32,
    /// Each trial; `None`: [`TRIAL`] in a search, else until the user ends it.
    pub duration: Option<Nanos>,
    /// Offers this rate in frames/s and searches nothing.
    pub per_s: Option<f64>,
    /// The first CPU of each side.
    pub cpus: Sides<Option<u32>>,
    /// A number that nobody else knows: whose frames they are.
    pub cookie: u64,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Where to.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// Two namespaces of our own.
    Veth(VethSpec),
    /// An interface of this host, and behind it another host.
    Interface {
        /// The interface.
        name: String,
        /// The other host's hardware address; not needed to receive.
        to: Option<[u8; 6]>,
    },
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// How both sides send and receive.
    pub io: IoPair,
    /// What is counted.
    pub direction: Direction,
    /// Bytes of every frame, FCS not included.
    pub bytes: u64,
    /// Nobody asked for this io by name: where it does not open it is passed over.
    pub optional: bool,
}

/// Told how it gets on, between trials or about once a second.
pub trait Watcher {
    /// A row begins.
    fn begins(&mut self, _index: usize, _of: usize, _ask: &Ask) {}
    /// A trial of it is done.
    fn trial(&mut self, _ask: &Ask, _step: &Step) {}
    /// A row without a search goes on.
    fn second(&mut self, _counts: &StreamCounts) {}
    /// A row is passed over.
    fn skipped(&mut self, _ask: &Ask, _why: &str) {}
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// A frame that the interface does not take.
    #[error("{interface} has an MTU of {mtu} bytes, so frames have {MIN_FRAME_WITHOUT_FCS} to {} bytes without FCS, not {bytes}", mtu + ETHERNET_HEADER)]
    Size {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u64,
        /// What was asked for.
        bytes: u64,
    },
    /// A CPU that this process may not use.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed} (--cpu CLIENT,SERVER)")]
    Cpu {
        /// What was asked for.
        cpu: u32,
        /// What there is.
        allowed: String,
    },
    /// Threads that sleep need a ring each.
    #[error(
        "{io} sleeps until a frame is there, so {queues} queues of a side need {queues} CPUs, and there are {cpus}: use :spin, or fewer --queues"
    )]
    Sleeps {
        /// The io.
        io: String,
        /// Queues of a side.
        queues: u32,
        /// CPUs of a side.
        cpus: usize,
    },
    /// An end without a hardware address.
    #[error("{0} has no Ethernet address, so no frames go there")]
    NoAddress(String),
    /// A worker failed.
    #[error(transparent)]
    Side(#[from] SideError),
    /// Rings, with the io that was asked for.
    #[error("{0}")]
    Rings(String, bool),
    /// It stopped part way.
    #[error("{0}")]
    Ended(String),
    /// Ctrl-C before anything was measured.
    #[error("stopped before anything was measured")]
    Interrupted,
}

impl StreamError {
    /// Which exit code it is.
    pub fn blame(&self) -> Blame {
        match self {
            StreamError::Size { .. } | StreamError::Cpu { .. } | StreamError::Sleeps { .. } => Blame::Usage,
            StreamError::Rings(_, true) => Blame::Missing,
            StreamError::Side(side) if side.missing() => Blame::Missing,
            _ => Blame::Failed,
        }
    }
}
