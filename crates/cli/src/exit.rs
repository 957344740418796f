//! Exit codes: 0 done, 1 failed, 2 usage, 3 a threshold was crossed, 4 a required capability or device is missing.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_report::prose::wrap;
use hairpin_session::error::{Blame, RunError};

use crate::terminal::width;

/// The verb failed.
pub const FAILED: u8 = 1;
/// The request cannot be met unchanged.
pub const USAGE: u8 = 2;
/// A threshold was crossed.
pub const CROSSED: u8 = 3;
/// A capability or device is missing.
pub const MISSING: u8 = 4;

/// Why a verb failed: one clear message, and the exit code.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A failure with [`FAILED`].
    pub fn failed(message: impl Display) -> Failure {
        Failure { message: message.to_string(), code: FAILED }
    }

    /// A failure with [`USAGE`].
    pub fn usage(message: impl Display) -> Failure {
        Failure { message: message.to_string(), code: USAGE }
    }

    /// A failure with [`MISSING`].
    pub fn missing(message: impl Display) -> Failure {
        Failure { message: message.to_string(), code: MISSING }
    }

    /// A failure with the exit code for `blame`.
    pub fn blamed(message: impl Display, blame: Blame) -> Failure {
        let code = match blame {
            Blame::Failed => FAILED,
            Blame::Usage => USAGE,
            Blame::Missing => MISSING,
        };
        Failure { message: message.to_string(), code }
    }

    /// A failure with this exit code.
    pub fn with_code(message: impl Display, code: u8) -> Failure {
        Failure { message: message.to_string(), code }
    }

    /// The same, with `whose` in front.
    pub fn of(self, whose: impl Display) -> Failure {
        Failure { message: format!("{whose}: {}", self.message), ..self }
    }

    /// Prints the message on stderr, and returns the exit code.
    pub fn report(self) -> ExitCode {
        say(format_args!("hairpin: {}", self.message));
        ExitCode::from(self.code)
    }
}

/// The first failure of two steps that were both made; if both failed, that of the second is printed.
pub fn both<T>(one: Result<T, Failure>, other: Result<(), Failure>) -> Result<T, Failure> {
    match (one, other) {
        (Err(one), Err(other)) => {
            other.report();
            Err(one)
        }
        (one, other) => one.and_then(|value| other.map(|()| value)),
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}

impl From<io::Error> for Failure {
    /// For errors of writing to stdout.
    fn from(error: io::Error) -> Failure {
        Failure::failed(format_args!("cannot write the output: {error}"))
    }
}

static QUIET: AtomicBool = AtomicBool::new(false);

/// From here on [`note`] prints nothing.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// True after [`be_quiet`].
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints one line on stderr that is not part of the result, unless --quiet was given.
pub fn note(line: impl Display) {
    if !is_quiet() {
        say(line);
    }
}

/// Prints on stderr; on a terminal, a line that is too long is broken between words. Ignores errors: nothing can be done about a
/// closed stderr.
pub fn say(text: impl Display) {
    let text = text.to_string();
    let columns = if io::stderr().is_terminal() { width(&io::stderr()) } else { usize::MAX };
    // Lines that fit keep their spaces; lines with colours belong to help texts, which fit.
    let whole = |line: &str| line.chars().count() <= columns || line.contains('\u{1b}');
    let broken = |line: &str| if whole(line) { vec![line.to_owned()] } else { wrap("", line, columns) };
    let lines: Vec<String> = text.lines().flat_map(broken).collect();
    let _ = writeln!(anstream::stderr(), "{}", lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_failures_sets_the_exit_code() {
        let code = |one, other| both(one, other).map_err(|failure| failure.code);
        let (fails, lacks) = (|| Err(Failure::failed("stored nothing")), || Err(Failure::missing("left a setting")));
        assert_eq!([code(Ok(()), Ok(())), code(Ok(()), lacks())], [Ok(()), Err(MISSING)]);
        assert_eq!([code(fails(), Ok(())), code(fails(), lacks())], [Err(FAILED); 2]);
    }
}
