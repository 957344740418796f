//! A request in two writes: Nagle holds the second back until the first is acknowledged, and the receiver delays its
//! acknowledgement.

use super::{Detector, Observed, SIDES};
use crate::advice::Advice;
use crate::causes::{Kind, Parted};

/// See `docs/detectors/nagle-delayed-ack.md`.
pub(super) struct Nagle;

/// Smallest reported part of the round trips of the same blocks.
const SHARE: f64 = 0.01;

impl Detector for Nagle {
    fn name(&self) -> &'static str {
        "nagle-delayed-ack"
    }

    fn advice(&self) -> Advice {
        Kind::DelayedAck.of().advice
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        let Parted { requests, of: count } = observed.parted;
        let mut sides = [0, 1].into_iter().filter(|sender| {
            let late = observed.late_acks[1 - sender];
            // The packets of replies are not counted.
            let parted = *sender == 1 || requests as f64 >= count as f64 * SHARE;
            observed.whose.nagle[*sender] && parted && count > 0 && late > 0 && late as f64 >= count as f64 * SHARE
        });
        let sender = sides.next()?;
        let late = observed.late_acks[1 - sender];
        let longest = observed.explained.stages.iter().map(|stage| stage.typical_ns).fold(0.0, f64::max);
        Some(format!(
            "the {} waited {late} times in {count} round trips for an acknowledgement that the {} had delayed, with data held back by Nagle; the longest stage \
             typically takes {:.1} ms",
            SIDES[sender],
            SIDES[1 - sender],
            longest / 1e6
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;
    use super::*;

    #[test]
    fn the_finding_needs_nagle_a_parted_request_and_late_acknowledgements() {
        let mut run = Run::clean();
        let of_40 = |requests| Parted { requests, of: 40 };
        // The stages are of other blocks.
        run.explained.rtt_ns.count = 30;
        (run.late_acks, run.parted, run.whose.nagle) = ([0, 38], of_40(40), [true; 2]);
        let found = run.found("nagle-delayed-ack").unwrap();
        assert!(
            found.starts_with("the client waited 38 times in 40 round trips for an acknowledgement that the server had delayed"),
            "{found}"
        );
        run.parted = of_40(0);
        assert_eq!(run.found("nagle-delayed-ack"), None);
        (run.parted, run.whose.nagle) = (of_40(40), [false, true]);
        assert_eq!(run.found("nagle-delayed-ack"), None);
        (run.late_acks, run.whose.nagle) = ([0, 0], [true; 2]);
        assert_eq!(run.found("nagle-delayed-ack"), None);
    }
}
