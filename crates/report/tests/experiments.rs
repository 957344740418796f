//! Terminal output of `hairpin compare` and `hairpin sweep`: the golden text. All figures are made up.
//!
//! After a change of a format run `INSTA_UPDATE=always cargo test -p hairpin-report --test main experiments` and review the
//! difference.

use hairpin_record::compare::{
    Arm, Compare, CompareBody, Comparison, Cpus, Design, Figures, Matched, Method, Placement, PlacementCell, Threshold,
};
use hairpin_record::experiment::{ArmBlock, Estimate, Figure, State, Verdict};
use hairpin_record::head::{Body, Head};
use hairpin_record::run::{Granted, HostFacts, Link, Side};
use hairpin_record::sweep::{Cell, Effect, Factor, Interaction, LossFree, Ratio, Sweep, SweepBody};
use hairpin_record::tune_try::{Contradiction, LeftOut, TriedPath, TriedSetting, TuneTry, TuneTryBody};
use hairpin_record::warning::Note;
use hairpin_report::Options;
use insta::assert_snapshot;
use unicode_width::UnicodeWidthStr;

/// On a terminal with all details.
fn whole() -> Options {
    Options::default()
}

fn narrow(text: String) -> String {
    let wide: Vec<&str> = text.lines().filter(|line| line.width() > 80).collect();
    assert!(wide.is_empty(), "wider than 80 columns: {wide:#?}");
    text
}

fn link(kind: &str) -> Link {
    Link {
        kind: kind.into(),
        interface: Some("hairpin0".into()),
        mtu: Some(1500),
        peer: None,
        options: Default::default(),
        group: None,
    }
}

fn arm(name: &str, path: &str, p50: f64) -> Arm {
    Arm {
        name: name.into(),
        given: path.into(),
        path: path.into(),
        request_bytes: 64,
        reply_bytes: 64,
        flows: 1,
        outstanding: 1,
        link: Some(link("veth")),
        figures: Figures {
            p50_ns: Some(p50),
            p99_ns: Some(1.6 * p50),
            p999_ns: Some(4.0 * p50),
            rate_per_s: Some(0.95e9 / p50),
            cpu_ns: Some(2.0 * p50),
        },
        transactions: 2_000_000,
        ..Arm::default()
    }
}

fn estimate(figure: Figure, ratio: f64, half: f64, base: f64, each: f64) -> Estimate {
    let (low, high) = (ratio / (1.0 + half), ratio * (1.0 + half));
    Estimate {
        figure,
        ratio: Some(ratio),
        low: Some(low),
        high: Some(high),
        difference: Some((ratio - 1.0) * base),
        difference_low: Some((low - 1.0) * base),
        difference_high: Some((high - 1.0) * base),
        pairs: (187.0 / each) as u64,
        blocks_per_value: each,
        autocorrelation: Some(0.1),
        base: Some(base),
        value: Some(ratio * base),
        ..Estimate::default()
    }
}

fn comparison(arm: &str, verdict: Verdict, ratio: f64, half: f64) -> Comparison {
    Comparison {
        arm: arm.into(),
        against: "A".into(),
        verdict,
        needs_s: (verdict == Verdict::Unclear).then_some(412.0),
        pairs: 187,
        dropped: 13,
        states_used: vec![0, 1],
        matched: Matched::CoreDistance,
        runs: None,
        figures: vec![
            estimate(Figure::P50, ratio, half, 5_120.0, 1.0),
            estimate(Figure::P99, ratio, 3.0 * half, 8_200.0, 1.0),
            estimate(Figure::P999, ratio, 9.0 * half, 20_500.0, 2.4),
            estimate(Figure::Rate, 1.0 / ratio, half, 185_500.0, 1.0),
            Estimate { low: None, high: None, ..estimate(Figure::Cpu, ratio, half, 10_240.0, 1.0) },
        ],
    }
}

