//! Addresses and interfaces of both ends: of a server whose name has several addresses, and of this host towards a peer.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

use hairpin_plan::job::Job;
use hairpin_plan::path::Speaks;
use hairpin_sys::netlink::Netlink;

/// Both ends of a connection.
pub(crate) fn ends_of(channel: &impl AsFd) -> io::Result<(SocketAddr, SocketAddr)> {
    let local = SocketAddr::try_from(rustix::net::getsockname(channel)?).map_err(|_| io::ErrorKind::AddrNotAvailable)?;
    let peer = rustix::net::getpeername(channel)?.ok_or(io::ErrorKind::NotConnected)?;
    let peer = SocketAddr::try_from(peer).map_err(|_| io::ErrorKind::AddrNotAvailable)?;
    Ok((local, peer))
}

/// Time limit for each address: a lost SYN is sent again after a second.
const TRIED_FOR: Duration = Duration::from_secs(2);

/// A server's address; over TCP, if it has several, the first that takes a connection. Else the first.
///
/// # Errors
/// The name has no address, or the resolver's error.
pub fn server_at(host: &str, port: u16, rows: &[Job]) -> io::Result<SocketAddr> {
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let is_tcp = |job: &Job| matches!(job.spec.client.speaks(), Speaks::Tcp | Speaks::TcpPerTransaction);
    let taking = if rows.iter().any(is_tcp) { taking_connections(&found) } else { None };
    taking.or(found.first().copied()).ok_or_else(|| io::Error::other("it has no address"))
}

/// The first of several addresses that takes a connection.
fn taking_connections(found: &[SocketAddr]) -> Option<SocketAddr> {
    let mut tried = found.iter().filter(|_| found.len() > 1);
    tried.find(|address| TcpStream::connect_timeout(address, TRIED_FOR).is_ok()).copied()
}

/// The address that this host would send from; connecting a datagram socket sends nothing.
pub fn local_address_towards(peer: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The interface with this address; a link-local address names it by its index.
pub fn interface_at(address: IpAddr, scope: u32) -> Option<String> {
    if scope == 0 {
        return interface_of(address);
    }
    let links = Netlink::open().and_then(|netlink| netlink.links()).ok()?;
    links.into_iter().find(|link| link.index == scope).map(|link| link.name)
}

/// The interface with this address.
pub fn interface_of(address: IpAddr) -> Option<String> {
    let interfaces = if_addrs::get_if_addrs().ok()?;
    interfaces.into_iter().find(|interface| interface.ip() == address.to_canonical()).map(|interface| interface.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_address_belongs_to_lo() {
        assert_eq!(interface_of([127, 0, 0, 1].into()).as_deref(), Some("lo"));
        assert_eq!(local_address_towards(([127, 0, 0, 1], 9).into()), Some([127, 0, 0, 1].into()));
    }

    #[test]
    fn of_several_addresses_the_first_that_takes_a_connection_is_chosen() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let there = listener.local_addr().unwrap();
        let [nobody, nobody_else] = [2u8, 3].map(|last| SocketAddr::from(([127, 0, 0, last], there.port())));
        assert_eq!((taking_connections(&[]), taking_connections(&[there])), (None, None));
        assert!(listener.accept().is_err(), "the only address was tried");
        assert_eq!(taking_connections(&[nobody, there]), Some(there));
        assert_eq!(taking_connections(&[there, nobody]), Some(there));
        assert_eq!(taking_connections(&[nobody, nobody_else]), None);
        let rows = [Job::new("tcp".parse().unwrap())];
        assert_eq!(server_at("127.0.0.1", 9, &rows).unwrap(), SocketAddr::from(([127, 0, 0, 1], 9)));
    }
}
