//! `tune check`: the settings of this host that lengthen round trips, ordered by expected effect, each with
//! the command that fixes it. Reads only.
//!
//! ```text
//!   every knob with a value in the profile ── plan ──► a change is due ──► Finding, with its command
//!   every knob with a finding of its own   ──────────────────────────────► Finding, with advice
//! ```
//! Effects are orders of magnitude from the references: only an experiment tells the effects on this host.

use std::collections::BTreeMap;

use hairpin_record::head::Label;
use hairpin_record::tune::{Finding, TuneCheck};
use hairpin_sys::host::Host;
use hairpin_units::Arrange;

use crate::change::{Change, Trouble};
use crate::cpulist;
use crate::knob::{Profile, Scope};
use crate::knobs::all;
use crate::place::Place;
use crate::plan::{PlanError, plan};
use crate::setting::Setting;
use crate::values::Values;

/// Compares the host with a profile.
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
    let wanted = all().filter_map(|knob| Some((knob, knob.change.as_ref()?.of_profile(profile)?)));
    for (knob, value) in wanted {
        let Ok(setting) = Setting::new(knob.name, value) else { continue };
        let gains_nothing = || setting.control.stake_here.and_then(|stake| stake(host, place)) == Some(0);
        match plan(host, place, std::slice::from_ref(&setting)) {
            Ok(changes) => match finding(host, place, &setting, value, &changes) {
                Some(_) if gains_nothing() => {}
                Some(finding) => check.findings.push(finding),
                None => check.fine.push(knob.name.to_owned()),
            },
            Err(PlanError::Unread(Trouble::Gone { .. })) => {}
            Err(PlanError::Unread(why)) => {
                check.unread.insert(knob.name.to_owned(), why.to_string());
            }
            Err(_) => {} // this host has no such setting, or no interface was named
        }
    }
    if profile == Profile::Latency {
        check.findings.extend(all().filter_map(|knob| knob.finding?(host, place)));
    }
    join_pairs(&mut check);
    check.findings.arrange_by_key(|finding| std::cmp::Reverse(finding.stake_ns));
    check.fine.arrange_by(Ord::cmp);
    check
}

/// The finding for a setting; `wanted` is the profile's value. `None` if nothing has to change.
fn finding(host: &dyn Host, place: &Place<'_>, setting: &Setting, wanted: &str, changes: &[Change]) -> Option<Finding> {
    let Setting { knob, control, value, .. } = setting;
    let first = changes.first()?;
    // A demand is always made anew: the question is whether the present one is as strict.
    if control.is_held() && first.from.parse::<i64>().ok() <= first.to.parse().ok() {
        return None;
    }
    let places = changes.len();
    let now = control.state.and_then(|state| state(value, changes)).unwrap_or_else(|| {
        if changes.iter().any(|change| change.from != first.from) {
            format!("differs over {places} places")
        } else {
            match (control.values, first.from.as_str()) {
                (Values::Flag, "1") => "on".to_owned(),
                (Values::Flag, "0") => "off".to_owned(),
                (_, from) => first.address.shown(from),
            }
        }
    });
    let interface = place.interface.filter(|_| control.is_of_interface()).map(|name| format!(" -i {name}")).unwrap_or_default();
    let of_cpus = control.scope == Scope::Cpus && !place.cpus.is_empty();
    let cpus = if of_cpus { format!(" --cpus {}", cpulist::format(&cpulist::distinct(place.cpus))) } else { String::new() };
    let tail = if control.is_held() { " --while -- COMMAND" } else { "" };
    Some(Finding {
        name: knob.name.to_owned(),
        now,
        better: if control.is_held() { format!("a demand of {wanted} us") } else { wanted.to_owned() },
        effect: control.effect.to_owned(),
        stake_ns: control.stake_here.and_then(|stake| stake(host, place)).unwrap_or(control.stake_ns),
        cost: control.cost.to_owned(),
        fix: format!("sudo hairpin tune apply {}={wanted}{interface}{cpus}{tail}", knob.name),
        or: None,
        at_boot: false,
    })
}

