//! Terminal output of `hairpin load`: the golden text.

use hairpin_record::any::AnyRecord;
use hairpin_record::head::{Body, Head};
use hairpin_record::histogram::Times;
use hairpin_record::load::{BulkFacts, Knee, Load, LoadBody, LoadCurve, LoadRow, ScheduleFacts, StallFacts};
use hairpin_record::run::{Granted, Run, Side};
use hairpin_record::split::Layer;
use hairpin_record::warning::Warning;
use hairpin_report::view::{Beside, Input};
use hairpin_report::{Chart, Options};
use insta::assert_snapshot;

use crate::split::{NIC, split};

/// Asserts that no line on a terminal is wider than 80 columns.
fn fits(text: &str) -> &str {
    for line in text.lines() {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= 80, "{line}");
        assert_eq!(line, line.trim_end(), "no spaces at the end");
    }
    text
}

/// On a terminal with all details.
fn whole() -> Options {
    Options::default()
}

pub fn record(results: Vec<LoadCurve>) -> Load {
    let example: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
    Load {
        head: Head { schema: Load::SCHEMA.into(), ..example.head },
        body: LoadBody {
            place: example.body.place,
            schedule: ScheduleFacts { kind: "fixed".into(), ..ScheduleFacts::default() },
            bulk_streams: 0,
            results,
        },
    }
}

/// `n` times around `p50_ns`, with one in a hundred a hundred times as long.
fn times(n: u64, p50_ns: u64) -> Times {
    let mut times = Times::new();
    (0..n).for_each(|i| times.record(if i % 100 == 7 { 100 * p50_ns } else { p50_ns * 9 / 10 + p50_ns * i / (5 * n) }));
    times
}

/// Two seconds at a rate, with a share of it answered; RTTs from sent and waiting times before.
pub fn row(offered_per_s: f64, answered: f64, sent_ns: u64, late_ns: u64) -> LoadRow {
    let due = (2.0 * offered_per_s) as u64;
    let transactions = (due as f64 * answered) as u64;
    LoadRow {
        offered_per_s,
        achieved_per_s: offered_per_s * answered,
        due,
        sent: transactions,
        unsent: due - transactions,
        transactions,
        duration_ns: 2_000_000_000,
        rtt_from_due_ns: times(transactions, sent_ns + late_ns).quantiles(),
        rtt_from_sent_ns: times(transactions, sent_ns).quantiles(),
        lateness_ns: times(transactions, late_ns).quantiles(),
        stalls: Some(StallFacts { count: 90, total_ns: 1_700_000, share: 0.000_85 }),
        ..LoadRow::default()
    }
}

pub fn curve(path: &str, rates: Vec<LoadRow>, knee: Option<Knee>) -> LoadCurve {
    let size = 64;
    LoadCurve {
        path: path.into(),
        request_bytes: size,
        reply_bytes: size,
        flows: 1,
        threads: 1,
        outstanding: 64,
        knee,
        rates,
        ..LoadCurve::default()
    }
}

pub fn knee(keeps_up_per_s: Option<f64>, beyond_per_s: Option<f64>, why: &str) -> Option<Knee> {
    let why = beyond_per_s.map(|_| why.to_owned());
    Some(Knee { keeps_up_per_s, beyond_per_s, why, quantile: 0.99, factor: 5.0, achieved_share: 0.99, unclear: None })
}

#[test]
fn a_curve_up_to_saturation() {
    let mut rates = vec![row(20_000.0, 1.0, 9_500, 40), row(60_000.0, 1.0, 10_200, 90), row(100_000.0, 1.0, 14_000, 310)];
    let mut beyond = row(110_000.0, 0.93, 580_000, 68_000_000);
    beyond.found_no_room = 180_000;
    rates.push(beyond);
    let mut one = curve("udp:spin/udp:spin", rates, knee(Some(100_000.0), Some(110_000.0), "achieved"));
    one.saturation_per_s = Some(100_213.4);
    let text = hairpin_report::term(&record(vec![one]), &whole());
    assert_snapshot!(fits(&text));
}

