//! The report without a browser: goldens of Markdown, SVG and terminal, and rules that hold for any view.
//!
//! After a change of a format run `INSTA_UPDATE=always cargo test -p hairpin-report --test main drawn` and look at the
//! difference, and at the pictures: cut a picture out of its golden and look at it with `rsvg-convert`.

pub mod views;

use hairpin_record::any::AnyRecord;
use hairpin_report::view::{Beside, Curve, Input, View, Wire};
use hairpin_report::{Chart, Options, budget_svg, report_svg};
use insta::assert_snapshot;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

/// The text that a terminal shows, without colours.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |shown, part| {
        let (escape, rest) = part.split_once('m').expect("an escape of colours ends in m");
        assert!(escape.bytes().all(|c| c.is_ascii_digit() || c == b';'), "{escape}");
        shown + rest
    })
}

/// Asserts that the text has no control characters, fits the width, and is the same with colours.
fn term(view: &View, columns: usize) -> String {
    let plain = hairpin_report::term(view, &Options { width: columns, ..Options::default() });
    let coloured = without_colours(&hairpin_report::term(view, &Options { width: columns, colour: true, ..Options::default() }));
    assert_eq!(coloured.lines().count(), plain.lines().count());
    coloured.lines().zip(plain.lines()).for_each(|(coloured, plain)| assert_eq!(coloured, plain));
    for line in plain.lines() {
        assert!(line.width() <= columns.max(80), "{} columns: {line}", line.width());
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert_eq!(line, line.trim_end());
    }
    plain
}

/// Asserts that the document is XML with every text intact, and that it runs and loads nothing.
fn svg(view: &View, chart: Chart) -> String {
    sound(report_svg(view, chart))
}

fn sound(text: String) -> String {
    let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let known = ["svg", "title", "desc", "style", "rect", "g", "polyline", "polygon", "path", "text"];
        assert!(known.contains(&node.tag_name().name()), "{node:?}");
        let drawn = ["points", "d", "x", "y"].iter().filter_map(|name| node.attribute(*name));
        drawn.for_each(|numbers| assert!(!numbers.contains("NaN") && !numbers.contains("inf"), "{numbers}"));
    }
    text
}

/// The visible text of a picture and its text for screen readers.
fn texts(svg: &str, tag: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let nodes = document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", tag)));
    nodes.map(|node| node.text().unwrap_or_default().to_owned()).collect()
}

fn lines_with(svg: &str, class: &str) -> usize {
    let document = roxmltree::Document::parse(svg).unwrap();
    let nodes = document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "polyline")));
    nodes.filter(|node| node.attribute("class").is_some_and(|classes| classes.split(' ').any(|c| c == class))).count()
}

/// A line of the Markdown table has as many cells as its head, whatever stands in them.
fn markdown(view: &View) -> String {
    let text = hairpin_report::markdown(view, &Options::default());
    let cells = |line: &str| line.replace("\\\\", "").replace("\\|", "").matches('|').count();
    let tables: Vec<&str> = text.lines().collect();
    for table in tables.chunk_by(|a, b| a.starts_with('|') == b.starts_with('|')).filter(|table| table[0].starts_with('|')) {
        assert!(table.iter().all(|line| cells(line) == cells(table[0])), "{table:?}");
    }
    text
}

#[test]
fn markdown_of_everything() {
    assert_snapshot!(markdown(&views::everything()));
}

#[test]
fn term_of_everything() {
    assert_snapshot!(term(&views::everything(), 80));
}

#[test]
fn term_of_everything_on_a_wide_screen() {
    assert_snapshot!(term(&views::everything(), 132));
}

#[test]
fn svg_of_sizes() {
    let picture = svg(&views::everything(), Chart::Sizes);
    assert_eq!((lines_with(&picture, "line"), lines_with(&picture, "emulated"), lines_with(&picture, "fit")), (4, 1, 4));
    assert_eq!(lines_with(&picture, "floor"), 3, "both ends, and a piece before the label");
    let told = texts(&picture, "desc").concat();
    assert!(told.contains("udp:spin, measured, 200000 samples. 64 B: RTT p50 4.668 us"), "{told}");
    assert_snapshot!(picture);
}

#[test]
fn svg_of_percentiles() {
    let picture = svg(&views::everything(), Chart::Percentiles);
    assert_eq!(lines_with(&picture, "line"), 12);
    assert!(texts(&picture, "text").iter().any(|text| text == "8 more rows are left out."));
    assert_snapshot!(picture);
}

