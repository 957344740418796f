//! `tcp`: request and reply over one persistent connection per flow.

use hairpin_plan::job::{Address, Job};
use hairpin_plan::option::{self};
use hairpin_plan::path::LinkKind;
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::Side;

use crate::error::{PathError, needs_inet};
use crate::inet;
use crate::measure::{ClientRun, ServerRun};
use crate::polling;
use crate::runner::{Runner, Support};
use crate::stream::{How, Stream};

pub struct Tcp;

impl Runner for Tcp {
    fn probe(&self, _link: LinkKind) -> Support {
        Support::Yes
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let peer = needs_inet(&run.peer)?;
        let fds = inet::connect_tcp(run.job, peer, run.observer, &mut run.found.side)?;
        let spec = &run.job.spec.client;
        let how = how(spec, run.job);
        let mut flows = Stream::all(&fds, &how);
        let before = inet::tcp_totals(&fds);
        match run.job.own {
            Some(_) => run.ask(&mut flows)?,
            None => flows = run.over_stampable(flows)?,
        }
        run.found.side.extra_calls = flows.iter().map(|flow| flow.extra_calls).sum();
        run.found.side.tcp = Some(inet::tcp_difference(&before, inet::tcp_totals(&fds)));
        polling::note_queues(&fds, spec, Side::Client, &mut run.found.side);
        Ok(())
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let listener = inet::listen_tcp(run.job, &run.listen, &mut run.found.side)?;
        let address = listener.local_addr().map_err(PathError::at("cannot read the data port"))?;
        run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce the data port"))?;
        let fds = inet::accept_tcp(run.job, &listener, &run.listen, run.observer, &mut run.found.side)?;
        drop(listener);
        let spec = &run.job.spec.server;
        let how = how(spec, run.job);
        let flows = Stream::all(&fds, &how);
        let before = inet::tcp_totals(&fds);
        let flows = run.over_stampable(flows)?;
        run.found.side.extra_calls = flows.iter().map(|flow| flow.extra_calls).sum();
        run.found.side.tcp = Some(inet::tcp_difference(&before, inet::tcp_totals(&fds)));
        polling::note_queues(&fds, spec, Side::Server, &mut run.found.side);
        Ok(())
    }
}

fn how(spec: &SideSpec, job: &Job) -> How {
    How {
        patience: job.timeout.into(),
        quickack: spec.options.get(&option::QUICKACK).map(|word| word == "on"),
        writes: spec.options.number(&option::WRITES).unwrap_or(1),
    }
}
