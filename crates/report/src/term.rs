//! A document for a terminal: aligned tables, wrapped prose, optional colour.

use crate::chart::whole;
use crate::command;
use crate::doc::{Block, Doc, List, Shown, Text};
use crate::grid::{self, Lines};
use crate::options::Options;
use crate::prose::{clean, fold, width, wrap};

/// The last line of a document that has more.
const MORE: &str = "(-v: all figures and how they were found)";

/// Lines of a short view. With the command as typed, notes such as where the record is kept, and the prompt, it fits a terminal
/// of 24.
pub(crate) const LINES: usize = 20;

/// The document in [`Options::width`] columns. Only a table whose figures do not fit gets wider.
pub(crate) fn term(doc: &Doc, options: &Options) -> String {
    // A short view of its own says itself where the rest is.
    let has = |shown| doc.blocks.iter().any(|block| matches!(block, Block::Part(of, _) if *of == shown));
    let hides = options.brief && has(Shown::Full) && !has(Shown::Brief);
    let all = doc.blocks.iter().flat_map(|block| lines(block, options)).chain(hides.then(|| MORE.to_owned()));
    all.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The first of the documents that fits a short view with `others` lines beside it, else the last.
pub(crate) fn fitting(all: impl IntoIterator<Item = Doc>, others: usize, options: &Options) -> Doc {
    let mut last = Doc::default();
    for doc in all {
        last = doc;
        if height(&last, options) + others <= LINES {
            break;
        }
    }
    last
}

/// The lines that a terminal's short view of the document takes.
pub(crate) fn height(doc: &Doc, options: &Options) -> usize {
    let brief = Options { brief: true, colour: false, ..options.clone() };
    doc.blocks.iter().map(|block| lines(block, &brief).len()).sum()
}

fn lines(block: &Block, options: &Options) -> Vec<String> {
    match block {
        Block::Gap => vec![String::new()],
        Block::Text(text) => paragraph(text, options),
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
        Block::Whole(pieces) => vec![whole::line(pieces, options.columns())],
        Block::Part(shown, part) if shown.on_terminal(options.brief) => {
            part.iter().flat_map(|block| lines(block, options)).collect()
        }
        Block::Part(..) => Vec::new(),
        Block::Command(command) => command::lines("       ", &clean(command), options.columns()),
        Block::List(items) => list(items, options),
        Block::Verbatim(lines) => lines.iter().map(|line| clean(line).trim_end().to_owned()).collect(),
    }
}

fn paragraph(text: &Text, options: &Options) -> Vec<String> {
    let colour = options.colour;
    let mut lines = wrap(&text.lead, &text.text, options.columns());
    if let (Some((word, tone)), Some(first)) = (&text.word, lines.first_mut()) {
        *first = first.replacen(word, &tone.paint(word, colour), 1);
    }
    lines.iter().map(|line| text.tone.paint(line, colour)).collect()
}

/// A list under its heading, or its short form, after a blank line.
fn list(list: &List, options: &Options) -> Vec<String> {
    let mut lines = vec![String::new()];
    if options.brief && !list.short.is_empty() {
        lines.extend(list.short.iter().flat_map(|text| paragraph(text, options)));
        return lines;
    }
    lines.extend(wrap("", &list.heading, options.columns()).iter().map(|line| list.tone.paint(line, options.colour)));
    for (i, item) in list.items.iter().enumerate() {
        let mark = if list.numbered { format!("{:>3}. ", i + 1) } else { "  - ".into() };
        lines.extend(wrap(&mark, item, options.columns()));
    }
    lines
}