/// Two settings with the same effect make one finding: the demand that a process holds, and the lasting setting beside it. If
/// either has the wanted value, there is no finding.
fn join_pairs(check: &mut TuneCheck) {
    for lasting in all() {
        let Some(held) = lasting.change.as_ref().and_then(|change| change.while_held) else { continue };
        let names = [held.name, lasting.name];
        let find = |name: &str| check.findings.iter().position(|finding| finding.name == name);
        let enough = check.fine.iter().any(|fine| names.contains(&fine.as_str()));
        match (find(held.name), find(lasting.name)) {
            _ if enough => check.findings.retain(|finding| !names.contains(&finding.name.as_str())),
            (Some(first), Some(second)) => {
                let other = check.findings.remove(second);
                let first = if first > second { first - 1 } else { first };
                check.findings[first].or = Some(format!("{} (until it is reverted)", other.fix));
            }
            _ => {}
        }
    }
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
    fn no_finding_without_a_cpuidle_driver() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/proc/cpuinfo", "flags\t\t: fpu hypervisor\n")
            .with("/sys/devices/system/cpu/online", "0-1\n")
            .with("/sys/devices/system/cpu/cpuidle/current_driver", "none\n")
            .with("/proc/sys/net/ipv4/tcp_autocorking", "1\n")
            .with("/dev/cpu_dma_latency", 2_000_000_000_i32.to_ne_bytes());
        let found = check(&host, &Place::default(), Profile::Latency);
        assert_eq!((names(&found), found.fine.len()), (vec!["tcp_autocorking"], 0));
    }

    #[test]
    fn without_privilege_idle_states_are_still_found() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path()).with_error("/dev/cpu_dma_latency", libc::EACCES);
        let found = check(&host, &Place::default(), Profile::Latency);
        assert_eq!(names(&found)[0], "idle_states");
        assert!(found.unread["cpu_dma_latency_us"].contains("run as root"));
    }

    #[test]
    fn a_demand_that_a_process_holds_leaves_no_finding() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path());
        let _held = host.hold("/dev/cpu_dma_latency", &0_i32.to_ne_bytes()).unwrap();
        let found = check(&host, &Place::default(), Profile::Latency);
        assert_eq!(names(&found), ["tcp_autocorking"]);
        assert!(found.fine.contains(&"cpu_dma_latency_us".to_owned()));
    }

    #[test]
    fn a_named_interface_is_checked_and_ranks_by_its_own_delay() {
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
    fn findings_depend_on_the_profile() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path()).with("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1\n");
        let found = check(&host, &Place::default(), Profile::Power);
        assert_eq!(names(&found), ["idle_states"]);
        assert_eq!(found.findings[0].fix, "sudo hairpin tune apply idle_states=all");
    }

    #[test]
    fn the_fix_names_the_checked_cpus() {
        let directory = tempfile::tempdir().unwrap();
        let host = guest(directory.path()).with_error("/dev/cpu_dma_latency", libc::EACCES);
        let found = check(&host, &Place { cpus: &[1], interface: None }, Profile::Latency);
        assert_eq!(found.findings[0].fix, "sudo hairpin tune apply idle_states=0 --cpus 1");
        assert_eq!(found.findings[1].fix, "sudo hairpin tune apply tcp_autocorking=off");
    }

    #[test]
    fn the_present_value_reads_as_in_the_list() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/sys/devices/system/cpu/online", "0\n")
            .with("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")
            .with("/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", "n/a\n")
            .with("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000003\n")
            .with_device("eth0");
        let place = Place { cpus: &[], interface: Some("eth0") };
        let now = |profile, name: &str| {
            let found = check(&host, &place, profile);
            found.findings.into_iter().find(|finding| finding.name == name).map(|finding| (finding.now, finding.better))
        };
        let said = |now: &str, better: &str| Some((now.to_owned(), better.to_owned()));
        assert_eq!(now(Profile::Power, "turbo"), said("on", "off"));
        assert_eq!(now(Profile::Throughput, "turbo"), None);
        assert_eq!(now(Profile::Power, "resume_latency_us"), said("0", "-1"));
        assert_eq!(now(Profile::Latency, "rps_cpus"), said("0-1", "none"));
    }

    #[test]
    fn reports_a_slow_clock_and_boot_settings() {
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
