//! Sending: copied in by `inject`, or written in place between `reserve` and `commit`.

use std::io::{self, IoSlice};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::umem::Frame;
use hairpin_units::Nanos;

use super::{Ring, SHORTEST};
use crate::io::PacketIo;

/// A handle that sends out of a ring. There may be any number of them, all on the ring's thread.
///
/// [`inject`](Sender::inject) copies a frame in; [`reserve`](Sender::reserve) returns memory to write a frame in place;
/// [`inject_at`](Sender::inject_at) keeps a pace. [`Coalesce`](super::Coalesce) decides when a committed frame leaves.
///
/// ```
/// use std::time::Duration;
///
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
/// use hairpin_packet::ring::Injected;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, _far) = memory::pair(&Config::default())?;
/// let near = Ring::new(near, MonotonicRaw, RingConfig::default());
/// let mut sender = near.sender();
///
/// // A copy of a whole frame.
/// assert_eq!(sender.inject(&[1; 64])?, Injected::Sent);
///
/// // Written in place: every byte, because the memory still holds an old frame.
/// if let Some(mut slot) = sender.reserve(64)? {
///     slot.fill(2);
///     slot.commit()?;
/// }
///
/// // Three frames, 20 us apart.
/// for _ in 0..3 {
///     if let Some(late) = sender.inject_at(&[3; 64], Duration::from_micros(20))? {
///         println!("started {} ns late", late.0);
///     }
/// }
///
/// assert!(sender.inject(&vec![0; sender.longest() + 1]).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sender<'r, P, C> {
    ring: &'r Ring<P, C>,
    /// Start of the last paced frame.
    started: Option<Ticks>,
}

/// Whether the ring took an injected frame. A frame that is too long and a kick that failed are a [`SendError`] instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a full ring has not taken the frame"]
pub enum Injected {
    /// The frame is on its way, or in a batch that [`Coalesce`](super::Coalesce) will kick.
    Sent,
    /// The ring is full and the frame was not taken: receive or flush, then inject it again.
    Full,
}

/// Why a frame cannot be sent. A full ring is not an error, but [`Injected::Full`] or a `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The frame is longer than the interface allows.
    #[error("a frame of {len} bytes is too long: this ring sends up to {limit} bytes, Ethernet header included, FCS not")]
    TooLong {
        /// Bytes of the frame.
        len: usize,
        /// The longest frame of this ring.
        limit: usize,
    },
    /// The kernel's error of a kick. The frame stays in the ring and leaves with the next kick that succeeds.
    #[error("cannot send: {0}")]
    Kick(#[from] io::Error),
}

/// A frame to write in place. It derefs to the frame's bytes. [`commit`](Slot::commit) sends it; dropping it returns
/// the chunk unsent.
#[derive(Debug)]
pub struct Slot<'r, P: PacketIo, C: Clock> {
    ring: &'r Ring<P, C>,
    /// `None` only while it is dropped.
    frame: Option<Frame>,
}

impl<'r, P: PacketIo, C: Clock> Sender<'r, P, C> {
    pub(super) fn new(ring: &'r Ring<P, C>) -> Sender<'r, P, C> {
        Sender { ring, started: None }
    }

    /// The longest frame that can be sent, in bytes: Ethernet header included, FCS not.
    pub fn longest(&self) -> usize {
        self.ring.longest
    }

    /// Memory for a frame of `len` bytes, to write in place and commit. `None` if the ring is full or the hold limit is
    /// reached. The memory still holds old bytes: write all of it.
    ///
    /// # Errors
    /// `len` exceeds [`longest`](Sender::longest), or a kick of frames that were due failed.
    #[inline]
    pub fn reserve(&self, len: usize) -> Result<Option<Slot<'r, P, C>>, SendError> {
        self.fits(len)?;
        let ring = self.ring;
        let core = &mut *ring.core.borrow_mut();
        core.flush_due(&ring.clock)?;
        if ring.held.get() >= ring.hold {
            core.hold_limit = core.hold_limit.wrapping_add(1);
            return Ok(None);
        }
        let Some(mut frame) = core.room(&ring.clock)? else { return Ok(None) };
        frame.set_len(len);
        ring.held.set(ring.held.get() + 1);
        Ok(Some(Slot { ring, frame: Some(frame) }))
    }

    /// Sends a copy of `frame`: an Ethernet frame without FCS. Frames below 60 bytes are padded with zeros.
    ///
    /// # Errors
    /// The frame is too long, or a kick failed.
    #[inline]
    pub fn inject(&self, frame: &[u8]) -> Result<Injected, SendError> {
        self.put(frame.len(), |into| into.copy_from_slice(frame))
    }

