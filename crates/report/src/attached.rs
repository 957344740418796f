//! The text of `hairpin explain --port` and `--pid`: an application's transactions stage by stage, its connections, the slow ones and their causes.

mod causes;

use hairpin_record::attached::{Attached, Connection, Process, Slow, Stage, Total, View};
use hairpin_record::run::Side;

use crate::Options;
use crate::bounce::words;
use crate::figure::{percent, us, us_or_blank};
use crate::grid::{Column, Grid};
use crate::notes::{Kind, Section, lines};
use crate::prose::{WIDTH, clean, width, wrap};
use crate::style::{HEADING, paint};

/// Connections and slow transactions that are shown; the record has more.
const SHOWN: usize = 5;
/// A bar is not set narrower than this.
const LEAST_BAR: usize = 8;

/// The whole.
pub fn attached(record: &Attached, options: &Options) -> String {
    let mut text = wrap("", &context(record), WIDTH);
    text.extend(wrap("", &counts(record), WIDTH));
    for total in &record.totals {
        text.push(String::new());
        text.extend(heading(total, record, options));
        text.extend(stages(total, options));
    }
    text.extend(connections(record, options));
    text.extend(slowest(record, options));
    text.extend(causes::table(record, options));
    let missing =
        record.missing.iter().map(|missing| format!("{}: {}; it would add {}", missing.hook, missing.why, missing.adds));
    let mut incomplete: Vec<String> = record.head.error.iter().cloned().collect();
    if record.head.interrupted {
        incomplete.push("ended early by the user; the figures are what was seen until then".into());
    }
    let sections = [
        causes::findings(record),
        Section { heading: "Not to be seen on this host", kind: Kind::Plain, items: missing.collect() },
        Section {
            heading: "Warnings",
            kind: Kind::Warning,
            items: record.warnings.iter().map(|note| note.message.clone()).collect(),
        },
        Section { heading: "Incomplete", kind: Kind::Error, items: incomplete },
    ];
    let sections: Vec<Section> = sections.into_iter().filter(|section| !section.items.is_empty()).collect();
    text.extend(lines(&sections, options.colour));
    text.join("\n") + "\n"
}

fn context(record: &Attached) -> String {
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
    [
        record.head.tool.clone(),
        record.head.started.clone(),
        record.host.hostname.clone(),
        format!("{what}, watched for {seconds:.2} s"),
    ]
    .join(", ")
}

/// Transactions, and what is none. Losses are said here, before any figure, where there are enough to matter.
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

fn heading(total: &Total, record: &Attached, options: &Options) -> Vec<String> {
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
    let what = format!("{role}{who}. Times in us, measured in the kernel; sum: {sum}; share: of the time of all transactions.");
    wrap("", &what, WIDTH).iter().map(|line| paint(line, HEADING, options.colour)).collect()
}

/// A line for each stage, and the sum; bars from where a stage begins to where it ends, by share.
fn stages(total: &Total, options: &Options) -> Vec<String> {
    let side = |side: Option<Side>| side.map_or("-".into(), |side| side.to_string());
    let row = |stage: &Stage| {
        let ns = &stage.ns;
        let time = |ns: Option<u64>| us_or_blank(ns.map(|ns| ns as f64));
        vec![clean(&stage.name), side(stage.side), ns.count.to_string(), time(ns.p50), time(ns.p99), percent(stage.share)]
    };
    let mut rows: Vec<Vec<String>> = total.stages.iter().map(row).collect();
    let sum = &total.sum_ns;
    let time = |ns: Option<u64>| us_or_blank(ns.map(|ns| ns as f64));
    rows.push(vec!["sum".into(), String::new(), sum.count.to_string(), time(sum.p50), time(sum.p99), "100".into()]);
    let titles = ["stage", "side", "count", "p50", "p99", "share %"];
    let widest = |at: usize| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0).max(width(titles[at]));
    let taken: usize = (0..titles.len()).map(|at| widest(at) + 2).sum();
    let room = WIDTH.saturating_sub(taken).max(LEAST_BAR);
    let mut begins = 0.0;
    for (row, stage) in rows.iter_mut().zip(&total.stages) {
        row.push(bar(begins, stage.share, room));
        begins += stage.share;
    }
    if let Some(row) = rows.last_mut() {
        row.push("#".repeat(room));
    }
    let mut columns: Vec<Column> = titles[..2].iter().map(|title| Column::words(title)).collect();
    columns.extend(titles[2..].iter().map(|title| Column::figures(*title)));
    columns.push(Column::words(&" ".repeat(room)));
    Grid { columns, labels: 1, rows }.lines(options.columns(), options.colour)
}

