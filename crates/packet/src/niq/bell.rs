//! The wake-up between two ports, which also reports the end of the other process: a pair of connected UNIX
//! sockets.
//!
//! ```text
//!   receiver: arms the lane ─▶ looks once more ─▶ sleeps on its socket ◀─ one byte ── sender: found the lane armed
//!                                                        ◀─ end of file ── the other process has ended, or was killed
//! ```
//! Not an eventfd: its two sides share its flags, so a hostile side could make the other's write block. A socket can be
//! told not to block for each call (`MSG_DONTWAIT`), and each side has its own end.

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
    /// Always readable, so that a wait ends at once if a frame is there.
    awake: OwnedFd,
    /// True if the descriptor was requested since the last check.
    asked: Cell<bool>,
    rung: u64,
}

/// Two joined ends.
pub(super) fn ends() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

impl Bell {
    /// Takes one end of the pair.
    ///
    /// # Errors
    /// `InvalidInput` if `socket` is not a UNIX stream socket; the kernel's error if it gave no eventfd.
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
        // It fails if the other side has ended, or has not read earlier bytes: then it is awake.
        let _ = send(&self.socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Number of wake-ups of the other side.
    pub(super) fn rung(&self) -> u64 {
        self.rung
    }

    /// Clears the wake-up of this side.
    pub(super) fn empty(&self) {
        let _ = recv(&self.socket, &mut [0; 64][..], RecvFlags::DONTWAIT);
    }

    /// The descriptor to sleep on; with `arrived`, one that is readable.
    pub(super) fn descriptor(&self, arrived: bool) -> BorrowedFd<'_> {
        self.asked.set(true);
        if arrived { self.awake.as_fd() } else { self.socket.as_fd() }
    }

    /// True if the other process has ended. Asks the kernel only if the descriptor was requested since the last call.
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
