//! RTT over time, in dots.

use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};
use ratatui::{Frame, text::Line};

use super::course::Course;
use super::{FIGURES, State};
use crate::figure::us;

/// Draws the chosen figure and p50 of a row over time.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, course: &Course, colour: bool) {
    let [title, body] = super::draw::titled(area);
    let scale = if state.log { "log" } else { "linear" };
    let name = FIGURES[state.figure];
    let with = if state.figure == 0 { "" } else { " and p50 (dots)" };
    let lost = if course.points.iter().any(|point| point.lost > 0) { "; x: requests were lost" } else { "" };
    let heading = format!("RTT {name}{with} over time, us, {scale}{lost}");
    frame.render_widget(Line::styled(heading, Style::new().add_modifier(Modifier::BOLD)), title);

    let chosen = points(course, state.figure, state.log);
    let middle = if state.figure == 0 { Vec::new() } else { points(course, 0, state.log) };
    let Some((low, high)) = range(chosen.iter().chain(&middle), state.log) else {
        let why = match course.points.len() {
            0 => "nothing yet: a point comes once a second",
            _ if course.over => "the record has no such figure over time: press 1, 3 or 5 for p50, p99 or max",
            _ => "too few samples in a second for this figure: press 1 to 5 for another",
        };
        frame.render_widget(Paragraph::new(why), body);
        return;
    };
    let ends = |of: Option<&super::course::Point>| of.map_or(0.0, |point| point.at_ns as f64 / 1e9);
    let (from, to) = (ends(course.points.front()), ends(course.points.back()));
    let to = if to > from { to } else { from + 1.0 };
    let lost: Vec<(f64, f64)> =
        course.points.iter().filter(|point| point.lost > 0).map(|point| (point.at_ns as f64 / 1e9, high)).collect();

    let style =
        |fg: Color, more: Modifier| if colour { Style::new().fg(fg).add_modifier(more) } else { Style::new().add_modifier(more) };
    // A line has nothing to join where a figure is missing in between; dots say what there is.
    let gaps = chosen.len() < course.points.len() || chosen.len() < 2;
    let kind = if gaps { GraphType::Scatter } else { GraphType::Line };
    let sets = vec![
        Dataset::default()
            .marker(Marker::Dot)
            .graph_type(GraphType::Scatter)
            .style(style(Color::Gray, Modifier::DIM))
            .data(&middle),
        Dataset::default().marker(Marker::Braille).graph_type(kind).style(style(Color::Cyan, Modifier::empty())).data(&chosen),
    ];
    let height = |share: f64| {
        let at = low + (high - low) * share;
        us(if state.log { 10f64.powf(at) } else { at })
    };
    let width = [0.0, 0.5, 1.0].map(|share| height(share).len()).into_iter().max().unwrap_or(0);
    let labels = [0.0, 0.5, 1.0].map(|share| Line::from(format!("{:>width$}", height(share))));
    let short = to - from < 1.0;
    let times = [from, f64::midpoint(from, to), to].map(|at| Line::from(if short { format!("{at:.2} s") } else { seconds(at) }));
    let chart = Chart::new(sets)
        .legend_position(None)
        .x_axis(Axis::default().bounds([from, to]).labels(times))
        .y_axis(Axis::default().bounds([low, high]).labels(labels));
    frame.render_widget(chart, body);
    mark(frame, body, &lost, (from, to), width as u16, style(Color::Yellow, Modifier::BOLD));
}

/// Marks where requests were lost, on the top line of the plot.
fn mark(frame: &mut Frame<'_>, area: Rect, lost: &[(f64, f64)], (from, to): (f64, f64), labels: u16, style: Style) {
    // The axis itself takes one column beside its labels.
    let left = area.x + labels + 1;
    let Some(columns) = area.right().checked_sub(left).filter(|columns| *columns > 0 && area.height > 0) else { return };
    for (at, _) in lost {
        let column = ((at - from) / (to - from) * f64::from(columns - 1)).round() as u16;
        if let Some(cell) = frame.buffer_mut().cell_mut((left + column.min(columns - 1), area.y)) {
            cell.set_char('x').set_style(style);
        }
    }
}

/// A figure over time: s and ns, the latter as its logarithm if asked.
fn points(course: &Course, figure: usize, log: bool) -> Vec<(f64, f64)> {
    let value = |ns: u64| if log { (ns.max(1) as f64).log10() } else { ns as f64 };
    course.points.iter().filter_map(|point| Some((point.at_ns as f64 / 1e9, value(point.values[figure]?)))).collect()
}

/// The ends of the axis: at round figures outside of all points, or from 0.
fn range<'a>(points: impl Iterator<Item = &'a (f64, f64)>, log: bool) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for (_, value) in points {
        (low, high) = (low.min(*value), high.max(*value));
    }
    if low > high {
        return None;
    }
    Some(if log {
        let (low, high) = (round(10f64.powf(low), false), round(10f64.powf(high), true));
        (low.log10(), (if high > low { high } else { low * 1.5 }).log10())
    } else {
        (0.0, round(high.max(1.0), true))
    })
}

/// What is round, in a decade.
const STEPS: [f64; 11] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];

/// The next round figure, upwards or downwards.
pub(super) fn round(value: f64, up: bool) -> f64 {
    let ten = 10f64.powf(value.log10().floor());
    // What is a step but for rounding is that step.
    let steps = STEPS.map(|step| step * ten);
    if up {
        steps.into_iter().find(|step| *step >= value * (1.0 - 1e-9)).unwrap_or(ten * 10.0)
    } else {
        steps.into_iter().rev().find(|step| *step <= value * (1.0 + 1e-9)).unwrap_or(ten)
    }
}

/// A time since the start, as short as it is exact enough for an axis.
pub(super) fn seconds(s: f64) -> String {
    match s {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 600.0 => format!("{s:.0} s"),
        s => {
            let whole = s as u64;
            format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_figures() {
        assert_eq!([1.0, 3.1, 4951.0, 5000.0, 9999.0].map(|ns| round(ns, true)), [1.0, 4.0, 5000.0, 5000.0, 10_000.0]);
        assert_eq!([1.0, 3.1, 4951.0, 5000.0, 9999.0].map(|ns| round(ns, false)), [1.0, 3.0, 4000.0, 5000.0, 8000.0]);
        let ends =
            range([(0.0, 3.7), (1.0, 3.7)].iter(), true).map(|(low, high)| (10f64.powf(low).round(), 10f64.powf(high).round()));
        assert_eq!(ends, Some((5000.0, 6000.0)), "10^3.7 is 5012");
        assert_eq!(range([].iter(), true), None);
        assert_eq!(range([(0.0, 4100.0)].iter(), false), Some((0.0, 5000.0)));
    }

    #[test]
    fn times_are_short() {
        assert_eq!([0.0, 9.94, 75.0, 3725.0].map(seconds), ["0.0 s", "9.9 s", "75 s", "1:02:05"]);
    }
}
