//! The `hairpin` command: flags in, one verb run, an exit code out.

#![forbid(unsafe_code)]

mod exit;
mod flags;
mod follow;
mod output;
mod screen;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // A worker must start before any thread exists.
    if let Some(code) = verbs::worker::run_if_asked() {
        return code;
    }
    let cli = verbs::Cli::parse();
    cli.verb.tell_of_orphans();
    cli.verb.run().unwrap_or_else(|failure| failure.report())
}
