//! Another clock mapped to the program's: a NIC's, or CLOCK_REALTIME, from which the kernel's own stamps of packets are taken.
//!
//! ```text
//!   point            point                point                         a reading of both clocks, with its bracket
//!     │──── span ──────│────── span ────────│                             a straight line between: stamps inside are mapped
//!     └─ rate so far ──┴─▶ predicted ── deviation ── read                more than brackets and tolerance: stepped or slewed
//! ```
//! A span is right to within half of the wider bracket as long as the other clock keeps its rate. A daemon that sets or steers it
//! in mid-run breaks that, and shows as a deviation, by which the span may be wrong.

use hairpin_sys::clock::Ticks;
use hairpin_sys::phc::Point;

/// Deviations up to this are no change, whatever the brackets, in ns: the tolerance of two clocks of one host (`clock.rs`).
const TOLERANCE_NS: f64 = 50.0;
/// Two clocks of unknown rates differ by less than this, in parts per 10^9: crystals by 100 ppm, the kernel's slewing adds 500
/// (adjtimex(2)).
const UNKNOWN_PPB: f64 = 1e6;
/// Error of a reading by rounding alone, in ns.
const ROUNDING_NS: f64 = 3.0;
/// Changes that are kept; further ones are counted.
const MOST_CHANGES: usize = 64;

/// The time between two points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    from: Point,
    to: Point,
    /// The program's clock in ticks per ns.
    rate: f64,
    /// Length by the program's clock and by the other one.
    own_ns: f64,
    nic_ns: f64,
}

impl Span {
    /// The span between two points; `rate` is that of the program's clock in ticks per ns. `None` if no time has passed by one of
    /// the clocks, for example because the other one was set back.
    pub fn new(from: Point, to: Point, rate: f64) -> Option<Span> {
        let own_ns = to.ticks.since(from.ticks) as f64 / rate;
        let nic_ns = to.nic_ns.checked_sub(from.nic_ns)? as f64;
        (own_ns > 0.0 && nic_ns > 0.0).then_some(Span { from, to, rate, own_ns, nic_ns })
    }

    /// Length in ns of the program's clock.
    pub fn length_ns(&self) -> f64 {
        self.own_ns
    }

    /// A time of the other clock, in ns of the program's clock since the first point. Outside the span it is negative, or beyond
    /// its length.
    pub fn of_nic(&self, nic_ns: u64) -> i64 {
        // Two times of day are subtracted as integers: as floats they would not be exact.
        let since = nic_ns.wrapping_sub(self.from.nic_ns).cast_signed();
        (since as f64 * (self.own_ns / self.nic_ns)).round() as i64
    }

    /// A tick of the program's clock on the same scale.
    pub fn of_ticks(&self, ticks: Ticks) -> i64 {
        let since = ticks.0.wrapping_sub(self.from.ticks.0).cast_signed();
        (since as f64 / self.rate).round() as i64
    }

    /// The other clock's time at a tick of the program's.
    pub fn nic_at(&self, ticks: Ticks) -> u64 {
        let since = ticks.0.wrapping_sub(self.from.ticks.0).cast_signed();
        self.from.nic_ns.wrapping_add_signed((since as f64 / self.rate * (self.nic_ns / self.own_ns)).round() as i64)
    }

    /// The other clock's rate against the program's, less 1, in parts per 10^9.
    pub fn ppb(&self) -> f64 {
        (self.nic_ns / self.own_ns - 1.0) * 1e9
    }

    /// Largest error of a mapped time inside the span, in ns, if the other clock kept its rate.
    pub fn error_ns(&self) -> f64 {
        self.from.width_ns.max(self.to.width_ns) as f64 / 2.0
    }
}

/// A span, and how the other clock has kept to its rate in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    pub span: Span,
    /// The other clock's time at the end, less the one predicted from its rate before, in ns; 0 while no rate is known.
    pub deviation_ns: f64,
    /// False if the other clock was stepped or slewed in this leg (a deviation beyond brackets and tolerance), or in the leg
    /// before and its new rate is not known yet.
    pub steady: bool,
}

impl Leg {
    /// Largest error of a time mapped within the leg, in ns. A clock that has changed its rate once in the leg is at no time
    /// further from the straight line than from the line predicted.
    pub fn error_ns(&self) -> f64 {
        self.span.error_ns() + self.deviation_ns.abs()
    }
}

