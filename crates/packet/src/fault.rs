//! A device around a device that loses, delays, reorders, duplicates and corrupts received frames, at requested rates
//! and reproducibly.
//!
//! ```text
//!   device ──▶ stopped? ─▶ lost? ─▶ wrong FCS? ─▶ corrupted? ─▶ doubled? ─▶ held until its time, or until later ones have passed ──▶ application
//! ```
//! For tests. Sent frames pass untouched, but a kick may answer "busy", and the ring may seem full for lack of credit.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::umem::{Frame, Pool, Umem};
use rustix::event::{EventfdFlags, eventfd};

use crate::granted::Granted;
use crate::io::{Arrival, Counters, Departure, Kick, Kicked, PacketIo};

/// Most frames held back at once; at this number nothing more is received.
const HELD: usize = 256;
/// The longest time that a frame is held for later ones to pass it.
const OVERTAKE: Duration = Duration::from_millis(1);

/// The faults that a [`Fault`] adds; the default adds none. Rates are fractions from 0 to 1: of received frames, for `busy` and
/// `starvation` of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The seed: the same seed gives the same faults.
    pub seed: u64,
    /// Frames lost.
    pub loss: f64,
    /// Frames with one bit changed, undetected by the link.
    pub corruption: f64,
    /// Frames with a wrong FCS: counted as `rx_invalid` and not delivered.
    pub wrong_fcs: f64,
    /// Frames that arrive twice.
    pub duplication: f64,
    /// Frames overtaken by one to three later ones.
    pub reordering: f64,
    /// Delay added to every frame.
    pub delay: Duration,
    /// Kicks that send nothing and answer [`Kicked::Busy`].
    pub busy: f64,
    /// Calls of `tx_batch` that find no credit and take no frame; frames taken before still have to be kicked.
    pub starvation: f64,
    /// Number of frames after which this end stops receiving, and so returns no credit. `None` never stops.
    pub stops_after: Option<u64>,
}

/// A device that adds [`Faults`] to the frames received by another.
///
/// Faults are drawn from the seed in the order of arrival, so a run with the same frames has the same faults. Give each direction
/// its own `Fault`; a program under test sees only an unreliable link. The [counters](PacketIo::counters) have lost frames as
/// `rx_dropped` and frames with a wrong FCS as `rx_invalid`.
///
/// ```
/// use hairpin_packet::fault::{Fault, Faults};
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, far) = memory::pair(&Config::default())?;
/// let near = Ring::new(near, MonotonicRaw, RingConfig::default());
/// let faults = Faults { seed: 42, loss: 0.5, ..Faults::default() };
/// let far = Ring::new(Fault::new(far, MonotonicRaw, faults)?, MonotonicRaw, RingConfig::default());
///
/// let mut received = 0;
/// for _ in 0..100 {
///     let _ = near.sender().inject(&[0; 60])?;
///     received += usize::from(matches!(far.recv(0)?, Received::Got(_)));
/// }
/// assert!((20..80).contains(&received));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Fault<P, C> {
    io: P,
    clock: C,
    faults: Faults,
    random: u64,
    delay: u64,
    overtake: u64,
    arrived: Vec<Arrival>,
    held: VecDeque<Held>,
    /// Always readable: while frames are held, nobody may sleep on the device below.
    awake: OwnedFd,
    made: Made,
}

#[derive(Debug)]
struct Held {
    arrival: Arrival,
    due: Ticks,
    /// Later frames that have to pass it first.
    behind: u64,
    /// The frame is released at this time even if no other passes.
    at_last: Ticks,
}

#[derive(Clone, Copy, Debug, Default)]
struct Made {
    lost: u64,
    lost_bytes: u64,
    damaged: u64,
    damaged_bytes: u64,
    doubled: u64,
    doubled_bytes: u64,
    busy: u64,
    /// Frames taken from the device below.
    looked_at: u64,
}

