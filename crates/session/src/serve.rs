//! `hairpin serve`: one measuring session at a time, and probes beside each other, each with a worker of its own.
//!
//! ```text
//!   listener ── door ── thread per connection: handshake ── the one session ── Request ─▶ checked ─▶ Order ─▶ worker
//!                 └ too many: refused, and told so        ├ gate, if there is one: others are told why not, or asked for something else
//!                                                         ├ others: told how long, once they have proved the key
//!                                                         └ probes: stand still while it measures
//! ```
//! No client input reaches the worker unchecked. This module decides on the worker's address, its client and
//! its share of this host.

mod door;
pub mod gate;
mod grants;
pub mod hooks;
mod probes;
mod probing;
mod refusals;
mod turn;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, Listen, scope_of};
use hairpin_sys::shared::Stamps;
use hairpin_sys::signal::Signals;
use hairpin_sys::stack::Library;

use self::door::{Door, Next};
use self::gate::{Entry, Gate};
pub use self::grants::Grants;
use self::grants::admit;
use self::hooks::ServersHost;
use self::probes::{NoPlace, Pause, Probes, left};
use self::probing::Probing;
use self::refusals::Refusals;
use self::turn::{Busy, Until};
use crate::channel::{Channel, RecvError, SendError};
use crate::handshake::{self, Admission, Kind};
use crate::key::Key;
use crate::message::{Answer, Failure, Half, Order, Request};
use crate::side::{SideError, WorkerSide, wait};
use crate::testbed::interface_at;

/// Most connections accepted before other work gets its turn.
const AT_ONCE: usize = 64;
/// A client that sends nothing for this long counts as gone.
const SILENCE: Duration = Duration::from_secs(10);
/// A row may last this much longer than planned.
const GRACE: Duration = Duration::from_secs(60);
/// Interval at which a session checks its deadlines.
const TICK: Duration = Duration::from_millis(500);
/// The same while a probe stands still, so that it takes no time from the session that measures.
const PAUSED_TICK: Duration = Duration::from_secs(4);
/// Requests handled before the worker and the deadlines get their turn, however many more there are.
const REQUESTS_AT_ONCE: u32 = 32;
/// A client that is turned away gets this long to send its request, so that it receives the reason before the connection ends.
const HEARS_WITHIN: Duration = Duration::from_secs(1);

/// Settings of the server.
#[derive(Debug)]
pub struct Service {
    /// The key required of every client; without one only loopback is let in.
    pub key: Option<Key>,
    /// First and last data port.
    pub ports: Option<(u16, u16)>,
    /// Resources of this host that a client may use.
    pub grants: Grants,
    /// The library that takes the place of the kernel's sockets in the workers; no client chooses one.
    pub stack: Option<Library>,
    /// What clients with the key have to pass before they have a session; `None`: nothing.
    pub gate: Option<Arc<dyn Gate>>,
}

/// A connection that has not completed the handshake.
struct Guest {
    stream: TcpStream,
    from: SocketAddr,
    gives_way: AtomicBool,
}

/// State shared by all connections.
struct House<'a> {
    service: &'a Service,
    door: Mutex<Door<Arc<Guest>>>,
    refusals: Mutex<Refusals>,
    busy: Busy,
    probes: Probes,
    log: &'a (dyn Fn(String) + Sync),
}

