//! A server with a queue, on a clock that only the path moves; it can be told to stall.

use std::collections::VecDeque;
use std::io;

use hairpin_sys::clock::{Clock, FakeClock, Ticks};

use crate::content::Content;
use crate::endpoint::{Endpoint, Reply};

/// Service time of a request in ns.
pub(super) const SERVICE: u64 = 10_000;
/// Requests per second that the server can answer: 100,000.
pub(super) const SATURATION: f64 = 1e9 / SERVICE as f64;

/// One server with a queue, in order of arrival. Sending and receiving take no time; the path is lossy if `L`.
pub(super) struct Served<const L: bool> {
    pub(super) clock: FakeClock,
    /// Start and length of the stall.
    pub(super) stall: Option<(u64, u64)>,
    free_at: u64,
    /// Arrival time of each reply, and its bytes.
    replies: VecDeque<(u64, Vec<u8>)>,
    /// Queue length in requests; further ones find the path full.
    pub(super) room: usize,
    /// Time at which each request was sent, and its length.
    pub(super) sent: Vec<(u64, usize)>,
    /// The server answers nothing after this time.
    pub(super) dies_at: u64,
    reply: usize,
    buffer: Vec<u8>,
}

impl<const L: bool> Served<L> {
    pub(super) fn new(clock: &FakeClock) -> Served<L> {
        Served {
            clock: clock.clone(),
            stall: None,
            free_at: 0,
            replies: VecDeque::new(),
            room: usize::MAX,
            sent: Vec::new(),
            dies_at: u64::MAX,
            reply: 64,
            buffer: Vec::new(),
        }
    }
}

impl<const L: bool> Endpoint for Served<L> {
    fn is_lossy(&self) -> bool {
        L
    }

    fn send(&mut self, _flow: u32, len: usize, content: Content) -> io::Result<bool> {
        if self.replies.len() >= self.room {
            return Ok(false);
        }
        let now = self.clock.now().0;
        let mut bytes = vec![0; len];
        content.write(&mut bytes);
        bytes.resize(self.reply, 0);
        self.sent.push((now, len));
        if now >= self.dies_at {
            return Ok(true);
        }
        let mut begins = self.free_at.max(now);
        if let Some((from, long)) = self.stall
            && begins >= from
        {
            begins = begins.max(from + long);
        }
        self.free_at = begins + SERVICE;
        self.replies.push_back((self.free_at, bytes));
        Ok(true)
    }

    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let now = self.clock.now().0;
        let arrival = self.replies.front().map_or(u64::MAX, |(at, _)| *at);
        if arrival > until.0.max(now) {
            // No call on a real path takes zero time.
            self.clock.advance(until.0.saturating_sub(now).max(1));
            return Ok(None);
        }
        self.clock.advance(arrival.saturating_sub(now));
        (_, self.buffer) = self.replies.pop_front().expect("there is an arrival");
        Ok(Some(Reply { flow: 0, bytes: &self.buffer }))
    }
}
