//! A small rtnetlink client: creates a veth pair across two namespaces, sets links up, sets addresses and a rate, reads links,
//! routes and neighbours.
//!
//! ```text
//!   first worker's namespace                      second worker's namespace
//!   ┌──────────────────────┐   one RTM_NEWLINK    ┌──────────────────────┐
//!   │ name (IFLA_IFNAME)   │◄────────────────────►│ IFLA_IFNAME in       │
//!   │ mtu, queues          │  IFLA_LINKINFO       │ VETH_INFO_PEER, with │
//!   │                      │   kind veth          │ IFLA_NET_NS_PID      │
//!   └──────────────────────┘                      └──────────────────────┘
//! ```
//!
//! Neither end is ever in the original namespace of the processes, so a killed process leaves nothing there.
//!
//! Sources: rtnetlink(7), `include/uapi/linux/{rtnetlink,if_link,veth}.h`.
//! The crate `neli` encodes and decodes; its router is not used, because it starts a thread, and a process must have a single
//! thread to enter a namespace or to measure.

mod ethtool;
mod napi;
mod netdev;
mod qdisc;
mod route;
mod virtual_link;

use hairpin_units::Arrange;
use std::cell::Cell;
use std::fmt::Debug;
use std::io;
use std::net::IpAddr;

use neli::consts::nl::{NlType, NlmF, Nlmsg, NlmsgerrAttr};
use neli::consts::rtnl::{Ifa, IfaF, Iff, Ifla, IflaInfo, RtAddrFamily, RtScope, Rtm};
use neli::consts::socket::NlFamily;
use neli::err::{BuilderError, SocketError};
use neli::nl::{NlPayload, NlmsghdrBuilder};
use neli::rtnl::{Ifaddrmsg, IfaddrmsgBuilder, Ifinfomsg, IfinfomsgBuilder, Rtattr, RtattrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::{Buffer, GenlBuffer, RtBuffer};
use neli::utils::Groups;
use neli::{FromBytesWithInput, Size, ToBytes};

pub use self::ethtool::{CoalesceParts, EthtoolSetting};
pub(crate) use self::napi::ServedQueue;
pub use self::napi::{NapiFacts, NapiSetting};
pub use self::netdev::XdpMetadata;
pub use self::qdisc::{RootQdisc, Tbf};
pub use self::route::{QuickAck, Route};
pub use self::virtual_link::VirtualLink;

/// The peer's description inside `IFLA_INFO_DATA` of a pair: `VETH_INFO_PEER` of `linux/veth.h`, `IFLA_NETKIT_PEER_INFO` of
/// `linux/if_link.h`.
const PEER_INFO: u16 = 1;
/// `IFLA_NETKIT_MODE`, and its value for Ethernet frames.
const NETKIT_MODE: u16 = 5;
const NETKIT_L2: u32 = 0;
/// Error from the kernel or the netlink socket.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// No netlink socket could be opened.
    #[error("cannot open a netlink socket: {0}")]
    Open(String),
    /// The kernel answered with an error.
    #[error("cannot {operation} {interface}: {source}{}", kernel.as_deref().map(|text| format!(" (kernel: {text})")).unwrap_or_default())]
    Refused {
        /// The attempted operation, such as "create veth".
        operation: &'static str,
        interface: String,
        /// The kernel's errno.
        source: io::Error,
        /// The kernel's message (extended acknowledgement), if any.
        kernel: Option<String>,
    },
    /// A route cannot be changed by itself.
    #[error("cannot change the route to {destination} over {interface}: {why}")]
    Route { interface: String, destination: String, why: &'static str },
    /// The request could not be sent, or its answer could not be read.
    #[error("cannot {operation} {interface}: no usable answer from netlink: {reason}")]
    Exchange {
        /// The attempted operation.
        operation: &'static str,
        interface: String,
        /// The problem.
        reason: String,
    },
}

impl NetlinkError {
    /// True if the kernel knows no link of this kind.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, NetlinkError::Refused { source, .. } if source.raw_os_error() == Some(libc::EOPNOTSUPP))
    }
}

