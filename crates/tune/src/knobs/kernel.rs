//! The kernel: release, command line, preemption, tick, mitigations.

use hairpin_record::tune::Finding;
use hairpin_sys::host::Host;
use serde_json::{Map, Value};

use crate::knob::{Knob, at_boot};
use crate::place::Place;
use crate::read::Read;
use crate::reading::{flag, parenthesized, present, text};

const OSRELEASE: &str = "/proc/sys/kernel/osrelease";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

pub(crate) static RELEASE: Knob = Knob {
    name: "kernel_release",
    summary: "Release of the running kernel, as `uname -r` prints it",
    read: Read::Host(OSRELEASE, text),
    why: "Scheduler, network stack and drivers change with every release: figures from two releases compare \
          two kernels, whatever else was meant to differ.",
    look: "uname -r",
    ..Knob::FACT
};

pub(crate) static VERSION: Knob = Knob {
    name: "kernel_version",
    summary: "Build of the running kernel, as `uname -v` prints it",
    read: Read::Host("/proc/sys/kernel/version", text),
    why: "Two builds of one release may differ in configuration and patches. The text also names the \
          preemption model.",
    look: "uname -v",
    ..Knob::FACT
};

pub(crate) static COMMAND_LINE: Knob = Knob {
    name: "kernel_command_line",
    summary: "Parameters that the kernel was started with",
    read: Read::Host("/proc/cmdline", kernel_parameters),
    source: "`/proc/cmdline`, up to a lone `--`: the words after it go to init.",
    why: "Isolation (`isolcpus`, `nohz_full`, `rcu_nocbs`), idle states (`idle=poll`, \
          `intel_idle.max_cstate`), mitigations and the clock are set here, and some of them show nowhere \
          else.",
    ..Knob::FACT
};

pub(crate) static PREEMPT_MODEL: Knob = Knob {
    name: "preempt_model",
    summary: "The preemption model that the kernel was built with",
    read: Read::Host("/proc/sys/kernel/version", preempt_model),
    source: "The word that starts with `PREEMPT`. A kernel built with no or voluntary preemption names none.",
    why: "A thread that a packet wakes must wait until the kernel can be preempted. The less a kernel \
          preempts itself, the longer the tail of a blocking round trip, and the less a spinning one is \
          disturbed.",
    look: "uname -v",
    ..Knob::FACT
};

pub(crate) static PREEMPT_MODE: Knob = Knob {
    name: "preempt_mode",
    summary: "The preemption mode that a PREEMPT_DYNAMIC kernel runs in",
    read: Read::Host("/sys/kernel/debug/sched/preempt", parenthesized),
    source: "The word in parentheses. Needs root and a mounted debugfs; left out where the file is missing.",
    why: "A `PREEMPT_DYNAMIC` kernel chooses its mode at boot (`preempt=none|voluntary|full|lazy`) or at run \
          time. The mode decides how soon a woken thread gets the core from a thread inside the kernel.",
    ..Knob::FACT
};

pub(crate) static REALTIME: Knob = Knob {
    name: "realtime",
    summary: "Whether this is a PREEMPT_RT kernel",
    read: Read::Host("/sys/kernel/realtime", flag),
    source: "Only PREEMPT_RT kernels have this file.",
    why: "Under PREEMPT_RT, interrupts and softirqs run in threads and locks can be preempted: the tail of a \
          network round trip gets shorter, its median longer.",
    look: "cat /sys/kernel/realtime\nuname -v",
    ..Knob::FACT
};

pub(crate) static TIMER_HZ: Knob = Knob {
    name: "timer_hz",
    summary: "Timer interrupts per second on a busy core",
    read: Read::By(timer_hz),
    source: "`CONFIG_HZ` in `/boot/config-<release>` or `/lib/modules/<release>/config`; left out where \
             neither is installed.",
    why: "A busy core is interrupted this often, unless it is a `nohz_full` CPU. Each tick takes a few \
          microseconds, which add to the round trip in flight.",
    look: "grep CONFIG_HZ= /boot/config-$(uname -r)",
    ..Knob::FACT
};

