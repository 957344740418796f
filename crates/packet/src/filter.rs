//! The frames that a ring receives; all others stay with the kernel.

use std::fmt;
use std::str::FromStr;

use hairpin_wire::ethernet;
use hairpin_wire::ipv4::Ipv4;
use hairpin_wire::ipv6::Ipv6;
use hairpin_wire::udp::{self, Udp};

/// Ethertype of an outer tag (IEEE 802.1ad).
const SERVICE_VLAN: u16 = 0x88a8;

/// The frames that a ring receives. Parsed from `all`, `udp:PORT`, `udp:FIRST-LAST` or `ethertype:0xNNNN`.
///
/// AF_XDP and AF_PACKET filter in the kernel; [`takes`](Filter::takes) is the same test in the program. Port 0, a range that
/// ends before it begins, and an ethertype below 0x600 are a [`NotAFilter`].
///
/// ```
/// use hairpin_packet::filter::Filter;
///
/// assert_eq!("udp:7-9".parse::<Filter>()?, Filter::Udp { first: 7, last: 9 });
/// assert!("udp:9-7".parse::<Filter>().is_err());
///
/// let mut frame = [0; 60];
/// frame[12..14].copy_from_slice(&[0x88, 0xb5]);
/// assert!(Filter::Ethertype(0x88b5).takes(&frame) && !Filter::Ethertype(0x0800).takes(&frame));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    /// Every frame.
    #[default]
    All,
    /// Frames of this ethertype, with or without one VLAN tag.
    Ethertype(u16),
    /// UDP over IPv4 or IPv6 (without extension headers) to a destination port in this range, inclusive; no fragments,
    /// no VLAN tag. AF_XDP does not see a tag that the device took out of the frame.
    Udp {
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
    },
}

/// The error of parsing a [`Filter`]; its message quotes the text and names the valid forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a filter; choose from udp:PORT, udp:FIRST-LAST, ethertype:0xNNNN, all")]
pub struct NotAFilter(String);

impl FromStr for Filter {
    type Err = NotAFilter;

    fn from_str(text: &str) -> Result<Filter, NotAFilter> {
        let bad = || NotAFilter(text.into());
        match text.split_once(':') {
            None if text == "all" => Ok(Filter::All),
            Some(("udp", ports)) => {
                let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                let (first, last) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
                if first == 0 || first > last { Err(bad()) } else { Ok(Filter::Udp { first, last }) }
            }
            Some(("ethertype", number)) => {
                let hex = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"));
                let number = hex.map_or_else(|| number.parse(), |hex| u16::from_str_radix(hex, 16)).map_err(|_| bad())?;
                // Below 0x600 the field is a length (IEEE 802.3, 3.2.6).
                if number < 0x600 { Err(bad()) } else { Ok(Filter::Ethertype(number)) }
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::All => f.write_str("all"),
            Filter::Ethertype(number) => write!(f, "ethertype:{number:#06x}"),
            Filter::Udp { first, last } if first == last => write!(f, "udp:{first}"),
            Filter::Udp { first, last } => write!(f, "udp:{first}-{last}"),
        }
    }
}

impl Filter {
    /// True if the filter matches `frame`, which may hold any bytes.
    #[inline]
    pub fn takes(&self, frame: &[u8]) -> bool {
        match *self {
            Filter::All => true,
            Filter::Ethertype(wanted) => ethertype(frame) == Some(wanted) || tagged(frame) == Some(wanted),
            Filter::Udp { first, last } => udp_port(frame).is_some_and(|port| (first..=last).contains(&port)),
        }
    }
}

/// The two bytes after the MAC addresses.
fn ethertype(frame: &[u8]) -> Option<u16> {
    word(frame, 12)
}

/// The ethertype behind one VLAN tag (IEEE 802.1Q or 802.1ad).
fn tagged(frame: &[u8]) -> Option<u16> {
    matches!(ethertype(frame)?, ethernet::VLAN | SERVICE_VLAN).then(|| word(frame, 16))?
}

/// Two bytes in network order.
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The destination port, if the frame is an untagged, whole UDP datagram without IPv6 extension headers.
fn udp_port(frame: &[u8]) -> Option<u16> {
    let packet = frame.get(ethernet::LEN..)?;
    let segment = match ethertype(frame)? {
        ethernet::IPV4 => {
            let ip = Ipv4::parse(packet)?;
            (ip.protocol() == udp::PROTOCOL && !ip.is_fragment()).then(|| ip.payload())?
        }
        ethernet::IPV6 => {
            let ip = Ipv6::parse(packet)?;
            (ip.next_header() == udp::PROTOCOL).then(|| ip.payload())?
        }
        _ => return None,
    };
    Some(Udp::parse(segment)?.destination())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of UDP from port 1 to port 7 over IPv4, with `fragment` as flags and offset, behind `tags` VLAN tags.
    fn udp4(fragment: u16, tags: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0, 0, 5]);
        }
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 7, 0, 8, 0, 0]);
        frame
    }

    #[test]
    fn matches_untagged_whole_udp_datagrams_by_port() {
        let filter = Filter::Udp { first: 7, last: 8 };
        assert!(filter.takes(&udp4(0, 0)) && filter.takes(&udp4(0x4000, 0)));
        assert!(!filter.takes(&udp4(0, 1)) && !filter.takes(&udp4(0x2000, 0)) && !filter.takes(&udp4(9, 0)));
        assert!(!Filter::Udp { first: 8, last: 9 }.takes(&udp4(0, 0)));
        for len in 0..udp4(0, 0).len() {
            assert!(!filter.takes(&udp4(0, 0)[..len]), "{len}");
        }
        let mut other = udp4(0, 0);
        other[23] = 6;
        assert!(!filter.takes(&other));
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
        frame.extend([1; 32]);
        frame.extend([0, 1, 0, 7, 0, 8, 0, 0]);
        assert!(filter.takes(&frame));
        frame[20] = 44;
        assert!(!filter.takes(&frame), "an extension header");
    }

    #[test]
    fn matches_ethertypes_with_and_without_a_tag() {
        let filter = Filter::Ethertype(0x0800);
        assert!(filter.takes(&udp4(0, 0)) && filter.takes(&udp4(0, 1)) && !filter.takes(&udp4(0, 2)));
        assert!(Filter::Ethertype(0x8100).takes(&udp4(0, 1)));
        assert!(!filter.takes(&[0; 13]) && Filter::All.takes(&[]));
    }

    #[test]
    fn filters_parse_and_print() {
        for text in ["all", "udp:7", "udp:7000-7003", "ethertype:0x88b5"] {
            assert_eq!(text.parse::<Filter>().unwrap().to_string(), text);
        }
        assert_eq!("ethertype:2048".parse(), Ok(Filter::Ethertype(0x800)));
        for text in ["", "udp", "udp:0", "udp:9-7", "udp:70000", "ethertype:0x5ff", "tcp:80", "all:1"] {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        }
    }
}
