//! The measuring loop, the only one: sends, waits, stamps and keeps samples in memory that was set aside before.
//!
//! ```text
//!   warm-up blocks │ gap │ block │ gap │ block │ gap │ …          a block: 65,536 transactions or 100 ms
//!                          │       └ fold samples, publish, ask the neighbouring core how far it is: counted in gap_ns
//!                          └ per transaction:  start stamp → send … receive → stop stamp → classify → keep
//! ```
//! Inside a block nothing allocates, locks, logs or formats, and no branch asks what was known before: path, wait policy, pace and clock
//! are types.

use std::io;

use hairpin_record::recorder::{BlockFacts, Recorder, Sample};
use hairpin_sys::clock::{Clock, Relation, Ticks};
use hairpin_units::Quantile;
use hairpin_wire::probe;

use crate::endpoint::{Endpoint, Marks};
use crate::pace::Pace;

/// A block ends after so many transactions …
pub const BLOCK_TRANSACTIONS: usize = 65_536;
/// … or after so long, in ns.
pub const BLOCK_NS: u64 = 100_000_000;
/// Clocks that disagree by more over a block mark it, in ns.
const CLOCK_TOLERANCE_NS: f64 = 50.0;
/// The rate must have been watched for so long before a disagreement means anything, in ns.
const CLOCK_BASELINE_NS: u64 = 200_000_000;
/// No datagram is given up earlier, in ns.
const LEAST_PATIENCE_NS: u64 = 10_000_000;
/// While nothing is known of the round trip, as the initial retransmission timeout of RFC 6298, in ns.
const FIRST_PATIENCE_NS: u64 = 1_000_000_000;
/// Untimed transactions after each gap: caches, branch predictors and the other side settle.
const SETTLE: u32 = 4;
/// Requests given up last, so that a late reply is told from a duplicate.
const REMEMBERED: usize = 256;

/// What one thread is to do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Payload of a request in bytes.
    pub request: usize,
    /// Payload of a reply in bytes.
    pub reply: usize,
    /// Flows of this thread.
    pub flows: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// Measured time with its gaps; `None`: until stopped or counted.
    pub duration_ns: Option<u64>,
    /// Transactions; `None`: until time is up.
    pub count: Option<u64>,
    /// Discarded time before.
    pub warmup_ns: u64,
    /// Silence after which the peer is dead.
    pub timeout_ns: u64,
    /// In every payload of 16 bytes and more.
    pub cookie: u64,
    /// Fill and compare whole payloads.
    pub verify: bool,
    /// Index of this thread.
    pub thread: u32,
}

/// What surrounds the loop: asked only between blocks and when nothing came.
pub trait Between {
    /// True if the run is to end now.
    fn stopped(&self) -> bool;
    /// Asks the other side's core to meet this one over a cache line; it sees the call after its next reply. `false`: there is none.
    fn call_neighbour(&mut self) -> bool {
        false
    }
    /// Measures the round trip to the other core, in ns, once it has been called.
    fn meet_neighbour(&mut self) -> Option<u64> {
        None
    }
    /// A block has been folded; `samples` are in ns since the start of measuring.
    fn block(&mut self, recorder: &Recorder, counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()>;
}

/// Events of a run that are no samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests sent in measured time.
    pub sent: u64,
    /// Requests given up.
    pub lost: u64,
    /// Replies to requests given up.
    pub late: u64,
    /// Replies that came again.
    pub duplicates: u64,
    /// Replies overtaken by a later request's reply.
    pub reordered: u64,
    /// Messages that answer nothing: wrong length, cookie or content.
    pub corrupt: u64,
    /// Longest time without any stamp inside a block, in ns.
    pub longest_silence_ns: u64,
}

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// Its time or count was reached.
    Done,
    /// It was stopped.
    Stopped,
    /// The path or the peer failed; what was measured until then stands.
    Failed(io::Error),
}

/// What one thread found.
#[derive(Debug)]
pub struct Found {
    /// Samples, folded.
    pub recorder: Recorder,
    /// Everything that was no sample.
    pub counts: Counts,
    /// Requests sent, warm-up and untimed ones included.
    pub exchanges: u64,
    /// Time between blocks, in ns.
    pub gap_ns: u64,
    /// How it ended.
    pub end: End,
    /// How much faster the clock ticked over the whole run than over its first stretch, against CLOCK_MONOTONIC_RAW, in parts per 10^9;
    /// `None` if the run was too short to tell.
    pub drift_ppb: Option<f64>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    sent: Ticks,
    due: Ticks,
    sequence: u32,
    live: bool,
}