/// A pair to create: one end here, the other in the network namespace of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VethConfig {
    /// Name of this namespace's end, at most 15 bytes.
    pub name: String,
    /// Name of the peer's end, at most 15 bytes.
    pub peer_name: String,
    /// MTU of both ends in bytes, 68 to 65535; `None`: the kernel's 1500.
    pub mtu: Option<u32>,
    /// Transmit queues and receive queues of both ends, 1 to 4096; `None`: the kernel's default, usually 1 per CPU.
    pub queues: Option<u32>,
    /// Transmit queues of both ends, if different from `queues`.
    pub tx_queues: Option<u32>,
    /// A process, by its number in this process's /proc, whose network namespace gets the peer's end.
    pub peer_pid: u32,
}

/// The kind of a pair of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairKind {
    #[default]
    Veth,
    /// Ethernet frames as over veth, without the softirq between the ends (kernel: drivers/net/netkit.c, Linux 6.7).
    Netkit,
}

impl PairKind {
    const fn name(self) -> &'static str {
        match self {
            PairKind::Veth => "veth",
            PairKind::Netkit => "netkit",
        }
    }
}

/// One network interface of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// Interface index, unique in its namespace.
    pub index: u32,
    pub name: String,
    /// MTU in bytes.
    pub mtu: u32,
    pub tx_queues: u32,
    pub rx_queues: u32,
    /// True if the interface is up (IFF_UP).
    pub up: bool,
    /// True if it is up and has a carrier (IFF_LOWER_UP); for a veth, if both ends are up.
    pub carrier: bool,
    /// True if the kernel has noticed the carrier too (IFF_RUNNING): until then its queueing discipline drops every packet.
    pub running: bool,
    /// Hardware address, if it has six bytes.
    pub mac: Option<[u8; 6]>,
    /// The driver's link kind, such as `veth` or `bridge`; physical devices and loopback have none.
    pub kind: Option<String>,
}

/// The subject of a request, for its error.
struct Asked<'a> {
    operation: &'static str,
    interface: &'a str,
}

impl Asked<'_> {
    fn exchange(&self, reason: impl ToString) -> NetlinkError {
        NetlinkError::Exchange { operation: self.operation, interface: self.interface.to_owned(), reason: reason.to_string() }
    }

    fn refused(&self, error: i32, kernel: Option<String>) -> NetlinkError {
        let source = io::Error::from_raw_os_error(error.saturating_neg());
        NetlinkError::Refused { operation: self.operation, interface: self.interface.to_owned(), source, kernel }
    }
}

/// A netlink socket; it belongs to the network namespace in which it was opened.
pub struct Netlink {
    socket: NlSocketHandle,
    sequence: Cell<u32>,
}

