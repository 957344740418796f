//! The output of each format: the golden text.
//!
//! After a change of a format run `INSTA_UPDATE=always cargo test -p hairpin-report` and review the difference.

use crate::formats::formats;
use hairpin_record::bounce::{Bounce, BounceBody, BounceSecond, Bounced, Kept};
use hairpin_record::check::{Check, CheckBody, Delay, Elapsed, Latency, Verdict};
use hairpin_record::frames::{self, Lost, Refused, Rings};
use hairpin_record::head::{Body, Head};
use hairpin_record::histogram::Times;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Cpu, CpuSide, Niq, Origin, Pcie, Quantiles, Row, Run, Tcp, TcpSide};
use hairpin_record::stream::{Direction, Step, Stream, StreamBody, StreamRow, Trial};
use hairpin_record::warning::Warning;
use hairpin_report::{Options, PathOption, PathRow, Paths, RunList, RunRow, Support, Tool};
use hairpin_units::{Picos, Quantile};
use insta::assert_snapshot;

/// The hand-written example of the record's schema.
fn example() -> Run {
    serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap()
}

/// The example's host and link around other rows.
fn run(rows: Vec<Row>) -> Run {
    let mut run = example();
    run.results = rows;
    run
}

/// A row of `n` samples around `p50_ns`.
pub fn row(path: &str, n: u64, p50_ns: u64) -> Row {
    let mut times = Times::new();
    (0..n).for_each(|i| times.record(p50_ns * 9 / 10 + p50_ns * i / (5 * n)));
    let rtt_ns = times.quantiles();
    let duration_ns = n * p50_ns;
    let cpu = |ns: u64| CpuSide { per_transaction_ns: Some(ns as f64), switches_voluntary: n, ..CpuSide::default() };
    let mut row = Row {
        path: path.into(),
        request_bytes: 64,
        reply_bytes: 64,
        flows: 1,
        threads: 1,
        outstanding: 1,
        transactions: n,
        duration_ns,
        transactions_per_s: if n == 0 { 0.0 } else { n as f64 * 1e9 / duration_ns as f64 },
        rtt_ns,
        turnaround_ns: Some(Quantiles { p50: Some(p50_ns / 20), ..Quantiles::default() }),
        histogram: times.encode(),
        ..Row::default()
    };
    row.cpu.client = cpu(p50_ns / 2);
    row.cpu.server = Some(cpu(p50_ns / 2));
    row
}

fn paced(mut row: Row, per_s: f64) -> Row {
    row.rtt_from_due_ns = Some(row.rtt_ns.clone());
    row.pace_per_s = Some(per_s);
    row.transactions_per_s = per_s;
    row
}

fn over(kind: &str, rows: Vec<Row>) -> Run {
    let mut run = run(rows);
    run.place.link.kind = kind.into();
    run.place.link.interface = None;
    run.place.link.peer = None;
    run
}

/// Asserts that no line on a terminal is wider than 80 columns.
fn fits(text: &str) -> &str {
    for line in text.lines() {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= 80, "{line}");
        assert_eq!(line, line.trim_end(), "no spaces at the end");
    }
    text
}

fn quantiles(list: &[f64]) -> Vec<Quantile> {
    list.iter().map(|q| Quantile::new(*q).unwrap()).collect()
}

#[test]
fn table_of_the_example() {
    assert_snapshot!(fits(&hairpin_report::term(&example(), &Options::default())));
}

#[test]
fn table_as_most_users_see_it() {
    let rows = vec![row("tcp:block/tcp:block", 200_000, 53_812), row("udp:block/udp:block", 200_000, 48_404)];
    assert_snapshot!(fits(&hairpin_report::term(&run(rows), &Options::default())));
}

#[test]
fn table_of_half_round_trips() {
    let options = Options { hrt: true, ..Options::default() };
    let text = hairpin_report::term(&example(), &options);
    assert!(text.contains("RTT/2, not one-way"));
    assert_snapshot!(fits(&text));
}

#[test]
fn table_of_other_percentiles() {
    let few = Options { percentiles: quantiles(&[0.25, 0.5, 0.9999]), ..Options::default() };
    assert_snapshot!(fits(&hairpin_report::term(&example(), &few)));
    let many = quantiles(&[0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999]);
    assert_snapshot!(hairpin_report::term(&example(), &Options { percentiles: many, width: 120, ..Options::default() }));
}

