//! Sections of a report for records without rows: loads, meshes, stalls of cores, frame rates, checks, applications and PCI
//! devices.

use std::cmp::Reverse;

use hairpin_units::Arrange;

use super::words;
use crate::attached::table::{FIGURES, stages};
use crate::cell::{Cell, IntoCell};
use crate::chart::offered::{ROWS, picture};
use crate::chart::picture::Picture;
use crate::doc::{Column, Doc, Table};
use crate::explain::brief::cut;
use crate::figure::ratio;
use crate::mesh::SLOWEST;
use crate::view::{
    ApplicationStage, Checked, CoreStalls, DeviceReads, DriverStep, Frames, HostNoise, LoadCurve, LoadRate, MeshMap, MeshPair,
    Summary, View,
};

/// The widest name of a stage, a device or a step.
const LONGEST_NAME: usize = 30;

/// True if there is a section below.
pub(super) fn any(view: &View) -> bool {
    let View { loads, meshes, noises, frames, checks, applications, reads, steps, .. } = view;
    let none = loads.is_empty() && meshes.is_empty() && noises.is_empty() && frames.is_empty() && checks.is_empty();
    !(none && applications.is_empty() && reads.is_empty() && steps.is_empty())
}

pub(super) fn show(doc: &mut Doc, view: &View) {
    view.loads.iter().for_each(|curve| load(doc, curve));
    view.meshes.iter().for_each(|map| mesh(doc, map));
    view.noises.iter().for_each(|host| noise(doc, host));
    applications(doc, view);
    frames(doc, &view.frames);
    checks(doc, &view.checks);
    reads(doc, &view.reads);
    steps(doc, &view.steps);
}

/// The knee, the picture of p99 by rate, and a line for each rate.
fn load(doc: &mut Doc, curve: &LoadCurve) {
    doc.gap();
    doc.heading(format!("Latency under load: {} (RTT in us, rates in 1/s)", words::named(&curve.label, curve.origin)));
    doc.text(&curve.knee);
    offered(curve).into_iter().for_each(|picture| doc.chart(picture));
    doc.gap();
    doc.table(rates(&curve.rates));
}

/// A line for each rate.
pub(super) fn rates<'r>(all: impl IntoIterator<Item = &'r LoadRate>) -> Table {
    let mut columns = vec![Column::figures("offered").in_unit("1/s"), Column::figures("achieved").in_unit("1/s")];
    columns.extend([Column::page("due"), Column::figures("lost")]);
    for group in ["RTT from due", "RTT from sent"] {
        columns.extend(["p50", "p99", "p99.9"].map(|title| Column::us(title).under(group)));
    }
    columns.push(Column::page("repeat"));
    let cells = |row: &LoadRate| {
        let mut cells = vec![Cell::Rate(row.offered_per_s), Cell::Rate(row.achieved_per_s), row.due.into(), row.lost.into()];
        cells.extend([&row.from_due, &row.from_sent].into_iter().flat_map(tail));
        cells.push(row.repeat.into());
        cells
    };
    Table::folded(columns, 1, all.into_iter().map(cells))
}

/// p99 by rate; `None` for fewer than two rates.
pub(super) fn offered(curve: &LoadCurve) -> Option<Picture> {
    let p99 = |row: &LoadRate| [row.from_due.p99.ns, row.from_sent.p99.ns];
    picture(curve.rates.iter().map(|row| (row.offered_per_s, p99(row), row.apart)), ROWS)
}

fn tail(times: &Summary) -> [Cell; 3] {
    [times.p50.ns, times.p99.ns, times.p999.ns].map(Cell::ns)
}

/// Who is slow, and the slowest pairs.
fn mesh(doc: &mut Doc, map: &MeshMap) {
    doc.gap();
    doc.heading(format!("The pairs of {} hosts, RTT p50 in us: {}", map.of, map.label));
    map.said.iter().for_each(|sentence| doc.text(sentence));
    doc.gap();
    let mut pairs: Vec<&MeshPair> = map.pairs.iter().filter(|pair| pair.p50_ns.is_some()).collect();
    pairs.arrange_by_key(|pair| (Reverse(pair.p50_ns), pair.a, pair.b));
    let columns = vec![Column::words("slowest pairs"), Column::us("RTT p50"), Column::figures("of the median")];
    let host = |rank: u32| map.hosts.iter().find(|host| host.rank == rank).map_or("", |host| &host.host);
    let cells = |pair: &MeshPair| {
        let of_median =
            pair.p50_ns.zip(map.typical_ns).map(|(ns, typical)| format!("x{}", ratio(ns as f64 / typical.max(1) as f64)));
        vec![format!("{}-{} {} - {}", pair.a, pair.b, host(pair.a), host(pair.b)).into(), Cell::ns(pair.p50_ns), of_median.into()]
    };
    doc.table(Table { empty: "(no pair was measured)", ..Table::folded(columns, 1, pairs.into_iter().take(SLOWEST).map(cells)) });
}

