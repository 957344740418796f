//! The Ethernet header (IEEE 802.3), with at most one VLAN tag (IEEE 802.1Q).
//!
//! ```text
//!  byte  0             6        12     14
//!        |destination 6|source 6|type 2|payload …                       plain
//!        |destination 6|source 6| 8100 |tag 2|type 2|payload …          tagged
//! ```

/// Bytes of a plain header.
pub const LEN: usize = 14;
/// Bytes of a tagged header.
pub const TAGGED_LEN: usize = 18;

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Ethertype of a VLAN tag.
pub const VLAN: u16 = 0x8100;

/// A hardware address.
pub type Mac = [u8; 6];

/// A view of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a> {
    frame: &'a [u8],
    tag: Option<u16>,
    ethertype: u16,
}

impl<'a> Ethernet<'a> {
    /// `None` if the frame is shorter than its header.
    #[inline]
    pub fn parse(frame: &'a [u8]) -> Option<Ethernet<'a>> {
        let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        Some(match word(12)? {
            VLAN => Ethernet { frame, tag: Some(word(14)?), ethertype: word(16)? },
            ethertype => Ethernet { frame, tag: None, ethertype },
        })
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> Mac {
        std::array::from_fn(|i| self.frame[i])
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> Mac {
        std::array::from_fn(|i| self.frame[6 + i])
    }

    /// Priority, drop bit and VLAN number, if it is tagged.
    #[inline]
    pub fn tag(&self) -> Option<u16> {
        self.tag
    }

    /// The ethertype; of a tagged frame, the one after the tag.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// Bytes of the header.
    #[inline]
    pub fn header_len(&self) -> usize {
        if self.tag.is_some() { TAGGED_LEN } else { LEN }
    }

    /// The bytes after the header, padding included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.frame.get(self.header_len()..).unwrap_or_default()
    }
}

/// True for a group address (broadcast or multicast).
#[inline]
pub fn is_group(mac: Mac) -> bool {
    mac[0] & 1 == 1
}

/// A plain header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The destination address.
    pub destination: Mac,
    /// The source address.
    pub source: Mac,
    /// The ethertype.
    pub ethertype: u16,
}

impl Header {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..6].copy_from_slice(&self.destination);
        bytes[6..12].copy_from_slice(&self.source);
        bytes[12..].copy_from_slice(&self.ethertype.to_be_bytes());
        bytes
    }
}

/// Exchanges destination and source. Returns `false` if the frame is too short, and leaves it unchanged.
#[inline]
pub fn swap_macs(frame: &mut [u8]) -> bool {
    let Some(addresses) = frame.first_chunk_mut::<12>() else { return false };
    addresses.rotate_left(6);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header { destination: [1, 2, 3, 4, 5, 6], source: [7, 8, 9, 10, 11, 12], ethertype: IPV4 };

    #[test]
    fn plain_and_tagged() {
        let mut frame = HEADER.encode().to_vec();
        frame.extend([0xaa; 3]);
        let plain = Ethernet::parse(&frame).unwrap();
        assert_eq!((plain.destination(), plain.source()), (HEADER.destination, HEADER.source));
        assert_eq!((plain.ethertype(), plain.tag(), plain.payload()), (IPV4, None, &[0xaa; 3][..]));
        frame.splice(12..12, [0x81, 0x00, 0x60, 0x07]);
        let tagged = Ethernet::parse(&frame).unwrap();
        assert_eq!((tagged.ethertype(), tagged.tag(), tagged.payload()), (IPV4, Some(0x6007), &[0xaa; 3][..]));
        assert!(Ethernet::parse(&frame[..17]).is_none(), "cut within the tag");
        assert!(Ethernet::parse(&frame[..13]).is_none());
    }

    #[test]
    fn the_first_bit_marks_a_group_address() {
        assert!(is_group([0xff; 6]) && is_group([0x01, 0, 0x5e, 0, 0, 1]) && !is_group([0x02, 0, 0, 0, 0, 1]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let seen = Ethernet::parse(&bytes).map(|frame| (frame.destination(), frame.source()));
            if let Some(frame) = Ethernet::parse(&bytes) {
                prop_assert_eq!(frame.header_len() + frame.payload().len(), bytes.len());
            }
            let swapped = swap_macs(&mut bytes);
            prop_assert_eq!(swapped, bytes.len() >= 12);
            prop_assert_eq!(Ethernet::parse(&bytes).map(|frame| (frame.source(), frame.destination())), seen);
        }
    }
}
