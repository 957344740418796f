//! The metadata of received frames, and the stamps of sent ones.

use std::time::Instant;

use hairpin_packet::af_xdp::{AfXdp, Queue};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::granted::{Feature, Mode, TimeSource};
use hairpin_packet::io::{Arrival, Departed, Departure, Kick, PacketIo};
use hairpin_sys::netlink::{Netlink, XdpMetadata};
use rustix::time::{DynamicClockId, clock_gettime_dynamic};

use super::end::{A, B, ETHERTYPE, End, Outcome, PATIENCE, config, contains, equal, frame, pair, pair_with};
use super::other::Peer;

fn one(ring: &mut Queue) -> Outcome<Arrival> {
    let (give_up, mut arrivals) = (Instant::now() + PATIENCE, Vec::new());
    while Instant::now() < give_up {
        if ring.rx_batch(&mut arrivals, 1) == 1 {
            return arrivals.pop().ok_or_else(|| "one came".into());
        }
    }
    Err(format!("nothing came: {:?}", ring.counters()).into())
}

pub fn the_hash_of_a_kernel_socket_comes() -> Outcome {
    let mut peer = Peer::linked()?;
    let config = Config { filter: "udp:7000".parse()?, metadata: true, mode: Some(Mode::Native), ..Config::default() };
    let mut device = AfXdp::open(A, &config)?;
    let mut ring = device.ring(0)?;
    device.start()?;
    let granted = ring.granted();
    equal("granted", (granted.rx_time, granted.rx_hash), (Some(TimeSource::Hardware), true))?;
    let mut hashes = Vec::new();
    for _ in 0..600 {
        // From another port each time.
        peer.ask("udp-to 198.18.0.1:7000 wanted")?;
        let arrival = one(&mut ring)?;
        equal("no tag", arrival.vlan, None)?;
        equal("the payload", &ring.umem().bytes(&arrival.frame)[42..48], b"wanted")?;
        equal("nobody stamped it", arrival.time, None)?;
        hashes.push(arrival.hash.ok_or("no hash")?);
        ring.pool().give(arrival.frame);
    }
    // More frames than chunks go round at first, so places that were written before are used again.
    hashes.sort_unstable();
    hashes.dedup();
    equal("different flows", hashes.len() > 100, true)?;
    // For a while the frames come as if nobody had asked.
    for taken in [false, true] {
        ring.take_stamps(taken)?;
        for _ in 0..3 {
            peer.ask("udp-to 198.18.0.1:7000 wanted")?;
            let arrival = one(&mut ring)?;
            equal("a hash", arrival.hash.is_some(), taken)?;
            ring.pool().give(arrival.frame);
        }
    }
    Ok(())
}

pub fn metadata_comes_with_frames_of_any_length() -> Outcome {
    pair(1, Some(9000))?;
    for longest_frame in [None, Some(1514)] {
        let asked = Config { ring_entries: 512, chunks: 1024, longest_frame, ..config(Mode::Native) };
        let mut a = End::of(A, &asked, 1)?;
        let mut b = End::of(B, &Config { metadata: true, ..asked }, 1)?;
        let longest = longest_frame.unwrap_or(9014);
        for size in [60, 1514, 3840, 3841, 9014].into_iter().filter(|size| *size <= longest) {
            a.send(0, &[frame(size)])?;
            let ring = &mut b.rings[0];
            let arrival = one(ring)?;
            equal("the frame", ring.umem().bytes(&arrival.frame) == frame(size), true)?;
            equal("hash and stamp", (arrival.hash.is_some(), arrival.time), (true, None))?;
            ring.pool().give(arrival.frame);
        }
        // The other end did not ask.
        b.send(0, &[frame(60)])?;
        let arrival = one(&mut a.rings[0])?;
        equal("not asked", (arrival.hash, arrival.time), (None, None))?;
        a.rings[0].pool().give(arrival.frame);
    }
    Ok(())
}

pub fn metadata_that_is_not_there_has_its_reason() -> Outcome {
    pair(1, None)?;
    let asked = Config { metadata: true, ..config(Mode::Generic) };
    for (interface, config, why) in [
        (A, asked.clone(), "generic XDP has no device to ask"),
        (A, Config { metadata: false, mode: Some(Mode::Native), ..asked.clone() }, "not asked for"),
        ("lo", Config { mode: None, ..asked }, "generic XDP has no device to ask"),
    ] {
        let device = AfXdp::open(interface, &config)?;
        for feature in [Feature::HardwareTime, Feature::Hash, Feature::Vlan] {
            contains(&device.granted().require(feature).err().ok_or("it is there")?.to_string(), why)?;
        }
    }
    Ok(())
}

