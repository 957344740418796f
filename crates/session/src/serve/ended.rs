//! Why a session ended early.

use std::io;
use std::time::Duration;

use crate::channel::{RecvError, SendError};
use crate::side::SideError;

/// Why a session ended before its client closed it.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// The server's own worker failed.
    #[error(transparent)]
    Worker(#[from] SideError),
    /// No valid message came from the client.
    #[error("the client: {0}")]
    Client(RecvError),
    /// A message could not be sent to the client.
    #[error("the client takes no answers: {0}")]
    ToClient(#[from] SendError),
    /// The client sent nothing for this time.
    #[error("the client has said nothing for {0:?}")]
    Silent(Duration),
    /// The row lasts longer than announced.
    #[error("the row lasts longer than was planned")]
    Overdue,
    /// A probe did not stand still in time.
    #[error("it did not stand still for the session that measures")]
    Moving,
    /// A probe asked for something that only a session that measures alone has.
    #[error("a probe has no hooks, stamps and times of day")]
    NotForProbes,
    /// A probe sent too many messages.
    #[error("it sends too many messages")]
    Chatty,
    /// The server's side of a probe's row failed.
    #[error("{0}")]
    Row(String),
    /// The kernel refused to wait.
    #[error("cannot wait for the client: {0}")]
    Wait(io::Error),
}

impl SessionError {
    /// True if the client cannot know it, and may still hear it.
    pub(super) fn is_news(&self) -> bool {
        !matches!(self, SessionError::Client(_) | SessionError::ToClient(_) | SessionError::Row(_))
    }
}
