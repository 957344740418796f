//! The measuring loop, the only one: sends, waits, stamps and keeps samples in memory that was set aside before.
//!
//! ```text
//!   warm-up blocks │ gap │ block │ gap │ block │ gap │ …          a block: 65,536 transactions or 100 ms
//!                          │       └ fold samples, publish, ask the neighbouring core how far it is: counted in gap_ns
//!                          └ per transaction:  start stamp → send … receive → stop stamp → classify → keep
//! ```
//! Closed and paced loops are here; the open one is in `open`.
//! Inside a block nothing allocates, locks, logs or formats, and no branch asks what was known before: path, wait policy, pace and clock
//! are types.

mod content;
mod flight;
mod open;
#[cfg(test)]
mod open_tests;
#[cfg(test)]
mod script;
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
pub use self::work::{Between, Counts, End, Found, Work};
use crate::endpoint::{Endpoint, Marks};
use crate::pace::{Kind, Pace};
use crate::stalls::Stalls;

/// A block ends after so many transactions …
pub const BLOCK_TRANSACTIONS: usize = 65_536;
/// … or after so long, in ns.
pub const BLOCK_NS: u64 = 100_000_000;
/// Clocks that disagree by more over a block mark it, in ns.
const CLOCK_TOLERANCE_NS: f64 = 50.0;
/// The rate must have been watched for so long before a disagreement means anything, in ns.
const CLOCK_BASELINE_NS: u64 = 200_000_000;
/// No datagram is given up earlier, in ns …
const LEAST_PATIENCE_NS: u64 = 10_000_000;
/// … and none of an open loop, whose question is how long a server that stands still keeps requests waiting: given up, they would be no RTT.
const OPEN_PATIENCE_NS: u64 = 100_000_000;
/// While nothing is known of the round trip, as the initial retransmission timeout of RFC 6298, in ns.
const FIRST_PATIENCE_NS: u64 = 1_000_000_000;
/// Untimed transactions after each gap: caches, branch predictors and the other side settle.
const SETTLE: u32 = 4;
/// While nothing comes, the stop flag is looked at so often, in ns.
const TURN_NS: u64 = 10_000_000;
/// While a request is not due yet, so often: each look wakes the core.
const IDLE_TURN_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Default)]
struct Stamp {
    due: Ticks,
    sent: Ticks,
    rtt: u64,
    sequence: u32,
    flow: u32,
}

/// Why a block ends before its time.
enum Cut {
    Stopped,
    Failed(io::Error),
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Cut {
        Cut::Failed(error)
    }
}

/// How far a block may go.
#[derive(Clone, Copy)]
struct Limits {
    /// The block's end.
    block: Ticks,
    /// The run's end.
    run: Ticks,
    /// Transactions.
    budget: usize,
}

struct Loop<'a, E, C, P, M> {
    endpoint: &'a mut E,
    clock: &'a C,
    pace: P,
    marks: &'a mut M,
    between: &'a mut dyn Between,
    work: Work,
    mask: u32,
    /// Request and reply are long enough for a cookie.
    proven: bool,
    flight: Flight,
    stamps: Vec<Stamp>,
    kept: usize,
    counts: Counts,
    /// Requests sent that do not count.
    uncounted: u64,
    patience: u64,
    timeout: u64,
    /// When to look at deadlines and the stop flag again …
    look_at: Ticks,
    /// … and when at every request in flight.
    walk_at: Ticks,
    last_reply: Ticks,
    last_stamp: Ticks,
    /// The last block's end.
    paused: Ticks,
    /// The last request that ended was answered, not given up.
    answered: bool,
    silence: u64,
    /// Of an open loop that spins.
    stalls: Stalls,
}

