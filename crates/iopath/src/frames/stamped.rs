//! A ring that stamps each kick and each descriptor it receives, as long as a tracer asks for stamps. If the ring was opened with
//! stamps of NIC and driver, it passes those on too.
//!
//! ```text
//!   tx_batch  which message? ─▶ ring          rx_batch  ring ─▶ Seen, the frame's own stamp and which message it is
//!   kick      Kicked ─▶ ring ─▶ stamps of sent frames, if they are there: otherwise after the next kick
//! ```
//! Only a traced run uses it; all other rings take no stamps and do not check for a tracer.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hairpin_packet::granted::Granted;
use hairpin_packet::io::{Arrival, Arrived, Counters, Departed, Departure, Kick, Kicked, PacketIo};
use hairpin_sys::clock::{AnyClock, Clock};
use hairpin_sys::shared::{Packet, Stamps, Which};
use hairpin_sys::umem::{Frame, Pool, Umem};
use hairpin_sys::wait::Policy;
use hairpin_wire::probe;

/// Wraps `io`; stamps come from `clock`.
pub(crate) struct Stamped<'a, I> {
    io: I,
    clock: AnyClock,
    stamps: &'a Stamps,
    nic: Option<Nic>,
    /// The error of switching or reading the stamps, which the next kick returns.
    failed: Option<io::Error>,
}

impl<'a, I: PacketIo> Stamped<'a, I> {
    pub(crate) fn new(io: I, clock: AnyClock, stamps: &'a Stamps) -> Stamped<'a, I> {
        Stamped { io, clock, stamps, nic: None, failed: None }
    }

    /// A ring that was opened with stamps of NIC and driver. The payload begins after `headers` bytes of a frame.
    ///
    /// # Errors
    /// The kernel's, if the stamps cannot be switched off for now.
    pub(crate) fn with_nic(mut io: I, clock: AnyClock, stamps: &'a Stamps, headers: usize, policy: Policy) -> io::Result<Self> {
        io.take_stamps(false)?;
        let nic = Nic::new(headers, matches!(policy, Policy::Block | Policy::Poll | Policy::Epoll | Policy::Adaptive));
        Ok(Stamped { nic: Some(nic), ..Stamped::new(io, clock, stamps) })
    }

    /// The wrapped ring.
    pub(crate) fn io(&self) -> &I {
        &self.io
    }

    #[inline]
    fn stamp(&self, which: Which) {
        if self.stamps.wants_packets() {
            self.stamps.push_packet(Packet { which, at: self.clock.now().0, sequence: 0 });
        }
    }

    /// Switches the stamps as the tracer wants them; that changes between blocks only.
    #[cold]
    fn follow(&mut self, every: u32) -> io::Result<()> {
        self.collect()?;
        let Some(nic) = &mut self.nic else { return Ok(()) };
        if (nic.every == 0) != (every == 0) {
            self.io.take_stamps(every != 0)?;
        }
        self.io.ask_departures(every != 0);
        nic.every = every;
        Ok(())
    }

    /// Passes on the stamps of sent frames that have come.
    fn collect(&mut self) -> io::Result<()> {
        let Some(nic) = &mut self.nic else { return Ok(()) };
        self.io.departures(&mut nic.came)?;
        for at in 0..nic.came.len() {
            if let Some(packet) = nic.packet(nic.came[at]) {
                self.stamps.push_packet(packet);
            }
        }
        nic.came.clear();
        Ok(())
    }
}

/// Frames whose sequence numbers are remembered, a power of two.
const REMEMBERED: usize = 4096;

/// Finds the message that a stamp of NIC or driver belongs to.
struct Nic {
    /// Offset of the payload, which begins with the sequence number.
    headers: usize,
    /// The wait sleeps, and the stamp of a sent frame wakes it.
    sleeps: bool,
    /// The value of [`Stamps::wants_every`] that the ring was last told.
    every: u32,
    /// Frames passed to the ring so far; wraps.
    sent: u32,
    /// The sequence numbers of the last `REMEMBERED` frames, by the frame's number.
    sequences: Box<[u32; REMEMBERED]>,
    came: Vec<Departure>,
}

impl Nic {
    fn new(headers: usize, sleeps: bool) -> Nic {
        let came = Vec::with_capacity(2 * REMEMBERED);
        Nic { headers, sleeps, every: 0, sent: 0, sequences: Box::new([0; REMEMBERED]), came }
    }

    fn sequence(&self, frame: &[u8]) -> u32 {
        probe::sequence(frame.get(self.headers..).unwrap_or_default())
    }

