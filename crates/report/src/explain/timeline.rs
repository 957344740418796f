//! The slowest round trips event by event.

use hairpin_record::explain::{Event, Timeline};
use hairpin_units::Nanos;

use crate::cell::{Cell, IntoCell};
use crate::doc::{Column, Doc, Table};
use crate::figure::us_signed;
use crate::prose::{clean, width};

/// A longer event name goes into the detail column.
const NAME: usize = 18;

/// At most `timelines` of these timelines of a path.
pub(crate) fn show(doc: &mut Doc, slowest: &[Timeline], timelines: usize) {
    for (at, timeline) in slowest.iter().take(timelines).enumerate() {
        let cause = if timeline.cause.is_empty() { String::new() } else { format!(": {}", timeline.cause) };
        doc.gap();
        doc.heading(format!(
            "Slowest {}: RTT {}, sequence {}, {} after the first traced block began{cause}",
            at + 1,
            Nanos(timeline.rtt_ns),
            timeline.sequence,
            Nanos(timeline.at_ns)
        ));
        doc.table(table(timeline));
    }
}

fn table(timeline: &Timeline) -> Table {
    let mut columns = ["at us", "later us"].map(Column::figures).to_vec();
    columns.extend([Column::words("side"), Column::figures("CPU"), Column::words("event"), Column::prose("detail")]);
    let mut before = None;
    let row = |event: &Event| {
        let later = before.replace(event.at_ns).map(|before: i64| event.at_ns as f64 - before as f64);
        let (name, detail) = (clean(&event.name), clean(&event.detail));
        let long = width(&name) > NAME;
        vec![
            fixed(event.at_ns as f64).into(),
            later.into_cell(|ns| format!("+{}", fixed(ns)).into()),
            event.side.map(|side| side.to_string()).into(),
            event.cpu.into(),
            if long { Cell::Blank } else { (&name).into() },
            if long { format!("{name}  {detail}").trim_end().into() } else { detail.into() },
        ]
    };
    Table::new(columns, 1, timeline.events.iter().map(row))
}

/// To the nanosecond, so that figures in a column can be compared; beyond a day as a power of ten.
fn fixed(ns: f64) -> String {
    if ns.abs() < 1e8 { format!("{:.3}", ns / 1e3) } else { us_signed(ns) }
}
