//! Kicks of committed frames: at once at a low rate, in batches as the rate grows, never later than a bound.
//!
//! ```text
//!   frames   |    |    |       | | | | |||||||||||||||||        |
//!   kicks    ^    ^    ^       ^ ^   ^    ^       ^    ^        ^
//!            one each          a few      full batches, each    one each again: the caller waits,
//!                                         within max_delay      and recv flushes before it does
//! ```
//! The gap between frames is the time from one commit to the next, outside kicks. While it is longer than a kick takes,
//! a batch would save nothing, and each frame is kicked alone. Otherwise a batch holds the frames that come within the
//! bound, at most [`MOST`].

use std::num::NonZeroU32;
use std::time::Duration;

use hairpin_sys::clock::{Clock, Ticks};

/// The most frames that wait for one kick of [`Coalesce::Adaptive`].
pub const MOST: u32 = 64;

/// The default bound: no frame waits longer for its batch.
pub const MAX_DELAY: Duration = Duration::from_micros(4);

/// A gap this long between two readings of the clock is a stall: the thread did not call, or its core stood still. No
/// call of the library except a kick takes this long, and a kick ends the waiting when it is entered.
pub const STALL: Duration = Duration::from_micros(2);

/// The rule for kicking committed frames. A kick is a system call for most back ends: one for each frame
/// gives the lowest delay, one for a batch the highest rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coalesce {
    /// Each frame at once: the lowest delay.
    #[default]
    Off,
    /// After this many frames, on flush, and before a receive waits; without a time limit. For measuring the gain of
    /// batches.
    Every(NonZeroU32),
    /// At once at a low rate, in batches as the rate grows.
    Adaptive {
        /// The longest that a frame waits for its batch while the thread keeps calling: from commit to kick.
        max_delay: Duration,
    },
}

impl Coalesce {
    /// [`Coalesce::Adaptive`] with the bound of [`MAX_DELAY`].
    pub const ADAPTIVE: Coalesce = Coalesce::Adaptive { max_delay: MAX_DELAY };
}

/// The timing of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited {
    /// The wait of its first frame, in ticks.
    pub(super) ticks: u64,
    /// True if two readings of the clock in this time were more than [`STALL`] apart.
    pub(super) stalled: bool,
}

/// Averages take 1/8 of each new value, in eighths of a tick.
const SHIFT: u32 = 3;

/// Decides for [`Coalesce::Adaptive`]. It reads no clock: the caller passes all times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    max_delay: u64,
    /// The number of waiting frames, and since when the first one waits.
    waiting: u32,
    oldest: Ticks,
    /// The last call, to foresee the next one and to see a stall.
    last_call: Ticks,
    stall: u64,
    /// True if there was a stall while frames waited.
    stalled: bool,
    /// End of the last commit or kick, from where the gap to the next commit counts.
    last: Ticks,
    /// Average gap between commits outside kicks, and average length of a kick; in eighths of a tick.
    gap: u64,
    kick: u64,
}

impl Estimate {
    pub(super) fn new<C: Clock>(max_delay: Duration, clock: &C) -> Estimate {
        let max_delay = clock.to_ticks(u64::try_from(max_delay.as_nanos()).unwrap_or(u64::MAX)).min(u64::MAX >> (SHIFT + 2));
        let now = clock.now();
        // Starts as if frames were rare: the first ones are kicked at once.
        let stall = clock.to_ticks(STALL.as_nanos() as u64);
        let gap = max_delay << SHIFT;
        Estimate { max_delay, waiting: 0, oldest: now, last_call: now, stall, stalled: false, last: now, gap, kick: 0 }
    }

