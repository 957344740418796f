//! Writes to stdout. A reader that stalls, such as one that Ctrl-Z has stopped, holds the output up, but not the end of this
//! process.

use std::fs;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_sys::signal::{SIGHUP, SIGINT, SIGTERM};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A pipe that is ready takes this much without waiting (PIPE_BUF, pipe(7)).
const AT_ONCE: usize = 4096;
/// A reader that takes nothing for this long has stalled.
const STALLED: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// True once output was left out: what followed would be torn.
static LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// Writes and flushes `text`.
///
/// # Errors
/// Those of write(2), and after a signal that asks this process to end while the reader stalls.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for part in text.as_bytes().chunks(AT_ONCE) {
        wait_for_reader(&out)?;
        out.write_all(part)?;
        out.flush()?;
    }
    Ok(())
}

fn wait_for_reader(out: &io::StdoutLock<'_>) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(out, PollFlags::OUT)];
        let ready = match poll(&mut fds, Some(&STALLED)) {
            Ok(ready) => ready > 0,
            Err(Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        if LEFT_OUT.load(Ordering::Relaxed) || (!ready && asked_to_end()) {
            LEFT_OUT.store(true, Ordering::Relaxed);
            return Err(io::Error::other("its reader has stalled"));
        }
        if ready {
            return Ok(());
        }
    }
}

/// True if a signal that asks this process to end waits to be read: they are blocked while a verb measures.
fn asked_to_end() -> bool {
    // Masks of the pending signals of the first thread and of the process (proc_pid_status(5)).
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let masks = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    let pending = masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).fold(0, |all, mask| all | mask);
    [SIGHUP, SIGINT, SIGTERM].iter().any(|signal| pending >> (signal - 1) & 1 == 1)
}
