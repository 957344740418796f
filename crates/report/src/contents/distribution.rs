//! A distribution in figures: quantiles with intervals, the points of the percentile plot, buckets.

use hairpin_record::histogram::Decoded;
use hairpin_record::paired;
use hairpin_record::run::{Block, Quantiles};
use hairpin_units::Arrange;
use hairpin_units::Quantile as Q;

use crate::columns::{kept, within};
use crate::view::{Bucket, Percentile, Quantile, Summary};

/// The confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// An interval uses only the last blocks, at most this many.
const MOST_BLOCKS: usize = 1000;
/// The percentile plot has a point at each of these; from p90 on it has `PER_DECADE` points per decade of 1 − q, up to the last
/// quantile that the count supports.
const LOWER: [f64; 20] =
    [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.875];
const PER_DECADE: u32 = 20;
/// Quantiles beyond 1 − 10^−6 have no name.
const DECADES: u32 = 6;
/// Buckets divide each power of two into 2^6, or into fewer if there would be more than `MOST_BUCKETS` in all …
const FINEST: u32 = 6;
const MOST_BUCKETS: usize = 200;
/// … and into 2^4 where less than 1 / `RARE` of all samples lies on the bucket's side.
const COARSE: u32 = 4;
const RARE: u64 = 100;

/// The figures of a record, with intervals if the row has blocks.
pub(crate) fn summary(times: &Quantiles, blocks: &[Block]) -> Summary {
    let mut sound: Vec<&Block> = blocks.iter().filter(|block| !block.clock_suspect).collect();
    // The record stores threads one after the other, but it is neighbours in time that are correlated.
    sound.arrange_by_key(|block| block.at_ns);
    let sound = &sound[sound.len().saturating_sub(MOST_BLOCKS)..];
    let quantile = |q: Q, of: fn(&Block) -> Option<u64>| {
        let ns = kept(times, q).flatten().filter(|_| q.is_supported_by(times.count));
        let interval = ns.and_then(|ns| interval(ns, sound, of));
        Quantile { ns, low_ns: interval.map(|ends| ends[0]), high_ns: interval.map(|ends| ends[1]) }
    };
    Summary {
        min: times.min,
        mean: times.mean.filter(|mean| mean.is_finite()),
        p50: quantile(Q::P50, |block| block.p50),
        // Blocks keep no p90.
        p90: quantile(Q::P90, |_| None),
        p99: quantile(Q::P99, |block| block.p99),
        p999: quantile(Q::P999, |block| block.p999),
        max: times.max,
    }
}

/// The ends of a quantile's 95 % interval. Their ratio to the quantile is the ratio between the interval and the estimate of the
/// blocks' typical quantile (Hodges and Lehmann, widened where neighbours are correlated). `None` with too few blocks, or if most
/// blocks are too short for the quantile.
fn interval(ns: u64, blocks: &[&Block], of: fn(&Block) -> Option<u64>) -> Option<[u64; 2]> {
    let logs: Vec<f64> = blocks.iter().filter_map(|block| of(block)).filter(|ns| *ns > 0).map(|ns| (ns as f64).ln()).collect();
    if 2 * logs.len() <= blocks.len() {
        return None;
    }
    let found = paired::shift(&logs, CONFIDENCE)?;
    let end = |end: f64| Some(ns as f64 * (end - found.typical).exp()).filter(|ns| ns.is_finite());
    let (low, high) = (end(found.low)?, end(found.high)?);
    // With fewer than six blocks the interval has no lower end.
    found.low.is_finite().then_some([low.floor() as u64, high.ceil() as u64])
}

/// The points of the percentile plot; without a histogram, the quantiles stored in the record.
pub(super) fn percentiles(times: &Quantiles, histogram: Option<&Decoded>) -> Vec<Percentile> {
    let Some(histogram) = histogram else {
        let all = [Q::P50, Q::P90, Q::P99, Q::P999].into_iter().filter(|q| q.is_supported_by(times.count));
        return all.filter_map(|q| Some(Percentile { q: q.get(), ns: kept(times, q)?? })).collect();
    };
    let upper = (PER_DECADE..=PER_DECADE * DECADES).map(|k| 1.0 - 10f64.powf(-f64::from(k) / f64::from(PER_DECADE)));
    let mut all: Vec<Q> = LOWER.into_iter().chain(upper).filter_map(Q::new).collect();
    all.dedup();
    let known = |q: Q| match kept(times, q) {
        Some(Some(ns)) => Some(ns),
        _ => histogram.quantile(q).map(|ns| within(ns, times)),
    };
    all.into_iter().map_while(|q| Some(Percentile { q: q.get(), ns: known(q)? })).collect()
}

