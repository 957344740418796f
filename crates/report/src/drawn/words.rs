//! Names, figures and sentences that Markdown, SVG and terminal share.

use hairpin_record::run::Origin;
use hairpin_record::warning::Note;

use crate::doc::List;
pub(super) use crate::figure::quantile;
use crate::figure::{asked_percent, fine_ratio, payloads, percent, rate, us_signed};
use crate::label::{Name, labelled, short};
use crate::notes::warnings;
use crate::prose::clean;
use crate::view::{Breakdown, Comparison, Fact, Published, Quantile, Ratio, Record, Row, StageRow, View, Warning};

/// Larger figures are shown as powers of ten.
const LARGEST: f64 = 1e9;

/// The meaning of the mark on a row.
pub(super) const APART: &str = "the two cores were at another distance than for most rows: not comparable with those";

/// The mark after the name of a row that is not comparable with the others.
pub(super) fn mark(row: &Row) -> &'static str {
    if row.apart.is_some() { " *" } else { "" }
}

/// The meaning of the mark, if any row has it.
pub(super) fn marked(view: &View) -> Option<String> {
    view.rows.iter().any(|row| row.apart.is_some()).then(|| format!("* {APART}; see the warnings {}.", crate::notes::APART))
}

pub(super) fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "measured",
        Origin::Emulated => "emulated",
        Origin::Published => "published",
    }
}

/// A label followed by its origin, unless that is measured or part of the label.
pub(super) fn named(label: &str, of: Origin) -> String {
    let label = clean(label);
    if label.contains(&format!("[{}]", origin(of))) { label } else { labelled(label, of) }
}

/// A row's name with its origin.
pub(super) fn row(row: &Row) -> String {
    named(&plain(row), row.origin)
}

/// A row's name for places where the origin stands beside it.
pub(super) fn plain(row: &Row) -> String {
    if row.label.is_empty() { short(&row.path) } else { clean(&row.label) }
}

/// Bytes of the request, and of the reply if different.
pub(super) fn payload(row: &Row) -> String {
    payloads(row.request_bytes, row.reply_bytes)
}

/// A time in us; empty for `None`.
pub(super) fn time(ns: Option<u64>) -> String {
    ns.map_or(String::new(), |ns| us_signed(ns as f64))
}

/// A quantile's 95 % interval in us.
pub(super) fn interval(quantile: &Quantile) -> Option<String> {
    let (low, high) = quantile.low_ns.zip(quantile.high_ns)?;
    Some(format!("{} to {}", us_signed(low as f64), us_signed(high as f64)))
}

/// A floor in us: one figure, or both ends.
pub(super) fn floor(floor: Option<[f64; 2]>) -> String {
    floor.map_or(String::new(), |[low, high]| {
        let (low, high) = (us_signed(low), us_signed(high));
        if low == high { low } else { format!("{low} to {high}") }
    })
}

/// A rate in 1/s; empty if it is not a finite number.
pub(super) fn per_second(per_s: f64) -> String {
    match per_s {
        x if !x.is_finite() => String::new(),
        x if x.abs() >= LARGEST => format!("{x:.1e}"),
        x => rate(x),
    }
}

/// One count, or the lowest and the highest.
pub(super) fn span(from: u64, to: u64) -> String {
    if from == to { from.to_string() } else { format!("{from} to {to}") }
}

pub(super) fn samples((from, to): (u64, u64)) -> String {
    format!("{} {}", span(from, to), if to == 1 { "sample" } else { "samples" })
}

/// A published figure and its source.
pub(super) fn published(published: &Published) -> String {
    let origin = if published.derived { "derived from published figures" } else { "published" };
    format!("{origin}, {}; {}", clean(&published.what), clean(&published.source))
}

/// Place, time and tool of a record.
pub(super) fn record(record: &Record) -> String {
    let parts = [&record.schema, &record.tool, &record.started, &record.link, &record.clock];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).map(|part| clean(part)).collect();
    format!("{}: {}", clean(&record.name), parts.join(", "))
}

