//! A document as CSV for spreadsheets and scripts (RFC 4180, lines end in LF): a header line with units, then a line per row.

use crate::doc::{Block, Data, Doc, Shown};
use crate::options::Options;

/// The record's own fields for scripts, or the document's first table if the record has none.
pub(crate) fn csv(doc: &Doc, options: &Options) -> String {
    doc.data.clone().or_else(|| first_table(&doc.blocks)).map_or(String::new(), |data| text(&data, !options.continues))
}

fn first_table(blocks: &[Block]) -> Option<Data> {
    blocks.iter().find_map(|block| match block {
        Block::Table(table) => Some(table.data()),
        Block::Part(Shown::Full, part) => first_table(part),
        _ => None,
    })
}

fn text(data: &Data, names: bool) -> String {
    let rows = data.rows.iter().map(|row| row.iter().map(crate::cell::Cell::raw).collect());
    names.then(|| data.names.clone()).into_iter().chain(rows).map(|line: Vec<String>| self::line(&line) + "\n").collect()
}

fn line(values: &[String]) -> String {
    values.iter().map(|value| quote(value)).collect::<Vec<_>>().join(",")
}

fn quote(value: &str) -> String {
    if value.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.into() }
}
