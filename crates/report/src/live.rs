//! The line of a row that is being measured, and of one that is done; a row is one of a run, a rate of a load, an arm of an
//! experiment, or a server that is watched.
//!
//! ```text
//! [1/3] tcp:block      RTT p50 36.3 us   p99 54.8 us   9.99 k/s
//! [2/3] udp:block  ━━━━━━━╸────────  4 s left   RTT p50 32.9 us   p99 44.4 us   10.9 k/s
//! ```

use hairpin_record::attached::AttachedBody;
use hairpin_record::experiment::ArmBlock;
use hairpin_record::load::LoadRow;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Origin, Quantiles, Row};

use crate::explain::brief::cut;
use crate::figure::{per_second, time};
use crate::label::{labelled, short};
use crate::prose::width;

/// A longer bar adds nothing.
const LONGEST_BAR: usize = 20;
/// A shorter bar is unreadable.
const LEAST_BAR: usize = 4;

/// A row's number, the number of rows, and its name.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// From 0.
    pub index: usize,
    /// A single row is shown without a number.
    pub of: usize,
    pub name: String,
}

impl Place {
    /// The place of a row of this path.
    pub fn of_path(index: usize, of: usize, path: &str, origin: Origin) -> Place {
        Place { index, of, name: labelled(short(path), origin) }
    }

    /// The same row at an offered rate; `again` if that rate was measured before.
    pub fn at_rate(self, per_s: f64, again: bool) -> Place {
        let again = if again { ", again" } else { "" };
        Place { name: format!("{} at {}{again}", self.name, per_second(per_s)), ..self }
    }
}

/// How far a row is.
#[derive(Clone, Debug, Default)]
pub struct Going {
    /// The finished share, 0 to 1; `None` if unknown.
    pub share: Option<f64>,
    /// Seconds until its end, if known.
    pub left_s: Option<f64>,
    /// Seconds that it takes in all, if nothing can be drawn before its end.
    pub takes_s: Option<f64>,
    /// Its figures so far.
    pub so_far: Option<Figures>,
    /// The open flows, and all flows, until all are open.
    pub opened: Option<(u32, u32)>,
}

/// RTT figures of the live line.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The name of the times: `RTT`, `from due`, or none.
    from: &'static str,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    per_s: f64,
}

impl Figures {
    fn of(from: &'static str, times: &Quantiles, per_s: f64) -> Figures {
        Figures { from, p50_ns: times.p50.map(|ns| ns as f64), p99_ns: times.p99.map(|ns| ns as f64), per_s }
    }
}

impl From<&AttachedBody> for Figures {
    fn from(so_far: &AttachedBody) -> Figures {
        let sum = so_far.totals.first().map(|total| total.sum_ns.clone()).unwrap_or_default();
        // Of the same transactions: a process of two roles has a sum for each.
        Figures::of("", &sum, sum.count as f64 * 1e9 / (so_far.duration_ns as f64).max(1.0))
    }
}

impl From<&Progress> for Figures {
    fn from(so_far: &Progress) -> Figures {
        Figures::of("RTT", &so_far.rtt_ns, so_far.transactions_per_s)
    }
}

impl From<&Row> for Figures {
    fn from(row: &Row) -> Figures {
        Figures::of("RTT", &row.rtt_ns, row.transactions_per_s)
    }
}

impl From<&LoadRow> for Figures {
    fn from(row: &LoadRow) -> Figures {
        Figures::of("from due", &row.rtt_from_due_ns, row.achieved_per_s)
    }
}

impl From<&ArmBlock> for Figures {
    fn from(block: &ArmBlock) -> Figures {
        let per_s = block.transactions as f64 * 1e9 / (block.duration_ns as f64).max(1.0);
        Figures { from: "RTT", p50_ns: block.p50_ns, p99_ns: block.p99_ns, per_s }
    }
}

/// The line of a running row, in at most `columns`: the bar is left out first, then the last words.
pub fn going(at: &Place, row: &Going, columns: usize) -> String {
    let left = row.left_s.map(|left| format!("{:.0} s left", left.max(0.0).ceil()));
    let takes = row.takes_s.map(|takes| format!("takes {:.0} s", takes.max(0.0).ceil()));
    let opened = row.opened.map(|(open, all)| format!("{open} of {all} flows open"));
    let words: Vec<String> = opened.into_iter().chain(left).chain(takes).chain(row.so_far.iter().flat_map(words)).collect();
    let head = head(at, columns);
    let taken = width(&head) + words.iter().map(|word| width(word) + 3).sum::<usize>();
    let room = columns.saturating_sub(taken + 2).min(LONGEST_BAR);
    let bar = row.share.filter(|_| room >= LEAST_BAR).map(|share| format!("  {}", bar(share, room))).unwrap_or_default();
    fitted(head + &bar, words, columns)
}

/// The line of a finished row.
pub fn done(at: &Place, figures: &Figures, columns: usize) -> String {
    fitted(head(at, columns), words(figures), columns)
}

