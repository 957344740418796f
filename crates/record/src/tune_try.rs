//! The schema `hairpin.tune-try/1`: settings of a host, switched on and off in turn while round trips were measured, and the gain
//! from each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::Compare;
use crate::head::{Body, Record};
use crate::run::HostFacts;

/// The record `hairpin.tune-try/1`, which `hairpin tune try --json` prints: a head and a [`TuneTryBody`].
///
/// Each [`TriedPath`] has whole records `hairpin.compare/1` inside: `alone` has the host as it is for arm A, then one arm per
/// setting, so its comparisons are in the order of `settings`; `together` holds all winners against the host as it is, measured
/// anew. `together` is `None` if nothing won, `profile` also if that second measurement contradicts the first or ended early.
/// [`TuneTry::parse`](Record::parse) fails where a field is missing or wrong, also in a record inside.
///
/// ```
/// use hairpin_record::any::AnyRecord;
///
/// # let bytes = &std::fs::read("tests/data/older.jsonl").unwrap();
/// for record in AnyRecord::all(bytes)? {
///     let AnyRecord::TuneTry(tried) = record else { continue };
///     for path in &tried.paths {
///         for (setting, found) in tried.settings.iter().zip(&path.alone.comparisons) {
///             println!("{} on {}: {}", setting.setting, path.alone.arms[0].path, found.verdict);
///         }
///     }
///     assert!(tried.winners.is_empty() && tried.profile.is_none());
/// }
/// # Ok::<(), hairpin_record::any::ParseError>(())
/// ```
pub type TuneTry = Record<TuneTryBody>;

impl Body for TuneTryBody {
    const SCHEMA: &'static str = "hairpin.tune-try/1";
}

/// An experiment with the settings of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TuneTry")]
pub struct TuneTryBody {
    /// Facts of the host, as it was before.
    pub host: Option<HostFacts>,
    /// The interface whose settings were tried, if one was named.
    pub interface: Option<String>,
    /// The settings that were tried.
    pub settings: Vec<TriedSetting>,
    /// The settings that were left out, with the reason.
    pub left_out: Vec<LeftOut>,
    /// One per path, in the order measured.
    pub paths: Vec<TriedPath>,
    /// Settings that made a path faster and none slower; the better one where two were of one knob. Empty where `contradictions`
    /// is not, and where it ended before they were measured again.
    pub winners: Vec<String>,
    /// Paths on which the winners, measured again, contradict their first measurement: no winner is declared then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// A profile of the winners for `hairpin tune apply`, as TOML; `null` if there are none.
    pub profile: Option<String>,
    /// True if the winners were left in force.
    pub kept: bool,
}

/// A setting that was switched on and off in turn, the values that it changes, and its cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TriedSetting {
    /// As it is given to `tune apply`: `NAME=VALUE`.
    pub setting: String,
    /// The values that it changes.
    pub changes: Vec<ValueChange>,
    /// Its cost according to its description; each comparison has the measured part.
    pub cost: String,
    /// True if it lasts only as long as a process holds it.
    pub held: bool,
}

/// A value that a setting changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValueChange {
    /// The file or attribute that holds the value.
    pub place: String,
    /// The value before.
    pub from: String,
    /// The value while the setting was on.
    pub to: String,
}

/// Two results for the winners on one path that contradict each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contradiction {
    /// The path, as its arms have it.
    pub path: String,
    /// The settings that had won, as `NAME=VALUE`.
    pub settings: Vec<String>,
    /// The interval of the ratio of p50 of the best of them alone.
    pub alone: [f64; 2],
    /// The interval of all of them together, measured anew.
    pub anew: [f64; 2],
}

/// A setting that was not tried, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// As it would be given to `tune apply`.
    pub setting: String,
    /// Why it was not tried, such as `it is so already`.
    pub why: String,
}

/// Effects of the settings on one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TriedPath {
    /// Each setting alone. Arm A is the host as it is, and the others are the settings in their order.
    pub alone: Compare,
    /// By arm: the share of all cores' time, while the arm's blocks were set up and measured, in idle states that take time to
    /// leave; `null` where the kernel counts none.
    pub deep_idle: Vec<Option<f64>>,
    /// The host as it is, and all winners together: measured anew, because the best of several looks better than it is. `null` if
    /// nothing won.
    pub together: Option<Compare>,
    /// The same share of these two arms; empty without `together`.
    pub together_deep_idle: Vec<Option<f64>>,
}
