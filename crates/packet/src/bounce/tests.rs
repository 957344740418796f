use hairpin_sys::clock::FakeClock;
use hairpin_wire::checksum::Sum;
use hairpin_wire::{ethernet, ipv4, ipv6, udp};
use proptest::prelude::*;

use super::*;
use crate::device::Config;
use crate::memory::{MemoryIo, pair};
use crate::ring::{Coalesce, RingConfig};

const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];

type MemoryRing = Ring<MemoryIo, FakeClock>;

fn rings(entries: u32) -> (MemoryRing, MemoryRing) {
    let (one, other) = pair(&Config { ring_entries: entries, chunks: 512, ..Config::default() }).unwrap();
    let ring = |io| Ring::new(io, FakeClock::default(), RingConfig::default());
    (ring(one), ring(other))
}

/// UDP from A, port 1, to B, port 7, over IPv4 or IPv6, with this payload.
fn datagram(v6: bool, payload: &[u8]) -> Vec<u8> {
    let ethertype = if v6 { ethernet::IPV6 } else { ethernet::IPV4 };
    let ethernet = ethernet::Header { destination: B, source: A, ethertype }.encode();
    let len = udp::LEN + payload.len();
    let (ip, addresses) = if v6 {
        let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let header = ipv6::Header { source, destination, next_header: udp::PROTOCOL, traffic_class: 0, hop_limit: 9 };
        let ip = header.encode(len).unwrap();
        (ip.to_vec(), Sum::of(&ip[8..]))
    } else {
        let (source, destination) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let header = ipv4::Header { source, destination, protocol: udp::PROTOCOL, traffic_class: 0, ttl: 9 };
        let ip = header.encode(len).unwrap();
        (ip.to_vec(), Sum::of(&ip[12..]))
    };
    let udp = udp::Header { source: 1, destination: 7 }.encode(addresses, payload).unwrap();
    [&ethernet[..], &ip, &udp, payload].concat()
}

fn bounce(config: BounceConfig) -> Bounce {
    Bounce::new(config).unwrap()
}

#[test]
fn every_frame_comes_back_and_is_counted() {
    for (rewrite, to, port) in [(Rewrite::None, B, [0, 7]), (Rewrite::Macs, A, [0, 7]), (Rewrite::All, A, [0, 1])] {
        let (client, server) = rings(64);
        let mut bounce =
            bounce(BounceConfig { rewrite, filter: Filter::Udp { first: 7, last: 7 }, verify: true, ..Default::default() });
        let mut scratch = Vec::with_capacity(64);
        for n in 0..1_000u32 {
            let frame = datagram(n % 2 == 1, &n.to_be_bytes());
            assert_eq!(client.sender().inject(&frame).unwrap(), Injected::Sent);
            assert_eq!(bounce.turn(&server, &mut scratch, 64, 0).unwrap(), Received::Got(1));
            let Received::Got(back) = client.recv(0).unwrap() else { panic!("{n}") };
            let port_at = if n % 2 == 1 { 56 } else { 36 };
            assert_eq!((&back[..6], &back[port_at..port_at + 2]), (&to[..], &port[..]));
            assert!(rewrite::checksums_are_right(&back));
            if rewrite == Rewrite::None {
                assert_eq!(back[..frame.len()], frame);
            }
        }
        let expected = Bounced {
            rx_frames: 1_000,
            rx_bytes: 500 * (60 + 66),
            tx_frames: 1_000,
            tx_bytes: 500 * (60 + 66),
            tx_wire_bytes: 500 * (84 + 90),
            ..Bounced::default()
        };
        assert_eq!(bounce.counters(), expected);
        assert_eq!((server.held(), server.with_io(|io| io.pool().available())), (0, 512));
    }
}

