//! Writes to stdout. A reader that stalls, such as one that Ctrl-Z has stopped, holds the output up, but not the end of this
//! process.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_session::ending::is_asked;
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
        if LEFT_OUT.load(Ordering::Relaxed) || (!ready && is_asked()) {
            LEFT_OUT.store(true, Ordering::Relaxed);
            return Err(io::Error::other("its reader has stalled"));
        }
        if ready {
            return Ok(());
        }
    }
}
