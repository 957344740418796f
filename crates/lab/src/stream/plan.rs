//! The plan of a measurement of frames per second, its progress callbacks and its errors.

use hairpin_plan::job::Sides;
use hairpin_record::stream::{Direction, Step};
use hairpin_units::Nanos;
use hairpin_wire::framing::{ETHERNET_HEADER, MIN_FRAME_WITHOUT_FCS};

use hairpin_session::error::Blame;
use hairpin_session::io::IoPair;
use hairpin_session::link::VethSpec;
use hairpin_session::message::StreamCounts;
use hairpin_session::side::SideError;

/// Default duration of a trial in a search.
pub const TRIAL: Nanos = Nanos::from_millis(500);

#[derive(Debug)]
pub struct StreamPlan {
    /// The other end of the stream.
    pub target: Target,
    /// One per row.
    pub rows: Vec<Ask>,
    pub queues: u32,
    /// Duration of a trial; `None`: [`TRIAL`] in a search, else until the user ends it.
    pub duration: Option<Nanos>,
    /// Offers this rate in frames/s instead of a search.
    pub per_s: Option<f64>,
    /// The first CPU of each side.
    pub cpus: Sides<Option<u32>>,
    /// A random number that marks the frames of this run.
    pub cookie: u64,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// The other end of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A veth pair between two namespaces.
    Veth(VethSpec),
    /// An interface of this host with another host behind it.
    Interface {
        name: String,
        /// The other host's hardware address; not needed to receive.
        to: Option<[u8; 6]>,
    },
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The rings of both sides.
    pub io: IoPair,
    pub direction: Direction,
    /// Bytes of every frame, FCS not included.
    pub bytes: u64,
    /// The user did not name this io: skip it if it does not open.
    pub optional: bool,
}

/// Receives the progress, between trials or about once a second.
pub trait StreamWatcher {
    /// A row begins.
    fn begins(&mut self, _index: usize, _of: usize, _ask: &Ask) {}
    /// A trial of the row is done.
    fn trial(&mut self, _ask: &Ask, _step: &Step) {}
    /// A row without a search has run for another second.
    fn second(&mut self, _counts: &StreamCounts) {}
    /// A row is skipped.
    fn skipped(&mut self, _ask: &Ask, _why: &str) {}
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The interface does not take frames of this size.
    #[error("{interface} has an MTU of {mtu} bytes, so frames have {MIN_FRAME_WITHOUT_FCS} to {} bytes without FCS, not {bytes}", mtu + ETHERNET_HEADER)]
    Size {
        interface: String,
        /// The interface's MTU.
        mtu: u64,
        /// The frame size asked for.
        bytes: u64,
    },
    /// This process may not use the CPU.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed} (--cpu CLIENT,SERVER)")]
    Cpu {
        /// The CPU asked for.
        cpu: u32,
        /// The CPUs allowed.
        allowed: String,
    },
    /// Threads that sleep need one ring each.
    #[error(
        "{io} sleeps until a frame is there, so {queues} queues of a side need {queues} CPUs, and there are {cpus}: use :spin, or fewer --queues"
    )]
    Sleeps {
        io: String,
        /// Queues of a side.
        queues: u32,
        /// CPUs of a side.
        cpus: usize,
    },
    /// The interface has no hardware address.
    #[error("{0} has no Ethernet address, so no frames go there")]
    NoAddress(String),
    /// A worker failed.
    #[error(transparent)]
    Side(#[from] SideError),
    /// The rings of a side failed: the message, and whether a capability or a device is missing.
    #[error("{0}")]
    Rings(String, bool),
    /// A trial ended early; the reason.
    #[error("{0}")]
    Ended(String),
    /// Ctrl-C came before anything was measured.
    #[error("stopped before anything was measured")]
    Interrupted,
}

impl StreamError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            StreamError::Size { .. } | StreamError::Cpu { .. } | StreamError::Sleeps { .. } => Blame::Usage,
            StreamError::Rings(_, true) => Blame::Missing,
            StreamError::Side(side) if side.missing() => Blame::Missing,
            _ => Blame::Failed,
        }
    }
}
