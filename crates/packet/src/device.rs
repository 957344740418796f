//! Opens an interface, hands out its rings, and starts receiving.

use std::io;

use hairpin_sys::netlink::{LinkFacts, Netlink, NetlinkError};
pub use hairpin_sys::packet_socket::Spread;
use rustix::io::Errno;

use crate::filter::Filter;
use crate::granted::{Granted, Mode};
use crate::io::PacketIo;

/// The request to [`BackEnd::open`] and [`memory::pair`](crate::memory::pair). The default asks for the fastest mode that the
/// device supports, for every frame.
///
/// A request is not a guarantee: [`BackEnd::granted`] lists the granted features, and the reason for each refused one.
/// [`Granted::require`] makes a missing feature an error.
///
/// ```
/// use hairpin_packet::device::Config;
/// use hairpin_packet::filter::Filter;
///
/// let config = Config { filter: Filter::Udp { first: 7, last: 7 }, busy_poll_us: Some(50), ..Config::default() };
/// assert!(config.zero_copy && config.mode.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The frames that go to the rings; all others stay with the kernel.
    pub filter: Filter,
    /// Place of the XDP program (AF_XDP). `None` takes the faster one: over veth by a measurement when the device is opened,
    /// elsewhere native mode if the driver has it. If AF_XDP cannot run in the requested mode, the open is an error.
    pub mode: Option<Mode>,
    /// Use zero-copy (AF_XDP in native mode) if the driver supports it; otherwise frames are copied.
    pub zero_copy: bool,
    /// Metadata of each received frame, if the driver provides it: receive timestamp by the device, flow hash, VLAN tag. For
    /// AF_XDP this requires native mode. The device stamps only while its stamping is on (`hardware_timestamping` of `hairpin
    /// tune`, SIOCSHWTSTAMP); an open does not switch it.
    pub metadata: bool,
    /// A stamp of each sent frame, by the device or by the kernel: [`PacketIo::departures`] returns them. As with `metadata`, the
    /// device's stamping has to be on.
    pub departures: bool,
    /// The queue that a ring sends on (AF_XDP in copy mode). With a queue of its own, sending shares no memory with the
    /// core that sends to this ring. `None` chooses the queue with the ring's own index behind the receive queues, if
    /// it exists, otherwise the ring's own queue. A requested queue that is not available is an error; one other than the
    /// ring's own refuses zero-copy.
    pub send_queue: Option<u32>,
    /// Preferred busy polling (AF_XDP): the kernel polls the device for up to `busy_poll_us` microseconds in each kick. `None`
    /// for no busy polling.
    pub busy_poll_us: Option<u32>,
    /// Entries of each ring: a power of two.
    pub ring_entries: u32,
    /// Chunks in the memory of each queue pair: frames that can be in rings or with the application at once. AF_XDP needs more
    /// than `ring_entries`.
    pub chunks: u32,
    /// The longest frame in bytes, Ethernet header included, FCS not. `None` takes the longest that the
    /// interface's MTU allows.
    pub longest_frame: Option<usize>,
    /// The goal where the back end has to choose: delay or rate.
    pub favour: Favour,
    /// Receive frames to other MAC addresses too, as long as the device is open. [`Filter::All`] implies it.
    pub promiscuous: bool,
    /// The number of rings that share the interface's frames (AF_PACKET). For AF_XDP the device decides: one ring per
    /// queue.
    pub rings: u32,
    /// Distribution of frames over the `rings`.
    pub spread: Spread,
}

/// The goal where a back end has to choose between delay and rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Favour {
    /// Each frame is delivered at once.
    #[default]
    Delay,
    /// Frames are delivered in blocks.
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
            departures: false,
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

/// A back end: opens an interface, and hands out one queue pair per queue.
///
/// The order is [`open`](BackEnd::open), [`ring`](BackEnd::ring) for each queue, [`start`](BackEnd::start). Queue pairs
/// can move to other threads; the device must outlive them, because dropping it stops their receiving.
///
/// A program for either back end takes it as a type parameter:
///
/// ```
/// use hairpin_packet::prelude::*;
///
/// /// Counts frames until none has come for a second.
/// fn count<B: BackEnd>(interface: &str) -> Result<u64, Box<dyn std::error::Error>> {
///     let mut device = B::open(interface, &Config { filter: "udp:7007".parse()?, ..Config::default() })?;
///     let ring = Ring::new(device.ring(0)?, MonotonicRaw, RingConfig::default());
///     device.start()?;
///     let mut frames = 0;
///     while let Received::Got(_frame) = ring.recv(1000)? {
///         frames += 1;
///     }
///     Ok(frames)
/// }
/// ```
pub trait BackEnd: Sized {
    /// The queue pair of this back end.
    type Io: PacketIo + 'static;

