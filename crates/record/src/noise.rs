//! The schema `hairpin.noise/1`: the stalls of a host's own cores while nothing is measured on them, and how near the cores are to each other.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::Placement;
use crate::explain::Cause;
use crate::head::{Body, Record};
use crate::place::{ClockFacts, HostFacts};
use crate::quantiles::Quantiles;
use crate::warning::Note;

/// The record `hairpin.noise/1`: a head and a [`NoiseBody`].
pub type Noise = Record<NoiseBody>;

impl Body for NoiseBody {
    const SCHEMA: &'static str = "hairpin.noise/1";
}

/// The stalls of a host's cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Noise")]
pub struct NoiseBody {
    /// Facts of the host.
    pub host: HostFacts,
    /// The clock that the spinning threads read.
    pub clock: ClockFacts,
    /// The least time between two readings of the clock that counts as a stall, in ns.
    pub threshold_ns: u64,
    /// Most cores that spun at once; the others were left to the rest of the host.
    pub at_once: u32,
    /// Why stalls have no cause; `null` where hooks looked for it.
    pub no_causes: Option<String>,
    /// One row per core.
    pub cores: Vec<CoreNoise>,
    /// Each pair of these cores, with the time that a cache line takes to the other and back in `core_rtt_ns`.
    pub pairs: Vec<Placement>,
    /// The two cores to take for a measurement; `null` if fewer than two were looked at.
    pub choice: Option<[u32; 2]>,
    /// The reason for these two.
    pub why: String,
    /// What may mislead.
    pub warnings: Vec<Note>,
}

/// The stalls of one core. Counts and times are of the blocks without hooks, causes of those with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreNoise {
    /// The core.
    pub cpu: u32,
    /// Time for which a thread spun there without hooks, in ns.
    pub duration_ns: u64,
    /// Mean time between two readings of the clock, stalls left out, in ns.
    pub turn_ns: f64,
    /// The stalls: their number, and the quantiles of their lengths.
    pub stall_ns: Quantiles,
    /// Their lengths as HDR V2, deflated, base64.
    pub histogram: String,
    /// Stalls above 1 us.
    pub above_1us: u64,
    /// Stalls above 10 us.
    pub above_10us: u64,
    /// Stalls above 100 us.
    pub above_100us: u64,
    /// Sum of all stalls, in ns.
    pub lost_ns: u64,
    /// Time that the hypervisor took from this core by `/proc/stat`, in steps of 10 ms, over all blocks; `null` if it was not read.
    pub steal_ns: Option<u64>,
    /// Interrupts that it served over all blocks, hard ones by the handler or the letters of `/proc/interrupts` (`LOC`, `RES`), soft ones as
    /// `softirq:NET_RX`; empty if they were not read.
    #[serde(default)]
    pub interrupts: BTreeMap<String, u64>,
    /// Time for which a thread spun there with hooks, in ns.
    pub traced_ns: u64,
    /// Stalls in that time, hooks' own cost included.
    pub traced_stall_ns: Quantiles,
    /// Their causes, the largest first; each stall has one.
    pub causes: Vec<Cause>,
    /// The longest of all stalls, those of the blocks with hooks with their causes.
    pub longest: Vec<Stall>,
}

impl CoreNoise {
    /// The share of the time that was lost to stalls.
    #[must_use]
    pub fn lost_share(&self) -> f64 {
        self.lost_ns as f64 / self.duration_ns.max(1) as f64
    }
}

/// A single stall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// Its begin, in ns since the first block.
    pub at_ns: u64,
    /// Its length in ns.
    pub ns: u64,
    /// Its cause; empty in a block without hooks.
    pub cause: String,
    /// The thread or interrupt; empty if there is none.
    pub who: String,
}
