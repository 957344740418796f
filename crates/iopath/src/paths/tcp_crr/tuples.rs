//! Source addresses and ports, each pair used once: the side that closes first keeps the pair in TIME_WAIT for 60 s (RFC 9293,
//! 3.6.1).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hairpin_plan::job::FIRST_ROTATED;
use hairpin_plan::job::LocalPort;

/// Linux's default range, used where the setting cannot be read (ip-sysctl.rst, ip_local_port_range).
const DEFAULT_RANGE: (u16, u16) = (32_768, 60_999);
/// 127.0.0.1 to 127.0.0.254: all of 127/8 is local, and a peer there accepts any of it.
const LOOPBACK_ADDRESSES: u64 = 254;

/// The pairs of one run, from a random start, so that two consecutive runs seldom meet in TIME_WAIT.
pub(super) struct Tuples {
    peer: SocketAddr,
    first_port: u16,
    ports: u64,
    addresses: u64,
    start: u64,
    used: u64,
}

impl Tuples {
    /// Pairs for connections to `peer`; `start` is a random number.
    pub(super) fn new(peer: SocketAddr, local_port: LocalPort, start: u64) -> Tuples {
        let (first_port, ports) = match local_port {
            LocalPort::Any => {
                let (first, last) = local_range();
                (first, u64::from(last - first) + 1)
            }
            LocalPort::Fixed(port) => (port, 1),
            LocalPort::Rotate(count) => (FIRST_ROTATED, u64::from(count.max(1))),
        };
        let many = peer.is_ipv4() && peer.ip().is_loopback();
        Tuples { peer, first_port, ports, addresses: if many { LOOPBACK_ADDRESSES } else { 1 }, start, used: 0 }
    }

    /// The next pair; `None` when every pair has been used. Ports cycle first, then addresses.
    pub(super) fn next(&mut self) -> Option<SocketAddr> {
        let all = self.ports * self.addresses;
        if self.used == all {
            return None;
        }
        let at = (self.start % all + self.used) % all;
        self.used += 1;
        let port = self.first_port + (at % self.ports) as u16;
        let address = match self.peer.ip() {
            IpAddr::V4(_) if self.addresses > 1 => IpAddr::from([127, 0, 0, 1 + (at / self.ports) as u8]),
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from([0u16; 8]),
        };
        Some(SocketAddr::new(address, port))
    }
}

/// The range of local ports in this network namespace.
fn local_range() -> (u16, u16) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    parse_range(&text).unwrap_or(DEFAULT_RANGE)
}

fn parse_range(text: &str) -> Option<(u16, u16)> {
    let mut ports = text.split_whitespace().map(str::parse);
    match (ports.next()?.ok()?, ports.next()?.ok()?) {
        (first, last) if first > 0 && first <= last => Some((first, last)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all(peer: &str, local_port: LocalPort, start: u64) -> Vec<SocketAddr> {
        let mut tuples = Tuples::new(peer.parse().unwrap(), local_port, start);
        std::iter::from_fn(|| tuples.next()).collect()
    }

    #[test]
    fn each_pair_comes_once_from_any_start() {
        for start in [0, 1, 700, u64::MAX] {
            let pairs = all("127.0.0.1:9", LocalPort::Rotate(3), start);
            assert_eq!(pairs.len(), 3 * 254);
            assert_eq!(pairs.iter().collect::<HashSet<_>>().len(), pairs.len());
            assert!(pairs.iter().all(|pair| pair.ip().is_loopback() && (16_384..16_387).contains(&pair.port())));
        }
    }

    #[test]
    fn ports_go_round_first() {
        let pairs = all("127.0.0.1:9", LocalPort::Rotate(2), 0);
        let first: Vec<_> = pairs.iter().take(3).map(ToString::to_string).collect();
        assert_eq!(first, ["127.0.0.1:16384", "127.0.0.1:16385", "127.0.0.2:16384"]);
    }

    #[test]
    fn other_peers_see_one_address() {
        assert_eq!(all("192.0.2.1:9", LocalPort::Rotate(4), 5).len(), 4);
        assert_eq!(all("[::1]:9", LocalPort::Fixed(700), 5), ["[::]:700".parse().unwrap()]);
    }

    #[test]
    fn the_range_is_read_or_the_default() {
        assert_eq!(parse_range("1024\t65535\n"), Some((1024, 65_535)));
        for text in ["", "1", "5 4", "0 9", "a b", "1 70000"] {
            assert_eq!(parse_range(text), None, "{text}");
        }
    }
}
