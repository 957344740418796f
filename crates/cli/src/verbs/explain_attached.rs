//! `hairpin explain --port` and `--pid`: watches a running application.

use std::process::ExitCode;

use clap::Args;
use hairpin_lab::attached::{self, AttachPlan, AttachedError, Target};
use hairpin_record::attached::Watched;
use hairpin_units::Nanos;

use crate::exit::{Failure, say};
use crate::output::{Keep, Output};
use crate::verbs::ping::signals;

/// An application that already runs, in place of a path
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false, conflicts_with_all = ["Where", "key_file", "paths", "light", "timeline", "without", "perfetto"])]
pub struct Attach {
    /// Watch the server on this port, TCP or UDP, and its clients on this host, for --duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Watch this process and those that it started, as server and as client, for --duration
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
}

impl Attach {
    /// The application to watch, if one was given.
    pub fn target(self) -> Option<Target> {
        self.port.map(Target::Port).or(self.pid.map(Target::Process))
    }
}

/// Watches, and prints the record.
pub fn run(target: Target, duration: Nanos, output: Output, keep: Keep) -> Result<ExitCode, Failure> {
    if duration == Nanos::ZERO {
        return Err(Failure::usage("--duration 0s leaves no time to see anything: write a time above 0, such as 10s"));
    }
    let signals = signals()?;
    let plan = AttachPlan { target, duration, command: std::env::args().collect() };
    let record = attached::run(&plan, &signals, &mut |watched| say(begun(watched, duration)))?;
    keep.after(output.print(&record), &record)?;
    // If something was seen, the end of the watched process is not a failure.
    match record.head.error {
        Some(error) if record.transactions == 0 => Err(Failure::failed(error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn begun(watched: &Watched, duration: Nanos) -> String {
    let what = match (watched.port, watched.pid) {
        (Some(port), _) => format!("port {port}"),
        (_, pid) => {
            let serves: Vec<String> = watched.serves.iter().map(u16::to_string).collect();
            let serves =
                if serves.is_empty() { "serves on no TCP port".into() } else { format!("serves on {}", serves.join(", ")) };
            let comm = hairpin_report::prose::clean(watched.comm.as_deref().unwrap_or_default());
            format!("{comm} ({}), which {serves},", pid.unwrap_or_default())
        }
    };
    format!("hairpin watches {what} for {duration}; Ctrl-C ends it")
}

impl From<AttachedError> for Failure {
    fn from(error: AttachedError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}
