//! What a path is to the measuring loop: something that sends requests, receives replies in place, and answers.

use std::io;

use hairpin_sys::clock::Ticks;

/// Every flow of one thread. On the client [`drive`](crate::drive::drive) calls `begins`, `send`, `recv` and `received`; on the server
/// [`echo`](crate::echo::echo) calls `recv`, `replying` and `reply`.
pub trait Endpoint {
    /// True if the path may drop a message, so that one unanswered is lost and not a dead peer.
    const LOSSY: bool;

    /// A transaction begins: its send stamp. Nothing by default.
    #[inline(always)]
    fn begins(&mut self, _sent: Ticks) {}

    /// Sends a request of `len` bytes on `flow`, filled in place. `false`: the path is full for now and nothing was sent.
    fn send(&mut self, flow: u32, len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<bool>;

    /// The next whole message of any flow, in place. `None`: `until` has passed, or a signal or the kernel's own time limit ended the
    /// wait.
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>>;

    /// What the path owes after the client's receive stamp `at`, such as closing a connection. Nothing by default.
    #[inline(always)]
    fn received(&mut self, _flow: u32, _at: Ticks) -> io::Result<()> {
        Ok(())
    }

    /// Between blocks: folds what the path itself has timed; `keep` is false during warm-up. Nothing by default.
    fn fold(&mut self, _keep: bool) {}

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
