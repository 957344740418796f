//! The endpoint of the ring paths: whole frames, built and read in place.
//!
//! ```text
//!   client  send   pool ─▶ chunk: payload filled, headers copied before it, checksum ─▶ TX ring ─ kick ─▶ …
//!   server  recv   RX ring ─▶ chunk: is it the session's? the payload is borrowed where it lies
//!           reply  the same chunk: headers of the way back copied over those that came ─▶ TX ring ─ kick ─▶ …
//!   client  recv   RX ring ─▶ chunk, borrowed; given back to the pool by the next recv
//! ```
//! The framing is a type: IPv4, IPv6 and Hairpin's own framing are three loops, not one with branches. Frames of other sessions
//! are counted and returned to the pool, never answered.

pub(crate) mod inet;
pub(crate) mod raw;
pub(crate) mod stamped;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use hairpin_packet::io::{Arrival, Counters, Kick, Kicked, PacketIo, Vlan};
use hairpin_sys::clock::{AnyClock, Clock, Ticks};
use hairpin_sys::umem::{Frame, Umem};
use hairpin_sys::wait::{Waiting, for_room};
use hairpin_wire::framing::MIN_FRAME_WITHOUT_FCS;

use crate::content::Content;
use crate::endpoint::{Endpoint, Reply};

/// Longest sleep with frames in the TX ring that found no room, in ns.
const BUSY_NS: u64 = 1_000_000;

/// Framing of a session's messages on this side, which sends payloads of one length.
pub(crate) trait Framing {
    /// Bytes of all headers.
    const HEADERS: usize;

    /// The message in a frame, behind [`HEADERS`](Framing::HEADERS) bytes; `None` if it belongs to another session or is damaged.
    fn read(&self, frame: &[u8]) -> Option<Message>;

    /// True if this side sent the frame itself: on links that return every frame to both sides, such as loopback.
    fn is_own(&self, _frame: &[u8]) -> bool {
        false
    }

    /// Writes the headers of `flow` before a payload of `len` bytes that is already in place. `intact`: the payload, of this
    /// length, arrived in these very bytes with a correct checksum, which is therefore correct for the way back too.
    fn write(&self, frame: &mut [u8], flow: u32, len: usize, intact: bool);
}

/// A message found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) flow: u32,
    /// Payload length in bytes.
    pub(crate) len: usize,
    /// True if its checksum covers the payload and is correct.
    pub(crate) checked: bool,
}

/// The flows of one ring as an [`Endpoint`]; `LOSSY`: the link below may drop frames.
pub(crate) struct Frames<'fd, I, F, const LOSSY: bool = true> {
    wait: Waiting<'fd>,
    /// For the sleeps of [`BUSY_NS`]; `None` where a kick is never busy.
    clock: Option<AnyClock>,
    ring: Ring<I, F>,
}

/// The endpoint without its wait.
struct Ring<I, F> {
    io: I,
    umem: Arc<Umem>,
    framing: F,
    /// The ring needs a kick whenever nothing has arrived: the kernel polls for it, or must be woken.
    attended: bool,
    /// A kick has left frames in the TX ring.
    busy: bool,
    /// The message last returned by `recv`.
    held: Option<(Frame, Message)>,
    arrived: Vec<Arrival>,
    outgoing: Vec<Frame>,
    strays: u64,
}

impl<'fd, I: PacketIo, F: Framing> Frames<'fd, I, F> {
    /// Wraps a started ring.
    pub(crate) fn new(io: I, wait: Waiting<'fd>, framing: F, attended: bool, clock: AnyClock) -> Frames<'fd, I, F> {
        Frames::over(io, wait, framing, attended, Some(clock))
    }
}

impl<'fd, I: PacketIo, F: Framing> Frames<'fd, I, F, false> {
    /// Wraps a started ring that loses no frames.
    pub(crate) fn reliable(io: I, wait: Waiting<'fd>, framing: F) -> Frames<'fd, I, F, false> {
        Frames::over(io, wait, framing, false, None)
    }
}

impl<'fd, I: PacketIo, F: Framing, const LOSSY: bool> Frames<'fd, I, F, LOSSY> {
    fn over(io: I, wait: Waiting<'fd>, framing: F, attended: bool, clock: Option<AnyClock>) -> Frames<'fd, I, F, LOSSY> {
        let umem = io.umem().clone();
        let (arrived, outgoing) = (Vec::with_capacity(1), Vec::with_capacity(1));
        let ring = Ring { io, umem, framing, attended, busy: false, held: None, arrived, outgoing, strays: 0 };
        Frames { wait, clock, ring }
    }

    pub(crate) fn io(&self) -> &I {
        &self.ring.io
    }

    /// Number of frames of other sessions, and the ring's own counters.
    pub(crate) fn counts(&mut self) -> (u64, Counters) {
        (self.ring.strays, self.ring.io.counters())
    }
}

impl<I: PacketIo, F: Framing> Ring<I, F> {
    /// Prepares a frame for `len` bytes of payload: long enough, and with zero padding.
    #[inline(always)]
    fn lay_out<'f>(umem: &'f Umem, frame: &'f mut Frame, len: usize) -> io::Result<&'f mut [u8]> {
        let whole = F::HEADERS + len;
        frame.set_len(whole.max(MIN_FRAME_WITHOUT_FCS as usize));
        let bytes = umem.bytes_mut(frame);
        match bytes.get_mut(whole..) {
            // Most frames have no padding, and filling none would still be a call.
            Some([]) => {}
            Some(padding) => padding.fill(0),
            // The path has already checked the sizes against the ring's chunks.
            None => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "the payload does not fit into a frame of this ring"));
            }
        }
        Ok(bytes)
    }

