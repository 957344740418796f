//! The bounds, and the table that says whether they are met: 80 columns, every cell, failed ones too.

use std::fmt::Write as _;

use hairpin_record::statistics::{LogMean, Ratio};
use serde::Serialize;

use super::cells::{Cell, Transport, Wait};
use super::others::Information;
use super::pairs::{Attempt, CONFIDENCE, Findings, findings};

/// The geometric mean over the UDP cells that spin.
const UDP_SPIN: f64 = 0.97;
/// The geometric mean over the TCP cells that spin.
const TCP_SPIN: f64 = 1.00;
/// The upper end of every spinning cell, and of all blocking ones together.
const UPPER: f64 = 1.05;

/// One cell of the table.
pub(crate) struct Line {
    cell: Cell,
    attempts: usize,
    found: Result<Findings, String>,
    wanted: usize,
}

/// A bound and what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Bound {
    pub(crate) what: String,
    pub(crate) found: String,
    pub(crate) bound: String,
    /// `None` if it was not measured.
    pub(crate) met: Option<bool>,
}

/// A cell as the record keeps it.
#[derive(Serialize)]
pub(crate) struct Kept {
    cell: String,
    attempts: usize,
    pairs: usize,
    pairs_near: usize,
    hairpin_p50_ns: f64,
    sockperf_p50_ns: f64,
    ratio: Ratio,
    sockperf_itself: Option<Ratio>,
    sockperf_itself_sd: Option<f64>,
}

/// The lines of `cells` from all attempts.
pub(crate) fn lines(cells: &[Cell], attempts: &[Attempt], wanted: usize) -> Vec<Line> {
    let line = |&cell: &Cell| {
        let own: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.cell == cell.to_string()).collect();
        let last_error = own.iter().rev().find_map(|attempt| attempt.error.clone());
        let found = findings(&own).map_err(|e| last_error.unwrap_or_else(|| e.to_string()));
        Line { cell, attempts: own.len(), found, wanted }
    };
    cells.iter().map(line).collect()
}

impl Line {
    /// The figures, if there are as many pairs as were asked for.
    fn enough(&self) -> Option<&Findings> {
        self.found.as_ref().ok().filter(|found| found.pairs >= self.wanted)
    }

    /// What the last column says, and whether that is a miss. A cell that blocks has no bound of its own, so it is never `ok`.
    fn mark(&self) -> (&'static str, bool) {
        let Some(found) = self.enough() else { return (if self.found.is_err() { "none" } else { "few" }, true) };
        match (self.cell.wait, found.ratio.interval(CONFIDENCE).high > UPPER) {
            (Wait::Spin, true) => ("MISS", true),
            (Wait::Spin, false) => ("ok", false),
            (Wait::Block, true) => ("high", false),
            (Wait::Block, false) => ("-", false),
        }
    }

    fn text(&self) -> String {
        let mark = self.mark().0;
        let found = match &self.found {
            Ok(found) => found,
            Err(why) => return format!("{:<22} {:>5} {mark}: {}", self.cell, format!("0/{}", self.attempts), short(why)),
        };
        let ratio = found.ratio.interval(CONFIDENCE);
        let us = |ns: f64| if ns < 1e5 { format!("{:.2}", ns / 1e3) } else { format!("{:.0}", ns / 1e3) };
        let itself = found.itself.map_or("-".to_owned(), |itself| format!("{:.3}", itself.interval(CONFIDENCE).ratio));
        let sd = found.itself_sd.map_or("-".to_owned(), |sd| format!("{sd:.3}"));
        format!(
            "{:<22} {:>5} {:>7} {:>8} {:>5.3} {:.3}-{:.3} {:>5} {:>5} {mark}",
            self.cell,
            format!("{}/{}", found.pairs, self.attempts),
            us(found.hairpin_ns),
            us(found.other_ns),
            ratio.ratio,
            ratio.low,
            ratio.high,
            itself,
            sd,
        )
    }

    /// The line for the record; `None` without figures.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let found = self.found.as_ref().ok()?;
        Some(Kept {
            cell: self.cell.to_string(),
            attempts: self.attempts,
            pairs: found.pairs,
            pairs_near: found.near,
            hairpin_p50_ns: found.hairpin_ns,
            sockperf_p50_ns: found.other_ns,
            ratio: found.ratio.interval(CONFIDENCE),
            sockperf_itself: found.itself.map(|itself| itself.interval(CONFIDENCE)),
            sockperf_itself_sd: found.itself_sd,
        })
    }
}

/// A reason cut to what the line has room for.
fn short(why: &str) -> String {
    why.chars().take(44).collect()
}

