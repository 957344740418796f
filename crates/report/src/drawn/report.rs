//! The report as a document for a terminal and for Markdown, with the contents of the browser page.

use hairpin_record::run::Origin;

use super::plot::{Chart, Line, Plot};
use super::strips::{LONGEST_LABEL, cut, numbered, strips};
use super::{data, results, short, split, words};
use crate::budget;
use crate::cell::{Cell, IntoCell};
use crate::chart::picture::{Curve, Picture, ROWS};
use crate::chart::strip::{FLOOR, Strip};
use crate::columns::RTT;
use crate::doc::{Column, Doc, List, Row as TableRow, Show, Shown, Table};
use crate::figure::{fine_ratio, us_signed};
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;
use crate::view::{Breakdown, Comparison, Published, Ratio, Row, StageRow, View};

/// The widest name of a compared arm.
const LONGEST_ARM: usize = 10;
/// Quantiles shown in a legend.
const QUANTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
/// Columns of a ratio's strip.
const RATIO_COLUMNS: usize = 21;
/// The least range of a ratio's strip, so that small differences look small.
const LEAST_RATIO: f64 = 1.05;

impl Show for View {
    fn doc(&self, options: &Options) -> Doc {
        if options.brief {
            return short::view(self, options);
        }
        let mut doc = Doc::default();
        doc.text(format!("{}, {}", self.tool, self.made));
        doc.text(format!("RTT: {RTT}"));
        if !self.summary.is_empty() {
            doc.gap();
        }
        self.summary.iter().for_each(|sentence| doc.lead("  - ", sentence));
        // A record of another kind has a section of its own below.
        let others = results::any(self) || !self.comparisons.is_empty() || !self.breakdowns.is_empty();
        if !(self.rows.is_empty() && others) {
            strips(&mut doc, self, usize::MAX);
            rows(&mut doc, self);
        }
        plot(&mut doc, self, Chart::Sizes, sizes);
        plot(&mut doc, self, Chart::Percentiles, percentiles);
        split::show(&mut doc, self);
        self.comparisons.iter().for_each(|found| comparison(&mut doc, found));
        for found in &self.breakdowns {
            budgeted(&mut doc, found);
            breakdown(&mut doc, found);
        }
        results::show(&mut doc, self);
        if let Some((differ, said)) = words::hosts(self) {
            let mut items: Vec<String> = differ.into_iter().map(|(fact, values)| format!("{fact}: {values}")).collect();
            items.push(said);
            doc.list(List::plain("Differences between the hosts", items));
        }
        doc.list(published(self));
        records(&mut doc, self);
        doc.lists(words::lists(self));
        doc.data = data::data(self);
        doc
    }
}

/// The rows as a table of figures.
fn rows(doc: &mut Doc, view: &View) {
    let any = |has: fn(&Row) -> bool| view.rows.iter().any(has);
    let (lost, interval, floor) =
        (any(|row| row.lost > 0), any(|row| words::interval(&row.rtt.p50).is_some()), any(|row| row.floor_ns.is_some()));
    // If every label includes the payload, a separate column for it is not needed.
    let told = view.rows.iter().all(|row| row.label.contains(&format!("{} B", words::payload(row))));
    let cells = |row: &Row| {
        let time = |ns: Option<u64>| Cell::ns(ns);
        let mut cells = vec![Cell::Text(numbered(view, row))];
        cells.extend((!told).then(|| words::payload(row).into()));
        cells.push(row.count.into());
        cells.extend(lost.then(|| row.lost.into()));
        cells.extend([words::per_second(row.transactions_per_s).into(), time(row.rtt.min), time(row.rtt.p50.ns)]);
        cells.extend(interval.then(|| words::interval(&row.rtt.p50).into()));
        cells.extend([row.rtt.p99.ns, row.rtt.p999.ns, row.rtt.max].map(time));
        cells.extend(floor.then(|| words::floor(row.floor_ns).into()));
        cells
    };
    let rtt = |title: &str| Column::figures(title).under("RTT us");
    let mut columns = vec![Column::words(if told { "row, path, payload" } else { "row, path" })];
    columns.extend((!told).then(|| Column::figures("payload").in_unit("B")));
    columns.push(Column::figures("samples"));
    columns.extend(lost.then(|| Column::figures("lost")));
    columns.push(Column::figures("trans/s"));
    let labels = columns.len();
    columns.extend([rtt("min"), rtt("p50")]);
    columns.extend(interval.then(|| Column::page("95 % interval of p50, us")));
    columns.extend([rtt("p99"), rtt("p99.9"), rtt("max")]);
    columns.extend(floor.then(|| Column::page("floor, us (derived)")));
    doc.table(Table { empty: "(no row was measured)", ..Table::folded(columns, labels, view.rows.iter().map(cells)) });
    words::marked(view).into_iter().for_each(|words| doc.text(words));
}

