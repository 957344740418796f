//! Common parts of `xdp` and `packet`: the sockets that prove the addresses and hold the ports, the way to the peer, the ring,
//! and its loop.
//!
//! ```text
//!   kernel sockets: address proof ──▶ placeholders: hold the ports, drop all that the kernel hands them
//!        │ the kernel now knows the neighbour
//!        ▼
//!   route, neighbour, MTU ──▶ device.ring(queue) ──▶ start ──▶ frames (endpoint) ──▶ drive │ echo ──▶ stop
//! ```
//! A ring accepts only frames to the session's ports or of Hairpin's own ethertype; a server answers only the address that has
//! proved itself.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use hairpin_packet::device::{BackEnd, Config, Favour};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::{Feature, Mode, TimeSource};
use hairpin_packet::io::{Counters, PacketIo};
use hairpin_plan::job::{Address, Job, LocalPort, Reflector, Rewrite, scope_of};
use hairpin_plan::option::{self};
use hairpin_plan::path::Speaks;
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::{FlowFacts, FlowGroup, Granted, MOST_FLOW_FACTS, Side};
use hairpin_record::split;
use hairpin_record::warning::Warning;
use hairpin_sys::clock::AnyClock;
use hairpin_sys::netlink::{LinkFacts, Netlink};
use hairpin_sys::shared::Stamps;
use hairpin_sys::wait::{Policy, Waiting};
use hairpin_sys::xsk::{LARGEST_CHUNK, LONGEST_IN_ONE};
use hairpin_wire::ethernet::{self, Mac};
use hairpin_wire::raw::Shape;
use rustix::net::{SendFlags, getpeername, getsockname, send};
use socket2::{SockFilter, SockRef};

use crate::echo::echo;
use crate::error::{PathError, needs_inet};
use crate::frames::inet::{Flow, Inet, Outer};
use crate::frames::raw::{Accepts, Raw, Sends};
use crate::frames::stamped::Stamped;
use crate::frames::{Frames, Framing};
use crate::inet;
use crate::measure::{ClientRun, ServerRun, SideFound, drive_paced, tell};

/// Entries of a ring: twice the requests in flight, within these bounds.
const LEAST_ENTRIES: u32 = 64;
const MOST_ENTRIES: u32 = 4096;
/// Packet memory of the smallest rings, in bytes.
pub(crate) const LEAST_MEMORY: u64 = 4 * LEAST_ENTRIES as u64 * LARGEST_CHUNK as u64;
/// Upper bound for frames that take chunks of up to 64 KiB and several entries each.
const MOST_LARGE: u32 = 256;
/// Above this MTU a device gets only the room the job needs, so that short frames keep the short path.
const SHORT_MTU: u32 = 3506;
/// Largest frame on every Ethernet, in bytes.
const USUAL_FRAME: usize = 1514;
/// Attempts to find neighbouring free local ports.
const TRIES: u32 = 64;
/// Hop count of a session's requests and replies.
const REQUEST: u8 = 0;
const REPLY: u8 = 1;

/// Runs the client over a device of type `B`.
pub(crate) fn ping<B: BackEnd>(run: &mut ClientRun<'_>) -> Result<(), PathError> {
    let side = run.job.spec.client.clone();
    let job = run.job;
    if let Address::Reflector(reflector) = run.peer.clone() {
        return ping_reflector::<B>(run, &side, &reflector);
    }
    let peer = needs_inet(&run.peer)?;
    let ipv6 = peer.ip().to_canonical().is_ipv6();
    let sockets = connect(run, peer)?;
    let flows = flows_of(&sockets)?;
    hold(&sockets)?;
    let way = Way::to(&flows, &sockets, scope_of(peer), Duration::from(job.timeout), &side)?;
    way.check(job, &side, Side::Client, ipv6)?;
    let ports = flows.iter().map(|flow| flow.own.port());
    let filter = filter(&side, ports);
    let (device, io) = open::<B>(&way.link, filter, false, Side::Client, job, ipv6, &mut run.found.side)?;
    note_flows(&flows, &mut run.found.side);
    let mtu = way.link.mtu;
    let outcome = match (side.speaks(), ipv6) {
        (Speaks::Raw(shape), _) => {
            let sends = way.sends(job, shape, REQUEST, job.request);
            measure(run, device, io, Raw::new(sends, Accepts::From(way.peer, REPLY)).ok_or_else(too_long)?)
        }
        (_, false) => measure(run, device, io, way.inet::<false>(&flows, &side, false, job.request)?),
        (_, true) => measure(run, device, io, way.inet::<true>(&flows, &side, false, job.request)?),
    };
    if let (Some(error), Some((known, fits))) = (&mut run.found.error, sockets.first().and_then(inet::known_mtu))
        && known < mtu
        && job.request > fits
    {
        // A ring's packets are not fragmented; a hop that drops one reports it to the kernel.
        error.push_str(&format!(
            "; a router on the way takes packets of at most {known} bytes: use payloads of at most {fits} bytes"
        ));
    }
    outcome
}

