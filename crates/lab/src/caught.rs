//! Caught in the act: the round trips of a ping above a limit, each explained by the events that hooks saw.
//!
//! ```text
//!   block     the flow runs; hooks stamp it and watch its cores, in buffers of a fixed size            nobody reads
//!   between   the client's own RTTs against the limit ─▶ none above: the buffers are emptied unread
//!                                                     └▶ some: joined, explained as `explain` does ─▶ lines of the file, counts
//! ```
//! Memory does not grow with the run: one histogram, the typical stages, counts by cause, the three slowest.

mod above;
mod lines;
mod tally;
mod usual;

use std::cmp::Reverse;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hairpin_plan::job::{Job, Sides};
use hairpin_record::explain::{Cause, Missing, Timeline};
use hairpin_record::head::Body;
use hairpin_record::incident::{Incident, Incidents};
use hairpin_record::progress::Progress;
use hairpin_record::run::Row;
use hairpin_session::error::RunError;
use hairpin_session::plan::{Plan, Target};
use hairpin_session::serve::hooks::STAMPED_WITHIN;
use hairpin_session::time::rfc3339;
use hairpin_session::watch::{Told, Turn, Wants, Watcher};
use hairpin_sys::allocator;
use hairpin_sys::clock::{AnyClock, Clock, Relation, Ticks};
use hairpin_sys::host::RealHost;
use hairpin_sys::shared::{Stamp, Stamps};
use hairpin_trace::causes::{Part, Typical};
use hairpin_trace::halves;
use hairpin_trace::join::{self, Span, Transaction};
use hairpin_trace::moment::{HOOKS, Hook, Moment, Route};
use hairpin_trace::names::Names;
use hairpin_trace::tracer::Tracer;
use hairpin_units::{Arrange, Nanos};

pub use self::above::Above;
use self::above::Limit;
use self::lines::Lines;
use self::tally::Tally;
use self::usual::Usual;
use crate::explain::{Cores, Hooked, NO_SESSION, route_of};

/// Most incidents of a block that are explained and have lines, the slowest first: a limit below the usual RTT makes an incident
/// of every round trip.
const AT_ONCE: usize = 64;
/// Longest wait for the stamps of a server that has no CPU.
const LATE: Duration = Duration::from_millis(100);
/// The cause of an incident that is not explained.
const UNEXPLAINED: &str = "not explained";
/// The cause of an incident beyond the [`AT_ONCE`] slowest of its block, though hooks saw it.
const PASSED_OVER: &str = "not looked at";

/// The limit, and the file of incidents.
#[derive(Debug)]
pub struct Catch {
    above: Above,
    lines: Lines,
}

impl Catch {
    /// Opens the file: at most `most_bytes` long, with at most `most_per_s` lines of a second.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn open(above: Above, file: &Path, most_bytes: u64, most_per_s: u32) -> Result<Catch, String> {
        Lines::open(file, most_bytes, most_per_s).map(|lines| Catch { above, lines })
    }
}

/// Checks whether the incidents of a plan can be explained.
pub(crate) fn check(plan: &Plan) -> Result<(), RunError> {
    if matches!(plan.target, Target::Echo { .. } | Target::Socket(_) | Target::Reflector(_)) {
        return Err(RunError::Unsupported { path: "--explain-above".into(), why: NO_SESSION.into() });
    }
    let route = |job| route_of(job, matches!(plan.target, Target::Host { .. }));
    plan.rows.iter().try_for_each(|job| match route(job) {
        Ok(_) => Ok(()),
        Err(why) => Err(RunError::Unsupported { path: job.spec.to_string(), why }),
    })
}

/// The fewest stamping hooks that tell the two sides apart, which leaves time for the hooks on the cores: one in the sender's
/// call, and one before a sleeping receiver is woken. A receiver that spins has its CPU all the time, or an event names who has
/// it. A frame past the stack is stamped first on the receiver's device, and last in the receiver's ring.
fn hooks(route: Route, sleeps: bool) -> Vec<&'static Hook> {
    let is_direct = matches!(route, Route::Packet | Route::Xdp);
    let takes = |moment| match moment {
        Moment::Started => !is_direct,
        Moment::Passed => is_direct,
        Moment::Redirected => route == Route::Xdp,
        Moment::Ready => sleeps || is_direct,
        // There the time outside of this host ends.
        Moment::Received => route == Route::Remote,
        _ => false,
    };
    HOOKS.iter().filter(|hook| takes(hook.moment)).collect()
}

