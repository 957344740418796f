//! A fit in words and as lines, and the output of `hairpin floor --fit`: base, time per byte and step of each path, and their
//! meaning.

use hairpin_record::fit::{Estimate, Fit, Line};
use hairpin_record::fit::{FitReport, PathFit};
use hairpin_units::BitRate;

use crate::cell::Cell;
use crate::doc::{Column, Data, Doc, Show, Table};
use crate::figure::{ratio, us_signed};
use crate::label::short;
use crate::options::Options;
use crate::prose::capital;

/// An assumed memory copy at 10 GB/s, in ns per byte, as a yardstick for the slope.
const COPY_NS_PER_BYTE: f64 = 0.1;
/// A drawn line has this many pieces.
const PIECES: u32 = 24;

/// The lines, step and points of each path.
impl Show for FitReport {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::default();
        doc.text(format!("fit of run {}: RTT p50 over the mean of request and reply; intervals are of 95 %", self.run));
        if self.paths.is_empty() {
            doc.text("(no results)");
        }
        for path in &self.paths {
            doc.gap();
            doc.text(short(&path.path));
            match &path.fit {
                Some(fit) => fitted(&mut doc, path, fit, self.rate_bit_per_s),
                None => doc.lead("  no fit: ", path.why.as_deref().unwrap_or("no reason is recorded")),
            }
        }
        doc.data = Some(data(self));
        doc
    }
}

fn lines(fit: &Fit) -> impl Iterator<Item = &Line> {
    std::iter::once(&fit.line).chain(&fit.above)
}

/// One line per path and fitted line.
fn data(report: &FitReport) -> Data {
    let names = "path from_bytes to_bytes base_ns base_low_ns base_high_ns ns_per_byte ns_per_byte_low ns_per_byte_high";
    let all = report.paths.iter().flat_map(|path| path.fit.iter().flat_map(lines).map(move |line| (path, line)));
    let line = |(path, line): (&PathFit, &Line)| {
        let ends = |estimate: Estimate| [estimate.value, estimate.low, estimate.high].map(Cell::Number);
        let ([base, low, high], [slope, least, most]) = (ends(line.base_ns), ends(line.ns_per_byte));
        [(&path.path).into(), line.from_bytes.into(), line.to_bytes.into(), base, low, high, slope, least, most]
    };
    Data::table(names, all.map(line))
}

fn fitted(doc: &mut Doc, path: &PathFit, fit: &Fit, rate: Option<u64>) {
    let columns = ["from B", "to B", "base us", "interval", "ns/B", "interval"].map(Column::figures).into();
    doc.table(Table { indent: 2, ..Table::new(columns, 1, lines(fit).map(row)) });
    let mut say = |text: String| doc.lead("  ", text);
    say(step(fit).unwrap_or_else(|| "One line does: no step is seen between these sizes.".into()));
    lines(fit).for_each(|line| say(meaning(line, fit.step.is_some(), rate)));
    say(scatter(fit, &format!(", {} points", path.points.len())));
    if path.apart > 0 {
        let rows = if path.apart == 1 { "1 more row was".into() } else { format!("{} more rows were", path.apart) };
        say(format!("{rows} measured with the cores in another state (core_rtt_ns), and left out."));
    }
}

/// The fit as a sum, each term with its 95 % interval: `4.700 us (4.650 to 4.750) + 0.814 ns/B (0.790 to 0.838)`.
pub(crate) fn words(fit: &Fit) -> String {
    let line = |line: &Line| {
        let (base, slope) = (line.base_ns, line.ns_per_byte);
        let sign = if slope.value < 0.0 { '-' } else { '+' };
        format!(
            "{} us ({} to {}) {sign} {:.3} ns/B ({:.3} to {:.3})",
            us_signed(base.value),
            us_signed(base.low),
            us_signed(base.high),
            slope.value.abs(),
            slope.low,
            slope.high
        )
    };
    match (&fit.above, &fit.step) {
        (Some(above), Some(step)) => {
            format!("{} up to {} B; {} from {} B", line(&fit.line), step.after_bytes, line(above), step.by_bytes)
        }
        _ => line(&fit.line),
    }
}

/// The fit in sentences: its lines, its step, and how near the points lie.
pub(crate) fn sentences(fit: &Fit) -> Vec<String> {
    [Some(format!("{}.", words(fit))), step(fit), Some(scatter(fit, ""))].into_iter().flatten().collect()
}

