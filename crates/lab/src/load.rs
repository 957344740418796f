//! Round trips against the rate at which requests are due: an open loop at one rate after the other, and the knee of the curve.
//!
//! ```text
//!   per path and size:   closed loop, if no rates are given ──▶ the path's highest rate
//!                        10 %, 20 % … 110 % of it, or the rates given, a row each ──▶ knee
//!                        a rate that fails is measured again, twice at most, up to the first that fails each time
//!   --bulk tcp:N         two more workers fill the link during every row
//!   --hw-stamps          after each rate, a row with stamps and one request in flight at the same rate
//! ```

mod knee;

use std::path::PathBuf;
use std::time::Duration;

use hairpin_plan::job::{Job, MOST_BYTES_IN_FLIGHT, MOST_IN_FLIGHT, NicStamps, Sides};
use hairpin_plan::replay;
use hairpin_plan::schedule::{Arrivals, OpenLoop};
use hairpin_record::core_states::{Apart, CODE, CoreStates};
use hairpin_record::head::{Head, Place, Record};
use hairpin_record::load::{BulkFacts, Load, LoadBody, LoadCurve, LoadHistograms, LoadRow, OpenFound, ScheduleFacts, StallFacts};
use hairpin_record::run::{Granted, Row};
use hairpin_record::split::Split;
use hairpin_record::warning::Note;
use hairpin_sys::clock::AnyClock;
use hairpin_sys::shared::Stamps;
use hairpin_sys::signal::Signals;
use hairpin_sys::wait::Policy;
use hairpin_units::{Arrange, Nanos, Quantile};

pub use self::knee::{ACHIEVED, FACTOR};
use crate::bulk::Bulk;
use crate::stamping;
use hairpin_session::error::RunError;
use hairpin_session::plan::{Plan, Target};
use hairpin_session::row::{self, RowContext};
use hairpin_session::rows;
use hairpin_session::side::SideError;
use hairpin_session::testbed::{Measured, RowEnd, Testbed};
use hairpin_session::watch::NoWatcher;
use hairpin_session::worker::choose_clock;

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
    /// The split of each rate, by stamps of the NICs, in a row of its own.
    pub stamps: Option<NicStamps>,
    /// Lowers the default room for requests in flight to the limits of each path and of all flows, since the user did not ask
    /// for it.
    pub fits_room: bool,
}

impl How {
    /// The rates of a row, and the closed loop before them if there is one.
    fn steps(&self) -> usize {
        match (&self.schedule, &self.rates) {
            (Schedule::Replay(_), _) => 1,
            (_, Rates::Listed(rates)) => rates.len(),
            (_, Rates::Found) => TENTHS.count() + 1,
        }
    }
}

/// The rates of a curve, in requests per second.
#[derive(Clone, Debug)]
pub enum Rates {
    Listed(Vec<f64>),
    /// Fractions of the rate of a closed loop.
    Found,
}

impl Rates {
    /// The number of rates of a row.
    fn count(&self) -> u64 {
        match self {
            Rates::Listed(rates) => rates.len() as u64,
            Rates::Found => TENTHS.count() as u64,
        }
    }

    /// The duration of each rate if `rows` rows, with the closed loops that find their rates, take `whole` together.
    pub fn share(&self, whole: Nanos, rows: usize) -> Nanos {
        let (row, count) = (whole.0 / rows.max(1) as u64, self.count().max(1));
        match self {
            Rates::Listed(_) => Nanos(row / count),
            // The closed loop takes as long as a rate, but no longer than its own limit.
            Rates::Found => Nanos((row / (count + 1)).max(row.saturating_sub(CLOSED.0) / count)),
        }
    }
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

/// A rate that is about to be offered, or the closed loop that finds the rates of a row.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    pub job: &'a Job,
    /// `None` for the closed loop.
    pub per_s: Option<f64>,
    /// How often it was offered before.
    pub repeat: u32,
    /// Its number among the rates and closed loops of all rows, from 0.
    pub index: usize,
    pub of: usize,
    /// The time until all are over, if none is measured again; `None` if it is not known.
    pub left: Option<Duration>,
}

