//! The output of `hairpin sweep`: a table of all cells, the effect of each factor, and interactions between factors.

use hairpin_record::compare::{Arm, Figures};
use hairpin_record::experiment::Figure;
use hairpin_record::sweep::{self, LossFree, Ratio, Sweep};

use crate::cell::{Cell, IntoCell};
use crate::columns::RTT;
use crate::compare::{interval, rounds};
use crate::doc::{Column, Doc, List, Show, Table};
use crate::figure::fine_ratio as ratio;
use crate::label::Name;
use crate::link::link_words;
use crate::notes::{ended, not_granted, warnings};
use crate::options::Options;
use crate::prose::clean;

impl Show for Sweep {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::of(&self.head, context(self));
        if !self.title.is_empty() {
            doc.text(format!("{}: {}", self.plan, self.title));
        }
        doc.text(format!("RTT: {RTT}, in us; CPU: user + system time of both sides in us per transaction"));
        doc.gap();
        doc.table(cells(self));
        doc.gap();
        doc.heading("What each factor does: a level against the first, over all levels of others");
        doc.table(effects(self));
        interactions(&mut doc, self);
        loss_free(&mut doc, self);
        doc.gap();
        doc.text(format!(
            "An interval is one of {:.2} %, so that all {} of them hold with {:.0} %. Ratios are means over cells within a round.",
            self.confidence_each * 100.0,
            4 * (self.main_effects.len() + self.interactions.len()),
            self.confidence * 100.0
        ));
        doc.lists(lists(self));
        doc.list(ended(&self.head));
        doc
    }
}

fn context(record: &Sweep) -> Vec<String> {
    let of_cells = format!("rounds of {} cells", record.cells.len());
    let mut parts =
        vec![format!("{}, order from seed {}", rounds(&record.design).replacen("rounds", &of_cells, 1), record.design.seed)];
    let link = record.cells.first().and_then(|cell| cell.arm.link.as_ref());
    parts.extend(link.map(|link| format!("over {}", link_words(link).join(", "))));
    if record.resumed_rounds > 0 {
        parts.push(format!("{} of the rounds measured before it was broken off", record.resumed_rounds));
    }
    parts
}

fn cells(record: &Sweep) -> Table {
    let segments = record.cells.iter().any(|cell| cell.arm.segments_out_per_transaction.is_some());
    let mut columns: Vec<Column> = record.factors.iter().map(|factor| Column::words(clean(&factor.name))).collect();
    columns.push(Column::figures("trans/s"));
    columns.extend(["p50", "p99", "p99.9"].map(|title| Column::us(title).under("RTT")));
    columns.push(Column::us("CPU"));
    columns.extend(segments.then(|| Column::figures("segments")));
    let bulk = record.cells.iter().any(|cell| cell.arm.bulk_bits_per_s.is_some());
    columns.extend(bulk.then(|| Column::figures("Gbit/s").under("bulk")));
    let row = |cell: &sweep::Cell| {
        let figures = typical(&cell.arm);
        let mut row: Vec<Cell> = cell.levels.iter().map(Cell::from).collect();
        row.push(figures.rate_per_s.into_cell(Cell::Rate));
        row.extend([figures.p50_ns, figures.p99_ns, figures.p999_ns, figures.cpu_ns].map(|ns| ns.into_cell(Cell::Ns)));
        row.extend(segments.then(|| cell.arm.segments_out_per_transaction.into_cell(Cell::Number)));
        row.extend(bulk.then(|| cell.arm.bulk_bits_per_s.into_cell(|bits| Cell::Number(bits / 1e9))));
        row
    };
    Table { empty: "", ..Table::new(columns, record.factors.len(), record.cells.iter().map(row)) }
}

const SHOWN: [(Figure, &str); 3] = [(Figure::P50, "RTT p50"), (Figure::Rate, "trans/s"), (Figure::Cpu, "CPU")];

fn effects(record: &Sweep) -> Table {
    let mut columns = vec![Column::words("factor")];
    for (_, group) in SHOWN {
        columns.extend(["ratio", "interval"].map(|title| Column::figures(title).under(group)));
    }
    let rows = record.main_effects.iter().map(|effect| {
        let mut row = vec![format!("{} {}/{}", effect.factor, effect.level, effect.against).into()];
        row.extend(SHOWN.iter().flat_map(|(figure, _)| shown(&effect.figures, *figure)));
        row
    });
    Table::new(columns, 1, rows)
}

