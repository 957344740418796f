//! Terminal output of `hairpin explain`: the golden text. All figures are made up.
//!
//! After a change of a format run `INSTA_UPDATE=always cargo test -p hairpin-report --test main explain` and review the
//! difference.

use hairpin_model::nic::find;
use hairpin_model::waterfall::{self, Link, Size};
use hairpin_record::explain::{
    Cause, Direction, Event, Explain, ExplainBody, Explained, Finding, Group, Hook, Missing, Stage, Timeline,
};
use hairpin_record::head::{Body, Head};
use hairpin_record::histogram::Times;
use hairpin_record::run::{Granted, Origin, Quantiles, Run, Side};
use hairpin_record::warning::Warning;
use hairpin_report::{Options, explain_perfetto, json, term};
use insta::assert_snapshot;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use Direction::{Reply, Request};
use Side::{Client, Server};

/// Name, side, hook at the end, mean of the typical and of the slow in ns.
type Made = (&'static str, Side, &'static str, f64, f64);

/// Both ways of a blocking datagram over veth.
const BLOCK: [&[Made]; 2] = [
    &[
        ("send call", Client, "net_dev_queue", 2_310.0, 2_420.0),
        ("qdisc", Client, "net_dev_start_xmit", 180.0, 190.0),
        ("driver", Client, "netif_rx", 420.0, 450.0),
        ("softirq", Server, "netif_receive_skb", 610.0, 2_900.0),
        ("stack", Server, "sk_data_ready", 880.0, 910.0),
        ("notify", Server, "sched_waking", 240.0, 260.0),
        ("wake-up", Server, "sched_wakeup", 14_200.0, 15_300.0),
        ("run queue", Server, "sched_switch", 3_900.0, 131_000.0),
        ("receive", Server, "sock_recv_length", 1_150.0, 1_200.0),
        ("return", Server, "receive returned", 210.0, 220.0),
        ("turn-around", Server, "send call", 95.0, 96.0),
    ],
    &[
        ("send call", Server, "net_dev_queue", 2_050.0, 2_110.0),
        ("qdisc", Server, "net_dev_start_xmit", 170.0, 170.0),
        ("driver", Server, "netif_rx", 410.0, 415.0),
        ("softirq", Client, "netif_receive_skb", 600.0, 650.0),
        ("stack", Client, "sk_data_ready", 870.0, 905.0),
        ("notify", Client, "sched_waking", 230.0, 240.0),
        ("wake-up", Client, "sched_wakeup", 17_500.0, 19_800.0),
        ("run queue", Client, "sched_switch", 4_400.0, 5_100.0),
        ("receive", Client, "sock_recv_length", 1_200.0, 1_210.0),
        ("return", Client, "receive returned", 205.0, 220.0),
    ],
];

/// No side sleeps: from the socket's queue straight to the next poll.
const SPIN: [&[Made]; 2] = [
    &[
        ("send call", Client, "net_dev_queue", 620.0, 700.0),
        ("qdisc", Client, "net_dev_start_xmit", 60.0, 62.0),
        ("driver", Client, "netif_rx", 130.0, 140.0),
        ("softirq", Server, "netif_receive_skb", 170.0, 190.0),
        ("stack", Server, "sk_data_ready", 280.0, 300.0),
        ("receive", Server, "sock_recv_length", 430.0, 6_400.0),
        ("return", Server, "receive returned", 60.0, 61.0),
        ("turn-around", Server, "send call", 20.0, 20.0),
    ],
    &[
        ("send call", Server, "net_dev_queue", 600.0, 640.0),
        ("qdisc", Server, "net_dev_start_xmit", 55.0, 56.0),
        ("driver", Server, "netif_rx", 128.0, 131.0),
        ("softirq", Client, "netif_receive_skb", 168.0, 170.0),
        ("stack", Client, "sk_data_ready", 275.0, 290.0),
        ("receive", Client, "sock_recv_length", 410.0, 900.0),
        ("return", Client, "receive returned", 55.0, 57.0),
    ],
];

/// Around a mean: half of it to one and a half.
fn around(mean_ns: f64, count: u64) -> Times {
    let mut times = Times::new();
    (0..count).for_each(|i| times.record((mean_ns * (0.5 + i as f64 / count as f64)) as u64));
    times
}

