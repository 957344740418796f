//! The trait of every back end: one RX/TX queue pair, driven by one thread.
//!
//! ```text
//!        tx_batch          kick                                  rx_batch
//!   app ─────────▶ TX ring ─────▶ kernel, device ─▶ … ─▶ RX ring ─────────▶ app
//!    ▲                                                                       │
//!    └──────────── pool: free chunks ◀── give ───────────────────────────────┘
//! ```

use std::io;
use std::num::NonZeroU16;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hairpin_sys::umem::{Frame, Pool, Umem};

use crate::granted::Granted;

/// One RX/TX queue pair. `Send`, so that it can be opened on one thread and driven on another; never shared.
///
/// A frame is in exactly one place: with the application (a [`Frame`]), in the pool, or in a ring. Nothing here blocks; only
/// [`kick`](PacketIo::kick) may enter the kernel, and only it fails. A full ring is a count, not an error.
///
/// Most programs use it through a [`Ring`](crate::ring::Ring), which adds waiting, coalescing and leases. A device around a
/// device, such as a [`Tracer`](crate::tracer::Tracer), implements it by the calls of the device below. Without a ring:
///
/// ```
/// use hairpin_packet::io::{Kick, Kicked};
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut near, mut far) = memory::pair(&Config::default())?;
///
/// let mut frame = near.pool().take().ok_or("no free chunk")?;
/// frame.set_len(60);
/// near.umem().bytes_mut(&mut frame).fill(7);
/// let mut frames = vec![frame];
/// assert_eq!(near.tx_batch(&mut frames), 1); // into the TX ring
/// assert_eq!(near.kick(Kick::Send)?, Kicked::Done);
///
/// let mut arrivals = Vec::with_capacity(64);
/// assert_eq!(far.rx_batch(&mut arrivals, 64), 1);
/// for arrival in arrivals.drain(..) {
///     assert_eq!(far.umem().bytes(&arrival.frame), [7; 60]);
///     far.pool().give(arrival.frame); // to the pool of its own queue pair
/// }
/// # Ok(())
/// # }
/// ```
pub trait PacketIo: Send {
    /// The features that this queue pair was granted when it was opened, and the reason for each refused one.
    fn granted(&self) -> &Granted;

    /// The pool of free chunks, from which frames are taken and to which they return.
    fn pool(&mut self) -> &mut Pool;

    /// The memory that holds the frames: [`Umem::bytes`] and [`Umem::bytes_mut`] reach a frame's bytes.
    fn umem(&self) -> &Arc<Umem>;

    /// Appends up to `most` received frames to `into` and returns their number, 0 if none has arrived. It also refills the
    /// ring from the pool. Never enters the kernel.
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize;

    /// Moves frames from the front of `frames` into the TX ring, as many as fit, and returns their number; the rest
    /// stay. Chunks of frames sent earlier return to the pool. Never enters the kernel: nothing leaves before a
    /// [`kick`](PacketIo::kick).
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize;

    /// Notifies the kernel or the other side of work, if it needs to be notified. [`Kicked::Busy`] means that frames
    /// stayed in the TX ring: they are counted as `tx_busy` and leave with a later kick.
    ///
    /// # Errors
    /// The kernel's error: ENETDOWN if the interface went down, ENXIO or ENODEV if it was removed. AF_XDP in copy mode: one without
    /// a number if the interface has no transmit queue of the ring's number.
    fn kick(&mut self, what: Kick) -> io::Result<Kicked>;

    /// A descriptor that is readable when a frame has arrived, and in error when [`Kick::Receive`] returns an error.
    /// Call this before each wait: some back ends signal only if someone waits.
    fn waitable(&self) -> BorrowedFd<'_>;

    /// The socket through which frames leave, if it is not the one to [wait](PacketIo::waitable) on: tracers identify a
    /// frame by it.
    fn sends_on(&self) -> BorrowedFd<'_> {
        self.waitable()
    }

    /// Switches the granted stamps and other metadata of frames on or off; they are on after the open. A frame that is on its way
    /// during the switch may come with or without them. For AF_XDP the metadata of received frames switches for all rings of the
    /// device. Does nothing if none were granted.
    ///
    /// # Errors
    /// The kernel's error.
    fn take_stamps(&mut self, _taken: bool) -> io::Result<()> {
        Ok(())
    }

    /// Asks for stamps of the frames passed to [`tx_batch`](PacketIo::tx_batch) from now on, or for none. All frames are stamped
    /// after the open, and after a
    /// [`take_stamps`](PacketIo::take_stamps) that switches stamps on. A call costs nothing, so that single frames can be chosen.
    fn ask_departures(&mut self, _asked: bool) {}

    /// Appends the stamps of sent frames that are ready to `into`, and returns their number. A frame may have none, or one of
    /// each kind. A device's stamp may come later than the answer to the frame. The stamps of at most as many frames as the ring
    /// has entries are kept for this call; further ones are lost and counted ([`Counters::tx_unstamped`]). It may enter the
    /// kernel.
    ///
    /// # Errors
    /// The kernel's error.
    fn departures(&mut self, _into: &mut Vec<Departure>) -> io::Result<usize> {
        Ok(0)
    }

    /// The counters since the queue pair was opened.
    fn counters(&mut self) -> Counters;
}

/// A back end chosen at run time: `Box<dyn PacketIo>`.
impl<P: PacketIo + ?Sized> PacketIo for Box<P> {
    fn granted(&self) -> &Granted {
        (**self).granted()
    }

    #[inline]
    fn pool(&mut self) -> &mut Pool {
        (**self).pool()
    }

    #[inline]
    fn umem(&self) -> &Arc<Umem> {
        (**self).umem()
    }

