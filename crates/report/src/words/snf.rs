//! A line per size in the format of `snf_pingpong` as published, so that old and new figures can be compared.

use hairpin_record::run::{Niq, Row, Run};

use crate::label::whole;
use crate::prose::clean;

/// The figures of one line: half round trips in ns.
pub(crate) struct Line {
    pub(crate) elapsed_us: Option<u64>,
    pub(crate) mean_ns: Option<f64>,
    pub(crate) min_ns: Option<f64>,
    pub(crate) max_ns: Option<f64>,
    pub(crate) bytes: u64,
}

/// The line; missing figures are `nan`, as C prints them.
pub(crate) fn line(figures: &Line) -> String {
    let us = |ns: Option<f64>| ns.map_or("nan".into(), |ns| format!("{:.2}", ns / 1e3));
    format!(
        "elapsed = {} us, {} per HRT (min:{}, max:{}), size {}\n",
        figures.elapsed_us.map_or("nan".into(), |us| us.to_string()),
        us(figures.mean_ns),
        us(figures.min_ns),
        us(figures.max_ns),
        figures.bytes
    )
}

/// A comment line before figures that come from an emulated NIC.
fn emulated(row: &Row, nic: &str, stalled: Option<u64>, without_ns: Option<f64>) -> String {
    let mut text = format!("# emulated: {}", clean(nic));
    if let Some((stalled, without_ns)) = stalled.zip(without_ns) {
        let us = without_ns / 2e3;
        text.push_str(&format!("; without the {stalled} of {} that overlap a stall {us:.2} per HRT", row.rtt_ns.count));
    }
    text.push('\n');
    text
}

/// `elapsed = %d us, %.2f per HRT (min:%.2f, max:%.2f), size %d`, a line per result.
///
/// `elapsed` is the measured time; HRT is half the exact mean, minimum and maximum of the RTT in us; `size` is the request's
/// payload. A result without a reply has `nan`, as C prints it. Results of several paths are grouped, each group after a line `#
/// PATH`.
pub fn pingpong(run: &Run) -> String {
    let several = run.results.windows(2).any(|pair| whole(&pair[0]) != whole(&pair[1]));
    let mut text = String::new();
    let mut under = String::new();
    for row in &run.results {
        if several && under != whole(row) {
            under = whole(row);
            text.push_str(&format!("# {under}\n"));
        }
        if let Some(Niq { nic: Some(nic), stalled, rtt_mean_without_stalled_ns, .. }) = row.niq.as_deref() {
            text.push_str(&emulated(row, nic, *stalled, *rtt_mean_without_stalled_ns));
        }
        let half = |ns: Option<u64>| ns.map(|ns| ns as f64 / 2.0);
        let rtt = &row.rtt_ns;
        text.push_str(&line(&Line {
            elapsed_us: Some((row.duration_ns + 500) / 1000),
            mean_ns: rtt.mean.map(|ns| ns / 2.0),
            min_ns: half(rtt.min),
            max_ns: half(rtt.max),
            bytes: row.request_bytes,
        }));
    }
    text
}
