//! The schema `hairpin.explain/1`: the time of a round trip, stage by stage, and the causes of slow round trips.
//!
//! ```text
//!   of every traced transaction:   RTT = stages + observer + residual, exactly
//!   stage      the named part between two neighbouring hooks, without the time of the hooks themselves
//!   observer   the time of the hooks: measured by blocks with and without them in turn
//!   residual   between two neighbouring hooks with no such name
//! ```
//! Times are integer nanoseconds unless the field is a mean. Later versions of the schema only add fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::Cpus;
use crate::floor::Floor;
use crate::head::{Body, Place, Record};
use crate::run::{Granted, Origin, Quantiles, Side};
pub use crate::slow::{Cause, Direction, Event, Missing, Timeline};
use crate::split::Split;
use crate::warning::Note;

/// The record `hairpin.explain/1`, which `hairpin explain --json` prints: a head and an [`ExplainBody`].
///
/// An [`Explained`] has the round trips of one path. The headline figure is `untraced_rtt_ns`, because hooks lengthen the traced
/// round trips. The stages' `typical_ns`, with observer and residual, add up to the mean RTT of the typical ones; `slow_ns` does
/// so for the slow ones. Where a host lacks a hook, the stages beside it are merged, and `missing` has the hook and the reason.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Explain(explain) = record else { continue };
///     for path in &explain.results {
///         println!("{}: p50 {:?} ns", path.path, path.untraced_rtt_ns.p50);
///         for stage in &path.stages {
///             println!("{} {}: {:.0} ns, {:.0} ns of a slow one", stage.side, stage.name, stage.typical_ns, stage.slow_ns);
///         }
///     }
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Explain = Record<ExplainBody>;

impl Body for ExplainBody {
    const SCHEMA: &'static str = "hairpin.explain/1";
}

/// One run of `hairpin explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Explain")]
pub struct ExplainBody {
    /// Hosts, link and clock.
    #[serde(flatten)]
    pub place: Place,
    /// Hooks that this host does not offer, and the detail each of them would add; of all paths.
    pub missing: Vec<Missing>,
    /// One per path, in the order measured.
    pub results: Vec<Explained>,
}

/// The round trips of one path, split into stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// The path spec in canonical form.
    pub path: String,
    /// Source of the figures.
    pub origin: Origin,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a reply.
    pub reply_bytes: u64,
    /// RTT of the traced transactions: in each, the sum of stages, observer and residual.
    pub rtt_ns: Quantiles,
    /// RTT in the blocks without any hook: the headline figure.
    pub untraced_rtt_ns: Quantiles,
    /// Lower and upper end of the 95 % interval of its p50, from the medians of the phases without any hook; `null` where they
    /// are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untraced_p50_ends_ns: Option<[u64; 2]>,
    /// The CPUs of both sides; `null` where they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Cpus>,
    /// The stages in the order in which a round trip passes them.
    pub stages: Vec<Stage>,
    /// Time that the hooks took of each traced transaction, in ns.
    pub observer_ns: Quantiles,
    /// Time between neighbouring hooks that no named mechanism explains.
    pub residual_ns: Quantiles,
    /// Time that one hit of a hook takes, in ns; `null` if none was attached.
    pub hook_ns: Option<f64>,
    /// Every hook that stamped, with its hits per transaction.
    pub hooks: Vec<Hook>,
    /// Transactions whose stamps could not be matched, or that came while another was open.
    pub unmatched: u64,
    /// Events lost because their buffer was full.
    pub lost_events: u64,
    /// Traced blocks that count.
    pub blocks: u64,
    /// Traced blocks that were rejected, because clocks disagreed by more than 50 ns over them.
    pub blocks_rejected: u64,
    /// Typical transactions: RTT from p40 to p60.
    pub typical: Group,
    /// Slow ones: those above p99.
    pub slow: Group,
    /// Causes of slow transactions, the most costly first.
    pub causes: Vec<Cause>,
    /// Findings of the detectors; empty if there are none.
    pub findings: Vec<Finding>,
    /// The slowest transactions event by event, slowest first.
    pub slowest: Vec<Timeline>,
    /// Options requested of the kernel, and their values in force.
    pub granted: Vec<Granted>,
    /// The physical floor of the declared link; `null` where none was declared.
    pub floor: Option<Box<Floor>>,
    /// How much of a round trip is either host's and how much the wire's, by stamps of NIC and driver, in a row of its own; to
    /// another host only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Box<Split>>,
    /// Every way in which these figures may mislead.
    pub warnings: Vec<Note>,
}

/// The time between two neighbouring hooks of a round trip, without that of the hooks themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Its name; if the hook between two stages is missing, both names joined by ` + `.
    pub name: String,
    /// The side that it belongs to.
    pub side: Side,
    /// Its direction; the server's turn-around counts as part of the reply.
    pub direction: Direction,
    /// The hook at its start, as the kernel names it; `send call` and `receive returned` are the program's own stamps.
    pub from: String,
    /// The hook at its end.
    pub to: String,
    /// Duration in ns, over the `count` transactions that passed this stage.
    pub ns: Quantiles,
    /// The same as an HDR histogram, V2 compressed, base64.
    pub histogram: String,
    /// Mean over all typical transactions (0 for one that did not pass it), so that these add up.
    pub typical_ns: f64,
    /// Mean over all slow transactions.
    pub slow_ns: f64,
}

/// The transactions whose RTT lies in a range. Means in ns: those of stages, observer and residual add up to that of the RTT. All
/// fields are 0 if no transaction was matched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Number of transactions.
    pub count: u64,
    /// The shortest RTT in it.
    pub from_ns: u64,
    /// The longest.
    pub to_ns: u64,
    /// Mean RTT in ns: the sum of the means of stages, observer and residual.
    pub rtt_ns: f64,
    /// Mean of the observer's part.
    pub observer_ns: f64,
    /// Mean of the residual.
    pub residual_ns: f64,
}

/// A hook that stamped transactions. One that stamped none is not listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hook {
    /// Its name in the kernel, such as `net_dev_queue`.
    pub name: String,
    /// Mean number of its stamps in a transaction, both directions together; of both hosts where there are two.
    pub per_transaction: f64,
}

/// Something that a detector found in the run as a whole, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Name of the detector, such as `nagle-delayed-ack`: `docs/detectors/` has a page of that name.
    pub detector: String,
    /// The observation in a sentence, with figures.
    pub seen: String,
    /// A remedy in words, such as a knob, a path option or a flag to use.
    pub advice: String,
}
