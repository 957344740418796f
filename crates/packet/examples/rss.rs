//! Receives on four rings, a thread each; the device (AF_XDP) or the kernel (AF_PACKET) shares the flows out: see the usage
//! below.

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, io, thread};

use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::clock::MonotonicRaw;
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::io::PacketIo;
use hairpin_packet::ring::{Received, Ring, RingConfig, Wait};

const USAGE: &str = "rss packet|xdp INTERFACE [all|udp:PORT|ethertype:0xNNNN] [SECONDS]";
const RINGS: u32 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let interface = words.get(1).ok_or(USAGE)?;
    let filter = words.get(2).map_or(Ok(Default::default()), |word| word.parse())?;
    let duration = Duration::from_secs(words.get(3).map_or(Ok(10), |word| word.parse())?);
    let config = Config { filter, rings: RINGS, ..Config::default() };
    match words[0].as_str() {
        "packet" => run::<AfPacket>(interface, &config, duration),
        "xdp" => run::<AfXdp>(interface, &config, duration),
        _ => Err(USAGE.into()),
    }
}

fn count<P: PacketIo>(io: P, end: Instant) -> io::Result<u64> {
    // A ring is driven by the thread that made it or that it was given to.
    let ring = Ring::new(io, MonotonicRaw, RingConfig { wait: Wait::Block, ..RingConfig::default() });
    let mut frames = 0;
    while Instant::now() < end {
        if let Received::Got(_frame) = ring.recv(100)? {
            frames += 1;
        }
    }
    Ok(frames)
}

fn run<B: BackEnd>(interface: &str, config: &Config, duration: Duration) -> Result<(), Box<dyn Error>> {
    let mut device = B::open(interface, config)?;
    let queues = (0..RINGS).map(|queue| device.ring(queue)).collect::<Result<Vec<_>, _>>()?;
    device.start()?;
    let end = Instant::now() + duration;
    thread::scope(|scope| {
        let threads: Vec<_> = queues.into_iter().map(|io| scope.spawn(move || count(io, end))).collect();
        for (queue, thread) in threads.into_iter().enumerate() {
            let frames = thread.join().map_err(|_| "a thread panicked")??;
            println!("queue {queue}: {frames} frames");
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    Ok(device.stop()?)
}
