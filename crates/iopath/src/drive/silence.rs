//! Stretches with requests in flight and no reply: a stalled server, or a link that carried nothing.
//!
//! ```text
//!   requests   │ │ │ │ │ │ │ │ │ │ │
//!   replies    │ │ │                 │││││││││ │
//!                  └──── silence ────┘└ answers to requests sent meanwhile
//! ```

use hairpin_record::warning::MOST_SILENCES;
use hairpin_sys::clock::{Clock, Ticks};
use hairpin_units::Arrange;

use super::Loop;

/// Shortest stretch that is kept, in ns: longer than any stall of a virtual machine seen so far.
pub const LEAST_SILENCE_NS: u64 = 100_000_000;
/// Number of stretches kept, the longest ones.
const KEPT: usize = MOST_SILENCES as usize;

/// A stretch without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Time of the first unanswered request or of the last reply.
    pub since: Ticks,
    /// Time of the next reply, or the end of the run.
    pub until: Ticks,
    /// Requests sent during the stretch.
    pub sent: u64,
    /// Requests of the stretch that were answered later.
    pub answered: u64,
}

impl Silence {
    fn ticks(&self) -> u64 {
        self.until.since(self.since)
    }
}

pub(crate) struct Silences {
    least: u64,
    kept: Vec<Silence>,
    last: Option<Silence>,
}

impl Silences {
    pub(crate) fn new<C: Clock>(clock: &C) -> Silences {
        Silences { least: clock.to_ticks(LEAST_SILENCE_NS), kept: Vec::with_capacity(KEPT + 1), last: None }
    }

    pub(crate) fn is_long(&self, ticks: u64) -> bool {
        ticks >= self.least
    }

    /// Adds a stretch that has ended.
    #[cold]
    pub(crate) fn note(&mut self, silence: Silence) {
        self.keep_last();
        self.last = Some(silence);
    }

    /// Counts a reply to a request that was sent in the last stretch.
    #[cold]
    pub(super) fn answered(&mut self, sent: Ticks) {
        if let Some(last) = &mut self.last
            && sent >= last.since
        {
            last.answered += 1;
        }
    }

    /// End of the last stretch.
    pub(super) fn until(&self) -> Ticks {
        self.last.map_or(Ticks(0), |last| last.until)
    }

    fn keep_last(&mut self) {
        let Some(last) = self.last.take() else { return };
        self.kept.push(last);
        if self.kept.len() > KEPT {
            let shortest = (0..self.kept.len()).min_by_key(|at| self.kept[*at].ticks()).unwrap_or(0);
            self.kept.swap_remove(shortest);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.last = None;
    }

    /// The kept stretches in order of time, without those that a `typical` round trip (in ticks) explains, and without the plain
    /// loss of a datagram or two.
    pub(crate) fn finish(mut self, typical: u64, lossy: bool) -> Vec<Silence> {
        self.keep_last();
        let least = self.least + 3 * typical;
        // Where requests are rare, the reply to the one after the loss ends the stretch.
        let is_plain_loss = |one: &Silence| {
            let lost = one.sent.saturating_sub(one.answered);
            lossy && one.answered < 2 && lost < 3 && (lost > 0 || one.answered == 0)
        };
        self.kept.retain(|one| one.ticks() >= least && !is_plain_loss(one));
        self.kept.arrange_by_key(|one| one.since);
        self.kept
    }
}

impl<C: Clock> Loop<'_, C> {
    /// Notes a reply to a request sent at `sent`: the peer is alive.
    #[inline(always)]
    pub(super) fn heard(&mut self, sent: Ticks, now: Ticks) {
        self.looked(now);
        if self.silences.is_long(now.since(self.last_reply)) {
            self.end_silence(now, true);
        } else if sent < self.silent_until {
            self.silences.answered(sent);
        }
        (self.last_reply, self.answered) = (now, true);
    }

    /// Notes that this process was running at `now`.
    #[inline(always)]
    pub(super) fn looked(&mut self, now: Ticks) {
        let gap = now.since(self.last_stamp);
        self.silence = self.silence.max(gap);
        self.last_stamp = now;
        if gap >= self.stop_least {
            self.was_stopped(gap, now);
        }
    }

