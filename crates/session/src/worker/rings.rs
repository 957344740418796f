//! The packet rings of a worker: opened once, used for one trial after the other.
//!
//! ```text
//!   Order::Rings ──▶ open ──▶ Device ─ ring, ring, …     kept in the worker until the next Order::Rings
//!   Order::Stream ─┐            │ shared out to a thread per CPU
//!   Order::Bounce ─┴──────────▶ thread: ring, ring      thread: ring, ring
//! ```

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::bounce::{Bounce, BounceConfig};
use hairpin_packet::device::{BackEnd, Config, OpenError, Spread};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::{Granted, NotGranted};
use hairpin_packet::io::{Counters, PacketIo};
use hairpin_packet::ring::{Coalesce, Received, Ring, RingConfig, Wait};
use hairpin_packet::stream::{self, Incoming, MOST_FLOWS, Monitor, Outgoing, Totals};
use hairpin_record::bounce::{Bounced, Kept};
use hairpin_record::frames::{Lost, Refused, Rings};
use hairpin_sys::clock::AnyClock;
use hairpin_sys::shared::Shared;
use hairpin_sys::thread::{self, spawn_with_own_files};
use hairpin_units::Arrange;

use crate::io::{BackEndName, IoSpec};
use crate::message::Flush;
use crate::message::{AskRings, BounceWork, Count, Failure, StreamCounts, StreamWork};

