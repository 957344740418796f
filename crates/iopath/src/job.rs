//! What both sides of a row are asked to do: made by the verb, carried by the session, read by the paths.

use std::net::{IpAddr, SocketAddr};

use hairpin_sys::thread::Sched;
use hairpin_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::spec::Spec;

/// One row: a path at one size, and how it is to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The path of both sides.
    pub spec: Spec,
    /// Payload of a request in bytes.
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
    /// The peer is a plain echo service: no session, no proof of address.
    pub plain_peer: bool,
    /// Keep every sample for `--raw`.
    pub raw: bool,
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
}
