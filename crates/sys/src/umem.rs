//! Packet memory: one mapped area divided into chunks of one size, each chunk in exactly one place at a time.
//!
//! ```text
//!            take ┌────────┐ lend (the token moves into a ring)   ┌──────────────────┐
//!   free list ───▶│ Frame  │────────────────────────────────────▶│ a ring: the kernel│
//!       ▲         │ token  │◀────────────────────────────────────│ may write it      │
//!       └─────────└────────┘ redeem (after range and place checks)└──────────────────┘
//!            give
//! ```
//! Bytes can be reached only through a [`Frame`], and no chunk ever has a second one: [`Frame`] cannot be cloned, and an entry
//! returned by a ring becomes one only if its chunk was lent. This holds whatever the other side writes into a ring.
//!
//! A ring that accepts at most a page per entry gets a longer frame page by page (`Pool::lend_pages`); the frame is back when all
//! its pages are.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Smallest chunk in bytes (kernel: `XDP_UMEM_MIN_CHUNK_SIZE`).
pub const MIN_CHUNK: usize = 2048;
/// Largest chunk in bytes; AF_XDP accepts up to a page, the other back ends more.
pub const MAX_CHUNK: usize = 65_536;
/// Most bytes in one entry of an AF_XDP ring.
pub const PAGE: usize = 4096;
/// Most bytes of one mapping.
const MOST_BYTES: usize = 1 << 32;

// Each page of a chunk has a bit in Pool::pages.
const _: () = assert!(MAX_CHUNK / PAGE <= u16::BITS as usize);

/// Reason why there is no packet memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UmemError {
    /// Invalid sizes.
    #[error(
        "packet memory takes chunks of a power of two from {MIN_CHUNK} to {MAX_CHUNK} bytes and at most 4 GiB in all, not {count} of {chunk}"
    )]
    Size {
        /// Requested number of chunks.
        count: u32,
        /// Requested chunk size in bytes.
        chunk: usize,
    },
    /// The kernel refused the memory.
    #[error("cannot map {bytes} bytes of packet memory: {source}")]
    Map {
        /// Requested bytes.
        bytes: usize,
        /// The kernel's error.
        source: io::Error,
    },
}

/// A mapping, returned to the kernel with its last area.
#[derive(Debug)]
struct Mapping {
    begin: NonNull<u8>,
    bytes: usize,
}

/// An area of a mapping, accessed through the frames that its [`Pool`] hands out.
// On a cache line of its own: each access to a frame's bytes reads it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Umem {
    area: NonNull<u8>,
    bytes: usize,
    mapping: Arc<Mapping>,
    chunk: usize,
    /// log2 of `chunk`: computing a frame's position costs a shift, not a division.
    shift: u32,
    id: u32,
}

// SAFETY: the area is plain memory of this process; every access goes through a Frame, of which there is one per chunk at most.
unsafe impl Send for Umem {}
// SAFETY: as above: two threads hold frames of different chunks, so they never touch the same bytes.
unsafe impl Sync for Umem {}

/// The right to one chunk, and the frame's bytes in it. Return it to its [`Pool`] or move it into a ring; a dropped one takes its
/// chunk out of use until the memory is freed, which is safe but wasteful.
#[derive(Debug)]
#[must_use = "a frame that is dropped takes its chunk out of use: give it back to its pool"]
pub struct Frame {
    umem: u32,
    chunk: u32,
    size: u32,
    start: u32,
    len: u32,
}

impl Frame {
    /// Length of the frame in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Longest possible frame, in bytes, from its current start.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        (self.size - self.start) as usize
    }

    /// Sets the frame's length in bytes, limited to [`Frame::capacity`].
    #[inline(always)]
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity()) as u32;
    }

    /// Number of its chunk in the area.
    #[inline]
    pub(crate) fn chunk(&self) -> usize {
        self.chunk as usize
    }

    /// Moves the frame's start past its bytes, so that those lie in front of it.
    #[inline]
    pub(crate) fn skip(&mut self) {
        (self.start, self.len) = (self.start + self.len, 0);
    }

    /// Moves the frame's start to that of the chunk and empties the frame.
    #[inline(always)]
    pub fn clear(&mut self) {
        (self.start, self.len) = (0, 0);
    }
}

