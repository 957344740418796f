//! Opening TCP and UDP sockets: options, ports, and the proof that the other end belongs to this session.
//!
//! ```text
//!   tcp   client: connect ── HRPNFLOW cookie ──▶ server: accepts the flow ── HRPNDONE cookie ──▶ client
//!   udp   client ── HRPNHELO cookie ──▶ server ── HRPNNONC cookie nonce ──▶ client
//!         client ── HRPNPROO cookie nonce ──▶ server: connects its socket to that address ── HRPNDONE cookie ──▶ client
//! ```
//! Every message has [`PROOF_LEN`] bytes, so an answer is never longer than its question and a server cannot serve as an
//! amplifier.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, Listen, LocalPort};
use hairpin_plan::option::{self, OptionDef};
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::{Granted, Side, TcpSide};
use hairpin_record::warning::Warning;
use hairpin_sys::socket::{self, IntOption};
use hairpin_sys::wait::Policy;
use hairpin_wire::framing;
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::error::PathError;
use crate::found::SideFound;

/// Length of every message of the proof, in bytes.
pub(crate) const PROOF_LEN: usize = 32;
/// Resend interval for a datagram of the proof.
const RETRY: Duration = Duration::from_millis(100);

/// A message of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub step: Step,
    /// The session's cookie.
    pub cookie: u64,
    /// The server's challenge; 0 in messages that carry none.
    pub nonce: u64,
}

/// The steps of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Names a TCP connection as a flow of this session.
    Flow,
    /// A UDP client's request for a challenge.
    Hello,
    /// The challenge.
    Nonce,
    /// The challenge, sent back by the client.
    Prove,
    /// The server accepts the flow.
    Done,
}

impl Step {
    const ALL: [(Step, &'static [u8; 8]); 5] = [
        (Step::Flow, b"HRPNFLOW"),
        (Step::Hello, b"HRPNHELO"),
        (Step::Nonce, b"HRPNNONC"),
        (Step::Prove, b"HRPNPROO"),
        (Step::Done, b"HRPNDONE"),
    ];
}

impl Proof {
    /// Encodes the message for the wire.
    pub(crate) fn encode(self) -> [u8; PROOF_LEN] {
        let mut bytes = [0; PROOF_LEN];
        let magic = Step::ALL.iter().find(|(step, _)| *step == self.step).map_or(b"HRPN\0\0\0\0", |(_, magic)| *magic);
        bytes[..8].copy_from_slice(magic);
        bytes[8..16].copy_from_slice(&self.cookie.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are not a message of the proof.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Proof> {
        let bytes: &[u8; PROOF_LEN] = bytes.try_into().ok()?;
        let (step, _) = Step::ALL.iter().find(|(_, magic)| bytes.starts_with(*magic))?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Some(Proof { step: *step, cookie: word(8), nonce: word(16) })
    }
}

/// Connects flow `index` over TCP and proves it.
pub(crate) fn connect_tcp(job: &Job, peer: SocketAddr, index: u32, found: &mut SideFound) -> Result<OwnedFd, PathError> {
    let socket = new_socket(peer, Type::STREAM, Protocol::TCP)?;
    bind_local(&socket, peer, job.local_port, index)?;
    before_connect(&socket, &job.spec.client, Side::Client, found)?;
    socket
        .connect_timeout(&SockAddr::from(peer), Duration::from(job.timeout))
        .map_err(|source| unreached(job, "cannot connect to", peer, source))?;
    after_connect(&socket, &job.spec.client, Side::Client, found)?;
    if !job.plain_peer {
        let failed = |source| PathError::Step { what: format!("{peer} did not take the flow"), source };
        let hello = Proof { step: Step::Flow, cookie: job.cookie, nonce: 0 }.encode();
        send_all(&socket, &hello).map_err(failed)?;
        let answer = receive_proof(&socket, Instant::now() + Duration::from(job.timeout)).map_err(failed)?;
        if answer.map(|proof| (proof.step, proof.cookie)) != Some((Step::Done, job.cookie)) {
            return Err(PathError::Peer(format!("{peer} is not the server of this session")));
        }
    }
    Ok(socket.into())
}

/// Error for an unreachable data port or echo service, with likely causes.
pub(crate) fn unreached(job: &Job, what: &str, peer: SocketAddr, source: io::Error) -> PathError {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, PermissionDenied, TimedOut};
    let cause = match (job.plain_peer, source.kind()) {
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

/// Accepts the session's flows on `listener`, in the order in which the client connects them; closes all other connections.
pub(crate) fn accept_tcp(
    job: &Job,
    listener: &TcpListener,
    listen: &Listen,
    found: &mut SideFound,
) -> Result<Vec<OwnedFd>, PathError> {
    let deadline = Instant::now() + Duration::from(job.timeout);
    let mut flows = Vec::new();
    listener.set_nonblocking(false).map_err(PathError::at("cannot prepare the listening socket"))?;
    while flows.len() < job.flows as usize {
        let (stream, from) = accept_before(listener, deadline)?;
        if from.ip().to_canonical() != listen.client.to_canonical() {
            continue;
        }
        let socket = Socket::from(stream);
        // One second is ample for 32 bytes sent at once, and a stalled client cannot hold up the others.
        let soon = deadline.min(Instant::now() + Duration::from_secs(1));
        let hello = receive_proof(&socket, soon).unwrap_or(None);
        if hello.map(|proof| (proof.step, proof.cookie)) != Some((Step::Flow, job.cookie)) {
            continue;
        }
        after_connect(&socket, &job.spec.server, Side::Server, found)?;
        let done = Proof { step: Step::Done, cookie: job.cookie, nonce: 0 }.encode();
        send_all(&socket, &done).map_err(PathError::at("cannot answer the client's flow"))?;
        flows.push(socket.into());
    }
    Ok(flows)
}

/// Accepts one connection before `deadline`.
pub(crate) fn accept_before(listener: &TcpListener, deadline: Instant) -> Result<(std::net::TcpStream, SocketAddr), PathError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PathError::Peer(
                "the client did not connect in time: a firewall may drop the data port (see --data-ports)".into(),
            ));
        }
        socket::set_receive_timeout(listener, left).map_err(PathError::at("cannot bound the wait for the client"))?;
        match listener.accept() {
            Ok(accepted) => return Ok(accepted),
            Err(error) if again(&error) => {}
            Err(error) => return Err(PathError::at("cannot accept a flow")(error)),
        }
    }
}

