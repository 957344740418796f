//! `unix`: request and reply over a connected pair of UNIX stream sockets per flow.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use hairpin_plan::job::Address;
use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

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
            Address::Socket(path) => connected(path, run.job.flows)?,
            _ => rendezvous::take_over(run, run.job.flows as usize)?,
        };
        for fd in &fds {
            inet::before_connect(fd, &run.job.spec.client, Side::Client, &mut run.found.side)?;
        }
        let how = How::plain(run.job.timeout.into());
        let mut flows = Stream::all(&fds, &how)?;
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
        let mut flows = Stream::all(&ours, &how)?;
        run.over(&mut flows)
    }
}

/// Connections to the UNIX socket of another program.
fn connected(path: &Path, flows: u32) -> Result<Vec<OwnedFd>, PathError> {
    let one = |_| UnixStream::connect(path).map(OwnedFd::from);
    let all = (0..flows).map(one).collect::<Result<_, _>>();
    all.map_err(PathError::at(format!("cannot connect to the UNIX socket {}", path.display())))
}

/// `count` connected pairs: the server's ends and the client's.
pub(crate) fn pairs(kind: SocketType, count: u32) -> Result<(Vec<OwnedFd>, Vec<OwnedFd>), PathError> {
    let one = |_| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    (0..count).map(one).collect::<Result<_, _>>().map_err(PathError::at("cannot make a pair of UNIX sockets"))
}
