//! Causes of slow round trips by time lost, each with advice, and the detectors' findings.

use hairpin_record::explain::Explained;

use crate::cell::Cell;
use crate::doc::{Column, Doc, List, Table};
use crate::prose::{clean, fold, width};

/// Longer names are cut; the record has the full name.
const LONGEST_NAME: usize = 28;

/// The table of causes and the list of findings, unless empty.
pub(super) fn show(doc: &mut Doc, result: &Explained) {
    if !result.causes.is_empty() {
        doc.gap();
        doc.heading("Causes of the slow round trips, by the time that they took beyond the typical p50");
        doc.table(table(result));
    }
    let items = result.findings.iter().map(|finding| format!("{}: {}; {}", finding.detector, finding.seen, finding.advice));
    doc.list(List::warnings("Findings", items.collect()));
}

fn table(result: &Explained) -> Table {
    let all: f64 = result.causes.iter().map(|cause| cause.lost_ns as f64).sum();
    let rows = result.causes.iter().map(|cause| {
        let lost = cause.lost_ns as f64;
        vec![
            cut(&cause.cause).into(),
            cut(&cause.who).into(),
            cause.count.into(),
            Cell::Ns(lost),
            Cell::Share(lost / all.max(1.0)),
            (&cause.advice).into(),
        ]
    });
    let mut columns = ["cause", "who"].map(Column::words).to_vec();
    columns.extend(["count", "lost us", "share"].map(Column::figures));
    columns.push(Column::below("advice", "    "));
    Table { indent: 2, ..Table::new(columns, 1, rows) }
}

/// The name, sanitised and cut to the width of its column.
pub(crate) fn cut(name: &str) -> String {
    let name = clean(name);
    if width(&name) <= LONGEST_NAME {
        return name;
    }
    fold(&name, LONGEST_NAME - 2).swap_remove(0) + ".."
}