/// Receives the progress, between rates.
pub trait LoadWatcher {
    /// A rate is about to be offered.
    fn begins(&mut self, _offer: &Offer<'_>) {}
    /// A rate was measured.
    fn ends(&mut self, _row: &LoadRow) {}
}

/// Offers every rate for every row of the plan. A row that fails part way ends the run: the record keeps the results so
/// far, with the error.
///
/// # Errors
/// The first row could not be measured.
pub fn run(mut plan: Plan, how: &How, signals: &Signals, watcher: &mut dyn LoadWatcher) -> Result<Load, RunError> {
    let most_bytes = if matches!(plan.target, Target::Host { .. }) { MOST_BYTES_IN_FLIGHT } else { u64::MAX };
    for job in &mut plan.rows {
        schedule(job, how)?;
        if how.fits_room {
            job.outstanding = job.outstanding.min(room(job, most_bytes));
        }
        if let Some(asked) = how.stamps {
            let bad = |source| RunError::Job { path: job.spec.to_string(), source };
            stamping::alone(job, asked).check(plan.ipv6).map_err(bad)?;
        }
    }
    hairpin_session::plan::check(&plan)?;
    if how.bulk > 0 && !matches!(plan.target, Target::Link(_)) {
        return Err(RunError::BulkElsewhere);
    }
    let head = rows::begin::<LoadBody>(&plan.command);
    let areas = how.stamps.map(|_| stamping::areas()).transpose()?;
    let mut testbed = Testbed::set_up(&plan, areas.as_ref())?;
    let place = testbed.place(&plan)?;
    let body = LoadBody { place, schedule: facts(&how.schedule), bulk_streams: how.bulk, results: Vec::new() };
    let mut load = Record { head, body };
    let bulk = (how.bulk > 0).then(|| Bulk::beside(&testbed, &plan.target)).transpose()?;
    let stamps = areas.as_ref().map(|areas| (areas, choose_clock().0));
    let mut offering = Offering { plan: &plan, how, testbed, bulk, stamps, signals, watcher, rows: 0, step: 0 };
    rows::rows(
        &plan,
        &mut load,
        |load| load.results.is_empty(),
        |Record { head, body }, index, job| {
            let mut curve = LoadCurve {
                path: job.spec.to_string(),
                request_bytes: job.request.into(),
                reply_bytes: job.reply.into(),
                flows: job.flows,
                threads: job.threads,
                outstanding: job.outstanding,
                ..LoadCurve::default()
            };
            offering.step = index * how.steps();
            let mut cores = Vec::new();
            let ended = offering.curve(job, head, &mut body.place, &mut curve, &mut cores);
            note_apart(&mut curve.rates, &cores);
            curve.knee = knee::find(whole(&curve.rates, head));
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
    stamps: Option<(&'a Sides<Stamps>, AnyClock)>,
    signals: &'a Signals,
    watcher: &'a mut dyn LoadWatcher,
    rows: usize,
    /// The number of the rate or closed loop among those of all rows.
    step: usize,
}

impl Offering<'_> {
    /// Measures one path at one size at every rate; `cores` has the blocks of each.
    fn curve(
        &mut self,
        job: &Job,
        head: &mut Head,
        place: &mut Place,
        curve: &mut LoadCurve,
        cores: &mut Vec<Row>,
    ) -> Result<(), RowEnd> {
        let job = &hairpin_session::plan::emulating(job, self.plan.floor.as_ref())?;
        let rates = match (&self.how.schedule, &self.how.rates) {
            (Schedule::Replay(_), _) => job.open.iter().map(|open| open.per_s).collect(),
            (_, Rates::Listed(rates)) => ascending(rates),
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
                self.begins(job, Some(per_s), repeat);
                let job = &Job { open, ..job.clone() };
                let (measured, bulk) = self.row(job)?;
                head.interrupted |= measured.interrupted;
                head.error = measured.client.error.clone().map(|error| format!("{} at {per_s}/s: {error}", job.spec));
                let (row, open) = self.join(job, place, measured);
                keep(curve, &row);
                cores.push(Row { blocks: row.blocks.clone(), cpu: row.cpu.clone(), ..Row::default() });
                let row = LoadRow { repeat, ..offered(job, per_s, row, open, bulk) };
                self.watcher.ends(&row);
                curve.rates.push(row);
                if head.interrupted || head.error.is_some() {
                    return Ok(());
                }
                if several && knee::again(&curve.rates) {
                    continue;
                }
                let split = self.split(job, place)?;
                if let Some(last) = curve.rates.last_mut() {
                    last.split = split;
                }
                break;
            }
            self.step += 1;
        }
        Ok(())
    }

    fn begins(&mut self, job: &Job, per_s: Option<f64>, repeat: u32) {
        let of = self.how.steps() * self.plan.rows.len();
        let left = of.saturating_sub(self.step) as u32;
        let warmup = Duration::from(job.warmup);
        let split = if self.stamps.is_some() { Duration::from(stamping::ALONE) + warmup } else { Duration::ZERO };
        let left = job.duration.map(|duration| (Duration::from(duration) + warmup + split) * left);
        self.watcher.begins(&Offer { job, per_s, repeat, index: self.step, of, left });
    }

    /// Transactions per second of a closed loop with the requests in flight of `job`.
    fn saturation(&mut self, job: &Job) -> Result<f64, RowEnd> {
        self.begins(job, None, 0);
        self.step += 1;
        let duration = Some(job.duration.map_or(CLOSED, |duration| duration.min(CLOSED)));
        let (measured, _) = self.row(&Job { open: None, duration, count: None, ..job.clone() })?;
        let row = measured.client.row;
        match measured.client.error {
            _ if measured.interrupted => Err(RowEnd::Interrupted),
            Some(why) => Err(RunError::Row { path: row.path, why }.into()),
            None => Ok(row.transactions_per_s),
        }
    }

    /// Starts the bulk streams before a row.
    fn go(&mut self) -> Result<(), SideError> {
        self.bulk.as_mut().map_or(Ok(()), |bulk| bulk.go(self.how.bulk))
    }

    fn row(&mut self, job: &Job) -> Result<(Measured, Option<BulkFacts>), RowEnd> {
        self.go()?;
        let measured = self.testbed.row(job, self.rows, self.signals, &mut NoWatcher);
        let carried = self.halt()?;
        Ok((measured?, carried))
    }

    /// Counts a row that is over, and stops the bulk streams.
    fn halt(&mut self) -> Result<Option<BulkFacts>, RunError> {
        self.rows += 1;
        self.bulk.as_mut().map(Bulk::halt).transpose()
    }

    /// The split at the rate of a job.
    fn split(&mut self, job: &Job, place: &Place) -> Result<Option<Box<Split>>, RowEnd> {
        let (Some(asked), Some(stamps)) = (self.how.stamps, self.stamps) else { return Ok(None) };
        self.go()?;
        let job = stamping::alone(job, asked);
        let at = (place, &self.plan.target);
        let split = stamping::split_of(&mut self.testbed, &job, self.rows, stamps, at, self.signals);
        self.halt()?;
        Ok(Some(split?))
    }

    fn join(&self, job: &Job, place: &mut Place, mut measured: Measured) -> (Row, OpenFound) {
        let open = measured.client.open.take().map(|open| *open).unwrap_or_default();
        let around = RowContext { hosts: &place.hosts, one_host: self.testbed.server.is_here(), shown: &[Quantile::P50] };
        (row::join(job, measured.client, measured.server, &mut place.clock, around), open)
    }
}

/// The rates that were measured to their end: all but the last of a run that ended early.
fn whole<'r>(rates: &'r [LoadRow], head: &Head) -> &'r [LoadRow] {
    let cut = head.interrupted || head.error.is_some();
    &rates[..rates.len().saturating_sub(usize::from(cut))]
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
    Ok(())
}

