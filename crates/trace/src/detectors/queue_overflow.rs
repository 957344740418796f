//! Datagrams of the flow found no room in their receiver's queue.

use super::{Detector, Observed, SIDES};
use crate::advice::{Advice, Name};

/// See `docs/detectors/receive-queue-overflow.md`.
pub(super) struct QueueOverflow;

impl Detector for QueueOverflow {
    fn name(&self) -> &'static str {
        "receive-queue-overflow"
    }

    fn advice(&self) -> Advice {
        Advice {
            text: "give the receiver room (rcvbuf, up to rmem_max_bytes), and find out why it did not read: --timeline shows who had its core",
            names: &[Name::Option("udp", "rcvbuf"), Name::Knob("rmem_max_bytes"), Name::Flag("--timeline")],
        }
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        let full = [0, 1].into_iter().filter(|side| observed.overflows[*side] > 0);
        let full: Vec<String> = full.map(|side| format!("{} at the {}", observed.overflows[side], SIDES[side])).collect();
        (!full.is_empty()).then(|| format!("datagrams found no room in the receive queue and were dropped: {}", full.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;

    #[test]
    fn one_dropped_datagram_is_reported() {
        let mut run = Run::clean();
        run.overflows = [0, 1];
        let found = run.found("receive-queue-overflow").unwrap();
        assert_eq!(found, "datagrams found no room in the receive queue and were dropped: 1 at the server");
    }
}
