//! The memory that a ring shares with the kernel: its buffers, and the ring in which it provides some of them.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munlock, munmap};

/// Buffers begin on cache lines of their own.
const LINE: usize = 64;

/// A mapping. Once it is leaked, its addresses stay mapped for ever, so that a late request of the kernel hits nothing else; its
/// pages go all the same.
struct Mapping {
    begin: NonNull<u8>,
    bytes: usize,
    leaked: bool,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Mapping> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let begin = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }?;
        let begin = NonNull::new(begin.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { begin, bytes, leaked: false })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (begin, bytes) = (self.begin.as_ptr().cast(), self.bytes);
        // SAFETY: this mapping is this value's own, and nothing borrows from it any more. An error would leave it as it is.
        unsafe {
            let _ = if self.leaked {
                // Locked pages (mlockall(2)) would stay.
                munlock(begin, bytes).and_then(|()| madvise(begin, bytes, Advice::LinuxDontNeed))
            } else {
                munmap(begin, bytes)
            };
        }
    }
}

/// Receive buffers, then send buffers; each is the program's, or lent to the kernel.
pub(super) struct Memory {
    mapping: Mapping,
    receives: u32,
    receive_bytes: usize,
    send_bytes: usize,
    lent: Vec<bool>,
    /// Send buffers that neither the program nor a request uses.
    free: Vec<u32>,
}

impl Memory {
    pub(super) fn new(receives: u32, receive_bytes: usize, sends: u32, send_bytes: usize) -> io::Result<Memory> {
        let [receive_bytes, send_bytes] = [receive_bytes, send_bytes].map(|bytes| bytes.max(1).next_multiple_of(LINE));
        let bytes = (receives as usize).checked_mul(receive_bytes).zip((sends as usize).checked_mul(send_bytes));
        let bytes = bytes.and_then(|(a, b)| a.checked_add(b)).filter(|bytes| *bytes > 0).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory {
            mapping: Mapping::new(bytes)?,
            receives,
            receive_bytes,
            send_bytes,
            lent: vec![false; (receives + sends) as usize],
            free: (receives..receives + sends).rev().collect(),
        })
    }

    /// The whole area, to register.
    pub(super) fn all(&self) -> libc::iovec {
        libc::iovec { iov_base: self.mapping.begin.as_ptr().cast(), iov_len: self.mapping.bytes }
    }

    /// Offset and length of a buffer, which lies within the mapping.
    #[inline(always)]
    fn place(&self, buffer: u32) -> (usize, usize) {
        match buffer.checked_sub(self.receives) {
            None => (buffer as usize * self.receive_bytes, self.receive_bytes),
            Some(send) => (self.receives as usize * self.receive_bytes + send as usize * self.send_bytes, self.send_bytes),
        }
    }

    #[inline(always)]
    pub(super) fn bytes(&self, buffer: u32) -> &[u8] {
        assert!(!self.lent[buffer as usize], "a request has this buffer");
        let (at, len) = self.place(buffer);
        // SAFETY: `lent` has an entry for it, so it lies in the mapping; no request has it, and it is borrowed as this value is.
        unsafe { std::slice::from_raw_parts(self.mapping.begin.as_ptr().add(at), len) }
    }

    /// The bytes of a send buffer: requests only read it.
    pub(super) fn sent(&self, buffer: u32) -> &[u8] {
        assert!(buffer >= self.receives && (buffer as usize) < self.lent.len(), "not a send buffer");
        let (at, len) = self.place(buffer);
        // SAFETY: it lies in the mapping, neither the kernel nor, while this value is borrowed, the program writes to it.
        unsafe { std::slice::from_raw_parts(self.mapping.begin.as_ptr().add(at), len) }
    }

    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, buffer: u32) -> &mut [u8] {
        assert!(!self.lent[buffer as usize], "a request has this buffer");
        let (at, len) = self.place(buffer);
        // SAFETY: as in `bytes`, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.begin.as_ptr().add(at), len) }
    }

    #[inline(always)]
    pub(super) fn copy(&mut self, from: u32, range: Range<usize>, to: u32) {
        let source = self.bytes(from)[range.clone()].as_ptr();
        let target = self.bytes_mut(to)[..range.len()].as_mut_ptr();
        assert!(from != to, "a copy to itself");
        // SAFETY: both ranges were checked, and different buffers do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(source, target, range.len()) };
    }

    /// Lends bytes `from..to` of a buffer to a request.
    #[inline(always)]
    pub(super) fn lend(&mut self, buffer: u32, from: usize, to: usize) -> (*mut u8, u32) {
        let (at, len) = self.place(buffer);
        let lent = &mut self.lent[buffer as usize];
        assert!(!*lent && from <= to && to <= len, "a request has this buffer, or it is shorter");
        *lent = true;
        // SAFETY: within the buffer, which lies in the mapping.
        (unsafe { self.mapping.begin.as_ptr().add(at + from) }, (to - from) as u32)
    }

    /// Takes a buffer back from a request that is over.
    #[inline(always)]
    pub(super) fn back(&mut self, buffer: u32) {
        if let Some(lent) = self.lent.get_mut(buffer as usize).filter(|lent| **lent) {
            *lent = false;
            if buffer >= self.receives {
                self.free.push(buffer);
            }
        }
    }

    #[inline(always)]
    pub(super) fn free_send(&mut self) -> Option<u32> {
        self.free.pop()
    }

    pub(super) fn leak(&mut self) {
        self.mapping.leaked = true;
    }
}

/// The ring in which buffers are provided (io_uring_register_buf_ring(3)).
pub(super) struct Provided {
    mapping: Mapping,
    entries: u16,
    tail: u16,
}

impl Provided {
    /// `entries` is a power of two, at most 32,768.
    pub(super) fn new(entries: u32) -> io::Result<Provided> {
        let mapping = Mapping::new(entries as usize * size_of::<BufRingEntry>())?;
        Ok(Provided { mapping, entries: entries as u16, tail: 0 })
    }

    pub(super) fn address(&self) -> u64 {
        self.mapping.begin.as_ptr() as u64
    }

    /// Provides a buffer.
    #[inline(always)]
    pub(super) fn add(&mut self, at: *mut u8, len: u32, buffer: u16) {
        let begin: *mut BufRingEntry = self.mapping.begin.as_ptr().cast();
        let slot = usize::from(self.tail & (self.entries - 1));
        // SAFETY: the slot lies in the mapping, which is zeroed memory of entries; the kernel reads it only below the tail. The
        // tail is a field of the first entry that an entry's own fields do not overlap, and both sides access it atomically.
        unsafe {
            let entry = &mut *begin.add(slot);
            entry.set_addr(at as u64);
            entry.set_len(len);
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(begin).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    pub(super) fn leak(&mut self) {
        self.mapping.leaked = true;
    }
}