impl Umem {
    /// Size of each chunk in bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk
    }

    /// Size of the whole area in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Address and size of the whole mapping, for registering it with the kernel.
    pub(crate) fn mapping(&self) -> (u64, u64) {
        (self.mapping.begin.as_ptr() as u64, self.mapping.bytes as u64)
    }

    /// Offset of the area in its mapping.
    pub(crate) fn begins_at(&self) -> u64 {
        self.area.as_ptr() as u64 - self.mapping.begin.as_ptr() as u64
    }

    /// The bytes in front of the frame in its chunk. The frame is borrowed for as long as they are, as with
    /// [`bytes`](Umem::bytes):
    ///
    /// ```compile_fail,E0505
    /// # let mut pool = hairpin_sys::umem::Pool::new(1, 2048)?;
    /// # let umem = pool.umem().clone();
    /// # let Some(mut frame) = pool.take() else { return Ok(()) };
    /// let in_front = umem.in_front(&frame);
    /// pool.give(frame);
    /// println!("{in_front:?}");
    /// # Ok::<(), hairpin_sys::umem::UmemError>(())
    /// ```
    ///
    /// # Panics
    /// If the frame belongs to another area: a bug in the program.
    #[inline(always)]
    pub fn in_front<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        let at = self.offset(frame) - frame.start as usize;
        // SAFETY: as in bytes(): from the chunk's begin to the frame's, both in this area.
        unsafe { std::slice::from_raw_parts(self.area.as_ptr().add(at), frame.start as usize) }
    }

    /// The same for writing.
    #[inline]
    pub(crate) fn in_front_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let at = self.offset(frame) - frame.start as usize;
        // SAFETY: as in in_front(); the one Frame of this chunk is borrowed mutably, so nobody else reaches these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.area.as_ptr().add(at), frame.start as usize) }
    }

    /// Moves the frame back in its chunk where fewer than `bytes` lie in front of it; false if the chunk has no room for that.
    #[inline]
    pub(crate) fn make_room(&self, frame: &mut Frame, bytes: usize) -> bool {
        let (start, len) = (frame.start as usize, frame.len as usize);
        let missing = bytes.saturating_sub(start);
        if missing > frame.capacity() - len {
            return false;
        }
        frame.len += missing as u32;
        self.bytes_mut(frame).copy_within(..len, missing);
        (frame.start, frame.len) = (frame.start + missing as u32, len as u32);
        true
    }

    /// The frame's bytes.
    ///
    /// ```
    /// # let mut pool = hairpin_sys::umem::Pool::new(1, 2048)?;
    /// # let umem = pool.umem().clone();
    /// # let Some(mut frame) = pool.take() else { return Ok(()) };
    /// frame.set_len(8);
    /// umem.bytes_mut(&mut frame)[0] = 1;
    /// assert_eq!((umem.bytes(&frame)[0], umem.in_front(&frame).len()), (1, 0));
    /// pool.give(frame);
    /// # Ok::<(), hairpin_sys::umem::UmemError>(())
    /// ```
    ///
    /// The slice borrows the frame too, not only the area, so no one writes the bytes meanwhile: neither this program …
    ///
    /// ```compile_fail,E0502
    /// # let mut pool = hairpin_sys::umem::Pool::new(1, 2048)?;
    /// # let umem = pool.umem().clone();
    /// # let Some(mut frame) = pool.take() else { return Ok(()) };
    /// # frame.set_len(8);
    /// let shared = umem.bytes(&frame);
    /// umem.bytes_mut(&mut frame)[0] = 1;
    /// println!("{}", shared[0]);
    /// # Ok::<(), hairpin_sys::umem::UmemError>(())
    /// ```
    ///
    /// … nor the chunk's next owner, the kernel included:
    ///
    /// ```compile_fail,E0505
    /// # let mut pool = hairpin_sys::umem::Pool::new(1, 2048)?;
    /// # let umem = pool.umem().clone();
    /// # let Some(mut frame) = pool.take() else { return Ok(()) };
    /// # frame.set_len(8);
    /// let shared = umem.bytes(&frame);
    /// pool.give(frame);
    /// println!("{}", shared[0]);
    /// # Ok::<(), hairpin_sys::umem::UmemError>(())
    /// ```
    ///
    /// # Panics
    /// If the frame belongs to another area: a bug in the program.
    #[inline(always)]
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        let at = self.offset(frame);
        // SAFETY: offset() has checked that start and len lie in this area; the one Frame of this chunk is borrowed for as long
        // as the slice lives, so that nobody writes it: not through bytes_mut(), not after give(), not from a ring.
        unsafe { std::slice::from_raw_parts(self.area.as_ptr().add(at), frame.len as usize) }
    }

    /// The frame's bytes, for writing.
    ///
    /// # Panics
    /// If the frame belongs to another area: a bug in the program.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub fn bytes_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let at = self.offset(frame);
        // SAFETY: as in bytes(); the one Frame of this chunk is borrowed mutably, so nobody else reaches these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.area.as_ptr().add(at), frame.len as usize) }
    }

    #[inline(always)]
    fn offset(&self, frame: &Frame) -> usize {
        // Frames are made by the pool of one area with start + len <= size; another area may be smaller.
        assert!(frame.umem == self.id, "a frame of another packet memory");
        ((frame.chunk as usize) << self.shift) + frame.start as usize
    }
}

