//! Rows of cells as aligned lines that keep within a width.
//!
//! ```text
//!   fits with two columns of space     path      payload  trans/s    min
//!   fits with one                      path payload trans/s   min
//!   a few labels are too long          udp:busy-poll,usecs=50/spin
//!                                            64  199660 4.700
//!   even short labels do not fit       udp 65536/65536
//!                                        199660 4.700
//! ```

use crate::prose::{fold, width};
use crate::style::{HEADING, paint};

/// One column.
pub(crate) struct Column {
    title: String,
    /// Shown over all neighbouring columns of this group.
    group: &'static str,
    left: bool,
}

impl Column {
    /// Words, aligned left.
    pub(crate) fn words(title: &str) -> Column {
        Column { title: title.into(), group: "", left: true }
    }

    /// Figures, aligned right.
    pub(crate) fn figures(title: impl Into<String>) -> Column {
        Column { title: title.into(), group: "", left: false }
    }

    /// The title alone.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// The title with its group, for formats that have no line above the titles.
    pub(crate) fn full_title(&self) -> String {
        if self.group.is_empty() { self.title.clone() } else { format!("{} {}", self.group, self.title) }
    }

    /// The column as part of a group.
    pub(crate) fn under(mut self, group: &'static str) -> Column {
        self.group = group;
        self
    }
}

/// A table: the first `labels` columns name a row and may stand on a line of their own.
pub(crate) struct Grid {
    pub(crate) columns: Vec<Column>,
    pub(crate) labels: usize,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Grid {
    /// The lines, none wider than `columns` unless the figures alone are.
    pub(crate) fn lines(&self, columns: usize, colour: bool) -> Vec<String> {
        let (mut lines, rows) = self.blocks(columns, colour);
        lines.extend(rows.into_iter().flatten());
        lines
    }

    /// The lines of the heading and those of each row.
    pub(crate) fn blocks(&self, columns: usize, colour: bool) -> (Vec<String>, Vec<Vec<String>>) {
        let widths = self.widths();
        let total = |gap: usize| widths.iter().sum::<usize>() + gap * (widths.len() - 1);
        let gap = if total(2) <= columns { 2 } else { 1 };
        let room = columns.saturating_sub(total(1) - widths[0]);
        if total(gap) <= columns {
            self.inline(&widths, gap, columns, colour)
        } else if room >= width(&self.columns[0].title) {
            let fitting = self.cells(0).map(width).filter(|w| *w <= room).max().unwrap_or(0);
            let mut widths = widths;
            widths[0] = fitting.max(width(&self.columns[0].title));
            let spare = columns >= widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
            self.inline(&widths, if spare { 2 } else { 1 }, columns, colour)
        } else {
            self.stacked(&widths, columns, colour)
        }
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().map(move |row| row[column].as_str())
    }

    fn widths(&self) -> Vec<usize> {
        let title = |i: usize| width(&self.columns[i].title);
        (0..self.columns.len()).map(|i| self.cells(i).map(width).max().unwrap_or(0).max(title(i))).collect()
    }

    /// Labels and figures on one line; a label wider than its column goes before, on a line of its own.
    fn inline(&self, widths: &[usize], gap: usize, columns: usize, colour: bool) -> (Vec<String>, Vec<Vec<String>>) {
        let row = |row: &Vec<String>| {
            let mut row = row.clone();
            let mut lines = Vec::new();
            if width(&row[0]) > widths[0] {
                lines = fold(&std::mem::take(&mut row[0]), columns);
            }
            lines.push(self.line(0, &row, widths, gap));
            lines
        };
        (self.heading(0, widths, gap, "", colour), self.rows.iter().map(row).collect())
    }

    /// Labels on one line, figures on the next.
    fn stacked(&self, widths: &[usize], columns: usize, colour: bool) -> (Vec<String>, Vec<Vec<String>>) {
        let titles: Vec<&str> = self.columns[..self.labels].iter().map(|c| c.title.as_str()).collect();
        let mut heads = vec![paint(&titles.join("  "), HEADING, colour)];
        heads.extend(self.heading(self.labels, widths, 1, "  ", colour));
        let row = |row: &Vec<String>| {
            let mut lines = fold(&row[..self.labels].join("  "), columns);
            lines.push(format!("  {}", self.line(self.labels, row, widths, 1)));
            lines
        };
        (heads, self.rows.iter().map(row).collect())
    }

    fn heading(&self, from: usize, widths: &[usize], gap: usize, indent: &str, colour: bool) -> Vec<String> {
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.clone()).collect();
        let groups = self.groups(from, widths, gap);
        let titles = self.line(from, &titles, widths, gap);
        [groups, titles]
            .iter()
            .filter(|line| !line.is_empty())
            .map(|line| paint(&format!("{indent}{line}"), HEADING, colour))
            .collect()
    }

    /// The line above the titles: `------- RTT -------` over each group.
    fn groups(&self, from: usize, widths: &[usize], gap: usize) -> String {
        let mut line = String::new();
        let mut i = from;
        while i < self.columns.len() {
            let group = self.columns[i].group;
            let end = (i + 1..self.columns.len()).find(|j| group.is_empty() || self.columns[*j].group != group);
            let end = end.unwrap_or(self.columns.len());
            let span = widths[i..end].iter().sum::<usize>() + gap * (end - i - 1);
            let fill = if group.is_empty() { String::new() } else { format!(" {group} ") };
            let padded = if group.is_empty() { " ".repeat(span) } else { format!("{fill:-^span$}") };
            line.push_str(&padded);
            line.push_str(&" ".repeat(gap));
            i = end;
        }
        line.trim_end().into()
    }

    fn line(&self, from: usize, row: &[String], widths: &[usize], gap: usize) -> String {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate().skip(from) {
            if i > from {
                line.push_str(&" ".repeat(gap));
            }
            let pad = " ".repeat(widths[i].saturating_sub(width(cell)));
            if self.columns[i].left { line.extend([cell.as_str(), &pad]) } else { line.extend([pad.as_str(), cell]) }
        }
        line.trim_end().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(labels: [&str; 2], payload: &str) -> Grid {
        let columns = vec![
            Column::words("path"),
            Column::figures("payload"),
            Column::figures("min").under("RTT"),
            Column::figures("max").under("RTT"),
        ];
        let row = |label: &str| vec![label.into(), payload.into(), "4.700".into(), "19.60".into()];
        Grid { columns, labels: 2, rows: labels.map(row).into() }
    }

    #[test]
    fn gaps_shrink_before_labels_move() {
        let lines = grid(["udp", "tcp"], "64").lines(29, false);
        assert_eq!(lines[..3], ["               --- RTT ----", "path  payload    min    max", "udp        64  4.700  19.60"]);
        assert_eq!(grid(["udp", "tcp"], "64").lines(24, false)[2], "udp       64 4.700 19.60");
    }

    #[test]
    fn long_labels_get_a_line_of_their_own() {
        let lines = grid(["udp", "udp:busy-poll,usecs=50"], "64").lines(26, false);
        assert_eq!(lines[3..], ["udp:busy-poll,usecs=50", "          64 4.700 19.60"].map(String::from));
        let lines = grid(["udp:spin", "tcp"], "65536/65536").lines(20, false);
        assert_eq!(lines[0], "path  payload");
        assert_eq!(lines[3..5], ["udp:spin  65536/6553", "6"].map(String::from));
        assert!(lines.iter().all(|line| width(line) <= 20), "{lines:?}");
    }
}