impl Netlink {
    /// Opens a socket in the calling thread's current network namespace.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub fn open() -> Result<Netlink, NetlinkError> {
        Netlink::over(NlFamily::Route)
    }

    fn over(family: NlFamily) -> Result<Netlink, NetlinkError> {
        let open = || -> Result<NlSocketHandle, SocketError> {
            let socket = NlSocketHandle::connect(family, None, Groups::empty())?;
            socket.enable_ext_ack(true)?;
            Ok(socket)
        };
        Ok(Netlink { socket: open().map_err(|e| NetlinkError::Open(e.to_string()))?, sequence: Cell::new(0) })
    }

    /// Creates a veth pair: [`create_pair`](Netlink::create_pair).
    ///
    /// # Errors
    /// As there.
    pub fn create_veth(&self, config: &VethConfig) -> Result<(), NetlinkError> {
        self.create_pair(PairKind::Veth, config)
    }

    /// Creates a pair with one end here and the other in the namespace of `config.peer_pid`, in one request.
    ///
    /// # Errors
    /// The kernel has no such kind of link (EOPNOTSUPP), a name is taken (EEXIST), the process does not exist (ESRCH), the MTU or
    /// the number of queues is out of range, or this process lacks CAP_NET_ADMIN over one of the two namespaces (EPERM).
    pub fn create_pair(&self, kind: PairKind, config: &VethConfig) -> Result<(), NetlinkError> {
        let operation = match kind {
            PairKind::Veth => "create veth",
            PairKind::Netkit => "create netkit",
        };
        let asked = Asked { operation, interface: &config.name };
        let message = pair_request(kind, config).map_err(|reason| asked.exchange(reason))?;
        self.request(&asked, Rtm::Newlink, NlmF::CREATE | NlmF::EXCL, message, |_| ()).map(drop)
    }

    /// Sets the link `name` up.
    ///
    /// # Errors
    /// There is no such link (ENODEV), or this process lacks CAP_NET_ADMIN (EPERM).
    pub fn set_up(&self, name: &str) -> Result<(), NetlinkError> {
        let asked = Asked { operation: "set up", interface: name };
        let message = link_by_name(name, true).map_err(|reason| asked.exchange(reason))?;
        self.request(&asked, Rtm::Setlink, NlmF::empty(), message, |_| ()).map(drop)
    }

    /// Adds the address `address`/`prefix` to the link `name`. An IPv6 address is usable at once, without duplicate address
    /// detection.
    ///
    /// # Errors
    /// There is no such link (ENODEV), it has the address already (EEXIST), the prefix is too long (EINVAL), IPv6 is off
    /// (EOPNOTSUPP, EACCES), or this process lacks CAP_NET_ADMIN (EPERM).
    pub fn add_address(&self, name: &str, address: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
        let asked = Asked { operation: "add an address to", interface: name };
        let index = self.link(name)?.index;
        let message = address_request(index, address, prefix).map_err(|reason| asked.exchange(reason))?;
        self.request(&asked, Rtm::Newaddr, NlmF::CREATE | NlmF::EXCL, message, |_| ()).map(drop)
    }

    /// Reads the link `name` in this socket's namespace.
    ///
    /// # Errors
    /// There is no such link (ENODEV).
    pub fn link(&self, name: &str) -> Result<LinkFacts, NetlinkError> {
        let asked = Asked { operation: "read link", interface: name };
        let message = link_by_name(name, false).map_err(|reason| asked.exchange(reason))?;
        let answer = self.request(&asked, Rtm::Getlink, NlmF::empty(), message, link_facts)?;
        answer.into_iter().flatten().next().ok_or_else(|| asked.exchange("the answer holds no link"))
    }

    /// Reads all links in this socket's namespace, by index.
    ///
    /// # Errors
    /// The exchange with the kernel fails.
    pub fn links(&self) -> Result<Vec<LinkFacts>, NetlinkError> {
        let asked = Asked { operation: "list", interface: "all links" };
        let message = IfinfomsgBuilder::default().ifi_family(RtAddrFamily::Unspecified).build().map_err(|e| asked.exchange(e))?;
        let answer = self.request(&asked, Rtm::Getlink, NlmF::DUMP, message, link_facts)?;
        let mut links: Vec<_> = answer.into_iter().flatten().collect();
        links.arrange_by_key(|link| link.index);
        Ok(links)
    }

    /// Sends one request and collects the results of `read` over the answer's messages, up to its acknowledgement (or a dump's
    /// end).
    fn request<T, P, R>(
        &self,
        asked: &Asked<'_>,
        kind: T,
        flags: NlmF,
        message: P,
        read: impl Fn(&P) -> R,
    ) -> Result<Vec<R>, NetlinkError>
    where
        T: NlType,
        P: Size + ToBytes + FromBytesWithInput<Input = usize> + Debug,
    {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let header = NlmsghdrBuilder::default()
            .nl_type(kind)
            .nl_flags(NlmF::REQUEST | NlmF::ACK | flags)
            .nl_seq(sequence)
            .nl_payload(NlPayload::Payload(message))
            .build()
            .map_err(|e| asked.exchange(e))?;
        self.socket.send(&header).map_err(|e| asked.exchange(e))?;
        let mut collected = Vec::new();
        loop {
            let (batch, _) = self.socket.recv::<T, P>().map_err(|e| asked.exchange(e))?;
            for answer in batch {
                let answer = answer.map_err(|e| asked.exchange(e))?;
                if *answer.nl_seq() != sequence {
                    // Leftovers of an earlier exchange that failed half way.
                    continue;
                }
                let done = (*answer.nl_type()).into() == u16::from(Nlmsg::Done);
                match answer.nl_payload() {
                    NlPayload::Err(e) => return Err(asked.refused(*e.error(), extended_ack(e.ext_ack()))),
                    NlPayload::DumpExtAck(e) if *e.error() != 0 => {
                        return Err(asked.refused(*e.error(), extended_ack(e.ext_ack())));
                    }
                    NlPayload::Ack(_) | NlPayload::DumpExtAck(_) => return Ok(collected),
                    NlPayload::Empty | NlPayload::Payload(_) if done => return Ok(collected),
                    NlPayload::Empty => {}
                    NlPayload::Payload(payload) => collected.push(read(payload)),
                }
            }
        }
    }
}

