//! The text of `hairpin check`: what the instrument costs, a row per injected delay, and a row per latency of the emulated NIC.

use hairpin_record::check::{Check, Verdict};
use hairpin_units::Nanos;

use crate::Options;
use crate::grid::{Column, Grid};
use crate::prose::{clean, wrap};
use crate::style::{ERROR, HEADING, paint};

/// The text, at most as wide as the options say.
pub fn check(check: &Check, options: &Options) -> String {
    let clock = &check.clock;
    let mut lines = wrap(
        "own cost    ",
        &format!(
            "{:.1} ns per transaction over a path that does nothing, both stamps included ({:.1} ns in the quickest block)",
            check.own_cost_ns, check.own_cost_least_ns
        ),
        80,
    );
    lines.extend(wrap(
        "clock       ",
        &format!(
            "{}: a pair of stamps costs {:.1} ns, the smallest step is {:.1} ns",
            clock.source, clock.cost_ns, clock.step_ns
        ),
        80,
    ));
    lines.push(String::new());
    let titles = ["injected ns", "reported ns", "error ns"];
    let columns: Vec<Column> =
        std::iter::once(Column::words("delay")).chain(titles.map(Column::figures)).chain([Column::words("verdict")]).collect();
    let rows = check.delays.iter().map(|delay| {
        vec![
            Nanos(delay.asked_ns).to_string(),
            format!("{:.1}", delay.injected_ns),
            format!("{:.1}", delay.reported_ns),
            format!("{:+.1}", delay.error_ns),
            word(delay.verdict).into(),
        ]
    });
    let grid = Grid { columns, labels: 1, rows: rows.collect() };
    lines.extend(grid.lines(options.columns(), options.colour));
    lines.push(String::new());
    lines.extend(latencies(check, options));
    let style = if check.verdict == Verdict::Passed { HEADING } else { ERROR };
    let sentence = match check.verdict {
        Verdict::Passed if check.latencies.is_empty() => format!("every delay was reported within {} ns", check.bound_ns),
        Verdict::Passed => format!(
            "every delay was reported within {} ns, and every round trip over a known latency within {} ns",
            check.bound_ns, check.latency_bound_ns
        ),
        Verdict::Failed => format!("{}; trust no figure from this host, and look at its clock", missed(check)),
    };
    let mut verdict = wrap(&format!("{}: ", word(check.verdict)), &sentence, 80);
    verdict[0] = verdict[0].replacen(word(check.verdict), &paint(word(check.verdict), style, options.colour), 1);
    lines.extend(verdict);
    lines.join("\n") + "\n"
}

/// The emulated NIC, or why it was left out.
fn latencies(check: &Check, options: &Options) -> Vec<String> {
    if let Some(why) = &check.no_latencies {
        let mut lines = wrap("emulated    ", &format!("no NIC of a known latency was measured: {}", clean(why)), 80);
        lines.push(String::new());
        return lines;
    }
    if check.latencies.is_empty() {
        return Vec::new();
    }
    let text =
        "RTT p50 in ns over the emulated NIC, 60-byte frames: 2 x declared one way + turn-around + what the program itself takes";
    let mut lines = wrap("", text, 80);
    lines.push(String::new());
    let titles = ["turn-around", "own", "sum", "measured", "error"];
    let columns: Vec<Column> =
        std::iter::once(Column::words("one way")).chain(titles.map(Column::figures)).chain([Column::words("verdict")]).collect();
    let rows = check.latencies.iter().map(|latency| {
        let ns = |ns: f64| format!("{ns:.1}");
        vec![
            format!("{} ns", latency.declared_ns),
            ns(latency.turnaround_ns),
            ns(latency.own_ns),
            ns(latency.sum_ns),
            ns(latency.measured_ns),
            format!("{:+.1}", latency.error_ns),
            word(latency.verdict).into(),
        ]
    });
    let grid = Grid { columns, labels: 1, rows: rows.collect() };
    lines.extend(grid.lines(options.columns(), options.colour));
    lines.push(String::new());
    lines
}

/// What was not reported as it should.
fn missed(check: &Check) -> String {
    let failed = |verdicts: &mut dyn Iterator<Item = Verdict>| verdicts.filter(|verdict| *verdict == Verdict::Failed).count();
    let delays = failed(&mut check.delays.iter().map(|delay| delay.verdict));
    let latencies = failed(&mut check.latencies.iter().map(|latency| latency.verdict));
    let said = [
        (delays, format!("{delays} of {} delays were not reported within {} ns", check.delays.len(), check.bound_ns)),
        (
            latencies,
            format!(
                "{latencies} of {} round trips over a known latency were not within {} ns of it",
                check.latencies.len(),
                check.latency_bound_ns
            ),
        ),
    ];
    said.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect::<Vec<_>>().join(", and ")
}

/// `hairpin.check/1`, a field per line.
pub fn check_json(check: &Check) -> String {
    serde_json::to_string_pretty(check).expect("a check has text keys only") + "\n"
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
    }
}
