//! The place of a measurement: hosts, link, clock. A record with both sides holds them in a [`Place`](crate::head::Place).
//!
//! A host's facts are JSON values, each under the name of the knob that read it; `hairpin tune list` describes the knobs. The
//! name tells the unit, as in `cpu_dma_latency_us`. A fact that could not be read is in `unread`, with the reason.
//!
//! ```
//! use hairpin_record::run::Run;
//!
//! # let json = &std::fs::read("tests/data/run-1.json").unwrap();
//! let run = Run::parse(json)?;
//! let client = &run.place.hosts.client;
//! assert_eq!(client.facts.get("clocksource").and_then(|name| name.as_str()), Some("tsc"));
//! assert!(client.unread.contains_key("scaling_governor"));
//! assert_eq!(client.hypervisor(), None);
//! assert_eq!(run.place.clock.least_error_ns(), 10.0);
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The facts of both hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hosts {
    /// The side that sends requests.
    pub client: HostFacts,
    /// The side that answers; `null` under `--echo`, where it is unknown.
    pub server: Option<HostFacts>,
}

/// Facts of one host, each under the name of the knob that read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    /// The host's name.
    pub hostname: String,
    /// Facts that could not be read, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, String>,
    /// Every fact that could be read.
    #[serde(flatten)]
    pub facts: BTreeMap<String, serde_json::Value>,
}

impl HostFacts {
    /// The hypervisor under this host; `None` on bare metal, which is recorded as `none`, and where it is unknown.
    pub fn hypervisor(&self) -> Option<&str> {
        self.facts.get("hypervisor").and_then(|name| name.as_str()).filter(|name| *name != "none")
    }

    /// The longest exit from an idle state, in us, that the demands on this host's cores allow; `u64::MAX` without a demand.
    /// Where the cores differ, that of the core with the weakest demand.
    pub fn longest_exit_us(&self) -> u64 {
        // -1 allows any exit.
        let allowed = |value: &serde_json::Value| value.as_u64().unwrap_or(u64::MAX);
        let of_all = self.facts.get("cpu_dma_latency_us").map_or(u64::MAX, allowed);
        let of_cores = match self.facts.get("resume_latency_us") {
            Some(serde_json::Value::Object(by_cpu)) => by_cpu.values().map(allowed).max().unwrap_or(u64::MAX),
            one => one.map_or(u64::MAX, allowed),
        };
        of_all.min(of_cores)
    }

    /// False on a host without a cpuidle driver: its kernel heeds no demand such as `cpu_dma_latency_us` (`cpuidle_idle_call` of
    /// kernel/sched/idle.c).
    pub fn heeds_idle_demands(&self) -> bool {
        let was_read = |name| self.facts.contains_key(name) || self.unread.contains_key(name);
        match self.facts.get("cpuidle_driver").and_then(|name| name.as_str()) {
            Some(driver) => driver != "none",
            // A kernel without cpuidle does not have the fact either; in a record of few facts it was not looked for.
            None => was_read("cpuidle_driver") || was_read("idle_states") || !was_read("cpu_dma_latency_us"),
        }
    }
}

/// The link between the two sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// `host` (a remote server), `loopback`, `veth`, `echo` (a plain echo service) or `reflector` (anything that returns Ethernet
    /// frames).
    pub kind: String,
    /// The client's interface, where known.
    pub interface: Option<String>,
    /// The interface's MTU in bytes, where known.
    pub mtu: Option<u64>,
    /// The server's address as given, without the data port.
    pub peer: Option<String>,
    /// Requested options of the link, such as `gro=on`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The multicast group that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
}

/// A multicast group, and who answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupFacts {
    /// Its address, the interface after a `%` and the port.
    pub address: String,
    /// Responders that answered in the last row.
    pub responders: u32,
    /// The number that was told; `null` if they were looked for.
    pub expected: Option<u32>,
}

/// The clock behind every stamp of the client, and how good it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    /// `tsc` or `monotonic_raw`.
    pub source: String,
    /// Cost of a pair of ordered stamps, in ns; part of every RTT.
    pub cost_ns: f64,
    /// The step in which the clock moves, in ns: nearly all differences of two readings are multiples of it. 0 if it did not
    /// move. In older records this is the least difference of 1,000 readings, which a single outlier makes too small.
    pub step_ns: f64,
    /// Ticks per second, calibrated against CLOCK_MONOTONIC_RAW.
    pub ticks_per_s: f64,
    /// Difference between the rates found at the end and at the start, in parts per 10^9; `null` if the run
    /// was too short to tell.
    pub drift_ppb: Option<f64>,
}

impl ClockFacts {
    /// The smallest meaningful error bound of a time in ns: one step of the clock, and at least 1 ns, since times are stored as
    /// whole ns.
    pub fn least_error_ns(&self) -> f64 {
        if self.step_ns.is_finite() { self.step_ns.max(1.0) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_a_cpuidle_driver_no_demand_is_heeded() {
        let heeds = |facts: &[(&str, serde_json::Value)]| {
            let facts = facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            HostFacts { facts, ..HostFacts::default() }.heeds_idle_demands()
        };
        let demand = ("cpu_dma_latency_us", json!(2_000_000_000));
        assert!(heeds(&[demand.clone(), ("cpuidle_driver", json!("intel_idle"))]));
        assert!(!heeds(&[demand.clone(), ("cpuidle_driver", json!("none"))]));
        assert!(!heeds(std::slice::from_ref(&demand)), "a kernel without cpuidle");
        assert!(heeds(&[demand, ("idle_states", json!([]))]) && heeds(&[]), "a record of few facts");
    }
}
