//! Host and wire: the parts of a round trip in the client's host, the wire and the server's host, by stamps; and its two ways
//! apart, by synchronised clocks.

use hairpin_units::Arrange;

use super::strips::{LONGEST_LABEL, cut, numbered};
use super::words;
use crate::budget::length;
use crate::cell::{Cell, IntoCell};
use crate::chart::whole::Segment;
use crate::doc::{Column, Doc, Table};
use crate::figure::us_short;
use crate::view::{Delay, LoadCurve, LoadRate, Row, Split, SplitPart, SplitPiece, View};

/// If the longest bar is more than this many times as long as the shortest, each has its own scale: the shortest could not be
/// seen.
const MOST_APART: f64 = 10.0;
const MEANS: &str = "means of typical round trips (RTT from p40 to p60), which add up";
/// Places of a round trip, and the names of their columns in a table of rates.
const PLACES: [(&str, &str); 4] = [("= client", "client"), ("wire", "wire"), ("= server", "server"), ("= beyond", "beyond")];

/// Rows, rates and explained paths with stamps, and the delays of rows with synchronised clocks.
pub(super) fn show(doc: &mut Doc, view: &View) {
    for (name, split) in stamped(view) {
        doc.gap();
        headed(doc, &name, split);
        if !split.quantiles.is_empty() {
            doc.text(&split.quantiles);
        }
        if !split.parts.is_empty() {
            doc.gap();
            doc.table(parts(split));
        }
        doc.text(split.said.join(" "));
    }
    view.loads.iter().for_each(|curve| load(doc, curve));
    delays(doc, view);
}

/// All splits with the names of their owners: rows, then explained paths.
pub(super) fn stamped(view: &View) -> Vec<(String, &Split)> {
    let rows = view.rows.iter().filter_map(|row| Some((numbered(view, row), row.split.as_ref()?)));
    let explained = view.breakdowns.iter().filter_map(|found| Some((explained(&words::breakdown(found)), found.split.as_ref()?)));
    rows.chain(explained).collect()
}

/// Tells an explained path from a row of the same path.
fn explained(path: &str) -> String {
    format!("{path}, explained")
}

/// Name, headline and bar.
pub(super) fn headed(doc: &mut Doc, name: &str, split: &Split) {
    doc.heading(format!("Host and wire: {name}"));
    doc.text(&split.headline);
    if !split.bar.is_empty() {
        doc.text(format!("us, to scale: {MEANS}"));
        doc.whole(segments(&split.bar, sum(&split.bar)));
    }
}

fn sum(bar: &[SplitPiece]) -> f64 {
    bar.iter().map(|piece| length(piece.ns)).sum()
}

/// The pieces of a bar as parts of `whole`.
fn segments(bar: &[SplitPiece], whole: f64) -> Vec<Segment> {
    let mut at = 0.0;
    let segment = |piece: &SplitPiece| {
        at += length(piece.ns);
        Segment { to: at / whole, label: [piece.name.clone(), us_short(piece.ns)], hatched: false }
    };
    bar.iter().map(segment).collect()
}

fn parts(split: &Split) -> Table {
    let columns = ["p50", "p99", "mean"].map(Column::us);
    let columns = [Column::words("part")].into_iter().chain(columns).chain(["%", "n"].map(Column::figures)).collect();
    let cells = |part: &SplitPart| {
        let share = part.typical_ns.zip(split.typical_ns).filter(|(_, rtt)| *rtt > 0.0).map(|(ns, rtt)| ns / rtt);
        vec![
            (&part.name).into(),
            Cell::ns(part.p50_ns),
            Cell::ns(part.p99_ns),
            part.typical_ns.into_cell(Cell::Ns),
            share.into_cell(Cell::Percent),
            part.count.into(),
        ]
    };
    Table::folded(columns, 1, split.parts.iter().map(cells))
}

/// A bar for each rate on one scale, a table of all, and the stamps.
fn load(doc: &mut Doc, curve: &LoadCurve) {
    let rates = rates(curve);
    if rates.is_empty() {
        return;
    }
    let scale = scale(curve);
    doc.gap();
    doc.heading(format!("Host and wire under load: {}", under_load(curve)));
    let scales = if scale.is_some() { "all to one scale" } else { "each to a scale of its own" };
    doc.text(format!("One request in flight. Bars in us, {scales}: {MEANS}"));
    if let Some(longest) = rates.iter().map(|(_, split)| &split.bar).max_by_key(|bar| bar.len()).filter(|bar| !bar.is_empty()) {
        doc.text(format!("In order: {}", longest.iter().map(|piece| piece.name.as_str()).collect::<Vec<_>>().join(", ")));
    }
    for (rate, split) in &rates {
        doc.gap();
        doc.text(format!("{}: {}", rate.offered_said, split.headline));
        if !split.bar.is_empty() {
            doc.whole(segments(&split.bar, scale.unwrap_or_else(|| sum(&split.bar))));
        }
    }
    doc.gap();
    doc.table(table(&rates));
    said(curve).into_iter().for_each(|words| doc.text(words));
}

