//! Both loops over the in-memory pair in every framing; frames of other sessions are never answered.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_packet::device::Config;
use hairpin_packet::fault::{Fault, Faults};
use hairpin_packet::granted::Granted;
use hairpin_packet::memory::{MemoryIo, pair};
use hairpin_record::recorder::{Recorder, Sample};
use hairpin_sys::clock::{AnyClock, MonotonicRaw, Ticks};
use hairpin_sys::umem::Pool;
use hairpin_sys::wait::Policy;
use hairpin_wire::ethernet::Ethernet;
use hairpin_wire::ipv4::Ipv4;
use hairpin_wire::ipv6::Ipv6;
use hairpin_wire::raw::Shape;
use hairpin_wire::udp::{self, Check, Udp};
use proptest::prelude::*;

use super::inet::{Flow, Inet, Outer};
use super::raw::{Accepts, Raw, Sends};
use super::*;
use crate::drive::{BLOCK_TRANSACTIONS, BetweenBlocks, Counts, LoopEnd, LoopResult, Work, drive};
use crate::echo::{Echoed, ServerCallbacks, echo};
use crate::pace::Pace;

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const COOKIE: u64 = 0x1234_5678_9abc_def0;

fn flows(ipv6: bool, count: u16) -> Vec<Flow> {
    let (client, server) = if ipv6 { ("[2001:2::1]:5000", "[2001:2::2]:7") } else { ("198.18.0.1:5000", "198.18.0.2:7") };
    let (client, server): (SocketAddr, SocketAddr) = (client.parse().unwrap(), server.parse().unwrap());
    (0..count).map(|index| Flow { own: SocketAddr::new(client.ip(), client.port() + index), peer: server }).collect()
}

fn inet<const V6: bool>(count: u16, request: usize, reply: usize) -> (Inet<V6>, Inet<V6>) {
    let flows = flows(V6, count);
    let turned: Vec<_> = flows.iter().map(|flow| Flow { own: flow.peer, peer: flow.own }).collect();
    let client = Outer { own: CLIENT, peer: SERVER, traffic_class: 0 };
    let server = Outer { own: SERVER, peer: CLIENT, traffic_class: 0 };
    (Inet::new(client, &flows, false, request).unwrap(), Inet::new(server, &turned, true, reply).unwrap())
}

fn raw(count: u16, len: usize) -> (Raw, Raw) {
    let client = Sends { shape: Shape::Own, source: CLIENT, destination: SERVER, hops: 0, cookie: COOKIE, flows: count, len };
    let server = Sends { shape: Shape::Own, source: SERVER, destination: CLIENT, hops: 1, cookie: COOKIE, flows: count, len };
    (Raw::new(client, Accepts::From(SERVER, 1)).unwrap(), Raw::new(server, Accepts::From(CLIENT, 0)).unwrap())
}

const CLOCK: AnyClock = AnyClock::Raw(MonotonicRaw);

struct Until<'a>(&'a AtomicBool);

impl ServerCallbacks for Until<'_> {
    fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Quiet;

impl BetweenBlocks for Quiet {
    fn stopped(&self) -> bool {
        false
    }

    fn block(&mut self, _: &Recorder, _: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        samples.for_each(drop);
        Ok(())
    }
}

const NS: u64 = 1_000_000_000;

fn work(count: u64, flows: u16, outstanding: u32, request: usize, reply: usize) -> Work {
    Work {
        request,
        reply,
        flows: flows.into(),
        outstanding,
        duration_ns: None,
        count: Some(count),
        warmup_ns: 0,
        timeout_ns: 10 * NS,
        cookie: COOKIE,
        verify: true,
        thread: 0,
        threads: 1,
        overstays_ns: 0,
        block: BLOCK_TRANSACTIONS,
    }
}

/// The client's result with the number of allocations in its loop, the server's result, and the strays of both.
fn round_trips<F: Framing + Send>((client, server): (F, F), work: Work) -> (LoopResult, u64, Echoed, [u64; 2]) {
    let (near, far) = pair(&Config { ring_entries: 64, chunks: 256, ..Config::default() }).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let mut frames = Frames::new(far, Waiting::spin(CLOCK), server, false, CLOCK);
            let echoed = echo(&mut frames, &MonotonicRaw, work.reply, &mut Until(&stop));
            (echoed, frames.counts().0)
        });
        let mut frames = Frames::new(near, Waiting::spin(CLOCK), client, false, CLOCK);
        let mut found = None;
        let allocations = allocation_counter::measure(|| {
            found = Some(drive(&mut frames, &MonotonicRaw, Pace::Closed, work, &mut Quiet));
        });
        stop.store(true, Ordering::Relaxed);
        let (echoed, strays) = answering.join().unwrap();
        (found.unwrap(), allocations.count_total, echoed, [frames.counts().0, strays])
    })
}

