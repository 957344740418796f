//! The library's own work per round trip over the in-memory pair: inject, receive, send back, receive, all on one thread.

use std::error::Error;

use hairpin_packet::device::Config;
use hairpin_packet::memory;
use hairpin_packet::ring::{Coalesce, Received, Ring, RingConfig};
use hairpin_sys::clock::{Clock, MonotonicRaw};
use hairpin_sys::thread;

/// The most that a round trip of 64-byte frames may cost, in ns.
pub(crate) const MOST_NS: f64 = 150.0;
const FRAME: usize = 64;
const BLOCKS: usize = 501;
const ROUND_TRIPS: u32 = 2_000;

/// ns per round trip of 64-byte frames without coalescing, the median of the means of blocks; the calling thread stays on `cpu`.
pub(crate) fn round_trip_ns(cpu: u32) -> Result<f64, String> {
    thread::pin(cpu).map_err(|e| e.to_string())?;
    round_trip().map_err(|e| e.to_string())
}

fn round_trip() -> Result<f64, Box<dyn Error>> {
    // Without coalescing and with nothing to wait for, the rings read no clock; this one times the blocks.
    let clock = MonotonicRaw;
    let config = RingConfig { coalesce: Coalesce::Off, ..RingConfig::default() };
    let (one, other) = memory::pair(&Config::default())?;
    let (one, other) = (Ring::new(one, clock, config), Ring::new(other, clock, config));
    let (sender, frame) = (one.sender(), [1; FRAME]);
    let mut blocks = Vec::with_capacity(BLOCKS);
    for _ in 0..BLOCKS {
        let start = clock.start();
        for _ in 0..ROUND_TRIPS {
            let _ = sender.inject(&frame)?;
            let Received::Got(lease) = other.recv(0)? else { return Err("the request is not there".into()) };
            if lease.send_back()?.is_some() {
                return Err("the ring is full".into());
            }
            let Received::Got(reply) = one.recv(0)? else { return Err("the reply is not there".into()) };
            std::hint::black_box(&reply[..]);
        }
        blocks.push(clock.to_ns(clock.stop().since(start)) as f64 / f64::from(ROUND_TRIPS));
    }
    blocks.sort_by(f64::total_cmp);
    Ok(blocks[BLOCKS / 2])
}
