//! The `memory` path's message: one cache line that request and reply use in turn, the floor of all paths.
//!
//! ```text
//!   word 0                              words 1 to 7          further lines
//!   sequence (46) direction (1) length (17)   56 bytes        the rest of a payload of up to 64 KiB
//! ```
//! The sender writes the payload (relaxed), then word 0 (release); a receiver that sees a new word 0 (acquire) sees its payload.
//! One message is in flight at a time: a request, then its reply, in the same line, which crosses once each way (see core ping).
//! A peer that breaks this order garbles payload bytes, nothing else.

use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bar::own;

const WORD: usize = size_of::<u64>();
/// Bytes copied per turn of a loop: with one word per turn the RTT of 64 bytes between near cores was a tenth longer.
const TURN: usize = 4 * WORD;
/// Bytes of the payload in the line of word 0.
const FIRST: usize = 7 * WORD;
const LENGTH_BITS: u32 = 17;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;
const SEQUENCE_SHIFT: u32 = LENGTH_BITS + 1;

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Request = 0,
    /// From the server to the client.
    Reply = 1,
}

/// A message between two cores, requests and replies in turn; every content, zeroes included, is valid.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line {
    word: AtomicU64,
    payload: [[AtomicU64; TURN / WORD]; Line::CAPACITY / TURN],
}

impl Line {
    /// Longest payload in bytes.
    pub const CAPACITY: usize = 64 << 10;

    /// Modulus of sequence numbers: at 10^7 transactions/s they wrap after 81 days.
    pub const SEQUENCES: u64 = 1 << (u64::BITS - SEQUENCE_SHIFT);

    /// Writes a message. Payloads up to 56 bytes transfer only one line.
    ///
    /// Returns the number of bytes written: all of them, up to [`Line::CAPACITY`].
    #[inline]
    pub fn send(&self, direction: Direction, sequence: u64, payload: &[u8]) -> usize {
        let payload = &payload[..payload.len().min(Line::CAPACITY)];
        let (turns, rest) = payload.as_chunks::<TURN>();
        // From the end, so that the first line is written last and at once: stores take effect in their order on x86, and while one
        // waits for another line the receiver, which polls the first, would take it away again.
        if !rest.is_empty() {
            let (words, tail) = rest.as_chunks::<WORD>();
            let last = &self.payload[turns.len()];
            if !tail.is_empty() {
                // Shifts, not copies: a memcpy of unknown length here and below costs 90 ns per round trip.
                let word = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                last[words.len()].store(word, Ordering::Relaxed);
            }
            last.iter().zip(words).rev().for_each(|(to, from)| put(to, from));
        }
        for (to, from) in self.payload.iter().zip(turns).rev() {
            to.iter().zip(from.as_chunks::<WORD>().0).rev().for_each(|(to, from)| put(to, from));
        }
        let word = sequence << SEQUENCE_SHIFT | (direction as u64) << LENGTH_BITS | payload.len() as u64;
        self.word.store(word, Ordering::Release);
        payload.len()
    }

    /// Number and length of the message in this direction, if its sequence number differs from `last`.
    ///
    /// Copies as much of the payload as fits into `into`. An unused area holds an empty request number 0: start with `last` 0,
    /// and number from 1.
    #[inline]
    pub fn try_recv(&self, direction: Direction, last: u64, into: &mut [u8]) -> Option<(u64, usize)> {
        let word = self.word.load(Ordering::Acquire);
        let sequence = word >> SEQUENCE_SHIFT;
        if word >> LENGTH_BITS & 1 != direction as u64 || sequence == last % Line::SEQUENCES {
            return None;
        }
        // Do not trust the peer's length beyond the capacity.
        let length = ((word & LENGTH_MASK) as usize).min(Line::CAPACITY);
        // The receiver writes both lines next, so it requests them for writing before the copy, which saves a second transfer. A
        // client does not write the first line at once; requesting it would take it from the server that polls it.
        if direction == Direction::Request {
            own(slice::from_ref(&self.word));
        }
        if length > FIRST {
            own(&self.payload[FIRST / TURN + 1]);
        }
        let copied = length.min(into.len());
        let (turns, rest) = into[..copied].as_chunks_mut::<TURN>();
        for (from, to) in self.payload.iter().zip(turns.iter_mut()) {
            from.iter().zip(to.as_chunks_mut::<WORD>().0).for_each(|(from, to)| get(from, to));
        }
        if !rest.is_empty() {
            let last = &self.payload[copied / TURN];
            let (words, tail) = rest.as_chunks_mut::<WORD>();
            last.iter().zip(words.iter_mut()).for_each(|(from, to)| get(from, to));
            if !tail.is_empty() {
                let mut word = last[words.len()].load(Ordering::Relaxed);
                for byte in tail {
                    *byte = word as u8;
                    word >>= 8;
                }
            }
        }
        Some((sequence, length))
    }
}