/// The bounds on ratios. A group is judged by those of its cells that have their pairs, and says so if others lack them.
pub(crate) fn ratio_bounds(lines: &[Line]) -> Vec<Bound> {
    let of = |wait: Wait, transport: Option<Transport>| {
        move |line: &&Line| line.cell.wait == wait && transport.is_none_or(|transport| line.cell.transport == transport)
    };
    let udp: Vec<&Line> = lines.iter().filter(of(Wait::Spin, Some(Transport::Udp))).collect();
    let tcp: Vec<&Line> = lines.iter().filter(of(Wait::Spin, Some(Transport::Tcp))).collect();
    let spin: Vec<&Line> = lines.iter().filter(of(Wait::Spin, None)).collect();
    let block: Vec<&Line> = lines.iter().filter(of(Wait::Block, None)).collect();
    vec![
        group("UDP spinning, geometric mean", &udp, format!("<= {UDP_SPIN:.2}"), |ratio| ratio.ratio <= UDP_SPIN),
        group("TCP spinning, geometric mean", &tcp, format!("<= {TCP_SPIN:.2}"), |ratio| ratio.ratio <= TCP_SPIN),
        every("every spinning cell, upper end", &spin),
        group("blocking, pooled, upper end", &block, format!("high <= {UPPER:.2}"), |ratio| ratio.high <= UPPER),
    ]
}

fn group(what: &str, lines: &[&Line], bound: String, meets: impl Fn(Ratio) -> bool) -> Bound {
    let cells: Vec<LogMean> = lines.iter().filter_map(|line| Some(line.enough()?.ratio)).collect();
    let what =
        if cells.len() < lines.len() { format!("{what} ({} of {} cells)", cells.len(), lines.len()) } else { what.to_owned() };
    let Ok(pooled) = LogMean::pooled(&cells) else {
        return Bound { what, found: "not measured".to_owned(), bound, met: None };
    };
    let ratio = pooled.interval(CONFIDENCE);
    Bound { what, found: format!("{:.3} ({:.3}-{:.3})", ratio.ratio, ratio.low, ratio.high), bound, met: Some(meets(ratio)) }
}

fn every(what: &str, lines: &[&Line]) -> Bound {
    let highs: Vec<f64> = lines.iter().filter_map(|line| Some(line.enough()?.ratio.interval(CONFIDENCE).high)).collect();
    let worst = highs.iter().copied().reduce(f64::max);
    Bound {
        what: what.to_owned(),
        found: worst.map_or("not measured".to_owned(), |worst| format!("{worst:.3} at most")),
        bound: format!("high <= {UPPER:.2}"),
        met: worst.map(|worst| worst <= UPPER),
    }
}

/// A bound on one figure: at most `limit`.
pub(crate) fn at_most(what: &str, found: &Result<f64, String>, limit: f64, unit: &str) -> Bound {
    let bound = format!("<= {limit} {unit}");
    match found {
        Ok(value) => Bound { what: what.to_owned(), found: format!("{value:.1} {unit}"), bound, met: Some(*value <= limit) },
        Err(why) => Bound { what: format!("{what}: {why}"), found: "not measured".to_owned(), bound, met: None },
    }
}

/// True if a bound was missed, or a cell has no full set of pairs.
pub(crate) fn missed(lines: &[Line], bounds: &[Bound]) -> bool {
    lines.iter().any(|line| line.mark().1) || bounds.iter().any(|bound| bound.met == Some(false))
}