// SAFETY: only an address and a length; the memory is reached through the areas.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Touches the pages, so that no page fault comes later.
    fn new(bytes: usize) -> Result<Mapping, UmemError> {
        // Miri has memory, but no page faults.
        let touched = if cfg!(miri) { MapFlags::empty() } else { MapFlags::POPULATE };
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let begin = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | touched)
        };
        let begin = begin.map_err(|errno| UmemError::Map { bytes, source: errno.into() })?;
        let begin =
            NonNull::new(begin.cast::<u8>()).ok_or_else(|| UmemError::Map { bytes, source: io::Error::other("no address") })?;
        Ok(Mapping { begin, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in new() with this length; no Frame gives access without a reference to an Umem, which holds this.
        let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.bytes) };
    }
}

/// The chunks of one area: hands out frames, and tracks which are lent to a ring. Owned by one queue pair.
#[derive(Debug)]
pub struct Pool {
    umem: Arc<Umem>,
    free: Vec<u32>,
    /// True for chunks lent to a ring as a whole.
    lent: Vec<bool>,
    /// Per chunk the pages lent to a ring, if frames are lent page by page; otherwise empty.
    pages: Vec<u16>,
    /// Bytes of a chunk in front of a new frame.
    front: u32,
}

/// Result of returning a chunk that was lent page by page.
#[derive(Debug)]
pub(crate) enum Back {
    /// The last page: the frame is complete again, and empty.
    Frame(Frame),
    /// One of several pages; others are still lent.
    Page,
    /// A page that was not lent.
    Invalid,
}

impl Pool {
    /// Maps `count` chunks of `chunk` bytes, touched so that no page fault comes later.
    pub fn new(count: u32, chunk: usize) -> Result<Pool, UmemError> {
        let bytes = size(count, chunk).ok_or(UmemError::Size { count, chunk })?;
        Ok(Pool::over(&Arc::new(Mapping::new(bytes)?), 0, count, chunk))
    }

    /// Maps `count` chunks of `chunk` bytes and, directly behind them in the same mapping, `pages` chunks of a [`PAGE`].
    pub(crate) fn with_pages(count: u32, chunk: usize, pages: u32) -> Result<(Pool, Pool), UmemError> {
        let (first, second) = (size(count, chunk).filter(|_| chunk >= PAGE), size(pages, PAGE));
        let (Some(first), Some(second)) = (first, second) else { return Err(UmemError::Size { count, chunk }) };
        let mapping = Arc::new(Mapping::new(first + second)?);
        let pool = Pool { pages: vec![0; count as usize], ..Pool::over(&mapping, 0, count, chunk) };
        Ok((pool, Pool::over(&mapping, first, pages, PAGE)))
    }

