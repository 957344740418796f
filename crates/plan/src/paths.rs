//! The list of paths.

use hairpin_sys::shared::Line;
use hairpin_sys::umem::MAX_CHUNK;
use hairpin_sys::wait::Policy;
use hairpin_wire::ethernet;
use hairpin_wire::framing::{ETHERNET_HEADER, IPV4_HEADER, IPV6_HEADER, UDP_HEADER, UDP_MAX_PAYLOAD_V4, UDP_MAX_PAYLOAD_V6};

use crate::option::{
    BUDGET, BUSY_USECS, CLOSES, CONGESTION, CONNECTED, CORK, DELAY, DSCP, FAVOUR, L3, MODE, MSS, NAPI, NAPI_USECS, NODELAY,
    PREFER, PRIORITY, QUEUE, QUICKACK, RCVBUF, RECV, RING, SEND, SEND_QUEUE, SNDBUF, SUBMIT, SUSPEND_USECS, TTL, USECS, WAIT,
    WRITES, ZERO_COPY,
};
use crate::path::{Limits, Path, Payload, Route, Speaks};

/// All paths, in display order.
pub static PATHS: &[&Path] =
    &[&TCP, &TCP_CRR, &UDP, &URING_TCP, &URING_UDP, &PACKET, &XDP, &UNIX, &UNIX_DGRAM, &PIPE, &EVENTFD, &MEMORY, &NIQ];

/// The path called `name`.
pub fn by_name(name: &str) -> Option<&'static Path> {
    PATHS.iter().copied().find(|path| path.name == name)
}

/// The paths measured by default.
pub static DEFAULT: [&Path; 2] = [&TCP, &UDP];
/// The path measured by default towards a reflector.
pub static TOWARDS_REFLECTOR: [&Path; 1] = [&PACKET];
/// Paths with which others are compared; the first of them that was measured counts.
pub static PLAIN: [&Path; 2] = [&UDP, &TCP];

/// The path that the demonstration measures at low rates too.
pub static PACED: &Path = &UDP;

/// The path to a UNIX socket of another program.
pub static TOWARDS_SOCKET: [&Path; 1] = [&UNIX];

/// The names of the paths that carry a request of the user's own.
pub fn taking_requests() -> Vec<&'static str> {
    PATHS.iter().filter(|path| path.takes_request).map(|path| path.name).collect()
}

/// The paths of the client's and the server's side of a spec, such as a record has; `None` for one that this version does not
/// know.
pub fn sides(spec: &str) -> [Option<&'static Path>; 2] {
    let (client, server) = spec.split_once('/').unwrap_or((spec, spec));
    [client, server].map(|side| by_name(side.split(':').next().unwrap_or_default()))
}

/// Largest payload of a stream: 64 KiB.
const STREAM_LIMIT: u32 = 65_536;
const IPV4: u32 = (IPV4_HEADER + UDP_HEADER) as u32;
const IPV6: u32 = (IPV6_HEADER + UDP_HEADER) as u32;
/// Longest frame of the emulated NIC in bytes, without FCS.
pub const NIQ_LONGEST: u32 = 9_000;

const LOCAL_POLICIES: [Policy; 5] = [Policy::Block, Policy::Poll, Policy::Epoll, Policy::Spin, Policy::Adaptive];

/// A thread waits for any of its flows in one place, so there is no need of `poll` and `epoll`.
const URING_POLICIES: [Policy; 2] = [Policy::Block, Policy::Spin];

const fn up_to(most: u32) -> Payload {
    Payload { most: [most; 2], is_fixed: false, any_size: false, headers_in_mtu: None }
}

/// Payload of a frame in a chunk of its own: any MTU.
const FRAMES: Payload = {
    let most = MAX_CHUNK as u32 - ethernet::LEN as u32;
    Payload { most: [most - IPV4, most - IPV6], headers_in_mtu: Some([IPV4, IPV6]), ..up_to(0) }
};

