//! The delays of a row, in constant memory.

use hairpin_record::histogram::Times;
use hairpin_record::one_way::SignedTimes;
use hairpin_units::Quantile;

/// Most transactions kept, 16 bytes each. When they are reached, every other one is dropped, and from then on half as many are
/// kept; and so on.
const MOST: usize = 1 << 19;

/// The delays of a row.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    /// Every `stride`-th transaction: request and reply, in ns.
    kept: Vec<(i64, i64)>,
    stride: u64,
    count: u64,
    /// Least, sum and largest of request, reply, and request less reply.
    request: Extremes,
    reply: Extremes,
    asymmetry: Extremes,
    /// How far below 0 the negative delays are.
    below: Times,
    pub(super) negative: u64,
    pub(super) unmatched: u64,
    pub(super) blocks_rejected: u64,
    /// Largest error of placing both sides' stamps, in ns.
    placing_ns: f64,
    most: usize,
}

#[derive(Clone, Copy, Debug)]
struct Extremes {
    min: i64,
    max: i64,
    sum: f64,
}

impl Default for Extremes {
    fn default() -> Extremes {
        Extremes { min: i64::MAX, max: i64::MIN, sum: 0.0 }
    }
}

impl Extremes {
    fn add(&mut self, ns: i64) {
        (self.min, self.max) = (self.min.min(ns), self.max.max(ns));
        self.sum += ns as f64;
    }
}

impl Default for Fold {
    fn default() -> Fold {
        Fold {
            kept: Vec::new(),
            stride: 1,
            count: 0,
            request: Extremes::default(),
            reply: Extremes::default(),
            asymmetry: Extremes::default(),
            below: Times::new(),
            negative: 0,
            unmatched: 0,
            blocks_rejected: 0,
            placing_ns: 0.0,
            most: MOST,
        }
    }
}

impl Fold {
    /// Adds a transaction.
    pub(super) fn add(&mut self, request: i64, reply: i64) {
        self.request.add(request);
        self.reply.add(reply);
        self.asymmetry.add(request.saturating_sub(reply));
        for ns in [request, reply].into_iter().filter(|ns| *ns < 0) {
            self.negative += 1;
            self.below.record(ns.unsigned_abs());
        }
        if self.count.is_multiple_of(self.stride) {
            if self.kept.len() == self.most {
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.kept.push((request, reply));
            }
        }
        self.count += 1;
    }

    /// A block's stamps were placed with this error, in ns.
    pub(super) fn place(&mut self, error_ns: f64) {
        self.placing_ns = self.placing_ns.max(error_ns);
    }

    pub(super) fn placing_ns(&self) -> f64 {
        self.placing_ns
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> &[(i64, i64)] {
        &self.kept
    }

    /// Delays below 0 by more than the bound, to three digits.
    pub(super) fn impossible(&self, bound_ns: f64) -> u64 {
        let within = self.below.share_up_to(bound_ns as u64) * self.negative as f64;
        self.negative.saturating_sub(within.round() as u64)
    }

    /// Request, reply, and request less reply.
    pub(super) fn times(&self) -> [SignedTimes; 3] {
        let of = |pick: fn(&(i64, i64)) -> i64, ends: &Extremes| {
            let mut sorted: Vec<i64> = self.kept.iter().map(pick).collect();
            sorted.sort_unstable();
            self.summary(&sorted, ends)
        };
        [
            of(|both| both.0, &self.request),
            of(|both| both.1, &self.reply),
            of(|both| both.0.saturating_sub(both.1), &self.asymmetry),
        ]
    }

    fn summary(&self, sorted: &[i64], ends: &Extremes) -> SignedTimes {
        if self.count == 0 {
            return SignedTimes::default();
        }
        // The rank of the record's own quantiles: the smallest value that the share of q does not exceed.
        let at = |q: Quantile| {
            let rank = (q.get() * sorted.len() as f64).ceil() as usize;
            q.is_supported_by(self.count).then(|| sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()).flatten()
        };
        SignedTimes {
            count: self.count,
            min: Some(ends.min),
            mean: Some((ends.sum / self.count as f64 * 10.0).round() / 10.0),
            p50: at(Quantile::P50),
            p90: at(Quantile::P90),
            p99: at(Quantile::P99),
            p999: at(Quantile::P999),
            max: Some(ends.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_times_of_any_sign() {
        let mut fold = Fold::default();
        (0..1_000).for_each(|n| fold.add(n - 100, 2_000 - n));
        let [request, reply, asymmetry] = fold.times();
        assert_eq!((request.count, request.min, request.p50, request.max), (1_000, Some(-100), Some(399), Some(899)));
        assert_eq!((request.mean, request.p99, request.p999), (Some(399.5), Some(889), None));
        assert_eq!((reply.min, reply.p50), (Some(1_001), Some(1_500)));
        assert_eq!((asymmetry.min, asymmetry.max), (Some(-2_100), Some(-102)));
        assert_eq!((fold.negative, fold.impossible(90.5), fold.impossible(1_000.0)), (100, 10, 0));
        assert_eq!(Fold::default().times()[0], SignedTimes::default());
        assert_eq!(Fold::default().impossible(5.0), 0);
        // Any number of them is counted.
        (0..70_000).for_each(|_| fold.add(-500, 5));
        assert_eq!((fold.negative, fold.impossible(400.0), fold.impossible(500.0)), (70_100, 70_000, 0));
    }

    #[test]
    fn a_long_row_is_kept_evenly() {
        let mut fold = Fold { most: 1_000, ..Fold::default() };
        (0..100_000).for_each(|n| fold.add(n, 5));
        assert!((400..=1_000).contains(&fold.kept().len()), "{}", fold.kept().len());
        let [request, ..] = fold.times();
        assert_eq!((request.count, request.min, request.max), (100_000, Some(0), Some(99_999)));
        let near = |found: Option<i64>, want: i64| found.is_some_and(|found| (found - want).abs() < 500);
        assert!(near(request.p50, 50_000) && near(request.p99, 99_000), "{request:?}");
        let steps: Vec<i64> = fold.kept().windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(steps.iter().all(|step| *step == steps[0]), "every part of the row counts alike");
    }
}
