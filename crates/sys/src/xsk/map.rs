//! The memory of one ring that a socket shares with the kernel.
//!
//! ```text
//!   │ producer index ┊ … │ consumer index ┊ flags ┊ … │ entry 0 ┊ entry 1 ┊ … │     the kernel gives the offset of each (XDP_MMAP_OFFSETS)
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

use crate::ring::after_submit;

/// One ring's memory, shared with the kernel.
#[derive(Debug)]
pub(super) struct Map<T> {
    area: NonNull<u8>,
    bytes: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
}

// SAFETY: the mapping belongs to the process; the socket that owns it is driven by one thread at a time (no method takes &self
// and writes).
unsafe impl<T> Send for Map<T> {}

impl<T: Copy> Map<T> {
    pub(super) fn new(fd: &OwnedFd, at: &XdpRingOffset, count: u32, page_offset: u64) -> io::Result<Map<T>> {
        let invalid = || io::Error::other("the kernel's ring offsets lie outside of the ring");
        let entries_at = usize::try_from(at.desc).map_err(|_| invalid())?;
        let bytes = entries_at.checked_add(count as usize * size_of::<T>()).ok_or_else(invalid)?;
        let inside = |offset: u64| usize::try_from(offset).ok().filter(|at| at % 4 == 0 && at + 4 <= bytes).ok_or_else(invalid);
        let (producer, consumer) = (inside(at.producer)?, inside(at.consumer)?);
        let flags = at.flags.map(inside).transpose()?;
        if entries_at % align_of::<T>() != 0 {
            return Err(invalid());
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let area = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                fd,
                page_offset,
            )
        }?;
        let area = NonNull::new(area.cast::<u8>()).ok_or_else(|| io::Error::other("no address"))?;
        // SAFETY: each offset was checked to lie, aligned, within the mapping's `bytes`.
        let place = |offset: usize| unsafe { area.add(offset) };
        Ok(Map {
            area,
            bytes,
            producer: place(producer).cast(),
            consumer: place(consumer).cast(),
            flags: flags.map(|at| place(at).cast()),
            entries: place(entries_at).cast(),
        })
    }

    #[inline(always)]
    pub(super) fn producer(&self) -> &AtomicU32 {
        // SAFETY: points into the mapping, which lives as long as self; the kernel accesses it atomically too.
        unsafe { self.producer.as_ref() }
    }

    #[inline(always)]
    pub(super) fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in producer().
        unsafe { self.consumer.as_ref() }
    }

    /// True if the driver sleeps and must be woken; check after submitting entries.
    #[inline(always)]
    pub(super) fn wants_waking(&self) -> bool {
        self.flags.is_none_or(|flags| {
            // SAFETY: as in producer().
            let flags = unsafe { flags.as_ref() };
            after_submit(flags) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
        })
    }

    /// The slot must come from the ring's Producer or Consumer, which have this ring's size.
    #[inline(always)]
    pub(super) fn read(&self, slot: usize) -> T {
        // SAFETY: slot < size of the ring, for which the mapping has room; the ring's protocol says that the kernel does not
        // write it now, and T is plain numbers.
        unsafe { self.entries.add(slot).read() }
    }

    #[inline(always)]
    pub(super) fn write(&mut self, slot: usize, entry: T) {
        // SAFETY: as in read().
        unsafe { self.entries.add(slot).write(entry) }
    }
}

impl<T> Drop for Map<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in new() with this length; no reference into it outlives self.
        let _ = unsafe { munmap(self.area.as_ptr().cast(), self.bytes) };
    }
}
