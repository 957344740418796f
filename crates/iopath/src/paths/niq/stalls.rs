//! Stalls of either core, seen as gaps between two looks at the clock of a thread that spins; what overlaps one is counted apart.
//!
//! ```text
//!   client  sent ─ look ─ look ─ look ───────────── look ─ reply     a gap on either side: this transaction is told apart
//!   server       ─ look ───────────── look ─ look ─ look             both sides' counts lie in memory that they share
//! ```

use std::cell::Cell;
use std::io;

use hairpin_packet::io::PacketIo;
use hairpin_record::run::Side;
use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::shared::Shared;
use hairpin_sys::wait::Wait;

use crate::endpoint::{Endpoint, Mark, Marks, Reply};
use crate::frames::Frames;
use crate::frames::inet::Unsummed;
use crate::stalls::Looks;

/// When this side last looked at the clock, and how often either side found that its core had stood still.
pub(super) struct Watch<'a, C> {
    clock: &'a C,
    shared: &'a Shared,
    side: usize,
    looks: Cell<Looks>,
}

impl<'a, C: Clock> Watch<'a, C> {
    pub(super) fn new(clock: &'a C, shared: &'a Shared, side: Side) -> Watch<'a, C> {
        Watch { clock, shared, side: usize::from(side == Side::Server), looks: Cell::new(Looks::new(clock)) }
    }

    pub(super) fn over<W>(&self, wait: W) -> Watchful<'_, 'a, W, C> {
        Watchful { wait, watch: self }
    }

    #[inline(always)]
    fn look(&self) {
        let mut looks = self.looks.get();
        let stall = looks.look(self.clock.now());
        self.looks.set(looks);
        if stall.is_some() {
            self.shared.note_stall(self.side);
        }
    }
}

/// A wait that watches for stalls at each of its looks.
pub(super) struct Watchful<'w, 'a, W, C> {
    wait: W,
    watch: &'w Watch<'a, C>,
}

impl<W: Wait, C: Clock> Wait for Watchful<'_, '_, W, C> {
    #[inline(always)]
    fn wait<T>(&mut self, until: Ticks, mut attempt: impl FnMut(usize) -> io::Result<Option<T>>) -> io::Result<Option<T>> {
        let watch = self.watch;
        self.wait.wait(until, |at| {
            watch.look();
            attempt(at)
        })
    }
}

/// The client's endpoint where stalls are watched for.
pub(super) struct Watched<'w, 'a, I, W, C> {
    pub(super) frames: Frames<I, W, Unsummed, false>,
    watch: &'w Watch<'a, C>,
    /// Stalls known when the last reply came.
    seen: u64,
}

impl<'w, 'a, I, W, C> Watched<'w, 'a, I, W, C> {
    pub(super) fn new(frames: Frames<I, W, Unsummed, false>, watch: &'w Watch<'a, C>) -> Watched<'w, 'a, I, W, C> {
        Watched { frames, watch, seen: 0 }
    }
}

impl<I: PacketIo, W: Wait, C: Clock> Endpoint for Watched<'_, '_, I, W, C> {
    const LOSSY: bool = false;

    #[inline(always)]
    fn send<M: Marks>(&mut self, flow: u32, len: usize, fill: impl FnOnce(&mut [u8]), marks: &mut M) -> io::Result<bool> {
        self.seen = self.watch.shared.stalls();
        self.frames.send(flow, len, fill, marks)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        self.frames.recv(until)
    }

    #[inline(always)]
    fn received<M: Marks>(&mut self, _flow: u32, marks: &mut M) -> io::Result<()> {
        self.watch.look();
        if self.watch.shared.stalls() != self.seen {
            marks.mark(Mark::Stalled);
        }
        Ok(())
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        self.frames.reply(flow, len)
    }
}

/// Counts the transactions that overlap a stall, and adds up their RTTs.
pub(super) struct Stalled<'w, 'a, C> {
    clock: &'w C,
    watch: &'w Watch<'a, C>,
    sent: Ticks,
    rtt: u64,
    /// Of this block: how many, and ticks.
    taken: [u64; 2],
    /// Of all that are measured: how many, and ns.
    kept: [u64; 2],
}

impl<'w, 'a, C> Stalled<'w, 'a, C> {
    pub(super) fn new(clock: &'w C, watch: &'w Watch<'a, C>) -> Stalled<'w, 'a, C> {
        Stalled { clock, watch, sent: Ticks::default(), rtt: 0, taken: [0; 2], kept: [0; 2] }
    }

    /// How many there were among the transactions that are kept, and their RTTs added up in ns.
    pub(super) fn kept(&self) -> (u64, u64) {
        (self.kept[0], self.kept[1])
    }
}

impl<C: Clock> Marks for Stalled<'_, '_, C> {
    #[inline(always)]
    fn begin(&mut self, sent: Ticks) {
        // What was before is no part of a transaction.
        let mut looks = self.watch.looks.get();
        looks.pass(sent);
        self.watch.looks.set(looks);
        self.sent = sent;
    }

    #[inline(always)]
    fn end(&mut self, received: Ticks) {
        self.rtt = received.since(self.sent);
    }

    #[cold]
    fn mark(&mut self, mark: Mark) {
        if mark == Mark::Stalled {
            self.taken[0] += 1;
            self.taken[1] += self.rtt;
        }
    }

    fn fold(&mut self, keep: bool) {
        let [count, ticks] = std::mem::take(&mut self.taken);
        if keep {
            self.kept[0] += count;
            self.kept[1] += self.clock.to_ns(ticks);
        }
    }
}
