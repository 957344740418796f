//! Published figures and claims other than NIC designs: on-the-wire accounting, cables, PCIe reads, claims without figures. Each
//! group names its source; Hairpin measured none of them.

use hairpin_record::floor::Class;
use hairpin_record::published::{Claim, Claims};

/// All published figures. Times are in ns unless the name says otherwise.
static ALL: Published = Published {
    wire: Wire {
        source: "ntop, \"Low RX/TX Latency with DNA\": Ethernet's on-the-wire accounting (IEEE 802.3)",
        preamble_and_sfd_bytes: 8,
        interframe_gap_bytes: 12,
        fcs_bytes: 4,
        header_bytes: 14,
        min_frame_without_fcs_bytes: 60,
        vlan_tag_bytes: 4,
        min_frame_wire_bytes: 84,
        min_frame_serialization_10g_ns: 67.2,
        min_frame_rtt_floor_10g_ns: 134.4,
        max_frame_wire_bytes: 1538,
        max_frame_serialization_10g_ns: 1230.4,
        // The source rounds this round trip to "~2.5 us".
        max_frame_rtt_floor_10g_ns: 2460.8,
        // Both derived; the second is the floor of 812743.8.
        line_rate_pps_10g_64b: 14_880_952,
        line_rate_pps_10g_1518b: 812_743,
    },
    cable: &[
        Cable { name: "coax", velocity_factor: 0.65, ns_per_m: 5.13, source: INTERFACES },
        Cable { name: "twisted-pair", velocity_factor: 0.59, ns_per_m: 5.65, source: INTERFACES },
        Cable { name: "optical", velocity_factor: 0.66, ns_per_m: 5.05, source: INTERFACES },
        // Does not fit its own velocity factor, which gives 5.13; the published value is kept and the misfit told.
        Cable { name: "twinax", velocity_factor: 0.65, ns_per_m: 5.10, source: INTERFACES },
    ],
    // Every minimum and maximum is a multiple of 4 ns, a 250 MHz device clock, so most likely the device reads a line of host
    // memory that the CPU meanwhile touches. A reference only: never to be set against a CPU's own read of a device.
    pcie_read_4b: PcieRead {
        label: "read by the device of host memory (initiator inferred)",
        source: "Flajslik and Rosenblum, \"Low Latency Network Interfaces\", Cache Effects",
        cpu_idle: Summary { mean: 768.0, stddev: 1.90, min: 764.0, max: 776.0 },
        cpu_read: Summary { mean: 768.0, stddev: 2.02, min: 764.0, max: 784.0 },
        cpu_write: Summary { mean: 756.0, stddev: 8.59, min: 736.0, max: 772.0 },
    },
    tlp: Tlp {
        class: Class::Derived,
        label: "header sizes of three and four doublewords (inferred: the source prints TX 12 B and RX 16 B and does not say of what)",
        source: "Flajslik and Rosenblum, \"Low Latency Network Interfaces\", breakdown pages; PCI Express Base Specification: headers have three or four doublewords",
        tx_header_bytes: 12,
        rx_header_bytes: 16,
    },
    busy_poll_sockets: Claims {
        source: "a comparison of busy-poll sockets, Chelsio T520-LL-CR against Intel X520-DA2; its title and its figures are not at hand",
        conditions: "netperf TCP_RR and UDP_RR, 1 to 64 bytes, -l 20, MTU 1500, busy_poll and busy_read at 0 and at 50 us",
        claims: &[
            claim("up to 3x lower latency than the other adapter"),
            claim("no-polling T520 comparable with or below polling X520"),
            claim("user-level UDP (WireDirect) below busy polling"),
            claim("busy polling narrows the gap without changing the application"),
        ],
    },
};

const fn claim(claim: &'static str) -> Claim {
    Claim { claim, class: Class::Published }
}

const INTERFACES: &str = "Flajslik and Rosenblum, \"Low Latency Network Interfaces\"";

/// All published figures.
pub fn published() -> &'static Published {
    &ALL
}

/// The groups.
#[derive(Debug)]
pub struct Published {
    /// Ethernet on the wire.
    pub wire: Wire,
    /// Cables.
    pub cable: &'static [Cable],
    /// A 4-byte PCIe read.
    pub pcie_read_4b: PcieRead,
    /// TLP headers.
    pub tlp: Tlp,
    /// Two NICs without and with busy polling.
    pub busy_poll_sockets: Claims,
}

/// Ethernet on the wire, with the source's times for 10G.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it all, unit included")]
pub struct Wire {
    pub source: &'static str,
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
#[derive(Debug)]
pub struct Cable {
    pub name: &'static str,
    /// Velocity factor: the signal's speed as a fraction of the speed of light.
    pub velocity_factor: f64,
    /// Delay as printed, in ns per metre.
    pub ns_per_m: f64,
    pub source: &'static str,
}

/// A 4-byte PCIe read while the CPU uses the line in different ways; times in ns.
#[derive(Debug)]
pub struct PcieRead {
    /// The label to show beside the figures.
    pub label: &'static str,
    pub source: &'static str,
    /// The CPU leaves the line alone.
    pub cpu_idle: Summary,
    /// The CPU reads the line.
    pub cpu_read: Summary,
    /// The CPU writes the line.
    pub cpu_write: Summary,
}

/// Times in ns.
#[derive(Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it all")]
pub struct Summary {
    pub mean: f64,
    pub stddev: f64,
    pub min: f64,
    pub max: f64,
}

/// Header sizes of PCIe transaction layer packets, in bytes.
#[derive(Debug)]
pub struct Tlp {
    /// Derived: the source prints the figures, and that they are header sizes is inferred.
    pub class: Class,
    /// The assumption.
    pub label: &'static str,
    /// The source of the figures, and the assumption.
    pub source: &'static str,
    /// Three doublewords: 32-bit addresses, and completions.
    pub tx_header_bytes: u64,
    /// Four doublewords: 64-bit addresses.
    pub rx_header_bytes: u64,
}