#[test]
fn drops_forbidden_frames_and_counts_each_cause() {
    let (client, server) = rings(64);
    let mut bounce = bounce(BounceConfig { filter: Filter::Udp { first: 7, last: 7 }, verify: true, ..Default::default() });
    let with = |at: usize, byte: u8| {
        let mut frame = datagram(false, b"0123456789abcdefghij");
        frame[at] ^= byte;
        frame
    };
    let broadcast = [&[0xff; 6][..], &with(0, 0)[6..]].concat();
    let frames = [with(0, 0), with(0, 1), broadcast, with(6, 1), with(37, 1), with(23, 1), with(50, 1), with(17, 4), with(24, 1)];
    for frame in &frames {
        assert_eq!(client.sender().inject(frame).unwrap(), Injected::Sent);
    }
    let mut scratch = Vec::new();
    assert_eq!(bounce.turn(&server, &mut scratch, 64, 0).unwrap(), Received::Got(9));
    let counters = bounce.counters();
    let drops = (counters.short, counters.group, counters.filtered, counters.repeated, counters.full, counters.too_long);
    // Another port, another protocol and a length beyond the frame are outside the filter.
    assert_eq!(drops, (0, 3, 3, 0, 0, 0));
    assert_eq!((counters.dropped(), counters.tx_frames, counters.wrong_checksum), (6, 3, 2));
    assert!(!bounce.passes(&mut [0; 13]));
    assert_eq!(bounce.counters().short, 1);
}

/// Number of times that one frame passes from one bouncer to the other until neither sends it back.
fn storm(one: Rewrite, other: Rewrite, frames: u32, repeats: Option<u32>) -> u64 {
    let (left, right) = rings(64);
    let mut ends = [one, other].map(|rewrite| bounce(BounceConfig { rewrite, repeats, ..Default::default() }));
    for n in 0..frames {
        assert_eq!(left.sender().inject(&datagram(false, &n.to_be_bytes())).unwrap(), Injected::Sent);
    }
    let (mut left_scratch, mut right_scratch) = (Vec::new(), Vec::new());
    for _ in 0..10_000 {
        let right = ends[0].turn(&right, &mut right_scratch, 64, 0).unwrap();
        let left = ends[1].turn(&left, &mut left_scratch, 64, 0).unwrap();
        if (right, left) == (Received::WouldBlock, Received::WouldBlock) {
            break;
        }
    }
    ends[0].counters().tx_frames + ends[1].counters().tx_frames
}

#[test]
fn two_bouncers_facing_each_other_do_not_storm() {
    for one in [Rewrite::None, Rewrite::Macs, Rewrite::All] {
        for other in [Rewrite::None, Rewrite::Macs, Rewrite::All] {
            // A frame has one form at each end, or two where they rewrite differently; more where forms share a place by chance.
            let passes = storm(one, other, 1, Some(REPEATS));
            assert!((2 * 64..10 * 64).contains(&passes), "{one} {other}: {passes}");
            let passes = storm(one, other, 32, Some(REPEATS));
            assert!((32 * 2 * 64..32 * 10 * 64).contains(&passes), "{one} {other}: {passes}");
        }
    }
    assert_eq!(storm(Rewrite::None, Rewrite::None, 1, Some(0)), 0);
    assert_eq!(storm(Rewrite::None, Rewrite::Macs, 1, None), 20_000, "without the limit nothing ends it");
}

#[test]
fn out_of_another_ring() {
    let (client, inner) = rings(64);
    let (outer, beyond) = rings(8);
    let mut bounce = bounce(BounceConfig { rewrite: Rewrite::Macs, ..Default::default() });
    let mut scratch = Vec::new();
    for n in 0..100u32 {
        let _ = client.sender().inject(&datagram(true, &n.to_be_bytes())).unwrap();
        assert_eq!(bounce.turn_into(&inner, &outer, &mut scratch, 64, 0).unwrap(), Received::Got(1));
        if n < 50 {
            let Received::Got(arrived) = beyond.recv(0).unwrap() else { panic!("{n}") };
            assert_eq!((&arrived[..6], &arrived[62..66]), (&A[..], &n.to_be_bytes()[..]));
        }
    }
    // Nobody receives the last 50: eight lie in the ring.
    let counters = bounce.counters();
    assert_eq!((counters.rx_frames, counters.tx_frames + counters.full), (100, 100));
    assert_eq!(bounce.turn_into(&inner, &outer, &mut scratch, 64, 0).unwrap(), Received::WouldBlock);
    assert!(matches!(client.recv(0).unwrap(), Received::WouldBlock), "none comes back");
}

#[test]
fn a_full_ring_drops_and_counts() {
    let (client, server) = rings(8);
    let mut bounce = bounce(BounceConfig { repeats: None, ..Default::default() });
    let mut scratch = Vec::new();
    for n in 0..200u32 {
        assert_eq!(client.sender().inject(&datagram(false, &n.to_be_bytes())).unwrap(), Injected::Sent);
        assert_eq!(bounce.turn(&server, &mut scratch, 64, 0).unwrap(), Received::Got(1));
    }
    let counters = bounce.counters();
    // The ring's entries, and the batch that waits for room in the ring.
    assert_eq!((counters.tx_frames, counters.full), (8 + 64, 200 - 8 - 64));
    let mut back = 0;
    while let Received::Got(_) = client.recv(0).unwrap() {
        back += 1;
        server.flush().unwrap();
    }
    assert_eq!((back, server.with_io(|io| io.pool().available())), (72, 512));
}

