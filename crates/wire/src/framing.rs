//! The bytes that Ethernet, IP, UDP and TCP add to a payload (IEEE 802.3, RFC 791, 8200, 768, 9293).
//!
//! ```text
//!  |preamble+SFD 8|dst 6 src 6 type 2|  packet ≥ 46  |FCS 4|gap 12|
//!                 |<------------ frame ------------------->|
//!  |<-------------------- on the wire ---------------------------->|
//! ```

/// Destination, source and ethertype.
pub const ETHERNET_HEADER: u64 = 14;
/// Frame check sequence after every frame.
pub const FCS: u64 = 4;
/// Preamble and start-of-frame delimiter before every frame.
pub const PREAMBLE_AND_SFD: u64 = 8;
/// Gap between two frames.
pub const INTERFRAME_GAP: u64 = 12;
/// Bytes that one IEEE 802.1Q tag adds to a frame.
pub const VLAN_TAG: u64 = 4;
/// Shorter frames (without FCS) are padded to this.
pub const MIN_FRAME_WITHOUT_FCS: u64 = 60;

/// Header of IPv4 without options.
pub const IPV4_HEADER: u64 = 20;
/// Header of IPv6 without extensions.
pub const IPV6_HEADER: u64 = 40;
/// Header of TCP without options.
pub const TCP_HEADER: u64 = 20;
/// Header of UDP.
pub const UDP_HEADER: u64 = 8;

/// The largest payload of one UDP datagram over IPv4: 65,535 bytes minus both headers.
pub const UDP_MAX_PAYLOAD_V4: u64 = 65_535 - IPV4_HEADER - UDP_HEADER;
/// The largest payload of one UDP datagram over IPv6 without jumbograms; the length field does not count the IPv6
/// header.
pub const UDP_MAX_PAYLOAD_V6: u64 = 65_535 - UDP_HEADER;

/// Bytes on the wire of one frame of `len` bytes without FCS, including padding, FCS, preamble and gap.
pub const fn wire_bytes(len: u64) -> u64 {
    let padded = if len < MIN_FRAME_WITHOUT_FCS { MIN_FRAME_WITHOUT_FCS } else { len };
    padded + FCS + PREAMBLE_AND_SFD + INTERFRAME_GAP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_frames() {
        assert_eq!(wire_bytes(1), 84);
        assert_eq!(wire_bytes(60), 84);
        assert_eq!(wire_bytes(1514), 1538);
    }
}