pub fn record() -> Compare {
    Compare {
        head: Head {
            schema: Compare::SCHEMA.into(),
            tool: "hairpin 0.1.0".into(),
            command: vec!["hairpin".into(), "compare".into()],
            started: "2026-11-21T12:00:00Z".into(),
            interrupted: false,
            error: None,
        },
        body: CompareBody {
            host: None,
            design: Some(Design {
                seed: 7,
                rounds: 200,
                discarded: 2,
                block_ns: 50_000_000,
                warmup_ns: 5_000_000,
                elapsed_ns: 30_040_000_000,
            }),
            method: Method { figure: Figure::P50, confidence: 0.95, confidence_each: 0.995, looks: 1, margin: 0.02 },
            states: vec![State { core_rtt_ns: Some(121), blocks: 260 }, State { core_rtt_ns: Some(508), blocks: 140 }],
            arms: vec![arm("A", "udp:spin/udp:spin", 5_120.0), arm("B", "udp:spin/udp:block", 5_530.0)],
            comparisons: vec![comparison("B", Verdict::Slower, 1.08, 0.004)],
            thresholds: Vec::new(),
            placements: Vec::new(),
            warnings: Vec::new(),
        },
    }
}

#[test]
fn one_is_slower() {
    assert_snapshot!(narrow(hairpin_report::term(&record(), &whole())));
}

#[test]
fn for_pages_and_scripts() {
    assert_snapshot!(crate::formats::formats(&record()));
    assert_snapshot!(crate::formats::formats(&tried()));
}

#[test]
fn names_from_elsewhere_steer_no_terminal() {
    let mut record = record();
    record.body.arms[1].name = "\u{1b}]0;x\u{7}".into();
    record.body.comparisons[0].arm = record.body.arms[1].name.clone();
    for options in [whole(), Options { brief: true, ..whole() }] {
        let text = hairpin_report::term(&record, &options);
        assert!(text.contains("]0;x") && !text.contains(['\u{1b}', '\u{7}']), "{text}");
    }
}

#[test]
fn a_margin_is_told_as_it_was_asked_for() {
    let mut record = record();
    record.body.method.margin = 0.07;
    record.body.comparisons = vec![comparison("B", Verdict::Same, 1.001, 0.0004)];
    let text = hairpin_report::term(&record, &Options { width: 200, ..whole() });
    assert!(text.contains("are the same within 7 %: "), "{text}");
}

#[test]
fn three_arms_with_a_word_each() {
    let mut record = record();
    record.arms.push(Arm { link: Some(link("loopback")), ..arm("C", "tcp:block,nodelay=off/tcp:spin,quickack=on", 5_100.0) });
    record.arms.push(Arm { flows: 4, outstanding: 2, ..arm("D", "xdp:spin/xdp:spin", 3_000.0) });
    record.comparisons = vec![
        comparison("B", Verdict::Same, 1.002, 0.003),
        comparison("C", Verdict::Unclear, 0.99, 0.03),
        comparison("D", Verdict::Faster, 0.59, 0.004),
    ];
    record.states.truncate(1);
    record.method.looks = 4;
    assert_snapshot!(narrow(hairpin_report::term(&record, &whole())));
}

/// A terminal's default view of each kind: the decision first, on half a screen.
#[test]
fn decision_first_on_half_a_screen() {
    let mut three = record();
    three.arms = ["A", "B", "C"].map(|name| arm(name, "udp:spin/udp:spin", 5_120.0)).into();
    three.comparisons = vec![comparison("B", Verdict::Same, 1.002, 0.003), comparison("C", Verdict::Unclear, 0.99, 0.03)];
    let mut far = record();
    far.comparisons = vec![comparison("B", Verdict::Slower, 3.1, 0.09)];
    let mut none = tried();
    (none.winners, none.profile, none.paths[0].together) = (Vec::new(), None, None);
    let records: [(&dyn hairpin_report::Show, &str); 6] = [
        (&record(), "B is slower than A: 7.6 to 8.4 % more (RTT p50 5.53 us against 5.12 us)"),
        (&far, "B takes 2.84 to 3.38 times as long as A: RTT p50 15.9 us against 5.12 us"),
        (&three, "B and A are the same within 2 %: RTT p50 5.13 us against 5.12 us"),
        (&tried(), "worth having: cpu_dma_latency_us=0 (udp:block p50 5.12 us -> 978 ns)."),
        (&none, "nothing worth having"),
        (&swept(), "strongest: delayed-ack off has 1.574 to 1.606 times the RTT p50 of on"),
    ];
    let shown = records.map(|(record, first)| {
        let text = narrow(hairpin_report::term(record, &Options { brief: true, ..Options::default() }));
        assert!(text.starts_with(first) && text.lines().count() <= 14, "{text}");
        assert!(text.ends_with("(-v: all figures and how they were found)\n") || text.ends_with("(-v: all)\n"), "{text}");
        assert!(hairpin_report::term(record, &whole()).lines().count() > text.lines().count());
        text
    });
    assert_snapshot!(shown.join("-----\n"));
}

