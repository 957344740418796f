//! Compares the instrument's clock with another over seconds: shows a bad calibration of 10 ms, whatever noise the host makes.
//!
//! ```text
//!   start ─ tick │ other │ tick ──── the other tests, seconds ──── tick │ other │ tick ─ end      the narrowest of several brackets each
//! ```
//! The other clock is read by this module, not by the code that calibrates.

use hairpin_record::check::{Elapsed, Verdict};
use hairpin_sys::clock::{Clock, Ticks};
use rustix::time::{ClockId, clock_gettime};

/// Largest difference between the two clocks. A calibration over 10 ms is a few ppm off; 200 ppm of 100 us are 20 ns.
const BOUND_PPM: f64 = 200.0;
/// Number of brackets, of which the narrowest counts.
const BRACKETS: usize = 15;

/// CLOCK_MONOTONIC_RAW in ns.
pub(super) fn monotonic_raw_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The readings of both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch {
    ticks: Ticks,
    other_ns: u64,
}

impl Stopwatch {
    /// Reads both clocks.
    pub(super) fn start<C: Clock>(clock: &C, mut other: impl FnMut() -> u64) -> Stopwatch {
        let mut narrowest = u64::MAX;
        let mut read = Stopwatch { ticks: Ticks(0), other_ns: 0 };
        for _ in 0..BRACKETS {
            let before = clock.stop();
            let other_ns = other();
            let width = clock.stop().since(before);
            if width < narrowest {
                narrowest = width;
                read = Stopwatch { ticks: before.plus(width / 2), other_ns };
            }
        }
        read
    }

    /// Ticks of the clock per nanosecond of the other, since the start.
    pub(super) fn ticks_per_ns<C: Clock>(&self, clock: &C, other: impl FnMut() -> u64) -> f64 {
        let now = Stopwatch::start(clock, other);
        now.ticks.since(self.ticks) as f64 / now.other_ns.saturating_sub(self.other_ns).max(1) as f64
    }

    /// The time since the start by both clocks.
    pub(super) fn end<C: Clock>(&self, clock: &C, other: impl FnMut() -> u64) -> Elapsed {
        let now = Stopwatch::start(clock, other);
        let (ticks, other_ns) = (now.ticks.since(self.ticks), now.other_ns.saturating_sub(self.other_ns));
        let clock_ns = ticks as f64 / clock.rate();
        let error_ppm = (clock_ns / other_ns.max(1) as f64 - 1.0) * 1e6;
        Elapsed {
            against: "monotonic_raw".into(),
            clock_ns: clock_ns.round() as u64,
            other_ns,
            error_ppm: (error_ppm * 10.0).round() / 10.0,
            bound_ppm: BOUND_PPM,
            verdict: if error_ppm.abs() <= BOUND_PPM { Verdict::Passed } else { Verdict::Failed },
        }
    }
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::FakeClock;

    use super::*;

    /// The result for 3 s, if the instrument's clock shows `factor` times that.
    fn over(factor: f64) -> Elapsed {
        let clock = FakeClock::stepping(1);
        let watch = Stopwatch::start(&clock, || 5_000);
        clock.advance((3e9 * factor) as u64);
        watch.end(&clock, || 3_000_005_000)
    }

    #[test]
    fn a_clock_that_keeps_time_passes_and_one_that_is_one_per_cent_off_fails() {
        for (factor, verdict) in [
            (1.0, Verdict::Passed),
            (1.000_19, Verdict::Passed),
            (0.999_81, Verdict::Passed),
            (1.000_21, Verdict::Failed),
            (0.99, Verdict::Failed),
            (1.01, Verdict::Failed),
        ] {
            let elapsed = over(factor);
            assert_eq!(elapsed.verdict, verdict, "{elapsed:?}");
            assert!((elapsed.error_ppm - (factor - 1.0) * 1e6).abs() < 1.0, "{elapsed:?}");
        }
    }

    #[test]
    fn a_bracket_that_was_interrupted_does_not_count() {
        let (clock, mut reading) = (FakeClock::stepping(1), 0);
        let watch = Stopwatch::start(&clock, || {
            reading += 1;
            clock.advance(if reading == 7 { 10 } else { 50_000 });
            1_000 + reading
        });
        assert_eq!(watch.other_ns, 1_007);
    }
}
