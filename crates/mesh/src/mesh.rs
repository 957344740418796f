//! One rank from its start to its end, and the record at rank 0.

use hairpin_units::Gather;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hairpin_lab::explain;
use hairpin_plan::job::{Job, Sides};
use hairpin_record::head::{Head, Record, TOOL};
use hairpin_record::mesh::{Mesh, MeshBody};
use hairpin_record::warning::Note;
use hairpin_session::address::interface_at;
use hairpin_session::error::{Blame, RunError};
use hairpin_session::key::Key;
use hairpin_session::pinnable::choices;
use hairpin_session::plan;
use hairpin_session::serve::{Grants, Service, serve};
use hairpin_session::side::{WorkerSide, wait};
use hairpin_session::time::rfc3339;
use hairpin_sys::host::RealHost;
use hairpin_sys::signal::Signals;
use hairpin_sys::thread::allowed_cpus;
use hairpin_tune::Profile;

use crate::address::{self, AddressError};
use crate::collect::{self, Undelivered};
use crate::gate::RankGate;
use crate::judge::{self, Judge, Judged};
use crate::meeting::{self, Card, MeetingError};
use crate::merge::{self, MergeError, Parts};
use crate::peers::Peers;
use crate::rank::Identity;
use crate::run::{EXPLAINS_FOR, Station, plan_of};
use crate::schedule::Slot;
use crate::setup::{BadSetup, Setup};
use crate::stages;
use crate::visit::{self, Told, Visits};
use crate::words::{Ask, Hello};

/// The ranks of a mesh up to this size wait until all have begun; those of a larger one wait for their partners only.
const ALL_MEET: u32 = 1024;
/// Pauses between looks at the directory.
const LOOK: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(250)];

/// One rank's part, as its flags and its launcher have it.
#[derive(Debug)]
pub struct Plan {
    /// Which rank it is.
    pub identity: Identity,
    /// The directory for its files, which all hosts share unless there is a list of them.
    pub dir: PathBuf,
    /// Name and port of every rank, in order, if the user lists them.
    pub hosts: Option<Vec<(String, u16)>>,
    /// The addresses to listen on; the others are told the first. If there is none, one is chosen.
    pub listen: Vec<IpAddr>,
    /// The port; 0: the kernel chooses.
    pub port: u16,
    /// The key; `None` if rank 0 makes it.
    pub key: Option<Key>,
    /// First and last port of measured traffic.
    pub data_ports: Option<(u16, u16)>,
    /// Several ranks may be on one host.
    pub same_host: bool,
    /// For how long ranks wait for one another at the start.
    pub wait: Duration,
    /// The work of the ranks.
    pub setup: Setup,
    /// The CPU of each side.
    pub cpus: Sides<Option<u32>>,
    /// A random number.
    pub random: u64,
    /// Judges the mesh, at rank 0.
    pub judge: Judge,
    /// At rank 0: the stages of a slow pair are measured, beside those of an ordinary one.
    pub explain: bool,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// How a rank ended.
#[derive(Debug)]
pub enum Ended {
    /// Rank 0: the record.
    Record(Box<Mesh>),
    /// Another rank: rank 0 has its visits.
    Delivered,
    /// Its visits are in its file alone; why.
    Written(String),
    /// Its visits are nowhere; why.
    Lost(String),
}

/// Why a rank did not begin.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The ranks do not meet.
    #[error(transparent)]
    Meeting(#[from] MeetingError),
    /// No address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nothing can listen there.
    #[error("cannot listen on {at}: {source}; choose another address with --listen, or another --port")]
    Listen {
        /// The address and port.
        at: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// Rank 0 has not written its file.
    #[error("rank 0 did not begin within {:.0} s (no rank-0.json in {}): start it, or name a directory that all hosts share with --dir", within.as_secs_f64(), dir.display())]
    NoRankZero {
        /// The time waited.
        within: Duration,
        /// The directory.
        dir: PathBuf,
    },
    /// Rank 0 is another version, or was started with other flags.
    #[error("{0}")]
    Mixed(String),
    /// Rank 0 listens on loopback, and this is another host.
    #[error("rank 0 listens on {0}, which only its own host reaches: start it with --listen ADDR, or without --same-host")]
    Loopback(String),
    /// Several ranks are on one host.
    #[error("ranks {ranks} are all on host {host}, and would measure each other's load: start one a host, or say --same-host")]
    SameHost {
        /// The ranks.
        ranks: String,
        /// The name of their host.
        host: String,
    },
    /// The rows cannot be measured, or this host cannot do so.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The setup is not valid.
    #[error(transparent)]
    Setup(#[from] BadSetup),
    /// The kernel gives no thread, descriptor or signal.
    #[error("cannot start the server of this rank: {0}")]
    Server(io::Error),
    /// Ctrl-C or SIGTERM came before the first slot.
    #[error("stopped before anything was measured")]
    Interrupted,
}

impl MeshError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            MeshError::Run(error) => error.blame(),
            MeshError::Meeting(MeetingError::Used { .. } | MeetingError::Key(_)) => Blame::Usage,
            MeshError::Address(AddressError::Unread(_)) => Blame::Failed,
            MeshError::Address(_) | MeshError::SameHost { .. } | MeshError::Loopback(_) => Blame::Usage,
            MeshError::Mixed(_) | MeshError::Setup(_) => Blame::Usage,
            _ => Blame::Failed,
        }
    }
}

