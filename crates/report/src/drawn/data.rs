//! A report for spreadsheets and scripts: names as in the CSV of a run, and of the page's tables.

use hairpin_record::run::Origin;
use hairpin_record::split::PartName;

use super::results;
use crate::budget;
use crate::cell::{Cell, IntoCell};
use crate::doc::{Data, Fields, fields};
use crate::split;
use crate::view::{Breakdown, OneWay, Quantile, Row, Split, View};

/// The value of the column `part` in the lines of a split.
const STAMPED: &str = "host and wire";

/// A line per row, else per part of each explained path, else per offered rate; `None` where the first table is all there is.
pub(super) fn data(view: &View) -> Option<Data> {
    if let Some(first) = view.rows.first() {
        return Some(Data::new(line(first), view.rows.iter().map(line)));
    }
    match (view.comparisons.is_empty(), view.breakdowns.is_empty(), view.loads.is_empty()) {
        (true, false, _) => Some(explained(&view.breakdowns)),
        (true, true, false) => Some(offered(view)),
        _ => None,
    }
}

/// The parts of each budget, then those by stamps.
fn explained(all: &[Breakdown]) -> Data {
    let mut data = Data::default();
    for found in all {
        let Data { names, rows } = budget::table(found).data();
        let more = |cells: [Cell; 4]| {
            let [label, count, p50, p99] = cells;
            fields([("label", label), ("count", count), ("p50_ns", p50), ("p99_ns", p99)])
        };
        let label = || Cell::from(&found.label);
        let none = || more([label(), Cell::Blank, Cell::Blank, Cell::Blank]);
        data.names = names.into_iter().chain(none().into_iter().map(|(name, _)| name)).collect();
        data.rows.extend(rows.into_iter().map(|row| row.into_iter().chain(values(none())).collect()));
        if let Some(split) = &found.split {
            let source = split.said.first().map_or("", String::as_str);
            data.rows.extend(split.parts.iter().map(|part| {
                let typical = part.typical_ns.into_cell(Cell::Ns);
                let more = more([label(), part.count.into(), part.p50_ns.into(), part.p99_ns.into()]);
                // A sum's name would be a formula to a spreadsheet.
                let first =
                    [STAMPED.into(), part.name.trim_start_matches("= ").into(), typical, "measured".into(), source.into()];
                first.into_iter().chain(values(more)).collect()
            }));
        }
    }
    data
}

/// Each rate of each path.
fn offered(view: &View) -> Data {
    let rates = || view.loads.iter().flat_map(|curve| curve.rates.iter().map(move |rate| (curve, rate)));
    let mut data = results::rates(rates().map(|(_, rate)| rate)).data();
    let more = |label: &str, split: Option<&Split>| {
        let mut more = fields([("label", label.into())]);
        more.extend(stamped(split));
        more
    };
    data.names.extend(more("", None).into_iter().map(|(name, _)| name));
    for (row, (curve, rate)) in data.rows.iter_mut().zip(rates()) {
        row.extend(values(more(&curve.label, rate.split.as_ref())));
    }
    data
}

fn values(fields: Fields) -> impl Iterator<Item = Cell> {
    fields.into_iter().map(|(_, cell)| cell)
}

/// The columns of a split, as in the CSV of a run.
fn stamped(split: Option<&Split>) -> Fields {
    let part = |name: PartName| {
        let found = split.and_then(|split| split.parts.iter().find(|part| part.name.trim_start_matches("= ") == name.name()));
        found.map_or([None; 2], |part| [part.p50_ns, part.p99_ns])
    };
    let layers = split.map(|split| [split.stamps_client.as_str(), split.stamps_server.as_str()]);
    let rtt = split.map_or([None; 2], |split| [split.rtt_p50_ns, split.rtt_p99_ns]);
    split::named(rtt, part, layers, split.map(|split| &split.counts))
}

/// The columns of one-way delays, as in the CSV of a run.
fn one_way(found: Option<&OneWay>) -> Fields {
    let of = |way: &str| found.and_then(|found| found.delays.iter().find(|delay| delay.way == way));
    let p50 = |way: &str| of(way).and_then(|delay| delay.p50_ns).into_cell(|ns| Cell::Ns(ns as f64));
    fields([
        ("one_way_request_p50_ns", p50("request")),
        ("one_way_reply_p50_ns", p50("reply")),
        ("one_way_bound_ns", of("request").and_then(|delay| delay.bound_ns).into_cell(Cell::Ns)),
    ])
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
    line.extend(stamped(row.split.as_ref()));
    line.extend(one_way(row.one_way.as_ref()));
    line
}
