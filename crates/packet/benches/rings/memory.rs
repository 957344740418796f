//! The library's own work per round trip over the in-memory pair: inject, receive, send back, receive, on one thread.
//!
//! Also measures the bouncer's work on a frame between receiving and sending it. The bound is that of the default, no coalescing,
//! with 64 bytes. Adaptive coalescing adds the clock readings of two sends.

use hairpin_packet::bounce::{Bounce, BounceConfig, Rewrite};
use hairpin_packet::device::Config;
use hairpin_packet::memory;
use hairpin_packet::ring::{Coalesce, Received, Ring, RingConfig};
use hairpin_sys::clock::{Clock, Tsc};

use super::bound::Limit;
use super::{Outcome, Typical};

/// The most that a round trip of 64-byte frames may cost, in ns.
const BOUND: Limit = Limit::AtMost(150.0);
const BLOCKS: usize = 501;
const ROUND_TRIPS: u32 = 2_000;

/// Measures; true if the bound is missed.
pub(super) fn bench() -> Outcome<bool> {
    let clock = Tsc::calibrate()?;
    let mut bounded = Typical(None);
    for (name, coalesce) in [("off", Coalesce::Off), ("adaptive", Coalesce::ADAPTIVE)] {
        for len in [64, 1500] {
            let typical = round_trip(clock, coalesce, len)?;
            println!("coalesce {name:8} {len:4} bytes: {typical:.1} ns a round trip");
            if coalesce == Coalesce::Off && len == 64 {
                bounded = typical;
            }
        }
    }
    for rewrite in [Rewrite::None, Rewrite::All] {
        for len in [64, 1500] {
            println!("bounce {rewrite:4} {len:4} bytes: {:.1} ns a frame", bounce(clock, rewrite, len)?);
        }
    }
    let word = bounded.word(BOUND);
    println!("a round trip by default, 64 bytes: {bounded:.1} ns, bound {}: {word}", BOUND.text());
    Ok(word.missed())
}

/// Of the blocks' means, in ns.
fn round_trip(clock: Tsc, coalesce: Coalesce, len: usize) -> Outcome<Typical> {
    let config = RingConfig { coalesce, ..RingConfig::default() };
    let (one, other) = memory::pair(&Config::default())?;
    let (one, other) = (Ring::new(one, clock, config), Ring::new(other, clock, config));
    let (sender, frame) = (one.sender(), vec![1; len]);
    let mut blocks = Vec::with_capacity(BLOCKS);
    for _ in 0..BLOCKS {
        let start = clock.start();
        for _ in 0..ROUND_TRIPS {
            let _ = sender.inject(&frame)?;
            one.flush()?;
            let Received::Got(lease) = other.recv(0)? else { return Err("the request is not there".into()) };
            if lease.send_back()?.is_some() {
                return Err("the ring is full".into());
            }
            other.flush()?;
            let Received::Got(reply) = one.recv(0)? else { return Err("the reply is not there".into()) };
            std::hint::black_box(&reply[..]);
        }
        blocks.push(clock.to_ns(clock.stop().since(start)) as f64 / f64::from(ROUND_TRIPS));
    }
    Ok(Typical::of(&blocks))
}

/// The bouncer's work on a UDP frame of `len` bytes, in ns.
fn bounce(clock: Tsc, rewrite: Rewrite, len: usize) -> Outcome<Typical> {
    let mut bounce = Bounce::new(BounceConfig { filter: "udp:7".parse()?, rewrite, ..BounceConfig::default() })?;
    let mut frame = vec![2; len];
    let (ip, udp) = ((len - 14) as u16, (len - 34) as u16);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, (ip >> 8) as u8, ip as u8, 0, 0, 0, 0, 64, 17]);
    frame[34..42].copy_from_slice(&[0, 7, 0, 7, (udp >> 8) as u8, udp as u8, 0, 0]);
    let mut blocks = Vec::with_capacity(BLOCKS);
    for block in 0..BLOCKS as u32 {
        let start = clock.start();
        for n in 0..ROUND_TRIPS {
            // Another number each time, or it would be dropped as repeated.
            frame[42..46].copy_from_slice(&(block * ROUND_TRIPS + n).to_be_bytes());
            if !bounce.passes(std::hint::black_box(&mut frame)) {
                return Err("a frame was dropped".into());
            }
        }
        blocks.push(clock.to_ns(clock.stop().since(start)) as f64 / f64::from(ROUND_TRIPS));
    }
    Ok(Typical::of(&blocks))
}
