//! Base time, time per byte and the step where a new mechanism starts, from measured times over sizes.
//!
//! ```text
//!   ns │                         ╱   line above: another slope, another base
//!      │                       ╱
//!      │              ┌──────╱      jump: from one line to the other at the first size above
//!      │       ______─┘
//!      │ ____──                     line below: base + ns per byte × bytes
//!      └──────────────┬────────────── bytes
//!                     step: between the last size below and the first above
//! ```
//! The spread of a round trip grows with its length, so each point weighs 1/ns² (the lines fit relative errors). Two lines
//! replace one only if an F test at a level of 1 %, divided by the number of places tried, supports it.
//!
//! A time is known to one step of the clock at best, however well the points fit a line, so every interval reaches at least one
//! step to either side.

use hairpin_units::Arrange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use thiserror::Error;

use crate::core_states::CoreStates;
use crate::head::{Body, Label};
use crate::run::Row;
use crate::statistics::t_quantile;

/// Share of intervals that include the true value.
const CONFIDENCE: f64 = 0.95;
/// Probability of taking one line for two.
const FALSE_STEPS: f64 = 0.01;
/// Sizes that each line needs if there are two.
const SIDE: usize = 2;
/// Error of a point that repetition does not reduce, as a share of it: a histogram has three digits.
const DIGITS: f64 = 3e-4;
/// Standard deviation of a value that lies anywhere within a step, in steps: 1/√12.
const WITHIN_STEP: f64 = 0.29;

/// A figure with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The most likely value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A straight line through the sizes from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The smallest size it was fitted to.
    pub from_bytes: f64,
    /// The largest.
    pub to_bytes: f64,
    /// Intercept: the time for zero bytes, in ns.
    pub base_ns: Estimate,
    /// Slope: the time for each further byte, in ns.
    pub ns_per_byte: Estimate,
}

/// The size at which a new mechanism starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The old mechanism still serves this size.
    pub after_bytes: f64,
    /// The new mechanism serves this size.
    pub by_bytes: f64,
    /// From the line below to the line above, at the first size above the most likely place.
    pub jump_ns: Estimate,
}

/// Times over sizes as one straight line, or as two lines with a step between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// The only line, or the one below the step.
    pub line: Line,
    /// The step, if one line is not enough.
    pub step: Option<Step>,
    /// The line above the step; `null` without a step.
    pub above: Option<Line>,
    /// Typical distance of a point from its line, as a share of the time.
    pub residual: f64,
}

/// Fits of measured runs over sizes, one for each path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitReport {
    /// Schema and tool.
    #[serde(flatten)]
    pub label: Label,
    /// The run's id, or the file as it was named.
    pub run: String,
    /// The declared rate that ns per byte is compared with; `null` if none was declared.
    pub rate_bit_per_s: Option<u64>,
    /// One for each path.
    pub paths: Vec<PathFit>,
}

impl Body for FitReport {
    const SCHEMA: &'static str = "hairpin.floor-fit/1";
}

/// The fit of one path's rows, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathFit {
    /// The path spec.
    pub path: String,
    /// Fit of RTT p50 over the mean of request and reply size; `null` if there is none.
    pub fit: Option<Fit>,
    /// The reason for the missing fit; `null` if there is a fit.
    pub why: Option<String>,
    /// Fitted points: bytes and ns, in the order of bytes.
    pub points: Vec<[f64; 2]>,
    /// Rows left out because their cores were in another state than those of most rows.
    #[serde(default)]
    pub apart: usize,
}

/// The reason for a missing fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoFit {
    /// A line with an interval needs more sizes.
    #[error("{0} sizes are too few for a line with an interval: measure at least 3 (--sizes 64..1024x2)")]
    TooFew(usize),
    /// There are too few rows of one core state.
    #[error(
        "{apart} of {rows} rows were measured with the cores in another state, and the others are too few for a line: measure again where the cores stay put"
    )]
    States {
        /// Rows of another state.
        apart: usize,
        /// All rows.
        rows: usize,
    },
    /// A time was not positive and finite, or a size was negative or not finite.
    #[error("a time that is not above zero has no place on a line")]
    NoTime,
}

/// A weighted least-squares line about its centre.
#[derive(Clone, Copy)]
struct Fitted {
    weight: f64,
    centre: (f64, f64),
    spread: f64,
    slope: f64,
    rss: f64,
}

