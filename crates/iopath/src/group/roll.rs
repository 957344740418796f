//! The responders of a group: who has answered the request in flight, and how replies to other requests count.
//!
//! ```text
//!   reply to the request in flight   first one: an RTT; again: a duplicate
//!   reply to an earlier one          given up without it: late; answered before: a duplicate
//!   reply of a stranger              joins the group from the next block on
//! ```
//! A member that answers nothing for as long as the timeout counts as gone: nobody waits for it until it answers again.

use std::net::SocketAddr;

use hairpin_plan::job::group::MOST_RESPONDERS;
use hairpin_record::recorder::{BlockFacts, Recorder, Sample};
use hairpin_sys::clock::{Clock, Ticks};
use hairpin_units::Nanos;

/// Requests of a block, so that memory is set aside for all samples.
pub(super) const MOST: usize = 1_024;
/// Earlier requests for which each member's answer is remembered; every reply to an older request counts as late.
const REMEMBERED: usize = 1_024;

/// One kind of round trip: to the first reply, to the last, or to that of a member.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) recorder: Recorder,
    stamps: Vec<Stamp>,
    pub(super) lost: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    sent: Ticks,
    rtt: u64,
    sequence: u32,
}

impl Tally {
    fn new(duration: Option<Nanos>) -> Tally {
        let recorder = Recorder::new(duration, false, 0, 1);
        // Touch the pages now, so that no page fault happens inside a block.
        let mut stamps = vec![Stamp::default(); MOST];
        stamps.clear();
        Tally { recorder, stamps, lost: 0 }
    }

    #[inline(always)]
    fn push(&mut self, stamp: Stamp) {
        if self.stamps.len() < MOST {
            self.stamps.push(stamp);
        }
    }

    /// The samples of the block.
    pub(super) fn samples<'a, C: Clock>(&'a self, clock: &'a C, began: Ticks) -> impl Iterator<Item = Sample> + 'a {
        samples(&self.stamps, clock, began)
    }

    fn fold<C: Clock>(&mut self, facts: BlockFacts, clock: &C, began: Ticks) {
        let Tally { recorder, stamps, .. } = self;
        recorder.fold(facts, samples(stamps, clock, began));
    }
}

fn samples<'a, C: Clock>(stamps: &'a [Stamp], clock: &'a C, began: Ticks) -> impl Iterator<Item = Sample> + 'a {
    stamps.iter().map(move |stamp| {
        let sent_ns = clock.to_ns(stamp.sent.since(began));
        Sample { due_ns: sent_ns, sent_ns, rtt_ns: clock.to_ns(stamp.rtt), sequence: stamp.sequence, ..Sample::default() }
    })
}

/// A responder.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) from: SocketAddr,
    pub(super) tally: Tally,
    pub(super) late: u64,
    pub(super) duplicates: u64,
    /// Requests that the member should have answered, and the last of them.
    pub(super) asked: u64,
    asked_last: Option<u32>,
    /// For each of the last requests that it answered, the sequence number plus 1.
    answered: Vec<u64>,
    /// Send time of the first request that it has not answered since its last reply.
    silent_since: Option<Ticks>,
    left: Option<Ticks>,
    /// When it left for the first time, whether or not it has come back.
    pub(super) went: Option<Ticks>,
    pub(super) joined: Option<Ticks>,
}

impl Member {
    fn new(from: SocketAddr, duration: Option<Nanos>, joined: Option<Ticks>) -> Member {
        let answered = vec![0; REMEMBERED];
        Member {
            from,
            tally: Tally::new(duration),
            late: 0,
            duplicates: 0,
            asked: 0,
            asked_last: None,
            answered,
            silent_since: None,
            left: None,
            went: None,
            joined,
        }
    }

    fn has_answered(&self, sequence: u32) -> bool {
        self.answered[sequence as usize % REMEMBERED] == u64::from(sequence) + 1
    }
}

/// The request that a reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// To the request in flight, which has all replies now.
    Last,
    /// To the request in flight.
    One,
    /// To an earlier request, a second reply, or a stranger's.
    Other,
    /// To a request that was never sent, or from one stranger too many.
    Invalid,
}

#[derive(Debug)]
pub(super) struct Roll {
    duration: Option<Nanos>,
    pub(super) first: Tally,
    pub(super) last: Tally,
    pub(super) members: Vec<Member>,
    strangers: Vec<SocketAddr>,
    /// Requests that count, the last one included.
    counted: u64,
    /// The last request that was sent.
    sequence: u32,
    sent: Ticks,
    /// The last request is in flight.
    open: bool,
    /// Number of its replies that have not come.
    missing: usize,
    /// None of its replies has come.
    none: bool,
}

