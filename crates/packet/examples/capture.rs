//! Writes FRAMES frames with their arrival times to a pcap file: `capture packet|xdp INTERFACE FILE FRAMES
//! [FILTER]`.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::fs::File;

use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::clock::MonotonicRaw;
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::pcap::PcapOut;
use hairpin_packet::ring::{Received, Ring, RingConfig, Wait};

const USAGE: &str = "capture packet|xdp INTERFACE FILE FRAMES [all|udp:PORT|ethertype:0xNNNN]";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [back_end, interface, file, frames, ..] = &words[..] else { return Err(USAGE.into()) };
    let filter = words.get(4).map_or(Ok(Default::default()), |word| word.parse())?;
    let config = Config { filter, ..Config::default() };
    match back_end.as_str() {
        "packet" => run::<AfPacket>(interface, &config, file, frames.parse()?),
        "xdp" => run::<AfXdp>(interface, &config, file, frames.parse()?),
        _ => Err(USAGE.into()),
    }
}

fn run<B: BackEnd>(interface: &str, config: &Config, file: &str, frames: u64) -> Result<(), Box<dyn Error>> {
    let mut device = B::open(interface, config)?;
    // A device around a device: arriving frames pass through it on their way to the ring.
    let io = PcapOut::new(device.ring(0)?, File::create(file)?)?;
    let ring = Ring::new(io, MonotonicRaw, RingConfig { wait: Wait::Block, ..RingConfig::default() });
    let stamps = ring.granted().rx_time;
    device.start()?;

    let mut received = 0;
    while received < frames {
        if let Received::Got(frame) = ring.recv(-1)? {
            println!("{} bytes, {:?}", frame.len(), frame.time());
            received += 1;
        }
    }
    device.stop()?;
    let (_io, written) = ring.into_io().finish()?;
    println!("{written} frames in {file}; stamps by: {stamps:?}");
    Ok(())
}
