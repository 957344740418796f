//! `hairpin check`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use hairpin_lab::check::instrument;
use hairpin_lab::noise::{self, NoiseError, NoisePlan};
use hairpin_record::check::Verdict;
use hairpin_report::live::{Going, Place};
use hairpin_tune::parse_cpus;
use hairpin_units::{Nanos, parse_duration};

use crate::exit::{FAILED, Failure};
use crate::line;
use crate::output::{Keep, Output};
use crate::progress::Lines;
use crate::verbs::ping::signals;

/// Prove the instrument, or look at the host
#[derive(Debug, Args)]
pub struct Check {
    /// Look at the host instead: how often its cores stall and why, how near they are to each other, and which two to take for
    /// --cpu
    #[arg(long = "host")]
    of_host: bool,
    /// The cores to look at, such as 2-5,8; those allowed if not given, isolated ones first, 16 of them at most
    #[arg(long, value_name = "LIST", requires = "of_host")]
    cpu: Option<String>,
    /// The time for which each core is looked at
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_duration, default_value = "5s", requires = "of_host")]
    duration: Nanos,
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
    /// Measures the instrument; fails if it misses an injected delay. With --host it looks at the host.
    pub fn run(self) -> Result<ExitCode, Failure> {
        if self.of_host {
            return self.look_at_host();
        }
        let signals = signals()?;
        let check = watched(|watcher| {
            instrument(&line::typed(), &mut |test, share| {
                watcher(test, share);
                !matches!(signals.next(), Ok(Some(_)))
            })
        })
        .map_err(Failure::failed)?;
        self.keep.after(self.output.print(&check), &check)?;
        Ok(match check.verdict {
            Verdict::Passed => ExitCode::SUCCESS,
            Verdict::Failed => ExitCode::from(FAILED),
        })
    }

    fn look_at_host(self) -> Result<ExitCode, Failure> {
        let cpus = self.cpu.as_deref().map(parse_cpus).transpose().map_err(|why| Failure::usage(format_args!("--cpu: {why}")))?;
        let signals = signals()?;
        let plan = NoisePlan { cpus, duration: self.duration, command: line::typed() };
        let noise = watched(|watcher| noise::run(&plan, &signals, watcher))?;
        self.keep.after(self.output.print(&noise), &noise)?;
        Ok(noise.head.error.map_or(ExitCode::SUCCESS, |error| Failure::failed(error).report()))
    }
}

impl From<NoiseError> for Failure {
    fn from(error: NoiseError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}

/// Runs tests with their progress on the terminal.
fn watched<T>(run: impl FnOnce(&mut dyn FnMut(&str, f64)) -> T) -> T {
    let mut lines = Lines::on_terminal();
    let mut tests = Tests::default();
    let result = run(&mut |test, share| {
        if let Some(lines) = &mut lines {
            tests.draw(lines, test, share);
        }
    });
    if let Some(lines) = lines {
        lines.clear();
    }
    result
}
