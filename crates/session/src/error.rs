//! Reasons for a run to end without a record, and who has to act on them.

use std::io;

use hairpin_plan::job::Refused;
use hairpin_plan::replay::ReplayError;

use crate::handshake::ConnectError;
use crate::side::SideError;

/// Reason for a run without a record.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The path cannot do this job.
    #[error("{path}: {source}")]
    Job {
        path: String,
        /// Reason of the path.
        source: Refused,
    },
    /// The path does not work over this link.
    #[error("{path}: {why}")]
    Unsupported {
        path: String,
        /// Why the path does not work there.
        why: String,
    },
    /// The path needs a right that this process lacks.
    #[error("{path}: {why}")]
    Lacking {
        path: String,
        /// The missing feature, and how to get it.
        why: String,
    },
    /// A CPU that this process may not use.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed} (--cpu CLIENT,SERVER)")]
    Cpu {
        /// The CPU asked for.
        cpu: u32,
        /// The CPUs allowed.
        allowed: String,
    },
    /// A worker or server failed before anything was measured.
    #[error(transparent)]
    Side(#[from] SideError),
    /// There is no session with the server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The name of the echo service cannot be resolved.
    #[error("{host}:{port} does not resolve: {source}; check the name, or give an address")]
    Resolve {
        host: String,
        port: u16,
        /// The resolver's error.
        source: io::Error,
    },
    /// The address of the session's connection cannot be read.
    #[error("cannot read the session's addresses: {0}")]
    Address(io::Error),
    /// The row failed before anything was measured.
    #[error("{path}: {why}")]
    Row {
        path: String,
        /// The error's text.
        why: String,
    },
    /// The bulk streams beside the measured flow failed.
    #[error("{0}")]
    Bulk(String),
    /// Bulk streams were asked for beside a flow that leaves this host.
    #[error("--bulk fills a link of this host: loopback or veth")]
    BulkElsewhere,
    /// The recording cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Ctrl-C came before anything was measured.
    #[error("stopped before anything was measured")]
    Interrupted,
}

/// Kind of failure, one for each exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Something went wrong (1).
    Failed,
    /// The request cannot be met as it stands (2).
    Usage,
    /// A capability or device is missing (4).
    Missing,
}

impl RunError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            RunError::Job { .. } | RunError::Unsupported { .. } | RunError::Cpu { .. } => Blame::Usage,
            RunError::BulkElsewhere | RunError::Replay(_) => Blame::Usage,
            RunError::Lacking { .. } => Blame::Missing,
            RunError::Side(side) if side.missing() => Blame::Missing,
            RunError::Side(side) if side.wrong_library() => Blame::Usage,
            _ => Blame::Failed,
        }
    }
}
