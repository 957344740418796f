//! Both sides of a run and the link between them: set up once, then runs one row after the other until both sides have reported.
//!
//! ```text
//!   verb ──▶ server: Plan ──▶ Ready(address)
//!        ──▶ client: Row ───▶ Ready ──▶ Go ──▶ Progress, once a second ──▶ Client
//!        ──▶ server: stop ──▶ Server                    │
//!                                                       └ Ctrl-C, a dead server or silence ends the row; the results are kept
//! ```

use std::fs::{self, File};
use std::io;
use std::iter;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hairpin_iopath::measure::cpu_of;
use hairpin_plan::job::group::Group;
use hairpin_plan::job::{Address, Job, Listen, Reflector, Rewrite, Sides, scope_of};
use hairpin_plan::schedule::OpenLoop;
use hairpin_record::head::Place;
use hairpin_record::run::{Hosts, Link, Side};
use hairpin_sys::shared::{Shared, Stamps};
use hairpin_sys::signal::Signals;
use hairpin_sys::stack::Library;
use hairpin_sys::thread;
use hairpin_units::Nanos;

use crate::address::{ends_of, interface_at, local_address_towards, server_at};
use crate::channel::Channel;
use crate::ending::{is_asked, repeats};
use crate::error::RunError;
use crate::handshake::{self, Kind};
use crate::key::Key;
use crate::link::{Ends, namespace_file};
use crate::looks::Looks;
use crate::message::{Answer, At, ClientReport, Failure, Order, ServerReport};
use crate::pinnable::of_side;
use crate::plan::{Plan, Target};
use crate::raw;
use crate::server::{NUDGE_EVERY, Server, ServerEvent, without_error};
use crate::side::{SideError, WorkerSide, wait};
use crate::watch::{Told, Watcher, stands_still};

/// Both sides, ready for rows.
pub struct Testbed {
    pub client: WorkerSide,
    pub server: Server,
    interface: Option<String>,
    /// Both ends of a link of this host.
    ends: Option<Ends>,
    /// The responders of a group on this host, but for the first, which is the server.
    responders: Vec<Server>,
    /// The network namespace of a group's first responder, which holds the bridge to the others: it stays if this responder ends.
    _bridge: Option<File>,
    raw: Unmeasured,
}

/// The file of samples while no row has begun: it has none then, and goes with the testbed.
#[derive(Default)]
struct Unmeasured(Option<PathBuf>);

