//! Views made from formulas, so that a golden depends on nothing else.

use hairpin_model::nic::find;
use hairpin_model::waterfall::{self, Link};
use hairpin_record::fit::fit;
use hairpin_record::run::Origin;
use hairpin_report::view::*;

pub const ORIGINS: [Origin; 3] = [Origin::Measured, Origin::Emulated, Origin::Published];
const SIZES: [u64; 5] = [64, 256, 1024, 4096, 16384];
/// The percentiles of a plot, as far as the samples go.
const QUANTILES: [f64; 14] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999, 0.999999];

/// A row whose quantiles grow with each nine.
pub fn row(number: usize, record: usize, path: &str, count: u64, bytes: u64, base_ns: f64) -> Row {
    let supported = |q: f64| (1.0 - q) * count as f64 >= 10.0 - 1e-6;
    let at = |q: f64| (base_ns * (0.93 + 0.23 * -(1.0 - q).log10() + 0.02 * (-(1.0 - q).log10()).powi(4))).round() as u64;
    let quantile = |q: f64| Quantile {
        ns: supported(q).then(|| at(q)),
        low_ns: (count > 100_000).then(|| at(q) - at(q) / 200),
        high_ns: (count > 100_000).then(|| at(q) + at(q) / 150),
    };
    let ends = |ns: f64| (count > 0).then_some(ns.round() as u64);
    Row {
        number,
        record,
        path: format!("{path}/{path}"),
        label: format!("{path} {bytes} B"),
        origin: Origin::Measured,
        request_bytes: bytes,
        reply_bytes: bytes,
        flows: 1,
        outstanding: 1,
        pace_per_s: None,
        count,
        lost: 0,
        transactions_per_s: if count == 0 { 0.0 } else { 1e9 / (base_ns * 1.1) },
        rtt: Summary {
            min: ends(base_ns * 0.93),
            mean: (count > 0).then_some(base_ns * 1.05),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: ends(base_ns * if count == 1 { 0.93 } else { 9.0 }),
        },
        turnaround: None,
        cpu_client_ns: None,
        cpu_server_ns: None,
        floor_ns: None,
        percentiles: QUANTILES.into_iter().filter(|q| supported(*q)).map(|q| Percentile { q, ns: at(q) }).collect(),
        buckets: Vec::new(),
        split: None,
        one_way: None,
        series: Series::default(),
        warnings: Vec::new(),
        apart: None,
    }
}

/// A path over all sizes.
fn path(view: &mut View, path: &str, count: u64, base_ns: f64, ns_per_byte: f64, more: impl Fn(&mut Row)) {
    let first = view.rows.len() + 1;
    for (i, bytes) in SIZES.into_iter().enumerate() {
        let wobble = 1.0 + 0.004 * ((i * 7 + first) % 5) as f64;
        let mut row = row(first + i, 1, path, count, bytes, (base_ns + ns_per_byte * bytes as f64) * wobble);
        more(&mut row);
        view.rows.push(row);
    }
    let rows = &view.rows[first - 1..];
    let points: Vec<(f64, f64)> =
        rows.iter().filter_map(|row| Some((row.request_bytes as f64, row.rtt.p50.ns? as f64))).collect();
    view.curves.push(Curve {
        record: 1,
        label: path.into(),
        rows: rows.iter().map(|row| row.number).collect(),
        fit: fit(&points, 1.0).ok(),
        fit_note: None,
    });
}

fn record(number: usize, schema: &str, command: &str) -> Record {
    Record {
        number,
        name: format!("2026112{number}-091500-7f3a"),
        schema: schema.into(),
        tool: "hairpin 0.1.0".into(),
        command: command.into(),
        started: format!("2026-11-2{number}T09:15:00Z"),
        link: "veth, mtu 1500".into(),
        clock: "tsc, 27.4 ns of every RTT".into(),
        ended: None,
        warnings: Vec::new(),
    }
}

fn warning(code: &str, message: &str) -> Warning {
    Warning { code: code.into(), message: message.into() }
}