/// The verdict with the names of both arms.
pub(super) fn verdict(comparison: &Comparison) -> String {
    let turns = if comparison.interleaved { "" } else { " (stored runs, not measured in turn)" };
    format!("{} against {}: {}{turns}", clean(&comparison.arm), clean(&comparison.against), clean(&comparison.verdict))
}

/// The meaning of a comparison's intervals.
pub(super) fn meaning(comparison: &Comparison) -> String {
    // A sweep has no margin.
    let margin = match asked_percent(comparison.margin) {
        0.0 => String::new(),
        percent => format!("; a difference of less than {percent} % does not matter"),
    };
    format!(
        "The verdict is about {}. All intervals together hold with {:.0} %{margin}.",
        figure(&comparison.figure),
        comparison.confidence * 100.0
    )
}

/// The name of a compared figure without its unit.
pub(super) fn figure(name: &str) -> String {
    match name {
        "p50" | "p99" | "p99.9" => format!("RTT {name}"),
        "rate" => "the rate".into(),
        "cpu" => "CPU time per transaction".into(),
        other => clean(other),
    }
}

/// The name of a compared figure with its unit.
pub(super) fn figure_title(name: &str) -> String {
    match name {
        "p50" | "p99" | "p99.9" => format!("RTT {name}, us"),
        "rate" => "rate, 1/s".into(),
        "cpu" => "CPU, us/trans".into(),
        other => clean(other),
    }
}

/// The value of a compared figure: us, or 1/s.
pub(super) fn compared(ratio: &Ratio, value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(per_s) if ratio.figure == "rate" => per_second(per_s),
        Some(ns) => us_signed(ns),
    }
}

/// A share in percent; an inconsistent record may have any value.
pub(super) fn share(share: f64) -> String {
    if share < 100.0 { format!("{} %", percent(share)) } else { format!("{:.0e} %", share * 100.0) }
}

/// The lower and upper end of a ratio's interval.
pub(super) fn ratio_interval(ratio: &Ratio) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!("{} to {}", fine_ratio(low), fine_ratio(high)),
        _ => "not known".into(),
    }
}

/// A breakdown's name: path and payload.
pub(super) fn breakdown(breakdown: &Breakdown) -> String {
    let name = named(&breakdown.label, breakdown.origin);
    // A label that tells sizes apart has the payload.
    if breakdown.label.ends_with(" B") { name } else { format!("{name}, {} B", breakdown.request_bytes) }
}

/// Conditions of the analysed round trips.
pub(super) fn headline(breakdown: &Breakdown) -> String {
    let p50 = |ns: Option<u64>| ns.map_or("no RTT p50".into(), |ns| format!("RTT p50 {} us", us_signed(ns as f64)));
    format!(
        "{} without any hook ({} round trips), {} with hooks.",
        p50(breakdown.untraced_p50_ns),
        breakdown.untraced_count,
        p50(breakdown.traced_p50_ns).trim_start_matches("RTT ")
    )
}

/// The round trips behind the means of a breakdown.
pub(super) fn groups(breakdown: &Breakdown) -> String {
    let mut parts = Vec::new();
    if breakdown.typical_count > 0 {
        parts.push(format!(
            "typical: mean of the {} from p40 to p60, {} us in all",
            breakdown.typical_count,
            us_signed(breakdown.typical_ns)
        ));
    }
    if breakdown.slow_count > 0 {
        parts.push(format!("slow: mean of the {} above p99, {} us in all", breakdown.slow_count, us_signed(breakdown.slow_ns)));
    }
    parts.push("grew: slow less typical; p50 and p99: of those that passed the stage".into());
    format!("Traced round trips, in us; {}.", parts.join("; "))
}

/// Direction and side of a stage: `request, client`; empty for a stage with neither.
pub(super) fn place(stage: &StageRow) -> String {
    let parts: Vec<String> =
        [&stage.direction, &stage.side].into_iter().filter(|part| !part.is_empty()).map(|part| clean(part)).collect();
    parts.join(", ")
}

