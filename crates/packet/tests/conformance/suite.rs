//! Rules that hold for every back end.

use std::time::Duration;

use hairpin_packet::granted::TimeSource;
use hairpin_packet::io::{Counters, Departed, Kick, PacketIo};
use hairpin_packet::ring::{Coalesce, Injected, Lease, Received, Ring, RingConfig, Wait};
use hairpin_sys::clock::MonotonicRaw;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Outcome;
use super::end::End;
use super::pairs::ENTRIES;

type Test = fn(End, End) -> Outcome;

/// Frames that are on their way at once: every ring has room for them.
const WINDOW: u32 = ENTRIES / 2;

/// Every test: its name, and its function over two joined ends.
pub const TESTS: &[(&str, Test)] = &[
    ("frames of every length arrive intact, both ways", every_length),
    ("order is kept, both ways at once", order),
    ("batches of every size", batches),
    ("nothing leaves before a kick, and a kick is idempotent", kicks),
    ("a full ring is a count and loses nothing", full_ring),
    ("a receive takes no more frames than requested", receive_at_most),
    ("other frames stay with the kernel, own ones do not come back", filter),
    ("an exhausted pool recovers", exhausted_pool),
    ("stamps are there if they were granted", stamps),
    ("sent frames have their stamps if they were granted", departures),
    ("readable when a frame has arrived, not before", waitable),
    ("round trips through rings, with every wait policy", wait_policies),
    ("a hundred thousand frames, and every counter adds up", long_run),
];

fn ensure(holds: bool, what: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(what.into().into()) }
}

/// Each end received every frame that the other sent, and every chunk is free again.
fn adds_up(one: &mut End, other: &mut End) -> Outcome {
    for _ in 0..2 {
        let (sent, received) = (one.counters(), other.counters());
        let pairs = (sent.tx_frames, sent.tx_bytes) == (received.rx_frames, received.rx_bytes);
        ensure(pairs && sent.lost() == 0, format!("sent {sent:?}, received {received:?}"))?;
        one.chunks_are_home()?;
        std::mem::swap(one, other);
    }
    Ok(())
}

fn every_length(mut one: End, mut other: End) -> Outcome {
    let longest = one.io.granted().longest_frame;
    ensure(longest >= 1514, format!("frames up to {longest} bytes only"))?;
    let lengths: Vec<usize> = (60..200).chain((200..1500).step_by(97)).chain(1498..=1514).chain([longest]).collect();
    for (number, len) in (0..).zip(lengths) {
        one.send_numbers(number, 1, len)?;
        other.expect(number, 1, len)?;
        other.send_numbers(number, 1, len)?;
        one.expect(number, 1, len)?;
    }
    adds_up(&mut one, &mut other)
}

fn order(mut one: End, mut other: End) -> Outcome {
    for first in (0..2_000).step_by(WINDOW as usize) {
        one.send_numbers(first, WINDOW, 60)?;
        other.send_numbers(first + 1_000_000, WINDOW, 100)?;
        one.expect(first + 1_000_000, WINDOW, 100)?;
        other.expect(first, WINDOW, 60)?;
    }
    adds_up(&mut one, &mut other)
}

fn batches(mut one: End, mut other: End) -> Outcome {
    let mut number = 0;
    for count in 1..=WINDOW {
        one.send_numbers(number, count, 64)?;
        other.expect(number, count, 64)?;
        number += count;
    }
    adds_up(&mut one, &mut other)
}

fn kicks(mut one: End, mut other: End) -> Outcome {
    one.io.kick(Kick::Send)?;
    one.io.kick(Kick::Receive)?;
    for number in 0..3 {
        one.fill(&End::frame(number, 60));
    }
    ensure(one.push() == (3, 0), "three frames do not fit into an empty ring")?;
    other.silence()?;
    for _ in 0..5 {
        one.send()?;
        one.io.kick(Kick::Send)?;
        other.io.kick(Kick::Receive)?;
    }
    other.expect(0, 3, 60)?;
    one.io.kick(Kick::Send)?;
    other.silence()?;
    adds_up(&mut one, &mut other)
}

fn full_ring(mut one: End, mut other: End) -> Outcome {
    let count = 4 * ENTRIES;
    for number in 0..count {
        ensure(one.fill(&End::frame(number, 60)), "no free chunk")?;
    }
    let (taken, left) = one.push();
    ensure(taken > 0 && left > 0, format!("{taken} frames of {count} fit into a ring of {ENTRIES}"))?;
    ensure(one.push().0 == 0, "a full ring takes no more")?;
    let (mut next, mut left) = (0, left);
    while next < count {
        one.kick()?;
        let got = other.receive(1)?.into_iter().chain(other.look(64));
        for got in got {
            ensure(got.bytes == End::frame(next, 60), format!("frame {next} is missing"))?;
            next += 1;
        }
        let before = left;
        left = one.push().1;
        ensure(left <= before, "frames became more")?;
    }
    other.silence()?;
    adds_up(&mut one, &mut other)
}

