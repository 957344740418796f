//! What a frame shows: every row so far, and what somebody at the terminal has chosen.

use hairpin_record::progress::Progress;
use hairpin_record::run::{Row, Run};

use super::course::{Begins, Course, FIGURES};
use crate::prose::clean;

/// Where the snapshots come from, which decides what the keys can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A run of this process: leaving ends it.
    Live,
    /// A run of another process, whose lines are read.
    Stream,
    /// A record.
    Stored,
}

/// What somebody at the terminal wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Stand still, or go on.
    Pause,
    /// The next figure in the plot.
    NextFigure,
    /// This figure, from 0.
    Figure(usize),
    /// Logarithmic or linear.
    Scale,
    /// The row before.
    RowBefore,
    /// The row after.
    RowAfter,
    /// What the keys do.
    Help,
}

/// Everything that a frame shows.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) source: Source,
    /// What is watched: a command, a run's id.
    pub(super) title: String,
    courses: Vec<Course>,
    /// Rows that are planned.
    pub(super) of: usize,
    /// The row that is shown, if somebody chose one; else the last.
    chosen: Option<usize>,
    pub(super) figure: usize,
    pub(super) log: bool,
    pub(super) help: bool,
    /// What is shown while the run goes on unseen.
    pub(super) frozen: Option<Vec<Course>>,
    /// About the view itself.
    pub(super) notes: Vec<String>,
    pub(super) ending: bool,
    pub(super) ended: bool,
    version: u64,
}

impl State {
    /// Nothing yet. `title` says what is watched.
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

    /// A whole run.
    pub fn of_run(title: &str, run: &Run) -> State {
        let mut state = State::new(Source::Stored, title);
        state.ends_with(run);
        state.chosen = (!state.courses.is_empty()).then_some(0);
        state
    }

    /// Grows with every change: nothing need be drawn anew while it stays.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A row begins.
    pub fn begins(&mut self, row: &Begins<'_>) {
        self.version += 1;
        self.of = self.of.max(row.of);
        self.courses.push(Course::begins(row));
    }

    /// A row goes on. A line of a row that nobody announced begins one.
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

    /// A row is over.
    pub fn ends(&mut self, row: &Row) {
        self.version += 1;
        if let Some(course) = self.courses.last_mut() {
            course.ends(row);
        }
    }

    /// The run is over, and this is its record.
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

    /// The run was told to end, and takes a moment.
    pub fn ending(&mut self) {
        self.version += 1;
        self.ending = true;
    }

    /// Something about the view itself that a viewer should know.
    pub fn note(&mut self, text: &str) {
        let text = clean(text);
        if self.notes.last() != Some(&text) {
            self.version += 1;
            self.notes.push(text);
            // A stream of nonsense must not fill the memory.
            let old = self.notes.len().saturating_sub(8);
            self.notes.drain(..old);
        }
    }

    /// What somebody at the terminal wants.
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
            // Past the last one the view follows the run again.
            Key::RowAfter => {
                self.chosen = Some(at + 1).filter(|next| next + 1 < rows || self.source == Source::Stored && *next < rows)
            }
            Key::Help => self.help = !self.help,
        }
        if self.source == Source::Stored && self.chosen.is_none() {
            self.chosen = Some(rows.saturating_sub(1));
        }
    }

    pub(super) fn shown(&self) -> &[Course] {
        self.frozen.as_ref().unwrap_or(&self.courses)
    }

    /// The row that is shown, and its number from 1.
    pub(super) fn course(&self) -> Option<(usize, &Course)> {
        let all = self.shown();
        let at = self.chosen.unwrap_or(usize::MAX).min(all.len().checked_sub(1)?);
        Some((at + 1, &all[at]))
    }
}