#[derive(Clone, Copy, Default)]
struct Stamp {
    due: Ticks,
    sent: Ticks,
    rtt: u64,
    sequence: u32,
    flow: u32,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    next: u32,
    newest: u32,
}

struct Loop<'a, E, C, P, M> {
    endpoint: &'a mut E,
    clock: &'a C,
    pace: P,
    marks: &'a mut M,
    work: Work,
    mask: u32,
    window: usize,
    slots: Vec<Slot>,
    flows: Vec<Flow>,
    stamps: Vec<Stamp>,
    given_up: [(u32, u32); REMEMBERED],
    given_up_at: usize,
    counts: Counts,
    exchanges: u64,
    in_flight: u32,
    patience: u64,
    timeout: u64,
    look_at: Ticks,
    last_reply: Ticks,
    last_stamp: Ticks,
    paused: Ticks,
    silence: u64,
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
    let window = (work.outstanding as usize).next_power_of_two();
    let mut this = Loop {
        endpoint,
        clock,
        pace,
        marks,
        work,
        mask: probe::sequence_mask(work.request.min(work.reply)),
        window,
        slots: vec![Slot::default(); window * work.flows as usize],
        flows: vec![Flow::default(); work.flows as usize],
        stamps: Vec::new(),
        given_up: [(u32::MAX, 0); REMEMBERED],
        given_up_at: 0,
        counts: Counts::default(),
        exchanges: 0,
        in_flight: 0,
        patience: clock.to_ticks(FIRST_PATIENCE_NS),
        timeout: clock.to_ticks(work.timeout_ns),
        look_at: Ticks::NEVER,
        last_reply: clock.now(),
        last_stamp: clock.now(),
        paused: clock.now(),
        silence: 0,
    };
    // Written once here, so that no page fault happens inside a block.
    this.stamps.resize(BLOCK_TRANSACTIONS + this.slots.len(), Stamp::default());
    this.run(between)
}

