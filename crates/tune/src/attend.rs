//! Settings that last as long as a command: start it, wait for it, and put everything back, however it ends.
//!
//! Ctrl-C reaches the command directly, as it does every process of the terminal; a SIGTERM or SIGHUP to this process
//! is passed on to it. Either way this process waits until the command has ended, and then restores.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;

use hairpin_sys::process::Attended;
use hairpin_sys::signal::Signals;

use crate::change::Address;
use crate::tuning::Tuning;

/// Runs `command` while the settings hold, in the cgroup of `cpuset_partition` if that is one of them. `signals`
/// delivers SIGINT, SIGTERM and SIGHUP; the command gets them as usual.
///
/// # Errors
/// The command could not be started.
pub fn attend(tuning: &Tuning<'_>, command: &[OsString], signals: &Signals) -> io::Result<ExitStatus> {
    let mut running = Attended::spawn(command)?;
    let on = tuning.changes().iter().enumerate().filter(|(index, _)| tuning.is_on(*index));
    for (_, change) in on {
        if let Address::Partition { path } = &change.address {
            // The command has just started: everything it starts from now on runs in the cgroup too.
            std::fs::write(format!("{path}/cgroup.procs"), running.pid().to_string())?;
        }
    }
    running.wait(signals)
}
