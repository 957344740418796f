//! A row over time: the points and blocks of its record, thinned to as many intervals as a screen can show.

use std::collections::BTreeMap;

use crate::view::Series;
use hairpin_record::run::{Block, Point};
use hairpin_units::Arrange;

/// The greatest number of intervals.
pub(super) const INTERVALS: usize = 240;

#[derive(Default)]
struct Interval {
    at_ns: u64,
    p50: Option<(u64, u64)>,
    p99: Option<u64>,
    max: u64,
    core_rtt: Option<u64>,
    suspect: bool,
}

impl Interval {
    fn add(&mut self, point: &Point) {
        if let Some(p50) = point.p50 {
            let (low, high) = self.p50.unwrap_or((p50, p50));
            self.p50 = Some((low.min(p50), high.max(p50)));
        }
        self.p99 = self.p99.max(point.p99);
        self.max = self.max.max(point.max);
    }
}

/// The series of one row; points of several threads at about the same time fall into one interval.
pub(super) fn series(points: &[Point], blocks: &[Block]) -> Series {
    let mut threads: BTreeMap<u32, usize> = BTreeMap::new();
    points.iter().for_each(|point| *threads.entry(point.thread).or_default() += 1);
    let longest = threads.values().max().copied().unwrap_or(0);
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.arrange_by_key(|point| point.at_ns);
    let (Some(first), Some(last)) = (sorted.first().map(|point| point.at_ns), sorted.last().map(|point| point.at_ns)) else {
        return Series::default();
    };
    let thin = threads.len() > 1 || longest > INTERVALS;
    let count = longest.min(INTERVALS) as u128;
    let place = |at_ns: u64| u128::from(at_ns - first) * count / (u128::from(last - first) + 1);
    let mut intervals: Vec<(u128, Interval)> = Vec::new();
    for point in sorted {
        let here = place(point.at_ns);
        if !thin || intervals.last().is_none_or(|(place, _)| *place != here) {
            intervals.push((here, Interval { at_ns: point.at_ns, ..Interval::default() }));
        }
        if let Some((_, interval)) = intervals.last_mut() {
            interval.add(point);
        }
    }
    for block in blocks {
        let after = intervals.partition_point(|(_, interval)| interval.at_ns <= block.at_ns);
        // A block before the first point belongs to a point that the record no longer holds.
        if let Some((_, interval)) = after.checked_sub(1).and_then(|at| intervals.get_mut(at)) {
            interval.core_rtt = interval.core_rtt.max(block.core_rtt_ns);
            interval.suspect |= block.clock_suspect;
        }
    }
    columns(intervals.into_iter().map(|(_, interval)| interval))
}

fn columns(intervals: impl Iterator<Item = Interval>) -> Series {
    let mut series = Series::default();
    for interval in intervals {
        // Microseconds are enough: a point lasts 100 ms or more.
        series.at_ms.push((interval.at_ns / 1000) as f64 / 1e3);
        series.p50_low_ns.push(interval.p50.map(|(low, _)| low));
        series.p50_high_ns.push(interval.p50.map(|(_, high)| high));
        series.p99_ns.push(interval.p99);
        series.max_ns.push(interval.max);
        series.core_rtt_ns.push(interval.core_rtt);
        series.clock_suspect.push(interval.suspect);
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_ms: u64, p50: Option<u64>, thread: u32) -> Point {
        Point { at_ns: at_ms * 1_000_000, count: 1, p50, p99: p50.map(|ns| 2 * ns), max: p50.unwrap_or(9) * 10, thread }
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [point(0, Some(5), 0), point(100, None, 0), point(230, Some(7), 0)];
        let block = |at_ns, core, suspect| Block { at_ns, core_rtt_ns: core, clock_suspect: suspect, ..Block::default() };
        let blocks = [block(2_000_000, Some(120), false), block(60_000_000, Some(510), false), block(300_000_000, None, true)];
        let series = series(&points, &blocks);
        assert_eq!(series.at_ms, [0.0, 100.0, 230.0]);
        assert_eq!(series.p50_low_ns, [Some(5), None, Some(7)]);
        assert_eq!(series.p50_low_ns, series.p50_high_ns);
        assert_eq!((series.p99_ns, series.max_ns), (vec![Some(10), None, Some(14)], vec![50, 90, 70]));
        assert_eq!(series.core_rtt_ns, [Some(510), None, None]);
        assert_eq!(series.clock_suspect, [false, false, true]);
    }

    #[test]
    fn many_points_become_ranges() {
        let points: Vec<Point> = (0..4096).map(|i| point(100 * i, Some(1_000 + i % 100), 0)).collect();
        let series = series(&points, &[]);
        assert_eq!(series.at_ms.len(), INTERVALS);
        assert_eq!(
            (series.p50_low_ns.iter().flatten().min(), series.p50_high_ns.iter().flatten().max()),
            (Some(&1000), Some(&1099))
        );
        assert!(series.p50_low_ns.iter().zip(&series.p50_high_ns).all(|(low, high)| low < high));
        assert_eq!(series.max_ns.iter().max(), Some(&10_990));
    }

    #[test]
    fn threads_at_one_time_are_one_interval() {
        let mut points: Vec<Point> = (0..10).map(|i| point(100 * i, Some(1_000), 0)).collect();
        points.extend((0..10).map(|i| point(100 * i + 3, Some(2_000), 1)));
        let series = series(&points, &[]);
        assert_eq!(series.at_ms.len(), 10, "{series:?}");
        assert!(series.p50_low_ns.iter().all(|low| *low == Some(1_000)), "{series:?}");
        assert!(series.p50_high_ns.iter().all(|high| *high == Some(2_000)), "{series:?}");
    }

    #[test]
    fn times_at_both_ends_of_the_range_are_taken() {
        let points = [point(0, Some(1), 0), Point { at_ns: u64::MAX, ..point(0, Some(u64::MAX), 9) }];
        assert_eq!(series(&points, &[Block { at_ns: u64::MAX, ..Block::default() }]).max_ns.len(), 1);
        assert_eq!(series(&[], &[Block::default()]).at_ms.len(), 0);
    }
}