/// Opens flow `index` over UDP, connected to `peer`, and proves its address.
pub(crate) fn connect_udp(job: &Job, peer: SocketAddr, index: u32, found: &mut SideFound) -> Result<OwnedFd, PathError> {
    let socket = new_socket(peer, Type::DGRAM, Protocol::UDP)?;
    bind_local(&socket, peer, job.local_port, index)?;
    before_connect(&socket, &job.spec.client, Side::Client, found)?;
    socket.connect(&SockAddr::from(peer)).map_err(PathError::at(format!("cannot connect to {peer}")))?;
    after_connect(&socket, &job.spec.client, Side::Client, found)?;
    if !job.plain_peer {
        prove_address(&socket, job, peer)?;
    }
    Ok(socket.into())
}

fn prove_address(socket: &Socket, job: &Job, peer: SocketAddr) -> Result<(), PathError> {
    let deadline = Instant::now() + Duration::from(job.timeout);
    let failed = |source| unreached(job, "cannot prove this address to", peer, source);
    let mut next = Proof { step: Step::Hello, cookie: job.cookie, nonce: 0 };
    while Instant::now() < deadline {
        rustix::net::send(socket, &next.encode(), rustix::net::SendFlags::NOSIGNAL).map_err(|e| failed(e.into()))?;
        match receive_proof(socket, deadline.min(Instant::now() + RETRY)) {
            Ok(Some(proof)) if proof.cookie == job.cookie && proof.step == Step::Nonce => {
                next = Proof { step: Step::Prove, cookie: job.cookie, nonce: proof.nonce };
            }
            // A duplicate proof reaches the server's answering loop and comes back unchanged or shortened to a reply.
            Ok(Some(proof)) if proof.cookie == job.cookie && next.step == Step::Prove && proof.step != Step::Hello => {
                return Ok(());
            }
            Ok(None) if next.step == Step::Prove => return Ok(()),
            Ok(_) => {}
            Err(error) if again(&error) || error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(PathError::Peer(format!("{peer} does not answer datagrams: a firewall may drop UDP to the data port (see --data-ports)")))
}

/// Accepts the session's flows: one socket each, connected to the address that has proved itself.
pub(crate) fn accept_udp(job: &Job, first: UdpSocket, listen: &Listen, found: &mut SideFound) -> Result<Vec<OwnedFd>, PathError> {
    let deadline = Instant::now() + Duration::from(job.timeout);
    let local = first.local_addr().map_err(PathError::at("cannot read the data port"))?;
    let mut flows: Vec<OwnedFd> = Vec::new();
    let mut waiting = Some(first);
    while let Some(socket) = waiting.take() {
        let proved = challenge(&socket, job, listen, deadline)?;
        // The next flow's socket shares the port; the kernel prefers a connected socket for that socket's peer.
        if flows.len() + 1 < job.flows as usize {
            waiting = Some(bind_udp(local, &job.spec.server, found)?);
        }
        socket.connect(proved).map_err(PathError::at(format!("cannot connect to {proved}")))?;
        let done = Proof { step: Step::Done, cookie: job.cookie, nonce: 0 }.encode();
        socket.send(&done).map_err(PathError::at(format!("cannot answer {proved}")))?;
        after_connect(&socket, &job.spec.server, Side::Server, found)?;
        flows.push(socket.into());
    }
    Ok(flows)
}

/// Waits until an address has returned the nonce sent to it.
fn challenge(socket: &UdpSocket, job: &Job, listen: &Listen, deadline: Instant) -> Result<SocketAddr, PathError> {
    let secret = random()?;
    let mut buffer = [0; PROOF_LEN + 1];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PathError::Peer(
                "the client did not prove its address in time: a firewall may drop UDP to the data port".into(),
            ));
        }
        socket::set_receive_timeout(socket, left).map_err(PathError::at("cannot bound the wait for the client"))?;
        let (len, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if again(&error) => continue,
            Err(error) => return Err(PathError::at("cannot receive the client's proof")(error)),
        };
        let Some(proof) = Proof::decode(&buffer[..len]).filter(|proof| proof.cookie == job.cookie) else { continue };
        if from.ip().to_canonical() != listen.client.to_canonical() {
            continue;
        }
        // A different nonce for each address, without state for addresses that never answer.
        let nonce = secret ^ u64::from(from.port()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match proof.step {
            Step::Hello => {
                let answer = Proof { step: Step::Nonce, cookie: job.cookie, nonce }.encode();
                socket.send_to(&answer, from).map_err(PathError::at(format!("cannot answer {from}")))?;
            }
            Step::Prove if proof.nonce == nonce => return Ok(from),
            _ => {}
        }
    }
}