impl Roll {
    pub(super) fn of(found: Vec<SocketAddr>, duration: Option<Nanos>) -> Roll {
        let members = found.into_iter().map(|from| Member::new(from, duration, None)).collect();
        Roll {
            duration,
            first: Tally::new(duration),
            last: Tally::new(duration),
            members,
            strangers: Vec::with_capacity(MOST_RESPONDERS),
            counted: 0,
            sequence: 0,
            sent: Ticks(0),
            open: false,
            missing: 0,
            none: true,
        }
    }

    /// Measuring begins with the next request: replies to earlier ones count in no figure.
    pub(super) fn begin(&mut self) {
        self.counted = 0;
        (self.first, self.last) = (Tally::new(self.duration), Tally::new(self.duration));
        for member in &mut self.members {
            member.tally = Tally::new(self.duration);
            (member.late, member.duplicates, member.asked) = (0, 0, 0);
            (member.joined, member.went) = (None, member.left);
        }
    }

    /// A request was sent.
    #[inline(always)]
    pub(super) fn ask(&mut self, sequence: u32, sent: Ticks) {
        (self.sequence, self.sent, self.open, self.none, self.missing) = (sequence, sent, true, true, 0);
        self.counted += 1;
        for member in self.members.iter_mut().filter(|member| member.left.is_none()) {
            member.asked += 1;
            member.asked_last = Some(sequence);
            self.missing += 1;
        }
    }

    /// A reply came with the sequence number `carried`.
    #[inline(always)]
    pub(super) fn heard(&mut self, from: SocketAddr, carried: u32, now: Ticks) -> Heard {
        let Some(member) = self.members.iter_mut().find(|member| member.from == from) else { return self.stranger(from) };
        let back = self.sequence.wrapping_sub(carried);
        if back > u32::MAX / 2 {
            return Heard::Invalid;
        }
        (member.silent_since, member.left) = (None, None);
        let known = member.has_answered(carried);
        if (back as usize) < REMEMBERED {
            member.answered[carried as usize % REMEMBERED] = u64::from(carried) + 1;
        }
        if back > 0 || !self.open || known {
            // Replies to requests of the warm-up count nowhere.
            if u64::from(back) < self.counted {
                *(if known { &mut member.duplicates } else { &mut member.late }) += 1;
            }
            return Heard::Other;
        }
        let stamp = Stamp { sent: self.sent, rtt: now.since(self.sent), sequence: carried };
        member.tally.push(stamp);
        if member.asked_last == Some(carried) {
            self.missing -= 1;
        } else {
            // The member was away when the request was sent, so nobody waits for it.
            member.asked += 1;
        }
        if self.none {
            self.first.push(stamp);
            self.none = false;
        }
        if self.missing > 0 {
            return Heard::One;
        }
        self.last.push(stamp);
        self.open = false;
        Heard::Last
    }

    #[cold]
    fn stranger(&mut self, from: SocketAddr) -> Heard {
        if self.strangers.contains(&from) {
            return Heard::Other;
        }
        if self.members.len() + self.strangers.len() >= MOST_RESPONDERS {
            return Heard::Invalid;
        }
        self.strangers.push(from);
        Heard::Other
    }

    /// Gives up the request in flight. Returns the number of members that are still there, and true if no member has answered it.
    #[cold]
    pub(super) fn give_up(&mut self, now: Ticks, timeout: u64) -> (usize, bool) {
        self.open = false;
        let (sequence, sent) = (self.sequence, self.sent);
        let silent = |member: &&mut Member| member.asked_last == Some(sequence) && !member.has_answered(sequence);
        for member in self.members.iter_mut().filter(silent) {
            member.tally.lost += 1;
            let since = *member.silent_since.get_or_insert(sent);
            if now.since(since) >= timeout {
                member.left = Some(since);
                member.went.get_or_insert(since);
            }
        }
        self.last.lost += 1;
        self.first.lost += u64::from(self.none);
        (self.members.iter().filter(|member| member.left.is_none()).count(), self.none)
    }

    /// Between blocks: strangers become members, as from `now`.
    pub(super) fn admit(&mut self, now: Ticks) {
        for from in std::mem::take(&mut self.strangers) {
            self.members.push(Member::new(from, self.duration, Some(now)));
        }
        self.strangers.reserve(MOST_RESPONDERS);
    }

