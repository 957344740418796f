//! A queue pair for applications: receive into leases, send through a separate handle.
//!
//! ```text
//!                      ┌─────────────────── Ring ───────────────────┐
//!   recv, recv_batch ◀─┤ Lease ◀── RX ring ◀───────────────────────┤◀─ device
//!     │ dropped: the chunk goes back                                │
//!     │ send_back: the chunk goes out again ──┐                     │
//!   Sender: inject, reserve … commit ─────────┴▶ batch ─ kick ─▶ TX ring ─▶ device
//!                      └────────────────────────────────────────────┘
//! ```
//! One thread drives a ring: it is `Send` and not `Sync`. Leases and senders borrow it shared, so both can be held at
//! once. Every call of `recv`, `recv_batch`, `reserve`, `inject`, `inject_at`, `commit`, `send_back` and `flush` kicks
//! the frames that are due; `recv` and `recv_batch` kick all of them before they wait.

mod coalesce;
mod receive;
mod send;

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hairpin_sys::clock::{Clock, Ticks};
use hairpin_sys::umem::{Frame, Umem};
use hairpin_units::Nanos;

use crate::granted::Granted;
use crate::io::{Arrival, Counters, Kick, Kicked, PacketIo};
use coalesce::Estimate;
pub use coalesce::{Coalesce, MAX_DELAY, MOST, STALL};
pub use receive::{Lease, Received};
pub use send::{Injected, SendError, Sender, Slot};

/// The shortest frame on the wire, in bytes without FCS. Shorter frames are padded with zeros.
pub const SHORTEST: usize = hairpin_wire::framing::MIN_FRAME_WITHOUT_FCS as usize;

/// The wait policy of a receive with a timeout, until a frame arrives. A receive with timeout 0 never waits.
///
/// `Spin` and `BusyPoll` take a whole core and give the lowest latency; `Block` takes none and adds a wake-up of some
/// microseconds to each wait; `Adaptive` spins first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Polls the ring in user space.
    #[default]
    Spin,
    /// Polls the ring, and lets the kernel poll the device while the ring is empty (one system call per poll).
    BusyPoll,
    /// Sleeps in poll(2).
    Block,
    /// Spins for `spin`, then sleeps in poll(2).
    Adaptive {
        /// Time to spin.
        spin: Duration,
    },
}

/// Settings of a [`Ring`].
///
/// The default spins, and kicks each frame at once: the lowest latency, for a thread with a core to itself.
///
/// ```
/// use std::time::Duration;
///
/// use hairpin_packet::ring::{Coalesce, RingConfig, Wait};
///
/// // Spins for 50 us before it sleeps, and sends in batches at a high rate.
/// let wait = Wait::Adaptive { spin: Duration::from_micros(50) };
/// let config = RingConfig { wait, coalesce: Coalesce::ADAPTIVE, ..RingConfig::default() };
/// assert_eq!(config.hold, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingConfig {
    /// The policy of receives that wait for a frame.
    pub wait: Wait,
    /// The rule for kicking committed frames: each at once, or several with one kick.
    pub coalesce: Coalesce,
    /// Limit of leases and reserved slots held at once; at the limit a receive returns [`Received::HoldLimit`] and a
    /// reserve `None`. `None` is a quarter of the chunks, so that the device always has chunks to receive into; more than
    /// the chunks counts as all of them.
    pub hold: Option<u32>,
}

/// The counters of a ring, from [`Ring::counters`]. `io` counts since the queue pair was opened, all others since the
/// ring was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingCounters {
    /// The queue pair's counters.
    pub io: Counters,
    /// Kicks to send; for most back ends each is a system call.
    pub kicks: u64,
    /// Receives and reserves refused because the hold limit was reached.
    pub hold_limit: u64,
    /// Batches whose first frame waited beyond the bound of [`Coalesce::Adaptive`] although the thread kept
    /// calling.
    pub over_bound: u64,
    /// Batches over the bound because the thread did not call for more than [`STALL`], or its core stood still.
    pub over_bound_stalled: u64,
    /// Batches with such a stall, over the bound or not.
    pub stalled: u64,
    /// The longest wait of a batch's first frame for its kick, under [`Coalesce::Adaptive`].
    pub longest_wait: Nanos,
}

