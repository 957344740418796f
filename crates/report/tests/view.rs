//! The view behind a report, from measured records and from hostile ones.
//!
//! After a change of the sentences run `INSTA_UPDATE=always cargo test -p hairpin-report --test main view` and review the
//! difference.

use std::collections::BTreeMap;
use std::fs;

use hairpin_model::reference::references;
use hairpin_record::any::AnyRecord;
use hairpin_record::compare::{Arm, Compare, CompareBody, Comparison, Design, Figures, Method, Threshold};
use hairpin_record::experiment::{Estimate, Figure, State, Verdict};
use hairpin_record::head::{Body, Head};
use hairpin_record::histogram::Times;
use hairpin_record::run::{Block, Origin, Point, Quantiles, Row, Run};
use hairpin_record::tune_try::Contradiction;
use hairpin_record::warning::Note;
use hairpin_report::html;
use hairpin_report::view;
use hairpin_report::view::{Beside, Input, View, Wire};
use insta::assert_snapshot;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

const MADE: &str = "2026-11-22T12:00:00.000000Z";
const RUN: &str = include_str!("../../record/tests/data/run-1.json");

fn kept(name: &str) -> String {
    fs::read_to_string(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn given(text: &str) -> Vec<Input> {
    let records = AnyRecord::all(text.as_bytes()).unwrap();
    records.into_iter().enumerate().map(|(at, record)| Input { name: format!("run-{}", at + 1), record }).collect()
}

fn of_runs(runs: Vec<Run>) -> View {
    let given: Vec<Input> =
        runs.into_iter().map(|run| Input { name: "run".into(), record: AnyRecord::Run(Box::new(run)) }).collect();
    made(&given)
}

fn made(given: &[Input]) -> View {
    view(given, MADE, Beside::default())
}

fn example() -> Run {
    serde_json::from_str(RUN).unwrap()
}

/// A row of `n` samples around `p50_ns`, with a block of each thousand.
fn row(path: &str, bytes: u64, n: u64, p50_ns: u64) -> Row {
    let mut times = Times::new();
    (0..n).for_each(|i| times.record(p50_ns * 9 / 10 + p50_ns * i / (5 * n)));
    let blocks =
        (0..n / 1000).map(|i| Block { at_ns: i * 100_000_000, count: 1000, p50: Some(p50_ns + i % 7), ..Block::default() });
    Row {
        path: path.into(),
        request_bytes: bytes,
        reply_bytes: bytes,
        flows: 1,
        threads: 1,
        outstanding: 1,
        transactions: n,
        transactions_per_s: 1e9 / p50_ns as f64,
        rtt_ns: times.quantiles(),
        histogram: times.encode(),
        blocks: blocks.collect(),
        ..Row::default()
    }
}

fn run(rows: Vec<Row>) -> Run {
    let mut run = example();
    run.results = rows;
    run
}

fn arm(name: &str, path: &str, p50_ns: f64) -> Arm {
    let figures =
        Figures { p50_ns: Some(p50_ns), p99_ns: Some(1.6 * p50_ns), rate_per_s: Some(0.95e9 / p50_ns), ..Figures::default() };
    let (name, given, path) = (name.into(), path.into(), path.into());
    Arm {
        name,
        given,
        path,
        request_bytes: 64,
        reply_bytes: 64,
        flows: 1,
        outstanding: 1,
        link: Some(example().body.place.link),
        figures,
        ..Arm::default()
    }
}

fn comparison(arm: &str, verdict: Verdict, ratio: f64) -> Comparison {
    let estimate = |figure, ratio: f64| Estimate {
        figure,
        ratio: Some(ratio),
        low: Some(ratio * 0.99),
        high: Some(ratio * 1.01),
        pairs: 187,
        blocks_per_value: 1.0,
        ..Estimate::default()
    };
    Comparison {
        arm: arm.into(),
        against: "A".into(),
        verdict,
        needs_s: None,
        pairs: 187,
        dropped: 13,
        states_used: vec![0],
        matched: Default::default(),
        runs: None,
        figures: vec![estimate(Figure::P50, ratio), estimate(Figure::Rate, 1.0 / ratio)],
    }
}

fn compared() -> Compare {
    Compare {
        head: Head {
            schema: Compare::SCHEMA.into(),
            tool: "hairpin 0.1.0".into(),
            command: ["hairpin", "compare", "--link", "loopback", "--", "udp:block", "--", "udp:spin"].map(String::from).into(),
            started: "2026-11-21T12:00:00Z".into(),
            interrupted: true,
            error: None,
        },
        body: CompareBody {
            host: Some(example().body.place.hosts.client),
            design: Some(Design {
                seed: 7,
                rounds: 200,
                discarded: 2,
                block_ns: 50_000_000,
                warmup_ns: 5_000_000,
                elapsed_ns: 30_000_000_000,
            }),
            method: Method { figure: Figure::P50, confidence: 0.95, confidence_each: 0.995, looks: 1, margin: 0.02 },
            states: vec![State { core_rtt_ns: Some(121), blocks: 400 }],
            arms: vec![arm("A", "udp:block/udp:block", 54_000.0), arm("B", "udp:spin/udp:spin", 5_120.0)],
            comparisons: vec![comparison("B", Verdict::Faster, 0.0948)],
            placements: Vec::new(),
            thresholds: vec![Threshold {
                given: "p99 > +5%".into(),
                arm: "B".into(),
                crossed: false,
                unknown: None,
                not_excluded: None,
                confirmed: None,
            }],
            warnings: vec![Note { code: "loss".into(), message: "requests were never answered in time: 3 by B".into() }],
        },
    }
}

fn compare_record() -> Input {
    Input { name: "compare.json".into(), record: AnyRecord::Compare(Box::new(compared())) }
}

#[test]
fn figures_are_those_of_the_record() {
    let view = of_runs(vec![example()]);
    assert_eq!((view.rows.len(), view.records.len(), view.made.as_str()), (4, 1, MADE));
    for (shown, row) in view.rows.iter().zip(&example().results) {
        assert_eq!((shown.path.as_str(), shown.count, shown.lost), (row.path.as_str(), row.rtt_ns.count, row.lost));
        let (rtt, times) = (&shown.rtt, &row.rtt_ns);
        assert_eq!(
            [rtt.min, rtt.p50.ns, rtt.p99.ns, rtt.p999.ns, rtt.max],
            [times.min, times.p50, times.p99, times.p999, times.max]
        );
        assert_eq!(shown.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), times.count, "{}", shown.path);
        assert_eq!(shown.series.at_ms.len(), row.series.len());
        assert_eq!(shown.turnaround.is_some(), row.turnaround_ns.is_some());
        // Two blocks are too few for an interval.
        assert_eq!((rtt.p50.low_ns, rtt.p50.high_ns), (None, None));
    }
    let record = &view.records[0];
    let mut still = example();
    still.place.clock.drift_ppb = Some(-0.2);
    assert!(of_runs(vec![still]).records[0].clock.ends_with("drifted by 0 ppb"));
    assert_eq!(record.command.split_whitespace().take(4).collect::<Vec<_>>(), ["hairpin", "ping", "--link", "loopback"]);
    assert_eq!(record.link, "loopback lo to ::1, MTU 65536");
    assert_eq!(record.clock, "tsc: 27.4 ns of every RTT, in steps of 10.0 ns; it drifted by -12 ppb");
    assert_eq!((view.hosts.as_slice(), record.ended.as_deref()), (["client of 1, server of 1".to_owned()].as_slice(), None));
}

#[test]
fn rows_are_told_apart() {
    let mut paced = row("udp:block/udp:block", 64, 100, 80_000);
    paced.pace_per_s = Some(10.0);
    let many = Row { flows: 4, outstanding: 2, ..row("udp:spin/udp:block", 64, 5_000, 20_000) };
    let emulated = Row { origin: Origin::Emulated, ..row("niq:spin/niq:spin", 18, 5_000, 4_000) };
    let mut other = run(vec![row("tcp:block/tcp:block", 64, 5_000, 9_000), paced.clone()]);
    other.place.link.kind = "veth".into();
    other.place.link.peer = None;
    let same = row("tcp:block/tcp:block", 64, 5_000, 9_000);
    let view = of_runs(vec![run(vec![same.clone(), same, paced, many, emulated]), other.clone(), other]);
    let labels: Vec<&str> = view.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "tcp:block over loopback, 64 B, row 1",
            "tcp:block over loopback, 64 B, row 2",
            "udp:block @10/s over loopback, 64 B",
            "udp:spin/block over loopback, 4 flows, 2 in flight per flow, 64 B",
            "niq:spin [emulated] over loopback, 18 B",
            "tcp:block over veth, 64 B, record 2",
            "udp:block @10/s over veth, 64 B, record 2",
            "tcp:block over veth, 64 B, record 3",
            "udp:block @10/s over veth, 64 B, record 3",
        ]
    );
    // Where size and link are the same everywhere, a label has neither.
    let view = of_runs(vec![run(vec![row("tcp:block/tcp:block", 64, 5_000, 9_000), row("udp:spin/udp:spin", 64, 5_000, 5_000)])]);
    assert_eq!(view.rows.iter().map(|row| row.label.as_str()).collect::<Vec<_>>(), ["tcp:block", "udp:spin"]);
}

