//! The time at which a frame becomes visible: the stages of a declared NIC and link, as deadlines of the
//! time-stamp counter.
//!
//! ```text
//!   tx_batch entered                                                                rx_batch returns it
//!        │── out ──▶│── waits while the link is busy ──▶│────────── rest ──────────▶│
//!                                                       │─ link ─▶│ the next frame may start
//! ```
//! Kept in ticks with a fraction of 16 bits, so that a link's rate stays exact over any number of frames.

use std::sync::Arc;

use hairpin_sys::clock::{Clock, Tsc};
use hairpin_units::Picos;
use hairpin_wire::framing::MIN_FRAME_WITHOUT_FCS;

/// Bits behind the point.
const FRACTION: u32 = 16;
/// The longest time of a part: a second.
const MOST: Picos = Picos(1_000_000_000_000);
/// Trial waits, the shortest of them in ns, and the growth from one to the next, so that they end at every phase of a clock that
/// moves in steps.
const TRIALS: usize = 255;
const TRIAL_NS: u64 = 600;
const LONGER_NS: u64 = 7;
/// Slack of a deadline, in ns: the processor may read the counter before the line that it then looks at has
/// come from the other core, and the cores' counters may differ a little.
const UNORDERED_NS: u64 = 10_000;
/// Deadlines nearer than this, in ns, are waited for. Shorter than a stall of a core.
const NEAR_NS: u64 = 1_000;

/// The parts of one frame's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// From the entry of `tx_batch` to the first bit on the link, if it is free.
    pub out: Picos,
    /// Time for which the frame occupies the link: its bits on the wire, preamble and gap included.
    pub link: Picos,
    /// From the first bit on the link until `rx_batch` may return the frame.
    pub rest: Picos,
}

/// Why times cannot be emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {len} bytes has {delay:?}: each part takes from 0 to a second")]
pub struct TimingError {
    /// Bytes of the frame.
    pub len: usize,
    /// The declared delay.
    pub delay: Delay,
}

/// The declared times of frames of every length, for the frames that a port sends. Both sides of a link take the same, or
/// each is told the other's ([`Timing::facing`]).
///
/// ```
/// use hairpin_packet::Picos;
/// use hairpin_packet::clock::Tsc;
/// use hairpin_packet::niq::{self, Delay, Timing};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // 500 ns before the link, 0.8 ns a byte on it (10 Gbit/s, with preamble, gap and FCS), 800 ns from its first bit on.
/// let delay = |len: usize| Delay { out: Picos(500_000), link: Picos((len as i64 + 24) * 800), rest: Picos(800_000) };
/// // Without a counter that can be trusted nothing is emulated.
/// if let Ok(clock) = Tsc::calibrate() {
///     let timing = Timing::new(clock, 1514, delay)?;
///     assert_eq!(timing.longest(), 1514);
///     let config = niq::Config { longest_frame: 1514, timing: Some(timing), ..niq::Config::default() };
///     let (_near, _far) = niq::pair(&config)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Timing {
    clock: Tsc,
    /// By length, from the shortest frame on.
    parts: Arc<[Parts]>,
    /// The longest that a frame can be on its way if `queued` others are before it: `alone + queued × link`, in ticks.
    alone: u64,
    link: u64,
    /// Lateness of the reading that ends a wait, in ticks; waits are aimed earlier by this.
    late: u64,
}

#[derive(Clone, Copy, Debug)]
struct Parts {
    out: u64,
    link: u64,
    rest: u64,
}

impl Timing {
    /// Asks `of` for every length up to `longest`, in bytes without FCS; frames shorter than 60 bytes take
    /// the time of 60. Emulation needs a reliable [`Tsc`]: [`Tsc::calibrate`] explains why.
    ///
    /// # Errors
    /// A part below zero or above a second.
    pub fn new(clock: Tsc, longest: usize, mut of: impl FnMut(usize) -> Delay) -> Result<Timing, TimingError> {
        let ticks = |part: Picos| (part.0 as f64 * clock.rate() / 1_000.0 * f64::from(1 << FRACTION)).round() as u64;
        let shortest = MIN_FRAME_WITHOUT_FCS as usize;
        let parts = (shortest..=longest.max(shortest)).map(|len| {
            let delay = of(len);
            let sound = [delay.out, delay.link, delay.rest].iter().all(|part| (Picos(0)..=MOST).contains(part));
            let parts = Parts { out: ticks(delay.out), link: ticks(delay.link), rest: ticks(delay.rest) };
            if sound { Ok(parts) } else { Err(TimingError { len, delay }) }
        });
        let parts = parts.collect::<Result<Arc<[Parts]>, _>>()?;
        let most = |part: fn(&Parts) -> u64| parts.iter().map(part).max().unwrap_or(0).div_ceil(1 << FRACTION);
        let (alone, link) = (most(|parts| parts.out) + most(|parts| parts.rest), most(|parts| parts.link));
        Ok(Timing { clock, parts, alone, link, late: lateness(clock) })
    }

    /// The times of a port whose other side sends with `peer`: the port accepts frames that are on their way for as long as
    /// `peer` declares.
    #[must_use]
    pub fn facing(self, peer: &Timing) -> Timing {
        Timing { alone: self.alone.max(peer.alone), link: self.link.max(peer.link), ..self }
    }

    /// The longest frame with declared times, in bytes.
    pub fn longest(&self) -> usize {
        self.parts.len() - 1 + MIN_FRAME_WITHOUT_FCS as usize
    }

