//! The pairs of a mesh, as a report shows them.

use serde::Serialize;

/// The pairs of a mesh.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MeshMap {
    /// [`Record::number`](super::Record::number) of its record.
    pub record: usize,
    /// The path with its payload.
    pub label: String,
    /// Sentences: who is slow, thresholds, how much was measured.
    pub said: Vec<String>,
    /// Number of ranks.
    pub of: usize,
    /// The ranks that are shown, ascending: all, or those of the largest effect.
    pub hosts: Vec<MeshHost>,
    /// The median of the RTT p50 of all pairs.
    pub typical_ns: Option<u64>,
    /// The pairs of the schedule whose ranks are both shown.
    pub pairs: Vec<MeshPair>,
}

/// A rank with its host.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MeshHost {
    pub rank: u32,
    /// Empty for a core of this host, whose rank is its number.
    pub host: String,
    /// The switch right above it.
    pub switch: Option<String>,
    /// Times the others' RTT p50; `null` if that cannot be told.
    pub effect: Option<f64>,
    /// True if neither chance nor the other pairs explain its slowness.
    pub slow: bool,
}

/// Two ranks a < b.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MeshPair {
    pub a: u32,
    pub b: u32,
    /// Number of RTT samples.
    pub count: u64,
    /// RTT p50; `null` if it was not measured, or too few round trips were.
    pub p50_ns: Option<u64>,
    /// Why visits are missing; empty if none is.
    pub missing: String,
}
