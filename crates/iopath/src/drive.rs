//! The measuring loop of all paths: sends, waits, takes stamps, and keeps samples in memory allocated beforehand. `group` has a
//! loop of its own, because a request to a group has several replies.
//!
//! ```text
//!   warm-up blocks │ gap │ block │ gap │ block │ gap │ …          a block: 65,536 transactions or 100 ms, more with many flows
//!                          │       └ fold samples, publish, ask the neighbouring core how far it is: counted in gap_ns
//!                          └ per transaction:  start stamp → send … receive → stop stamp → classify → keep
//! ```
//! The closed loop is in this file and the run around the blocks in `run`; `paced` and `open` send at due times, and `overdue`
//! handles late and missing replies. Inside a block nothing allocates, locks, logs or formats. The path is a type; loops with due
//! times call it through a table, so they are compiled once. The pace is a value matched once per block; wait policy and clock
//! are values whose branches are predicted.

mod flight;
mod given_up;
mod open;
#[cfg(test)]
mod open_tests;
mod overdue;
mod paced;
mod run;
#[cfg(test)]
mod script;
#[cfg(test)]
mod served;
pub(crate) mod silence;
#[cfg(test)]
mod stall_tests;
#[cfg(test)]
mod tests;
mod work;

use std::io;

use hairpin_record::histogram::Times;
use hairpin_record::recorder::Sample;
use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::code;
use hairpin_units::{Nanos, Quantile};
use hairpin_wire::probe;

use self::flight::{Flight, Stray};
use self::overdue::Overdue;
pub(crate) use self::run::CLOCK_BASELINE_NS;
use self::run::Over;
use self::silence::Silences;
pub use self::work::{BetweenBlocks, Counts, LoopEnd, LoopResult, Work};
use crate::content::Content;
use crate::endpoint::Endpoint;
pub use crate::pace::BLOCK_TRANSACTIONS;
use crate::pace::{Pace, Timetable};
use crate::stalls::Stalls;

/// A block ends after [`BLOCK_TRANSACTIONS`], or after this time in ns …
pub const BLOCK_NS: u64 = 100_000_000;
/// … for every `BLOCK_IN_FLIGHT` requests that a closed loop has in flight: a block begins and ends with none in flight, and a
/// measurement of many flows should spend little time in that state.
const BLOCK_IN_FLIGHT: u64 = 1024;
/// The time of a block is at most `LONGEST_BLOCK` × [`BLOCK_NS`], because progress is told between blocks only.
const LONGEST_BLOCK: u64 = 20;
/// Shortest wait before a datagram is given up, in ns …
pub(crate) const LEAST_PATIENCE_NS: u64 = 10_000_000;
/// … and in an open loop, which needs no room for the next request: the longer it waits, the fewer answers come late.
const OPEN_PATIENCE_NS: u64 = 100_000_000;
/// Patience before the first round trip is known, in ns: the initial retransmission timeout of RFC 6298.
pub(crate) const FIRST_PATIENCE_NS: u64 = 1_000_000_000;
/// Interval between looks at the stop flag while nothing is received, in ns.
pub(crate) const TURN_NS: u64 = 10_000_000;
/// The same interval while no request is due: longer, as each look wakes the core.
pub(crate) const IDLE_TURN_NS: u64 = 100_000_000;
/// Longest sleep of a client on a full path that may have a reply to come, in ns: replies end it, and so it delays none of them.
const FULL_NS: u64 = 100_000;
/// The kernel's clock may end a wait this much too early, in ns: its rate is adjusted, by 500 ppm at most (adjtimex(2)).
const EARLY_NS: u64 = IDLE_TURN_NS / 2_000;
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
    /// Requests due later than this had no turn.
    Stopped(Ticks),
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
    /// Length of a block, in ticks.
    longest_block: u64,
    patience: u64,
    timeout: u64,
    /// A wait for a reply may last this long past the next look, in ticks: a timer that runs out before the CPU's next tick has
    /// to be set with every sleep (redis: 5 % of a transaction; runs/2026-11-27-vm/requests/epoll-timeout.txt).
    grace: u64,
    /// Next time to check deadlines and the stop flag …
    look_at: Ticks,
    /// … and next time to check every request in flight.
    walk_at: Ticks,
    /// Replies that came before this time are received before the next walk, which gives up only what was too old by then.
    heard_to: Ticks,
    /// A look that comes later than this, in ticks, tells that this core stood still: replies may lie in the path.
    late_look: u64,
    last_reply: Ticks,
    last_stamp: Ticks,
    /// End of the last block.
    paused: Ticks,
    /// The last request to end was answered, not given up.
    answered: bool,
    silence: u64,
    /// Time without a look, in ticks, from which on the process counts as stopped.
    stop_least: u64,
    silences: Silences,
    /// End of the last silence: only replies to requests sent before it can belong to that silence.
    silent_until: Ticks,
    /// Requests with a due time that were answered late or not at all.
    overdue: Vec<Overdue>,
    /// Pauses, and the blocks that count in no figure, in ticks.
    left_out: u64,
    /// An untimed transaction that met a stall, measured after all.
    stalled: Option<Stamp>,
    /// The other core has been called; the loop meets it after this block.
    called: bool,
    /// Stalls seen by an open loop that spins.
    stalls: Stalls,
    /// A peer that never drops a message has not answered for the whole timeout, between two blocks.
    dead: bool,
    /// Requests due later than this had no turn before the run was stopped.
    stopped_at: Ticks,
}

