//! The texts of `hairpin floor pcie`: reads of a device with their histogram, and a table of what a driver's steps cost.

use hairpin_record::histogram::Decoded;
use hairpin_record::pcie::{Primitives, Probe, Published, PublishedTable};

use crate::Options;
use crate::figure::percent;
use crate::grid::{Column, Grid};
use crate::prose::{WIDTH, clean, wrap};

/// Rows of a histogram, without the one of all that is longer.
const ROWS: u64 = 12;
/// The longest bar.
const BAR: u64 = 40;

/// A device's reads: figures, histogram, what to know of them, and the published reference with its label.
pub fn floor_pcie(probe: &Probe, options: &Options) -> String {
    let mut lines = heading(probe);
    lines.push(String::new());
    lines.extend(figures(probe, options));
    lines.push(String::new());
    lines.extend(histogram(probe, options));
    lines.push(String::new());
    lines.extend(remarks(probe));
    lines.push(String::new());
    lines.extend(reference(&probe.published, "Not compared: it is another thing.", options));
    lines.join("\n") + "\n"
}

/// What was read, and of what.
fn heading(probe: &Probe) -> Vec<String> {
    let device = &probe.device;
    let what = format!(
        "4-byte reads by the CPU, BAR {} ({} bytes), offset {:#x}; measured here",
        probe.bar, probe.bar_bytes, probe.offset
    );
    let mut lines = wrap(&format!("{}: ", clean(&device.address)), &what, WIDTH);
    let id = device.vendor.as_ref().zip(device.device.as_ref()).map(|(vendor, id)| format!("device {vendor}:{id}"));
    let driver = device.driver.as_ref().map(|name| format!("driver {name}"));
    let link = device.link_speed.as_ref().map(|speed| match &device.link_width {
        Some(lanes) => format!("link {speed}, {lanes} lanes"),
        None => format!("link {speed}"),
    });
    let known: Vec<String> = [id, driver, link].into_iter().flatten().collect();
    if !known.is_empty() {
        lines.extend(wrap("", &known.join(", "), WIDTH));
    }
    lines
}

fn figures(probe: &Probe, options: &Options) -> Vec<String> {
    let read = &probe.reads.read_ns;
    let titles = ["reads", "mean ns", "stddev", "min", "p50", "p90", "p99", "p99.9", "max"];
    let whole = |ns: Option<u64>| ns.map_or(String::new(), |ns| ns.to_string());
    let tenth = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!("{ns:.1}"));
    let row = vec![
        read.count.to_string(),
        tenth(read.mean),
        tenth(read.stddev),
        whole(read.min),
        whole(read.p50),
        whole(read.p90),
        whole(read.p99),
        whole(read.p999),
        whole(read.max),
    ];
    Grid { columns: titles.map(Column::figures).into(), labels: 1, rows: vec![row] }.lines(options.columns(), options.colour)
}

/// From the shortest time to the p99 or beyond in steps of equal and round width, and a last row for all that is longer.
fn histogram(probe: &Probe, options: &Options) -> Vec<String> {
    let counts: Vec<(u64, u64)> = match Decoded::decode(&probe.reads.histogram) {
        Ok(decoded) => decoded.counts().collect(),
        Err(why) => return wrap("", &format!("no histogram: {why}"), WIDTH),
    };
    let (Some((least, _)), Some((most, _))) = (counts.first(), counts.last()) else { return vec!["no reads".into()] };
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
    // What is there shows, however little it is.
    let bar = |count: u64| "#".repeat((u128::from(count) * u128::from(BAR)).div_ceil(u128::from(fullest)) as usize);
    let line = |from: u64, below: String, count: u64| vec![from.to_string(), below, count.to_string(), bar(count)];
    let mut table: Vec<Vec<String>> =
        (first..).zip(&rows[..used]).map(|(at, count)| line(at * step, ((at + 1) * step).to_string(), *count)).collect();
    if longer > 0 {
        table.push(line((first + ROWS) * step, String::new(), longer));
    }
    let columns = vec![Column::figures("from ns"), Column::figures("below"), Column::figures("reads"), Column::words("")];
    Grid { columns, labels: 1, rows: table }.lines(options.columns(), options.colour)
}