fn head(at: &Place, columns: usize) -> String {
    let name = if at.of > 1 { format!("[{}/{}] {}", at.index + 1, at.of, at.name) } else { at.name.clone() };
    cut(&name, columns)
}

fn words(figures: &Figures) -> Vec<String> {
    let named = |name: &str, ns: Option<f64>| ns.map(|ns| format!("{name} {}", time(ns)));
    let rate = (figures.per_s > 0.0).then(|| per_second(figures.per_s));
    [named(format!("{} p50", figures.from).trim_start(), figures.p50_ns), named("p99", figures.p99_ns), rate]
        .into_iter()
        .flatten()
        .collect()
}

/// The head and as many words as fit.
fn fitted(head: String, words: Vec<String>, columns: usize) -> String {
    words.into_iter().fold(head, |line, word| {
        let longer = format!("{line}   {word}");
        if width(&longer) <= columns { longer } else { line }
    })
}

/// A bar in half cells.
fn bar(share: f64, cells: usize) -> String {
    let halves = (share.clamp(0.0, 1.0) * 2.0 * cells as f64).round() as usize;
    let (whole, half) = (halves / 2, halves % 2);
    format!("{}{}{}", "━".repeat(whole), "╸".repeat(half), "─".repeat(cells - whole - half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn so_far() -> Figures {
        let mut rtt_ns = Quantiles::default();
        (rtt_ns.p50, rtt_ns.p99) = (Some(78_600), Some(133_000));
        Figures::from(&Progress { rtt_ns, transactions_per_s: 12_200.0, ..Progress::default() })
    }

    #[test]
    fn a_row_that_goes_on_fits_every_width() {
        let place = Place::of_path(1, 3, "udp:block/udp:block", Origin::Measured);
        let row = Going { share: Some(0.56), left_s: Some(3.2), so_far: Some(so_far()), ..Going::default() };
        let at = |columns| going(&place, &row, columns);
        assert_eq!(at(100), "[2/3] udp:block  ━━━━━━━━━━━─────────   4 s left   RTT p50 78.6 us   p99 133 us   12.2 k/s");
        assert_eq!(at(80), "[2/3] udp:block  ━━━━━╸────   4 s left   RTT p50 78.6 us   p99 133 us   12.2 k/s");
        assert_eq!(at(60), "[2/3] udp:block   4 s left   RTT p50 78.6 us   p99 133 us");
        assert!((3..200).all(|columns| width(&at(columns)) <= columns));
        let long = Place { index: 0, of: 2, name: "udp:spin --cpu 0,0 --size 1024 --sched fifo:20".into() };
        assert_eq!(done(&long, &so_far(), 40), "[1/2] udp:spin --cpu 0,0 --size 1024..");
    }

    #[test]
    fn unknown_figures_are_left_out() {
        let place = Place::of_path(0, 1, "udp:spin/udp:spin", Origin::Measured);
        assert_eq!(going(&place, &Going::default(), 80), "udp:spin");
        let over = Going { share: Some(7.0), left_s: Some(-3.0), ..Going::default() };
        assert_eq!(going(&place, &over, 80), "udp:spin  ━━━━━━━━━━━━━━━━━━━━   0 s left");
        let beside = Going { share: Some(0.0), takes_s: Some(2.5), ..Going::default() };
        assert_eq!(going(&place, &beside, 80), "udp:spin  ────────────────────   takes 3 s");
        let opening = Going { opened: Some((5_312, 20_000)), ..Going::default() };
        assert_eq!(going(&place, &opening, 80), "udp:spin   5312 of 20000 flows open");
        let emulated = Place::of_path(0, 1, "udp:spin/udp:spin", Origin::Emulated);
        assert_eq!(going(&emulated, &Going::default(), 80), "udp:spin [emulated]");
    }

    #[test]
    fn finished_rows_show_their_figures() {
        let mut row = Row { path: "tcp:block/tcp:spin".into(), transactions_per_s: 998.0, ..Row::default() };
        row.rtt_ns.p50 = Some(912);
        let place = Place::of_path(0, 2, &row.path, row.origin);
        assert_eq!(done(&place, &Figures::from(&row), 80), "[1/2] tcp:block/spin   RTT p50 912 ns   998/s");
        let mut offered = LoadRow { achieved_per_s: 28_500.0, ..LoadRow::default() };
        (offered.rtt_from_due_ns.p50, offered.rtt_from_due_ns.p99) = (Some(9_100), Some(26_000));
        let rate = Place::of_path(0, 1, "udp", Origin::Measured).at_rate(30_000.0, true);
        assert_eq!(
            done(&rate, &Figures::from(&offered), 80),
            "udp at 30.0 k/s, again   from due p50 9.10 us   p99 26.0 us   28.5 k/s"
        );
        let block = ArmBlock { transactions: 500, duration_ns: 50_000_000, p50_ns: Some(78_600.4), ..ArmBlock::default() };
        let arm = Place { index: 1, of: 2, name: "udp".into() };
        assert_eq!(done(&arm, &Figures::from(&block), 80), "[2/2] udp   RTT p50 78.6 us   10.0 k/s", "too few for p99");
    }
}
