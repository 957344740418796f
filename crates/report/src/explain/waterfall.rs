//! The stages in the order of a round trip: over all, typical with a bar, and slow.

use hairpin_record::explain::{Direction, Explained, Stage};
use hairpin_record::run::Quantiles;
use hairpin_units::Arrange;

use crate::cell::{Bar, Cell, IntoCell};
use crate::doc::{Column, Doc, Row, Table};
use crate::figure::{percent, us, us_signed};
use crate::prose::clean;
use crate::style::Tone;

/// A stage passed by at least this share of round trips needs no remark.
const NEARLY_ALL: f64 = 0.995;
/// The stage with the second-largest growth is marked if it makes up at least this share of the growth.
const SECOND: f64 = 0.2;
/// A mean is a sum of integers divided: a larger relative difference is not rounding.
const ROUNDING: f64 = 1e-3;

/// The column definitions and the table.
pub(super) fn show(doc: &mut Doc, result: &Explained) {
    doc.text(legend(result));
    doc.gap();
    doc.table(table(result));
}

/// A line of the waterfall.
struct Line<'r> {
    name: String,
    times: Option<&'r Quantiles>,
    /// Means over the typical and over the slow round trips.
    means: [Option<f64>; 2],
    /// Start and end within the typical round trip, in ns.
    part: Option<(f64, f64)>,
    mark: bool,
    tone: Tone,
}

fn table(result: &Explained) -> Table {
    let total = (result.typical.count > 0).then_some(result.typical.rtt_ns).filter(|ns| *ns > 0.0);
    let slow = result.slow.count > 0;
    let mut columns = vec![Column::words("stage")];
    columns.extend(["p50", "p99"].map(|title| Column::us(title).under("all")));
    columns.extend([Column::us("mean"), Column::figures("share")].map(|column| column.under("typical")));
    columns.push(Column::bar());
    if slow {
        columns.extend(["mean", "grew"].map(|title| Column::us(title).under("slow")));
        columns.push(Column::words(""));
    }
    let row = |line: Line<'_>| {
        let [typical, slow_mean] = line.means;
        let bar = total.zip(line.part).into_cell(|(total, (from, to))| Cell::Bar(Bar::new(from / total, to / total)));
        let mut cells = vec![
            // The indent is part of the name.
            Cell::Text(line.name),
            Cell::ns(line.times.and_then(|times| times.p50)),
            Cell::ns(line.times.and_then(|times| times.p99)),
            typical.into_cell(Cell::Ns),
            total.zip(typical).into_cell(|(total, ns)| share(ns / total)),
            bar,
        ];
        if slow {
            let grew = typical.zip(slow_mean).into_cell(|(typical, slow)| Cell::Growth(slow - typical));
            cells.extend([slow_mean.into_cell(Cell::Ns), grew, if line.mark { "*" } else { "" }.into()]);
        }
        Row { cells, tone: if line.mark { Tone::Warning } else { line.tone } }
    };
    Table::new(columns, 1, lines(result).into_iter().map(row))
}

/// Groups of stages with their sums, then observer, residual, RTT and floor.
fn lines(result: &Explained) -> Vec<Line<'_>> {
    let mark = grown(&result.stages);
    let known = [result.typical.count > 0, result.slow.count > 0];
    let means = |typical: f64, slow: f64| [known[0].then_some(typical), known[1].then_some(slow)];
    let line = |name: String, times, means, part| Line { name, times, means, part, mark: false, tone: Tone::Plain };
    let mut lines = Vec::new();
    let mut at = 0.0;
    let mut part = |ns: f64| {
        let from = at;
        // A mean below zero by rounding must not move the next bar back.
        at += ns.max(0.0);
        Some((from, at))
    };
    let mut from = 0;
    for group in result.stages.chunk_by(|a, b| (a.direction, a.side) == (b.direction, b.side)) {
        let sum = |of: fn(&Stage) -> f64| group.iter().map(of).sum();
        let name = format!("{}, {}", direction(group[0].direction), group[0].side);
        let sums = means(sum(|stage| stage.typical_ns), sum(|stage| stage.slow_ns));
        lines.push(Line { tone: Tone::Heading, ..line(name, None, sums, None) });
        for (i, stage) in group.iter().enumerate() {
            let share = passed(stage, result).map_or(String::new(), |share| format!(" [{share}]"));
            let name = format!("  {}{share}", clean(&stage.name));
            let means = means(stage.typical_ns, stage.slow_ns);
            lines.push(Line { mark: mark.contains(&(from + i)), ..line(name, Some(&stage.ns), means, part(stage.typical_ns)) });
        }
        from += group.len();
    }
    let (typical, slow) = (&result.typical, &result.slow);
    for (name, times, [typical, slow]) in [
        ("observer", &result.observer_ns, [typical.observer_ns, slow.observer_ns]),
        ("residual", &result.residual_ns, [typical.residual_ns, slow.residual_ns]),
    ] {
        lines.push(line(name.into(), Some(times), means(typical, slow), part(typical)));
    }
    let whole = line("RTT".into(), Some(&result.rtt_ns), means(typical.rtt_ns, slow.rtt_ns), Some((0.0, typical.rtt_ns)));
    lines.push(Line { tone: Tone::Heading, ..whole });
    // A floor with two ends has no single length; the text below the table gives both.
    if let Some(floor) = result.floor.as_ref().and_then(|floor| floor.rtt.ns) {
        let ns = floor.as_ns_f64();
        lines.push(line("floor".into(), None, [Some(ns), None], Some((0.0, ns))));
    }
    lines
}

