//! Numbered frames: sent at a rate, counted where they arrive, so that every loss, repetition and overtaking shows.
//!
//! ```text
//!   frame   | Ethernet 14 | raw 16: flow, cookie | probe 16: sequence, cookie | zeros … |     at least 60 bytes
//!   flow    one per sending ring, numbered from 0; the numbers of each wrap at 2^32
//! ```
//! [`run`] drives several rings from one thread: it sends what is due, looks at every ring for what has come, and begins again. A schedule
//! that the thread falls behind of (another process ran, the ring was full) is moved on and not caught up with in a burst, which would
//! itself cost frames; so the rate that was asked for is an upper bound, and what was offered is counted.

mod sequence;

use std::io;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_units::Nanos;
use hairpin_wire::ethernet::{Ethernet, Header as EthernetHeader, LEN as ETHERNET, Mac};
use hairpin_wire::raw::{self, Header};
use hairpin_wire::{framing, probe};

use crate::io::PacketIo;
use crate::ring::{Lease, Received, Ring, SendError};
use sequence::Tracker;

/// The shortest frame in bytes, FCS not included.
pub const SHORTEST: usize = framing::MIN_FRAME_WITHOUT_FCS as usize;
/// The most flows that are told apart.
pub const MOST_FLOWS: u16 = 256;

/// Frames that are sent before the thread looks whether any have come.
const BATCH: u64 = 32;
/// A schedule is never further behind than this many frames.
const ARREARS: u64 = 128;
/// After the last frame was sent, or the end was asked for, frames may still come; it is over when none has come for so long.
const QUIET: Nanos = Nanos::from_millis(20);
/// Sleeps of a receiver end after so many milliseconds, so that it looks whether it is to stop.
const LOOK_MS: i32 = 10;
/// A sender who has been silent for so long is followed by the next one.
const SILENT: Nanos = Nanos::from_millis(100);
/// Watchers hear so often.
const SECOND: Nanos = Nanos::from_secs(1);

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outgoing {
    /// To whom.
    pub destination: Mac,
    /// From whom.
    pub source: Mac,
    /// Whose frames they are.
    pub cookie: u64,
    /// The flow of the first ring; the others follow.
    pub first_flow: u16,
    /// The first number of every flow.
    pub first_sequence: u32,
    /// Bytes of every frame, FCS not included; at least [`SHORTEST`].
    pub bytes: usize,
    /// Frames per second over all rings; `None` for as fast as it goes.
    pub per_s: Option<f64>,
    /// For how long.
    pub duration: Nanos,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Whose frames; `None`: those of the first sender seen, and when it falls silent of the next.
    pub cookie: Option<u64>,
    /// Flows from 0 up that the sender has; at most [`MOST_FLOWS`].
    pub flows: u16,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames handed to a ring.
    pub frames: u64,
    /// From the start to the last of them.
    pub duration: Nanos,
}

/// What came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Frames, each once.
    pub frames: u64,
    /// Their bytes, FCS not included.
    pub bytes: u64,
    /// Numbers from the lowest to the highest of every flow: what must have been sent at least.
    pub span: u64,
    /// Frames that came a second time.
    pub duplicates: u64,
    /// Frames overtaken by a later one of their flow.
    pub reordered: u64,
    /// Frames of other senders, of no sender's form, or later than can be told from repeated.
    pub foreign: u64,
    /// From the first of them to the last.
    pub duration: Nanos,
}

/// Both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What was sent.
    pub sent: Sent,
    /// What came.
    pub came: Came,
}

/// Who says when it is over.
pub trait Watch {
    /// Asked at every turn: true to stop. Frames on the way are still counted.
    fn stop(&mut self) -> bool;
    /// About once a second.
    fn second(&mut self, _totals: &Totals) {}
}

/// Why it ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The frame's size does not go.
    #[error("a numbered frame has {SHORTEST} to {most} bytes here, not {bytes}")]
    Size {
        /// What was asked for.
        bytes: usize,
        /// What the rings take.
        most: usize,
    },
    /// A ring failed.
    #[error("cannot send: {0}")]
    Send(#[from] SendError),
    /// A ring failed.
    #[error("cannot receive: {0}")]
    Receive(io::Error),
}

