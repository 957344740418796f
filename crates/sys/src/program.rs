//! A foreign program, started with a library before it and on a CPU of its choice, that is told to end when its parent ends.
//!
//! ```text
//!   preload/preload.c ─ build.rs ─▶ bytes in this binary ─▶ a file ─▶ LD_PRELOAD=/path/of/it of the program and all that it starts
//! ```
//! Whoever can put something else at that path is loaded into all of them, for as long as one of them lives: the caller lays the file where only this user can.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::signal::change_mask;

/// The library, compiled: an ELF shared object.
pub static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// Where the library finds its settings.
const SETTINGS: &str = "HAIRPIN_EXEC";
/// Where the loader finds the library (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// Has `command`, and what that starts, load the library at `path` before whatever else is loaded so; `settings` are those that preload.c reads.
pub fn preload(command: &mut Command, path: &Path, settings: &str) {
    let mut list = path.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    command.env(PRELOAD, list).env(SETTINGS, settings);
}

/// Starts `command`, on `cpu` alone if that is given. `signals` that this process has blocked are open in it again. It gets SIGTERM when the calling
/// thread ends.
///
/// # Errors
/// Those of fork(2), execve(2) and sched_setaffinity(2).
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
