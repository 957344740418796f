//! The two receive rings of a packet socket; reading a frame from them is safe whatever their headers say.
//!
//! ```text
//!   slots (TPACKET_V2)      ┌ status │ header │ frame ┐ ┌ status │ … ┐ …   each slot changes hands by itself
//!   blocks (TPACKET_V3)     ┌ status │ header, frame │ header, frame │ … ┐ ┌ status │ …   each block changes hands whole
//!
//!   status: KERNEL ──(kernel has written, release)──▶ USER ──(copied out, release)──▶ KERNEL
//! ```
//! The kernel shares the area, so none of it is ever exposed as a slice: the status word is read as an atomic, everything else is
//! copied out once the status says that it is ours. All offsets and lengths in the headers are checked against the slot or block.
//!
//! Sources: packet(7); `Documentation/networking/packet_mmap.rst`; `include/uapi/linux/if_packet.h`; `net/packet/af_packet.c`.

use std::io;
use std::mem::size_of;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{Fault, Layout, Received, Step};
use crate::umem::Pool;

/// Most bytes from the start of a slot to the frame: the header, the link-layer address, alignment.
pub(super) const HEAD_ROOM: usize = 96;
/// Length of the two MAC addresses, which a VLAN tag follows.
const MACS: usize = 12;
/// Length of a VLAN tag.
const TAG: usize = 4;
/// Length of a block's head (`struct tpacket_block_desc`).
const BLOCK_HEAD: usize = 48;

const _: () = assert!(size_of::<libc::tpacket2_hdr>() == 32);
const _: () = assert!(size_of::<libc::tpacket3_hdr>() == 48);
const _: () = assert!(size_of::<libc::tpacket_block_desc>() == BLOCK_HEAD);

/// The area shared by socket and kernel.
pub(super) struct Area {
    begin: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; Area is the only way to it.
unsafe impl Send for Area {}

impl Area {
    /// Maps the ring of a socket.
    pub(super) fn of(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<Area> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let begin = unsafe { mmap(std::ptr::null_mut(), bytes, prot, flags, socket, 0) }?;
        Ok(Area { begin: NonNull::new(begin.cast()).ok_or_else(|| io::Error::other("no address"))?, bytes })
    }

    /// A status word.
    ///
    /// # Panics
    /// If `at` is outside the area or not aligned: a bug in this module, never the kernel's fault.
    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at <= self.bytes - 4);
        // SAFETY: in range and aligned by the line above, mapped as long as self; the other side changes it as a 32-bit word.
        unsafe { AtomicU32::from_ptr(self.begin.as_ptr().add(at).cast()) }
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If the range is outside the area: a bug in this module, never the kernel's fault.
    #[inline(always)]
    fn copy(&self, at: usize, into: &mut [u8]) {
        assert!(at <= self.bytes && into.len() <= self.bytes - at);
        // SAFETY: the range lies in the mapping by the line above, and `into` is memory of this process that nobody else has.
        unsafe { self.begin.as_ptr().add(at).copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) }
    }
}

#[cfg(test)]
impl Area {
    /// Memory that a test fills in place of the kernel.
    fn private(bytes: usize) -> Area {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let begin = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) }.unwrap();
        Area { begin: NonNull::new(begin.cast()).unwrap(), bytes }
    }

    #[inline]
    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes);
        // SAFETY: the range lies in the mapping by the line above, and no reference into it is alive.
        unsafe { self.begin.as_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: mapped with this length; no reference into it outlives self.
        let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.bytes) };
    }
}

/// Facts about a frame found in both kinds of header.
#[derive(Clone, Copy)]
struct Head {
    /// Offset of the frame from its header.
    mac: usize,
    /// Bytes of the frame in the ring.
    captured: usize,
    /// Original length of the frame in bytes.
    len: usize,
    status: u32,
    seconds: u32,
    nanoseconds: u32,
    tci: u16,
    tpid: u16,
    hash: u32,
}

impl Head {
    /// From `struct tpacket2_hdr`.
    #[inline(always)]
    fn of_slot(raw: &[u8; 32]) -> Head {
        Head {
            status: u32_at(raw, 0),
            len: u32_at(raw, 4) as usize,
            captured: u32_at(raw, 8) as usize,
            mac: u16_at(raw, 12) as usize,
            seconds: u32_at(raw, 16),
            nanoseconds: u32_at(raw, 20),
            tci: u16_at(raw, 24),
            tpid: u16_at(raw, 26),
            hash: 0,
        }
    }