/// Sends, counts, or both, over all of `rings` from this thread. Sending ends after its duration, counting when all that was sent has come
/// back or nothing more comes; where nothing is sent, only `watch` ends it.
///
/// # Errors
/// [`StreamError`].
pub fn run<P: PacketIo, C: Clock>(
    rings: &[Ring<P, C>],
    clock: &C,
    outgoing: Option<&Outgoing>,
    incoming: Option<&Incoming>,
    watch: &mut impl Watch,
) -> Result<Totals, StreamError> {
    let start = clock.now();
    let mut sending = outgoing.map(|plan| Sending::new(rings, plan, clock, start)).transpose()?;
    let mut counting = incoming.map(|plan| Counting::new(plan, clock));
    let mut leases: Vec<Lease<'_, P, C>> = Vec::with_capacity(BATCH as usize);
    let (quiet, second) = (clock.to_ticks(QUIET.0), clock.to_ticks(SECOND.0));
    let (mut told, mut ended) = (start, None::<Ticks>);
    loop {
        let now = clock.now();
        if ended.is_none() && (watch.stop() || sending.as_ref().is_some_and(|sending| now >= sending.end)) {
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
            // Several rings, or frames to be sent: nothing may sleep.
            let wait = if rings.len() == 1 && outgoing.is_none() { LOOK_MS } else { 0 };
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
            let all = sending.as_ref().zip(counting.as_ref()).is_some_and(|(sent, came)| came.came.frames >= sent.sent.frames);
            // The time is that of before the look at the rings: a thread that was held up after it has not looked for so long.
            if all || (!came && now.since(last) >= quiet) {
                break;
            }
        }
        if now.since(told) >= second {
            told = told.plus(second);
            watch.second(&totals(sending.as_ref(), counting.as_ref()));
        }
    }
    Ok(totals(sending.as_ref(), counting.as_ref()))
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
    /// What every frame begins with, one per ring.
    heads: Vec<[u8; ETHERNET + raw::LEN]>,
    cookie: u64,
    next: Vec<u32>,
    turn: usize,
    /// Frames per tick; `None` for as fast as it goes.
    rate: Option<f64>,
    start: Ticks,
    end: Ticks,
    /// Frames of the schedule that were sent or passed over.
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
            let header = Header { hops: 0, flow: plan.first_flow + ring, cookie: plan.cookie };
            let mut head = [0; ETHERNET + raw::LEN];
            head[..ETHERNET].copy_from_slice(&ethernet);
            // The length fits: `most` is what it holds.
            head[ETHERNET..].copy_from_slice(&header.encode(plan.bytes - ETHERNET - raw::LEN).unwrap_or_default());
            head
        });
        Ok(Sending {
            rings,
            clock,
            bytes: plan.bytes,
            heads: heads.collect(),
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

    /// Sends what is due, at most a batch, on the ring whose turn it is.
    #[inline]
    fn turn(&mut self, now: Ticks) -> Result<(), StreamError> {
        let due = match self.rate {
            None => BATCH,
            Some(rate) => {
                let due = (now.since(self.start) as f64 * rate) as u64 - self.done;
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
        }
        ring.flush().map_err(SendError::from)?;
        if self.rate.is_some() {
            self.done += frames;
        }
        self.sent.frames += frames;
        self.sent.duration = Nanos(self.clock.to_ns(self.clock.now().since(self.start)));
        Ok(())
    }
}

struct Counting<'a, C> {
    clock: &'a C,
    cookie: Option<u64>,
    follow: bool,
    flows: Vec<Tracker>,
    /// Numbers of senders that are gone.
    before: u64,
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
            came: Came::default(),
            first: None,
            last: None,
            silent: clock.to_ticks(SILENT.0),
        }
    }

    /// Counts a batch that came at `now`.
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

    /// Follows another sender, if this one has none or has lost its own.
    #[cold]
    fn adopt(&mut self, cookie: u64, now: Ticks) -> bool {
        let silent = self.last.is_none_or(|last| now.since(last) >= self.silent);
        if !self.follow || !silent {
            return false;
        }
        self.before += self.flows.iter().map(Tracker::span).sum::<u64>();
        self.flows.iter_mut().for_each(|flow| *flow = Tracker::default());
        self.cookie = Some(cookie);
        true
    }

    fn came(&self) -> Came {
        let span = self.before + self.flows.iter().map(Tracker::span).sum::<u64>();
        let duration = self.first.zip(self.last).map_or(0, |(first, last)| self.clock.to_ns(last.since(first)));
        Came { span, duration: Nanos(duration), ..self.came }
    }
}

#[cfg(test)]
mod tests;
