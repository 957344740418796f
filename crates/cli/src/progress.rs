//! The progress of a run: one live line on a terminal, and any requested output besides.

mod line;
mod offers;
mod resize;
mod turns;

use hairpin_lab::hardware_timestamping::StampingDevices;
use hairpin_lab::knobs::KnobError;
use hairpin_lab::metrics::{Exporter, Listen};
use hairpin_plan::job::Job;
use hairpin_record::progress::Progress;
use hairpin_record::run::Row;
use hairpin_report::watch::{Begins, Source, State};
use hairpin_session::plan::Target;
use hairpin_session::watch::Watcher;
use hairpin_units::Nanos;

pub use self::line::Lines;
use self::line::Live;
pub use self::offers::Offers;
pub use self::turns::Turns;
use crate::exit::{Failure, say};
use crate::output::print_live;
use crate::screen::Screen;

/// Reports the progress of a run: a line on a terminal, unless it has a view; JSON lines, a view, or Prometheus if asked for.
pub struct PingProgress {
    stream: bool,
    target: Target,
    line: Option<Live>,
    view: Option<Screen>,
    metrics: Option<Exporter>,
    /// The devices stamp until the run ends, even if nobody reads its lines any more.
    devices: StampingDevices<'static>,
    /// A row has begun, and so has the view.
    begun: bool,
    /// The run waits for another at its server.
    paused: bool,
}

impl PingProgress {
    /// With `stream`, prints a line of JSON per second.
    pub fn new(stream: bool, target: &Target) -> PingProgress {
        let line = if stream { None } else { Live::on_terminal() };
        PingProgress {
            stream,
            target: target.clone(),
            line,
            view: None,
            metrics: None,
            devices: StampingDevices::default(),
            begun: false,
            paused: false,
        }
    }

    /// Takes the devices that stamp for this run.
    pub fn keep(&mut self, devices: StampingDevices<'static>) {
        self.devices = devices;
    }

    /// Puts their settings back.
    pub fn put_back(&mut self) -> Result<(), KnobError> {
        std::mem::take(&mut self.devices).off()
    }

    /// Serves metrics of these rows from now on, and prints the address.
    pub fn serve(&mut self, on: Listen, rows: &[Job]) -> Result<(), Failure> {
        let exporter = Exporter::listen(on, &self.target, rows).map_err(Failure::failed)?;
        say(format_args!("metrics on http://{}/metrics", exporter.address()));
        if !on.is_loopback() {
            say("hairpin: anyone who reaches this address can read them");
        }
        self.metrics = Some(exporter);
        Ok(())
    }

    /// Draws on the terminal from the first row on.
    pub fn draw(&mut self) {
        let state = State::new(Source::Live, &format!("hairpin ping {}", self.target.label()));
        (self.line, self.view) = (None, Some(Screen::new(state)));
    }

    /// Removes line and view from the terminal.
    pub fn clear(&mut self) {
        if let Some(line) = self.line.take() {
            line.clear();
        }
        self.view = None;
    }
}

impl Watcher for PingProgress {
    fn begins(&mut self, index: usize, of: usize, job: &Job) {
        if let Some(line) = &mut self.line {
            line.begins(index, of, job, self.target.cpus(job));
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.begins(index, of, job);
        }
        if let Some(screen) = &mut self.view {
            let origin = line::origin(job);
            let (request_bytes, reply_bytes) = (job.request.into(), job.reply.into());
            let path = job.spec.to_string();
            screen.change(|state| {
                state.begins(&Begins { path: &path, request_bytes, reply_bytes, origin, pace_per_s: job.pace, of });
            });
            if let Err(failure) = screen.start(self.target.cpus(job)) {
                // The run matters more than its view, and goes on without it.
                failure.report();
                self.view = None;
            }
        }
        self.begun = true;
    }

    fn opened(&mut self, flows: u32) {
        if let Some(line) = &self.line {
            line.opened(flows);
        }
    }

    fn ready(&mut self) -> Result<(), String> {
        if let Some(line) = &mut self.line {
            line.ready();
        }
        self.metrics.as_mut().map_or(Ok(()), Watcher::ready)
    }

    fn paused(&mut self, left: Option<Nanos>) {
        if !std::mem::replace(&mut self.paused, true) {
            let left = left.map_or(String::new(), |left| format!(", about {left} left of its row"));
            self.say(format!("waits: a measuring session runs on {}{left}", self.target.label()));
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.paused(left);
        }
    }

    fn resumed(&mut self, paused: Nanos) {
        if std::mem::take(&mut self.paused) {
            self.say(format!("goes on after {paused}"));
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.resumed(paused);
        }
    }

    /// Says it in the view or above the line.
    fn say(&mut self, text: String) {
        match (&self.view, &self.line) {
            (Some(screen), _) if self.begun => screen.change(|state| state.note(&text)),
            (_, Some(line)) => line.say(&text),
            (_, None) => say(text),
        }
    }

    fn wants_snapshots(&self) -> bool {
        self.stream || self.view.is_some() || self.metrics.is_some()
    }

    fn draws(&self) -> bool {
        // Lines for programs come once a second.
        self.line.is_some() && !self.wants_snapshots()
    }

    fn progress(&mut self, progress: &Progress) {
        if self.stream {
            print_live(&hairpin_report::json_line(progress), || {
                if let Err(left) = self.put_back() {
                    Failure::failed(left).report();
                }
            });
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.progress(progress);
        }
        if let Some(screen) = &self.view {
            screen.change(|state| state.progress(progress));
        }
        if let Some(line) = self.line.as_mut().filter(|_| self.metrics.is_none()) {
            line.progress(progress);
        }
    }

    fn ends(&mut self, row: &Row) {
        if let Some(metrics) = &mut self.metrics {
            metrics.ends(row);
        }
        if let Some(screen) = &self.view {
            screen.change(|state| state.ends(row));
        }
        if let Some(line) = &mut self.line {
            line.ends(row);
        }
    }
}