    /// Opens the interface. No frame is received before [`start`](BackEnd::start).
    ///
    /// # Errors
    /// The interface does not exist or is down, a capability is missing, or the kernel refuses. The message names the
    /// remedy.
    fn open(interface: &str, config: &Config) -> Result<Self, OpenError>;

    /// The features that the device was granted; `queue` is the first ring's. AF_XDP knows zero-copy, need_wakeup, busy polling
    /// and stamps of sent frames only after a call of [`ring`](BackEnd::ring), and tells those of the last ring: each has its own
    /// [`PacketIo::granted`].
    fn granted(&self) -> &Granted;

    /// The queue pair of `queue`. There is one at a time: the queue can be taken again once its queue pair is dropped.
    ///
    /// # Errors
    /// The queue does not exist, is in use, or the kernel refuses.
    fn ring(&mut self, queue: u32) -> Result<Self::Io, OpenError>;

    /// Starts receiving: from now on, frames that match the filter go to the rings.
    ///
    /// # Errors
    /// The kernel's error.
    fn start(&mut self) -> Result<(), OpenError>;

    /// Stops receiving: from now on, all frames stay with the kernel.
    ///
    /// # Errors
    /// The kernel's error.
    fn stop(&mut self) -> Result<(), OpenError>;

    /// The queue of the last frame that matched the filter but found no ring at its queue. `None` if every matching frame found a
    /// ring, or if the back end cannot tell.
    fn astray(&self) -> Option<u32> {
        None
    }

    /// Gives the interface back and waits until it carries frames as before. Drop all of its queue pairs first.
    ///
    /// # Errors
    /// The interface does not carry frames again.
    fn close(self) -> Result<(), OpenError> {
        Ok(())
    }
}

/// Why a device or a queue cannot be opened. The message names the failed step, the interface and, where there is one, the
/// remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The interface does not exist in this network namespace.
    #[error("there is no interface {0} in this network namespace; `ip link` lists them")]
    NoInterface(String),
    /// The interface is not up.
    #[error("{0} is down: ip link set {0} up")]
    Down(String),
    /// The interface has lost its carrier.
    #[error("the link of {interface} did not come back within {within:?} of {what}: look at its cable and at the other end")]
    NoCarrier {
        /// The interface.
        interface: String,
        /// The step that took the link down.
        what: String,
        /// The time waited for the carrier.
        within: std::time::Duration,
    },
    /// A capability is missing.
    #[error("{what} on {interface} needs {capabilities}: {remedy}")]
    Capability {
        /// The step that failed.
        what: &'static str,
        /// The interface.
        interface: String,
        /// The missing capabilities.
        capabilities: &'static str,
        /// Remedy for the user.
        remedy: &'static str,
    },
    /// Another XDP program is attached.
    #[error(
        "{interface} already has XDP program {id} ({mode}): end the process that attached it, which may be another hairpin (bpftool prog show id {id} has its name), or ip link set {interface} xdp off"
    )]
    ForeignProgram {
        /// The interface.
        interface: String,
        /// The program's id.
        id: u32,
        /// The mode in which it runs.
        mode: Mode,
    },
    /// Another socket uses the queue.
    #[error("queue {queue} of {interface} is taken by another socket: end it, or use another queue")]
    QueueTaken {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
    },
    /// The queue does not exist.
    #[error("{interface} has queues 0 to {last}, not {queue}")]
    NoQueue {
        /// The interface.
        interface: String,
        /// The requested queue.
        queue: u32,
        /// The last queue of the interface.
        last: u32,
    },
    /// The configuration is invalid; the text says why.
    #[error("{0}")]
    Config(String),
    /// The packet memory could not be allocated.
    #[error(transparent)]
    Memory(#[from] hairpin_sys::umem::UmemError),
    /// A step failed.
    #[error("{what} on {interface}: {source}")]
    Step {
        /// The step that failed.
        what: String,
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The interface as the kernel knows it.
pub(crate) fn facts(interface: &str) -> Result<LinkFacts, OpenError> {
    Netlink::open().and_then(|netlink| netlink.link(interface)).map_err(|error| match error {
        NetlinkError::Refused { source, .. } if is(&source, Errno::NODEV) => OpenError::NoInterface(interface.into()),
        other => step("read the interface", interface.into(), io::Error::other(other)),
    })
}

pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

pub(crate) fn step(what: &str, interface: String, source: io::Error) -> OpenError {
    OpenError::Step { what: what.into(), interface, source }
}
