//! Dots and intervals on one scale: a line for each row, a line for each ratio.

use hairpin_record::run::Origin;

use super::table::{numbered, style};
use crate::chart::axis::{Axis, Tick};
use crate::drawn::words;
use crate::prose::{WIDTH, fold, width, wrap};
use crate::style::paint;
use crate::term::heading;
use crate::view::{Ratio, Row, View};

/// A label takes no more; the table below has it whole.
const LONGEST_LABEL: usize = 30;
/// The figure behind the strip.
const FIGURE: usize = 8;
/// A tick and the room to the next take so many columns.
const TICK: usize = 9;
/// A strip over ratios.
const RATIO_COLUMNS: usize = 21;
/// The title of the strips of [`ratios`].
pub(super) const RATIO_TITLE: &str = "          1";
/// What a ratio's strip reaches at least, so that small differences look small.
const LEAST_RATIO: f64 = 1.05;

/// Characters on a scale.
struct Strip {
    cells: Vec<char>,
}

impl Strip {
    fn new(columns: usize) -> Strip {
        Strip { cells: vec![' '; columns] }
    }

    fn at(&self, share: f64) -> usize {
        (share.clamp(0.0, 1.0) * (self.cells.len() - 1) as f64).round() as usize
    }

    fn put(&mut self, share: f64, c: char) {
        let at = self.at(share);
        self.cells[at] = c;
    }

    fn fill(&mut self, from: f64, to: f64, c: char) {
        let (from, to) = (self.at(from), self.at(to));
        if from <= to {
            self.cells[from..=to].fill(c);
        }
    }

    fn text(&self) -> String {
        self.cells.iter().collect()
    }
}

/// Every row: least, median, 99th and 99.9th percentile on one log scale.
pub(super) fn rows(view: &View, columns: usize, colour: bool) -> Vec<String> {
    let times =
        |row: &Row| [row.rtt.min, row.rtt.p50.ns, row.rtt.p99.ns, row.rtt.p999.ns].into_iter().flatten().map(|ns| ns as f64);
    let floors = |row: &Row| row.floor_ns.into_iter().flat_map(|[low, _]| [low]);
    let all: Vec<f64> = view.rows.iter().flat_map(|row| times(row).chain(floors(row))).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let label = |row: &Row| cut(&numbered(view, row), LONGEST_LABEL);
    let widest = view.rows.iter().map(|row| width(&label(row))).max().unwrap_or(0);
    let axis = Axis::times(all.into_iter());
    let room = columns - widest - 2 - FIGURE;
    let mut text = heading("RTT by path", colour);
    text.extend(wrap("", &legend(view), WIDTH));
    text.push(String::new());
    text.push(format!("{} {}  p50 us", " ".repeat(widest), scale(&axis, room)));
    for row in &view.rows {
        let label = label(row);
        let pad = " ".repeat(widest - width(&label));
        let (strip, p50) = (strip(row, &axis, room), words::time(row.rtt.p50.ns));
        text.push(match p50.as_str() {
            "" if strip.trim().is_empty() => label,
            "" => format!("{label}{pad} {}", paint(strip.trim_end(), style(0), colour)),
            p50 => format!("{label}{pad} {}{p50:>FIGURE$}", paint(&strip, style(0), colour)),
        });
    }
    text
}

fn strip(row: &Row, axis: &Axis, room: usize) -> String {
    let at = |ns: Option<u64>| ns.map(|ns| axis.at(ns as f64));
    let (min, p50, p99, p999) = (at(row.rtt.min), at(row.rtt.p50.ns), at(row.rtt.p99.ns), at(row.rtt.p999.ns));
    let mut strip = Strip::new(room);
    if let (Some(min), Some(to)) = (min, p50.or(at(row.rtt.max))) {
        strip.fill(min, to, '·');
    }
    if let (Some(p50), Some(p99)) = (p50, p99) {
        strip.fill(p50, p99, '━');
    }
    if let (Some(p99), Some(p999)) = (p99, p999) {
        strip.fill(p99, p999, '─');
    }
    let marks = [(row.floor_ns.map(|[low, _]| axis.at(low)), 'F'), (p999, '┤'), (p99, '┫'), (p50, dot(row.origin))];
    marks.into_iter().for_each(|(at, mark)| at.into_iter().for_each(|at| strip.put(at, mark)));
    strip.text()
}

fn dot(origin: Origin) -> char {
    match origin {
        Origin::Measured => '●',
        Origin::Emulated => '○',
        Origin::Published => '◇',
    }
}

fn legend(view: &View) -> String {
    let has = |what: fn(&Row) -> bool| view.rows.iter().any(what);
    let mut parts = vec!["us, log scale; ● p50".to_owned()];
    parts.extend(has(|row| row.origin == Origin::Emulated).then(|| "○ p50 emulated".into()));
    parts.extend(has(|row| row.origin == Origin::Published).then(|| "◇ p50 published".into()));
    parts.push("·· from the least, ━┫ to p99, ─┤ to p99.9".into());
    parts.extend(has(|row| row.floor_ns.is_some()).then(|| "F floor (derived)".into()));
    parts.join(", ")
}

/// Ticks, each label beginning where its value lies.
fn scale(axis: &Axis, room: usize) -> String {
    let mut line = String::new();
    for Tick { value, label } in axis.time_ticks(room / TICK) {
        let at = (axis.at(value) * (room - 1) as f64).round() as usize;
        if at >= width(&line) + usize::from(!line.is_empty()) && at + width(&label) < room {
            line.push_str(&" ".repeat(at - width(&line)));
            line.push('|');
            line.push_str(&label);
        }
    }
    line.push_str(&" ".repeat(room.saturating_sub(width(&line))));
    line
}

/// A strip for each ratio with its interval, on one scale with 1 in the middle.
pub(super) fn ratios(ratios: &[Ratio]) -> Vec<String> {
    let far = |ratio: Option<f64>| ratio.filter(|ratio| *ratio > 0.0 && ratio.is_finite()).map_or(0.0, |ratio| ratio.ln().abs());
    let all = ratios.iter().flat_map(|one| [one.ratio, one.low, one.high]);
    let reach = all.map(far).fold(LEAST_RATIO.ln(), f64::max);
    let at = |ratio: f64| (ratio > 0.0).then(|| 0.5 + ratio.ln() / reach / 2.0);
    ratios
        .iter()
        .map(|one| {
            let mut strip = Strip::new(RATIO_COLUMNS);
            strip.put(0.5, '|');
            if let (Some(low), Some(high)) = (one.low.and_then(at), one.high.and_then(at)) {
                strip.fill(low, high, '━');
            }
            one.ratio.and_then(at).into_iter().for_each(|at| strip.put(at, '●'));
            strip.text()
        })
        .collect()
}

/// Not too long for its column.
pub(super) fn cut(name: &str, columns: usize) -> String {
    if width(name) <= columns { name.into() } else { fold(name, columns - 2).swap_remove(0) + ".." }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_one_is_in_the_middle() {
        let ratio = |ratio: f64, low: f64, high: f64| Ratio {
            figure: "p50".into(),
            against: None,
            value: None,
            ratio: Some(ratio),
            low: Some(low),
            high: Some(high),
        };
        let shown = ratios(&[ratio(1.0, 0.995, 1.005), ratio(2.0, 1.0, 2.0), ratio(0.5, 0.5, 0.5)]);
        assert_eq!(shown, ["          ●          ", "          ━━━━━━━━━━●", "●         |          "]);
        assert_eq!(RATIO_TITLE.find('1'), Some(RATIO_COLUMNS / 2));
    }
}
