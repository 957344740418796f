//! The hockey stick of a load: p99 by offered rate on two logarithmic scales, from due and from sent.

use std::ops::Range;

use hairpin_units::Arrange;

use crate::chart::axis::Axis;
use crate::chart::picture::{Curve, Picture};
use crate::style::Tone;

/// Rows of the picture, which has three lines more.
pub(crate) const ROWS: usize = 9;
/// The rates that have a place on the axis: none below, and none beyond any device.
pub(crate) const RATES: Range<f64> = 1e-3..1e12;

/// One rate: its p99 from due and from sent in ns, and whether the cores were in another state than at most of the rates.
pub(crate) type Rate = (f64, [Option<u64>; 2], bool);

/// The picture of these rates; `None` for fewer than two. No line joins rates of two states: a `*` stands by itself.
pub(crate) fn picture(rates: impl Iterator<Item = Rate>, rows: usize) -> Option<Picture> {
    let rates: Vec<_> = rates.filter(|(per_s, ..)| RATES.contains(per_s)).collect();
    let of = |of: usize| -> Vec<(f64, f64, bool)> {
        let point = |(per_s, p99, apart): &Rate| Some((rounded(per_s / 1e3), p99[of]? as f64, *apart));
        let mut points: Vec<(f64, f64, bool)> = rates.iter().filter_map(point).collect();
        points.arrange_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let lines = [of(0), of(1)];
    let values: Vec<f64> = lines[0].iter().map(|(x, ..)| *x).collect();
    if values.first() == values.last() {
        return None;
    }
    let curves = lines.iter().zip(['f', 's']).enumerate().map(|(number, (points, mark))| Curve {
        points: points.iter().filter(|(.., apart)| !apart).map(|(x, y, _)| (*x, *y)).collect(),
        marks: points.iter().map(|(x, y, apart)| (*x, *y, if *apart { '*' } else { mark })).collect(),
        every: 1 + number,
        letter: None,
        tone: Tone::Line(1 - number),
    });
    Some(Picture {
        x: Axis::bytes(&values),
        y: Axis::times(lines.iter().flatten().map(|(_, ns, _)| *ns)),
        values: values.clone(),
        x_title: "offered, k/s; up: p99 in us, f from due, s from sent",
        rows,
        curves: curves.collect(),
    })
}

/// With three significant digits.
pub(crate) fn rounded(rate: f64) -> f64 {
    format!("{rate:.2e}").parse().unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_another_state_are_marked_and_on_no_line() {
        let rate = |at: u64, apart: bool| (1e4 * at as f64, [Some(9_000 + 100 * at), Some(8_000 + 100 * at)], apart);
        let drawn = picture([rate(3, false), rate(1, false), rate(2, true)].into_iter(), ROWS).unwrap();
        for (curve, mark) in drawn.curves.iter().zip(['f', 's']) {
            assert_eq!(curve.points.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [10.0, 30.0]);
            assert_eq!(curve.marks.iter().map(|(.., mark)| *mark).collect::<Vec<_>>(), [mark, '*', mark]);
        }
    }
}
