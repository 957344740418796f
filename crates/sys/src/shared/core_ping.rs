//! Core ping: the distance of two CPUs, as the time for one cache line to reach the other and return.
//!
//! ```text
//!   initiator                     ball                         responder, in its measuring loop
//!   call_ping ───── epoch, 1 ───► ████ ◄── ping_requested ──── polls (a load from its own cache)
//!  measure_ping ◄─ epoch, 2 ──── ████ ◄── answer_ping ─────── joins
//!                ── epoch, 3 ───► ████ ─────────────────────►
//!                ◄─ epoch, 4 ──── ████ ◄──────────────────────
//!                      …
//!                ── epoch, END ─► ████ ─────────────────────►  returns
//! ```
//! Both sides write the *same* line: the core that reads it gets it together with the right to write it, so a round trip is two
//! transfers. A line per direction would take four.
//!
//! Neither side waits for ever: each has a limit on CLOCK_MONOTONIC and checks the stop flag, so a peer that died, was stopped,
//! or shares the only CPU costs time but never hangs a run. After such an end a late answer may spoil the next ping, which then
//! returns `None`; the one after that works.

use std::hint::spin_loop;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Shared;

/// Round trips between two looks at the clock: they share the clock's cost of some 25 ns.
const BATCH: u32 = 16;
/// Fewest batches for a median: with fewer, a batch in which a side lost its CPU would pass for the cores' distance.
const MIN_BATCHES: usize = 16;
/// Most batches of a ping, even if time is left: 4 ms at 0.12 us per round trip. They are kept on the stack.
const MAX_BATCHES: usize = 2048;
/// Loads of the line between two looks at the clock and the stop flag during a wait.
const LOOKS: u32 = 1024;
/// Turn number that marks the end of a ping.
const END: u32 = u32::MAX;

/// Contents of the line: the epoch (32 bits) and the turn (odd: the responder's).
fn ball(epoch: u32, turn: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(turn)
}

fn epoch_of(ball: u64) -> u32 {
    (ball >> 32) as u32
}

fn turn_of(ball: u64) -> u32 {
    ball as u32
}

/// Median round trip in ns over batches; `None` for fewer than [`MIN_BATCHES`].
fn median(batches: &mut [u32]) -> Option<u64> {
    batches.sort_unstable();
    (batches.len() >= MIN_BATCHES).then(|| u64::from(batches[batches.len() / 2] / BATCH))
}

impl Shared {
    /// Initiator: asks the other side to join a ping and returns its epoch for [`measure_ping`](Shared::measure_ping). Between
    /// the two calls the initiator may wake a sleeping responder.
    pub fn call_ping(&self) -> u32 {
        let epoch = self.area().ended.0.load(Ordering::Relaxed).wrapping_add(1);
        self.area().ball.0.store(ball(epoch, 1), Ordering::Release);
        epoch
    }

    /// Initiator: bounces the line for `duration` and returns the median round trip in ns, over batches of 16.
    ///
    /// `epoch` is the result of [`call_ping`](Shared::call_ping). `None` if the other side does not join within `patience`, or
    /// completes fewer than 16 batches within `patience + duration`, the longest that this takes. The roles are fixed: only one
    /// side ever initiates.
    pub fn measure_ping(&self, epoch: u32, patience: Duration, duration: Duration) -> Option<u64> {
        let ended = &self.area().ended.0;
        let median = self.bounce(epoch, patience, duration);
        // Ends the ping for a responder that joins later, or whose late answer overwrites the line.
        ended.store(epoch, Ordering::Release);
        median
    }

