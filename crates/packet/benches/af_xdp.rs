//! Round trips over AF_XDP between two processes, each spinning on a CPU of its own, over a veth pair in a namespace of its own.
//!
//! ```text
//!   near, CPU 0: tx_batch, kick ─▶ veth ═══ veth ─▶ rx_batch :far, CPU 1
//!                rx_batch       ◀─               ◀─ tx_batch, kick
//! ```
//! Prints the median and p99 of the round trip for each mode and frame size, and the cores' own round trip beside it.

use std::error::Error;
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, process};

use hairpin_packet::af_xdp::{AfXdp, Queue};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::Mode;
use hairpin_packet::io::{Kick, PacketIo};
use hairpin_sys::clock::{Clock, Tsc};
use hairpin_sys::netlink::{Netlink, VethConfig};
use hairpin_sys::{netns, thread};

const NEAR: &str = "hp-near";
const FAR: &str = "hp-far";
const ETHERTYPE: u16 = 0x88b5;
const SIZES: [usize; 2] = [64, 1500];
const CELL: Duration = Duration::from_millis(300);
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = if arguments.first().is_some_and(|a| a == "far") { far(&arguments[1]) } else { near() };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn near() -> Result<(), Box<dyn Error>> {
    netns::enter_new(false)?;
    let netlink = Netlink::open()?;
    let pair = VethConfig { name: NEAR.into(), peer_name: FAR.into(), mtu: None, queues: Some(1), peer_pid: process::id() };
    netlink.create_veth(&pair)?;
    netlink.set_up(NEAR)?;
    netlink.set_up(FAR)?;
    thread::pin(0)?;
    let clock = Tsc::calibrate("")?;
    for _ in 0..ROUNDS {
        for mode in [Mode::Generic, Mode::Native] {
            let mut other = Command::new(env::current_exe()?)
                .args(["far", &mode.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let (mut device, mut ring) = open(NEAR, mode)?;
            device.start()?;
            other.stdout.take().ok_or("no stdout")?.read_exact(&mut [0])?;
            for size in SIZES {
                let mut times = ping(&clock, &mut ring, size)?;
                times.sort_unstable();
                let at = |share: f64| times[(times.len() as f64 * share) as usize];
                println!("{mode:8} {size:5} bytes: p50 {} ns, p99 {} ns, {} round trips", at(0.5), at(0.99), times.len());
            }
            drop(other.stdin.take());
            other.wait()?;
        }
    }
    Ok(())
}

fn open(interface: &str, mode: Mode) -> Result<(AfXdp, Queue), Box<dyn Error>> {
    let config = Config { filter: Filter::Ethertype(ETHERTYPE), mode: Some(mode), ..Config::default() };
    let mut device = AfXdp::open(interface, &config)?;
    let ring = device.ring(0)?;
    Ok((device, ring))
}

fn ping(clock: &Tsc, ring: &mut Queue, size: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut frame = ring.pool().take().ok_or("no chunk")?;
    frame.set_len(size);
    let umem = ring.umem().clone();
    let bytes = umem.bytes_mut(&mut frame);
    bytes.fill(0);
    bytes[..6].fill(0xff);
    bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    let (mut frames, mut arrivals) = (Vec::with_capacity(1), Vec::with_capacity(1));
    frames.push(frame);
    let mut times = Vec::with_capacity(1 << 20);
    let end = Instant::now() + CELL;
    loop {
        let start = clock.start();
        ring.tx_batch(&mut frames);
        ring.kick(Kick::Send)?;
        let mut looks = 0_u32;
        while ring.rx_batch(&mut arrivals, 1) == 0 {
            looks += 1;
            if looks == 1 << 28 {
                return Err(format!("a frame got lost: {:?}", ring.counters()).into());
            }
        }
        times.push(clock.to_ns(clock.stop().since(start)));
        let now = Instant::now();
        frames.extend(arrivals.drain(..).map(|arrival| arrival.frame));
        if now > end {
            break;
        }
    }
    frames.drain(..).for_each(|frame| ring.pool().give(frame));
    Ok(times)
}

fn far(mode: &str) -> Result<(), Box<dyn Error>> {
    thread::pin(1)?;
    let (mut device, mut ring) = open(FAR, if mode == "native" { Mode::Native } else { Mode::Generic })?;
    device.start()?;
    io::stdout().write_all(b"r")?;
    io::stdout().flush()?;
    rustix::io::ioctl_fionbio(io::stdin(), true)?;
    let (mut frames, mut arrivals) = (Vec::with_capacity(64), Vec::with_capacity(64));
    let mut idle = 0_u32;
    loop {
        if ring.rx_batch(&mut arrivals, 64) == 0 {
            idle += 1;
            if idle.is_multiple_of(1 << 16) && matches!(io::stdin().read(&mut [0]), Ok(0)) {
                return Ok(());
            }
            continue;
        }
        frames.extend(arrivals.drain(..).map(|arrival| arrival.frame));
        let umem = ring.umem().clone();
        for frame in &mut frames {
            let bytes = umem.bytes_mut(frame);
            let (to, from) = bytes.split_at_mut(6);
            to.swap_with_slice(&mut from[..6]);
        }
        ring.tx_batch(&mut frames);
        ring.kick(Kick::Send)?;
    }
}
