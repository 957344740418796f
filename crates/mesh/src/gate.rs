//! The gate of a rank. In a slot in which the rank serves, the gate lets its partner in and tells all others its round; at rank 0
//! it also takes deliveries.

use hairpin_units::Gather;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_session::channel::Channel;
use hairpin_session::message::{Answer, Failure};
use hairpin_session::serve::gate::{Entry, Gate};

use crate::meeting::Card;
use crate::schedule::Slot;
use crate::visit::Told;
use crate::words::{Ask, Delivery, Hello, Reply};

/// The hello of a client comes within this time.
const HEARS_WITHIN: Duration = Duration::from_secs(2);
/// A piece of a delivery comes within this time …
const PIECE_WITHIN: Duration = Duration::from_secs(5);
/// … and all of it within this.
const DELIVERED_WITHIN: Duration = Duration::from_secs(60);
/// The shortest and the longest time after which another rank is asked to try again.
const AGAIN: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];
/// All others ask rank 0 to take their visits, maybe while it measures. Each is asked to try again after this time for every rank
/// …
const FOR_EACH: Duration = Duration::from_millis(5);
/// … but no later than after this, unless a visit lasts longer.
const OF_ALL: Duration = Duration::from_millis(500);
/// No pair has more visits than this beyond those of the schedule: two of a second look, and one with stages.
const FURTHER: usize = 4;

/// The gate of one rank. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct RankGate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// This rank's hello; that of another rank of its mesh has the same mesh, tool and setup.
    own: Hello,
    state: Mutex<State>,
    /// A byte for each change that the rank itself waits for.
    wakes: UnixStream,
    woken: UnixStream,
}

#[derive(Debug)]
struct State {
    /// The round in which this rank is; 0: it has not begun.
    round: u32,
    /// How long the visit of this round presumably lasts.
    lasts: Duration,
    /// When it will presumably be over.
    until: Instant,
    /// The client of this round, if this rank is the server.
    expected: Option<u32>,
    /// The session of this round.
    guest: Option<Guest>,
    /// How long the session was, once it is over.
    ended: Option<Duration>,
    /// The deliveries at rank 0; `None` while it measures, and at other ranks.
    collection: Option<Collection>,
    /// The further slots of each rank, at rank 0; `None` until they are known.
    slots: Option<BTreeMap<u32, Vec<Slot>>>,
    fetched: BTreeSet<u32>,
}

/// A session in progress.
#[derive(Debug)]
struct Guest {
    /// The same connection, to end it.
    connection: TcpStream,
    since: Instant,
}

/// The deliveries of the other ranks.
#[derive(Debug, Default)]
pub struct Collection {
    /// Each with its card.
    pub cards: BTreeMap<u32, Card>,
    /// The visits of each.
    pub visits: BTreeMap<u32, Vec<Told>>,
}

impl RankGate {
    /// The gate of the rank whose hello is `own`.
    pub fn new(own: Hello) -> std::io::Result<RankGate> {
        let (wakes, woken) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let state = State {
            round: 0,
            lasts: Duration::ZERO,
            until: Instant::now(),
            expected: None,
            guest: None,
            ended: None,
            collection: None,
            slots: None,
            fetched: BTreeSet::new(),
        };
        Ok(RankGate(Arc::new(Inner { own, state: Mutex::new(state), wakes, woken })))
    }

    /// This rank is in `round` now, whose visit presumably lasts for `lasts`, as the server of `expected` or as a client.
    pub fn moves_to(&self, round: u32, expected: Option<u32>, lasts: Duration) {
        let mut state = self.0.state();
        (state.round, state.expected, state.lasts) = (round, expected, lasts);
        (state.guest, state.ended) = (None, None);
        state.begins();
    }

    /// The visit of this round begins now, with this rank as its client: others are asked to come after it.
    pub fn begins(&self) {
        self.0.state().begins();
    }

    /// How long the session of this round was, once it is over.
    pub fn ended(&self) -> Option<Duration> {
        self.0.state().ended
    }

    /// Since when the session of this round has been going on.
    pub fn guest_since(&self) -> Option<Instant> {
        self.0.state().guest.as_ref().map(|guest| guest.since)
    }

    /// Ends the session of this round.
    pub fn cut(&self) {
        if let Some(guest) = &self.0.state().guest {
            // A connection that is closed already needs no shutdown.
            let _ = guest.connection.shutdown(Shutdown::Both);
        }
    }

    /// Lets nobody in any more in this round; false if somebody is in.
    pub fn close(&self) -> bool {
        let mut state = self.0.state();
        if state.guest.is_some() || state.ended.is_some() {
            return false;
        }
        state.expected = None;
        true
    }

    /// Takes deliveries from now on; of rank 0.
    pub fn collects(&self) {
        let mut state = self.0.state();
        state.collection.get_or_insert_default();
        (state.slots, state.fetched) = (None, BTreeSet::new());
        state.expected = None;
    }

    /// The ranks that have delivered.
    pub fn delivered(&self) -> BTreeSet<u32> {
        self.0.state().collection.iter().flat_map(|collection| collection.visits.keys().copied()).gather()
    }

    /// All that was delivered; no more is taken.
    pub fn take(&self) -> Collection {
        self.0.state().collection.take().unwrap_or_default()
    }

    /// Tells each rank its further slots when it asks.
    pub fn tells(&self, slots: BTreeMap<u32, Vec<Slot>>) {
        self.0.state().slots = Some(slots);
    }

    /// The ranks that have asked for their further slots.
    pub fn fetched(&self) -> BTreeSet<u32> {
        self.0.state().fetched.clone()
    }

