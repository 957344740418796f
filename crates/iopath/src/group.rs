//! A multicast group in place of one server: one request, a reply from each responder.
//!
//! ```text
//!   client                                             each responder
//!   one socket without a peer ── request to the group ──▶ a socket bound to the group, which it has joined
//!                             ◀────── reply, unicast ──── a socket of its own, so that its port tells it apart
//! ```
//! A reply is as long as its request, and goes to the request's source alone. [`asking`] has the client's loop, [`roll`] the
//! members and their answers, [`answer`] a responder.

mod answer;
mod asking;
mod roll;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_plan::job::group::{Group, MOST_RESPONDERS};
use hairpin_plan::job::{Job, LocalPort};
use hairpin_record::run::Side;
use hairpin_sys::netlink::Netlink;
use hairpin_sys::socket;
use hairpin_units::{Arrange, Nanos};
use socket2::{Protocol, SockAddr, Socket, Type};

pub(crate) use self::answer::answer;
use self::asking::{Asking, Round, Told};
use self::roll::Roll;
use crate::drive::Work;
use crate::error::PathError;
use crate::found::SideFound;
use crate::inet::{after_connect, before_connect, bind_local, new_socket};
use crate::measure::{ClientRun, waiting_on};

/// If the number of responders is not given, the client looks for them during this time …
const ROUND: Duration = Duration::from_secs(1);
/// … with a request at this interval.
const AGAIN: Duration = Duration::from_millis(50);

/// Index of loopback in every network namespace (LOOPBACK_IFINDEX of include/net/flow.h).
const LOOPBACK: u32 = 1;

/// The client's side: finds the responders, then asks them until the job is done.
pub(crate) fn ask(run: &mut ClientRun<'_>, group: &Group) -> Result<(), PathError> {
    let (job, clock) = (run.job, run.clock);
    let interface = index(group)?;
    let to = group.to(interface);
    let socket = open(job, to, interface, &mut run.found.side)?;
    let wait = waiting_on(&job.spec.client, clock, &[socket.as_fd()])?;
    let work = Work { cookie: job.cookie, verify: job.verify, ..Work::short(job.request as usize, job.reply as usize, 0) };
    let mut asking = Asking::new(socket.as_fd(), to, wait, clock, work);
    let found = discover(&mut asking, job, group, &|| run.stop.stop_requested())?;
    let mut told: Told = Default::default();
    run.alone(|job, work, between| {
        asking.work = work;
        let roll = Roll::of(found, job.duration);
        let (result, replies) = Round::new(asking, roll, job, between).run();
        told = replies;
        result
    })?;
    run.found.replies = told.0;
    run.found.side.warnings.extend(told.1);
    Ok(())
}

/// The index of the interface; 0 if the routes choose.
fn index(group: &Group) -> Result<u32, PathError> {
    let Some(name) = &group.interface else { return Ok(0) };
    Ok(Netlink::open()?.link(name)?.index)
}

/// The client's socket, which has no peer: each responder answers from an address of its own.
fn open(job: &Job, to: SocketAddr, interface: u32, found: &mut SideFound) -> Result<Socket, PathError> {
    let socket = new_socket(to, Type::DGRAM, Protocol::UDP)?;
    stay_on(&socket, interface)?;
    match job.local_port {
        // The kernel would take an address of another interface, or 0.0.0.0: loopback's address is of this host alone.
        port if interface == LOOPBACK && to.is_ipv4() => {
            let port = if let LocalPort::Fixed(port) = port { port } else { 0 };
            let own = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            socket.bind(&SockAddr::from(own)).map_err(PathError::at(format!("cannot bind {own}")))?;
        }
        port => bind_local(&socket, to, port, 0)?,
    }
    before_connect(&socket, &job.spec.client, Side::Client, found)?;
    after_connect(&socket, &job.spec.client, Side::Client, found)?;
    Ok(socket)
}

fn stay_on(socket: &Socket, interface: u32) -> Result<(), PathError> {
    if interface == 0 {
        return Ok(());
    }
    socket::set(socket, socket::SO_BINDTOIFINDEX, interface as i32).map_err(PathError::at(
        "cannot keep a socket on the group's interface (SO_BINDTOIFINDEX; before Linux 5.7 it needs CAP_NET_RAW)",
    ))
}

/// Asks until as many responders as expected have answered or, if none are expected, until the round is over and one has
/// answered.
fn discover(asking: &mut Asking<'_>, job: &Job, group: &Group, stopped: &dyn Fn() -> bool) -> Result<Vec<SocketAddr>, PathError> {
    let (begun, timeout) = (Instant::now(), Duration::from(job.timeout));
    let expected = group.responders.map(|count| count as usize);
    let mut found: Vec<SocketAddr> = Vec::new();
    let unsent = |error| no_way(group, error);
    loop {
        let round = expected.is_none() && begun.elapsed() >= ROUND.min(timeout);
        if expected.is_some_and(|count| found.len() >= count) || (round && !found.is_empty()) || begun.elapsed() >= timeout {
            break;
        }
        if stopped() {
            return Err(PathError::Stopped);
        }
        asking.send().map_err(unsent)?;
        let asked = Instant::now();
        while asked.elapsed() < AGAIN && expected.is_none_or(|count| found.len() < count) {
            let Some(reply) = asking.receive_within(AGAIN).map_err(PathError::at("cannot receive"))? else { continue };
            if !found.contains(&reply.from) && found.len() < MOST_RESPONDERS {
                found.push(reply.from);
            }
        }
    }
    found.arrange_by(Ord::cmp);
    let within = Nanos::from(begun.elapsed().min(timeout));
    match (found.len(), expected) {
        (0, _) => Err(PathError::Peer(format!(
            "nobody answers the group {group} within {within}: no responder has joined it on that interface (`hairpin bounce --group {group}` is one), or something between keeps multicast back, such as a router (ttl=N) or a switch that snoops IGMP without a querier"
        ))),
        (some, Some(count)) if some < count => {
            let list = found.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
            Err(PathError::Peer(format!(
                "{some} of {count} responders of the group {group} answer within {within}: {list}; start the others, or say --responders {some}"
            )))
        }
        _ => Ok(found),
    }
}

/// The error for a group that nothing can be sent to, or that cannot be joined.
fn no_way(group: &Group, source: io::Error) -> PathError {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable, NotFound};
    let is_route = matches!(source.kind(), NetworkUnreachable | HostUnreachable | AddrNotAvailable | NotFound);
    match &group.interface {
        Some(name) if is_route => PathError::Missing(format!(
            "{name} has no route to the group {group} ({source}): over loopback there is none to a group of IPv6, take one of IPv4, or the link veth or bridge"
        )),
        None if is_route => PathError::Missing(format!(
            "no route leads to the group {group} ({source}): name the interface after the address, as in {}%eth1",
            group.address
        )),
        _ => PathError::Step { what: format!("cannot ask or join the group {group}"), source },
    }
}
