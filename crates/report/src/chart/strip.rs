//! Ranges and marks on one line of characters.

use crate::chart::axis::{Axis, Tick};
use crate::prose::width;

/// The letter of a floor in a plot.
pub(crate) const FLOOR: char = 'F';
/// Columns for a tick and the space after it.
const TICK: usize = 9;

/// Characters at positions from 0 to 1; later ones hide earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strip {
    ranges: Vec<(f64, f64, char)>,
    marks: Vec<(f64, char)>,
}

impl Strip {
    /// A distribution: dots from minimum to median (or to the maximum without one), a heavy line to p99, a light one to p99.9;
    /// the times are positions.
    pub(crate) fn spread([min, p50, p99, p999]: [Option<f64>; 4], max: Option<f64>, floor: Option<f64>, median: char) -> Strip {
        let mut strip = Strip::default();
        strip.range(min, p50.or(max), '·');
        strip.range(p50, p99, '━');
        strip.range(p99, p999, '─');
        strip.mark(floor, FLOOR);
        strip.mark(p999, '┤');
        strip.mark(p99, '┫');
        strip.mark(p50, median);
        strip
    }

    /// A range, if both ends are known.
    pub(crate) fn range(&mut self, from: Option<f64>, to: Option<f64>, c: char) {
        self.ranges.extend(from.zip(to).map(|(from, to)| (from, to, c)));
    }

    /// A mark, if its position is known.
    pub(crate) fn mark(&mut self, at: Option<f64>, c: char) {
        self.marks.extend(at.map(|at| (at, c)));
    }

    pub(crate) fn drawn(&self, columns: usize) -> String {
        let mut cells = vec![' '; columns.max(1)];
        let last = cells.len() - 1;
        let column = |share: f64| (share.clamp(0.0, 1.0) * last as f64).round() as usize;
        for (from, to, c) in &self.ranges {
            let (from, to) = (column(*from), column(*to));
            if from <= to {
                cells[from..=to].fill(*c);
            }
        }
        self.marks.iter().for_each(|(at, c)| cells[column(*at)] = *c);
        cells.into_iter().collect()
    }
}

/// Ticks over strips; each label starts at the position of its value.
pub(crate) fn scale(axis: &Axis, room: usize) -> String {
    let mut line = String::new();
    for Tick { value, label } in axis.time_ticks(room / TICK) {
        let at = (axis.at(value) * (room - 1) as f64).round() as usize;
        if at >= width(&line) + usize::from(!line.is_empty()) && at + width(&label) < room {
            line.push_str(&" ".repeat(at - width(&line)));
            line.push('|');
            line.push_str(&label);
        }
    }
    line
}
