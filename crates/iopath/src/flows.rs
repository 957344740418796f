//! The endpoint of all paths over file descriptors: flows, one wait over all of them, and a buffer each.

use std::io;
use std::os::fd::BorrowedFd;

use hairpin_sys::clock::Ticks;
use hairpin_sys::wait::Waiting;

use crate::delay::Delay;
use crate::endpoint::{Endpoint, Reply};

/// One flow: sends and receives whole messages over descriptors that are open for `'fd`.
pub(crate) trait Carrier<'fd> {
    /// True if the path may drop a message.
    const LOSSY: bool;
    /// True if every message comes whole in one receive, so that all flows share one buffer.
    const WHOLE: bool;

    /// The descriptor to wait on.
    fn readable(&self) -> BorrowedFd<'fd>;
    /// Sends one whole message. `false`: the path is full, nothing was sent.
    fn send(&mut self, message: &[u8]) -> io::Result<bool>;
    /// Receives towards one whole message of `expected` bytes into `buffer`, which is one byte longer to detect a longer
    /// datagram. `None`: not whole yet. The end of the stream is an error.
    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>>;
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

/// Buffers begin on cache lines of their own.
const LINE: usize = 64;

/// The flows of one thread as an [`Endpoint`].
pub(crate) struct Flows<'a, 'fd, F> {
    flows: &'a mut [F],
    wait: Waiting<'fd>,
    delay: Option<Delay>,
    outgoing: Vec<u8>,
    /// The flows' buffers, one after the other: `apart` bytes lie between the begins of two, none where all share one.
    incoming: Vec<u8>,
    apart: usize,
    expected: usize,
}

impl<'a, 'fd, F: Carrier<'fd>> Flows<'a, 'fd, F> {
    /// Takes messages of `expected` bytes in and at most `longest` bytes out.
    pub(crate) fn new(flows: &'a mut [F], wait: Waiting<'fd>, expected: usize, longest: usize) -> Flows<'a, 'fd, F> {
        let bytes = (expected.max(longest) + 1).next_multiple_of(LINE);
        let (apart, buffers) = if F::WHOLE { (0, 1) } else { (bytes, flows.len()) };
        Flows { flows, wait, delay: None, outgoing: vec![0; longest], incoming: vec![0; buffers * bytes], apart, expected }
    }

    /// Sets the `delay` before each answer, if any.
    pub(crate) fn delayed(self, delay: Option<Delay>) -> Flows<'a, 'fd, F> {
        Flows { delay, ..self }
    }
}

impl<'fd, F: Carrier<'fd>> Endpoint for Flows<'_, 'fd, F> {
    const LOSSY: bool = F::LOSSY;

    #[inline(always)]
    fn send(&mut self, flow: u32, len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<bool> {
        let message = &mut self.outgoing[..len];
        fill(message);
        self.flows[flow as usize].send(message)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let (flows, incoming, apart, expected) = (&mut *self.flows, &mut self.incoming, self.apart, self.expected);
        let received = self.wait.wait(until, |at| {
            let len = flows[at].recv(&mut incoming[at * apart..][..expected + 1], expected)?;
            Ok(len.map(|len| (at, len)))
        })?;
        Ok(received.map(|(at, len)| Reply { flow: at as u32, bytes: &self.incoming[at * self.apart..][..len] }))
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
        self.flows[flow as usize].send(&self.incoming[flow as usize * self.apart..][..len])
    }
}
