//! A run: workers and link set up, each row measured in turn, both sides' reports joined.
//!
//! ```text
//!   verb ──▶ server: Plan ──▶ Ready(address)
//!        ──▶ client: Row ───▶ Ready ──▶ Go ──▶ Progress, once a second ──▶ Client
//!        ──▶ server: stop ──▶ Server                    │
//!                                                       └ Ctrl-C, a dead server or silence ends the row; what was measured is kept
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use hairpin_iopath::job::{Address, Job, JobError, Listen};
use hairpin_iopath::path::{LinkKind, Support};
use hairpin_record::run::{self, ClockFacts, Hosts, Link, Row, Run};
use hairpin_record::stream::Progress;
use hairpin_sys::shared::Shared;
use hairpin_sys::signal::Signals;
use hairpin_sys::thread;
use hairpin_units::Quantile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::link::LinkSpec;
use crate::message::{Answer, ClientReport, Order, ServerReport};
use crate::row::{self, Surroundings};
use crate::server::{Heard, NUDGE_EVERY, Server, without_error};
use crate::session::handshake::{self, ConnectError};
use crate::session::key::Key;
use crate::side::{SideError, WorkerSide};
use crate::store::rfc3339;

/// What to measure, and where.
#[derive(Debug)]
pub struct Plan {
    /// The other side.
    pub target: Target,
    /// Use IPv6 on a link of our own.
    pub ipv6: bool,
    /// One row each.
    pub rows: Vec<Job>,
    /// Write every sample here.
    pub raw: Option<PathBuf>,
    /// The quantiles that will be shown.
    pub shown: Vec<Quantile>,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Where to.
#[derive(Debug)]
pub enum Target {
    /// A link on this host, with a server of our own.
    Link(LinkSpec),
    /// `hairpin serve` there.
    Host {
        /// Name or address.
        host: String,
        /// Port of the session.
        port: u16,
        /// Its key.
        key: Option<Key>,
    },
    /// A plain echo service.
    Echo {
        /// Name or address.
        host: String,
        /// Its port.
        port: u16,
    },
}

impl Target {
    /// What paths are asked about.
    pub fn kind(&self) -> LinkKind {
        match self {
            Target::Link(link) => link.kind(),
            Target::Host { .. } => LinkKind::Host,
            Target::Echo { .. } => LinkKind::Echo,
        }
    }
}

/// Told how a run gets on, between measured intervals or about once a second.
pub trait Watcher {
    /// A row begins.
    fn begins(&mut self, _index: usize, _of: usize, _job: &Job) {}
    /// A row goes on.
    fn progress(&mut self, _progress: &Progress) {}
    /// A row is done.
    fn ends(&mut self, _row: &Row) {}
}

/// Watches nothing.
pub struct NoWatcher;
impl Watcher for NoWatcher {}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The path cannot do what it is asked.
    #[error("{path}: {source}")]
    Job {
        /// The path spec.
        path: String,
        /// What it cannot.
        source: JobError,
    },
    /// The path does not work over this link.
    #[error("{path}: {why}")]
    Unsupported {
        /// The path spec.
        path: String,
        /// Why not.
        why: String,
    },
    /// A CPU that this process may not use.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed} (--cpu CLIENT,SERVER)")]
    Cpu {
        /// What was asked for.
        cpu: u32,
        /// What there is.
        allowed: String,
    },
    /// A worker or server failed before anything was measured.
    #[error(transparent)]
    Side(#[from] SideError),
    /// No session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The echo service's name.
    #[error("{host}:{port} does not resolve: {source}; check the name, or give an address")]
    Resolve {
        /// The name.
        host: String,
        /// The port.
        port: u16,
        /// What the resolver said.
        source: io::Error,
    },
    /// The session's connection.
    #[error("cannot read the session's addresses: {0}")]
    Address(io::Error),
    /// Nothing was measured.
    #[error("{path}: {why}")]
    Row {
        /// The path spec.
        path: String,
        /// What happened.
        why: String,
    },
    /// Ctrl-C before anything was measured.
    #[error("stopped before anything was measured")]
    Interrupted,
}

/// What a failure asks of the user, as the exit codes put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Something went wrong (1).
    Failed,
    /// What was asked cannot be (2).
    Usage,
    /// A capability or device is missing (4).
    Missing,
}

