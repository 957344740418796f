//! `hairpin ping --metrics` scraped: by hand, by hostile peers, and by a real Prometheus; and dashboard, unit
//! and documentation agree with the served metrics.
//!
//! One test at a time: each measures. A test that cannot run here says so and is skipped; with
//! HAIRPIN_MUST_RUN=1 that is a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::alone::{self, Listed, Part};
use crate::support::servers;
use crate::support::{HAIRPIN, Home, LIMIT, Running, can, free_port, namespaces, rows, warnings};
use serde_json::Value;

pub const PART: Part = Part::new("metrics", || alone::listed(TESTS)).side_by_side();

const TESTS: &[Listed] = &[
    ("a_scrape_by_hand_agrees_with_the_record", a_scrape_by_hand_agrees_with_the_record),
    ("metrics_count_incidents_by_cause", metrics_count_incidents_by_cause),
    ("a_request_of_the_users_own_is_a_label", a_request_of_the_users_own_is_a_label),
    ("a_probe_that_waits_for_its_turn_answers", a_probe_that_waits_for_its_turn_answers),
    ("hostile_scrapers_keep_nobody_waiting", hostile_scrapers_keep_nobody_waiting),
    ("promtool_takes_the_plain_text", promtool_takes_the_plain_text),
    ("prometheus_agrees_with_the_record", prometheus_agrees_with_the_record),
    ("dashboard_and_docs_name_the_served_metrics", dashboard_and_docs_name_the_served_metrics),
    ("reports_a_metrics_address_that_cannot_be_used", reports_a_metrics_address_that_cannot_be_used),
    ("the_unit_is_sound_and_has_few_privileges", the_unit_is_sound_and_has_few_privileges),
];

/// Starts a run over loopback that serves metrics; returns where.
fn serving(home: &Home, args: &str) -> (Running, String) {
    serving_to(home, "--link loopback", args)
}

fn serving_to(home: &Home, target: &str, args: &str) -> (Running, String) {
    let mut run = home.start(&format!("ping {target} --metrics 127.0.0.1:0 {args}"));
    run.until("metrics on http://");
    let address =
        run.err().lines().find_map(|line| Some(line.strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.to_owned()));
    (run, address.expect("where"))
}

/// One request: head and body.
fn ask(address: &str, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("{request:?}: {bytes:?}"));
    let body = bytes.split_off(end + 4);
    (String::from_utf8_lossy(&bytes).into_owned(), body)
}

fn get(address: &str, path: &str, headers: &str) -> String {
    let (head, body) = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n"));
    assert!(
        head.starts_with("HTTP/1.1 200 ") || head.starts_with("HTTP/1.0 200 "),
        "{path}: {head}\n{}",
        String::from_utf8_lossy(&body)
    );
    let body = String::from_utf8(body).expect("text");
    // Prometheus answers in chunks where it does not know the length.
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") { unchunked(&body) } else { body }
}

fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).expect("a length");
        if length == 0 {
            break;
        }
        whole.push_str(&rest[..length]);
        text = &rest[length + 2..];
    }
    whole
}

