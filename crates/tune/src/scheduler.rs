//! What the scheduler may put on a core: isolation, the tick, SMT siblings, the limit on real-time threads.

use hairpin_sys::host::Host;

use crate::change::Address;
use crate::control::Spot;
use crate::reading::{HostFile, cpu_list, number, present, text};
use crate::{Knob, Place, Reading};

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

pub(crate) static TIMER_MIGRATION: HostFile = HostFile {
    name: "timer_migration",
    summary: "Whether timers of idle cores move to one that is awake",
    path: "/proc/sys/kernel/timer_migration",
    form: number,
};

pub(crate) static WATCHDOG: HostFile = HostFile {
    name: "watchdog",
    summary: "Whether the soft-lockup detector runs on every core",
    path: "/proc/sys/kernel/watchdog",
    form: number,
};

pub(crate) static NMI_WATCHDOG: HostFile = HostFile {
    name: "nmi_watchdog",
    summary: "Whether the hard-lockup detector interrupts every core now and then",
    path: "/proc/sys/kernel/nmi_watchdog",
    form: number,
};

/// The CPUs that a cgroup of Hairpin's own keeps for itself.
pub(crate) struct CpusetPartition;

const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";
const SUBTREE_CONTROL: &str = "/sys/fs/cgroup/cgroup.subtree_control";
/// The cgroup, directly below the root: a partition needs one above it.
pub(crate) const PARTITION: &str = "/sys/fs/cgroup/hairpin.isolated";

impl Knob for CpusetPartition {
    fn name(&self) -> &'static str {
        "cpuset_partition"
    }

    fn summary(&self) -> &'static str {
        "CPUs that a cgroup of Hairpin's own keeps for itself"
    }

    fn probe(&self, host: &dyn Host, _: &Place<'_>) -> Reading {
        match has_cpuset(host) {
            Ok(false) => Reading::Absent,
            Ok(true) => match (Address::Partition { path: PARTITION.to_owned() }).read(host) {
                Ok(cpus) => Reading::Is(cpus.into()),
                Err(why) => Reading::Unread(why.to_string()),
            },
            Err(why) => Reading::Unread(why),
        }
    }

    fn spots(&self, host: &dyn Host, _: &Place<'_>) -> Result<Vec<Spot>, String> {
        let spots = || vec![Spot::Controller(SUBTREE_CONTROL.to_owned()), Spot::Partition(PARTITION.to_owned())];
        Ok(if has_cpuset(host)? { spots() } else { Vec::new() })
    }
}

/// Whether cgroup v2 is mounted, with the controller cpuset.
fn has_cpuset(host: &dyn Host) -> Result<bool, String> {
    let controllers = present(CONTROLLERS, host.read(CONTROLLERS))?;
    Ok(controllers.is_some_and(|all| all.split_whitespace().any(|one| one == "cpuset")))
}
