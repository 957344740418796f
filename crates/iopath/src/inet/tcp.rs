//! TCP flows: connections opened in batches, each named as a flow of this session.
//!
//! ```text
//!   client: connect, 128 at once ── HRPNFLOW cookie index ──▶ server: accepts the flow ── HRPNDONE cookie ──▶ client: the next 128
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, Listen, LocalPort};
use hairpin_record::run::Side;
use hairpin_sys::socket;
use hairpin_units::Arrange;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Protocol, SockAddr, Socket, Type};

use super::opening::{BATCH, Opening, readable, wait};
use super::proof::{PROOF_LEN, Proof, Step};
use super::{after_connect, again, before_connect, bind_local, new_socket, no_port, unreached};
use crate::error::{PathError, counted};
use crate::measure::{Observer, SideFound};

/// The kernel takes every second port first, and when those are used up it looks at each of them again for every connection: 1 ms
/// by default. More flows than this may use them up.
const MANY_PORTS: u32 = 8_192;
/// A range that does not narrow the host's; a socket with a range of its own is given the next free port, whichever it is.
const ANY_PORT: i32 = 1;
/// Ample for 32 bytes sent at once; a stalled client cannot hold up the others for longer.
const STALLED: Duration = Duration::from_secs(1);

/// Connects the flows and proves them.
#[cold]
pub(crate) fn connect_tcp(
    job: &Job,
    peer: SocketAddr,
    observer: &dyn Observer,
    found: &mut SideFound,
) -> Result<Vec<OwnedFd>, PathError> {
    let mut opening = Opening::begin(job, observer);
    let mut flows = Vec::with_capacity(job.flows as usize);
    for first in (0..job.flows).step_by(BATCH as usize) {
        let indices = first..job.flows.min(first + BATCH);
        let batch: Vec<Socket> = indices.clone().map(|index| begin(job, peer, index, found)).collect::<Result<_, _>>()?;
        for (index, socket) in indices.zip(&batch) {
            connected(socket, &opening).map_err(|source| match source.kind() {
                io::ErrorKind::TimedOut if job.plain_peer && index > 0 => PathError::Peer(format!(
                    "cannot connect to {peer}: {source}, with {} open or in the server's queue: it accepts no more; use fewer --flows",
                    counted(index.into(), "flow")
                )),
                _ => unreached(job, "cannot connect to", peer, source),
            })?;
            after_connect(socket, &job.spec.client, Side::Client, found)?;
            if !job.plain_peer {
                let hello = Proof { step: Step::Flow, cookie: job.cookie, nonce: 0, index, port: 0 };
                send_all(socket, &hello.encode()).map_err(not_taken(peer))?;
            }
        }
        for socket in batch.iter().filter(|_| !job.plain_peer) {
            let answer = receive(socket, Instant::now() + opening.left()).map_err(not_taken(peer))?;
            if answer.map(|proof| (proof.step, proof.cookie)) != Some((Step::Done, job.cookie)) {
                return Err(PathError::Peer(format!("{peer} is not the server of this session")));
            }
        }
        opening.opened(batch.len() as u32);
        flows.extend(batch.into_iter().map(OwnedFd::from));
    }
    Ok(flows)
}

fn not_taken(peer: SocketAddr) -> impl FnOnce(io::Error) -> PathError {
    move |source| PathError::Step { what: format!("{peer} did not take the flow"), source }
}

/// Begins to connect flow `index`.
fn begin(job: &Job, peer: SocketAddr, index: u32, found: &mut SideFound) -> Result<Socket, PathError> {
    let socket = new_socket(peer, Type::STREAM, Protocol::TCP)?;
    bind_local(&socket, peer, job.local_port, index)?;
    before_connect(&socket, &job.spec.client, Side::Client, found)?;
    if job.flows > MANY_PORTS {
        // Refused before Linux 6.3, where the search only takes longer.
        let _ = socket::set(&socket, socket::IP_LOCAL_PORT_RANGE, ANY_PORT);
    }
    socket.set_nonblocking(true).map_err(PathError::at("cannot prepare a socket"))?;
    match socket.connect(&SockAddr::from(peer)) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Err(match job.local_port {
            LocalPort::Any if index > 0 => no_port(index, error),
            port => no_way_out(peer, port, error),
        }),
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
            Err(unreached(job, "cannot connect to", peer, error))
        }
        _ => Ok(socket),
    }
}

/// Error for a flow that is given no address or port of its own.
pub(crate) fn no_way_out(peer: SocketAddr, port: LocalPort, source: io::Error) -> PathError {
    let no_address = "this host has no address to connect from";
    let cause = match port {
        LocalPort::Any => format!("{no_address}, or no free local port"),
        LocalPort::Fixed(_) | LocalPort::Rotate(_) => {
            format!("a connection between the same ports stands already (use another --local-port), or {no_address}")
        }
    };
    PathError::Peer(format!("cannot connect to {peer}: {source}; {cause}"))
}

