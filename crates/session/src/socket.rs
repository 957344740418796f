//! Reads and writes on a stream socket, each with a deadline that trickling bytes do not extend.
//!
//! Does not depend on the socket's own blocking mode, nor change it: every call passes `MSG_DONTWAIT`, and ppoll(2) does the
//! waiting.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A connected UNIX or TCP stream socket.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    pub(super) fn new(fd: OwnedFd) -> Socket {
        Socket(fd)
    }

    /// Reads the bytes that have arrived: `None` without any, `Some(0)` at the end of the stream.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match recv(&self.0, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((read, _)) => return Ok(Some(read)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                // If the peer was killed with our bytes unread, the connection is reset; the caller treats this as any other end.
                Err(Errno::CONNRESET) => return Ok(Some(0)),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Waits for at least one byte; returns 0 at the end of the stream, `ErrorKind::TimedOut` at the deadline.
    pub(super) fn read(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            if let Some(read) = self.try_read(buffer)? {
                return Ok(read);
            }
            self.wait(PollFlags::IN, deadline)?;
        }
    }

    /// Writes all bytes. Returns `ErrorKind::BrokenPipe` if the other side is gone, `ErrorKind::TimedOut` at the deadline; some
    /// bytes may have been written then.
    pub(super) fn write_all(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match send(&self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(io::ErrorKind::BrokenPipe.into()),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// True if the kernel takes a short message at once, or the other side is gone: a socket is ready to be written to only while
    /// a good part of its buffer is free.
    pub(super) fn has_room(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], Some(&at_once)), Ok(1))
    }

    fn wait(&self, events: PollFlags, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // A time too long for the kernel means no deadline.
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&self.0, events)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
