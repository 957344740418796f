//! `hairpin tune try`, and settings switched by `compare` and `sweep`, on the real kernel: a demand on idle states, sysctls of a
//! network namespace. Whatever is changed is as before afterwards, and that is looked at.
//!
//! Each test runs in a network namespace of its own; the demand on idle states is the host's, and ends with its process.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::alone::{Ended, Part, Test};
use crate::support::{Done, Home, LIMIT, can, home_of_nobody, namespaces};
use hairpin_sys::netns;
use serde_json::Value;

pub const PART: Part = Part::new("tune_try", || tests(TESTS));
/// Effects that show only on cores that rest.
pub const OF_IDLE_STATES: Part = Part::new("idle_states", || tests(TESTS_OF_IDLE_STATES));

type Listed = (&'static str, fn(&str) -> Ended);
const TESTS_OF_IDLE_STATES: &[Listed] =
    &[("they_are_found_by_experiment_and_its_profile_is_one_that_apply_takes", |_| idle_states_are_found_and_applied())];
const TESTS: &[Listed] = &[
    ("all_that_is_safe_is_tried_and_put_back", |name| all_that_is_safe_is_tried_and_put_back(name).into()),
    ("killed_it_is_put_back_by_revert", |name| killed_it_is_put_back_by_revert(name).into()),
    ("interrupted_it_puts_everything_back", |name| interrupted_it_puts_everything_back(name).into()),
    ("compare_and_sweep_switch_settings", |name| compare_and_sweep_switch_settings(name).into()),
    ("values_of_others_are_left_and_cost_no_record", |name| values_of_others_are_left_and_cost_no_record(name).into()),
    ("rejects_experiments_that_cannot_run", |name| rejects_experiments_that_cannot_run(name).into()),
];
/// The sysctl that is tried: of this network namespace.
const AUTOCORKING: &str = "/proc/sys/net/ipv4/tcp_autocorking";
/// A sysctl with more than two values.
const TIMESTAMPS: &str = "/proc/sys/net/ipv4/tcp_timestamps";

fn tests(list: &[Listed]) -> Vec<Test> {
    let test = |(name, run): &Listed| {
        let run = *run;
        Test::new(*name, move |full| {
            if !can(full, namespaces(), "it takes root and the right to make a network namespace") {
                return Ended::Skipped(None);
            }
            netns::enter_new(false).expect("a network namespace");
            let before = said();
            let ran = run(full);
            assert_eq!(before, said(), "the host is not as before");
            ran
        })
    };
    list.iter().map(test).collect()
}

/// The values of all settings.
fn said() -> String {
    Home::new().json("tune list").to_string()
}

/// A home with a journal of its own.
struct Host(Home);

impl Host {
    fn new() -> Host {
        Host(Home::new())
    }

    fn start(&self, args: &str) -> crate::support::Running {
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

fn timestamps() -> String {
    fs::read_to_string(TIMESTAMPS).expect("the sysctl").trim().to_owned()
}

fn until_switched(before: &str) {
    let begun = Instant::now();
    while autocorking() == before {
        assert!(begun.elapsed() < LIMIT, "it is never on");
        sleep(Duration::from_millis(1));
    }
}

/// The ratio of p50 of a comparison; `None` where too few pairs of blocks were alike enough to tell.
fn ratio_of_p50(comparison: &Value) -> Option<f64> {
    let figures = comparison["figures"].as_array()?;
    figures.iter().find(|figure| figure["figure"] == "p50")?["ratio"].as_f64()
}

/// Share of time in deep idle states above which the wake-up from them is a sleeping path's largest cost.
const DEEP: f64 = 0.2;
/// Lengths in s of the experiments until one must have found the effect: others may use the cores during one, not during all.
const EXPERIMENTS: [u32; 3] = [4, 8, 8];

/// `tune try` of the demand on idle states, also written to `tuned.toml`; checks the rules that hold on any host.
fn demand_tried(host: &Host, seconds: u32) -> Value {
    let _ = fs::remove_file(host.0.file("tuned.toml"));
    let args = "--link veth --path udp:block --knob cpu_dma_latency_us=0 --yes -o tuned.toml";
    let record = host.json(&format!("tune try {args} --duration {seconds}s"));
    assert_eq!(
        (&record["schema"], &record["error"], &record["kept"]),
        (&"hairpin.tune-try/1".into(), &Value::Null, &false.into())
    );
    let path = &record["paths"][0];
    let comparison = &path["alone"]["comparisons"][0];
    let (ratio, idle) = (ratio_of_p50(comparison), &path["deep_idle"]);
    println!("tune_try: held off, p50 is {ratio:?} of what it was; deep idle {} -> {}", idle[0], idle[1]);
    let won = record["winners"] == serde_json::json!(["cpu_dma_latency_us=0"]);
    assert!(won || record["winners"] == serde_json::json!([]), "{record}");
    assert_eq!(won, comparison["verdict"] == "faster", "{comparison}");
    assert!(!won || ratio.is_some_and(|ratio| ratio < 1.0), "{comparison}");
    assert_eq!(won, host.0.file("tuned.toml").exists(), "a profile is what the winners are written to: {record}");
    assert_eq!(won, path["together"].is_object(), "winners are measured anew: {path}");
    if let (Some(before), Some(after)) = (idle[0].as_f64(), idle[1].as_f64())
        && before > DEEP
    {
        assert!(after < before / 2.0, "it is not held off: {idle}");
    }
    record
}

/// The first of some experiments that finds the winner. There is none if the cores of this host never rest, as where the guest
/// polls or others keep them busy.
fn winner(host: &Host) -> Result<Value, Ended> {
    let mut rested = 0;
    for seconds in EXPERIMENTS {
        let record = demand_tried(host, seconds);
        if record["winners"] != serde_json::json!([]) {
            return Ok(record);
        }
        let path = &record["paths"][0];
        let told = ratio_of_p50(&path["alone"]["comparisons"][0]).is_some();
        rested += usize::from(told && path["deep_idle"][0].as_f64().is_some_and(|before| before > DEEP));
    }
    let all = EXPERIMENTS.len();
    assert!(rested < all, "the cores were in deep idle states each time, and holding them off was never found faster");
    Err(Ended::Unshown("the cores of this host do not rest in deep idle states, or have other work"))
}

fn idle_states_are_found_and_applied() -> Ended {
    let host = Host::new();
    let record = match winner(&host) {
        Ok(record) => record,
        Err(none) => return none,
    };
    let path = &record["paths"][0];
    assert!(path["together"]["comparisons"][0]["verdict"].is_string(), "{path}");
    let profile = fs::read_to_string(host.0.file("tuned.toml")).expect("the profile");
    assert!(profile.contains("[evidence.cpu_dma_latency_us") && profile.contains("interval"), "{profile}");
    let applied = host.hairpin("tune apply tuned.toml --yes --while -- cat /dev/cpu_dma_latency");
    assert_eq!((applied.code, applied.out.as_bytes()), (Some(0), &[0_u8; 4][..]), "{applied:?}");
    Ended::Passed
}

fn all_that_is_safe_is_tried_and_put_back(_: &str) -> bool {
    let host = Host::new();
    let done = host.hairpin("tune try --link loopback --path udp:spin --all-safe --duration 3s --yes");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("tcp_autocorking=0") && done.out.contains("as it is"), "{done:?}");
    assert!(done.out.lines().all(|line| line.chars().count() <= 80), "{}", done.out);
    assert_eq!(host.entries(), 0, "nothing is left in the journal");
    true
}

fn killed_it_is_put_back_by_revert(_: &str) -> bool {
    let host = Host::new();
    let before = autocorking();
    let mut running = host.start("tune try --link loopback --path tcp:spin --knob tcp_autocorking=0 --duration 30s --yes");
    until_switched(&before);
    running.kill();
    assert_eq!(host.entries(), 1);
    let told = host.hairpin("paths");
    assert!(told.err.contains("a hairpin that was killed left settings of this host changed"), "{told:?}");
    let reverted = host.hairpin("tune revert");
    assert_eq!((reverted.code, autocorking(), host.entries()), (Some(0), before, 0), "{reverted:?}");
    true
}

fn interrupted_it_puts_everything_back(_: &str) -> bool {
    let host = Host::new();
    let before = autocorking();
    let running = host.start("tune try --link loopback --path tcp:block --knob tcp_autocorking=0 --duration 30s --yes --json");
    until_switched(&before);
    sleep(Duration::from_secs(1));
    running.signal("INT");
    let done = running.done();
    assert_eq!((done.code, autocorking(), host.entries()), (Some(0), before, 0), "{done:?}");
    assert_eq!(done.json()["interrupted"], true);
    true
}

fn compare_and_sweep_switch_settings(_: &str) -> bool {
    let host = Host::new();
    let before = autocorking();
    let done =
        host.hairpin("compare --json --link loopback --duration 500ms --yes -- tcp:block -- tcp:block --knob tcp_autocorking=0");
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert_eq!(record["comparisons"].as_array().map(Vec::len), Some(1));
    assert_eq!((autocorking(), host.entries()), (before.clone(), 0));
    let record = host.json("sweep --link loopback --path tcp:block --knob tcp_autocorking=as-is,0 --duration 500ms --yes");
    assert_eq!(record["cells"].as_array().map(Vec::len), Some(2), "{record}");
    assert_eq!((autocorking(), host.entries()), (before, 0));
    true
}

fn values_of_others_are_left_and_cost_no_record(_: &str) -> bool {
    let host = Host::new();
    let before = timestamps();
    for verb in [
        "tune try --link loopback --path tcp:spin --knob tcp_timestamps=0",
        "sweep --link loopback --path tcp:spin --knob tcp_timestamps=as-is,0",
    ] {
        let mut running = host.start(&format!("{verb} --duration 30s --yes --json"));
        // The setting is on once in each round, the first two of which do not count, and in a rehearsal.
        let (mut times, mut last) = (0, before.clone());
        while running.goes_on() {
            let now = timestamps();
            times += u32::from(now == "0" && last != "0");
            if times > 4 && now == "0" {
                fs::write(TIMESTAMPS, "2").expect("the sysctl");
            }
            last = now;
            sleep(Duration::from_millis(1));
        }
        let done = running.done();
        done.fails(1, &["not everything could be put back", "another program changed it since, to 2"]);
        let record = done.json();
        assert!(record["error"].as_str().is_some_and(|error| error.contains("another program changed it")), "{record}");
        assert!(done.err.contains("stored as"), "{done:?}");
        assert_eq!((timestamps().as_str(), host.entries()), ("2", 1), "{verb}");
        assert!(host.hairpin("paths").err.is_empty(), "it has ended, so it is no orphan");
        assert_eq!(host.hairpin("tune revert --force").code, Some(0));
        assert_eq!((timestamps(), host.entries()), (before.clone(), 0));
    }
    true
}

fn rejects_experiments_that_cannot_run(_: &str) -> bool {
    let host = Host::new();
    for (args, code, words) in [
        ("tune try --link veth --knob tcp_autocorking=0 --yes", 2, "namespaces of its own"),
        ("compare --link veth --yes -- tcp -- tcp --knob tcp_autocorking=0", 2, "namespaces of its own"),
        ("tune try --link veth", 2, "to be tried"),
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
    true
}
