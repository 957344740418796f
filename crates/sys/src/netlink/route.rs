//! The way of a packet: the route to an address, and the hardware address of a neighbour.
//!
//! Sources: rtnetlink(7), `include/uapi/linux/{rtnetlink,neighbour}.h`, `net/core/neighbour.c` (`neigh_get`).

use std::net::IpAddr;

use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Nda, Ntf, Nud, RtAddrFamily, RtScope, RtTable, Rta, Rtm, RtmF, Rtn, Rtprot};
use neli::err::BuilderError;
use neli::rtnl::{Ndmsg, NdmsgBuilder, Rtattr, Rtmsg, RtmsgBuilder};
use neli::types::{Buffer, RtBuffer};

use super::{Asked, LinkFacts, Netlink, NetlinkError, attribute};

/// The kernel's current route for packets to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The outgoing interface; `lo` for an address of this namespace itself.
    pub link: LinkFacts,
    /// The next router; `None` if the address is on the link.
    pub gateway: Option<IpAddr>,
    /// The kernel's choice of source address.
    pub source: Option<IpAddr>,
}

/// The quickack metric of one IPv4 route: ACKs of its connections are sent at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuickAck {
    /// Destination of the route in ip(8)'s notation: `default` or `10.0.0.0/8`.
    pub destination: String,
    /// True if the metric is on.
    pub on: bool,
}

/// `RTAX_QUICKACK` of `include/uapi/linux/rtnetlink.h`, inside `RTA_METRICS`.
const RTAX_QUICKACK: u16 = 15;

impl Netlink {
    /// Reads the quickack metric of the IPv4 routes in the main table that use the link `name`.
    ///
    /// # Errors
    /// There is no such link (ENODEV).
    pub fn quick_acks(&self, name: &str) -> Result<Vec<QuickAck>, NetlinkError> {
        let asked = Asked { operation: "read the routes of", interface: name };
        let index = self.link(name)?.index;
        let routes = self.main_routes(&asked)?;
        let over = routes.iter().filter(|route| is_over(route, index));
        Ok(over.map(|route| QuickAck { destination: destination(route), on: quickack(route) }).collect())
    }

