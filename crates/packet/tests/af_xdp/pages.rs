//! Frames longer than a page.

use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::granted::{Feature, Mode};
use hairpin_packet::io::PacketIo;

use super::MODES;
use super::end::{A, B, End, Outcome, config, equal, frame, ip, pair};

fn long(mode: Mode) -> Config {
    Config { ring_entries: 512, chunks: 1024, ..config(mode) }
}

fn both(config: &Config) -> Outcome<[End; 2]> {
    Ok([End::of(A, config, 1)?, End::of(B, config, 1)?])
}

pub fn frames_of_several_pages_cross() -> Outcome {
    pair(1, Some(9000))?;
    for mode in MODES {
        let [mut a, mut b] = both(&long(mode))?;
        for end in [&a, &b] {
            let granted = end.rings[0].granted();
            equal("granted", (granted.mode, granted.multi_buffer, granted.longest_frame), (Some(mode), true, 9014))?;
            granted.require(Feature::MultiBuffer)?;
        }
        let sizes = [60, 1500, 1514, 3507, 3521, 3839, 3840, 3841, 4096, 4097, 7680, 7681, 8192, 8193, 8900, 9013, 9014];
        let mut bytes = 0;
        for size in sizes {
            a.send(0, &[frame(size)])?;
            let came = b.receive(0, 1).map_err(|error| format!("{mode} {size}: {error}"))?;
            equal(&format!("{mode} {size}"), came[0] == frame(size), true)?;
            b.send(0, &came)?;
            let back = a.receive(0, 1).map_err(|error| format!("{mode} {size} back: {error}"))?;
            equal(&format!("{mode} {size} back"), back[0] == frame(size), true)?;
            bytes += size as u64;
        }
        for end in [&mut a, &mut b] {
            let (counted, frames) = (end.rings[0].counters(), sizes.len() as u64);
            let all = (counted.rx_frames, counted.rx_bytes, counted.tx_frames, counted.tx_bytes, counted.lost());
            equal("counters", all, (frames, bytes, frames, bytes, 0))?;
        }
    }
    Ok(())
}

pub fn long_frames_come_round() -> Outcome {
    pair(1, Some(9000))?;
    for mode in MODES {
        let [mut a, mut b] = both(&long(mode))?;
        // Every index, page and chunk is reused several times; received frames are sent back in place.
        for turn in 0..120 {
            let frames: Vec<_> = (0..25).map(|i| frame(60 + (turn * 25 + i) * 7919 % 8955)).collect();
            a.send(0, &frames)?;
            equal("order", b.receive(0, frames.len())? == frames, true)?;
            let (ring, mut arrivals) = (&mut b.rings[0], Vec::new());
            equal("nothing is left", ring.rx_batch(&mut arrivals, 64), 0)?;
        }
        equal("lost", (a.rings[0].counters().lost(), b.rings[0].counters().lost()), (0, 0))?;
        equal("chunks that came back", a.rings[0].pool().available() > a.rings[0].pool().chunks() / 2, true)?;
    }
    Ok(())
}

pub fn held_chunks_leave_long_frames_in_the_ring() -> Outcome {
    pair(1, Some(9000))?;
    let small = Config { ring_entries: 64, chunks: 65, ..config(Mode::Generic) };
    let [mut a, mut b] = both(&small)?;
    let mut held = Vec::new();
    while let Some(frame) = b.rings[0].pool().take() {
        held.push(frame);
    }
    a.send(0, &[frame(9000), frame(61)])?;
    b.none(0)?;
    for frame in held {
        b.rings[0].pool().give(frame);
    }
    equal("once there are chunks", b.receive(0, 2)? == [frame(9000), frame(61)], true)?;
    // The ring has 64 pages, and each of these takes three.
    for _ in 0..20 {
        a.send(0, &[frame(9000), frame(9000)])?;
    }
    b.receive(0, 21)?;
    b.none(0)?;
    let counted = b.rings[0].counters();
    equal("all are counted", counted.rx_frames + counted.lost(), 42)?;
    equal("some found no pages", counted.lost() > 0, true)?;
    a.send(0, &[frame(8999)])?;
    equal("afterwards", b.receive(0, 1)? == [frame(8999)], true)
}

pub fn frames_beyond_several_pages_are_counted() -> Outcome {
    pair(1, Some(5000))?;
    let mut b = End::of(B, &long(Mode::Generic), 1)?;
    equal("longest", b.device.granted().longest_frame, 5014)?;
    for end in [A, B] {
        ip(&["link", "set", end, "mtu", "9000"])?;
    }
    let mut a = End::of(A, &long(Mode::Generic), 1)?;
    a.send(0, &[frame(9000), frame(60), frame(8193), frame(5014)])?;
    equal("what fits its chunks", b.receive(0, 2)? == [frame(60), frame(5014)], true)?;
    b.none(0)?;
    equal("too long", b.rings[0].counters().rx_too_long, 2)
}

/// A configuration with short frames uses single pages at any MTU.
pub fn short_frames_take_one_chunk_over_any_mtu() -> Outcome {
    pair(1, Some(9000))?;
    for mode in MODES {
        let short = Config { longest_frame: Some(1514), ..long(mode) };
        let [mut a, mut b] = both(&short)?;
        equal("granted", (a.device.granted().multi_buffer, a.device.granted().longest_frame), (false, 1514))?;
        equal("chunk", a.rings[0].umem().chunk_bytes(), 2048)?;
        a.send(0, &[frame(60), frame(1514)])?;
        equal("frames", b.receive(0, 2)?, vec![frame(60), frame(1514)])?;
    }
    Ok(())
}