/// One queue pair, driven by one thread.
///
/// A ring wraps any [`PacketIo`] with wait policy, hold limit and coalescing. [`recv`](Ring::recv) and
/// [`recv_batch`](Ring::recv_batch) lend frames in place; a dropped [`Lease`] returns its chunk, [`Lease::send_back`]
/// sends it out again without a copy. [`sender`](Ring::sender) returns a handle to send with. No call allocates.
///
/// The ring owns its queue pair; [`with_io`](Ring::with_io) lends it, and [`into_io`](Ring::into_io) gives it back. A ring can
/// move to another thread, but only one thread at a time uses it. The [crate's first page](crate) has a complete program.
///
/// ```
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, far) = memory::pair(&Config::default())?;
/// let [near, far] = [near, far].map(|io| Ring::new(io, MonotonicRaw, RingConfig::default()));
/// let _ = near.sender().inject(&[1; 60])?;
///
/// let Received::Got(frame) = far.recv(1000)? else { return Err("no frame came".into()) };
/// assert_eq!((frame.len(), far.held()), (60, 1));
/// drop(frame); // its chunk is free again
/// assert_eq!((far.held(), far.counters().io.rx_frames), (0, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Ring<P, C> {
    core: RefCell<Core<P>>,
    clock: C,
    umem: Arc<Umem>,
    wait: Wait,
    held: Cell<u32>,
    hold: u32,
    longest: usize,
    queue: u32,
}

#[derive(Debug)]
struct Core<P> {
    io: P,
    /// Frames of one look at the RX ring; empty between calls.
    inbox: Vec<Arrival>,
    /// Committed and not yet in the TX ring.
    batch: Vec<Frame>,
    /// The most frames in `batch`.
    most: usize,
    /// The size of a batch, or the estimate that decides it.
    when: When,
    /// Frames stayed in the TX ring, or the last kick failed: kick again.
    busy: bool,
    empty_looks: u32,
    kicks: u64,
    hold_limit: u64,
    over_bound: u64,
    over_bound_stalled: u64,
    stalled: u64,
    longest_wait: u64,
}

#[derive(Debug)]
enum When {
    Full(usize),
    Estimated(Estimate),
}

impl<P: PacketIo, C: Clock> Ring<P, C> {
    /// A ring over `io`. `clock` is read only for timeouts, pacing and adaptive coalescing.
    pub fn new(mut io: P, clock: C, config: RingConfig) -> Ring<P, C> {
        let umem = io.umem().clone();
        let (longest, queue) = (io.granted().longest_frame.min(umem.chunk_bytes()), io.granted().queue);
        let when = match config.coalesce {
            Coalesce::Off => When::Full(1),
            Coalesce::Every(frames) => When::Full(frames.get() as usize),
            Coalesce::Adaptive { max_delay } => When::Estimated(Estimate::new(max_delay, &clock)),
        };
        let most = match when {
            When::Full(frames) => frames.max(MOST as usize),
            When::Estimated(_) => MOST as usize,
        };
        let chunks = io.pool().chunks();
        // With every chunk held, a receive that waits would wait for ever.
        let hold = config.hold.map_or((chunks / 4).max(1), |hold| chunks.min(hold as usize));
        let core = Core {
            io,
            inbox: Vec::with_capacity(MOST as usize),
            // A reserved slot is committed even if the batch is full.
            batch: Vec::with_capacity(chunks.min(most.saturating_add(hold))),
            most,
            when,
            busy: false,
            empty_looks: 0,
            kicks: 0,
            hold_limit: 0,
            over_bound: 0,
            over_bound_stalled: 0,
            stalled: 0,
            longest_wait: 0,
        };
        let (held, hold) = (Cell::new(0), hold as u32);
        Ring { core: RefCell::new(core), clock, umem, wait: config.wait, held, hold, longest, queue }
    }

