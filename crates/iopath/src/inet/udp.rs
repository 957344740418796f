//! UDP flows: a connected socket each on both sides, after the client has proved its address; many proofs are under way at once.
//!
//! ```text
//!   client, 128 at once ── HRPNHELO cookie index ──▶ a door: the server's socket without a peer ── HRPNNONC cookie nonce port ──▶ client
//!   client  another port than this door's: begins anew there
//!   client ── HRPNPROO cookie nonce index ──▶ door: opens a socket connected to that address ── HRPNDONE cookie ──▶ client
//! ```
//! The kernel hands a datagram to the socket that is connected to its sender, and to the door if there is none. At each bind, and
//! at each datagram for a door, it walks the sockets of that port (before Linux 6.13 at every datagram), so a port has few.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, Listen};
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::Side;
use hairpin_units::Arrange;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Protocol, SockAddr, SockRef, Socket, Type};

use super::opening::{BATCH, Opening};
use super::proof::{PROOF_LEN, Proof, Step};
use super::{after_connect, again, before_connect, bind_local, first_free, new_socket, no_port, unreached};
use crate::error::PathError;
use crate::measure::{Observer, SideFound};

/// Most flows of a server's port: with 9,900 on one port each bind took 0.27 ms, and each message to the door the same.
const FLOWS_PER_PORT: u32 = 256;
/// Resend interval for a datagram of the proof.
const RETRY: Duration = Duration::from_millis(100);

/// Opens the flows, connected to `peer`, and proves their addresses.
#[cold]
pub(crate) fn connect_udp(
    job: &Job,
    peer: SocketAddr,
    observer: &dyn Observer,
    found: &mut SideFound,
) -> Result<Vec<OwnedFd>, PathError> {
    let mut opening = Opening::begin(job, observer);
    let mut flows = Vec::with_capacity(job.flows as usize);
    for first in (0..job.flows).step_by(BATCH as usize) {
        let indices = first..job.flows.min(first + BATCH);
        let sockets: Vec<Socket> = indices.map(|index| begin(job, peer, index, found)).collect::<Result<_, _>>()?;
        if !job.plain_peer {
            prove(&sockets, first, job, peer, &opening)?;
        }
        opening.opened(sockets.len() as u32);
        flows.extend(sockets.into_iter().map(OwnedFd::from));
    }
    Ok(flows)
}

/// Connects the socket of flow `index`; that sends nothing.
fn begin(job: &Job, peer: SocketAddr, index: u32, found: &mut SideFound) -> Result<Socket, PathError> {
    let socket = new_socket(peer, Type::DGRAM, Protocol::UDP)?;
    bind_local(&socket, peer, job.local_port, index)?;
    before_connect(&socket, &job.spec.client, Side::Client, found)?;
    match socket.connect(&SockAddr::from(peer)) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(no_port(index, error)),
        connected => connected.map_err(PathError::at(format!("cannot connect to {peer}")))?,
    }
    after_connect(&socket, &job.spec.client, Side::Client, found)?;
    Ok(socket)
}

/// Takes the peer off an opened flow, which keeps its own address (connect(2), AF_UNSPEC); returns that peer.
pub(crate) fn without_peer(flow: &OwnedFd) -> Result<SocketAddr, PathError> {
    let failed = || PathError::at("cannot take the peer off a socket (connected=off)");
    let address = |got: io::Result<SockAddr>| {
        got.and_then(|got| got.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())).map_err(failed())
    };
    let socket = SockRef::from(flow);
    let (own, peer) = (address(socket.local_addr())?, address(socket.peer_addr())?);
    rustix::net::connect_unspec(flow).map_err(io::Error::from).map_err(failed())?;
    // The kernel frees a port that it chose itself.
    if address(socket.local_addr())?.port() != own.port() {
        socket.bind(&SockAddr::from(own)).map_err(failed())?;
    }
    Ok(peer)
}

/// The proof of one flow's address, on the client.
struct Proving<'a> {
    socket: &'a Socket,
    peer: SocketAddr,
    next: Proof,
    sent: Instant,
    is_over: bool,
}

