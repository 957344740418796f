//! The host of a remote server: hands out its stamps, hooks and stamps of packets block by block, as times of its own clocks.

use std::thread;
use std::time::Duration;

use hairpin_record::explain::Direction;
use hairpin_sys::clock::{AnyClock, Clock, Relation};
use hairpin_sys::shared::{Announced, Stamps};
use hairpin_trace::halves::{self, Half};
use hairpin_trace::join::{Drift, Span};
use hairpin_trace::moment::{HOOKS, Route};
use hairpin_trace::tracer::{Flow, Tracer};

use crate::message::{NicHalf, NicReport};
use crate::nics::{NO_CLOCK, ServersNics};
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
}

impl ServersHost {
    /// `stamps` is the shared area of the session's worker.
    pub(crate) fn new(stamps: Stamps) -> ServersHost {
        ServersHost { stamps, clock: None, tracer: None, before: None, drift: Drift::default(), seen: 0, nics: None }
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
        self.stamps.want_every(0);
    }

    /// Has the packets of every `every`-th transaction stamped from now on; 0: of none.
    pub(crate) fn stamps_of(&mut self, every: u32) {
        let clock = self.clock();
        self.nics.get_or_insert_with(|| ServersNics::new(clock)).ask(&self.stamps, every);
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
            no_clock: NO_CLOCK.into(),
        }
    }

    /// Attaches the hooks that this host offers, or detaches them. The program's own stamps are always there.
    pub(crate) fn hooks(&mut self, on: bool) {
        let told = self.stamps.announced();
        if told.thread == 0 {
            return;
        }
        if on && self.tracer.is_none() {
            let hooks = HOOKS.iter().collect();
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
