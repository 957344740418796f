//! Memory shared by the two ports of an emulated NIC: a sealed memfd with one lane per direction for each queue pair.
//!
//! ```text
//!   file    ┌ header, one page │ lane 0 │ lane 1 │ lane 2 …          lane 2q: queue q, creator to opener; lane 2q + 1: back
//!
//!   lane    ┌ lines ─────── entries × 64 bytes: header 4, frame 60   written by the sender
//!           │ credits ───── lines and slots that were taken          written by the receiver
//!           │ armed ──────── the receiver wants to be woken          swapped by both
//!           │ closed ─────── the sender is gone                      written by the sender
//!           │ deadlines ─── entries × 8 bytes, if times are emulated written by the sender
//!           └ slots ──────── frames that are longer than a line      written by the sender
//! ```
//! Data written by different sides lies 128 bytes apart, because CPUs prefetch adjacent lines in pairs. Memory that the other
//! side can write is never exposed as `&[u8]`, only as atomic words. Positions are computed from indices that this process keeps;
//! the header is read once, before anything is mapped.

mod copy;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::armed::Armed;
use crate::bar::{CoherentBar, LINE, Line, demote, own};

/// Longest frame that a slot may hold, in bytes.
pub const LONGEST: usize = 9_000;
/// Fewest lines in a lane.
pub const LEAST_ENTRIES: u32 = 4;
/// Most lines in a lane.
pub const MOST_ENTRIES: u32 = 16_384;
/// Most queue pairs of a port.
pub const MOST_QUEUES: u32 = 64;
/// Most slots in a lane.
const MOST_SLOTS: u32 = 128;
/// Most bytes in total: a file from another process must not exhaust this machine's memory.
const MOST_BYTES: usize = 256 << 20;

/// "hairpin!", little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"hairpin!");
/// Incremented whenever the layout changes.
const VERSION: u64 = 1;
const HEADER: usize = 4096;
const PAGE: usize = 4096;
const WORD: usize = size_of::<u64>();
/// Distance in lines between data of different writers.
const APART: usize = 2;

/// Seals that keep a peer from truncating the file; reading a truncated one would end this process (SIGBUS).
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Sizes agreed by both ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Queue pairs.
    pub queues: u32,
    /// Lines of each lane; a power of two.
    pub entries: u32,
    /// Longest frame in bytes.
    pub longest: u32,
    /// True if every frame has a deadline.
    pub timed: bool,
}

/// Reason why there is no shared memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Invalid sizes.
    #[error(
        "an emulated NIC has 1 to {MOST_QUEUES} queue pairs, a power of two from {LEAST_ENTRIES} to {MOST_ENTRIES} lines each way, frames of 60 to {LONGEST} bytes, and 256 MiB in all, not {queues}, {entries} and {longest}", queues = .0.queues, entries = .0.entries, longest = .0.longest
    )]
    Layout(Layout),
    /// The file could still be truncated.
    #[error(
        "the shared memory of an emulated NIC is a memfd sealed against shrinking, growing and further seals, and this one is not: take the one that the other port made"
    )]
    Unsealed,
    /// A file of another kind.
    #[error("the file is not the shared memory of an emulated NIC: take the descriptor that the other port made")]
    Foreign,
    /// Another version of Hairpin.
    #[error("the other port's shared memory has version {0}, this one's has {VERSION}: start both sides from the same program")]
    Version(u64),
    /// Header and file size do not match.
    #[error(
        "the other port's shared memory does not have the layout that its header names: start both sides from the same program"
    )]
    Inconsistent,
    /// A system call failed.
    #[error("cannot {what} the shared memory of an emulated NIC: {source}")]
    Kernel {
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The port that created the memory.
    Creator,
    /// The port that received it.
    Opener,
}

/// The mapped memory; unmapped when the last lane is dropped.
#[derive(Debug)]
pub struct Memory {
    area: NonNull<u8>,
    layout: Layout,
    fd: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread, and all of its content is reached as atomics.
unsafe impl Send for Memory {}
// SAFETY: as above: shared access is through atomics only.
unsafe impl Sync for Memory {}

impl Layout {
    /// Number of frames longer than a line that can be in flight at once.
    pub fn slots(&self) -> u32 {
        self.entries.min(MOST_SLOTS)
    }