impl Proving<'_> {
    fn send(&mut self) -> io::Result<()> {
        self.sent = Instant::now();
        Ok(rustix::net::send(self.socket, &self.next.encode(), SendFlags::NOSIGNAL).map(drop)?)
    }

    /// Takes the answers that have come; of a flood only a part at once, so that it holds nobody past the time.
    fn take(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            if self.is_over {
                break;
            }
            let mut bytes = [0; PROOF_LEN];
            let received = rustix::net::recvfrom(self.socket, &mut bytes[..], RecvFlags::DONTWAIT);
            let (len, from) = match received.map_err(io::Error::from) {
                Ok((len, _, from)) => (len, from.and_then(|from| SocketAddr::try_from(from).ok())),
                Err(error) if again(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            // An answer of another door may still have been queued when the socket was connected to this one.
            if from.is_some_and(|from| from.port() != self.peer.port()) {
                continue;
            }
            let proves = self.next.step == Step::Prove;
            match Proof::decode(&bytes[..len]) {
                Some(answer) if answer.cookie != self.next.cookie => {}
                Some(Proof { step: Step::Nonce, port, .. }) if port != 0 && port != self.peer.port() => {
                    self.peer.set_port(port);
                    self.socket.connect(&SockAddr::from(self.peer))?;
                    self.next = Proof { step: Step::Hello, nonce: 0, ..self.next };
                    self.send()?;
                }
                Some(Proof { step: Step::Nonce, nonce, .. }) => {
                    self.next = Proof { step: Step::Prove, nonce, ..self.next };
                    self.send()?;
                }
                // A duplicate proof reaches the server's answering loop and comes back unchanged or shortened to a reply.
                Some(Proof { step, .. }) => self.is_over = proves && step != Step::Hello,
                None => self.is_over = proves,
            }
        }
        Ok(())
    }
}

fn prove(sockets: &[Socket], first: u32, job: &Job, peer: SocketAddr, opening: &Opening<'_>) -> Result<(), PathError> {
    let failed = |source| unreached(job, "cannot prove this address to", peer, source);
    let hello = |index| Proof { step: Step::Hello, cookie: job.cookie, nonce: 0, index, port: 0 };
    let begun = |(socket, index)| Proving { socket, peer, next: hello(index), sent: Instant::now(), is_over: false };
    let mut proofs: Vec<Proving<'_>> = sockets.iter().zip(first..).map(begun).collect();
    proofs.iter_mut().try_for_each(Proving::send).map_err(failed)?;
    while !proofs.is_empty() {
        if opening.left().is_zero() {
            return Err(PathError::Peer(format!(
                "{peer} does not answer datagrams: a firewall may drop UDP to the data port (see --data-ports)"
            )));
        }
        let mut fds: Vec<_> = proofs.iter().map(|proof| PollFd::new(proof.socket, PollFlags::IN)).collect();
        opening.sleep(&mut fds, RETRY)?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (proof, ready) in proofs.iter_mut().zip(ready) {
            match ready {
                true => proof.take(),
                false if proof.sent.elapsed() >= RETRY => proof.send(),
                false => Ok(()),
            }
            .map_err(failed)?;
        }
        proofs.retain(|proof| !proof.is_over);
    }
    Ok(())
}

