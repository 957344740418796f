//! The columns of a row: round trips, turn-around, CPU time.

use hairpin_record::histogram::{DecodeError, Decoded};
use hairpin_record::run::{Quantiles, Row};
use hairpin_units::Quantile;

use crate::cell::{Cell, IntoCell};
use crate::options::Options;

/// The definition of RTT, printed with every table of RTTs.
pub(crate) const RTT: &str = "client's send call entered -> reply in the caller's buffer";

/// The titles of [`times`].
pub(crate) fn titles(options: &Options) -> Vec<String> {
    let quantiles = options.percentiles.iter().map(ToString::to_string);
    std::iter::once("min".into()).chain(quantiles).chain(["max".into()]).collect()
}

/// Minimum, requested percentiles and maximum in ns, halved with `--hrt`, plus the reason if the histogram that holds the
/// percentiles could not be decoded.
pub(crate) fn times(row: &Row, options: &Options) -> (Vec<Option<f64>>, Option<DecodeError>) {
    let needs_histogram = options.percentiles.iter().any(|q| kept(&row.rtt_ns, *q).is_none()) && row.transactions > 0;
    let (histogram, error) = match needs_histogram.then(|| Decoded::decode(&row.histogram)) {
        None => (None, None),
        Some(Ok(histogram)) => (Some(histogram), None),
        Some(Err(error)) => (None, Some(error)),
    };
    let quantile = |q: Quantile| match kept(&row.rtt_ns, q) {
        Some(known) => known,
        None => histogram.as_ref().and_then(|h| h.quantile(q)).map(|ns| within(ns, &row.rtt_ns)),
    };
    let scale = if options.hrt { 0.5 } else { 1.0 };
    let ends = [row.rtt_ns.min, row.rtt_ns.max];
    let all = ends[..1].iter().copied().chain(options.percentiles.iter().map(|q| quantile(*q))).chain(ends[1..].iter().copied());
    (all.map(|ns| ns.map(|ns| ns as f64 * scale)).collect(), error)
}

/// The cells of [`times`].
pub(crate) fn cells(row: &Row, options: &Options) -> impl Iterator<Item = Cell> {
    times(row, options).0.into_iter().map(|ns| ns.into_cell(Cell::Ns))
}

/// A quantile that the record stores as a field; `None` for any other quantile.
pub(crate) fn kept(times: &Quantiles, q: Quantile) -> Option<Option<u64>> {
    match q {
        Quantile::P50 => Some(times.p50),
        Quantile::P90 => Some(times.p90),
        Quantile::P99 => Some(times.p99),
        Quantile::P999 => Some(times.p999),
        _ => None,
    }
}

/// Clamps a histogram value to the exact minimum and maximum, since a bucket may reach beyond them.
pub(crate) fn within(ns: u64, times: &Quantiles) -> u64 {
    ns.max(times.min.unwrap_or(0)).min(times.max.unwrap_or(u64::MAX))
}

/// Median of the server's receive → send in ns, if known.
pub(crate) fn turnaround(row: &Row) -> Option<f64> {
    row.turnaround_ns.as_ref().and_then(|times| times.p50).map(|ns| ns as f64)
}

/// The sides whose CPU time a column adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuOf {
    Both,
    /// The client alone, because no row has the server's.
    Client,
}

impl CpuOf {
    pub(crate) fn rows<'a>(mut rows: impl Iterator<Item = &'a Row>) -> CpuOf {
        if rows.any(|row| row.cpu.server.is_some()) { CpuOf::Both } else { CpuOf::Client }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            CpuOf::Both => "user + system time of both sides per transaction",
            CpuOf::Client => "the client's user + system time per transaction",
        }
    }

    /// CPU time per transaction in ns; `None` if the column needs a side that the row does not have.
    pub(crate) fn per_transaction(self, row: &Row) -> Option<f64> {
        let client = row.cpu.client.per_transaction_ns?;
        match self {
            CpuOf::Client => Some(client),
            CpuOf::Both => Some(client + row.cpu.server.as_ref()?.per_transaction_ns?),
        }
    }
}
