//! Sending: copied in by `inject`, or written in place between `reserve` and `commit`.

use std::io::{self, IoSlice};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::umem::Frame;
use hairpin_units::Nanos;

use super::{Ring, SHORTEST};
use crate::io::PacketIo;

/// Sends out of a ring. Any number of them may be there, all on the ring's thread.
#[derive(Debug)]
pub struct Sender<'r, P, C> {
    ring: &'r Ring<P, C>,
    /// Start of the last paced frame.
    started: Option<Ticks>,
}

/// What became of an injected frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a full ring has not taken the frame"]
pub enum Injected {
    /// It is on its way, or in a batch that leaves in time.
    Sent,
    /// The ring takes no more now: receive or flush, and inject it again.
    Full,
}

/// Why a frame cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Longer than the interface takes.
    #[error("a frame of {len} bytes is too long: this ring sends up to {limit} bytes, Ethernet header included, FCS not")]
    TooLong {
        /// Bytes of the frame.
        len: usize,
        /// The most there can be.
        limit: usize,
    },
    /// What the kernel said to a kick; the frame stays in the ring and leaves when a later kick succeeds.
    #[error("cannot send: {0}")]
    Kick(#[from] io::Error),
}

/// A frame to be written in place. Dropping it gives the chunk back.
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

    /// The longest frame in bytes, Ethernet header included, FCS not.
    pub fn longest(&self) -> usize {
        self.ring.longest
    }

    /// A frame of `len` bytes to be written in place and committed; `None` if the ring takes no more now, or too many are held. What the
    /// chunk held before is still in it: write every byte.
    ///
    /// # Errors
    /// If it is too long, and what the kernel said to a kick of what was due.
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

    /// Sends a copy of `frame`. Below 60 bytes it is padded with zeros.
    ///
    /// # Errors
    /// If it is too long, and what the kernel said to a kick.
    #[inline]
    pub fn inject(&self, frame: &[u8]) -> Result<Injected, SendError> {
        self.put(frame.len(), |into| into.copy_from_slice(frame))
    }

    /// Sends a copy of the parts, one behind the other, as one frame.
    ///
    /// # Errors
    /// If it is too long, and what the kernel said to a kick.
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

    /// Sends a copy of `frame` no earlier than `delay` after the start of the one before (a sender's first at once), and returns how late
    /// it started; `None` if the ring takes no more now. Busy-waits on the clock; each frame is kicked alone. Late frames are not made up
    /// for: to hold a rate, shorten the next delay by what was late.
    ///
    /// # Errors
    /// If it is too long, and what the kernel said to a kick.
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

    /// Kicks everything that was committed.
    ///
    /// # Errors
    /// What the kernel said: ENETDOWN where the interface went down, ENXIO or ENODEV where it is gone.
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
    /// Sends the frame. Below 60 bytes it is padded with zeros.
    ///
    /// # Errors
    /// What the kernel said to a kick; the frame stays in the ring and leaves when a later kick succeeds.
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
