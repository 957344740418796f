//! A ring that stamps each kick and each descriptor it receives, for a tracer, as long as the tracer asks for stamps.
//!
//! Only a traced run uses it; all other rings take no stamps and do not check for a tracer.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hairpin_packet::granted::Granted;
use hairpin_packet::io::{Arrival, Counters, Kick, Kicked, PacketIo};
use hairpin_sys::clock::{AnyClock, Clock};
use hairpin_sys::shared::{Packet, Stamps, Which};
use hairpin_sys::umem::{Frame, Pool, Umem};

/// Wraps `io`; stamps come from `clock`.
pub(crate) struct Stamped<'a, I> {
    io: I,
    clock: AnyClock,
    stamps: &'a Stamps,
}

impl<'a, I> Stamped<'a, I> {
    pub(crate) fn new(io: I, clock: AnyClock, stamps: &'a Stamps) -> Stamped<'a, I> {
        Stamped { io, clock, stamps }
    }

    /// The wrapped ring.
    pub(crate) fn io(&self) -> &I {
        &self.io
    }

    #[inline]
    fn stamp(&self, which: Which) {
        if self.stamps.wants_packets() {
            self.stamps.push_packet(Packet { which, at: self.clock.now().0, sequence: 0 });
        }
    }
}

impl<I: PacketIo> PacketIo for Stamped<'_, I> {
    fn granted(&self) -> &Granted {
        self.io.granted()
    }

    #[inline]
    fn pool(&mut self) -> &mut Pool {
        self.io.pool()
    }

    #[inline]
    fn umem(&self) -> &Arc<Umem> {
        self.io.umem()
    }

    #[inline]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let came = self.io.rx_batch(into, most);
        if came > 0 {
            self.stamp(Which::Seen);
        }
        came
    }

    #[inline]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.io.tx_batch(frames)
    }

    #[inline]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        if what == Kick::Send {
            self.stamp(Which::Kicked);
        }
        self.io.kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.io.waitable()
    }

    fn sends_on(&self) -> BorrowedFd<'_> {
        self.io.sends_on()
    }

    fn counters(&mut self) -> Counters {
        self.io.counters()
    }
}
