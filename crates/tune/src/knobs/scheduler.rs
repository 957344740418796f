//! The scheduler: isolation, the tick, SMT siblings, timers, watchdogs, the limit on real-time threads.

use hairpin_record::tune::Finding;
use hairpin_sys::host::Host;
use serde_json::Value;

use super::kernel;
use crate::change::{Address, CONTROLLERS, PARTITION};
use crate::knob::{Control, Knob, Spot, Write, at_boot};
use crate::place::Place;
use crate::read::Read;
use crate::reading::{cpu_list, number, present, text};
use crate::values::Values;

const SUBTREE_CONTROL: &str = "/sys/fs/cgroup/cgroup.subtree_control";

pub(crate) static ISOLATED: Knob = Knob {
    name: "isolated_cpus",
    summary: "CPUs that run only threads pinned to them",
    read: Read::Host("/sys/devices/system/cpu/isolated", cpu_list),
    source: "An empty list is none.",
    why: "Only pinned threads run on an isolated core, which removes most other work from the tail.",
    finding: Some(isolation_finding),
    ..Knob::FACT
};

pub(crate) static NOHZ_FULL: Knob = Knob {
    name: "nohz_full_cpus",
    summary: "CPUs without a tick while they run a single thread",
    read: Read::Host("/sys/devices/system/cpu/nohz_full", cpu_list),
    source: "An empty list is none. Left out by kernels without it.",
    why: "On these CPUs the tick stops while one thread has the core, so it no longer interrupts round \
          trips. In exchange, entering and leaving the kernel costs more.",
    finding: Some(tick_finding),
    ..Knob::FACT
};

pub(crate) static SMT: Knob = Knob {
    name: "smt_control",
    summary: "Whether a core runs more than one thread at once",
    read: Read::Host("/sys/devices/system/cpu/smt/control", text),
    source: "`on`, `off`, `forceoff`, `notsupported` or `notimplemented`.",
    why: "With SMT two CPUs share one core: a thread on the sibling takes execution units and cache from the \
          measured one.",
    look: "cat /sys/devices/system/cpu/smt/control\nlscpu | grep Thread",
    ..Knob::FACT
};

