//! `tcp`: request and reply over one standing connection per flow.

mod parted;

use std::os::fd::OwnedFd;
use std::time::Duration;

use hairpin_record::run::Side;
use hairpin_sys::wait::Policy;

use self::parted::Parted;
use crate::flows::Carrier;
use crate::inet;
use crate::job::Address;
use crate::measure::{ClientRun, ServerRun};
use crate::option::{self, OptionDef, Options};
use crate::path::{IoPath, LinkKind, PathError, Speaks, Support, needs_inet};
use crate::spec::SideSpec;
use crate::stream::{QUICKACK_KERNEL, Stream};

/// The path `tcp`.
pub struct Tcp;

/// The largest payload of a stream: 64 KiB.
pub(crate) const STREAM_LIMIT: u32 = 65_536;

impl IoPath for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn summary(&self) -> &'static str {
        "request and reply over one standing TCP connection per flow"
    }

    fn speaks(&self, _options: &Options) -> Speaks {
        Speaks::Tcp
    }

    fn policies(&self) -> &'static [Policy] {
        &Policy::ALL
    }

    fn options(&self) -> &'static [&'static OptionDef] {
        &[
            &option::NODELAY,
            &option::QUICKACK,
            &option::WRITES,
            &option::CORK,
            &option::CONGESTION,
            &option::MSS,
            &option::SNDBUF,
            &option::RCVBUF,
            &option::DSCP,
            &option::PRIORITY,
            &option::DELAY,
            &option::USECS,
        ]
    }

    fn payload_limit(&self, _ipv6: bool) -> u32 {
        STREAM_LIMIT
    }

    fn probe(&self, _link: LinkKind) -> Support {
        Support::Yes
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let peer = needs_inet(&run.peer)?;
        let mut fds = Vec::new();
        for index in 0..run.job.flows {
            fds.push(inet::connect_tcp(run.job, peer, index, &mut run.found.side)?);
        }
        let patience = Duration::from(run.job.timeout);
        match (writes(&run.job.spec.client), quickack(&run.job.spec.client)) {
            (1, None) => ping_over(run, Stream::<QUICKACK_KERNEL>::all(fds, patience)?),
            (1, Some(true)) => ping_over(run, Stream::<1>::all(fds, patience)?),
            (1, Some(false)) => ping_over(run, Stream::<0>::all(fds, patience)?),
            (writes, quickack) => ping_over(run, Parted::all(fds, patience, writes, quickack)?),
        }
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let listener = inet::listen_tcp(run.job, &run.listen, &mut run.found.side)?;
        let address = listener.local_addr().map_err(PathError::at("cannot read the data port"))?;
        run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce the data port"))?;
        let fds = inet::accept_tcp(run.job, &listener, &run.listen, &mut run.found.side)?;
        drop(listener);
        let patience = Duration::from(run.job.timeout);
        match (writes(&run.job.spec.server), quickack(&run.job.spec.server)) {
            (1, None) => echo_over(run, Stream::<QUICKACK_KERNEL>::all(fds, patience)?),
            (1, Some(true)) => echo_over(run, Stream::<1>::all(fds, patience)?),
            (1, Some(false)) => echo_over(run, Stream::<0>::all(fds, patience)?),
            (writes, quickack) => echo_over(run, Parted::all(fds, patience, writes, quickack)?),
        }
    }
}

fn quickack(spec: &SideSpec) -> Option<bool> {
    spec.options.get(&option::QUICKACK).map(|word| word == "on")
}

fn writes(spec: &SideSpec) -> u32 {
    spec.options.number(&option::WRITES).unwrap_or(1)
}

/// What is asked of a flow before and after its run.
trait Connection: Carrier + Send {
    /// The socket.
    fn socket(&self) -> &OwnedFd;
    /// System calls beyond one send and the receives.
    fn extra_calls(&self) -> u64;
}

impl<const QUICKACK: i32> Connection for Stream<QUICKACK> {
    fn socket(&self) -> &OwnedFd {
        self.socket()
    }

    fn extra_calls(&self) -> u64 {
        self.extra_calls
    }
}

fn ping_over<F: Connection>(run: &mut ClientRun<'_>, mut flows: Vec<F>) -> Result<(), PathError> {
    let before = inet::tcp_totals(flows.iter().map(F::socket));
    run.over(&mut flows)?;
    let found = &mut run.found.side;
    found.tcp = Some(inet::tcp_difference(&before, inet::tcp_totals(flows.iter().map(F::socket))));
    found.extra_calls = flows.iter().map(F::extra_calls).sum();
    inet::note_queues(flows.iter().map(F::socket), &run.job.spec.client, Side::Client, found);
    Ok(())
}

fn echo_over<F: Connection>(run: &mut ServerRun<'_>, mut flows: Vec<F>) -> Result<(), PathError> {
    let before = inet::tcp_totals(flows.iter().map(F::socket));
    run.over(&mut flows)?;
    let found = &mut run.found.side;
    found.tcp = Some(inet::tcp_difference(&before, inet::tcp_totals(flows.iter().map(F::socket))));
    found.extra_calls = flows.iter().map(F::extra_calls).sum();
    inet::note_queues(flows.iter().map(F::socket), &run.job.spec.server, Side::Server, found);
    // The client's replies are the ones whose queue is recorded.
    found.flow_facts.clear();
    Ok(())
}
