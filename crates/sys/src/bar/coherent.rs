//! Lines in memory kept coherent by both sides' caches: ordered plain stores, plain loads.
//!
//! ```text
//!   word 0 ┌ header 4 │ bytes 4 to 7 ┐   stored last (release), loaded first (acquire) and once more at the end
//!   word 1 │ bytes 8 to 15           │
//!    …     │ …                       │   stored before, loaded between
//!   word 7 └ bytes 56 to 63 ─────────┘
//! ```
//! A reader that sees a line's header sees the bytes written with it. The other side may be hostile: every word is an atomic and
//! is read once into the caller's copy, and a line whose header changes during the copy counts as absent. A peer that changes
//! bytes but not the header garbles only its own data.

use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{Bar, LINE, header};

/// Words of a line.
const WORDS: usize = LINE / size_of::<u64>();

/// A line in shared memory; every content is valid.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Line([AtomicU64; WORDS]);

/// The lines of one direction between two ports.
#[derive(Debug)]
pub struct CoherentBar {
    lines: NonNull<Line>,
    count: usize,
    /// Keeps the lines mapped.
    _memory: Arc<dyn Debug + Send + Sync>,
}

// SAFETY: the mapping belongs to the process, lives as long as `_memory`, and all of its content is atomics.
unsafe impl Send for CoherentBar {}

impl CoherentBar {
    /// A BAR of `count` lines, starting at `lines`.
    ///
    /// # Safety
    /// The lines must lie inside a mapping that lives as long as `memory`.
    pub(crate) unsafe fn new(lines: NonNull<Line>, count: usize, memory: Arc<dyn Debug + Send + Sync>) -> CoherentBar {
        CoherentBar { lines, count, _memory: memory }
    }

    #[inline(always)]
    fn words(&self, line: usize) -> &[AtomicU64; WORDS] {
        assert!(line < self.count, "no line {line}: there are {}", self.count);
        // SAFETY: new()'s caller gave `count` lines, which stay mapped; atomics may be written by others meanwhile.
        unsafe { &self.lines.add(line).as_ref().0 }
    }
}

impl Bar for CoherentBar {
    #[inline(always)]
    fn write_line(&self, line: usize, bytes: &[u8; LINE]) {
        write(self.words(line), bytes);
    }

    #[inline(always)]
    fn flush(&self) {
        // Stores to coherent memory become visible by themselves, in order.
    }

    #[inline(always)]
    fn read_line(&self, line: usize, into: &mut [u8; LINE]) {
        read(self.words(line), into);
    }

    #[inline(always)]
    fn read_u32(&self, offset: usize) -> u32 {
        assert!(offset.is_multiple_of(size_of::<u32>()), "offset {offset} is no multiple of 4");
        let word = self.words(offset / LINE)[offset % LINE / size_of::<u64>()].load(Ordering::Acquire);
        (word >> (offset % size_of::<u64>() * 8)) as u32
    }

    #[inline(always)]
    fn will_write(&self, line: usize) {
        own(self.words(line));
    }

    #[inline(always)]
    fn will_read(&self, line: usize) {
        share(self.words(line));
    }

    #[inline(always)]
    fn poll_line(&self, line: usize, ready: impl Fn(u32) -> bool, into: &mut [u8; LINE]) -> bool {
        poll(self.words(line), ready, into)
    }
}

/// Requests a cache line for writing (Intel SDM vol. 2, PREFETCHW). A hint: nothing depends on it.
#[inline(always)]
pub(crate) fn own(line: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch changes neither memory nor registers nor flags, whatever the address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line.as_ptr(), options(nostack, preserves_flags));
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = line;
}

/// Requests a cache line for reading (PREFETCHT0).
#[inline(always)]
fn share(line: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as in own().
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) line.as_ptr(), options(nostack, preserves_flags));
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = line;
}