impl<E: Endpoint, C: Clock, P: Pace, M: Marks> Loop<'_, E, C, P, M> {
    fn run(mut self, between: &mut dyn Between) -> Found {
        let origin = Relation::read(self.clock);
        let mut warm = Recorder::new(None, false, 0);
        let mut end = self.warm_up(&mut warm, between);
        // Whatever warm-up met is not part of the figures.
        self.counts = Counts::default();
        self.silence = 0;
        let mut recorder = Recorder::new(self.work.duration_ns.map(hairpin_units::Nanos), P::PACED, self.work.thread);
        let began = self.clock.now();
        let ends = self.work.duration_ns.map_or(Ticks::NEVER, |ns| began.plus(self.clock.to_ticks(ns)));
        let mut last = Relation::read(self.clock);
        let mut core_rtt = if end.is_none() { self.neighbour(between) } else { None };
        let mut busy = 0;
        let mut early = None;
        while end.is_none() {
            let left = self.work.count.map_or(u64::MAX, |count| count - recorder.rtt().count());
            if left == 0 || self.clock.now() >= ends {
                end = Some(End::Done);
                break;
            }
            if between.stopped() {
                end = Some(End::Stopped);
                break;
            }
            self.pace.restart();
            let before = Relation::read(self.clock);
            let start = self.clock.now();
            let (kept, result) = self.block(ends, left, between);
            let stop = self.last_stamp.max(start);
            let after = Relation::read(self.clock);
            end = result;
            self.marks.fold(true);
            let known = before.raw_ns.saturating_sub(origin.raw_ns) >= CLOCK_BASELINE_NS;
            let suspect = known && after.disagreement_ns(&origin, &before) > CLOCK_TOLERANCE_NS;
            let next_rtt = if end.is_none() { self.neighbour(between) } else { None };
            let facts = BlockFacts {
                at_ns: self.clock.to_ns(start.since(began)),
                length_ns: self.clock.to_ns(stop.since(start)),
                core_rtt_ns: core_rtt.max(next_rtt),
                clock_suspect: suspect,
            };
            core_rtt = next_rtt;
            busy += stop.since(start);
            last = after;
            if known && early.is_none() {
                early = Some(after);
            }
            recorder.fold(facts, samples(self.clock, &self.stamps[..kept], began));
            self.learn(recorder.rtt());
            self.counts.longest_silence_ns = self.clock.to_ns(self.silence);
            if let Err(error) = between.block(&recorder, &self.counts, &mut samples(self.clock, &self.stamps[..kept], began)) {
                end = Some(End::Failed(error));
            }
        }
        Found {
            gap_ns: self.clock.to_ns(last.ticks.since(began).saturating_sub(busy)),
            recorder,
            exchanges: self.exchanges,
            counts: self.counts,
            end: end.unwrap_or(End::Done),
            drift_ppb: early.and_then(|early: Relation| {
                let apart = last.raw_ns.saturating_sub(early.raw_ns) >= CLOCK_BASELINE_NS;
                apart.then(|| (last.rate_since(&early) / early.rate_since(&origin) - 1.0) * 1e9)
            }),
        }
    }

    /// Blocks that are thrown away, so that the first kept one finds everything warm.
    fn warm_up(&mut self, warm: &mut Recorder, between: &mut dyn Between) -> Option<End> {
        let ends = self.clock.now().plus(self.clock.to_ticks(self.work.warmup_ns));
        let began = self.clock.now();
        while self.clock.now() < ends {
            if between.stopped() {
                return Some(End::Stopped);
            }
            self.pace.restart();
            let (kept, end) = self.block(ends, u64::MAX, between);
            warm.fold(BlockFacts::default(), samples(self.clock, &self.stamps[..kept], began));
            self.marks.fold(false);
            self.learn(warm.rtt());
            if end.is_some() {
                return end;
            }
        }
        None
    }

    /// How long to wait for a datagram, from what is known of the round trip.
    fn learn(&mut self, rtt: &hairpin_record::histogram::Times) {
        if rtt.count() > 0 {
            let slow = rtt.quantile(Quantile::P999).unwrap_or(rtt.max());
            self.patience = self.clock.to_ticks(slow.saturating_mul(10).max(LEAST_PATIENCE_NS));
        }
    }

    /// Meets the other side's core: calls it, lets it see the call by an untimed transaction, measures, and settles again.
    fn neighbour(&mut self, between: &mut dyn Between) -> Option<u64> {
        if !between.call_neighbour() {
            return None;
        }
        self.untimed(1);
        let core_rtt = between.meet_neighbour();
        if !P::PACED {
            self.untimed(SETTLE);
        }
        self.marks.fold(false);
        core_rtt
    }

    /// Transactions that are not kept; what fails here fails again, and is told, in the next block.
    fn untimed(&mut self, count: u32) {
        let (counts, silence) = (self.counts, self.silence);
        // Past the end of the stamps: nothing is kept.
        let mut nowhere = usize::MAX;
        for _ in 0..count {
            let started = self.send(0, None).unwrap_or(false);
            let deadline = self.clock.now().plus(self.clock.to_ticks(LEAST_PATIENCE_NS));
            while started && self.in_flight > 0 && self.clock.now() < deadline {
                if self.receive(deadline, &mut nowhere).is_err() {
                    break;
                }
            }
        }
        self.abandon();
        (self.counts, self.silence) = (counts, silence);
    }

    /// One block of at most `left` transactions until `ends`. Returns how many stamps it kept, and why the run ends if it does.
    fn block(&mut self, ends: Ticks, left: u64, between: &mut dyn Between) -> (usize, Option<End>) {
        let mut kept = 0;
        let start = self.clock.now();
        self.resume(start);
        let ends = ends.min(start.plus(self.clock.to_ticks(BLOCK_NS)));
        let budget = left.min(BLOCK_TRANSACTIONS as u64) as usize;
        let result = match P::PACED {
            true => self.paced_block(ends, budget, &mut kept, between),
            false => self.closed_block(ends, budget, &mut kept, between),
        };
        let end = match result {
            Ok(stopped) => stopped.then_some(End::Stopped),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Some(End::Stopped),
            Err(error) => Some(End::Failed(error)),
        };
        self.paused = self.clock.now();
        (kept, end)
    }

    /// Time since `paused` was no silence of the peer.
    fn resume(&mut self, now: Ticks) {
        self.last_reply = self.last_reply.plus(now.since(self.paused));
        self.last_stamp = now;
    }

    /// Keeps `outstanding` requests in flight on every flow until the block ends, then lets the last ones come home.
    fn closed_block(&mut self, ends: Ticks, budget: usize, kept: &mut usize, between: &mut dyn Between) -> io::Result<bool> {
        let mut started = 0;
        self.look_at = self.clock.now().plus(self.patience.min(self.timeout));
        'fill: for _ in 0..self.work.outstanding {
            for flow in 0..self.work.flows {
                if started == budget {
                    break 'fill;
                }
                self.send_or_wait(flow, kept, between)?;
                started += 1;
            }
        }
        while self.in_flight > 0 {
            match self.receive(self.look_at, kept)? {
                // A lost request's place is taken by the next one, too.
                Some(flow) if self.last_stamp < ends && started < budget => {
                    self.send_or_wait(flow, kept, between)?;
                    started += 1;
                }
                Some(_) => {}
                None => {
                    if between.stopped() {
                        self.abandon();
                        return Ok(true);
                    }
                    self.look()?;
                    self.last_stamp = self.clock.now();
                    while self.last_stamp < ends && started < budget && self.in_flight < self.work.flows * self.work.outstanding {
                        let Some(flow) = (0..self.work.flows).find(|flow| self.has_room(*flow)) else { break };
                        self.send_or_wait(flow, kept, between)?;
                        started += 1;
                    }
                }
            }
        }
        Ok(false)
    }

    /// Sends each request when it is due, one in flight over all flows in turn.
    fn paced_block(&mut self, ends: Ticks, budget: usize, kept: &mut usize, between: &mut dyn Between) -> io::Result<bool> {
        let mut flow = 0;
        let mut answered = true;
        while *kept < budget && self.clock.now() < ends {
            self.paused = self.clock.now();
            let Some(due) = self.pace.wait() else {
                if between.stopped() {
                    return Ok(true);
                }
                continue;
            };
            // Idle time is no silence of a peer that has answered.
            self.last_stamp = self.clock.now();
            if answered {
                self.resume(self.last_stamp);
            }
            let lost = self.counts.lost;
            self.look_at = self.last_stamp.plus(self.patience.min(self.timeout));
            while !self.send(flow, Some(due))? {
                self.check_silence(self.clock.now())?;
            }
            while self.in_flight > 0 {
                if self.receive(self.look_at, kept)?.is_none() {
                    if between.stopped() {
                        self.abandon();
                        return Ok(true);
                    }
                    self.look()?;
                }
            }
            answered = self.counts.lost == lost;
            flow = if flow + 1 == self.work.flows { 0 } else { flow + 1 };
        }
        // The block's measured time is the schedule's, idle time included.
        self.last_stamp = self.clock.now();
        Ok(false)
    }

    /// Sends on `flow`; while the path is full, receives what is there.
    #[inline(always)]
    fn send_or_wait(&mut self, flow: u32, kept: &mut usize, between: &mut dyn Between) -> io::Result<()> {
        while !self.send(flow, None)? {
            let soon = self.clock.now();
            self.receive(soon, kept)?;
            self.look()?;
            if between.stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Ok(())
    }

    /// Sends one request; `false` if the path is full.
    #[inline(always)]
    fn send(&mut self, flow: u32, due: Option<Ticks>) -> io::Result<bool> {
        let sequence = self.flows[flow as usize].next;
        let (cookie, verify) = (self.work.cookie, self.work.verify);
        let fill = |payload: &mut [u8]| {
            probe::write(payload, sequence, cookie);
            if verify {
                fill_pattern(payload, sequence);
            }
        };
        let at = flow as usize * self.window + (sequence as usize & (self.window - 1));
        let sent = self.clock.start();
        self.marks.begin(sent);
        if !self.endpoint.send(flow, self.work.request, fill, self.marks)? {
            return Ok(false);
        }
        self.flows[flow as usize].next = sequence.wrapping_add(1);
        self.slots[at] = Slot { sent, due: due.unwrap_or(sent), sequence, live: true };
        self.in_flight += 1;
        self.counts.sent += 1;
        self.exchanges += 1;
        Ok(true)
    }

    /// Receives one message and classifies it. Returns the flow on which a request was answered; `None` if nothing came, or if what came
    /// answered nothing.
    #[inline(always)]
    fn receive(&mut self, until: Ticks, kept: &mut usize) -> io::Result<Option<u32>> {
        let Some(reply) = self.endpoint.recv(until)? else { return Ok(None) };
        let now = self.clock.stop();
        let flow = reply.flow;
        let carried = probe::sequence(reply.bytes) & self.mask;
        let sound = reply.bytes.len() == self.work.reply
            && (reply.bytes.len() < probe::LEN
                || self.work.request < probe::LEN
                || probe::cookie(reply.bytes) == Some(self.work.cookie));
        // The newest sequence that carries these low bits; with four bytes and more it is the sequence itself.
        let next = self.flows[flow as usize].next;
        let sequence = next.wrapping_sub(1).wrapping_sub(next.wrapping_sub(1).wrapping_sub(carried) & self.mask);
        let slot = &mut self.slots[flow as usize * self.window + (sequence as usize & (self.window - 1))];
        if !sound
            || !slot.live
            || slot.sequence != sequence
            || (self.work.verify && !has_pattern(reply.bytes, self.work.request, carried))
        {
            return self.stray(flow, sequence, sound);
        }
        slot.live = false;
        if *kept < self.stamps.len() {
            let rtt = now.since(slot.sent);
            self.stamps[*kept] = Stamp { due: slot.due, sent: slot.sent, rtt, sequence, flow };
            *kept += 1;
        }
        self.in_flight -= 1;
        let newest = &mut self.flows[flow as usize].newest;
        if sequence.wrapping_sub(*newest) as i32 >= 0 {
            *newest = sequence;
        } else {
            self.counts.reordered += 1;
        }
        self.silence = self.silence.max(now.since(self.last_stamp));
        (self.last_reply, self.last_stamp) = (now, now);
        self.endpoint.received(flow, self.marks)?;
        if now >= self.look_at {
            self.look()?;
        }
        Ok(Some(flow))
    }

    /// A message that answers no request in flight.
    #[cold]
    fn stray(&mut self, flow: u32, sequence: u32, sound: bool) -> io::Result<Option<u32>> {
        let answered = self.flows[flow as usize].next.wrapping_sub(sequence) as i32 > 0 && !self.is_live(flow, sequence);
        match self.given_up.iter_mut().find(|gone| **gone == (flow, sequence)) {
            _ if !sound => self.counts.corrupt += 1,
            Some(gone) => {
                *gone = (u32::MAX, 0);
                self.counts.late += 1;
            }
            None if answered => self.counts.duplicates += 1,
            None => self.counts.corrupt += 1,
        }
        if self.clock.now() >= self.look_at {
            self.look()?;
        }
        Ok(None)
    }

    fn is_live(&self, flow: u32, sequence: u32) -> bool {
        let slot = self.slots[flow as usize * self.window + (sequence as usize & (self.window - 1))];
        slot.live && slot.sequence == sequence
    }

    fn has_room(&self, flow: u32) -> bool {
        let slots = &self.slots[flow as usize * self.window..][..self.window];
        (slots.iter().filter(|slot| slot.live).count() as u32) < self.work.outstanding
            && !slots[self.flows[flow as usize].next as usize & (self.window - 1)].live
    }

    /// Gives up requests that have waited too long, and notices a dead peer.
    #[cold]
    fn look(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        self.check_silence(now)?;
        let mut oldest = Ticks::NEVER;
        for (at, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.live) {
            if E::LOSSY && now.since(slot.sent) >= self.patience {
                slot.live = false;
                self.in_flight -= 1;
                self.counts.lost += 1;
                self.given_up[self.given_up_at] = ((at / self.window) as u32, slot.sequence);
                self.given_up_at = (self.given_up_at + 1) % REMEMBERED;
            } else {
                oldest = oldest.min(slot.sent);
            }
        }
        let patience = if E::LOSSY { self.patience } else { self.timeout };
        // At least a quarter of the patience later, so that the table is not walked at every turn.
        self.look_at = oldest.min(now).plus(patience).max(now.plus(patience / 4));
        Ok(())
    }

    fn check_silence(&mut self, now: Ticks) -> io::Result<()> {
        if now.since(self.last_reply) < self.timeout {
            return Ok(());
        }
        let text = format!(
            "no reply for {}: the peer is dead, or something between drops its packets",
            hairpin_units::Nanos(self.clock.to_ns(self.timeout))
        );
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    }

    /// Forgets what is in flight: late replies of it are counted as such.
    fn abandon(&mut self) {
        for (at, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.live) {
            slot.live = false;
            self.given_up[self.given_up_at] = ((at / self.window) as u32, slot.sequence);
            self.given_up_at = (self.given_up_at + 1) % REMEMBERED;
        }
        self.in_flight = 0;
    }
}

fn samples<'a, C: Clock>(clock: &'a C, stamps: &'a [Stamp], began: Ticks) -> impl Iterator<Item = Sample> + 'a {
    stamps.iter().map(move |stamp| Sample {
        due_ns: clock.to_ns(stamp.due.since(began)),
        sent_ns: clock.to_ns(stamp.sent.since(began)),
        rtt_ns: clock.to_ns(stamp.rtt),
        sequence: stamp.sequence,
        flow: stamp.flow,
    })
}

/// Fills what lies behind the probe header from the sequence, so that a reply of another request is told.
fn fill_pattern(payload: &mut [u8], sequence: u32) {
    for (at, byte) in payload.iter_mut().enumerate().skip(probe::LEN) {
        *byte = pattern(at, sequence);
    }
}

/// True if the bytes that a reply repeats of its request are as they were sent.
fn has_pattern(reply: &[u8], request: usize, sequence: u32) -> bool {
    let repeated = reply.len().min(request);
    reply[..repeated].iter().enumerate().skip(probe::LEN).all(|(at, byte)| *byte == pattern(at, sequence))
}

fn pattern(at: usize, sequence: u32) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(sequence) as u8
}