/// The next of 1, 2, 5, 10, 20, 50, …
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

fn remarks(probe: &Probe) -> Vec<String> {
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
    let mut lines = wrap("stalls      ", &stalled, WIDTH);
    let cost = format!(
        "{:.1} ns for two ordered stamps of the clock {}, measured in turns with the reads and taken off each",
        reads.own_cost_ns,
        clean(&probe.clock.source)
    );
    lines.extend(wrap("instrument  ", &cost, WIDTH));
    let value = match reads.all_ones {
        true => "every read returned 0xffffffff: the device may be off, asleep, or not answer at this offset; then these are the times of an error".into(),
        false => format!("the first read returned {:#010x}", reads.first_value),
    };
    lines.extend(wrap("value       ", &value, WIDTH));
    lines
}

/// The published table alone.
pub fn floor_pcie_published(table: &PublishedTable, options: &Options) -> String {
    let mut lines = wrap("", "4-byte reads over PCIe, times in ns, as a study published them: nothing was measured here", WIDTH);
    lines.push(String::new());
    lines.extend(reference(&table.published, "Not to be held against a CPU's own read of a device.", options));
    lines.join("\n") + "\n"
}

/// The published figures under what they are.
fn reference(published: &Published, remark: &str, options: &Options) -> Vec<String> {
    let label = format!("{}. {}. {remark}", clean(&published.label), clean(&published.source));
    let mut lines = wrap("published   ", &label, WIDTH);
    let titles = ["mean ns", "stddev", "min", "max"];
    let columns: Vec<Column> = [Column::words("the CPU meanwhile")].into_iter().chain(titles.map(Column::figures)).collect();
    let rows = published.rows.iter().map(|row| {
        vec![clean(&row.cpu), row.mean.to_string(), format!("{:.2}", row.stddev), row.min.to_string(), row.max.to_string()]
    });
    lines.extend(Grid { columns, labels: 1, rows: rows.collect() }.lines(options.columns(), options.colour));
    lines
}

/// What the steps of a driver cost on this CPU, a pair of columns for each way to do them.
pub fn floor_pcie_primitives(primitives: &Primitives, options: &Options) -> String {
    let what =
        "what the steps of a NIC driver cost this CPU, p50 in ns, measured here over ordinary memory: nothing crosses PCIe";
    let mut lines = wrap("", what, WIDTH);
    lines.push(String::new());
    let ways = &primitives.implementations;
    let mut columns = vec![Column::words("step")];
    columns.extend(ways.iter().flat_map(|way| {
        let name = clean(&way.name);
        [Column::figures(format!("{name}: alone")), Column::figures("in a row")]
    }));
    // Every way has the same steps, in the same order.
    let steps = ways.first().map_or(&[][..], |way| &way.steps);
    let rows = steps.iter().enumerate().map(|(at, step)| {
        let figures = ways.iter().flat_map(|way| {
            let step = way.steps.get(at);
            let alone = step.map(|step| step.alone_ns);
            [alone, step.and_then(|step| step.in_a_row_ns)].map(|ns| ns.map_or(String::new(), |ns| format!("{ns:.1}")))
        });
        std::iter::once(clean(&step.name)).chain(figures).collect()
    });
    lines.extend(Grid { columns, labels: 1, rows: rows.collect() }.lines(options.columns(), options.colour));
    lines.push(String::new());
    for way in ways {
        lines.extend(wrap(&format!("{:<10}", clean(&way.name)), &clean(&way.about), WIDTH));
    }
    let alone = "until the CPU goes on; a store may still be on its way";
    lines.extend(wrap("alone     ", alone, WIDTH));
    lines.extend(wrap("in a row  ", "one of 64, a line each; a flush then waits for the store before it", WIDTH));
    lines.extend(wrap("stamps    ", "what two of them cost is taken off", WIDTH));
    lines.join("\n") + "\n"
}
