//! The table: 80 columns, every cell, failed ones too.

use std::fmt::Write as _;

use hairpin_record::statistics::Ratio;
use serde::Serialize;

use super::super::peers::pairs::Findings;
use super::interval;

/// One cell.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) tried: usize,
    pub(crate) wanted: usize,
    pub(crate) most: f64,
    pub(crate) found: Result<Findings, String>,
}

/// A cell as the record keeps it.
#[derive(Serialize)]
pub(crate) struct Kept {
    cell: &'static str,
    tried: usize,
    pairs: usize,
    pairs_near: usize,
    first_ns: f64,
    second_ns: f64,
    ratio: Ratio,
    bound: f64,
}

/// Within the bound is what is so with its whole interval.
fn judged(found: Ratio, most: f64) -> &'static str {
    match (found.low > most, found.high > most) {
        (true, _) => "MISS",
        (_, true) => "over",
        _ => "ok",
    }
}

impl Line {
    fn mark(&self) -> &'static str {
        match &self.found {
            Err(_) => "none",
            Ok(found) if found.pairs < self.wanted => "few",
            Ok(found) => judged(interval(found), self.most),
        }
    }

    /// True if its bound is missed, or it has no full set of pairs.
    pub(crate) fn missed(&self) -> bool {
        self.mark() != "ok"
    }

    /// The line for the record; `None` without figures.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let found = self.found.as_ref().ok()?;
        Some(Kept {
            cell: self.name,
            tried: self.tried,
            pairs: found.pairs,
            pairs_near: found.near,
            first_ns: found.hairpin_ns,
            second_ns: found.other_ns,
            ratio: interval(found),
            bound: self.most,
        })
    }

    fn text(&self) -> String {
        let mark = self.mark();
        let found = match &self.found {
            Ok(found) => found,
            Err(why) => return format!("{:<21} {:>5} {mark}: {:.45}", self.name, format!("0/{}", self.tried), why),
        };
        let ratio = interval(found);
        format!(
            "{:<21} {:>5} {:>9.0} {:>9.0} {:>6.3} {:.3}-{:.3} {:>8.3} {mark}",
            self.name,
            format!("{}/{}", found.pairs, self.tried),
            found.hairpin_ns,
            found.other_ns,
            ratio.ratio,
            ratio.low,
            ratio.high,
            self.most,
        )
    }
}

/// The table.
pub(crate) fn text(lines: &[Line], curve: &[(u32, f64)], ceiling: Option<&Result<f64, String>>) -> String {
    let mut text = String::from(
        "rtt, size: RTT p50 in ns; bounce: ns per frame sent back, none lost.\n\
         ratio = first / second with its 95 % interval. Pairs: kept / tried.\n\
         over: a part of the interval is beyond the bound; that is a miss too.\n\n",
    );
    let rule = "-".repeat(80);
    let _ = writeln!(
        text,
        "{:<21} {:>5} {:>9} {:>9} {:>6} {:>11} {:>8}\n{rule}",
        "cell", "pairs", "first", "second", "ratio", "interval", "bound"
    );
    for line in lines {
        let _ = writeln!(text, "{}", line.text());
    }
    let _ = writeln!(text, "{rule}");
    if !curve.is_empty() {
        let _ = writeln!(text, "\nns per frame sent back, by frames per kick (xdp:spin, the middle of three; no bound):");
        let of = |cell: &dyn Fn(&(u32, f64)) -> String| curve.iter().map(cell).collect::<String>();
        let _ = writeln!(text, "  frames {}", of(&|(batch, _)| format!("{batch:>7}")));
        let _ = writeln!(text, "  ns     {}", of(&|(_, ns)| format!("{ns:>7.0}")));
    }
    match ceiling {
        Some(Ok(ns)) => {
            let _ = writeln!(text, "xdp-bench tx, in the kernel, for information: {ns:.0} ns per frame");
        }
        Some(Err(why)) => {
            // The reason stands last, behind the commands.
            let why = why.rsplit_once("status: ").map_or(why.as_str(), |(_, rest)| rest);
            let _ = writeln!(text, "xdp-bench tx, in the kernel: not measured: {why}");
        }
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_met_by_the_whole_interval() {
        let found = |low, high| Ratio { ratio: f64::midpoint(low, high), low, high };
        assert_eq!(judged(found(0.360, 0.375), 0.38), "ok");
        assert_eq!(judged(found(0.368, 0.388), 0.38), "over", "its middle is within");
        assert_eq!(judged(found(0.489, 0.494), 0.38), "MISS");
    }
}
