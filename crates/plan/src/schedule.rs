//! Due times of requests: at a fixed interval, as a Poisson process, or from a recording.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::replay::Arrival;

/// An open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Requests per second over all threads; for a recording the mean.
    pub per_s: f64,
    pub arrivals: Arrivals,
    /// Smallest request in bytes; the job holds the largest.
    pub smallest: u32,
}

/// Arrival process of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One per interval.
    Fixed,
    /// Exponential intervals, as from many independent users.
    Poisson {
        /// Seed; the same seed gives the same intervals.
        seed: u64,
    },
    /// Times and sizes from a file.
    Replay {
        file: PathBuf,
        /// The file's contents, once read where they are needed.
        #[serde(skip)]
        arrivals: Arc<[Arrival]>,
    },
}

impl OpenLoop {
    /// Longest time without a request in s, as far as it is known.
    pub fn longest_gap_s(&self) -> f64 {
        match &self.arrivals {
            Arrivals::Fixed => 1.0 / self.per_s,
            // One interval in 10^12 is longer.
            Arrivals::Poisson { .. } => 28.0 / self.per_s,
            Arrivals::Replay { arrivals, .. } => {
                arrivals.windows(2).map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64 / 1e9).fold(0.0, f64::max)
            }
        }
    }

    /// The schedule of one of `threads` threads.
    pub fn share(&self, thread: u32, threads: u32, size: u32) -> Schedule {
        let per_s = self.per_s / f64::from(threads);
        let kind = match &self.arrivals {
            // Threads take turns.
            Arrivals::Fixed => ScheduleKind::Fixed { first: f64::from(thread + 1) / f64::from(threads) },
            Arrivals::Poisson { seed } => ScheduleKind::Poisson { seed: seed.wrapping_add(u64::from(thread)) },
            Arrivals::Replay { arrivals, .. } => ScheduleKind::Replay(arrivals.clone()),
        };
        Schedule { interval_ns: 1e9 / per_s, kind, size }
    }
}

/// One thread's schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    interval_ns: f64,
    kind: ScheduleKind,
    size: u32,
}

#[derive(Clone, Debug)]
enum ScheduleKind {
    /// The first request after `first` intervals.
    Fixed {
        first: f64,
    },
    Poisson {
        seed: u64,
    },
    Replay(Arc<[Arrival]>),
}

impl Schedule {
    /// `per_s` requests of `size` bytes per second, one per interval, the first after one interval.
    pub fn fixed(per_s: f64, size: u32) -> Schedule {
        Schedule { interval_ns: 1e9 / per_s, kind: ScheduleKind::Fixed { first: 1.0 }, size }
    }

    /// `per_s` requests of `size` bytes per second on average, with exponential intervals.
    pub fn poisson(per_s: f64, size: u32, seed: u64) -> Schedule {
        Schedule { interval_ns: 1e9 / per_s, kind: ScheduleKind::Poisson { seed }, size }
    }

    /// Mean time between two requests in ns.
    pub fn mean_interval_ns(&self) -> f64 {
        self.interval_ns
    }

    /// True if some intervals are longer than the mean one.
    pub fn varies(&self) -> bool {
        !matches!(self.kind, ScheduleKind::Fixed { .. })
    }

    /// Due times from the beginning.
    pub fn source(&self) -> Source {
        let kind = match &self.kind {
            ScheduleKind::Fixed { first } => SourceKind::Fixed { next: *first },
            ScheduleKind::Poisson { seed } => SourceKind::Poisson { last_ns: 0.0, random: Random(*seed) },
            ScheduleKind::Replay(arrivals) => SourceKind::Replay { arrivals: arrivals.clone(), next: 0 },
        };
        Source { interval_ns: self.interval_ns, size: self.size, kind }
    }

    /// Due times before measuring: the same mean rate, without using up a recording.
    pub fn warm_up(&self) -> Source {
        match self.kind {
            ScheduleKind::Replay(_) => Schedule { kind: ScheduleKind::Fixed { first: 1.0 }, ..self.clone() }.source(),
            _ => self.source(),
        }
    }
}

/// Iterator over due times.
#[derive(Debug)]
pub struct Source {
    interval_ns: f64,
    size: u32,
    kind: SourceKind,
}

