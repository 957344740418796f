//! The text of `hairpin check`: what the instrument costs, its clock beside another, a row per injected delay, and a row per latency of the emulated NIC.

use hairpin_record::check::{Check, Elapsed, Verdict};
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
            "{}: a pair of stamps costs {:.1} ns; it moves in steps of {:.1} ns, and no error below is known better than to one step",
            clock.source, clock.cost_ns, clock.step_ns
        ),
        80,
    ));
    lines.extend(check.elapsed.iter().flat_map(|elapsed| wrap("elapsed     ", &kept_time(elapsed), 80)));
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
        Verdict::Passed => passed(check),
        Verdict::Failed => {
            format!("{}; trust no figure from this host while it does so, and look at its clock", missed(check))
        }
    };
    let mut verdict = wrap(&format!("{}: ", word(check.verdict)), &sentence, 80);
    verdict[0] = verdict[0].replacen(word(check.verdict), &paint(word(check.verdict), style, options.colour), 1);
    lines.extend(verdict);
    lines.join("\n") + "\n"
}

/// Both clocks over the whole check.
fn kept_time(elapsed: &Elapsed) -> String {
    let s = |ns: u64| ns as f64 / 1e9;
    format!(
        "{:.6} s by this clock, {:.6} s by {}: {:+.1} ppm, of {:.0} allowed; {}",
        s(elapsed.clock_ns),
        s(elapsed.other_ns),
        clean(&elapsed.against),
        elapsed.error_ppm,
        elapsed.bound_ppm,
        word(elapsed.verdict)
    )
}

/// The worst error of some, in ns.
fn worst(errors: impl Iterator<Item = f64>) -> f64 {
    errors.map(f64::abs).fold(0.0, f64::max)
}

/// How often a test was made, where once was not enough.
fn at_try(tries: u32) -> String {
    if tries > 1 { format!(" at try {tries}") } else { String::new() }
}

fn passed(check: &Check) -> String {
    let delays = format!(
        "every delay was reported within {:.1} ns of {} allowed{}",
        worst(check.delays.iter().map(|delay| delay.error_ns)),
        check.bound_ns,
        at_try(check.delay_tries)
    );
    if check.latencies.is_empty() {
        return delays;
    }
    let latencies = worst(check.latencies.iter().map(|latency| latency.error_ns));
    let (allowed, at_try) = (check.latency_bound_ns, at_try(check.latency_tries));
    format!("{delays}, and every round trip over a known latency within {latencies:.1} ns of {allowed} allowed{at_try}")
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
    let in_tries = |tries: u32| if tries > 1 { format!(" in any of {tries} tries") } else { String::new() };
    let worst_delay = worst(check.delays.iter().map(|delay| delay.error_ns));
    let worst_latency = worst(check.latencies.iter().map(|latency| latency.error_ns));
    let wrong = check.elapsed.iter().filter(|elapsed| elapsed.verdict == Verdict::Failed);
    let mut said: Vec<String> = wrong
        .map(|elapsed| {
            let (ppm, allowed) = (elapsed.error_ppm, elapsed.bound_ppm);
            format!("the clock is {ppm:+.0} ppm off {}, and {allowed:.0} are allowed", clean(&elapsed.against))
        })
        .collect();
    if delays > 0 {
        let of = format!("{delays} of {} delays were not reported within {} ns", check.delays.len(), check.bound_ns);
        said.push(format!("{of}{}: known delays are within {worst_delay:.1} ns", in_tries(check.delay_tries)));
    }
    if latencies > 0 {
        let of = format!(
            "{latencies} of {} round trips over a known latency were not within {} ns of it",
            check.latencies.len(),
            check.latency_bound_ns
        );
        said.push(format!("{of}{}: they are within {worst_latency:.1} ns", in_tries(check.latency_tries)));
    }
    if said.is_empty() {
        said.push(format!("the clock moves in steps of {:.1} ns, too coarse for the shortest delay", check.clock.step_ns));
    }
    said.join(", and ")
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
    }
}
