//! File descriptors over a UNIX stream socket (`SCM_RIGHTS`, unix(7)); each message carries one byte for their kind.
//!
//! Descriptors that exist before a worker starts are better inherited ([`Worker::spawn`](crate::process::Worker::spawn)); this is
//! for descriptors that one side opens later, inside its own namespaces.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// Most descriptors in one message (`SCM_MAX_FD`, `include/net/scm.h`).
pub const MAX_FDS: usize = 253;

/// Sends `tag` and duplicates of `fds` in one message.
///
/// # Errors
/// `InvalidInput` for more than [`MAX_FDS`] descriptors; those of sendmsg(2) (a closed peer is `BrokenPipe`).
pub fn send_fds(socket: impl AsFd, fds: &[BorrowedFd<'_>], tag: u8) -> io::Result<()> {
    if fds.len() > MAX_FDS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} descriptors in one message: the kernel carries at most {MAX_FDS}", fds.len()),
        ));
    }
    let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(fds.len()))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let tag = [tag];
    retry_on_intr(|| sendmsg(socket.as_fd(), &[IoSlice::new(&tag)], &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives one message of [`send_fds`]: its tag, and at most `max` descriptors, close-on-exec.
///
/// # Errors
/// `UnexpectedEof` if the peer has closed; `InvalidData` if the message carried more than `max` descriptors (all of them
/// are closed); those of recvmsg(2).
pub fn recv_fds(socket: impl AsFd, max: usize) -> io::Result<(u8, Vec<OwnedFd>)> {
    let mut tag = [0];
    let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(max.min(MAX_FDS)))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message =
        retry_on_intr(|| recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut tag)], &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if message.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // The buffer is rounded up to whole words, so one descriptor too many can fit without truncation.
    if message.flags.contains(ReturnFlags::CTRUNC) || fds.len() > max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message with more than the {max} descriptors expected, or no room in the table of open files"),
        ));
    }
    Ok((tag[0], fds))
}

/// User id of the process that created the other end of a UNIX socket's connection (`SO_PEERCRED`, unix(7)).
///
/// # Errors
/// The errors of getsockopt(2).
pub fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    // rustix's call does not allow process id 0, which the kernel reports for a peer in another PID namespace.
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `peer`, which any bytes make valid.
    let result = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(peer.uid) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    fn descriptors_arrive_usable_and_close_on_exec() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send_fds(&a, &[writer.as_fd(), reader.as_fd()], 7).unwrap();
        send_fds(&a, &[], 8).unwrap();
        drop(writer);
        let (tag, fds) = recv_fds(&b, 2).unwrap();
        assert_eq!((tag, fds.len()), (7, 2));
        assert_eq!(fcntl_getfd(&fds[0]).unwrap(), FdFlags::CLOEXEC);
        std::fs::File::from(fds.into_iter().next().unwrap()).write_all(b"hello").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        let (tag, fds) = recv_fds(&b, 2).unwrap();
        assert_eq!((tag, fds.len()), (8, 0));
    }

    #[test]
    fn more_descriptors_than_expected_are_an_error_and_are_closed() {
        for (max, sent) in [(0, 1), (1, 2), (1, 3), (2, 9)] {
            let (a, b) = UnixStream::pair().unwrap();
            let (mut reader, writer) = std::io::pipe().unwrap();
            send_fds(&a, &vec![writer.as_fd(); sent], 0).unwrap();
            assert_eq!(recv_fds(&b, max).unwrap_err().kind(), io::ErrorKind::InvalidData);
            drop(writer);
            // Ends only if no duplicate of the writer is open any more.
            assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
        let (a, _b) = UnixStream::pair().unwrap();
        let too_many = vec![a.as_fd(); MAX_FDS + 1];
        assert_eq!(send_fds(&a, &too_many, 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        send_fds(&a, &too_many[1..], 0).unwrap();
    }

    #[test]
    fn a_closed_peer_is_an_error_on_both_sides() {
        let (a, b) = UnixStream::pair().unwrap();
        drop(b);
        assert_eq!(recv_fds(&a, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(send_fds(&a, &[a.as_fd()], 0).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_peer_of_an_own_pair_is_this_user() {
        let (a, _b) = UnixStream::pair().unwrap();
        assert_eq!(peer_uid(&a).unwrap(), rustix::process::geteuid().as_raw());
        assert!(peer_uid(std::io::pipe().unwrap().0).is_err());
    }
}
