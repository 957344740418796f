//! A run: one row per result, column definitions above, warnings below.

use hairpin_record::core_states::CoreStates;
use hairpin_record::run::{Origin, Row, Run};

use crate::accounts::accounts;
use crate::brief::{self, Entry};
use crate::cell::{Cell, IntoCell};
use crate::columns::{CpuOf, RTT, cells, times, titles, turnaround};
use crate::doc::{Block, Column, Data, Doc, Fields, List, Show, Shown, Table, fields};
use crate::figure::{payload, time, time_range};
use crate::incidents;
use crate::label::{self, Name};
use crate::link::between;
use crate::median::median;
use crate::notes::{ended, lists, mark, merged, of_table, stacks_in_short, strayed};
use crate::one_way;
use crate::options::{Options, PERCENTILES};
use crate::own_request;
use crate::split::{self, splits};

impl Show for Run {
    fn doc(&self, options: &Options) -> Doc {
        let named: Vec<(Name, &Row)> = self.results.iter().map(|row| (label::name(row, None), row)).collect();
        let (names, rows): (Vec<Name>, Vec<&Row>) = named.iter().cloned().unzip();
        let states = CoreStates::of(rows.iter().map(|row| ((), *row)));
        let entries: Vec<Entry<'_>> = rows.iter().map(|row| (self, *row)).collect();
        let mut full = head(self);
        full.gap();
        results(&mut full, &named, None, &states, options);
        let mut doc = Doc::default();
        doc.part(Shown::Screen, brief::heading(&entries, options));
        doc.part(Shown::Full, full);
        doc.part(Shown::Brief, brief::table(&entries, &states, options));
        for (heading, table, short) in accounts(&rows) {
            let mut account = Doc::default();
            account.gap();
            account.heading(heading);
            account.table(table);
            if short {
                doc.blocks.extend(account.blocks);
            } else {
                doc.part(Shown::Full, account);
            }
        }
        doc.blocks.extend(splits(&rows).blocks);
        doc.blocks.extend(one_way::sentences(&names, &rows).blocks);
        doc.blocks.extend(incidents::sentences(&names, &rows).blocks);
        doc.part(Shown::Full, incidents::slowest(&rows));
        let mut full = Doc::default();
        full.list(one_way::bounds(&names, &rows));
        full.list(own_request::replies(&names, &rows));
        full.lists(of_table(&names, &rows));
        full.part(Shown::Screen, intervals(&names, &rows));
        doc.part(Shown::Full, full);
        let [stack, floor, strays, granted, warned] = lists(&names, &rows);
        doc.part(Shown::Brief, stacks_in_short(&names, &rows, |row| row.stack.as_deref()));
        let mut full = Doc::default();
        full.list(stack);
        doc.part(Shown::Full, full);
        doc.list(floor);
        doc.part(Shown::Brief, astray(&names, &rows));
        let mut full = Doc::default();
        full.list(strays);
        doc.part(Shown::Full, full);
        doc.lists([granted, warned]);
        doc.list(unreadable(&named, options));
        doc.list(ended(&self.head));
        let mut next = Doc::default();
        if !matches!(doc.blocks.last(), Some(Block::List(list)) if !list.short.is_empty()) {
            next.gap();
        }
        brief::next(&mut next, self, options);
        doc.part(Shown::Brief, next);
        doc.data = Some(Data::new(line(self, &Row::default(), options), self.results.iter().map(|row| line(self, row, options))));
        doc
    }
}

/// Stray replies in short; losses have a warning of their own.
fn astray(names: &[Name], rows: &[&Row]) -> Doc {
    let warned = |row: &Row| row.warnings.iter().any(|note| note.code == LOSS);
    let counts = |row: &Row| [if warned(row) { 0 } else { row.lost }, row.late, row.duplicates, row.reordered, row.corrupt];
    let mut doc = Doc::default();
    let lines = merged(names, rows, |row| strayed(counts(row), row.transactions));
    if !lines.is_empty() {
        doc.gap();
    }
    lines.into_iter().for_each(|line| doc.lead("stray: ", line));
    doc
}

/// The warning of lost requests.
const LOSS: &str = "loss";