    /// Length of a slot in bytes: an odd number of lines, so that slots use different cache sets.
    fn slot_bytes(&self) -> usize {
        ((self.longest as usize).div_ceil(LINE) | 1) * LINE
    }

    fn lines(&self) -> usize {
        self.entries as usize
    }

    fn deadlines_at(&self) -> usize {
        // Three single words follow the lines.
        (self.lines() + 3 * APART) * LINE
    }

    fn slots_at(&self) -> usize {
        let deadlines = if self.timed { self.lines() * WORD } else { 0 };
        (self.deadlines_at() + deadlines).next_multiple_of(APART * LINE)
    }

    fn lane_bytes(&self) -> usize {
        (self.slots_at() + self.slots() as usize * self.slot_bytes()).next_multiple_of(PAGE)
    }

    /// Size of the file in bytes; `None` for invalid sizes.
    fn bytes(&self) -> Option<usize> {
        let sound = (1..=MOST_QUEUES).contains(&self.queues)
            && self.entries.is_power_of_two()
            && (LEAST_ENTRIES..=MOST_ENTRIES).contains(&self.entries)
            && (LINE - size_of::<u32>()..=LONGEST).contains(&(self.longest as usize));
        // At most 128 lanes of less than 3 MiB: no overflow.
        sound.then(|| HEADER + 2 * self.queues as usize * self.lane_bytes()).filter(|bytes| *bytes <= MOST_BYTES)
    }

    fn header(&self) -> [u64; 6] {
        [MAGIC, VERSION, self.queues.into(), self.entries.into(), self.longest.into(), self.timed.into()]
    }
}

impl Memory {
    /// Creates zeroed memory (memfd_create(2), close-on-exec, sealed against changes of its size) and touches its pages.
    ///
    /// # Errors
    /// Invalid sizes; those of memfd_create(2), ftruncate(2), pwrite(2), fcntl(2) and mmap(2).
    pub fn create(layout: &Layout) -> Result<Arc<Memory>, MemoryError> {
        let bytes = layout.bytes().ok_or(MemoryError::Layout(*layout))?;
        let made = || {
            let fd = memfd_create("hairpin-niq", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&fd, bytes as u64)?;
            let file = File::from(fd);
            file.write_all_at(&layout.header().map(u64::to_le_bytes).concat(), 0)?;
            fcntl_add_seals(&file, SEALS)?;
            Ok(file.into())
        };
        Memory::map(made().map_err(|source| MemoryError::Kernel { what: "make", source })?, *layout, bytes)
    }

    /// Maps the memory that the other port created, from its [descriptor](AsFd).
    ///
    /// # Errors
    /// A file that is not sealed, does not belong to an emulated NIC, has another version, or has a size other than its header
    /// demands; those of fcntl(2), fstat(2), pread(2) and mmap(2).
    pub fn open(fd: OwnedFd) -> Result<Arc<Memory>, MemoryError> {
        // A file that does not support seals (a pipe, a file on disk) gives EINVAL.
        if !fcntl_get_seals(&fd).unwrap_or(SealFlags::empty()).contains(SEALS) {
            return Err(MemoryError::Unsealed);
        }
        let kernel = |source| MemoryError::Kernel { what: "read", source };
        let file = File::from(fd);
        let length = file.metadata().map_err(kernel)?.len();
        if length < HEADER as u64 {
            return Err(MemoryError::Foreign);
        }
        let mut header = [[0; WORD]; 6];
        file.read_exact_at(header.as_flattened_mut(), 0).map_err(kernel)?;
        let header = header.map(u64::from_le_bytes);
        let [magic, version, queues, entries, longest, timed] = header;
        if magic != MAGIC {
            return Err(MemoryError::Foreign);
        }
        if version != VERSION {
            return Err(MemoryError::Version(version));
        }
        // Values beyond 32 bits are invalid; the comparison of the whole header detects them.
        let layout = Layout { queues: queues as u32, entries: entries as u32, longest: longest as u32, timed: timed == 1 };
        match layout.bytes() {
            Some(bytes) if layout.header() == header && bytes as u64 == length => Memory::map(file.into(), layout, bytes),
            _ => Err(MemoryError::Inconsistent),
        }
    }