/// The cores to take, the stalls of each core with its first cause, and the pairs.
fn noise(doc: &mut Doc, host: &HostNoise) {
    doc.gap();
    doc.heading("The host's own noise");
    host.said.iter().for_each(|sentence| doc.text(sentence));
    if !host.no_causes.is_empty() {
        doc.lead("causes      ", format!("unknown ({})", host.no_causes));
    }
    doc.gap();
    let mut columns = vec![Column::words("CPU"), Column::figures("lost %")];
    columns.extend(["1 us", "10 us", "100 us"].map(|title| Column::figures(title).under("stalls above")));
    columns.extend([Column::us("longest"), Column::prose("first cause")]);
    let cells = |core: &CoreStalls| {
        let first = core.causes.first().map(|first| first.cause.as_str());
        let counts = [core.above_1us, core.above_10us, core.above_100us].map(Cell::from);
        let mut cells = vec![core.cpu.into(), Cell::Fixed(100.0 * core.lost_share, 3)];
        cells.extend(counts);
        cells.extend([Cell::ns(core.max_ns), first.into()]);
        cells
    };
    doc.table(Table::folded(columns, 1, host.cores.iter().map(cells)));
    if host.map.pairs.is_empty() {
        return;
    }
    doc.gap();
    let columns = vec![Column::words("CPUs"), Column::figures("a cache line there and back, ns")];
    let cells = |pair: &MeshPair| vec![format!("{}, {}", pair.a, pair.b).into(), pair.p50_ns.into()];
    let mut pairs: Vec<&MeshPair> = host.map.pairs.iter().collect();
    pairs.arrange_by_key(|pair| (pair.p50_ns.is_none(), pair.p50_ns, pair.a, pair.b));
    doc.table(Table::folded(columns, 1, pairs.into_iter().take(SLOWEST).map(cells)));
}

fn applications(doc: &mut Doc, view: &View) {
    for application in &view.applications {
        doc.gap();
        doc.heading(format!("Where an application's time goes: {} transactions", application.sum.count));
        doc.text(format!("{} {FIGURES}", application.said));
        doc.gap();
        let name = |of: &ApplicationStage| cut(&of.name, LONGEST_NAME);
        let line = |of: &ApplicationStage| (name(of), of.side.clone(), of.count, [of.p50_ns, of.p99_ns], of.share);
        let sum = &application.sum;
        let table = stages(application.stages.iter().map(line), (sum.count, [sum.p50_ns, sum.p99_ns]));
        doc.table(Table { folds: true, ..table });
    }
}

fn frames(doc: &mut Doc, all: &[Frames]) {
    if all.is_empty() {
        return;
    }
    doc.gap();
    doc.heading("Frames per second");
    let titles = ["without loss", "loses at", "offered", "delivered"].map(Column::figures);
    let mut columns = vec![Column::words("io"), Column::words("direction"), Column::figures("frame B")];
    columns.extend(titles.into_iter().map(|column| column.under("frames per second").in_unit("1/s")));
    columns.push(Column::figures("lost"));
    let cells = |of: &Frames| {
        let mut cells = vec![cut(&of.label, LONGEST_NAME).into(), (&of.direction).into(), of.frame_bytes.into()];
        let rates = [of.lossless_per_s, of.loses_per_s, of.offered_per_s, of.delivered_per_s];
        cells.extend(rates.map(|per_s| per_s.into_cell(Cell::Rate)));
        cells.push(of.lost.into());
        cells
    };
    doc.table(Table::folded(columns, 1, all.iter().map(cells)));
}

fn checks(doc: &mut Doc, all: &[Checked]) {
    if all.is_empty() {
        return;
    }
    doc.gap();
    doc.heading("The instrument: its error for each known time");
    let mut columns = vec![Column::words("known time")];
    columns.extend(["asked ns", "known ns", "reported ns", "error ns", "bound ns"].map(Column::figures));
    columns.push(Column::words("verdict"));
    let cells = |check: &Checked| {
        let mut cells = vec![(&check.what).into(), check.asked_ns.into()];
        cells.extend([check.known_ns, check.reported_ns].map(|ns| Cell::Fixed(ns, 1)));
        cells.extend([format!("{:+.1}", check.error_ns).into(), check.bound_ns.into()]);
        cells.push(if check.passed { "passed" } else { "failed" }.into());
        cells
    };
    doc.table(Table::folded(columns, 1, all.iter().map(cells)));
}

fn reads(doc: &mut Doc, all: &[DeviceReads]) {
    if all.is_empty() {
        return;
    }
    doc.gap();
    doc.heading("4-byte reads of a device over PCIe");
    let mut columns = vec![Column::words("device"), Column::figures("reads")];
    columns.extend(["mean", "min", "p50", "p99", "p99.9", "max"].map(|title| Column::figures(title).under("ns")));
    let cells = |of: &DeviceReads| {
        let Summary { min, mean, p50, p99, p999, max, .. } = of.times;
        let mut cells = vec![cut(&of.label, LONGEST_NAME).into(), of.count.into(), mean.into_cell(|ns| Cell::Fixed(ns, 1))];
        cells.extend([min, p50.ns, p99.ns, p999.ns, max].map(Cell::from));
        cells
    };
    doc.table(Table::folded(columns, 1, all.iter().map(cells)));
}

fn steps(doc: &mut Doc, all: &[DriverStep]) {
    if all.is_empty() {
        return;
    }
    doc.gap();
    doc.heading("The steps of a NIC driver over ordinary memory: p50, nothing crosses PCIe");
    let mut columns = vec![Column::words("step"), Column::words("way")];
    columns.extend(["alone ns", "in a row ns"].map(Column::figures));
    let cells = |step: &DriverStep| {
        let figures = [Some(step.alone_ns), step.in_a_row_ns].map(|ns| ns.into_cell(|ns| Cell::Fixed(ns, 1)));
        [cut(&step.name, LONGEST_NAME).into(), cut(&step.implementation, LONGEST_NAME).into()]
            .into_iter()
            .chain(figures)
            .collect::<Vec<_>>()
    };
    doc.table(Table::folded(columns, 2, all.iter().map(cells)));
}
