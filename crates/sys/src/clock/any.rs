//! The clock of a run, chosen once and carried as a value.

use super::{Clock, MonotonicRaw, Relation, Ticks, Tsc};

/// The TSC, or CLOCK_MONOTONIC_RAW where the TSC cannot be trusted. A reading branches on which it is; the CPU predicts that.
#[derive(Clone, Copy, Debug)]
pub enum AnyClock {
    /// The TSC.
    Tsc(Tsc),
    /// CLOCK_MONOTONIC_RAW.
    Raw(MonotonicRaw),
}

impl AnyClock {
    /// All clocks, read now.
    pub fn relation(&self) -> Relation {
        Relation::read(self)
    }
}

/// Apart, so that a loop over the TSC does not carry the kernel's clock in each of its readings.
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
}

impl From<Tsc> for AnyClock {
    fn from(clock: Tsc) -> AnyClock {
        AnyClock::Tsc(clock)
    }
}
