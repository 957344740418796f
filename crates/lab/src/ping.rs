//! `hairpin ping`: the rows of a plan, measured in turn on a testbed that is set up once.

mod stamping;

use hairpin_plan::job::{Job, Sides};
use hairpin_record::head::Record;
use hairpin_record::run::{Run, RunBody};
use hairpin_session::error::RunError;
use hairpin_session::live::Live;
use hairpin_session::message::Order;
use hairpin_session::plan::{Plan, check, emulating};
use hairpin_session::rows;
use hairpin_session::side::SideError;
use hairpin_session::testbed::Testbed;
use hairpin_session::watch::Watcher;
use hairpin_session::worker::choose_clock;
use hairpin_sys::shared::Stamps;
use hairpin_sys::signal::Signals;

use self::stamping::Stamping;

/// Measures every row of the plan. A row that fails part way ends the run: the record keeps the results so far, with the
/// error.
pub fn run(plan: &Plan, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Run, RunError> {
    for job in &plan.rows {
        stamping::check(job, &plan.target, plan.raw.is_some())?;
    }
    check(plan)?;
    let head = rows::begin::<RunBody>(&plan.command);
    let stamps = plan.rows.iter().any(|job| job.nic_stamps.is_some()).then(areas).transpose()?;
    let clock = stamps.as_ref().map(|_| choose_clock().0);
    let mut testbed = Testbed::set_up(plan, stamps.as_ref())?;
    let mut run = Record { head, body: RunBody { place: testbed.place(plan)?, results: Vec::new() } };
    rows::rows(
        plan,
        &mut run,
        |run| run.results.is_empty(),
        |Record { head, body }, index, job| {
            let job = &emulating(job, plan.floor.as_ref())?;
            watcher.begins(index, plan.rows.len(), job);
            let mut live = Live::new(watcher, job, &body.place.hosts, &testbed.server);
            let (measured, split) = match (job.nic_stamps, &stamps, clock) {
                (Some(asked), Some(stamps), Some(clock)) => {
                    let job = &Job { traced: true, ..job.clone() };
                    let in_ip = stamping::in_ip(job, &body.place);
                    let mut stamping = Stamping::new(asked, stamps, clock, &testbed.server, in_ip, &mut live);
                    let measured = testbed.row(job, index, signals, &mut stamping)?;
                    (measured, Some(Box::new(stamping.finish())))
                }
                _ => (testbed.row(job, index, signals, &mut live)?, None),
            };
            let mut row = testbed.joined(plan, job, measured, head, &mut body.place);
            row.split = split;
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

/// An area for the stamps of each side.
fn areas() -> Result<Sides<Stamps>, SideError> {
    Ok(Sides { client: Stamps::create()?, server: Stamps::create()? })
}
