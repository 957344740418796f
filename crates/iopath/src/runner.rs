//! What every path does.

use hairpin_plan::path::LinkKind;

use crate::error::PathError;
use crate::measure::{ClientRun, ServerRun};

/// One way to do a round trip, run.
pub trait Runner: Sync {
    /// What this process may not do that the path needs over such a link, and what to do about it; found by reading only.
    fn lacks(&self, _link: LinkKind) -> Option<&'static str> {
        None
    }
    /// Whether it works over such a link, found by reading only.
    fn probe(&self, link: LinkKind) -> Support;
    /// The client's side: opens the flows, says that it is ready, measures, and leaves what it found in `run`.
    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError>;
    /// The server's side: listens, announces where, takes the flows, and answers until told to stop.
    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError>;
}

/// Whether a path works here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// As it should.
    Yes,
    /// With less than it could have, and why.
    Degraded(String),
    /// Not at all, and why.
    No(String),
}

/// Probes a path that needs nothing but processes that share a namespace.
pub(crate) fn probe_local(link: LinkKind) -> Support {
    match link {
        LinkKind::Loopback => Support::Yes,
        _ => Support::No("both ends must be on one host: use --link loopback".into()),
    }
}
