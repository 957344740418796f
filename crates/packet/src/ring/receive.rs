//! Receiving: a frame is lent to the application until its lease is dropped, sent back or copied out.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::wait::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Core, Ring, SHORTEST, Wait};
use crate::io::{Arrival, Arrived, Kick, PacketIo, Vlan};

/// Polls of an empty ring between two readings of the clock or, unless the kernel polls, two kicks: some 100 ns apart.
const LOOKS: u32 = 64;
/// Longest sleep of a receive while frames wait for a busy device.
const RETRY: Duration = Duration::from_millis(1);

/// The outcome of a receive. Only [`Received::Got`] has frames; the other outcomes are not errors, and a later receive may
/// get frames. [`Ring::recv`] has an example.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Received<T> {
    /// A frame, or the number of frames.
    Got(T),
    /// No frame is there, and the timeout was 0.
    WouldBlock,
    /// No frame arrived within the timeout.
    Expired,
    /// The hold limit is reached: drop, send back or copy out some leases. Frames stay in the ring.
    HoldLimit,
    /// A signal ended the sleep.
    Interrupted,
}

/// A received frame, in its ring's memory. It derefs to the frame's bytes, Ethernet header first, without FCS. Dropping
/// it returns the chunk to the ring.
///
/// The bytes can be changed in place, and [`send_back`](Lease::send_back) sends them without a copy. A held lease keeps its
/// chunk from the device, so [`RingConfig::hold`](super::RingConfig::hold) limits their number; to keep a frame for longer,
/// use [`copy_out`](Lease::copy_out).
#[derive(Debug)]
pub struct Lease<'r, P: PacketIo, C: Clock> {
    ring: &'r Ring<P, C>,
    /// `None` only while it is dropped.
    arrival: Option<Arrival>,
}

