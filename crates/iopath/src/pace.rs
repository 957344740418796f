//! When the next request leaves: as soon as the reply is there, or on a schedule whose due times are kept.
//!
//! ```text
//!   closed   the next request leaves when a reply has come
//!   every    due at a fixed rate, one in flight, idle between                             due times begin anew after each block
//!   open     due on a schedule, however many are in flight, received meanwhile            the schedule stands still between blocks
//! ```

mod open;

use hairpin_sys::clock::{Clock, Ticks, monotonic_ns};
use hairpin_sys::thread;

pub use self::open::Open;

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On a reply.
    Closed,
    /// On time, one in flight.
    Every,
    /// On time, however many are in flight.
    Open,
}

/// The next request of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it is due; [`Ticks::NEVER`] once the schedule is over.
    pub at: Ticks,
    /// Its payload in bytes.
    pub size: u32,
}

/// A schedule of requests.
pub trait Pace {
    /// Which of the three it is.
    const KIND: Kind;
    /// Waits until the next request is due and returns that time; with no schedule there is nothing to wait for. Returns early, with
    /// `None`, when `until` has passed or a signal ended the wait; the request is still due then.
    fn wait(&mut self, until: Ticks) -> Option<Ticks>;
    /// A block begins. [`Kind::Every`]: the schedule begins anew, one interval from now, so that time spent between blocks makes no request late.
    /// [`Kind::Open`]: it goes on where it stood when it was [paused](Pace::pause), so that what was late by then is as late now.
    fn restart(&mut self);

    /// [`Kind::Open`]: the next request, sent or not.
    #[inline(always)]
    fn next(&self) -> Due {
        Due { at: Ticks::NEVER, size: 0 }
    }
    /// [`Kind::Open`]: the next request has been sent.
    #[inline(always)]
    fn advance(&mut self) {}
    /// [`Kind::Open`]: the schedule stands still from `at` until it is [restarted](Pace::restart).
    fn pause(&mut self, _at: Ticks) {}
    /// [`Kind::Open`]: measuring begins, and the schedule with it; what the warm-up left unsent is forgotten.
    fn begin(&mut self) {}
    /// [`Kind::Open`]: the run is over. How many requests were due and never sent.
    fn unsent(&mut self) -> u64 {
        0
    }
    /// [`Kind::Open`]: every request of the schedule has been sent.
    fn is_over(&self) -> bool {
        false
    }
    /// [`Kind::Open`]: the thread gives up its core while it waits.
    fn sleeps(&self) -> bool {
        false
    }
}

/// Closed loop: the next request leaves when a reply has come.
pub struct Closed;

impl Pace for Closed {
    const KIND: Kind = Kind::Closed;

    #[inline(always)]
    fn wait(&mut self, _until: Ticks) -> Option<Ticks> {
        Some(Ticks(0))
    }

    #[inline(always)]
    fn restart(&mut self) {}
}

/// Fixed rate: idle until the due time, asleep if `sleep`, else spinning.
pub struct Every<C> {
    clock: C,
    interval: u64,
    due: Ticks,
    sleep: bool,
}

impl<C: Clock> Every<C> {
    /// `per_s` requests a second; `sleep` gives up the core between them.
    pub fn new(clock: C, per_s: f64, sleep: bool) -> Every<C> {
        let interval = clock.to_ticks((1e9 / per_s).round() as u64);
        Every { due: clock.now(), clock, interval, sleep }
    }
}

impl<C: Clock> Pace for Every<C> {
    const KIND: Kind = Kind::Every;

    fn wait(&mut self, until: Ticks) -> Option<Ticks> {
        loop {
            let now = self.clock.now();
            if now >= self.due {
                let due = self.due;
                self.due = due.plus(self.interval);
                return Some(due);
            }
            if now >= until {
                return None;
            }
            let left = self.due.min(until).since(now);
            if self.sleep && !thread::sleep_until(monotonic_ns() + self.clock.to_ns(left)) {
                return None;
            }
            std::hint::spin_loop();
        }
    }

    fn restart(&mut self) {
        self.due = self.clock.now().plus(self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::clock::FakeClock;

    #[test]
    fn a_late_request_keeps_its_due_time() {
        let clock = FakeClock::stepping(1);
        let mut pace = Every::new(clock.clone(), 1e6, false);
        pace.restart();
        let first = pace.wait(Ticks::NEVER).unwrap();
        clock.advance(5_000);
        let second = pace.wait(Ticks::NEVER).unwrap();
        assert_eq!(second.since(first), 1_000, "due when the schedule said, not when it could leave");
        assert_eq!(pace.wait(Ticks::NEVER).unwrap().since(second), 1_000);
    }

    #[test]
    fn a_wait_that_is_cut_short_loses_no_request() {
        let clock = FakeClock::stepping(1);
        let mut pace = Every::new(clock.clone(), 1e6, false);
        pace.restart();
        let until = clock.now().plus(500);
        assert_eq!(pace.wait(until), None);
        assert!(clock.now() < until.plus(10), "no longer than it was told to");
        let first = pace.wait(Ticks::NEVER).unwrap();
        assert_eq!(pace.wait(Ticks::NEVER).unwrap().since(first), 1_000);
    }

    #[test]
    fn asleep_until_due_or_until_told() {
        let clock = hairpin_sys::clock::MonotonicRaw;
        let mut pace = Every::new(clock, 200.0, true);
        pace.restart();
        assert_eq!(pace.wait(clock.now().plus(100_000)), None);
        let due = pace.wait(Ticks::NEVER);
        assert!(due.is_none_or(|due| clock.now() >= due));
    }
}
