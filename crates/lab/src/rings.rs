//! The packet rings that a worker holds: opened once, driven for one trial after the other.
//!
//! ```text
//!   Order::Rings ──▶ open ──▶ Device ─ ring, ring, …     kept in the worker until the next Order::Rings
//!   Order::Stream ─┐            │ shared out to a thread per CPU
//!   Order::Bounce ─┴──────────▶ thread: ring, ring      thread: ring, ring
//! ```

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hairpin_iopath::measure::AnyClock;
use hairpin_packet::af_packet::AfPacket;
use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::device::{BackEnd, Config, OpenError, Spread};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::{Granted, TimeSource};
use hairpin_packet::io::{Counters, PacketIo};
use hairpin_packet::ring::{Coalesce, Ring, RingConfig, Wait};
use hairpin_packet::stream::{self, Incoming, MOST_FLOWS, Outgoing, Totals, Watch};
use hairpin_record::frames::{Lost, Refused, Rings};
use hairpin_sys::clock::Clock;
use hairpin_sys::process;
use hairpin_sys::shared::Shared;
use hairpin_sys::thread;

use crate::io::{BackEndName, IoSpec};
use crate::message::{AskRings, Failure, StreamCounts, Work};

/// Rings that are open, whatever their back end.
pub(crate) trait Opened {
    /// Sends and counts as ordered; `tell` hears the counts about once a second.
    fn stream(&mut self, work: &Work, clock: AnyClock, stop: &Shared, tell: Tell<'_, StreamCounts>) -> Ran<StreamCounts>;
}

/// Whom to tell how it gets on.
pub(crate) type Tell<'a, T> = &'a mut (dyn FnMut(&T) + Send);

/// What rings did, and why they ended early, if they did.
#[derive(Debug)]
pub(crate) struct Ran<T> {
    pub(crate) counts: T,
    pub(crate) lost: Lost,
    pub(crate) error: Option<String>,
}

/// What an open came to.
pub(crate) struct Open {
    pub(crate) io: IoSpec,
    pub(crate) opened: Box<dyn Opened>,
    pub(crate) rings: Rings,
    pub(crate) passed_over: Vec<String>,
}

/// Opens the first choice that opens.
pub(crate) fn open(ask: &AskRings) -> Result<Open, Failure> {
    let filter: Filter = ask.filter.parse().map_err(|error| Failure { message: format!("{error}"), missing: false })?;
    let mut passed_over = Vec::new();
    let mut missing = false;
    for io in &ask.io {
        let config = Config { filter, longest_frame: ask.longest, rings: ask.queues, spread: Spread::Queue, ..io.config() };
        let opened = match io.back_end {
            BackEndName::Packet => Device::<AfPacket>::open(ask, io, &config),
            BackEndName::Xdp => Device::<AfXdp>::open(ask, io, &config),
        };
        match opened {
            Ok((opened, rings)) => return Ok(Open { io: io.clone(), opened, rings, passed_over }),
            Err(error) => {
                missing |= matches!(error, OpenError::Capability { .. });
                passed_over.push(format!("{io}: {error}"));
            }
        }
    }
    Err(Failure { message: passed_over.join("; "), missing })
}

struct Device<B: BackEnd> {
    /// Keeps the program attached and the filter open.
    _device: B,
    io: Vec<B::Io>,
    wait: Wait,
}

impl<B: BackEnd + 'static> Device<B> {
    fn open(ask: &AskRings, io: &IoSpec, config: &Config) -> Result<(Box<dyn Opened>, Rings), OpenError> {
        let mut device = B::open(&ask.interface, config)?;
        let queues = ask.queue..ask.queue + ask.queues;
        let rings: Vec<B::Io> = queues.map(|queue| device.ring(queue)).collect::<Result<_, _>>()?;
        device.start()?;
        let facts = facts(&rings.iter().map(PacketIo::granted).collect::<Vec<_>>());
        Ok((Box::new(Device { _device: device, io: rings, wait: io.wait() }), facts))
    }

