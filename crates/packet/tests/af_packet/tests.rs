//! The tests of AF_PACKET.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::UdpSocket;
use std::time::SystemTime;

use hairpin_packet::af_packet::{AfPacket, Io};
use hairpin_packet::device::{BackEnd, Config, Favour, OpenError, Spread};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::{Feature, TimeSource};
use hairpin_packet::io::{Arrived, Departed, Kick, PacketIo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Outcome;
use super::frames::{OURS, UDP, ethernet, ipv4, ipv6, tagged, with};
use super::link::{A, B, Helper, arrivals, eventually, is_promiscuous, open, pair, queue, receive, send, set, set_up, small};

/// A test's name and its function.
type Test = (&'static str, fn() -> Outcome);

pub const ALL: &[Test] = &[
    ("frames of every size arrive as they were sent", every_size_arrives),
    ("frames have stamps, and hashes in blocks", frames_have_stamps),
    ("sent frames are stamped by the driver", sent_frames_are_stamped),
    ("stamps find their frames after one that was refused", stamps_find_their_frames_after_a_refusal),
    ("a stamp that nobody took wakes no wait twice", a_stamp_wakes_no_wait_twice),
    ("what is granted is true and what is not has a reason", reports_granted_features),
    ("nothing comes before start and after stop", nothing_comes_before_start_and_after_stop),
    ("the filter of an ethertype", the_filter_of_an_ethertype),
    ("the filter of a UDP port", the_filter_of_a_udp_port),
    ("VLAN tags come back", vlan_tags_come_back),
    ("own outgoing frames are not seen", own_outgoing_frames_are_not_seen),
    ("checksums left to the device are finished", checksums_are_finished),
    ("loopback", loopback),
    ("two rings get every frame once", two_rings_get_every_frame_once),
    ("frames without a flow share one ring", frames_without_a_flow_share_one_ring),
    ("a ring that is gone gets nothing", a_ring_that_is_gone_gets_nothing),
    ("an application that holds every frame", an_application_that_holds_every_frame),
    ("frames longer than the MTU are refused and counted", frames_longer_than_the_mtu),
    ("a link without carrier is busy", a_link_without_carrier_is_busy),
    ("an interface that goes down and comes back", an_interface_goes_down),
    ("an interface that is removed", an_interface_is_removed),
    ("the MTU grows while open", the_mtu_grows),
    ("poll wakes when a frame is there", poll_wakes),
    ("promiscuous only while open, SIGKILL included", promiscuous_only_while_open),
    ("what cannot be opened", open_reports_the_reason_of_failure),
];

const BOTH: [Favour; 2] = [Favour::Delay, Favour::Rate];

fn ours(favour: Favour) -> Config {
    Config { favour, ..small(Filter::Ethertype(OURS)) }
}

fn equal<T: PartialEq + Debug>(what: impl std::fmt::Display, found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}").into()) }
}

fn every_size_arrives() -> Outcome {
    for favour in BOTH {
        let ((_a, mut a), (_b, mut b)) = (open(A, &ours(favour))?, open(B, &ours(favour))?);
        equal("longest", b.granted().longest_frame, 1514)?;
        // More frames than the ring has slots, so that its end is passed many times.
        for sizes in (14..=1514).collect::<Vec<_>>().chunks(60) {
            let sent: Vec<_> = sizes.iter().map(|size| ethernet(OURS, *size)).collect();
            send(&mut a, &sent)?;
            equal(format_args!("{favour:?} {sizes:?}"), receive(&mut b, sent.len()), sent)?;
        }
        let counters = b.counters();
        equal("frames", (counters.rx_frames, counters.rx_bytes, counters.lost()), (1501, (14..=1514).sum(), 0))?;
        let counters = a.counters();
        equal("sent", (counters.tx_frames, counters.tx_bytes, counters.lost()), (1501, (14..=1514).sum(), 0))?;
        equal("chunks", (a.pool().available(), b.pool().available()), (256, 256))?;
    }
    Ok(())
}

/// CLOCK_REALTIME in ns.
fn now() -> Outcome<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64)
}

