//! A run in other tools' words, read as scripts read those tools: the patterns of PerfKitBenchmarker, k8s-netperf, LISA and
//! one-liners, restated.

use std::collections::BTreeMap;

use hairpin_record::run::{Row, Run, Tcp, TcpSide};
use hairpin_report::Tool;
use insta::assert_snapshot;

use crate::goldens::row;

/// 1,000 RTTs from 36.0 us to 43.992 us in steps of 8 ns, two requests lost.
fn udp() -> Row {
    Row { lost: 2, duplicates: 3, reordered: 4, reply_bytes: 32, ..row("udp:block/udp:block", 1_000, 40_000) }
}

fn tcp() -> Row {
    let side = |retransmitted| TcpSide { mss: 1_448, retransmitted, ..TcpSide::default() };
    Row { tcp: Some(Tcp { client: side(7), server: Some(side(1)) }), ..row("tcp:spin/tcp:spin", 1_000, 40_000) }
}

fn run(rows: Vec<Row>) -> Run {
    let mut run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
    run.place.link.peer = Some("10.0.0.2".into());
    run.results = rows;
    run
}

/// The number between two words.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).unwrap_or_else(|| panic!("{before} in {text}")).1.split_once(after).unwrap().0
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

#[test]
fn the_classic_lines_of_netperf() {
    let text = Tool::Netperf.text(&run(vec![tcp()]));
    assert_snapshot!(text);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("MIGRATED TCP REQUEST/RESPONSE TEST from ") && lines[0].contains(" to 10.0.0.2 ("), "{text}");
    // awk 'NR==7 {print $6}', and the size, the time and the rate of lines without a banner.
    let words: Vec<&str> = lines[6].split_whitespace().collect();
    assert_eq!(words[2..], ["64", "64", "0.04", "25000.00"]);
    let crr = Tool::Netperf.text(&run(vec![row("tcp-crr:block/tcp-crr:block", 100, 40_000)]));
    assert!(crr.starts_with("MIGRATED TCP Connect/Request/Response TEST "), "{crr}");
    let memory = Tool::Netperf.text(&run(vec![row("memory:spin/memory:spin", 100, 400)]));
    assert!(
        memory.starts_with("MIGRATED memory REQUEST/RESPONSE TEST ") && memory.contains("\nLOCAL_TRANSPORT_RETRANS=-1\n"),
        "{memory}"
    );
}

#[test]
fn replies_of_a_group_are_told_apart() {
    let rows = ["first", "last"].map(|reply| Row { reply: Some(reply.into()), ..udp() });
    let run = run(rows.into());
    for tool in [Tool::Netperf, Tool::NetperfCsv, Tool::Sockperf, Tool::Iperf2, Tool::SfntPingpong, Tool::SnfPingpong] {
        let text = tool.text(&run);
        assert!(text.contains("udp:block first") && text.contains("udp:block last"), "{tool:?}: {text}");
    }
}

/// The sample that k8s-netperf makes of netperf's keys: a line counts for the first of these that its key contains.
fn k8s_sample(text: &str) -> BTreeMap<&'static str, String> {
    assert!(text.split('\n').count() >= 5, "too short");
    let keys = [
        "THROUGHPUT_UNITS",
        "THROUGHPUT",
        "P99_LATENCY",
        "RT_LATENCY",
        "LOCAL_SEND_CALLS",
        "REMOTE_RECV_CALLS",
        "LOCAL_TRANSPORT_RETRANS",
    ];
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.filter_map(|(key, value)| Some((*keys.iter().find(|known| key.contains(**known))?, value.to_owned()))).collect()
}

#[test]
fn k8s_netperf_reads_the_keys() {
    let mut more = tcp();
    more.outstanding = 4;
    let sample = k8s_sample(&Tool::Netperf.text(&run(vec![more])));
    assert_eq!((&*sample["THROUGHPUT_UNITS"], number(&sample["RT_LATENCY"])), ("Trans/s", 160.0));
    assert_eq!((number(&sample["P99_LATENCY"]), number(&sample["LOCAL_TRANSPORT_RETRANS"])), (43.0, 7.0));
    // The last line with the word in its key counts.
    assert_eq!(number(&sample["THROUGHPUT"]), 25_000.0);

    let sample = k8s_sample(&Tool::Netperf.text(&run(vec![udp()])));
    let (sent, received) = (number(&sample["LOCAL_SEND_CALLS"]), number(&sample["REMOTE_RECV_CALLS"]));
    assert!(number(&sample["LOCAL_TRANSPORT_RETRANS"]) < 0.0, "no stream");
    let loss = 100.0 - received / sent * 100.0;
    assert!((loss - 100.0 * 2.0 / 1_002.0).abs() < 1e-9, "{loss}");
}

