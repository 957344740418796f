//! Stamps of single transactions, which a worker leaves for the process that started it.
//!
//! ```text
//!     0  count        stamps ever left
//!   128  told         the thread and the sockets of the flow
//!   256  ring         the last 16,384 stamps: sequence, two moments
//! ```
//! One thread writes; whoever reads does so while that thread is known to wait, or takes what is still there.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Apart;
use super::mapped::{Atomics, Mapped};
use crate::clock::Ticks;

/// Stamps that are kept.
const KEPT: usize = 16_384;

#[repr(C)]
struct Area {
    count: Apart<AtomicU64>,
    told: Apart<[AtomicU64; 4]>,
    ring: [[AtomicU64; 3]; KEPT],
}

// SAFETY: atomics alone.
unsafe impl Atomics for Area {}

/// Two moments of a transaction on one side: of the client, its send call entered and the reply there; of the server, its receive call returned and its send
/// call entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The sequence number in the payload.
    pub sequence: u32,
    /// The first moment.
    pub first: Ticks,
    /// The second.
    pub second: Ticks,
}

/// What a tracer has to know of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The measuring thread, as gettid(2) says; 0 before it was told.
    pub thread: u32,
    /// The cookie (`SO_COOKIE`) of the socket that it sends on; 0: none.
    pub sends_on: u64,
    /// The cookie of the socket that it receives on; 0: none.
    pub receives_on: u64,
    /// The port that the flow has on this side; 0: none.
    pub port: u16,
}

/// The area of one side.
#[derive(Debug)]
pub struct Stamps(Mapped<Area>);

impl Stamps {
    /// Makes one (memfd_create(2), close-on-exec, sealed against any change of its size).
    ///
    /// # Errors
    /// Those of memfd_create(2), ftruncate(2), fcntl(2) and mmap(2).
    pub fn create() -> io::Result<Stamps> {
        Mapped::create().map(Stamps)
    }

    /// Maps the one whose [descriptor](AsFd) came here.
    ///
    /// # Errors
    /// `InvalidData` if the descriptor is none; those of fcntl(2) and mmap(2).
    pub fn open(fd: OwnedFd) -> io::Result<Stamps> {
        Mapped::open(fd).map(Stamps)
    }

    /// Leaves a stamp.
    #[inline]
    pub fn push(&self, stamp: Stamp) {
        let area = self.0.get();
        let count = area.count.0.load(Ordering::Relaxed);
        let [sequence, first, second] = &area.ring[count as usize % KEPT];
        sequence.store(stamp.sequence.into(), Ordering::Relaxed);
        first.store(stamp.first.0, Ordering::Relaxed);
        second.store(stamp.second.0, Ordering::Relaxed);
        area.count.0.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Stamps ever left.
    pub fn count(&self) -> u64 {
        self.0.get().count.0.load(Ordering::Acquire)
    }

    /// Those left since there were `count`, as far as they are still there, and how many are there now.
    pub fn since(&self, count: u64) -> (Vec<Stamp>, u64) {
        let now = self.count();
        let first = count.max(now.saturating_sub(KEPT as u64));
        let stamp = |at: u64| {
            let [sequence, first, second] = &self.0.get().ring[at as usize % KEPT];
            let moment = |word: &AtomicU64| Ticks(word.load(Ordering::Relaxed));
            Stamp { sequence: sequence.load(Ordering::Relaxed) as u32, first: moment(first), second: moment(second) }
        };
        ((first..now).map(stamp).collect(), now)
    }

    /// Tells what a tracer has to know.
    pub fn tell(&self, told: Told) {
        let [thread, sends_on, receives_on, port] = &self.0.get().told.0;
        port.store(told.port.into(), Ordering::Relaxed);
        sends_on.store(told.sends_on, Ordering::Relaxed);
        receives_on.store(told.receives_on, Ordering::Relaxed);
        thread.store(told.thread.into(), Ordering::Release);
    }

    /// What was told last.
    pub fn told(&self) -> Told {
        let [thread, sends_on, receives_on, port] = &self.0.get().told.0;
        Told {
            thread: thread.load(Ordering::Acquire) as u32,
            sends_on: sends_on.load(Ordering::Relaxed),
            receives_on: receives_on.load(Ordering::Relaxed),
            port: port.load(Ordering::Relaxed) as u16,
        }
    }
}

impl AsFd for Stamps {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_found_in_order_and_the_oldest_goes_first() {
        let writer = Stamps::create().unwrap();
        let reader = Stamps::open(writer.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let stamp = |n: u64| Stamp { sequence: n as u32, first: Ticks(2 * n), second: Ticks(2 * n + 1) };
        (0..10).for_each(|n| writer.push(stamp(n)));
        let (found, now) = reader.since(7);
        assert_eq!((found, now), ((7..10).map(stamp).collect(), 10));
        (10..20_000).for_each(|n| writer.push(stamp(n)));
        let (found, now) = reader.since(now);
        assert_eq!((found.len(), found[0], now), (KEPT, stamp(20_000 - KEPT as u64), 20_000));
        assert_eq!(reader.since(now), (Vec::new(), now));
    }

    #[test]
    fn what_is_told_arrives() {
        let writer = Stamps::create().unwrap();
        let reader = Stamps::open(writer.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(reader.told(), Told::default());
        let told = Told { thread: 4_711, sends_on: 1 << 40, receives_on: 3, port: 65_535 };
        writer.tell(told);
        assert_eq!(reader.told(), told);
    }
}
