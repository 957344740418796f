//! From snapshots and the row's record to what a scraper reads.

use hairpin_record::histogram::Times;
use hairpin_record::progress::{CpuSoFar, Interval};
use hairpin_record::warning::Warning;

use super::*;

fn times(all: std::ops::Range<u64>) -> Times {
    let mut times = Times::new();
    all.for_each(|ns| times.record(ns));
    times
}

fn line(so_far: u64, since: &Times) -> Progress {
    let interval = Interval { rtt_ns: since.quantiles(), histogram: since.encode(), ..Interval::default() };
    let cpu = CpuSoFar { elapsed_ns: so_far, client_ns: so_far / 2, server_ns: Some(so_far / 4), ..CpuSoFar::default() };
    let warnings = vec![Warning::Loss { lost: 1, sent: so_far, rcvbuf: true }.note()];
    Progress {
        at_ns: so_far,
        transactions: so_far,
        sent: so_far + 1,
        lost: 1,
        interval: Some(interval),
        cpu: Some(cpu),
        warnings,
        ..Progress::default()
    }
}

fn exporter() -> Exporter {
    Exporter::listen("0".parse().unwrap(), &Target::Link("loopback".parse().unwrap())).unwrap()
}

fn page(exporter: &Exporter, form: exposition::Form) -> Vec<u8> {
    exposition::encode(exporter.state().clone(), form).unwrap()
}

fn text(exporter: &Exporter) -> String {
    String::from_utf8(page(exporter, exposition::Form::OpenMetrics)).unwrap()
}

/// The value of the only line that begins so, whatever its labels.
#[track_caller]
fn value(text: &str, name: &str) -> f64 {
    let of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let lines: Vec<&str> = text.lines().filter(of).collect();
    let [line] = lines[..] else { panic!("{name} in {lines:?} of\n{text}") };
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn addresses_to_serve_on() {
    for (text, address) in [
        ("9100", "127.0.0.1:9100"),
        ("127.0.0.1", "127.0.0.1:24445"),
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("::1", "[::1]:24445"),
        ("[::1]", "[::1]:24445"),
        ("[2001:db8::1]:80", "[2001:db8::1]:80"),
    ] {
        assert_eq!(text.parse::<Listen>().unwrap().0.to_string(), address, "{text}");
    }
    for text in ["", "localhost:x", "70000", "1.2.3.4:", "eth0"] {
        assert!(text.parse::<Listen>().unwrap_err().contains("127.0.0.1:24445"), "{text}");
    }
    assert!("9100".parse::<Listen>().unwrap().is_loopback());
    assert!(!"0.0.0.0".parse::<Listen>().unwrap().is_loopback());
}

#[test]
fn snapshots_add_up_and_the_record_has_the_last_word() {
    let job = crate::ping::tests::job("udp:spin");
    let mut exporter = exporter();
    exporter.begins(0, 1, &job);
    exporter.ready().unwrap();
    let (first, second) = (times(1_000..2_000), times(3_000..3_500));
    exporter.progress(&line(1_000, &first));
    exporter.progress(&line(1_500, &second));
    let served = text(&exporter);
    assert!(
        served.contains(r#"path="udp:spin/udp:spin",peer="loopback",request_bytes="64",reply_bytes="64",origin="measured""#),
        "{served}"
    );
    assert_eq!(value(&served, "hairpin_transactions_total"), 1_500.0);
    assert_eq!(value(&served, "hairpin_sent_total"), 1_501.0);
    assert_eq!(value(&served, "hairpin_lost_total"), 1.0);
    assert_eq!(value(&served, "hairpin_rtt_seconds_count"), 1_500.0);
    let exact: u64 = (1_000..2_000).chain(3_000..3_500).sum();
    assert!((value(&served, "hairpin_rtt_seconds_sum") / (exact as f64 / 1e9) - 1.0).abs() < 1e-4);
    assert_eq!(value(&served, "hairpin_measuring"), 1.0);
    assert!(served.contains(r#"code="loss"} 1"#) && served.contains(r#"le="0.000002",path="#), "{served}");
    assert!(served.contains("# EOF"));

    let mut whole = times(1_000..2_000);
    whole.add(&second);
    whole.add(&times(9_000..9_007));
    let mut row = Row {
        transactions: 1_507,
        lost: 2,
        duration_ns: 2_000,
        rtt_ns: whole.quantiles(),
        histogram: whole.encode(),
        ..Row::default()
    };
    row.cpu.client.user_ns = 1_000;
    exporter.ends(&row);
    let served = text(&exporter);
    assert_eq!(value(&served, "hairpin_transactions_total"), 1_507.0);
    assert_eq!(value(&served, "hairpin_rtt_seconds_count"), 1_507.0);
    assert_eq!(value(&served, "hairpin_lost_total"), 2.0);
    assert_eq!(value(&served, "hairpin_measuring"), 0.0);
    assert!(!served.contains("code="), "the row's record has no warning: {served}");

    // Another row of the same labels goes on from there.
    exporter.begins(1, 2, &job);
    exporter.progress(&line(1_000, &first));
    assert_eq!(value(&text(&exporter), "hairpin_transactions_total"), 2_507.0);
    assert_eq!(value(&text(&exporter), "hairpin_rtt_seconds_count"), 2_507.0);
}

#[test]
fn threads_add_up_and_their_process_counts_once() {
    let mut exporter = exporter();
    exporter.begins(0, 1, &crate::ping::tests::job("udp:spin"));
    let since = times(1_000..1_100);
    for (thread, so_far) in [(0, 100), (1, 100), (0, 200), (1, 200)] {
        exporter.progress(&Progress { thread, ..line(so_far, &since) });
    }
    let served = text(&exporter);
    assert_eq!(value(&served, "hairpin_rtt_seconds_count"), 400.0);
    let client =
        served.lines().find(|line| line.starts_with("hairpin_cpu_seconds_total") && line.contains(r#"side="client""#)).unwrap();
    assert!(client.ends_with(" 1e-7"), "100 ns once: {client}");
}

#[test]
fn the_protobuf_has_both_histograms() {
    let mut exporter = exporter();
    exporter.begins(0, 1, &crate::ping::tests::job("udp:spin"));
    let empty = page(&exporter, exposition::Form::Protobuf);
    exporter.progress(&line(1_000, &times(1_000..2_000)));
    let full = page(&exporter, exposition::Form::Protobuf);
    let has = |name: &[u8]| full.windows(name.len()).any(|window| window == name);
    assert!(has(b"hairpin_rtt_seconds") && has(b"hairpin_transactions_total") && has(b"udp:spin/udp:spin"));
    assert!(full.len() > empty.len() + 30, "buckets: {} and {}", empty.len(), full.len());
}

#[test]
fn a_page_is_encoded_once_for_a_state() {
    let mut exporter = exporter();
    let mut pages = Pages { state: Arc::clone(&exporter.state), kept: BTreeMap::new() };
    let one = pages.page(exposition::Form::Plain).unwrap();
    assert!(Arc::ptr_eq(&one, &pages.page(exposition::Form::Plain).unwrap()));
    exporter.ready().unwrap();
    assert!(!Arc::ptr_eq(&one, &pages.page(exposition::Form::Plain).unwrap()));
    assert_eq!(pages.answer(&Request { path: "/nothing", accept: "" }).status, 404);
    assert_eq!(pages.answer(&Request { path: "/metrics", accept: "" }).status, 200);
}
