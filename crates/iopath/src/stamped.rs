//! Sockets whose packets the kernel and the NIC stamp as long as a reader of the stamps asks for it.
//!
//! ```text
//!   client   send ─────── wait ──── receive ─ stop stamp ─ the request's stamps are read        outside the RTT
//!   server   receive ─ turn-around ─ send ─ the reply's stamps are read, while it is on its way  outside the turn-around
//! ```
//! Stamps of sent packets come through the socket's error queue. A NIC's stamp may come after they are read here; then it is read
//! after the next message, and its key names the message that it belongs to. A stamp wakes a wait that sleeps in poll(2): it is
//! read there, before the thread sleeps on.

use std::io;
use std::os::fd::BorrowedFd;

use hairpin_plan::job::Job;
use hairpin_record::run::Side;
use hairpin_sys::shared::{Packet, Stamps, Which};
use hairpin_sys::timestamping::{self, Ask, Control, Place};
use hairpin_sys::wait::Policy;
use hairpin_wire::probe;

use crate::error::PathError;
use crate::flows::Carrier;
use crate::measure::{ClientRun, ServerRun};

/// A flow over a socket that the kernel can stamp.
pub(crate) trait Stampable<'fd>: Carrier<'fd> {
    /// As [`Carrier::send`], and asks for stamps of this message.
    fn send_asking(&mut self, message: &[u8]) -> io::Result<bool>;
    /// As [`Carrier::recv`], with the stamps of the packet that completed the message.
    fn recv_stamped(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<(usize, Control)>>;
}

/// A flow that passes on the stamps of its packets.
struct Stamped<'a, F> {
    plain: F,
    stamps: &'a Stamps,
    ask: Ask,
    side: Side,
    /// The wait sleeps, and a stamp wakes it.
    polls: bool,
    /// The value of [`Stamps::wants_every`] that the socket was last told.
    every: u32,
    keys: Keys,
}

impl ClientRun<'_> {
    /// As [`over`](ClientRun::over), and passes on the stamps of packets if the job wants them. Returns the flows.
    pub(crate) fn over_stampable<'fd, F: Stampable<'fd> + Send>(&mut self, mut flows: Vec<F>) -> Result<Vec<F>, PathError> {
        let Some(stamps) = wanted(self.stamps, self.job) else { return self.over(&mut flows).map(|()| flows) };
        let mut stamped = all(flows, stamps, self.job, Side::Client);
        self.over(&mut stamped).map(|()| unwrapped(stamped))
    }
}

impl ServerRun<'_> {
    /// As [`over`](ServerRun::over), and passes on the stamps of packets if the job wants them. Returns the flows.
    pub(crate) fn over_stampable<'fd, F: Stampable<'fd> + Send>(&mut self, mut flows: Vec<F>) -> Result<Vec<F>, PathError> {
        let Some(stamps) = wanted(self.stamps, self.job) else { return self.over(&mut flows).map(|()| flows) };
        let mut stamped = all(flows, stamps, self.job, Side::Server);
        self.over(&mut stamped).map(|()| unwrapped(stamped))
    }
}

/// The area for stamps of packets, if the job wants such stamps.
fn wanted<'a>(stamps: Option<&'a Stamps>, job: &Job) -> Option<&'a Stamps> {
    stamps.filter(|_| job.socket_stamps || job.nic_stamps.is_some())
}

/// Wraps all flows of a side.
fn all<'a, 'fd, F: Stampable<'fd>>(flows: Vec<F>, stamps: &'a Stamps, job: &Job, side: Side) -> Vec<Stamped<'a, F>> {
    let policy = match side {
        Side::Client => job.spec.client.policy,
        Side::Server => job.spec.server.policy,
    };
    let stream = !F::WHOLE;
    let ask = Ask { each: true, queue: job.socket_stamps, hardware: job.nic_stamps.is_some(), stream };
    let polls = matches!(policy, Policy::Poll | Policy::Epoll | Policy::Adaptive);
    let one = |plain| Stamped { plain, stamps, ask, side, polls, every: 0, keys: Keys::new(stream) };
    flows.into_iter().map(one).collect()
}

/// The flows without their wrappers.
fn unwrapped<F>(flows: Vec<Stamped<'_, F>>) -> Vec<F> {
    flows.into_iter().map(|flow| flow.plain).collect()
}

