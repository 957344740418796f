//! A flow over a stream socket: whole messages out of a byte stream that keeps no bounds.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hairpin_sys::socket::{self, TCP_QUICKACK};
use hairpin_sys::wait::or_nothing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::flows::Carrier;
use crate::path::PathError;

/// The kernel decides about acknowledgements; see [`Stream`].
pub(crate) const QUICKACK_KERNEL: i32 = -1;

/// One connection. `QUICKACK` is [`QUICKACK_KERNEL`], or what TCP_QUICKACK is set to again for every message; a constant, so that the
/// loop does not ask.
pub(crate) struct Stream<const QUICKACK: i32> {
    fd: OwnedFd,
    have: usize,
    patience: Duration,
    /// System calls beyond send and receive.
    pub(crate) extra_calls: u64,
}

impl<const QUICKACK: i32> Stream<QUICKACK> {
    /// Connected streams; a send that makes no progress for `patience` is an error.
    pub(crate) fn all(fds: Vec<OwnedFd>, patience: Duration) -> Result<Vec<Self>, PathError> {
        let one = |fd: OwnedFd| {
            // Else two sides whose buffers are full would wait for each other for ever, each in its blocking send.
            socket::set_send_timeout(&fd, patience)?;
            Ok(Stream { fd, have: 0, patience, extra_calls: 0 })
        };
        fds.into_iter().map(one).collect::<io::Result<_>>().map_err(PathError::at("cannot bound the time of a send"))
    }

    /// Sends what the buffer had no room for.
    pub(crate) fn push(&self, rest: &[u8]) -> io::Result<()> {
        push_rest(&self.fd, rest, self.patience, |rest| send(&self.fd, rest, SendFlags::NOSIGNAL))
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.fd
    }

    #[inline(always)]
    fn rearm(&mut self) -> io::Result<()> {
        if QUICKACK != QUICKACK_KERNEL {
            socket::set(&self.fd, TCP_QUICKACK, QUICKACK)?;
            self.extra_calls += 1;
        }
        Ok(())
    }
}

impl<const QUICKACK: i32> Carrier for Stream<QUICKACK> {
    const LOSSY: bool = false;

    fn readable(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        let sent = or_nothing(send(&self.fd, message, SendFlags::NOSIGNAL))?;
        match sent {
            Some(sent) if sent == message.len() => Ok(true),
            None => Ok(false),
            Some(sent) => {
                self.push(&message[sent..])?;
                Ok(true)
            }
        }
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>> {
        let Some((len, _)) = or_nothing(recv(&self.fd, &mut buffer[self.have..expected], RecvFlags::empty()))? else {
            return Ok(None);
        };
        if len == 0 {
            return Err(closed());
        }
        self.have += len;
        if self.have < expected {
            return Ok(None);
        }
        self.have = 0;
        Ok(Some(expected))
    }

    #[inline(always)]
    fn received(&mut self) -> io::Result<()> {
        self.rearm()
    }

    #[inline(always)]
    fn replying(&mut self) -> io::Result<()> {
        self.rearm()
    }
}

/// Sends what is left of a message after `fd`'s buffer filled up; no progress for `patience` is an error.
#[cold]
pub(crate) fn push_rest(
    fd: &OwnedFd,
    mut rest: &[u8],
    patience: Duration,
    send: impl Fn(&[u8]) -> Result<usize, Errno>,
) -> io::Result<()> {
    let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    while !rest.is_empty() {
        let ready = poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&patience));
        if or_nothing(ready)? == Some(0) {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the peer takes no more: with large payloads lower --outstanding, or raise sndbuf and rcvbuf",
            ));
        }
        let sent = or_nothing(send(rest))?.unwrap_or(0);
        rest = &rest[sent..];
    }
    Ok(())
}

/// The peer has closed its end.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the end of the stream")
}