    /// Adds a frame that was committed at `now`. True if it is time to kick.
    #[inline]
    pub(super) fn committed(&mut self, now: Ticks) -> bool {
        // A pause counts as twice the bound at most, so that the rate is found again within some ten frames.
        let gap = now.since(self.last).min(2 * self.max_delay);
        self.gap = self.gap - (self.gap >> SHIFT) + gap;
        self.last = now;
        let pause = self.look(now);
        if self.waiting == 0 {
            self.oldest = now;
        }
        self.waiting += 1;
        self.waiting >= self.target() || self.over_at_next(now, pause)
    }

    /// True if frames wait and the bound has passed, or will have passed at the next call if that comes after the same pause.
    #[inline]
    pub(super) fn due(&mut self, now: Ticks) -> bool {
        let pause = self.look(now);
        self.waiting > 0 && self.over_at_next(now, pause)
    }

    /// True if the bound has passed, or will have passed after another `pause`.
    #[inline]
    fn over_at_next(&self, now: Ticks, pause: u64) -> bool {
        now.since(self.oldest).saturating_add(pause) > self.max_delay
    }

    /// The time since the last call.
    #[inline]
    fn look(&mut self, now: Ticks) -> u64 {
        let pause = now.since(self.last_call);
        self.last_call = now;
        self.stalled |= self.waiting > 0 && pause > self.stall;
        pause
    }

    /// Notes a kick from `before`, where the waiting ended, to `after`, and returns the wait of the batch's first frame.
    #[inline]
    pub(super) fn kicked(&mut self, before: Ticks, after: Ticks) -> Waited {
        self.look(before);
        let ticks = if self.waiting == 0 { 0 } else { before.since(self.oldest) };
        let waited = Waited { ticks, stalled: std::mem::take(&mut self.stalled) };
        self.kick = self.kick - (self.kick >> SHIFT) + after.since(before).min(u64::MAX >> (SHIFT + 2));
        self.waiting = 0;
        // Time in the kernel says nothing about the rate of frames or calls.
        (self.last, self.last_call) = (after, after);
        waited
    }

    #[inline]
    pub(super) fn waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The bound in ticks.
    #[inline]
    pub(super) fn max_delay(&self) -> u64 {
        self.max_delay
    }