/// Base of most paths: the kernel's own connections.
const SOCKETS: Path = Path {
    name: "",
    summary: "",
    speaks: Speaks::Tcp,
    route: Route::Sockets,
    policies: &Policy::ALL,
    options: &[],
    payload: up_to(STREAM_LIMIT),
    limits: Limits::NONE,
    waits_on_all: false,
    one_at_a_time: false,
    takes_stack: false,
    nic_stamps: false,
    takes_request: false,
    takes_group: false,
    emulates: false,
};

/// Base of the paths between processes of one host.
const CHANNEL: Path = Path { route: Route::Channel, policies: &LOCAL_POLICIES, options: &[&USECS], ..SOCKETS };

/// Base of the rings of whole frames: one queue, and so one thread.
const RING_PATH: Path =
    Path { speaks: Speaks::Udp, payload: FRAMES, limits: Limits { threads: 1, ..Limits::NONE }, waits_on_all: true, ..SOCKETS };

pub static TCP: Path = Path {
    name: "tcp",
    summary: "request and reply over one standing TCP connection per flow",
    limits: Limits::MANY,
    options: &[
        &NODELAY,
        &QUICKACK,
        &WRITES,
        &CORK,
        &CONGESTION,
        &MSS,
        &SNDBUF,
        &RCVBUF,
        &DSCP,
        &PRIORITY,
        &DELAY,
        &USECS,
        &BUSY_USECS,
        &BUDGET,
        &PREFER,
        &SUSPEND_USECS,
    ],
    takes_stack: true,
    nic_stamps: true,
    takes_request: true,
    ..SOCKETS
};

pub static TCP_CRR: Path = Path {
    name: "tcp-crr",
    summary: "a new TCP connection per transaction: connect, request, reply, close",
    speaks: Speaks::TcpPerTransaction,
    policies: &[Policy::Block, Policy::Poll, Policy::Spin],
    options: &[&CLOSES, &NODELAY, &CORK, &CONGESTION, &MSS, &SNDBUF, &RCVBUF, &DSCP, &PRIORITY],
    limits: Limits::ONE,
    one_at_a_time: true,
    takes_stack: true,
    takes_request: true,
    ..SOCKETS
};

/// Base of the paths over UDP sockets.
const UDP_SOCKETS: Path = Path {
    speaks: Speaks::Udp,
    limits: Limits::MANY,
    payload: Payload { most: [UDP_MAX_PAYLOAD_V4 as u32, UDP_MAX_PAYLOAD_V6 as u32], any_size: true, ..up_to(0) },
    ..SOCKETS
};

pub static UDP: Path = Path {
    name: "udp",
    summary: "one UDP datagram there, one back, over connected sockets",
    options: &[
        &CONNECTED,
        &SNDBUF,
        &RCVBUF,
        &DSCP,
        &PRIORITY,
        &TTL,
        &DELAY,
        &USECS,
        &BUSY_USECS,
        &BUDGET,
        &PREFER,
        &SUSPEND_USECS,
    ],
    takes_stack: true,
    nic_stamps: true,
    takes_group: true,
    ..UDP_SOCKETS
};

pub static URING_TCP: Path = Path {
    name: "uring-tcp",
    summary: "as tcp, the messages through io_uring instead of send and recv",
    route: Route::Uring,
    limits: Limits::MANY,
    policies: &URING_POLICIES,
    options: &[
        &RECV,
        &SEND,
        &SUBMIT,
        &RING,
        &NAPI,
        &NAPI_USECS,
        &WAIT,
        &NODELAY,
        &CORK,
        &CONGESTION,
        &MSS,
        &SNDBUF,
        &RCVBUF,
        &DSCP,
        &PRIORITY,
        &DELAY,
    ],
    waits_on_all: true,
    ..SOCKETS
};

pub static URING_UDP: Path = Path {
    name: "uring-udp",
    summary: "as udp, the datagrams through io_uring instead of send and recv",
    route: Route::Uring,
    policies: &URING_POLICIES,
    options: &[&RECV, &SEND, &SUBMIT, &RING, &NAPI, &NAPI_USECS, &WAIT, &SNDBUF, &RCVBUF, &DSCP, &PRIORITY, &DELAY],
    waits_on_all: true,
    ..UDP_SOCKETS
};