#[test]
fn two_placements_of_one_path() {
    let mut record = record();
    record.arms[1].path = record.arms[0].path.clone();
    let on = |server| Some(Cpus { client: vec![0], server: vec![server] });
    (record.arms[0].cpus, record.arms[1].cpus) = (on(1), on(0));
    let found = comparison("B", Verdict::Faster, 0.08, 0.1);
    record.comparisons = vec![Comparison { matched: Matched::All, states_used: Vec::new(), dropped: 0, ..found }];
    assert_snapshot!(narrow(hairpin_report::term(&record, &whole())));
}

#[test]
fn arms_that_differ_in_a_setting_are_named_by_it() {
    let mut record = record();
    record.arms[1] = Arm { given: "--knob cpu_dma_latency_us=0".into(), name: "B".into(), ..record.arms[0].clone() };
    let text = hairpin_report::term(&record, &whole());
    assert!(text.contains("B  udp:spin, 64 B (--knob cpu_dma_latency_us=0)"), "{text}");
}

#[test]
fn runs_of_different_times() {
    let mut record = record();
    record.design = None;
    record.arms[1].path = record.arms[0].path.clone();
    record.arms[0].runs =
        ["2026-11-20T10-00-00Z-udp", "2026-11-20T11-00-00Z-udp", "2026-11-21T09-00-00Z-udp"].map(str::to_owned).into();
    record.arms[1].runs = (1..=5).map(|time| format!("measured anew, {time} of 5")).collect();
    record.comparisons[0].runs = Some([3, 5]);
    record.comparisons[0].figures[0].between_runs = Some(0.017);
    let several = narrow(hairpin_report::term(&record, &whole()));
    record.arms.iter_mut().for_each(|arm| arm.runs.clear());
    (record.comparisons[0].runs, record.comparisons[0].verdict) = (Some([1, 1]), Verdict::Unclear);
    record.comparisons[0].needs_s = None;
    assert_snapshot!(several + "-----\n" + &narrow(hairpin_report::term(&record, &whole())));
}

#[test]
fn several_runs_without_a_verdict_say_why() {
    let said = |ends: Option<f64>, pairs: u64, dropped: u64, block: &ArmBlock| {
        let mut record = record();
        record.design = None;
        record.arms.iter_mut().for_each(|arm| arm.blocks = vec![block.clone()]);
        let mut found = comparison("B", Verdict::Unclear, 1.0, 0.1);
        (found.needs_s, found.runs, found.pairs, found.dropped) = (None, Some([3, 3]), pairs, dropped);
        let main = &mut found.figures[0];
        (main.low, main.high, main.pairs, main.between_runs) = (ends.map(|by| 1.0 - by), ends.map(|by| 1.0 + by), pairs, ends);
        record.comparisons = vec![found];
        hairpin_report::term(&record, &whole()).replace('\n', " ")
    };
    let (with, without) = (ArmBlock { p50_ns: Some(5_120.0), ..ArmBlock::default() }, ArmBlock::default());
    for (ends, pairs, dropped, block, why) in [
        (None, 0, 180, &with, "; the two sides have no distance of the cores in common"),
        (None, 0, 0, &with, "; a side has no run with six blocks of this figure"),
        (None, 0, 0, &without, "; blocks have no value of it, and the cores were at several distances"),
        (None, 60, 0, &with, "; no side has two runs at a distance of the cores"),
        // One value of each run: their number is in the interval.
        (Some(0.1), 3, 0, &without, "; the difference is between -10.0 and +10.0 %"),
    ] {
        let text = said(ends, pairs, dropped, block);
        assert!(text.contains(why), "{text}");
    }
}

