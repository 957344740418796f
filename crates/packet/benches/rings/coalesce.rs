//! Cost of coalescing at a low rate and its gain at saturation, over a veth pair in a network namespace of its own.
//!
//! ```text
//!   saturation: this thread injects as fast as it can ──veth──▶ a second thread receives; CPU time per frame for each setting
//!   low rate:   1 % of that, round trips: this thread ──veth──▶ a second thread sends back ──▶ median RTT for each setting
//! ```
//! Settings take turns in short blocks. Missed if adaptive coalescing adds more than 3 % at the low rate, reaches less than 95 %
//! of fixed full batches at saturation, or has a batch over its bound in either without a stall. A stall is a gap of more than 2
//! us between two looks at the TSC while a batch waits; this thread does nothing but call, and no system call lies between a
//! batch's first commit and its kick, so in such a gap the core did something else. The time of a kick is not part of a wait.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::clock::{Clock, Tsc};
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::filter::Filter;
use hairpin_packet::io::PacketIo;
use hairpin_packet::ring::{Coalesce, Injected, MOST, Received, Ring, RingConfig, RingCounters, STALL};
use hairpin_sys::netlink::{Netlink, VethConfig};
use hairpin_sys::{netns, thread as cpu};

use super::bound::{Limit, Word, middle};
use super::{Outcome, Typical, ratio};

const ENDS: [&str; 2] = ["hp-one", "hp-other"];
const BLOCK: Duration = Duration::from_millis(20);
const BLOCKS: usize = 30;
/// A round trip with adaptive coalescing over one without, at the low rate.
const LONGER: Limit = Limit::AtMost(1.03);
/// The rate with adaptive coalescing over that of full batches, at saturation.
const REACHED: Limit = Limit::AtLeast(0.95);

/// Options of this part.
#[derive(Args)]
pub(crate) struct Options {
    /// The rings to send over
    #[arg(value_enum)]
    rings: Rings,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rings {
    Packet,
    Xdp,
}

/// Measures; true if a bound is missed.
pub(super) fn bench(options: &Options) -> Outcome<bool> {
    make_veth()?;
    match options.rings {
        Rings::Packet => run::<AfPacket>(),
        Rings::Xdp => run::<AfXdp>(),
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

fn run<B: BackEnd>() -> Outcome<bool> {
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
        for (at, (name, _)) in settings.into_iter().enumerate() {
            let batch = frames[at] as f64 / kicks[at] as f64;
            println!("saturation  {name:9} {:.0} frames/s, {batch:4.1} frames a kick", Typical::of(&rates[at]));
        }
        bounce.store(true, Ordering::Relaxed);
        let gap = Duration::from_secs_f64(100.0 / Typical::of(&rates[1]).value());
        let (mut pairs, mut low_bound) = ([Vec::new(), Vec::new()], Bound::default());
        for block in 0..4 * BLOCKS {
            // Each goes first as often as the other.
            for at in [block % 2, 1 - block % 2] {
                let coalesce = [Coalesce::Off, Coalesce::ADAPTIVE][at];
                let ring = Ring::new(io, clock, RingConfig { coalesce, ..RingConfig::default() });
                pairs[at].push(middle(round_trips(&ring, clock, gap)?));
                if coalesce == Coalesce::ADAPTIVE {
                    low_bound.add(&ring.counters());
                }
                io = ring.into_io();
            }
        }
        done.store(true, Ordering::Relaxed);
        peer.join().map_err(|_| "the peer panicked")??;
        let [off, adaptive] = &pairs;
        println!("1 % of it   off       p50 {:.0} ns", Typical::of(off));
        println!("1 % of it   adaptive  p50 {:.0} ns", Typical::of(adaptive));
        let (longer, reached) = (ratio(off, adaptive), ratio(&rates[1], &rates[2]));
        let words = [longer.word(LONGER), reached.word(REACHED), full_bound.word(), low_bound.word()];
        println!("a round trip with adaptive is {longer:.3} of one with off, bound {}: {}", LONGER.text(), words[0]);
        println!("adaptive reaches {reached:.3} of the rate of full batches, bound {}: {}", REACHED.text(), words[1]);
        full_bound.print("saturation");
        low_bound.print("1 % of it");
        Ok(words.into_iter().any(Word::missed))
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

    /// Every batch is counted, so nothing is unclear.
    fn word(&self) -> Word {
        if self.over > 0 { Word::Miss } else { Word::Ok }
    }

    fn print(&self, rate: &str) {
        let Bound { batches, over, over_stalled, stalled } = self;
        let share = 100.0 * *stalled as f64 / *batches as f64;
        println!(
            "{rate:11} adaptive  {batches} batches: {stalled} ({share:.4} %) had a stall of more than {STALL:?}; over the bound \
             {over_stalled} with a stall, {over} without, at most 0: {}",
            self.word()
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
