//! A server's side that takes longer by a known time: what an experiment is tried with.
//!
//! Waiting until a clock says so takes longer than asked: the clock has to be read, and the end lies between two readings. Of 40 ns asked that is as much
//! again. So the wait is tried before it is used, and asks for as much less as it took too long.

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
        Delayed { inner, clock, delay: tried(clock, delay_ns) }
    }
}

/// Of a longer wait, what it takes too long does not matter.
const LONGEST_TRIED_NS: u64 = 10_000;
/// Waits that are timed together, so that the two readings around them do not count.
const TOGETHER: u64 = 64;
/// Of so many such batches the shortest counts: the others met something.
const BATCHES: u32 = 9;
/// Corrections.
const CORRECTIONS: u32 = 8;

fn wait<C: Clock>(clock: &C, ticks: u64) {
    let until = clock.now().plus(ticks);
    while clock.now() < until {
        std::hint::spin_loop();
    }
}

/// The ticks to ask for, so that waiting takes `delay_ns`; 0 where reading the clock takes as long by itself.
fn tried<C: Clock>(clock: &C, delay_ns: u64) -> u64 {
    let asked = clock.to_ticks(delay_ns);
    if delay_ns > LONGEST_TRIED_NS {
        return asked;
    }
    let takes = |ticks: u64| {
        let batch = || {
            let began = clock.now();
            (0..TOGETHER).for_each(|_| wait(clock, ticks));
            clock.now().since(began) / TOGETHER
        };
        (0..BATCHES).map(|_| batch()).min().unwrap_or(0)
    };
    let mut best = (u64::MAX, asked);
    let mut ticks = asked;
    for _ in 0..CORRECTIONS {
        let took = takes(ticks);
        best = best.min((took.abs_diff(asked), ticks));
        let next = (ticks + asked).saturating_sub(took);
        if next == ticks {
            break;
        }
        ticks = next;
    }
    best.1
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
        wait(self.clock, self.delay);
        self.inner.replying(flow)
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        self.inner.reply(flow, len)
    }
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::FakeClock;

    use super::*;

    #[test]
    fn a_wait_takes_what_was_asked_with_its_own_readings() {
        // Each reading takes 7 ns, and a wait has three of them at least.
        for (asked, within) in [(20, 7), (40, 7), (100, 7), (5_000, 7), (20_000, 21)] {
            let clock = FakeClock::stepping(7);
            let ticks = tried(&clock, asked);
            let began = clock.now();
            (0..100).for_each(|_| wait(&clock, ticks));
            let took = clock.now().since(began) / 100;
            assert!(took.abs_diff(asked) <= within, "{took} of {asked}");
        }
        // Less than its own readings take cannot be had.
        assert_eq!(tried(&FakeClock::stepping(50), 20), 0);
    }
}