    /// From `struct tpacket3_hdr`.
    #[inline(always)]
    fn in_block(raw: &[u8; 48]) -> Head {
        Head {
            seconds: u32_at(raw, 4),
            nanoseconds: u32_at(raw, 8),
            captured: u32_at(raw, 12) as usize,
            len: u32_at(raw, 16) as usize,
            status: u32_at(raw, 20),
            mac: u16_at(raw, 24) as usize,
            hash: u32_at(raw, 28),
            tci: u32_at(raw, 32) as u16,
            tpid: u16_at(raw, 36),
        }
    }

    /// Nanoseconds of the clock that stamped the frame; the kernel leaves zero if it took no timestamp.
    #[inline(always)]
    fn time_ns(&self) -> Option<u64> {
        let ns = u64::from(self.seconds) * 1_000_000_000 + u64::from(self.nanoseconds);
        (ns != 0).then_some(ns)
    }
}

#[inline(always)]
fn u32_at<const N: usize>(raw: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

#[inline(always)]
fn u16_at<const N: usize>(raw: &[u8; N], at: usize) -> u16 {
    u16::from_ne_bytes([raw[at], raw[at + 1]])
}

/// A receive ring with the position of its next frame.
pub(super) struct Ring {
    area: Area,
    layout: Layout,
    /// Size of a slot or block in bytes.
    unit: usize,
    units: usize,
    /// The next slot or block.
    next: usize,
    /// In a block: the number of unread frames, and the offset of the next one.
    left: u32,
    at: usize,
}

impl Ring {
    pub(super) fn new(area: Area, layout: Layout, unit: usize, units: usize) -> Ring {
        assert!(unit >= HEAD_ROOM && unit.is_multiple_of(8) && units > 0 && unit * units <= area.bytes);
        Ring { area, layout, unit, units, next: 0, left: 0, at: 0 }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        // A block's status lies behind its version and the offset of its private area.
        let status = match self.layout {
            Layout::Slots => self.next * self.unit,
            Layout::Blocks => self.next * self.unit + 8,
        };
        self.left == 0 && self.area.word(status).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
    }

    /// Looks at the next frame and moves it into a chunk of the pool. Without a free chunk the frame stays in the ring.
    #[inline(always)]
    pub(super) fn step(&mut self, pool: &mut Pool) -> Step {
        match self.layout {
            Layout::Slots => self.step_slot(pool),
            Layout::Blocks => self.step_block(pool),
        }
    }

    #[inline(always)]
    fn step_slot(&mut self, pool: &mut Pool) -> Step {
        let begin = self.next * self.unit;
        if self.area.word(begin).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return Step::Empty;
        }
        let mut raw = [0; 32];
        self.area.copy(begin, &mut raw);
        let step = self.take(begin, self.unit, raw.len(), Head::of_slot(&raw), pool);
        if !matches!(step, Step::NoChunk) {
            self.area.word(begin).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.advance();
        }
        step
    }

    #[inline]
    fn step_block(&mut self, pool: &mut Pool) -> Step {
        let begin = self.next * self.unit;
        if self.left == 0 {
            if self.area.word(begin + 8).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return Step::Empty;
            }
            let mut raw = [0; BLOCK_HEAD];
            self.area.copy(begin, &mut raw);
            (self.left, self.at) = (u32_at(&raw, 12), u32_at(&raw, 16) as usize);
            if self.left == 0 {
                // The kernel never hands over an empty block; one that looks empty is returned like any other.
                self.give_block_back();
                return Step::Fault(Fault::Invalid);
            }
        }
        let mut raw = [0; 48];
        if self.at < BLOCK_HEAD || self.at > self.unit - raw.len() {
            self.give_block_back();
            return Step::Fault(Fault::Invalid);
        }
        self.area.copy(begin + self.at, &mut raw);
        let step = self.take(begin + self.at, self.unit - self.at, raw.len(), Head::in_block(&raw), pool);
        if matches!(step, Step::NoChunk) {
            return step;
        }
        // Each frame lies behind the previous one, so a block ends whatever its headers say; the next step checks the offset.
        let forward = u32_at(&raw, 0) as usize;
        self.at = if forward < raw.len() { usize::MAX } else { self.at.saturating_add(forward) };
        self.left -= 1;
        if self.left == 0 {
            self.give_block_back();
        }
        step
    }

    #[inline]
    fn give_block_back(&mut self) {
        self.left = 0;
        self.area.word(self.next * self.unit + 8).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.advance();
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.next = if self.next + 1 == self.units { 0 } else { self.next + 1 };
    }

    /// Copies the frame whose header of `header` bytes is at `begin`; the frame must end before `begin + room`.
    #[inline(always)]
    fn take(&self, begin: usize, room: usize, header: usize, head: Head, pool: &mut Pool) -> Step {
        if head.mac < header || head.mac > room || head.captured > room - head.mac {
            return Step::Fault(Fault::Invalid);
        }
        let tag = if head.status & libc::TP_STATUS_VLAN_VALID != 0 && head.captured >= MACS { TAG } else { 0 };
        let chunk = pool.umem().chunk_bytes();
        if head.captured < head.len || head.captured > chunk - tag {
            return Step::Fault(Fault::TooLong);
        }
        let Some(mut frame) = pool.take() else { return Step::NoChunk };
        frame.set_len(head.captured + tag);
        let from = begin + head.mac;
        let bytes = pool.umem().bytes_mut(&mut frame);
        if tag == 0 {
            self.area.copy(from, bytes);
        } else {
            // The kernel has removed the tag from the frame; put it back.
            let known = head.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if known { head.tpid } else { libc::ETH_P_8021Q as u16 };
            self.area.copy(from, &mut bytes[..MACS]);
            bytes[MACS..MACS + 2].copy_from_slice(&tpid.to_be_bytes());
            bytes[MACS + 2..MACS + TAG].copy_from_slice(&head.tci.to_be_bytes());
            self.area.copy(from + MACS, &mut bytes[MACS + TAG..]);
        }
        Step::Frame(Received {
            frame,
            time_ns: head.time_ns(),
            by_device: head.status & libc::TP_STATUS_TS_RAW_HARDWARE != 0,
            hash: (head.hash != 0).then_some(head.hash),
            checksum_missing: head.status & libc::TP_STATUS_CSUMNOTREADY != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOT: usize = 2048;
    const COUNT: usize = 4;
    const USER: u32 = libc::TP_STATUS_USER;

    fn ring(layout: Layout) -> (Ring, Pool) {
        (Ring::new(Area::private(SLOT * COUNT), layout, SLOT, COUNT), Pool::new(2, 2048).unwrap())
    }

    /// The header fields that describe a frame.
    #[derive(Clone, Copy, Debug)]
    struct Says {
        status: u32,
        len: u32,
        captured: u32,
        mac: u16,
    }

    impl Says {
        fn slot(self) -> [u8; 32] {
            let mut raw = [0; 32];
            raw[..4].copy_from_slice(&self.status.to_ne_bytes());
            raw[4..8].copy_from_slice(&self.len.to_ne_bytes());
            raw[8..12].copy_from_slice(&self.captured.to_ne_bytes());
            raw[12..14].copy_from_slice(&self.mac.to_ne_bytes());
            raw
        }

        fn in_block(self, forward: u32) -> [u8; 48] {
            let mut raw = [0; 48];
            raw[..4].copy_from_slice(&forward.to_ne_bytes());
            raw[12..16].copy_from_slice(&self.captured.to_ne_bytes());
            raw[16..20].copy_from_slice(&self.len.to_ne_bytes());
            raw[20..24].copy_from_slice(&self.status.to_ne_bytes());
            raw[24..26].copy_from_slice(&self.mac.to_ne_bytes());
            raw
        }
    }

    fn block_head(count: u32, first: u32) -> [u8; BLOCK_HEAD] {
        let mut raw = [0; BLOCK_HEAD];
        raw[8..12].copy_from_slice(&USER.to_ne_bytes());
        raw[12..16].copy_from_slice(&count.to_ne_bytes());
        raw[16..20].copy_from_slice(&first.to_ne_bytes());
        raw
    }

    fn good(len: u32) -> Says {
        Says { status: USER, len, captured: len, mac: 66 }
    }

    fn fault(step: Step) -> Fault {
        match step {
            Step::Fault(fault) => fault,
            other => panic!("{other:?}"),
        }
    }

    fn bytes(step: Step, pool: &mut Pool) -> Vec<u8> {
        let Step::Frame(received) = step else { panic!("{step:?}") };
        let bytes = pool.umem().bytes(&received.frame).to_vec();
        pool.give(received.frame);
        bytes
    }

    #[test]
    fn slots_go_round_and_are_handed_back() {
        let (mut ring, mut pool) = ring(Layout::Slots);
        for turn in 0..3 * COUNT + 1 {
            let at = turn % COUNT * SLOT;
            assert!(matches!(ring.step(&mut pool), Step::Empty));
            ring.area.write(at + 66, &[turn as u8; 60]);
            ring.area.write(at, &good(60).slot());
            assert_eq!(bytes(ring.step(&mut pool), &mut pool), [turn as u8; 60]);
            assert_eq!(ring.area.word(at).load(Ordering::Relaxed), libc::TP_STATUS_KERNEL);
        }
    }

    #[test]
    fn a_frame_waits_in_its_slot_for_a_chunk() {
        let (mut ring, mut pool) = ring(Layout::Slots);
        let held: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        ring.area.write(0, &good(60).slot());
        assert!(matches!(ring.step(&mut pool), Step::NoChunk));
        assert_eq!(ring.area.word(0).load(Ordering::Relaxed), USER);
        held.into_iter().for_each(|frame| pool.give(frame));
        assert_eq!(bytes(ring.step(&mut pool), &mut pool).len(), 60);
    }

    #[test]
    fn places_outside_a_slot_are_invalid_and_longer_frames_too_long() {
        let (mut ring, mut pool) = ring(Layout::Slots);
        let room = SLOT as u32;
        let invalid = [
            Says { mac: 0, ..good(60) },
            Says { mac: 31, ..good(60) },
            Says { mac: u16::MAX, ..good(60) },
            Says { captured: room - 65, ..good(room) },
            Says { captured: u32::MAX, ..good(u32::MAX) },
        ];
        let long = [Says { captured: room - 66, ..good(room) }, Says { len: 61, ..good(60) }, Says { len: u32::MAX, ..good(60) }];
        let cases = invalid.map(|says| (says, Fault::Invalid)).into_iter().chain(long.map(|says| (says, Fault::TooLong)));
        for (turn, (says, expected)) in cases.enumerate() {
            ring.area.write(turn % COUNT * SLOT, &says.slot());
            assert_eq!(fault(ring.step(&mut pool)), expected, "{says:?}");
            assert_eq!(pool.available(), 2);
        }
    }

    #[test]
    fn a_tag_goes_back_to_its_place_if_there_is_room_for_it() {
        let (mut ring, mut pool) = ring(Layout::Slots);
        let mut raw = Says { status: USER | libc::TP_STATUS_VLAN_VALID, ..good(20) }.slot();
        raw[24..26].copy_from_slice(&0xe123_u16.to_ne_bytes());
        ring.area.write(66, &(0..20).collect::<Vec<u8>>());
        ring.area.write(0, &raw);
        let expected = [&(0..12).collect::<Vec<u8>>()[..], &[0x81, 0, 0xe1, 0x23], &(12..20).collect::<Vec<u8>>()].concat();
        assert_eq!(bytes(ring.step(&mut pool), &mut pool), expected);
        // Without two MAC addresses there is no place for a tag.
        ring.area.write(SLOT, &Says { status: USER | libc::TP_STATUS_VLAN_VALID, ..good(11) }.slot());
        assert_eq!(bytes(ring.step(&mut pool), &mut pool).len(), 11);
    }

    #[test]
    fn the_status_says_who_took_the_time() {
        for (layout, device) in [(Layout::Slots, true), (Layout::Slots, false), (Layout::Blocks, true), (Layout::Blocks, false)] {
            let (mut ring, mut pool) = ring(layout);
            let mut says = good(60);
            says.status |= if device { libc::TP_STATUS_TS_RAW_HARDWARE } else { libc::TP_STATUS_TS_SOFTWARE };
            let time = [3_u32, 4].map(u32::to_ne_bytes).concat();
            match layout {
                Layout::Slots => {
                    let mut raw = says.slot();
                    raw[16..24].copy_from_slice(&time);
                    ring.area.write(0, &raw);
                }
                Layout::Blocks => {
                    let mut raw = says.in_block(0);
                    raw[4..12].copy_from_slice(&time);
                    ring.area.write(48, &raw);
                    ring.area.write(0, &block_head(1, 48));
                }
            }
            let Step::Frame(received) = ring.step(&mut pool) else { panic!("no frame") };
            assert_eq!((received.time_ns, received.by_device), (Some(3_000_000_004), device));
            pool.give(received.frame);
        }
    }

    #[test]
    fn blocks_are_handed_back_when_their_last_frame_is_read() {
        let (mut ring, mut pool) = ring(Layout::Blocks);
        for turn in 0..2 * COUNT + 1 {
            let at = turn % COUNT * SLOT;
            assert!(matches!(ring.step(&mut pool), Step::Empty));
            for (place, forward) in [(48, 200), (248, 300), (548, 0)] {
                ring.area.write(at + place, &good(60).in_block(forward));
                ring.area.write(at + place + 66, &[place as u8; 60]);
            }
            ring.area.write(at, &block_head(3, 48));
            for place in [48_u32, 248, 548] {
                assert_eq!(ring.area.word(at + 8).load(Ordering::Relaxed), USER);
                assert_eq!(bytes(ring.step(&mut pool), &mut pool), [place as u8; 60]);
            }
            assert_eq!(ring.area.word(at + 8).load(Ordering::Relaxed), libc::TP_STATUS_KERNEL);
        }
    }

    #[test]
    fn block_of_invalid_frames_is_returned() {
        for forward in [0, 1, 47, SLOT as u32, u32::MAX] {
            let (mut ring, mut pool) = ring(Layout::Blocks);
            ring.area.write(48, &good(60).in_block(forward));
            ring.area.write(0, &block_head(u32::MAX, 48));
            assert_eq!(bytes(ring.step(&mut pool), &mut pool).len(), 60);
            assert_eq!(fault(ring.step(&mut pool)), Fault::Invalid, "{forward}");
            assert!(matches!(ring.step(&mut pool), Step::Empty));
            assert_eq!(ring.area.word(8).load(Ordering::Relaxed), libc::TP_STATUS_KERNEL);
        }
    }

    /// Values near each limit, and random ones.
    fn place() -> impl Strategy<Value = u32> {
        prop_oneof![0..200_u32, (SLOT as u32 - 100)..(SLOT as u32 + 100), any::<u32>()]
    }

    proptest! {
        #[test]
        fn no_header_leads_out_of_its_slot(status: u32, len in place(), captured in place(), mac in place()) {
            let (mut ring, mut pool) = ring(Layout::Slots);
            ring.area.write(0, &Says { status: status | USER, len, captured, mac: mac as u16 }.slot());
            let step = ring.step(&mut pool);
            if let Step::Frame(received) = step {
                prop_assert!(u32::from(mac as u16) + captured <= SLOT as u32 && received.frame.len() <= 2048);
                pool.give(received.frame);
            }
            prop_assert_eq!(pool.available(), 2);
            prop_assert!(matches!(ring.step(&mut pool), Step::Empty));
        }

        #[test]
        fn no_header_leads_out_of_its_block_and_every_block_ends(
            count: u32,
            first in place(),
            frames in prop::collection::vec((0..SLOT - 48, place(), place(), place(), place()), 0..40),
        ) {
            let (mut ring, mut pool) = ring(Layout::Blocks);
            for (at, len, captured, mac, forward) in frames {
                let says = Says { status: len, len, captured, mac: mac as u16 };
                ring.area.write(at / 8 * 8, &says.in_block(forward));
            }
            ring.area.write(0, &block_head(count, first));
            let mut steps = 0;
            loop {
                match ring.step(&mut pool) {
                    Step::Frame(received) => pool.give(received.frame),
                    Step::Fault(_) => {}
                    Step::Empty => break,
                    Step::NoChunk => prop_assert!(false, "there are chunks"),
                }
                steps += 1;
                prop_assert!(steps <= SLOT / 48 + 1);
            }
            prop_assert_eq!(pool.available(), 2);
        }
    }
}
