//! The incidents of `ping --explain-above`: a sentence a row, a table of their causes, and the slowest one event by event.

use hairpin_record::incident::Incidents;
use hairpin_record::run::Row;

use crate::cell::Cell;
use crate::doc::{Column, Doc, Table};
use crate::explain::causes::cut;
use crate::explain::timeline;
use crate::figure::time;
use crate::label::{Name, among};
use crate::notes::merged;

/// Causes of a row in the table; its record has all.
const CAUSES: usize = 8;

/// The sentences of both views.
pub(crate) fn sentences(names: &[Name], rows: &[&Row]) -> Doc {
    let mut doc = Doc::default();
    let lines = merged(names, rows, |row| row.incidents.as_deref().map(sentence).into_iter().collect());
    if !lines.is_empty() {
        doc.gap();
    }
    lines.into_iter().for_each(|line| doc.lead("incidents: ", line));
    doc
}

/// The number of incidents, and the fate of their lines.
pub(crate) fn sentence(found: &Incidents) -> String {
    let above = match found.above_ns {
        Some(ns) if found.above.starts_with('p') => format!("{} ({} now)", found.above, time(ns as f64)),
        Some(ns) => time(ns as f64),
        None => return format!("too few round trips for {}: none was judged", found.above),
    };
    let of = |count: u64, words: &str| (count > 0).then(|| format!("{count} {words}"));
    let lines = [
        of(found.written, &format!("in {}", found.file)),
        of(found.over_rate, "left out by --incidents-rate"),
        of(found.over_size, "left out by --incidents-size"),
        of(found.over_block, "left out beyond the slowest of a block"),
        of(found.failed, "that could not be written"),
    ];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    let many = if found.count == 1 { "round trip" } else { "round trips" };
    let lines = if lines.is_empty() { String::new() } else { format!(": {}", lines.join(", ")) };
    let lost = match found.lost_events {
        0 => String::new(),
        lost => format!("; {lost} events found no room: incidents at the end of a block may be not explained for that"),
    };
    format!("{} {many} above {above}{lines}{lost}", found.count)
}

/// As [`sentence`], with the last incident.
pub(crate) fn so_far(found: &Incidents) -> String {
    let last = found.last.as_ref().map(|last| {
        let cause = if last.cause.is_empty() { String::new() } else { format!(", {}", last.cause) };
        format!("; the last at {:.1} s: {}{cause}", last.at_ns as f64 / 1e9, time(last.rtt_ns as f64))
    });
    sentence(found) + &last.unwrap_or_default()
}

/// The main causes of the incidents of each row.
pub(crate) fn causes(rows: &[&Row]) -> Table {
    let of = |row: &Row| row.incidents.as_deref().map(|found| found.causes.clone()).unwrap_or_default();
    let lines = rows.iter().flat_map(|row| of(row).into_iter().take(CAUSES).map(|cause| (*row, cause))).map(|(row, cause)| {
        vec![
            among(row, rows).into(),
            cut(&cause.cause).into(),
            cut(&cause.who).into(),
            cause.count.into(),
            Cell::Ns(cause.lost_ns as f64),
        ]
    });
    let mut columns = ["path", "cause", "who"].map(Column::words).to_vec();
    columns.extend(["incidents", "lost us"].map(Column::figures));
    Table::new(columns, 3, lines)
}

/// The slowest incident of each row event by event.
pub(crate) fn slowest(rows: &[&Row]) -> Doc {
    let mut doc = Doc::default();
    rows.iter().filter_map(|row| row.incidents.as_deref()).for_each(|found| timeline::show(&mut doc, &found.slowest, 1));
    doc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_for_a_missing_line_is_told() {
        let found = Incidents {
            above: "200us".into(),
            above_ns: Some(200_000),
            count: 15,
            written: 1,
            over_rate: 2,
            over_size: 3,
            over_block: 4,
            failed: 5,
            file: "incidents.jsonl".into(),
            ..Incidents::default()
        };
        let reasons = "2 left out by --incidents-rate, 3 left out by --incidents-size, 4 left out beyond the slowest of a block";
        let told = format!("15 round trips above 200 us: 1 in incidents.jsonl, {reasons}, 5 that could not be written");
        assert_eq!(sentence(&found), told);
    }

    #[test]
    fn lost_events_are_told() {
        let none = Incidents { above: "200us".into(), above_ns: Some(200_000), count: 2, ..Incidents::default() };
        assert_eq!(sentence(&none), "2 round trips above 200 us");
        let lost = sentence(&Incidents { lost_events: 52, ..none });
        assert!(lost.starts_with("2 round trips above 200 us; 52 events found no room: "), "{lost}");
    }
}