fn frames_have_stamps() -> Outcome {
    for (favour, metadata) in BOTH.into_iter().flat_map(|favour| [(favour, false), (favour, true)]) {
        let config = Config { metadata, ..ours(favour) };
        let ((_a, mut a), (_b, mut b)) = (open(A, &ours(favour))?, open(B, &config)?);
        let before = now()?;
        send(&mut a, &[ethernet(OURS, 60)])?;
        let mut found = arrivals(&mut b, 1);
        let arrival = found.pop().ok_or("nothing arrived")?;
        match arrival.time {
            Some(Arrived::Software(ns)) if (before..=now()?).contains(&ns) => {}
            other => return Err(format!("{favour:?}: stamp {other:?} after {before}").into()),
        }
        equal("by", b.granted().rx_time, Some(TimeSource::Software))?;
        if favour == Favour::Delay {
            equal("hash", arrival.hash, None)?;
        }
        b.pool().give(arrival.frame);
    }
    // Two flows with a hash each, the same for each of its frames.
    let config = Config { favour: Favour::Rate, ..small(Filter::Udp { first: 7, last: 9 }) };
    let ((_a, mut a), (_b, mut b)) = (open(A, &config)?, open(B, &config)?);
    send(&mut a, &[ipv4(5, UDP, 0, 7), ipv4(5, UDP, 0, 8), ipv4(5, UDP, 0, 7)])?;
    let hashes: Vec<_> = arrivals(&mut b, 3).into_iter().map(|arrival| (arrival.hash, b.pool().give(arrival.frame)).0).collect();
    match hashes[..] {
        [Some(one), Some(other), Some(again)] if one == again && one != other => Ok(()),
        _ => Err(format!("hashes {hashes:?}").into()),
    }
}

/// The stamps of sent frames that have come: number and time.
fn stamps(io: &mut Io) -> Outcome<Vec<(u32, u64)>> {
    let mut came = Vec::new();
    let count = io.departures(&mut came)?;
    equal("told", count, came.len())?;
    let times = came.iter().map(|departure| match departure.time {
        Departed::Software(ns) => Ok((departure.frame, ns)),
        other => Err(format!("a stamp of another kind: {other:?}").into()),
    });
    times.collect()
}

fn frames(stamps: &[(u32, u64)]) -> Vec<u32> {
    stamps.iter().map(|(frame, _)| *frame).collect()
}

fn sent_frames_are_stamped() -> Outcome {
    for favour in BOTH {
        let config = Config { departures: true, ..ours(favour) };
        let ((_a, mut a), (_b, mut b)) = (open(A, &config)?, open(B, &ours(favour))?);
        equal("granted", (a.granted().tx_time, b.granted().tx_time), (Some(TimeSource::Software), None))?;
        for turn in 0..3 {
            let before = now()?;
            send(&mut a, &[ethernet(OURS, 60), ethernet(OURS, 61)])?;
            let sent = stamps(&mut a)?;
            equal("numbers", frames(&sent), vec![2 * turn, 2 * turn + 1])?;
            let arrived = arrivals(&mut b, 2);
            // The driver of the one end, the ring of the other, one clock.
            for ((_, sent), arrival) in sent.iter().zip(&arrived) {
                match arrival.time {
                    Some(Arrived::Software(ns)) if (before..=ns).contains(sent) => {}
                    other => return Err(format!("{before}, sent {sent}, arrived {other:?}").into()),
                }
            }
            equal("arrived", arrived.len(), 2)?;
            arrived.into_iter().for_each(|arrival| b.pool().give(arrival.frame));
        }
        send(&mut b, &[ethernet(OURS, 60)])?;
        equal("not asked", stamps(&mut b)?, Vec::new())?;
        equal("arrived", receive(&mut a, 1).len(), 1)?;
    }
    Ok(())
}