impl PingError {
    /// Which exit code it is.
    pub fn blame(&self) -> Blame {
        match self {
            PingError::Job { .. } | PingError::Unsupported { .. } | PingError::Cpu { .. } => Blame::Usage,
            PingError::Side(side) if side.missing() => Blame::Missing,
            _ => Blame::Failed,
        }
    }
}

/// Refuses what cannot be measured, before anything starts.
pub fn check(plan: &Plan) -> Result<(), PingError> {
    // A name is resolved later: the smaller limit holds for it.
    let ipv6 = match &plan.target {
        Target::Link(_) => plan.ipv6,
        Target::Host { host, .. } | Target::Echo { host, .. } => host.contains(':'),
    };
    let allowed = thread::allowed_cpus().map_err(SideError::from)?;
    for job in &plan.rows {
        // The server's CPU is its own host's affair unless that is this one.
        let server = job.cpus.server.filter(|_| matches!(plan.target, Target::Link(_)));
        if let Some(cpu) = [job.cpus.client, server].into_iter().flatten().find(|cpu| !allowed.contains(cpu)) {
            let allowed = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            return Err(PingError::Cpu { cpu, allowed });
        }
        let path = || job.spec.to_string();
        job.check(ipv6).map_err(|source| PingError::Job { path: path(), source })?;
        for side in [&job.spec.client, &job.spec.server] {
            if let Support::No(why) = side.path.probe(plan.target.kind()) {
                return Err(PingError::Unsupported { path: path(), why });
            }
        }
    }
    Ok(())
}

