//! `unix`: request and reply over a connected pair of UNIX stream sockets per flow.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hairpin_plan::job::Address;
use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;
use hairpin_units::Nanos;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::error::PathError;
use crate::inet;
use crate::measure::{ClientRun, ServerRun};
use crate::rendezvous;
use crate::runner::{Runner, Support, probe_local};
use crate::stream::{How, Stream};

pub struct Unix;

impl Runner for Unix {
    fn probe(&self, link: LinkKind) -> Support {
        // The socket of another program is on this host too.
        if link == LinkKind::Echo { Support::Yes } else { probe_local(link) }
    }

    /// The server has both ends until the client has its own.
    fn descriptors_per_flow(&self, side: Side) -> u32 {
        if side == Side::Server { 2 } else { 1 }
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let fds = match &run.peer {
            Address::Socket(path) => connected(path, run.job.flows, run.job.timeout)?,
            _ => rendezvous::take_over(run, run.job.flows as usize)?,
        };
        for fd in &fds {
            inet::before_connect(fd, &run.job.spec.client, Side::Client, &mut run.found.side)?;
        }
        let how = How::plain(run.job.timeout.into());
        let mut flows = Stream::all(&fds, &how);
        run.ask(&mut flows)
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let (ours, theirs) = pairs(SocketType::STREAM, run.job.flows)?;
        for fd in &ours {
            inet::before_connect(fd, &run.job.spec.server, Side::Server, &mut run.found.side)?;
        }
        rendezvous::hand_over(run, &theirs.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
        // Left open here, they would hide the client's exit.
        drop(theirs);
        let how = How::plain(run.job.timeout.into());
        let mut flows = Stream::all(&ours, &how);
        run.over(&mut flows)
    }
}

/// Connections to the UNIX socket of another program.
fn connected(path: &Path, flows: u32, timeout: Nanos) -> Result<Vec<OwnedFd>, PathError> {
    let what = || format!("cannot connect to the UNIX socket {}", path.display());
    let connect = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // While the server's queue is full, connect(2) sleeps for as long as a send may.
        socket.set_write_timeout(Some(timeout.into()))?;
        socket.connect(&SockAddr::unix(path)?).map(|()| socket)
    };
    let one = |index: u32| match connect() {
        Ok(socket) => Ok(OwnedFd::from(socket)),
        Err(error) if inet::again(&error) => Err(PathError::Peer(format!(
            "{}: the server accepts no more within {timeout}, with {index} of {flows} flows open or in its queue: use fewer --flows",
            what()
        ))),
        Err(error) => Err(PathError::at(what())(error)),
    };
    (0..flows).map(one).collect()
}

/// `count` connected pairs: the server's ends and the client's.
pub(crate) fn pairs(kind: SocketType, count: u32) -> Result<(Vec<OwnedFd>, Vec<OwnedFd>), PathError> {
    let one = |_| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    (0..count).map(one).collect::<Result<_, _>>().map_err(PathError::at("cannot make a pair of UNIX sockets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_accepts_no_more_flows_is_told_within_the_timeout() {
        // No file: the name is in the abstract namespace.
        let name = format!("\0hairpin-full-queue-{}", std::process::id());
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&name).unwrap()).unwrap();
        listener.listen(1).unwrap();
        let connected = |flows| connected(Path::new(&name), flows, Nanos::from_millis(50));
        assert_eq!(connected(1).unwrap().len(), 1);
        let why = connected(9).unwrap_err().to_string();
        assert!(why.contains("the server accepts no more within 50.00 ms, with 1 of 9 flows open"), "{why}");
    }
}
