//! The host of a remote server: hands out its stamps, hooks and stamps of packets block by block, as times of its own clocks or
//! of its time of day.

use std::thread;
use std::time::{Duration, Instant};

use hairpin_record::explain::Direction;
use hairpin_record::run::Side;
use hairpin_sys::clock::{AnyClock, Clock, Relation};
use hairpin_sys::phc::Point;
use hairpin_sys::shared::{Announced, Stamp, Stamps};
use hairpin_trace::halves::{self, Half};
use hairpin_trace::join::{Drift, Span};
use hairpin_trace::moment::{Hook, Route};
use hairpin_trace::phc::Course;
use hairpin_trace::tracer::{Flow, Tracer};

use crate::message::{NicHalf, NicReport, Timed, Times};
use crate::nics::{FollowedPhc, ServersNics};
use crate::time_source::{self, Told};
use crate::worker::choose_clock;

/// The server's side writes its stamps of a transaction within this time after its reply was received.
pub const STAMPED_WITHIN: Duration = Duration::from_millis(1);

/// Traces the rows of a `hairpin serve` session that ask for it.
pub(crate) struct ServersHost {
    stamps: Stamps,
    clock: Option<AnyClock>,
    tracer: Option<Tracer>,
    before: Option<Relation>,
    drift: Drift,
    seen: u64,
    nics: Option<ServersNics>,
    /// The time of day against the program's clock, in a traced row.
    day: Option<Course>,
    /// The time of day's source as it was read last, and when: a client does not make this host start programs all the time.
    told: Option<(Instant, Told)>,
}

/// The time of day's source is read anew after this time.
const TOLD_FOR: Duration = Duration::from_secs(1);

impl ServersHost {
    /// `stamps` is the shared area of the session's worker.
    pub(crate) fn new(stamps: Stamps) -> ServersHost {
        ServersHost {
            stamps,
            clock: None,
            tracer: None,
            before: None,
            drift: Drift::default(),
            seen: 0,
            nics: None,
            day: None,
            told: None,
        }
    }

    /// The worker's shared area.
    pub(crate) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// Stops tracing and stamping, between rows.
    pub(crate) fn rests(&mut self) {
        self.tracer = None;
        self.before = None;
        self.nics = None;
        self.day = None;
        self.stamps.want_every(0);
    }

    /// From now on has the packets of every `every`-th transaction stamped, 0 for none. They come over `interface`.
    pub(crate) fn stamps_of(&mut self, every: u32, interface: impl FnOnce() -> Option<String>) {
        let clock = self.clock();
        let new = || ServersNics::new(clock, FollowedPhc::of(interface().as_deref(), clock));
        self.nics.get_or_insert_with(new).ask(&self.stamps, every);
    }

    /// Stamps seen since the last call; no transaction is under way.
    pub(crate) fn nics(&mut self) -> NicReport {
        // As in `halves`.
        thread::sleep(STAMPED_WITHIN);
        let Some(nics) = &mut self.nics else { return NicReport::default() };
        let (halves, counts) = nics.block(&self.stamps);
        NicReport {
            halves: halves.into_iter().map(NicHalf::from).collect(),
            late: counts.late,
            twice: counts.twice,
            unknown: counts.unknown,
            no_clock: nics.phc().why(),
            clock: nics.phc().found(Side::Server),
        }
    }

    /// Follows the time of day from here on. Before a traced row, whose stamps come later.
    pub(crate) fn follow_day(&mut self) {
        let clock = self.clock();
        let mut day = Course::new(clock.rate());
        day.add(Point::of_realtime(&clock));
        self.day = Some(day);
        self.seen = self.stamps.count();
    }

    /// Measuring begins: the rate of the time of day is known from here on.
    pub(crate) fn goes(&mut self) {
        let clock = self.clock;
        if let (Some(day), Some(clock)) = (&mut self.day, clock) {
            day.add(Point::of_realtime(&clock));
        }
    }

    /// Times of the transactions since the last call, by the time of day; no transaction is under way.
    pub(crate) fn times(&mut self) -> Times {
        // As in `halves`.
        thread::sleep(STAMPED_WITHIN);
        let clock = self.clock();
        let (stamps, seen) = self.stamps.since(self.seen);
        self.seen = seen;
        let Some(leg) = self.day.as_mut().and_then(|day| day.add(Point::of_realtime(&clock))) else { return Times::default() };
        let timed = |stamp: &Stamp| {
            let (received, sent) = (leg.span.nic_at(stamp.first), leg.span.nic_at(stamp.second));
            Timed(stamp.sequence, received, sent.saturating_sub(received))
        };
        Times { transactions: stamps.iter().map(timed).collect(), error_ns: leg.steady.then(|| leg.error_ns().ceil() as u64) }
    }

    /// The source of the time of day, and its largest error.
    pub(crate) fn told(&mut self) -> Told {
        let fresh = |(at, _): &(Instant, Told)| at.elapsed() < TOLD_FOR;
        if let Some((_, told)) = self.told.as_ref().filter(|told| fresh(told)) {
            let (boot_id, raw_ns) = time_source::kernel();
            return Told { boot_id, raw_ns, ..told.clone() };
        }
        let told = time_source::read(&self.clock());
        self.told = Some((Instant::now(), told.clone()));
        told
    }

    /// Attaches those of `hooks` that this host offers, the same all through a row, or detaches them if there are none. The
    /// program's own stamps are always there.
    pub(crate) fn hooks(&mut self, hooks: Vec<&'static Hook>) {
        let told = self.stamps.announced();
        if told.thread == 0 {
            return;
        }
        let on = !hooks.is_empty();
        if on && self.tracer.is_none() {
            let flow =
                Flow { route: Route::Remote, client: Announced::default(), server: told, comes: Some(Direction::Request), hooks };
            self.tracer = Tracer::load(&flow).ok();
        }
        if let Some(tracer) = &mut self.tracer {
            if !on {
                tracer.detach();
            } else if tracer.attach().is_err() {
                self.tracer = None;
            }
        }
        self.begin();
    }

    /// Halves seen since the last call; no transaction is under way.
    pub(crate) fn halves(&mut self) -> Vec<Half> {
        // The server writes its stamp after sending the reply, which may already be back at the client.
        thread::sleep(STAMPED_WITHIN);
        let (clock, after) = (self.clock(), self.relation());
        let (stamps, seen) = self.stamps.since(self.seen);
        self.seen = seen;
        let records = self.tracer.as_mut().map(|tracer| tracer.take().records).unwrap_or_default();
        let span = self.before.map(|before| Span::new(before, after, clock.rate()));
        self.before = Some(self.relation());
        let Some(span) = span else { return Vec::new() };
        if !self.drift.agrees(&span) {
            // Without halves the client counts the block's transactions as unmatched.
            return Vec::new();
        }
        halves::halves(&stamps, &records, &span)
    }

    fn begin(&mut self) {
        self.seen = self.stamps.count();
        if let Some(tracer) = &mut self.tracer {
            tracer.take();
        }
        self.before = Some(self.relation());
    }

    fn clock(&mut self) -> AnyClock {
        *self.clock.get_or_insert_with(|| choose_clock().0)
    }

    fn relation(&mut self) -> Relation {
        self.clock().relation()
    }
}
