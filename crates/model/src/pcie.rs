//! Time on a PCI Express link: posted writes and non-posted reads, with the overhead of each packet.
//!
//! ```text
//!   write     device ──[framing|header 16|data ≤ 256|LCRC]──▶ host            one packet per 256 bytes
//!   read      device ──[framing|header 16|LCRC]─────────────▶ host            the first request
//!             device ◀─[framing|header 12|data ≤ 256|LCRC]─── host            one completion per 256 bytes
//! ```
//! The further requests of a long read go up while completions come down, so they take no time of their own. Only time
//! on the link is counted; the time in root complex, memory and device is in the published stages
//! of a NIC design. Sources: PCI Express Base Specification (encoding, framing 4 bytes, LCRC 4 bytes; Gen6:
//! flits of 256 bytes that carry 236 of packets). Header sizes: the published "TX 12 B, RX 16 B", taken for
//! those of packets with three and four doublewords of header (inferred).

use std::fmt;
use std::str::FromStr;

use hairpin_units::Picos;

use crate::published::published;

/// The source of the arithmetic, and its assumptions.
pub const SOURCE: &str = "PCI Express Base Specification; headers of 12 and 16 bytes are inferred from a published breakdown, packets of at most 256 bytes of data are assumed";
/// Data bytes of one packet.
const MAX_PAYLOAD: u64 = 256;
/// Start, sequence number and end up to Gen2; the start token, which holds the sequence number, from Gen3 on.
const FRAMING: u64 = 4;
const LCRC: u64 = 4;
const WIDTHS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// A slot's generation and lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcie {
    generation: u8,
    lanes: u64,
}

/// Why a text is not a PCIe link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a PCIe link: write genGxLANES with generation 1 to 6 and 1, 2, 4, 8, 16 or 32 lanes, such as gen3x8")]
pub struct ParsePcieError(pub String);

impl Pcie {
    /// From the host's figures for a device: 10^9 transfers per second of a lane, and lanes. `None` if they are not
    /// those of a PCIe link.
    pub fn negotiated(gt_per_s: f64, lanes: u64) -> Option<Pcie> {
        let generation = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0].iter().position(|rate| *rate == gt_per_s)? as u8 + 1;
        WIDTHS.contains(&lanes).then_some(Pcie { generation, lanes })
    }
}

impl FromStr for Pcie {
    type Err = ParsePcieError;

    fn from_str(text: &str) -> Result<Pcie, ParsePcieError> {
        let parsed = text
            .strip_prefix("gen")
            .and_then(|rest| rest.split_once('x'))
            .and_then(|(generation, lanes)| Some(Pcie { generation: generation.parse().ok()?, lanes: lanes.parse().ok()? }));
        let known = parsed.filter(|link| (1..=6).contains(&link.generation) && WIDTHS.contains(&link.lanes));
        known.ok_or_else(|| ParsePcieError(text.into()))
    }
}

impl fmt::Display for Pcie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("gen{}x{}", self.generation, self.lanes))
    }
}

impl Pcie {
    /// A posted write of `len` bytes: by the device into the host's memory (DMA), or by the CPU into the device.
    pub fn posted_write(self, len: u64) -> Picos {
        self.time(packets(len) * self.overhead(published().tlp.rx_header_bytes) + len)
    }

    /// A non-posted read of `len` bytes: the first request up, the completions down.
    pub fn read(self, len: u64) -> Picos {
        let request = self.overhead(published().tlp.rx_header_bytes);
        self.time(request) + self.time(packets(len) * self.overhead(published().tlp.tx_header_bytes) + len)
    }

    fn overhead(self, header: u64) -> u64 {
        // A flit has its own checks; its packets carry none.
        if self.generation == 6 { header } else { FRAMING + header + LCRC }
    }

    /// Bytes on the link, encoding counted, to the nearest ps.
    fn time(self, bytes: u64) -> Picos {
        // Rate of a lane in 10^6 transfers/s; encoded bits per group, and data bits in it.
        let (rate, sent, bits) = match self.generation {
            1 => (2_500, 10, 8),
            2 => (5_000, 10, 8),
            3 => (8_000, 130, 128),
            4 => (16_000, 130, 128),
            5 => (32_000, 130, 128),
            _ => (64_000, 256, 236),
        };
        let above = u128::from(bytes) * 8 * sent * 1_000_000;
        let below = bits * rate * u128::from(self.lanes);
        Picos(i64::try_from((above + below / 2) / below).unwrap_or(i64::MAX))
    }
}