fn receive_at_most(mut one: End, mut other: End) -> Outcome {
    one.send_numbers(0, 20, 60)?;
    // All have arrived when the last has.
    let mut kept = Vec::new();
    let due = std::time::Instant::now() + Duration::from_secs(5);
    for most in [1, 3, 0, 7, 64] {
        let before = kept.len();
        let mut received = other.keep(&mut kept, most);
        while received == 0 && most > 0 && std::time::Instant::now() < due {
            received = other.keep(&mut kept, most);
        }
        ensure(received <= most && kept.len() == before + received, format!("{received} of at most {most}"))?;
    }
    while kept.len() < 20 && std::time::Instant::now() < due {
        other.keep(&mut kept, 64);
    }
    let umem = other.io.umem().clone();
    for (number, arrival) in (0..).zip(&kept) {
        ensure(umem.bytes(&arrival.frame) == End::frame(number, 60), format!("frame {number}: held frames changed"))?;
    }
    ensure(kept.len() == 20, format!("{} frames of 20", kept.len()))?;
    for arrival in kept {
        other.io.pool().give(arrival.frame);
    }
    adds_up(&mut one, &mut other)
}

fn filter(mut one: End, mut other: End) -> Outcome {
    let mut foreign = End::frame(0, 60);
    foreign[12..14].copy_from_slice(&0x88b6u16.to_be_bytes());
    ensure(one.fill(&foreign), "no free chunk")?;
    one.send()?;
    one.send_numbers(1, 1, 60)?;
    other.expect(1, 1, 60)?;
    other.silence()?;
    one.silence()?;
    one.chunks_are_home()?;
    other.chunks_are_home()
}

fn exhausted_pool(mut one: End, mut other: End) -> Outcome {
    for round in 0..3 {
        let mut hoard = Vec::new();
        while let Some(frame) = other.io.pool().take() {
            hoard.push(frame);
        }
        ensure(!other.fill(&End::frame(0, 60)), "a chunk beyond the last")?;
        let (mut kept, mut sent) = (Vec::new(), 0);
        // Far more than the device can have chunks for.
        while sent < 40 * ENTRIES {
            while one.fill(&End::frame(sent, 60)) {
                sent += 1;
            }
            one.push();
            one.io.kick(Kick::Send)?;
            one.push();
            if other.keep(&mut kept, 64) == 0 && one.io.pool().available() == 0 {
                break;
            }
        }
        for frame in hoard {
            other.io.pool().give(frame);
        }
        for arrival in kept {
            other.io.pool().give(arrival.frame);
        }
        // The frames that stayed arrive, or were counted as lost; then all is as before.
        let due = std::time::Instant::now() + Duration::from_secs(5);
        loop {
            let left = one.push().1;
            one.io.kick(Kick::Send)?;
            other.io.kick(Kick::Receive)?;
            other.look(64);
            let (sent, received) = (one.counters(), other.counters());
            if left == 0 && sent.tx_frames == received.rx_frames + received.lost() {
                break;
            }
            let late = std::time::Instant::now() > due;
            ensure(!late, format!("round {round}: sent {sent:?}, received {received:?}"))?;
        }
        one.chunks_are_home()?;
        other.chunks_are_home()?;
        one.send_numbers(1_000, WINDOW, 60)?;
        other.expect(1_000, WINDOW, 60)?;
    }
    one.chunks_are_home()?;
    other.chunks_are_home()
}

fn stamps(mut one: End, mut other: End) -> Outcome {
    let granted = other.io.granted().rx_time;
    one.send_numbers(0, WINDOW, 60)?;
    let mut last = None;
    for got in other.receive(WINDOW as usize)? {
        // A device's stamps are a claim of its driver: veth makes it and has none.
        let as_granted = got.time.is_some() == granted.is_some() || granted == Some(TimeSource::Hardware);
        ensure(as_granted, format!("granted: {granted:?}, stamp: {:?}", got.time))?;
        let ns = match got.time {
            Some(hairpin_packet::io::Arrived::Hardware(ns) | hairpin_packet::io::Arrived::Software(ns)) => Some(ns),
            _ => None,
        };
        ensure(ns != Some(0) && ns >= last, format!("{ns:?} after {last:?}"))?;
        last = ns;
    }
    adds_up(&mut one, &mut other)
}

