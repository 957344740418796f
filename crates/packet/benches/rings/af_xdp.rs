//! Round trips over AF_XDP between two processes, each spinning on a CPU of its own, over a veth pair in a namespace of its own.
//!
//! ```text
//!   near, CPU 0: tx_batch, kick ─▶ veth ═══ veth ─▶ rx_batch :far, CPU 1
//!                rx_batch       ◀─               ◀─ tx_batch, kick
//! ```
//! Then the same with both ends on one thread: no cache line crosses between cores, so the rest is the kernel's own work for two
//! frames. Prints the median and p99 of the round trip for each mode and frame size. Generic mode sends on a queue of its own.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, process};

use clap::Args;
use hairpin_packet::af_xdp::{AfXdp, Queue};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::Mode;
use hairpin_packet::io::{Arrival, Kick, PacketIo};
use hairpin_sys::clock::{Clock, Tsc};
use hairpin_sys::netlink::{Netlink, VethConfig};
use hairpin_sys::umem::Frame;
use hairpin_sys::{netns, thread};
use hairpin_wire::raw::ETHERTYPE;

use super::Outcome;

const NEAR: &str = "hp-near";
const FAR: &str = "hp-far";
const SIZES: [usize; 2] = [64, 1500];
const CELL: Duration = Duration::from_millis(300);
const ROUNDS: usize = 3;

/// Options of this part.
#[derive(Args)]
pub(crate) struct Options {
    /// Be the near or the far end of this mode
    #[arg(hide = true, num_args = 2)]
    end: Vec<String>,
}

/// Measures; there is no bound.
pub(super) fn bench(options: &Options) -> Outcome<bool> {
    let ends: Vec<&str> = options.end.iter().map(String::as_str).collect();
    match ends[..] {
        ["far", mode] => far(mode_of(mode)),
        ["near", mode] => near(mode_of(mode)),
        _ => rounds(),
    }
    .map(|()| false)
}

/// This program as an end of the pair.
fn end(which: &str, mode: Mode) -> Outcome<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["af-xdp", which, &mode.to_string()]);
    Ok(command)
}

/// Runs each mode and round in a process of its own; its namespace ends with it.
fn rounds() -> Outcome {
    for _ in 0..ROUNDS {
        for mode in [Mode::Generic, Mode::Native] {
            let ended = end("near", mode)?.status()?;
            if !ended.success() {
                return Err(format!("{mode}: {ended}").into());
            }
        }
    }
    Ok(())
}

fn mode_of(text: &str) -> Mode {
    if text == "native" { Mode::Native } else { Mode::Generic }
}

fn near(mode: Mode) -> Outcome {
    netns::enter_new(false)?;
    thread::pin(0)?;
    let clock = Tsc::calibrate()?;
    link(mode)?;
    let mut other = end("far", mode)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut device, mut ring) = open(NEAR, mode)?;
    device.start()?;
    other.stdout.take().ok_or("no stdout")?.read_exact(&mut [0])?;
    for size in SIZES {
        print(mode, "two cores", size, ping(&clock, &mut ring, size, || Ok(()))?);
    }
    drop(other.stdin.take());
    other.wait()?;
    let (mut far_device, mut far) = open(FAR, mode)?;
    far_device.start()?;
    let (mut frames, mut arrivals) = (Vec::with_capacity(64), Vec::with_capacity(64));
    for size in SIZES {
        let times = ping(&clock, &mut ring, size, || bounce(&mut far, &mut frames, &mut arrivals).map(|_| ()))?;
        print(mode, "one core", size, times);
    }
    Ok(())
}

/// A pair for this mode.
fn link(mode: Mode) -> Outcome {
    let netlink = Netlink::open()?;
    let pair = VethConfig {
        name: NEAR.into(),
        peer_name: FAR.into(),
        mtu: None,
        queues: Some(1),
        // Native mode wants no more transmit queues than the peer has receive queues.
        tx_queues: Some(if mode == Mode::Generic { 2 } else { 1 }),
        peer_pid: process::id(),
    };
    netlink.create_veth(&pair)?;
    netlink.set_up(NEAR)?;
    netlink.set_up(FAR)?;
    Ok(())
}

fn print(mode: Mode, cores: &str, size: usize, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    println!("{mode:8} {cores:10} {size:5} bytes: p50 {} ns, p99 {} ns, {} round trips", at(0.5), at(0.99), times.len());
}

fn open(interface: &str, mode: Mode) -> Outcome<(AfXdp, Queue)> {
    let config = Config { filter: Filter::Ethertype(ETHERTYPE), mode: Some(mode), ..Config::default() };
    let mut device = AfXdp::open(interface, &config)?;
    let ring = device.ring(0)?;
    Ok((device, ring))
}

fn ping(clock: &Tsc, ring: &mut Queue, size: usize, mut meanwhile: impl FnMut() -> Outcome) -> Outcome<Vec<u64>> {
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
            meanwhile()?;
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

fn far(mode: Mode) -> Outcome {
    thread::pin(1)?;
    let (mut device, mut ring) = open(FAR, mode)?;
    device.start()?;
    io::stdout().write_all(b"r")?;
    io::stdout().flush()?;
    rustix::io::ioctl_fionbio(io::stdin(), true)?;
    let (mut frames, mut arrivals) = (Vec::with_capacity(64), Vec::with_capacity(64));
    let mut idle = 0_u32;
    loop {
        if bounce(&mut ring, &mut frames, &mut arrivals)? > 0 {
            continue;
        }
        idle += 1;
        if idle.is_multiple_of(1 << 16) && matches!(io::stdin().read(&mut [0]), Ok(0)) {
            return Ok(());
        }
    }
}

/// Sends back all frames that have arrived, and returns their number.
fn bounce(ring: &mut Queue, frames: &mut Vec<Frame>, arrivals: &mut Vec<Arrival>) -> Outcome<usize> {
    let came = ring.rx_batch(arrivals, 64);
    if came == 0 {
        return Ok(0);
    }
    frames.extend(arrivals.drain(..).map(|arrival| arrival.frame));
    let umem = ring.umem().clone();
    for frame in frames.iter_mut() {
        let (to, from) = umem.bytes_mut(frame).split_at_mut(6);
        to.swap_with_slice(&mut from[..6]);
    }
    ring.tx_batch(frames);
    ring.kick(Kick::Send)?;
    Ok(came)
}
