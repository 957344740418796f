//! The job of both sides of a row: made by the verb, carried by the session, read by the paths.

mod check;
pub mod group;

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::time::Duration;

use hairpin_sys::thread::Sched;
use hairpin_sys::wait::Policy;
use hairpin_units::Nanos;
use serde::{Deserialize, Serialize};

pub use self::check::Refused;
use self::group::Group;
use crate::option::DELAY;
use crate::path::Route;
use crate::request::Request;
use crate::schedule::OpenLoop;
use crate::spec::Spec;

/// One row: a path at one size, and how to measure it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The path of both sides.
    pub spec: Spec,
    /// Payload of a request in bytes; in an open loop with several sizes, the largest.
    pub request: u32,
    /// Payload of a reply in bytes.
    pub reply: u32,
    /// Flows over all threads.
    pub flows: u32,
    /// Measuring threads of each side.
    pub threads: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// Measured time, gaps included; `None`: endless, or until `count`.
    pub duration: Option<Nanos>,
    /// Transactions over all flows.
    pub count: Option<u64>,
    /// Warm-up time, discarded.
    pub warmup: Nanos,
    /// Requests per second on a schedule, one in flight; `None`: no such schedule.
    pub pace: Option<f64>,
    /// Requests on a schedule, however many are in flight; only the client uses it. `None`: closed loop, or `pace`.
    #[serde(default)]
    pub open: Option<OpenLoop>,
    /// Silence after which the run ends.
    pub timeout: Nanos,
    /// First CPU of each side; its threads take the following ones.
    pub cpus: Sides<Option<u32>>,
    /// Scheduling of the measuring threads.
    pub sched: Schedule,
    /// The client's source port.
    pub local_port: LocalPort,
    /// Compares whole payloads.
    pub verify: bool,
    /// Proves that a message belongs to this session; carried in every payload of 16 bytes and more.
    pub cookie: u64,
    /// The peer is a plain echo service or a reflector: no session, no proof of address.
    pub plain_peer: bool,
    /// Keeps every sample for `--raw`.
    pub raw: bool,
    /// Leaves the stamps of each transaction to a tracer, in blocks that wait for it.
    #[serde(default)]
    pub traced: bool,
    /// Adds the kernel's timestamps of its packets (`SO_TIMESTAMPING`) while the tracer wants them; `udp` only.
    #[serde(default)]
    pub socket_stamps: bool,
    /// Adds the stamps of NIC and driver in blocks of their own, from which no figure of the row comes (`--hw-stamps`).
    #[serde(default)]
    pub nic_stamps: Option<NicStamps>,
    /// Latency that the path `niq` emulates for a frame; `None`: plain shared memory. Other paths ignore it.
    #[serde(default)]
    pub emulated: Option<Emulated>,
    /// The user's own request, to a server of another program; `request` is then its length, and `reply` the length of the reply
    /// if it is known, else 0.
    #[serde(default)]
    pub own: Option<Request>,
    /// The multicast group that is asked in place of one server.
    #[serde(default)]
    pub group: Option<Group>,
}

/// The most requests per second of a probe …
pub const PROBE_PER_S: f64 = 100.0;
/// … its most flows …
pub const PROBE_FLOWS: u32 = 8;
/// … and its largest payload, which a jumbo frame takes.
pub const PROBE_BYTES: u32 = 8_900;

/// Time for a flow to open, in addition to the timeout: 20,000 flows over a way of 100 ms there and back take some 32 s.
const OPENS_WITHIN: Duration = Duration::from_millis(5);
/// Most time for the handshakes of TLS of all flows, one after the other: 20,000 over the same way take some 35 minutes.
const HANDSHAKES_WITHIN: Duration = Duration::from_secs(3_600);

impl Job {
    /// All flows are open within this time, or the row fails. Each must open, and then shake hands, within `timeout` of the one
    /// before.
    pub fn opens_within(&self) -> Duration {
        let timeout = Duration::from(self.timeout);
        let tls = self.own.as_ref().and_then(|own| own.tls.as_ref());
        let handshakes = tls.map_or(Duration::ZERO, |_| timeout.saturating_mul(self.flows).min(HANDSHAKES_WITHIN));
        timeout + self.flows * OPENS_WITHIN + handshakes
    }

    /// True if a side has an XDP program, which may take down the link between two hosts as it comes and goes.
    pub fn may_take_link_down(&self) -> bool {
        [&self.spec.client, &self.spec.server].iter().any(|side| side.path.route == Route::XdpRing)
    }

