//! At a low rate each round trip takes longer than flat out.

use super::{Detector, Observed, us};
use crate::advice::{Advice, Name};

/// See `docs/detectors/low-rate-penalty.md`.
pub(super) struct LowRate;

/// Least factor …
const TIMES: f64 = 1.25;
/// … and least difference in ns.
const LEAST_NS: u64 = 1_000;

impl Detector for LowRate {
    fn name(&self) -> &'static str {
        "low-rate-penalty"
    }

    fn advice(&self) -> Advice {
        Advice {
            text: "between requests cores sleep and caches go cold: hold cpu_dma_latency_us at 0, see idle_states and rx_usecs; spin keeps both sides awake",
            names: &[Name::Knob("cpu_dma_latency_us"), Name::Knob("idle_states"), Name::Knob("rx_usecs"), Name::Policy("spin")],
        }
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        let paced = observed.paced?;
        let (low, closed) = (observed.explained.untraced_rtt_ns.p50?, paced.closed_p50_ns);
        let slower = low as f64 >= closed as f64 * TIMES && low >= closed + LEAST_NS;
        slower
            .then(|| format!("at {}/s a round trip takes {} (p50), flat out {}", paced.per_s, us(low as f64), us(closed as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Paced;
    use super::super::tests::Run;

    #[test]
    fn only_a_paced_run_slower_than_flat_out_is_reported() {
        let mut run = Run::clean();
        run.paced = Some(Paced { per_s: 200.0, closed_p50_ns: 9_000 });
        assert_eq!(run.found("low-rate-penalty"), None);
        run.paced = Some(Paced { per_s: 200.0, closed_p50_ns: 6_000 });
        assert_eq!(run.found("low-rate-penalty").unwrap(), "at 200/s a round trip takes 10.0 us (p50), flat out 6.0 us");
        run.explained.untraced_rtt_ns.p50 = None;
        assert_eq!(run.found("low-rate-penalty"), None);
    }
}
