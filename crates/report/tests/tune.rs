//! Terminal output of `hairpin tune`: the golden text.
//!
//! After a change of a format run `INSTA_UPDATE=always cargo test -p hairpin-report --test main tune` and review the difference.

use std::collections::BTreeMap;

use hairpin_record::head::{Body, Label};
use hairpin_record::tune::{ChangeRow, Changes, Finding, KnobRow, List, NapiRow, Settable, Status, StatusEntry, TuneCheck};
use hairpin_report::{Options, term};
use insta::assert_snapshot;
use serde_json::json;

const TOOL: &str = "hairpin 0.1.0";

fn fits(text: String) -> String {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "a line is wider than 80 columns:\n{text}");
    text
}

/// On a terminal with all details.
fn whole() -> Options {
    Options::default()
}

fn settable(safe: bool) -> Settable {
    Settable {
        mechanism: "How long the device may wait after a received packet before it interrupts, to gather more.".into(),
        effect: "Each blocking round trip waits up to this long for the interrupt, on either side. 0 interrupts at once.".into(),
        cost: "An interrupt per packet.".into(),
        risk: "A flood of small packets keeps a core in interrupts.".into(),
        needs: "CAP_NET_ADMIN, and a device that coalesces.".into(),
        reference: "ethtool(8)".into(),
        values: "a whole number from 0 to 4294967295".into(),
        safe,
        lasts: "boot".into(),
        of_interface: true,
        profiles: BTreeMap::from([("latency".into(), "0".into()), ("throughput".into(), "50".into())]),
    }
}