/// Runs `work` over `endpoint` and returns the result, however the run ended.
pub fn drive<E: Endpoint, C: Clock>(
    endpoint: &mut E,
    clock: &C,
    pace: Pace,
    work: Work,
    between: &mut dyn BetweenBlocks,
) -> LoopResult {
    let lossy = endpoint.is_lossy();
    Loop::new(clock, pace, work, between, lossy).run(endpoint)
}

impl<'a, C: Clock> Loop<'a, C> {
    fn new(clock: &'a C, pace: Pace, work: Work, between: &'a mut dyn BetweenBlocks, lossy: bool) -> Loop<'a, C> {
        let mask = probe::sequence_mask(work.request.min(work.reply));
        let now = clock.now();
        let is_open = matches!(pace, Pace::Open(_));
        let in_flight = if matches!(pace, Pace::Closed) { u64::from(work.flows) * u64::from(work.outstanding) } else { 1 };
        // One lost datagram is no dead peer; several in turn are. Random intervals may be much longer than their mean.
        let several = match pace.timetable().filter(|_| lossy) {
            Some(table) => table.mean_interval_ns() * if table.varies() { 30.0 } else { 4.0 },
            None => 0.0,
        };
        let timeout = clock.to_ticks(work.timeout_ns.max(several as u64));
        let mut this = Loop {
            clock,
            pace,
            between,
            work,
            mask,
            proven: work.request.min(work.reply) >= probe::LEN,
            flight: Flight::new(work.flows, work.outstanding, mask, lossy),
            lossy,
            stamps: Vec::new(),
            kept: 0,
            counts: Counts::default(),
            uncounted: 0,
            longest_block: clock.to_ticks(BLOCK_NS * in_flight.div_ceil(BLOCK_IN_FLIGHT).min(LONGEST_BLOCK)),
            patience: clock.to_ticks(FIRST_PATIENCE_NS).min(timeout / 2),
            timeout,
            grace: clock.to_ticks(work.overstays_ns.min(TURN_NS)),
            look_at: now,
            walk_at: now,
            heard_to: now,
            late_look: clock.to_ticks(work.late_look_ns()),
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
            dead: false,
            stopped_at: Ticks::NEVER,
        };
        // Touch every page now, so that no page fault happens inside a block.
        this.stamps.resize(work.block, Stamp::default());
        if this.pace.timetable().is_some() {
            this.overdue = vec![Overdue::default(); BLOCK_TRANSACTIONS];
            this.overdue.clear();
        }
        this
    }
}

