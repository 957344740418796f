//! Settings that last as long as a command: start it, wait for it, and put everything back, however it ends.
//!
//! Ctrl-C reaches the command directly, as it does every process of the terminal; a SIGTERM or SIGHUP to this process
//! is passed on to it. Either way this process waits until the command has ended, and then restores.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;

use hairpin_sys::process::Attended;
use hairpin_sys::signal::Signals;

use crate::change::{NONE, PARTITION};
use crate::knobs::CPUSET_PARTITION;
use crate::setting::Setting;

/// The cgroup for a command that runs under these settings: the partition of `cpuset_partition`, in force before or not.
#[must_use]
pub fn cgroup(settings: &[Setting]) -> Option<&'static Path> {
    let reserves = |setting: &Setting| setting.knob.name == CPUSET_PARTITION.name && setting.value != NONE;
    settings.iter().any(reserves).then_some(Path::new(PARTITION))
}

/// Runs `command` in `cgroup`, if there is one. `signals` delivers SIGINT, SIGTERM and SIGHUP; the command gets them as usual.
///
/// # Errors
/// The command could not be started.
pub fn attend(command: &[OsString], cgroup: Option<&Path>, signals: &Signals) -> io::Result<ExitStatus> {
    Attended::spawn(command, cgroup)?.wait(signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_in_the_partition_that_its_settings_ask_for() {
        let of = |texts: &[&str]| {
            let settings: Vec<Setting> = texts.iter().map(|text| text.parse().unwrap()).collect();
            cgroup(&settings)
        };
        assert_eq!(of(&["tcp_autocorking=off", "cpuset_partition=2-3"]), Some(Path::new("/sys/fs/cgroup/hairpin.isolated")));
        assert_eq!([of(&["cpuset_partition=none"]), of(&["timer_migration=off"])], [None, None]);
    }
}
