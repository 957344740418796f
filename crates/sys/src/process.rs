//! Worker processes: each side of a run is one; it dies with its parent and leaves nothing behind.
//!
//! ```text
//!   parent                                   worker
//!   Worker::spawn ── fork ─────────────────► PDEATHSIG, parent check
//!                                            close-on-exec on everything, then the inherited fds at their numbers
//!                                            exec ──► die_with_parent (again: exec may have cleared it)
//!                                                     Inherited::claim, install_nudge_handler
//!   nudge   ── SIGUSR1 ────────────────────► a blocking system call returns EINTR
//!   Drop    ── SIGKILL, wait ──────────────► gone, no zombie
//! ```
//!
//! **The parent-death signal follows the parent *thread*.** The kernel sends it when the thread that called [`Worker::spawn`]
//! ends, even if its process lives on (prctl(2), `PR_SET_PDEATHSIG`): spawn workers from a thread that outlives them, in practice
//! the main thread.

mod attended;
mod inherited;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

pub use self::attended::{Attended, unblocked};
pub use self::inherited::Inherited;
use crate::stack::{self, Library};

/// Reason why a worker was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A target number used by standard input, output or error, or used twice.
    #[error("descriptor {0} cannot be given to a worker: numbers start at 3 and each is used once")]
    Number(RawFd),
    /// The descriptor could not be duplicated.
    #[error(
        "cannot duplicate descriptor {source_fd} for a worker: {error}; raise the limit on open files (ulimit -n) if there are too many"
    )]
    Duplicate {
        source_fd: RawFd,
        /// The error of fcntl(2).
        error: io::Error,
    },
    /// fork or exec failed.
    #[error("cannot start the worker {}: {error}", program.display())]
    Exec {
        program: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A process started by this one; dropping it kills and reaps it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
}

