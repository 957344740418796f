//! One end of a veth pair: a device with its rings, and the frames that go through them.

use std::error::Error;
use std::io;
use std::process::{self, Command};
use std::time::{Duration, Instant};

use hairpin_packet::af_xdp::{AfXdp, Queue};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::Mode;
use hairpin_packet::io::{Kick, PacketIo};
use hairpin_sys::netlink::{Netlink, VethConfig};
use hairpin_sys::umem::Frame;
pub use hairpin_wire::raw::ETHERTYPE;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub const A: &str = "hp-a";
pub const B: &str = "hp-b";
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Longer than a frame takes over veth by far, where none is to come.
const QUIET: Duration = Duration::from_millis(30);

/// A device with its rings.
pub struct End {
    // Before the device, so that a ring never outlives its program.
    pub rings: Vec<Queue>,
    pub device: AfXdp,
}

pub fn config(mode: Mode) -> Config {
    Config { filter: Filter::Ethertype(ETHERTYPE), mode: Some(mode), ..Config::default() }
}

pub fn open(interface: &str, mode: Mode, queues: u32) -> Outcome<End> {
    End::of(interface, &config(mode), queues)
}

impl End {
    pub fn of(interface: &str, config: &Config, queues: u32) -> Outcome<End> {
        let mut device = AfXdp::open(interface, config)?;
        equal("queues", device.granted().queues, queues)?;
        let rings = (0..queues).map(|queue| device.ring(queue)).collect::<Result<_, _>>()?;
        device.start()?;
        Ok(End { rings, device })
    }

    pub fn send(&mut self, queue: usize, frames: &[Vec<u8>]) -> Outcome {
        let ring = &mut self.rings[queue];
        let mut out: Vec<Frame> = Vec::new();
        for bytes in frames {
            let mut frame = ring.pool().take().ok_or("no chunk to send from")?;
            frame.set_len(bytes.len());
            ring.umem().clone().bytes_mut(&mut frame).copy_from_slice(bytes);
            out.push(frame);
        }
        equal("frames that the TX ring took", ring.tx_batch(&mut out), frames.len())?;
        self.kick(queue)
    }

    pub fn kick(&mut self, queue: usize) -> Outcome {
        self.rings[queue].kick(Kick::Send)?;
        Ok(())
    }

    /// The error that a receiver gets that polls, and one that spins.
    pub fn receive_error(&mut self) -> Option<i32> {
        let ring = &mut self.rings[0];
        let sleeper = ring.kick(Kick::Receive).err().and_then(|error| error.raw_os_error());
        let spinner = (0..1000).find_map(|_| {
            for _ in 0..64 {
                ring.rx_batch(&mut Vec::new(), 1);
            }
            ring.kick(Kick::Receive).err()?.raw_os_error()
        });
        sleeper.filter(|errno| Some(*errno) == spinner)
    }

    pub fn receive(&mut self, queue: usize, count: usize) -> Outcome<Vec<Vec<u8>>> {
        let came = self.take(queue, count, PATIENCE);
        if came.len() == count {
            return Ok(came);
        }
        Err(format!("{} of {count} frames came: {:?}", came.len(), self.rings[queue].counters()).into())
    }

    pub fn none(&mut self, queue: usize) -> Outcome {
        let came = self.take(queue, 1, QUIET);
        if came.is_empty() { Ok(()) } else { Err(format!("a frame of {} bytes came", came[0].len()).into()) }
    }

    fn take(&mut self, queue: usize, count: usize, patience: Duration) -> Vec<Vec<u8>> {
        let (ring, mut came, mut arrivals) = (&mut self.rings[queue], Vec::new(), Vec::new());
        let give_up = Instant::now() + patience;
        while came.len() < count && Instant::now() < give_up {
            ring.rx_batch(&mut arrivals, count - came.len());
            let umem = ring.umem().clone();
            for arrival in arrivals.drain(..) {
                came.push(umem.bytes(&arrival.frame).to_vec());
                ring.pool().give(arrival.frame);
            }
        }
        came
    }
}

/// A frame to everybody with bytes that tell its size.
pub fn frame(size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
    bytes[..6].fill(0xff);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    bytes
}

pub fn numbered(turn: u8, number: u8) -> Vec<u8> {
    let mut bytes = frame(60);
    bytes[14..16].copy_from_slice(&[turn, number]);
    bytes
}

/// A veth pair with both ends here.
pub fn pair(queues: u32, mtu: Option<u32>) -> Outcome {
    pair_with(queues, queues, mtu)
}

/// The same with other transmit queues.
pub fn pair_with(queues: u32, tx_queues: u32, mtu: Option<u32>) -> Outcome {
    let netlink = Netlink::open()?;
    let (queues, tx_queues) = (Some(queues), Some(tx_queues));
    let config = VethConfig { name: A.into(), peer_name: B.into(), mtu, queues, tx_queues, peer_pid: process::id() };
    netlink.create_veth(&config)?;
    [A, B].iter().try_for_each(|end| netlink.set_up(end))?;
    Ok(())
}

pub fn ip(arguments: &[&str]) -> Outcome {
    let output = Command::new("ip").args(arguments).output()?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned().into()) }
}

pub fn errno(done: Outcome) -> Option<i32> {
    done.err()?.downcast_ref::<io::Error>()?.raw_os_error()
}

pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}").into()) }
}

pub fn contains(text: &str, part: &str) -> Outcome {
    if text.contains(part) { Ok(()) } else { Err(format!("\"{text}\" does not say \"{part}\"").into()) }
}
