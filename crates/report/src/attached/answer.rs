//! The first screen of a running server: the answer in four lines, the stages, the causes of slow ones.

use hairpin_record::attached::{Attached, AttachedBody, Stage, Total, View};

use super::causes;
use super::service;
use crate::cell::{Bar, Cell};
use crate::doc::{Column, Doc, Row, Table};
use crate::explain::brief::{self, Cause, Share};
use crate::explain::parts::{self, Part};
use crate::explain::{SLOW, waits};
use crate::figure::{percent_short, time, times};
use crate::options::Options;
use crate::style::Tone;

/// A smaller part of the sum has no row of its own.
const ROW: f64 = 0.01;

/// Figures and parts of each view.
pub(super) fn show(record: &Attached, options: &Options) -> Doc {
    let mut doc = Doc::default();
    for (at, total) in record.totals.iter().enumerate() {
        if at > 0 {
            doc.gap();
        }
        doc.heading(format!("{}: {}", subject(record, total), figures(total)));
        parts::show(&mut doc, &parts_of(total), mean(total), (None, &record.host), options.columns());
        if let (0, Some(text)) = (at, slow(record, options.columns())) {
            doc.lead(SLOW, text);
        }
    }
    if record.totals.is_empty() {
        doc.heading(format!("{}: no transaction", service(record)));
    }
    doc
}

/// The stages of a single view, causes and warnings, as far as they fit into `room` lines.
pub(super) fn screen(record: &Attached, options: &Options, room: usize) -> Doc {
    let (causes, notices) = (causes_of(record), notices(record));
    brief::fitted(room, options, |share: Share| {
        let mut doc = Doc::default();
        if let ([total], 1..) = (&record.totals[..], share.rows) {
            doc.gap();
            doc.table(table(total, share.rows));
        }
        let shown = &causes[..causes.len().min(share.causes)];
        if share.causes > 0 && (!shown.is_empty() || record.slow_observer > 0) {
            let above = record.slow_above.as_deref().unwrap_or("p99");
            doc.heading(format!(
                "causes of {} above {above}, by time beyond p50 of the sum{}",
                record.slow - record.slow_observer.min(record.slow),
                brief::left_out(causes.len(), shown.len())
            ));
        }
        if record.slow_observer > 0 {
            doc.lead("  ", causes::observer(record));
        }
        if !shown.is_empty() {
            doc.verbatim(brief::causes(shown, options.columns()));
        }
        let notices = brief::notices(&notices, share.notices, options.columns());
        notices.into_iter().for_each(|notice| doc.toned("", notice, Tone::Warning));
        doc
    })
}

/// The server, and the side that was seen if only one was.
fn subject(record: &AttachedBody, total: &Total) -> String {
    let view = match total.view {
        View::Both => "",
        View::Server => ", seen at the server",
        View::Client => ", seen at the client",
    };
    let roles: Vec<String> = total.roles.iter().map(ToString::to_string).collect();
    // A process of several roles has a table for each.
    let role = if record.totals.len() > 1 && !roles.is_empty() { format!(" as {}", roles.join(" and ")) } else { String::new() };
    format!("{}{role}{view}", service(record))
}

fn figures(total: &Total) -> String {
    let sum = &total.sum_ns;
    let told = [sum.p50.map(|ns| (ns as f64, "typical")), sum.p99.map(|ns| (ns as f64, "slow (p99)"))];
    times(told.into_iter().flatten().chain([(mean(total), "mean")])).join(", ")
}

/// The mean of the sum; the parts are shares of it.
fn mean(total: &Total) -> f64 {
    total.sum_ns.mean.unwrap_or(0.0)
}

pub(crate) fn parts_of(total: &Total) -> Vec<(Part, f64)> {
    parts::parts(total.stages.iter().map(|stage| (Part::of(&stage.name), stage.share * mean(total))))
}

/// The causes worth a line.
pub(crate) fn causes_of(record: &AttachedBody) -> Vec<Cause> {
    brief::large(causes::brief(record))
}

