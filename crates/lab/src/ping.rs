//! `hairpin ping`: the rows of a plan, measured in turn on a testbed that is set up once.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, Sides};
use hairpin_record::head::Record;
use hairpin_record::run::{Row, Run, RunBody};
use hairpin_session::channel::{Channel, RecvError};
use hairpin_session::ending::repeats;
use hairpin_session::error::RunError;
use hairpin_session::handshake::Kind;
use hairpin_session::live::Live;
use hairpin_session::message::{Answer, Failure, Order};
use hairpin_session::plan::{Plan, check, emulating};
use hairpin_session::rows;
use hairpin_session::side::{SideError, WorkerSide, wait};
use hairpin_session::testbed::{RowEnd, Testbed, wait_for_turn};
use hairpin_session::watch::Watcher;
use hairpin_session::worker::choose_clock;
use hairpin_sys::shared::Stamps;
use hairpin_sys::signal::Signals;

use crate::caught::{self, Catch, Caught};
use crate::group;
use crate::one_way;
use crate::stamping::{self, Stamping};

/// The raw file of a long run is on a slow disk within this time.
const WRITTEN_WITHIN: Duration = Duration::from_secs(600);
/// Longest sleep while it is awaited.
const LOOK: Duration = Duration::from_secs(1);

/// Figures beside the round trips, and runs beside this one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// One-way delays.
    pub one_way: bool,
    /// The server may answer others meanwhile, if every row is that of a [probe](Job::is_probe).
    pub others: bool,
}

