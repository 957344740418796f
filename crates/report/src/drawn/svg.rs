//! A plot as a self-contained picture: no script, font or other file; light or dark as the reader's screen.
//!
//! ```text
//!   title                                               │ label      each line is labelled where it ends,
//!   caption                                             │   detail   pushed apart where labels would meet
//!   ┌───────────────────────────────────────┐           │
//!   │                           __●─────────│───────────●─ label
//!   │            ___●───────────            │
//!   └───────────────────────────────────────┘
//!     ticks, axis title
//!   rows left out, the tool
//! ```

mod budget;
mod page;

use hairpin_record::run::Origin;

pub use self::budget::budget_svg;
use self::page::{Label, Page, Shape, Sign, place};
use super::plot::{Chart, Knee, Line, Plot, Times, title};
use super::words;
use crate::chart::axis::{Tick, thinned};
use crate::columns::RTT;
use crate::prose::{capital, clean, wrap};
use crate::view::View;

const WIDTH: f64 = 1000.0;
/// The plot's left and right edge.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 664.0;
/// The left edge of labels.
const LABELS: f64 = 700.0;
/// The plot's upper edge, below the title and a caption of this many lines; with more it is lower.
const TOP: f64 = 98.0;
const CAPTION_LINES: usize = 2;
/// The plot's least height.
const LEAST: f64 = 380.0;
/// From the plot's lower edge to the first note.
const BELOW: f64 = 66.0;
/// Line spacing of small text.
const LEADING: f64 = 16.0;
/// Columns of small text: over the full width, in a label's name, and in the text below the name.
const NOTE_COLUMNS: usize = 130;
const NAME_COLUMNS: usize = 36;
const DETAIL_COLUMNS: usize = 43;
/// The most lines of a label; the tooltip has the full text.
const LABEL_LINES: usize = 2;
const CUT: &str = " ...";
/// Leaders start only from line ends in the last part of the plot; others would cross it, and marks identify those lines anyway.
const LED: f64 = 0.9;
/// The greatest number of time ticks.
const TIME_TICKS: usize = 9;
/// The width of a tick's label, in characters of the axis.
const TICK_ROOM: f64 = 8.5;

/// The plot as one SVG document.
///
/// ```
/// use hairpin_report::{Chart, report_svg, view::View};
/// assert!(report_svg(&View::default(), Chart::Sizes).contains("Nothing to draw"));
/// ```
pub fn report_svg(view: &View, chart: Chart) -> String {
    match Plot::of(view, chart) {
        Ok(plot) => drawn(view, &plot),
        Err(why) => empty(view, chart, why),
    }
}

/// The plot's place on the page.
struct Frame {
    top: f64,
    bottom: f64,
}

impl Frame {
    fn x(&self, plot: &Plot, x: f64) -> f64 {
        LEFT + plot.x.at(x) * (RIGHT - LEFT)
    }

    fn y(&self, plot: &Plot, ns: f64) -> f64 {
        self.bottom - plot.y.at(ns) * (self.bottom - self.top)
    }

    fn points(&self, plot: &Plot, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().map(|(x, ns)| (self.x(plot, *x), self.y(plot, *ns))).collect()
    }
}

fn drawn(view: &View, plot: &Plot) -> String {
    let labels = labels(plot);
    let needed: f64 = labels.iter().map(|label| label.height()).sum();
    let caption = wrap("", &explained(plot), NOTE_COLUMNS);
    let top = TOP + caption.len().saturating_sub(CAPTION_LINES) as f64 * LEADING;
    let frame = Frame { top, bottom: top + needed.max(LEAST) };
    let mut notes: Vec<String> = plot.left_out.iter().map(|note| format!("{}.", capital(note))).collect();
    notes.push(made(view));
    let notes: Vec<String> = notes.iter().flat_map(|note| wrap("", note, NOTE_COLUMNS)).collect();
    let height = frame.bottom + BELOW + notes.len() as f64 * LEADING;
    let mut page = Page::new(WIDTH, height, plot.title(), &description(plot));
    page.text(LEFT, 34.0, "title", plot.title());
    for (i, line) in caption.iter().enumerate() {
        page.text(LEFT, 54.0 + i as f64 * LEADING, "small", line);
    }
    axes(&mut page, plot, &frame);
    for floor in &plot.floors {
        page.open(&floor.words());
        let edges: Vec<Vec<(f64, f64)>> = floor.edges().iter().map(|edge| frame.points(plot, edge)).collect();
        if let [low, high] = &edges[..] {
            page.area(low.iter().chain(high.iter().rev()), "floor-area");
        }
        edges.iter().for_each(|edge| page.polyline(edge, "floor"));
        page.close();
    }
    for (i, reference) in plot.published.iter().enumerate() {
        page.open(&format!("{}: {}", reference.name, reference.words));
        let points = frame.points(plot, &reference.points);
        page.polyline(&points, "published");
        points.iter().for_each(|at| page.mark(*at, Shape::published(i), "published", ""));
        page.close();
    }
    for line in &plot.lines {
        line.knee.iter().for_each(|found| knee(&mut page, plot, &frame, line, found));
    }
    for line in &plot.lines {
        self::line(&mut page, plot, &frame, line);
    }
    let labels = labels.into_iter().map(|label| {
        let (x, ns) = label.anchor;
        Label { anchor: (frame.x(plot, x), frame.y(plot, ns)), ..label }
    });
    for label in place(labels.collect(), frame.top, frame.bottom) {
        page.label(&label, LABELS);
    }
    for (i, note) in notes.iter().enumerate() {
        page.text(LEFT, frame.bottom + BELOW + i as f64 * LEADING, "small", note);
    }
    page.end()
}

