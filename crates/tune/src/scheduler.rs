//! What the scheduler may put on a core: isolation, the tick, SMT siblings, the limit on real-time threads.

use crate::reading::{HostFile, cpu_list, number, text};

pub(crate) static ISOLATED: HostFile = HostFile {
    name: "isolated_cpus",
    summary: "CPUs kept free of threads that are not pinned to them",
    path: "/sys/devices/system/cpu/isolated",
    form: cpu_list,
};

pub(crate) static NOHZ_FULL: HostFile = HostFile {
    name: "nohz_full_cpus",
    summary: "CPUs without a tick while they run a single thread",
    path: "/sys/devices/system/cpu/nohz_full",
    form: cpu_list,
};

pub(crate) static SMT: HostFile = HostFile {
    name: "smt_control",
    summary: "Whether a core runs more than one thread at once",
    path: "/sys/devices/system/cpu/smt/control",
    form: text,
};

pub(crate) static RT_RUNTIME: HostFile = HostFile {
    name: "sched_rt_runtime_us",
    summary: "How much of each period real-time threads may use; -1 is all of it",
    path: "/proc/sys/kernel/sched_rt_runtime_us",
    form: number,
};

pub(crate) static RT_PERIOD: HostFile = HostFile {
    name: "sched_rt_period_us",
    summary: "The period over which real-time threads are limited",
    path: "/proc/sys/kernel/sched_rt_period_us",
    form: number,
};