    /// Maps a file whose size can no longer change.
    fn map(fd: OwnedFd, layout: Layout, bytes: usize) -> Result<Arc<Memory>, MemoryError> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let area = unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED | MapFlags::POPULATE, &fd, 0) };
        let area =
            area.map_err(io::Error::from).and_then(|area| NonNull::new(area.cast()).ok_or(io::ErrorKind::OutOfMemory.into()));
        let area = area.map_err(|source| MemoryError::Kernel { what: "map", source })?;
        Ok(Arc::new(Memory { area, layout, fd }))
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The two lanes of a queue pair as seen by `side`: its sending lane and its receiving lane.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn lanes(self: &Arc<Memory>, side: Side, queue: u32) -> [Lane; 2] {
        assert!(queue < self.layout.queues, "no queue {queue}: there are {}", self.layout.queues);
        let (sends, receives) = match side {
            Side::Creator => (0, 1),
            Side::Opener => (1, 0),
        };
        [sends, receives].map(|direction| self.lane(2 * queue as usize + direction))
    }

    fn lane(self: &Arc<Memory>, number: usize) -> Lane {
        let layout = self.layout;
        // SAFETY: `number` is below two per queue, so the lane lies inside of the mapping, which is Layout::bytes() long.
        let begin = unsafe { self.area.add(HEADER + number * layout.lane_bytes()) };
        Lane { begin, layout, slot_bytes: layout.slot_bytes(), memory: self.clone() }
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(bytes) = self.layout.bytes() else { return };
        // SAFETY: the mapping was made with this address and size, and every lane into it holds a reference to `self`.
        let unmapped = unsafe { munmap(self.area.as_ptr().cast(), bytes) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// One direction of a queue pair: access to its lines and its other words.
#[derive(Debug)]
pub struct Lane {
    begin: NonNull<u8>,
    layout: Layout,
    slot_bytes: usize,
    memory: Arc<Memory>,
}

// SAFETY: the mapping belongs to the process, lives as long as `memory`, and all of its content is reached as atomics.
unsafe impl Send for Lane {}

impl Lane {
    /// Number of the line that holds the receiver's credits, in the numbering of [`bar`](Lane::bar): it follows the lines of the
    /// ring.
    pub fn credit_line(&self) -> usize {
        self.layout.lines()
    }

    /// The lines of the ring and the credit line.
    pub fn bar(&self) -> CoherentBar {
        // SAFETY: a lane begins with its lines and the credit line; Line is 64 bytes, as a lane's begin (page-aligned) is
        // aligned.
        unsafe { CoherentBar::new(self.begin.cast::<Line>(), self.layout.lines() + 1, self.memory.clone()) }
    }

    /// Number of lines for frames.
    pub fn entries(&self) -> u32 {
        self.layout.entries
    }

    /// The word at `offset`, a multiple of 8 inside the lane.
    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the callers below keep to the layout that the mapping was made for; aligned, because all of its parts are; it
        // stays mapped.
        unsafe { self.begin.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Armed by the receiver before it sleeps; disarmed by the sender after sending.
    #[inline(always)]
    pub fn armed(&self) -> &impl Armed {
        self.word((self.layout.lines() + APART) * LINE)
    }

    fn closed(&self) -> &AtomicU64 {
        self.word((self.layout.lines() + 2 * APART) * LINE)
    }

    /// Marks the sender as gone.
    pub fn close(&self) {
        self.closed().store(1, Ordering::Release);
    }

    /// True if the sender is gone; a look after this call sees everything it sent.
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        self.closed().load(Ordering::Acquire) != 0
    }

    /// Writes the deadline of frame number `index` (which selects the ring's slot), before its line.
    ///
    /// # Panics
    /// If the lane has no deadlines.
    #[inline(always)]
    pub fn set_deadline(&self, index: u32, ticks: u64) {
        self.deadline_word(index).store(ticks, Ordering::Relaxed);
    }

    /// Deadline of frame number `index`, to be read after its line.
    ///
    /// # Panics
    /// If the lane has no deadlines.
    #[inline(always)]
    pub fn deadline(&self, index: u32) -> u64 {
        self.deadline_word(index).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn deadline_word(&self, index: u32) -> &AtomicU64 {
        assert!(self.layout.timed, "a lane without deadlines");
        self.word(self.layout.deadlines_at() + (index & (self.layout.entries - 1)) as usize * WORD)
    }

    /// Copies a frame into slot number `index`, before its line is written. Frames beyond the longest length are cut.
    #[inline]
    pub fn write_slot(&self, index: u32, bytes: &[u8]) {
        copy::into_words(self.slot(index), &bytes[..bytes.len().min(self.layout.longest as usize)]);
    }

    /// Copies a frame out of slot number `index`, after its line was seen; at most the length of `into` and of a slot.
    #[inline]
    pub fn read_slot(&self, index: u32, into: &mut [u8]) {
        let length = into.len().min(self.layout.longest as usize);
        copy::out_of_words(self.slot(index), &mut into[..length]);
    }

    /// Pushes the first `length` bytes of slot number `index` out of this core's cache, towards the other core that will read
    /// them. Useful for a single frame; a batch arrives sooner without it.
    #[inline]
    pub fn push_slot(&self, index: u32, length: usize) {
        for line in self.slot(index).chunks(LINE / WORD).take(length.div_ceil(LINE)) {
            demote(line);
        }
    }

    /// Fetches the first `length` bytes of slot number `index` into this core's cache for writing, during idle time: the next
    /// frame written there then need not wait for the other core to release them.
    #[inline]
    pub fn own_slot(&self, index: u32, length: usize) {
        for line in self.slot(index).chunks(LINE / WORD).take(length.div_ceil(LINE)) {
            own(line);
        }
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> &[AtomicU64] {
        let number = (index & (self.layout.slots() - 1)) as usize;
        let first = self.word(self.layout.slots_at() + number * self.slot_bytes);
        // SAFETY: the slot's words lie behind its first, inside of the lane, and stay mapped; atomics may be written by others
        // meanwhile.
        unsafe { std::slice::from_raw_parts(first, self.slot_bytes / WORD) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bar::Bar;

    const SMALL: Layout = Layout { queues: 2, entries: 8, longest: 1514, timed: true };

    fn again(memory: &Memory) -> OwnedFd {
        memory.as_fd().try_clone_to_owned().unwrap()
    }

    #[test]
    fn lines_reach_only_the_other_side() {
        let one = Memory::create(&SMALL).unwrap();
        let other = Memory::open(again(&one)).unwrap();
        assert_eq!(other.layout(), &SMALL);
        let mut line = [0; LINE];
        for queue in 0..2 {
            for (from, from_side, to, to_side) in
                [(&one, Side::Creator, &other, Side::Opener), (&other, Side::Opener, &one, Side::Creator)]
            {
                let [sends, _] = from.lanes(from_side, queue);
                let mark = 1 + queue as u8 + if from_side == Side::Opener { 10 } else { 0 };
                for index in 0..8 {
                    sends.bar().write_line(index, &[mark; LINE]);
                    sends.set_deadline(index as u32, mark.into());
                    sends.write_slot(index as u32, &[mark; 1514]);
                }
                assert!(!sends.armed().disarm());
                let [_, receives] = to.lanes(to_side, queue);
                receives.armed().arm();
                assert!(sends.armed().disarm() && !sends.armed().disarm());
                assert!(!receives.is_closed());
                sends.close();
                assert!(receives.is_closed());
            }
        }
        for queue in 0..2 {
            for (memory, side, mark) in [(&one, Side::Creator, 11), (&other, Side::Opener, 1)] {
                let [sends, receives] = memory.lanes(side, queue);
                let mark = mark + queue as u8;
                for index in 0..8 {
                    receives.bar().read_line(index, &mut line);
                    assert_eq!(line, [mark; LINE]);
                    assert_eq!(receives.deadline(index as u32 + 8), u64::from(mark));
                    let mut slot = [0; 1600];
                    receives.read_slot(index as u32 + 8, &mut slot);
                    assert_eq!((slot[0], slot[1513], slot[1514]), (mark, mark, 0));
                }
                assert_eq!(sends.bar().read_u32(sends.credit_line() * LINE), 0);
            }
        }
    }

    #[test]
    fn slots_hold_every_length() {
        let memory = Memory::create(&Layout { queues: 1, entries: 4, longest: 9_000, timed: false }).unwrap();
        let [lane, _] = memory.lanes(Side::Creator, 0);
        let sent: Vec<u8> = (0..9_100).map(|at| (at * 7 + at / 256) as u8).collect();
        for length in (0..200).chain(8_990..=9_000) {
            lane.write_slot(length as u32, &sent[..length]);
            let mut got = vec![0xaa; length];
            lane.read_slot(length as u32, &mut got);
            assert_eq!(got, sent[..length]);
        }
        lane.write_slot(3, &sent);
        let mut got = vec![0xaa; 9_100];
        lane.read_slot(3, &mut got);
        assert_eq!((&got[..9_000], &got[9_000..]), (&sent[..9_000], &[0xaa; 100][..]));
    }

    #[test]
    fn sizes_are_checked() {
        for (queues, entries, longest) in [
            (0, 8, 60),
            (65, 8, 60),
            (1, 0, 60),
            (1, 2, 60),
            (1, 12, 60),
            (1, 1 << 15, 60),
            (1, 8, 59),
            (1, 8, 9_001),
            (64, 16_384, 9_000),
        ] {
            let error = Memory::create(&Layout { queues, entries, longest, timed: false }).unwrap_err();
            assert!(matches!(error, MemoryError::Layout(_)), "{queues} {entries} {longest}: {error}");
        }
        let error = Memory::create(&Layout { queues: 0, entries: 8, longest: 60, timed: false }).unwrap_err().to_string();
        assert!(error.ends_with("not 0, 8 and 60"), "{error}");
    }

    /// A sealed memfd with a given header and length.
    fn forged(header: &[u64], length: u64, seals: SealFlags) -> OwnedFd {
        let fd = memfd_create("forged", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, length).unwrap();
        let file = File::from(fd);
        file.write_all_at(&header.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>(), 0).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file.into()
    }

    #[test]
    fn foreign_unsealed_and_inconsistent_memory_is_refused_in_words() {
        let (header, length) = (SMALL.header(), SMALL.bytes().unwrap() as u64);
        assert!(Memory::open(forged(&header, length, SEALS)).is_ok());
        let refusal = |fd: OwnedFd| Memory::open(fd).unwrap_err().to_string();
        for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
            assert!(refusal(forged(&header, length, SEALS.difference(missing))).contains("sealed against"));
        }
        assert!(refusal(std::io::pipe().unwrap().0.into()).contains("sealed against"));
        assert!(refusal(tempfile::tempfile().unwrap().into()).contains("sealed against"));
        assert!(refusal(forged(&[1, 2, 3], length, SEALS)).contains("not the shared memory"));
        assert!(refusal(forged(&header, 4095, SEALS)).contains("not the shared memory"));
        assert!(refusal(forged(&[MAGIC, 2], length, SEALS)).contains("has version 2, this one's has 1"));
        assert!(refusal(forged(&header, length - 1, SEALS)).contains("does not have the layout"));
        assert!(refusal(forged(&header, length + 4096, SEALS)).contains("does not have the layout"));
        for (at, value) in [(2, 0), (2, u64::MAX), (2, 2 | 1 << 32), (3, 12), (3, 0), (3, 1 << 63), (4, 0), (4, 1 << 40), (5, 2)]
        {
            let mut header = header;
            header[at] = value;
            assert!(refusal(forged(&header, length, SEALS)).contains("does not have the layout"), "{at} {value}");
        }
    }

    #[test]
    fn the_size_is_sealed() {
        let memory = Memory::create(&SMALL).unwrap();
        for size in [0, 4096, 1 << 24] {
            assert_eq!(ftruncate(&memory.fd, size), Err(rustix::io::Errno::PERM));
        }
    }
}
