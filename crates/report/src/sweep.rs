//! The text of `hairpin sweep`: a table of all cells, what each factor does, and what depends on what.

use hairpin_record::compare::{Arm, Figures};
use hairpin_record::experiment::Figure;
use hairpin_record::sweep::{Cell, LossFree, Ratio, Sweep};
use hairpin_units::Nanos;

use crate::Options;
use crate::columns::RTT;
use crate::compare::{ratio, seconds};
use crate::figure::{decimals, rate, us_or_blank};
use crate::grid::{Column, Grid};
use crate::label::Name;
use crate::notes::{Kind, Section, ended, lines, merged, refused, warnings};
use crate::prose::{WIDTH, clean, wrap};
use crate::style::{HEADING, paint};
use crate::table::link_words;

/// The record as a screen of 80 columns.
pub fn sweep(record: &Sweep, options: &Options) -> String {
    let mut text = wrap("", &context(record), WIDTH);
    if !record.title.is_empty() {
        text.extend(wrap("", &format!("{}: {}", record.plan, record.title), WIDTH));
    }
    text.extend(wrap("", &format!("RTT: {RTT}, in us; CPU: user + system time of both sides in us per transaction"), WIDTH));
    text.push(String::new());
    text.extend(cells(record).lines(options.columns(), options.colour));
    text.push(String::new());
    text.push(paint("What each factor does: a level against the first, over all levels of others", HEADING, options.colour));
    text.extend(effects(record).lines(options.columns(), options.colour));
    text.extend(interactions(record, options));
    text.extend(loss_free(record, options));
    text.push(String::new());
    let meaning = format!(
        "An interval is one of {:.2} %, so that all {} of them hold with {:.0} %. Ratios are means over cells within a round.",
        record.confidence_each * 100.0,
        4 * (record.main_effects.len() + record.interactions.len()),
        record.confidence * 100.0
    );
    text.extend(wrap("", &meaning, WIDTH));
    text.extend(lines(&sections(record), options.colour));
    text.join("\n") + "\n"
}

fn context(record: &Sweep) -> String {
    let design = &record.design;
    let mut parts = vec![
        record.head.tool.clone(),
        record.head.started.clone(),
        format!(
            "{} rounds of {} cells in {}, blocks of {}, order from seed {}",
            design.rounds,
            record.cells.len(),
            seconds(design.elapsed_ns as f64 / 1e9),
            Nanos(design.block_ns / 1_000_000 * 1_000_000),
            design.seed
        ),
    ];
    parts.extend(
        record.cells.first().and_then(|cell| cell.arm.link.as_ref()).map(|link| format!("over {}", link_words(link).join(", "))),
    );
    if record.resumed_rounds > 0 {
        parts.push(format!("{} of the rounds measured before it was broken off", record.resumed_rounds));
    }
    parts.join(", ")
}

fn cells(record: &Sweep) -> Grid {
    let segments = record.cells.iter().any(|cell| cell.arm.segments_out_per_transaction.is_some());
    let mut columns: Vec<Column> = record.factors.iter().map(|factor| Column::words(&clean(&factor.name))).collect();
    columns.push(Column::figures("trans/s"));
    columns.extend(["p50", "p99", "p99.9"].map(|title| Column::figures(title).under("RTT")));
    columns.push(Column::figures("CPU"));
    if segments {
        columns.push(Column::figures("segments"));
    }
    let bulk = record.cells.iter().any(|cell| cell.arm.bulk_bits_per_s.is_some());
    if bulk {
        columns.push(Column::figures("Gbit/s").under("bulk"));
    }
    let row = |cell: &Cell| {
        let figures = typical(&cell.arm);
        let mut row: Vec<String> = cell.levels.iter().map(|level| clean(level)).collect();
        row.push(figures.rate_per_s.map_or_else(String::new, rate));
        row.extend([figures.p50_ns, figures.p99_ns, figures.p999_ns, figures.cpu_ns].map(us_or_blank));
        if segments {
            row.push(cell.arm.segments_out_per_transaction.map_or_else(String::new, decimals));
        }
        if bulk {
            row.push(cell.arm.bulk_bits_per_s.map_or_else(String::new, |bits| decimals(bits / 1e9)));
        }
        row
    };
    Grid { columns, labels: record.factors.len(), rows: record.cells.iter().map(row).collect() }
}

const SHOWN: [(Figure, &str); 3] = [(Figure::P50, "RTT p50"), (Figure::Rate, "trans/s"), (Figure::Cpu, "CPU")];

fn effects(record: &Sweep) -> Grid {
    let mut columns = vec![Column::words("factor")];
    for (_, group) in SHOWN {
        columns.extend([Column::figures("ratio").under(group), Column::figures("interval").under(group)]);
    }
    let rows = record.main_effects.iter().map(|effect| {
        let mut row = vec![format!("{} {}/{}", clean(&effect.factor), clean(&effect.level), clean(&effect.against))];
        row.extend(SHOWN.iter().flat_map(|(figure, _)| shown(&effect.figures, *figure)));
        row
    });
    Grid { columns, labels: 1, rows: rows.collect() }
}

