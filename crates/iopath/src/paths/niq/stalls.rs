//! Stalls of either core, seen as gaps between two looks at the clock by a spinning thread; transactions that overlap one are
//! counted separately.
//!
//! ```text
//!   client  sent ─ look ─ look ─ look ───────────── look ─ reply     a gap on either side: this transaction is told apart
//!   server       ─ look ───────────── look ─ look ─ look             both sides' counts lie in memory that they share
//! ```

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hairpin_packet::granted::Granted;
use hairpin_packet::io::{Arrival, Counters, Kick, Kicked, PacketIo};
use hairpin_packet::niq::Port;
use hairpin_record::run::Side;
use hairpin_sys::clock::{AnyClock, Clock, Ticks};
use hairpin_sys::shared::Shared;
use hairpin_sys::umem::{Frame, Pool, Umem};

use super::Device;
use crate::content::Content;
use crate::endpoint::{Endpoint, Reply};
use crate::frames::Frames;
use crate::frames::inet::Unsummed;
use crate::stalls::Looks;

/// A port that checks for stalls at each look into its ring. It keeps this side's last look at the clock, and counts both sides'
/// stalls in shared memory.
pub(super) struct Watching<'a, I> {
    io: I,
    clock: AnyClock,
    shared: &'a Shared,
    side: usize,
    looks: Cell<Looks>,
}

impl<'a, I> Watching<'a, I> {
    pub(super) fn new(io: I, clock: AnyClock, shared: &'a Shared, side: Side) -> Watching<'a, I> {
        Watching { io, clock, shared, side: usize::from(side == Side::Server), looks: Cell::new(Looks::new(&clock)) }
    }

    #[inline(always)]
    fn look(&self, now: Ticks) {
        let mut looks = self.looks.get();
        let stall = looks.look(now);
        self.looks.set(looks);
        if stall.is_some() {
            self.shared.note_stall(self.side);
        }
    }

    /// Skips the time before `sent`, which belongs to no transaction.
    #[inline(always)]
    fn pass(&self, sent: Ticks) {
        let mut looks = self.looks.get();
        looks.pass(sent);
        self.looks.set(looks);
    }
}

impl<I: Device> Device for Watching<'_, I> {
    fn port(&self) -> &Port {
        self.io.port()
    }
}

impl<I: PacketIo> PacketIo for Watching<'_, I> {
    fn granted(&self) -> &Granted {
        self.io.granted()
    }

    #[inline(always)]
    fn pool(&mut self) -> &mut Pool {
        self.io.pool()
    }

    #[inline(always)]
    fn umem(&self) -> &Arc<Umem> {
        self.io.umem()
    }

    #[inline(always)]
    fn rx_batch(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        self.look(self.clock.now());
        self.io.rx_batch(into, most)
    }

    #[inline(always)]
    fn tx_batch(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.io.tx_batch(frames)
    }

    #[inline(always)]
    fn kick(&mut self, what: Kick) -> io::Result<Kicked> {
        self.io.kick(what)
    }

    fn waitable(&self) -> BorrowedFd<'_> {
        self.io.waitable()
    }

    fn counters(&mut self) -> Counters {
        self.io.counters()
    }
}

/// The client's endpoint while stalls are watched: counts the transactions that overlap a stall and sums their RTTs.
pub(super) struct StallCounter<'a, I> {
    pub(super) frames: Frames<'a, Watching<'a, I>, Unsummed, false>,
    /// Number of stalls when the request was sent.
    seen: u64,
    sent: Ticks,
    /// Transactions of this block that overlap a stall, and their RTTs in ticks.
    taken: [u64; 2],
    /// The same over all measured blocks, in ns.
    kept: [u64; 2],
}

impl<'a, I> StallCounter<'a, I> {
    pub(super) fn new(frames: Frames<'a, Watching<'a, I>, Unsummed, false>) -> StallCounter<'a, I> {
        StallCounter { frames, seen: 0, sent: Ticks::default(), taken: [0; 2], kept: [0; 2] }
    }

    /// Measured transactions that overlap a stall, and the sum of their RTTs in ns.
    pub(super) fn kept(&self) -> (u64, u64) {
        (self.kept[0], self.kept[1])
    }
}

impl<I: PacketIo> Endpoint for StallCounter<'_, I> {
    fn is_lossy(&self) -> bool {
        false
    }

    #[inline(always)]
    fn begins(&mut self, sent: Ticks) {
        self.frames.io().pass(sent);
        self.sent = sent;
    }

    #[inline(always)]
    fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
        self.seen = self.frames.io().shared.stalls();
        self.frames.send(flow, len, content)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        self.frames.recv(until)
    }

    #[inline(always)]
    fn received(&mut self, _flow: u32, at: Ticks) -> io::Result<()> {
        // The loop has compared the reply's content since then.
        self.frames.io().look(at);
        if self.frames.io().shared.stalls() != self.seen {
            self.taken[0] += 1;
            self.taken[1] += at.since(self.sent);
        }
        Ok(())
    }

    fn fold(&mut self, keep: bool) {
        let [count, ticks] = std::mem::take(&mut self.taken);
        if keep {
            self.kept[0] += count;
            self.kept[1] += self.frames.io().clock.to_ns(ticks);
        }
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        self.frames.reply(flow, len)
    }
}

#[cfg(test)]
mod tests {
    use hairpin_packet::niq::{Config, pair};
    use hairpin_sys::clock::MonotonicRaw;
    use hairpin_sys::wait::Waiting;

    use super::super::framing;
    use super::*;
    use crate::stalls::STALL_NS;

    #[test]
    fn only_the_time_until_the_reply_is_looked_at() {
        let clock = AnyClock::Raw(MonotonicRaw);
        let shared = Shared::create().unwrap();
        let (port, _other) = pair(&Config::default()).unwrap();
        let port = Watching::new(port, clock, &shared, Side::Client);
        let framing = framing(1, 18, Side::Client).unwrap();
        let mut counter = StallCounter::new(Frames::reliable(port, Waiting::spin(clock), framing));
        for (took, kept) in [(STALL_NS, (0, 0)), (STALL_NS + 1, (1, STALL_NS + 1))] {
            // Long ago: to the clock itself, the core has stood still since.
            counter.begins(Ticks(0));
            counter.received(0, Ticks(took)).unwrap();
            counter.fold(true);
            assert_eq!(counter.kept(), kept);
        }
    }
}