/// Facts that differ between hosts, each value with its hosts; and the number of facts that are the same.
pub(super) fn hosts(view: &View) -> Option<(Vec<(String, String)>, String)> {
    if view.facts.is_empty() {
        return None;
    }
    let differ: Vec<(String, String)> =
        view.facts.iter().filter(|fact| fact.differs).map(|fact| (clean(&fact.name), values(view, fact))).collect();
    let alike = view.facts.len() - differ.len();
    let said = match (alike, differ.len()) {
        (alike, 0) => format!("Of {alike} facts none differs."),
        (0, _) => "Every fact differs.".into(),
        (alike, _) => format!("{alike} more facts do not differ."),
    };
    Some((differ, said))
}

/// `performance (client of 1), powersave (server of 1)`
fn values(view: &View, fact: &Fact) -> String {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (i, value) in fact.values.iter().enumerate() {
        let value = value.as_ref().map_or("not known".into(), |value| clean(value));
        let host = view.hosts.get(i).map_or_else(|| format!("host {}", i + 1), |host| clean(host));
        match found.iter_mut().find(|(known, _)| *known == value) {
            Some((_, hosts)) => hosts.push(host),
            None => found.push((value, vec![host])),
        }
    }
    found.into_iter().map(|(value, hosts)| format!("{value} ({})", hosts.join(", "))).collect::<Vec<_>>().join("; ")
}

/// The lists at the end: warnings, and records that ended early.
pub(super) fn lists(view: &View) -> Vec<List> {
    let of_record =
        |record: &Record| Name { base: format!("record {} ({})", record.number, clean(&record.name)), size: String::new() };
    let mut items = of(&view.records, of_record, |record| &record.warnings);
    items.extend(of(&view.rows, |row| row_name(view, row), |row| &row.warnings));
    let traced = |breakdown: &Breakdown| Name { base: format!("traced {}", self::breakdown(breakdown)), size: String::new() };
    items.extend(of(&view.breakdowns, traced, |breakdown| &breakdown.warnings));
    let whole = |base: String| Name { base, size: String::new() };
    items.extend(of(&view.loads, |load| whole(format!("{} under load", named(&load.label, load.origin))), |load| &load.warnings));
    items.extend(of(&view.frames, |of| whole(format!("{} {}", clean(&of.label), of.direction)), |of| &of.warnings));
    let ended = view.records.iter().filter_map(|record| Some(format!("{}: {}", of_record(record).base, record.ended.as_ref()?)));
    [List::warnings("Warnings", items), List::errors("Incomplete", ended.collect())]
        .into_iter()
        .filter(|list| !list.items.is_empty())
        .collect()
}

/// The name of a row for messages that may concern all its sizes.
fn row_name(view: &View, of: &Row) -> Name {
    let curve = view.curves.iter().find(|curve| curve.rows.contains(&of.number));
    let base = curve.map_or_else(|| row(of), |curve| named(&curve.label, of.origin));
    Name { base, size: format!("{} B", payload(of)) }
}

fn of<T>(all: &[T], name: impl Fn(&T) -> Name, warned: impl Fn(&T) -> &[Warning]) -> Vec<String> {
    let names: Vec<Name> = all.iter().map(name).collect();
    let note = |warning: &Warning| Note { code: warning.code.clone(), message: warning.message.clone() };
    let notes: Vec<Vec<Note>> = all.iter().map(|one| warned(one).iter().map(note).collect()).collect();
    let notes: Vec<&Vec<Note>> = notes.iter().collect();
    warnings(&names, &notes, |notes| notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explained_path_has_its_payload_once() {
        let called = |label: &str, origin| {
            breakdown(&Breakdown { label: label.into(), origin, request_bytes: 64, ..Breakdown::default() })
        };
        assert_eq!(called("udp:spin", Origin::Measured), "udp:spin, 64 B");
        assert_eq!(called("udp:spin, 64 B", Origin::Measured), "udp:spin, 64 B");
        assert_eq!(called("niq:spin [emulated], 64/18 B", Origin::Emulated), "niq:spin [emulated], 64/18 B");
    }
}
