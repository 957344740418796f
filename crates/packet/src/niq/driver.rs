//! The driver of one queue pair, as it would be on hardware: it writes and reads lines, and counts the PCI
//! Express transactions that this would be.
//!
//! ```text
//!   header, 4 bytes   31             16   15     14    13          0
//!                    ├─ sequence ─────┤ valid │ large │ length ────┤     sequence: the frame's number, modulo 65,536
//!
//!   a small frame     [header│ 60 bytes of frame                                        ]
//!   a large frame     [header│ its descriptor: the next slot, so nothing more to say     ]   ──▶ its bytes lie in the slot
//!   credits           [lines taken 4│ slots taken 4│                                     ]
//! ```
//! The first line that is sent after a doorbell is kept back until the next one: the receiver takes lines in
//! order, so nothing arrives before. Credits are written once per quarter of the ring
//! or of its slots, whichever is fewer lines, and read only when the last
//! known credits are used up: a single frame moves one line.

use hairpin_sys::bar::{Bar, LINE, header};

/// Bytes of the longest frame that a line holds.
pub const INLINE: usize = LINE - size_of::<u32>();
/// Bytes of data in one packet on PCI Express, as the floor's model assumes.
const PACKET: usize = 256;

/// Lines of a batch that are on their way between two caches at once.
const AHEAD: u32 = 8;

const LENGTH: u32 = (1 << 14) - 1;
const LARGE: u32 = 1 << 14;
const VALID: u32 = 1 << 15;
const SEQUENCE_SHIFT: u32 = 16;

/// Transactions on PCI Express that a NIC of this design would have made, on this port's own bus.
///
/// A frame of up to 60 bytes is one posted write on the sender's bus and one read on the receiver's. A larger one is announced by
/// the same write and read; the NIC fetches its descriptor and its bytes, and on the other side writes them into memory. Source:
/// Flajslik and Rosenblum, "Low Latency Network Interfaces" (slides); packets of at most 256 bytes are assumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pcie {
    /// Lines that the CPU wrote to send a frame: one for each, whatever its length.
    pub posted_writes: u64,
    /// Lines that the CPU read and found a frame in (non-posted): one for each. The NIC holds a read back until a frame is there.
    pub reads: u64,
    /// Descriptors that the NIC read: one for each frame sent that is longer than 60 bytes.
    pub descriptor_fetches: u64,
    /// Packets by which the NIC read the bytes of frames longer than 60 bytes, to send them.
    pub dma_reads: u64,
    /// Packets by which the NIC wrote the bytes of received frames longer than 60 bytes into memory.
    pub dma_writes: u64,
    /// Posted writes that gave credits back: one for each quarter of a ring or of its slots, whichever is fewer
    /// lines.
    pub credit_writes: u64,
    /// Reads of the other side's credits: one each time that the known credits were used up.
    pub credit_reads: u64,
}

/// The header of a line with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Bytes of the frame as the peer states them, up to 16,383.
    pub(super) len: usize,
    /// True if they lie in the next slot.
    pub(super) large: bool,
}

/// Numbers of lines and slots. Sequence numbers and credits are these modulo powers of two.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    lines: u64,
    slots: u32,
}

/// One queue pair's lines: `tx` to send on, `rx` to receive from.
#[derive(Debug)]
pub(super) struct Driver<B> {
    tx: B,
    rx: B,
    entries: u32,
    slots: u32,
    sent: Used,
    /// Lines and slots that the other side had taken when its credits were last read.
    seen: (u32, u32),
    taken: Used,
    /// Received lines whose credits have been returned.
    returned: u64,
    /// The line that waits for the doorbell, and its place.
    kept: [u8; LINE],
    kept_at: Option<usize>,
    pcie: Pcie,
}

