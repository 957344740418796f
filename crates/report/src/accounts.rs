//! The accounts that some rows have beside their round trips: TCP segments, the parts of a transaction, paced requests.

use hairpin_record::run::{Row, TcpSide};

use crate::figure::{payload, rate, us_or_blank};
use crate::grid::{Column, Grid};
use crate::label::path;

/// A table with the sentence that says what it shows.
pub(crate) struct Account {
    pub(crate) heading: &'static str,
    pub(crate) grid: Grid,
}

/// Every account that some of these rows have.
pub(crate) fn accounts(rows: &[&Row]) -> Vec<Account> {
    [tcp(rows), parts(rows), from_due(rows)].into_iter().flatten().collect()
}

/// TCP_INFO of both sides; the transaction rate leads, since segments are what it is paid in.
fn tcp(rows: &[&Row]) -> Option<Account> {
    let per = |figure: Option<f64>| figure.map(|x| format!("{x:.2}")).unwrap_or_default();
    let side = |side: Option<&TcpSide>| match side {
        None => std::array::from_fn(|_| String::new()),
        Some(side) => [
            side.mss.to_string(),
            per(side.segments_out_per_transaction),
            per(side.segments_in_per_transaction),
            side.retransmitted.to_string(),
        ],
    };
    let lines: Vec<Vec<String>> = rows
        .iter()
        .filter_map(|row| row.tcp.as_ref().map(|tcp| (row, tcp)))
        .map(|(row, tcp)| {
            let mut cells = vec![path(row), payload(row), rate(row.transactions_per_s)];
            cells.extend(side(Some(&tcp.client)));
            cells.extend(side(tcp.server.as_ref()));
            cells
        })
        .collect();
    let mut columns = vec![Column::words("path"), Column::figures("payload"), Column::figures("trans/s")];
    for group in ["client", "server"] {
        columns.extend(["MSS", "out", "in", "resent"].map(|title| Column::figures(title).under(group)));
    }
    let heading = "TCP segments out and in per transaction, pure ACKs included; MSS in bytes; resent: segments in all (TCP_INFO)";
    account(heading, columns, lines)
}

/// `tcp-crr`: connect, exchange and close, then whatever other parts a path has.
fn parts(rows: &[&Row]) -> Option<Account> {
    let rank = |name: &str| ["connect", "exchange", "close"].iter().position(|known| *known == name).unwrap_or(3);
    let mut names: Vec<&str> = rows.iter().flat_map(|row| row.parts_ns.keys()).map(String::as_str).collect();
    names.sort_by_key(|name| (rank(name), *name));
    names.dedup();
    let lines = rows.iter().filter(|row| !row.parts_ns.is_empty()).map(|row| {
        let part = |name: &&str| us_or_blank(row.parts_ns.get(*name).and_then(|times| times.p50).map(|ns| ns as f64));
        [path(row), payload(row)].into_iter().chain(names.iter().map(part)).collect()
    });
    let lines = lines.collect();
    let columns = [Column::words("path"), Column::figures("payload")].into_iter();
    let columns = columns.chain(names.iter().map(|name| Column::figures(crate::prose::clean(name)))).collect();
    account("Parts of a transaction, timed apart: p50 in us", columns, lines)
}

/// `--pace`: what a request waited for its turn counts as well.
fn from_due(rows: &[&Row]) -> Option<Account> {
    let lines = rows.iter().filter_map(|row| row.rtt_from_due_ns.as_ref().map(|times| (row, times))).map(|(row, times)| {
        let figures = [times.min, times.p50, times.p90, times.p99, times.p999, times.max];
        let figures = figures.map(|ns| us_or_blank(ns.map(|ns| ns as f64)));
        [path(row), payload(row), rate(row.transactions_per_s)].into_iter().chain(figures).collect()
    });
    let lines = lines.collect();
    let columns = [Column::words("path"), Column::figures("payload"), Column::figures("trans/s")].into_iter();
    let columns = columns.chain(["min", "p50", "p90", "p99", "p99.9", "max"].map(Column::figures)).collect();
    account("From the time a paced request was due -> reply in the caller's buffer, in us", columns, lines)
}

fn account(heading: &'static str, columns: Vec<Column>, rows: Vec<Vec<String>>) -> Option<Account> {
    (!rows.is_empty()).then_some(Account { heading, grid: Grid { columns, labels: 3, rows } })
}
