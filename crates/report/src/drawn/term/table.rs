//! What the tables and plots of a report for a terminal have in common.

use anstyle::{Ansi256Color, Style};

use crate::cell::Cell;
use crate::doc::{Column, Table};
use crate::drawn::words;
use crate::grid::{self, Lines};
use crate::prose::{fold, width};
use crate::style::Tone;
use crate::view::{Row, View};

/// Colours of Okabe and Ito as near as a terminal's 256 have them, light enough for a dark screen.
const PALETTE: [u8; 7] = [32, 166, 36, 175, 214, 74, 244];

/// The style of a line of a plot.
pub(super) fn style(line: usize) -> Style {
    Ansi256Color(PALETTE[line % PALETTE.len()]).on_default()
}

/// A table that no figure makes wider than the screen: its heading, and the lines of each row.
pub(super) fn grid(
    titles: Vec<Column>,
    labels: usize,
    rows: Vec<Vec<String>>,
    columns: usize,
    colour: bool,
) -> (Vec<String>, Vec<Vec<String>>) {
    let rows = rows.into_iter().map(|row| row.into_iter().map(Cell::Text).collect::<Vec<_>>());
    // Painted only when they have been cut, since escapes are no columns.
    let Lines { heads, rows } = grid::lines(&Table::new(titles, labels, rows), columns, false);
    let fit = |line: String| if width(&line) > columns { fold(&line, columns) } else { vec![line] };
    let heads = heads.into_iter().flat_map(fit).map(|line| Tone::Heading.paint(line.trim_end(), colour)).collect();
    (heads, rows.into_iter().map(|row| row.into_iter().flat_map(fit).collect()).collect())
}

/// A row's number and name, the numbers one below the other.
pub(super) fn numbered(view: &View, row: &Row) -> String {
    let digits = view.rows.iter().map(|row| row.number).max().unwrap_or(0).to_string().len();
    format!("{:>digits$} {}{}", row.number, words::row(row), words::mark(row))
}
