//! How a port wakes the other one that sleeps, and learns that it is gone: a pair of connected UNIX sockets.
//!
//! ```text
//!   receiver: arms the lane ─▶ looks once more ─▶ sleeps on its socket ◀─ one byte ── sender: found the lane armed
//!                                                        ◀─ end of file ── the other process has ended, however
//! ```
//! Not an eventfd: the two sides of one share its flags, so a hostile one could make the other's write block. A socket is asked
//! not to wait call by call (`MSG_DONTWAIT`), and each side has an end of its own.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair, sockopt};

/// One end.
#[derive(Debug)]
pub(super) struct Bell {
    socket: OwnedFd,
    /// Always readable: for who would sleep although something is there.
    awake: OwnedFd,
    /// True if somebody asked for the descriptor since it was last looked at.
    asked: Cell<bool>,
    rung: u64,
}

/// Two ends that are joined.
pub(super) fn ends() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

impl Bell {
    /// Takes an end.
    ///
    /// # Errors
    /// `InvalidInput` if it is none; what the kernel said when it gave no eventfd.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Bell> {
        let kind = sockopt::socket_type(&socket).and_then(|kind| Ok((kind, sockopt::socket_domain(&socket)?)));
        if kind != Ok((SocketType::STREAM, AddressFamily::UNIX)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a UNIX stream socket"));
        }
        let awake = eventfd(1, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Bell { socket, awake, asked: Cell::new(false), rung: 0 })
    }

    /// Wakes the other side.
    #[cold]
    pub(super) fn ring(&mut self) {
        self.rung = self.rung.wrapping_add(1);
        // It fails if the other side is gone, or does not read: then it is awake.
        let _ = send(&self.socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// How often the other side was woken.
    pub(super) fn rung(&self) -> u64 {
        self.rung
    }

    /// Forgets that this side was woken.
    pub(super) fn empty(&self) {
        let _ = recv(&self.socket, &mut [0; 64][..], RecvFlags::DONTWAIT);
    }

    /// What to sleep on; `arrived`: not to sleep.
    pub(super) fn descriptor(&self, arrived: bool) -> BorrowedFd<'_> {
        self.asked.set(true);
        if arrived { self.awake.as_fd() } else { self.socket.as_fd() }
    }

    /// True if the other process is gone. Asks the kernel only if somebody wanted to sleep since the last time.
    #[inline(always)]
    pub(super) fn is_cut(&self) -> bool {
        self.asked.get() && self.look()
    }

    #[cold]
    fn look(&self) -> bool {
        self.asked.set(false);
        let peeked = recv(&self.socket, &mut [0; 1][..], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        match peeked {
            Ok((_, length)) => length == 0,
            Err(errno) => errno != Errno::AGAIN && errno != Errno::INTR,
        }
    }
}
