//! Others kept a measuring thread from its core.

use hairpin_units::Arrange;

use super::{Detector, Observed, SIDES};
use crate::advice::Advice;
use crate::causes::Kind;

/// See `docs/detectors/competing-process.md`.
pub(super) struct CompetingProcess;

/// Smallest reported part of the traced time.
const SHARE: f64 = 0.02;
/// Number of processes named.
const NAMED: usize = 3;

impl Detector for CompetingProcess {
    fn name(&self) -> &'static str {
        "competing-process"
    }

    fn advice(&self) -> Advice {
        Kind::Preempted.of().advice
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        let cores = [0, 1].into_iter().filter_map(|side| of_core(observed, side));
        let cores: Vec<String> = cores.collect();
        (!cores.is_empty()).then(|| cores.join("; "))
    }
}

fn of_core(observed: &Observed<'_>, side: usize) -> Option<String> {
    let cpu = observed.whose.cpus[side]?;
    let others = observed.kept.iter().filter(|((of, thread), _)| *of == side && is_other(observed, *thread));
    let mut others: Vec<(u64, u32)> = others.map(|((_, thread), ns)| (*ns, *thread)).collect();
    others.arrange_by(|a, b| b.cmp(a));
    let share = |ns: u64| ns as f64 / observed.traced_ns.max(1) as f64;
    let all: u64 = others.iter().map(|(ns, _)| ns).sum();
    if share(all) < SHARE {
        return None;
    }
    let percent = |ns: u64| format!("{:.1} %", share(ns) * 100.0);
    let named: Vec<String> =
        others.iter().take(NAMED).map(|(ns, thread)| format!("{} {}", observed.names.thread(*thread), percent(*ns))).collect();
    Some(format!(
        "others kept the {}'s thread from CPU {cpu} for {} of the time: {}",
        SIDES[side],
        percent(all),
        named.join(", ")
    ))
}

/// False for the sides' own threads, the idle thread, and ksoftirqd, which has a detector of its own.
fn is_other(observed: &Observed<'_>, thread: u32) -> bool {
    thread != 0 && !observed.whose.threads.contains(&thread) && !observed.names.bare(thread).starts_with("ksoftirqd/")
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;

    #[test]
    fn others_are_told_from_the_sides_own_threads() {
        let mut run = Run::clean();
        run.named(99, "stress");
        run.kept(1, 99, 480_000_000);
        run.kept(1, 98, 1_000_000);
        run.kept(1, 7, 900_000_000);
        let found = run.found("competing-process").unwrap();
        assert_eq!(
            found,
            "others kept the server's thread from CPU 1 for 48.1 % of the time: stress (99) 48.0 %, thread 98 0.1 %"
        );
        run.kept(1, 99, 10_000_000);
        assert_eq!(run.found("competing-process"), None);
    }
}
