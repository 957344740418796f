//! Sends frames at a fixed rate and says how late they were: `inject_at_rate packet|xdp INTERFACE FRAMES_PER_SECOND [COUNT]`.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::time::Duration;

use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::clock::Tsc;
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::ring::{Ring, RingConfig};

const USAGE: &str = "inject_at_rate packet|xdp INTERFACE FRAMES_PER_SECOND [COUNT]";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let (interface, rate) = words.get(1).zip(words.get(2)).ok_or(USAGE)?;
    let count = words.get(3).map_or(Ok(100_000), |word| word.parse())?;
    let gap = Duration::from_secs_f64(1.0 / rate.parse::<f64>()?);
    match words[0].as_str() {
        "packet" => run::<AfPacket>(interface, gap, count),
        "xdp" => run::<AfXdp>(interface, gap, count),
        _ => Err(USAGE.into()),
    }
}

fn run<B: BackEnd>(interface: &str, gap: Duration, count: u32) -> Result<(), Box<dyn Error>> {
    // A filter that nothing matches: this program only sends.
    let mut device = B::open(interface, &Config { filter: Filter::Ethertype(0x88b5), ..Config::default() })?;
    let ring = Ring::new(device.ring(0)?, Tsc::calibrate()?, RingConfig::default());
    let mut sender = ring.sender();

    // To an address of nobody, with the local experimental ethertype and a number.
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    let (mut number, mut delay, mut latest) = (0u32, gap, Duration::ZERO);
    while number < count {
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        if let Some(late) = sender.inject_at(&frame, delay)? {
            // The next one makes up for it, so that the rate holds.
            delay = gap.saturating_sub(late.into());
            latest = latest.max(late.into());
            number += 1;
        }
    }
    println!("{number} frames, one each {gap:?}, the latest {latest:?} late, {} lost", ring.counters().io.lost());
    Ok(())
}
