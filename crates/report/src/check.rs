//! The text of `hairpin check`: what the instrument costs, and a row per injected delay.

use hairpin_record::check::{Check, Verdict};
use hairpin_units::Nanos;

use crate::Options;
use crate::grid::{Column, Grid};
use crate::prose::wrap;
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
    let missed = check.delays.iter().filter(|delay| delay.verdict == Verdict::Failed).count();
    let style = if check.verdict == Verdict::Passed { HEADING } else { ERROR };
    let sentence = match check.verdict {
        Verdict::Passed => format!("every delay was reported within {} ns", check.bound_ns),
        Verdict::Failed => format!(
            "{missed} of {} delays were not reported within {} ns; trust no figure from this host, and look at its clock",
            check.delays.len(),
            check.bound_ns
        ),
    };
    let mut verdict = wrap(&format!("{}: ", word(check.verdict)), &sentence, 80);
    verdict[0] = verdict[0].replacen(word(check.verdict), &paint(word(check.verdict), style, options.colour), 1);
    lines.extend(verdict);
    lines.join("\n") + "\n"
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
