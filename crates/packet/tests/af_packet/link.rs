//! The veth pair of a test, the rings on it, and the processes beside it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hairpin_packet::af_packet::{AfPacket, Io};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::io::{Arrival, Kick, PacketIo};
use hairpin_sys::netlink::{Netlink, VethConfig};
use hairpin_sys::netns;

use super::Outcome;
use crate::alone;

pub const A: &str = "hp-a";
pub const B: &str = "hp-b";
/// Far longer than a frame takes on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(3);

/// Makes the pair, both ends in this namespace, and sets it up. The kernel itself sends nothing there: IPv6 is off.
pub fn make() -> Outcome {
    netns::set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
    pair(A, B, std::process::id())?;
    let netlink = Netlink::open()?;
    netlink.set_up(A)?;
    netlink.set_up(B)?;
    netlink.add_address(A, "198.18.0.1".parse()?, 24)?;
    Ok(())
}

pub fn pair(name: &str, peer: &str, peer_pid: u32) -> Outcome {
    let config = VethConfig { name: name.into(), peer_name: peer.into(), mtu: None, queues: Some(1), tx_queues: None, peer_pid };
    Ok(Netlink::open()?.create_veth(&config)?)
}

/// A configuration that is small enough to make many of.
pub fn small(filter: Filter) -> Config {
    Config { filter, ring_entries: 64, chunks: 256, ..Config::default() }
}

/// An open and started device of one ring.
pub fn open(interface: &str, config: &Config) -> Outcome<(AfPacket, Io)> {
    let mut device = AfPacket::open(interface, config)?;
    let io = device.ring(0)?;
    device.start()?;
    Ok((device, io))
}

/// Queues frames and kicks once.
pub fn send(io: &mut Io, frames: &[Vec<u8>]) -> Outcome {
    queue(io, frames)?;
    io.kick(Kick::Send)?;
    Ok(())
}

pub fn queue(io: &mut Io, frames: &[Vec<u8>]) -> Outcome {
    let umem = io.umem().clone();
    let mut queued = Vec::new();
    for bytes in frames {
        let mut frame = io.pool().take().ok_or("no free chunk to send from")?;
        frame.set_len(bytes.len());
        umem.bytes_mut(&mut frame).copy_from_slice(bytes);
        queued.push(frame);
    }
    let count = queued.len();
    if io.tx_batch(&mut queued) == count { Ok(()) } else { Err("the queue took not all".into()) }
}

/// Receives until there are `count` frames or nothing more is to be hoped for; one more would be found, too.
pub fn arrivals(io: &mut Io, count: usize) -> Vec<Arrival> {
    let mut found = Vec::new();
    let due = Instant::now() + PATIENCE;
    while found.len() < count && Instant::now() < due {
        if io.rx_batch(&mut found, 64) == 0 {
            sleep(Duration::from_micros(200));
        }
    }
    // Longer than a block may fill.
    let due = Instant::now() + Duration::from_millis(if count == 0 { 60 } else { 15 });
    while Instant::now() < due {
        io.rx_batch(&mut found, 64);
        sleep(Duration::from_millis(1));
    }
    found
}

/// The bytes of frames that arrive; their chunks go back to the pool.
pub fn receive(io: &mut Io, count: usize) -> Vec<Vec<u8>> {
    let umem = io.umem().clone();
    let found = arrivals(io, count).into_iter().map(|arrival| {
        let bytes = umem.bytes(&arrival.frame).to_vec();
        io.pool().give(arrival.frame);
        bytes
    });
    found.collect()
}

/// Interface flags and MTU by way of sysfs.
pub fn flags(interface: &str) -> Outcome<u32> {
    let text = fs::read_to_string(format!("/sys/class/net/{interface}/flags"))?;
    Ok(u32::from_str_radix(text.trim().trim_start_matches("0x"), 16)?)
}

pub fn set(interface: &str, file: &str, value: &str) -> Outcome {
    let path = format!("/sys/class/net/{interface}/{file}");
    fs::write(&path, value).map_err(|e| format!("{path} = {value}: {e}").into())
}

const UP: u32 = 1;
const PROMISCUOUS: u32 = 0x100;

pub fn set_up(interface: &str, up: bool) -> Outcome {
    let flags = if up { flags(interface)? | UP } else { flags(interface)? & !UP };
    set(interface, "flags", &format!("{flags:#x}"))
}

pub fn is_promiscuous(interface: &str) -> Outcome<bool> {
    Ok(flags(interface)? & PROMISCUOUS != 0)
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> Outcome<bool>) -> Outcome {
    let due = Instant::now() + PATIENCE;
    while !holds()? {
        if Instant::now() > due {
            return Err(format!("{what}: not within {PATIENCE:?}").into());
        }
        sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// A process beside the test that does one thing and then waits to be killed.
pub struct Helper {
    child: Child,
    /// A process that it has started itself.
    pub started: Option<u32>,
}

impl Helper {
    /// Starts it and waits until it has done its thing.
    pub fn start(name: &str) -> Outcome<Helper> {
        let mut child = alone::play().args(["helper", name]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        let mut helper = Helper { child, started: None };
        match line.trim().split_once(' ') {
            Some(("ready", started)) => {
                helper.started = started.parse().ok();
                Ok(helper)
            }
            _ => Err(format!("helper {name}: {line}").into()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // SIGKILL: the helper must get no chance to clean up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs one helper.
pub fn help(name: &str) -> Outcome {
    let mut held = None;
    let mut started = String::from("nothing");
    match name {
        // In the test's namespaces: a promiscuous interface, and a process that outlives this one.
        "hold" => {
            held = Some(open(B, &small(Filter::All))?);
            let child = alone::play().args(["helper", "linger"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
            started = child.id().to_string();
        }
        "linger" => {
            sleep(PATIENCE);
            return Ok(());
        }
        // In a network namespace of its own, which takes a veth along when it goes.
        "peer" => drop(netns::enter_new(false)?),
        _ => return Err("no such helper".into()),
    }
    println!("ready {started}");
    // Ends when its parent's end of the pipe closes.
    std::io::stdin().lines().for_each(drop);
    drop(held);
    Ok(())
}
