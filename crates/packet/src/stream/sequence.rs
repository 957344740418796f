//! Tracks the sequence numbers of one flow: received, duplicate, late.
//!
//! ```text
//!            lowest               highest - WINDOW            highest
//!   numbers ───┴──────────────────────┴──────────────────────────┴─────▶
//!                  too late to tell      a bit per number: seen?    new
//! ```

/// The window behind the highest number in which every number is tracked.
const WINDOW: u64 = 65_536;
const WORDS: usize = WINDOW as usize / 64;

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Received for the first time.
    New {
        /// True if a later one was received before.
        overtaken: bool,
    },
    /// A duplicate.
    Again,
    /// Too far behind to tell.
    TooLate,
}

/// The numbers of one flow, extended to 64 bits so that they never wrap.
#[derive(Debug)]
pub(super) struct Tracker {
    bits: Box<[u64; WORDS]>,
    /// Lowest and highest seen; `None` before the first.
    ends: Option<(u64, u64)>,
}

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker { bits: Box::new([0; WORDS]), ends: None }
    }
}

impl Tracker {
    /// Numbers from the lowest to the highest seen.
    pub(super) fn span(&self) -> u64 {
        self.ends.map_or(0, |(lowest, highest)| highest - lowest + 1)
    }

    /// Adds a number.
    #[inline]
    pub(super) fn take(&mut self, sequence: u32) -> Seen {
        let Some((lowest, highest)) = self.ends else {
            // Leaves room below for late numbers.
            let first = u64::from(sequence) + (1 << 32);
            self.set(first);
            self.ends = Some((first, first));
            return Seen::New { overtaken: false };
        };
        // The nearest number with these low 32 bits.
        let step = sequence.wrapping_sub(highest as u32).cast_signed();
        let number = highest.wrapping_add_signed(step.into());
        if step > 0 {
            self.clear(highest, number);
            self.set(number);
            self.ends = Some((lowest, number));
            return Seen::New { overtaken: false };
        }
        if highest - number >= WINDOW {
            return Seen::TooLate;
        }
        if self.is_set(number) {
            return Seen::Again;
        }
        self.set(number);
        self.ends = Some((lowest.min(number), highest));
        Seen::New { overtaken: true }
    }

    /// Forgets the numbers after `highest` up to `number`: they reuse the places of older ones.
    #[inline]
    fn clear(&mut self, highest: u64, number: u64) {
        if number - highest >= WINDOW {
            self.bits.fill(0);
            return;
        }
        for skipped in highest + 1..=number {
            self.bits[word(skipped)] &= !bit(skipped);
        }
    }

    #[inline]
    fn set(&mut self, number: u64) {
        self.bits[word(number)] |= bit(number);
    }

    #[inline]
    fn is_set(&self, number: u64) -> bool {
        self.bits[word(number)] & bit(number) != 0
    }
}

#[inline]
fn word(number: u64) -> usize {
    (number / 64) as usize % WORDS
}

#[inline]
fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    const NEW: Seen = Seen::New { overtaken: false };
    const LATE: Seen = Seen::New { overtaken: true };

    #[test]
    fn tells_losses_duplicates_and_reordering_apart_across_the_wrap() {
        let mut flow = Tracker::default();
        let near = u32::MAX - 2;
        let seen: Vec<Seen> = [near, near + 1, 1, near + 2, 1, 0, 3, 2, near].map(|sequence| flow.take(sequence)).into();
        assert_eq!(seen, [NEW, NEW, NEW, LATE, Seen::Again, LATE, NEW, LATE, Seen::Again]);
        assert_eq!(flow.span(), 7);
    }

    #[test]
    fn a_number_too_far_behind_is_unknown() {
        let mut flow = Tracker::default();
        assert_eq!(flow.take(10), NEW);
        assert_eq!(flow.take(10 + WINDOW as u32), NEW);
        assert_eq!(flow.take(10), Seen::TooLate);
        assert_eq!(flow.take(11), LATE);
        assert_eq!(flow.take(11), Seen::Again);
        // A gap of more than the window leaves no old bit behind.
        assert_eq!(flow.take(500_000), NEW);
        assert_eq!((499_999 - 64..499_999).map(|n| flow.take(n)).filter(|seen| *seen != LATE).count(), 0);
    }

    #[test]
    fn an_overtaken_first_number_widens_the_span() {
        let mut flow = Tracker::default();
        flow.take(0);
        assert_eq!(flow.take(u32::MAX), LATE);
        assert_eq!(flow.span(), 2);
    }

    proptest! {
        #[test]
        fn as_a_set_of_all_numbers_would_say(start: u32, steps in prop::collection::vec(-40i32..60, 1..300)) {
            let (mut flow, mut all, mut highest) = (Tracker::default(), BTreeSet::new(), i64::MIN);
            let mut at = 0i64;
            for step in steps {
                at += i64::from(step);
                let seen = flow.take(start.wrapping_add(at as u32));
                let expected = if !all.insert(at) { Seen::Again } else { Seen::New { overtaken: at < highest } };
                prop_assert_eq!(seen, expected);
                highest = highest.max(at);
            }
            prop_assert_eq!(flow.span() as i64, highest - all.first().unwrap() + 1);
        }
    }
}