/// Lines are `a`, `b` …, published figures `1`, `2` …
fn letter(line: usize) -> char {
    char::from(b'a' + (line % 26) as u8)
}

fn digit(reference: usize) -> char {
    char::from_digit((reference % 9) as u32 + 1, 10).unwrap_or('*')
}

/// The plot with its legend; nothing if there is nothing to draw.
fn plot(doc: &mut Doc, view: &View, chart: Chart, legend: fn(&Plot) -> Table) {
    let Ok(plot) = Plot::of(view, chart) else { return };
    doc.gap();
    doc.heading(format!("{} (us, log scale)", plot.title()));
    doc.chart(picture(&plot));
    doc.gap();
    doc.table(legend(&plot));
    plot.floors.iter().for_each(|floor| doc.lead("F ", format!("{}, derived from what was declared", floor.words())));
    for (i, reference) in plot.published.iter().enumerate() {
        doc.lead(format!("{} ", digit(i)), format!("{}: {}", reference.name, reference.words));
    }
    if plot.lines.iter().flat_map(|line| &line.points).any(|point| point.apart) {
        doc.lead("* ", words::APART);
    }
    if plot.lines.iter().any(|line| line.origin != Origin::Measured) {
        let mut part = Doc::default();
        part.lead("  ", "Lines with gaps are not measured on a real device: [emulated], [published].");
        doc.part(Shown::Screen, part);
    }
    plot.left_out.iter().for_each(|note| doc.lead("  ", format!("{note}.")));
}

fn picture(plot: &Plot) -> Picture {
    let line = |(i, line): (usize, &Line)| {
        let last = line.points.len().saturating_sub(1);
        // Quantile marks would hide each other where lines overlap, so only the letters at the ends are drawn.
        let marked = |at: usize| line.points[at].marked && (plot.chart == Chart::Sizes || at == last);
        let mark = |at: usize| {
            let point = &line.points[at];
            (point.x, point.ns, if point.apart { '*' } else { letter(i) })
        };
        Curve {
            points: line.joined(),
            marks: (0..line.points.len()).filter(|at| marked(*at)).map(mark).collect(),
            every: if line.origin == Origin::Measured { 1 } else { 2 },
            letter: Some(letter(i)),
            tone: Tone::Line(line.look.0),
        }
    };
    let published = plot.published.iter().enumerate().map(|(i, reference)| Curve {
        points: Vec::new(),
        marks: reference.points.iter().map(|(x, ns)| (*x, *ns, digit(i))).collect(),
        every: 0,
        letter: None,
        tone: Tone::Plain,
    });
    // The lower end alone: two dotted lines would run into each other.
    let floors = plot.floors.iter().map(|floor| Curve {
        points: floor.points.iter().map(|(x, [low, _])| (*x, *low)).collect(),
        marks: Vec::new(),
        every: 4,
        letter: Some(FLOOR),
        tone: Tone::Plain,
    });
    let curves = plot.lines.iter().enumerate().map(line).chain(published).chain(floors).collect();
    Picture { x: plot.x, y: plot.y, values: plot.values.clone(), x_title: plot.x_title(), rows: ROWS, curves }
}

/// The letter of a line, and its path.
fn named(i: usize, line: &Line) -> [Cell; 2] {
    [Cell::Word(letter(i).into(), Tone::Line(line.look.0)), cut(&words::named(&line.label, line.origin), LONGEST_LABEL).into()]
}

