//! Short, unique names of rows.

use hairpin_units::Gather;
use std::collections::{BTreeMap, BTreeSet};

use hairpin_record::run::{Link, Row, Run};

use super::runs;
use crate::figure::payload;
use crate::label;
use crate::prose::clean;
use crate::view::Input;

/// The properties that differ between the rows and so belong in their names, and the resulting names.
pub(super) struct Labels {
    sizes: bool,
    links: bool,
    /// The names of all rows of all runs, in their order.
    rows: Vec<String>,
}

impl Labels {
    /// Names all rows.
    pub(super) fn of(given: &[Input]) -> Labels {
        let all: Vec<(usize, &Run, &Row)> =
            runs(given).flat_map(|(number, run)| run.results.iter().map(move |row| (number, run, row))).collect();
        let differ = |of: &dyn Fn(&Run, &Row) -> String| {
            let first = all.first().map(|(_, run, row)| of(run, row));
            all.iter().any(|(_, run, row)| Some(of(run, row)) != first)
        };
        let sizes = differ(&|_, row| payload(row));
        let mut labels = Labels { sizes, links: differ(&|run, _| over(&run.place.link)), rows: Vec::new() };
        labels.rows = all.iter().map(|(_, run, row)| labels.name(run, row, labels.sizes)).collect();
        labels.tell_apart(&all.iter().map(|(number, ..)| *number).collect::<Vec<_>>());
        labels
    }

    pub(super) fn row(&self, at: usize) -> String {
        self.rows.get(at).cloned().unwrap_or_default()
    }

    fn name(&self, run: &Run, row: &Row, size: bool) -> String {
        let mut parts = vec![work(run, row, self.links)];
        parts.extend(size.then(|| format!("{} B", payload(row))));
        parts.join(", ")
    }

    /// Rows with equal names get their record's number, or the row's number if they share a record.
    fn tell_apart(&mut self, records: &[usize]) {
        let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, name) in self.rows.iter().enumerate() {
            alike.entry(name.clone()).or_default().push(at);
        }
        for rows in alike.values().filter(|rows| rows.len() > 1) {
            let of: BTreeSet<usize> = rows.iter().map(|at| records[*at]).gather();
            for at in rows {
                let word = if of.len() == rows.len() { format!("record {}", records[*at]) } else { format!("row {}", at + 1) };
                self.rows[*at] = format!("{}, {word}", self.rows[*at]);
            }
        }
    }
}

/// Path, pace, origin, link, flows and requests in flight, without size.
pub(super) fn work(run: &Run, row: &Row, link: bool) -> String {
    let mut parts = vec![label::whole(row)];
    if link {
        parts[0] = format!("{} over {}", parts[0], over(&run.place.link));
    }
    for (count, what) in [(row.threads, "threads"), (row.flows, "flows"), (row.outstanding, "in flight per flow")] {
        parts.extend((count > 1).then(|| format!("{count} {what}")));
    }
    parts.join(", ")
}

/// The kind of a link, and its peer.
pub(super) fn over(link: &Link) -> String {
    let peer = link.peer.as_deref().filter(|_| link.kind != "loopback");
    clean(&peer.map_or_else(|| link.kind.clone(), |peer| format!("{} {peer}", link.kind)))
}