    /// The time-stamp counter.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.clock.now().0
    }

    /// Waits for a deadline; ends at the reading of the clock nearest to it.
    #[inline(always)]
    pub(super) fn wait_for(&self, deadline: u64) {
        let aim = deadline.saturating_sub(self.late);
        while self.now() < aim {}
    }

    /// A deadline this close counts as near, in ticks.
    pub(super) fn near(&self) -> u64 {
        self.clock.to_ticks(NEAR_NS)
    }

    /// The furthest deadline in ticks from now that a correct sender with `entries` lines can set.
    ///
    /// At most `entries` frames are on their way; every other one has been received, so it started on the link before now.
    pub(super) fn furthest(&self, entries: u32) -> u64 {
        let sent_now = self.alone.saturating_add(self.link.saturating_mul(u64::from(entries) + 1));
        sent_now.saturating_add(self.clock.to_ticks(UNORDERED_NS))
    }

    #[inline(always)]
    fn parts(&self, len: usize) -> Parts {
        let at = len.saturating_sub(MIN_FRAME_WITHOUT_FCS as usize).min(self.parts.len() - 1);
        self.parts[at]
    }
}

/// Typical lateness of the reading that ends a wait, in ticks: half of the time from one reading to the next, or of the clock's
/// step if that is longer. The time in which the CPU leaves the loop is not part of it: a receiver needs that time to leave a
/// loop of looks without a deadline too.
fn lateness(clock: Tsc) -> u64 {
    let now = || clock.now().0;
    let mut late = [0; TRIALS];
    for (number, late) in late.iter_mut().enumerate() {
        let deadline = now() + clock.to_ticks(TRIAL_NS + LONGER_NS * number as u64);
        *late = loop {
            if let Some(late) = now().checked_sub(deadline) {
                break late;
            }
        };
    }
    *late.select_nth_unstable(TRIALS / 2).1
}

/// The link as its sender sees it.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Time at which it becomes free, in ticks with the fraction.
    free: u128,
}

impl Link {
    /// The deadline in ticks of a frame of `len` bytes whose sending was entered at `entered`, after all
    /// earlier frames.
    #[inline(always)]
    pub(super) fn pass(&mut self, timing: &Timing, entered: u64, len: usize) -> u64 {
        let parts = timing.parts(len);
        let ready = (u128::from(entered) << FRACTION) + u128::from(parts.out);
        let start = ready.max(self.free);
        self.free = start + u128::from(parts.link);
        let deadline = (start + u128::from(parts.rest) + (1 << (FRACTION - 1))) >> FRACTION;
        u64::try_from(deadline).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::niq::tests::tsc;

    const PS: i64 = 1_000;

    /// 10G, 20 bytes of preamble and gap, 4 of FCS; 500 ns before the link and 800 after its start.
    fn ten_gigabit(clock: Tsc) -> Timing {
        Timing::new(clock, 1514, |len| Delay {
            out: Picos(500 * PS),
            link: Picos((len as i64 + 24) * 800),
            rest: Picos(800 * PS + len as i64),
        })
        .unwrap()
    }

    #[test]
    fn single_frame_takes_the_declared_time_and_a_batch_the_links_rate() {
        let Some(clock) = tsc() else { return };
        let timing = ten_gigabit(clock);
        assert_eq!(timing.longest(), 1514);
        let ticks = |ns: f64| ns * clock.rate();
        let mut link = Link::default();
        // Far apart: no queue. Shorter frames than 60 bytes are padded.
        for (entered, len, ns) in [(1_000_000, 60, 1_300.06), (3_000_000, 1514, 1_301.514), (5_000_000, 0, 1_300.06)] {
            let took = (link.pass(&timing, entered, len) - entered) as f64;
            assert!((took - ticks(ns)).abs() <= 0.51, "{took} ticks, {}", ticks(ns));
        }
        // All at once: the n-th waits for n times 67.2 ns, to the tick even after a million of them.
        for number in 0..1_000_000u32 {
            let took = (link.pass(&timing, 7_000_000, 60) - 7_000_000) as f64;
            let due = ticks(1_300.06 + 67.2 * f64::from(number));
            assert!((took - due).abs() <= 10.0, "frame {number}: {took} ticks, {due}");
        }
        // A long one keeps the next for as long as it is on the wire.
        let (first, second) = (link.pass(&timing, u64::MAX / 2, 1514), link.pass(&timing, u64::MAX / 2, 60));
        assert!(((second - first) as f64 - ticks(1_230.4 - 1.454)).abs() <= 1.0);
        // The counter may have been read before the line came.
        assert!(timing.furthest(64) as f64 >= ticks(1_301.5 + 65.0 * 1_230.4 + 5_000.0));
    }

    #[test]
    fn rejects_impossible_delays() {
        let Some(clock) = tsc() else { return };
        for (out, link, rest) in [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, MOST.0 + 1, 0)] {
            let delay = Delay { out: Picos(out), link: Picos(link), rest: Picos(rest) };
            let error = Timing::new(clock, 100, |_| delay).unwrap_err();
            assert_eq!(error, TimingError { len: 60, delay });
        }
        let longest = Delay { out: MOST, link: MOST, rest: MOST };
        let timing = Timing::new(clock, 100, |_| longest).unwrap();
        assert!(Link::default().pass(&timing, u64::MAX, 100) == u64::MAX && timing.furthest(1 << 14) < u64::MAX);
    }
}
