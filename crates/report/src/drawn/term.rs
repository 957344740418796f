//! The report for a terminal: dots and intervals on a log scale, plots in braille, bars; and every figure in a table too, for those whose font has no braille.

mod bars;
mod command;
mod plots;
mod strip;
mod table;

use self::table::{grid, numbered};
use super::plot::Chart;
use super::words;
use crate::columns::RTT;
use crate::doc::Column;
use crate::figure::{fine_ratio, us_signed};
use crate::prose::{WIDTH, clean, wrap};
use crate::style::Tone;
use crate::term::{heading, list};
use crate::view::{Comparison, Row, View};

/// The name of a compared arm as a title; the verdict above has it whole.
const LONGEST_ARM: usize = 10;

/// The whole report as lines of at most `columns`; less than 80 counts as 80.
///
/// ```
/// use hairpin_report::{report_term, view::View};
/// assert!(report_term(&View::default(), 80, false).contains("(no row was measured)"));
/// ```
pub fn report_term(view: &View, columns: usize, colour: bool) -> String {
    let columns = columns.max(80);
    let mut text = head(view);
    text.extend(strip::rows(view, columns, colour));
    text.extend(rows(view, columns, colour));
    for chart in [Chart::Sizes, Chart::Percentiles] {
        text.extend(plots::plot(view, chart, columns, colour));
    }
    text.extend(view.comparisons.iter().flat_map(|found| comparison(found, columns, colour)));
    text.extend(view.breakdowns.iter().flat_map(|breakdown| bars::breakdown(breakdown, columns, colour)));
    text.extend(hosts(view, colour));
    text.extend(published(view, columns, colour));
    text.extend(records(view, columns, colour));
    text.extend(words::lists(view).iter().flat_map(|items| list(items, colour)));
    text.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn head(view: &View) -> Vec<String> {
    let made: Vec<String> =
        [&view.tool, &view.made].into_iter().filter(|part| !part.is_empty()).map(|part| clean(part)).collect();
    let mut text = Vec::new();
    text.extend((!made.is_empty()).then(|| wrap("", &made.join(", "), WIDTH)).into_iter().flatten());
    text.extend(wrap("", &format!("RTT: {RTT}"), WIDTH));
    text.extend((!view.summary.is_empty()).then(String::new));
    text.extend(view.summary.iter().flat_map(|sentence| wrap("  - ", sentence, WIDTH)));
    text
}

/// The rows in figures.
fn rows(view: &View, columns: usize, colour: bool) -> Vec<String> {
    if view.rows.is_empty() {
        return vec![String::new(), "(no row was measured)".into()];
    }
    let lost = view.rows.iter().any(|row| row.lost > 0);
    // Most labels tell the payload; then a column of it has no room to take.
    let told = view.rows.iter().all(|row| row.label.contains(&format!("{} B", words::payload(row))));
    let cells = |row: &Row| {
        let mut cells = vec![numbered(view, row)];
        cells.extend((!told).then(|| words::payload(row)));
        cells.push(row.count.to_string());
        cells.extend(lost.then(|| row.lost.to_string()));
        cells.push(words::per_second(row.transactions_per_s));
        cells.extend([row.rtt.min, row.rtt.p50.ns, row.rtt.p99.ns, row.rtt.p999.ns, row.rtt.max].map(words::time));
        cells
    };
    let mut titles = vec![Column::words(if told { "row, path, payload" } else { "row, path" })];
    titles.extend((!told).then(|| Column::figures("payload")));
    titles.push(Column::figures("samples"));
    titles.extend(lost.then(|| Column::figures("lost")));
    titles.push(Column::figures("trans/s"));
    titles.extend(["min", "p50", "p99", "p99.9", "max"].map(|title| Column::figures(title).under("RTT us")));
    let labels = titles.len() - 5;
    let (heads, rows) = grid(titles, labels, view.rows.iter().map(cells).collect(), columns, colour);
    let mut text = vec![String::new()];
    text.extend(heads.into_iter().chain(rows.into_iter().flatten()));
    text.extend(words::marked(view).iter().flat_map(|words| wrap("", words, WIDTH)));
    text
}

/// One verdict: what was compared, the figures, and each ratio on a scale round 1.
fn comparison(found: &Comparison, columns: usize, colour: bool) -> Vec<String> {
    let tone = match found.verdict.as_str() {
        "slower" => Tone::Error,
        "unclear" => Tone::Warning,
        _ => Tone::Heading,
    };
    let mut text = vec![String::new()];
    text.extend(wrap("", &words::verdict(found), WIDTH).iter().map(|line| tone.paint(line, colour)));
    text.extend(wrap("", &found.sentence, WIDTH).into_iter().filter(|line| !line.is_empty()));
    let ratios = strip::ratios(&found.ratios);
    let cells = found.ratios.iter().zip(&ratios).map(|(one, strip)| {
        vec![
            words::figure_title(&one.figure),
            words::compared(one, one.against),
            words::compared(one, one.value),
            one.ratio.map_or(String::new(), fine_ratio),
            words::ratio_interval(one),
            strip.clone(),
        ]
    });
    // Arms may have any names; in the table there is no room for long ones.
    let arm = |name: &str| strip::cut(&clean(name), LONGEST_ARM);
    let mut titles = vec![Column::words("")];
    titles.extend([arm(&found.against), arm(&found.arm), "ratio".into(), "interval".into()].map(Column::figures));
    titles.push(Column::words(strip::RATIO_TITLE));
    let (heads, rows) = grid(titles, 1, cells.collect(), columns, colour);
    text.extend(heads.into_iter().chain(rows.into_iter().flatten()));
    text.extend(wrap("", &words::meaning(found), WIDTH));
    text
}

fn hosts(view: &View, colour: bool) -> Vec<String> {
    let Some((differ, said)) = words::hosts(view) else { return Vec::new() };
    let mut text = heading("What differs between the hosts", colour);
    for (fact, values) in differ {
        text.extend(wrap("  - ", &format!("{fact}: {values}"), WIDTH));
    }
    text.extend(wrap("  ", &said, WIDTH));
    text
}

fn published(view: &View, columns: usize, colour: bool) -> Vec<String> {
    if view.published.is_empty() {
        return Vec::new();
    }
    let mut text = heading("Published figures, not measured here", colour);
    for published in &view.published {
        text.extend(wrap("  - ", &format!("{}: {}", published.name, words::published(published)), WIDTH));
        let points = published.points.iter().map(|[bytes, ns]| format!("{bytes} B: {} us", us_signed(*ns)));
        text.extend(wrap("    ", &points.collect::<Vec<_>>().join("; "), columns.min(WIDTH)));
    }
    text
}

/// Where each record is from, and the command that makes it again.
fn records(view: &View, columns: usize, colour: bool) -> Vec<String> {
    let items: Vec<Vec<String>> = view
        .records
        .iter()
        .map(|record| {
            let mut lines = wrap(&format!("{:>3}. ", record.number), &words::record(record), WIDTH);
            if !record.command.is_empty() {
                lines.extend(command::lines("       ", &clean(&record.command), columns));
            }
            lines
        })
        .collect();
    if items.is_empty() { Vec::new() } else { [heading("How to reproduce", colour), items.concat()].concat() }
}