impl Fitted {
    fn of(points: &[(f64, f64)]) -> Fitted {
        let weighed = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| f(*x, *y) / (y * y)).sum::<f64>();
        let weight = weighed(&|_, _| 1.0);
        let centre = (weighed(&|x, _| x) / weight, weighed(&|_, y| y) / weight);
        let spread = weighed(&|x, _| (x - centre.0).powi(2));
        let slope = weighed(&|x, y| (x - centre.0) * (y - centre.1)) / spread;
        let rss = weighed(&|x, y| (y - centre.1 - slope * (x - centre.0)).powi(2));
        Fitted { weight, centre, spread, slope, rss }
    }

    fn at(&self, x: f64) -> f64 {
        self.centre.1 + self.slope * (x - self.centre.0)
    }

    /// Variance of [`Fitted::at`] for errors of variance 1.
    fn variance_at(&self, x: f64) -> f64 {
        1.0 / self.weight + (x - self.centre.0).powi(2) / self.spread
    }

    fn line(&self, points: &[(f64, f64)], error: Error) -> Line {
        Line {
            from_bytes: points[0].0,
            to_bytes: points[points.len() - 1].0,
            base_ns: error.round(self.at(0.0), self.variance_at(0.0), 1.0),
            // The steepest error: one end of the line moves up by a step, the other down or not at all.
            ns_per_byte: error.round(self.slope, 1.0 / self.spread, 1.0 / (points[points.len() - 1].0 - points[0].0)),
        }
    }
}

/// The spread of the points, and how well it is known.
#[derive(Clone, Copy)]
struct Error {
    variance: f64,
    freedom: f64,
    step_ns: f64,
}

impl Error {
    /// An estimate with its interval, which reaches at least `steps` steps of the clock to either side.
    fn round(self, value: f64, variance: f64, steps: f64) -> Estimate {
        let half = (variance * self.variance).sqrt() * t_quantile(0.5 + CONFIDENCE / 2.0, self.freedom);
        let half = half.max(steps * self.step_ns);
        Estimate { value, low: value - half, high: value + half }
    }
}

/// Fits a line, or two lines with a step between them, to times in ns over sizes in bytes. `points` are (bytes, ns) pairs in any
/// order, with one or several times per size; `step_ns` is the step of the clock that took the times, at least 1.
///
/// ```
/// use hairpin_record::fit::fit;
///
/// // 2 us and 0.5 ns per byte, with errors of up to 5 ns.
/// let points = [(64.0, 2_034.0), (256.0, 2_125.0), (512.0, 2_259.0), (1024.0, 2_510.0), (4096.0, 4_052.0)];
/// let found = fit(&points, 1.0)?;
/// let slope = found.line.ns_per_byte;
/// assert!(slope.low < 0.5 && 0.5 < slope.high, "{slope:?}");
/// assert!(found.step.is_none());
/// # Ok::<(), hairpin_record::fit::NoFit>(())
/// ```
///
/// # Errors
/// Fewer than three sizes, or a time that is not positive.
pub fn fit(points: &[(f64, f64)], step_ns: f64) -> Result<Fit, NoFit> {
    // Times are kept in whole ns.
    let step_ns = if step_ns.is_finite() { step_ns.max(1.0) } else { 1.0 };
    if !points.iter().all(|(x, y)| x.is_finite() && *x >= 0.0 && y.is_finite() && *y > 0.0) {
        return Err(NoFit::NoTime);
    }
    let mut points = points.to_vec();
    points.arrange_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    // The candidate places for a step: the index of the first point above each gap between two sizes.
    let places: Vec<usize> = (1..points.len()).filter(|i| points[i - 1].0 < points[*i].0).collect();
    if places.len() < 2 {
        return Err(NoFit::TooFew(places.len() + usize::from(!points.is_empty())));
    }
    let n = points.len() as f64;
    let least = points.iter().map(|(_, y)| DIGITS.powi(2) + (WITHIN_STEP * step_ns / y).powi(2)).sum::<f64>();
    let one = Fitted::of(&points);
    let tried: Vec<(usize, Fitted, Fitted)> = places
        .iter()
        .enumerate()
        .filter(|(below, _)| below + 1 >= SIDE && places.len() - below >= SIDE)
        .map(|(_, i)| (*i, Fitted::of(&points[..*i]), Fitted::of(&points[*i..])))
        .collect();
    let rss = |(_, below, above): &(usize, Fitted, Fitted)| (below.rss + above.rss).max(least);
    let best = tried.iter().min_by(|a, b| rss(a).total_cmp(&rss(b)));
    // Two lines have two more parameters than one, which leaves n - 4 degrees of freedom.
    let freedom = n - 4.0;
    let better = best.filter(|best| {
        let f = (one.rss.max(least) - rss(best)) / 2.0 / (rss(best) / freedom);
        freedom >= 2.0 && f > f_quantile(1.0 - FALSE_STEPS / tried.len() as f64, 2.0, freedom)
    });
    let Some(best) = better else {
        let error = Error { variance: one.rss.max(least) / (n - 2.0), freedom: n - 2.0, step_ns };
        return Ok(Fit { line: one.line(&points, error), step: None, above: None, residual: error.variance.sqrt() });
    };
    let error = Error { variance: rss(best) / freedom, freedom, step_ns };
    let (i, below, above) = best;
    // The step may be at any place that fits nearly as well.
    let bound = rss(best) * (1.0 + f_quantile(CONFIDENCE, 1.0, freedom) / freedom);
    let possible = || tried.iter().filter(|place| rss(place) <= bound).map(|place| place.0);
    let (first, last) = (possible().min().unwrap_or(*i), possible().max().unwrap_or(*i));
    let x = points[*i].0;
    let jump = error.round(above.at(x) - below.at(x), above.variance_at(x) + below.variance_at(x), 1.0);
    Ok(Fit {
        line: below.line(&points[..*i], error),
        step: Some(Step { after_bytes: points[first - 1].0, by_bytes: points[last].0, jump_ns: jump }),
        above: Some(above.line(&points[*i..], error)),
        residual: error.variance.sqrt(),
    })
}

