//! Errors of a path.

use std::io;

use hairpin_packet::device::OpenError;
use hairpin_packet::granted::NotGranted;
use hairpin_record::run::Side;
use hairpin_sys::wait::WaitError;

/// Reason for a path's side to end without a result.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("{what}: {source}")]
    Step {
        /// The attempted step and its object.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A device cannot be opened, or not with the required features.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An explicitly requested feature was not granted.
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// The kernel's facts about the route could not be read.
    #[error(transparent)]
    Netlink(#[from] hairpin_sys::netlink::NetlinkError),
    /// io_uring, or a feature of it that was asked for, is not there.
    #[error(transparent)]
    Uring(#[from] hairpin_sys::uring::UringError),
    /// The flows take more descriptors than a process may open.
    #[error(
        "{flows} flows take {needed} descriptors on the {side}, and the hard limit there is {hard}: raise it as root with {}`ulimit -n {needed}` (for a service LimitNOFILE={needed}), or use fewer --flows",
        first(*.by_host, *.needed)
    )]
    Descriptors {
        flows: u32,
        side: Side,
        /// The limit that would do.
        needed: u64,
        /// The hard limit.
        hard: u64,
        /// fs.nr_open is too low too.
        by_host: bool,
    },
    /// A size or a route that the path does not support; detected at open.
    #[error("{0}")]
    Way(String),
    /// The policy cannot wait on these flows.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The other side did not appear in time, or sent the wrong thing.
    #[error("{0}")]
    Peer(String),
    /// A measuring thread could not be set up as requested.
    #[error("{0}")]
    Thread(String),
    /// An option needs something that the host lacks; the text names it, and the way to get it.
    #[error("{0}")]
    Missing(String),
    /// The run was stopped before it began.
    #[error("stopped before measuring began")]
    Stopped,
}

/// What to do before the process's own limit can be raised.
fn first(by_host: bool, needed: u64) -> String {
    if !by_host {
        return String::new();
    }
    format!("`sysctl fs.nr_open={needed}`, the most that any process of the host may open, and then ")
}

impl PathError {
    /// True if a capability or a device is missing, so that only another host or user helps.
    pub fn is_missing(&self) -> bool {
        match self {
            PathError::Open(OpenError::Capability { .. })
            | PathError::NotGranted(_)
            | PathError::Missing(_)
            | PathError::Uring(_)
            | PathError::Descriptors { .. }
            | PathError::Wait(WaitError::Polling { .. }) => true,
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

/// `1 byte`, `2 bytes`: a number in a message, with the word for one.
pub(crate) fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// The socket address of a server, for paths that need one.
pub(crate) fn needs_inet(address: &hairpin_plan::job::Address) -> Result<std::net::SocketAddr, PathError> {
    match address {
        hairpin_plan::job::Address::Inet(address) => Ok(*address),
        other => Err(PathError::Peer(format!("the server announced {other}, not an address"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_host_is_raised_before_that_of_the_process() {
        let told =
            |by_host| PathError::Descriptors { flows: 300, side: Side::Client, needed: 350, hard: 200, by_host }.to_string();
        assert!(told(false).contains("is 200: raise it as root with `ulimit -n 350` (for"), "{}", told(false));
        assert!(told(true).contains("is 200: raise it as root with `sysctl fs.nr_open=350`, the most"), "{}", told(true));
        assert!(told(true).contains(" and then `ulimit -n 350` (for a service LimitNOFILE=350)"), "{}", told(true));
    }
}
