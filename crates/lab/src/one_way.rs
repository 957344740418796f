//! One-way delays: both directions of every round trip by the time of day, with the error that the clocks allow.
//!
//! ```text
//!   client   send entered ─┐                    ┌─ receive returned        each side places its stamps on its host's
//!   server                 └─ receive returned ─ send entered ┘            time of day, block by block
//!            └── request ──┘                    └── reply ────┘
//!
//!   both clocks   one clock (a link of this host) │ one kernel │ one source, by chrony's or ptp4l's word │ else refused
//! ```
//! A delay is right to within the errors of both clocks against their common source, the growth of these between two readings,
//! and the error of placing the stamps. The states of the clocks are read before the row, every few seconds between two blocks,
//! and after it. Blocks count if the next reading still finds the common source.

mod fold;
mod shared_source;

use std::thread;
use std::time::Duration;

use hairpin_plan::job::{Job, Sides};
use hairpin_plan::path::Speaks;
use hairpin_record::one_way::OneWay;
use hairpin_record::progress::Progress;
use hairpin_record::run::Row;
use hairpin_session::address::local_address_towards;
use hairpin_session::error::RunError;
use hairpin_session::message::{Timed, Times};
use hairpin_session::plan::{Plan, Target};
use hairpin_session::serve::hooks::STAMPED_WITHIN;
use hairpin_session::server::Server;
use hairpin_session::time_source::{self, Told};
use hairpin_session::watch::{self, Turn, Wants, Watcher};
use hairpin_sys::clock::{AnyClock, Clock};
use hairpin_sys::phc::Point;
use hairpin_sys::shared::{Stamp, Stamps};
use hairpin_trace::join::settling;
use hairpin_trace::phc::{Course, Span};

use self::fold::Fold;
use self::shared_source::{Addresses, Between, Readings, one_kernel};

/// The clocks' states are read anew after this time.
const READ_EVERY: Duration = Duration::from_secs(2);

/// Refuses plans without one-way delays, before anything starts.
///
/// # Errors
/// Why not.
pub fn check(plan: &Plan) -> Result<(), RunError> {
    let refuse = |path: String, why: &str| Err(RunError::Unsupported { path, why: why.into() });
    if let Target::Echo { .. } | Target::Socket(_) | Target::Reflector(_) = plan.target {
        return refuse(
            FLAG.into(),
            "it takes a HOST on which hairpin serve runs, loopback or veth: an echo service or a reflector tells no times of its own",
        );
    }
    if plan.raw.is_some() {
        return refuse(FLAG.into(), "its blocks wait for their times, and those of --raw do not: leave one of the two out");
    }
    for job in &plan.rows {
        let path = job.spec.to_string();
        if (job.flows, job.threads, job.outstanding) != (1, 1, 1) {
            return refuse(path, "--one-way follows one request at a time: leave out --flows, --threads and --outstanding");
        }
        if let Err(refused) = job.check_matched(FLAG) {
            return refuse(path, &refused.to_string());
        }
        if job.spec.client.speaks() == Speaks::TcpPerTransaction {
            return refuse(path, "--one-way takes a path that keeps its connection: the server stamps no request of this one");
        }
    }
    Ok(())
}

/// The flag, as errors name it.
const FLAG: &str = "--one-way";

/// The clocks of both sides, found to have something in common.
pub struct Clocks {
    clock: AnyClock,
    between: Between,
    addresses: Addresses,
}

impl Clocks {
    /// Reads both clocks' states.
    ///
    /// # Errors
    /// The clocks have nothing in common, or no bound of their errors is known; the message names the set-up.
    pub fn read(server: &mut Server, clock: AnyClock) -> Result<Clocks, RunError> {
        let server_at = server.address().map(|at| at.ip().to_canonical());
        let client_at = server.address().and_then(local_address_towards).map(|at| at.to_canonical());
        let addresses = Addresses { client: client_at, server: server_at };
        let before = time_source::kernel();
        let told = server.clock().map_err(RunError::Side)?;
        let after = time_source::kernel();
        let between = match told {
            None => Between::Clock,
            Some(told) if one_kernel(&told, &before, &after) => Between::Kernel,
            Some(told) => {
                let own = time_source::read(&clock);
                let readings = Readings::begin(own.state, told.state, addresses);
                Between::Source(Box::new(readings.map_err(|why| RunError::Lacking { path: FLAG.into(), why })?))
            }
        };
        Ok(Clocks { clock, between, addresses })
    }
}

