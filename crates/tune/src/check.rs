//! The doctor: what stands in the way here, ordered by expected effect, each with what would fix it. Reads only.
//!
//! ```text
//!   every control with a value in the profile ── plan ──► a change is due ──► Finding, with its command
//!   facts that are made at boot, or have no value that is always right ──────► Finding, with what to do
//! ```
//! Effects are orders of magnitude from the references: what they are here, only an experiment says.

use std::collections::BTreeMap;

use hairpin_record::head::Label;
use hairpin_record::tune::{Finding, TuneCheck};
use hairpin_sys::host::Host;
use serde_json::Value;

use crate::change::{Change, Trouble};
use crate::control::{Control, Profile, controls};
use crate::plan::{PlanError, plan};
use crate::setting::Setting;
use crate::{KNOBS, Place, Reading};

/// What stands in the way on this host.
pub fn check(host: &dyn Host, place: &Place<'_>, profile: Profile) -> TuneCheck {
    let mut check = TuneCheck {
        label: Label::of::<TuneCheck>(),
        hostname: host.read("/proc/sys/kernel/hostname").unwrap_or_default(),
        interface: place.interface.map(str::to_owned),
        profile: profile.name().to_owned(),
        findings: Vec::new(),
        fine: Vec::new(),
        unread: BTreeMap::new(),
    };
    for control in controls() {
        let Some(Ok(setting)) = control.of_profile(profile).map(|value| Setting::new(control.name, value)) else {
            continue;
        };
        match plan(host, place, std::slice::from_ref(&setting)) {
            Ok(changes) => look(&mut check, host, place, &setting, &changes),
            Err(PlanError::Unread(Trouble::Gone { .. })) => {}
            Err(PlanError::Unread(why)) => {
                check.unread.insert(control.name.to_owned(), why.to_string());
            }
            Err(_) => {} // no such thing here, or no interface was named
        }
    }
    if profile == Profile::Latency {
        check.findings.extend(FACTS.iter().filter_map(|look| look(host, place)));
        join_idle(&mut check);
    }
    check.findings.sort_by_key(|finding| std::cmp::Reverse(finding.stake_ns));
    check.fine.sort_unstable();
    check
}

/// Whether a setting of the profile is due.
fn look(check: &mut TuneCheck, host: &dyn Host, place: &Place<'_>, setting: &Setting, changes: &[Change]) {
    let control = setting.control;
    // A demand is always made anew; what counts is whether the present one is as strict.
    let held = changes.first().filter(|change| change.address.is_held());
    let strict = held.is_some_and(|change| change.from.parse::<i64>().ok() <= change.to.parse().ok());
    let Some(first) = changes.first().filter(|_| !strict) else {
        return check.fine.push(control.name.to_owned());
    };
    let places = changes.len();
    let now = if control.name == "idle_states" {
        let (verb, longer) = if setting.value == "all" {
            ("are disabled", String::new())
        } else {
            ("may be entered", format!(" that take longer than {} us to leave", setting.value))
        };
        format!("{places} idle states of the cores {verb}{longer}")
    } else if held.is_some() && first.from == "2000000000" {
        "nobody demands short wake-ups".to_owned()
    } else if places > 1 && changes.iter().any(|change| change.from != first.from) {
        format!("differs over {places} places")
    } else {
        shown(control, &first.from)
    };
    let interface = place.interface.filter(|_| control.is_of_interface()).map(|name| format!(" -i {name}")).unwrap_or_default();
    let tail = if control.is_held() { " --while -- COMMAND" } else { "" };
    let wanted = control.of_profile(profile_of(check)).unwrap_or_default();
    check.findings.push(Finding {
        name: control.name.to_owned(),
        now,
        better: if control.is_held() { format!("a demand of {wanted} us") } else { wanted.to_owned() },
        effect: control.effect.to_owned(),
        stake_ns: stake(control, host, place),
        cost: control.cost.to_owned(),
        fix: format!("sudo hairpin tune apply {}={wanted}{interface}{tail}", control.name),
        or: None,
        at_boot: false,
    });
}

