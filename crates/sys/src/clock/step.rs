//! The step of a clock, from a series of its readings.
//!
//! ```text
//!   a counter of 100 MHz shown at 2.6 GHz     0   26   52   52   104   130 …     differences are multiples of 26 ticks: 10 ns
//!   one odd reading in 800                            ▲ 37                       does not make the step 1 tick
//!   a counter that shows each tick            0   19   41   60    83 …           multiples of nothing but 1
//! ```
//! The least difference is useless: one odd reading among a thousand would set the step for all of them.

use super::Clock;

/// Number of readings of a clock that moves with nearly every one.
const READINGS: usize = 2_000;
/// Differences that suffice if the clock seldom moves …
const ENOUGH: usize = 64;
/// … and the most readings made to get them.
const MOST: usize = 200_000;
/// The work between two readings varies by up to this many turns, so that readings of a fine clock are unevenly spaced.
const TURNS: u64 = 97;
/// Differences per thousand that must be multiples of the step.
const PER_MILLE: usize = 990;
/// For steps of at least this many ticks a multiple may be one tick off: a clock that counts ns rounds its step of 10.6 ns to 10
/// and 11.
const ROUNDED_FROM: f64 = 5.0;
/// Most steps between two readings that are searched.
const MULTIPLES: u32 = 64;

/// A series of readings with uneven work between them.
pub(super) fn readings<C: Clock>(clock: &C) -> Vec<u64> {
    let mut readings = Vec::with_capacity(READINGS);
    let (mut seed, mut moved, mut made) = (1_u64, 0, 0);
    while readings.len() < READINGS && (made < READINGS || moved < ENOUGH) && made < MOST {
        // Unordered readings would move past the work in between.
        let now = clock.stop().0;
        made += 1;
        if readings.last() != Some(&now) {
            moved += 1;
            readings.push(now);
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut work = seed;
        for _ in 0..(seed >> 33) % TURNS {
            work = std::hint::black_box(work.wrapping_mul(5));
        }
    }
    readings
}

/// The step in ticks; 0 if no two readings differ.
pub(super) fn of_readings(readings: &[u64]) -> f64 {
    let mut differences: Vec<u64> = readings.windows(2).map(|two| two[1].saturating_sub(two[0])).filter(|d| *d > 0).collect();
    differences.sort_unstable();
    // Odd differences at the lower end are not regular ones.
    let Some(least) = differences.get(differences.len() * (1_000 - PER_MILLE) / 1_000).map(|least| *least as f64) else {
        return 0.0;
    };
    let long = (1..=MULTIPLES).map(|parts| least / f64::from(parts)).take_while(|step| *step >= ROUNDED_FROM);
    let rounded = long.filter_map(|step| multiples(&differences, step)).next();
    rounded.unwrap_or_else(|| (2..=4).rev().find(|step| all_but_a_few(&differences, |d| d % step == 0)).unwrap_or(1) as f64)
}

/// The exact step near `near` ticks, if the differences are multiples of it to within a tick.
fn multiples(differences: &[u64], near: f64) -> Option<f64> {
    let count = |difference: u64, step: f64| (difference as f64 / step).round();
    // Long differences amplify a small error in the step, so they are left out; in the first pass that is most of them.
    let refined = |step: f64, most: f64| {
        let short = differences.iter().filter(|d| (0.5..=most).contains(&(**d as f64 / step)));
        let (sum, steps) = short.fold((0.0, 0.0), |(sum, steps), d| (sum + *d as f64, steps + count(*d, step)));
        if steps > 0.0 { sum / steps } else { step }
    };
    let step = refined(refined(near, 4.0), 40.0);
    let fits = |d: u64| d as f64 > 400.0 * step || (d as f64 - step * count(d, step)).abs() <= 1.0;
    all_but_a_few(differences, fits).then(|| if (step - step.round()).abs() < 0.02 { step.round() } else { step })
}

fn all_but_a_few(differences: &[u64], fits: impl Fn(u64) -> bool) -> bool {
    differences.iter().filter(|d| fits(**d)).count() * 1_000 >= differences.len() * PER_MILLE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings at uneven true times, at least `between` ticks apart, as displayed by `shown`.
    fn series(between: u64, shown: impl Fn(usize, u64) -> u64) -> Vec<u64> {
        let (mut seed, mut time) = (7_u64, 1_000_000);
        let reading = |at| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            time += between + (seed >> 33) % 90;
            shown(at, time)
        };
        (0..8_000).map(reading).collect()
    }

    #[test]
    fn step_of_a_100_mhz_counter_is_10_ns_despite_odd_readings() {
        let stepped = |_: usize, time: u64| time / 26 * 26;
        assert_eq!(of_readings(&series(20, stepped)), 26.0);
        // 0.13 % odd readings, as seen on a virtual machine.
        let odd = |at: usize, time: u64| stepped(at, time) + u64::from(at % 769 == 400) * 11;
        let series = series(20, odd);
        let least = series.windows(2).map(|two| two[1].saturating_sub(two[0])).filter(|d| *d > 0).min().unwrap();
        assert!(least < 26, "what the least difference would say: {least}");
        let step = of_readings(&series);
        assert_eq!((step, step / 2.6), (26.0, 10.0));
    }

    #[test]
    fn a_smooth_counter_moves_by_one_tick() {
        assert_eq!(of_readings(&series(18, |_, time| time)), 1.0);
        assert_eq!(of_readings(&series(18, |_, time| time / 2 * 2)), 2.0);
        assert_eq!(of_readings(&series(18, |_, time| time / 3 * 3)), 3.0);
    }

    #[test]
    fn a_coarse_clock_moves_by_its_period() {
        assert_eq!(of_readings(&series(18, |_, time| time / 1_000 * 1_000)), 1_000.0);
        let ticks = (0..100).map(|n| n * 4_000_000).collect::<Vec<u64>>();
        assert_eq!(of_readings(&ticks), 4_000_000.0);
        // Two readings are always at least three steps apart.
        assert_eq!(of_readings(&series(90, |_, time| time / 30 * 30)), 30.0);
    }

    #[test]
    fn a_step_that_is_rounded_to_whole_ns_is_found() {
        let step = of_readings(&series(30, |_, time| ((time as f64 / 10.63).floor() * 10.63) as u64));
        assert!((step - 10.63).abs() < 0.05, "{step}");
    }

    #[test]
    fn a_clock_that_stands_still_has_no_step() {
        assert_eq!((of_readings(&[5; 1_000]), of_readings(&[])), (0.0, 0.0));
    }
}
