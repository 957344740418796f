//! The output of `hairpin floor`: the waterfall of one frame, a table of sizes, or two designs side by side.

use std::collections::BTreeSet;

use hairpin_record::floor::{Class, Comparison, Counts, Difference, Floor, Sizes, Span, Stage, Window};
use hairpin_units::{Arrange, BitRate, Picos};

use crate::cell::{Bar, Cell, IntoCell};
use crate::doc::{Column, Data, Doc, Show, Table};
use crate::figure::ratio;
use crate::gap::{decimal, figure};
use crate::options::Options;
use crate::prose::clean;
use crate::words::{Line, line};

/// The number of round trips per size in a published ping-pong.
const PINGPONG_ROUND_TRIPS: f64 = 100_000.0;

/// The declared link and NIC, the waterfall of the stages, and the rates that follow from their sum. With [`Options::detail`], a
/// sentence for each stage.
impl Show for Floor {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        heading(&mut doc, self);
        doc.gap();
        doc.table(waterfall(self));
        doc.gap();
        sums(&mut doc, self);
        if options.detail > 0 {
            doc.gap();
            self.stages.iter().for_each(|stage| doc.lead("- ", sentence(stage)));
        }
        notes(&mut doc, &self.notes);
        let names = "nic size_bytes stage ns low_ns high_ns class source";
        let line = |stage: &Stage| -> [Cell; 8] {
            let [ns, low, high] = span(stage.time);
            let (class, source) = (stage.class.to_string().into(), (&stage.source).into());
            [(&self.nic).into(), self.size_bytes.into(), (&stage.name).into(), ns, low, high, class, source]
        };
        let [ns, low, high] = span(self.one_way());
        let whole =
            [(&self.nic).into(), self.size_bytes.into(), "one way".into(), ns, low, high, class(self).into(), Cell::Blank];
        doc.data = Some(Data::table(names, self.stages.iter().map(line).chain([whole])));
        doc
    }
}

/// The value and both ends of its range, for scripts.
fn span(span: Span) -> [Cell; 3] {
    let ns = |time: Picos| Cell::Number(time.as_ns_f64());
    [span.ns.into_cell(ns), ns(span.low_ns), ns(span.high_ns)]
}

/// The declared link and NIC.
fn heading(doc: &mut Doc, floor: &Floor) {
    doc.lead(format!("{}: ", clean(&floor.nic)), &floor.about);
    let cable = floor.cable.as_deref().map_or("no cable known".into(), clean);
    let size = match floor.counts {
        Counts::Frame => format!("a frame of {} bytes without FCS, {} on the wire", floor.frame_bytes, floor.wire_bytes),
        Counts::Payload => {
            format!("{} bytes of payload, a frame of {}, {} on the wire", floor.size_bytes, floor.frame_bytes, floor.wire_bytes)
        }
    };
    doc.text(format!("{}, {cable}, {size}", BitRate(floor.rate_bit_per_s)));
}

/// A line for each stage: name, time, share, a bar from its start to its end, and how the figure was obtained.
fn waterfall(floor: &Floor) -> Table {
    let total = floor.total_high_ns.0.max(1) as f64;
    let bar = |begins: Span, ends: Span| {
        let at = |time: Picos| time.0.max(0) as f64 / total;
        Cell::Bar(Bar { from: at(begins.low_ns), to: at(ends.low_ns), most: at(ends.high_ns), hatched: false })
    };
    let mut begins = Span::point(Picos::ZERO);
    let row = |stage: &Stage| {
        let ends = begins + stage.time;
        let bar = bar(std::mem::replace(&mut begins, ends), ends);
        let share = floor.total_ns.zip(stage.time.ns);
        let share = share.into_cell(|(total, ns)| format!("{:.1} %", 100.0 * ns.0 as f64 / total.0 as f64).into());
        vec![(&stage.name).into(), figure(stage.time).into(), share, bar, stage.class.to_string().into()]
    };
    let mut rows: Vec<Vec<Cell>> = floor.stages.iter().map(row).collect();
    let whole = floor.total_ns.into_cell(|_| "100 %".into());
    let from_start = bar(Span::point(Picos::ZERO), floor.one_way());
    rows.push(vec!["one way".into(), figure(floor.one_way()).into(), whole, from_start, class(floor).into()]);
    let columns =
        vec![Column::words("stage"), Column::figures("ns"), Column::figures("share"), Column::bar(), Column::words("class")];
    Table::new(columns, 1, rows)
}

/// The weakest class among the stages: a sum is no better than its worst part, and at best arithmetic.
fn class(floor: &Floor) -> &'static str {
    let assumed = floor.stages.iter().any(|stage| stage.class == Class::Assumed);
    if assumed {
        "assumed"
    } else if floor.stages.len() == 1 && floor.stages[0].class == Class::Published {
        "published"
    } else {
        "derived"
    }
}

