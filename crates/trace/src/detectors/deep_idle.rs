//! Waking a sleeping core is a large part of every round trip.

use hairpin_record::explain::Direction;

use super::{Detector, Observed, SIDES, us};
use crate::advice::Advice;
use crate::causes::Kind;
use crate::cores::Busy;

/// See `docs/detectors/deep-idle-wake-up.md`.
pub(super) struct DeepIdle;

/// Smallest reported part of a typical round trip …
const SHARE: f64 = 0.25;
/// … and smallest time, in ns.
const LEAST_NS: f64 = 5_000.0;

impl Detector for DeepIdle {
    fn name(&self) -> &'static str {
        "deep-idle-wake-up"
    }

    fn advice(&self) -> Advice {
        Kind::Idle.of().advice
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        // The request wakes the server, the reply the client.
        let woken = [(1, Direction::Request), (0, Direction::Reply)].map(|(side, direction)| {
            let stages = observed.explained.stages.iter().filter(|stage| stage.direction == direction);
            let waking = stages.filter(|stage| stage.name.contains("wake-up") || stage.name.contains("run queue"));
            let ns: f64 = waking.map(|stage| stage.typical_ns).sum();
            (side, ns, deepest(observed, side))
        });
        let asleep: Vec<_> = woken.into_iter().filter_map(|(side, ns, state)| Some((side, ns, state?))).collect();
        let all: f64 = asleep.iter().map(|(_, ns, _)| ns).sum();
        let typical = observed.explained.typical.rtt_ns;
        if all < LEAST_NS || all < typical * SHARE {
            return None;
        }
        let parts = asleep
            .iter()
            .filter(|(_, ns, _)| *ns >= all / 10.0)
            .map(|(side, ns, state)| format!("{} for the {}'s core out of {state}", us(*ns), SIDES[*side]));
        Some(format!("of a typical round trip of {} wake-ups take {}", us(typical), parts.collect::<Vec<_>>().join(" and ")))
    }
}

/// The state in which a side's core was idle longest, unless it polled in it.
fn deepest(observed: &Observed<'_>, side: usize) -> Option<String> {
    let cpu = observed.whose.cpus[side]?;
    let states = observed.totals.iter().filter_map(|((of, busy), ns)| match busy {
        Busy::Idle(state) if *of == cpu => Some((*ns, *state)),
        _ => None,
    });
    let (_, state) = states.max()?;
    (!observed.names.polls(cpu, state)).then(|| observed.names.idle(cpu, state))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;
    use super::*;

    #[test]
    fn wake_ups_are_reported_if_a_core_was_idle_and_their_part_is_large() {
        let mut run = Run::clean();
        run.stage("wake-up", Direction::Reply, 9_000.0);
        run.stage("run queue", Direction::Reply, 1_000.0);
        run.explained.typical.rtt_ns = 30_000.0;
        assert_eq!(run.found("deep-idle-wake-up"), None, "no core was idle");
        run.had(0, Busy::Idle(1), 300_000_000);
        let found = run.found("deep-idle-wake-up").unwrap();
        assert_eq!(found, "of a typical round trip of 30.0 us wake-ups take 10.0 us for the client's core out of idle state 1");
        run.explained.typical.rtt_ns = 50_000.0;
        assert_eq!(run.found("deep-idle-wake-up"), None, "a small part");
    }
}