fn step(fit: &Fit) -> Option<String> {
    let step = fit.step.as_ref()?;
    Some(format!(
        "A new mechanism starts above {} bytes and is there at {} bytes; the step is {:.0} ns ({:.0} to {:.0}).",
        step.after_bytes, step.by_bytes, step.jump_ns.value, step.jump_ns.low, step.jump_ns.high
    ))
}

fn scatter(fit: &Fit, of: &str) -> String {
    format!("Points lie within {:.2} % of their line (one standard deviation{of}).", 100.0 * fit.residual)
}

/// The points of the fitted lines, in bytes and ns. A fit is linear in bytes and therefore curved on two logarithmic scales.
pub(crate) fn points(fit: &Fit) -> Vec<Vec<(f64, f64)>> {
    let pieces = |line: &Line| {
        // Equal steps of the logarithm, from the least size that has one.
        let (from, to) = (line.from_bytes.max(1.0), line.to_bytes.max(1.0));
        let at = |bytes: f64| (bytes, line.base_ns.value + line.ns_per_byte.value * bytes);
        let first = (line.from_bytes < from).then(|| at(line.from_bytes));
        let rest = (0..=PIECES).map(|i| at(from * (to / from).powf(f64::from(i) / f64::from(PIECES))));
        first.into_iter().chain(rest).filter(|(_, ns)| *ns > 0.0).collect()
    };
    lines(fit).map(pieces).collect()
}

fn row(line: &Line) -> Vec<Cell> {
    let both = |estimate: Estimate, form: &dyn Fn(f64) -> String| format!("{} to {}", form(estimate.low), form(estimate.high));
    vec![
        line.from_bytes.to_string().into(),
        line.to_bytes.to_string().into(),
        Cell::Ns(line.base_ns.value),
        both(line.base_ns, &us_signed).into(),
        Cell::Fixed(line.ns_per_byte.value, 3),
        both(line.ns_per_byte, &|ns| format!("{ns:.3}")).into(),
    ]
}

/// Explains a slope: the bytes travel both ways, so each way accounts for half of it.
fn meaning(line: &Line, several: bool, rate: Option<u64>) -> String {
    let slope = line.ns_per_byte;
    let place = if several { format!("From {} to {} bytes, ", line.from_bytes, line.to_bytes) } else { String::new() };
    if slope.high < 0.0 {
        let [least, most] = [slope.high, slope.low].map(f64::abs);
        return capital(&format!("{place}a byte more takes less time: {least:.3} to {most:.3} ns less for each."));
    }
    if slope.low <= 0.0 {
        let text = format!(
            "{place}the time per byte cannot be told from zero (at most {:.3} ns): size hardly matters.",
            slope.high.max(0.0)
        );
        return capital(&text);
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
    capital(&text)
}

#[cfg(test)]
mod tests {
    use hairpin_record::fit::fit;

    use super::*;

    #[test]
    fn a_time_that_falls_with_size_is_told() {
        let line = fit(&[4.0, 8.0, 16.0, 32.0, 64.0].map(|bytes| (bytes, 4_000.0 - 20.0 * bytes)), 1.0).unwrap().line;
        let said = meaning(&line, false, None);
        assert!(said.starts_with("A byte more takes less time: 19."), "{said}");
    }

    #[test]
    fn both_lines_of_a_step_are_told_and_drawn() {
        let sizes = [4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0, 1024.0, 1400.0];
        let time = |bytes: f64| 4_000.0 + 1.6 * bytes + if bytes > 32.0 { 2_000.0 } else { 0.0 };
        let fit = fit(&sizes.map(|bytes| (bytes, time(bytes))), 1.0).unwrap();
        let figures = |text: &str| text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect::<String>();
        let line = " us ( to ) +  ns/B ( to )";
        assert_eq!(figures(&words(&fit)), format!("{line} up to  B; {line} from  B"));
        assert!(words(&fit).starts_with("4.000 us (3.") && words(&fit).contains(" + 1.600 ns/B (1."), "{}", words(&fit));
        assert_eq!(sentences(&fit).len(), 3);
        let pieces = points(&fit);
        assert_eq!(pieces.len(), 2);
        for (bytes, ns) in pieces.concat() {
            assert!((ns - time(bytes)).abs() < 1.0, "{bytes} {ns}");
        }
    }
}
