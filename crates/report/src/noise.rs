//! The output of `hairpin check --host`: the two cores to take, the stalls of each core, their causes, and the cores as a matrix
//! of distances.

mod beside;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hairpin_record::explain::Cause;
use hairpin_record::noise::{CoreNoise, Noise, NoiseBody};
use hairpin_units::{Arrange, Gather};

use crate::cell::Cell;
use crate::chart::axis::Axis;
use crate::chart::strip::Strip;
use crate::doc::{Column, Data, Doc, List, Show, Shown, Table};
use crate::figure::time;
use crate::next;
use crate::notes::ended;
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;

/// Most cores whose matrix has room in 80 columns.
const MATRIX: usize = 16;
/// Causes of a core in the short view.
const CAUSES: usize = 3;
/// Interrupts named for each core.
const INTERRUPTS: usize = 6;
/// A smaller part of the time lost with a known cause is left to the full view.
const SMALL: f64 = 0.02;

impl Show for Noise {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        doc.verdict("", answer(self), "--cpu", Tone::Heading);
        doc.text(how(self));
        doc.gap();
        doc.table(stalls(self));
        causes(&mut doc, self);
        distances(&mut doc, self);
        meanwhile(&mut doc, self);
        let mut full = Doc::default();
        full.gap();
        full.heading("The longest stalls of each core");
        full.table(longest(self));
        doc.part(Shown::Full, full);
        doc.list(List::warnings("Warnings", self.warnings.iter().map(|note| clean(&note.message)).collect()));
        doc.list(ended(&self.head));
        let ping = self.choice.map(|[a, b]| format!("hairpin ping loopback -p udp:spin --cpu {a},{b}"));
        let mut end = Doc::default();
        next::show(&mut end, &ping.into_iter().chain(["(-v: all)".to_owned()]).collect::<Vec<_>>(), options);
        doc.part(Shown::Brief, end);
        doc.data = Some(data(self));
        doc
    }
}

/// The two cores to take, and why.
pub(crate) fn answer(noise: &NoiseBody) -> String {
    let why = clean(&noise.why);
    noise.choice.map_or_else(|| format!("no pair of cores to take: {why}"), |[a, b]| format!("take --cpu {a},{b}: {why}"))
}

/// A line that defines a stall: its least length, the clock, the number of cores that spun at once.
pub(crate) fn how(noise: &NoiseBody) -> String {
    let turn = noise.cores.iter().map(|core| core.turn_ns).fold(0.0, f64::max);
    format!(
        "stall: {} or more between two readings of the clock ({}, steps of {:.1} ns, a reading each {turn:.1} ns or less); {} of the cores at once; times in us",
        time(noise.threshold_ns as f64),
        clean(&noise.clock.source),
        noise.clock.step_ns,
        noise.at_once,
    )
}

/// A cause with the thread or interrupt.
pub(crate) fn cause_words(cause: &str, who: &str) -> String {
    if who.is_empty() { clean(cause) } else { format!("{}: {}", clean(cause), clean(who)) }
}

/// A line for each core.
fn stalls(noise: &NoiseBody) -> Table {
    let ends = noise.cores.iter().flat_map(|core| [core.stall_ns.min, core.stall_ns.max]).flatten().map(|ns| ns as f64);
    let axis = Axis::times(ends);
    let mut columns = vec![Column::words("CPU"), Column::figures("s"), Column::figures("lost %")];
    columns.extend(["1 us", "10 us", "100 us"].map(|title| Column::figures(title).under("stalls above")));
    columns.extend([
        Column::us("p50"),
        Column::page("p99").in_unit("us"),
        Column::page("p99.9").in_unit("us"),
        Column::us("longest"),
        Column::scale(axis),
    ]);
    let row = |core: &CoreNoise| {
        let of = &core.stall_ns;
        let at = |ns: Option<u64>| ns.map(|ns| axis.at(ns as f64));
        let mut strip = Strip::spread([at(of.min), at(of.p50), at(of.p99), at(of.p999)], at(of.max), None, '●');
        strip.mark(at(of.max), '×');
        vec![
            core.cpu.into(),
            Cell::Fixed(core.duration_ns as f64 / 1e9, 1),
            Cell::Fixed(100.0 * core.lost_share(), 3),
            core.above_1us.into(),
            core.above_10us.into(),
            core.above_100us.into(),
            Cell::ns(of.p50),
            Cell::ns(of.p99),
            Cell::ns(of.p999),
            Cell::ns(of.max),
            Cell::Strip(strip, 0),
        ]
    };
    Table::new(columns, 1, noise.cores.iter().map(row))
}

