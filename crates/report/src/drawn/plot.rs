//! The contents of a plot: lines, points, floors and scales, computed from the view alone.

mod load;

use hairpin_record::run::Origin;
use hairpin_units::Arrange;

use super::words;
use crate::chart::axis::Axis;
use crate::figure::{us, us_signed};
use crate::fit;
use crate::prose::clean;
use crate::view::{Curve, Percentile, Row, View};

/// The greatest number of lines that a reader can tell apart.
const MOST_LINES: usize = 12;
/// A published figure is drawn if its ratio to the measured figures is at most this.
const NEAR: f64 = 8.0;
/// The number of colours, and the number of marks.
pub(super) const COLOURS: usize = 7;
pub(super) const MARKS: usize = 7;
/// Rows of many sizes have as many floors; with more floors than this, only the lowest is drawn.
const MOST_FLOORS: usize = 2;
/// Quantiles marked on the percentile plot.
const MARKED: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chart {
    /// RTT p50 against payload.
    Sizes,
    /// RTT against quantile.
    Percentiles,
    /// RTT p99 from due and from sent against the offered rate.
    Load,
}

/// A plot that is still to be drawn.
pub(super) struct Plot {
    pub(super) chart: Chart,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Payloads or rates that can be labelled; empty for an axis of quantiles, which have names.
    pub(super) values: Vec<f64>,
    /// True if a request and its reply differ in size somewhere; the axis then shows their mean.
    pub(super) uneven: bool,
    pub(super) lines: Vec<Line>,
    pub(super) floors: Vec<Floor>,
    pub(super) published: Vec<Reference>,
    /// Sentences on how many paths, rows, floors and tables are not drawn.
    pub(super) left_out: Vec<String>,
}

/// The RTTs of one path.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) origin: Origin,
    /// Number of the colour and of the mark; no two lines of a plot share both.
    pub(super) look: (usize, usize),
    pub(super) times: Times,
    /// The lowest and highest number of samples behind a point; of a load, of requests due.
    pub(super) samples: (u64, u64),
    pub(super) points: Vec<Point>,
    /// The fitted lines, as pieces of (x, ns).
    pub(super) fits: Vec<Vec<(f64, f64)>>,
    /// The fitted lines in words.
    pub(super) fit_words: Option<String>,
    /// Of a load, on its line from due.
    pub(super) knee: Option<Knee>,
}

/// The times of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// RTT of a closed loop, or of one with a pace.
    Rtt,
    /// RTT under load from the time each request was due.
    FromDue,
    /// RTT under load from the send call.
    FromSent,
}

/// The end of the rates with which a path keeps up.
pub(super) struct Knee {
    /// The highest rate with which it keeps up, and the first with which it does not; `None` if one of them is not known.
    pub(super) between: Option<(f64, f64)>,
    pub(super) words: String,
}

/// One RTT.
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) ns: f64,
    /// Ends of the 95 % interval.
    pub(super) interval: Option<(f64, f64)>,
    /// True if the point gets a mark.
    pub(super) marked: bool,
    /// True if the point is not comparable with the others: its mark is hollow.
    pub(super) apart: bool,
    /// True if the line goes through it. Points of several rows are joined if these are of one core state.
    pub(super) joined: bool,
    /// The point in words.
    pub(super) words: String,
}

/// A physical floor: lower and upper end over x.
pub(super) struct Floor {
    /// The lines that it belongs to; empty for all lines.
    of: Vec<String>,
    pub(super) points: Vec<(f64, [f64; 2])>,
}

/// A published figure.
pub(super) struct Reference {
    pub(super) name: String,
    /// The figure and its source.
    pub(super) words: String,
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    /// The points that the line goes through.
    pub(super) fn joined(&self) -> Vec<(f64, f64)> {
        self.points.iter().filter(|point| point.joined).map(|point| (point.x, point.ns)).collect()
    }
}

impl Plot {
    /// The plot, or the reason for its absence.
    pub(super) fn of(view: &View, chart: Chart) -> Result<Plot, &'static str> {
        match chart {
            Chart::Sizes => sizes(view).ok_or("no path was measured at two sizes or more, with an RTT p50 at each"),
            Chart::Percentiles => percentiles(view).ok_or("no row has samples enough for two percentiles"),
            Chart::Load => load::plot(view).ok_or("no load was measured at two rates or more, with a p99 at each"),
        }
    }

    pub(super) fn title(&self) -> &'static str {
        title(self.chart)
    }

    /// The title of the horizontal axis.
    pub(super) fn x_title(&self) -> &'static str {
        match self.chart {
            Chart::Sizes if self.uneven => "payload in bytes, mean of request and reply",
            Chart::Sizes => "payload in bytes",
            Chart::Percentiles => "percentile: the share of round trips that took no longer",
            Chart::Load => "offered transactions/s",
        }
    }

    /// The title of the vertical axis.
    pub(super) fn y_title(&self) -> &'static str {
        match self.chart {
            Chart::Sizes | Chart::Percentiles => "us",
            Chart::Load => "RTT p99 in us",
        }
    }
}