fn complete<F: Framing + Send>(what: &str, framings: (F, F), work: Work) -> u64 {
    let (found, allocations, echoed, strays) = round_trips(framings, work);
    assert!(matches!(found.end, LoopEnd::Done), "{what}");
    let counts = found.counts;
    assert_eq!((found.recorder.rtt().count(), counts.corrupt, counts.duplicates), (work.count.unwrap(), 0, 0), "{what}");
    assert!(echoed.error.is_none() && echoed.answered >= work.count.unwrap(), "{what}: {echoed:?}");
    assert_eq!(strays, [0, 0], "{what}");
    allocations
}

#[test]
fn every_framing_carries_every_size_over_one_flow_and_over_several() {
    for (request, reply) in [(1, 2), (16, 9), (22, 22), (1000, 1400), (1452, 1452)] {
        for (flows, outstanding) in [(1, 1), (3, 5)] {
            let what = format!("{request}/{reply}, {flows} flows, {outstanding} outstanding");
            let work = work(300, flows, outstanding, request, reply);
            complete(&format!("IPv4, {what}"), inet::<false>(flows, request, reply), work);
            complete(&format!("IPv6, {what}"), inet::<true>(flows, request, reply), work);
            if request == reply {
                complete(&format!("raw, {what}"), raw(flows, request), work);
            }
        }
    }
}

#[test]
fn the_loop_over_a_ring_allocates_nothing() {
    let allocations = |count| complete("allocations", inet::<false>(1, 64, 64), work(count, 1, 1, 64, 64));
    // The first call also makes things that a process makes once, such as the list of the CPU's features.
    allocations(1);
    let few = allocations(1);
    // A histogram grows with the slowest round trip.
    let many = allocations(20_000);
    assert!(many < few + 20, "{many} and {few}");
}

/// One end of a pair as an endpoint; the test plays the other end by hand.
fn by_hand<F: Framing>(framing: F) -> (Frames<'static, MemoryIo, F>, MemoryIo) {
    let (near, far) = pair(&Config { ring_entries: 4, chunks: 16, ..Config::default() }).unwrap();
    (Frames::new(near, Waiting::spin(CLOCK), framing, false, CLOCK), far)
}

fn put(io: &mut MemoryIo, bytes: &[u8]) {
    let mut frame = io.pool().take().unwrap();
    frame.set_len(bytes.len());
    io.umem().bytes_mut(&mut frame).copy_from_slice(bytes);
    io.tx_batch(&mut vec![frame]);
    io.kick(Kick::Send).unwrap();
}

fn get(io: &mut MemoryIo) -> Option<Vec<u8>> {
    let mut arrived = Vec::new();
    io.rx_batch(&mut arrived, 1);
    let frame = arrived.pop()?.frame;
    let bytes = io.umem().bytes(&frame).to_vec();
    io.pool().give(frame);
    Some(bytes)
}

/// Request frame of a flow.
fn request<F: Framing>(client: F, flow: u32, payload: &[u8]) -> Vec<u8> {
    let (mut frames, mut far) = by_hand(client);
    assert!(frames.ring.send(flow, payload.len(), |bytes| bytes.copy_from_slice(payload)).unwrap());
    get(&mut far).unwrap()
}

const AT_ONCE: Ticks = Ticks(0);
const PAYLOAD: [u8; 24] = *b"a request of 24 bytes ..";

#[test]
fn frames_are_valid_for_a_kernel_socket() {
    let frame = request(inet::<false>(2, PAYLOAD.len(), 1).0, 1, &PAYLOAD);
    let outer = Ethernet::parse(&frame).unwrap();
    assert_eq!((outer.destination(), outer.source(), outer.tag()), (SERVER, CLIENT, None));
    let ip = Ipv4::parse(outer.payload()).unwrap();
    let flow = flows(false, 2)[1];
    assert!(ip.is_sound() && !ip.is_fragment());
    assert_eq!((SocketAddr::from((ip.source(), 5001)), SocketAddr::from((ip.destination(), 7))), (flow.own, flow.peer));
    let datagram = Udp::parse(ip.payload()).unwrap();
    assert_eq!((datagram.source(), datagram.destination(), datagram.payload()), (5001, 7, &PAYLOAD[..]));
    assert_eq!(datagram.check(ip.address_sum()), Check::Right);

    let frame = request(inet::<true>(1, PAYLOAD.len(), 1).0, 0, &PAYLOAD);
    let ip = Ipv6::parse(Ethernet::parse(&frame).unwrap().payload()).unwrap();
    assert_eq!(Udp::parse(ip.payload()).unwrap().check(ip.address_sum()), Check::Right);
}