/// Of two CPUs: A blocks on both, B and C on one of them, D spins on both.
pub fn placements(blocking: [f64; 2], spinning: f64) -> Compare {
    let cell = |path: &str, arm: Option<&str>, p50: f64| PlacementCell {
        path: format!("udp:{path}/udp:{path}"),
        arm: arm.map(str::to_owned),
        why: arm.is_none().then(|| "a spinning side keeps the other off the CPU for the scheduler's time slices".into()),
        p50_ns: arm.map(|_| p50),
        low_ns: arm.map(|_| 0.97 * p50),
        high_ns: arm.map(|_| 1.04 * p50),
    };
    let place = |client, server, arms: [Option<&str>; 2], p50: f64| Placement {
        client,
        server,
        relation: Some(if client == server { "same CPU" } else { "same package" }.into()),
        shared_cache: Some(if client == server { "L1" } else { "L3" }.into()),
        numa_nodes: vec![0],
        core_rtt_ns: (client != server).then_some(118),
        stands_for: 1,
        cells: vec![cell("block", arms[0], p50), cell("spin", arms[1], 46_100.0 * spinning)],
    };
    let mut record = record();
    let spec = |path: &str| format!("udp:{path}/udp:{path}");
    record.arms = vec![
        arm("A", &spec("block"), 46_100.0),
        arm("B", &spec("block"), 46_100.0 * blocking[0]),
        arm("C", &spec("block"), 46_100.0 * blocking[1]),
        arm("D", &spec("spin"), 46_100.0 * spinning),
    ];
    for (arm, (client, server)) in record.arms.iter_mut().zip([(0, 1), (0, 0), (1, 1), (0, 1)]) {
        arm.cpus = Some(Cpus { client: vec![client], server: vec![server] });
    }
    let found = |arm: &str, ratio: f64| {
        let verdict = if ratio < 1.0 { Verdict::Faster } else { Verdict::Slower };
        let mut found =
            Comparison { matched: Matched::All, dropped: 0, states_used: Vec::new(), ..comparison(arm, verdict, ratio, 0.09) };
        found.figures.iter_mut().for_each(|found| (found.base, found.value) = (Some(46_100.0), Some(46_100.0 * ratio)));
        found
    };
    record.comparisons = vec![found("B", blocking[0]), found("C", blocking[1]), found("D", spinning)];
    record.placements = vec![
        place(0, 0, [Some("B"), None], 46_100.0 * blocking[0]),
        place(1, 1, [Some("C"), None], 46_100.0 * blocking[1]),
        place(0, 1, [Some("A"), Some("D")], 46_100.0),
    ];
    record
}

#[test]
fn placements_as_a_heat_map() {
    let short = narrow(hairpin_report::term(&placements([0.08, 0.079], 0.07), &Options { brief: true, ..Options::default() }));
    assert!(short.lines().count() <= 14, "{short}");
    let all = narrow(hairpin_report::term(&placements([0.08, 0.079], 0.07), &Options::default()));
    let slower = narrow(hairpin_report::term(&placements([1.3, 2.6], 0.07), &Options { brief: true, ..Options::default() }));
    let mut one = placements([0.08, 0.08], 0.07);
    (one.comparisons, one.arms, one.placements) = (Vec::new(), one.arms[1..2].to_vec(), one.placements[..1].to_vec());
    let one = narrow(hairpin_report::term(&one, &Options { brief: true, ..Options::default() }));
    assert!(one.starts_with("udp:block: there is one placement only, both on CPU 0: RTT p50 3.69 us"), "{one}");
    assert_snapshot!([short, slower, one, all].join("-----\n"));
    assert_snapshot!(hairpin_report::markdown(&placements([0.08, 0.079], 0.07), &Options::default()));
}

#[test]
fn rows_of_other_lengths_are_shown() {
    let mut record = placements([0.08, 0.079], 0.07);
    record.placements[1].cells.truncate(1);
    record.placements[2].cells.push(PlacementCell::default());
    crate::formats::formats(&record);
    let mut record = swept();
    record.cells[0].levels.truncate(1);
    record.cells[1].levels.push("more".into());
    record.loss_free = [vec![Some("on".into()), None], Vec::new()]
        .map(|levels| LossFree { levels, frame_bytes: 64, ..LossFree::default() })
        .into();
    crate::formats::formats(&record);
}

