//! `hairpin check`.

use std::process::ExitCode;

use clap::Args;
use hairpin_lab::check::instrument;
use hairpin_record::check::Verdict;

use crate::exit::{FAILED, Failure};
use crate::line;
use crate::output::{Keep, Output};

/// Prove the instrument
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

impl Check {
    /// Measures the instrument; fails if it misses an injected delay.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let check = instrument(&line::typed()).map_err(Failure::failed)?;
        self.keep.after(self.output.print(&check), &check)?;
        Ok(match check.verdict {
            Verdict::Passed => ExitCode::SUCCESS,
            Verdict::Failed => ExitCode::from(FAILED),
        })
    }
}
