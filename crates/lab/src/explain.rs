//! `hairpin explain`: measures a path in blocks with and without hooks in turn, and shows where the time of its round trips went.
//!
//! ```text
//!   phase      bare │ stages │ events │ bare │ stages │ events │ …      of blocks of 4,096 transactions at most
//!                no hooks: the headline
//!                       └ hooks that stamp: stages, observer, residual
//!                                └ and hooks for events on the cores: causes, timelines
//!   block      the flow runs, and nothing reads
//!   between    the client waits ─▶ records and stamps are taken out and joined ─▶ hooks on or off if the phase is over ─▶ go
//! ```

mod hooked;
mod meanwhile;

use std::cell::LazyCell;
use std::thread;
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, NicStamps, Sides};
use hairpin_plan::path::{self, Path, Speaks};
use hairpin_record::explain::{Explain, ExplainBody, Explained};
use hairpin_record::head::Record;
use hairpin_record::histogram::Times;
use hairpin_record::paired;
use hairpin_record::progress::Progress;
use hairpin_sys::clock::{AnyClock, Clock, Relation, Ticks};
use hairpin_sys::shared::Stamps;
use hairpin_sys::signal::Signals;
use hairpin_trace::cost;
use hairpin_trace::detectors::Paced;
use hairpin_trace::fold::Fold;
use hairpin_trace::halves;
use hairpin_trace::join::{self, Drift, Span};
use hairpin_trace::moment::{HOOKS, Hook, Moment, Route};
use hairpin_trace::packets;
use hairpin_trace::tracer::Tracer;
use hairpin_units::{Arrange, Nanos};

pub(crate) use self::hooked::{Cores, Hooked};
use crate::experiment::stands::cpus;
use crate::stamping;
use hairpin_session::channel::Channel;
use hairpin_session::error::RunError;
use hairpin_session::plan::{Plan, Target};
use hairpin_session::rows;
use hairpin_session::serve::hooks::STAMPED_WITHIN;
use hairpin_session::testbed::{RowEnd, Testbed};
use hairpin_session::watch::{NoWatcher, Told, Turn, Wants, Watcher};
use hairpin_session::worker::choose_clock;

/// Least time of a phase without hooks, and of a pair of phases, one for stages and one for events.
const PHASE: Duration = Duration::from_millis(250);
/// The confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// Most transactions that are kept, some 100 bytes each.
const MOST: usize = 1_000_000;
/// The message for a run without a session.
pub(crate) const NO_SESSION: &str =
    "it takes a HOST on which hairpin serve runs, loopback or veth: an echo service or a reflector leaves no stamps";
/// Time for which a paced path is also run flat out, before and after.
const CLOSED: Nanos = Nanos::from_millis(150);

/// Options of `explain` beyond those of a ping.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Use four hooks in each direction instead of all.
    pub light: bool,
    /// Hooks to leave out.
    pub without: Vec<&'static Hook>,
    /// Number of slowest transactions to show event by event.
    pub timelines: usize,
}

impl How {
    /// The hooks of a row, in which a side `sleeps` or both spin.
    fn hooks(&self, route: Route, sleeps: bool) -> Vec<&'static Hook> {
        let is_light = |hook: &Hook| match hook.moment {
            // Without the hooks before it, a switch to a thread that spins would look like its waking.
            Moment::Switched => sleeps,
            // A frame past the queue is first seen on the receiver's device, or by the XDP program in its driver.
            _ => hook.light || (is_direct(route) && begins(route, hook)),
        };
        HOOKS.iter().filter(|hook| (!self.light || is_light(hook)) && !self.without.contains(hook)).collect()
    }

    /// Refuses to leave out every hook at which a message's way begins.
    fn check(&self, route: Route, job: &Job) -> Result<(), RunError> {
        if route == Route::Memory || self.hooks(route, true).into_iter().any(|hook| begins(route, hook)) {
            return Ok(());
        }
        let names: Vec<&str> = HOOKS.iter().filter(|hook| begins(route, hook)).map(|hook| hook.name).collect();
        let why = format!("no message can be followed without {}: leave a --without out", names.join(" and "));
        Err(RunError::Unsupported { path: job.spec.to_string(), why })
    }
}

