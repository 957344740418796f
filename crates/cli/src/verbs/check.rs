//! `hairpin check`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use hairpin_lab::check::instrument;
use hairpin_record::check::Verdict;
use hairpin_report::live::{Going, Place};

use crate::exit::{FAILED, Failure};
use crate::line;
use crate::output::{Keep, Output};
use crate::progress::Lines;

/// Prove the instrument
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

/// Four times a second, between two blocks.
const EVERY: Duration = Duration::from_millis(250);
/// Known delays, then known latencies.
const TESTS: usize = 2;

/// The tests on the terminal.
#[derive(Default)]
struct Tests {
    /// The test that goes on, and how often it began.
    now: String,
    begun: usize,
    share: f64,
    since: Option<Instant>,
    drawn: Option<Instant>,
}

impl Tests {
    fn draw(&mut self, lines: &mut Lines, test: &str, share: f64) {
        let anew = self.now != test;
        if anew || share < self.share {
            (self.now, self.begun, self.since) = (test.to_owned(), self.begun + usize::from(anew), Some(Instant::now()));
        }
        self.share = share;
        let elapsed = self.since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let left_s = (share > 0.0).then(|| elapsed * (1.0 / share - 1.0));
        let going = Going { share: Some(share), left_s, ..Going::default() };
        if anew {
            let place = Place { index: self.begun - 1, of: TESTS, name: test.to_owned() };
            lines.begins(place, &going);
        } else if self.drawn.is_none_or(|drawn| drawn.elapsed() >= EVERY) {
            lines.draw(&going);
            self.drawn = Some(Instant::now());
        }
    }
}

impl Check {
    /// Measures the instrument; fails if it misses an injected delay.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let mut lines = Lines::on_terminal();
        let mut tests = Tests::default();
        let check = instrument(&line::typed(), &mut |test, share| {
            if let Some(lines) = &mut lines {
                tests.draw(lines, test, share);
            }
        });
        if let Some(lines) = lines {
            lines.clear();
        }
        let check = check.map_err(Failure::failed)?;
        self.keep.after(self.output.print(&check), &check)?;
        Ok(match check.verdict {
            Verdict::Passed => ExitCode::SUCCESS,
            Verdict::Failed => ExitCode::from(FAILED),
        })
    }
}
