//! The sysctls of the network stack below TCP that move round trips.
//!
//! Under /proc/sys/net a thread sees those of its own network namespace; a few exist in the initial one only and are absent elsewhere.

use crate::reading::{HostFile, number, numbers, text};

pub(crate) static BUSY_POLL: HostFile = HostFile {
    name: "busy_poll_us",
    summary: "How long poll and select poll the device's queue before they sleep",
    path: "/proc/sys/net/core/busy_poll",
    form: number,
};

pub(crate) static BUSY_READ: HostFile = HostFile {
    name: "busy_read_us",
    summary: "How long a receive polls the device's queue before it sleeps, where the socket does not say",
    path: "/proc/sys/net/core/busy_read",
    form: number,
};

pub(crate) static RMEM_DEFAULT: HostFile = HostFile {
    name: "rmem_default_bytes",
    summary: "Receive buffer of a socket that does not ask",
    path: "/proc/sys/net/core/rmem_default",
    form: number,
};

pub(crate) static RMEM_MAX: HostFile = HostFile {
    name: "rmem_max_bytes",
    summary: "The largest receive buffer that a socket may ask for",
    path: "/proc/sys/net/core/rmem_max",
    form: number,
};

pub(crate) static WMEM_DEFAULT: HostFile = HostFile {
    name: "wmem_default_bytes",
    summary: "Send buffer of a socket that does not ask",
    path: "/proc/sys/net/core/wmem_default",
    form: number,
};

pub(crate) static WMEM_MAX: HostFile = HostFile {
    name: "wmem_max_bytes",
    summary: "The largest send buffer that a socket may ask for",
    path: "/proc/sys/net/core/wmem_max",
    form: number,
};

pub(crate) static NETDEV_BUDGET: HostFile = HostFile {
    name: "netdev_budget",
    summary: "Packets that one round of the receive softirq takes, over all devices",
    path: "/proc/sys/net/core/netdev_budget",
    form: number,
};

pub(crate) static NETDEV_BUDGET_USECS: HostFile = HostFile {
    name: "netdev_budget_usecs",
    summary: "How long one round of the receive softirq may take",
    path: "/proc/sys/net/core/netdev_budget_usecs",
    form: number,
};

pub(crate) static GRO_NORMAL_BATCH: HostFile = HostFile {
    name: "gro_normal_batch",
    summary: "Packets that GRO collects before it hands them up the stack",
    path: "/proc/sys/net/core/gro_normal_batch",
    form: number,
};

pub(crate) static RPS_SOCK_FLOW_ENTRIES: HostFile = HostFile {
    name: "rps_sock_flow_entries",
    summary: "Flows that RFS steers to the CPU of their reader; 0 is off",
    path: "/proc/sys/net/core/rps_sock_flow_entries",
    form: number,
};

pub(crate) static DEFAULT_QDISC: HostFile = HostFile {
    name: "default_qdisc",
    summary: "The queueing discipline that a new interface gets",
    path: "/proc/sys/net/core/default_qdisc",
    form: text,
};

pub(crate) static SOMAXCONN: HostFile = HostFile {
    name: "somaxconn",
    summary: "The longest queue of connections that wait to be accepted",
    path: "/proc/sys/net/core/somaxconn",
    form: number,
};

pub(crate) static LOCAL_PORT_RANGE: HostFile = HostFile {
    name: "ip_local_port_range",
    summary: "First and last port that the kernel gives to a connection that names none",
    path: "/proc/sys/net/ipv4/ip_local_port_range",
    form: numbers,
};