    /// True if a server can answer this job beside others of its kind: few requests on few flows, a server's side that sleeps
    /// between them and is an ordinary thread with ordinary sockets, and nothing that follows its packets.
    pub fn is_probe(&self) -> bool {
        let server = &self.spec.server;
        let polls = server.device_polling_usecs().is_some() || server.options.number(&DELAY).is_some();
        let sleeps = matches!(server.policy, Policy::Block | Policy::Poll | Policy::Epoll) && !polls;
        let ordinary = matches!(server.path.route, Route::Sockets) && self.sched == Schedule::Other;
        let followed = self.traced || self.socket_stamps || self.nic_stamps.is_some();
        let few = self.pace.is_some_and(|per_s| per_s <= PROBE_PER_S) && self.flows <= PROBE_FLOWS && self.threads == 1;
        few && sleeps && ordinary && !followed && self.open.is_none() && self.request.max(self.reply) <= PROBE_BYTES
    }

    /// One row with the defaults of `hairpin ping`.
    pub fn new(spec: Spec) -> Job {
        Job {
            spec,
            request: 64,
            reply: 64,
            flows: 1,
            threads: 1,
            outstanding: 1,
            duration: Some(Nanos::from_secs(10)),
            count: None,
            warmup: Nanos::from_millis(500),
            pace: None,
            open: None,
            timeout: Nanos::from_secs(5),
            cpus: Sides::default(),
            sched: Schedule::Other,
            local_port: LocalPort::Any,
            verify: false,
            cookie: 1,
            plain_peer: false,
            raw: false,
            traced: false,
            socket_stamps: false,
            nic_stamps: None,
            emulated: None,
            own: None,
            group: None,
        }
    }
}

/// `--hw-stamps[=N/s]`: which transactions are stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NicStamps {
    /// Upper limit of stamped transactions per second, for devices that stamp one packet at a time; `None`: all are stamped.
    pub per_s: Option<f64>,
}

/// The latency of a declared NIC and link, for frames of the job's two sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulated {
    /// The NIC design.
    pub nic: String,
    /// The times are from program to program, so this program's own part must be subtracted.
    pub whole: bool,
    /// Times of a request's frame.
    pub request: FrameTimes,
    /// Times of a reply's frame.
    pub reply: FrameTimes,
}

/// Times of one frame on its way, in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameTimes {
    /// Until the first bit is on the link, if the link is free.
    pub out_ps: i64,
    /// Time for which the frame keeps the next one off the link.
    pub link_ps: i64,
    /// From the first bit on the link until the receiver can take the frame.
    pub rest_ps: i64,
}

impl FrameTimes {
    /// Subtracts `ps` from the time before the link and, if that is too short, the remainder from the time after it.
    pub fn without(self, ps: i64) -> FrameTimes {
        let out_ps = (self.out_ps - ps).max(0);
        let rest_ps = (self.rest_ps - (ps - (self.out_ps - out_ps))).max(0);
        FrameTimes { out_ps, rest_ps, ..self }
    }

    /// Latency of one way over a free link, in ps.
    pub fn one_way_ps(&self) -> i64 {
        self.out_ps.saturating_add(self.rest_ps)
    }
}

/// One value per side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides<T> {
    pub client: T,
    pub server: T,
}

/// `--sched other|fifo:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// The kernel's fair class.
    #[default]
    Other,
    /// SCHED_FIFO at this priority, 1 to 99, with locked memory.
    Fifo(u8),
}

impl Schedule {
    /// The policy in terms of crate `sys`.
    pub fn policy(self) -> Sched {
        match self {
            Schedule::Other => Sched::Other,
            Schedule::Fifo(priority) => Sched::Fifo(priority),
        }
    }
}

/// `--local-port P|rotate:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocalPort {
    /// The kernel chooses.
    #[default]
    Any,
    /// This port for flow 0; flow n uses this port + n.
    Fixed(u16),
    /// Flows (and the connections of `tcp-crr`) cycle through N ports.
    Rotate(u16),
}

/// Address of a server's side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// An IP address and port.
    Inet(SocketAddr),
    /// The name of an abstract UNIX socket in this network namespace.
    Local(String),
    /// A UNIX socket in the file system, of a server of another program.
    Socket(PathBuf),
    /// No server: a device that returns Ethernet frames.
    Reflector(Reflector),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => write!(f, "the address {address}"),
            Address::Local(name) => write!(f, "the local socket {name}"),
            Address::Socket(path) => write!(f, "the UNIX socket {}", path.display()),
            Address::Reflector(reflector) => write!(f, "a reflector on {}", reflector.interface),
        }
    }
}

/// A device that returns Ethernet frames: a bouncing host, a looped cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reflector {
    /// The interface that leads to it.
    pub interface: String,
    /// Destination address of the frames; `None`: this interface's own.
    pub destination: Option<[u8; 6]>,
    /// The change it makes to a frame.
    pub rewrite: Rewrite,
}

