//! The server's times of a block's transactions, for one-way delays.

use hairpin_iopath::measure::TRACED_BLOCK;
use serde::{Deserialize, Serialize};

/// The transactions of a block, by the time of day of the server's host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// In the order of the requests.
    pub transactions: Vec<Timed>,
    /// Largest error of placing the program's stamps on the time of day, in ns; `None` if that was set or changed its rate in the
    /// block.
    pub error_ns: Option<u64>,
}

/// One transaction: sequence number in the payload, CLOCK_REALTIME at the return of the receive call, and the turn-around, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed(pub u32, pub u64, pub u64);

/// Most transactions of a report that count: those of two blocks. Each of this side's is looked for among them.
const MOST_TRANSACTIONS: usize = 2 * TRACED_BLOCK;
/// Longest turn-around that is taken from another host: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Times {
    /// The times that another host told, as far as they make sense: it may run another version, or be hostile. A time of day may
    /// be any.
    #[must_use]
    pub fn checked(mut self) -> Times {
        // The block that is over is the last; before the first block come the requests of the warm-up.
        let spare = self.transactions.len().saturating_sub(MOST_TRANSACTIONS);
        self.transactions.drain(..spare);
        self.transactions.retain(|Timed(_, received_ns, turnaround_ns)| {
            *turnaround_ns <= LONGEST_NS && i64::try_from(received_ns.saturating_add(*turnaround_ns)).is_ok()
        });
        self.error_ns = self.error_ns.filter(|ns| *ns <= LONGEST_NS);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_session_and_nonsense_does_not() {
        let sound = Times { transactions: vec![Timed(7, 1_764_079_000_123_456_789, 900)], error_ns: Some(60) };
        let text = serde_json::to_string(&sound).unwrap();
        assert_eq!(text, r#"{"transactions":[[7,1764079000123456789,900]],"error_ns":60}"#, "short: a block has thousands");
        assert_eq!(serde_json::from_str::<Times>(&text).unwrap().checked(), sound);
        let hostile = Times {
            transactions: vec![Timed(1, u64::MAX, 5), Timed(2, 5, u64::MAX), Timed(3, u64::MAX / 2, 1), sound.transactions[0]],
            error_ns: Some(u64::MAX),
        };
        assert_eq!(hostile.checked(), Times { error_ns: None, ..sound });
        let flood = Times { transactions: vec![Timed(1, 5, 5); 40 * TRACED_BLOCK], error_ns: None };
        assert_eq!(flood.checked().transactions.len(), 2 * TRACED_BLOCK);
    }

    #[test]
    fn the_block_that_is_over_is_kept_behind_a_long_warm_up() {
        let all = 4 * TRACED_BLOCK as u32;
        let transactions = (0..all).map(|sequence| Timed(sequence, 5, 5)).collect();
        let kept = Times { transactions, error_ns: None }.checked().transactions;
        let ends = kept.first().zip(kept.last()).map(|(first, last)| (first.0, last.0));
        assert_eq!(ends, Some((all - 2 * TRACED_BLOCK as u32, all - 1)));
    }
}