/// Transactions or frames per second; both ends of the range where they differ.
fn rates([low, high]: [f64; 2]) -> String {
    let [low, high] = [low, high].map(|rate| format!("{rate:.0}"));
    if low == high { low } else { format!("{low}..{high}") }
}

/// RTT, transaction rate, line rate and TCP window, derived from the sum of the stages.
fn sums(doc: &mut Doc, floor: &Floor) {
    let lines = [
        ("RTT", format!("{} ns: there and back, without the server's turn-around", figure(floor.rtt))),
        ("transactions", format!("{} per second, one after the other", rates(floor.transactions_per_s))),
        ("line rate", format!("{} frames per second, one behind the other", floor.line_rate_frames_per_s.floor())),
    ];
    let window = floor.window.as_ref().map(|found| ("TCP window", window(floor, found)));
    lines.into_iter().chain(window).for_each(|(name, text)| doc.lead(format!("{name:14}"), text));
}

/// The least TCP window that fills the link.
fn window(floor: &Floor, window: &Window) -> String {
    let bytes = match (window.low_bytes, window.high_bytes) {
        (low, high) if low == high => low.to_string(),
        (low, high) => format!("{low}..{high}"),
    };
    let rtt = if window.declared { "the declared RTT of" } else { "the RTT above," };
    let rate = BitRate(floor.rate_bit_per_s);
    format!(
        "{bytes} bytes at least: {rate} times {rtt} {} ns ({}); a smaller one leaves the link idle",
        figure(window.rtt),
        window.class
    )
}

/// `pcie write, 484 ns, published: description. Source: title or address.`
fn sentence(stage: &Stage) -> String {
    let what = if stage.what.is_empty() { String::new() } else { format!("{} ", stage.what) };
    format!("{}, {} ns, {}: {what}Source: {}.", stage.name, figure(stage.time), stage.class, stage.source)
}

/// Prints each note once.
fn notes<'n>(doc: &mut Doc, notes: impl IntoIterator<Item = &'n String>) {
    let mut seen = BTreeSet::new();
    let notes: Vec<&String> = notes.into_iter().filter(|note| seen.insert(*note)).collect();
    if !notes.is_empty() {
        doc.gap();
    }
    notes.into_iter().for_each(|note| doc.lead("note: ", note));
}

/// A time with its sign.
fn signed(span: Span) -> String {
    let one = |time: Picos| if time > Picos::ZERO { format!("+{}", decimal(time)) } else { decimal(time) };
    match span.ns {
        Some(ns) => one(ns),
        None => format!("{}..{}", one(span.low_ns), one(span.high_ns)),
    }
}

/// A line for each size. All floors are of one design over one link.
impl Show for Sizes {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        let Some(first) = self.floors.first() else {
            doc.text("(no sizes)");
            return doc;
        };
        doc.lead(format!("{}: ", clean(&first.nic)), &first.about);
        let cable = first.cable.as_deref().map_or("no cable known".into(), clean);
        let counts = match first.counts {
            Counts::Frame => "frame without FCS",
            Counts::Payload => "payload",
        };
        doc.text(format!("{}, {cable}; sizes are bytes of {counts}", BitRate(first.rate_bit_per_s)));
        doc.gap();
        let titles = ["wire", "one way ns", "RTT ns", "trans/s", "frames/s"].map(Column::figures);
        let size = Column::figures(first.counts.to_string());
        let columns = [size].into_iter().chain(titles).chain([Column::words("class")]).collect();
        let row = |floor: &Floor| {
            vec![
                floor.size_bytes.into(),
                floor.wire_bytes.into(),
                figure(floor.one_way()).into(),
                figure(floor.rtt).into(),
                rates(floor.transactions_per_s).into(),
                floor.line_rate_frames_per_s.floor().to_string().into(),
                class(floor).into(),
            ]
        };
        doc.table(Table::new(columns, 1, self.floors.iter().map(row)));
        notes(&mut doc, self.floors.iter().flat_map(|floor| &floor.notes));
        doc.data = Some(data(self));
        doc
    }
}