/// A change of the other clock in mid-run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The end of the span in which it happened.
    pub by: Ticks,
    /// The deviation from the time predicted, in ns.
    pub moved_ns: f64,
    /// Its kind, which the span after it shows.
    pub kind: Kind,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// No span has followed.
    Unknown,
    /// Set forward or back: it then ran at its old rate.
    Step,
    /// It then ran at another rate, in parts per 10^9 against the program's clock.
    Slew { ppb: f64 },
}

/// The other clock's rate against the program's, less 1, and its error by the brackets at both ends, in parts per 10^9.
#[derive(Clone, Copy, Debug)]
struct Rate {
    ppb: f64,
    error_ppb: f64,
}

/// Error of the time between two points, in ns: half of both brackets.
fn half(from: Point, to: Point) -> f64 {
    (from.width_ns as f64 + to.width_ns as f64) / 2.0
}

/// Follows the other clock over a run.
#[derive(Clone, Debug)]
pub struct Course {
    /// The program's clock in ticks per ns.
    rate: f64,
    last: Option<Point>,
    /// Since this point the other clock has kept its rate.
    since: Option<Point>,
    known: Option<Rate>,
    /// The last point ended a leg with a change, which the next leg names.
    unnamed: bool,
    changes: Vec<Change>,
    changed: u64,
    /// Time of the steady legs by either clock, in ns.
    steady_own_ns: f64,
    steady_nic_ns: f64,
}

impl Course {
    /// `rate` is that of the program's clock in ticks per ns.
    pub fn new(rate: f64) -> Course {
        Course {
            rate,
            last: None,
            since: None,
            known: None,
            unnamed: false,
            changes: Vec::new(),
            changed: 0,
            steady_own_ns: 0.0,
            steady_nic_ns: 0.0,
        }
    }

    /// The next point; returns the leg that ends there. `None` for the first point, and if no time has passed by one of the
    /// clocks, for example because the other one was set back.
    pub fn add(&mut self, point: Point) -> Option<Leg> {
        let Some(from) = self.last.replace(point) else {
            self.since = Some(point);
            return None;
        };
        let own_ns = point.ticks.since(from.ticks) as f64 / self.rate;
        let span = Span::new(from, point, self.rate);
        let unverified = self.unnamed && !span.is_some_and(|span| self.name_last_change(&span));
        let (expected_ppb, uncertain_ppb) = match self.known {
            Some(Rate { ppb, error_ppb }) => (ppb, error_ppb),
            // No known rate to compare with, so only the limits of real clocks count.
            None => (0.0, UNKNOWN_PPB),
        };
        let moved = point.nic_ns.wrapping_sub(from.nic_ns).cast_signed() as f64;
        let deviation = moved - own_ns * (1.0 + expected_ppb / 1e9);
        let within = TOLERANCE_NS + half(from, point) + own_ns * uncertain_ppb / 1e9;
        if deviation.abs() > within {
            self.change(point, deviation);
            return span.map(|span| Leg { span, deviation_ns: deviation, steady: false });
        }
        let span = span?;
        if unverified {
            self.learn(point);
            return Some(Leg { span, deviation_ns: 0.0, steady: false });
        }
        // While no rate is known, a difference of rates is no deviation.
        let deviation_ns = if self.known.is_some() { deviation } else { 0.0 };
        self.steady_own_ns += span.own_ns;
        self.steady_nic_ns += span.nic_ns;
        self.learn(point);
        Some(Leg { span, deviation_ns, steady: true })
    }

    /// The rate since the last change.
    fn learn(&mut self, point: Point) {
        let since = self.since.unwrap_or(point);
        if let Some(whole) = Span::new(since, point, self.rate) {
            let error_ppb = (half(since, point) + ROUNDING_NS) / whole.own_ns * 1e9;
            // A rate found over a longer time stays while the time since a step is short.
            if self.known.is_none_or(|known| error_ppb <= known.error_ppb) {
                self.known = Some(Rate { ppb: whole.ppb(), error_ppb });
            }
        }
    }

    fn change(&mut self, point: Point, moved_ns: f64) {
        self.changed += 1;
        if self.changes.len() < MOST_CHANGES {
            self.changes.push(Change { by: point.ticks, moved_ns, kind: Kind::Unknown });
        }
        (self.since, self.unnamed) = (Some(point), true);
    }