/// Runs the server over a device of type `B`.
pub(crate) fn answer<B: BackEnd>(run: &mut ServerRun<'_>) -> Result<(), PathError> {
    let side = run.job.spec.server.clone();
    let job = run.job;
    let proving = for_sockets(job);
    // A ring's frames go to one port.
    let doors = inet::listen_udp(&run.listen, 1)?;
    let address = doors[0].local_addr().map_err(PathError::at("cannot read the data port"))?;
    // The ring is open before the client can learn that the server is there, so it only has to be started then.
    let client = run.listen.client.to_canonical();
    let link = link_to(client, run.listen.scope)?;
    let filter = filter(&side, [address.port()].into_iter());
    let (device, io) = open::<B>(&link, filter, false, Side::Server, job, client.is_ipv6(), &mut run.found.side)?;
    run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce the data port"))?;
    let sockets = inet::accept_udp(&proving, &doors, &run.listen, run.observer, &mut run.found.side)?;
    drop(doors);
    let flows = flows_of(&sockets)?;
    hold(&sockets)?;
    let way = Way::to(&flows, &sockets, run.listen.scope, Duration::from(job.timeout), &side)?;
    way.check(job, &side, Side::Server, client.is_ipv6())?;
    if way.link.index != link.index {
        return Err(PathError::Way(format!(
            "the route to the client changed from {} to {} meanwhile: try again",
            link.name, way.link.name
        )));
    }
    match (side.speaks(), client.is_ipv6()) {
        (Speaks::Raw(shape), _) => {
            let sends = way.sends(job, shape, REPLY, job.reply);
            respond(run, device, io, Raw::new(sends, Accepts::From(way.peer, REQUEST)).ok_or_else(too_long)?)
        }
        (_, false) => respond(run, device, io, way.inet::<false>(&flows, &side, true, job.reply)?),
        (_, true) => respond(run, device, io, way.inet::<true>(&flows, &side, true, job.reply)?),
    }
}

/// Sends frames to a reflector; there is no peer process to agree with.
fn ping_reflector<B: BackEnd>(run: &mut ClientRun<'_>, side: &SideSpec, reflector: &Reflector) -> Result<(), PathError> {
    let Speaks::Raw(shape) = side.speaks() else {
        return Err(PathError::Way("a reflector returns frames without IP: use l3=off".into()));
    };
    let link = Netlink::open()?.link(&reflector.interface)?;
    let own = mac_of(&link)?;
    let way = Way { peer: reflector.destination.unwrap_or(own), own, link };
    if ethernet::is_group(way.peer) {
        return Err(PathError::Way(
            "a group address (broadcast, multicast) is never sent back: give the reflector's own with --dst-mac".into(),
        ));
    }
    way.check(run.job, side, Side::Client, false)?;
    // A frame returned unchanged is not addressed to this interface.
    let promiscuous = reflector.rewrite == Rewrite::None && way.peer != own;
    let (device, io) = open::<B>(
        &way.link,
        Filter::Ethertype(shape.ethertype()),
        promiscuous,
        Side::Client,
        run.job,
        false,
        &mut run.found.side,
    )?;
    let accepts = match reflector.rewrite {
        // A reflector that swaps the addresses of a frame to ourselves changes nothing.
        Rewrite::Macs if way.peer != own => Accepts::NotFrom(own),
        _ => Accepts::Any,
    };
    let sends = way.sends(run.job, shape, REQUEST, run.job.request);
    measure(run, device, io, Raw::new(sends, accepts).ok_or_else(too_long)?)
}

