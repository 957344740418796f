//! `hairpin serve`: one measuring session at a time, each with a worker of its own.
//!
//! ```text
//!   listener ── thread per connection, at most 16 ── handshake ── the one session ── Request ─▶ checked ─▶ Order ─▶ worker
//!                                                        └ others: refused with the time left
//! ```
//! Nothing a client says reaches the worker unchecked; where the worker listens and to whom it answers is decided here.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hairpin_iopath::job::{Job, Listen};
use hairpin_iopath::path::{LinkKind, Support};
use hairpin_sys::shared::Stamps;
use hairpin_sys::signal::Signals;
use hairpin_units::Nanos;

use crate::explain::ServersHost;
use crate::message::{Answer, Failure, Half, Order, Request};
use crate::session::channel::Channel;
use crate::session::handshake::{self, Admission};
use crate::session::key::Key;
use crate::side::{SideError, WorkerSide, wait};
use crate::stage::interface_of;

/// Connections that may be shaking hands or measuring at once.
const MOST_CONNECTIONS: usize = 16;
/// A client that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// A row may last longer than planned by so much.
const GRACE: Duration = Duration::from_secs(60);
/// How often a session looks at its deadlines.
const TICK: Duration = Duration::from_millis(500);
/// Bytes in flight over all flows of a session.
const MOST_IN_FLIGHT: u64 = 64 << 20;

/// How to serve.
#[derive(Debug)]
pub struct Service {
    /// Required of every client; without one only loopback is let in.
    pub key: Option<Key>,
    /// First and last data port.
    pub ports: Option<(u16, u16)>,
}

/// The session that measures now: until when, at the latest, it will; endless ones say a day.
type Busy = Arc<Mutex<Option<Instant>>>;

/// Serves until a signal comes. `log` takes one line per event.
pub fn serve(listener: &TcpListener, service: Service, signals: &Signals, log: &(dyn Fn(String) + Sync)) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let busy: Busy = Arc::default();
    let connections = AtomicUsize::new(0);
    let service = &service;
    std::thread::scope(|scope| {
        loop {
            wait(&[listener.as_fd(), signals.as_fd()], None)?;
            if signals.next()?.is_some() {
                log("stopped".into());
                // Sessions in progress end with this process, and their workers with them.
                std::process::exit(0);
            }
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => {
                    // Out of descriptors, or a client that has gone again: wait a little, go on.
                    log(format!("cannot accept a connection: {error}"));
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            if connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
                connections.fetch_sub(1, Ordering::Relaxed);
                log(format!("{from}: refused, {MOST_CONNECTIONS} connections are open"));
                continue;
            }
            let (busy, connections) = (Arc::clone(&busy), &connections);
            let spawned = std::thread::Builder::new().name("session".into()).spawn_scoped(scope, move || {
                connection(stream, from, service, &busy, log);
                connections.fetch_sub(1, Ordering::Relaxed);
            });
            if let Err(error) = spawned {
                connections.fetch_sub(1, Ordering::Relaxed);
                log(format!("{from}: refused, no thread for it: {error}"));
            }
        }
    })
}

fn connection(stream: TcpStream, from: SocketAddr, service: &Service, busy: &Busy, log: &(dyn Fn(String) + Sync)) {
    let local = stream.local_addr();
    let until = *busy.lock().unwrap_or_else(PoisonError::into_inner);
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let channel = match handshake::accept(stream, Admission { key: service.key.as_ref(), busy: left }) {
        Ok(channel) => channel,
        Err(error) => return log(format!("{from}: refused: {error}")),
    };
    let Ok(local) = local else { return };
    let Some(_turn) = Turn::take(busy) else {
        let mut channel = channel;
        let message = "another session began a moment ago: try again".to_owned();
        let _ = channel.send(&Answer::Failed(Failure { message, missing: false }));
        return log(format!("{from}: refused, another session began a moment before"));
    };
    log(format!("{from}: session begins"));
    let session = Session::new(channel, from.ip(), local.ip(), service, busy);
    match session.and_then(|mut session| session.run()) {
        Ok(rows) => log(format!("{from}: session ends after {rows} rows")),
        Err(error) => log(format!("{from}: session ends: {error}")),
    }
}

/// The right to measure; given back when dropped.
struct Turn<'a>(&'a Busy);

impl Turn<'_> {
    fn take(busy: &Busy) -> Option<Turn<'_>> {
        let mut until = busy.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_some() {
            return None;
        }
        *until = Some(Instant::now() + SILENCE);
        Some(Turn(busy))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

struct Session<'a> {
    channel: Channel,
    worker: WorkerSide,
    listen: Listen,
    busy: &'a Busy,
    heard: Instant,
    /// The row in progress: when it must be over, and whether the client has asked for its end.
    row: Option<RowState>,
    rows: u32,
    /// Traces rows that want it.
    host: ServersHost,
}

struct RowState {
    deadline: Instant,
    done: bool,
}

