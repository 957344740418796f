//! Soft interrupts are left to the kernel's thread for them, which has to wait for its turn.

use super::{Detector, Observed};
use crate::advice::Advice;
use crate::causes::Kind;
use crate::cores::Busy;

/// See `docs/detectors/deferred-softirq.md`.
pub(super) struct DeferredSoftirq;

/// Smallest reported part of the traced time.
const SHARE: f64 = 0.01;

impl Detector for DeferredSoftirq {
    fn name(&self) -> &'static str {
        "deferred-softirq"
    }

    fn advice(&self) -> Advice {
        Kind::Deferred.of().advice
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        let runs = observed.totals.iter().filter_map(|((cpu, busy), ns)| match busy {
            Busy::Thread(thread) if observed.whose.cpus.contains(&Some(*cpu)) => Some((*ns, *cpu, *thread)),
            _ => None,
        });
        let (ns, cpu, thread) = runs.filter(|(.., thread)| observed.names.bare(*thread).starts_with("ksoftirqd/")).max()?;
        let share = ns as f64 / observed.traced_ns.max(1) as f64;
        let name = observed.names.bare(thread);
        (share >= SHARE).then(|| {
            format!("{name} had CPU {cpu} for {:.1} % of the time, with soft interrupts that were left to it", share * 100.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;
    use super::*;

    #[test]
    fn only_a_large_share_of_ksoftirqd_is_reported() {
        let mut run = Run::clean();
        run.named(20, "ksoftirqd/1");
        run.had(1, Busy::Thread(20), 2_000_000);
        assert_eq!(run.found("deferred-softirq"), None);
        run.had(1, Busy::Thread(20), 120_000_000);
        let found = run.found("deferred-softirq").unwrap();
        assert_eq!(found, "ksoftirqd/1 had CPU 1 for 12.0 % of the time, with soft interrupts that were left to it");
    }
}
