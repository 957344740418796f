//! The number of requests that a client may send, by the rate that it gave.

use hairpin_sys::clock::Ticks;

/// Requests that may come at once beyond the rate: those of a probe's flows, and those before its schedule begins.
const AT_ONCE: f64 = 32.0;
/// Requests that were due while a client stood still come all at once afterwards: those of this time, in s, are let through.
const STOOD_STILL_S: f64 = 15.0;

/// The clocks of two hosts differ by up to some parts in 10,000, as nothing disciplines the ones that are read: a client that keeps
/// to its rate may seem to exceed it by that, and would empty any bucket in days.
const CLOCKS_DIFFER: f64 = 1e-3;

/// A bucket of tokens: each request takes one, and they come back at the rate that the client gave.
#[derive(Debug)]
pub(super) struct Allowance {
    tokens: f64,
    most: f64,
    per_tick: f64,
    at: Ticks,
}

impl Allowance {
    /// A full bucket for `per_s` requests per second, from `now` on a clock of `ticks_per_ns`.
    pub(super) fn new(per_s: f64, ticks_per_ns: f64, now: Ticks) -> Allowance {
        let most = AT_ONCE + per_s * STOOD_STILL_S;
        Allowance { tokens: most, most, per_tick: per_s * (1.0 + CLOCKS_DIFFER) / 1e9 / ticks_per_ns, at: now }
    }

    /// Takes a request at `now`; false if it is one too many.
    pub(super) fn takes(&mut self, now: Ticks) -> bool {
        self.tokens = (self.tokens + now.since(self.at) as f64 * self.per_tick).min(self.most) - 1.0;
        self.at = now;
        self.tokens >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `count` requests, `every_ns` apart. Returns how many are taken before the first refusal.
    fn taken(per_s: f64, every_ns: u64, count: u64) -> u64 {
        let mut allowance = Allowance::new(per_s, 1.0, Ticks(0));
        (0..count).take_while(|n| allowance.takes(Ticks(n * every_ns))).count() as u64
    }

    #[test]
    fn the_rate_that_was_given_is_taken_for_ever_and_a_flood_ends() {
        assert_eq!(taken(100.0, 10_000_000, 1_000_000), 1_000_000);
        // On a clock that is 100 ppm slower than the client's.
        assert_eq!(taken(10.0, 99_990_000, 3_000_000), 3_000_000);
        assert_eq!(taken(0.001, 1_000_000_000_000, 10_000), 10_000);
        // 100,000 per second: the bucket of 1,532, and little more comes back meanwhile.
        assert!((1_532..1_540).contains(&taken(100.0, 10_000, 1_000_000)));
        // A rate a tenth higher than the given one ends too, but much later.
        assert!((10_000..20_000).contains(&taken(100.0, 9_000_000, 1_000_000)));
    }

    #[test]
    fn a_long_silence_saves_up_no_more_than_a_bucket() {
        let mut allowance = Allowance::new(10.0, 1.0, Ticks(0));
        let day = Ticks(86_400_000_000_000);
        assert_eq!((0..10_000).take_while(|_| allowance.takes(day)).count(), 182);
    }
}
