//! Numbered frames, sent at a rate and counted on arrival, so that every loss, repetition and reordering shows.
//!
//! ```text
//!   frame   | Ethernet 14 | raw 16: flow, cookie | probe 16: sequence, cookie | zeros … |     at least 60 bytes
//!   flow    one per sending ring, numbered from 0; the numbers of each wrap at 2^32
//! ```
//! [`run`] drives several rings from one thread: it sends the frames that are due, polls every ring, and begins again.
//! If the thread falls behind the schedule (another process ran, the ring was full), it skips ahead and does not catch
//! up in a burst, which would itself cost frames. The requested rate is therefore an upper bound, and the offered
//! frames are counted.

mod sequence;

use std::io;
use std::ops::Range;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_units::Nanos;
use hairpin_wire::ethernet::{Ethernet, Header as EthernetHeader, LEN as ETHERNET, Mac};
use hairpin_wire::raw::{self, Header, Shape};
use hairpin_wire::{framing, probe};

use crate::io::PacketIo;
use crate::ring::{Lease, Received, Ring, SendError};
use sequence::Tracker;

/// The shortest frame in bytes, FCS not included.
pub const SHORTEST: usize = framing::MIN_FRAME_WITHOUT_FCS as usize;
/// Most flows that are distinguished.
pub const MOST_FLOWS: u16 = 256;

/// Frames sent before the thread polls for received ones.
const BATCH: u64 = 32;
/// Most frames that a schedule may be behind.
const ARREARS: u64 = 128;
/// After the last frame was sent, or the end was requested, the run is over when no frame has arrived for this long.
const QUIET: Nanos = Nanos::from_millis(20);
/// After the end, frames of a known sender are counted for at most this long, because it may go on; those of an unknown one for
/// [`QUIET`].
const LINGER: Nanos = Nanos::from_secs(1);
/// Longest sleep of a receiver in milliseconds, so that it notices a stop.
const LOOK_MS: i32 = 10;
/// After this silence of a sender, the next one is counted.
const SILENT: Nanos = Nanos::from_millis(100);
/// Interval of the watcher's calls.
const SECOND: Nanos = Nanos::from_secs(1);

/// The frames that [`run`] sends: their headers, size, rate and duration. Each ring sends one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outgoing {
    /// The destination address.
    pub destination: Mac,
    /// The source address.
    pub source: Mac,
    /// The sender's cookie: a number in every frame, by which the receiver tells senders apart.
    pub cookie: u64,
    /// The flow of the first ring; each further ring has the next number.
    pub first_flow: u16,
    /// The number of the first frame of every flow; later frames count up from it and wrap at 2^32.
    pub first_sequence: u32,
    /// Bytes of every frame, FCS not included; at least [`SHORTEST`].
    pub bytes: usize,
    /// Frames per second over all rings, an upper bound; `None` for as fast as it goes.
    pub per_s: Option<f64>,
    /// The time for which frames are sent, from the call of [`run`].
    pub duration: Nanos,
}

/// The frames that [`run`] counts: those of one sender at a time. All others are [`foreign`](Came::foreign).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The sender's cookie. `None` counts the first sender seen, and the next one when it falls silent.
    pub cookie: Option<u64>,
    /// The sender's flows, from 0 up; at most [`MOST_FLOWS`].
    pub flows: u16,
}

/// Counters of the frames that [`run`] sent, over all rings; 0 if it sends none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Frames passed to a ring.
    pub frames: u64,
    /// Time from the start until a frame was last due, whether a ring took it or not.
    pub duration: Nanos,
}

/// Counters of the frames that came, over all rings; 0 if [`run`] counts none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Came {
    /// Frames, each counted once.
    pub frames: u64,
    /// Their bytes, FCS not included.
    pub bytes: u64,
    /// The range of sequence numbers, lowest to highest, summed over the flows: the minimum number of frames sent.
    pub span: u64,
    /// Frames that came a second time.
    pub duplicates: u64,
    /// Frames overtaken by a later one of their flow.
    pub reordered: u64,
    /// Frames of other senders, of another format, or too late to be told from duplicates.
    pub foreign: u64,
    /// Time from the first frame of the sender to the last one, duplicates included.
    pub duration: Nanos,
}

/// Counters of both directions since the start of [`run`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Sent frames.
    pub sent: Sent,
    /// Received frames.
    pub came: Came,
}

