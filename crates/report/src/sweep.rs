//! The output of `hairpin sweep`: the strongest effect, the effect of each factor; in detail a table of all cells, and
//! interactions between factors.

use hairpin_record::compare::{Arm, Figures};
use hairpin_record::experiment::Figure;
use hairpin_record::sweep::{self, LossFree, Ratio, Sweep};
use hairpin_units::Arrange;

use crate::brief::placed;
use crate::cell::{Cell, IntoCell};
use crate::columns::RTT;
use crate::compare::{interval, rounds};
use crate::doc::{Block, Column, Doc, List, Show, Shown, Table, Text};
use crate::figure::{confidence, fine_ratio as ratio, time};
use crate::kinds;
use crate::label::Name;
use crate::link::link_words;
use crate::next;
use crate::notes::{ended, not_granted, warnings};
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;
use crate::term::{fitting, height};

impl Show for Sweep {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        let (said, word) = decision(self);
        doc.verdict("", said, word, Tone::Heading);
        fastest(self).into_iter().for_each(|said| doc.text(said));
        let place = place(self);
        if !place.is_empty() {
            doc.text(place);
        }
        let mut end = Doc::default();
        if !self.left_out.is_empty() {
            let mut line = Doc::default();
            line.text(format!("{} of the plan not measured (-v)", self.left_out.len()));
            end.part(Shown::Screen, line);
        }
        let mut brief = Doc::default();
        brief.blocks.extend(notes(self).into_iter().map(Block::Text));
        end.part(Shown::Brief, brief);
        end.list(ended(&self.head));
        let mut last = Doc::default();
        let commands =
            fastest_cell(self).and_then(|(cell, _)| next::explain(cell.arm.link.as_ref()?, &self.head, &cell.arm.path));
        next::show(&mut last, &commands.into_iter().chain(["(-v: all)".to_owned()]).collect::<Vec<_>>(), options);
        end.part(Shown::Brief, last);

        let tables = |most: usize| {
            let mut doc = Doc::default();
            doc.gap();
            doc.text(against(self));
            doc.table(effects(self, most));
            if self.main_effects.len() > most {
                doc.text(format!("and {} more levels", self.main_effects.len() - most));
            }
            doc
        };
        let mut frames = Doc::default();
        loss_free(&mut frames, self);
        let others = height(&doc, options) + height(&end, options);
        let full = || {
            let mut all = tables(usize::MAX);
            all.blocks.extend(frames.blocks.clone());
            all
        };
        let shorter = (1..=self.main_effects.len()).rev().map(tables);
        doc.part(Shown::Brief, fitting([full()].into_iter().chain(shorter), others, options));
        doc.part(Shown::Full, full());
        let mut rest = Doc::default();
        rest.gap();
        rest.table(cells(self));
        interactions(&mut rest, self);
        rest.gap();
        rest.text(format!(
            "An interval is one of {} %, so that all {} of them hold with {:.0} %. Ratios are means over cells within a round.",
            confidence(self.confidence_each),
            4 * (self.main_effects.len() + self.interactions.len()),
            self.confidence * 100.0
        ));
        rest.text(format!("RTT: {RTT}, in us; CPU: user + system time of both sides in us per transaction"));
        if !self.title.is_empty() {
            rest.text(format!("{}: {}", self.plan, self.title));
        }
        rest.blocks.extend(Doc::of(&self.head, context(self)).blocks);
        rest.lists(lists(self));
        doc.part(Shown::Full, rest);
        doc.blocks.extend(end.blocks);
        doc.data = Some(cells(self).data());
        doc
    }
}

/// Link and placement, as far as all cells share them.
fn place(record: &Sweep) -> String {
    let arms = || record.cells.iter().map(|cell| &cell.arm);
    let first = arms().next();
    let link = first.and_then(|arm| arm.link.as_ref()).filter(|link| arms().all(|arm| arm.link.as_ref() == Some(link)));
    let cpus = first.and_then(|arm| arm.cpus.as_ref()).filter(|cpus| arms().all(|arm| arm.cpus.as_ref() == Some(cpus)));
    let link = link.map(|link| link_words(link).join(", "));
    let on = cpus.map(|cpus| placed(&cpus.client, &cpus.server)).filter(|on| !on.is_empty());
    link.into_iter().chain(on).collect::<Vec<_>>().join(", ")
}

