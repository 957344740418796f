//! Scales of plots: logarithmic or linear for times and bytes; for quantiles, by the share that lies beyond.

use hairpin_units::Arrange;

use crate::figure::us;

/// The least ratio between the ends of an axis, so that a single value stands in the middle.
const LEAST_RATIO: f64 = 2.0;
/// Room beyond the first and the last value, as a ratio.
const MARGIN: f64 = 1.12;
/// Times outside these bounds are invalid and are drawn at the ends.
const LEAST_NS: f64 = 1e-3;
const MOST_NS: f64 = 1e20;
/// A tick's label with more digits than this is written as a power of ten.
const DIGITS: i32 = 8;
/// Share of an axis between 0, which has no logarithm, and the least value above it.
const ZERO: f64 = 0.08;
/// 1 − q of the rarest quantile that a plot shows.
const RAREST: f64 = 1e-12;
/// Mantissas of ticks in tenths, the sparsest set first; denser sets are tried until there are enough ticks.
const MANTISSAS: [&[u32]; 4] = [
    &[10],
    &[10, 20, 50],
    &[10, 20, 30, 40, 50, 60, 70, 80, 90],
    &[10, 12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90],
];
const ENOUGH: usize = 4;

/// Mapping of values to positions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Log,
    /// Logarithmic, with 0 at the start.
    LogFromZero,
    Linear,
    /// By the share beyond a quantile: each further nine takes as much room as the one before.
    Tail,
}

/// A scale with its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

/// A labelled value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

impl Axis {
    /// An axis for times.
    pub(crate) fn times(values: impl Iterator<Item = f64>) -> Axis {
        let sane = values.filter(|ns| *ns > 0.0 && ns.is_finite()).map(|ns| ns.clamp(LEAST_NS, MOST_NS));
        let (low, high) = ends(sane).unwrap_or((1e3, 1e4));
        let (low, high) = (low / MARGIN, high * MARGIN);
        let wider = (LEAST_RATIO / (high / low)).max(1.0).sqrt();
        Axis { scale: Scale::Log, low: low / wider, high: high * wider }
    }

    /// An axis from `low` to `high`, logarithmic or linear.
    pub(crate) fn between(low: f64, high: f64, log: bool) -> Axis {
        let low = if log { low.max(LEAST_NS) } else { low };
        let beyond = if log { low * LEAST_RATIO } else { low + 1.0 };
        Axis { scale: if log { Scale::Log } else { Scale::Linear }, low, high: if high > low { high } else { beyond } }
    }

    /// A linear axis for times, from 0.
    pub(crate) fn times_from_zero(values: impl Iterator<Item = f64>) -> Axis {
        Axis::between(0.0, MARGIN * values.fold(1.0, f64::max), false)
    }

    /// An axis for payloads, which may be 0 bytes.
    pub(crate) fn bytes(values: &[f64]) -> Axis {
        let (low, high) = ends(values.iter().copied().filter(|bytes| *bytes > 0.0)).unwrap_or((1.0, 1.0));
        let scale = if values.contains(&0.0) { Scale::LogFromZero } else { Scale::Log };
        let wider = (LEAST_RATIO / (high / low)).max(1.0).sqrt();
        Axis { scale, low: low / wider, high: high * wider }
    }

    /// An axis for quantiles.
    pub(crate) fn quantiles(values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = ends(values.map(nines)).unwrap_or((0.0, 1.0));
        Axis { scale: Scale::Tail, low, high: if high > low { high } else { low + 1.0 } }
    }

