//! The comparisons of a cell, and the bounds on groups of cells and on hairpin's own costs, below the tables of the cells.

use std::fmt::Write as _;

use hairpin_lab::experiment::outside::Arms;
use hairpin_record::paired::Shift;
use hairpin_record::statistics::Ratio;
use serde::{Serialize, Serializer};

use super::super::bound::{Limit, Word, of_rounds};
use super::super::pairs::{Line, distance_text, distances, table_of};
use super::cells::{Cell, Transport, Wait};
use super::others::Information;

/// The arms of a cell; those after the second in UDP cells only.
pub(crate) const SOCKPERF: usize = 0;
pub(crate) const HAIRPIN: usize = 1;
pub(crate) const NO_PEER: usize = 2;
pub(crate) const SHORTEST: usize = 3;

/// One kind of comparison.
struct Compared {
    name: &'static str,
    arms: Arms,
    heads: [&'static str; 2],
    says: &'static str,
    /// Of a cell that spins.
    most: Option<f64>,
    /// Of the geometric means over the UDP cells that spin, over the TCP cells that spin, and over all that block.
    means: [Option<f64>; 3],
}

const COMPARED: [Compared; 4] = [
    Compared {
        name: "hairpin / sockperf",
        arms: [HAIRPIN, SOCKPERF],
        heads: ["hairpin", "sockperf"],
        says: "Hairpin as it is: its UDP sockets are connected, sockperf's are not. Over TCP the sockets are alike.",
        most: Some(1.05),
        means: [Some(0.97), Some(1.00), Some(1.05)],
    },
    Compared {
        name: "connected=off / sockperf",
        arms: [NO_PEER, SOCKPERF],
        heads: ["hairpin", "sockperf"],
        says: "The same kind of socket: Hairpin with connected=off, and sockperf.",
        most: Some(1.05),
        means: [Some(1.00), None, Some(1.05)],
    },
    Compared {
        name: "hairpin / C",
        arms: [HAIRPIN, SHORTEST],
        heads: ["hairpin", "C"],
        says: "The same kind of socket: Hairpin as it is, and the shortest C program with connected sockets (benches/equal.c).",
        most: None,
        means: [Some(1.03), None, None],
    },
    Compared {
        name: "C / sockperf",
        arms: [SHORTEST, SOCKPERF],
        heads: ["C", "sockperf"],
        says: "What connected sockets alone are worth: the shortest C program, and sockperf.",
        most: None,
        means: [None; 3],
    },
];

/// The comparisons of a cell, each with its bound.
pub(crate) fn comparisons(cell: Cell) -> Vec<(&'static str, Arms, Limit)> {
    let limit = |most: Option<f64>| most.filter(|_| cell.wait == Wait::Spin).map_or(Limit::None, Limit::AtMost);
    let taken = COMPARED.iter().filter(|of| cell.transport == Transport::Udp || of.arms.iter().all(|arm| *arm <= HAIRPIN));
    taken.map(|of| (of.name, of.arms, limit(of.most))).collect()
}

/// A bound and its measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Bound {
    pub(crate) what: String,
    /// The median distance of the cores that it speaks of, in ns.
    core_rtt_ns: Option<u64>,
    pub(crate) found: String,
    pub(crate) bound: String,
    #[serde(rename = "mark", serialize_with = "written")]
    pub(crate) word: Word,
}

fn written<S: Serializer>(word: &Word, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(word)
}

