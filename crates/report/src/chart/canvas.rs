//! A canvas of braille characters. Each has two by four dots and belongs to the line that was drawn there first.

use crate::chart::axis::{Axis, Tick};
use crate::prose::width;

/// The bit of each dot in a character, row by row.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// One character of the canvas.
#[derive(Clone, Copy, Default)]
struct Cell {
    dots: u8,
    /// Shown in place of the dots.
    mark: Option<char>,
    line: Option<usize>,
}

/// Neighbouring characters, and the line that they belong to.
pub(crate) type Run = (String, Option<usize>);

/// Dots and marks in a rectangle. Coordinates run from (0, 0) at the lower left to (1, 1).
pub(crate) struct Canvas {
    columns: usize,
    cells: Vec<Cell>,
}

impl Canvas {
    pub(crate) fn new(columns: usize, rows: usize) -> Canvas {
        Canvas { columns, cells: vec![Cell::default(); columns * rows] }
    }

    fn rows(&self) -> usize {
        self.cells.len() / self.columns
    }

    /// The character row, counted from the top, at height `y`.
    pub(crate) fn row(&self, y: f64) -> usize {
        self.dot_at((0.0, y)).1 / 4
    }

    fn dot_at(&self, (x, y): (f64, f64)) -> (usize, usize) {
        let scaled = |share: f64, dots: usize| (share.clamp(0.0, 1.0) * (dots - 1) as f64).round() as usize;
        (scaled(x, self.columns * 2), scaled(1.0 - y, self.rows() * 4))
    }

    pub(crate) fn dot(&mut self, at: (f64, f64), line: usize) {
        self.line(at, at, 1, line);
    }

    /// A straight line; only every `every`-th dot is set.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), every: usize, line: usize) {
        let (from, to) = (self.dot_at(from), self.dot_at(to));
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1));
        let between = |a: usize, b: usize, i: usize| {
            if steps == 0 { a } else { (a as f64 + (b as f64 - a as f64) * i as f64 / steps as f64).round() as usize }
        };
        let is_flat = from.0.abs_diff(to.0) >= from.1.abs_diff(to.1);
        for i in 0..=steps {
            let (x, y) = (between(from.0, to.0, i), between(from.1, to.1, i));
            // By position, not by step, so that a line of many short pieces has as many gaps as a single long one.
            let along = if is_flat { x } else { y };
            if along.is_multiple_of(every) || (steps == 0 && every == 1) {
                let cell = &mut self.cells[y / 4 * self.columns + x / 2];
                cell.dots |= DOTS[y % 4][x % 2];
                cell.line = cell.line.or(Some(line));
            }
        }
    }

    /// A character in place of the dots. If the place is taken, the mark goes beside it; if the neighbours are taken too, it is
    /// left out.
    pub(crate) fn mark(&mut self, at: (f64, f64), mark: char, line: usize) {
        let (x, y) = self.dot_at(at);
        let (row, column) = (y / 4 * self.columns, x / 2);
        let places = [Some(column), Some(column + 1).filter(|right| *right < self.columns), column.checked_sub(1)];
        let mut free = places.into_iter().flatten().filter(|column| self.cells[row + column].mark.is_none());
        if let Some(column) = free.next() {
            let cell = &mut self.cells[row + column];
            *cell = Cell { mark: Some(mark), line: Some(line), ..*cell };
        }
    }

    /// A character in place of the dots, only where the canvas is empty.
    pub(crate) fn bullet(&mut self, at: (f64, f64), mark: char, line: usize) {
        let (x, y) = self.dot_at(at);
        let cell = &mut self.cells[y / 4 * self.columns + x / 2];
        if cell.line.is_none() {
            *cell = Cell { mark: Some(mark), line: Some(line), ..*cell };
        }
    }

    /// The rows from the top, each split into runs of one line.
    fn runs(&self) -> impl Iterator<Item = Vec<Run>> {
        let glyph = |cell: &Cell| cell.mark.unwrap_or_else(|| glyph(cell.dots));
        let run = move |group: &[Cell]| (group.iter().map(glyph).collect(), group[0].line);
        self.cells.chunks(self.columns).map(move |row| row.chunk_by(|a, b| a.line == b.line).map(run).collect())
    }

    /// The rows to the right of their axis, whose labels take `left` columns.
    pub(crate) fn beside(&self, axis: &Axis, ticks: Vec<Tick>, left: usize) -> Vec<Vec<Run>> {
        let mut labels = vec![String::new(); self.rows()];
        for Tick { value, label } in ticks {
            labels[self.row(axis.at(value))] = label;
        }
        let row = |(label, mut runs): (String, Vec<Run>)| {
            let tick = if label.is_empty() { '│' } else { '┤' };
            runs.insert(0, (format!("{label:>left$}{tick}"), None));
            runs
        };
        labels.into_iter().zip(self.runs()).map(row).collect()
    }

    /// The axis below: a rule and its labels, which may reach `spare` columns beyond the canvas.
    pub(crate) fn below(&self, axis: &Axis, ticks: &[Tick], left: usize, spare: usize) -> [String; 2] {
        let room = self.columns;
        let mut rule: Vec<char> = vec!['─'; room];
        let mut labels = String::new();
        for Tick { value, label } in ticks {
            let at = (axis.at(*value) * (room - 1) as f64).round() as usize;
            rule[at] = '┬';
            let from = (at + left + 1).saturating_sub(width(label) / 2).min((room + left + spare).saturating_sub(width(label)));
            labels.push_str(&" ".repeat(from.saturating_sub(width(&labels))));
            labels.push_str(label);
        }
        [format!("{}└{}", " ".repeat(left), rule.into_iter().collect::<String>()), labels]
    }
}

/// The braille character for some dots; a space for none, since every font has that.
fn glyph(dots: u8) -> char {
    if dots == 0 { ' ' } else { char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ') }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(canvas: &Canvas) -> Vec<String> {
        canvas.runs().map(|runs| runs.into_iter().map(|(text, _)| text).collect()).collect()
    }

    #[test]
    fn lines_go_from_dot_to_dot() {
        let mut canvas = Canvas::new(2, 1);
        canvas.line((0.0, 0.0), (1.0, 1.0), 1, 0);
        assert_eq!(shown(&canvas), ["⡠⠊"]);
        let mut canvas = Canvas::new(2, 2);
        canvas.line((0.0, 1.0), (1.0, 1.0), 1, 0);
        canvas.line((0.0, 0.0), (1.0, 0.0), 2, 1);
        assert_eq!(shown(&canvas), ["⠉⠉", "⡀⡀"]);
        // Every second dot also of a line that rises by one dot for each.
        let mut canvas = Canvas::new(4, 2);
        canvas.line((0.0, 0.0), (1.0, 1.0), 2, 0);
        let dots: u32 = canvas.cells.iter().map(|cell| cell.dots.count_ones()).sum();
        assert_eq!(dots, 4);
    }

    #[test]
    fn marks_make_room_and_nothing_leaves_the_canvas() {
        let mut canvas = Canvas::new(3, 1);
        canvas.line((-7.0, 0.5), (9.0, f64::INFINITY), 1, 0);
        canvas.mark((2.0, -3.0), 'a', 1);
        canvas.mark((1.0, 0.0), 'b', 2);
        canvas.mark((1.0, 0.0), 'c', 3);
        assert!(shown(&canvas)[0].ends_with("ba"), "{:?}", shown(&canvas));
        canvas.mark((0.0, 0.0), 'd', 4);
        assert_eq!(shown(&canvas), ["dba"]);
    }
}
