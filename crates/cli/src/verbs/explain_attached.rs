//! `hairpin explain :PORT`, `PROGRAM` and `PID`: watches a running application.

use std::fs;
use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use hairpin_lab::attached::{self, AttachPlan, AttachedError, News, Target};
use hairpin_record::attached::Watched;
use hairpin_report::live::{Figures, Going, Place};
use hairpin_report::watch::Stages;
use hairpin_units::Nanos;

use crate::exit::{Failure, note};
use crate::flags::whole_in;
use crate::line;
use crate::output::{Keep, Output};
use crate::place::{HostPort, PORT, Place as Peer, is_run};
use crate::progress::Lines;
use crate::screen::{self, Screen};
use crate::verbs::ping::signals;

/// An application that already runs, in place of a path
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false, conflicts_with = "Where")]
pub struct Attach {
    /// Watch the server on this port, TCP or UDP, and its clients on this host, for --duration; the same as :N
    #[arg(long, value_name = "N", hide = true, value_parser = whole_in(1..=u16::MAX))]
    port: Option<u16>,
    /// Watch this process and those that it started, as server and as client, for --duration; the same as PID, or the program's
    /// name
    #[arg(long, value_name = "PID", hide = true, value_parser = whole_in(1..=i32::MAX))]
    pid: Option<i32>,
}

impl Attach {
    /// The application to watch, if one was given, by a flag or as the place.
    pub fn target(self, place: Option<&Peer>) -> Result<Option<Target>, Failure> {
        let of_a_path = line::given_but("explain", &["host", "port", "pid", "duration", "whole", "live"]);
        let flag = self.port.map(Target::Port).or(self.pid.map(Target::Process));
        let target = match (flag, place) {
            (Some(target), _) => Some(target),
            (None, Some(Peer::Port(port))) => Some(Target::Port(*port)),
            (None, Some(Peer::Host(HostPort { host, port: None }))) if is_id(host) => host.parse().ok().map(Target::Process),
            // With flags of a path the word is a host.
            (None, Some(Peer::Host(HostPort { host, port: None }))) if of_a_path.is_empty() => {
                let process = named(host)?.map(Target::Process);
                if process.is_none() && !is_run(host) && (host.as_str(), PORT).to_socket_addrs().is_err() {
                    return Err(Failure::usage(format_args!(
                        "no process is called {host}, and no host: a server that runs is also found by its :PORT or its process id"
                    )));
                }
                process
            }
            (None, _) => None,
        };
        if target.is_some() && !of_a_path.is_empty() {
            return Err(Failure::usage(format_args!(
                "{} cannot be used with a program that runs: it does its own work, and --duration is how long it is watched",
                of_a_path.join(", ")
            )));
        }
        Ok(target)
    }
}

fn is_id(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) && word.parse::<i32>().is_ok_and(|pid| pid > 0)
}

/// The process whose program has this name, its own children aside.
fn named(word: &str) -> Result<Option<i32>, Failure> {
    // The kernel keeps 15 characters of a name (proc(5)).
    let kept = word.get(..15).unwrap_or(word);
    let all: Vec<Process> = processes().into_iter().filter(|process| process.name == kept).collect();
    let eldest = all.iter().filter(|process| !all.iter().any(|other| other.pid == process.parent));
    match eldest.map(|process| process.pid).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        ref several => {
            let pids: Vec<String> = several.iter().map(i32::to_string).collect();
            Err(Failure::usage(format_args!(
                "several processes are called {word}: say which, by its id ({}) or its :PORT",
                pids.join(", ")
            )))
        }
    }
}

struct Process {
    pid: i32,
    parent: i32,
    name: String,
}

/// The processes that this user can see, except this one.
fn processes() -> Vec<Process> {
    let read = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets, and may itself hold brackets (proc(5)).
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        Some(Process { pid, parent: rest.split_whitespace().nth(1)?.parse().ok()?, name: name.into() })
    };
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| u32::try_from(*pid) != Ok(std::process::id())).filter_map(read).collect()
}

/// Watches, and prints the record. `live` draws it meanwhile, until the user ends it if there is no duration.
pub fn run(target: Target, duration: Option<Nanos>, live: bool, output: Output, keep: Keep) -> Result<ExitCode, Failure> {
    if duration == Some(Nanos::ZERO) {
        return Err(Failure::usage("--duration 0s leaves no time to see anything: write a time above 0, such as 10s"));
    }
    if live {
        screen::check("--live", "leave it out, for the result at the end")?;
    }
    let signals = signals()?;
    let mut lines = if live { None } else { Lines::on_terminal() };
    let plan = AttachPlan { target, duration, live, drawn: lines.is_some(), command: line::typed() };
    let mut began = Instant::now();
    let mut screen = live.then(|| Screen::new(Stages::new(&title(target))));
    let mut news = |news: News<'_>| match (news, &mut screen) {
        (News::Begun(_), Some(started)) => {
            if let Err(failure) = started.start(Vec::new()) {
                // The result matters more than its view: watching goes on without it.
                failure.report();
                screen = None;
            }
        }
        (News::Begun(watched), None) => {
            note(begun(watched, duration));
            began = Instant::now();
            if let Some(lines) = &mut lines {
                lines.begins(Place { name: title(target), ..Place::default() }, &going(duration, began, None));
            }
        }
        (News::SoFar(so_far), _) => {
            if let Some(lines) = &lines {
                lines.draw(&going(duration, began, Some(so_far.into())));
            }
        }
        (News::Second { so_far, last, last_ns }, Some(screen)) => screen.change(|state| state.second(so_far, last, last_ns)),
        (News::Second { .. }, None) => {}
    };
    let record = attached::run(&plan, &signals, &mut news);
    // From here on output goes to the place of the view.
    drop(screen);
    if let Some(lines) = lines {
        lines.clear();
    }
    let record = record?;
    keep.after(output.print(&record), &record)?;
    // If something was seen, the end of the watched process is not a failure.
    match record.head.error {
        Some(error) if record.transactions == 0 => Err(Failure::failed(error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The progress of the watching, if it has an end.
fn going(lasts: Option<Nanos>, began: Instant, so_far: Option<Figures>) -> Going {
    let (lasts, elapsed) = (lasts.map(|lasts| lasts.as_secs_f64()), began.elapsed().as_secs_f64());
    Going { share: lasts.map(|lasts| elapsed / lasts), left_s: lasts.map(|lasts| lasts - elapsed), so_far, ..Going::default() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_id_and_by_its_name() {
        let parent = std::os::unix::process::parent_id();
        assert!(processes().iter().any(|process| u32::try_from(process.pid) == Ok(parent)));
        assert!(is_id("4711") && !is_id("0") && !is_id("redis-server") && !is_id("99999999999"));
        assert_eq!(named("no-such-program").unwrap(), None, "then it is a host");
    }
}
