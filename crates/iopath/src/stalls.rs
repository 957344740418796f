//! Stalls of a core, seen as gaps between two looks at the clock by a spinning thread.

use hairpin_sys::clock::{Clock, Ticks};

/// A gap between two clock reads of a spinning thread that is longer than this, in ns, means that the core stood still.
pub(crate) const STALL_NS: u64 = 2_000;
/// Stalls per block whose position is kept; further ones are only counted and summed.
const PLACED: usize = 4_096;

/// Last look of a thread at the clock.
#[derive(Clone, Copy)]
pub(crate) struct Looks {
    least: u64,
    looked: Ticks,
}

impl Looks {
    pub(crate) fn new<C: Clock>(clock: &C) -> Looks {
        Looks { least: clock.to_ticks(STALL_NS), looked: clock.now() }
    }

    /// Skips the time before `now`: it is not checked for a stall.
    #[inline(always)]
    pub(crate) fn pass(&mut self, now: Ticks) {
        self.looked = now;
    }

    /// Checks the time since the last look. Returns when the core stopped, if it stood still.
    #[inline(always)]
    pub(crate) fn look(&mut self, now: Ticks) -> Option<Ticks> {
        let before = std::mem::replace(&mut self.looked, now);
        (now.since(before) > self.least).then_some(before)
    }
}

/// The stalls of a block and their positions.
pub(crate) struct Stalls {
    looks: Looks,
    placed: Vec<(Ticks, Ticks)>,
    count: u64,
    ticks: u64,
}

impl Stalls {
    /// Allocates the memory for positions if `watches` is set.
    pub(crate) fn new<C: Clock>(clock: &C, watches: bool) -> Stalls {
        Stalls { looks: Looks::new(clock), placed: Vec::with_capacity(if watches { PLACED } else { 0 }), count: 0, ticks: 0 }
    }

    /// Starts a block.
    pub(crate) fn begin(&mut self, now: Ticks) {
        self.looks.pass(now);
        self.placed.clear();
        (self.count, self.ticks) = (0, 0);
    }

    /// Skips the time until `now`, which the thread spent on something other than waiting.
    #[inline(always)]
    pub(crate) fn pass(&mut self, now: Ticks) {
        self.looks.pass(now);
    }

    /// Checks the time until `now`, in which the thread only waited.
    #[inline(always)]
    pub(crate) fn look(&mut self, now: Ticks) {
        if let Some(since) = self.looks.look(now) {
            self.note(since, now);
        }
    }

    #[cold]
    fn note(&mut self, since: Ticks, until: Ticks) {
        self.count += 1;
        self.ticks += until.since(since);
        // No allocation inside a block.
        if self.placed.len() < self.placed.capacity() {
            self.placed.push((since, until));
        }
    }

    /// Number of stalls and their total length in ticks.
    pub(crate) fn total(&self) -> (u64, u64) {
        (self.count, self.ticks)
    }

    /// True if `at` lies in a stall whose position is kept.
    pub(crate) fn holds(&self, at: Ticks) -> bool {
        let next = self.placed.partition_point(|(_, until)| *until < at);
        self.placed.get(next).is_some_and(|(since, _)| *since < at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::clock::FakeClock;

    #[test]
    fn gap_between_two_looks_is_a_stall() {
        let clock = FakeClock::default();
        let mut stalls = Stalls::new(&clock, true);
        stalls.begin(Ticks(0));
        stalls.look(Ticks(2_000));
        stalls.look(Ticks(4_001));
        stalls.pass(Ticks(50_000));
        stalls.look(Ticks(50_100));
        stalls.look(Ticks(60_100));
        assert_eq!(stalls.total(), (2, 2_001 + 10_000));
        let held: Vec<u64> = (0..70_000).step_by(1_000).filter(|at| stalls.holds(Ticks(*at))).collect();
        assert_eq!(held, [3_000, 4_000, 51_000, 52_000, 53_000, 54_000, 55_000, 56_000, 57_000, 58_000, 59_000, 60_000]);
        stalls.begin(Ticks(60_100));
        assert_eq!((stalls.total(), stalls.holds(Ticks(3_000))), ((0, 0), false));
    }

    #[test]
    fn beyond_those_that_are_placed_the_others_still_count() {
        let mut stalls = Stalls::new(&FakeClock::default(), true);
        stalls.begin(Ticks(0));
        (1..=PLACED as u64 + 10).for_each(|n| stalls.look(Ticks(n * 3_000)));
        assert_eq!(stalls.total().0, PLACED as u64 + 10);
        assert!(stalls.holds(Ticks(2_999)) && !stalls.holds(Ticks((PLACED as u64 + 9) * 3_000)));
    }
}
