//! What is said of streams that fill a link beside the measured flow.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// One end of TCP streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkWork {
    /// Takes in whatever comes, and counts it.
    Sink {
        /// Where to listen; the port is the kernel's choice, announced in `Ready`.
        at: SocketAddr,
        /// Streams.
        streams: u32,
    },
    /// Sends as fast as the streams take it; `Ready` once all are connected.
    Source {
        /// The sink.
        to: SocketAddr,
        /// Streams.
        streams: u32,
    },
}

/// What an end carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkReport {
    /// Bytes sent or received.
    pub bytes: u64,
    /// From the first byte to the last.
    pub duration_ns: u64,
    /// Why it ended before it was told to.
    pub error: Option<String>,
}