fn stages(ways: [&[Made]; 2], count: u64) -> Vec<Stage> {
    let mut from = "send call";
    let mut stages = Vec::new();
    for (direction, way) in [Request, Reply].into_iter().zip(ways) {
        for (name, side, to, typical_ns, slow_ns) in way.iter().copied() {
            let times = around(typical_ns, count);
            let direction = if name == "turn-around" { Reply } else { direction };
            let (ns, histogram) = (times.quantiles(), times.encode());
            stages.push(Stage {
                name: name.into(),
                side,
                direction,
                from: from.into(),
                to: to.into(),
                ns,
                histogram,
                typical_ns,
                slow_ns,
            });
            from = to;
        }
    }
    stages
}

/// A path's stages, with observer and residual such that the sums are exact.
fn explained(path: &str, ways: [&[Made]; 2], count: u64) -> Explained {
    let stages = stages(ways, count);
    let hook_ns = 118.0;
    let hits = ways.iter().map(|way| way.len() as f64).sum::<f64>() - 4.0;
    let (observer, residual) = (hook_ns * hits, 140.0);
    let group = |count: u64, of: fn(&Stage) -> f64, spread: f64| {
        let rtt_ns = stages.iter().map(of).sum::<f64>() + observer + residual;
        let ends = [rtt_ns * (1.0 - spread), rtt_ns * (1.0 + spread)].map(|ns| ns as u64);
        Group { count, from_ns: ends[0], to_ns: ends[1], rtt_ns, observer_ns: observer, residual_ns: residual }
    };
    let typical = group(count / 5, |stage| stage.typical_ns, 0.02);
    let slow = if count < 1000 { Group::default() } else { group(count / 100, |stage| stage.slow_ns, 0.4) };
    let untraced = typical.rtt_ns - observer;
    let hooks = ["net_dev_queue", "net_dev_start_xmit", "netif_rx", "netif_receive_skb", "sk_data_ready", "sock_recv_length"];
    let per = hits / hooks.len() as f64;
    Explained {
        path: path.into(),
        request_bytes: 64,
        reply_bytes: 64,
        rtt_ns: around(typical.rtt_ns, count).quantiles(),
        untraced_rtt_ns: around(untraced * 1.004, count).quantiles(),
        stages,
        observer_ns: around(observer, count).quantiles(),
        residual_ns: around(residual, count).quantiles(),
        hook_ns: Some(hook_ns),
        hooks: hooks.map(|name| Hook { name: name.into(), per_transaction: per }).into(),
        blocks: 24,
        typical,
        slow,
        ..Explained::default()
    }
}

/// The host, link and clock of the record's example around these results.
pub fn record(results: Vec<Explained>) -> Explain {
    let run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
    let mut place = run.body.place;
    let link = &mut place.link;
    (link.kind, link.interface, link.mtu, link.peer) = ("veth".into(), Some("hairpin0".into()), Some(1500), None);
    Explain {
        head: Head {
            schema: Explain::SCHEMA.into(),
            tool: "hairpin 0.1.0".into(),
            command: ["hairpin", "explain", "--link", "veth"].map(String::from).into(),
            started: "2026-11-20T11:50:07.123456Z".into(),
            interrupted: false,
            error: None,
        },
        body: ExplainBody { place, missing: Vec::new(), results },
    }
}

fn fits(text: String) -> String {
    for line in text.lines() {
        assert!(line.width() <= 80, "{} columns: {line}\n{text}", line.width());
        assert_eq!(line, line.trim_end(), "no spaces at the end");
    }
    text
}

fn screen(record: &Explain) -> String {
    fits(term(record, &Options { brief: true, ..Options::default() }))
}

/// With all that a first screen leaves out.
fn verbose(record: &Explain) -> String {
    fits(term(record, &Options::default()))
}

/// The text of one path, which a terminal of 80 columns and 24 lines holds beside the line typed, a note or two and the prompt.
fn first_screen(record: &Explain) -> String {
    let text = screen(record);
    assert!(text.lines().count() <= 20, "{} lines\n{text}", text.lines().count());
    text
}

/// Spinning datagrams over veth.
pub fn spinning() -> Explained {
    explained("udp:spin/udp:spin", SPIN, 50_000)
}

#[test]
fn blocking_datagrams_over_veth() {
    let record = record(vec![explained("udp/udp", BLOCK, 20_000)]);
    assert_snapshot!(first_screen(&record));
    assert_snapshot!(verbose(&record));
}