/// `count` paths over all sizes.
pub fn paths(count: usize) -> View {
    let mut view = View { tool: "hairpin 0.1.0".into(), made: "2026-11-21T10:00:00Z".into(), ..View::default() };
    view.records.push(record(1, "hairpin.run/1", "hairpin ping --link veth --sizes 64..16384x4"));
    for i in 0..count {
        path(&mut view, &format!("udp:spin,sndbuf={i}K"), 20_000, 4_000.0 * 1.3f64.powi(i as i32), 0.4, |_| {});
    }
    view
}

/// One row of `count` samples.
pub fn counted(count: u64) -> View {
    let mut view = View { tool: "hairpin 0.1.0".into(), made: "2026-11-21T10:00:00Z".into(), ..View::default() };
    view.records.push(record(1, "hairpin.run/1", "hairpin ping --link loopback --path udp:spin"));
    view.rows.push(row(1, 1, "udp:spin", count, 64, 4_883.0));
    view.summary.push(format!("udp:spin was measured with {count} samples."));
    view
}

/// A run over sizes, one on an emulated device, an explained path, a comparison, two hosts, published figures.
pub fn everything() -> View {
    let mut view = View {
        tool: "hairpin 0.1.0".into(),
        made: "2026-11-21T10:00:00Z".into(),
        summary: vec![
            "Fastest at 64 B is udp:spin: RTT p50 4.668 us, 11.2 times less than tcp:block.".into(),
            "Of the gap to the floor of 0.145 us the send calls take most: 1.220 us of 4.899 us.".into(),
            "To try: --path xdp:spin, which leaves the socket out.".into(),
        ],
        ..View::default()
    };
    view.records = vec![
        record(
            1,
            "hairpin.run/1",
            "hairpin ping --link veth --path udp:spin --path tcp:block --path tcp:spin --path niq:spin --sizes 64..16384x4",
        ),
        record(2, "hairpin.explain/1", "hairpin explain --link veth --path udp:spin --note 'before and after the new kernel'"),
        record(3, "hairpin.compare/1", "hairpin compare --link veth -- udp:spin -- udp:busy-poll"),
    ];
    let floor = |row: &mut Row| {
        let ns = 134.4 + 0.16 * row.request_bytes as f64;
        row.floor_ns = Some([ns, ns * 1.1]);
    };
    path(&mut view, "udp:spin", 200_000, 4_600.0, 0.81, floor);
    path(&mut view, "tcp:block", 20_000, 52_000.0, 0.95, |_| {});
    path(&mut view, "tcp:spin", 150_000, 7_300.0, 1.05, |_| {});
    path(&mut view, "niq:spin", 400_000, 940.0, 0.22, |row| row.origin = Origin::Emulated);
    view.rows[5].lost = 3;
    for row in &mut view.rows[5..10] {
        row.warnings
            .push(warning("deep-idle", "the client blocks, and its core may enter idle state haltpoll: compare with :spin"));
    }
    view.rows[5].warnings.push(warning("loss", "3 of 20003 requests were never answered in time: try rcvbuf=4M"));
    view.records[0].warnings.push(warning("no-governor", "the frequency governor cannot be read on this host"));
    view.breakdowns.push(breakdown());
    view.comparisons.push(comparison());
    view.hosts = vec!["client of 1".into(), "server of 1".into(), "client of 2".into()];
    let fact = |name: &str, values: [Option<&str>; 3], differs| Fact {
        name: name.into(),
        values: values.map(|value| value.map(Into::into)).into(),
        differs,
    };
    view.facts = vec![
        fact("hostname", [Some("alpha"), Some("beta"), Some("alpha")], true),
        fact("scaling_governor", [Some("performance"), Some("powersave"), None], true),
        fact("kernel_release", [Some("6.12.9"), Some("6.12.9"), Some("6.12.9")], false),
        fact("smt_control", [Some("off"), Some("off"), None], false),
    ];
    view.published = vec![
        Published {
            name: "sniffer10g, 10G NIC with user-level driver".into(),
            what: "RTT/2 mean x 2".into(),
            derived: true,
            source: "a published table of half round trips, row 3".into(),
            points: vec![[64.0, 4_120.0], [1024.0, 6_900.0]],
        },
        Published {
            name: "the wire alone".into(),
            what: "lower bound".into(),
            derived: false,
            source: "a published table of frames, row 1".into(),
            points: vec![[1500.0, 2_460.8]],
        },
    ];
    view
}

