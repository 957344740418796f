//! The report for issues, pull requests and pages: GitHub-flavoured Markdown with the unit in every heading.

use super::plot::told_fit;
use super::words;
use crate::columns::RTT;
use crate::doc::{Column, Table};
use crate::figure::{fine_ratio, us_signed};
use crate::markdown::{escape, list, table, verbatim};
use crate::prose::clean;
use crate::view::{Breakdown, Comparison, Curve, Row, View};

/// The whole report as Markdown.
///
/// ```
/// use hairpin_report::{report_markdown, view::View};
/// assert!(report_markdown(&View::default()).contains("No row was measured."));
/// ```
pub fn report_markdown(view: &View) -> String {
    let made: Vec<String> =
        [&view.tool, &view.made].into_iter().filter(|part| !part.is_empty()).map(|part| escape(part)).collect();
    let mut text = vec!["## Latency report".into(), String::new()];
    text.extend((!made.is_empty()).then(|| format!("Made by {}.", made.join(", "))));
    text.extend(bullets(&view.summary));
    text.extend(rows(view));
    text.extend(fits(view));
    text.extend(view.comparisons.iter().flat_map(comparison));
    text.extend(view.breakdowns.iter().flat_map(breakdown));
    text.extend(hosts(view));
    text.extend(published(view));
    text.extend(records(view));
    text.extend(words::lists(view).iter().flat_map(|items| [vec![String::new()], list(items)].concat()));
    text.join("\n") + "\n"
}

/// Head, rule and rows; the first `left` columns are words.
fn lines(heads: &[String], left: usize, rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let column = |(at, head): (usize, &String)| if at < left { Column::words(head) } else { Column::figures(head) };
    let rows = rows.map(|row| row.into_iter().map(Into::into).collect::<Vec<_>>());
    table(&Table::new(heads.iter().enumerate().map(column).collect(), left, rows))
}

fn heading(title: &str) -> Vec<String> {
    vec![String::new(), format!("### {title}"), String::new()]
}

fn bullets(items: &[String]) -> Vec<String> {
    let blank = (!items.is_empty()).then(String::new);
    blank.into_iter().chain(items.iter().map(|item| format!("- {}", escape(item)))).collect()
}

