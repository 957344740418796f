//! send(2) and recv(2) of the measuring loops: straight to the kernel, unless a library takes the place of its sockets.
//!
//! ```text
//!   send, recv ─┬─ a library is in place (`stack`) ──▶ the C library's symbol, which that library provides
//!               └─ none ─────────────────────────────▶ the kernel
//! ```
//! A spinning round trip calls recv(2) many times: by the C library's calls, which are points of cancellation (pthreads(7)), one over UDP took 77 ns more and one
//! over a UNIX socket 99 ns (docs/stacks.md).

use std::arch::asm;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::stack;

/// Who is called: [`KERNEL`], [`LIBRARY`], or `UNKNOWN` before the first call.
static CALLED: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const KERNEL: u8 = 1;
const LIBRARY: u8 = 2;

#[inline(always)]
fn straight() -> bool {
    match CALLED.load(Ordering::Relaxed) {
        KERNEL => true,
        LIBRARY => false,
        _ => find_out(),
    }
}

#[cold]
fn find_out() -> bool {
    let straight = stack::sockets_are_the_kernels();
    CALLED.store(if straight { KERNEL } else { LIBRARY }, Ordering::Relaxed);
    straight
}

/// Receives into `buffer` from a connected socket; the number of bytes, at most as many as it takes (recv(2)).
///
/// # Errors
/// Those of recv(2), such as [`Errno::AGAIN`] where nothing has come.
#[inline(always)]
pub fn recv(fd: impl AsFd, buffer: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
    if !straight() {
        return rustix::net::recv(fd, buffer, flags).map(|(len, _)| len);
    }
    // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`, which is borrowed for that.
    length(unsafe {
        call(libc::SYS_recvfrom, fd.as_fd().as_raw_fd(), buffer.as_mut_ptr() as usize, buffer.len(), flags.bits(), [0; 2])
    })
}

/// Sends `message` on a connected socket; the number of bytes that were taken (send(2)).
///
/// # Errors
/// Those of send(2), such as [`Errno::AGAIN`] where the socket's buffer is full.
#[inline(always)]
pub fn send(fd: impl AsFd, message: &[u8], flags: SendFlags) -> Result<usize, Errno> {
    if !straight() {
        return rustix::net::send(fd, message, flags);
    }
    // SAFETY: the kernel reads `message.len()` bytes of `message`, which is borrowed.
    length(unsafe {
        call(libc::SYS_sendto, fd.as_fd().as_raw_fd(), message.as_ptr() as usize, message.len(), flags.bits(), [0; 2])
    })
}

/// The one address that an unconnected socket sends to and receives from.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    address: SocketAddr,
    /// As the kernel has it (ip(7), ipv6(7)).
    bytes: [u8; Peer::LONGEST],
    len: usize,
}

impl Peer {
    /// Length of an IPv6 address with port, flow label and scope.
    const LONGEST: usize = 28;

    /// Prepares the address for the calls.
    #[must_use]
    pub fn new(address: SocketAddr) -> Peer {
        let mut bytes = [0; Peer::LONGEST];
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let len = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
                size_of::<libc::sockaddr_in6>()
            }
        };
        Peer { address, bytes, len }
    }
}

/// Sends `message` to `peer` on a socket that is not connected; the number of bytes that were taken (sendto(2)).
///
/// # Errors
/// Those of sendto(2), such as [`Errno::AGAIN`] where the socket's buffer is full.
pub fn send_to(fd: impl AsFd, message: &[u8], flags: SendFlags, peer: &Peer) -> Result<usize, Errno> {
    if !straight() {
        return rustix::net::sendto(fd, message, flags, &peer.address);
    }
    let to = [peer.bytes.as_ptr() as usize, peer.len];
    // SAFETY: the kernel reads `message.len()` bytes of `message` and `peer.len` bytes of its address; both are borrowed.
    length(unsafe { call(libc::SYS_sendto, fd.as_fd().as_raw_fd(), message.as_ptr() as usize, message.len(), flags.bits(), to) })
}

/// Receives into `buffer`; the number of bytes, at most as many as it takes (recvfrom(2)). `None`: another address than `peer` sent them.
///
/// # Errors
/// Those of recvfrom(2), such as [`Errno::AGAIN`] where nothing has come.
pub fn recv_from(fd: impl AsFd, buffer: &mut [u8], flags: RecvFlags, peer: &Peer) -> Result<Option<usize>, Errno> {
    if !straight() {
        let (len, _, from) = rustix::net::recvfrom(fd, buffer, flags)?;
        let from = from.and_then(|from| SocketAddr::try_from(from).ok());
        return Ok((from == Some(peer.address)).then_some(len));
    }
    let (mut bytes, mut taken) = ([0; Peer::LONGEST], Peer::LONGEST as libc::socklen_t);
    let from = [bytes.as_mut_ptr() as usize, (&raw mut taken) as usize];
    // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`, at most `taken` bytes of the address to `bytes`, and the address's length to
    // `taken`; all three are borrowed for that.
    let len = length(unsafe {
        call(libc::SYS_recvfrom, fd.as_fd().as_raw_fd(), buffer.as_mut_ptr() as usize, buffer.len(), flags.bits(), from)
    })?;
    Ok((taken as usize == peer.len && bytes == peer.bytes).then_some(len))
}

