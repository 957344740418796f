//! The client's loop: one request at a time, until every member has answered it or it is given up.
//!
//! ```text
//!   warm-up │ gap │ block │ gap │ block │ …       a block: 1,024 requests or 100 ms; a gap folds the samples of every member
//! ```
//! As in [`drive`](crate::drive), nothing inside a block allocates, locks, logs or formats.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hairpin_plan::job::Job;
use hairpin_plan::schedule::Schedule;
use hairpin_record::histogram::Times;
use hairpin_record::recorder::{BlockFacts, Recorder};
use hairpin_record::run;
use hairpin_record::warning::Warning;
use hairpin_sys::clock::{AnyClock, Clock, Relation, Ticks};
use hairpin_sys::wait::{Waiting, or_nothing};
use hairpin_units::{Nanos, Quantile};
use hairpin_wire::probe;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};

use super::roll::{Heard, MOST, Member, Roll};
use crate::content::Content;
use crate::drive::silence::{Silence, Silences};
use crate::drive::{
    BLOCK_NS, BetweenBlocks, CLOCK_BASELINE_NS, Counts, FIRST_PATIENCE_NS, IDLE_TURN_NS, LEAST_PATIENCE_NS, LoopEnd, LoopResult,
    TURN_NS, Work,
};
use crate::found::OfReply;
use crate::pace::Timetable;

/// The socket that asks, and its buffers.
pub(super) struct Asking<'fd> {
    socket: BorrowedFd<'fd>,
    to: SocketAddr,
    wait: Waiting<'fd>,
    clock: AnyClock,
    pub(super) work: Work,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Sequence number of the next request.
    sequence: u32,
    /// Messages that are no reply.
    corrupt: u64,
}

/// A reply.
pub(super) struct Came {
    pub(super) from: SocketAddr,
    sequence: u32,
    at: Ticks,
}

impl<'fd> Asking<'fd> {
    pub(super) fn new(socket: BorrowedFd<'fd>, to: SocketAddr, wait: Waiting<'fd>, clock: AnyClock, work: Work) -> Asking<'fd> {
        // One byte more, to detect a reply that is too long.
        let (outgoing, incoming) = (vec![0; work.request], vec![0; work.reply + 1]);
        Asking { socket, to, wait, clock, work, outgoing, incoming, sequence: 0, corrupt: 0 }
    }

    /// Sends the next request; returns its sequence number and its time.
    #[inline(always)]
    pub(super) fn send(&mut self) -> io::Result<(u32, Ticks)> {
        let sequence = self.sequence;
        let sent = self.clock.start();
        Content { sequence, cookie: self.work.cookie, verify: self.work.verify }.write(&mut self.outgoing);
        while or_nothing(sendto(self.socket, &self.outgoing, SendFlags::empty(), &self.to))?.is_none() {
            if self.clock.now().since(sent) > self.clock.to_ticks(FIRST_PATIENCE_NS) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the link takes no datagrams"));
            }
        }
        self.sequence = sequence.wrapping_add(1);
        Ok((sequence, sent))
    }

    /// The next reply; `None`: `until` has passed, a signal came, or the message was no reply.
    #[inline(always)]
    fn receive(&mut self, until: Ticks) -> io::Result<Option<Came>> {
        let Asking { socket, wait, incoming, .. } = self;
        let received = wait.wait(until, |_| or_nothing(recvfrom(*socket, &mut incoming[..], RecvFlags::empty())))?;
        let Some((len, _, from)) = received else { return Ok(None) };
        let at = self.clock.stop();
        let bytes = &self.incoming[..len];
        let from = from.and_then(|from| SocketAddr::try_from(from).ok());
        match from.filter(|_| self.work.accepts(bytes, true)) {
            Some(from) => Ok(Some(Came { from, sequence: probe::sequence(bytes), at })),
            None => {
                self.corrupt += 1;
                Ok(None)
            }
        }
    }

    /// As `receive`, for at most `time`.
    pub(super) fn receive_within(&mut self, time: Duration) -> io::Result<Option<Came>> {
        self.receive(self.clock.now().plus(self.clock.to_ticks(Nanos::from(time).0)))
    }
}

