//! The output of `hairpin compare placements`: the best pair of CPUs in a sentence, and a matrix of pairs by wait policies as a
//! heat map.

use hairpin_record::compare::{Compare, Comparison, Placement, PlacementCell};
use hairpin_record::experiment::Verdict;

use super::{rounds, sentence, tone};
use crate::cell::{Cell, IntoCell};
use crate::doc::{Column, Doc, Place, Table};
use crate::figure::{payloads, time, time_range};
use crate::grid;
use crate::label::short;
use crate::link::link_words;
use crate::next;
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;

/// From light to dark, and the colours beside them: the nearest pair to the furthest.
const SHADES: [(&str, Tone); 4] = [("░░", Tone::Line(2)), ("▒▒", Tone::Line(5)), ("▓▓", Tone::Line(4)), ("██", Tone::Line(1))];
/// Times that differ by less than this have one shade.
const ONE_SHADE: f64 = 1.1;

/// The sentences, the matrix, and the reasons for its gaps.
pub(crate) fn matrix(doc: &mut Doc, record: &Compare, options: &Options) {
    decisions(doc, record);
    doc.gap();
    doc.table(table(record, options));
    let mut why: Vec<&str> = record.placements.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.why.as_deref()).collect();
    why.dedup();
    why.into_iter().for_each(|why| doc.lead("-: ", clean(why)));
    doc.text(context(record));
}

/// The fastest placement once more, alone.
pub(super) fn commands(record: &Compare) -> Vec<String> {
    let measured = record.placements.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    let best = measured.filter_map(|(row, cell)| Some((row, cell, cell.p50_ns?))).min_by(|a, b| a.2.total_cmp(&b.2));
    let link = record.arms.first().and_then(|arm| arm.link.as_ref());
    let command = best.zip(link).and_then(|((row, cell, _), link)| {
        let to = next::over(link, &record.head)?;
        next::plain(format!("hairpin ping {to} -p {} --cpu {},{}", next::path(&cell.path), row.client, row.server))
    });
    command.into_iter().collect()
}

fn context(record: &Compare) -> String {
    let payload = record.arms.first().map(|arm| format!("{} B", payloads(arm.request_bytes, arm.reply_bytes)));
    let link = record.arms.first().and_then(|arm| arm.link.as_ref()).map(|link| link_words(link).join(", "));
    let how = record.design.as_ref().map(rounds);
    let stand = record.placements.iter().any(|row| row.stands_for > 1);
    let stand = stand.then(|| "each pair stands for all of its kind, of which pairs tells the number".to_owned());
    payload.into_iter().chain(link).chain(how).chain(stand).collect::<Vec<_>>().join(", ")
}

/// The pair as people say it.
fn pair(row: &Placement) -> String {
    if row.client == row.server {
        format!("both on CPU {}", row.client)
    } else {
        format!("CPU {} and {}", row.client, row.server)
    }
}

/// The relation in the words of `hairpin compare placements`.
fn relation(row: &Placement) -> String {
    let known = match (row.relation.as_deref(), row.shared_cache.as_deref()) {
        _ if row.client == row.server => "same core".into(),
        (Some("SMT siblings"), _) => "SMT siblings".into(),
        (Some("different packages"), _) => "other socket".into(),
        (Some("same package"), Some(cache)) => format!("same {}", clean(cache)),
        (Some(other), _) => clean(other),
        (None, _) => "other core".into(),
    };
    let far = row.numa_nodes.len() > 1 && row.relation.as_deref() == Some("same package");
    if far { known + ", other node" } else { known }
}

fn of_arm<'r>(record: &'r Compare, arm: &str) -> Option<(usize, &'r Placement)> {
    record.placements.iter().find_map(|row| {
        let at = row.cells.iter().position(|cell| cell.arm.as_deref() == Some(arm))?;
        Some((at, row))
    })
}

/// A sentence for each wait policy, and one for the two policies on the first pair.
fn decisions(doc: &mut Doc, record: &Compare) {
    let paths = record.placements.first().map_or(0, |row| row.cells.len());
    for path in 0..paths {
        let measured: Vec<(&Placement, &PlacementCell)> = record
            .placements
            .iter()
            .filter_map(|row| Some((row, row.cells.get(path)?)))
            .filter(|(_, cell)| cell.arm.is_some())
            .collect();
        let Some((first, cell)) = measured.first() else { continue };
        let name = short(&cell.path);
        if measured.len() == 1 {
            // The sentence about both policies has this placement's figure.
            if path > 0 && record.comparisons.iter().any(|found| Some(&found.arm) == cell.arm.as_ref()) {
                continue;
            }
            let p50 = cell.p50_ns.map_or("not measured".into(), time);
            let only = if record.placements.len() == 1 { "there is one placement only" } else { "one placement can be measured" };
            doc.lead(format!("{name}: "), format!("{only}, {}: RTT p50 {p50}", pair(first)));
            continue;
        }
        let within = |found: &&Comparison| {
            let place = |arm: &str| of_arm(record, arm).is_some_and(|(at, _)| at == path);
            place(&found.arm) && place(&found.against)
        };
        let of_path: Vec<&Comparison> = record.comparisons.iter().filter(within).collect();
        let told = of_path.iter().map(|found| told(record, found)).collect::<Vec<_>>();
        match best(record, &of_path) {
            Some(at) => doc.verdict(format!("{name}: "), told[at].0.clone(), &told[at].1, tone(of_path[at].verdict)),
            None => none_is_better(doc, record, &name, &of_path),
        }
    }
    for found in &record.comparisons {
        let (Some((at, row)), Some((before, _))) = (of_arm(record, &found.arm), of_arm(record, &found.against)) else { continue };
        if at != before {
            let called = |at: usize| row.cells.get(at).map_or(String::new(), |cell| short(&cell.path));
            let (said, word) = sentence(record, found, &called(at), &called(before));
            doc.verdict("", format!("on {}, {said}", pair(row)), &word, tone(found.verdict));
        }
    }
}