pub fn list() -> List {
    let row = |name: &str, summary: &str, now, unread: Option<&str>, change| KnobRow {
        name: name.into(),
        summary: summary.into(),
        now,
        unread: unread.map(str::to_owned),
        change,
    };
    let knobs = vec![
        row(
            "rx_usecs",
            "How long the device may wait after a received packet before it interrupts",
            Some(json!(8)),
            None,
            Some(settable(true)),
        ),
        row("qdisc", "The queueing discipline at the interface's root", None, None, Some(settable(false))),
        row(
            "tcp_rmem_bytes",
            "Receive buffer of a TCP connection: least, at first, most",
            Some(json!([4096, 131072, 6291456])),
            None,
            Some(settable(true)),
        ),
        row(
            "mitigations",
            "What the kernel does about each vulnerability that this CPU has",
            Some(json!({"spectre_v2": "Mitigation: \u{1b}[31m"})),
            None,
            None,
        ),
        row(
            "cpu_dma_latency_us",
            "The longest wake-up from idle that the processes of this host allow",
            None,
            Some("/dev/cpu_dma_latency: Permission denied"),
            None,
        ),
    ];
    let napi = |number: u32, irq, threaded: &str| NapiRow {
        name: format!("rx-{number}"),
        queues: vec![format!("rx-{number}"), format!("tx-{number}")],
        id: 8193 + number,
        irq,
        settings: [
            ("defer-hard-irqs", "0"),
            ("gro-flush-timeout", "20000"),
            ("irq-suspend-timeout", "0"),
            ("threaded", threaded),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    };
    let napis = vec![napi(0, Some(40), "0"), napi(1, None, "busy-poll")];
    List { label: Label { schema: List::SCHEMA.into(), tool: TOOL.into() }, knobs, napis }
}

#[test]
fn every_setting_and_all_of_one() {
    assert_snapshot!(fits(term(&list(), &Options::default())));
    crate::formats::formats(&list());
    let mut one = list();
    one.knobs.truncate(2);
    assert_snapshot!(fits(term(&one, &Options { detail: 1, ..Options::default() })));
}

fn finding(name: &str, stake_ns: u64, at_boot: bool) -> Finding {
    Finding {
        name: name.into(),
        now: "nobody demands short wake-ups".into(),
        better: "a demand of 0 us".into(),
        effect: "A blocking round trip loses the way out of idle at every wake-up.".into(),
        stake_ns,
        cost: "All cores stay awake.".into(),
        fix: if at_boot {
            "isolcpus=LIST on the kernel's command line"
        } else {
            "sudo hairpin tune apply cpu_dma_latency_us=0 --while -- COMMAND"
        }
        .into(),
        or: (!at_boot).then(|| "sudo hairpin tune apply idle_states=0 (until it is reverted)".into()),
        at_boot,
    }
}

/// More findings than a screen has lines for.
pub fn eleven() -> TuneCheck {
    let mut findings: Vec<Finding> = (0..11).map(|at| finding(&format!("setting_{at}"), 45_000 >> at, at % 2 == 1)).collect();
    findings[1].now = "on".into();
    TuneCheck {
        label: Label { schema: TuneCheck::SCHEMA.into(), tool: TOOL.into() },
        hostname: "alpha".into(),
        profile: "latency".into(),
        interface: None,
        findings,
        fine: vec!["rx_usecs".into()],
        unread: BTreeMap::new(),
    }
}

#[test]
fn a_line_for_each_setting() {
    let check = eleven();
    let text = term(&check, &Options { brief: true, ..Options::default() });
    assert!(text.lines().count() <= 20 && text.contains("and 5 more"), "{text}");
    let at_60 = term(&check, &Options { brief: true, width: 60, ..Options::default() });
    assert!(at_60.lines().count() <= 20 && at_60.contains("nobody demands short wake-ups -> a demand of 0 us"), "{at_60}");
    assert_snapshot!(fits(text));
}

#[test]
fn check_lists_settings_that_cost_latency() {
    let mut check = TuneCheck {
        label: Label { schema: TuneCheck::SCHEMA.into(), tool: TOOL.into() },
        hostname: "alpha".into(),
        interface: Some("eth0".into()),
        profile: "latency".into(),
        findings: vec![finding("cpu_dma_latency_us", 45_000, false), finding("isolated_cpus", 0, true)],
        fine: vec!["rx_usecs".into(), "tcp_autocorking".into()],
        unread: BTreeMap::from([(
            "cpu_dma_latency_us".into(),
            "/dev/cpu_dma_latency: Permission denied (os error 13); run as root".into(),
        )]),
    };
    assert_snapshot!(fits(term(&check, &whole())));
    crate::formats::formats(&check);
    check.profile = "power".into();
    assert_snapshot!(fits(term(&check, &whole())));
    (check.findings, check.interface) = (Vec::new(), None);
    check.unread.clear();
    assert_snapshot!(fits(term(&check, &whole())));
}

fn change(knob: &str, place: &str, outcome: &str, why: Option<&str>) -> ChangeRow {
    let why = why.map(str::to_owned);
    ChangeRow {
        knob: knob.into(),
        place: place.into(),
        from: "8".into(),
        to: "0".into(),
        from_cpus: None,
        to_cpus: None,
        outcome: outcome.into(),
        why,
    }
}

fn changes(action: &str, changes: Vec<ChangeRow>) -> Changes {
    Changes {
        label: Label { schema: Changes::SCHEMA.into(), tool: TOOL.into() },
        action: action.into(),
        changes,
        notes: Vec::new(),
    }
}

#[test]
fn prints_a_diff_and_its_outcome() {
    let places =
        [("rx_usecs", "rx-usecs of eth0"), ("scaling_governor", "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor")];
    let plan = changes("plan", places.map(|(knob, place)| change(knob, place, "planned", None)).into());
    assert_snapshot!(fits(term(&plan, &Options::default())));
    let refused = change("rx_usecs", "rx-usecs of eth0", "refused", Some("rx-usecs of eth0: wanted 0, but it is 8"));
    let applied =
        changes("apply", vec![refused, change("tcp_autocorking", "/proc/sys/net/ipv4/tcp_autocorking", "applied", None)]);
    assert_snapshot!(fits(term(&applied, &Options::default())));
    crate::formats::formats(&applied);
    let theirs = change(
        "rx_usecs",
        "rx-usecs of eth0",
        "changed",
        Some("somebody else changed it since, to 3: --force puts it back to 8 all the same"),
    );
    let mut reverted =
        changes("revert", vec![theirs, change("tcp_autocorking", "/proc/sys/net/ipv4/tcp_autocorking", "reverted", None)]);
    reverted.notes.push("entry 0001 of 2026-11-20T11:50:10.000000Z: the host has booted since, nothing of it is left".into());
    assert_snapshot!(fits(term(&reverted, &Options::default())));
    assert_snapshot!(term(&changes("plan", vec![]), &Options::default()));
}

#[test]
fn scripts_read_whole_values_and_places() {
    let (mask, place) = ("ffffffff,ffffffff,ffffffff", "/sys/class/net/eth0/queues/rx-0/rps_cpus");
    let wide = ChangeRow { from: mask.into(), from_cpus: Some("0-95".into()), ..change("rps_cpus", place, "reverted", None) };
    let csv = |action: &str| hairpin_report::csv(&changes(action, vec![wide.clone()]), &Options::default());
    let names = "setting,was,is_to_be,outcome,where";
    assert_eq!(csv("apply"), format!("{names}\nrps_cpus,\"{mask}\",0,reverted,{place}\n"));
    assert_eq!(csv("revert"), format!("{names}\nrps_cpus,0,\"{mask}\",reverted,{place}\n"));
}

#[test]
fn status_lists_journal_entries() {
    let entry = |id: u32, state: &str| StatusEntry {
        id,
        state: state.into(),
        started: "2026-11-20T11:50:10.000000Z".into(),
        command: ["hairpin", "tune", "apply", "rx_usecs=0", "-i", "eth0"].map(str::to_owned).into(),
        changes: vec![change("rx_usecs", "rx-usecs of eth0", "applied", None)],
        why: None,
    };
    let damaged = StatusEntry {
        started: String::new(),
        command: vec![],
        changes: vec![],
        why: Some("its first line is damaged".into()),
        ..entry(3, "damaged")
    };
    let mut status = Status {
        label: Label { schema: Status::SCHEMA.into(), tool: TOOL.into() },
        journal: "/var/lib/hairpin/journal".into(),
        holder: None,
        entries: vec![entry(1, "kept"), entry(2, "orphaned"), damaged],
    };
    assert_snapshot!(fits(term(&status, &Options::default())));
    crate::formats::formats(&status);
    (status.entries, status.holder) = (Vec::new(), Some("process 7: hairpin tune apply".into()));
    assert_snapshot!(fits(term(&status, &Options::default())));
}