#[test]
fn spinning_datagrams_beside_their_floor() {
    let mut spin = explained("udp:spin/udp:spin", SPIN, 50_000);
    let link = Link { rate: "10G".parse().ok(), cable: "twinax:3m".parse().ok(), ..Link::default() };
    spin.floor = Some(Box::new(waterfall::floor(find("none").unwrap(), Some(Size::Payload(64)), &link).unwrap()));
    assert_snapshot!(verbose(&record(vec![spin])));
}

#[test]
fn the_bar_of_a_declared_link_is_on_the_first_screen() {
    let mut block = explained("udp/udp", BLOCK, 20_000);
    block.floor = Some(Box::new(waterfall::floor(find("niq").unwrap(), None, &Link::default()).unwrap()));
    let text = first_screen(&record(vec![block]));
    assert!(text.contains("3.98 us (niq, 10Gbit/s, a frame of") && text.contains("58.0 us"), "{text}");
    assert!(text.lines().any(|line| line.starts_with('|') && line.ends_with("//|")), "{text}");
    assert_snapshot!(text);
}

#[test]
fn too_few_to_tell_the_slow_ones() {
    let text = first_screen(&record(vec![explained("udp:spin/udp:spin", SPIN, 900)]));
    assert!(text.contains("too few") && !text.contains("grew"), "{text}");
    assert_snapshot!(text);
}

/// Without two of the hooks their neighbours are one stage.
fn merged() -> Explain {
    let mut result = explained("udp/udp", BLOCK, 20_000);
    let merge = |stages: &mut Vec<Stage>, first: &str, second: &str| {
        while let Some(i) = stages.windows(2).position(|two| two[0].name == first && two[1].name == second) {
            let second = stages.remove(i + 1);
            let one = &mut stages[i];
            one.name = format!("{} + {}", one.name, second.name);
            one.to = second.to;
            one.typical_ns += second.typical_ns;
            one.slow_ns += second.slow_ns;
            let times = around(one.typical_ns, 20_000);
            (one.ns, one.histogram) = (times.quantiles(), times.encode());
        }
    };
    merge(&mut result.stages, "qdisc", "driver");
    merge(&mut result.stages, "softirq", "stack");
    merge(&mut result.stages, "softirq + stack", "notify");
    let hook = |hook: &str, why: &str, adds: &str| Missing { hook: hook.into(), why: why.into(), adds: adds.into() };
    let mut record = record(vec![result]);
    record.missing = vec![
        hook("net_dev_start_xmit", "this kernel has no such tracepoint", "qdisc and driver apart"),
        hook("netif_receive_skb", "this kernel has no such tracepoint", "softirq and stack apart"),
        hook("sk_data_ready", "added in Linux 6.3, and this is 6.1: use a newer kernel", "stack and notify apart"),
    ];
    record
}

#[test]
fn missing_hooks_merge_stages_and_are_named_first() {
    assert!(first_screen(&merged()).contains("3 of the hooks missing here"));
    let mut none = merged();
    none.missing =
        vec![Missing { hook: Missing::ALL.into(), why: "the kernel's types cannot be read".into(), adds: "the stages".into() }];
    assert!(
        first_screen(&none).contains("\nno hooks in the kernel: the kernel's types cannot be read\n-v: "),
        "{}",
        first_screen(&none)
    );
    let text = verbose(&merged());
    assert!(text.find("Not visible").unwrap() < text.find("RTT  ").unwrap());
    assert_snapshot!(text);
}

/// Two causes, a finding, losses, warnings, and a stage that not everyone passes.
pub fn troubled() -> Explain {
    let mut result = explained("udp/udp", BLOCK, 20_000);
    (result.lost_events, result.unmatched, result.blocks_rejected) = (52, 12, 1);
    let cause = |cause: &str, who: &str, count, lost_ns, advice: &str| Cause {
        cause: cause.into(),
        who: who.into(),
        count,
        lost_ns,
        advice: advice.into(),
    };
    result.causes = vec![
        cause(
            "preempted",
            "stress-ng (pid 4711)",
            171,
            23_400_000,
            "give the server's core to the server alone: choose others with --cpu CLIENT,SERVER, or --sched fifo:1",
        ),
        cause("softirq", "NET_RX", 22, 812_000, "keep other traffic off this core (irq_affinity, rps_cpus)"),
        cause("nothing seen", "", 7, 90_100, "the hypervisor or the firmware took it: compare core_rtt_ns, look at steal time"),
    ];
    result.findings = vec![Finding {
        detector: "competing-process".into(),
        seen: "stress-ng (pid 4711) ran 38 % of the time on CPU 1, the server's".into(),
        advice: "end it, or choose another core with --cpu CLIENT,SERVER".into(),
    }];
    result.stages[6].ns = around(14_200.0, 7_400).quantiles();
    result.warnings = vec![Warning::InvoluntarySwitches { side: Server, count: 171, cores: 1 }.note()];
    let asked = Granted {
        side: Client,
        option: "busy_poll".into(),
        asked: "50".into(),
        got: "not in force".into(),
        why: "no NAPI id".into(),
    };
    result.granted = vec![asked];
    result.slowest = vec![timeline(412_345), timeline(300_000)];
    record(vec![result, explained("udp:spin/udp:spin", SPIN, 5_000)])
}

