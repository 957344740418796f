//! The short view of a load, within a terminal of 24 lines: the facts that all rates share, the picture of one path, the rates
//! that tell most while there is room, warnings, and the verdicts last.

use hairpin_record::load::{Load, LoadCurve, LoadRow};
use hairpin_units::Arrange;

use super::{decided, lost_share, picture, split_of, star, timed};
use crate::brief::{on_cpus, rounded, way};
use crate::cell::Cell;
use crate::doc::{Block, Column, Doc, Table, Text};
use crate::figure::{payloads, per_second};
use crate::kinds;
use crate::label::{labelled, short};
use crate::next;
use crate::notes::ended;
use crate::options::Options;
use crate::style::Tone;
use crate::term::{LINES, height};

/// Rows of the picture, which has three lines more.
const PICTURE: std::ops::RangeInclusive<usize> = 5..=9;
/// On a narrower terminal the times from sent and the rarest ones have no room.
const ROOM: usize = 72;

pub(super) fn view(load: &Load, options: &Options) -> Doc {
    let mut begin = Doc::default();
    begin.text(heading(load));
    let mut end = Doc::default();
    let notes = warnings(load);
    if !notes.is_empty() {
        end.gap();
    }
    end.blocks.extend(notes.into_iter().map(Block::Text));
    end.gap();
    if load.results.is_empty() {
        end.text("(no results)");
    }
    load.results.iter().filter_map(split_of).for_each(|line| end.text(line));
    load.results.iter().for_each(|curve| decided(&mut end, load, curve));
    end.list(ended(&load.head));
    next::show(&mut end, &commands(load), options);
    let room = LINES.saturating_sub(height(&begin, options) + height(&end, options));
    let drawn = |rows: usize| {
        let mut doc = Doc::default();
        if let [curve] = &load.results[..] {
            picture(curve, rows).into_iter().for_each(|picture| doc.chart(picture));
        }
        doc
    };
    let pictures: Vec<Doc> = PICTURE.rev().map(drawn).chain([Doc::default()]).collect();
    let tables = [usize::MAX, 3, 2].map(|most| rates(load, most, options)).into_iter().chain([Doc::default()]);
    let pairs = tables.flat_map(|table| pictures.iter().map(move |picture| (picture.clone(), table.clone())));
    let mut fitting = pairs.filter(|(picture, table)| height(picture, options) + height(table, options) <= room).peekable();
    let most_rates = fitting.peek().cloned().unwrap_or_default();
    // The picture tells more than the rates whose room it takes.
    let (picture, table) = fitting.find(|(picture, _)| !picture.blocks.is_empty()).unwrap_or(most_rates);
    for part in [picture, table, end] {
        begin.blocks.extend(part.blocks);
    }
    begin
}

/// Link, payload, placement, schedule and time of a rate, as far as all curves share them.
fn heading(load: &Load) -> String {
    fn shared<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }
    let curves = || load.results.iter();
    let rows = || curves().flat_map(|curve| &curve.rates);
    let payload = shared(curves().map(|curve| payloads(curve.request_bytes, curve.reply_bytes)));
    let room = shared(curves().map(|curve| u64::from(curve.outstanding) * u64::from(curve.flows)));
    let schedule = match load.schedule.kind.as_str() {
        "poisson" => "at random intervals",
        "replay" => "as recorded",
        _ => "at a fixed interval",
    };
    let longest = rows().map(|row| row.duration_ns.saturating_add(row.gap_ns)).max().filter(|ns| *ns > 0);
    let parts = [
        Some(way(&load.place)),
        payload.map(|payload| format!("{payload} B")),
        shared(rows().map(|row| on_cpus(&row.cpu))),
        room.map(|room| format!("room for {room} in flight")),
        Some(schedule.to_owned()),
        longest.map(|ns| format!("{} a rate", rounded(ns))),
    ];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// All rates of all curves; or, of each curve, the lowest rate and those beside its knee.
fn rates(load: &Load, most: usize, options: &Options) -> Doc {
    let all: Vec<(&LoadCurve, &LoadRow)> =
        load.results.iter().flat_map(|curve| telling(curve, most).into_iter().map(move |row| (curve, row))).collect();
    let (several, wide) = (load.results.len() > 1, options.columns() >= ROOM);
    let lost = all.iter().any(|(_, row)| row.lost > 0);
    let mut columns = vec![Column::words(if several { "path" } else { "" }); usize::from(several)];
    columns.extend(["offered", "answered"].map(Column::figures));
    let due: &[&str] = if wide { &["p50", "p99", "p99.9"] } else { &["p50", "p99"] };
    columns.extend(due.iter().map(|title| Column::figures(*title).under("RTT from due")));
    columns.extend(wide.then(|| Column::figures("p99").under("from sent")));
    columns.extend(lost.then(|| Column::figures("lost")));
    let cells = |(curve, row): &(&LoadCurve, &LoadRow)| {
        let mut cells: Vec<Cell> = Vec::new();
        cells.extend(several.then(|| labelled(short(&curve.path), curve.origin).into()));
        let again = if row.repeat > 0 { " again" } else { "" };
        cells.push(format!("{}{again}{}", per_second(row.offered_per_s), star(row)).into());
        cells.push(per_second(row.achieved_per_s).into());
        let times = &row.rtt_from_due_ns;
        cells.extend([times.p50, times.p99].map(timed));
        cells.extend(wide.then(|| timed(times.p999)));
        cells.extend(wide.then(|| timed(row.rtt_from_sent_ns.p99)));
        cells.extend(lost.then(|| Cell::Share(lost_share(row))));
        cells
    };
    let mut doc = Doc::default();
    if !all.is_empty() {
        doc.gap();
        let table = Table::new(columns, usize::from(several), all.iter().map(cells));
        doc.table(Table { titles: Tone::Dim, ..table });
    }
    doc
}

/// The rates to show, `most` of them: the last with which it keeps up, the first beyond, then the least.
fn telling(curve: &LoadCurve, most: usize) -> Vec<&LoadRow> {
    if curve.rates.len() <= most {
        return curve.rates.iter().collect();
    }
    let at = |per_s: Option<f64>| curve.rates.iter().rposition(|row| Some(row.offered_per_s) == per_s);
    let knee = curve.knee.as_ref();
    let told = [at(knee.and_then(|knee| knee.keeps_up_per_s)), at(knee.and_then(|knee| knee.beyond_per_s))];
    let mut chosen: Vec<usize> = told.into_iter().flatten().collect();
    for more in (0..curve.rates.len()).step_by((curve.rates.len() / most).max(1)) {
        if chosen.len() < most && !chosen.contains(&more) {
            chosen.push(more);
        }
    }
    chosen.arrange_by(Ord::cmp);
    chosen.iter().map(|at| &curve.rates[*at]).collect()
}

fn warnings(load: &Load) -> Vec<Text> {
    let rows: Vec<&LoadRow> = load.results.iter().flat_map(|curve| &curve.rates).collect();
    let whose = |of: &[usize]| kinds::share(of, rows.len(), "rates");
    kinds::lines_of(&rows, |row| &row.warnings, whose)
}

/// The next command: explain the path that bears least.
fn commands(load: &Load) -> Vec<String> {
    let kept = |curve: &&LoadCurve| curve.knee.as_ref().and_then(|knee| knee.keeps_up_per_s).unwrap_or(0.0);
    let least = load.results.iter().min_by(|a, b| kept(a).total_cmp(&kept(b)));
    let explain = least.and_then(|curve| next::explain(&load.place.link, &load.head, &curve.path));
    explain.into_iter().chain(["(-v: all)".to_owned()]).collect()
}