    /// A pool of `count` chunks of `chunk` bytes at `begin`, which must lie inside the mapping and belong to no other pool.
    fn over(mapping: &Arc<Mapping>, begin: usize, count: u32, chunk: usize) -> Pool {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let bytes = count as usize * chunk;
        assert!(begin + bytes <= mapping.bytes, "an area lies in its mapping");
        // SAFETY: just seen to lie in the mapping.
        let area = unsafe { mapping.begin.add(begin) };
        // Reusing a number would let frames cross between areas.
        let id = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1));
        let id = id.expect("fewer than 4 billion areas in the life of a process");
        let umem = Umem { area, bytes, mapping: mapping.clone(), chunk, shift: chunk.trailing_zeros(), id };
        let (free, lent) = ((0..count).rev().collect(), vec![false; count as usize]);
        Pool { umem: Arc::new(umem), free, lent, pages: Vec::new(), front: 0 }
    }

    pub fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }

    /// The area's unique number.
    #[inline(always)]
    pub(crate) fn area(&self) -> u32 {
        self.umem.id
    }

    /// Total number of chunks.
    pub fn chunks(&self) -> usize {
        self.lent.len()
    }

    /// Number of free chunks.
    #[inline(always)]
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Number of chunks lent to a ring. Counts them: not for the hot path.
    pub fn lent(&self) -> usize {
        self.lent.iter().filter(|lent| **lent).count() + self.pages.iter().filter(|pages| **pages != 0).count()
    }

    /// An empty frame at the start of a free chunk; `None` if all chunks are in use.
    #[inline(always)]
    pub fn take(&mut self) -> Option<Frame> {
        let chunk = self.free.pop()?;
        Some(Frame { umem: self.umem.id, chunk, size: self.umem.chunk as u32, start: self.front, len: 0 })
    }

    /// Lets new frames begin `bytes`, less than a chunk has, behind their chunk's start.
    pub(crate) fn leave_in_front(&mut self, bytes: usize) {
        assert!(bytes < self.umem.chunk);
        self.front = bytes as u32;
    }

    /// Takes a frame back.
    ///
    /// # Panics
    /// If it belongs to another area: a bug in the program.
    #[inline(always)]
    pub fn give(&mut self, frame: Frame) {
        assert!(frame.umem == self.umem.id, "a frame of another packet memory");
        // Never exceeds the number of chunks, which was allocated at the start.
        self.free.push(frame.chunk);
    }

    /// Moves a frame into a ring: from here on the other side may write the chunk. Returns the frame's offset in the area.
    #[inline(always)]
    pub(crate) fn lend(&mut self, frame: Frame) -> u64 {
        let at = self.umem.offset(&frame);
        self.lent[frame.chunk as usize] = true;
        at as u64
    }

    /// Takes an entry returned by a ring as a frame; `None` if no chunk there was lent or the entry does not fit, whatever the
    /// other side wrote.
    #[inline(always)]
    pub(crate) fn redeem(&mut self, at: u64, len: u32) -> Option<Frame> {
        let size = self.umem.chunk as u64;
        let (chunk, start) = (usize::try_from(at >> self.umem.shift).ok()?, (at & (size - 1)) as u32);
        let lent = self.lent.get_mut(chunk)?;
        if !*lent || u64::from(start) + u64::from(len) > size {
            return None;
        }
        *lent = false;
        Some(Frame { umem: self.umem.id, chunk: chunk as u32, size: size as u32, start, len })
    }

    /// Number of pages that hold the frame's bytes, at least one.
    pub(crate) fn pages_of(frame: &Frame) -> u32 {
        ((frame.start as usize % PAGE + frame.len as usize).div_ceil(PAGE) as u32).max(1)
    }

    /// Moves a frame of a pool [`with_pages`](Pool::with_pages) into a ring page by page: `put` gets each part's offset in the
    /// area, its length, and whether more parts follow.
    pub(crate) fn lend_pages(&mut self, frame: Frame, mut put: impl FnMut(u64, u32, bool)) {
        let (mut at, mut left, mut pages) = (self.umem.offset(&frame), frame.len as usize, 0);
        loop {
            let part = left.min(PAGE - at % PAGE);
            left -= part;
            pages |= self.page_of(at);
            put(at as u64, part as u32, left > 0);
            at += part;
            if left == 0 {
                break;
            }
        }
        self.pages[frame.chunk as usize] = pages;
    }

    /// Takes an entry returned by a ring of a frame that was lent page by page, whatever the other side wrote.
    pub(crate) fn redeem_page(&mut self, at: u64) -> Back {
        let page = self.page_of(at as usize);
        let chunk = at >> self.umem.shift;
        let out = usize::try_from(chunk).ok().and_then(|chunk| self.pages.get_mut(chunk));
        let Some(out) = out.filter(|out| **out & page != 0) else { return Back::Invalid };
        *out &= !page;
        if *out != 0 {
            return Back::Page;
        }
        Back::Frame(Frame { umem: self.umem.id, chunk: chunk as u32, size: self.umem.chunk as u32, start: 0, len: 0 })
    }

    /// Bit of the page at `at`.
    #[inline]
    fn page_of(&self, at: usize) -> u16 {
        1 << ((at & (self.umem.chunk - 1)) / PAGE)
    }
}

