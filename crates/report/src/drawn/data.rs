//! The rows of a report for spreadsheets and scripts: names as in the CSV of a run, and of the page's tables.

use hairpin_record::run::Origin;

use crate::cell::Cell;
use crate::doc::{Data, Fields};
use crate::view::{Quantile, Row, View};

/// A line per row; `None` without rows.
pub(super) fn data(view: &View) -> Option<Data> {
    let first = line(view.rows.first()?);
    Some(Data::new(first, view.rows.iter().map(line)))
}

fn line(row: &Row) -> Fields {
    let origin = match row.origin {
        Origin::Measured => "measured",
        Origin::Emulated => "emulated",
        Origin::Published => "published",
    };
    let mut line: Vec<(String, Cell)> = Vec::new();
    let mut add = |name: &str, cell: Cell| line.push((name.to_owned(), cell));
    add("record", (row.record as u64).into());
    add("row", (row.number as u64).into());
    add("label", (&row.label).into());
    add("path", (&row.path).into());
    add("origin", origin.into());
    add("request_bytes", row.request_bytes.into());
    add("reply_bytes", row.reply_bytes.into());
    add("flows", row.flows.into());
    add("outstanding", row.outstanding.into());
    add("pace_per_s", row.pace_per_s.into());
    add("count", row.count.into());
    add("lost", row.lost.into());
    add("transactions_per_s", row.transactions_per_s.into());
    add("rtt_min_ns", row.rtt.min.into());
    add("rtt_mean_ns", row.rtt.mean.into());
    for (name, Quantile { ns, low_ns, high_ns }) in
        [("p50", row.rtt.p50), ("p90", row.rtt.p90), ("p99", row.rtt.p99), ("p99.9", row.rtt.p999)]
    {
        add(&format!("rtt_{name}_ns"), ns.into());
        add(&format!("rtt_{name}_low_ns"), low_ns.into());
        add(&format!("rtt_{name}_high_ns"), high_ns.into());
    }
    add("rtt_max_ns", row.rtt.max.into());
    add("floor_low_ns", row.floor_ns.map(|[low, _]| low).into());
    add("floor_high_ns", row.floor_ns.map(|[_, high]| high).into());
    add("turnaround_p50_ns", row.turnaround.and_then(|times| times.p50.ns).into());
    add("cpu_client_per_transaction_ns", row.cpu_client_ns.into());
    add("cpu_server_per_transaction_ns", row.cpu_server_ns.into());
    let codes: Vec<&str> = row.warnings.iter().map(|warning| warning.code.as_str()).collect();
    add("warnings", codes.join(" ").into());
    add("apart", row.apart.as_ref().into());
    line
}
