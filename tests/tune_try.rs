//! `hairpin tune try`, and settings switched by `compare` and `sweep`, on the real kernel: a demand on idle states, sysctls of a network namespace. Whatever is
//! changed is as before afterwards, and that is looked at.
//!
//! Everything runs in a network namespace of this program's own; the demand on idle states is the host's, and ends with its process.

#![forbid(unsafe_code)]

mod support;

use std::fs;
use std::process::ExitCode;

use hairpin_sys::netns;
use serde_json::Value;
use support::listed;
use support::{Done, Home, can, home_of_nobody, namespaces};

const TESTS: &[(&str, fn())] = &[
    ("idle_states_are_found_by_experiment", idle_states_are_found_by_experiment),
    ("the_profile_is_one_that_apply_takes", the_profile_is_one_that_apply_takes),
    ("all_that_is_safe_is_tried_and_put_back", all_that_is_safe_is_tried_and_put_back),
    ("killed_it_is_put_back_by_revert", killed_it_is_put_back_by_revert),
    ("interrupted_it_puts_everything_back", interrupted_it_puts_everything_back),
    ("compare_and_sweep_switch_settings", compare_and_sweep_switch_settings),
    ("what_cannot_be_tried_is_said", what_cannot_be_tried_is_said),
];
/// The sysctl that is tried: of this network namespace.
const AUTOCORKING: &str = "/proc/sys/net/ipv4/tcp_autocorking";

fn main() -> ExitCode {
    if !can("tune_try", namespaces(), "it takes root and the right to make a network namespace") {
        println!("tune_try: 0 passed, 0 failed, {} skipped", TESTS.len());
        return ExitCode::SUCCESS;
    }
    netns::enter_new(false).expect("a network namespace");
    listed::run("tune_try", TESTS, |_, test| {
        let before = said();
        test();
        assert_eq!(before, said(), "the host is not as before");
        true
    })
}

/// What every setting says.
fn said() -> String {
    Home::new().hairpin("tune list --json").out
}

/// A home with a journal of its own.
struct Host(Home);

impl Host {
    fn new() -> Host {
        Host(Home::new())
    }

    fn start(&self, args: &str) -> support::Running {
        self.0.start(args)
    }

    fn hairpin(&self, args: &str) -> Done {
        self.0.hairpin(args)
    }

    fn json(&self, args: &str) -> Value {
        let done = self.hairpin(&format!("{args} --json"));
        assert_eq!(done.code, Some(0), "{args}: {done:?}");
        done.json()
    }

    /// Entries of the journal.
    fn entries(&self) -> usize {
        let names = fs::read_dir(self.0.journal()).into_iter().flatten().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".jsonl")).count()
    }
}

fn autocorking() -> String {
    fs::read_to_string(AUTOCORKING).expect("the sysctl").trim().to_owned()
}

/// The estimate of p50 of a comparison.
fn p50(comparison: &Value) -> &Value {
    let figures = comparison["figures"].as_array().expect("figures");
    figures.iter().find(|figure| figure["figure"] == "p50").expect("p50")
}

fn idle_states_are_found_by_experiment() {
    let record = Host::new().json("tune try --link veth --path udp:block --knob cpu_dma_latency_us=0 --duration 10s --yes");
    assert_eq!(
        (&record["schema"], &record["error"], &record["kept"]),
        (&"hairpin.tune-try/1".into(), &Value::Null, &false.into())
    );
    let path = &record["paths"][0];
    let comparison = &path["alone"]["comparisons"][0];
    let (ratio, idle) = (p50(comparison)["ratio"].as_f64().expect("a ratio"), &path["deep_idle"]);
    println!("tune_try: held off, p50 is {ratio:.3} of what it was; deep idle {} -> {}", idle[0], idle[1]);
    // Where the cores never rest, as on a host that polls or is busy, there is nothing to gain.
    if let (Some(before), Some(after)) = (idle[0].as_f64(), idle[1].as_f64())
        && before > 0.2
    {
        assert!(after < before / 2.0, "{idle}");
        assert!(ratio < 0.8, "{comparison}");
        assert_eq!(comparison["verdict"], "faster");
        assert_eq!(record["winners"], serde_json::json!(["cpu_dma_latency_us=0"]));
        let again = &path["together"]["comparisons"][0];
        assert!(p50(again)["ratio"].as_f64().expect("a ratio") < 0.8, "measured anew: {again}");
    }
}