/// Total bytes of `count` chunks; `None` for invalid sizes.
fn size(count: u32, chunk: usize) -> Option<usize> {
    let bytes = (count as usize).checked_mul(chunk).filter(|bytes| (1..=MOST_BYTES).contains(bytes));
    bytes.filter(|_| chunk.is_power_of_two() && (MIN_CHUNK..=MAX_CHUNK).contains(&chunk))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_chunk_is_in_one_place() {
        let mut pool = Pool::new(2, 2048).unwrap();
        let umem = pool.umem().clone();
        let mut frame = pool.take().unwrap();
        frame.set_len(3);
        umem.bytes_mut(&mut frame).copy_from_slice(b"abc");
        let other = pool.take().unwrap();
        assert!(pool.take().is_none());
        let at = pool.lend(frame);
        assert_eq!((pool.available(), pool.lent()), (0, 1));
        assert!(pool.redeem(at ^ 2048, 3).is_none(), "the other chunk is held, not lent");
        let frame = pool.redeem(at, 3).unwrap();
        assert_eq!(umem.bytes(&frame), b"abc");
        assert!(pool.redeem(at, 3).is_none(), "only once");
        pool.give(frame);
        pool.give(other);
        assert_eq!((pool.available(), pool.lent()), (2, 0));
    }

    #[test]
    fn nothing_that_a_ring_says_reaches_beyond_a_chunk() {
        let mut pool = Pool::new(4, 2048).unwrap();
        for _ in 0..4 {
            let frame = pool.take().unwrap();
            pool.lend(frame);
        }
        for (at, len) in [(u64::MAX, 1), (4 * 2048, 1), (0, 2049), (2047, 2), (1, u32::MAX), (u64::MAX - 2047, 0)] {
            assert!(pool.redeem(at, len).is_none(), "{at} {len}");
        }
        assert_eq!(pool.redeem(2047, 1).unwrap().len(), 1);
        assert_eq!(pool.redeem(2048 + 300, 1500).unwrap().capacity(), 2048 - 300);
    }

    #[test]
    fn a_long_frame_is_lent_page_by_page_and_is_back_with_the_last_one() {
        let (mut pool, pages) = Pool::with_pages(2, 16_384, 3).unwrap();
        assert_eq!((pool.umem().begins_at(), pages.umem().begins_at()), (0, 32_768));
        assert_eq!((pool.umem().mapping().1, pages.umem().mapping()), (32_768 + 3 * 4096, pool.umem().mapping()));
        let held = pool.take().unwrap();
        let mut frame = pool.take().unwrap();
        frame.set_len(9000);
        assert_eq!(Pool::pages_of(&frame), 3);
        let mut parts = Vec::new();
        pool.lend_pages(frame, |at, len, more| parts.push((at, len, more)));
        assert_eq!(parts, [(16_384, 4096, true), (20_480, 4096, true), (24_576, 808, false)]);
        for never_lent in [0, 28_672, 32_768, u64::MAX] {
            assert!(matches!(pool.redeem_page(never_lent), Back::Invalid), "{never_lent}");
        }
        assert!(matches!(pool.redeem_page(20_480), Back::Page));
        assert!(matches!(pool.redeem_page(20_480), Back::Invalid), "only once");
        assert!(matches!(pool.redeem_page(24_576), Back::Page));
        let Back::Frame(mut frame) = pool.redeem_page(16_384) else { panic!("all three are back") };
        assert_eq!((frame.len(), frame.capacity(), pool.lent()), (0, 16_384, 0));
        frame.set_len(0);
        parts.clear();
        pool.lend_pages(frame, |at, len, more| parts.push((at, len, more)));
        assert_eq!(parts, [(16_384, 0, false)], "an empty frame is an entry too");
        pool.give(held);
    }

    proptest! {
        /// Whatever a ring returns in whatever order: a frame is complete only when each of its pages has returned, and each page
        /// returns once.
        #[test]
        fn pages_come_back_once_each(
            lens in prop::collection::vec(0_usize..=16_384, 3),
            handed in prop::collection::vec((0_u64..16, 0_u64..4096), 0..60),
        ) {
            let (mut pool, _) = Pool::with_pages(4, 16_384, 1).unwrap();
            let mut out = std::collections::BTreeSet::new();
            for len in &lens {
                let mut frame = pool.take().unwrap();
                frame.set_len(*len);
                let (mut parts, expected) = (0, Pool::pages_of(&frame));
                pool.lend_pages(frame, |at, _, _| {
                    out.insert(at / 4096);
                    parts += 1;
                });
                prop_assert_eq!(parts, expected);
            }
            for (page, within) in handed {
                let was_out = out.remove(&page);
                match pool.redeem_page(page * 4096 + within) {
                    Back::Invalid => prop_assert!(!was_out),
                    Back::Page => prop_assert!(was_out && out.iter().any(|other| other / 4 == page / 4)),
                    Back::Frame(frame) => {
                        prop_assert!(was_out && !out.iter().any(|other| other / 4 == page / 4));
                        pool.give(frame);
                    }
                }
            }
            let chunks_out: std::collections::BTreeSet<_> = out.iter().map(|page| page / 4).collect();
            prop_assert_eq!((pool.lent(), pool.available()), (chunks_out.len(), 4 - chunks_out.len()));
        }
    }

    #[test]
    fn headroom_belongs_to_the_frames_chunk() {
        let mut pool = Pool::new(2, 2048).unwrap();
        let umem = pool.umem().clone();
        let held = pool.take().unwrap();
        let mut frame = pool.take().unwrap();
        frame.set_len(256);
        umem.bytes_mut(&mut frame).fill(7);
        let at = pool.lend(frame);
        let frame = pool.redeem(at + 256, 60).unwrap();
        assert_eq!((umem.in_front(&frame), umem.in_front(&held).len()), (&[7; 256][..], 0));
    }

    #[test]
    fn room_in_front_is_left_or_made() {
        let mut pool = Pool::new(1, 2048).unwrap();
        pool.leave_in_front(24);
        let umem = pool.umem().clone();
        let mut frame = pool.take().unwrap();
        assert_eq!((umem.in_front(&frame).len(), frame.capacity()), (24, 2024));
        umem.in_front_mut(&mut frame).fill(9);
        frame.set_len(3);
        umem.bytes_mut(&mut frame).copy_from_slice(b"abc");
        assert!(umem.make_room(&mut frame, 24));
        assert_eq!((umem.bytes(&frame), umem.in_front(&frame)), (&b"abc"[..], &[9; 24][..]), "nothing to do");
        assert!(umem.make_room(&mut frame, 100));
        assert_eq!((umem.bytes(&frame), umem.in_front(&frame).len()), (&b"abc"[..], 100));
        frame.clear();
        frame.set_len(2020);
        umem.bytes_mut(&mut frame).fill(7);
        assert!(!umem.make_room(&mut frame, 29) && umem.make_room(&mut frame, 28));
        assert_eq!((umem.bytes(&frame), frame.capacity()), (&[7; 2020][..], 2020));
        pool.give(frame);
    }

    #[test]
    fn lengths_are_cut_to_the_chunk() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut frame = pool.take().unwrap();
        frame.set_len(usize::MAX);
        assert_eq!((frame.len(), frame.capacity()), (2048, 2048));
        pool.give(frame);
    }

    #[test]
    #[should_panic(expected = "another packet memory")]
    fn frames_do_not_cross() {
        let (mut one, mut other) = (Pool::new(1, 2048).unwrap(), Pool::new(1, 2048).unwrap());
        let frame = one.take().unwrap();
        other.give(frame);
    }

    #[test]
    fn sizes_are_checked() {
        for (count, chunk) in [(0, 2048), (1, 1024), (1, 3000), (1, 131_072), (u32::MAX, 65_536)] {
            assert!(matches!(Pool::new(count, chunk), Err(UmemError::Size { .. })), "{count} {chunk}");
        }
    }
}
