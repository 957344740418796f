//! Terms shared by all records: the side, the origin of a figure, and a period without a reply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source of the figures that stand beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Measured here.
    #[default]
    Measured,
    /// Measured on an emulated device.
    Emulated,
    /// Printed by a published source.
    Published,
}

/// One side of a round trip. The client is the one that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Sends requests.
    Client,
    /// Answers them.
    Server,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Side::Client => "client",
            Side::Server => "server",
        })
    }
}

/// A stretch in which requests were out and no reply came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Silence {
    /// Its beginning, since the start of measuring.
    pub at_ns: u64,
    /// Time without a reply, in ns.
    pub length_ns: u64,
    /// Requests sent meanwhile, the one that waited from the beginning included.
    pub sent: u64,
    /// Number of those that were answered afterwards.
    pub answered: u64,
}
