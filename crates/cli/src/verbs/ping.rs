//! `hairpin ping`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Args, CommandFactory};
use hairpin_iopath::job::Job;
use hairpin_lab::floor;
use hairpin_lab::ping::{self, Plan, Watcher};
use hairpin_record::progress::Progress;
use hairpin_record::run::{Row, Run};
use hairpin_sys::signal::{SIGINT, SIGTERM, Signals};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::Failure;
use crate::flags::{Mirror, Where, Work};
use crate::output::{Format, Output, keep, print};
use crate::verbs::Cli;
use crate::verbs::floor::Declared;

/// Measure round trips
#[derive(Debug, Args)]
pub struct Ping {
    #[command(flatten)]
    to: Where,
    #[command(flatten)]
    mirror: Mirror,
    /// The key that `hairpin serve` printed, in a file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// IPv6 on --link loopback and --link veth
    #[arg(short = '6', long)]
    ipv6: bool,
    #[command(flatten)]
    work: Work,
    /// Hold the figures against the floor of the link: as declared below (any of those flags implies this one), else as the interface says
    #[arg(long)]
    floor: bool,
    /// Write every sample to this Parquet file
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Do not keep the run in the store
    #[arg(long)]
    no_store: bool,
    #[command(flatten)]
    declared: Declared,
    #[command(flatten)]
    output: Output,
}

impl Ping {
    /// Measures, prints, stores.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let signals = signals()?;
        let target = self.to.target(self.key_file, self.mirror, &self.work.paths)?;
        let rows = self.work.jobs(duration_was_given(), target.kind(), self.raw.is_some())?;
        let shown = self.output.shown();
        let floor = (self.floor || self.declared.is_any())
            .then(|| self.declared.nic().map(|nic| floor::Declared { nic, link: self.declared.link() }))
            .transpose()?;
        let plan = Plan { target, ipv6: self.ipv6, rows, raw: self.raw, shown, floor, command: std::env::args().collect() };
        let mut watcher = Teller::new(self.output.form() == Format::JsonStream);
        let run = ping::run(&plan, &signals, &mut watcher)?;
        watcher.clear();
        self.output.print(&run)?;
        if !self.no_store {
            keep(&run)?;
        }
        Ok(end(&run))
    }
}

/// Ctrl-C and SIGTERM as a descriptor; before any worker is started, which inherits it.
pub fn signals() -> Result<Signals, Failure> {
    Signals::block(&[SIGINT, SIGTERM]).map_err(|error| Failure::failed(format_args!("cannot take signals: {error}")))
}

/// The exit code of a run that was printed.
pub fn end(run: &Run) -> ExitCode {
    match &run.error {
        // The table has said it; JSON on stdout may be read by nobody.
        Some(error) => Failure::failed(error).report(),
        None => ExitCode::SUCCESS,
    }
}

/// --count alone has no other end; with --duration the first that is reached ends a row.
fn duration_was_given() -> bool {
    let matches = Cli::command().try_get_matches().ok();
    let ping = matches.as_ref().and_then(|matches| matches.subcommand_matches("ping"));
    ping.is_some_and(|ping| ping.value_source("duration") == Some(ValueSource::CommandLine))
}

/// Says on a terminal how far a run is, drawn only between rows; prints progress as JSON lines if asked to.
pub struct Teller {
    stream: bool,
    bar: Option<ProgressBar>,
}

impl Teller {
    /// `stream` prints a line of JSON per second.
    pub fn new(stream: bool) -> Teller {
        Teller { stream, bar: None }
    }

    /// Takes the bar off the terminal.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Watcher for Teller {
    fn begins(&mut self, index: usize, of: usize, job: &Job) {
        if of < 2 || !io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style =
                ProgressStyle::with_template("{bar:20} {pos}/{len} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(of as u64).with_style(style)
        });
        bar.set_position(index as u64);
        bar.set_message(hairpin_report::short_path(&job.spec.to_string()));
    }

    fn progress(&mut self, progress: &Progress) {
        if self.stream {
            // A reader that is gone is noticed when the record is printed.
            let _ = print(&hairpin_report::progress_line(progress));
        }
    }

    fn ends(&mut self, _row: &Row) {}
}
