//! The accounts that some rows have beside their round trips: TCP segments, the parts of a transaction, paced requests, an emulated NIC.

use hairpin_record::run::{Niq, Row, TcpSide};
use hairpin_units::Picos;

use crate::figure::{payload, rate, us_or_blank};
use crate::grid::{Column, Grid};
use crate::label::{paced, path};

/// A table with the sentence that says what it shows.
pub(crate) struct Account {
    pub(crate) heading: &'static str,
    pub(crate) grid: Grid,
}

/// Every account that some of these rows have.
pub(crate) fn accounts(rows: &[&Row]) -> Vec<Account> {
    [tcp(rows), parts(rows), from_due(rows), pcie(rows), emulated(rows)].into_iter().flatten().collect()
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
        let due = row.due.unwrap_or_default();
        let counts = [due.requests, due.unsent + due.unanswered, due.left_out].map(|count| count.to_string());
        let counts = if row.due.is_some() { counts } else { Default::default() };
        [path(row), payload(row)].into_iter().chain(figures).chain(counts).collect()
    });
    let lines: Vec<Vec<String>> = lines.collect();
    let columns = [Column::words("path"), Column::figures("payload")].into_iter();
    let columns = columns.chain(["min", "p50", "p90", "p99", "p99.9", "max"].map(Column::figures));
    let columns = columns.chain(["due", "never", "left out"].map(Column::figures)).collect();
    let heading = "From the time a paced request was due -> reply in the caller's buffer, in us; never: not answered when the run ended, counted with the time until \
                   then; left out: would have been due while the instrument did work of its own";
    account(heading, columns, lines)
}

/// `niq`: what a NIC of its design would make the client's PCI Express link carry.
fn pcie(rows: &[&Row]) -> Option<Account> {
    let lines = niq(rows).map(|(row, niq)| {
        let (own, sent, came) = (&niq.client, niq.client.frames_sent, niq.client.frames_received);
        let per =
            |count: u64, frames: u64| if frames == 0 { String::new() } else { format!("{:.2}", count as f64 / frames as f64) };
        let out = [own.posted_writes, own.credit_reads, own.descriptor_fetches, own.dma_reads].map(|count| per(count, sent));
        let back = [own.reads, own.credit_writes, own.dma_writes].map(|count| per(count, came));
        [paced(row), payload(row)].into_iter().chain(out).chain(back).collect()
    });
    let lines = lines.collect();
    let mut columns = vec![Column::words("path"), Column::figures("payload")];
    columns.extend(["write", "credit", "fetch", "DMA"].map(|title| Column::figures(title).under("sent")));
    columns.extend(["read", "credit", "DMA"].map(|title| Column::figures(title).under("received")));
    let heading = "PCI Express transactions of the client per frame, as a NIC of this design makes them (counted, emulated)";
    account(heading, columns, lines).map(|account| Account { grid: Grid { labels: 2, ..account.grid }, ..account })
}

/// `niq` with a declared latency: what was declared, and what stalls of the host do to the mean.
fn emulated(rows: &[&Row]) -> Option<Account> {
    let lines = niq(rows).filter_map(|(row, niq)| Some((row, niq, niq.nic.as_ref()?))).map(|(row, niq, nic)| {
        let us = |time: Picos| us_or_blank(Some(time.as_ns_f64()));
        let declared = match (niq.request_ns, niq.reply_ns) {
            (Some(request), Some(reply)) if request == reply => us(request),
            (Some(request), Some(reply)) => format!("{}/{}", us(request), us(reply)),
            _ => String::new(),
        };
        let half = |ns: Option<f64>| us_or_blank(ns.map(|ns| ns / 2.0));
        vec![
            paced(row),
            payload(row),
            crate::prose::clean(nic),
            declared,
            half(row.rtt_ns.p50.map(|ns| ns as f64)),
            half(row.rtt_ns.mean),
            half(niq.rtt_mean_without_stalled_ns),
            niq.stalled.map(|count| count.to_string()).unwrap_or_default(),
        ]
    });
    let lines = lines.collect();
    let mut columns = vec![Column::words("path"), Column::figures("payload"), Column::words("NIC")];
    columns.push(Column::figures("declared"));
    columns.extend(["p50", "mean"].map(|title| Column::figures(title).under("RTT/2")));
    columns.extend(["mean", "left out"].map(|title| Column::figures(title).under("without stalled")));
    let heading = "Emulated: declared one way and RTT/2, which is not one-way, in us; stalled: transactions that overlap a stall of over 2 us of either core";
    account(heading, columns, lines)
}

fn niq<'r>(rows: &'r [&'r Row]) -> impl Iterator<Item = (&'r Row, &'r Niq)> {
    rows.iter().filter_map(|row| row.niq.as_deref().map(|niq| (*row, niq)))
}

fn account(heading: &'static str, columns: Vec<Column>, rows: Vec<Vec<String>>) -> Option<Account> {
    (!rows.is_empty()).then_some(Account { heading, grid: Grid { columns, labels: 3, rows } })
}
