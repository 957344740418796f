//! Measures frames per second: one row per io, direction and size, each a search for the rate without loss, or one given rate.
//!
//! ```text
//!   --link veth                client's worker                    server's worker
//!     inject                   sends numbered frames ───────────▶ its kernel counts and discards them
//!     receive                  sends ───────────────────────────▶ counts them on its rings
//!     bounce                   sends, counts ◀──────────────────▶ bounces
//!   -i IF                      the same with another host as the other end; to inject and to receive take no search, since neither end
//!                              knows the other's counts
//! ```

mod cpus;
mod plan;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_packet::bounce::{REPEATS, Rewrite};
use hairpin_packet::filter::Filter;
use hairpin_plan::job::Sides;
use hairpin_record::frames::{Rings, per_s, wire_bits_per_s};
use hairpin_record::head::{Place, Record};
use hairpin_record::run::{ClockFacts, Hosts, Link, Side};
use hairpin_record::stream::{Direction, Step, Stream, StreamBody, StreamRow, Trial};
use hairpin_record::warning::Warning;
use hairpin_sys::signal::Signals;
use hairpin_units::Nanos;
use hairpin_wire::framing::{ETHERNET_HEADER, MIN_FRAME_WITHOUT_FCS};
use hairpin_wire::raw::ETHERTYPE;

use self::cpus::Cpus;
pub use self::plan::{Ask, StreamError, StreamPlan, StreamWatcher, TRIAL, Target};
use crate::search::{RESOLUTION, SearchResult, search};
use hairpin_session::ending::repeats;
use hairpin_session::io::IoSpec;
use hairpin_session::link::{CLIENT_END, LinkSpec, SERVER_END};
use hairpin_session::looks::Looks;
use hairpin_session::message::Flush;
use hairpin_session::message::{
    Answer, AskRings, BounceWork, Count, Failure, InterfaceFacts, Order, Send, StreamCounts, StreamReport, StreamWork,
};
use hairpin_session::row::{foreign_time, without};
use hairpin_session::rows;
use hairpin_session::server::NUDGE_EVERY;
use hairpin_session::side::{SideError, WorkerSide, wait};

/// The duration of a run that only the user ends.
const ENDLESS: Nanos = Nanos::from_secs(10 * 365 * 86_400);
/// A side reports within this time after its trial is over.
const REPORT_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for opening rings, which may include measuring which of two modes is faster.
const OPEN_WITHIN: Duration = Duration::from_secs(20);

/// Measures every row. A row that fails part way ends the run: the record keeps the results so far, with the error.
///
/// # Errors
/// The first row could not be measured.
pub fn run(plan: &StreamPlan, signals: &Signals, watcher: &mut dyn StreamWatcher) -> Result<Stream, StreamError> {
    let cpus = Cpus::choose(plan)?;
    let head = rows::begin::<StreamBody>(&plan.command);
    let mut stage = StreamTestbed::set_up(plan, signals, cpus)?;
    let (hosts, clock) = stage.facts()?;
    let searched = plan.rows.iter().any(|ask| stage.searches(plan, ask));
    let mut stream = Record {
        head,
        body: StreamBody {
            place: Place { hosts, link: stage.link(plan), clock },
            resolution: searched.then_some(RESOLUTION),
            results: Vec::new(),
        },
    };
    let mut skipped = None;
    for (index, ask) in plan.rows.iter().enumerate() {
        watcher.begins(index, plan.rows.len(), ask);
        let mut found = SearchResult::default();
        let ended = stage.row(plan, ask, &mut found, watcher);
        if let Err(StreamError::Rings(why, _)) = &ended
            && ask.optional
        {
            watcher.skipped(ask, why);
            skipped = ended.err();
            continue;
        }
        stream.results.extend(stage.finish(plan, ask, found, ended.is_ok()));
        // An endless run ends with Ctrl-C, which does not count as an interruption.
        stream.head.interrupted |= stage.interrupted.is_some() && (plan.duration.is_some() || stage.searches(plan, ask));
        match ended {
            Ok(()) if stage.interrupted.is_none() => {}
            Err(error) if stream.results.is_empty() => return Err(error),
            Err(StreamError::Interrupted) | Ok(()) => break,
            Err(error) => {
                stream.head.error = Some(format!("{} {} {} B: {error}", ask.io, ask.direction, ask.bytes));
                break;
            }
        }
    }
    nothing_opened(&stream.results, skipped).map_or(Ok(stream), Err)
}

