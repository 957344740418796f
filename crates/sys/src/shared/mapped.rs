//! One value in a sealed memory file, mapped by several processes.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Seals that keep a peer from truncating the file; reading a truncated one would end this process (SIGBUS).
pub(super) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Types allowed in the mapping.
///
/// # Safety
/// Only atomics, with an alignment of at most a page: every content is valid, and others may write it at any time.
pub(super) unsafe trait Atomics {}

/// A mapped value of type `T`; unmapped when dropped, and freed when the last process has dropped it.
pub(super) struct Mapped<T: Atomics> {
    value: NonNull<T>,
    fd: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread, and all of its content is atomics.
unsafe impl<T: Atomics> Send for Mapped<T> {}
// SAFETY: as above: shared access is through atomics only.
unsafe impl<T: Atomics> Sync for Mapped<T> {}

impl<T: Atomics> Mapped<T> {
    /// A zeroed value in a new file.
    pub(super) fn create() -> io::Result<Mapped<T>> {
        let fd = memfd_create("hairpin-shared", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, size_of::<T>() as u64)?;
        fcntl_add_seals(&fd, SEALS)?;
        Mapped::map(fd)
    }

    /// Maps a value created by another process.
    pub(super) fn open(fd: OwnedFd) -> io::Result<Mapped<T>> {
        // A file that does not support seals (a pipe, a file on disk) gives EINVAL.
        let seals = fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        let file = File::from(fd);
        if !seals.contains(SEALS) || file.metadata()?.len() != size_of::<T>() as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the descriptor is not a shared area of this version of Hairpin: start both sides from the same program",
            ));
        }
        Mapped::map(file.into())
    }

    /// Maps a file whose size is that of `T` and can no longer change, and touches its pages.
    fn map(fd: OwnedFd) -> io::Result<Mapped<T>> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                size_of::<T>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &fd,
                0,
            )?
        };
        let value = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapped { value, fd })
    }

    #[inline]
    pub(super) fn get(&self) -> &T {
        // SAFETY: the mapping is page-aligned, as large as `T`, lives as long as `self`, and the file behind it is sealed, so it
        // stays readable. `T` is atomics alone: every content is valid, and writes by others are allowed.
        unsafe { self.value.as_ref() }
    }
}

impl<T: Atomics> fmt::Debug for Mapped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl<T: Atomics> AsFd for Mapped<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl<T: Atomics> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and size, and no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.value.as_ptr().cast(), size_of::<T>()) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