#[test]
fn sizes_make_a_curve_with_a_fit() {
    let sizes = [64, 128, 256, 512, 1024];
    let mut rows: Vec<Row> = sizes.iter().rev().map(|bytes| row("udp:spin/udp:spin", *bytes, 20_000, 5_000 + bytes)).collect();
    rows.push(Row { pace_per_s: Some(10.0), ..row("udp:spin/udp:spin", 2048, 20_000, 90_000) });
    rows.extend([64, 128].map(|bytes| row("tcp:spin/tcp:spin", bytes, 20_000, 7_000)));
    rows.push(row("pipe:spin/pipe:spin", 64, 20_000, 2_000));
    let view = of_runs(vec![run(rows)]);
    let [udp, tcp] = &view.curves[..] else { panic!("two curves: {:?}", view.curves) };
    assert_eq!((udp.label.as_str(), udp.rows.as_slice()), ("udp:spin", [5, 4, 3, 2, 1].as_slice()));
    let line = udp.fit.unwrap().line;
    assert!((line.ns_per_byte.value - 1.0).abs() < 0.02 && (line.base_ns.value - 5_000.0).abs() < 20.0, "{line:?}");
    assert_eq!((tcp.label.as_str(), tcp.rows.len(), tcp.fit), ("tcp:spin", 2, None));
}