/// The stage that grew most from typical to slow, and the next one if its growth is large too.
fn grown(stages: &[Stage]) -> Vec<usize> {
    let growth = |i: &usize| stages[*i].slow_ns - stages[*i].typical_ns;
    let mut order: Vec<usize> = (0..stages.len()).filter(|i| growth(i) > 0.0).collect();
    order.arrange_by(|a, b| growth(b).total_cmp(&growth(a)));
    let all: f64 = order.iter().map(growth).sum();
    let much = order.iter().skip(1).take_while(|i| growth(i) >= SECOND * all).count();
    order.truncate(1 + much.min(1));
    order
}

/// The share of round trips that pass a stage, if notably below 1.
fn passed(stage: &Stage, result: &Explained) -> Option<String> {
    let share = stage.ns.count as f64 / result.rtt_ns.count as f64;
    (share < NEARLY_ALL).then(|| format!("{} %", percent(share)))
}

pub(super) fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Request => "request",
        Direction::Reply => "reply",
    }
}

fn legend(result: &Explained) -> String {
    let typical = &result.typical;
    let range = |from: u64, to: u64| format!("{} to {} us", us(from as f64), us(to as f64));
    let mut parts = vec!["in us; all: traced round trips".to_owned()];
    if typical.count > 0 {
        parts.push(format!(
            "typical: the {} from p40 to p60 ({}), of which the stages, observer (the hooks) and residual add up to the RTT",
            typical.count,
            range(typical.from_ns, typical.to_ns)
        ));
    }
    let slow = &result.slow;
    if slow.count > 0 {
        let range = range(slow.from_ns, slow.to_ns);
        parts.push(format!("slow: the {} above p99 ({range}); grew: slow less typical, most where *", slow.count));
    }
    if result.stages.iter().any(|stage| passed(stage, result).is_some()) {
        parts.push("[ ]: the share that passes the stage".into());
    }
    parts.join("; ")
}

fn share(share: f64) -> Cell {
    if share < 100.0 { Cell::Share(share) } else { format!("{share:.0e}").into() }
}

/// A warning if the parts do not add up to the whole: such a record is inconsistent.
pub(crate) fn gap(result: &Explained) -> Vec<String> {
    let stages = |of: fn(&Stage) -> f64| result.stages.iter().map(of).sum::<f64>();
    let groups =
        [("typical", &result.typical, stages(|stage| stage.typical_ns)), ("slow", &result.slow, stages(|stage| stage.slow_ns))];
    let apart = groups.into_iter().filter(|(_, group, _)| group.count > 0).filter_map(|(name, group, stages)| {
        let sum = stages + group.observer_ns + group.residual_ns;
        let apart = (sum - group.rtt_ns).abs() > 1.0 + ROUNDING * group.rtt_ns.abs() || sum.is_nan();
        let figures = format!("{} us, not to the RTT of {} us", us_signed(sum), us_signed(group.rtt_ns));
        apart.then(|| {
            format!("stages, observer and residual of the {name} round trips make {figures}; trust none of these figures")
        })
    });
    apart.collect()
}
