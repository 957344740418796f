//! A published figure that can stand beside measured ones.

use serde::Serialize;

/// A row of somebody's table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Who or what it is, such as `Myricom Sniffer10G`.
    pub name: String,
    /// What the figure is: `RTT mean: 2 x the published mean half round trip`.
    pub what: String,
    /// Printed by its source, or arithmetic on what it prints.
    pub derived: bool,
    /// Its source, with the table or page.
    pub source: String,
    /// Points: payload in bytes and RTT in ns.
    pub points: Vec<[f64; 2]>,
}