/// The record in which `udp:spin` ran with the cores far apart, the other paths with the cores near: one table of two machines.
#[test]
fn rows_of_two_core_states_are_not_compared() {
    let given = given(&kept("../../../record/tests/data/two-states.json"));
    let view = made(&given);
    let apart: Vec<bool> = view.rows.iter().map(|row| row.apart.is_some()).collect();
    assert_eq!(apart, [false, false, false, true, true, true, false, false, false]);
    let far = view.rows[4].apart.as_deref().unwrap();
    assert!(
        far.starts_with("cores far apart: 394 to 454 ns a cache line; not comparable with the rows measured near (54 to "),
        "{far}"
    );
    assert!(view.rows[3].apart.as_deref().unwrap().starts_with("cores near and far apart in turn: 54 to 443 ns"));
    let warned = |row: &hairpin_report::view::Row| row.warnings.iter().any(|warning| warning.code == "cores-apart");
    assert_eq!(view.rows.iter().map(warned).collect::<Vec<_>>(), apart);
    // The first sentence leaves them out and says so.
    assert!(view.summary[0].contains("xdp:spin over veth is fastest"), "{}", view.summary[0]);
    assert!(view.summary[0].contains("Left out, since the two cores were at another distance then"), "{}", view.summary[0]);
    assert!(view.summary[0].ends_with("(core_rtt_ns): udp:spin over veth."), "{}", view.summary[0]);
    // No line through both states.
    let [xdp, udp, tcp] = &view.curves[..] else { panic!("three curves") };
    assert!(xdp.fit.is_some() && tcp.fit.is_some() && xdp.fit_note.is_none());
    assert_eq!((udp.label.as_str(), udp.fit), ("udp:spin", None));
    let note = udp.fit_note.as_deref().unwrap();
    assert!(note.starts_with("none: 1 of 3 rows were measured with the cores in another state"), "{note}");

    let AnyRecord::Run(run) = &given[0].record else { panic!("a run") };
    let options = hairpin_report::Options::default();
    for text in [hairpin_report::term(&**run, &options), hairpin_report::markdown(&**run, &options).replace('\\', "")] {
        assert!(text.contains("udp:spin *") && !text.contains("tcp:spin *") && !text.contains("xdp:spin *"), "{text}");
        assert!(text.contains("* Not comparable with the other rows"), "{text}");
        assert!(
            text.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains("udp:spin (256 B, 1024 B): cores far apart: 393 to 462 ns")
        );
    }
    let text = hairpin_report::term(std::slice::from_ref(&**run), &options);
    assert!(text.contains("udp:spin *") && text.contains("cores-apart in 3 of 9 rows"), "{text}");

    let page = hairpin_report::markdown(&view, &options);
    assert!(page.contains(r"udp:spin, 256 B \* |") && page.contains(r"\* the two cores were at another distance"), "{page}");
    assert!(page.contains("| none: 1 of 3 rows"), "{page}");
    // A slope has its interval.
    let line = page.lines().find(|line| line.starts_with("| tcp:spin |") && line.contains("ns/B")).unwrap();
    let fit = line.split('|').find(|cell| cell.contains("ns/B")).unwrap();
    assert_eq!(fit.matches(" to ").count(), 2, "{line}");
    let plain = hairpin_report::term(&view, &hairpin_report::Options { width: 100, ..options.clone() });
    assert!(plain.contains("udp:spin, 256 B *") && plain.contains("* the two cores were"), "{plain}");
    let svg = hairpin_report::report_svg(&view, hairpin_report::Chart::Sizes);
    assert_eq!(svg.matches(" apart\" d=").count(), 3);
    assert!(svg.contains("hollow and coloured: the two cores were at another distance"), "{svg}");
    // udp:spin has three points, all apart, and no line; the two others have theirs through all of their points.
    let lines: Vec<usize> = svg
        .split("<polyline class=\"line c")
        .skip(1)
        .map(|line| line.split("points=\"").nth(1).unwrap().split('"').next().unwrap().split(' ').count())
        .collect();
    assert_eq!(lines, [3, 3], "{svg}");
}

