//! Tests the way from snapshots and the row's record to a scrape.

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
    Exporter::listen("0".parse().unwrap(), &Target::Link("loopback".parse().unwrap()), &[]).unwrap()
}

fn page(exporter: &Exporter, form: exposition::Form) -> Vec<u8> {
    exposition::encode(exporter.state().clone(), form).unwrap()
}

fn text(exporter: &Exporter) -> String {
    String::from_utf8(page(exporter, exposition::Form::OpenMetrics)).unwrap()
}

/// The value of the only line with this prefix, whatever its labels.
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
        ("[192.0.2.1]:80", "192.0.2.1:80"),
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
    let job = hairpin_plan::job::Job::new("udp:spin".parse().unwrap());
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

    // Another row with the same labels continues from there.
    exporter.begins(1, 2, &job);
    exporter.progress(&line(1_000, &first));
    assert_eq!(value(&text(&exporter), "hairpin_transactions_total"), 2_507.0);
    assert_eq!(value(&text(&exporter), "hairpin_rtt_seconds_count"), 2_507.0);
}

/// A job with this request, whose reply ends with a line.
fn asking(name: &str) -> Job {
    let end = r"\n".parse().unwrap();
    let own = hairpin_plan::request::Request { name: name.into(), bytes: b"x\n".to_vec(), end, tls: None };
    Job { request: 2, reply: 0, own: Some(own), ..Job::new("tcp".parse().unwrap()) }
}