    /// The position of a value from 0 to 1; values beyond an end lie at that end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = |value: f64| ((value / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0);
        match self.scale {
            Scale::Linear => ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0),
            Scale::Log => share(value.max(self.low)),
            Scale::LogFromZero if value <= 0.0 => 0.0,
            Scale::LogFromZero => ZERO + (1.0 - ZERO) * share(value.max(self.low)),
            Scale::Tail => ((nines(value) - self.low) / (self.high - self.low)).clamp(0.0, 1.0),
        }
    }

    /// At most `most` round times within the ends, labelled in us.
    pub(crate) fn time_ticks(&self, most: usize) -> Vec<Tick> {
        if self.scale == Scale::Linear {
            return self.round_ticks(most, short);
        }
        let ticks = |mantissas: &[u32]| -> Vec<Tick> {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let all = decades.flat_map(|decade| mantissas.iter().map(move |mantissa| tick(*mantissa, decade)));
            all.filter(|tick| (self.low..=self.high).contains(&tick.value)).collect()
        };
        let mut best = ticks(MANTISSAS[0]);
        for mantissas in &MANTISSAS[1..] {
            let denser = ticks(mantissas);
            if best.len() < ENOUGH && denser.len() <= most {
                best = denser;
            }
        }
        // Over many decades even one tick per decade is too many.
        let every = best.len().div_ceil(most.max(1)).max(1);
        best.into_iter().step_by(every).collect()
    }

    /// At most `most` multiples of a round step within the ends of a linear axis.
    pub(crate) fn round_ticks(&self, most: usize, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let least = (self.high - self.low) / most.max(1) as f64;
        let decade = 10f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade).into_iter().find(|step| *step >= least).unwrap_or(least);
        let first = (self.low / step).ceil();
        let all = (0..=most).map(|i| (first + i as f64) * step).take_while(|value| *value <= self.high);
        all.take(most).map(|value| Tick { value, label: label(value) }).collect()
    }

    /// The named quantiles within the ends.
    pub(crate) fn quantile_ticks(&self) -> Vec<Tick> {
        let named =
            [(0.0, "p0"), (0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];
        let rarer = [(0.999_999, "p99.9999"), (0.999_999_9, "p99.99999")];
        let ticks = named.into_iter().chain(rarer).filter(|(q, _)| (self.low - 1e-9..=self.high + 1e-9).contains(&nines(*q)));
        ticks.map(|(value, label)| Tick { value, label: label.into() }).collect()
    }
}

/// The values with labels that fit: a label of `n` characters takes `room(n)` of the axis. The first and the
/// last value stay.
pub(crate) fn thinned(axis: &Axis, values: &[f64], room: impl Fn(usize) -> f64) -> Vec<Tick> {
    let mut values = values.to_vec();
    values.arrange_by(f64::total_cmp);
    values.dedup();
    // Only a forged record has sizes this large; no axis has room for their digits.
    let tick = |value: f64| Tick { value, label: if value < 1e9 { value.to_string() } else { format!("{value:.1e}") } };
    let apart = |a: &Tick, b: &Tick| axis.at(b.value) - axis.at(a.value) >= room(a.label.len().max(b.label.len()));
    let mut ticks: Vec<Tick> = Vec::new();
    for value in &values {
        let next = tick(*value);
        if ticks.last().is_none_or(|last| apart(last, &next)) {
            ticks.push(next);
        }
    }
    if let (Some(largest), Some(last)) = (values.last().map(|value| tick(*value)), ticks.last())
        && *last != largest
    {
        while ticks.len() > 1 && ticks.last().is_some_and(|last| !apart(last, &largest)) {
            ticks.pop();
        }
        if ticks.last().is_none_or(|last| apart(last, &largest)) {
            ticks.push(largest);
        }
    }
    ticks
}

