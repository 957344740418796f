//! Finishing a transport checksum that its sender left to a device.
//!
//! A kernel socket that sends over veth or loopback leaves only the pseudo-header's sum in the checksum field, because the frame
//! passes no wire. Forwarding that frame on a wire, or checking it, takes the whole sum, so it is filled in here as a device
//! would.
//!
//! Sources: RFC 1071, RFC 768, RFC 8200 section 8.1; `Documentation/networking/checksum-offloads.rst`.

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Completes the checksum of TCP or UDP over IPv4 or IPv6 (without extension headers), behind at most two VLAN tags; leaves every
/// other frame as it is.
pub(super) fn finish(frame: &mut [u8]) {
    let Some((start, field)) = places(frame) else { return };
    let Some(bytes) = frame.get_mut(start..) else { return };
    // None was asked for here (RFC 768): the one that is left to a device is that of a packet inside, such as a tunnel's.
    if field == 6 && bytes.get(6..8) == Some(&[0, 0]) {
        return;
    }
    // The field holds the pseudo-header's sum, so it is summed with the rest.
    let sum = !fold(sum(bytes));
    // A UDP checksum of zero means "not computed" (RFC 768); a computed zero is sent as the other zero of
    // one's complement.
    let sum = if sum == 0 && field == 6 { 0xffff } else { sum };
    if let Some(place) = bytes.get_mut(field..field + 2) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Offsets of the transport header, and of the checksum within it.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An IPv6 or IPv4 frame whose checksum field holds the pseudo-header's sum, as the kernel leaves it.
    fn partial(tags: usize, version: u16, protocol: u8, payload: &[u8]) -> (Vec<u8>, usize) {
        let field = if protocol == UDP { 6 } else { 16 };
        let mut transport = vec![0x11; if protocol == UDP { 8 } else { 20 }];
        transport[field..field + 2].fill(0);
        transport.extend(payload);
        let addresses = if version == IPV4 { vec![0xc6; 8] } else { vec![0x20; 32] };
        let pseudo = sum(&addresses) + u64::from(protocol) + transport.len() as u64;
        transport[field..field + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
        let mut network = vec![0; if version == IPV4 { 12 } else { 8 }];
        network[0] = if version == IPV4 { 0x45 } else { 0x60 };
        network[if version == IPV4 { 9 } else { 6 }] = protocol;
        let frame = [&[2; 12][..], &[0x81, 0, 0, 5].repeat(tags), &version.to_be_bytes(), &network, &addresses].concat();
        let start = frame.len();
        ([frame, transport].concat(), start)
    }

    proptest! {
        #[test]
        fn finished_checksums_verify(
            tags in 0..3_usize,
            version in prop::sample::select(vec![IPV4, IPV6]),
            protocol in prop::sample::select(vec![UDP, TCP]),
            payload: Vec<u8>,
        ) {
            let (mut frame, start) = partial(tags, version, protocol, &payload);
            let addresses = if version == IPV4 { &frame[start - 8..start] } else { &frame[start - 32..start] };
            let pseudo = sum(addresses) + u64::from(protocol) + (frame.len() - start) as u64;
            finish(&mut frame);
            prop_assert_eq!(fold(pseudo + sum(&frame[start..])), 0xffff);
        }

        #[test]
        fn no_frame_is_written_where_there_is_no_checksum(mut frame: Vec<u8>) {
            let (before, places) = (frame.clone(), places(&frame));
            finish(&mut frame);
            let changed: Vec<_> = (0..frame.len()).filter(|at| frame[*at] != before[*at]).collect();
            match places {
                Some((start, field)) => prop_assert!(changed.iter().all(|at| [start + field, start + field + 1].contains(at))),
                None => prop_assert!(changed.is_empty()),
            }
        }
    }

    #[test]
    fn a_udp_sum_of_zero_becomes_the_other_zero() {
        let (mut frame, start) = partial(0, IPV4, UDP, &[0, 0]);
        finish(&mut frame);
        // With the sum as payload the rest adds up to ones.
        let sum = [frame[start + 6], frame[start + 7]];
        let (mut frame, _) = partial(0, IPV4, UDP, &sum);
        finish(&mut frame);
        assert_eq!(frame[start + 6..start + 8], [0xff, 0xff]);
    }

    #[test]
    fn every_cut_of_a_frame_is_survived() {
        for version in [IPV4, IPV6] {
            let (frame, _) = partial(1, version, TCP, b"payload");
            for len in 0..frame.len() {
                finish(&mut frame[..len].to_vec());
            }
        }
    }
}
