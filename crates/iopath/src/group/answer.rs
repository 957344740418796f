//! A responder: takes the requests that come to the group, and returns each to its source.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use hairpin_plan::job::Address;
use hairpin_plan::job::group::Group;
use hairpin_record::bounce::Bounced;
use hairpin_record::run::Side;
use hairpin_sys::socket;
use hairpin_sys::wait::or_nothing;
use hairpin_wire::{framing, probe};
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use socket2::{InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};

use super::{index, stay_on};
use crate::error::PathError;
use crate::flows::Carrier;
use crate::inet::{after_connect, before_connect, new_socket};
use crate::measure::ServerRun;

/// The server's side: joins the group and answers until told to stop.
pub(crate) fn answer(run: &mut ServerRun<'_>, group: &Group) -> Result<(), PathError> {
    let (job, interface) = (run.job, index(group)?);
    let heard = join(group, interface)?;
    before_connect(&heard, &job.spec.server, Side::Server, &mut run.found.side)?;
    let own = SocketAddr::new(run.listen.address, 0);
    let says = new_socket(own, Type::DGRAM, Protocol::UDP)?;
    says.bind(&SockAddr::from(own)).map_err(PathError::at(format!("cannot bind {own}")))?;
    after_connect(&says, &job.spec.server, Side::Server, &mut run.found.side)?;
    // Received is what the group's socket received.
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

/// A socket that receives what is sent to the group, and nothing else.
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
    joined.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::AddrNotAvailable | io::ErrorKind::NetworkUnreachable => {
            PathError::Peer(format!(
                "no route leads to the group {group} ({source}): name the interface after the address, as in {}%eth1",
                group.address
            ))
        }
        _ => PathError::Step { what: format!("cannot join the group {group}"), source },
    })?;
    // Memberships of other programs bring nothing here. A kernel without the option for IPv6 is older than 4.20.
    let _ = socket::set(&socket, only, 0);
    Ok(socket)
}

/// A member of the group.
struct Responder<'fd> {
    heard: BorrowedFd<'fd>,
    says: BorrowedFd<'fd>,
    /// The cookie of the only run that it answers; `None`: of every request to a group.
    cookie: Option<u64>,
    /// Bytes of a frame's headers.
    headers: u64,
    /// Source and length of the request that is to be answered.
    source: SocketAddr,
    len: usize,
    counts: Bounced,
}

impl Responder<'_> {
    /// True for a request of Hairpin's, whose source is one host.
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

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        // No more bytes than came, whatever the plan says.
        let message = &message[..self.len.min(message.len())];
        // A source that cannot be reached, such as a forged one, ends nothing.
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
