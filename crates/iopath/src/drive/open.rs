//! The open loop: each request is sent when it is due, whatever is in flight, and in between replies are received.
//!
//! ```text
//!   spinning   look at the clock ─▶ due: send ─▶ anything in flight: one attempt to receive ─▶ look …     a gap between two looks: a stall
//!   sleeping   look ─▶ due: send ─▶ wait for a reply or the next due time, whichever is first ─▶ look …
//!   block's end     after 100 ms, at the first moment at which nothing is in flight ─▶ fold ─▶ …
//! ```
//! A request that finds the table or the path full is sent as soon as there is room, and keeps its due time: so does every one behind it. A server that stands
//! still keeps requests in flight, so no block ends meanwhile, and whatever becomes due is sent or becomes late. Under a load that leaves no moment without a
//! request in flight, sending is held back for at most [`HOLD_NS`] once a second, or once the block's samples are full; due times do not move for that.

use super::{BLOCK_NS, CATCH_UP_NS, Cut, Limits, Loop};
use crate::endpoint::Endpoint;
use crate::pace::Timetable;
use hairpin_sys::clock::{Clock, Ticks};

/// A block that finds no moment without requests in flight lasts so long before one is made, in ns …
const LONGEST_NS: u64 = 10 * BLOCK_NS;
/// … by holding requests back for this long at most, in ns.
const HOLD_NS: u64 = 1_000_000;

impl<C: Clock> Loop<'_, C> {
    /// Sends what is due and receives what comes until the block is over and nothing is in flight.
    pub(super) fn open_block<E: Endpoint>(&mut self, endpoint: &mut E, limits: Limits) -> Result<(), Cut> {
        self.stalls.begin(self.last_stamp);
        let result = self.on_schedule(endpoint, limits);
        let (count, ticks) = self.stalls.total();
        self.counts.stalls += count;
        self.counts.stalled_ns += self.clock.to_ns(ticks);
        result
    }

    #[inline(always)]
    fn on_schedule<E: Endpoint>(&mut self, endpoint: &mut E, limits: Limits) -> Result<(), Cut> {
        let most = self.work.flows * self.work.outstanding;
        let sleeps = self.pace.timetable().is_some_and(Timetable::sleeps);
        let hold = self.clock.to_ticks(HOLD_NS);
        let last_send = limits.ends.plus(self.clock.to_ticks(CATCH_UP_NS));
        let mut held_from = limits.block.plus(self.clock.to_ticks(LONGEST_NS - BLOCK_NS));
        let (mut left, mut flow) = (limits.budget, 0);
        // The next request has been due and found no room.
        let mut waits = false;
        // Nothing but waiting since the last look.
        let mut idle = false;
        loop {
            let now = self.clock.now();
            if idle {
                self.stalls.look(now)
            } else {
                self.stalls.pass(now)
            }
            self.last_stamp = now;
            let Some(table) = self.pace.timetable() else { return Ok(()) };
            let due = table.next();
            let is_full = left == 0;
            if self.flight.live() == 0 {
                let is_done = due.at == Ticks::NEVER && (now >= limits.ends || table.is_over());
                if is_full || now >= limits.block || is_done {
                    return Ok(());
                }
            }
            if now >= self.look_at {
                // Without a request in flight there is no silence of a peer that has answered.
                self.begin_silence(now);
                self.turn()?;
                idle = false;
                continue;
            }
            idle = !sleeps;
            if now >= held_from.plus(hold) {
                // Some request is slow; the others do not wait for it.
                held_from = now.plus(self.clock.to_ticks(BLOCK_NS));
            }
            let is_held = is_full || now >= held_from || now >= last_send;
            // Past its end a block waits for a moment without a request in flight.
            let look = if now < limits.block { limits.block } else { now.plus(hold) };
            let mut until = due.at.min(look);
            if is_held {
                until = self.look_at.min(now.plus(hold));
            } else if due.at <= now {
                idle = false;
                let room = self.flight.live() < most;
                if room {
                    flow = self.flight.with_room(flow);
                    self.begin_silence(now);
                }
                if room && self.send(endpoint, flow, Some(due.at), due.size as usize)? {
                    self.pace.timetable_mut().into_iter().for_each(Timetable::advance);
                    left -= 1;
                    waits = false;
                    flow = if flow + 1 == self.work.flows { 0 } else { flow + 1 };
                    until = self.pace.timetable().map_or(until, |table| table.next().at.min(look));
                } else {
                    self.counts.full += u64::from(!waits);
                    waits = true;
                    // Whoever waits for room waits for a reply; on a full path one look at what has come makes room.
                    until = if room { now } else { self.look_at };
                }
            }
            let expects = self.flight.live() > 0 || !self.flight.given_up.is_empty();
            if !expects && !sleeps {
                continue;
            }
            // Asleep with nothing in flight a look would wake the core for nothing.
            let until = match (sleeps, self.flight.live()) {
                (false, _) => now,
                (true, 0) => until,
                (true, _) => until.min(self.look_at),
            };
            if self.receive(endpoint, until)?.is_some() {
                idle = false;
            } else if sleeps {
                // Asleep until then, and not stopped.
                self.last_stamp = self.last_stamp.max(until);
                self.looked(self.clock.now());
            }
        }
    }

    #[inline(always)]
    fn begin_silence(&mut self, now: Ticks) {
        if self.flight.live() == 0 && self.answered {
            self.last_reply = now;
        }
    }
}