/// Serves until a signal comes, then calls `ends`. `log` takes one line per event; a flood of refusals is logged as a few lines
/// and a count.
pub fn serve(
    listener: &TcpListener,
    service: Service,
    signals: &Signals,
    log: &(dyn Fn(String) + Sync),
    ends: &dyn Fn(),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let house = &House {
        service: &service,
        door: Mutex::new(Door::new()),
        refusals: Mutex::default(),
        busy: Busy::default(),
        probes: Probes::new(probes::MOST),
        log,
    };
    let mut limit = None;
    std::thread::scope(|scope| {
        loop {
            wait(&[listener.as_fd(), signals.as_fd()], house.look_again(limit))?;
            if signals.next()?.is_some() {
                log("stopped".into());
                ends();
                // Sessions in progress and their workers end with this process.
                std::process::exit(0);
            }
            for _ in 0..AT_ONCE {
                match listener.accept() {
                    Ok((stream, from)) => house.arrive(Guest { stream, from, gives_way: AtomicBool::new(false) }),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        // Out of descriptors, or the client has left again: wait a little and go on.
                        house.refused(|| format!("cannot accept a connection: {error}"));
                        std::thread::sleep(Duration::from_millis(100));
                        break;
                    }
                }
            }
            limit = loop {
                let next = house.door().next(Instant::now());
                match next {
                    Next::Nobody => break None,
                    Next::Wait(left) => break Some(left),
                    Next::Come { id, guest, gives_way } => {
                        if let Some(gone) = gives_way {
                            gone.give_way();
                        }
                        let from = guest.from;
                        let spawned = std::thread::Builder::new().name("session".into()).spawn_scoped(scope, move || {
                            let place = Place { house, id };
                            connection(&guest, place);
                        });
                        if let Err(error) = spawned {
                            house.door().leave(id);
                            house.refused(|| format!("{from}: refused: no thread for it: {error}"));
                        }
                    }
                }
            };
        }
    })
}

impl Guest {
    /// Ends the guest's handshake; its thread tells the client why.
    fn give_way(&self) {
        self.gives_way.store(true, Ordering::Relaxed);
        // A closed connection needs no shutdown.
        let _ = self.stream.shutdown(Shutdown::Read);
    }
}

impl House<'_> {
    fn door(&self) -> MutexGuard<'_, Door<Arc<Guest>>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrive(&self, guest: Guest) {
        let from = guest.from;
        let refused = self.door().arrive(from.ip(), Arc::new(guest));
        if let Some(guest) = refused {
            handshake::turn_away(&guest.stream);
            self.refused(|| format!("{}: refused: too many connections from its address", guest.from));
        }
    }

    /// Logs a refusal, unless there were many recently.
    fn refused(&self, line: impl FnOnce() -> String) {
        if self.refusals().note(Instant::now()) {
            (self.log)(line());
        }
    }

    /// When to check the door and the log again if nothing happens.
    fn look_again(&self, limit: Option<Duration>) -> Option<Duration> {
        let now = Instant::now();
        let (summary, due) = {
            let mut refusals = self.refusals();
            (refusals.summary(now), refusals.due(now))
        };
        if let Some(line) = summary {
            (self.log)(line);
        }
        // Nothing wakes this loop when a place is left.
        let limit = limit.map(|limit| limit.min(Duration::from_millis(10)));
        [limit, due.map(|due| due.max(Duration::from_millis(1)))].into_iter().flatten().min()
    }
}

/// A place inside the door; left on drop.
struct Place<'a> {
    house: &'a House<'a>,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.house.door().leave(self.id);
    }
}

fn connection(guest: &Guest, place: Place<'_>) {
    let (house, from) = (place.house, guest.from);
    let addresses = guest.stream.try_clone().and_then(|stream| Ok((guest.stream.local_addr()?, stream)));
    let (local, stream) = match addresses {
        Ok(found) => found,
        Err(error) => return house.refused(|| format!("{from}: refused: {error}")),
    };
    let admission = Admission { key: house.service.key.as_ref(), gives_way: Some(&guest.gives_way) };
    let (mut channel, kind) = match handshake::accept(stream, admission) {
        Ok(accepted) => accepted,
        Err(error) => return house.refused(|| format!("{from}: {error}")),
    };
    let listen = Listen { address: local.ip(), ports: house.service.ports, client: from.ip(), scope: scope_of(local) };
    let (place, pass) = match &house.service.gate {
        None if kind == Kind::Probe => {
            drop(place);
            return probe(house, channel, listen, from);
        }
        None => (Some(place), None),
        Some(gate) => {
            // It has proved the key, and may have much to say: it takes no place from those who have not.
            drop(place);
            match gate.enter(&mut channel) {
                Entry::Session(pass) => (None, Some(pass)),
                Entry::Over => return,
            }
        }
    };
    let turn = match house.busy.take(&channel, Until::At(Instant::now() + SILENCE)) {
        Ok(Ok(turn)) => turn,
        Ok(Err(until)) => {
            let message = until.in_words(Instant::now());
            house.refused(|| format!("{from}: refused: {message}"));
            return send_away(&mut channel, &Answer::Failed(Failure { message, missing: false }));
        }
        Err(error) => return house.refused(|| format!("{from}: refused: {error}")),
    };
    drop(place);
    (house.log)(format!("{from}: session begins"));
    let ended = Session::new(channel, listen, house, None).and_then(|mut session| session.run());
    match ended {
        Ok(rows) => (house.log)(format!("{from}: session ends after {rows} rows")),
        Err(error) => (house.log)(format!("{from}: session ends: {error}")),
    }
    drop(turn);
    drop(pass);
}

