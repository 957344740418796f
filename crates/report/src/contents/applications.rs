//! Stages of the transactions of applications that ran.

use hairpin_record::any::AnyRecord;
use hairpin_record::attached::{Attached, Total};
use hairpin_record::run::{Quantiles, Side};
use hairpin_units::Quantile;

use crate::attached::spanned;
use crate::prose::clean;
use crate::view::{Application, ApplicationStage, Input};

/// All of them, in the order of the records.
pub(super) fn applications(given: &[Input]) -> Vec<Application> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Attached(record) => record.totals.iter().map(|total| application(at + 1, record, total)).collect(),
        _ => Vec::new(),
    };
    given.iter().enumerate().flat_map(of).collect()
}

fn application(record: usize, attached: &Attached, total: &Total) -> Application {
    Application {
        record,
        said: clean(&spanned(total, attached)),
        sum: stage("sum", None, &total.sum_ns, 1.0),
        stages: total.stages.iter().map(|of| stage(&of.name, of.side, &of.ns, of.share)).collect(),
    }
}

fn stage(name: &str, side: Option<Side>, ns: &Quantiles, share: f64) -> ApplicationStage {
    let supported = |q: Quantile, ns: Option<u64>, count| ns.filter(|_| q.is_supported_by(count));
    ApplicationStage {
        name: clean(name),
        side: side.map_or(String::new(), |side| side.to_string()),
        count: ns.count,
        p50_ns: supported(Quantile::P50, ns.p50, ns.count),
        p99_ns: supported(Quantile::P99, ns.p99, ns.count),
        share,
    }
}
