//! Time of a frame on the line, at rates from 10M to 800G.
//!
//! ```text
//!   |preamble+SFD 8|        frame ≥ 60        |FCS 4|gap 12|
//!   |<------------ until the last bit ------------->|
//!   |<--------------------- serialization ---------------->|
//! ```
//! A floor counts a frame's whole time on the line, gap included, as the published accounting does: 67.2 ns for the
//! shortest at 10G. A store-and-forward hop has a frame once its last bit is in, so there the gap is not counted.

use hairpin_units::{BitRate, Picos};
use hairpin_wire::framing::{INTERFRAME_GAP, VLAN_TAG, wire_bytes};

/// The slowest supported rate.
pub const MIN_RATE: BitRate = BitRate(10_000_000);
/// The fastest supported rate (IEEE 802.3df).
pub const MAX_RATE: BitRate = BitRate(800_000_000_000);
/// Longest frame without FCS: jumbo frames of 9,216 bytes with FCS are the largest that switches commonly accept.
pub const MAX_FRAME: u64 = 9_212;

/// A frame to send: its length without FCS, and whether it carries a VLAN tag (which adds to the length).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes without FCS and tag, before padding.
    pub len: u64,
    /// One IEEE 802.1Q tag.
    pub tagged: bool,
}

impl Frame {
    /// Without a tag.
    pub fn plain(len: u64) -> Frame {
        Frame { len, tagged: false }
    }

    /// Bytes on the line, with preamble, tag, padding, FCS and gap.
    pub fn wire_bytes(self) -> u64 {
        wire_bytes(self.len + if self.tagged { VLAN_TAG } else { 0 })
    }
}

/// The frame's time on the line, gap included. Exact at every rate of IEEE 802.3, since all of them divide 8 × 10^12;
/// otherwise to the nearest ps.
pub fn serialization(frame: Frame, rate: BitRate) -> Picos {
    bytes(frame.wire_bytes(), rate)
}

/// From the first bit of the preamble to the last of the FCS.
pub fn until_last_bit(frame: Frame, rate: BitRate) -> Picos {
    bytes(frame.wire_bytes() - INTERFRAME_GAP, rate)
}

/// Back-to-back frames per second.
pub fn frames_per_second(frame: Frame, rate: BitRate) -> f64 {
    rate.0 as f64 / (8 * frame.wire_bytes()) as f64
}

fn bytes(count: u64, rate: BitRate) -> Picos {
    bits(8 * count, rate.0)
}

/// `count` bits at a line rate in bit/s, to the nearest ps.
pub(crate) fn bits(count: u64, per_second: u64) -> Picos {
    let (count, rate) = (u128::from(count) * 1_000_000_000_000, u128::from(per_second.max(1)));
    Picos(i64::try_from((count + rate / 2) / rate).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::published;
    use hairpin_wire::framing;

    const TEN: BitRate = BitRate(10_000_000_000);

    #[test]
    fn every_published_number_of_the_wire() {
        let wire = &published().wire;
        assert_eq!(wire.preamble_and_sfd_bytes, framing::PREAMBLE_AND_SFD);
        assert_eq!(wire.interframe_gap_bytes, framing::INTERFRAME_GAP);
        assert_eq!(wire.fcs_bytes, framing::FCS);
        assert_eq!(wire.header_bytes, framing::ETHERNET_HEADER);
        assert_eq!(wire.min_frame_without_fcs_bytes, framing::MIN_FRAME_WITHOUT_FCS);
        assert_eq!(wire.vlan_tag_bytes, framing::VLAN_TAG);
        let (least, most) = (Frame::plain(60), Frame::plain(1514));
        assert_eq!(least.wire_bytes(), wire.min_frame_wire_bytes);
        assert_eq!(most.wire_bytes(), wire.max_frame_wire_bytes);
        let ns = |ns: f64| Picos::from_ns_f64(ns).unwrap();
        for (frame, one_way, rtt, per_second) in [
            (least, wire.min_frame_serialization_10g_ns, wire.min_frame_rtt_floor_10g_ns, wire.line_rate_pps_10g_64b),
            (most, wire.max_frame_serialization_10g_ns, wire.max_frame_rtt_floor_10g_ns, wire.line_rate_pps_10g_1518b),
        ] {
            let time = serialization(frame, TEN);
            assert_eq!(time, ns(one_way));
            assert_eq!(time + time, ns(rtt));
            assert_eq!(frames_per_second(frame, TEN).floor(), per_second as f64);
        }
        assert_eq!(serialization(least, TEN), Picos(67_200));
        assert_eq!(serialization(most, TEN), Picos(1_230_400));
    }

    #[test]
    fn every_rate_of_the_standard_is_exact() {
        for (rate, byte_ps) in [
            (MIN_RATE, 800_000),
            (BitRate(100_000_000), 80_000),
            (BitRate(1_000_000_000), 8_000),
            (BitRate(2_500_000_000), 3_200),
            (BitRate(5_000_000_000), 1_600),
            (TEN, 800),
            (BitRate(25_000_000_000), 320),
            (BitRate(40_000_000_000), 200),
            (BitRate(50_000_000_000), 160),
            (BitRate(100_000_000_000), 80),
            (BitRate(200_000_000_000), 40),
            (BitRate(400_000_000_000), 20),
            (MAX_RATE, 10),
        ] {
            for len in [1, 60, 61, 1514, MAX_FRAME] {
                let frame = Frame::plain(len);
                assert_eq!(serialization(frame, rate), Picos(frame.wire_bytes() as i64 * byte_ps), "{len} at {rate}");
            }
        }
    }

    #[test]
    fn padding_tag_and_gap() {
        assert_eq!(serialization(Frame::plain(1), TEN), serialization(Frame::plain(60), TEN));
        for (len, bytes) in [(1, 84), (56, 84), (57, 85), (60, 88)] {
            assert_eq!(Frame { len, tagged: true }.wire_bytes(), bytes, "{len}");
        }
        assert_eq!(until_last_bit(Frame::plain(60), TEN), Picos(57_600));
        assert_eq!(bits(1, 3), Picos(333_333_333_333));
    }
}