/// The medians of the cell's blocks, each block weighted equally as in the ratios. A figure for which blocks are too short comes
/// from all transactions.
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

fn shown(figures: &[Ratio], figure: Figure) -> [Cell; 2] {
    let Some(found) = figures.iter().find(|found| found.figure == figure) else { return Default::default() };
    [Cell::Ratio(found.ratio), interval(found.low, found.high, "..").into()]
}

/// Round trips at the smallest and largest size beside the lossless frame rate, to show the trade-off.
fn loss_free(doc: &mut Doc, record: &Sweep) {
    let Some(first) = record.loss_free.first() else { return };
    let concerned: Vec<usize> =
        (0..record.factors.len()).filter(|at| first.levels.get(*at).is_some_and(Option::is_some)).collect();
    let sizes = || record.cells.iter().map(|cell| cell.arm.request_bytes);
    let mut shown: Vec<u64> = sizes().min().into_iter().chain(sizes().max()).collect();
    shown.dedup();
    let mut columns: Vec<Column> = concerned.iter().map(|at| Column::words(clean(&record.factors[*at].name))).collect();
    columns.extend(shown.iter().map(|bytes| Column::us(format!("{bytes} B")).under("RTT p50")));
    columns.extend(["without loss", "offered"].map(|title| Column::figures(title).under("frames/s")));
    let row = |found: &LossFree| {
        let same = |cell: &&sweep::Cell| {
            found.levels.iter().zip(&cell.levels).all(|(wanted, level)| wanted.as_ref().is_none_or(|w| w == level))
        };
        let of = |bytes: u64| {
            let cell = record.cells.iter().filter(same).find(|cell| cell.arm.request_bytes == bytes);
            cell.and_then(|cell| typical(&cell.arm).p50_ns).into_cell(Cell::Ns)
        };
        let mut row: Vec<Cell> = concerned.iter().map(|at| found.levels[*at].as_deref().unwrap_or_default().into()).collect();
        row.extend(shown.iter().map(|bytes| of(*bytes)));
        row.extend([found.frames_per_s.into_cell(Cell::Rate), Cell::Rate(found.offered_per_s)]);
        row
    };
    doc.gap();
    doc.heading(format!("Round trips, and frames of {} B without loss (FCS not included)", first.frame_bytes));
    doc.table(Table::new(columns, concerned.len(), record.loss_free.iter().map(row)));
}

/// Lists the interactions visible in p50 and counts the others.
fn interactions(doc: &mut Doc, record: &Sweep) {
    let mut items = Vec::new();
    let mut silent = 0;
    for interaction in &record.interactions {
        let found = interaction.figures.iter().find(|found| found.figure == Figure::P50);
        let Some(found) = found.filter(|found| found.tells()) else {
            silent += 1;
            continue;
        };
        let ([one, other], [level, with]) = (&interaction.factors, &interaction.levels);
        items.push(format!(
            "{one} {level} counts {} times as much at {other} {with} as at {other} {} (interval {})",
            ratio(found.ratio),
            interaction.against[1],
            interval(found.low, found.high, "..")
        ));
    }
    if silent > 0 {
        let of = if items.is_empty() { format!("none of {silent}") } else { format!("{silent} other") };
        items.push(format!("{of} pairs of levels: no interval leaves 1 out"));
    }
    doc.list(List::plain("What depends on what (RTT p50)", items));
}

fn lists(record: &Sweep) -> Vec<List> {
    let names: Vec<Name> = record.cells.iter().map(|cell| Name { base: cell.levels.join(" "), size: String::new() }).collect();
    let cells: Vec<&sweep::Cell> = record.cells.iter().collect();
    let mut general: Vec<String> = record.warnings.iter().map(|note| note.message.clone()).collect();
    general.extend(warnings(&names, &cells, |cell| &cell.arm.warnings));
    let of_frames = record.loss_free.iter().flat_map(|found| found.warnings.iter().map(move |note| (&found.io, note)));
    general.extend(of_frames.map(|(io, note)| format!("{}: {}", clean(io), clean(&note.message))));
    vec![
        List::plain("Not measured", record.left_out.clone()),
        not_granted(&names, &cells, |cell| &cell.arm.granted),
        List::warnings("Warnings", general),
    ]
}
