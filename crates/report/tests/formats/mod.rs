//! Properties of every record in every format.

use std::collections::BTreeSet;

use hairpin_report::{Options, Show, csv, markdown, term};

/// The record as Markdown and as CSV, after a look at all formats.
pub fn formats(record: &(impl Show + ?Sized)) -> String {
    let options = Options::default();
    for line in term(record, &options).lines() {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= 80, "{line}");
        assert!(!line.chars().any(char::is_control) && line == line.trim_end(), "{line:?}");
    }
    let page = markdown(record, &options);
    assert!(!page.is_empty() && !page.contains("\n\n\n") && page.ends_with('\n'), "{page}");
    let mut columns = None;
    for line in page.lines() {
        assert!(!line.chars().any(char::is_control), "{line:?}");
        let cells = line.starts_with("| ").then(|| line.replace("\\|", "").matches('|').count());
        assert!(cells.is_none() || columns.is_none() || cells == columns, "{line}");
        columns = cells;
    }
    let text = csv(record, &options);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    let rows = fields(&text);
    let names: BTreeSet<&String> = rows[0].iter().collect();
    assert_eq!(names.len(), rows[0].len(), "two columns with one name: {:?}", rows[0]);
    let sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    for name in &rows[0] {
        assert!(!name.is_empty() && name.chars().all(sound), "{name:?} is no name for scripts");
    }
    for row in &rows {
        assert_eq!(row.len(), rows[0].len(), "{row:?}");
    }
    format!("{page}-----\n{text}")
}

/// The fields of each line (RFC 4180).
fn fields(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(!quoted && row.is_empty() && field.is_empty(), "the text ends within a line");
    rows
}
