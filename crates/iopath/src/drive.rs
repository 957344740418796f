//! The only measuring loop: sends, waits, takes stamps, and keeps samples in memory allocated beforehand.
//!
//! ```text
//!   warm-up blocks │ gap │ block │ gap │ block │ gap │ …          a block: 65,536 transactions or 100 ms
//!                          │       └ fold samples, publish, ask the neighbouring core how far it is: counted in gap_ns
//!                          └ per transaction:  start stamp → send … receive → stop stamp → classify → keep
//! ```
//! The closed loop is in this file; `paced` and `open` send at due times, and `overdue` handles late and missing replies.
//! Inside a block nothing allocates, locks, logs or formats. The path is a type; the pace is a value matched once per block; wait
//! policy and clock are values whose branches are predicted.

mod content;
mod flight;
mod given_up;
mod open;
#[cfg(test)]
mod open_tests;
mod overdue;
mod paced;
#[cfg(test)]
mod script;
#[cfg(test)]
mod served;
mod silence;
#[cfg(test)]
mod stall_tests;
#[cfg(test)]
mod tests;
mod work;

use std::io;

use hairpin_record::histogram::Times;
use hairpin_record::recorder::{BlockFacts, Recorder, Sample};
use hairpin_sys::clock::{Clock, Relation, Ticks};
use hairpin_units::{Nanos, Quantile};
use hairpin_wire::probe;

use self::content::{fill_pattern, is_sound};
use self::flight::{Flight, Stray};
use self::overdue::Overdue;
use self::silence::Silences;
pub use self::work::{BetweenBlocks, Counts, LoopEnd, LoopResult, Work};
use crate::endpoint::Endpoint;
pub use crate::pace::BLOCK_TRANSACTIONS;
use crate::pace::{Pace, Timetable};
use crate::stalls::Stalls;

/// A block ends after [`BLOCK_TRANSACTIONS`], or after this time in ns.
pub const BLOCK_NS: u64 = 100_000_000;
/// The rate must have been watched for this long before a disagreement counts, in ns.
const CLOCK_BASELINE_NS: u64 = 200_000_000;
/// Shortest wait before a datagram is given up, in ns …
const LEAST_PATIENCE_NS: u64 = 10_000_000;
/// … and in an open loop, which needs no room for the next request: the longer it waits, the fewer answers come late.
const OPEN_PATIENCE_NS: u64 = 100_000_000;
/// Patience before the first round trip is known, in ns: the initial retransmission timeout of RFC 6298.
const FIRST_PATIENCE_NS: u64 = 1_000_000_000;
/// Untimed transactions after each gap, in which caches, branch predictors and the other side settle.
const SETTLE: u32 = 4;
/// An untimed transaction that takes longer than this, in ns, met a stall and is measured after all.
const STALLED_NS: u64 = 1_000_000;
/// Interval between looks at the stop flag while nothing is received, in ns.
const TURN_NS: u64 = 10_000_000;
/// The same interval while no request is due: longer, as each look wakes the core.
const IDLE_TURN_NS: u64 = 100_000_000;
/// A wait that overruns its deadline by this much means that this process or the whole machine was stopped, in ns.
const STOP_NS: u64 = 100_000_000;
/// Requests that were due before the run's end may still be sent for this long afterwards, in ns.
const CATCH_UP_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Default)]
struct Stamp {
    due: Ticks,
    sent: Ticks,
    rtt: u64,
    sequence: u32,
    flow: u32,
}

/// Reason for a block to end early.
enum Cut {
    Stopped,
    Failed(io::Error),
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Cut {
        Cut::Failed(error)
    }
}

/// Limits of a block.
#[derive(Clone, Copy)]
struct Limits {
    /// End of the block.
    block: Ticks,
    /// End of the run; idle time ends here too.
    ends: Ticks,
    /// Transactions left.
    budget: usize,
}