/// Waits until the connection stands.
fn connected(socket: &Socket, opening: &Opening<'_>) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(socket, PollFlags::OUT)];
        wait(&mut fds, opening.left())?;
        if !fds[0].revents().is_empty() {
            break;
        }
        if opening.left().is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    socket.take_error()?.map_or(Ok(()), Err)?;
    // The wait policy chooses its own mode.
    socket.set_nonblocking(false)
}

/// Accepts the session's flows on `listener`, in the order of their indices; closes all other connections.
#[cold]
pub(crate) fn accept_tcp(
    job: &Job,
    listener: &TcpListener,
    listen: &Listen,
    observer: &dyn Observer,
    found: &mut SideFound,
) -> Result<Vec<OwnedFd>, PathError> {
    let mut opening = Opening::begin(job, observer);
    let mut flows = Vec::with_capacity(job.flows as usize);
    listener.set_nonblocking(true).map_err(PathError::at("cannot prepare the listening socket"))?;
    while flows.len() < job.flows as usize {
        let Some((stream, from)) = accept(listener, &opening)? else { continue };
        if from.ip().to_canonical() != listen.client.to_canonical() {
            continue;
        }
        let socket = Socket::from(stream);
        let hello = receive(&socket, Instant::now() + opening.left().min(STALLED)).unwrap_or(None);
        let Some(hello) = hello.filter(|hello| (hello.step, hello.cookie) == (Step::Flow, job.cookie)) else { continue };
        after_connect(&socket, &job.spec.server, Side::Server, found)?;
        let done = Proof { step: Step::Done, cookie: job.cookie, ..hello };
        send_all(&socket, &done.encode()).map_err(PathError::at("cannot answer the client's flow"))?;
        flows.push((hello.index, OwnedFd::from(socket)));
        opening.opened(1);
    }
    flows.arrange_by_key(|(index, _)| *index);
    Ok(flows.into_iter().map(|(_, flow)| flow).collect())
}

/// The next connection, if one has come in time, however many strangers connect.
fn accept(listener: &TcpListener, opening: &Opening<'_>) -> Result<Option<(std::net::TcpStream, SocketAddr)>, PathError> {
    if opening.left().is_zero() {
        return Err(PathError::Peer(
            "the client did not connect in time: a firewall may drop the data port (see --data-ports)".into(),
        ));
    }
    match listener.accept() {
        Ok(accepted) => return Ok(Some(accepted)),
        Err(error) if again(&error) => {}
        Err(error) => return Err(PathError::at("cannot accept a flow")(error)),
    }
    readable(listener, opening.left()).map_err(PathError::at("cannot wait for the client"))?;
    Ok(None)
}

fn send_all(socket: &impl AsFd, bytes: &[u8]) -> io::Result<()> {
    match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)? {
        sent if sent == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives one whole message of the proof; `None`: something else arrived.
fn receive(socket: &impl AsFd, deadline: Instant) -> io::Result<Option<Proof>> {
    let mut bytes = [0; PROOF_LEN];
    let mut have = 0;
    while have < PROOF_LEN {
        match rustix::net::recv(socket, &mut bytes[have..], RecvFlags::DONTWAIT).map_err(io::Error::from) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((len, _)) => {
                have += len;
                if have < PROOF_LEN && !bytes.starts_with(b"HRPN") {
                    return Ok(None);
                }
            }
            Err(error) if again(&error) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                readable(socket, left)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Proof::decode(&bytes))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use hairpin_units::Nanos;

    use super::*;
    use crate::measure::tests::Nobody;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn a_connection_that_stands_already_is_no_lack_of_ports() {
        let (_listener, peer) = listener();
        let port = listener().1.port();
        let job = Job { plain_peer: true, local_port: LocalPort::Fixed(port), ..Job::new("tcp".parse().unwrap()) };
        let begin = || begin(&job, peer, 0, &mut SideFound::default());
        let _stands = begin().unwrap();
        let why = begin().unwrap_err().to_string();
        assert!(why.contains("stands already") && !why.contains("--flows"), "{why}");
    }

    #[test]
    fn strangers_do_not_hold_the_server_past_its_time() {
        let (listener, address) = listener();
        let _silent = [(); 9].map(|()| TcpStream::connect(address).unwrap());
        let job = Job { timeout: Nanos::from_millis(50), ..Job::new("tcp".parse().unwrap()) };
        let listen = Listen { address: address.ip(), ports: None, client: address.ip(), scope: 0 };
        let why = accept_tcp(&job, &listener, &listen, &Nobody, &mut SideFound::default()).unwrap_err().to_string();
        assert!(why.starts_with("the client did not connect in time"), "{why}");
        assert!(listener.accept().is_ok(), "the last ones were not waited for");
    }
}