impl<P: PacketIo, C: Clock> Fault<P, C> {
    /// Adds faults to the frames that `io` receives.
    ///
    /// # Errors
    /// The kernel provides no eventfd.
    pub fn new(io: P, clock: C, faults: Faults) -> io::Result<Fault<P, C>> {
        let ticks = |duration: Duration| clock.to_ticks(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        Ok(Fault {
            io,
            faults,
            random: faults.seed,
            delay: ticks(faults.delay),
            overtake: ticks(OVERTAKE),
            clock,
            arrived: Vec::with_capacity(HELD),
            held: VecDeque::with_capacity(2 * HELD),
            awake: eventfd(1, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            made: Made::default(),
        })
    }

    /// The device below; frames held back return to its pool.
    pub fn into_inner(mut self) -> P {
        for held in self.held.drain(..) {
            self.io.pool().give(held.arrival.frame);
        }
        self.io
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn happens(&mut self, share: f64) -> bool {
        // No random number is drawn for a fault that is off, so the same seed means the same faults of the
        // other kinds.
        share > 0.0 && (self.next() as f64) < share * (u64::MAX as f64)
    }

    /// Frames that may still be received before this end stops.
    fn left(&self) -> usize {
        self.faults
            .stops_after
            .map_or(usize::MAX, |frames| usize::try_from(frames.saturating_sub(self.made.looked_at)).unwrap_or(usize::MAX))
    }

    fn pass(&mut self, mut arrival: Arrival, now: Ticks) {
        let len = arrival.frame.len();
        if self.happens(self.faults.loss) {
            self.made.lost = self.made.lost.wrapping_add(1);
            self.made.lost_bytes = self.made.lost_bytes.wrapping_add(len as u64);
            self.io.pool().give(arrival.frame);
            return;
        }
        if self.happens(self.faults.wrong_fcs) {
            self.made.damaged = self.made.damaged.wrapping_add(1);
            self.made.damaged_bytes = self.made.damaged_bytes.wrapping_add(len as u64);
            self.io.pool().give(arrival.frame);
            return;
        }
        if len > 0 && self.happens(self.faults.corruption) {
            let bit = self.next() as usize % (8 * len);
            self.io.umem().bytes_mut(&mut arrival.frame)[bit / 8] ^= 1 << (bit % 8);
        }
        let twin = if self.happens(self.faults.duplication) { self.double(&arrival) } else { None };
        self.hold(arrival, now);
        if let Some(twin) = twin {
            self.hold(twin, now);
        }
    }

    /// A second frame with the same bytes, if a chunk is free.
    fn double(&mut self, arrival: &Arrival) -> Option<Arrival> {
        let mut frame = self.io.pool().take()?;
        frame.set_len(arrival.frame.len());
        let umem = self.io.umem();
        umem.bytes_mut(&mut frame).copy_from_slice(umem.bytes(&arrival.frame));
        self.made.doubled = self.made.doubled.wrapping_add(1);
        self.made.doubled_bytes = self.made.doubled_bytes.wrapping_add(frame.len() as u64);
        Some(Arrival { frame, ..*arrival })
    }

    fn hold(&mut self, arrival: Arrival, now: Ticks) {
        for held in &mut self.held {
            held.behind = held.behind.saturating_sub(1);
        }
        let behind = if self.happens(self.faults.reordering) { 1 + self.next() % 3 } else { 0 };
        let due = now.plus(self.delay);
        self.held.push_back(Held { arrival, due, behind, at_last: due.plus(self.overtake) });
    }
}

impl<P: PacketIo, C: Clock> PacketIo for Fault<P, C> {
    fn granted(&self) -> &Granted {
        self.io.granted()
    }

    fn pool(&mut self) -> &mut Pool {
        self.io.pool()
    }

    fn umem(&self) -> &Arc<Umem> {
        self.io.umem()
    }

    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let room = HELD.saturating_sub(self.held.len()).min(self.left());
        let mut arrived = std::mem::take(&mut self.arrived);
        self.io.rx_batch(&mut arrived, most.min(room));
        self.made.looked_at = self.made.looked_at.wrapping_add(arrived.len() as u64);
        let now = self.clock.now();
        for arrival in arrived.drain(..) {
            self.pass(arrival, now);
        }
        self.arrived = arrived;
        let (mut received, mut at) = (0, 0);
        while received < most && at < self.held.len() {
            let held = &self.held[at];
            if now < held.due || (held.behind > 0 && now < held.at_last) {
                at += 1;
            } else if let Some(held) = self.held.remove(at) {
                into.push(held.arrival);
                received += 1;
            }
        }
        received
    }

    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        if !frames.is_empty() && self.happens(self.faults.starvation) { 0 } else { self.io.tx_batch(frames) }
    }

    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        if what == Kick::Send && self.happens(self.faults.busy) {
            self.made.busy = self.made.busy.wrapping_add(1);
            return Ok(Kicked::Busy);
        }
        // The frames held here are received before the error of a device below that has ended.
        if what == Kick::Receive && !self.held.is_empty() {
            return Ok(Kicked::Done);
        }
        self.io.kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        if self.held.is_empty() { self.io.waitable() } else { self.awake.as_fd() }
    }