/// The value of the line of `name` that has this label.
fn value(page: &str, name: &str, label: &str) -> Option<f64> {
    let line = page
        .lines()
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Waits until a value is there and positive.
#[track_caller]
fn positive(address: &str, name: &str, label: &str) -> f64 {
    let begun = Instant::now();
    loop {
        let page = get(address, "/metrics", "");
        if let Some(value) = value(&page, name, label).filter(|value| *value > 0.0) {
            return value;
        }
        assert!(begun.elapsed() < LIMIT, "no {name} with {label} in\n{page}");
        sleep(Duration::from_millis(50));
    }
}

fn a_scrape_by_hand_agrees_with_the_record(_name: &str) -> bool {
    let home = Home::new();
    let (run, address) = serving(&home, "--path udp --path tcp --pace 2000 --duration 1500ms --warmup 50ms --json");
    // While the second row is measured the first is over, and its figures are those of the record.
    positive(&address, "hairpin_transactions_total", "path=\"tcp:block/tcp:block\"");
    let plain = get(&address, "/metrics", "");
    let open = get(&address, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(open.ends_with("# EOF\n"), "{open}");
    assert_eq!(value(&plain, "hairpin_measuring", ""), Some(1.0));
    assert!(plain.contains(&format!("hairpin_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"))), "{plain}");
    let done = run.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    let row = &rows(&record)[0];
    let number = |name: &str| row[name].as_f64().expect("a number");
    let label = "path=\"udp:block/udp:block\"";
    let served = |name: &str| value(&plain, name, label).unwrap_or_else(|| panic!("no {name} in\n{plain}"));
    assert_eq!(served("hairpin_transactions_total"), number("transactions"));
    assert_eq!(served("hairpin_rtt_seconds_count"), number("transactions"));
    assert_eq!(served("hairpin_lost_total"), number("lost"));
    assert!((served("hairpin_measured_seconds_total") - number("duration_ns") / 1e9).abs() < 1e-6);
    let mean = served("hairpin_rtt_seconds_sum") / served("hairpin_rtt_seconds_count");
    assert!((mean * 1e9 / row["rtt_ns"]["mean"].as_f64().expect("mean") - 1.0).abs() < 1e-3, "{mean}");
    let of_row = plain.lines().filter(|line| line.starts_with("hairpin_warnings{") && line.contains(label));
    let codes: BTreeSet<&str> = of_row.filter_map(|line| line.split_once("code=\"")?.1.split('"').next()).collect();
    assert_eq!(codes, warnings(row).into_iter().collect::<BTreeSet<&str>>(), "{plain}");
    true
}

fn metrics_count_incidents_by_cause(_name: &str) -> bool {
    let home = Home::new();
    // Every round trip is above it.
    let paths = "--path udp:block --path tcp:block --pace 1000";
    let (run, address) = serving(&home, &format!("{paths} --duration 800ms --warmup 20ms --explain-above 1ns --json"));
    // When the second row begins the first is over, and its counts are those of the record.
    let begun = Instant::now();
    let page = loop {
        let page = get(&address, "/metrics", "");
        if page.contains("path=\"tcp:block/tcp:block\"") {
            break page;
        }
        assert!(begun.elapsed() < LIMIT, "no second row in\n{page}");
        sleep(Duration::from_millis(50));
    };
    let done = run.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    let found = &rows(&record)[0]["incidents"];
    let number = |name: &str| found[name].as_f64().expect("a number");
    let mut recorded = BTreeMap::<String, f64>::new();
    // The record splits each cause by thread or interrupt.
    for cause in found["causes"].as_array().expect("causes") {
        let name = cause["cause"].as_str().expect("a name").to_owned();
        *recorded.entry(name).or_default() += cause["count"].as_f64().expect("a count");
    }
    let label = "path=\"udp:block/udp:block\"";
    let of_row = page.lines().filter(|line| line.starts_with("hairpin_incidents_total{") && line.contains(label));
    let count = |line: &str| {
        let cause = line.split_once("cause=\"")?.1.split('"').next()?;
        Some((cause.to_owned(), line.rsplit_once(' ')?.1.parse::<f64>().ok()?))
    };
    let served: BTreeMap<String, f64> = of_row.filter_map(count).collect();
    assert_eq!(served, recorded, "{page}");
    assert_eq!(served.values().sum::<f64>(), number("count"), "{page}");
    assert_eq!(value(&page, "hairpin_incidents_without_line_total", label), Some(number("count") - number("written")), "{page}");
    // The first block has no hooks; those after it tell why, where hooks can be had.
    assert!(served.contains_key("not explained") && (served.len() > 1 || !namespaces()), "{served:?}");
    true
}

fn a_request_of_the_users_own_is_a_label(_name: &str) -> bool {
    let home = Home::new();
    let port = servers::service(servers::faulty::<TcpStream>(usize::MAX, 0, "", false));
    for (until, reply) in [(r"\n", ""), ("2", "2")] {
        let asking = format!(r"--request text:a\n --until {until} --forever --warmup 1ms --no-store");
        let (run, address) = serving_to(&home, &format!("echo:127.0.0.1:{port}"), &asking);
        let labels = format!(r#"reply_bytes="{reply}",origin="measured",request="text:a\\n""#);
        positive(&address, "hairpin_transactions_total", &labels);
        run.signal("INT");
        assert_eq!(run.done().code, Some(0));
    }
    let (run, address) = serving(&home, "--path udp --rate 100 --forever --warmup 1ms --no-store");
    positive(&address, "hairpin_transactions_total", r#"reply_bytes="64",origin="measured",request="""#);
    run.signal("INT");
    assert_eq!(run.done().code, Some(0));
    true
}

fn a_probe_that_waits_for_its_turn_answers(_name: &str) -> bool {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    let mut measuring = home.start(&format!("ping {address} --path udp --rate 1000 --forever --warmup 1ms --no-store -o jsonl"));
    measuring.until("\"transactions\"");
    let (mut probe, metrics) = serving_to(&home, &address, "--path tcp --rate 50 --forever --warmup 1ms --no-store");
    probe.until(&format!("waits: a measuring session runs on {address}"));
    let page = get(&metrics, "/metrics", "");
    assert_eq!(value(&page, "hairpin_measuring", ""), Some(0.0), "{page}");
    assert_eq!(value(&page, "hairpin_build_info", ""), Some(1.0), "{page}");
    measuring.signal("INT");
    assert_eq!(measuring.done().code, Some(0));
    positive(&metrics, "hairpin_transactions_total", "");
    let page = get(&metrics, "/metrics", "");
    assert_eq!(value(&page, "hairpin_measuring", ""), Some(1.0), "{page}");
    assert!(value(&page, "hairpin_paused_seconds_total", "").is_some_and(|waited| waited > 0.0), "{page}");
    probe.signal("INT");
    assert_eq!(probe.done().code, Some(0));
    true
}

fn hostile_scrapers_keep_nobody_waiting(_name: &str) -> bool {
    let home = Home::new();
    let (run, address) = serving(&home, "--path udp --pace 200 --forever --warmup 50ms --json");
    positive(&address, "hairpin_transactions_total", "");
    let mut slow = TcpStream::connect(&address).expect("a connection");
    slow.write_all(b"GET /met").expect("sent");
    let many: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&address).expect("a connection")).collect();
    let begun = Instant::now();
    let before = value(&get(&address, "/metrics", ""), "hairpin_transactions_total", "").expect("a figure");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for (request, status) in [
        ("GET /nothing HTTP/1.1\r\n\r\n".to_owned(), "404"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n".to_owned(), "405"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        (format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(9000)), "431"),
    ] {
        let (head, _) = ask(&address, &request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.40}: {head}");
    }
    // Descriptors stay bounded, and a silent connection is over in time.
    let open = fs::read_dir(format!("/proc/{}/fd", run.pid())).expect("descriptors").count();
    assert!(open < 100, "{open} descriptors");
    slow.set_read_timeout(Some(LIMIT)).expect("a timeout");
    assert_eq!(slow.read(&mut [0; 16]).unwrap_or(0), 0, "it was closed");
    drop(many);
    let mut after = before;
    let begun = Instant::now();
    while after <= before {
        assert!(begun.elapsed() < LIMIT, "the run does not go on: {before}");
        sleep(Duration::from_millis(50));
        after = positive(&address, "hairpin_transactions_total", "");
    }
    run.signal("INT");
    let done = run.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert!(rows(&record)[0]["transactions"].as_f64().expect("a number") >= after);
    assert_eq!(rows(&record)[0]["lost"], 0, "nothing was late for it");
    true
}

/// A Prometheus that scrapes one address every second; killed with this value.
struct Prometheus {
    _process: Running,
    address: String,
}

impl Prometheus {
    /// `None` if Prometheus is not installed.
    fn start(home: &Home, name: &str, target: &str, features: &str) -> Prometheus {
        let config = home.file(&format!("{name}.yml"));
        fs::write(
            &config,
            format!("global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: hairpin\n  static_configs: [{{targets: ['{target}']}}]\n"),
        )
        .expect("a file");
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = home.command(&prometheus().expect("it is here"));
        command.args([
            &format!("--config.file={}", config.display()),
            &format!("--storage.tsdb.path={}", home.file(&format!("{name}.tsdb")).display()),
            &format!("--web.listen-address={address}"),
        ]);
        if !features.is_empty() {
            command.arg(format!("--enable-feature={features}"));
        }
        let mut process = home.spawn(command);
        process.until("Server is ready to receive web requests");
        Prometheus { _process: process, address }
    }

    /// Its answer to a query: values with their labels.
    fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let encoded: String = query
            .bytes()
            .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect();
        let answer: Value =
            serde_json::from_str(&get(&self.address, &format!("/api/v1/query?query={encoded}"), "")).expect("JSON");
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let results = answer["data"]["result"].as_array().expect("results").iter();
        results
            .map(|one| (one["metric"].clone(), one["value"][1].as_str().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)))
            .collect()
    }

    fn one(&self, query: &str) -> Option<f64> {
        self.query(query).first().map(|(_, value)| *value)
    }
}

