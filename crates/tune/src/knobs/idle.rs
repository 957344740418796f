//! Idle states: a core's sleep with nothing to do, and its time to wake.

use hairpin_sys::host::Host;
use serde_json::{Value, json};

use super::cpu;
use crate::change::{Address, Change, Form};
use crate::knob::{Control, Knob, Lasts, Scope, Spot, Write};
use crate::place::{Place, cpu_directory, cpus_or_online};
use crate::read::Read;
use crate::reading::{each_cpu, number, parse_number, present, text};
use crate::values::Values;

const DMA_LATENCY_FILE: &str = "/dev/cpu_dma_latency";

pub(crate) static DRIVER: Knob = Knob {
    name: "cpuidle_driver",
    summary: "The driver that knows the idle states of the cores",
    read: Read::Host("/sys/devices/system/cpu/cpuidle/current_driver", text),
    why: "It decides which idle states exist: `intel_idle` knows those of the hardware, `acpi_idle` those \
          that the firmware offers, and `haltpoll` is for virtual machines.",
    look: "cpupower idle-info",
    ..Knob::FACT
};

pub(crate) static GOVERNOR: Knob = Knob {
    name: "cpuidle_governor",
    summary: "The rule by which an idle core chooses its idle state",
    read: Read::Host("/sys/devices/system/cpu/cpuidle/current_governor", text),
    why: "It predicts how long a core will idle. A wrong prediction adds a deep state's exit to the next \
          packet. `haltpoll` spins for a while before it halts a virtual CPU.",
    look: "cpupower idle-info",
    ..Knob::FACT
};