/// The incidents of one row; passes everything else on to a watcher.
pub(crate) struct Caught<'a> {
    watcher: &'a mut dyn Watcher,
    clock: AnyClock,
    lines: &'a mut Lines,
    hooked: Hooked<'a>,
    sleeps: bool,
    /// The hooks are on: from the second block on, so that the warm-up is in no buffer.
    on: bool,
    path: String,
    peer: String,
    above: Above,
    limit: Limit,
    usual: Usual,
    names: Names,
    tally: Tally,
    count: u64,
    /// The lines of earlier rows.
    earlier: lines::Counts,
    /// Events and stamps that found no room, of the blocks that were read.
    lost: u64,
    seen: Sides<u64>,
    before: Option<Relation>,
    /// Start of the first block.
    first: Ticks,
}

impl<'a> Caught<'a> {
    pub(crate) fn new(
        catch: &'a mut Catch,
        job: &Job,
        target: &Target,
        (stamps, clock): (&'a Sides<Stamps>, AnyClock),
        watcher: &'a mut dyn Watcher,
    ) -> Caught<'a> {
        let route = route_of(job, matches!(target, Target::Host { .. })).unwrap_or(Route::Memory);
        let hooked = Hooked::new(job, route, stamps);
        Caught {
            watcher,
            clock,
            earlier: catch.lines.counts,
            lines: &mut catch.lines,
            sleeps: [&job.spec.client, &job.spec.server].iter().any(|side| side.policy.sleeps()),
            on: false,
            path: job.spec.to_string(),
            peer: target.label(),
            above: catch.above,
            limit: Limit::new(catch.above),
            usual: Usual::new(route, Vec::new()),
            names: Names::read(&RealHost, &hooked.meanwhile.cpus()),
            tally: Tally::default(),
            count: 0,
            lost: 0,
            seen: Sides { client: stamps.client.count(), server: stamps.server.count() },
            before: None,
            first: Ticks::default(),
            hooked,
        }
    }

    fn load(&mut self) {
        self.hooked.load(hooks(self.hooked.route, self.sleeps), Cores::Light);
        // The hooks on the cores tell when a receiver that slept got its CPU.
        self.hooked.absent.retain(|moment| *moment != Moment::Switched || !self.hooked.meanwhile.is_loaded());
        self.usual = Usual::new(self.hooked.route, self.hooked.absent.clone());
        if let Some(missing) = self.hooked.without_events() {
            let (place, stamps) = match missing.hook == Missing::ALL {
                true => ("in the kernel", "the programs' own stamps: which way took the time"),
                false => ("on the cores", "its stamps: which stage took the time"),
            };
            self.watcher.say(format!("no hooks {place}: {}; an incident is told by {stamps}, and not why", missing.why));
        }
    }

    /// Switches the hooks on.
    fn attach(&mut self) -> Result<(), String> {
        if let Some(tracer) = &mut self.hooked.tracer {
            tracer.attach().map_err(|error| error.to_string())?;
        }
        self.hooked.want_packets(true);
        self.hooked.meanwhile.turn(true).map_err(|error| error.to_string())
    }

    /// Empties all buffers unread.
    fn pass(&mut self) {
        self.seen.server = self.hooked.stamps.server.count();
        if let Some(tracer) = &mut self.hooked.tracer {
            tracer.clear();
        }
        self.hooked.meanwhile.clear();
        self.hooked.pass_rings();
    }

