//! `hairpin check`.

use std::process::ExitCode;

use clap::Args;

use crate::exit::Failure;

/// Prove the instrument
#[derive(Debug, Args)]
pub struct Check {
    /// As JSON (hairpin.check/1)
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        Err(Failure::failed(self.json))
    }
}