/// Decides when a run ends, and follows its progress. Its calls come from the thread that sends and receives, which waits for
/// them.
pub trait Monitor {
    /// Called in every iteration: true stops the run. Frames under way are still counted.
    fn stop(&mut self) -> bool;
    /// Called about once a second.
    fn second(&mut self, _totals: &Totals) {}
    /// Called with the totals so far before [`run`] returns the error of a ring.
    fn failed(&mut self, _totals: &Totals) {}
}

/// Why [`run`] failed: the size is invalid, and nothing was sent, or a ring failed on the way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The frame size is invalid.
    #[error("a numbered frame has {SHORTEST} to {most} bytes here, not {bytes}")]
    Size {
        /// The requested size.
        bytes: usize,
        /// The longest frame of the rings.
        most: usize,
    },
    /// A ring failed to send.
    #[error("cannot send: {0}")]
    Send(#[from] SendError),
    /// A ring failed to receive.
    #[error("cannot receive: {0}")]
    Receive(io::Error),
}

/// Sends, counts, or both, over all of `rings` from this thread. Sending ends after its duration. Counting then ends when every
/// sent frame has come back, unless frames of another thread come to these rings too; otherwise when no frame has arrived for
/// 20 ms, and a second later at the latest (20 ms, if the sender is unknown). If nothing is sent, only `monitor` ends the run.
///
/// Each ring is one flow. The rings need not be joined to each other: in most runs the other end is a bouncer or another process.
///
/// ```
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
/// use hairpin_packet::stream::{Incoming, Monitor, Outgoing, SHORTEST, run};
/// use hairpin_units::Nanos;
///
/// struct Endless;
/// impl Monitor for Endless {
///     fn stop(&mut self) -> bool {
///         false
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Both ends of a pair: each sends a flow, which the other counts.
/// let (near, far) = memory::pair(&Config::default())?;
/// let rings = [near, far].map(|io| Ring::new(io, MonotonicRaw, RingConfig::default()));
/// let outgoing = Outgoing {
///     destination: [2, 0, 0, 0, 0, 1],
///     source: [2, 0, 0, 0, 0, 2],
///     cookie: 7,
///     first_flow: 0,
///     first_sequence: 0,
///     bytes: SHORTEST,
///     per_s: Some(10_000.0),
///     duration: Nanos::from_millis(5),
/// };
/// let incoming = Incoming { cookie: Some(7), flows: 2 };
/// let totals = run(&rings, &MonotonicRaw, Some(&outgoing), Some(&incoming), &mut Endless)?;
/// assert_eq!(totals.came.frames, totals.sent.frames);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`StreamError`]: an invalid frame size, or the kernel's error of a ring. [`Monitor::failed`] gets the totals until then.
pub fn run<P: PacketIo, C: Clock>(
    rings: &[Ring<P, C>],
    clock: &C,
    outgoing: Option<&Outgoing>,
    incoming: Option<&Incoming>,
    monitor: &mut impl Monitor,
) -> Result<Totals, StreamError> {
    let start = clock.now();
    let mut sending = outgoing.map(|plan| Sending::new(rings, plan, clock, start)).transpose()?;
    let mut counting = incoming.map(|plan| Counting::new(plan, clock));
    let ended = turns(rings, clock, start, sending.as_mut(), counting.as_mut(), monitor);
    let totals = totals(sending.as_ref(), counting.as_ref());
    if ended.is_err() {
        monitor.failed(&totals);
    }
    ended.map(|()| totals)
}

/// The loop of [`run`], entered at `start`.
fn turns<P: PacketIo, C: Clock>(
    rings: &[Ring<P, C>],
    clock: &C,
    start: Ticks,
    mut sending: Option<&mut Sending<'_, P, C>>,
    mut counting: Option<&mut Counting<'_, C>>,
    monitor: &mut impl Monitor,
) -> Result<(), StreamError> {
    let mut leases: Vec<Lease<'_, P, C>> = Vec::with_capacity(BATCH as usize);
    let (quiet, second) = (clock.to_ticks(QUIET.0), clock.to_ticks(SECOND.0));
    let unknown = counting.as_ref().is_some_and(|counting| counting.follow);
    let linger = if unknown { quiet } else { clock.to_ticks(LINGER.0) };
    // With several rings, or frames to send, no receive may sleep.
    let wait = if rings.len() == 1 && sending.is_none() { LOOK_MS } else { 0 };
    let (mut told, mut ended) = (start, None::<Ticks>);
    loop {
        let now = clock.now();
        if ended.is_none() && (monitor.stop() || sending.as_ref().is_some_and(|sending| now >= sending.end)) {
            ended = Some(now);
        }
        if let Some(sending) = &mut sending {
            match ended {
                None => sending.turn(now)?,
                Some(_) => rings.iter().try_for_each(Ring::flush).map_err(SendError::from)?,
            }
        }
        let mut came = false;
        if let Some(counting) = &mut counting {
            for ring in rings {
                let received = ring.recv_batch(&mut leases, BATCH as usize, wait).map_err(StreamError::Receive)?;
                if let Received::Got(_) = received {
                    came = true;
                    counting.take(&leases, if wait == 0 { now } else { clock.now() });
                    leases.clear();
                }
            }
        }
        if let Some(ended) = ended {
            let last = counting.as_ref().and_then(|counting| counting.last).map_or(ended, |last| last.max(ended));
            let both = sending.as_ref().zip(counting.as_ref());
            let all = both.is_some_and(|(sending, counting)| counting.has_all(sending.sent.frames, &sending.flows));
            // `now` was read before the rings were polled, so a delay of this thread after the poll does not count as
            // silence.
            if all || (!came && now.since(last) >= quiet) || now.since(ended) >= linger {
                return Ok(());
            }
        }
        if now.since(told) >= second {
            told = told.plus(second);
            monitor.second(&totals(sending.as_deref(), counting.as_deref()));
        }
    }
}

