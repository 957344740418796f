//! A reading of another clock, such as that of a NIC (PTP hardware clock, PHC), beside the program's clock.

use crate::clock::Ticks;

/// The time of another clock at one tick of the program's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The tick of the program's clock.
    pub ticks: Ticks,
    /// The other clock's time at that tick, in ns of its own epoch.
    pub nic_ns: u64,
    /// Width of the bracket around the reading, in ns: `nic_ns` is wrong by half of it at most.
    pub width_ns: u64,
}