#[test]
fn long_runs_are_thinned_and_have_intervals() {
    let mut long = row("udp:spin/udp:spin", 64, 40_000, 5_000);
    long.series = (0..4096)
        .map(|i| Point { at_ns: i * 100_000_000, count: 10, p50: Some(5_000 + i), p99: None, max: 9_000, thread: 0 })
        .collect();
    let view = of_runs(vec![run(vec![long])]);
    let row = &view.rows[0];
    assert_eq!((row.series.at_ms.len(), row.series.p50_high_ns.last().unwrap()), (240, &Some(5_000 + 4_095)));
    let p50 = row.rtt.p50;
    assert!(p50.low_ns.unwrap() <= p50.ns.unwrap() && p50.ns.unwrap() <= p50.high_ns.unwrap(), "{p50:?}");
    assert_eq!(row.rtt.p90.low_ns, None, "blocks have no p90");
}

#[test]
fn quantiles_need_enough_samples() {
    let one = row("udp:spin/udp:spin", 64, 1, 5_000);
    let none = row("tcp:spin/tcp:spin", 64, 0, 5_000);
    let view = of_runs(vec![run(vec![one, none])]);
    let [one, none] = &view.rows[..] else { panic!("two rows") };
    assert_eq!((one.rtt.p50.ns, one.rtt.min, one.percentiles.len(), one.buckets.len()), (None, Some(4_500), 0, 1));
    assert_eq!((none.rtt.max, none.buckets.len(), none.warnings.len()), (None, 0, 0));
    assert!(view.summary[0].contains("is unknown"), "{}", view.summary[0]);
}

#[test]
fn a_billion_samples_reach_the_last_percentile() {
    let view = made(&given(&kept("a-billion.json")));
    let row = &view.rows[0];
    assert_eq!(row.count, 1_000_000_000);
    assert_eq!(row.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), row.count);
    assert_eq!(row.percentiles.last().unwrap().q, 0.999_999);
    assert!(row.rtt.p999.ns.is_some() && row.series.at_ms.len() <= 240);
    assert!(row.buckets.len() < 500, "{}", row.buckets.len());
    assert!(serde_json::to_string(row).unwrap().len() < 40_000);
}

#[test]
fn facts_that_differ_come_first() {
    let mut other = example();
    other.place.hosts.client.hostname = "beta".into();
    other.place.hosts.client.facts.insert("tcp_timestamps".into(), json!(0));
    other.place.hosts.client.facts.insert("isolated_cpus".into(), json!(""));
    other.place.hosts.server = None;
    let view = of_runs(vec![example(), other]);
    assert_eq!(view.hosts, ["client of 1, server of 1", "client of 2"]);
    let names: Vec<(&str, bool)> = view.facts.iter().map(|fact| (fact.name.as_str(), fact.differs)).collect();
    assert_eq!(names[..3], [("hostname", true), ("tcp_timestamps", true), ("clocksource", false)]);
    let fact = |name: &str| view.facts.iter().find(|fact| fact.name == name).unwrap();
    assert_eq!(fact("tcp_timestamps").values, [Some("1".into()), Some("0".into())]);
    assert_eq!(fact("isolated_cpus").values, [None, Some("\"\"".into())], "what one host does not tell does not differ");
    assert!(!fact("isolated_cpus").differs);
    assert_eq!(
        fact("idle_states").values[0].as_deref().unwrap().split_once("}, {").unwrap().0,
        "{disabled: false, latency_us: 0, name: POLL"
    );
}

#[test]
fn stages_add_up_with_observer_and_residual_last() {
    let view = made(&given(&kept("explain-all-hooks.json")));
    let breakdown = &view.breakdowns[0];
    let names: Vec<&str> = breakdown.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names[names.len() - 2..], ["observer", "residual"]);
    assert_eq!((breakdown.stages[0].name.as_str(), breakdown.stages[0].direction.as_str()), ("send call", "request"));
    let sum: f64 = breakdown.stages.iter().map(|stage| stage.typical_ns).sum();
    assert!((sum - breakdown.typical_ns).abs() < 1.0, "{sum} of {}", breakdown.typical_ns);
    assert!(breakdown.untraced_p50_ns.unwrap() < breakdown.traced_p50_ns.unwrap());
    assert!(!breakdown.causes.is_empty() && !breakdown.causes[0].advice.is_empty());
}