/// Runs one rank to its end. `say` takes a line for the user.
///
/// # Errors
/// The rank did not begin, or rank 0 could not make the record.
pub fn run(plan: Plan, signals: &Signals, say: &dyn Fn(String)) -> Result<Ended, MeshError> {
    let (me, started) = (plan.identity.rank, rfc3339(SystemTime::now()));
    let schedule = plan.setup.schedule()?;
    let job = plan.setup.job(plan.random, plan.cpus)?;
    check(job.clone())?;
    if plan.explain {
        explain::check_remote(&Job { duration: Some(EXPLAINS_FOR), ..job.clone() })?;
    }
    if let Some(address) = plan.listen.first().filter(|address| address.is_unspecified() && plan.hosts.is_none()) {
        return Err(AddressError::Unspecified(*address).into());
    }
    meeting::enter(&plan.dir, me)?;
    let first = match me {
        0 => None,
        // Rank 0's file says which mesh this is, and that its key is there.
        _ if plan.hosts.is_none() || plan.key.is_none() => Some(rank_zero(&plan, signals)?),
        _ => None,
    };
    let key = match (plan.key.clone(), me) {
        (Some(key), _) => key,
        (None, 0) => meeting::make_key(&plan.dir)?,
        (None, _) => meeting::load_key(&plan.dir)?,
    };
    let host = plan.identity.host.clone().unwrap_or_else(address::host_name);
    let host_id = address::host_id();
    let own = match plan.listen.first() {
        Some(address) => *address,
        None => {
            let towards = first.as_ref().and_then(|card| card.address.parse().ok());
            if let (Some(card), Some(true)) = (&first, towards.map(|address: IpAddr| address.is_loopback()))
                && card.host_id != host_id
            {
                return Err(MeshError::Loopback(card.address.clone()));
            }
            address::own(plan.identity.one_host, towards, &host)?
        }
    };
    let bind = |address: IpAddr, port: u16| {
        let at = SocketAddr::new(address, port);
        TcpListener::bind(at).map_err(|source| MeshError::Listen { at, source })
    };
    let mut listeners = vec![bind(own, plan.port)?];
    let port = listeners[0].local_addr().map_err(MeshError::Server)?.port();
    for address in plan.listen.iter().skip(1) {
        listeners.push(bind(*address, port)?);
    }

    let mesh = match (&first, &plan.hosts) {
        (Some(card), _) => card.mesh.clone(),
        (None, Some(_)) => plan.identity.job.clone().unwrap_or_else(|| meeting::LISTED.into()),
        (None, None) => format!("{}-{:08x}", plan.identity.job.as_deref().unwrap_or("mesh"), plan.random as u32),
    };
    let hello = Hello { mesh: mesh.clone(), tool: TOOL.into(), setup: plan.setup.clone(), rank: me, ask: Ask::Where };
    let gate = RankGate::new(hello.clone()).map_err(MeshError::Server)?;
    for listener in listeners {
        serves(listener, key.clone(), plan.data_ports, plan.cpus.server, &gate)?;
    }
    let mut worker = WorkerSide::start(None, None, None).map_err(RunError::from)?;
    let interface = interface_at(own, 0);
    let (facts, _) = worker.facts(interface.as_deref(), plan.cpus.client, job.threads, false).map_err(RunError::from)?;
    drop(worker);
    let place = hairpin_tune::Place { cpus: plan.cpus.client.as_slice(), interface: interface.as_deref() };
    let checked = hairpin_tune::check::check(&RealHost, &place, Profile::Latency);
    let card = Card {
        mesh,
        rank: me,
        host,
        host_id,
        address: own.to_string(),
        port,
        tool: TOOL.into(),
        command: plan.command.clone(),
        started: started.clone(),
        setup: plan.setup.clone(),
        facts,
        findings: checked.findings.into_iter().map(|finding| finding.name).collect(),
    };
    meeting::write_card(&plan.dir, &card)?;

    let mut peers = match plan.hosts.clone() {
        Some(hosts) => Peers::listed(hosts),
        None => Peers::in_directory(plan.dir.clone()),
    };
    if me == 0 {
        say(plan.setup.cost(&schedule));
    }
    let (mut wait, mut apart) = (plan.wait, Duration::ZERO);
    if plan.hosts.is_none() && plan.setup.ranks <= ALL_MEET {
        let all = all_meet(&plan, signals, say)?;
        peers.have_started();
        (wait, apart) = (Duration::ZERO, if all { Duration::ZERO } else { plan.wait });
    }
    let mut station = Station {
        hello,
        setup: plan.setup.clone(),
        schedule,
        job,
        peers,
        key,
        gate,
        visits: Visits::new(&plan.dir, me),
        signals,
        wait,
        apart,
        say,
        begun: Instant::now(),
        given_up: HashMap::new(),
    };
    if me == 0 {
        let (body, interrupted) = collects(&mut station, &plan, &card)?;
        // The key is of no use any more.
        if plan.key.is_none() {
            meeting::remove_key(&plan.dir);
        }
        let mut head = Head::new::<MeshBody>(plan.command, started);
        head.interrupted = interrupted;
        return Ok(Ended::Record(Box::new(Record { head, body })));
    }
    Ok(delivers(&mut station, &card))
}