impl<C: Clock> Loop<'_, C> {
    /// Writes out the due times of the next block. May move a megabyte, so no CPU time of the block is counted yet.
    fn write_due_times(&mut self) {
        self.pace.timetable_mut().into_iter().for_each(Timetable::fill);
    }

    /// Runs one block of at most `left` transactions until `ends`; its due times are written out. Returns its start, and the
    /// reason for the run to end, if any.
    fn block(&mut self, over: &mut dyn Over<C>, ends: Ticks, left: u64) -> (Ticks, Option<LoopEnd>) {
        if self.kept > 0 {
            self.flight.given_up.late_since = None;
        }
        self.kept = 0;
        let start = self.clock.now();
        self.pace.timetable_mut().into_iter().for_each(|table| table.resume(self.paused, start));
        self.pass_over(self.paused);
        self.last_stamp = start;
        self.look_after(start);
        // Requests that the last block of an open loop has left in flight give samples of this one.
        let mut budget = (left.min(self.work.block as u64) as usize).saturating_sub(self.flight.live() as usize);
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
        let limits = Limits { block: limit.min(start.plus(self.longest_block)), ends, budget };
        let result = match self.pace {
            Pace::Closed => over.closed_block(self, limits),
            Pace::Every(_) => self.paced_block(over, limits),
            Pace::Open(_) => self.open_block(over, limits),
        };
        let end = match result {
            Ok(()) => None,
            Err(Cut::Stopped(at)) => {
                self.stopped_at = at;
                self.receive_last(over);
                Some(LoopEnd::Stopped)
            }
            Err(Cut::Failed(error)) => Some(LoopEnd::Failed(error)),
        };
        self.paused = self.clock.now();
        (start, end)
    }

    /// Keeps `outstanding` requests in flight on every flow until the block ends, then receives the last replies.
    fn closed_block<E: Endpoint>(&mut self, endpoint: &mut E, limits: Limits) -> Result<(), Cut> {
        code::begins_on_a_line();
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
            let until = if full { self.full_until() } else { self.look_at.plus(self.grace) };
            match self.receive(endpoint, until)? {
                Some(answered) => flow = answered,
                None => self.turn(until)?,
            }
        }
    }

    /// End of the wait for a reply on a full path: one attempt to receive makes room, or the next reply for a thread that sleeps.
    #[cold]
    fn full_until(&self) -> Ticks {
        self.clock.now().plus(self.clock.to_ticks(self.work.overstays_ns.min(FULL_NS)))
    }

    /// Sends one request of `len` bytes; `false` if the path is full.
    #[inline(always)]
    fn send<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E, flow: u32, due: Option<Ticks>, len: usize) -> io::Result<bool> {
        let place = self.flight.next(flow);
        let content = Content { sequence: place.sequence, cookie: self.work.cookie, verify: self.work.verify };
        endpoint.prepare(len, content);
        let sent = self.clock.start();
        endpoint.begins(sent);
        if !endpoint.send(flow, len, content)? {
            return Ok(false);
        }
        self.flight.launch(flow, place, sent, due.unwrap_or(sent));
        self.counts.sent += 1;
        self.forgive_wait(endpoint);
        Ok(true)
    }

    /// The time of a call that waited for the peer is no stop of this process.
    #[inline(always)]
    fn forgive_wait<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E) {
        if !self.lossy && endpoint.has_waited() {
            self.forgive();
        }
    }

    #[cold]
    fn forgive(&mut self) {
        self.last_stamp = self.last_stamp.max(self.clock.now());
    }

    /// Receives one message and classifies it. Returns the flow on which a request was answered; `None` if no message arrived, or
    /// if it answered no request.
    #[inline(always)]
    fn receive<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E, until: Ticks) -> io::Result<Option<u32>> {
        let Some(reply) = endpoint.recv(until)? else {
            self.forgive_wait(endpoint);
            return Ok(None);
        };
        let now = self.clock.stop();
        let flow = reply.flow;
        let carried = probe::sequence(reply.bytes) & self.mask;
        let sound = self.work.accepts(reply.bytes, self.proven);
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
        self.forgive_wait(endpoint);
        self.counts.reordered += u64::from(self.flight.land(flow, place));
        self.heard(slot.sent, now);
        endpoint.received(flow, now)?;
        if now >= self.look_at {
            self.look()?;
        }
        Ok(Some(flow))
    }

    /// Handles a message that answers no request in flight.
    #[cold]
    fn stray(&mut self, flow: u32, carried: u32, sound: bool, now: Ticks) -> io::Result<()> {
        match if sound { self.flight.stray(flow, carried) } else { Stray::Corrupt } {
            Stray::Late(request) => {
                self.counts.late += 1;
                self.heard(request.sent, now);
                self.learn_from_late(request.sent, now);
                if request.is_due {
                    self.keep_overdue(Overdue::late(&request, now));
                }
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

    /// Makes the patience longer if every reply is late: a request sent after a late reply is answered late too, and no reply
    /// came in time between them. A peer that stood still only once does not make it longer.
    fn learn_from_late(&mut self, sent: Ticks, now: Ticks) {
        match self.flight.given_up.late_since {
            Some((since, kept)) if kept == self.kept => {
                if sent >= since {
                    let took = now.since(sent);
                    self.patience = self.bounded(self.patience.max(2 * took), took);
                }
            }
            _ => self.flight.given_up.late_since = Some((now, self.kept)),
        }
    }

    /// Called when no message, or no useful one, arrived in a wait that was to end at `until`: counts the wait, and checks the
    /// stop flag and every deadline.
    #[cold]
    fn turn(&mut self, until: Ticks) -> Result<(), Cut> {
        self.counts.waits_in_vain += u64::from(was_in_vain(self.clock, until));
        self.attend()
    }

    /// Checks the stop flag and every deadline.
    #[cold]
    fn attend(&mut self) -> Result<(), Cut> {
        let now = self.clock.now();
        if self.between.stopped() {
            return Err(Cut::Stopped(now));
        }
        // A wait that ended in time has left no reply in the path.
        if now.since(self.look_at) <= self.late_look {
            self.heard_to = now;
        }
        self.looked(now);
        Ok(self.look()?)
    }

    /// Gives up requests that have waited too long, and detects a dead peer. After a stall of this core the replies lie in the
    /// path, so a request that is too old for the first time may still be answered until the next walk.
    #[cold]
    fn look(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        if self.lossy && now >= self.walk_at {
            let (overdue, timed) = (&mut self.overdue, self.pace.timetable().is_some());
            let (lost, oldest) = self.flight.give_up(self.heard_to, self.patience, true, &self.stalls, |request| {
                if timed && request.is_due && overdue.len() < overdue.capacity() {
                    overdue.push(Overdue::unanswered(&request, now));
                }
            });
            self.counts.lost += u64::from(lost);
            self.answered &= lost == 0;
            self.heard_to = now;
            // Wait at least an eighth of the patience before the next walk: not every turn walks the table, and what lies in the
            // path is received before it. A round trip, a tenth of it, contains the receiving of all that was in flight.
            self.walk_at = oldest.min(now).plus(self.patience).max(now.plus(self.patience / 8));
        }
        if now.since(self.last_reply) >= self.longest_silence() {
            return Err(self.silent(self.clock.to_ns(self.timeout)));
        }
        self.look_at = self.next_look(now);
        Ok(())
    }

    /// Sets the next look as late as allowed. Requests that an open loop's last block has left in flight are still given up in
    /// time.
    fn look_after(&mut self, now: Ticks) {
        let latest = if self.lossy { now.plus(self.patience) } else { Ticks::NEVER };
        self.walk_at = if self.flight.live() > 0 { self.walk_at.min(latest) } else { latest };
        self.look_at = self.next_look(now);
    }

    fn next_look(&self, now: Ticks) -> Ticks {
        now.plus(self.clock.to_ticks(TURN_NS)).min(self.walk_at).min(self.last_reply.plus(self.longest_silence()))
    }

    /// Time in ticks after which a silent peer is dead: with nothing in flight it has nothing to say in a long pause.
    fn longest_silence(&self) -> u64 {
        let pause = if self.flight.live() == 0 { self.long_pause() } else { 0 };
        self.timeout.saturating_add(pause)
    }

    /// Ticks from the request before to the next one, in a schedule with a pause of more than half of the timeout there; else 0.
    /// A datagram that was lost before it has been given up by then.
    fn long_pause(&self) -> u64 {
        self.pace.timetable().map(Timetable::pause).filter(|pause| *pause > self.timeout / 2).unwrap_or(0)
    }

    #[cold]
    fn silent(&self, ns: u64) -> io::Error {
        let why = match (self.counts.corrupt, self.counts.late) {
            (0, 0) => "the peer is dead, or something between drops its packets".into(),
            (0, late) => format!("the peer is dead, or its replies come too late, as {late} did"),
            (strange, _) => format!("what came answers no request (messages: {strange}); is the peer an echo service?"),
        };
        let text = format!("no reply for {}: {why}", Nanos(ns));
        io::Error::new(io::ErrorKind::TimedOut, text)
    }

    /// Time to wait for a datagram, in ticks, from the round trips so far and from the slowest of the last block, because round
    /// trips may have become slow for good. `None`: the block had none.
    fn patience_after(&self, rtt: &Times) -> Option<u64> {
        let slowest = self.stamps[..self.kept].iter().map(|stamp| stamp.rtt).max()?;
        let slow = rtt.quantile(Quantile::P999).unwrap_or(rtt.max());
        let least = match &self.pace {
            Pace::Closed => LEAST_PATIENCE_NS,
            // The table needs its room only when the next request is due.
            Pace::Every(table) => LEAST_PATIENCE_NS.max((table.mean_interval_ns() as u64).min(self.work.timeout_ns)),
            Pace::Open(_) => OPEN_PATIENCE_NS,
        };
        let patience = self.clock.to_ticks(slow.saturating_mul(10).max(least)).max(2 * slowest);
        (rtt.count() > 0).then(|| self.bounded(patience, slowest.max(self.clock.to_ticks(slow))))
    }

    /// `patience`, but no longer than half of the timeout, so that one lost datagram does not pass for a dead peer. A reply that
    /// takes as long as `seen` is waited for in any case.
    fn bounded(&self, patience: u64, seen: u64) -> u64 {
        patience.min((self.timeout / 2).max(seen + seen / 4))
    }

    /// Excludes the time since `since` from the peer's silence.
    fn pass_over(&mut self, since: Ticks) {
        let now = self.clock.now();
        self.last_reply = self.last_reply.plus(now.since(since)).min(now);
    }
}

/// True if the wait that was to end at `until` lasted that long. One that ended sooner brought a part of a message, or a signal.
pub(crate) fn was_in_vain<C: Clock>(clock: &C, until: Ticks) -> bool {
    until.since(clock.now()) <= clock.to_ticks(EARLY_NS)
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