/// A row's further results: the first replies, the replies of each member, and the warning that names members that came or left.
pub(super) type Told = (Vec<OfReply>, Option<Warning>);

/// A row in progress.
pub(super) struct Round<'a, 'fd> {
    asking: Asking<'fd>,
    roll: Roll,
    between: &'a mut dyn BetweenBlocks,
    table: Option<Timetable>,
    sent: u64,
    waits_in_vain: u64,
    /// How long a request waits for the missing replies, in ticks.
    patience: u64,
    /// RTTs of all members, from which `patience` follows.
    rtt: Times,
    silences: Silences,
    /// Send time of the first request that nobody has answered since the last reply, and the number of such requests.
    unheard: Option<(Ticks, u64)>,
    /// End of the last block.
    paused: Ticks,
}

impl<'a, 'fd> Round<'a, 'fd> {
    pub(super) fn new(asking: Asking<'fd>, roll: Roll, job: &Job, between: &'a mut dyn BetweenBlocks) -> Round<'a, 'fd> {
        let clock = asking.clock;
        let sleeps = job.spec.client.policy.sleeps();
        Round {
            roll,
            between,
            table: job.pace.map(|per_s| Timetable::new(&clock, Schedule::fixed(per_s, job.request), sleeps)),
            sent: 0,
            waits_in_vain: 0,
            patience: clock.to_ticks(FIRST_PATIENCE_NS),
            rtt: Times::new(),
            silences: Silences::new(&clock),
            unheard: None,
            paused: clock.now(),
            asking,
        }
    }

    pub(super) fn run(mut self) -> (LoopResult, Told) {
        let (clock, work) = (self.asking.clock, self.asking.work);
        self.between.starts();
        let origin = Relation::read(&clock);
        let mut end = self.warm_up();
        let uncounted = u64::from(self.asking.sequence);
        self.roll.begin(self.asking.sequence);
        self.silences.clear();
        (self.sent, self.waits_in_vain, self.unheard, self.asking.corrupt) = (0, 0, None, 0);
        self.table.iter_mut().for_each(Timetable::rewind);
        let began = clock.now();
        self.between.begins(began);
        let ends = work.duration_ns.map_or(Ticks::NEVER, |ns| began.plus(clock.to_ticks(ns)));
        self.table.iter_mut().for_each(|table| table.begin(began, ends));
        self.paused = began;
        let (mut last, mut early, mut busy) = (Relation::read(&clock), None, 0);
        while end.is_none() {
            let now = clock.now();
            let left = work.count.map_or(u64::MAX, |count| count.saturating_sub(self.sent));
            // After the end one more request is sent at a time, until one is answered or nobody is left.
            if left == 0 || (now >= ends && (self.sent == 0 || self.roll.first.recorder.rtt().count() > 0)) {
                end = Some(LoopEnd::Done);
                break;
            }
            if now >= ends && self.table.is_some() {
                end = Some(silent(clock.to_ns(now.since(began))));
                break;
            }
            if self.between.stopped() {
                end = Some(LoopEnd::Stopped);
                break;
            }
            let before = Relation::read(&clock);
            let sent = self.sent;
            self.between.begins_block();
            let (start, result) = self.block(ends, left);
            self.between.ends_block(self.sent - sent);
            let length = self.paused.since(start);
            last = Relation::read(&clock);
            end = result;
            busy += length;
            let known = before.raw_ns.saturating_sub(origin.raw_ns) >= CLOCK_BASELINE_NS;
            if known && early.is_none() {
                early = Some(last);
            }
            let facts = BlockFacts {
                at_ns: clock.to_ns(start.since(began)),
                length_ns: clock.to_ns(length),
                core_rtt_ns: None,
                clock_suspect: known && last.disagrees(&origin, &before),
            };
            if let Err(error) = self.publish(facts, began) {
                end = Some(LoopEnd::Failed(error));
            }
        }
        let typical = clock.to_ticks(self.rtt.typical());
        let silences = std::mem::replace(&mut self.silences, Silences::new(&clock)).finish(typical, true);
        let of = |one: &Silence| run::Silence {
            at_ns: clock.to_ns(one.since.since(began)),
            length_ns: clock.to_ns(one.until.since(one.since)),
            sent: one.sent,
            answered: one.answered,
        };
        let (counts, exchanges) = (self.counts(), uncounted + self.sent);
        let gap_ns = clock.to_ns(last.ticks.since(began).saturating_sub(busy));
        let (recorder, told) = told(self.roll, self.sent, |at| Nanos(clock.to_ns(at.since(began))));
        let result = LoopResult {
            gap_ns,
            silences: silences.iter().map(of).collect(),
            recorder,
            exchanges,
            counts,
            end: end.unwrap_or(LoopEnd::Done),
            drift_ppb: early.and_then(|early: Relation| {
                let apart = last.raw_ns.saturating_sub(early.raw_ns) >= CLOCK_BASELINE_NS;
                apart.then(|| (last.rate_since(&early) / early.rate_since(&origin) - 1.0) * 1e9)
            }),
        };
        (result, told)
    }

