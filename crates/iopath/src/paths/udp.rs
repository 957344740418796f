//! `udp`: one datagram each way, over connected sockets, or over sockets without a peer (`connected=off`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hairpin_plan::job::Address;
use hairpin_plan::option::CONNECTED;
use hairpin_plan::path::LinkKind;
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::Side;
use hairpin_sys::message::{recv, recv_from, send, send_to};
use hairpin_sys::socket;
use hairpin_sys::timestamping::{self, Control};
use hairpin_sys::wait::or_nothing;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny};

use crate::error::{PathError, needs_inet};
use crate::flows::Carrier;
use crate::group;
use crate::inet;
use crate::measure::{ClientRun, ServerRun, SideFound};
use crate::polling;
use crate::runner::{Runner, Support};
use crate::stamped::Stampable;

pub struct Udp;

impl Runner for Udp {
    fn probe(&self, _link: LinkKind) -> Support {
        Support::Yes
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        if let Some(group) = &run.job.group {
            return group::ask(run, group);
        }
        let peer = needs_inet(&run.peer)?;
        let fds = inet::connect_udp(run.job, peer, run.observer, &mut run.found.side)?;
        let flows = datagrams(&fds, &run.job.spec.client)?;
        let flows = run.over_stampable(flows)?;
        note_too_long(&flows, Side::Client, &mut run.found.side);
        polling::note_queues(&fds, &run.job.spec.client, Side::Client, &mut run.found.side);
        Ok(())
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        if let Some(group) = &run.job.group {
            return group::answer(run, group);
        }
        let doors = inet::listen_udp(&run.listen, run.job.flows)?;
        let address = doors[0].local_addr().map_err(PathError::at("cannot read the data port"))?;
        run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce the data port"))?;
        let fds = inet::accept_udp(run.job, &doors, &run.listen, run.observer, &mut run.found.side)?;
        run.heard_on = doors.iter().filter_map(socket::napi_id).collect();
        drop(doors);
        let flows = datagrams(&fds, &run.job.spec.server)?;
        let flows = run.over_stampable(flows)?;
        note_too_long(&flows, Side::Server, &mut run.found.side);
        polling::note_queues(&fds, &run.job.spec.server, Side::Server, &mut run.found.side);
        Ok(())
    }
}

/// The flows of a side, without their peers if it asks for that.
fn datagrams<'fd>(fds: &'fd [OwnedFd], spec: &SideSpec) -> Result<Vec<Datagram<'fd>>, PathError> {
    let off = spec.options.get(&CONNECTED).is_some();
    let one = |fd: &'fd OwnedFd| {
        let peer = off.then(|| inet::without_peer(fd)).transpose()?.map(|peer| Box::new(peer.into()));
        Ok(Datagram { fd: fd.as_fd(), peer, too_long: 0 })
    };
    fds.iter().map(one).collect()
}

/// One UDP socket. It is small, because with many flows each cache line of a flow takes time.
struct Datagram<'fd> {
    fd: BorrowedFd<'fd>,
    /// The address at the other end; `None` for a connected socket.
    peer: Option<Box<SocketAddrAny>>,
    /// Number of errors from the kernel that a datagram was too long for the path.
    too_long: u32,
}

impl<'fd> Datagram<'fd> {
    #[inline(always)]
    fn send_once(&self, message: &[u8]) -> io::Result<Option<usize>> {
        match &self.peer {
            None => or_nothing(send(self.fd, message, SendFlags::empty())),
            Some(peer) => or_nothing(send_to(self.fd, message, SendFlags::empty(), peer)),
        }
    }

    /// Sends `message` again after an error about its length. A router's report that a datagram did not fit arrives once, as an
    /// error of the next call; from then on the kernel fragments datagrams. So it counts as a lost datagram and does not end the
    /// run. A call that fails on its own account fails again.
    #[cold]
    fn resend(&mut self, message: &[u8]) -> io::Result<bool> {
        self.too_long += 1;
        Ok(self.send_once(message)?.is_some())
    }

    #[cold]
    fn lost(&mut self) -> Option<usize> {
        self.too_long += 1;
        None
    }
}

fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error())
}

/// Warns of a path that takes smaller packets than the link, with the kernel's path MTU.
fn note_too_long(flows: &[Datagram<'_>], side: Side, found: &mut SideFound) {
    let times = flows.iter().map(|flow| u64::from(flow.too_long)).sum();
    if let Some(flow) = flows.iter().find(|flow| flow.too_long > 0) {
        found.warnings.push(inet::path_mtu(&flow.fd, side, times));
    }
}

impl<'fd> Carrier<'fd> for Datagram<'fd> {
    const LOSSY: bool = true;
    const WHOLE: bool = true;

    fn readable(&self) -> BorrowedFd<'fd> {
        self.fd
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        match self.send_once(message) {
            Err(error) if is_too_long(&error) => self.resend(message),
            sent => Ok(sent?.is_some()),
        }
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8], _expected: usize) -> io::Result<Option<usize>> {
        let received = match &self.peer {
            None => or_nothing(recv(self.fd, buffer, RecvFlags::empty())),
            Some(peer) => or_nothing(recv_from(self.fd, buffer, RecvFlags::empty(), peer)).map(Option::flatten),
        };
        match received {
            Err(error) if is_too_long(&error) => Ok(self.lost()),
            received => received,
        }
    }
}

impl<'fd> Stampable<'fd> for Datagram<'fd> {
    fn send_asking(&mut self, message: &[u8]) -> io::Result<bool> {
        match or_nothing(timestamping::send(self.fd, message, SendFlags::NOSIGNAL)) {
            Err(error) if is_too_long(&error) => self.resend(message),
            sent => Ok(sent?.is_some()),
        }
    }

    fn recv_stamped(&mut self, buffer: &mut [u8], _expected: usize) -> io::Result<Option<(usize, Control)>> {
        match or_nothing(timestamping::recv(self.fd, buffer)) {
            Err(error) if is_too_long(&error) => Ok(self.lost().map(|len| (len, Control::default()))),
            received => received,
        }
    }
}