    /// Drives all rings, shared out to a thread on each of `cpus`; on this thread if that is one.
    fn drive<C: Clock, T: Send>(
        &mut self,
        cpus: &[u32],
        clock: &C,
        coalesce: Coalesce,
        work: impl Fn(usize, &[Ring<B::Io, C>]) -> Result<T, String> + Sync,
    ) -> (Vec<T>, Lost, Option<String>) {
        let before = self.lost();
        let config = RingConfig { wait: self.wait, coalesce, hold: None };
        let threads = cpus.len().min(self.io.len()).max(1);
        let mut shares: Vec<Vec<B::Io>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, io) in std::mem::take(&mut self.io).into_iter().enumerate() {
            shares[at % threads].push(io);
        }
        let on = |thread: usize, share: Vec<B::Io>| {
            if let Some(Err(error)) = cpus.get(thread).map(|cpu| thread::pin(*cpu)) {
                return (share, Err(error.to_string()));
            }
            let rings: Vec<_> = share.into_iter().map(|io| Ring::new(io, clock.clone(), config)).collect();
            let done = work(thread, &rings);
            (rings.into_iter().map(Ring::into_io).collect(), done)
        };
        let mut ended = Vec::with_capacity(threads);
        if threads == 1 {
            ended.extend(shares.into_iter().map(|share| Some(on(0, share))));
        } else {
            std::thread::scope(|scope| {
                let on = &on;
                let started: Vec<_> = shares
                    .into_iter()
                    .enumerate()
                    .map(|(thread, share)| {
                        scope.spawn(move || {
                            // A file table of its own makes its calls cheaper; where that is refused they are dearer.
                            let _ = process::unshare_files();
                            on(thread, share)
                        })
                    })
                    .collect();
                ended.extend(started.into_iter().map(|thread| thread.join().ok()));
            });
        }
        let (mut done, mut error) = (Vec::new(), None);
        for thread in ended {
            match thread {
                Some((share, result)) => {
                    self.io.extend(share);
                    match result {
                        Ok(counts) => done.push(counts),
                        Err(why) => error = error.or(Some(why)),
                    }
                }
                None => error = Some("a thread that drives a ring panicked; please report this".into()),
            }
        }
        self.io.sort_by_key(|io| io.granted().queue);
        let lost = self.lost().since(before);
        (done, lost, error)
    }

    fn lost(&mut self) -> Lost {
        self.io.iter_mut().map(|io| lost(io.counters())).fold(Lost::default(), Lost::plus)
    }

    fn stream_by<C: Clock>(&mut self, work: &Work, clock: &C, stop: &Shared, tell: Tell<'_, StreamCounts>) -> Ran<StreamCounts> {
        let threads = work.cpus.len().min(self.io.len()).max(1);
        let (rings, share) = (self.io.len(), self.io.len().div_ceil(threads));
        let heard = Mutex::new((vec![StreamCounts::default(); threads], tell));
        let until = work.duration.map(|duration| Instant::now() + Duration::from(duration));
        let (done, lost, error) = self.drive(&work.cpus, clock, Coalesce::Every(BATCH), |thread, mine| {
            let incoming = work.count.map(|cookie| Incoming { cookie, flows: work.flows.min(MOST_FLOWS) });
            let outgoing = work.send.as_ref().map(|send| Outgoing {
                destination: send.destination,
                source: send.source,
                cookie: send.cookie,
                first_flow: (thread * share) as u16,
                first_sequence: 0,
                bytes: send.bytes,
                per_s: send.per_s.map(|per_s| per_s * mine.len() as f64 / rings as f64),
                duration: send.duration,
            });
            let mut watch = Watching { stop, until, thread, heard: &heard };
            stream::run(mine, clock, outgoing.as_ref(), incoming.as_ref(), &mut watch).map_err(|error| error.to_string())
        });
        Ran { counts: sum(&done.iter().map(counts).collect::<Vec<_>>()), lost, error }
    }
}

impl<B: BackEnd + 'static> Opened for Device<B> {
    fn stream(&mut self, work: &Work, clock: AnyClock, stop: &Shared, tell: Tell<'_, StreamCounts>) -> Ran<StreamCounts> {
        match clock {
            AnyClock::Tsc(clock) => self.stream_by(work, &clock, stop, tell),
            AnyClock::Raw(clock) => self.stream_by(work, &clock, stop, tell),
        }
    }
}

/// Frames of one kick; the loop flushes after each of its own batches, which are no longer.
const BATCH: NonZeroU32 = NonZeroU32::new(64).unwrap();

/// What every thread has counted, and whom to tell.
type Heard<'a> = Mutex<(Vec<StreamCounts>, Tell<'a, StreamCounts>)>;

struct Watching<'a, 'b> {
    stop: &'a Shared,
    until: Option<Instant>,
    thread: usize,
    heard: &'a Heard<'b>,
}

impl Watch for Watching<'_, '_> {
    fn stop(&mut self) -> bool {
        self.stop.stop_requested() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn second(&mut self, totals: &Totals) {
        // Another thread that panicked is found when it is joined.
        let Ok(mut heard) = self.heard.lock() else { return };
        let (all, tell) = &mut *heard;
        all[self.thread] = counts(totals);
        if self.thread == 0 {
            tell(&sum(all));
        }
    }
}

fn counts(totals: &Totals) -> StreamCounts {
    let Totals { sent, came } = totals;
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

/// What all of an interface's rings were granted; what one of them lacks is not there.
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
        rx_time: first.rx_time.map(|time| match time {
            TimeSource::Hardware => "hardware".into(),
            TimeSource::Software => "software".into(),
        }),
        longest_frame_bytes: granted.iter().map(|granted| granted.longest_frame as u64).min().unwrap_or(0),
        refused,
    }
}