/// The medians of the cell's blocks, which weigh alike as they do in ratios; what blocks are too short for is that of all transactions.
fn typical(arm: &Arm) -> Figures {
    let (pooled, typical) = (arm.figures, arm.typical.unwrap_or_default());
    Figures {
        p50_ns: typical.p50_ns.or(pooled.p50_ns),
        p99_ns: typical.p99_ns.or(pooled.p99_ns),
        p999_ns: typical.p999_ns.or(pooled.p999_ns),
        rate_per_s: typical.rate_per_s.or(pooled.rate_per_s),
        cpu_ns: typical.cpu_ns.or(pooled.cpu_ns),
    }
}

fn shown(figures: &[Ratio], figure: Figure) -> [String; 2] {
    let Some(found) = figures.iter().find(|found| found.figure == figure) else { return [String::new(), String::new()] };
    let interval = match (found.low, found.high) {
        (Some(low), Some(high)) => format!("{}..{}", ratio(low), ratio(high)),
        _ => "not known".into(),
    };
    [ratio(found.ratio), interval]
}

/// Round trips of the least and the most bytes beside the frames per second that nothing is lost at: what the one costs in the other.
fn loss_free(record: &Sweep, options: &Options) -> Vec<String> {
    let Some(first) = record.loss_free.first() else { return Vec::new() };
    let concerned: Vec<usize> =
        (0..record.factors.len()).filter(|at| first.levels.get(*at).is_some_and(Option::is_some)).collect();
    let sizes = || record.cells.iter().map(|cell| cell.arm.request_bytes);
    let mut shown: Vec<u64> = sizes().min().into_iter().chain(sizes().max()).collect();
    shown.dedup();
    let mut columns: Vec<Column> = concerned.iter().map(|at| Column::words(&clean(&record.factors[*at].name))).collect();
    columns.extend(shown.iter().map(|bytes| Column::figures(format!("{bytes} B")).under("RTT p50")));
    columns.push(Column::figures("without loss").under("frames/s"));
    columns.push(Column::figures("offered").under("frames/s"));
    let row = |found: &LossFree| {
        let same = |cell: &&Cell| {
            found.levels.iter().zip(&cell.levels).all(|(wanted, level)| wanted.as_ref().is_none_or(|w| w == level))
        };
        let of = |bytes: u64| {
            let cell = record.cells.iter().filter(same).find(|cell| cell.arm.request_bytes == bytes);
            cell.map_or_else(String::new, |cell| us_or_blank(typical(&cell.arm).p50_ns))
        };
        let mut row: Vec<String> =
            concerned.iter().map(|at| found.levels[*at].as_deref().map_or_else(String::new, clean)).collect();
        row.extend(shown.iter().map(|bytes| of(*bytes)));
        row.extend([found.frames_per_s.map_or_else(String::new, rate), rate(found.offered_per_s)]);
        row
    };
    let heading = format!("Round trips, and frames of {} B without loss (FCS not included)", first.frame_bytes);
    let grid = Grid { columns, labels: concerned.len(), rows: record.loss_free.iter().map(row).collect() };
    let mut text = vec![String::new(), paint(&heading, HEADING, options.colour)];
    text.extend(grid.lines(options.columns(), options.colour));
    text
}

/// Those whose p50 tells; the others are counted.
fn interactions(record: &Sweep, options: &Options) -> Vec<String> {
    if record.interactions.is_empty() {
        return Vec::new();
    }
    let mut text = vec![String::new(), paint("What depends on what (RTT p50)", HEADING, options.colour)];
    let mut silent = 0;
    for interaction in &record.interactions {
        let found = interaction.figures.iter().find(|found| found.figure == Figure::P50);
        let Some(found) = found.filter(|found| found.tells()) else {
            silent += 1;
            continue;
        };
        let ([one, other], [level, with]) = (&interaction.factors, &interaction.levels);
        let [_, interval] = shown(&interaction.figures, Figure::P50);
        let line = format!(
            "{one} {level} counts {} times as much at {other} {with} as at {other} {} (interval {interval})",
            ratio(found.ratio),
            interaction.against[1]
        );
        text.extend(wrap("  - ", &line, WIDTH));
    }
    if silent > 0 {
        let whole = silent == record.interactions.len();
        let line = if whole {
            format!("none of {silent} pairs of levels: no interval leaves 1 out")
        } else {
            format!("{silent} other pairs of levels: no interval leaves 1 out")
        };
        text.extend(wrap("  - ", &line, WIDTH));
    }
    text
}

fn sections(record: &Sweep) -> Vec<Section> {
    let names: Vec<Name> = record.cells.iter().map(|cell| Name { base: cell.levels.join(" "), size: String::new() }).collect();
    let cells: Vec<&Cell> = record.cells.iter().collect();
    let mut general: Vec<String> = record.warnings.iter().map(|note| note.message.clone()).collect();
    general.extend(warnings(&names, &cells, |cell| &cell.arm.warnings));
    let of_frames = record.loss_free.iter().flat_map(|found| found.warnings.iter().map(move |note| (&found.io, note)));
    general.extend(of_frames.map(|(io, note)| format!("{}: {}", clean(io), clean(&note.message))));
    let sections = [
        Section { heading: "Not measured", kind: Kind::Plain, items: record.left_out.clone() },
        Section {
            heading: "Asked for, not granted",
            kind: Kind::Plain,
            items: merged(&names, &cells, |cell| refused(&cell.arm.granted)),
        },
        Section { heading: "Warnings", kind: Kind::Warning, items: general },
    ];
    let sections = sections.into_iter().filter(|section| !section.items.is_empty());
    sections.chain(ended(record.head.error.as_deref(), record.head.interrupted)).collect()
}
