//! `hairpin explain`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hairpin_lab::explain::{self, How};
use hairpin_lab::served;
use hairpin_report::Options;
use hairpin_session::floor;
use hairpin_session::plan::{Plan, Target};
use hairpin_trace::moment::{HOOKS, Hook};

use crate::exit::Failure;
use crate::flags::{Asked, Whole, WorkFlags, whole};
use crate::line;
use crate::output::{Keep, Output, options};
use crate::place::{Mirror, Place, Where, ipv6_has_effect};
use crate::progress::PingProgress;
use crate::verbs::explain_attached::{self, Attach};
use crate::verbs::ping::signals;
use crate::wire::Declared;

/// The help of the target.
const PLACE: &str = "A server that runs, unmodified, by its :PORT, its program or its process id; or, for the stages of a path, a host on which `hairpin serve` runs, loopback or veth[:…]";

/// The answer if there is no target, or one that leaves no stamps.
const TAKES: &str = "explain takes a server that runs (:PORT, PROGRAM or PID), or a peer whose stages can be seen (HOST[:PORT], loopback or veth)";

/// Split a round trip's time into stages
#[derive(Debug, Args)]
#[command(
    mut_arg("host", |arg| arg.value_name(":PORT|PROGRAM|PID|HOST[:PORT]").help(PLACE)),
    mut_arg("flows", |arg| arg.hide(true)),
    mut_arg("threads", |arg| arg.hide(true)),
)]
pub struct Explain {
    #[command(flatten)]
    to: Where,
    #[command(flatten)]
    attach: Attach,
    /// The key that `hairpin serve` printed, in a file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// IPv6 on loopback and veth
    #[arg(short = '6', long)]
    ipv6: bool,
    #[command(flatten)]
    work: WorkFlags,
    #[command(flatten)]
    whole: Whole,
    /// Four hooks in each direction instead of all: less detail, and less disturbance
    #[arg(long, conflicts_with_all = ["timeline", "perfetto"])]
    light: bool,
    /// Print the N slowest transactions event by event
    #[arg(long, value_name = "N", value_parser = whole::<usize>, default_value_t = 0)]
    timeline: usize,
    /// Leave this hook out, such as sock_recv_length; repeatable. The stages that it parts become one
    #[arg(long, value_name = "HOOK", value_parser = hook)]
    without: Vec<&'static Hook>,
    /// Write the transactions of --timeline to this file as Chrome trace events, which Perfetto opens
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Draw a server that runs on the terminal, stage by stage, once a second and without end; q ends it, and keeps and prints
    /// the result
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    declared: Declared,
    #[command(flatten)]
    output: Output,
}

impl Explain {
    /// Measures with and without hooks in turn, and prints the stages.
    pub fn run(self) -> Result<ExitCode, Failure> {
        if let Some(target) = self.attach.target(self.to.host.as_ref())? {
            let given = self.whole.whole.or(line::was_given("duration").then_some(self.work.duration));
            let duration = given.or((!self.live).then_some(self.work.duration));
            return explain_attached::run(target, duration, self.live, self.output, self.keep);
        }
        if self.live {
            return Err(Failure::usage(
                "--live watches a server that runs: name it by its :PORT, its program or its process id; `hairpin ping --watch` draws a path",
            ));
        }
        let (to, none) = (&self.to, self.says_no_place());
        if let Some(Asked::Own(_)) = self.work.request {
            return self.of_a_server();
        }
        if none || to.echo.is_some() || to.reflector || matches!(to.host, Some(Place::Frames(_) | Place::Echo(_))) {
            return Err(Failure::usage(TAKES));
        }
        let signals = signals()?;
        let mirror = Mirror { interface: None, rewrite: None, dst_mac: None };
        let target = self.to.target(self.key_file, mirror, &self.work)?;
        let mut rows = self.work.jobs(true, &target, false)?;
        ipv6_has_effect(self.ipv6, &rows)?;
        self.declared.check(&target)?;
        self.whole.share(&mut rows);
        let floor =
            self.declared.is_any().then(|| self.declared.nic().map(|nic| floor::Declared { nic, link: self.declared.link() }));
        let plan = Plan {
            target,
            ipv6: self.ipv6,
            stack: None,
            rows,
            raw: None,
            shown: hairpin_report::PERCENTILES.into(),
            floor: floor.transpose()?,
            command: line::typed(),
        };
        let how =
            How { light: self.light, without: self.without, timelines: self.timeline.max(usize::from(self.perfetto.is_some())) };
        let mut progress = PingProgress::new(false, &plan.target);
        let found = explain::run(&plan, &how, &signals, &mut progress);
        progress.clear();
        let found = found?;
        let written = self.perfetto.as_ref().map_or(Ok(()), |file| {
            fs::write(file, hairpin_report::explain_perfetto(&found))
                .map_err(|error| Failure::failed(format_args!("cannot write {}: {error}", file.display())))
        });
        let printed = self.output.print_with(&found, &Options { detail: self.timeline, ..options() });
        self.keep.after(printed, &found)?;
        // Only now, so that a file that cannot be written loses no result.
        written?;
        Ok(match &found.head.error {
            Some(error) => Failure::failed(error).report(),
            None => ExitCode::SUCCESS,
        })
    }
}

