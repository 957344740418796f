//! The `hairpin` command: flags in, one verb run, an exit code out.

#![forbid(unsafe_code)]

mod complete;
mod deprecated;
mod exit;
mod faults;
mod flags;
mod follow;
mod front;
mod habits;
mod help;
mod line;
mod narrow;
mod output;
mod parse;
mod place;
mod progress;
mod screen;
mod sides;
mod stdout;
mod terminal;
mod verbs;
mod version;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    // A worker must start before any thread exists.
    if let Some(code) = verbs::worker::run_if_asked() {
        return code;
    }
    if let Some(code) = complete::answer(parse::command) {
        return code;
    }
    let cli = match parse::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    cli.verb.tell_of_orphans();
    cli.verb.run().unwrap_or_else(|failure| failure.report())
}