/// The counts of a histogram, merged into coarser buckets.
pub(super) fn buckets(histogram: &Decoded) -> Vec<Bucket> {
    let finest = (COARSE + 1..=FINEST).rev().map(|fine| divided(histogram, fine)).find(|found| found.len() <= MOST_BUCKETS);
    finest.unwrap_or_else(|| divided(histogram, COARSE))
}

fn divided(histogram: &Decoded, fine: u32) -> Vec<Bucket> {
    let all = histogram.count();
    let rare = all / RARE;
    let (mut below, mut coarse, mut found) = (0u64, false, Vec::<Bucket>::new());
    for (ns, count) in histogram.counts() {
        let up_to = below.saturating_add(count);
        let was_coarse = coarse;
        coarse = up_to <= rare || all.saturating_sub(below) <= rare;
        below = up_to;
        let (mut from_ns, to_ns) = ends(ns, if coarse { COARSE } else { fine });
        if found.is_empty() {
            // No sample lies below this one, so the first bucket starts here.
            from_ns = ns;
        }
        if let Some(last) = found.last_mut().filter(|last| from_ns <= last.to_ns) {
            if ns <= last.to_ns && coarse == was_coarse {
                last.count = last.count.saturating_add(count);
                continue;
            }
            // Where the width changes, one bucket ends earlier or the other starts later. All samples counted so far lie below
            // this time.
            last.to_ns = last.to_ns.min(ns - 1);
            from_ns = last.to_ns + 1;
        }
        found.push(Bucket { from_ns, to_ns, count });
    }
    found
}

