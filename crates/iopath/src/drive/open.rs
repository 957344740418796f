//! The open loop: sends each request when it is due, no matter how many are in flight, and receives replies in between.
//!
//! ```text
//!   spinning   look at the clock ─▶ due: send ─▶ anything in flight: one attempt to receive ─▶ look …     a gap between two looks: a stall
//!   sleeping   look ─▶ due: send ─▶ wait for a reply or the next due time, whichever is first ─▶ look …
//!   block's end     after 100 ms, at the first moment at which nothing is in flight ─▶ fold ─▶ …
//! ```
//! A request that finds the table or the path full is sent as soon as there is room and keeps its due time, as do all requests
//! queued behind it. A stalled server keeps requests in flight, so no block ends during its stall, and every request that becomes
//! due is either sent or late. Under a load that always has a request in flight, the loop holds back sending for at most
//! [`HOLD_NS`] once a second; due times do not move for that. Once the block's samples are full it holds back until nothing is in
//! flight, or until no reply has come for [`HOLD_NS`]: datagrams that may be lost stay in flight across the block's end.

use super::run::Over;
use super::{BLOCK_NS, CATCH_UP_NS, Cut, FULL_NS, Limits, Loop, was_in_vain};
use crate::pace::Timetable;
use hairpin_sys::clock::{Clock, Ticks};

/// If a block finds no moment without requests in flight, the loop makes one after this time, in ns …
const LONGEST_NS: u64 = 10 * BLOCK_NS;
/// … by holding requests back for at most this time, in ns.
const HOLD_NS: u64 = 1_000_000;
/// At a low rate replies are further apart: `QUIET_INTERVALS` mean intervals without a reply mean that none comes.
const QUIET_INTERVALS: f64 = 10.0;

impl<C: Clock> Loop<'_, C> {
    /// Sends the requests that are due and receives replies until the block is over and nothing is in flight.
    pub(super) fn open_block(&mut self, over: &mut dyn Over<C>, limits: Limits) -> Result<(), Cut> {
        self.stalls.begin(self.last_stamp);
        let result = self.on_schedule(over, limits);
        let (count, ticks) = self.stalls.total();
        self.counts.stalls += count;
        self.counts.stalled_ns += self.clock.to_ns(ticks);
        result
    }

    fn on_schedule(&mut self, over: &mut dyn Over<C>, limits: Limits) -> Result<(), Cut> {
        let most = self.work.flows * self.work.outstanding;
        let sleeps = self.pace.timetable().is_some_and(Timetable::sleeps);
        let (hold, room_wait) = (self.clock.to_ticks(HOLD_NS), self.clock.to_ticks(FULL_NS));
        let quiet_ns = self.pace.timetable().map_or(0.0, |table| QUIET_INTERVALS * table.mean_interval_ns());
        let quiet = hold.max(self.clock.to_ticks(quiet_ns as u64));
        let last_send = limits.ends.plus(self.clock.to_ticks(CATCH_UP_NS));
        let mut held_from = limits.block.plus(self.clock.to_ticks(LONGEST_NS - BLOCK_NS));
        let (mut left, mut flow) = (limits.budget, 0);
        // True if the next request is due and found no room.
        let mut waits = false;
        // True if the thread has only waited since the last look.
        let mut idle = false;
        // Requests due by then were sent, or found no room.
        let mut served = self.last_stamp;
        loop {
            let now = self.clock.now();
            if idle {
                self.stalls.look(now)
            } else {
                self.stalls.pass(now)
            }
            self.looked(now);
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
                // With no request in flight, silence from a peer that has answered means nothing.
                self.begin_silence(now);
                match self.attend() {
                    // Nor was there room for the requests behind the one that waits.
                    Err(Cut::Stopped(_)) if !waits => return Err(Cut::Stopped(served)),
                    attended => attended?,
                }
                idle = false;
                continue;
            }
            served = now;
            if is_full && self.lossy && self.kept > 0 && now < limits.ends && now.since(self.last_reply) >= quiet {
                return Ok(());
            }
            idle = !sleeps;
            if now >= held_from.plus(hold) {
                // One slow request does not hold up the others.
                held_from = now.plus(self.clock.to_ticks(LONGEST_NS));
            }
            let is_held = is_full || now >= held_from || now >= last_send;
            // Past its end the block waits for a moment without a request in flight.
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
                if room && self.send(over, flow, Some(due.at), due.size as usize)? {
                    self.pass_over_pause(now);
                    self.pace.timetable_mut().into_iter().for_each(Timetable::advance);
                    left -= 1;
                    waits = false;
                    flow = if flow + 1 == self.work.flows { 0 } else { flow + 1 };
                    until = self.pace.timetable().map_or(until, |table| table.next().at.min(look));
                } else {
                    self.counts.full += u64::from(!waits);
                    waits = true;
                    // A full table needs a reply to make room; on a full path one attempt to receive makes room, or the next
                    // reply.
                    until = match (room, sleeps) {
                        (false, _) => self.look_at,
                        (true, true) => now.plus(room_wait),
                        (true, false) => now,
                    };
                }
            }
            let expects = self.flight.live() > 0 || !self.flight.given_up.is_empty();
            if !expects && !sleeps {
                continue;
            }
            // In sleep with nothing in flight, a look would only wake the core.
            let until = match (sleeps, self.flight.live()) {
                (false, _) => now,
                (true, 0) => until,
                (true, _) => until.min(self.look_at),
            };
            if self.receive(over, until)?.is_some() {
                idle = false;
            } else if sleeps {
                // The thread slept until `until`, so that time is no stop of the process.
                self.last_stamp = self.last_stamp.max(until);
                self.looked(self.clock.now());
                let due = self.pace.timetable().map_or(Ticks::NEVER, |table| table.next().at);
                self.counts.waits_in_vain += u64::from(until < due && was_in_vain(self.clock, until));
            }
        }
    }

    #[inline(always)]
    fn begin_silence(&mut self, now: Ticks) {
        if self.flight.live() == 0 && self.answered {
            self.last_reply = now;
        }
    }

    /// Excludes the pause before the request that has just been sent from the peer's silence. A peer that has answered has none.
    #[inline(always)]
    fn pass_over_pause(&mut self, now: Ticks) {
        if !self.answered && self.flight.live() == 1 {
            self.last_reply = self.last_reply.plus(self.long_pause()).min(now);
        }
    }
}