impl<P: PacketIo, C: Clock> Ring<P, C> {
    /// Receives one frame. `timeout` is in milliseconds: below 0 waits forever, 0 does not wait. A wait first kicks
    /// every committed frame, then follows the ring's wait policy.
    ///
    /// An empty ring, a timeout, a signal and a reached hold limit are values of [`Received`], not errors. The lease borrows the
    /// ring, so further frames can be received while it is held; dropping it returns its memory to the device.
    ///
    /// ```
    /// use hairpin_packet::memory;
    /// use hairpin_packet::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (near, far) = memory::pair(&Config::default())?;
    /// let [near, far] = [near, far].map(|io| Ring::new(io, MonotonicRaw, RingConfig::default()));
    /// assert!(matches!(far.recv(0)?, Received::WouldBlock));
    /// let _ = near.sender().inject(&[7; 100])?;
    /// match far.recv(1000)? {
    ///     Received::Got(frame) => assert_eq!((frame.len(), frame[0]), (100, 7)),
    ///     Received::WouldBlock | Received::Expired | Received::Interrupted => {} // try again, or give up
    ///     Received::HoldLimit => {}                                              // drop some leases first
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The kernel's error of a kick or of poll(2).
    #[inline]
    pub fn recv(&self, timeout: i32) -> io::Result<Received<Lease<'_, P, C>>> {
        let core = &mut *self.core.borrow_mut();
        Ok(match self.arrive(core, 1, timeout)? {
            Received::Got(_) => match core.inbox.pop() {
                Some(arrival) => Received::Got(self.lease(arrival)),
                None => Received::WouldBlock,
            },
            Received::WouldBlock => Received::WouldBlock,
            Received::Expired => Received::Expired,
            Received::HoldLimit => Received::HoldLimit,
            Received::Interrupted => Received::Interrupted,
        })
    }

    /// Receives all frames that have arrived, appends them to `into` and returns their number: at least one, at most the smallest
    /// of `most`, 64 and the number that the hold limit leaves. The batch grows with the rate of arrival, and no frame waits for
    /// others. `timeout` as in [`recv`](Ring::recv). Reserve capacity in `into` beforehand to avoid an allocation.
    ///
    /// ```
    /// use hairpin_packet::memory;
    /// use hairpin_packet::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (near, far) = memory::pair(&Config::default())?;
    /// let [near, far] = [near, far].map(|io| Ring::new(io, MonotonicRaw, RingConfig::default()));
    /// for n in 0..3 {
    ///     let _ = near.sender().inject(&[n; 60])?;
    /// }
    /// let mut frames = Vec::with_capacity(64);
    /// assert_eq!(far.recv_batch(&mut frames, 64, 1000)?, Received::Got(3));
    /// assert!(frames.iter().map(|frame| frame[0]).eq(0..3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The kernel's error of a kick or of poll(2).
    #[inline]
    pub fn recv_batch<'r>(&'r self, into: &mut Vec<Lease<'r, P, C>>, most: usize, timeout: i32) -> io::Result<Received<usize>> {
        let core = &mut *self.core.borrow_mut();
        let received = self.arrive(core, most, timeout)?;
        into.extend(core.inbox.drain(..).map(|arrival| self.lease(arrival)));
        Ok(received)
    }

    /// Takes up to `most` frames into the inbox.
    #[inline]
    fn arrive(&self, core: &mut Core<P>, most: usize, timeout: i32) -> io::Result<Received<usize>> {
        core.flush_due(&self.clock)?;
        let most = most.min(self.hold.saturating_sub(self.held.get()) as usize).min(core.inbox.capacity());
        if most == 0 {
            core.hold_limit = core.hold_limit.wrapping_add(1);
            return Ok(Received::HoldLimit);
        }
        let received = core.io.rx_batch(&mut core.inbox, most);
        if received > 0 {
            return Ok(Received::Got(received));
        }
        if timeout != 0 {
            return self.wait(core, most, timeout);
        }
        if self.nothing(core)? {
            let received = core.io.rx_batch(&mut core.inbox, most);
            if received > 0 {
                return Ok(Received::Got(received));
            }
        }
        Ok(Received::WouldBlock)
    }

    /// After an empty ring: lets the kernel poll the device, or wakes it if it asked for that. True if it was kicked.
    #[inline]
    fn nothing(&self, core: &mut Core<P>) -> io::Result<bool> {
        core.empty_looks = core.empty_looks.wrapping_add(1);
        let kick = self.wait == Wait::BusyPoll || core.empty_looks.is_multiple_of(LOOKS);
        if kick {
            core.io.kick(Kick::Receive)?;
        }
        Ok(kick)
    }

    fn wait(&self, core: &mut Core<P>, most: usize, timeout: i32) -> io::Result<Received<usize>> {
        core.flush(&self.clock)?;
        let after = |duration: Duration| {
            self.clock.now().plus(self.clock.to_ticks(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
        };
        let until = u64::try_from(timeout).map_or(Ticks::NEVER, |ms| after(Duration::from_millis(ms)));
        let awake_until = match self.wait {
            Wait::Spin | Wait::BusyPoll => Ticks::NEVER,
            Wait::Block => Ticks::default(),
            Wait::Adaptive { spin } => after(spin),
        };
        let mut looks = 0u32;
        loop {
            let received = core.io.rx_batch(&mut core.inbox, most);
            if received > 0 {
                return Ok(Received::Got(received));
            }
            self.nothing(core)?;
            looks = looks.wrapping_add(1);
            if !looks.is_multiple_of(LOOKS) && self.wait != Wait::Block {
                continue;
            }
            // Frames that a busy device left behind go first.
            if core.busy {
                core.flush(&self.clock)?;
            }
            let now = self.clock.now();
            if now >= until {
                return Ok(Received::Expired);
            }
            if now >= awake_until {
                let left = (until != Ticks::NEVER).then(|| Duration::from_nanos(self.clock.to_ns(until.since(now)).max(1)));
                let longest = if core.busy { RETRY } else { PATIENCE };
                match sleep(&core.io, left.map_or(longest, |left| left.min(longest)))? {
                    None => return Ok(Received::Interrupted),
                    // The kick returns the error. The descriptor of an AF_XDP socket whose interface was removed
                    // reports no event at all, so a sleep without an event kicks too.
                    Some(said) if said.is_empty() || said.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) => {
                        core.io.kick(Kick::Receive)?;
                    }
                    Some(_) => {}
                }
            }
        }
    }

    #[inline]
    fn lease(&self, arrival: Arrival) -> Lease<'_, P, C> {
        self.held.set(self.held.get() + 1);
        Lease { ring: self, arrival: Some(arrival) }
    }
}

