//! Counts the frames that arrive and prints once a second: `receive_and_count packet|xdp INTERFACE [FILTER] [SECONDS]`.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;

use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::clock::MonotonicRaw;
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::ring::{Received, Ring, RingConfig, Wait};

const USAGE: &str = "receive_and_count packet|xdp INTERFACE [all|udp:PORT|ethertype:0xNNNN] [SECONDS]";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let interface = words.get(1).ok_or(USAGE)?;
    let filter = words.get(2).map_or(Ok(Default::default()), |word| word.parse())?;
    let seconds = words.get(3).map_or(Ok(u32::MAX), |word| word.parse())?;
    let config = Config { filter, ..Config::default() };
    match words[0].as_str() {
        "packet" => run::<AfPacket>(interface, &config, seconds),
        "xdp" => run::<AfXdp>(interface, &config, seconds),
        _ => Err(USAGE.into()),
    }
}

fn run<B: BackEnd>(interface: &str, config: &Config, seconds: u32) -> Result<(), Box<dyn Error>> {
    let mut device = B::open(interface, config)?;
    let ring = Ring::new(device.ring(0)?, MonotonicRaw, RingConfig { wait: Wait::Block, ..RingConfig::default() });
    device.start()?;
    println!("{:#?}", ring.granted());

    let mut frames = 0u64;
    for _ in 0..seconds {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(1);
        let before = frames;
        while std::time::Instant::now() < end {
            // A lease that is dropped gives its chunk back.
            if let Received::Got(_frame) = ring.recv(100)? {
                frames += 1;
            }
        }
        println!("{} frames/s, {frames} in all, {} lost", frames - before, ring.counters().io.lost());
    }
    Ok(device.stop()?)
}