#[test]
fn short_frames_are_padded_with_zeroes() {
    // The shortest payloads carry a count at the end of the padding.
    for (len, padding) in [(1, 31..56), (3, 33..56), (4, 34..60)] {
        let (mut frames, mut far) = by_hand(raw(1, len).0);
        for byte in [0xff, 7] {
            assert!(frames.ring.send(0, len, |bytes| bytes.fill(byte)).unwrap());
            let frame = get(&mut far).unwrap();
            assert_eq!((frame.len(), frame[30]), (60, byte));
            assert!(frame[padding.clone()].iter().all(|byte| *byte == 0), "{frame:?}");
        }
    }
}

/// The server's answer to `frame`.
fn answer<F: Framing>(server: F, frame: &[u8], reply: usize) -> Option<Vec<u8>> {
    let (mut frames, mut far) = by_hand(server);
    put(&mut far, frame);
    let flow = frames.recv(AT_ONCE).unwrap().map(|request| request.flow);
    match flow {
        Some(flow) => assert!(frames.reply(flow, reply).unwrap()),
        None => assert_eq!(frames.counts().0, u64::from(!frames.ring.framing.is_own(frame)), "counted, but for our own"),
    }
    get(&mut far)
}

/// Ethernet's shortest frame is 60 bytes without the frame check sequence; not every device pads shorter ones.
#[test]
fn short_replies_are_padded_with_zeroes_too() {
    for len in [1, 2, 7, 15, 16, 18, 19] {
        let payload = vec![0xff; len];
        for (reply, headers) in [
            (answer(inet::<false>(1, len, 1).1, &request(inet::<false>(1, len, 1).0, 0, &payload), len), 42),
            (answer(inet::<true>(1, len, 1).1, &request(inet::<true>(1, len, 1).0, 0, &payload), len), 62),
            (answer(raw(1, len).1, &request(raw(1, len).0, 0, &payload), len), 0),
        ] {
            let reply = reply.unwrap();
            assert!(reply.len() >= 60, "{len}: {} bytes", reply.len());
            if headers > 0 {
                assert_eq!(reply.len(), (headers + len).max(60));
                assert!(reply[headers + len..].iter().all(|byte| *byte == 0), "{reply:?}");
            }
        }
    }
}

#[test]
fn a_checksum_that_a_kernel_left_to_the_device_is_completed_in_the_reply() {
    let mut frame = request(inet::<false>(1, PAYLOAD.len(), 1).0, 0, &PAYLOAD);
    let ip = Ipv4::parse(&frame[14..]).unwrap();
    let left = udp::pseudo_header(ip.address_sum(), udp::LEN + PAYLOAD.len()).fold();
    for checksum in [left, [0, 0]] {
        frame[40..42].copy_from_slice(&checksum);
        for len in [PAYLOAD.len(), 5] {
            let reply = answer(inet::<false>(1, 1, len).1, &frame, len).unwrap();
            let ip = Ipv4::parse(&reply[14..]).unwrap();
            let datagram = Udp::parse(ip.payload()).unwrap();
            assert_eq!((datagram.check(ip.address_sum()), datagram.payload()), (Check::Right, &PAYLOAD[..len]));
            assert_eq!((datagram.source(), datagram.destination()), (7, 5000));
        }
    }
    let mut six = request(inet::<true>(1, PAYLOAD.len(), 1).0, 0, &PAYLOAD);
    assert!(answer(inet::<true>(1, 1, 1).1, &six, 1).is_some());
    six[60..62].fill(0);
    assert!(answer(inet::<true>(1, 1, 1).1, &six, 1).is_none(), "IPv6 has no datagrams without a checksum");
}