fn totals<P: PacketIo, C: Clock>(sending: Option<&Sending<'_, P, C>>, counting: Option<&Counting<'_, C>>) -> Totals {
    Totals {
        sent: sending.map_or(Sent::default(), |sending| sending.sent),
        came: counting.map_or(Came::default(), Counting::came),
    }
}

struct Sending<'a, P, C> {
    rings: &'a [Ring<P, C>],
    clock: &'a C,
    bytes: usize,
    /// The headers of every frame, one per ring.
    heads: Vec<[u8; ETHERNET + raw::LEN]>,
    /// The flows of the rings.
    flows: Range<usize>,
    cookie: u64,
    next: Vec<u32>,
    turn: usize,
    /// Frames per tick; `None` for as fast as it goes.
    rate: Option<f64>,
    start: Ticks,
    end: Ticks,
    /// Frames of the schedule that were sent or skipped.
    done: u64,
    sent: Sent,
}

impl<'a, P: PacketIo, C: Clock> Sending<'a, P, C> {
    fn new(rings: &'a [Ring<P, C>], plan: &Outgoing, clock: &'a C, start: Ticks) -> Result<Sending<'a, P, C>, StreamError> {
        let most = rings.iter().map(|ring| ring.sender().longest()).min().unwrap_or(0).min(ETHERNET + raw::LEN + 0xffff);
        if !(SHORTEST..=most).contains(&plan.bytes) {
            return Err(StreamError::Size { bytes: plan.bytes, most });
        }
        let ethernet = EthernetHeader { destination: plan.destination, source: plan.source, ethertype: raw::ETHERTYPE }.encode();
        let heads = (0..rings.len() as u16).map(|ring| {
            let header = Header { shape: Shape::Own, hops: 0, flow: plan.first_flow + ring, cookie: plan.cookie };
            let mut head = [0; ETHERNET + raw::LEN];
            head[..ETHERNET].copy_from_slice(&ethernet);
            // The length fits, because `most` is the limit.
            head[ETHERNET..].copy_from_slice(&header.encode(plan.bytes - ETHERNET - raw::LEN).unwrap_or_default());
            head
        });
        let first = usize::from(plan.first_flow);
        Ok(Sending {
            rings,
            clock,
            bytes: plan.bytes,
            heads: heads.collect(),
            flows: first..first + rings.len(),
            cookie: plan.cookie,
            next: vec![plan.first_sequence; rings.len()],
            turn: 0,
            rate: plan.per_s.map(|per_s| per_s / (clock.rate() * 1e9)),
            start,
            end: start.plus(clock.to_ticks(plan.duration.0)),
            done: 0,
            sent: Sent::default(),
        })
    }

    /// Sends the frames that are due, at most a batch, on the next ring in turn.
    #[inline]
    fn turn(&mut self, now: Ticks) -> Result<(), StreamError> {
        let due = match self.rate {
            None => BATCH,
            Some(rate) => {
                // A clock may read back between two CPUs.
                let due = ((now.since(self.start) as f64 * rate) as u64).saturating_sub(self.done);
                let passed = due.saturating_sub(ARREARS);
                self.done += passed;
                (due - passed).min(BATCH)
            }
        };
        if due == 0 {
            return Ok(());
        }
        let at = self.turn % self.rings.len();
        self.turn = self.turn.wrapping_add(1);
        let ring = &self.rings[at];
        let sender = ring.sender();
        let mut frames = 0;
        while frames < due {
            let Some(mut slot) = sender.reserve(self.bytes)? else { break };
            let (head, payload) = slot.split_at_mut(ETHERNET + raw::LEN);
            head.copy_from_slice(&self.heads[at]);
            payload.fill(0);
            probe::write(payload, self.next[at], self.cookie);
            slot.commit().map_err(SendError::from)?;
            self.next[at] = self.next[at].wrapping_add(1);
            frames += 1;
            // Counted at once: a later one of this batch, or its kick, may fail.
            self.sent.frames += 1;
        }
        ring.flush().map_err(SendError::from)?;
        if self.rate.is_some() {
            self.done += frames;
        }
        self.sent.duration = Nanos(self.clock.to_ns(self.clock.now().since(self.start)));
        Ok(())
    }
}