    /// Sends a copy of `parts`, concatenated, as one frame.
    ///
    /// # Errors
    /// The frame is too long, or a kick failed.
    #[inline]
    pub fn inject_vectored(&self, parts: &[IoSlice<'_>]) -> Result<Injected, SendError> {
        self.put(parts.iter().map(|part| part.len()).sum(), |mut into| {
            for part in parts {
                let (head, tail) = into.split_at_mut(part.len());
                head.copy_from_slice(part);
                into = tail;
            }
        })
    }

    /// Sends a copy of `frame` at least `delay` after the start of this handle's previous frame, and returns how late
    /// it started; `None` if the ring is full. The first frame starts at once. It busy-waits on the clock, and kicks
    /// each frame alone. Lateness is not made up: to hold a rate, shorten the next delay by it.
    ///
    /// # Errors
    /// The frame is too long, or a kick failed.
    pub fn inject_at(&mut self, frame: &[u8], delay: Duration) -> Result<Option<Nanos>, SendError> {
        self.fits(frame.len())?;
        let clock = &self.ring.clock;
        let core = &mut *self.ring.core.borrow_mut();
        core.flush(clock)?;
        let Some(mut chunk) = core.room(clock)? else { return Ok(None) };
        self.write(&mut chunk, frame.len(), |into| into.copy_from_slice(frame));
        let delay = clock.to_ticks(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        let due = self.started.map(|started| started.plus(delay));
        let start = loop {
            let now = clock.now();
            if due.is_none_or(|due| now >= due) {
                break now;
            }
        };
        core.commit(chunk, clock)?;
        core.flush(clock)?;
        self.started = Some(start);
        Ok(Some(Nanos(clock.to_ns(due.map_or(0, |due| start.since(due))))))
    }

    /// Kicks every committed frame.
    ///
    /// # Errors
    /// The kernel's error: ENETDOWN if the interface went down, ENXIO or ENODEV if it was removed.
    pub fn flush(&self) -> io::Result<()> {
        self.ring.flush()
    }

    #[inline]
    fn put(&self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Injected, SendError> {
        self.fits(len)?;
        let clock = &self.ring.clock;
        let core = &mut *self.ring.core.borrow_mut();
        let Some(mut frame) = core.room(clock)? else { return Ok(Injected::Full) };
        self.write(&mut frame, len, fill);
        core.commit(frame, clock)?;
        Ok(Injected::Sent)
    }

    #[inline]
    fn write(&self, frame: &mut Frame, len: usize, fill: impl FnOnce(&mut [u8])) {
        frame.set_len(len.max(SHORTEST));
        let (written, padding) = self.ring.umem.bytes_mut(frame).split_at_mut(len);
        fill(written);
        padding.fill(0);
    }

    #[inline]
    fn fits(&self, len: usize) -> Result<(), SendError> {
        let limit = self.ring.longest;
        if len > limit { Err(SendError::TooLong { len, limit }) } else { Ok(()) }
    }
}

impl<P: PacketIo, C: Clock> Slot<'_, P, C> {
    /// Sends the frame. Frames below 60 bytes are padded with zeros.
    ///
    /// # Errors
    /// The kernel's error of a kick. The frame stays in the ring and leaves with the next kick that succeeds.
    #[inline]
    pub fn commit(mut self) -> io::Result<()> {
        let ring = self.ring;
        let core = &mut *ring.core.borrow_mut();
        let Some(mut frame) = self.frame.take() else { return Ok(()) };
        ring.held.set(ring.held.get() - 1);
        let len = frame.len();
        if len < SHORTEST {
            frame.set_len(SHORTEST);
            ring.umem.bytes_mut(&mut frame)[len..].fill(0);
        }
        core.commit(frame, &ring.clock)
    }
}

impl<P: PacketIo, C: Clock> Deref for Slot<'_, P, C> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.frame.as_ref().map_or(&[], |frame| self.ring.umem.bytes(frame))
    }
}

impl<P: PacketIo, C: Clock> DerefMut for Slot<'_, P, C> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.frame {
            Some(frame) => self.ring.umem.bytes_mut(frame),
            None => &mut [],
        }
    }
}

impl<P: PacketIo, C: Clock> Drop for Slot<'_, P, C> {
    #[inline]
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.ring.give(frame);
        }
    }
}
