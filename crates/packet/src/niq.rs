//! An emulated low-latency NIC: two ports joined by a link in shared memory, between threads or between processes.
//!
//! ```text
//!   Port                               shared memory, each way                               Port
//!    chunk ── tx_batch ─▶ ≤ 60 bytes: in the line ──▶ │hdr│frame│hdr│frame│hdr│ … ──▶ rx_batch ─▶ chunk
//!      └─▶ pool, at once   longer: copied to a slot ─▶ │   slot   │   slot   │ … ──▶ copied ──╯
//!             kick ─▶ the first line is written ──────▶ seen from here on, or from its deadline on
//!                  ╰▶ armed? then one byte to the other side's socket
//! ```
//! [`pair`] joins two threads of one process. Between processes one side [creates](Port::create) its ports and hands the other the descriptors, which
//! [opens](Port::open) them: there need be no trust between the two. With a [`Timing`] each frame becomes visible when its
//! declared NIC and link would have delivered it, queueing included; without one, no clock is ever read.

mod bell;
mod driver;
mod timing;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hairpin_sys::armed::Armed;
use hairpin_sys::bar::{CoherentBar, LINE};
use hairpin_sys::niq::{LONGEST, Lane, Layout, Memory, MemoryError, Side};
use hairpin_sys::umem::{Frame, MIN_CHUNK, Pool, Umem, UmemError};
use rustix::io::Errno;

use crate::filter::Filter;
use crate::granted::{Feature, Granted, Refused};
use crate::io::{Arrival, Counters, Kick, Kicked, PacketIo};

use bell::Bell;
use driver::{Driver, FrameHeader, copy_small};
pub use driver::{INLINE, Pcie};
use timing::Link;
pub use timing::{Delay, Timing, TimingError};

/// The configuration of a port. Queues, ring entries and longest frame are those of the creating side; the other side's
/// are ignored.
#[derive(Clone, Debug)]
pub struct Config {
    /// Queue pairs, one per thread.
    pub queues: u32,
    /// Lines each way; a power of two from 4 to 16,384.
    pub ring_entries: u32,
    /// Bytes of the longest frame, 60 to 9,000.
    pub longest_frame: usize,
    /// Chunks of each queue pair's packet memory.
    pub chunks: u32,
    /// The frames to receive.
    pub filter: Filter,
    /// The emulated NIC and link; `None` is plain shared memory. Either both sides declare one or neither does.
    pub timing: Option<Timing>,
}

impl Default for Config {
    fn default() -> Config {
        Config { queues: 1, ring_entries: 512, longest_frame: LONGEST, chunks: 1024, filter: Filter::All, timing: None }
    }
}

/// Why a port cannot be made or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The sizes are invalid, or the other side's descriptors are.
    #[error(transparent)]
    Shared(#[from] MemoryError),
    /// The packet memory could not be allocated.
    #[error(transparent)]
    Memory(#[from] UmemError),
    /// Only one side emulates times.
    #[error("one side of the emulated NIC declares a latency and the other declares none: give both the same --nic")]
    TimedOnOneSide,
    /// The times do not cover the longest frame.
    #[error("times are declared for frames up to {known} bytes, and the emulated NIC takes frames up to {longest}")]
    Untimed {
        /// The longest frame with a time.
        known: usize,
        /// The longest frame.
        longest: usize,
    },
    /// Too few or too many descriptors.
    #[error(
        "an emulated NIC of {queues} queue pairs is handed over as {} descriptors, not {got}: pass on all that the other port made", .queues + 1
    )]
    Descriptors {
        /// Queue pairs.
        queues: u32,
        /// Descriptors received.
        got: usize,
    },
    /// The kernel provides no socket, or a descriptor is not one.
    #[error("cannot wake the other port: {0}")]
    Bell(#[source] io::Error),
}