struct Counting<'a, C> {
    clock: &'a C,
    cookie: Option<u64>,
    follow: bool,
    flows: Vec<Tracker>,
    /// Spans of the senders that fell silent, added up.
    before: u64,
    /// Time from the first frame of each of them to its last, added up, in ticks.
    before_ticks: u64,
    came: Came,
    first: Option<Ticks>,
    last: Option<Ticks>,
    silent: u64,
}

impl<'a, C: Clock> Counting<'a, C> {
    fn new(plan: &Incoming, clock: &'a C) -> Counting<'a, C> {
        Counting {
            clock,
            cookie: plan.cookie,
            follow: plan.cookie.is_none(),
            flows: (0..plan.flows.min(MOST_FLOWS)).map(|_| Tracker::default()).collect(),
            before: 0,
            before_ticks: 0,
            came: Came::default(),
            first: None,
            last: None,
            silent: clock.to_ticks(SILENT.0),
        }
    }

    /// Counts a batch received at `now`.
    #[inline]
    fn take<P: PacketIo>(&mut self, leases: &[Lease<'_, P, C>], now: Ticks) {
        for lease in leases {
            self.frame(lease, now);
        }
    }

    #[inline]
    fn frame(&mut self, frame: &[u8], now: Ticks) {
        let header = Ethernet::parse(frame).filter(|ethernet| ethernet.ethertype() == raw::ETHERTYPE);
        let Some((header, payload)) = header.and_then(|ethernet| Header::decode(ethernet.payload())) else {
            self.came.foreign += 1;
            return;
        };
        if self.cookie != Some(header.cookie) && !self.adopt(header.cookie, now) {
            self.came.foreign += 1;
            return;
        }
        let Some(flow) = self.flows.get_mut(usize::from(header.flow)) else {
            self.came.foreign += 1;
            return;
        };
        match flow.take(probe::sequence(payload)) {
            sequence::Seen::New { overtaken } => {
                self.came.frames += 1;
                self.came.bytes += frame.len() as u64;
                self.came.reordered += u64::from(overtaken);
            }
            sequence::Seen::Again => self.came.duplicates += 1,
            sequence::Seen::TooLate => self.came.foreign += 1,
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// Follows the sender of `cookie`, if there is no other yet or the last one fell silent.
    #[cold]
    fn adopt(&mut self, cookie: u64, now: Ticks) -> bool {
        let silent = self.last.is_none_or(|last| now.since(last) >= self.silent);
        if !self.follow || !silent {
            return false;
        }
        self.before += self.flows.iter().map(Tracker::span).sum::<u64>();
        self.before_ticks += self.ticks();
        self.first = None;
        self.flows.iter_mut().for_each(|flow| *flow = Tracker::default());
        self.cookie = Some(cookie);
        true
    }

    /// True if `sent` frames came, and none but those of the flows `own`: of another thread's frames, more may be on their way to
    /// these rings.
    fn has_all(&self, sent: u64, own: &Range<usize>) -> bool {
        let mut flows = self.flows.iter().enumerate();
        self.came.frames >= sent && flows.all(|(flow, tracker)| own.contains(&flow) || tracker.span() == 0)
    }

    fn came(&self) -> Came {
        let span = self.before + self.flows.iter().map(Tracker::span).sum::<u64>();
        let duration = self.clock.to_ns(self.before_ticks + self.ticks());
        Came { span, duration: Nanos(duration), ..self.came }
    }

    /// From the first frame of the sender that is followed to its last one, in ticks.
    fn ticks(&self) -> u64 {
        self.first.zip(self.last).map_or(0, |(first, last)| last.since(first))
    }
}

#[cfg(test)]
mod tests;
