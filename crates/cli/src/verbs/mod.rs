//! The verbs, one per file.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use hairpin_sys::host::RealHost;
use hairpin_tune::journal::orphan_notes;

use crate::exit::{Failure, say};

mod bounce;
mod check;
mod compare;
mod completions;
mod demo;
mod exec;
mod explain;
mod explain_attached;
mod floor;
mod floor_pcie;
mod knobs;
mod load;
mod mesh;
mod paths;
mod ping;
mod report;
mod runs;
mod serve;
mod stream;
mod sweep;
mod tune;
mod tune_try;
mod watch;
pub mod worker;

/// Measures, explains and cuts the latency of request–response networking on Linux.
///
/// Exit codes: 0 done, 1 failed, 2 usage, 3 a threshold was crossed, 4 a required capability or device is missing.
#[derive(Debug, Parser)]
#[command(name = "hairpin", version, max_term_width = 100, disable_help_subcommand = true, disable_version_flag = true)]
pub struct Cli {
    /// Print the version; with --verbose how it was built, and its libraries
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// Verb to run.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Verb to run.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure round trips: to a host that serves, over a link of this host, to a plain echo service, or a reflector of frames
    Ping(Box<ping::Ping>),
    /// Answer the requests of `hairpin ping` on another host
    Serve(serve::Serve),
    /// List the paths, with this host's support for each and the reason if it has none
    Paths(paths::Paths),
    /// List, show, export and remove stored runs
    Runs(runs::Runs),
    /// Show records as one page to look at: RTT by path and size, tails, stages, comparisons, hosts, and how to reproduce them
    Report(report::Report),
    /// Measure every path and wait policy that this host supports, in 40 seconds, and summarise the results
    Demo(demo::Demo),
    /// Prove the instrument: its own cost, and known delays that it must report
    Check(check::Check),
    /// Split a round trip's time into stages that add up to the RTT, and name the causes of slow ones
    Explain(Box<explain::Explain>),
    /// Say what physics and the declared hardware allow: a frame's stages with their sources, and fits of measured runs
    Floor(Box<floor::Floor>),
    /// Compare ways to do the same work: short blocks in turn, ratios with intervals, a verdict in a word
    ///
    /// A side is a path spec, or flags of `hairpin ping`, or both; it is appended to the flags before the first `--`:
    ///
    ///   hairpin compare udp:spin udp:busy-poll
    ///
    ///   hairpin compare veth --path tcp -- --size 64 -- --size 1024
    ///
    ///   hairpin compare placements
    ///
    /// --for is the time of the whole experiment, 30 s if not given; the blocks choose their own warm-up. Two stored runs:
    /// `hairpin compare RUN RUN`. `placements`: the pairs of this host's CPUs, one of each kind, with a blocking and a spinning
    /// policy of one --path (udp over loopback if not given).
    Compare(Box<compare::Compare>),
    /// Measure every combination of several factors in turn, and report the effect of each
    ///
    /// Takes a plan that comes with hairpin (--list), a FILE.toml, or flags with several values:
    ///
    ///   hairpin sweep sun-fire
    ///
    ///   hairpin sweep veth --path udp:spin --path tcp:spin --sizes 64,1024 --vary flows=1,4
    ///
    /// To resume a killed sweep, repeat its command.
    Sweep(Box<sweep::Sweep>),
    /// Send every frame that arrives on an interface back, and count them
    Bounce(Box<bounce::Bounce>),
    /// Frames per second sent, received and bounced without loss, per packet io and frame size
    Stream(Box<stream::Stream>),
    /// Run an unmodified program with the settings that are a process's or a socket's own, and prove that its sockets have them
    Exec(exec::Exec),
    /// Read, check and change the settings of this host that move round trips, and put them back
    Tune(Box<tune::Tune>),
    /// Round trips against the rate at which requests are due, from the due time and from the send, up to saturation and its knee
    Load(Box<load::Load>),
    /// Measure the pairs of many hosts in rounds: which host or link is slow
    Mesh(Box<mesh::Mesh>),
    /// Look at a stored run, or at one that goes on, in the terminal
    Watch(watch::Watch),
    /// Print shell completions
    Completions(completions::Completions),
    /// Write man pages
    #[command(hide = true)]
    Man(completions::Man),
}

impl Verb {
    /// Reports changes that a killed process left behind, unless the verb does that itself or its output is not for people.
    pub fn tell_of_orphans(&self) {
        match self {
            Verb::Tune(tune) if tune.tells_of_orphans() => {}
            Verb::Completions(_) | Verb::Man(_) => {}
            _ => orphan_notes(&RealHost).iter().for_each(|note| say(format_args!("hairpin: {note}"))),
        }
    }

    /// Runs the verb.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Verb::Ping(ping) => ping.run(),
            Verb::Serve(serve) => serve.run(),
            Verb::Paths(paths) => paths.run(),
            Verb::Runs(runs) => runs.run(),
            Verb::Report(report) => report.run(),
            Verb::Demo(demo) => demo.run(),
            Verb::Check(check) => check.run(),
            Verb::Explain(explain) => explain.run(),
            Verb::Floor(floor) => floor.run(),
            Verb::Compare(compare) => compare.run(),
            Verb::Sweep(sweep) => sweep.run(),
            Verb::Bounce(bounce) => bounce.run(),
            Verb::Stream(stream) => stream.run(),
            Verb::Exec(exec) => exec.run(),
            Verb::Tune(tune) => tune.run(),
            Verb::Load(load) => load.run(),
            Verb::Mesh(mesh) => mesh.run(),
            Verb::Watch(watch) => watch.run(),
            Verb::Completions(completions) => completions.run(),
            Verb::Man(man) => man.run(),
        }
    }
}
