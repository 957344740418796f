//! A published figure to show beside measured ones.

use serde::Serialize;

/// A row of a published table.
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
