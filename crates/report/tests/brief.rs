//! The short view of a run on terminals of several widths, beside the full one.

use hairpin_record::core_states::APART;
use hairpin_record::histogram::Times;
use hairpin_record::run::{Block, CpuSide, Quantiles, Row, Run, Tcp, TcpSide};
use hairpin_record::side::Side;
use hairpin_record::warning::Warning;
use hairpin_report::{Options, markdown, term};
use hairpin_units::{Nanos, Quantile};
use insta::assert_snapshot;

use crate::screens::fits;

/// Options for a terminal of this width.
fn at(width: usize, brief: bool) -> Options {
    Options { width, brief, latest: true, ..Options::default() }
}

/// The host and link of the schema's example.
fn run(results: Vec<Row>) -> Run {
    let mut run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
    run.results = results;
    run
}

/// A row of `n` samples whose tail reaches 100 times the median.
fn row(path: &str, n: u64, p50_ns: u64) -> Row {
    let mut times = Times::new();
    (0..n).for_each(|i| {
        times.record(p50_ns * 19 / 20 + p50_ns * i / (10 * n) + if i * 2000 / n == 1999 { 99 * p50_ns } else { 0 })
    });
    let (rtt_ns, histogram) = (times.quantiles(), times.encode());
    let mut row = Row { path: format!("{path}/{path}"), rtt_ns, histogram, transactions: n, ..Row::default() };
    (row.request_bytes, row.reply_bytes, row.flows, row.threads, row.outstanding) = (64, 64, 1, 1, 1);
    (row.duration_ns, row.gap_ns, row.transactions_per_s) = (2_950_000_000, 48_000_000, 1e9 / p50_ns as f64);
    row.turnaround_ns = Some(Quantiles { p50: Some(10), ..Quantiles::default() });
    let blocks = (0..30).map(|i| Block { at_ns: i, p50: Some(p50_ns + p50_ns * (i % 4) / 1000), ..Block::default() });
    row.blocks = if n > 1000 { blocks.collect() } else { Vec::new() };
    let side = |cpu| CpuSide { cpus: vec![cpu], per_transaction_ns: Some(p50_ns as f64 * 0.4), ..CpuSide::default() };
    (row.cpu.client, row.cpu.server) = (side(0), Some(side(1)));
    if path.starts_with("tcp") {
        let one = Some(1.0);
        let side = TcpSide { mss: 32_741, segments_out_per_transaction: one, segments_in_per_transaction: one, retransmitted: 0 };
        row.tcp = Some(Tcp { client: side.clone(), server: Some(side) });
    }
    row
}

/// The default paths and a spinning one on a busy virtual machine.
fn usual() -> Run {
    let mut rows = vec![row("tcp:block", 38_000, 75_700), row("udp:block", 36_000, 78_900), row("udp:spin", 840_000, 3_350)];
    for (row, switches) in rows.iter_mut().zip([398, 411, 502]) {
        let note = |warning: Warning| warning.note();
        let sides = [Side::Client, Side::Server];
        if !row.path.contains("spin") {
            let idle = |side| Warning::DeepIdle { side, state: "C1".into(), exit: None, demand_unread: false };
            row.warnings.extend(sides.map(|side| note(idle(side))));
        }
        row.warnings.extend(sides.map(|side| note(Warning::InvoluntarySwitches { side, count: switches, cores: 1 })));
        row.warnings.push(note(Warning::NoTsc { why: "the hypervisor hides it".into() }));
        let (took, of) = (Nanos(98_000_000), Nanos(3_500_000_000));
        row.warnings.push(note(Warning::ForeignTime { side: Side::Client, took, of, cores: 1 }));
    }
    run(rows)
}

#[test]
fn the_usual_run_on_terminals_of_several_widths() {
    for columns in [60, 80, 140, 200] {
        assert_snapshot!(format!("brief_{columns}"), fits(&usual(), &at(columns, true)));
        assert_snapshot!(format!("full_{columns}"), fits(&usual(), &at(columns, false)));
    }
    let lines = term(&usual(), &at(80, true)).lines().count();
    // One more on stderr says where the run is kept.
    assert!(lines <= 13, "{lines} lines");
}

#[test]
fn only_the_median_is_bold() {
    let text = term(&usual(), &Options { colour: true, ..at(80, true) });
    let bold: Vec<&str> = text.split("\x1b[1m").skip(1).filter_map(|rest| rest.split('\x1b').next()).collect();
    assert_eq!(bold, ["75.7 us", "78.9 us", "3.35 us"]);
}

#[test]
fn facts_that_differ_between_rows_have_a_column() {
    let mut rows = vec![row("udp:block", 36_000, 78_900), row("udp:block", 36_000, 79_900), row("tcp:block", 36_000, 75_000)];
    (rows[1].request_bytes, rows[1].reply_bytes) = (1024, 16);
    rows[2].cpu.client.cpus = vec![1];
    rows[2].tcp.as_mut().unwrap().server.as_mut().unwrap().retransmitted = 3;
    rows[0].turnaround_ns.as_mut().unwrap().p50 = Some(9_000);
    (rows[1].outstanding, rows[1].flows) = (8, 2);
    assert_snapshot!(fits(&run(rows), &at(80, true)));
}