    /// Notes frames that the ring is about to take from the front of `frames`. True if the first of them is to be stamped.
    fn note(&mut self, umem: &Umem, frames: &[Frame]) -> bool {
        for (n, frame) in frames.iter().enumerate().take(REMEMBERED) {
            self.sequences[self.sent.wrapping_add(n as u32) as usize % REMEMBERED] = self.sequence(umem.bytes(frame));
        }
        self.sequences[self.sent as usize % REMEMBERED].is_multiple_of(self.every)
    }

    /// The stamp of a frame that has arrived, if it has one that is wanted.
    fn arrived(&self, umem: &Umem, arrival: &Arrival) -> Option<Packet> {
        let (which, at) = match arrival.time? {
            Arrived::Hardware(ns) => (Which::HardwareIn, ns),
            Arrived::Software(ns) => (Which::SoftwareIn, ns),
            _ => return None,
        };
        let sequence = self.sequence(umem.bytes(&arrival.frame));
        sequence.is_multiple_of(self.every).then_some(Packet { which, at, sequence })
    }

    /// The stamp of a frame that was sent. That of its completion does not count: it tells nothing of when the frame left.
    fn packet(&self, departure: Departure) -> Option<Packet> {
        let (which, at) = match departure.time {
            Departed::Hardware(ns) => (Which::HardwareOut, ns),
            Departed::Software(ns) => (Which::SoftwareOut, ns),
            _ => return None,
        };
        let known = (1..=REMEMBERED as u32).contains(&self.sent.wrapping_sub(departure.frame));
        let sequence = self.sequences[departure.frame as usize % REMEMBERED];
        Some(if known { Packet { which, at, sequence } } else { Packet { which: Which::Stray, at, sequence: 0 } })
    }
}

impl<I: PacketIo> PacketIo for Stamped<'_, I> {
    fn granted(&self) -> &Granted {
        self.io.granted()
    }

    #[inline]
    fn pool(&mut self) -> &mut Pool {
        self.io.pool()
    }

    #[inline]
    fn umem(&self) -> &Arc<Umem> {
        self.io.umem()
    }

    #[inline]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let before = into.len();
        let came = self.io.rx_batch(into, most);
        if came > 0 {
            self.stamp(Which::Seen);
        }
        let Some(nic) = self.nic.as_ref().filter(|nic| nic.every != 0) else { return came };
        for arrival in &into[before..] {
            if let Some(packet) = nic.arrived(self.io.umem(), arrival) {
                self.stamps.push_packet(packet);
            }
        }
        if came == 0 && nic.sleeps {
            // A stamp may have woken the wait. An error here is one of the socket, and the next kick returns it.
            self.failed = self.collect().err().or(self.failed.take());
        }
        came
    }

    #[inline]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        let every = self.stamps.wants_every();
        if self.nic.as_ref().is_some_and(|nic| nic.every != every) {
            self.failed = self.follow(every).err().or(self.failed.take());
        }
        if let Some(nic) = self.nic.as_mut().filter(|nic| nic.every != 0) {
            let due = nic.note(self.io.umem(), frames);
            if nic.every > 1 {
                self.io.ask_departures(due);
            }
        }
        let taken = self.io.tx_batch(frames);
        if let Some(nic) = &mut self.nic {
            nic.sent = nic.sent.wrapping_add(taken as u32);
        }
        taken
    }

    #[inline]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        if what != Kick::Send {
            return self.io.kick(what);
        }
        self.stamp(Which::Kicked);
        let kicked = self.io.kick(what)?;
        if self.nic.as_ref().is_some_and(|nic| nic.every != 0) {
            self.collect()?;
        }
        self.failed.take().map_or(Ok(kicked), Err)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.io.waitable()
    }

    fn sends_on(&self) -> BorrowedFd<'_> {
        self.io.sends_on()
    }

    fn counters(&mut self) -> Counters {
        self.io.counters()
    }
}

#[cfg(test)]
mod tests {
    use hairpin_packet::device::Config;
    use hairpin_packet::memory::{MemoryIo, pair};
    use hairpin_sys::clock::MonotonicRaw;

    use super::*;

    const HEADERS: usize = 14;

    /// A ring whose frames are stamped on both ways: frame n at 1,000 + n by the device and at 2,000 + n by its driver.
    struct Device {
        io: MemoryIo,
        taken: bool,
        asked: bool,
        sent: u32,
        due: Vec<Departure>,
    }

