//! The line of the running row, below those of finished rows. All are removed before the result is printed.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hairpin_plan::job::Job;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Origin, Row};
use hairpin_report::live::{self, Figures, Going, Place};
use hairpin_session::watch::stands_still;
use hairpin_sys::thread;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::resize::Drawn;
use crate::exit::is_quiet;
use crate::terminal::{can_be_drawn_on, width};

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
        let looks = can_be_drawn_on(&io::stderr()) && !is_quiet();
        looks.then(|| Lines { lines: MultiProgress::new(), done: VecDeque::new(), row: None, drawn: Drawn::default() })
    }

    /// A row begins below the finished ones.
    pub fn begins(&mut self, place: Place, going: &Going) {
        // A row that is still drawn here has ended without figures.
        self.draw(&Going::default());
        self.end();
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let line = self.lines.add(ProgressBar::new_spinner().with_style(style));
        self.row = Some((line, place));
        self.draw(going);
    }

    /// Gives the running row another name.
    pub fn rename(&mut self, name: String) {
        if let Some((_, place)) = &mut self.row {
            place.name = name;
        }
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

    /// Prints a line above them.
    pub fn say(&self, text: &str) {
        let _ = self.lines.println(text);
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
    rows: Arc<Mutex<Rows>>,
    aside: Option<Aside>,
}

/// The drawn rows.
struct Rows {
    lines: Lines,
    row: Option<Current>,
}

impl Rows {
    fn draw(&self) {
        if let Some(row) = &self.row {
            self.lines.draw(&row.going());
        }
    }
}

/// How a row is drawn, which must not take time of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawing {
    /// Its loop waits between two blocks until the line is drawn.
    Between,
    /// A thread draws on a core on which nothing is measured.
    Aside,
    /// Nobody can draw, so the line says how long the row takes.
    AtItsEnds,
}

/// The row that is measured.
struct Current {
    /// Until its end, warm-up included; `None` without a limit of time.
    lasts: Option<Duration>,
    count: Option<u64>,
    flows: u32,
    /// The flows that are open, until all of them are.
    opened: Option<u32>,
    since: Instant,
    drawing: Drawing,
    /// The last news of each thread.
    so_far: Vec<Option<Progress>>,
}

impl Current {
    fn going(&self) -> Going {
        if let Some(open) = self.opened {
            return Going { opened: Some((open, self.flows)), ..Going::default() };
        }
        let so_far = || self.so_far.iter().flatten();
        let transactions: u64 = so_far().map(|thread| thread.transactions).sum();
        let figures = so_far().next_back().map(|last| {
            let transactions_per_s = so_far().map(|thread| thread.transactions_per_s).sum();
            Figures::from(&Progress { transactions_per_s, ..last.clone() })
        });
        if self.drawing == Drawing::AtItsEnds {
            let takes_s = self.lasts.map(|lasts| lasts.as_secs_f64());
            return Going { share: Some(0.0), takes_s, ..Going::default() };
        }
        let elapsed = self.since.elapsed();
        let by_time = self.lasts.map(|lasts| elapsed.as_secs_f64() / lasts.as_secs_f64());
        let by_count = self.count.map(|count| transactions as f64 / count as f64);
        let share = by_time.into_iter().chain(by_count).reduce(f64::max);
        let left_s = share.filter(|share| *share > 0.0).map(|share| elapsed.as_secs_f64() * (1.0 / share - 1.0));
        Going { share, left_s, so_far: figures, ..Going::default() }
    }
}

/// A thread that draws four times a second until this is dropped.
struct Aside {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Aside {
    /// `None` if nothing but the measured CPUs is allowed.
    fn start(rows: &Arc<Mutex<Rows>>, measured: Vec<u32>) -> Option<Aside> {
        let rows = Arc::clone(rows);
        let (over, is_over) = channel::<()>();
        let (tell, told) = channel::<bool>();
        let draws = move || {
            let free = matches!(thread::keep_off(&measured), Ok(true));
            let _ = tell.send(free);
            while free && is_over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                locked(&rows).draw();
            }
        };
        let thread = std::thread::Builder::new().name("line".into()).spawn(draws).ok()?;
        let aside = Aside { over: Some(over), thread: Some(thread) };
        told.recv().is_ok_and(|free| free).then_some(aside)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said so, and the row is drawn no more.
            let _ = thread.join();
        }
    }
}

/// The time between two frames.
const EVERY: Duration = Duration::from_millis(250);

fn locked(rows: &Mutex<Rows>) -> MutexGuard<'_, Rows> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// `None` where nobody looks.
    pub fn on_terminal() -> Option<Live> {
        let rows = Lines::on_terminal().map(|lines| Rows { lines, row: None })?;
        Some(Live { rows: Arc::new(Mutex::new(rows)), aside: None })
    }

    /// `measured` are the CPUs on which this row is measured.
    pub fn begins(&mut self, index: usize, of: usize, job: &Job, measured: Vec<u32>) {
        self.aside = None;
        let lasts = job.duration.map(|duration| Duration::from(duration) + Duration::from(job.warmup));
        let aside = if stands_still(job) || measured.is_empty() { None } else { Aside::start(&self.rows, measured) };
        let drawing = match (stands_still(job), &aside) {
            (true, _) => Drawing::Between,
            (false, Some(_)) => Drawing::Aside,
            (false, None) => Drawing::AtItsEnds,
        };
        self.aside = aside;
        let so_far = vec![None; job.threads.max(1) as usize];
        let row = Current { lasts, count: job.count, flows: job.flows, opened: None, since: Instant::now(), drawing, so_far };
        let mut rows = locked(&self.rows);
        rows.lines.begins(Place::of_path(index, of, &job.spec.to_string(), origin(job)), &row.going());
        rows.row = Some(row);
    }

    /// Draws how many flows are open.
    pub fn opened(&self, flows: u32) {
        let mut rows = locked(&self.rows);
        if let Some(row) = &mut rows.row {
            row.opened = Some(flows);
            rows.draw();
        }
    }

    /// The flows are open, and the row's time begins.
    pub fn ready(&mut self) {
        if let Some(row) = &mut locked(&self.rows).row {
            row.since = Instant::now();
            row.opened = None;
        }
    }

    /// Draws, if the loop waits for it.
    pub fn progress(&self, progress: &Progress) {
        let mut rows = locked(&self.rows);
        let Some(row) = &mut rows.row else { return };
        if let Some(last) = row.so_far.get_mut(progress.thread as usize) {
            *last = Some(progress.clone());
        }
        if row.drawing == Drawing::Between {
            rows.draw();
        }
    }

    pub fn ends(&mut self, row: &Row) {
        self.aside = None;
        let mut rows = locked(&self.rows);
        rows.lines.ends(&Figures::from(row));
        rows.row = None;
    }

    /// Prints a line above the rows.
    pub fn say(&self, text: &str) {
        locked(&self.rows).lines.say(text);
    }

    pub fn clear(mut self) {
        self.aside = None;
        locked(&self.rows).lines.clear();
    }
}