/// Open rings of any back end.
pub trait Opened {
    /// Sends and counts as `work` says; `tell` gets the counts about once a second.
    fn stream(&mut self, work: &StreamWork, clock: AnyClock, stop: &Shared, tell: Tell<'_, StreamCounts>) -> Ran<StreamCounts>;

    /// Bounces as `work` says; `tell` gets the counts about once a second. The counts include frames lost.
    fn bounce(&mut self, work: &BounceWork, clock: AnyClock, stop: &Shared, tell: Tell<'_, Bounced>) -> Ran<Bounced>;

    /// Gives the interfaces back and waits until their links are as before.
    fn close(self: Box<Self>);
}

/// Receives the counts so far.
pub type Tell<'a, T> = &'a mut (dyn FnMut(&T) + Send);

/// The counts of a trial, and why it ended early, if it did.
#[derive(Debug)]
pub struct Ran<T> {
    pub counts: T,
    pub lost: Lost,
    pub error: Option<String>,
}

pub struct Open {
    pub io: IoSpec,
    pub opened: Box<dyn Opened>,
    pub rings: Rings,
    pub output: Option<Rings>,
    pub passed_over: Vec<String>,
}

/// The rings, and the features granted to the first and second interface.
type OneOpen = (Box<dyn Opened>, Rings, Option<Rings>);

/// Why a choice is passed over.
#[derive(Debug, thiserror::Error)]
enum PassedOver {
    #[error(transparent)]
    NotOpen(#[from] OpenError),
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
}

/// Opens the first choice that works. `patience` is how long to wait for a queue that is in use: the kernel releases it a moment
/// after its socket was closed.
pub fn open(ask: &AskRings, patience: Duration) -> Result<Open, Failure> {
    let until = Instant::now() + patience;
    let filter: Filter = ask.filter.parse().map_err(|error| Failure { message: format!("{error}"), missing: false })?;
    let mut passed_over = Vec::new();
    let mut missing = false;
    for io in &ask.io {
        let config = Config { filter, longest_frame: ask.longest, rings: ask.queues, spread: Spread::Queue, ..io.config() };
        let opened = loop {
            let opened = match io.back_end {
                BackEndName::Packet => Device::<AfPacket>::open(ask, io, &config),
                BackEndName::Xdp => Device::<AfXdp>::open(ask, io, &config),
            };
            match opened {
                Err(PassedOver::NotOpen(OpenError::QueueTaken { .. })) if Instant::now() < until => std::thread::sleep(AGAIN),
                opened => break opened,
            }
        };
        match opened {
            Ok((opened, rings, output)) => return Ok(Open { io: io.clone(), opened, rings, output, passed_over }),
            Err(error) => {
                missing |= matches!(error, PassedOver::NotOpen(OpenError::Capability { .. }) | PassedOver::NotGranted(_));
                passed_over.push(format!("{io}: {error}"));
            }
        }
    }
    Err(Failure { message: passed_over.join("; "), missing })
}

/// Pause between two attempts.
const AGAIN: Duration = Duration::from_millis(10);

struct Device<B: BackEnd> {
    /// Keeps the programs attached and the filters loaded.
    devices: Vec<B>,
    /// With a second interface there are two: frames come in on the first and go out on the second.
    io: Vec<B::Io>,
    output: bool,
    wait: Wait,
}

impl<B: BackEnd + 'static> Device<B> {
    fn open(ask: &AskRings, io: &IoSpec, config: &Config) -> Result<OneOpen, PassedOver> {
        let mut device = B::open(&ask.interface, config)?;
        let queues = (0..ask.queues).map(|at| ask.queue.saturating_add(at));
        let mut rings: Vec<B::Io> = queues.map(|queue| device.ring(queue)).collect::<Result<_, _>>()?;
        let input = facts(&rings.iter().map(PacketIo::granted).collect::<Vec<_>>());
        let mut devices = vec![device];
        let mut output = None;
        if let Some(interface) = &ask.output {
            // Not started: no frame may come in there.
            let mut device = B::open(interface, config)?;
            let ring = device.ring(0)?;
            output = Some(facts(&[ring.granted()]));
            devices.push(device);
            rings.push(ring);
        }
        for granted in rings.iter().map(PacketIo::granted) {
            io.required().try_for_each(|feature| granted.require(feature))?;
        }
        devices[0].start()?;
        let opened = Device { devices, io: rings, output: output.is_some(), wait: io.wait() };
        Ok((Box::new(opened), input, output))
    }

    /// Drives all rings, divided among one thread on each of `cpus`; with one CPU, on this thread.
    fn drive<T: Send>(
        &mut self,
        cpus: &[u32],
        clock: &AnyClock,
        coalesce: Coalesce,
        work: impl Fn(usize, &[Ring<B::Io, AnyClock>]) -> Result<T, String> + Sync,
    ) -> (Vec<T>, Lost, Option<String>) {
        let before = self.lost();
        let config = RingConfig { wait: self.wait, coalesce, hold: None };
        let threads = self.threads(cpus);
        let mut shares: Vec<Vec<B::Io>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, io) in std::mem::take(&mut self.io).into_iter().enumerate() {
            shares[at % threads].push(io);
        }
        let on = |thread: usize, share: Vec<B::Io>| {
            if let Some(Err(error)) = cpus.get(thread).map(|cpu| thread::pin(*cpu)) {
                return (share, Err(error.to_string()));
            }
            let rings: Vec<_> = share.into_iter().map(|io| Ring::new(io, *clock, config)).collect();
            let done = work(thread, &rings);
            (rings.into_iter().map(Ring::into_io).collect(), done)
        };
        let mut ended: Vec<Result<_, String>> = Vec::with_capacity(threads);
        if threads == 1 {
            ended.extend(shares.into_iter().map(|share| Ok(on(0, share))));
        } else {
            std::thread::scope(|scope| {
                let on = &on;
                let started: Vec<_> = shares
                    .into_iter()
                    .enumerate()
                    .map(|(thread, share)| {
                        // A file table of its own makes the thread's system calls cheaper; if refused, they cost more.
                        spawn_with_own_files(scope, move |_| on(thread, share))
                    })
                    .collect();
                ended.extend(started.into_iter().map(|thread| match thread {
                    Ok(thread) => {
                        thread.join().map_err(|_| "a thread that drives a ring panicked; please report this".to_owned())
                    }
                    Err(error) => Err(format!("cannot start a thread that drives a ring: {error}")),
                }));
            });
        }
        let (mut done, mut error) = (Vec::new(), None);
        for thread in ended {
            match thread {
                Ok((share, result)) => {
                    self.io.extend(share);
                    match result {
                        Ok(counts) => done.push(counts),
                        Err(why) => error = error.or(Some(why)),
                    }
                }
                Err(why) => error = Some(why),
            }
        }
        if !self.output {
            self.io.arrange_by_key(|io| io.granted().queue);
        }
        let lost = self.lost().since(before);
        (done, lost, error)
    }

    /// One thread per CPU, at most one per ring; only one if frames pass from ring to ring.
    fn threads(&self, cpus: &[u32]) -> usize {
        if self.output { 1 } else { cpus.len().min(self.io.len()).max(1) }
    }

    fn lost(&mut self) -> Lost {
        self.io.iter_mut().map(|io| lost(io.counters())).fold(Lost::default(), Lost::plus)
    }

    fn stream_by(
        &mut self,
        work: &StreamWork,
        clock: &AnyClock,
        stop: &Shared,
        tell: Tell<'_, StreamCounts>,
    ) -> Ran<StreamCounts> {
        let threads = self.threads(&work.cpus);
        let rings = self.io.len();
        let heard = Mutex::new((vec![StreamCounts::default(); threads], tell));
        let until = work.duration.map(|duration| Instant::now() + Duration::from(duration));
        let (done, lost, error) = self.drive(&work.cpus, clock, Coalesce::Every(BATCH), |thread, mine| {
            let flows = work.flows.min(MOST_FLOWS);
            let incoming = match work.count {
                Count::Nobody => None,
                Count::Of(cookie) => Some(Incoming { cookie: Some(cookie), flows }),
                Count::Anybody => Some(Incoming { cookie: None, flows }),
            };
            let outgoing = work.send.as_ref().map(|send| Outgoing {
                destination: send.destination,
                source: send.source,
                cookie: send.cookie,
                first_flow: first_flow(rings, threads, thread),
                first_sequence: 0,
                bytes: send.bytes,
                per_s: send.per_s.map(|per_s| per_s * mine.len() as f64 / rings as f64),
                duration: send.duration,
            });
            let mut watch = Watching { stop, until, thread, heard: &heard, failed: StreamCounts::default() };
            Ok(match stream::run(mine, clock, outgoing.as_ref(), incoming.as_ref(), &mut watch) {
                Ok(totals) => (counts(&totals), None),
                Err(error) => (watch.failed, Some(error.to_string())),
            })
        });
        let (counts, errors): (Vec<_>, Vec<_>) = done.into_iter().unzip();
        Ran { counts: sum(&counts), lost, error: error.or(errors.into_iter().flatten().next()) }
    }
}

/// The number of the first flow of a thread: rings are dealt to the threads in turn, so the first threads may have one more.
fn first_flow(rings: usize, threads: usize, thread: usize) -> u16 {
    (thread * (rings / threads) + thread.min(rings % threads)) as u16
}

impl<B: BackEnd + 'static> Device<B> {
    fn bounce_by(&mut self, work: &BounceWork, clock: &AnyClock, stop: &Shared, tell: Tell<'_, Bounced>) -> Ran<Bounced> {
        let (Ok(filter), Ok(rewrite)) = (work.filter.parse(), work.rewrite.parse()) else {
            let error = Some(format!("\"{}\" or \"{}\" is not a filter or rewrite", work.filter, work.rewrite));
            return Ran { counts: Bounced::default(), lost: Lost::default(), error };
        };
        let config = BounceConfig { filter, rewrite, verify: work.verify, repeats: work.repeats };
        let coalesce = match work.flush {
            Flush::Each => Coalesce::Off,
            Flush::Every(frames) => Coalesce::Every(frames),
            Flush::Adaptive => Coalesce::ADAPTIVE,
        };
        let threads = self.threads(&work.cpus);
        let heard = Mutex::new((vec![Bounced::default(); threads], tell));
        let until = work.duration.map(|duration| Instant::now() + Duration::from(duration));
        let output = self.output;
        let (done, lost, error) = self.drive(&work.cpus, clock, coalesce, |thread, rings| {
            let (rings, out) = if output { rings.split_at(1) } else { (rings, &rings[..0]) };
            let mut told = Instant::now();
            let before = rings.iter().chain(out).map(|ring| self::lost(ring.counters().io)).fold(Lost::default(), Lost::plus);
            bounce(rings, out.first(), config, &mut |counts| {
                let now = Instant::now();
                if now.duration_since(told) >= SECOND {
                    told += SECOND;
                    let after =
                        rings.iter().chain(out).map(|ring| self::lost(ring.counters().io)).fold(Lost::default(), Lost::plus);
                    let counts = Bounced { lost: after.since(before), ..counts() };
                    if let Ok(mut heard) = heard.lock() {
                        let (all, tell) = &mut *heard;
                        all[thread] = counts;
                        if thread == 0 {
                            tell(&all.iter().copied().fold(Bounced::default(), Bounced::plus));
                        }
                    }
                    return Turn::Second;
                }
                if stop.stop_requested() || until.is_some_and(|until| now >= until) { Turn::Stop } else { Turn::Go }
            })
        });
        let frames = done.iter().map(|(frames, _)| *frames).fold(Bounced::default(), Bounced::plus);
        let error = error.or(done.into_iter().find_map(|(_, error)| error));
        Ran { counts: Bounced { lost, ..frames }, lost, error }
    }
}