    fn sends_on(&self) -> BorrowedFd<'_> {
        self.io.sends_on()
    }

    fn take_stamps(&mut self, taken: bool) -> io::Result<()> {
        self.io.take_stamps(taken)
    }

    fn ask_departures(&mut self, asked: bool) {
        self.io.ask_departures(asked);
    }

    fn departures(&mut self, into: &mut Vec<Departure>) -> io::Result<usize> {
        self.io.departures(into)
    }

    /// Frames lost here count as `rx_dropped`, damaged ones as `rx_invalid`, duplicates as received.
    fn counters(&mut self) -> Counters {
        let below = self.io.counters();
        Counters {
            rx_frames: below
                .rx_frames
                .wrapping_sub(self.made.lost)
                .wrapping_sub(self.made.damaged)
                .wrapping_add(self.made.doubled),
            rx_bytes: below
                .rx_bytes
                .wrapping_sub(self.made.lost_bytes)
                .wrapping_sub(self.made.damaged_bytes)
                .wrapping_add(self.made.doubled_bytes),
            rx_dropped: below.rx_dropped.wrapping_add(self.made.lost),
            rx_invalid: below.rx_invalid.wrapping_add(self.made.damaged),
            tx_busy: below.tx_busy.wrapping_add(self.made.busy),
            ..below
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Config;
    use crate::memory::{MemoryIo, pair};
    use crate::niq;
    use crate::ring::{Injected, Received, Ring, RingConfig, Wait};
    use hairpin_sys::clock::{FakeClock, MonotonicRaw};

    const FRAMES: u16 = 2_000;

    /// The first two bytes of each frame that arrives, out of `frames` with rising numbers; the rest of each
    /// frame is checked.
    fn arrivals(faults: Faults, clock: FakeClock) -> (Vec<u16>, Counters) {
        let (one, other) = pair(&Config { chunks: 512, ring_entries: 64, ..Config::default() }).unwrap();
        let one = Ring::new(one, clock.clone(), RingConfig::default());
        let other = Ring::new(Fault::new(other, clock.clone(), faults).unwrap(), clock.clone(), RingConfig::default());
        let mut got = Vec::new();
        let mut look = |ring: &Ring<Fault<MemoryIo, FakeClock>, FakeClock>| {
            while let Received::Got(lease) = ring.recv(0).unwrap() {
                got.push(u16::from_be_bytes([lease[0], lease[1]]));
            }
        };
        for n in 0..FRAMES {
            assert_eq!(one.sender().inject(&n.to_be_bytes()).unwrap(), Injected::Sent);
            look(&other);
            clock.advance(100);
        }
        clock.advance(10_000_000);
        look(&other);
        assert_eq!(other.with_io(|io| (io.held.len(), io.pool().available())), (0, 512));
        (got, other.counters().io)
    }

    #[test]
    fn passes_frames_unchanged_without_faults() {
        let (got, counters) = arrivals(Faults::default(), FakeClock::default());
        assert_eq!(got, (0..FRAMES).collect::<Vec<_>>());
        assert_eq!((counters.rx_frames, counters.lost()), (u64::from(FRAMES), 0));
    }

    #[test]
    fn faults_match_their_rates_and_are_reproducible() {
        let clock = FakeClock::default;
        let (got, counters) = arrivals(Faults { loss: 0.1, seed: 1, ..Faults::default() }, clock());
        assert_eq!(got.len() as u64, counters.rx_frames);
        assert_eq!(counters.rx_dropped + counters.rx_frames, u64::from(FRAMES));
        assert!((150..250).contains(&counters.rx_dropped) && got.is_sorted(), "{counters:?}");
        assert_eq!(arrivals(Faults { loss: 0.1, seed: 1, ..Faults::default() }, clock()).0, got);
        assert_ne!(arrivals(Faults { loss: 0.1, seed: 2, ..Faults::default() }, clock()).0, got);
        assert!(arrivals(Faults { loss: 1.0, ..Faults::default() }, clock()).0.is_empty());

        let (got, counters) = arrivals(Faults { wrong_fcs: 0.1, seed: 1, ..Faults::default() }, clock());
        assert_eq!((got.len() as u64, got.len() as u64 + counters.rx_invalid), (counters.rx_frames, u64::from(FRAMES)));
        assert!((150..250).contains(&counters.rx_invalid) && got.is_sorted(), "{counters:?}");

        let (mut got, counters) = arrivals(Faults { duplication: 0.1, seed: 1, ..Faults::default() }, clock());
        assert!(got.is_sorted() && (2_150..2_250).contains(&got.len()), "{}", got.len());
        assert_eq!(counters.rx_frames, got.len() as u64);
        got.dedup();
        assert_eq!(got.len(), usize::from(FRAMES));

        let (mut got, _) = arrivals(Faults { reordering: 0.1, seed: 1, ..Faults::default() }, clock());
        let displaced = got.iter().enumerate().map(|(at, n)| at.abs_diff(usize::from(*n))).filter(|d| *d > 0);
        let (count, furthest) = displaced.fold((0, 0), |(count, most), d| (count + 1, most.max(d)));
        assert!((300..800).contains(&count) && furthest <= 6, "{count} {furthest}");
        got.sort_unstable();
        assert_eq!(got, (0..FRAMES).collect::<Vec<_>>());

        let (got, _) = arrivals(Faults { corruption: 0.5, seed: 1, ..Faults::default() }, clock());
        let changed = got.iter().enumerate().filter(|(at, n)| *at != usize::from(**n)).count();
        // Half of the frames have one changed bit in 60 bytes, and the test reads two of the bytes.
        assert_eq!(got.len(), usize::from(FRAMES));
        assert!((15..60).contains(&changed), "{changed}");
    }

    #[test]
    fn a_delayed_frame_arrives_on_time_and_wakes_a_sleeper() {
        let (one, other) = pair(&Config { chunks: 64, ring_entries: 8, ..Config::default() }).unwrap();
        let faults = Faults { delay: Duration::from_millis(2), ..Faults::default() };
        let one = Ring::new(one, MonotonicRaw, RingConfig::default());
        let config = RingConfig { wait: Wait::Block, ..RingConfig::default() };
        let other = Ring::new(Fault::new(other, MonotonicRaw, faults).unwrap(), MonotonicRaw, config);
        assert_eq!(one.sender().inject(&[1; 60]).unwrap(), Injected::Sent);
        assert!(matches!(other.recv(0), Ok(Received::WouldBlock)));
        let start = MonotonicRaw.now();
        assert!(matches!(other.recv(1_000), Ok(Received::Got(_))));
        assert!((1_000_000..900_000_000).contains(&MonotonicRaw.now().since(start)));
        assert_eq!(one.sender().inject(&[1; 60]).unwrap(), Injected::Sent);
        assert!(matches!(other.recv(0), Ok(Received::WouldBlock)));
        assert_eq!(other.into_io().into_inner().pool().available(), 64);
    }

    #[test]
    fn held_frames_of_a_dropped_end_are_received_before_the_error() {
        let (one, other) = pair(&Config { chunks: 64, ring_entries: 8, ..Config::default() }).unwrap();
        let faults = Faults { delay: Duration::from_millis(20), ..Faults::default() };
        let one = Ring::new(one, MonotonicRaw, RingConfig::default());
        let other = Ring::new(Fault::new(other, MonotonicRaw, faults).unwrap(), MonotonicRaw, RingConfig::default());
        assert_eq!(one.sender().inject(&[1; 60]).unwrap(), Injected::Sent);
        drop(one);
        assert!(matches!(other.recv(10_000), Ok(Received::Got(_))));
        assert!(other.recv(10_000).is_err());
    }

    #[test]
    fn a_stopped_receiver_uses_up_the_senders_credits() {
        let config = niq::Config { ring_entries: 16, chunks: 64, ..niq::Config::default() };
        let (one, other) = niq::pair(&config).unwrap();
        let faults = Faults { stops_after: Some(70), ..Faults::default() };
        let other = Fault::new(other, MonotonicRaw, faults).unwrap();
        let one = Ring::new(one, MonotonicRaw, RingConfig::default());
        let other = Ring::new(other, MonotonicRaw, RingConfig::default());
        let (mut got, mut full) = (0u16, 0);
        for n in 0..200u16 {
            full += u64::from(one.sender().inject(&n.to_be_bytes()).unwrap() == Injected::Full);
            while let Received::Got(lease) = other.recv(0).unwrap() {
                assert_eq!(lease[..2], got.to_be_bytes());
                got += 1;
            }
        }
        assert_eq!(got, 70);
        // The frames taken and those that fit into the ring, of which the credits of up to a quarter are not returned
        // yet. 64 more wait for room in the ring.
        let sent = one.counters().io.tx_frames;
        assert!((70 + 12..=70 + 16).contains(&sent) && full > 0, "{sent} sent, {full} times full");
        assert!(one.with_io(|io| io.no_credit()) > 0);
    }

    #[test]
    fn frames_without_credit_leave_with_a_later_call() {
        let (one, other) = niq::pair(&niq::Config { chunks: 256, ..niq::Config::default() }).unwrap();
        let faults = Faults { starvation: 0.7, seed: 3, ..Faults::default() };
        let one = Ring::new(Fault::new(one, MonotonicRaw, faults).unwrap(), MonotonicRaw, RingConfig::default());
        let other = Ring::new(other, MonotonicRaw, RingConfig { hold: Some(128), ..RingConfig::default() });
        for n in 0..100 {
            assert_eq!(one.sender().inject(&[n; 60]).unwrap(), Injected::Sent);
        }
        assert!(matches!(one.recv(5), Ok(Received::Expired)));
        let mut leases = Vec::new();
        while let Received::Got(_) = other.recv_batch(&mut leases, 64, 0).unwrap() {}
        assert_eq!(leases.iter().map(|lease| lease[0]).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn frames_kept_by_a_busy_device_leave_with_a_later_call() {
        let (one, other) = pair(&Config { chunks: 256, ring_entries: 128, ..Config::default() }).unwrap();
        let faults = Faults { busy: 0.7, seed: 3, ..Faults::default() };
        let one = Ring::new(Fault::new(one, MonotonicRaw, faults).unwrap(), MonotonicRaw, RingConfig::default());
        let other = Ring::new(other, MonotonicRaw, RingConfig { hold: Some(128), ..RingConfig::default() });
        for n in 0..100 {
            assert_eq!(one.sender().inject(&[n; 60]).unwrap(), Injected::Sent);
        }
        assert!(matches!(one.recv(5), Ok(Received::Expired)));
        let mut leases = Vec::new();
        while let Received::Got(_) = other.recv_batch(&mut leases, 64, 0).unwrap() {}
        assert_eq!(leases.iter().map(|lease| lease[0]).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        assert!(one.counters().io.tx_busy > 20);
    }
}
