//! RTT over time as a braille plot.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::course::{Course, FIGURES, Point};
use super::state::State;
use super::widget::{seconds, style, titled};
use crate::chart::axis::{Axis, Tick};
use crate::chart::canvas::Canvas;

/// The greatest number of ticks per axis.
const TICKS: usize = 5;
/// The lines of the plot, by number.
const CHOSEN: usize = 0;
const MIDDLE: usize = 1;
const LOST: usize = 2;

/// Draws the chosen figure and p50 of a row over time.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, course: &Course, colour: bool) {
    let scale = if state.log { "log" } else { "linear" };
    let name = FIGURES[state.figure];
    let with = if state.figure == 0 { "" } else { " and p50 (dots)" };
    let lost = if course.points.iter().any(|point| point.lost > 0) { "; x: requests were lost" } else { "" };
    let body = titled(frame, area, format!("RTT {name}{with} over time, us, {scale}{lost}"));

    let chosen = points(course, state.figure);
    let middle = if state.figure == 0 { Vec::new() } else { points(course, 0) };
    let times = || chosen.iter().chain(&middle).map(|(_, ns)| *ns);
    if chosen.is_empty() && middle.is_empty() {
        let why = match course.points.len() {
            0 => "nothing yet: a point comes once a second",
            _ if course.over => "the record has no such figure over time: press 1, 3 or 5 for p50, p99 or max",
            _ => "too few samples in a second for this figure: press 1 to 5 for another",
        };
        return frame.render_widget(Paragraph::new(why), body);
    }
    let y = if state.log { Axis::times(times()) } else { Axis::times_from_zero(times()) };
    let end = |of: Option<&Point>| of.map_or(0.0, |point| point.at_ns as f64 / 1e9);
    let (from, to) = (end(course.points.front()), end(course.points.back()));
    let x = Axis::between(from, if to > from { to } else { from + 1.0 }, false);
    let at = |(s, ns): &(f64, f64)| (x.at(*s), y.at(*ns));

    let ticks = y.time_ticks(TICKS);
    let left = ticks.iter().map(|tick| tick.label.len()).max().unwrap_or(0);
    let room = usize::from(body.width).saturating_sub(left + 1);
    // Two lines below are for the rule and its labels.
    let rows = usize::from(body.height).saturating_sub(2);
    if room == 0 || rows == 0 {
        return;
    }
    let mut canvas = Canvas::new(room, rows);
    for point in course.points.iter().filter(|point| point.lost > 0) {
        canvas.mark((x.at(point.at_ns as f64 / 1e9), 1.0), 'x', LOST);
    }
    // A line would cross the gaps where points lack the figure, so then only dots are drawn.
    if chosen.len() < course.points.len() || chosen.len() < 2 {
        chosen.iter().for_each(|point| canvas.dot(at(point), CHOSEN));
    } else {
        chosen.windows(2).for_each(|pair| canvas.line(at(&pair[0]), at(&pair[1]), 1, CHOSEN));
    }
    middle.iter().for_each(|point| canvas.bullet(at(point), '•', MIDDLE));

    let look = |line: Option<usize>| match line {
        Some(CHOSEN) => style(colour, Color::Cyan, Modifier::empty()),
        Some(LOST) => style(colour, Color::Yellow, Modifier::BOLD),
        Some(_) => style(colour, Color::Gray, Modifier::DIM),
        None => Style::new(),
    };
    let short = to - from < 1.0;
    let along: Vec<Tick> = x.round_ticks(TICKS, |at| if short { format!("{at:.2} s") } else { seconds(at) });
    let span = |(text, line): (String, Option<usize>)| Span::styled(text, look(line));
    let rows = canvas.beside(&y, ticks, left).into_iter().map(|runs| Line::from(runs.into_iter().map(span).collect::<Vec<_>>()));
    let below = canvas.below(&x, &along, left, 0).map(Line::from);
    frame.render_widget(Paragraph::new(rows.chain(below).collect::<Vec<_>>()), body);
}

/// A figure over time, as (s, ns).
fn points(course: &Course, figure: usize) -> Vec<(f64, f64)> {
    let point = |point: &Point| Some((point.at_ns as f64 / 1e9, point.values[figure]? as f64));
    course.points.iter().filter_map(point).collect()
}