/// A random number from the kernel.
pub(crate) fn random() -> Result<u64, PathError> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(PathError::at("cannot get random bytes"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Listens for TCP on the first free data port.
pub(crate) fn listen_tcp(job: &Job, listen: &Listen, found: &mut SideFound) -> Result<TcpListener, PathError> {
    let open = |address: SocketAddr| -> Result<TcpListener, PathError> {
        let socket = new_socket(address, Type::STREAM, Protocol::TCP)?;
        socket.set_reuse_address(true).map_err(PathError::at("cannot reuse the data port"))?;
        before_connect(&socket, &job.spec.server, Side::Server, &mut SideFound::default())?;
        socket.bind(&SockAddr::from(address)).map_err(PathError::at(format!("cannot listen on {address}")))?;
        socket.listen(1024).map_err(PathError::at(format!("cannot listen on {address}")))?;
        Ok(TcpListener::from(OwnedFd::from(socket)))
    };
    let listener = first_free(listen, open)?;
    // Accepted sockets inherit the options of the listening socket; each grant is recorded once.
    granted_options(&listener, &job.spec.server, Side::Server, found, IS_BEFORE);
    Ok(listener)
}

/// Binds the first free data port for UDP.
pub(crate) fn listen_udp(job: &Job, listen: &Listen, found: &mut SideFound) -> Result<UdpSocket, PathError> {
    first_free(listen, |address| bind_udp(address, &job.spec.server, found))
}

fn bind_udp(address: SocketAddr, spec: &SideSpec, found: &mut SideFound) -> Result<UdpSocket, PathError> {
    let socket = new_socket(address, Type::DGRAM, Protocol::UDP)?;
    socket.set_reuse_address(true).map_err(PathError::at("cannot share the data port between flows"))?;
    socket.bind(&SockAddr::from(address)).map_err(PathError::at(format!("cannot bind {address}")))?;
    before_connect(&socket, spec, Side::Server, found)?;
    Ok(UdpSocket::from(OwnedFd::from(socket)))
}

fn first_free<T>(listen: &Listen, mut open: impl FnMut(SocketAddr) -> Result<T, PathError>) -> Result<T, PathError> {
    let (first, last) = listen.ports.unwrap_or((0, 0));
    let mut refused = None;
    for port in first..=last {
        match open(listen.at(port)) {
            Err(error @ PathError::Step { .. }) => refused = Some(error),
            other => return other,
        }
    }
    Err(refused.unwrap_or_else(|| PathError::Peer("--data-ports is empty".into())))
}

pub(crate) fn new_socket(peer: SocketAddr, kind: Type, protocol: Protocol) -> Result<Socket, PathError> {
    Socket::new(Domain::for_address(peer), kind, Some(protocol)).map_err(PathError::at("cannot open a socket"))
}

/// Binds the client's socket to the requested source port.
pub(crate) fn bind_local(socket: &Socket, peer: SocketAddr, port: LocalPort, index: u32) -> Result<(), PathError> {
    let port = match port {
        LocalPort::Any => return Ok(()),
        LocalPort::Fixed(first) => u32::from(first) + index,
        LocalPort::Rotate(count) => u32::from(hairpin_plan::job::FIRST_ROTATED) + index % u32::from(count.max(1)),
    };
    let port = u16::try_from(port)
        .map_err(|_| PathError::Peer(format!("local port {port} does not exist: use a lower --local-port")))?;
    let any = if peer.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
    socket.set_reuse_address(true).map_err(PathError::at("cannot reuse a local port"))?;
    socket.bind(&SockAddr::from(SocketAddr::new(any, port))).map_err(PathError::at(format!("cannot use local port {port}")))
}

const IS_BEFORE: [(&OptionDef, IntOption); 3] =
    [(&option::MSS, socket::TCP_MAXSEG), (&option::SNDBUF, socket::SO_SNDBUF), (&option::RCVBUF, socket::SO_RCVBUF)];

/// Sets the options that must precede the connection: segment size and buffers decide the window.
pub(crate) fn before_connect(socket: &impl AsFd, spec: &SideSpec, side: Side, found: &mut SideFound) -> Result<(), PathError> {
    for (def, which) in IS_BEFORE {
        if let Some(value) = spec.options.number(def) {
            socket::set(socket, which, value.try_into().unwrap_or(i32::MAX))
                .map_err(PathError::at(format!("cannot set {}={value}", def.name)))?;
        }
    }
    granted_options(socket, spec, side, found, IS_BEFORE);
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

pub(crate) fn grant(found: &mut SideFound, side: Side, option: &str, asked: &str, got: String, why: String) {
    let granted = Granted { side, option: option.into(), asked: asked.into(), got, why };
    // Every flow makes the same requests; one entry is enough unless the answers differ.
    if !found.granted.contains(&granted) {
        found.granted.push(granted);
    }
}

/// Totals of TCP's counters over all flows.
pub(crate) fn tcp_totals<'a>(flows: impl Iterator<Item = &'a OwnedFd>) -> TcpSide {
    let mut totals = TcpSide::default();
    let (mut segments_out, mut segments_in) = (0.0, 0.0);
    for info in flows.filter_map(|fd| socket::tcp_info(fd).ok()) {
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

fn send_all(socket: &impl AsFd, bytes: &[u8]) -> io::Result<()> {
    match rustix::net::send(socket, bytes, rustix::net::SendFlags::NOSIGNAL)? {
        sent if sent == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives one whole message of the proof; `None`: something else arrived.
fn receive_proof(socket: &impl AsFd, deadline: Instant) -> io::Result<Option<Proof>> {
    let mut bytes = [0; PROOF_LEN];
    let mut have = 0;
    while have < PROOF_LEN {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket::set_receive_timeout(socket, left.max(Duration::from_millis(1)))?;
        match rustix::net::recv(socket, &mut bytes[have..], rustix::net::RecvFlags::empty()) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((len, _)) => have += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // A datagram arrives whole; a stream may deliver the rest later.
        if have < PROOF_LEN && !bytes.starts_with(b"HRPN") {
            return Ok(None);
        }
    }
    Ok(Proof::decode(&bytes))
}

/// True if the call may be repeated: it would have blocked, or a signal interrupted it.
pub(crate) fn again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_answer_is_longer_than_its_question() {
        for (step, _) in Step::ALL {
            let proof = Proof { step, cookie: 1, nonce: 2 };
            assert_eq!(proof.encode().len(), PROOF_LEN);
            assert_eq!(Proof::decode(&proof.encode()), Some(proof));
        }
    }

    proptest! {
        #[test]
        fn garbage_is_no_proof(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(proof) = Proof::decode(&bytes) {
                prop_assert!(bytes.starts_with(b"HRPN") && bytes.len() == PROOF_LEN);
                let _ = proof.encode();
            }
        }
    }
}