#[test]
fn svg_of_loads() {
    let picture = svg(&views::loads(), Chart::Load);
    assert_eq!(
        (lines_with(&picture, "line"), lines_with(&picture, "fit")),
        (4, 2),
        "of each load from due, and dotted from sent"
    );
    assert_eq!(
        (lines_with(&picture, "interval"), picture.matches("<polygon ").count()),
        (1, 1),
        "the knee and the room beyond it"
    );
    assert_eq!(picture.matches(" apart\" d=").count(), 2, "one rate from due and from sent");
    let told = texts(&picture, "desc").concat();
    for words in [
        "udp:spin, 64 B, from due, measured, 40000 to 440000 requests due. 20 k/s: RTT p99 8.002 us, 40000 requests due; ",
        "udp:spin, 64 B, from sent, measured, ",
        "The knee: it keeps up with 180000/s, and at 200000/s",
        "tcp:block, 64 B, from due, measured, 8000 to 72000 requests due. ",
        "No knee: it keeps up with 36000/s, the highest rate offered.",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let shown = texts(&picture, "text");
    for words in ["offered transactions/s (log scale)", "RTT p99 in us", "4000", "220000"] {
        assert!(shown.iter().any(|text| text == words), "{words}: {shown:?}");
    }
    assert_snapshot!(picture);
    let mut view = views::loads();
    view.loads.iter_mut().for_each(|load| load.rates.truncate(1));
    let why = "Nothing to draw: no load was measured at two rates or more, with a p99 at each.";
    assert!(texts(&svg(&view, Chart::Load), "text").iter().any(|text| text == why));
}

#[test]
fn a_caption_of_three_lines_moves_the_plot_down() {
    let height = |apart: bool| {
        let mut view = views::loads();
        view.loads[0].rates[2].apart = apart;
        let picture = svg(&view, Chart::Load);
        let document = roxmltree::Document::parse(&picture).unwrap();
        document.root_element().attribute("height").unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(height(true) - height(false), 16.0);
}

#[test]
fn svg_of_a_budget() {
    let picture = sound(budget_svg(&views::everything()));
    let told = texts(&picture, "desc").concat();
    assert!(told.contains("pcie write 0.968 us (published)"), "{told}");
    assert!(
        told.contains("4.90 us, no NIC and no cable in it. Theirs, derived: 3.98 us (niq")
            && told.contains("The sum, derived: 8.88 us."),
        "{told}"
    );
    assert_snapshot!(picture);
    let view = View::default();
    assert!(texts(&sound(budget_svg(&view)), "text").iter().any(|text| text == "Nothing to draw: no path was explained."));
    sound(budget_svg(&views::hostile()));
}

/// Names of the budget's rows with their figures and classes, as Markdown has them.
fn budget(view: &View) -> Vec<[String; 3]> {
    let text = markdown(view);
    let table = text.split("| part |").nth(1).unwrap().split("\n\n").next().unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    table.lines().skip(2).map(cells).map(|cells| [2, 3, 4].map(|at| cells[at].clone())).collect()
}

#[test]
fn a_floor_within_a_measured_time_is_not_added_to_it() {
    let mut view = views::everything();
    let breakdown = &mut view.breakdowns[0];
    let [first, ..] = &mut breakdown.stages[..] else { panic!("stages") };
    (first.name, first.part, first.typical_ns) = ("outside".into(), "outside".into(), 9_000.0);
    breakdown.wire = Wire::Outside;
    breakdown.typical_ns = breakdown.stages.iter().map(|stage| stage.typical_ns).sum();
    let row = |name: &str, figure: &str, class: &str| [name, figure, class].map(str::to_owned);
    let rows = budget(&view);
    assert!(rows.contains(&row("rest, less the floor", "5.022", "derived")), "{rows:?}");
    assert_eq!(rows.last(), Some(&row("", "13.28", "measured")), "no sum of measured and derived");
    assert!(markdown(&view).contains("Of 9.00 us outside of both hosts, 3.98 us (niq"));
    // A floor above the measured time is named, not drawn.
    view.breakdowns[0].stages[0].typical_ns = 3_000.0;
    assert!(budget(&view).iter().all(|[_, _, class]| class == "measured"));
    assert!(markdown(&view).contains("this link is another one"));
    // Nothing measured could hold it.
    view.breakdowns[0].stages[0].part = "kernel".into();
    assert!(markdown(&view).contains("No stage outside of both hosts was seen"));
    assert!(budget(&view).iter().all(|[_, _, class]| class == "measured"));
}

#[test]
fn a_floor_beside_a_measured_time_makes_a_derived_sum() {
    let rows = budget(&views::everything());
    let row = |name: &str, figure: &str, class: &str| [name, figure, class].map(str::to_owned);
    assert!(rows.contains(&row("cable", "0.030", "published")), "{rows:?}");
    assert!(rows.contains(&row("driver", "0.373", "measured")), "both ways together: {rows:?}");
    assert_eq!(rows[rows.len() - 2..], [row("", "4.899", "measured"), row("", "8.877", "derived")]);
}

#[test]
fn nothing_measured() {
    let view = View { tool: "hairpin 0.1.0".into(), made: "2026-11-21T10:00:00Z".into(), ..View::default() };
    assert_snapshot!(markdown(&view));
    assert_snapshot!(term(&view, 80));
    assert_snapshot!(svg(&view, Chart::Sizes));
    svg(&view, Chart::Percentiles);
    svg(&view, Chart::Load);
}

#[test]
fn one_sample() {
    let view = views::counted(1);
    assert_snapshot!(markdown(&view));
    assert_snapshot!(term(&view, 80));
    assert!(svg(&view, Chart::Percentiles).contains("Nothing to draw"));
}

#[test]
fn a_thousand_million_samples() {
    let view = views::counted(1_000_000_000);
    assert_snapshot!(term(&view, 80));
    let picture = svg(&view, Chart::Percentiles);
    assert!(texts(&picture, "text").iter().any(|text| text == "measured, 1000000000 samples"));
    assert!(texts(&picture, "text").iter().any(|text| text == "p99.999"));
}

#[test]
fn hostile_words() {
    let view = views::hostile();
    let text = markdown(&view);
    // In a block of code nothing is linked, and nothing is escaped.
    let prose: String = text.split("````").step_by(2).map(|text| text.replace("\\<", "")).collect();
    for linked in ["@root", "#1", "http://", "<script", "<img"] {
        assert!(text.contains(linked) && !prose.contains(linked), "{linked}");
    }
    assert_snapshot!(text);
    assert_snapshot!(term(&view, 80));
    assert_snapshot!(svg(&view, Chart::Sizes));
    let told = texts(&svg(&view, Chart::Percentiles), "title").concat();
    assert!(told.contains("</title><script>alert(1)</script>"), "the words themselves stay: {told}");
}

#[test]
fn more_paths_than_can_be_told_apart() {
    let view = views::paths(15);
    let picture = svg(&view, Chart::Sizes);
    assert_eq!(lines_with(&picture, "line"), 12);
    assert!(texts(&picture, "text").iter().any(|text| text == "3 more paths are left out."));
    assert!(term(&view, 80).contains("  3 more paths are left out.\n"));
}

#[test]
fn a_size_of_no_bytes_is_drawn() {
    let mut view = views::paths(1);
    view.rows[0].request_bytes = 0;
    view.rows[0].reply_bytes = 0;
    assert!(texts(&svg(&view, Chart::Sizes), "text").iter().any(|text| text == "0"));
    term(&view, 80);
}

fn word() -> impl Strategy<Value = String> {
    "\\PC{0,60}|.{0,30}|[a-z:,=/]{0,90}"
}

prop_compose! {
    fn any_row()(
        (label, path, message) in (word(), word(), word()),
        counts in (0u64..=u64::MAX, any::<u64>(), any::<u64>(), any::<u64>()),
        (ns, floor, rate) in (prop::collection::vec(prop::option::of(any::<u64>()), 8), prop::option::of((any::<f64>(), any::<f64>())), any::<f64>()),
        percentiles in prop::collection::vec((any::<f64>(), any::<u64>()), 0..5),
        origin in 0usize..3,
    ) -> hairpin_report::view::Row {
        let mut row = views::row(1, 1, "udp", counts.0, 64, 4_883.0);
        (row.label, row.path, row.request_bytes, row.reply_bytes, row.lost) = (label, path, counts.1, counts.2, counts.3);
        (row.rtt.min, row.rtt.p50.ns, row.rtt.p50.low_ns, row.rtt.p50.high_ns) = (ns[0], ns[1], ns[2], ns[3]);
        (row.rtt.p99.ns, row.rtt.p999.ns, row.rtt.max) = (ns[4], ns[5], ns[6]);
        row.floor_ns = floor.map(|(low, high)| [low, high]);
        row.transactions_per_s = rate;
        row.percentiles = percentiles.into_iter().map(|(q, ns)| hairpin_report::view::Percentile { q, ns }).collect();
        row.origin = views::ORIGINS[origin];
        row.warnings.push(hairpin_report::view::Warning { code: "loss".into(), message });
        row
    }
}

prop_compose! {
    fn any_view()(
        mut rows in prop::collection::vec(any_row(), 0..5),
        words in prop::collection::vec(word(), 24),
        figures in prop::collection::vec(any::<f64>(), 16),
        ratios in prop::collection::vec(prop::option::of(any::<f64>()), 5),
        counts in (any::<u64>(), any::<u64>()),
    ) -> View {
        rows.iter_mut().enumerate().for_each(|(i, row)| row.number = i + 1);
        let mut view = views::everything();
        let numbers: Vec<usize> = rows.iter().map(|row| row.number).collect();
        view.curves = vec![Curve { record: 1, label: words[0].clone(), rows: numbers, fit: views::everything().curves[0].fit, fit_note: None }];
        view.rows = rows;
        view.summary = vec![words[1].clone()];
        let record = &mut view.records[0];
        (record.name, record.command, record.link, record.ended) = (words[2].clone(), words[3].clone(), words[4].clone(), Some(words[5].clone()));
        let breakdown = &mut view.breakdowns[0];
        (breakdown.label, breakdown.typical_ns, breakdown.slow_ns) = (words[6].clone(), figures[0], figures[1]);
        (breakdown.typical_count, breakdown.slow_count) = counts;
        let stage = &mut breakdown.stages[0];
        (stage.name, stage.typical_ns, stage.slow_ns, stage.side) = (words[7].clone(), figures[2], figures[3], words[8].clone());
        let cause = &mut breakdown.causes[0];
        (cause.cause, cause.who, cause.advice, cause.lost_ns) = (words[9].clone(), words[10].clone(), words[11].clone(), counts.0);
        let comparison = &mut view.comparisons[0];
        (comparison.arm, comparison.against, comparison.sentence) = (words[12].clone(), words[13].clone(), words[14].clone());
        (comparison.verdict, comparison.margin, comparison.confidence) = (words[15].clone(), figures[4], figures[5]);
        let ratio = &mut comparison.ratios[0];
        (ratio.against, ratio.value, ratio.ratio, ratio.low, ratio.high) = (ratios[0], ratios[1], ratios[2], ratios[3], ratios[4]);
        comparison.ratios[3].value = ratios[2];
        (view.hosts[0], view.facts[0].name, view.facts[0].values[0]) = (words[16].clone(), words[17].clone(), Some(words[18].clone()));
        let published = &mut view.published[0];
        (published.name, published.what, published.source) = (words[19].clone(), words[20].clone(), words[21].clone());
        published.points.push([figures[6], figures[7]]);
        (view.tool, view.made) = (words[22].clone(), words[23].clone());
        beyond_rows(&mut view, &words, &figures, [counts.0, counts.1]);
        view
    }
}

/// The fields that records without rows have.
fn beyond_rows(view: &mut View, words: &[String], figures: &[f64], counts: [u64; 2]) {
    let older = AnyRecord::all(include_bytes!("../../record/tests/data/older.jsonl")).unwrap();
    let given: Vec<Input> = older.into_iter().map(|record| Input { name: "older".into(), record }).collect();
    let all = hairpin_report::view(&given, "", Beside::default());
    (view.loads, view.frames, view.checks) = (all.loads, all.frames, all.checks);
    (view.applications, view.reads, view.steps) = (all.applications, all.reads, all.steps);
    let load = &mut view.loads[0];
    (load.label, load.knee) = (words[0].clone(), words[1].clone());
    for at in 0..4 {
        let mut rate = load.rates[0].clone();
        (rate.offered_per_s, rate.achieved_per_s, rate.due) = (figures[8 + at], figures[12 + at], counts[0]);
        (rate.from_due.p99.ns, rate.from_sent.p99.ns) = (Some(counts[0]), Some(counts[1]));
        load.rates.push(rate);
    }
    let frames = &mut view.frames[0];
    (frames.label, frames.offered_per_s, frames.lost) = (words[2].clone(), Some(figures[8]), counts[1]);
    let check = &mut view.checks[0];
    (check.known_ns, check.error_ns, check.bound_ns) = (figures[9], figures[10], counts[0]);
    let application = &mut view.applications[0];
    application.said = words[3].clone();
    let stage = &mut application.stages[0];
    (stage.name, stage.share, stage.p99_ns) = (words[4].clone(), figures[11], Some(counts[1]));
    view.reads.iter_mut().for_each(|read| (read.label, read.times.mean) = (words[6].clone(), Some(figures[12])));
    view.steps.iter_mut().for_each(|step| (step.name, step.alone_ns) = (words[7].clone(), figures[13]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn any_view_can_be_drawn(view in any_view(), columns in 0usize..200) {
        term(&view, columns);
        markdown(&view);
        svg(&view, Chart::Sizes);
        svg(&view, Chart::Percentiles);
        svg(&view, Chart::Load);
        sound(budget_svg(&view));
    }
}
