//! A flow over a stream socket: whole messages from a byte stream without boundaries.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use hairpin_sys::message::{recv, send};
use hairpin_sys::socket::{self, TCP_QUICKACK};
use hairpin_sys::timestamping::{self, Control};
use hairpin_sys::wait::or_nothing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::flows::Carrier;
use crate::stamped::Stampable;

/// No send sleeps in the kernel, even on a blocking socket: two sides with full buffers would wait for each other.
const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// One connection.
pub(crate) struct Stream<'fd> {
    fd: BorrowedFd<'fd>,
    /// Bytes of the message that has begun.
    have: usize,
    how: &'fd How,
    #[cfg(feature = "tls")]
    tls: Option<Box<crate::tls::Session>>,
    /// System calls other than one send and the receives.
    pub(crate) extra_calls: u64,
    /// The last send waited for room.
    waited: bool,
}

/// Sending of a message over the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// A send without progress for this time is an error.
    pub(crate) patience: Duration,
    /// Value to set TCP_QUICKACK to again for every message; `None` leaves acknowledgements to the kernel.
    pub(crate) quickack: Option<bool>,
    /// Number of writes per message, each with a part of it.
    pub(crate) writes: u32,
}

impl How {
    /// In one write, with the kernel's acknowledgements.
    pub(crate) fn plain(patience: Duration) -> How {
        How { patience, quickack: None, writes: 1 }
    }
}

impl<'fd> Stream<'fd> {
    /// Wraps connected streams.
    pub(crate) fn all(fds: &'fd [OwnedFd], how: &'fd How) -> Vec<Stream<'fd>> {
        let one = |fd: &'fd OwnedFd| Stream {
            fd: fd.as_fd(),
            have: 0,
            how,
            #[cfg(feature = "tls")]
            tls: None,
            extra_calls: 0,
            waited: false,
        };
        fds.iter().map(one).collect()
    }

    /// Sends `message` in one call if the buffer has room; the remainder follows.
    #[inline(always)]
    fn send_whole(&mut self, message: &[u8]) -> io::Result<bool> {
        self.sent(message, send(self.fd, message, AT_ONCE))
    }

    /// Sends the part of `message` that the call that returned `sent` has left.
    #[inline(always)]
    fn sent(&mut self, message: &[u8], sent: Result<usize, Errno>) -> io::Result<bool> {
        match or_nothing(sent)? {
            Some(sent) if sent == message.len() => Ok(true),
            None => Ok(false),
            Some(sent) => self.push(&message[sent..]).map(|()| true),
        }
    }

    fn push(&mut self, rest: &[u8]) -> io::Result<()> {
        self.waited = true;
        push_to_socket(self.fd, rest, self.how.patience)
    }

    /// Puts TLS between this flow's bytes and its stream.
    #[cfg(feature = "tls")]
    pub(crate) fn secure(&mut self, connector: &crate::tls::Connector) -> io::Result<&crate::tls::Session> {
        Ok(self.tls.insert(Box::new(connector.begin(self.fd, self.how.patience)?)))
    }

    /// Sends a request of the user's own.
    #[inline(always)]
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            self.waited = tls.send(self.fd, request, self.how.patience)?;
            return Ok(true);
        }
        self.send(request)
    }

    /// True if TLS holds bytes that were taken from the socket and not read yet.
    #[inline(always)]
    pub(crate) fn holds_more(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.holds_more());
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Receives the bytes that have come, at most a buffer full. `None`: nothing yet; 0: the end of the stream.
    #[inline(always)]
    pub(crate) fn recv_some(&mut self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<Option<usize>> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.recv(self.fd, buffer, flags);
        }
        or_nothing(recv(self.fd, buffer, flags))
    }

    /// Sends a message in several writes, like a program that writes head and body separately; `asking` for stamps of the last
    /// one.
    #[inline(never)]
    fn send_in_parts(&mut self, message: &[u8], asking: bool) -> io::Result<bool> {
        let mut sent = 0;
        for end in ends(message.len(), self.how.writes as usize) {
            let part = &message[sent..end];
            let done = match asking && end == message.len() {
                true => self.sent(part, timestamping::send(self.fd, part, AT_ONCE)),
                false => self.send_whole(part),
            };
            if !done? {
                if sent == 0 {
                    return Ok(false);
                }
                // Once begun, a message is completed.
                self.push(part)?;
            }
            sent = end;
        }
        self.extra_calls += (message.len().clamp(1, self.how.writes as usize) - 1) as u64;
        Ok(true)
    }

    /// Counts `len` bytes that came; the message's length once it is whole.
    #[inline(always)]
    fn received_more(&mut self, len: usize, expected: usize) -> io::Result<Option<usize>> {
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
    fn rearm(&mut self) -> io::Result<()> {
        if let Some(on) = self.how.quickack {
            socket::set(self.fd, TCP_QUICKACK, on.into())?;
            self.extra_calls += 1;
        }
        Ok(())
    }
}