impl<'fd, F: Stampable<'fd>> Stamped<'_, F> {
    /// Asks the kernel for as many stamps as the reader wants now; that changes between blocks only.
    #[cold]
    fn follow(&mut self, every: u32) -> io::Result<()> {
        // The keys of stamps in the queue still count from the old start.
        self.collect()?;
        let socket = self.plain.readable();
        match every {
            0 => timestamping::off(socket)?,
            _ => self.keys.begin(timestamping::on(socket, Ask { each: every == 1, ..self.ask })?),
        }
        self.every = every;
        Ok(())
    }

    /// Reads the stamps of sent messages.
    fn collect(&mut self) -> io::Result<()> {
        while let Some(sent) = timestamping::sent(self.plain.readable())? {
            let (which, sequence) = match self.keys.of(sent.key) {
                Sequence::Of(sequence) => (None, sequence),
                Sequence::Unknown => (Some(Which::Stray), 0),
                Sequence::Before => continue,
            };
            let software = match sent.place {
                Place::Queue => Which::Scheduled,
                Place::Driver => Which::SoftwareOut,
            };
            for (layer, at) in [(software, sent.software), (Which::HardwareOut, sent.hardware)] {
                if let Some(at) = at {
                    self.stamps.push_packet(Packet { which: which.unwrap_or(layer), at, sequence });
                }
            }
        }
        Ok(())
    }

    fn send_noting(&mut self, message: &[u8]) -> io::Result<bool> {
        let sequence = probe::sequence(message);
        let due = sequence.is_multiple_of(self.every);
        let sent = match due && self.every > 1 {
            true => self.plain.send_asking(message)?,
            false => self.plain.send(message)?,
        };
        if sent {
            self.keys.note(message.len(), sequence, due);
            if self.side == Side::Server {
                self.collect()?;
            }
        } else if due {
            self.keys.refused();
        }
        Ok(sent)
    }
}

impl<'fd, F: Stampable<'fd>> Carrier<'fd> for Stamped<'_, F> {
    const LOSSY: bool = F::LOSSY;
    const WHOLE: bool = F::WHOLE;

    fn readable(&self) -> BorrowedFd<'fd> {
        self.plain.readable()
    }

    fn writable(&self) -> BorrowedFd<'fd> {
        self.plain.writable()
    }

    #[inline(always)]
    fn begun(&self) -> usize {
        self.plain.begun()
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        let every = self.stamps.wants_every();
        if every != self.every {
            self.follow(every)?;
        }
        if self.every == 0 { self.plain.send(message) } else { self.send_noting(message) }
    }

    #[inline]
    fn has_waited(&mut self) -> bool {
        self.plain.has_waited()
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>> {
        if self.every == 0 {
            return self.plain.recv(buffer, expected);
        }
        let Some((len, came)) = self.plain.recv_stamped(buffer, expected)? else {
            if self.polls {
                self.collect()?;
            }
            return Ok(None);
        };
        let sequence = probe::sequence(&buffer[..len]);
        if sequence.is_multiple_of(self.every) {
            for (which, at) in [(Which::SoftwareIn, came.software), (Which::HardwareIn, came.hardware)] {
                if let Some(at) = at {
                    self.stamps.push_packet(Packet { which, at, sequence });
                }
            }
        }
        Ok(Some(len))
    }

    #[inline]
    fn received(&mut self) -> io::Result<()> {
        if self.every != 0 {
            self.collect()?;
        }
        self.plain.received()
    }

    #[inline]
    fn replying(&mut self) -> io::Result<()> {
        self.plain.replying()
    }
}

/// Messages whose keys are remembered: those of two traced blocks.
const REMEMBERED: usize = 8_192;

/// The keys of the messages sent last, as [`timestamping::on`] defines them.
struct Keys {
    stream: bool,
    /// The key of the next datagram, or on a stream of the next byte, and the key with which they began.
    next: u32,
    first: u32,
    /// Bytes of a message of a stream; all messages have the same number.
    length: u32,
    /// The keys of later datagrams are not known.
    lost_count: bool,
    /// Key and sequence number.
    messages: Box<[Option<(u32, u32)>]>,
}

/// The message that a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
    Of(u32),
    /// A part before the end of a message that was sent in several writes.
    Before,
    Unknown,
}

