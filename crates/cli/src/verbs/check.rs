//! `hairpin check`.

use std::process::ExitCode;

use clap::Args;
use hairpin_lab::check::instrument;
use hairpin_record::check::Verdict;

use crate::exit::{FAILED, Failure};
use crate::output::Output;

/// Prove the instrument
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    output: Output,
}

impl Check {
    /// Measures the instrument; a known delay that it does not report is a failure.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let check = instrument().map_err(Failure::failed)?;
        self.output.print(&check)?;
        Ok(match check.verdict {
            Verdict::Passed => ExitCode::SUCCESS,
            Verdict::Failed => ExitCode::from(FAILED),
        })
    }
}