/// A round trip during which the server was kept from its core.
fn timeline(rtt_ns: u64) -> Timeline {
    let event = |at_ns: i64, name: &str, side: Option<Side>, cpu: u32, detail: &str| Event {
        at_ns,
        name: name.into(),
        side,
        cpu: Some(cpu),
        detail: detail.into(),
    };
    let end = rtt_ns as i64;
    let (client, server) = (Some(Client), Some(Server));
    let mut events = vec![
        event(-3_210, "sched_switch", None, 1, "hairpin (4720) -> stress-ng (4711)"),
        event(0, "send call", client, 0, ""),
        event(2_420, "net_dev_queue", client, 0, ""),
        event(2_610, "net_dev_start_xmit", client, 0, ""),
        event(3_060, "netif_rx", client, 0, ""),
        event(3_700, "netif_receive_skb", server, 0, ""),
        event(4_600, "sk_data_ready", server, 0, ""),
        event(4_850, "sched_waking", server, 0, "hairpin (4720), CPU 1"),
        event(6_150, "sched_wakeup", server, 1, "hairpin (4720)"),
        event(80_000, "irq_handler_entry", None, 1, "virtio2-input.0, which takes more than one line to be told about"),
        event(end - 30_000, "sched_switch", server, 1, "stress-ng (4711) -> hairpin (4720)"),
        event(end - 28_800, "sock_recv_length", server, 1, ""),
        event(end - 28_600, "receive returned", server, 1, ""),
        event(end - 28_500, "send call", server, 1, ""),
        event(end - 26_400, "net_dev_queue", server, 1, ""),
        event(end, "receive returned", client, 0, ""),
    ];
    events[15].cpu = None;
    Timeline { rtt_ns, at_ns: 1_203_000_000 + rtt_ns, sequence: 4711, cause: "preempted".into(), events }
}

#[test]
fn losses_causes_and_findings() {
    let text = verbose(&troubled());
    assert!(text.find("LOST EVENTS").unwrap() < text.find("udp, 64 B").unwrap());
    assert_snapshot!(text);
    assert_snapshot!(screen(&troubled()));
    // One in a thousand raises no alarm.
    let mut few = troubled();
    few.results[0].lost_events = 20;
    assert!(!screen(&few).contains("LOST EVENTS"));
    few.results[0].lost_events = 21;
    assert!(screen(&few).contains("LOST EVENTS"));
}

/// Seven causes, of which the last has less than 2 % of the time.
#[test]
fn causes_of_two_percent_and_more_have_a_line_each() {
    let mut result = explained("udp/udp", BLOCK, 20_000);
    let names = ["idle wake-up", "run queue wait", "soft interrupt", "preempted", "timer", "stolen", "migration"];
    let causes = names.iter().zip([640, 120, 100, 60, 40, 22, 18]).map(|(name, lost_ns)| Cause {
        cause: (*name).into(),
        who: if *name == "run queue wait" { "kdamond.0 (59)".into() } else { String::new() },
        count: 3,
        lost_ns,
        advice:
            "hold cpu_dma_latency_us at 0, or in a virtual machine raise guest_halt_poll_ns; see idle_states; spin never sleeps"
                .into(),
    });
    result.causes = causes.collect();
    let finding = |name: &str| Finding { detector: name.into(), seen: "wake-ups take much".into(), advice: "do".into() };
    result.findings = ["deep-idle-wake-up", "low-rate-penalty", "shared-core", "xdp-fallback"].map(finding).into();
    let text = first_screen(&record(vec![result.clone()]));
    let shown = names.iter().filter(|name| text.lines().any(|line| line.contains(" %  ") && line.contains(**name))).count();
    assert!(shown >= 3 && text.contains(&format!("(+{} more: -v)\n", 6 - shown)), "six have 2 % and more: {text}");
    assert!(!text.contains("deep-idle-wake-up"), "the answer tells it already");
    assert_snapshot!(text);
    let text = verbose(&record(vec![result]));
    assert!(text.contains("stolen") && text.contains("migration") && text.contains("deep-idle-wake-up"), "{text}");
}

