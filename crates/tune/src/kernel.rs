//! The kernel: which, with what on its command line, how it preempts, how often it ticks, what it pays for safety.

use hairpin_sys::host::Host;
use serde_json::{Map, Value};

use crate::reading::{HostFile, file, flag, parenthesized, present, text};
use crate::{Knob, Place, Reading};

const OSRELEASE: &str = "/proc/sys/kernel/osrelease";
const CMDLINE: &str = "/proc/cmdline";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

pub(crate) static RELEASE: HostFile = HostFile {
    name: "kernel_release",
    summary: "Release of the running kernel, as uname -r prints it",
    path: OSRELEASE,
    form: text,
};

pub(crate) static VERSION: HostFile = HostFile {
    name: "kernel_version",
    summary: "Build of the running kernel, as uname -v prints it",
    path: "/proc/sys/kernel/version",
    form: text,
};

pub(crate) static PREEMPT_MODEL: HostFile = HostFile {
    name: "preempt_model",
    summary: "How far the kernel was built to be preempted",
    path: "/proc/sys/kernel/version",
    form: preempt_model,
};

pub(crate) static PREEMPT_MODE: HostFile = HostFile {
    name: "preempt_mode",
    summary: "The preemption mode that a PREEMPT_DYNAMIC kernel runs in",
    path: "/sys/kernel/debug/sched/preempt",
    form: parenthesized,
};

pub(crate) static REALTIME: HostFile =
    HostFile { name: "realtime", summary: "Whether this is a PREEMPT_RT kernel", path: "/sys/kernel/realtime", form: flag };

/// The kernel adds its model to the version, but for the two models that do not preempt inside the kernel.
fn preempt_model(version: &str) -> Result<Option<Value>, String> {
    if version.trim().is_empty() {
        return Err("empty".to_owned());
    }
    let model = version.split_whitespace().find(|word| word.starts_with("PREEMPT")).unwrap_or("none or voluntary");
    Ok(Some(model.into()))
}

/// Parameters that the kernel was started with.
pub(crate) struct CommandLine;

impl Knob for CommandLine {
    fn name(&self) -> &'static str {
        "kernel_command_line"
    }

    fn summary(&self) -> &'static str {
        "Parameters the kernel was started with"
    }

    fn probe(&self, host: &dyn Host, _: &Place<'_>) -> Reading {
        file(host, CMDLINE, kernel_parameters).into()
    }
}

/// What follows a lone `--` goes to init and says nothing about the kernel.
fn kernel_parameters(line: &str) -> Result<Option<Value>, String> {
    let parameters: Vec<&str> = line.split_whitespace().take_while(|word| *word != "--").collect();
    Ok(Some(parameters.join(" ").into()))
}

/// CONFIG_HZ, from the build's configuration where the distribution installs it.
pub(crate) struct TimerHz;

impl Knob for TimerHz {
    fn name(&self) -> &'static str {
        "timer_hz"
    }

    fn summary(&self) -> &'static str {
        "How often per second the kernel's tick interrupts a busy core"
    }

    fn probe(&self, host: &dyn Host, _: &Place<'_>) -> Reading {
        timer_hz(host).into()
    }
}

fn timer_hz(host: &dyn Host) -> Result<Option<Value>, String> {
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

/// The CPU's vulnerabilities and what the kernel does about each.
pub(crate) struct Mitigations;

impl Knob for Mitigations {
    fn name(&self) -> &'static str {
        "mitigations"
    }

    fn summary(&self) -> &'static str {
        "What the kernel does about each vulnerability that this CPU has"
    }

    fn probe(&self, host: &dyn Host, _: &Place<'_>) -> Reading {
        mitigations(host).into()
    }
}

fn mitigations(host: &dyn Host) -> Result<Option<Value>, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read_from_the_version() {
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
    fn what_goes_to_init_is_no_kernel_parameter() {
        assert_eq!(kernel_parameters("quiet mitigations=off -- --name x\n").unwrap().unwrap(), "quiet mitigations=off");
        assert_eq!(kernel_parameters("").unwrap().unwrap(), "");
    }
}
