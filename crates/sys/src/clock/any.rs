//! The clock of a run, chosen once and carried as a value.

use super::{Clock, MonotonicRaw, NoTsc, Relation, Ticks, Tsc};

/// The CPU's counter, or CLOCK_MONOTONIC_RAW if the counter cannot be trusted. Each reading branches on the variant, which the
/// CPU predicts.
#[derive(Clone, Copy, Debug)]
pub enum AnyClock {
    Tsc(Tsc),
    Raw(MonotonicRaw),
}

impl AnyClock {
    /// [`Tsc::calibrate`]; where that fails CLOCK_MONOTONIC_RAW, and the reason. Takes 10 ms.
    pub fn calibrate() -> (AnyClock, Option<NoTsc>) {
        AnyClock::of(Tsc::calibrate())
    }

    fn of(counter: Result<Tsc, NoTsc>) -> (AnyClock, Option<NoTsc>) {
        match counter {
            Ok(tsc) => (AnyClock::Tsc(tsc), None),
            Err(why) => (AnyClock::Raw(MonotonicRaw), Some(why)),
        }
    }

    /// Reads all clocks now.
    pub fn relation(&self) -> Relation {
        Relation::read(self)
    }
}

/// Out of line, so that a loop over the counter does not carry the kernel's clock in each of its readings.
#[cold]
#[inline(never)]
fn raw() -> Ticks {
    MonotonicRaw.now()
}

impl Clock for AnyClock {
    #[inline(always)]
    fn start(&self) -> Ticks {
        match self {
            AnyClock::Tsc(clock) => clock.start(),
            AnyClock::Raw(_) => raw(),
        }
    }

    #[inline(always)]
    fn stop(&self) -> Ticks {
        match self {
            AnyClock::Tsc(clock) => clock.stop(),
            AnyClock::Raw(_) => raw(),
        }
    }

    #[inline(always)]
    fn now(&self) -> Ticks {
        match self {
            AnyClock::Tsc(clock) => clock.now(),
            AnyClock::Raw(_) => raw(),
        }
    }

    #[inline]
    fn rate(&self) -> f64 {
        match self {
            AnyClock::Tsc(clock) => clock.rate(),
            AnyClock::Raw(clock) => clock.rate(),
        }
    }

    fn source(&self) -> &'static str {
        match self {
            AnyClock::Tsc(clock) => clock.source(),
            AnyClock::Raw(clock) => clock.source(),
        }
    }

    fn step(&self) -> u64 {
        match self {
            AnyClock::Tsc(clock) => clock.step(),
            AnyClock::Raw(clock) => clock.step(),
        }
    }
}

impl From<Tsc> for AnyClock {
    fn from(clock: Tsc) -> AnyClock {
        AnyClock::Tsc(clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_counter_cannot_be_trusted_the_kernels_clock_comes_with_the_reason() {
        let (clock, why) = AnyClock::of(Err(NoTsc::NotInvariant));
        assert_eq!((clock.source(), why), ("monotonic_raw", Some(NoTsc::NotInvariant)));
        let (clock, why) = AnyClock::calibrate();
        assert_eq!(clock.source() == "monotonic_raw", why.is_some(), "{clock:?}: {why:?}");
    }
}
