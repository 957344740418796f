//! Results of `hairpin check`: each known delay and emulated latency, and the instrument's error.

use crate::view::{Checked, Input};
use hairpin_record::any::AnyRecord;
use hairpin_record::check::{CheckBody, Verdict};

/// Every delay and latency, in the order of the records.
pub(super) fn checks(given: &[Input]) -> Vec<Checked> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Check(check) => checked(at + 1, check),
        _ => Vec::new(),
    };
    given.iter().enumerate().flat_map(of).collect()
}

fn checked(record: usize, check: &CheckBody) -> Vec<Checked> {
    let passed = |verdict| verdict == Verdict::Passed;
    let delays = check.delays.iter().map(|delay| Checked {
        record,
        what: "injected delay".into(),
        asked_ns: delay.asked_ns,
        known_ns: delay.injected_ns,
        reported_ns: delay.reported_ns,
        error_ns: delay.error_ns,
        bound_ns: check.bound_ns,
        passed: passed(delay.verdict),
    });
    let latencies = check.latencies.iter().map(|latency| Checked {
        record,
        what: "emulated NIC".into(),
        asked_ns: latency.declared_ns,
        known_ns: latency.sum_ns,
        reported_ns: latency.measured_ns,
        error_ns: latency.error_ns,
        bound_ns: check.latency_bound_ns,
        passed: passed(latency.verdict),
    });
    delays.chain(latencies).collect()
}