fn profile_of(check: &TuneCheck) -> Profile {
    Profile::ALL.into_iter().find(|profile| profile.name() == check.profile).unwrap_or(Profile::Latency)
}

/// 1 and 0 of a switch in words.
fn shown(control: &Control, value: &str) -> String {
    match (control.values, value) {
        (crate::control::Values::Flag, "1") => "on".to_owned(),
        (crate::control::Values::Flag, "0") => "off".to_owned(),
        _ => value.to_owned(),
    }
}

/// What the way out of idle costs is known better than in general: from the driver's table on bare metal, by the hypervisor's way elsewhere.
fn stake(control: &Control, host: &dyn Host, place: &Place<'_>) -> u64 {
    let idle = matches!(control.name, "cpu_dma_latency_us" | "idle_states");
    if idle && !is_virtual(host) {
        let deepest = deepest_state_us(host, place).unwrap_or(0);
        return (deepest * 1000).max(1000);
    }
    // A rate that is above 0 is lost once on each side, as far as it goes.
    if control.name == "rx_usecs"
        && let Some(us) =
            place.interface.and_then(|name| host.attribute(name, hairpin_sys::device::Attribute::RxUsecs).ok().flatten())
        && let Ok(us) = us.parse::<u64>()
    {
        return us.saturating_mul(1000);
    }
    control.stake_ns
}

fn is_virtual(host: &dyn Host) -> bool {
    matches!(fact(host, &Place::default(), "hypervisor"), Some(Value::String(name)) if name != "none")
}

/// The exit latency of the deepest state that may be entered.
fn deepest_state_us(host: &dyn Host, place: &Place<'_>) -> Option<u64> {
    let cpus = crate::reading::meant_cpus(host, place).ok()?;
    let states = fact(host, &Place { cpus: cpus.get(..1)?, interface: None }, "idle_states")?;
    let enabled = states.as_array()?.iter().filter(|state| state["disabled"] == false);
    enabled.filter_map(|state| state["latency_us"].as_u64()).max()
}

fn fact(host: &dyn Host, place: &Place<'_>, name: &str) -> Option<Value> {
    match KNOBS.iter().find(|knob| knob.name() == name)?.probe(host, place) {
        Reading::Is(value) => Some(value),
        _ => None,
    }
}

/// Two ways to the same end are one finding: a demand while a command runs, and disabled states beside it.
fn join_idle(check: &mut TuneCheck) {
    let name_of = |name: &str, check: &TuneCheck| check.findings.iter().position(|finding| finding.name == name);
    let ways = ["cpu_dma_latency_us", "idle_states"];
    let present: Vec<&str> = ways.into_iter().filter(|name| name_of(name, check).is_some()).collect();
    let enough = ways.iter().any(|name| check.fine.iter().any(|fine| fine == name));
    let Some(first) = present.first().filter(|_| !enough) else {
        return check.findings.retain(|finding| !ways.contains(&finding.name.as_str()));
    };
    let other = present.get(1).and_then(|name| name_of(name, check)).map(|at| check.findings[at].fix.clone());
    if let Some(at) = name_of(first, check) {
        check.findings[at].or = other.map(|fix| format!("{fix} (until it is reverted)"));
    }
    check.findings.retain(|finding| finding.name == *first || !ways.contains(&finding.name.as_str()));
}

