//! Cost of coalescing at a low rate and its gain at saturation, over a veth pair in a network namespace of
//! its own.
//!
//!     cargo bench -p hairpin-packet --bench coalesce -- packet|xdp
//!
//! ```text
//!   saturation: this thread injects as fast as it can ──veth──▶ a second thread receives; CPU time per frame for each setting
//!   low rate:   1 % of that, round trips: this thread ──veth──▶ a second thread sends back ──▶ median RTT for each setting
//! ```
//! Settings take turns in short blocks. Exits 3 if adaptive coalescing adds more than 3 % at the low rate,
//! reaches less than 95 % of fixed full batches at saturation, or has a batch over its bound in either
//! without a stall. A stall is a gap of more than 2 us between two looks at the TSC while a batch waits; this
//! thread does nothing but call, and no system call lies between a batch's first commit and its kick, so in
//! such a gap the core did something else. The time of a kick is not part of a wait.

#![forbid(unsafe_code)]

use std::error::Error;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::clock::{Clock, Tsc};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::io::PacketIo;
use hairpin_packet::ring::{Coalesce, Injected, MOST, Received, Ring, RingConfig, RingCounters, STALL};
use hairpin_sys::netlink::{Netlink, VethConfig};
use hairpin_sys::{netns, thread as cpu};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const ENDS: [&str; 2] = ["hp-one", "hp-other"];
const BLOCK: Duration = Duration::from_millis(20);
const BLOCKS: usize = 30;

fn main() -> Outcome<ExitCode> {
    let word = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    make_veth()?;
    match word.as_deref() {
        Some("packet") | None => run::<AfPacket>(),
        Some("xdp") => run::<AfXdp>(),
        Some(_) => Err("coalesce packet|xdp".into()),
    }
}

fn make_veth() -> Outcome {
    netns::enter_new(false)?;
    netns::set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
    let [name, peer_name] = ENDS.map(str::to_owned);
    let netlink = Netlink::open()?;
    netlink.create_veth(&VethConfig {
        name,
        peer_name,
        mtu: None,
        queues: Some(1),
        tx_queues: None,
        peer_pid: std::process::id(),
    })?;
    ENDS.iter().try_for_each(|end| Ok(netlink.set_up(end)?))
}

fn run<B: BackEnd>() -> Outcome<ExitCode> {
    let clock = Tsc::calibrate()?;
    let config = Config { filter: Filter::Ethertype(0x88b5), ..Config::default() };
    let mut devices = ENDS.iter().map(|end| B::open(end, &config)).collect::<Result<Vec<_>, _>>()?;
    let mut ios = devices.iter_mut().map(|device| device.ring(0)).collect::<Result<Vec<_>, _>>()?;
    devices.iter_mut().try_for_each(BackEnd::start)?;
    let (Some(other), Some(mut io)) = (ios.pop(), ios.pop()) else { return Err("two ends".into()) };
    println!("{} {:?} over veth, 60-byte frames", io.granted().back_end, io.granted().mode);

    let [first, second] = cpu::allowed_cpus()?[..] else { return Err("takes exactly two CPUs".into()) };
    let (bounce, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let peer = scope.spawn(|| answer(other, clock, second, &bounce, &done).map_err(|error| error.to_string()));
        cpu::pin(first)?;
        let full = NonZeroU32::new(MOST).ok_or("a full batch has frames")?;
        let settings = [("off", Coalesce::Off), ("every 64", Coalesce::Every(full)), ("adaptive", Coalesce::ADAPTIVE)];

        let mut rates = settings.map(|_| Vec::new());
        let (mut kicks, mut frames, mut full_bound) = ([0; 3], [0; 3], Bound::default());
        for _ in 0..BLOCKS {
            for (at, (_, coalesce)) in settings.into_iter().enumerate() {
                let ring = Ring::new(io, clock, RingConfig { coalesce, ..RingConfig::default() });
                let sent = saturate(&ring, clock)?;
                rates[at].push(sent as f64 / BLOCK.as_secs_f64());
                let counters = ring.counters();
                (kicks[at], frames[at]) = (kicks[at] + counters.kicks, frames[at] + sent);
                if coalesce == Coalesce::ADAPTIVE {
                    full_bound.add(&counters);
                }
                io = ring.into_io();
            }
        }
        let rates = rates.map(median);
        for (at, (name, _)) in settings.into_iter().enumerate() {
            let batch = frames[at] as f64 / kicks[at] as f64;
            println!("saturation  {name:9} {:9.0} frames/s, {batch:4.1} frames a kick", rates[at]);
        }
        bounce.store(true, Ordering::Relaxed);
        let gap = Duration::from_secs_f64(100.0 / rates[1]);
        let (mut pairs, mut ratios, mut low_bound) = ([Vec::new(), Vec::new()], Vec::new(), Bound::default());
        for block in 0..4 * BLOCKS {
            let mut p50 = [0.0; 2];
            // Each goes first as often as the other.
            for at in [block % 2, 1 - block % 2] {
                let coalesce = [Coalesce::Off, Coalesce::ADAPTIVE][at];
                let ring = Ring::new(io, clock, RingConfig { coalesce, ..RingConfig::default() });
                p50[at] = median(round_trips(&ring, clock, gap)?);
                pairs[at].push(p50[at]);
                if coalesce == Coalesce::ADAPTIVE {
                    low_bound.add(&ring.counters());
                }
                io = ring.into_io();
            }
            ratios.push(p50[1] / p50[0]);
        }
        done.store(true, Ordering::Relaxed);
        peer.join().map_err(|_| "the peer panicked")??;
        let [off, adaptive] = pairs.map(median);
        ratios.sort_by(f64::total_cmp);
        // The median, and its 95 % interval by order statistics of the block pairs (binomial, normal approximation).
        let (n, half) = (ratios.len() as f64, 0.98 * (ratios.len() as f64).sqrt());
        let [low, added, high] = [n / 2.0 - half, n / 2.0, n / 2.0 + half].map(|at| 100.0 * (ratios[at as usize] - 1.0));
        println!("1 % of it   off       p50 {off:.0} ns");
        println!("1 % of it   adaptive  p50 {adaptive:.0} ns");
        let reached = 100.0 * rates[2] / rates[1];
        println!(
            "adaptive adds {added:.1} % ({low:.1} to {high:.1}; at most 3 %) and reaches {reached:.1} % of full batches (at least 95 %)"
        );
        full_bound.print("saturation");
        low_bound.print("1 % of it");
        let bound_held = full_bound.over + low_bound.over == 0;
        Ok(if added <= 3.0 && reached >= 95.0 && bound_held { ExitCode::SUCCESS } else { ExitCode::from(3) })
    })
}

