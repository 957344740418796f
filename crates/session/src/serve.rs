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
mod ended;
pub mod gate;
mod grants;
pub mod hooks;
mod line_limit;
mod probes;
mod probing;
mod session;
mod turn;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_plan::job::{Listen, scope_of};
use hairpin_sys::signal::Signals;
use hairpin_sys::stack::Library;

use self::door::{Door, Next};
use self::ended::SessionError;
use self::gate::{Entry, Gate};
pub use self::grants::Grants;
use self::line_limit::LineLimit;
use self::probes::{NoPlace, Probes, left};
use self::probing::Probing;
use self::session::Session;
use self::turn::{Busy, Until};
use crate::channel::Channel;
use crate::handshake::{self, Admission, Kind};
use crate::key::Key;
use crate::message::{Answer, Failure, Request};
use crate::side::wait;

/// Most connections accepted before other work gets its turn.
const AT_ONCE: usize = 64;
/// A client that sends nothing for this long between rows, or while a row is measured, counts as gone.
const SILENCE: Duration = Duration::from_secs(10);
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
    /// The gate that clients with the key pass before their session, if any.
    pub gate: Option<Arc<dyn Gate>>,
}

/// A connection that has not completed the handshake.
struct Guest {
    stream: TcpStream,
    from: SocketAddr,
    gives_way: AtomicBool,
}

/// Lines of refusals in ten seconds, and of sessions and probes that begin: all probes may come back at once.
const REFUSALS: u32 = 8;
const VISITS: u32 = 2 * probes::MOST as u32;

/// State shared by all connections.
struct House<'a> {
    service: &'a Service,
    door: Mutex<Door<Arc<Guest>>>,
    refusals: Mutex<LineLimit>,
    visits: Mutex<LineLimit>,
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
        refusals: Mutex::new(LineLimit::new(REFUSALS)),
        visits: Mutex::new(LineLimit::new(VISITS)),
        busy: Busy::default(),
        probes: Probes::new(probes::MOST, probes::STILL_WITHIN),
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

    fn refusals(&self) -> MutexGuard<'_, LineLimit> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visits(&self) -> MutexGuard<'_, LineLimit> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Serves a client's rows; logs its begin and its end, unless there were many recently.
    fn visit(&self, begins: String, whose: &str, run: impl FnOnce() -> Result<u32, SessionError>) {
        let is_shown = self.visits().note(Instant::now());
        if is_shown {
            (self.log)(begins);
        }
        match run() {
            Ok(rows) if is_shown || rows > 0 => (self.log)(format!("{whose} ends after {rows} rows")),
            Err(error) if is_shown => (self.log)(format!("{whose} ends: {error}")),
            _ => {}
        }
    }

    /// When to check the door and the log again if nothing happens.
    fn look_again(&self, limit: Option<Duration>) -> Option<Duration> {
        let now = Instant::now();
        let mut due = None;
        for (mut limit, what) in [(self.refusals(), "refused"), (self.visits(), "sessions")] {
            limit.summary(now, what).into_iter().for_each(self.log);
            due = [due, limit.due(now)].into_iter().flatten().min();
        }
        // Nothing wakes this loop when a place becomes free.
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
        None if kind == Kind::Probe => return probe(house, channel, listen, from, place),
        // Nobody takes its place while it waits for its turn.
        None if house.door().stay(place.id, true) => (Some(place), None),
        None => {
            // It had to give way at the same moment, and can no longer be heard.
            house.refused(|| format!("{from}: refused: too many connections"));
            let message = "this server has too many connections from your address: run again".into();
            return send_away(&mut channel, &Answer::Failed(Failure { message, missing: false }));
        }
        Some(gate) => {
            // This client has proved the key, and may have much to say: it takes no place from those who have not.
            drop(place);
            match gate.enter(&mut channel) {
                Entry::Session(pass) => (None, Some(pass)),
                Entry::Over => return,
            }
        }
    };
    let turn = match house.busy.take(&channel, from.ip(), Until::At(Instant::now() + SILENCE)) {
        Ok(Ok(turn)) => turn,
        Ok(Err(until)) => {
            let mut message = until.in_words(Instant::now());
            if house.service.gate.is_none() && house.busy.is_of(from.ip()) {
                message.push_str(
                    "; if both are yours, as for two addresses of one server, start a second one there: hairpin serve ADDR:PORT",
                );
            }
            house.refused(|| format!("{from}: refused: {message}"));
            if let Some(place) = &place {
                house.door().stay(place.id, false);
            }
            return send_away(&mut channel, &Answer::Failed(Failure { message, missing: false }));
        }
        Err(error) => return house.refused(|| format!("{from}: refused: {error}")),
    };
    drop(place);
    let run = || Session::new(channel, listen, house, None).and_then(|mut session| session.run());
    house.visit(format!("{from}: session begins"), &format!("{from}: session"), run);
    drop(turn);
    drop(pass);
}

/// Serves a probe, or tells it why not; until then it has its place inside the door, as those who are told are bounded in number
/// too.
fn probe(house: &House<'_>, mut channel: Channel, listen: Listen, from: SocketAddr, door: Place<'_>) {
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
    drop(door);
    let begins = format!("{from}: probe begins, {} of at most {}", place.of(), probes::MOST);
    let run = || Session::new(channel, listen, house, Some(Probing::new(place))).and_then(|mut session| session.run());
    house.visit(begins, &format!("{from}: probe"), run);
}

/// Tells a client why it is turned away. Reads its first request, since closing a connection with unread bytes resets it and
/// loses the reason.
fn send_away(channel: &mut Channel, answer: &Answer) {
    let _ = channel.send(answer);
    let _ = channel.recv::<Request>(HEARS_WITHIN);
}
