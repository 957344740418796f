//! Where the time of a round trip goes: a bar for each stage, in the order in which it is passed.

use anstyle::{AnsiColor, Style};

use super::strip::cut;
use super::table::grid;
use crate::doc::{Column, List};
use crate::drawn::words;
use crate::figure::us_signed;
use crate::prose::{WIDTH, clean, width, wrap};
use crate::style::paint;
use crate::term::{heading, list};
use crate::view::{Breakdown, Stage};

/// A bar is as long as is left, within these.
const LEAST_BAR: usize = 10;
const LONGEST_BAR: usize = 60;
/// The name of a stage takes no more.
const LONGEST_NAME: usize = 30;
/// Requests, replies, and what belongs to neither.
const REQUEST: Style = AnsiColor::Blue.on_default();
const REPLY: Style = AnsiColor::Green.on_default();
const NEITHER: Style = AnsiColor::BrightBlack.on_default();
/// Eighths of a column, the thinnest first.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// One breakdown with its causes.
pub(super) fn breakdown(breakdown: &Breakdown, columns: usize, colour: bool) -> Vec<String> {
    let mut text = heading(&format!("Where the time goes: {}", words::breakdown(breakdown)), colour);
    text.extend(wrap("", &words::headline(breakdown), WIDTH));
    text.extend(wrap("", &words::groups(breakdown), WIDTH));
    text.push(String::new());
    let lines = lines(breakdown);
    let slow = breakdown.slow_count > 0;
    let cells: Vec<Vec<String>> = lines.iter().map(|line| line.cells(breakdown, slow)).collect();
    let mut titles = vec![Column::words("stage"), Column::figures("typical"), Column::figures("share")];
    let titled: &[&str] = if slow { &["slow", "grew", "p50", "p99"] } else { &["p50", "p99"] };
    titles.extend(titled.iter().map(|title| Column::figures(*title)));
    let widest = |i: usize| cells.iter().map(|row| width(&row[i])).max().unwrap_or(0).max(width(&titles[i].title));
    let taken: usize = (0..titles.len()).map(widest).sum();
    let room = columns.saturating_sub(taken + titles.len()).clamp(LEAST_BAR, LONGEST_BAR);
    // The longest stage, not the whole, fills the room: a bar is to be read against the others.
    let longest = breakdown.stages.iter().map(|stage| stage.typical_ns).fold(0.0, f64::max);
    let bars: Vec<String> =
        lines.iter().map(|line| line.stage.map_or(String::new(), |stage| bar(stage.typical_ns, longest, room))).collect();
    let rows = cells.into_iter().zip(&bars).map(|(mut cells, bar)| {
        cells.insert(BAR_COLUMN, bar.clone());
        cells
    });
    titles.insert(BAR_COLUMN, Column::words(" ".repeat(room)));
    let (heads, rows) = grid(titles, 1, rows.collect(), columns, colour);
    text.extend(heads);
    for ((line, bar), row) in lines.iter().zip(&bars).zip(rows) {
        let painted = |row: String| if bar.is_empty() { row } else { row.replacen(bar, &paint(bar, line.style(), colour), 1) };
        text.extend(row.into_iter().map(painted));
    }
    let causes = breakdown.causes.iter().map(|cause| {
        let who = if cause.who.is_empty() { String::new() } else { format!(" ({})", cause.who) };
        let advice = if cause.advice.is_empty() { String::new() } else { format!("; {}", cause.advice) };
        format!("{}{who}: {} us lost in {} round trips{advice}", cause.cause, us_signed(cause.lost_ns as f64), cause.count)
    });
    let met = List::plain("What the slow ones met", causes.collect());
    text.extend((!met.items.is_empty()).then(|| list(&met, colour)).into_iter().flatten());
    text
}

/// Behind the share that it draws.
const BAR_COLUMN: usize = 3;

/// A line of the table: a stage, the place that the next ones are at, or the whole.
struct Line<'a> {
    name: String,
    stage: Option<&'a Stage>,
    whole: bool,
}

impl Line<'_> {
    fn cells(&self, breakdown: &Breakdown, slow: bool) -> Vec<String> {
        let known = breakdown.typical_count > 0;
        let (typical, slow_ns, p50, p99) = match (self.stage, self.whole) {
            (Some(stage), _) => (stage.typical_ns, stage.slow_ns, stage.p50_ns, stage.p99_ns),
            (None, true) => (breakdown.typical_ns, breakdown.slow_ns, breakdown.traced_p50_ns, None),
            (None, false) => {
                return std::iter::once(self.name.clone()).chain(vec![String::new(); if slow { 6 } else { 4 }]).collect();
            }
        };
        let share =
            if known && breakdown.typical_ns > 0.0 { words::share(typical / breakdown.typical_ns) } else { String::new() };
        let mut cells = vec![self.name.clone(), if known { us_signed(typical) } else { String::new() }, share];
        if slow {
            cells.extend([us_signed(slow_ns), if known { words::growth(slow_ns - typical) } else { String::new() }]);
        }
        cells.extend([p50, p99].map(words::time));
        cells
    }

    fn style(&self) -> Style {
        match self.stage.map(|stage| stage.direction.as_str()) {
            Some("request") => REQUEST,
            Some("reply") => REPLY,
            _ => NEITHER,
        }
    }
}

fn lines(breakdown: &Breakdown) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for group in breakdown.stages.chunk_by(|a, b| (&a.direction, &a.side) == (&b.direction, &b.side)) {
        let place = words::place(&group[0]);
        let indent = if place.is_empty() { "" } else { "  " };
        if !place.is_empty() {
            lines.push(Line { name: place, stage: None, whole: false });
        }
        let name = |stage: &Stage| cut(&format!("{indent}{}", clean(&stage.name)), LONGEST_NAME);
        lines.extend(group.iter().map(|stage| Line { name: name(stage), stage: Some(stage), whole: false }));
    }
    lines.push(Line { name: "RTT".into(), stage: None, whole: true });
    lines
}

/// Full columns and an eighth of what is left; anything above nothing is seen.
fn bar(ns: f64, longest: f64, room: usize) -> String {
    if !(ns > 0.0 && longest > 0.0) {
        return String::new();
    }
    let eighths = ((ns / longest).min(1.0) * (room * 8) as f64).round().max(1.0) as usize;
    let rest = (!eighths.is_multiple_of(8)).then(|| EIGHTHS[eighths % 8 - 1]);
    "█".repeat(eighths / 8).chars().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_eighths() {
        assert_eq!([0.0, 1e-9, 4.0, 6.25, 8.0, f64::NAN].map(|ns| bar(ns, 8.0, 4)), ["", "▏", "██", "███▏", "████", ""]);
        assert_eq!(bar(f64::INFINITY, 8.0, 2), "██");
    }
}
