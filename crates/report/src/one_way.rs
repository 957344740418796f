//! One-way delays: a sentence a row, and below it the parts of the bound.

use hairpin_record::one_way::{OneWay, SignedTimes};
use hairpin_record::run::Row;

use crate::cell::{Cell, IntoCell};
use crate::doc::{Column, Doc, List, Table};
use crate::figure::time;
use crate::label::Name;
use crate::notes::merged;
use crate::style::Tone;

/// The sentences of both views.
pub(crate) fn sentences(names: &[Name], rows: &[&Row]) -> Doc {
    let mut doc = Doc::default();
    let lines = of_all(names, rows, |found| vec![sentence(found)]);
    if lines.is_empty() {
        return doc;
    }
    doc.gap();
    lines.into_iter().for_each(|line| doc.lead("one way: ", line));
    of_all(names, rows, faults).into_iter().for_each(|line| doc.toned("one way: ", line, Tone::Warning));
    doc
}

/// The parts of each bound.
pub(crate) fn bounds(names: &[Name], rows: &[&Row]) -> List {
    let words = |found: &OneWay| {
        let parts: Vec<String> = found.parts.iter().map(|part| format!("{} {}", part.what, time(part.ns))).collect();
        let readings = match found.readings {
            0 => String::new(),
            1 => "; both clocks were asked once".into(),
            n => format!("; both clocks were asked {n} times, and the worst answer counts"),
        };
        let made = if parts.is_empty() { "no part".into() } else { parts.join(", ") };
        let mut all = vec![format!("a delay may be off by {} ({}): {made}{readings}", time(found.bound_ns), found.source)];
        if found.unmatched + found.blocks_rejected > 0 {
            all.push(format!(
                "{} transactions with the times of one side alone, {} blocks in which a clock was set or changed its rate",
                found.unmatched, found.blocks_rejected
            ));
        }
        all
    };
    List::plain("One-way delays and their bound", of_all(names, rows, words))
}

fn of_all(names: &[Name], rows: &[&Row], words: impl Fn(&OneWay) -> Vec<String>) -> Vec<String> {
    merged(names, rows, |row| row.one_way.as_deref().map(&words).unwrap_or_default())
}

pub(crate) fn sentence(found: &OneWay) -> String {
    let (Some(request), Some(reply)) = (found.request_ns.p50, found.reply_ns.p50) else {
        let few = format!("{} transactions have the times of both sides, too few for a median", found.request_ns.count);
        let rejected = match found.blocks_rejected {
            0 => String::new(),
            blocks => format!("; {blocks} blocks do not count, since a clock was set or changed its rate"),
        };
        return format!("{few} ({}){rejected}", found.source);
    };
    let within =
        if found.bound_ns < 1.0 { "neither with an error by clocks".into() } else { format!("each ± {}", time(found.bound_ns)) };
    let asymmetry = found.asymmetry_ns.p50.map(|ns| {
        let twice = 2.0 * found.bound_ns;
        let of = if twice < 1.0 { String::new() } else { format!(" ± {}", time(twice)) };
        let longer = match ns as f64 {
            ns if ns.abs() <= twice => "; which of the two takes longer is not known",
            _ => "",
        };
        format!("; request less reply {}{of}{longer}", time(ns as f64))
    });
    format!(
        "request p50 {}, reply p50 {}, {within} ({}){}",
        time(request as f64),
        time(reply as f64),
        found.source,
        asymmetry.unwrap_or_default()
    )
}

/// Reasons to doubt the figures.
pub(crate) fn faults(found: &OneWay) -> Vec<String> {
    let mut all = Vec::new();
    if found.impossible > 0 {
        all.push(format!(
            "{} delays lie below 0 by more than the bound: one of the clocks is worse than its daemon says, or was set",
            found.impossible
        ));
    } else if found.negative > 0 {
        all.push(format!("{} delays lie below 0, within the bound: the clocks differ by more than the delay", found.negative));
    }
    all.extend(found.ended.as_ref().map(|why| format!("no more blocks counted from then on: {why}")));
    all
}

/// Each direction of each row.
pub(crate) fn table(rows: &[&Row], labels: Vec<Column>, label: impl Fn(&Row) -> [Cell; 2]) -> Table {
    let mut columns = labels;
    columns.push(Column::words("way"));
    columns.extend(["min", "p50", "p90", "p99", "p99.9", "max", "±"].map(Column::us));
    columns.push(Column::figures("n"));
    let lines = rows.iter().filter_map(|row| row.one_way.as_deref().map(|found| (*row, found))).flat_map(|(row, found)| {
        let ways = [
            ("request", &found.request_ns, found.bound_ns),
            ("reply", &found.reply_ns, found.bound_ns),
            ("request - reply", &found.asymmetry_ns, 2.0 * found.bound_ns),
        ];
        let label = label(row);
        ways.map(|(way, times, bound_ns)| {
            let mut cells = label.to_vec();
            cells.push(way.into());
            cells.extend(ends(times).map(|ns| ns.into_cell(|ns| Cell::Ns(ns as f64))));
            cells.extend([Cell::Ns(bound_ns), times.count.into()]);
            cells
        })
    });
    Table::new(columns, 3, lines.collect::<Vec<_>>())
}

fn ends(times: &SignedTimes) -> [Option<i64>; 6] {
    [times.min, times.p50, times.p90, times.p99, times.p999, times.max]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_do_not_count_are_the_reason_for_too_few_delays() {
        let few = OneWay { source: "one source".into(), ..OneWay::default() };
        assert!(sentence(&few).ends_with("too few for a median (one source)"), "{}", sentence(&few));
        let rejected = sentence(&OneWay { blocks_rejected: 9, ..few });
        assert!(
            rejected.ends_with("(one source); 9 blocks do not count, since a clock was set or changed its rate"),
            "{rejected}"
        );
    }
}
