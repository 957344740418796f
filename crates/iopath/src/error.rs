//! Why a path's side ends without a result.

use std::io;

use hairpin_packet::device::OpenError;
use hairpin_packet::granted::NotGranted;

/// Why a path's side ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// A step failed.
    #[error("{what}: {source}")]
    Step {
        /// What was tried, on what.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A device cannot be opened, or not as required.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What was asked for by name is not there.
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// What the kernel knows of the way could not be read.
    #[error(transparent)]
    Netlink(#[from] hairpin_sys::netlink::NetlinkError),
    /// A size, or a way, that the path cannot take; found out at open.
    #[error("{0}")]
    Way(String),
    /// The policy cannot wait on these flows.
    #[error(transparent)]
    Wait(#[from] hairpin_sys::wait::WaitError),
    /// The other side did not come in time, or came wrongly.
    #[error("{0}")]
    Peer(String),
    /// A measuring thread could not be set up as asked.
    #[error("{0}")]
    Thread(String),
    /// The run was stopped before it began.
    #[error("stopped before measuring began")]
    Stopped,
}

impl PathError {
    /// True if a capability or a device is missing, so that nothing but another host or user helps.
    pub fn is_missing(&self) -> bool {
        match self {
            PathError::Open(OpenError::Capability { .. }) | PathError::NotGranted(_) => true,
            PathError::Step { source, .. } => {
                matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
            }
            _ => false,
        }
    }

    /// For `map_err`: names the step that failed.
    pub(crate) fn at<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> PathError {
        move |source| PathError::Step { what: what.into(), source: source.into() }
    }
}

/// The socket address of a server, for paths that need one.
pub(crate) fn needs_inet(address: &hairpin_plan::job::Address) -> Result<std::net::SocketAddr, PathError> {
    match address {
        hairpin_plan::job::Address::Inet(address) => Ok(*address),
        other => Err(PathError::Peer(format!("the server announced {other}, not an address"))),
    }
}