/// Each sum names its parts: the answer, the rows of the table and the sentences share one definition.
#[test]
fn wake_up_time_is_the_same_in_answer_and_sentences() {
    let text = verbose(&record(vec![explained("udp/udp", BLOCK, 20_000)]));
    assert!(text.contains("40.0 us  74 %  waking the other side"), "{text}");
    assert!(text.contains("14.0 us  26 %  everything else"), "{text}");
    assert!(text.contains("40.00 us (74.1 %) goes to waking the other side"), "{text}");
}

#[test]
fn timelines_event_by_event() {
    let text = fits(term(&troubled(), &Options { brief: true, detail: 1, ..Options::default() }));
    let start = text.find("Slowest 1").unwrap();
    assert!(!text.contains("Slowest 2"));
    assert_snapshot!(text[start..text.find("\nudp:spin over").unwrap()].to_owned());
    assert!(fits(term(&troubled(), &Options { brief: true, detail: 9, ..Options::default() })).contains("Slowest 2"));
}

#[test]
fn wider_terminals_get_longer_bars_and_colour_only_if_asked() {
    let record = record(vec![explained("udp/udp", BLOCK, 20_000)]);
    let longest = |text: &str| text.lines().map(|line| line.matches('#').count()).max().unwrap();
    let wide = term(&record, &Options { brief: true, width: 120, ..Options::default() });
    assert!(longest(&wide) > longest(&screen(&record)), "{wide}");
    assert!(wide.lines().all(|line| line.width() <= 120), "{wide}");
    let colour = term(&record, &Options { brief: true, colour: true, ..Options::default() });
    assert!(colour.contains("\u{1b}[1m") && !screen(&record).contains('\u{1b}'));
}

#[test]
fn reports_stages_that_do_not_add_up() {
    let mut result = explained("udp/udp", BLOCK, 20_000);
    assert!(!screen(&record(vec![result.clone()])).contains("add up:"));
    result.typical.rtt_ns += 400.0;
    assert!(screen(&record(vec![result.clone()])).contains("Does not add up"), "no screen leaves it out");
    let text = verbose(&record(vec![result]));
    assert_snapshot!(text[text.find("Does not").unwrap()..].to_owned());
}

#[test]
fn a_record_without_results_and_one_that_ended_early() {
    let mut record = record(Vec::new());
    record.head.error = Some("the server is gone".into());
    record.head.interrupted = true;
    record.missing = vec![Missing {
        hook: Missing::ALL.into(),
        why: "needs CAP_BPF: run as root".into(),
        adds: "every stage inside the kernel".into(),
    }];
    assert_snapshot!(screen(&record));
}

#[test]
fn for_pages_and_scripts() {
    assert_snapshot!(crate::formats::formats(&troubled()));
}

#[test]
fn json_is_the_record() {
    let record = troubled();
    let text = json(&record);
    assert_eq!(serde_json::from_str::<Explain>(&text).unwrap(), record);
    assert!(text.starts_with("{\n  \"schema\": \"hairpin.explain/1\",\n"));
}

#[test]
fn trace_events_of_the_slowest() {
    let trace = explain_perfetto(&troubled());
    let parsed: serde_json::Value = serde_json::from_str(&trace).unwrap();
    let events = parsed["traceEvents"].as_array().unwrap();
    let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert!(slices.iter().all(|slice| slice["dur"].as_f64().unwrap() >= 0.0));
    // A slice lies inside the round trip that it is a part of, and two stages of one round trip do not overlap.
    let ends = |slice: &serde_json::Value| {
        let from = slice["ts"].as_f64().unwrap();
        (from, from + slice["dur"].as_f64().unwrap())
    };
    let (round_trip, stages) = slices[..slices.len() / 2].split_first().unwrap();
    assert_eq!(round_trip["name"], "round trip");
    assert_eq!(stages.len(), 12);
    let mut before = ends(round_trip).0;
    for stage in stages {
        let (from, to) = ends(stage);
        assert!(from >= before - 1e-6 && to <= ends(round_trip).1 + 1e-6, "{stage}");
        before = to;
    }
    let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
    assert_snapshot!(lines.join("\n"));
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,40}|.{0,60}|[\\x00-\\x1f]{0,8}".boxed()
}