pub(super) fn title(chart: Chart) -> &'static str {
    match chart {
        Chart::Sizes => "RTT p50 against payload",
        Chart::Percentiles => "RTT by percentile",
        Chart::Load => "RTT p99 against offered rate",
    }
}

impl Line {
    /// Origin and number of samples, or of requests due.
    pub(super) fn detail(&self) -> String {
        let counted = match self.times {
            Times::Rtt => words::samples(self.samples),
            Times::FromDue | Times::FromSent => format!("{} requests due", words::span(self.samples.0, self.samples.1)),
        };
        format!("{}, {counted}", words::origin(self.origin))
    }
}

impl Floor {
    /// The whole line in words.
    pub(super) fn words(&self) -> String {
        let ends = |end: fn(f64, f64) -> f64, from: f64| self.points.iter().flat_map(|(_, ns)| *ns).fold(from, end);
        let (low, high) = (us_signed(ends(f64::min, f64::INFINITY)), us_signed(ends(f64::max, 0.0)));
        let of = match &self.of[..] {
            [] => String::new(),
            [one] => format!(" of {one}"),
            [first, more @ ..] => format!(" of {first} and {} more", more.len()),
        };
        if low == high { format!("floor{of} {low} us") } else { format!("floor{of} {low} to {high} us") }
    }

    /// The lower end over x, and the upper end if different.
    pub(super) fn edges(&self) -> Vec<Vec<(f64, f64)>> {
        let edge = |end: usize| self.points.iter().map(|(x, ns)| (*x, ns[end])).collect::<Vec<_>>();
        let (low, high) = (edge(0), edge(1));
        if low == high { vec![low] } else { vec![low, high] }
    }
}

fn sizes(view: &View) -> Option<Plot> {
    let drawn: Vec<(&Curve, Vec<(&Row, u64)>)> = view
        .curves
        .iter()
        .map(|curve| {
            let rows = curve.rows.iter().filter_map(|number| view.rows.iter().find(|row| row.number == *number));
            (curve, rows.filter_map(|row| Some((row, row.rtt.p50.ns?))).collect::<Vec<_>>())
        })
        .filter(|(_, rows)| rows.len() > 1)
        .collect();
    let left_out = drawn.len().saturating_sub(MOST_LINES);
    let drawn = &drawn[..drawn.len() - left_out];
    drawn.first()?;
    let origin = |curve: &[(&Row, u64)]| curve[0].0.origin;
    let lines: Vec<Line> = drawn
        .iter()
        .enumerate()
        .map(|(i, (curve, rows))| Line {
            label: clean(&curve.label),
            origin: origin(rows),
            look: by_number(i),
            times: Times::Rtt,
            samples: ends(rows.iter().map(|(row, _)| row.count)),
            points: rows.iter().map(|(row, p50)| size_point(row, *p50)).collect(),
            fits: curve.fit.iter().flat_map(fit::points).map(|piece| within(piece, rows)).collect(),
            fit_words: told_fit(curve),
            knee: None,
        })
        .collect();
    let floored = |rows: &[(&Row, u64)]| rows.iter().filter_map(|(row, _)| Some((payload(row), row.floor_ns?))).collect();
    let floors = floors(lines.iter().zip(drawn).map(|(line, (_, rows))| (line.label.as_str(), floored(rows))));
    let mut sizes: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|point| point.x)).collect();
    sizes.arrange_by(f64::total_cmp);
    sizes.dedup();
    // Measured values set the scale: published figures far away would squeeze them into a corner.
    let (low, high) =
        times(&lines, &floors, &[]).fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), ns| (low.min(ns), high.max(ns)));
    let near = |reference: &Reference| reference.points.iter().all(|(_, ns)| (low / NEAR..=high * NEAR).contains(ns));
    let all: Vec<Reference> = view.published.iter().filter_map(|published| reference(published, &sizes)).collect();
    let published: Vec<Reference> = all.into_iter().filter(near).take(MOST_LINES - lines.len()).collect();
    let unshown = view.published.len() - published.len();
    Some(Plot {
        chart: Chart::Sizes,
        x: Axis::bytes(&sizes),
        y: Axis::times(times(&lines, &floors, &published)),
        uneven: drawn.iter().any(|(_, rows)| rows.iter().any(|(row, _)| row.request_bytes != row.reply_bytes)),
        values: sizes,
        lines,
        floors,
        published,
        left_out: [more(left_out, "path is", "paths are"), more(unshown, "published table is", "published tables are")]
            .into_iter()
            .flatten()
            .collect(),
    })
}

