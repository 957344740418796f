//! `hairpin watch`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use clap::Args;
use hairpin_lab::records;
use hairpin_report::watch::{Source, State};

use crate::exit::Failure;
use crate::follow::{follow, is_stream};
use crate::output::store_of;
use crate::screen;
use crate::verbs::ping::{FROM_ELSEWHERE, signals};

/// Look at a stored run, or at one that goes on, in the terminal
#[derive(Debug, Args)]
pub struct Watch {
    /// A stored run: an id, a unique prefix of one, `latest`, `latest~1` or -2 (the one before), a run's directory or a JSON
    /// file; or the output of `hairpin ping -o jsonl`: a file that grows, or - for standard input
    #[arg(value_name = "RUN|FILE|-")]
    what: String,
}

impl Watch {
    /// Draws until the user leaves.
    pub fn run(self) -> Result<ExitCode, Failure> {
        screen::check("hairpin watch", FROM_ELSEWHERE)?;
        let signals = signals()?;
        let title = format!("hairpin watch {}", self.what);
        let shared = |state| Arc::new(Mutex::new(state));
        let state = if self.what == "-" {
            let state = shared(State::new(Source::Stream, &title));
            reader(&state, io::stdin(), false);
            state
        } else if is_stream(Path::new(&self.what)) {
            let file = File::open(&self.what).map_err(|error| Failure::failed(format_args!("{}: {error}", self.what)))?;
            // A named pipe ends; a regular file may grow.
            let grows = file.metadata().is_ok_and(|facts| facts.is_file());
            let state = shared(State::new(Source::Stream, &title));
            reader(&state, file, grows);
            state
        } else {
            let (name, run) = records::run(&store_of(&self.what)?, &self.what, "watch").map_err(Failure::failed)?;
            shared(State::of_run(&format!("hairpin watch {name}"), &run))
        };
        screen::look(&state, &mut || matches!(signals.next(), Ok(Some(_))))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads in a separate thread, for which the process does not wait at its end.
fn reader(state: &screen::Shared, stream: impl io::Read + Send + 'static, grows: bool) {
    let state = Arc::clone(state);
    drop(std::thread::spawn(move || follow(stream, grows, &state)));
}
