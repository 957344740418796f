//! One rank's way through its slots, in order: in each it is client or server, never both, and never of two pairs at once.
//!
//! ```text
//!   slot ─┬ client: asks its partner ── Come ──▶ measures ──▶ a visit
//!         │           ├ NotYet: pauses, asks again            ├ fails: the reason is the visit
//!         │           └ Past, Refused, gone, too late: the reason is the visit
//!         └ server: its gate lets the partner in ──▶ the session ends ──▶ the next slot
//!                     └ looks after it once a second; gone or too late: the reason is the visit
//! ```
//! No barrier: two ranks meet when both have come to their common slot. A rank that is behind says so, and is waited for; one
//! that says nothing is given up after `PATIENCE`, and after two such slots gets one short try. Nothing is waited for longer than
//! [`Station::deadline`].

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hairpin_lab::explain::{self, How};
use hairpin_lab::ping;
use hairpin_plan::job::Job;
use hairpin_record::explain::{Explain, Missing, Stage};
use hairpin_record::mesh::{StageTime, Visit};
use hairpin_record::run::{Row, Run};
use hairpin_session::channel::Channel;
use hairpin_session::error::RunError;
use hairpin_session::key::Key;
use hairpin_session::plan::{Plan, Target};
use hairpin_session::side::wait;
use hairpin_session::watch::NoWatcher;
use hairpin_sys::signal::Signals;
use hairpin_units::{Nanos, Quantile};

use crate::gate::RankGate;
use crate::peers::{Peers, PeersError};
use crate::schedule::{Schedule, Slot};
use crate::setup::Setup;
use crate::visit::{Told, Visits};
use crate::words::{Ask, Hello, Peer, Reply, Unheard, ask};

/// A partner that gives no sign of life for this long is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// The same for a partner at whose address nobody listens: a rank listens before others learn its address.
const GONE: Duration = Duration::from_millis(700);
/// A partner that was given up twice is tried for this long.
const SHORT: Duration = Duration::from_millis(300);
/// Slots in which a partner is given up before it is tried for `SHORT` only.
const CHANCES: u32 = 2;
/// A server looks after a client that does not come, at this interval.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A look takes at most this long.
pub(crate) const LOOK_WITHIN: Duration = Duration::from_millis(500);
/// Pause before a partner that was not heard is asked again.
const PAUSE: Duration = Duration::from_millis(150);
/// Time for which all may be late, beyond twice the planned time.
const LATE: Duration = Duration::from_secs(5);
/// A visit's session ends this much after its time.
const VISIT_GRACE: Duration = Duration::from_secs(3);
/// A rank whose watchdog wakes this much after that stood still itself.
const STOOD_STILL: Duration = Duration::from_secs(1);
/// Measured time of a visit whose stages are measured, and the longest that it lasts with the loading of all hooks.
pub const EXPLAINS_FOR: Nanos = Nanos::from_secs(1);
const EXPLAIN_LASTS: Duration = Duration::from_secs(3);
/// A client whose server is interrupted finishes its visit within this time.
const FINISHES_WITHIN: Duration = Duration::from_millis(500);

/// A rank with all that it needs to walk its slots.
pub struct Station<'a> {
    /// Its hello, which comes with every question.
    pub hello: Hello,
    /// The work.
    pub setup: Setup,
    /// The rounds.
    pub schedule: Schedule,
    /// Each visit's job.
    pub job: Job,
    /// Where the others are.
    pub peers: Peers,
    /// The mesh's key.
    pub key: Key,
    /// Who may come in.
    pub gate: RankGate,
    /// The visits so far.
    pub visits: Visits,
    /// Ctrl-C and SIGTERM.
    pub signals: &'a Signals,
    /// For how long others may be late at the start.
    pub wait: Duration,
    /// How much later than this rank others may begin: each has waited for a rank that never came, from its own start.
    pub apart: Duration,
    /// Takes a line for the user.
    pub say: &'a dyn Fn(String),
    /// When the first slot began.
    pub begun: Instant,
    /// Slots in a row in which each partner was given up.
    pub given_up: HashMap<u32, u32>,
}