fn percentiles(view: &View) -> Option<Plot> {
    let mut drawn: Vec<(&Row, Vec<&Percentile>)> = view
        .rows
        .iter()
        .map(|row| (row, row.percentiles.iter().filter(|point| (0.0..1.0).contains(&point.q)).collect::<Vec<_>>()))
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let few = view.rows.len() - drawn.len();
    let left_out = drawn.len().saturating_sub(MOST_LINES);
    // All paths at their smallest size come before any path at its second size.
    drawn.arrange_by_key(|(row, _)| (place_in_curve(view, row), row.number));
    drawn.truncate(MOST_LINES);
    drawn.arrange_by_key(|(row, _)| row.number);
    let looks = looks(view, &drawn.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    let line = |((row, points), look): (&(&Row, Vec<&Percentile>), &(usize, usize))| Line {
        label: words::plain(row),
        origin: row.origin,
        look: *look,
        times: Times::Rtt,
        samples: (row.count, row.count),
        points: points.iter().enumerate().map(|(i, point)| percentile_point(row, point, i + 1 == points.len())).collect(),
        fits: Vec::new(),
        fit_words: None,
        knee: None,
    };
    let lines: Vec<Line> = drawn.iter().zip(&looks).map(line).collect();
    let x = Axis::quantiles(lines.iter().flat_map(|line| line.points.iter().map(|point| point.x)));
    let floored = |row: &Row| row.floor_ns.map_or(Vec::new(), |ns| vec![(0.0, ns), (1.0, ns)]);
    let mut floors = floors(lines.iter().zip(&drawn).map(|(line, (row, _))| (line.label.as_str(), floored(row))));
    let unshown = if floors.len() > MOST_FLOORS { floors.len() - 1 } else { 0 };
    if unshown > 0 {
        floors.arrange_by(|a, b| a.points[0].1[0].total_cmp(&b.points[0].1[0]));
        floors.truncate(1);
    }
    let few = (few > 0)
        .then(|| format!("{few} {} too few samples for two percentiles", if few == 1 { "row has" } else { "rows have" }));
    let left_out =
        [more(left_out, "row is", "rows are"), few, more(unshown, "floor, a higher one, is", "floors, all higher, are")];
    (!lines.is_empty()).then(|| Plot {
        chart: Chart::Percentiles,
        x,
        y: Axis::times(times(&lines, &floors, &[])),
        values: Vec::new(),
        uneven: false,
        lines,
        floors,
        published: Vec::new(),
        left_out: left_out.into_iter().flatten().collect(),
    })
}

/// A colour for each line; each time the colours are used up, the mark changes.
fn by_number(line: usize) -> (usize, usize) {
    (line % COLOURS, (line + line / COLOURS) % MARKS)
}

/// A colour for each path and a mark for each of its sizes; if two rows would look alike, colours and marks by row number.
fn looks(view: &View, rows: &[&Row]) -> Vec<(usize, usize)> {
    let by_path = |row: &&Row| {
        let curve = view.curves.iter().position(|curve| curve.rows.contains(&row.number))?;
        Some((curve % COLOURS, (curve + place_in_curve(view, row)) % MARKS))
    };
    let looks: Option<Vec<(usize, usize)>> = rows.iter().map(by_path).collect();
    let apart = |looks: &Vec<(usize, usize)>| (1..looks.len()).all(|i| !looks[..i].contains(&looks[i]));
    looks.filter(apart).unwrap_or_else(|| (0..rows.len()).map(by_number).collect())
}

/// Each distinct floor once, with the lines that it belongs to.
fn floors<'a>(lines: impl Iterator<Item = (&'a str, Vec<(f64, [f64; 2])>)>) -> Vec<Floor> {
    let (mut floors, mut all): (Vec<Floor>, usize) = (Vec::new(), 0);
    for (label, points) in lines {
        all += 1;
        match floors.iter_mut().find(|floor| floor.points == points) {
            Some(floor) => floor.of.push(label.into()),
            None => floors.extend((!points.is_empty()).then(|| Floor { of: vec![label.into()], points })),
        }
    }
    for floor in floors.iter_mut().filter(|floor| floor.of.len() == all) {
        floor.of.clear();
    }
    floors
}