#[test]
fn table_of_many_sizes() {
    let sized = |bytes: u64| {
        let mut row = row("udp:spin/udp:spin", 400 + bytes, 4_900 + bytes);
        (row.request_bytes, row.reply_bytes) = (bytes, bytes);
        let note = Warning::TooFewSamples { quantile: Quantile::P99, count: row.transactions }.note();
        row.warnings.extend([note, Warning::NoTsc { why: "the hypervisor hides it".into() }.note()]);
        row.reordered = u64::from(bytes == 256);
        row
    };
    let mut rows: Vec<Row> = [64, 128, 256, 512, 1024].map(sized).into();
    rows[0].warnings.push(Warning::Loss { lost: 3, sent: 467, rcvbuf: true }.note());
    (rows[0].lost, rows[0].late, rows[0].duplicates) = (3, 1, 2);
    rows[1].warnings.push(Warning::SharedCore { cpu: 1, spins: true }.note());
    rows[3].warnings.push(Warning::SharedCore { cpu: 1, spins: true }.note());
    assert_snapshot!(fits(&hairpin_report::term(&run(rows), &Options::default())));
}

#[test]
fn table_of_tcp_accounts() {
    let accounts = |bytes: u64, quickack: &str, segments: f64| {
        let path = format!("tcp:block,quickack={quickack}");
        let mut row = row(&format!("{path}/{path}"), 20_000, 51_000 + bytes);
        (row.request_bytes, row.reply_bytes) = (bytes, bytes);
        let side = TcpSide {
            mss: 1460,
            segments_out_per_transaction: Some(segments),
            segments_in_per_transaction: Some(segments),
            retransmitted: 0,
        };
        row.tcp = Some(Tcp { client: side.clone(), server: Some(side) });
        row
    };
    let rows = [4, 40, 100, 1024, 1460].iter().flat_map(|bytes| [accounts(*bytes, "off", 1.0), accounts(*bytes, "on", 2.0)]);
    assert_snapshot!(fits(&hairpin_report::term(&run(rows.collect()), &Options::default())));
}

/// A row of the emulated NIC; a latency of 0 emulates none.
fn emulated(path: &str, bytes: u64, nic: &str, one_way_ns: i64) -> Row {
    let mut row = row(&format!("{path}/{path}"), 40_000, 400 + 2 * one_way_ns as u64);
    (row.request_bytes, row.reply_bytes) = (bytes, bytes);
    let frames = row.transactions;
    let dma = if bytes > 18 { frames * bytes.div_ceil(256) } else { 0 };
    let client = Pcie {
        frames_sent: frames,
        frames_received: frames,
        posted_writes: frames,
        reads: frames,
        descriptor_fetches: if bytes > 18 { frames } else { 0 },
        dma_reads: dma,
        dma_writes: dma,
        credit_writes: frames / 16,
        credit_reads: frames / 64,
    };
    let declared = (one_way_ns > 0).then(|| Picos::from_ns(one_way_ns));
    // Two sides that spin watch for stalls.
    let watched = declared.filter(|_| path.contains("spin"));
    row.niq = Some(Box::new(Niq {
        nic: declared.map(|_| nic.into()),
        request_ns: declared,
        reply_ns: declared,
        own_ns: None,
        client: client.clone(),
        server: Some(client),
        stalled: watched.map(|_| 102),
        rtt_mean_without_stalled_ns: watched.map(|_| 404.6 + 2.0 * one_way_ns as f64),
    }));
    if declared.is_some() {
        row.origin = Origin::Emulated;
    }
    row
}

#[test]
fn table_of_an_emulated_nic() {
    let with = vec![
        emulated("niq:spin", 18, "niq", 1_989),
        emulated("niq:spin", 22, "niq", 3_059),
        emulated("niq:block", 18, "niq", 1_989),
    ];
    assert_snapshot!(fits(&hairpin_report::term(&run(with), &Options::default())));
    let mut large = emulated("niq:spin", 8_958, "a-card-of-their-own", 12_345_678);
    large.reply_bytes = 18;
    large.niq.as_mut().unwrap().reply_ns = Some(Picos::from_ns(1_989));
    let text = hairpin_report::term(&run(vec![paced(large, 1000.0)]), &Options::default());
    assert_snapshot!(fits(&text));
    // Without a declared NIC only the counts are emulated.
    let text = hairpin_report::term(&run(vec![emulated("niq:spin", 64, "", 0)]), &Options::default());
    assert!(text.contains("(counted, emulated)") && !text.contains("[emulated]") && !text.contains("declared"), "{text}");
}

