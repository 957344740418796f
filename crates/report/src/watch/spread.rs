//! The distribution since the start, as bars over RTT. Counts are logarithmic so that the tail is visible.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::Paragraph;

use super::course::{Course, FIGURES};
use super::state::State;
use super::widget::{style, titled};
use crate::chart::axis::Axis;
use crate::figure::{time, us};
use crate::prose::clean;

/// Eighths of a cell.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns for a label and the space after it.
const TICK: usize = 9;

/// Draws the distribution of a row; the last line is the axis.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, course: &Course, colour: bool) {
    let chosen = course.whole.as_ref().and_then(|whole| whole.values[state.figure]);
    let mark = chosen.map_or(String::new(), |ns| format!("; |: {} {}", FIGURES[state.figure], time(ns as f64)));
    let scale = if state.log { "log" } else { "linear" };
    let body = titled(frame, area, format!("Distribution since the start: RTT, us, {scale}; counts, log{mark}"));
    let counts = course.counts();
    if counts.is_empty() || body.height <= 1 {
        let why = course.unread.as_deref().unwrap_or("nothing yet");
        return frame.render_widget(Paragraph::new(clean(why)), body);
    }
    let columns = Columns::of(&counts, body.width, state.log);
    let bars = body.height - 1;
    let most = columns.counts.iter().max().map_or(0.0, |count| (*count as f64).ln_1p());
    let plain = style(colour, Color::Cyan, Modifier::empty());
    for (x, count) in columns.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        // Even a single transaction is visible.
        let eighths = (((*count as f64).ln_1p() / most * f64::from(bars) * 8.0).round() as u16).max(1);
        for row in 0..bars {
            let filled = eighths.saturating_sub(row * 8).min(8);
            if filled > 0 {
                put(frame, body.x + x as u16, body.bottom() - 2 - row, BARS[usize::from(filled) - 1], plain);
            }
        }
    }
    if let Some(ns) = chosen {
        put(frame, body.x + columns.column(ns) as u16, body.y, '|', style(colour, Color::Yellow, Modifier::BOLD));
    }
    axis(frame, Rect { y: body.bottom() - 1, height: 1, ..body }, &columns);
}

fn put(frame: &mut Frame<'_>, x: u16, y: u16, symbol: char, style: Style) {
    if let Some(cell) = frame.buffer_mut().cell_mut((x, y)) {
        cell.set_char(symbol).set_style(style);
    }
}

/// The ticks: both ends, and as many round figures between them as fit.
fn axis(frame: &mut Frame<'_>, area: Rect, columns: &Columns) {
    let mut free = 0;
    let mut label = |x: usize, text: String, frame: &mut Frame<'_>| {
        let x = x.min((area.width as usize).saturating_sub(text.len()));
        if x >= free {
            frame.buffer_mut().set_string(area.x + x as u16, area.y, &text, Style::new());
            free = x + text.len() + 2;
        }
    };
    label(0, us(columns.low as f64), frame);
    let last = us(columns.high as f64);
    let until = (area.width as usize).saturating_sub(last.len() + 2);
    for tick in columns.axis.time_ticks(usize::from(area.width) / TICK) {
        let x = columns.column(tick.value as u64);
        if x + tick.label.len() <= until {
            label(x, tick.label, frame);
        }
    }
    label(area.width as usize, last, frame);
}

/// Counts per screen column.
struct Columns {
    low: u64,
    high: u64,
    axis: Axis,
    counts: Vec<u64>,
}

impl Columns {
    /// Of (ns, number of times), ascending.
    fn of(counts: &[(u64, u64)], width: u16, log: bool) -> Columns {
        let low = counts.first().map_or(0, |(ns, _)| *ns);
        let high = counts.last().map_or(low, |(ns, _)| *ns).max(low + 1);
        let axis = Axis::between(if log { low.max(1) } else { low } as f64, high as f64, log);
        let mut columns = Columns { low, high, axis, counts: vec![0; usize::from(width).max(1)] };
        for (ns, count) in counts {
            let x = columns.column(*ns);
            columns.counts[x] = columns.counts[x].saturating_add(*count);
        }
        columns
    }

    /// The column of a time.
    fn column(&self, ns: u64) -> usize {
        (self.axis.at(ns as f64) * (self.counts.len() - 1) as f64).round() as usize
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::histogram::{Decoded, Times};

    use super::*;

    fn counts(times: &Times) -> Vec<(u64, u64)> {
        Decoded::decode(&times.encode()).unwrap().counts().collect()
    }

    #[test]
    fn every_transaction_is_in_one_column() {
        let mut times = Times::new();
        (1..=5000_u64).for_each(|n| times.record(n * n));
        let counts = counts(&times);
        for log in [true, false] {
            let columns = Columns::of(&counts, 60, log);
            assert_eq!(columns.counts.iter().sum::<u64>(), 5000);
            assert_eq!((columns.column(0), columns.column(u64::MAX)), (0, 59));
            assert!(columns.axis.time_ticks(6).len() > 2);
        }
    }

    #[test]
    fn one_transaction_is_a_distribution() {
        let mut times = Times::new();
        times.record(0);
        let columns = Columns::of(&counts(&times), 10, true);
        assert_eq!(columns.counts.iter().sum::<u64>(), 1);
    }
}
