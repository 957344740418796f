//! Cores, turns, folds and warnings, without a spinning thread.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hairpin_record::noise::Stall;
use hairpin_sys::clock::{AnyClock, MonotonicRaw, Ticks};
use hairpin_sys::host::FakeHost;
use hairpin_trace::causes::{Kind, Part};
use hairpin_tune::activity::Activity;

use super::core::Core;
use super::look::{smi_count, split};
use super::spin::Spun;
use super::*;

fn plan(cpus: Option<&[u32]>, ms: u64) -> NoisePlan {
    NoisePlan { cpus: cpus.map(<[u32]>::to_vec), duration: Nanos::from_millis(ms), command: Vec::new() }
}

#[test]
fn the_cores_are_those_named_or_the_first_allowed_ones() {
    let allowed: Vec<u32> = (0..100).collect();
    assert_eq!(cores_of(&plan(None, 1_000), &allowed, &allowed).unwrap(), allowed[..UNNAMED]);
    assert_eq!(cores_of(&plan(Some(&[3, 7]), 1_000), &allowed, &allowed).unwrap(), [3, 7]);
    let error = cores_of(&plan(Some(&[1, 9]), 1_000), &[0, 1, 3], &[0, 1, 3]).unwrap_err();
    assert_eq!(error.to_string(), "CPU 9 does not exist or is not allowed to this process: choose from 0,1,3 (--cpu LIST)");
    assert_eq!(error.blame(), Blame::Usage);
    let error = cores_of(&plan(Some(&allowed), 1_000), &allowed, &allowed).unwrap_err();
    assert!(error.to_string().starts_with("--cpu names 100 CPUs") && error.blame() == Blame::Usage, "{error}");
    let error = cores_of(&plan(None, 0), &allowed, &allowed).unwrap_err();
    assert!(error.to_string().contains("--duration 0") && error.blame() == Blame::Usage, "{error}");
}

#[test]
fn blocks_are_short_for_any_duration() {
    for (ms, rounds) in [(100, 1), (1_000, 1), (3_500, 4), (1 << 41, 1 << 31)] {
        let (found, block) = split(Duration::from_millis(ms));
        assert!(found.abs_diff(rounds) <= rounds / 10 && block <= Duration::from_millis(500), "{ms} ms: {found} of {block:?}");
    }
}

#[test]
fn isolated_cores_are_looked_at_too_if_they_can_be_pinned_to() {
    let directory = tempfile::tempdir().unwrap();
    let host = FakeHost::at(directory.path()).with("/sys/devices/system/cpu/isolated", "2-3,7\n");
    let isolated = isolated(&host);
    // Another cpuset has CPU 7.
    let choices = [0, 1, 2, 3, 4];
    let cores = unnamed(&[0, 1], &isolated, &choices);
    assert_eq!(cores, [2, 3, 0, 1]);
    assert_eq!(cores_of(&plan(None, 1_000), &cores, &choices).unwrap(), cores);
    assert_eq!(cores_of(&plan(Some(&[3]), 1_000), &cores, &choices).unwrap(), [3]);
    assert!(cores_of(&plan(Some(&[7]), 1_000), &cores, &choices).is_err());
}

/// A host of `cpus` CPUs, in pairs of siblings n and n + `apart`.
fn with_siblings(directory: &Path, cpus: u32, apart: u32) -> FakeHost {
    let list = |cpu: u32| {
        let first = cpu / (2 * apart) * (2 * apart) + cpu % apart;
        (format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), format!("{first},{}\n", first + apart))
    };
    (0..cpus).map(list).fold(FakeHost::at(directory), |host, (file, list)| host.with(&file, list))
}

#[test]
fn siblings_spin_in_different_turns() {
    let directory = tempfile::tempdir().unwrap();
    let neighbours = with_siblings(directory.path(), 8, 1);
    assert_eq!(in_turns(&neighbours, &[0, 1, 2, 3, 4, 5, 6, 7], 4), [vec![0, 2, 4, 6], vec![1, 3, 5, 7]]);
    assert_eq!(in_turns(&neighbours, &[0, 1], 1), [[0], [1]]);
    // However many could spin at once.
    assert_eq!(in_turns(&neighbours, &[0, 2, 4, 5], 2), [[0, 4], [2, 5]]);
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(in_turns(&with_siblings(directory.path(), 8, 4), &[0, 4], 4), [[0], [4]]);
    let directory = tempfile::tempdir().unwrap();
    let of_sixteen = in_turns(&with_siblings(directory.path(), 16, 8), &[0, 1, 2, 3, 8, 9, 10, 11], 8);
    assert_eq!(of_sixteen, [[0, 1, 2, 3], [8, 9, 10, 11]]);
    // Turns are alike in size, and a host that tells nothing is taken as it comes.
    let elsewhere = tempfile::tempdir().unwrap();
    let silent = FakeHost::at(elsewhere.path());
    assert_eq!(in_turns(&silent, &[0, 1, 2, 3, 4, 5], 4), [[0, 2, 4], [1, 3, 5]]);
    assert_eq!(in_turns(&silent, &[5], 4), [[5]]);
}

/// A block of 1 ms with stalls of these lengths, in ns.
fn spun(lengths: &[u64]) -> Spun {
    let mut spun = Spun::new();
    (spun.began, spun.ended, spun.turns) = (Ticks(1_000), Ticks(1_001_000), 10_000);
    spun.stalls.extend(lengths.iter().enumerate().map(|(at, ns)| {
        let from = Ticks(1_000 + 100_000 * at as u64);
        (from, from.plus(*ns))
    }));
    spun
}

