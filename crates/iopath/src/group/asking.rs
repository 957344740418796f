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
        Content { sequence, cookie: self.work.cookie, verify: self.work.verify }.write(&mut self.outgoing);
        let sent = self.clock.start();
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
    /// Time of the last reply.
    heard_at: Ticks,
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
            heard_at: clock.now(),
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
        self.roll.begin();
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
            // Members whose replies are all late never leave, so that lasts no longer than the timeout.
            if now >= ends && (self.table.is_some() || now >= ends.plus(clock.to_ticks(work.timeout_ns))) {
                end = Some(self.silent(clock.to_ns(now.since(began))));
                break;
            }
            if self.between.stopped() {
                end = Some(LoopEnd::Stopped);
                break;
            }
            let before = Relation::read(&clock);
            let sent = self.sent;
            // Before the block's CPU time begins to count: this moves up to a megabyte.
            self.table.iter_mut().for_each(Timetable::fill);
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
        self.end_last_silence();
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
            self.table.iter_mut().for_each(Timetable::fill);
            let (_, end) = self.block(ends, u64::MAX);
            self.settle();
            if end.is_some() {
                return end;
            }
        }
        None
    }

    /// Runs one block of at most `left` requests until `ends`; its due times are written out. Returns its start, and the reason
    /// for the run to end, if any.
    fn block(&mut self, ends: Ticks, left: u64) -> (Ticks, Option<LoopEnd>) {
        let clock = self.asking.clock;
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
            self.waits_in_vain += u64::from(clock.now() < due);
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
        let patience = self.patience.min(clock.to_ticks(self.asking.work.timeout_ns / 4));
        let (mut gives_up, mut is_longer) = (sent.plus(patience), false);
        let mut look_at = sent.plus(clock.to_ticks(TURN_NS));
        loop {
            let until = gives_up.min(look_at);
            let (now, in_time) = match self.asking.receive(until).map_err(LoopEnd::Failed)? {
                Some(came) => {
                    let heard = self.roll.heard(came.from, came.sequence, came.at);
                    self.end_silence(sent, came.at, heard);
                    if heard == Heard::Last {
                        return Ok(());
                    }
                    (came.at, false)
                }
                None => {
                    let now = clock.now();
                    (now, now.since(until) <= clock.to_ticks(self.asking.work.late_look_ns()))
                }
            };
            if now >= look_at {
                self.waits_in_vain += 1;
                if self.between.stopped() {
                    return Err(LoopEnd::Stopped);
                }
                look_at = now.plus(clock.to_ticks(TURN_NS));
            }
            if now >= gives_up {
                if in_time || is_longer {
                    return self.give_up(sent, now);
                }
                // After a stall of this core further replies lie in the socket: they are received first.
                (gives_up, is_longer) = (now.plus(patience / 8), true);
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
        Err(self.silent(self.asking.work.timeout_ns))
    }

    /// Ends a stretch without a reply, if there was one: a reply to the request of `sent` that is not the first one ends none.
    #[inline(always)]
    fn end_silence(&mut self, sent: Ticks, now: Ticks, heard: Heard) {
        let begun = if self.heard_at < sent { sent } else { now };
        let (since, before) = self.unheard.take().unwrap_or((begun, 0));
        self.heard_at = now;
        if self.silences.is_long(now.since(since)) {
            let answered = u64::from(matches!(heard, Heard::One | Heard::Last));
            self.silences.note(Silence { since, until: now, sent: before + 1, answered });
        }
    }

    /// At the end of the run: notes the stretch since the last reply if requests were given up in it.
    fn end_last_silence(&mut self) {
        let until = self.paused;
        if let Some((since, sent)) = self.unheard.take()
            && self.silences.is_long(until.since(since))
        {
            self.silences.note(Silence { since, until, sent, answered: 0 });
        }
    }

    #[cold]
    fn silent(&self, ns: u64) -> LoopEnd {
        let why = match self.roll.members.iter().map(|member| member.late).sum::<u64>() {
            0 => "every responder has left, or something between drops its packets".into(),
            late => format!("every responder has left, or the replies come too late, as {late} did: give a longer --timeout"),
        };
        let text = format!("no reply for {}: {why}", Nanos(ns));
        LoopEnd::Failed(io::Error::new(io::ErrorKind::TimedOut, text))
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

/// The recorder of the last replies, and the row's further results.
fn told(roll: Roll, sent: u64, at: impl Fn(Ticks) -> Nanos) -> (Recorder, Told) {
    let named = |of: fn(&Member) -> Option<Ticks>| {
        let of = |member: &Member| Some((member.from.to_string(), at(of(member)?)));
        roll.members.iter().filter_map(of).collect::<Vec<_>>()
    };
    let (joined, left) = (named(|member| member.joined), named(|member| member.went));
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

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::Instant;

    use hairpin_record::recorder::Sample;
    use hairpin_sys::clock::MonotonicRaw;
    use hairpin_sys::wait::Policy;

    use super::*;

    const CLOCK: AnyClock = AnyClock::Raw(MonotonicRaw);
    const MS: u64 = 1_000_000;

    /// Stops a run that does not end by itself.
    struct Until(Instant);

    impl BetweenBlocks for Until {
        fn stopped(&self) -> bool {
            Instant::now() >= self.0
        }

        fn block(&mut self, _: &Recorder, _: &Counts, _: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
            Ok(())
        }
    }

    fn until() -> Until {
        Until(Instant::now() + Duration::from_secs(60))
    }

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    /// A row over `socket` with one member.
    fn round<'a, 'fd>(
        socket: &'fd UdpSocket,
        member: SocketAddr,
        work: Work,
        between: &'a mut dyn BetweenBlocks,
    ) -> Round<'a, 'fd> {
        let wait = Waiting::on(Policy::Poll, 0, CLOCK, &[socket.as_fd()]).unwrap();
        let asking = Asking::new(socket.as_fd(), member, wait, CLOCK, work);
        Round::new(asking, Roll::of(vec![member], None), &Job::new("udp:poll".parse().unwrap()), between)
    }

    #[test]
    fn replies_that_are_all_late_end_the_run_after_the_timeout() {
        let (ours, theirs) = (socket(), socket());
        let member = theirs.local_addr().unwrap();
        theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        thread::spawn(move || {
            let (mut held, mut request) = (None, [0; 64]);
            while let Ok((_, from)) = theirs.recv_from(&mut request) {
                // Each reply comes with the next request.
                if let Some(late) = held.replace(request) {
                    let _ = theirs.send_to(&late, from);
                }
            }
        });
        let work = Work { duration_ns: Some(MS), count: None, timeout_ns: 2_000 * MS, ..Work::short(64, 64, 0) };
        let (found, _) = round(&ours, member, work, &mut until()).run();
        match found.end {
            LoopEnd::Failed(why) => assert!(why.to_string().contains("the replies come too late, as "), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reply_that_comes_long_after_that_of_another_member_ends_no_silence() {
        let (ours, mut between) = (socket(), until());
        let mut round = round(&ours, ours.local_addr().unwrap(), Work::short(64, 64, 0), &mut between);
        let began = round.heard_at;
        let at = |ms: u64| began.plus(CLOCK.to_ticks(ms * MS));
        round.end_silence(at(1), at(2), Heard::One);
        round.end_silence(at(1), at(151), Heard::Last);
        round.end_silence(at(200), at(350), Heard::One);
        let found = round.silences.finish(0, true);
        assert_eq!(found, [Silence { since: at(200), until: at(350), sent: 1, answered: 1 }], "nobody answered for so long");
    }

    #[test]
    fn a_group_that_is_silent_at_the_end_of_the_run_has_a_silence() {
        let (ours, mut between) = (socket(), until());
        let mut round = round(&ours, ours.local_addr().unwrap(), Work::short(64, 64, 0), &mut between);
        let began = round.heard_at;
        let until = began.plus(CLOCK.to_ticks(3_000 * MS));
        (round.unheard, round.paused) = (Some((began, 300)), until);
        round.end_last_silence();
        assert_eq!(round.silences.finish(0, true), [Silence { since: began, until, sent: 300, answered: 0 }]);
    }
}
