//! The run around the blocks: warm-up, figures, the other core, the end. It sees its endpoint through [`Over`], so it is compiled
//! once for all paths.

use std::io;

use hairpin_record::histogram::Times;
use hairpin_record::recorder::{BlockFacts, Recorder};
use hairpin_sys::clock::{Clock, Relation, Ticks};
use hairpin_units::Nanos;

use super::silence::Silences;
use super::{CATCH_UP_NS, Counts, Cut, Limits, Loop, LoopEnd, LoopResult, Stamp, TURN_NS, samples};
use crate::endpoint::Endpoint;
use crate::pace::{Pace, Timetable};

/// The rate must have been watched for this long before a disagreement counts, in ns.
pub(crate) const CLOCK_BASELINE_NS: u64 = 200_000_000;
/// Untimed transactions after each gap, in which caches, branch predictors and the other side settle.
const SETTLE: u32 = 4;
/// An untimed transaction that takes longer than this, in ns, met a stall and is measured after all.
const STALLED_NS: u64 = 1_000_000;

/// An endpoint as the run sees it, behind a table: a closed loop makes one call through it per block, loops with due times four
/// per transaction.
pub(super) trait Over<C>: Endpoint {
    /// [`Loop::closed_block`], compiled for each path.
    fn closed_block(&mut self, run: &mut Loop<'_, C>, limits: Limits) -> Result<(), Cut>;
}

impl<E: Endpoint, C: Clock> Over<C> for E {
    fn closed_block(&mut self, run: &mut Loop<'_, C>, limits: Limits) -> Result<(), Cut> {
        run.closed_block(self, limits)
    }
}

impl<C: Clock> Loop<'_, C> {
    /// Runs the work; the result says how it ended.
    pub(super) fn run(mut self, over: &mut dyn Over<C>) -> LoopResult {
        self.between.starts();
        let origin = Relation::read(self.clock);
        let mut end = self.warm_up(over);
        let mut core_rtt = if end.is_none() { self.neighbour(over) } else { None };
        // The figures exclude everything that happened during warm-up.
        self.flight.begin();
        self.uncounted += self.counts.sent;
        (self.counts, self.silence) = (Counts::default(), 0);
        self.silences.clear();
        (self.silent_until, self.stalled) = (Ticks(0), None);
        self.overdue.clear();
        let timed = self.pace.timetable().is_some();
        let mut recorder = Recorder::new(self.work.duration_ns.map(Nanos), timed, self.work.thread, self.work.threads);
        if matches!(self.pace, Pace::Open(_)) {
            recorder = recorder.with_lateness();
        }
        self.pace.timetable_mut().into_iter().for_each(Timetable::rewind);
        let began = self.clock.now();
        self.between.begins(began);
        let mut ends = self.work.duration_ns.map_or(Ticks::NEVER, |ns| began.plus(self.clock.to_ticks(ns)));
        self.pace.timetable_mut().into_iter().for_each(|table| table.begin(began, ends));
        self.paused = began;
        let mut last = Relation::read(self.clock);
        let mut busy = 0;
        let mut early = None;
        while end.is_none() {
            end = self.reason_to_end(&recorder, began, ends);
            if end.is_some() {
                break;
            }
            if self.between.is_paused() && self.flight.live() == 0 {
                match self.stand_still() {
                    Ok(ticks) => (ends, self.left_out) = (ends.plus(ticks), self.left_out + ticks),
                    Err(error) => end = Some(LoopEnd::Failed(error)),
                }
                // A gap, even if no block follows.
                last = Relation::read(self.clock);
                continue;
            }
            let before = Relation::read(self.clock);
            let left = self.work.count.map_or(u64::MAX, |count| count - recorder.rtt().count());
            self.write_due_times();
            self.between.begins_block();
            let counts = self.counts;
            let (start, result) = self.block(over, ends, left);
            self.between.ends_block(self.kept as u64);
            let length = self.last_stamp.since(start);
            last = Relation::read(self.clock);
            end = result;
            let counted = !self.between.leaves_out();
            over.fold(counted);
            if !counted {
                self.leave_out(counts);
            }
            let known = before.raw_ns.saturating_sub(origin.raw_ns) >= CLOCK_BASELINE_NS;
            if known && early.is_none() {
                early = Some(last);
            }
            let next_rtt = if end.is_none() { self.after_block(over) } else { None };
            let facts = BlockFacts {
                at_ns: self.clock.to_ns(start.since(began)),
                length_ns: self.clock.to_ns(length),
                core_rtt_ns: core_rtt.max(next_rtt),
                clock_suspect: known && last.disagrees(&origin, &before),
            };
            core_rtt = next_rtt;
            *(if counted { &mut busy } else { &mut self.left_out }) += length;
            if let Err(error) = self.publish(&mut recorder, facts, began, (start, counted)) {
                end = Some(LoopEnd::Failed(error));
            }
        }
        let end = end.unwrap_or(LoopEnd::Done);
        if timed {
            self.close_accounts(over, &mut recorder, began, ends, &end);
        }
        self.end_last_silence();
        let typical = recorder.rtt().typical();
        let silences = std::mem::replace(&mut self.silences, Silences::new(self.clock));
        let silences = silences.finish(self.clock.to_ticks(typical), self.lossy);
        LoopResult {
            gap_ns: self.clock.to_ns(last.ticks.since(began).saturating_sub(busy)),
            silences: silences.iter().map(|one| self.clock_silence(one, began)).collect(),
            recorder,
            exchanges: self.uncounted + self.counts.sent,
            counts: self.counts,
            end,
            drift_ppb: early.and_then(|early: Relation| {
                let apart = last.raw_ns.saturating_sub(early.raw_ns) >= CLOCK_BASELINE_NS;
                apart.then(|| (last.rate_since(&early) / early.rate_since(&origin) - 1.0) * 1e9)
            }),
        }
    }

