//! A path as the measuring loop sees it: sends requests, receives replies in place, and answers.

use std::io;

use hairpin_sys::clock::Ticks;

use crate::content::Content;

/// All flows of one thread. On the client [`drive`](crate::drive::drive) calls `prepare`, `begins`, `send`, `await_room`,
/// `has_waited`, `recv` and `received`; on the server [`echo`](crate::echo::echo) calls `recv`, `replying`, `reply` and
/// `await_room`. `Self: Sized` keeps the methods that only a server calls out of the table of a client's loops.
pub trait Endpoint {
    /// True if the path may drop a message: an unanswered request then means a loss, not a dead peer.
    fn is_lossy(&self) -> bool;

    /// Writes the next request before its send stamp, so that this takes no part of the RTT. Does nothing by default, for paths
    /// whose `send` writes the request where it is sent from.
    #[inline(always)]
    fn prepare(&mut self, _len: usize, _content: Content) {}

    /// A transaction begins; `sent` is its send stamp. Does nothing by default.
    #[inline(always)]
    fn begins(&mut self, _sent: Ticks) {}

    /// Sends a request of `len` bytes on `flow`, that which `prepare` wrote or one written in place. `false`: the path is full for
    /// now and nothing was sent.
    fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool>;

    /// After a send on `flow` found the path full, while no message is waited for: sleeps until there may be room, for a short
    /// time at most, if the wait policy sleeps. Does nothing by default.
    fn await_room(&mut self, _flow: u32) -> io::Result<()> {
        Ok(())
    }

    /// True if the last `send` or `recv` waited until the peer took more, so that its time is no stop of this process. Asked only
    /// of paths that drop no message. False by default.
    #[inline(always)]
    fn has_waited(&mut self) -> bool {
        false
    }

    /// Receives the next whole message of any flow, in place. `None`: `until` has passed, or a signal or the kernel's own time
    /// limit ended the wait.
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>>;

    /// Work after the client's receive stamp `at`, such as closing a connection. Does nothing by default.
    #[inline(always)]
    fn received(&mut self, _flow: u32, _at: Ticks) -> io::Result<()> {
        Ok(())
    }

    /// Between blocks: folds the path's own timings; `keep` is false during warm-up, and for a block that counts in no figure.
    /// Does nothing by default.
    fn fold(&mut self, _keep: bool) {}

    /// Work before the server's send, inside the RTT. Does nothing by default.
    #[inline(always)]
    fn replying(&mut self, _flow: u32) -> io::Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }

    /// Answers the request last returned by `recv` on `flow` with `len` bytes, beginning with the request's own. An error by
    /// default, because a path's client never answers.
    #[inline(always)]
    fn reply(&mut self, _flow: u32, _len: usize) -> io::Result<bool>
    where
        Self: Sized,
    {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sends replies that are still queued for the next receive call. Does nothing by default.
    fn flush(&mut self) -> io::Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }
}

/// A message in the endpoint's own buffer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub flow: u32,
    pub bytes: &'a [u8],
}