/// The causes of each core's stalls, or why there are none.
fn causes(doc: &mut Doc, noise: &NoiseBody) {
    doc.gap();
    if let Some(why) = &noise.no_causes {
        return doc.lead("causes      ", format!("unknown ({})", clean(why)));
    }
    let traced: u64 = noise.cores.iter().map(|core| core.traced_ns).sum();
    doc.heading(format!(
        "Causes, in another {} of each core with hooks{}",
        time(traced as f64 / noise.cores.len().max(1) as f64),
        cost(noise)
    ));
    let lost = |core: &CoreNoise| core.causes.iter().map(|cause| cause.lost_ns).sum::<u64>().max(1) as f64;
    let mut brief = Doc::default();
    let is_large =
        |core: &CoreNoise, at: usize, cause: &Cause| at == 0 || (at < CAUSES && cause.lost_ns as f64 >= SMALL * lost(core));
    brief.table(of_causes(noise, &is_large));
    doc.part(Shown::Brief, brief);
    let mut full = Doc::default();
    full.table(of_causes(noise, &|_, _, _| true));
    let mut advice: Vec<(&str, &str)> = Vec::new();
    for cause in noise.cores.iter().flat_map(|core| &core.causes) {
        let one = (cause.cause.as_str(), cause.advice.as_str());
        if !advice.contains(&one) {
            advice.push(one);
        }
    }
    advice.arrange_by(Ord::cmp);
    full.list(List::plain(
        "What to do",
        advice.into_iter().map(|(cause, text)| format!("{}: {}", clean(cause), clean(text))).collect(),
    ));
    doc.part(Shown::Full, full);
}

/// The cost of the hooks in a typical stall.
fn cost(noise: &NoiseBody) -> String {
    let with_most = noise.cores.iter().max_by_key(|core| core.traced_stall_ns.count);
    let both = with_most.and_then(|core| Some((core.stall_ns.p50?, core.traced_stall_ns.p50?)));
    both.map_or_else(String::new, |(bare, traced)| {
        format!(" (p50 of a stall {}, without hooks {})", time(traced as f64), time(bare as f64))
    })
}

fn of_causes(noise: &NoiseBody, shown: &dyn Fn(&CoreNoise, usize, &Cause) -> bool) -> Table {
    let columns = vec![
        Column::words("CPU"),
        Column::words("cause"),
        Column::figures("stalls"),
        Column::figures("lost %"),
        Column::prose("who"),
    ];
    let rows = noise.cores.iter().flat_map(|core| {
        let of = core.causes.iter().enumerate().filter(|(at, cause)| shown(core, *at, cause));
        of.map(|(_, cause)| {
            let share = 100.0 * cause.lost_ns as f64 / core.traced_ns.max(1) as f64;
            vec![core.cpu.into(), clean(&cause.cause).into(), cause.count.into(), Cell::Fixed(share, 3), clean(&cause.who).into()]
        })
    });
    Table { empty: "(no stall)", ..Table::new(columns, 2, rows.collect::<Vec<_>>()) }
}

