//! The listing of `hairpin runs list`: what the run store holds, corrupt runs named.

use hairpin_units::Nanos;

use crate::grid::{Column, Grid};
use crate::label::short;
use crate::prose::{WIDTH, clean, wrap};
use crate::style::{ERROR, paint};

/// One directory of the run store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRow {
    /// A run that can be read.
    Run {
        /// Its id.
        id: String,
        /// When it started, RFC 3339.
        started: String,
        /// Its command line.
        command: Vec<String>,
        /// How many results it has.
        rows: usize,
        /// Path and RTT p50 of its first result, if it has one.
        first: Option<(String, Option<Nanos>)>,
    },
    /// A run that cannot be read.
    Corrupt {
        /// Its id.
        id: String,
        /// Why not.
        reason: String,
    },
}

/// The listing: a line of figures and one of the command for each run, in the order given, then the corrupt ones.
pub fn runs(rows: &[RunRow], columns: usize, colour: bool) -> String {
    let mut cells = Vec::new();
    let mut commands = Vec::new();
    let mut corrupt = Vec::new();
    for row in rows {
        match row {
            RunRow::Run { id, started, command, rows, first } => {
                let (path, p50) = match first {
                    Some((path, p50)) => (short(path), p50.map(|ns| ns.to_string()).unwrap_or_default()),
                    None => Default::default(),
                };
                cells.push(vec![clean(id), clean(started), rows.to_string(), p50, path]);
                commands.push(command.join(" "));
            }
            RunRow::Corrupt { id, reason } => corrupt.push(format!("{id} is skipped: {reason}")),
        }
    }
    let mut lines = Vec::new();
    if cells.is_empty() {
        lines.push("no runs stored".into());
    } else {
        let columns_of = vec![
            Column::words("id"),
            Column::words("started"),
            Column::figures("rows"),
            Column::figures("RTT p50"),
            Column::words("of the first row"),
        ];
        let grid = Grid { columns: columns_of, labels: 2, rows: cells };
        let (heads, blocks) = grid.blocks(columns.max(WIDTH), colour);
        lines.extend(heads);
        for (block, command) in blocks.into_iter().zip(&commands) {
            lines.extend(block);
            lines.extend(wrap("    ", command, WIDTH));
        }
    }
    for text in corrupt {
        let mut text = wrap("", &text, WIDTH);
        if let Some(first) = text.first_mut() {
            *first = paint(first, ERROR, colour);
        }
        lines.append(&mut text);
    }
    lines.join("\n") + "\n"
}
