//! A device around a device that records when each frame was filled in, kicked and received, in a buffer of fixed size.
//!
//! ```text
//!   application ── tx_batch: fill ──▶ TX ring ── kick ──▶ …        … ──▶ RX ring ── rx_batch: arrival ──▶ application
//!                       ╰───────────────┴── events, the oldest overwritten ──────────────╯
//! ```

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::umem::{Frame, Pool, Umem};

use crate::granted::Granted;
use crate::io::{Arrival, Counters, Departure, Kick, Kicked, PacketIo};

/// Frames that can go into a TX ring at once without an allocation.
const BATCH: usize = 4096;

/// The moment that an [`Event`] records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A frame went into the TX ring.
    Fill,
    /// The TX ring was kicked: every frame filled in before is on its way, unless the device was busy.
    Kick,
    /// A frame came out of the RX ring.
    Arrival,
}

/// One event, as a [`Tracer`] records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The kind.
    pub what: What,
    /// The number of the frame in its direction, from 0; for a kick, the number of frames filled in so far. Wraps.
    pub frame: u64,
    /// Bytes of the frame; 0 for a kick.
    pub len: u32,
    /// The time by the tracer's clock.
    pub at: Ticks,
}

/// A device that timestamps the frames passing through another.
///
/// Each frame costs one reading of `clock` and one entry of a buffer of fixed size, whose oldest entries are overwritten: no call
/// allocates or blocks. Times are in ticks of `clock`; [`Clock::to_ns`] converts a difference.
///
/// ```
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
/// use hairpin_packet::tracer::{Tracer, What};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, _far) = memory::pair(&Config::default())?;
/// let near = Ring::new(Tracer::new(near, MonotonicRaw, 1024), MonotonicRaw, RingConfig::default());
/// let _ = near.sender().inject(&[0; 60])?;
///
/// let events: Vec<_> = near.with_io(|tracer| tracer.events().collect());
/// assert_eq!(events.iter().map(|event| event.what).collect::<Vec<_>>(), [What::Fill, What::Kick]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Tracer<P, C> {
    io: P,
    clock: C,
    /// A power of two, so that the position may wrap.
    events: Box<[Event]>,
    /// Lengths of the frames offered to the TX ring, noted before: once the ring has taken them, the frames are gone.
    lens: Vec<usize>,
    noted: u64,
    filled: u64,
    arrived: u64,
}

impl<P: PacketIo, C: Clock> Tracer<P, C> {
    /// A tracer around `io` that keeps at least the last `events` events.
    pub fn new(io: P, clock: C, events: usize) -> Tracer<P, C> {
        let none = Event { what: What::Fill, frame: 0, len: 0, at: Ticks::default() };
        let events = vec![none; events.next_power_of_two()].into_boxed_slice();
        Tracer { io, clock, events, lens: Vec::with_capacity(BATCH), noted: 0, filled: 0, arrived: 0 }
    }

    /// The events that are not yet overwritten, oldest first.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        let kept = self.noted.min(self.events.len() as u64);
        (self.noted - kept..self.noted).map(|at| self.events[self.place(at)])
    }

    /// The number of overwritten events.
    pub fn overwritten(&self) -> u64 {
        self.noted.saturating_sub(self.events.len() as u64)
    }

    /// Returns the device below; the recorded events are dropped.
    pub fn into_inner(self) -> P {
        self.io
    }

    #[inline]
    fn place(&self, at: u64) -> usize {
        at as usize & (self.events.len() - 1)
    }

    #[inline]
    fn note(&mut self, what: What, frame: u64, len: usize, at: Ticks) {
        let place = self.place(self.noted);
        self.events[place] = Event { what, frame, len: len as u32, at };
        self.noted += 1;
    }
}

impl<P: PacketIo, C: Clock> PacketIo for Tracer<P, C> {
    fn granted(&self) -> &Granted {
        self.io.granted()
    }

    fn pool(&mut self) -> &mut Pool {
        self.io.pool()
    }

    fn umem(&self) -> &Arc<Umem> {
        self.io.umem()
    }

    #[inline]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let received = self.io.rx_batch(into, most);
        if received > 0 {
            let now = self.clock.now();
            for arrival in &into[into.len() - received..] {
                self.note(What::Arrival, self.arrived, arrival.frame.len(), now);
                self.arrived = self.arrived.wrapping_add(1);
            }
        }
        received
    }

    #[inline]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.lens.clear();
        self.lens.extend(frames.iter().map(Frame::len));
        let now = self.clock.now();
        let taken = self.io.tx_batch(frames);
        for n in 0..taken {
            self.note(What::Fill, self.filled, self.lens[n], now);
            self.filled = self.filled.wrapping_add(1);
        }
        taken
    }

    #[inline]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        if what == Kick::Send {
            self.note(What::Kick, self.filled, 0, self.clock.now());
        }
        self.io.kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.io.waitable()
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

    fn counters(&mut self) -> Counters {
        self.io.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Config;
    use crate::memory::pair;
    use crate::ring::{Injected, Received, Ring, RingConfig};
    use hairpin_sys::clock::FakeClock;

    #[test]
    fn each_frame_has_its_stamps_in_order() {
        let (one, other) = pair(&Config { chunks: 64, ring_entries: 8, ..Config::default() }).unwrap();
        let clock = FakeClock::stepping(10);
        let one = Ring::new(Tracer::new(one, clock.clone(), 16), clock.clone(), RingConfig::default());
        let other = Ring::new(Tracer::new(other, clock.clone(), 16), clock, RingConfig::default());
        assert_eq!(one.sender().inject(&[1; 60]).unwrap(), Injected::Sent);
        assert_eq!(one.sender().inject(&[1; 100]).unwrap(), Injected::Sent);
        assert!(matches!(other.recv(0), Ok(Received::Got(_))));
        let event = |what, frame, len, at| Event { what, frame, len, at: Ticks(at) };
        let noted = |ring: &Ring<Tracer<_, _>, _>| ring.with_io(|io| io.events().collect::<Vec<_>>());
        let expected = [
            event(What::Fill, 0, 60, 0),
            event(What::Kick, 1, 0, 10),
            event(What::Fill, 1, 100, 20),
            event(What::Kick, 2, 0, 30),
        ];
        assert_eq!(noted(&one), expected);
        assert_eq!(noted(&other), [event(What::Arrival, 0, 60, 40)]);
    }

    #[test]
    fn the_oldest_are_overwritten_and_frame_numbers_pass_their_wrap() {
        let (one, _other) = pair(&Config { chunks: 64, ring_entries: 3, ..Config::default() }).unwrap();
        let mut tracer = Tracer::new(one, FakeClock::default(), 3);
        tracer.filled = u64::MAX - 1;
        let mut frames: Vec<Frame> = (0..5).map(|_| tracer.pool().take().unwrap()).collect();
        assert_eq!(tracer.tx_batch(&mut frames), 3);
        tracer.kick(Kick::Send).unwrap();
        tracer.kick(Kick::Send).unwrap();
        let seen: Vec<_> = tracer.events().map(|event| (event.what, event.frame)).collect();
        assert_eq!(seen, [(What::Fill, u64::MAX), (What::Fill, 0), (What::Kick, 1), (What::Kick, 1)]);
        assert_eq!(tracer.overwritten(), 1);
        assert_eq!(frames.len(), 2);
    }
}