#[test]
fn pingpong_lines_name_the_emulated_design() {
    let rows = vec![
        emulated("niq:spin", 1, "sniffer10g", 5_170),
        emulated("niq:spin", 2, "sniffer10g", 5_170),
        emulated("niq:spin", 4, "", 0),
    ];
    assert_snapshot!(Tool::SnfPingpong.text(&run(rows)));
}

#[test]
fn table_without_results() {
    let mut failed = run(Vec::new());
    failed.head.error = Some("no reply from 2001:db8::7 for 5.000 s; is hairpin serve running there?".into());
    assert_snapshot!(fits(&hairpin_report::term(&failed, &Options::default())));
}

#[test]
fn table_of_an_interrupted_run_of_hostile_words() {
    let mut run = run(vec![row("udp:block/udp:block", 15, 48_000)]);
    run.head.interrupted = true;
    run.head.error = Some("the server said \x1b]0;owned\x07 and\nleft 網路延遲".into());
    run.place.hosts.client.hostname = "測試主機-".repeat(12);
    run.place.hosts.server = None;
    run.place.link.kind = "echo".into();
    run.place.link.peer = Some("[2001:db8:1111:2222:3333:4444:5555:6666%eth0]:65535".into());
    run.results[0].cpu.server = None;
    run.results[0].turnaround_ns = None;
    let text = hairpin_report::term(&run, &Options::default());
    assert!(!text.contains('\x1b'));
    assert_snapshot!(fits(&text));
}

#[test]
fn table_of_huge_and_tiny_figures() {
    let mut huge = row("udp:busy-poll,usecs=50/udp:busy-poll,usecs=50", 20_000, 58_000_000_000);
    (huge.request_bytes, huge.reply_bytes) = (65_507, 65_507);
    huge.reply_bytes = 1;
    huge.rtt_ns.max = Some(123_456_789_012);
    let rows = vec![row("memory:spin/memory:spin", 5_000_000, 152), huge, row("udp/udp", 0, 1)];
    assert_snapshot!(fits(&hairpin_report::term(&run(rows), &Options::default())));
}

#[test]
fn table_of_work_beyond_one_request() {
    let mut many = row("udp:epoll/udp:epoll", 100_000, 20_000);
    (many.threads, many.flows, many.outstanding) = (2, 16, 8);
    let mut published = row("tcp", 100_000, 143_300);
    published.origin = Origin::Published;
    let mut unreadable = row("udp:spin/udp:spin", 100_000, 5_000);
    unreadable.histogram = "***".into();
    let rows = vec![many, published, unreadable];
    let options = Options { percentiles: quantiles(&[0.5, 0.95]), ..Options::default() };
    assert_snapshot!(fits(&hairpin_report::term(&run(rows), &options)));
}