/// The ends of the bucket that holds `ns`, if each power of two is divided into 2^`bits` buckets.
fn ends(ns: u64, bits: u32) -> (u64, u64) {
    let shift = ns.checked_ilog2().unwrap_or(0).saturating_sub(bits);
    let from = ns >> shift << shift;
    (from, from + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use hairpin_record::histogram::Times;
    use proptest::prelude::*;

    use super::*;

    fn block(p50: u64) -> Block {
        Block { p50: Some(p50), ..Block::default() }
    }

    fn decoded(times: impl IntoIterator<Item = u64>) -> (Quantiles, Decoded) {
        let mut histogram = Times::new();
        times.into_iter().for_each(|ns| histogram.record(ns));
        (histogram.quantiles(), Decoded::decode(&histogram.encode()).unwrap())
    }

    #[test]
    fn an_interval_holds_its_value_and_needs_blocks() {
        let times = Quantiles { count: 1000, p50: Some(5000), p99: Some(9000), ..Quantiles::default() };
        let blocks: Vec<Block> = (0..40).map(|i| block(4900 + i * 37 % 100)).collect();
        let summary = |blocks: &[Block]| summary(&times, blocks);
        let p50 = summary(&blocks).p50;
        let (low, high) = (p50.low_ns.unwrap(), p50.high_ns.unwrap());
        assert!(low < 5000 && 5000 < high && high - low < 60, "{p50:?}");
        assert_eq!(summary(&blocks[..5]).p50, Quantile { ns: Some(5000), low_ns: None, high_ns: None });
        assert!(summary(&blocks[..6]).p50.low_ns.is_some());
        // Most blocks have no p99, so it gets no interval.
        let mut few = blocks.clone();
        few[..20].iter_mut().for_each(|block| block.p99 = Some(9000));
        assert_eq!(summary(&few).p99, Quantile { ns: Some(9000), low_ns: None, high_ns: None });
        few[20].p99 = Some(9000);
        assert!(summary(&few).p99.low_ns.is_some());
        // Blocks with disagreeing clocks are left out.
        few.iter_mut().for_each(|block| block.clock_suspect = true);
        assert_eq!(summary(&few).p50.low_ns, None);
    }

    #[test]
    fn intervals_hold_the_median_as_often_as_they_say() {
        // Blocks wander: each has its own level, and the row's median is that of all. A fixed generator keeps the test
        // deterministic.
        let mut seed = 7u32;
        let mut uniform = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(seed) / f64::from(u32::MAX)
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let tries = 400;
        let held = (0..tries).filter(|_| {
            let (mut all, mut blocks) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let level = 10_000.0 * (0.02 * normal()).exp();
                let mut times: Vec<f64> = (0..101).map(|_| level * (1.0 + 0.05 * normal())).collect();
                times.arrange_by(f64::total_cmp);
                blocks.push(block(times[50] as u64));
                all.extend(times);
            }
            all.arrange_by(f64::total_cmp);
            let times = Quantiles { count: 2020, p50: Some(all[1010] as u64), ..Quantiles::default() };
            let p50 = summary(&times, &blocks).p50;
            (p50.low_ns.unwrap()..=p50.high_ns.unwrap()).contains(&10_000)
        });
        let share = held.count() as f64 / f64::from(tries);
        assert!((0.91..=0.99).contains(&share), "{share}");
    }

    #[test]
    fn unsupported_quantiles_are_always_blank() {
        let times = Quantiles { count: 99, p50: Some(1), p90: Some(2), p99: Some(3), p999: Some(4), ..Quantiles::default() };
        let summary = summary(&times, &[]);
        assert_eq!([summary.p50, summary.p90, summary.p99, summary.p999].map(|q| q.ns), [Some(1), None, None, None]);
        assert_eq!(percentiles(&times, None), [Percentile { q: 0.5, ns: 1 }]);
    }

    #[test]
    fn the_percentile_plot_goes_as_far_as_the_count_does() {
        let (times, histogram) = decoded((0..100_000).map(|i| 1_000 + i));
        let points = percentiles(&times, Some(&histogram));
        let at = |q: f64| points.iter().find(|point| point.q == q).map(|point| point.ns);
        for (q, ns) in [(0.5, times.p50), (0.9, times.p90), (0.99, times.p99), (0.999, times.p999)] {
            assert_eq!(at(q), ns, "{q}");
        }
        assert!(at(0.9999).is_some());
        assert_eq!(points.last().unwrap().q, 0.9999, "ten of 100,000 lie beyond p99.99, and fewer beyond the next");
        assert!(points.is_sorted_by(|a, b| a.q < b.q && a.ns <= b.ns), "{points:?}");
        let (times, histogram) = decoded([7; 19]);
        assert!(percentiles(&times, Some(&histogram)).iter().all(|point| point.q < 0.5));
    }

    #[test]
    fn buckets_are_fine_where_the_many_are() {
        let body = (0..100_000u64).map(|i| 5_000 + i % 500);
        let (_, histogram) = decoded(body.chain((0..900).map(|i| 6_000 + i * 1_000)));
        let found = buckets(&histogram);
        let width = |bucket: &Bucket| (bucket.to_ns - bucket.from_ns + 1) as f64 / bucket.from_ns as f64;
        assert!(found.iter().filter(|bucket| bucket.to_ns < 5_500).all(|bucket| width(bucket) <= 1.0 / 64.0));
        assert!(found.iter().filter(|bucket| bucket.from_ns > 6_500).all(|bucket| width(bucket) <= 1.0 / 16.0));
        assert!(found.len() < 125, "{}", found.len());
    }

    #[test]
    fn a_wide_distribution_has_wider_buckets() {
        let (_, histogram) = decoded((0..2_000_000u64).map(|i| 1_000 + i * i / 1_000_000));
        let found = buckets(&histogram);
        assert!((MOST_BUCKETS / 2..=MOST_BUCKETS).contains(&found.len()), "{}", found.len());
    }

    proptest! {
        #[test]
        fn buckets_count_everything_once(times in prop::collection::vec(0u64..200_000_000, 0..3000)) {
            let (_, histogram) = decoded(times.iter().copied());
            let found = buckets(&histogram);
            prop_assert_eq!(found.iter().map(|bucket| bucket.count).sum::<u64>(), times.len() as u64);
            prop_assert!(found.is_sorted_by(|a, b| a.to_ns < b.from_ns), "{found:?}");
            prop_assert!(found.iter().all(|bucket| bucket.from_ns <= bucket.to_ns && bucket.count > 0));
        }

        #[test]
        fn a_bucket_holds_its_time(ns: u64, bits in 4u32..=6) {
            let (from, to) = ends(ns, bits);
            prop_assert!(from <= ns && ns <= to);
            prop_assert!((to - from) as f64 <= from as f64 / f64::from(1u32 << bits));
        }
    }
}
