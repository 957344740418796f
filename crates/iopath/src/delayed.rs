//! A server's side that takes longer by a known time: what an experiment is tried with.

use std::io;

use hairpin_sys::clock::{Clock, Ticks};

use crate::endpoint::{Endpoint, Marks, Reply};

/// An endpoint whose replies leave later.
pub(crate) struct Delayed<'a, E, C> {
    inner: E,
    clock: &'a C,
    delay: u64,
}

impl<'a, E, C: Clock> Delayed<'a, E, C> {
    /// Later by so many ns, as this clock has them.
    pub(crate) fn new(inner: E, clock: &'a C, delay_ns: u64) -> Delayed<'a, E, C> {
        Delayed { inner, clock, delay: clock.to_ticks(delay_ns) }
    }
}

impl<E: Endpoint, C: Clock> Endpoint for Delayed<'_, E, C> {
    const LOSSY: bool = E::LOSSY;

    #[inline(always)]
    fn send<M: Marks>(&mut self, flow: u32, len: usize, fill: impl FnOnce(&mut [u8]), marks: &mut M) -> io::Result<bool> {
        self.inner.send(flow, len, fill, marks)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        self.inner.recv(until)
    }

    #[inline(always)]
    fn replying(&mut self, flow: u32) -> io::Result<()> {
        let until = self.clock.now().plus(self.delay);
        while self.clock.now() < until {
            std::hint::spin_loop();
        }
        self.inner.replying(flow)
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        self.inner.reply(flow, len)
    }
}
