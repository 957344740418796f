//! Ranges and marks on one line of characters.

use crate::chart::axis::{Axis, Tick};
use crate::prose::width;

/// Columns for a tick and the space after it.
const TICK: usize = 9;

/// Characters at positions from 0 to 1; later ones hide earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strip {
    ranges: Vec<(f64, f64, char)>,
    marks: Vec<(f64, char)>,
}

impl Strip {
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
