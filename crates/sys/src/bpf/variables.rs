//! A BPF object's variables, mapped: written by its running programs, read without a system call.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The variables as words of 64 bits, in the object's layout. The programs write them on any CPU at any time, so each access is
/// atomic.
pub struct Variables {
    words: NonNull<AtomicU64>,
    len: NonZeroUsize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed through atomics only.
unsafe impl Send for Variables {}
// SAFETY: as above.
unsafe impl Sync for Variables {}

impl Variables {
    /// Maps `bytes` of the map behind `fd`, a whole number of words, and touches its pages.
    pub(super) fn map(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Variables> {
        let len = NonZeroUsize::new(bytes / size_of::<u64>()).filter(|len| len.get() * size_of::<u64>() == bytes);
        let len =
            len.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a BPF object's variables are no whole words"))?;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let address = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE, fd, 0)?
        };
        Ok(Variables { words: NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, has `len` words, and lives as long as `self`: the kernel keeps the map while it is
        // mapped. Every content is a valid atomic, and writes by the programs are allowed.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len.get()) }
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Always false: an object without variables has nothing to map.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The word at `at`.
    ///
    /// # Panics
    /// If there are fewer words.
    pub fn get(&self, at: usize) -> u64 {
        self.words()[at].load(Ordering::Acquire)
    }

    /// Sets the word at `at`.
    ///
    /// # Panics
    /// If there are fewer words.
    pub fn set(&self, at: usize, value: u64) {
        self.words()[at].store(value, Ordering::Release);
    }

    /// Sets the word at `at`, and returns what it was.
    ///
    /// # Panics
    /// If there are fewer words.
    pub fn swap(&self, at: usize, value: u64) -> u64 {
        self.words()[at].swap(value, Ordering::AcqRel)
    }

    /// Copies the words from `at` on into `into`.
    ///
    /// # Panics
    /// If there are fewer words.
    pub fn read(&self, at: usize, into: &mut [u64]) {
        let words = &self.words()[at..at + into.len()];
        for (word, into) in words.iter().zip(into) {
            *into = word.load(Ordering::Relaxed);
        }
    }

    /// Zeroes `count` words from `at` on.
    ///
    /// # Panics
    /// If there are fewer words.
    pub fn clear(&self, at: usize, count: usize) {
        self.words()[at..at + count].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variables").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for Variables {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, whose last borrow has ended. It fails only for an address that was never mapped.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), self.len.get() * size_of::<u64>()) };
    }
}
