//! Admission beyond the key: a server that is one side of many decides by the client's first words.

use std::fmt::Debug;

use crate::channel::Channel;

/// Speaks with each client that has proved the key, before its session.
pub trait Gate: Debug + Send + Sync {
    /// Hears the client out and answers it. Must end in bounded time, whatever the client does.
    fn enter(&self, channel: &mut Channel) -> Entry;
}

/// The outcome of the words at the gate.
#[non_exhaustive]
pub enum Entry {
    /// The client's session; the value is dropped when the session and its worker have ended.
    Session(Box<dyn Send>),
    /// Nothing: all has been said.
    Over,
}
