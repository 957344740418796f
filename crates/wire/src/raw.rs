//! Hairpin's own framing below IP: the header after the Ethernet header with `l3=off` and in a reflector's frames.
//!
//! ```text
//!  byte  0    2       3    4      6        8        16
//!        |"HP"|version|hops|flow 2|length 2|cookie 8|payload, length bytes|padding …      all little endian
//! ```
//! The length is needed because Ethernet pads short frames. `hops` distinguishes a request (0) from its reply (1): a
//! server answers requests only, so that two servers facing each other do not send a frame back and forth forever. A
//! bouncer ignores this header and leaves it unchanged.

/// The ethertype: IEEE 802, Local Experimental Ethertype 1, which routers do not forward.
pub const ETHERTYPE: u16 = 0x88b5;
/// Bytes of the header.
pub const LEN: usize = 16;

const MAGIC: [u8; 2] = *b"HP";
const VERSION: u8 = 1;

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
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
        let length = u16::try_from(payload).ok()?.to_le_bytes();
        let mut bytes = [0; LEN];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.hops;
        bytes[4..6].copy_from_slice(&self.flow.to_le_bytes());
        bytes[6..8].copy_from_slice(&length);
        bytes[8..].copy_from_slice(&self.cookie.to_le_bytes());
        Some(bytes)
    }

    /// Reads the header and its payload from an Ethernet payload; `None` if it has another framing or is truncated.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<LEN>()?;
        let [m0, m1, version, hops, f0, f1, l0, l1, cookie @ ..] = *head;
        if [m0, m1] != MAGIC || version != VERSION {
            return None;
        }
        let payload = rest.get(..usize::from(u16::from_le_bytes([l0, l1])))?;
        Some((Header { hops, flow: u16::from_le_bytes([f0, f1]), cookie: u64::from_le_bytes(cookie) }, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_is_fixed() {
        let header = Header { hops: 1, flow: 0x0302, cookie: 0x1817_1615_1413_1211 };
        let bytes = [b'H', b'P', 1, 1, 2, 3, 0x22, 0x11, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        assert_eq!(header.encode(0x1122), Some(bytes));
        assert_eq!(header.encode(65_536), None);
    }

    proptest! {
        #[test]
        fn written_header_is_read_back(hops: u8, flow: u16, cookie: u64, payload in prop::collection::vec(any::<u8>(), 0..64), padding in 0usize..46) {
            let header = Header { hops, flow, cookie };
            let mut bytes = header.encode(payload.len()).unwrap().to_vec();
            bytes.extend(&payload);
            let whole = bytes.len();
            bytes.extend(vec![0xee; padding]);
            prop_assert_eq!(Header::decode(&bytes), Some((header, &payload[..])));
            prop_assert_eq!(Header::decode(&bytes[..whole - 1]), None, "cut short");
        }

        #[test]
        fn any_bytes_are_a_header_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..64), ours: bool) {
            if ours && bytes.len() >= LEN {
                bytes[..3].copy_from_slice(&[b'H', b'P', 1]);
            }
            if let Some((_, payload)) = Header::decode(&bytes) {
                prop_assert!(LEN + payload.len() <= bytes.len());
            }
        }
    }
}
