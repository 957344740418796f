//! A responder: takes the requests that come to the group, and returns each to its source.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use hairpin_plan::job::Address;
use hairpin_plan::job::group::Group;
use hairpin_plan::spec::SideSpec;
use hairpin_record::bounce::Bounced;
use hairpin_record::run::Side;
use hairpin_sys::socket;
use hairpin_sys::wait::or_nothing;
use hairpin_wire::{framing, probe};
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use socket2::{InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};

use super::{index, no_way, stay_on};
use crate::error::PathError;
use crate::flows::Carrier;
use crate::found::SideFound;
use crate::inet::{after_connect, before_connect, new_socket};
use crate::measure::ServerRun;

/// The server's side: joins the group and answers until told to stop.
pub(crate) fn answer(run: &mut ServerRun<'_>, group: &Group) -> Result<(), PathError> {
    let (job, interface) = (run.job, index(group)?);
    let heard = join(group, interface)?;
    before_connect(&heard, &job.spec.server, Side::Server, &mut run.found.side)?;
    let own = SocketAddr::new(run.listen.address, 0);
    let says = speaker(&job.spec.server, own, &mut run.found.side)?;
    // The requests come to the group's socket, so it takes the options too.
    after_connect(&heard, &job.spec.server, Side::Server, &mut run.found.side)?;
    let address = says.local_addr().ok().and_then(|address| address.as_socket());
    let address = address.ok_or_else(|| PathError::Peer("cannot read the port of a responder".into()))?;
    run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce a responder's port"))?;
    let headers = match group.address {
        IpAddr::V4(_) => framing::IPV4_HEADER,
        IpAddr::V6(_) => framing::IPV6_HEADER,
    } + framing::UDP_HEADER
        + framing::ETHERNET_HEADER;
    let responder = Responder {
        heard: heard.as_fd(),
        says: says.as_fd(),
        cookie: (!job.plain_peer).then_some(job.cookie),
        headers,
        source: own,
        len: 0,
        counts: Bounced::default(),
    };
    let mut all = [responder];
    run.over(&mut all)?;
    run.found.bounced = Some(all[0].counts);
    Ok(())
}

/// The socket that replies leave from.
fn speaker(spec: &SideSpec, own: SocketAddr, found: &mut SideFound) -> Result<Socket, PathError> {
    let socket = new_socket(own, Type::DGRAM, Protocol::UDP)?;
    socket.bind(&SockAddr::from(own)).map_err(PathError::at(format!("cannot bind {own}")))?;
    before_connect(&socket, spec, Side::Server, found)?;
    after_connect(&socket, spec, Side::Server, found)?;
    Ok(socket)
}

/// A socket that receives datagrams to the group, and no others.
fn join(group: &Group, interface: u32) -> Result<Socket, PathError> {
    let at = group.to(interface);
    let socket = new_socket(at, Type::DGRAM, Protocol::UDP)?;
    // Several responders of a host share the port, and each gets every request.
    socket.set_reuse_address(true).map_err(PathError::at("cannot share the group's port"))?;
    stay_on(&socket, interface)?;
    socket.bind(&SockAddr::from(at)).map_err(PathError::at(format!("cannot bind the group {group}")))?;
    let (joined, only) = match group.address {
        IpAddr::V4(address) => {
            let on = match interface {
                0 => InterfaceIndexOrAddress::Address(Ipv4Addr::UNSPECIFIED),
                index => InterfaceIndexOrAddress::Index(index),
            };
            (socket.join_multicast_v4_n(&address, &on), socket::IP_MULTICAST_ALL)
        }
        IpAddr::V6(address) => (socket.join_multicast_v6(&address, interface), socket::IPV6_MULTICAST_ALL),
    };
    joined.map_err(|error| no_way(group, error))?;
    // Keeps out datagrams to groups that other programs have joined. Linux before 4.20 has no such option for IPv6.
    let _ = socket::set(&socket, only, 0);
    Ok(socket)
}

/// A member of the group.
struct Responder<'fd> {
    heard: BorrowedFd<'fd>,
    says: BorrowedFd<'fd>,
    /// The cookie of the only run that it answers; `None`: it answers every request to a group.
    cookie: Option<u64>,
    /// Bytes of a frame's headers.
    headers: u64,
    /// Source and length of the request that is to be answered.
    source: SocketAddr,
    len: usize,
    counts: Bounced,
}