/// The largest number of requests in flight per flow that the path and the client take, and a server that takes `most_bytes`.
fn room(job: &Job, most_bytes: u64) -> u32 {
    let (flows, bytes) = (u64::from(job.flows.max(1)), u64::from(job.request.max(job.reply).max(1)));
    let each = MOST_IN_FLIGHT.min(most_bytes / bytes) / flows;
    job.most_outstanding().min(each.max(1) as u32)
}

fn facts(schedule: &Schedule) -> ScheduleFacts {
    match schedule {
        Schedule::Fixed => ScheduleFacts { kind: "fixed".into(), ..ScheduleFacts::default() },
        Schedule::Poisson(seed) => ScheduleFacts { kind: "poisson".into(), seed: Some(*seed), file: None },
        Schedule::Replay(file) => ScheduleFacts { kind: "replay".into(), seed: None, file: Some(file.display().to_string()) },
    }
}

/// Warns of the rates that were measured with the cores in another state than most: they are not comparable with the others.
fn note_apart(rates: &mut [LoadRow], cores: &[Row]) {
    let states = CoreStates::of(cores.iter().map(|row| ((), row)));
    for (at, rate) in rates.iter_mut().enumerate() {
        let note = |apart: Apart| Note { code: CODE.into(), message: apart.words() };
        rate.warnings.extend(states.apart(at).map(note));
    }
}

/// Keeps a rate's facts about its curve.
fn keep(curve: &mut LoadCurve, row: &Row) {
    curve.origin = row.origin;
    // Only the server knows the reply to a request of the user's own.
    curve.reply_bytes = row.reply_bytes;
    let known = |granted: &&Granted| !curve.granted.contains(granted);
    let new: Vec<Granted> = row.granted.iter().filter(known).cloned().collect();
    curve.granted.extend(new);
    if let Some(own) = &row.own_request {
        curve.own_request.get_or_insert_default().add(own);
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
        split: None,
        warnings: row.warnings,
        repeat: 0,
    }
}

