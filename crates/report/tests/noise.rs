//! `hairpin check --host`: the cores to take, stalls and causes, the matrix, and what is missing.

use hairpin_record::any::AnyRecord;
use hairpin_record::compare::Placement;
use hairpin_record::explain::Cause;
use hairpin_record::head::{Body, Head, Label};
use hairpin_record::histogram::Times;
use hairpin_record::noise::{Change, CoreNoise, Look, Noise, NoiseBody, NoiseComparison, Rates, Stall};
use hairpin_record::place::ClockFacts;
use hairpin_record::warning::Note;
use hairpin_report::view::{Beside, Input};
use hairpin_report::{Options, markdown, term, view};
use insta::assert_snapshot;

use crate::formats::formats;

fn cause(cause: &str, who: &str, count: u64, lost_ns: u64) -> Cause {
    Cause { cause: cause.into(), who: who.into(), count, lost_ns, advice: format!("what helps against {cause}") }
}

fn core(cpu: u32, longest_ns: u64, causes: Vec<Cause>) -> CoreNoise {
    let mut times = Times::new();
    (0..600).for_each(|n| times.record(1_400 + 3 * n));
    times.record(longest_ns);
    let stall = |at_ns, ns, cause: &str, who: &str| Stall { at_ns, ns, cause: cause.into(), who: who.into() };
    CoreNoise {
        cpu,
        duration_ns: 2_500_000_000,
        turn_ns: 11.3,
        above_1us: 601,
        above_10us: 1,
        above_100us: u64::from(longest_ns > 100_000),
        lost_ns: 1_400_000 + longest_ns,
        stall_ns: times.quantiles(),
        traced_stall_ns: times.quantiles(),
        histogram: times.encode(),
        steal_ns: Some(if cpu == 2 { 20_000_000 } else { 0 }),
        interrupts: [("LOC".to_owned(), 1_250), ("virtio1-req.0".to_owned(), 12)].into(),
        traced_ns: 2_500_000_000,
        causes,
        longest: vec![
            stall(1_204_000_000, longest_ns, "", ""),
            stall(7_000_000, 90_000, "preempted", "a-program-of-a-long-name (pid 4711)"),
        ],
    }
}

fn noise(cpus: u32) -> Noise {
    let pair = |a, b| Placement {
        client: a,
        server: b,
        core_rtt_ns: (a + b != 3).then_some(58 + 20 * u64::from(b - a)),
        ..Placement::default()
    };
    let many = vec![
        cause("preempted", "a-program-of-a-long-name (pid 4711)", 10, 31_000_000),
        cause("timer", "", 620, 1_400_000),
        cause("soft interrupt", "RCU", 12, 30_000),
        cause("unknown", "nothing seen", 1, 20_000),
    ];
    let body = NoiseBody {
        host: Default::default(),
        clock: ClockFacts { source: "tsc".into(), cost_ns: 20.0, step_ns: 10.0, ticks_per_s: 2.6e9, drift_ppb: None },
        threshold_ns: 1_000,
        at_once: cpus / 2,
        no_causes: None,
        cores: (0..cpus)
            .map(|cpu| core(cpu, 41_000 + 90_000 * u64::from(cpu), if cpu == 1 { many.clone() } else { many[1..2].to_vec() }))
            .collect(),
        pairs: (0..cpus).flat_map(|a| (a + 1..cpus).map(move |b| pair(a, b))).collect(),
        choice: Some([0, 1]),
        why: "a cache line takes 78 ns from one to the other and back; they are no SMT siblings".into(),
        warnings: Vec::new(),
    };
    let head = Head {
        schema: Noise::SCHEMA.into(),
        tool: "hairpin 0.1.0".into(),
        started: "2026-11-26T12:00:00Z".into(),
        ..Head::default()
    };
    Noise { head, body }
}

#[test]
fn stalls_causes_and_the_matrix() {
    let noise = noise(4);
    let brief = term(&noise, &Options { brief: true, ..Options::default() });
    let full = term(&noise, &Options::default());
    assert!(brief.lines().count() < full.lines().count() && !brief.contains("nothing seen"), "{brief}");
    assert_snapshot!(format!("{brief}=====\n{full}=====\n{}", formats(&noise)));
}

