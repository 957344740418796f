//! The hidden verb under which the program starts itself as a worker.

use std::process::ExitCode;

use hairpin_session::worker;

use crate::line;

/// Runs the worker if this process was started as one.
pub fn run_if_asked() -> Option<ExitCode> {
    if std::env::args_os().nth(1)? != hairpin_session::fds::VERB {
        return None;
    }
    let mut args = line::typed().into_iter().skip(2);
    let parent = args.next().and_then(|pid| pid.parse().ok());
    Some(match parent {
        Some(parent) => {
            let shared: Vec<String> = args.collect();
            let has = |name: &str| shared.iter().any(|shared| shared == name);
            worker::main(parent, has("neighbour"), has("stamps"))
        }
        None => ExitCode::from(crate::exit::USAGE),
    })
}