/// Measures every row of the plan. A row that fails part way ends the run: the record keeps the results so far, with the
/// error.
pub fn run(plan: &Plan, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Run, RunError> {
    run_beside(plan, Beside::default(), None, signals, watcher)
}

/// As [`run`], over a session that is open to the plan's target.
pub fn run_over(plan: &Plan, channel: Channel, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Run, RunError> {
    let mut channel = Some(channel);
    let set_up = |stamps: Option<&Sides<Stamps>>| {
        let channel = channel.take().ok_or(RunError::Interrupted)?;
        Testbed::over(channel, stamps, plan.stack.as_ref())
    };
    measured(plan, Beside::default(), None, set_up, signals, watcher)
}

/// As [`run`], with figures beside the round trips, and slow ones explained.
pub fn run_beside(
    plan: &Plan,
    beside: Beside,
    catch: Option<&mut Catch>,
    signals: &Signals,
    watcher: &mut dyn Watcher,
) -> Result<Run, RunError> {
    let is_probe = beside.others && !beside.one_way && catch.is_none() && plan.rows.iter().all(Job::is_probe);
    let kind = if is_probe { Kind::Probe } else { Kind::Measuring };
    measured(plan, beside, catch, |stamps| Testbed::set_up_as(kind, plan, stamps), signals, watcher)
}

fn measured(
    plan: &Plan,
    beside: Beside,
    mut catch: Option<&mut Catch>,
    mut set_up: impl FnMut(Option<&Sides<Stamps>>) -> Result<Testbed, RunError>,
    signals: &Signals,
    watcher: &mut dyn Watcher,
) -> Result<Run, RunError> {
    for job in &plan.rows {
        stamping::check(job, plan.raw.is_some())?;
    }
    // What cannot be asked for is told before what this host cannot do.
    if beside.one_way {
        one_way::check(plan)?;
    }
    let caught = catch.is_some();
    if caught {
        caught::check(plan)?;
    }
    check(plan)?;
    let stamped = beside.one_way || caught || plan.rows.iter().any(|job| job.nic_stamps.is_some());
    let stamps = stamped.then(stamping::areas).transpose()?;
    let head = rows::begin::<RunBody>(&plan.command);
    let clock = stamps.as_ref().map(|_| choose_clock().0);
    let mut waited = Duration::ZERO;
    let (mut testbed, place) = loop {
        let mut testbed = set_up(stamps.as_ref())?;
        match testbed.place(plan) {
            Err(RunError::Side(SideError::Later(left))) => {
                drop(testbed);
                waited += match wait_for_turn(left, signals, watcher, || ()) {
                    Ok(waited) => waited,
                    Err(RowEnd::Interrupted) => return Err(RunError::Interrupted),
                    Err(RowEnd::Failed(error)) => return Err(error),
                };
            }
            place => break (testbed, place?),
        }
    };
    if !waited.is_zero() {
        watcher.resumed(waited.into());
    }
    let mut clocks = match clock.filter(|_| beside.one_way) {
        Some(clock) => Some(one_way::Clocks::read(&mut testbed.server, clock)?),
        None => None,
    };
    let mut run = Record { head, body: RunBody { place, results: Vec::new() } };
    // The client's worker has not reported.
    let mut owes = false;
    rows::rows(
        plan,
        &mut run,
        |run| run.results.is_empty(),
        |Record { head, body }, index, job| {
            let job = &Job { traced: beside.one_way || caught, ..emulating(job, plan.floor.as_ref())? };
            watcher.begins(index, plan.rows.len(), job);
            let mut live = Live::new(watcher, job, &body.place.hosts, &testbed);
            owes = true;
            let mut incidents = None;
            let (mut measured, split, one_way) = match (job.nic_stamps, &stamps, clock, &mut clocks, catch.as_deref_mut()) {
                (Some(asked), Some(stamps), Some(clock), ..) => {
                    let job = &Job { traced: true, ..job.clone() };
                    let in_ip = stamping::in_ip(job, &body.place);
                    let interface = stamping::interface_of(&body.place, &plan.target);
                    let mut stamping = Stamping::new(asked, stamps, clock, &testbed.server, interface, in_ip, &mut live);
                    let measured = testbed.row(job, index, signals, &mut stamping)?;
                    (measured, Some(Box::new(stamping.finish())), None)
                }
                (None, Some(stamps), _, Some(clocks), _) => {
                    let mut tracing = one_way::Tracing::new(stamps, clocks, &mut live);
                    let measured = testbed.row(job, index, signals, &mut tracing)?;
                    (measured, None, Some(Box::new(tracing.finish(&mut testbed.server))))
                }
                (None, Some(stamps), Some(clock), None, Some(catch)) => {
                    let mut caught = Caught::new(catch, job, &plan.target, (stamps, clock), &mut live);
                    let measured = testbed.row(job, index, signals, &mut caught)?;
                    incidents = Some(Box::new(caught.finish()));
                    (measured, None, None)
                }
                _ => (testbed.row(job, index, signals, &mut live)?, None, None),
            };
            owes = false;
            let (replies, responders) = (std::mem::take(&mut measured.client.replies), std::mem::take(&mut measured.responders));
            group::add_up(&mut measured.server, &responders);
            let row = Row { split, one_way, incidents, ..testbed.joined(plan, job, measured, head, &mut body.place) };
            let row = stamping::of_rings(row);
            watcher.ends(&row);
            match &job.group {
                Some(group) => {
                    let found = replies.len().saturating_sub(1);
                    body.place.link.group = Some(group::facts(group, found));
                    body.results.extend(group::rows(job, row, replies, responders));
                }
                None => body.results.push(row),
            }
            Ok(())
        },
    )?;
    // Finishes the raw file. If the worker is gone the rest of the file is lost, but not the rows here.
    // After a failure without a report it may hang, and is not waited for that long.
    let finished = match plan.raw.is_some() && (run.head.error.is_none() || !owes) {
        true => finish_raw(&mut testbed.client, run.head.interrupted, signals),
        false => testbed.client.order(&Order::End).map(drop),
    };
    if let Err(error) = finished {
        run.head.error.get_or_insert(error.to_string());
    }
    Ok(run)
}

/// Has the client finish its raw file. Its disk may hang, so a signal ends the wait, unless it belongs to the one that has just
/// `interrupted` the run.
fn finish_raw(client: &mut WorkerSide, interrupted: bool, signals: &Signals) -> Result<(), SideError> {
    client.send(&Order::End)?;
    let begun = Instant::now();
    loop {
        match client.try_answer()? {
            Some(Answer::Failed(failure)) => return Err(SideError::Failed(failure)),
            Some(_) => return Ok(()),
            None => {}
        }
        let now = Instant::now();
        if now.duration_since(begun) >= WRITTEN_WITHIN {
            return Err(RecvError::Timeout(WRITTEN_WITHIN).into());
        }
        while let Ok(Some(signal)) = signals.next() {
            if !repeats(interrupted.then_some(begun), signal, now) {
                let message = "stopped before the file of --raw was on the disk: it is incomplete".into();
                return Err(SideError::Failed(Failure { message, missing: false }));
            }
        }
        wait(&[client.as_fd(), signals.as_fd()], Some(LOOK)).map_err(SideError::Prepare)?;
    }
}