#[test]
fn too_few_pairs_warnings_and_thresholds() {
    let mut record = record();
    record.comparisons = vec![Comparison { pairs: 6, ..comparison("B", Verdict::Unclear, 1.3, 0.4) }];
    record.head.interrupted = true;
    record.arms[1].granted = vec![Granted {
        side: Side::Client,
        option: "busy-poll".into(),
        asked: "50 us".into(),
        got: "0 us".into(),
        why: "needs CAP_NET_ADMIN".into(),
    }];
    record.warnings = vec![Note { code: "loss".into(), message: "requests were never answered in time: 3 by B".into() }];
    let threshold = |given: &str, crossed, unknown: Option<&str>, confirmed| Threshold {
        given: given.into(),
        arm: "B".into(),
        crossed,
        unknown: unknown.map(Into::into),
        not_excluded: (given == "p99 > +5%").then_some(1.123),
        confirmed,
    };
    record.thresholds = vec![
        threshold("p50 > +5%", true, None, Some(true)),
        threshold("p99 > +5%", false, None, Some(false)),
        threshold("p99.9 > +5%", false, Some("p99.9 has no interval: measure longer"), None),
        threshold("rate < -50%", false, None, None),
    ];
    assert_snapshot!(narrow(hairpin_report::term(&record, &whole())));
}

#[test]
fn stored_runs() {
    let mut record = record();
    record.design = None;
    record.arms[0].given = "20261120-115007-4c1f".into();
    record.arms[1].given = "20261121-115007-4c1f".into();
    record.warnings =
        vec![Note { code: "not-interleaved".into(), message: "the two runs were measured one after the other".into() }];
    assert_snapshot!(narrow(hairpin_report::term(&record, &whole())));
}

#[test]
fn stored_runs_of_two_hosts_run_on_different_hosts() {
    let mut record = record();
    record.design = None;
    record.comparisons[0].matched = Matched::All;
    record.warnings = vec![Note { code: "other-host".into(), message: "the runs are of different hosts".into() }];
    let text = hairpin_report::term(&record, &whole());
    assert!(text.contains("The two run on different hosts, so the distance"), "{text}");
}

#[test]
fn sides_on_cpus_of_equal_numbers_over_two_links_run_on_different_hosts() {
    let mut record = record();
    record.comparisons[0].matched = Matched::All;
    for arm in &mut record.arms {
        arm.cpus = Some(Cpus { client: vec![0], server: vec![1] });
    }
    record.arms[0].link = Some(link("loopback"));
    let text = hairpin_report::term(&record, &whole());
    assert!(text.contains("The two run on different hosts, so the distance"), "{text}");
}

#[test]
fn pace_and_threads_are_told_with_a_side() {
    let mut record = record();
    (record.arms[1].pace_per_s, record.arms[1].threads) = (Some(1_000.0), Some(4));
    let text = hairpin_report::term(&record, &whole());
    assert!(text.contains(" at 1000/s, 64 B, 4 threads"), "{text}");
}

#[test]
fn a_side_at_a_rate_is_not_explained_without_it() {
    let mut record = record();
    let brief = Options { brief: true, ..Options::default() };
    assert!(hairpin_report::term(&record, &brief).contains("hairpin explain veth -p udp"));
    record.arms.iter_mut().for_each(|arm| arm.path += " at 10/s");
    let text = hairpin_report::term(&record, &brief);
    assert!(text.contains("udp:spin at 10/s, 64 B") && !text.contains("hairpin explain"), "{text}");
}

fn ratio(figure: Figure, ratio: f64, half: f64) -> Ratio {
    Ratio { figure, ratio, low: Some(ratio / (1.0 + half)), high: Some(ratio * (1.0 + half)), rounds: 60 }
}

