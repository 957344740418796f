//! `uring-tcp`: request and reply over one persistent connection per flow, through io_uring.

use hairpin_plan::job::Address;
use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;

use crate::error::{PathError, needs_inet};
use crate::inet;
use crate::measure::{ClientRun, ServerRun};
use crate::polling;
use crate::runner::{Runner, Support};
use crate::uring;

pub struct UringTcp;

impl Runner for UringTcp {
    fn probe(&self, _link: LinkKind) -> Support {
        uring::probe()
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let peer = needs_inet(&run.peer)?;
        let mut sockets = inet::connect_tcp(run.job, peer, run.observer, &mut run.found.side)?;
        let before = inet::tcp_totals(&sockets);
        uring::ping::<true>(run, &mut sockets)?;
        run.found.side.tcp = Some(inet::tcp_difference(&before, inet::tcp_totals(&sockets)));
        polling::note_queues(&sockets, &run.job.spec.client, Side::Client, &mut run.found.side);
        Ok(())
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let listener = inet::listen_tcp(run.job, &run.listen, &mut run.found.side)?;
        let address = listener.local_addr().map_err(PathError::at("cannot read the data port"))?;
        run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce the data port"))?;
        let mut sockets = inet::accept_tcp(run.job, &listener, &run.listen, run.observer, &mut run.found.side)?;
        drop(listener);
        let before = inet::tcp_totals(&sockets);
        uring::answer::<true>(run, &mut sockets)?;
        run.found.side.tcp = Some(inet::tcp_difference(&before, inet::tcp_totals(&sockets)));
        polling::note_queues(&sockets, &run.job.spec.server, Side::Server, &mut run.found.side);
        Ok(())
    }
}