/// Serves a probe, or tells it why not.
fn probe(house: &House<'_>, mut channel: Channel, listen: Listen, from: SocketAddr) {
    let place = match house.probes.enter() {
        Ok(place) => place,
        Err(NoPlace::Paused(until)) => {
            house.refused(|| format!("{from}: its probe has to wait for the session that measures"));
            return send_away(&mut channel, &Answer::Pause(left(until, Instant::now())));
        }
        Err(NoPlace::Full(most)) => {
            let message = format!("this server serves {most} probes already; run again when one has ended");
            house.refused(|| format!("{from}: refused: {message}"));
            return send_away(&mut channel, &Answer::Failed(Failure { message, missing: false }));
        }
        Err(NoPlace::Failed(error)) => return house.refused(|| format!("{from}: refused: no descriptor for it: {error}")),
    };
    (house.log)(format!("{from}: probe begins, {} of at most {}", place.of(), probes::MOST));
    let ended = Session::new(channel, listen, house, Some(Probing::new(place))).and_then(|mut session| session.run());
    match ended {
        Ok(rows) => (house.log)(format!("{from}: probe ends after {rows} rows")),
        Err(error) => (house.log)(format!("{from}: probe ends: {error}")),
    }
}

/// Tells a client why it is turned away. Reads its first request, since closing a connection with unread bytes resets it and
/// loses the reason.
fn send_away(channel: &mut Channel, answer: &Answer) {
    let _ = channel.send(answer);
    let _ = channel.recv::<Request>(HEARS_WITHIN);
}

/// Why a session ended before its client closed it.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    /// The server's own worker failed.
    #[error(transparent)]
    Worker(#[from] SideError),
    /// No valid message came from the client.
    #[error("the client: {0}")]
    Client(RecvError),
    /// A message could not be sent to the client.
    #[error("the client takes no answers: {0}")]
    ToClient(#[from] SendError),
    /// The client sent nothing for [`SILENCE`].
    #[error("the client has said nothing for {SILENCE:?}")]
    Silent,
    /// The row lasts longer than announced.
    #[error("the row lasts longer than was planned")]
    Overdue,
    /// A probe did not stand still in time.
    #[error("it did not stand still for the session that measures")]
    Moving,
    /// A probe asked for what only a session that measures alone has.
    #[error("a probe has no hooks, stamps and times of day")]
    NotForProbes,
    /// A probe sent too many messages.
    #[error("it sends too many messages")]
    Chatty,
    /// The server's side of a probe's row failed.
    #[error("{0}")]
    Row(String),
    /// The kernel refused to wait.
    #[error("cannot wait for the client: {0}")]
    Wait(io::Error),
}

struct Session<'a> {
    channel: Channel,
    worker: WorkerSide,
    listen: Listen,
    house: &'a House<'a>,
    /// Only a probe has it.
    probing: Option<Probing<'a>>,
    heard: Instant,
    /// The row in progress: its deadline, and whether the client has asked for its end.
    row: Option<RowState>,
    rows: u32,
    /// Traces the rows that ask for it.
    host: ServersHost,
    /// While it measures, the probes stand still; the last to be dropped.
    pause: Option<Pause<'a>>,
}

struct RowState {
    deadline: Instant,
    /// The client knows the data port.
    ready: bool,
    done: bool,
}

