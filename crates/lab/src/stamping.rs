//! Stamps at the NICs of a row, in blocks of their own.
//!
//! ```text
//!   phase      bare ────────────────── │ stamped ─────────────────────── │ bare …
//!   blocks     counted, counted, …     │ left out, split, split, split   │ left out, counted, …
//!                 the row's figures       └ the kernel begins to stamp        └ stamps that come late, and the kernel's end of it
//!   between    the client waits ─▶ stamps of the block before are joined ─▶ go
//! ```
//! So no figure of the row contains the stamps or the work of switching them, and the split describes the RTT of its own
//! transactions.

use std::thread;
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, NicStamps, Sides};
use hairpin_plan::path::Speaks;
use hairpin_record::head::Place;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Row, Side};
use hairpin_record::split::{Layer, NicClock, Split, Way};
use hairpin_session::error::RunError;
use hairpin_session::nics::{BlockReader, FollowedPhc, ServersNics};
use hairpin_session::plan::Target;
use hairpin_session::serve::hooks::STAMPED_WITHIN;
use hairpin_session::server::Server;
use hairpin_session::side::SideError;
use hairpin_session::testbed::{RowEnd, Testbed};
use hairpin_session::watch::{NoWatcher, Told, Turn, Wants, Watcher};
use hairpin_sys::clock::AnyClock;
use hairpin_sys::shared::Stamps;
use hairpin_sys::signal::Signals;
use hairpin_trace::nics::{Counts, Nics, Why};
use hairpin_units::Nanos;

/// Least time of a phase, without the block that is left out.
const PHASE: Duration = Duration::from_millis(250);
/// Most transactions that are kept, 24 bytes each.
const MOST: usize = 1_000_000;

/// Refuses rows that have no time for blocks with stamps and without, before anything starts.
pub(crate) fn check(job: &Job, raw: bool) -> Result<(), RunError> {
    if job.nic_stamps.is_none() {
        return Ok(());
    }
    let short = job.count.is_some() || job.duration.is_some_and(|duration| Duration::from(duration) < 2 * PHASE);
    let wrong = match (raw, short) {
        (true, _) => {
            "--raw has every sample of a row, and with --hw-stamps part of it runs in blocks with stamps: leave out one of them"
        }
        (_, true) => {
            "--hw-stamps measures with and without stamps in turn: give it a --duration of 0.5 s or more, and no --count"
        }
        _ => return Ok(()),
    };
    Err(RunError::Unsupported { path: job.spec.to_string(), why: wrong.into() })
}

/// An area for the stamps of each side.
pub(crate) fn areas() -> Result<Sides<Stamps>, SideError> {
    Ok(Sides { client: Stamps::create()?, server: Stamps::create()? })
}

/// The interface whose NIC stamps. A link of this host lies in namespaces of its own, and has no NIC.
pub(crate) fn interface_of<'p>(place: &'p Place, target: &Target) -> Option<&'p str> {
    place.link.interface.as_deref().filter(|_| !matches!(target, Target::Link(_)))
}

/// True where the kernel stamps a packet that comes in late: a segment over a link of this host still carries the time at which
/// TCP sent it, in place of a stamp, until IP delivers it (`skb_clear_delivery_time` of the kernel's include/linux/skbuff.h).
pub(crate) fn in_ip(job: &Job, place: &Place) -> bool {
    let is_here = !matches!(place.link.kind.as_str(), "host" | "echo" | "reflector");
    let of_kernel = place.link.interface.as_deref() == Some("lo")
        || is_here
        || place.hosts.client.facts.get("driver").is_some_and(|driver| driver == "veth");
    job.spec.client.speaks() == Speaks::Tcp && of_kernel
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Bare,
    Stamped,
}

/// The stamps of one row; passes everything else on to a watcher.
pub(crate) struct Stamping<'a> {
    watcher: &'a mut dyn Watcher,
    stamps: &'a Sides<Stamps>,
    asked: NicStamps,
    client: BlockReader,
    server: OfServer,
    nics: Nics,
    phase: Phase,
    /// The block under way is the first one of its phase, which is left out.
    first: bool,
    since: Instant,
    /// Transactions when the phase began.
    from: u64,
    /// One transaction in `every` is stamped in this phase, or was in the last one.
    every: u32,
    counts: Counts,
    why: Why,
    servers_clock: Option<NicClock>,
    blocks: u64,
    rejected: u64,
}

/// The server's side of the stamps.
enum OfServer {
    /// A worker of this host.
    Here(Box<ServersNics>),
    /// `hairpin serve` on another host.
    There,
    /// None.
    Nowhere,
}

