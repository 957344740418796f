//! The UDP header (RFC 768), and its checksum over the pseudo-header of IPv4 or IPv6 (RFC 8200, section 8.1).
//!
//! ```text
//!  byte  0       2            4        6          8
//!        |source 2|destination 2|length 2|checksum 2|payload …          checksum: addresses + 17 + length + all this
//! ```
//! A sender on a virtual link may leave the checksum to the device. The field then holds only the sum of the
//! pseudo-header, and the bytes never left this machine's memory (kernel: CHECKSUM_PARTIAL,
//! Documentation/networking/checksum-offloads.rst).

use crate::checksum::Sum;

/// Bytes of the header.
pub const LEN: usize = 8;
/// UDP's number in an IP header.
pub const PROTOCOL: u8 = 17;

/// A view of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a> {
    datagram: &'a [u8],
    header: &'a [u8; LEN],
}

/// The state of a datagram's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Correct.
    Right,
    /// Left to a virtual device: the sum of the pseudo-header only.
    Left,
    /// Absent, which only IPv4 allows.
    None,
    /// Wrong.
    Wrong,
}

impl<'a> Udp<'a> {
    /// `None` if its length does not fit in `segment`. Bytes beyond its own length are ignored.
    #[inline]
    pub fn parse(segment: &'a [u8]) -> Option<Udp<'a>> {
        let header = segment.first_chunk::<LEN>()?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let datagram = segment.get(..len).filter(|datagram| datagram.len() >= LEN)?;
        Some(Udp { datagram, header })
    }

    /// The sender's port.
    #[inline]
    pub fn source(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// The receiver's port.
    #[inline]
    pub fn destination(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// The bytes after the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.datagram[LEN..]
    }

    /// Verifies the checksum; `addresses` is the sum of both IP addresses.
    #[inline]
    pub fn check(&self, addresses: Sum) -> Check {
        let pseudo = pseudo_header(addresses, self.datagram.len());
        match [self.header[6], self.header[7]] {
            [0, 0] => Check::None,
            _ if (pseudo + Sum::of(self.datagram)).is_right() => Check::Right,
            left if left == pseudo.fold() => Check::Left,
            _ => Check::Wrong,
        }
    }
}

/// The sum of the pseudo-header for a datagram of this length, header included.
#[inline(always)]
pub fn pseudo_header(addresses: Sum, len: usize) -> Sum {
    addresses + Sum::word(PROTOCOL as u16) + Sum::word(len as u16)
}

/// The checksum's bytes for a sum over pseudo-header, header (with zero for its checksum) and payload. A zero would
/// mean no checksum, so it is written as 0xffff, which is also zero in one's complement.
#[inline(always)]
pub fn checksum(sum: Sum) -> [u8; 2] {
    match sum.checksum() {
        [0, 0] => [0xff, 0xff],
        checksum => checksum,
    }
}

/// A header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
}

impl Header {
    /// The header's bytes for this payload between these addresses; `None` if the payload is too long for a datagram.
    pub fn encode(&self, addresses: Sum, payload: &[u8]) -> Option<[u8; LEN]> {
        let len = u16::try_from(payload.len().checked_add(LEN)?).ok()?;
        let mut bytes = [0; LEN];
        bytes[..2].copy_from_slice(&self.source.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.destination.to_be_bytes());
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        let sum = pseudo_header(addresses, usize::from(len)) + Sum::of(&bytes) + Sum::of(payload);
        bytes[6..].copy_from_slice(&checksum(sum));
        Some(bytes)
    }
}

/// Exchanges the ports, which keeps the checksum valid. Returns `false` if the segment is too short, and leaves it
/// unchanged.
#[inline]
pub fn swap_ports(segment: &mut [u8]) -> bool {
    let Some(ports) = segment.first_chunk_mut::<4>() else { return false };
    ports.rotate_left(2);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram(header: Header, addresses: Sum, payload: &[u8]) -> Vec<u8> {
        [&header.encode(addresses, payload).unwrap()[..], payload].concat()
    }

    #[test]
    fn writes_a_zero_checksum_as_0xffff() {
        let header = Header { source: 0, destination: 0 };
        // Pseudo-header 17 + 10, length 10, and a payload that makes the whole sum 0xffff.
        let payload = (0xffff - 17 - 10 - 10u16).to_be_bytes();
        let bytes = datagram(header, Sum::default(), &payload);
        assert_eq!(bytes[6..8], [0xff, 0xff]);
        assert_eq!(Udp::parse(&bytes).unwrap().check(Sum::default()), Check::Right);
    }

    #[test]
    fn rejects_payloads_too_long_for_a_datagram() {
        let header = Header { source: 1, destination: 2 };
        assert!(header.encode(Sum::default(), &vec![0; 65_527]).is_some());
        assert!(header.encode(Sum::default(), &vec![0; 65_528]).is_none());
    }

    proptest! {
        #[test]
        fn written_header_is_read_back(source: u16, destination: u16, addresses: [u8; 32],
                                   payload in prop::collection::vec(any::<u8>(), 0..100), padding in 0usize..20) {
            let addresses = Sum::of(&addresses);
            let mut bytes = datagram(Header { source, destination }, addresses, &payload);
            bytes.extend(vec![0xee; padding]);
            let seen = Udp::parse(&bytes).unwrap();
            prop_assert_eq!((seen.source(), seen.destination(), seen.payload()), (source, destination, &payload[..]));
            prop_assert_eq!(seen.check(addresses), Check::Right);
            prop_assert!(swap_ports(&mut bytes));
            let back = Udp::parse(&bytes).unwrap();
            prop_assert_eq!((back.source(), back.destination(), back.check(addresses)), (destination, source, Check::Right));
        }

        #[test]
        fn a_checksum_left_to_the_device_or_left_out_is_seen(addresses: [u8; 8], payload in prop::collection::vec(any::<u8>(), 1..100)) {
            let addresses = Sum::of(&addresses);
            let mut bytes = datagram(Header { source: 7, destination: 9 }, addresses, &payload);
            let full = [bytes[6], bytes[7]];
            let left = pseudo_header(addresses, bytes.len()).fold();
            bytes[6..8].copy_from_slice(&left);
            prop_assume!(left != full && left != [0, 0]);
            prop_assert_eq!(Udp::parse(&bytes).unwrap().check(addresses), Check::Left);
            bytes[6..8].fill(0);
            prop_assert_eq!(Udp::parse(&bytes).unwrap().check(addresses), Check::None);
            bytes[6..8].copy_from_slice(&full);
            bytes[8] ^= 1;
            prop_assert_ne!(Udp::parse(&bytes).unwrap().check(addresses), Check::Right);
        }

        #[test]
        fn any_bytes_are_a_datagram_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..64), short: bool) {
            if let (true, Some(high)) = (short, bytes.get_mut(4)) {
                *high = 0;
            }
            if let Some(datagram) = Udp::parse(&bytes) {
                prop_assert!(LEN + datagram.payload().len() <= bytes.len());
                let _ = datagram.check(Sum::default());
            }
            swap_ports(&mut bytes);
        }
    }
}