/// The first and last point of each line; the table of rows has the points between.
fn sizes(plot: &Plot) -> Table {
    let mut columns = vec![Column::screen(""), Column::words("path"), Column::figures("samples")];
    for (group, bytes) in [("least", "from B"), ("largest", "to B")] {
        columns.extend([bytes, "us"].map(|title| Column::figures(title).under(group)));
    }
    columns.push(Column::below("fit", "   fit: "));
    let cells = |(i, line): (usize, &Line)| {
        let mut cells = named(i, line).to_vec();
        cells.push(words::span(line.samples.0, line.samples.1).into());
        let ends = [line.points.first(), line.points.last()].into_iter().flatten();
        cells.extend(ends.flat_map(|point| [point.x.to_string().into(), Cell::Ns(point.ns)]));
        cells.push(line.fit_words.as_ref().into());
        cells
    };
    Table::folded(columns, 2, plot.lines.iter().enumerate().map(cells))
}

/// The values of each line at its quantiles.
fn percentiles(plot: &Plot) -> Table {
    let near = |line: &Line, q: f64| line.points.iter().find(|point| (point.x - q).abs() < 1e-9).map(|point| point.ns);
    let shown: Vec<f64> = QUANTILES.into_iter().filter(|q| plot.lines.iter().any(|line| near(line, *q).is_some())).collect();
    let mut columns = vec![Column::screen(""), Column::words("path"), Column::figures("samples")];
    columns.extend(shown.iter().map(|q| Column::figures(words::quantile(*q)).under("RTT us")));
    let cells = |(i, line): (usize, &Line)| {
        let mut cells = named(i, line).to_vec();
        cells.push(line.samples.0.into());
        cells.extend(shown.iter().map(|q| near(line, *q).into_cell(Cell::Ns)));
        cells
    };
    Table::folded(columns, 2, plot.lines.iter().enumerate().map(cells))
}

/// One verdict: the arms, the figures, and each ratio on a scale around 1.
fn comparison(doc: &mut Doc, found: &Comparison) {
    let tone = match found.verdict.as_str() {
        "slower" => Tone::Error,
        "unclear" => Tone::Warning,
        _ => Tone::Heading,
    };
    doc.gap();
    doc.toned("", words::verdict(found), tone);
    if !found.sentence.is_empty() {
        doc.text(&found.sentence);
    }
    // Arm names may be long, and the table has no room for that.
    let arm = |name: &str| Column::figures(cut(&clean(name), LONGEST_ARM));
    let mut columns = vec![Column::words(""), arm(&found.against), arm(&found.arm)];
    columns.extend([Column::figures("ratio"), Column::figures("interval"), Column::screen(format!("{:>11}", 1))]);
    let cells = |(one, strip): (&Ratio, Strip)| {
        vec![
            words::figure_title(&one.figure).into(),
            words::compared(one, one.against).into(),
            words::compared(one, one.value).into(),
            one.ratio.map(fine_ratio).into(),
            words::ratio_interval(one).into(),
            Cell::Text(strip.drawn(RATIO_COLUMNS)),
        ]
    };
    doc.table(Table { empty: "", ..Table::folded(columns, 1, found.ratios.iter().zip(ratios(&found.ratios)).map(cells)) });
    doc.text(words::meaning(found));
}

/// A strip for each ratio with its interval; all share one scale with 1 in the middle.
fn ratios(ratios: &[Ratio]) -> Vec<Strip> {
    let far = |ratio: Option<f64>| ratio.filter(|ratio| *ratio > 0.0 && ratio.is_finite()).map_or(0.0, |ratio| ratio.ln().abs());
    let all = ratios.iter().flat_map(|one| [one.ratio, one.low, one.high]);
    let reach = all.map(far).fold(LEAST_RATIO.ln(), f64::max);
    let at = |ratio: f64| (ratio > 0.0).then(|| 0.5 + ratio.ln() / reach / 2.0);
    let strip = |one: &Ratio| {
        let mut strip = Strip::default();
        strip.range(Some(0.5), Some(0.5), '|');
        strip.range(one.low.and_then(at), one.high.and_then(at), '━');
        strip.mark(one.ratio.and_then(at), '●');
        strip
    };
    ratios.iter().map(strip).collect()
}

/// One bar of all parts, and each with its class and source.
fn budgeted(doc: &mut Doc, found: &Breakdown) {
    doc.gap();
    doc.heading(format!("Latency budget: {}", words::breakdown(found)));
    budget::bar(doc, found);
    doc.text(&found.wire_said);
    doc.gap();
    doc.table(budget::table(found));
}

