//! The stalls of a host's cores, as a report shows them.

use serde::Serialize;

use super::MeshMap;

/// A host's own noise.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostNoise {
    /// [`Record::number`](super::Record::number) of its record.
    pub record: usize,
    /// Sentences: the two cores to take, and the meaning of a stall.
    pub said: Vec<String>,
    pub cores: Vec<CoreStalls>,
    /// Why stalls have no cause; empty where hooks looked.
    pub no_causes: String,
    /// The cores as ranks, with the time of a cache line to the other and back.
    pub map: MeshMap,
}

/// The stalls of a core.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CoreStalls {
    pub cpu: u32,
    /// The time for which it was looked at without hooks.
    pub duration_ns: u64,
    pub lost_share: f64,
    pub above_1us: u64,
    pub above_10us: u64,
    pub above_100us: u64,
    pub p50_ns: Option<u64>,
    pub max_ns: Option<u64>,
    /// Those of the blocks with hooks, the largest first.
    pub causes: Vec<StallCause>,
}

/// A cause of stalls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StallCause {
    /// The cause, with the thread or interrupt.
    pub cause: String,
    pub count: u64,
    /// Of the time with hooks.
    pub lost_share: f64,
}
