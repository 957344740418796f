//! `uring-udp`: one datagram each way over connected sockets, through io_uring.

use hairpin_plan::job::Address;
use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;
use hairpin_sys::socket;

use crate::error::{PathError, needs_inet};
use crate::inet;
use crate::measure::{ClientRun, ServerRun};
use crate::polling;
use crate::runner::{Runner, Support};
use crate::uring;

pub struct UringUdp;

impl Runner for UringUdp {
    fn probe(&self, _link: LinkKind) -> Support {
        uring::probe()
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let peer = needs_inet(&run.peer)?;
        let mut sockets = inet::connect_udp(run.job, peer, run.observer, &mut run.found.side)?;
        uring::ping::<false>(run, &mut sockets)?;
        polling::note_queues(&sockets, &run.job.spec.client, Side::Client, &mut run.found.side);
        Ok(())
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let doors = inet::listen_udp(&run.listen, run.job.flows)?;
        let address = doors[0].local_addr().map_err(PathError::at("cannot read the data port"))?;
        run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce the data port"))?;
        let mut sockets = inet::accept_udp(run.job, &doors, &run.listen, run.observer, &mut run.found.side)?;
        run.heard_on = doors.iter().filter_map(socket::napi_id).collect();
        drop(doors);
        uring::answer::<false>(run, &mut sockets)?;
        polling::note_queues(&sockets, &run.job.spec.server, Side::Server, &mut run.found.side);
        Ok(())
    }
}