#[test]
fn perfkit_reads_the_csv_and_the_histogram() {
    let text = Tool::NetperfCsv.text(&run(vec![udp()]));
    assert_snapshot!(text);
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("MIGRATED"));
    let read: BTreeMap<&str, &str> = lines.next().unwrap().split(',').zip(lines.next().unwrap().split(',')).collect();
    assert_eq!((read["Throughput"], read["Throughput Units"]), ("25000.00", "Trans/s"));
    assert_eq!((read["Confidence Iterations Run"], read["Throughput Confidence Width (%)"]), ("1", "-1.000"));
    let latencies = [
        ("50th Percentile Latency Microseconds", 39.0..=40.0),
        ("90th Percentile Latency Microseconds", 43.0..=43.0),
        ("99th Percentile Latency Microseconds", 43.0..=43.0),
        ("Minimum Latency Microseconds", 36.0..=36.0),
        ("Maximum Latency Microseconds", 43.0..=43.0),
        ("Stddev Latency Microseconds", 2.3..=2.32),
    ];
    for (heading, expected) in latencies {
        assert!(expected.contains(&number(read[heading])), "{heading}: {}", read[heading]);
    }
    // The first row holds the times up to 10 us, each further one ten times as long ones.
    let mut row_us = 10.0;
    let mut histogram: Vec<(f64, u64)> = Vec::new();
    for line in format!("UNIT_USEC{}", between(&text, "UNIT_USEC", ">100_SECS")).lines() {
        let counts: Vec<u64> = line.split(':').skip(1).map(|count| count.trim().parse().unwrap()).collect();
        let step = row_us / counts.len() as f64;
        histogram
            .extend(counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, count)| (at as f64 * step, *count)));
        row_us *= 10.0;
    }
    assert_eq!(histogram, [(30.0, 500), (40.0, 500)]);
    assert_eq!(number(text.rsplit("HIST_TOTAL:").next().unwrap()), 1_000.0);
}

#[test]
fn sockperf_s_summary_is_half_the_rtt() {
    let text = Tool::Sockperf.text(&run(vec![udp()]));
    assert_snapshot!(text);
    assert!(text.lines().all(|line| line.starts_with("sockperf: ")), "{text}");
    // The patterns of exporters and scripts.
    assert_eq!(between(&text, "Summary: Latency is ", " usec"), "19.998");
    assert_eq!(between(&text, "> avg-latency=", " "), "19.998");
    assert_eq!((between(&text, "RunTime=", " sec"), between(&text, "SentMessages=", ";")), ("0.040", "1002"));
    assert_eq!(between(&text, "ReceivedMessages=", "\n"), "1000");
    assert_eq!(between(&text, "# dropped messages = ", ";"), "2");
    assert_eq!((between(&text, "# duplicated messages = ", ";"), between(&text, "# out-of-order messages = ", "\n")), ("3", "4"));
    // LISA wants the eight percentiles one after the other, between MAX and MIN.
    let mut lines = text.lines().skip_while(|line| !line.contains("<MAX>"));
    let mut figure = |what: &str| {
        let line = lines.next().unwrap();
        assert!(line.starts_with(&format!("sockperf: ---> {what} =")), "{line} for {what}");
        number(line.split_whitespace().last().unwrap())
    };
    let names = ["99.999", "99.990", "99.900", "99.000", "90.000", "75.000", "50.000", "25.000"]
        .map(|share| format!("percentile {share}"));
    let mut figures = vec![figure("<MAX> observation")];
    figures.extend(names.iter().map(|name| figure(name)));
    figures.push(figure("<MIN> observation"));
    let expected = [21.996, 21.996, 21.996, 21.992, 21.956, 21.596, 20.996, 19.996, 18.996, 18.0];
    for (figure, expected) in figures.iter().zip(expected) {
        assert!((figure / expected - 1.0).abs() < 1.5e-3, "{figures:?} for {expected}");
    }
    // awk '/percentile 99.000 =/ {print $6}'
    let line = text.lines().find(|line| line.contains("percentile 99.000 =")).unwrap();
    assert_eq!(number(line.split_whitespace().nth(5).unwrap()), figures[4]);
    assert!(Tool::Sockperf.text(&run(vec![row("udp/udp", 0, 0)])).contains("No messages were received from the server."));
}