impl Worker {
    /// Starts `program` with `args`; each descriptor of `inherit` appears in it under the paired number, for [`Inherited`] to
    /// take.
    ///
    /// `stack`, if there is one, is loaded into it before the C library.
    ///
    /// The worker is cut off from this process's standard input and output (both are `/dev/null`); it shares standard error, the
    /// rest of the environment and the signal mask (so signals blocked by [`Signals`](crate::signal::Signals) stay blocked in
    /// it). `SIGUSR1` is ignored until it calls [`install_nudge_handler`], so an early [`nudge`](Worker::nudge) is lost but not
    /// deadly. exec closes every descriptor except the inherited ones, including those that other code opened without
    /// close-on-exec (close_range(2), Linux 5.11; older kernels close only close-on-exec descriptors, which covers everything
    /// Rust opens).
    ///
    /// # Errors
    /// [`SpawnError`]; no process is left running.
    pub fn spawn(
        program: &Path,
        args: &[OsString],
        inherit: &[(BorrowedFd<'_>, RawFd)],
        stack: Option<&Library>,
    ) -> Result<Worker, SpawnError> {
        let passed = Passed::stage(inherit)?;
        let moves: Vec<(RawFd, RawFd)> = passed.moves.iter().map(|(fd, number)| (fd.as_raw_fd(), *number)).collect();
        let parent = getpid();
        let failed = |error| SpawnError::Exec { program: program.into(), error };
        let (variable, named) =
            inherited::named(passed.moves.iter().map(|(fd, number)| (fd.as_fd(), *number))).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(args).env(variable, named).stdin(Stdio::null()).stdout(Stdio::null());
        command.envs(stack.map(|library| (stack::PRELOAD, stack::before_others(library.path()))));
        let in_child = move || {
            // Parent-death comes first: from here on, a parent that dies takes the child along.
            die_with_parent(parent)?;
            // SAFETY: SIG_IGN is a valid disposition, no handler is installed.
            if unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the call only sets a flag on descriptors. Its result is not needed: kernels without it (before
            // 5.11) leave descriptors as they were opened.
            unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
            for &(from, to) in &moves {
                // SAFETY: `from` is open (staged by the parent), and `to` is either a placeholder of the parent's or
                // a descriptor that this process, about to exec, no longer needs.
                if unsafe { libc::dup2(from, to) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes only async-signal-safe system calls, and allocates nothing.
        unsafe { command.pre_exec(in_child) };
        match command.spawn() {
            Ok(child) => Ok(Worker { child }),
            Err(error) => Err(failed(error)),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The worker's exit status, or `None` while it runs.
    ///
    /// # Errors
    /// The errors of waitpid(2).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Interrupts the blocking system calls of all the worker's threads, which then return EINTR; does nothing if the worker has
    /// ended.
    ///
    /// A signal just before the call blocks is lost: make the request first (such as
    /// [`request_stop`](crate::shared::Shared::request_stop)), then nudge until the worker has answered.
    ///
    /// # Errors
    /// The errors of waitpid(2), of reading `/proc/PID/task`, and of tgkill(2).
    pub fn nudge(&mut self) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        // A signal to the process reaches only one thread, so each thread gets its own. An unreaped process keeps its id, so the
        // signal cannot reach another process.
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let Some(thread) = task?.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok()) else {
                continue;
            };
            // SAFETY: the call only sends a signal; it fails if the thread has ended.
            if unsafe { libc::syscall(libc::SYS_tgkill, self.pid(), thread, libc::SIGUSR1) } < 0 {
                let error = io::Error::last_os_error();
                if error.raw_os_error() != Some(libc::ESRCH) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Freezes the worker (SIGSTOP), so that it takes no CPU time at all, or lets it go on (SIGCONT).
    ///
    /// # Errors
    /// The errors of waitpid(2) and kill(2).
    pub fn freeze(&mut self, frozen: bool) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let pid = rustix::process::Pid::from_child(&self.child);
        let signal = if frozen { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT };
        Ok(rustix::process::kill_process(pid, signal)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only if the worker has ended and was reaped, as intended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Descriptors staged so that moving one in the child never overwrites another.
struct Passed {
    /// A duplicate above every target number, and its target number.
    moves: Vec<(OwnedFd, RawFd)>,
    /// Occupy free target numbers, so that std's pipe for reporting a failed exec never gets one.
    _placeholders: Vec<OwnedFd>,
}

impl Passed {
    fn stage(inherit: &[(BorrowedFd<'_>, RawFd)]) -> Result<Passed, SpawnError> {
        let above = inherit.iter().map(|(_, number)| *number).max().unwrap_or(2).saturating_add(1);
        let mut passed = Passed { moves: Vec::with_capacity(inherit.len()), _placeholders: Vec::new() };
        for &(fd, number) in inherit {
            if number <= 2 || passed.moves.iter().any(|(_, taken)| *taken == number) {
                return Err(SpawnError::Number(number));
            }
            let duplicate = |from| {
                fcntl_dupfd_cloexec(fd, from).map_err(|e| SpawnError::Duplicate { source_fd: fd.as_raw_fd(), error: e.into() })
            };
            passed.moves.push((duplicate(above)?, number));
            let placeholder = duplicate(number)?;
            if placeholder.as_raw_fd() == number {
                passed._placeholders.push(placeholder);
            }
        }
        Ok(passed)
    }
}

/// In a worker: requests SIGKILL for when the thread that started it ends, and fails if that has already happened.
///
/// [`Worker::spawn`] does so before exec, but the kernel drops the request when it executes a program with file capabilities or a
/// set-user-id bit and when the process changes its user or group (prctl(2)). So a worker, which knows its parent's id, repeats
/// it at its start and after entering its namespaces.
///
/// # Errors
/// `ESRCH` if `parent` is no longer the parent; those of prctl(2).
pub fn die_with_parent(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent died before the call above, another process has adopted the child.
    if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

extern "C" fn on_nudge(_: libc::c_int) {}

/// In a worker: lets [`Worker::nudge`] interrupt blocking system calls (SIGUSR1, an empty handler, no `SA_RESTART`).
///
/// # Errors
/// The errors of sigaction(2) and pthread_sigmask(3).
pub fn install_nudge_handler() -> io::Result<()> {
    // SAFETY: all zeroes is a valid sigaction, and the handler does nothing, which is async-signal-safe. Without
    // SA_SIGINFO the handler is called with the one argument that it takes.
    let set = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_nudge as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut())
    };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    crate::signal::change_mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1])
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::process::test_kill_process;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    impl Worker {
        /// Waits up to `limit` for the worker to end; `None` if it still runs then.
        pub(crate) fn wait_timeout(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
            let due = Instant::now() + limit;
            loop {
                let status = self.try_wait()?;
                if status.is_some() || Instant::now() >= due {
                    return Ok(status);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn sh(script: &str, inherit: &[(BorrowedFd<'_>, RawFd)]) -> Worker {
        Worker::spawn(Path::new("/bin/sh"), &["-c".into(), script.into()], inherit, None).unwrap()
    }

    fn pipe() -> (File, OwnedFd) {
        let (reader, writer) = std::io::pipe().unwrap();
        (File::from(OwnedFd::from(reader)), writer.into())
    }

    /// Reads until every writer has closed the pipe.
    fn all(mut reader: File) -> String {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    fn gone(pid: u32) -> bool {
        test_kill_process(Pid::from_raw(pid.cast_signed()).unwrap()) == Err(rustix::io::Errno::SRCH)
    }

    #[test]
    fn descriptors_arrive_under_their_numbers_even_if_numbers_and_sources_overlap() {
        let (first, first_writer) = pipe();
        let (second, second_writer) = pipe();
        // Each is requested under the other's current number.
        let (a, b) = (first_writer.as_raw_fd(), second_writer.as_raw_fd());
        let script = format!("echo first >&{b}; echo second >&{a}");
        // dash accepts one digit in a redirection; use bash only for larger numbers.
        let script = if a.max(b) > 9 { format!("echo first >/dev/fd/{b}; echo second >/dev/fd/{a}") } else { script };
        let mut worker = sh(&script, &[(first_writer.as_fd(), b), (second_writer.as_fd(), a)]);
        drop((first_writer, second_writer));
        assert_eq!((all(first), all(second)), ("first\n".into(), "second\n".into()));
        assert!(worker.wait_timeout(SOON).unwrap().unwrap().success());
        assert!(worker.try_wait().unwrap().unwrap().success(), "the status stays readable");
    }

    #[test]
    fn nothing_else_is_inherited() {
        let (reader, writer) = pipe();
        let (stray, stray_writer) = pipe();
        fcntl_setfd(&stray_writer, FdFlags::empty()).unwrap();
        let worker = sh("exec sleep 60", &[(writer.as_fd(), 9)]);
        drop(stray_writer);
        // The stray pipe ends while the worker runs: close_range closed its writer.
        assert_eq!(all(stray), "");
        drop((worker, writer));
        assert_eq!(all(reader), "");
    }

    #[test]
    fn numbers_of_the_standard_streams_and_repeated_numbers_are_refused() {
        let (_reader, writer) = pipe();
        for inherit in [&[(writer.as_fd(), 2)][..], &[(writer.as_fd(), 7), (writer.as_fd(), 7)]] {
            assert!(matches!(Worker::spawn(Path::new("/bin/true"), &[], inherit, None), Err(SpawnError::Number(2 | 7))));
        }
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_that_names_it() {
        // The requested number is the next free one, where std would put its own pipe.
        let (_reader, writer) = pipe();
        let next = rustix::io::dup(&writer).unwrap().as_raw_fd();
        let error = Worker::spawn(Path::new("/no/such/program"), &[], &[(writer.as_fd(), next)], None).unwrap_err();
        assert_eq!(error.to_string(), "cannot start the worker /no/such/program: No such file or directory (os error 2)");
    }

    #[test]
    fn drop_leaves_no_process() {
        let worker = sh("exec sleep 60", &[]);
        let pid = worker.pid();
        assert!(!gone(pid));
        drop(worker);
        assert!(gone(pid));
    }

    #[test]
    fn a_nudge_of_a_worker_that_has_ended_does_nothing() {
        let mut worker = sh("exec sleep 60", &[]);
        assert_eq!(worker.try_wait().unwrap(), None);
        worker.child.kill().unwrap();
        assert!(worker.wait_timeout(SOON).unwrap().is_some());
        worker.nudge().unwrap();
    }

    #[test]
    fn an_early_nudge_is_not_deadly() {
        let (reader, writer) = pipe();
        let (input, mut go) = std::io::pipe().unwrap();
        let mut worker = sh("read line <&8; echo alive >&9", &[(input.as_fd(), 8), (writer.as_fd(), 9)]);
        drop(writer);
        worker.nudge().unwrap();
        go.write_all(b"go\n").unwrap();
        assert_eq!(all(reader), "alive\n");
    }

    /// Runs this test binary's `test` as a worker with `HAIRPIN_TEST_ROLE` set.
    fn role(test: &str, inherit: &[(BorrowedFd<'_>, RawFd)]) -> Worker {
        let binary = std::env::current_exe().unwrap();
        let args = ["HAIRPIN_TEST_ROLE=1".into(), binary.into(), "--exact".into(), test.into(), "--nocapture".into()];
        Worker::spawn(Path::new("/usr/bin/env"), &args, inherit, None).unwrap()
    }

    fn in_role() -> bool {
        std::env::var_os("HAIRPIN_TEST_ROLE").is_some()
    }

    /// The parent that its worker must not outlive: starts a worker that prints its process id and sleeps, then waits to be
    /// killed.
    #[test]
    fn role_parent() {
        if in_role() {
            let pipe = Inherited::claim().unwrap().take(9).unwrap();
            let _worker = sh("echo $$ >&9; exec sleep 60", &[(pipe.as_fd(), 9)]);
            std::thread::sleep(Duration::from_secs(60));
        }
    }

    #[test]
    fn a_worker_dies_with_its_parent() {
        let (mut reader, writer) = pipe();
        let mut parent = role("process::tests::role_parent", &[(writer.as_fd(), 9)]);
        drop(writer);
        let mut line = [0; 32];
        let n = reader.read(&mut line).unwrap();
        let pid: u32 = str::from_utf8(&line[..n]).unwrap().trim().parse().unwrap();
        assert!(!gone(pid));
        parent.child.kill().unwrap();
        parent.wait_timeout(SOON).unwrap().unwrap();
        // The worker holds the last writer: the pipe ends when the worker is dead, long before its sleep is over.
        let limit = Timespec { tv_sec: 5, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&limit)), Ok(1));
        assert_eq!(all(reader), "");
    }

    /// The worker of the test below: takes its descriptors, is nudged out of a blocking read, and reports it.
    #[test]
    fn role_nudged() {
        if in_role() {
            let mut inherited = Inherited::claim().unwrap();
            assert_eq!(Inherited::claim().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            let answer = inherited.take(9).unwrap();
            let never = inherited.take(8).unwrap();
            for number in [7, 8] {
                assert_eq!(inherited.take(number).unwrap_err().raw_os_error(), Some(libc::EBADF), "not passed, taken before");
            }
            install_nudge_handler().unwrap();
            rustix::io::write(&answer, b"ready\n").unwrap();
            let result = rustix::io::read(&never, &mut [0; 1][..]);
            assert_eq!(result, Err(rustix::io::Errno::INTR));
            rustix::io::write(&answer, b"EINTR\n").unwrap();
        }
    }

    #[test]
    fn a_nudge_interrupts_a_blocking_call() {
        let (mut reader, writer) = pipe();
        let (never, _keep) = pipe();
        let mut worker = role("process::tests::role_nudged", &[(writer.as_fd(), 9), (never.as_fd(), 8)]);
        drop(writer);
        let mut ready = [0; 6];
        reader.read_exact(&mut ready).unwrap();
        let due = Instant::now() + SOON;
        let status = loop {
            worker.nudge().unwrap();
            if let Some(status) = worker.wait_timeout(Duration::from_millis(2)).unwrap() {
                break status;
            }
            assert!(Instant::now() < due);
        };
        assert_eq!(all(reader), "EINTR\n");
        assert!(status.success());
    }

    #[test]
    fn a_child_of_someone_else_is_told_so() {
        assert_eq!(die_with_parent(getpid()).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        set_parent_process_death_signal(None).unwrap();
    }
}
