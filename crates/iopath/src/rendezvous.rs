//! Meeting point of the two sides of a `local` path: an abstract UNIX socket (unix(7)) over which the server hands the client its
//! descriptors.
//!
//! ```text
//!   server: listens on a random name, announces it          client: connects
//!   accept, same user? ◀──────────── cookie, 8 bytes ────── same user? sends the job's cookie
//!   the right cookie?  ──────────── descriptors ──────────▶ takes them
//! ```
//! Nothing appears in the file system, and nothing remains when both sides have closed. A process of another user or session gets
//! nothing.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use hairpin_plan::job::{Address, Job};
use hairpin_sys::fdpass;
use hairpin_sys::shared::Shared;
use hairpin_sys::socket;

use crate::error::PathError;
use crate::inet;
use crate::measure::{ClientRun, ServerRun};

/// Descriptors per message; the kernel allows [`fdpass::MAX_FDS`].
const AT_ONCE: usize = 128;
/// Marks a message of descriptors.
const TAG: u8 = b'F';
/// Interval at which the waiting server checks its stop flag.
const TURN: Duration = Duration::from_millis(50);
/// Ample for the 8 bytes of a cookie; a stalled stranger cannot keep the client out for long.
const COOKIE_PATIENCE: Duration = Duration::from_millis(200);

/// Server: announces the socket, waits for the client of this session and hands it `fds`.
pub(crate) fn hand_over(run: &ServerRun<'_>, fds: &[BorrowedFd<'_>]) -> Result<(), PathError> {
    let name = format!("hairpin-{:016x}{:016x}", inet::random()?, inet::random()?);
    let listener = address(&name)
        .and_then(|address| UnixListener::bind_addr(&address))
        .map_err(PathError::at(format!("cannot listen on the abstract socket {name}")))?;
    run.observer.ready(Some(&Address::Local(name))).map_err(PathError::at("cannot announce the local socket"))?;
    let client = accept(&listener, run.job, run.stop)?;
    for some in fds.chunks(AT_ONCE) {
        fdpass::send_fds(&client, some, TAG).map_err(PathError::at("cannot hand the client its descriptors"))?;
    }
    Ok(())
}

fn accept(listener: &UnixListener, job: &Job, stop: &Shared) -> Result<UnixStream, PathError> {
    let deadline = Instant::now() + Duration::from(job.timeout);
    socket::set_receive_timeout(listener, TURN).map_err(PathError::at("cannot bound the wait for the client"))?;
    while Instant::now() < deadline {
        if stop.stop_requested() {
            return Err(PathError::Stopped);
        }
        match listener.accept() {
            Ok((client, _)) if is_ours(&client, job.cookie) => return Ok(client),
            Ok(_) => {}
            Err(error) if inet::again(&error) => {}
            Err(error) => return Err(PathError::at("cannot accept the client")(error)),
        }
    }
    Err(PathError::Peer("the client did not come to take its descriptors: its process may have ended".into()))
}

fn is_ours(client: &UnixStream, cookie: u64) -> bool {
    let read_cookie = || -> io::Result<u64> {
        socket::set_receive_timeout(client, COOKIE_PATIENCE)?;
        let mut bytes = [0; 8];
        (&*client).read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    };
    is_own_user(client) && read_cookie().is_ok_and(|found| found == cookie)
}

/// Client: connects to the announced socket and takes `count` descriptors.
pub(crate) fn take_over(run: &ClientRun<'_>, count: usize) -> Result<Vec<OwnedFd>, PathError> {
    let name = match &run.peer {
        Address::Local(name) => name,
        other => return Err(PathError::Peer(format!("the server announced {other}, not a local socket"))),
    };
    let mut server = address(name)
        .and_then(|address| UnixStream::connect_addr(&address))
        .map_err(PathError::at(format!("cannot meet the server at the abstract socket {name}")))?;
    if !is_own_user(&server) {
        return Err(PathError::Peer(format!("the abstract socket {name} belongs to another user")));
    }
    socket::set_receive_timeout(&server, Duration::from(run.job.timeout))
        .map_err(PathError::at("cannot bound the wait for the server"))?;
    server.write_all(&run.job.cookie.to_le_bytes()).map_err(PathError::at("cannot greet the server"))?;
    let mut fds = Vec::with_capacity(count);
    while fds.len() < count {
        let (tag, some) = fdpass::recv_fds(&server, (count - fds.len()).min(AT_ONCE)).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                PathError::Peer("the server took this client for another session's, or ended".into())
            }
            _ => PathError::at("cannot take the descriptors from the server")(source),
        })?;
        if tag != TAG || some.is_empty() {
            return Err(PathError::Peer(
                "the server sent something else than descriptors: use the same version on both sides".into(),
            ));
        }
        fds.extend(some);
    }
    Ok(fds)
}

fn is_own_user(peer: &UnixStream) -> bool {
    fdpass::peer_uid(peer.as_fd()).is_ok_and(|uid| uid == rustix::process::geteuid().as_raw())
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}