fn stamps_find_their_frames_after_a_refusal() -> Outcome {
    let config = Config { departures: true, ..ours(Favour::Delay) };
    let ((_a, mut a), (_b, mut b)) = (open(A, &config)?, open(B, &ours(Favour::Delay))?);
    // Too long for the MTU, and shorter than a header: the kernel may have counted them or not.
    let [good, other] = [ethernet(OURS, 60), ethernet(OURS, 61)];
    let refused = [ethernet(OURS, 1515), vec![0xff; 13]];
    send(&mut a, &[good.clone(), refused[0].clone(), other.clone(), refused[1].clone(), good.clone()])?;
    equal("arrived", receive(&mut b, 3), vec![good.clone(), other.clone(), good.clone()])?;
    equal("stamped", frames(&stamps(&mut a)?), vec![0, 2, 4])?;
    // A full device, or one without carrier: the frame stays and leaves later, with a stamp.
    set_up(B, false)?;
    send(&mut a, std::slice::from_ref(&other))?;
    equal("kept", a.counters().tx_busy, 1)?;
    set_up(B, true)?;
    eventually("carrier", || {
        a.kick(Kick::Send)?;
        Ok(a.pool().available() == 256)
    })?;
    send(&mut a, &[good])?;
    equal("stamped", frames(&stamps(&mut a)?), vec![5, 6])?;
    equal("lost", a.counters().tx_unstamped, 0)
}

fn a_stamp_wakes_no_wait_twice() -> Outcome {
    let config = Config { departures: true, ..ours(Favour::Delay) };
    let ((_a, mut a), (_b, _rest)) = (open(A, &config)?, open(B, &ours(Favour::Delay))?);
    send(&mut a, &[ethernet(OURS, 60)])?;
    equal("a stamp is there", polled(&a, 900)?.contains(PollFlags::ERR), true)?;
    a.kick(Kick::Receive)?;
    equal("asleep", polled(&a, 20)?, PollFlags::empty())?;
    equal("kept", frames(&stamps(&mut a)?), vec![0])
}

fn reports_granted_features() -> Outcome {
    let config = Config { busy_poll_us: Some(50), ..small(Filter::All) };
    let (device, io) = open(B, &config)?;
    for granted in [device.granted(), io.granted()] {
        equal("granted", (granted.back_end, granted.queues, granted.queue, granted.longest_frame), ("af_packet", 1, 0, 1514))?;
        for feature in [Feature::ZeroCopy, Feature::BusyPoll] {
            let why = granted.require(feature).err().ok_or("a feature that is not there")?.why;
            equal("a reason of its own", why.contains("was not asked for"), false)?;
        }
    }
    let (device, _io) = open(B, &Config { metadata: true, departures: true, ..config })?;
    for feature in [Feature::HardwareTime, Feature::HardwareDeparture] {
        let why = device.granted().require(feature).err().ok_or("a device's stamp over veth")?.why;
        equal(format_args!("{why}"), why.contains(&format!("the driver of {B} has no stamps of a device")), true)?;
    }
    for (feature, part) in [(Feature::Vlan, "puts the tag back into the frame"), (Feature::Hash, "blocks (favour rate) have")] {
        let why = device.granted().require(feature).err().ok_or("a feature that is not there")?.why;
        equal(format_args!("{why}"), why.contains(part), true)?;
    }
    Ok(())
}

fn nothing_comes_before_start_and_after_stop() -> Outcome {
    for favour in BOTH {
        let (_a, mut a) = open(A, &ours(favour))?;
        let mut device = AfPacket::open(B, &ours(favour))?;
        let mut b = device.ring(0)?;
        for (started, expected) in [(false, 0), (true, 1), (false, 0), (true, 1)] {
            if started {
                device.start()?
            } else {
                device.stop()?
            }
            send(&mut a, &[ethernet(OURS, 60)])?;
            equal(format_args!("{favour:?}, started {started}"), receive(&mut b, expected).len(), expected)?;
        }
        equal("lost", b.counters().lost(), 0)?;
    }
    Ok(())
}

/// Sends frames through a filter; those with a set flag must arrive, in order, and no other.
fn through(filter: Filter, frames: &[(bool, Vec<u8>)]) -> Outcome {
    for favour in BOTH {
        let (_a, mut a) = open(A, &small(Filter::Ethertype(OURS)))?;
        let (_b, mut b) = open(B, &Config { favour, ..small(filter) })?;
        let all: Vec<_> = frames.iter().map(|(_, frame)| frame.clone()).collect();
        send(&mut a, &all)?;
        let expected: Vec<_> = (0..frames.len()).filter(|at| frames[*at].0).collect();
        let found = receive(&mut b, expected.len());
        let found: Vec<_> = found.iter().map(|frame| all.iter().position(|sent| sent == frame).unwrap_or(usize::MAX)).collect();
        equal(format_args!("{filter} {favour:?}: which of the frames arrived"), found, expected)?;
    }
    Ok(())
}

