//! Frames as the tests send them.

pub use hairpin_wire::raw::ETHERTYPE as OURS;

pub const UDP: u8 = 17;

/// A frame to everybody of an ethertype, with bytes that count up.
pub fn ethernet(ethertype: u16, len: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|at| at as u8).collect();
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

/// The same frame with a VLAN tag.
pub fn tagged(frame: &[u8], tpid: u16, tci: u16) -> Vec<u8> {
    [&frame[..12], &tpid.to_be_bytes(), &tci.to_be_bytes(), &frame[12..]].concat()
}

/// Bytes of a UDP datagram as the tests send it.
const DATAGRAM: u16 = 18;

/// IPv4 with `words` words of header, `fragment` in the field of flags and offset, and a UDP datagram or
/// similar bytes.
pub fn ipv4(words: u8, protocol: u8, fragment: u16, port: u16) -> Vec<u8> {
    let header = usize::from(words) * 4;
    let mut frame = ethernet(0x0800, 14 + header + usize::from(DATAGRAM));
    frame[14] = 0x40 | words;
    frame[16..18].copy_from_slice(&(header as u16 + DATAGRAM).to_be_bytes());
    frame[20..22].copy_from_slice(&fragment.to_be_bytes());
    frame[23] = protocol;
    put_udp(&mut frame[14 + header..], port);
    frame
}

/// IPv6 with no extension header, and a UDP datagram or something like one.
pub fn ipv6(next: u8, port: u16) -> Vec<u8> {
    let mut frame = ethernet(0x86dd, 14 + 40 + usize::from(DATAGRAM));
    frame[14] = 0x60;
    frame[18..20].copy_from_slice(&DATAGRAM.to_be_bytes());
    frame[20] = next;
    put_udp(&mut frame[54..], port);
    frame
}

fn put_udp(segment: &mut [u8], port: u16) {
    segment[2..4].copy_from_slice(&port.to_be_bytes());
    segment[4..6].copy_from_slice(&DATAGRAM.to_be_bytes());
}

/// The frame with two bytes changed.
pub fn with(mut frame: Vec<u8>, at: usize, value: u16) -> Vec<u8> {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
    frame
}