fn is_direct(route: Route) -> bool {
    matches!(route, Route::Packet | Route::Xdp)
}

/// True for a hook at which a record of a message's way may begin.
fn begins(route: Route, hook: &Hook) -> bool {
    match is_direct(route) {
        true => matches!(hook.moment, Moment::Passed | Moment::Redirected),
        false => matches!(hook.moment, Moment::Queued | Moment::Started),
    }
}

/// Explains every row of the plan.
///
/// # Errors
/// The errors of a ping. Hooks that cannot be attached are not an error, but noted in the record.
pub fn run(plan: &Plan, how: &How, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Explain, RunError> {
    explain(plan, how, None, signals, watcher)
}

/// As [`run`], over a session that is open to the plan's target, without the row of stamps.
///
/// # Errors
/// As [`run`].
pub fn run_over(plan: &Plan, how: &How, channel: Channel, signals: &Signals) -> Result<Explain, RunError> {
    explain(plan, how, Some(channel), signals, &mut NoWatcher)
}

/// Whether the stages of a job to another host can be measured.
///
/// # Errors
/// Why not.
pub fn check_remote(job: &Job) -> Result<(), RunError> {
    in_phases(job, true).map(drop)
}

fn explain(
    plan: &Plan,
    how: &How,
    channel: Option<Channel>,
    signals: &Signals,
    watcher: &mut dyn Watcher,
) -> Result<Explain, RunError> {
    let remote = match plan.target {
        Target::Link(_) => false,
        Target::Host { .. } => true,
        Target::Echo { .. } | Target::Socket(_) | Target::Reflector(_) => {
            return Err(RunError::Unsupported { path: "explain".into(), why: NO_SESSION.into() });
        }
    };
    for job in &plan.rows {
        how.check(in_phases(job, remote)?, job)?;
    }
    hairpin_session::plan::check(plan)?;
    let head = rows::begin::<ExplainBody>(&plan.command);
    let stamps = stamping::areas()?;
    let splits = remote && channel.is_none();
    let mut testbed = match channel {
        Some(channel) => Testbed::over(channel, Some(&stamps), plan.stack.as_ref())?,
        None => Testbed::set_up(plan, Some(&stamps))?,
    };
    let place = testbed.place(plan)?;
    let mut found = Record { head, body: ExplainBody { place, missing: Vec::new(), results: Vec::new() } };
    let clock = choose_clock().0;
    let no_hooks = LazyCell::new(|| Tracer::probe().is_err());
    rows::rows(
        plan,
        &mut found,
        |found| found.results.is_empty(),
        |Record { head, body }, index, job| {
            let route = route_of(job, remote).unwrap_or(Route::Memory);
            let socket_stamps = route == Route::Sockets && job.spec.client.speaks() == Speaks::Udp && *no_hooks;
            let job = &Job { traced: true, socket_stamps, ..hairpin_session::plan::emulating(job, plan.floor.as_ref())? };
            watcher.begins(index, plan.rows.len(), job);
            let before = flat_out(&mut testbed, job, index, signals)?;
            let mut tracing = Tracing::new(job, route, how, &stamps, clock, watcher);
            let measured = testbed.row(job, index, signals, &mut tracing)?;
            tracing.unhook();
            let row = testbed.joined(plan, job, measured, head, &mut body.place);
            let whole = !head.interrupted && head.error.is_none();
            let after = if whole && before.is_some() { flat_out(&mut testbed, job, index, signals) } else { Ok(None) };
            let (after, ended) = after.map_or_else(|end| (None, Err(end)), |after| (after, Ok(())));
            let slower = |a: Paced, b: Paced| Paced { closed_p50_ns: a.closed_p50_ns.max(b.closed_p50_ns), ..a };
            let paced = before.zip(after).map(|(before, after)| slower(before, after));
            tracing.hooked.missing.retain(|missing| !body.missing.contains(missing));
            body.missing.append(&mut tracing.hooked.missing);
            let mut explained = Explained {
                cpus: cpus(&row),
                path: row.path,
                origin: row.origin,
                request_bytes: row.request_bytes,
                reply_bytes: row.reply_bytes,
                granted: row.granted,
                floor: row.floor,
                warnings: row.warnings,
                ..Explained::default()
            };
            tracing.finish(paced, &mut explained);
            body.results.push(explained);
            // If the second flat-out run or the split ends early, the record keeps the stages.
            ended?;
            if splits && whole {
                let job = stamping::alone(job, NicStamps::default());
                if job.check(false).is_ok() {
                    let at = (&body.place, &plan.target);
                    let split = stamping::split_of(&mut testbed, &job, index, (&stamps, clock), at, signals)?;
                    if let Some(explained) = body.results.last_mut() {
                        explained.split = Some(split);
                    }
                }
            }
            Ok(())
        },
    )?;
    Ok(found)
}

/// The pace of a path, and its p50 when run flat out: before the paced run and after it, so that a change of the host's state in
/// between is not taken for the penalty of a low rate.
///
/// # Errors
/// The run was interrupted, or failed.
fn flat_out(testbed: &mut Testbed, job: &Job, index: usize, signals: &Signals) -> Result<Option<Paced>, RowEnd> {
    let Some(per_s) = job.pace else { return Ok(None) };
    let warmup = Nanos::from_millis(50);
    let closed =
        Job { pace: None, duration: Some(CLOSED), count: None, warmup, traced: false, socket_stamps: false, ..job.clone() };
    let client = testbed.row(&closed, index, signals, &mut NoWatcher)?.whole()?;
    Ok(client.row.rtt_ns.p50.map(|closed_p50_ns| Paced { per_s, closed_p50_ns }))
}

/// The route of a job's messages, if the job lasts long enough for phases with and without hooks.
fn in_phases(job: &Job, remote: bool) -> Result<Route, RunError> {
    let route = match job.count.is_some() || job.duration.is_some_and(|duration| Duration::from(duration) < 2 * PHASE) {
        true => {
            Err("explain measures with and without hooks in turn: give it a --duration of 0.5 s or more, and no --count".into())
        }
        false => route_of(job, remote),
    };
    route.map_err(|why| RunError::Unsupported { path: job.spec.to_string(), why })
}

/// The route of a job's messages through the kernel.
pub(crate) fn route_of(job: &Job, remote: bool) -> Result<Route, String> {
    if (job.flows, job.threads, job.outstanding) != (1, 1, 1) {
        return Err("explain follows one request at a time: leave out --flows, --threads and --outstanding".into());
    }
    job.check_matched("explain").map_err(|refused| refused.to_string())?;
    let of = |path: &Path| match path.route {
        path::Route::Uring if !remote => Ok(Route::Uring),
        path::Route::Sockets | path::Route::Uring if path.speaks != Speaks::TcpPerTransaction => {
            Ok(if remote { Route::Remote } else { Route::Sockets })
        }
        _ if remote => {
            Err("to another host explain follows tcp, udp, uring-tcp and uring-udp; its stages of other paths are those of veth"
                .into())
        }
        path::Route::PacketRing => Ok(Route::Packet),
        path::Route::XdpRing => Ok(Route::Xdp),
        path::Route::Memory { .. } => Ok(Route::Memory),
        path::Route::Sockets | path::Route::Uring | path::Route::Channel => {
            let name = path.name;
            Err(format!("explain knows no stages of {name}; `hairpin paths` says of which paths it does"))
        }
    };
    let (client, server) = (of(job.spec.client.path)?, of(job.spec.server.path)?);
    match (client, server) {
        _ if client == server => Ok(client),
        // The time in io_uring is then part of the stages beside it.
        (Route::Uring, Route::Sockets) | (Route::Sockets, Route::Uring) => Ok(Route::Sockets),
        _ => Err("explain takes the same path on both sides".into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No hooks.
    Bare,
    /// The hooks that stamp, or only the programs' own stamps if no hook is available.
    Stages,
    /// The same, and the hooks that record events on the cores. Their cost belongs to no stage.
    Events,
}

/// The tracing of one row.
struct Tracing<'a> {
    watcher: &'a mut dyn Watcher,
    stamps: &'a Sides<Stamps>,
    clock: AnyClock,
    how: &'a How,
    /// One of the sides sleeps while waiting.
    sleeps: bool,
    /// Requests are sent on a schedule.
    is_paced: bool,
    hooked: Hooked<'a>,
    fold: Fold,
    untraced: Times,
    phase: Phase,
    /// RTTs of the current phase; then, of each earlier bare or stages phase, its kind and median.
    rtts: Vec<u64>,
    medians: Vec<(Phase, f64)>,
    since: Instant,
    before: Option<Relation>,
    /// Start of the first traced block.
    first: Option<Ticks>,
    drift: Drift,
    seen: Sides<u64>,
    unmatched: u64,
    lost: u64,
    blocks: u64,
    rejected: u64,
}

impl<'a> Tracing<'a> {
    fn new(
        job: &Job,
        route: Route,
        how: &'a How,
        stamps: &'a Sides<Stamps>,
        clock: AnyClock,
        watcher: &'a mut dyn Watcher,
    ) -> Tracing<'a> {
        Tracing {
            watcher,
            stamps,
            clock,
            how,
            sleeps: [&job.spec.client, &job.spec.server].iter().any(|side| side.policy.sleeps()),
            is_paced: job.pace.is_some(),
            hooked: Hooked::new(job, route, stamps),
            fold: Fold::new(route, Vec::new()),
            untraced: Times::new(),
            phase: Phase::Bare,
            rtts: Vec::new(),
            medians: Vec::new(),
            since: Instant::now(),
            before: None,
            first: None,
            drift: Drift::default(),
            seen: Sides { client: stamps.client.count(), server: stamps.server.count() },
            unmatched: 0,
            lost: 0,
            blocks: 0,
            rejected: 0,
        }
    }

    fn load(&mut self) {
        self.hooked.load(self.how.hooks(self.hooked.route, self.sleeps), if self.how.light { Cores::None } else { Cores::Whole });
        self.fold = Fold::new(self.hooked.route, self.hooked.absent.clone());
    }

    fn is_traced(&self) -> bool {
        self.phase != Phase::Bare
    }

    /// Least duration of the current phase.
    fn length(&self) -> Duration {
        if self.is_traced() && self.hooked.meanwhile.is_loaded() { PHASE / 2 } else { PHASE }
    }

    /// Switches to the next phase. Once the limit of kept transactions is reached, all phases are bare.
    fn turn(&mut self) -> Result<(), String> {
        self.rtts.sort_unstable();
        // A path paced below one request per phase has phases without a round trip.
        if let (Phase::Bare | Phase::Stages, Some(ns)) = (self.phase, self.rtts.get(self.rtts.len() / 2)) {
            self.medians.push((self.phase, *ns as f64));
        }
        self.rtts.clear();
        let was = self.is_traced();
        self.phase = match self.phase {
            Phase::Bare if self.fold.len() < MOST => Phase::Stages,
            Phase::Stages if self.hooked.meanwhile.is_loaded() => Phase::Events,
            Phase::Bare | Phase::Stages | Phase::Events => Phase::Bare,
        };
        let traced = self.is_traced();
        if let Some(tracer) = self.hooked.tracer.as_mut().filter(|_| was != traced) {
            tracer.detach();
            if traced {
                tracer.attach().map_err(|error| error.to_string())?;
            }
        }
        self.hooked.want_packets(traced);
        self.hooked.meanwhile.turn(self.phase == Phase::Events).map_err(|error| error.to_string())?;
        self.since = Instant::now();
        Ok(())
    }

    /// The cost of a hook hit, and how it was found. A path that sleeps cannot show a tenth of a microsecond.
    fn hook_ns(&self) -> Option<f64> {
        self.hooked.tracer.as_ref()?;
        if self.sleeps { cost::hit_ns(self.how.hooks(self.hooked.route, self.sleeps)).ok().flatten() } else { self.slower_ns() }
    }

    /// The slowdown of phases with hooks against the bare phases beside them, per hook that a transaction passed.
    fn slower_ns(&self) -> Option<f64> {
        let mut more: Vec<f64> = Vec::new();
        for phases in self.medians.windows(3) {
            if let [(Phase::Bare, before), (Phase::Stages, with), (Phase::Bare, after)] = phases {
                more.push(with - (before + after) / 2.0);
            }
        }
        if let ([(Phase::Bare, before), (Phase::Stages, with), ..], true) = (&self.medians[..], more.is_empty()) {
            more.push(with - before);
        }
        more.arrange_by(f64::total_cmp);
        let more = more.get(more.len() / 2)?;
        Some((more / self.fold.hooks_per_transaction().max(1.0)).max(0.0))
    }

    /// The interval of `ns`, a median without hooks. Its ends, as ratios to `ns`, are those of the typical median of a bare
    /// phase.
    fn ends(&self, ns: u64) -> Option<[u64; 2]> {
        let bare = self.medians.iter().filter(|(phase, ns)| *phase == Phase::Bare && *ns > 0.0);
        let found = paired::shift(&bare.map(|(_, ns)| ns.ln()).collect::<Vec<_>>(), CONFIDENCE)?;
        let [low, high] = [found.low, found.high].map(|end| ns as f64 * (end - found.typical).exp());
        (found.low.is_finite() && high.is_finite()).then_some([low.floor() as u64, high.ceil() as u64])
    }

    fn unhook(&mut self) {
        if let Some(tracer) = &mut self.hooked.tracer {
            tracer.detach();
        }
        self.hooked.meanwhile.detach();
        self.hooked.want_packets(false);
    }

    fn finish(self, paced: Option<Paced>, into: &mut Explained) {
        let hook_ns = self.hook_ns();
        self.fold.finish(hook_ns.unwrap_or(0.0), into);
        into.untraced_rtt_ns = self.untraced.quantiles();
        into.untraced_p50_ends_ns = into.untraced_rtt_ns.p50.and_then(|ns| self.ends(ns));
        into.hook_ns = hook_ns;
        into.unmatched = self.unmatched;
        into.lost_events = self.lost;
        into.blocks = self.blocks;
        into.blocks_rejected = self.rejected;
        self.hooked.meanwhile.finish(&self.fold.typical(), self.how.timelines, paced, into);
    }
}

impl Watcher for Tracing<'_> {
    fn ready(&mut self) -> Result<(), String> {
        self.watcher.ready()?;
        self.load();
        self.since = Instant::now();
        self.before = Some(self.clock.relation());
        Ok(())
    }

    fn draws(&self) -> bool {
        self.watcher.draws()
    }

    fn progress(&mut self, progress: &Progress) {
        // Blocks with hooks and those without are two distributions: the figures are those without.
        let rtt_ns = self.untraced.quantiles();
        let transactions_per_s = match rtt_ns.mean.filter(|mean| *mean > 0.0) {
            // The schedule makes the rate, with hooks and without.
            _ if self.is_paced => progress.transactions_per_s,
            Some(mean) => 1e9 / mean,
            None => 0.0,
        };
        self.watcher.progress(&Progress { rtt_ns, transactions_per_s, ..progress.clone() });
    }

    fn wants(&self) -> Wants {
        if self.hooked.route == Route::Remote && self.is_traced() { Wants::Halves } else { Wants::Nothing }
    }

    fn block(&mut self, told: Told) -> Result<Option<Turn>, String> {
        thread::sleep(STAMPED_WITHIN);
        let after = self.clock.relation();
        let (client, seen) = self.stamps.client.since(self.seen.client);
        self.seen.client = seen;
        let (server, seen) = self.stamps.server.since(self.seen.server);
        self.seen.server = seen;
        let client = &client[join::settling(client.len())..];
        let rtts: Vec<u64> = client.iter().map(|stamp| self.clock.to_ns(stamp.second.since(stamp.first))).collect();
        self.rtts.extend(&rtts);
        if self.is_traced() {
            let taken = self.hooked.tracer.as_mut().map(Tracer::take);
            let happened = self.hooked.meanwhile.take();
            if let Some(before) = self.before {
                let first = *self.first.get_or_insert(before.ticks);
                let span = Span::new(before, after, self.clock.rate());
                let rings = self.hooked.rings();
                let packets =
                    self.hooked.socket_stamps.then(|| packets::records(&rings.client, &rings.server, &before, &after)).flatten();
                if !self.drift.agrees(&span) || (self.hooked.socket_stamps && packets.is_none()) {
                    self.rejected += 1;
                    self.hooked.meanwhile.pass(&happened);
                } else {
                    let records = taken.as_ref().map(|taken| &taken.records[..]).or(packets.as_deref());
                    let joined = match self.hooked.route {
                        Route::Remote => {
                            let halves = if let Told::Halves(halves) = told { halves } else { Vec::new() };
                            halves::join(client, &halves, records.unwrap_or_default(), &span)
                        }
                        _ => join::join(client, &server, records, &rings, &span),
                    };
                    let at_ns = self.clock.to_ns(before.ticks.since(first));
                    match self.phase {
                        Phase::Events => self.hooked.meanwhile.add(&joined.transactions, &happened, &span, at_ns),
                        Phase::Stages | Phase::Bare => joined.transactions.iter().for_each(|one| self.fold.add(one)),
                    }
                    self.unmatched += joined.unmatched;
                    self.blocks += 1;
                }
            }
            self.lost += taken.map_or(0, |taken| taken.lost) + happened.lost;
        } else {
            rtts.iter().for_each(|rtt| self.untraced.record(*rtt));
        }
        let was = self.is_traced();
        if self.since.elapsed() >= self.length() {
            self.turn()?;
        }
        self.before = Some(self.clock.relation());
        let turn = || Turn::Hooks(if self.is_traced() { self.how.hooks(self.hooked.route, self.sleeps) } else { Vec::new() });
        Ok((was != self.is_traced()).then(turn))
    }
}

#[cfg(test)]
mod tests {
    use hairpin_sys::clock::MonotonicRaw;

    use super::*;

    /// Keeps the transaction rate that it was shown last.
    struct Shown(f64);

    impl Watcher for Shown {
        fn progress(&mut self, progress: &Progress) {
            self.0 = progress.transactions_per_s;
        }
    }

    #[test]
    fn progress_shows_the_rate_of_a_schedule_or_that_of_blocks_without_hooks() {
        let (stamps, how) = (stamping::areas().expect("areas"), How::default());
        for (pace, rate) in [(Some(1_000.0), 999.0), (None, 50_000.0)] {
            let job = Job { pace, ..Job::new("udp".parse().expect("a spec")) };
            let mut shown = Shown(0.0);
            let mut tracing = Tracing::new(&job, Route::Sockets, &how, &stamps, AnyClock::Raw(MonotonicRaw), &mut shown);
            tracing.untraced.record(20_000);
            tracing.progress(&Progress { transactions_per_s: 999.0, ..Progress::default() });
            drop(tracing);
            assert_eq!(shown.0, rate);
        }
    }
}