#[inline(always)]
fn put(to: &AtomicU64, from: &[u8; WORD]) {
    to.store(u64::from_le_bytes(*from), Ordering::Relaxed);
}

#[inline(always)]
fn get(from: &AtomicU64, to: &mut [u8; WORD]) {
    *to = from.load(Ordering::Relaxed).to_le_bytes();
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::sync::Arc;

    use super::super::Shared;
    use super::Direction::{Reply, Request};
    use super::*;

    #[test]
    fn up_to_56_bytes_lie_in_the_first_line() {
        assert_eq!((offset_of!(Line, word), offset_of!(Line, payload)), (0, 8));
        assert_eq!(align_of::<Line>(), 64);
    }

    #[test]
    fn messages_of_every_length_around_a_word_arrive_whole() {
        let shared = Shared::create().unwrap();
        let other = Shared::open(std::os::fd::AsFd::as_fd(&shared).try_clone_to_owned().unwrap()).unwrap();
        let payload: Vec<u8> = (0..Line::CAPACITY + 1).map(|i| (i * 7 + i / 256) as u8).collect();
        let mut into = vec![0; Line::CAPACITY];
        let lengths = (0..130).chain([1023, 1024, Line::CAPACITY - 1, Line::CAPACITY]);
        for (sequence, length) in (1..).zip(lengths) {
            assert_eq!(shared.line().send(Request, sequence, &payload[..length]), length);
            into.fill(0xAA);
            assert_eq!(other.line().try_recv(Request, sequence - 1, &mut into), Some((sequence, length)));
            assert_eq!(into[..length], payload[..length]);
            assert!(into[length..].iter().all(|b| *b == 0xAA), "nothing is written behind the message");
            assert_eq!(other.line().try_recv(Request, sequence, &mut into), None);
            assert_eq!(other.line().try_recv(Reply, 0, &mut into), None);
        }
        assert_eq!(shared.line().send(Request, 1, &payload), Line::CAPACITY);
    }

    #[test]
    fn a_small_buffer_gets_the_beginning_and_the_true_length() {
        let shared = Shared::create().unwrap();
        shared.line().send(Reply, 1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let mut into = [0; 9];
        assert_eq!(shared.line().try_recv(Reply, 0, &mut into), Some((1, 10)));
        assert_eq!(into, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(shared.line().try_recv(Reply, 0, &mut []), Some((1, 10)));
    }

    #[test]
    fn a_hostile_length_is_bounded() {
        let shared = Shared::create().unwrap();
        shared.line().word.store(u64::MAX, Ordering::Release);
        let mut into = vec![0; 2 * Line::CAPACITY];
        let (sequence, length) = shared.line().try_recv(Reply, 0, &mut into).unwrap();
        assert_eq!((sequence, length), (Line::SEQUENCES - 1, Line::CAPACITY));
    }

    #[test]
    fn a_client_and_a_server_take_turns() {
        const ROUNDS: u64 = 2_000;
        let shared = Arc::new(Shared::create().unwrap());
        let receive = |shared: &Shared, direction, last, into: &mut [u8]| loop {
            if let Some(message) = shared.line().try_recv(direction, last, into) {
                return message;
            }
            // Gives the other side a fair chance on a single CPU.
            std::thread::yield_now();
        };
        let server = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut buffer = [0; 200];
                for last in 0..ROUNDS {
                    let (sequence, length) = receive(&shared, Request, last, &mut buffer);
                    buffer[..length].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                    shared.line().send(Reply, sequence, &buffer[..length]);
                }
            }
        });
        let mut buffer = [0; 200];
        for sequence in 1..=ROUNDS {
            let length = (sequence % 200) as usize;
            shared.line().send(Request, sequence, &vec![sequence as u8; length]);
            assert_eq!(receive(&shared, Reply, sequence - 1, &mut buffer), (sequence, length));
            assert!(buffer[..length].iter().all(|byte| *byte == (sequence as u8).wrapping_add(1)));
        }
        server.join().unwrap();
    }
}