/// How a slot ended.
enum Outcome {
    /// This rank was the client of a visit.
    Measured(Box<Visit>),
    /// It was the server.
    Served,
    /// There was no visit; why, and true if the partner was given up.
    Missing(String, bool),
    /// Ctrl-C, with the figures until then.
    Interrupted(Option<Box<Visit>>),
}

impl Outcome {
    /// A visit of rank `me` that failed because this rank stood still is not its partner's loss.
    fn unless_stood_still(self, me: u32, watch: Watch) -> Outcome {
        match self {
            Outcome::Missing(..) if watch.stood_still => Outcome::Missing(format!("rank {me} stood still in mid-visit"), false),
            outcome => outcome,
        }
    }
}

/// Ctrl-C or SIGTERM has come.
pub struct Interrupted;

impl Station<'_> {
    /// Walks the slots; each visit is in the rank's file when its slot ends.
    pub fn walk(&mut self, slots: impl IntoIterator<Item = Slot>) -> Result<(), Interrupted> {
        for slot in slots {
            let expected = (!slot.client).then_some(slot.partner);
            let at = self.begun.elapsed();
            self.gate.moves_to(slot.round, expected, self.lasts(slot));
            let outcome = if slot.client { self.ask_for(slot) } else { self.answer(slot) };
            let blank = Visit { at_ns: at.as_nanos() as u64, ..self.blank(slot) };
            match outcome {
                Outcome::Measured(visit) => {
                    self.given_up.remove(&slot.partner);
                    self.keep(slot, *visit);
                }
                Outcome::Served => {
                    self.given_up.remove(&slot.partner);
                }
                Outcome::Missing(why, given_up) => {
                    *self.given_up.entry(slot.partner).or_default() += u32::from(given_up);
                    self.keep(slot, Visit { missing: Some(why), ..blank });
                }
                Outcome::Interrupted(visit) => {
                    visit.into_iter().for_each(|visit| self.keep(slot, *visit));
                    return Err(Interrupted);
                }
            }
        }
        Ok(())
    }

    /// Ends the rank's slots: the gate moves beyond the last round.
    pub fn ends(&self, last_round: u32) {
        self.gate.moves_to(last_round + 1, None, Duration::ZERO);
    }

    fn keep(&mut self, slot: Slot, visit: Visit) {
        let me = self.hello.rank;
        let pair = (me.min(slot.partner), me.max(slot.partner));
        if let Some(said) = self.visits.add(Told { pair, by: me, visit }) {
            (self.say)(said);
        }
    }

    fn blank(&self, slot: Slot) -> Visit {
        let client = if slot.client { self.hello.rank } else { slot.partner };
        Visit { visit: slot.visit, client, round: slot.round, ..Visit::default() }
    }

    fn lasts(&self, slot: Slot) -> Duration {
        if slot.explain { EXPLAIN_LASTS } else { self.setup.visit_lasts() }
    }

    /// When a slot is given up, at the latest.
    fn limit(&self, slot: Slot, short: bool) -> Instant {
        match short {
            true => Instant::now() + SHORT,
            false if slot.explain => self.deadline(slot.round) + 2 * EXPLAIN_LASTS,
            false => self.deadline(slot.round),
        }
    }

    /// A visit's session is ended when it has lasted for this long.
    fn session_limit(&self, slot: Slot) -> Duration {
        self.lasts(slot) + VISIT_GRACE + 2 * self.setup.link_down()
    }

    /// `PATIENCE`, and longer where the link of a partner may be down.
    pub(crate) fn patience(&self) -> Duration {
        PATIENCE + self.setup.link_down()
    }

    /// The time at which all waiting for this round ends.
    pub fn deadline(&self, round: u32) -> Instant {
        self.begun + self.wait + self.apart + LATE + 2 * self.setup.visit_may_last() * round
    }

    /// Sleeps; an error if a signal has come.
    pub(crate) fn sleep(&self, pause: Duration) -> Result<(), Interrupted> {
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // An error of poll(2) shortens the pause, no more.
            let _ = wait(&[self.signals.as_fd()], Some(left));
            match self.signals.next() {
                Ok(Some(_)) => return Err(Interrupted),
                _ if left.is_zero() => return Ok(()),
                _ => {}
            }
        }
    }

    /// This rank's hello with the question `ask`.
    pub(crate) fn asking(&self, ask: Ask) -> Hello {
        Hello { ask, ..self.hello.clone() }
    }

    /// True for a partner of whom nothing more is expected.
    fn has_had_its_chances(&self, partner: u32) -> bool {
        self.given_up.get(&partner).is_some_and(|slots| *slots >= CHANCES)
    }

    fn ask_for(&mut self, slot: Slot) -> Outcome {
        let Slot { round, partner, .. } = slot;
        let begun = Instant::now();
        let short = self.has_had_its_chances(partner);
        let limit = self.limit(slot, short);
        let hello = self.asking(Ask::Visit { round });
        let mut heard = begun;
        loop {
            let left = limit.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
            let (why, patience, pause) = match self.peers.find(partner) {
                Err(PeersError::Absent(why)) => (why, self.late_start(heard), PAUSE),
                Err(PeersError::Never(why)) => return Outcome::Missing(why, true),
                Ok(peer) => match ask(&peer, &self.key, &hello, left.min(PATIENCE)) {
                    Ok((channel, Reply::Come)) => {
                        self.peers.hears_of(partner);
                        return self.measure(slot, &peer, channel);
                    }
                    Ok((_, Reply::NotYet { round: theirs, again_ms })) => {
                        self.peers.hears_of(partner);
                        heard = Instant::now();
                        let why = format!("rank {partner} was in round {theirs} when round {round} had to end");
                        (why, self.patience(), Duration::from_millis(again_ms.clamp(1, 5_000)))
                    }
                    Ok((_, Reply::Past { .. })) => {
                        return Outcome::Missing(format!("rank {partner} had gone on without rank {}", self.hello.rank), false);
                    }
                    Ok((_, Reply::Refused { why })) => return Outcome::Missing(why, true),
                    Ok((_, other)) => return Outcome::Missing(format!("rank {partner} answered {other:?} out of turn"), true),
                    Err(Unheard::Never(why)) => return Outcome::Missing(why, true),
                    Err(Unheard::Refused(why)) if self.peers.listens_by_now(partner) => (why, GONE, PAUSE),
                    Err(other) => (other.why(), self.late_start(heard), PAUSE),
                },
            };
            let now = Instant::now();
            if now + pause > limit || now.duration_since(heard) + pause > patience {
                return Outcome::Missing(why, true);
            }
            if self.sleep(pause).is_err() {
                return Outcome::Interrupted(None);
            }
        }
    }

    /// The patience with a partner that may not have started yet.
    fn late_start(&self, since: Instant) -> Duration {
        (self.begun + self.wait).saturating_duration_since(since).max(self.patience())
    }

    fn measure(&self, slot: Slot, peer: &Peer, channel: Channel) -> Outcome {
        self.gate.begins();
        let at = self.begun.elapsed();
        let job = match slot.explain {
            true => Job { duration: Some(EXPLAINS_FOR), ..self.job.clone() },
            false => self.job.clone(),
        };
        let plan = plan_of(job, peer.host.clone(), peer.port);
        let me = self.hello.rank;
        let watchdog = match Watchdog::over(&channel, self.session_limit(slot)) {
            Ok(watchdog) => watchdog,
            Err(error) => return Outcome::Missing(format!("rank {me}: {error}"), false),
        };
        if slot.explain {
            let ended = explain::run_over(&plan, &How { light: true, ..How::default() }, channel, self.signals);
            let watch = watchdog.call_off();
            let outcome = match ended {
                Ok(found) => self.explained(slot, at, found),
                Err(error) => failed(slot, &error, watch.bitten),
            };
            return outcome.unless_stood_still(me, watch);
        }
        let ended = ping::run_over(&plan, channel, self.signals, &mut NoWatcher);
        let watch = watchdog.call_off();
        let outcome = match ended {
            Ok(run) => self.measured(slot, at, run),
            Err(error) => failed(slot, &error, watch.bitten),
        };
        outcome.unless_stood_still(me, watch)
    }

    /// The visit with its round trips.
    fn measured(&self, slot: Slot, at: Duration, Run { head, mut body }: Run) -> Outcome {
        let row = body.results.pop().unwrap_or_default();
        if head.interrupted {
            let visit = (row.rtt_ns.count > 0).then(|| Box::new(self.visit(slot, at, row)));
            return Outcome::Interrupted(visit);
        }
        match head.error {
            Some(error) => Outcome::Missing(format!("rank {} was lost in mid-visit: {error}", slot.partner), true),
            None if row.rtt_ns.count == 0 => Outcome::Missing("no request was answered".into(), false),
            None => Outcome::Measured(Box::new(self.visit(slot, at, row))),
        }
    }

    /// The visit with its stages.
    fn explained(&self, slot: Slot, at: Duration, found: Explain) -> Outcome {
        if found.head.interrupted {
            return Outcome::Interrupted(None);
        }
        let no_hooks = found.missing.iter().find(|missing| missing.hook == Missing::ALL);
        if let Some(why) = no_hooks.map(|missing| &missing.why) {
            return Outcome::Missing(format!("rank {} measures no stages: {why}", self.hello.rank), false);
        }
        let typical = found.body.results.into_iter().next().filter(|found| found.typical.count > 0);
        let Some(typical) = typical else {
            let why = found.head.error.unwrap_or_else(|| "too few round trips were traced".into());
            return Outcome::Missing(format!("no stages: {why}"), false);
        };
        let stage = |of: Stage| StageTime { name: of.name, side: of.side, direction: of.direction, typical_ns: of.typical_ns };
        Outcome::Measured(Box::new(Visit {
            at_ns: at.as_nanos() as u64,
            transactions: typical.rtt_ns.count,
            stages: typical.stages.into_iter().map(stage).collect(),
            warnings: typical.warnings,
            ..self.blank(slot)
        }))
    }

    fn visit(&self, slot: Slot, at: Duration, row: Row) -> Visit {
        Visit {
            at_ns: at.as_nanos() as u64,
            transactions: row.transactions,
            lost: row.lost,
            rtt_ns: Some(row.rtt_ns),
            histogram: row.histogram,
            warnings: row.warnings,
            ..self.blank(slot)
        }
    }

    fn answer(&mut self, slot: Slot) -> Outcome {
        let Slot { round, partner, .. } = slot;
        if let Err(PeersError::Never(why)) = self.peers.find(partner) {
            return Outcome::Missing(why, true);
        }
        let begun = Instant::now();
        let short = self.has_had_its_chances(partner);
        let limit = self.limit(slot, short);
        let whole = Duration::from(if slot.explain { EXPLAINS_FOR } else { self.setup.duration });
        let session_limit = self.session_limit(slot);
        let (mut heard, mut look_at) = (begun, begun + LOOK_EVERY);
        let (mut patience, mut why) = (self.late_start(begun), format!("rank {partner} did not come"));
        loop {
            self.gate.drain();
            if let Some(took) = self.gate.ended() {
                self.peers.hears_of(partner);
                return match took >= whole {
                    true => Outcome::Served,
                    false => {
                        Outcome::Missing(format!("rank {partner} was lost in mid-visit, after {:.1} s", took.as_secs_f64()), true)
                    }
                };
            }
            let now = Instant::now();
            let next = match self.gate.guest_since() {
                Some(since) if now.duration_since(since) > session_limit + self.patience() => {
                    // The session does not even end when its connection does.
                    return Outcome::Missing(format!("rank {partner} stopped in mid-visit"), true);
                }
                Some(since) if now.duration_since(since) > session_limit => {
                    self.gate.cut();
                    now + PAUSE
                }
                Some(since) => since + session_limit + Duration::from_millis(1),
                None => {
                    let over = now >= limit || now.duration_since(heard) > patience;
                    if over && self.gate.close() {
                        return Outcome::Missing(why, true);
                    }
                    if now >= look_at && !short {
                        match self.look(partner) {
                            Ok(theirs) if theirs > round => {
                                if self.gate.close() {
                                    return Outcome::Missing(
                                        format!("rank {partner} had gone on without rank {}", self.hello.rank),
                                        false,
                                    );
                                }
                            }
                            Ok(theirs) => {
                                (heard, patience) = (Instant::now(), self.patience());
                                why = format!("rank {partner} was in round {theirs} when round {round} had to end");
                            }
                            Err((told, Some(never_after))) => (why, patience) = (told, never_after),
                            Err((told, None)) => why = told,
                        }
                        look_at = Instant::now() + LOOK_EVERY;
                    }
                    limit.min(look_at).min(heard + patience + Duration::from_millis(1))
                }
            };
            let _ = wait(&[self.signals.as_fd(), self.gate.as_fd()], Some(next.saturating_duration_since(Instant::now())));
            if matches!(self.signals.next(), Ok(Some(_))) {
                self.let_finish();
                return Outcome::Interrupted(None);
            }
        }
    }

    /// A client that is interrupted as well reports its visit so far to this server.
    fn let_finish(&self) {
        let until = Instant::now() + FINISHES_WITHIN;
        while self.gate.guest_since().is_some() && Instant::now() < until {
            self.gate.drain();
            let _ = wait(&[self.gate.as_fd()], Some(until.saturating_duration_since(Instant::now())));
        }
    }

    /// The round of `rank`. The error: why the rank is not heard, and the patience with it from now on, if that changes.
    pub(crate) fn look(&mut self, rank: u32) -> Result<u32, (String, Option<Duration>)> {
        let peer = match self.peers.find(rank) {
            Ok(peer) => peer,
            Err(PeersError::Absent(why)) => return Err((why, None)),
            Err(PeersError::Never(why)) => return Err((why, Some(Duration::ZERO))),
        };
        match ask(&peer, &self.key, &self.asking(Ask::Where), LOOK_WITHIN) {
            Ok((_, Reply::Here { round })) => {
                self.peers.hears_of(rank);
                Ok(round)
            }
            Ok((_, Reply::Refused { why })) => Err((why, Some(Duration::ZERO))),
            Ok((_, other)) => Err((format!("rank {rank} answered {other:?} out of turn"), Some(Duration::ZERO))),
            Err(Unheard::Never(why)) => Err((why, Some(Duration::ZERO))),
            Err(Unheard::Refused(why)) if self.peers.listens_by_now(rank) => Err((why, Some(GONE))),
            Err(other) => Err((other.why(), None)),
        }
    }
}

