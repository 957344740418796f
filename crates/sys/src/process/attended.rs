//! A user's command, waited for despite signals.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open};

use super::pid_of;
use crate::signal::{SIGHUP, SIGINT, SIGTERM, Signals, change_mask};

/// Pause between two looks at a command where the kernel has no pidfd_open(2): before Linux 5.3.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Lets `command` start with SIGINT, SIGTERM and SIGHUP unblocked, even if this process blocks them.
pub fn unblocked(command: &mut Command) -> &mut Command {
    let unblock = || change_mask(libc::SIG_UNBLOCK, &[SIGINT, SIGTERM, SIGHUP]);
    // SAFETY: between fork and exec the closure calls sigemptyset, sigaddset and pthread_sigmask only, which are
    // async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(unblock) }
}

/// Lets `command` start in this cgroup.
fn in_cgroup(command: &mut Command, cgroup: &Path) -> io::Result<()> {
    let path = cgroup.join("cgroup.procs");
    let opened = File::options().write(true).open(&path);
    let procs = opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    // To the kernel, 0 is the process that writes it.
    let enter = move || rustix::io::write(&procs, b"0").map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec the closure calls write(2) only, which is async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

/// A command with this process's standard input, output and error, and with the default signal mask.
#[derive(Debug)]
pub struct Attended {
    child: Child,
}

impl Attended {
    /// Starts the command, in `cgroup` if there is one: it is there before it runs. It does not inherit this process's blocking
    /// of SIGINT, SIGTERM and SIGHUP.
    ///
    /// # Errors
    /// There is no such program or cgroup, or those of fork and exec; `InvalidInput` if the command is empty.
    pub fn spawn(command: &[OsString], cgroup: Option<&Path>) -> io::Result<Attended> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        unblocked(command.args(arguments));
        if let Some(cgroup) = cgroup {
            in_cgroup(&mut command, cgroup)?;
        }
        let child = command.spawn().map_err(|error| match cgroup {
            Some(cgroup) => io::Error::new(error.kind(), format!("{error} (for the cgroup {})", cgroup.display())),
            None => error,
        })?;
        Ok(Attended { child })
    }

    /// Waits for the command to end. Passes SIGTERM and SIGHUP on; SIGINT comes from a terminal, which sends it to the command
    /// too.
    ///
    /// # Errors
    /// The errors of waitpid(2), pidfd_open(2) and poll(2).
    pub fn wait(&mut self, signals: &Signals) -> io::Result<ExitStatus> {
        match pidfd_open(pid_of(&self.child)?, PidfdFlags::empty()) {
            // EPERM: a filter of system calls, as in older containers.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => self.wait_by(None, signals),
            pidfd => self.wait_by(Some(&pidfd?), signals),
        }
    }

    /// Waits until `ended` is readable, or looks again and again.
    fn wait_by(&mut self, ended: Option<&OwnedFd>, signals: &Signals) -> io::Result<ExitStatus> {
        let pid = pid_of(&self.child)?;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            let mut fds = vec![PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
            fds.extend(ended.map(|ended| PollFd::new(ended, PollFlags::IN)));
            match poll(&mut fds, ended.is_none().then_some(&LOOK_EVERY)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            while let Some(signal) = signals.next()? {
                let passed = match signal {
                    SIGTERM => Signal::TERM,
                    SIGHUP => Signal::HUP,
                    _ => continue,
                };
                // Not reaped yet, so the process id is still its own.
                kill_process(pid, passed)?;
            }
        }
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        // After an error nobody else waits for the command. Both calls fail only if it has ended and was reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_its_signals_and_its_status_comes_back() {
        let signals = Signals::block(&[SIGINT, SIGTERM, SIGHUP]).unwrap();
        let command = |script: &str| ["/bin/sh", "-c", script].map(OsString::from);
        let status = Attended::spawn(&command("exit 7"), None).unwrap().wait(&signals).unwrap();
        assert_eq!(status.code(), Some(7));
        let status = Attended::spawn(&command("exit 7"), None).unwrap().wait_by(None, &signals).unwrap();
        assert_eq!(status.code(), Some(7), "where the kernel has no pidfd");
        let status = Attended::spawn(&command("kill -TERM $$; exit 0"), None).unwrap().wait(&signals).unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(SIGTERM));
        assert!(Attended::spawn(&[], None).is_err());
        assert!(Attended::spawn(&["/nonexistent".into()], None).is_err());
    }

    #[test]
    fn a_command_is_in_its_cgroup_before_it_runs() {
        let signals = Signals::block(&[SIGINT, SIGTERM, SIGHUP]).unwrap();
        let cgroup = tempfile::tempdir().unwrap();
        let procs = cgroup.path().join("cgroup.procs");
        let script = "test $(cat \"$0\") = 0";
        let command: [OsString; 4] = ["/bin/sh".into(), "-c".into(), script.into(), procs.clone().into()];
        let error = Attended::spawn(&command, Some(cgroup.path())).unwrap_err().to_string();
        assert!(error.contains("cgroup.procs: No such file"), "{error}");
        std::fs::write(&procs, "").unwrap();
        let status = Attended::spawn(&command, Some(cgroup.path())).unwrap().wait(&signals).unwrap();
        assert_eq!(status.code(), Some(0));
        let error = Attended::spawn(&["/nonexistent".into()], Some(cgroup.path())).unwrap_err().to_string();
        assert!(error.contains(&format!("(for the cgroup {})", cgroup.path().display())), "{error}");
    }
}