    /// For poll(2): readable after a change.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.woken.as_fd()
    }

    /// Forgets the changes so far.
    pub fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.0.woken).read(&mut bytes).is_ok_and(|read| read > 0) {}
    }
}

impl State {
    fn begins(&mut self) {
        self.until = Instant::now() + self.lasts;
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A full buffer wakes as well.
        let _ = (&self.wakes).write(&[1]);
    }

    /// Why a rank does not belong here.
    fn foreign(&self, hello: &Hello) -> Option<String> {
        let (own, them, us, ranks) = (&self.own, hello.rank, self.own.rank, self.own.setup.ranks);
        if hello.tool != own.tool {
            return Some(format!("rank {them} is {}, rank {us} is {}: install the same on all hosts", hello.tool, own.tool));
        }
        if hello.mesh != own.mesh {
            return Some(format!("rank {us} belongs to another mesh ({}, not {})", own.mesh, hello.mesh));
        }
        if hello.setup != own.setup {
            return Some(format!("ranks {them} and {us} were started with different flags: give all the same"));
        }
        if them == us {
            return Some(format!("two ranks have one address, or both are rank {us}: look at --rank, --hosts and --listen"));
        }
        (them >= ranks).then(|| format!("there is no rank {them} in a mesh of {ranks}"))
    }

    /// Asks for another try after the present visit, and after `least` at the soonest.
    fn not_yet(state: &State, least: Duration) -> Reply {
        let left = state.until.saturating_duration_since(Instant::now()).clamp(least, AGAIN[1]);
        Reply::NotYet { round: state.round, again_ms: left.as_millis() as u64 }
    }

    /// The answer to the client of a visit, and whether it comes in.
    fn visit(&self, from: u32, round: u32, connection: Option<TcpStream>) -> Reply {
        let mut state = self.state();
        if round > state.round {
            return Inner::not_yet(&state, AGAIN[0]);
        }
        if round < state.round || state.guest.is_some() || state.ended.is_some() {
            return Reply::Past { round: state.round };
        }
        match (state.expected, connection) {
            (Some(expected), Some(connection)) if expected == from => {
                state.guest = Some(Guest { connection, since: Instant::now() });
                state.begins();
                Reply::Come
            }
            (Some(_), _) => Reply::Refused { why: format!("rank {} has another partner in round {round}", self.own.rank) },
            (None, _) => Reply::Past { round: state.round },
        }
    }

    /// Takes a delivery, of no more visits than a rank can have made.
    fn receive(&self, from: u32, channel: &mut Channel) -> Option<()> {
        channel.send(&Reply::Take).ok()?;
        let deadline = Instant::now() + DELIVERED_WITHIN;
        let most = (self.own.setup.visits as usize + FURTHER) * self.own.setup.ranks as usize;
        let (mut card, mut visits) = (None, Vec::new());
        while Instant::now() < deadline && visits.len() <= most {
            match channel.recv(PIECE_WITHIN).ok()? {
                Delivery::Card(theirs) => card = Some(*theirs).filter(|card| card.rank == from),
                Delivery::Visits(some) => visits.extend(some.into_iter().filter(|told: &Told| told.by == from)),
                Delivery::End => {
                    {
                        let mut state = self.state();
                        let collection = state.collection.as_mut()?;
                        collection.cards.extend(card.map(|card| (from, card)));
                        collection.visits.insert(from, visits);
                    }
                    self.wake();
                    return channel.send(&Reply::Taken).ok();
                }
            }
        }
        None
    }
}

/// The partner's session; dropped at its end.
struct Pass(Arc<Inner>, u32);

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.round == self.1
            && let Some(guest) = state.guest.take()
        {
            state.ended = Some(guest.since.elapsed());
        }
        drop(state);
        self.0.wake();
    }
}

impl Gate for RankGate {
    fn enter(&self, channel: &mut Channel) -> Entry {
        let inner = &self.0;
        let Ok(hello) = channel.recv::<Hello>(HEARS_WITHIN) else {
            let message =
                "a rank of `hairpin mesh` listens here, and takes its own mesh only; `hairpin serve` takes others".into();
            let _ = channel.send(&Answer::Failed(Failure { message, missing: false }));
            return Entry::Over;
        };
        let reply = match (inner.foreign(&hello), hello.ask) {
            (Some(why), _) => Reply::Refused { why },
            (None, Ask::Where) => Reply::Here { round: inner.state().round },
            (None, Ask::Visit { round }) => {
                let connection = channel.as_fd().try_clone_to_owned().map(TcpStream::from).ok();
                let reply = inner.visit(hello.rank, round, connection);
                if reply == Reply::Come {
                    let pass = Pass(inner.clone(), round);
                    inner.wake();
                    // If the partner has gone, the session notices at once.
                    let _ = channel.send(&reply);
                    return Entry::Session(Box::new(pass));
                }
                reply
            }
            (None, Ask::Deliver) if inner.state().collection.is_some() => {
                // A delivery that is not whole comes again, or its visits are read from the rank's file.
                let _ = inner.receive(hello.rank, channel);
                return Entry::Over;
            }
            (None, Ask::Deliver) => {
                let least = (FOR_EACH * inner.own.setup.ranks).clamp(AGAIN[0], OF_ALL);
                Inner::not_yet(&inner.state(), least)
            }
            (None, Ask::More) => {
                let mut state = inner.state();
                match state.slots.as_ref().map(|slots| slots.get(&hello.rank).cloned().unwrap_or_default()) {
                    Some(slots) => {
                        state.fetched.insert(hello.rank);
                        inner.wake();
                        Reply::Slots(slots)
                    }
                    None => Reply::NotYet { round: state.round, again_ms: 100 },
                }
            }
        };
        let _ = channel.send(&reply);
        Entry::Over
    }
}

#[cfg(test)]
mod tests;
