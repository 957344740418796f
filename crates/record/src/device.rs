//! Stamps of a network device: those that it claims, and those that were seen.

use serde::{Deserialize, Serialize};

use crate::split::{Layer, Way};

/// The stamps that one network device claims to take, its clock, and the stamps that were seen on a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceStamps {
    /// Name of the interface.
    pub interface: String,
    /// Its driver, if it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// One for each direction and layer, hardware and software.
    pub stamps: Vec<StampClaim>,
    /// The received packets that it can stamp in hardware, under the kernel's names; empty if it claims none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rx_filters: Vec<String>,
    /// Its clock (PHC); `None` if it names none or the clock cannot be read: then `no_clock` has the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<NicClock>,
    /// Why its clock is not known; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_clock: Option<String>,
    /// Stamps seen on a link of the program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_link: Option<OwnLink>,
    /// Why nothing was seen there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_own_link: Option<String>,
}

/// The stamps of a device in one direction, on one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampClaim {
    /// Sent or received packets.
    pub direction: Way,
    /// Where the stamp is taken.
    pub layer: Layer,
    /// True if the device claims such stamps.
    pub claimed: bool,
    /// True if such stamps were seen on this device; `null` if nothing was sent over it.
    pub seen: Option<bool>,
    /// The reasons why stamps are not seen, or of no or little use.
    pub why: String,
}

/// A NIC's clock, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NicClock {
    /// The number of its device file, `/dev/ptpN`.
    pub index: u32,
    /// The kernel's request by which it is read beside the program's clock.
    pub method: String,
    /// Width of the bracket around a reading: the clock is known to within half of it.
    pub width_ns: u64,
    /// Better requests that it lacks, with the kernel's reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Its rate against the program's clock, less 1, in parts per 10^9.
    pub rate_ppb: Option<f64>,
    /// Error of `rate_ppb` by the brackets.
    pub rate_error_ppb: Option<f64>,
}

/// A probe over loopback or over a veth pair made for it: how many packets the kernel stamped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnLink {
    /// `veth` or `loopback`.
    pub link: String,
    /// Packets of each direction.
    pub packets: u64,
    /// Of these, packets that the kernel stamped as they were sent.
    pub software_out: u64,
    /// Of these, packets that the kernel stamped as they came.
    pub software_in: u64,
}
