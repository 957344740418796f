//! The terminal's table: one row per result, what the columns mean above, what may mislead below.

use hairpin_record::core_states::CoreStates;
use hairpin_record::run::{ClockFacts, Hosts, Link, Row, Run};

use crate::Options;
use crate::accounts::accounts;
use crate::columns::{CpuOf, RTT, times, titles, turnaround};
use crate::figure::{payload, rate, us_or_blank};
use crate::grid::{Column, Grid};
use crate::label::{self, Name};
use crate::notes::{Kind, Section, ending, lines, mark, sections};
use crate::prose::{WIDTH, wrap};
use crate::style::{HEADING, paint};

/// The run as a table of 80 columns, or of [`Options::width`] if that is more.
///
/// Only a table with more percentiles than fit gets wider than that.
pub fn table(run: &Run, options: &Options) -> String {
    let rows: Vec<(Name, &Row)> = run.results.iter().map(|row| (label::name(row, None), row)).collect();
    let mut text = wrap("", &context(run), WIDTH);
    text.push(String::new());
    let states = CoreStates::of(run.results.iter().map(|row| ((), row)));
    text.extend(results(&rows, None, &states, options));
    text.extend(below(&rows, options));
    text.extend(lines(&ending(run).into_iter().collect::<Vec<_>>(), options.colour));
    text.join("\n") + "\n"
}

/// Tool, time, link, hosts and clock in a sentence.
pub(crate) fn context(run: &Run) -> String {
    let mut parts = vec![run.head.tool.clone(), run.head.started.clone()];
    parts.extend(between(&run.place.link, &run.place.hosts, &run.place.clock));
    parts.join(", ")
}

/// Link, hosts and clock.
pub(crate) fn between(link: &Link, hosts: &Hosts, clock: &ClockFacts) -> Vec<String> {
    let mut parts = link_words(link);
    let server = hosts.server.as_ref().map_or("a server that tells nothing of itself", |host| host.hostname.as_str());
    parts.push(format!("{} -> {server}", hosts.client.hostname));
    parts.push(format!("clock {}, {:.1} ns of every RTT", clock.source, clock.cost_ns));
    parts
}

/// Kind, interface and peer; MTU; options.
pub(crate) fn link_words(link: &Link) -> Vec<String> {
    let interface = link.interface.as_ref().map_or(String::new(), |name| format!(" {name}"));
    let peer = link.peer.as_ref().map_or(String::new(), |peer| format!(" to {peer}"));
    let mut parts = vec![format!("{}{interface}{peer}", link.kind)];
    parts.extend(link.mtu.map(|mtu| format!("MTU {mtu}")));
    parts.extend(link.options.iter().map(|(name, value)| format!("{name}={value}")));
    parts
}

/// The heading that says what the columns are, and the table. With `links`, the link of each row takes the place of its payload.
pub(crate) fn results(rows: &[(Name, &Row)], links: Option<&[&str]>, states: &CoreStates, options: &Options) -> Vec<String> {
    let cpu = CpuOf::rows(rows.iter().map(|(_, row)| *row));
    let mut lines = heading(cpu, links.is_none(), options).iter().flat_map(|line| wrap("", line, WIDTH)).collect::<Vec<_>>();
    if rows.is_empty() {
        lines.push("(no results)".into());
        return lines;
    }
    let group = if options.hrt { "RTT/2, not one-way" } else { "RTT" };
    let second = if links.is_some() { Column::words("link") } else { Column::figures("payload") };
    let mut columns = vec![Column::words("path"), second, Column::figures("trans/s")];
    columns.extend(titles(options).into_iter().map(|title| Column::figures(title).under(group)));
    columns.extend(["turn", "CPU"].map(Column::figures));
    let cells = rows.iter().enumerate().map(|(i, (_, row))| {
        let second = links.map_or_else(|| payload(row), |links| crate::prose::clean(links[i]));
        let mut cells = vec![label::path(row) + mark(states.apart(i)), second, rate(row.transactions_per_s)];
        cells.extend(times(row, options).0.into_iter().map(us_or_blank));
        cells.extend([turnaround(row), cpu.per_transaction(row)].map(us_or_blank));
        cells
    });
    let grid = Grid { columns, labels: 3, rows: cells.collect() };
    lines.push(String::new());
    lines.extend(grid.lines(options.columns(), options.colour));
    lines
}

fn heading(cpu: CpuOf, payload: bool, options: &Options) -> Vec<String> {
    let what = if options.hrt { format!("RTT/2, not one-way, in us; RTT: {RTT}") } else { format!("RTT in us: {RTT}") };
    let payload = if payload { "payload: bytes, request/reply if they differ; " } else { "" };
    vec![what, format!("{payload}turn: server's receive -> send, p50, in us; CPU: {}, in us", cpu.words())]
}

/// Accounts, losses, grants and warnings.
pub(crate) fn below(rows: &[(Name, &Row)], options: &Options) -> Vec<String> {
    let plain: Vec<&Row> = rows.iter().map(|(_, row)| *row).collect();
    let mut text = Vec::new();
    for account in accounts(&plain) {
        text.push(String::new());
        text.extend(wrap("", account.heading, WIDTH).iter().map(|line| paint(line, HEADING, options.colour)));
        text.extend(account.grid.lines(options.columns(), options.colour));
    }
    let mut sections = sections(rows);
    sections.extend(unreadable(rows, options));
    text.extend(lines(&sections, options.colour));
    text
}

/// Rows whose percentiles are blank since their histogram cannot be read.
pub(crate) fn unreadable(rows: &[(Name, &Row)], options: &Options) -> Option<Section> {
    let why = |(name, row): &(Name, &Row)| {
        times(row, options).1.map(|error| format!("{} {}: percentiles are blank: {error}", name.base, name.size))
    };
    let items: Vec<String> = rows.iter().filter_map(why).collect();
    (!items.is_empty()).then_some(Section { heading: "Unreadable", kind: Kind::Error, items })
}