/// Debian's, unpacked by scripts/setup.sh beside the build's outputs.
fn prometheus() -> Option<String> {
    let answers = |program: &str| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
    };
    ["prometheus"].into_iter().find(|program| answers(program)).map(str::to_owned)
}

fn promtool_takes_the_plain_text(name: &str) -> bool {
    let here = Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !can(name, here.is_ok_and(|it| it.success()), "no promtool here; scripts/setup.sh unpacks Debian's") {
        return false;
    }
    let home = Home::new();
    let (run, address) = serving(&home, "--path udp --pace 200 --forever --warmup 50ms --no-store --explain-above 1ns");
    positive(&address, "hairpin_rtt_seconds_count", "");
    let page = get(&address, "/metrics", "");
    run.signal("INT");
    run.done();
    fs::write(home.file("page"), &page).expect("a file");
    let mut check = home.command("promtool");
    check.args(["check", "metrics"]).stdin(fs::File::open(home.file("page")).expect("the file"));
    let output = check.output().expect("promtool");
    assert!(
        output.status.success(),
        "{}{}\n{page}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    true
}

fn prometheus_agrees_with_the_record(name: &str) -> bool {
    let here = prometheus().is_some();
    if !can(name, here, "no prometheus here; scripts/setup.sh unpacks Debian's") {
        return false;
    }
    let home = Home::new();
    // While the first row is looked at the others leave the cores to Prometheus: some 40 ms a round trip, as an ACK is delayed.
    let light = ["tcp:block", "tcp:epoll"].map(|path| format!("--path {path},writes=2,nodelay=off")).join(" ");
    let (run, address) = serving(&home, &format!("--path udp:spin {light} --duration 4s --warmup 50ms --json"));
    let native = Prometheus::start(&home, "native", &address, "native-histograms");
    let classic = Prometheus::start(&home, "classic", &address, "");
    positive(&address, "hairpin_transactions_total", "path=\"tcp:block,");
    // Two scrapes of a row that is over.
    sleep(Duration::from_millis(2500));
    let of = "{path=\"udp:spin/udp:spin\"}";
    let found = [
        native.one(&format!("hairpin_transactions_total{of}")),
        native.one(&format!("histogram_count(hairpin_rtt_seconds{of})")),
        native.one(&format!("histogram_quantile(0.5, hairpin_rtt_seconds{of})")),
        native.one(&format!("histogram_quantile(0.99, hairpin_rtt_seconds{of})")),
        native.one(&format!("histogram_sum(hairpin_rtt_seconds{of}) / histogram_count(hairpin_rtt_seconds{of})")),
        classic.one(&format!("hairpin_rtt_seconds_count{of}")),
        classic.one(&format!("histogram_quantile(0.5, hairpin_rtt_seconds_bucket{of})")),
        classic.one("up"),
        native.one("up"),
    ];
    let dashboard =
        queries().into_iter().map(|query| (native.query(&query).len(), classic.query(&query).len(), query)).collect::<Vec<_>>();
    run.signal("INT");
    let done = run.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    let row = &rows(&record)[0];
    let figure = |name: &str| row["rtt_ns"][name].as_f64().expect("a figure") / 1e9;
    let transactions = row["transactions"].as_f64().expect("a number");
    let [Some(count), Some(in_native), Some(p50), Some(p99), Some(mean), Some(in_classic), Some(coarse), Some(up), Some(up_too)] =
        found
    else {
        panic!("{found:?}")
    };
    assert_eq!([count, in_native, in_classic], [transactions; 3]);
    assert_eq!([up, up_too], [1.0; 2]);
    // A bucket of the native histogram is 2.2 % wide.
    assert!((p50 / figure("p50") - 1.0).abs() < 0.03, "p50 {p50}, in the record {}", figure("p50"));
    assert!((p99 / figure("p99") - 1.0).abs() < 0.03, "p99 {p99}, in the record {}", figure("p99"));
    assert!((mean / figure("mean") - 1.0).abs() < 1e-3, "mean {mean}, in the record {}", figure("mean"));
    assert!((coarse / figure("p50")).ln().abs() < 2.5_f64.ln(), "{coarse}, in the record {}", figure("p50"));
    for (native, classic, query) in dashboard {
        // No request may be lost or late, and a run without --explain-above has no incidents.
        let may_be_empty = ["lost", "late", "warnings", "incidents"].iter().any(|word| query.contains(word));
        assert!(native > 0 && classic > 0 || may_be_empty, "nothing from {query}: {native} {classic}");
    }
    true
}

fn contrib(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

/// Every query of the dashboard, with its variables filled in.
fn queries() -> Vec<String> {
    fn expressions(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| expressions(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
            _ => {}
        }
    }
    let text = fs::read_to_string(contrib("grafana-dashboard.json")).expect("the dashboard");
    let mut found = Vec::new();
    expressions(&serde_json::from_str(&text).expect("JSON"), &mut found);
    assert!(found.len() >= 8, "{found:?}");
    let filled = |query: String| query.replace("$__rate_interval", "10s").replace("$path", ".*").replace("$peer", ".*");
    found.into_iter().map(filled).collect()
}

/// Words of a text that begin with hairpin_ and are metrics.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("hairpin_") && word.len() > "hairpin_".len()).map(str::to_owned).collect()
}

fn dashboard_and_docs_name_the_served_metrics(_name: &str) -> bool {
    let home = Home::new();
    let (run, address) = serving(&home, "--path udp --pace 200 --forever --warmup 50ms --no-store --explain-above 1ns");
    positive(&address, "hairpin_rtt_seconds_count", "");
    let page = get(&address, "/metrics", "Accept: application/openmetrics-text\r\n");
    run.signal("INT");
    run.done();
    let samples: BTreeSet<String> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| names(line.split(['{', ' ']).next().unwrap_or("")))
        .collect();
    let types: BTreeSet<String> =
        page.lines().filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned())).collect();
    // The native histogram has no suffix.
    let served: BTreeSet<&String> = samples.iter().chain(&types).collect();
    for query in queries() {
        for name in names(&query) {
            assert!(served.contains(&name), "the dashboard asks for {name}, which is not served: {served:?}");
        }
    }
    let docs =
        fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md")).expect("docs/metrics.md");
    let documented = names(&docs);
    for name in &documented {
        assert!(served.contains(name), "docs/metrics.md names {name}, which is not served: {served:?}");
    }
    for name in samples.iter().filter(|name| !["_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))) {
        assert!(documented.contains(name), "{name} is not in docs/metrics.md");
    }
    true
}

