//! RTT against size: the rows of a run that differ only in size.

use hairpin_record::fit::{Estimate, Fit, Line, NoFit, OfRows, of_rows};
use hairpin_record::run::{self, Run};
use hairpin_units::Arrange;

use super::labels::{over, work};
use super::runs;
use crate::view::{Curve, Input, Row};

/// Curves with more sizes, which no real run has, are not fitted: the search for the step is quadratic in their number.
const MOST_SIZES: usize = 1000;

/// The curves of all runs; they refer to `rows`.
pub(super) fn curves(given: &[Input], rows: &[Row]) -> Vec<Curve> {
    let several = runs(given).any(|(_, run)| runs(given).any(|(_, other)| over(&run.place.link) != over(&other.place.link)));
    let mut before = 0;
    let mut found = Vec::new();
    for (record, run) in runs(given) {
        let numbers = &rows[before..before + run.results.len()];
        before += run.results.len();
        found.extend(of_run(record, run, numbers, several));
    }
    found
}

fn of_run(record: usize, run: &Run, shown: &[Row], link: bool) -> Vec<Curve> {
    let key = |row: &run::Row| (work(run, row, link), row.path.clone());
    let mut groups: Vec<((String, String), Vec<usize>)> = Vec::new();
    for (at, row) in run.results.iter().enumerate().filter(|(_, row)| row.pace_per_s.is_none()) {
        let of = key(row);
        match groups.iter_mut().find(|(known, _)| *known == of) {
            Some((_, rows)) => rows.push(at),
            None => groups.push((of, vec![at])),
        }
    }
    let curve = |((label, _), mut at): ((String, String), Vec<usize>)| {
        let bytes = |at: &usize| run.results[*at].request_bytes.saturating_add(run.results[*at].reply_bytes);
        at.arrange_by_key(bytes);
        let sized = at.first().map(bytes) != at.last().map(bytes);
        let found =
            (at.len() <= MOST_SIZES).then(|| of_rows(at.iter().map(|at| &run.results[*at]), run.place.clock.least_error_ns()));
        let fit_note = found.as_ref().and_then(note);
        let fit = found.and_then(|found| found.fit.ok()).filter(finite);
        sized.then(|| Curve { record, label, rows: at.iter().map(|at| shown[*at].number).collect(), fit, fit_note })
    };
    groups.into_iter().filter_map(curve).collect()
}

/// The rows that a fit leaves out because of their core state.
fn note(found: &OfRows) -> Option<String> {
    match &found.fit {
        Err(why @ NoFit::States { .. }) => Some(format!("none: {why}")),
        Ok(_) if found.apart > 0 => {
            let rows = if found.apart == 1 { "1 row is".into() } else { format!("{} rows are", found.apart) };
            Some(format!("{rows} left out of the fit: the cores were in another state"))
        }
        _ => None,
    }
}

/// Times out of any reasonable range may give a fit that is not finite.
fn finite(fit: &Fit) -> bool {
    let estimate = |estimate: &Estimate| [estimate.value, estimate.low, estimate.high].iter().all(|x| x.is_finite());
    let line = |line: &Line| estimate(&line.base_ns) && estimate(&line.ns_per_byte);
    line(&fit.line)
        && fit.above.as_ref().is_none_or(line)
        && fit.step.as_ref().is_none_or(|step| estimate(&step.jump_ns))
        && fit.residual.is_finite()
}