#[test]
fn only_the_proven_peers_frames_are_answered() {
    let good = request(inet::<false>(1, PAYLOAD.len(), 1).0, 0, &PAYLOAD);
    let server = || inet::<false>(1, 1, 1).1;
    assert!(answer(server(), &good, 1).is_some());
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        frame
    };
    let other_port = request(inet::<false>(2, PAYLOAD.len(), 1).0, 1, &PAYLOAD);
    for (what, frame) in [
        ("another port of the peer", other_port),
        ("a reply to a reply", answer(server(), &good, 1).unwrap()),
        ("a VLAN tag", with(&|frame| drop(frame.splice(12..12, [0x81, 0, 0, 1])))),
        ("a damaged payload", with(&|frame| frame[50] ^= 1)),
        ("a damaged header", with(&|frame| frame[22] ^= 1)),
        ("cut short", with(&|frame| frame.truncate(60))),
        ("another protocol's type", with(&|frame| frame[12] = 0x86)),
        ("nothing", vec![0; 60]),
    ] {
        assert!(answer(server(), &frame, 1).is_none(), "{what}");
    }

    let good = request(raw(1, PAYLOAD.len()).0, 0, &PAYLOAD);
    let server = || raw(1, PAYLOAD.len()).1;
    let reply = answer(server(), &good, PAYLOAD.len()).unwrap();
    assert_eq!((&reply[..6], reply[30]), (&CLIENT[..], PAYLOAD[0]));
    for at in [6, 12, 14, 16, 17, 18, 20, 22, 29] {
        let mut frame = good.clone();
        frame[at] ^= 1;
        assert!(
            answer(server(), &frame, PAYLOAD.len()).is_none(),
            "byte {at}: source, type, magic, version, hops, flow, length, cookie"
        );
    }
    assert!(answer(server(), &reply, PAYLOAD.len()).is_none(), "a reply is no request");
}

/// A ring whose device takes this tag out of each frame, and tells it.
struct Tagged(MemoryIo, Vlan);

impl PacketIo for Tagged {
    fn granted(&self) -> &Granted {
        self.0.granted()
    }
    fn pool(&mut self) -> &mut Pool {
        self.0.pool()
    }
    fn umem(&self) -> &Arc<Umem> {
        self.0.umem()
    }
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        let came = self.0.rx_batch(into, most);
        into.iter_mut().for_each(|arrival| arrival.vlan = Some(self.1));
        came
    }
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.0.tx_batch(frames)
    }
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        self.0.kick(what)
    }
    fn waitable(&self) -> BorrowedFd<'_> {
        self.0.waitable()
    }
    fn counters(&mut self) -> Counters {
        self.0.counters()
    }
}

#[test]
fn a_frame_whose_vlan_tag_the_device_took_out_is_a_stray() {
    let frame = request(inet::<false>(1, PAYLOAD.len(), 1).0, 0, &PAYLOAD);
    // A tag of VLAN 0 tells a priority alone.
    for (tci, strays) in [(0x6005, 1), (0x6000, 0)] {
        let (near, mut far) = pair(&Config { ring_entries: 4, chunks: 16, ..Config::default() }).unwrap();
        let near = Tagged(near, Vlan::new(0x8100, tci).unwrap());
        let mut frames = Frames::new(near, Waiting::spin(CLOCK), inet::<false>(1, 1, 1).1, false, CLOCK);
        put(&mut far, &frame);
        let came = frames.recv(AT_ONCE).unwrap().is_some();
        assert_eq!((came, frames.counts().0), (strays == 0, strays), "{tci:#x}");
    }
}

#[test]
fn a_reflectors_frames_are_known_by_their_cookie() {
    let sends =
        Sends { shape: Shape::Own, source: CLIENT, destination: SERVER, hops: 0, cookie: COOKIE, flows: 1, len: PAYLOAD.len() };
    let frame = request(Raw::new(sends, Accepts::Any).unwrap(), 0, &PAYLOAD);
    let mut swapped = frame.clone();
    hairpin_wire::ethernet::swap_macs(&mut swapped);
    let mut another = swapped.clone();
    another[24] ^= 1;
    for (accepts, as_it_went, turned) in [(Accepts::Any, true, true), (Accepts::NotFrom(CLIENT), false, true)] {
        let framing = Raw::new(sends, accepts).unwrap();
        assert_eq!([framing.read(&frame).is_some(), framing.read(&swapped).is_some()], [as_it_went, turned], "{accepts:?}");
        assert_eq!(framing.read(&another), None, "another session's");
    }
}