/// The next step of a bouncer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Go,
    /// A second has passed.
    Second,
    Stop,
}

/// Most frames that a bouncer receives at once.
const MOST: usize = 64;
/// A sleeping bouncer checks its stop flag at this interval, in ms.
const LOOK_MS: i32 = 10;
/// Interval of the watchers' counts.
const SECOND: Duration = Duration::from_secs(1);

/// Bounces on every ring in turn, out of `out` if given, until `go` returns stop. An error ends it; the counts so far stay valid.
fn bounce<P: PacketIo>(
    rings: &[Ring<P, AnyClock>],
    out: Option<&Ring<P, AnyClock>>,
    config: BounceConfig,
    go: &mut dyn FnMut(&dyn Fn() -> Bounced) -> Turn,
) -> Result<(Bounced, Option<String>), String> {
    let mut bouncers = Vec::with_capacity(rings.len());
    for _ in rings {
        bouncers.push(Bounce::new(config).map_err(|error| format!("cannot get a random key: {error}"))?);
    }
    let mut scratch = Vec::with_capacity(MOST);
    // With several rings none may sleep.
    let wait = if rings.len() == 1 { LOOK_MS } else { 0 };
    let mut error = None;
    'turns: loop {
        let sum = || bouncers.iter().map(|bouncer| bounced(&bouncer.counters())).fold(Bounced::default(), Bounced::plus);
        match go(&sum) {
            Turn::Stop => break,
            Turn::Second => bouncers.iter_mut().for_each(Bounce::second),
            Turn::Go => {}
        }
        for (ring, bouncer) in rings.iter().zip(&mut bouncers) {
            let turned = match out {
                Some(out) => bouncer.turn_into(ring, out, &mut scratch, MOST, wait),
                None => bouncer.turn(ring, &mut scratch, MOST, wait),
            };
            let turned = match turned {
                // Frames on one ring must not wait for arrivals on another.
                Ok(Received::WouldBlock) => ring.flush(),
                turned => turned.map(|_| ()),
            };
            if let Err(why) = turned {
                let interface = ring.granted().interface;
                error = Some(format!("the ring of {interface} failed: {why}; see ip link show {interface}"));
                break 'turns;
            }
        }
    }
    let frames = bouncers.iter().map(|bouncer| bounced(&bouncer.counters())).fold(Bounced::default(), Bounced::plus);
    Ok((frames, error))
}