pub(crate) static RT_RUNTIME: Knob = Knob {
    name: "sched_rt_runtime_us",
    summary: "How much of each period real-time threads may use; -1 is all of it",
    read: Read::Host("/proc/sys/kernel/sched_rt_runtime_us", number),
    why: "Before Linux 6.12, or with CONFIG_RT_GROUP_SCHED, a FIFO thread that spins is stopped once it \
          has used this much of a period: with the usual 950000 of 1000000, for up to 50 ms each second. \
          -1 lifts the limit, and before 6.12 a spinning FIFO thread then owns its core. Since then \
          ordinary threads that wait on that core get up to 50 ms of each second, whatever this says \
          (`/sys/kernel/debug/sched/fair_server/cpu<n>/runtime`).",
    change: Some(Control {
        values: Values::Number(-1, 1_000_000_000),
        mechanism: "Before Linux 6.12, or with CONFIG_RT_GROUP_SCHED, real-time threads may use this \
                    much of every sched_rt_period_us and are then stopped until it ends. -1 lifts the \
                    limit. Since then the kernel's fair server gives ordinary threads that wait up to 50 \
                    ms of each second, whatever the value.",
        effect: "Before Linux 6.12, or with CONFIG_RT_GROUP_SCHED: at the kernel's default, a thread \
                 that spins at real-time priority is stopped for 50 ms of each second, with -1 it is \
                 not. Otherwise none.",
        cost: "None.",
        risk: "A real-time thread that never sleeps takes its core for good: ssh, kernel threads and this \
               very command may not run there.",
        needs: "Root.",
        reference: "Documentation/scheduler/sched-rt-group.rst",
        safe: false,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RT_PERIOD: Knob = Knob {
    name: "sched_rt_period_us",
    summary: "The period over which real-time threads are limited",
    read: Read::Host("/proc/sys/kernel/sched_rt_period_us", number),
    why: "It sets how often the limit of `sched_rt_runtime_us` applies.",
    ..Knob::FACT
};

pub(crate) static TIMER_MIGRATION: Knob = Knob {
    name: "timer_migration",
    summary: "Whether timers of idle cores move to a core that is awake",
    read: Read::Host("/proc/sys/kernel/timer_migration", number),
    why: "A timer that moves from an idle core to a spinning one interrupts it.",
    change: Some(Control {
        values: Values::Flag,
        mechanism: "Whether timers that an idle core starts move to a core that is awake.",
        effect: "Off, timers of other cores do not interrupt a core that spins.",
        cost: "Idle cores wake up for their own timers, which takes a little power.",
        needs: "Root.",
        reference: "Documentation/admin-guide/sysctl/kernel.rst",
        latency: Some("off"),
        power: Some("on"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static WATCHDOG: Knob = Knob {
    name: "watchdog",
    summary: "Whether the soft-lockup detector runs on every core",
    read: Read::Host("/proc/sys/kernel/soft_watchdog", number),
    why: "A timer and a short run of a kernel thread on every core, every few seconds. If it shows at all, \
          it shows in the tail.",
    change: Some(Control {
        values: Values::Flag,
        mechanism: "The soft-lockup detector: a thread and a timer on each core that notice when it no \
                    longer schedules.",
        effect: "Off, each core has one timer less every few seconds. If it shows at all, it shows in the \
                 tail.",
        cost: "A core that hangs is no longer reported.",
        risk: "A lock-up goes unnoticed.",
        needs: "Root.",
        reference: "Documentation/admin-guide/lockup-watchdogs.rst",
        latency: Some("off"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static NMI_WATCHDOG: Knob = Knob {
    name: "nmi_watchdog",
    summary: "Whether the hard-lockup detector interrupts every core every few seconds",
    read: Read::Host("/proc/sys/kernel/nmi_watchdog", number),
    why: "A non-maskable interrupt on every core every few seconds, and a performance counter that nothing \
          else can use. If it shows at all, it shows in the tail.",
    change: Some(Control {
        values: Values::Flag,
        mechanism: "The hard-lockup detector: a performance counter on each core that raises a non-maskable \
                    interrupt every few seconds.",
        effect: "Off, these interrupts stop and a performance counter is free. It shows in the tail only.",
        cost: "A core stuck with interrupts off is no longer reported.",
        risk: "A lock-up goes unnoticed.",
        needs: "Root, and hardware performance counters.",
        reference: "Documentation/admin-guide/lockup-watchdogs.rst",
        latency: Some("off"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static CPUSET_PARTITION: Knob = Knob {
    name: "cpuset_partition",
    summary: "CPUs reserved by Hairpin's own cgroup",
    read: Read::By(partition),
    source: "`cpuset.cpus` and `cpuset.cpus.partition` of the cgroup `/sys/fs/cgroup/hairpin.isolated`; \
             `none` where it does not exist. Left out where cgroup v2 lacks the controller cpuset.",
    why: "No other process runs on these CPUs, so none can come between a packet and its reader.",
    look: "cat /sys/fs/cgroup/*/cpuset.cpus.partition",
    change: Some(Control {
        values: Values::CpusOrNone,
        write: Write::At(partition_spots),
        mechanism: "A cgroup of its own with an isolated cpuset partition: no other process runs on its \
                    CPUs, and the scheduler does not balance load there. It needs neither isolcpus nor a \
                    reboot.",
        effect: "Other processes stay off the measured CPUs: the tail gets shorter.",
        cost: "These CPUs are lost to everything else. Only processes in the cgroup run there, such as \
               COMMAND of --while.",
        risk: "Processes pinned to these CPUs are moved off them.",
        needs: "Root, cgroup v2 with the controller cpuset (Linux 6.1 or later), and at least one CPU that \
                is not isolated.",
        reference: "Documentation/admin-guide/cgroup-v2.rst (cpuset.cpus.partition)",
        safe: false,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

fn isolation_finding(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let isolated = ISOLATED.value(host, place)?;
    let partition = CPUSET_PARTITION.value(host, place);
    let none = isolated == "" && partition.as_ref().is_none_or(|cpus| cpus == "none");
    let or = if partition.is_some() {
        ", or without a reboot: hairpin tune apply cpuset_partition=LIST --while -- COMMAND"
    } else {
        ""
    };
    none.then(|| {
        at_boot(
            ISOLATED.name,
            "no CPU is kept free of other processes".to_owned(),
            "the measured CPUs isolated",
            "Other processes and the scheduler's load balancing stay off them: the tail gets shorter.",
            "These CPUs are lost to everything else.",
            format!("isolcpus=LIST on the kernel's command line{or}"),
        )
    })
}

fn tick_finding(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = NOHZ_FULL.value(host, place)?;
    let hz = kernel::TIMER_HZ.value(host, place).map(|hz| format!(", {hz} times a second")).unwrap_or_default();
    (now == "").then(|| {
        at_boot(
            NOHZ_FULL.name,
            format!("the tick interrupts every busy CPU{hz}"),
            "no tick on the measured CPUs",
            "The tick no longer interrupts a thread that spins alone on its CPU, which saves a few us each time.",
            "Each system call gets a little longer on those CPUs.",
            "nohz_full=LIST rcu_nocbs=LIST on the kernel's command line",
        )
    })
}

fn partition(host: &dyn Host, _: &Place<'_>) -> Result<Option<Value>, String> {
    if !has_cpuset(host)? {
        return Ok(None);
    }
    let cpus = Address::Partition { path: PARTITION.to_owned() }.read(host).map_err(|why| why.to_string())?;
    Ok(Some(cpus.into()))
}

/// The controller is switched on with the partition, and off with it unless other cgroups have come to need it.
fn partition_spots(host: &dyn Host, _: &Place<'_>, value: &str) -> Result<Vec<Spot>, String> {
    let partition = Spot { address: Address::Partition { path: PARTITION.to_owned() }, to: value.to_owned() };
    let controller = Spot { address: Address::Controller { path: SUBTREE_CONTROL.to_owned() }, to: "on".to_owned() };
    Ok(match has_cpuset(host)? {
        false => Vec::new(),
        true if value == "none" => vec![partition],
        true => vec![controller, partition],
    })
}

/// Whether cgroup v2 is mounted, with the controller cpuset.
fn has_cpuset(host: &dyn Host) -> Result<bool, String> {
    let controllers = present(CONTROLLERS, host.read(CONTROLLERS))?;
    Ok(controllers.is_some_and(|all| all.split_whitespace().any(|one| one == "cpuset")))
}
