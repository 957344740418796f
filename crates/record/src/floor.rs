//! The schemas of `hairpin floor`: the stages of one frame with their sources, two designs side by side, a table of sizes, and a
//! fit of measured runs.
//!
//! Model times are decimal nanoseconds, exact to a picosecond. A stage whose source gives an interval has `ns: null` and both
//! ends.
//!
//! A [`Floor`] has the stages of one frame's way, from the sending program to the receiving one. They are in the order of that
//! way and add up to its total; the RTT is that of a request and a reply of the same size. A [`Comparison`] has two floors and
//! their difference stage by stage,
//! [`Sizes`] a floor per size, and [`fit`](crate::fit) what measured runs tell. The row of a run whose link was declared has its floor too
//! ([`Row::floor`](crate::run::Row::floor)).
//!
//! Nothing is measured for a floor, so it has a [`Label`] and no [`Head`](crate::head::Head), and
//! [`AnyRecord::all`](crate::any::AnyRecord::all) takes it for no record: `serde_json::from_slice::<Floor>` reads one, and fails where a field is
//! missing or wrong.

use hairpin_units::Picos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::head::{Body, Label};

/// The kind of source that a figure has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Printed by its source.
    Published,
    /// Arithmetic on published figures or on a standard.
    Derived,
    /// Declared by the user or supposed by us; the source says which and why.
    Assumed,
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Class::Published => "published",
            Class::Derived => "derived",
            Class::Assumed => "assumed",
        })
    }
}

/// A frame's place on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// From the sending program to the sender's end of the cable.
    Out,
    /// Between the two ends.
    Link,
    /// From the receiver's end of the cable to the receiving program.
    In,
    /// All of the way in one figure.
    Whole,
}

/// A time, or the ends between which it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// The time where it is a point; `null` where only an interval is known.
    pub ns: Option<Picos>,
    /// Lower end; equal to `ns` for a point.
    pub low_ns: Picos,
    /// Upper end; equal to `ns` for a point.
    pub high_ns: Picos,
}

impl Span {
    /// A time without uncertainty.
    pub fn point(time: Picos) -> Span {
        Span { ns: Some(time), low_ns: time, high_ns: time }
    }

    /// A time between two ends, given in either order; a point if they are equal.
    pub fn between(a: Picos, b: Picos) -> Span {
        Span { ns: (a == b).then_some(a), low_ns: a.min(b), high_ns: a.max(b) }
    }

    /// `self` - `other`, if both vary independently within their ends.
    #[must_use]
    pub fn less(self, other: Span) -> Span {
        Span::between(self.low_ns - other.high_ns, self.high_ns - other.low_ns)
    }
}

impl std::ops::Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span::between(self.low_ns + other.low_ns, self.high_ns + other.high_ns)
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::default() + Span::point(Picos::ZERO), |sum, span| sum + span)
    }
}

/// One stage of a frame's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Name of the stage.
    pub name: String,
    /// Its place on the frame's way.
    pub part: Part,
    /// Duration in ns; negative only for a derived difference.
    #[serde(flatten)]
    pub time: Span,
    /// The kind of source of the figure.
    pub class: Class,
    /// The source of the figure.
    pub source: String,
    /// A description of this stage; empty if the source has none.
    pub what: String,
}

/// The unit that a design's sizes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Counts {
    /// Bytes of the frame without FCS.
    Frame,
    /// Bytes of payload, as the published table counts them.
    Payload,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Counts::Frame => "frame",
            Counts::Payload => "payload",
        })
    }
}

/// The floor of one frame over one link with one NIC design: one way, and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// The NIC design.
    pub nic: String,
    /// The design in a sentence.
    pub about: String,
    /// The unit of `size_bytes`.
    pub counts: Counts,
    /// The requested size.
    pub size_bytes: u64,
    /// The frame without FCS and before padding.
    pub frame_bytes: u64,
    /// Bytes that the frame takes on the wire: padding, FCS, tag, preamble and gap included.
    pub wire_bytes: u64,
    /// The link's rate in bits per second.
    pub rate_bit_per_s: u64,
    /// Cable type and length; `null` where none is known.
    pub cable: Option<String>,
    /// One way, from end to end; `null` if a stage is an interval.
    pub total_ns: Option<Picos>,
    /// Lower end of one way.
    pub total_low_ns: Picos,
    /// Upper end of one way.
    pub total_high_ns: Picos,
    /// Request and reply of this size, without the server's turn-around.
    pub rtt: Span,
    /// Round trips one after another in a second, at the upper and at the lower end of the RTT.
    pub transactions_per_s: [f64; 2],
    /// Frames of this size per second, back to back, at the link's rate.
    pub line_rate_frames_per_s: f64,
    /// The stages in the order of the frame's way; they add up to the total.
    pub stages: Vec<Stage>,
    /// The published table's other figures at this size, where size and rate are those of the table.
    pub published: Option<PublishedRow>,
    /// Parts that are unknown and so not counted, and contradictions in the sources.
    pub notes: Vec<String>,
    /// The least TCP window that fills the link, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Body for Floor {
    const SCHEMA: &'static str = "hairpin.floor/1";
}

/// Bandwidth-delay product: the bytes under way on a link that is never idle. A TCP window below it leaves
/// the link idle for a part of every RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// The round trip: the floor's, or the declared one.
    pub rtt: Span,
    /// True if the round trip was declared, false if it is the floor's.
    pub declared: bool,
    /// rate × RTT in bytes, rounded up, at the lower end of the RTT.
    pub low_bytes: u64,
    /// The same at the upper end.
    pub high_bytes: u64,
    /// Always `derived`, or `assumed` where the RTT is declared.
    pub class: Class,
}

impl Floor {
    /// The time of one way.
    pub fn one_way(&self) -> Span {
        Span::between(self.total_low_ns, self.total_high_ns)
    }
}

/// The published extremes of the half round trip at one size, beside its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedRow {
    /// Duration of the run in us.
    pub elapsed_us: u64,
    /// The shortest half round trip.
    pub min_ns: Picos,
    /// The longest half round trip.
    pub max_ns: Picos,
}

/// The floors of two NIC designs side by side, and their difference stage by stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// Floor of the first design.
    pub first: Floor,
    /// Floor of the second design, the one of `--compare`.
    pub second: Floor,
    /// One way of the second minus one way of the first.
    pub difference: Span,
    /// Stage by stage, in the order of the way; they add up to the difference.
    pub differences: Vec<Difference>,
}

impl Body for Comparison {
    const SCHEMA: &'static str = "hairpin.floor-comparison/1";
}

/// One stage in either of two floors, one way in ns. Stages of the same name are paired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Name of the stage.
    pub stage: String,
    /// In the first; `null` if it has no such stage.
    pub first: Option<Span>,
    /// In the second; `null` if it has no such stage.
    pub second: Option<Span>,
    /// Second minus first; a missing stage counts as zero.
    pub difference: Span,
}

/// The floor of one NIC design at each of several sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// One for each size, in the order requested.
    pub floors: Vec<Floor>,
}

impl Body for Sizes {
    const SCHEMA: &'static str = "hairpin.floor-sizes/1";
}
