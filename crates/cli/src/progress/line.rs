//! The line of a row that goes on, below those of the rows that are done. All are removed before the result is printed.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use hairpin_plan::job::Job;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Origin, Row};
use hairpin_report::live::{self, Going};
use hairpin_session::watch::stands_still;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::exit::is_quiet;
use crate::terminal::width;

/// More finished rows push the older ones off.
const DONE: usize = 8;

/// Whether the figures of a row are measured or emulated.
pub fn origin(job: &Job) -> Origin {
    if job.emulated.is_some() { Origin::Emulated } else { Origin::Measured }
}

/// The lines on the terminal.
pub struct Live {
    lines: MultiProgress,
    done: VecDeque<ProgressBar>,
    row: Option<Current>,
}

/// The row that is measured.
struct Current {
    line: ProgressBar,
    index: usize,
    of: usize,
    path: String,
    origin: Origin,
    /// Until its end, warm-up included; `None` without a limit of time.
    lasts: Option<Duration>,
    count: Option<u64>,
    since: Instant,
    /// Its loop may wait until the line is drawn.
    drawn: bool,
}

impl Current {
    fn going(&self) -> Going<'_> {
        Going { index: self.index, of: self.of, path: &self.path, origin: self.origin, share: None, left_s: None, so_far: None }
    }

    fn draw(&self, so_far: Option<&Progress>) {
        let elapsed = self.since.elapsed();
        let by_time = self.lasts.map(|lasts| elapsed.as_secs_f64() / lasts.as_secs_f64());
        let by_count = self.count.zip(so_far).map(|(count, so_far)| so_far.transactions as f64 / count as f64);
        let share = by_time.into_iter().chain(by_count).reduce(f64::max).filter(|_| self.drawn);
        let left_s = share.filter(|share| *share > 0.0).map(|share| elapsed.as_secs_f64() * (1.0 / share - 1.0));
        self.line.set_message(live::going(&Going { share, left_s, so_far, ..self.going() }, width(&io::stderr())));
    }
}

impl Live {
    /// `None` where nobody looks.
    pub fn on_terminal() -> Option<Live> {
        let looks = io::stderr().is_terminal() && !is_quiet();
        looks.then(|| Live { lines: MultiProgress::new(), done: VecDeque::new(), row: None })
    }

    pub fn begins(&mut self, index: usize, of: usize, job: &Job) {
        if let Some(row) = &self.row {
            // It ended without figures.
            row.line.set_message(live::going(&row.going(), width(&io::stderr())));
        }
        self.end();
        let line = self.line();
        let lasts = job.duration.map(|duration| Duration::from(duration) + Duration::from(job.warmup));
        let (path, origin, since, drawn) = (job.spec.to_string(), origin(job), Instant::now(), stands_still(job));
        let row = Current { line, index, of, path, origin, lasts, count: job.count, since, drawn };
        row.draw(None);
        self.row = Some(row);
    }

    /// The flows are open, and the row's time begins.
    pub fn ready(&mut self) {
        if let Some(row) = &mut self.row {
            row.since = Instant::now();
        }
    }

    /// Draws, but beside a loop that does not wait for it.
    pub fn progress(&self, progress: &Progress) {
        if let Some(row) = self.row.as_ref().filter(|row| row.drawn) {
            row.draw(Some(progress));
        }
    }

    pub fn ends(&mut self, row: &Row) {
        if let Some(current) = &self.row {
            current.line.set_message(live::done(current.index, current.of, row, width(&io::stderr())));
        }
        self.end();
    }

    pub fn clear(self) {
        let _ = self.lines.clear();
    }

    fn end(&mut self) {
        self.done.extend(self.row.take().map(|row| row.line));
        if self.done.len() > DONE
            && let Some(oldest) = self.done.pop_front()
        {
            self.lines.remove(&oldest);
        }
    }

    fn line(&self) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        self.lines.add(ProgressBar::new_spinner().with_style(style))
    }
}
