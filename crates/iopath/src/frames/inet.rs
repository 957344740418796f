//! UDP over IPv4 or IPv6 over Ethernet; the peer may be a kernel socket.
//!
//! ```text
//!   |Ethernet 14|IPv4 20 or IPv6 40|UDP 8|payload …          all but the UDP checksum is known before the loop
//! ```

use std::net::{IpAddr, SocketAddr};

use hairpin_wire::checksum::Sum;
use hairpin_wire::ethernet::{self, Mac};
use hairpin_wire::ipv4::{self, Ipv4};
use hairpin_wire::ipv6::{self, Ipv6};
use hairpin_wire::udp::{self, Check, Udp};

use super::{Framing, Message};

/// Marks a port that belongs to no flow.
const NONE: u16 = u16::MAX;
/// Time to live of sent packets: Linux's default.
const TTL: u8 = 64;
/// Length of all headers over IPv6.
const LONGEST: usize = ethernet::LEN + ipv6::LEN + udp::LEN;

/// Addresses of one flow, seen from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// This side.
    pub(crate) own: SocketAddr,
    /// The peer's address, proven.
    pub(crate) peer: SocketAddr,
}

/// The framing, over IPv6 if `V6`.
pub(crate) struct Inet<const V6: bool> {
    own: IpAddr,
    peer: IpAddr,
    /// Flow by port: by this side's port or, if all flows share that one, by the peer's.
    by_port: Box<[u16; 65_536]>,
    /// The port that all flows share.
    shared: u16,
    /// True on a server: the shared port is this side's.
    shares_own: bool,
    /// Checksum of both addresses.
    addresses: Sum,
    flows: Vec<Template>,
}

struct Template {
    headers: [u8; LONGEST],
    /// Checksum of pseudo-header and UDP header.
    sum: Sum,
}

/// Ethernet addresses and traffic class of the packets sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outer {
    /// Address of this side's interface.
    pub(crate) own: Mac,
    /// Address of the next hop.
    pub(crate) peer: Mac,
    /// DSCP and ECN.
    pub(crate) traffic_class: u8,
}

impl<const V6: bool> Inet<V6> {
    /// For flows between two hosts that share one port. `None` if the flows do not share a port, if an address is of the other
    /// family, or if `len` bytes do not fit into a datagram.
    pub(crate) fn new(outer: Outer, flows: &[Flow], server: bool, len: usize) -> Option<Inet<V6>> {
        let first = flows.first()?;
        let shared = if server { first.own.port() } else { first.peer.port() };
        let addresses = sum_of(first.own.ip()) + sum_of(first.peer.ip());
        let mut by_port = vec![NONE; 65_536].into_boxed_slice();
        let mut templates = Vec::with_capacity(flows.len());
        for (index, flow) in flows.iter().enumerate() {
            let (common, own) = if server { (flow.own, flow.peer) } else { (flow.peer, flow.own) };
            if flow.own.is_ipv6() != V6 || flow.own.ip() != first.own.ip() || flow.peer.ip() != first.peer.ip() {
                return None;
            }
            if common.port() != shared || by_port[usize::from(own.port())] != NONE {
                return None;
            }
            by_port[usize::from(own.port())] = u16::try_from(index).ok()?;
            templates.push(template(outer, *flow, len)?);
        }
        Some(Inet {
            own: first.own.ip(),
            peer: first.peer.ip(),
            by_port: by_port.try_into().ok()?,
            shared,
            shares_own: server,
            addresses,
            flows: templates,
        })
    }

    /// The UDP segment, if `frame` is a whole packet between the two addresses.
    #[inline(always)]
    fn segment<'f>(&self, frame: &'f [u8]) -> Option<&'f [u8]> {
        let (head, packet) = frame.split_first_chunk::<{ ethernet::LEN }>()?;
        let ethertype = u16::from_be_bytes([head[12], head[13]]);
        if V6 {
            let ip = Ipv6::parse(packet)?;
            let ours = ethertype == ethernet::IPV6 && ip.next_header() == udp::PROTOCOL;
            (ours && self.peer == ip.source() && self.own == ip.destination()).then(|| ip.payload())
        } else {
            let ip = Ipv4::parse(packet)?;
            let plain = ip.header_len() == ipv4::LEN && !ip.is_fragment() && ip.protocol() == udp::PROTOCOL;
            let ours = ethertype == ethernet::IPV4 && plain && ip.is_sound();
            (ours && self.peer == ip.source() && self.own == ip.destination()).then(|| ip.payload())
        }
    }
}

