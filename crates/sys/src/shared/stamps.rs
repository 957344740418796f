//! Stamps of single transactions, left by a worker for the process that started it.
//!
//! ```text
//!     0  count        stamps ever left
//!   128  announced    the thread and the sockets of the flow
//!   256  wanted       n: the reader also wants stamps of packets and frames, of every n-th transaction; 0: none
//!   384  left out     the block under way counts in no figure of the row
//!   512  packets      how many stamps of packets were ever left
//!   640  ring         the last 16,384 stamps: sequence, two moments
//!   then the last 65,536 stamps of packets: which one, when
//! ```
//! One thread writes. The reader reads while that thread is known to wait, or keeps only stamps that were not overwritten:
//!
//! ```text
//!   writer   fence, the stamp's words, count + 1      reader   count, words of many stamps, fence, count again
//! ```
//! A stamp is dropped if, by the count read last, its place may have been overwritten meanwhile. This always drops the oldest
//! stamp of a full ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::Apart;
use super::mapped::{Atomics, Mapped};
use crate::clock::Ticks;

/// Number of stamps kept.
const KEPT: usize = 16_384;
/// Number of packet stamps kept: three for each message sent and received.
const PACKETS: usize = 65_536;

#[repr(C)]
struct Area {
    count: Apart<AtomicU64>,
    announced: Apart<[AtomicU64; 4]>,
    wanted: Apart<AtomicU64>,
    left_out: Apart<AtomicU64>,
    packets: Apart<AtomicU64>,
    ring: [[AtomicU64; 3]; KEPT],
    packet_ring: [[AtomicU64; 2]; PACKETS],
}

// SAFETY: atomics alone.
unsafe impl Atomics for Area {}

/// Two times of a transaction on one side. Client: entry of the send call, arrival of the reply; server: return of the receive
/// call, entry of the send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Sequence number in the payload.
    pub sequence: u32,
    /// First time.
    pub first: Ticks,
    /// Second time.
    pub second: Ticks,
}

/// A stamp of a packet on its way through the kernel, or of a frame on its way through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub which: Which,
    /// Time: CLOCK_REALTIME in ns for the kernel's stamps, the NIC's clock in ns for those of a NIC, ticks of the program's clock
    /// for those of the ring library.
    pub at: u64,
    /// Sequence number in the payload of its message; 0 for [`Which::Kicked`], [`Which::Seen`] and [`Which::Stray`].
    pub sequence: u32,
}

/// Place at which a stamp is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Kernel: the packet enters the device's queue.
    Scheduled,
    /// Kernel: the packet reaches the driver.
    SoftwareOut,
    /// Kernel: the packet reaches the receiver's stack.
    SoftwareIn,
    /// NIC: the packet leaves.
    HardwareOut,
    /// NIC: the packet comes in.
    HardwareIn,
    /// Library: the frame is in the TX ring, and its consumer has been notified.
    Kicked,
    /// Library: the frame's descriptor was found in the RX ring.
    Seen,
    /// A stamp of a sent packet whose key belongs to no remembered message.
    Stray,
}

impl Which {
    const ALL: [Which; 8] = [
        Which::Scheduled,
        Which::SoftwareOut,
        Which::SoftwareIn,
        Which::HardwareOut,
        Which::HardwareIn,
        Which::Kicked,
        Which::Seen,
        Which::Stray,
    ];
}

/// Facts about a side that a tracer needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// The measuring thread's id, as from gettid(2); 0 until reported.
    pub thread: u32,
    /// Cookie (`SO_COOKIE`) of its sending socket; 0: none.
    pub sends_on: u64,
    /// Cookie of its receiving socket; 0: none.
    pub receives_on: u64,
    /// The flow's port on this side; 0: none.
    pub port: u16,
}

/// The stamp area of one side.
#[derive(Debug)]
pub struct Stamps(Mapped<Area>);

impl Stamps {
    /// Creates an area (memfd_create(2), close-on-exec, sealed against changes of its size).
    ///
    /// # Errors
    /// The errors of memfd_create(2), ftruncate(2), fcntl(2) and mmap(2).
    pub fn create() -> io::Result<Stamps> {
        Mapped::create().map(Stamps)
    }