    /// Notes that this process, not the peer, stood still for `gap` until `now`.
    #[cold]
    fn was_stopped(&mut self, gap: u64, now: Ticks) {
        self.counts.longest_stop_ns = self.counts.longest_stop_ns.max(self.clock.to_ns(gap));
        self.last_reply = self.last_reply.plus(gap).min(now);
    }

    /// Ends a stretch without a reply; `answered`: the reply that ends it answers a request of the stretch.
    #[cold]
    fn end_silence(&mut self, now: Ticks, answered: bool) {
        let since = self.last_reply;
        let sent_in = |sent: Ticks| sent >= since && sent < now;
        let flying = self.flight.in_flight().filter(|(sent, _)| sent_in(*sent)).count();
        let given_up = self.flight.given_up.iter().filter(|one| one.counts && sent_in(one.sent)).count();
        let sent = (flying + given_up) as u64 + u64::from(answered);
        self.silences.note(Silence { since, until: now, sent, answered: u64::from(answered) });
        self.silent_until = self.silences.until();
    }

    /// At the end of the run: notes the stretch since the last reply if requests are in flight.
    pub(super) fn end_last_silence(&mut self) {
        let now = self.clock.now();
        let flying = self.flight.in_flight().map(|(sent, _)| sent);
        let given_up = self.flight.given_up.iter().filter(|one| one.counts).map(|one| one.sent);
        let waits = flying.chain(given_up).any(|sent| sent >= self.last_reply);
        if waits && self.silences.is_long(now.since(self.last_reply)) {
            self.end_silence(now, false);
        }
    }

    pub(super) fn clock_silence(&self, one: &Silence, began: Ticks) -> hairpin_record::run::Silence {
        hairpin_record::run::Silence {
            at_ns: self.clock.to_ns(one.since.since(began)),
            length_ns: self.clock.to_ns(one.until.since(one.since)),
            sent: one.sent,
            answered: one.answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::clock::FakeClock;

    fn silence(since_ms: u64, ms: u64, sent: u64) -> Silence {
        let at = |ms: u64| Ticks(ms * 1_000_000);
        Silence { since: at(since_ms), until: at(since_ms + ms), sent, answered: 0 }
    }

    #[test]
    fn the_longest_are_kept_in_the_order_of_time() {
        let mut silences = Silences::new(&FakeClock::default());
        (0..40).for_each(|n| silences.note(silence(n * 1_000, 100 + n, 9)));
        let kept = silences.finish(0, false);
        assert_eq!((kept.len(), kept[0].since, kept[15].ticks()), (16, Ticks(24_000_000_000), 139_000_000));
    }

    #[test]
    fn counts_answers_to_the_last_requests() {
        let mut silences = Silences::new(&FakeClock::default());
        silences.note(silence(1_000, 500, 3));
        assert_eq!(silences.until(), Ticks(1_500_000_000));
        [999, 1_000, 1_400].into_iter().for_each(|ms: u64| silences.answered(Ticks(ms * 1_000_000)));
        assert_eq!(silences.finish(0, true)[0].answered, 2, "one was sent before");
    }

    #[test]
    fn a_long_way_and_a_lost_datagram_are_no_silence() {
        let kept = |typical: u64, lossy, one: Silence| {
            let mut silences = Silences::new(&FakeClock::default());
            silences.note(one);
            silences.finish(typical, lossy).len()
        };
        assert_eq!(kept(200_000_000, false, silence(0, 250, 5)), 0);
        assert_eq!(kept(200_000_000, false, silence(0, 750, 5)), 1);
        assert_eq!([kept(0, true, silence(0, 250, 2)), kept(0, true, silence(0, 250, 3))], [0, 1]);
        // At a low rate the next reply ends it; where all came later, the server stood still.
        let of = |sent, answered| Silence { answered, ..silence(0, 1_100, sent) };
        let all = [of(2, 1), of(3, 1), of(4, 1), of(1, 1), of(2, 2), of(9, 7)];
        assert_eq!(all.map(|one| kept(0, true, one)), [0, 0, 1, 1, 1, 1]);
        assert_eq!(kept(0, false, of(2, 1)), 1);
    }
}