/// Moves a modified cache line to the cache shared by all cores (CLDEMOTE; does nothing on a CPU without it).
#[inline(always)]
pub(crate) fn demote(line: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as in own().
    unsafe {
        std::arch::asm!("cldemote [{}]", in(reg) line.as_ptr(), options(nostack, preserves_flags));
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = line;
}

/// The operations on atomic words used here; loom's atomics have them too.
trait Word {
    fn read(&self, order: Ordering) -> u64;
    fn write(&self, value: u64, order: Ordering);
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn read(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline(always)]
    fn write(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

/// Shifts and words, not slices of bytes: data stored as words is loaded as words, so that the CPU can forward it.
#[inline(always)]
fn word(bytes: &[u8; LINE], at: usize) -> u64 {
    let mut word = [0; size_of::<u64>()];
    word.copy_from_slice(&bytes[at * size_of::<u64>()..(at + 1) * size_of::<u64>()]);
    u64::from_le_bytes(word)
}

#[inline(always)]
fn set(bytes: &mut [u8; LINE], at: usize, word: u64) {
    bytes[at * size_of::<u64>()..(at + 1) * size_of::<u64>()].copy_from_slice(&word.to_le_bytes());
}

#[inline(always)]
fn write<W: Word>(words: &[W; WORDS], bytes: &[u8; LINE]) {
    for (at, to) in words.iter().enumerate().skip(1) {
        to.write(word(bytes, at), Ordering::Relaxed);
    }
    words[0].write(word(bytes, 0), Ordering::Release);
}

/// Returns the first word as read before the others.
#[inline(always)]
fn read<W: Word>(words: &[W; WORDS], into: &mut [u8; LINE]) -> u64 {
    let first = words[0].read(Ordering::Acquire);
    set(into, 0, first);
    for (at, from) in words.iter().enumerate().skip(1) {
        set(into, at, from.read(Ordering::Relaxed));
    }
    first
}

#[inline(always)]
fn poll<W: Word>(words: &[W; WORDS], ready: impl Fn(u32) -> bool, into: &mut [u8; LINE]) -> bool {
    if !ready(words[0].read(Ordering::Acquire) as u32) {
        return false;
    }
    let first = read(words, into);
    // Separates the bytes from the second look at the header.
    fence(Ordering::Acquire);
    words[0].read(Ordering::Relaxed) == first && ready(header(into))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Word for loom::sync::atomic::AtomicU64 {
        fn read(&self, order: Ordering) -> u64 {
            self.load(order)
        }

        fn write(&self, value: u64, order: Ordering) {
            self.store(value, order);
        }
    }

    fn bytes(number: u8) -> [u8; LINE] {
        let mut bytes = [number; LINE];
        bytes[1..4].fill(0);
        bytes
    }

    #[test]
    fn words_and_bytes_are_in_the_same_place() {
        let words: [AtomicU64; WORDS] = Default::default();
        let sent: [u8; LINE] = std::array::from_fn(|at| at as u8 + 1);
        write(&words, &sent);
        assert_eq!(words[0].load(Ordering::Relaxed).to_le_bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
        let mut got = [0; LINE];
        assert!(!poll(&words, |header| header == 1, &mut got));
        assert!(poll(&words, |header| header == 0x0403_0201, &mut got));
        assert_eq!(got, sent);
    }

    /// The product's own functions: a reader that sees a header sees the bytes of that line, in every order the memory model
    /// allows. Three words of the eight are enough for loom to reorder, and as many as it can explore in a test's time.
    #[test]
    fn a_header_that_is_seen_brings_its_bytes() {
        loom::model(|| {
            let words: [loom::sync::atomic::AtomicU64; WORDS] = std::array::from_fn(|_| loom::sync::atomic::AtomicU64::new(0));
            let words = loom::sync::Arc::new(words);
            let other = words.clone();
            let sender = loom::thread::spawn(move || write(&other, &bytes(1)));
            let mut got = [0; LINE];
            if poll(&words, |header| header == 1, &mut got) {
                assert_eq!(got, bytes(1));
            }
            sender.join().unwrap();
            assert!(poll(&words, |header| header == 1, &mut got) && got == bytes(1));
        });
    }
}