/// One queue pair of a port: the emulated NIC's [`PacketIo`].
///
/// [`pair`] joins two of them in one process. Between two processes one side creates its ports and sends the descriptors to
/// the other, which opens its own. A frame that is too long to send is counted as `tx_invalid`, and a received line that no
/// correct sender could have written as `rx_invalid`. After the other side has ended, a kick is ENETDOWN.
///
/// ```
/// use hairpin_packet::niq::{self, Port};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = niq::Config { queues: 2, ..niq::Config::default() };
/// let (near, descriptors) = Port::create(&config)?;
/// let far = Port::open(descriptors, &config)?; // usually in another process
/// assert_eq!((near.len(), far.len()), (2, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Port {
    driver: Driver<CoherentBar>,
    sends: Lane,
    receives: Lane,
    emulation: Option<Emulation>,
    bell: Bell,
    granted: Granted,
    filter: Filter,
    pool: Pool,
    umem: Arc<Umem>,
    longest: usize,
    /// Bytes of the large frame that was sent last, until the next slot is made ready.
    large: Option<usize>,
    counters: Counters,
    no_credit: u64,
}

#[derive(Debug)]
struct Emulation {
    timing: Timing,
    link: Link,
    near: u64,
    furthest: u64,
}

/// The state of a frame's deadline.
enum Due {
    /// It has passed, or is near enough to wait for: this tick.
    At(u64),
    /// Later.
    NotYet,
    /// No correct sender could have set it.
    Never,
}

/// Two joined ports of one queue pair in this process, usually for two threads.
///
/// `config.queues` is ignored: each port is one queue pair. Without a [`Timing`] a frame is visible as soon as it is kicked; with
/// one, when the emulated NIC and link would have delivered it.
///
/// ```
/// use hairpin_packet::niq;
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, far) = niq::pair(&niq::Config::default())?;
/// let [near, far] = [near, far].map(|port| Ring::new(port, MonotonicRaw, RingConfig::default()));
/// let _ = near.sender().inject(&[5; 60])?;
/// if let Received::Got(frame) = far.recv(1000)? {
///     assert!(frame.send_back()?.is_none());
/// }
/// let Received::Got(reply) = near.recv(1000)? else { return Err("no reply".into()) };
/// assert_eq!(reply[..], [5; 60]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The sizes are invalid, or the kernel refuses.
pub fn pair(config: &Config) -> Result<(Port, Port), PortError> {
    let config = Config { queues: 1, ..config.clone() };
    let (mut ports, descriptors) = Port::create(&config)?;
    let mut others = Port::open(descriptors, &config)?;
    match (ports.pop(), others.pop()) {
        (Some(one), Some(other)) => Ok((one, other)),
        _ => Err(PortError::Descriptors { queues: 0, got: 0 }),
    }
}

impl Port {
    /// Makes the shared memory and this side's port of each queue pair. The descriptors are for the other side: the
    /// memory first, then one per queue pair. Send them over a UNIX socket and drop them here, so that the end of the
    /// other side is noticed.
    ///
    /// # Errors
    /// The sizes are invalid, or the kernel refuses.
    pub fn create(config: &Config) -> Result<(Vec<Port>, Vec<OwnedFd>), PortError> {
        let layout = Layout {
            queues: config.queues,
            entries: config.ring_entries,
            longest: u32::try_from(config.longest_frame).unwrap_or(u32::MAX),
            timed: config.timing.is_some(),
        };
        let memory = Memory::create(&layout)?;
        let descriptor = memory.as_fd().try_clone_to_owned().map_err(PortError::Bell)?;
        let (mut ports, mut descriptors) = (Vec::new(), vec![descriptor]);
        for queue in 0..layout.queues {
            let (own, other) = bell::ends().map_err(PortError::Bell)?;
            ports.push(Port::new(&memory, Side::Creator, queue, own, config)?);
            descriptors.push(other);
        }
        Ok((ports, descriptors))
    }

    /// Opens the ports of this side, from the descriptors that [`Port::create`] made on the other. Their content is not
    /// trusted.
    ///
    /// # Errors
    /// The memory is not sealed, not Hairpin's, or of another version or layout; only one side emulates times; too few
    /// descriptors; or the kernel refuses.
    pub fn open(descriptors: Vec<OwnedFd>, config: &Config) -> Result<Vec<Port>, PortError> {
        let got = descriptors.len();
        let mut descriptors = descriptors.into_iter();
        let memory = Memory::open(descriptors.next().ok_or(PortError::Descriptors { queues: config.queues, got })?)?;
        let queues = memory.layout().queues;
        if descriptors.len() != queues as usize {
            return Err(PortError::Descriptors { queues, got });
        }
        let ports = (0..queues).zip(descriptors);
        ports.map(|(queue, socket)| Port::new(&memory, Side::Opener, queue, socket, config)).collect()
    }

