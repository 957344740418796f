//! The emulated NIC between two threads, each spinning on a CPU of its own, against a bare control in the same blocks.
//!
//! ```text
//!   control     one line there, one line back: a release store and an acquire load each
//!   ping-pong   pool, tx_batch, kick ─▶ rx_batch, tx_batch, kick ─▶ rx_batch, pool        the same stamps
//!   one way     batches of 64 frames ─▶ rx_batch of 64, pool
//!   emulated    the ping-pong, with a declared latency
//! ```
//! Blocks take turns, and each ratio is of two neighbouring blocks, because the two CPUs change their distance. Bounds: a ratio
//! of 60 bytes of at most 1.3 (p50) and 2 (p99), of 1,024 bytes of at most 2.5 (p50), and at least 60 million 60-byte frames/s
//! one way.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use clap::Args;
use hairpin_packet::clock::{Clock, Ticks, Tsc};
use hairpin_packet::io::{Arrival, Kick, PacketIo};
use hairpin_packet::niq::{self, Config, Delay, Port, Timing};
use hairpin_packet::umem::Frame;
use hairpin_sys::thread as cpu;
use hairpin_units::Picos;

use super::bound::Limit;
use super::{Outcome, Typical, ratio};

/// Sizes of the ping-pong, and the bounds of their ratios to the control: p50, p99.
const BOUNDS: [(usize, Limit, Limit); 7] = [
    (60, Limit::AtMost(1.3), Limit::AtMost(2.0)),
    (61, Limit::None, Limit::None),
    (128, Limit::None, Limit::None),
    (256, Limit::None, Limit::None),
    (512, Limit::None, Limit::None),
    (1024, Limit::AtMost(2.5), Limit::None),
    (1514, Limit::None, Limit::None),
];
/// Of 60-byte frames one way, in millions/s.
const RATE: Limit = Limit::AtLeast(60.0);
const SIZES: [usize; 10] = [60, 61, 64, 128, 256, 512, 1024, 1514, 4096, 9000];
const BATCH: usize = 64;
/// Round trips of a block.
const ROUND_TRIPS: usize = 4_000;
/// Frames of a block one way; fewer if they are long.
const FRAMES: usize = 20_000;

/// Pairs of lines of the control.
const PAIRS: usize = 256;

/// Tasks of the other thread.
const BOUNCE_LINE: u32 = 1;
const BOUNCE: u32 = 2;
const RECEIVE: u32 = 3;
const END: u32 = 4;

/// A value with cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

struct Lines([[Apart<AtomicU64>; 2]; PAIRS]);

impl SharedLines {
    fn pair(&self) -> &[Apart<AtomicU64>; 2] {
        &self.lines.0[self.block.0.load(Ordering::Relaxed) as usize % PAIRS]
    }
}

impl Default for Lines {
    fn default() -> Lines {
        Lines(std::array::from_fn(|_| Default::default()))
    }
}

#[derive(Default)]
struct SharedLines {
    block: Apart<AtomicU32>,
    /// Pairs of lines. Each block takes another: where a line's home is on the chip decides how long it takes.
    lines: Lines,
    asked: Apart<AtomicU32>,
    doing: Apart<AtomicU32>,
    received: Apart<AtomicU64>,
}

/// Options of this part.
#[derive(Args)]
pub(crate) struct Options {
    /// Blocks of each cell
    #[arg(default_value_t = 101)]
    blocks: usize,
}

/// Measures; true if a bound is missed.
pub(super) fn bench(options: &Options) -> Outcome<bool> {
    let blocks = options.blocks;
    let clock = Tsc::calibrate()?;
    let cpus = cpu::allowed_cpus()?;
    let [first, .., last] = cpus[..] else { return Err("takes two CPUs".into()) };
    cpu::pin(first)?;
    let (mut one, mut other) = niq::pair(&Config::default())?;
    for batch in [1, BATCH] {
        let took = alone(&mut one, &mut other, clock, batch)?;
        println!("niq    60 bytes  {took:.1} ns of work a frame, in batches of {batch}: sent and received by one CPU");
    }
    let missed = with_peer((one, other), last, |io, between| measure(io, clock, between, blocks))?;
    for declared in [1_989, 3_059] {
        let parts = Delay { out: Picos(1_000 * (declared - 738)), link: Picos(67_200), rest: Picos(738_000) };
        let timing = Timing::new(clock, 60, |_| parts)?;
        let config = Config { longest_frame: 60, timing: Some(timing), ..Config::default() };
        let over = with_peer(niq::pair(&config)?, last, |io, between| emulated(io, clock, between, blocks, 2 * declared))?;
        println!(
            "niq    60 bytes  declared {declared} ns one way: p50 is {over:.0} ns from twice that, turn-around and stamps counted"
        );
    }
    Ok(missed)
}