    /// A handle to send with. Each handle keeps its own pace for [`Sender::inject_at`].
    pub fn sender(&self) -> Sender<'_, P, C> {
        Sender::new(self)
    }

    /// Kicks every committed frame.
    ///
    /// # Errors
    /// The kernel's error: ENETDOWN if the interface went down, ENXIO or ENODEV if it was removed.
    pub fn flush(&self) -> io::Result<()> {
        self.core.borrow_mut().flush(&self.clock)
    }

    /// A copy of the queue pair's granted features, with the reason for each refused one.
    pub fn granted(&self) -> Granted {
        self.core.borrow().io.granted().clone()
    }

    /// The counters so far.
    pub fn counters(&self) -> RingCounters {
        let core = &mut *self.core.borrow_mut();
        RingCounters {
            io: core.io.counters(),
            kicks: core.kicks,
            hold_limit: core.hold_limit,
            over_bound: core.over_bound,
            over_bound_stalled: core.over_bound_stalled,
            stalled: core.stalled,
            longest_wait: Nanos(self.clock.to_ns(core.longest_wait)),
        }
    }

    /// The number of leases and reserved slots held now.
    pub fn held(&self) -> u32 {
        self.held.get()
    }

    /// Calls `ask` with the device below, for example to read a [`Tracer`](crate::tracer::Tracer)'s stamps.
    pub fn with_io<T>(&self, ask: impl FnOnce(&mut P) -> T) -> T {
        ask(&mut self.core.borrow_mut().io)
    }

    /// Returns the queue pair. Frames that were committed but not kicked go back to its pool unsent; to send them, call
    /// [`flush`](Ring::flush) before.
    pub fn into_io(self) -> P {
        let mut core = self.core.into_inner();
        for frame in core.batch.drain(..) {
            core.io.pool().give(frame);
        }
        core.io
    }

    /// Takes a chunk back from a lease or a slot.
    #[inline]
    fn give(&self, frame: Frame) {
        self.core.borrow_mut().io.pool().give(frame);
        self.held.set(self.held.get() - 1);
    }
}

impl<P: PacketIo> Core<P> {
    /// Kicks the frames that are due: those that stayed in the TX ring, and a batch at its deadline.
    #[inline(always)]
    fn flush_due<C: Clock>(&mut self, clock: &C) -> io::Result<()> {
        let due = match &mut self.when {
            When::Estimated(estimate) if estimate.waiting() => estimate.due(clock.now()),
            _ => false,
        };
        if due || self.busy { self.flush(clock) } else { Ok(()) }
    }

    /// Moves the batch into the TX ring, as far as it fits, and kicks.
    #[inline]
    fn flush<C: Clock>(&mut self, clock: &C) -> io::Result<()> {
        if self.batch.is_empty() && !self.busy {
            return Ok(());
        }
        let before = self.seen(clock);
        self.flush_since(before, clock)
    }

    /// As [`flush`](Core::flush), entered at `before`.
    #[inline(always)]
    fn flush_since<C: Clock>(&mut self, before: Ticks, clock: &C) -> io::Result<()> {
        // Stays true if the kick fails, so that a later call tries again.
        self.busy = true;
        loop {
            let moved = self.io.tx_batch(&mut self.batch);
            self.kicks = self.kicks.wrapping_add(1);
            let kicked = self.io.kick(Kick::Send)?;
            if self.batch.is_empty() {
                self.busy = kicked == Kicked::Busy;
                break;
            }
            if moved == 0 || kicked == Kicked::Busy {
                break;
            }
        }
        if let When::Estimated(estimate) = &mut self.when {
            let waited = estimate.kicked(before, clock.now());
            let over = waited.ticks > estimate.max_delay();
            self.longest_wait = self.longest_wait.max(waited.ticks);
            self.over_bound += u64::from(over && !waited.stalled);
            self.over_bound_stalled += u64::from(over && waited.stalled);
            self.stalled += u64::from(waited.stalled);
        }
        Ok(())
    }

    /// The time, for adaptive coalescing only: other modes read no clock.
    #[inline(always)]
    fn seen<C: Clock>(&self, clock: &C) -> Ticks {
        match self.when {
            When::Estimated(_) => clock.now(),
            When::Full(_) => Ticks::default(),
        }
    }

    /// True if the batch has room for one more frame.
    #[inline(always)]
    fn has_room<C: Clock>(&mut self, clock: &C) -> io::Result<bool> {
        if self.batch.len() >= self.most {
            self.flush(clock)?;
        }
        Ok(self.batch.len() < self.most)
    }

    /// A free chunk, if the batch has room for one more frame.
    #[inline(always)]
    fn room<C: Clock>(&mut self, clock: &C) -> io::Result<Option<Frame>> {
        if !self.has_room(clock)? {
            return Ok(None);
        }
        if let Some(frame) = self.io.pool().take() {
            return Ok(Some(frame));
        }
        // Looking at the TX ring returns the chunks of sent frames.
        self.flush(clock)?;
        self.io.tx_batch(&mut self.batch);
        Ok(self.io.pool().take())
    }

    /// Adds a frame to the batch, and kicks if it is time.
    #[inline(always)]
    fn commit<C: Clock>(&mut self, frame: Frame, clock: &C) -> io::Result<()> {
        self.batch.push(frame);
        let seen = self.seen(clock);
        let kick = match &mut self.when {
            When::Full(frames) => self.batch.len() >= *frames,
            When::Estimated(estimate) => estimate.committed(seen),
        };
        if kick || self.busy { self.flush_since(seen, clock) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