/// A time in us without trailing zeros.
fn short(ns: f64) -> String {
    let text = us(ns);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// The number of nines in a quantile: 1 for p90, 2 for p99.
fn nines(q: f64) -> f64 {
    -(1.0 - q.clamp(0.0, 1.0)).max(RAREST).log10()
}

/// `tenths` / 10 × 10^`decade` ns as a tick in us, without floating-point noise.
fn tick(tenths: u32, decade: i32) -> Tick {
    let (mantissa, decade) = if tenths.is_multiple_of(10) { (tenths / 10, decade) } else { (tenths, decade - 1) };
    let value = f64::from(mantissa) * 10f64.powi(decade);
    let label = match decade - 3 {
        us if us >= DIGITS => format!("{mantissa}e{us}"),
        us => format!("{:.*}", usize::try_from(-us).unwrap_or(0), value / 1e3),
    };
    Tick { value, label }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |ends: Option<(f64, f64)>, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let decades = Axis::times([52.0, 143_312.0].into_iter());
        assert_eq!(labels(&decades.time_ticks(6)), ["0.1", "1", "10", "100"]);
        let narrow = Axis::times([4_883.0, 5_959.0].into_iter());
        assert_eq!(labels(&narrow.time_ticks(6)), ["4", "5", "6", "7"]);
        let between = Axis::times([10_350.0, 18_800.0].into_iter());
        assert_eq!(labels(&between.time_ticks(9)), ["10", "12", "14", "16", "18", "20"]);
        assert!(labels(&Axis::times([1.0, 1e15].into_iter()).time_ticks(5)).len() <= 5);
        assert_eq!(labels(&Axis::times(std::iter::empty()).time_ticks(5)), ["1", "2", "5", "10"]);
    }

    /// The page computes ticks itself, because its axes change with the selection; this file holds it to the same rule.
    #[test]
    fn the_page_has_the_same_ticks() {
        let cases = [
            (52.0, 143_312.0, true, 6),
            (4_883.0, 5_959.0, true, 6),
            (10_350.0, 18_800.0, true, 9),
            (1.0, 1e15, true, 5),
            (1.0, 1_000.0, true, 4),
            (900.0, 31_000.0, true, 12),
            (0.0, 7_415.0, false, 5),
            (1.0, 35.0, false, 5),
            (0.25, 0.31, false, 4),
            (0.0, 10.0, false, 5),
        ];
        let ticks = cases.map(|(low, high, log, most)| {
            let ticks = Axis::between(low, high, log).time_ticks(most);
            // Twelve digits, as the last bits of a product are the compiler's.
            let ticks: Vec<f64> = ticks.iter().map(|tick| format!("{:.11e}", tick.value).parse().unwrap()).collect();
            serde_json::json!({ "low": low, "high": high, "log": log, "most": most, "ticks": ticks })
        });
        crate::shared::held("ticks", &ticks);
    }

    #[test]
    fn the_page_has_the_same_ends() {
        let times: [&[f64]; 7] =
            [&[], &[5_000.0], &[52.0, 143_312.0], &[4_883.0, 5_959.0], &[0.0, 700.0, f64::INFINITY], &[1e-9, 1e30], &[3.0, 3.1]];
        let bytes: [&[f64]; 6] = [&[], &[64.0], &[64.0, 1400.0], &[0.0, 1.0, 64.0], &[0.0], &[18.0, 20.0]];
        let ends = |kind: &str, axis: Axis, values: &[f64]| {
            let found = [axis.low, axis.high].map(|end| format!("{end:.11e}").parse::<f64>().unwrap());
            let zero = axis.scale == Scale::LogFromZero;
            serde_json::json!({ "of": kind, "values": values, "ends": found, "zero": zero })
        };
        let times = times.iter().map(|values| ends("times", Axis::times(values.iter().copied()), values));
        let bytes = bytes.iter().map(|values| ends("bytes", Axis::bytes(values), values));
        crate::shared::held("ends", &times.chain(bytes).collect::<Vec<_>>());
    }

    #[test]
    fn an_axis_in_proportion_has_multiples_of_a_round_step() {
        let axis = Axis::between(0.0, 7_415.0, false);
        assert_eq!(labels(&axis.time_ticks(5)), ["0", "2", "4", "6"]);
        assert_eq!(axis.at(3_707.5), 0.5);
        let seconds = Axis::between(1.0, 35.0, false);
        assert_eq!(labels(&seconds.round_ticks(5, |s| format!("{s:.0} s"))), ["10 s", "20 s", "30 s"]);
        let point = Axis::between(5.0, 5.0, false);
        assert!(point.round_ticks(5, |s| s.to_string()).len() <= 5 && point.at(5.0) == 0.0);
        assert!(Axis::between(0.0, 0.0, true).time_ticks(5).len() <= 5);
    }

    #[test]
    fn each_nine_takes_as_much_room() {
        let axis = Axis::quantiles([0.0, 0.9999].into_iter());
        for (q, at) in [(0.0, 0.0), (0.9, 0.25), (0.99, 0.5), (0.9999, 1.0), (1.0, 1.0)] {
            assert!((axis.at(q) - at).abs() < 1e-9, "{q}");
        }
        assert_eq!(labels(&axis.quantile_ticks()), ["p0", "p50", "p90", "p99", "p99.9", "p99.99"]);
    }

    #[test]
    fn zero_bytes_have_a_place_of_their_own() {
        let axis = Axis::bytes(&[0.0, 1.0, 64.0]);
        assert_eq!(axis.at(0.0), 0.0);
        assert_eq!(axis.at(1.0), ZERO);
        assert_eq!(axis.at(64.0), 1.0);
        assert!((axis.at(8.0) - (ZERO + (1.0 - ZERO) / 2.0)).abs() < 1e-9);
    }

    #[test]
    fn labels_without_room_are_left_out_but_not_the_last() {
        let sizes: Vec<f64> = (0..17).map(|power| f64::from(1 << power)).collect();
        let axis = Axis::bytes(&sizes);
        let every_other = ["1", "4", "16", "64", "256", "1024", "4096", "16384", "65536"];
        assert_eq!(labels(&thinned(&axis, &sizes, |_| 0.1)), every_other);
        assert_eq!(labels(&thinned(&axis, &[64.0, 65.0, 1400.0], |_| 0.1)), ["64", "1400"]);
    }
}
