//! A foreign program, started with a library before it and on a CPU of its choice, that is told to end when its parent ends.
//!
//! ```text
//!   preload/preload.c ─ build.rs ─▶ bytes in this binary ─▶ memfd ─▶ LD_PRELOAD=/proc/PID/fd/N of the program
//! ```
//! The library lies in memory of this process and is there as long as that lives.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::signal::change_mask;

/// The library, compiled.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// Where the library finds its settings.
const SETTINGS: &str = "HAIRPIN_EXEC";
/// Where the loader finds the library (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// The library as a file that only its owner's processes find.
#[derive(Debug)]
pub struct Preload(File);

impl Preload {
    /// Puts it into memory (memfd_create(2), close-on-exec, sealed against any change).
    ///
    /// # Errors
    /// Those of memfd_create(2), write(2) and fcntl(2).
    pub fn create() -> io::Result<Preload> {
        let mut file = File::from(memfd_create("hairpin-preload", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.write_all(LIBRARY)?;
        fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
        Ok(Preload(file))
    }

    /// Has `command` loaded with it, before whatever else is loaded so; `settings` are those that preload.c reads.
    pub fn before(&self, command: &mut Command, settings: &str) {
        let mut list = std::ffi::OsString::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()));
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            list.push(":");
            list.push(others);
        }
        command.env(PRELOAD, list).env(SETTINGS, settings);
    }
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
