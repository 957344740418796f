//! The schema `hairpin.compare/1`: arms measured in turn, each compared with the first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::experiment::{ArmBlock, Estimate, Figure, State, Verdict};
use crate::head::{Body, Record};
use crate::own_request::OwnRequest;
use crate::run::{Granted, HostFacts, Link};
use crate::stack::Stacks;
use crate::warning::Note;

/// Code of the warning that the compared runs or arms are of different hosts.
pub const OTHER_HOST: &str = "other-host";

/// The record `hairpin.compare/1`, which `hairpin compare --json` prints: a head and a [`CompareBody`].
///
/// Each [`Comparison`] has a verdict on the figure that `method` names, and for every figure the ratio of the arm to the arm
/// `against` with its interval; below 1, a time is shorter. With too few pairs of blocks the verdict is unclear.
///
/// ```
/// use hairpin_record::any::AnyRecord;
/// use hairpin_record::experiment::Verdict;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Compare(compare) = record else { continue };
///     let found = &compare.comparisons[0];
///     assert_eq!((found.arm.as_str(), found.against.as_str(), found.verdict), ("B", "A", Verdict::Slower));
///     for estimate in &found.figures {
///         println!("{}: {:?} times, {:?} to {:?}", estimate.figure, estimate.ratio, estimate.low, estimate.high);
///     }
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Compare = Record<CompareBody>;

impl Body for CompareBody {
    const SCHEMA: &'static str = "hairpin.compare/1";
}

/// A comparison of two arms or more, which were measured in turn or are stored runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Compare")]
pub struct CompareBody {
    /// Facts of the host on which the clients ran; `null` for stored runs.
    pub host: Option<HostFacts>,
    /// The order of the blocks; `null` if stored runs were compared, which were not measured in turn.
    pub design: Option<Design>,
    /// The method behind the intervals.
    pub method: Method,
    /// The states of the cores that were seen, nearest first.
    pub states: Vec<State>,
    /// The arms; the others are compared with the first.
    pub arms: Vec<Arm>,
    /// One for each arm except the first. `against` is the first arm, except in `compare placements`, which compares the
    /// placements of a path with each other.
    pub comparisons: Vec<Comparison>,
    /// Thresholds, and the verdict on each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
    /// `compare placements`: the pairs of CPUs that were compared, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<Placement>,
    /// Ways in which this may mislead.
    pub warnings: Vec<Note>,
}

/// A pair of CPUs, and the RTT of each wait policy on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// The client's CPU.
    pub client: u32,
    /// The server's CPU.
    pub server: u32,
    /// As in the fact `core_relation`: `same CPU`, `SMT siblings`, `same package` or `different packages`; `null` if the kernel
    /// does not say.
    pub relation: Option<String>,
    /// The nearest data cache that both CPUs share, such as `L3`; `null` if there is none.
    pub shared_cache: Option<String>,
    /// The NUMA nodes of the two.
    pub numa_nodes: Vec<u32>,
    /// Cache-line round trip between the two before the first round, the median; `null` on one CPU, and where it could not be
    /// measured.
    pub core_rtt_ns: Option<u64>,
    /// The number of pairs of this kind at about this distance; this one was measured for all of them.
    pub stands_for: u32,
    /// One for each wait policy, in the same order for every placement.
    pub cells: Vec<PlacementCell>,
}

/// One path, with its wait policy, on one pair of CPUs: its RTT, or the reason why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementCell {
    /// The path spec in canonical form.
    pub path: String,
    /// Letter of its arm; `null` if it was not measured.
    pub arm: Option<String>,
    /// The reason if it was not measured.
    pub why: Option<String>,
    /// The typical RTT p50 of the arm's blocks, their Hodges-Lehmann estimate; `null` if no block has a p50.
    pub p50_ns: Option<f64>,
    /// Lower end of its interval, of the confidence `confidence_each`; `null`: too few blocks.
    pub low_ns: Option<f64>,
    /// Upper end of its interval.
    pub high_ns: Option<f64>,
}

/// Layout of the blocks in time: rounds, each with one block of every arm in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// Seed of the order of the arms within each round.
    pub seed: u64,
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds before them that do not.
    pub discarded: u32,
    /// Length of each block.
    pub block_ns: u64,
    /// Warm-up of each block.
    pub warmup_ns: u64,
    /// The whole experiment, from the first block to the last.
    pub elapsed_ns: u64,
}

/// How the intervals and the verdicts were computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Method {
    /// The figure that the verdict is about.
    pub figure: Figure,
    /// Confidence with which all intervals together hold the truth.
    pub confidence: f64,
    /// Confidence of each single interval: the remaining probability is divided by the figures, the comparisons and the looks.
    pub confidence_each: f64,
    /// Number of looks at the intervals, each of which could have ended the experiment early; 1 for a single look at the end.
    pub looks: u32,
    /// A difference of less than this share does not matter; 0.02 is 2 %.
    pub margin: f64,
}

