//! The output of `hairpin floor pcie`: reads of a device with a histogram, and the cost of a driver's steps.

use hairpin_record::histogram::Decoded;
use hairpin_record::pcie::{Primitives, Probe, Published, PublishedRead, PublishedTable};

use crate::cell::{Bar, Cell, IntoCell};
use crate::doc::{Column, Data, Doc, Show, Table};
use crate::figure::percent;
use crate::options::Options;
use crate::prose::clean;

/// Rows of a histogram, not counting the last one for all longer times.
const ROWS: u64 = 12;

/// A device's reads: figures, histogram, notes, and the published reference with its label.
impl Show for Probe {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        heading(&mut doc, self);
        doc.gap();
        doc.table(figures(self));
        doc.gap();
        histogram(&mut doc, self);
        doc.gap();
        remarks(&mut doc, self);
        doc.gap();
        reference(&mut doc, &self.published, "Not compared: it is another thing.");
        doc
    }
}

/// The device and the register that was read.
fn heading(doc: &mut Doc, probe: &Probe) {
    let device = &probe.device;
    let what = format!(
        "4-byte reads by the CPU, BAR {} ({} bytes), offset {:#x}; measured here",
        probe.bar, probe.bar_bytes, probe.offset
    );
    doc.lead(format!("{}: ", clean(&device.address)), what);
    let id = device.vendor.as_ref().zip(device.device.as_ref()).map(|(vendor, id)| format!("device {vendor}:{id}"));
    let driver = device.driver.as_ref().map(|name| format!("driver {name}"));
    let link = device.link_speed.as_ref().map(|speed| match &device.link_width {
        Some(lanes) => format!("link {speed}, {lanes} lanes"),
        None => format!("link {speed}"),
    });
    let known: Vec<String> = [id, driver, link].into_iter().flatten().collect();
    if !known.is_empty() {
        doc.text(known.join(", "));
    }
}

fn figures(probe: &Probe) -> Table {
    let read = &probe.reads.read_ns;
    let mut columns = vec![Column::figures("reads"), Column::figures("mean ns")];
    columns.extend(["stddev", "min", "p50", "p90", "p99", "p99.9", "max"].map(|title| Column::figures(title).in_unit("ns")));
    let tenth = |ns: Option<f64>| ns.into_cell(|ns| Cell::Fixed(ns, 1));
    let mut row = vec![read.count.into(), tenth(read.mean), tenth(read.stddev)];
    row.extend([read.min, read.p50, read.p90, read.p99, read.p999, read.max].map(Cell::from));
    Table::new(columns, 1, [row])
}

/// Equal, round steps from the shortest time to at least the p99, and a last row for all longer times.
fn histogram(doc: &mut Doc, probe: &Probe) {
    let counts: Vec<(u64, u64)> = match Decoded::decode(&probe.reads.histogram) {
        Ok(decoded) => decoded.counts().collect(),
        Err(why) => return doc.text(format!("no histogram: {why}")),
    };
    let (Some((least, _)), Some((most, _))) = (counts.first(), counts.last()) else { return doc.text("no reads") };
    let read = &probe.reads.read_ns;
    let end = read.p99.or(read.p90).unwrap_or(*most);
    let step = step((end - least.min(&end)) / ROWS + 1);
    let first = least / step;
    let mut rows = [0; ROWS as usize];
    let mut longer = 0;
    for (ns, count) in &counts {
        match usize::try_from(ns / step - first).ok().and_then(|row| rows.get_mut(row)) {
            Some(row) => *row += count,
            None => longer += count,
        }
    }
    let used = rows.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    let fullest = rows.iter().copied().max().unwrap_or(0).max(longer).max(1);
    let line = |from: u64, below: Option<u64>, count: u64| {
        vec![from.into(), below.into(), count.into(), Cell::Bar(Bar::new(0.0, count as f64 / fullest as f64))]
    };
    let mut table: Vec<Vec<Cell>> =
        (first..).zip(&rows[..used]).map(|(at, count)| line(at * step, Some((at + 1) * step), *count)).collect();
    if longer > 0 {
        table.push(line((first + ROWS) * step, None, longer));
    }
    let titles = ["from ns", "below", "reads"].map(Column::figures);
    doc.table(Table::new(titles.into_iter().chain([Column::bar()]).collect(), 1, table));
}