impl<B: Bar> Driver<B> {
    /// `entries` lines each way with the line of credits behind them, and `slots` slots; both powers of two.
    pub(super) fn new(tx: B, rx: B, entries: u32, slots: u32) -> Driver<B> {
        debug_assert!(entries.is_power_of_two() && slots.is_power_of_two() && entries <= 1 << 15);
        Driver {
            tx,
            rx,
            entries,
            slots,
            sent: Used::default(),
            seen: (0, 0),
            taken: Used::default(),
            returned: 0,
            kept: [0; LINE],
            kept_at: None,
            pcie: Pcie::default(),
        }
    }

    pub(super) fn pcie(&self) -> Pcie {
        Pcie { posted_writes: self.sent.lines, reads: self.taken.lines, ..self.pcie }
    }

    /// Place in the ring of the frame with this number.
    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        (number & (self.entries - 1)) as usize
    }

    /// True if there is a credit for one more frame, and for one more slot if it is large.
    #[inline(always)]
    pub(super) fn has_credit(&mut self, large: bool) -> bool {
        self.credit(large) || self.look_for_credit(large)
    }

    /// Never true for a count that no correct peer could write: the ring then stops.
    #[inline(always)]
    fn credit(&self, large: bool) -> bool {
        (self.sent.lines as u32).wrapping_sub(self.seen.0) < self.entries
            && (!large || self.sent.slots.wrapping_sub(self.seen.1) < self.slots)
    }

    #[cold]
    fn look_for_credit(&mut self, large: bool) -> bool {
        let at = self.entries as usize * LINE;
        self.pcie.credit_reads = self.pcie.credit_reads.wrapping_add(1);
        self.seen = (self.tx.read_u32(at), self.tx.read_u32(at + size_of::<u32>()));
        self.credit(large)
    }

    /// The number of the next frame to send.
    #[inline(always)]
    pub(super) fn next(&self) -> u32 {
        self.sent.lines as u32
    }

    /// The number of the slot of the next large frame to send.
    #[inline(always)]
    pub(super) fn next_slot(&self) -> u32 {
        self.sent.slots
    }

    /// Sends a frame of at most 60 bytes, for which there is [credit](Driver::has_credit).
    #[inline(always)]
    pub(super) fn send_small(&mut self, frame: &[u8]) {
        let header = self.header(frame.len(), 0);
        self.send(|line| small_line(line, frame, header));
    }

    /// Sends the frame in the next slot, for which there is [credit](Driver::has_credit).
    #[inline(always)]
    pub(super) fn send_large(&mut self, len: usize) {
        let header = self.header(len, LARGE).to_le_bytes();
        self.send(|line| {
            *line = [0; LINE];
            line[..4].copy_from_slice(&header);
        });
        self.sent.slots = self.sent.slots.wrapping_add(1);
        self.pcie.descriptor_fetches = self.pcie.descriptor_fetches.wrapping_add(1);
        self.pcie.dma_reads = self.pcie.dma_reads.wrapping_add(packets(len));
    }

    #[inline(always)]
    fn header(&self, len: usize, large: u32) -> u32 {
        self.next() << SEQUENCE_SHIFT | VALID | large | len as u32 & LENGTH
    }

    /// Sends a line. `fill` writes it into the memory that it is sent from: a copy would load across stores of another size.
    #[inline(always)]
    fn send(&mut self, fill: impl Fn(&mut [u8; LINE])) {
        let at = self.place(self.next());
        if self.kept_at.is_none() {
            fill(&mut self.kept);
            self.kept_at = Some(at);
        } else {
            let mut line = [0; LINE];
            fill(&mut line);
            self.tx.write_line(at, &line);
            self.tx.will_write(self.place(self.next().wrapping_add(AHEAD)));
        }
        self.sent.lines = self.sent.lines.wrapping_add(1);
    }

    /// True if something was sent since the last doorbell.
    #[inline(always)]
    pub(super) fn waits(&self) -> bool {
        self.kept_at.is_some()
    }

    /// Makes the lines written so far visible to the other side.
    #[inline(always)]
    pub(super) fn doorbell(&mut self) {
        if let Some(at) = self.kept_at.take() {
            // Slots are written before the line that announces them.
            self.tx.flush();
            self.tx.write_line(at, &self.kept);
            self.tx.flush();
        }
    }

    /// Forgets what was sent, for want of a receiver: nothing waits for the doorbell, and every line and slot is free.
    #[cold]
    pub(super) fn forget(&mut self) {
        self.kept_at = None;
        self.seen = (self.sent.lines as u32, self.sent.slots);
    }

    /// The number of the next frame to receive.
    #[inline(always)]
    pub(super) fn awaited(&self) -> u32 {
        self.taken.lines as u32
    }

    /// The number of the slot of the next large frame to receive.
    #[inline(always)]
    pub(super) fn awaited_slot(&self) -> u32 {
        self.taken.slots
    }

    /// The next line, if a frame is in it; it stays there until it is [taken](Driver::take).
    #[inline(always)]
    pub(super) fn poll(&self, line: &mut [u8; LINE]) -> Option<FrameHeader> {
        let wanted = self.awaited() << SEQUENCE_SHIFT | VALID;
        if !self.rx.poll_line(self.place(self.awaited()), |header| header & !(LENGTH | LARGE) == wanted, line) {
            return None;
        }
        let header = header(line);
        Some(FrameHeader { len: (header & LENGTH) as usize, large: header & LARGE != 0 })
    }

    /// Hints that lines behind the next one are probably filled.
    #[inline(always)]
    pub(super) fn expect_more(&self) {
        self.rx.will_read(self.place(self.awaited().wrapping_add(AHEAD)));
    }

    /// Goes on to the next line.
    #[inline(always)]
    pub(super) fn take(&mut self, found: FrameHeader) {
        self.taken.lines = self.taken.lines.wrapping_add(1);
        if found.large {
            self.taken.slots = self.taken.slots.wrapping_add(1);
            self.pcie.dma_writes = self.pcie.dma_writes.wrapping_add(packets(found.len));
        }
    }

    /// Returns credits to the other side once they amount to a quarter of the ring or of the slots.
    #[inline(always)]
    pub(super) fn return_credits(&mut self) {
        if self.taken.lines.wrapping_sub(self.returned) >= u64::from(self.entries.min(self.slots) / 4) {
            self.write_credits();
        }
    }

    #[cold]
    fn write_credits(&mut self) {
        let mut line = [0; LINE];
        line[..4].copy_from_slice(&self.awaited().to_le_bytes());
        line[4..8].copy_from_slice(&self.taken.slots.to_le_bytes());
        self.rx.write_line(self.entries as usize, &line);
        self.rx.flush();
        self.returned = self.taken.lines;
        self.pcie.credit_writes = self.pcie.credit_writes.wrapping_add(1);
    }
}