#[test]
fn a_wire_is_in_a_measured_time_only_where_there_is_one() {
    let wire = |kind: &str, peer: Option<&str>, origin: Origin| {
        let mut given = given(&kept("explain-all-hooks.json"));
        let AnyRecord::Explain(record) = &mut given[0].record else { panic!("an explain record") };
        (record.place.link.kind, record.place.link.peer) = (kind.into(), peer.map(str::to_owned));
        record.results[0].origin = origin;
        let breakdown = made(&given).breakdowns.swap_remove(0);
        assert!(!breakdown.declared && breakdown.designs.is_empty());
        let known = ["waking", "kernel", "calls", "program", "hooks", "no stage"];
        breakdown.stages.iter().for_each(|stage| assert!(known.contains(&stage.part.as_str()), "{stage:?}"));
        breakdown.wire
    };
    assert_eq!(wire("veth", None, Origin::Measured), Wire::Beside);
    assert_eq!(wire("loopback", Some("::1"), Origin::Measured), Wire::Beside);
    assert_eq!(wire("echo", Some("127.0.0.1:7"), Origin::Measured), Wire::Beside);
    assert_eq!(wire("host", Some("192.0.2.1"), Origin::Measured), Wire::Outside);
    assert_eq!(wire("veth", None, Origin::Emulated), Wire::Ring);
}

#[test]
fn comparisons_have_their_verdict_and_every_ratio() {
    let view = made(&[compare_record()]);
    let found = &view.comparisons[0];
    assert_eq!(
        (found.against.as_str(), found.arm.as_str()),
        ("A: udp:block, 64 B, over loopback lo to ::1, MTU 65536", "B: udp:spin, 64 B")
    );
    assert_eq!((found.verdict.as_str(), found.figure.as_str(), found.interleaved), ("faster", "p50", true));
    assert_eq!(found.sentence, "B is 10.4 to 10.7 times as fast as A: RTT p50 5.12 us against 54.0 us.");
    assert_eq!((found.ratios.len(), found.ratios[0].against, found.ratios[0].value), (2, Some(54_000.0), Some(5_120.0)));
    let codes: Vec<&str> = view.records[0].warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["loss", "pairs", "threshold"]);
    assert!(view.records[0].ended.as_deref().unwrap().contains("ended early by the user"));
    assert_eq!(view.hosts, ["client of 1"]);
}

/// Sentences as a reader meets them, a line each.
fn summary(view: &View) -> String {
    view.summary.join("\n")
}

#[test]
fn summary_of_the_demo() {
    assert_snapshot!(summary(&made(&given(&kept("demo.jsonl")))));
}

#[test]
fn summary_of_stages_and_of_sizes() {
    assert_snapshot!(summary(&made(&given(&kept("explain-all-hooks.json")))));
    let sizes = [64, 128].map(|bytes| row("udp:spin/udp:spin", bytes, 20_000, 5_000 + bytes));
    assert_snapshot!(summary(&of_runs(vec![run(sizes.into())])));
}

#[test]
fn summary_of_a_comparison_and_of_an_emulation() {
    assert_snapshot!(summary(&made(&[compare_record()])));
    assert_snapshot!(summary(&made(&given(&kept("what-if.json")))));
}

#[test]
fn summary_holds_no_host_against_another() {
    let of = |hostname: &str, row: Row| {
        let mut run = run(vec![row]);
        let hosts = &mut run.place.hosts;
        hosts.client.hostname = hostname.into();
        hosts.server = Some(hosts.client.clone());
        run
    };
    let [block, spin] =
        [("udp:block/udp:block", 78_000), ("udp:spin/udp:spin", 5_000)].map(|(path, p50_ns)| row(path, 64, 5_000, p50_ns));
    let said = summary(&of_runs(vec![of("a", block), of("b", spin.clone())]));
    assert!(said.contains("is fastest") && !said.contains("Blocking") && !said.contains("times as long"), "{said}");
    let said = summary(&of_runs(vec![of("a", spin), of("b", row("udp:spin/udp:spin", 1024, 5_000, 6_000))]));
    assert!(!said.contains("with 1024 B"), "{said}");
}