#[test]
fn rates_with_the_split_of_hosts_and_wire() {
    let mut rates = vec![row(20_000.0, 1.0, 9_500, 40), row(60_000.0, 1.0, 10_200, 90), row(100_000.0, 0.9, 14_000, 310_000)];
    for row in &mut rates {
        row.split = Some(Box::new(split(NIC, [Layer::Software; 2])));
    }
    let mut one = curve("udp:spin/udp:spin", rates, knee(Some(60_000.0), Some(100_000.0), "achieved"));
    let mut load = record(vec![one.clone()]);
    let text = |load: &Load, brief| hairpin_report::term(load, &Options { brief, ..Options::default() });
    let brief = text(&load, true).split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "udp:spin at 60.0 k/s, one in flight, by the kernel's stamps: 22.1 of 31.0 us are the hosts (client 11.9, server 10.2), 8.90 wire";
    assert!(brief.contains(line), "{brief}");
    assert_snapshot!(fits(&text(&load, false)));
    crate::formats::formats(&load);
    // With stamps of the client alone there is nothing to say in a line.
    for row in &mut one.rates {
        row.split.iter_mut().for_each(|split| split.parts.retain(|part| part.part.name().starts_with("client")));
    }
    load.body.results = vec![one];
    assert!(!text(&load, true).contains("one in flight") && text(&load, false).contains("are the client's host"));
}

#[test]
fn a_picture_has_both_lines_and_the_knee() {
    let rates = vec![row(2_000.0, 1.0, 9_500, 40), row(4_000.0, 1.0, 10_200, 90), row(5_000.0, 0.9, 14_000, 310_000)];
    let one = curve("udp:spin/udp:spin", rates, knee(Some(4_000.0), Some(5_000.0), "achieved"));
    let given = [Input { name: "load".into(), record: AnyRecord::Load(Box::new(record(vec![one]))) }];
    let picture = hairpin_report::report_svg(&hairpin_report::view(&given, "", Beside::default()), Chart::Load);
    for of in ["udp:spin, 64 B, from due", "udp:spin, 64 B, from sent", "The knee: it keeps up with 4000/s, and at 5000/s"] {
        assert!(picture.contains(of), "{of}: {picture}");
    }
    let drawn =
        ["<polyline class=\"line ", "<polyline class=\"interval ", "<polygon "].map(|element| picture.matches(element).count());
    assert_eq!(drawn, [2, 1, 1], "{picture}");
}

#[test]
fn a_stolen_core_is_no_measurement_and_the_answer_comes_last() {
    let rates = vec![row(20_000.0, 1.0, 9_500, 40), row(60_000.0, 1.0, 10_200, 90), row(100_000.0, 0.9, 14_000, 310_000)];
    let sound = curve("udp:spin/udp:spin", rates, knee(Some(60_000.0), Some(100_000.0), "achieved"));
    let mut stolen = sound.clone();
    for (row, share) in stolen.rates.iter_mut().zip([0.05, 0.18, 0.259]) {
        row.stalls = Some(StallFacts { count: 900, total_ns: 1_700_000, share });
    }
    let text =
        [sound, stolen].map(|one| hairpin_report::term(&record(vec![one]), &Options { brief: true, ..Options::default() }));
    let answer = |text: &str| text.lines().nth_back(1).map(str::to_owned).unwrap_or_default();
    assert!(answer(&text[0]).starts_with("keeps up with 60.0 k/s (p99 from due 11.3 us; at 100 k/s "), "{}", text[0]);
    assert!(text[1].lines().rev().take(3).any(|line| line.starts_with("not a measurement: ")), "{}", text[1]);
    let plot = text[0].lines().skip(1).take(12).collect::<Vec<_>>();
    assert!(plot[..9].iter().any(|line| line.contains('f')) && plot.concat().contains("offered"), "{plot:#?}");
    assert_snapshot!(fits(&text.join("-----\n")));
}

#[test]
fn a_sleeping_client_beside_bulk_traffic_with_losses() {
    let mut rates = vec![row(1_000.0, 1.0, 52_000, 41_000), row(2_000.0, 1.0, 50_000, 39_000)];
    for row in &mut rates {
        row.stalls = None;
        row.bulk = Some(BulkFacts { bytes: 3_000_000_000, duration_ns: 2_000_000_000, bits_per_s: 12e9 });
    }
    rates[1].lost = 12;
    rates[1].late = 3;
    rates[1].warnings = vec![Warning::Loss { lost: 12, sent: 4_000, rcvbuf: true }.note()];
    let mut one = curve("udp:block/udp:block", rates, knee(Some(2_000.0), None, ""));
    one.granted = vec![Granted {
        side: Side::Client,
        option: "wait".into(),
        asked: "block".into(),
        got: "poll".into(),
        why: "an open loop waits for a reply or for the next due time, and a receive call knows of none".into(),
    }];
    let schedule = ScheduleFacts { kind: "poisson".into(), seed: Some(7), file: None };
    let mut load = record(vec![one]);
    (load.bulk_streams, load.schedule) = (4, schedule);
    assert_snapshot!(fits(&hairpin_report::term(&load, &whole())));
    crate::formats::formats(&load);
    assert_snapshot!(hairpin_report::markdown(&load, &Options::default()));
    assert_snapshot!(hairpin_report::csv(&load, &Options::default()));
}

