//! The short view of rows on a terminal.
//!
//! ```text
//!   loopback lo, 64 B, CPU 0 <-> 1, one at a time, 3 s a row      common to all rows
//!
//!              RTT p50     p90     p99 …  trans/s                 a column for each difference
//!   udp:block  78.9 us  86.1 us …
//!
//!   ! pushed off the core 398-502 times a row: in the tail        a line per kind of warning (kinds)
//!   next  hairpin explain loopback …                              the next command
//! ```

use hairpin_record::core_states::CoreStates;
use hairpin_record::head::Place;
use hairpin_record::run::{Cpu, Link, Row, Run};
use hairpin_units::Quantile;

use crate::cell::{Cell, IntoCell};
use crate::chart::axis::Axis;
use crate::chart::strip::Strip;
use crate::columns::{CpuOf, times, titles, turnaround};
use crate::doc::{Column, Doc, Table};
use crate::drawn::dot;
use crate::figure::{payload, time, time_range};
use crate::grid;
use crate::label;
use crate::link::link_words;
use crate::median::{Median, median};
use crate::next;
use crate::notes::mark;
use crate::options::Options;
use crate::style::Tone;

/// From this width on, the range of each row is drawn beside its figures.
const ROOM_TO_DRAW: usize = 110;
/// A narrower terminal has no room for CPU time.
const ROOM_FOR_CPU: usize = 72;
/// CPU times differ if one is this many times the other.
const UNLIKE: f64 = 1.5;
/// Least share of an RTT from which a server's turn-around is shown.
const LONG_TURN: f64 = 0.1;

/// A row and its run.
pub(crate) type Entry<'a> = (&'a Run, &'a Row);

/// A property of rows: in the heading if all rows agree, else in a column.
struct Fact {
    title: &'static str,
    values: Vec<String>,
}

impl Fact {
    fn shared(&self) -> Option<&str> {
        self.values.first().filter(|first| self.values.iter().all(|value| value == *first)).map(String::as_str)
    }
}

