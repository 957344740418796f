//! The sysctls of TCP that move round trips; a thread sees those of its own network namespace. They hold for IPv6 as well.

use crate::reading::{HostFile, number, numbers, text};

pub(crate) static CONGESTION_CONTROL: HostFile = HostFile {
    name: "tcp_congestion_control",
    summary: "The congestion control of a connection that does not ask",
    path: "/proc/sys/net/ipv4/tcp_congestion_control",
    form: text,
};

pub(crate) static TIMESTAMPS: HostFile = HostFile {
    name: "tcp_timestamps",
    summary: "Whether segments carry timestamps, 12 bytes each",
    path: "/proc/sys/net/ipv4/tcp_timestamps",
    form: number,
};

pub(crate) static SACK: HostFile = HostFile {
    name: "tcp_sack",
    summary: "Whether the receiver says which segments arrived after a gap",
    path: "/proc/sys/net/ipv4/tcp_sack",
    form: number,
};

pub(crate) static AUTOCORKING: HostFile = HostFile {
    name: "tcp_autocorking",
    summary: "Whether small sends wait for an earlier packet still in the device's queue",
    path: "/proc/sys/net/ipv4/tcp_autocorking",
    form: number,
};

pub(crate) static SLOW_START_AFTER_IDLE: HostFile = HostFile {
    name: "tcp_slow_start_after_idle",
    summary: "Whether the congestion window shrinks while a connection idles",
    path: "/proc/sys/net/ipv4/tcp_slow_start_after_idle",
    form: number,
};

pub(crate) static LOW_LATENCY: HostFile = HostFile {
    name: "tcp_low_latency",
    summary: "Whether TCP prefers latency to throughput; without effect since Linux 4.14",
    path: "/proc/sys/net/ipv4/tcp_low_latency",
    form: number,
};

pub(crate) static PINGPONG_THRESH: HostFile = HostFile {
    name: "tcp_pingpong_thresh",
    summary: "Replies after which a connection counts as interactive and its ACKs are delayed",
    path: "/proc/sys/net/ipv4/tcp_pingpong_thresh",
    form: number,
};

pub(crate) static RMEM: HostFile = HostFile {
    name: "tcp_rmem_bytes",
    summary: "Receive buffer of a TCP connection: least, at first, most",
    path: "/proc/sys/net/ipv4/tcp_rmem",
    form: numbers,
};

pub(crate) static WMEM: HostFile = HostFile {
    name: "tcp_wmem_bytes",
    summary: "Send buffer of a TCP connection: least, at first, most",
    path: "/proc/sys/net/ipv4/tcp_wmem",
    form: numbers,
};

pub(crate) static TW_REUSE: HostFile = HostFile {
    name: "tcp_tw_reuse",
    summary: "Whether a new connection may take over the ports of one in TIME_WAIT",
    path: "/proc/sys/net/ipv4/tcp_tw_reuse",
    form: number,
};
