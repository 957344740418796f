//! The output of `hairpin compare` for two looks of `check --host`: how the rates of stalls changed, and which causes came and
//! went.

use hairpin_record::noise::{Change, Look, NoiseComparison, Rates};

use crate::cell::{Cell, IntoCell};
use crate::doc::{Column, Data, Doc, List, Show, Shown, Table};
use crate::figure::{asked_percent, confidence, fine_ratio, per_second, ratio};
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;

impl Show for NoiseComparison {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        // The first rows are of all cores, or of the only one.
        let of_all = self.stalls.chunk_by(|a, b| a.cpu == b.cpu).next().into_iter().flatten();
        of_all.for_each(|rates| doc.verdict("", sentence(rates, self.margin), rates.change.word(), tone(rates.change)));
        doc.gap();
        doc.lead("A  ", named(&self.first));
        doc.lead("B  ", named(&self.second));
        doc.gap();
        doc.table(table(["CPU", "stalls"], self.stalls.iter().collect(), |rates| {
            [rates.cpu.map_or("all".into(), Cell::from), (&rates.what).into()]
        }));
        if !self.causes.is_empty() {
            let of_causes = |rows| table(["cause", "who"], rows, |rates| [(&rates.what).into(), (&rates.who).into()]);
            let is_changed = |rates: &&Rates| !matches!(rates.change, Change::Same | Change::Unclear);
            let (mut brief, mut full) = (Doc::default(), Doc::default());
            brief.gap();
            brief.heading("Causes that came, went or changed, all cores together, with hooks");
            brief.table(of_causes(self.causes.iter().filter(is_changed).collect()));
            doc.part(Shown::Brief, brief);
            full.gap();
            full.heading("Causes, all cores together, with hooks");
            full.table(of_causes(self.causes.iter().collect()));
            doc.part(Shown::Full, full);
        }
        doc.gap();
        doc.text(format!(
            "Each interval is one of {} % for stalls that come independently of each other; those that come in bursts vary more, and so does a host from one hour to the next: look several times before you blame what you changed",
            confidence(self.confidence_each)
        ));
        doc.list(List::warnings("Warnings", self.warnings.iter().map(|note| clean(&note.message)).collect()));
        doc.data = Some(data(self));
        doc
    }
}

fn tone(change: Change) -> Tone {
    match change {
        Change::Came | Change::More => Tone::Error,
        Change::Unclear => Tone::Warning,
        Change::Went | Change::Fewer | Change::Same => Tone::Heading,
    }
}

fn named(look: &Look) -> String {
    let take = look.choice.map_or_else(String::new, |[a, b]| format!(", takes --cpu {a},{b}"));
    format!("{}, host {}, {}{take}", clean(&look.given), clean(&look.hostname), clean(&look.started))
}

/// Stalls per second in both looks; `None` where there was no time.
fn both(rates: &Rates) -> [Option<f64>; 2] {
    [(rates.first_count, rates.first_ns), (rates.second_count, rates.second_ns)]
        .map(|(count, ns)| (ns > 0).then(|| count as f64 * 1e9 / ns as f64))
}

fn sentence(rates: &Rates, margin: f64) -> String {
    let what = format!("stalls {}", clean(&rates.what));
    let [first, second] = both(rates).map(|rate| per_second(rate.unwrap_or(0.0)));
    let times = match rates.high {
        Some(high) => format!("{} to {} times as many", ratio(rates.low), ratio(high)),
        None => format!("{} times as many or more", ratio(rates.low)),
    };
    match rates.change {
        Change::Came => format!("{what} came: {second} in B, none in A"),
        Change::Went => format!("{what} went: none in B, {first} in A"),
        Change::More | Change::Fewer => {
            format!("B has {} {what} than A: {times} ({second} against {first})", rates.change.word())
        }
        Change::Same => {
            format!("A and B have the same rate of {what} within {} %: {second} against {first}", asked_percent(margin))
        }
        Change::Unclear => format!("unclear whether B has more {what} or fewer: {second} against {first}"),
    }
}

fn table(titles: [&str; 2], rows: Vec<&Rates>, names: fn(&Rates) -> [Cell; 2]) -> Table {
    let mut columns: Vec<Column> = titles.map(Column::words).into();
    columns.extend(["A 1/s", "B 1/s", "ratio", "interval"].map(Column::figures));
    columns.push(Column::words("B has"));
    let row = |rates: &Rates| {
        let [first, second] = both(rates).map(|rate| rate.into_cell(Cell::Rate));
        let interval = match rates.high {
            Some(high) => format!("{} .. {}", fine_ratio(rates.low), fine_ratio(high)),
            None if rates.low > 0.0 => format!("{} or more", fine_ratio(rates.low)),
            None => "not known".into(),
        };
        let change = Cell::Word(rates.change.word().into(), tone(rates.change));
        let mut cells = Vec::from(names(rates));
        cells.extend([first, second, rates.ratio.into_cell(Cell::Ratio), interval.into(), change]);
        cells
    };
    Table { empty: "(none)", ..Table::new(columns, 2, rows.into_iter().map(row)) }
}

/// A line for each level of each core, and for each cause.
fn data(found: &NoiseComparison) -> Data {
    let names = "cpu what who first_count first_ns second_count second_ns ratio low high change";
    let line = |rates: &Rates| {
        [
            rates.cpu.into(),
            (&rates.what).into(),
            (&rates.who).into(),
            rates.first_count.into(),
            rates.first_ns.into(),
            rates.second_count.into(),
            rates.second_ns.into(),
            rates.ratio.into(),
            rates.low.into(),
            rates.high.into(),
            rates.change.word().into(),
        ]
    };
    Data::table(names, found.stalls.iter().chain(&found.causes).map(line))
}
