//! A request of the user's own, and the replies to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The request to a server that is no server of Hairpin's, and its replies, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnRequest {
    /// The request as it was written: the name of a preset, or its bytes.
    pub request: String,
    /// The rule that says where a reply ends.
    pub until: String,
    /// Replies that came whole.
    pub replies: u64,
    /// The first line of the first reply, at most 60 bytes, those that cannot be printed as \\xHH.
    pub first_reply: String,
    /// Length of the first reply.
    pub first_bytes: u64,
    /// Length of the shortest reply.
    pub shortest_bytes: u64,
    /// Length of the longest reply.
    pub longest_bytes: u64,
    /// Replies whose first line is another one than the first reply's.
    pub differing: u64,
    /// Replies that are errors, as far as the rule tells: those of the Redis protocol, a status of HTTP from 400 on, those of memcached.
    pub errors: u64,
    /// The first line of the first error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// With `--tls`: version and cipher suite agreed with the server; the times of handshakes are in `parts_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
}