impl Drop for Unmeasured {
    fn drop(&mut self) {
        self.0.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

pub struct Measured {
    pub client: ClientReport,
    /// The address and report of each responder of a group on this host.
    pub responders: Vec<(Address, Result<ServerReport, String>)>,
    pub server: Option<Result<ServerReport, String>>,
    pub interrupted: bool,
}

/// Interval of looks at the signals while a connection is made.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Connects to a server, unless the user asks to end: names, addresses and handshakes may take half a minute.
fn connected(kind: Kind, host: &str, port: u16, key: Option<&Key>) -> Result<Channel, RunError> {
    let (host, key) = (host.to_owned(), key.cloned());
    // On its own thread, as looking a name up cannot be interrupted.
    let connecting = std::thread::Builder::new().name("connect".into());
    let connecting = connecting.spawn(move || handshake::connect_as(kind, &host, port, key.as_ref())).map_err(SideError::from)?;
    while !connecting.is_finished() {
        if is_asked() {
            return Err(RunError::Interrupted);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let panicked = |_| io::Error::other("the thread that connects panicked; please report this");
    Ok(connecting.join().map_err(panicked).map_err(SideError::from)??)
}

/// True once the user asks, again if they were `interrupted`, not to wait any longer.
fn is_ended(signals: &Signals, interrupted: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    while let Ok(Some(signal)) = signals.next() {
        if !repeats(*interrupted, signal, now) {
            interrupted.get_or_insert(now);
            return true;
        }
    }
    false
}

impl Measured {
    /// The client's report of a row that came to its end.
    ///
    /// # Errors
    /// The row was interrupted, or failed part way.
    pub fn whole(self) -> Result<ClientReport, RowEnd> {
        match self.client.error {
            _ if self.interrupted => Err(RowEnd::Interrupted),
            Some(message) => Err(SideError::Failed(Failure { message, missing: false }).into()),
            None => Ok(self.client),
        }
    }
}

pub enum RowEnd {
    Interrupted,
    Failed(RunError),
}

impl<E: Into<RunError>> From<E> for RowEnd {
    fn from(error: E) -> RowEnd {
        match error.into() {
            RunError::Interrupted => RowEnd::Interrupted,
            error => RowEnd::Failed(error),
        }
    }
}

impl Testbed {
    /// Starts the workers; each writes the stamps of its transactions to its area of `stamps`, if there is one.
    pub fn set_up(plan: &Plan, stamps: Option<&Sides<Stamps>>) -> Result<Testbed, RunError> {
        Testbed::set_up_as(Kind::Measuring, plan, stamps)
    }

    /// As [`Testbed::set_up`], for either kind of session with a server.
    pub fn set_up_as(kind: Kind, plan: &Plan, stamps: Option<&Sides<Stamps>>) -> Result<Testbed, RunError> {
        let stack = plan.stack.as_ref();
        let mut testbed = match &plan.target {
            Target::Link(link) => {
                let meeting = Shared::create().map_err(SideError::from)?;
                let mut client = WorkerSide::start(Some(&meeting), stamps.map(|stamps| &stamps.client), stack)?;
                let mut server = WorkerSide::start(Some(&meeting), stamps.map(|stamps| &stamps.server), stack)?;
                let ends = link.set_up(&mut client, &mut server, plan.ipv6)?;
                let listen = Listen { address: ends.server.address, ports: None, client: ends.client.address, scope: 0 };
                let bridge = asked_group(plan).and_then(|_| File::open(namespace_file(&server.pid().to_string())).ok());
                let mut responders = Vec::new();
                for index in 1..asked_group(plan).and_then(|group| group.responders).unwrap_or(1) {
                    let mut side = WorkerSide::start(None, None, stack)?;
                    let at = link.add(&mut server, &mut side, &ends.server, index)?;
                    let listen = Listen { address: at.address, ..listen };
                    responders.push(Server::Worker { side: Box::new(side), listen, late: false });
                }
                Testbed {
                    client,
                    server: Server::Worker { side: Box::new(server), listen, late: false },
                    interface: Some(ends.client.interface.clone()),
                    ends: Some(ends),
                    responders,
                    _bridge: bridge,
                    raw: Unmeasured::default(),
                }
            }
            Target::Host { host, port, key } => {
                let channel = connected(kind, host, *port, key.as_ref())?;
                Testbed::over_as(kind, channel, stamps, stack)?
            }
            Target::Echo { host, port } => {
                let resolve = |source| RunError::Resolve { host: host.clone(), port: *port, source };
                let address = server_at(host, *port, &plan.rows).map_err(resolve)?;
                let named = asked_group(plan).and_then(|group| group.interface.clone());
                let interface =
                    named.or_else(|| local_address_towards(address).and_then(|local| interface_at(local, scope_of(address))));
                Testbed {
                    client: WorkerSide::start(None, stamps.map(|stamps| &stamps.client), stack)?,
                    server: Server::Silent(Address::Inet(address)),
                    interface,
                    ends: None,
                    responders: Vec::new(),
                    _bridge: None,
                    raw: Unmeasured::default(),
                }
            }
            Target::Socket(path) => {
                // The worker may have another directory.
                let path = std::path::absolute(path).map_err(SideError::from)?;
                Testbed {
                    client: WorkerSide::start(None, stamps.map(|stamps| &stamps.client), stack)?,
                    server: Server::Silent(Address::Socket(path)),
                    interface: None,
                    ends: None,
                    responders: Vec::new(),
                    _bridge: None,
                    raw: Unmeasured::default(),
                }
            }
            Target::Reflector(reflector) => {
                let server = Server::Silent(Address::Reflector(reflector.clone()));
                Testbed {
                    client: WorkerSide::start(None, stamps.map(|stamps| &stamps.client), stack)?,
                    server,
                    interface: Some(reflector.interface.clone()),
                    ends: None,
                    responders: Vec::new(),
                    _bridge: None,
                    raw: Unmeasured::default(),
                }
            }
        };
        if let Some(path) = &plan.raw {
            let reply = |job: &Job| (job.reply > 0).then_some(u64::from(job.reply));
            let rows = plan.rows.iter().map(|job| (job.spec.to_string(), job.request.into(), reply(job))).collect();
            // The working directory may be another one inside a mount namespace.
            let path = std::path::absolute(path).map_err(SideError::from)?;
            let partial = raw::partial(&path);
            testbed.client.order(&Order::Raw { path, rows })?;
            testbed.raw.0 = Some(partial);
        }
        Ok(testbed)
    }

    /// The client's side of a session with a server to which `channel` is open.
    pub fn over(channel: Channel, stamps: Option<&Sides<Stamps>>, stack: Option<&Library>) -> Result<Testbed, RunError> {
        Testbed::over_as(Kind::Measuring, channel, stamps, stack)
    }

    fn over_as(
        kind: Kind,
        channel: Channel,
        stamps: Option<&Sides<Stamps>>,
        stack: Option<&Library>,
    ) -> Result<Testbed, RunError> {
        let (local, peer) = ends_of(&channel).map_err(RunError::Address)?;
        let server = Server::Remote { channel: Box::new(channel), at: peer, probes: kind == Kind::Probe, stamps: false };
        let client = WorkerSide::start(None, stamps.map(|stamps| &stamps.client), stack)?;
        let interface = interface_at(local.ip(), scope_of(local));
        Ok(Testbed { client, server, interface, ends: None, responders: Vec::new(), _bridge: None, raw: Unmeasured::default() })
    }

    /// The processes of the server, or of all responders of a group, that run on this host.
    pub fn servers_here(&self) -> Vec<u32> {
        iter::once(&self.server).chain(&self.responders).filter_map(Server::pid).collect()
    }

    /// The server's address on a link of this host.
    pub fn server_address(&self) -> Option<IpAddr> {
        self.ends.as_ref().map(|ends| ends.server.address)
    }

    /// Facts of both hosts, the link and the client's clock.
    pub fn place(&mut self, plan: &Plan) -> Result<Place, RunError> {
        let Some(job) = plan.rows.first() else { return Err(RunError::Interrupted) };
        let (client, clock) = self.client.facts(self.interface.as_deref(), job.cpus.client, job.threads, false)?;
        let interface = self.ends.as_ref().map_or("", |ends| &ends.server.interface);
        let hosts = Hosts { client, server: self.server.facts(interface, job)? };
        let mtu = hosts.client.facts.get("mtu_bytes").and_then(serde_json::Value::as_u64);
        let other = |kind: &str, host: &str, port: u16| Link {
            kind: kind.into(),
            interface: self.interface.clone(),
            mtu,
            peer: Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }),
            options: Default::default(),
            group: None,
        };
        let link = match &plan.target {
            Target::Link(link) => match &self.ends {
                Some(ends) => link.record(ends, mtu),
                None => return Err(RunError::Interrupted),
            },
            Target::Host { host, port, .. } => other("host", host, *port),
            // The group itself is known with the first row.
            Target::Echo { host, port } if asked_group(plan).is_some() => Link { peer: None, ..other("group", host, *port) },
            Target::Echo { host, port } => other("echo", host, *port),
            Target::Socket(path) => Link { peer: Some(path.display().to_string()), ..other("echo", "", 0) },
            Target::Reflector(reflector) => reflector_link(reflector, mtu),
        };
        Ok(Place { hosts, link, clock })
    }

    pub fn row(&mut self, job: &Job, index: usize, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Measured, RowEnd> {
        // The schedule concerns the client only.
        let planned = on(self.ends.as_ref().map(|ends| &ends.server), &Job { open: None, ..job.clone() });
        let job = &on(self.ends.as_ref().map(|ends| &ends.client), job);
        let mut waited = Duration::ZERO;
        let peer: Address = loop {
            match self.server.plan(&planned, signals) {
                Err(RunError::Side(SideError::Later(left))) => {
                    waited += wait_for_turn(left, signals, watcher, || self.server.beat())?;
                }
                planned => break planned?,
            }
        };
        if !waited.is_zero() {
            watcher.resumed(waited.into());
        }
        let mut addresses = vec![peer.clone()];
        let allowed = thread::allowed_cpus().map_err(SideError::from)?;
        for (index, responder) in self.responders.iter_mut().enumerate() {
            addresses.push(responder.plan(&beside(&planned, index + 1, &allowed), signals)?);
        }
        self.client.clear_stop();
        let snapshots = watcher.wants_snapshots();
        let mut watch = RowState::new(job, watcher.draws() && stands_still(job));
        self.client.send(&Order::Row { job: Box::new(job.clone()), peer, index: index as u32, snapshots, drawn: watch.drawn })?;
        let client = loop {
            match self.step(&mut watch, signals, watcher)? {
                Some(report) => break report,
                None => self.wait(&watch, signals)?,
            }
        };
        let server = match watch.server_said.take() {
            Some(said) => Some(said),
            None => {
                let mut interrupted = watch.interrupted;
                let said = self.server.finish(client.error.is_some(), &mut || is_ended(signals, &mut interrupted));
                watch.interrupted = interrupted;
                said
            }
        };
        let mut client = client;
        client.row.paused_ns = (!watch.paused.is_zero()).then_some(Nanos::from(watch.paused).0);
        if let (Some(error), Some(Err(why))) = (&mut client.error, &server)
            && !error.contains(why)
        {
            *error = format!("{error}; the server's side: {why}");
        }
        let failed = client.error.is_some();
        let server = server.map(|said| said.map(|report| without_error(report, failed)));
        let others = self.responders.iter_mut().filter_map(|responder| responder.finish(failed, &mut || false));
        let all = server.iter().filter(|_| job.group.is_some()).cloned().chain(others);
        let responders = addresses.into_iter().zip(all).collect();
        Ok(Measured { client: *client, responders, server, interrupted: watch.interrupted.is_some() })
    }

    /// Handles all messages received; returns the client's report once it has come.
    fn step(
        &mut self,
        watch: &mut RowState,
        signals: &Signals,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<Box<ClientReport>>, RowEnd> {
        let now = Instant::now();
        let stood_still = watch.looks.stood_still(now);
        watch.heard += stood_still;
        watch.stopped = watch.stopped.map(|stopped| stopped + stood_still);
        while let Ok(Some(signal)) = signals.next() {
            if repeats(watch.interrupted, signal, now) {
                continue;
            }
            if watch.interrupted.is_some() || !watch.going {
                return Err(RowEnd::Interrupted);
            }
            watch.interrupted = Some(now);
            self.stop(watch, now, watcher);
        }
        loop {
            let answer = match self.client.try_answer() {
                Ok(Some(answer)) => answer,
                Ok(None) => break,
                Err(error) => return Err(died("the client's worker process", &error, watch).into()),
            };
            watch.heard = now;
            match answer {
                Answer::Ready(_) => {
                    watch.going = true;
                    self.raw.0 = None;
                    watcher.ready().map_err(|why| RunError::Row { path: watch.path.clone(), why })?;
                    self.client.send(&Order::Go)?;
                    self.server.go();
                }
                Answer::Opened(flows) => watcher.opened(flows),
                Answer::Block => {
                    if watch.server_said.is_none()
                        && let Err(error) = self.between_blocks(watch, watcher)?
                    {
                        // As with a server that goes in mid-block, the row ends and its results are kept.
                        let why = error.to_string();
                        watch.why.get_or_insert(why.clone());
                        watch.server_said = Some(Err(why));
                        self.stop(watch, now, watcher);
                    }
                    self.client.send(&Order::Go)?;
                }
                Answer::Progress(progress) => {
                    watcher.progress(&progress);
                    if watch.drawn {
                        self.client.send(&Order::Go)?;
                    }
                }
                Answer::Paused => match &mut watch.pause {
                    Some(still) => {
                        *still = Some(now);
                        self.server.paused();
                    }
                    None => self.client.send(&Order::Go)?,
                },
                Answer::Client(mut report) => {
                    if let Some(why) = watch.why.take() {
                        report.error.get_or_insert(why);
                    }
                    return Ok(Some(report));
                }
                Answer::Failed(failure) => {
                    // The server may know better why the client could not begin.
                    let failure = match self.server.look() {
                        ServerEvent::Gone(why) => Failure { message: format!("{}; server: {why}", failure.message), ..failure },
                        _ => failure,
                    };
                    return Err(SideError::Failed(failure).into());
                }
                other => return Err(SideError::OutOfTurn(format!("{other:?}")).into()),
            }
        }
        self.listen_to_server(watch, now, watcher);
        self.enforce(watch, now)?;
        Ok(None)
    }

    /// Asks the server about the block that is over, tells the watcher, and makes the server work as it wants. The inner error is
    /// the server's.
    fn between_blocks(&mut self, watch: &RowState, watcher: &mut dyn Watcher) -> Result<Result<(), SideError>, RunError> {
        let told = match self.told(watcher) {
            Ok(told) => told,
            Err(error) => return Ok(Err(error)),
        };
        let turn = watcher.block(told).map_err(|why| RunError::Row { path: watch.path.clone(), why })?;
        Ok(turn.map_or(Ok(()), |turn| self.server.turn(turn)))
    }

    /// The server's part of the block that is over.
    fn told(&mut self, watcher: &mut dyn Watcher) -> Result<Told, SideError> {
        if watcher.wants_times() {
            watcher.times(self.server.times()?);
        }
        if watcher.wants_clock()
            && let Some(told) = self.server.clock()?
        {
            watcher.clock(told);
        }
        self.server.told(watcher.wants())
    }

    /// Ends the row, paused or not.
    fn stop(&mut self, watch: &mut RowState, now: Instant, watcher: &mut dyn Watcher) {
        watch.stop(now);
        self.client.stop();
        self.go_on(watch, now, watcher);
    }

    /// Ends a pause of the row.
    fn go_on(&mut self, watch: &mut RowState, now: Instant, watcher: &mut dyn Watcher) {
        let Some(still) = watch.pause.take() else { return };
        self.client.pause(false);
        watch.heard = now;
        let paused = still.map_or(Duration::ZERO, |since| now.duration_since(since));
        watch.paused += paused;
        if still.is_some() {
            // A worker that is gone shows at the next look.
            let _ = self.client.send(&Order::Go);
        }
        watcher.resumed(paused.into());
    }

    fn listen_to_server(&mut self, watch: &mut RowState, now: Instant, watcher: &mut dyn Watcher) {
        for _ in 0..ANSWERS_AT_ONCE {
            if watch.server_said.is_some() {
                break;
            }
            let said = match self.server.look() {
                ServerEvent::Nothing => break,
                ServerEvent::Pause(left) => {
                    if watch.stopped.is_none() && watch.pause.is_none() {
                        watch.pause = Some(None);
                        self.client.pause(true);
                        watcher.paused(left);
                    }
                    continue;
                }
                ServerEvent::Resume => {
                    self.go_on(watch, now, watcher);
                    continue;
                }
                ServerEvent::Ended(report) => {
                    let why = report.error.clone().unwrap_or_else(|| "it stopped".into());
                    (why, Ok(*report))
                }
                ServerEvent::Gone(why) => (why.clone(), Err(why)),
            };
            watch.server_said = Some(said.1);
            // A client that has just finished reports at once; one that waits for a dead server has to be stopped. The others of
            // a group still answer.
            if self.responders.is_empty() {
                watch.end_at = Some((now + Duration::from_secs(1), format!("the server's side ended in mid-run: {}", said.0)));
            }
        }
        if let Some((at, why)) = &watch.end_at
            && now >= *at
        {
            watch.why.get_or_insert(why.clone());
            watch.end_at = None;
            self.stop(watch, now, watcher);
        }
    }

    /// Nudges a client that was told to stop or sends nothing, and gives it up if that does not help.
    fn enforce(&mut self, watch: &mut RowState, now: Instant) -> Result<(), RowEnd> {
        let is_still = matches!(watch.pause, Some(Some(_)));
        if is_still {
            watch.heard = now;
        }
        if now.duration_since(watch.beat) >= if is_still { PAUSED_BEAT_EVERY } else { BEAT_EVERY } {
            watch.beat = now;
            self.server.beat();
        }
        if now.duration_since(watch.heard) >= watch.silence {
            // The client may sleep in a receive call without a time limit; once awake, it checks its own deadlines.
            self.client.nudge();
        }
        if let Some(stopped) = watch.stopped {
            self.client.nudge();
            if now.duration_since(stopped) > watch.stop_within {
                return Err(RunError::Row {
                    path: watch.path.clone(),
                    why: "its worker process does not stop and was ended".into(),
                }
                .into());
            }
        }
        if now.duration_since(watch.heard) >= watch.silence + watch.stop_within {
            return Err(RunError::Row {
                path: watch.path.clone(),
                why: "its worker process did not answer and was ended".into(),
            }
            .into());
        }
        Ok(())
    }

    /// Sleeps until a message or a signal comes.
    fn wait(&self, watch: &RowState, signals: &Signals) -> Result<(), RowEnd> {
        let mut fds = vec![self.client.as_fd(), signals.as_fd()];
        fds.extend(self.server.watched().filter(|_| watch.server_said.is_none()));
        let limit = if watch.stopped.is_some() { NUDGE_EVERY } else { BEAT_EVERY };
        wait(&fds, Some(limit)).map_err(|error| RunError::Side(SideError::Prepare(error)).into())
    }
}

/// The group that the rows ask, if any.
fn asked_group(plan: &Plan) -> Option<&Group> {
    plan.rows.first()?.group.as_ref()
}

/// The job of the side at this end of a link: a group is asked, or joined, on its interface.
fn on(end: Option<&At>, job: &Job) -> Job {
    let mut job = job.clone();
    if let (Some(group), Some(at)) = (&mut job.group, end) {
        group.interface = Some(at.interface.clone());
    }
    job
}

/// The job of responder `index`: on the next CPU that is not the client's, if there is one.
fn beside(job: &Job, index: usize, allowed: &[u32]) -> Job {
    let client = cpu_of(job, Side::Client, 0, allowed);
    let free: Vec<u32> = of_side(job, Side::Server, allowed).into_iter().filter(|cpu| *cpu != client).collect();
    let first = free.iter().position(|cpu| *cpu == cpu_of(job, Side::Server, 0, allowed));
    let mut job = job.clone();
    job.cpus.server = first.map(|first| free[(first + index) % free.len()]).or(job.cpus.server);
    job
}

/// Interval of the client's sign of life to the server of a session.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// Most answers of the server handled before the client's worker and the deadlines get their turn.
const ANSWERS_AT_ONCE: u32 = 8;
/// [`BEAT_EVERY`] while the row stands still because the server measures for another client.
const PAUSED_BEAT_EVERY: Duration = Duration::from_secs(4);
/// A server that measures for another client is asked again after this time at the earliest …
const ASKED_AFTER: Duration = Duration::from_secs(1);
/// … and at the latest.
const ASKED_WITHIN: Duration = Duration::from_secs(10);
/// A worker that was told to stop reports within this time …
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// … and of a job with an XDP program within this time more: its link may be down for up to 15 s, twice.
const LINK_DOWN: Duration = Duration::from_secs(30);

/// The state of a row in progress.
struct RowState {
    path: String,
    /// Each progress message waits until it is drawn.
    drawn: bool,
    going: bool,
    interrupted: Option<Instant>,
    stopped: Option<Instant>,
    /// `Some` if the row is to stand still; within, since when it does.
    pause: Option<Option<Instant>>,
    paused: Duration,
    looks: Looks,
    heard: Instant,
    beat: Instant,
    silence: Duration,
    /// A worker that was told to stop, or has been silent for `silence`, is ended after this time.
    stop_within: Duration,
    server_said: Option<Result<ServerReport, String>>,
    end_at: Option<(Instant, String)>,
    why: Option<String>,
}

impl RowState {
    fn new(job: &Job, drawn: bool) -> RowState {
        let now = Instant::now();
        // A paced run is silent between two requests.
        let interval_s = job.pace.map(|per_s| 1.0 / per_s).or(job.open.as_ref().map(OpenLoop::longest_gap_s));
        let interval = Duration::from_secs_f64(interval_s.unwrap_or(0.0).min(86_400.0));
        let link_down = if job.may_take_link_down() { LINK_DOWN } else { Duration::ZERO };
        RowState {
            path: job.spec.to_string(),
            drawn,
            going: false,
            interrupted: None,
            stopped: None,
            pause: None,
            paused: Duration::ZERO,
            looks: Looks::begin(now),
            heard: now,
            beat: now,
            silence: job.opens_within() + Duration::from(job.warmup) + interval + Duration::from_secs(2),
            stop_within: STOP_WITHIN + link_down,
            server_said: None,
            end_at: None,
            why: None,
        }
    }

    fn stop(&mut self, now: Instant) {
        self.stopped.get_or_insert(now);
    }
}

/// Waits until a server that measures for another, for about `left`, may be asked again; returns how long that took. Calls `beat`
/// once a second.
///
/// # Errors
/// A signal came.
pub fn wait_for_turn(
    left: Option<Nanos>,
    signals: &Signals,
    watcher: &mut dyn Watcher,
    mut beat: impl FnMut(),
) -> Result<Duration, RowEnd> {
    let begun = Instant::now();
    let lasts = left.map_or(ASKED_WITHIN, Duration::from).clamp(ASKED_AFTER, ASKED_WITHIN);
    watcher.paused(left);
    while let Some(rest) = lasts.checked_sub(begun.elapsed()).filter(|rest| !rest.is_zero()) {
        wait(&[signals.as_fd()], Some(rest.min(BEAT_EVERY))).map_err(SideError::Prepare)?;
        if matches!(signals.next(), Ok(Some(_))) {
            return Err(RowEnd::Interrupted);
        }
        beat();
    }
    Ok(begun.elapsed())
}

/// A reflector as the record describes it: the change it makes to frames, and their destination address if given.
fn reflector_link(reflector: &Reflector, mtu: Option<u64>) -> Link {
    let rewrite = match reflector.rewrite {
        Rewrite::None => "none",
        Rewrite::Macs => "macs",
    };
    Link {
        kind: "reflector".into(),
        interface: Some(reflector.interface.clone()),
        mtu,
        peer: reflector.destination.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":")),
        options: [("rewrite".to_owned(), rewrite.to_owned())].into(),
        group: None,
    }
}

fn died(who: &str, error: &SideError, watch: &RowState) -> RunError {
    RunError::Row { path: watch.path.clone(), why: format!("{who} has ended: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_record::run::Row;

    #[test]
    fn a_row_that_was_cut_short_is_not_whole() {
        let ended = |error: Option<&str>, interrupted| {
            let client = ClientReport {
                row: Row::default(),
                exchanges: 0,
                stopped: false,
                error: error.map(Into::into),
                drift_ppb: None,
                open: None,
                replies: Vec::new(),
            };
            Measured { client, responders: Vec::new(), server: None, interrupted }.whole()
        };
        assert!(ended(None, false).is_ok());
        for error in [None, Some("the server is gone")] {
            assert!(matches!(ended(error, true), Err(RowEnd::Interrupted)));
        }
        let Err(RowEnd::Failed(error)) = ended(Some("the server is gone"), false) else { panic!("it is whole") };
        assert_eq!(error.to_string(), "the server is gone");
    }
}
