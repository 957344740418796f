//! Plots in braille. Lines are told apart by letters, which stand on the line and where it ends; the legend has the figures.

use hairpin_record::run::Origin;

use super::table::{grid, style};
use crate::chart::axis::{Axis, Tick, thinned};
use crate::chart::canvas::{Canvas, Run};
use crate::doc::Column;
use crate::drawn::plot::{Chart, Line, Plot, title};
use crate::drawn::words;
use crate::figure::us_signed;
use crate::prose::{WIDTH, width, wrap};
use crate::style::paint;
use crate::term::heading;
use crate::view::View;

/// Rows of a plot.
const ROWS: usize = 16;
/// Left of a plot stand times in us.
const TIMES: usize = 8;
/// Right of it letters, as many as may end in one row.
const ENDS: usize = 6;
/// A plot is no wider than this.
const LONGEST: usize = 120;
/// Time ticks: as many as there may be.
const TIME_TICKS: usize = 7;
/// What a floor is called in a plot.
const FLOOR: char = 'F';
/// Quantiles that the legend shows.
const QUANTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

/// The plot with its legend, or nothing where there is nothing to draw.
pub(super) fn plot(view: &View, chart: Chart, columns: usize, colour: bool) -> Vec<String> {
    let Ok(plot) = Plot::of(view, chart) else { return Vec::new() };
    let mut text = heading(&format!("{} (us, log scale)", title(chart)), colour);
    let room = columns.min(LONGEST) - TIMES - 2 - ENDS;
    text.extend(drawn(&plot, room, colour));
    text.push(String::new());
    text.extend(legend(&plot, columns, colour));
    text.extend(plot.left_out.iter().flat_map(|note| wrap("  ", &format!("{note}."), WIDTH)));
    text
}

/// Lines are `a`, `b` …, published figures `1`, `2` …
fn letter(line: usize) -> char {
    char::from(b'a' + (line % 26) as u8)
}

fn digit(reference: usize) -> char {
    char::from_digit((reference % 9) as u32 + 1, 10).unwrap_or('*')
}

fn drawn(plot: &Plot, room: usize, colour: bool) -> Vec<String> {
    let mut canvas = Canvas::new(room, ROWS);
    let mut ends: Vec<Vec<(char, usize)>> = vec![Vec::new(); ROWS];
    let at = |(x, ns): (f64, f64)| (plot.x.at(x), plot.y.at(ns));
    // What is no line of a path has the number behind the last.
    let other = plot.lines.len();
    for (i, line) in plot.lines.iter().enumerate() {
        let points: Vec<(f64, f64)> = line.points.iter().map(|point| at((point.x, point.ns))).collect();
        for (point, at) in line.points.iter().zip(&points).filter(|(point, _)| point.marked) {
            // The quantiles' marks would hide each other where lines run together; their letters stand at the ends.
            if plot.chart == Chart::Sizes || point.words == line.points[line.points.len() - 1].words {
                canvas.mark(*at, if point.apart { '*' } else { letter(i) }, i);
            }
        }
        let every = if line.origin == Origin::Measured { 1 } else { 2 };
        points.windows(2).for_each(|pair| canvas.line(pair[0], pair[1], every, i));
        if let Some(last) = points.last() {
            ends[canvas.row(last.1)].push((letter(i), i));
        }
    }
    for (i, reference) in plot.published.iter().enumerate() {
        reference.points.iter().for_each(|point| canvas.mark(at(*point), digit(i), other));
    }
    for floor in &plot.floors {
        // The lower end alone: two lines of dots would run into each other.
        let points: Vec<(f64, f64)> = floor.points.iter().map(|(x, [low, _])| at((*x, *low))).collect();
        points.windows(2).for_each(|pair| canvas.line(pair[0], pair[1], 4, other));
        if let Some(last) = points.last() {
            ends[canvas.row(last.1)].push((FLOOR, other));
        }
    }
    let styled = |line: usize| if line == other { anstyle::Style::new() } else { style(plot.lines[line].look.0) };
    let painted = |text: &str, line: Option<usize>| line.map_or(text.into(), |line| paint(text, styled(line), colour));
    let row = |(runs, ends): (Vec<Run>, &Vec<(char, usize)>)| {
        let row: String = runs.iter().map(|(text, line)| painted(text, *line)).collect();
        let shown: String = ends.iter().take(ENDS - 1).map(|(mark, line)| painted(&mark.to_string(), Some(*line))).collect();
        format!("{row} {shown}{}", if ends.len() > ENDS - 1 { "+" } else { "" })
    };
    let rows = canvas.beside(&plot.y, plot.y.time_ticks(TIME_TICKS), TIMES).into_iter().zip(&ends);
    let mut text: Vec<String> = rows.map(row).collect();
    let share = |characters: usize| (characters + 1) as f64 / room as f64;
    let ticks = match plot.chart {
        Chart::Sizes => thinned(&plot.x, &plot.sizes, share),
        Chart::Percentiles => named(&plot.x, share),
    };
    text.extend(canvas.below(&plot.x, &ticks, TIMES, ENDS));
    let title = plot.x_title();
    text.push(format!("{}{title}", " ".repeat(TIMES + 1 + room.saturating_sub(width(title)) / 2)));
    text
}

