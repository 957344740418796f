//! send(2) and recv(2) of the measuring loops: straight to the kernel, unless a library takes the place of its sockets.
//!
//! ```text
//!   send, recv ─┬─ a library is in place (`stack`) ──▶ the C library's symbol, which that library provides
//!               └─ none ─────────────────────────────▶ the kernel
//! ```
//! A spinning round trip calls recv(2) many times: by the C library's calls, which are points of cancellation (pthreads(7)), the
//! RTT over UDP was 76 ns longer and over a UNIX socket 99 ns (docs/stacks.md).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::slice;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrStorage;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny};

use crate::stack;

/// The target of the calls: [`KERNEL`], [`LIBRARY`], or `UNKNOWN` before the first call.
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

/// Receives into `buffer` from a connected socket, and returns the number of bytes, at most the buffer's length (recv(2)).
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

/// Sends `message` on a connected socket, and returns the number of bytes that the kernel took (send(2)).
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

/// Sends `message` to `peer` on a socket that is not connected, and returns the number of bytes that the kernel took (sendto(2)).
///
/// # Errors
/// Those of sendto(2), such as [`Errno::AGAIN`] where the socket's buffer is full.
// Cold, so that loops over connected sockets run straight past it.
#[cold]
pub fn send_to(fd: impl AsFd, message: &[u8], flags: SendFlags, peer: &SocketAddrAny) -> Result<usize, Errno> {
    if !straight() {
        return rustix::net::sendto(fd, message, flags, peer);
    }
    let to = [peer.as_ptr() as usize, peer.addr_len() as usize];
    // SAFETY: the kernel reads `message.len()` bytes of `message` and the bytes of the address; both are borrowed.
    length(unsafe { call(libc::SYS_sendto, fd.as_fd().as_raw_fd(), message.as_ptr() as usize, message.len(), flags.bits(), to) })
}

/// Receives into `buffer`, and returns the number of bytes, at most the buffer's length (recvfrom(2)). `None`: another address
/// than `peer` sent them.
///
/// # Errors
/// Those of recvfrom(2), such as [`Errno::AGAIN`] where nothing has come.
// Cold, as `send_to` is.
#[cold]
pub fn recv_from(fd: impl AsFd, buffer: &mut [u8], flags: RecvFlags, peer: &SocketAddrAny) -> Result<Option<usize>, Errno> {
    if !straight() {
        let (len, _, from) = rustix::net::recvfrom(fd, buffer, flags)?;
        return Ok((from.as_ref() == Some(peer)).then_some(len));
    }
    let mut sender = MaybeUninit::<SocketAddrStorage>::uninit();
    let mut taken = size_of::<SocketAddrStorage>() as libc::socklen_t;
    let from = [sender.as_mut_ptr() as usize, (&raw mut taken) as usize];
    // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`, at most `taken` bytes of the address to `sender`, and
    // the address's length to `taken`; all three are borrowed for that.
    let len = length(unsafe {
        call(libc::SYS_recvfrom, fd.as_fd().as_raw_fd(), buffer.as_mut_ptr() as usize, buffer.len(), flags.bits(), from)
    })?;
    if taken != peer.addr_len() {
        return Ok(None);
    }
    // SAFETY: the kernel wrote an address of `taken` bytes, which fits into `sender` as the peer's does; `peer` has as many.
    let (sender, peer) = unsafe {
        (
            slice::from_raw_parts(sender.as_ptr().cast::<u8>(), taken as usize),
            slice::from_raw_parts(peer.as_ptr().cast::<u8>(), taken as usize),
        )
    };
    Ok((sender == peer).then_some(len))
}

/// The number of bytes, or the error below 0, that the kernel returned.
#[inline(always)]
fn length(returned: isize) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| Errno::from_raw_os_error(-returned as i32))
}

/// A system call of the sockets; `address` is a pointer to an address, and its length or a pointer to the length; zeros: none
/// (syscall(2)).
///
/// # Safety
/// The call's accesses to `len` bytes at `bytes`, and to `address`, must be allowed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, len: usize, flags: u32, address: [usize; 2]) -> isize {
    let returned;
    // SAFETY: the caller's; the kernel changes rcx and r11 beside the result, and does not use the stack.
    unsafe {
        std::arch::asm!(
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

/// A system call of the sockets; `address` is a pointer to an address, and its length or a pointer to the length; zeros: none
/// (syscall(2)).
///
/// # Safety
/// The call's accesses to `len` bytes at `bytes`, and to `address`, must be allowed.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, len: usize, flags: u32, address: [usize; 2]) -> isize {
    let returned;
    // SAFETY: the caller's; the kernel changes the result alone, and does not use the stack.
    unsafe {
        std::arch::asm!(
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

/// A system call of the sockets; `address` is a pointer to an address, and its length or a pointer to the length; zeros: none
/// (syscall(2)).
///
/// # Safety
/// The call's accesses to `len` bytes at `bytes`, and to `address`, must be allowed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, len: usize, flags: u32, [address, its_len]: [usize; 2]) -> isize {
    // SAFETY: the caller's; afterwards, this thread's number of its last error is there as long as the thread.
    unsafe {
        match libc::syscall(number, fd, bytes, len, flags, address, its_len) {
            -1 => -(*libc::__errno_location() as isize),
            returned => returned as isize,
        }
    }
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
            let (from_other, from_stranger) =
                (SocketAddrAny::from(other.local_addr().unwrap()), SocketAddrAny::from(stranger.local_addr().unwrap()));
            let to_one = SocketAddrAny::from(one.local_addr().unwrap());
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