fn the_filter_of_an_ethertype() -> Outcome {
    let plain = ethernet(OURS, 60);
    let frames = [
        (true, plain.clone()),
        (true, tagged(&plain, 0x8100, 5)),
        (true, tagged(&plain, 0x88a8, 5)),
        (false, tagged(&tagged(&plain, 0x8100, 5), 0x88a8, 6)),
        (false, ethernet(0x88b6, 60)),
        (false, tagged(&ethernet(0x88b6, 60), 0x8100, 5)),
        (true, ethernet(OURS, 14)),
    ];
    through(Filter::Ethertype(OURS), &frames)?;
    // The tag's own ethertype.
    through(
        Filter::Ethertype(0x8100),
        &[(false, plain.clone()), (true, tagged(&plain, 0x8100, 5)), (false, tagged(&plain, 0x88a8, 5))],
    )
}

fn the_filter_of_a_udp_port() -> Outcome {
    let (four, six) = (ipv4(5, UDP, 0, 7), ipv6(UDP, 7));
    let padded = |frame: &Vec<u8>| [&frame[..], &[0; 9]].concat();
    let cut = |frame: &Vec<u8>, bytes| frame[..frame.len() - bytes].to_vec();
    let frames = [
        (true, four.clone()),
        (true, six.clone()),
        (true, ipv4(5, UDP, 0x4000, 8)),
        (true, ipv4(15, UDP, 0, 9)),
        (true, ipv6(UDP, 9)),
        (true, padded(&four)),
        (true, padded(&six)),
        (false, ipv4(5, UDP, 0, 6)),
        (false, ipv4(5, UDP, 0, 10)),
        (false, ipv6(UDP, 6)),
        (false, ipv6(UDP, 10)),
        // The first fragment, a later one, the last.
        (false, ipv4(5, UDP, 0x2000, 7)),
        (false, ipv4(5, UDP, 0x2001, 7)),
        (false, ipv4(5, UDP, 0x0001, 7)),
        (false, ipv4(5, 6, 0, 7)),
        (false, ipv6(6, 7)),
        // Hop-by-hop options, a fragment header.
        (false, ipv6(0, 7)),
        (false, ipv6(44, 7)),
        // Four words of header, another version.
        (false, ipv4(4, UDP, 0, 7)),
        (false, with(four.clone(), 14, 0x6500)),
        (false, with(six.clone(), 14, 0x4000)),
        // Shorter than the IP header says, in and before the datagram; a total that is less than the header.
        (false, cut(&four, 1)),
        (false, cut(&six, 1)),
        (false, cut(&four, 15)),
        (false, cut(&six, 15)),
        (false, with(four.clone(), 16, 19)),
        // A datagram that is longer than the packet, the longest that goes, and lengths below a UDP header's.
        (false, with(four.clone(), 38, 19)),
        (false, with(six.clone(), 58, 19)),
        (true, with(four.clone(), 38, 8)),
        (false, with(four.clone(), 38, 7)),
        (false, with(six.clone(), 58, 7)),
        (false, with(four.clone(), 16, 27)),
        (false, tagged(&four, 0x8100, 5)),
        (false, tagged(&six, 0x8100, 5)),
        (false, ethernet(OURS, 60)),
    ];
    through(Filter::Udp { first: 7, last: 9 }, &frames)
}