/// The loop without its endpoint, so that code which needs no endpoint is compiled once for all paths.
struct Loop<'a, C> {
    clock: &'a C,
    pace: Pace,
    between: &'a mut dyn BetweenBlocks,
    work: Work,
    mask: u32,
    /// Request and reply are both long enough for a cookie.
    proven: bool,
    /// The path may drop a message.
    lossy: bool,
    flight: Flight,
    stamps: Vec<Stamp>,
    kept: usize,
    counts: Counts,
    /// Requests sent that do not count in the figures.
    uncounted: u64,
    patience: u64,
    timeout: u64,
    /// Next time to check deadlines and the stop flag …
    look_at: Ticks,
    /// … and next time to check every request in flight.
    walk_at: Ticks,
    last_reply: Ticks,
    last_stamp: Ticks,
    /// End of the last block.
    paused: Ticks,
    /// The last request to end was answered, not given up.
    answered: bool,
    silence: u64,
    /// This long without a look means that the process was stopped.
    stop_least: u64,
    silences: Silences,
    /// End of the last silence: only replies to requests sent before it can belong to that silence.
    silent_until: Ticks,
    /// Requests with a due time that were answered late or not at all.
    overdue: Vec<Overdue>,
    /// Length of the blocks that count in no figure, in ticks.
    left_out: u64,
    /// An untimed transaction that met a stall, measured after all.
    stalled: Option<Stamp>,
    /// The other core has been called; the loop meets it after this block.
    called: bool,
    /// Stalls seen by an open loop that spins.
    stalls: Stalls,
}

/// Runs `work` over `endpoint` and returns the result, however the run ended.
pub fn drive<E: Endpoint, C: Clock>(
    endpoint: &mut E,
    clock: &C,
    pace: Pace,
    work: Work,
    between: &mut dyn BetweenBlocks,
) -> LoopResult {
    let mask = probe::sequence_mask(work.request.min(work.reply));
    let now = clock.now();
    let is_open = matches!(pace, Pace::Open(_));
    let mut this = Loop {
        clock,
        pace,
        between,
        work,
        mask,
        proven: work.request.min(work.reply) >= probe::LEN,
        flight: Flight::new(work.flows, work.outstanding, mask, E::LOSSY),
        lossy: E::LOSSY,
        stamps: Vec::new(),
        kept: 0,
        counts: Counts::default(),
        uncounted: 0,
        patience: clock.to_ticks(FIRST_PATIENCE_NS),
        timeout: clock.to_ticks(work.timeout_ns),
        look_at: now,
        walk_at: now,
        last_reply: now,
        last_stamp: now,
        paused: now,
        answered: true,
        silence: 0,
        stop_least: clock.to_ticks(STOP_NS + work.overstays_ns),
        silences: Silences::new(clock),
        silent_until: Ticks(0),
        overdue: Vec::new(),
        left_out: 0,
        stalled: None,
        called: false,
        stalls: Stalls::new(clock, is_open),
    };
    // Touch every page now, so that no page fault happens inside a block.
    this.stamps.resize(BLOCK_TRANSACTIONS, Stamp::default());
    if this.pace.timetable().is_some() {
        this.overdue = vec![Overdue::default(); BLOCK_TRANSACTIONS];
        this.overdue.clear();
    }
    this.run(endpoint)
}

