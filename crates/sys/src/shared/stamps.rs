//! Stamps of single transactions, which a worker leaves for the process that started it.
//!
//! ```text
//!     0  count        stamps ever left
//!   128  told         the thread and the sockets of the flow
//!   256  wanted       the reader wants stamps of packets and frames too
//!   384  packets      how many of those were ever left
//!   512  ring         the last 16,384 stamps: sequence, two moments
//!   then the last 65,536 stamps of packets: which one, when
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
/// The same of packets: three for each message that is sent and received.
const PACKETS: usize = 65_536;

#[repr(C)]
struct Area {
    count: Apart<AtomicU64>,
    told: Apart<[AtomicU64; 4]>,
    wanted: Apart<AtomicU64>,
    packets: Apart<AtomicU64>,
    ring: [[AtomicU64; 3]; KEPT],
    packet_ring: [[AtomicU64; 2]; PACKETS],
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

/// A stamp of a packet on its way through the kernel, or of a frame on its way through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Which stamp.
    pub which: Which,
    /// When: CLOCK_REALTIME in ns where the kernel took it, ticks of the program's clock where the library of the rings did.
    pub at: u64,
}

/// Where a stamp is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// By the kernel: it enters the device's queue.
    Scheduled,
    /// By the kernel: the driver has it.
    Driver,
    /// By the kernel: the receiver's stack has it.
    Came,
    /// By the library: it lies in the TX ring, and whoever takes it from there is told.
    Kicked,
    /// By the library: its descriptor was found in the RX ring.
    Seen,
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

    /// Asks for stamps of packets and frames, or no longer.
    pub fn want_packets(&self, wanted: bool) {
        self.0.get().wanted.0.store(wanted.into(), Ordering::Release);
    }

    /// Whether stamps of packets and frames are wanted.
    #[inline]
    pub fn wants_packets(&self) -> bool {
        self.0.get().wanted.0.load(Ordering::Relaxed) != 0
    }

    /// Leaves a stamp of a packet or frame.
    #[inline]
    pub fn push_packet(&self, packet: Packet) {
        let area = self.0.get();
        let count = area.packets.0.load(Ordering::Relaxed);
        let [which, at] = &area.packet_ring[count as usize % PACKETS];
        which.store(packet.which as u64, Ordering::Relaxed);
        at.store(packet.at, Ordering::Relaxed);
        area.packets.0.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Stamps of packets left since there were `count`, as far as they are still there, and how many are there now.
    pub fn packets_since(&self, count: u64) -> (Vec<Packet>, u64) {
        let now = self.0.get().packets.0.load(Ordering::Acquire);
        let first = count.max(now.saturating_sub(PACKETS as u64));
        let packet = |at: u64| {
            let [which, at] = &self.0.get().packet_ring[at as usize % PACKETS];
            let which = match which.load(Ordering::Relaxed) {
                0 => Which::Scheduled,
                1 => Which::Driver,
                2 => Which::Came,
                3 => Which::Kicked,
                _ => Which::Seen,
            };
            Packet { which, at: at.load(Ordering::Relaxed) }
        };
        ((first..now).map(packet).collect(), now)
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
    fn stamps_of_packets_are_left_where_they_are_wanted() {
        let writer = Stamps::create().unwrap();
        let reader = Stamps::open(writer.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert!(!writer.wants_packets());
        reader.want_packets(true);
        assert!(writer.wants_packets());
        let all = [Which::Scheduled, Which::Driver, Which::Came, Which::Kicked, Which::Seen];
        let packets = all.map(|which| Packet { which, at: 7 + which as u64 });
        packets.iter().for_each(|packet| writer.push_packet(*packet));
        assert_eq!(reader.packets_since(1), (packets[1..].to_vec(), 5));
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
