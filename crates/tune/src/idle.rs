//! What a core does with nothing to do, and how long it takes to wake.

use hairpin_sys::host::Host;
use serde_json::{Value, json};

use crate::control::Spot;
use crate::reading::{CpuFile, HostFile, cpu_directory, each_cpu, meant_cpus, number, parse_number, present, text};
use crate::{Knob, Place, Reading};

const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

pub(crate) static DRIVER: HostFile = HostFile {
    name: "cpuidle_driver",
    summary: "The driver that knows the idle states of the cores",
    path: "/sys/devices/system/cpu/cpuidle/current_driver",
    form: text,
};

pub(crate) static GOVERNOR: HostFile = HostFile {
    name: "cpuidle_governor",
    summary: "The rule by which an idle core chooses its idle state",
    path: "/sys/devices/system/cpu/cpuidle/current_governor",
    form: text,
};

pub(crate) static GUEST_HALT_POLL: HostFile = HostFile {
    name: "guest_halt_poll_ns",
    summary: "How long an idle virtual CPU polls before it halts, at most",
    path: "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
    form: number,
};

/// The idle states of the cores used.
pub(crate) struct States;

impl Knob for States {
    fn name(&self) -> &'static str {
        "idle_states"
    }

    fn summary(&self) -> &'static str {
        "The idle states of the cores used, shallowest first, with what leaving each costs"
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        each_cpu(place, |cpu| states(host, cpu)).into()
    }

    fn spots(&self, host: &dyn Host, place: &Place<'_>) -> Result<Vec<Spot>, String> {
        let mut spots = Vec::new();
        for cpu in meant_cpus(host, place)? {
            let directory = format!("{}/cpuidle", cpu_directory(cpu));
            for number in numbers(host, &directory)?.unwrap_or_default() {
                let latency = format!("{directory}/state{number}/latency");
                let text = host.read(&latency).map_err(|why| format!("{latency}: {why}"))?;
                let latency_us = parse_number(&text).map_err(|why| format!("{latency}: {why}"))?;
                spots.push(Spot::IdleState { path: format!("{directory}/state{number}/disable"), latency_us });
            }
        }
        Ok(spots)
    }
}

/// The numbers of the idle states below `directory`; `None` if there are none.
fn numbers(host: &dyn Host, directory: &str) -> Result<Option<Vec<u32>>, String> {
    let Some(names) = present(directory, host.list(directory))? else {
        return Ok(None);
    };
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix("state")?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(Some(numbers))
}

fn states(host: &dyn Host, cpu: u32) -> Result<Option<Value>, String> {
    let directory = format!("{}/cpuidle", cpu_directory(cpu));
    let Some(numbers) = numbers(host, &directory)? else {
        return Ok(None);
    };
    let mut states = Vec::new();
    for number in numbers {
        let whole = |file: &str| {
            let path = format!("{directory}/state{number}/{file}");
            let text = host.read(&path).map_err(|why| format!("{path}: {why}"))?;
            parse_number(&text).map_err(|why| format!("{path}: {why}"))
        };
        let path = format!("{directory}/state{number}/name");
        let name = host.read(&path).map_err(|why| format!("{path}: {why}"))?;
        states.push(json!({"name": name, "latency_us": whole("latency")?, "disabled": whole("disable")? != 0}));
    }
    Ok((!states.is_empty()).then(|| states.into()))
}

/// The longest wake-up that any process allows.
pub(crate) struct DmaLatency;

impl Knob for DmaLatency {
    fn name(&self) -> &'static str {
        "cpu_dma_latency_us"
    }

    fn summary(&self) -> &'static str {
        "The longest wake-up from idle that the processes of this host allow"
    }

    fn probe(&self, host: &dyn Host, _: &Place<'_>) -> Reading {
        dma_latency(host).into()
    }

    fn spots(&self, host: &dyn Host, _: &Place<'_>) -> Result<Vec<Spot>, String> {
        Ok(if host.exists(DMA_LATENCY) { vec![Spot::Held(DMA_LATENCY.to_owned())] } else { Vec::new() })
    }
}

pub(crate) static RESUME_LATENCY: CpuFile = CpuFile {
    name: "resume_latency_us",
    summary: "The longest wake-up from idle that is allowed on the cores used, one by one; -1 is any",
    file: "power/pm_qos_resume_latency_us",
    form: resume_latency,
};

/// The kernel writes `n/a` where nothing is tolerated, and 0 where anything is.
fn resume_latency(text: &str) -> Result<Option<Value>, String> {
    match text.trim() {
        "n/a" => Ok(Some(0.into())),
        "0" => Ok(Some((-1).into())),
        other => number(other),
    }
}

/// Opening the device registers a request without any demand, closing it takes that back: reading changes nothing.
fn dma_latency(host: &dyn Host) -> Result<Option<Value>, String> {
    let Some(bytes) = present(DMA_LATENCY, host.read_bytes(DMA_LATENCY))? else {
        return Ok(None);
    };
    let bytes: [u8; 4] =
        bytes.try_into().map_err(|bytes: Vec<u8>| format!("{DMA_LATENCY}: answered {} bytes where 4 are due", bytes.len()))?;
    let latency = i32::from_ne_bytes(bytes);
    if latency < 0 { Err(format!("{DMA_LATENCY}: {latency} is no latency")) } else { Ok(Some(latency.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::host::FakeHost;

    #[test]
    fn states_are_in_the_order_of_their_numbers_and_told_apart_by_core() {
        let directory = tempfile::tempdir().unwrap();
        let mut host = FakeHost::at(directory.path());
        for (cpu, state, name) in [(0, 10, "C10"), (0, 2, "C2"), (3, 2, "C2")] {
            let at = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            let latency = format!("{state}0\n");
            host = host
                .with(&format!("{at}/name"), name)
                .with(&format!("{at}/latency"), latency)
                .with(&format!("{at}/disable"), "0\n");
        }
        let state = |name: &str, latency: u32| json!({"name": name, "latency_us": latency, "disabled": false});
        assert_eq!(
            States.probe(&host, &Place { cpus: &[3, 0, 3], interface: None }),
            Reading::Is(json!({"0": [state("C2", 20), state("C10", 100)], "3": [state("C2", 20)]}))
        );
    }

    #[test]
    fn a_demand_on_wake_ups_is_a_positive_number_of_four_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let probe = |bytes: &[u8]| DmaLatency.probe(&FakeHost::at(directory.path()).with(DMA_LATENCY, bytes), &Place::default());
        assert_eq!(probe(&0_i32.to_ne_bytes()), Reading::Is(0.into()));
        assert!(matches!(probe(&(-1_i32).to_ne_bytes()), Reading::Unread(_)));
        assert!(matches!(probe(&[0; 3]), Reading::Unread(_)));
    }
}
