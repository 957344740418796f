//! The output of `hairpin explain` on a running application: the answer in four lines, the stages, the causes; then transactions
//! stage by stage, connections, slow transactions and their causes in detail.

mod answer;
mod causes;
mod service;
pub(crate) mod table;

use hairpin_record::attached::{Attached, Connection, Process, Slow, Stage, Total, View};
use hairpin_record::explain::Direction;
use hairpin_record::run::{Quantiles, Row, Side};

use crate::bounce::words;
use crate::cell::Cell;
use crate::doc::{Column, Data, Doc, List, Show, Shown, Table};
use crate::explain::{NOT_SEEN, hint};
use crate::figure::{time, us};
use crate::label::short;
use crate::next;
use crate::notes::has_an_end;
use crate::options::Options;
use crate::own_request;
use crate::prose::clean;
use crate::term::{LINES, height};

pub(crate) use answer::{parts_of, slow};
pub(crate) use service::service;

/// At most this many connections and slow transactions are shown; the record has more.
const SHOWN: usize = 5;

impl Show for Attached {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        let mut begin = Doc::of(&self.head, context(self));
        begin.text(counts(self));
        begin.gap();
        doc.part(Shown::Full, begin);
        let mut end = Doc::default();
        let mut incomplete: Vec<String> = self.head.error.iter().cloned().collect();
        if self.head.interrupted && has_an_end(&self.head.command) {
            incomplete.push("ended early by the user; the figures are those until then".into());
        }
        end.list(List::errors("Incomplete", incomplete));
        let mut next = hint(&self.missing, "every stage, connections, the slowest ones, all causes");
        next::show(&mut next, &answer::next(self), options);
        end.part(Shown::Brief, next);
        let mut answer = answer::show(self, options);
        if let Some(row) = &self.client {
            answer.gap();
            answer.lead("the client: ", client(row));
        }
        let lines = [&answer, &end].map(|part| height(part, options)).iter().sum();
        doc.blocks.extend(answer.blocks);
        doc.part(Shown::Screen, answer::screen(self, options, LINES.saturating_sub(lines)));
        let mut detail = Doc::default();
        for total in &self.totals {
            detail.gap();
            detail.heading(heading(total, self));
            detail.table(stages(total));
        }
        connections(&mut detail, self);
        slowest(&mut detail, self);
        causes::show(&mut detail, self, SHOWN);
        let missing = self.missing.iter().map(|hook| format!("{}: {}; it would add {}", hook.hook, hook.why, hook.adds));
        detail.list(causes::findings(self));
        detail.list(List::plain(NOT_SEEN, missing.collect()));
        detail.list(List::warnings("Warnings", self.warnings.iter().map(|note| note.message.clone()).collect()));
        doc.part(Shown::Full, detail);
        doc.blocks.extend(end.blocks);
        doc.data = Some(data(self));
        doc
    }
}

/// The figures of Hairpin's own client.
fn client(row: &Row) -> String {
    let quantile = |ns: Option<u64>| ns.map_or_else(|| "unknown".into(), |ns| time(ns as f64));
    let own =
        row.own_request.as_deref().map_or_else(String::new, |own| format!("; {}", own_request::sentence(own, &row.parts_ns)));
    format!(
        "{}: RTT p50 {}, p99 {}, {:.0} transactions/s{own}",
        clean(&short(&row.path)),
        quantile(row.rtt_ns.p50),
        quantile(row.rtt_ns.p99),
        row.transactions_per_s
    )
}

