//! `hairpin explain --port` and `--pid`: watches a running application.

use std::process::ExitCode;

use clap::Args;
use hairpin_lab::attached::{self, AttachPlan, AttachedError, News, Target};
use hairpin_record::attached::Watched;
use hairpin_report::Options;
use hairpin_report::watch::Stages;
use hairpin_units::Nanos;

use crate::exit::{Failure, say};
use crate::output::{Keep, Output};
use crate::screen::{self, Screen};
use crate::verbs::ping::{signals, terminal_signals};

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

/// Watches, and prints the record. `live` draws it meanwhile, until the user ends it if there is no duration.
pub fn run(
    target: Target,
    duration: Option<Nanos>,
    live: bool,
    output: Output,
    options: &Options,
    keep: Keep,
) -> Result<ExitCode, Failure> {
    if duration == Some(Nanos::ZERO) {
        return Err(Failure::usage("--duration 0s leaves no time to see anything: write a time above 0, such as 10s"));
    }
    let signals = if live {
        screen::check("--live", "leave it out, for the result at the end")?;
        terminal_signals()?
    } else {
        signals()?
    };
    let plan = AttachPlan { target, duration, live, command: std::env::args().collect() };
    let mut screen = live.then(|| Screen::new(Stages::new(&title(target))));
    let mut news = |news: News<'_>| match (news, &mut screen) {
        (News::Begun(_), Some(started)) => {
            if let Err(failure) = started.start(Vec::new()) {
                // The user wants the result; the watching goes on without its view.
                failure.report();
                screen = None;
            }
        }
        (News::Begun(watched), None) => say(begun(watched, duration)),
        (News::Second { so_far, last, last_ns }, Some(screen)) => screen.change(|state| state.second(so_far, last, last_ns)),
        (News::Second { .. }, None) => {}
    };
    let record = attached::run(&plan, &signals, &mut news);
    // From here on output goes where the view was.
    drop(screen);
    let record = record?;
    keep.after(output.print_with(&record, options), &record)?;
    // If something was seen, the end of the watched process is not a failure.
    match record.head.error {
        Some(error) if record.transactions == 0 => Err(Failure::failed(error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn title(target: Target) -> String {
    match target {
        Target::Port(port) => format!("hairpin explain :{port}"),
        Target::Process(pid) => format!("hairpin explain {pid}"),
    }
}

fn begun(watched: &Watched, duration: Option<Nanos>) -> String {
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
    let lasts = duration.map_or(String::new(), |duration| format!(" for {duration}"));
    format!("hairpin watches {what}{lasts}; Ctrl-C ends it")
}

impl From<AttachedError> for Failure {
    fn from(error: AttachedError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}
