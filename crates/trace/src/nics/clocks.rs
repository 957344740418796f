//! The clocks that take the stamps of one side, related to the program's over a block.

use hairpin_sys::clock::{Relation, Ticks};
use hairpin_sys::phc::Point;

/// If a clock's rate differs by more than this share from the program's, the clock was set meanwhile.
const RATE_WITHIN: f64 = 0.01;

/// The relations of one side's clocks over one block.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Ticks of the program's clock per ns.
    rate: f64,
    /// The NIC's clock, and CLOCK_REALTIME.
    between: [Option<Between>; 2],
}

/// A clock at two ticks of the program's.
#[derive(Clone, Copy, Debug)]
struct Between {
    from: Point,
    /// Program's ns per ns of that clock.
    slope: f64,
}

impl Clocks {
    /// For a program's clock of `rate` ticks per ns; `hardware` has two points of the NIC's clock, `software` two readings of the
    /// kernel's, before and after the block.
    pub fn new(rate: f64, hardware: Option<[Point; 2]>, software: [&Relation; 2]) -> Clocks {
        let between = [hardware, Some(software.map(|relation| realtime(relation, rate)))];
        Clocks { rate, between: between.map(|points| Between::new(points?, rate)) }
    }

    /// True if stamps by CLOCK_REALTIME can be placed.
    pub fn has_software(&self) -> bool {
        self.between[1].is_some()
    }

    /// Time between two ticks in ns.
    pub(super) fn ns_between(&self, from: Ticks, to: Ticks) -> u64 {
        (to.since(from) as f64 / self.rate).round() as u64
    }

    /// From the tick to the stamp of layer number `layer`, in ns.
    pub(super) fn before(&self, layer: usize, tick: Ticks, stamp: u64) -> Option<i64> {
        self.after(layer, stamp, tick).map(|ns| -ns)
    }

    /// From the stamp to the tick.
    pub(super) fn after(&self, layer: usize, stamp: u64, tick: Ticks) -> Option<i64> {
        let between = self.between[layer]?;
        let of_tick = (tick.0 as i64).wrapping_sub(between.from.ticks.0 as i64) as f64 / self.rate;
        let of_stamp = stamp.wrapping_sub(between.from.nic_ns) as i64 as f64 * between.slope;
        Some((of_tick - of_stamp).round() as i64)
    }
}

impl Between {
    /// `None` if the clock did not run at a plausible rate.
    fn new([from, to]: [Point; 2], rate: f64) -> Option<Between> {
        let program = to.ticks.since(from.ticks) as f64 / rate;
        let slope = program / to.nic_ns.wrapping_sub(from.nic_ns) as i64 as f64;
        ((slope - 1.0).abs() <= RATE_WITHIN).then_some(Between { from, slope })
    }
}

/// CLOCK_REALTIME at the tick of a reading.
fn realtime(relation: &Relation, rate: f64) -> Point {
    Point {
        ticks: relation.ticks,
        nic_ns: relation.raw_ns.saturating_add_signed(relation.realtime_less_raw_ns),
        width_ns: (relation.width as f64 / rate).ceil() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(ticks: u64, raw_ns: u64, realtime_less_raw_ns: i64) -> Relation {
        Relation { ticks: Ticks(ticks), raw_ns, monotonic_less_raw_ns: 0, realtime_less_raw_ns, width: 30, step_ns: 0.5 }
    }

    #[test]
    fn a_stamp_is_placed_among_ticks() {
        // Two ticks per ns; CLOCK_REALTIME runs 100 ppm fast.
        let [from, to] = [relation(2_000, 500, 1_000_000_000), relation(2_002_000, 1_000_500, 1_000_000_100)];
        let clocks = Clocks::new(2.0, None, [&from, &to]);
        assert!(clocks.has_software());
        assert_eq!(clocks.ns_between(Ticks(10), Ticks(31)), 11);
        // At half of the block: 500,000 ns of the program, 500,050 of the other clock.
        let stamp = 1_000_000_500 + 500_050;
        assert_eq!(clocks.after(1, stamp, Ticks(2_000 + 2 * 500_700)), Some(700));
        assert_eq!(clocks.before(1, Ticks(2_000 + 2 * 499_000), stamp), Some(1_000));
        assert_eq!(clocks.after(0, stamp, Ticks(0)), None, "no NIC's clock");
        let nic = [
            Point { ticks: Ticks(0), nic_ns: 7, width_ns: 5 },
            Point { ticks: Ticks(2_000_000), nic_ns: 1_000_007, width_ns: 5 },
        ];
        assert_eq!(Clocks::new(2.0, Some(nic), [&from, &to]).after(0, 1_007, Ticks(2_100)), Some(50));
    }

    #[test]
    fn a_clock_that_was_set_places_nothing() {
        let from = relation(0, 0, 1_000_000_000);
        for less in [1_100_000_000, 900_000_000, -5_000_000_000] {
            let to = relation(2_000_000, 1_000_000, less);
            assert!(!Clocks::new(2.0, None, [&from, &to]).has_software(), "{less}");
        }
        assert!(!Clocks::new(2.0, None, [&from, &from]).has_software(), "no time between the readings");
    }
}