/// The number of bytes, or the error below 0, that the kernel returned.
#[inline(always)]
fn length(returned: isize) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| Errno::from_raw_os_error(-returned as i32))
}

/// A system call of the sockets; `address` is where an address lies and its length, or where that lies; zeros: none (syscall(2)).
///
/// # Safety
/// What the call does with `len` bytes at `bytes`, and with `address`, must be allowed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, len: usize, flags: u32, address: [usize; 2]) -> isize {
    let returned;
    // SAFETY: the caller's; the kernel changes rcx and r11 beside the result, and does not use the stack.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => returned,
            in("rdi") fd as isize,
            in("rsi") bytes,
            in("rdx") len,
            in("r10") flags as usize,
            in("r8") address[0],
            in("r9") address[1],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, preserves_flags),
        );
    }
    returned
}

/// A system call of the sockets; `address` is where an address lies and its length, or where that lies; zeros: none (syscall(2)).
///
/// # Safety
/// What the call does with `len` bytes at `bytes`, and with `address`, must be allowed.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, len: usize, flags: u32, address: [usize; 2]) -> isize {
    let returned;
    // SAFETY: the caller's; the kernel changes the result alone, and does not use the stack.
    unsafe {
        asm!(
            "svc 0",
            inlateout("x0") fd as isize => returned,
            in("x1") bytes,
            in("x2") len,
            in("x3") flags as usize,
            in("x4") address[0],
            in("x5") address[1],
            in("x8") number,
            options(nostack, preserves_flags),
        );
    }
    returned
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn both_ways_carry_bytes_and_errors() {
        assert!(find_out(), "without a preloaded library the kernel is called");
        for called in [KERNEL, LIBRARY] {
            CALLED.store(called, Ordering::Relaxed);
            let (one, other) = UnixStream::pair().unwrap();
            let mut bytes = [0; 8];
            assert_eq!(recv(&one, &mut bytes, RecvFlags::DONTWAIT), Err(Errno::AGAIN));
            assert_eq!(send(&other, b"answer", SendFlags::NOSIGNAL), Ok(6));
            assert_eq!(recv(&one, &mut bytes[..4], RecvFlags::empty()), Ok(4));
            assert_eq!(recv(&one, &mut bytes[4..], RecvFlags::empty()), Ok(2));
            assert_eq!(&bytes, b"answer\0\0");
            drop(other);
            assert_eq!(recv(&one, &mut bytes, RecvFlags::empty()), Ok(0));
            assert_eq!(send(&one, b"more", SendFlags::NOSIGNAL), Err(Errno::PIPE));
        }
        CALLED.store(UNKNOWN, Ordering::Relaxed);
    }

    #[test]
    fn a_datagram_is_taken_from_the_peer_alone() {
        for here in ["127.0.0.1:0", "[::1]:0"] {
            // A host may have no IPv6.
            let Ok(one) = UdpSocket::bind(here) else { continue };
            let [other, stranger] = [(); 2].map(|()| UdpSocket::bind(here).unwrap());
            let (from_other, from_stranger) = (Peer::new(other.local_addr().unwrap()), Peer::new(stranger.local_addr().unwrap()));
            let to_one = Peer::new(one.local_addr().unwrap());
            for called in [KERNEL, LIBRARY] {
                CALLED.store(called, Ordering::Relaxed);
                let mut bytes = [0; 8];
                assert_eq!(recv_from(&one, &mut bytes, RecvFlags::DONTWAIT, &from_other), Err(Errno::AGAIN));
                assert_eq!(send_to(&stranger, b"forged", SendFlags::empty(), &to_one), Ok(6));
                assert_eq!(send_to(&other, b"answer", SendFlags::empty(), &to_one), Ok(6));
                assert_eq!(recv_from(&one, &mut bytes, RecvFlags::empty(), &from_other), Ok(None), "{here}");
                assert_eq!(recv_from(&one, &mut bytes, RecvFlags::empty(), &from_other), Ok(Some(6)), "{here}");
                assert_eq!(&bytes, b"answer\0\0");
                assert_eq!(send_to(&other, b"", SendFlags::empty(), &to_one), Ok(0));
                assert_eq!(recv_from(&one, &mut bytes, RecvFlags::empty(), &from_stranger), Ok(None));
            }
        }
        CALLED.store(UNKNOWN, Ordering::Relaxed);
    }
}