#[test]
fn colour_is_only_added() {
    let plain = hairpin_report::term(&example(), &Options::default());
    let coloured = hairpin_report::term(&example(), &Options { colour: true, ..Options::default() });
    assert!(!plain.contains('\x1b') && coloured.contains("\x1b[1m"));
    let mut stripped = coloured.clone();
    while let Some(start) = stripped.find("\x1b[") {
        let end = start + stripped[start..].find('m').unwrap();
        stripped.replace_range(start..=end, "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn markdown_of_the_example() {
    assert_snapshot!(hairpin_report::markdown(&example(), &Options::default()));
}

#[test]
fn every_format_of_every_record() {
    formats(&example());
    formats(&run(Vec::new()));
    formats(&demo_runs()[..]);
    formats(&checked([0.6, -1.25, 12.0]));
    formats(&bounce_of(bounced()));
    formats(&streams());
    formats(&stream_of(Vec::new()));
    formats(&RunList::new(Vec::new()));
    formats(&Paths::new(Vec::new()));
}

#[test]
fn csv_of_the_example() {
    let text = hairpin_report::csv(&example(), &Options::default());
    assert_snapshot!(text);
    let more = Options { hrt: true, percentiles: quantiles(&[0.9999]), ..Options::default() };
    let text = hairpin_report::csv(&example(), &more);
    let head = text.lines().next().unwrap();
    assert!(head.contains(",rtt_p99.9_ns,rtt_p99.99_ns,rtt_max_ns,hrt_min_ns,hrt_p50_ns,"), "{head}");
}

#[test]
fn csv_columns_of_fractions_have_a_point_and_the_run_is_named() {
    let rates = |whole: f64, part: f64| {
        let mut rows = vec![row("udp:spin/udp:spin", 64, 5000), row("udp:spin/udp:spin", 64, 5000)];
        for (row, rate) in rows.iter_mut().zip([whole, part]) {
            row.transactions_per_s = rate;
            row.pace_per_s = Some(rate);
            row.cpu.client.per_transaction_ns = Some(rate);
        }
        hairpin_report::csv(&run(rows), &Options { run: "20260302-094107-1234".into(), hrt: true, ..Options::default() })
    };
    let text = rates(1000.0, 1000.5);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    for name in ["pace_per_s", "transactions_per_s", "cpu_client_per_transaction_ns", "hrt_p50_ns"] {
        let column = lines[0].iter().position(|head| *head == name).unwrap_or_else(|| panic!("no {name}: {text}"));
        assert!(lines[1..].iter().all(|line| line[column].contains('.')), "{name}: {text}");
    }
    let run = lines[0].iter().position(|head| *head == "run").unwrap();
    assert_eq!(lines[0][run..run + 3], ["run", "client_hostname", "server_hostname"]);
    assert!(
        lines[0][run + 3..]
            .iter()
            .all(|head| ["split_", "one_way_", "reply"].iter().any(|of| head.starts_with(of)) || head.contains("_stack")),
        "{:?}",
        lines[0]
    );
    assert!(lines[1..].iter().all(|line| line[run] == "20260302-094107-1234"), "{text}");
}

#[test]
fn csv_keeps_commas_and_quotes_inside_their_field() {
    let mut row = row("udp:spin,sndbuf=4M/udp:spin,sndbuf=4M", 100, 5000);
    row.path.push('"');
    let text = hairpin_report::csv(&run(vec![row]), &Options::default());
    assert!(text.lines().nth(1).unwrap().contains(r#","udp:spin,sndbuf=4M/udp:spin,sndbuf=4M""","#), "{text}");
    assert_eq!(hairpin_report::csv(&run(Vec::new()), &Options::default()).lines().count(), 1);
}

#[test]
fn csv_of_another_hosts_words_steers_neither_a_terminal_nor_a_spreadsheet() {
    let mut run = run(vec![row("udp:spin/udp:spin", 100, 5_000)]);
    run.place.hosts.client.hostname = "=1+1\u{1b}[2J".into();
    let text = hairpin_report::csv(&run, &Options::default());
    assert!(text.contains(",'=1+1\u{FFFD}[2J,"), "{text}");
}

#[test]
fn pingpong_lines_read_like_the_published_ones() {
    let sized = |bytes: u64| {
        let mut row = row("udp:spin/udp:spin", 100_000, 10_340 + bytes);
        row.request_bytes = bytes;
        row
    };
    let rows = [1, 64, 2048].map(sized);
    let text = Tool::SnfPingpong.text(&run(rows.clone().into()));
    assert_snapshot!(text);
    let mean = rows[0].rtt_ns.mean.unwrap() / 2000.0;
    assert!(text.starts_with(&format!("elapsed = 1034100 us, {mean:.2} per HRT (min:4.65, max:5.69), size 1\n")), "{text}");
    let several = vec![row("tcp/tcp", 100, 50_000), row("udp/udp", 0, 0)];
    assert_snapshot!(Tool::SnfPingpong.text(&run(several)));
}

#[test]
fn json_reads_back_as_the_run() {
    let run = example();
    assert_eq!(serde_json::from_str::<Run>(&hairpin_report::json(&run)).unwrap(), run);
    let line = hairpin_report::json_line(&run);
    assert_eq!(line.trim_end().lines().count(), 1);
    assert_eq!(serde_json::from_str::<Run>(&line).unwrap(), run);
    let progress = Progress {
        schema: Progress::SCHEMA.into(),
        path: "udp:spin/udp:spin".into(),
        request_bytes: 64,
        at_ns: 1_000_000_000,
        transactions: 15,
        lost: 0,
        transactions_per_s: 15.0,
        rtt_ns: row("udp", 15, 5000).rtt_ns,
        ..Progress::default()
    };
    assert_snapshot!(hairpin_report::json_line(&progress));
}

#[test]
fn listing_of_paths() {
    let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let option = |name| PathOption { name, values: "on|off".into(), default: "off".into(), doc: String::new() };
    let row = |path: &str, speaks: &str, support: (Support, Option<&str>), summary: &str| PathRow {
        path: path.into(),
        speaks: speaks.into(),
        policies: words("block poll epoll spin busy-poll adaptive"),
        options: words("nodelay quickack cork congestion mss sndbuf rcvbuf dscp priority usecs")
            .into_iter()
            .map(option)
            .collect(),
        support: support.0,
        why: support.1.map(String::from),
        summary: summary.into(),
    };
    let mut memory = row("memory", "local", (Support::Yes, None), "One cache line between two cores: the floor of floors.");
    memory.policies = words("spin");
    memory.options.clear();
    let rows = [
        row("tcp", "tcp", (Support::Yes, None), "One connection per flow, a request and its reply in turn."),
        row(
            "udp",
            "udp",
            (Support::Degraded, Some("busy polling is not in force on loopback: no NAPI id; use veth with gro=on,tso=off")),
            "Datagrams over one connected socket per flow, with losses, late replies and duplicates counted apart.",
        ),
        row("packet", "raw", (Support::No, Some("needs CAP_NET_RAW: run as root or use --path udp")), "Frames over AF_PACKET."),
        memory,
    ];
    let paths = Paths::new(rows.into()).root_adds(vec!["packet", "xdp", "stages of explain", "tune apply"]);
    assert_snapshot!(fits(&hairpin_report::term(&paths, &Options::default())));
    assert_snapshot!(fits(&hairpin_report::term(&Paths::new(Vec::new()), &Options::default())));
}

#[test]
fn listing_of_runs() {
    let stored = |id: &str, first: Option<(&str, Option<u64>)>| RunRow::Run {
        schema: "hairpin.run/1".into(),
        id: id.into(),
        started: "2026-03-02T09:41:07Z".into(),
        local: "2026-03-02 10:41:07".into(),
        command: example().head.command,
        rows: usize::from(first.is_some()),
        first_path: first.map(|(path, _)| path.into()),
        first_p50_ns: first.and_then(|(_, ns)| ns),
    };
    let rows = [
        stored("20260302T094107Z-5f2a", Some(("udp:spin/udp:spin", Some(4_883)))),
        stored("20260302T094207Z-01bc", Some(("udp:busy-poll,usecs=50/udp:busy-poll,usecs=50", None))),
        stored("20260302T094307Z-77e0", None),
        RunRow::Corrupt { id: "20260302T094407Z-9d1c".into(), error: "run.json ends at byte 4096 of a string".into() },
    ];
    assert_snapshot!(fits(&hairpin_report::term(&RunList::new(rows.into()), &Options::default())));
    assert_snapshot!(fits(&hairpin_report::term(&RunList::new(Vec::new()), &Options::default())));
}

/// Loopback and veth as the demo measures them.
fn demo_runs() -> Vec<Run> {
    let mut udp_spin = row("udp:spin/udp:spin", 40_000, 4_951);
    udp_spin.cpu.client.switches_voluntary = 0;
    let loopback = vec![
        row("tcp:block/tcp:block", 4_000, 51_204),
        row("udp:block/udp:block", 4_000, 48_404),
        udp_spin,
        row("udp:busy-poll,usecs=50/udp:busy-poll,usecs=50", 40_000, 5_204),
        row("memory:spin/memory:spin", 1_000_000, 152),
        paced(row("udp:block/udp:block", 24, 88_210), 10.0),
        paced(row("udp:block/udp:block", 400, 61_007), 1000.0),
    ];
    let veth =
        vec![row("udp:block/udp:block", 4_000, 50_118), row("udp:spin/udp:spin", 30_000, 5_870), row("tcp/tcp", 12, 60_000)];
    vec![over("loopback", loopback), over("veth", veth)]
}

/// The numbered sentences of a demo, each on one line.
fn sentences(runs: &[Run]) -> Vec<String> {
    let text = hairpin_report::term(runs, &Options::default());
    let (_, shown) = text.split_once("Conclusions\n").unwrap();
    let joined = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = |from: &str, to: &str| joined.split_once(from).unwrap().1.split(to).next().unwrap().trim().to_string();
    vec![cut("1. ", " 2. "), cut(" 2. ", " 3. "), cut(" 3. ", "\0")]
}

#[test]
fn demo_in_one_table_and_three_sentences() {
    let text = hairpin_report::term(&demo_runs()[..], &Options::default());
    assert_snapshot!(fits(&text));
    for word in ["faster", "slower", "same", "unclear"] {
        assert!(!text.contains(word), "{word} is a verdict of compare");
    }
}

#[test]
fn swapped_figures_change_the_sentences() {
    let before = sentences(&demo_runs());
    let swapped = |a: usize, b: usize| {
        let mut runs = demo_runs();
        let rows = &mut runs[0].results;
        let figures = rows[a].rtt_ns.clone();
        rows[a].rtt_ns = std::mem::replace(&mut rows[b].rtt_ns, figures);
        sentences(&runs)
    };
    // memory and udp:block: another path is the fastest.
    assert!(swapped(4, 1)[0].starts_with("udp:block over loopback is fastest: 151 ns"), "{:?}", swapped(4, 1));
    // udp:spin and udp:block: blocking costs nothing.
    assert!(swapped(2, 1)[1].starts_with("Blocking costs nothing on udp over loopback here (RTT p50 4.9"), "{:?}", swapped(2, 1));
    // udp:block at 10/s and flat out: the low rate costs nothing.
    assert!(swapped(5, 1)[2].starts_with("The low rate costs nothing here"), "{:?}", swapped(5, 1));
    for (a, b, sentence) in [(4, 1, 0), (2, 1, 1), (5, 1, 2), (5, 6, 2)] {
        assert_ne!(swapped(a, b)[sentence], before[sentence]);
    }
}

#[test]
fn sentences_say_what_they_lack() {
    assert_snapshot!(fits(&hairpin_report::term(&[] as &[Run], &Options::default())));
    let mut runs = demo_runs();
    runs.truncate(1);
    runs[0].results = vec![row("pipe/pipe", 4_000, 9_000), paced(row("udp/udp", 4, 80_000), 10.0)];
    assert_snapshot!(sentences(&runs).join("\n"));
    runs[0].results.push(row("udp/udp", 4_000, 50_000));
    assert!(sentences(&runs)[2].contains("has 4 samples, and a p50 needs 20"), "{:?}", sentences(&runs));
}

pub fn checked(errors: [f64; 3]) -> Check {
    let delays: Vec<Delay> = [(500, 512.4), (20_000, 20_014.0), (100_000, 100_013.5)]
        .into_iter()
        .zip(errors)
        .map(|((asked_ns, injected_ns), error_ns)| Delay {
            asked_ns,
            injected_ns,
            reported_ns: injected_ns + error_ns,
            error_ns,
            verdict: if error_ns.abs() <= 30.0 { Verdict::Passed } else { Verdict::Failed },
        })
        .collect();
    Check {
        head: Head { schema: Check::SCHEMA.into(), tool: "hairpin 0.1.0".into(), ..Head::default() },
        body: CheckBody {
            verdict: if delays.iter().all(|delay| delay.verdict == Verdict::Passed) { Verdict::Passed } else { Verdict::Failed },
            clock: example().body.place.clock,
            own_cost_ns: 38.26,
            own_cost_least_ns: 36.9,
            bound_ns: 30,
            delays,
            delay_tries: 1,
            latency_bound_ns: 20,
            latencies: Vec::new(),
            latency_tries: 0,
            no_latencies: Some("it takes two CPUs, and this process is allowed one".into()),
            elapsed: Some(elapsed(3.4)),
        },
    }
}

fn elapsed(error_ppm: f64) -> Elapsed {
    let verdict = if error_ppm.abs() <= 200.0 { Verdict::Passed } else { Verdict::Failed };
    let clock_ns = (3.2e9 * (1.0 + error_ppm / 1e6)) as u64;
    Elapsed { against: "monotonic_raw".into(), clock_ns, other_ns: 3_200_000_000, error_ppm, bound_ppm: 200.0, verdict }
}

fn latencies(errors: [f64; 2]) -> Vec<Latency> {
    let of = |(declared_ns, error_ns): (u64, f64)| Latency {
        declared_ns,
        turnaround_ns: 13.0,
        own_ns: 84.7,
        sum_ns: 2.0 * declared_ns as f64 + 97.7,
        measured_ns: 2.0 * declared_ns as f64 + 97.7 + error_ns,
        error_ns,
        verdict: if error_ns.abs() <= 20.0 { Verdict::Passed } else { Verdict::Failed },
    };
    [1_989, 3_059].into_iter().zip(errors).map(of).collect()
}

#[test]
fn check_of_known_latencies() {
    let sound = checked([0.6, -1.25, 12.0]);
    let mut passed = sound.clone();
    (passed.latencies, passed.latency_tries, passed.no_latencies) = (latencies([6.2, -3.1]), 2, None);
    let mut failed = passed.clone();
    (failed.latencies, failed.latency_tries, failed.verdict) = (latencies([6.2, 20.1]), 3, Verdict::Failed);
    let both = [&passed, &failed].map(|check| hairpin_report::term(check, &Options::default()));
    assert_snapshot!(both.join("\n"));
}

#[test]
fn check_of_a_sound_instrument() {
    assert_snapshot!(hairpin_report::term(&checked([0.6, -1.25, 12.0]), &Options { brief: true, ..Options::default() }));
    // Beyond its bound, but with a right clock: noise, and the size of it.
    let noisy = hairpin_report::term(&checked([0.6, -1.25, 31.2]), &Options { brief: true, ..Options::default() });
    assert!(noisy.replace('\n', " ").contains("below 32 ns"), "{noisy}");
    assert!(noisy.lines().count() <= 14 && noisy.contains("injected ns"), "{noisy}");
}

#[test]
fn check_of_a_clock_that_runs_wrong() {
    let mut check = checked([-5.1, -200.0, -1_000.5]);
    (check.elapsed, check.delay_tries) = (Some(elapsed(-9_987.0)), 3);
    assert_snapshot!(hairpin_report::term(&check, &Options { brief: true, ..Options::default() }));
    let read: Check = serde_json::from_str(&hairpin_report::json(&check)).unwrap();
    assert_eq!(read, check);
}

fn rings(interface: &str, mode: Option<&str>) -> Rings {
    let refused = mode.map(|_| Refused { feature: "zero-copy".into(), why: "the driver veth has none".into() });
    Rings {
        back_end: if mode.is_some() { "af_xdp" } else { "af_packet" }.into(),
        interface: interface.into(),
        queues: vec![0],
        mode: mode.map(String::from),
        longest_frame_bytes: 1514,
        refused: refused.into_iter().collect(),
        ..Rings::default()
    }
}

fn bounced() -> Bounced {
    let kept = Kept { group: 3, repeated: 12, ..Kept::default() };
    let lost = Lost { rx_ring_full: 1024, ..Lost::default() };
    Bounced {
        received: 8_123_452,
        received_bytes: 487_407_120,
        sent: 8_123_435,
        sent_bytes: 487_406_100,
        sent_wire_bytes: 8_123_435 * 84,
        kept,
        wrong_checksum: 0,
        tx_ring_full: 2,
        lost,
    }
}

fn bounce_of(frames: Bounced) -> Bounce {
    let duration_ns = 10_003_000_000;
    Bounce {
        head: Head {
            schema: Bounce::SCHEMA.into(),
            tool: "hairpin 0.1.0".into(),
            command: vec!["hairpin".into(), "bounce".into(), "-i".into(), "veth0".into()],
            started: "2026-03-02T09:41:07Z".into(),
            error: None,
            ..Head::default()
        },
        body: BounceBody {
            host: example().body.place.hosts.client,
            io: "xdp:spin".into(),
            filter: "ethertype:0x88b5".into(),
            rewrite: "macs".into(),
            flush: "adaptive".into(),
            repeats: Some(64),
            verify: false,
            input: rings("veth0", Some("generic")),
            output: None,
            duration_ns,
            frames,
            frames_per_s: frames::per_s(frames.sent, duration_ns),
            wire_bits_per_s: frames::per_s(8 * frames.sent_wire_bytes, duration_ns),
            cpu: CpuSide { per_transaction_ns: Some(1211.4), ..CpuSide::default() },
            warnings: Vec::new(),
        },
    }
}

fn second(at_s: u64, frames: Bounced) -> BounceSecond {
    BounceSecond {
        schema: BounceSecond::SCHEMA.into(),
        at_ns: at_s * 1_000_000_000,
        duration_ns: 1_000_000_000,
        frames,
        frames_per_s: frames::per_s(frames.sent, 1_000_000_000),
        wire_bits_per_s: frames::per_s(8 * frames.sent_wire_bytes, 1_000_000_000),
    }
}

#[test]
fn bounce_second_by_second_and_in_all() {
    let quiet =
        Bounced { received: 12, received_bytes: 720, sent: 12, sent_bytes: 720, sent_wire_bytes: 12 * 84, ..Bounced::default() };
    let mut text = hairpin_report::bounce_heading(&Options::default());
    for (at, frames) in [(1, Bounced::default()), (2, quiet), (3, bounced())] {
        text += &hairpin_report::bounce_line(&second(at, frames));
    }
    text += "\n";
    text += &hairpin_report::term(&bounce_of(bounced()), &Options::default());
    assert_snapshot!(fits(&text));
    assert_snapshot!(hairpin_report::json_line(&second(3, bounced())));
}

#[test]
fn bounce_between_two_interfaces_that_ends_by_itself() {
    let mut bounce = bounce_of(bounced());
    bounce.output = Some(rings("eth7", None));
    (bounce.verify, bounce.repeats) = (true, None);
    bounce.frames.wrong_checksum = 5;
    bounce.head.error = Some("veth0 went down".into());
    bounce.warnings.push(Warning::NoTsc { why: "the hypervisor hides it".into() }.note());
    let text = hairpin_report::term(&bounce, &Options::default());
    assert_snapshot!(fits(&text));
    assert_eq!(serde_json::from_str::<Bounce>(&hairpin_report::json(&bounce)).unwrap(), bounce);
}

fn trial(asked_per_s: Option<f64>, per_s: u64, lost: u64) -> Trial {
    let (offered, bytes) = (per_s / 2, 60 * per_s / 2);
    let cpu = |ns| CpuSide { per_transaction_ns: Some(ns), ..CpuSide::default() };
    Trial {
        asked_per_s,
        duration_ns: 500_000_000,
        offered,
        delivered: Some(offered - lost),
        offered_per_s: per_s as f64,
        delivered_per_s: Some((per_s - 2 * lost) as f64),
        wire_bits_per_s: frames::wire_bits_per_s(offered, bytes, 500_000_000),
        lost,
        lost_by_cause: Lost { rx_ring_full: lost / 2, ..Lost::default() },
        lost_elsewhere: lost - lost / 2,
        cpu: Cpu { client: cpu(612.0), server: Some(cpu(598.4)) },
        ..Trial::default()
    }
}

pub fn streamed(io: &str, direction: Direction, lossless: Option<u64>, flat: u64, lost: u64) -> StreamRow {
    let mode = io.starts_with("xdp").then_some("generic");
    StreamRow {
        io: io.into(),
        direction,
        frame_bytes: Some(64),
        queues: 1,
        lossless: lossless.map(|per_s| trial(Some(per_s as f64), per_s, 0)),
        loses_per_s: (lost > 0).then(|| lossless.map_or(100_000.0, |per_s| per_s as f64 * 1.015)),
        offered: trial(None, flat, lost),
        search: vec![Step { asked_per_s: None, offered_per_s: flat as f64, lost }],
        client: Some(rings("hairpin0", mode)),
        server: (direction != Direction::Inject).then(|| rings("hairpin1", mode)),
        warnings: Vec::new(),
    }
}

pub fn stream_of(results: Vec<StreamRow>) -> Stream {
    let run = over("veth", Vec::new());
    let command = ["hairpin", "stream", "--link", "veth"].map(String::from).into();
    Stream {
        head: Head { schema: Stream::SCHEMA.into(), command, ..run.head },
        body: StreamBody { place: run.body.place, resolution: Some(0.02), results },
    }
}

pub fn streams() -> Stream {
    let mut none = streamed("packet:spin/packet:block", Direction::Bounce, None, 198_000, 91_000);
    none.offered.duplicates = 4;
    none.warnings.push(Warning::SharedCore { cpu: 1, spins: true }.note());
    stream_of(vec![
        streamed("xdp:spin/xdp:spin", Direction::Inject, Some(1_204_112), 1_204_112, 0),
        streamed("xdp:spin/xdp:spin", Direction::Receive, Some(811_000), 1_180_034, 31_205),
        none,
    ])
}

#[test]
fn stream_in_a_table() {
    assert_snapshot!(fits(&hairpin_report::term(&streams(), &Options::default())));
    assert_snapshot!(fits(&hairpin_report::term(&stream_of(Vec::new()), &Options::default())));
}

#[test]
fn stream_towards_another_host_knows_one_side() {
    let mut row = streamed("packet:spin", Direction::Receive, None, 500_000, 12);
    (row.client, row.frame_bytes) = (None, None);
    row.offered.cpu.server = None;
    let mut stream = stream_of(vec![row]);
    stream.resolution = None;
    stream.results[0].loses_per_s = None;
    stream.head.interrupted = true;
    stream.place.hosts.server = None;
    assert_snapshot!(fits(&hairpin_report::term(&stream, &Options::default())));
    let trial = &mut stream.results[0].offered;
    (trial.delivered, trial.delivered_per_s) = (None, None);
    let uncounted = hairpin_report::term(&stream, &Options { brief: true, ..Options::default() });
    assert!(uncounted.contains("how many frames arrived is not known: no end counted them"), "{uncounted}");
}

#[test]
fn stream_for_pages_and_scripts() {
    let stream = streams();
    assert_snapshot!(hairpin_report::markdown(&stream, &Options::default()));
    assert_snapshot!(hairpin_report::csv(&stream, &Options::default()));
    assert_eq!(serde_json::from_str::<Stream>(&hairpin_report::json(&stream)).unwrap(), stream);
    let row = &stream.results[1];
    assert_snapshot!(hairpin_report::stream_trial(&row.io, row.direction, row.frame_bytes, &row.search[0]));
}