impl<'a> Stamping<'a> {
    pub(crate) fn new(
        asked: NicStamps,
        stamps: &'a Sides<Stamps>,
        clock: AnyClock,
        server: &Server,
        interface: Option<&str>,
        in_ip: bool,
        watcher: &'a mut dyn Watcher,
    ) -> Stamping<'a> {
        let mut why = Why { no_server: String::new(), no_clock: Default::default(), in_ip };
        let server = match server {
            Server::Worker { .. } => OfServer::Here(Box::new(ServersNics::new(clock, FollowedPhc::of(None, clock)))),
            Server::Remote { .. } if server.stamps() => OfServer::There,
            Server::Remote { .. } => {
                why.no_server = "this server tells no stamps: it runs an earlier version of hairpin".into();
                OfServer::Nowhere
            }
            Server::Silent(_) => {
                why.no_server = "it runs no hairpin".into();
                OfServer::Nowhere
            }
        };
        Stamping {
            watcher,
            stamps,
            asked,
            client: BlockReader::new(clock, FollowedPhc::of(interface, clock)),
            server,
            nics: Nics::new(),
            phase: Phase::Bare,
            first: false,
            since: Instant::now(),
            from: stamps.client.count(),
            every: 1,
            counts: Counts::default(),
            why,
            servers_clock: None,
            blocks: 0,
            rejected: 0,
        }
    }

    /// True if the last block's stamps must be read: they count, or late ones of the phase before may be among them.
    fn reads(&self) -> bool {
        self.phase == Phase::Stamped || self.first
    }

    fn read(&mut self, told: Told) {
        let block = self.client.block(&self.stamps.client);
        let (halves, counts) = match (&mut self.server, told) {
            (OfServer::Here(server), _) => server.block(&self.stamps.server),
            (OfServer::There, Told::Nics(report)) => {
                let (halves, counts, clock) = report.read();
                match clock {
                    Ok(clock) => self.servers_clock = Some(clock),
                    Err(why) => self.why.no_clock[1] = why,
                }
                (halves, counts)
            }
            (OfServer::There | OfServer::Nowhere, _) => (Vec::new(), self.counts),
        };
        self.counts = counts;
        let counted = self.phase == Phase::Stamped && !self.first;
        if counted {
            *(if block.clocks.is_some() { &mut self.blocks } else { &mut self.rejected }) += 1;
        }
        self.nics.block((&block.stamps, &block.packets), halves, block.clocks, self.every, counted);
    }

    /// Begins the other phase. Once the limit of kept transactions is reached, all are bare. Returns the change for a remote
    /// server.
    fn turn(&mut self) -> Option<Turn> {
        let next = match self.phase {
            Phase::Bare if self.nics.len() < MOST => Phase::Stamped,
            Phase::Bare => return None,
            Phase::Stamped => Phase::Bare,
        };
        let now = self.stamps.client.count();
        if next == Phase::Stamped {
            let seconds = self.since.elapsed().as_secs_f64();
            self.every = every(now.saturating_sub(self.from) as f64 / seconds, self.asked.per_s);
            self.client.begin(&self.stamps.client);
        }
        (self.phase, self.first, self.since, self.from) = (next, true, Instant::now(), now);
        self.stamps.client.leave_out(true);
        Some(Turn::Stamps(self.ask()))
    }

    /// Asks both sides for the stamps of this phase.
    fn ask(&mut self) -> u32 {
        let every = if self.phase == Phase::Stamped { self.every } else { 0 };
        self.stamps.client.want_every(every);
        if let OfServer::Here(server) = &mut self.server {
            server.ask(&self.stamps.server, every);
        }
        every
    }

    /// The split; leaves the areas as before the row.
    pub(crate) fn finish(mut self) -> Split {
        self.phase = Phase::Bare;
        self.ask();
        self.stamps.client.leave_out(false);
        let phc = self.client.phc();
        self.why.no_clock[0] = phc.why();
        let nic_clocks = phc.found(Side::Client).into_iter().chain(self.servers_clock).collect();
        let split = self.nics.finish(self.counts, self.every, &self.why);
        Split { blocks: self.blocks, blocks_rejected: self.rejected, nic_clocks, ..split }
    }
}

/// Time of a row that is measured for its split alone.
pub(crate) const ALONE: Nanos = Nanos::from_secs(1);

/// A job as measured for its split alone: an open loop at its rate, with one request in flight.
pub(crate) fn alone(job: &Job, asked: NicStamps) -> Job {
    let pace = job.open.as_ref().map(|open| open.per_s).or(job.pace);
    Job {
        nic_stamps: Some(asked),
        traced: true,
        socket_stamps: false,
        duration: Some(ALONE),
        count: None,
        open: None,
        pace,
        outstanding: 1,
        ..job.clone()
    }
}

