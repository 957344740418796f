//! What a path is to the measuring loop: something that sends requests, receives replies in place, and answers.

use std::io;

use hairpin_sys::clock::Ticks;

/// Every flow of one thread. On the client [`drive`](crate::drive::drive) calls `send`, `recv` and `received`; on the server
/// [`echo`](crate::echo::echo) calls `recv`, `replying` and `reply`.
pub trait Endpoint {
    /// True if the path may drop a message, so that one unanswered is lost and not a dead peer.
    const LOSSY: bool;

    /// Sends a request of `len` bytes on `flow`, filled in place. `false`: the path is full for now and nothing was sent.
    fn send<M: Marks>(&mut self, flow: u32, len: usize, fill: impl FnOnce(&mut [u8]), marks: &mut M) -> io::Result<bool>;

    /// The next whole message of any flow, in place. `None`: `until` has passed, or a signal or the kernel's own time limit ended the
    /// wait.
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>>;

    /// What the path owes after the client's receive stamp, such as closing a connection. Nothing by default.
    #[inline(always)]
    fn received<M: Marks>(&mut self, _flow: u32, _marks: &mut M) -> io::Result<()> {
        Ok(())
    }

    /// What the path owes before the server's send, inside the RTT. Nothing by default.
    #[inline(always)]
    fn replying(&mut self, _flow: u32) -> io::Result<()> {
        Ok(())
    }

    /// Answers the request that `recv` returned last on `flow` with `len` bytes, the first of which are the request's own.
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool>;
}

/// A message in the endpoint's own buffer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The flow it came on.
    pub flow: u32,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// Moments within a transaction that a path can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The connection stands.
    Connected,
    /// The reply is in the buffer.
    Replied,
    /// The connection is closed.
    Closed,
    /// A core that takes part has stood still since the request was sent.
    Stalled,
}

/// Takes the stamps of a transaction's parts.
pub trait Marks {
    /// A transaction begins: its send stamp.
    fn begin(&mut self, sent: Ticks);
    /// Its reply is there: its receive stamp.
    #[inline(always)]
    fn end(&mut self, _received: Ticks) {}
    /// A moment has come.
    fn mark(&mut self, mark: Mark);
    /// Between blocks: fold what was taken; `keep` is false during warm-up.
    fn fold(&mut self, keep: bool);
}

/// Takes none, and costs nothing.
pub struct NoMarks;

impl Marks for NoMarks {
    #[inline(always)]
    fn begin(&mut self, _sent: Ticks) {}
    #[inline(always)]
    fn mark(&mut self, _mark: Mark) {}
    fn fold(&mut self, _keep: bool) {}
}