fn reports_a_metrics_address_that_cannot_be_used(_name: &str) -> bool {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    home.hairpin(&format!("ping --link loopback --path udp --count 1 --metrics {address}"))
        .fails(1, &[&format!("cannot serve metrics on {address}"), "--metrics ADDR:PORT"]);
    home.hairpin("ping --link loopback --path udp --count 1 --metrics nowhere")
        .fails(2, &["\"nowhere\" is not an address", "127.0.0.1:24445"]);
    home.hairpin("ping --link loopback --path udp --count 1 --metrics 203.0.113.7:1")
        .fails(1, &["cannot serve metrics on 203.0.113.7:1"]);
    assert!(!home.runs().exists(), "nothing was measured");
    let open = home.hairpin("ping --link loopback --path udp --count 10 --warmup 10ms --metrics 0.0.0.0:0");
    assert_eq!(open.code, Some(0), "{open:?}");
    assert!(open.err.contains("anyone who reaches this address can read them"), "{open:?}");
    true
}

fn the_unit_is_sound_and_has_few_privileges(name: &str) -> bool {
    let here = Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success());
    if !can(name, here, "no systemd-analyze here; install systemd to check the unit") {
        return false;
    }
    let home = Home::new();
    let unit = fs::read_to_string(contrib("hairpin-probe@.service")).expect("the unit");
    // verify looks for the program where the unit has it.
    let file = home.file("hairpin-probe@.service");
    fs::write(&file, unit.replace("/usr/bin/hairpin", HAIRPIN)).expect("a file");
    let analyze = |arguments: &[&str]| {
        let output = home.command("systemd-analyze").args(arguments).arg(&file).output().expect("systemd-analyze");
        (
            output.status.success(),
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        )
    };
    let (sound, said) = analyze(&["verify", "--man=no", "--recursive-errors=no"]);
    assert!(sound && !said.contains("Unknown"), "{said}");
    // Exposure in tenths, of at most 10.0; a service with no hardening at all has 9.6.
    let (few, said) = analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"]);
    assert!(few, "{said}");
    // The command in it is one that this program takes.
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/hairpin ")).expect("ExecStart");
    let words: Vec<&str> = start.split_whitespace().filter(|word| word.starts_with("--")).collect();
    let help = home.hairpin("ping --help").out;
    for word in words {
        assert!(help.contains(word), "{word} is no flag of ping");
    }
    true
}
