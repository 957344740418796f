//! Power saving: what a core does while it waits for a packet, and how fast it runs when one comes.

use super::{Control, Values};

pub(super) static CONTROLS: &[Control] = &[
    Control {
        name: "cpu_dma_latency_us",
        mechanism: "A demand on PM QoS: while a process keeps /dev/cpu_dma_latency open with a number in it, no core enters an idle state \
                    that takes longer than that to leave. 0 leaves only polling.",
        effect: "A blocking round trip loses the way out of idle at every wake-up: about 1 us from C1, over 100 us from the deepest states; in a \
                 virtual machine it is a way through the hypervisor, about 45 us of 54 us on one such host.",
        cost: "All cores stay awake: full idle power, less turbo for the others, and in a virtual machine the host's CPU time.",
        risk: "None to function. Heat and power until the process ends.",
        needs: "Root, cpuidle, and a living process: hairpin tune apply cpu_dma_latency_us=0 --while -- COMMAND.",
        reference: "Documentation/power/pm_qos_interface.rst, drivers/cpuidle",
        values: Values::Number(0, 2_000_000_000),
        latency: Some("0"),
        stake_ns: 45_000,
        ..Control::PLAIN
    },
    Control {
        name: "idle_states",
        mechanism: "Sets `disable` of each idle state of the cores: a state that takes longer than N us to leave is not entered. `all` allows all. \
                    Without cores named, of every core that is online.",
        effect: "A blocking round trip loses the way out of idle at every wake-up, as with cpu_dma_latency_us, and it needs no process that lives \
                 on.",
        cost: "The cores stay awake, as with cpu_dma_latency_us, until it is reverted or the host boots.",
        risk: "None to function. A host left like this uses full idle power.",
        needs: "Root and cpuidle with states in sysfs.",
        reference: "Documentation/admin-guide/pm/cpuidle.rst",
        values: Values::NumberOrAll,
        latency: Some("0"),
        power: Some("all"),
        stake_ns: 44_000,
        ..Control::PLAIN
    },
    Control {
        name: "resume_latency_us",
        mechanism: "PM QoS for single cores: a core enters no idle state that takes longer than N us to leave. 0 leaves only polling; -1 is no \
                    demand.",
        effect: "As cpu_dma_latency_us, on the cores named alone: the others may sleep.",
        cost: "The cores named stay awake.",
        needs: "Root and a cpuidle governor that heeds it (menu, teo, haltpoll and ladder do).",
        reference: "Documentation/ABI/testing/sysfs-devices-power, drivers/cpuidle/governor.c",
        values: Values::Number(-1, 2_000_000_000),
        power: Some("-1"),
        stake_ns: 43_000,
        ..Control::PLAIN
    },
    Control {
        name: "guest_halt_poll_ns",
        mechanism: "How long an idle virtual CPU polls for work, at most, before it halts and gives itself back to the hypervisor (cpuidle_haltpoll).",
        effect: "Wake-ups that come sooner than this after the last one need no way through the hypervisor.",
        cost: "The host's CPU time while the guest polls.",
        needs: "A guest with the cpuidle driver haltpoll; root.",
        reference: "Documentation/virt/guest-halt-polling.rst",
        values: Values::Number(0, 1_000_000_000),
        stake_ns: 40_000,
        ..Control::PLAIN
    },
    Control {
        name: "scaling_governor",
        mechanism: "The rule by which cpufreq chooses the frequency of a core.",
        effect: "Governors that follow load see an idle core between packets and run it slowly: every instruction of the round trip takes longer, up \
                 to the ratio of the frequencies.",
        cost: "Power: `performance` keeps cores at their highest frequency.",
        needs: "Root and cpufreq; a virtual machine has none.",
        reference: "Documentation/admin-guide/pm/cpufreq.rst",
        values: Values::Word("a governor of scaling_available_governors, such as performance"),
        latency: Some("performance"),
        power: Some("powersave"),
        throughput: Some("performance"),
        stake_ns: 5_000,
        ..Control::PLAIN
    },
    Control {
        name: "energy_performance_preference",
        mechanism: "A hint to the CPU, which chooses its frequency itself (intel_pstate, amd-pstate in active mode).",
        effect: "As scaling_governor, in smaller steps.",
        cost: "Power.",
        risk: "None to function. With the governor `performance` the driver refuses anything but performance.",
        needs: "Root and a driver that has it.",
        reference: "Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst",
        values: Values::Word("a word of energy_performance_available_preferences, such as performance"),
        latency: Some("performance"),
        power: Some("power"),
        throughput: Some("performance"),
        stake_ns: 3_000,
        ..Control::PLAIN
    },
    Control {
        name: "turbo",
        mechanism: "Whether cores may run above their base frequency while heat and power allow.",
        effect: "On, single cores are faster. Off, their speed is steady: less spread, and a longer median.",
        cost: "On: power and a frequency that depends on the other cores' work.",
        needs: "Root and cpufreq with intel_pstate/no_turbo or cpufreq/boost.",
        reference: "Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst",
        values: Values::Flag,
        power: Some("off"),
        throughput: Some("on"),
        stake_ns: 1_000,
        ..Control::PLAIN
    },
];
