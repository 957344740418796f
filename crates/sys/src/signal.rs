//! Signals as a descriptor: Ctrl-C becomes an event that the orchestrating loop reads, never an interruption.
//!
//! Threads and, through exec, worker processes inherit a blocked mask. That is intended: workers share the terminal's process
//! group, so they get Ctrl-C too, and must not die of it before they have delivered their results. Block before starting the
//! first thread and the first worker.
//!
//! `SIGPIPE` needs no handling here: Rust's runtime ignores it, in workers too, and a write to a closed pipe is an error.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Usual arguments of [`Signals::block`].
pub use libc::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

/// Signals delivered through a descriptor, which is readable while one is pending.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks `signals` in the calling thread and opens a descriptor that delivers them (signalfd(2), close-on-exec,
    /// non-blocking). They stay blocked when the value is dropped, so that a pending one does not kill the process.
    ///
    /// # Errors
    /// `EINVAL` for an invalid signal number; those of pthread_sigmask(3) and signalfd(2).
    pub fn block(signals: &[i32]) -> io::Result<Signals> {
        let set = set_of(signals)?;
        change_mask(libc::SIG_BLOCK, signals)?;
        // SAFETY: `set` is an initialised signal set, and -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, nothing else owns it.
        Ok(Signals { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Number of the next signal, or `None` if none is pending.
    ///
    /// # Errors
    /// The errors of read(2).
    pub fn next(&self) -> io::Result<Option<i32>> {
        // struct signalfd_siginfo begins with the signal's number (signalfd(2)).
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut info)) {
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Changes the calling thread's mask; `how` is one of `SIG_BLOCK`, `SIG_UNBLOCK`, `SIG_SETMASK`.
pub(crate) fn change_mask(how: i32, signals: &[i32]) -> io::Result<()> {
    let set = set_of(signals)?;
    // SAFETY: `set` is an initialised signal set, and the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn set_of(signals: &[i32]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the whole set and cannot fail for a valid pointer.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for &signal in signals {
        // SAFETY: `set` is an initialised signal set; a number that is no signal is refused.
        if unsafe { libc::sigaddset(&raw mut set, signal) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    /// Signals only the calling thread, so that the test harness's other threads are not affected.
    fn raise(signal: i32) {
        // SAFETY: raise only sends a signal, which the caller has blocked.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    #[test]
    fn a_blocked_signal_arrives_through_the_descriptor_once() {
        let signals = Signals::block(&[SIGINT, SIGTERM]).unwrap();
        assert_eq!(signals.next().unwrap(), None);
        raise(SIGTERM);
        assert_eq!(signals.next().unwrap(), Some(SIGTERM));
        assert_eq!(signals.next().unwrap(), None);
        assert_eq!(fcntl_getfd(&signals).unwrap(), FdFlags::CLOEXEC);
    }

    #[test]
    fn a_number_that_is_no_signal_is_refused() {
        assert_eq!(Signals::block(&[4711]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn workers_inherit_the_mask() {
        use std::io::Read;
        let _signals = Signals::block(&[SIGINT, SIGTERM]).unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let args = ["-c".into(), "kill -INT $$; kill -TERM $$; echo alive >&9".into()];
        let mut worker = crate::process::Worker::spawn("/bin/sh".as_ref(), &args, &[(writer.as_fd(), 9)], None).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "alive\n");
        assert!(worker.wait_timeout(std::time::Duration::from_secs(5)).unwrap().unwrap().success());
    }
}
