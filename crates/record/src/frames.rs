//! Frames and rings: features granted when a ring was opened, and counts of lost frames by cause.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Features that one side's rings were granted when they were opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rings {
    /// The back end: `af_xdp`, `af_packet`, `memory`.
    pub back_end: String,
    /// Name of the interface; empty where it is not known.
    pub interface: String,
    /// The queues that are driven.
    pub queues: Vec<u32>,
    /// Place of the XDP program, `native` or `generic`; `null` for back ends without one.
    pub mode: Option<String>,
    /// True if the device writes straight into the application's memory.
    pub zero_copy: bool,
    /// True if the kernel says when it needs a kick.
    pub need_wakeup: bool,
    /// True if the kernel polls the device on behalf of these rings.
    pub busy_poll: bool,
    /// True if a frame may span several chunks.
    pub multi_buffer: bool,
    /// Source of arrival stamps, `hardware` or `software`; `null` if there are none.
    pub rx_time: Option<String>,
    /// The longest frame, Ethernet header included, FCS not.
    pub longest_frame_bytes: u64,
    /// Features that were requested and not granted.
    pub refused: Vec<Refused>,
}

/// A requested feature that was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// Name of the feature, such as `zero-copy`.
    pub feature: String,
    /// Why it was not granted, in words.
    pub why: String,
}

/// Frames lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// On arrival: the RX ring was full.
    pub rx_ring_full: u64,
    /// On arrival: no free chunk was there to receive into.
    pub rx_no_chunk: u64,
    /// On arrival, for any other reason that the kernel counts.
    pub rx_dropped: u64,
    /// On arrival: longer than a chunk.
    pub rx_too_long: u64,
    /// On arrival: ring entries without a valid frame.
    pub rx_invalid: u64,
    /// On the way out: refused by the kernel or the device.
    pub tx_invalid: u64,
    /// On the way out: the device or its queue was full.
    pub tx_dropped: u64,
}

impl Lost {
    /// Each cause in words, with its count.
    pub fn causes(&self) -> [(&'static str, u64); 7] {
        [
            ("RX ring full", self.rx_ring_full),
            ("no free chunk", self.rx_no_chunk),
            ("dropped on arrival", self.rx_dropped),
            ("too long", self.rx_too_long),
            ("invalid on arrival", self.rx_invalid),
            ("refused when sent", self.tx_invalid),
            ("dropped when sent", self.tx_dropped),
        ]
    }

    /// Frames lost, summed over all causes.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, count)| count).sum()
    }

    /// Adds the counts of another side or ring, cause by cause.
    pub fn plus(self, other: Lost) -> Lost {
        self.with(other, u64::wrapping_add)
    }

    /// The losses since `earlier`; counters may wrap.
    pub fn since(self, earlier: Lost) -> Lost {
        self.with(earlier, u64::wrapping_sub)
    }

    fn with(self, other: Lost, both: impl Fn(u64, u64) -> u64) -> Lost {
        Lost {
            rx_ring_full: both(self.rx_ring_full, other.rx_ring_full),
            rx_no_chunk: both(self.rx_no_chunk, other.rx_no_chunk),
            rx_dropped: both(self.rx_dropped, other.rx_dropped),
            rx_too_long: both(self.rx_too_long, other.rx_too_long),
            rx_invalid: both(self.rx_invalid, other.rx_invalid),
            tx_invalid: both(self.tx_invalid, other.tx_invalid),
            tx_dropped: both(self.tx_dropped, other.tx_dropped),
        }
    }
}

/// Ethernet's preamble, start-of-frame delimiter, FCS and gap between frames: on the wire with every frame (IEEE 802.3).
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// Bit rate on the wire of `frames` frames with `bytes` bytes in total, none of which needs padding; 0 if `duration_ns` is 0.
pub fn wire_bits_per_s(frames: u64, bytes: u64, duration_ns: u64) -> f64 {
    per_s(8 * (bytes + frames * WIRE_OVERHEAD_BYTES), duration_ns)
}

/// `count` events in `duration_ns`, per second; 0 if `duration_ns` is 0.
pub fn per_s(count: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { count as f64 * 1e9 / duration_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gigabit_ethernet_carries_the_published_rates() {
        // 1 Gbit/s: 1,488,095 frames/s of 60 bytes without FCS, 81,274 of 1,514.
        assert_eq!(wire_bits_per_s(1_488_095, 1_488_095 * 60, 1_000_000_000), 999_999_840.0);
        assert_eq!(wire_bits_per_s(81_274, 81_274 * 1514, 1_000_000_000).round(), 999_995_296.0);
        assert_eq!((wire_bits_per_s(5, 300, 0), per_s(5, 0)), (0.0, 0.0));
    }

    #[test]
    fn losses_add_and_their_counters_may_wrap() {
        let near = Lost { rx_ring_full: u64::MAX - 1, ..Lost::default() };
        let after = Lost { rx_ring_full: 3, tx_dropped: 7, ..Lost::default() };
        let lost = after.since(near);
        assert_eq!((lost.rx_ring_full, lost.tx_dropped, lost.total()), (5, 7, 12));
        assert_eq!(lost.plus(lost).total(), 24);
    }
}
