//! The state of the view: all rows so far, and the user's choices.

use hairpin_record::progress::Progress;
use hairpin_record::run::{Row, Run};

use super::course::{Begins, Course, FIGURES};
use crate::prose::clean;

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
    courses: Vec<Course>,
    /// The number of planned rows.
    pub(super) of: usize,
    /// The selected row; `None` follows the run.
    chosen: Option<usize>,
    pub(super) figure: usize,
    pub(super) log: bool,
    pub(super) help: bool,
    /// The rows as they were when the view was frozen.
    pub(super) frozen: Option<Vec<Course>>,
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
        self.courses.push(Course::begins(row));
    }

    /// Adds a progress line. A line of an unannounced row begins that row.
    pub fn progress(&mut self, line: &Progress) {
        self.version += 1;
        let goes_on = self.courses.last().is_some_and(|course| course.takes(line));
        if !goes_on {
            self.courses.push(Course::of_line(line));
            self.of = self.of.max(self.courses.len());
        }
        if let Some(course) = self.courses.last_mut() {
            course.progress(line);
        }
    }

    /// A row is finished.
    pub fn ends(&mut self, row: &Row) {
        self.version += 1;
        if let Some(course) = self.courses.last_mut() {
            course.ends(row);
        }
    }

    /// The run is finished, and `run` is its record.
    pub fn ends_with(&mut self, run: &Run) {
        self.version += 1;
        for (index, row) in run.results.iter().enumerate() {
            match self.courses.get_mut(index) {
                Some(course) => course.ends(row),
                None => self.courses.push(Course::of_row(row)),
            }
        }
        self.of = self.courses.len();
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
        let rows = self.shown().len();
        let at = self.chosen.unwrap_or(rows.saturating_sub(1));
        match key {
            Key::Pause => self.frozen = if self.frozen.is_none() { Some(self.courses.clone()) } else { None },
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

    /// The rows on the screen.
    pub(super) fn shown(&self) -> &[Course] {
        self.frozen.as_ref().unwrap_or(&self.courses)
    }

    /// The shown row, and its number from 1.
    pub(super) fn course(&self) -> Option<(usize, &Course)> {
        let all = self.shown();
        let at = self.chosen.unwrap_or(usize::MAX).min(all.len().checked_sub(1)?);
        Some((at + 1, &all[at]))
    }
}