impl Keys {
    fn new(stream: bool) -> Keys {
        let messages = vec![None; REMEMBERED].into_boxed_slice();
        Keys { stream, next: 0, first: 0, length: 1, lost_count: false, messages }
    }

    /// Forgets all messages; keys begin again with `first`.
    fn begin(&mut self, first: u32) {
        (self.next, self.first, self.lost_count) = (first, first, false);
        self.messages.fill(None);
    }

    /// A message for which stamps were asked found no room. In older kernels such a datagram has used a key up (`sk_tskey` in
    /// `__ip_append_data`), so until keys begin again a stamp of a later one would be taken for that of its neighbour.
    #[cold]
    fn refused(&mut self) {
        self.lost_count |= !self.stream;
    }

    /// Notes a message of `len` bytes that was sent; `due` if stamps were asked for.
    #[inline]
    fn note(&mut self, len: usize, sequence: u32, due: bool) {
        let key = match self.stream {
            true => {
                self.length = (len as u32).max(1);
                self.next = self.next.wrapping_add(len as u32);
                self.next.wrapping_sub(1)
            }
            false if due && !self.lost_count => {
                self.next = self.next.wrapping_add(1);
                self.next.wrapping_sub(1)
            }
            false => return,
        };
        if due {
            self.messages[self.place(key)] = Some((key, sequence));
        }
    }

    fn place(&self, key: u32) -> usize {
        let count = key.wrapping_sub(self.first) / if self.stream { self.length } else { 1 };
        count as usize % REMEMBERED
    }

    fn of(&self, key: u32) -> Sequence {
        let sent = key.wrapping_sub(self.first) < self.next.wrapping_sub(self.first);
        match self.messages[self.place(key)] {
            Some((known, sequence)) if known == key => Sequence::Of(sequence),
            _ if self.stream && sent && !key.wrapping_sub(self.first).wrapping_add(1).is_multiple_of(self.length) => {
                Sequence::Before
            }
            _ => Sequence::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_numbered_as_they_are_asked_for() {
        let mut keys = Keys::new(false);
        keys.begin(0);
        for (sequence, due) in [(7, true), (8, false), (9, true)] {
            keys.note(64, sequence, due);
        }
        assert_eq!([0, 1, 2].map(|key| keys.of(key)), [Sequence::Of(7), Sequence::Of(9), Sequence::Unknown]);
        (0..REMEMBERED as u32).for_each(|n| keys.note(64, 100 + n, true));
        assert_eq!([0, 1, 2].map(|key| keys.of(key)), [Sequence::Unknown, Sequence::Unknown, Sequence::Of(100)]);
        keys.begin(0);
        assert_eq!(keys.of(2), Sequence::Unknown, "counted anew");
    }

    #[test]
    fn after_a_refused_datagram_no_stamp_is_taken_for_that_of_another_one() {
        let mut keys = Keys::new(false);
        keys.begin(0);
        keys.note(64, 7, true);
        keys.refused();
        (8..20).for_each(|sequence| keys.note(64, sequence, true));
        assert_eq!([0, 1, 2].map(|key| keys.of(key)), [Sequence::Of(7), Sequence::Unknown, Sequence::Unknown]);
        keys.begin(0);
        keys.note(64, 20, true);
        assert_eq!(keys.of(0), Sequence::Of(20));
        let mut stream = Keys::new(true);
        stream.begin(0);
        stream.refused();
        stream.note(64, 7, true);
        assert_eq!(stream.of(63), Sequence::Of(7), "bytes that were not taken count in no key");
    }

    #[test]
    fn a_stream_counts_bytes_and_parts_of_messages_are_told_apart() {
        for first in [0, 5_000, u32::MAX - 70] {
            let mut keys = Keys::new(true);
            keys.begin(first);
            (0..4).for_each(|n| keys.note(40, 30 + n, n != 2));
            let of = |bytes: u32| keys.of(first.wrapping_add(bytes).wrapping_sub(1));
            assert_eq!([of(40), of(80), of(160)], [Sequence::Of(30), Sequence::Of(31), Sequence::Of(33)]);
            assert_eq!([of(20), of(119)], [Sequence::Before, Sequence::Before]);
            assert_eq!([of(120), of(161), of(200)], [Sequence::Unknown; 3]);
        }
    }
}