    /// Runs blocks that are discarded.
    fn warm_up(&mut self) -> Option<LoopEnd> {
        let clock = self.asking.clock;
        let began = clock.now();
        let ends = began.plus(clock.to_ticks(self.asking.work.warmup_ns));
        self.table.iter_mut().for_each(|table| table.begin(began, ends));
        while clock.now() < ends {
            if self.between.stopped() {
                return Some(LoopEnd::Stopped);
            }
            let (_, end) = self.block(ends, u64::MAX);
            self.settle();
            if end.is_some() {
                return end;
            }
        }
        None
    }

    /// Runs one block of at most `left` requests until `ends`. Returns its start, and the reason for the run to end, if any.
    fn block(&mut self, ends: Ticks, left: u64) -> (Ticks, Option<LoopEnd>) {
        let clock = self.asking.clock;
        self.table.iter_mut().for_each(Timetable::fill);
        let start = clock.now();
        let paused = self.paused;
        self.table.iter_mut().for_each(|table| table.resume(paused, start));
        let (limit, most) = match start < ends {
            true => (ends.min(start.plus(clock.to_ticks(BLOCK_NS))), left.min(MOST as u64)),
            false => (Ticks::NEVER, 1),
        };
        let end = self.requests(limit, ends, most).err();
        self.paused = clock.now();
        (start, end)
    }

    fn requests(&mut self, limit: Ticks, ends: Ticks, most: u64) -> Result<(), LoopEnd> {
        for _ in 0..most {
            if self.asking.clock.now() >= limit || !self.idle(ends)? {
                break;
            }
            self.request()?;
        }
        Ok(())
    }

    /// Waits until the next request is due, if the run has due times; false if it ends first.
    fn idle(&mut self, ends: Ticks) -> Result<bool, LoopEnd> {
        let (Some(table), clock) = (&mut self.table, self.asking.clock) else { return Ok(true) };
        let due = table.next().at;
        loop {
            let now = clock.now();
            if now >= due {
                table.advance();
                return Ok(true);
            }
            if self.between.stopped() {
                return Err(LoopEnd::Stopped);
            }
            if now >= ends {
                return Ok(false);
            }
            let until = due.min(ends).min(now.plus(clock.to_ticks(IDLE_TURN_NS)));
            if table.sleeps() {
                clock.sleep_until(until);
            } else {
                while clock.now() < until {
                    std::hint::spin_loop();
                }
            }
        }
    }

    /// Sends one request, and takes replies until it has them all or is given up.
    #[inline(always)]
    fn request(&mut self) -> Result<(), LoopEnd> {
        let clock = self.asking.clock;
        let (sequence, sent) = self.asking.send().map_err(LoopEnd::Failed)?;
        self.roll.ask(sequence, sent);
        self.sent += 1;
        // A member has to leave several requests unanswered before it counts as gone.
        let gives_up = sent.plus(self.patience.min(clock.to_ticks(self.asking.work.timeout_ns / 4)));
        let mut look_at = sent.plus(clock.to_ticks(TURN_NS));
        loop {
            let now = match self.asking.receive(gives_up.min(look_at)).map_err(LoopEnd::Failed)? {
                Some(came) => {
                    let heard = self.roll.heard(came.from, came.sequence, came.at);
                    self.end_silence(sent, came.at, heard);
                    if heard == Heard::Last {
                        return Ok(());
                    }
                    came.at
                }
                None => clock.now(),
            };
            if now >= look_at {
                self.waits_in_vain += 1;
                if self.between.stopped() {
                    return Err(LoopEnd::Stopped);
                }
                look_at = now.plus(clock.to_ticks(TURN_NS));
            }
            if now >= gives_up {
                return self.give_up(sent, now);
            }
        }
    }