#[test]
fn ten_samples_have_a_median_with_its_interval() {
    let few = run(vec![row("udp:spin", 10, 8_100)]);
    let mut failed = few.clone();
    assert_snapshot!(fits(&few, &at(80, true)));
    assert!(term(&few, &at(80, false)).contains("RTT p50 and its interval"));
    // Pages and scripts keep the rule: ten samples beyond a quantile.
    assert!(!markdown(&few, &at(80, true)).contains("with 95 % confidence"));
    failed.head.error = Some("no reply for 5.000 s".into());
    failed.results.clear();
    assert_snapshot!(fits(&failed, &at(80, true)));
}

#[test]
fn a_wide_interval_stands_beside_its_median() {
    let mut moody = usual();
    moody.results[0].blocks.iter_mut().enumerate().for_each(|(i, block)| block.p50 = Some(60_000 + i as u64 * 1_000));
    let text = term(&moody, &at(80, true));
    assert!(text.contains("95 %") && !term(&usual(), &at(80, true)).contains("95 %"), "{text}");
    assert_snapshot!(fits(&moody, &at(80, true)));
    for row in &mut moody.results {
        (row.rtt_ns.p90, row.rtt_ns.p99) = (Some(735_000), Some(3_460_000));
        (row.rtt_ns.p999, row.rtt_ns.max, row.transactions_per_s) = (Some(4_100_000), Some(75_400_000), 11_593.0);
    }
    let narrow = term(&moody, &at(60, true));
    assert!(fits(&moody, &at(60, true)).contains("RTT p50") && !narrow.contains("95 %"), "{narrow}");
}

#[test]
fn rows_of_another_core_distance_are_marked_in_one_line() {
    let mut far = usual();
    for (at, row) in far.results.iter_mut().enumerate() {
        let ns = if at == 2 { (60.0 * APART * 4.0) as u64 } else { 60 };
        row.blocks.iter_mut().for_each(|block| block.core_rtt_ns = Some(ns));
    }
    let text = term(&far, &at(80, true));
    assert!(text.contains("udp:spin *") && text.contains("* another core distance: 384 to 384 ns"), "{text}");
}

#[test]
fn both_sides_on_one_core_are_said_without_advice() {
    let mut one = row("udp:block", 36_000, 3_700);
    one.cpu.server.as_mut().unwrap().cpus = vec![0];
    one.warnings.push(Warning::SharedCore { cpu: 0, spins: false }.note());
    let text = term(&run(vec![one]), &at(80, true));
    assert!(text.contains("both on CPU 0, one at a time, 3 s\n") && text.contains("! both sides on CPU 0"), "{text}");
    assert!(!text.contains("core of its own"), "{text}");
}

#[test]
fn next_commands_are_those_of_the_run() {
    let last = |run: &Run, options: Options| {
        term(run, &options).lines().skip_while(|line| !line.starts_with("next")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(last(&usual(), at(80, true)), ["next  hairpin explain loopback -p udp    hairpin report latest    (-v: all)"]);
    let stored =
        Options { run: "20260302-094107-1234".into(), started: "2026-03-02 10:41:07".into(), latest: false, ..at(80, true) };
    assert_eq!(last(&usual(), stored.clone()).concat().matches("20260302-094107-1234").count(), 1);
    assert!(term(&usual(), &stored).starts_with("20260302-094107-1234, 2026-03-02 10:41:07, loopback lo, 64 B"));
    assert_eq!(last(&usual(), Options { latest: false, ..at(80, true) }), ["next  hairpin explain loopback -p udp    (-v: all)"]);
    let mut remote = usual();
    (remote.place.link.kind, remote.place.link.peer) = ("host".into(), Some("10.0.0.2".into()));
    remote.head.command.extend(["--key-file", "k.key"].map(String::from));
    remote.results.truncate(1);
    remote.results[0].path = "udp:spin/udp:spin".into();
    let said = last(&remote, at(200, true)).concat();
    assert!(said.contains("hairpin explain 10.0.0.2 --key-file k.key -p udp:spin    hairpin report"), "{said}");
    // A foreign record cannot inject a command into the reader's shell.
    remote.place.link.peer = Some("$(reboot)".into());
    assert_eq!(last(&remote, at(80, true)), ["next  hairpin report latest    (-v: all)"]);
    remote.place.link.kind = "echo".into();
    assert_eq!(last(&remote, at(80, true)), ["next  hairpin report latest    (-v: all)"]);
}

#[test]
fn other_percentiles_and_half_round_trips_keep_their_names() {
    let options = Options { percentiles: vec![Quantile::P90, Quantile::P50], hrt: true, ..at(80, true) };
    let text = term(&usual(), &options);
    assert!(text.contains("RTT/2, not one-way") && text.contains("RTT/2 p90") && text.contains("39.5 us"), "{text}");
}
