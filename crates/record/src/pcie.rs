//! The schemas of `hairpin floor pcie`: the CPU's 4-byte reads of a device, and the cost of a NIC driver's steps over ordinary
//! memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::head::{Body, Label, Record};
use crate::run::{ClockFacts, Origin, Quantiles};

/// The published table alone: nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedTable {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// Always `published`.
    pub origin: Origin,
    /// The table.
    pub published: Published,
}

impl Body for PublishedTable {
    const SCHEMA: &'static str = "hairpin.floor-pcie-published/1";
}

/// The record `hairpin.floor-pcie/1`: a head and a [`ProbeBody`].
pub type Probe = Record<ProbeBody>;

impl Body for ProbeBody {
    const SCHEMA: &'static str = "hairpin.floor-pcie/1";
}

/// How long this CPU takes to read 4 bytes of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Probe")]
pub struct ProbeBody {
    /// Always `measured`: by this CPU, on this host.
    pub origin: Origin,
    /// The clock behind every stamp; `drift_ppb` is `null`, since a probe is too short to tell.
    pub clock: ClockFacts,
    /// What was read.
    pub device: Device,
    /// The BAR.
    pub bar: u8,
    /// Bytes of the BAR.
    pub bar_bytes: u64,
    /// Where in the BAR the 4 bytes lie.
    pub offset: u64,
    /// The reads.
    pub reads: Reads,
    /// A reference that is not compared.
    pub published: Published,
}

/// A PCI device, in the words of sysfs; what it does not say is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Where it is, such as `0000:3b:00.0`.
    pub address: String,
    /// Vendor, such as `0x8086`.
    pub vendor: Option<String>,
    /// Device, such as `0x1572`.
    pub device: Option<String>,
    /// The driver that is bound to it.
    pub driver: Option<String>,
    /// Speed of its link, such as `8.0 GT/s PCIe`.
    pub link_speed: Option<String>,
    /// Lanes of its link in use.
    pub link_width: Option<String>,
}

/// Reads, one after the other, each between two ordered stamps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reads {
    /// What two stamps with nothing between them cost, measured in turns with the reads: the median, taken off each time, in ns.
    pub own_cost_ns: f64,
    /// Times of all reads, those with a stall included.
    pub read_ns: Quantiles,
    /// `read_ns` as HDR V2, compressed, base64; a time of 0 stands in it as 1.
    pub histogram: String,
    /// Reads that took much longer than their neighbours.
    pub stalls: Stalls,
    /// What the first read returned.
    pub first_value: u32,
    /// True if every read returned all ones: what a device that is off or does not answer is read as.
    pub all_ones: bool,
}

/// Reads that took much longer than the median of the block they were in: as a rule the CPU was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// So much longer than the median, in ns.
    pub over_ns: u64,
    /// How many.
    pub count: u64,
    /// Their share of all reads, 0 to 1.
    pub share: f64,
    /// The mean of the other reads, in ns; `null` if there are none.
    pub mean_without_ns: Option<f64>,
}

/// A published table of 4-byte reads on PCIe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// What was measured there.
    pub label: String,
    /// Who says so.
    pub source: String,
    /// The rows.
    pub rows: Vec<PublishedRead>,
}

/// A row of it; times in ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedRead {
    /// What the CPU did meanwhile.
    pub cpu: String,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

/// The record `hairpin.floor-pcie-primitives/1`: a head and a [`PrimitivesBody`].
pub type Primitives = Record<PrimitivesBody>;

impl Body for PrimitivesBody {
    const SCHEMA: &'static str = "hairpin.floor-pcie-primitives/1";
}

/// What the steps of a NIC driver cost on this CPU, over ordinary memory: nothing crosses PCIe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Primitives")]
pub struct PrimitivesBody {
    /// Always `measured`: by this CPU, on this host.
    pub origin: Origin,
    /// The clock behind every stamp; `drift_ppb` is `null`.
    pub clock: ClockFacts,
    /// One for each way to do the steps.
    pub implementations: Vec<Implementation>,
}

/// One way to do the steps, and what each costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Implementation {
    /// `coherent` or `mapped`.
    pub name: String,
    /// What it does.
    pub about: String,
    /// The steps.
    pub steps: Vec<Step>,
}

/// What a step costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What is done.
    pub name: String,
    /// One, waited for on both sides: the median, stamps taken off, in ns.
    pub alone_ns: f64,
    /// One of several in a row, of which the CPU may do parts at once: the median over rows, in ns; `null` where a row of it is no work.
    pub in_a_row_ns: Option<f64>,
}
