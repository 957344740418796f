//! The stages and causes of every explained path.

use hairpin_record::any::AnyRecord;
use hairpin_record::explain::{self, Explain, Explained};
use hairpin_record::run::{Link, Origin, Quantiles};
use hairpin_units::Quantile;

use super::records::{told, warning};
use super::split::split;
use crate::explain::parts::Part;
use crate::explain::row::{matched, name};
use crate::explain::waterfall::gap as not_adding_up;
use crate::label::Name;
use crate::notes::refused;
use crate::prose::clean;
use crate::view::{Beside, Breakdown, Cause, Design, Input, StageRow, Warning, Wire};

/// All breakdowns, in the order of the records.
pub(super) fn breakdowns(given: &[Input], beside: &Beside) -> Vec<Breakdown> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Explain(record) => {
            let labels = labels(record);
            let of = |(result, label)| Breakdown { record: at + 1, ..breakdown(record, result, label, beside) };
            record.results.iter().zip(labels).map(of).collect()
        }
        _ => Vec::new(),
    };
    given.iter().enumerate().flat_map(of).collect()
}

/// The name of each path: with its origin unless measured, and with its size if another path of the record differs only in that,
/// or if its reply has another one.
pub(super) fn labels(record: &Explain) -> Vec<String> {
    let names: Vec<Name> = record.results.iter().map(name).collect();
    let called = |of: &Name| {
        let alike = names.iter().filter(|other| other.base == of.base).count();
        let is_uneven = of.size.contains('/');
        if alike > 1 || is_uneven { format!("{}, {}", of.base, of.size) } else { of.base.clone() }
    };
    names.iter().map(called).collect()
}

/// One path, with the designs that stand beside it.
pub(crate) fn breakdown(record: &Explain, result: &Explained, label: String, beside: &Beside) -> Breakdown {
    let (typical, slow) = (&result.typical, &result.slow);
    let mut stages: Vec<StageRow> = result.stages.iter().map(stage).collect();
    let around = [
        ("observer", &result.observer_ns, typical.observer_ns, slow.observer_ns),
        ("residual", &result.residual_ns, typical.residual_ns, slow.residual_ns),
    ];
    let parts = [Part::Hooks, Part::Unnamed];
    stages.extend(around.into_iter().zip(parts).map(|((name, times, typical_ns, slow_ns), part)| StageRow {
        name: name.into(),
        part: part.word().into(),
        side: String::new(),
        direction: String::new(),
        typical_ns,
        slow_ns,
        p50_ns: quantile(times, Quantile::P50, times.p50),
        p99_ns: quantile(times, Quantile::P99, times.p99),
    }));
    let cause = |cause: &explain::Cause| Cause {
        cause: clean(&cause.cause),
        who: clean(&cause.who),
        count: cause.count,
        lost_ns: cause.lost_ns,
        advice: clean(&cause.advice),
    };
    let untraced = &result.untraced_rtt_ns;
    let wire = wire(result, &record.place.link);
    let mut designs: Vec<Design> = result.floor.iter().map(|floor| Design::of(floor, &beside.cables)).collect();
    designs.extend(beside.designs.map(|of| of(record, result)).unwrap_or_default());
    Breakdown {
        record: 1,
        label,
        origin: result.origin,
        request_bytes: result.request_bytes,
        untraced_count: untraced.count,
        untraced_p50_ns: quantile(untraced, Quantile::P50, untraced.p50),
        traced_p50_ns: quantile(&result.rtt_ns, Quantile::P50, result.rtt_ns.p50),
        typical_count: typical.count,
        typical_ns: typical.rtt_ns,
        slow_count: slow.count,
        slow_ns: slow.rtt_ns,
        stages,
        split: result.split.as_deref().map(|of| split(of, quantile(untraced, Quantile::P50, untraced.p50))),
        wire,
        wire_said: said(wire, &record.place.link),
        declared: result.floor.is_some(),
        designs,
        causes: result.causes.iter().map(cause).collect(),
        warnings: warnings(result),
    }
}

/// Where a NIC and a cable stand in this path's round trip.
fn wire(result: &Explained, link: &Link) -> Wire {
    let on_this_host =
        link.peer.as_deref().is_some_and(|peer| ["127.", "::1", "[::1]", "localhost"].iter().any(|own| peer.starts_with(own)));
    match link.kind.as_str() {
        _ if result.origin == Origin::Emulated => Wire::Ring,
        "loopback" | "veth" => Wire::Beside,
        _ if on_this_host => Wire::Beside,
        _ => Wire::Outside,
    }
}

fn said(wire: Wire, link: &Link) -> String {
    match wire {
        Wire::Beside => format!(
            "Both sides are on this host, over {}: no NIC and no cable is in the measured time. Theirs stands beside it, and a sum of the two is derived, not measured.",
            clean(&link.kind)
        ),
        Wire::Outside => "NIC and cable are in the measured time, outside of both hosts: their floor is drawn as a part of that, not added to it.".into(),
        Wire::Ring => {
            "The device is emulated, with the declared latencies: they are in the measured time of the ring, not added to it.".into()
        }
    }
}

fn stage(stage: &explain::Stage) -> StageRow {
    let direction = match stage.direction {
        explain::Direction::Request => "request",
        explain::Direction::Reply => "reply",
    };
    StageRow {
        name: clean(&stage.name),
        part: Part::of(&stage.name).word().into(),
        side: stage.side.to_string(),
        direction: direction.into(),
        typical_ns: stage.typical_ns,
        slow_ns: stage.slow_ns,
        p50_ns: quantile(&stage.ns, Quantile::P50, stage.ns.p50),
        p99_ns: quantile(&stage.ns, Quantile::P99, stage.ns.p99),
    }
}

/// The record's figure, if its count supports it.
fn quantile(times: &Quantiles, q: Quantile, ns: Option<u64>) -> Option<u64> {
    ns.filter(|_| q.is_supported_by(times.count))
}

/// The record's own warnings, then inconsistent sums, unmatched transactions, refused settings, and the detectors' findings.
fn warnings(result: &Explained) -> Vec<Warning> {
    let mut found: Vec<Warning> = not_adding_up(result).iter().map(|text| told("does-not-add-up", text)).collect();
    found.extend(result.warnings.iter().map(warning));
    if result.unmatched > 0 || result.lost_events > 0 || result.blocks_rejected > 0 {
        found.push(told("unmatched", &matched(result)));
    }
    found.extend(refused(&result.granted).iter().map(|text| told("not-granted", text)));
    found.extend(result.findings.iter().map(|finding| told(&finding.detector, &format!("{}; {}", finding.seen, finding.advice))));
    found
}