/// One line per view and stage, and one for the sum of each view.
fn data(record: &Attached) -> Data {
    let of = |total: &Total| {
        let view = match total.view {
            View::Both => "both",
            View::Server => "server",
            View::Client => "client",
        };
        let roles = total.roles.iter().map(Side::to_string).collect::<Vec<_>>().join(" ");
        let line = |stage: &str, side: Option<Side>, way: Option<Direction>, ns: &Quantiles, share: f64| -> [Cell; 10] {
            let side = side.map(|side| side.to_string());
            let way = way.map(|way| if way == Direction::Request { "request" } else { "reply" });
            let [p50, p99, max] = [ns.p50, ns.p99, ns.max].map(Cell::from);
            [view.into(), stage.into(), side.into(), ns.count.into(), p50, p99, max, share.into(), (&roles).into(), way.into()]
        };
        let stages = total.stages.iter().map(|stage| line(&stage.name, stage.side, stage.direction, &stage.ns, stage.share));
        stages.chain([line("sum", None, None, &total.sum_ns, 1.0)]).collect::<Vec<_>>()
    };
    let names = "view stage side count p50_ns p99_ns max_ns share roles direction";
    Data::table(names, record.totals.iter().flat_map(of))
}

fn context(record: &Attached) -> Vec<String> {
    let watched = &record.watched;
    let what = match (watched.port, watched.pid) {
        (Some(port), _) => format!("port {port}"),
        (_, pid) => {
            let roles: Vec<String> = watched.roles.iter().map(Side::to_string).collect();
            let roles = if roles.is_empty() { String::new() } else { format!(" as {}", roles.join(" and ")) };
            format!("{} ({}){roles}", watched.comm.as_deref().unwrap_or("a process"), pid.unwrap_or_default())
        }
    };
    let seconds = record.duration_ns as f64 / 1e9;
    vec![record.host.hostname.clone(), format!("{what}, watched for {seconds:.2} s")]
}

/// Counts of transactions and of messages that are not transactions. If losses are large enough to matter, they appear here,
/// before any figure.
fn counts(record: &Attached) -> String {
    let mut parts = vec![format!("{} transactions", record.transactions)];
    let meaning = |(what, count)| match what {
        "pipelined" => ("sent before the answer to the one before", count),
        what => (what, count),
    };
    let reasons = words(record.unmatched_by.causes().map(meaning), "")
        .map_or(String::new(), |reasons| format!("unmatched and left out ({reasons})"));
    let others = [
        (record.unmatched, reasons.as_str()),
        (record.open, "open at the end"),
        (record.lost, "lost on their way out of the kernel"),
    ];
    parts.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    parts.join(", ")
}

fn heading(total: &Total, record: &Attached) -> String {
    format!("{} {}", spanned(total, record), table::FIGURES)
}

/// The sides that were seen, and the span of the sum.
pub(crate) fn spanned(total: &Total, record: &Attached) -> String {
    let (who, sum) = match total.view {
        View::Both => ("Client and server are on this host", "the client's send -> its read of the reply"),
        View::Server => {
            ("The server is on this host, the client is elsewhere", "the request's arrival -> the reply's last packet")
        }
        View::Client => ("The client is on this host, the server is elsewhere", "the client's send -> its read of the reply"),
    };
    let roles: Vec<String> = total.roles.iter().map(Side::to_string).collect();
    let role = match (record.watched.pid, &record.watched.comm) {
        (Some(pid), comm) if !roles.is_empty() => {
            format!("{} ({pid}) as {}. ", clean(comm.as_deref().unwrap_or("the process")), roles.join(" and "))
        }
        _ => String::new(),
    };
    format!("{role}{who}. Measured in the kernel; sum: {sum}.")
}

fn stages(total: &Total) -> Table {
    let side = |stage: &Stage| stage.side.map_or(String::new(), |side| side.to_string());
    let line = |stage: &Stage| (stage.name.clone(), side(stage), stage.ns.count, [stage.ns.p50, stage.ns.p99], stage.share);
    let sum = &total.sum_ns;
    table::stages(total.stages.iter().map(line), (sum.count, [sum.p50, sum.p99]))
}

fn ends(protocol: &str, client: &str, server: &str) -> String {
    format!("{} {} -> {}", clean(protocol), clean(client), clean(server))
}