/// The levels with which the others are compared.
fn against(record: &Sweep) -> String {
    let mut first: Vec<String> = Vec::new();
    for effect in &record.main_effects {
        let level = clean(&format!("{} {}", effect.factor, effect.against));
        if !first.contains(&level) {
            first.push(level);
        }
    }
    format!("each level against the first of its factor ({})", first.join(", "))
}

/// Warnings in short.
fn notes(record: &Sweep) -> Vec<Text> {
    let own = kinds::lines_of(&[record], |record| &record.warnings, |_| String::new());
    let cells: Vec<&sweep::Cell> = record.cells.iter().collect();
    let whose = |of: &[usize]| kinds::share(of, cells.len(), "cells");
    own.into_iter().chain(kinds::lines_of(&cells, |cell| &cell.arm.warnings, whose)).collect()
}

/// The strongest effect on p50, and the number of levels without a detectable one.
fn decision(record: &Sweep) -> (String, &'static str) {
    let p50 = |figures: &[Ratio]| figures.iter().find(|found| found.figure == Figure::P50).cloned();
    let told =
        record.main_effects.iter().filter_map(|effect| Some((effect, p50(&effect.figures)?))).filter(|(_, found)| found.tells());
    let mut told: Vec<_> = told.collect();
    told.arrange_by(|(_, a), (_, b)| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
    let Some((effect, found)) = told.first() else {
        return ("no factor's effect on RTT p50 can be told from none".into(), "no factor");
    };
    let between = interval(found.low, found.high, " to ");
    let others = record.main_effects.len() - told.len();
    let all = record.main_effects.len();
    let others = if others > 0 { format!("; {others} of {all} levels cannot be told from none") } else { String::new() };
    let (factor, level, against) = (clean(&effect.factor), clean(&effect.level), clean(&effect.against));
    (format!("strongest: {factor} {level} has {between} times the RTT p50 of {against}{others}"), "strongest")
}

/// The cell with the least p50.
fn fastest_cell(record: &Sweep) -> Option<(&sweep::Cell, f64)> {
    let all = record.cells.iter().filter_map(|cell| Some((cell, typical(&cell.arm).p50_ns?)));
    all.min_by(|(_, a), (_, b)| a.total_cmp(b))
}

fn fastest(record: &Sweep) -> Option<String> {
    let (cell, ns) = fastest_cell(record)?;
    let levels = record.factors.iter().zip(&cell.levels).map(|(factor, level)| clean(&format!("{} {level}", factor.name)));
    Some(format!("fastest of {} cells: {}, RTT p50 {}", record.cells.len(), levels.collect::<Vec<_>>().join(", "), time(ns)))
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
        // A record from elsewhere may have another number of levels.
        let mut row: Vec<Cell> = (0..record.factors.len()).map(|at| cell.levels.get(at).into()).collect();
        row.push(figures.rate_per_s.into_cell(Cell::Rate));
        row.extend([figures.p50_ns, figures.p99_ns, figures.p999_ns, figures.cpu_ns].map(|ns| ns.into_cell(Cell::Ns)));
        row.extend(segments.then(|| cell.arm.segments_out_per_transaction.into_cell(Cell::Number)));
        row.extend(bulk.then(|| cell.arm.bulk_bits_per_s.into_cell(|bits| Cell::Number(bits / 1e9))));
        row
    };
    Table { empty: "", ..Table::new(columns, record.factors.len(), record.cells.iter().map(row)) }
}

const SHOWN: [(Figure, &str); 3] = [(Figure::P50, "RTT p50"), (Figure::Rate, "trans/s"), (Figure::Cpu, "CPU")];

fn effects(record: &Sweep, most: usize) -> Table {
    let mut columns = vec![Column::words("level")];
    for (_, group) in SHOWN {
        columns.extend(["ratio", "interval"].map(|title| Column::figures(title).under(group)));
    }
    let rows = record.main_effects.iter().take(most).map(|effect| {
        let mut row = vec![format!("{} {}", effect.factor, effect.level).into()];
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
        let level = |at: &usize| found.levels.get(*at).and_then(Option::as_deref).unwrap_or_default();
        let mut row: Vec<Cell> = concerned.iter().map(|at| level(at).into()).collect();
        row.extend(shown.iter().map(|bytes| of(*bytes)));
        row.extend([found.frames_per_s.into_cell(Cell::Rate), Cell::Rate(found.offered_per_s)]);
        row
    };
    doc.gap();
    doc.heading(format!("Round trips in us, and frames of {} B without loss (FCS not included)", first.frame_bytes));
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
    doc.list(List::plain("Interactions (RTT p50)", items));
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