#[test]
fn a_request_of_the_users_own_is_a_label_and_its_reply_has_no_size() {
    let mut exporter = exporter();
    exporter.begins(0, 1, &asking(r#"text:"x"\n"#));
    exporter.progress(&line(1_000, &times(1_000..2_000)));
    let plain = String::from_utf8(page(&exporter, exposition::Form::Plain)).unwrap();
    assert_eq!(faults(&plain), [""; 0], "{plain}");
    let labels = r#"request_bytes="2",reply_bytes="",origin="measured",request="text:\"x\"\\n""#;
    assert!(plain.contains(labels), "{plain}");
    let of = |name: &str| Labels::of(&asking(name), "there".into()).request;
    assert_eq!((of("redis-ping").as_str(), of(&"ä".repeat(64))), ("redis-ping", "ä".repeat(64)));
    assert_eq!(of(&"ä".repeat(65)), "ä".repeat(64) + "…");
    assert_eq!(Labels::of(&Job::new("udp".parse().unwrap()), "there".into()).request, "");
}

#[test]
fn a_wait_before_the_first_row_counts_in_it() {
    let mut exporter = exporter();
    exporter.paused(None);
    exporter.resumed(Nanos::from_secs(8));
    let before = text(&exporter);
    assert!(value(&before, "hairpin_measuring") == 0.0 && !before.contains("path="), "{before}");
    exporter.begins(0, 1, &hairpin_plan::job::Job::new("udp:block".parse().unwrap()));
    exporter.paused(None);
    exporter.resumed(Nanos::from_secs(2));
    assert_eq!(value(&text(&exporter), "hairpin_paused_seconds_total"), 10.0);
}

#[test]
fn a_wait_interrupts_a_measurement_and_begins_none() {
    let mut exporter = exporter();
    let measuring = |exporter: &Exporter| value(&text(exporter), "hairpin_measuring");
    exporter.begins(0, 1, &hairpin_plan::job::Job::new("udp:block".parse().unwrap()));
    exporter.paused(None);
    exporter.resumed(Nanos::from_secs(2));
    assert_eq!(measuring(&exporter), 0.0, "its flows are not open yet");
    exporter.ready().unwrap();
    exporter.paused(None);
    exporter.paused(None);
    assert_eq!(measuring(&exporter), 0.0);
    exporter.resumed(Nanos::from_secs(2));
    assert_eq!(measuring(&exporter), 1.0);
}

#[test]
fn threads_add_up_and_their_process_counts_once() {
    let mut exporter = exporter();
    exporter.begins(0, 1, &hairpin_plan::job::Job::new("udp:spin".parse().unwrap()));
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
    exporter.begins(0, 1, &hairpin_plan::job::Job::new("udp:spin".parse().unwrap()));
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

/// The faults that a strict parser of text format 0.0.4 finds in a page. Written from the description of the format ("Exposition
/// formats" of Prometheus), not from the encoder.
fn faults(page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name_is_right = |name: &str| {
        name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == ':')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
    };
    let mut kinds = BTreeMap::<String, String>::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut over = std::collections::BTreeSet::new();
    let mut family = String::new();
    // By family and labels without `le`: buckets in order, and the count.
    let mut histograms = BTreeMap::<(String, String), (Vec<(f64, f64)>, Option<f64>, bool)>::new();
    if !page.ends_with('\n') {
        faults.push("the last line has no end".into());
    }
    for line in page.lines() {
        let mut fault = |what: &str| faults.push(format!("{what}: {line}"));
        if let Some(comment) = line.strip_prefix('#') {
            let mut words = comment.splitn(4, ' ').skip(1);
            let (word, name, rest) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
            match word {
                "HELP" if name_is_right(name) && !rest.is_empty() => {}
                "TYPE" if name_is_right(name) => {
                    if !["counter", "gauge", "histogram", "summary", "untyped"].contains(&rest) {
                        fault("unknown type");
                    }
                    if kinds.insert(name.into(), rest.into()).is_some() {
                        fault("a second type");
                    }
                    over.insert(std::mem::replace(&mut family, name.into()));
                }
                _ => fault("neither HELP nor TYPE"),
            }
            continue;
        }
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        if !name_is_right(name) {
            fault("no name of a metric");
        }
        let kind = kinds.get(&family).map_or("", String::as_str);
        let belongs = match kind {
            "histogram" => ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(&family)),
            _ => name == family,
        };
        if !belongs || over.contains(&family) {
            fault("outside its family");
        }
        // Labels: name="value", with \\, \" and \n as the only escapes.
        let mut labels = Vec::new();
        let mut rest = rest;
        if let Some(mut inside) = rest.strip_prefix('{') {
            loop {
                if let Some(after) = inside.strip_prefix('}') {
                    rest = after;
                    break;
                }
                let Some((label, value)) = inside.split_once("=\"") else {
                    fault("no label");
                    rest = "";
                    break;
                };
                let (mut text, mut escaped, mut end) = (String::new(), false, None);
                for (at, c) in value.char_indices() {
                    match (escaped, c) {
                        (true, '\\' | '"' | 'n') => escaped = false,
                        (true, _) => break,
                        (false, '\\') => escaped = true,
                        (false, '"') => {
                            end = Some(at);
                            break;
                        }
                        _ => {}
                    }
                    text.push(c);
                }
                let Some(end) = end else {
                    fault("a label's value has no end");
                    rest = "";
                    break;
                };
                if !name_is_right(label) || label.contains(':') || labels.iter().any(|(other, _)| other == label) {
                    fault("no name of a label, or twice");
                }
                labels.push((label.to_owned(), text));
                inside = &value[end + 1..];
                inside = inside.strip_prefix(',').unwrap_or(inside);
            }
        }
        let number = match rest.strip_prefix(' ').unwrap_or("") {
            "+Inf" => Some(f64::INFINITY),
            "-Inf" => Some(f64::NEG_INFINITY),
            text if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => text.parse().ok(),
            "NaN" => Some(f64::NAN),
            _ => None,
        };
        let Some(number) = number else {
            fault("no value");
            continue;
        };
        labels.sort();
        if !seen.insert((name.to_owned(), labels.clone())) {
            fault("twice");
        }
        if kind == "counter" && (number.is_nan() || number < 0.0) {
            fault("a counter below zero");
        }
        if kind == "histogram" {
            let le = labels.iter().position(|(label, _)| label == "le").map(|at| labels.remove(at).1);
            let one = histograms.entry((family.clone(), format!("{labels:?}"))).or_default();
            match (name.strip_prefix(family.as_str()), le) {
                (Some("_bucket"), Some(le)) => {
                    let bound = if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap_or(f64::NAN) };
                    one.0.push((bound, number));
                }
                (Some("_sum"), None) => one.2 = true,
                (Some("_count"), None) => one.1 = Some(number),
                _ => fault("a bucket without its bound, or a bound without its bucket"),
            }
        }
    }
    for (whose, (buckets, count, sum)) in histograms {
        let ascends = buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        let last = buckets.last().copied();
        if !ascends || last.map(|(bound, _)| bound) != Some(f64::INFINITY) || last.map(|(_, all)| all) != count || !sum {
            faults.push(format!("{whose:?} is no histogram: {buckets:?}, {count:?}"));
        }
    }
    faults
}

#[test]
fn plain_text_passes_a_strict_parser() {
    let mut exporter = exporter();
    let job = hairpin_plan::job::Job::new("udp:spin".parse().unwrap());
    exporter.begins(0, 1, &job);
    exporter.ready().unwrap();
    exporter.progress(&line(1_000, &times(1_000..2_000)));
    let plain = String::from_utf8(page(&exporter, exposition::Form::Plain)).unwrap();
    assert_eq!(faults(&plain), [""; 0], "{plain}");
    assert!(plain.contains("# TYPE hairpin_build_info gauge\nhairpin_build_info{version="), "{plain}");
    assert!(plain.contains("# TYPE hairpin_lost_total counter\n"), "{plain}");
    // The same samples as in the other format.
    let samples = |page: &str| page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(samples(&plain), samples(&text(&exporter)));
    // Shows that the parser does find faults.
    assert!(faults(&text(&exporter)).len() > 3, "OpenMetrics is another form");
    for bad in [
        "# TYPE a counter\na 1",
        "# TYPE a info\na 1\n",
        "# TYPE a gauge\na{b=\"c\"} x\n",
        "# TYPE a gauge\na{b=\"\\x\"} 1\n",
        "# TYPE a gauge\nb 1\n",
        "# TYPE a gauge\na 1\na 1\n",
        "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
        "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n",
    ] {
        assert!(!faults(bad).is_empty(), "{bad}");
    }
}