/// The medians whose 95 % interval is wider than 2 %, which the short view has in its table.
fn intervals(names: &[Name], rows: &[&Row]) -> Doc {
    let words = |row: &Row| {
        let found = median(row)?;
        found.wide().map(|[low, high]| format!("{}, {} with 95 % confidence", time(found.ns), time_range(low, high)))
    };
    let mut doc = Doc::default();
    doc.list(List::plain("RTT p50 and its interval", merged(names, rows, |row| words(row).into_iter().collect())));
    doc
}

/// Tool, time, link, hosts and clock.
pub(crate) fn head(run: &Run) -> Doc {
    Doc::of(&run.head, between(&run.place))
}

/// The column definitions and the table. With `links`, each row shows its link in place of its payload.
pub(crate) fn results(doc: &mut Doc, rows: &[(Name, &Row)], links: Option<&[&str]>, states: &CoreStates, options: &Options) {
    let cpu = CpuOf::rows(rows.iter().map(|(_, row)| *row));
    doc.text(if options.hrt { format!("RTT/2, not one-way, in us; RTT: {RTT}") } else { format!("RTT in us: {RTT}") });
    let said = if links.is_none() { "payload: bytes, request/reply if they differ; " } else { "" };
    doc.text(format!("{said}turn: server's receive -> send, p50, in us; CPU: {}, in us", cpu.words()));
    let group = if options.hrt { "RTT/2, not one-way" } else { "RTT" };
    let second = if links.is_some() { Column::words("link") } else { Column::figures("payload").in_unit("B") };
    let mut columns = vec![Column::words("path"), second, Column::figures("trans/s")];
    columns.extend(titles(options).into_iter().map(|title| Column::us(title).under(group)));
    columns.extend(["turn", "CPU"].map(Column::us));
    let line = |(i, (_, row)): (usize, &(Name, &Row))| {
        let second: Cell = links.map_or_else(|| payload(row), |links| links[i].to_owned()).into();
        let labels = [(label::whole(row) + mark(states.apart(i))).into(), second, Cell::Rate(row.transactions_per_s)];
        let rest = [turnaround(row), cpu.per_transaction(row)].map(|ns| ns.into_cell(Cell::Ns));
        labels.into_iter().chain(cells(row, options)).chain(rest).collect::<Vec<_>>()
    };
    if !rows.is_empty() {
        doc.gap();
    }
    doc.table(Table::new(columns, 3, rows.iter().enumerate().map(line)));
}

/// Rows whose percentiles are blank because their histogram cannot be decoded.
fn unreadable(rows: &[(Name, &Row)], options: &Options) -> List {
    let why = |(name, row): &(Name, &Row)| {
        times(row, options).1.map(|error| format!("{} {}: percentiles are blank: {error}", name.base, name.size))
    };
    List::errors("Unreadable", rows.iter().filter_map(why).collect())
}

