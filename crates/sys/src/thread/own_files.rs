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
use std::thread::{Builder, Scope, ScopedJoinHandle};

use rustix::io::{Errno, fcntl_getfd};
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
/// No descriptor that one side opens or closes while `work` runs may be used on the other, however it got there (a channel, a
/// mutex, a static): there its number means another file, or none. The function is nevertheless safe, because no bound can
/// express this rule: any code reaches statics, so no type of `work`, not even a plain `fn`, keeps it. Each of its two callers
/// (`git grep spawn_with_own_files`) hands `work` sockets or rings that are open before, and gets back these and counts.
///
/// # Errors
/// The thread cannot be started (EAGAIN). Passed to `work`: those of unshare(2), `CLONE_FILES`, and of reading
/// `/proc/thread-self/fd`.
pub fn spawn_with_own_files<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce(io::Result<()>) -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, move || {
        if stack::in_place().is_some() {
            return work(Ok(()));
        }
        // If the table could not be checked at the end, do not create one.
        let parted = open_numbers().and_then(|_| {
            // SAFETY: the thread was made for `work` and ends with it, so no descriptor of another owner's is used on it but
            // those that `work` has. Those that are open now name the same files in both tables; `work` closing one leaves it
            // open in the other, which is no harm. Those that it opens are closed when it returns (seen below), so no owner of
            // one is left to close that number in the other table. That none passes between the two meanwhile is the caller's to
            // keep, as said above.
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
    // SAFETY: copying the table leaves every open descriptor valid under its number in both tables; the rest is the caller's
    // promise.
    match unsafe { unshare_unsafe(UnshareFlags::FILES) } {
        Err(Errno::PERM) => {}
        done => return Ok(done?),
    }
    // Docker and containerd forbid unshare(2) without CAP_SYS_ADMIN, and allow this (Linux 5.9).
    // SAFETY: as above; it closes nothing, because no descriptor has this number.
    let done = unsafe { libc::syscall(libc::SYS_close_range, libc::c_uint::MAX, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Output};

    use super::*;

    #[test]
    fn thread_inherits_descriptors_and_keeps_its_own() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        std::thread::scope(|scope| {
            let writer = &mut writer;
            let work = move |parted: io::Result<()>| {
                parted.unwrap();
                writer.write_all(b"x").unwrap();
                let before = open_numbers().unwrap();
                let opened = File::open("/dev/null").unwrap();
                assert_eq!(open_numbers().unwrap().len(), before.len() + 1);
                drop(opened);
                open_numbers().unwrap() == before
            };
            assert!(spawn_with_own_files(scope, work).unwrap().join().unwrap());
        });
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x", "and its end is closed in both tables, the thread's being gone");
    }

    fn in_role() -> bool {
        std::env::var_os("HAIRPIN_TEST_ROLE").is_some()
    }

    /// Runs this test binary's `test` in a process of its own.
    fn role(test: &str) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("thread::own_files::tests::{test}"), "--nocapture"]);
        command.env("HAIRPIN_TEST_ROLE", "1").output().unwrap()
    }

    /// The process of the test below.
    #[test]
    fn role_takes_a_descriptor_out() {
        if in_role() {
            let opens = |_: io::Result<()>| File::open("/dev/null").unwrap();
            let file = std::thread::scope(|scope| spawn_with_own_files(scope, opens).unwrap().join().unwrap());
            // Here its number means nothing, or another file: this point must not be reached.
            drop(file);
        }
    }

    #[test]
    fn a_descriptor_that_would_leave_its_table_ends_the_process() {
        let done = role("role_takes_a_descriptor_out");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(said.contains("outlives it"), "{said}");
    }

    /// Answers the calling thread's unshare(2) with EPERM from now on, as container runtimes do; false if the kernel has no
    /// seccomp filters.
    fn forbid_unshare() -> bool {
        let step = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let mut steps = [
            // The number of the system call is at the start of `struct seccomp_data`.
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_unshare as u32, 1),
            step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
            step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        let (one, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
        // SAFETY: the first call only sets a flag of the thread.
        let may = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, none, none, none) } == 0;
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        // SAFETY: the kernel copies the program, which is valid for its length.
        may && unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) } == 0
    }

    /// The process of the test below.
    #[test]
    fn role_may_not_unshare() {
        if in_role() {
            if !forbid_unshare() {
                println!("no seccomp here");
                return;
            }
            // SAFETY: the call is refused.
            assert_eq!(unsafe { unshare_unsafe(UnshareFlags::FILES) }, Err(Errno::PERM));
            let work = |parted: io::Result<()>| {
                parted.unwrap();
                let opened = File::open("/dev/null").unwrap();
                // /proc/self shows the table of the process's first thread.
                std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).is_err()
            };
            assert!(std::thread::scope(|scope| spawn_with_own_files(scope, work).unwrap().join().unwrap()));
            println!("a table of its own");
        }
    }

    #[test]
    fn a_container_that_forbids_unshare_still_has_tables_of_their_own() {
        let done = role("role_may_not_unshare");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
        assert!(said.contains("a table of its own") || said.contains("no seccomp here"), "{said}");
    }
}