/// Measures every row of the plan. A row that fails part way ends the run: what was measured until then is in the record, with its error.
pub fn run(plan: &Plan, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Run, PingError> {
    check(plan)?;
    let started = rfc3339(SystemTime::now());
    let mut stage = Stage::set_up(plan)?;
    let (hosts, clock) = stage.facts(plan)?;
    let mtu = hosts.client.facts.get("mtu_bytes").and_then(serde_json::Value::as_u64);
    let mut run = Run {
        schema: run::SCHEMA.into(),
        tool: concat!("hairpin ", env!("CARGO_PKG_VERSION")).into(),
        command: plan.command.clone(),
        started,
        interrupted: false,
        error: None,
        hosts,
        link: stage.link(plan, mtu),
        clock,
        results: Vec::new(),
    };
    for (index, job) in plan.rows.iter().enumerate() {
        watcher.begins(index, plan.rows.len(), job);
        let measured = match stage.row(job, index, signals, watcher) {
            Ok(measured) => measured,
            Err(RowEnd::Interrupted) if run.results.is_empty() => return Err(PingError::Interrupted),
            Err(RowEnd::Interrupted) => {
                run.interrupted = true;
                break;
            }
            Err(RowEnd::Failed(error)) if run.results.is_empty() => return Err(error),
            Err(RowEnd::Failed(error)) => {
                run.error = Some(format!("{}: {error}", job.spec));
                break;
            }
        };
        run.interrupted |= measured.interrupted;
        run.error = measured.client.error.clone().map(|error| format!("{}: {error}", job.spec));
        let around = Surroundings { hosts: &run.hosts, one_host: stage.server.is_here(), shown: &plan.shown };
        let row = row::join(job, measured.client, measured.server, &mut run.clock, around);
        watcher.ends(&row);
        run.results.push(row);
        if run.interrupted || run.error.is_some() {
            break;
        }
    }
    stage.client.order(&Order::End)?;
    Ok(run)
}

/// Both sides, ready for rows.
struct Stage {
    client: WorkerSide,
    server: Server,
    interface: Option<String>,
}

struct Measured {
    client: ClientReport,
    server: Option<Result<ServerReport, String>>,
    interrupted: bool,
}

enum RowEnd {
    Interrupted,
    Failed(PingError),
}

impl<E: Into<PingError>> From<E> for RowEnd {
    fn from(error: E) -> RowEnd {
        RowEnd::Failed(error.into())
    }
}

impl Stage {
    fn set_up(plan: &Plan) -> Result<Stage, PingError> {
        let mut stage = match &plan.target {
            Target::Link(link) => {
                let meeting = Shared::create().map_err(SideError::from)?;
                let mut client = WorkerSide::start(Some(&meeting))?;
                let mut server = WorkerSide::start(Some(&meeting))?;
                link.set_up(&mut client, &mut server)?;
                let (client_at, server_at) = link.addresses(plan.ipv6);
                let listen = Listen { address: server_at, ports: None, client: client_at };
                Stage {
                    client,
                    server: Server::Worker { side: Box::new(server), listen },
                    interface: Some(link.interface().into()),
                }
            }
            Target::Host { host, port, key } => {
                let channel = handshake::connect(host, *port, key.as_ref())?;
                let (local, peer) = addresses(&channel).map_err(PingError::Address)?;
                let server = Server::Remote { channel: Box::new(channel), address: peer };
                Stage { client: WorkerSide::start(None)?, server, interface: interface_of(local) }
            }
            Target::Echo { host, port } => {
                let resolve = |source| PingError::Resolve { host: host.clone(), port: *port, source };
                let mut found = (host.as_str(), *port).to_socket_addrs().map_err(resolve)?;
                let address = found.next().ok_or_else(|| resolve(io::Error::other("it has no address")))?;
                let interface = local_address_towards(address).and_then(interface_of);
                Stage { client: WorkerSide::start(None)?, server: Server::Echo(address), interface }
            }
        };
        if let Some(path) = &plan.raw {
            let rows = plan.rows.iter().map(|job| (job.spec.to_string(), job.request.into(), job.reply.into())).collect();
            // Inside a mount namespace the working directory may be another.
            let path = std::path::absolute(path).map_err(SideError::from)?;
            stage.client.order(&Order::Raw { path, rows })?;
        }
        Ok(stage)
    }

    fn facts(&mut self, plan: &Plan) -> Result<(Hosts, ClockFacts), PingError> {
        let Some(job) = plan.rows.first() else { return Err(PingError::Interrupted) };
        let order = Order::Facts { interface: self.interface.clone(), cpu: job.cpus.client, threads: job.threads, server: false };
        let (client, clock) = match self.client.order(&order)? {
            Answer::Facts { facts, clock } => (facts, clock),
            other => return Err(SideError::OutOfTurn(format!("{other:?}")).into()),
        };
        let interface = match &plan.target {
            Target::Link(link) => link.server_interface(),
            _ => "",
        };
        Ok((Hosts { client, server: self.server.facts(interface, job)? }, clock))
    }

    fn link(&self, plan: &Plan, mtu: Option<u64>) -> Link {
        let other = |kind: &str, host: &str, port: u16| Link {
            kind: kind.into(),
            interface: self.interface.clone(),
            mtu,
            peer: Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }),
            options: Default::default(),
        };
        match &plan.target {
            Target::Link(link) => link.record(mtu),
            Target::Host { host, port, .. } => other("host", host, *port),
            Target::Echo { host, port } => other("echo", host, *port),
        }
    }

    fn row(&mut self, job: &Job, index: usize, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Measured, RowEnd> {
        let peer: Address = self.server.plan(job)?;
        self.client.clear_stop();
        self.client.send(&Order::Row { job: Box::new(job.clone()), peer, index: index as u32 })?;
        let mut watch = Watch::new(job);
        let client = loop {
            match self.step(&mut watch, signals, watcher)? {
                Some(report) => break report,
                None => self.wait(&watch, signals)?,
            }
        };
        let server = match watch.server_said.take() {
            Some(said) => Some(said),
            None => self.server.finish(),
        };
        let mut client = client;
        if let (Some(error), Some(Err(why))) = (&mut client.error, &server) {
            *error = format!("{error}; the server's side: {why}");
        }
        let failed = client.error.is_some();
        let server = server.map(|said| said.map(|report| without_error(report, failed)));
        Ok(Measured { client: *client, server, interrupted: watch.interrupted })
    }

    /// Takes in all that was said; returns the client's report once it is there.
    fn step(
        &mut self,
        watch: &mut Watch,
        signals: &Signals,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<Box<ClientReport>>, RowEnd> {
        let now = Instant::now();
        while let Ok(Some(_)) = signals.next() {
            if watch.interrupted || !watch.going {
                return Err(RowEnd::Interrupted);
            }
            watch.interrupted = true;
            watch.stop(now);
            self.client.stop();
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
                    self.client.send(&Order::Go)?;
                    self.server.go();
                }
                Answer::Progress(progress) => watcher.progress(&progress),
                Answer::Client(mut report) => {
                    if let Some(why) = watch.why.take() {
                        report.error.get_or_insert(why);
                    }
                    return Ok(Some(report));
                }
                Answer::Failed(failure) => {
                    // The server may know better why its peer could not begin.
                    let failure = match self.server.look() {
                        Heard::Gone(why) => {
                            crate::message::Failure { message: format!("{}; server: {why}", failure.message), ..failure }
                        }
                        _ => failure,
                    };
                    return Err(SideError::Failed(failure).into());
                }
                other => return Err(SideError::OutOfTurn(format!("{other:?}")).into()),
            }
        }
        self.listen_to_server(watch, now);
        self.enforce(watch, now)?;
        Ok(None)
    }

    fn listen_to_server(&mut self, watch: &mut Watch, now: Instant) {
        if watch.server_said.is_none() {
            let said = match self.server.look() {
                Heard::Nothing => return,
                Heard::Ended(report) => {
                    let why = report.error.clone().unwrap_or_else(|| "it stopped".into());
                    (why, Ok(*report))
                }
                Heard::Gone(why) => (why.clone(), Err(why)),
            };
            watch.server_said = Some(said.1);
            // A client that has just finished reports at once; one that waits for a dead server is told.
            watch.end_at = Some((now + Duration::from_secs(1), format!("the server's side ended in mid-run: {}", said.0)));
        }
        if let Some((at, why)) = &watch.end_at
            && now >= *at
        {
            watch.why.get_or_insert(why.clone());
            watch.end_at = None;
            watch.stop(now);
            self.client.stop();
        }
    }

    /// Nudges a client that was told to stop or that says nothing, and gives it up if that does not help.
    fn enforce(&mut self, watch: &mut Watch, now: Instant) -> Result<(), RowEnd> {
        if now.duration_since(watch.beat) >= BEAT_EVERY {
            watch.beat = now;
            self.server.beat();
        }
        if now.duration_since(watch.heard) >= watch.silence {
            // It may sleep in a receive call that has no time limit; awake, it looks at its own deadlines.
            self.client.nudge();
        }
        if let Some(stopped) = watch.stopped {
            self.client.nudge();
            if now.duration_since(stopped) > STOP_WITHIN {
                return Err(PingError::Row {
                    path: watch.path.clone(),
                    why: "its worker process does not stop and was ended".into(),
                }
                .into());
            }
        }
        if now.duration_since(watch.heard) >= watch.silence + STOP_WITHIN {
            return Err(
                PingError::Row { path: watch.path.clone(), why: "its worker process says nothing and was ended".into() }.into()
            );
        }
        Ok(())
    }

    /// Sleeps until someone speaks.
    fn wait(&self, watch: &Watch, signals: &Signals) -> Result<(), RowEnd> {
        let mut fds = vec![PollFd::new(&self.client, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        let server = self.server.watched().filter(|_| watch.server_said.is_none());
        fds.extend(server.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let limit = if watch.stopped.is_some() { NUDGE_EVERY } else { BEAT_EVERY };
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(PingError::Side(SideError::Prepare(error.into())).into()),
        }
    }
}

/// A session's server hears from its client so often.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A worker that was told to stop reports within this.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Where a row stands.
struct Watch {
    path: String,
    going: bool,
    interrupted: bool,
    stopped: Option<Instant>,
    heard: Instant,
    beat: Instant,
    silence: Duration,
    server_said: Option<Result<ServerReport, String>>,
    end_at: Option<(Instant, String)>,
    why: Option<String>,
}

impl Watch {
    fn new(job: &Job) -> Watch {
        let now = Instant::now();
        // A paced run has nothing to say between two requests.
        let interval = job.pace.map_or(Duration::ZERO, |per_s| Duration::from_secs_f64((1.0 / per_s).min(86_400.0)));
        Watch {
            path: job.spec.to_string(),
            going: false,
            interrupted: false,
            stopped: None,
            heard: now,
            beat: now,
            silence: Duration::from(job.timeout) + Duration::from(job.warmup) + interval + Duration::from_secs(2),
            server_said: None,
            end_at: None,
            why: None,
        }
    }

    fn stop(&mut self, now: Instant) {
        self.stopped.get_or_insert(now);
    }
}

fn died(who: &str, error: &SideError, watch: &Watch) -> PingError {
    PingError::Row { path: watch.path.clone(), why: format!("{who} has ended: {error}") }
}

fn addresses(channel: &impl AsFd) -> io::Result<(IpAddr, IpAddr)> {
    let local = SocketAddr::try_from(rustix::net::getsockname(channel)?).map_err(|_| io::ErrorKind::AddrNotAvailable)?;
    let peer = rustix::net::getpeername(channel)?.ok_or(io::ErrorKind::NotConnected)?;
    let peer = SocketAddr::try_from(peer).map_err(|_| io::ErrorKind::AddrNotAvailable)?;
    Ok((local.ip(), peer.ip()))
}

/// The address that this host would send from; connecting a datagram socket sends nothing.
fn local_address_towards(peer: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The interface that has this address.
pub(crate) fn interface_of(address: IpAddr) -> Option<String> {
    let interfaces = if_addrs::get_if_addrs().ok()?;
    interfaces.into_iter().find(|interface| interface.ip() == address.to_canonical()).map(|interface| interface.name)
}

#[cfg(test)]
pub(crate) mod tests {
    use hairpin_iopath::job::{LocalPort, Schedule, Sides};
    use hairpin_units::Nanos;

    use super::*;

    /// A job like the defaults of `hairpin ping`.
    pub(crate) fn job(spec: &str) -> Job {
        Job {
            spec: spec.parse().unwrap(),
            request: 64,
            reply: 64,
            flows: 1,
            threads: 1,
            outstanding: 1,
            duration: Some(Nanos::from_secs(10)),
            count: None,
            warmup: Nanos::from_millis(500),
            pace: None,
            timeout: Nanos::from_secs(5),
            cpus: Sides::default(),
            sched: Schedule::Other,
            local_port: LocalPort::Any,
            verify: false,
            cookie: 1,
            plain_peer: false,
            raw: false,
        }
    }

    #[test]
    fn a_loopback_address_belongs_to_lo() {
        assert_eq!(interface_of([127, 0, 0, 1].into()).as_deref(), Some("lo"));
        assert_eq!(local_address_towards(([127, 0, 0, 1], 9).into()), Some([127, 0, 0, 1].into()));
    }
}
