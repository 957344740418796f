//! `hairpin exec`: an unmodified program with settings for low latency.

use std::ffi::OsString;
use std::process::ExitCode;

use hairpin_lab::exec::{self, Found, Outcome, SIGNALS, Settings};
use hairpin_sys::signal::Signals;

use crate::exit::{Failure, say};

/// Run an unmodified program with the settings that are a process's or a socket's own, and prove that its sockets have them.
#[derive(Debug, clap::Args)]
pub struct Exec {
    /// Microseconds for which a receive call polls the device before it sleeps (SO_BUSY_POLL)
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    busy_poll: Option<u32>,
    /// Segments leave at once (TCP_NODELAY)
    #[arg(long)]
    nodelay: bool,
    /// Segments are acknowledged at once (TCP_QUICKACK, after each receive call)
    #[arg(long)]
    quickack: bool,
    /// The CPU of all its threads
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// Hold the host's cores off deep idle states while it runs (/dev/cpu_dma_latency at 0); needs root
    #[arg(long)]
    hold_idle: bool,
    /// Give sockets that lack an option that option from outside: those of static programs and of Go
    #[arg(long)]
    set_live: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Exec {
    /// Runs it; the exit code is the program's.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let Exec { busy_poll, nodelay, quickack, cpu, hold_idle, set_live, command } = self;
        let signals = Signals::block(SIGNALS).map_err(Failure::failed)?;
        let settings = Settings { busy_poll, nodelay, quickack, cpu, hold_idle, set_live };
        let (status, seen) =
            exec::run(&command, settings, &signals, &mut tell).map_err(|error| Failure::blamed(&error, error.blame()))?;
        if seen.not_polled > 0 {
            say(format_args!(
                "hairpin exec: {} of {} sockets are to poll, and the device that they receive from has no NAPI id: busy polling is not in force there",
                seen.not_polled, seen.sockets
            ));
        }
        if seen.closed > 0 {
            say(format_args!(
                "hairpin exec: processes that do not let their sockets be read: {}; run as their user, or as root",
                seen.closed
            ));
        }
        if seen.without > 0 {
            let hint = if set_live { "" } else { "; --set-live sets it from outside" };
            say(format_args!("hairpin exec: {} of {} sockets seen lack an option{hint}", seen.without, seen.sockets));
        }
        Ok(ExitCode::from(exec::exit_code(status)))
    }
}

fn tell(found: &Found) {
    for (option, outcome) in &found.lacked {
        let outcome = match outcome {
            Outcome::Left => "lacks it".into(),
            Outcome::Set => "lacked it, and has it now".into(),
            Outcome::Refused(why) => format!("lacks it, and does not take it: {why}"),
        };
        say(format_args!(
            "hairpin exec: {option}: {} (pid {}), descriptor {}, {}: {outcome}",
            found.name, found.pid, found.fd, found.what
        ));
    }
}
