//! send(2) and recv(2) of the measuring loops: straight to the kernel, unless a library takes the place of its sockets.
//!
//! ```text
//!   send, recv ─┬─ a library is in place (`stack`) ──▶ the C library's symbol, which that library provides
//!               └─ none ─────────────────────────────▶ the kernel
//! ```
//! A spinning round trip calls recv(2) many times: by the C library's calls, which are points of cancellation (pthreads(7)), one over UDP took 77 ns more and one
//! over a UNIX socket 99 ns (docs/stacks.md).

use std::arch::asm;
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
    length(unsafe { call(libc::SYS_recvfrom, fd.as_fd().as_raw_fd(), buffer.as_mut_ptr() as usize, buffer.len(), flags.bits()) })
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
    length(unsafe { call(libc::SYS_sendto, fd.as_fd().as_raw_fd(), message.as_ptr() as usize, message.len(), flags.bits()) })
}

/// The number of bytes, or the error below 0, that the kernel returned.
#[inline(always)]
fn length(returned: isize) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| Errno::from_raw_os_error(-returned as i32))
}

/// A system call of the sockets with neither an address nor its length (syscall(2)).
///
/// # Safety
/// What the call does with `len` bytes at `bytes` must be allowed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, len: usize, flags: u32) -> isize {
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
            in("r8") 0usize,
            in("r9") 0usize,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, preserves_flags),
        );
    }
    returned
}

/// A system call of the sockets with neither an address nor its length (syscall(2)).
///
/// # Safety
/// What the call does with `len` bytes at `bytes` must be allowed.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, len: usize, flags: u32) -> isize {
    let returned;
    // SAFETY: the caller's; the kernel changes the result alone, and does not use the stack.
    unsafe {
        asm!(
            "svc 0",
            inlateout("x0") fd as isize => returned,
            in("x1") bytes,
            in("x2") len,
            in("x3") flags as usize,
            in("x4") 0usize,
            in("x5") 0usize,
            in("x8") number,
            options(nostack, preserves_flags),
        );
    }
    returned
}

#[cfg(test)]
mod tests {
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
}
