//! Messages about the bulk streams that fill a link beside the measured flow.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// One end of TCP bulk streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkWork {
    /// Reads and counts all bytes.
    Sink {
        /// The address to listen on; the kernel chooses the port, announced in `Ready`.
        at: SocketAddr,
        streams: u32,
    },
    /// Sends as fast as the streams accept data; answers `Ready` once all are connected.
    Source {
        /// The sink's address.
        to: SocketAddr,
        streams: u32,
    },
}

/// The report of one end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkReport {
    /// Bytes sent or received.
    pub bytes: u64,
    /// Time from the first byte to the last.
    pub duration_ns: u64,
    /// Why this end ended before it was stopped, if it did.
    pub error: Option<String>,
}