/// Refuses work that cannot be measured between two hosts.
///
/// # Errors
/// The reason.
pub fn check(job: Job) -> Result<(), RunError> {
    plan::check(&plan_of(job, "0.0.0.0".into(), 0))
}

/// A rank other than 0: measures, delivers, and again if rank 0 has further slots for it.
fn delivers(station: &mut Station<'_>, card: &Card) -> Ended {
    let (mut slots, mut last) = (station.schedule.slots(station.hello.rank).collect::<Vec<Slot>>(), station.schedule.rounds());
    loop {
        let mut interrupted = station.walk(slots).is_err();
        station.ends(last);
        let mut until = station.end_of_deliveries(last, interrupted);
        match station.deliver(card, until) {
            Ok(false) => {}
            Ok(true) => (interrupted, until) = (true, until.min(station.end_of_deliveries(last, true))),
            Err(Undelivered(why)) => return if station.visits.is_whole() { Ended::Written(why) } else { Ended::Lost(why) },
        }
        match station.more(until) {
            Ok(more) if !more.is_empty() && !interrupted => {
                last = more.iter().map(|slot| slot.round).max().unwrap_or(last);
                slots = more;
            }
            // Rank 0 has the visits.
            _ => return Ended::Delivered,
        }
    }
}

/// Rank 0: measures, collects, and again as long as there are pairs to visit again.
fn collects(station: &mut Station<'_>, plan: &Plan, card: &Card) -> Result<(MeshBody, bool), MeshError> {
    let (mut slots, mut last) = (station.schedule.slots(0).collect::<Vec<Slot>>(), station.schedule.rounds());
    let (mut visit, mut interrupted, mut explain, mut looked_again) = (plan.setup.visits, false, plan.explain, false);
    // Those without further slots deliver once and end.
    let mut others: BTreeSet<u32> = (1..plan.setup.ranks).gather();
    let mut cards = std::iter::once((0, card.clone())).gather::<BTreeMap<_, _>>();
    let (mut of_others, mut gone) = (BTreeMap::<u32, Vec<Told>>::new(), BTreeMap::<u32, String>::new());
    // Beyond the schedule, of the ranks that stayed for them.
    let mut later: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
    loop {
        interrupted |= station.walk(slots).is_err();
        station.ends(last);
        station.gate.collects();
        let (collection, unheard, stopped) = station.collect(&others, station.end_of_deliveries(last, interrupted));
        interrupted |= stopped;
        let delivered: BTreeSet<u32> = collection.visits.keys().copied().gather();
        // One that was given up may have come back.
        gone.retain(|rank, _| !delivered.contains(rank));
        cards.extend(collection.cards);
        of_others.extend(collection.visits);
        for rank in unheard.keys() {
            // A card or visits that cannot be read are missing, with the rank's reason.
            cards.extend(meeting::read_card(&plan.dir, *rank).ok().flatten().map(|card| (*rank, card)));
            let (read, known) = (visit::read(&plan.dir, *rank).unwrap_or_default(), of_others.entry(*rank).or_default());
            if read.len() > known.len() {
                *known = read;
            }
        }
        gone.extend(unheard);
        let visits: Vec<Told> = station.visits.all().iter().chain(of_others.values().flatten()).cloned().collect();
        let slots_of = |rank: u32| {
            let later = later.get(&rank).into_iter().flatten().copied();
            station.schedule.slots(rank).chain(later).collect::<Vec<Slot>>()
        };
        let missing = collect::not_to_the_end(&gone, slots_of, &visits);
        let parts = Parts { setup: plan.setup.clone(), cards: cards.clone(), visits, missing, interrupted };
        let mut body = merge::body(parts)?;
        // Only once: if all those ranks have gone, nobody reports that they were visited again.
        let again = if interrupted || looked_again { Vec::new() } else { plan.judge.again(&body) };
        looked_again |= !again.is_empty();
        let mut further: BTreeMap<u32, Vec<Slot>> = judge::slots(&again, last, visit);
        last = further.values().flatten().map(|slot| slot.round).max().unwrap_or(last);
        visit += 2;
        if explain && !interrupted {
            let effects = plan.judge.of(&body).effects;
            let measures = |rank: u32| rank == 0 || (others.contains(&rank) && !gone.contains_key(&rank));
            if let Some(beside) = stages::choose(&body, &effects, measures) {
                let first = if further.is_empty() { judge::further(last) } else { last + 1 };
                for (rank, slots) in beside.slots(first, visit) {
                    further.entry(rank).or_default().extend(slots);
                }
                (explain, last, visit) = (false, first + 1, visit + 2);
            } else if again.is_empty() && effects.iter().any(|effect| effect.convicted) {
                let message = "no two pairs with a common host are there whose stages tell the slow from the ordinary";
                body.warnings.push(Note { code: "no-stages".into(), message: message.into() });
            }
        }
        let is_last = further.is_empty();
        slots = further.remove(&0).unwrap_or_default();
        others = further.keys().copied().filter(|rank| !gone.contains_key(rank)).gather();
        for (rank, slots) in further.iter().filter(|(rank, _)| others.contains(*rank)) {
            later.entry(*rank).or_default().extend(slots);
        }
        station.gate.tells(further);
        let stopped = station.stay(&delivered);
        if is_last {
            return Ok((judged(&plan.judge, body), interrupted));
        }
        if stopped {
            (interrupted, slots) = (true, Vec::new());
        }
    }
}