/// The extra time of slow transactions, and its cause.
pub(crate) fn slow(record: &AttachedBody, columns: usize) -> Option<String> {
    let counted: u64 = record.causes.iter().map(|cause| cause.count).sum();
    let lost: u64 = record.causes.iter().fold(0, |sum: u64, cause| sum.saturating_add(cause.lost_ns));
    let causes = causes_of(record);
    (!causes.is_empty()).then(|| waits(&format!("+{}", time(lost as f64 / counted.max(1) as f64)), &causes, columns))
}

/// Advice on the largest part, and the command that shows whether it helped.
pub(super) fn next(record: &Attached) -> Vec<String> {
    let watched = &record.watched;
    let target = watched.port.map(|port| format!(":{port}")).or(watched.pid.map(|pid| pid.to_string()));
    let largest = record.totals.first().and_then(|total| parts_of(total).first().map(|(part, _)| *part));
    // The setting is tried on a path over loopback, and can then be held while the server runs.
    let against = match largest {
        Some(Part::Waking) if record.host.heeds_idle_demands() => {
            Some("sudo hairpin tune try loopback --knob cpu_dma_latency_us=0".to_owned())
        }
        Some(Part::Kernel) => Some("hairpin tune check".to_owned()),
        _ => None,
    };
    if record.totals.is_empty() {
        return Vec::new();
    }
    let live = record.head.command.iter().any(|word| word == "--live");
    let again = target.map(|target| format!("sudo hairpin explain {target}{}", if live { "" } else { " --live" }));
    against.into_iter().chain(again).collect()
}

/// Findings and warnings.
fn notices(record: &Attached) -> Vec<String> {
    let findings = record.findings.iter().map(|finding| format!("{}: {}", finding.detector, finding.seen));
    findings.chain(record.warnings.iter().map(|note| format!("{}: {}", note.code, note.message))).collect()
}

/// At most `most` rows and one for the others, then the sum, to which the shares add up.
fn table(total: &Total, most: usize) -> Table {
    let sizes: Vec<f64> = total.stages.iter().map(|stage| stage.share).collect();
    let worth = sizes.iter().filter(|size| **size >= ROW).count();
    let shown = brief::largest(&sizes, most.min(worth));
    let most_share = sizes.iter().copied().fold(0.0, f64::max);
    let mut at = 0.0;
    let mut bar = |share: f64| {
        let from = at;
        at += share;
        Cell::Bar(Bar::new(from, at))
    };
    let percent = |share: f64| Cell::Text(format!("{} %", percent_short(share)));
    let mut row = |stage: &Stage| {
        let side = stage.side.map_or("-".into(), |side| side.to_string());
        let (p50, p99) =
            if total.is_common(stage) { (Cell::ns(stage.ns.p50), Cell::ns(stage.ns.p99)) } else { (Cell::Blank, Cell::Blank) };
        let cells = vec![brief::cut(&stage.name, 26).into(), side.into(), p50, p99, percent(stage.share), bar(stage.share)];
        Row { cells, tone: if stage.share >= most_share { Tone::Warning } else { Tone::Plain } }
    };
    let mut rows: Vec<Row> = shown.iter().map(|at| row(&total.stages[*at])).collect();
    let others: Vec<f64> = (0..sizes.len()).filter(|at| !shown.contains(at)).map(|at| sizes[at]).collect();
    if !others.is_empty() {
        let (name, share) = (format!("{} smaller", others.len()), others.iter().sum());
        rows.push(vec![name.into(), Cell::Blank, Cell::Blank, Cell::Blank, percent(share), bar(share)].into());
    }
    let sum = &total.sum_ns;
    let whole =
        vec!["sum".into(), Cell::Blank, Cell::ns(sum.p50), Cell::ns(sum.p99), percent(1.0), Cell::Bar(Bar::new(0.0, 1.0))];
    rows.push(Row { cells: whole, tone: Tone::Heading });
    let mut columns = ["stage", "side"].map(Column::words).to_vec();
    columns.extend([Column::us("p50 us"), Column::us("p99 us"), Column::figures("share"), Column::bar()]);
    Table::new(columns, 1, rows)
}