#[test]
fn summary_of_a_group_is_that_of_its_last_replies() {
    let of = |reply: &str, p50_ns| Row { reply: Some(reply.into()), ..row("udp:block/udp:block", 64, 5_000, p50_ns) };
    let said = summary(&of_runs(vec![run(vec![of("first", 30_000), of("last", 80_000), of("198.18.0.2:4", 31_000)])]));
    assert!(said.contains("udp:block last") && said.contains("80.00 us") && !said.contains("30.00 us"), "{said}");
}

#[test]
fn summary_of_nothing() {
    assert_snapshot!(summary(&of_runs(vec![run(Vec::new())])));
    assert_eq!(made(&[]).summary.len(), 3);
}

#[test]
fn published_rows_keep_their_source() {
    let view = view(&[], MADE, Beside { published: references(), ..Beside::default() });
    assert!(
        view.published.iter().all(|published| published.derived && !published.source.is_empty() && !published.what.is_empty())
    );
    assert!(view.published.iter().any(|published| published.points.contains(&[64.0, 10_480.0])), "2 x 5.24 us");
}

#[test]
fn records_of_an_older_version_are_shown() {
    let mut old: Value = serde_json::from_str(RUN).unwrap();
    for host in ["client", "server"] {
        old["hosts"][host].as_object_mut().unwrap().remove("unread");
    }
    for row in old["results"].as_array_mut().unwrap() {
        let row = row.as_object_mut().unwrap();
        // Fields added after the schema's first version, and fields that may be absent from the start.
        ["niq", "flow_facts", "parts_ns", "rtt_from_due_ns", "pace_per_s"].iter().for_each(|name| drop(row.remove(*name)));
        for block in row["blocks"].as_array_mut().unwrap() {
            ["p99.9", "duration_ns", "clock_suspect", "thread"]
                .iter()
                .for_each(|name| drop(block.as_object_mut().unwrap().remove(*name)));
        }
    }
    assert_eq!(made(&given(&old.to_string())).rows.len(), 4);
}

#[test]
fn no_text_steers_a_page_or_a_terminal() {
    let hostile = "</script><img src=x onerror=alert(1)>\u{1b}]0;x\u{7}\u{202e}\u{2028}";
    let mut run = run(vec![row("udp:spin/udp:spin", 64, 2_000, 5_000)]);
    run.place.hosts.client.hostname = hostile.into();
    run.place.hosts.client.facts.insert(hostile.into(), json!({hostile: [hostile]}));
    (run.head.tool, run.head.started, run.head.error) = (hostile.into(), hostile.into(), Some(hostile.into()));
    (run.place.link.kind, run.place.link.peer, run.place.clock.source) = (hostile.into(), Some(hostile.into()), hostile.into());
    run.head.command = vec![hostile.into(); 3];
    run.results[0].path = hostile.into();
    run.results[0].warnings = vec![Note { code: hostile.into(), message: hostile.into() }];
    let given = [Input { name: hostile.into(), record: AnyRecord::Run(Box::new(run)) }];
    let page = html(&made(&given));
    assert!(!page.contains("<img") && page.matches("</script>").count() == html(&View::default()).matches("</script>").count());
    let json = page.split_once("id=\"view\">").unwrap().1.split_once("</script>").unwrap().0;
    let shown = serde_json::from_str::<Value>(json).unwrap().to_string();
    assert!(!shown.chars().any(|c| c.is_control() || ['\u{202e}', '\u{2028}'].contains(&c)), "{shown}");
}

#[test]
fn a_distribution_that_cannot_be_read_is_left_out_and_said() {
    let rows = ["", "***", "HISTFAAA"].map(|text| Row { histogram: text.into(), ..row("udp:spin/udp:spin", 64, 20_000, 5_000) });
    for row in of_runs(vec![run(rows.into())]).rows {
        assert_eq!((row.buckets.len(), row.rtt.p50.ns, row.warnings.len()), (0, Some(4_999), 1), "{:?}", row.warnings);
        assert_eq!(row.warnings[0].code, "no-distribution");
        assert_eq!(row.percentiles.iter().map(|point| point.q).collect::<Vec<_>>(), [0.5, 0.9, 0.99, 0.999]);
    }
}

