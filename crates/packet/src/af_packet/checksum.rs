//! Finishing a transport checksum that its sender left to a device.
//!
//! A kernel socket that sends over veth or loopback leaves only the pseudo-header's sum in the checksum field, because no wire is passed.
//! Whoever sends that frame on to a wire, or checks it, needs the whole sum: it is filled in as the device would have done.
//!
//! Sources: RFC 1071, RFC 768, RFC 8200 section 8.1; `Documentation/networking/checksum-offloads.rst`.

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Completes the checksum of TCP or UDP over IPv4 or IPv6 (without extension headers), behind at most two VLAN tags; leaves every other
/// frame as it is.
pub(super) fn finish(frame: &mut [u8]) {
    let Some((start, field)) = places(frame) else { return };
    let Some(bytes) = frame.get_mut(start..) else { return };
    // The field holds the pseudo-header's sum, so it is summed with the rest.
    let sum = !fold(sum(bytes));
    // A UDP checksum of zero says that there is none (RFC 768); the other zero of one's complement stands for it.
    let sum = if sum == 0 && field == 6 { 0xffff } else { sum };
    if let Some(place) = bytes.get_mut(field..field + 2) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Where the transport header begins, and where in it the checksum is.
fn places(frame: &[u8]) -> Option<(usize, usize)> {
    let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = 12;
    for _ in 0..2 {
        if TAGS.contains(&half(at)?) {
            at += 4;
        }
    }
    let network = at + 2;
    let (protocol, start) = match half(at)? {
        IPV4 => (*frame.get(network + 9)?, network + usize::from(*frame.get(network)? & 0xf) * 4),
        IPV6 => (*frame.get(network + 6)?, network + 40),
        _ => return None,
    };
    match protocol {
        UDP => Some((start, 6)),
        TCP => Some((start, 16)),
        _ => None,
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let mut pairs = bytes.chunks_exact(2);
    let whole: u64 = pairs.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    whole + pairs.remainder().first().map_or(0, |last| u64::from(*last) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
