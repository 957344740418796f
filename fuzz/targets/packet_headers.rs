//! Any frame has headers that lie within it or none, and two exchanges restore it.
#![no_main]

use hairpin_wire::checksum::Sum;
use hairpin_wire::ethernet::{self, Ethernet};
use hairpin_wire::ipv4::{self, Ipv4};
use hairpin_wire::ipv6::{self, Ipv6};
use hairpin_wire::raw;
use hairpin_wire::udp::{self, Udp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let Some(seen) = Ethernet::parse(frame) else { return };
    let packet = seen.payload();
    assert_eq!(seen.header_len() + packet.len(), frame.len());
    let (segment, addresses) = match seen.ethertype() {
        ethernet::IPV4 => match Ipv4::parse(packet) {
            Some(ip) => {
                let _ = ip.is_sound();
                (ip.payload(), ip.address_sum())
            }
            None => return,
        },
        ethernet::IPV6 => match Ipv6::parse(packet) {
            Some(ip) => (ip.payload(), ip.address_sum()),
            None => return,
        },
        _ => {
            if let Some((header, payload)) = raw::Header::decode(packet) {
                assert!(packet.starts_with(&header.encode(payload.len()).expect("a length of two bytes")));
            }
            (packet, Sum::default())
        }
    };
    let check = Udp::parse(segment).map(|datagram| (datagram.payload().len(), datagram.check(addresses)));
    let mut back = packet.to_vec();
    for swap in [ipv4::swap_addresses, ipv6::swap_addresses, udp::swap_ports, ethernet::swap_macs] {
        swap(&mut back);
        swap(&mut back);
    }
    assert_eq!(back, packet);
    // A reply with ports exchanged is as right as the request was.
    let mut segment = segment.to_vec();
    if udp::swap_ports(&mut segment) {
        let now = Udp::parse(&segment).map(|datagram| (datagram.payload().len(), datagram.check(addresses)));
        assert_eq!(now, check);
    }
});
