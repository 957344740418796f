//! What is known of a path before anything is opened.

use std::fmt;

use hairpin_sys::wait::Policy;

use crate::option::{L3, OptionDef, Options};

/// The facts of one path.
#[derive(Debug)]
pub struct Path {
    /// The word in a path spec.
    pub name: &'static str,
    /// One line for `hairpin paths`.
    pub summary: &'static str,
    /// What goes over it, unless `l3=off` makes that frames without IP; two sides mix only if they speak the same.
    pub speaks: Speaks,
    /// How its messages travel.
    pub route: Route,
    /// The wait policies it takes; the first is its default.
    pub policies: &'static [Policy],
    /// The options it takes.
    pub options: &'static [&'static OptionDef],
    /// Payloads in bytes.
    pub payload: Payload,
    /// How much of everything a run may have.
    pub limits: Limits,
    /// All flows of a thread arrive at one place, so that every policy can wait on any number of them.
    pub waits_on_all: bool,
    /// A request occupies the thread until it is answered, so that no schedule can go on meanwhile.
    pub one_at_a_time: bool,
    /// `--nic`, `--rate` and `--cable` say whose latency it has.
    pub emulates: bool,
}

/// Which payloads a path carries.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    /// The largest over IPv4 and over IPv6, in bytes.
    pub most: [u32; 2],
    /// True if that is the only one.
    pub is_fixed: bool,
    /// Each request may have a size of its own, as in a recording.
    pub any_size: bool,
    /// Bytes of headers over IPv4 and over IPv6 that share a link's MTU with the payload, where a message must fit into one packet.
    pub headers_in_mtu: Option<[u32; 2]>,
}

/// The most of everything, where a path has a limit of its own.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests in flight on one flow.
    pub outstanding: u32,
    /// Flows of a run.
    pub flows: u32,
    /// Measuring threads of a side.
    pub threads: u32,
}

impl Limits {
    /// None.
    pub const NONE: Limits = Limits { outstanding: u32::MAX, flows: u32::MAX, threads: u32::MAX };
    /// One request, one flow.
    pub const ONE: Limits = Limits { outstanding: 1, flows: 1, threads: u32::MAX };
}

impl Path {
    /// What goes over it with these options.
    pub fn speaks(&self, options: &Options) -> Speaks {
        if options.get(&L3) == Some("off") { Speaks::Raw } else { self.speaks }
    }

    /// The largest payload in bytes.
    pub fn payload_limit(&self, ipv6: bool) -> u32 {
        self.payload.most[usize::from(ipv6)]
    }

    /// The one payload in bytes that it carries, if there is no choice.
    pub fn fixed_payload(&self) -> Option<u32> {
        self.payload.is_fixed.then(|| self.payload_limit(false))
    }

    /// Bytes of headers that share a link's MTU with the payload, where a message must fit into one packet.
    pub fn headers_in_mtu(&self, options: &Options, ipv6: bool) -> Option<u32> {
        let headers = self.payload.headers_in_mtu?[usize::from(ipv6)];
        Some(if self.speaks(options) == Speaks::Raw { hairpin_wire::raw::LEN as u32 } else { headers })
    }

    /// True if the path takes the wait policy of this name.
    pub fn takes_policy(&self, name: &str) -> bool {
        self.policies.iter().any(|policy| policy.name() == name)
    }

    /// True if the path takes this option.
    pub fn takes(&self, option: &OptionDef) -> bool {
        self.options.iter().any(|def| def.name == option.name)
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.name == other.name
    }
}

impl Eq for Path {}

/// What goes over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// A TCP stream, one connection per flow.
    Tcp,
    /// A TCP stream, one connection per transaction.
    TcpPerTransaction,
    /// UDP datagrams.
    Udp,
    /// Ethernet frames of Hairpin's own framing.
    Raw,
    /// Something that only processes of one host share; the name of the path, since no two of them mix.
    Local(&'static str),
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Speaks::Tcp | Speaks::TcpPerTransaction => "tcp",
            Speaks::Udp => "udp",
            Speaks::Raw => "raw",
            Speaks::Local(_) => "local",
        })
    }
}

/// How a path's messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The kernel's stack, from socket to socket.
    Sockets,
    /// AF_PACKET rings, beside the stack.
    PacketRing,
    /// AF_XDP rings, past the stack.
    XdpRing,
    /// Memory that both sides map; `ring`: frames in a ring whose library stamps them.
    Memory {
        /// Frames in a ring.
        ring: bool,
    },
    /// The kernel's local channels: UNIX sockets, pipes, eventfd.
    Channel,
}

impl Route {
    /// True if its messages pass a ring whose library stamps them.
    pub fn has_ring(self) -> bool {
        matches!(self, Route::PacketRing | Route::XdpRing | Route::Memory { ring: true })
    }
}

/// What lies between the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Another host.
    Host,
    /// The loopback device.
    Loopback,
    /// Two network namespaces.
    Veth,
    /// A plain echo service.
    Echo,
    /// Whatever returns Ethernet frames.
    Reflector,
}