impl<'a> Session<'a> {
    fn new(
        channel: Channel,
        listen: Listen,
        house: &'a House<'a>,
        probing: Option<Probing<'a>>,
    ) -> Result<Session<'a>, SessionError> {
        let service = house.service;
        let host = ServersHost::new(Stamps::create().map_err(SideError::from)?);
        let mut worker = WorkerSide::start(None, Some(host.stamps()), service.stack.as_ref())?;
        worker.order(&Order::StayOn(service.grants.cpus.clone()))?;
        let heard = Instant::now();
        Ok(Session { channel, worker, listen, house, probing, heard, row: None, rows: 0, host, pause: None })
    }

    fn run(&mut self) -> Result<u32, SessionError> {
        loop {
            for _ in 0..REQUESTS_AT_ONCE {
                match self.next_request()? {
                    None => break,
                    Some(Some(request)) => self.take(request)?,
                    Some(None) => return Ok(self.rows),
                }
            }
            while let Some(answer) = self.worker.try_answer()? {
                self.relay(answer)?;
            }
            self.follow()?;
            let now = Instant::now();
            if now.duration_since(self.heard) >= SILENCE {
                return Err(SessionError::Silent);
            }
            let is_paused = self.probing.as_ref().is_some_and(Probing::is_paused);
            if !is_paused && self.row.as_ref().is_some_and(|row| now >= row.deadline) {
                return Err(SessionError::Overdue);
            }
            let done = self.row.as_ref().is_some_and(|row| row.done);
            if done {
                self.worker.nudge();
            }
            let limit = match done {
                // Requests are still buffered.
                _ if self.channel.buffered() => Duration::ZERO,
                true => Duration::from_millis(20),
                false if is_paused => PAUSED_TICK,
                false => TICK,
            };
            let mut fds = vec![self.channel.as_fd(), self.worker.as_fd()];
            fds.extend(self.probing.as_ref().map(AsFd::as_fd));
            wait(&fds, Some(limit)).map_err(SessionError::Wait)?;
        }
    }

    /// The next request; `Some(None)` at the end of the session, `None` if nothing has come yet.
    fn next_request(&mut self) -> Result<Option<Option<Request>>, SessionError> {
        match self.channel.try_recv::<Request>() {
            Ok(None) => Ok(None),
            Ok(Some(request)) => {
                self.heard = Instant::now();
                Ok(Some(Some(request)))
            }
            Err(RecvError::Closed) => Ok(Some(None)),
            Err(error) => Err(SessionError::Client(error)),
        }
    }

    fn take(&mut self, request: Request) -> Result<(), SessionError> {
        if let Some(probing) = &mut self.probing {
            probing.counts(&request)?;
            let left = match request {
                Request::Facts { .. } | Request::Plan(_) if self.row.is_none() => probing.must_wait(),
                _ => None,
            };
            if let Some(until) = left {
                return Ok(self.channel.send(&Answer::Pause(self::left(until, Instant::now())))?);
            }
        }
        match request {
            Request::Beat => Ok(()),
            Request::Paused => {
                if let Some(probing) = &mut self.probing
                    && self.row.as_ref().is_some_and(|row| !row.done)
                {
                    probing.stands_still(&mut self.worker);
                }
                Ok(())
            }
            Request::Go => {
                self.host.goes();
                Ok(())
            }
            Request::Times => {
                let times = self.host.times();
                Ok(self.channel.send(&Answer::Times(times))?)
            }
            Request::Clock => {
                let told = self.host.told();
                Ok(self.channel.send(&Answer::Clock(Box::new(told)))?)
            }
            Request::Hooks(on) => {
                self.host.hooks(on);
                Ok(self.channel.send(&Answer::Done)?)
            }
            Request::Halves => {
                let halves = self.host.halves().into_iter().map(Half::from).collect();
                Ok(self.channel.send(&Answer::Halves(halves))?)
            }
            Request::Stamps(every) => {
                let Listen { address, scope, .. } = self.listen;
                self.host.stamps_of(every, || interface_at(address, scope));
                Ok(self.channel.send(&Answer::Done)?)
            }
            Request::Nics => {
                let report = self.host.nics();
                Ok(self.channel.send(&Answer::Nics(Box::new(report)))?)
            }
            // The worker is measuring and would not answer.
            Request::Facts { .. } if self.row.is_some() => self.fails("facts are read between rows, not in one".into()),
            Request::Facts { threads } => {
                let threads = threads.clamp(1, 1024);
                let interface = interface_at(self.listen.address, self.listen.scope);
                let answer = self.worker.order(&Order::Facts { interface, cpu: None, threads, server: true })?;
                Ok(self.channel.send(&answer)?)
            }
            Request::Plan(job) => match self.admit(&job) {
                Ok(()) => self.begin(job),
                Err(failure) => Ok(self.channel.send(&Answer::Failed(failure))?),
            },
            Request::Done => {
                if let Some(row) = &mut self.row {
                    if let Some(probing) = &mut self.probing {
                        probing.row_ends(&mut self.worker);
                    }
                    row.done = true;
                    self.worker.stop();
                }
                Ok(())
            }
        }
    }

    fn admit(&self, job: &Job) -> Result<(), Failure> {
        admit(job, &self.house.service.grants, self.listen.address.is_ipv6(), self.row.is_some())?;
        match &self.probing {
            Some(_) if !job.is_probe() => Err(Failure {
                message: "a probe takes at most 100 requests per second, and no busy waiting".into(),
                missing: false,
            }),
            _ => Ok(()),
        }
    }

    /// The probes stand still for a row until `until`.
    fn pause_probes(&mut self, until: Until) {
        if let Some(pause) = &self.pause {
            return pause.set(until);
        }
        let pause = self.house.probes.pause(until);
        if pause.waiting + pause.closed > 0 {
            (self.house.log)(format!("{} probes wait for it, {} were closed", pause.waiting, pause.closed));
        }
        self.pause = Some(pause);
    }

    /// Does what a probe has to do now.
    fn follow(&mut self) -> Result<(), SessionError> {
        let Some(probing) = &mut self.probing else { return Ok(()) };
        if let Some(answer) = probing.follow(&mut self.row, &mut self.worker)? {
            self.channel.send(&answer)?;
        }
        Ok(())
    }

    fn begin(&mut self, mut job: Box<Job>) -> Result<(), SessionError> {
        let most_per_s = match &self.probing {
            None => {
                let until = Until::end_of(&job, Instant::now());
                self.house.busy.set(until);
                self.pause_probes(until);
                None
            }
            Some(probing) => {
                let cpus = &self.house.service.grants.cpus;
                job.cpus.server = job.cpus.server.or_else(|| cpus.get(probing.index() % cpus.len().max(1)).copied());
                job.pace
            }
        };
        let now = Instant::now();
        // A job without a limit ends when the client stops sending.
        let lasts = job.duration.map_or(Duration::from_secs(366 * 86_400), Duration::from);
        let deadline = now + Duration::from(job.warmup) + lasts + GRACE + job.opens_within();
        self.row = Some(RowState { deadline, ready: false, done: false });
        self.host.rests();
        if job.traced {
            self.host.follow_day();
        }
        self.worker.clear_stop();
        Ok(self.worker.send(&Order::Plan { job, listen: self.listen, most_per_s })?)
    }

    fn fails(&mut self, message: String) -> Result<(), SessionError> {
        Ok(self.channel.send(&Answer::Failed(Failure { message, missing: false }))?)
    }

    fn relay(&mut self, answer: Answer) -> Result<(), SessionError> {
        match &answer {
            Answer::Server(_) | Answer::Failed(_) => {
                self.row = None;
                self.rows += u32::from(matches!(answer, Answer::Server(_)));
                self.host.rests();
                match &mut self.probing {
                    None => self.house.busy.set(Until::At(Instant::now() + SILENCE)),
                    Some(probing) => probing.row_ends(&mut self.worker),
                }
            }
            Answer::Ready(_) => {
                if let Some(row) = &mut self.row {
                    row.ready = true;
                }
            }
            _ => {}
        }
        self.channel.send(&answer)?;
        match answer {
            Answer::Server(report) if self.probing.is_some() => report.error.map_or(Ok(()), |why| Err(SessionError::Row(why))),
            _ => Ok(()),
        }
    }
}