fn vlan_tags_come_back() -> Outcome {
    let plain = ethernet(OURS, 60);
    let full = tagged(&ethernet(OURS, 1514), 0x8100, 0xe123);
    let frames = [plain.clone(), tagged(&plain, 0x8100, 0xe123), tagged(&plain, 0x88a8, 0), full];
    let two = tagged(&tagged(&plain, 0x8100, 5), 0x88a8, 6);
    through(Filter::All, &[&frames[..], &[two]].concat().into_iter().map(|frame| (true, frame)).collect::<Vec<_>>())?;
    // Chunks have room for it beside the longest frame, a power of two too.
    set(A, "mtu", "9000")?;
    set(B, "mtu", "9000")?;
    let longest = tagged(&ethernet(OURS, 2048), 0x8100, 5);
    for favour in BOTH {
        let (_a, mut a) = open(A, &ours(favour))?;
        let (_b, mut b) = open(B, &Config { longest_frame: Some(2048), ..ours(favour) })?;
        send(&mut a, std::slice::from_ref(&longest))?;
        equal(format_args!("{favour:?}"), receive(&mut b, 1) == [longest.clone()], true)?;
    }
    Ok(())
}

fn own_outgoing_frames_are_not_seen() -> Outcome {
    for rings in [1, 2] {
        let (_a, mut a) = {
            let mut device = AfPacket::open(A, &Config { rings, ..small(Filter::All) })?;
            let io = (0..rings).map(|queue| device.ring(queue)).collect::<Result<Vec<_>, _>>()?;
            device.start()?;
            (device, io)
        };
        let (_b, mut b) = open(B, &small(Filter::All))?;
        // The kernel sends a broadcast out of A, past A's packet sockets.
        broadcast(b"out")?;
        let out = receive(&mut b, 1);
        equal("what left A", out.len(), 1)?;
        // The same frame from the other side, A's own address as its source.
        send(&mut b, &out)?;
        let found: Vec<_> = a.iter_mut().flat_map(|io| receive(io, if rings == 1 { 1 } else { 0 })).collect();
        equal("what A saw", found, out)?;
    }
    Ok(())
}

fn broadcast(payload: &[u8]) -> Outcome {
    let socket = UdpSocket::bind("198.18.0.1:7000")?;
    socket.set_broadcast(true)?;
    socket.send_to(payload, "198.18.0.255:7001")?;
    Ok(())
}

