//! Busy polling was asked for, and nothing polls.

use super::{Detector, Observed};
use crate::advice::{Advice, Name};

/// See `docs/detectors/busy-poll-not-in-force.md`.
pub(super) struct BusyPoll;

impl Detector for BusyPoll {
    fn name(&self) -> &'static str {
        "busy-poll-not-in-force"
    }

    fn advice(&self) -> Advice {
        Advice {
            text: "busy-poll needs a device with a NAPI: a physical NIC, or veth:gro=on,tso=off; elsewhere take spin or adaptive",
            names: &[
                Name::Policy("busy-poll"),
                Name::Link("gro"),
                Name::Link("tso"),
                Name::Policy("spin"),
                Name::Policy("adaptive"),
            ],
        }
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        let granted =
            observed.explained.granted.iter().filter(|granted| granted.option == "busy-poll" && granted.got != granted.asked);
        let sides: Vec<String> =
            granted.map(|granted| format!("{} on the {}: {}", granted.asked, granted.side, granted.why)).collect();
        (!sides.is_empty()).then(|| format!("busy polling was asked for and nothing polls, {}", sides.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;

    #[test]
    fn granted_busy_polling_is_not_a_finding() {
        let mut run = Run::clean();
        run.granted("busy-poll", "50 us", "50 us", "");
        assert_eq!(run.found("busy-poll-not-in-force"), None);
        run.granted("busy-poll", "50 us", "asked, not in force", "replies carry no NAPI id");
        let found = run.found("busy-poll-not-in-force").unwrap();
        assert_eq!(found, "busy polling was asked for and nothing polls, 50 us on the client: replies carry no NAPI id");
    }
}
