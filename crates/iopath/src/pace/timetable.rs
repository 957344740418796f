//! Due times, written out between blocks so that nothing has to be computed inside one.
//!
//! ```text
//!   due       │   │   │   │   │   │ ╎ ╎ │   │        ╎: due while the instrument folded samples or met the other core
//!   time   ───┴─block 1───┴───┴───┴─░░░─┴─block 2──  ░: the instrument's own work; the due times after it move by the part of it
//!                                                       that a request would have waited for, and by nothing else
//! ```

use hairpin_plan::schedule::{Schedule, Source};
use hairpin_sys::clock::{Clock, Ticks};

use super::BLOCK_TRANSACTIONS;

/// The next request of a timetable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Due time; [`Ticks::NEVER`] if no further request is due before the end.
    pub at: Ticks,
    /// Payload in bytes.
    pub size: u32,
}

/// Requests with their due times. None is dropped or forgiven: a request that cannot be sent when it is due keeps its due time.
#[derive(Debug)]
pub struct Timetable {
    schedule: Schedule,
    source: Source,
    ticks_per_ns: f64,
    /// The next requests: enough for a block.
    upcoming: Vec<Upcoming>,
    next: usize,
    /// The request before these, in ticks since the origin.
    before: u64,
    /// Time zero of the schedule.
    origin: Ticks,
    /// Requests due at this time or later are not sent.
    end: Ticks,
    moved: u64,
    sleeps: bool,
}

#[derive(Clone, Copy, Debug)]
struct Upcoming {
    /// Ticks since the origin.
    after: u64,
    size: u32,
}

impl Timetable {
    /// `sleeps`: the thread gives up its core while it waits. Until measuring begins, requests are due at the schedule's mean
    /// rate.
    pub fn new<C: Clock>(clock: &C, schedule: Schedule, sleeps: bool) -> Timetable {
        let source = schedule.warm_up();
        let mut table = Timetable {
            schedule,
            source,
            ticks_per_ns: clock.rate(),
            // Touch every page now, so that no page fault happens inside a block.
            upcoming: vec![Upcoming { after: 0, size: 0 }; BLOCK_TRANSACTIONS],
            next: 0,
            before: 0,
            origin: clock.now(),
            end: Ticks::NEVER,
            moved: 0,
            sleeps,
        };
        table.upcoming.clear();
        table.fill();
        table.origin = clock.now();
        table
    }

    /// Returns to the first request of the schedule. Must precede [`begin`](Timetable::begin), because it takes time.
    pub(crate) fn rewind(&mut self) {
        self.source = self.schedule.source();
        self.upcoming.clear();
        (self.next, self.before) = (0, 0);
        self.fill();
    }

    /// Starts measuring at `origin`; requests due at `end` or later are not sent.
    pub(crate) fn begin(&mut self, origin: Ticks, end: Ticks) {
        (self.origin, self.end, self.moved) = (origin, end, 0);
    }

    /// Writes out the next due times. The last one of a finite schedule stays, for [`finished`](Timetable::finished).
    pub(crate) fn fill(&mut self) {
        if self.is_over() {
            return;
        }
        self.before = self.last_sent();
        self.upcoming.drain(..self.next);
        self.next = 0;
        while self.upcoming.len() < BLOCK_TRANSACTIONS {
            let Some(one) = self.take() else { break };
            self.upcoming.push(one);
        }
    }

    fn take(&mut self) -> Option<Upcoming> {
        let (after_ns, size) = self.source.next()?;
        Some(Upcoming { after: (after_ns * self.ticks_per_ns).round() as u64, size })
    }

    /// Accounts for the instrument's own work from `since` until `now`. A request that became due meanwhile is due now, and later
    /// ones are delayed by the same amount; one that was already late stays as late as it was; one due after `now` keeps its due
    /// time. Work after the end delays nothing.
    pub(crate) fn resume(&mut self, since: Ticks, now: Ticks) {
        let due = self.next().at;
        if due < now {
            let moved = now.min(self.end).since(due.max(since));
            self.origin = self.origin.plus(moved);
            self.moved += moved;
        }
    }

    /// Moves the remaining due times and the end by `ticks`, during which the run stood still.
    pub(crate) fn stand_still(&mut self, ticks: u64) {
        (self.origin, self.end) = (self.origin.plus(ticks), self.end.plus(ticks));
    }

    /// The next request to send.
    #[inline(always)]
    pub(crate) fn next(&self) -> Due {
        match self.upcoming.get(self.next) {
            Some(next) if self.origin.plus(next.after) < self.end => Due { at: self.origin.plus(next.after), size: next.size },
            _ => Due { at: Ticks::NEVER, size: 0 },
        }
    }

    /// Ticks from the origin to the request before the next one.
    fn last_sent(&self) -> u64 {
        self.next.checked_sub(1).map_or(self.before, |last| self.upcoming[last].after)
    }

    /// Ticks from the request before to the next one; 0 if there is none.
    pub(crate) fn pause(&self) -> u64 {
        self.upcoming.get(self.next).map_or(0, |next| next.after.saturating_sub(self.last_sent()))
    }