#[test]
fn no_two_frames_are_the_same_however_short_the_payload() {
    for len in 1..=4 {
        let framing = raw(1, len).0;
        // As much of the sequence number as fits.
        let written = |sequence: u32| {
            let mut frame = vec![0; 60];
            frame[Raw::HEADERS..Raw::HEADERS + len].copy_from_slice(&sequence.to_le_bytes()[..len]);
            framing.write(&mut frame, 0, len, false);
            frame
        };
        let frames: std::collections::HashSet<Vec<u8>> = (0..1_000).map(written).collect();
        assert_eq!(frames.len(), 1_000, "a payload of {len} bytes");
        assert!(frames.iter().all(|frame| raw(1, len).1.read(frame).is_some_and(|found| found.len == len)));
    }
}

#[test]
fn a_full_ring_sends_nothing_and_keeps_every_chunk() {
    let (near, mut far) = pair(&Config { ring_entries: 2, chunks: 8, ..Config::default() }).unwrap();
    let mut frames = Frames::new(near, Waiting::spin(CLOCK), raw(1, 20).0, false, CLOCK);
    let mut send = || frames.ring.send(0, 20, |bytes| bytes.fill(1)).unwrap();
    let taken = (0..20).take_while(|_| send()).count();
    assert!((2..8).contains(&taken), "{taken} frames in a ring of 2");
    let mut seen = 0;
    for _ in 0..taken {
        seen += std::iter::from_fn(|| get(&mut far)).count();
        assert!(frames.recv(AT_ONCE).unwrap().is_none(), "a look at what has come pushes the rest out");
    }
    assert_eq!(seen, taken);
    frames.ring.transmit().unwrap();
    assert_eq!(frames.ring.io.pool().available(), 8);
}

#[test]
fn a_sleeping_side_sends_the_frames_that_found_no_room() {
    let (near, mut far) = pair(&Config { ring_entries: 64, chunks: 256, ..Config::default() }).unwrap();
    let readable = near.waitable().try_clone_to_owned().unwrap();
    let wait = Waiting::on_ring(Policy::Block, 0, CLOCK, readable.as_fd());
    let near = Fault::new(near, MonotonicRaw, Faults { busy: 0.5, ..Faults::default() }).unwrap();
    let mut frames = Frames::new(near, wait, raw(1, 20).0, false, CLOCK);
    let mut sent = 0;
    while !frames.ring.busy {
        assert!(frames.ring.send(0, 20, |bytes| bytes.fill(1)).unwrap());
        sent += 1;
    }
    // Nothing comes, and nothing more is sent.
    for _ in 0..64 {
        if frames.ring.busy {
            assert!(frames.recv(CLOCK.now().plus(10_000_000)).unwrap().is_none());
        }
    }
    assert_eq!(std::iter::from_fn(|| get(&mut far)).count(), sent);
}

#[test]
fn flows_that_cannot_be_told_apart_make_no_framing() {
    let outer = Outer { own: CLIENT, peer: SERVER, traffic_class: 0 };
    let one = flows(false, 1)[0];
    let other_peer = Flow { peer: "198.18.0.9:7".parse().unwrap(), ..flows(false, 2)[1] };
    let other_port = Flow { peer: "198.18.0.2:8".parse().unwrap(), ..flows(false, 2)[1] };
    for flows in [vec![], vec![one, one], vec![one, other_peer], vec![one, other_port], flows(true, 1)] {
        assert!(Inet::<false>::new(outer, &flows, false, 64).is_none(), "{flows:?}");
    }
    assert!(Inet::<false>::new(outer, &[one], false, 65_508).is_none());
}

proptest! {
    #[test]
    fn any_frame_is_the_sessions_or_none(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
        prop_assert_eq!(inet::<false>(1, 1, 1).1.read(&bytes), None);
        prop_assert_eq!(inet::<true>(1, 1, 1).1.read(&bytes), None);
        prop_assert_eq!(raw(1, 1).1.read(&bytes), None);
    }

    #[test]
    fn damaged_frame_is_rejected_or_unchanged(at in 0usize..64, bit in 0u8..8, cut in 0usize..70) {
        let server = inet::<false>(1, 1, 1).1;
        let good = request(inet::<false>(1, PAYLOAD.len(), 1).0, 0, &PAYLOAD);
        let mut frame = good.clone();
        frame[at] ^= 1 << bit;
        frame.truncate(cut.max(at + 1));
        if let Some(message) = server.read(&frame) {
            // No checksum covers the Ethernet addresses.
            prop_assert!(at < 12, "byte {at}");
            prop_assert_eq!(&frame[Inet::<false>::HEADERS..][..message.len], &PAYLOAD[..]);
        }
    }
}
