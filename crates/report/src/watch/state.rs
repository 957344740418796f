//! The state of the view: all rows so far, and the user's choices.

use std::sync::Arc;

use hairpin_record::progress::Progress;
use hairpin_record::run::{Row, Run};

use super::course::{Begins, Course, FIGURES};
use crate::prose::clean;

/// The number of rows kept; a longer stream keeps the last ones.
const COURSES: usize = 4096;

/// The source of the snapshots, which decides the effect of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A run of this process; leaving the view ends it.
    Live,
    /// A run of another process, read line by line.
    Stream,
    /// A stored record.
    Stored,
}

/// A user's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Freeze the view, or resume.
    Pause,
    /// Show the next figure in the plot.
    NextFigure,
    /// Show the figure with this number, from 0.
    Figure(usize),
    /// Switch between logarithmic and linear.
    Scale,
    /// Go to the previous row.
    RowBefore,
    /// Go to the next row.
    RowAfter,
    /// Show or hide the help.
    Help,
}

/// Adds a note unless it is the last one; true if it was added.
pub(super) fn noted(notes: &mut Vec<String>, text: &str) -> bool {
    let text = clean(text);
    if notes.last() == Some(&text) {
        return false;
    }
    notes.push(text);
    // A stream of nonsense must not fill the memory.
    let old = notes.len().saturating_sub(8);
    notes.drain(..old);
    true
}

#[derive(Clone, Debug)]
pub struct State {
    pub(super) source: Source,
    /// The watched command or run id.
    pub(super) title: String,
    /// Shared with the copies that are drawn: only the row that grows is copied.
    courses: Vec<Arc<Course>>,
    /// The number of rows before them that are no longer kept.
    before: usize,
    /// The number of planned rows.
    pub(super) of: usize,
    /// The number of the selected row, from 0; `None` follows the run.
    chosen: Option<usize>,
    pub(super) figure: usize,
    pub(super) log: bool,
    pub(super) help: bool,
    /// The rows as they were when the view was frozen, and the number of those before them.
    pub(super) frozen: Option<(usize, Vec<Arc<Course>>)>,
    /// Notes about the view itself.
    pub(super) notes: Vec<String>,
    pub(super) ending: bool,
    pub(super) ended: bool,
    version: u64,
}

impl State {
    /// An empty state. `title` names the run.
    pub fn new(source: Source, title: &str) -> State {
        State {
            source,
            title: clean(title),
            courses: Vec::new(),
            before: 0,
            of: 0,
            chosen: None,
            figure: 2,
            log: true,
            help: false,
            frozen: None,
            notes: Vec::new(),
            ending: false,
            ended: false,
            version: 0,
        }
    }

    /// The state of a finished run.
    pub fn of_run(title: &str, run: &Run) -> State {
        let mut state = State::new(Source::Stored, title);
        state.ends_with(run);
        state.chosen = (!state.courses.is_empty()).then_some(0);
        state
    }

    /// Increases with every change; a redraw is needed only then.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A row begins.
    pub fn begins(&mut self, row: &Begins<'_>) {
        self.version += 1;
        self.of = self.of.max(row.of);
        self.open(Course::begins(row));
    }

    /// Adds a progress line. A line of an unannounced row begins that row.
    pub fn progress(&mut self, line: &Progress) {
        self.version += 1;
        let goes_on = self.courses.last().is_some_and(|course| course.takes(line));
        if !goes_on {
            self.open(Course::of_line(line));
            self.of = self.of.max(self.before + self.courses.len());
        }
        if let Some(course) = self.courses.last_mut() {
            Arc::make_mut(course).progress(line);
        }
    }

    /// Adds a row; the one before it grows no more.
    fn open(&mut self, course: Course) {
        if let Some(last) = self.courses.last_mut() {
            Arc::make_mut(last).settle();
        }
        self.courses.push(Arc::new(course));
        let dropped = self.courses.len().saturating_sub(COURSES);
        if dropped > 0 {
            self.courses.drain(..dropped);
            self.before += dropped;
            self.note_dropped();
        }
    }

    fn note_dropped(&mut self) {
        self.note(&format!("only the last {COURSES} rows are kept"));
    }

    /// A row is finished.
    pub fn ends(&mut self, row: &Row) {
        self.version += 1;
        if let Some(course) = self.courses.last_mut() {
            Arc::make_mut(course).ends(row);
        }
    }

