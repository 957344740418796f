//! `udp`: one datagram there, one back, over connected sockets.

mod stamped;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hairpin_record::run::Side;
use hairpin_sys::wait::{Policy, or_nothing};
use hairpin_wire::framing::{UDP_MAX_PAYLOAD_V4, UDP_MAX_PAYLOAD_V6};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::flows::Carrier;
use crate::inet;
use crate::job::Address;
use crate::measure::{ClientRun, ServerRun};
use crate::option::{self, OptionDef, Options};
use crate::path::{IoPath, LinkKind, PathError, Speaks, Support, needs_inet};

/// The path `udp`.
pub struct Udp;

impl IoPath for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn summary(&self) -> &'static str {
        "one UDP datagram there, one back, over connected sockets"
    }

    fn speaks(&self, _options: &Options) -> Speaks {
        Speaks::Udp
    }

    fn policies(&self) -> &'static [Policy] {
        &Policy::ALL
    }

    fn options(&self) -> &'static [&'static OptionDef] {
        &[&option::SNDBUF, &option::RCVBUF, &option::DSCP, &option::PRIORITY, &option::DELAY, &option::USECS]
    }

    fn payload_limit(&self, ipv6: bool) -> u32 {
        (if ipv6 { UDP_MAX_PAYLOAD_V6 } else { UDP_MAX_PAYLOAD_V4 }) as u32
    }

    fn takes_any_size(&self) -> bool {
        true
    }

    fn probe(&self, _link: LinkKind) -> Support {
        Support::Yes
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let peer = needs_inet(&run.peer)?;
        let mut flows = Vec::new();
        for index in 0..run.job.flows {
            flows.push(Datagram { fd: inet::connect_udp(run.job, peer, index, &mut run.found.side)? });
        }
        match run.stamps.filter(|_| run.job.socket_stamps) {
            Some(stamps) => return run.over(&mut stamped::all(flows, stamps)),
            None => run.over(&mut flows)?,
        }
        inet::note_queues(flows.iter().map(|flow| &flow.fd), &run.job.spec.client, Side::Client, &mut run.found.side);
        Ok(())
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let socket = inet::listen_udp(run.job, &run.listen, &mut run.found.side)?;
        let address = socket.local_addr().map_err(PathError::at("cannot read the data port"))?;
        run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce the data port"))?;
        let fds = inet::accept_udp(run.job, socket, &run.listen, &mut run.found.side)?;
        let mut flows: Vec<Datagram> = fds.into_iter().map(|fd| Datagram { fd }).collect();
        match run.stamps.filter(|_| run.job.socket_stamps) {
            Some(stamps) => return run.over(&mut stamped::all(flows, stamps)),
            None => run.over(&mut flows)?,
        }
        inet::note_queues(flows.iter().map(|flow| &flow.fd), &run.job.spec.server, Side::Server, &mut run.found.side);
        // The client's replies are the ones whose queue is recorded.
        run.found.side.flow_facts.clear();
        Ok(())
    }
}

/// One connected UDP socket.
struct Datagram {
    fd: OwnedFd,
}

impl Carrier for Datagram {
    const LOSSY: bool = true;

    fn readable(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        Ok(or_nothing(send(&self.fd, message, SendFlags::empty()))?.is_some())
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8], _expected: usize) -> io::Result<Option<usize>> {
        Ok(or_nothing(recv(&self.fd, buffer, RecvFlags::empty()))?.map(|(len, _)| len))
    }
}