/// The table.
pub(crate) fn text(lines: &[Line], bounds: &[Bound], information: &[Information]) -> String {
    let mut text = String::from(
        "RTT p50 in us; ratio = hairpin / sockperf with its 95 % interval; self = one\n\
         sockperf run / the next: mean, and sd of a single one. Pairs: kept / tried.\n\
         -: no bound of its own; high: none, and its upper end is beyond 1.05.\n\n",
    );
    let head = format!(
        "{:<22} {:>5} {:>7} {:>8} {:>5} {:>11} {:>5} {:>5}",
        "cell", "pairs", "hairpin", "sockperf", "ratio", "interval", "self", "sd"
    );
    let rule = "-".repeat(80);
    let _ = writeln!(text, "{head}\n{rule}");
    for line in lines {
        let _ = writeln!(text, "{}", line.text());
    }
    let _ = writeln!(text, "{rule}");
    for bound in bounds {
        let mark = match bound.met {
            Some(true) => "ok",
            Some(false) => "MISS",
            None => "-",
        };
        // A reason may make the name long; the figures then go on a line of their own.
        let (name, gap) = if bound.what.chars().count() <= 40 { (bound.what.as_str(), "") } else { ("", bound.what.as_str()) };
        if !gap.is_empty() {
            let _ = writeln!(text, "{}", gap.chars().take(80).collect::<String>());
        }
        let _ = writeln!(text, "{name:<40} {:>20} {:>13} {mark}", bound.found, bound.bound);
    }
    if !information.is_empty() {
        let _ = writeln!(text, "{rule}\nFor information, mean RTT in us (the middle one of three runs; no bound):");
        for found in information {
            let _ = writeln!(text, "{:<22} {:<8} {:>8.1}", found.cell, found.tool, found.mean_rtt_ns / 1e3);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::pairs::State::{Far, Near};
    use super::super::pairs::tests::attempt;
    use super::*;

    fn spread(cell: &str, ratio: f64, pairs: usize) -> Vec<Attempt> {
        // Two in a thousand up and down, so that there is a spread.
        let wobble = |i: usize| if i.is_multiple_of(2) { 1.002 } else { 0.998 };
        (0..pairs)
            .map(|i| attempt(cell, [Near, Near], (5300.0 * ratio * wobble(i)) as u64, 5300.0, (5300.0 * ratio) as u64))
            .collect()
    }

    fn judged(made: &[Attempt], wanted: usize) -> (Vec<Line>, Vec<Bound>) {
        let mut cells: Vec<Cell> = made.iter().map(|attempt| attempt.cell.parse().unwrap()).collect();
        cells.dedup();
        let lines = lines(&cells, made, wanted);
        let bounds = ratio_bounds(&lines);
        (lines, bounds)
    }

    fn met(bounds: &[Bound], what: &str) -> Option<bool> {
        bounds.iter().find(|bound| bound.what.starts_with(what)).unwrap().met
    }

    #[test]
    fn groups_meet_their_bounds_or_miss_them() {
        let made = [
            spread("udp-spin-loopback-64", 0.94, 10),
            spread("udp-spin-veth-64", 0.99, 10),
            spread("tcp-spin-loopback-64", 1.01, 10),
            spread("udp-block-loopback-64", 1.06, 10),
        ]
        .concat();
        let (lines, bounds) = judged(&made, 10);
        assert_eq!(met(&bounds, "UDP"), Some(true));
        assert_eq!(met(&bounds, "TCP"), Some(false));
        assert_eq!(met(&bounds, "every"), Some(true));
        assert_eq!(met(&bounds, "blocking"), Some(false));
        assert!(missed(&lines, &bounds));
    }

    #[test]
    fn a_cell_that_lacks_pairs_or_misses_is_shown_and_counts() {
        let mut made = spread("udp-spin-loopback-64", 0.9, 10);
        made.extend(spread("udp-spin-veth-64", 0.9, 4));
        made.extend(vec![attempt("udp-spin-veth-1024", [Near, Far], 1, 1.0, 1); 3]);
        made.extend(spread("tcp-spin-veth-14", 1.2, 10));
        let (lines, bounds) = judged(&made, 10);
        let marks: Vec<&str> = lines.iter().map(|line| line.mark().0).collect();
        assert_eq!(marks, ["ok", "few", "none", "MISS"]);
        assert_eq!(met(&bounds, "UDP spinning, geometric mean (1 of 3 cells)"), Some(true));
        assert!(missed(&lines, &bounds));
        let text = text(&lines, &bounds, &[]);
        assert!(text.contains("udp-spin-veth-1024       0/3 none: 0 values are too few"), "{text}");
    }

    #[test]
    fn a_cell_without_a_bound_of_its_own_is_not_ok() {
        let mut made = spread("udp-block-loopback-14", 1.06, 10);
        made.extend(spread("udp-block-veth-14", 0.99, 10));
        let (lines, bounds) = judged(&made, 10);
        assert_eq!(lines.iter().map(Line::mark).collect::<Vec<_>>(), [("high", false), ("-", false)]);
        assert_eq!(met(&bounds, "blocking"), Some(true), "together they meet theirs");
    }

    #[test]
    fn what_was_not_measured_is_no_miss_and_no_success() {
        let (lines, bounds) = judged(&spread("udp-spin-loopback-64", 0.9, 10), 10);
        assert_eq!(met(&bounds, "TCP"), None);
        assert!(!missed(&lines, &bounds));
        assert_eq!(at_most("wall time", &Ok(1.61), 1.6, "s").met, Some(false));
        assert_eq!(at_most("wall time", &Err("no".to_owned()), 1.6, "s").met, None);
    }

    #[test]
    fn the_table_fits_80_columns() {
        let mut made = spread("udp-spin-loopback-1024", 0.951, 40);
        made.extend(spread("tcp-block-loopback-1024", 1.0, 80));
        made.extend(vec![
            Attempt {
                error: Some("sockperf took longer than it may, and the reason for that is a long story".to_owned()),
                ..attempt("udp-block-veth-14", [Near, Near], 1, 1.0, 1)
            };
            2
        ]);
        for attempt in made.iter_mut().filter(|attempt| attempt.cell.contains("block")) {
            attempt.other_p50_ns = attempt.other_p50_ns.map(|ns| ns * 20.0);
        }
        let (lines, mut bounds) = judged(&made, 40);
        bounds.push(at_most("RSS after 10^9 transactions", &Ok(9.1), 64.0, "MiB"));
        bounds.push(at_most("own cost", &Err("a reason ".repeat(20)), 50.0, "ns"));
        let information = [Information { cell: "tcp-block-loopback-1024".to_owned(), tool: "qperf", mean_rtt_ns: 66_400.0 }];
        let text = text(&lines, &bounds, &information);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
        for part in ["40/40    5.04     5.30 0.951 0.951-0.951 1.000 0.000 ok", "<= 0.97 ok", "66.4", "9.1 MiB     <= 64 MiB ok"]
        {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}
