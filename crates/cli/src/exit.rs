//! Exit codes: 0 done, 1 failed, 2 usage, 3 a threshold was crossed, 4 a required capability or device is missing.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use hairpin_session::error::{Blame, RunError};

/// Something went wrong.
pub const FAILED: u8 = 1;
/// What was asked cannot be.
pub const USAGE: u8 = 2;
/// A threshold was crossed.
pub const CROSSED: u8 = 3;
/// A capability or device is missing.
pub const MISSING: u8 = 4;

/// Why a verb ended without what was asked: one clear message, and the exit code.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// Something went wrong.
    pub fn failed(message: impl Display) -> Failure {
        Failure { message: message.to_string(), code: FAILED }
    }

    /// What was asked cannot be.
    pub fn usage(message: impl Display) -> Failure {
        Failure { message: message.to_string(), code: USAGE }
    }

    /// A capability or device is missing.
    pub fn missing(message: impl Display) -> Failure {
        Failure { message: message.to_string(), code: MISSING }
    }

    /// Whatever it asks of the user.
    pub fn blamed(message: impl Display, blame: Blame) -> Failure {
        let code = match blame {
            Blame::Failed => FAILED,
            Blame::Usage => USAGE,
            Blame::Missing => MISSING,
        };
        Failure { message: message.to_string(), code }
    }

    /// Whatever this code stands for.
    pub fn with_code(message: impl Display, code: u8) -> Failure {
        Failure { message: message.to_string(), code }
    }

    /// Says so on stderr and gives the code.
    pub fn report(self) -> ExitCode {
        say(format_args!("hairpin: {}", self.message));
        ExitCode::from(self.code)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}

impl From<io::Error> for Failure {
    /// Of writing to stdout: a reader that has seen enough is no failure.
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Failure::failed(format_args!("cannot write the output: {error}"))
    }
}

/// One line of talk. There is nothing to do about a stderr that is gone.
pub fn say(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}