pub(crate) static STATES: Knob = Knob {
    name: "idle_states",
    summary: "The idle states of the cores used, shallowest first, with their exit latencies",
    read: Read::By(|host, place| each_cpu(place.cpus, |cpu| states(host, cpu))),
    source: "`name`, `latency` and `disable` of every `/sys/devices/system/cpu/cpu<n>/cpuidle/state<n>`. One \
             list if all cores used agree, otherwise one per CPU. `latency_us` is the exit latency that the \
             driver claims.",
    why: "A core that blocks in `recv` idles between packets, and leaving its idle state is part of the next \
          round trip: about 1 us from C1, over 100 us from deep states. In a virtual machine, leaving it goes \
          through the hypervisor, whatever the figure says. Spinning sides never idle.",
    look: "cpupower idle-info",
    change: Some(Control {
        scope: Scope::Cpus,
        values: Values::NumberOrAll,
        write: Write::At(state_spots),
        mechanism: "Sets `disable` of each idle state whose exit latency exceeds N us, so that no core \
                    enters it. `all` enables every state. Applies to the cores named, otherwise to every \
                    online core.",
        effect: "A blocking round trip saves the exit from idle at every wake-up, as with \
                 cpu_dma_latency_us, and no process has to stay alive for it.",
        cost: "The cores stay awake, as with cpu_dma_latency_us, until it is reverted or the host boots.",
        risk: "None to function. A host left like this uses full idle power.",
        needs: "Root and cpuidle with states in sysfs.",
        reference: "Documentation/admin-guide/pm/cpuidle.rst",
        latency: Some("0"),
        power: Some("all"),
        stake_ns: 44_000,
        stake_here: Some(exit_ns),
        state: Some(states_in_words),
        while_held: Some(&DMA_LATENCY),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static DMA_LATENCY: Knob = Knob {
    name: "cpu_dma_latency_us",
    summary: "The longest exit from idle that the processes of this host allow",
    read: Read::By(dma_latency),
    source: "`/dev/cpu_dma_latency`, four bytes, as root. 2000000000 is the kernel's default: no process \
             demands anything. Reading does not change it.",
    why: "A process that holds this device open with a small number keeps all cores out of every idle state \
          whose exit takes longer; 0 keeps them awake. Blocking round trips get shorter by that exit.",
    look: "sudo xxd -e /dev/cpu_dma_latency",
    change: Some(Control {
        lasts: Lasts::WhileHeld,
        values: Values::Number(0, 2_000_000_000),
        write: Write::At(dma_latency_spots),
        mechanism: "A PM QoS demand: while a process keeps /dev/cpu_dma_latency open with N written to it, \
                    no core enters an idle state whose exit takes longer than N us. 0 leaves only polling.",
        effect: "A blocking round trip saves the exit from idle at every wake-up: about 1 us from C1, over \
                 100 us from the deepest states; in a virtual machine the exit goes through the hypervisor, \
                 about 45 us of 54 us on one such host.",
        cost: "All cores stay awake: full idle power, less turbo for the others, and in a virtual machine \
               CPU time of the host.",
        risk: "None to function. Heat and power until the process ends.",
        needs: "Root, a cpuidle driver (without one, `none` in /sys/devices/system/cpu/cpuidle/current_driver, a \
                demand changes nothing), and a process that stays alive: hairpin tune apply \
                cpu_dma_latency_us=0 --while -- COMMAND.",
        reference: "Documentation/power/pm_qos_interface.rst, drivers/cpuidle",
        latency: Some("0"),
        stake_ns: 45_000,
        stake_here: Some(exit_ns),
        state: Some(demand_in_words),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RESUME_LATENCY: Knob = Knob {
    name: "resume_latency_us",
    summary: "The longest exit from idle allowed on each of the cores used; -1 is any",
    read: Read::Cpu("power/pm_qos_resume_latency_us", resume_latency),
    source: "One value if all cores used agree. The kernel writes 0 where any exit is allowed, shown here as \
             -1, and `n/a` where none is, shown as 0.",
    why: "A core that may not sleep deeply wakes up at once. Unlike `cpu_dma_latency_us` this applies to \
          single cores: the others may sleep.",
    change: Some(Control {
        scope: Scope::Cpus,
        values: Values::Number(-1, 2_000_000_000),
        write: Write::WhereRead { form: Form::Words, encode: resume_latency_text },
        mechanism: "PM QoS for single cores: a core enters no idle state whose exit takes longer than N us. \
                    0 leaves only polling; -1 removes the demand.",
        effect: "As cpu_dma_latency_us, on the cores named only.",
        cost: "The cores named stay awake.",
        needs: "Root, and a cpuidle governor that respects it (menu, teo, haltpoll and ladder do).",
        reference: "Documentation/ABI/testing/sysfs-devices-power, drivers/cpuidle/governor.c",
        power: Some("-1"),
        stake_ns: 43_000,
        state: Some(resume_latency_in_words),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static GUEST_HALT_POLL: Knob = Knob {
    name: "guest_halt_poll_ns",
    summary: "How long an idle virtual CPU polls before it halts, at most",
    read: Read::Host("/sys/module/haltpoll/parameters/guest_halt_poll_ns", number),
    source: "Only in virtual machines whose kernel has haltpoll.",
    why: "A virtual CPU that polls this long before it halts avoids the exit to the hypervisor and the way \
          back if the packet comes in time. At 0 every wait is such an exit.",
    change: Some(Control {
        values: Values::Number(0, 1_000_000_000),
        mechanism: "How long an idle virtual CPU polls for work, at most, before it halts and returns to the \
                    hypervisor (cpuidle_haltpoll).",
        effect: "A wake-up that comes within this time avoids the way through the hypervisor.",
        cost: "CPU time of the host while the guest polls.",
        needs: "A guest with the cpuidle driver haltpoll; root.",
        reference: "Documentation/virt/guest-halt-polling.rst",
        stake_ns: 40_000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

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

/// A state is enabled if its exit latency is at most `value`, or `value` is `all`.
fn state_spots(host: &dyn Host, place: &Place<'_>, value: &str) -> Result<Vec<Spot>, String> {
    let mut spots = Vec::new();
    for cpu in cpus_or_online(host, place)? {
        let directory = format!("{}/cpuidle", cpu_directory(cpu));
        for number in numbers(host, &directory)?.unwrap_or_default() {
            let latency = format!("{directory}/state{number}/latency");
            let text = host.read(&latency).map_err(|why| format!("{latency}: {why}"))?;
            let latency_us = parse_number(&text).map_err(|why| format!("{latency}: {why}"))?;
            let enabled = value == "all" || value.parse().is_ok_and(|most: i64| latency_us <= most);
            let address = Address::File { path: format!("{directory}/state{number}/disable"), form: Form::Words };
            spots.push(Spot { address, to: if enabled { "0" } else { "1" }.to_owned() });
        }
    }
    Ok(spots)
}

/// The states to disable if there are some, else those to enable.
fn states_in_words(value: &str, changes: &[Change]) -> Option<String> {
    Some(match changes.iter().filter(|change| change.to == "1").count() {
        0 => format!("{} idle states of the cores are disabled", changes.len()),
        open => format!("{open} idle states of the cores may be entered that take longer than {value} us to leave"),
    })
}

/// True if some CPU has idle states to choose from. Without a cpuidle driver there are none, and the kernel heeds no demand on
/// their latency (`cpuidle_idle_call` of kernel/sched/idle.c).
#[must_use]
pub fn has_idle_states(host: &dyn Host) -> bool {
    has_states(host, cpus_or_online(host, &Place { cpus: &[], interface: None }).as_ref())
}

/// True if one of these CPUs has idle states, or if it is not known which CPUs there are.
fn has_states(host: &dyn Host, cpus: Result<&Vec<u32>, &String>) -> bool {
    let has = |cpu: &u32| host.list(&format!("{}/cpuidle", cpu_directory(*cpu))).is_ok_and(|states| !states.is_empty());
    cpus.map_or(true, |cpus| cpus.iter().any(has))
}

/// How long leaving idle takes, in ns. On bare metal the driver's table says it: the deepest state that may be entered, and at
/// least 1 us. 0 where there is none.
fn exit_ns(host: &dyn Host, place: &Place<'_>) -> Option<u64> {
    let cpus = cpus_or_online(host, place);
    if !has_states(host, cpus.as_ref()) {
        return Some(0);
    }
    if cpu::is_virtual(host) {
        return None;
    }
    let deepest_us = || {
        let cpus = cpus.ok()?;
        let states = STATES.value(host, &Place { cpus: cpus.get(..1)?, interface: None })?;
        let enabled = states.as_array()?.iter().filter(|state| state["disabled"] == false);
        enabled.filter_map(|state| state["latency_us"].as_u64()).max()
    };
    Some((deepest_us().unwrap_or(0) * 1_000).max(1_000))
}

/// Opening the device registers a request without any demand, closing it takes that back: reading changes nothing.
fn dma_latency(host: &dyn Host, _: &Place<'_>) -> Result<Option<Value>, String> {
    let Some(bytes) = present(DMA_LATENCY_FILE, host.read_bytes(DMA_LATENCY_FILE))? else {
        return Ok(None);
    };
    let bytes: [u8; 4] = bytes
        .try_into()
        .map_err(|bytes: Vec<u8>| format!("{DMA_LATENCY_FILE}: answered {} bytes where 4 are due", bytes.len()))?;
    let latency = i32::from_ne_bytes(bytes);
    if latency < 0 { Err(format!("{DMA_LATENCY_FILE}: {latency} is not a latency")) } else { Ok(Some(latency.into())) }
}

fn dma_latency_spots(host: &dyn Host, _: &Place<'_>, value: &str) -> Result<Vec<Spot>, String> {
    let spot = || Spot { address: Address::Held { path: DMA_LATENCY_FILE.to_owned() }, to: value.to_owned() };
    Ok(host.exists(DMA_LATENCY_FILE).then(spot).into_iter().collect())
}

fn demand_in_words(_: &str, changes: &[Change]) -> Option<String> {
    /// The kernel's answer without any demand.
    const DEFAULT: &str = "2000000000";
    changes.iter().any(|change| change.from == DEFAULT).then(|| "no process demands short wake-ups".to_owned())
}

/// The kernel writes `n/a` where nothing is tolerated, and 0 where anything is.
fn resume_latency(text: &str) -> Result<Option<Value>, String> {
    match text.trim() {
        "n/a" => Ok(Some(0.into())),
        "0" => Ok(Some((-1).into())),
        other => number(other),
    }
}

/// As the setting is listed; `None` where the cores differ.
fn resume_latency_in_words(_: &str, changes: &[Change]) -> Option<String> {
    let first = changes.first()?;
    let now = resume_latency(&first.from).ok()??;
    changes.iter().all(|change| change.from == first.from).then(|| now.to_string())
}

/// The inverse of [`resume_latency`] (Documentation/ABI/testing/sysfs-devices-power).
fn resume_latency_text(value: &str) -> String {
    match value {
        "0" => "n/a",
        "-1" => "0",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;
    use hairpin_sys::host::FakeHost;

    #[test]
    fn lists_states_in_numeric_order_per_core() {
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
            STATES.read(&host, &Place { cpus: &[3, 0, 3], interface: None }),
            Reading::Is(json!({"0": [state("C2", 20), state("C10", 100)], "3": [state("C2", 20)]}))
        );
    }

    #[test]
    fn a_host_without_a_cpuidle_driver_has_no_idle_states() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path());
        assert!(!has_idle_states(&host.clone().with("/sys/devices/system/cpu/online", "0-1\n")));
        assert!(has_idle_states(&host.with("/sys/devices/system/cpu/cpu1/cpuidle/state0/name", "C1\n")));
    }

    #[test]
    fn words_count_the_states_to_disable_or_else_the_disabled_ones() {
        let change = |to: &str| Change {
            knob: "idle_states".to_owned(),
            address: Address::File { path: "/sys/x".to_owned(), form: Form::Words },
            from: String::new(),
            to: to.to_owned(),
        };
        let (enable, disable) = (change("0"), change("1"));
        let said = states_in_words("0", &[enable.clone(), disable]).unwrap();
        assert_eq!(said, "1 idle states of the cores may be entered that take longer than 0 us to leave");
        assert_eq!(states_in_words("0", &[enable]).unwrap(), "1 idle states of the cores are disabled");
    }

    #[test]
    fn rejects_a_negative_or_short_dma_latency() {
        let directory = tempfile::tempdir().unwrap();
        let probe =
            |bytes: &[u8]| DMA_LATENCY.read(&FakeHost::at(directory.path()).with(DMA_LATENCY_FILE, bytes), &Place::default());
        assert_eq!(probe(&0_i32.to_ne_bytes()), Reading::Is(0.into()));
        assert!(matches!(probe(&(-1_i32).to_ne_bytes()), Reading::Unread(_)));
        assert!(matches!(probe(&[0; 3]), Reading::Unread(_)));
    }
}
