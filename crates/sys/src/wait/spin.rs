//! `spin`: attempts without a pause and, except on the rings of devices, seldom a look at a deadline that is far away.

use std::io;

use crate::clock::{AnyClock, Clock, Ticks};

/// While the deadline is further away than this, in ns, a thread looks at its clock only after [`UNLOOKED`] attempts: a look takes
/// 8 ns, and a message that comes meanwhile waits for its end.
const FAR_NS: u64 = 1_000_000;
const UNLOOKED: u32 = 32;

/// Attempts without a pause, on one descriptor after the other.
#[derive(Clone, Copy)]
pub struct Spin {
    clock: AnyClock,
    count: usize,
    next: usize,
    /// [`FAR_NS`] in ticks.
    far: u64,
    /// Attempts to be made before the next look at the clock.
    unlooked: u32,
}

impl Spin {
    pub(super) fn new(clock: AnyClock, count: usize) -> Spin {
        Spin { clock, count, next: 0, far: clock.to_ticks(FAR_NS), unlooked: 0 }
    }

    /// A wait begins: its first attempt in vain leads to a look at the clock.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> &mut Spin {
        self.unlooked = 0;
        self
    }

    /// The descriptor to try now. Each turn begins after the last successful one, so that none starves.
    #[inline(always)]
    pub fn turn(&mut self) -> usize {
        let at = self.next;
        self.next = if at + 1 >= self.count { 0 } else { at + 1 };
        at
    }

    /// After an attempt in vain: true once `until` has passed.
    #[inline(always)]
    pub fn is_over(&mut self, until: Ticks) -> bool {
        if self.unlooked > 0 {
            self.unlooked -= 1;
            return false;
        }
        // A copy, so that a loop keeps the rest in registers.
        let spin = *self;
        let (is_over, unlooked) = spin.look(until);
        self.unlooked = unlooked;
        is_over
    }

    /// The same for a device's ring, with a look at the clock each time: `xdp:spin` with far cores took 7 % longer with one look
    /// in 32 attempts (docs/benchmarks.md, "Two builds"). Why is not known.
    #[inline(always)]
    pub fn is_past(&self, until: Ticks) -> bool {
        self.clock.now() >= until
    }

    /// Looks at the clock: true once `until` has passed, and the attempts before the next look.
    #[inline(never)]
    fn look(&self, until: Ticks) -> (bool, u32) {
        let now = self.clock.now();
        if until.since(now) > self.far { (false, UNLOOKED - 1) } else { (now >= until, 0) }
    }

    /// Continues from the place that `copy` has reached: a loop over a copy keeps it in registers.
    #[inline(always)]
    pub fn go_on(&mut self, copy: Spin) {
        self.next = copy.next;
    }

    #[inline(always)]
    pub(super) fn wait<T>(
        &mut self,
        until: Ticks,
        attempt: &mut (impl FnMut(usize) -> io::Result<Option<T>> + ?Sized),
    ) -> io::Result<Option<T>> {
        self.begin();
        loop {
            let at = self.turn();
            if let Some(found) = attempt(at)? {
                return Ok(Some(found));
            }
            if self.is_over(until) {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MonotonicRaw;
    use crate::wait::Waiting;

    #[test]
    fn a_spinning_thread_looks_seldom_at_a_far_deadline_and_always_at_a_near_one() {
        let clock = AnyClock::Raw(MonotonicRaw);
        let mut spin = Spin::new(clock, 1);
        let far = || clock.now().plus(60_000_000_000);
        let past = Ticks(0);
        assert!(!spin.is_over(far()));
        let unlooked = (0..1000).take_while(|_| !spin.is_over(past)).count();
        assert_eq!(unlooked, UNLOOKED as usize - 1);
        assert!(spin.is_over(past), "it has looked at a deadline that is not far");
        assert!(!spin.is_over(far()));
        assert!(spin.is_past(past) && !spin.is_past(far()), "it looks each time");
        let mut wait = Waiting::spin(clock);
        assert!(!wait.spinning().unwrap().is_over(far()));
        assert!(wait.spinning().unwrap().is_over(past), "a new wait begins with a look");
    }
}