fn departures(mut one: End, mut other: End) -> Outcome {
    let granted = one.io.granted().tx_time;
    let (mut first, mut last) = (0, 0);
    // From the open on; then by frame, off, and on again.
    for (taken, asked) in [(None, None), (None, Some(false)), (None, Some(true)), (Some(false), Some(true)), (Some(true), None)] {
        taken.map_or(Ok(()), |taken| one.io.take_stamps(taken))?;
        asked.into_iter().for_each(|asked| one.io.ask_departures(asked));
        one.send_numbers(first, WINDOW, 60)?;
        other.expect(first, WINDOW, 60)?;
        let due = granted.is_some() && taken != Some(false) && asked != Some(false);
        let came = one.departed(if due { WINDOW as usize } else { 0 })?;
        let mut frames: Vec<u32> = came.iter().map(|departure| departure.frame).collect();
        frames.sort_unstable();
        let expected: Vec<u32> = if due { (first..first + WINDOW).collect() } else { Vec::new() };
        ensure(frames == expected, format!("{taken:?} {asked:?}: stamps of the frames {frames:?}, not {expected:?}"))?;
        for departure in came {
            let (by, ns) = match departure.time {
                Departed::Hardware(ns) => (TimeSource::Hardware, ns),
                Departed::Software(ns) => (TimeSource::Software, ns),
                Departed::Completed(ns) => (TimeSource::Completion, ns),
                _ => return Err("a stamp of an unknown kind".into()),
            };
            ensure(Some(by) == granted && ns > 0 && ns >= last, format!("{departure:?} after {last}, granted: {granted:?}"))?;
            last = ns;
        }
        first += WINDOW;
    }
    ensure(one.counters().tx_unstamped == 0, format!("{:?}", one.counters()))?;
    adds_up(&mut one, &mut other)
}

fn waitable(mut one: End, mut other: End) -> Outcome {
    let readable = |end: &mut End, ms: i64| -> Outcome<bool> {
        end.io.kick(Kick::Receive)?;
        let descriptor = end.io.waitable();
        let limit = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
        Ok(poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&limit))? == 1)
    };
    for number in 0..20 {
        ensure(!readable(&mut other, 0)?, "readable, and nothing is there")?;
        one.send_numbers(number, 1, 60)?;
        ensure(readable(&mut other, 5_000)?, "not readable after a frame was sent")?;
        other.expect(number, 1, 60)?;
    }
    adds_up(&mut one, &mut other)
}

fn wait_policies(one: End, other: End) -> Outcome {
    let (mut one, mut other) = (one.io, other.io);
    let spin = Duration::from_micros(20);
    for wait in [Wait::Spin, Wait::BusyPoll, Wait::Block, Wait::Adaptive { spin }] {
        for coalesce in [Coalesce::Off, Coalesce::ADAPTIVE] {
            let config = RingConfig { wait, coalesce, hold: None };
            let (client, server) = (Ring::new(one, MonotonicRaw, config), Ring::new(other, MonotonicRaw, config));
            for number in 0..200 {
                ensure(client.sender().inject(&End::frame(number, 60))? == Injected::Sent, "the ring is full")?;
                let request = arrives(&client, &server).map_err(|e| format!("{wait:?}: request {number}: {e}"))?;
                ensure(request.send_back()?.is_none(), "the ring is full")?;
                let reply = arrives(&server, &client).map_err(|e| format!("{wait:?}: reply {number}: {e}"))?;
                ensure(reply[..] == End::frame(number, 60), format!("{wait:?}: reply {number}: {:02x?}", &reply[..]))?;
            }
            ensure(matches!(client.recv(2)?, Received::Expired), "one reply too many")?;
            ensure(client.held() == 0 && server.held() == 0, "leases are out")?;
            (one, other) = (client.into_io(), server.into_io());
        }
    }
    Ok(())
}

type DynRing = Ring<Box<dyn PacketIo>, MonotonicRaw>;

/// Sends the committed frames of one ring and receives them on the other, whose wait has to see them.
fn arrives<'r>(from: &DynRing, to: &'r DynRing) -> Outcome<Lease<'r, Box<dyn PacketIo>, MonotonicRaw>> {
    // A busy device takes it with a later flush.
    for _ in 0..2_000 {
        from.flush()?;
        match to.recv(2)? {
            Received::Got(lease) => return Ok(lease),
            Received::Expired => {}
            _ => return Err("the wait ended with neither a frame nor its limit".into()),
        }
    }
    Err("does not arrive".into())
}

fn long_run(mut one: End, mut other: End) -> Outcome {
    let frames = 100_000 - 100_000 % WINDOW;
    for first in (0..frames).step_by(WINDOW as usize) {
        one.send_numbers(first, WINDOW, 60)?;
        other.expect(first, WINDOW, 60)?;
    }
    let mut expected = Counters::default();
    (expected.tx_frames, expected.tx_bytes) = (frames.into(), u64::from(frames) * 60);
    let sent = one.counters();
    // Nobody takes the stamps here.
    (expected.tx_busy, expected.tx_unstamped) = (sent.tx_busy, sent.tx_unstamped);
    ensure(sent == expected, format!("{sent:?}"))?;
    adds_up(&mut one, &mut other)
}