    /// Sets the quickack metric of the route to `to`; the route is otherwise unchanged.
    ///
    /// # Errors
    /// There is no such link (ENODEV); there is not exactly one such route, or another link has one with the same metric
    /// ([`NetlinkError::Route`]); or this process lacks CAP_NET_ADMIN (EPERM).
    pub fn set_quick_ack(&self, name: &str, to: &QuickAck) -> Result<(), NetlinkError> {
        let asked = Asked { operation: "change the route over", interface: name };
        let cannot = |why: &'static str| {
            let (interface, destination) = (name.to_owned(), to.destination.clone());
            NetlinkError::Route { interface, destination, why }
        };
        let index = self.link(name)?.index;
        let routes = self.main_routes(&asked)?;
        let mut matching = routes.iter().filter(|route| is_over(route, index) && destination(route) == to.destination);
        let route = matching.next().ok_or_else(|| cannot("there is none"))?;
        if matching.next().is_some() {
            return Err(cannot("there are several, with different metrics"));
        }
        // REPLACE takes the first route with this key, over whatever link it is (net/ipv4/fib_trie.c).
        if routes.iter().filter(|other| key(other) == key(route)).count() > 1 {
            return Err(cannot(
                "another link has one with the same metric, and the kernel may change that one: give them different metrics",
            ));
        }
        let message = with_quickack(route, to.on).map_err(|reason| asked.exchange(reason))?;
        self.request(&asked, Rtm::Newroute, NlmF::CREATE | NlmF::REPLACE, message, |_| ()).map(drop)
    }

    /// All IPv4 routes of the main table.
    fn main_routes(&self, asked: &Asked<'_>) -> Result<Vec<Rtmsg>, NetlinkError> {
        let message = route_message(RtAddrFamily::Inet, 0, RtBuffer::new()).map_err(|reason| asked.exchange(reason))?;
        let all = self.request(asked, Rtm::Getroute, NlmF::DUMP, message, |route: &Rtmsg| {
            // The dump contains what the kernel learned of single hosts (redirects, path MTUs), as clones of the routes there.
            let of_main = *route.rtm_table() == RtTable::Main && !route.rtm_flags().contains(RtmF::CLONED);
            of_main.then(|| route.clone())
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Asks the kernel for the route to `destination`. Sends no packet.
    ///
    /// # Errors
    /// There is no route (ENETUNREACH, EHOSTUNREACH), or it is prohibited (EACCES).
    pub fn route_to(&self, destination: IpAddr) -> Result<Route, NetlinkError> {
        self.route_over(destination, 0)
    }

    /// The same over the link with this index, which a link-local address needs; 0: over any link.
    ///
    /// # Errors
    /// The errors of [`route_to`](Netlink::route_to).
    pub fn route_over(&self, destination: IpAddr, index: u32) -> Result<Route, NetlinkError> {
        let name = destination.to_string();
        let asked = Asked { operation: "find the route to", interface: &name };
        let message = route_request(destination, index).map_err(|reason| asked.exchange(reason))?;
        let answer = self.request(&asked, Rtm::Getroute, NlmF::empty(), message, |route| {
            let attributes = route.rtattrs().get_attr_handle();
            let payload = |kind| attributes.get_attribute(kind).map(|a| a.rta_payload().as_ref());
            let gateway = payload(Rta::Gateway).and_then(address).or_else(|| payload(Rta::Via).and_then(via));
            (attributes.get_attr_payload_as::<u32>(Rta::Oif).ok(), gateway, payload(Rta::Prefsrc).and_then(address))
        })?;
        let Some((Some(index), gateway, source)) = answer.into_iter().next() else {
            return Err(asked.exchange("the answer names no interface"));
        };
        let link = self.links()?.into_iter().find(|link| link.index == index);
        Ok(Route { link: link.ok_or_else(|| asked.exchange("its interface has gone"))?, gateway, source })
    }

    /// The hardware address that the kernel knows for `address` on the link with this index; `None` if it knows none, in which
    /// case one datagram to the address makes it ask.
    ///
    /// # Errors
    /// The exchange with the kernel fails.
    pub fn neighbour(&self, index: u32, address: IpAddr) -> Result<Option<[u8; 6]>, NetlinkError> {
        let name = address.to_string();
        let asked = Asked { operation: "find the neighbour", interface: &name };
        let message = neighbour_request(index, address).map_err(|reason| asked.exchange(reason))?;
        let answer = self.request(&asked, Rtm::Getneigh, NlmF::empty(), message, |neighbour: &Ndmsg| {
            let attributes = neighbour.rtattrs().get_attr_handle();
            let known = !neighbour.ndm_state().intersects(Nud::INCOMPLETE | Nud::FAILED);
            let mac = attributes.get_attribute(Nda::Lladdr).and_then(|a| a.rta_payload().as_ref().try_into().ok());
            mac.filter(|_| known)
        });
        match answer {
            Ok(found) => Ok(found.into_iter().flatten().next()),
            Err(NetlinkError::Refused { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn parts(address: IpAddr) -> (RtAddrFamily, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (RtAddrFamily::Inet, v4.octets().to_vec()),
        IpAddr::V6(v6) => (RtAddrFamily::Inet6, v6.octets().to_vec()),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// A next hop of another family than the destination's: two bytes of its family, then its address (`struct rtvia` of
/// include/uapi/linux/rtnetlink.h).
fn via(bytes: &[u8]) -> Option<IpAddr> {
    address(bytes.get(2..)?)
}

/// `default`, or address/bits.
fn destination(route: &Rtmsg) -> String {
    let to = route.rtattrs().get_attr_handle().get_attribute(Rta::Dst).and_then(|a| address(a.rta_payload().as_ref()));
    to.map_or_else(|| "default".to_owned(), |to| format!("{to}/{}", route.rtm_dst_len()))
}

/// Destination, TOS and priority, the metric of ip(8): the kernel's key of a route.
fn key(route: &Rtmsg) -> (String, u8, u32) {
    let priority = route.rtattrs().get_attr_handle().get_attr_payload_as(Rta::Priority).unwrap_or(0);
    (destination(route), *route.rtm_tos(), priority)
}

/// True if the route leads over the link with this index, and over no other.
fn is_over(route: &Rtmsg, index: u32) -> bool {
    let over = route.rtattrs().get_attr_handle().get_attr_payload_as::<u32>(Rta::Oif).ok() == Some(index);
    over && *route.rtm_type() == Rtn::Unicast
}

fn quickack(route: &Rtmsg) -> bool {
    metrics(route).iter().any(|(kind, value)| *kind == RTAX_QUICKACK && value.iter().any(|byte| *byte != 0))
}

/// The route's metrics, in the kernel's encoding.
fn metrics(route: &Rtmsg) -> Vec<(u16, Vec<u8>)> {
    let attributes = route.rtattrs().get_attr_handle();
    let Ok(metrics) = attributes.get_nested_attributes::<u16>(Rta::Metrics) else {
        return Vec::new();
    };
    metrics.iter().map(|metric| (*metric.rta_type(), metric.rta_payload().as_ref().to_vec())).collect()
}

/// `RTNH_F_PERVASIVE` and `RTNH_F_ONLINK` (linux/rtnetlink.h). The other flags tell the state of a link, and the kernel refuses
/// some of them.
const ASKED_FLAGS: u32 = 2 | 4;
/// `RTA_NH_ID`, a nexthop object. The kernel dumps the object's own attributes beside it, and refuses them beside it: RTA_OIF,
/// RTA_GATEWAY, RTA_VIA, RTA_ENCAP_TYPE and RTA_ENCAP.
const RTA_NH_ID: u16 = 30;
const OF_NH_ID: [u16; 5] = [4, 5, 18, 21, 22];

/// The same route with the metric on or removed.
fn with_quickack(route: &Rtmsg, on: bool) -> Result<Rtmsg, BuilderError> {
    let mut kept: RtBuffer<u16, Buffer> = RtBuffer::new();
    for (kind, value) in metrics(route).into_iter().filter(|(kind, _)| *kind != RTAX_QUICKACK) {
        kept.push(attribute(kind, Buffer::from(value))?);
    }
    if on {
        kept.push(attribute(RTAX_QUICKACK, 1_u32)?);
    }
    let by_id = route.rtattrs().iter().any(|one| u16::from(*one.rta_type()) == RTA_NH_ID);
    let is_asked = |one: &Rtattr<Rta, Buffer>| {
        let of_id = by_id && OF_NH_ID.contains(&u16::from(*one.rta_type()));
        !of_id && *one.rta_type() != Rta::Metrics && *one.rta_type() != Rta::Cacheinfo
    };
    let mut attributes = RtBuffer::new();
    for other in route.rtattrs().iter().filter(|other| is_asked(other)) {
        attributes.push(other.clone());
    }
    if kept.iter().next().is_some() {
        attributes.push(attribute(Rta::Metrics, kept)?);
    }
    let message = RtmsgBuilder::default().rtm_family(*route.rtm_family()).rtm_dst_len(*route.rtm_dst_len());
    let message = message.rtm_src_len(*route.rtm_src_len()).rtm_tos(*route.rtm_tos()).rtm_table(*route.rtm_table());
    let message = message.rtm_protocol(*route.rtm_protocol()).rtm_scope(*route.rtm_scope()).rtm_type(*route.rtm_type());
    let flags = RtmF::from_bits_retain(route.rtm_flags().bits() & ASKED_FLAGS);
    Ok(message.rtm_flags(flags).rtattrs(attributes).build()?)
}

fn route_request(destination: IpAddr, over: u32) -> Result<Rtmsg, BuilderError> {
    let (family, bytes) = parts(destination);
    let bits = bytes.len() as u8 * 8;
    let mut attributes = RtBuffer::new();
    attributes.push(attribute(Rta::Dst, Buffer::from(bytes))?);
    if over != 0 {
        attributes.push(attribute(Rta::Oif, over)?);
    }
    route_message(family, bits, attributes)
}

fn route_message(family: RtAddrFamily, bits: u8, attributes: RtBuffer<Rta, Buffer>) -> Result<Rtmsg, BuilderError> {
    let message = RtmsgBuilder::default().rtm_family(family).rtm_dst_len(bits).rtm_src_len(0).rtm_tos(0);
    let message = message.rtm_table(RtTable::Unspec).rtm_protocol(Rtprot::Unspec).rtm_scope(RtScope::Universe);
    Ok(message.rtm_type(Rtn::Unspec).rtattrs(attributes).build()?)
}

fn neighbour_request(index: u32, address: IpAddr) -> Result<Ndmsg, BuilderError> {
    let (family, bytes) = parts(address);
    let mut attributes = RtBuffer::new();
    attributes.push(attribute(Nda::Dst, Buffer::from(bytes))?);
    // The kernel's field is a signed integer; an index from the kernel fits.
    let message = NdmsgBuilder::default().ndm_family(family).ndm_index(index.cast_signed()).ndm_state(Nud::empty());
    Ok(message.ndm_flags(Ntf::empty()).ndm_type(Rtn::Unspec).rtattrs(attributes).build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_address_is_reached_over_loopback() {
        let route = Netlink::open().unwrap().route_to([127, 0, 0, 9].into()).unwrap();
        assert_eq!((route.link.name.as_str(), route.gateway), ("lo", None));
        assert_eq!(route.source, Some([127, 0, 0, 1].into()));
    }

    #[test]
    fn a_next_hop_may_be_of_the_other_family() {
        let router: std::net::Ipv6Addr = "fe80::1".parse().unwrap();
        let family = (libc::AF_INET6 as u16).to_ne_bytes();
        assert_eq!(via(&[&family[..], &router.octets()].concat()), Some(router.into()));
        assert_eq!([&[][..], &family].map(via), [None; 2]);
    }

    #[test]
    fn a_route_leaves_by_the_link_that_was_asked_for() {
        let netlink = Netlink::open().unwrap();
        let lo = netlink.link("lo").unwrap();
        assert_eq!(netlink.route_over([127, 0, 0, 9].into(), lo.index).unwrap().link.name, "lo");
        assert!(netlink.route_over([127, 0, 0, 9].into(), u32::MAX >> 1).is_err(), "there is no such link");
    }

    #[test]
    fn a_neighbour_that_nobody_asked_for_is_unknown() {
        assert_eq!(Netlink::open().unwrap().neighbour(1, [198, 51, 100, 1].into()).unwrap(), None);
    }
}