/// The way to the peer: outgoing interface and Ethernet addresses.
struct Way {
    link: LinkFacts,
    own: Mac,
    peer: Mac,
}

impl Way {
    #[cold]
    fn to(flows: &[Flow], sockets: &[OwnedFd], scope: u32, patience: Duration, side: &SideSpec) -> Result<Way, PathError> {
        let (Some(flow), Some(socket)) = (flows.first(), sockets.first()) else {
            return Err(PathError::Way("there is no flow".into()));
        };
        let netlink = Netlink::open()?;
        let (own_ip, peer_ip) = (flow.own.ip(), flow.peer.ip());
        let route = netlink.route_over(peer_ip, scope)?;
        if let Some(gateway) = route.gateway.filter(|_| side.speaks().is_raw()) {
            return Err(PathError::Way(format!(
                "l3=off has no IP header that {gateway}, the router to {peer_ip}, could go by: leave it out, or use a peer on the same link"
            )));
        }
        let own = mac_of(&route.link)?;
        if own == Mac::default() {
            // Loopback: all addresses are zero, and no host is a neighbour.
            return Ok(Way { link: route.link, own, peer: own });
        }
        if peer_ip == own_ip {
            return Err(PathError::Way(format!("{peer_ip} is this host's own address: take loopback as the target")));
        }
        let next = route.gateway.unwrap_or(peer_ip);
        let until = Instant::now() + patience;
        loop {
            if let Some(peer) = netlink.neighbour(route.link.index, next)? {
                return Ok(Way { link: route.link, own, peer });
            }
            if Instant::now() >= until {
                return Err(PathError::Way(format!("{next} does not tell its hardware address on {}", route.link.name)));
            }
            // A plain echo service has received nothing from us yet. An empty datagram makes the kernel resolve its address.
            let _ = send(socket, &[], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Rejects payloads that do not fit into a packet or would not arrive.
    fn check(&self, job: &Job, side: &SideSpec, whose: Side, ipv6: bool) -> Result<(), PathError> {
        fits(job, whose, ipv6, self.link.mtu, &self.link)?;
        let rings =
            [&job.spec.client, &job.spec.server].iter().all(|side| side.path.headers_in_mtu(&side.options, ipv6).is_some());
        let loopback = self.own == Mac::default();
        if loopback && (!rings || job.plain_peer) && !ipv6 {
            return Err(PathError::Way(format!(
                "the kernel takes no packet from a ring to 127.0.0.1 (net.ipv4.conf.lo.route_localnet): use {} on both sides, -6, or veth as the target",
                side.path.name
            )));
        }
        Ok(())
    }

    fn inet<const V6: bool>(&self, flows: &[Flow], side: &SideSpec, server: bool, len: u32) -> Result<Inet<V6>, PathError> {
        let traffic_class = side.options.number(&option::DSCP).unwrap_or(0) as u8 * 4;
        let outer = Outer { own: self.own, peer: self.peer, traffic_class };
        Inet::new(outer, flows, server, len as usize)
            .ok_or_else(|| PathError::Way("the flows do not share one port and one pair of addresses".into()))
    }

    fn sends(&self, job: &Job, shape: Shape, hops: u8, len: u32) -> Sends {
        // The limit of the path's flows fits into 16 bits.
        let flows = job.flows as u16;
        Sends { shape, source: self.own, destination: self.peer, hops, cookie: job.cookie, flows, len: len as usize }
    }
}

fn too_long() -> PathError {
    PathError::Way("the payload is longer than a frame can say".into())
}

fn mac_of(link: &LinkFacts) -> Result<Mac, PathError> {
    link.mac
        .ok_or_else(|| PathError::Way(format!("{} has no Ethernet address, so no Ethernet frames: use --path udp", link.name)))
}

fn link_to(peer: IpAddr, scope: u32) -> Result<LinkFacts, PathError> {
    Ok(Netlink::open()?.route_over(peer, scope)?.link)
}

/// The job for sockets that only prove addresses and hold ports: they receive nothing, so they need no polling.
fn for_sockets(job: &Job) -> Job {
    let mut job = job.clone();
    (job.spec.client.policy, job.spec.server.policy) = (Policy::Block, Policy::Block);
    job
}

/// Opens one proven socket per flow on neighbouring ports, so that the ring's filter takes no one else's packets.
fn connect(run: &mut ClientRun<'_>, peer: SocketAddr) -> Result<Vec<OwnedFd>, PathError> {
    let mut job = for_sockets(run.job);
    if job.flows > 1 && job.local_port == LocalPort::Any {
        job.local_port = LocalPort::Fixed(free_ports(peer, job.flows)?);
    }
    inet::connect_udp(&job, peer, run.observer, &mut run.found.side)
}

/// The first of `count` neighbouring free ports.
fn free_ports(peer: SocketAddr, count: u32) -> Result<u16, PathError> {
    let bind = |port| {
        let any = if peer.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
        std::net::UdpSocket::bind((any, port))
    };
    for _ in 0..TRIES {
        let first = bind(0).map_err(PathError::at("cannot find a local port"))?;
        let port = first.local_addr().map_err(PathError::at("cannot read a local port"))?.port();
        let rest = (1..count).map(|index| u16::try_from(u32::from(port) + index).ok().and_then(|port| bind(port).ok()));
        if rest.collect::<Option<Vec<_>>>().is_some() {
            return Ok(port);
        }
    }
    Err(PathError::Way(format!("no {count} neighbouring local ports are free: use --local-port, or fewer --flows")))
}

/// Both addresses of each socket, in packet form.
fn flows_of(sockets: &[OwnedFd]) -> Result<Vec<Flow>, PathError> {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let of = |socket: &OwnedFd| -> io::Result<Flow> {
        let own = SocketAddr::try_from(getsockname(socket)?).map_err(|_| io::ErrorKind::AddrNotAvailable)?;
        let peer = getpeername(socket)?.ok_or(io::ErrorKind::NotConnected)?;
        let peer = SocketAddr::try_from(peer).map_err(|_| io::ErrorKind::AddrNotAvailable)?;
        Ok(Flow { own: plain(own), peer: plain(peer) })
    };
    sockets.iter().map(of).collect::<io::Result<_>>().map_err(PathError::at("cannot read a flow's addresses"))
}

/// Makes the sockets hold their ports, so that the kernel sends no ICMP refusals, and drop everything the kernel hands them
/// (socket(7), SO_ATTACH_FILTER; a filter that returns 0 keeps 0 bytes: BPF_RET | BPF_K).
fn hold(sockets: &[OwnedFd]) -> Result<(), PathError> {
    let drop_all = [SockFilter::new(0x06, 0, 0, 0)];
    let attach = |socket: &OwnedFd| SockRef::from(socket).attach_filter(&drop_all);
    sockets.iter().try_for_each(attach).map_err(PathError::at("cannot attach a filter to a socket that holds a port"))
}

fn filter(side: &SideSpec, ports: impl Iterator<Item = u16> + Clone) -> Filter {
    match side.speaks() {
        Speaks::Raw(shape) => Filter::Ethertype(shape.ethertype()),
        _ => Filter::Udp { first: ports.clone().min().unwrap_or(0), last: ports.max().unwrap_or(0) },
    }
}

/// The device configuration that the path needs.
fn config(filter: Filter, side: &SideSpec, job: &Job, link: &LinkFacts, ipv6: bool) -> Config {
    let payload = job.request.max(job.reply);
    let headers = side.path.headers_in_mtu(&side.options, ipv6).unwrap_or(0);
    let needed = ethernet::LEN + headers as usize + payload as usize;
    let longest_frame = (link.mtu > SHORT_MTU).then(|| needed.max(USUAL_FRAME));
    let entries_each = needed.div_ceil(LONGEST_IN_ONE) as u32;
    let in_flight = job.flows.saturating_mul(job.outstanding).saturating_mul(entries_each).min(MOST_ENTRIES);
    let most = if entries_each > 1 { MOST_LARGE } else { MOST_ENTRIES };
    let ring_entries = (2 * in_flight).next_power_of_two().clamp(LEAST_ENTRIES, most);
    Config {
        filter,
        mode: match side.options.get(&option::MODE) {
            Some("native") => Some(Mode::Native),
            Some("generic") => Some(Mode::Generic),
            _ => None,
        },
        zero_copy: side.options.get(&option::ZERO_COPY) != Some("off"),
        favour: if side.options.get(&option::FAVOUR) == Some("rate") { Favour::Rate } else { Favour::Delay },
        send_queue: side.options.number(&option::SEND_QUEUE),
        busy_poll_us: (side.policy == Policy::BusyPoll).then(|| side.usecs()),
        ring_entries,
        // Enough for both rings and the fill ring when full, plus a ring's worth in hand.
        chunks: 4 * ring_entries,
        longest_frame,
        metadata: job.nic_stamps.is_some(),
        departures: job.nic_stamps.is_some(),
        ..Config::default()
    }
}

/// Opens the queue; it receives nothing until it is started.
fn open<B: BackEnd>(
    link: &LinkFacts,
    filter: Filter,
    promiscuous: bool,
    whose: Side,
    job: &Job,
    ipv6: bool,
    found: &mut SideFound,
) -> Result<(B, B::Io), PathError> {
    let side = match whose {
        Side::Client => &job.spec.client,
        Side::Server => &job.spec.server,
    };
    let config = Config { promiscuous, ..config(filter, side, job, link, ipv6) };
    let mut device = B::open(&link.name, &config)?;
    let io = device.ring(side.options.number(&option::QUEUE).unwrap_or(0))?;
    let granted = io.granted();
    // Options requested by name are required; the device's own choices are only recorded.
    let required = [
        (config.mode == Some(Mode::Native), Feature::Native),
        (side.options.get(&option::ZERO_COPY) == Some("on"), Feature::ZeroCopy),
    ];
    for (_, feature) in required.into_iter().filter(|(required, _)| *required) {
        granted.require(feature)?;
    }
    let mtu = granted.longest_frame.saturating_sub(ethernet::LEN).try_into().unwrap_or(u32::MAX);
    fits(job, whose, ipv6, mtu, link)?;
    let mut note = |option: &str, asked: Option<String>, got: &str, why: &str| {
        let asked = asked.unwrap_or_else(|| got.into());
        found.granted.push(Granted { side: whose, option: option.into(), asked, got: got.into(), why: why.into() });
    };
    let why_of = |feature| granted.refused.iter().find(|refused| refused.feature == feature).map_or("", |refused| &refused.why);
    if let Some(mode) = granted.mode {
        note("mode", None, &mode.to_string(), granted.mode_why.as_deref().unwrap_or_default());
        if granted.send_queue != granted.queue {
            note("send-queue", None, &granted.send_queue.to_string(), "");
        }
        note("zero-copy", None, if granted.zero_copy { "on" } else { "off" }, why_of(Feature::ZeroCopy));
        note("need-wakeup", None, if granted.need_wakeup { "on" } else { "off" }, why_of(Feature::NeedWakeup));
    }
    if granted.multi_buffer {
        note(
            "multi-buffer",
            None,
            "on",
            "a frame takes several entries of a ring, and one that arrives is put together by a copy",
        );
    }
    if job.nic_stamps.is_some() {
        let by = |time: Option<TimeSource>| time.map_or("none".to_owned(), |time| time.to_string());
        note(split::Way::Out.granted(), Some("hardware".into()), &by(granted.tx_time), why_of(Feature::HardwareDeparture));
        note(split::Way::In.granted(), Some("hardware".into()), &by(granted.rx_time), why_of(Feature::HardwareTime));
    }
    if let Some(usecs) = config.busy_poll_us {
        let asked = format!("{usecs} us");
        let got = if granted.busy_poll { asked.clone() } else { "asked, not in force".into() };
        note("busy-poll", Some(asked), &got, why_of(Feature::BusyPoll));
        if !granted.busy_poll {
            found.warnings.push(Warning::BusyPollNotInForce { side: whose });
        }
    }
    Ok((device, io))
}

fn fits(job: &Job, whose: Side, ipv6: bool, mtu: u32, link: &LinkFacts) -> Result<(), PathError> {
    job.check_mtu(ipv6, mtu).map_err(|error| PathError::Way(format!("the {whose}'s interface {}: {error}", link.name)))
}

fn note_flows(flows: &[Flow], found: &mut SideFound) {
    if flows.len() > MOST_FLOW_FACTS {
        found.flow_groups.push(FlowGroup { flows: flows.len() as u32, ..FlowGroup::default() });
        return;
    }
    let facts =
        |(index, flow): (usize, &Flow)| FlowFacts { flow: index as u32, local_port: flow.own.port(), ..FlowFacts::default() };
    found.flow_facts.extend(flows.iter().enumerate().map(facts));
}

/// Measures over an open ring: starts it, runs the loop, stops it, and records its counters. For a traced run the ring is wrapped
/// into one type for all devices, so that only one more loop is compiled.
fn measure<B: BackEnd, F: Framing>(run: &mut ClientRun<'_>, mut device: B, io: B::Io, framing: F) -> Result<(), PathError> {
    tell(run.stamps, Some(io.sends_on()), Some(io.waitable()));
    let place = (io.granted().interface.clone(), io.granted().queue);
    device.start()?;
    let outcome = match run.stamps {
        None => measure_over(run, io, framing),
        Some(stamps) => {
            let stamped = stamped::<F>(Box::new(io), run.clock, stamps, run.job, Side::Client)?;
            measure_over(run, stamped, framing)
        }
    };
    let elsewhere =
        elsewhere(device.astray(), &place, &run.job.spec.client, matches!(run.peer, Address::Inet(peer) if peer.is_ipv6()));
    device.stop()?;
    let closed = device.close();
    if let (Some(error), Some(elsewhere)) = (&mut run.found.error, elsewhere) {
        error.push_str("; ");
        error.push_str(&elsewhere);
    }
    run.found.error = run.found.error.take().or(closed.err().map(|error| error.to_string()));
    outcome
}

/// Answers over an open ring.
fn respond<B: BackEnd, F: Framing>(run: &mut ServerRun<'_>, mut device: B, io: B::Io, framing: F) -> Result<(), PathError> {
    tell(run.stamps, Some(io.sends_on()), Some(io.waitable()));
    let place = (io.granted().interface.clone(), io.granted().queue);
    device.start()?;
    let outcome = match run.stamps {
        None => respond_over(run, io, framing),
        Some(stamps) => {
            let stamped = stamped::<F>(Box::new(io), run.clock, stamps, run.job, Side::Server)?;
            respond_over(run, stamped, framing)
        }
    };
    let elsewhere = elsewhere(device.astray(), &place, &run.job.spec.server, run.listen.address.is_ipv6())
        .filter(|_| run.found.answered == 0);
    device.stop()?;
    // The client waits for the reason, but not as long as a link may take to come back.
    let closed = if elsewhere.is_none() { device.close().err() } else { None };
    run.found.error = run.found.error.take().or(elsewhere).or(closed.map(|error| error.to_string()));
    outcome
}

/// Wraps the ring of a traced run, whatever its device.
fn stamped<'a, F: Framing>(
    io: Box<dyn PacketIo>,
    clock: AnyClock,
    stamps: &'a Stamps,
    job: &Job,
    whose: Side,
) -> Result<Stamped<'a, Box<dyn PacketIo>>, PathError> {
    let policy = match whose {
        Side::Client => job.spec.client.policy,
        Side::Server => job.spec.server.policy,
    };
    match job.nic_stamps {
        None => Ok(Stamped::new(io, clock, stamps)),
        Some(_) => {
            Stamped::with_nic(io, clock, stamps, F::HEADERS, policy).map_err(PathError::at("cannot switch the stamps of frames"))
        }
    }
}

/// The queue on which frames for a ring arrived instead, and advice; `place` is the ring's interface and queue.
fn elsewhere(astray: Option<u32>, (interface, ring): &(String, u32), side: &SideSpec, ipv6: bool) -> Option<String> {
    let came = astray?;
    let flow = if side.speaks().is_raw() {
        "ether"
    } else if ipv6 {
        "udp6"
    } else {
        "udp4"
    };
    Some(format!(
        "frames for it came on queue {came} of {interface}, and the ring is on queue {ring}: choose with the option queue={came}, steer the flow \
         (ethtool -N {interface} flow-type {flow} … action {ring}), or have one queue (ethtool -L {interface} combined 1)"
    ))
}

fn measure_over<I: PacketIo, F: Framing>(run: &mut ClientRun<'_>, io: I, framing: F) -> Result<(), PathError> {
    let (side, clock) = (&run.job.spec.client, run.clock);
    let (ring, attended) = (copy_of(&io)?, attended(&io, side));
    let wait = Waiting::on_ring(side.policy, side.usecs(), clock, ring.as_fd());
    let mut frames = Frames::new(io, wait, framing, attended, clock);
    let outcome = run.alone(|job, work, between| drive_paced(&mut frames, &clock, job, work, between));
    note_counts(frames.counts(), Side::Client, &mut run.found.side);
    outcome
}

fn respond_over<I: PacketIo, F: Framing>(run: &mut ServerRun<'_>, io: I, framing: F) -> Result<(), PathError> {
    let (side, clock) = (&run.job.spec.server, run.clock);
    let (ring, attended) = (copy_of(&io)?, attended(&io, side));
    let wait = Waiting::on_ring(side.policy, side.usecs(), clock, ring.as_fd());
    let mut frames = Frames::new(io, wait, framing, attended, clock);
    let outcome = run.alone(|job, callbacks| echo(&mut frames, &clock, job.reply as usize, callbacks));
    note_counts(frames.counts(), Side::Server, &mut run.found.side);
    outcome
}

/// Duplicates the descriptor: the wait borrows it, and the ring itself is handed on.
fn copy_of(io: &impl PacketIo) -> Result<OwnedFd, PathError> {
    io.waitable().try_clone_to_owned().map_err(PathError::at("cannot duplicate a descriptor to wait on"))
}

/// True if an empty ring needs a kick: the kernel then polls the device, or must be woken.
fn attended(io: &impl PacketIo, side: &SideSpec) -> bool {
    side.policy == Policy::BusyPoll || io.granted().need_wakeup
}

/// Warns of frames of other sessions, and of frames that the ring lost.
pub(crate) fn note_counts((strays, counters): (u64, Counters), side: Side, found: &mut SideFound) {
    if strays > 0 {
        found.warnings.push(Warning::StrayFrames { side, count: strays });
    }
    if counters.lost() > 0 {
        let full = counters.rx_ring_full + counters.rx_no_chunk + counters.rx_dropped + counters.tx_dropped > 0;
        found.warnings.push(Warning::RingLoss { side, lost: counters.lost(), full });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_flows_are_only_counted() {
        let flows = |count| {
            let one = Flow { own: ([198, 18, 0, 1], 5_000).into(), peer: ([198, 18, 0, 2], 7).into() };
            let mut found = SideFound::default();
            note_flows(&vec![one; count], &mut found);
            (found.flow_facts.len(), found.flow_groups.iter().map(|group| group.flows).collect::<Vec<_>>())
        };
        assert_eq!(flows(MOST_FLOW_FACTS), (MOST_FLOW_FACTS, vec![]));
        assert_eq!(flows(MOST_FLOW_FACTS + 1), (0, vec![MOST_FLOW_FACTS as u32 + 1]));
    }

    #[test]
    fn only_a_ring_without_room_is_called_full() {
        let said = |change: fn(&mut Counters)| {
            let (mut counters, mut found) = (Counters::default(), SideFound::default());
            change(&mut counters);
            note_counts((0, counters), Side::Client, &mut found);
            found.warnings[0].message()
        };
        for full in [|counters: &mut Counters| counters.rx_ring_full = 3, |counters: &mut Counters| counters.tx_dropped = 3] {
            assert!(said(full).contains("it was full"), "{}", said(full));
        }
        for other in [|counters: &mut Counters| counters.rx_too_long = 3, |counters: &mut Counters| counters.tx_invalid = 3] {
            assert!(said(other).contains("lost 3 frames") && !said(other).contains("full"), "{}", said(other));
        }
    }
}
