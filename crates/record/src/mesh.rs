//! The schema `hairpin.mesh/1`: the pairs of many hosts, each measured in several visits, and what they say of a host or link.
//!
//! ```text
//!   rank ── one process of the mesh, normally one a host
//!   pair ── two ranks a < b ── visit ── one measurement, in a round of disjoint pairs; the ranks change sides from visit to visit
//!   effect ── how much slower a rank, a pair or a group is than the others, by its pairs together
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::Direction;
use crate::head::{Body, Record};
use crate::place::HostFacts;
use crate::quantiles::Quantiles;
use crate::side::Side;
use crate::warning::Note;

/// The record `hairpin.mesh/1`, which `hairpin mesh --json` prints: a head and a [`MeshBody`].
///
/// A [`Pair`] has the RTTs of two ranks, all visits together, and each [`Visit`] with the side that each rank had. Pairs are in
/// ascending order, visits in that of the schedule. Times are in ns. `rtt_ns` is `None` where none was measured, and `missing` of
/// the visit then says why, unless it measured stages. An [`Effect`] is a ratio: 1.3 is 30 % slower than the others. Those that
/// are `convicted` come first, then the slowest.
/// [`Mesh::parse`](Record::parse) fails where a field is missing or wrong; lists that older records lack are empty.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Mesh(mesh) = record else { continue };
///     for pair in &mesh.pairs {
///         let p50 = pair.rtt_ns.as_ref().and_then(|rtt| rtt.p50);
///         println!("{} and {}: {p50:?} ns", mesh.host_of(pair.a), mesh.host_of(pair.b));
///     }
///     assert!(mesh.effects[0].convicted && mesh.effects[0].low > 1.0);
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Mesh = Record<MeshBody>;

impl Body for MeshBody {
    const SCHEMA: &'static str = "hairpin.mesh/1";
}

/// All pairs of a mesh.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Mesh")]
pub struct MeshBody {
    /// The mesh's name, the same for all its ranks.
    pub id: String,
    /// The ranks that are known, ascending.
    pub ranks: Vec<Rank>,
    /// The path spec in canonical form.
    pub path: String,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a reply.
    pub reply_bytes: u64,
    /// Who measured whom, and when.
    pub schedule: Schedule,
    /// Every pair of the schedule, ascending.
    pub pairs: Vec<Pair>,
    /// Ranks that are not there, or not to the end.
    pub missing: Vec<MissingRank>,
    /// Ranks and groups against the others, and pairs that are convicted: first the convicted, then those of highest ratio.
    pub effects: Vec<Effect>,
    /// The ranks of lowest mutual latency, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked: Option<Picked>,
    /// Thresholds of `--fail-if`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
    /// Every way in which these figures may mislead.
    pub warnings: Vec<Note>,
}

/// One process of a mesh, normally one a host: where it ran, and the facts of its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// The name of its host, as the launcher calls it.
    pub host: String,
    /// The switch right above its host, with `--topology`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// The address and port at which the others reach it.
    pub address: String,
    /// Name and version of its tool.
    pub tool: String,
    /// Facts of its host.
    pub facts: HostFacts,
    /// The settings of its host that `hairpin tune check` finds, the one with the most at stake first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// Who measures whom, and when: the same for every rank, computed from these fields alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// Number of ranks that there should be.
    pub ranks: u32,
    /// `all`, `ring`, `sample:K` or `neighbours`.
    pub pairs: String,
    /// Visits of each pair.
    pub visits: u32,
    /// Rounds of disjoint pairs, over all visits.
    pub rounds: u32,
    /// The seed of a sample.
    pub seed: u64,
    /// Measured time of a visit.
    pub duration_ns: u64,
    /// Discarded time before it.
    pub warmup_ns: u64,
}

/// Two ranks a < b, with the RTTs between them and each visit that measured these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The lower rank.
    pub a: u32,
    /// The higher one.
    pub b: u32,
    /// RTTs of all visits together, from their added histograms; `null` if none was measured.
    pub rtt_ns: Option<Quantiles>,
    /// Its visits, in the order of the schedule.
    pub visits: Vec<Visit>,
}

