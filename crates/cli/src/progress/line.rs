//! The line of the running row, below those of finished rows. All are removed before the result is printed.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use hairpin_plan::job::Job;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Origin, Row};
use hairpin_report::live::{self, Figures, Going, Place};
use hairpin_session::watch::stands_still;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::resize::Drawn;
use crate::exit::is_quiet;
use crate::terminal::width;

/// More finished rows push the older ones off.
pub const DONE: usize = 8;

/// Whether the figures of a row are measured or emulated.
pub fn origin(job: &Job) -> Origin {
    if job.emulated.is_some() { Origin::Emulated } else { Origin::Measured }
}

/// The lines on the terminal.
pub struct Lines {
    lines: MultiProgress,
    done: VecDeque<ProgressBar>,
    row: Option<(ProgressBar, Place)>,
    drawn: Drawn,
}

impl Lines {
    /// `None` where nobody looks.
    pub fn on_terminal() -> Option<Lines> {
        let looks = io::stderr().is_terminal() && !is_quiet();
        looks.then(|| Lines { lines: MultiProgress::new(), done: VecDeque::new(), row: None, drawn: Drawn::default() })
    }

    /// A row begins below the finished ones.
    pub fn begins(&mut self, place: Place, going: &Going) {
        // One that goes on ended without figures.
        self.draw(&Going::default());
        self.end();
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let line = self.lines.add(ProgressBar::new_spinner().with_style(style));
        self.row = Some((line, place));
        self.draw(going);
    }

    /// Draws the running row.
    pub fn draw(&self, going: &Going) {
        if let Some((line, place)) = &self.row {
            self.drawn.settle();
            line.set_message(live::going(place, going, width(&io::stderr())));
            self.drawn.drew(self.done.len() + 1);
        }
    }

    /// The row is done.
    pub fn ends(&mut self, figures: &Figures) {
        if let Some((line, place)) = &self.row {
            self.drawn.settle();
            line.set_message(live::done(place, figures, width(&io::stderr())));
            self.drawn.drew(self.done.len() + 1);
        }
        self.end();
    }

    /// Removes all from the terminal.
    pub fn clear(&self) {
        self.drawn.settle();
        let _ = self.lines.clear();
    }

    fn end(&mut self) {
        self.done.extend(self.row.take().map(|(line, _)| line));
        if self.done.len() > DONE
            && let Some(oldest) = self.done.pop_front()
        {
            self.lines.remove(&oldest);
        }
    }
}

/// The rows of a run.
pub struct Live {
    lines: Lines,
    row: Option<Current>,
}

/// The row that is measured.
struct Current {
    /// Until its end, warm-up included; `None` without a limit of time.
    lasts: Option<Duration>,
    count: Option<u64>,
    since: Instant,
    /// Its loop may wait until the line is drawn.
    drawn: bool,
}

impl Current {
    fn going(&self, so_far: Option<&Progress>) -> Going {
        let elapsed = self.since.elapsed();
        let by_time = self.lasts.map(|lasts| elapsed.as_secs_f64() / lasts.as_secs_f64());
        let by_count = self.count.zip(so_far).map(|(count, so_far)| so_far.transactions as f64 / count as f64);
        let share = by_time.into_iter().chain(by_count).reduce(f64::max).filter(|_| self.drawn);
        let left_s = share.filter(|share| *share > 0.0).map(|share| elapsed.as_secs_f64() * (1.0 / share - 1.0));
        Going { share, left_s, so_far: so_far.map(Figures::from) }
    }
}

impl Live {
    /// `None` where nobody looks.
    pub fn on_terminal() -> Option<Live> {
        Lines::on_terminal().map(|lines| Live { lines, row: None })
    }

    pub fn begins(&mut self, index: usize, of: usize, job: &Job) {
        let lasts = job.duration.map(|duration| Duration::from(duration) + Duration::from(job.warmup));
        let row = Current { lasts, count: job.count, since: Instant::now(), drawn: stands_still(job) };
        self.lines.begins(Place::of_path(index, of, &job.spec.to_string(), origin(job)), &row.going(None));
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
            self.lines.draw(&row.going(Some(progress)));
        }
    }

    pub fn ends(&mut self, row: &Row) {
        self.lines.ends(&Figures::from(row));
        self.row = None;
    }

    pub fn clear(self) {
        self.lines.clear();
    }
}