fn bounced(counted: &hairpin_packet::bounce::Bounced) -> Bounced {
    Bounced {
        received: counted.rx_frames,
        received_bytes: counted.rx_bytes,
        sent: counted.tx_frames,
        sent_bytes: counted.tx_bytes,
        sent_wire_bytes: counted.tx_wire_bytes,
        kept: Kept {
            group: counted.group,
            filtered: counted.filtered,
            repeated: counted.repeated,
            short: counted.short,
            too_long: counted.too_long,
        },
        wrong_checksum: counted.wrong_checksum,
        tx_ring_full: counted.full,
        lost: Lost::default(),
    }
}

impl<B: BackEnd + 'static> Opened for Device<B> {
    fn bounce(&mut self, work: &BounceWork, clock: AnyClock, stop: &Shared, tell: Tell<'_, Bounced>) -> Ran<Bounced> {
        self.bounce_by(work, &clock, stop, tell)
    }

    fn stream(&mut self, work: &StreamWork, clock: AnyClock, stop: &Shared, tell: Tell<'_, StreamCounts>) -> Ran<StreamCounts> {
        self.stream_by(work, &clock, stop, tell)
    }

    fn close(self: Box<Self>) {
        let Device { devices, io, .. } = *self;
        drop(io);
        // The next to open them tells what is wrong with an interface that does not come back.
        devices.into_iter().for_each(|device| drop(device.close()));
    }
}

