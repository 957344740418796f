//! A known extra delay on the server's side, for testing experiments.
//!
//! Waiting until a clock shows a given time takes longer than asked: the clock has to be read, and the end lies between two
//! readings. For 40 ns that doubles the wait. So the wait is calibrated before use, and asks for less by the excess.

use hairpin_sys::clock::{AnyClock, Clock};

/// A wait before each reply.
pub(crate) struct Delay {
    clock: AnyClock,
    ticks: u64,
}

impl Delay {
    /// A delay of `ns` by this clock.
    pub(crate) fn new(clock: AnyClock, ns: u64) -> Delay {
        Delay { clock, ticks: tried(&clock, ns) }
    }

    /// Waits busily.
    pub(crate) fn take(&self) {
        wait(&self.clock, self.ticks);
    }
}

/// For longer waits the excess is negligible, and there is no calibration.
const LONGEST_TRIED_NS: u64 = 10_000;
/// Waits timed together, so that the two readings around them are negligible.
const TOGETHER: u64 = 64;
/// Number of such batches; the shortest counts, as the others were disturbed.
const BATCHES: u32 = 9;
/// Rounds of correction.
const CORRECTIONS: u32 = 8;

fn wait<C: Clock>(clock: &C, ticks: u64) {
    let until = clock.now().plus(ticks);
    while clock.now() < until {
        std::hint::spin_loop();
    }
}

/// The ticks to ask for so that a wait takes `delay_ns`; 0 where a reading of the clock alone takes as long.
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
    fn wait_takes_the_requested_time_including_its_readings() {
        // Each reading takes 7 ns, and a wait includes at least three.
        for (asked, within) in [(20, 7), (40, 7), (100, 7), (5_000, 7), (20_000, 21)] {
            let clock = FakeClock::stepping(7);
            let ticks = tried(&clock, asked);
            let began = clock.now();
            (0..100).for_each(|_| wait(&clock, ticks));
            let took = clock.now().since(began) / 100;
            assert!(took.abs_diff(asked) <= within, "{took} of {asked}");
        }
        // A wait cannot be shorter than its own readings.
        assert_eq!(tried(&FakeClock::stepping(50), 20), 0);
    }
}
