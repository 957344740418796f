//! `block`: a port that asks for the other side's interrupt, and the wait for it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use hairpin_packet::granted::Granted;
use hairpin_packet::io::{Arrival, Counters, Kick, Kicked, PacketIo};
use hairpin_packet::niq::Port;
use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::umem::{Frame, Pool, Umem};
use hairpin_sys::wait::{Wait, or_nothing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Device;
use crate::path::PathError;

/// A port whose receiver sleeps: finding nothing, it asks to be woken, and looks once more.
pub(super) struct Interrupting(pub(super) Port);

impl Device for Interrupting {
    fn port(&self) -> &Port {
        &self.0
    }
}

impl PacketIo for Interrupting {
    fn granted(&self) -> &Granted {
        self.0.granted()
    }

    fn pool(&mut self) -> &mut Pool {
        self.0.pool()
    }

    fn umem(&self) -> &Arc<Umem> {
        self.0.umem()
    }

    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let came = self.0.rx_batch(into, most);
        if came > 0 {
            return came;
        }
        self.0.waitable();
        // What is there and not due yet wakes nobody a second time.
        while self.0.has_arrived() && self.0.pool().available() > 0 {
            let came = self.0.rx_batch(into, most);
            if came > 0 {
                return came;
            }
        }
        0
    }

    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.0.tx_batch(frames)
    }

    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        self.0.kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.0.waitable()
    }

    fn counters(&mut self) -> Counters {
        self.0.counters()
    }
}

/// `block`: looks, and sleeps until the other side's interrupt.
pub(super) struct Sleep<C> {
    clock: C,
    bell: OwnedFd,
}

impl<C: Clock> Sleep<C> {
    pub(super) fn on(clock: &C, port: &Port) -> Result<Sleep<C>, PathError> {
        let bell = port.waitable().try_clone_to_owned().map_err(PathError::at("cannot duplicate a descriptor to wait on"))?;
        Ok(Sleep { clock: clock.clone(), bell })
    }
}

impl<C: Clock> Wait for Sleep<C> {
    fn wait<T>(&mut self, until: Ticks, mut attempt: impl FnMut(usize) -> io::Result<Option<T>>) -> io::Result<Option<T>> {
        loop {
            if let Some(found) = attempt(0)? {
                return Ok(Some(found));
            }
            let now = self.clock.now();
            // The bell of a side that has ended rings for ever.
            if now >= until {
                return Ok(None);
            }
            let left = self.clock.to_ns(until.since(now));
            let left = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
            let mut bell = [PollFd::new(&self.bell, PollFlags::IN)];
            if or_nothing(poll(&mut bell, Some(&left)))?.is_none_or(|ready| ready == 0) {
                return Ok(None);
            }
        }
    }
}
