//! The contents of a report, computed once from the records. The page, Markdown, SVG and terminal plots only draw it.
//!
//! ```text
//!   records of every kind            ──▶ View ──▶ html   (JSON inside the page, drawn by web/)
//!                                           ├──▶ markdown
//!                                           ├──▶ svg
//!                                           └──▶ term
//! ```

mod applications;
pub(crate) mod breakdowns;
mod checks;
mod comparisons;
mod curves;
mod devices;
pub(crate) mod distribution;
mod facts;
mod frames;
mod labels;
mod loads;
mod meshes;
mod noises;
mod one_way;
mod records;
mod rows;
mod series;
mod split;
mod summary;

use hairpin_record::any::AnyRecord;
use hairpin_record::core_states::CoreStates;
use hairpin_record::head::TOOL;
use hairpin_record::run::Run;

use crate::notes::hosts;
use crate::view::{Beside, Input, View};
use labels::Labels;

/// The view of these records, in their order. `made` is the creation time, RFC 3339 in UTC.
pub fn view(given: &[Input], made: &str, beside: Beside) -> View {
    let labels = Labels::of(given);
    let states = core_states(given);
    let rows = rows::rows(given, &labels, &states);
    let (hosts, facts) = facts::facts(given);
    View {
        tool: TOOL.into(),
        made: made.into(),
        summary: summary::summary(given, &labels, &states),
        records: given.iter().enumerate().map(|(at, given)| records::record(at + 1, given)).collect(),
        curves: curves::curves(given, &rows),
        rows,
        breakdowns: breakdowns::breakdowns(given, &beside),
        comparisons: comparisons::comparisons(given),
        loads: loads::loads(given),
        meshes: meshes::meshes(given),
        noises: noises::noises(given),
        frames: frames::frames(given),
        checks: checks::checks(given),
        applications: applications::applications(given),
        reads: devices::reads(given),
        steps: devices::steps(given),
        facts,
        hosts,
        cables: beside.cables,
        published: beside.published,
    }
}

/// The core states of all rows. Only rows of the same hosts are compared.
fn core_states(given: &[Input]) -> CoreStates {
    CoreStates::of(runs(given).flat_map(|(_, run)| run.results.iter().map(move |row| (hosts(run), row))))
}

/// Every run among the records, with its record number.
fn runs(given: &[Input]) -> impl Iterator<Item = (usize, &Run)> {
    given.iter().enumerate().filter_map(|(at, given)| match &given.record {
        AnyRecord::Run(run) => Some((at + 1, &**run)),
        _ => None,
    })
}