/// The time of a cache line to the other core and back, for each pair.
fn distances(doc: &mut Doc, noise: &NoiseBody) {
    if noise.pairs.is_empty() {
        return;
    }
    doc.gap();
    let of: BTreeMap<(u32, u32), Option<u64>> =
        noise.pairs.iter().map(|pair| ((pair.client, pair.server), pair.core_rtt_ns)).gather();
    let mut cpus: Vec<u32> = noise.pairs.iter().flat_map(|pair| [pair.client, pair.server]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() > MATRIX {
        return doc.text(format!("{} pairs: their distances are in CSV, JSON and `hairpin report`", of.len()));
    }
    doc.heading("A cache line to the other core and back, in ns");
    let columns = std::iter::once(Column::words("CPU")).chain(cpus[1..].iter().map(|cpu| Column::figures(cpu.to_string())));
    let cell = |a: u32, b: u32| match of.get(&(a, b)) {
        _ if b <= a => Cell::Blank,
        Some(Some(ns)) => (*ns).into(),
        _ => "-".into(),
    };
    let row = |a: &u32| -> Vec<Cell> { std::iter::once((*a).into()).chain(cpus[1..].iter().map(|b| cell(*a, *b))).collect() };
    doc.table(Table::new(columns.collect(), 1, cpus[..cpus.len() - 1].iter().map(row)));
    if of.values().any(Option::is_none) {
        doc.text("-: one of the two was too busy to be measured");
    }
}

/// The kernel's counts on each core over all blocks: stolen time, if there was some, and interrupts, which are all that is known
/// without hooks.
fn meanwhile(doc: &mut Doc, noise: &NoiseBody) {
    let mut lines = Vec::new();
    for core in &noise.cores {
        let stolen = core.steal_ns.filter(|ns| *ns > 0).map(|ns| format!("{} stolen by the hypervisor", time(ns as f64)));
        let mut counts: Vec<(&String, &u64)> = core.interrupts.iter().collect();
        counts.arrange_by_key(|(name, count)| (Reverse(**count), *name));
        let counts = counts.into_iter().take(INTERRUPTS).map(|(name, count)| format!("{} {count}", clean(name)));
        let said: Vec<String> = stolen.into_iter().chain(counts).collect();
        if !said.is_empty() {
            lines.push(format!("CPU {}: {}", core.cpu, said.join(", ")));
        }
    }
    let is_needed = noise.no_causes.is_some() || noise.cores.iter().any(|core| core.steal_ns.is_some_and(|ns| ns > 0));
    let mut part = Doc::default();
    part.list(List::plain("Counted by the kernel over all blocks", lines));
    if is_needed {
        doc.blocks.append(&mut part.blocks);
    } else {
        doc.part(Shown::Full, part);
    }
}

fn longest(noise: &NoiseBody) -> Table {
    let columns =
        vec![Column::words("CPU"), Column::figures("at s"), Column::us("stall"), Column::words("cause"), Column::prose("who")];
    let rows = noise.cores.iter().flat_map(|core| {
        core.longest.iter().map(|stall| {
            let cause = if stall.cause.is_empty() { "(no hooks then)" } else { &stall.cause };
            vec![
                core.cpu.into(),
                Cell::Fixed(stall.at_ns as f64 / 1e9, 3),
                Cell::Ns(stall.ns as f64),
                clean(cause).into(),
                clean(&stall.who).into(),
            ]
        })
    });
    Table { empty: "(no stall)", ..Table::new(columns, 1, rows.collect::<Vec<_>>()) }
}

/// A line for each core, each of its causes and each pair.
fn data(noise: &Noise) -> Data {
    let names = "row cpu peer cause who duration_ns count lost_ns above_1us above_10us above_100us p50_ns p99_ns p99.9_ns max_ns steal_ns core_rtt_ns";
    let blank = || Cell::Blank;
    let cores = noise.cores.iter().flat_map(move |core| {
        let of = &core.stall_ns;
        let whole = [
            "core".into(),
            core.cpu.into(),
            blank(),
            blank(),
            blank(),
            core.duration_ns.into(),
            of.count.into(),
            core.lost_ns.into(),
            core.above_1us.into(),
            core.above_10us.into(),
            core.above_100us.into(),
            of.p50.into(),
            of.p99.into(),
            of.p999.into(),
            of.max.into(),
            core.steal_ns.into(),
            blank(),
        ];
        let cause = move |cause: &Cause| {
            let mut row = [const { Cell::Blank }; 17];
            row[..8].clone_from_slice(&[
                "cause".into(),
                core.cpu.into(),
                blank(),
                (&cause.cause).into(),
                (&cause.who).into(),
                core.traced_ns.into(),
                cause.count.into(),
                cause.lost_ns.into(),
            ]);
            row
        };
        std::iter::once(whole).chain(core.causes.iter().map(cause))
    });
    let pairs = noise.pairs.iter().map(|pair| {
        let mut row = [const { Cell::Blank }; 17];
        row[..3].clone_from_slice(&["pair".into(), pair.client.into(), pair.server.into()]);
        row[16] = pair.core_rtt_ns.into();
        row
    });
    Data::table(names, cores.chain(pairs))
}
