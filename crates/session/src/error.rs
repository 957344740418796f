//! Why a run ends without a record, and whose fault that is.

use std::io;

use hairpin_plan::job::Refused;
use hairpin_plan::replay::ReplayError;

use crate::handshake::ConnectError;
use crate::side::SideError;

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The path cannot do what it is asked.
    #[error("{path}: {source}")]
    Job {
        /// The path spec.
        path: String,
        /// What it cannot.
        source: Refused,
    },
    /// The path does not work over this link.
    #[error("{path}: {why}")]
    Unsupported {
        /// The path spec.
        path: String,
        /// Why not.
        why: String,
    },
    /// The path needs what this process may not do.
    #[error("{path}: {why}")]
    Lacking {
        /// The path spec.
        path: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// A CPU that this process may not use.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed} (--cpu CLIENT,SERVER)")]
    Cpu {
        /// What was asked for.
        cpu: u32,
        /// What there is.
        allowed: String,
    },
    /// A worker or server failed before anything was measured.
    #[error(transparent)]
    Side(#[from] SideError),
    /// No session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The echo service's name.
    #[error("{host}:{port} does not resolve: {source}; check the name, or give an address")]
    Resolve {
        /// The name.
        host: String,
        /// The port.
        port: u16,
        /// What the resolver said.
        source: io::Error,
    },
    /// The session's connection.
    #[error("cannot read the session's addresses: {0}")]
    Address(io::Error),
    /// Nothing was measured.
    #[error("{path}: {why}")]
    Row {
        /// The path spec.
        path: String,
        /// What happened.
        why: String,
    },
    /// Streams beside the measured flow.
    #[error("{0}")]
    Bulk(String),
    /// Streams beside a flow that leaves this host.
    #[error("--bulk fills a link of this host: use --link loopback or --link veth")]
    BulkElsewhere,
    /// A recording that cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Ctrl-C before anything was measured.
    #[error("stopped before anything was measured")]
    Interrupted,
}

/// What a failure asks of the user, as the exit codes put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Something went wrong (1).
    Failed,
    /// What was asked cannot be (2).
    Usage,
    /// A capability or device is missing (4).
    Missing,
}

impl PingError {
    /// Which exit code it is.
    pub fn blame(&self) -> Blame {
        match self {
            PingError::Job { .. } | PingError::Unsupported { .. } | PingError::Cpu { .. } => Blame::Usage,
            PingError::BulkElsewhere | PingError::Replay(_) => Blame::Usage,
            PingError::Lacking { .. } => Blame::Missing,
            PingError::Side(side) if side.missing() => Blame::Missing,
            _ => Blame::Failed,
        }
    }
}
