//! When the next request leaves: as soon as the reply is there, or on a schedule whose due times are kept.

use hairpin_sys::clock::{Clock, Ticks, monotonic_ns};
use hairpin_sys::thread;

/// A schedule of requests.
pub trait Pace {
    /// True if requests are due at fixed times, one in flight, idle between.
    const PACED: bool;
    /// Waits until the next request is due and returns that time; with no schedule there is nothing to wait for. Returns early, with
    /// `None`, if a signal ended the wait.
    fn wait(&mut self) -> Option<Ticks>;
    /// The schedule begins anew, one interval from now: time spent between blocks makes no request late.
    fn restart(&mut self);
}

/// Closed loop: the next request leaves when a reply has come.
pub struct Closed;

impl Pace for Closed {
    const PACED: bool = false;

    #[inline(always)]
    fn wait(&mut self) -> Option<Ticks> {
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
    const PACED: bool = true;

    fn wait(&mut self) -> Option<Ticks> {
        loop {
            let left = self.due.since(self.clock.now());
            if left == 0 {
                let due = self.due;
                self.due = due.plus(self.interval);
                return Some(due);
            }
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
        let first = pace.wait().unwrap();
        clock.advance(5_000);
        let second = pace.wait().unwrap();
        assert_eq!(second.since(first), 1_000, "due when the schedule said, not when it could leave");
        assert_eq!(pace.wait().unwrap().since(second), 1_000);
    }
}