#[derive(Debug)]
enum SourceKind {
    Fixed { next: f64 },
    Poisson { last_ns: f64, random: Random },
    Replay { arrivals: Arc<[Arrival]>, next: usize },
}

/// Yields the next due time in ns since the beginning, and the request's size; `None`: no more requests.
impl Iterator for Source {
    type Item = (f64, u32);

    fn next(&mut self) -> Option<(f64, u32)> {
        match &mut self.kind {
            SourceKind::Fixed { next } => {
                // Multiplied rather than summed, so that rounding errors do not accumulate.
                let due = *next * self.interval_ns;
                *next += 1.0;
                Some((due, self.size))
            }
            SourceKind::Poisson { last_ns, random } => {
                *last_ns += -random.unit().ln() * self.interval_ns;
                Some((*last_ns, self.size))
            }
            SourceKind::Replay { arrivals, next } => {
                let arrival = arrivals.get(*next)?;
                *next += 1;
                Some((arrival.at_ns as f64, arrival.size))
            }
        }
    }
}

impl Source {
    /// True if no requests are left.
    pub fn is_over(&self) -> bool {
        matches!(&self.kind, SourceKind::Replay { arrivals, next } if *next == arrivals.len())
    }
}

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): small, and identical on every
/// platform.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number above 0 and at most 1, on a grid of 2^-53.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(schedule: &Schedule, count: usize) -> Vec<f64> {
        let mut source = schedule.source();
        (0..count).filter_map(|_| source.next()).map(|(due, _)| due).collect()
    }

    #[test]
    fn fixed_intervals_do_not_drift() {
        let due = due(&Schedule::fixed(3e6, 1), 3_000_000);
        assert!((due[2_999_999] - 1e9).abs() < 1e-3 && (due[0] - 1e9 / 3e6).abs() < 1e-9);
    }

    #[test]
    fn threads_share_a_fixed_rate_in_turn() {
        let open = OpenLoop { per_s: 1e6, arrivals: Arrivals::Fixed, smallest: 1 };
        let mut all: Vec<f64> = (0..4).flat_map(|thread| due(&open.share(thread, 4, 1), 3)).collect();
        all.sort_by(f64::total_cmp);
        let expected: Vec<f64> = (1..=12).map(|n| f64::from(n) * 1_000.0).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn poisson_intervals_have_the_mean_and_the_tail_of_an_exponential_and_repeat_with_their_seed() {
        let due_of = |seed| due(&Schedule::poisson(1e6, 1, seed), 200_000);
        let due = due_of(7);
        assert_eq!(due, due_of(7));
        assert_ne!(due[..3], due_of(8)[..3]);
        let intervals: Vec<f64> = std::iter::once(due[0]).chain(due.windows(2).map(|pair| pair[1] - pair[0])).collect();
        let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
        let beyond = intervals.iter().filter(|interval| **interval > 3_000.0).count() as f64 / intervals.len() as f64;
        assert!((mean / 1_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((beyond / (-3.0f64).exp() - 1.0).abs() < 0.05, "{beyond}");
    }

    #[test]
    fn splitmix_is_the_published_one() {
        // The first values of the reference implementation (prng.di.unimi.it/splitmix64.c) from seed 1234567.
        let mut random = Random(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn a_recording_ends_and_is_not_used_up_by_the_warm_up() {
        let arrivals: Arc<[Arrival]> = [Arrival { at_ns: 0, size: 9 }, Arrival { at_ns: 500, size: 7 }].into();
        let open =
            OpenLoop { per_s: 1e6, arrivals: Arrivals::Replay { file: PathBuf::new(), arrivals: arrivals.clone() }, smallest: 7 };
        let schedule = open.share(0, 1, 9);
        let mut warm_up = schedule.warm_up();
        assert_eq!((0..3).filter_map(|_| warm_up.next()).collect::<Vec<_>>(), [(1_000.0, 9), (2_000.0, 9), (3_000.0, 9)]);
        let mut source = schedule.source();
        assert_eq!([source.next(), source.next(), source.next()], [Some((0.0, 9)), Some((500.0, 7)), None]);
    }
}
