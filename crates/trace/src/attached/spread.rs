//! Distributions: to three digits for all transactions, to two for each connection, of which there are many.

use hairpin_record::histogram::{HIGHEST_NS, Times};
use hairpin_record::run::Quantiles;
use hairpin_units::Quantile;
use hdrhistogram::Histogram;

/// Times as a distribution of constant size.
pub(super) trait Spread: Default {
    /// Adds one time.
    fn record(&mut self, ns: u64);
    /// Times recorded.
    fn count(&self) -> u64;
    /// The quantile in ns, or `None` if fewer than ten times lie beyond it.
    fn quantile(&self, q: Quantile) -> Option<u64>;
    /// The summary for the record.
    fn quantiles(&self) -> Quantiles;
    /// The full distribution for the record, if it is kept.
    fn encode(&self) -> Option<String>;
}

impl Spread for Times {
    fn record(&mut self, ns: u64) {
        Times::record(self, ns);
    }

    fn count(&self) -> u64 {
        Times::count(self)
    }

    fn quantile(&self, q: Quantile) -> Option<u64> {
        Times::quantile(self, q)
    }

    fn quantiles(&self) -> Quantiles {
        Times::quantiles(self)
    }

    fn encode(&self) -> Option<String> {
        Some(Times::encode(self))
    }
}

/// A tenth of the memory of [`Times`].
#[derive(Debug)]
pub(super) struct Rough {
    hdr: Histogram<u32>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Rough {
    fn default() -> Rough {
        let hdr = Histogram::new_with_bounds(1, HIGHEST_NS, 2).expect("bounds are constants");
        Rough { hdr, min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Spread for Rough {
    fn record(&mut self, ns: u64) {
        self.hdr.saturating_record(ns.max(1));
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum += u128::from(ns);
    }

    fn count(&self) -> u64 {
        self.hdr.len()
    }

    fn quantile(&self, q: Quantile) -> Option<u64> {
        q.is_supported_by(self.count()).then(|| self.hdr.value_at_quantile(q.get()).clamp(self.min, self.max))
    }

    fn quantiles(&self) -> Quantiles {
        let count = self.count();
        if count == 0 {
            return Quantiles::default();
        }
        let mean = self.sum as f64 / count as f64;
        Quantiles {
            count,
            min: Some(self.min),
            mean: Some((mean * 10.0).round() / 10.0),
            stddev: None,
            p50: self.quantile(Quantile::P50),
            p90: self.quantile(Quantile::P90),
            p99: self.quantile(Quantile::P99),
            p999: self.quantile(Quantile::P999),
            max: Some(self.max),
        }
    }

    fn encode(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_distributions_agree_to_two_digits() {
        let (mut exact, mut rough) = (Times::default(), Rough::default());
        for n in 1..=20_000 {
            Spread::record(&mut exact, n * 37);
            Spread::record(&mut rough, n * 37);
        }
        let (exact, rough) = (Spread::quantiles(&exact), rough.quantiles());
        assert_eq!((exact.count, exact.min, exact.max, exact.mean), (rough.count, rough.min, rough.max, rough.mean));
        for (a, b) in [(exact.p50, rough.p50), (exact.p90, rough.p90), (exact.p99, rough.p99), (exact.p999, rough.p999)] {
            assert!((a.unwrap() as f64 / b.unwrap() as f64 - 1.0).abs() < 0.01, "{a:?} {b:?}");
        }
    }

    #[test]
    fn too_few_times_leave_a_quantile_blank() {
        assert_eq!(Rough::default().quantiles(), Quantiles::default());
        let mut rough = Rough::default();
        (0..999).for_each(|_| rough.record(5));
        assert_eq!((rough.quantiles().p50, rough.quantiles().p99), (Some(5), None));
    }
}