pub(crate) static MITIGATIONS: Knob = Knob {
    name: "mitigations",
    summary: "The kernel's mitigation of each vulnerability of this CPU",
    read: Read::By(mitigations),
    source: "The files of `/sys/devices/system/cpu/vulnerabilities`, except those that say `Not affected`.",
    why: "Most mitigations add cost to every entry into the kernel, every indirect call and every context \
          switch. A round trip through the kernel has several of each, so mitigations may cost it some ten \
          percent.",
    look: "grep . /sys/devices/system/cpu/vulnerabilities/*",
    finding: Some(mitigations_finding),
    ..Knob::FACT
};

/// The kernel adds its model to the version, but for the two models that do not preempt inside the kernel.
fn preempt_model(version: &str) -> Result<Option<Value>, String> {
    if version.trim().is_empty() {
        return Err("empty".to_owned());
    }
    let model = version.split_whitespace().find(|word| word.starts_with("PREEMPT")).unwrap_or("none or voluntary");
    Ok(Some(model.into()))
}

/// Words after a lone `--` go to init and say nothing about the kernel.
fn kernel_parameters(line: &str) -> Result<Option<Value>, String> {
    let parameters: Vec<&str> = line.split_whitespace().take_while(|word| *word != "--").collect();
    Ok(Some(parameters.join(" ").into()))
}

fn timer_hz(host: &dyn Host, _: &Place<'_>) -> Result<Option<Value>, String> {
    let Some(release) = present(OSRELEASE, host.read(OSRELEASE))? else {
        return Ok(None);
    };
    for path in [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")] {
        if let Some(config) = present(&path, host.read(&path))? {
            let hz = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="));
            let hz = hz.ok_or_else(|| format!("{path}: has no CONFIG_HZ"))?;
            let hz: u32 = hz.trim().parse().map_err(|_| format!("{path}: CONFIG_HZ={hz:?} is not a whole number"))?;
            return Ok(Some(hz.into()));
        }
    }
    Ok(None)
}

fn mitigations(host: &dyn Host, _: &Place<'_>) -> Result<Option<Value>, String> {
    let Some(names) = present(VULNERABILITIES, host.list(VULNERABILITIES))? else {
        return Ok(None);
    };
    let mut found = Map::new();
    for name in names {
        let path = format!("{VULNERABILITIES}/{name}");
        match present(&path, host.read(&path))? {
            Some(state) if state.trim() != "Not affected" => found.insert(name, state.trim().into()),
            _ => None,
        };
    }
    Ok(Some(Value::Object(found)))
}

fn mitigations_finding(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = MITIGATIONS.value(host, place)?;
    let states = now.as_object()?.values().filter_map(Value::as_str);
    let on = states.filter(|state| state.starts_with("Mitigation")).count();
    (on > 0).then(|| Finding {
        stake_ns: 500,
        ..at_boot(
            MITIGATIONS.name,
            format!("{on} mitigations of CPU flaws are on"),
            "your decision",
            "System calls and interrupts take some 100 ns longer each on affected CPUs.",
            "Without them other programs and guests may read this host's memory.",
            "mitigations=off on the kernel's command line, only on hosts that never run untrusted code",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_preemption_model_from_the_version() {
        for (version, model) in [
            ("#1 SMP PREEMPT_DYNAMIC @0", "PREEMPT_DYNAMIC"),
            ("#1 SMP PREEMPT_RT Debian 6.12.9-1 (2025-01-10)", "PREEMPT_RT"),
            ("#1 SMP PREEMPT Mon Jan 1 00:00:00 UTC 2024", "PREEMPT"),
            ("#1 SMP Debian 5.10.0-1 (2021-02-02)", "none or voluntary"),
        ] {
            assert_eq!(preempt_model(version).unwrap().unwrap(), model);
        }
    }

    #[test]
    fn drops_the_words_that_go_to_init() {
        assert_eq!(kernel_parameters("quiet mitigations=off -- --name x\n").unwrap().unwrap(), "quiet mitigations=off");
        assert_eq!(kernel_parameters("").unwrap().unwrap(), "");
    }
}