/// The ends of the parts of a message of `len` bytes: of equal length to within one byte, and none empty.
fn ends(len: usize, writes: usize) -> impl Iterator<Item = usize> {
    let parts = writes.min(len).max(1);
    (1..=parts).map(move |part| len * part / parts)
}

impl<'fd> Carrier<'fd> for Stream<'fd> {
    const LOSSY: bool = false;
    const WHOLE: bool = false;

    fn readable(&self) -> BorrowedFd<'fd> {
        self.fd
    }

    #[inline(always)]
    fn begun(&self) -> usize {
        self.have
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        if self.how.writes > 1 { self.send_in_parts(message, false) } else { self.send_whole(message) }
    }

    #[inline(always)]
    fn has_waited(&mut self) -> bool {
        std::mem::take(&mut self.waited)
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>> {
        let Some(len) = or_nothing(recv(self.fd, &mut buffer[self.have..expected], RecvFlags::empty()))? else {
            return Ok(None);
        };
        self.received_more(len, expected)
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

impl<'fd> Stampable<'fd> for Stream<'fd> {
    fn send_asking(&mut self, message: &[u8]) -> io::Result<bool> {
        if self.how.writes > 1 {
            return self.send_in_parts(message, true);
        }
        self.sent(message, timestamping::send(self.fd, message, AT_ONCE))
    }

    fn recv_stamped(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<(usize, Control)>> {
        let Some((len, came)) = or_nothing(timestamping::recv(self.fd, &mut buffer[self.have..expected]))? else {
            return Ok(None);
        };
        Ok(self.received_more(len, expected)?.map(|len| (len, came)))
    }
}

/// Sends the remainder of a message after `fd`'s buffer filled up; no progress for `patience` is an error.
#[cold]
pub(crate) fn push_rest(
    fd: impl AsFd,
    mut rest: &[u8],
    patience: Duration,
    send: impl Fn(&[u8]) -> Result<usize, Errno>,
) -> io::Result<()> {
    let mut since = Instant::now();
    while !rest.is_empty() {
        let left = patience.saturating_sub(since.elapsed());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let sent = match or_nothing(poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&left)))? {
            Some(1..) => or_nothing(send(rest))?.unwrap_or(0),
            _ => 0,
        };
        if sent > 0 {
            rest = &rest[sent..];
            since = Instant::now();
        } else if since.elapsed() >= patience {
            // Signals do not prolong the wait.
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the peer takes no more: with large payloads lower --outstanding, or raise sndbuf and rcvbuf",
            ));
        }
    }
    Ok(())
}

/// As [`push_rest`], on a socket, which may be a blocking one without a time limit of its own.
#[cold]
pub(crate) fn push_to_socket(socket: BorrowedFd<'_>, rest: &[u8], patience: Duration) -> io::Result<()> {
    push_rest(socket, rest, patience, |rest| send(socket, rest, AT_ONCE))
}

/// Error for a peer that has closed its end.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the end of the stream")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;
    use std::thread::sleep;

    use super::*;

    #[test]
    fn patience_lasts_from_the_last_progress_however_many_signals_come() {
        let (writable, _other) = UnixStream::pair().unwrap();
        let calls = Cell::new(0);
        let send = |_: &[u8]| {
            calls.set(calls.get() + 1);
            match calls.get() {
                0..=3 => {
                    sleep(Duration::from_millis(20));
                    Ok(1)
                }
                4..=1_000 => {
                    sleep(Duration::from_millis(1));
                    Err(Errno::INTR)
                }
                _ => Err(Errno::PIPE),
            }
        };
        let why = push_rest(&writable, &[0; 9], Duration::from_millis(30), send).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut, "{why}");
        assert!(calls.get() > 3, "three sends of 20 ms each are progress");
    }

    #[test]
    fn the_rest_waits_no_longer_than_patience_on_a_blocking_socket() {
        let (blocking, _other) = UnixStream::pair().unwrap();
        // Ends the test, not the wait.
        blocking.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        let began = Instant::now();
        let why = push_to_socket(blocking.as_fd(), &vec![0; 8 << 20], Duration::from_millis(50)).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut, "{why}");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    }

    #[test]
    fn a_message_with_fewer_bytes_than_writes_takes_a_call_for_each() {
        let (ours, _other) = UnixStream::pair().unwrap();
        let (fds, how) = ([OwnedFd::from(ours)], How { writes: 16, ..How::plain(Duration::from_secs(5)) });
        let mut flow = Stream::all(&fds, &how).remove(0);
        assert!(flow.send(&[7; 8]).unwrap());
        assert_eq!(flow.extra_calls, 7);
    }

    #[test]
    fn parts_are_whole_together_and_none_is_empty() {
        let ends = |len, writes| ends(len, writes).collect::<Vec<_>>();
        assert_eq!([ends(64, 2), ends(7, 3), ends(1, 4)], [vec![32, 64], vec![2, 4, 7], vec![1]]);
    }
}