/// The sum of a UDP datagram over IPv4 with its pseudo-header: 0xffff if the checksum is right.
fn udp_sum(frame: &[u8]) -> u32 {
    let datagram = &frame[34..];
    let words = |bytes: &[u8]| bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum::<u32>();
    let mut sum = words(&frame[26..34]) + u32::from(UDP) + datagram.len() as u32 + words(datagram);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn checksums_are_finished() -> Outcome {
    for favour in BOTH {
        let (_b, mut b) = open(B, &Config { favour, ..small(Filter::Udp { first: 7001, last: 7001 }) })?;
        for len in [0, 1, 18, 33, 1472] {
            broadcast(&vec![0xa5; len])?;
            let found = receive(&mut b, 1);
            let [frame] = &found[..] else { return Err(format!("{} frames", found.len()).into()) };
            equal("length", frame.len(), 14 + 20 + 8 + len)?;
            equal(format_args!("{favour:?} sum over {len}"), udp_sum(frame), 0xffff)?;
        }
    }
    Ok(())
}

fn loopback() -> Outcome {
    let small = |filter, favour| Config { favour, longest_frame: Some(2048), ..small(filter) };
    for favour in BOTH {
        let (_device, mut io) = open("lo", &small(Filter::Ethertype(OURS), favour))?;
        equal("longest", io.granted().longest_frame, 2048)?;
        let sent = [ethernet(OURS, 60), ethernet(OURS, 1000)];
        send(&mut io, &sent)?;
        equal("once each", receive(&mut io, 2), sent.to_vec())?;
        // A kernel socket's datagram: seen coming in, not going out.
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let port = socket.local_addr()?.port();
        let (_device, mut io) = open("lo", &small(Filter::Udp { first: port, last: port }, favour))?;
        socket.send_to(b"odd", ("127.0.0.1", port))?;
        let found = receive(&mut io, 1);
        equal("datagrams", found.len(), 1)?;
        equal("sum", udp_sum(&found[0]), 0xffff)?;
        // Longer than a chunk: too long, and nothing else is lost.
        socket.send_to(&[0; 9000], ("127.0.0.1", port))?;
        socket.send_to(b"again", ("127.0.0.1", port))?;
        equal("after a long one", receive(&mut io, 1).len(), 1)?;
        let counters = io.counters();
        equal("too long", (counters.rx_too_long, counters.lost()), (1, 1))?;
    }
    Ok(())
}

fn two_rings_get_every_frame_once() -> Outcome {
    for (favour, spread) in [(Favour::Delay, Spread::Hash), (Favour::Rate, Spread::Hash), (Favour::Delay, Spread::Queue)] {
        let filter = Filter::Udp { first: 1000, last: 1999 };
        let (_a, mut a) = open(A, &small(filter))?;
        let mut device = AfPacket::open(B, &Config { favour, spread, rings: 2, ring_entries: 256, ..small(filter) })?;
        let (mut one, mut other) = (device.ring(0)?, device.ring(1)?);
        device.start()?;
        let sent: Vec<_> = (1000..1060).map(|port| ipv4(5, UDP, 0, port)).collect();
        send(&mut a, &sent)?;
        let mut found = [receive(&mut one, 1), receive(&mut other, 0)];
        let least = found.iter().map(Vec::len).min().unwrap_or(0);
        if spread == Spread::Hash && least < 10 {
            return Err(format!("{favour:?}: one of the rings got {least} of 60 flows").into());
        }
        let all: BTreeSet<_> = found.iter().flatten().cloned().collect();
        equal("frames", found.iter_mut().map(|ring| ring.len()).sum::<usize>(), 60)?;
        equal("each of them", all, sent.into_iter().collect())?;
        equal("queues", (one.granted().queue, other.granted().queue, other.granted().queues), (0, 1, 2))?;
    }
    Ok(())
}

fn frames_without_a_flow_share_one_ring() -> Outcome {
    let (_a, mut a) = open(A, &ours(Favour::Delay))?;
    let mut device = AfPacket::open(B, &Config { rings: 2, ..ours(Favour::Delay) })?;
    let mut rings = [device.ring(0)?, device.ring(1)?];
    device.start()?;
    let sent: Vec<_> = (60..80).map(|size| ethernet(OURS, size)).collect();
    send(&mut a, &sent)?;
    let found: Vec<_> = rings.iter_mut().map(|io| receive(io, 0)).filter(|found| !found.is_empty()).collect();
    equal("the rings that got any", found, vec![sent])
}

fn a_ring_that_is_gone_gets_nothing() -> Outcome {
    let filter = Filter::Udp { first: 1000, last: 1999 };
    let (_a, mut a) = open(A, &small(filter))?;
    let mut device = AfPacket::open(B, &Config { rings: 2, ..small(filter) })?;
    let (one, mut other) = (device.ring(0)?, device.ring(1)?);
    device.start()?;
    drop(one);
    device.start()?;
    let sent: Vec<_> = (1000..1060).map(|port| ipv4(5, UDP, 0, port)).collect();
    send(&mut a, &sent)?;
    equal("frames", receive(&mut other, 60).len(), 60)
}

fn an_application_that_holds_every_frame() -> Outcome {
    for favour in BOTH {
        // 64 slots hold 64 frames; the blocks hold as many of the longest frames, so more of these.
        let config = Config { chunks: 16, ..ours(favour) };
        let ((_a, mut a), (_b, mut b)) = (open(A, &Config { chunks: 4096, ..ours(favour) })?, open(B, &config)?);
        const SENT: usize = 2560;
        for _ in 0..SENT / 64 {
            send(&mut a, &vec![ethernet(OURS, 1000); 64])?;
        }
        let held = arrivals(&mut b, 16);
        equal(format_args!("{favour:?} held"), (held.len(), b.pool().available()), (16, 0))?;
        equal("no chunk, no frame", b.rx_batch(&mut Vec::with_capacity(1), 1), 0)?;
        for arrival in held {
            b.pool().give(arrival.frame);
        }
        let mut rest = 0;
        loop {
            let more = receive(&mut b, 1).len();
            if more == 0 {
                break;
            }
            rest += more;
        }
        let full = b.counters().rx_ring_full as usize;
        equal(format_args!("{favour:?} received and lost"), 16 + rest + full, SENT)?;
        equal("the ring was full", full > 0 && rest >= 48, true)?;
        equal("nothing else was lost", b.counters().lost() as usize, full)?;
        send(&mut a, &[ethernet(OURS, 60)])?;
        equal(format_args!("{favour:?} afterwards"), receive(&mut b, 1).len(), 1)?;
    }
    Ok(())
}

fn frames_longer_than_the_mtu() -> Outcome {
    let ((_a, mut a), (_b, mut b)) = (open(A, &ours(Favour::Delay))?, open(B, &ours(Favour::Delay))?);
    let good = ethernet(OURS, 1514);
    send(&mut a, &[good.clone(), ethernet(OURS, 1515), vec![0xff; 13], good.clone()])?;
    equal("arrived", receive(&mut b, 2), vec![good; 2])?;
    equal("invalid", (a.counters().tx_invalid, a.counters().tx_busy), (2, 0))?;
    equal("chunks", a.pool().available(), 256)
}

fn a_link_without_carrier_is_busy() -> Outcome {
    let ((_a, mut a), (_b, mut b)) = (open(A, &ours(Favour::Delay))?, open(B, &ours(Favour::Delay))?);
    set_up(B, false)?;
    let frames = [ethernet(OURS, 60), ethernet(OURS, 61), ethernet(OURS, 62)];
    send(&mut a, &frames)?;
    equal("kept", (a.counters().tx_busy, a.pool().available()), (1, 253))?;
    set_up(B, true)?;
    eventually("carrier", || {
        a.kick(Kick::Send)?;
        Ok(a.pool().available() == 256)
    })?;
    equal("sent later", receive(&mut b, 3), frames.to_vec())
}

fn an_interface_goes_down() -> Outcome {
    for favour in BOTH {
        let ((_a, mut a), (_b, mut b)) = (open(A, &ours(favour))?, open(B, &ours(favour))?);
        a.kick(Kick::Receive)?;
        set_up(A, false)?;
        equal("polled", polled(&a, 900)?.contains(PollFlags::ERR), true)?;
        equal("told", a.kick(Kick::Receive).err().and_then(|e| e.raw_os_error()), Some(Errno::NETDOWN.raw_os_error()))?;
        queue(&mut a, &[ethernet(OURS, 60)])?;
        for _ in 0..2 {
            equal("sending", a.kick(Kick::Send).err().and_then(|e| e.raw_os_error()), Some(Errno::NETDOWN.raw_os_error()))?;
        }
        set_up(A, true)?;
        eventually("sent", || Ok(a.kick(Kick::Send).is_ok() && a.pool().available() == 256))?;
        equal("arrived", receive(&mut b, 1).len(), 1)?;
        send(&mut b, &[ethernet(OURS, 70)])?;
        equal("receives again", receive(&mut a, 1).len(), 1)?;
    }
    Ok(())
}

fn an_interface_is_removed() -> Outcome {
    let peer = Helper::start("peer")?;
    pair("hp-gone", "hp-far", peer.pid())?;
    hairpin_sys::netlink::Netlink::open()?.set_up("hp-gone")?;
    let (mut device, mut io) = open("hp-gone", &ours(Favour::Delay))?;
    queue(&mut io, &[ethernet(OURS, 60)])?;
    drop(peer);
    eventually("removed", || Ok(AfPacket::open("hp-gone", &ours(Favour::Delay)).is_err()))?;
    equal("received", receive(&mut io, 0).len(), 0)?;
    let sending = |io: &mut Io| io.kick(Kick::Send).err().and_then(|e| e.raw_os_error());
    eventually("gone", || Ok(sending(&mut io) == Some(Errno::NXIO.raw_os_error())))?;
    equal("still gone", sending(&mut io), Some(Errno::NXIO.raw_os_error()))?;
    device.stop()?;
    Ok(())
}

fn the_mtu_grows() -> Outcome {
    for favour in BOTH {
        set(A, "mtu", "1500")?;
        set(B, "mtu", "1500")?;
        let (_b, mut b) = open(B, &ours(favour))?;
        set(A, "mtu", "9000")?;
        set(B, "mtu", "9000")?;
        let (_a, mut a) = open(A, &ours(favour))?;
        equal("longest", a.granted().longest_frame, 9014)?;
        let short = ethernet(OURS, 1514);
        send(&mut a, &[ethernet(OURS, 9014), short.clone(), ethernet(OURS, 2049)])?;
        equal("arrived", receive(&mut b, 1), vec![short])?;
        equal("too long", (b.counters().rx_too_long, b.counters().lost()), (2, 2))?;
        send(&mut b, &[ethernet(OURS, 60)])?;
        equal("back", receive(&mut a, 1).len(), 1)?;
        // A ring that is opened now takes them.
        drop(b);
        let (_b, mut b) = open(B, &ours(favour))?;
        let long = ethernet(OURS, 9014);
        send(&mut a, std::slice::from_ref(&long))?;
        equal("arrived", receive(&mut b, 1), vec![long])?;
    }
    Ok(())
}

fn polled(io: &Io, ms: i64) -> Outcome<PollFlags> {
    let fd = io.waitable();
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 }))?;
    Ok(polled[0].revents())
}