/// Follows one row; passes everything on to the watcher of the row.
pub struct Tracing<'a> {
    watcher: &'a mut dyn Watcher,
    stamps: &'a Sides<Stamps>,
    clocks: &'a mut Clocks,
    course: Course,
    seen: Sides<u64>,
    /// The server's times of the block that is over.
    times: Option<Times>,
    fold: Fold,
    /// The fold at the last reading that found the common source.
    agreed: Fold,
}

impl<'a> Tracing<'a> {
    /// For a row that is about to begin.
    pub fn new(stamps: &'a Sides<Stamps>, clocks: &'a mut Clocks, watcher: &'a mut dyn Watcher) -> Tracing<'a> {
        let mut course = Course::new(clocks.clock.rate());
        course.add(Point::of_realtime(&clocks.clock));
        clocks.between.begins();
        Tracing {
            watcher,
            stamps,
            course,
            seen: Sides { client: stamps.client.count(), server: stamps.server.count() },
            clocks,
            times: None,
            fold: Fold::default(),
            agreed: Fold::default(),
        }
    }

    /// Takes in a reading of both clocks. If they have lost their common source, it was lost at some time since the reading
    /// before, and the blocks since then do not count.
    fn reading(&mut self, own: Told, told: Told) {
        let Between::Source(readings) = &mut self.clocks.between else { return };
        if readings.ended.is_some() {
            return;
        }
        readings.add(own.state, told.state, self.clocks.addresses);
        match readings.ended {
            None => self.agreed = self.fold.clone(),
            Some(_) => self.fold = std::mem::take(&mut self.agreed),
        }
    }

    /// Stamps of a side since the last call.
    fn since(area: &Stamps, seen: &mut u64) -> Vec<Stamp> {
        let (stamps, now) = area.since(*seen);
        *seen = now;
        stamps
    }

    /// Adds a block of a link of this host: both sides' stamps are ticks of one clock.
    fn block_of_one_clock(&mut self, client: &[Stamp]) {
        let server = Self::since(&self.stamps.server, &mut self.seen.server);
        let clock = self.clocks.clock;
        let mut server = server.iter();
        let ns = |from: u64, to: u64| (to.wrapping_sub(from).cast_signed() as f64 / clock.rate()).round() as i64;
        for stamp in client {
            let mut rest = server.clone();
            match rest.find(|answer| answer.sequence == stamp.sequence) {
                Some(answer) => {
                    server = rest;
                    self.fold.add(ns(stamp.first.0, answer.first.0), ns(answer.second.0, stamp.second.0));
                }
                None => self.fold.unmatched += 1,
            }
        }
    }

    /// Adds a block by the times of day of both hosts.
    fn block_by_day(&mut self, client: &[Stamp]) {
        let leg = self.course.add(Point::of_realtime(&self.clocks.clock));
        let times = self.times.take().unwrap_or_default();
        let (Some(leg), Some(server_ns)) = (leg.filter(|leg| leg.steady), times.error_ns) else {
            self.fold.blocks_rejected += 1;
            return;
        };
        self.fold.place(leg.error_ns() + server_ns as f64);
        join(client, &times.transactions, &leg.span, &mut self.fold);
    }

    /// The row's one-way delays; reads both clocks a last time.
    pub fn finish(mut self, server: &mut Server) -> OneWay {
        // If the server is gone, the error grows from the last reading on.
        if matches!(self.clocks.between, Between::Source(_))
            && let Ok(Some(told)) = server.clock()
        {
            self.clock(told);
        }
        let Tracing { clocks, fold, .. } = self;
        clocks.between.finish(fold, clocks.clock)
    }
}

/// Adds the transactions that both sides have times of.
fn join(client: &[Stamp], server: &[Timed], span: &Span, fold: &mut Fold) {
    let mut server = server.iter();
    for stamp in client {
        let mut rest = server.clone();
        match rest.find(|Timed(sequence, ..)| *sequence == stamp.sequence) {
            Some(Timed(_, received_ns, turnaround_ns)) => {
                server = rest;
                let (sent, returned) = (span.nic_at(stamp.first), span.nic_at(stamp.second));
                let request = received_ns.wrapping_sub(sent).cast_signed();
                let reply = returned.wrapping_sub(received_ns.wrapping_add(*turnaround_ns)).cast_signed();
                fold.add(request, reply);
            }
            None => fold.unmatched += 1,
        }
    }
}

impl Watcher for Tracing<'_> {
    fn begins(&mut self, index: usize, of: usize, job: &Job) {
        self.watcher.begins(index, of, job);
    }

    fn opened(&mut self, flows: u32) {
        self.watcher.opened(flows);
    }