/// What is there shows, however little it is.
fn bar(begins: f64, share: f64, room: usize) -> String {
    let column = |at: f64| ((at.clamp(0.0, 1.0) * room as f64).round() as usize).min(room);
    let from = column(begins).min(room - 1);
    " ".repeat(from) + &"#".repeat(column(begins + share).saturating_sub(from).max(1))
}

fn ends(protocol: &str, client: &str, server: &str) -> String {
    format!("{} {} -> {}", clean(protocol), clean(client), clean(server))
}

fn connections(record: &Attached, options: &Options) -> Vec<String> {
    if record.connections.len() + record.other_connections as usize <= 1 {
        return record.connections.iter().flat_map(|connection| wrap("", &only(connection), WIDTH)).collect();
    }
    let shown = &record.connections[..record.connections.len().min(SHOWN)];
    let others = record.connections.len() - shown.len() + record.other_connections as usize;
    let more = if others > 0 { format!("; {others} others are not shown") } else { String::new() };
    let what = format!("Connections with most transactions, times in us{more}");
    let mut lines = vec![String::new()];
    lines.extend(wrap("", &what, WIDTH).iter().map(|line| paint(line, HEADING, options.colour)));
    let p50 = |total: &Total, name: &str, side: Side| {
        let of = total.stages.iter().find(|stage| stage.name == name && stage.side == Some(side));
        us_or_blank(of.and_then(|stage| stage.ns.p50).map(|ns| ns as f64))
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
        let time = |ns: Option<u64>| us_or_blank(ns.map(|ns| ns as f64));
        let mut cells =
            vec![ends(protocol, client, server), total.sum_ns.count.to_string(), time(total.sum_ns.p50), time(total.sum_ns.p99)];
        cells.extend(named.map(|(name, _)| p50(total, name, Side::Server)));
        cells
    };
    let mut columns = vec![Column::words("connection"), Column::figures("count")];
    columns.extend(["p50", "p99"].map(|title| Column::figures(title).under("sum")));
    columns.extend(named.map(|(_, title)| Column::figures(title).under("p50 on the server's side")));
    lines.extend(Grid { columns, labels: 1, rows: shown.iter().map(row).collect() }.lines(options.columns(), options.colour));
    lines
}

/// The only connection, in a sentence.
fn only(connection: &Connection) -> String {
    let Connection { protocol, server, client, server_process, client_process, .. } = connection;
    let who = |side: &str, process: &Option<Process>| {
        process.as_ref().map(|process| format!(", {side} {} ({})", clean(&process.comm), process.pid)).unwrap_or_default()
    };
    format!("all on {}{}{}", ends(protocol, client, server), who("server", server_process), who("client", client_process))
}

fn slowest(record: &Attached, options: &Options) -> Vec<String> {
    if record.slowest.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), paint("Slowest transactions, times in us", HEADING, options.colour)];
    for (at, slow) in record.slowest.iter().take(SHOWN).enumerate() {
        lines.extend(wrap(&format!("{:>3}. ", at + 1), &story(slow), WIDTH));
        let stages: Vec<String> = slow.stages.iter().map(|stage| format!("{} {}", stage.name, us(stage.ns as f64))).collect();
        lines.extend(wrap("     ", &stages.join(", "), WIDTH));
    }
    lines
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

/// Whoever is named there had the CPU before.
const RUN_QUEUE: &str = "run queue wait";
