//! The schemas of `hairpin floor pcie`: the CPU's 4-byte reads of a device, and the cost of a NIC driver's steps over ordinary
//! memory.
//!
//! [`Probe`] and [`Primitives`] are records of measurements, which [`AnyRecord::all`](crate::any::AnyRecord::all) reads. A
//! [`PublishedTable`] has a [`Label`] alone, since nothing was measured; `serde_json` reads it.

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

/// The record `hairpin.floor-pcie/1`, which `hairpin floor pcie --device BDF --json` prints: a head and a [`ProbeBody`].
///
/// [`Reads`] has the times of all 4-byte reads in ns, less the cost of the two stamps, and counts those with a stall apart. A published table
/// stands beside them for reference. Facts of the device that sysfs lacks are `None`. [`Probe::parse`](Record::parse) fails where
/// a field is missing or wrong.
pub type Probe = Record<ProbeBody>;

impl Body for ProbeBody {
    const SCHEMA: &'static str = "hairpin.floor-pcie/1";
}

/// The time in which this CPU reads 4 bytes of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Probe")]
pub struct ProbeBody {
    /// Always `measured`: by this CPU, on this host.
    pub origin: Origin,
    /// The clock behind every stamp; `drift_ppb` is `null`, since a probe is too short to tell.
    pub clock: ClockFacts,
    /// The device that was read.
    pub device: Device,
    /// Number of the BAR, from 0.
    pub bar: u8,
    /// Bytes of the BAR.
    pub bar_bytes: u64,
    /// Offset of the 4 bytes in the BAR.
    pub offset: u64,
    /// The reads.
    pub reads: Reads,
    /// A reference that is not compared.
    pub published: Published,
}

/// A PCI device as sysfs describes it; facts that sysfs lacks are `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Its PCI address, such as `0000:3b:00.0`.
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
    /// Cost of two stamps with nothing between them, measured in turns with the reads: the median in ns,
    /// subtracted from each read.
    pub own_cost_ns: f64,
    /// Times of all reads, those with a stall included.
    pub read_ns: Quantiles,
    /// `read_ns` as HDR V2, compressed, base64; a time of 0 is recorded as 1.
    pub histogram: String,
    /// Reads that took much longer than their neighbours.
    pub stalls: Stalls,
    /// Value of the first read.
    pub first_value: u32,
    /// True if every read returned all ones, as from a device that is off or does not answer.
    pub all_ones: bool,
}

/// Reads that took much longer than the median of the block they were in: as a rule the CPU was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// Distance above the median, in ns.
    pub over_ns: u64,
    /// Number of reads.
    pub count: u64,
    /// Their share of all reads, 0 to 1.
    pub share: f64,
    /// The mean of the other reads, in ns; `null` if there are none.
    pub mean_without_ns: Option<f64>,
}

/// A published table of 4-byte reads on PCIe. It is a reference, from another host: it is shown, and never compared with this
/// CPU's own reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// The device and host of the published figure.
    pub label: String,
    /// Source of the figure.
    pub source: String,
    /// One row per activity of the CPU.
    pub rows: Vec<PublishedRead>,
}

/// Times of the published reads in ns, while the CPU did one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedRead {
    /// What the CPU did meanwhile, such as `leaves the line alone`.
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

/// The record `hairpin.floor-pcie-primitives/1`, which `hairpin floor pcie --json` prints: a head and a [`PrimitivesBody`].
///
/// An [`Implementation`] is one way to do a NIC driver's steps, and has the median of each [`Step`] in ns: alone, and one of
/// several in a row, which is `None` for a step that cannot be repeated so. [`Primitives::parse`](Record::parse) fails where a
/// field is missing or wrong.
pub type Primitives = Record<PrimitivesBody>;

impl Body for PrimitivesBody {
    const SCHEMA: &'static str = "hairpin.floor-pcie-primitives/1";
}

/// Costs of the steps of a NIC driver on this CPU, over ordinary memory: nothing crosses PCIe.
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

/// One way to do the steps, and the cost of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Implementation {
    /// `coherent` or `mapped`.
    pub name: String,
    /// A description of the way.
    pub about: String,
    /// The steps.
    pub steps: Vec<Step>,
}

/// The cost of one step of a NIC driver, in ns, over ordinary memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Name of the step.
    pub name: String,
    /// One step, with a wait before and after it: the median in ns, without the cost of the stamps.
    pub alone_ns: f64,
    /// One of several in a row, parts of which the CPU may overlap: the median over rows, in ns; `null` if
    /// the step cannot be done in a row.
    pub in_a_row_ns: Option<f64>,
}