#[test]
fn figures_are_of_blocks_without_hooks_and_causes_of_those_with() {
    let clock = AnyClock::Raw(MonotonicRaw);
    let mut core = Core::new(3);
    core.add(&spun(&[1_000, 2_000, 40_000]), &clock, 0);
    core.add(&spun(&[150_000]), &clock, 5_000_000);
    let part = |kind, who: &str, ns: f64| Part { kind, who: who.into(), ns };
    let parts = [part(Kind::Timer, "", 2_500.0), part(Kind::Preempted, "stress (pid 9)", 90_000.0)];
    core.add_traced(&spun(&[2_500, 90_000]), &parts, &clock, 9_000_000);
    for (steal_ns, count) in [(10_000_000, 250), (0, 251)] {
        let interrupts = Some(BTreeMap::from([("LOC".to_owned(), count)]));
        core.count(Activity { steal_ns: Some(steal_ns), interrupts, ..Activity::default() });
    }
    let found = core.finish(None);
    assert_eq!((found.cpu, found.duration_ns, found.traced_ns), (3, 2_000_000, 1_000_000));
    assert_eq!((found.steal_ns, &found.interrupts), (Some(10_000_000), &BTreeMap::from([("LOC".to_owned(), 501)])));
    assert_eq!((found.above_1us, found.above_10us, found.above_100us, found.lost_ns), (3, 2, 1, 193_000));
    assert_eq!((found.stall_ns.count, found.stall_ns.max, found.traced_stall_ns.count), (4, Some(150_000), 2));
    assert_eq!(found.turn_ns, 90.4);
    assert!((found.lost_share() - 0.0965).abs() < 1e-9, "{}", found.lost_share());
    let causes: Vec<_> = found.causes.iter().map(|cause| (cause.cause.as_str(), cause.who.as_str(), cause.lost_ns)).collect();
    assert_eq!(causes, [("preempted", "stress (pid 9)", 90_000), ("timer", "", 2_500)]);
    let longest: Vec<_> = found.longest.iter().map(|stall| (stall.at_ns, stall.ns, stall.cause.as_str())).collect();
    assert_eq!(longest[..3], [(5_000_000, 150_000, ""), (9_100_000, 90_000, "preempted"), (200_000, 40_000, "")]);
}

#[test]
fn without_hooks_each_stall_says_why_its_cause_is_unknown() {
    let mut core = Core::new(0);
    // A counter that cannot be read once is not known.
    core.count(Activity::default());
    core.add(&spun(&[3_000]), &AnyClock::Raw(MonotonicRaw), 0);
    let found = core.finish(Some("no rights: cannot load"));
    assert_eq!((found.longest[0].cause.as_str(), found.longest[0].who.as_str()), ("unknown", "no rights: cannot load"));
    assert!(found.causes.is_empty() && found.steal_ns.is_none());
}

#[test]
fn only_the_longest_stalls_are_kept() {
    let mut core = Core::new(0);
    for ns in [5, 9, 7, 2].into_iter().chain(10..40) {
        core.keep(Stall { ns, ..Stall::default() });
    }
    let kept: Vec<u64> = core.noise.longest.iter().map(|stall| stall.ns).collect();
    assert_eq!(kept, (24..40).rev().collect::<Vec<u64>>());
}

#[test]
fn a_guest_whose_hypervisor_reports_no_steal_is_told_so() {
    let codes = |stat: &str, hypervisor: &str| {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with("/proc/stat", stat);
        let mut noise = body();
        noise.host.facts.insert("hypervisor".into(), hypervisor.into());
        warnings(&host, &noise, None, 0, &[], 0).into_iter().map(|note| note.code).collect::<Vec<_>>()
    };
    let (none, some) = ("cpu  29 3 7 6 9 0 1 0 0 0\n", "cpu  29 3 7 6 9 0 1 44 0 0\n");
    assert_eq!(codes(none, "KVM"), ["steal-not-reported"]);
    assert!(codes(some, "KVM").is_empty() && codes(none, "none").is_empty() && codes("", "KVM").is_empty());
}

#[test]
fn other_warnings_name_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let host = FakeHost::at(directory.path());
    let mut noise = body();
    noise.threshold_ns = 16_000_000;
    let found = warnings(&host, &noise, None, 40 - UNNAMED, &["local_timer_entry"], 5);
    let codes: Vec<&str> = found.iter().map(|note| note.code.as_str()).collect();
    assert_eq!(codes, ["not-all-cores", "coarse-clock", "hooks-missing", "events-lost"]);
    assert!(found[0].message.contains("of 40 CPUs") && found[2].message.contains("local_timer_entry"), "{found:?}");
    assert_eq!(warnings(&host, &body(), Some(4), 0, &[], 0)[0].code, "one-core");
}

#[test]
fn system_management_interrupts_are_counted_where_the_counter_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut registers = vec![0_u8; 0x34];
    registers.extend(7_u64.to_ne_bytes());
    let text = String::from_utf8(registers).unwrap();
    let host = FakeHost::at(directory.path()).with("/dev/cpu/1/msr", text).with("/dev/cpu/2/msr", "short");
    assert_eq!([1, 2, 3].map(|cpu| smi_count(&host, cpu)), [Some(7), None, None]);
}

fn body() -> NoiseBody {
    NoiseBody {
        host: Default::default(),
        clock: clock_facts(&MonotonicRaw),
        threshold_ns: 1_000,
        at_once: 1,
        no_causes: None,
        cores: Vec::new(),
        pairs: Vec::new(),
        choice: None,
        why: String::new(),
        warnings: Vec::new(),
    }
}