/// A bar for each stage, in the order of a round trip.
fn breakdown(doc: &mut Doc, found: &Breakdown) {
    doc.gap();
    doc.heading(format!("Where the time goes: {}", words::breakdown(found)));
    doc.text(words::headline(found));
    doc.text(words::groups(found));
    doc.gap();
    let [known, slow] = [found.typical_count > 0, found.slow_count > 0];
    let mut columns = vec![Column::words("stage"), Column::us("typical"), Column::figures("share"), Column::bar()];
    columns.extend(slow.then(|| [Column::us("slow"), Column::us("grew")]).into_iter().flatten());
    columns.extend([Column::us("p50"), Column::us("p99")]);
    // The longest stage fills the room, not the whole round trip: bars are compared with each other.
    let longest = found.stages.iter().map(|stage| stage.typical_ns).fold(0.0, f64::max);
    let line = |name: String, [typical, slow_ns]: [f64; 2], bar: Cell, quantiles: [Option<u64>; 2]| {
        let share = (known && found.typical_ns > 0.0).then(|| words::share(typical / found.typical_ns));
        let mut cells = vec![Cell::Text(name), known.then_some(typical).into_cell(Cell::Ns), share.into(), bar];
        let grew = known.then_some(slow_ns - typical).into_cell(Cell::Growth);
        cells.extend(slow.then_some([Cell::Ns(slow_ns), grew]).into_iter().flatten());
        cells.extend(quantiles.map(Cell::ns));
        TableRow::from(cells)
    };
    let mut rows = Vec::new();
    for group in found.stages.chunk_by(|a, b| (&a.direction, &a.side) == (&b.direction, &b.side)) {
        let place = words::place(&group[0]);
        let indent = if place.is_empty() { "" } else { "  " };
        if !place.is_empty() {
            let blanks = std::iter::repeat_n(Cell::Blank, columns.len() - 1);
            rows.push(TableRow::from(std::iter::once(Cell::Text(place)).chain(blanks).collect::<Vec<_>>()));
        }
        rows.extend(group.iter().map(|stage| {
            let name = cut(&format!("{indent}{}", clean(&stage.name)), LONGEST_LABEL);
            let bar = Cell::Block(stage.typical_ns / longest, colour(stage));
            line(name, [stage.typical_ns, stage.slow_ns], bar, [stage.p50_ns, stage.p99_ns])
        }));
    }
    rows.push(line("RTT".into(), [found.typical_ns, found.slow_ns], Cell::Blank, [found.traced_p50_ns, None]));
    doc.table(Table::folded(columns, 1, rows));
    let causes = found.causes.iter().map(|cause| {
        let who = if cause.who.is_empty() { String::new() } else { format!(" ({})", cause.who) };
        let advice = if cause.advice.is_empty() { String::new() } else { format!("; {}", cause.advice) };
        format!("{}{who}: {} us lost in {} round trips{advice}", cause.cause, us_signed(cause.lost_ns as f64), cause.count)
    });
    doc.list(List::plain("Causes of the slow round trips", causes.collect()));
}

/// One colour for requests, one for replies, one for everything else.
fn colour(stage: &StageRow) -> usize {
    match stage.direction.as_str() {
        "request" => 0,
        "reply" => 2,
        _ => 6,
    }
}

fn published(view: &View) -> List {
    let item = |published: &Published| {
        let points = published.points.iter().map(|[bytes, ns]| format!("{bytes} B: {} us", us_signed(*ns)));
        let points: Vec<String> = points.collect();
        format!("{}: {}. {}", published.name, words::published(published), points.join("; "))
    };
    List::plain("Published figures, not measured here", view.published.iter().map(item).collect())
}

/// The source of each record, and the command that repeats it.
fn records(doc: &mut Doc, view: &View) {
    if view.records.is_empty() {
        return;
    }
    doc.gap();
    doc.heading("How to reproduce");
    for record in &view.records {
        doc.lead(format!("{:>3}. ", record.number), words::record(record));
        if !record.command.is_empty() {
            doc.command(clean(&record.command));
        }
    }
}