/// The number of smaller sizes of the row's path; 0 if the path was measured at one size.
fn place_in_curve(view: &View, row: &Row) -> usize {
    view.curves.iter().find_map(|curve| curve.rows.iter().position(|number| *number == row.number)).unwrap_or(0)
}

/// The x value of a row in a plot over sizes.
fn payload(row: &Row) -> f64 {
    (row.request_bytes as f64 + row.reply_bytes as f64) / 2.0
}

fn size_point(row: &Row, p50: u64) -> Point {
    let interval = words::interval(&row.rtt.p50).map_or(String::new(), |interval| format!(" ({interval})"));
    Point {
        x: payload(row),
        ns: p50 as f64,
        interval: row.rtt.p50.low_ns.zip(row.rtt.p50.high_ns).map(|(low, high)| (low as f64, high as f64)),
        marked: true,
        apart: row.apart.is_some(),
        joined: row.apart.is_none(),
        words: format!(
            "{} B: RTT p50 {} us{interval}, {}{}",
            words::payload(row),
            us(p50 as f64),
            words::samples((row.count, row.count)),
            row.apart.as_ref().map_or(String::new(), |words| format!(" ({})", clean(words)))
        ),
    }
}

fn percentile_point(row: &Row, point: &Percentile, last: bool) -> Point {
    Point {
        x: point.q,
        ns: point.ns as f64,
        interval: None,
        apart: row.apart.is_some(),
        joined: true,
        marked: last || MARKED.iter().any(|q| (q - point.q).abs() < 1e-9),
        words: format!(
            "{}: RTT {} us, {}",
            words::quantile(point.q),
            us(point.ns as f64),
            words::samples((row.count, row.count))
        ),
    }
}

/// The fit with a note on rows left out for their core state, or the reason for its absence.
fn told_fit(curve: &Curve) -> Option<String> {
    let parts: Vec<String> = curve.fit.iter().map(fit::words).chain(curve.fit_note.as_deref().map(clean)).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The part of a line within the drawn sizes; rows without a p50 may be missing at either end.
fn within(mut piece: Vec<(f64, f64)>, rows: &[(&Row, u64)]) -> Vec<(f64, f64)> {
    let sizes = rows.iter().map(|(row, _)| payload(row));
    let (from, to) = (sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(0.0, f64::max));
    piece.retain(|(bytes, _)| (from..=to).contains(bytes));
    piece
}

/// The figures of a published table at payloads within the measured range, if there are any.
fn reference(published: &crate::view::Published, sizes: &[f64]) -> Option<Reference> {
    let (from, to) = (sizes.first()?, sizes.last()?);
    let mut points: Vec<(f64, f64)> = published.points.iter().map(|[bytes, ns]| (bytes.round(), *ns)).collect();
    points.retain(|(bytes, ns)| (from..=to).contains(&bytes) && ns.is_finite() && *ns > 0.0);
    points.arrange_by(|a, b| a.0.total_cmp(&b.0));
    (!points.is_empty()).then(|| Reference { name: clean(&published.name), words: words::published(published), points })
}

fn times<'a>(lines: &'a [Line], floors: &'a [Floor], published: &'a [Reference]) -> impl Iterator<Item = f64> + 'a {
    let points = lines.iter().flat_map(|line| &line.points);
    let measured =
        points.flat_map(|point| [point.ns].into_iter().chain(point.interval.into_iter().flat_map(|(low, high)| [low, high])));
    let floors = floors.iter().flat_map(|floor| floor.points.iter().flat_map(|(_, ns)| *ns));
    measured.chain(floors).chain(published.iter().flat_map(|reference| reference.points.iter().map(|(_, ns)| *ns)))
}

fn more(count: usize, one: &str, many: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} more {} left out", if count == 1 { one } else { many }))
}

fn ends(counts: impl Iterator<Item = u64> + Clone) -> (u64, u64) {
    (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_twelve_lines_look_alike() {
        let looks: Vec<(usize, usize)> = (0..MOST_LINES).map(by_number).collect();
        for (i, look) in looks.iter().enumerate() {
            assert!(!looks[..i].contains(look), "{look:?}");
        }
    }
}