    /// Looks at a block with slow round trips, or at one whose typical ones are wanted.
    fn look(&mut self, block: &[Stamp], slow: &[Stamp], above_ns: u64, told: Told) {
        let server = self.servers(slow.last());
        let (after, now) = (self.clock.relation(), SystemTime::now());
        let taken = self.hooked.tracer.as_mut().map(Tracer::take);
        let happened = self.hooked.meanwhile.take();
        let rings = self.hooked.rings();
        self.lost += taken.as_ref().map_or(0, |taken| taken.lost) + happened.lost;
        let Some(before) = self.before else { return };
        let span = Span::new(before, after, self.clock.rate());
        // A block whose stamps cannot be placed explains nothing.
        let is_seen = self.on && span.is_steady();
        let records = taken.as_ref().map(|taken| &taken.records[..]);
        let halves = if let Told::Halves(halves) = told { halves } else { Vec::new() };
        let joined = |stamps: &[Stamp]| {
            let mut all = match self.hooked.route {
                Route::Remote => halves::join(stamps, &halves, records.unwrap_or_default(), &span).transactions,
                _ => join::join(stamps, &server, records, &rings, &span).transactions,
            };
            self.hooked.meanwhile.add_switches(&mut all, &happened, &span);
            all
        };
        if is_seen && self.usual.wants() {
            self.usual.add(&joined(&block[join::settling(block.len())..]));
        }
        if slow.is_empty() {
            self.hooked.meanwhile.forget_names();
            return self.hooked.meanwhile.pass(&happened);
        }
        // The first block has no hooks, so none of its round trips is explained.
        let transactions = if is_seen { joined(slow) } else { Vec::new() };
        let at_ns = self.clock.to_ns(before.ticks.since(self.first));
        let unknown = Typical::default();
        let typical = self.usual.typical().unwrap_or(&unknown);
        let typical_rtt_ns = Some(typical.rtt_ns).filter(|ns| *ns > 0);
        let told = self.hooked.meanwhile.slow(&transactions, &happened, (&span, at_ns), typical, (&mut self.names, AT_ONCE));
        // Without events on the cores the causes are unknown.
        let is_loaded = self.hooked.meanwhile.is_loaded();
        let is_whole = |one: &Transaction| is_loaded && happened.is_whole_until(one.began() + one.rtt_ns() as i64, &span);
        let told_whole = told.iter().filter(|(_, one, _)| is_whole(one)).count();
        let passed_over = transactions.iter().filter(|one| is_whole(one)).count().saturating_sub(told_whole);
        let told = told.into_iter().map(|(timeline, transaction, parts)| match is_whole(&transaction) {
            true => Found { timeline, transaction: Some(transaction), parts },
            false => Found {
                timeline: Timeline { cause: String::new(), ..timeline },
                transaction: Some(transaction),
                parts: Vec::new(),
            },
        });
        // An incident whose stamps cannot be matched still gets its line.
        let mut matched: Vec<u32> = transactions.iter().map(|one| one.sequence).collect();
        matched.sort_unstable();
        let is_unmatched = |stamp: &&Stamp| matched.binary_search(&stamp.sequence).is_err();
        let mut unmatched: Vec<&Stamp> = slow.iter().filter(is_unmatched).collect();
        unmatched.arrange_by_key(|stamp| Reverse(stamp.second.since(stamp.first)));
        unmatched.truncate(AT_ONCE);
        let all: Vec<Found> = told.chain(unmatched.into_iter().map(|stamp| self.unmatched(stamp))).collect();
        let began = now.checked_sub(Duration::from_nanos(self.clock.to_ns(after.ticks.since(self.first)))).unwrap_or(now);
        self.count_causes(&all, slow.len(), passed_over);
        self.write_slowest(all, slow.len(), (began, now), (above_ns, typical_rtt_ns));
    }

    /// Counts the `of` incidents of a block by their causes. Of those that are not `found`, hooks saw `passed_over`.
    fn count_causes(&mut self, found: &[Found], of: usize, passed_over: usize) {
        for one in found {
            self.tally.add(one.main(self.names.has_idle_driver));
            self.tally.keep(&one.timeline);
        }
        let unexplained = of.saturating_sub(found.len() + passed_over);
        for (cause, count) in [(PASSED_OVER, passed_over), (UNEXPLAINED, unexplained)] {
            if count > 0 {
                self.tally.add(nobodys(cause, count as u64));
            }
        }
    }