/// A report of 20 rows is to stay below 600 kB: a quarter of that is the page's own.
#[test]
fn twenty_rows_leave_room_for_the_page() {
    let mut seed = 1u32;
    let mut uniform = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(seed) / f64::from(u32::MAX)
    };
    let mut rows = Vec::new();
    for size in 0..20u64 {
        let mut times = Times::new();
        // A long tail over six decades, as a virtual machine has it, in each of a minute's points.
        (0..200_000).for_each(|_| times.record((5_000.0 * (1.0 + 0.3 * uniform()) / uniform().max(1e-7).powf(0.6)) as u64));
        let mut row = row("udp:busy-poll,usecs=50/udp:busy-poll,usecs=50", 1 << size, 0, 5_000);
        (row.rtt_ns, row.histogram, row.transactions) = (times.quantiles(), times.encode(), 200_000);
        row.turnaround_ns = Some(times.quantiles());
        row.series = (0..600)
            .map(|i| Point {
                at_ns: i * 100_123_456,
                count: 300,
                p50: Some(6_000 + i),
                p99: Some(60_000 + i),
                max: 6_000_000 + i,
                thread: 0,
            })
            .collect();
        row.blocks = (0..600)
            .map(|i| Block { at_ns: i * 100_123_456, p50: Some(6_000), core_rtt_ns: Some(121), ..Block::default() })
            .collect();
        row.warnings = vec![Note { code: "involuntary-switches".into(), message: "x".repeat(200) }; 3];
        rows.push(row);
    }
    let json = serde_json::to_string(&of_runs(vec![run(rows)])).unwrap();
    assert!(json.len() < 450_000, "{}", json.len());
}

/// Every scalar in a JSON value.
fn leaves<'v>(value: &'v mut Value, found: &mut Vec<&'v mut Value>) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|value| leaves(value, found)),
        Value::Object(all) => all.values_mut().for_each(|value| leaves(value, found)),
        leaf => found.push(leaf),
    }
}

fn hostile_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(0)),
        Just(json!(1)),
        Just(json!(u64::MAX)),
        Just(json!(-1)),
        Just(json!(1e308)),
        Just(json!(-1e308)),
        Just(json!(5e-324)),
        Just(Value::Null),
        Just(json!("")),
        Just(json!("\u{1b}[2J</script>")),
        Just(json!("udp:spin/udp:spin")),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ]
}

/// Asserts that a record with any of its figures and texts replaced causes no panic, and that the page's data
/// can be read back.
fn survives(text: &str, changes: &[(Index, Value)]) {
    let mut record: Value = serde_json::from_str(text).unwrap();
    for (at, value) in changes {
        let mut places = Vec::new();
        leaves(&mut record, &mut places);
        let count = places.len();
        *places[at.index(count)] = value.clone();
    }
    // Changes that make the record invalid are refused here.
    let Ok(records) = AnyRecord::all(record.to_string().as_bytes()) else { return };
    let given: Vec<Input> = records.into_iter().map(|record| Input { name: "hostile".into(), record }).collect();
    let page = html(&made(&given));
    let json = page.split_once("id=\"view\">").unwrap().1.split_once("</script>").unwrap().0;
    assert!(serde_json::from_str::<Value>(json).is_ok());
}

