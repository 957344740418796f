//! A server's side that takes longer by a known time: what an experiment is tried with.
//!
//! Waiting until a clock says so takes longer than asked: the clock has to be read, and the end lies between two readings. Of 40 ns asked that is as much
//! again. So the wait is tried before it is used, and asks for as much less as it took too long.

use hairpin_sys::clock::{AnyClock, Clock};

/// A wait before each reply.
pub(crate) struct Delay {
    clock: AnyClock,
    ticks: u64,
}

impl Delay {
    /// Of `ns`, as this clock has them.
    pub(crate) fn new(clock: AnyClock, ns: u64) -> Delay {
        Delay { clock, ticks: tried(&clock, ns) }
    }

    /// Waits busily.
    pub(crate) fn take(&self) {
        wait(&self.clock, self.ticks);
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
