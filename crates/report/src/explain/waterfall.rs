//! The stages in the order of a round trip: all, typical ones with a bar where each stage lies, slow ones beside them.

use hairpin_record::explain::{Direction, Explained, Stage};
use hairpin_record::run::Quantiles;

use crate::Options;
use crate::figure::{percent, us, us_signed};
use crate::grid::{Column, Grid};
use crate::prose::{WIDTH, clean, width, wrap};
use crate::style::{HEADING, WARNING, paint};

/// A bar says nothing in less.
const LEAST_BAR: usize = 10;
/// And no more in this.
const LONGEST_BAR: usize = 60;
/// Stages that all but so many round trips pass need no remark.
const NEARLY_ALL: f64 = 0.995;
/// The second of those that grew is marked if it makes at least so much of the growth.
const SECOND: f64 = 0.2;
/// A mean is a sum of integers divided: more than this apart is no rounding.
const ROUNDING: f64 = 1e-3;

/// Part of the typical round trip: where it begins and ends, in ns.
#[derive(Clone, Copy)]
struct Part {
    from: f64,
    to: f64,
}

/// A line of the waterfall before its bar is drawn.
struct Line {
    name: String,
    times: Option<Quantiles>,
    /// Mean of the typical, mean of the slow.
    means: [Option<f64>; 2],
    bar: Option<Part>,
    mark: bool,
    heading: bool,
}

/// What the columns are, and the table.
pub(super) fn lines(result: &Explained, options: &Options) -> Vec<String> {
    let lines = rows(result);
    let total = (result.typical.count > 0).then_some(result.typical.rtt_ns).filter(|ns| *ns > 0.0);
    let slow = result.slow.count > 0;
    let cells: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let quantile = |of: fn(&Quantiles) -> Option<u64>| {
                line.times.as_ref().and_then(of).map_or(String::new(), |ns| us_signed(ns as f64))
            };
            let [typical, slow_mean] = line.means;
            let share = total.zip(typical).map_or(String::new(), |(total, ns)| share(ns / total));
            let mut cells = vec![line.name.clone(), quantile(|times| times.p50), quantile(|times| times.p99)];
            cells.extend([typical.map_or(String::new(), us_signed), share]);
            if slow {
                let grew = typical.zip(slow_mean).map_or(String::new(), |(typical, slow)| growth(slow - typical));
                cells.extend([slow_mean.map_or(String::new(), us_signed), grew, if line.mark { "*" } else { "" }.into()]);
            }
            cells
        })
        .collect();
    let mut columns = vec![Column::words("stage")];
    columns.extend(["p50", "p99"].map(|title| Column::figures(title).under("all")));
    columns.extend(["mean", "share"].map(|title| Column::figures(title).under("typical")));
    if slow {
        columns.extend(["mean", "grew"].map(|title| Column::figures(title).under("slow")));
        columns.push(Column::words(""));
    }
    let room = room(&columns, &cells, options.columns());
    let cells = lines.iter().zip(cells).map(|(line, mut cells)| {
        let bar = total.zip(line.bar).map_or(String::new(), |(total, part)| bar(part, total, room));
        cells.insert(BAR_COLUMN, bar);
        cells
    });
    let rows = cells.collect();
    columns.insert(BAR_COLUMN, Column::words(&" ".repeat(room)));
    let (head, blocks) = Grid { columns, labels: 1, rows }.blocks(options.columns(), options.colour);
    let mut text: Vec<String> = wrap("", &legend(result), WIDTH);
    text.push(String::new());
    text.extend(head);
    for (line, block) in lines.iter().zip(blocks) {
        let style = if line.heading { Some(HEADING) } else { line.mark.then_some(WARNING) };
        text.extend(block.iter().map(|text| style.map_or(text.clone(), |style| paint(text, style, options.colour))));
    }
    text
}

/// Behind the share that it draws.
const BAR_COLUMN: usize = 5;

