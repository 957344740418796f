//! The listing of `hairpin paths`: every way to do a round trip, and what this host supports.

use crate::prose::{WIDTH, clean, width, wrap};
use crate::style::{ERROR, HEADING, WARNING, paint};

/// Whether this host can do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes,
    /// It can, but something is missing.
    Degraded(String),
    /// It cannot.
    No(String),
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRow {
    /// The path's name.
    pub path: String,
    /// What both ends must have in common: tcp, udp, raw or local.
    pub speaks: String,
    /// The wait policies it knows.
    pub policies: Vec<String>,
    /// The options it knows.
    pub options: Vec<String>,
    /// What this host supports.
    pub support: Support,
    /// A sentence about it.
    pub summary: String,
}

/// The listing, at most 80 columns wide whatever `columns` says beyond that.
pub fn paths(rows: &[PathRow], columns: usize, colour: bool) -> String {
    let columns = columns.clamp(40, WIDTH);
    let widest = |title: &str, cell: fn(&PathRow) -> &str| {
        rows.iter().map(|row| width(cell(row))).chain([width(title)]).max().unwrap_or(0)
    };
    let (path, speaks) = (widest("path", |row| &row.path), widest("speaks", |row| &row.speaks));
    let head = format!("{:path$}  {:speaks$}  {:8}  what it is", "path", "speaks", "here");
    let mut lines = vec![paint(&head, HEADING, colour)];
    for row in rows {
        let (word, why, style) = match &row.support {
            Support::Yes => ("yes", None, None),
            Support::Degraded(why) => ("degraded", Some(why), Some(WARNING)),
            Support::No(why) => ("no", Some(why), Some(ERROR)),
        };
        let first = format!("{:path$}  {:speaks$}  {word:8}  ", clean(&row.path), clean(&row.speaks));
        let mut about = wrap(&first, &row.summary, columns);
        if let Some(style) = style.filter(|_| colour) {
            about[0] = about[0].replacen(word, &paint(word, style, true), 1);
        }
        lines.append(&mut about);
        let indent = " ".repeat(path + 2);
        for (name, text) in
            [("why", why.cloned().unwrap_or_default()), ("policies", row.policies.join(" ")), ("options", row.options.join(" "))]
        {
            if !text.is_empty() {
                lines.extend(wrap(&format!("{indent}{name}: "), &text, columns));
            }
        }
    }
    lines.join("\n") + "\n"
}