/// Looks at a fact that is made at boot, or has no value that is always right.
type Look = fn(&dyn Host, &Place<'_>) -> Option<Finding>;

const FACTS: &[Look] = &[clocksource, isolation, tick, mitigations, power_of_transparent_hugepage];

fn clocksource(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = fact(host, place, "clocksource")?;
    let now =
        now.as_str().filter(|now| !matches!(*now, "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page"))?;
    let can = fact(host, place, "available_clocksources")?.as_array()?.iter().any(|one| one == "tsc");
    let control = crate::control::control("clocksource")?;
    Some(Finding {
        name: "clocksource".to_owned(),
        now: now.to_owned(),
        better: "tsc".to_owned(),
        effect: control.effect.to_owned(),
        stake_ns: control.stake_ns,
        cost: control.cost.to_owned(),
        fix: if can {
            "sudo hairpin tune apply clocksource=tsc".to_owned()
        } else {
            "look into dmesg why the kernel gave the TSC up; tsc=reliable on the kernel's command line insists on it".to_owned()
        },
        or: None,
        at_boot: !can,
    })
}

fn at_boot(name: &str, now: String, better: &str, effect: &str, cost: &str, fix: impl Into<String>) -> Finding {
    Finding {
        name: name.to_owned(),
        now,
        better: better.to_owned(),
        effect: effect.to_owned(),
        stake_ns: 0,
        cost: cost.to_owned(),
        fix: fix.into(),
        or: None,
        at_boot: true,
    }
}

fn isolation(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = fact(host, place, "isolated_cpus")?;
    let partition = fact(host, place, "cpuset_partition");
    // Without a boot it goes where cgroup v2 has cpuset.
    let or =
        if partition.is_some() { ", or without a boot: hairpin tune apply cpuset_partition=LIST --while -- COMMAND" } else { "" };
    let none = now == "" && partition.is_none_or(|cpus| cpus == "none");
    none.then(|| {
        at_boot(
            "isolated_cpus",
            "no CPU is kept free of other processes".to_owned(),
            "the measured CPUs isolated",
            "Other processes and the scheduler's balancing stay off them: the tail gets shorter.",
            "These CPUs are lost to everything else.",
            format!("isolcpus=LIST on the kernel's command line{or}"),
        )
    })
}

fn tick(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = fact(host, place, "nohz_full_cpus")?;
    let hz = fact(host, place, "timer_hz").map(|hz| format!(", {hz} times a second")).unwrap_or_default();
    (now == "").then(|| {
        at_boot(
            "nohz_full_cpus",
            format!("the tick interrupts every CPU that is busy{hz}"),
            "no tick on the measured CPUs",
            "A thread that spins alone on its CPU is not interrupted by the tick: a few us each time.",
            "Each system call gets a little longer on those CPUs.",
            "nohz_full=LIST rcu_nocbs=LIST on the kernel's command line",
        )
    })
}

fn mitigations(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = fact(host, place, "mitigations")?;
    let on =
        now.as_object()?.values().filter(|state| state.as_str().is_some_and(|state| state.starts_with("Mitigation"))).count();
    (on > 0).then(|| Finding {
        stake_ns: 500,
        ..at_boot(
            "mitigations",
            format!("{on} mitigations of CPU flaws are on"),
            "a decision of yours",
            "System calls and interrupts take longer by some 100 ns each on affected CPUs.",
            "Without them other programs and guests may read this host's memory.",
            "mitigations=off on the kernel's command line, only where nothing foreign ever runs",
        )
    })
}

fn power_of_transparent_hugepage(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = fact(host, place, "transparent_hugepage")?;
    let control = crate::control::control("transparent_hugepage")?;
    (now == "always").then(|| Finding {
        name: "transparent_hugepage".to_owned(),
        now: "always".to_owned(),
        better: "madvise".to_owned(),
        effect: control.effect.to_owned(),
        stake_ns: control.stake_ns,
        cost: control.cost.to_owned(),
        fix: "sudo hairpin tune apply transparent_hugepage=madvise".to_owned(),
        or: None,
        at_boot: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::device::Attribute;
    use hairpin_sys::host::FakeHost;

    fn names(check: &TuneCheck) -> Vec<&str> {
        check.findings.iter().map(|finding| finding.name.as_str()).collect()
    }

    fn guest(root: &std::path::Path) -> FakeHost {
        let mut host = FakeHost::at(root)
            .with("/proc/cpuinfo", "flags\t\t: fpu hypervisor\n")
            .with("/sys/class/dmi/id/sys_vendor", "QEMU\n")
            .with("/sys/devices/system/cpu/online", "0-1\n")
            .with("/proc/sys/net/ipv4/tcp_autocorking", "1\n")
            .with("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0\n")
            .with("/dev/cpu_dma_latency", 2_000_000_000_i32.to_ne_bytes());
        for (state, latency) in [(0, 0), (1, 1)] {
            for cpu in 0..2 {
                let at = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
                host = host
                    .with(&format!("{at}/name"), "x\n")
                    .with(&format!("{at}/latency"), format!("{latency}\n"))
                    .with(&format!("{at}/disable"), "0\n");
            }
        }
        host
    }

    #[test]
    fn idle_states_come_first_and_once() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path());
        let found = check(&host, &Place::default(), Profile::Latency);
        assert_eq!(names(&found), ["cpu_dma_latency_us", "tcp_autocorking"]);
        assert_eq!(found.findings[0].fix, "sudo hairpin tune apply cpu_dma_latency_us=0 --while -- COMMAND");
        assert!(found.findings[0].or.as_deref().is_some_and(|or| or.contains("idle_states=0")));
        assert_eq!(found.fine, ["tcp_slow_start_after_idle"]);
    }

    #[test]
    fn without_privilege_the_states_still_tell() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path()).with_error("/dev/cpu_dma_latency", libc::EACCES);
        let found = check(&host, &Place::default(), Profile::Latency);
        assert_eq!(names(&found)[0], "idle_states");
        assert!(found.unread["cpu_dma_latency_us"].contains("run as root"));
    }

    #[test]
    fn a_demand_that_somebody_makes_is_enough() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path());
        let _held = host.hold("/dev/cpu_dma_latency", &0_i32.to_ne_bytes()).unwrap();
        let found = check(&host, &Place::default(), Profile::Latency);
        assert_eq!(names(&found), ["tcp_autocorking"]);
        assert!(found.fine.contains(&"cpu_dma_latency_us".to_owned()));
    }

    #[test]
    fn an_interface_is_looked_at_where_one_is_named_and_counts_by_its_own_delay() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path())
            .with_directory("/sys/class/net/eth0")
            .with_attribute("eth0", Attribute::RxUsecs, "128")
            .with_attribute("eth0", Attribute::AdaptiveRx, "on");
        let place = Place { cpus: &[], interface: Some("eth0") };
        let found = check(&host, &place, Profile::Latency);
        assert_eq!(names(&found), ["rx_usecs", "cpu_dma_latency_us", "adaptive_rx", "tcp_autocorking"]);
        assert_eq!(found.findings[0].fix, "sudo hairpin tune apply rx_usecs=0 -i eth0");
        assert!(!names(&check(&host, &Place::default(), Profile::Latency)).contains(&"rx_usecs"));
    }

    #[test]
    fn other_profiles_want_other_things() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path()).with("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1\n");
        let found = check(&host, &Place::default(), Profile::Power);
        assert_eq!(names(&found), ["idle_states"]);
        assert_eq!(found.findings[0].fix, "sudo hairpin tune apply idle_states=all");
    }

    #[test]
    fn a_slow_clock_and_what_is_made_at_boot_are_said() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
            .with("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet acpi_pm\n")
            .with("/sys/devices/system/cpu/isolated", "\n")
            .with("/sys/devices/system/cpu/nohz_full", "(null)\n")
            .with("/sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: Retpolines\n")
            .with("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
        let found = check(&host, &Place::default(), Profile::Latency);
        assert_eq!(names(&found), ["clocksource", "mitigations", "isolated_cpus", "nohz_full_cpus", "transparent_hugepage"]);
        assert!(found.findings[..4].iter().all(|finding| finding.at_boot));
    }
}
