//! Packet memory: one mapped area cut into chunks of one size, each chunk in exactly one place at a time.
//!
//! ```text
//!            take ┌────────┐ lend (the token moves into a ring)   ┌──────────────────┐
//!   free list ───▶│ Frame  │────────────────────────────────────▶│ a ring: the kernel│
//!       ▲         │ token  │◀────────────────────────────────────│ may write it      │
//!       └─────────└────────┘ redeem (after range and place checks)└──────────────────┘
//!            give
//! ```
//! Bytes can be reached only with the [`Frame`] in hand, and there is never a second one for its chunk: [`Frame`] cannot be cloned, and
//! what a ring hands back becomes one only if that chunk was lent. This holds whatever the other side writes into a ring.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Smallest chunk in bytes (kernel: `XDP_UMEM_MIN_CHUNK_SIZE`).
pub const MIN_CHUNK: usize = 2048;
/// Largest chunk in bytes; AF_XDP takes up to a page, the other back ends more.
pub const MAX_CHUNK: usize = 65_536;
/// Most bytes of one area.
const MOST_BYTES: usize = 1 << 32;

/// Why there is no packet memory.
#[derive(Debug, thiserror::Error)]
pub enum UmemError {
    /// Sizes that do not go.
    #[error(
        "packet memory takes chunks of a power of two from {MIN_CHUNK} to {MAX_CHUNK} bytes and at most 4 GiB in all, not {count} of {chunk}"
    )]
    Size {
        /// Chunks asked for.
        count: u32,
        /// Bytes of each.
        chunk: usize,
    },
    /// The kernel gave none.
    #[error("cannot map {bytes} bytes of packet memory: {source}")]
    Map {
        /// What was asked for.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The area. Reached through the frames that its [`Pool`] hands out.
#[derive(Debug)]
pub struct Umem {
    area: NonNull<u8>,
    bytes: usize,
    chunk: usize,
    /// log2 of `chunk`: a frame's place costs a shift, not a division.
    shift: u32,
    id: u32,
}

// SAFETY: the area is plain memory of this process; every access goes through a Frame, of which there is one per chunk at most.
unsafe impl Send for Umem {}
// SAFETY: as above: two threads hold frames of different chunks, so they never touch the same bytes.
unsafe impl Sync for Umem {}

/// The right to one chunk: which bytes of it are the frame. Give it back to its [`Pool`] or move it into a ring; one that is dropped takes
/// its chunk out of use until the memory goes, which is safe and a waste.
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
    /// Bytes of the frame.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes that the frame can have where it begins now.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        (self.size - self.start) as usize
    }

    /// Sets the frame's length in bytes; longer than [`Frame::capacity`] is cut to it.
    #[inline(always)]
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity()) as u32;
    }

    /// Moves the frame's begin to the chunk's and empties it.
    #[inline(always)]
    pub fn clear(&mut self) {
        (self.start, self.len) = (0, 0);
    }
}

impl Umem {
    /// Bytes of each chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk
    }

    /// Bytes of the whole area.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Address of the area, for registering it with the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.area.as_ptr() as u64
    }

    /// The frame's bytes.
    ///
    /// # Panics
    /// If the frame is of another area: a mistake of the program.
    #[inline(always)]
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        let at = self.offset(frame);
        // SAFETY: offset() has checked that start and len lie in this area; the one Frame of this chunk is borrowed for as long as the slice.
        unsafe { std::slice::from_raw_parts(self.area.as_ptr().add(at), frame.len as usize) }
    }

    /// The frame's bytes, to write.
    ///
    /// # Panics
    /// If the frame is of another area: a mistake of the program.
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

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: mapped in Pool::new with this length; no Frame gives access without a reference to this Umem.
        let _ = unsafe { munmap(self.area.as_ptr().cast(), self.bytes) };
    }
}

/// The chunks of one area: hands out frames, and keeps which of them are lent to a ring. Owned by one queue pair.
#[derive(Debug)]
pub struct Pool {
    umem: Arc<Umem>,
    free: Vec<u32>,
    lent: Vec<bool>,
}

impl Pool {
    /// Maps `count` chunks of `chunk` bytes, touched so that no page fault comes later.
    pub fn new(count: u32, chunk: usize) -> Result<Pool, UmemError> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let bytes = (count as usize).checked_mul(chunk).filter(|bytes| (1..=MOST_BYTES).contains(bytes));
        let (true, Some(bytes)) = (chunk.is_power_of_two() && (MIN_CHUNK..=MAX_CHUNK).contains(&chunk), bytes) else {
            return Err(UmemError::Size { count, chunk });
        };
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let area = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )
        };
        let area = area.map_err(|errno| UmemError::Map { bytes, source: errno.into() })?;
        let area =
            NonNull::new(area.cast::<u8>()).ok_or_else(|| UmemError::Map { bytes, source: io::Error::other("no address") })?;
        let umem = Umem { area, bytes, chunk, shift: chunk.trailing_zeros(), id: NEXT.fetch_add(1, Ordering::Relaxed) };
        Ok(Pool { umem: Arc::new(umem), free: (0..count).rev().collect(), lent: vec![false; count as usize] })
    }

    /// The area.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }

    /// Chunks in all.
    pub fn chunks(&self) -> usize {
        self.lent.len()
    }

    /// Chunks that nobody has.
    #[inline(always)]
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Chunks that a ring has. Counts them: not for the hot path.
    pub fn lent(&self) -> usize {
        self.lent.iter().filter(|lent| **lent).count()
    }

    /// A frame of length 0 at the begin of a free chunk; `None` if every chunk is in use.
    #[inline(always)]
    pub fn take(&mut self) -> Option<Frame> {
        let chunk = self.free.pop()?;
        Some(Frame { umem: self.umem.id, chunk, size: self.umem.chunk as u32, start: 0, len: 0 })
    }

    /// Takes a frame back.
    ///
    /// # Panics
    /// If it is of another area: a mistake of the program.
    #[inline(always)]
    pub fn give(&mut self, frame: Frame) {
        assert!(frame.umem == self.umem.id, "a frame of another packet memory");
        // Never more than there are chunks, and that was allocated at the start.
        self.free.push(frame.chunk);
    }

    /// Moves a frame into a ring: from here the other side may write the chunk. Returns the frame's place in the area.
    #[inline(always)]
    pub(crate) fn lend(&mut self, frame: Frame) -> u64 {
        let at = self.umem.offset(&frame);
        self.lent[frame.chunk as usize] = true;
        at as u64
    }

    /// What a ring handed back as a frame; `None` if no chunk there was lent or it does not fit, whatever the other side wrote.
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
}

#[cfg(test)]
mod tests {
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
