//! Sends every frame back with its MAC addresses exchanged: `bounce packet|xdp INTERFACE [FILTER] [SECONDS]`.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::bounce::{Bounce, BounceConfig, Rewrite};
use hairpin_packet::clock::Tsc;
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::ring::{Ring, RingConfig};

const USAGE: &str = "bounce packet|xdp INTERFACE [all|udp:PORT|ethertype:0xNNNN] [SECONDS]";
const BATCH: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let interface = words.get(1).ok_or(USAGE)?;
    let filter = words.get(2).map_or(Ok(Filter::All), |word| word.parse())?;
    let seconds = words.get(3).map_or(Ok(u32::MAX), |word| word.parse())?;
    match words[0].as_str() {
        "packet" => run::<AfPacket>(interface, filter, seconds),
        "xdp" => run::<AfXdp>(interface, filter, seconds),
        _ => Err(USAGE.into()),
    }
}

fn run<B: BackEnd>(interface: &str, filter: Filter, seconds: u32) -> Result<(), Box<dyn Error>> {
    let mut device = B::open(interface, &Config { filter, ..Config::default() })?;
    let ring = Ring::new(device.ring(0)?, Tsc::calibrate()?, RingConfig::default());
    let mut bounce = Bounce::new(BounceConfig { filter, rewrite: Rewrite::Macs, ..BounceConfig::default() })?;
    let mut scratch = Vec::with_capacity(BATCH);
    device.start()?;
    for _ in 0..seconds {
        let (before, end) = (bounce.counters(), Instant::now() + Duration::from_secs(1));
        while Instant::now() < end {
            let _ = bounce.turn(&ring, &mut scratch, BATCH, 10)?;
        }
        bounce.second();
        let second = bounce.counters().since(&before);
        let mbit = second.tx_wire_bytes as f64 * 8.0 / 1e6;
        let (dropped, lost) = (second.dropped(), ring.counters().io.lost());
        println!("{} frames/s, {mbit:.1} Mbit/s on the wire, {dropped} dropped, {lost} lost so far", second.tx_frames);
    }
    Ok(device.stop()?)
}