fn axes(page: &mut Page, plot: &Plot, frame: &Frame) {
    let room = |characters: usize| (characters as f64 + 1.0) * TICK_ROOM / (RIGHT - LEFT);
    let ticks: Vec<Tick> = match plot.chart {
        Chart::Sizes | Chart::Load => thinned(&plot.x, &plot.values, room),
        Chart::Percentiles => plot.x.quantile_ticks(),
    };
    for tick in ticks {
        let x = frame.x(plot, tick.value);
        page.polyline(&[(x, frame.top), (x, frame.bottom)], "grid");
        page.text(x, frame.bottom + 18.0, "tick middle", &tick.label);
    }
    for tick in plot.y.time_ticks(TIME_TICKS) {
        let y = frame.y(plot, tick.value);
        page.polyline(&[(LEFT, y), (RIGHT, y)], "grid");
        page.text(LEFT - 8.0, y + 4.0, "tick end", &tick.label);
    }
    page.polyline(&[(LEFT, frame.top), (LEFT, frame.bottom), (RIGHT, frame.bottom)], "axis");
    // More than the unit has no room to the left of the axis.
    let class = if plot.chart == Chart::Load { "small" } else { "small end" };
    page.text(LEFT, frame.top - 10.0, class, plot.y_title());
    page.text((LEFT + RIGHT) / 2.0, frame.bottom + 40.0, "small middle", &format!("{} (log scale)", plot.x_title()));
}

/// A line at the highest rate with which a path keeps up, and the room up to the first with which it does not.
fn knee(page: &mut Page, plot: &Plot, frame: &Frame, line: &Line, found: &Knee) {
    let Some((keeps_up, beyond)) = found.between else { return };
    let [keeps_up, beyond] = [keeps_up, beyond].map(|per_s| frame.x(plot, per_s));
    page.open(&format!("{}. {}", line.label, found.words));
    let corners = [(keeps_up, frame.top), (beyond, frame.top), (beyond, frame.bottom), (keeps_up, frame.bottom)];
    page.area(corners.iter(), "floor-area");
    page.polyline(&[(keeps_up, frame.top), (keeps_up, frame.bottom)], &format!("interval c{}", line.look.0));
    page.close();
}

/// Draws intervals first, then the line, then its marks, so that none hides another.
fn line(page: &mut Page, plot: &Plot, frame: &Frame, line: &Line) {
    let (colour, shape) = (format!("c{}", line.look.0), Shape::of(line.look.1));
    page.open(&format!("{}: {}", line.label, line.detail()));
    for fit in &line.fits {
        page.polyline(&frame.points(plot, fit), &format!("fit {colour}"));
    }
    for point in &line.points {
        if let Some((low, high)) = point.interval {
            let (x, low, high) = (frame.x(plot, point.x), frame.y(plot, low), frame.y(plot, high));
            page.interval(x, low, high, &format!("interval {colour}"));
        }
    }
    let joined = frame.points(plot, &line.joined());
    let dotted = if line.times == Times::FromSent { "fit " } else { "" };
    match line.origin {
        _ if joined.is_empty() => {}
        Origin::Measured => page.polyline(&joined, &format!("line {dotted}{colour}")),
        Origin::Emulated => page.polyline(&joined, &format!("line emulated {dotted}{colour}")),
        Origin::Published => page.polyline(&joined, "published"),
    }
    let points: Vec<(f64, f64)> = line.points.iter().map(|point| (point.x, point.ns)).collect();
    let points = frame.points(plot, &points);
    let filled = if line.origin == Origin::Published { "published".into() } else { format!("mark {colour}") };
    for (point, at) in line.points.iter().zip(&points).filter(|(point, _)| point.marked) {
        let filled = if point.apart { format!("{filled} apart") } else { filled.clone() };
        page.mark(*at, shape, &filled, &format!("{} ({}), {}", line.label, words::origin(line.origin), point.words));
    }
    page.close();
}