/// A kind of cells: its name, and whether a cell is of it.
type Group = (&'static str, fn(Cell) -> bool);

const GROUPS: [Group; 3] = [
    ("UDP spinning", |cell| cell.wait == Wait::Spin && cell.transport == Transport::Udp),
    ("TCP spinning", |cell| cell.wait == Wait::Spin && cell.transport == Transport::Tcp),
    ("blocking", |cell| cell.wait == Wait::Block),
];

/// The bounds on the geometric means of `lines`, for each distance of the cores by itself. A group is judged by those of its
/// cells that have their pairs at that distance, and says so if others lack them.
pub(crate) fn means(lines: &[Line]) -> Vec<Bound> {
    let mut bounds = Vec::new();
    for of in &COMPARED {
        let lines: Vec<&Line> = lines.iter().filter(|line| line.compared == of.name).collect();
        for cores in distances(&lines) {
            for ((kind, is_of), most) in GROUPS.iter().zip(of.means) {
                let Some(most) = most else { continue };
                let own: Vec<&&Line> = lines.iter().filter(|line| line.cell.parse().is_ok_and(is_of)).collect();
                let ratio = |line: &&&Line| {
                    let row = line.rows.iter().find(|row| row.cores == cores)?;
                    line.ratio(row)
                };
                let ratios: Vec<Ratio> = own.iter().filter_map(ratio).collect();
                if !ratios.is_empty() {
                    bounds.push(group(&format!("{}, {kind}", of.name), cores, &ratios, own.len(), most));
                }
            }
        }
    }
    bounds
}

/// The geometric mean of cells, each with the same weight.
fn group(what: &str, core_rtt_ns: Option<u64>, ratios: &[Ratio], cells: usize, most: f64) -> Bound {
    let what = if ratios.len() < cells { format!("{what} ({} of {cells})", ratios.len()) } else { what.to_owned() };
    let shift = |of: &Ratio| Shift { typical: of.ratio.ln(), low: of.low.ln(), high: of.high.ln() };
    let weight = 1.0 / ratios.len() as f64;
    let all = Shift::combined(&ratios.iter().map(|of| (weight, shift(of))).collect::<Vec<_>>()).ratio();
    let found = format!("{:.3} ({:.3}-{:.3})", all.ratio, all.low, all.high);
    let word = Limit::AtMost(most).judged(all.low, all.high);
    Bound { what, core_rtt_ns, found, bound: format!("<= {most:.2}"), word }
}

/// A bound on a figure of several rounds: at most `limit`.
pub(crate) fn at_most(what: &str, rounds: &Result<Vec<f64>, String>, limit: f64, unit: &str) -> Bound {
    let bound = format!("<= {limit} {unit}");
    let found = match rounds {
        Ok(rounds) => of_rounds(rounds).ok_or("nothing was measured".to_owned()),
        Err(why) => Err(why.clone()),
    };
    let word = Limit::AtMost(limit).of(found.as_ref().ok().copied());
    match found {
        Ok(of) => {
            let found = format!("{:.1} ({:.1}-{:.1}) {unit}", of.typical, of.low, of.high);
            Bound { what: what.to_owned(), core_rtt_ns: None, found, bound, word }
        }
        Err(why) => Bound { what: format!("{what}: {why}"), core_rtt_ns: None, found: "not measured".to_owned(), bound, word },
    }
}

/// A bound on the most that was seen, which has no interval.
pub(crate) fn peak(what: &str, found: &Result<f64, String>, limit: f64, unit: &str) -> Bound {
    let bound = format!("<= {limit} {unit}");
    match found {
        Ok(value) => {
            let word = if *value <= limit { Word::Ok } else { Word::Miss };
            Bound { what: what.to_owned(), core_rtt_ns: None, found: format!("{value:.1} {unit}"), bound, word }
        }
        Err(why) => {
            let what = format!("{what}: {why}");
            Bound { what, core_rtt_ns: None, found: "not measured".to_owned(), bound, word: Word::None }
        }
    }
}

/// A table for each kind of comparison.
pub(crate) fn tables(lines: &[Line]) -> String {
    let mut text = String::new();
    for of in &COMPARED {
        let lines: Vec<&Line> = lines.iter().filter(|line| line.compared == of.name).collect();
        if !lines.is_empty() {
            let _ = writeln!(text, "{}\n{}", of.says, table_of("RTT p50", &lines, of.heads));
        }
    }
    text
}

/// The text below the cells.
pub(crate) fn text(bounds: &[Bound], information: &[Information]) -> String {
    let rule = "-".repeat(80);
    let mut text = format!("{rule}\nGeometric means at one distance of the cores, and costs; 95 % intervals.\n");
    let mut under = None;
    for bound in bounds {
        if bound.core_rtt_ns.is_some() && under != bound.core_rtt_ns {
            under = bound.core_rtt_ns;
            let _ = writeln!(text, "{}", distance_text(under));
        }
        // A reason may make the name long; the figures then go on a line of their own.
        let (name, gap) = if bound.what.chars().count() <= 38 { (bound.what.as_str(), "") } else { ("", bound.what.as_str()) };
        if !gap.is_empty() {
            let _ = writeln!(text, "{}", gap.chars().take(80).collect::<String>());
        }
        let _ = writeln!(text, "{name:<38} {:>21} {:>10} {}", bound.found, bound.bound, bound.word);
    }
    if !information.is_empty() {
        let _ = writeln!(text, "{rule}\nFor information, RTT in us (the middle one of three runs; no bound):");
        for found in information {
            let _ = writeln!(text, "{:<23} {:<13} {:<10} {:>8.1}", found.cell, found.tool, found.figure, found.rtt_ns / 1e3);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::super::pairs::tests::{at, line};
    use super::*;

    /// The means of cells with these ratios, ±1 %, at these distances, and pairs of 40 wanted.
    fn of(made: &[(&str, &'static str, f64, u64, u64)]) -> Vec<Bound> {
        let one = |(cell, compared, ratio, cores, pairs): &(&str, &'static str, f64, u64, u64)| {
            let mut line = at(line(cell, Limit::None, [1.0, 0.99, 1.01].map(|of| of * ratio), *pairs), *cores);
            line.compared = compared;
            line
        };
        means(&made.iter().map(one).collect::<Vec<_>>())
    }

    fn told(bounds: &[Bound]) -> Vec<(&str, Option<u64>, &str, Word)> {
        bounds.iter().map(|of| (of.what.as_str(), of.core_rtt_ns, of.found.as_str(), of.word)).collect()
    }

    #[test]
    fn means_are_of_one_comparison_and_one_distance() {
        let bounds = of(&[
            ("udp-spin-loopback-64", "hairpin / sockperf", 0.94, 120, 40),
            ("udp-spin-veth-64", "hairpin / sockperf", 0.98, 120, 40),
            ("udp-spin-veth-14", "hairpin / sockperf", 1.20, 510, 40),
            ("tcp-spin-loopback-64", "hairpin / sockperf", 0.995, 120, 40),
            ("udp-block-loopback-64", "hairpin / sockperf", 1.08, 120, 40),
            ("udp-spin-loopback-64", "hairpin / C", 1.02, 120, 40),
            ("udp-spin-loopback-64", "C / sockperf", 2.0, 120, 40),
        ]);
        // 1 % of two cells is 0.7 % of their mean.
        assert_eq!(
            told(&bounds),
            [
                ("hairpin / sockperf, UDP spinning (2 of 3)", Some(120), "0.960 (0.953-0.967)", Word::Ok),
                ("hairpin / sockperf, TCP spinning", Some(120), "0.995 (0.985-1.005)", Word::Unclear),
                ("hairpin / sockperf, blocking", Some(120), "1.080 (1.069-1.091)", Word::Miss),
                ("hairpin / sockperf, UDP spinning (1 of 3)", Some(510), "1.200 (1.188-1.212)", Word::Miss),
                ("hairpin / C, UDP spinning", Some(120), "1.020 (1.010-1.030)", Word::Unclear),
            ]
        );
    }

    #[test]
    fn a_group_is_judged_by_the_cells_that_have_their_pairs() {
        let name = "hairpin / sockperf";
        let bounds = of(&[("udp-spin-loopback-64", name, 0.9, 120, 40), ("udp-spin-veth-64", name, 1.2, 120, 39)]);
        let [one] = told(&bounds)[..] else { panic!("{bounds:?}") };
        assert_eq!((one.0, one.3), ("hairpin / sockperf, UDP spinning (1 of 2)", Word::Ok));
        assert_eq!(of(&[("udp-spin-veth-64", name, 1.2, 120, 39)]), []);
    }

    #[test]
    fn costs_are_judged_by_their_rounds() {
        let rounds = |ns: f64| Ok((0..8).map(|at| ns + f64::from(at % 3)).collect::<Vec<f64>>());
        let word = |rounds: Result<Vec<f64>, String>| at_most("own cost", &rounds, 50.0, "ns").word;
        assert_eq!((word(rounds(45.0)), word(rounds(49.0)), word(rounds(52.0))), (Word::Ok, Word::Unclear, Word::Miss));
        assert_eq!(
            (word(Ok(vec![45.0; 5])), word(Ok(Vec::new())), word(Err("no".into()))),
            (Word::Unclear, Word::None, Word::None)
        );
        assert_eq!(peak("RSS", &Ok(65.0), 64.0, "MiB").word, Word::Miss);
    }

    #[test]
    fn udp_cells_have_four_comparisons_and_tcp_cells_one() {
        let of = |cell: &str| comparisons(cell.parse().unwrap());
        assert_eq!(of("udp-spin-veth-64").len(), 4);
        assert_eq!(of("tcp-spin-veth-64"), [("hairpin / sockperf", [HAIRPIN, SOCKPERF], Limit::AtMost(1.05))]);
        assert!(of("udp-block-veth-64").iter().all(|(_, _, limit)| *limit == Limit::None));
    }

    #[test]
    fn the_table_fits_80_columns() {
        let name = "connected=off / sockperf";
        let mut bounds = of(&[("udp-spin-loopback-1024", name, 0.951, 120, 40), ("udp-spin-veth-14", name, 0.9, 510, 4)]);
        bounds.push(peak("RSS after 10^9 transactions", &Ok(9.1), 64.0, "MiB"));
        bounds.push(at_most("own cost", &Err("a reason ".repeat(20)), 50.0, "ns"));
        bounds.push(at_most("own cost over a null endpoint", &Ok(vec![44.8; 7]), 50.0, "ns"));
        let cell = "tcp-block-loopback-1024".to_owned();
        let information = [Information { cell, tool: "sfnt-pingpong".to_owned(), figure: "least mean", rtt_ns: 66_400.0 }];
        let text = text(&bounds, &information);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
        for part in ["0.951 (0.941-0.961)    <= 1.00 ok", "66.4", "9.1 MiB  <= 64 MiB ok", "44.8 (44.8-44.8) ns"] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}
