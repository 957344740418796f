//! The schema `hairpin.progress/1`: one line per second of `--json-stream`, before the final line, which holds the whole run.
//!
//! Each line is complete in itself: results since the start and, if requested, a histogram of the time since the previous line.
//! The histograms of all lines add up to the row's histogram, apart from transactions after the last line.
//!
//! With several measuring threads a line is of one of them. Times are in ns. Fields that earlier versions did not write are
//! `None`, 0 or empty. A line has a schema and no head: [`AnyRecord::all`](crate::any::AnyRecord::all) skips it, and `serde_json`
//! reads it, with an error where a field is missing or wrong.
//!
//! ```
//! use hairpin_record::progress::Progress;
//!
//! # let line = r#"{"schema": "hairpin.progress/1", "path": "udp:block/udp:block", "request_bytes": 64, "at_ns": 1000000000,
//! #     "transactions": 15000, "lost": 2, "transactions_per_s": 15000.0, "rtt_ns": {"count": 15000, "p50": 66000}}"#;
//! let progress: Progress = serde_json::from_str(line)?;
//! assert_eq!((progress.transactions, progress.lost, progress.rtt_ns.p50), (15_000, 2, Some(66_000)));
//! # Ok::<(), serde_json::Error>(())
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::head::Body;
use crate::incident::Incidents;
use crate::run::Quantiles;
use crate::warning::Note;

/// Results of a row since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Always `hairpin.progress/1`.
    pub schema: String,
    /// The row's path spec in canonical form.
    pub path: String,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Measured time so far, without gaps, pauses and blocks that are left out.
    pub at_ns: u64,
    /// Requests answered so far.
    pub transactions: u64,
    /// Requests lost so far.
    pub lost: u64,
    /// transactions / measured time so far.
    pub transactions_per_s: f64,
    /// RTT since the start of measuring.
    pub rtt_ns: Quantiles,
    /// Payload of a reply; absent in lines of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_bytes: Option<u64>,
    /// The client's measuring thread, if there is more than one: each has lines of its own, in which all fields except `cpu` and
    /// `warnings` cover that thread alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thread: u32,
    /// Number of measuring threads, if more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Requests sent so far; 0 in lines of earlier versions.
    #[serde(default)]
    pub sent: u64,
    /// Replies so far that came after their request was given up.
    #[serde(default)]
    pub late: u64,
    /// Blocks so far over which two clocks disagreed by more than 50 ns.
    #[serde(default)]
    pub clock_suspects: u64,
    /// Results since the previous line; absent in lines of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// CPU time so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuSoFar>,
    /// With `--explain-above`: the round trips above its limit so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incidents: Option<Box<Incidents>>,
    /// Warnings about the figures of the last minute, or of the whole row while that is younger. The record has those of the
    /// whole row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Note>,
}

impl Body for Progress {
    const SCHEMA: &'static str = "hairpin.progress/1";
}

/// Results since the previous line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Measured time in it, without the gaps between blocks.
    pub duration_ns: u64,
    /// RTT; min and max are to three digits like the quantiles.
    pub rtt_ns: Quantiles,
    /// The RTTs as an HDR histogram, V2 compressed, base64.
    pub histogram: String,
    /// With due times: from due, late answers included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_from_due_ns: Option<Quantiles>,
    /// The same as an HDR histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram_from_due: Option<String>,
    /// Cache-line round trip between the two cores, the least of the blocks in it; `null` where the two sides share no memory.
    pub core_rtt_least_ns: Option<u64>,
    /// The largest of the blocks in it.
    pub core_rtt_most_ns: Option<u64>,
}

/// CPU time of both sides since the start of warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuSoFar {
    /// Elapsed time.
    pub elapsed_ns: u64,
    /// The client's worker, user and system.
    pub client_ns: u64,
    /// Times the client's worker was pushed off its core.
    pub client_switches_involuntary: u64,
    /// The server's worker, in steps of 10 ms; `null` where it runs on another host.
    pub server_ns: Option<u64>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_an_earlier_version_reads() {
        let line = r#"{"schema":"hairpin.progress/1","path":"udp/udp","request_bytes":64,"at_ns":1,"transactions":2,"lost":0,
            "transactions_per_s":2.0,"rtt_ns":{"count":2}}"#;
        let progress: Progress = serde_json::from_str(line).unwrap();
        assert_eq!((progress.thread, progress.threads, progress.interval, progress.cpu), (0, None, None, None));
    }
}
