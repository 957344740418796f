//! Published figures to show beside measured ones, and published claims without figures.

use serde::Serialize;

use crate::floor::Class;

/// A published table of round trips over message sizes, as a line to draw beside measured rows. Nothing in it was measured here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The product or system, such as `Myricom Sniffer10G`.
    pub name: String,
    /// The definition of the figure: `RTT mean: 2 x the published mean half round trip`.
    pub what: String,
    /// True if the figure is calculated from printed ones, false if it is printed in the source.
    pub derived: bool,
    /// The source, with the table or page.
    pub source: String,
    /// Points: payload in bytes and RTT in ns.
    pub points: Vec<[f64; 2]>,
}

/// A published comparison whose figures are not at hand: only what it says, in words, and under which conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The source, with the table or page.
    pub source: &'static str,
    /// The conditions of its measurement.
    pub conditions: &'static str,
    /// Its claims, each with its class.
    pub claims: &'static [Claim],
}

/// One statement of a published comparison. It has no figure, so it is never drawn and never compared with a measured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// The claim in words.
    pub claim: &'static str,
    /// `published`: the source makes it.
    pub class: Class,
}
