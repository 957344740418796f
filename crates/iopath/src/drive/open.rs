//! The open loop: each request is sent when it is due, whatever is in flight, and in between replies are received.
//!
//! ```text
//!   spinning   look at the clock ─▶ due: send ─▶ anything in flight: one attempt to receive ─▶ look …     a gap between two looks: a stall
//!   sleeping   look ─▶ due: send ─▶ wait for a reply or the next due time, whichever is first ─▶ look …
//!   block's end     the schedule is paused ─▶ what is in flight comes home ─▶ fold ─▶ … ─▶ the schedule goes on where it stood
//! ```
//! A request that finds the table or the path full is sent as soon as there is room, and keeps its due time: so does every one behind it. What is still
//! not sent when the block ends is sent in the next, as late as it was; folding makes nothing late, and nothing late is forgiven.

use super::{Cut, Limits, Loop};
use crate::endpoint::{Endpoint, Marks};
use crate::pace::Pace;
use hairpin_sys::clock::{Clock, Ticks};

impl<E: Endpoint, C: Clock, P: Pace, M: Marks> Loop<'_, E, C, P, M> {
    /// Sends what is due until the block ends, then lets the last ones come home.
    pub(super) fn open_block(&mut self, limits: Limits) -> Result<(), Cut> {
        self.stalls.begin(self.last_stamp);
        let sent = self.on_schedule(limits);
        let stop = self.clock.now();
        self.pace.pause(stop);
        let (count, ticks) = self.stalls.total();
        self.counts.stalls += count;
        self.counts.stalled_ns += self.clock.to_ns(ticks);
        sent?;
        while self.flight.live() > 0 {
            if self.receive(self.look_at)?.is_none() {
                self.turn()?;
            }
        }
        // The block's measured time is the schedule's.
        self.last_stamp = stop;
        Ok(())
    }

    #[inline(always)]
    fn on_schedule(&mut self, limits: Limits) -> Result<(), Cut> {
        let most = self.work.flows * self.work.outstanding;
        let sleeps = self.pace.sleeps();
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
            if left == 0 || now >= limits.block {
                return Ok(());
            }
            let due = self.pace.next();
            if due.at == Ticks::NEVER && self.flight.live() == 0 {
                return Ok(());
            }
            if now >= self.look_at {
                // Without a request in flight there is no silence of a peer that has answered.
                self.begin_silence(now);
                self.turn()?;
                idle = false;
                continue;
            }
            idle = !sleeps;
            // Whoever waits for room waits for a reply; on a full path one look at what has come makes room.
            let mut until = due.at.min(limits.block);
            if due.at <= now {
                idle = false;
                let room = self.flight.live() < most;
                if room {
                    flow = self.flight.with_room(flow);
                    self.begin_silence(now);
                }
                if room && self.send(flow, Some(due.at), due.size as usize)? {
                    self.pace.advance();
                    left -= 1;
                    waits = false;
                    flow = if flow + 1 == self.work.flows { 0 } else { flow + 1 };
                    until = self.pace.next().at.min(limits.block);
                } else {
                    self.counts.full += u64::from(!waits);
                    waits = true;
                    until = if room { now } else { self.look_at };
                }
            }
            if self.flight.live() == 0 && !sleeps {
                continue;
            }
            // Asleep with nothing in flight a look would wake the core for nothing.
            let until = match (sleeps, self.flight.live()) {
                (false, _) => now,
                (true, 0) => until,
                (true, _) => until.min(self.look_at),
            };
            if self.receive(until)?.is_some() {
                idle = false;
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