/// The plan of a visit to the rank at `host`, whose session is open.
pub(crate) fn plan_of(job: Job, host: String, port: u16) -> Plan {
    Plan {
        target: Target::Host { host, port, key: None },
        ipv6: false,
        stack: None,
        rows: vec![job],
        raw: None,
        shown: vec![Quantile::P50],
        floor: None,
        command: Vec::new(),
    }
}

/// A session that ended with an error; `bitten` by the watchdog.
fn failed(slot: Slot, error: &RunError, bitten: bool) -> Outcome {
    match error {
        RunError::Interrupted => Outcome::Interrupted(None),
        _ if bitten => Outcome::Missing(format!("rank {} stopped in mid-visit", slot.partner), true),
        error => Outcome::Missing(format!("the visit failed: {error}"), true),
    }
}

/// Ends a connection that outlives its time.
struct Watchdog {
    off: mpsc::Sender<()>,
    watches: std::thread::JoinHandle<Watch>,
}

/// The watchdog's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watch {
    /// It had ended the connection.
    bitten: bool,
    /// It slept far longer than it was to.
    stood_still: bool,
}

impl Watch {
    /// A watch that was to end after `limit`, and took so long.
    fn of(bitten: bool, took: Duration, limit: Duration) -> Watch {
        Watch { bitten, stood_still: took > limit + STOOD_STILL }
    }
}

impl Watchdog {
    fn over(channel: &Channel, limit: Duration) -> io::Result<Watchdog> {
        let connection = TcpStream::from(channel.as_fd().try_clone_to_owned()?);
        let (off, called) = mpsc::channel();
        let begun = Instant::now();
        let watches = std::thread::Builder::new().name("watchdog".into()).spawn(move || {
            let bites = called.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            let watch = Watch::of(bites, begun.elapsed(), limit);
            if bites {
                let _ = connection.shutdown(Shutdown::Both);
            }
            watch
        })?;
        Ok(Watchdog { off, watches })
    }

    /// Ends the watch.
    fn call_off(self) -> Watch {
        let _ = self.off.send(());
        self.watches.join().unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests;
