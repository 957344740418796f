//! Room for the descriptors of a side's flows.

use hairpin_plan::job::Job;
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::Side;
use hairpin_sys::descriptors::{self, TooFew};

use crate::error::PathError;
use crate::paths::runner;

/// Descriptors of a side apart from those of its flows: listening sockets, one for every 256 flows over UDP; the sockets and maps
/// of a ring; descriptors that a thread waits on.
fn others(flows: u32) -> u64 {
    u64::from(flows / 256) + 32
}

/// Checks that this process may open the flows of its side, perhaps after [`make_room`].
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
    PathError::Descriptors { flows: job.flows, side, needed: few.needed, hard: few.hard, by_host: few.by_host }
}