    impl PacketIo for Device {
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
            let came = self.io.rx_batch(into, most);
            into.iter_mut().for_each(|arrival| arrival.time = self.taken.then_some(Arrived::Hardware(7)));
            came
        }
        fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
            let taken = self.io.tx_batch(frames);
            for _ in 0..taken {
                let ns = u64::from(self.sent);
                if self.taken && self.asked {
                    let times = [Departed::Hardware(1_000 + ns), Departed::Software(2_000 + ns), Departed::Completed(3_000 + ns)];
                    self.due.extend(times.map(|time| Departure::new(self.sent, time)));
                }
                self.sent += 1;
            }
            taken
        }
        fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
            self.io.kick(what)
        }
        fn waitable(&self) -> BorrowedFd<'_> {
            self.io.waitable()
        }
        fn take_stamps(&mut self, taken: bool) -> io::Result<()> {
            self.taken = taken;
            Ok(())
        }
        fn ask_departures(&mut self, asked: bool) {
            self.asked = asked;
        }
        fn departures(&mut self, into: &mut Vec<Departure>) -> io::Result<usize> {
            into.append(&mut self.due);
            Ok(0)
        }
        fn counters(&mut self) -> Counters {
            self.io.counters()
        }
    }

    fn send(ring: &mut impl PacketIo, sequence: u32) {
        let mut frame = ring.pool().take().unwrap();
        frame.set_len(60);
        let bytes = ring.umem().bytes_mut(&mut frame);
        bytes.fill(0xff);
        probe::write(&mut bytes[HEADERS..HEADERS + 16], sequence, 5);
        assert_eq!(ring.tx_batch(&mut vec![frame]), 1);
        ring.kick(Kick::Send).unwrap();
    }

    #[test]
    fn stamps_of_frames_go_with_the_number_of_their_message_while_they_are_wanted() {
        let (near, mut far) = pair(&Config { ring_entries: 64, chunks: 256, ..Config::default() }).unwrap();
        let device = Device { io: near, taken: true, asked: true, sent: 0, due: Vec::new() };
        let (stamps, clock) = (Stamps::create().unwrap(), AnyClock::Raw(MonotonicRaw));
        let mut ring = Stamped::with_nic(device, clock, &stamps, HEADERS, Policy::Spin).unwrap();
        let mut seen = 0;
        let mut packets = |ring: &mut Stamped<'_, Device>| {
            let mut arrivals = Vec::new();
            ring.rx_batch(&mut arrivals, 64);
            arrivals.drain(..).for_each(|arrival| ring.pool().give(arrival.frame));
            let (packets, now) = stamps.packets_since(seen);
            seen = now;
            let of_nic = packets.iter().filter(|packet| !matches!(packet.which, Which::Kicked | Which::Seen));
            of_nic.map(|packet| (packet.which, packet.at, packet.sequence)).collect::<Vec<_>>()
        };
        send(&mut ring, 500);
        send(&mut far, 500);
        assert_eq!((packets(&mut ring), ring.io.taken), (Vec::new(), false), "nobody wants any");
        stamps.want_every(1);
        send(&mut ring, 501);
        send(&mut far, 501);
        let all =
            |frame: u64, sequence| [(Which::HardwareOut, 1_000 + frame, sequence), (Which::SoftwareOut, 2_000 + frame, sequence)];
        let came = |sequence| (Which::HardwareIn, 7, sequence);
        assert_eq!(packets(&mut ring), [&all(1, 501)[..], &[came(501)]].concat());
        stamps.want_every(2);
        for sequence in [502, 503] {
            send(&mut ring, sequence);
            send(&mut far, sequence);
        }
        assert_eq!(packets(&mut ring), [&all(2, 502)[..], &[came(502)]].concat());
        // One that the device stamped late, and one of a frame that was never sent.
        ring.io.due.push(Departure::new(1, Departed::Hardware(9)));
        ring.io.due.push(Departure::new(77, Departed::Hardware(9)));
        stamps.want_every(0);
        send(&mut ring, 504);
        assert_eq!((packets(&mut ring), ring.io.taken), (vec![(Which::HardwareOut, 9, 501), (Which::Stray, 9, 0)], false));
        send(&mut far, 505);
        assert_eq!(packets(&mut ring), []);
    }

    #[test]
    fn a_wait_that_a_stamp_has_woken_takes_it() {
        let (stamps, clock) = (Stamps::create().unwrap(), AnyClock::Raw(MonotonicRaw));
        stamps.want_every(1);
        for (policy, takes) in [(Policy::Spin, false), (Policy::Block, true), (Policy::Adaptive, true)] {
            let (near, _far) = pair(&Config { ring_entries: 64, chunks: 256, ..Config::default() }).unwrap();
            let device = Device { io: near, taken: true, asked: true, sent: 0, due: Vec::new() };
            let mut ring = Stamped::with_nic(device, clock, &stamps, HEADERS, policy).unwrap();
            send(&mut ring, 1);
            ring.io.due.push(Departure::new(0, Departed::Hardware(1)));
            assert_eq!((ring.rx_batch(&mut Vec::new(), 1), ring.io.due.is_empty()), (0, takes), "{policy}");
        }
    }
}