/// Why there is no row at all, if every one was skipped: the reason of the `last` one.
fn nothing_opened(rows: &[StreamRow], last: Option<StreamError>) -> Option<StreamError> {
    last.filter(|_| rows.is_empty())
}

/// A trial of a search, unless Ctrl-C has cut it short: then it has seen too little to vote on a rate, and only the first one is
/// better than nothing.
fn voting(trial: Trial, is_cut_short: bool, is_first: bool) -> Result<Trial, StreamError> {
    if is_cut_short && !is_first { Err(StreamError::Interrupted) } else { Ok(trial) }
}

/// Both sides, ready for rows.
struct StreamTestbed<'a> {
    signals: &'a Signals,
    client: WorkerSide,
    server: Option<WorkerSide>,
    interface: String,
    source: InterfaceFacts,
    /// The destination's hardware address.
    destination: Option<[u8; 6]>,
    cpus: Cpus,
    trials: u64,
    interrupted: Option<Instant>,
    rings: Sides<Option<Rings>>,
}

impl<'a> StreamTestbed<'a> {
    fn set_up(plan: &StreamPlan, signals: &'a Signals, cpus: Cpus) -> Result<StreamTestbed<'a>, StreamError> {
        let mut client = WorkerSide::start(None, None, None)?;
        let (server, interface, destination) = match &plan.target {
            Target::Veth(veth) => {
                let mut server = WorkerSide::start(None, None, None)?;
                veth.set_up_quiet(&mut client, &mut server)?;
                let facts = server.interface_facts(SERVER_END)?;
                let mac = facts.mac.ok_or_else(|| StreamError::NoAddress(SERVER_END.into()))?;
                (Some(server), CLIENT_END.to_owned(), Some(mac))
            }
            Target::Interface { name, to } => (None, name.clone(), *to),
        };
        let source = client.interface_facts(&interface)?;
        let mtu = u64::from(source.mtu);
        if let Some(ask) = plan.rows.iter().find(|ask| !(MIN_FRAME_WITHOUT_FCS..=mtu + ETHERNET_HEADER).contains(&ask.bytes)) {
            return Err(StreamError::Size { interface, mtu, bytes: ask.bytes });
        }
        let rings = Sides { client: None, server: None };
        Ok(StreamTestbed { signals, client, server, interface, source, destination, cpus, trials: 0, interrupted: None, rings })
    }

    fn facts(&mut self) -> Result<(Hosts, ClockFacts), StreamError> {
        let (client, clock) =
            self.client.facts(Some(&self.interface), self.cpus.client.first().copied(), self.cpus.client.len() as u32, false)?;
        let server = match &mut self.server {
            Some(server) => {
                Some(server.facts(Some(SERVER_END), self.cpus.server.first().copied(), self.cpus.server.len() as u32, true)?.0)
            }
            None => None,
        };
        Ok((Hosts { client, server }, clock))
    }

    fn link(&self, plan: &StreamPlan) -> Link {
        let mtu = Some(u64::from(self.source.mtu));
        match &plan.target {
            Target::Veth(veth) => LinkSpec::Veth(veth.clone()).record(&veth.ends(false), mtu),
            Target::Interface { name, to } => Link {
                kind: "interface".into(),
                interface: Some(name.clone()),
                mtu,
                peer: to.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":")),
                options: Default::default(),
                group: None,
            },
        }
    }

    /// True if this host can count the losses, so that a rate without loss can be searched.
    fn searches(&self, plan: &StreamPlan, ask: &Ask) -> bool {
        plan.per_s.is_none() && (self.server.is_some() || ask.direction == Direction::Bounce)
    }

    /// Opens both sides' rings and runs the row's trials.
    fn row(
        &mut self,
        plan: &StreamPlan,
        ask: &Ask,
        found: &mut SearchResult,
        watcher: &mut dyn StreamWatcher,
    ) -> Result<(), StreamError> {
        self.rings = Sides { client: None, server: None };
        let open = |side: &mut WorkerSide, io: &IoSpec, interface: &str| open(side, io, interface, plan.queues);
        if let Some(server) = &mut self.server {
            self.rings.server = match ask.direction {
                Direction::Inject => {
                    server.order(&Order::Rings(None))?;
                    None
                }
                Direction::Receive | Direction::Bounce => Some(open(server, &ask.io.server, SERVER_END)?),
            };
        }
        self.rings.client = Some(open(&mut self.client, &ask.io.client, &self.interface)?);
        if self.searches(plan, ask) {
            let mut is_first = true;
            return search(found, |asked| {
                let (trial, error) = self.trial(plan, ask, asked, watcher)?;
                if let Some(error) = error {
                    return Err(StreamError::Ended(error));
                }
                let step = Step { asked_per_s: asked, offered_per_s: trial.offered_per_s, lost: trial.lost };
                watcher.trial(ask, &step);
                voting(trial, self.interrupted.is_some(), std::mem::take(&mut is_first))
            });
        }
        let (trial, error) = self.trial(plan, ask, plan.per_s, watcher)?;
        // A row whose ring failed has the counts until then.
        if error.is_none() || trial.offered > 0 {
            found.steps.push(Step { asked_per_s: plan.per_s, offered_per_s: trial.offered_per_s, lost: trial.lost });
            found.flat = Some(trial);
        }
        error.map_or(Ok(()), |error| Err(StreamError::Ended(error)))
    }

    /// The row as far as it was measured; `whole` if that is to its end.
    fn finish(&mut self, plan: &StreamPlan, ask: &Ask, found: SearchResult, whole: bool) -> Option<StreamRow> {
        let offered = found.flat?;
        let mut warnings = Vec::new();
        let shown = found.lossless.as_ref().unwrap_or(&offered);
        let (client, server) = (&shown.cpu.client, shown.cpu.server.as_ref());
        for (side, cpu, other) in [(Side::Client, Some(client), server), (Side::Server, server, Some(client))] {
            let metered = Nanos(shown.duration_ns);
            let cpu = cpu.map(|cpu| without(cpu, other, metered));
            warnings.extend(cpu.and_then(|cpu| foreign_time(side, &cpu, metered)));
        }
        let shared = self.cpus.client.iter().find(|cpu| self.cpus.server.contains(cpu));
        warnings.extend(shared.filter(|_| self.rings.server.is_some()).map(|cpu| Warning::SharedCore { cpu: *cpu, spins: true }));
        if whole && found.lossless.is_none() && self.searches(plan, ask) && self.interrupted.is_none() {
            let least = found.steps.iter().filter_map(|step| step.asked_per_s).fold(f64::INFINITY, f64::min);
            warnings.push(Warning::AlwaysLoss { least_per_s: least });
        }
        let sends = self.server.is_some() || ask.direction != Direction::Receive;
        Some(StreamRow {
            io: if self.server.is_some() { ask.io.to_string() } else { ask.io.client.to_string() },
            direction: ask.direction,
            frame_bytes: sends.then_some(ask.bytes),
            queues: plan.queues,
            lossless: found.lossless,
            loses_per_s: found.loses_per_s,
            offered,
            search: found.steps,
            client: self.rings.client.take(),
            server: self.rings.server.take(),
            warnings: warnings.iter().map(Warning::note).collect(),
        })
    }

    /// The trial as far as it went, and why it ended early, if it did.
    fn trial(
        &mut self,
        plan: &StreamPlan,
        ask: &Ask,
        asked: Option<f64>,
        watcher: &mut dyn StreamWatcher,
    ) -> Result<(Trial, Option<String>), StreamError> {
        if self.interrupted.is_some() {
            return Err(StreamError::Interrupted);
        }
        self.trials += 1;
        let cookie = plan.cookie.wrapping_add(self.trials);
        let local = self.server.is_some();
        let flows = plan.queues as u16;
        let duration = plan.duration.or((local || self.searches(plan, ask)).then_some(TRIAL));
        let sends = local || ask.direction != Direction::Receive;
        let send = match (sends, self.destination, self.source.mac) {
            (false, ..) => None,
            (true, Some(destination), Some(source)) => {
                let (bytes, duration) = (ask.bytes as usize, duration.unwrap_or(ENDLESS));
                Some(Send { destination, source, cookie, bytes, per_s: asked, duration })
            }
            (true, ..) => return Err(StreamError::NoAddress(self.interface.clone())),
        };
        let count = match ask.direction {
            Direction::Bounce => Count::Of(cookie),
            Direction::Receive if !local => Count::Anybody,
            Direction::Inject | Direction::Receive => Count::Nobody,
        };
        let flows_heard = if local || ask.direction == Direction::Bounce { flows } else { u16::MAX };
        let mine =
            StreamWork { send, count, flows: flows_heard, duration: duration.filter(|_| !sends), cpus: self.cpus.client.clone() };
        let before = self.far_frames(ask)?;
        if let Some(order) = self.servers_order(ask, cookie, flows) {
            let server = self.server.as_mut().ok_or(StreamError::Interrupted)?;
            server.clear_stop();
            server.send(&order)?;
            self.answer(Side::Server, OPEN_WITHIN, watcher)?;
        }
        // The user may have stopped the client before it had an order.
        if self.interrupted.is_some() {
            return Err(StreamError::Interrupted);
        }
        self.client.clear_stop();
        self.client.send(&Order::Stream(Box::new(mine)))?;
        self.answer(Side::Client, OPEN_WITHIN, watcher)?;
        let within = Duration::from(duration.unwrap_or(ENDLESS)) + REPORT_WITHIN;
        let client = self.report(Side::Client, within, watcher)?;
        let server = match (ask.direction, &mut self.server) {
            (Direction::Receive | Direction::Bounce, Some(server)) => {
                server.stop();
                Some(self.report(Side::Server, REPORT_WITHIN, watcher)?)
            }
            _ => None,
        };
        let after = self.far_frames(ask)?;
        let far = before.zip(after).map(|(before, after)| after.wrapping_sub(before));
        let error = client.error.clone().or(server.as_ref().and_then(|server| server.error.clone()));
        Ok((joined(ask, asked, client, server, far), error))
    }

    /// Frames counted by the other end's kernel, if it does the counting.
    fn far_frames(&mut self, ask: &Ask) -> Result<Option<u64>, StreamError> {
        match (&mut self.server, ask.direction) {
            (Some(server), Direction::Inject) => Ok(Some(server.interface_facts(SERVER_END)?.rx_frames)),
            _ => Ok(None),
        }
    }

    fn servers_order(&self, ask: &Ask, cookie: u64, flows: u16) -> Option<Order> {
        self.server.as_ref()?;
        let cpus = self.cpus.server.clone();
        match ask.direction {
            Direction::Inject => None,
            Direction::Receive => {
                Some(Order::Stream(Box::new(StreamWork { send: None, count: Count::Of(cookie), flows, duration: None, cpus })))
            }
            Direction::Bounce => Some(Order::Bounce(Box::new(BounceWork {
                filter: Filter::Ethertype(ETHERTYPE).to_string(),
                rewrite: Rewrite::Macs.to_string(),
                flush: Flush::Adaptive,
                verify: false,
                repeats: Some(REPEATS),
                duration: None,
                cpus,
            }))),
        }
    }

    fn report(&mut self, side: Side, within: Duration, watcher: &mut dyn StreamWatcher) -> Result<StreamReport, StreamError> {
        match self.answer(side, within, watcher)? {
            Answer::Streamed(report) => Ok(*report),
            Answer::Bounced(report) => {
                let counts = StreamCounts { came: report.frames.received, ..StreamCounts::default() };
                Ok(StreamReport { counts, lost: report.frames.lost, cpu: report.cpu, error: report.error })
            }
            other => Err(SideError::OutOfTurn(format!("{other:?}")).into()),
        }
    }

    /// The answer that ends a side's trial. Ctrl-C stops the client, which then reports its counts so far.
    fn answer(&mut self, side: Side, within: Duration, watcher: &mut dyn StreamWatcher) -> Result<Answer, StreamError> {
        let begun = Instant::now();
        let (mut looks, mut until) = (Looks::begin(begun), begun + within);
        loop {
            let now = Instant::now();
            until += looks.stood_still(now);
            while let Ok(Some(signal)) = self.signals.next() {
                if repeats(self.interrupted, signal, now) {
                    continue;
                }
                if self.interrupted.is_some() {
                    return Err(StreamError::Interrupted);
                }
                self.interrupted = Some(now);
                self.client.stop();
            }
            let from = match (side, &mut self.server) {
                (Side::Server, Some(server)) => server,
                _ => &mut self.client,
            };
            match from.try_answer()? {
                Some(Answer::Streaming(counts)) => watcher.second(&counts),
                Some(Answer::Bouncing { .. }) => {}
                Some(Answer::Failed(failure)) => return Err(SideError::Failed(failure).into()),
                Some(answer) => return Ok(answer),
                None if Instant::now() >= until => {
                    let message = format!("the {side}'s worker process says nothing");
                    return Err(SideError::Failed(Failure { message, missing: false }).into());
                }
                None => wait(&[from.as_fd(), self.signals.as_fd()], Some(NUDGE_EVERY)).map_err(SideError::Prepare)?,
            }
        }
    }
}