/// Encodes one attribute; `payload` follows its header.
fn attribute<T, P>(kind: T, payload: P) -> Result<Rtattr<T, Buffer>, BuilderError>
where
    T: Size,
    P: Size + ToBytes,
{
    Ok(RtattrBuilder::default().rta_type(kind).rta_payload(payload).build()?)
}

/// A text in netlink's form: its bytes and a NUL.
fn text(text: &str) -> Buffer {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    Buffer::from(bytes)
}

/// Attributes common to both ends of a pair.
fn end_attributes(name: &str, config: &VethConfig) -> Result<RtBuffer<Ifla, Buffer>, BuilderError> {
    let mut attributes = RtBuffer::new();
    attributes.push(attribute(Ifla::Ifname, text(name))?);
    if let Some(mtu) = config.mtu {
        attributes.push(attribute(Ifla::Mtu, mtu)?);
    }
    if let Some(queues) = config.tx_queues.or(config.queues) {
        attributes.push(attribute(Ifla::NumTxQueues, queues)?);
    }
    if let Some(queues) = config.queues {
        attributes.push(attribute(Ifla::NumRxQueues, queues)?);
    }
    Ok(attributes)
}

fn link_message(attributes: RtBuffer<Ifla, Buffer>) -> IfinfomsgBuilder {
    IfinfomsgBuilder::default().ifi_family(RtAddrFamily::Unspecified).rtattrs(attributes)
}

fn pair_request(kind: PairKind, config: &VethConfig) -> Result<Ifinfomsg, BuilderError> {
    let mut peer = end_attributes(&config.peer_name, config)?;
    peer.push(attribute(Ifla::NetNsPid, config.peer_pid)?);
    let mut data: RtBuffer<u16, Buffer> = RtBuffer::new();
    data.push(attribute(PEER_INFO, link_message(peer).build()?)?);
    if kind == PairKind::Netkit {
        data.push(attribute(NETKIT_MODE, NETKIT_L2)?);
    }
    let mut info = RtBuffer::new();
    info.push(attribute(IflaInfo::Kind, text(kind.name()))?);
    info.push(attribute(IflaInfo::Data, data)?);
    let mut attributes = end_attributes(&config.name, config)?;
    attributes.push(attribute(Ifla::Linkinfo, info)?);
    Ok(link_message(attributes).build()?)
}

fn link_by_name(name: &str, up: bool) -> Result<Ifinfomsg, BuilderError> {
    let mut attributes = RtBuffer::new();
    attributes.push(attribute(Ifla::Ifname, text(name))?);
    let message = link_message(attributes);
    Ok(if up { message.up() } else { message }.build()?)
}

fn address_request(index: u32, address: IpAddr, prefix: u8) -> Result<Ifaddrmsg, BuilderError> {
    let (family, flags, bytes) = match address {
        IpAddr::V4(v4) => (RtAddrFamily::Inet, IfaF::empty(), v4.octets().to_vec()),
        IpAddr::V6(v6) => (RtAddrFamily::Inet6, IfaF::NODAD, v6.octets().to_vec()),
    };
    let mut attributes = RtBuffer::new();
    attributes.push(attribute(Ifa::Local, Buffer::from(bytes.clone()))?);
    attributes.push(attribute(Ifa::Address, Buffer::from(bytes))?);
    let message = IfaddrmsgBuilder::default().ifa_family(family).ifa_prefixlen(prefix).ifa_flags(flags);
    Ok(message.ifa_scope(RtScope::Universe).ifa_index(index).rtattrs(attributes).build()?)
}