/// Points and fit of the rows of one path.
#[derive(Clone, Debug, PartialEq)]
pub struct OfRows {
    /// Fitted points: bytes and ns, in the order of bytes.
    pub points: Vec<(f64, f64)>,
    /// The fit, or the reason for its absence.
    pub fit: Result<Fit, NoFit>,
    /// Rows left out because their cores were in another state than those of most rows.
    pub apart: usize,
}

/// Points and fit of rows of one path: RTT p50 over the mean of request and reply size. Three kinds of rows are left out: paced
/// rows, which idle between requests and so measure something else than unpaced ones; rows without a p50; and rows whose cores
/// were in another state than those of most rows. `step_ns` is the step of the run's clock.
pub fn of_rows<'r>(rows: impl Iterator<Item = &'r Row>, step_ns: f64) -> OfRows {
    let bytes = |row: &Row| (row.request_bytes as f64 + row.reply_bytes as f64) / 2.0;
    let flat_out = rows.filter(|row| row.pace_per_s.is_none());
    let rows: Vec<(&Row, u64)> = flat_out.filter_map(|row| Some((row, row.rtt_ns.p50?))).collect();
    let states = CoreStates::of(rows.iter().map(|(row, _)| ((), *row)));
    let of_one = rows.iter().enumerate().filter(|(at, _)| states.apart(*at).is_none()).map(|(_, row)| row);
    let mut points: Vec<(f64, f64)> = of_one.map(|(row, p50)| (bytes(row), *p50 as f64)).collect();
    points.arrange_by(|a, b| a.0.total_cmp(&b.0));
    let apart = rows.len() - points.len();
    let fit = match fit(&points, step_ns) {
        Err(NoFit::TooFew(_)) if apart > 0 => Err(NoFit::States { apart, rows: rows.len() }),
        fitted => fitted,
    };
    OfRows { points, fit, apart }
}