pub fn swept() -> Sweep {
    let factors = [("delayed-ack", ["on", "off"]), ("payload", ["4", "1460"])];
    let figures = |x: f64| vec![ratio(Figure::P50, x, 0.01), ratio(Figure::Rate, 1.0 / x, 0.01), ratio(Figure::Cpu, x, 0.05)];
    let cell = |ack: &str, size: &str, p50: f64| Cell {
        levels: vec![ack.into(), size.into()],
        arm: Arm {
            segments_out_per_transaction: Some(if ack == "on" { 1.0 } else { 2.0 }),
            ..arm("A", "tcp:spin/tcp:spin", p50)
        },
    };
    let effect = |at: usize, x: f64| Effect {
        factor: factors[at].0.into(),
        level: factors[at].1[1].into(),
        against: factors[at].1[0].into(),
        figures: figures(x),
    };
    Sweep {
        head: Head {
            schema: Sweep::SCHEMA.into(),
            tool: "hairpin 0.1.0".into(),
            command: Vec::new(),
            started: "2026-11-21T12:00:00Z".into(),
            interrupted: false,
            error: None,
        },
        body: SweepBody {
            plan: "sun-fire".into(),
            title: "payload x delayed acknowledgements: transactions per second, and segments per transaction".into(),
            host: None,
            design: record().body.design.unwrap(),
            resumed_rounds: 31,
            confidence: 0.95,
            confidence_each: 0.9958,
            states: Vec::new(),
            factors: factors
                .iter()
                .map(|(name, levels)| Factor { name: (*name).into(), levels: levels.map(Into::into).into() })
                .collect(),
            cells: vec![
                cell("on", "4", 7_400.0),
                cell("on", "1460", 7_900.0),
                cell("off", "4", 11_900.0),
                Cell {
                    arm: Arm { figures: Figures::default(), ..arm("D", "tcp:spin/tcp:spin", 1.0) },
                    ..cell("off", "1460", 1.0)
                },
            ],
            main_effects: vec![effect(0, 1.59), Effect { figures: Vec::new(), ..effect(1, 1.07) }],
            interactions: vec![Interaction {
                factors: factors.map(|(name, _)| name.to_owned()),
                levels: ["off".into(), "1460".into()],
                against: ["on".into(), "4".into()],
                figures: figures(0.93),
            }],
            loss_free: Vec::new(),
            left_out: vec![
                "rx-usecs 0: rx_usecs belongs to a NIC, and a link of this host has none; sweep to another --host".into(),
            ],
            warnings: Vec::new(),
        },
    }
}