/// Answers the other ranks from a thread that ends with this process; grants the allowed CPUs and `asked`.
fn serves(
    listener: TcpListener,
    key: Key,
    ports: Option<(u16, u16)>,
    asked: Option<u32>,
    gate: &RankGate,
) -> Result<(), MeshError> {
    let allowed = allowed_cpus().map_err(MeshError::Server)?;
    let mut cpus = choices(asked.as_slice(), &allowed);
    cpus.retain(|cpu| allowed.contains(cpu) || asked == Some(*cpu));
    let service =
        Service { key: Some(key), ports, grants: Grants { fifo: None, cpus }, stack: None, gate: Some(Arc::new(gate.clone())) };
    // The rank itself takes Ctrl-C.
    let no_signals = Signals::block(&[]).map_err(MeshError::Server)?;
    let server = move || serve(&listener, service, &no_signals, &|_| {}, &|| {});
    std::thread::Builder::new().name("serve".into()).spawn(server).map(drop).map_err(MeshError::Server)
}

/// Waits until `found` finds something; `None` if it did not within `within`.
fn until<T>(
    signals: &Signals,
    within: Duration,
    mut found: impl FnMut() -> Result<Option<T>, MeshError>,
) -> Result<Option<T>, MeshError> {
    let (end, mut pause) = (Instant::now() + within, LOOK[0]);
    loop {
        if let Some(found) = found()? {
            return Ok(Some(found));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let _ = wait(&[std::os::fd::AsFd::as_fd(signals)], Some(left.min(pause)));
        if matches!(signals.next(), Ok(Some(_))) {
            return Err(MeshError::Interrupted);
        }
        pause = (pause * 2).min(LOOK[1]);
    }
}

/// Waits for rank 0's file.
fn rank_zero(plan: &Plan, signals: &Signals) -> Result<Card, MeshError> {
    let found = until(signals, plan.wait, || Ok(meeting::read_card(&plan.dir, 0)?))?;
    let card = found.ok_or_else(|| MeshError::NoRankZero { within: plan.wait, dir: plan.dir.clone() })?;
    if card.tool != TOOL {
        return Err(MeshError::Mixed(format!("rank 0 is {}, this is {TOOL}: install the same on all hosts", card.tool)));
    }
    if card.setup != plan.setup {
        return Err(MeshError::Mixed("this rank was started with other flags than rank 0: give all the same".into()));
    }
    Ok(card)
}

/// Waits until every rank has begun, at most `plan.wait`; then the ranks that are there go on. True if all have begun. Refuses
/// ranks that share a host.
fn all_meet(plan: &Plan, signals: &Signals, say: &dyn Fn(String)) -> Result<bool, MeshError> {
    let ranks = plan.setup.ranks;
    let all = until(signals, plan.wait, || Ok(meeting::all_there(&plan.dir, ranks)?.then_some(())))?.is_some();
    let mut hosts: BTreeMap<String, Vec<Card>> = BTreeMap::new();
    for rank in 0..ranks {
        if let Ok(Some(card)) = meeting::read_card(&plan.dir, rank) {
            hosts.entry(card.host_id.clone()).or_default().push(card);
        } else if !all && plan.identity.rank == 0 {
            say(format!("rank {rank} did not begin within {:.0} s; the others go on", plan.wait.as_secs_f64()));
        }
    }
    for cards in hosts.values().filter(|cards| cards.len() > 1) {
        let ranks = cards.iter().map(|card| card.rank.to_string()).collect::<Vec<_>>().join(", ");
        let host = cards[0].host.clone();
        if !plan.same_host {
            return Err(MeshError::SameHost { ranks, host });
        }
        if plan.identity.rank == 0 {
            say(format!("ranks {ranks} are all on host {host}: pairs of one round share its cores"));
        }
    }
    Ok(all)
}

/// The record of a mesh from its files alone.
///
/// # Errors
/// There is no mesh, or its files cannot be read.
pub fn merged(dir: &Path, judge: &Judge, command: Vec<String>) -> Result<Mesh, MergeError> {
    let parts = merge::of_directory(dir)?;
    let started = parts.cards.values().next().map(|card| card.started.clone()).unwrap_or_default();
    let body = judged(judge, merge::body(parts)?);
    Ok(Record { head: Head::new::<MeshBody>(command, started), body })
}

fn judged(judge: &Judge, mut body: MeshBody) -> MeshBody {
    if let Some(topology) = &judge.topology {
        for rank in &mut body.ranks {
            rank.switch = topology.path(&rank.host).and_then(|path| Some((*path.first()?).to_owned()));
        }
    }
    let Judged { effects, notes } = judge.of(&body);
    body.effects = effects;
    body.warnings.extend(notes);
    body
}

#[cfg(test)]
mod tests;