fn poll_wakes() -> Outcome {
    for favour in BOTH {
        let ((_a, mut a), (_b, mut b)) = (open(A, &ours(favour))?, open(B, &ours(favour))?);
        let ready = |io: &Io, ms| polled(io, ms).map(|events| events.contains(PollFlags::IN));
        equal("at first", ready(&b, 20)?, false)?;
        for _ in 0..3 {
            send(&mut a, &[ethernet(OURS, 60)])?;
            equal(format_args!("{favour:?} with a frame"), ready(&b, 900)?, true)?;
            equal("received", receive(&mut b, 1).len(), 1)?;
            equal(format_args!("{favour:?} read"), ready(&b, 20)?, false)?;
        }
    }
    Ok(())
}

fn promiscuous_only_while_open() -> Outcome {
    let asked = |filter, promiscuous| Config { promiscuous, ..small(filter) };
    for (config, expected) in [
        (asked(Filter::All, false), true),
        (asked(Filter::Ethertype(OURS), false), false),
        (asked(Filter::Ethertype(OURS), true), true),
    ] {
        let opened = open(B, &config)?;
        equal("promiscuous", is_promiscuous(B)?, expected)?;
        drop(opened);
        equal("afterwards", is_promiscuous(B)?, false)?;
    }
    let helper = Helper::start("hold")?;
    equal("while another process has it open", is_promiscuous(B)?, true)?;
    let lingers = format!("/proc/{}/exe", helper.started.ok_or("no process started")?);
    drop(helper);
    eventually("no promiscuous interface is left", || Ok(!is_promiscuous(B)?))?;
    equal("the killed process's child is alive", std::fs::read_link(lingers).is_ok(), true)
}

