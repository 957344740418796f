//! The IPv4 header (RFC 791).
//!
//! ```text
//!  byte  0       1      2        4    6          8   9       10         12       16            20
//!        |4 · IHL|DSCP 1|length 2|id 2|fragment 2|TTL|protocol|checksum 2|source 4|destination 4|options … payload …
//! ```

use std::net::Ipv4Addr;

use crate::checksum::Sum;

/// Bytes of a header without options.
pub const LEN: usize = 20;
/// Don't fragment, in the fragment field.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// More fragments, and the offset: zero in a whole datagram.
const FRAGMENTED: u16 = 0x3fff;

/// A view of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    header: &'a [u8; LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// `None` if it is not IPv4, or its lengths do not fit in `packet`. Bytes beyond its own length are padding and
    /// ignored.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Option<Ipv4<'a>> {
        let header = packet.first_chunk::<LEN>()?;
        let (version, header_len) = (header[0] >> 4, usize::from(header[0] & 0x0f) * 4);
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if version != 4 {
            return None;
        }
        Some(Ipv4 { header, options: packet.get(LEN..header_len)?, payload: packet.get(header_len..total)? })
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(std::array::from_fn(|i| self.header[12 + i]))
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(std::array::from_fn(|i| self.header[16 + i]))
    }

    /// The protocol of the payload (IANA, protocol numbers).
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// True for a fragment of a datagram.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        u16::from_be_bytes([self.header[6], self.header[7]]) & FRAGMENTED != 0
    }

    /// True if the header's checksum is correct.
    #[inline]
    pub fn is_sound(&self) -> bool {
        let options = if self.options.is_empty() { Sum::default() } else { Sum::of(self.options) };
        (Sum::of(self.header) + options).is_right()
    }

    /// The sum of both addresses, for the pseudo-header of the layer above.
    #[inline]
    pub fn address_sum(&self) -> Sum {
        Sum::of(&self.header[12..])
    }

    /// Bytes of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        LEN + self.options.len()
    }

    /// The bytes after the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header without options to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source address.
    pub source: Ipv4Addr,
    /// The destination address.
    pub destination: Ipv4Addr,
    /// The protocol of the payload (IANA, protocol numbers).
    pub protocol: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The time to live: the number of routers it may pass.
    pub ttl: u8,
}

impl Header {
    /// The header's bytes for a payload of this length, with fragmentation forbidden; `None` if the payload is too long
    /// for a packet.
    pub fn encode(&self, payload: usize) -> Option<[u8; LEN]> {
        let total = u16::try_from(payload.checked_add(LEN)?).ok()?;
        let mut bytes = [0; LEN];
        bytes[0] = 0x45;
        bytes[1] = self.traffic_class;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        bytes[8] = self.ttl;
        bytes[9] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..20].copy_from_slice(&self.destination.octets());
        let checksum = Sum::of(&bytes).checksum();
        bytes[10..12].copy_from_slice(&checksum);
        Some(bytes)
    }
}

/// Exchanges source and destination, which keeps every checksum valid. Returns `false` if the packet is too short, and
/// leaves it unchanged.
#[inline]
pub fn swap_addresses(packet: &mut [u8]) -> bool {
    let Some(addresses) = packet.get_mut(12..20) else { return false };
    addresses.rotate_left(4);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_published_header() {
        // A well-known example of the header's checksum: 192.168.0.1 to 192.168.0.199, 115 bytes, UDP.
        let bytes = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00,
            0xc7,
        ];
        let header = Header {
            source: [192, 168, 0, 1].into(),
            destination: [192, 168, 0, 199].into(),
            protocol: 17,
            traffic_class: 0,
            ttl: 64,
        };
        assert_eq!(header.encode(0x73 - 20), Some(bytes));
        assert_eq!(header.encode(65_516), None);
    }

    proptest! {
        #[test]
        fn written_header_is_read_back(source: [u8; 4], destination: [u8; 4], protocol: u8, traffic_class: u8, ttl: u8,
                                   payload in prop::collection::vec(any::<u8>(), 0..64), padding in 0usize..20) {
            let header = Header { source: source.into(), destination: destination.into(), protocol, traffic_class, ttl };
            let mut packet = header.encode(payload.len()).unwrap().to_vec();
            packet.extend(&payload);
            packet.extend(vec![0xee; padding]);
            let seen = Ipv4::parse(&packet).unwrap();
            prop_assert!(seen.is_sound() && !seen.is_fragment());
            prop_assert_eq!((seen.source(), seen.destination(), seen.protocol()), (header.source, header.destination, protocol));
            prop_assert_eq!(seen.payload(), &payload[..]);
            prop_assert!(swap_addresses(&mut packet));
            let back = Ipv4::parse(&packet).unwrap();
            prop_assert!(back.is_sound());
            prop_assert_eq!((back.source(), back.destination()), (header.destination, header.source));
        }

        #[test]
        fn any_bytes_are_a_packet_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..80), version in prop::bool::ANY) {
            if let (true, Some(first)) = (version, bytes.first_mut()) {
                *first = 0x40 | *first & 0x0f;
            }
            if let Some(packet) = Ipv4::parse(&bytes) {
                prop_assert!(packet.header_len() + packet.payload().len() <= bytes.len());
                let _ = (packet.is_sound(), packet.is_fragment(), packet.address_sum());
            }
            swap_addresses(&mut bytes);
        }
    }
}
