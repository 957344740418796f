//! `hairpin ping`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hairpin_lab::metrics::{Exporter, Listen};
use hairpin_lab::ping;
use hairpin_plan::job::Job;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Origin, Row, Run};
use hairpin_report::watch::{Begins, Source, State};
use hairpin_session::floor;
use hairpin_session::plan::{Plan, Target};
use hairpin_session::watch::Watcher;
use hairpin_sys::signal::{SIGHUP, SIGINT, SIGTERM, Signals};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::{Failure, is_quiet, say};
use crate::flags::WorkFlags;
use crate::line;
use crate::output::{Format, Keep, RunOutput, print};
use crate::place::{Mirror, Where};
use crate::screen::{self, Screen};
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
    work: WorkFlags,
    /// Hold the figures against the floor of the link: as declared below (any of those flags implies this one), else as the interface says
    #[arg(long)]
    floor: bool,
    /// Write every sample to this Parquet file
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
    /// Draw the run on the terminal while it goes on; q ends it, and keeps and prints the results until then
    #[arg(short = 'w', long)]
    watch: bool,
    /// Serve the run's figures to Prometheus: PORT, ADDR or ADDR:PORT, on 127.0.0.1:24445 as far as not given
    #[arg(long, value_name = "ADDR[:PORT]")]
    metrics: Option<Listen>,
    #[command(flatten)]
    declared: Declared,
    #[command(flatten)]
    output: RunOutput,
}

impl Ping {
    /// Measures, prints and stores.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let stream = self.output.form() == Format::JsonStream;
        let signals = if self.watch { watched_signals(stream)? } else { signals()? };
        let target = self.to.target(self.key_file, self.mirror, &self.work.paths)?;
        // With --count alone there is no other limit; with both, the first one reached ends a row.
        let rows = self.work.jobs(line::was_given("duration"), target.kind(), self.raw.is_some())?;
        let shown = self.output.shown();
        let floor = (self.floor || self.declared.is_any())
            .then(|| self.declared.nic().map(|nic| floor::Declared { nic, link: self.declared.link() }))
            .transpose()?;
        let mut watcher = PingProgress::new(stream);
        if let Some(on) = self.metrics {
            watcher.serve(on, &target)?;
        }
        if self.watch {
            watcher.draw(&target);
        }
        let plan = Plan { target, ipv6: self.ipv6, rows, raw: self.raw, shown, floor, command: line::typed() };
        let measured = ping::run(&plan, &signals, &mut watcher);
        // From here on output goes where the view was.
        watcher.clear();
        let run = measured?;
        self.keep.after(print(&self.output.text_of_run("", &run, !self.keep.no_store)), &run)?;
        Ok(end(&run))
    }
}

/// Ctrl-C and SIGTERM as a descriptor. Called before any worker starts, since workers inherit the signal mask.
pub fn signals() -> Result<Signals, Failure> {
    Signals::block(&[SIGINT, SIGTERM]).map_err(|error| Failure::failed(format_args!("cannot take signals: {error}")))
}

/// For a view on the terminal.
fn watched_signals(stream: bool) -> Result<Signals, Failure> {
    if stream {
        return Err(Failure::usage(
            "--watch and --json-stream both take the terminal: choose one; `hairpin watch FILE` draws what --json-stream writes",
        ));
    }
    screen::check("--watch", FROM_ELSEWHERE)?;
    terminal_signals()
}

/// What follows a run without a terminal.
pub const FROM_ELSEWHERE: &str = "use --json-stream, or --metrics, to follow a run from elsewhere";

/// The signals that end a view: those of [`signals`], and the end of its terminal.
pub fn terminal_signals() -> Result<Signals, Failure> {
    Signals::block(&[SIGINT, SIGTERM, SIGHUP]).map_err(|error| Failure::failed(format_args!("cannot take signals: {error}")))
}

/// The exit code of a run that was printed.
pub fn end(run: &Run) -> ExitCode {
    match &run.head.error {
        // The table has shown the error; nobody may be reading JSON on stdout.
        Some(error) => Failure::failed(error).report(),
        None => ExitCode::SUCCESS,
    }
}

/// Reports the progress of a run: a bar on a terminal, drawn only between rows; JSON lines, a view, or Prometheus if asked for.
pub struct PingProgress {
    stream: bool,
    bar: Option<ProgressBar>,
    view: Option<(Screen, Target)>,
    metrics: Option<Exporter>,
}

impl PingProgress {
    /// With `stream`, prints a line of JSON per second.
    pub fn new(stream: bool) -> PingProgress {
        PingProgress { stream, bar: None, view: None, metrics: None }
    }

    /// Serves metrics, and prints the address.
    fn serve(&mut self, on: Listen, target: &Target) -> Result<(), Failure> {
        let exporter = Exporter::listen(on, target).map_err(Failure::failed)?;
        say(format_args!("metrics on http://{}/metrics", exporter.address()));
        if !on.is_loopback() {
            say("hairpin: anyone who reaches this address can read them");
        }
        self.metrics = Some(exporter);
        Ok(())
    }

    /// Draws on the terminal from the first row on.
    fn draw(&mut self, target: &Target) {
        let state = State::new(Source::Live, &format!("hairpin ping {}", target.label()));
        self.view = Some((Screen::new(state), target.clone()));
    }

    /// Removes bar and view from the terminal.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.view = None;
    }

    fn bar(&mut self, index: usize, of: usize, job: &Job) {
        if of < 2 || self.view.is_some() || is_quiet() || !io::stderr().is_terminal() {
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
}

impl Watcher for PingProgress {
    fn begins(&mut self, index: usize, of: usize, job: &Job) {
        self.bar(index, of, job);
        if let Some(metrics) = &mut self.metrics {
            metrics.begins(index, of, job);
        }
        if let Some((screen, target)) = &mut self.view {
            let origin = if job.emulated.is_some() { Origin::Emulated } else { Origin::Measured };
            let (request_bytes, reply_bytes) = (job.request.into(), job.reply.into());
            let path = job.spec.to_string();
            screen.change(|state| {
                state.begins(&Begins { path: &path, request_bytes, reply_bytes, origin, pace_per_s: job.pace, of });
            });
            if let Err(failure) = screen.start(target.cpus(job)) {
                // The user wants the run; it goes on without its view.
                failure.report();
                self.view = None;
            }
        }
    }

    fn ready(&mut self) -> Result<(), String> {
        self.metrics.as_mut().map_or(Ok(()), Watcher::ready)
    }

    fn wants_snapshots(&self) -> bool {
        self.stream || self.view.is_some() || self.metrics.is_some()
    }

    fn progress(&mut self, progress: &Progress) {
        if self.stream {
            // If the reader is gone, the error shows when the record is printed.
            let _ = print(&hairpin_report::json_line(progress));
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.progress(progress);
        }
        if let Some((screen, _)) = &self.view {
            screen.change(|state| state.progress(progress));
        }
    }

    fn ends(&mut self, row: &Row) {
        if let Some(metrics) = &mut self.metrics {
            metrics.ends(row);
        }
        if let Some((screen, _)) = &self.view {
            screen.change(|state| state.ends(row));
        }
    }
}