fn told(record: &Compare, found: &Comparison) -> (String, String) {
    let called = |arm: &str| of_arm(record, arm).map_or_else(|| arm.to_owned(), |(_, row)| pair(row));
    sentence(record, found, &called(&found.arm), &called(&found.against))
}

/// The comparison with the fastest pair; of indistinguishable pairs, the first in the matrix.
fn best(record: &Compare, of_path: &[&Comparison]) -> Option<usize> {
    let ratio = |found: &Comparison| {
        let main = found.figures.iter().find(|estimate| estimate.figure == record.method.figure)?;
        let (low, high) = main.low.zip(main.high)?;
        Some(if main.figure.more_is_better() { (1.0 / high, 1.0 / low) } else { (low, high) })
    };
    let faster: Vec<(usize, (f64, f64))> = of_path
        .iter()
        .enumerate()
        .filter(|(_, found)| found.verdict == Verdict::Faster)
        .filter_map(|(at, found)| Some((at, ratio(found)?)))
        .collect();
    let least = faster.iter().map(|(_, (_, high))| *high).fold(f64::INFINITY, f64::min);
    faster.into_iter().find(|(_, (low, _))| *low <= least).map(|(at, _)| at)
}

/// No pair is faster than the first: how the others compare.
fn none_is_better(doc: &mut Doc, record: &Compare, name: &str, of_path: &[&Comparison]) {
    let open = of_path.iter().find(|found| found.verdict == Verdict::Unclear);
    let Some(first) = of_path.first().and_then(|found| of_arm(record, &found.against)) else { return };
    let others = if of_path.len() == 1 { "the other pair" } else { "any other pair" };
    match open {
        Some(found) => {
            let (said, word) = told(record, found);
            doc.verdict(format!("{name}: "), said, &word, Tone::Warning);
        }
        None => doc.verdict(
            format!("{name}: "),
            format!("{} is as fast as {others}, or faster", pair(first.1)),
            "fast",
            Tone::Heading,
        ),
    }
}

fn table(record: &Compare, options: &Options) -> Table {
    let shown = || record.placements.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.p50_ns);
    let (least, most) = (shown().fold(f64::INFINITY, f64::min), shown().fold(0.0, f64::max));
    let stand = record.placements.iter().any(|row| row.stands_for > 1);
    let mut columns = vec![Column::words("placement"), Column::words("cores"), Column::figures("line").in_unit("ns")];
    columns.extend(stand.then(|| Column::figures("pairs")));
    let first: &[PlacementCell] = record.placements.first().map_or(&[], |row| &row.cells);
    for cell in first {
        let group = if cell.path.contains(":spin") { "spinning" } else { "sleeping" };
        columns.push(Column::screen("").under(group));
        columns.push(Column::figures("p50").under(group));
        columns.push(Column::figures("interval").under(group));
    }
    let row = |row: &Placement| {
        let mut cells = vec![pair(row).into(), relation(row).into(), row.core_rtt_ns.into()];
        cells.extend(stand.then(|| row.stands_for.into()));
        // A record from elsewhere may have another number of cells in each row.
        let missing = PlacementCell::default();
        for at in 0..first.len() {
            let cell = row.cells.get(at).unwrap_or(&missing);
            let shade = cell.p50_ns.map(|ns| shade(ns, least, most));
            cells.push(shade.into_cell(|(shade, tone)| Cell::Word(shade.into(), tone)));
            cells.push(match (cell.p50_ns, &cell.why) {
                (Some(ns), _) => time(ns).into(),
                (None, Some(_)) => "-".into(),
                (None, None) => Cell::Blank,
            });
            cells.push(cell.low_ns.zip(cell.high_ns).map(|(low, high)| time_range(low, high)).into());
        }
        cells
    };
    let mut table = Table::new(columns, 1, record.placements.iter().map(row));
    if !grid::fits(&table, options.columns()) {
        // Pages and scripts have the intervals.
        let intervals = table.columns.iter_mut().filter(|column| column.title == "interval");
        intervals.for_each(|column| column.place = Place::Page);
    }
    table
}

fn shade(ns: f64, least: f64, most: f64) -> (&'static str, Tone) {
    if most < least * ONE_SHADE {
        return SHADES[0];
    }
    let share = (ns / least).ln() / (most / least).ln();
    SHADES[((share * SHADES.len() as f64) as usize).min(SHADES.len() - 1)]
}