/// CLOCK_TAI in ns, by which the kernel stamps what it has done with.
fn tai() -> u64 {
    let now = clock_gettime_dynamic(DynamicClockId::Tai).expect("Linux has this clock");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// All stamps of sent frames, as soon as there are `count`.
fn departures(ring: &mut Queue, count: usize) -> Outcome<Vec<Departure>> {
    let (give_up, mut came) = (Instant::now() + PATIENCE, Vec::new());
    while came.len() < count {
        ring.departures(&mut came)?;
        if Instant::now() > give_up {
            return Err(format!("{} of {count} stamps: {:?}", came.len(), ring.counters()).into());
        }
    }
    Ok(came)
}

/// What this kernel's AF_XDP stamps of sent frames in copy mode; `None` before Linux 6.8.
fn stamps_sent() -> Outcome<Option<TimeSource>> {
    let told = XdpMetadata::of(Netlink::open()?.link(A)?.index);
    Ok(told.ok().and_then(|told| told.tx_time).map(|_| TimeSource::Completion))
}

pub fn sent_frames_are_stamped_when_the_kernel_has_done_with_them() -> Outcome {
    // A queue to spare: sending has its own record of the memory there.
    for tx_queues in [1, 2] {
        pair_with(1, tx_queues, None)?;
        let expected = stamps_sent()?;
        for mode in [Mode::Generic, Mode::Native].into_iter().take(if tx_queues == 1 { 2 } else { 1 }) {
            let asked = Config { departures: true, ..config(mode) };
            let (mut a, mut b) = (End::of(A, &asked, 1)?, End::of(B, &config(mode), 1)?);
            let granted = a.rings[0].granted().clone();
            equal("granted", (granted.tx_time, granted.send_queue), (expected, tx_queues - 1))?;
            let why = granted.require(Feature::HardwareDeparture).unwrap_err().to_string();
            contains(&why, if expected.is_some() { "not when it leaves" } else { "the kernel" })?;
            equal("not asked", b.rings[0].granted().tx_time, None)?;
            for turn in 0..20_u32 {
                let before = tai();
                a.send(0, &[frame(60), frame(1514), frame(61)])?;
                equal("the frames", b.receive(0, 3)?, vec![frame(60), frame(1514), frame(61)])?;
                let came = departures(&mut a.rings[0], if expected.is_some() { 3 } else { 0 })?;
                let frames: Vec<u32> = came.iter().map(|departure| departure.frame).collect();
                let all: Vec<u32> = (3 * turn..3 * turn + 3).collect();
                equal("their numbers", frames, if expected.is_some() { all } else { Vec::new() })?;
                for departure in came {
                    match departure.time {
                        Departed::Completed(ns) if (before..=tai()).contains(&ns) => {}
                        other => return Err(format!("{other:?} after {before}").into()),
                    }
                }
                b.send(0, &[frame(60)])?;
                a.receive(0, 1)?;
            }
            equal("not asked", departures(&mut b.rings[0], 0)?, Vec::new())?;
        }
        super::end::ip(&["link", "delete", A])?;
    }
    Ok(())
}

pub fn a_frame_without_room_for_a_stamps_request_is_counted() -> Outcome {
    pair(1, None)?;
    if stamps_sent()?.is_none() {
        return Ok(());
    }
    let asked = Config { departures: true, ..config(Mode::Generic) };
    let (mut a, mut b) = (End::of(A, &asked, 1)?, End::of(B, &config(Mode::Generic), 1)?);
    let ring = &mut a.rings[0];
    let umem = ring.umem().clone();
    let mut out = Vec::new();
    // At the chunk's very start there is no room, but behind a short frame there is; the second one fills its chunk, and the
    // third one is empty.
    for bytes in [frame(60), frame(umem.chunk_bytes()), Vec::new(), frame(64)] {
        let mut sent = ring.pool().take().ok_or("no chunk")?;
        sent.clear();
        sent.set_len(bytes.len());
        umem.bytes_mut(&mut sent).copy_from_slice(&bytes);
        out.push(sent);
    }
    equal("taken", ring.tx_batch(&mut out), 4)?;
    ring.kick(Kick::Send)?;
    equal("what arrived", b.receive(0, 2)?, vec![frame(60), frame(64)])?;
    let frames: Vec<u32> = departures(&mut a.rings[0], 2)?.iter().map(|departure| departure.frame).collect();
    equal("stamped", frames, vec![0, 3])?;
    equal("invalid", a.rings[0].counters().tx_invalid, 2)
}

pub fn stamps_of_long_frames_are_refused_and_unread_ones_counted() -> Outcome {
    pair(1, Some(9000))?;
    let asked = Config { filter: hairpin_packet::filter::Filter::Ethertype(ETHERTYPE), departures: true, ..config(Mode::Native) };
    let mut a = End::of(A, &asked, 1)?;
    equal("granted", (a.rings[0].granted().tx_time, a.rings[0].granted().multi_buffer), (None, true))?;
    contains(&a.rings[0].granted().require(Feature::HardwareDeparture).unwrap_err().to_string(), "a frame of several pages")?;
    a.send(0, &[frame(9014)])?;
    equal("no stamp", departures(&mut a.rings[0], 0)?, Vec::new())?;
    drop(a);
    let expected = stamps_sent()?;
    let short = Config { longest_frame: Some(1514), ring_entries: 64, chunks: 256, ..asked };
    let (mut a, mut b) = (End::of(A, &short, 1)?, End::of(B, &config(Mode::Native), 1)?);
    equal("granted", a.rings[0].granted().tx_time, expected)?;
    for _ in 0..3 {
        a.send(0, &vec![frame(60); 32])?;
        b.receive(0, 32)?;
    }
    // The chunks come back when they are needed; as many stamps are kept as the ring has entries.
    let came = departures(&mut a.rings[0], if expected.is_some() { 64 } else { 0 })?;
    let lost = a.rings[0].counters().tx_unstamped;
    equal("kept and lost", came.len() as u64 + lost, if expected.is_some() { 96 } else { 0 })?;
    equal("the frames", a.rings[0].counters().lost(), 0)
}
