//! The metadata of received frames.

use std::time::Instant;

use hairpin_packet::af_xdp::{AfXdp, Queue};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::granted::{Feature, Mode, TimeSource};
use hairpin_packet::io::{Arrival, PacketIo};

use super::end::{A, B, End, Outcome, PATIENCE, config, contains, equal, frame, pair};
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
        equal("the payload", &ring.umem().bytes(&arrival.frame)[42..48], b"wanted")?;
        equal("nobody stamped it", arrival.time, None)?;
        hashes.push(arrival.hash.ok_or("no hash")?);
        ring.pool().give(arrival.frame);
    }
    // More frames than chunks go round at first, so places that were written before are used again.
    hashes.sort_unstable();
    hashes.dedup();
    equal("different flows", hashes.len() > 100, true)
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
        for feature in [Feature::HardwareTime, Feature::Hash] {
            contains(&device.granted().require(feature).err().ok_or("it is there")?.to_string(), why)?;
        }
    }
    Ok(())
}