/// Groups of stages with their sums, then what the hooks took, what no stage explains, the whole, and the floor.
fn rows(result: &Explained) -> Vec<Line> {
    let mark = grown(&result.stages);
    let known = [result.typical.count > 0, result.slow.count > 0];
    let means = |typical: f64, slow: f64| [known[0].then_some(typical), known[1].then_some(slow)];
    let mut lines = Vec::new();
    let mut at = 0.0;
    let mut part = |ns: f64| {
        let from = at;
        // What may be below zero by a rounding does not move the next bar back.
        at += ns.max(0.0);
        Part { from, to: at }
    };
    let mut from = 0;
    for group in result.stages.chunk_by(|a, b| (a.direction, a.side) == (b.direction, b.side)) {
        let sum = |of: fn(&Stage) -> f64| group.iter().map(of).sum();
        lines.push(Line {
            name: format!("{}, {}", direction(group[0].direction), group[0].side),
            times: None,
            means: means(sum(|stage| stage.typical_ns), sum(|stage| stage.slow_ns)),
            bar: None,
            mark: false,
            heading: true,
        });
        lines.extend(group.iter().enumerate().map(|(i, stage)| Line {
            name: format!(
                "  {}{}",
                clean(&stage.name),
                passed(stage, result).map_or(String::new(), |share| format!(" [{share}]"))
            ),
            times: Some(stage.ns.clone()),
            means: means(stage.typical_ns, stage.slow_ns),
            bar: Some(part(stage.typical_ns)),
            mark: mark.contains(&(from + i)),
            heading: false,
        }));
        from += group.len();
    }
    let rest = [
        ("observer", &result.observer_ns, result.typical.observer_ns, result.slow.observer_ns),
        ("residual", &result.residual_ns, result.typical.residual_ns, result.slow.residual_ns),
    ];
    let line = |name: &str, times: Option<&Quantiles>, means, bar, heading| Line {
        name: name.into(),
        times: times.cloned(),
        means,
        bar,
        mark: false,
        heading,
    };
    lines.extend(
        rest.map(|(name, times, typical, slow)| line(name, Some(times), means(typical, slow), Some(part(typical)), false)),
    );
    let whole = Part { from: 0.0, to: result.typical.rtt_ns };
    lines.push(line("RTT", Some(&result.rtt_ns), means(result.typical.rtt_ns, result.slow.rtt_ns), Some(whole), true));
    // An interval has no one length; the words below the table have both its ends.
    if let Some(floor) = result.floor.as_ref().and_then(|floor| floor.rtt.ns) {
        let ns = floor.as_ns_f64();
        lines.push(line("floor", None, [Some(ns), None], Some(Part { from: 0.0, to: ns }), false));
    }
    lines
}

/// The one stage that grew most from the typical to the slow, and the next if it made much of it too.
fn grown(stages: &[Stage]) -> Vec<usize> {
    let growth = |i: &usize| stages[*i].slow_ns - stages[*i].typical_ns;
    let mut order: Vec<usize> = (0..stages.len()).filter(|i| growth(i) > 0.0).collect();
    order.sort_by(|a, b| growth(b).total_cmp(&growth(a)));
    let all: f64 = order.iter().map(growth).sum();
    let much = order.iter().skip(1).take_while(|i| growth(i) >= SECOND * all).count();
    order.truncate(1 + much.min(1));
    order
}

/// The share of round trips that pass a stage, where it is not about all.
fn passed(stage: &Stage, result: &Explained) -> Option<String> {
    let share = stage.ns.count as f64 / result.rtt_ns.count as f64;
    (share < NEARLY_ALL).then(|| format!("{} %", percent(share)))
}

fn direction(direction: Direction) -> &'static str {
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

/// Columns that are left for the bar.
fn room(columns: &[Column], cells: &[Vec<String>], all: usize) -> usize {
    let widest = |i: usize| cells.iter().map(|row| width(&row[i])).max().unwrap_or(0).max(width(columns[i].title()));
    let taken: usize = (0..columns.len()).map(widest).sum();
    let left = |gap: usize| all.saturating_sub(taken + gap * columns.len());
    // Two columns of space between figures are easier to read than a longer bar.
    let room = if left(2) >= LEAST_BAR { left(2) } else { left(1) };
    room.clamp(LEAST_BAR, LONGEST_BAR)
}

/// `#` from where a part begins to where it ends; what takes less than half a column is a dot.
fn bar(part: Part, total: f64, room: usize) -> String {
    let columns = |ns: f64| (ns / total).clamp(0.0, 1.0) * room as f64;
    let (from, to) = (columns(part.from), columns(part.to));
    let drawn = match to - from {
        length if length <= 0.0 || length.is_nan() => return String::new(),
        length if length < 0.5 => ".".into(),
        _ => "#".repeat((to.round() as usize).saturating_sub(from.round() as usize).max(1)),
    };
    format!("{}{drawn}", " ".repeat((from.round() as usize).min(room - 1)))
}

fn share(share: f64) -> String {
    if share < 100.0 { format!("{} %", percent(share)) } else { format!("{share:.0e}") }
}

fn growth(ns: f64) -> String {
    if ns > 0.0 { format!("+{}", us_signed(ns)) } else { us_signed(ns) }
}

/// Says so where the parts do not make the whole: the record is not what it says it is.
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
