//! A word by which a receiver that falls asleep asks its sender to wake it. Both swap it, so one of the two swaps is first.
//!
//! ```text
//!   receiver   empty the bell ; swap in "armed" ; look                 ─ nothing there: sleep on the bell
//!   sender     put a frame there ; swap out "armed"                    ─ it was armed: ring the bell
//!
//!   receiver's swap first: the sender finds it armed, and rings a bell that is not emptied before the sleep
//!   sender's swap first:   the receiver's look finds the frame
//! ```
//! A ring may come late, after its frame was found without it: the next wait empties the bell, armed or not.
//!
//! The swaps order everything before them, so the frames' own accesses need no order. On x86 a swap costs half as much as a
//! load behind a fence.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A word that is armed or not.
pub trait Armed {
    /// Returns the previous state.
    fn exchange(&self, armed: bool, order: Ordering) -> bool;

    /// Receiver: a look after this call sees everything that was there before a [`disarm`](Armed::disarm) that did not find it
    /// armed.
    #[inline(always)]
    fn arm(&self) {
        self.exchange(true, Ordering::AcqRel);
    }

    /// Sender, after a frame is there: true if it has to ring, once for each [`arm`](Armed::arm).
    #[inline(always)]
    fn disarm(&self) -> bool {
        self.exchange(false, Ordering::AcqRel)
    }

    /// Receiver, before it sleeps on the bell: true if it need not, because something `arrived`.
    #[inline]
    fn fall_asleep(&self, empty: impl FnOnce(), arrived: impl FnOnce() -> bool) -> bool {
        empty();
        self.arm();
        arrived()
    }
}

impl Armed for AtomicU64 {
    #[inline(always)]
    fn exchange(&self, armed: bool, order: Ordering) -> bool {
        self.swap(armed.into(), order) != 0
    }
}

impl Armed for AtomicBool {
    #[inline(always)]
    fn exchange(&self, armed: bool, order: Ordering) -> bool {
        self.swap(armed, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicBool, AtomicU64};

    impl Armed for AtomicU64 {
        fn exchange(&self, armed: bool, order: Ordering) -> bool {
            self.swap(armed.into(), order) != 0
        }
    }

    impl Armed for AtomicBool {
        fn exchange(&self, armed: bool, order: Ordering) -> bool {
            self.swap(armed, order)
        }
    }

    /// A word that one of the sides, or neither, swaps with a weaker order, as a faulty program would.
    struct Weak {
        word: AtomicU64,
        to_arm: Ordering,
        to_disarm: Ordering,
    }

    impl Armed for Weak {
        fn exchange(&self, armed: bool, _: Ordering) -> bool {
            self.word.exchange(armed, if armed { self.to_arm } else { self.to_disarm })
        }
    }

    const FRAMES: u64 = 2;
    const LOOKS: u32 = 2;

    /// Accesses to frames and bell are relaxed, so that only the word can order them.
    struct Model<A> {
        armed: A,
        frames: AtomicU64,
        bell: AtomicU64,
    }

    impl<A: Armed> Model<A> {
        fn ring(&self) {
            if self.armed.disarm() {
                self.bell.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn send(&self) {
            for number in 1..=FRAMES {
                self.frames.store(number, Ordering::Relaxed);
                self.ring();
            }
        }

        /// The number of frames known when it fell asleep; `None` if it did not. An end that rings itself sleeps on the bell
        /// alone.
        fn receive(&self, rings_itself: bool) -> Option<u64> {
            let mut known = 0;
            for _ in 0..LOOKS {
                let empty = || {
                    self.bell.swap(0, Ordering::Relaxed);
                };
                let arrived = self.armed.fall_asleep(empty, || self.frames.load(Ordering::Relaxed) > known);
                if arrived && rings_itself {
                    self.ring();
                }
                if self.bell.load(Ordering::Relaxed) == 0 && (rings_itself || !arrived) {
                    return Some(known);
                }
                known = self.frames.load(Ordering::Relaxed);
            }
            None
        }
    }

    fn nobody_sleeps_on_a_frame<A: Armed + Send + Sync + 'static>(
        armed: impl Fn() -> A + Send + Sync + 'static,
        rings_itself: bool,
    ) {
        loom::model(move || {
            let shared = loom::sync::Arc::new(Model { armed: armed(), frames: AtomicU64::new(0), bell: AtomicU64::new(0) });
            let other = shared.clone();
            let sender = loom::thread::spawn(move || other.send());
            let asleep = shared.receive(rings_itself);
            sender.join().unwrap();
            let woken = shared.bell.load(Ordering::Relaxed) != 0;
            assert!(asleep.is_none_or(|known| known == FRAMES) || woken, "the receiver sleeps on a frame");
        });
    }

    #[test]
    fn a_lane_misses_no_frame() {
        nobody_sleeps_on_a_frame(|| AtomicU64::new(0), false);
    }

    #[test]
    fn an_end_in_memory_that_rings_itself_misses_no_frame() {
        nobody_sleeps_on_a_frame(|| AtomicBool::new(false), true);
    }

    fn with(to_arm: Ordering, to_disarm: Ordering) {
        nobody_sleeps_on_a_frame(move || Weak { word: AtomicU64::new(0), to_arm, to_disarm }, false);
    }

    #[test]
    #[should_panic(expected = "the receiver sleeps on a frame")]
    fn a_look_that_is_not_ordered_is_found() {
        with(Ordering::Release, Ordering::AcqRel);
    }

    #[test]
    #[should_panic(expected = "the receiver sleeps on a frame")]
    fn a_frame_that_is_not_ordered_is_found() {
        with(Ordering::AcqRel, Ordering::Acquire);
    }
}
