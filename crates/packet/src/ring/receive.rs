//! Receiving: a frame is lent to the application until the lease is dropped, sent back or copied out.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::wait::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Core, Ring, SHORTEST, Wait};
use crate::io::{Arrival, Arrived, Kick, PacketIo};

/// Looks at an empty ring between two looks at the clock or, where the kernel does not poll, two offers to wake it: some 100 ns apart.
const LOOKS: u32 = 64;
/// How long a receive sleeps while frames wait for the device to take them.
const RETRY: Duration = Duration::from_millis(1);

/// What came of a receive. Only [`Received::Got`] has frames; none of the others is an error.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Received<T> {
    /// A frame, or how many of them.
    Got(T),
    /// Nothing is there, and the call was not to wait.
    WouldBlock,
    /// Nothing came within the time limit.
    Expired,
    /// The application holds as many leases as it may: drop, send back or copy out some. Frames stay in the ring.
    HoldLimit,
    /// A signal came while the thread slept.
    Interrupted,
}

/// A received frame in its ring's memory. Dropping it gives the chunk back.
#[derive(Debug)]
pub struct Lease<'r, P: PacketIo, C: Clock> {
    ring: &'r Ring<P, C>,
    /// `None` only while it is dropped.
    arrival: Option<Arrival>,
}

impl<P: PacketIo, C: Clock> Ring<P, C> {
    /// Receives a frame. `timeout` below 0 waits for ever, 0 does not wait, above 0 waits so many milliseconds.
    ///
    /// # Errors
    /// What the kernel said to a kick or in poll(2).
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

    /// Receives what is there, at least one frame and at most `most` (and 64, and the hold limit), into `into`, after what is in it. The
    /// batch is whatever has gathered since the last call: as the rate grows it grows, and no frame waits for others. `timeout` as in
    /// [`recv`](Ring::recv). Reserve `into` beforehand so that nothing is allocated.
    ///
    /// # Errors
    /// What the kernel said to a kick or in poll(2).
    #[inline]
    pub fn recv_batch<'r>(&'r self, into: &mut Vec<Lease<'r, P, C>>, most: usize, timeout: i32) -> io::Result<Received<usize>> {
        let core = &mut *self.core.borrow_mut();
        let received = self.arrive(core, most, timeout)?;
        into.extend(core.inbox.drain(..).map(|arrival| self.lease(arrival)));
        Ok(received)
    }

    /// Up to `most` frames into the inbox.
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

    /// The ring was empty: lets the kernel poll the device, or wakes it if it asked for that. True if it was kicked.
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
            // Frames that the device did not take leave before those that it does not have yet.
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
                    // The kick says what it is; a descriptor that goes on saying so without a reason is looked at again and again. That of an
                    // AF_XDP socket whose interface is gone says nothing at all, so a sleep that ends without a word asks too.
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

/// Sleeps until something is to be said of the descriptor or the limit has passed, and returns what. `None` if a signal came.
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
    /// When the frame arrived, if somebody took a stamp.
    #[inline]
    pub fn time(&self) -> Option<Arrived> {
        self.arrival.as_ref().and_then(|arrival| arrival.time)
    }

    /// The device's hash over the frame's flow, if it has one.
    #[inline]
    pub fn hash(&self) -> Option<u32> {
        self.arrival.as_ref().and_then(|arrival| arrival.hash)
    }

    /// The queue that it came from.
    #[inline]
    pub fn queue(&self) -> u32 {
        self.ring.queue
    }

    /// Copies the frame over what is in `into` and gives the chunk back.
    #[inline]
    pub fn copy_out(self, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self);
    }

    /// Sends the frame out of the ring that it came from, in place, and returns `None`; or the lease, if the ring takes no more now.
    /// Frames below 60 bytes are padded with zeros.
    ///
    /// # Errors
    /// What the kernel said to a kick; the frame stays in the ring and leaves when a later kick succeeds.
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
            // A short frame at the very end of a chunk stays as it is: the device pads it.
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
