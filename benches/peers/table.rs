//! The bounds on groups of cells and on hairpin's own costs, below the table of the cells.

use std::fmt::Write as _;

use hairpin_record::paired::Shift;
use hairpin_record::statistics::Ratio;
use serde::Serialize;

use super::super::pairs::Line;
use super::cells::{Cell, Transport, Wait};
use super::others::Information;

/// The geometric mean over the UDP cells that spin.
const UDP_SPIN: f64 = 0.97;
/// The geometric mean over the TCP cells that spin.
const TCP_SPIN: f64 = 1.00;
/// Every spinning cell, and all blocking ones together.
pub(crate) const UPPER: f64 = 1.05;

/// A bound and its measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Bound {
    pub(crate) what: String,
    pub(crate) found: String,
    pub(crate) bound: String,
    /// `None` if it was not measured.
    pub(crate) met: Option<bool>,
}

/// The bounds on the ratios of `cells`, whose `lines` these are. A group is judged by those of its cells that have their pairs, and says so if others lack them.
pub(crate) fn ratio_bounds(cells: &[Cell], lines: &[Line]) -> Vec<Bound> {
    let of = |wait: Wait, transport: Option<Transport>| -> Vec<Option<Ratio>> {
        let both = cells.iter().zip(lines);
        let own = both.filter(|(cell, _)| cell.wait == wait && transport.is_none_or(|transport| cell.transport == transport));
        own.map(|(_, line)| line.ratio()).collect()
    };
    vec![
        group("UDP spinning, geometric mean", &of(Wait::Spin, Some(Transport::Udp)), UDP_SPIN),
        group("TCP spinning, geometric mean", &of(Wait::Spin, Some(Transport::Tcp)), TCP_SPIN),
        every("every spinning cell", &of(Wait::Spin, None)),
        group("blocking, geometric mean", &of(Wait::Block, None), UPPER),
    ]
}

/// The cells that have their pairs, each with the same weight.
fn group(what: &str, cells: &[Option<Ratio>], most: f64) -> Bound {
    let ratios: Vec<Ratio> = cells.iter().flatten().copied().collect();
    let what =
        if ratios.len() < cells.len() { format!("{what} ({} of {} cells)", ratios.len(), cells.len()) } else { what.to_owned() };
    let bound = format!("high <= {most:.2}");
    if ratios.is_empty() {
        return Bound { what, found: "not measured".to_owned(), bound, met: None };
    }
    let shift = |of: &Ratio| Shift { typical: of.ratio.ln(), low: of.low.ln(), high: of.high.ln() };
    let weight = 1.0 / ratios.len() as f64;
    let all = Shift::combined(&ratios.iter().map(|of| (weight, shift(of))).collect::<Vec<_>>()).ratio();
    Bound { what, found: format!("{:.3} ({:.3}-{:.3})", all.ratio, all.low, all.high), bound, met: Some(all.high <= most) }
}

fn every(what: &str, cells: &[Option<Ratio>]) -> Bound {
    let worst = cells.iter().flatten().map(|ratio| ratio.high).reduce(f64::max);
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

/// The text below the cells.
pub(crate) fn text(bounds: &[Bound], information: &[Information]) -> String {
    let rule = "-".repeat(80);
    let mut text = format!("{rule}\n");
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
    use super::super::super::pairs::Limit;
    use super::super::super::pairs::tests::line;
    use super::*;

    /// The bounds on cells with these ratios, ±1 %, and pairs of 40 wanted.
    fn bounds(made: &[(&str, f64, u64)]) -> Vec<Bound> {
        let cells: Vec<Cell> = made.iter().map(|(cell, ..)| cell.parse().unwrap()).collect();
        let of =
            |(cell, ratio, pairs): &(&str, f64, u64)| line(cell, Limit::None, [1.0, 0.99, 1.01].map(|of| of * ratio), *pairs);
        ratio_bounds(&cells, &made.iter().map(of).collect::<Vec<_>>())
    }

    fn met(bounds: &[Bound], what: &str) -> Option<bool> {
        bounds.iter().find(|bound| bound.what.starts_with(what)).unwrap().met
    }

    #[test]
    fn groups_meet_their_bounds_or_miss_them() {
        let bounds = bounds(&[
            ("udp-spin-loopback-64", 0.94, 40),
            ("udp-spin-veth-64", 0.98, 40),
            ("tcp-spin-loopback-64", 0.995, 40),
            ("udp-block-loopback-64", 1.06, 40),
        ]);
        // 1 % of two cells is 0.7 % of their mean.
        assert_eq!(bounds[0].found, "0.960 (0.953-0.967)");
        assert_eq!(met(&bounds, "UDP"), Some(true));
        assert_eq!(met(&bounds, "TCP"), Some(false), "its upper end is 1.005");
        assert_eq!(met(&bounds, "every"), Some(true));
        assert_eq!(met(&bounds, "blocking"), Some(false));
    }

    #[test]
    fn a_group_is_judged_by_the_cells_that_have_their_pairs() {
        let bounds = bounds(&[("udp-spin-loopback-64", 0.9, 40), ("udp-spin-veth-64", 1.2, 39)]);
        assert_eq!(met(&bounds, "UDP spinning, geometric mean (1 of 2 cells)"), Some(true));
        assert_eq!((met(&bounds, "every"), met(&bounds, "TCP")), (Some(true), None));
        assert_eq!(at_most("wall time", &Ok(1.61), 1.6, "s").met, Some(false));
        assert_eq!(at_most("wall time", &Err("no".to_owned()), 1.6, "s").met, None);
    }

    #[test]
    fn the_table_fits_80_columns() {
        let mut bounds = bounds(&[("udp-spin-loopback-1024", 0.951, 40), ("udp-spin-veth-14", 0.9, 4)]);
        bounds.push(at_most("RSS after 10^9 transactions", &Ok(9.1), 64.0, "MiB"));
        bounds.push(at_most("own cost", &Err("a reason ".repeat(20)), 50.0, "ns"));
        let information = [Information { cell: "tcp-block-loopback-1024".to_owned(), tool: "qperf", mean_rtt_ns: 66_400.0 }];
        let text = text(&bounds, &information);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
        for part in ["0.951 (0.941-0.961)  high <= 0.97 ok", "66.4", "9.1 MiB     <= 64 MiB ok"] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}