    /// Puts the `outgoing` frame into the ring; `false`: the ring is full.
    #[inline(always)]
    fn transmit(&mut self) -> io::Result<bool> {
        let taken = self.io.tx_batch(&mut self.outgoing) == 1;
        self.busy = self.io.kick(Kick::Send)? == Kicked::Busy;
        Ok(taken)
    }

    #[inline(always)]
    fn give_back(&mut self) {
        if let Some((frame, _)) = self.held.take() {
            self.io.pool().give(frame);
        }
    }

    #[inline(always)]
    fn send(&mut self, flow: u32, len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<bool> {
        let Some(mut frame) = self.io.pool().take() else {
            // Every chunk is in a ring: one turn of the TX ring returns those that have been sent.
            return self.transmit().map(|_| false);
        };
        let bytes = Self::lay_out(&self.umem, &mut frame, len)?;
        fill(&mut bytes[F::HEADERS..F::HEADERS + len]);
        self.framing.write(bytes, flow, len, false);
        self.outgoing.push(frame);
        let taken = self.transmit()?;
        if let Some(frame) = self.outgoing.pop() {
            self.io.pool().give(frame);
        }
        Ok(taken)
    }

    /// Takes the next frame out of the ring, and holds it if it is a message.
    #[inline(always)]
    fn look(&mut self) -> io::Result<Option<()>> {
        if self.io.rx_batch(&mut self.arrived, 1) == 0 {
            if self.attended {
                self.io.kick(Kick::Receive)?;
            }
            if self.busy {
                self.busy = self.io.kick(Kick::Send)? == Kicked::Busy;
            }
            return Ok(None);
        }
        let Some(Arrival { frame, vlan, .. }) = self.arrived.pop() else { return Ok(None) };
        match self.framing.read(self.umem.bytes(&frame)) {
            Some(message) if !is_of_vlan(vlan) => {
                self.held = Some((frame, message));
                Ok(Some(()))
            }
            _ => {
                self.strays += u64::from(!self.framing.is_own(self.umem.bytes(&frame)));
                self.io.pool().give(frame);
                Ok(None)
            }
        }
    }

    /// Kicks the frames that found no room. Nothing wakes the thread when there is some, so the wait that follows is short while
    /// they are still there. Returns the wait's end.
    #[cold]
    fn kick_again(&mut self, clock: Option<AnyClock>, until: Ticks) -> io::Result<Ticks> {
        self.busy = self.io.kick(Kick::Send)? == Kicked::Busy;
        Ok(match clock {
            Some(clock) if self.busy => clock.now().plus(clock.to_ticks(BUSY_NS)).min(until),
            _ => until,
        })
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        if let Some((mut frame, message)) = self.held.take() {
            let bytes = Self::lay_out(&self.umem, &mut frame, len)?;
            self.framing.write(bytes, flow, len, message.checked && message.len == len);
            self.outgoing.push(frame);
        }
        self.transmit()
    }
}

/// True for a frame of a VLAN: a device took its tag out. VLAN 0 is none: such a tag tells a priority alone (IEEE 802.1Q).
#[inline(always)]
fn is_of_vlan(tag: Option<Vlan>) -> bool {
    tag.is_some_and(|tag| tag.id() != 0)
}

/// A ring that loses nothing has no interface that may be down: there the same error means that its peer has ended.
#[cold]
fn ended<const LOSSY: bool>(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NetworkDown if !LOSSY => io::ErrorKind::UnexpectedEof.into(),
        _ => error,
    }
}

impl<I: PacketIo, F: Framing, const LOSSY: bool> Endpoint for Frames<'_, I, F, LOSSY> {
    fn is_lossy(&self) -> bool {
        LOSSY
    }

    #[inline(always)]
    fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
        self.ring.send(flow, len, |payload| content.write(payload)).map_err(ended::<LOSSY>)
    }

    fn await_room(&mut self, _flow: u32) -> io::Result<()> {
        // The descriptor of a ring in shared memory tells of arrivals alone.
        if LOSSY && self.wait.sleeps() { for_room(self.ring.io.sends_on()) } else { Ok(()) }
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let Frames { wait, clock, ring } = self;
        ring.give_back();
        let came = match wait.spinning() {
            // Spinning has the look in its own loop; the other policies call it.
            Some(spin) => loop {
                let came = ring.look()?;
                // What loses nothing is an emulated NIC, no device's ring.
                if came.is_some() || if LOSSY { spin.is_past(until) } else { spin.is_over(until) } {
                    break came;
                }
            },
            None => {
                let until = if ring.busy { ring.kick_again(*clock, until)? } else { until };
                wait.wait(until, |_| ring.look())?
            }
        };
        if came.is_none() && !ring.attended && wait.sleeps() {
            // poll(2) says only that there is an error or an end: the interface may be gone, or the peer.
            ring.io.kick(Kick::Receive).map_err(ended::<LOSSY>)?;
        }
        let Ring { umem, held, .. } = ring;
        Ok(held.as_ref().map(|(frame, message)| {
            // read() has checked that the payload lies inside the frame.
            Reply { flow: message.flow, bytes: &umem.bytes(frame)[F::HEADERS..F::HEADERS + message.len] }
        }))
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        self.ring.reply(flow, len).map_err(ended::<LOSSY>)
    }
}
