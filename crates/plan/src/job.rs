//! What both sides of a row are asked to do: made by the verb, carried by the session, read by the paths.

mod check;

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use hairpin_sys::thread::Sched;
use hairpin_units::Nanos;
use serde::{Deserialize, Serialize};

pub use self::check::Refused;
use crate::schedule::OpenLoop;
use crate::spec::Spec;

/// One row: a path at one size, and how it is to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The path of both sides.
    pub spec: Spec,
    /// Payload of a request in bytes; the largest, where an open loop has several.
    pub request: u32,
    /// Payload of a reply in bytes.
    pub reply: u32,
    /// Flows over all threads.
    pub flows: u32,
    /// Measuring threads of each side.
    pub threads: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// Measured time with its gaps; `None`: endless, or until `count`.
    pub duration: Option<Nanos>,
    /// Transactions over all flows.
    pub count: Option<u64>,
    /// Discarded time before.
    pub warmup: Nanos,
    /// Requests per second on a schedule; `None`: closed loop.
    pub pace: Option<f64>,
    /// Requests on a schedule, however many are in flight: the client's affair. `None`: closed loop, or `pace`.
    #[serde(default)]
    pub open: Option<OpenLoop>,
    /// Silence that ends the run.
    pub timeout: Nanos,
    /// The first CPU of each side; its threads take the following ones.
    pub cpus: Sides<Option<u32>>,
    /// Scheduling of the measuring threads.
    pub sched: Schedule,
    /// The client's source port.
    pub local_port: LocalPort,
    /// Compare whole payloads.
    pub verify: bool,
    /// Proves that a message belongs to this session; in every payload of 16 bytes and more.
    pub cookie: u64,
    /// The peer is a plain echo service or a reflector: no session, no proof of address.
    pub plain_peer: bool,
    /// Keep every sample for `--raw`.
    pub raw: bool,
    /// Leave the stamps of each transaction to a tracer, in blocks that wait for it.
    #[serde(default)]
    pub traced: bool,
    /// With the kernel's stamps of its packets (`SO_TIMESTAMPING`) while the tracer wants them; `udp` only.
    #[serde(default)]
    pub socket_stamps: bool,
    /// What the path `niq` is to take for a frame; `None`: shared memory as it is. Other paths do not look at it.
    #[serde(default)]
    pub emulated: Option<Emulated>,
}

impl Job {
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
            emulated: None,
        }
    }
}

/// The latency that a declared NIC and link have, for frames of the two sizes of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulated {
    /// The NIC design.
    pub nic: String,
    /// The times are from program to program, so that the part of this program has to come off them.
    pub whole: bool,
    /// A request's frame.
    pub request: FrameTimes,
    /// A reply's frame.
    pub reply: FrameTimes,
}

/// One frame's way, in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameTimes {
    /// Until the first bit is on the link, if that is free.
    pub out_ps: i64,
    /// How long the frame keeps the next one off the link.
    pub link_ps: i64,
    /// From the first bit on the link until the frame can be received.
    pub rest_ps: i64,
}

impl FrameTimes {
    /// With so much less before the link or, as far as there is not so much, behind it.
    pub fn without(self, ps: i64) -> FrameTimes {
        let out_ps = (self.out_ps - ps).max(0);
        let rest_ps = (self.rest_ps - (ps - (self.out_ps - out_ps))).max(0);
        FrameTimes { out_ps, rest_ps, ..self }
    }

    /// One way over a link that is free, in ps.
    pub fn one_way_ps(&self) -> i64 {
        self.out_ps.saturating_add(self.rest_ps)
    }
}

/// A pair: one for each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides<T> {
    /// The client's.
    pub client: T,
    /// The server's.
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
    /// As `sys` wants it.
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
    /// This one, for flow 0; flow n takes the n-th after it.
    Fixed(u16),
    /// Flows (and the connections of `tcp-crr`) go round N ports in turn.
    Rotate(u16),
}

/// Where a server's side can be met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// An IP address and port.
    Inet(SocketAddr),
    /// The name of an abstract UNIX socket in this network namespace.
    Local(String),
    /// No server: whatever returns Ethernet frames.
    Reflector(Reflector),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => write!(f, "the address {address}"),
            Address::Local(name) => write!(f, "the local socket {name}"),
            Address::Reflector(reflector) => write!(f, "a reflector on {}", reflector.interface),
        }
    }
}

/// Something that returns Ethernet frames: a bouncing host, a looped cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reflector {
    /// The interface that it is reached by.
    pub interface: String,
    /// Whom frames are sent to; `None`: this interface's own address.
    pub destination: Option<[u8; 6]>,
    /// What it does to a frame.
    pub rewrite: Rewrite,
}

/// `--rewrite none|macs`: what a reflector does to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rewrite {
    /// Nothing: it comes back as it went.
    #[default]
    None,
    /// Its Ethernet addresses come back exchanged.
    Macs,
}

/// Where the server's side is to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// Address of the data sockets.
    pub address: IpAddr,
    /// First and last port to choose from; `None`: the kernel chooses.
    pub ports: Option<(u16, u16)>,
    /// Where the client is expected from; other addresses are not answered.
    pub client: IpAddr,
    /// The index of the interface that both addresses belong to, where they mean nothing without: link-local ones of IPv6. Else 0.
    #[serde(default)]
    pub scope: u32,
}

impl Listen {
    /// Where a data socket on this port is bound.
    pub fn at(&self, port: u16) -> SocketAddr {
        scoped(self.address, port, self.scope)
    }
}

/// The address, of that interface if it is one of IPv6.
pub fn scoped(address: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match address {
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope).into(),
        IpAddr::V4(_) => SocketAddr::new(address, port),
    }
}

/// The interface's index that an address carries; 0: none.
pub fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// `rotate:N` goes round the N ports from here: below the range that Linux hands out by itself (32768 to 60999).
pub const FIRST_ROTATED: u16 = 16_384;
/// The most flows of a run: as many as a listening socket's queue holds.
pub const MOST_FLOWS: u32 = 1024;
/// The most requests in flight over all flows: the table of them stays in a few MiB.
pub const MOST_IN_FLIGHT: u64 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_interface_if_it_is_one_of_ipv6() {
        let local: IpAddr = "fe80::1".parse().unwrap();
        let listen = Listen { address: local, ports: None, client: local, scope: 3 };
        assert_eq!((listen.at(7).to_string().as_str(), scope_of(listen.at(7))), ("[fe80::1%3]:7", 3));
        let v4 = Listen { address: [192, 0, 2, 1].into(), ..listen };
        assert_eq!((v4.at(7).to_string().as_str(), scope_of(v4.at(7))), ("192.0.2.1:7", 0));
    }
}
