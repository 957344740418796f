//! A path that treats each request as a script says, on a clock that only the path moves.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use hairpin_sys::clock::{Clock, FakeClock, Ticks};
use hairpin_wire::probe;

use crate::content::Content;
use crate::endpoint::{Endpoint, Reply};

/// Fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Answered after this many ns.
    Answer(u64),
    /// Answered twice.
    Twice(u64, u64),
    /// Never answered.
    Lose,
    /// Answered, but with another cookie.
    Forge(u64),
    /// Answered, but one byte short.
    Cut(u64),
    /// Answered, but with one bit of its content changed.
    Flip(u64),
    /// A message of the flow's opening comes after this many ns, and the answer after as many again.
    Opening(u64),
    /// The path is full, once; the request then has the next fate.
    Full,
    /// A signal ends the wait for the reply after this many ns; the request then has the next fate.
    Signal(u64),
    /// The path fails when the request is sent.
    Break,
}

/// Everything that passed through, for a test to compare with.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Requests by flow and sequence, with their send times.
    pub(super) sent: BTreeMap<(u32, u32), u64>,
    /// Intact messages handed over, by flow and sequence.
    pub(super) delivered: BTreeMap<(u32, u32), u32>,
    /// Messages handed over that answer no request.
    pub(super) corrupt: u32,
    /// Most requests on one flow that were unanswered and younger than any patience.
    pub(super) most_outstanding: usize,
    /// Time limits of the waits, in ns.
    pub(super) limits: Vec<u64>,
    /// Number of times that room was waited for.
    pub(super) awaited: u32,
}

/// The path; its `LOSSY` is the parameter `L`.
pub(super) struct Script<const L: bool> {
    pub(super) clock: FakeClock,
    pub(super) fates: VecDeque<Fate>,
    /// Fate of requests after the end of the script.
    pub(super) then: Fate,
    pub(super) log: Log,
    next: Vec<u32>,
    out: Vec<Vec<(u32, u64)>>,
    signals: VecDeque<u64>,
    /// Replies in flight, by arrival and then by order of sending.
    under_way: BTreeMap<(u64, u64), Message>,
    count: u64,
    buffer: Vec<u8>,
}

struct Message {
    flow: u32,
    sequence: u32,
    sound: bool,
    bytes: Vec<u8>,
}

impl<const L: bool> Script<L> {
    pub(super) fn new(fates: impl IntoIterator<Item = Fate>, flows: u32) -> Script<L> {
        Script {
            clock: FakeClock::default(),
            fates: fates.into_iter().collect(),
            then: Fate::Answer(1_000),
            log: Log::default(),
            next: vec![0; flows as usize],
            out: vec![Vec::new(); flows as usize],
            signals: VecDeque::new(),
            under_way: BTreeMap::new(),
            count: 0,
            buffer: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().0
    }

    fn post(&mut self, after: u64, flow: u32, sequence: u32, sound: bool, bytes: Vec<u8>) {
        self.count += 1;
        self.under_way.insert((self.now() + after, self.count), Message { flow, sequence, sound, bytes });
    }

    /// Restores the whole sequence from the low bits in a short payload: the flow's next free sequence that matches.
    fn whole(&mut self, flow: u32, payload: &[u8]) -> u32 {
        let mask = probe::sequence_mask(payload.len());
        let next = &mut self.next[flow as usize];
        let sequence = *next + (probe::sequence(payload).wrapping_sub(*next) & mask);
        *next = sequence + 1;
        sequence
    }

    /// Notes how many requests on `flow` are in flight and too young for any loop to have given them up.
    fn watch(&mut self, flow: u32, sequence: u32) {
        let (now, delivered) = (self.now(), &self.log.delivered);
        let out = &mut self.out[flow as usize];
        out.push((sequence, now));
        out.retain(|(sequence, at)| now - at < super::LEAST_PATIENCE_NS && !delivered.contains_key(&(flow, *sequence)));
        self.log.most_outstanding = self.log.most_outstanding.max(out.len());
    }
}

impl<const L: bool> Endpoint for Script<L> {
    fn is_lossy(&self) -> bool {
        L
    }

    fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
        let mut fate = self.fates.pop_front().unwrap_or(self.then);
        if fate == Fate::Full {
            // A failed call takes time as well.
            self.clock.advance(100);
            return Ok(false);
        }
        while let Fate::Signal(after) = fate {
            self.signals.push_back(self.now() + after);
            fate = self.fates.pop_front().unwrap_or(self.then);
        }
        let mut bytes = vec![0; len];
        content.write(&mut bytes);
        let sequence = self.whole(flow, &bytes);
        assert!(self.log.sent.insert((flow, sequence), self.now()).is_none(), "sequence {sequence} was sent twice");
        match fate {
            Fate::Answer(after) => self.post(after, flow, sequence, true, bytes),
            Fate::Twice(after, again) => {
                self.post(after, flow, sequence, true, bytes.clone());
                self.post(again, flow, sequence, true, bytes);
            }
            Fate::Forge(after) => {
                bytes[8] ^= 1;
                self.post(after, flow, sequence, false, bytes);
            }
            Fate::Flip(after) => {
                *bytes.last_mut().unwrap() ^= 1;
                self.post(after, flow, sequence, false, bytes);
            }
            Fate::Cut(after) => {
                bytes.pop();
                self.post(after, flow, sequence, false, bytes);
            }
            Fate::Opening(after) => {
                let mut opening = bytes.clone();
                opening[..8].copy_from_slice(b"HRPNDONE");
                self.post(after, flow, sequence, false, opening);
                self.post(2 * after, flow, sequence, true, bytes);
            }
            Fate::Break => return Err(io::Error::other("broken")),
            Fate::Lose | Fate::Full | Fate::Signal(_) => {}
        }
        self.watch(flow, sequence);
        Ok(true)
    }

    fn await_room(&mut self, _flow: u32) -> io::Result<()> {
        self.log.awaited += 1;
        Ok(())
    }

    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let arrival = self.under_way.first_key_value().map_or(u64::MAX, |(key, _)| key.0);
        let now = self.now();
        self.log.limits.push(until.0.saturating_sub(now));
        let signal = self.signals.front().copied().unwrap_or(u64::MAX);
        assert!(arrival.min(signal).min(until.0) < u64::MAX, "the wait would never end");
        if signal.max(now) < arrival.min(until.0) {
            self.signals.pop_front();
            self.clock.advance(signal.saturating_sub(now));
            return Ok(None);
        }
        if arrival > until.0.max(now) {
            // No call on a real path takes zero time.
            self.clock.advance(until.0.saturating_sub(now).max(1));
            return Ok(None);
        }
        let (_, message) = self.under_way.pop_first().expect("there is an arrival");
        self.clock.advance(arrival.saturating_sub(now));
        match message.sound {
            true => *self.log.delivered.entry((message.flow, message.sequence)).or_default() += 1,
            false => self.log.corrupt += 1,
        }
        self.buffer = message.bytes;
        Ok(Some(Reply { flow: message.flow, bytes: &self.buffer }))
    }
}