fn changes() -> impl Strategy<Value = Vec<(Index, Value)>> {
    prop::collection::vec((any::<Index>(), hostile_value()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hostile_runs_are_shown_or_refused(changes in changes()) {
        survives(RUN, &changes);
    }

    #[test]
    fn hostile_stages_are_shown_or_refused(changes in changes()) {
        survives(&kept("explain-light.json"), &changes);
    }

    #[test]
    fn hostile_comparisons_are_shown_or_refused(changes in changes()) {
        survives(&serde_json::to_string(&compared()).unwrap(), &changes);
    }

    #[test]
    fn hostile_quantiles_are_shown(count: u64, times in prop::array::uniform4(any::<Option<u64>>()), blocks in prop::collection::vec(any::<Option<u64>>(), 0..40)) {
        let [p50, p99, min, max] = times;
        let mut hostile = row("udp:spin/udp:spin", count, 100, 5_000);
        hostile.rtt_ns = Quantiles { count, p50, p99, min, max, ..Quantiles::default() };
        hostile.blocks = blocks.iter().enumerate().map(|(at, p50)| Block { at_ns: at as u64, p50: *p50, p99: *p50, ..Block::default() }).collect();
        let view = of_runs(vec![run(vec![hostile.clone(), hostile])]);
        let p50 = view.rows[0].rtt.p50;
        if let (Some(ns), Some(low), Some(high)) = (p50.ns, p50.low_ns, p50.high_ns) {
            // A float holds 53 bits of it.
            prop_assert!(low as f64 <= ns as f64 && ns as f64 <= high as f64, "{p50:?}");
        }
    }
}

/// One record of each kind, as earlier versions wrote them.
fn every_kind() -> Vec<Input> {
    let records = AnyRecord::all(include_bytes!("../../record/tests/data/older.jsonl")).unwrap();
    records.into_iter().map(|record| Input { name: record.verb().into(), record }).collect()
}

#[test]
fn every_kind_of_record_is_shown() {
    let given = every_kind();
    let all = view(&given, "2026-11-22T12:00:00Z", Beside::default());
    assert_eq!((all.records.len(), all.rows.len(), all.breakdowns.len()), (14, 1, 1));
    assert_eq!((all.noises.len(), all.noises[0].map.pairs.len()), (1, 1));
    assert_eq!((all.loads.len(), all.loads[0].rates.len()), (1, 1));
    let frames: Vec<_> = all.frames.iter().map(|frames| frames.direction.as_str()).collect();
    assert_eq!(frames, ["inject", "bounce"]);
    assert!(all.checks.iter().all(|check| check.passed == (check.error_ns.abs() <= check.bound_ns as f64)), "{:?}", all.checks);
    let of = |verb: &str| 1 + given.iter().position(|given| given.name == verb).unwrap();
    for verb in ["compare", "tune try", "sweep"] {
        assert!(all.comparisons.iter().any(|found| found.record == of(verb)), "{verb}");
    }
    assert!(html(&all).contains("from_due"));
    for Input { name, record } in &given {
        assert!(!hairpin_report::term(record, &hairpin_report::Options::default()).is_empty(), "{name}");
    }
}

/// The page names its columns itself; a test of the page reads this file.
#[test]
fn the_page_has_the_same_names_of_columns() {
    let given = every_kind();
    let names = |text: String| text.lines().next().map_or(Vec::new(), |line| line.split(',').map(str::to_owned).collect());
    let of = |given: &Input| (given.name.clone(), names(hairpin_report::csv(&given.record, &hairpin_report::Options::default())));
    let mut columns: BTreeMap<String, Vec<String>> = given.iter().map(of).collect();
    columns.insert("report".into(), names(hairpin_report::csv(&made(&given), &hairpin_report::Options::default())));
    let text = serde_json::to_string(&columns).unwrap().replace("],", "],\n") + "\n";
    let file = format!("{}/tests/data/columns.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("HAIRPIN_BLESS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    assert_eq!(kept("columns.json"), text, "HAIRPIN_BLESS=1 writes it");
}

/// The records of these verbs, as earlier versions wrote them.
fn of_verbs(verbs: &[&str]) -> Vec<Input> {
    every_kind().into_iter().filter(|given| verbs.contains(&given.name.as_str())).collect()
}

#[test]
fn a_report_does_not_lead_with_a_result_that_cannot_be_told() {
    let lead = |verb: &str, change: &dyn Fn(&mut AnyRecord)| {
        let mut given = of_verbs(&[verb]);
        change(&mut given[0].record);
        made(&given).summary.swap_remove(0)
    };
    let said = lead("sweep", &|record| {
        let AnyRecord::Sweep(sweep) = record else { panic!("a sweep") };
        let figures = sweep.main_effects.iter_mut().flat_map(|effect| &mut effect.figures);
        figures.for_each(|found| (found.low, found.high) = (Some(0.5), Some(2.0)));
    });
    assert_eq!(said, "No factor's effect on RTT p50 can be told from none.");
    let said = lead("tune try", &|record| {
        let AnyRecord::TuneTry(tried) = record else { panic!("settings that were tried") };
        let settings = vec!["timer_migration=0".into()];
        tried.contradictions = vec![Contradiction { path: "udp".into(), settings, alone: [0.8, 0.9], anew: [1.0, 1.1] }];
    });
    assert!(said.starts_with("Unclear whether a setting"), "{said}");
    let of = |origin, path: &str, core| {
        let blocks = vec![Block { core_rtt_ns: Some(core), ..Block::default() }; 20];
        Row { origin, blocks, ..row(path, 64, 5_000, 5_000) }
    };
    let rows = vec![of(Origin::Emulated, "niq:spin/niq:spin", 60), of(Origin::Measured, "udp:spin/udp:spin", 400)];
    let said = summary(&of_runs(vec![run(rows)]));
    assert!(said.contains("every row is emulated, paced, or of another core state than most;"), "{said}");
}

#[test]
fn warnings_of_a_look_and_of_tried_settings_are_shown() {
    let mut given = of_verbs(&["check --host", "tune try"]);
    for Input { record, .. } in &mut given {
        let note = Note { code: "busy".into(), message: "CPU 0 was busy".into() };
        match record {
            AnyRecord::Noise(noise) => noise.warnings.push(note),
            AnyRecord::TuneTry(tried) => tried.paths[0].alone.arms[0].warnings.push(note),
            _ => panic!("another record"),
        }
    }
    let warned = made(&given).records.iter().filter(|record| record.warnings.iter().any(|found| found.code == "busy")).count();
    assert_eq!(warned, 2);
}

#[test]
fn each_kind_alone_leads_with_its_result() {
    let leads: Vec<String> = every_kind()
        .chunks(1)
        .map(|given| format!("{}: {}", given[0].name, view(given, "now", Beside::default()).summary[0]))
        .collect();
    assert_snapshot!(leads.join("\n"));
}