/// A label for every line, floor and published figure; anchors are still values, not positions.
fn labels(plot: &Plot) -> Vec<Label> {
    let text = |name: &str, details: &[&str]| {
        let mut lines: Vec<(&'static str, String)> = cut(name, NAME_COLUMNS).into_iter().map(|line| ("label", line)).collect();
        lines.extend(details.iter().flat_map(|detail| cut(detail, DETAIL_COLUMNS)).map(|line| ("small", line)));
        lines
    };
    let mut labels = Vec::new();
    for line in &plot.lines {
        let Some(last) = line.points.last() else { continue };
        let detail = line.detail();
        let fit = line.fit_words.as_ref().map(|words| format!("fit: {words}"));
        let knee = line.knee.as_ref().map(|knee| knee.words.as_str());
        let details: Vec<&str> = std::iter::once(detail.as_str()).chain(fit.as_deref()).chain(knee).collect();
        let class = if line.origin == Origin::Published { "published".into() } else { format!("mark c{}", line.look.0) };
        labels.push(Label {
            anchor: (last.x, last.ns),
            at: 0.0,
            lines: text(&line.label, &details),
            mark: Sign::Mark(Shape::of(line.look.1), class),
            led: plot.x.at(last.x) >= LED,
            tooltip: format!("{}: {}", line.label, details.join("; ")),
        });
    }
    for floor in &plot.floors {
        let Some((x, [low, _])) = floor.points.last() else { continue };
        labels.push(Label {
            anchor: (*x, *low),
            at: 0.0,
            lines: text(&floor.words(), &["lower bound of the declared hardware, derived"]),
            mark: Sign::Piece("floor"),
            led: true,
            tooltip: floor.words(),
        });
    }
    for (i, reference) in plot.published.iter().enumerate() {
        let Some(last) = reference.points.last() else { continue };
        let lines = text(&reference.name, &[&reference.words]);
        labels.push(Label {
            anchor: *last,
            at: 0.0,
            lines,
            mark: Sign::Mark(Shape::published(i), "published".into()),
            // The points may lie anywhere, and no other line has this mark.
            led: false,
            tooltip: format!("{}: {}", reference.name, reference.words),
        });
    }
    labels
}

/// The lines of a label, at most [`LABEL_LINES`].
fn cut(text: &str, columns: usize) -> Vec<String> {
    let mut lines = wrap("", text, columns);
    if lines.len() > LABEL_LINES {
        lines = wrap("", text, columns - CUT.len());
        lines.truncate(LABEL_LINES);
        lines[LABEL_LINES - 1].push_str(CUT);
    }
    lines
}

/// The caption: quantity and method.
fn explained(plot: &Plot) -> String {
    let has = |what: fn(&Line) -> bool| plot.lines.iter().any(what);
    let rtt = RTT.replace("->", "\u{2192}");
    let mut parts = match plot.chart {
        Chart::Sizes | Chart::Percentiles => vec![format!("RTT in us, log scale: {rtt}")],
        Chart::Load => vec![
            "RTT p99 in us, log scale, from due: request due \u{2192} reply in the caller's buffer".into(),
            format!("dotted, from sent: {rtt}"),
        ],
    };
    if has(|line| line.knee.as_ref().is_some_and(|knee| knee.between.is_some())) {
        parts.push("upright: the knee, shaded up to the first rate with which the path does not keep up".into());
    }
    if has(|line| line.points.iter().any(|point| point.interval.is_some())) {
        parts.push("bars: 95 % interval of the p50".into());
    }
    if has(|line| !line.fits.is_empty()) {
        parts.push("dotted: fit".into());
    }
    if has(|line| line.origin == Origin::Emulated) {
        parts.push("dashed: emulated device".into());
    }
    if has(|line| line.points.iter().any(|point| point.apart)) {
        parts.push(format!("hollow and coloured: {}", words::APART));
    }
    if !plot.published.is_empty() || has(|line| line.origin == Origin::Published) {
        parts.push("hollow and grey: published, not measured here".into());
    }
    parts.join("; ") + "."
}

/// The description for screen readers.
fn description(plot: &Plot) -> String {
    let mut text = vec![format!("A plot over {}. {}", plot.x_title(), explained(plot))];
    for line in &plot.lines {
        let points = line.points.iter().filter(|point| point.marked).map(|point| point.words.as_str());
        text.push(format!("{}, {}. {}.", line.label, line.detail(), points.collect::<Vec<_>>().join("; ")));
        text.extend(line.fit_words.as_ref().map(|words| format!("Fit: {words}.")));
        text.extend(line.knee.as_ref().map(|knee| knee.words.clone()));
    }
    text.extend(plot.floors.iter().map(|floor| format!("{}, derived.", capital(&floor.words()))));
    text.extend(plot.published.iter().map(|reference| format!("{}: {}.", reference.name, reference.words)));
    text.join(" ")
}

fn made(view: &View) -> String {
    let parts: Vec<String> =
        [&view.tool, &view.made].into_iter().filter(|part| !part.is_empty()).map(|part| clean(part)).collect();
    let records = view.records.iter().map(|record| clean(&record.name)).collect::<Vec<_>>().join(", ");
    let of = if records.is_empty() { String::new() } else { format!("; of {records}") };
    format!("{}{of}", parts.join(", "))
}

fn empty(view: &View, chart: Chart, why: &str) -> String {
    let why = format!("Nothing to draw: {why}.");
    let mut page = Page::new(WIDTH, 120.0, title(chart), &why);
    page.text(LEFT, 34.0, "title", title(chart));
    page.text(LEFT, 62.0, "small", &why);
    page.text(LEFT, 90.0, "small", &made(view));
    page.end()
}