#[test]
fn two_failing_paths_and_an_early_end() {
    let slow = |why| {
        curve(
            "tcp:spin/tcp:spin",
            vec![row(5e6, 0.2, 900_000, 900_000_000), row(1e7, 0.1, 900_000, 1_900_000_000)],
            knee(None, Some(5e6), why),
        )
    };
    let bends = curve("udp:spin/tcp:block", vec![row(10.0, 1.0, 9_000, 20)], knee(Some(10.0), Some(20.0), "latency"));
    let mut load = record(vec![slow("achieved"), bends]);
    (load.head.interrupted, load.head.error) = (true, Some("no reply for 5 s".into()));
    assert_snapshot!(fits(&hairpin_report::term(&load, &whole())));
}

#[test]
fn a_knee_that_stalls_hide_and_a_rate_measured_again() {
    let mut rates = vec![row(20_000.0, 1.0, 9_500, 40), row(40_000.0, 1.0, 10_200, 900_000)];
    rates.push(LoadRow { repeat: 1, ..row(40_000.0, 1.0, 10_200, 700_000) });
    rates.push(row(60_000.0, 0.9, 900_000, 700_000));
    for row in &mut rates {
        row.stalls = Some(StallFacts { count: 4_000, total_ns: 30_000_000, share: 0.015 });
    }
    let unclear = |keeps_up, beyond| {
        let knee = knee(keeps_up, beyond, "achieved").map(|knee| Knee { unclear: Some("stalls".into()), ..knee });
        curve("udp:spin/udp:spin", rates.clone(), knee)
    };
    let load =
        record(vec![unclear(Some(20_000.0), Some(60_000.0)), unclear(Some(20_000.0), None), unclear(None, Some(60_000.0))]);
    assert_snapshot!(fits(&hairpin_report::term(&load, &whole())));
    assert_snapshot!(hairpin_report::csv(&record(vec![unclear(Some(20_000.0), Some(60_000.0))]), &Options::default()));
}

#[test]
fn rates_beyond_an_early_end_were_not_measured() {
    let rates = vec![row(20_000.0, 1.0, 9_500, 40), row(40_000.0, 1.0, 10_200, 90), row(60_000.0, 0.4, 10_200, 90)];
    let last = curve("udp:spin/udp:spin", rates.clone(), knee(Some(40_000.0), None, ""));
    let one = curve("udp:spin/udp:spin", rates[..1].to_vec(), None);
    let text = |load: &Load, brief| {
        let text = hairpin_report::term(load, &Options { brief, ..Options::default() });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (interrupted, error) in [(true, None), (false, Some("the server is gone".to_owned()))] {
        let mut load = record(vec![last.clone()]);
        (load.head.interrupted, load.head.error) = (interrupted, error);
        let [brief, full] = [true, false].map(|brief| text(&load, brief));
        assert!(brief.contains("; the rates beyond were not measured)"), "{brief}");
        assert!(full.contains("it keeps up with 40000/s, and the rates beyond were not measured."), "{full}");
        load.body.results = vec![one.clone()];
        assert!(text(&load, false).contains("No knee: the run ended before two rates were measured."));
        // A curve before the last was measured whole.
        load.body.results = vec![last.clone(), one.clone()];
        assert!(text(&load, false).contains("it keeps up with 40000/s, the highest rate offered."));
    }
}

#[test]
fn a_recording_of_hostile_name_and_nothing_at_all() {
    let one = LoadCurve { flows: 8, request_bytes: 1_200, ..curve("udp:spin/udp:spin", vec![row(800.0, 1.0, 9_000, 20)], None) };
    let schedule = ScheduleFacts { kind: "replay".into(), seed: None, file: Some("/tmp/\u{1b}[2J a b.csv".into()) };
    let mut load = record(vec![one]);
    load.schedule = schedule;
    let text = hairpin_report::term(&load, &whole());
    assert!(!text.contains('\u{1b}'));
    assert_snapshot!(fits(&text));
    assert_snapshot!(fits(&hairpin_report::term(&record(Vec::new()), &whole())));
}