/// Packets on PCI Express for the bytes of a frame.
fn packets(len: usize) -> u64 {
    len.div_ceil(PACKET).max(1) as u64
}

/// Words of 8 bytes in the first 56 bytes of a frame.
const WORDS: usize = 7;
const HALF: u32 = u32::BITS;

/// Makes the line of a frame of at most 60 bytes. Most have 60: those are moved in words, so that the CPU never loads across
/// stores of another size.
#[inline(always)]
fn small_line(line: &mut [u8; LINE], frame: &[u8], header: u32) {
    if let Ok(frame) = <&[u8; INLINE]>::try_from(frame) {
        let mut carry = u64::from(header);
        for at in 0..WORDS {
            let word = get(frame, 8 * at);
            line[8 * at..8 * at + 8].copy_from_slice(&(carry | word << HALF).to_le_bytes());
            carry = word >> HALF;
        }
        let last = u32::from_le_bytes([frame[56], frame[57], frame[58], frame[59]]);
        line[56..].copy_from_slice(&(carry | u64::from(last) << HALF).to_le_bytes());
    } else {
        line[..4].copy_from_slice(&header.to_le_bytes());
        line[4..4 + frame.len()].copy_from_slice(frame);
        line[4 + frame.len()..].fill(0);
    }
}

/// Copies a line's frame into `into`, which has the frame's length: at most 60 bytes.
#[inline(always)]
pub(super) fn copy_small(line: &[u8; LINE], into: &mut [u8]) {
    if let Ok(into) = <&mut [u8; INLINE]>::try_from(&mut *into) {
        let mut word = get(line, 0);
        for at in 0..WORDS {
            let next = get(line, 8 * at + 8);
            into[8 * at..8 * at + 8].copy_from_slice(&(word >> HALF | next << HALF).to_le_bytes());
            word = next;
        }
        into[56..].copy_from_slice(&((word >> HALF) as u32).to_le_bytes());
    } else {
        into.copy_from_slice(&line[4..4 + into.len()]);
    }
}

