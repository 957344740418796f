//! One verb a file.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Failure;

mod bounce;
mod check;
mod completions;
mod demo;
mod explain;
mod explain_attached;
mod floor;
mod floor_pcie;
mod load;
mod paths;
mod ping;
mod runs;
mod serve;
mod stream;
pub mod worker;

/// Measures, explains and cuts the latency of request–response networking on Linux.
///
/// Exit codes: 0 done, 1 failed, 2 usage, 3 a threshold was crossed, 4 a required capability or device is missing.
#[derive(Debug, Parser)]
#[command(name = "hairpin", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure round trips: to a host that serves, over a link of this host, to a plain echo service, or through what returns frames
    Ping(Box<ping::Ping>),
    /// Answer the requests of `hairpin ping` on another host
    Serve(serve::Serve),
    /// List the ways to do a round trip, with what this host supports and why not
    Paths(paths::Paths),
    /// List, show, export and remove stored runs
    Runs(runs::Runs),
    /// Measure every path and wait policy that this host supports, in 40 seconds, and say what is to be seen
    Demo(demo::Demo),
    /// Prove the instrument: its own cost, and known delays that it must report
    Check(check::Check),
    /// Say where the time of a round trip goes: stages that add up to the RTT, and what the slow ones met
    Explain(Box<explain::Explain>),
    /// Say what physics and the declared hardware allow: a frame's stages with their sources, and fits of measured runs
    Floor(Box<floor::Floor>),
    /// Send every frame that arrives on an interface back, and count them
    Bounce(Box<bounce::Bounce>),
    /// Frames per second sent, received and bounced without loss, per packet io and frame size
    Stream(Box<stream::Stream>),
    /// Round trips against the rate at which requests are due, from the due time and from the send, up to saturation and its knee
    Load(Box<load::Load>),
    /// Print shell completions
    Completions(completions::Completions),
    /// Write man pages
    #[command(hide = true)]
    Man(completions::Man),
}

impl Verb {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Verb::Ping(ping) => ping.run(),
            Verb::Serve(serve) => serve.run(),
            Verb::Paths(paths) => paths.run(),
            Verb::Runs(runs) => runs.run(),
            Verb::Demo(demo) => demo.run(),
            Verb::Check(check) => check.run(),
            Verb::Explain(explain) => explain.run(),
            Verb::Floor(floor) => floor.run(),
            Verb::Bounce(bounce) => bounce.run(),
            Verb::Stream(stream) => stream.run(),
            Verb::Load(load) => load.run(),
            Verb::Completions(completions) => completions.run(),
            Verb::Man(man) => man.run(),
        }
    }
}