/// Title, whether any row has something to say in it, and what a row says.
type Shown = (&'static str, bool, fn(&Row) -> String);

fn rows(view: &View) -> Vec<String> {
    let mut text = heading("RTT by path");
    if view.rows.is_empty() {
        text.push("No row was measured.".into());
        return text;
    }
    text.extend([
        format!("RTT: {}. Times in us. An empty cell is a figure that the samples do not support.", escape(RTT)),
        String::new(),
    ]);
    let any = |has: fn(&Row) -> bool| view.rows.iter().any(has);
    let columns: [Shown; 13] = [
        ("row", true, |row| row.number.to_string()),
        ("path", true, |row| words::plain(row) + words::mark(row)),
        ("origin", true, |row| words::origin(row.origin).into()),
        ("payload, B", true, words::payload),
        ("RTT p50, us", true, |row| words::time(row.rtt.p50.ns)),
        ("95 % interval of p50, us", any(|row| words::interval(&row.rtt.p50).is_some()), |row| {
            words::interval(&row.rtt.p50).unwrap_or_default()
        }),
        ("RTT p99, us", true, |row| words::time(row.rtt.p99.ns)),
        ("RTT p99.9, us", true, |row| words::time(row.rtt.p999.ns)),
        ("RTT max, us", true, |row| words::time(row.rtt.max)),
        ("floor, us (derived)", any(|row| row.floor_ns.is_some()), |row| words::floor(row.floor_ns)),
        ("samples", true, |row| row.count.to_string()),
        ("lost", any(|row| row.lost > 0), |row| row.lost.to_string()),
        ("transactions/s", true, |row| words::per_second(row.transactions_per_s)),
    ];
    let shown: Vec<_> = columns.into_iter().filter(|(_, shown, _)| *shown).collect();
    let heads: Vec<String> = shown.iter().map(|(head, ..)| head.to_string()).collect();
    text.extend(lines(&heads, 3, view.rows.iter().map(|row| shown.iter().map(|(.., cell)| cell(row)).collect())));
    text.extend(words::marked(view).iter().flat_map(|words| [String::new(), escape(words)]));
    text
}

fn fits(view: &View) -> Vec<String> {
    let fitted = |curve: &Curve| {
        let rows: Vec<String> = curve.rows.iter().map(ToString::to_string).collect();
        let within = curve.fit.as_ref().map_or(String::new(), |fit| format!("{:.2}", 100.0 * fit.residual));
        Some(vec![clean(&curve.label), rows.join(", "), told_fit(curve)?, within])
    };
    let found: Vec<Vec<String>> = view.curves.iter().filter_map(fitted).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let mut text = heading("RTT p50 against payload, fitted");
    let heads = ["path", "rows", "RTT p50, with intervals of 95 %", "points within, %"].map(String::from);
    text.extend(lines(&heads, 3, found.into_iter()));
    text
}

fn comparison(comparison: &Comparison) -> Vec<String> {
    let mut text = heading(&escape(&words::verdict(comparison)));
    text.extend([escape(&comparison.sentence), String::new()]);
    let heads = ["figure".into(), clean(&comparison.against), clean(&comparison.arm), "ratio".into(), "interval".into()];
    let cells = comparison.ratios.iter().map(|found| {
        vec![
            words::figure_title(&found.figure),
            words::compared(found, found.against),
            words::compared(found, found.value),
            found.ratio.map_or(String::new(), fine_ratio),
            words::ratio_interval(found),
        ]
    });
    text.extend(lines(&heads, 1, cells));
    text.extend([String::new(), escape(&words::meaning(comparison))]);
    text
}

fn breakdown(breakdown: &Breakdown) -> Vec<String> {
    let mut text = heading(&format!("Where the time goes: {}", escape(&words::breakdown(breakdown))));
    text.extend([escape(&words::headline(breakdown)), escape(&words::groups(breakdown)), String::new()]);
    let heads = ["stage", "where", "typical, us", "share", "slow, us", "grew, us", "p50, us", "p99, us"].map(String::from);
    let [typical, slow] = [breakdown.typical_count, breakdown.slow_count].map(|count| count > 0);
    let figure = |known: bool, figure: String| if known { figure } else { String::new() };
    let share = |ns: f64| if breakdown.typical_ns > 0.0 { words::share(ns / breakdown.typical_ns) } else { String::new() };
    let line = |name: String, place: String, [ns, slow_ns]: [f64; 2], quantiles: [Option<u64>; 2]| {
        let [p50, p99] = quantiles.map(words::time);
        let grew = words::growth(slow_ns - ns);
        let means = [figure(typical, us_signed(ns)), figure(typical, share(ns)), figure(slow, us_signed(slow_ns))];
        [name, place].into_iter().chain(means).chain([figure(typical && slow, grew), p50, p99]).collect::<Vec<String>>()
    };
    let stages = breakdown.stages.iter().map(|stage| {
        line(clean(&stage.name), words::place(stage), [stage.typical_ns, stage.slow_ns], [stage.p50_ns, stage.p99_ns])
    });
    let all = line("all of it".into(), String::new(), [breakdown.typical_ns, breakdown.slow_ns], [breakdown.traced_p50_ns, None]);
    text.extend(lines(&heads, 2, stages.chain([all])));
    if !breakdown.causes.is_empty() {
        text.extend([String::new(), "What the slow ones met:".into(), String::new()]);
        let heads = ["cause", "who", "what to do", "round trips", "lost, us"].map(String::from);
        let cells = breakdown.causes.iter().map(|cause| {
            let words = [&cause.cause, &cause.who, &cause.advice].map(|text| clean(text));
            words.into_iter().chain([cause.count.to_string(), us_signed(cause.lost_ns as f64)]).collect()
        });
        text.extend(lines(&heads, 3, cells));
    }
    text
}

fn hosts(view: &View) -> Vec<String> {
    let Some((differ, said)) = words::hosts(view) else { return Vec::new() };
    let mut text = heading("What differs between the hosts");
    if !differ.is_empty() {
        let heads = ["fact", "values (hosts)"].map(String::from);
        text.extend(lines(&heads, 2, differ.into_iter().map(|(fact, values)| vec![fact, values])));
        text.push(String::new());
    }
    text.push(said);
    text
}

fn published(view: &View) -> Vec<String> {
    if view.published.is_empty() {
        return Vec::new();
    }
    let mut text = heading("Published figures, not measured here");
    let heads = ["what", "origin and source", "payload, B", "RTT, us"].map(String::from);
    let cells = view.published.iter().flat_map(|published| {
        let points = published.points.iter();
        points.map(|[bytes, ns]| vec![clean(&published.name), words::published(published), bytes.to_string(), us_signed(*ns)])
    });
    text.extend(lines(&heads, 2, cells));
    text
}

/// Where each record is from, and the commands that make them again.
fn records(view: &View) -> Vec<String> {
    if view.records.is_empty() {
        return Vec::new();
    }
    let mut text = heading("How to reproduce");
    text.extend(view.records.iter().map(|record| format!("{}. {}", record.number, escape(&words::record(record)))));
    let commands = view.records.iter().filter(|record| !record.command.is_empty());
    let commands: Vec<String> = commands.flat_map(|record| [format!("# {}", record.number), clean(&record.command)]).collect();
    if !commands.is_empty() {
        text.push(String::new());
        text.extend(verbatim("sh", &commands));
    }
    text
}