/// Sleeps until the descriptor has an event or the limit has passed, and returns the events. `None` if a signal came.
fn sleep<P: PacketIo>(io: &P, limit: Duration) -> io::Result<Option<PollFlags>> {
    let descriptor = io.waitable();
    let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    match poll(&mut fds, Some(&limit)) {
        Ok(_) => Ok(Some(fds[0].revents())),
        Err(Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

impl<'r, P: PacketIo, C: Clock> Lease<'r, P, C> {
    /// The receive timestamp, if the device or the kernel took one, in nanoseconds of its clock.
    #[inline]
    pub fn time(&self) -> Option<Arrived> {
        self.arrival.as_ref().and_then(|arrival| arrival.time)
    }

    /// The device's hash over the frame's flow, if it provides one.
    #[inline]
    pub fn hash(&self) -> Option<u32> {
        self.arrival.as_ref().and_then(|arrival| arrival.hash)
    }

    /// The VLAN tag that the device took out of the frame, if it tells it.
    #[inline]
    pub fn vlan(&self) -> Option<Vlan> {
        self.arrival.as_ref().and_then(|arrival| arrival.vlan)
    }

    /// The queue on which it arrived.
    #[inline]
    pub fn queue(&self) -> u32 {
        self.ring.queue
    }

    /// Copies the frame into `into`, replacing its content, and returns the chunk.
    #[inline]
    pub fn copy_out(self, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self);
    }

    /// Sends the frame out of the ring on which it arrived, in place. Returns `None`, or the lease if the ring is full.
    /// Frames below 60 bytes are padded with zeros.
    ///
    /// # Errors
    /// The kernel's error of a kick. The frame stays in the ring and leaves with the next kick that succeeds.
    #[inline]
    pub fn send_back(mut self) -> io::Result<Option<Self>> {
        let ring = self.ring;
        let core = &mut *ring.core.borrow_mut();
        if !core.has_room(&ring.clock)? {
            return Ok(Some(self));
        }
        let Some(Arrival { mut frame, .. }) = self.arrival.take() else { return Ok(None) };
        ring.held.set(ring.held.get() - 1);
        let len = frame.len();
        if len < SHORTEST {
            // A short frame at the very end of a chunk cannot be extended: the device pads it.
            frame.set_len(SHORTEST);
            ring.umem.bytes_mut(&mut frame)[len..].fill(0);
        }
        core.commit(frame, &ring.clock)?;
        Ok(None)
    }
}

impl<P: PacketIo, C: Clock> Deref for Lease<'_, P, C> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.arrival.as_ref().map_or(&[], |arrival| self.ring.umem.bytes(&arrival.frame))
    }
}

impl<P: PacketIo, C: Clock> DerefMut for Lease<'_, P, C> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.arrival {
            Some(arrival) => self.ring.umem.bytes_mut(&mut arrival.frame),
            None => &mut [],
        }
    }
}

impl<P: PacketIo, C: Clock> Drop for Lease<'_, P, C> {
    #[inline]
    fn drop(&mut self) {
        if let Some(arrival) = self.arrival.take() {
            self.ring.give(arrival.frame);
        }
    }
}
