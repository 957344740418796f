//! A table as aligned lines that fit a given width.
//!
//! ```text
//!   fits with two columns of space     path      payload  trans/s    min
//!   fits with one                      path payload trans/s   min
//!   a few labels are too long          udp:busy-poll,usecs=50/spin
//!                                            64  199660 4.700
//!   even short labels do not fit       udp 65536/65536
//!                                        199660 4.700
//!   a bar takes the remaining room     send call  4.700  ##
//!   prose hangs in the last column     wake-up    9.100  the core was asleep, and
//!                                                         had to be called
//! ```

use std::borrow::Cow;

use crate::chart::strip::scale;
use crate::doc::{Column, Place, Row, Table};
use crate::prose::{fold, width, wrap};
use crate::style::Tone;

/// A shorter bar is unreadable.
const LEAST_BAR: usize = 8;
/// A longer bar adds nothing.
const LONGEST_BAR: usize = 60;

/// The heading's lines, and the lines of each row.
pub(crate) struct Lines {
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// True if every row of the table takes one line of at most `columns`.
pub(crate) fn fits(table: &Table, columns: usize) -> bool {
    let Lines { heads, rows } = lines(table, columns, false);
    let one_line = rows.iter().all(|lines| lines.len() == 1);
    one_line && heads.iter().chain(rows.iter().flatten()).all(|line| width(line) <= columns)
}

/// The lines of a table, none wider than `columns` unless the figures alone exceed it.
pub(crate) fn lines(table: &Table, columns: usize, colour: bool) -> Lines {
    let columns = columns.saturating_sub(table.indent);
    let grid = Grid::of(table, columns);
    let Lines { mut heads, mut rows } = grid.fitted(columns, colour);
    for (at, (row, lines)) in table.rows.iter().zip(&mut rows).enumerate() {
        if row.tone != Tone::Plain {
            lines.iter_mut().for_each(|line| *line = row.tone.paint(line, colour));
        }
        if let Some(text) = &grid.prose {
            let last = lines.pop().unwrap_or_default();
            let plain = grid.last_line(at, columns);
            lines.extend(hung(&last, width(&plain), grid.base, &text.cells[at], columns));
        }
        for (column, cell) in table.columns.iter().zip(&row.cells) {
            if let Place::Below(lead) = column.place {
                let text = cell.shown(0);
                lines.extend((!text.is_empty()).then(|| wrap(lead, &text, columns)).into_iter().flatten());
            }
        }
    }
    if let (Some(prose), Some(last)) = (&grid.prose, heads.last_mut()) {
        let pad = " ".repeat(grid.base.saturating_sub(grid.heading_width(columns)));
        *last = format!("{last}{pad}{}", grid.tone.paint(&prose.title, colour));
    }
    let indent = " ".repeat(table.indent);
    let indented = |line: String| format!("{indent}{line}");
    Lines {
        heads: heads.into_iter().map(indented).collect(),
        rows: rows.into_iter().map(|lines| lines.into_iter().map(indented).collect()).collect(),
    }
}

/// Appends text to `line`, which is `taken` columns wide; the text goes from column `base` to column `room` on each line.
fn hung(line: &str, taken: usize, base: usize, text: &str, room: usize) -> Vec<String> {
    let mut lines = wrap(&" ".repeat(base), text, room);
    let pad = " ".repeat(base.saturating_sub(taken));
    lines[0] = format!("{line}{pad}{}", &lines[0][base..]).trim_end().to_owned();
    lines
}

/// True for a column that takes the remaining room.
fn drawn(column: &Column) -> bool {
    matches!(column.place, Place::Bar | Place::Scale(_))
}

/// The last column, if it is prose.
struct Prose {
    title: String,
    cells: Vec<String>,
}

/// The side-by-side columns as text.
struct Grid<'a> {
    columns: Vec<&'a Column>,
    titles: Vec<String>,
    labels: usize,
    /// The tone of the titles.
    tone: Tone,
    cells: Vec<Vec<(String, Tone)>>,
    widths: Vec<usize>,
    prose: Option<Prose>,
    /// The column at which prose begins.
    base: usize,
}