/// The fields of several floors for scripts.
fn data(sizes: &Sizes) -> Data {
    let names = "nic size_bytes frame_bytes wire_bytes one_way_ns one_way_low_ns one_way_high_ns rtt_ns rtt_low_ns rtt_high_ns line_rate_frames_per_s class";
    let line = |floor: &Floor| -> [Cell; 12] {
        let ([one_way, low, high], [rtt, rtt_low, rtt_high]) = (span(floor.one_way()), span(floor.rtt));
        let bytes = [floor.size_bytes, floor.frame_bytes, floor.wire_bytes].map(Cell::Count);
        let [size, frame, wire] = bytes;
        let frames = floor.line_rate_frames_per_s.into();
        [(&floor.nic).into(), size, frame, wire, one_way, low, high, rtt, rtt_low, rtt_high, frames, class(floor).into()]
    };
    Data::table(names, sizes.floors.iter().map(line))
}

/// Two designs, their stages side by side, and the stages that make the difference.
impl Show for Comparison {
    fn doc(&self, _: &Options) -> Doc {
        let (first, second) = (&self.first, &self.second);
        let mut doc = Doc::default();
        heading(&mut doc, first);
        heading(&mut doc, second);
        doc.gap();
        let columns = vec![
            Column::words("stage"),
            Column::figures(format!("{} ns", clean(&first.nic))),
            Column::figures(format!("{} ns", clean(&second.nic))),
            Column::figures("difference"),
        ];
        let wholes = [("one way", first.one_way(), second.one_way()), ("RTT", first.rtt, second.rtt)];
        let wholes = wholes.map(|(name, one, two)| Difference {
            stage: name.into(),
            first: Some(one),
            second: Some(two),
            difference: two.less(one),
        });
        let all = || self.differences.iter().chain(&wholes);
        let row = |row: &Difference| {
            let [one, two] = [row.first, row.second].map(|time| time.into_cell(|time| figure(time).into()));
            vec![(&row.stage).into(), one, two, signed(row.difference).into()]
        };
        doc.table(Table::new(columns, 1, all().map(row)));
        doc.gap();
        doc.text(explained(self));
        notes(&mut doc, first.notes.iter().chain(&second.notes));
        let names = "stage first_low_ns first_high_ns second_low_ns second_high_ns difference_low_ns difference_high_ns";
        let line = |row: &Difference| -> [Cell; 7] {
            let ends = |time: Option<Span>| {
                let [_, low, high] = time.map(span).unwrap_or_default();
                [low, high]
            };
            let [[a, b], [c, d], [e, f]] = [row.first, row.second, Some(row.difference)].map(ends);
            [(&row.stage).into(), a, b, c, d, e, f]
        };
        doc.data = Some(Data::table(names, all().map(line)));
        doc
    }
}

/// The difference in a sentence, the largest part first.
fn explained(comparison: &Comparison) -> String {
    let (first, second) = (clean(&comparison.first.nic), clean(&comparison.second.nic));
    let mut parts: Vec<_> = comparison.differences.iter().filter(|row| row.difference != Span::point(Picos::ZERO)).collect();
    parts.arrange_by_key(|row| std::cmp::Reverse(row.difference.high_ns.0.abs().max(row.difference.low_ns.0.abs())));
    if parts.is_empty() {
        return format!("{second} takes as long as {first} one way, stage by stage.");
    }
    let words: Vec<String> = parts
        .iter()
        .map(|row| {
            let where_ = match (row.first, row.second) {
                (None, _) => format!(" (only {second})"),
                (_, None) => format!(" (only {first})"),
                _ => String::new(),
            };
            format!("{} {}{where_}", signed(row.difference), clean(&row.stage))
        })
        .collect();
    let whole = format!("{} ns", signed(comparison.difference));
    let share = comparison
        .first
        .total_ns
        .zip(comparison.second.total_ns)
        .map_or(String::new(), |(one, two)| format!(", {} times as long", ratio(two.0 as f64 / one.0 as f64)));
    format!("{second} against {first}, one way: {whole}{share}: {}.", words.join(", "))
}

/// A line per size in the format of `snf_pingpong`: half round trips of the model. Minimum and maximum appear only for a
/// published table that has them. `payloads` are those asked for; without them a line has the size of its design.
pub fn floor_pingpong(sizes: &Sizes, payloads: &[u64]) -> String {
    let rows = sizes.floors.iter().enumerate().map(|(at, floor)| {
        let mean_ns = floor.total_ns.map(Picos::as_ns_f64);
        let elapsed_us = floor
            .published
            .map(|row| row.elapsed_us)
            .or(mean_ns.map(|ns| (ns * 2.0 * PINGPONG_ROUND_TRIPS / 1e3).round() as u64));
        line(&Line {
            elapsed_us,
            mean_ns,
            min_ns: floor.published.map(|row| row.min_ns.as_ns_f64()),
            max_ns: floor.published.map(|row| row.max_ns.as_ns_f64()),
            bytes: payloads.get(at).copied().unwrap_or(floor.size_bytes),
        })
    });
    rows.collect()
}