    /// Writes the lines of a block with `of` incidents: those of the slowest `found` ones, as far as the limits allow. The row
    /// began at `began`.
    fn write_slowest(
        &mut self,
        mut found: Vec<Found>,
        of: usize,
        (began, now): (SystemTime, SystemTime),
        (above_ns, typical_rtt_ns): (u64, Option<u64>),
    ) {
        found.arrange_by_key(|one| Reverse(one.timeline.rtt_ns));
        found.truncate(AT_ONCE);
        let over_block = of.saturating_sub(found.len()) as u64;
        let room = self.lines.room(now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let over_rate = found.split_off(room.min(found.len())).len() as u64;
        found.arrange_by_key(|one| one.timeline.at_ns);
        found.into_iter().for_each(|one| self.write(one, began, above_ns, typical_rtt_ns));
        self.lines.no_room(over_rate);
        self.lines.passed_over(over_block);
    }

    /// The server's stamps of the last block. Waits for the stamp of its last slow round trip, `last`: a server that lost its CPU
    /// after sending the reply writes it late.
    fn servers(&mut self, last: Option<&Stamp>) -> Vec<Stamp> {
        let until = Instant::now() + LATE;
        loop {
            thread::sleep(STAMPED_WITHIN);
            let (stamps, seen) = self.hooked.stamps.server.since(self.seen.server);
            let is_there = |last: &Stamp| stamps.iter().any(|stamp| stamp.sequence == last.sequence);
            if self.hooked.route == Route::Remote || last.is_none_or(is_there) || Instant::now() >= until {
                self.seen.server = seen;
                return stamps;
            }
        }
    }

    fn unmatched(&self, stamp: &Stamp) -> Found {
        let timeline = Timeline {
            rtt_ns: self.clock.to_ns(stamp.second.since(stamp.first)),
            at_ns: self.clock.to_ns(stamp.first.since(self.first)),
            sequence: stamp.sequence,
            cause: String::new(),
            events: Vec::new(),
        };
        Found { timeline, transaction: None, parts: Vec::new() }
    }

    /// Writes a line for an incident of the row, which began at `began`.
    fn write(&mut self, found: Found, began: SystemTime, above_ns: u64, typical_rtt_ns: Option<u64>) {
        let causes = found.causes(self.names.has_idle_driver);
        let Found { timeline, transaction, .. } = found;
        let incident = Incident {
            schema: Incident::SCHEMA.into(),
            at: rfc3339(began + Duration::from_nanos(timeline.at_ns)),
            path: self.path.clone(),
            peer: self.peer.clone(),
            rtt_ns: timeline.rtt_ns,
            above_ns,
            typical_rtt_ns,
            sequence: timeline.sequence,
            dropped: 0,
            causes,
            stages: transaction.map(|transaction| self.usual.stages(&transaction)).unwrap_or_default(),
            events: timeline.events,
        };
        if let Some(text) = self.lines.write(incident) {
            self.watcher.say(text);
        }
    }

    fn so_far(&self) -> Incidents {
        let (now, earlier) = (self.lines.counts, self.earlier);
        Incidents {
            above: self.above.to_string(),
            above_ns: self.limit.now_ns,
            count: self.count,
            written: now.written - earlier.written,
            over_rate: now.over_rate - earlier.over_rate,
            over_size: now.over_size - earlier.over_size,
            over_block: now.over_block - earlier.over_block,
            failed: now.failed - earlier.failed,
            file: self.lines.path.display().to_string(),
            causes: self.tally.causes(),
            lost_events: self.lost,
            last: self.tally.last.clone(),
            slowest: Vec::new(),
            missing: self.hooked.missing.clone(),
        }
    }

    /// All incidents of the row.
    pub(crate) fn finish(self) -> Incidents {
        self.hooked.want_packets(false);
        // If the pipe has no room now, the last line stays incomplete.
        let _ = self.lines.complete();
        Incidents { slowest: self.tally.slowest.clone(), ..self.so_far() }
    }
}

/// An incident of the last block.
struct Found {
    timeline: Timeline,
    /// `None` if its stamps could not be matched.
    transaction: Option<Transaction>,
    /// Its causes, the largest first.
    parts: Vec<Part>,
}

impl Found {
    /// On a host with or without a cpuidle driver.
    fn causes(&self, has_idle_driver: bool) -> Vec<Cause> {
        let cause = |(at, part): (usize, &Part)| Cause {
            cause: part.kind.of().name.into(),
            who: part.who.clone(),
            count: 1,
            lost_ns: part.ns.round() as u64,
            // The advice of one cause a line is enough.
            advice: if at == 0 { part.advice(has_idle_driver).into() } else { String::new() },
        };
        self.parts.iter().enumerate().map(cause).collect()
    }