    /// Between blocks: folds the samples.
    pub(super) fn fold<C: Clock>(&mut self, facts: BlockFacts, clock: &C, began: Ticks) {
        let present = self.members.iter_mut().filter(|member| member.left.is_none() || !member.tally.stamps.is_empty());
        let all = [&mut self.first, &mut self.last].into_iter().chain(present.map(|member| &mut member.tally));
        all.for_each(|tally| tally.fold(facts, clock, began));
    }

    /// Between blocks: drops the samples, after passing the RTTs of all members to `look`.
    pub(super) fn drop_samples(&mut self, mut look: impl FnMut(u64)) {
        self.members.iter().flat_map(|member| &member.tally.stamps).for_each(|stamp| look(stamp.rtt));
        for tally in self.members.iter_mut().map(|member| &mut member.tally).chain([&mut self.first, &mut self.last]) {
            tally.stamps.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: u64 = 5_000;

    fn at(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// A roll of members with these ports, which has sent request 0 at 100.
    fn asked(ports: &[u16]) -> Roll {
        let mut roll = Roll::of(ports.iter().map(|port| at(*port)).collect(), None);
        roll.begin();
        roll.ask(0, Ticks(100));
        roll
    }

    /// RTTs in the order of the replies.
    fn rtts(tally: &Tally) -> Vec<u64> {
        tally.stamps.iter().map(|stamp| stamp.rtt).collect()
    }

    #[test]
    fn the_first_the_last_and_each_reply_have_an_rtt() {
        let mut roll = asked(&[1, 2, 3]);
        assert_eq!(roll.heard(at(2), 0, Ticks(130)), Heard::One);
        assert_eq!(roll.heard(at(1), 0, Ticks(150)), Heard::One);
        assert_eq!(roll.heard(at(3), 0, Ticks(190)), Heard::Last);
        assert_eq!((rtts(&roll.first), rtts(&roll.last)), (vec![30], vec![90]));
        assert_eq!(roll.members.iter().map(|member| rtts(&member.tally)).collect::<Vec<_>>(), [[50], [30], [90]]);
    }

    #[test]
    fn a_second_reply_is_a_duplicate_whenever_it_comes() {
        let mut roll = asked(&[1, 2]);
        roll.heard(at(1), 0, Ticks(130));
        assert_eq!(roll.heard(at(1), 0, Ticks(140)), Heard::Other);
        assert_eq!(roll.heard(at(2), 0, Ticks(150)), Heard::Last);
        assert_eq!(roll.heard(at(2), 0, Ticks(160)), Heard::Other);
        roll.ask(1, Ticks(200));
        assert_eq!(roll.heard(at(1), 0, Ticks(210)), Heard::Other);
        assert_eq!(
            roll.members.iter().map(|one| (one.duplicates, one.late, rtts(&one.tally).len())).collect::<Vec<_>>(),
            [(2, 0, 1), (1, 0, 1)]
        );
    }

    #[test]
    fn a_late_reply_counts_for_its_own_request_and_not_for_the_next() {
        let mut roll = asked(&[1, 2]);
        roll.heard(at(1), 0, Ticks(130));
        assert_eq!(roll.give_up(Ticks(400), TIMEOUT), (2, false));
        roll.ask(1, Ticks(500));
        assert_eq!(roll.heard(at(2), 0, Ticks(510)), Heard::Other);
        assert_eq!(roll.heard(at(1), 1, Ticks(520)), Heard::One);
        assert_eq!(roll.heard(at(2), 1, Ticks(560)), Heard::Last);
        let slow = &roll.members[1];
        assert_eq!((slow.tally.lost, slow.late, slow.duplicates, rtts(&slow.tally)), (1, 1, 0, vec![60]));
        assert_eq!((roll.first.lost, roll.last.lost, rtts(&roll.last)), (0, 1, vec![60]), "the first request has no last reply");
        assert_eq!(roll.heard(at(2), 0, Ticks(570)), Heard::Other);
        assert_eq!(roll.members[1].duplicates, 1, "it has come before, if late");
    }

    #[test]
    fn a_member_that_falls_silent_is_waited_for_until_the_timeout_and_again_when_it_is_back() {
        let mut roll = asked(&[1, 2]);
        for sequence in 1..=3 {
            roll.heard(at(1), sequence - 1, Ticks(u64::from(sequence) * 2_000));
            assert_eq!(roll.give_up(Ticks(u64::from(sequence) * 2_000), TIMEOUT).0, if sequence < 3 { 2 } else { 1 });
            roll.ask(sequence, Ticks(u64::from(sequence) * 2_000));
        }
        let away = &roll.members[1];
        assert_eq!((away.tally.lost, away.asked, away.left), (3, 3, Some(Ticks(100))));
        assert_eq!(roll.heard(at(1), 3, Ticks(6_100)), Heard::Last, "nobody waits for the other one");
        roll.ask(4, Ticks(7_000));
        assert_eq!(roll.heard(at(2), 4, Ticks(7_010)), Heard::One, "it is back");
        assert_eq!(roll.heard(at(1), 4, Ticks(7_020)), Heard::Last);
        roll.ask(5, Ticks(8_000));
        roll.heard(at(1), 5, Ticks(8_010));
        assert_eq!(roll.heard(at(2), 5, Ticks(8_020)), Heard::Last, "and waited for");
        assert_eq!((roll.members[1].left, roll.members[1].asked), (None, 5));
    }

    #[test]
    fn a_member_that_is_back_with_a_late_reply_is_not_waited_for_in_the_request_in_flight() {
        let mut roll = asked(&[1, 2]);
        roll.heard(at(1), 0, Ticks(130));
        assert_eq!(roll.give_up(Ticks(5_200), TIMEOUT).0, 1, "the other one has left");
        roll.ask(1, Ticks(6_000));
        assert_eq!(roll.heard(at(2), 0, Ticks(6_010)), Heard::Other, "late");
        assert_eq!(roll.heard(at(2), 1, Ticks(6_020)), Heard::One, "the request went to it as well");
        assert_eq!(roll.heard(at(1), 1, Ticks(6_030)), Heard::Last);
        roll.ask(2, Ticks(7_000));
        roll.heard(at(1), 2, Ticks(7_010));
        assert_eq!(roll.give_up(Ticks(12_100), TIMEOUT).0, 1);
        roll.ask(3, Ticks(13_000));
        assert_eq!(roll.heard(at(2), 2, Ticks(13_010)), Heard::Other, "late again");
        roll.give_up(Ticks(18_100), TIMEOUT);
        let back = &roll.members[1];
        assert_eq!((back.asked, back.tally.lost, back.late), (3, 2, 2), "no request is lost to it that it was not asked for");
    }

    #[test]
    fn nobody_is_left_after_a_silence_of_all() {
        let mut roll = asked(&[1, 2]);
        assert_eq!(roll.give_up(Ticks(5_100), TIMEOUT), (0, true));
        assert_eq!((roll.first.lost, roll.last.lost), (1, 1));
    }

    #[test]
    fn a_stranger_joins_after_the_block_and_the_number_of_members_is_limited() {
        let mut roll = asked(&[1]);
        for _ in 0..2 {
            assert_eq!(roll.heard(at(9), 0, Ticks(120)), Heard::Other);
        }
        roll.admit(Ticks(300));
        roll.ask(1, Ticks(400));
        assert_eq!(roll.heard(at(1), 1, Ticks(410)), Heard::One);
        assert_eq!(roll.heard(at(9), 1, Ticks(420)), Heard::Last);
        assert_eq!((roll.members[1].joined, rtts(&roll.members[1].tally)), (Some(Ticks(300)), vec![20]));
        let heard: Vec<Heard> = (100..200).map(|port| roll.heard(at(port), 1, Ticks(430))).collect();
        assert_eq!(heard.iter().filter(|heard| **heard == Heard::Other).count(), MOST_RESPONDERS - 2);
        assert!(heard[MOST_RESPONDERS - 2..].iter().all(|heard| *heard == Heard::Invalid));
    }

    #[test]
    fn replies_to_what_was_never_asked_and_to_the_warm_up_count_nowhere() {
        let mut roll = asked(&[1]);
        assert_eq!(roll.heard(at(1), 1, Ticks(110)), Heard::Invalid);
        roll.begin();
        roll.ask(7, Ticks(200));
        assert_eq!(roll.heard(at(1), 6, Ticks(210)), Heard::Other);
        assert_eq!((roll.members[0].late, roll.members[0].duplicates), (0, 0));
    }

    #[test]
    fn late_replies_and_duplicates_count_after_any_number_of_requests() {
        let (mut roll, sequence) = (asked(&[1]), 3_000_000_000_u32);
        roll.counted = u64::from(sequence);
        roll.ask(sequence, Ticks(200));
        for _ in 0..2 {
            assert_eq!(roll.heard(at(1), sequence - 1, Ticks(210)), Heard::Other);
        }
        assert_eq!((roll.members[0].late, roll.members[0].duplicates), (1, 1));
    }
}
