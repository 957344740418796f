//! The text of `hairpin floor --fit`: base, time per byte and step of each path, and what they mean.

use hairpin_record::fit::{Estimate, Fit, Line};
use hairpin_record::floor::{FitReport, PathFit};
use hairpin_units::BitRate;

use crate::Options;
use crate::figure::{ratio, us};
use crate::grid::{Column, Grid};
use crate::label::short;
use crate::prose::{WIDTH, wrap};

/// A copy in memory at 10 GB/s, in ns per byte: an assumed figure, to give ns per byte a size.
const COPY_NS_PER_BYTE: f64 = 0.1;

/// Each path's lines, step and points.
pub fn floor_fit(report: &FitReport, options: &Options) -> String {
    let mut lines =
        wrap("", &format!("fit of run {}: RTT p50 over the mean of request and reply; intervals are of 95 %", report.run), WIDTH);
    if report.paths.is_empty() {
        lines.push("(no results)".into());
    }
    for path in &report.paths {
        lines.push(String::new());
        lines.extend(wrap("", &short(&path.path), WIDTH));
        match &path.fit {
            Some(fit) => lines.extend(fitted(path, fit, report.rate_bit_per_s, options)),
            None => lines.extend(wrap("  no fit: ", path.why.as_deref().unwrap_or("no reason is recorded"), WIDTH)),
        }
    }
    lines.join("\n") + "\n"
}

fn fitted(path: &PathFit, fit: &Fit, rate: Option<u64>, options: &Options) -> Vec<String> {
    let columns = ["from B", "to B", "base us", "interval", "ns/B", "interval"].map(Column::figures).into();
    let rows = std::iter::once(&fit.line).chain(&fit.above).map(row).collect();
    let mut lines: Vec<String> = Grid { columns, labels: 1, rows }
        .lines(options.columns(), options.colour)
        .into_iter()
        .map(|line| format!("  {line}"))
        .collect();
    let mut say = |text: String| lines.extend(wrap("  ", &text, WIDTH));
    match &fit.step {
        Some(step) => say(format!(
            "A new mechanism starts above {} bytes and is there at {} bytes; the step is {} ns ({} to {}).",
            step.after_bytes,
            step.by_bytes,
            whole(step.jump_ns.value),
            whole(step.jump_ns.low),
            whole(step.jump_ns.high)
        )),
        None => say("One line does: no step is seen between these sizes.".into()),
    }
    for line in std::iter::once(&fit.line).chain(&fit.above) {
        say(meaning(line, fit.step.is_some(), rate));
    }
    say(format!(
        "Points lie within {:.2} % of their line (one standard deviation, {} points).",
        100.0 * fit.residual,
        path.points.len()
    ));
    if path.apart > 0 {
        let rows = if path.apart == 1 { "1 more row was".into() } else { format!("{} more rows were", path.apart) };
        say(format!("{rows} measured with the cores in another state (core_rtt_ns), and left out."));
    }
    lines
}

fn row(line: &Line) -> Vec<String> {
    let both = |estimate: Estimate, form: &dyn Fn(f64) -> String| format!("{} to {}", form(estimate.low), form(estimate.high));
    let slope = |ns: f64| format!("{ns:.3}");
    let base = |ns: f64| if ns < 0.0 { format!("-{}", us(-ns)) } else { us(ns) };
    vec![
        line.from_bytes.to_string(),
        line.to_bytes.to_string(),
        base(line.base_ns.value),
        both(line.base_ns, &base),
        slope(line.ns_per_byte.value),
        both(line.ns_per_byte, &slope),
    ]
}

/// What a slope means: bytes go there and back, so each way takes half of it.
fn meaning(line: &Line, several: bool, rate: Option<u64>) -> String {
    let slope = line.ns_per_byte;
    let place = if several { format!("From {} to {} bytes, ", line.from_bytes, line.to_bytes) } else { String::new() };
    if slope.low <= 0.0 {
        let text = format!(
            "{place}the time per byte cannot be told from none (at most {:.3} ns): bytes are not what takes the time.",
            slope.high.max(0.0)
        );
        return capital(text);
    }
    let each_way = slope.value / 2.0;
    let mut text = format!(
        "{place}{:.3} ns a byte there and back is {each_way:.3} ns each way: as much as a link of {:.3} Gbit/s would take, or {} copies in memory at an assumed {COPY_NS_PER_BYTE} ns a byte",
        slope.value,
        8.0 / each_way,
        ratio(each_way / COPY_NS_PER_BYTE)
    );
    match rate {
        Some(rate) => {
            let own = 8e9 / rate as f64;
            text.push_str(&format!(", or {} serializations at the declared {}.", ratio(each_way / own), BitRate(rate)));
        }
        None => text.push_str("; declare a rate to hold it against that link's own serialization (--rate 10G)."),
    }
    capital(text)
}

fn capital(text: String) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

fn whole(ns: f64) -> String {
    format!("{ns:.0}")
}
