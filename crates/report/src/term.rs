//! A document for a terminal: aligned tables, wrapped prose, optional colour.

use crate::command;
use crate::doc::{Block, Doc, List, Text};
use crate::grid::{self, Lines};
use crate::options::Options;
use crate::prose::{WIDTH, clean, fold, width, wrap};

/// The document in 80 columns, or in [`Options::width`] if that is more. Only a table whose figures do not fit gets wider.
pub(crate) fn term(doc: &Doc, options: &Options) -> String {
    doc.blocks.iter().flat_map(|block| lines(block, options)).map(|line| format!("{}\n", line.trim_end())).collect()
}

fn lines(block: &Block, options: &Options) -> Vec<String> {
    match block {
        Block::Gap => vec![String::new()],
        Block::Text(text) => paragraph(text, options.colour),
        Block::Table(table) if table.rows.is_empty() => vec![table.empty.to_owned()],
        Block::Table(table) => {
            let all = |colour| {
                let Lines { mut heads, rows } = grid::lines(table, options.columns(), colour);
                heads.extend(rows.into_iter().flatten());
                heads
            };
            // Escape sequences take no columns, so only lines without colour can be folded.
            let plain = if table.folds { all(false) } else { Vec::new() };
            if plain.iter().all(|line| width(line) <= options.columns()) {
                return all(options.colour);
            }
            plain.iter().flat_map(|line| fold(line, options.columns())).map(|line| line.trim_end().to_owned()).collect()
        }
        Block::Chart(picture) => picture.lines(options.columns(), options.colour),
        Block::Detail(_) if !options.verbose => Vec::new(),
        Block::Screen(part) | Block::Detail(part) => part.iter().flat_map(|block| lines(block, options)).collect(),
        Block::Command(command) => command::lines("       ", &clean(command), options.columns()),
        Block::List(items) => list(items, options.colour),
        Block::Verbatim(lines) => lines.iter().map(|line| clean(line).trim_end().to_owned()).collect(),
    }
}

fn paragraph(text: &Text, colour: bool) -> Vec<String> {
    let mut lines = wrap(&text.lead, &text.text, WIDTH);
    if let (Some((word, tone)), Some(first)) = (&text.word, lines.first_mut()) {
        *first = first.replacen(word, &tone.paint(word, colour), 1);
    }
    lines.iter().map(|line| text.tone.paint(line, colour)).collect()
}

/// A list under its heading, after a blank line.
fn list(list: &List, colour: bool) -> Vec<String> {
    let mut lines = vec![String::new()];
    lines.extend(wrap("", &list.heading, WIDTH).iter().map(|line| list.tone.paint(line, colour)));
    for (i, item) in list.items.iter().enumerate() {
        let mark = if list.numbered { format!("{:>3}. ", i + 1) } else { "  - ".into() };
        lines.extend(wrap(&mark, item, WIDTH));
    }
    lines
}
