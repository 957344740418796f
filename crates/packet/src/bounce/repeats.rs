//! Distinguishes a frame that circulates between two bouncers from a new one.
//!
//! ```text
//!   frame ─▶ keyed fingerprint ─▶ one of 4,096 places ┬ the same: +1, and dropped beyond the limit
//!                                                     └ another: every eighth -1; at 0 it takes the place
//!   once a second: every count lower
//! ```
//! A circulating frame comes back unchanged (fields swapped on one hop are swapped back on the next), so after as
//! many passes as the limit says it is dropped and the circle is broken. A place belongs to the frame seen there most often:
//! neither new frames at a high rate nor several circulating ones in one place make it forget. A source that sends
//! identical frames cannot be told from a storm: it gets as many of them back at once, and again each second, and the
//! rest is counted. Frames with a sequence number or an IP identification differ.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Usual limit: the number of identical frames sent back in quick succession, and again each second.
pub const REPEATS: u32 = 64;

/// Places; a power of two.
const PLACES: usize = 4096;
/// Number of other frames that reduce a place's count by one. More than one, so that two alternating frames do not keep
/// each other from counting.
const OTHERS: u8 = 8;
/// Bytes at the beginning of a frame that the fingerprint covers.
const HEAD: usize = 128;
/// Bytes in one step of the fingerprint.
const BLOCK: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    fingerprint: u64,
    seen: u32,
    others: u8,
}

/// Recently seen frames.
#[derive(Debug)]
pub(super) struct Repeats {
    limit: u32,
    key: [u64; 2],
    places: Box<[Place; PLACES]>,
}

impl Repeats {
    /// Lets an identical frame pass `limit` times, and as often again each second.
    pub(super) fn new(limit: u32) -> io::Result<Repeats> {
        let mut key = [0; 16];
        getrandom(&mut key, GetRandomFlags::empty())?;
        let key = u128::from_ne_bytes(key);
        // Odd, hence not zero: with zero, every block whose upper half is zero would have the product zero.
        let key = [key as u64, (key >> 64) as u64 | 1];
        Ok(Repeats { limit, key, places: Box::new([Place::default(); PLACES]) })
    }

    /// Counts the frame; true if it has come too often.
    #[inline]
    pub(super) fn too_often(&mut self, frame: &[u8]) -> bool {
        let fingerprint = self.fingerprint(frame);
        let place = &mut self.places[fingerprint as usize % PLACES];
        if place.fingerprint == fingerprint {
            if place.seen >= self.limit {
                return true;
            }
            place.seen += 1;
        } else if place.seen == 0 {
            *place = Place { fingerprint, seen: 1, others: 0 };
        } else {
            place.others += 1;
            if place.others == OTHERS {
                (place.seen, place.others) = (place.seen - 1, 0);
            }
        }
        // A limit of zero lets no frame pass.
        self.limit == 0
    }

    /// A second has passed.
    pub(super) fn second(&mut self) {
        for place in self.places.iter_mut() {
            place.seen = place.seen.saturating_sub(self.limit);
        }
    }

    /// A hash of the length, the first 128 and the last 16 bytes, where headers, sequence numbers and time stamps are: multiply
    /// and fold, as in wyhash. The key keeps others from making frames that share a place.
    #[inline]
    fn fingerprint(&self, frame: &[u8]) -> u64 {
        let fold = |state: u64, block: &[u8; BLOCK]| {
            let block = u128::from_le_bytes(*block);
            let product = u128::from(block as u64 ^ state) * u128::from((block >> 64) as u64 ^ self.key[1]);
            product as u64 ^ (product >> 64) as u64
        };
        let head = &frame[..frame.len().min(HEAD)];
        let (blocks, rest) = head.as_chunks::<BLOCK>();
        let mut state = blocks.iter().fold(self.key[0] ^ frame.len() as u64, fold);
        if !rest.is_empty() {
            let mut last = [0; BLOCK];
            last[..rest.len()].copy_from_slice(rest);
            state = fold(state, &last);
        }
        if frame.len() > HEAD
            && let Some(tail) = frame.last_chunk::<BLOCK>()
        {
            state = fold(state, tail);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identical_frame_passes_up_to_the_limit_and_again_later() {
        for limit in [0, 3, REPEATS, 500] {
            let mut repeats = Repeats::new(limit).unwrap();
            let passed = |repeats: &mut Repeats| (0..1_000).filter(|_| !repeats.too_often(&[7; 60])).count() as u32;
            assert_eq!([passed(&mut repeats), passed(&mut repeats)], [limit, 0]);
            repeats.second();
            assert_eq!(passed(&mut repeats), limit);
        }
    }

    #[test]
    fn one_different_bit_makes_a_different_frame() {
        let mut repeats = Repeats::new(1).unwrap();
        for len in [14, 60, 64, 127, 128, 129, 1514] {
            let mut frame = vec![0; len];
            let counts = (0..8 * len).filter(|bit| bit / 8 < HEAD || bit / 8 >= len - BLOCK);
            let mut seen = std::collections::HashSet::from([repeats.fingerprint(&frame)]);
            for bit in counts {
                frame[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(repeats.fingerprint(&frame)), "{len} {bit}");
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        }
        assert!(!repeats.too_often(&[0; 60]) && !repeats.too_often(&[0; 61]) && repeats.too_often(&[0; 60]));
    }

    #[test]
    fn alternating_frames_in_one_place_are_noticed_one_after_the_other() {
        let mut repeats = Repeats::new(REPEATS).unwrap();
        let frame = |n: u32| [n.to_be_bytes().as_slice(), &[0; 56]].concat();
        let place = |repeats: &Repeats, n: u32| repeats.fingerprint(&frame(n)) as usize % PLACES;
        let there = place(&repeats, 0);
        let mut circulating: Vec<u32> = (0..100_000).filter(|n| place(&repeats, *n) == there).take(5).collect();
        assert_eq!(circulating.len(), 5);
        let mut passes = 0;
        while !circulating.is_empty() && passes < 100_000 {
            passes += circulating.len();
            circulating.retain(|n| !repeats.too_often(&frame(*n)));
        }
        assert!(passes < 10_000, "{passes}");
    }

    #[test]
    fn new_frames_do_not_make_it_forget_a_circulating_one() {
        let mut repeats = Repeats::new(REPEATS).unwrap();
        let (mut passes, mut dropped) = (0, 0);
        for n in 0..2_000_000u32 {
            let mut frame = [0; 60];
            frame[20..24].copy_from_slice(&n.to_be_bytes());
            dropped += u32::from(repeats.too_often(&frame));
            // One frame in 200 is the one that circulates.
            if n % 200 == 0 && passes < 10_000 && repeats.too_often(&[9; 60]) {
                passes = 10_000;
            }
        }
        assert_eq!((passes, dropped), (10_000, 0));
    }
}
