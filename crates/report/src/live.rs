//! The line of a row that is being measured, and of one that is done.
//!
//! ```text
//! [1/3] tcp:block      RTT p50 36.3 us   p99 54.8 us   9.99 k/s
//! [2/3] udp:block  ━━━━━━━╸────────  4 s left   RTT p50 32.9 us   p99 44.4 us   10.9 k/s
//! ```

use hairpin_record::progress::Progress;
use hairpin_record::run::{Origin, Quantiles, Row};

use crate::figure::{per_second, time};
use crate::label::{labelled, path, short};
use crate::prose::width;

/// A longer bar adds nothing.
const LONGEST_BAR: usize = 20;
/// A shorter bar is unreadable.
const LEAST_BAR: usize = 4;

/// Where a row stands.
#[derive(Clone, Copy, Debug)]
pub struct Going<'a> {
    /// Which row it is, from 0, of how many.
    pub index: usize,
    pub of: usize,
    /// Path spec of the row.
    pub path: &'a str,
    /// Whether its figures are measured or emulated.
    pub origin: Origin,
    /// The part of the row that is over, 0 to 1; `None` if that is not known.
    pub share: Option<f64>,
    /// Seconds until its end, if that is known.
    pub left_s: Option<f64>,
    /// Its figures so far.
    pub so_far: Option<&'a Progress>,
}

/// The line of a row that goes on; it fits into `columns`, by leaving out the bar first and then its last words.
pub fn going(row: &Going<'_>, columns: usize) -> String {
    let left = row.left_s.map(|left| format!("{:.0} s left", left.max(0.0).ceil()));
    let figures = row.so_far.map(|so_far| figures(&so_far.rtt_ns, so_far.transactions_per_s)).unwrap_or_default();
    let words: Vec<String> = left.into_iter().chain(figures).collect();
    let head = head(row.index, row.of, labelled(short(row.path), row.origin));
    let taken = width(&head) + words.iter().map(|word| width(word) + 3).sum::<usize>();
    let room = columns.saturating_sub(taken + 2).min(LONGEST_BAR);
    let bar = row.share.filter(|_| room >= LEAST_BAR).map(|share| format!("  {}", bar(share, room))).unwrap_or_default();
    fitted(head + &bar, words, columns)
}

/// The line of a row that is done.
pub fn done(index: usize, of: usize, row: &Row, columns: usize) -> String {
    fitted(head(index, of, path(row)), figures(&row.rtt_ns, row.transactions_per_s), columns)
}

fn head(index: usize, of: usize, path: String) -> String {
    if of > 1 { format!("[{}/{of}] {path}", index + 1) } else { path }
}

fn figures(rtt: &Quantiles, per_s: f64) -> Vec<String> {
    let named = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", time(ns as f64)));
    let rate = (per_s > 0.0).then(|| per_second(per_s));
    [named("RTT p50", rtt.p50), named("p99", rtt.p99), rate].into_iter().flatten().collect()
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

    fn so_far() -> Progress {
        let mut rtt_ns = Quantiles::default();
        (rtt_ns.p50, rtt_ns.p99) = (Some(78_600), Some(133_000));
        Progress { rtt_ns, transactions_per_s: 12_200.0, ..Progress::default() }
    }

    #[test]
    fn a_row_that_goes_on_fits_every_width() {
        let so_far = so_far();
        let row = Going {
            index: 1,
            of: 3,
            path: "udp:block/udp:block",
            origin: Origin::Measured,
            share: Some(0.56),
            left_s: Some(3.2),
            so_far: Some(&so_far),
        };
        let at = |columns| going(&row, columns);
        assert_eq!(at(100), "[2/3] udp:block  ━━━━━━━━━━━─────────   4 s left   RTT p50 78.6 us   p99 133 us   12.2 k/s");
        assert_eq!(at(80), "[2/3] udp:block  ━━━━━╸────   4 s left   RTT p50 78.6 us   p99 133 us   12.2 k/s");
        assert_eq!(at(60), "[2/3] udp:block   4 s left   RTT p50 78.6 us   p99 133 us");
        assert!((1..200).all(|columns| width(&at(columns)) <= columns.max(15)));
    }

    #[test]
    fn what_is_not_known_has_no_word() {
        let (path, origin) = ("udp:spin/udp:spin", Origin::Measured);
        let bare = Going { index: 0, of: 1, path, origin, share: None, left_s: None, so_far: None };
        assert_eq!(going(&bare, 80), "udp:spin");
        let over = Going { share: Some(7.0), left_s: Some(-3.0), ..bare };
        assert_eq!(going(&over, 80), "udp:spin  ━━━━━━━━━━━━━━━━━━━━   0 s left");
        assert_eq!(going(&Going { origin: Origin::Emulated, ..bare }, 80), "udp:spin [emulated]");
    }

    #[test]
    fn a_row_that_is_done_has_its_figures() {
        let mut row = Row { path: "tcp:block/tcp:spin".into(), transactions_per_s: 998.0, ..Row::default() };
        row.rtt_ns.p50 = Some(912);
        assert_eq!(done(0, 2, &row, 80), "[1/2] tcp:block/spin   RTT p50 912 ns   998/s");
    }
}
