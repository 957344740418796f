//! The IPv6 header (RFC 8200), without extension headers.
//!
//! ```text
//!  byte  0                          4        6           7         8         24             40
//!        |6 · class · flow label    |length 2|next header|hop limit|source 16|destination 16|payload …
//! ```

use std::net::Ipv6Addr;

use crate::checksum::Sum;

/// Bytes of the header.
pub const LEN: usize = 40;

/// A view of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    header: &'a [u8; LEN],
    payload: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// `None` if it is not IPv6, or its length does not fit in `packet`. Bytes beyond its own length are padding and
    /// ignored.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Option<Ipv6<'a>> {
        let (header, rest) = packet.split_first_chunk::<LEN>()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        Some(Ipv6 { header, payload: rest.get(..len)? })
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| self.header[8 + i]))
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| self.header[24 + i]))
    }

    /// The protocol of the payload (IANA, protocol numbers), which may be an extension header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.header[6]
    }

    /// The sum of both addresses, for the pseudo-header of the layer above.
    #[inline]
    pub fn address_sum(&self) -> Sum {
        Sum::of(&self.header[8..])
    }

    /// The bytes after the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source address.
    pub source: Ipv6Addr,
    /// The destination address.
    pub destination: Ipv6Addr,
    /// The protocol of the payload (IANA, protocol numbers).
    pub next_header: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The hop limit: the number of routers it may pass.
    pub hop_limit: u8,
}

impl Header {
    /// The header's bytes for a payload of this length; `None` if the payload is too long for a packet.
    pub fn encode(&self, payload: usize) -> Option<[u8; LEN]> {
        let len = u16::try_from(payload).ok()?;
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&(6 << 28 | u32::from(self.traffic_class) << 20).to_be_bytes());
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        bytes[6] = self.next_header;
        bytes[7] = self.hop_limit;
        bytes[8..24].copy_from_slice(&self.source.octets());
        bytes[24..].copy_from_slice(&self.destination.octets());
        Some(bytes)
    }
}

/// Exchanges source and destination, which keeps every checksum valid. Returns `false` if the packet is too short, and
/// leaves it unchanged.
#[inline]
pub fn swap_addresses(packet: &mut [u8]) -> bool {
    let Some(addresses) = packet.get_mut(8..LEN) else { return false };
    addresses.rotate_left(16);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_header_is_read_back(source: [u8; 16], destination: [u8; 16], next_header: u8, traffic_class: u8, hop_limit: u8,
                                   payload in prop::collection::vec(any::<u8>(), 0..64), padding in 0usize..20) {
            let header = Header { source: source.into(), destination: destination.into(), next_header, traffic_class, hop_limit };
            let mut packet = header.encode(payload.len()).unwrap().to_vec();
            prop_assert_eq!((packet[0] & 0x0f) << 4 | packet[1] >> 4, traffic_class);
            packet.extend(&payload);
            packet.extend(vec![0xee; padding]);
            let seen = Ipv6::parse(&packet).unwrap();
            prop_assert_eq!((seen.source(), seen.destination(), seen.next_header()), (header.source, header.destination, next_header));
            prop_assert_eq!(seen.payload(), &payload[..]);
            prop_assert!(swap_addresses(&mut packet));
            let back = Ipv6::parse(&packet).unwrap();
            prop_assert_eq!((back.source(), back.destination()), (header.destination, header.source));
        }

        #[test]
        fn any_bytes_are_a_packet_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..80), version in prop::bool::ANY) {
            if let (true, Some(first)) = (version, bytes.first_mut()) {
                *first = 0x60 | *first & 0x0f;
            }
            if let Some(packet) = Ipv6::parse(&bytes) {
                prop_assert!(LEN + packet.payload().len() <= bytes.len());
            }
            swap_addresses(&mut bytes);
        }
    }

    #[test]
    fn rejects_payloads_too_long_for_a_packet() {
        let any = Ipv6Addr::UNSPECIFIED;
        let header = Header { source: any, destination: any, next_header: 17, traffic_class: 0, hop_limit: 64 };
        assert!(header.encode(65_535).is_some() && header.encode(65_536).is_none());
    }
}