    /// The reason to end the run before the next block, if any.
    fn reason_to_end(&mut self, recorder: &Recorder, began: Ticks, ends: Ticks) -> Option<LoopEnd> {
        if self.dead {
            return Some(LoopEnd::Failed(self.silent(self.clock.to_ns(self.timeout))));
        }
        let transactions = recorder.rtt().count();
        if self.work.count.is_some_and(|count| transactions >= count) {
            return Some(LoopEnd::Done);
        }
        // The next block waits for the requests that this one has left in flight.
        if self.flight.live() > 0 {
            return self.stopped();
        }
        if self.pace.timetable().is_some_and(Timetable::is_over) {
            return Some(LoopEnd::Done);
        }
        let now = self.clock.now();
        if now >= ends && !self.catches_up(now, ends) {
            if self.counts.sent == 0 || transactions > 0 {
                return Some(LoopEnd::Done);
            }
            // Without a single reply there is nothing to report. A peer that stands still for longer than a short run is not dead
            // yet: a closed loop sends on until one reply comes, or the timeout passes.
            let sends_on = matches!(self.pace, Pace::Closed) && now < ends.plus(self.timeout);
            if !sends_on {
                return Some(LoopEnd::Failed(self.silent(self.clock.to_ns(now.since(began)))));
            }
        }
        self.stopped()
    }

    /// The end of a run that is stopped between blocks: requests due since the last block had no turn.
    fn stopped(&mut self) -> Option<LoopEnd> {
        self.between.stopped().then(|| {
            self.stopped_at = self.paused;
            LoopEnd::Stopped
        })
    }

    /// True if requests that were due before the end are still to be sent.
    fn catches_up(&self, now: Ticks, ends: Ticks) -> bool {
        let waits = self.pace.timetable().is_some_and(|table| table.next().at != Ticks::NEVER);
        waits && now < ends.plus(self.clock.to_ticks(CATCH_UP_NS))
    }

    /// Sets the counts to those before a block that counts in no figure. Late replies stay: in such a block come those to requests
    /// of earlier ones.
    #[cold]
    fn leave_out(&mut self, before: Counts) {
        self.uncounted += self.counts.sent - before.sent;
        let Counts { late, longest_silence_ns, longest_stop_ns, .. } = self.counts;
        self.counts = Counts { late, longest_silence_ns, longest_stop_ns, ..before };
    }

    /// Folds the samples of a block that began at `start`, if they are `counted`, and passes them on.
    fn publish(
        &mut self,
        recorder: &mut Recorder,
        facts: BlockFacts,
        began: Ticks,
        (start, counted): (Ticks, bool),
    ) -> io::Result<()> {
        let stamps = &self.stamps[..self.kept];
        if counted {
            recorder.fold(facts, samples(self.clock, &self.stalls, stamps, began));
            self.fold_overdue(recorder);
        } else {
            // Late replies to earlier requests are folded with the next block that counts.
            self.overdue.retain(|one| one.is_older_than(start));
            self.flight.given_up.leave_out(start);
        }
        self.counts.longest_silence_ns = self.clock.to_ns(self.silence);
        self.patience = self.patience_after(recorder.rtt()).unwrap_or(self.patience);
        self.between.block(recorder, &self.counts, &mut samples(self.clock, &self.stalls, &self.stamps[..self.kept], began))
    }

