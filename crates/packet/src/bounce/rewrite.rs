//! The changes to a frame before it goes back. Swapping two fields keeps every checksum over both valid.

use std::fmt;
use std::str::FromStr;

use hairpin_wire::ethernet::{self, Ethernet};
use hairpin_wire::ipv4::{self, Ipv4};
use hairpin_wire::ipv6::{self, Ipv6};
use hairpin_wire::udp::{self, Check, Udp};

/// Number of TCP in an IP header.
const TCP: u8 = 6;

/// The changes to a frame before it goes back. Parsed from `none`, `macs` or `all`.
///
/// Fields are only exchanged, so every checksum stays as right or wrong as it was.
///
/// ```
/// use hairpin_packet::bounce::Rewrite;
///
/// let mut frame = [0; 60];
/// frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]); // to ..:01, from ..:02
/// "macs".parse::<Rewrite>()?.apply(&mut frame);
/// assert_eq!(frame[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rewrite {
    /// Send the frame back unchanged.
    #[default]
    None,
    /// Source and destination MAC address are exchanged.
    Macs,
    /// MAC addresses, IP addresses and UDP or TCP ports are exchanged, as far as the frame has them.
    All,
}

/// The error of parsing a [`Rewrite`] from another word than `none`, `macs` or `all`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a rewrite; choose from none, macs, all")]
pub struct NotARewrite(String);

impl FromStr for Rewrite {
    type Err = NotARewrite;

    fn from_str(text: &str) -> Result<Rewrite, NotARewrite> {
        let all = [Rewrite::None, Rewrite::Macs, Rewrite::All];
        all.into_iter().find(|rewrite| rewrite.to_string() == text).ok_or_else(|| NotARewrite(text.into()))
    }
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Rewrite::None => "none",
            Rewrite::Macs => "macs",
            Rewrite::All => "all",
        })
    }
}

impl Rewrite {
    /// Rewrites the frame in place. It may hold any bytes: fields that it does not have are left alone.
    #[inline]
    pub fn apply(self, frame: &mut [u8]) {
        if self == Rewrite::None {
            return;
        }
        ethernet::swap_macs(frame);
        if self == Rewrite::All {
            swap_packet(frame);
        }
    }
}

/// Exchanges addresses and ports of an IP packet; a malformed packet is left as it is.
fn swap_packet(frame: &mut [u8]) {
    let Some(ethernet) = Ethernet::parse(frame) else { return };
    let at = ethernet.header_len();
    // The offset of the ports in the packet, if it has ports.
    let ports = match ethernet.ethertype() {
        ethernet::IPV4 => {
            let Some(ip) = Ipv4::parse(ethernet.payload()) else { return };
            // Only the first fragment has ports; the others would be damaged.
            let has = has_ports(ip.protocol(), ip.payload()) && !ip.is_fragment();
            let ports = has.then_some(ip.header_len());
            ipv4::swap_addresses(&mut frame[at..]);
            ports
        }
        ethernet::IPV6 => {
            let Some(ip) = Ipv6::parse(ethernet.payload()) else { return };
            let ports = has_ports(ip.next_header(), ip.payload()).then_some(ipv6::LEN);
            ipv6::swap_addresses(&mut frame[at..]);
            ports
        }
        _ => None,
    };
    if let Some(segment) = ports.and_then(|ports| frame.get_mut(at + ports..)) {
        udp::swap_ports(segment);
    }
}

/// True if both ports are within the packet. TCP has them where UDP has.
fn has_ports(protocol: u8, segment: &[u8]) -> bool {
    matches!(protocol, udp::PROTOCOL | TCP) && segment.len() >= 4
}

/// False if the frame is an IPv4 packet with a wrong header checksum, or a whole UDP datagram with a wrong checksum. A checksum
/// that was left to the device is not wrong: the frame never left this machine.
pub(super) fn checksums_are_right(frame: &[u8]) -> bool {
    let Some(ethernet) = Ethernet::parse(frame) else { return true };
    let (segment, addresses) = match ethernet.ethertype() {
        ethernet::IPV4 => match Ipv4::parse(ethernet.payload()) {
            Some(ip) if !ip.is_sound() => return false,
            Some(ip) if ip.protocol() == udp::PROTOCOL && !ip.is_fragment() => (ip.payload(), ip.address_sum()),
            _ => return true,
        },
        ethernet::IPV6 => match Ipv6::parse(ethernet.payload()) {
            Some(ip) if ip.next_header() == udp::PROTOCOL => (ip.payload(), ip.address_sum()),
            _ => return true,
        },
        _ => return true,
    };
    Udp::parse(segment).is_none_or(|udp| udp.check(addresses) != Check::Wrong)
}