    #[cold]
    fn give_up(&mut self, sent: Ticks, now: Ticks) -> Result<(), LoopEnd> {
        let (there, unheard) = self.roll.give_up(now, self.asking.clock.to_ticks(self.asking.work.timeout_ns));
        if unheard {
            self.unheard.get_or_insert((sent, 0)).1 += 1;
        }
        if there > 0 {
            return Ok(());
        }
        Err(silent(self.asking.work.timeout_ns))
    }

    /// Ends a stretch without a reply, if there was one.
    #[inline(always)]
    fn end_silence(&mut self, sent: Ticks, now: Ticks, heard: Heard) {
        let (since, before) = self.unheard.take().unwrap_or((sent, 0));
        if self.silences.is_long(now.since(since)) {
            let answered = u64::from(matches!(heard, Heard::One | Heard::Last));
            self.silences.note(Silence { since, until: now, sent: before + 1, answered });
        }
    }

    fn counts(&self) -> Counts {
        let (sent, lost, corrupt) = (self.sent, self.roll.last.lost, self.asking.corrupt);
        Counts { sent, lost, corrupt, waits_in_vain: self.waits_in_vain, ..Counts::default() }
    }

    /// Folds the samples of a block and passes them on.
    fn publish(&mut self, facts: BlockFacts, began: Ticks) -> io::Result<()> {
        let (clock, counts) = (self.asking.clock, self.counts());
        self.roll.fold(facts, &clock, began);
        let last = &self.roll.last;
        let published = self.between.block(&last.recorder, &counts, &mut last.samples(&clock, began));
        self.settle();
        published
    }

    /// Makes room for the next block.
    fn settle(&mut self) {
        let (clock, rtt) = (self.asking.clock, &mut self.rtt);
        self.roll.drop_samples(|ticks| rtt.record(clock.to_ns(ticks)));
        self.roll.admit(clock.now());
        if self.rtt.count() > 0 {
            let slow = self.rtt.quantile(Quantile::P999).unwrap_or(self.rtt.max());
            self.patience = clock.to_ticks(slow.saturating_mul(10).max(LEAST_PATIENCE_NS));
        }
    }
}

fn silent(ns: u64) -> LoopEnd {
    let text = format!("no reply for {}: every responder has left, or something between drops its packets", Nanos(ns));
    LoopEnd::Failed(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// The recorder of the last replies, and the row's further results.
fn told(roll: Roll, sent: u64, at: impl Fn(Ticks) -> Nanos) -> (Recorder, Told) {
    let named = |of: fn(&Member) -> Option<Ticks>| {
        let of = |member: &Member| Some((member.from.to_string(), at(of(member)?)));
        roll.members.iter().filter_map(of).collect::<Vec<_>>()
    };
    let (joined, left) = (named(|member| member.joined), named(|member| member.left));
    let changed = (!joined.is_empty() || !left.is_empty()).then_some(Warning::Responders { joined, left });
    let first = OfReply {
        reply: run::FIRST_REPLY.into(),
        lost: roll.first.lost,
        recorder: roll.first.recorder,
        late: 0,
        duplicates: 0,
        asked: sent,
    };
    let each = roll.members.into_iter().map(|member| OfReply {
        reply: member.from.to_string(),
        lost: member.tally.lost,
        recorder: member.tally.recorder,
        late: member.late,
        duplicates: member.duplicates,
        asked: member.asked,
    });
    (roll.last.recorder, ([first].into_iter().chain(each).collect(), changed))
}
