//! Threads with their own file table, so that a second thread in the process does not slow down their system calls.
//!
//! ```text
//!   the process's table   3 4 5            3 4 5 6            numbers opened later mean other files in the two tables
//!                             │ copied       
//!   the thread's table        └─▶ 3 4 5 ─ work ─ 3 4 5        the same numbers at its end: none of them can get out
//! ```
//! With a shared table the kernel counts references to a file in every system call, about 35 ns per receive on a machine of 2023.

use hairpin_units::Gather;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::thread::{Scope, ScopedJoinHandle};

use rustix::io::fcntl_getfd;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::stack;

/// Lists the calling thread's descriptors.
const OPEN: &str = "/proc/thread-self/fd";

/// Runs `work` on a new thread with its own file table, a copy of everything open now. `work` gets the result of creating the
/// table; if that failed, it runs with the process's table. It also uses that table if a library replaces the kernel's sockets
/// ([`crate::stack`]), because such a library keeps one table for the whole process.
///
/// `work` must close the files it opens: the process aborts if a descriptor opened there is still open when `work` returns,
/// because its number would mean another file elsewhere.
///
/// # The caller's duty
/// No descriptor that one side opens or closes while `work` runs may be used on the other, however it got there (a channel, a mutex, a static): there its
/// number means another file, or none. The function is nevertheless safe, because no bound can express this rule: any code reaches statics, so no type of
/// `work`, not even a plain `fn`, keeps it. Each of its two callers (`git grep spawn_with_own_files`) hands `work` sockets or rings that are open before, and
/// gets back these and counts.
///
/// # Errors
/// Passed to `work`: those of unshare(2), `CLONE_FILES`, and of reading `/proc/thread-self/fd`.
pub fn spawn_with_own_files<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce(io::Result<()>) -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    scope.spawn(move || {
        if stack::in_place().is_some() {
            return work(Ok(()));
        }
        // If the table could not be checked at the end, do not create one.
        let parted = open_numbers().and_then(|_| {
            // SAFETY: the thread was made for `work` and ends with it, so no descriptor of another owner's is used on it but those that `work` has. Those that
            // are open now name the same files in both tables; `work` closing one leaves it open in the other, which is no harm. Those that it opens are
            // closed when it returns (seen below), so no owner of one is left to close that number in the other table. That none passes between the two
            // meanwhile is the caller's to keep, as said above.
            unsafe { unshare_files() }?;
            open_numbers()
        });
        match parted {
            Err(refused) => work(Err(refused)),
            Ok(before) => {
                let done = work(Ok(()));
                if let Some(number) = open_numbers().ok().and_then(|after| after.difference(&before).next().copied()) {
                    eprintln!("hairpin: descriptor {number} was opened on a thread with a file table of its own and outlives it: please report this");
                    std::process::abort();
                }
                done
            }
        }
    })
}

/// Gives the calling thread its own file table.
///
/// # Safety
/// From here on a descriptor's number means another file, or none, in this thread than in the others, unless it was open before
/// and neither side has closed it. A descriptor's owner (`OwnedFd`, `File`, a socket) from one side must not be used or dropped
/// on the other.
unsafe fn unshare_files() -> io::Result<()> {
    // SAFETY: copying the table leaves every open descriptor valid under its number in both tables; the rest is the caller's promise.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
    Ok(())
}

/// The descriptor numbers open in the calling thread's table.
fn open_numbers() -> io::Result<BTreeSet<RawFd>> {
    let numbers = std::fs::read_dir(OPEN)?
        .map(|entry| Ok(entry?.file_name().to_str().and_then(|name| name.parse().ok())))
        .filter_map(io::Result::transpose)
        .collect::<io::Result<Vec<RawFd>>>()?;
    // They include the directory being read, which is closed by now.
    // SAFETY: the borrow is used for one fcntl(2) call on a number that is not -1, which fails if nothing is open there.
    let is_open = |number: &RawFd| fcntl_getfd(unsafe { BorrowedFd::borrow_raw(*number) }).is_ok();
    Ok(numbers.into_iter().filter(|number| *number >= 0).filter(is_open).gather())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn thread_inherits_descriptors_and_keeps_its_own() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        std::thread::scope(|scope| {
            let writer = &mut writer;
            let thread = spawn_with_own_files(scope, move |parted| {
                parted.unwrap();
                writer.write_all(b"x").unwrap();
                let before = open_numbers().unwrap();
                let opened = File::open("/dev/null").unwrap();
                assert_eq!(open_numbers().unwrap().len(), before.len() + 1);
                drop(opened);
                open_numbers().unwrap() == before
            });
            assert!(thread.join().unwrap());
        });
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x", "and its end is closed in both tables, the thread's being gone");
    }

    /// The process of the test below.
    #[test]
    fn role_takes_a_descriptor_out() {
        if std::env::var_os("HAIRPIN_TEST_ROLE").is_some() {
            let file =
                std::thread::scope(|scope| spawn_with_own_files(scope, |_| File::open("/dev/null").unwrap()).join().unwrap());
            // Here its number means nothing, or another file: this point must not be reached.
            drop(file);
        }
    }

    #[test]
    fn a_descriptor_that_would_leave_its_table_ends_the_process() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "thread::own_files::tests::role_takes_a_descriptor_out", "--nocapture"]);
        let done = command.env("HAIRPIN_TEST_ROLE", "1").output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(said.contains("outlives it"), "{said}");
    }
}