    fn main(&self, has_idle_driver: bool) -> Cause {
        self.causes(has_idle_driver).into_iter().next().unwrap_or_else(|| nobodys(UNEXPLAINED, 1))
    }
}

/// A cause of `count` incidents that names nobody, and no time.
fn nobodys(cause: &str, count: u64) -> Cause {
    Cause { cause: cause.into(), who: String::new(), count, lost_ns: 0, advice: String::new() }
}

impl Watcher for Caught<'_> {
    fn begins(&mut self, index: usize, of: usize, job: &Job) {
        self.watcher.begins(index, of, job);
    }

    fn opened(&mut self, flows: u32) {
        self.watcher.opened(flows);
    }

    fn ready(&mut self) -> Result<(), String> {
        self.watcher.ready()?;
        self.load();
        let now = self.clock.relation();
        (self.first, self.before) = (now.ticks, Some(now));
        Ok(())
    }

    fn wants(&self) -> Wants {
        if self.hooked.route == Route::Remote && self.on { Wants::Halves } else { Wants::Nothing }
    }

    fn block(&mut self, told: Told) -> Result<Option<Turn>, String> {
        let (block, seen) = self.hooked.stamps.client.since(self.seen.client);
        self.seen.client = seen;
        let rtt = |stamp: &Stamp| self.clock.to_ns(stamp.second.since(stamp.first));
        let above_ns = self.limit.now_ns.unwrap_or(u64::MAX);
        let slow: Vec<Stamp> = block.iter().filter(|stamp| rtt(stamp) > above_ns).copied().collect();
        self.limit.add(block.iter().map(rtt));
        self.count += slow.len() as u64;
        if slow.is_empty() && !(self.on && self.usual.wants()) {
            self.pass();
        } else {
            self.look(&block, &slow, above_ns, told);
            // The more other work the host has, the more events a block has, and the allocator keeps the memory of the largest
            // one.
            allocator::return_freed();
        }
        let turn = (!std::mem::replace(&mut self.on, true)).then(|| self.attach()).transpose()?;
        self.before = Some(self.clock.relation());
        // A server has no hooks on its cores: all others tell where its time went.
        Ok(turn.map(|()| Turn::Hooks(HOOKS.iter().collect())))
    }

    fn paused(&mut self, left: Option<Nanos>) {
        self.watcher.paused(left);
    }

    fn resumed(&mut self, paused: Nanos) {
        self.watcher.resumed(paused);
    }

    fn say(&mut self, text: String) {
        self.watcher.say(text);
    }

    fn wants_snapshots(&self) -> bool {
        self.watcher.wants_snapshots()
    }

    fn draws(&self) -> bool {
        self.watcher.draws()
    }

    fn progress(&mut self, progress: &Progress) {
        self.watcher.progress(&Progress { incidents: Some(Box::new(self.so_far())), ..progress.clone() });
    }

    fn ends(&mut self, row: &Row) {
        self.watcher.ends(row);
    }
}

#[cfg(test)]
mod tests {
    use hairpin_trace::causes::Kind;

    use super::*;

    #[test]
    fn an_incident_has_the_advice_for_its_host() {
        let timeline = Timeline { rtt_ns: 200_000, at_ns: 0, sequence: 1, cause: String::new(), events: Vec::new() };
        let parts = vec![Part { kind: Kind::Idle, who: "idle state 2".into(), ns: 90_000.0 }];
        let found = Found { timeline, transaction: None, parts };
        let advice = |has_idle_driver| found.main(has_idle_driver).advice;
        assert!(advice(true).contains("cpu_dma_latency_us"), "{}", advice(true));
        assert!(!advice(false).contains("cpu_dma_latency_us") && advice(false).contains("spin"), "{}", advice(false));
    }
}