/// Frames per kick. The loop flushes after each of its own batches, which are not longer.
const BATCH: NonZeroU32 = NonZeroU32::new(64).unwrap();

/// The counts of every thread, and the callback for their sum.
type SharedCounts<'a> = Mutex<(Vec<StreamCounts>, Tell<'a, StreamCounts>)>;

struct Watching<'a, 'b> {
    stop: &'a Shared,
    until: Option<Instant>,
    thread: usize,
    heard: &'a SharedCounts<'b>,
    /// The counts until a ring failed.
    failed: StreamCounts,
}

impl Monitor for Watching<'_, '_> {
    fn stop(&mut self) -> bool {
        self.stop.stop_requested() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn second(&mut self, totals: &Totals) {
        // If another thread panicked, its join reports it.
        let Ok(mut heard) = self.heard.lock() else { return };
        let (all, tell) = &mut *heard;
        all[self.thread] = counts(totals);
        if self.thread == 0 {
            tell(&sum(all));
        }
    }

    fn failed(&mut self, totals: &Totals) {
        self.failed = counts(totals);
    }
}

fn counts(totals: &Totals) -> StreamCounts {
    let Totals { sent, came, .. } = totals;
    StreamCounts {
        sent: sent.frames,
        sent_for: sent.duration,
        came: came.frames,
        came_bytes: came.bytes,
        came_for: came.duration,
        span: came.span,
        duplicates: came.duplicates,
        reordered: came.reordered,
        foreign: came.foreign,
    }
}

fn sum(all: &[StreamCounts]) -> StreamCounts {
    all.iter().fold(StreamCounts::default(), |sum, one| StreamCounts {
        sent: sum.sent + one.sent,
        sent_for: sum.sent_for.max(one.sent_for),
        came: sum.came + one.came,
        came_bytes: sum.came_bytes + one.came_bytes,
        came_for: sum.came_for.max(one.came_for),
        span: sum.span + one.span,
        duplicates: sum.duplicates + one.duplicates,
        reordered: sum.reordered + one.reordered,
        foreign: sum.foreign + one.foreign,
    })
}

fn lost(counters: Counters) -> Lost {
    Lost {
        rx_ring_full: counters.rx_ring_full,
        rx_no_chunk: counters.rx_no_chunk,
        rx_dropped: counters.rx_dropped,
        rx_too_long: counters.rx_too_long,
        rx_invalid: counters.rx_invalid,
        tx_invalid: counters.tx_invalid,
        tx_dropped: counters.tx_dropped,
    }
}

/// Features granted to all rings of an interface.
fn facts(granted: &[&Granted]) -> Rings {
    let Some(first) = granted.first() else { return Rings::default() };
    let mut refused: Vec<Refused> = Vec::new();
    for one in granted.iter().flat_map(|granted| &granted.refused) {
        let one = Refused { feature: one.feature.to_string(), why: one.why.clone() };
        if !refused.contains(&one) {
            refused.push(one);
        }
    }
    let all = |has: fn(&Granted) -> bool| granted.iter().all(|granted| has(granted));
    Rings {
        back_end: first.back_end.into(),
        interface: first.interface.clone(),
        queues: granted.iter().map(|granted| granted.queue).collect(),
        mode: first.mode.map(|mode| mode.to_string()),
        zero_copy: all(|granted| granted.zero_copy),
        need_wakeup: all(|granted| granted.need_wakeup),
        busy_poll: all(|granted| granted.busy_poll),
        multi_buffer: all(|granted| granted.multi_buffer),
        rx_time: first.rx_time.map(|time| time.to_string()),
        longest_frame_bytes: granted.iter().map(|granted| granted.longest_frame as u64).min().unwrap_or(0),
        refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_number_their_flows_without_a_gap() {
        for rings in 1..=9 {
            for threads in 1..=rings {
                let flows = (0..threads).flat_map(|thread| {
                    let share = (0..rings).filter(|ring| ring % threads == thread).count();
                    (0..share).map(move |ring| usize::from(first_flow(rings, threads, thread)) + ring)
                });
                assert!(flows.eq(0..rings), "{rings} rings of {threads} threads");
            }
        }
    }
}
