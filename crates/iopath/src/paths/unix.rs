//! `unix`: request and reply over a connected pair of UNIX stream sockets per flow.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hairpin_record::run::Side;
use hairpin_sys::wait::Policy;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::inet;
use crate::measure::{ClientRun, ServerRun};
use crate::option::{self, OptionDef, Options};
use crate::path::{IoPath, LinkKind, PathError, Speaks, Support, probe_local};
use crate::paths::tcp::STREAM_LIMIT;
use crate::rendezvous;
use crate::stream::{How, Stream};

/// The path `unix`.
pub struct Unix;

/// Every policy but `busy-poll`: what is local has no device to poll.
pub(crate) const LOCAL_POLICIES: [Policy; 5] = [Policy::Block, Policy::Poll, Policy::Epoll, Policy::Spin, Policy::Adaptive];

impl IoPath for Unix {
    fn name(&self) -> &'static str {
        "unix"
    }

    fn summary(&self) -> &'static str {
        "request and reply over a pair of UNIX stream sockets"
    }

    fn speaks(&self, _options: &Options) -> Speaks {
        Speaks::Local("unix")
    }

    fn policies(&self) -> &'static [Policy] {
        &LOCAL_POLICIES
    }

    fn options(&self) -> &'static [&'static OptionDef] {
        &[&option::SNDBUF, &option::USECS]
    }

    fn payload_limit(&self, _ipv6: bool) -> u32 {
        STREAM_LIMIT
    }

    fn probe(&self, link: LinkKind) -> Support {
        probe_local(link)
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let fds = rendezvous::take_over(run, run.job.flows as usize)?;
        for fd in &fds {
            inet::before_connect(fd, &run.job.spec.client, Side::Client, &mut run.found.side)?;
        }
        let mut flows = Stream::all(fds, Duration::from(run.job.timeout), How::default())?;
        run.over(&mut flows)
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let (ours, theirs) = pairs(SocketType::STREAM, run.job.flows)?;
        for fd in &ours {
            inet::before_connect(fd, &run.job.spec.server, Side::Server, &mut run.found.side)?;
        }
        rendezvous::hand_over(run, &theirs.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
        // Kept open here, they would hide that the client has ended.
        drop(theirs);
        let mut flows = Stream::all(ours, Duration::from(run.job.timeout), How::default())?;
        run.over(&mut flows)
    }
}

/// So many connected pairs: the server's ends and the client's.
pub(crate) fn pairs(kind: SocketType, count: u32) -> Result<(Vec<OwnedFd>, Vec<OwnedFd>), PathError> {
    let one = |_| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    (0..count).map(one).collect::<Result<_, _>>().map_err(PathError::at("cannot make a pair of UNIX sockets"))
}