/// The split of a job from [`alone`], in a row of its own.
pub(crate) fn split_of(
    testbed: &mut Testbed,
    job: &Job,
    index: usize,
    (stamps, clock): (&Sides<Stamps>, AnyClock),
    (place, target): (&Place, &Target),
    signals: &Signals,
) -> Result<Box<Split>, RowEnd> {
    let asked = job.nic_stamps.unwrap_or_default();
    let mut nobody = NoWatcher;
    let in_ip = in_ip(job, place);
    let mut stamping = Stamping::new(asked, stamps, clock, &testbed.server, interface_of(place, target), in_ip, &mut nobody);
    testbed.row(job, index, signals, &mut stamping)?.whole()?;
    Ok(Box::new(stamping.finish()))
}

/// Moves a ring's facts about its stamps from the row's options to its split, which has a line for each side and way.
pub(crate) fn of_rings(mut row: Row) -> Row {
    let Some(split) = &mut row.split else { return row };
    row.granted.retain(|granted| {
        let Some(way) = [Way::Out, Way::In].into_iter().find(|way| way.granted() == granted.option) else { return true };
        let of = split.stamps.iter_mut().find(|of| (of.side, of.way) == (granted.side, way) && of.layer != Layer::Hardware);
        if let Some(of) = of.filter(|_| !granted.why.is_empty()) {
            of.why = granted.why.clone();
        }
        false
    });
    row
}

/// The step between stamped transactions, such that at most `per_s` of `transactions_per_s` are stamped. With a step both sides
/// tell from the sequence number alone which ones.
fn every(transactions_per_s: f64, per_s: Option<f64>) -> u32 {
    per_s.map_or(1, |per_s| (transactions_per_s / per_s).ceil().clamp(1.0, f64::from(u32::MAX)) as u32)
}

impl Watcher for Stamping<'_> {
    fn begins(&mut self, index: usize, of: usize, job: &Job) {
        self.watcher.begins(index, of, job);
    }

    fn opened(&mut self, flows: u32) {
        self.watcher.opened(flows);
    }

    fn ready(&mut self) -> Result<(), String> {
        self.since = Instant::now();
        self.watcher.ready()
    }

    fn wants(&self) -> Wants {
        if matches!(self.server, OfServer::There) && self.reads() { Wants::Nics } else { Wants::Nothing }
    }

    fn block(&mut self, told: Told) -> Result<Option<Turn>, String> {
        if self.reads() {
            if matches!(self.server, OfServer::Here(_)) {
                thread::sleep(STAMPED_WITHIN);
            }
            self.read(told);
        }
        if std::mem::take(&mut self.first) {
            self.since = Instant::now();
            self.from = self.stamps.client.count();
            self.stamps.client.leave_out(self.phase == Phase::Stamped);
            return Ok(None);
        }
        let turn = if self.since.elapsed() >= PHASE { self.turn() } else { None };
        Ok(turn.filter(|_| matches!(self.server, OfServer::There)))
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
    use super::*;

    #[test]
    fn so_many_in_a_second_are_stamped() {
        for (rate, per_s, step) in [
            (50_000.0, None, 1),
            (50_000.0, Some(1_000.0), 50),
            (50_001.0, Some(1_000.0), 51),
            (500.0, Some(1_000.0), 1),
            (0.0, Some(1.0), 1),
        ] {
            assert_eq!(every(rate, per_s), step, "{rate} {per_s:?}");
        }
        assert_eq!(every(f64::INFINITY, Some(1.0)), u32::MAX);
    }

    #[test]
    fn a_job_that_cannot_be_stamped_in_turn_is_refused() {
        let job = Job { nic_stamps: Some(NicStamps::default()), ..Job::new("udp".parse().unwrap()) };
        let said = |job: &Job, raw| check(job, raw).map_or_else(|error| error.to_string(), |()| "goes".into());
        assert_eq!(said(&job, false), "goes");
        assert_eq!(said(&Job { nic_stamps: None, count: Some(1), ..job.clone() }, true), "goes");
        assert!(said(&job, true).contains("--raw has every sample"));
        for short in [Job { count: Some(9), ..job.clone() }, Job { duration: Some(Nanos::from_millis(499)), ..job.clone() }] {
            assert!(said(&short, false).contains("--duration of 0.5 s or more"));
        }
        assert_eq!(said(&Job { duration: None, ..job }, false), "goes", "until Ctrl-C");
    }
}
