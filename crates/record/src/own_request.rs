//! A request of the user's own, and the replies to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::warning::Warning;

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
    /// Replies that are errors, as far as the rule tells: those of the Redis protocol, a status of HTTP from 400 on, those of
    /// memcached.
    pub errors: u64,
    /// The first line of the first error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// With `--tls`: version and cipher suite agreed with the server; the times of handshakes are in `parts_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
}

impl OwnRequest {
    /// Adds the replies of another row of the same request.
    pub fn add(&mut self, other: &OwnRequest) {
        if other.replies == 0 {
            return;
        }
        if self.replies == 0 {
            self.clone_from(other);
            return;
        }
        // Where the first replies differ, those that differ from the other's are taken for ones that begin as this one's.
        let alike = other.first_reply == self.first_reply;
        self.differing += if alike { other.differing } else { other.replies.saturating_sub(other.differing) };
        self.replies += other.replies;
        self.shortest_bytes = self.shortest_bytes.min(other.shortest_bytes);
        self.longest_bytes = self.longest_bytes.max(other.longest_bytes);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or_else(|| other.first_error.clone());
        self.tls = self.tls.take().or_else(|| other.tls.clone());
    }

    /// Warns of errors, or where the rule does not tell all of them (`tells_errors`), of replies that may be some.
    #[must_use]
    pub fn warning(&self, tells_errors: bool) -> Option<Warning> {
        let of = self.replies;
        match &self.first_error {
            Some(first) => Some(Warning::ErrorReplies { first: first.clone(), count: self.errors, of }),
            None if tells_errors || self.differing == 0 => None,
            None => Some(Warning::RepliesDiffer { first: self.first_reply.clone(), count: self.differing, of }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(first: &str, replies: u64, differing: u64, bytes: [u64; 2], error: Option<&str>) -> OwnRequest {
        OwnRequest {
            request: "x".into(),
            replies,
            first_reply: first.into(),
            first_bytes: bytes[0],
            shortest_bytes: bytes[0],
            longest_bytes: bytes[1],
            differing,
            errors: if error.is_some() { differing } else { 0 },
            first_error: error.map(str::to_owned),
            ..OwnRequest::default()
        }
    }

    #[test]
    fn replies_of_several_rows_are_counted_by_the_first_of_all() {
        let mut sum = OwnRequest::default();
        for row in [
            own("OK", 10, 0, [3, 3], None),
            OwnRequest::default(),
            own("OK", 10, 4, [3, 6], Some("-ERR a")),
            own("SORRY", 10, 3, [2, 6], Some("-ERR b")),
        ] {
            sum.add(&row);
        }
        assert_eq!((sum.replies, sum.differing, sum.errors), (30, 4 + 7, 4 + 3));
        assert_eq!((sum.request.as_str(), sum.first_reply.as_str(), sum.first_error.as_deref()), ("x", "OK", Some("-ERR a")));
        assert_eq!((sum.first_bytes, sum.shortest_bytes, sum.longest_bytes), (3, 2, 6));
        assert_eq!(sum.warning(false), Some(Warning::ErrorReplies { first: "-ERR a".into(), count: 7, of: 30 }));
    }

    #[test]
    fn replies_that_differ_are_told_where_the_rule_tells_no_errors() {
        let differ = Warning::RepliesDiffer { first: "OK".into(), count: 4, of: 10 };
        for (differing, tells_errors, told) in [(0, false, None), (4, true, None), (4, false, Some(differ))] {
            assert_eq!(own("OK", 10, differing, [3, 3], None).warning(tells_errors), told);
        }
    }
}