    /// Frames of a batch at the present rate.
    #[inline]
    fn target(&self) -> u32 {
        if self.gap >= self.kick {
            return 1;
        }
        ((self.max_delay << SHIFT) / self.gap.max(1)).clamp(1, u64::from(MOST)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::clock::FakeClock;
    use proptest::prelude::*;

    const BOUND: u64 = 4_000;

    /// A sender over a fake clock: a kick takes `fixed` ns and `each` ns more per frame.
    struct Sender {
        estimate: Estimate,
        now: u64,
        waiting: u64,
        kicks: u64,
        longest: u64,
    }

    impl Sender {
        fn new(start: u64) -> Sender {
            let clock = FakeClock::default();
            clock.advance(start);
            let estimate = Estimate::new(Duration::from_nanos(BOUND), &clock);
            Sender { estimate, now: start, waiting: 0, kicks: 0, longest: 0 }
        }

        fn kick(&mut self, fixed: u64, each: u64) {
            let after = self.now.saturating_add(fixed + each * self.waiting);
            self.longest = self.longest.max(self.estimate.kicked(Ticks(self.now), Ticks(after)).ticks);
            (self.now, self.waiting) = (after, 0);
            self.kicks += 1;
        }

        fn commit(&mut self, gap: u64, fixed: u64, each: u64) {
            self.now += gap;
            self.waiting += 1;
            if self.estimate.committed(Ticks(self.now)) {
                self.kick(fixed, each);
            }
        }

        /// Frames per kick over the last half of `frames`.
        fn run(&mut self, frames: u64, gap: u64) -> f64 {
            let mut before = 0;
            for frame in 0..frames {
                if frame == frames / 2 {
                    before = self.kicks;
                }
                self.commit(gap, 400, 500);
            }
            (frames - frames / 2) as f64 / (self.kicks - before) as f64
        }
    }

    #[test]
    fn rare_frames_are_kicked_at_once_and_dense_ones_in_batches() {
        assert_eq!(Sender::new(0).run(1000, 60_000), 1.0);
        assert_eq!(Sender::new(0).run(1000, 5_000), 1.0);
        let (mut dense, mut sender) = (Sender::new(0), Sender::new(0));
        assert!(dense.run(10_000, 40) > 60.0, "{dense:?}", dense = dense.estimate);
        let middle = sender.run(10_000, 300);
        assert!((8.0..14.0).contains(&middle), "{middle}");
        assert!(sender.longest <= BOUND && dense.longest <= BOUND);
        // The rate falls: after some frames each is kicked at once again.
        dense.run(20, 60_000);
        assert_eq!(dense.run(20, 60_000), 1.0);
    }

    #[test]
    fn ticks_near_their_wrap_stay_in_bounds() {
        let mut sender = Sender::new(u64::MAX - 1_000_000);
        sender.run(1_000, 40);
        assert!(sender.longest <= BOUND && sender.kicks < 500);
        let mut waits_for_ever = Estimate::new(Duration::MAX, &FakeClock::default());
        assert!(!waits_for_ever.due(Ticks(u64::MAX)));
        assert_eq!(waits_for_ever.kicked(Ticks(1), Ticks(u64::MAX)), Waited::default());
    }

    #[test]
    fn a_stall_is_known_from_a_long_kick_and_from_a_pause_in_which_nothing_waits() {
        let mut sender = Sender::new(0);
        let mut kicked = |now: &mut u64, gaps: &[u64], kick: u64| {
            let first = *now;
            for gap in gaps {
                *now += gap;
                let _ = sender.estimate.committed(Ticks(*now));
            }
            let waited = sender.estimate.kicked(Ticks(*now), Ticks(*now + kick));
            *now += kick;
            (waited.ticks == *now - kick - first - gaps[0], waited.stalled)
        };
        let now = &mut 0;
        assert_eq!(kicked(now, &[50_000, 40, 40], 90_000), (true, false), "a pause before the first frame");
        assert_eq!(kicked(now, &[40, 40, 2_000], 40), (true, false), "the kick before");
        assert_eq!(kicked(now, &[40, 40, 2_001], 40), (true, true));
        assert_eq!(kicked(now, &[40, 3_000, 40], 40), (true, true));
        assert_eq!(kicked(now, &[40, 40, 40], 40), (true, false), "not the next batch");
        // Seen only when it is kicked.
        let _ = sender.estimate.committed(Ticks(*now + 40));
        assert!(sender.estimate.kicked(Ticks(*now + 2_500), Ticks(*now + 2_600)).stalled);
    }

    proptest! {
        /// Any calls at any times: after a call no frame waits beyond the bound, and with steady calls none ever has.
        #[test]
        fn no_frame_is_over_the_bound_at_any_call(
            calls in prop::collection::vec((0u64..9_000, any::<bool>(), 0u64..3_000), 1..300),
            steady in prop::option::of(1u64..BOUND / 2),
        ) {
            let mut sender = Sender::new(7);
            let mut oldest = None;
            for (gap, commit, kick) in calls {
                sender.now += steady.unwrap_or(gap);
                let now = Ticks(sender.now);
                let before = sender.kicks;
                if commit {
                    oldest = oldest.or(Some(sender.now));
                    sender.waiting += 1;
                }
                if if commit { sender.estimate.committed(now) } else { sender.estimate.due(now) } {
                    let waited = sender.now - oldest.unwrap();
                    prop_assert!(steady.is_none() || waited <= BOUND, "{waited}");
                    sender.kick(kick, 0);
                }
                if sender.kicks > before {
                    oldest = None;
                }
                prop_assert!(oldest.is_none_or(|oldest| now.0 - oldest <= BOUND));
                prop_assert!(sender.waiting <= u64::from(MOST));
            }
        }
    }
}
