//! `hairpin demo`.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use hairpin_lab::demo;
use hairpin_lab::ping;
use hairpin_plan::job::Job;
use hairpin_plan::paths::UDP;
use hairpin_record::any::AnyRecord;
use hairpin_record::run::Run;
use hairpin_report::view::Input;
use hairpin_session::error::RunError;
use hairpin_session::plan::{Plan, Target};
use hairpin_units::{Nanos, Quantile};

use crate::exit::{Failure, both, say};
use crate::line;
use crate::output::{Format, Output, keep, options};
use crate::progress::PingProgress;
use crate::verbs::ping::{end, signals};
use crate::verbs::report;

/// The report's file name in the working directory. No other file uses it, and the next demonstration replaces it.
const REPORT: &str = "hairpin-demo.html";

/// Measure every path and wait policy that this host supports
#[derive(Debug, Args)]
pub struct Demo {
    /// Neither keep the runs in the store nor write their report
    #[arg(long)]
    no_store: bool,
    #[command(flatten)]
    output: Output,
}

impl Demo {
    /// Measures, prints the table and three sentences, stores one run per link, and writes the report of all runs.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let signals = signals()?;
        let demo = demo::plan(&template()?);
        // A row of half a second has too few samples for higher percentiles.
        let percentiles = vec![Quantile::P50, Quantile::P90, Quantile::P99];
        let mut runs: Vec<Run> = Vec::new();
        let mut failed = Ok(());
        for part in demo.parts {
            let command = line::typed();
            let shown = percentiles.clone();
            let plan = Plan {
                target: Target::Link(part.link),
                ipv6: false,
                stack: None,
                rows: part.rows,
                raw: None,
                shown,
                floor: None,
                command,
            };
            let mut watcher = PingProgress::new(false, &plan.target);
            let run = ping::run(&plan, &signals, &mut watcher);
            watcher.clear();
            let run = match run {
                // The parts before it have results, and Ctrl-C is no failure.
                Err(RunError::Interrupted) if !runs.is_empty() => break,
                Err(error) if !runs.is_empty() => {
                    failed = Err(Failure::from(error));
                    break;
                }
                run => run?,
            };
            let ended = run.head.interrupted || run.head.error.is_some();
            runs.push(run);
            if ended {
                break;
            }
        }
        let printed = match self.output.form() {
            // One record per link.
            Format::Json => runs.iter().try_for_each(|run| self.output.print(run)),
            _ => self.output.print_with(&runs[..], &hairpin_report::Options { percentiles, ..options() }),
        };
        demo.skipped.iter().for_each(|skipped| say(format_args!("skipped: {skipped}")));
        let kept = if self.no_store { Ok(()) } else { keep_with_report(&runs) };
        both(failed, both(kept, printed))?;
        Ok(runs.iter().find(|run| run.head.error.is_some()).map_or(ExitCode::SUCCESS, end))
    }
}

/// Stores the runs, and writes their report to a place that a browser may read: not every browser may read the store.
fn keep_with_report(runs: &[Run]) -> Result<(), Failure> {
    let mut given = Vec::new();
    for run in runs {
        given.push(Input { name: keep(run)?.to_string(), record: AnyRecord::Run(Box::new(run.clone())) });
    }
    let page = hairpin_report::html(&report::of(&given));
    report::write(Path::new(REPORT), &page).map_err(|error| {
        let stored: Vec<&str> = given.iter().map(|given| given.name.as_str()).collect();
        Failure::failed(format_args!("{error}; the runs are stored: hairpin report {} -o FILE", stored.join(" ")))
    })
}

/// The common options of all rows.
fn template() -> Result<Job, Failure> {
    let udp = UDP.name.parse().map_err(Failure::failed)?;
    Ok(Job { duration: None, warmup: Nanos::ZERO, cookie: crate::flags::cookie()?, ..Job::new(udp) })
}
