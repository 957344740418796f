//! Opening TCP and UDP sockets: options, ports, and the proof that the other end belongs to this session.

mod opening;
mod proof;
mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use hairpin_plan::job::{FIRST_ROTATED, Job, Listen, LocalPort};
use hairpin_plan::option::{self, OptionDef};
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::{Side, TcpSide};
use hairpin_record::warning::Warning;
use hairpin_sys::socket::{self, IntOption};
use hairpin_sys::wait::Policy;
use hairpin_wire::framing;
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

pub(crate) use self::tcp::{accept_tcp, connect_tcp, no_way_out};
pub(crate) use self::udp::{accept_udp, connect_udp, listen_udp, without_peer};
use crate::error::{PathError, counted};
use crate::found::{SideFound, grant};

/// Error for an unreachable data port or echo service, with likely causes.
pub(crate) fn unreached(job: &Job, what: &str, peer: SocketAddr, source: io::Error) -> PathError {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, PermissionDenied, TimedOut};
    let cause = match (job.plain_peer, source.kind()) {
        (true, ConnectionRefused) if job.own.is_some() => "nothing listens there: start the server, or give the port that it has",
        (true, ConnectionRefused) => "nothing listens there: start the echo service, or give the port that it has",
        (true, TimedOut) => "the host is down, or a firewall drops the port",
        (false, ConnectionRefused | ConnectionReset) => {
            "a firewall may reject the data port, or a translator of addresses pass on the session's port alone: let the ports of `serve --data-ports A-B` through"
        }
        (false, TimedOut) => "a firewall may drop the data port: let the ports of `serve --data-ports A-B` through",
        (false, PermissionDenied | HostUnreachable | NetworkUnreachable) => {
            "the session got through, so a firewall may reject the data port: let the ports of `serve --data-ports A-B` through"
        }
        _ => return PathError::Step { what: format!("{what} {peer}"), source },
    };
    let port = if job.plain_peer { "" } else { "the data port " };
    PathError::Peer(format!("{what} {port}{peer}: {source}; {cause}"))
}

/// Connections that may wait to be accepted; net.core.somaxconn may allow fewer.
const QUEUE: i32 = 1024;

/// The path MTU that the kernel knows for a connected socket's peer, and the largest UDP payload that fits into one packet of it.
pub(crate) fn known_mtu(socket: &impl AsFd) -> Option<(u32, u32)> {
    let ipv6 = socket::get(socket, socket::SO_DOMAIN).ok()? == i32::from(rustix::net::AddressFamily::INET6.as_raw());
    let (option, header) = match ipv6 {
        true => (socket::IPV6_MTU, framing::IPV6_HEADER),
        false => (socket::IP_MTU, framing::IPV4_HEADER),
    };
    let mtu = u32::try_from(socket::get(socket, option).ok()?).ok()?;
    Some((mtu, mtu.saturating_sub((header + framing::UDP_HEADER) as u32)))
}

/// Warning that the path takes smaller packets than the link.
pub(crate) fn path_mtu(socket: &impl AsFd, side: Side, times: u64) -> Warning {
    let known = known_mtu(socket);
    Warning::PathMtu { side, mtu: known.map(|(mtu, _)| mtu), fits: known.map(|(_, fits)| fits), times }
}