/// Runs `act` on one port while another thread has the other one.
fn with_peer<T>((mut one, other): (Port, Port), on: u32, act: impl FnOnce(&mut Port, &SharedLines) -> Outcome<T>) -> Outcome<T> {
    let between = SharedLines::default();
    thread::scope(|scope| {
        let peer = scope.spawn(|| peer(other, on, &between).map_err(|error| error.to_string()));
        let done = act(&mut one, &between);
        ask(&between, END);
        peer.join().map_err(|_| "the peer panicked")??;
        done
    })
}

/// Distance of the blocks' p50 from the declared RTT, in ns.
fn emulated(io: &mut Port, clock: Tsc, between: &SharedLines, blocks: usize, declared: i64) -> Outcome<Typical> {
    ask(between, BOUNCE);
    let p50 = |_| Ok(clock.to_ns(quantiles(bounce(io, clock, 60)?)[0]) as f64 - declared as f64);
    let p50s = (0..blocks.div_ceil(5)).map(p50).collect::<Outcome<Vec<f64>>>()?;
    Ok(Typical::of(&p50s))
}

fn measure(io: &mut Port, clock: Tsc, between: &SharedLines, blocks: usize) -> Outcome<bool> {
    let mut control = [Vec::new(), Vec::new()];
    let mut cells = BOUNDS.map(|_| [Vec::new(), Vec::new()]);
    for block in 0..blocks as u32 {
        between.block.0.store(block.wrapping_mul(97), Ordering::Relaxed);
        ask(between, BOUNCE_LINE);
        let line = quantiles(bounce_line(clock, between));
        control.iter_mut().zip(line).for_each(|(all, value)| all.push(clock.to_ns(value) as f64));
        ask(between, BOUNCE);
        for ((len, ..), cell) in BOUNDS.iter().zip(&mut cells) {
            let frames = quantiles(bounce(io, clock, *len)?);
            cell.iter_mut().zip(frames).for_each(|(all, value)| all.push(clock.to_ns(value) as f64));
        }
    }
    let mut missed = false;
    println!("{blocks} blocks of {ROUND_TRIPS} round trips; typical values of blocks, with their 95 % intervals");
    println!("control          p50 {:.0} ns  p99 {:.0} ns", Typical::of(&control[0]), Typical::of(&control[1]));
    for ((len, p50, p99), cell) in BOUNDS.iter().zip(&cells) {
        println!("niq {len:5} bytes  p50 {:.0} ns  p99 {:.0} ns", Typical::of(&cell[0]), Typical::of(&cell[1]));
        for (at, (name, bound)) in [("p50", *p50), ("p99", *p99)].into_iter().enumerate() {
            let ratio = ratio(&control[at], &cell[at]);
            let word = ratio.word(bound);
            println!("niq {len:5} bytes  {name} {ratio:.2} times the control, bound {}: {word}", bound.text());
            missed |= word.missed();
        }
    }

    let copied = copy_rate(clock);
    println!("one way, batches of {BATCH}; this CPU copies memory to memory at {copied:.1} GB/s");
    ask(between, RECEIVE);
    let mut rates = SIZES.map(|_| Vec::new());
    for _ in 0..blocks {
        for (len, rates) in SIZES.into_iter().zip(&mut rates) {
            rates.push(one_way(io, clock, between, len)? / 1e6);
        }
    }
    for (len, rates) in SIZES.into_iter().zip(&rates) {
        let (rate, bound) = (Typical::of(rates), if len == 60 { RATE } else { Limit::None });
        let (bytes, word) = (rate.value() * len as f64 / 1e3, rate.word(bound));
        println!("niq {len:5} bytes  {bytes:6.2} GB/s  {rate:.2} million frames/s, bound {}: {word}", bound.text());
        missed |= word.missed();
    }
    println!("{:?}, woken {} times, without credit {} times", io.pcie(), io.wake_ups(), io.no_credit());
    Ok(missed)
}

/// Gives the other thread a command, and waits until it obeys.
fn ask(between: &SharedLines, what: u32) {
    between.asked.0.store(what, Ordering::Release);
    while between.doing.0.load(Ordering::Acquire) != what {
        std::hint::spin_loop();
    }
}

fn bounce_line(clock: Tsc, between: &SharedLines) -> Vec<u64> {
    let [Apart(there), Apart(back)] = between.pair();
    let first = there.load(Ordering::Relaxed) + 1;
    let round_trip = |number| {
        let start = clock.start();
        there.store(number, Ordering::Release);
        while back.load(Ordering::Acquire) != number {}
        clock.stop().since(start)
    };
    (first..first + ROUND_TRIPS as u64).map(round_trip).collect()
}

