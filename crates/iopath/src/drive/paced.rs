//! The paced loop: sends each request when it is due, one in flight over all flows in turn; the thread is idle in between.
//!
//! ```text
//!   idle ─▶ due: send ─▶ wait for the reply ─▶ idle …        late: the next one has been due already, and is sent at once with its own due time
//! ```

use hairpin_sys::clock::{Clock, Ticks};

use super::run::Over;
use super::{Cut, IDLE_TURN_NS, Limits, Loop};

impl<C: Clock> Loop<'_, C> {
    /// Sends the requests that are due until the block ends. The last one calls the other core, and the loop meets that core
    /// before the next request is due, if there is time.
    pub(super) fn paced_block(&mut self, over: &mut dyn Over<C>, limits: Limits) -> Result<(), Cut> {
        let (mut left, mut flow) = (limits.budget, 0);
        while left > 0 {
            let Some(due) = self.idle(limits.ends)? else { break };
            left -= 1;
            let is_last = left == 0 || self.last_stamp >= limits.block;
            if is_last && self.answered {
                self.called = self.between.call_neighbour();
            }
            self.look_after(self.last_stamp);
            while !self.send(over, flow, Some(due), self.work.request)? {
                over.await_room(flow)?;
                self.turn(Ticks(0))?;
            }
            self.pace.timetable_mut().into_iter().for_each(|table| table.advance());
            while self.flight.live() > 0 {
                let until = self.look_at;
                if self.receive(over, until)?.is_none() {
                    self.turn(until)?;
                }
            }
            flow = if flow + 1 == self.work.flows { 0 } else { flow + 1 };
            if is_last {
                break;
            }
        }
        // The block's measured time is that of the due times, idle time included.
        self.last_stamp = self.clock.now();
        Ok(())
    }

    /// Waits until the next request is due; `None` if the run ends first, or has to stand still.
    fn idle(&mut self, ends: Ticks) -> Result<Option<Ticks>, Cut> {
        let Some(table) = self.pace.timetable() else { return Ok(None) };
        let (due, sleeps) = (table.next().at, table.sleeps());
        let since = self.clock.now();
        self.last_stamp = since;
        loop {
            let now = self.clock.now();
            if now >= due {
                self.last_stamp = now;
                // Idle time counts as silence only while the peer has never answered.
                if self.answered {
                    self.pass_over(since);
                }
                return Ok(Some(due));
            }
            if self.between.stopped() {
                return Err(Cut::Stopped(now));
            }
            if now >= ends || self.between.is_paused() {
                self.last_stamp = now;
                return Ok(None);
            }
            let until = due.min(ends).min(now.plus(self.clock.to_ticks(IDLE_TURN_NS)));
            if sleeps {
                self.clock.sleep_until(until);
            } else {
                while self.clock.now() < until {
                    std::hint::spin_loop();
                }
            }
            let woken = self.clock.now();
            self.counts.waits_in_vain += u64::from(woken < due);
            self.last_stamp = woken.min(until);
            self.looked(woken);
        }
    }
}
