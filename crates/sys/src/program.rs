//! Runs another program with a preloaded library and on a chosen CPU; it gets a signal to end when its parent ends.
//!
//! ```text
//!   preload/preload.c ─ build.rs ─▶ bytes in this binary ─▶ a file ─▶ LD_PRELOAD=/path/of/it of the program and all that it starts
//! ```
//! A process that can replace the file at that path gets its code loaded into all of them, as long as one of them lives: the
//! caller must put the file where only this user can write.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::signal::change_mask;
use crate::stack::{PRELOAD, before_others};

/// The compiled library: an ELF shared object.
pub static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// Environment variable with the library's settings.
const SETTINGS: &str = "HAIRPIN_EXEC";

/// Makes `command` and its children preload the library at `path` before other preloaded ones; preload.c reads `settings`.
pub fn preload(command: &mut Command, path: &Path, settings: &str) {
    command.env(PRELOAD, before_others(path)).env(SETTINGS, settings);
}

/// Starts `command`, pinned to `cpu` if given, with `signals`, which this process has blocked, unblocked. It gets SIGTERM when
/// the calling thread ends.
///
/// # Errors
/// The errors of fork(2), execve(2) and sched_setaffinity(2).
pub fn start(mut command: Command, cpu: Option<u32>, signals: &'static [i32]) -> io::Result<Child> {
    let parent = getpid();
    let cpus = cpu.map(|cpu| {
        let mut cpus = CpuSet::new();
        cpus.set(cpu as usize);
        cpus
    });
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        if getppid() != Some(parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if let Some(cpus) = &cpus {
            sched_setaffinity(None, cpus)?;
        }
        change_mask(libc::SIG_UNBLOCK, signals)
    };
    // SAFETY: between fork and exec the closure makes only async-signal-safe system calls, and allocates nothing.
    unsafe { command.pre_exec(in_child) };
    command.spawn()
}
