//! The internet checksum (RFC 1071): the one's complement of the one's complement sum of 16-bit words.
//!
//! The sum does not depend on byte order, so bytes are read in the machine's order, eight at a time. Folding comes last.

use std::ops::Add;

/// Words of eight bytes per iteration of the loop over long bytes.
const LANES: usize = 4;
/// Bytes per iteration.
const BLOCK: usize = 8 * LANES;
/// Bytes from which on several words are added side by side: 12.6 ns against 12.9 for 384 bytes, 8.9 against 7.9 for 256 (200,000
/// sums in a row, Zen 5).
const LONG: usize = 384;

/// An unfolded sum. Sums of parts that begin at even offsets add up to the sum of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of these bytes; an odd last byte is padded with zero.
    #[inline]
    pub fn of(bytes: &[u8]) -> Sum {
        if bytes.len() >= LONG {
            return Sum::of_long(bytes);
        }
        let (words, rest) = bytes.as_chunks::<8>();
        // The carry is added at the low end (RFC 1071, section 2).
        let sum = words.iter().fold(0, |sum: u64, word| {
            let (sum, carry) = sum.overflowing_add(u64::from_ne_bytes(*word));
            sum + u64::from(carry)
        });
        let sum = Sum((sum & 0xffff_ffff) + (sum >> 32));
        if rest.is_empty() { sum } else { sum + Sum::of_rest(rest) }
    }

    /// The same sum in a form that the compiler vectorizes: nothing overflows within 16 GiB.
    #[inline(never)]
    fn of_long(bytes: &[u8]) -> Sum {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        // Sums of eight-byte words, modulo 2^64, and of their upper halves: the difference is the sum of the lower
        // halves.
        let (mut wholes, mut uppers) = ([0u64; LANES], [0u64; LANES]);
        for block in blocks {
            let (words, _) = block.as_chunks::<8>();
            for ((whole, upper), word) in wholes.iter_mut().zip(&mut uppers).zip(words) {
                let word = u64::from_ne_bytes(*word);
                *whole = whole.wrapping_add(word);
                *upper += word >> 32;
            }
        }
        let upper: u64 = uppers.iter().sum();
        let whole = wholes.iter().fold(0u64, |sum, whole| sum.wrapping_add(*whole));
        Sum(whole.wrapping_sub(upper << 32) + upper) + Sum::of(rest)
    }

    /// The sum of fewer than eight bytes.
    #[inline(always)]
    fn of_rest(rest: &[u8]) -> Sum {
        let (words, rest) = rest.as_chunks::<4>();
        let last = match *rest {
            [a, b, c] => [a, b, c, 0],
            [a, b] => [a, b, 0, 0],
            [a] => [a, 0, 0, 0],
            _ => [0; 4],
        };
        let word = |bytes: &[u8; 4]| u64::from(u32::from_ne_bytes(*bytes));
        Sum(words.iter().map(word).sum::<u64>() + word(&last))
    }

    /// The sum of one 16-bit field of this value.
    #[inline(always)]
    pub const fn word(value: u16) -> Sum {
        Sum(u16::from_ne_bytes(value.to_be_bytes()) as u64)
    }

    /// The sum folded to 16 bits, as stored in a packet.
    #[inline(always)]
    pub const fn fold(self) -> [u8; 2] {
        // Each addition's carry is added at the low end; three additions reduce 64 bits to 16.
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        (sum as u16).to_ne_bytes()
    }

    /// The checksum, as stored in a packet.
    #[inline(always)]
    pub const fn checksum(self) -> [u8; 2] {
        let [high, low] = self.fold();
        [!high, !low]
    }

    /// True for the sum of bytes that include their own, correct checksum.
    #[inline(always)]
    pub const fn is_right(self) -> bool {
        matches!(self.fold(), [0xff, 0xff])
    }
}

impl Add for Sum {
    type Output = Sum;

    #[inline(always)]
    fn add(self, other: Sum) -> Sum {
        Sum(self.0 + other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Word by word, as RFC 1071 defines it.
    fn plain(bytes: &[u8]) -> [u8; 2] {
        let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0)));
        let sum = words.fold(0, |sum, word| {
            let sum = sum + word;
            (sum & 0xffff) + (sum >> 16)
        });
        (sum as u16).to_be_bytes()
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).fold(), [0xdd, 0xf2]);
        assert_eq!(Sum::of(&bytes).checksum(), [0x22, 0x0d]);
    }

    #[test]
    fn the_largest_sums_fold() {
        assert_eq!(Sum::of(&[0xff; 65_536]).fold(), [0xff, 0xff]);
        assert_eq!(Sum(u64::MAX).fold(), [0xff, 0xff]);
        assert_eq!(Sum(0).fold(), [0, 0]);
    }

    proptest! {
        #[test]
        fn as_word_by_word(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(Sum::of(&bytes).fold(), plain(&bytes));
        }

        #[test]
        fn parts_add_up(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..150, word: u16) {
            let (front, back) = bytes.split_at((at * 2).min(bytes.len()) & !1);
            prop_assert_eq!((Sum::of(front) + Sum::of(back)).fold(), plain(&bytes));
            prop_assert_eq!(Sum::word(word).fold(), word.to_be_bytes());
        }

        #[test]
        fn data_with_its_checksum_verifies(mut bytes in prop::collection::vec(any::<u8>(), 2..300), at in 0usize..149, flip in 0usize..2400) {
            let at = (at * 2) % (bytes.len() & !1);
            bytes[at..at + 2].fill(0);
            let checksum = Sum::of(&bytes).checksum();
            bytes[at..at + 2].copy_from_slice(&checksum);
            prop_assert!(Sum::of(&bytes).is_right());
            let flip = flip % (bytes.len() * 8);
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert!(!Sum::of(&bytes).is_right());
        }
    }
}
