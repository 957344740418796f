//! `hairpin completions` and `hairpin man`: from the same definitions as --help.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::{Failure, say};
use crate::output::print;
use crate::verbs::Cli;

/// Print shell completions
#[derive(Debug, Args)]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

impl Completions {
    /// Prints the completions.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "hairpin", &mut text);
        print(&String::from_utf8_lossy(&text))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Write man pages
#[derive(Debug, Args)]
pub struct Man {
    /// Directory to write them to
    directory: PathBuf,
}

impl Man {
    /// Writes the man pages.
    pub fn run(self) -> Result<ExitCode, Failure> {
        clap_mangen::generate_to(Cli::command(), &self.directory)
            .map_err(|error| Failure::failed(format_args!("cannot write man pages to {}: {error}", self.directory.display())))?;
        say(format_args!("man pages are in {}", self.directory.display()));
        Ok(ExitCode::SUCCESS)
    }
}
