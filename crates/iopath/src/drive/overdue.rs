//! Requests with a due time that were answered late or not at all. They give no RTT sample, yet a user at that rate would have
//! waited longest for them.
//!
//! ```text
//!   a datagram given up, answered after all    from due: as long as it took
//!   never answered, or never sent              from due: at least until the run ended
//! ```

use hairpin_record::recorder::{Recorder, Waited};
use hairpin_sys::clock::{Clock, Ticks};

use super::given_up::Abandoned;
use super::run::Over;
use super::{FIRST_PATIENCE_NS, Loop, LoopEnd, TURN_NS};
use crate::pace::Timetable;

/// A run that is stopped waits this long for the replies to its requests in flight, in ns.
const LAST_NS: u64 = 100_000_000;

/// A request answered late or never.
#[derive(Clone, Copy, Default)]
pub(super) struct Overdue {
    sent: Ticks,
    due: Ticks,
    until: Ticks,
    answered: bool,
    stalled: bool,
}

impl Overdue {
    pub(super) fn late(request: &Abandoned, now: Ticks) -> Overdue {
        Overdue { sent: request.sent, due: request.due, until: now, answered: true, stalled: request.stalled }
    }

    pub(super) fn unanswered(request: &Abandoned, now: Ticks) -> Overdue {
        Overdue { answered: false, ..Overdue::late(request, now) }
    }

    pub(super) fn is_older_than(&self, start: Ticks) -> bool {
        self.sent < start
    }
}

impl<C: Clock> Loop<'_, C> {
    /// Keeps a request until the block is folded. Nothing is allocated inside a block, so once the buffer is full a request
    /// counts only in `late` and `lost`.
    pub(super) fn keep_overdue(&mut self, one: Overdue) {
        if self.pace.timetable().is_some() && self.overdue.len() < self.overdue.capacity() {
            self.overdue.push(one);
        }
    }

    pub(super) fn fold_overdue(&mut self, recorder: &mut Recorder) {
        let clock = self.clock;
        let waited = |one: &Overdue| Waited {
            from_due_ns: clock.to_ns(one.until.since(one.due)),
            late_ns: Some(clock.to_ns(one.sent.since(one.due))),
            answered: one.answered,
            stalled: one.stalled,
        };
        self.overdue.iter().for_each(|one| recorder.waited(waited(one)));
        self.overdue.clear();
    }

    /// Ends the run: waits for late replies, then counts every request unanswered or unsent with the time it has waited so far.
    pub(super) fn close_accounts(
        &mut self,
        over: &mut dyn Over<C>,
        recorder: &mut Recorder,
        began: Ticks,
        ends: Ticks,
        end: &LoopEnd,
    ) {
        if matches!(end, LoopEnd::Done) && !self.answered {
            self.await_late(over);
        }
        self.fold_overdue(recorder);
        let now = self.clock.now();
        let over = now.min(ends).min(self.stopped_at);
        let lasted = |due: Ticks| self.clock.to_ns(now.since(due));
        let in_flight = self.flight.in_flight().map(|(sent, due)| (sent, due, self.stalls.holds(due)));
        let given_up = self.flight.given_up.iter().filter(|one| one.is_due).map(|one| (one.sent, one.due, one.stalled));
        for (sent, due, stalled) in in_flight.chain(given_up) {
            let late_ns = Some(self.clock.to_ns(sent.since(due)));
            recorder.waited(Waited { from_due_ns: lasted(due), late_ns, answered: false, stalled });
        }
        let last_due = self.pace.timetable().and_then(Timetable::finished);
        // A run by `count` ends after `count` requests; later due times do not count.
        let by_count = self.work.count.is_some() && matches!(end, LoopEnd::Done);
        let mut unsent = || self.pace.timetable_mut().filter(|_| !by_count).and_then(|table| table.unsent(over));
        while let Some((due, count)) = unsent() {
            recorder.unsent(self.clock.to_ns(now.since(due)), count);
        }
        // A recording is over with its last due time or reply, however long a lost datagram was waited for.
        let over_at = last_due.unwrap_or(over).min(over).max(self.last_reply);
        let wall_ns = self.clock.to_ns(over_at.since(began).saturating_sub(self.left_out));
        recorder.close(wall_ns, self.pace.timetable().map_or(0, Timetable::left_out));
    }

    /// After a stop of the run: receives the replies that are on their way, so that they do not count as missing.
    pub(super) fn receive_last(&mut self, over: &mut dyn Over<C>) {
        let most = self.clock.now().plus(self.clock.to_ticks(LAST_NS));
        while self.pace.timetable().is_some() && self.flight.live() > 0 {
            let now = self.clock.now();
            if now >= most || self.receive_one(over, most).is_err() {
                break;
            }
        }
    }

    /// Waits for replies to datagrams given up: they may still be on their way if the peer stalls at the end.
    fn await_late(&mut self, over: &mut dyn Over<C>) {
        let least = self.clock.now();
        let most = least.plus(self.clock.to_ticks(FIRST_PATIENCE_NS).min(self.timeout));
        while !self.flight.given_up.is_empty() && !self.between.stopped() {
            let now = self.clock.now();
            // Once the peer answers, the other replies follow.
            let until = if self.answered { self.last_reply.plus(self.patience).min(most) } else { most };
            if now >= until || self.receive_one(over, until.min(now.plus(self.clock.to_ticks(TURN_NS)))).is_err() {
                break;
            }
        }
    }
}