    /// Advances past the next request, which has been sent.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    /// Takes the next requests that were due before `now` and not sent, as far as they have waited for the same time to one part
    /// in 65,536; returns the first due time and their number. There may be a billion of them.
    pub(crate) fn unsent(&mut self, now: Ticks) -> Option<(Ticks, u64)> {
        if self.next == self.upcoming.len() {
            self.fill();
        }
        let due = self.next().at;
        (due < now).then(|| {
            let until = due.plus(now.since(due) >> 16).min(self.end);
            let alike = self.upcoming[self.next..].partition_point(|one| self.origin.plus(one.after) < until).max(1);
            self.next += alike;
            (due, alike as u64)
        })
    }

    /// Due time of the last request of a finite schedule that has been sent whole.
    pub(crate) fn finished(&self) -> Option<Ticks> {
        let last = self.upcoming.get(self.next.checked_sub(1)?)?;
        self.is_over().then(|| self.origin.plus(last.after))
    }

    /// True if every request of a finite schedule has been sent.
    pub(crate) fn is_over(&self) -> bool {
        self.next == self.upcoming.len() && self.source.is_over()
    }

    /// Number of requests that would have been due during the instrument's own work, at the schedule's mean rate.
    pub(crate) fn left_out(&self) -> u64 {
        (self.moved as f64 / self.ticks_per_ns / self.mean_interval_ns()).round() as u64
    }

    /// Mean time between two requests in ns.
    pub(crate) fn mean_interval_ns(&self) -> f64 {
        self.schedule.mean_interval_ns()
    }

    /// True if some intervals are longer than the mean one.
    pub(crate) fn varies(&self) -> bool {
        self.schedule.varies()
    }

    /// True if the thread gives up its core while it waits.
    pub(crate) fn sleeps(&self) -> bool {
        self.sleeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::clock::FakeClock;

    fn every_us() -> Timetable {
        let mut table = Timetable::new(&FakeClock::default(), Schedule::fixed(1e6, 64), false);
        table.rewind();
        table.begin(Ticks(0), Ticks(1_000_000_000));
        table
    }

    #[test]
    fn due_times_are_those_of_the_schedule_whenever_requests_are_sent() {
        let mut table = every_us();
        for n in 1..=5 {
            assert_eq!(table.next(), Due { at: Ticks(1_000 * n), size: 64 });
            table.advance();
        }
    }

    #[test]
    fn a_pause_lasts_from_request_to_request_wherever_they_are_written_out() {
        let mut table = every_us();
        let mut pauses = vec![table.pause()];
        for _ in 0..3 {
            table.advance();
            pauses.push(table.pause());
            table.fill();
            pauses.push(table.pause());
        }
        table.rewind();
        pauses.push(table.pause());
        assert_eq!(pauses, [1_000; 8]);
    }

    #[test]
    fn own_work_delays_due_requests_and_keeps_their_lateness() {
        let mut table = every_us();
        // Work between two due times moves none of them.
        table.resume(Ticks(200), Ticks(900));
        assert_eq!((table.next().at, table.left_out()), (Ticks(1_000), 0));
        // Work across a due time: that request is due when the work ends.
        table.resume(Ticks(200), Ticks(3_000));
        assert_eq!((table.next().at, table.left_out()), (Ticks(3_000), 2));
        // A request that was 7 us late when the work began is 7 us late when it ends.
        table.resume(Ticks(10_000), Ticks(15_000));
        assert_eq!((table.next().at, table.left_out()), (Ticks(8_000), 7));
    }

    #[test]
    fn own_work_across_the_end_leaves_out_what_was_due_before_it() {
        let mut table = every_us();
        table.begin(Ticks(0), Ticks(10_500));
        (0..7).for_each(|_| table.advance());
        // Due at 8,000 to 10,000, and the work begins between the first and the second.
        table.resume(Ticks(8_600), Ticks(50_000));
        assert_eq!((table.next().at, table.left_out()), (Ticks(9_900), 2));
        table.advance();
        assert_eq!(table.next().at, Ticks::NEVER);
    }

    #[test]
    fn a_pause_moves_due_times_and_end_and_leaves_out_nothing() {
        let mut table = every_us();
        table.begin(Ticks(0), Ticks(2_500));
        table.stand_still(10_000);
        assert_eq!((table.next().at, table.left_out()), (Ticks(11_000), 0));
        table.advance();
        table.advance();
        assert_eq!(table.next().at, Ticks::NEVER, "due after the end, which has moved to 12,500");
    }

    #[test]
    fn nothing_is_due_at_the_end_or_later() {
        let mut table = every_us();
        table.begin(Ticks(0), Ticks(2_000));
        table.advance();
        assert_eq!(table.next().at, Ticks::NEVER);
        assert!(!table.is_over(), "the schedule itself goes on");
    }

    #[test]
    fn every_unsent_request_is_told_with_its_due_time_however_many() {
        let mut table = every_us();
        table.advance();
        let now = Ticks(200_000_000);
        let unsent: Vec<(Ticks, u64)> = std::iter::from_fn(|| table.unsent(now)).collect();
        let (first, last) = (unsent[0], unsent[unsent.len() - 1]);
        // A part in 65,536 of the first wait is 3,051 ns.
        assert_eq!((first, last), ((Ticks(2_000), 4), (Ticks(199_999_000), 1)));
        assert_eq!(unsent.iter().map(|(_, count)| count).sum::<u64>(), 199_998);
        let mut next = 2_000;
        for (due, count) in unsent {
            assert_eq!(due, Ticks(next));
            next += 1_000 * count;
        }
    }
}
