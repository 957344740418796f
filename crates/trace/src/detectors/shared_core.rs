//! Both ends on one core.

use super::{Detector, Observed};
use crate::advice::{Advice, Name};

/// See `docs/detectors/shared-core.md`.
pub(super) struct SharedCore;

impl Detector for SharedCore {
    fn name(&self) -> &'static str {
        "shared-core"
    }

    fn advice(&self) -> Advice {
        Advice {
            text: "a side that spins needs a core of its own (--cpu), and sides that block may be quicker on one: compare both; see core_relation",
            names: &[Name::Flag("--cpu"), Name::Knob("core_relation")],
        }
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        let [Some(client), Some(server)] = observed.whose.cpus else { return None };
        (client == server).then(|| format!("client and server both run on CPU {client}: only one of them can"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;

    #[test]
    fn two_sides_on_one_core_are_reported() {
        let mut run = Run::clean();
        run.whose.cpus = [Some(1), Some(1)];
        assert_eq!(run.found("shared-core").unwrap(), "client and server both run on CPU 1: only one of them can");
        run.whose.cpus = [None, None];
        assert_eq!(run.found("shared-core"), None);
    }
}