fn any_f64() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1e6, prop::num::f64::ANY]
}

fn any_u64() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..100_000, any::<u64>(), Just(0)]
}

fn times() -> impl Strategy<Value = Quantiles> {
    let ns = || prop::option::of(any_u64());
    (any_u64(), ns(), ns(), ns()).prop_map(|(count, p50, p90, p99)| Quantiles { count, p50, p90, p99, ..Quantiles::default() })
}

fn group() -> impl Strategy<Value = Group> {
    (any_u64(), any_u64(), any_u64(), any_f64(), any_f64(), any_f64()).prop_map(
        |(count, from_ns, to_ns, rtt_ns, observer_ns, residual_ns)| Group {
            count,
            from_ns,
            to_ns,
            rtt_ns,
            observer_ns,
            residual_ns,
        },
    )
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Client), Just(Server)]
}

prop_compose! {
    fn stage()(
        name in text(),
        side in side(),
        request: bool,
        (from, to) in (text(), text()),
        ns in times(),
        (typical_ns, slow_ns) in (any_f64(), any_f64()),
    ) -> Stage {
        let direction = if request { Request } else { Reply };
        Stage { name, side, direction, from, to, ns, histogram: String::new(), typical_ns, slow_ns }
    }
}

prop_compose! {
    fn event()(at_ns: i64, name in text(), side in prop::option::of(side()), cpu: Option<u32>, detail in text()) -> Event {
        Event { at_ns, name, side, cpu, detail }
    }
}

prop_compose! {
    fn hostile()(
        (path, cause, who, advice, why) in (text(), text(), text(), text(), text()),
        (rtt_ns, untraced_rtt_ns, observer_ns, residual_ns) in (times(), times(), times(), times()),
        stages in prop::collection::vec(stage(), 0..5),
        (hook_ns, per_transaction) in (prop::option::of(any_f64()), any_f64()),
        (unmatched, lost_events, blocks, blocks_rejected) in (any_u64(), any_u64(), any_u64(), any_u64()),
        (typical, slow) in (group(), group()),
        (count, lost_ns, at_ns, bytes) in (any_u64(), any_u64(), any_u64(), any_u64()),
        events in prop::collection::vec(event(), 0..6),
    ) -> Explained {
        Explained {
            path,
            origin: Origin::Emulated,
            request_bytes: bytes,
            reply_bytes: count,
            rtt_ns,
            untraced_rtt_ns,
            stages,
            observer_ns,
            residual_ns,
            hook_ns,
            hooks: vec![Hook { name: who.clone(), per_transaction }],
            unmatched,
            lost_events,
            blocks,
            blocks_rejected,
            typical,
            slow,
            causes: vec![Cause { cause: cause.clone(), who, count, lost_ns, advice: advice.clone() }],
            findings: vec![Finding { detector: cause.clone(), seen: why, advice }],
            slowest: vec![Timeline { rtt_ns: lost_ns, at_ns, sequence: 7, cause, events }],
            ..Explained::default()
        }
    }
}

proptest! {
    #[test]
    fn a_hostile_record_neither_steers_the_terminal_nor_breaks_the_width(results in prop::collection::vec(hostile(), 0..3), said in text()) {
        let mut record = record(results);
        record.place.hosts.client.hostname = said.clone();
        record.missing = vec![Missing { hook: said.clone(), why: said.clone(), adds: said }];
        let text = [false, true].map(|verbose| term(&record, &Options { detail: 9, brief: !verbose, ..Options::default() })).concat();
        for line in text.lines() {
            prop_assert!(line.width() <= 80, "{} columns: {line}", line.width());
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        let trace = explain_perfetto(&record);
        prop_assert!(trace.chars().all(|c| c == '\n' || !c.is_control()), "{trace:?}");
        serde_json::from_str::<serde_json::Value>(&trace).unwrap();
        // Unescaped bytes in JSON are data; none of them ends a line or begins an escape.
        prop_assert!(json(&record).bytes().all(|byte| byte == b'\n' || byte >= b' '));
    }
}
