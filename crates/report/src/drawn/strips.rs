//! All rows of a report on one scale, and the names of rows in its tables.

use hairpin_record::run::Origin;

use super::words;
use crate::cell::Cell;
use crate::chart::axis::Axis;
use crate::chart::strip::Strip;
use crate::doc::{Column, Doc, Shown, Table};
use crate::prose::{fold, width};
use crate::view::{Row, View};

/// The widest name in a terminal table; the view has the full name.
pub(super) const LONGEST_LABEL: usize = 30;

/// Cuts a name to the width of its column.
pub(super) fn cut(name: &str, columns: usize) -> String {
    if width(name) <= columns { name.into() } else { fold(name, columns - 2).swap_remove(0) + ".." }
}

/// A row's number and name, numbers right-aligned.
pub(super) fn numbered(view: &View, row: &Row) -> String {
    let digits = view.rows.iter().map(|row| row.number).max().unwrap_or(0).to_string().len();
    format!("{:>digits$} {}{}", row.number, words::row(row), words::mark(row))
}

/// The first rows on one scale: minimum, median, 99th and 99.9th percentile.
pub(super) fn strips(doc: &mut Doc, view: &View, most: usize) {
    let times = |row: &Row| [row.rtt.min, row.rtt.p50.ns, row.rtt.p99.ns, row.rtt.p999.ns].map(|ns| ns.map(|ns| ns as f64));
    let floor = |row: &Row| row.floor_ns.map(|[low, _]| low);
    // Without a median the dots reach the maximum.
    let end = |row: &Row| row.rtt.max.filter(|_| row.rtt.p50.ns.is_none()).map(|ns| ns as f64);
    let all: Vec<f64> = view.rows.iter().flat_map(|row| times(row).into_iter().chain([floor(row), end(row)])).flatten().collect();
    doc.gap();
    doc.heading("RTT by path");
    if all.is_empty() {
        return;
    }
    let axis = Axis::times(all.into_iter());
    let strip = |row: &Row| {
        let at = |ns: Option<f64>| ns.map(|ns| axis.at(ns));
        Strip::spread(times(row).map(at), at(row.rtt.max.map(|ns| ns as f64)), at(floor(row)), dot(row.origin))
    };
    let cells = |row: &Row| {
        let label = cut(&numbered(view, row), LONGEST_LABEL);
        vec![Cell::Text(label), Cell::Strip(strip(row), 0), words::time(row.rtt.p50.ns).into()]
    };
    let columns = vec![Column::words(""), Column::scale(axis), Column::words("p50 us")];
    let mut part = Doc::default();
    part.text(legend_of_strips(view));
    part.gap();
    part.table(Table::folded(columns, 1, view.rows.iter().take(most).map(cells)));
    part.gap();
    doc.part(Shown::Screen, part);
}

/// The mark of a median.
pub(crate) fn dot(origin: Origin) -> char {
    match origin {
        Origin::Measured => '●',
        Origin::Emulated => '○',
        Origin::Published => '◇',
    }
}

fn legend_of_strips(view: &View) -> String {
    let has = |what: fn(&Row) -> bool| view.rows.iter().any(what);
    let mut parts = vec!["us, log scale; ● p50".to_owned()];
    parts.extend(has(|row| row.origin == Origin::Emulated).then(|| "○ p50 emulated".into()));
    parts.extend(has(|row| row.origin == Origin::Published).then(|| "◇ p50 published".into()));
    parts.push("·· from the least, ━┫ to p99, ─┤ to p99.9".into());
    parts.extend(has(|row| row.floor_ns.is_some()).then(|| "F floor (derived)".into()));
    parts.join(", ")
}