    /// Maps an area from its [descriptor](AsFd).
    ///
    /// # Errors
    /// `InvalidData` if the descriptor is not a stamp area; those of fcntl(2) and mmap(2).
    pub fn open(fd: OwnedFd) -> io::Result<Stamps> {
        Mapped::open(fd).map(Stamps)
    }

    /// Adds a stamp.
    #[inline]
    pub fn push(&self, stamp: Stamp) {
        let area = self.0.get();
        let count = area.count.0.load(Ordering::Relaxed);
        // A reader that sees a word of this stamp also sees that the stamp before it was complete.
        fence(Ordering::Release);
        let [sequence, first, second] = &area.ring[count as usize % KEPT];
        sequence.store(stamp.sequence.into(), Ordering::Relaxed);
        first.store(stamp.first.0, Ordering::Relaxed);
        second.store(stamp.second.0, Ordering::Relaxed);
        area.count.0.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Number of stamps ever added.
    pub fn count(&self) -> u64 {
        self.0.get().count.0.load(Ordering::Acquire)
    }

    /// Stamps added since the count was `count`, as far as they are still kept, and the current count.
    pub fn since(&self, count: u64) -> (Vec<Stamp>, u64) {
        let area = self.0.get();
        whole(&area.count.0, count, KEPT as u64, |at| {
            let [sequence, first, second] = &area.ring[at as usize % KEPT];
            let moment = |word: &AtomicU64| Ticks(word.load(Ordering::Relaxed));
            Stamp { sequence: sequence.load(Ordering::Relaxed) as u32, first: moment(first), second: moment(second) }
        })
    }

    /// Switches stamps of packets and frames on or off.
    pub fn want_packets(&self, wanted: bool) {
        self.want_every(wanted.into());
    }

    /// Asks for stamps of the packets whose sequence number is a multiple of `every`; 0 for none.
    pub fn want_every(&self, every: u32) {
        self.0.get().wanted.0.store(every.into(), Ordering::Release);
    }

    /// True if stamps of packets and frames are wanted.
    #[inline]
    pub fn wants_packets(&self) -> bool {
        self.wants_every() != 0
    }

    /// The number given to [`Stamps::want_every`].
    #[inline]
    pub fn wants_every(&self) -> u32 {
        self.0.get().wanted.0.load(Ordering::Relaxed) as u32
    }

    /// Says whether the coming blocks count in no figure of the row.
    pub fn leave_out(&self, left_out: bool) {
        self.0.get().left_out.0.store(left_out.into(), Ordering::Release);
    }

    /// True if the block under way counts in no figure of the row.
    pub fn is_left_out(&self) -> bool {
        self.0.get().left_out.0.load(Ordering::Relaxed) != 0
    }

    /// Adds a stamp of a packet or frame.
    #[inline]
    pub fn push_packet(&self, packet: Packet) {
        let area = self.0.get();
        let count = area.packets.0.load(Ordering::Relaxed);
        // As in `push`.
        fence(Ordering::Release);
        let [what, at] = &area.packet_ring[count as usize % PACKETS];
        what.store(u64::from(packet.sequence) << 32 | packet.which as u64, Ordering::Relaxed);
        at.store(packet.at, Ordering::Relaxed);
        area.packets.0.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Packet stamps added since their count was `count`, as far as they are still kept, and the current count.
    pub fn packets_since(&self, count: u64) -> (Vec<Packet>, u64) {
        let area = self.0.get();
        whole(&area.packets.0, count, PACKETS as u64, |at| {
            let [what, at] = &area.packet_ring[at as usize % PACKETS];
            let what = what.load(Ordering::Relaxed);
            let which = Which::ALL.get(what as u32 as usize).copied().unwrap_or(Which::Stray);
            Packet { which, at: at.load(Ordering::Relaxed), sequence: (what >> 32) as u32 }
        })
    }

    /// Sets the facts for the tracer.
    pub fn announce(&self, announced: Announced) {
        let [thread, sends_on, receives_on, port] = &self.0.get().announced.0;
        port.store(announced.port.into(), Ordering::Relaxed);
        sends_on.store(announced.sends_on, Ordering::Relaxed);
        receives_on.store(announced.receives_on, Ordering::Relaxed);
        thread.store(announced.thread.into(), Ordering::Release);
    }

    /// The facts last set.
    pub fn announced(&self) -> Announced {
        let [thread, sends_on, receives_on, port] = &self.0.get().announced.0;
        Announced {
            thread: thread.load(Ordering::Acquire) as u32,
            sends_on: sends_on.load(Ordering::Relaxed),
            receives_on: receives_on.load(Ordering::Relaxed),
            port: port.load(Ordering::Relaxed) as u16,
        }
    }
}

/// Copies the items added to a ring of `kept` places since its count was `since`, except those that may have been overwritten
/// meanwhile. Returns them and the count.
fn whole<T>(count: &AtomicU64, since: u64, kept: u64, copy: impl FnMut(u64) -> T) -> (Vec<T>, u64) {
    let now = count.load(Ordering::Acquire);
    let first = since.max(now.saturating_sub(kept));
    let mut copies: Vec<T> = (first..now).map(copy).collect();
    fence(Ordering::Acquire);
    // The writer may be writing one more item, which it has not counted yet.
    let begun = count.load(Ordering::Relaxed).wrapping_add(1);
    let overwritten = begun.saturating_sub(kept).saturating_sub(first);
    copies.drain(..copies.len().min(overwritten as usize));
    (copies, now)
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
    fn stamps_stay_in_order_and_the_oldest_are_dropped() {
        let writer = Stamps::create().unwrap();
        let reader = Stamps::open(writer.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let stamp = |n: u64| Stamp { sequence: n as u32, first: Ticks(2 * n), second: Ticks(2 * n + 1) };
        (0..10).for_each(|n| writer.push(stamp(n)));
        let (found, now) = reader.since(7);
        assert_eq!((found, now), ((7..10).map(stamp).collect(), 10));
        (10..20_000).for_each(|n| writer.push(stamp(n)));
        let (found, now) = reader.since(now);
        assert_eq!((found.len(), found[0], now), (KEPT - 1, stamp(20_001 - KEPT as u64), 20_000));
        assert_eq!(reader.since(now), (Vec::new(), now));
    }

    #[test]
    fn stamps_overwritten_during_the_copy_are_dropped() {
        const PLACES: u64 = 8;
        let (ring, count) = ([const { AtomicU64::new(0) }; PLACES as usize], AtomicU64::new(0));
        let push = |upto: u64| {
            for at in count.load(Ordering::Relaxed)..upto {
                ring[(at % PLACES) as usize].store(at, Ordering::Relaxed);
                count.store(at + 1, Ordering::Release);
            }
        };
        // While the copy is at its `n`-th place, the writer adds `further` items.
        for (n, further) in [(0, 0), (0, 1), (0, 3), (4, 3), (7, 5), (3, 8), (2, 30)] {
            count.store(0, Ordering::Relaxed);
            push(20);
            let (found, now) = whole(&count, 15, PLACES, |at| {
                if at == 15 + n {
                    push(20 + further);
                }
                ring[(at % PLACES) as usize].load(Ordering::Relaxed)
            });
            let from = (20 + further + 1 - PLACES).clamp(15, 20);
            let reached = n < 5;
            assert_eq!(now, 20);
            assert_eq!(found, (if reached { from } else { 15 }..20).collect::<Vec<_>>(), "{n} {further}");
        }
    }

    #[test]
    fn stamps_of_packets_are_left_where_they_are_wanted() {
        let writer = Stamps::create().unwrap();
        let reader = Stamps::open(writer.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert!(!writer.wants_packets());
        reader.want_packets(true);
        assert!(writer.wants_packets());
        let packets = Which::ALL.map(|which| Packet { which, at: 7 + which as u64, sequence: u32::MAX - which as u32 });
        packets.iter().for_each(|packet| writer.push_packet(*packet));
        assert_eq!(reader.packets_since(1), (packets[1..].to_vec(), packets.len() as u64));
        reader.want_every(50);
        assert_eq!((writer.wants_packets(), writer.wants_every()), (true, 50));
        reader.want_packets(false);
        assert!(!writer.wants_packets() && !writer.is_left_out());
        reader.leave_out(true);
        assert!(writer.is_left_out());
    }

    #[test]
    fn announcement_arrives() {
        let writer = Stamps::create().unwrap();
        let reader = Stamps::open(writer.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(reader.announced(), Announced::default());
        let announced = Announced { thread: 4_711, sends_on: 1 << 40, receives_on: 3, port: 65_535 };
        writer.announce(announced);
        assert_eq!(reader.announced(), announced);
    }
}