impl Responder<'_> {
    /// True for a request of Hairpin's that comes from one host, not from a group's address.
    fn takes(&self, request: &[u8], source: SocketAddr) -> bool {
        let cookie = probe::cookie(request);
        let is_ours = cookie.is_some_and(|cookie| Group::is_marked(cookie) && self.cookie.is_none_or(|own| own == cookie));
        let is_one = match source.ip() {
            IpAddr::V4(address) => !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified(),
            IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified(),
        };
        is_ours && is_one && source.port() != 0
    }
}

impl<'fd> Carrier<'fd> for Responder<'fd> {
    const LOSSY: bool = true;
    const WHOLE: bool = true;

    fn readable(&self) -> BorrowedFd<'fd> {
        self.heard
    }

    fn writable(&self) -> BorrowedFd<'fd> {
        self.says
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        // A reply is never longer than its request, whatever the plan says.
        let message = &message[..self.len.min(message.len())];
        // A source that cannot be reached, such as a forged one, does not end the run.
        match or_nothing(sendto(self.says, message, SendFlags::empty(), &self.source)) {
            Ok(None) => return Ok(false),
            Ok(Some(_)) => {
                let frame = message.len() as u64 + self.headers;
                self.counts.sent += 1;
                self.counts.sent_bytes += frame;
                self.counts.sent_wire_bytes += framing::wire_bytes(frame);
            }
            Err(_) => self.counts.lost.tx_dropped += 1,
        }
        Ok(true)
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>> {
        let Some((len, _, source)) = or_nothing(recvfrom(self.heard, &mut *buffer, RecvFlags::empty()))? else { return Ok(None) };
        self.counts.received += 1;
        self.counts.received_bytes += len as u64 + self.headers;
        let source = source.and_then(|source| SocketAddr::try_from(source).ok());
        match source.filter(|source| len <= expected && self.takes(&buffer[..len], *source)) {
            Some(source) => {
                (self.source, self.len) = (source, len);
                Ok(Some(len))
            }
            None => {
                self.counts.kept.filtered += 1;
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use hairpin_plan::spec::Spec;

    use super::*;

    #[test]
    fn replies_leave_from_a_socket_with_the_buffer_that_was_asked_for() {
        let (spec, own): (Spec, SocketAddr) = ("udp:poll,sndbuf=8000".parse().unwrap(), ([127, 0, 0, 1], 0).into());
        let says = speaker(&spec.server, own, &mut SideFound::default()).unwrap();
        assert_eq!(says.send_buffer_size().unwrap(), 16_000, "the kernel doubles it");
    }

    #[test]
    fn a_request_goes_back_to_one_host_with_as_many_bytes_as_came_and_nothing_else_does() {
        let [heard, says, client] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let source = client.local_addr().unwrap();
        let mut responder = Responder {
            heard: heard.as_fd(),
            says: says.as_fd(),
            cookie: None,
            headers: 42,
            source: ([0; 4], 0).into(),
            len: 0,
            counts: Bounced::default(),
        };
        let (mut request, mut buffer) = ([9; 32], [0; 65]);
        probe::write(&mut request, 5, Group::cookie(1));
        client.send_to(&request[..20], heard.local_addr().unwrap()).unwrap();
        assert_eq!(responder.recv(&mut buffer, 64).unwrap(), Some(20));
        assert!(responder.send(&buffer[..64]).unwrap(), "the plan says 64 bytes");
        let mut reply = [0; 64];
        assert_eq!(client.recv(&mut reply).unwrap(), 20);
        assert_eq!(reply[..20], request[..20]);
        for other in [&request[..15], &[0; 32], &[0x20; 65]] {
            client.send_to(other, heard.local_addr().unwrap()).unwrap();
            assert_eq!(responder.recv(&mut buffer, 64).unwrap(), None);
        }
        assert_eq!((responder.counts.received, responder.counts.sent, responder.counts.kept.filtered), (4, 1, 3));
        assert_eq!((responder.counts.sent_bytes, responder.counts.sent_wire_bytes), (62, 86));
        for forged in ["239.255.0.1:7", "255.255.255.255:7", "0.0.0.0:7", "[ff02::1]:7", "[::]:7", "192.0.2.1:0"] {
            assert!(!responder.takes(&request, forged.parse().unwrap()), "{forged}");
        }
        responder.cookie = Some(Group::cookie(2));
        assert!(!responder.takes(&request, source), "a request of another run");
        responder.cookie = Some(Group::cookie(1));
        assert!(responder.takes(&request, source));
    }
}
