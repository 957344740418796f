//! The address at which a rank listens: the one that the others can reach.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use hairpin_session::address::local_address_towards;

/// Addresses of documentation (RFC 5737, RFC 3849): asking for the way there sends nothing, and finds the default route.
const ELSEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Why no address can be chosen.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// This host has only a loopback address.
    #[error("this host has no address but loopback: give one with --listen, which is 127.0.0.1 if all ranks are on this host")]
    None,
    /// An address that the others cannot use, where they know no other.
    #[error(
        "--listen {0} means all addresses, so the other ranks cannot tell which to use: name one that they can reach, or use --hosts"
    )]
    Unspecified(IpAddr),
    /// Several could be meant.
    #[error("this host has several addresses ({}), and no route says which the others reach: choose one with --listen", join(.0))]
    Several(Vec<IpAddr>),
    /// The kernel does not tell.
    #[error("cannot read this host's addresses: {0}; give one with --listen")]
    Unread(std::io::Error),
}

fn join(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

/// The address towards the others: loopback if all are on this host; else the one from which this host reaches `towards` (rank
/// 0), or has its default route, or that its name stands for, or the only one.
pub fn own(one_host: bool, towards: Option<IpAddr>, name: &str) -> Result<IpAddr, AddressError> {
    if one_host {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    if let Some(found) = towards.and_then(|other| local_address_towards(SocketAddr::new(other, 9))) {
        return Ok(found);
    }
    let here: Vec<IpAddr> = if_addrs::get_if_addrs().map_err(AddressError::Unread)?.iter().map(if_addrs::Interface::ip).collect();
    let named = (name, 9).to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let routed = ELSEWHERE.into_iter().find_map(|there| local_address_towards(SocketAddr::new(there, 9)));
    choose(routed, named.iter().map(SocketAddr::ip), &here)
}

fn choose(routed: Option<IpAddr>, named: impl Iterator<Item = IpAddr>, here: &[IpAddr]) -> Result<IpAddr, AddressError> {
    // A link-local address means nothing without its interface, which has another name elsewhere.
    let local = |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let reached = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified() && !local(address);
    if let Some(found) = routed.filter(reached).or_else(|| named.filter(reached).find(|address| here.contains(address))) {
        return Ok(found);
    }
    let others: Vec<IpAddr> = here.iter().copied().filter(reached).collect();
    match others[..] {
        [] => Err(AddressError::None),
        [one] => Ok(one),
        _ => Err(AddressError::Several(others)),
    }
}

/// The name of this host.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".into() } else { name.into() }
}

/// Tells hosts apart: the kernel's boot and the network namespace, since a test may make several hosts of one kernel.
pub fn host_id() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = fs::read_link("/proc/self/ns/net").map(|link| link.display().to_string()).unwrap_or_default();
    format!("{} {network}", boot.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_address_follows_from_a_route_then_a_name_then_is_the_only_one() {
        let here = [ip("127.0.0.1"), ip("198.18.0.1"), ip("10.0.0.1"), ip("fe80::1")];
        let chosen = |routed: Option<&str>, named: &[&str], here: &[IpAddr]| {
            choose(routed.map(ip), named.iter().map(|text| ip(text)), here).map_err(|error| error.to_string())
        };
        assert_eq!(chosen(Some("10.0.0.1"), &["198.18.0.1"], &here), Ok(ip("10.0.0.1")));
        assert_eq!(chosen(None, &["127.0.1.1", "198.18.0.1"], &here), Ok(ip("198.18.0.1")));
        assert_eq!(chosen(None, &["192.0.2.7"], &here[..2]), Ok(ip("198.18.0.1")), "the name is another host's");
        let v6 = [ip("::1"), ip("fe80::1"), ip("2001:db8::7")];
        assert_eq!(chosen(Some("fe80::1"), &["fe80::1", "2001:db8::7"], &v6), Ok(v6[2]), "one of its link alone");
        assert!(chosen(None, &[], &here).unwrap_err().contains("(198.18.0.1, 10.0.0.1)"));
        assert!(chosen(None, &[], &here[..1]).unwrap_err().contains("--listen"));
    }

    #[test]
    fn this_host_has_a_name_and_a_constant_id() {
        assert!(!host_name().is_empty());
        assert_eq!(host_id(), host_id());
        assert_eq!(own(true, None, "x").unwrap(), ip("127.0.0.1"));
        assert_eq!(own(false, Some(ip("127.0.0.1")), "x").unwrap(), ip("127.0.0.1"));
    }
}
