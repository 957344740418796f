//! Published figures other than NIC designs: on-the-wire accounting, cables, PCIe reads. Parsed once from
//! `data/published.toml`.

use std::sync::LazyLock;

use hairpin_record::floor::Class;
use serde::Deserialize;

/// All published figures.
pub fn published() -> &'static Published {
    static ALL: LazyLock<Published> = LazyLock::new(|| {
        // The file is compiled in, and the tests parse it.
        toml::from_str(include_str!("../data/published.toml")).expect("data/published.toml is as its types say")
    });
    &ALL
}

/// The file's groups.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Ethernet on the wire.
    pub wire: Wire,
    /// Cables.
    pub cable: Vec<Cable>,
    /// A 4-byte PCIe read.
    pub pcie_read_4b: PcieRead,
    /// TLP headers.
    pub tlp: Tlp,
}

/// Ethernet on the wire, with the source's times for 10G.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it all, unit included")]
pub struct Wire {
    pub source: String,
    pub preamble_and_sfd_bytes: u64,
    pub interframe_gap_bytes: u64,
    pub fcs_bytes: u64,
    pub header_bytes: u64,
    pub min_frame_without_fcs_bytes: u64,
    pub vlan_tag_bytes: u64,
    pub min_frame_wire_bytes: u64,
    pub min_frame_serialization_10g_ns: f64,
    pub min_frame_rtt_floor_10g_ns: f64,
    pub max_frame_wire_bytes: u64,
    pub max_frame_serialization_10g_ns: f64,
    pub max_frame_rtt_floor_10g_ns: f64,
    pub line_rate_pps_10g_64b: u64,
    pub line_rate_pps_10g_1518b: u64,
}

/// A type of cable.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// The name.
    pub name: String,
    /// Velocity factor: the signal's speed as a fraction of the speed of light.
    pub velocity_factor: f64,
    /// Delay as printed, in ns per metre.
    pub ns_per_m: f64,
    /// The source.
    pub source: String,
}

/// A 4-byte PCIe read while the CPU uses the line in different ways; times in ns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieRead {
    /// The label to show beside the figures.
    pub label: String,
    /// The source.
    pub source: String,
    /// The CPU leaves the line alone.
    pub cpu_idle: Summary,
    /// The CPU reads the line.
    pub cpu_read: Summary,
    /// The CPU writes the line.
    pub cpu_write: Summary,
}

/// Times in ns.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it all")]
pub struct Summary {
    pub mean: f64,
    pub stddev: f64,
    pub min: f64,
    pub max: f64,
}

/// Header sizes of PCIe transaction layer packets, in bytes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlp {
    /// Derived: the source prints the figures, and that they are header sizes is inferred.
    pub class: Class,
    /// The assumption.
    pub label: String,
    /// The source of the figures, and the assumption.
    pub source: String,
    /// Three doublewords: 32-bit addresses, and completions.
    pub tx_header_bytes: u64,
    /// Four doublewords: 64-bit addresses.
    pub rx_header_bytes: u64,
}