/// The F distribution's quantile `q`; infinite where the distribution is not defined, so that no test passes.
fn f_quantile(q: f64, above: f64, below: f64) -> f64 {
    FisherSnedecor::new(above, below).map_or(f64::INFINITY, |f| f.inverse_cdf(q))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 12] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];

    /// Nearly normal, the same each time.
    struct Noise(u32);

    impl Noise {
        fn next(&mut self) -> f64 {
            (0..12)
                .map(|_| {
                    self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    f64::from(self.0) / f64::from(u32::MAX)
                })
                .sum::<f64>()
                - 6.0
        }
    }

    fn holds(estimate: Estimate, truth: f64) -> bool {
        (estimate.low..=estimate.high).contains(&truth)
    }

    fn near(got: f64, want: f64, by: f64) {
        assert!((got - want).abs() <= by, "{got} is not within {by} of {want}");
    }

    #[test]
    fn quantiles_of_f_are_those_of_the_published_table() {
        // Fisher and Yates, Statistical Tables, table V: 5 % and 1 % points.
        near(f_quantile(0.95, 1.0, 8.0), 5.32, 0.005);
        near(f_quantile(0.95, 2.0, 8.0), 4.46, 0.005);
        near(f_quantile(0.99, 2.0, 8.0), 8.65, 0.005);
    }

    #[test]
    fn a_line_is_found_without_a_step() {
        let exact = fit(&SIZES.map(|x| (x, 5000.0 + 0.8 * x)), 1.0).unwrap();
        assert!(exact.step.is_none() && exact.above.is_none());
        near(exact.line.base_ns.value, 5000.0, 1e-6);
        near(exact.line.ns_per_byte.value, 0.8, 1e-9);
        assert_eq!((exact.line.from_bytes, exact.line.to_bytes), (1.0, 2048.0));
    }

    #[test]
    fn a_jump_and_both_lines_are_found() {
        let exact = fit(&SIZES.map(|x| (x, if x <= 60.0 { 3978.0 + 1.6 * x } else { 6118.0 + 1.6 * x })), 1.0).unwrap();
        let step = exact.step.unwrap();
        assert_eq!((step.after_bytes, step.by_bytes), (32.0, 64.0));
        near(step.jump_ns.value, 2140.0, 1e-6);
        near(exact.line.base_ns.value, 3978.0, 1e-6);
        near(exact.above.unwrap().base_ns.value, 6118.0, 1e-6);
        near(exact.above.unwrap().ns_per_byte.value, 1.6, 1e-9);
    }

    #[test]
    fn a_slope_that_changes_is_a_step_without_a_jump() {
        let times = |x: f64| 5000.0 + if x > 128.0 { 2.0 * (x - 128.0) } else { 0.0 };
        let kink =
            fit(&[SIZES.map(|x| (x, times(x))).to_vec(), vec![(1536.0, times(1536.0)), (192.0, times(192.0))]].concat(), 1.0)
                .unwrap();
        let step = kink.step.unwrap();
        // 128 lies on both lines.
        assert!(step.after_bytes <= 128.0 && step.by_bytes >= 128.0, "{step:?}");
        assert!(holds(step.jump_ns, 0.0) || step.jump_ns.value.abs() < 130.0, "{step:?}");
        near(kink.above.unwrap().ns_per_byte.value, 2.0, 1e-9);
        near(kink.line.ns_per_byte.value, 0.0, 1e-9);
    }

    #[test]
    fn intervals_hold_the_truth_and_noise_is_no_step() {
        let mut noise = Noise(1);
        let tries = 400;
        let (mut base, mut slope, mut steps) = (0, 0, 0);
        for _ in 0..tries {
            let found = fit(
                &SIZES.map(|x| {
                    let time = 5000.0 + 0.8 * x;
                    (x, time * (1.0 + 0.01 * noise.next()))
                }),
                1.0,
            )
            .unwrap();
            steps += u32::from(found.step.is_some());
            base += u32::from(holds(found.line.base_ns, 5000.0));
            slope += u32::from(holds(found.line.ns_per_byte, 0.8));
        }
        near(f64::from(base) / f64::from(tries), 0.95, 0.03);
        near(f64::from(slope) / f64::from(tries), 0.95, 0.03);
        assert!(f64::from(steps) / f64::from(tries) <= 0.02, "{steps} of {tries} lines were taken for two");
    }

    #[test]
    fn a_step_in_noise_is_found_with_its_interval() {
        let mut noise = Noise(2);
        let tries = 200;
        let (mut found, mut placed, mut jump, mut below) = (0, 0, 0, 0);
        for _ in 0..tries {
            let times = SIZES.map(|x| {
                let time = if x <= 60.0 { 4000.0 + 1.6 * x } else { 5500.0 + 1.6 * x };
                (x, time * (1.0 + 0.01 * noise.next()))
            });
            let fitted = fit(&times, 1.0).unwrap();
            let Some(step) = fitted.step else { continue };
            found += 1;
            placed += u32::from(step.after_bytes <= 32.0 && step.by_bytes >= 64.0);
            jump += u32::from(holds(step.jump_ns, 1500.0));
            below += u32::from(holds(fitted.line.base_ns, 4000.0));
        }
        assert_eq!(found, tries);
        for share in [placed, jump, below] {
            assert!(f64::from(share) / f64::from(tries) >= 0.9, "{placed} {jump} {below} of {tries}");
        }
    }

    /// Points on a line, read with a clock of 10 ns steps: the line may be off by a step, and the intervals include that.
    #[test]
    fn no_interval_is_narrower_than_a_step_of_the_clock() {
        let half = |estimate: Estimate| (estimate.high - estimate.low) / 2.0;
        let points = SIZES.map(|x| (x, 5000.0 + 10.0 * x));
        let (fine, coarse) = (fit(&points, 1.0).unwrap(), fit(&points, 10.0).unwrap());
        assert!(half(fine.line.base_ns) < 10.0 && half(coarse.line.base_ns) >= 10.0, "{fine:?} {coarse:?}");
        assert!(half(coarse.line.ns_per_byte) >= 10.0 / 2047.0);
        let jump = fit(&SIZES.map(|x| (x, if x <= 60.0 { 4000.0 } else { 6000.0 })), 10.0).unwrap().step.unwrap().jump_ns;
        assert!(half(jump) >= 10.0, "{jump:?}");
        for unknown in [0.0, f64::NAN, -1.0] {
            assert_eq!(fit(&points, unknown), fit(&points, 1.0), "times are kept in whole ns");
        }
    }

    #[test]
    fn missing_fit_has_a_reason() {
        assert_eq!(fit(&[], 1.0), Err(NoFit::TooFew(0)));
        assert_eq!(fit(&[(1.0, 5.0), (1.0, 6.0), (2.0, 7.0)], 1.0), Err(NoFit::TooFew(2)));
        assert_eq!(fit(&[(1.0, 0.0), (2.0, 6.0), (3.0, 7.0)], 1.0), Err(NoFit::NoTime));
        assert_eq!(fit(&[(1.0, f64::NAN), (2.0, 6.0), (3.0, 7.0)], 1.0), Err(NoFit::NoTime));
        assert!(NoFit::TooFew(2).to_string().contains("at least 3"));
        assert!(fit(&[(1.0, 5.0), (2.0, 6.0), (3.0, 7.0)], 1.0).unwrap().step.is_none());
    }

    #[test]
    fn rows_of_two_core_states_are_on_no_line_together() {
        let row = |bytes: u64, p50: u64, core: u64| Row {
            request_bytes: bytes,
            reply_bytes: bytes,
            rtt_ns: crate::run::Quantiles { p50: Some(p50), ..Default::default() },
            blocks: vec![crate::run::Block { core_rtt_ns: Some(core), ..Default::default() }; 20],
            ..Row::default()
        };
        let near = [64, 256, 1024].map(|bytes| row(bytes, 5000 + bytes, 60));
        let far = [512, 2048].map(|bytes| row(bytes, 9000 + bytes, 400));
        let found = of_rows(near.iter().chain(&far), 1.0);
        assert_eq!((found.points.len(), found.apart), (3, 2));
        near_one(found.fit.unwrap().line.ns_per_byte.value);
        let found = of_rows(near[..2].iter().chain(&far[..1]), 1.0);
        assert_eq!(found.fit, Err(NoFit::States { apart: 1, rows: 3 }));
        assert!(found.fit.unwrap_err().to_string().contains("1 of 3 rows"));
        // Rows that are all far apart are in one state.
        let far = [64, 256, 1024].map(|bytes| row(bytes, 5000 + bytes, 400));
        near_one(of_rows(far.iter(), 1.0).fit.unwrap().line.ns_per_byte.value);
    }

    fn near_one(slope: f64) {
        near(slope, 1.0, 1e-9);
    }
}