fn packets(len: u64) -> u64 {
    len.div_ceil(MAX_PAYLOAD).max(1)
}

#[cfg(test)]
mod tests {
    use hairpin_record::floor::Class;

    use super::*;

    fn pcie(text: &str) -> Pcie {
        text.parse().unwrap()
    }

    #[test]
    fn closed_forms() {
        // Gen1 carries a byte in 4 ns a lane: 64 + 8 + 16 bytes over one lane and over eight.
        assert_eq!(pcie("gen1x1").posted_write(64), Picos(352_000));
        assert_eq!(pcie("gen1x8").posted_write(64), Picos(44_000));
        assert_eq!(pcie("gen2x8").posted_write(64), Picos(22_000));
        // Request 24 bytes, completion 20 + 64.
        assert_eq!(pcie("gen2x8").read(64), Picos(6_000 + 21_000));
        // Gen3: 1.015625 ns a byte and lane.
        assert_eq!(pcie("gen3x1").posted_write(64), Picos(89_375));
        assert_eq!(pcie("gen3x8").posted_write(64), Picos(11_172));
        assert_eq!(pcie("gen5x16").posted_write(64), pcie("gen4x32").posted_write(64));
        // 1500 bytes are six packets, and one request goes up before the first of them.
        assert_eq!(pcie("gen2x1").posted_write(1500), Picos((1500 + 6 * 24) * 2000));
        assert_eq!(pcie("gen2x1").read(1500), Picos((24 + 1500 + 6 * 20) * 2000));
        // Gen6: 80 bytes of packet are 80 × 256 / 236 of flits at 0.125 ns a byte and lane.
        assert_eq!(pcie("gen6x1").posted_write(64), Picos(10_847));
    }

    #[test]
    fn a_wider_or_newer_link_is_never_slower() {
        for generation in 1..6 {
            for lanes in [1, 2, 4, 8] {
                let (here, wider) = (Pcie { generation, lanes }, Pcie { generation, lanes: lanes * 2 });
                let newer = Pcie { generation: generation + 1, lanes };
                for len in [4, 64, 1514, 9000] {
                    assert!(wider.read(len) < here.read(len) && newer.posted_write(len) < here.posted_write(len), "{here} {len}");
                }
            }
        }
    }

    #[test]
    fn rejects_malformed_links() {
        for text in ["", "gen3", "gen0x8", "gen7x8", "gen3x3", "gen3x", "3x8", "gen3x8,"] {
            assert_eq!(text.parse::<Pcie>(), Err(ParsePcieError(text.into())));
        }
        assert_eq!(pcie("gen3x8").to_string(), "gen3x8");
        assert_eq!(
            [(2.5, 1), (8.0, 8), (64.0, 16)].map(|(gt, lanes)| Pcie::negotiated(gt, lanes).unwrap().to_string()),
            ["gen1x1", "gen3x8", "gen6x16"]
        );
        assert_eq!([(3.0, 8), (8.0, 3), (f64::NAN, 8)].map(|(gt, lanes)| Pcie::negotiated(gt, lanes)), [None; 3]);
    }

    #[test]
    fn published_reads_keep_their_label() {
        let read = &published().pcie_read_4b;
        assert_eq!([read.cpu_idle.mean, read.cpu_read.mean, read.cpu_write.mean], [768.0, 768.0, 756.0]);
        assert_eq!(read.label, "read by the device of host memory (initiator inferred)");
        for summary in [&read.cpu_idle, &read.cpu_read, &read.cpu_write] {
            assert!(
                summary.min % 4.0 == 0.0
                    && summary.max % 4.0 == 0.0
                    && summary.min <= summary.mean
                    && summary.mean <= summary.max
            );
        }
        let tlp = &published().tlp;
        assert_eq!((tlp.tx_header_bytes, tlp.rx_header_bytes, tlp.class), (12, 16, Class::Derived));
        assert!(tlp.label.contains("inferred") && SOURCE.contains("inferred"));
    }
}