/// The next larger number of the sequence 1, 2, 5, 10, 20, 50, …
fn step(at_least: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if step >= at_least {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

fn remarks(doc: &mut Doc, probe: &Probe) {
    let reads = &probe.reads;
    let stalls = &reads.stalls;
    let without = stalls.mean_without_ns.map_or(String::new(), |mean| format!("; the mean of the others is {mean:.1} ns"));
    let stalled = match stalls.count {
        0 => format!("none: no read took {} ns longer than the median of its block", stalls.over_ns),
        count => format!(
            "{count} reads ({} %) took more than {} ns longer than the median of their block{without}",
            percent(stalls.share),
            stalls.over_ns
        ),
    };
    doc.lead("stalls      ", stalled);
    let cost = format!(
        "{:.1} ns for two ordered stamps of the clock {}, measured in turns with the reads and taken off each",
        reads.own_cost_ns,
        clean(&probe.clock.source)
    );
    doc.lead("instrument  ", cost);
    let value = match reads.all_ones {
        true => "every read returned 0xffffffff: the device may be off, asleep, or not answer at this offset; then these are the times of an error".into(),
        false => format!("the first read returned {:#010x}", reads.first_value),
    };
    doc.lead("value       ", value);
}

/// The published table on its own.
impl Show for PublishedTable {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        doc.text("4-byte reads over PCIe, times in ns, as a study published them: nothing was measured here");
        doc.gap();
        reference(&mut doc, &self.published, "Not comparable with a CPU's own read of a device.");
        doc
    }
}

/// The published figures below their source.
fn reference(doc: &mut Doc, published: &Published, remark: &str) {
    doc.lead("published   ", format!("{}. {}. {remark}", clean(&published.label), clean(&published.source)));
    let mut columns = vec![Column::words("the CPU meanwhile"), Column::figures("mean ns")];
    columns.extend(["stddev", "min", "max"].map(|title| Column::figures(title).in_unit("ns")));
    let row = |row: &PublishedRead| {
        vec![
            (&row.cpu).into(),
            row.mean.to_string().into(),
            Cell::Fixed(row.stddev, 2),
            row.min.to_string().into(),
            row.max.to_string().into(),
        ]
    };
    doc.table(Table::new(columns, 1, published.rows.iter().map(row)));
}

/// The cost of a driver's steps on this CPU, two columns for each implementation.
impl Show for Primitives {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        doc.text(
            "cost of the steps of a NIC driver on this CPU, p50 in ns, measured here over ordinary memory: nothing crosses PCIe",
        );
        doc.gap();
        let ways = &self.implementations;
        let mut columns = vec![Column::words("step")];
        columns.extend(ways.iter().flat_map(|way| {
            let name = clean(&way.name);
            [Column::figures(format!("{name}: alone")), Column::figures("in a row")]
        }));
        // Every implementation has the same steps, in the same order.
        let steps = ways.first().map_or(&[][..], |way| &way.steps);
        let rows = steps.iter().enumerate().map(|(at, step)| {
            let figures = ways.iter().flat_map(|way| {
                let step = way.steps.get(at);
                let alone = step.map(|step| step.alone_ns);
                [alone, step.and_then(|step| step.in_a_row_ns)].map(|ns| ns.into_cell(|ns| Cell::Fixed(ns, 1)))
            });
            std::iter::once((&step.name).into()).chain(figures).collect::<Vec<_>>()
        });
        doc.table(Table::new(columns, 1, rows));
        doc.gap();
        ways.iter().for_each(|way| doc.lead(format!("{:<10}", clean(&way.name)), clean(&way.about)));
        doc.lead("alone     ", "until the CPU goes on; a store may still be on its way");
        doc.lead("in a row  ", "one of 64, a line each; a flush then waits for the store before it");
        doc.lead("stamps    ", "the cost of two stamps is subtracted");
        let names = "step implementation alone_ns in_a_row_ns";
        let lines = ways.iter().flat_map(|way| {
            way.steps.iter().map(|step| [(&step.name).into(), (&way.name).into(), step.alone_ns.into(), step.in_a_row_ns.into()])
        });
        doc.data = Some(Data::table(names, lines));
        doc
    }
}
