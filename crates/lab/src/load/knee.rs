//! Up to which rate a path keeps up.
//!
//! ```text
//!   RTT from due │                 ╱       going up, a path keeps up while it answers 99 % of what is due, and while the quantile stays within
//!                │               ╱         five times its least value so far; the last such rate is the knee
//!                │________......╳
//!                └──────────────────▶ offered rate
//! ```
//! The least value so far and not the first one: at a low rate a host that sleeps between requests is slower than at a higher one.

use hairpin_record::load::{Knee, LoadRow};
use hairpin_record::run::Quantiles;

/// The share of what is offered that a path answers which keeps up.
pub const ACHIEVED: f64 = 0.99;
/// How many times its least value the quantile may be.
pub const FACTOR: f64 = 5.0;

/// Which of a row's quantiles.
type Of = fn(&Quantiles) -> Option<u64>;

/// The knee of a curve; `None` where there are too few rates or figures.
pub(super) fn find(rows: &[LoadRow]) -> Option<Knee> {
    let mut rows: Vec<&LoadRow> = rows.iter().collect();
    rows.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    if rows.len() < 2 {
        return None;
    }
    // One and the same for all; a row that answered next to nothing does not keep up whatever its quantiles.
    let choices: [(f64, Of); 3] = [(0.99, |of| of.p99), (0.9, |of| of.p90), (0.5, |of| of.p50)];
    let answered = || rows.iter().filter(|row| achieves(row));
    let (quantile, of) = choices.into_iter().find(|(_, of)| answered().all(|row| of(&row.rtt_from_due_ns).is_some()))?;
    let mut knee = Knee { quantile, factor: FACTOR, achieved_share: ACHIEVED, ..Knee::default() };
    let mut least = u64::MAX;
    for row in rows {
        let why = match of(&row.rtt_from_due_ns) {
            _ if !achieves(row) => Some("achieved"),
            Some(ns) if ns as f64 > least as f64 * FACTOR => Some("latency"),
            Some(ns) => {
                least = least.min(ns);
                None
            }
            None => None,
        };
        if let Some(why) = why {
            knee.beyond_per_s = Some(row.offered_per_s);
            knee.why = Some(why.into());
            break;
        }
        knee.keeps_up_per_s = Some(row.offered_per_s);
    }
    Some(knee)
}

/// True if as good as all that was due has been answered. A few may be under way or due at the very end.
fn achieves(row: &LoadRow) -> bool {
    row.transactions as f64 + 2.0 >= row.due as f64 * ACHIEVED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(offered_per_s: f64, answered: f64, p99_us: u64) -> LoadRow {
        let due = 100_000;
        LoadRow {
            offered_per_s,
            due,
            transactions: (due as f64 * answered) as u64,
            rtt_from_due_ns: Quantiles { p99: Some(p99_us * 1_000), ..Quantiles::default() },
            ..LoadRow::default()
        }
    }

    fn found(rows: &[LoadRow]) -> (Option<f64>, Option<f64>, Option<String>) {
        let knee = find(rows).unwrap();
        (knee.keeps_up_per_s, knee.beyond_per_s, knee.why)
    }

    #[test]
    fn the_knee_is_the_last_rate_that_is_answered_in_time() {
        // In whatever order they were measured; slower at the lowest rate, as where cores sleep.
        let rows = [row(300.0, 1.0, 12), row(100.0, 1.0, 40), row(200.0, 1.0, 10), row(400.0, 1.0, 51), row(500.0, 0.9, 9)];
        assert_eq!(found(&rows), (Some(300.0), Some(400.0), Some("latency".into())));
        let rows = [row(100.0, 1.0, 10), row(200.0, 0.995, 49), row(300.0, 0.98, 10)];
        assert_eq!(found(&rows), (Some(200.0), Some(300.0), Some("achieved".into())));
    }

    #[test]
    fn all_or_none_may_be_kept_up_with() {
        assert_eq!(found(&[row(100.0, 1.0, 10), row(200.0, 1.0, 11)]), (Some(200.0), None, None));
        assert_eq!(found(&[row(100.0, 0.5, 10), row(200.0, 0.2, 11)]), (None, Some(100.0), Some("achieved".into())));
        assert_eq!(find(&[row(100.0, 1.0, 10)]), None);
    }

    #[test]
    fn a_quantile_that_few_requests_support_gives_way_to_a_lower_one() {
        let mut few = row(100.0, 1.0, 0);
        few.rtt_from_due_ns = Quantiles { p50: Some(5_000), ..Quantiles::default() };
        let mut many = row(200.0, 1.0, 90);
        many.rtt_from_due_ns.p50 = Some(6_000);
        let knee = find(&[few, many]).unwrap();
        assert_eq!((knee.quantile, knee.keeps_up_per_s, knee.beyond_per_s), (0.5, Some(200.0), None));
    }
}