impl<C: Clock> Loop<'_, C> {
    fn run<E: Endpoint>(mut self, endpoint: &mut E) -> LoopResult {
        self.between.starts();
        let origin = Relation::read(self.clock);
        let mut end = self.warm_up(endpoint);
        let mut core_rtt = if end.is_none() { self.neighbour(endpoint) } else { None };
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
        let ends = self.work.duration_ns.map_or(Ticks::NEVER, |ns| began.plus(self.clock.to_ticks(ns)));
        self.pace.timetable_mut().into_iter().for_each(|table| table.begin(began, ends));
        self.paused = began;
        let mut last = Relation::read(self.clock);
        let mut busy = 0;
        let mut early = None;
        while end.is_none() {
            end = self.over(&recorder, began, ends);
            if end.is_some() {
                break;
            }
            let before = Relation::read(self.clock);
            let left = self.work.count.map_or(u64::MAX, |count| count - recorder.rtt().count());
            self.between.begins_block();
            let (start, result) = self.block(endpoint, ends, left);
            self.between.ends_block(self.kept as u64);
            let length = self.last_stamp.since(start);
            last = Relation::read(self.clock);
            end = result;
            endpoint.fold(true);
            let known = before.raw_ns.saturating_sub(origin.raw_ns) >= CLOCK_BASELINE_NS;
            if known && early.is_none() {
                early = Some(last);
            }
            let next_rtt = if end.is_none() { self.after_block(endpoint) } else { None };
            let facts = BlockFacts {
                at_ns: self.clock.to_ns(start.since(began)),
                length_ns: self.clock.to_ns(length),
                core_rtt_ns: core_rtt.max(next_rtt),
                clock_suspect: known && last.disagrees(&origin, &before),
            };
            core_rtt = next_rtt;
            let counted = !self.between.leaves_out();
            *(if counted { &mut busy } else { &mut self.left_out }) += length;
            if let Err(error) = self.publish(&mut recorder, facts, began, counted) {
                end = Some(LoopEnd::Failed(error));
            }
        }
        let end = end.unwrap_or(LoopEnd::Done);
        if timed {
            self.close_accounts(endpoint, &mut recorder, began, ends, &end);
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
    fn over(&self, recorder: &Recorder, began: Ticks, ends: Ticks) -> Option<LoopEnd> {
        let transactions = recorder.rtt().count();
        if self.work.count.is_some_and(|count| transactions >= count) {
            return Some(LoopEnd::Done);
        }
        if self.pace.timetable().is_some_and(Timetable::is_over) {
            return Some(LoopEnd::Done);
        }
        let now = self.clock.now();
        if now >= ends && !self.catches_up(now, ends) {
            if self.counts.sent == 0 || transactions > 0 {
                return Some(LoopEnd::Done);
            }
            // Without a single reply there is nothing to report. A peer that stands still for longer than a short run is not dead yet: a closed loop sends on
            // until one reply comes, or the timeout passes.
            let sends_on = matches!(self.pace, Pace::Closed) && now < ends.plus(self.timeout);
            if !sends_on {
                return Some(LoopEnd::Failed(self.silent(self.clock.to_ns(now.since(began)))));
            }
        }
        self.between.stopped().then_some(LoopEnd::Stopped)
    }

    /// True if requests that were due before the end are still to be sent.
    fn catches_up(&self, now: Ticks, ends: Ticks) -> bool {
        let waits = self.pace.timetable().is_some_and(|table| table.next().at != Ticks::NEVER);
        waits && now < ends.plus(self.clock.to_ticks(CATCH_UP_NS))
    }

    /// Folds the samples of a block, if they are `counted`, and passes them on.
    fn publish(&mut self, recorder: &mut Recorder, facts: BlockFacts, began: Ticks, counted: bool) -> io::Result<()> {
        let stamps = &self.stamps[..self.kept];
        if counted {
            recorder.fold(facts, samples(self.clock, &self.stalls, stamps, began));
            self.fold_overdue(recorder);
        } else {
            self.overdue.clear();
        }
        self.counts.longest_silence_ns = self.clock.to_ns(self.silence);
        self.patience = self.patience_after(recorder.rtt()).unwrap_or(self.patience);
        self.between.block(recorder, &self.counts, &mut samples(self.clock, &self.stalls, &self.stamps[..self.kept], began))
    }

    /// Runs blocks that are discarded, so that the first measured block finds everything warm.
    fn warm_up<E: Endpoint>(&mut self, endpoint: &mut E) -> Option<LoopEnd> {
        let began = self.clock.now();
        let ends = began.plus(self.clock.to_ticks(self.work.warmup_ns));
        self.pace.timetable_mut().into_iter().for_each(|table| table.begin(began, ends));
        let mut rtt = Times::new();
        while self.clock.now() < ends {
            if self.between.stopped() {
                return Some(LoopEnd::Stopped);
            }
            let (_, end) = self.block(endpoint, ends, u64::MAX);
            endpoint.fold(false);
            self.stamps[..self.kept].iter().for_each(|stamp| rtt.record(self.clock.to_ns(stamp.rtt)));
            self.patience = self.patience_after(&rtt).unwrap_or(self.patience);
            if end.is_some() {
                return end;
            }
        }
        None
    }

    /// Meets the other side's core after a block, where that delays no request past its due time. A closed loop does it by
    /// transactions of its own; a paced loop has called with its last request; an open loop always has requests, so it meets the
    /// core before the first block only.
    fn after_block<E: Endpoint>(&mut self, endpoint: &mut E) -> Option<u64> {
        match self.pace {
            Pace::Closed => self.neighbour(endpoint),
            Pace::Every(_) if std::mem::take(&mut self.called) => self.between.meet_neighbour(),
            Pace::Every(_) | Pace::Open(_) => None,
        }
    }

    /// Meets the other side's core: calls it, lets it see the call through an untimed transaction, measures, and settles again.
    fn neighbour<E: Endpoint>(&mut self, endpoint: &mut E) -> Option<u64> {
        // A wait in vain here must not count as silence in the next block, so there is none with a dead peer.
        if !self.answered || !self.between.call_neighbour() {
            return None;
        }
        // The stamps still hold the samples to publish next.
        let (kept, counts, silence) = (self.kept, self.counts, self.silence);
        self.untimed(endpoint, 1);
        let core_rtt = self.between.meet_neighbour();
        if !matches!(self.pace, Pace::Every(_)) {
            self.untimed(endpoint, SETTLE);
        }
        // Late replies and duplicates of measured requests may have arrived meanwhile.
        self.uncounted += self.counts.sent - counts.sent;
        self.counts = Counts { sent: counts.sent, lost: counts.lost, reordered: counts.reordered, ..self.counts };
        (self.kept, self.silence) = (kept, silence);
        endpoint.fold(false);
        core_rtt
    }

    /// Runs `count` transactions whose samples are dropped; a failure here recurs, and is reported, in the next block.
    fn untimed<E: Endpoint>(&mut self, endpoint: &mut E, count: u32) {
        for _ in 0..count {
            // An index past the end of the stamps keeps nothing.
            self.kept = usize::MAX;
            let now = self.clock.now();
            let deadline = now.plus(if self.lossy { self.patience.min(self.timeout) } else { self.timeout });
            self.last_reply = now;
            self.last_stamp = now;
            self.look_after(now);
            let sequence = self.flight.next(0).sequence;
            if !self.send_apart(endpoint, 0, None, self.work.request).unwrap_or(false) {
                break;
            }
            while self.flight.live() > 0 && self.clock.now() < deadline && !self.between.stopped() {
                let until = deadline.min(self.clock.now().plus(self.clock.to_ticks(TURN_NS)));
                if self.receive_apart(endpoint, until).is_err() {
                    break;
                }
            }
            if self.flight.give_up(Ticks::NEVER, 0, false, |_| ()).0 > 0 {
                self.answered = false;
                break;
            }
            let rtt = self.last_reply.since(now);
            if self.answered && rtt >= self.clock.to_ticks(STALLED_NS) {
                self.stalled = Some(Stamp { due: now, sent: now, rtt, sequence, flow: 0 });
            }
        }
    }

    /// Runs one block of at most `left` transactions until `ends`. Returns its start, and the reason for the run to end, if any.
    fn block<E: Endpoint>(&mut self, endpoint: &mut E, ends: Ticks, left: u64) -> (Ticks, Option<LoopEnd>) {
        self.kept = 0;
        self.pace.timetable_mut().into_iter().for_each(Timetable::fill);
        let start = self.clock.now();
        self.pace.timetable_mut().into_iter().for_each(|table| table.resume(self.paused, start));
        self.pass_over(self.paused);
        self.last_stamp = start;
        self.look_after(start);
        let mut budget = left.min(self.work.block.min(BLOCK_TRANSACTIONS) as u64) as usize;
        if let Some(stamp) = self.stalled.take().filter(|_| budget > 0) {
            self.stamps[0] = stamp;
            (self.kept, budget) = (1, budget - 1);
            self.counts.sent += 1;
            self.uncounted -= 1;
        }
        let limit = match self.pace {
            _ if start < ends => ends,
            Pace::Closed => {
                budget = budget.min(1);
                Ticks::NEVER
            }
            Pace::Every(_) | Pace::Open(_) => ends.plus(self.clock.to_ticks(CATCH_UP_NS)),
        };
        let limits = Limits { block: limit.min(start.plus(self.clock.to_ticks(BLOCK_NS))), ends, budget };
        let result = match self.pace {
            Pace::Closed => self.closed_block(endpoint, limits),
            Pace::Every(_) => self.paced_block(endpoint, limits),
            Pace::Open(_) => self.open_block(endpoint, limits),
        };
        let end = match result {
            Ok(()) => None,
            Err(Cut::Stopped) => Some(LoopEnd::Stopped),
            Err(Cut::Failed(error)) => Some(LoopEnd::Failed(error)),
        };
        self.paused = self.clock.now();
        (start, end)
    }

    /// Keeps `outstanding` requests in flight on every flow until the block ends, then receives the last replies.
    fn closed_block<E: Endpoint>(&mut self, endpoint: &mut E, limits: Limits) -> Result<(), Cut> {
        let most = self.work.flows * self.work.outstanding;
        let (mut left, mut flow) = (limits.budget, 0);
        loop {
            let mut full = false;
            // One iteration per reply; more at the start, after losses, and after the path was full.
            while left > 0 && self.flight.live() < most && self.last_stamp < limits.block {
                flow = self.flight.with_room(flow);
                if !self.send(endpoint, flow, None, self.work.request)? {
                    full = true;
                    break;
                }
                left -= 1;
                flow = if flow + 1 == self.work.flows { 0 } else { flow + 1 };
            }
            if self.flight.live() == 0 && !full {
                return Ok(());
            }
            // On a full path one attempt to receive makes room.
            let until = if full { self.last_stamp } else { self.look_at };
            match self.receive(endpoint, until)? {
                Some(answered) => flow = answered,
                None => self.turn()?,
            }
        }
    }

    /// Sends one request of `len` bytes; `false` if the path is full.
    #[inline(always)]
    fn send<E: Endpoint>(&mut self, endpoint: &mut E, flow: u32, due: Option<Ticks>, len: usize) -> io::Result<bool> {
        let place = self.flight.next(flow);
        let sequence = place.sequence;
        let (cookie, verify) = (self.work.cookie, self.work.verify);
        let fill = |payload: &mut [u8]| {
            probe::write(payload, sequence, cookie);
            if verify {
                fill_pattern(payload, sequence);
            }
        };
        let sent = self.clock.start();
        endpoint.begins(sent);
        if !endpoint.send(flow, len, fill)? {
            return Ok(false);
        }
        self.flight.launch(flow, place, sent, due.unwrap_or(sent));
        self.counts.sent += 1;
        Ok(true)
    }

    /// Receives one message and classifies it. Returns the flow on which a request was answered; `None` if no message arrived, or
    /// if it answered no request.
    #[inline(always)]
    fn receive<E: Endpoint>(&mut self, endpoint: &mut E, until: Ticks) -> io::Result<Option<u32>> {
        let Some(reply) = endpoint.recv(until)? else { return Ok(None) };
        let now = self.clock.stop();
        let flow = reply.flow;
        let carried = probe::sequence(reply.bytes) & self.mask;
        let sound = is_sound(&reply, &self.work, self.proven);
        let Some((place, slot)) = self.flight.waiting(flow, carried).filter(|_| sound) else {
            let opening = probe::is_opening(reply.bytes, self.work.cookie);
            if !opening {
                self.stray(flow, carried, sound, now)?;
            }
            return Ok(None);
        };
        if let Some(stamp) = self.stamps.get_mut(self.kept) {
            *stamp = Stamp { due: slot.due, sent: slot.sent, rtt: now.since(slot.sent), sequence: place.sequence, flow };
            self.kept += 1;
        }
        self.counts.reordered += u64::from(self.flight.land(flow, place));
        self.heard(slot.sent, now);
        endpoint.received(flow, now)?;
        if now >= self.look_at {
            self.look()?;
        }
        Ok(Some(flow))
    }

    /// [`send`](Loop::send) outside the closed and the open block, compiled once: a call costs nothing compared with the idle
    /// time around it.
    #[inline(never)]
    fn send_apart<E: Endpoint>(&mut self, endpoint: &mut E, flow: u32, due: Option<Ticks>, len: usize) -> io::Result<bool> {
        self.send(endpoint, flow, due, len)
    }

    /// The same for [`receive`](Loop::receive).
    #[inline(never)]
    fn receive_apart<E: Endpoint>(&mut self, endpoint: &mut E, until: Ticks) -> io::Result<Option<u32>> {
        self.receive(endpoint, until)
    }

    /// Handles a message that answers no request in flight.
    #[cold]
    fn stray(&mut self, flow: u32, carried: u32, sound: bool, now: Ticks) -> io::Result<()> {
        match if sound { self.flight.stray(flow, carried) } else { Stray::Corrupt } {
            Stray::Late(request) => {
                self.counts.late += 1;
                self.heard(request.sent, now);
                self.keep_overdue(Overdue::late(request.sent, request.due, now));
            }
            Stray::Duplicate => self.counts.duplicates += 1,
            Stray::Before => {}
            Stray::Corrupt => {
                self.counts.corrupt += 1;
                if !self.lossy {
                    // A stream that is wrong once stays wrong, and the request would wait for ever.
                    let text =
                        "a reply is not the answer to its request: wrong length, cookie or content; is the peer an echo service?";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(())
    }

    /// Called when no message, or no useful one, arrived: checks the stop flag and every deadline.
    #[cold]
    fn turn(&mut self) -> Result<(), Cut> {
        if self.between.stopped() {
            return Err(Cut::Stopped);
        }
        self.counts.waits_in_vain += 1;
        let now = self.clock.now();
        self.looked(now);
        Ok(self.look()?)
    }

    /// Gives up requests that have waited too long, and detects a dead peer.
    #[cold]
    fn look(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        if self.lossy && now >= self.walk_at {
            let (overdue, timed) = (&mut self.overdue, self.pace.timetable().is_some());
            let (lost, oldest) = self.flight.give_up(now, self.patience, true, |request| {
                if timed && overdue.len() < overdue.capacity() {
                    overdue.push(Overdue::unanswered(request.sent, request.due, now));
                }
            });
            self.counts.lost += u64::from(lost);
            self.answered &= lost == 0;
            // Wait at least a quarter of the patience before the next walk, so that not every turn walks the table.
            self.walk_at = oldest.min(now).plus(self.patience).max(now.plus(self.patience / 4));
        }
        if now.since(self.last_reply) >= self.timeout {
            return Err(self.silent(self.work.timeout_ns));
        }
        self.look_at = self.next_look(now);
        Ok(())
    }

    /// Sets the next look as late as allowed, with nothing in flight.
    fn look_after(&mut self, now: Ticks) {
        self.walk_at = if self.lossy { now.plus(self.patience) } else { Ticks::NEVER };
        self.look_at = self.next_look(now);
    }

    fn next_look(&self, now: Ticks) -> Ticks {
        now.plus(self.clock.to_ticks(TURN_NS)).min(self.walk_at).min(self.last_reply.plus(self.timeout))
    }

    #[cold]
    fn silent(&self, ns: u64) -> io::Error {
        let why = match self.counts.corrupt {
            0 => "the peer is dead, or something between drops its packets".into(),
            strange => format!("{strange} messages came that answer nothing; is the peer an echo service?"),
        };
        let text = format!("no reply for {}: {why}", Nanos(ns));
        io::Error::new(io::ErrorKind::TimedOut, text)
    }

    /// Time to wait for a datagram, in ticks, from the round trips so far.
    fn patience_after(&self, rtt: &Times) -> Option<u64> {
        let slow = rtt.quantile(Quantile::P999).unwrap_or(rtt.max());
        let least = match &self.pace {
            Pace::Closed => LEAST_PATIENCE_NS,
            // The table needs its room only when the next request is due.
            Pace::Every(table) => LEAST_PATIENCE_NS.max(table.mean_interval_ns() as u64),
            Pace::Open(_) => OPEN_PATIENCE_NS,
        };
        (rtt.count() > 0).then(|| self.clock.to_ticks(slow.saturating_mul(10).max(least)))
    }

    /// Excludes the time since `since` from the peer's silence.
    fn pass_over(&mut self, since: Ticks) {
        let now = self.clock.now();
        self.last_reply = self.last_reply.plus(now.since(since)).min(now);
    }
}

fn samples<'a, C: Clock>(
    clock: &'a C,
    stalls: &'a Stalls,
    stamps: &'a [Stamp],
    began: Ticks,
) -> impl Iterator<Item = Sample> + 'a {
    stamps.iter().map(move |stamp| Sample {
        stalled: stalls.holds(stamp.due),
        due_ns: clock.to_ns(stamp.due.since(began)),
        sent_ns: clock.to_ns(stamp.sent.since(began)),
        rtt_ns: clock.to_ns(stamp.rtt),
        sequence: stamp.sequence,
        flow: stamp.flow,
    })
}