/// One measurement of a pair: figures, or the reason why there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Visit {
    /// Its number, from 1.
    pub visit: u32,
    /// The rank that sent requests; the other one answered.
    pub client: u32,
    /// The round, from 1.
    pub round: u32,
    /// Its beginning, since the client's first round began.
    pub at_ns: u64,
    /// Requests answered within the measured time.
    pub transactions: u64,
    /// Requests never answered in time.
    pub lost: u64,
    /// RTT: client's send call entered → reply in the caller's buffer; `null` if it is missing, or measured stages.
    pub rtt_ns: Option<Quantiles>,
    /// The RTTs as an HDR histogram, V2 compressed, base64; empty if it is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub histogram: String,
    /// The stages of its typical round trips in their order, in a visit that measured these and no RTTs (`--explain`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageTime>,
    /// Every way in which these figures may mislead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Note>,
    /// Why it is missing; `null` if it is not.
    pub missing: Option<String>,
}

/// A stage of a round trip, as `hairpin explain` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageTime {
    /// Its name.
    pub name: String,
    /// The side that it belongs to.
    pub side: Side,
    /// Its direction; the server's turn-around counts as part of the reply.
    pub direction: Direction,
    /// Its mean over the typical round trips, in ns.
    pub typical_ns: f64,
}

/// A rank that is not there, or not to the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingRank {
    /// Its number.
    pub rank: u32,
    /// Why, as far as the others can tell.
    pub why: String,
}

/// The effect of a subject, from all of its pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The subject.
    pub subject: Subject,
    /// Times the RTT p50 of the others: of a rank's pairs, of like groups; of a pair, of what its two ranks explain.
    pub ratio: f64,
    /// Lower end of the ratio's interval.
    pub low: f64,
    /// Upper end of the ratio's interval.
    pub high: f64,
    /// True if it is slow beyond what chance and the other pairs explain.
    pub convicted: bool,
    /// What differs on it from the others, the setting with the most at stake first; empty if it is not convicted. Seen, not
    /// proved to be the cause.
    pub because: Vec<String>,
}

/// What an effect is about: a rank, a pair of ranks, or a group of pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Subject {
    /// A rank, with its host.
    Rank(u32),
    /// A pair of ranks a < b: what neither rank explains.
    Pair(u32, u32),
    /// The pairs of a rack or switch, in words: `pairs within rack1`, `pairs out of rack1`.
    Group(String),
}

/// The ranks that `--pick` chose for the lowest mean RTT p50 between each other; `exact` is true if no choice is better.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Picked {
    /// The ranks, ascending.
    pub ranks: Vec<u32>,
    /// The mean RTT p50 of their pairs; `null` of a single rank.
    pub mean_ns: Option<f64>,
    /// The longest RTT p50 of their pairs; `null` of a single rank.
    pub longest_ns: Option<f64>,
    /// Pairs of theirs that were not measured: what their two ranks explain stands for them.
    pub expected_pairs: usize,
    /// True if every choice was looked at, so that none is better.
    pub exact: bool,
}

/// A threshold of `--fail-if`, held against every pair, or every rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// The threshold as given, such as `p99 > 40us` or `node > 1.3x`.
    pub given: String,
    /// Pairs that crossed it.
    pub crossed: Vec<(u32, u32)>,
    /// Pairs that have no such figure.
    pub unknown: Vec<(u32, u32)>,
    /// Ranks whose whole interval is beyond it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<u32>,
    /// Ranks whose interval contains it, or that have none: not beyond it for sure, and no pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unclear: Vec<u32>,
}

impl Pair {
    /// The visits that measured RTTs: they are not missing, and measured no stages.
    pub fn measured(&self) -> impl Iterator<Item = &Visit> {
        self.visits.iter().filter(|visit| visit.missing.is_none() && visit.stages.is_empty())
    }
}

impl MeshBody {
    /// The name of a rank's host; `rank N` for one that is not known.
    #[must_use]
    pub fn host_of(&self, rank: u32) -> String {
        self.ranks.iter().find(|known| known.rank == rank).map_or_else(|| format!("rank {rank}"), |known| known.host.clone())
    }

    /// True if a threshold was crossed, or it is unclear whether it was.
    #[must_use]
    pub fn is_crossed(&self) -> bool {
        self.thresholds.iter().any(|held| !held.crossed.is_empty() || !held.ranks.is_empty() || !held.unclear.is_empty())
    }
}