impl<const V6: bool> Framing for Inet<V6> {
    const HEADERS: usize = ethernet::LEN + if V6 { ipv6::LEN } else { ipv4::LEN } + udp::LEN;

    #[inline(always)]
    fn read(&self, frame: &[u8]) -> Option<Message> {
        let datagram = Udp::parse(self.segment(frame)?)?;
        let (source, destination) = (datagram.source(), datagram.destination());
        let (shared, own) = if self.shares_own { (destination, source) } else { (source, destination) };
        let flow = self.by_port[usize::from(own)];
        if shared != self.shared || flow == NONE {
            return None;
        }
        let checked = match datagram.check(self.addresses) {
            Check::Right => true,
            // On a virtual link a kernel socket leaves the checksum to a device that never computes it.
            Check::Left => false,
            Check::None if !V6 => false,
            Check::None | Check::Wrong => return None,
        };
        Some(Message { flow: flow.into(), len: datagram.payload().len(), checked })
    }

    #[inline(always)]
    fn write(&self, frame: &mut [u8], flow: u32, len: usize, intact: bool) {
        let template = &self.flows[flow as usize];
        let (headers, rest) = frame.split_at_mut(Self::HEADERS);
        let at = Self::HEADERS - 2;
        // Swapping addresses and ports does not change the sum.
        let checksum = match intact {
            true => [headers[at], headers[at + 1]],
            false => udp::checksum(template.sum + Sum::of(&rest[..len])),
        };
        headers.copy_from_slice(&template.headers[..Self::HEADERS]);
        headers[at..].copy_from_slice(&checksum);
    }
}

/// The same over IPv4 without UDP checksums (RFC 768 allows it), for a link that checks frames itself.
pub(crate) struct Unsummed(pub(crate) Inet<false>);

impl Framing for Unsummed {
    const HEADERS: usize = Inet::<false>::HEADERS;

    #[inline(always)]
    fn read(&self, frame: &[u8]) -> Option<Message> {
        self.0.read(frame)
    }

    #[inline(always)]
    fn write(&self, frame: &mut [u8], flow: u32, _len: usize, _intact: bool) {
        // The template holds zero there: no checksum.
        frame[..Self::HEADERS].copy_from_slice(&self.0.flows[flow as usize].headers[..Self::HEADERS]);
    }
}

fn sum_of(address: IpAddr) -> Sum {
    match address {
        IpAddr::V4(v4) => Sum::of(&v4.octets()),
        IpAddr::V6(v6) => Sum::of(&v6.octets()),
    }
}

/// All headers around a payload of `len` bytes, with a UDP checksum of zero.
fn template(outer: Outer, flow: Flow, len: usize) -> Option<Template> {
    let datagram = len.checked_add(udp::LEN)?;
    let mut udp = [0; udp::LEN];
    udp[..2].copy_from_slice(&flow.own.port().to_be_bytes());
    udp[2..4].copy_from_slice(&flow.peer.port().to_be_bytes());
    udp[4..6].copy_from_slice(&u16::try_from(datagram).ok()?.to_be_bytes());
    let sum = udp::pseudo_header(sum_of(flow.own.ip()) + sum_of(flow.peer.ip()), datagram) + Sum::of(&udp);
    let (ethertype, ip) = match (flow.own.ip(), flow.peer.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let traffic_class = outer.traffic_class;
            let ip = ipv4::Header { source, destination, protocol: udp::PROTOCOL, traffic_class, ttl: TTL };
            (ethernet::IPV4, ip.encode(datagram)?.to_vec())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let traffic_class = outer.traffic_class;
            let ip = ipv6::Header { source, destination, next_header: udp::PROTOCOL, traffic_class, hop_limit: TTL };
            (ethernet::IPV6, ip.encode(datagram)?.to_vec())
        }
        _ => return None,
    };
    let frame = ethernet::Header { destination: outer.peer, source: outer.own, ethertype }.encode();
    let mut headers = [0; LONGEST];
    let written = [&frame[..], &ip, &udp].concat();
    headers[..written.len()].copy_from_slice(&written);
    Some(Template { headers, sum })
}
