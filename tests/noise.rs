//! `hairpin check --host`: a competitor that is named, the pair of cores to take, what is said without rights, and an early end.

use std::thread::sleep;
use std::time::Duration;

use hairpin_sys::thread::allowed_cpus;
use serde_json::Value;

use crate::explain_detectors::Noise;
use crate::support::alone::{self, Listed, Part};
use crate::support::{HAIRPIN, Home, can, home_of_nobody, root};

pub const PART: Part = Part::new("noise", || alone::listed(TESTS));

const TESTS: &[Listed] = &[
    ("a_competitor_is_named", a_competitor_is_named),
    ("two_cores_have_a_distance_and_are_the_pair_to_take", two_cores_have_a_distance_and_are_the_pair_to_take),
    ("without_rights_stalls_are_counted_all_the_same", without_rights_stalls_are_counted_all_the_same),
    ("ctrl_c_keeps_what_was_seen", ctrl_c_keeps_what_was_seen),
];

/// Others on this host may have the core too: the competitor is looked for up to this many times.
const TRIES: u32 = 3;

fn list(of: &Value) -> &[Value] {
    of.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The stalls above 100 us that hooks saw among the longest, and how many of them this thread caused.
fn named(record: &Value, who: &str) -> (usize, usize) {
    let long = |stall: &&Value| stall["ns"].as_u64().is_some_and(|ns| ns > 100_000) && stall["cause"] != "";
    let stalls: Vec<&Value> = list(&record["cores"][0]["longest"]).iter().filter(long).collect();
    let of = stalls.iter().filter(|stall| stall["cause"] == "preempted" && stall["who"] == who).count();
    (stalls.len(), of)
}

/// 3 ms of every 50 belong to a process that goes before the thread that spins.
fn a_competitor_is_named(name: &str) -> bool {
    if !can(name, root(), "hooks and SCHED_FIFO take root") {
        return false;
    }
    let cpu = allowed_cpus().expect("CPUs")[0];
    let competitor = Noise::now_and_then_on(cpu);
    competitor.is_this_program();
    let who = format!("{} (pid {})", competitor.name(), competitor.pid());
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let home = Home::new();
        // Behind the competitor, and ahead of all ordinary processes of this host, whose stalls are not this test's.
        let mut command = home.command("chrt");
        command.args(["-f", "50", HAIRPIN, "check", "--host", "--cpu", &cpu.to_string(), "--duration", "1s", "--json"]);
        let record = home.spawn(command).done().json();
        assert_eq!((&record["error"], &record["no_causes"]), (&Value::Null, &Value::Null), "{record}");
        let core = &record["cores"][0];
        // The competitor begins 10 times in half a second; the histogram of the other half has those stalls too.
        assert!(core["above_100us"].as_u64().is_some_and(|count| count >= 5), "{core}");
        assert!(core["lost_ns"].as_u64().is_some_and(|ns| ns > 15_000_000), "{core}");
        let cause = list(&core["causes"]).iter().find(|cause| cause["who"] == who.as_str());
        let (all, of) = named(&record, &who);
        seen.push(format!("{of} of {all}, {cause:?}"));
        if of >= 3 && 2 * of > all && cause.is_some_and(|cause| cause["count"].as_u64() >= Some(5)) {
            return true;
        }
    }
    panic!("{who} is not the cause of most stalls above 100 us: {seen:?}");
}

fn two_cores_have_a_distance_and_are_the_pair_to_take(name: &str) -> bool {
    let cpus = allowed_cpus().expect("CPUs");
    if !can(name, cpus.len() >= 2, "a pair takes two CPUs") {
        return false;
    }
    let two = &cpus[..2];
    let record = Home::new().json(&format!("check --host --cpu {},{} --duration 100ms", two[0], two[1]));
    let [pair] = list(&record["pairs"]) else { panic!("{record}") };
    assert_eq!(serde_json::json!([pair["client"], pair["server"]]), serde_json::json!(two), "{record}");
    assert!(pair["core_rtt_ns"].as_u64() > Some(0), "{pair}");
    assert_eq!(record["choice"], serde_json::json!(two), "{record}");
    true
}

fn without_rights_stalls_are_counted_all_the_same(name: &str) -> bool {
    if !can(name, root(), "to be somebody without rights takes root first") {
        return false;
    }
    let done = home_of_nobody().as_nobody("check --host --duration 100ms --no-store --json");
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    let why = record["no_causes"].as_str().expect("a reason");
    assert!(why.starts_with("no rights: ") && why.contains("CAP_BPF"), "{why}");
    assert!(!list(&record["cores"]).is_empty(), "{record}");
    for core in list(&record["cores"]) {
        assert!(core["duration_ns"].as_u64() >= Some(90_000_000) && core["traced_ns"] == 0, "{core}");
        let unknown = |stall: &Value| stall["cause"] == "unknown" && stall["who"] == why;
        assert!(list(&core["longest"]).iter().all(unknown) && list(&core["causes"]).is_empty(), "{core}");
    }
    true
}

fn ctrl_c_keeps_what_was_seen(_: &str) -> bool {
    let home = Home::new();
    let running = home.start("check --host --duration 60s --json");
    // Each core has had a block by then, unless this host is very busy: then there is nothing to keep.
    sleep(Duration::from_millis(1_500));
    running.signal("INT");
    let done = running.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert_eq!((&record["interrupted"], &record["error"]), (&true.into(), &Value::Null), "{record}");
    assert!(!list(&record["cores"]).is_empty() && list(&record["pairs"]).is_empty(), "{record}");
    let shown = home.hairpin("runs show latest").out;
    assert!(shown.contains("Incomplete") && shown.contains("ended early by the user"), "{shown}");
    true
}