#[test]
fn frames_of_one_batch_leave_together_when_coalesced() {
    let (one, other) = pair(&Config { ring_entries: 64, chunks: 512, ..Config::default() }).unwrap();
    let every = Coalesce::Every(std::num::NonZeroU32::new(16).unwrap());
    let client = Ring::new(one, FakeClock::default(), RingConfig::default());
    let server = Ring::new(other, FakeClock::stepping(100), RingConfig { coalesce: every, ..RingConfig::default() });
    let (mut bounce, mut scratch) = (bounce(BounceConfig::default()), Vec::new());
    for n in 0..40u32 {
        assert_eq!(client.sender().inject(&datagram(false, &n.to_be_bytes())).unwrap(), Injected::Sent);
    }
    assert_eq!(bounce.turn(&server, &mut scratch, 64, -1).unwrap(), Received::Got(40));
    assert_eq!(server.counters().kicks, 2);
    assert_eq!(bounce.turn(&server, &mut scratch, 64, 1).unwrap(), Received::Expired);
    assert_eq!(server.counters().kicks, 3);
}

#[test]
fn a_second_is_a_difference_even_past_the_wrap() {
    let near = Bounced { rx_frames: u64::MAX - 1, tx_bytes: u64::MAX, ..Bounced::default() };
    let mut bounce = bounce(BounceConfig::default());
    bounce.counters = near;
    for n in 0..3u32 {
        let mut frame = datagram(false, &n.to_be_bytes());
        assert!(bounce.passes(&mut frame));
        bounce.sent(frame.len(), true);
    }
    let second = bounce.counters().since(&near);
    assert_eq!(
        (second.rx_frames, second.rx_bytes, second.tx_frames, second.tx_bytes, second.tx_wire_bytes),
        (3, 138, 3, 180, 252)
    );
}

#[test]
fn rewrites_parse_and_print() {
    for text in ["none", "macs", "all"] {
        assert_eq!(text.parse::<Rewrite>().unwrap().to_string(), text);
    }
    assert_eq!("ips".parse::<Rewrite>().unwrap_err().to_string(), "\"ips\" is not a rewrite; choose from none, macs, all");
}

/// Frames that resemble real ones: a header of each kind, cut, tagged, with options, extension headers, fragments and noise.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let noise = || prop::collection::vec(any::<u8>(), 0..100);
    let shaped = (any::<bool>(), noise(), any::<bool>(), prop::collection::vec((0usize..80, any::<u8>()), 0..4), 0usize..200);
    let shaped = shaped.prop_map(|(v6, payload, tagged, changes, cut)| {
        let mut frame = datagram(v6, &payload);
        if tagged {
            frame.splice(12..12, [0x81, 0, 0, 5]);
        }
        for (at, byte) in changes {
            if let Some(there) = frame.get_mut(at) {
                *there = byte;
            }
        }
        frame.truncate(cut.max(14));
        frame
    });
    prop_oneof![noise(), shaped]
}

proptest! {
    #[test]
    fn any_frame_is_bounced_or_dropped_and_a_rewrite_undoes_itself(frame in any_frame(), port: u16) {
        for filter in [Filter::All, Filter::Ethertype(0x0800), Filter::Udp { first: 7, last: port.max(7) }] {
            for rewrite in [Rewrite::None, Rewrite::Macs, Rewrite::All] {
                let mut bounce = bounce(BounceConfig { filter, rewrite, verify: true, repeats: Some(1) });
                let mut back = frame.clone();
                let passed = bounce.passes(&mut back);
                let counters = bounce.counters();
                prop_assert_eq!(u64::from(!passed), counters.dropped());
                prop_assert_eq!(rewrite::checksums_are_right(&back), rewrite::checksums_are_right(&frame));
                if passed {
                    prop_assert!(filter.takes(&frame) && back[0] & 1 == 0);
                    rewrite.apply(&mut back);
                }
                prop_assert_eq!(&back, &frame);
            }
        }
    }
}
