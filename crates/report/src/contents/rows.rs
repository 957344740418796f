//! Every row of every run.

use hairpin_record::core_states::{Apart, CoreStates};
use hairpin_record::histogram::Decoded;
use hairpin_record::run;

use super::distribution::{buckets, percentiles, summary};
use super::labels::Labels;
use super::one_way::one_way;
use super::records::{told, warning};
use super::runs;
use super::series::series;
use super::split::split;
use crate::incidents::so_far;
use crate::notes::{APART, of_stacks, refused, strays};
use crate::prose::clean;
use crate::view::{Input, Row, Warning};

/// All rows, numbered from 1.
pub(super) fn rows(given: &[Input], labels: &Labels, states: &CoreStates) -> Vec<Row> {
    let all = runs(given).flat_map(|(record, run)| run.results.iter().map(move |row| (record, row)));
    all.enumerate().map(|(at, (record, found))| row(at + 1, record, found, labels.row(at), states.apart(at))).collect()
}

fn row(number: usize, record: usize, row: &run::Row, label: String, apart: Option<Apart>) -> Row {
    let histogram = Decoded::decode(&row.histogram);
    let mut warnings: Vec<Warning> = row.warnings.iter().map(warning).collect();
    warnings.extend(refused(&row.granted).iter().map(|text| told("not-granted", text)));
    warnings.extend(of_stacks(row.stack.as_deref()).iter().map(|text| told("stack", text)));
    if row.late > 0 || row.duplicates > 0 || row.reordered > 0 || row.corrupt > 0 {
        warnings.extend(strays(row).iter().map(|text| told("stray-replies", text)));
    }
    warnings.extend(row.incidents.as_deref().map(|found| told("incidents", &so_far(found))));
    let apart = apart.map(|apart| apart.words());
    warnings.extend(apart.as_ref().map(|words| told(APART, words)));
    // A row without results has no histogram to decode.
    if let (Err(error), true) = (&histogram, row.rtt_ns.count > 0) {
        warnings.push(told("no-distribution", &format!("the distribution is left out: {error}; the figures beside it stand")));
    }
    let histogram = histogram.ok();
    let finite = |ns: Option<f64>| ns.filter(|ns| ns.is_finite());
    Row {
        number,
        record,
        path: clean(&row.path),
        label,
        origin: row.origin,
        request_bytes: row.request_bytes,
        reply_bytes: row.reply_bytes,
        flows: row.flows,
        outstanding: row.outstanding,
        pace_per_s: row.pace_per_s,
        count: row.rtt_ns.count,
        lost: row.lost,
        transactions_per_s: row.transactions_per_s,
        rtt: summary(&row.rtt_ns, &row.blocks),
        turnaround: row.turnaround_ns.as_ref().map(|times| summary(times, &[])),
        cpu_client_ns: finite(row.cpu.client.per_transaction_ns),
        cpu_server_ns: finite(row.cpu.server.as_ref().and_then(|side| side.per_transaction_ns)),
        floor_ns: row.floor.as_ref().map(|floor| [floor.rtt.low_ns, floor.rtt.high_ns].map(|end| end.as_ns_f64())),
        percentiles: percentiles(&row.rtt_ns, histogram.as_ref()),
        buckets: histogram.as_ref().map(buckets).unwrap_or_default(),
        series: series(&row.series, &row.blocks),
        split: row.split.as_deref().map(|found| split(found, row.rtt_ns.p50)),
        one_way: row.one_way.as_deref().map(one_way),
        warnings,
        apart,
    }
}
