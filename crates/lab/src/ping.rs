//! `hairpin ping`: the rows of a plan, measured in turn on a testbed that is set up once.

use hairpin_plan::job::Job;
use hairpin_record::head::Record;
use hairpin_record::run::{Row, Run, RunBody};
use hairpin_session::error::RunError;
use hairpin_session::live::Live;
use hairpin_session::message::Order;
use hairpin_session::plan::{Plan, check, emulating};
use hairpin_session::rows;
use hairpin_session::testbed::Testbed;
use hairpin_session::watch::Watcher;
use hairpin_session::worker::choose_clock;
use hairpin_sys::signal::Signals;

use crate::one_way;

/// Figures beside the round trips.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// One-way delays.
    pub one_way: bool,
}

/// Measures every row of the plan. A row that fails part way ends the run: the record keeps the results so far, with the
/// error.
pub fn run(plan: &Plan, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Run, RunError> {
    run_beside(plan, Beside::default(), signals, watcher)
}

/// The same, with figures beside the round trips.
pub fn run_beside(plan: &Plan, beside: Beside, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Run, RunError> {
    check(plan)?;
    if beside.one_way {
        one_way::check(plan)?;
    }
    let stamps = beside.one_way.then(one_way::areas).transpose()?;
    let head = rows::begin::<RunBody>(&plan.command);
    let mut testbed = Testbed::set_up(plan, stamps.as_ref())?;
    let mut clocks = match beside.one_way {
        true => Some(one_way::Clocks::read(&mut testbed.server, choose_clock().0)?),
        false => None,
    };
    let mut run = Record { head, body: RunBody { place: testbed.place(plan)?, results: Vec::new() } };
    rows::rows(
        plan,
        &mut run,
        |run| run.results.is_empty(),
        |Record { head, body }, index, job| {
            let job = &Job { traced: beside.one_way, ..emulating(job, plan.floor.as_ref())? };
            watcher.begins(index, plan.rows.len(), job);
            let mut live = Live::new(watcher, job, &body.place.hosts, &testbed.server);
            let (measured, one_way) = match (&stamps, &mut clocks) {
                (Some(stamps), Some(clocks)) => {
                    let mut tracing = one_way::Tracing::new(stamps, clocks, &mut live);
                    let measured = testbed.row(job, index, signals, &mut tracing)?;
                    (measured, Some(Box::new(tracing.finish(&mut testbed.server))))
                }
                _ => (testbed.row(job, index, signals, &mut live)?, None),
            };
            let row = Row { one_way, ..testbed.joined(plan, job, measured, head, &mut body.place) };
            watcher.ends(&row);
            body.results.push(row);
            Ok(())
        },
    )?;
    // Finishes the raw file. If the worker is gone the rest of the file is lost, but not the rows here.
    if let Err(error) = testbed.client.order(&Order::End) {
        run.head.error.get_or_insert(error.to_string());
    }
    Ok(run)
}