impl Explain {
    /// True if neither a place nor a path is given; some paths never leave this host, and need no place.
    fn says_no_place(&self) -> bool {
        let to = &self.to;
        to.host.is_none() && to.link.is_none() && to.netns.is_none() && self.work.paths.is_empty()
    }

    /// Asks a server that runs, watches it meanwhile, and prints the stages of both sides.
    fn of_a_server(self) -> Result<ExitCode, Failure> {
        let takes = [
            "host",
            "echo",
            "paths",
            "request",
            "reply",
            "duration",
            "count",
            "warmup",
            "timeout",
            "cpu",
            "whole",
            "rate",
            "sched",
            "outstanding",
            "flows",
        ];
        let others = line::given_but("explain", &takes);
        if !others.is_empty() {
            return Err(Failure::usage(format_args!(
                "{} cannot be used with --request: the server is watched as it runs, by all hooks",
                others.join(", ")
            )));
        }
        let signals = signals()?;
        let mirror = Mirror { interface: None, rewrite: None, dst_mac: None };
        let mut work = self.work;
        let target = self.to.target(None, mirror, &work)?;
        if let Target::Socket(path) = &target {
            return Err(Failure::usage(format_args!(
                "TCP and UDP sockets are seen, and {} is a UNIX socket: `hairpin ping echo:{0}` measures over it",
                path.display()
            )));
        }
        work.lead_to(&target);
        let mut rows = work.jobs(true, &target, false)?;
        self.whole.share(&mut rows);
        if rows.len() != 1 {
            return Err(Failure::usage("a server is asked over one --path at a time"));
        }
        let shown = hairpin_report::PERCENTILES.into();
        let plan = Plan { target, ipv6: false, stack: None, rows, raw: None, shown, floor: None, command: line::typed() };
        let mut progress = PingProgress::new(false, &plan.target);
        let found = served::run(&plan, &signals, &mut progress);
        progress.clear();
        let found = found.map_err(|error| Failure::blamed(&error, error.blame()))?;
        self.keep.after(self.output.print(&found), &found)?;
        Ok(found.head.error.map_or(ExitCode::SUCCESS, |error| Failure::failed(error).report()))
    }
}

/// The hook with this name.
fn hook(text: &str) -> Result<&'static Hook, String> {
    let names = || HOOKS.iter().map(|hook| hook.name).collect::<Vec<_>>().join(", ");
    HOOKS.iter().find(|hook| hook.name == text).ok_or_else(|| format!("there is no hook \"{text}\"; there are: {}", names()))
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    #[test]
    fn two_namespaces_are_a_place() {
        let says_none = |words: &[&str]| {
            let words = std::iter::once("explain").chain(words.iter().copied());
            let given = Explain::augment_args(Command::new("explain")).try_get_matches_from(words).unwrap();
            Explain::from_arg_matches(&given).unwrap().says_no_place()
        };
        assert!(says_none(&[]));
        for place in [&["--netns", "blue,green"][..], &["netns:blue,green"], &["--link", "veth"], &["-p", "memory"]] {
            assert!(!says_none(place), "{place:?}");
        }
    }
}