#[test]
fn causes_of_one_name_have_an_advice_each() {
    let mut noise = noise(2);
    noise.body.cores[0].causes = vec![
        cause("preempted", "stress (pid 7)", 2, 9_000),
        Cause { advice: "raise the limit".into(), ..cause("preempted", "nobody", 1, 8_000) },
    ];
    let text = term(&noise, &Options::default());
    for line in ["  - preempted: what helps against preempted\n", "  - preempted: raise the limit\n"] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn without_hooks_an_early_end_and_one_core() {
    let mut alone = noise(1);
    alone.at_once = 1;
    (alone.body.choice, alone.body.why) = (None, "it takes two, and one core was looked at".into());
    alone.body.no_causes = Some("no rights: cannot load the BPF programs\u{1b}[2J: Operation not permitted".into());
    alone.body.warnings =
        vec![Note { code: "one-core".into(), message: "CPU 0 is the only one that this process may use".into() }];
    alone.head.interrupted = true;
    alone.cores[0].causes.clear();
    let text = term(&alone, &Options { brief: true, ..Options::default() });
    assert_snapshot!(text);
    formats(&alone);
}

#[test]
fn with_many_cores_the_pairs_are_counted() {
    let many = noise(20);
    let text = term(&many, &Options { brief: true, ..Options::default() });
    assert!(text.contains("190 pairs: their distances are in CSV"), "{text}");
    formats(&many);
}

#[test]
fn two_looks_beside_each_other() {
    let rates = |cpu, what: &str, who: &str, counts: [u64; 2], low, high, change| Rates {
        cpu,
        what: what.into(),
        who: who.into(),
        first_count: counts[0],
        first_ns: 5_000_000_000,
        second_count: counts[1],
        second_ns: 2_500_000_000,
        ratio: (counts[0] > 0).then(|| 2.0 * counts[1] as f64 / counts[0] as f64),
        low,
        high,
        change,
    };
    let look = |given: &str, hostname: &str, choice| Look {
        given: given.into(),
        hostname: hostname.into(),
        started: "2026-11-26T12:00:00Z".into(),
        choice,
    };
    let beside = NoiseComparison {
        label: Label::of::<NoiseComparison>(),
        first: look("20261126T120000Z-check", "vm", Some([0, 1])),
        second: look("other.json", "vm\u{1b}[2J", None),
        confidence: 0.95,
        confidence_each: 1.0 - 0.05 / 13.0,
        margin: 0.02,
        stalls: vec![
            rates(None, "above 1 us", "", [40_000, 20_010], 0.98, Some(1.019), Change::Same),
            rates(None, "above 10 us", "", [1_200, 2_400], 3.71, Some(4.32), Change::More),
            rates(None, "above 100 us", "", [0, 3], 0.4, None, Change::Unclear),
            rates(Some(1), "above 1 us", "", [40_000, 20_010], 0.98, Some(1.019), Change::Same),
            rates(Some(1), "above 10 us", "", [120, 5], 0.02, Some(0.31), Change::Fewer),
            rates(Some(127), "above 100 us", "", [0, 0], 0.0, None, Change::Unclear),
        ],
        causes: vec![
            rates(None, "timer", "CPU 1", [1_250, 625], 0.9, Some(1.11), Change::Unclear),
            rates(None, "preempted", "a-program-of-a-long-name", [0, 44], 12.0, None, Change::Came),
            rates(None, "hard interrupt", "virtio1-req.0 (27)", [90, 0], 0.0, Some(0.12), Change::Went),
        ],
        warnings: vec![Note { code: "other-host".into(), message: "the looks are of two hosts".into() }],
    };
    let brief = term(&beside, &Options { brief: true, ..Options::default() });
    let full = term(&beside, &Options::default());
    assert!(!brief.contains("CPU 1 ") && full.contains("CPU 1"), "{brief}");
    assert!(brief.lines().all(|line| line.chars().count() <= 80), "{brief}");
    assert_snapshot!(format!("{brief}=====\n{full}=====\n{}", formats(&beside)));
    // Without a level that both count there is nothing to say but the reason.
    let mut none = beside;
    (none.stalls, none.causes) = (Vec::new(), Vec::new());
    formats(&none);
}

#[test]
fn a_report_has_a_section() {
    let given = [Input { name: "noise".into(), record: AnyRecord::Noise(Box::new(noise(3))) }];
    let view = view(&given, "2026-11-26T12:00:00Z", Beside::default());
    let page = markdown(&view, &Options::default());
    assert!(
        page.contains("The host's own noise") && page.contains("| 0, 1 | 78 |") && page.contains("preempted: a-program"),
        "{page}"
    );
    assert!(view.summary.iter().any(|sentence| sentence.starts_with("take --cpu 0,1")), "{:?}", view.summary);
    assert!(!term(&view, &Options::default()).contains("no row was measured"));
}
