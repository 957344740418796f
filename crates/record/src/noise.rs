//! The schema `hairpin.noise/1`: the stalls of a host's own cores while nothing is measured on them, and how near the cores are
//! to each other.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::Placement;
use crate::explain::Cause;
use crate::head::{Body, Label, Record};
use crate::place::{ClockFacts, HostFacts};
use crate::quantiles::Quantiles;
use crate::warning::Note;

/// The record `hairpin.noise/1`, which `hairpin check --host --json` prints: a head and a [`NoiseBody`].
///
/// A thread read the clock on each core and did nothing else: a [`CoreNoise`] counts its stalls, with their lengths in ns, the
/// time that they took together, their causes and the longest ones. Counts are of the blocks without hooks and causes of those
/// with, so the two do not add up; `no_causes` has the reason if no hooks could look. `pairs` has the cache-line round trip
/// between each two cores, and `choice` the two to take, `None` where there is none to make. [`Noise::parse`](Record::parse)
/// fails where a field is missing or wrong. A [`NoiseComparison`] holds two such records beside each other; it is printed and
/// never stored, so nothing here reads it.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Noise(noise) = record else { continue };
///     for core in &noise.cores {
///         println!("CPU {}: {} stalls, {:.1} % of its time lost", core.cpu, core.stall_ns.count, 100.0 * core.lost_share());
///         println!("most of it to {:?}", core.causes.first().map(|cause| (&cause.cause, &cause.who)));
///     }
///     assert_eq!((noise.choice, noise.pairs[0].core_rtt_ns), (Some([0, 1]), Some(56)));
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Noise = Record<NoiseBody>;

impl Body for NoiseBody {
    const SCHEMA: &'static str = "hairpin.noise/1";
}

/// The stalls of a host's cores, the distance between each two of them, and the two to measure on.
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
    /// The two cores to take for a measurement; `null` if fewer than two were looked at, or how near they are was not measured.
    pub choice: Option<[u32; 2]>,
    /// The reason for these two, or for none.
    pub why: String,
    /// What may mislead.
    pub warnings: Vec<Note>,
}

/// The stalls of one core. Counts and times are of the blocks without hooks, causes of those with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreNoise {
    /// The core's number.
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
    /// Time that the hypervisor took from this core by `/proc/stat`, in steps of 10 ms, over all blocks; `null` if it was not
    /// read.
    pub steal_ns: Option<u64>,
    /// Interrupts that it served over all blocks, hard ones by the handler or the letters of `/proc/interrupts` (`LOC`, `RES`),
    /// soft ones as `softirq:NET_RX`; empty if they were not read.
    #[serde(default)]
    pub interrupts: BTreeMap<String, u64>,
    /// Time for which a thread spun there with hooks, in ns.
    pub traced_ns: u64,
    /// Stalls in that time, hooks' own cost included.
    pub traced_stall_ns: Quantiles,
    /// Their causes, the largest first; each stall has one.
    pub causes: Vec<Cause>,
    /// The longest of all stalls, longest first; those of the blocks with hooks have their causes.
    pub longest: Vec<Stall>,
}

impl CoreNoise {
    /// The share of the time that was lost to stalls.
    #[must_use]
    pub fn lost_share(&self) -> f64 {
        self.lost_ns as f64 / self.duration_ns.max(1) as f64
    }
}

/// A stall: two readings of the clock, one after the other, that lie `threshold_ns` or more apart. The 16 longest of a core are
/// kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// Its begin, in ns since the first block.
    pub at_ns: u64,
    /// Its length in ns.
    pub ns: u64,
    /// Its cause; empty in a block without hooks. `unknown` if no event explains it, or if this host let no hook look at all.
    pub cause: String,
    /// The thread or interrupt that had the core; empty if there is none. Beside `unknown`: why it is not known.
    pub who: String,
}

/// Two looks beside each other. It is no measurement, so it is not stored: both looks are.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NoiseComparison {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// A, the look that the other is compared with.
    pub first: Look,
    /// B, the other look.
    pub second: Look,
    /// Confidence with which all intervals together hold the true ratios, as far as stalls come independently of each other.
    pub confidence: f64,
    /// Confidence of each single interval.
    pub confidence_each: f64,
    /// A difference of less than this share does not matter.
    pub margin: f64,
    /// Stalls above 1, 10 and 100 us: those of all cores together, if there are several, then those of each.
    pub stalls: Vec<Rates>,
    /// Stalls of all cores together by their cause, the most frequent first; empty if either look has no causes.
    pub causes: Vec<Rates>,
    /// What may mislead.
    pub warnings: Vec<Note>,
}

impl Body for NoiseComparison {
    const SCHEMA: &'static str = "hairpin.noise-comparison/1";
}

/// One of the two looks of a comparison: its record, its host and its start. What it found is in `stalls` and `causes` beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Look {
    /// The run's id, or the file's name.
    pub given: String,
    /// The host's name.
    pub hostname: String,
    /// Start of the look, RFC 3339 in UTC.
    pub started: String,
    /// The two cores that it says to take; `null` if it names none.
    pub choice: Option<[u32; 2]>,
}

/// How often stalls of one kind came in either look.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    /// The core; `null` for all cores that both looks have.
    pub cpu: Option<u32>,
    /// `above 1 us`, `above 10 us`, `above 100 us`, or the cause.
    pub what: String,
    /// The thread or interrupt, without its number; empty if there is none.
    pub who: String,
    /// Stalls in the first look.
    pub first_count: u64,
    /// Time looked at in the first look, in ns.
    pub first_ns: u64,
    /// Stalls in the second look.
    pub second_count: u64,
    /// Time looked at in the second look, in ns.
    pub second_ns: u64,
    /// Stalls per second of the second look over those of the first; `null` if the first has none.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub low: f64,
    /// Upper end of the ratio's interval; `null`: it is open.
    pub high: Option<f64>,
    /// The verdict of the interval.
    pub change: Change,
}

/// The verdict of the interval of a ratio of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It lies above 1, and the first look has none: as often as in the second, some would have been seen.
    Came,
    /// It lies below 1, and the second look has none.
    Went,
    /// It lies above 1.
    More,
    /// It lies below 1.
    Fewer,
    /// It holds 1 and lies wholly within the margin.
    Same,
    /// It holds 1 and reaches beyond the margin.
    Unclear,
}

impl Change {
    /// The word of the record.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Change::Came => "came",
            Change::Went => "went",
            Change::More => "more",
            Change::Fewer => "fewer",
            Change::Same => "same",
            Change::Unclear => "unclear",
        }
    }
}