    fn new(memory: &Arc<Memory>, side: Side, queue: u32, socket: OwnedFd, config: &Config) -> Result<Port, PortError> {
        let layout = memory.layout();
        let longest = layout.longest as usize;
        let emulation = match &config.timing {
            None if layout.timed => return Err(PortError::TimedOnOneSide),
            Some(_) if !layout.timed => return Err(PortError::TimedOnOneSide),
            Some(timing) if timing.longest() < longest => return Err(PortError::Untimed { known: timing.longest(), longest }),
            timing => timing.clone().map(|timing| Emulation {
                link: Link::default(),
                near: timing.near(),
                furthest: timing.furthest(layout.entries),
                timing,
            }),
        };
        let pool = Pool::new(config.chunks, longest.next_power_of_two().max(MIN_CHUNK))?;
        let [sends, receives] = memory.lanes(side, queue);
        let interface = if side == Side::Creator { "niq-0" } else { "niq-1" };
        let granted = Granted {
            queue,
            send_queue: queue,
            queues: layout.queues,
            longest_frame: longest,
            refused: [Feature::HardwareTime, Feature::HardwareDeparture].map(no_stamps).into(),
            ..Granted::nothing("niq", interface)
        };
        Ok(Port {
            driver: Driver::new(sends.bar(), receives.bar(), layout.entries, layout.slots()),
            sends,
            receives,
            emulation,
            bell: Bell::new(socket).map_err(PortError::Bell)?,
            granted,
            filter: config.filter,
            umem: pool.umem().clone(),
            pool,
            longest,
            large: None,
            counters: Counters::default(),
            no_credit: 0,
        })
    }

    /// The PCI Express transactions that this port's frames would have taken.
    pub fn pcie(&self) -> Pcie {
        self.driver.pcie()
    }

    /// Kicks that entered the kernel because the other side slept.
    pub fn wake_ups(&self) -> u64 {
        self.bell.rung()
    }

    /// Calls of `tx_batch` that left frames for lack of credit from the other side.
    pub fn no_credit(&self) -> u64 {
        self.no_credit
    }

    /// True if a frame is there, due or not.
    pub fn has_arrived(&self) -> bool {
        self.driver.poll(&mut [0; LINE]).is_some()
    }

    /// Whether the next frame may be seen; if `patient`, a deadline that is near counts as due.
    #[inline(always)]
    fn due(&self, emulation: &Emulation, patient: bool) -> Due {
        let deadline = self.receives.deadline(self.driver.awaited());
        let left = deadline.saturating_sub(emulation.timing.now());
        if left > emulation.furthest {
            Due::Never
        } else if left == 0 || (patient && left <= emulation.near) {
            Due::At(deadline)
        } else {
            Due::NotYet
        }
    }

    /// True if a correct sender could have written this header.
    #[inline(always)]
    fn is_sound(&self, found: FrameHeader) -> bool {
        found.len <= if found.large { self.longest } else { INLINE }
    }
}

/// Stamps are refused: a line has its frame's deadline alone, which does not tell the receiver when the frame reached the NIC.
fn no_stamps(feature: Feature) -> Refused {
    let why = "the emulated NIC has declared times and no clock: a frame is there at its deadline, whatever part of the way that is for";
    Refused { feature, why: why.into() }
}

/// True if the other side has ended. It gives no more credits, so what was sent is forgotten, and the kick of what follows is
/// refused.
#[cold]
fn abandoned(receives: &Lane, driver: &mut Driver<CoherentBar>) -> bool {
    let closed = receives.is_closed();
    if closed {
        driver.forget();
    }
    closed
}

impl PacketIo for Port {
    fn granted(&self) -> &Granted {
        &self.granted
    }

