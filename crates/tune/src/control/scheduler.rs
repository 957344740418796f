//! What else runs on a core: kernel threads, timers, watchdogs, page scans, other processes.

use super::{Control, Values};
use crate::change::Form;

pub(super) static CONTROLS: &[Control] = &[
    Control {
        name: "clocksource",
        mechanism: "The hardware clock that the kernel's time is read from. The TSC is read in user space; any other takes a system call and often a \
                    read from a device.",
        effect: "Every clock_gettime falls from about 1 us (hpet, acpi_pm) to some 20 ns, and the kernel's own stamps with it.",
        cost: "None.",
        risk: "If the kernel left the TSC because it found it unstable, time runs wrong: look into dmesg first.",
        needs: "Root, and tsc among available_clocksources.",
        reference: "Documentation/admin-guide/kernel-parameters.txt (clocksource=)",
        values: Values::Word("one of available_clocksources, such as tsc"),
        safe: false,
        stake_ns: 2_000,
        ..Control::PLAIN
    },
    Control {
        name: "timer_migration",
        mechanism: "Whether timers that an idle core starts move to one that is awake.",
        effect: "Off, the timers of other cores do not land on a core that spins: fewer interruptions there.",
        cost: "Idle cores wake up for their own timers: a little power.",
        needs: "Root.",
        reference: "Documentation/admin-guide/sysctl/kernel.rst",
        values: Values::Flag,
        latency: Some("off"),
        power: Some("on"),
        ..Control::PLAIN
    },
    Control {
        name: "watchdog",
        mechanism: "The soft-lockup detector: a thread and a timer on each core that notice a core that schedules no more.",
        effect: "Off, one timer per core and some seconds fewer. Seen in the tail only, if at all.",
        cost: "A core that hangs is no longer reported.",
        risk: "A lock-up stays unseen.",
        needs: "Root.",
        reference: "Documentation/admin-guide/lockup-watchdogs.rst",
        values: Values::Flag,
        latency: Some("off"),
        ..Control::PLAIN
    },
    Control {
        name: "nmi_watchdog",
        mechanism: "The hard-lockup detector: a performance counter on each core that raises a non-maskable interrupt every few seconds.",
        effect: "Off, no such interrupts, and a performance counter is free. Seen in the tail only.",
        cost: "A core stuck with interrupts off is no longer reported.",
        risk: "A lock-up stays unseen.",
        needs: "Root, and hardware performance counters.",
        reference: "Documentation/admin-guide/lockup-watchdogs.rst",
        values: Values::Flag,
        latency: Some("off"),
        ..Control::PLAIN
    },
    Control {
        name: "sched_rt_runtime_us",
        mechanism: "Real-time threads may use this much of every sched_rt_period_us; then they are held back until it ends. -1 is no limit.",
        effect: "A thread that spins at real-time priority is stopped for 50 ms of each second at the kernel's default. With -1 it is not.",
        cost: "None.",
        risk: "A real-time thread that never sleeps takes its core for good: ssh, kernel threads and this very command may not run there.",
        needs: "Root.",
        reference: "Documentation/scheduler/sched-rt-group.rst",
        values: Values::Number(-1, 1_000_000_000),
        safe: false,
        ..Control::PLAIN
    },
    Control {
        name: "cpuset_partition",
        mechanism: "A cgroup of its own with an isolated cpuset partition: no other process runs on its CPUs, and the scheduler balances nothing \
                    there. Without isolcpus and without a boot.",
        effect: "Other processes stay off the CPUs of the measured ones: the tail gets shorter.",
        cost: "These CPUs are lost to everything else. Only what is put into the cgroup runs there: COMMAND of --while is.",
        risk: "Processes pinned to these CPUs are moved off them.",
        needs: "Root, cgroup v2 with the controller cpuset (Linux 6.1 or later), and one CPU more than is isolated.",
        reference: "Documentation/admin-guide/cgroup-v2.rst (cpuset.cpus.partition)",
        values: Values::CpusOrNone,
        form: Form::CpuList,
        safe: false,
        ..Control::PLAIN
    },
    Control {
        name: "transparent_hugepage",
        mechanism: "For which memory the kernel uses huge pages unasked.",
        effect: "`always` makes page faults long and lets khugepaged copy pages behind a process's back: spikes of some 100 us. `madvise` leaves it \
                 to those who ask.",
        cost: "Programs that gain from huge pages and do not ask lose them.",
        needs: "Root and a kernel with CONFIG_TRANSPARENT_HUGEPAGE.",
        reference: "Documentation/admin-guide/mm/transhuge.rst",
        values: Values::Words(&["always", "madvise", "never"]),
        form: Form::Choice,
        throughput: Some("always"),
        ..Control::PLAIN
    },
    Control {
        name: "numa_balancing",
        mechanism: "Unmaps pages now and then to see which node uses them, and moves them there.",
        effect: "Off, no page faults of that sort: spikes of some 10 us go. With a single node it does nothing.",
        cost: "Processes that wander between nodes keep their memory where it was.",
        needs: "Root and a kernel with CONFIG_NUMA_BALANCING.",
        reference: "Documentation/admin-guide/sysctl/kernel.rst",
        values: Values::Number(0, 3),
        latency: Some("0"),
        ..Control::PLAIN
    },
];