fn open(side: &mut WorkerSide, io: &IoSpec, interface: &str, queues: u32) -> Result<Rings, StreamError> {
    let filter = Filter::Ethertype(ETHERTYPE).to_string();
    let ask =
        AskRings { io: vec![io.clone()], interface: interface.into(), queue: 0, queues, filter, longest: None, output: None };
    match side.order(&Order::Rings(Some(Box::new(ask)))) {
        Ok(Answer::Rings { rings, .. }) => Ok(rings),
        Ok(other) => Err(SideError::OutOfTurn(format!("{other:?}")).into()),
        Err(SideError::Failed(failure)) => Err(StreamError::Rings(failure.message, failure.missing)),
        Err(error) => Err(error.into()),
    }
}

/// Joins both sides' reports into one trial. `far` is the count of the other end's kernel.
fn joined(ask: &Ask, asked: Option<f64>, client: StreamReport, server: Option<StreamReport>, far: Option<u64>) -> Trial {
    let sent = &client.counts;
    let counts = match (ask.direction, &server) {
        (Direction::Receive, Some(server)) => &server.counts,
        _ => sent,
    };
    // A receiver knows about its sender's frames only from their sequence numbers.
    let follows = sent.sent_for == Nanos::ZERO && ask.direction == Direction::Receive;
    let (offered, duration_ns) = if follows { (sent.span, sent.came_for.0) } else { (sent.sent, sent.sent_for.0) };
    let delivered = match ask.direction {
        Direction::Inject => far.map(|far| far.min(offered)),
        Direction::Receive | Direction::Bounce => Some(counts.came),
    };
    let mut lost_by_cause = client.lost;
    if let Some(server) = &server {
        lost_by_cause = lost_by_cause.plus(server.lost);
    }
    let lost = offered.saturating_sub(delivered.unwrap_or(offered.saturating_sub(lost_by_cause.total())));
    let through = delivered.unwrap_or(offered);
    let bytes = if follows { sent.came_bytes } else { through * ask.bytes };
    Trial {
        asked_per_s: asked,
        duration_ns,
        offered,
        delivered,
        offered_per_s: per_s(offered, duration_ns),
        delivered_per_s: delivered.map(|delivered| per_s(delivered, duration_ns)),
        wire_bits_per_s: wire_bits_per_s(through, bytes, duration_ns),
        lost,
        lost_by_cause,
        lost_elsewhere: lost.saturating_sub(lost_by_cause.total()),
        duplicates: counts.duplicates,
        reordered: counts.reordered,
        foreign: counts.foreign,
        cpu: hairpin_record::run::Cpu { client: client.cpu, server: server.map(|server| server.cpu) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_record::frames::Lost;
    use hairpin_session::error::Blame;

    fn ask(direction: Direction) -> Ask {
        Ask { io: "packet".parse().unwrap(), direction, bytes: 60, optional: false }
    }

    fn report(counts: StreamCounts, lost: Lost) -> StreamReport {
        StreamReport { counts, lost, ..StreamReport::default() }
    }

    fn row() -> StreamRow {
        StreamRow {
            io: "packet:spin".into(),
            direction: Direction::Receive,
            frame_bytes: None,
            queues: 1,
            lossless: None,
            loses_per_s: None,
            offered: Trial::default(),
            search: Vec::new(),
            client: None,
            server: None,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn rows_that_were_all_skipped_are_a_failure_with_the_reason() {
        let last = || Some(StreamError::Rings("packet:spin: opening it on eth0 needs CAP_NET_RAW".into(), true));
        let error = nothing_opened(&[], last()).expect("nothing was measured");
        assert!(error.blame() == Blame::Missing && error.to_string().contains("CAP_NET_RAW"), "{error}");
        assert!(nothing_opened(&[row()], last()).is_none(), "another path opened");
        assert!(nothing_opened(&[row()], None).is_none() && nothing_opened(&[], None).is_none());
    }

    #[test]
    fn a_trial_that_was_cut_short_decides_on_no_rate() {
        let vote = |is_cut_short, is_first| voting(Trial::default(), is_cut_short, is_first);
        assert!(vote(false, true).is_ok() && vote(false, false).is_ok());
        assert!(vote(true, true).is_ok(), "better than nothing");
        assert!(matches!(vote(true, false), Err(StreamError::Interrupted)));
    }

    #[test]
    fn missing_frames_are_lost_by_cause_or_elsewhere() {
        let sent = StreamCounts { sent: 1000, sent_for: Nanos::from_secs(1), ..StreamCounts::default() };
        let came = StreamCounts { came: 900, duplicates: 2, reordered: 3, ..StreamCounts::default() };
        let client = report(sent, Lost { tx_dropped: 10, ..Lost::default() });
        let server = report(came, Lost { rx_ring_full: 60, ..Lost::default() });
        let trial = joined(&ask(Direction::Receive), Some(2000.0), client.clone(), Some(server), None);
        assert_eq!((trial.offered, trial.delivered, trial.lost, trial.lost_elsewhere), (1000, Some(900), 100, 30));
        assert_eq!((trial.offered_per_s, trial.delivered_per_s), (1000.0, Some(900.0)));
        assert_eq!((trial.duplicates, trial.reordered, trial.wire_bits_per_s), (2, 3, 900.0 * 84.0 * 8.0));

        let trial = joined(&ask(Direction::Inject), None, client.clone(), None, Some(1002));
        assert_eq!((trial.delivered, trial.lost), (Some(1000), 0));
        // Towards another host only the losses of this side are known.
        let trial = joined(&ask(Direction::Inject), None, client, None, None);
        assert_eq!((trial.delivered, trial.lost, trial.lost_elsewhere), (None, 10, 0));
    }

    #[test]
    fn receiver_counts_losses_by_the_span_of_numbers() {
        let counts =
            StreamCounts { came: 90, came_bytes: 5400, span: 100, came_for: Nanos::from_secs(2), ..StreamCounts::default() };
        let trial = joined(&ask(Direction::Receive), None, report(counts, Lost::default()), None, None);
        assert_eq!((trial.offered, trial.delivered, trial.lost, trial.lost_elsewhere), (100, Some(90), 10, 10));
        assert_eq!((trial.offered_per_s, trial.wire_bits_per_s), (50.0, 90.0 * 84.0 * 4.0));
    }
}