/// The quantiles' ticks that have room.
fn named(axis: &Axis, share: impl Fn(usize) -> f64) -> Vec<Tick> {
    let mut ticks: Vec<Tick> = Vec::new();
    for tick in axis.quantile_ticks() {
        if ticks.last().is_none_or(|last| axis.at(tick.value) - axis.at(last.value) >= share(tick.label.len())) {
            ticks.push(tick);
        }
    }
    ticks
}

fn legend(plot: &Plot, columns: usize, colour: bool) -> Vec<String> {
    let (titles, cells): (Vec<Column>, Vec<Vec<String>>) = match plot.chart {
        Chart::Sizes => sizes(plot),
        Chart::Percentiles => percentiles(plot),
    };
    let (heads, rows) = grid(titles, 1, cells, columns, colour);
    let mut text = heads;
    for (i, (row, line)) in rows.into_iter().zip(&plot.lines).enumerate() {
        let mark = paint(&letter(i).to_string(), style(line.look.0), colour);
        text.extend(row.into_iter().enumerate().map(|(at, text)| match at {
            0 => text.replacen(letter(i), &mark, 1),
            _ => text,
        }));
        text.extend(line.fit_words.iter().flat_map(|words| wrap("  fit: ", words, WIDTH)));
    }
    text.extend(
        plot.floors.iter().flat_map(|floor| wrap("F ", &format!("{}, derived from what was declared", floor.words()), WIDTH)),
    );
    let published = plot.published.iter().enumerate();
    text.extend(
        published.flat_map(|(i, reference)| {
            wrap(&format!("{} ", digit(i)), &format!("{}: {}", reference.name, reference.words), WIDTH)
        }),
    );
    if plot.lines.iter().flat_map(|line| &line.points).any(|point| point.apart) {
        text.extend(wrap("* ", words::APART, WIDTH));
    }
    if plot.lines.iter().any(|line| line.origin != Origin::Measured) {
        text.push("  Lines with gaps are not measured on a real device: [emulated], [published].".into());
    }
    text
}

/// The ends of each line; the table of rows has all between.
fn sizes(plot: &Plot) -> (Vec<Column>, Vec<Vec<String>>) {
    let mut titles = vec![Column::words("  path"), Column::figures("samples")];
    titles.extend(["from B", "us"].map(|title| Column::figures(title).under("least")));
    titles.extend(["to B", "us"].map(|title| Column::figures(title).under("largest")));
    let cells = |(i, line): (usize, &Line)| {
        let mut cells = vec![
            format!("{} {}", letter(i), words::named(&line.label, line.origin)),
            words::span(line.samples.0, line.samples.1),
        ];
        let ends = [line.points.first(), line.points.last()].into_iter().flatten();
        cells.extend(ends.flat_map(|point| [point.x.to_string(), us_signed(point.ns)]));
        cells
    };
    (titles, plot.lines.iter().enumerate().map(cells).collect())
}

/// Each line at the quantiles that it has.
fn percentiles(plot: &Plot) -> (Vec<Column>, Vec<Vec<String>>) {
    let near = |line: &Line, q: f64| line.points.iter().find(|point| (point.x - q).abs() < 1e-9).map(|point| point.ns);
    let shown: Vec<f64> = QUANTILES.into_iter().filter(|q| plot.lines.iter().any(|line| near(line, *q).is_some())).collect();
    let mut titles = vec![Column::words("  path"), Column::figures("samples")];
    titles.extend(shown.iter().map(|q| Column::figures(words::quantile(*q)).under("RTT us")));
    let cells = |(i, line): (usize, &Line)| {
        let mut cells = vec![format!("{} {}", letter(i), words::named(&line.label, line.origin)), line.samples.0.to_string()];
        cells.extend(shown.iter().map(|q| near(line, *q).map_or(String::new(), us_signed)));
        cells
    };
    (titles, plot.lines.iter().enumerate().map(cells).collect())
}