    #[inline]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        (**self).rx_batch(into, most)
    }

    #[inline]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        (**self).tx_batch(frames)
    }

    #[inline]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        (**self).kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        (**self).waitable()
    }

    fn sends_on(&self) -> BorrowedFd<'_> {
        (**self).sends_on()
    }

    fn take_stamps(&mut self, taken: bool) -> io::Result<()> {
        (**self).take_stamps(taken)
    }

    fn ask_departures(&mut self, asked: bool) {
        (**self).ask_departures(asked);
    }

    fn departures(&mut self, into: &mut Vec<Departure>) -> io::Result<usize> {
        (**self).departures(into)
    }

    fn counters(&mut self) -> Counters {
        (**self).counters()
    }
}

/// What a kick asks of the kernel, or of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kick {
    /// Send the frames in the TX ring.
    Send,
    /// Let the kernel poll the device for received frames (busy polling, or a driver that asked to be woken).
    Receive,
}

/// The outcome of a kick that did not fail. [`PacketIo::kick`] returns failures of the kernel as errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kicked {
    /// Every frame in the TX ring is on its way; always the answer to [`Kick::Receive`].
    Done,
    /// The device was busy and frames are still in the TX ring: kick again.
    Busy,
}

/// A received frame with its metadata, from [`PacketIo::rx_batch`]. Its queue is the queue pair's: [`Granted::queue`]. Send
/// the frame, or give it back to the queue pair's pool: a dropped frame takes its chunk out of use.
#[derive(Debug)]
pub struct Arrival {
    /// The frame.
    pub frame: Frame,
    /// The receive timestamp, if the device or the kernel took one.
    pub time: Option<Arrived>,
    /// The device's hash over its flow, if it provides one.
    pub hash: Option<u32>,
    /// The VLAN tag that the device took out of the frame, if it tells it.
    pub vlan: Option<Vlan>,
}

// A ring moves each frame in one of these.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Arrival>() == 48);

/// A VLAN tag beside its frame (IEEE 802.1Q): the device took it out of the bytes.
///
/// ```
/// use hairpin_packet::io::Vlan;
///
/// let tag = Vlan::new(0x8100, 0x6005).ok_or("a tag of type 0")?;
/// assert_eq!((tag.protocol(), tag.tci(), tag.id()), (0x8100, 0x6005, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    protocol: NonZeroU16,
    tci: u16,
}

impl Vlan {
    /// The tag of the type `protocol` (0x8100, 0x88a8) with priority and VLAN number in `tci`. `None` for type 0, which no tag
    /// has.
    pub fn new(protocol: u16, tci: u16) -> Option<Vlan> {
        NonZeroU16::new(protocol).map(|protocol| Vlan { protocol, tci })
    }

    /// The tag's type: 0x8100, or 0x88a8 for an outer one.
    pub fn protocol(self) -> u16 {
        self.protocol.get()
    }

    /// Priority, drop eligibility and VLAN number, as in the frame.
    pub fn tci(self) -> u16 {
        self.tci
    }

    /// The VLAN's number, 0 to 4095.
    pub fn id(self) -> u16 {
        self.tci & 0xfff
    }
}

/// A receive timestamp, in nanoseconds of the clock that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrived {
    /// The device's own clock.
    Hardware(u64),
    /// CLOCK_REALTIME, taken by the kernel on receipt.
    Software(u64),
}

/// The stamp of a sent frame, from [`PacketIo::departures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departure {
    /// The number of frames that this queue pair had taken to send ([`Counters::tx_frames`]) before this one. It wraps.
    pub frame: u32,
    /// The stamp and its clock.
    pub time: Departed,
}

impl Departure {
    /// The stamp of frame `frame`, for a back end of the caller's own.
    pub fn new(frame: u32, time: Departed) -> Departure {
        Departure { frame, time }
    }
}

/// A stamp of a sent frame, in nanoseconds of the clock that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Departed {
    /// The device's own clock, as the frame left.
    Hardware(u64),
    /// CLOCK_REALTIME, taken by the driver as it handed the frame to the device.
    Software(u64),
    /// CLOCK_TAI, taken by the kernel when it had done with the frame, which a virtual device has delivered by then: not the time
    /// at which it left.
    Completed(u64),
}

/// Counters of frames and bytes since the queue pair was opened, with one counter for each way to lose a frame. They may
/// wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Frames received.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames passed to the ring for sending.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Lost on arrival: the RX ring was full.
    pub rx_ring_full: u64,
    /// Lost on arrival: no free chunk to receive into.
    pub rx_no_chunk: u64,
    /// Lost on arrival for any other reason that the kernel counts.
    pub rx_dropped: u64,
    /// Lost on arrival: longer than a chunk.
    pub rx_too_long: u64,
    /// Descriptors returned by a ring that do not match a frame lent to it.
    pub rx_invalid: u64,
    /// Refused by the kernel or the device when sent: an invalid descriptor.
    pub tx_invalid: u64,
    /// Lost on the way out: the device or its queue was full.
    pub tx_dropped: u64,
    /// Kicks after which frames stayed in the TX ring because the device was busy. Those frames are not lost.
    pub tx_busy: u64,
    /// Requested stamps of sent frames that are lost: the device stamped nothing, where the kernel tells that, the stamps were
    /// not taken in time ([`PacketIo::departures`]), or they may be those of another frame. The frames are not lost.
    pub tx_unstamped: u64,
}

impl Counters {
    /// Frames lost in either direction, for any reason. `tx_busy` and `tx_unstamped` count no lost frames.
    pub fn lost(&self) -> u64 {
        self.rx_ring_full
            + self.rx_no_chunk
            + self.rx_dropped
            + self.rx_too_long
            + self.rx_invalid
            + self.tx_invalid
            + self.tx_dropped
    }
}
