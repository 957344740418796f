//! Memory shared by two worker processes: only atomics, each group on its own cache lines.
//!
//! ```text
//!     0  stop        the orchestrator asks both sides to end, or to stand still for a while
//!   128  ball        core ping: the line that the two cores pass to and fro      (core_ping)
//!   256  ended       core ping: the last ping that is over
//!   384  line        the `memory` path: 8 bytes of sequence, 56 of payload       (line)
//!   448  …           the rest of a payload of up to 64 KiB
//!   then stalls      how often each side's core was seen to stand still, on lines of their own
//! ```
//! Memory that another process can write is never exposed as `&[u8]`: it is copied word by word through atomics, so a hostile or
//! crashed peer can corrupt a message but not this process. Groups lie 128 bytes apart, because CPUs prefetch adjacent lines in
//! pairs.

mod core_ping;
mod line;
mod mapped;
mod stamps;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use line::{Direction, Line};
use mapped::{Atomics, Mapped};
pub use stamps::{Announced, Packet, Stamp, Stamps, Which};

/// The orchestrator's request in `stop`: go on …
const GO: u32 = 0;
/// … end …
const STOP: u32 = 1;
/// … or stand still.
const PAUSE: u32 = 2;

/// One value on its own cache lines.
#[repr(C, align(128))]
struct Apart<T>(T);

/// Layout of the memory; every bit pattern is valid.
#[repr(C)]
struct Area {
    stop: Apart<AtomicU32>,
    ball: Apart<AtomicU64>,
    ended: Apart<AtomicU32>,
    line: Apart<Line>,
    stalls: [Apart<AtomicU64>; 2],
}

// SAFETY: atomics alone.
unsafe impl Atomics for Area {}

/// A mapped shared area; unmapped when dropped, and freed when the last process has dropped it.
#[derive(Debug)]
pub struct Shared(Mapped<Area>);

impl Shared {
    /// Creates a zeroed area (memfd_create(2), close-on-exec, sealed against changes of its size).
    ///
    /// # Errors
    /// The errors of memfd_create(2), ftruncate(2), fcntl(2) and mmap(2).
    pub fn create() -> io::Result<Shared> {
        Mapped::create().map(Shared)
    }

    /// Maps the area created by another process, from its [descriptor](AsFd).
    ///
    /// # Errors
    /// `InvalidData` if the file does not have the size of an area or could still change it; those of fcntl(2) and mmap(2).
    pub fn open(fd: OwnedFd) -> io::Result<Shared> {
        Mapped::open(fd).map(Shared)
    }

    #[inline]
    fn area(&self) -> &Area {
        self.0.get()
    }

    /// Asks every process that shares the area to stop.
    pub fn request_stop(&self) {
        self.area().stop.0.store(STOP, Ordering::Release);
    }

    /// Clears the request, before the next run over the same area.
    pub fn clear_stop(&self) {
        self.area().stop.0.store(GO, Ordering::Release);
    }

    /// Asks every process that shares the area to stand still, or to go on. A stop that was requested stays in force.
    pub fn request_pause(&self, pause: bool) {
        let (from, to) = if pause { (GO, PAUSE) } else { (PAUSE, GO) };
        let _ = self.area().stop.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }

    /// True if a pause was requested.
    pub fn pause_requested(&self) -> bool {
        self.area().stop.0.load(Ordering::Acquire) == PAUSE
    }

    /// True if a stop was requested.
    #[inline]
    pub fn stop_requested(&self) -> bool {
        self.area().stop.0.load(Ordering::Acquire) == STOP
    }

    /// Counts a stall of the core of side 0 or 1.
    pub fn note_stall(&self, side: usize) {
        self.area().stalls[side & 1].0.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of stalls of each side's core.
    #[inline]
    pub fn stalls(&self) -> u64 {
        let [one, other] = &self.area().stalls;
        one.0.load(Ordering::Relaxed).wrapping_add(other.0.load(Ordering::Relaxed))
    }

    /// The message line of the `memory` path.
    #[inline]
    pub fn line(&self) -> &Line {
        &self.area().line.0
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::mapped::SEALS;
    use super::*;

    #[test]
    fn each_part_has_lines_of_its_own() {
        let offsets = [offset_of!(Area, stop), offset_of!(Area, ball), offset_of!(Area, ended), offset_of!(Area, line)];
        assert_eq!(offsets, [0, 128, 256, 384]);
    }

    #[test]
    fn mappings_share_flags() {
        let one = Shared::create().unwrap();
        let other = Shared::open(one.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert!(!other.stop_requested());
        one.request_stop();
        assert!(other.stop_requested());
        // A pause does not replace a requested stop, and the end of a pause does not clear one.
        one.request_pause(true);
        assert!(other.stop_requested() && !other.pause_requested());
        one.clear_stop();
        one.request_pause(true);
        assert!(other.pause_requested() && !other.stop_requested());
        one.request_pause(false);
        assert!(!other.pause_requested());
        one.request_pause(true);
        one.request_stop();
        one.request_pause(false);
        drop(one);
        assert!(other.stop_requested());
    }

    #[test]
    fn stalls_of_both_sides_add_up() {
        let shared = Shared::create().unwrap();
        (0..3).for_each(|_| shared.note_stall(0));
        shared.note_stall(1);
        assert_eq!(shared.stalls(), 4);
    }

    #[test]
    fn the_size_is_sealed() {
        let shared = Shared::create().unwrap();
        for size in [0, 4096, 1 << 20] {
            assert_eq!(ftruncate(&shared, size), Err(rustix::io::Errno::PERM));
        }
    }

    #[test]
    fn a_descriptor_that_is_not_an_area_is_refused() {
        let unsealed = memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, size_of::<Area>() as u64).unwrap();
        let short = memfd_create("short", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&short, SEALS).unwrap();
        let pipe = std::io::pipe().unwrap().0;
        for fd in [unsealed, short, pipe.into(), tempfile::tempfile().unwrap().into()] {
            assert_eq!(Shared::open(fd).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