    fn ready(&mut self) -> Result<(), String> {
        self.watcher.ready()?;
        self.course.add(Point::of_realtime(&self.clocks.clock));
        Ok(())
    }

    fn wants_times(&self) -> bool {
        !matches!(self.clocks.between, Between::Clock)
    }

    fn times(&mut self, times: Times) {
        self.times = Some(times);
    }

    fn wants_clock(&self) -> bool {
        matches!(&self.clocks.between, Between::Source(readings) if readings.is_older_than(READ_EVERY))
    }

    fn clock(&mut self, told: Told) {
        let own = time_source::read(&self.clocks.clock);
        self.reading(own, told);
    }

    fn wants(&self) -> Wants {
        self.watcher.wants()
    }

    fn block(&mut self, told: watch::Told) -> Result<Option<Turn>, String> {
        // The server's side writes its stamp after sending the reply.
        thread::sleep(STAMPED_WITHIN);
        let all = Self::since(&self.stamps.client, &mut self.seen.client);
        let client = &all[settling(all.len())..];
        if !self.clocks.between.has_ended() {
            match self.clocks.between {
                Between::Clock => self.block_of_one_clock(client),
                Between::Kernel | Between::Source(_) => self.block_by_day(client),
            }
        }
        self.watcher.block(told)
    }

    fn wants_snapshots(&self) -> bool {
        self.watcher.wants_snapshots()
    }

    fn draws(&self) -> bool {
        self.watcher.draws()
    }

    fn progress(&mut self, progress: &Progress) {
        self.watcher.progress(progress);
    }

    fn ends(&mut self, row: &Row) {
        self.watcher.ends(row);
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::one_way::{ClockState, Follows};
    use hairpin_sys::clock::{MonotonicRaw, Ticks};

    use super::*;

    const DAY: u64 = 1_764_079_000_000_000_000;

    fn stamp(sequence: u32, first: u64, second: u64) -> Stamp {
        Stamp { sequence, first: Ticks(first), second: Ticks(second) }
    }

    #[test]
    fn both_directions_and_the_turn_around_make_up_the_round_trip() {
        let point = |ticks, nic_ns| Point { ticks: Ticks(ticks), nic_ns, width_ns: 40 };
        let span = Span::new(point(0, DAY), point(2_000_000, DAY + 1_000_000), 2.0).expect("a span");
        let client = [stamp(5, 2_000, 42_000), stamp(6, 100_000, 140_000), stamp(9, 200_000, 240_000)];
        // The server's clock is 3 us ahead; request 6 is not stamped.
        let server =
            [Timed(4, DAY, 10), Timed(5, DAY + 1_000 + 8_000 + 3_000, 500), Timed(9, DAY + 100_000 + 9_000 + 3_000, 500)];
        let mut fold = Fold::default();
        join(&client, &server, &span, &mut fold);
        assert_eq!(fold.unmatched, 1);
        assert_eq!(fold.kept(), [(11_000, 8_500), (12_000, 7_500)], "the offset is added to one and taken off the other");
        assert!(fold.kept().iter().all(|(request, reply)| request + reply + 500 == 20_000));
    }

    #[test]
    fn blocks_count_if_the_next_reading_finds_the_same_source() {
        let told = |server: &str| {
            let follows = Follows::Ntp(server.into());
            let state = ClockState { daemon: "chrony".into(), follows, error_ns: 100.0, parts: Vec::new(), growth_ppb: 1_000.0 };
            Told { boot_id: String::new(), raw_ns: 0, state: Ok(state) }
        };
        let (one, other) = (told("192.0.2.1"), told("192.0.2.9"));
        let addresses = Addresses::default();
        let readings = Readings::begin(one.state.clone(), one.state.clone(), addresses).expect("a source");
        let between = Between::Source(Box::new(readings));
        let mut clocks = Clocks { clock: AnyClock::Raw(MonotonicRaw), between, addresses };
        let area = || Stamps::create().expect("an area");
        let stamps = Sides { client: area(), server: area() };
        let mut watcher = watch::NoWatcher;
        let mut tracing = Tracing::new(&stamps, &mut clocks, &mut watcher);
        tracing.fold.add(1, 1);
        tracing.reading(one.clone(), one.clone());
        tracing.fold.add(2, 2);
        tracing.reading(other.clone(), other);
        assert_eq!(tracing.fold.kept(), [(1, 1)], "the source changed before or after the second block");
        tracing.reading(one.clone(), one);
        assert!(tracing.clocks.between.has_ended());
        assert_eq!(tracing.fold.kept(), [(1, 1)]);
    }
}