    #[inline(always)]
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    #[inline(always)]
    fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }

    /// With emulated times, waits for a frame whose deadline is less than 1 us away, so that it is returned
    /// on time.
    #[inline(always)]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let (mut received, mut bytes_received, mut last, mut line) = (0, 0, 0, [0; LINE]);
        // Lines that give the caller no frame: a correct sender has credits for a ring of them, and one that needs none could
        // keep this call for ever.
        let mut skipped = 0;
        while received < most {
            let Some(found) = self.driver.poll(&mut line) else { break };
            let due = self.emulation.as_ref().map_or(Due::At(0), |emulation| self.due(emulation, received == 0));
            let deadline = match due {
                Due::At(deadline) if self.is_sound(found) => deadline,
                Due::NotYet => break,
                _ => {
                    self.counters.rx_invalid = self.counters.rx_invalid.wrapping_add(1);
                    self.driver.take(found);
                    skipped += 1;
                    if skipped == self.receives.entries() {
                        break;
                    }
                    continue;
                }
            };
            // Without a chunk the frame stays where it is.
            let Some(mut frame) = self.pool.take() else { break };
            frame.set_len(found.len);
            let bytes = self.umem.bytes_mut(&mut frame);
            if found.large {
                self.receives.read_slot(self.driver.awaited_slot(), bytes);
            } else {
                copy_small(&line, bytes);
            }
            let taken = self.filter == Filter::All || self.filter.takes(bytes);
            self.driver.take(found);
            if !taken {
                self.pool.give(frame);
                skipped += 1;
                if skipped == self.receives.entries() {
                    break;
                }
                continue;
            }
            into.push(Arrival { frame, time: None, hash: None, vlan: None });
            (received, bytes_received) = (received + 1, bytes_received + found.len as u64);
            self.driver.expect_more();
            // A longer frame before this one may be due later.
            last = deadline.max(last);
        }
        self.driver.return_credits();
        self.counters.rx_frames = self.counters.rx_frames.wrapping_add(received as u64);
        self.counters.rx_bytes = self.counters.rx_bytes.wrapping_add(bytes_received);
        // The only work left is to return the frames.
        if let (Some(emulation), true) = (&self.emulation, received > 0) {
            emulation.timing.wait_for(last);
        }
        received
    }

    #[inline(always)]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        let entered = self.emulation.as_ref().map_or(0, |emulation| emulation.timing.now());
        let (mut taken, mut sent, mut bytes_sent) = (0, 0, 0);
        for frame in frames.iter() {
            let bytes = self.umem.bytes(frame);
            let large = bytes.len() > INLINE;
            if bytes.len() > self.longest {
                self.counters.tx_invalid = self.counters.tx_invalid.wrapping_add(1);
            } else if self.driver.has_credit(large) || abandoned(&self.receives, &mut self.driver) {
                if let Some(Emulation { timing, link, .. }) = &mut self.emulation {
                    self.sends.set_deadline(self.driver.next(), link.pass(timing, entered, bytes.len()));
                }
                if large {
                    self.sends.write_slot(self.driver.next_slot(), bytes);
                    if frames.len() == 1 {
                        self.sends.push_slot(self.driver.next_slot(), bytes.len());
                    }
                    self.driver.send_large(bytes.len());
                    self.large = Some(bytes.len());
                } else {
                    self.driver.send_small(bytes);
                }
                (sent, bytes_sent) = (sent + 1, bytes_sent + bytes.len() as u64);
            } else {
                self.no_credit = self.no_credit.wrapping_add(1);
                break;
            }
            taken += 1;
        }
        self.counters.tx_frames = self.counters.tx_frames.wrapping_add(sent);
        self.counters.tx_bytes = self.counters.tx_bytes.wrapping_add(bytes_sent);
        for frame in frames.drain(..taken) {
            self.pool.give(frame);
        }
        taken
    }

    #[inline(always)]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        match what {
            Kick::Send if !self.driver.waits() => {}
            // The other side closes the lane that it sends on.
            Kick::Send if self.receives.is_closed() => {
                self.driver.forget();
                return Err(Errno::NETDOWN.into());
            }
            Kick::Send => {
                self.driver.doorbell();
                if self.sends.armed().disarm() {
                    self.bell.ring();
                }
                if let Some(length) = self.large.take() {
                    self.sends.own_slot(self.driver.next_slot(), length);
                }
            }
            Kick::Receive => {
                let gone = self.receives.is_closed() || self.bell.is_cut();
                if gone && !self.has_arrived() {
                    return Err(Errno::NETDOWN.into());
                }
            }
        }
        Ok(Kicked::Done)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        let arrived = self.receives.armed().fall_asleep(|| self.bell.empty(), || self.has_arrived());
        self.bell.descriptor(arrived)
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.sends.close();
    }
}

#[cfg(test)]
mod tests;
