//! Messages in several parts, one of which TCP held back until the part before was acknowledged (Nagle); over all
//! transactions, slow or not.

use hairpin_record::explain::Finding;
use hairpin_record::histogram::Times;
use hairpin_units::Quantile;

use super::cause::NAGLE;
use super::transaction::Transaction;

/// Reported from this share of all transactions, and of their total time.
const SHARE: f64 = 0.01;

/// Time that parts were held back: of requests, of replies.
#[derive(Debug, Default)]
pub(super) struct Parts {
    held: [Times; 2],
    held_ns: [u64; 2],
    all_ns: u64,
}

impl Parts {
    pub(super) fn add(&mut self, transaction: &Transaction, sum_ns: u64) {
        self.all_ns += sum_ns;
        for ((times, all), sent) in self.held.iter_mut().zip(&mut self.held_ns).zip(&transaction.sent) {
            if sent.held > 0 {
                times.record(sent.held);
                *all += sent.held;
            }
        }
    }

    /// The finding, if it matters.
    pub(super) fn findings(&self, transactions: u64) -> Vec<Finding> {
        let ways = [("request", "client"), ("reply", "server")];
        let found = ways.iter().zip(self.held.iter().zip(self.held_ns)).filter_map(|((what, who), (times, held_ns))| {
            let count = times.count();
            let much = |part: u64, of: u64| part > 0 && part as f64 >= of as f64 * SHARE;
            if !much(count, transactions) || !much(held_ns, self.all_ns) {
                return None;
            }
            let typical = times.quantile(Quantile::P50).map_or(held_ns as f64 / count as f64, |p50| p50 as f64);
            let seen = format!(
                "in {count} of {transactions} transactions the {what} came in parts, and the {who} held a later part back for {:.1} ms until the one before was acknowledged",
                typical / 1e6
            );
            Some(Finding { detector: "nagle-delayed-ack".into(), seen, advice: NAGLE.into() })
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(held: [u64; 2], of: u64, others: u64) -> Vec<Finding> {
        let mut parts = Parts::default();
        let mut one = Transaction::default();
        (0..others).for_each(|_| parts.add(&one, 50_000));
        (one.sent[0].held, one.sent[1].held) = (held[0], held[1]);
        (0..of).for_each(|_| parts.add(&one, held[0] + held[1] + 50_000));
        parts.findings(of + others)
    }

    #[test]
    fn reports_held_back_parts_where_they_matter() {
        let found = parts([0, 42_800_000], 57, 0);
        assert_eq!(
            found[0].seen,
            "in 57 of 57 transactions the reply came in parts, and the server held a later part back for 42.8 ms until the one before was acknowledged"
        );
        assert!(found[0].advice.contains("TCP_NODELAY") && found.len() == 1);
        assert!(parts([42_800_000, 0], 5, 5)[0].seen.contains("the request came in parts, and the client held"));
        assert!(parts([0, 42_800_000], 1, 999).is_empty(), "one of a thousand");
        assert!(parts([0, 300], 10, 10).is_empty(), "no time to speak of");
        assert!(parts([0, 0], 10, 0).is_empty());
    }
}
