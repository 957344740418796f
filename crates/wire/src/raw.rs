//! Hairpin's own framing below IP: the header after the Ethernet header with `l3=off` and in a reflector's frames.
//!
//! ```text
//!  byte  0    2       3    4      6        8        16
//!        |"HP"|version|hops|flow 2|length 2|cookie 8|payload, length bytes|padding …      all little endian
//! ```
//! In the shape of a PTP event (IEEE 1588-2019, 13.3), for NICs that stamp nothing else:
//!
//! ```text
//!  byte  0             1         2             4          5    6      8
//!        |Sync: 0      |version 2|length 2, all|domain 254|hops|flow 2|cookie 8|payload …      length big endian, of the message; the rest little endian
//! ```
//! A PTP daemon ignores messages of another domain than its own; 254 is reserved.
//!
//! The length is needed because Ethernet pads short frames. `hops` distinguishes a request (0) from its reply (1): a
//! server answers requests only, so that two servers facing each other do not send a frame back and forth forever. A
//! bouncer ignores this header and leaves it unchanged.

/// The ethertype: IEEE 802, Local Experimental Ethertype 1, which routers do not forward.
pub const ETHERTYPE: u16 = 0x88b5;
/// The ethertype of PTP.
pub const PTP_ETHERTYPE: u16 = 0x88f7;
/// Shortest payload in the shape of PTP: with the header it is as long as a Sync message.
pub const PTP_PAYLOAD: usize = 44 - LEN;
/// Bytes of the header.
pub const LEN: usize = 16;

const MAGIC: [u8; 2] = *b"HP";
const VERSION: u8 = 1;
/// Message type Sync, version 2.
const PTP_EVENT: [u8; 2] = [0, 2];
const PTP_DOMAIN: u8 = 254;

/// Layout of the frames, by which a NIC recognises them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// Hairpin's own.
    #[default]
    Own,
    /// PTP events.
    Ptp,
}

impl Shape {
    /// The ethertype of these frames.
    #[must_use]
    pub const fn ethertype(self) -> u16 {
        match self {
            Shape::Own => ETHERTYPE,
            Shape::Ptp => PTP_ETHERTYPE,
        }
    }
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its layout.
    pub shape: Shape,
    /// 0 in a request, 1 in its reply.
    pub hops: u8,
    /// The flow within the session.
    pub flow: u16,
    /// The session's cookie.
    pub cookie: u64,
}

impl Header {
    /// The header's bytes for a payload of this length; `None` if it does not fit in the length field.
    #[inline]
    pub fn encode(&self, payload: usize) -> Option<[u8; LEN]> {
        let mut bytes = [0; LEN];
        match self.shape {
            Shape::Own => {
                bytes[..2].copy_from_slice(&MAGIC);
                bytes[2..4].copy_from_slice(&[VERSION, self.hops]);
                bytes[4..6].copy_from_slice(&self.flow.to_le_bytes());
                bytes[6..8].copy_from_slice(&u16::try_from(payload).ok()?.to_le_bytes());
            }
            Shape::Ptp => {
                bytes[..2].copy_from_slice(&PTP_EVENT);
                bytes[2..4].copy_from_slice(&u16::try_from(LEN + payload).ok()?.to_be_bytes());
                bytes[4..6].copy_from_slice(&[PTP_DOMAIN, self.hops]);
                bytes[6..8].copy_from_slice(&self.flow.to_le_bytes());
            }
        }
        bytes[8..].copy_from_slice(&self.cookie.to_le_bytes());
        Some(bytes)
    }

    /// Reads the header and its payload from an Ethernet payload; `None` if it has another framing or is truncated.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<LEN>()?;
        let [m0, m1, b2, b3, b4, b5, b6, b7, cookie @ ..] = *head;
        let (shape, hops, flow, length) = if [m0, m1] == MAGIC && b2 == VERSION {
            (Shape::Own, b3, [b4, b5], u16::from_le_bytes([b6, b7]).into())
        } else if [m0, m1] == PTP_EVENT && b4 == PTP_DOMAIN {
            (Shape::Ptp, b5, [b6, b7], usize::from(u16::from_be_bytes([b2, b3])).checked_sub(LEN)?)
        } else {
            return None;
        };
        let header = Header { shape, hops, flow: u16::from_le_bytes(flow), cookie: u64::from_le_bytes(cookie) };
        Some((header, rest.get(..length)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_is_fixed() {
        let header = Header { shape: Shape::Own, hops: 1, flow: 0x0302, cookie: 0x1817_1615_1413_1211 };
        let bytes = [b'H', b'P', 1, 1, 2, 3, 0x22, 0x11, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        assert_eq!(header.encode(0x1122), Some(bytes));
        assert_eq!(header.encode(65_536), None);
        let header = Header { shape: Shape::Ptp, ..header };
        let bytes = [0, 2, 0, 44, 254, 1, 2, 3, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        assert_eq!(header.encode(PTP_PAYLOAD), Some(bytes));
        assert_eq!((header.encode(65_519).is_some(), header.encode(65_520)), (true, None));
    }

    #[test]
    fn a_ptp_message_that_is_not_ours_is_none() {
        let header = Header { shape: Shape::Ptp, hops: 0, flow: 0, cookie: 1 };
        let bytes = [&header.encode(28).unwrap()[..], &[0; 28]].concat();
        assert_eq!(Header::decode(&bytes).map(|(header, payload)| (header, payload.len())), Some((header, 28)));
        // Another type, another version, another domain, shorter than the header.
        for (at, byte) in [(0, 1), (1, 1), (4, 0), (3, 15)] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            assert_eq!(Header::decode(&bytes), None, "{at}");
        }
    }

    proptest! {
        #[test]
        fn written_header_is_read_back(ptp: bool, hops: u8, flow: u16, cookie: u64, payload in prop::collection::vec(any::<u8>(), 0..64), padding in 0usize..46) {
            let header = Header { shape: if ptp { Shape::Ptp } else { Shape::Own }, hops, flow, cookie };
            let mut bytes = header.encode(payload.len()).unwrap().to_vec();
            bytes.extend(&payload);
            let whole = bytes.len();
            bytes.extend(vec![0xee; padding]);
            prop_assert_eq!(Header::decode(&bytes), Some((header, &payload[..])));
            prop_assert_eq!(Header::decode(&bytes[..whole - 1]), None, "cut short");
        }

        #[test]
        fn any_bytes_are_a_header_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..64), ours: bool, ptp: bool) {
            if ours && bytes.len() >= LEN {
                bytes[..3].copy_from_slice(&[b'H', b'P', 1]);
            } else if ptp && bytes.len() >= LEN {
                (bytes[0], bytes[1], bytes[4]) = (0, 2, 254);
            }
            if let Some((_, payload)) = Header::decode(&bytes) {
                prop_assert!(LEN + payload.len() <= bytes.len());
            }
        }
    }
}