pub static PACKET: Path = Path {
    name: "packet",
    summary: "UDP in frames of our own over AF_PACKET rings, beside the kernel's stack",
    route: Route::PacketRing,
    policies: &[Policy::Block, Policy::Spin, Policy::Adaptive],
    options: &[&L3, &FAVOUR, &DSCP, &USECS],
    nic_stamps: true,
    ..RING_PATH
};

pub static XDP: Path = Path {
    name: "xdp",
    summary: "UDP in frames of our own over AF_XDP rings, past the kernel's stack",
    route: Route::XdpRing,
    policies: &[Policy::Block, Policy::Spin, Policy::BusyPoll, Policy::Adaptive],
    options: &[&L3, &QUEUE, &SEND_QUEUE, &MODE, &ZERO_COPY, &DSCP, &USECS],
    nic_stamps: true,
    ..RING_PATH
};

pub static UNIX: Path = Path {
    name: "unix",
    summary: "request and reply over a pair of UNIX stream sockets",
    speaks: Speaks::Local("unix"),
    options: &[&SNDBUF, &USECS],
    takes_request: true,
    ..CHANNEL
};

pub static UNIX_DGRAM: Path = Path {
    name: "unix-dgram",
    summary: "one datagram there, one back, over a pair of UNIX datagram sockets",
    speaks: Speaks::Local("unix-dgram"),
    options: &[&SNDBUF, &USECS],
    // The kernel's limit is the send buffer less 32 bytes (unix_dgram_sendmsg): 212,960 with its default.
    payload: Payload { any_size: true, ..up_to(65_536) },
    ..CHANNEL
};

pub static PIPE: Path = Path {
    name: "pipe",
    summary: "request and reply over two pipes, one per direction",
    speaks: Speaks::Local("pipe"),
    payload: up_to(65_536),
    ..CHANNEL
};

pub static EVENTFD: Path = Path {
    name: "eventfd",
    summary: "eight bytes through two eventfd counters: the cost of waking the other side",
    speaks: Speaks::Local("eventfd"),
    payload: Payload { is_fixed: true, ..up_to(8) },
    limits: Limits { outstanding: 1, ..Limits::NONE },
    ..CHANNEL
};

pub static MEMORY: Path = Path {
    name: "memory",
    summary: "one cache line between the two cores: the floor of every path",
    speaks: Speaks::Local("memory"),
    route: Route::Memory { ring: false },
    policies: &[Policy::Spin],
    payload: up_to(Line::CAPACITY as u32),
    limits: Limits::ONE,
    ..SOCKETS
};

pub static NIQ: Path = Path {
    name: "niq",
    summary: "an emulated low-latency NIC of two ports in shared memory; --nic and --link-rate say whose latency it has",
    speaks: Speaks::Local("niq"),
    route: Route::Memory { ring: true },
    policies: &[Policy::Spin, Policy::Block],
    payload: Payload { headers_in_mtu: Some([IPV4; 2]), ..up_to(NIQ_LONGEST - ETHERNET_HEADER as u32 - IPV4) },
    emulates: true,
    ..RING_PATH
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_a_recorded_spec_are_found() {
        let names = |spec| sides(spec).map(|side| side.map(|path| path.name));
        assert_eq!(names("xdp:spin,mode=native/udp:block"), [Some("xdp"), Some("udp")]);
        assert_eq!(names("memory"), [Some("memory"); 2]);
        assert_eq!(names("later:spin/udp:block"), [None, Some("udp")]);
    }

    #[test]
    fn no_path_is_named_like_a_policy_and_each_has_a_default() {
        for path in PATHS {
            assert!(path.name.parse::<Policy>().is_err(), "{}", path.name);
            assert!(!path.policies.is_empty(), "{}", path.name);
        }
    }
}