fn open_reports_the_reason_of_failure() -> Outcome {
    let error = |interface: &str, config: &Config| AfPacket::open(interface, config).err();
    equal("no interface", matches!(error("hp-none", &small(Filter::All)), Some(OpenError::NoInterface(_))), true)?;
    let none = Config { rings: 0, ..small(Filter::All) };
    equal("no rings", matches!(error(B, &none), Some(OpenError::Config(_))), true)?;
    let mut device = AfPacket::open(B, &small(Filter::All))?;
    equal("no such ring", matches!(device.ring(1).err(), Some(OpenError::NoQueue { queue: 1, last: 0, .. })), true)?;
    let ring = device.ring(0)?;
    equal("taken", matches!(device.ring(0).err(), Some(OpenError::QueueTaken { queue: 0, .. })), true)?;
    drop(ring);
    let _ring = device.ring(0)?;
    set_up(B, false)?;
    equal("down", matches!(error(B, &small(Filter::All)), Some(OpenError::Down(_))), true)
}

/// Runs before any namespace is entered, as a user without rights.
pub fn opening_without_the_right_names_it() -> Outcome {
    match AfPacket::open("lo", &small(Filter::All)) {
        Err(error @ OpenError::Capability { capabilities: "CAP_NET_RAW", .. }) => {
            equal("what to do", error.to_string().contains("unshare -Urn"), true)
        }
        Err(other) => Err(format!("another error: {other}").into()),
        Ok(_) => Err("opened without CAP_NET_RAW".into()),
    }
}
