//! The endpoint of all paths over file descriptors: flows, one wait over all of them, and a buffer each.

use std::io;
use std::os::fd::BorrowedFd;

use hairpin_sys::clock::Ticks;
use hairpin_sys::wait::{Waiting, for_room};

use crate::content::Content;
use crate::delay::Delay;
use crate::endpoint::{Endpoint, Reply};

/// One flow: sends and receives whole messages over descriptors that are open for `'fd`.
pub(crate) trait Carrier<'fd> {
    /// True if the path may drop a message.
    const LOSSY: bool;
    /// True if every message comes whole in one receive.
    const WHOLE: bool;

    /// The descriptor to wait on.
    fn readable(&self) -> BorrowedFd<'fd>;
    /// The descriptor that is sent on.
    fn writable(&self) -> BorrowedFd<'fd> {
        self.readable()
    }
    /// Sends one whole message. `false`: the path is full, nothing was sent.
    fn send(&mut self, message: &[u8]) -> io::Result<bool>;
    /// True if the last send waited for room. False by default.
    #[inline(always)]
    fn has_waited(&mut self) -> bool {
        false
    }
    /// Receives more of a message of `expected` bytes into `buffer`, which is one byte longer to detect a longer datagram.
    /// `None`: not whole yet. The end of the stream is an error.
    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>>;
    /// Bytes of a message of which the remainder has not come.
    #[inline(always)]
    fn begun(&self) -> usize {
        0
    }
    /// Work after the client's receive stamp. Does nothing by default.
    #[inline(always)]
    fn received(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Work before the server's send. Does nothing by default.
    #[inline(always)]
    fn replying(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Size of a cache line.
const LINE: usize = 64;
/// Longer messages often come in parts.
const SHORT: usize = 4096;

/// The flows of one thread as an [`Endpoint`].
pub(crate) struct Flows<'a, 'fd, F> {
    flows: &'a mut [F],
    wait: Waiting<'fd>,
    delay: Option<Delay>,
    outgoing: Lines,
    incoming: Incoming,
    expected: usize,
    /// The last send waited for room.
    waited: bool,
}

/// Bytes that begin on a cache line: the kernel's copy of a short message touches one line less.
struct Lines {
    bytes: Vec<u8>,
    first: usize,
}

impl Lines {
    fn new(len: usize) -> Lines {
        let bytes = vec![0; len + LINE - 1];
        let first = bytes.as_ptr().align_offset(LINE).min(LINE - 1);
        Lines { bytes, first }
    }

    #[inline(always)]
    fn from(&mut self, at: usize) -> &mut [u8] {
        &mut self.bytes[self.first + at..]
    }
}

/// Receive buffers. All flows share one for short messages, because with many flows each cache line of a flow's own takes time.
struct Incoming {
    /// One buffer, or one for each flow, `apart` bytes from the beginning of one to that of the next.
    bytes: Lines,
    apart: usize,
    /// With one buffer: the begun part of each flow's message, kept here while another flow may use the buffer.
    begun: Vec<u8>,
    longest: usize,
}

impl Incoming {
    fn new<'fd, F: Carrier<'fd>>(flows: usize, longest: usize) -> Incoming {
        let bytes = (longest + 1).next_multiple_of(LINE);
        let (apart, buffers) = if F::WHOLE || longest <= SHORT || flows == 1 { (0, 1) } else { (bytes, flows) };
        let parts = !F::WHOLE && apart == 0 && flows > 1;
        Incoming { bytes: Lines::new(buffers * bytes), apart, begun: vec![0; if parts { flows * longest } else { 0 }], longest }
    }

    #[inline(always)]
    fn of<'fd, F: Carrier<'fd>>(&mut self, flow: usize) -> &mut [u8] {
        self.bytes.from(if F::WHOLE { 0 } else { flow * self.apart })
    }

    #[inline(always)]
    fn recv<'fd, F: Carrier<'fd>>(&mut self, flow: &mut F, at: usize, expected: usize) -> io::Result<Option<usize>> {
        if flow.begun() > 0 {
            self.bring_back(at, flow.begun());
        }
        let len = flow.recv(&mut self.of::<F>(at)[..expected + 1], expected)?;
        if len.is_none() && flow.begun() > 0 {
            self.put_away(at, flow.begun());
        }
        Ok(len)
    }

    /// Receives more of a message on flow `at`; once it is whole, returns the flow and the message's length.
    #[inline(always)]
    fn attempt<'fd, F: Carrier<'fd>>(
        &mut self,
        flows: &mut [F],
        at: usize,
        expected: usize,
    ) -> io::Result<Option<(usize, usize)>> {
        Ok(self.recv(&mut flows[at], at, expected)?.map(|len| (at, len)))
    }

    #[cold]
    fn put_away(&mut self, flow: usize, len: usize) {
        if !self.begun.is_empty() {
            self.begun[flow * self.longest..][..len].copy_from_slice(&self.bytes.from(0)[..len]);
        }
    }

    #[cold]
    fn bring_back(&mut self, flow: usize, len: usize) {
        if !self.begun.is_empty() {
            self.bytes.from(0)[..len].copy_from_slice(&self.begun[flow * self.longest..][..len]);
        }
    }
}

impl<'a, 'fd, F: Carrier<'fd>> Flows<'a, 'fd, F> {
    /// For messages of `expected` bytes in and at most `longest` bytes out.
    pub(crate) fn new(flows: &'a mut [F], wait: Waiting<'fd>, expected: usize, longest: usize) -> Flows<'a, 'fd, F> {
        let incoming = Incoming::new::<F>(flows.len(), expected.max(longest));
        Flows { flows, wait, delay: None, outgoing: Lines::new(longest), incoming, expected, waited: false }
    }

    /// Sets the `delay` before each answer, if any.
    pub(crate) fn delayed(self, delay: Option<Delay>) -> Flows<'a, 'fd, F> {
        Flows { delay, ..self }
    }
}

impl<'fd, F: Carrier<'fd>> Endpoint for Flows<'_, 'fd, F> {
    fn is_lossy(&self) -> bool {
        F::LOSSY
    }

    #[inline(always)]
    fn prepare(&mut self, len: usize, content: Content) {
        content.write(&mut self.outgoing.from(0)[..len]);
    }

    #[inline(always)]
    fn send(&mut self, flow: u32, len: usize, _content: Content) -> io::Result<bool> {
        let flow = &mut self.flows[flow as usize];
        let sent = flow.send(&self.outgoing.from(0)[..len]);
        if !F::WHOLE {
            self.waited = flow.has_waited();
        }
        sent
    }

    #[inline(always)]
    fn has_waited(&mut self) -> bool {
        !F::WHOLE && std::mem::take(&mut self.waited)
    }

    fn await_room(&mut self, flow: u32) -> io::Result<()> {
        if self.wait.sleeps() { for_room(self.flows[flow as usize].writable()) } else { Ok(()) }
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let (flows, incoming, expected) = (&mut *self.flows, &mut self.incoming, self.expected);
        let received = match self.wait.spinning() {
            // Spinning has the attempt in its own loop; the other policies call it.
            Some(spin) => {
                let mut turns = *spin;
                let found = loop {
                    let found = incoming.attempt(flows, turns.turn(), expected)?;
                    if found.is_some() || turns.is_over(until) {
                        break found;
                    }
                };
                spin.go_on(turns);
                found
            }
            None => self.wait.wait(until, |at| incoming.attempt(flows, at, expected))?,
        };
        Ok(received.map(|(at, len)| Reply { flow: at as u32, bytes: &self.incoming.of::<F>(at)[..len] }))
    }

    #[inline(always)]
    fn received(&mut self, flow: u32, _at: Ticks) -> io::Result<()> {
        self.flows[flow as usize].received()
    }

    #[inline(always)]
    fn replying(&mut self, flow: u32) -> io::Result<()> {
        if let Some(delay) = &self.delay {
            delay.take();
        }
        self.flows[flow as usize].replying()
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        self.flows[flow as usize].send(&self.incoming.of::<F>(flow as usize)[..len])
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use hairpin_sys::clock::{AnyClock, Clock, MonotonicRaw};
    use hairpin_sys::wait::{Policy, ROOM_NS};

    use super::*;
    use crate::stream::{How, Stream};

    #[test]
    fn a_full_flow_is_awaited_by_a_policy_that_sleeps() {
        let clock = AnyClock::Raw(MonotonicRaw);
        let (peer, our) = UnixStream::pair().unwrap();
        let (ours, how) = ([OwnedFd::from(our)], How::plain(Duration::from_secs(1)));
        let mut streams = Stream::all(&ours, &how);
        let wait = Waiting::on(Policy::Poll, 0, clock, &[streams[0].readable()]).unwrap();
        let mut flows = Flows::new(&mut streams, wait, 64, 64);
        let content = Content { sequence: 0, cookie: 0, verify: false };
        while flows.send(0, 64, content).unwrap() {}
        let start = clock.now();
        flows.await_room(0).unwrap();
        assert!(clock.to_ns(clock.now().since(start)) >= ROOM_NS / 2);
        peer.set_nonblocking(true).unwrap();
        while (&peer).read(&mut [0; 4096]).is_ok() {}
        flows.await_room(0).unwrap();
        assert!(flows.send(0, 64, content).unwrap());
    }

    #[test]
    fn a_send_to_a_peer_that_reads_late_has_waited_under_every_policy() {
        const LEN: usize = 4 << 20;
        let clock = AnyClock::Raw(MonotonicRaw);
        for policy in [Policy::Block, Policy::Poll, Policy::Spin] {
            let (mut peer, our) = UnixStream::pair().unwrap();
            let (ours, how) = ([OwnedFd::from(our)], How::plain(Duration::from_secs(10)));
            let mut streams = Stream::all(&ours, &how);
            let wait = Waiting::on(policy, 0, clock, &[streams[0].readable()]).unwrap();
            let mut flows = Flows::new(&mut streams, wait, 64, LEN);
            let content = Content { sequence: 0, cookie: 0, verify: false };
            assert!(flows.send(0, 64, content).unwrap() && !flows.has_waited(), "{policy}");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    peer.read_exact(&mut vec![0; 64 + LEN]).unwrap();
                });
                assert!(flows.send(0, LEN, content).unwrap(), "{policy}");
            });
            assert_eq!([flows.has_waited(), flows.has_waited()], [true, false], "{policy}: told once");
        }
    }

    #[test]
    fn messages_that_come_in_parts_on_two_flows_stay_whole() {
        for len in [64, 3 * SHORT] {
            let clock = AnyClock::Raw(MonotonicRaw);
            let (mut peers, ours): (Vec<UnixStream>, Vec<OwnedFd>) =
                (0..2).map(|_| UnixStream::pair().unwrap()).map(|(peer, our)| (peer, our.into())).unzip();
            let how = How::plain(Duration::from_secs(1));
            let mut streams = Stream::all(&ours, &how);
            let fds: Vec<_> = streams.iter().map(Carrier::readable).collect();
            let wait = Waiting::on(Policy::Spin, 0, clock, &fds).unwrap();
            let mut flows = Flows::new(&mut streams, wait, len, len);
            let messages = [vec![1; len], vec![2; len]];
            let mut received = |ms: u64| {
                let reply = flows.recv(clock.now().plus(clock.to_ticks(ms * 1_000_000))).unwrap();
                reply.map(|reply| (reply.flow, reply.bytes.to_vec()))
            };
            for at in [3, 40, len] {
                for (peer, message) in peers.iter_mut().zip(&messages) {
                    let before = [0, 3, 40].into_iter().rfind(|before| *before < at).unwrap();
                    peer.write_all(&message[before..at]).unwrap();
                }
                if at < len {
                    assert_eq!(received(1), None);
                }
            }
            let mut came: Vec<_> = (0..2).map(|_| received(1000).expect("a message")).collect();
            came.sort();
            let [first, second] = messages;
            assert_eq!(came, [(0, first), (1, second)]);
        }
    }
}