    /// Runs blocks that are discarded, so that the first measured block finds everything warm.
    fn warm_up(&mut self, over: &mut dyn Over<C>) -> Option<LoopEnd> {
        let began = self.clock.now();
        let mut ends = began.plus(self.clock.to_ticks(self.work.warmup_ns));
        self.pace.timetable_mut().into_iter().for_each(|table| table.begin(began, ends));
        let mut rtt = Times::new();
        while self.clock.now() < ends {
            let stopped = self.stopped();
            if stopped.is_some() {
                return stopped;
            }
            if self.between.is_paused() && self.flight.live() == 0 {
                match self.stand_still() {
                    Ok(ticks) => ends = ends.plus(ticks),
                    Err(error) => return Some(LoopEnd::Failed(error)),
                }
                continue;
            }
            self.write_due_times();
            let (_, end) = self.block(over, ends, u64::MAX);
            over.fold(false);
            if end.is_none() && std::mem::take(&mut self.called) {
                self.between.meet_neighbour();
            }
            self.stamps[..self.kept].iter().for_each(|stamp| rtt.record(self.clock.to_ns(stamp.rtt)));
            self.patience = self.patience_after(&rtt).unwrap_or(self.patience);
            if end.is_some() {
                return end;
            }
        }
        // Requests that the last block has left in flight count in no figure either.
        self.flight.give_up(Ticks::NEVER, 0, false, &self.stalls, |_| ());
        None
    }

    /// Stands still while the run is paused; due times and the timeout move with it. Returns the length of the pause in ticks.
    fn stand_still(&mut self) -> io::Result<u64> {
        let since = self.clock.now();
        self.between.pause()?;
        let ticks = self.clock.now().since(since);
        self.pace.timetable_mut().into_iter().for_each(|table| table.stand_still(ticks));
        self.pass_over(since);
        self.paused = self.paused.plus(ticks);
        Ok(ticks)
    }

    /// Meets the other side's core after a block, where that delays no request past its due time. A closed loop does it by
    /// transactions of its own; a paced loop has called with its last request; an open loop always has requests, so it meets the
    /// core before the first block only.
    fn after_block(&mut self, over: &mut dyn Over<C>) -> Option<u64> {
        match self.pace {
            Pace::Closed => self.neighbour(over),
            Pace::Every(_) if std::mem::take(&mut self.called) => self.between.meet_neighbour(),
            Pace::Every(_) | Pace::Open(_) => None,
        }
    }

    /// Meets the other side's core: calls it, lets it see the call through an untimed transaction, measures, and settles again.
    fn neighbour(&mut self, over: &mut dyn Over<C>) -> Option<u64> {
        // A wait in vain here must not count as silence in the next block, so there is none with a dead peer.
        if !self.answered || !self.between.call_neighbour() {
            return None;
        }
        // The stamps still hold the samples to publish next.
        let (kept, counts, silence) = (self.kept, self.counts, self.silence);
        self.untimed(over, 1);
        let core_rtt = self.between.meet_neighbour();
        if !self.dead && !matches!(self.pace, Pace::Every(_)) {
            self.untimed(over, SETTLE);
        }
        // Late replies and duplicates of measured requests may have arrived meanwhile.
        self.uncounted += self.counts.sent - counts.sent;
        self.counts = Counts { sent: counts.sent, lost: counts.lost, reordered: counts.reordered, ..self.counts };
        (self.kept, self.silence) = (kept, silence);
        over.fold(false);
        core_rtt
    }

    /// Receives one message at most, outside of a block.
    #[inline(never)]
    pub(super) fn receive_one(&mut self, over: &mut dyn Over<C>, until: Ticks) -> io::Result<()> {
        self.receive(over, until)?;
        self.looked(self.clock.now());
        Ok(())
    }

    /// Runs `count` transactions whose samples are dropped; a failure here recurs, and is reported, in the next block.
    #[inline(never)]
    fn untimed(&mut self, over: &mut dyn Over<C>, count: u32) {
        for _ in 0..count {
            // An index past the end of the stamps keeps nothing.
            self.kept = usize::MAX;
            let now = self.clock.now();
            let deadline = now.plus(if self.lossy { self.patience.min(self.timeout) } else { self.timeout });
            self.last_reply = now;
            self.last_stamp = now;
            self.look_after(now);
            let sequence = self.flight.next(0).sequence;
            if !self.send(over, 0, None, self.work.request).unwrap_or(false) {
                break;
            }
            while self.flight.live() > 0 && self.clock.now() < deadline && !self.between.stopped() {
                let until = deadline.min(self.clock.now().plus(self.clock.to_ticks(TURN_NS)));
                if self.receive_one(over, until).is_err() {
                    break;
                }
            }
            if self.flight.give_up(Ticks::NEVER, 0, false, &self.stalls, |_| ()).0 > 0 {
                self.answered = false;
                self.dead |= !self.lossy && self.clock.now() >= deadline;
                break;
            }
            let rtt = self.last_reply.since(now);
            if self.answered && rtt >= self.clock.to_ticks(STALLED_NS) {
                self.stalled = Some(Stamp { due: now, sent: now, rtt, sequence, flow: 0 });
            }
        }
    }
}
