//! One line per result for spreadsheets and scripts (RFC 4180, lines end in LF).

use hairpin_record::run::{Origin, Row, Run};

use crate::columns::times;
use crate::{Options, PERCENTILES};

/// The run as CSV: a line of names with their units, then a line per result; what is not known is empty.
///
/// Columns that may hold fractions have a point in every line, the others in none.
///
/// Asked percentiles beyond the usual ones and half round trips (`hrt_…`: RTT/2, not one-way) are further columns.
pub fn csv(run: &Run, options: &Options) -> String {
    let mut lines = Vec::new();
    let head: Vec<String> = fields(run, &Row::default(), options).into_iter().map(|(name, _)| name).collect();
    lines.push(line(&head));
    for row in &run.results {
        let values: Vec<String> = fields(run, row, options).into_iter().map(|(_, value)| value).collect();
        lines.push(line(&values));
    }
    lines.join("\n") + "\n"
}

pub(crate) fn line(values: &[String]) -> String {
    values.iter().map(|value| quote(value)).collect::<Vec<_>>().join(",")
}

fn quote(value: &str) -> String {
    if value.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.into() }
}

pub(crate) fn or_empty<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A figure that may have a fraction, always with a point: whoever guesses a column's type from some of its lines guesses right.
pub(crate) fn float(value: f64) -> String {
    let text = value.to_string();
    if value.is_finite() && !text.contains('.') { format!("{text}.0") } else { text }
}

pub(crate) fn float_or_empty(value: Option<f64>) -> String {
    value.map(float).unwrap_or_default()
}

/// Names and values of a line, in order; the names do not depend on the row.
fn fields(run: &Run, row: &Row, options: &Options) -> Vec<(String, String)> {
    let origin = match row.origin {
        Origin::Measured => "measured",
        Origin::Emulated => "emulated",
        Origin::Published => "published",
    };
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| fields.push((name.into(), value));
    add("started", run.head.started.clone());
    add("link", run.place.link.kind.clone());
    add("path", row.path.clone());
    add("origin", origin.into());
    add("request_bytes", row.request_bytes.to_string());
    add("reply_bytes", row.reply_bytes.to_string());
    add("flows", row.flows.to_string());
    add("threads", row.threads.to_string());
    add("outstanding", row.outstanding.to_string());
    add("pace_per_s", float_or_empty(row.pace_per_s));
    add("transactions", row.transactions.to_string());
    add("lost", row.lost.to_string());
    add("late", row.late.to_string());
    add("duplicates", row.duplicates.to_string());
    add("reordered", row.reordered.to_string());
    add("corrupt", row.corrupt.to_string());
    add("duration_ns", row.duration_ns.to_string());
    add("gap_ns", row.gap_ns.to_string());
    add("transactions_per_s", float(row.transactions_per_s));
    let rtt = &row.rtt_ns;
    add("rtt_min_ns", or_empty(rtt.min));
    add("rtt_mean_ns", float_or_empty(rtt.mean));
    add("rtt_stddev_ns", float_or_empty(rtt.stddev));
    let mut percentiles = PERCENTILES.to_vec();
    percentiles.extend(options.percentiles.iter().filter(|q| !PERCENTILES.contains(q)));
    let ask = |hrt: bool| times(row, &Options { percentiles: percentiles.clone(), hrt, ..options.clone() }).0;
    for (quantile, ns) in percentiles.iter().zip(ask(false).into_iter().skip(1)) {
        add(&format!("rtt_{quantile}_ns"), or_empty(ns));
    }
    add("rtt_max_ns", or_empty(rtt.max));
    if options.hrt {
        let titles = ["min".to_string()].into_iter().chain(percentiles.iter().map(ToString::to_string)).chain(["max".into()]);
        for (title, ns) in titles.zip(ask(true)) {
            add(&format!("hrt_{title}_ns"), float_or_empty(ns));
        }
    }
    let turnaround = row.turnaround_ns.as_ref();
    add("turnaround_p50_ns", or_empty(turnaround.and_then(|times| times.p50)));
    add("turnaround_p99_ns", or_empty(turnaround.and_then(|times| times.p99)));
    add("cpu_client_per_transaction_ns", float_or_empty(row.cpu.client.per_transaction_ns));
    add("cpu_server_per_transaction_ns", float_or_empty(row.cpu.server.as_ref().and_then(|cpu| cpu.per_transaction_ns)));
    let client = row.tcp.as_ref().map(|tcp| &tcp.client);
    for (side, tcp) in [("client", client), ("server", row.tcp.as_ref().and_then(|tcp| tcp.server.as_ref()))] {
        add(&format!("tcp_{side}_mss_bytes"), or_empty(tcp.map(|tcp| tcp.mss)));
        add(
            &format!("tcp_{side}_segments_out_per_transaction"),
            float_or_empty(tcp.and_then(|tcp| tcp.segments_out_per_transaction)),
        );
        add(
            &format!("tcp_{side}_segments_in_per_transaction"),
            float_or_empty(tcp.and_then(|tcp| tcp.segments_in_per_transaction)),
        );
    }
    for part in ["connect", "exchange", "close"] {
        add(&format!("{part}_p50_ns"), or_empty(row.parts_ns.get(part).and_then(|times| times.p50)));
    }
    let codes: Vec<&str> = row.warnings.iter().map(|note| note.code.as_str()).collect();
    add("warnings", codes.join(" "));
    // New columns come last: those before keep their places.
    add("run", options.run.clone());
    add("client_hostname", run.place.hosts.client.hostname.clone());
    add("server_hostname", run.place.hosts.server.as_ref().map(|host| host.hostname.clone()).unwrap_or_default());
    fields
}
