//! The hidden verb under which the program starts itself as a worker.

use std::process::ExitCode;

use hairpin_session::worker;

/// Runs the worker if this process was started as one.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    if args.next()? != hairpin_session::fds::VERB {
        return None;
    }
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