/// Result for the bound of adaptive coalescing.
#[derive(Default)]
struct Bound {
    batches: u64,
    over: u64,
    over_stalled: u64,
    stalled: u64,
}

impl Bound {
    fn add(&mut self, counters: &RingCounters) {
        self.batches += counters.kicks;
        self.over += counters.over_bound;
        self.over_stalled += counters.over_bound_stalled;
        self.stalled += counters.stalled;
    }

    fn print(&self, rate: &str) {
        let Bound { batches, over, over_stalled, stalled } = self;
        let share = 100.0 * *stalled as f64 / *batches as f64;
        println!(
            "{rate:11} adaptive  {batches} batches: {over} over the bound without a stall (at most 0), {over_stalled} with one; \
             {stalled} ({share:.4} %) had a stall of more than {STALL:?}"
        );
    }
}

/// The other end: receives, and sends back if asked to.
fn answer<P: PacketIo>(io: P, clock: Tsc, on: u32, bounce: &AtomicBool, done: &AtomicBool) -> Outcome {
    cpu::pin(on)?;
    let ring = Ring::new(io, clock, RingConfig::default());
    while !done.load(Ordering::Relaxed) {
        if let Received::Got(lease) = ring.recv(1)?
            && bounce.load(Ordering::Relaxed)
        {
            let _full = lease.send_back()?;
        }
    }
    Ok(())
}

fn frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

/// Injects for one block; returns how many frames left.
fn saturate<P: PacketIo>(ring: &Ring<P, Tsc>, clock: Tsc) -> Outcome<u64> {
    let (sender, frame, mut sent) = (ring.sender(), frame(), 0);
    let end = clock.now().plus(clock.to_ticks(BLOCK.as_nanos() as u64));
    while clock.now() < end {
        for _ in 0..MOST {
            sent += u64::from(sender.inject(&frame)? == Injected::Sent);
        }
    }
    ring.flush()?;
    Ok(sent)
}

/// Round trips for one block, one each `gap`.
fn round_trips<P: PacketIo>(ring: &Ring<P, Tsc>, clock: Tsc, gap: Duration) -> Outcome<Vec<f64>> {
    let mut rtts = Vec::new();
    let (sender, frame, gap) = (ring.sender(), frame(), clock.to_ticks(gap.as_nanos() as u64));
    while let Received::Got(_) = ring.recv(0)? {}
    let mut due = clock.now();
    let end = due.plus(clock.to_ticks(BLOCK.as_nanos() as u64));
    while due < end {
        while clock.now() < due {}
        let start = clock.now();
        let _ = sender.inject(&frame)?;
        if let Received::Got(_) = ring.recv(10)? {
            rtts.push(clock.to_ns(clock.now().since(start)) as f64);
        }
        due = due.plus(gap);
    }
    Ok(rtts)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