    /// The run is finished, and `run` is its record.
    pub fn ends_with(&mut self, run: &Run) {
        self.version += 1;
        let shown = self.at().filter(|_| self.frozen.is_none());
        let mut begun: Vec<(usize, Arc<Course>)> = std::mem::take(&mut self.courses).into_iter().enumerate().collect();
        self.before = run.results.len().saturating_sub(COURSES);
        // A short row has no line, and a stream may be joined late: the lines may be of any of the rows.
        for (number, row) in run.results.iter().enumerate() {
            let found = begun.iter().position(|(_, course)| course.is_of(row)).map(|at| begun.remove(at));
            if number < self.before {
                continue;
            }
            let course = match found {
                Some((at, mut course)) => {
                    if shown == Some(at) {
                        self.chosen = Some(number);
                    }
                    Arc::make_mut(&mut course).ends(row);
                    course
                }
                None => Arc::new(Course::of_row(row)),
            };
            self.courses.push(course);
        }
        // What began and is not in the record: the run failed in it.
        let dropped = (self.courses.len() + begun.len()).saturating_sub(COURSES);
        for (at, course) in begun.into_iter().skip(dropped) {
            if shown == Some(at) {
                self.chosen = Some(self.before + self.courses.len());
            }
            self.courses.push(course);
        }
        self.of = self.before + self.courses.len();
        if self.before + dropped > 0 {
            self.note_dropped();
        }
        self.notes.extend(run.head.error.as_ref().map(|error| clean(&format!("the run failed part way: {error}"))));
        self.ended = true;
    }

    /// The run was told to stop and is finishing.
    pub fn ending(&mut self) {
        self.version += 1;
        self.ending = true;
    }

    /// Adds a note about the view itself.
    pub fn note(&mut self, text: &str) {
        if noted(&mut self.notes, text) {
            self.version += 1;
        }
    }

    /// Handles a key.
    pub fn key(&mut self, key: Key) {
        self.version += 1;
        let (before, all) = self.shown();
        let rows = before + all.len();
        let at = before + self.at().unwrap_or(0);
        match key {
            Key::Pause => self.frozen = if self.frozen.is_none() { Some((self.before, self.courses.clone())) } else { None },
            Key::NextFigure => self.figure = (self.figure + 1) % FIGURES.len(),
            Key::Figure(figure) => self.figure = figure.min(FIGURES.len() - 1),
            Key::Scale => self.log = !self.log,
            Key::RowBefore => self.chosen = Some(at.saturating_sub(1)),
            // Past the last row, the view follows the run again.
            Key::RowAfter => {
                self.chosen = Some(at + 1).filter(|next| next + 1 < rows || self.source == Source::Stored && *next < rows)
            }
            Key::Help => self.help = !self.help,
        }
        if self.source == Source::Stored && self.chosen.is_none() {
            self.chosen = Some(rows.saturating_sub(1));
        }
    }

    /// The rows on the screen, and the number of those before them.
    fn shown(&self) -> (usize, &[Arc<Course>]) {
        match &self.frozen {
            Some((before, courses)) => (*before, courses.as_slice()),
            None => (self.before, self.courses.as_slice()),
        }
    }

    /// The place of the shown row among the rows on the screen.
    fn at(&self) -> Option<usize> {
        let (before, all) = self.shown();
        Some(self.chosen.unwrap_or(usize::MAX).saturating_sub(before).min(all.len().checked_sub(1)?))
    }

    /// The shown row, and its number from 1.
    pub(super) fn course(&self) -> Option<(usize, &Course)> {
        let (before, all) = self.shown();
        let at = self.at()?;
        Some((before + at + 1, &*all[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_all_rows_but_the_one_that_grows() {
        let mut state = State::new(Source::Stream, "hairpin watch -");
        let line = |path: &str, at_ns| Progress { path: path.into(), at_ns, ..Progress::default() };
        state.progress(&line("udp/udp", 1));
        state.progress(&line("tcp/tcp", 1));
        let copy = state.clone();
        state.progress(&line("tcp/tcp", 2));
        let shared: Vec<bool> = copy.courses.iter().zip(&state.courses).map(|(one, other)| Arc::ptr_eq(one, other)).collect();
        assert_eq!(shared, [true, false]);
    }
}
