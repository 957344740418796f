//! Round trips against the rate at which requests are due: an open loop at one rate after the other, and the knee of the curve.
//!
//! ```text
//!   per path and size:   closed loop, if no rates are given ──▶ the path's highest rate
//!                        10 %, 20 % … 110 % of it, or the rates given, a row each ──▶ knee
//!                        a rate that fails is measured again, twice at most, up to the first that fails each time
//!   --bulk tcp:N         two more workers fill the link during every row
//! ```

mod knee;

use std::path::PathBuf;

use hairpin_plan::job::Job;
use hairpin_plan::replay;
use hairpin_plan::schedule::{Arrivals, OpenLoop};
use hairpin_record::head::{Head, Place, Record};
use hairpin_record::load::{BulkFacts, Load, LoadBody, LoadCurve, LoadHistograms, LoadRow, OpenFound, ScheduleFacts, StallFacts};
use hairpin_record::run::{Granted, Row};
use hairpin_sys::signal::Signals;
use hairpin_sys::wait::Policy;
use hairpin_units::{Nanos, Quantile};

pub use self::knee::{ACHIEVED, FACTOR};
use crate::bulk::Bulk;
use hairpin_session::error::RunError;
use hairpin_session::plan::{Plan, Target};
use hairpin_session::row::{self, RowContext};
use hairpin_session::rows;
use hairpin_session::testbed::{Measured, RowEnd, Testbed};
use hairpin_session::watch::NoWatcher;

/// Rates offered by default, in tenths of the rate of a closed loop: up to that rate, and one beyond.
const TENTHS: std::ops::RangeInclusive<u32> = 1..=11;
/// Longest run of the closed loop that finds that rate.
const CLOSED: Nanos = Nanos::from_secs(1);

/// The load to offer.
#[derive(Clone, Debug)]
pub struct How {
    pub rates: Rates,
    /// The times at which requests are due.
    pub schedule: Schedule,
    /// Bulk TCP streams that fill the link meanwhile.
    pub bulk: u32,
    /// Lowers the default room for requests in flight to the limit of each path, since the user did not ask for it.
    pub fits_room: bool,
}

/// The rates of a curve, in requests per second.
#[derive(Clone, Debug)]
pub enum Rates {
    Listed(Vec<f64>),
    /// Fractions of the rate of a closed loop.
    Found,
}

/// The times at which requests are due.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// At a fixed interval.
    Fixed,
    /// At exponential intervals, drawn from this seed.
    Poisson(u64),
    /// As recorded in this file, which implies the rate.
    Replay(PathBuf),
}

/// Receives the progress, between rows.
pub trait LoadWatcher {
    /// The closed loop starts (`None`), or a rate is offered.
    fn begins(&mut self, _job: &Job, _per_s: Option<f64>) {}
}

/// Offers every rate for every row of the plan. A row that fails part way ends the run: the record keeps the results so
/// far, with the error.
///
/// # Errors
/// The first row could not be measured.
pub fn run(mut plan: Plan, how: &How, signals: &Signals, watcher: &mut dyn LoadWatcher) -> Result<Load, RunError> {
    for job in &mut plan.rows {
        schedule(job, how)?;
    }
    hairpin_session::plan::check(&plan)?;
    if how.bulk > 0 && !matches!(plan.target, Target::Link(_)) {
        return Err(RunError::BulkElsewhere);
    }
    let head = rows::begin::<LoadBody>(&plan.command);
    let mut testbed = Testbed::set_up(&plan, None)?;
    let place = testbed.place(&plan)?;
    let body = LoadBody { place, schedule: facts(&how.schedule), bulk_streams: how.bulk, results: Vec::new() };
    let mut load = Record { head, body };
    let bulk = (how.bulk > 0).then(|| Bulk::beside(&testbed, &plan.target, plan.ipv6)).transpose()?;
    let mut offering = Offering { plan: &plan, how, testbed, bulk, signals, watcher, rows: 0 };
    rows::rows(
        &plan,
        &mut load,
        |load| load.results.is_empty(),
        |Record { head, body }, _, job| {
            let mut curve = LoadCurve {
                path: job.spec.to_string(),
                request_bytes: job.request.into(),
                reply_bytes: job.reply.into(),
                flows: job.flows,
                threads: job.threads,
                outstanding: job.outstanding,
                ..LoadCurve::default()
            };
            let ended = offering.curve(job, head, &mut body.place, &mut curve);
            curve.knee = knee::find(&curve.rates);
            body.results.extend(Some(curve).filter(|curve| !curve.rates.is_empty()));
            ended
        },
    )?;
    Ok(load)
}

