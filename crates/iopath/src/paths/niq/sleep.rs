//! `block`: a port that requests the other side's interrupt;
//! [`Waiting::for_interrupt`](hairpin_sys::wait::Waiting::for_interrupt) sleeps until it arrives.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hairpin_packet::granted::Granted;
use hairpin_packet::io::{Arrival, Counters, Kick, Kicked, PacketIo};
use hairpin_packet::niq::Port;
use hairpin_sys::umem::{Frame, Pool, Umem};

use super::Device;

/// A port whose receiver sleeps: if the ring is empty, it asks to be woken and looks once more.
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
        // A frame that has arrived but is not due yet gives no second wake-up.
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
