//! A thread that reads the clock and does nothing else: time that it misses, its core spent on somebody else.

use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_sys::clock::{Clock, Ticks};

/// Most stalls of a block. One that has no room for more ends early, so that none is missing.
const ROOM: usize = 32_768;

/// The readings of a block.
#[derive(Debug)]
pub(super) struct Spun {
    pub(super) began: Ticks,
    pub(super) ended: Ticks,
    /// Readings of the clock.
    pub(super) turns: u64,
    /// The last reading before each stall, and the first after it.
    pub(super) stalls: Vec<(Ticks, Ticks)>,
}

impl Spun {
    /// Allocates all that a block takes. The pages are written to, so that none is missing at a stall.
    pub(super) fn new() -> Spun {
        let mut stalls = vec![(Ticks::NEVER, Ticks::NEVER); ROOM];
        stalls.clear();
        Spun { began: Ticks(0), ended: Ticks(0), turns: 0, stalls }
    }

    /// Reads the clock for `length` ticks, or until `stop`, and notes each two readings that are `threshold` ticks apart or more.
    #[inline(never)]
    pub(super) fn spin<C: Clock>(&mut self, clock: &C, length: u64, threshold: u64, stop: &AtomicBool) {
        self.stalls.clear();
        self.turns = 0;
        self.began = clock.now();
        let (until, mut before) = (self.began.plus(length), self.began);
        while before < until && self.stalls.len() < self.stalls.capacity() && !stop.load(Ordering::Relaxed) {
            let now = clock.now();
            if now.since(before) >= threshold {
                self.stalls.push((before, now));
            }
            before = now;
            self.turns += 1;
        }
        self.ended = before;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// A clock that moves 20 ns at each reading, and once stands for 42,000.
    #[derive(Clone)]
    struct Stalls(Arc<AtomicU64>);

    impl Clock for Stalls {
        fn start(&self) -> Ticks {
            self.now()
        }

        fn stop(&self) -> Ticks {
            self.now()
        }

        fn now(&self) -> Ticks {
            let at = self.0.fetch_add(20, Ordering::Relaxed) + 20;
            Ticks(if at >= 50_000 { at + 42_000 } else { at })
        }

        fn rate(&self) -> f64 {
            1.0
        }

        fn source(&self) -> &'static str {
            "fake"
        }
    }

    #[test]
    fn a_stall_lies_between_two_readings() {
        let mut spun = Spun::new();
        spun.spin(&Stalls(Arc::default()), 100_000, 1_000, &AtomicBool::new(false));
        assert_eq!(spun.stalls, [(Ticks(49_980), Ticks(92_000))]);
        assert_eq!((spun.began, spun.ended), (Ticks(20), Ticks(100_020)));
        assert_eq!(spun.turns, (100_000 - 42_000) / 20);
    }

    #[test]
    fn a_block_ends_at_a_stop_and_when_it_is_full() {
        let mut spun = Spun::new();
        spun.spin(&Stalls(Arc::default()), 100_000, 1_000, &AtomicBool::new(true));
        assert_eq!((spun.turns, spun.ended), (0, spun.began));
        // Each reading is a stall.
        spun.spin(&Stalls(Arc::default()), u64::MAX, 20, &AtomicBool::new(false));
        assert_eq!((spun.stalls.len(), spun.turns), (ROOM, ROOM as u64));
    }
}
