//! The schema `hairpin.progress/1`: one line per second of `--json-stream`, before the final line, which is the whole run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::Quantiles;

/// The name of this schema.
pub const SCHEMA: &str = "hairpin.progress/1";

/// What a row has found since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Always `hairpin.progress/1`.
    pub schema: String,
    /// The row's path spec in canonical form.
    pub path: String,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Since the start of measuring.
    pub at_ns: u64,
    /// Requests answered so far.
    pub transactions: u64,
    /// Requests lost so far.
    pub lost: u64,
    /// transactions / measured time so far.
    pub transactions_per_s: f64,
    /// RTT since the start of measuring.
    pub rtt_ns: Quantiles,
}
