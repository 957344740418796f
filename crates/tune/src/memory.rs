//! Memory: pages that are made huge or moved in the background.

use crate::reading::{HostFile, bracketed, cpu_list, number};

pub(crate) static TRANSPARENT_HUGEPAGE: HostFile = HostFile {
    name: "transparent_hugepage",
    summary: "For which memory the kernel uses huge pages unasked",
    path: "/sys/kernel/mm/transparent_hugepage/enabled",
    form: bracketed,
};

pub(crate) static NUMA_BALANCING: HostFile = HostFile {
    name: "numa_balancing",
    summary: "Whether the kernel moves pages towards the node that uses them",
    path: "/proc/sys/kernel/numa_balancing",
    form: number,
};

pub(crate) static NUMA_NODES: HostFile = HostFile {
    name: "numa_nodes",
    summary: "The NUMA nodes of this host",
    path: "/sys/devices/system/node/online",
    form: cpu_list,
};
