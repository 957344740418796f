//! A plot of curves in braille. Each curve ends in a letter that the legend explains.

use crate::chart::axis::{Axis, Tick, thinned};
use crate::chart::canvas::{Canvas, Run};
use crate::prose::{width, wrap};
use crate::style::Tone;

/// Rows of a picture that has room.
pub(crate) const ROWS: usize = 16;
/// Columns for labels to the left.
const LEFT: usize = 8;
/// Columns for letters to the right: the largest number of curves that end in one row.
const ENDS: usize = 6;
/// The greatest width of a picture.
const LONGEST: usize = 120;
/// The greatest number of ticks on the vertical axis.
const TICKS: usize = 7;

/// A picture that is still to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Values that may be labelled along the horizontal axis; empty for an axis of quantiles, which have names.
    pub(crate) values: Vec<f64>,
    pub(crate) x_title: &'static str,
    pub(crate) rows: usize,
    pub(crate) curves: Vec<Curve>,
}

/// A line, or points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    pub(crate) points: Vec<(f64, f64)>,
    /// Positions with a character.
    pub(crate) marks: Vec<(f64, f64, char)>,
    /// One dot in `every` is set; 0 for no line.
    pub(crate) every: usize,
    /// The letter at the curve's end.
    pub(crate) letter: Option<char>,
    pub(crate) tone: Tone,
}

impl Picture {
    /// The picture as lines of at most `columns`.
    pub(crate) fn lines(&self, columns: usize, colour: bool) -> Vec<String> {
        let room = columns.min(LONGEST) - LEFT - 2 - ENDS;
        let mut canvas = Canvas::new(room, self.rows);
        let mut ends: Vec<Vec<(char, usize)>> = vec![Vec::new(); self.rows];
        let at = |(x, y): (f64, f64)| (self.x.at(x), self.y.at(y));
        for (number, curve) in self.curves.iter().enumerate() {
            curve.marks.iter().for_each(|(x, y, mark)| canvas.mark(at((*x, *y)), *mark, number));
            if curve.every > 0 {
                curve.points.windows(2).for_each(|pair| canvas.line(at(pair[0]), at(pair[1]), curve.every, number));
            }
            if let (Some(last), Some(letter)) = (curve.points.last(), curve.letter) {
                ends[canvas.row(at(*last).1)].push((letter, number));
            }
        }
        let painted =
            |text: &str, curve: Option<usize>| curve.map_or(text.into(), |curve| self.curves[curve].tone.paint(text, colour));
        let row = |(runs, ends): (Vec<Run>, &Vec<(char, usize)>)| {
            let row: String = runs.iter().map(|(text, curve)| painted(text, *curve)).collect();
            let shown: String = ends.iter().take(ENDS - 1).map(|(end, curve)| painted(&end.to_string(), Some(*curve))).collect();
            format!("{row} {shown}{}", if ends.len() > ENDS - 1 { "+" } else { "" }).trim_end().to_owned()
        };
        let rows = canvas.beside(&self.y, self.y.time_ticks(TICKS), LEFT).into_iter().zip(&ends);
        let mut text: Vec<String> = rows.map(row).collect();
        text.extend(canvas.below(&self.x, &self.ticks(room), LEFT, ENDS));
        let title = width(self.x_title);
        let pad = (LEFT + 1 + room.saturating_sub(title) / 2).min(columns.saturating_sub(title));
        text.extend(wrap(&" ".repeat(pad), self.x_title, columns));
        text
    }

    /// The ticks of the horizontal axis that fit.
    fn ticks(&self, room: usize) -> Vec<Tick> {
        let share = |characters: usize| (characters + 1) as f64 / room as f64;
        if !self.values.is_empty() {
            return thinned(&self.x, &self.values, share);
        }
        let mut ticks: Vec<Tick> = Vec::new();
        for tick in self.x.quantile_ticks() {
            if ticks.last().is_none_or(|last| self.x.at(tick.value) - self.x.at(last.value) >= share(tick.label.len())) {
                ticks.push(tick);
            }
        }
        ticks
    }
}
