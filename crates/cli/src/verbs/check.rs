//! `hairpin check`.

use std::process::ExitCode;

use clap::Args;
use hairpin_lab::check::instrument;
use hairpin_record::check::Verdict;
use hairpin_report::Options;

use crate::exit::{FAILED, Failure};
use crate::output::{Keep, colour, print};

/// Prove the instrument
#[derive(Debug, Args)]
pub struct Check {
    /// As JSON (hairpin.check/1)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keep: Keep,
}

impl Check {
    /// Measures the instrument; a known delay that it does not report is a failure.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let check = instrument(&std::env::args().collect::<Vec<_>>()).map_err(Failure::failed)?;
        let options = Options { colour: colour(), ..Options::default() };
        let printed = print(&if self.json { hairpin_report::json(&check) } else { hairpin_report::check(&check, &options) });
        self.keep.after(printed, &check)?;
        Ok(match check.verdict {
            Verdict::Passed => ExitCode::SUCCESS,
            Verdict::Failed => ExitCode::from(FAILED),
        })
    }
}