    /// The leg after a change shows its kind: after a step the old rate holds, after a slew a new rate is learnt from here. True
    /// for a step.
    fn name_last_change(&mut self, span: &Span) -> bool {
        self.unnamed = false;
        let within_ppb = (TOLERANCE_NS + half(span.from, span.to)) / span.own_ns * 1e9;
        let keeps = |known: Rate| (span.ppb() - known.ppb).abs() <= within_ppb + known.error_ppb;
        let is_step = self.known.is_none_or(keeps);
        if let Some(change) = self.changes.last_mut().filter(|change| change.by == span.from.ticks) {
            change.kind = if is_step { Kind::Step } else { Kind::Slew { ppb: span.ppb() } };
        }
        if !is_step {
            self.known = None;
        }
        is_step
    }

    /// The other clock's rate against the program's over all steady legs, less 1, in parts per 10^9.
    pub fn drift_ppb(&self) -> Option<f64> {
        (self.steady_own_ns > 0.0).then(|| (self.steady_nic_ns / self.steady_own_ns - 1.0) * 1e9)
    }

    /// The first changes in mid-run, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The number of all changes.
    pub fn changed(&self) -> u64 {
        self.changed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ticks per ns of the program's clock.
    const RATE: f64 = 2.5;
    const EPOCH: u64 = 1_700_000_000_123_456_789;
    const MS: u64 = 1_000_000;

    /// A NIC's true clock: pieces of constant rate, and jumps.
    struct Nic {
        /// From this ns of the program's clock on: the time then, and the rate in parts per 10^9.
        pieces: Vec<(u64, u64, i64)>,
    }

    impl Nic {
        fn new(ppb: i64) -> Nic {
            Nic { pieces: vec![(0, EPOCH, ppb)] }
        }

        fn at(&self, ns: u64) -> u64 {
            let (from, then, ppb) = self.pieces.iter().rfind(|(from, ..)| *from <= ns).expect("it begins at 0");
            let since = i128::from(ns - from);
            (i128::from(*then) + since + since * i128::from(*ppb) / 1_000_000_000) as u64
        }

        fn step(&mut self, ns: u64, by: i64) {
            let (then, ppb) = (self.at(ns).wrapping_add_signed(by), self.pieces.last().expect("one").2);
            self.pieces.push((ns, then, ppb));
        }

        fn slew(&mut self, ns: u64, ppb: i64) {
            self.pieces.push((ns, self.at(ns), ppb));
        }

        /// Read `off` ns away from the middle of a bracket.
        fn point(&self, ns: u64, width_ns: u64, off: i64) -> Point {
            Point { ticks: ticks(ns), nic_ns: self.at(ns.wrapping_add_signed(off)), width_ns }
        }
    }

    fn ticks(ns: u64) -> Ticks {
        Ticks(7_000_000 + (ns as f64 * RATE).round() as u64)
    }

    /// Points every 100 ms, from 1 ms on.
    fn follow(nic: &Nic, points: u64) -> (Course, Vec<Leg>) {
        let mut course = Course::new(RATE);
        let legs =
            (0..points).filter_map(|n| course.add(nic.point(n * 100 * MS + MS, 1_000, (n as i64 % 5 - 2) * 250))).collect();
        (course, legs)
    }

    proptest! {
        #[test]
        fn a_stamp_inside_is_mapped_to_within_the_error(
            ppb in -500_000_i64..500_000,
            length in 1_000_u64..10_000_000_000,
            part in 0.0..1.0,
            widths in prop::array::uniform2(0_u64..20_000),
            off in prop::array::uniform2(-1.0..1.0),
        ) {
            let nic = Nic::new(ppb);
            let off = |at: usize| (off[at] * widths[at] as f64 / 2.0) as i64;
            let begin = 1_000_000;
            let (from, to) = (nic.point(begin, widths[0], off(0)), nic.point(begin + length, widths[1], off(1)));
            if let Some(span) = Span::new(from, to, RATE) {
                let at = begin + (length as f64 * part) as u64;
                let (want, found) = ((at - begin) as i64, span.of_nic(nic.at(at)));
                // Rounding of ticks, of the mapped time, and of the clock that is mapped.
                let within = span.error_ns() * (1.0 + 1e-3) + 3.0;
                prop_assert!((want - found).abs() as f64 <= within, "{want} {found} {within}");
                prop_assert!((span.of_ticks(ticks(at)) - want).abs() <= 1);
                prop_assert!((span.nic_at(ticks(at)).wrapping_sub(nic.at(at)).cast_signed().abs() as f64) <= within);
            }
        }

        #[test]
        fn no_bracket_however_read_makes_a_change(
            ppb in -90_000_i64..90_000,
            reads in prop::collection::vec((100_u64..400_000_000, 0_u64..5_000, -1.0..1.0), 2..60),
        ) {
            let nic = Nic::new(ppb);
            let (mut course, mut at) = (Course::new(RATE), 1_000_000);
            for (after, width, off) in reads {
                at += after;
                let leg = course.add(nic.point(at, width, (off * width as f64 / 2.0) as i64));
                prop_assert!(leg.is_none_or(|leg| leg.steady) && course.changed() == 0, "{leg:?}");
            }
        }

        #[test]
        fn whatever_is_read_nothing_breaks(
            reads in prop::collection::vec((any::<u64>(), any::<u64>(), 0_u64..u64::MAX / 4), 1..20),
            stamp in any::<u64>(),
        ) {
            let mut course = Course::new(RATE);
            for (ticks, nic_ns, width_ns) in reads {
                if let Some(leg) = course.add(Point { ticks: Ticks(ticks), nic_ns, width_ns }) {
                    let _ = (leg.span.of_nic(stamp), leg.span.of_ticks(Ticks(stamp)), leg.span.nic_at(Ticks(stamp)));
                    prop_assert!(leg.error_ns() >= 0.0);
                }
            }
            prop_assert!(course.changes().len() as u64 <= course.changed());
        }
    }

    #[test]
    fn a_steady_clock_has_its_drift_and_no_change() {
        let (course, legs) = follow(&Nic::new(-23_456), 50);
        assert!(legs.iter().all(|leg| leg.steady) && course.changes().is_empty());
        let drift = course.drift_ppb().expect("legs");
        assert!((drift + 23_456.0).abs() < 1_100.0 / 4.9, "{drift}: to within the brackets over 4.9 s");
        assert_eq!(legs[0].deviation_ns, 0.0, "a rate alone is no deviation");
        assert!(legs[0].error_ns() >= 500.0);
    }

    #[test]
    fn a_step_is_noticed_and_told_from_a_slew() {
        for by in [3_000, -3_000, 1_000_000_000, -1_000_000_000_000] {
            let mut nic = Nic::new(12_000);
            nic.step(2_050 * MS, by);
            let (course, legs) = follow(&nic, 50);
            let [change] = course.changes() else { panic!("{by}: {:?}", course.changes()) };
            assert_eq!((change.kind, change.by), (Kind::Step, ticks(2_101 * MS)), "{by}");
            assert!((change.moved_ns - by as f64).abs() < 1_600.0, "{by}: {}", change.moved_ns);
            assert!(legs.iter().filter(|leg| !leg.steady).count() <= 1);
            let drift = course.drift_ppb().expect("legs");
            assert!((drift - 12_000.0).abs() < 1_000.0, "{by}: a step is no drift: {drift}");
        }
    }

    #[test]
    fn a_slew_is_noticed_once_and_the_new_rate_is_followed() {
        let mut nic = Nic::new(5_000);
        nic.slew(2_020 * MS, 80_000);
        let (course, legs) = follow(&nic, 50);
        let [change] = course.changes() else { panic!("{:?}", course.changes()) };
        let Kind::Slew { ppb } = change.kind else { panic!("{change:?}") };
        assert!((ppb - 80_000.0).abs() < 12_000.0, "{ppb}");
        let unsteady: Vec<usize> = (0..legs.len()).filter(|at| !legs[*at].steady).collect();
        assert_eq!(unsteady, [20, 21], "its leg, and the one from which the new rate is found");
        // 81 of the 100 ms at 75 ppm more.
        assert!((change.moved_ns - 6_075.0).abs() < 1_600.0, "{}", change.moved_ns);
    }

    #[test]
    fn a_change_within_a_leg_is_in_its_error() {
        let mut nic = Nic::new(5_000);
        nic.slew(2_050 * MS, 80_000);
        let (_, legs) = follow(&nic, 30);
        let leg = &legs[20];
        let middle = 2_050 * MS;
        let off = leg.span.of_nic(nic.at(middle)) - (49 * MS) as i64;
        assert!(off.abs() > 1_000, "a straight line is wrong there: {off}");
        assert!(off.abs() as f64 <= leg.error_ns(), "{off} {}", leg.error_ns());
    }

    #[test]
    fn a_span_takes_time_by_both_clocks() {
        let at = |ticks, nic_ns| Point { ticks: Ticks(ticks), nic_ns, width_ns: 10 };
        assert_eq!(Span::new(at(0, 5), at(0, 9), RATE), None);
        assert_eq!(Span::new(at(0, 9), at(100, 5), RATE), None);
        assert!(Span::new(at(0, 5), at(100, 45), RATE).is_some_and(|span| span.ppb() == 0.0 && span.error_ns() == 5.0));
    }
}
