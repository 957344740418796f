//! Runs a program that asks a daemon for its state: a fixed command line, no input, bounded in time and output.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A program that takes longer is ended.
const WITHIN: Duration = Duration::from_millis(2_500);
/// Interval between looks at it.
const LOOK: Duration = Duration::from_millis(2);
/// Most bytes of its output; less than a pipe holds, so that it never waits for this reader.
const MOST: u64 = 60 << 10;

/// The program's output.
///
/// # Errors
/// The program is not installed, failed, or took too long; in words that name it.
pub(super) fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A wrapper's own children would keep its pipes open: they end with it.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{program} is not installed"),
        // Also where a folder of PATH is closed to this user (execvp(3)).
        io::ErrorKind::PermissionDenied => format!("{program} is not installed, or this user may not run it"),
        _ => format!("{program} cannot be run: {error}"),
    })?;
    let ended = end_of(&child);
    // Nothing of the program stays, whether it ended or not; both calls fail only if it is gone.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let status = child.wait();
    let failed = |error| format!("{program} cannot be waited for: {error}");
    if !ended.map_err(|error| failed(error.into()))? {
        return Err(format!("{program} did not end within {WITHIN:?}"));
    }
    let said = text(child.stdout.take());
    if status.map_err(failed)?.success() {
        return Ok(said);
    }
    let errors = text(child.stderr.take());
    // chronyc says why on standard output.
    let why = errors.lines().chain(said.lines()).map(str::trim).find(|line| !line.is_empty());
    Err(format!("{program}: {}", short(why.unwrap_or("it failed and does not say why"))))
}

/// The text that a program which has ended wrote to `from`, as far as it can be read. It does not wait for a process that the
/// program has left behind, which may keep the pipe open.
fn text(from: Option<impl Read + AsFd>) -> String {
    let mut bytes = Vec::new();
    let _ = from.map(|from| fcntl_setfl(&from, OFlags::NONBLOCK).map(|()| from.take(MOST).read_to_end(&mut bytes)));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether `child` has ended in time. It stays to be waited for, and so keeps its number.
fn end_of(child: &Child) -> Result<bool, Errno> {
    let until = Instant::now() + WITHIN;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while Instant::now() < until {
        if waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some() {
            return Ok(true);
        }
        thread::sleep(LOOK);
    }
    Ok(false)
}

/// A line for a message, which may go to another host.
fn short(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_program_or_why_there_is_none() {
        let shell = |script: &str| output("sh", &["-c", script]);
        assert_eq!(shell("echo $LC_ALL; cat"), Ok("C\n".into()), "no input");
        assert_eq!(shell("echo 506 Cannot talk to daemon; exit 1"), Err("sh: 506 Cannot talk to daemon".into()));
        assert_eq!(shell("echo out; echo no >&2; exit 3"), Err("sh: no".into()));
        assert_eq!(shell("exit 1"), Err("sh: it failed and does not say why".into()));
        let why = output("hairpin-no-such-program", &[]).unwrap_err();
        assert!(why.starts_with("hairpin-no-such-program is not installed"), "{why}");
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let begun = Instant::now();
        let error = output("sh", &["-c", "exec sleep 600"]).expect_err("it hangs");
        assert_eq!(error, "sh did not end within 2.5s");
        assert!(output("sh", &["-c", "sleep 600 & wait"]).is_err(), "a wrapper's own child ends with it");
        assert!(begun.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn a_process_that_the_program_leaves_behind_is_not_waited_for() {
        let begun = Instant::now();
        assert_eq!(output("sh", &["-c", "setsid sleep 30 & echo out"]), Ok("out\n".into()));
        assert!(begun.elapsed() < Duration::from_secs(25));
    }
}