/// Opens the server's doors on free data ports: one for every 256 flows, or as many as `--data-ports` has.
#[cold]
pub(crate) fn listen_udp(listen: &Listen, flows: u32) -> Result<Vec<UdpSocket>, PathError> {
    let mut doors = vec![first_free(listen, open_door)?];
    while doors.len() < flows.div_ceil(FLOWS_PER_PORT) as usize {
        let ports = match (listen.ports, doors.last().map(port).transpose()?) {
            (None, _) | (_, None) => None,
            (Some((_, last)), Some(taken)) if taken >= last => break,
            (Some((_, last)), Some(taken)) => Some((taken + 1, last)),
        };
        match first_free(&Listen { ports, ..*listen }, open_door) {
            Ok(door) => doors.push(door),
            Err(PathError::Peer(_)) if ports.is_some() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(doors)
}

fn port(door: &UdpSocket) -> Result<u16, PathError> {
    Ok(door.local_addr().map_err(PathError::at("cannot read the data port"))?.port())
}

fn open_door(address: SocketAddr) -> Result<UdpSocket, PathError> {
    let socket = new_socket(address, Type::DGRAM, Protocol::UDP)?;
    socket.bind(&SockAddr::from(address)).map_err(PathError::at(format!("cannot bind {address}")))?;
    // Set only after the bind, so that the bind fails if the port is taken.
    socket.set_reuse_address(true).map_err(PathError::at("cannot share the data port between flows"))?;
    Ok(UdpSocket::from(OwnedFd::from(socket)))
}

/// Opens a flow's socket at the port of a door.
fn bind_beside(door: &UdpSocket, spec: &SideSpec, found: &mut SideFound) -> Result<UdpSocket, PathError> {
    let local = door.local_addr().map_err(PathError::at("cannot read the data port"))?;
    let socket = new_socket(local, Type::DGRAM, Protocol::UDP)?;
    socket.set_reuse_address(true).map_err(PathError::at("cannot share the data port between flows"))?;
    socket.bind(&SockAddr::from(local)).map_err(PathError::at(format!("cannot bind {local}")))?;
    before_connect(&socket, spec, Side::Server, found)?;
    Ok(UdpSocket::from(OwnedFd::from(socket)))
}

/// Accepts the session's flows at `doors`: one socket each, connected to the address that has proved itself, in the order of
/// their indices.
#[cold]
pub(crate) fn accept_udp(
    job: &Job,
    doors: &[UdpSocket],
    listen: &Listen,
    observer: &dyn Observer,
    found: &mut SideFound,
) -> Result<Vec<OwnedFd>, PathError> {
    let mut opening = Opening::begin(job, observer);
    let (secret, flows) = (RandomState::new(), HashMap::with_capacity(job.flows as usize));
    let ports = doors.iter().map(port).collect::<Result<Vec<_>, _>>()?;
    let mut house = Accepting { job, doors, ports, at: 0, client: listen.client, secret, flows, strays: VecDeque::new() };
    // Start of the time in which no flow has opened, and no answer was given again.
    let mut since = Instant::now();
    while house.flows.len() < job.flows as usize {
        if opening.left().is_zero() {
            return Err(PathError::Peer(
                "the client did not prove its address in time: a firewall may drop UDP to the data port".into(),
            ));
        }
        match house.next()? {
            Some(came) => {
                if house.take(&came, found)? {
                    opening.opened(1);
                    since = Instant::now();
                }
            }
            None => house.wait(&opening)?,
        }
        // Whatever comes to the doors meanwhile.
        if since.elapsed() >= RETRY {
            house.confirm_again()?;
            since = Instant::now();
        }
    }
    let mut flows: Vec<_> = house.flows.into_values().collect();
    flows.arrange_by_key(|(index, _)| *index);
    Ok(flows.into_iter().map(|(_, socket)| socket.into()).collect())
}

/// A message of a proof.
struct Came {
    /// Index of the door.
    door: usize,
    from: SocketAddr,
    proof: Proof,
}

/// A different nonce for each door and address. None of them reveals another, and addresses that never answer take no memory.
fn nonce(secret: &RandomState, came: &Came) -> u64 {
    secret.hash_one((came.door, came.from.ip(), came.from.port()))
}

/// The server's side while flows are accepted.
struct Accepting<'a> {
    job: &'a Job,
    doors: &'a [UdpSocket],
    ports: Vec<u16>,
    /// Index of the door that is being read.
    at: usize,
    client: IpAddr,
    secret: RandomState,
    /// The flows by their door and the client's port, with their indices.
    flows: HashMap<(usize, u16), (u32, UdpSocket)>,
    /// Messages for a door that came to a flow's socket.
    strays: VecDeque<Came>,
}

impl Accepting<'_> {
    /// The next message, if one has come.
    fn next(&mut self) -> Result<Option<Came>, PathError> {
        match self.strays.pop_front() {
            Some(stray) => Ok(Some(stray)),
            None => receive(&self.doors[self.at], self.at),
        }
    }

    /// Waits for a message at any door, for a while.
    fn wait(&mut self, opening: &Opening<'_>) -> Result<(), PathError> {
        let mut fds: Vec<_> = self.doors.iter().map(|door| PollFd::new(door, PollFlags::IN)).collect();
        opening.sleep(&mut fds, RETRY)?;
        let from_here = (self.at + 1..fds.len()).chain(0..=self.at);
        let ready = from_here.into_iter().find(|door| !fds[*door].revents().is_empty());
        self.at = ready.unwrap_or(self.at);
        Ok(())
    }

    /// Takes a message; true if a flow is open now.
    fn take(&mut self, came: &Came, found: &mut SideFound) -> Result<bool, PathError> {
        let (proof, from) = (came.proof, came.from);
        if proof.cookie != self.job.cookie || from.ip().to_canonical() != self.client.to_canonical() {
            return Ok(false);
        }
        let nonce = nonce(&self.secret, came);
        match proof.step {
            Step::Hello => {
                let group = (proof.index / FLOWS_PER_PORT) as usize;
                let answer = Proof { step: Step::Nonce, nonce, port: self.ports[group % self.ports.len()], ..proof };
                let sent = self.doors[came.door].send_to(&answer.encode(), from);
                sent.map(|_| false).map_err(PathError::at(format!("cannot answer {from}")))
            }
            // A message that was sent again before its answer came may find the flow open.
            Step::Prove if proof.nonce == nonce && !self.flows.contains_key(&(came.door, from.port())) => {
                self.open(came, found).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    fn open(&mut self, came: &Came, found: &mut SideFound) -> Result<(), PathError> {
        let (from, spec) = (came.from, &self.job.spec.server);
        let socket = bind_beside(&self.doors[came.door], spec, found)?;
        socket.connect(from).map_err(PathError::at(format!("cannot connect to {from}")))?;
        after_connect(&socket, spec, Side::Server, found)?;
        // Until it was connected, the socket was a door too. The loop has an end, so that a client that floods it fills no
        // memory.
        for _ in 0..BATCH {
            match receive(&socket, came.door)? {
                Some(stray) if stray.from != from => self.strays.push_back(stray),
                Some(_) => {}
                None => break,
            }
        }
        // From now on the client may send, and the socket keeps its messages.
        confirm(&socket, came.proof)?;
        self.flows.insert((came.door, from.port()), (came.proof.index, socket));
        Ok(())
    }

    /// Answers proofs that were sent again because the answer was lost.
    fn confirm_again(&self) -> Result<(), PathError> {
        for (_, socket) in self.flows.values() {
            if let Some(came) = receive(socket, 0)? {
                confirm(socket, came.proof)?;
            }
        }
        Ok(())
    }
}

/// Tells the client that its flow is open.
fn confirm(socket: &UdpSocket, proof: Proof) -> Result<(), PathError> {
    let done = Proof { step: Step::Done, nonce: 0, ..proof }.encode();
    socket.send(&done).map(drop).map_err(PathError::at("cannot tell the client that its flow is open"))
}

/// The next message of a proof that has come to a socket at a door; anything else is dropped, and of a flood only a part at once,
/// so that it holds nobody past the time.
fn receive(socket: &UdpSocket, door: usize) -> Result<Option<Came>, PathError> {
    for _ in 0..BATCH {
        let mut bytes = [0; PROOF_LEN + 1];
        match rustix::net::recvfrom(socket, &mut bytes[..], RecvFlags::DONTWAIT).map_err(io::Error::from) {
            Ok((len, _, from)) => {
                let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                if let (Some(proof), Some(from)) = (Proof::decode(&bytes[..len]), from) {
                    return Ok(Some(Came { door, from, proof }));
                }
            }
            Err(error) if again(&error) => return Ok(None),
            // A client that has gone; others may still come.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(PathError::at("cannot receive the client's proof")(error)),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::super::opening::readable;
    use super::*;
    use crate::measure::tests::Nobody;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn listen(ports: Option<(u16, u16)>) -> Listen {
        Listen { address: HERE, ports, client: HERE, scope: 0 }
    }

    fn job(flows: u32) -> Job {
        Job { flows, cookie: 7, ..Job::new("udp:poll".parse().unwrap()) }
    }

    /// A client that is led by hand.
    fn client(door: &UdpSocket) -> UdpSocket {
        let socket = UdpSocket::bind((HERE, 0)).unwrap();
        socket.connect(door.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }

    fn ask(socket: &UdpSocket, step: Step, index: u32, nonce: u64) -> Proof {
        socket.send(&Proof { step, cookie: 7, nonce, index, port: 0 }.encode()).unwrap();
        let mut bytes = [0; PROOF_LEN];
        socket.recv(&mut bytes).unwrap();
        Proof::decode(&bytes).unwrap()
    }

    #[test]
    fn an_answer_that_was_lost_is_given_again_while_other_flows_are_opened() {
        let doors = listen_udp(&listen(None), 2).unwrap();
        let flows = thread::scope(|scope| {
            let server = scope.spawn(|| accept_udp(&job(2), &doors, &listen(None), &Nobody, &mut SideFound::default()).unwrap());
            let [second, first] = [client(&doors[0]), client(&doors[0])];
            let prove = |socket: &UdpSocket, index| {
                let nonce = ask(socket, Step::Hello, index, 0).nonce;
                let forged = Proof { step: Step::Prove, cookie: 7, nonce: nonce ^ 1, index, port: 0 };
                socket.send(&forged.encode()).unwrap();
                assert_eq!(ask(socket, Step::Hello, index, 0).step, Step::Nonce, "another nonce proves nothing");
                (ask(socket, Step::Prove, index, nonce), nonce)
            };
            let (done, nonce) = prove(&second, 1);
            assert_eq!((done.step, done.index), (Step::Done, 1));
            assert_eq!(ask(&second, Step::Prove, 1, nonce).step, Step::Done, "once more");
            assert_eq!(prove(&first, 0).0.step, Step::Done);
            let flows = server.join().unwrap();
            first.send(b"of flow 0").unwrap();
            flows
        });
        let mut bytes = [0; 20];
        let first = UdpSocket::from(flows.into_iter().next().unwrap());
        first.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let len = first.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"of flow 0", "the flows are in the order of their indices");
    }

    #[test]
    fn a_stranger_at_the_door_does_not_keep_a_lost_answer_from_being_given_again() {
        let doors = listen_udp(&listen(None), 2).unwrap();
        let [first, second, stranger] = [(); 3].map(|()| client(&doors[0]));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let server = scope.spawn(|| accept_udp(&job(2), &doors, &listen(None), &Nobody, &mut SideFound::default()).unwrap());
            scope.spawn(|| {
                // For longer than a client of this test waits.
                let begun = Instant::now();
                while !is_over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(10) {
                    stranger.send(&[0]).unwrap();
                    thread::sleep(RETRY / 10);
                }
            });
            let nonce = ask(&first, Step::Hello, 0, 0).nonce;
            assert_eq!(ask(&first, Step::Prove, 0, nonce).step, Step::Done);
            assert_eq!(ask(&first, Step::Prove, 0, nonce).step, Step::Done, "once more");
            is_over.store(true, Ordering::Relaxed);
            let nonce = ask(&second, Step::Hello, 1, 0).nonce;
            assert_eq!(ask(&second, Step::Prove, 1, nonce).step, Step::Done);
            assert_eq!(server.join().unwrap().len(), 2);
        });
    }

    #[test]
    fn a_flood_of_other_datagrams_holds_nobody() {
        let door = UdpSocket::bind((HERE, 0)).unwrap();
        let flood = client(&door);
        (0..BATCH).for_each(|_| _ = flood.send(&[0]).unwrap());
        flood.send(&Proof { step: Step::Hello, cookie: 7, nonce: 0, index: 0, port: 0 }.encode()).unwrap();
        assert!(receive(&door, 0).unwrap().is_none(), "the caller looks at its clock first");
        let came = loop {
            readable(&door, RETRY).unwrap();
            if let Some(came) = receive(&door, 0).unwrap() {
                break came;
            }
        };
        assert_eq!(came.proof.step, Step::Hello);
    }

    #[test]
    fn a_challenge_of_the_door_before_is_not_taken_for_one_of_the_next_door() {
        let [first, next] = [(); 2].map(|()| UdpSocket::bind((HERE, 0)).unwrap());
        first.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let (peer, port) = (first.local_addr().unwrap(), next.local_addr().unwrap().port());
        let socket = begin(&job(1), peer, 0, &mut SideFound::default()).unwrap();
        let hello = Proof { step: Step::Hello, cookie: 7, nonce: 0, index: 0, port: 0 };
        let mut proving = Proving { socket: &socket, peer, next: hello, sent: Instant::now(), is_over: false };
        proving.send().unwrap();
        let (_, from) = first.recv_from(&mut [0; PROOF_LEN]).unwrap();
        // To a message that was sent twice the door answers twice.
        let challenge = Proof { step: Step::Nonce, nonce: 5, port, ..hello };
        (0..2).for_each(|_| _ = first.send_to(&challenge.encode(), from).unwrap());
        readable(&socket, Duration::from_secs(5)).unwrap();
        proving.take().unwrap();
        assert_eq!((proving.peer.port(), proving.next), (port, hello));
    }

    #[test]
    fn a_nonce_tells_no_other_ways_nonce() {
        let proof = Proof { step: Step::Hello, cookie: 7, nonce: 0, index: 0, port: 0 };
        let came = |door, ip, port| Came { door, from: SocketAddr::new(ip, port), proof };
        let elsewhere = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let ways = [came(0, HERE, 1), came(0, HERE, 2), came(1, HERE, 1), came(0, elsewhere, 1)];
        let [one, other] = [RandomState::new(), RandomState::new()].map(|secret| ways.each_ref().map(|way| nonce(&secret, way)));
        for (way, same_way) in one.iter().zip(&other).skip(1) {
            assert_ne!(one[0], *way);
            assert_ne!(one[0] ^ way, other[0] ^ same_way, "they differ by what is no secret");
        }
    }

    #[test]
    fn many_flows_are_spread_over_ports_and_few_or_all_data_ports_are_taken() {
        let doors = listen_udp(&listen(None), 2 * FLOWS_PER_PORT + 1).unwrap();
        let ports: Vec<u16> = doors.iter().map(|door| port(door).unwrap()).collect();
        assert_eq!(ports.len(), 3);
        let one = Some((ports[2], ports[2]));
        assert!(listen_udp(&listen(one), 1).is_err(), "the port is taken");
        drop(doors);
        assert_eq!(listen_udp(&listen(one), 2 * FLOWS_PER_PORT).unwrap().len(), 1, "there are no more");
    }

    #[test]
    fn both_sides_open_more_flows_than_a_port_has() {
        let many = Job { flows: FLOWS_PER_PORT + 3, ..job(1) };
        let doors = listen_udp(&listen(None), many.flows).unwrap();
        let peer = doors[0].local_addr().unwrap();
        let [ours, theirs] = thread::scope(|scope| {
            let server = scope.spawn(|| accept_udp(&many, &doors, &listen(None), &Nobody, &mut SideFound::default()));
            let ours = connect_udp(&many, peer, &Nobody, &mut SideFound::default());
            [ours, server.join().unwrap()].map(|flows| flows.unwrap().into_iter().map(UdpSocket::from).collect::<Vec<_>>())
        });
        assert_eq!([ours.len(), theirs.len()], [many.flows as usize; 2]);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.local_addr().unwrap(), theirs.peer_addr().unwrap());
            assert_eq!(ours.peer_addr().unwrap(), theirs.local_addr().unwrap());
        }
        let ports: std::collections::BTreeSet<u16> = theirs.iter().map(|flow| flow.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), 2);
    }
}