fn link_facts(message: &Ifinfomsg) -> Option<LinkFacts> {
    let attributes = message.rtattrs().get_attr_handle();
    let number = |kind| attributes.get_attr_payload_as::<u32>(kind).ok();
    let kind = attributes.get_nested_attributes::<IflaInfo>(Ifla::Linkinfo).ok();
    Some(LinkFacts {
        index: u32::try_from(*message.ifi_index()).ok()?,
        name: attributes.get_attribute(Ifla::Ifname).map(|a| until_nul(a.rta_payload().as_ref()))?,
        mtu: number(Ifla::Mtu)?,
        tx_queues: number(Ifla::NumTxQueues)?,
        rx_queues: number(Ifla::NumRxQueues)?,
        up: message.ifi_flags().contains(Iff::UP),
        carrier: message.ifi_flags().contains(Iff::LOWERUP),
        running: message.ifi_flags().contains(Iff::RUNNING),
        mac: attributes.get_attribute(Ifla::Address).and_then(|a| a.rta_payload().as_ref().try_into().ok()),
        kind: kind.and_then(|info| info.get_attribute(IflaInfo::Kind).map(|a| until_nul(a.rta_payload().as_ref()))),
    })
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The kernel's message about an error, if any.
fn extended_ack(attributes: &GenlBuffer<NlmsgerrAttr, Buffer>) -> Option<String> {
    let message = attributes.iter().find(|a| *a.nla_type().nla_type() == NlmsgerrAttr::Msg)?;
    Some(until_nul(message.nla_payload().as_ref())).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message's bytes on the wire.
    fn wire(message: &impl ToBytes) -> Vec<u8> {
        let mut buffer = io::Cursor::new(Vec::new());
        message.to_bytes(&mut buffer).unwrap();
        buffer.into_inner()
    }

    fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
        haystack.windows(needle.len()).position(|window| window == needle)
    }

    #[test]
    fn the_peer_of_a_veth_names_its_namespace_in_the_same_request() {
        let config = VethConfig {
            name: "hp0".into(),
            peer_name: "hp1".into(),
            mtu: Some(9000),
            queues: Some(2),
            tx_queues: None,
            peer_pid: 0x0102_0304,
        };
        let wire = wire(&pair_request(PairKind::Veth, &config).unwrap());
        let peer = find(&wire, b"hp1\0").unwrap();
        assert!(find(&wire, b"hp0\0").unwrap() < find(&wire, b"veth\0").unwrap());
        assert!(find(&wire, b"veth\0").unwrap() < peer);
        // IFLA_NET_NS_PID (19), 8 bytes long, after the peer's name.
        let pid = [&8_u16.to_ne_bytes()[..], &19_u16.to_ne_bytes(), &0x0102_0304_u32.to_ne_bytes()].concat();
        assert!(find(&wire, &pid).unwrap() > peer);
        let mtu = [&8_u16.to_ne_bytes()[..], &4_u16.to_ne_bytes(), &9000_u32.to_ne_bytes()].concat();
        assert_eq!(wire.windows(8).filter(|window| *window == mtu).count(), 2, "both ends carry the MTU");
    }

    #[test]
    fn the_links_of_this_namespace_are_those_of_proc() {
        let netlink = Netlink::open().unwrap();
        let mut listed: Vec<String> = netlink.links().unwrap().into_iter().map(|link| link.name).collect();
        let proc = std::fs::read_to_string("/proc/net/dev").unwrap();
        let mut expected: Vec<String> =
            proc.lines().skip(2).filter_map(|l| l.split_once(':')).map(|(n, _)| n.trim().into()).collect();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
        let lo = netlink.link("lo").unwrap();
        assert_eq!((lo.index, lo.kind), (1, None));
    }

    #[test]
    fn a_missing_interface_is_named_with_the_operation() {
        let error = Netlink::open().unwrap().link("hp-missing").unwrap_err();
        assert_eq!(error.to_string(), "cannot read link hp-missing: No such device (os error 19)");
    }
}