fn bounce(io: &mut Port, clock: Tsc, len: usize) -> Outcome<Vec<u64>> {
    let (mut frames, mut arrivals) = (Vec::with_capacity(1), Vec::with_capacity(1));
    let mut took = Vec::with_capacity(ROUND_TRIPS);
    let umem = io.umem().clone();
    for number in 0..ROUND_TRIPS as u64 {
        let mut frame = io.pool().take().ok_or("no chunk")?;
        frame.set_len(len);
        umem.bytes_mut(&mut frame)[..8].copy_from_slice(&number.to_le_bytes());
        let start = clock.start();
        frames.push(frame);
        io.tx_batch(&mut frames);
        io.kick(Kick::Send)?;
        while io.rx_batch(&mut arrivals, 1) == 0 {}
        took.push(clock.stop().since(start));
        let Some(Arrival { frame, .. }) = arrivals.pop() else { return Err("an arrival that is none".into()) };
        if frame.len() != len || umem.bytes(&frame)[..8] != number.to_le_bytes() {
            return Err("another frame came back".into());
        }
        io.pool().give(frame);
    }
    Ok(took)
}

/// Frames/s that arrived.
fn one_way(io: &mut Port, clock: Tsc, between: &SharedLines, len: usize) -> Outcome<f64> {
    let count = (FRAMES * 60 / len.max(60)).next_multiple_of(BATCH).max(5 * BATCH);
    let mut frames: Vec<Frame> = Vec::with_capacity(BATCH);
    let until = between.received.0.load(Ordering::Acquire) + count as u64;
    let start = clock.start();
    let mut left = count;
    while left > 0 {
        while frames.len() < BATCH {
            let mut frame = io.pool().take().ok_or("no chunk")?;
            frame.set_len(len);
            frames.push(frame);
        }
        let taken = io.tx_batch(&mut frames);
        io.kick(Kick::Send)?;
        left -= taken;
    }
    for frame in frames.drain(..) {
        io.pool().give(frame);
    }
    while between.received.0.load(Ordering::Acquire) < until {}
    Ok(count as f64 * 1e9 / clock.to_ns(clock.stop().since(start)) as f64)
}

/// Cost of a frame of 60 bytes without another CPU, in ns.
fn alone(one: &mut Port, other: &mut Port, clock: Tsc, batch: usize) -> Outcome<Typical> {
    let (mut frames, mut arrivals) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let batches = ROUND_TRIPS / 10 / batch;
    let mut block = || {
        let start = clock.start();
        for _ in 0..batches {
            for _ in 0..batch {
                let mut frame = one.pool().take().ok_or("no chunk")?;
                frame.set_len(60);
                frames.push(frame);
            }
            one.tx_batch(&mut frames);
            one.kick(Kick::Send)?;
            if other.rx_batch(&mut arrivals, batch) != batch {
                return Err("not all arrived".into());
            }
            arrivals.drain(..).for_each(|arrival| other.pool().give(arrival.frame));
        }
        Ok(clock.to_ns(clock.stop().since(start)) as f64 / (batches * batch) as f64)
    };
    let blocks = (0..101).map(|_| block()).collect::<Outcome<Vec<f64>>>()?;
    Ok(Typical::of(&blocks))
}

/// The other thread.
fn peer(mut io: Port, on: u32, between: &SharedLines) -> Outcome {
    cpu::pin(on)?;
    let (mut arrivals, mut frames) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    loop {
        let what = between.asked.0.load(Ordering::Acquire);
        between.doing.0.store(what, Ordering::Release);
        let still = || between.asked.0.load(Ordering::Relaxed) == what;
        match what {
            BOUNCE_LINE => {
                let [Apart(there), Apart(back)] = between.pair();
                let mut last = back.load(Ordering::Relaxed);
                while still() {
                    let now = there.load(Ordering::Acquire);
                    if now != last {
                        back.store(now, Ordering::Release);
                        last = now;
                    }
                }
            }
            BOUNCE => {
                while still() {
                    if io.rx_batch(&mut arrivals, BATCH) > 0 {
                        frames.extend(arrivals.drain(..).map(|arrival: Arrival| arrival.frame));
                        io.tx_batch(&mut frames);
                        io.kick(Kick::Send)?;
                    }
                }
            }
            RECEIVE => {
                while still() {
                    let received = io.rx_batch(&mut arrivals, BATCH);
                    if received > 0 {
                        arrivals.drain(..).for_each(|arrival| io.pool().give(arrival.frame));
                        between.received.0.fetch_add(received as u64, Ordering::Release);
                    }
                }
            }
            END => return Ok(()),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Rate at which one CPU copies memory, in GB/s: the best of a few runs.
fn copy_rate(clock: Tsc) -> f64 {
    const BYTES: usize = 64 << 20;
    let (from, mut to) = (vec![1u8; BYTES], vec![0u8; BYTES]);
    let rate = |_| {
        let start: Ticks = clock.start();
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        BYTES as f64 / clock.to_ns(clock.stop().since(start)) as f64
    };
    (0..5).map(rate).fold(0.0, f64::max)
}

/// p50 and p99.
fn quantiles(mut ticks: Vec<u64>) -> [u64; 2] {
    ticks.sort_unstable();
    [0.5, 0.99].map(|q| ticks[(q * (ticks.len() - 1) as f64) as usize])
}