/// One of the alternatives that are compared: its path, its work, and what was measured of it. In a comparison of stored runs it
/// is a row of one run, or the same row of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    /// Its letter: A, B, C …
    pub name: String,
    /// The arm as the user wrote it, or the run's id.
    pub given: String,
    /// The path spec in canonical form.
    pub path: String,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a reply.
    pub reply_bytes: u64,
    /// Connections or sockets.
    pub flows: u32,
    /// Requests in flight per flow.
    pub outstanding: u32,
    /// Measuring threads on the client, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The requested rate in 1/s if the arm was paced; of stored runs it is a part of `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_per_s: Option<f64>,
    /// TCP streams that filled the link during its blocks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bulk_streams: u32,
    /// Throughput of the bulk streams, in bits of payload per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk_bits_per_s: Option<f64>,
    /// The link between the two sides.
    pub link: Option<Link>,
    /// Its figures over all transactions of the blocks that count, whatever their state: a closed loop has more of them in its
    /// fast blocks.
    pub figures: Figures,
    /// The medians of its blocks' figures, in which all blocks weigh alike, as they do in ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical: Option<Figures>,
    /// The CPUs of both sides; `null` where they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Cpus>,
    /// The stored runs that make up this arm, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// Transactions of these blocks.
    pub transactions: u64,
    /// Requests that were never answered in time.
    pub lost: u64,
    /// Its blocks, in the order measured; of a long experiment those of every second round, or of fewer, with the same rounds in
    /// every arm; of long stored runs every second one, or fewer.
    pub blocks: Vec<ArmBlock>,
    /// Options requested of the kernel and not granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<Granted>,
    /// Libraries in the place of the kernel's sockets, with the counts of all its blocks; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Box<Stacks>>,
    /// With `--request` of the user's own: what was asked and answered, in all its blocks together, also those that do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_request: Option<Box<OwnRequest>>,
    /// TCP segments sent per transaction by the client's side, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments_out_per_transaction: Option<f64>,
    /// Ways in which its figures may mislead.
    pub warnings: Vec<Note>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The CPUs that the measuring threads of both sides were pinned to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cpus {
    /// The client's.
    pub client: Vec<u32>,
    /// The server's; empty where it is unknown.
    pub server: Vec<u32>,
}

/// The rule by which blocks of two arms are paired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Matched {
    /// Blocks that saw the same distance between the cores: both arms run on the same CPUs.
    #[default]
    CoreDistance,
    /// All blocks: the arms run on different CPUs or hosts, so the distance between the cores is part of the comparison.
    All,
}

impl Matched {
    /// True if a pair needs two blocks with the same distance between the cores.
    #[must_use]
    pub fn by_distance(&self) -> bool {
        *self == Matched::CoreDistance
    }
}

/// The figures of an arm. In `figures` quantiles are of all its transactions together, in `typical` each figure is a median over
/// blocks. A quantile that too few transactions support is `null`, as is CPU time that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Median RTT.
    pub p50_ns: Option<f64>,
    /// 99th percentile of the RTT.
    pub p99_ns: Option<f64>,
    /// 99.9th percentile of the RTT.
    #[serde(rename = "p99.9_ns")]
    pub p999_ns: Option<f64>,
    /// Median of the blocks' transaction rates.
    pub rate_per_s: Option<f64>,
    /// Median of the blocks' CPU time per transaction.
    pub cpu_ns: Option<f64>,
}

impl Figures {
    /// The value of `figure`: times in ns, the rate in 1/s; `None` where it is not known.
    #[must_use]
    pub fn of(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::P50 => self.p50_ns,
            Figure::P99 => self.p99_ns,
            Figure::P999 => self.p999_ns,
            Figure::Rate => self.rate_per_s,
            Figure::Cpu => self.cpu_ns,
        }
    }
}

/// One arm compared with another: a verdict on one figure, and the ratio of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Letter of the arm.
    pub arm: String,
    /// Letter of the arm that it is compared with.
    pub against: String,
    /// The verdict, by the figure that `method` names.
    pub verdict: Verdict,
    /// Estimated duration of an experiment that could tell the arms apart, in seconds; `null` if this one
    /// did, or if there is no estimate.
    pub needs_s: Option<f64>,
    /// Pairs of blocks of one round.
    pub pairs: u64,
    /// Pairs left out because the two blocks saw different states of the cores, or one a change of it.
    pub dropped: u64,
    /// States whose pairs were used: indices into `states`; empty where `matched` is `all`.
    pub states_used: Vec<u32>,
    /// The rule by which blocks are paired.
    #[serde(default, skip_serializing_if = "Matched::by_distance")]
    pub matched: Matched,
    /// Stored runs: number of runs of the arm that it is compared with, and of the arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<[u32; 2]>,
    /// Every figure that could be compared.
    pub figures: Vec<Estimate>,
}

/// A threshold of `--fail-if`, held against one arm. It is crossed, not crossed, or `unknown` says why nothing can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// As it was written, such as `p99 > +5%`.
    pub given: String,
    /// Letter of the arm.
    pub arm: String,
    /// True if the interval lies wholly beyond the threshold, and did so again in a repetition; for a gate, so must the interval
    /// of both together, which includes moods of the host.
    pub crossed: bool,
    /// The reason if there is no verdict.
    pub unknown: Option<String>,
    /// The ratio at the interval's end on the side of the threshold, if that lies beyond it and the threshold was not crossed: a
    /// change of up to this is not excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_excluded: Option<f64>,
    /// True if a second measurement crossed it again; `null` if there was none.
    pub confirmed: Option<bool>,
}