fn under_load(curve: &LoadCurve) -> String {
    words::named(&curve.label, curve.origin)
}

/// The whole that all bars of a load are drawn in; `None` if each has its own.
pub(super) fn scale(curve: &LoadCurve) -> Option<f64> {
    let lengths = || curve.rates.iter().filter_map(|rate| Some(sum(&rate.split.as_ref()?.bar))).filter(|ns| *ns > 0.0);
    let [least, most] = [lengths().fold(f64::INFINITY, f64::min), lengths().fold(0.0, f64::max)];
    (most > 0.0 && most <= MOST_APART * least).then_some(most)
}

/// The rate that a short view shows of a load: the highest with which the path keeps up, else the lowest.
pub(super) fn kept(curve: &LoadCurve) -> Option<(String, &Split)> {
    let rates = rates(curve);
    let (rate, split) = rates.iter().rfind(|(rate, _)| Some(rate.offered_per_s) == curve.keeps_up_per_s).or(rates.first())?;
    Some((format!("{} at {}", under_load(curve), rate.offered_said), split))
}

/// The rates with a split, ascending.
fn rates(curve: &LoadCurve) -> Vec<(&LoadRate, &Split)> {
    let mut rates: Vec<_> = curve.rates.iter().filter_map(|rate| Some((rate, rate.split.as_ref()?))).collect();
    rates.arrange_by(|(a, _), (b, _)| a.offered_per_s.total_cmp(&b.offered_per_s));
    rates
}

fn table(rates: &[(&LoadRate, &Split)]) -> Table {
    let part = |split: &Split, name: &str| split.parts.iter().find(|part| part.name == name).cloned();
    let whole = rates.iter().any(|(_, split)| part(split, "wire").is_some());
    let places: Vec<_> = PLACES
        .into_iter()
        .filter(|(name, _)| (!whole || *name != "= beyond") && rates.iter().any(|(_, split)| part(split, name).is_some()))
        .collect();
    let mut columns = vec![Column::figures("offered").in_unit("1/s")];
    for group in std::iter::once("RTT").chain(places.iter().map(|(_, group)| *group)) {
        columns.extend(["p50", "p99"].map(|title| Column::us(title).under(group)));
    }
    columns.push(Column::figures("n"));
    let cells = |(rate, split): &(&LoadRate, &Split)| {
        let mut cells = vec![Cell::Rate(rate.offered_per_s), Cell::ns(split.rtt_p50_ns), Cell::ns(split.rtt_p99_ns)];
        for (name, _) in &places {
            let part = part(split, name);
            cells.extend([part.as_ref().and_then(|part| part.p50_ns), part.and_then(|part| part.p99_ns)].map(Cell::ns));
        }
        cells.push(split.counts.complete.into());
        cells
    };
    Table::folded(columns, 1, rates.iter().map(cells))
}

/// The sentences on the stamps: first those that hold for every rate, then the others, each after its rates.
pub(super) fn said(curve: &LoadCurve) -> Vec<String> {
    let rates = rates(curve);
    let mut said: Vec<(&String, Vec<&str>)> = Vec::new();
    for (rate, split) in &rates {
        for words in &split.said {
            match said.iter_mut().find(|(known, _)| *known == words) {
                Some((_, at)) => at.push(&rate.offered_said),
                None => said.push((words, vec![&rate.offered_said])),
            }
        }
    }
    said.arrange_by_key(|(_, at)| at.len() < rates.len());
    let told = |(words, at): (&String, Vec<&str>)| {
        if at.len() == rates.len() { words.clone() } else { format!("{}: {words}", at.join(", ")) }
    };
    said.into_iter().map(told).collect()
}

/// Both ways of each row and their difference, each with its bound.
fn delays(doc: &mut Doc, view: &View) {
    let rows: Vec<_> = view.rows.iter().filter_map(|row| Some((row, row.one_way.as_ref()?))).collect();
    if rows.is_empty() {
        return;
    }
    doc.gap();
    doc.heading("One-way delays in us, by the time of day of both hosts");
    doc.gap();
    let columns = [Column::words("row"), Column::words("way")].into_iter().chain(["p50", "p99", "±"].map(Column::us));
    let columns = columns.chain([Column::figures("n")]).collect();
    let cells = |row: &Row, delay: &Delay| {
        let ns = |ns: Option<i64>| ns.into_cell(|ns| Cell::Ns(ns as f64));
        vec![
            cut(&numbered(view, row), LONGEST_LABEL).into(),
            (&delay.way).into(),
            ns(delay.p50_ns),
            ns(delay.p99_ns),
            delay.bound_ns.into_cell(Cell::Ns),
            delay.count.into(),
        ]
    };
    let lines = rows.iter().flat_map(|(row, ways)| ways.delays.iter().map(|delay| cells(row, delay)));
    doc.table(Table::folded(columns, 2, lines.collect::<Vec<_>>()));
    for (row, ways) in rows {
        let name = if view.rows.len() > 1 { format!("{}: ", numbered(view, row)) } else { String::new() };
        doc.text(format!("{name}{}", ways.said.join(" ")));
    }
}
