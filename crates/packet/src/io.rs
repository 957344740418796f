//! What every back end is: one RX/TX queue pair, driven by one thread.
//!
//! ```text
//!        tx_batch          kick                                  rx_batch
//!   app ─────────▶ TX ring ─────▶ kernel, device ─▶ … ─▶ RX ring ─────────▶ app
//!    ▲                                                                       │
//!    └──────────── pool: free chunks ◀── give ───────────────────────────────┘
//! ```

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hairpin_sys::umem::{Frame, Pool, Umem};

use crate::granted::Granted;

/// One RX/TX queue pair. `Send`, so that it can be opened on one thread and driven on another; never shared.
///
/// A frame is in exactly one place: with the application (a [`Frame`]), in the pool, or in a ring. Nothing here blocks; only
/// [`kick`](PacketIo::kick) may enter the kernel, and only it fails. A full ring is a count, not an error.
pub trait PacketIo: Send {
    /// What this queue pair was granted when it was opened.
    fn granted(&self) -> &Granted;

    /// The free chunks, to take frames from and give them back to.
    fn pool(&mut self) -> &mut Pool;

    /// The memory that the frames lie in.
    fn umem(&self) -> &Arc<Umem>;

    /// Appends up to `most` frames that have arrived to `into` and returns how many; what the ring needs to go on receiving is handed to
    /// it from the pool. Never enters the kernel.
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize;

    /// Moves frames from the front of `frames` into the TX ring, as many as fit, and returns how many; the rest stay. What was sent before
    /// goes back to the pool. Never enters the kernel: nothing leaves before a [`kick`](PacketIo::kick).
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize;

    /// Tells the kernel or the other side that there is work, if it has to be told. [`Kicked::Busy`]: something stayed in the TX ring, is
    /// counted as `tx_busy`, and leaves with a later kick.
    ///
    /// # Errors
    /// What the kernel said: ENETDOWN where the interface went down, ENXIO or ENODEV where it is gone.
    fn kick(&mut self, what: Kick) -> io::Result<Kicked>;

    /// Readable when a frame has arrived; in error when [`Kick::Receive`] returns one. Ask for it anew before each wait: some back ends signal only while somebody waits.
    fn waitable(&self) -> BorrowedFd<'_>;

    /// The socket that frames leave by, where that is not the one to [wait](PacketIo::waitable) on: tracers know a frame by it.
    fn sends_on(&self) -> BorrowedFd<'_> {
        self.waitable()
    }

    /// Everything counted since the queue pair was opened.
    fn counters(&mut self) -> Counters;
}

/// A back end that is chosen at run time is a `Box<dyn PacketIo>`.
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

    fn counters(&mut self) -> Counters {
        (**self).counters()
    }
}

/// What a kick is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// Send what is in the TX ring.
    Send,
    /// Let the kernel poll the device for received frames (busy polling, or a driver that asked to be woken).
    Receive,
}

/// What became of a kick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kicked {
    /// Everything that was in the TX ring is on its way; always the answer to [`Kick::Receive`].
    Done,
    /// The device was busy: something is still in the TX ring. Kick again.
    Busy,
}

/// A frame that has arrived, and what is known of it. Its queue is the queue pair's own: [`Granted::queue`].
#[derive(Debug)]
pub struct Arrival {
    /// The frame.
    pub frame: Frame,
    /// When it arrived, if somebody took a stamp.
    pub time: Option<Arrived>,
    /// The device's hash over its flow, if it has one.
    pub hash: Option<u32>,
}

/// When a frame arrived, in nanoseconds of the clock that took the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// The device's own clock.
    Hardware(u64),
    /// CLOCK_REALTIME, taken by the kernel on the way up.
    Software(u64),
}

/// Frames and bytes since the queue pair was opened; every way to lose a frame has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames handed to the ring for sending.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Lost on arrival: the RX ring was full.
    pub rx_ring_full: u64,
    /// Lost on arrival: no free chunk was there to receive into.
    pub rx_no_chunk: u64,
    /// Lost on arrival for any other reason that the kernel counts.
    pub rx_dropped: u64,
    /// Lost on arrival: longer than a chunk.
    pub rx_too_long: u64,
    /// What a ring handed back was no frame that had been lent to it.
    pub rx_invalid: u64,
    /// Refused by the kernel or the device when sent: an invalid descriptor.
    pub tx_invalid: u64,
    /// Lost on the way out: the device or its queue took no more.
    pub tx_dropped: u64,
    /// Kicks after which something stayed in the TX ring because the device was busy: not lost.
    pub tx_busy: u64,
}

impl Counters {
    /// Frames lost, of whatever cause.
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