fn the_profile_is_one_that_apply_takes() {
    let host = Host::new();
    // The winner is known beforehand: a server that is made slow by what it is compared with.
    let done =
        host.hairpin("tune try --link veth --path udp:block --knob cpu_dma_latency_us=0 --duration 8s --yes -o tuned.toml");
    assert_eq!(done.code, Some(0), "{done:?}");
    let Ok(profile) = fs::read_to_string(host.0.file("tuned.toml")) else {
        assert!(done.out.contains("No setting made a path faster"), "{done:?}");
        return;
    };
    assert!(profile.contains("[evidence.cpu_dma_latency_us") && profile.contains("interval"), "{profile}");
    let applied = host.hairpin("tune apply tuned.toml --yes --while -- cat /dev/cpu_dma_latency");
    assert_eq!((applied.code, applied.out.as_bytes()), (Some(0), &[0_u8; 4][..]), "{applied:?}");
}

fn all_that_is_safe_is_tried_and_put_back() {
    let host = Host::new();
    let done = host.hairpin("tune try --link loopback --path udp:spin --all-safe --duration 12s --yes");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("tcp_autocorking=0") && done.out.contains("as it is"), "{done:?}");
    assert!(done.out.lines().all(|line| line.chars().count() <= 80), "{}", done.out);
    assert_eq!(host.entries(), 0, "nothing is left in the journal");
}

fn killed_it_is_put_back_by_revert() {
    let host = Host::new();
    let before = autocorking();
    let mut running = host.start("tune try --link loopback --path tcp:spin --knob tcp_autocorking=0 --duration 30s --yes");
    let begun = std::time::Instant::now();
    while autocorking() == before {
        assert!(begun.elapsed() < support::LIMIT, "it is never on");
    }
    running.kill();
    assert_eq!(host.entries(), 1);
    let told = host.hairpin("paths");
    assert!(told.err.contains("still changed by a hairpin that was killed"), "{told:?}");
    let reverted = host.hairpin("tune revert");
    assert_eq!((reverted.code, autocorking(), host.entries()), (Some(0), before, 0), "{reverted:?}");
}

fn interrupted_it_puts_everything_back() {
    let host = Host::new();
    let before = autocorking();
    let running = host.start("tune try --link loopback --path tcp:spin --knob tcp_autocorking=0 --duration 30s --yes --json");
    std::thread::sleep(std::time::Duration::from_secs(4));
    running.signal("INT");
    let done = running.done();
    assert_eq!((done.code, autocorking(), host.entries()), (Some(0), before, 0), "{done:?}");
    assert_eq!(done.json()["interrupted"], true);
}

fn compare_and_sweep_switch_settings() {
    let host = Host::new();
    let before = autocorking();
    let done =
        host.hairpin("compare --json --link loopback --duration 3s --yes -- tcp:spin -- tcp:spin --knob tcp_autocorking=0");
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert_eq!(record["comparisons"].as_array().map(Vec::len), Some(1));
    assert_eq!((autocorking(), host.entries()), (before.clone(), 0));
    let record = host.json("sweep --link loopback --path tcp:spin --knob tcp_autocorking=as-is,0 --duration 3s --yes");
    assert_eq!(record["cells"].as_array().map(Vec::len), Some(2), "{record}");
    assert_eq!((autocorking(), host.entries()), (before, 0));
}

fn what_cannot_be_tried_is_said() {
    let host = Host::new();
    for (args, code, words) in [
        ("tune try --link veth --knob tcp_autocorking=0 --yes", 2, "namespaces of its own"),
        ("compare --link veth --yes -- tcp -- tcp --knob tcp_autocorking=0", 2, "namespaces of its own"),
        ("tune try --link veth", 2, "--all-safe"),
        ("tune try --link veth --knob tcp_autocork=0 --yes", 2, "did you mean tcp_autocorking"),
        ("tune try --link veth --knob tcp_autocorking=1 --yes", 2, "it is so already"),
        ("tune try --link veth --knob rx_usecs=0 --yes", 2, "-i IF"),
        ("tune try --link veth --knob rx_usecs=0 -i nosuch0 --yes", 2, "nosuch0"),
        ("tune try --link loopback --knob tcp_autocorking=0", 2, "--yes"),
        ("tune try --knob tcp_autocorking=0 --yes", 2, "say where to"),
        ("tune try --link veth --knob tcp_autocorking=0 --sizes 1,2 --yes", 2, "--sizes"),
        ("compare --link veth -- udp -- udp --knob mitigations=off", 2, "only reported"),
    ] {
        let done = host.hairpin(args);
        assert_eq!(done.code, Some(code), "{args}: {done:?}");
        assert!(done.err.contains(words), "{args}: {done:?}");
    }
    let done = home_of_nobody().as_nobody("tune try --link loopback --knob cpu_dma_latency_us=0 --path udp --yes");
    assert_eq!(done.code, Some(4), "{done:?}");
}
