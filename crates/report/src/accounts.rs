//! Extra tables that some rows carry beside their round trips: TCP segments, the parts of a transaction, paced requests, one-way
//! delays, an emulated NIC, causes of incidents.

use hairpin_record::run::{Due, Niq, Row, TcpSide};
use hairpin_units::{Arrange, Picos};

use crate::cell::{Cell, IntoCell};
use crate::doc::{Column, Table};
use crate::figure::{payload, time, us};
use crate::incidents;
use crate::label::{paced, path};
use crate::one_way;
use crate::prose::clean;

/// A table, the sentence above it that explains it, and true if a terminal's short view has it too.
type Account = (&'static str, Table, bool);

/// Numbers of segments with a smaller ratio count as equal.
const UNLIKE: f64 = 1.1;

/// Every extra table that at least one of these rows has data for.
pub(crate) fn accounts(rows: &[&Row]) -> impl Iterator<Item = Account> {
    let incidents =
        ("Main causes of the incidents, and the time lost to them beyond the typical p50", incidents::causes(rows), true);
    let all = [tcp(rows), parts(rows), from_due(rows), directions(rows), pcie(rows), emulated(rows), incidents];
    all.into_iter().filter(|(_, table, _)| !table.rows.is_empty())
}

fn labels() -> Vec<Column> {
    vec![Column::words("path"), Column::figures("payload").in_unit("B")]
}

/// TCP_INFO of both sides. The transaction rate comes first, because each transaction is paid for in segments.
fn tcp(rows: &[&Row]) -> Account {
    let per = |figure: Option<f64>| figure.into_cell(|x| Cell::Fixed(x, 2));
    let side = |side: Option<&TcpSide>| match side {
        None => [const { Cell::Blank }; 4],
        Some(side) => [
            side.mss.into(),
            per(side.segments_out_per_transaction),
            per(side.segments_in_per_transaction),
            side.retransmitted.into(),
        ],
    };
    let lines = rows.iter().filter_map(|row| row.tcp.as_ref().map(|tcp| (row, tcp))).map(|(row, tcp)| {
        let labels = [path(row).into(), payload(row).into(), Cell::Rate(row.transactions_per_s)];
        labels.into_iter().chain(side(Some(&tcp.client))).chain(side(tcp.server.as_ref())).collect::<Vec<_>>()
    });
    let mut columns = labels();
    columns.push(Column::figures("trans/s"));
    for group in ["client", "server"] {
        columns.extend(["MSS", "out", "in", "resent"].map(|title| Column::figures(title).under(group)));
    }
    let heading = "TCP segments out and in per transaction, pure ACKs included; MSS in bytes; resent: segments in all (TCP_INFO)";
    (heading, Table::new(columns, 3, lines), segments_differ(rows))
}

/// True if the rows' numbers of segments differ, or segments were sent again.
fn segments_differ(rows: &[&Row]) -> bool {
    let all = || rows.iter().filter_map(|row| row.tcp.as_ref()).flat_map(|tcp| std::iter::once(&tcp.client).chain(&tcp.server));
    let out = || all().filter_map(|side| side.segments_out_per_transaction);
    let (least, most) = (out().fold(f64::INFINITY, f64::min), out().fold(0.0, f64::max));
    most > least * UNLIKE || all().any(|side| side.retransmitted > 0)
}

/// `--one-way`: both directions, and their difference.
fn directions(rows: &[&Row]) -> Account {
    let table = one_way::table(rows, labels(), |row| [path(row).into(), payload(row).into()]);
    (
        "One-way delays in us, each right to within ±; request: client's send call entered -> server's receive call returned",
        table,
        false,
    )
}

/// `tcp-crr`: connect, exchange and close, then any other parts a path has.
fn parts(rows: &[&Row]) -> Account {
    let order = ["connect", "handshake", "resumed handshake", "exchange", "close"];
    let rank = |name: &str| order.iter().position(|known| *known == name).unwrap_or(order.len());
    // One handshake has no median; the line on replies has its time.
    let told = |row: &&&Row| row.parts_ns.values().any(|times| times.p50.is_some());
    let parts = rows.iter().flat_map(|row| &row.parts_ns).filter(|(_, times)| times.p50.is_some());
    let mut names: Vec<&str> = parts.map(|(name, _)| name.as_str()).collect();
    names.arrange_by_key(|name| (rank(name), *name));
    names.dedup();
    let lines = rows.iter().filter(told).map(|row| {
        let part = |name: &&str| Cell::ns(row.parts_ns.get(*name).and_then(|times| times.p50));
        [path(row).into(), payload(row).into()].into_iter().chain(names.iter().map(part)).collect::<Vec<_>>()
    });
    let columns = labels().into_iter().chain(names.iter().map(|name| Column::us(clean(name)))).collect();
    ("Parts of a transaction, timed apart: p50 in us", Table::new(columns, 3, lines), true)
}

/// `--rate`: RTT from the due time, so a request's wait for its turn counts as well.
fn from_due(rows: &[&Row]) -> Account {
    let lines = rows.iter().filter_map(|row| row.rtt_from_due_ns.as_ref().map(|times| (row, times))).map(|(row, times)| {
        let timed = |ns: Option<u64>| ns.into_cell(|ns| time(ns as f64).into());
        let figures = [times.min, times.p50, times.p90, times.p99, times.p999, times.max].map(timed);
        let counts = row.due.map(|due| [due.requests, due.unsent + due.unanswered, due.left_out].map(Cell::Count));
        let counts = counts.unwrap_or_default();
        [path(row).into(), payload(row).into()].into_iter().chain(figures).chain(counts).collect::<Vec<_>>()
    });
    // A terminal has no room for minima, and for counts that are 0 in every row.
    let counts = |of: fn(&Due) -> u64| rows.iter().filter_map(|row| row.due.as_ref()).any(|due| of(due) > 0);
    let column = |title: &'static str, shown: bool| if shown { Column::figures(title) } else { Column::page(title) };
    let columns = labels().into_iter().chain([Column::page("min")]);
    let columns = columns.chain(["p50", "p90", "p99", "p99.9", "max", "due"].map(Column::figures));
    let lost = [column("never", counts(|due| due.unsent + due.unanswered)), column("left out", counts(|due| due.left_out))];
    let columns = columns.chain(lost).collect();
    let heading = "From the time a paced request was due -> reply in the caller's buffer; never: not answered when the run ended, counted with the time until \
                   then; left out: would have been due while the instrument did work of its own";
    (heading, Table::new(columns, 3, lines), true)
}

/// `niq`: the traffic that a NIC of this design would put on the client's PCI Express link.
fn pcie(rows: &[&Row]) -> Account {
    let lines = niq(rows).map(|(row, niq)| {
        let (own, sent, came) = (&niq.client, niq.client.frames_sent, niq.client.frames_received);
        let per = |count: u64, frames: u64| (frames > 0).then(|| count as f64 / frames as f64).into_cell(|x| Cell::Fixed(x, 2));
        let out = [own.posted_writes, own.credit_reads, own.descriptor_fetches, own.dma_reads].map(|count| per(count, sent));
        let back = [own.reads, own.credit_writes, own.dma_writes].map(|count| per(count, came));
        [paced(row).into(), payload(row).into()].into_iter().chain(out).chain(back).collect::<Vec<_>>()
    });
    let mut columns = labels();
    columns.extend(["write", "credit", "fetch", "DMA"].map(|title| Column::figures(title).under("sent")));
    columns.extend(["read", "credit", "DMA"].map(|title| Column::figures(title).under("received")));
    let heading = "PCI Express transactions of the client per frame, as a NIC of this design makes them (counted, emulated)";
    (heading, Table::new(columns, 2, lines), false)
}

/// `niq` with a declared latency: the declared value, and the effect of host stalls on the mean.
fn emulated(rows: &[&Row]) -> Account {
    let lines = niq(rows).filter_map(|(row, niq)| Some((row, niq, niq.nic.as_ref()?))).map(|(row, niq, nic)| {
        let declared = match (niq.request_ns, niq.reply_ns) {
            (Some(request), Some(reply)) if request == reply => Cell::Ns(request.as_ns_f64()),
            (Some(request), Some(reply)) => [request, reply].map(Picos::as_ns_f64).map(us).join("/").into(),
            _ => Cell::Blank,
        };
        let half = |ns: Option<f64>| ns.into_cell(|ns| Cell::Ns(ns / 2.0));
        vec![
            paced(row).into(),
            payload(row).into(),
            nic.into(),
            declared,
            half(row.rtt_ns.p50.map(|ns| ns as f64)),
            half(row.rtt_ns.mean),
            half(niq.rtt_mean_without_stalled_ns),
            niq.stalled.into(),
        ]
    });
    let mut columns = labels();
    columns.extend([Column::words("NIC"), Column::us("declared")]);
    columns.extend(["p50", "mean"].map(|title| Column::us(title).under("RTT/2")));
    columns.extend([Column::us("mean"), Column::figures("left out")].map(|column| column.under("without stalled")));
    let heading = "Emulated: declared one way and RTT/2, which is not one-way, in us; stalled: transactions that overlap a stall of over 2 us of either core";
    (heading, Table::new(columns, 3, lines), true)
}

fn niq<'r>(rows: &'r [&'r Row]) -> impl Iterator<Item = (&'r Row, &'r Niq)> {
    rows.iter().filter_map(|row| row.niq.as_deref().map(|niq| (*row, niq)))
}
