//! Device → rings → start: opening an interface, and what was granted.

use std::io;

pub use hairpin_sys::packet_socket::Spread;

use crate::filter::Filter;
use crate::granted::{Granted, Mode};
use crate::io::PacketIo;

/// What is asked of a device. What is left as it is asks for the best that the device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which frames come to the rings.
    pub filter: Filter,
    /// Where the XDP program runs; `None`: the faster one, found by measuring at open.
    pub mode: Option<Mode>,
    /// Zero-copy where the driver has it.
    pub zero_copy: bool,
    /// What the device knows of each arriving frame, where its driver tells it: when it came, and the hash over its flow. For AF_XDP this takes
    /// native mode.
    pub metadata: bool,
    /// The queue that a ring sends on (AF_XDP in copy mode): on one of its own, sending touches nothing that the core touches which sends to this ring.
    /// `None`: as many queues beyond the receive queues as the ring's own is from the first, if there are so many, else the ring's own. One that is asked for and
    /// cannot be had is an error.
    pub send_queue: Option<u32>,
    /// Preferred busy polling for so many microseconds, if any.
    pub busy_poll_us: Option<u32>,
    /// Entries of each ring; a power of two.
    pub ring_entries: u32,
    /// Chunks of each queue pair's memory.
    pub chunks: u32,
    /// The longest frame in bytes; `None`: what the interface's MTU allows.
    pub longest_frame: Option<usize>,
    /// What the rings are tuned for.
    pub favour: Favour,
    /// Frames for other MAC addresses too, as long as the device is open. [`Filter::All`] always asks for it.
    pub promiscuous: bool,
    /// Rings that share the interface's frames where that is the library's choice (AF_PACKET); where it is the device's (AF_XDP) there is
    /// one for each queue.
    pub rings: u32,
    /// What shares the frames out to those rings.
    pub spread: Spread,
}

/// Delay or rate, where a back end has to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Favour {
    /// Each frame is handed over at once.
    #[default]
    Delay,
    /// Frames are handed over in blocks.
    Rate,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            filter: Filter::All,
            mode: None,
            zero_copy: true,
            send_queue: None,
            metadata: false,
            busy_poll_us: None,
            ring_entries: 2048,
            chunks: 8192,
            longest_frame: None,
            favour: Favour::Delay,
            promiscuous: false,
            rings: 1,
            spread: Spread::Hash,
        }
    }
}

/// A way to reach a device's queues.
pub trait BackEnd: Sized {
    /// Its queue pairs.
    type Io: PacketIo + 'static;

    /// Opens the interface; nothing is received before [`start`](BackEnd::start).
    ///
    /// # Errors
    /// What is missing, and what to do.
    fn open(interface: &str, config: &Config) -> Result<Self, OpenError>;

    /// What the device was granted; `queue` is that of the first ring.
    fn granted(&self) -> &Granted;

    /// The queue pair of that queue. Once each.
    ///
    /// # Errors
    /// If there is no such queue, it is taken, or the kernel refuses.
    fn ring(&mut self, queue: u32) -> Result<Self::Io, OpenError>;

    /// From here on frames that the filter takes come to the rings.
    ///
    /// # Errors
    /// What the kernel said.
    fn start(&mut self) -> Result<(), OpenError>;

    /// From here on all frames stay with the kernel.
    ///
    /// # Errors
    /// What the kernel said.
    fn stop(&mut self) -> Result<(), OpenError>;
}

/// Why a device or a queue cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such interface here.
    #[error("there is no interface {0} in this network namespace; `ip link` lists those that are")]
    NoInterface(String),
    /// The interface is not up.
    #[error("{0} is down: ip link set {0} up")]
    Down(String),
    /// A right is missing.
    #[error("{what} on {interface} needs {capabilities}: {remedy}")]
    Capability {
        /// What was tried.
        what: &'static str,
        /// On what.
        interface: String,
        /// What is missing.
        capabilities: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Somebody else's XDP program is there.
    #[error(
        "{interface} already has XDP program {id} ({mode}), which is not Hairpin's: end the program that attached it, or ip link set {interface} xdp off"
    )]
    ForeignProgram {
        /// The interface.
        interface: String,
        /// The program's id.
        id: u32,
        /// Where it runs.
        mode: Mode,
    },
    /// The queue belongs to somebody.
    #[error("queue {queue} of {interface} is taken by another socket: end it, or use another queue")]
    QueueTaken {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
    },
    /// No such queue.
    #[error("{interface} has queues 0 to {last}, not {queue}")]
    NoQueue {
        /// The interface.
        interface: String,
        /// What was asked for.
        queue: u32,
        /// The last there is.
        last: u32,
    },
    /// The configuration does not go.
    #[error("{0}")]
    Config(String),
    /// No packet memory.
    #[error(transparent)]
    Memory(#[from] hairpin_sys::umem::UmemError),
    /// A step failed.
    #[error("{what} on {interface}: {source}")]
    Step {
        /// What was tried.
        what: String,
        /// On what.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
}
