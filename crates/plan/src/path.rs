//! Facts of a path that are known before anything is opened.

use std::fmt;

use hairpin_sys::wait::Policy;

use hairpin_wire::raw::Shape;

use crate::option::{L3, OptionDef, Options};

#[derive(Debug)]
pub struct Path {
    /// Name in a path spec.
    pub name: &'static str,
    /// One-line summary for `hairpin paths`.
    pub summary: &'static str,
    /// Protocol, unless `l3=off` turns it into frames without IP; the two sides must speak the same.
    pub speaks: Speaks,
    /// Way of its messages.
    pub route: Route,
    /// Wait policies; the first is the default.
    pub policies: &'static [Policy],
    pub options: &'static [&'static OptionDef],
    /// Allowed payloads.
    pub payload: Payload,
    pub limits: Limits,
    /// All flows of a thread arrive in one place, so that every policy can wait on any number of them.
    pub waits_on_all: bool,
    /// A request occupies the thread until it is answered, so it cannot follow a schedule.
    pub one_at_a_time: bool,
    /// Its messages go through the C library's socket calls, where a library loaded before it can carry them (`--stack`).
    pub takes_stack: bool,
    /// Driver and NIC can stamp its packets, each with the message that it belongs to (`--hw-stamps`).
    pub nic_stamps: bool,
    /// It carries a request of the user's own to a server of another program (`--request`).
    pub takes_request: bool,
    /// A multicast group can be asked.
    pub takes_group: bool,
    /// `--nic`, `--link-rate` and `--cable` declare the latency to emulate.
    pub emulates: bool,
}

/// Payloads that a path carries.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    /// Largest payload over IPv4 and over IPv6, in bytes.
    pub most: [u32; 2],
    /// True if that size is the only one.
    pub is_fixed: bool,
    /// Each request may have its own size, as in a recording.
    pub any_size: bool,
    /// Bytes of headers over IPv4 and over IPv6 that count towards the link's MTU together with the payload, on paths where a
    /// message must fit into one packet.
    pub headers_in_mtu: Option<[u32; 2]>,
}

/// Limits of a path itself.
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
    /// No limits but that of flows: each is opened, or handed to the client, by itself.
    pub const NONE: Limits = Limits { outstanding: u32::MAX, flows: 1_024, threads: u32::MAX };
    /// Flows that are opened in batches: most of the 28,232 ports that a host has for connections to one address by default.
    pub const MANY: Limits = Limits { flows: 20_000, ..Limits::NONE };
    /// One request in flight, one flow.
    pub const ONE: Limits = Limits { outstanding: 1, flows: 1, threads: u32::MAX };
}

impl Path {
    /// The protocol with these options.
    pub fn speaks(&self, options: &Options) -> Speaks {
        match options.get(&L3) {
            Some("off") => Speaks::Raw(Shape::Own),
            Some("ptp") => Speaks::Raw(Shape::Ptp),
            _ => self.speaks,
        }
    }

    /// Largest payload in bytes.
    pub fn payload_limit(&self, ipv6: bool) -> u32 {
        self.payload.most[usize::from(ipv6)]
    }

    /// The only payload in bytes, on paths without a choice.
    pub fn fixed_payload(&self) -> Option<u32> {
        self.payload.is_fixed.then(|| self.payload_limit(false))
    }

    /// Bytes of headers that count towards the link's MTU together with the payload, on paths where a message must fit into one
    /// packet.
    pub fn headers_in_mtu(&self, options: &Options, ipv6: bool) -> Option<u32> {
        let headers = self.payload.headers_in_mtu?[usize::from(ipv6)];
        Some(if self.speaks(options).is_raw() { hairpin_wire::raw::LEN as u32 } else { headers })
    }

    /// True if `explain` knows the stages of its round trips.
    pub fn has_stages(&self) -> bool {
        match self.route {
            Route::Sockets => self.speaks != Speaks::TcpPerTransaction,
            Route::Channel => false,
            Route::Uring | Route::PacketRing | Route::XdpRing | Route::Memory { .. } => true,
        }
    }

    /// True if the path supports the wait policy `name`.
    pub fn takes_policy(&self, name: &str) -> bool {
        self.policies.iter().any(|policy| policy.name() == name)
    }

    /// True if the path has this option.
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

/// Protocol of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// A TCP stream, one connection per flow.
    Tcp,
    /// A TCP stream, one connection per transaction.
    TcpPerTransaction,
    /// UDP datagrams.
    Udp,
    /// Ethernet frames of Hairpin's own framing.
    Raw(Shape),
    /// A channel between processes of one host; the name of the path, since no two such paths mix.
    Local(&'static str),
}

impl Speaks {
    /// True for frames without IP.
    #[must_use]
    pub fn is_raw(self) -> bool {
        matches!(self, Speaks::Raw(_))
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Speaks::Tcp | Speaks::TcpPerTransaction => "tcp",
            Speaks::Udp => "udp",
            Speaks::Raw(_) => "raw",
            Speaks::Local(_) => "local",
        })
    }
}

/// Way of a path's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The kernel's stack, from socket to socket.
    Sockets,
    /// The same, handed over in io_uring.
    Uring,
    /// AF_PACKET rings, beside the kernel's stack.
    PacketRing,
    /// AF_XDP rings, past the kernel's stack.
    XdpRing,
    /// Memory shared by both sides.
    Memory {
        /// True for frames in a ring, whose library stamps them.
        ring: bool,
    },
    /// The kernel's local channels: UNIX sockets, pipes, eventfd.
    Channel,
}

impl Route {
    /// True if the messages go neither through sockets nor through another channel of the kernel's.
    pub fn bypasses(self) -> bool {
        !matches!(self, Route::Sockets | Route::Uring | Route::Channel)
    }

    /// True if the messages pass a ring of an interface, which `bounce` and `stream` take too.
    pub fn has_packet_ring(self) -> bool {
        matches!(self, Route::PacketRing | Route::XdpRing)
    }

    /// True if the messages pass a ring whose library stamps them.
    pub fn has_ring(self) -> bool {
        matches!(self, Route::PacketRing | Route::XdpRing | Route::Memory { ring: true })
    }
}

/// The connection between the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Another host.
    Host,
    /// The loopback device.
    Loopback,
    /// Two network namespaces of this host, with a link that is made for them or their own.
    Veth,
    /// A plain echo service.
    Echo,
    /// A device that returns Ethernet frames.
    Reflector,
}