    fn bounce(&self, epoch: u32, patience: Duration, duration: Duration) -> Option<u64> {
        let line = &self.area().ball.0;
        let start = Instant::now();
        if !self.comes(ball(epoch, 2), start + patience) {
            return None;
        }
        let mut batches = [0_u32; MAX_BATCHES];
        let mut done = 0;
        let mut turn = 3;
        let mut before = Instant::now();
        let due = before + duration;
        // On a busy machine either side may lose its CPU for longer than `duration`: wait for a few batches.
        let give_up = start + patience + duration;
        while done < MIN_BATCHES || (done < MAX_BATCHES && before < due) {
            for _ in 0..BATCH {
                line.store(ball(epoch, turn), Ordering::Release);
                if !self.comes(ball(epoch, turn + 1), give_up) {
                    return median(&mut batches[..done]);
                }
                turn += 2;
            }
            let after = Instant::now();
            batches[done] = u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX);
            done += 1;
            before = after;
        }
        // The responder's last answer has been seen, so no one else writes now.
        line.store(ball(epoch, END), Ordering::Release);
        median(&mut batches[..done])
    }

    /// Responder: true if a ping began since the last call; `last_seen`, initially 0, becomes its epoch.
    ///
    /// Cheap enough for a measuring loop: one load of a line that is not written between pings.
    #[inline]
    pub fn ping_requested(&self, last_seen: &mut u32) -> bool {
        let now = self.area().ball.0.load(Ordering::Relaxed);
        if epoch_of(now) == *last_seen {
            return false;
        }
        *last_seen = epoch_of(now);
        turn_of(now) != END
    }

    /// Responder: answers the ping of `epoch` (from [`ping_requested`](Shared::ping_requested), in `last_seen`) until the
    /// initiator ends it, or for `limit`.
    pub fn answer_ping(&self, epoch: u32, limit: Duration) {
        let line = &self.area().ball.0;
        let due = Instant::now() + limit;
        loop {
            for _ in 0..LOOKS {
                let now = line.load(Ordering::Acquire);
                if epoch_of(now) != epoch || turn_of(now) == END {
                    return;
                }
                if turn_of(now) % 2 == 1 {
                    line.store(now + 1, Ordering::Release);
                }
                spin_loop();
            }
            if self.area().ended.0.load(Ordering::Acquire) == epoch || self.stop_requested() || Instant::now() >= due {
                return;
            }
        }
    }

    /// True if the line becomes `wanted` before `due` and before a stop is requested.
    #[inline]
    fn comes(&self, wanted: u64, due: Instant) -> bool {
        loop {
            for _ in 0..LOOKS {
                if self.area().ball.0.load(Ordering::Acquire) == wanted {
                    return true;
                }
                spin_loop();
            }
            if self.stop_requested() || Instant::now() >= due {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread::{spawn, yield_now};

    use super::*;
    use crate::thread::{allowed_cpus, pin};

    const LONG: Duration = Duration::from_secs(5);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A responder on `cpu` that answers `pings` pings, each for at most `limit`.
    fn responder(shared: &Arc<Shared>, cpu: u32, pings: u32, limit: Duration) -> std::thread::JoinHandle<u32> {
        let shared = Arc::clone(shared);
        spawn(move || {
            pin(cpu).unwrap();
            let (mut last_seen, mut answered) = (0, 0);
            while answered < pings && !shared.stop_requested() {
                if shared.ping_requested(&mut last_seen) {
                    shared.answer_ping(last_seen, limit);
                    answered += 1;
                }
                yield_now();
            }
            last_seen
        })
    }

    #[test]
    fn two_cores_measure_a_time_that_two_cores_can_have() {
        let shared = Arc::new(Shared::create().unwrap());
        let cpus = allowed_cpus().unwrap();
        let other = responder(&shared, cpus[cpus.len() - 1], 2, LONG);
        let times = spawn({
            let shared = Arc::clone(&shared);
            move || {
                pin(cpus[0]).unwrap();
                // Ends after the most batches; the long limit is for a machine busy with other tests.
                [shared.measure_ping(shared.call_ping(), LONG, LONG), shared.measure_ping(shared.call_ping(), LONG, LONG)]
            }
        });
        let times = times.join().unwrap();
        shared.request_stop();
        let last_seen = other.join().unwrap();
        // On a single CPU there may be no result; then the test shows only that both sides end.
        if allowed_cpus().unwrap().len() > 1 {
            for time in times {
                assert!((10..1_000_000).contains(&time.unwrap()), "{times:?}");
            }
            assert_eq!(last_seen, 2);
        }
    }

    #[test]
    fn on_one_cpu_both_sides_end() {
        let shared = Arc::new(Shared::create().unwrap());
        let cpu = allowed_cpus().unwrap()[0];
        let other = responder(&shared, cpu, 1, ms(5));
        let start = Instant::now();
        spawn({
            let shared = Arc::clone(&shared);
            move || {
                pin(cpu).unwrap();
                shared.measure_ping(shared.call_ping(), ms(5), ms(5))
            }
        })
        .join()
        .unwrap();
        shared.request_stop();
        other.join().unwrap();
        assert!(start.elapsed() < LONG);
    }

    #[test]
    fn a_few_disturbed_batches_do_not_move_the_median_and_too_few_make_none() {
        let mut batches = [120 * BATCH; 40];
        batches[..15].fill(u32::MAX);
        assert_eq!(median(&mut batches), Some(120));
        assert_eq!(median(&mut batches[..MIN_BATCHES - 1]), None);
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn missing_peer_times_out_and_leaves_the_next_row_intact() {
        let shared = Arc::new(Shared::create().unwrap());
        assert_eq!(shared.measure_ping(shared.call_ping(), ms(1), ms(1)), None);
        // A late responder leaves at once.
        let mut last_seen = 0;
        assert!(shared.ping_requested(&mut last_seen));
        let start = Instant::now();
        shared.answer_ping(last_seen, LONG);
        assert!(start.elapsed() < LONG / 2);
        assert!(!shared.ping_requested(&mut last_seen));
        // Its late answer (turn 2 of ping 1) does not count as one to the next ping.
        assert_eq!(shared.measure_ping(shared.call_ping(), ms(1), ms(1)), None);
        assert!(shared.ping_requested(&mut last_seen));
        assert_eq!(last_seen, 2);
    }

    #[test]
    fn an_initiator_that_vanished_frees_the_responder_at_its_limit_or_at_a_stop() {
        let shared = Shared::create().unwrap();
        shared.area().ball.0.store(ball(1, 1), Ordering::Release);
        let start = Instant::now();
        shared.answer_ping(1, ms(2));
        assert!((ms(2)..LONG).contains(&start.elapsed()));
        shared.request_stop();
        shared.answer_ping(1, LONG);
        assert_eq!(shared.measure_ping(shared.call_ping(), LONG, LONG), None);
        assert!(start.elapsed() < LONG);
    }
}