/// A random number from the kernel.
pub(crate) fn random() -> Result<u64, PathError> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(PathError::at("cannot get random bytes"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Listens for TCP on the first free data port.
#[cold]
pub(crate) fn listen_tcp(job: &Job, listen: &Listen, found: &mut SideFound) -> Result<TcpListener, PathError> {
    let open = |address: SocketAddr| -> Result<TcpListener, PathError> {
        let socket = new_socket(address, Type::STREAM, Protocol::TCP)?;
        socket.set_reuse_address(true).map_err(PathError::at("cannot reuse the data port"))?;
        before_connect(&socket, &job.spec.server, Side::Server, &mut SideFound::default())?;
        socket.bind(&SockAddr::from(address)).map_err(PathError::at(format!("cannot listen on {address}")))?;
        socket.listen(QUEUE).map_err(PathError::at(format!("cannot listen on {address}")))?;
        Ok(TcpListener::from(OwnedFd::from(socket)))
    };
    let listener = first_free(listen, open)?;
    // Accepted sockets inherit the options of the listening socket; each grant is recorded once.
    granted_options(&listener, &job.spec.server, Side::Server, found, BUFFERS);
    Ok(listener)
}

/// Opens a socket on the first free data port.
fn first_free<T>(listen: &Listen, mut open: impl FnMut(SocketAddr) -> Result<T, PathError>) -> Result<T, PathError> {
    let (first, last) = listen.ports.unwrap_or((0, 0));
    let mut refused = None;
    for port in first..=last {
        match open(listen.at(port)) {
            Err(error) if is_taken(&error) => refused = Some(error),
            other => return other,
        }
    }
    Err(match (refused, listen.ports) {
        (Some(error), Some(_)) => PathError::Peer(format!(
            "no data port of {first} to {last} is free ({error}): each session and each probe needs one of its own; give `serve` more of them with --data-ports"
        )),
        (Some(error), None) => error,
        (None, _) => PathError::Peer("--data-ports is empty".into()),
    })
}

fn is_taken(error: &PathError) -> bool {
    matches!(error, PathError::Step { source, .. } if source.kind() == io::ErrorKind::AddrInUse)
}

pub(crate) fn new_socket(peer: SocketAddr, kind: Type, protocol: Protocol) -> Result<Socket, PathError> {
    Socket::new(Domain::for_address(peer), kind, Some(protocol)).map_err(PathError::at("cannot open a socket"))
}

/// Error for a flow that finds no local port.
fn no_port(index: u32, source: io::Error) -> PathError {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ports = range.split_whitespace().collect::<Vec<_>>().join(" to ");
    PathError::Peer(format!(
        "{} open, and the next one finds no free local port ({source}): use fewer --flows, or widen net.ipv4.ip_local_port_range ({ports})",
        counted(index.into(), "flow")
    ))
}

/// Binds the client's socket to the requested source port.
pub(crate) fn bind_local(socket: &Socket, peer: SocketAddr, port: LocalPort, index: u32) -> Result<(), PathError> {
    let port = match port {
        LocalPort::Any => return Ok(()),
        LocalPort::Fixed(first) => u32::from(first) + index,
        LocalPort::Rotate(count) => u32::from(FIRST_ROTATED) + index % u32::from(count.max(1)),
    };
    let port = u16::try_from(port)
        .map_err(|_| PathError::Peer(format!("local port {port} does not exist: use a lower --local-port")))?;
    let any = if peer.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
    socket.set_reuse_address(true).map_err(PathError::at("cannot reuse a local port"))?;
    socket.bind(&SockAddr::from(SocketAddr::new(any, port))).map_err(PathError::at(format!("cannot use local port {port}")))
}

const MSS: (&OptionDef, IntOption) = (&option::MSS, socket::TCP_MAXSEG);
const BUFFERS: [(&OptionDef, IntOption); 2] = [(&option::SNDBUF, socket::SO_SNDBUF), (&option::RCVBUF, socket::SO_RCVBUF)];

/// Sets the options that must precede the connection: segment size and buffers decide the window.
pub(crate) fn before_connect(socket: &impl AsFd, spec: &SideSpec, side: Side, found: &mut SideFound) -> Result<(), PathError> {
    for (def, which) in [MSS].into_iter().chain(BUFFERS) {
        if let Some(value) = spec.options.number(def) {
            socket::set(socket, which, value.try_into().unwrap_or(i32::MAX))
                .map_err(PathError::at(format!("cannot set {}={value}", def.name)))?;
        }
    }
    granted_options(socket, spec, side, found, BUFFERS);
    Ok(())
}

fn granted_options<const N: usize>(
    socket: &impl AsFd,
    spec: &SideSpec,
    side: Side,
    found: &mut SideFound,
    options: [(&OptionDef, IntOption); N],
) {
    for (def, which) in options {
        let Some(value) = spec.options.number(def) else { continue };
        let got = socket::get(socket, which).unwrap_or(-1);
        // The kernel doubles the value for its own bookkeeping (socket(7)), and reports the doubled one.
        let doubled = which == socket::SO_SNDBUF || which == socket::SO_RCVBUF;
        let usable = if doubled { got / 2 } else { got };
        let limit = if which == socket::SO_SNDBUF { "net.core.wmem_max" } else { "net.core.rmem_max" };
        let why = match i64::from(usable) == i64::from(value) {
            true => String::new(),
            false if doubled => format!("the kernel's limits: see {limit}"),
            false => "the connection's own limit applies".into(),
        };
        grant(found, side, def.name, &value.to_string(), usable.to_string(), why);
    }
}

/// Sets the options of a connected socket.
pub(crate) fn after_connect(socket: &impl AsFd, spec: &SideSpec, side: Side, found: &mut SideFound) -> Result<(), PathError> {
    let options = &spec.options;
    let is_tcp = spec.path.takes(&option::NODELAY);
    let set = |name: &str, which, value| socket::set(socket, which, value).map_err(PathError::at(format!("cannot set {name}")));
    if is_tcp {
        set("nodelay", socket::TCP_NODELAY, i32::from(options.get(&option::NODELAY) != Some("off")))?;
        // Only a connection tells the segment size in force.
        if rustix::net::getpeername(socket).is_ok_and(|peer| peer.is_some()) {
            granted_options(socket, spec, side, found, [MSS]);
        }
    }
    if options.get(&option::CORK) == Some("on") {
        set("cork", socket::TCP_CORK, 1)?;
    }
    if let Some(name) = options.get(&option::CONGESTION) {
        set_tcp_congestion(socket, name).map_err(PathError::at(format!(
            "cannot set congestion={name} (see /proc/sys/net/ipv4/tcp_available_congestion_control)"
        )))?;
        let got = tcp_congestion(socket).unwrap_or_default();
        grant(found, side, "congestion", name, got, String::new());
    }
    if let Some(dscp) = options.number(&option::DSCP) {
        // The option of the other address family is refused, and not needed.
        let class = dscp as i32 * 4;
        let both = [socket::set(socket, socket::IP_TOS, class), socket::set(socket, socket::IPV6_TCLASS, class)];
        if let [Err(error), Err(_)] = both {
            return Err(PathError::at("cannot set dscp")(error));
        }
    }
    if let Some(hops) = options.number(&option::TTL) {
        let all = [socket::IP_TTL, socket::IP_MULTICAST_TTL, socket::IPV6_UNICAST_HOPS, socket::IPV6_MULTICAST_HOPS];
        // Those of the other address family are refused, as above.
        if all.map(|which| socket::set(socket, which, hops as i32)).iter().all(Result::is_err) {
            return Err(PathError::Peer(format!("cannot set ttl={hops}")));
        }
    }
    if let Some(priority) = options.number(&option::PRIORITY) {
        set("priority (above 6 it needs CAP_NET_ADMIN)", socket::SO_PRIORITY, priority as i32)?;
    }
    if spec.policy == Policy::BusyPoll {
        ask_for_busy_poll(socket, spec, side, found)?;
    }
    Ok(())
}

fn ask_for_busy_poll(socket: &impl AsFd, spec: &SideSpec, side: Side, found: &mut SideFound) -> Result<(), PathError> {
    let usecs = spec.usecs() as i32;
    socket::set(socket, socket::SO_BUSY_POLL, usecs)
        .map_err(PathError::at("cannot set SO_BUSY_POLL (raising it needs CAP_NET_ADMIN: run as root, or use :spin)"))?;
    let prefer = i32::from(spec.options.get(&option::PREFER) != Some("off"));
    let budget = spec.options.number(&option::BUDGET).map_or(i32::from(option::DEFAULT_BUDGET), |packets| packets as i32);
    // Improvements only, unless they were asked for.
    for (name, def, which, value) in [
        ("prefer-busy-poll", &option::PREFER, socket::SO_PREFER_BUSY_POLL, prefer),
        ("busy-poll-budget", &option::BUDGET, socket::SO_BUSY_POLL_BUDGET, budget),
    ] {
        let outcome = match (socket::set(socket, which, value), spec.options.get(def)) {
            (Err(error), Some(asked)) => {
                let what = format!("cannot set {}={asked} (raising it needs CAP_NET_ADMIN, and Linux 5.11)", def.name);
                return Err(PathError::at(what)(error));
            }
            (outcome, _) => outcome,
        };
        let got = if outcome.is_ok() { value.to_string() } else { "not set".into() };
        grant(found, side, name, &value.to_string(), got, outcome.err().map_or(String::new(), |error| error.to_string()));
    }
    Ok(())
}

/// Totals of TCP's counters over all flows.
pub(crate) fn tcp_totals(flows: &[OwnedFd]) -> TcpSide {
    let mut totals = TcpSide::default();
    let (mut segments_out, mut segments_in) = (0.0, 0.0);
    for info in flows.iter().filter_map(|fd| socket::tcp_info(fd).ok()) {
        totals.mss = info.mss;
        totals.retransmitted += u64::from(info.retransmitted);
        segments_out += f64::from(info.segments_out);
        segments_in += f64::from(info.segments_in);
    }
    (totals.segments_out_per_transaction, totals.segments_in_per_transaction) = (Some(segments_out), Some(segments_in));
    totals
}

/// Difference of the totals from `before` to `after`.
pub(crate) fn tcp_difference(before: &TcpSide, after: TcpSide) -> TcpSide {
    let less = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
    TcpSide {
        segments_out_per_transaction: less(after.segments_out_per_transaction, before.segments_out_per_transaction),
        segments_in_per_transaction: less(after.segments_in_per_transaction, before.segments_in_per_transaction),
        retransmitted: after.retransmitted - before.retransmitted.min(after.retransmitted),
        ..after
    }
}

/// True if the call may be repeated: it would have blocked, or a signal interrupted it.
pub(crate) fn again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_that_are_taken_are_passed_over() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let listen = Listen { address: here, ports: Some((7, 9)), client: here, scope: 0 };
        let opened = |kind: io::ErrorKind| {
            let mut ports = Vec::new();
            let open = |address: SocketAddr| {
                ports.push(address.port());
                Err::<(), _>(PathError::at("cannot open it")(io::Error::from(kind)))
            };
            let why = first_free(&listen, open).unwrap_err().to_string();
            (why, ports)
        };
        let (why, ports) = opened(io::ErrorKind::AddrInUse);
        assert!(why.starts_with("no data port of 7 to 9 is free (cannot open it"), "{why}");
        assert_eq!(ports, [7, 8, 9]);
        let (why, ports) = opened(io::ErrorKind::PermissionDenied);
        assert!(why.starts_with("cannot open it"), "{why}");
        assert_eq!(ports, [7]);
    }
}
