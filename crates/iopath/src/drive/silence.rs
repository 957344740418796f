//! Stretches in which requests were out and no reply came: a server that stood still, or a link that carried nothing.
//!
//! ```text
//!   requests   │ │ │ │ │ │ │ │ │ │ │
//!   replies    │ │ │                 │││││││││ │
//!                  └──── silence ────┘└ answers to what was sent meanwhile
//! ```

use hairpin_sys::clock::{Clock, Ticks};

use super::Loop;

/// A stretch without a reply is kept from this length on, in ns: no stall of a virtual machine that was seen lasts so long.
pub const LEAST_SILENCE_NS: u64 = 100_000_000;
/// Stretches kept: the longest ones.
const KEPT: usize = 16;

/// One stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The first request that was not answered was sent, or the last reply came.
    pub since: Ticks,
    /// The next reply came, or the run ended.
    pub until: Ticks,
    /// Requests sent meanwhile.
    pub sent: u64,
    /// How many of those were answered later.
    pub answered: u64,
}

impl Silence {
    fn ticks(&self) -> u64 {
        self.until.since(self.since)
    }
}

/// The stretches of a run.
pub(super) struct Silences {
    least: u64,
    kept: Vec<Silence>,
    last: Option<Silence>,
}

impl Silences {
    pub(super) fn new<C: Clock>(clock: &C) -> Silences {
        Silences { least: clock.to_ticks(LEAST_SILENCE_NS), kept: Vec::with_capacity(KEPT + 1), last: None }
    }

    pub(super) fn is_long(&self, ticks: u64) -> bool {
        ticks >= self.least
    }

    /// A stretch has ended.
    #[cold]
    pub(super) fn note(&mut self, silence: Silence) {
        self.keep_last();
        self.last = Some(silence);
    }

    /// A reply came to a request that was sent before the last stretch ended.
    #[cold]
    pub(super) fn answered(&mut self, sent: Ticks) {
        if let Some(last) = &mut self.last
            && sent >= last.since
        {
            last.answered += 1;
        }
    }

    /// The end of the last stretch.
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

    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.last = None;
    }

    /// All that are kept, in the order of time, without those that are no longer than `typical` ticks of a round trip explain, and without the plain loss of a
    /// datagram or two.
    pub(super) fn finish(mut self, typical: u64, lossy: bool) -> Vec<Silence> {
        self.keep_last();
        let least = self.least + 3 * typical;
        self.kept.retain(|one| one.ticks() >= least && !(lossy && one.answered == 0 && one.sent < 3));
        self.kept.sort_by_key(|one| one.since);
        self.kept
    }
}

impl<C: Clock> Loop<'_, C> {
    /// A reply to a request that was sent at `sent`: the peer is alive.
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

    /// This process was running at `now`.
    #[inline(always)]
    pub(super) fn looked(&mut self, now: Ticks) {
        let gap = now.since(self.last_stamp);
        self.silence = self.silence.max(gap);
        self.last_stamp = now;
        if gap >= self.stop_least {
            self.was_stopped(gap, now);
        }
    }

    /// For `gap` until `now` it was this process that stood still, and not the peer.
    #[cold]
    fn was_stopped(&mut self, gap: u64, now: Ticks) {
        self.counts.longest_stop_ns = self.counts.longest_stop_ns.max(self.clock.to_ns(gap));
        self.last_reply = self.last_reply.plus(gap).min(now);
    }

    /// Nothing was heard since the last reply, although requests were out; `answered`: the reply that ends it answers one of them.
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

    /// The run is over, and requests have been out since the last reply.
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
    fn answers_to_what_was_sent_in_the_last_stretch_are_counted() {
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
    }
}
