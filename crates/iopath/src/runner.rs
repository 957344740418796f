//! The interface of every path.

use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;

use crate::error::PathError;
use crate::measure::{ClientRun, ServerRun};

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
