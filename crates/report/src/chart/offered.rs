//! The hockey stick of a load: p99 by offered rate on two logarithmic scales, from due and from sent.

use hairpin_units::Arrange;

use crate::chart::axis::Axis;
use crate::chart::picture::{Curve, Picture};
use crate::style::Tone;

/// Rows of the picture, which has three lines more.
pub(crate) const ROWS: usize = 9;
/// Rates below this, and beyond any device, have no place on the axis.
const LEAST: f64 = 1e-3;

/// The picture of these rates, each with its p99 from due and from sent in ns; `None` for fewer than two rates.
pub(crate) fn picture(rates: impl Iterator<Item = (f64, [Option<u64>; 2])>, rows: usize) -> Option<Picture> {
    let rates: Vec<_> = rates.filter(|(per_s, _)| (LEAST..1e12).contains(per_s)).collect();
    let of = |of: usize| -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> =
            rates.iter().filter_map(|(per_s, p99)| Some((thousands(*per_s), p99[of]? as f64))).collect();
        points.arrange_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let lines = [of(0), of(1)];
    let values: Vec<f64> = lines[0].iter().map(|(x, _)| *x).collect();
    if values.first() == values.last() {
        return None;
    }
    let curves = lines.iter().zip(['f', 's']).enumerate().map(|(number, (points, mark))| Curve {
        points: points.clone(),
        marks: points.iter().map(|(x, y)| (*x, *y, mark)).collect(),
        every: 1 + number,
        letter: None,
        tone: Tone::Line(1 - number),
    });
    Some(Picture {
        x: Axis::bytes(&values),
        y: Axis::times(lines.iter().flatten().map(|(_, ns)| *ns)),
        values: values.clone(),
        x_title: "offered, k/s; up: p99 in us, f from due, s from sent",
        rows,
        curves: curves.collect(),
    })
}

/// In thousands, with three significant digits.
fn thousands(per_s: f64) -> f64 {
    format!("{:.2e}", per_s / 1e3).parse().unwrap_or(per_s / 1e3)
}
