//! Notices that a loop stood still: other processes, whose messages it looks for, do not count as silent meanwhile.

use std::time::{Duration, Instant};

/// A loop that has not looked for this long was stopped (Ctrl-Z), or waited for the reader of its output. Each looks once a
/// second at least.
const STANDSTILL: Duration = Duration::from_secs(3);

/// When a loop has looked last.
#[derive(Debug)]
pub struct Looks {
    last: Instant,
}

impl Looks {
    pub fn begin(now: Instant) -> Looks {
        Looks { last: now }
    }

    /// For how long the loop stood still before this look; zero if it did not. Each of its time limits ends later by that time.
    pub fn stood_still(&mut self, now: Instant) -> Duration {
        let gap = now.duration_since(std::mem::replace(&mut self.last, now));
        if gap < STANDSTILL { Duration::ZERO } else { gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_gap_between_looks_is_a_standstill() {
        let begun = Instant::now();
        let mut looks = Looks::begin(begun);
        let mut look = |ms| looks.stood_still(begun + Duration::from_millis(ms)).as_millis();
        assert_eq!([look(20), look(1_020), look(61_020), look(61_040)], [0, 0, 60_000, 0]);
    }
}
