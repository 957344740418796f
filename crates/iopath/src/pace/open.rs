//! The open loop's schedule: due times written out between blocks, so that inside one nothing is computed.

use hairpin_sys::clock::{Clock, Ticks};

use super::{Due, Kind, Pace};
use crate::drive::BLOCK_TRANSACTIONS;
use crate::schedule::{Schedule, Source};

/// Requests on a schedule, however many are in flight. None is dropped, moved or forgiven: what cannot be sent when it is due keeps its due time.
pub struct Open<C> {
    clock: C,
    schedule: Schedule,
    source: Source,
    /// What is due next, enough for a block; times since `origin`.
    upcoming: Vec<Upcoming>,
    next: usize,
    /// When the schedule's time was zero; later by every pause.
    origin: Ticks,
    paused: Ticks,
    sleeps: bool,
}

#[derive(Clone, Copy)]
struct Upcoming {
    after: u64,
    size: u32,
}

impl<C: Clock> Open<C> {
    /// `sleeps`: the thread gives up its core while it waits. Until measuring begins requests are due at the schedule's mean rate.
    pub fn new(clock: C, schedule: Schedule, sleeps: bool) -> Open<C> {
        let now = clock.now();
        let source = schedule.warm_up();
        // Written once here, so that no page fault happens inside a block.
        let mut upcoming = vec![Upcoming { after: 0, size: 0 }; BLOCK_TRANSACTIONS];
        upcoming.clear();
        Open { clock, schedule, source, upcoming, next: 0, origin: now, paused: now, sleeps }
    }

    fn take(&mut self) -> Option<Upcoming> {
        let (after_ns, size) = self.source.next()?;
        Some(Upcoming { after: (after_ns * self.clock.rate()).round() as u64, size })
    }

    fn top_up(&mut self) {
        self.upcoming.drain(..self.next);
        self.next = 0;
        while self.upcoming.len() < BLOCK_TRANSACTIONS {
            let Some(one) = self.take() else { break };
            self.upcoming.push(one);
        }
    }
}

impl<C: Clock> Pace for Open<C> {
    const KIND: Kind = Kind::Open;

    fn wait(&mut self, _until: Ticks) -> Option<Ticks> {
        Some(self.next().at)
    }

    fn restart(&mut self) {
        self.top_up();
        let now = self.clock.now();
        self.origin = self.origin.plus(now.since(self.paused));
        self.paused = now;
    }

    #[inline(always)]
    fn next(&self) -> Due {
        match self.upcoming.get(self.next) {
            Some(next) => Due { at: self.origin.plus(next.after), size: next.size },
            None => Due { at: Ticks::NEVER, size: 0 },
        }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.next += 1;
    }

    fn pause(&mut self, at: Ticks) {
        self.paused = at;
    }

    fn begin(&mut self) {
        self.source = self.schedule.source();
        self.upcoming.clear();
        self.next = 0;
        self.origin = self.clock.now();
        self.paused = self.origin;
    }

    fn unsent(&mut self) -> u64 {
        let over = self.paused.since(self.origin);
        let known = self.upcoming[self.next..].iter().filter(|one| one.after < over).count() as u64;
        // Only if all that were written out had been due can there be more.
        let mut further = 0;
        if known as usize == self.upcoming.len() - self.next {
            while self.take().is_some_and(|one| one.after < over) {
                further += 1;
            }
        }
        known + further
    }

    fn is_over(&self) -> bool {
        self.next == self.upcoming.len() && self.source.is_over()
    }

    fn sleeps(&self) -> bool {
        self.sleeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::clock::FakeClock;

    fn open(per_s: f64) -> (FakeClock, Open<FakeClock>) {
        let clock = FakeClock::default();
        let mut pace = Open::new(clock.clone(), Schedule::fixed(per_s, 64), false);
        pace.begin();
        pace.restart();
        (clock, pace)
    }

    #[test]
    fn due_times_are_those_of_the_schedule_whenever_they_are_sent() {
        let (clock, mut pace) = open(1e6);
        for n in 1..=5 {
            assert_eq!(pace.next(), Due { at: Ticks(1_000 * n), size: 64 });
            clock.advance(7_000);
            pace.advance();
        }
    }

    #[test]
    fn the_schedule_stands_still_while_it_is_paused_and_forgives_nothing() {
        let (clock, mut pace) = open(1e6);
        clock.advance(10_000);
        (0..4).for_each(|_| pace.advance());
        // At 10 us six of ten have not been sent; the seventh of all was due 3 us ago.
        pace.pause(clock.now());
        clock.advance(2_000_000);
        pace.restart();
        assert_eq!(pace.next().at, Ticks(2_000_000 + 5_000));
        assert_eq!(clock.now().since(pace.next().at), 5_000, "as late as before the pause");
        pace.pause(clock.now());
        assert_eq!(pace.unsent(), 5, "that of this very moment can still be sent on time");
    }

    #[test]
    fn all_that_were_due_and_not_sent_are_counted_however_many() {
        let (clock, mut pace) = open(1e6);
        pace.advance();
        clock.advance(1_000_000_000);
        pace.pause(clock.now());
        assert_eq!(pace.unsent(), 1_000_000 - 2);
    }

    #[test]
    fn measuring_begins_with_the_schedule() {
        let clock = FakeClock::default();
        let mut pace = Open::new(clock.clone(), Schedule::fixed(1e6, 64), false);
        pace.restart();
        clock.advance(500_000);
        pace.pause(clock.now());
        pace.begin();
        pace.restart();
        assert_eq!(pace.next().at, Ticks(501_000), "what the warm-up left is forgotten");
    }
}