impl<'a> Session<'a> {
    fn new(channel: Channel, client: IpAddr, local: IpAddr, service: &Service, busy: &'a Busy) -> Result<Session<'a>, SideError> {
        let listen = Listen { address: local, ports: service.ports, client };
        let host = ServersHost::new(Stamps::create()?);
        let worker = WorkerSide::start(None, Some(host.stamps()))?;
        Ok(Session { channel, worker, listen, busy, heard: Instant::now(), row: None, rows: 0, host })
    }

    fn run(&mut self) -> Result<u32, SideError> {
        loop {
            while let Some(request) = self.next_request()? {
                match request {
                    Some(request) => self.take(request)?,
                    None => return Ok(self.rows),
                }
            }
            while let Some(answer) = self.worker.try_answer()? {
                self.relay(answer)?;
            }
            let now = Instant::now();
            let overdue = self.row.as_ref().is_some_and(|row| now >= row.deadline);
            if now.duration_since(self.heard) >= SILENCE {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the client has said nothing for 10 s").into());
            }
            if overdue {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the row lasts longer than was planned").into());
            }
            let done = self.row.as_ref().is_some_and(|row| row.done);
            if done {
                self.worker.nudge();
            }
            let limit = if done { Duration::from_millis(20) } else { TICK };
            wait(&[self.channel.as_fd(), self.worker.as_fd()], Some(limit))?;
        }
    }

    /// A request, `Some(None)` at the end of the session, `None` if there is nothing yet.
    fn next_request(&mut self) -> Result<Option<Option<Request>>, SideError> {
        match self.channel.try_recv::<Request>() {
            Ok(None) => Ok(None),
            Ok(Some(request)) => {
                self.heard = Instant::now();
                Ok(Some(Some(request)))
            }
            Err(crate::session::channel::RecvError::Closed) => Ok(Some(None)),
            Err(error) => Err(error.into()),
        }
    }

    fn take(&mut self, request: Request) -> Result<(), SideError> {
        match request {
            Request::Beat | Request::Go => Ok(()),
            Request::Hooks(on) => {
                self.host.hooks(on);
                Ok(self.channel.send(&Answer::Done)?)
            }
            Request::Halves => {
                let halves = self.host.halves().into_iter().map(Half::from).collect();
                Ok(self.channel.send(&Answer::Halves(halves))?)
            }
            Request::Facts { threads } => {
                let threads = threads.clamp(1, 1024);
                let interface = interface_of(self.listen.address);
                let answer = self.worker.order(&Order::Facts { interface, cpu: None, threads, server: true })?;
                Ok(self.channel.send(&answer)?)
            }
            Request::Plan(job) => match admit(&job, self.listen.address.is_ipv6(), self.row.is_some()) {
                Ok(()) => {
                    let planned = Duration::from(job.warmup) + job.duration.map_or(Duration::from_secs(86_400), Duration::from);
                    let endless = job.duration.is_none();
                    let until = Instant::now() + planned;
                    *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
                    // An endless row ends with the client's silence.
                    let grace = if endless { Duration::from_secs(366 * 86_400) } else { GRACE + Duration::from(job.timeout) };
                    self.row = Some(RowState { deadline: until + grace, done: false });
                    self.host.rests();
                    self.worker.clear_stop();
                    self.worker.send(&Order::Plan { job, listen: self.listen })
                }
                Err(message) => Ok(self.channel.send(&Answer::Failed(Failure { message, missing: false }))?),
            },
            Request::Done => {
                if let Some(row) = &mut self.row {
                    row.done = true;
                    self.worker.stop();
                }
                Ok(())
            }
        }
    }

    fn relay(&mut self, answer: Answer) -> Result<(), SideError> {
        match &answer {
            Answer::Server(_) => {
                self.row = None;
                self.rows += 1;
                self.host.rests();
            }
            Answer::Failed(_) => {
                self.row = None;
                self.host.rests();
            }
            _ => {}
        }
        Ok(self.channel.send(&answer)?)
    }
}

/// Refuses what a client has no business to ask.
fn admit(job: &Job, ipv6: bool, in_progress: bool) -> Result<(), String> {
    if in_progress {
        return Err("a row of this session is still in progress".into());
    }
    job.check(ipv6).map_err(|error| error.to_string())?;
    if let Support::No(why) = job.spec.server.path.probe(LinkKind::Host) {
        return Err(why);
    }
    let in_flight = u64::from(job.flows) * u64::from(job.outstanding) * u64::from(job.request.max(job.reply));
    if job.plain_peer || in_flight > MOST_IN_FLIGHT {
        return Err(format!("this server takes at most {} MiB in flight", MOST_IN_FLIGHT >> 20));
    }
    let longest = Nanos::from_secs(7 * 86_400);
    if job.duration.is_some_and(|duration| duration > longest) || job.warmup > longest || job.timeout > Nanos::from_secs(3600) {
        return Err("this server takes rows of at most a week, with a --timeout of at most an hour; or --forever".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_may_ask() {
        let job = crate::ping::tests::job("udp:spin");
        assert_eq!(admit(&job, false, false), Ok(()));
        assert!(admit(&job, false, true).unwrap_err().contains("in progress"));
        for refused in [
            Job { plain_peer: true, ..job.clone() },
            Job { duration: Some(Nanos::from_secs(8 * 86_400)), ..job.clone() },
            Job { timeout: Nanos::from_secs(3601), ..job.clone() },
            Job { spec: "pipe".parse().unwrap(), ..job.clone() },
            Job { spec: "tcp:poll".parse().unwrap(), request: 65_536, flows: 1024, outstanding: 64, ..job.clone() },
        ] {
            assert!(admit(&refused, false, false).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn one_session_at_a_time() {
        let busy = Busy::default();
        let turn = Turn::take(&busy);
        assert!(turn.is_some() && Turn::take(&busy).is_none());
        drop(turn);
        assert!(Turn::take(&busy).is_some());
    }
}
