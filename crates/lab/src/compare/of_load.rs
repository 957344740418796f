//! Converts a record of load into rows that can be compared with those of another.

use hairpin_record::head::Record;
use hairpin_record::load::{Load, LoadBody, LoadCurve, LoadRow};
use hairpin_record::run::{Row, Run, RunBody};

/// One row per rate, which becomes part of the path; of a rate measured several times the last one counts. RTTs are from due.
pub fn run_of_load(load: Load) -> Run {
    let Record { head, body: LoadBody { place, results, .. } } = load;
    let last = |curve: &LoadCurve, at: usize| curve.rates.get(at + 1).is_none_or(|next| next.repeat == 0);
    let rows = results.iter().flat_map(|curve| {
        let rates = curve.rates.iter().enumerate().filter(move |(at, _)| last(curve, *at));
        rates.map(move |(_, rate)| row(curve, rate))
    });
    let results = rows.collect();
    Record { head, body: RunBody { place, results } }
}

fn row(curve: &LoadCurve, rate: &LoadRow) -> Row {
    Row {
        path: format!("{} at {}/s", curve.path, rate.offered_per_s),
        origin: curve.origin,
        request_bytes: curve.request_bytes,
        reply_bytes: curve.reply_bytes,
        flows: curve.flows,
        threads: curve.threads,
        outstanding: curve.outstanding,
        transactions: rate.transactions,
        lost: rate.lost,
        duration_ns: rate.duration_ns,
        transactions_per_s: rate.achieved_per_s,
        rtt_ns: rate.rtt_from_due_ns.clone(),
        histogram: rate.histograms.rtt_from_due.clone(),
        cpu: rate.cpu.clone(),
        granted: curve.granted.clone(),
        own_request: curve.own_request.clone(),
        warnings: rate.warnings.clone(),
        ..Row::default()
    }
}