fn facts(rows: &[Entry<'_>]) -> [Fact; 5] {
    let fact = |title, of: fn(&Entry<'_>) -> String| Fact { title, values: rows.iter().map(of).collect() };
    [
        fact("reply", |(_, row)| label::reply(row)),
        fact("link", |(run, _)| link(run)),
        fact("payload", |(_, row)| format!("{} B", payload(row))),
        fact("placement", |(_, row)| placement(row)),
        fact("work", |(_, row)| work(row)),
    ]
}

fn link(run: &Run) -> String {
    way(&run.place)
}

/// Kind, interface, options and, if they differ, the hosts.
pub(crate) fn way(place: &Place) -> String {
    let link = &place.link;
    let local = matches!(link.kind.as_str(), "loopback" | "veth");
    let mut parts = link_words(&Link { mtu: None, peer: link.peer.clone().filter(|_| !local), ..link.clone() });
    let client = &place.hosts.client.hostname;
    let server = place.hosts.server.as_ref().map(|host| &host.hostname);
    parts.extend(server.filter(|server| *server != client).map(|server| format!("{client} -> {server}")));
    parts.join(", ")
}

/// The CPUs of both sides; empty if the record has none.
fn placement(row: &Row) -> String {
    on_cpus(&row.cpu)
}

/// The same for any record.
pub(crate) fn on_cpus(cpu: &Cpu) -> String {
    placed(&cpu.client.cpus, cpu.server.as_ref().map(|server| &server.cpus[..]).unwrap_or_default())
}

/// The CPUs of both sides; the server's are empty where they are unknown.
pub(crate) fn placed(client: &[u32], server: &[u32]) -> String {
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    match (client, server) {
        ([], _) => String::new(),
        _ if server == client => format!("both on CPU {}", list(client)),
        (_, []) => format!("client on CPU {}", list(client)),
        _ => format!("CPU {} <-> {}", list(client), list(server)),
    }
}

/// Threads, flows and requests in flight, where there is more than one.
fn work(row: &Row) -> String {
    let counts = [(row.threads, "threads"), (row.flows, "flows"), (row.outstanding, "in flight each")];
    let parts: Vec<String> = counts.iter().filter(|(n, _)| *n > 1).map(|(n, of)| format!("{n} {of}")).collect();
    if parts.is_empty() { "one at a time".into() } else { parts.join(", ") }
}

/// The measured time of a row, or its range; nothing if no row has any.
fn duration(rows: &[Entry<'_>]) -> Option<String> {
    let took = || rows.iter().map(|(_, row)| row.duration_ns.saturating_add(row.gap_ns)).filter(|ns| *ns > 0);
    let (least, most) = took().min().zip(took().max())?;
    let of = if rows.len() > 1 { " a row" } else { "" };
    Some(if most as f64 <= least as f64 * 1.1 { rounded(most) } else { format!("{} to {}", rounded(least), rounded(most)) } + of)
}

/// A duration of an experiment: `3 s`, `9.5 s`, `120 ms`.
pub(crate) fn rounded(ns: u64) -> String {
    let (size, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let text = if size < 9.95 { format!("{size:.1}") } else { format!("{size:.0}") };
    format!("{} {unit}", text.trim_end_matches(".0"))
}

/// The line above the table: link, payload, placement, work and duration, as far as all rows share them.
pub(crate) fn heading(rows: &[Entry<'_>], options: &Options) -> Doc {
    let mut doc = Doc::default();
    let mut parts: Vec<String> = [&options.run, &options.started].into_iter().filter(|part| !part.is_empty()).cloned().collect();
    parts.extend(facts(rows).iter().filter_map(Fact::shared).filter(|part| !part.is_empty()).map(str::to_owned));
    parts.extend(duration(rows));
    if options.hrt {
        parts.push("RTT/2, not one-way".into());
    }
    if !parts.is_empty() {
        doc.text(parts.join(", "));
    }
    doc
}

/// The figures of the rows, and a line about those that are not comparable.
pub(crate) fn table(rows: &[Entry<'_>], states: &CoreStates, options: &Options) -> Doc {
    let facts = facts(rows);
    let differing: Vec<&Fact> = facts.iter().filter(|fact| fact.shared().is_none()).collect();
    let scale = if options.hrt { 0.5 } else { 1.0 };
    let half = |found: Median| Median { ns: found.ns * scale, ends: found.ends.map(|ends| ends.map(|ns| ns * scale)) };
    let medians: Vec<Option<Median>> = rows.iter().map(|(_, row)| median(row).map(half)).collect();
    let intervals = medians.iter().flatten().any(|median| median.wide().is_some());
    let all = || rows.iter().map(|(_, row)| *row);
    let of = CpuOf::rows(all());
    let cpu = options.columns() >= ROOM_FOR_CPU && unlike(all().filter_map(|row| of.per_transaction(row)));
    let turn = all().any(|row| turnaround(row).zip(row.rtt_ns.p50).is_some_and(|(turn, p50)| turn >= p50 as f64 * LONG_TURN));
    let draws = options.columns() >= ROOM_TO_DRAW && !options.hrt && all().any(|row| row.rtt_ns.p50.is_some());
    // Without a median the dots reach the maximum.
    let end = |row: &Row| row.rtt_ns.max.filter(|_| row.rtt_ns.p50.is_none()).map(|ns| ns as f64);
    let axis = Axis::times(all().flat_map(|row| marks(row).into_iter().chain([end(row)]).flatten()));

    let table = |intervals: bool| {
        let mut columns = vec![Column::words("path")];
        columns.extend(differing.iter().map(|fact| Column::words(fact.title)));
        let group = if options.hrt { "RTT/2" } else { "RTT" };
        for (at, title) in titles(options).into_iter().enumerate().skip(1) {
            columns.push(Column::figures(if at == 1 { format!("{group} {title}") } else { title }));
            if intervals && options.percentiles.get(at - 1) == Some(&Quantile::P50) {
                columns.push(Column::figures("95 %"));
            }
        }
        columns.push(Column::figures("trans/s"));
        columns.extend(turn.then(|| Column::figures("turn")));
        columns.extend(cpu.then(|| Column::figures("CPU")));
        columns.extend(draws.then(|| Column::scale(axis)));

        let cells = |(at, (_, row)): (usize, &Entry<'_>)| {
            let mut cells: Vec<Cell> = vec![(label::path(row) + mark(states.apart(at))).into()];
            cells.extend(differing.iter().map(|fact| Cell::from(&fact.values[at])));
            for (i, ns) in times(row, options).0.into_iter().enumerate().skip(1) {
                if options.percentiles.get(i - 1) == Some(&Quantile::P50) {
                    cells.push(medians[at].into_cell(|median| Cell::Word(time(median.ns), Tone::Main)));
                    let ends = medians[at].and_then(|median| median.wide());
                    cells.extend(intervals.then(|| ends.into_cell(|[low, high]| time_range(low, high).into())));
                } else {
                    cells.push(ns.into_cell(|ns| time(ns).into()));
                }
            }
            cells.push(Cell::Rate(row.transactions_per_s));
            cells.extend(turn.then(|| turnaround(row).into_cell(|ns| time(ns).into())));
            cells.extend(cpu.then(|| of.per_transaction(row).into_cell(|ns| time(ns).into())));
            cells.extend(draws.then(|| Cell::Strip(strip(row, &axis), GREY)));
            cells
        };
        Table { titles: Tone::Dim, ..Table::new(columns, 1 + differing.len(), rows.iter().enumerate().map(cells)) }
    };
    // The record has the intervals; figures broken over two lines are unreadable.
    let table = Some(table(intervals)).filter(|table| grid::fits(table, options.columns())).unwrap_or_else(|| table(false));
    let mut doc = Doc::default();
    if !rows.is_empty() {
        doc.gap();
    }
    doc.table(table);
    if draws {
        doc.toned("", "drawn: · from the minimum, ● p50, ┫ p99, ┤ p99.9", Tone::Dim);
    }
    let apart: Vec<_> = (0..rows.len()).filter_map(|at| states.apart(at)).collect();
    if let Some((first, found)) = apart.first().zip(range(apart.iter().map(|apart| apart.found))) {
        let (least, most) = first.others;
        let text =
            format!("another core distance: {} to {} ns a cache line, else {least} to {most}: not comparable", found.0, found.1);
        doc.toned("* ", text, Tone::Dim);
    }
    doc
}

/// The palette's grey.
const GREY: usize = 6;

fn range(all: impl Iterator<Item = (u64, u64)>) -> Option<(u64, u64)> {
    all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

fn unlike(figures: impl Iterator<Item = f64>) -> bool {
    let (least, most) = figures.fold((f64::INFINITY, 0.0_f64), |(least, most), ns| (least.min(ns), most.max(ns)));
    most > least * UNLIKE
}

/// Minimum, p50, p99 and p99.9.
fn marks(row: &Row) -> [Option<f64>; 4] {
    let rtt = &row.rtt_ns;
    [rtt.min, rtt.p50, rtt.p99, rtt.p999].map(|ns| ns.map(|ns| ns as f64))
}

fn strip(row: &Row, axis: &Axis) -> Strip {
    let at = |ns: Option<f64>| ns.map(|ns| axis.at(ns));
    Strip::spread(marks(row).map(at), at(row.rtt_ns.max.map(|ns| ns as f64)), None, dot(row.origin))
}

/// Commands to go on with.
pub(crate) fn next(doc: &mut Doc, run: &Run, options: &Options) {
    let stored = if options.run.is_empty() { if options.latest { "latest" } else { "" } } else { &options.run };
    let report = (!stored.is_empty()).then(|| format!("hairpin report {stored}"));
    let items: Vec<String> = explain(run).into_iter().chain(report).chain(["(-v: all)".to_owned()]).collect();
    next::show(doc, &items, options);
}

/// The command that explains the slowest row with known stages.
fn explain(run: &Run) -> Option<String> {
    let known = |row: &&Row| next::is_explained(&row.path, &run.place.link);
    let row = run.results.iter().filter(known).max_by_key(|row| row.rtt_ns.p50)?;
    next::explain(&run.place.link, &run.head, &row.path)
}