/// Runs `work` over `endpoint` and returns what was found, whatever ended it.
pub fn drive<E: Endpoint, C: Clock, P: Pace, M: Marks>(
    endpoint: &mut E,
    clock: &C,
    pace: P,
    marks: &mut M,
    work: Work,
    between: &mut dyn Between,
) -> Found {
    let mask = probe::sequence_mask(work.request.min(work.reply));
    let now = clock.now();
    let mut this = Loop {
        endpoint,
        clock,
        pace,
        marks,
        between,
        work,
        mask,
        proven: work.request.min(work.reply) >= probe::LEN,
        flight: Flight::new(work.flows, work.outstanding, mask),
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
        stalls: Stalls::new(clock, P::KIND == Kind::Open),
    };
    // Written once here, so that no page fault happens inside a block.
    this.stamps.resize(BLOCK_TRANSACTIONS, Stamp::default());
    this.run()
}

impl<E: Endpoint, C: Clock, P: Pace, M: Marks> Loop<'_, E, C, P, M> {
    fn run(mut self) -> Found {
        self.between.starts();
        let origin = Relation::read(self.clock);
        let mut end = self.warm_up();
        // Whatever warm-up met is not part of the figures.
        self.flight.begin();
        self.pace.begin();
        self.uncounted = self.counts.sent;
        (self.counts, self.silence) = (Counts::default(), 0);
        let mut recorder = Recorder::new(self.work.duration_ns.map(Nanos), P::KIND != Kind::Closed, self.work.thread);
        if P::KIND == Kind::Open {
            recorder = recorder.with_lateness();
        }
        let began = self.clock.now();
        self.between.begins(began);
        let ends = self.work.duration_ns.map_or(Ticks::NEVER, |ns| began.plus(self.clock.to_ticks(ns)));
        let mut last = Relation::read(self.clock);
        let mut core_rtt = if end.is_none() { self.neighbour() } else { None };
        let mut busy = 0;
        let mut early = None;
        while end.is_none() {
            end = self.over(&recorder, ends);
            if end.is_some() {
                break;
            }
            let before = Relation::read(self.clock);
            let left = self.work.count.map_or(u64::MAX, |count| count - recorder.rtt().count());
            let (start, result) = self.block(ends, left);
            let length = self.last_stamp.since(start);
            last = Relation::read(self.clock);
            end = result;
            self.marks.fold(true);
            let known = before.raw_ns.saturating_sub(origin.raw_ns) >= CLOCK_BASELINE_NS;
            if known && early.is_none() {
                early = Some(last);
            }
            let next_rtt = if end.is_none() { self.neighbour() } else { None };
            let facts = BlockFacts {
                at_ns: self.clock.to_ns(start.since(began)),
                length_ns: self.clock.to_ns(length),
                core_rtt_ns: core_rtt.max(next_rtt),
                clock_suspect: known && last.disagreement_ns(&origin, &before) > CLOCK_TOLERANCE_NS,
            };
            core_rtt = next_rtt;
            busy += length;
            if let Err(error) = self.publish(&mut recorder, facts, began) {
                end = Some(End::Failed(error));
            }
        }
        self.counts.unsent = self.pace.unsent();
        Found {
            gap_ns: self.clock.to_ns(last.ticks.since(began).saturating_sub(busy)),
            recorder,
            exchanges: self.uncounted + self.counts.sent,
            counts: self.counts,
            end: end.unwrap_or(End::Done),
            drift_ppb: early.and_then(|early: Relation| {
                let apart = last.raw_ns.saturating_sub(early.raw_ns) >= CLOCK_BASELINE_NS;
                apart.then(|| (last.rate_since(&early) / early.rate_since(&origin) - 1.0) * 1e9)
            }),
        }
    }

    /// Whether the run ends before the next block.
    fn over(&self, recorder: &Recorder, ends: Ticks) -> Option<End> {
        let transactions = recorder.rtt().count();
        if self.work.count.is_some_and(|count| transactions >= count) {
            return Some(End::Done);
        }
        if P::KIND == Kind::Open && self.pace.is_over() {
            return Some(End::Done);
        }
        if self.clock.now() >= ends {
            // A run shorter than the timeout ends before it can pass: nothing but silence is no result either.
            return Some(match self.counts.sent {
                sent if sent > 0 && transactions == 0 => End::Failed(self.silent(self.work.duration_ns.unwrap_or(0))),
                _ => End::Done,
            });
        }
        self.between.stopped().then_some(End::Stopped)
    }

    /// Folds the samples of a block and hands them on.
    fn publish(&mut self, recorder: &mut Recorder, facts: BlockFacts, began: Ticks) -> io::Result<()> {
        let stamps = &self.stamps[..self.kept];
        recorder.fold(facts, samples(self.clock, &self.stalls, stamps, began));
        self.counts.longest_silence_ns = self.clock.to_ns(self.silence);
        self.patience = patience::<C, P>(self.clock, recorder.rtt()).unwrap_or(self.patience);
        self.between.block(recorder, &self.counts, &mut samples(self.clock, &self.stalls, stamps, began))
    }

    /// Blocks that are thrown away, so that the first kept one finds everything warm.
    fn warm_up(&mut self) -> Option<End> {
        let began = self.clock.now();
        let ends = began.plus(self.clock.to_ticks(self.work.warmup_ns));
        let mut rtt = Times::new();
        while self.clock.now() < ends {
            if self.between.stopped() {
                return Some(End::Stopped);
            }
            let (_, end) = self.block(ends, u64::MAX);
            self.marks.fold(false);
            self.stamps[..self.kept].iter().for_each(|stamp| rtt.record(self.clock.to_ns(stamp.rtt)));
            self.patience = patience::<C, P>(self.clock, &rtt).unwrap_or(self.patience);
            if end.is_some() {
                return end;
            }
        }
        None
    }

    /// Meets the other side's core: calls it, lets it see the call by an untimed transaction, measures, and settles again.
    fn neighbour(&mut self) -> Option<u64> {
        // What waits in vain here is no silence to the next block: with a dead peer there must be no such wait.
        if !self.answered || !self.between.call_neighbour() {
            return None;
        }
        // What is published next is still in the stamps.
        let (kept, counts, silence) = (self.kept, self.counts, self.silence);
        self.untimed(1);
        let core_rtt = self.between.meet_neighbour();
        if P::KIND != Kind::Every {
            self.untimed(SETTLE);
        }
        // Late replies and duplicates of measured requests may have come meanwhile.
        self.uncounted += self.counts.sent - counts.sent;
        self.counts = Counts { sent: counts.sent, lost: counts.lost, reordered: counts.reordered, ..self.counts };
        (self.kept, self.silence) = (kept, silence);
        self.marks.fold(false);
        core_rtt
    }

    /// Transactions that are not kept; what fails here fails again, and is told, in the next block.
    fn untimed(&mut self, count: u32) {
        // Past the end of the stamps: nothing is kept.
        self.kept = usize::MAX;
        for _ in 0..count {
            let now = self.clock.now();
            let deadline = now.plus(if E::LOSSY { self.patience.min(self.timeout) } else { self.timeout });
            self.look_after(now);
            if !self.send(0, None, self.work.request).unwrap_or(false) {
                break;
            }
            while self.flight.live() > 0 && self.clock.now() < deadline && !self.between.stopped() {
                let until = deadline.min(self.clock.now().plus(self.clock.to_ticks(TURN_NS)));
                if self.receive(until).is_err() {
                    break;
                }
            }
            if self.flight.give_up(Ticks::NEVER, 0).0 > 0 {
                self.answered = false;
                break;
            }
        }
    }

    /// One block of at most `left` transactions until `ends`. Returns when it started, and why the run ends if it does.
    fn block(&mut self, ends: Ticks, left: u64) -> (Ticks, Option<End>) {
        self.kept = 0;
        self.pass_over(self.paused);
        self.pace.restart();
        let start = self.clock.now();
        self.last_stamp = start;
        self.look_after(start);
        let limits = Limits {
            block: ends.min(start.plus(self.clock.to_ticks(BLOCK_NS))),
            run: ends,
            budget: left.min(self.work.block.min(BLOCK_TRANSACTIONS) as u64) as usize,
        };
        let result = match P::KIND {
            Kind::Closed => self.closed_block(limits),
            Kind::Every => self.paced_block(limits),
            Kind::Open => self.open_block(limits),
        };
        let end = match result {
            Ok(()) => None,
            Err(Cut::Stopped) => Some(End::Stopped),
            Err(Cut::Failed(error)) => Some(End::Failed(error)),
        };
        self.paused = self.clock.now();
        (start, end)
    }

    /// Keeps `outstanding` requests in flight on every flow until the block ends, then lets the last ones come home.
    fn closed_block(&mut self, limits: Limits) -> Result<(), Cut> {
        let most = self.work.flows * self.work.outstanding;
        let (mut left, mut flow) = (limits.budget, 0);
        loop {
            let mut full = false;
            // One turn of this for each reply; more at the start, and after requests were lost or the path was full.
            while left > 0 && self.flight.live() < most && self.last_stamp < limits.block {
                flow = self.flight.with_room(flow);
                if !self.send(flow, None, self.work.request)? {
                    full = true;
                    break;
                }
                left -= 1;
                flow = if flow + 1 == self.work.flows { 0 } else { flow + 1 };
            }
            if self.flight.live() == 0 && !full {
                return Ok(());
            }
            // On a full path one look at what has come makes room.
            let until = if full { self.last_stamp } else { self.look_at };
            match self.receive(until)? {
                Some(answered) => flow = answered,
                None => self.turn()?,
            }
        }
    }

    /// Sends each request when it is due, one in flight over all flows in turn.
    fn paced_block(&mut self, limits: Limits) -> Result<(), Cut> {
        let mut flow = 0;
        while self.kept < limits.budget && self.clock.now() < limits.block {
            let Some(due) = self.idle(limits.run)? else { break };
            self.look_after(self.last_stamp);
            while !self.send(flow, Some(due), self.work.request)? {
                self.turn()?;
            }
            while self.flight.live() > 0 {
                if self.receive(self.look_at)?.is_none() {
                    self.turn()?;
                }
            }
            flow = if flow + 1 == self.work.flows { 0 } else { flow + 1 };
        }
        // The block's measured time is the schedule's, idle time included.
        self.last_stamp = self.clock.now();
        Ok(())
    }

    /// Waits until the next request is due; `None` if the run ends before.
    fn idle(&mut self, ends: Ticks) -> Result<Option<Ticks>, Cut> {
        let since = self.clock.now();
        loop {
            let until = ends.min(self.clock.now().plus(self.clock.to_ticks(IDLE_TURN_NS)));
            let due = self.pace.wait(until);
            let now = self.clock.now();
            self.last_stamp = now;
            if due.is_some() {
                // Idle time is no silence of a peer that has answered; of one that has not it is.
                if self.answered {
                    self.pass_over(since);
                }
                return Ok(due);
            }
            if self.between.stopped() {
                return Err(Cut::Stopped);
            }
            if now >= ends {
                return Ok(None);
            }
        }
    }

    /// Sends one request of `len` bytes; `false` if the path is full.
    #[inline(always)]
    fn send(&mut self, flow: u32, due: Option<Ticks>, len: usize) -> io::Result<bool> {
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
        self.marks.begin(sent);
        if !self.endpoint.send(flow, len, fill, self.marks)? {
            return Ok(false);
        }
        self.flight.launch(flow, place, sent, due.unwrap_or(sent));
        self.counts.sent += 1;
        Ok(true)
    }

    /// Receives one message and classifies it. Returns the flow on which a request was answered; `None` if nothing came, or if what came
    /// answered nothing.
    #[inline(always)]
    fn receive(&mut self, until: Ticks) -> io::Result<Option<u32>> {
        let Some(reply) = self.endpoint.recv(until)? else { return Ok(None) };
        let now = self.clock.stop();
        let flow = reply.flow;
        let carried = probe::sequence(reply.bytes) & self.mask;
        let sound = is_sound(&reply, &self.work, self.proven);
        let Some((place, slot)) = self.flight.waiting(flow, carried).filter(|_| sound) else {
            self.stray(flow, carried, sound)?;
            return Ok(None);
        };
        if let Some(stamp) = self.stamps.get_mut(self.kept) {
            *stamp = Stamp { due: slot.due, sent: slot.sent, rtt: now.since(slot.sent), sequence: place.sequence, flow };
            self.kept += 1;
        }
        self.counts.reordered += u64::from(self.flight.land(flow, place));
        self.silence = self.silence.max(now.since(self.last_stamp));
        (self.last_reply, self.last_stamp, self.answered) = (now, now, true);
        self.marks.end(now);
        self.endpoint.received(flow, self.marks)?;
        if now >= self.look_at {
            self.look()?;
        }
        Ok(Some(flow))
    }

    /// A message that answers no request in flight.
    #[cold]
    fn stray(&mut self, flow: u32, carried: u32, sound: bool) -> io::Result<()> {
        match if sound { self.flight.stray(flow, carried) } else { Stray::Corrupt } {
            Stray::Late => self.counts.late += 1,
            Stray::Duplicate => self.counts.duplicates += 1,
            Stray::Before => {}
            Stray::Corrupt => {
                self.counts.corrupt += 1;
                if !E::LOSSY {
                    // What is wrong once in a stream stays wrong, and the request would wait for ever.
                    let text =
                        "a reply is not the answer to its request: wrong length, cookie or content; is the peer an echo service?";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(())
    }

    /// Nothing came, or nothing that answers: looks at the stop flag and at every deadline.
    #[cold]
    fn turn(&mut self) -> Result<(), Cut> {
        if self.between.stopped() {
            return Err(Cut::Stopped);
        }
        self.look()?;
        let now = self.clock.now();
        self.silence = self.silence.max(now.since(self.last_stamp));
        self.last_stamp = now;
        Ok(())
    }

    /// Gives up requests that have waited too long, and notices a dead peer.
    #[cold]
    fn look(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        if E::LOSSY && now >= self.walk_at {
            let (lost, oldest) = self.flight.give_up(now, self.patience);
            self.counts.lost += u64::from(lost);
            self.answered &= lost == 0;
            // At least a quarter of the patience later, so that the table is not walked at every turn.
            self.walk_at = oldest.min(now).plus(self.patience).max(now.plus(self.patience / 4));
        }
        if now.since(self.last_reply) >= self.timeout {
            return Err(self.silent(self.work.timeout_ns));
        }
        self.look_at = self.next_look(now);
        Ok(())
    }

    /// Nothing is in flight: the next look is as late as it may be.
    fn look_after(&mut self, now: Ticks) {
        self.walk_at = if E::LOSSY { now.plus(self.patience) } else { Ticks::NEVER };
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

    /// The time since `since` was no silence of the peer.
    fn pass_over(&mut self, since: Ticks) {
        let now = self.clock.now();
        self.last_reply = self.last_reply.plus(now.since(since)).min(now);
    }
}

/// How long to wait for a datagram, in ticks, from what is known of the round trip.
fn patience<C: Clock, P: Pace>(clock: &C, rtt: &Times) -> Option<u64> {
    let slow = rtt.quantile(Quantile::P999).unwrap_or(rtt.max());
    let least = if P::KIND == Kind::Open { OPEN_PATIENCE_NS } else { LEAST_PATIENCE_NS };
    (rtt.count() > 0).then(|| clock.to_ticks(slow.saturating_mul(10).max(least)))
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
