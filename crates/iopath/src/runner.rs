//! The interface of every path.

use hairpin_plan::job::Job;
use hairpin_plan::path::LinkKind;
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::Side;
use hairpin_sys::descriptors::{self, TooFew};

use crate::error::PathError;
use crate::measure::{ClientRun, ServerRun};
use crate::paths::runner;

/// Descriptors of a side beside those of its flows: listening sockets, one for every 256 flows over UDP; the sockets and maps of a ring; what a
/// thread waits on.
fn others(flows: u32) -> u64 {
    u64::from(flows / 256) + 32
}

/// Runs one path.
pub trait Runner: Sync {
    /// The permission that this process lacks for the path over such a link, and the remedy; found by reading only.
    fn lacks(&self, _link: LinkKind) -> Option<&'static str> {
        None
    }
    /// Whether the path works over such a link, found by reading only.
    fn probe(&self, link: LinkKind) -> Support;
    /// Most descriptors that a side has open at once for each flow.
    fn descriptors_per_flow(&self, _side: Side) -> u32 {
        1
    }
    /// The client's side: opens the flows, reports that it is ready, measures, and leaves its result in `run`.
    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError>;
    /// The server's side: listens, announces its address, accepts the flows, and answers until told to stop.
    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError>;
}

/// Whether this process may open the flows of its side, perhaps after [`make_room`].
///
/// # Errors
/// The hard limit of descriptors is too low.
pub fn check_room(job: &Job, side: Side) -> Result<(), PathError> {
    descriptors::check_room(needed(job, side)).map_err(|few| too_few(job, side, few))
}

/// Raises this process's limit of descriptors, if need be, so that it may open the flows of its side.
///
/// # Errors
/// The hard limit is too low.
pub fn make_room(job: &Job, side: Side) -> Result<(), PathError> {
    descriptors::make_room(needed(job, side)).map_err(|few| too_few(job, side, few))
}

fn needed(job: &Job, side: Side) -> u64 {
    let spec: &SideSpec = match side {
        Side::Client => &job.spec.client,
        Side::Server => &job.spec.server,
    };
    u64::from(job.flows) * u64::from(runner(spec.path).descriptors_per_flow(side)) + others(job.flows)
}

fn too_few(job: &Job, side: Side, few: TooFew) -> PathError {
    PathError::Descriptors { flows: job.flows, side, needed: few.needed, hard: few.hard }
}

/// Usability of a path on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// Fully.
    Yes,
    /// With restrictions; the reason.
    Degraded(String),
    /// Not at all; the reason.
    No(String),
}

/// Probes a path that only needs processes in one namespace.
pub(crate) fn probe_local(link: LinkKind) -> Support {
    match link {
        LinkKind::Loopback => Support::Yes,
        _ => Support::No("both ends must be on one host: use loopback".into()),
    }
}