fn connections(doc: &mut Doc, record: &Attached) {
    if record.connections.len() + record.other_connections as usize <= 1 {
        return record.connections.iter().for_each(|connection| doc.text(only(connection)));
    }
    let shown = &record.connections[..record.connections.len().min(SHOWN)];
    let others = record.connections.len() - shown.len() + record.other_connections as usize;
    let more = if others > 0 { format!("; {others} others are not shown") } else { String::new() };
    doc.gap();
    doc.heading(format!("Connections with most transactions, times in us{more}"));
    let p50 = |total: &Total, name: &str, side: Side| {
        let of = total.stages.iter().find(|stage| stage.name == name && stage.side == Some(side));
        Cell::ns(of.and_then(|stage| stage.ns.p50))
    };
    let named = [
        ("stack", "stack"),
        ("queue", "queue"),
        ("wake-up + run queue", "wake-up"),
        ("application", "application"),
        ("stack out", "out"),
    ];
    let row = |connection: &Connection| {
        let Connection { protocol, server, client, total, .. } = connection;
        let sum = &total.sum_ns;
        let mut cells = vec![ends(protocol, client, server).into(), sum.count.into(), Cell::ns(sum.p50), Cell::ns(sum.p99)];
        cells.extend(named.map(|(name, _)| p50(total, name, Side::Server)));
        cells
    };
    let mut columns = vec![Column::words("connection"), Column::figures("count")];
    columns.extend(["p50", "p99"].map(|title| Column::us(title).under("sum")));
    columns.extend(named.map(|(_, title)| Column::us(title).under("p50 on the server's side")));
    doc.table(Table::new(columns, 1, shown.iter().map(row)));
}

/// One sentence for a record with a single connection.
fn only(connection: &Connection) -> String {
    let Connection { protocol, server, client, server_process, client_process, .. } = connection;
    let who = |side: &str, process: &Option<Process>| {
        process.as_ref().map(|process| format!(", {side} {} ({})", clean(&process.comm), process.pid)).unwrap_or_default()
    };
    format!("all on {}{}{}", ends(protocol, client, server), who("server", server_process), who("client", client_process))
}

fn slowest(doc: &mut Doc, record: &Attached) {
    if record.slowest.is_empty() {
        return;
    }
    doc.gap();
    doc.heading("Slowest transactions, times in us");
    for (at, slow) in record.slowest.iter().take(SHOWN).enumerate() {
        doc.lead(format!("{:>3}. ", at + 1), story(slow));
        let stages: Vec<String> = slow.stages.iter().map(|stage| format!("{} {}", stage.name, us(stage.ns as f64))).collect();
        doc.lead("     ", stages.join(", "));
    }
}

fn story(slow: &Slow) -> String {
    let by = if slow.who.is_empty() { String::new() } else { format!(" by {}", slow.who) };
    let by = if slow.cause == RUN_QUEUE { by.replacen(" by ", " behind ", 1) } else { by };
    let cause = match (slow.cause.as_str(), slow.cause_ns) {
        ("stopped", Some(ns)) => format!("stopped for {:.1} ms (SIGSTOP, or a debugger)", ns as f64 / 1e6),
        ("Nagle", Some(ns)) => {
            format!(
                "it came in parts, a later one held back for {:.1} ms until the one before was acknowledged: TCP_NODELAY",
                ns as f64 / 1e6
            )
        }
        (cause, _) => cause.into(),
    };
    format!(
        "{} at {:.3} s, {}: {} longer than usual by {}: {cause}{by}",
        us(slow.sum_ns as f64),
        slow.at_ns as f64 / 1e9,
        ends(&slow.protocol, &slow.client, &slow.server),
        slow.stage,
        us(slow.stage_excess_ns as f64)
    )
}

/// The cause that names in `who` the thread that had the CPU meanwhile.
const RUN_QUEUE: &str = "run queue wait";