/// The verdict on a rate, and whether it is measured again, rests on the lower ones, so these go first.
fn ascending(rates: &[f64]) -> Vec<f64> {
    let mut rates = rates.to_vec();
    rates.arrange_by(f64::total_cmp);
    rates
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
    use hairpin_record::run::{OwnRequest, Quantiles};

    #[test]
    fn listed_rates_are_offered_in_ascending_order() {
        assert_eq!(ascending(&[40e3, 10e3, 20e3]), [10e3, 20e3, 40e3]);
    }

    #[test]
    fn the_room_is_as_large_as_the_path_the_client_and_a_server_take() {
        let job = |flows, request| Job { flows, request, reply: 64, ..Job::new("tcp:epoll".parse().unwrap()) };
        let to_server = |flows, size| room(&job(flows, size), MOST_BYTES_IN_FLIGHT);
        assert_eq!([to_server(1, 64), to_server(1, 65_536), to_server(100, 65_536)], [65_536, 1024, 10]);
        assert_eq!([to_server(4_096, 64), to_server(4_096, 65_536), to_server(0, 64)], [16, 1, 65_536]);
        let here = |flows, size| room(&job(flows, size), u64::MAX);
        assert_eq!([here(1, 65_536), here(100, 65_536), here(4_096, 65_536)], [65_536, 655, 16]);
    }

    #[test]
    fn the_whole_duration_is_shared_by_the_rates_of_all_rows() {
        let share = |rates: &Rates, seconds, rows| rates.share(Nanos::from_secs(seconds), rows).as_secs_f64();
        assert_eq!(share(&Rates::Listed(vec![1.0, 2.0, 3.0]), 12, 2), 2.0);
        let closed_and_all = |each: f64| each.min(1.0) + 11.0 * each;
        for (seconds, rows, each) in [(24, 2, 1.0), (6, 1, 0.5), (46, 2, 2.0)] {
            assert_eq!(share(&Rates::Found, seconds, rows), each, "{seconds} s");
            assert_eq!(closed_and_all(each) * rows as f64, seconds as f64);
        }
        assert_eq!(Rates::Found.share(Nanos::ZERO, 0), Nanos::ZERO);
    }

    #[test]
    fn a_rate_that_failed_or_was_interrupted_has_no_part_in_the_knee() {
        let row = |offered_per_s, transactions| LoadRow {
            offered_per_s,
            due: 1_000,
            transactions,
            rtt_from_due_ns: Quantiles { p99: Some(10_000), ..Quantiles::default() },
            ..LoadRow::default()
        };
        let ends = [
            Head::default(),
            Head { interrupted: true, ..Head::default() },
            Head { error: Some("the server is gone".into()), ..Head::default() },
        ];
        let found = |last: u64, head: &Head| {
            let knee = knee::find(whole(&[row(100.0, 1_000), row(200.0, 1_000), row(300.0, last)], head)).unwrap();
            (knee.keeps_up_per_s, knee.beyond_per_s)
        };
        for last in [1_000, 100] {
            assert_ne!(found(last, &ends[0]), (Some(200.0), None));
            assert_eq!(found(last, &ends[1]), (Some(200.0), None));
            assert_eq!(found(last, &ends[2]), (Some(200.0), None));
        }
        assert!(whole(&[], &ends[1]).is_empty());
    }

    #[test]
    fn replies_at_all_rates_are_counted_together() {
        let row = |replies, errors| {
            let own = OwnRequest { replies, errors, ..OwnRequest::default() };
            Row { reply_bytes: 5, own_request: Some(Box::new(own)), ..Row::default() }
        };
        let mut curve = LoadCurve::default();
        keep(&mut curve, &Row::default());
        assert_eq!(curve.own_request, None, "of Hairpin's own requests");
        [row(10, 1), row(20, 2)].iter().for_each(|row| keep(&mut curve, row));
        let own = curve.own_request.unwrap();
        assert_eq!((own.replies, own.errors, curve.reply_bytes), (30, 3, 5));
    }

    #[test]
    fn rates_are_easy_to_read() {
        assert_eq!([123_456.0, 99_960.0, 1.2345, 0.012_345, 1e6].map(three_digits), [123_000.0, 100_000.0, 1.23, 0.0123, 1e6]);
    }
}