#[inline(always)]
fn get<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::fs::File;

    use super::*;
    use hairpin_sys::bar::{Access, MappedBar};

    /// Two drivers over the stores and loads that a BAR takes, in one file's memory.
    fn mapped() -> (Driver<MappedBar>, Driver<MappedBar>) {
        const ENTRIES: u32 = 8;
        let lane = || {
            let file: File = tempfile::tempfile().unwrap();
            file.set_len((u64::from(ENTRIES) + 1) * 64).unwrap();
            let map = || MappedBar::map(&file, 0, (u64::from(ENTRIES) + 1) * 64, Access::ReadWrite).unwrap();
            (map(), map())
        };
        let ((to, from), (back_to, back_from)) = (lane(), lane());
        (Driver::new(to, back_from, ENTRIES, ENTRIES), Driver::new(back_to, from, ENTRIES, ENTRIES))
    }

    #[test]
    fn frames_go_over_a_mapped_bar_too() {
        let (mut one, mut other) = mapped();
        let mut line = [0; LINE];
        for number in 0..100_000u32 {
            let frame: [u8; INLINE] = std::array::from_fn(|at| number.wrapping_mul(7).wrapping_add(at as u32) as u8);
            let len = if number % 3 == 0 { number as usize % 61 } else { INLINE };
            assert!(one.has_credit(false));
            one.send_small(&frame[..len]);
            assert_eq!(other.poll(&mut line), None);
            one.doorbell();
            let found = other.poll(&mut line).unwrap();
            assert_eq!(found, FrameHeader { len, large: false });
            let mut got = vec![0; len];
            copy_small(&line, &mut got);
            assert_eq!(got, frame[..len]);
            other.take(found);
            other.return_credits();
        }
        let (sent, received) = (one.pcie(), other.pcie());
        assert_eq!((sent.posted_writes, received.reads, received.credit_writes), (100_000, 100_000, 50_000));
    }

    #[test]
    fn credits_bound_sending_and_invalid_ones_are_ignored() {
        let (mut one, mut other) = mapped();
        let mut line = [0; LINE];
        for round in 0..5 {
            for _ in 0..8 {
                assert!(one.has_credit(false), "round {round}");
                one.send_small(&[1; 60]);
            }
            assert!(!one.has_credit(false));
            one.doorbell();
            for _ in 0..8 {
                let found = other.poll(&mut line).unwrap();
                other.take(found);
                other.return_credits();
            }
            assert_eq!(other.poll(&mut line), None);
        }
        for _ in 0..8 {
            assert!(one.has_credit(true));
            one.send_large(1_000);
        }
        let mut credits = [0; LINE];
        for nonsense in [u32::MAX, 1_000, 49] {
            credits[..4].copy_from_slice(&nonsense.to_le_bytes());
            other.rx.write_line(8, &credits);
            assert!(!one.has_credit(false), "taken {nonsense} of 48");
        }
        credits[..8].copy_from_slice(&[48, 0, 0, 0, 9, 0, 0, 0]);
        other.rx.write_line(8, &credits);
        assert!(one.has_credit(false) && !one.has_credit(true));
        assert_eq!(one.pcie().dma_reads, 8 * 4);
    }

    #[test]
    fn a_line_of_another_round_is_no_frame() {
        let (mut one, other) = mapped();
        let mut line = [0; LINE];
        one.sent.lines = 8;
        one.send_small(&[1; 60]);
        one.doorbell();
        assert_eq!(other.poll(&mut line), None);
    }
}
