//! The schema `hairpin.sweep/1`: many cells measured in turn, and the effect of each factor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Arm, Design};
use crate::experiment::{Figure, State};
use crate::head::{Body, Record};
use crate::run::HostFacts;
use crate::warning::Note;

/// The record `hairpin.sweep/1`, which `hairpin sweep --json` prints: a head and a [`SweepBody`].
///
/// A [`Cell`] is one combination of the factors' levels, in the order of `factors`, with an [`Arm`] as in a comparison. An
/// [`Effect`] holds a level against the first one of its factor, over all levels of the others. Its figures are ratios with an
/// interval: below 1, a time is shorter; an end is `None` if there are too few rounds for it. An [`Interaction`] near 1 says that
/// the two factors do not depend on each other. What was not measured is in `left_out`, in words. [`Sweep::parse`](Record::parse)
/// fails where a field is missing or wrong.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::Sweep(sweep) = record else { continue };
///     for effect in &sweep.main_effects {
///         for found in effect.figures.iter().filter(|found| found.tells()) {
///             println!("{} {}: {} times {:.3}", effect.factor, effect.level, found.figure, found.ratio);
///         }
///     }
///     assert_eq!((sweep.main_effects[0].level.as_str(), sweep.main_effects[0].against.as_str()), ("on", "off"));
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type Sweep = Record<SweepBody>;

impl Body for SweepBody {
    const SCHEMA: &'static str = "hairpin.sweep/1";
}

/// A sweep over several factors: every combination of their levels that was measured, and the effect of each level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sweep")]
pub struct SweepBody {
    /// The plan's name.
    pub plan: String,
    /// The sweep's subject in one line.
    pub title: String,
    /// Facts of the host on which the clients ran.
    pub host: Option<HostFacts>,
    /// Layout of the cells in time.
    pub design: Design,
    /// Rounds measured before the sweep was interrupted and resumed.
    pub resumed_rounds: u32,
    /// Confidence with which all intervals together hold the truth.
    pub confidence: f64,
    /// Confidence of each single interval.
    pub confidence_each: f64,
    /// The states of the cores that were seen, nearest first.
    pub states: Vec<State>,
    /// The factors that were varied.
    pub factors: Vec<Factor>,
    /// Every combination that was measured.
    pub cells: Vec<Cell>,
    /// Effect of each level of a factor against its first level, over all levels of the others.
    pub main_effects: Vec<Effect>,
    /// Dependence of one factor's effect on another; empty if one factor is varied at a time.
    pub interactions: Vec<Interaction>,
    /// Frames per second without loss, beside the round trips; empty unless the plan requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_free: Vec<LossFree>,
    /// Cells of the plan that this sweep did not run.
    pub left_out: Vec<String>,
    /// Ways in which this may mislead.
    pub warnings: Vec<Note>,
}

/// A variable of the sweep, and the levels that it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Factor {
    /// Its name in the plan.
    pub name: String,
    /// Its levels; the others are compared with the first.
    pub levels: Vec<String>,
}

/// One combination of the levels, measured as an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The level of each factor, in the order of `factors`.
    pub levels: Vec<String>,
    /// The arm that was measured.
    #[serde(flatten)]
    pub arm: Arm,
}

/// Frames per second without loss, one way, at some levels of the factors that affect it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossFree {
    /// The level of each factor, in the order of `factors`; `null` for a factor that does not apply to this
    /// cell.
    pub levels: Vec<Option<String>>,
    /// Back end and wait policy of both sides.
    pub io: String,
    /// Bytes of every frame, FCS not included.
    pub frame_bytes: u64,
    /// The highest rate at which the server received every frame, in frames/s; `null`: none was found.
    pub frames_per_s: Option<f64>,
    /// Highest rate that the sender can offer, in frames/s.
    pub offered_per_s: f64,
    /// Trials of the search.
    pub trials: u32,
    /// Warnings about this cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Note>,
}

/// The effect of one level of a factor, against the factor's first level, over all cells that differ in nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The factor.
    pub factor: String,
    /// The level.
    pub level: String,
    /// The level that it is compared with.
    pub against: String,
    /// Its figures divided by those of the other level: p50, p99, rate and CPU time, as far as blocks have them.
    pub figures: Vec<Ratio>,
}

/// Dependence of one factor's effect on another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interaction {
    /// Both factors.
    pub factors: [String; 2],
    /// The level of each.
    pub levels: [String; 2],
    /// The levels that they are compared with.
    pub against: [String; 2],
    /// Effect of the first factor's level at each level of the second, divided by its effect at the second's
    /// first level: 1 if the two do not depend on each other.
    pub figures: Vec<Ratio>,
}

/// A figure's ratio, with an interval of the confidence `confidence_each`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The figure.
    pub figure: Figure,
    /// The Hodges-Lehmann estimate over rounds.
    pub ratio: f64,
    /// Lower end of the interval; `null`: too few rounds.
    pub low: Option<f64>,
    /// Upper end of the interval; `null`: too few rounds.
    pub high: Option<f64>,
    /// Rounds that it comes from.
    pub rounds: u64,
}

impl Ratio {
    /// True if the interval does not contain 1.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.low.is_some_and(|low| low > 1.0) || self.high.is_some_and(|high| high < 1.0)
    }
}