/// Names and values of a line for scripts; the names do not depend on the row. Requested percentiles beyond the usual ones and
/// half round trips (`hrt_…`: RTT/2, not one-way) are extra columns.
pub(crate) fn line(run: &Run, row: &Row, options: &Options) -> Fields {
    let origin = match row.origin {
        Origin::Measured => "measured",
        Origin::Emulated => "emulated",
        Origin::Published => "published",
    };
    let rtt = &row.rtt_ns;
    let mut line = fields([
        ("started", (&run.head.started).into()),
        ("link", (&run.place.link.kind).into()),
        ("path", (&row.path).into()),
        ("origin", origin.into()),
        ("request_bytes", row.request_bytes.into()),
        ("reply_bytes", row.reply_bytes.into()),
        ("flows", row.flows.into()),
        ("threads", row.threads.into()),
        ("outstanding", row.outstanding.into()),
        ("pace_per_s", row.pace_per_s.into()),
        ("transactions", row.transactions.into()),
        ("lost", row.lost.into()),
        ("late", row.late.into()),
        ("duplicates", row.duplicates.into()),
        ("reordered", row.reordered.into()),
        ("corrupt", row.corrupt.into()),
        ("duration_ns", row.duration_ns.into()),
        ("gap_ns", row.gap_ns.into()),
        ("transactions_per_s", row.transactions_per_s.into()),
        ("rtt_min_ns", rtt.min.into()),
        ("rtt_mean_ns", rtt.mean.into()),
        ("rtt_stddev_ns", rtt.stddev.into()),
    ]);
    let mut percentiles = PERCENTILES.to_vec();
    percentiles.extend(options.percentiles.iter().filter(|q| !PERCENTILES.contains(q)));
    let ask = |hrt: bool| times(row, &Options { percentiles: percentiles.clone(), hrt, ..options.clone() }).0;
    for (quantile, ns) in percentiles.iter().zip(ask(false).into_iter().skip(1)) {
        line.push((format!("rtt_{quantile}_ns"), ns.map(|ns| ns as u64).into()));
    }
    line.push(("rtt_max_ns".into(), rtt.max.into()));
    if options.hrt {
        let titles = ["min".to_string()].into_iter().chain(percentiles.iter().map(ToString::to_string)).chain(["max".into()]);
        line.extend(titles.zip(ask(true)).map(|(title, ns)| (format!("hrt_{title}_ns"), ns.into())));
    }
    let turnaround = row.turnaround_ns.as_ref();
    line.extend(fields([
        ("turnaround_p50_ns", turnaround.and_then(|times| times.p50).into()),
        ("turnaround_p99_ns", turnaround.and_then(|times| times.p99).into()),
        ("cpu_client_per_transaction_ns", row.cpu.client.per_transaction_ns.into()),
        ("cpu_server_per_transaction_ns", row.cpu.server.as_ref().and_then(|cpu| cpu.per_transaction_ns).into()),
    ]));
    let client = row.tcp.as_ref().map(|tcp| &tcp.client);
    for (side, tcp) in [("client", client), ("server", row.tcp.as_ref().and_then(|tcp| tcp.server.as_ref()))] {
        let name = |field: &str| format!("tcp_{side}_{field}");
        line.push((name("mss_bytes"), tcp.map(|tcp| tcp.mss).into()));
        line.push((name("segments_out_per_transaction"), tcp.and_then(|tcp| tcp.segments_out_per_transaction).into()));
        line.push((name("segments_in_per_transaction"), tcp.and_then(|tcp| tcp.segments_in_per_transaction).into()));
    }
    for part in ["connect", "exchange", "close"] {
        line.push((format!("{part}_p50_ns"), row.parts_ns.get(part).and_then(|times| times.p50).into()));
    }
    let codes: Vec<&str> = row.warnings.iter().map(|note| note.code.as_str()).collect();
    line.extend(fields([
        ("warnings", codes.join(" ").into()),
        // New columns go last, so that existing ones keep their positions.
        ("run", (&options.run).into()),
        ("client_hostname", (&run.place.hosts.client.hostname).into()),
        ("server_hostname", run.place.hosts.server.as_ref().map(|host| &host.hostname).into()),
    ]));
    let stacks = row.stack.as_deref();
    for (side, stack) in
        [("client", stacks.and_then(|both| both.client.as_ref())), ("server", stacks.and_then(|both| both.server.as_ref()))]
    {
        let name = |field: &str| format!("{side}_stack{field}");
        line.push((name(""), stack.map(|stack| &stack.name).into()));
        line.push((name("_received"), stack.map(|stack| stack.received).into()));
        line.push((name("_passed_kernel"), stack.and_then(|stack| stack.kernel).map(|passed| passed.count).into()));
    }
    line.extend(split::line(row.split.as_deref()));
    let one_way = row.one_way.as_deref();
    let times = |ns: Option<i64>| ns.into_cell(|ns| Cell::Ns(ns as f64));
    line.extend(fields([
        ("one_way_request_p50_ns", times(one_way.and_then(|found| found.request_ns.p50))),
        ("one_way_reply_p50_ns", times(one_way.and_then(|found| found.reply_ns.p50))),
        ("one_way_bound_ns", one_way.map(|found| found.bound_ns).into_cell(Cell::Ns)),
        ("reply", row.reply.as_ref().into()),
    ]));
    line
}