/// A load beyond its knee, with a rate that was measured again and one of another core state; and one that keeps up with all
/// rates.
pub fn loads() -> View {
    let mut view = View { tool: "hairpin 0.1.0".into(), made: "2026-11-21T10:00:00Z".into(), ..View::default() };
    view.records.push(record(1, "hairpin.load/1", "hairpin load --link veth --path udp:spin --path tcp:block"));
    let mut spin = load("udp:spin, 64 B", 8_000.0, 200_000.0);
    spin.knee =
        "The knee: it keeps up with 180000/s, and at 200000/s the p99 from due was more than 5 times its least at a lower rate."
            .into();
    (spin.keeps_up_per_s, spin.beyond_per_s) = (Some(180_000.0), Some(200_000.0));
    spin.rates[2].apart = true;
    let mut again = spin.rates[9].clone();
    (again.repeat, again.from_due.p99.ns) = (1, again.from_due.p99.ns.map(|ns| ns * 9 / 10));
    spin.rates.push(again);
    let mut block = load("tcp:block, 64 B", 60_000.0, 40_000.0);
    block.rates.truncate(9);
    block.knee = "No knee: it keeps up with 36000/s, the highest rate offered.".into();
    block.keeps_up_per_s = Some(36_000.0);
    view.loads = vec![spin, block];
    view
}

/// 10 % to 110 % of a rate, for two seconds each.
fn load(label: &str, base_ns: f64, per_s: f64) -> LoadCurve {
    let times = |ns: f64| Summary { p99: Quantile { ns: Some(ns.round() as u64), ..Quantile::default() }, ..Summary::default() };
    let rate = |tenths: u32| {
        let share = f64::from(tenths) / 10.0;
        let (offered_per_s, sent_ns) = (per_s * f64::from(tenths) / 10.0, base_ns * (1.0 + 2.0 * share.powi(4)));
        LoadRate {
            offered_per_s,
            offered_said: format!("{} k/s", offered_per_s / 1e3),
            achieved_per_s: offered_per_s.min(per_s),
            due: (2.0 * offered_per_s).round() as u64,
            lost: 0,
            repeat: 0,
            apart: false,
            from_due: times(sent_ns + base_ns * (share / 0.95).powi(40)),
            from_sent: times(sent_ns),
            split: None,
        }
    };
    LoadCurve {
        record: 1,
        label: label.into(),
        origin: Origin::Measured,
        knee: String::new(),
        keeps_up_per_s: None,
        beyond_per_s: None,
        rates: (1..=11).map(rate).collect(),
        warnings: Vec::new(),
    }
}

/// The kind of a stage's work.
fn part(stage: &str) -> &'static str {
    match stage {
        "send call" | "receive" => "calls",
        "turn-around" => "program",
        "observer" => "hooks",
        "residual" => "no stage",
        _ => "kernel",
    }
}