/// `--rewrite none|macs`: the change a reflector makes to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rewrite {
    /// The frame comes back unchanged.
    #[default]
    None,
    /// The frame comes back with its Ethernet addresses swapped.
    Macs,
}

/// Address and ports for the server's side to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// Address of the data sockets.
    pub address: IpAddr,
    /// First and last port to choose from; `None`: the kernel chooses.
    pub ports: Option<(u16, u16)>,
    /// Expected address of the client; others get no answer.
    pub client: IpAddr,
    /// Index of the interface of both addresses if they are link-local ones of IPv6, which need it; else 0.
    #[serde(default)]
    pub scope: u32,
}

impl Listen {
    /// Address to bind a data socket on `port` to.
    pub fn at(&self, port: u16) -> SocketAddr {
        scoped(self.address, port, self.scope)
    }
}

/// The socket address, with `scope` as interface if it is one of IPv6.
pub fn scoped(address: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match address {
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope).into(),
        IpAddr::V4(_) => SocketAddr::new(address, port),
    }
}

/// The interface index in an address; 0: none.
pub fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// First port of `rotate:N`: below the range that Linux hands out (32768 to 60999).
pub const FIRST_ROTATED: u16 = 16_384;
/// Most requests in flight over all flows: their table stays within a few MiB.
pub const MOST_IN_FLIGHT: u64 = 65_536;
/// Most bytes of them that a server on another host takes.
pub const MOST_BYTES_IN_FLIGHT: u64 = 64 << 20;
/// Most measuring threads of a side: each has a stack, a histogram and its own table of the side's descriptors.
pub const MOST_THREADS: u32 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ReplyEnd, Tls};

    #[test]
    fn a_probe_is_slow_small_and_sleeps() {
        let probe = |spec: &str| Job { pace: Some(100.0), ..Job::new(spec.parse().unwrap()) };
        for spec in ["udp", "tcp", "tcp-crr", "udp:epoll", "tcp:poll", "udp:spin/block"] {
            assert!(probe(spec).is_probe(), "{spec}");
        }
        for spec in [
            "udp:spin",
            "udp:busy-poll",
            "udp:adaptive",
            "udp:block/spin",
            "packet",
            "xdp",
            "udp:epoll,busy-usecs=50",
            "uring-udp",
            "udp:block,delay=1000",
        ] {
            assert!(!probe(spec).is_probe(), "{spec}");
        }
        let of = |change: fn(&mut Job)| {
            let mut job = probe("udp");
            change(&mut job);
            job.is_probe()
        };
        assert!(of(|job| (job.flows, job.request, job.duration) = (8, 8_900, None)));
        for change in [
            |job: &mut Job| job.pace = None,
            |job: &mut Job| job.pace = Some(100.1),
            |job: &mut Job| job.pace = Some(f64::NAN),
            |job: &mut Job| job.flows = 9,
            |job: &mut Job| (job.flows, job.threads) = (2, 2),
            |job: &mut Job| job.reply = 8_901,
            |job: &mut Job| job.sched = Schedule::Fifo(1),
            |job: &mut Job| job.traced = true,
            |job: &mut Job| job.nic_stamps = Some(NicStamps::default()),
        ] {
            assert!(!of(change));
        }
    }

    #[test]
    fn an_xdp_program_of_either_side_may_take_the_link_down() {
        let may = |spec: &str| Job::new(spec.parse().unwrap()).may_take_link_down();
        assert_eq!(["xdp", "xdp/udp", "udp/xdp", "udp", "packet"].map(may), [true, true, true, false, false]);
    }

    #[test]
    fn a_slow_server_may_shake_hands_with_each_flow_in_turn() {
        let within = |flows, tls| {
            let own = Request { name: "x".into(), bytes: b"x".into(), end: ReplyEnd::Resp, tls };
            Job { flows, own: Some(own), ..Job::new("tcp:poll".parse().unwrap()) }.opens_within()
        };
        let handshakes = |flows| within(flows, Some(Tls::default())) - within(flows, None);
        assert_eq!(handshakes(5), Duration::from_secs(25));
        assert_eq!(handshakes(20_000), Duration::from_secs(3_600));
    }

    #[test]
    fn an_ipv6_address_keeps_its_interface() {
        let local: IpAddr = "fe80::1".parse().unwrap();
        let listen = Listen { address: local, ports: None, client: local, scope: 3 };
        assert_eq!((listen.at(7).to_string().as_str(), scope_of(listen.at(7))), ("[fe80::1%3]:7", 3));
        let v4 = Listen { address: [192, 0, 2, 1].into(), ..listen };
        assert_eq!((v4.at(7).to_string().as_str(), scope_of(v4.at(7))), ("192.0.2.1:7", 0));
    }
}