#[test]
fn iperf2_has_the_columns_of_its_bounceback() {
    let text = Tool::Iperf2.text(&run(vec![tcp(), udp()]));
    assert_snapshot!(text);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("[  1]")).collect();
    for (line, retries) in lines.iter().zip([Some("7"), None]) {
        assert_eq!(between(line, "] ", " sec"), "0.0000-0.0400");
        let (count, times) = between(line, "bits/sec", " ms").trim().split_once('=').unwrap();
        let times: Vec<f64> = times.split('/').map(number).collect();
        assert_eq!((count, times), ("1000", vec![0.04, 0.036, 0.044, 0.002]));
        assert_eq!(between(&format!("{line}\n"), "RPS=", "\n"), "25003");
        let after: Vec<&str> = between(line, " ms", "Tx=").split_whitespace().collect();
        assert_eq!(after, retries.map_or(vec![], |count| vec![count, "-(-)/-(-)"]));
    }
    assert!(lines[0].contains("  125 KBytes  25.6 Mbits/sec  ") && lines[0].contains("Tx=62.5 KByte Rx=62.5 KByte "), "{text}");
    assert!(lines[1].contains("Tx=62.6 KByte Rx=31.2 KByte "), "{text}");
    let none = Tool::Iperf2.text(&run(vec![row("tcp/tcp", 0, 0)]));
    assert!(none.contains(" 0.00 Bytes  0.00 bits/sec    0=0.000/0.000/0.000/0.000 ms    Tx=0 Rx=0  RPS=0.0\n"), "{none}");
}

#[test]
fn sfnt_pingpong_has_a_line_per_size() {
    let large = Row { request_bytes: 1_024, ..row("udp:block/udp:block", 1_000, 50_000) };
    let text = Tool::SfntPingpong.text(&run(vec![udp(), large, row("udp:block/udp:block", 0, 0), tcp()]));
    assert_snapshot!(text);
    assert!(text.contains("# reporting: 1/2 RTT\n#\n#\tsize\tmean\tmin\tmedian\tmax\t%ile\tstddev\titer\n"), "{text}");
    let lines: Vec<Vec<f64>> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_whitespace().map(number).collect()).collect();
    assert_eq!((lines.len(), lines[0].len()), (3, 8), "none for the size without a reply: {text}");
    assert_eq!((lines[0][0], lines[0][2], lines[0][4], lines[0][7]), (64.0, 18_000.0, 21_996.0, 1_000.0));
    assert!((19_980.0..20_030.0).contains(&lines[0][3]) && (21_940.0..21_980.0).contains(&lines[0][5]), "{text}");
    assert_eq!(lines[1][0], 1_024.0);
}

#[test]
fn hostile_and_broken_records_break_no_line() {
    let mut hostile = Row { histogram: "broken".into(), ..udp() };
    hostile.path = "udp\u{1b}]0;owned\u{7}\nTHROUGHPUT=66".into();
    let mut run = run(vec![hostile]);
    run.place.link.peer = Some("10.0.0.2\nTHROUGHPUT=66".into());
    for tool in [Tool::Netperf, Tool::NetperfCsv, Tool::Sockperf, Tool::Iperf2, Tool::SfntPingpong] {
        let text = tool.text(&run);
        assert!(!text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("THROUGHPUT=66")), "{text}");
        // No quantile is made of a histogram that cannot be read.
        assert!(!text.contains("percentile 99") && !text.contains("P99_LATENCY=4"), "{text}");
    }
    assert!(Tool::Netperf.text(&run).contains("P99_LATENCY=-1\n"));
    assert_eq!(Tool::SfntPingpong.text(&run).lines().filter(|line| line.starts_with('\t')).count(), 0);
}