#[test]
fn a_sweep_over_two_factors() {
    let record = swept();
    assert_snapshot!(narrow(hairpin_report::term(&record, &whole())));
    let mut filled = record.clone();
    filled.cells[1].arm.bulk_streams = 1;
    filled.cells[1].arm.bulk_bits_per_s = Some(7.9e9);
    let free = |level: &str, frames_per_s| LossFree {
        levels: vec![Some(level.into()), None],
        io: "packet:spin/packet:spin".into(),
        frame_bytes: 64,
        frames_per_s,
        offered_per_s: 812_000.0,
        trials: 9,
        warnings: Vec::new(),
    };
    filled.loss_free = vec![free("on", Some(512_345.0)), free("off", None)];
    crate::formats::formats(&filled);
    assert_snapshot!("beside_bulk_and_frames", narrow(hairpin_report::term(&filled, &whole())));
    // Scripts read a line per cell, whatever the screen begins with.
    let csv = hairpin_report::csv(&filled, &Options::default());
    let mut lines = csv.lines();
    let names = "delayed_ack,payload,trans_per_s,rtt_p50_ns,rtt_p99_ns,rtt_p99.9_ns,cpu_ns,";
    assert!(lines.next().is_some_and(|line| line.starts_with(names)), "{csv}");
    let levels: Vec<String> = lines.map(|line| line.split(',').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(levels, ["on 4", "on 1460", "off 4", "off 1460"]);
    filled.cells.iter_mut().for_each(|cell| (cell.arm.figures.p999_ns, cell.arm.typical) = (None, None));
    let few = hairpin_report::csv(&filled, &Options::default());
    assert!(few.starts_with(names), "a name does not depend on the figures: {few}");
    let mut silent = record;
    silent.interactions[0].figures.clear();
    assert!(hairpin_report::term(&silent, &whole()).contains("none of 1 pairs of levels"));
}

pub fn tried() -> TuneTry {
    let setting = |text: &str, held| TriedSetting { setting: text.into(), changes: Vec::new(), cost: "power".into(), held };
    let mut alone = record();
    alone.arms = vec![
        Arm { given: "as it is".into(), ..arm("A", "udp:block/udp:block", 54_200.0) },
        Arm { given: "cpu_dma_latency_us=0".into(), ..arm("B", "udp:block/udp:block", 10_100.0) },
        Arm { given: "tcp_slow_start_after_idle=0".into(), ..arm("C", "udp:block/udp:block", 54_300.0) },
        Arm { given: "timer_migration=0".into(), ..arm("D", "udp:block/udp:block", 54_000.0) },
    ];
    alone.comparisons = vec![
        comparison("B", Verdict::Faster, 0.187, 0.01),
        comparison("C", Verdict::Same, 1.002, 0.004),
        comparison("D", Verdict::Unclear, 0.996, 0.03),
    ];
    let mut together = record();
    together.comparisons = vec![comparison("B", Verdict::Faster, 0.191, 0.02)];
    TuneTry { head: Head { schema: TuneTry::SCHEMA.into(), tool: "hairpin 0.1.0".into(), command: vec!["hairpin".into(), "tune".into(), "try".into()], started: "2026-11-21T12:00:00Z".into(), interrupted: false, error: None }, body: TuneTryBody { host: Some(HostFacts { hostname: "alpha".into(), ..HostFacts::default() }), interface: None, settings: vec![
            setting("cpu_dma_latency_us=0", true),
            setting("tcp_slow_start_after_idle=0", false),
            setting("timer_migration=0", false),
        ], left_out: vec![
            LeftOut { setting: "tcp_autocorking=0".into(), why: "it is so already".into() },
            LeftOut { setting: "turbo=1".into(), why: "this host has no turbo. Needs: cpufreq".into() },
            LeftOut { setting: "watchdog=0".into(), why: "it is so already".into() },
        ], paths: vec![TriedPath {
            alone,
            deep_idle: vec![Some(0.78), Some(0.0), Some(0.79), None],
            together: Some(together),
            together_deep_idle: vec![Some(0.77), Some(0.001)],
        }], contradictions: Vec::new(), winners: vec!["cpu_dma_latency_us=0".into()], profile: Some(
            "about = \"measured on alpha\"\n\n[knobs]\ncpu_dma_latency_us = 0\n\n[evidence.cpu_dma_latency_us.\"udp:block/udp:block\"]\n".into(),
        ), kept: false } }
}

#[test]
fn settings_on_and_off_in_turn() {
    assert_snapshot!(narrow(hairpin_report::term(&tried(), &whole())));
}

#[test]
fn a_winner_that_a_process_held_is_not_said_to_be_in_force() {
    let said = |kept, winners: &[&str]| {
        let mut record = tried();
        (record.kept, record.winners) = (kept, winners.iter().map(|name| (*name).to_owned()).collect());
        let text = hairpin_report::term(&record, &Options { brief: true, ..Options::default() });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for kept in [false, true] {
        let held = said(kept, &["cpu_dma_latency_us=0"]);
        assert!(!held.contains("in force now") && held.contains("apply cpu_dma_latency_us=0 --while -- COMMAND"), "{held}");
    }
    let both = said(true, &["cpu_dma_latency_us=0", "timer_migration=0"]);
    assert!(both.contains("timer_migration=0 is in force now"), "{both}");
    assert!(both.contains("apply cpu_dma_latency_us=0 --while -- COMMAND"), "{both}");
    let lasting = said(true, &["timer_migration=0"]);
    assert!(lasting.contains("They are in force now") && !lasting.contains("tune apply"), "{lasting}");
}

#[test]
fn no_setting_is_worth_having() {
    let mut record = tried();
    (record.winners, record.profile, record.paths[0].together) = (Vec::new(), None, None);
    record.paths[0].alone.comparisons[0].verdict = Verdict::Same;
    record.head.interrupted = true;
    assert_snapshot!(narrow(hairpin_report::term(&record, &whole())));
}

#[test]
fn what_was_not_measured_again_is_undecided() {
    let mut record = tried();
    (record.winners, record.profile, record.paths[0].together) = (Vec::new(), None, None);
    record.head.interrupted = true;
    let text = hairpin_report::term(&record, &whole());
    assert!(text.contains("undecided: it ended before what made a path faster was measured again"), "{text}");
}

#[test]
fn winners_that_contradict_themselves_are_unclear() {
    let mut record = tried();
    let settings = std::mem::take(&mut record.winners);
    record.profile = None;
    record.contradictions =
        vec![Contradiction { path: "udp:block/udp:block".into(), settings, alone: [0.147, 0.383], anew: [0.404, 0.964] }];
    assert_snapshot!(narrow(hairpin_report::term(&record, &whole())));
}