/// State shared by all rows.
struct Offering<'a> {
    plan: &'a Plan,
    how: &'a How,
    testbed: Testbed,
    bulk: Option<Bulk>,
    signals: &'a Signals,
    watcher: &'a mut dyn LoadWatcher,
    rows: usize,
}

impl Offering<'_> {
    /// Measures one path at one size at every rate.
    fn curve(&mut self, job: &Job, head: &mut Head, place: &mut Place, curve: &mut LoadCurve) -> Result<(), RowEnd> {
        let job = &hairpin_session::plan::emulating(job, self.plan.floor.as_ref())?;
        let rates = match (&self.how.schedule, &self.how.rates) {
            (Schedule::Replay(_), _) => job.open.iter().map(|open| open.per_s).collect(),
            (_, Rates::Listed(rates)) => rates.clone(),
            (_, Rates::Found) => {
                let saturation = self.saturation(job)?;
                curve.saturation_per_s = Some(saturation);
                TENTHS.map(|tenths| three_digits(saturation * f64::from(tenths) / 10.0)).collect()
            }
        };
        let several = rates.len() > 1;
        for per_s in rates {
            for repeat in 0.. {
                let open = job.open.clone().map(|open| OpenLoop { per_s, ..open });
                self.watcher.begins(job, Some(per_s));
                let (measured, bulk) = self.row(&Job { open, ..job.clone() })?;
                head.interrupted |= measured.interrupted;
                head.error = measured.client.error.clone().map(|error| format!("{} at {per_s}/s: {error}", job.spec));
                let (row, open) = self.join(job, place, measured);
                curve.origin = row.origin;
                let known = |granted: &&Granted| !curve.granted.contains(granted);
                let new: Vec<Granted> = row.granted.iter().filter(known).cloned().collect();
                curve.granted.extend(new);
                curve.rates.push(LoadRow { repeat, ..offered(job, per_s, row, open, bulk) });
                if head.interrupted || head.error.is_some() {
                    return Ok(());
                }
                if !(several && knee::again(&curve.rates)) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Transactions per second of a closed loop with as many requests in flight.
    fn saturation(&mut self, job: &Job) -> Result<f64, RowEnd> {
        self.watcher.begins(job, None);
        let duration = Some(job.duration.map_or(CLOSED, |duration| duration.min(CLOSED)));
        let (measured, _) = self.row(&Job { open: None, duration, count: None, ..job.clone() })?;
        let row = measured.client.row;
        match measured.client.error {
            _ if measured.interrupted => Err(RowEnd::Interrupted),
            Some(why) => Err(RunError::Row { path: row.path, why }.into()),
            None => Ok(row.transactions_per_s),
        }
    }

    fn row(&mut self, job: &Job) -> Result<(Measured, Option<BulkFacts>), RowEnd> {
        if let Some(bulk) = &mut self.bulk {
            bulk.go(self.how.bulk)?;
        }
        let measured = self.testbed.row(job, self.rows, self.signals, &mut NoWatcher);
        self.rows += 1;
        let carried = self.bulk.as_mut().map(Bulk::halt).transpose();
        Ok((measured?, carried?))
    }

    fn join(&self, job: &Job, place: &mut Place, mut measured: Measured) -> (Row, OpenFound) {
        let open = measured.client.open.take().map(|open| *open).unwrap_or_default();
        let around = RowContext { hosts: &place.hosts, one_host: self.testbed.server.is_here(), shown: &[Quantile::P50] };
        (row::join(job, measured.client, measured.server, &mut place.clock, around), open)
    }
}

/// Gives a job its schedule; the rates come later, except that of a recording.
fn schedule(job: &mut Job, how: &How) -> Result<(), RunError> {
    let per_s = match &how.rates {
        Rates::Listed(rates) => rates.first().copied().unwrap_or(0.0),
        Rates::Found => 1.0,
    };
    let of = |arrivals| OpenLoop { per_s, arrivals, smallest: job.request };
    job.open = Some(match &how.schedule {
        Schedule::Fixed => of(Arrivals::Fixed),
        Schedule::Poisson(seed) => of(Arrivals::Poisson { seed: *seed }),
        Schedule::Replay(file) => {
            // The working directory may be another one inside a mount namespace.
            let file = std::path::absolute(file)
                .map_err(|source| RunError::Row { path: job.spec.to_string(), why: source.to_string() })?;
            let recorded = replay::load(&file)?;
            let sizes = recorded.iter().map(|one| one.size);
            job.request = sizes.clone().max().unwrap_or(job.request);
            let smallest = sizes.min().unwrap_or(job.request);
            // A recording ends by itself.
            (job.duration, job.count) = (None, None);
            let per_s = replay::per_s(&recorded);
            OpenLoop { per_s, arrivals: Arrivals::Replay { file, arrivals: recorded.into() }, smallest }
        }
    });
    if how.fits_room {
        job.outstanding = job.outstanding.min(job.most_outstanding());
    }
    Ok(())
}

fn facts(schedule: &Schedule) -> ScheduleFacts {
    match schedule {
        Schedule::Fixed => ScheduleFacts { kind: "fixed".into(), ..ScheduleFacts::default() },
        Schedule::Poisson(seed) => ScheduleFacts { kind: "poisson".into(), seed: Some(*seed), file: None },
        Schedule::Replay(file) => ScheduleFacts { kind: "replay".into(), seed: None, file: Some(file.display().to_string()) },
    }
}

fn offered(job: &Job, per_s: f64, row: Row, open: OpenFound, bulk: Option<BulkFacts>) -> LoadRow {
    let watched = row.duration_ns * u64::from(row.threads);
    let (count, total_ns) = open.stalls;
    let share = if watched == 0 { 0.0 } else { total_ns as f64 / watched as f64 };
    let due = row.due.unwrap_or_default();
    LoadRow {
        offered_per_s: per_s,
        achieved_per_s: due.answered_per_s,
        due: due.requests,
        sent: open.sent,
        unsent: due.unsent,
        unanswered: due.unanswered,
        left_out: due.left_out,
        wall_ns: due.wall_ns,
        silences: row.silences,
        found_no_room: open.found_no_room,
        transactions: row.transactions,
        lost: row.lost,
        late: row.late,
        duplicates: row.duplicates,
        reordered: row.reordered,
        corrupt: row.corrupt,
        duration_ns: row.duration_ns,
        gap_ns: row.gap_ns,
        rtt_from_due_ns: row.rtt_from_due_ns.unwrap_or_default(),
        rtt_from_sent_ns: row.rtt_ns,
        lateness_ns: open.lateness_ns,
        lateness_undisturbed_ns: open.lateness_undisturbed_ns,
        histograms: LoadHistograms { rtt_from_sent: row.histogram, ..open.histograms },
        stalls: (job.spec.client.policy == Policy::Spin).then_some(StallFacts { count, total_ns, share }),
        bulk,
        cpu: row.cpu,
        warnings: row.warnings,
        repeat: 0,
    }
}

/// Rounds a rate to three digits, so that it is easy to read.
fn three_digits(per_s: f64) -> f64 {
    let unit = 10f64.powf(per_s.max(1e-9).log10().floor() - 2.0);
    // Rounded again, since a unit below 1 is not a binary fraction.
    ((per_s / unit).round() * unit * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_easy_to_read() {
        assert_eq!([123_456.0, 99_960.0, 1.2345, 0.012_345, 1e6].map(three_digits), [123_000.0, 100_000.0, 1.23, 0.0123, 1e6]);
    }
}
