//! Whether the host's time of day was set while a row was measured.

use hairpin_record::side::Side;
use hairpin_record::warning::Warning;
use hairpin_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// Number of readings; the closest counts, since a thread may lose its core between two clocks.
const READINGS: usize = 5;
/// A smaller step may be the time between the readings of two clocks.
const LEAST: Nanos = Nanos::from_millis(1);

/// CLOCK_REALTIME minus CLOCK_BOOTTIME, in ns. Both are steered alike (adjtimex(2)) and go on while the host is suspended, so it
/// changes only where the time of day is set (clock_settime(2)).
pub(super) struct TimeOfDay(i128);

impl TimeOfDay {
    pub(super) fn now() -> TimeOfDay {
        let ns = |clock| {
            let time = clock_gettime(clock);
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        let reading = |_| {
            let before = ns(ClockId::Boottime);
            let day = ns(ClockId::Realtime);
            (ns(ClockId::Boottime) - before, day - before)
        };
        TimeOfDay((0..READINGS).map(reading).min().map_or(0, |(_, since)| since))
    }

    /// The warning, if the time of day of `side` was set between `self` and `later`.
    pub(super) fn set_until(&self, later: &TimeOfDay, side: Side) -> Option<Warning> {
        let step = later.0 - self.0;
        let by = Nanos(u64::try_from(step.unsigned_abs()).unwrap_or(u64::MAX));
        (by >= LEAST).then_some(Warning::ClockSet { side, forward: step > 0, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_show_a_step() {
        let now = TimeOfDay::now();
        assert!(now.0 > 0, "some years lie between the host's start and 1970");
        let (side, by) = (Side::Server, Nanos::from_secs(3600));
        let set = |step| now.set_until(&TimeOfDay(now.0 + step), side);
        assert_eq!(set(900_000), None);
        assert_eq!(set(3_600_000_000_000), Some(Warning::ClockSet { side, forward: true, by }));
        assert_eq!(set(-3_600_000_000_000), Some(Warning::ClockSet { side, forward: false, by }));
    }
}
