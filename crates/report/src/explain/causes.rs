//! What made round trips slow, by time lost, each with what to do; and what the detectors found.

use hairpin_record::explain::Explained;

use crate::Options;
use crate::figure::{percent, us_signed};
use crate::grid::{Column, Grid};
use crate::notes::{Kind, Section};
use crate::prose::{WIDTH, clean, fold, width, wrap};
use crate::style::{HEADING, paint};

/// A name longer than this is cut; the record has it whole.
const LONGEST_NAME: usize = 28;

/// The table of causes and the list of findings, where there are any.
pub(super) fn lines(result: &Explained, options: &Options) -> Vec<String> {
    let mut text = table(result, options);
    let items: Vec<String> =
        result.findings.iter().map(|finding| format!("{}: {}; {}", finding.detector, finding.seen, finding.advice)).collect();
    if !items.is_empty() {
        text.extend(crate::notes::lines(&[Section { heading: "Findings", kind: Kind::Warning, items }], options.colour));
    }
    text
}

fn table(result: &Explained, options: &Options) -> Vec<String> {
    if result.causes.is_empty() {
        return Vec::new();
    }
    let all: f64 = result.causes.iter().map(|cause| cause.lost_ns as f64).sum();
    let rows = result.causes.iter().map(|cause| {
        let lost = cause.lost_ns as f64;
        vec![
            format!("  {}", cut(&cause.cause)),
            cut(&cause.who),
            cause.count.to_string(),
            us_signed(lost),
            format!("{} %", percent(lost / all.max(1.0))),
        ]
    });
    let titles = ["count", "lost us", "share"].map(Column::figures);
    let columns = [Column::words("  cause"), Column::words("who")].into_iter().chain(titles).collect();
    let (head, rows) = Grid { columns, labels: 1, rows: rows.collect() }.blocks(options.columns(), options.colour);
    let title = "Causes of the slow round trips, by the time that they took beyond the typical p50";
    let mut text = vec![String::new()];
    text.extend(wrap("", title, WIDTH).iter().map(|line| paint(line, HEADING, options.colour)));
    text.extend(head);
    for (cause, row) in result.causes.iter().zip(rows) {
        text.extend(row);
        if !cause.advice.is_empty() {
            text.extend(wrap("      ", &cause.advice, WIDTH));
        }
    }
    text
}

/// Clean and not too long for its column.
fn cut(name: &str) -> String {
    let name = clean(name);
    if width(&name) <= LONGEST_NAME {
        return name;
    }
    fold(&name, LONGEST_NAME - 2).swap_remove(0) + ".."
}