fn breakdown() -> Breakdown {
    let stage = |name: &str, direction: &str, side: &str, typical_ns: f64, slow_ns: f64| StageRow {
        name: name.into(),
        part: part(name).into(),
        side: side.into(),
        direction: direction.into(),
        typical_ns,
        slow_ns,
        p50_ns: Some(typical_ns as u64),
        p99_ns: Some((typical_ns * 1.5) as u64),
    };
    let stages = vec![
        stage("send call", "request", "client", 620.0, 700.0),
        stage("driver", "request", "client", 190.0, 202.0),
        stage("softirq", "request", "server", 170.0, 190.0),
        stage("stack", "request", "server", 280.0, 300.0),
        stage("receive", "request", "server", 490.0, 6_461.0),
        stage("turn-around", "reply", "server", 20.0, 20.0),
        stage("send call", "reply", "server", 600.0, 640.0),
        stage("driver", "reply", "server", 183.0, 187.0),
        stage("softirq", "reply", "client", 168.0, 170.0),
        stage("stack", "reply", "client", 275.0, 290.0),
        stage("receive", "reply", "client", 465.0, 957.0),
        stage("observer", "", "", 1_298.0, 1_298.0),
        stage("residual", "", "", 140.0, 140.0),
    ];
    let sum = |of: fn(&StageRow) -> f64| stages.iter().map(of).sum();
    let floor = waterfall::floor(find("niq").unwrap(), None, &Link::default()).unwrap();
    Breakdown {
        record: 2,
        label: "udp:spin".into(),
        origin: Origin::Measured,
        request_bytes: 64,
        untraced_count: 50_000,
        untraced_p50_ns: Some(3_615),
        traced_p50_ns: Some(4_899),
        typical_count: 10_000,
        typical_ns: sum(|stage| stage.typical_ns),
        slow_count: 500,
        slow_ns: sum(|stage| stage.slow_ns),
        stages,
        split: None,
        wire: Wire::Beside,
        wire_said: "Both sides are on this host, over veth: no NIC and no cable is in the measured time.".into(),
        declared: true,
        designs: vec![Design::of(&floor, &[])],
        causes: vec![
            Cause {
                cause: "interrupt".into(),
                who: "timer".into(),
                count: 212,
                lost_ns: 1_480_000,
                advice: "isolate the cores: isolcpus, nohz_full".into(),
            },
            Cause { cause: "preemption".into(), who: "kworker/1:2".into(), count: 31, lost_ns: 410_000, advice: String::new() },
        ],
        warnings: vec![warning("lost-events", "12 events found no room: the figures lack what they belong to")],
    }
}

fn comparison() -> Comparison {
    let ratio = |figure: &str, against: f64, ratio: f64, spread: f64| Ratio {
        figure: figure.into(),
        against: Some(against),
        value: Some(against * ratio),
        ratio: Some(ratio),
        low: Some(ratio - spread),
        high: Some(ratio + spread),
    };
    Comparison {
        record: 3,
        against: "A".into(),
        arm: "B".into(),
        verdict: "slower".into(),
        figure: "p50".into(),
        sentence: "udp:busy-poll takes 7.6 to 8.4 % more RTT p50 than udp:spin.".into(),
        ratios: vec![
            ratio("p50", 5_120.0, 1.08, 0.004),
            ratio("p99", 8_192.0, 1.08, 0.013),
            ratio("p99.9", 20_480.0, 1.08, 0.039),
            ratio("rate", 185_547.0, 0.926, 0.004),
            ratio("cpu", 10_240.0, 1.08, 0.006),
        ],
        interleaved: true,
        margin: 0.02,
        confidence: 0.95,
    }
}

/// Every text as a hostile host would write it.
pub fn hostile() -> View {
    let evil = "</title><script>alert(1)</script>|`x`|\u{1b}[31m\r\n@root #1 [a](http://x.example) <img src=x onerror=alert(1)> ]]>&amp;\u{202E}";
    let long = format!("{evil}{}", "long".repeat(40));
    let mut view = everything();
    view.rows.truncate(2);
    for row in &mut view.rows {
        row.label = evil.into();
        row.path = evil.into();
        row.warnings = vec![warning(evil, evil)];
    }
    view.curves.truncate(1);
    view.curves[0].label = long.clone();
    view.curves[0].rows = vec![1, 2];
    view.summary = vec![evil.into(), "> quoted".into()];
    view.records.truncate(1);
    let record = &mut view.records[0];
    record.name = evil.into();
    record.command = format!("hairpin ping '{evil}' ``` {}", "x".repeat(120));
    record.link = evil.into();
    record.ended = Some(evil.into());
    view.breakdowns[0].label = evil.into();
    view.breakdowns[0].stages[0].name = evil.into();
    view.breakdowns[0].causes[0].who = evil.into();
    view.breakdowns[0].wire_said = evil.into();
    let design = &mut view.breakdowns[0].designs[0];
    (design.name, design.link, design.over) = (evil.into(), evil.into(), evil.into());
    (design.parts[0].name, design.parts[0].source) = (evil.into(), evil.into());
    view.comparisons[0].arm = evil.into();
    view.comparisons[0].against = long;
    view.comparisons[0].sentence = evil.into();
    view.hosts[0] = evil.into();
    view.facts[0].values[1] = Some(evil.into());
    view.published.truncate(1);
    view.published[0].name = evil.into();
    view.published[0].source = evil.into();
    view
}