impl<'a> Grid<'a> {
    fn of(table: &'a Table, columns: usize) -> Grid<'a> {
        let beside = |column: &Column| matches!(column.place, Place::Left | Place::Right | Place::Screen) || drawn(column);
        let shown: Vec<usize> = (0..table.columns.len()).filter(|at| beside(&table.columns[*at])).collect();
        let text = |row: &Row, room: usize| -> Vec<(String, Tone)> {
            shown.iter().map(|at| (row.cells[*at].shown(room), row.cells[*at].tone())).collect()
        };
        let of: Vec<&Column> = shown.iter().map(|at| &table.columns[*at]).collect();
        let mut cells: Vec<Vec<(String, Tone)>> = table.rows.iter().map(|row| text(row, 1)).collect();
        let mut widths: Vec<usize> = (0..of.len())
            .map(|at| cells.iter().map(|row| width(&row[at].0)).max().unwrap_or(0).max(width(&of[at].title)))
            .collect();
        let mut titles: Vec<String> = of.iter().map(|column| column.title.clone()).collect();
        if let Some(bar) = of.iter().position(|column| drawn(column)) {
            widths[bar] = 0;
            let taken: usize = widths.iter().sum();
            let left = |gap: usize| columns.saturating_sub(taken + gap * (of.len() - 1));
            // Two spaces between figures read better than a longer bar.
            widths[bar] = if left(2) >= LEAST_BAR { left(2) } else { left(1) }.max(LEAST_BAR);
            match of[bar].place {
                Place::Scale(axis) => titles[bar] = scale(&axis, widths[bar]),
                _ => widths[bar] = widths[bar].min(LONGEST_BAR),
            }
            cells = table.rows.iter().map(|row| text(row, widths[bar])).collect();
        }
        let prose = table.columns.iter().position(|column| column.place == Place::Prose).map(|at| Prose {
            title: table.columns[at].title.clone(),
            cells: table.rows.iter().map(|row| row.cells[at].shown(0)).collect(),
        });
        let base = widths.iter().map(|width| width + 2).sum();
        Grid { columns: of, titles, labels: table.labels, tone: table.titles, cells, widths, prose, base }
    }

    fn total(&self, gap: usize) -> usize {
        self.widths.iter().sum::<usize>() + gap * self.widths.len().saturating_sub(1)
    }

    /// The width of the first column and the space between columns, if labels fit beside figures.
    fn side_by_side(&self, columns: usize) -> Option<(usize, usize)> {
        let gap = if self.total(2) <= columns { 2 } else { 1 };
        let first = *self.widths.first()?;
        if self.total(gap) <= columns {
            return Some((first, gap));
        }
        let title = width(&self.columns[0].title);
        let room = columns.saturating_sub(self.total(1) - first);
        (room >= title).then(|| {
            let fitting = self.cells.iter().map(|row| width(&row[0].0)).filter(|w| *w <= room).max().unwrap_or(0).max(title);
            let spare = columns >= self.total(2) - first + fitting;
            (fitting, if spare { 2 } else { 1 })
        })
    }

    fn fitted(&self, columns: usize, colour: bool) -> Lines {
        match self.side_by_side(columns) {
            Some((first, gap)) => self.inline(first, gap, columns, colour),
            None => self.stacked(columns, colour),
        }
    }

    /// Labels and figures on one line; a label wider than its column goes on a line of its own above.
    fn inline(&self, first: usize, gap: usize, columns: usize, colour: bool) -> Lines {
        let widths = [&[first], self.widths.get(1..).unwrap_or_default()].concat();
        let row = |row: &Vec<(String, Tone)>| {
            let (mut row, mut lines) = (Cow::Borrowed(row), Vec::new());
            if width(&row[0].0) > first {
                lines = fold(&std::mem::take(&mut row.to_mut()[0].0), columns);
            }
            lines.push(self.line(0, &row, &widths, gap, colour));
            lines
        };
        Lines { heads: self.heading(0, &widths, gap, "", colour), rows: self.cells.iter().map(row).collect() }
    }

    /// Labels on one line, figures on the next.
    fn stacked(&self, columns: usize, colour: bool) -> Lines {
        let labels = |texts: Vec<&str>| texts[..self.labels.min(texts.len())].join("  ");
        let titles = self.titles.iter().map(String::as_str).collect();
        let mut heads = vec![self.tone.paint(&labels(titles), colour)];
        heads.extend(self.heading(self.labels, &self.widths, 1, "  ", colour));
        let row = |row: &Vec<(String, Tone)>| {
            let mut lines = wrap("", &labels(row.iter().map(|(text, _)| text.as_str()).collect()), columns);
            lines.push(format!("  {}", self.line(self.labels, row, &self.widths, 1, colour)));
            lines
        };
        Lines { heads, rows: self.cells.iter().map(row).collect() }
    }

    fn heading(&self, from: usize, widths: &[usize], gap: usize, indent: &str, colour: bool) -> Vec<String> {
        let titles: Vec<(String, Tone)> = self.titles.iter().map(|title| (title.clone(), Tone::Plain)).collect();
        let titles = self.line(from, &titles, widths, gap, false);
        [self.groups(from, widths, gap), titles]
            .iter()
            .filter(|line| !line.is_empty())
            .map(|line| self.tone.paint(&format!("{indent}{line}"), colour))
            .collect()
    }

    /// The line above the titles, with `------- RTT -------` over each group.
    fn groups(&self, from: usize, widths: &[usize], gap: usize) -> String {
        let mut line = String::new();
        let mut i = from;
        while i < self.columns.len() {
            let group = self.columns[i].group;
            let end = (i + 1..self.columns.len()).find(|j| group.is_empty() || self.columns[*j].group != group);
            let end = end.unwrap_or(self.columns.len());
            let span = widths[i..end].iter().sum::<usize>() + gap * (end - i - 1);
            let fill = format!(" {group} ");
            line.push_str(&if group.is_empty() { " ".repeat(span) } else { format!("{fill:-^span$}") });
            line.push_str(&" ".repeat(gap));
            i = end;
        }
        line.trim_end().into()
    }

    fn line(&self, from: usize, row: &[(String, Tone)], widths: &[usize], gap: usize, colour: bool) -> String {
        let mut line = String::new();
        for (i, (text, tone)) in row.iter().enumerate().skip(from) {
            if i > from {
                line.push_str(&" ".repeat(gap));
            }
            // Spaces are left unpainted so that trailing ones can be trimmed.
            let text = text.trim_end();
            let pad = " ".repeat(widths[i].saturating_sub(width(text)));
            let painted = tone.paint(text, colour);
            match self.columns[i].place {
                Place::Right => line.extend([pad.as_str(), &painted]),
                _ => line.extend([painted.as_str(), &pad]),
            }
        }
        line.trim_end().into()
    }

    /// The last line of a row, without colour.
    fn last_line(&self, row: usize, columns: usize) -> String {
        self.fitted(columns, false).rows.swap_remove(row).pop().unwrap_or_default()
    }

    fn heading_width(&self, columns: usize) -> usize {
        self.fitted(columns, false).heads.last().map_or(0, |line| width(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Bar, Cell};

    fn table(labels: [&str; 2], payload: &str) -> Table {
        let columns = vec![
            Column::words("path"),
            Column::figures("payload"),
            Column::us("min").under("RTT"),
            Column::us("max").under("RTT"),
        ];
        let row = |label: &str| vec![label.into(), payload.into(), Cell::Ns(4700.0), Cell::Ns(19_600.0)];
        Table::new(columns, 2, labels.map(row))
    }

    fn all(table: &Table, columns: usize) -> Vec<String> {
        let Lines { mut heads, rows } = lines(table, columns, false);
        heads.extend(rows.concat());
        heads
    }

    #[test]
    fn gaps_shrink_before_labels_move() {
        let lines = all(&table(["udp", "tcp"], "64"), 29);
        assert_eq!(lines[..3], ["               --- RTT ----", "path  payload    min    max", "udp        64  4.700  19.60"]);
        assert_eq!(all(&table(["udp", "tcp"], "64"), 24)[2], "udp       64 4.700 19.60");
    }

    #[test]
    fn long_labels_get_a_line_of_their_own() {
        let lines = all(&table(["udp", "udp:busy-poll,usecs=50"], "64"), 26);
        assert_eq!(lines[3..], ["udp:busy-poll,usecs=50", "          64 4.700 19.60"].map(String::from));
        let lines = all(&table(["udp:spin", "tcp"], "65536/65536"), 19);
        assert_eq!(lines[0], "path  payload");
        assert_eq!(lines[3..5], ["udp:spin", "65536/65536"].map(String::from));
        assert!(lines.iter().all(|line| width(line) <= 19), "{lines:?}");
    }

    #[test]
    fn text_below_a_row_keeps_to_the_width_of_an_indented_table() {
        let long =
            "the hypervisor or firmware took it: no event of the kernel lies in the gap, and the steal count does not tell";
        let row: Vec<Cell> = vec!["nothing seen".into(), long.into()];
        let columns = vec![Column::words("cause"), Column::below("advice", "    ")];
        for indent in 0..6 {
            let table = Table { indent, ..Table::new(columns.clone(), 1, [row.clone()]) };
            assert!(all(&table, 80).iter().all(|line| width(line) <= 80), "{:?}", all(&table, 80));
        }
    }

    #[test]
    fn bar_takes_the_remaining_room() {
        let columns = vec![Column::words("stage"), Column::bar(), Column::words("class")];
        let row = |name: &str, from, to| vec![name.into(), Cell::Bar(Bar::new(from, to)), "derived".into()];
        let table = Table::new(columns, 1, [row("one", 0.0, 0.5), row("two", 0.5, 1.0)]);
        assert_eq!(all(&table, 26), ["stage              class", "one    #####       derived", "two         #####  derived"]);
    }

    #[test]
    fn prose_hangs_behind_its_row() {
        let columns = vec![Column::words("path"), Column::prose("about"), Column::below("options", "    options: ")];
        let text = "word ".repeat(20);
        let table = Table::new(columns, 1, [vec!["udp".into(), text.as_str().into(), "a b".into()]]);
        let lines = all(&table, 80);
        assert_eq!(lines[0], "path  about");
        assert!(lines[1].starts_with("udp   word word") && lines[2].starts_with("      word"), "{lines:?}");
        assert_eq!(lines[3], "    options: a b");
    }
}
