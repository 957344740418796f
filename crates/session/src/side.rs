//! A worker as its parent process sees it: orders out, answers in, stop and nudge.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hairpin_record::run::{ClockFacts, HostFacts};
use hairpin_sys::process::{self, SpawnError};
use hairpin_sys::shared::{Shared, Stamps};
use hairpin_sys::stack::Library;
use hairpin_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::channel::{Channel, RecvError, SendError};
use crate::fds::{CONTROL_FD, NEIGHBOUR_FD, STAMPS_FD, STOP_FD, VERB, program};
use crate::message::{Answer, Failure, InterfaceFacts, Order, StackFound};

/// Time limit of an order that measures nothing.
const ORDER_WITHIN: Duration = Duration::from_secs(20);

/// A worker process; dropping it kills it.
#[derive(Debug)]
pub struct WorkerSide {
    process: process::Worker,
    channel: Channel,
    stop: Shared,
}

/// Why a worker did not carry out an order.
#[derive(Debug, thiserror::Error)]
pub enum SideError {
    /// The worker could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A resource that the worker needs could not be created.
    #[error("cannot prepare a worker process: {0}")]
    Prepare(#[from] io::Error),
    /// The library is not in the place of the worker's sockets.
    #[error("{why}")]
    Stack {
        /// The cause, and a remedy.
        why: String,
        /// True if this program or host lacks something, false if the library is the wrong one.
        missing: bool,
    },
    /// The worker reported a failure.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The worker did not read the order.
    #[error("the worker process takes no orders: {0}")]
    Send(#[from] SendError),
    /// The worker did not answer.
    #[error("the worker process does not answer: {0}")]
    Receive(#[from] RecvError),
    /// The server of a session did not read a request.
    #[error("the server takes no requests: {0}")]
    ToServer(SendError),
    /// The server of a probe serves a session that measures alone; for about this time, if it is known.
    #[error("a measuring session runs there{}; run again after that", .0.map_or(String::new(), |left| format!(", for {left} more")))]
    Later(Option<Nanos>),
    /// The server of a session did not answer.
    #[error("the server does not answer: {0}")]
    Server(RecvError),
    /// The worker gave an unexpected answer.
    #[error("the other process answered {0} out of turn")]
    OutOfTurn(String),
}

impl SideError {
    /// True if a capability or a device is missing.
    pub fn missing(&self) -> bool {
        match self {
            SideError::Failed(failure) => failure.missing,
            SideError::Stack { missing, .. } => *missing,
            _ => false,
        }
    }

    /// True if the library given by the user is the wrong one.
    pub fn wrong_library(&self) -> bool {
        matches!(self, SideError::Stack { missing: false, .. })
    }
}

impl WorkerSide {
    /// Starts a worker; it shares `neighbour` with the other side's worker, writes the stamps of each transaction to `stamps`,
    /// and has `stack` in the place of the kernel's sockets.
    pub fn start(neighbour: Option<&Shared>, stamps: Option<&Stamps>, stack: Option<&Library>) -> Result<WorkerSide, SideError> {
        let (ours, theirs) = UnixStream::pair()?;
        let stop = Shared::create()?;
        let mut inherit = vec![(theirs.as_fd(), CONTROL_FD), (stop.as_fd(), STOP_FD)];
        inherit.extend(neighbour.map(|shared| (shared.as_fd(), NEIGHBOUR_FD)));
        let mut args: Vec<OsString> = vec![VERB.into(), std::process::id().to_string().into()];
        inherit.extend(stamps.map(|stamps| (stamps.as_fd(), STAMPS_FD)));
        args.extend(neighbour.map(|_| OsString::from("neighbour")));
        args.extend(stamps.map(|_| OsString::from("stamps")));
        let process = process::Worker::spawn(program(), &args, &inherit, stack)?;
        drop(theirs);
        let mut worker = WorkerSide { process, channel: Channel::plain(ours), stop };
        stack.map_or(Ok(()), |library| worker.has_in_place(library))?;
        Ok(worker)
    }

    /// Checks that the library has replaced the worker's sockets.
    fn has_in_place(&mut self, library: &Library) -> Result<(), SideError> {
        let name = library.path().display().to_string();
        let because = |why: String, missing: bool| Err(SideError::Stack { why, missing });
        let found = match self.order(&Order::Stack(name.clone())) {
            Ok(Answer::Stack(found)) => found,
            Ok(other) => return Err(SideError::OutOfTurn(format!("{other:?}"))),
            Err(SideError::Receive(RecvError::Closed) | SideError::Send(_)) => {
                return because(format!("the worker process ended while {name} was loaded: see what it printed above"), true);
            }
            Err(error) => return Err(error),
        };
        match found {
            StackFound { in_place: true, .. } => Ok(()),
            StackFound { secure: true, .. } => because(
                format!(
                    "the loader did not load {name}: this hairpin has file capabilities or a set-user-id bit, for which it ignores LD_PRELOAD (secure mode, ld.so(8)); use a copy without them"
                ),
                true,
            ),
            StackFound { provider: Some(other), .. } => because(
                format!("{other} provides the sockets, not {name}: take it out of LD_PRELOAD or /etc/ld.so.preload"),
                false,
            ),
            StackFound { mapped: true, .. } => because(
                format!("{name} is loaded and replaces no socket call (it exports no recv): give the stack's own library"),
                false,
            ),
            StackFound { .. } => because(
                format!("the loader did not load {name}: its reason stands above; check the file and what it depends on"),
                false,
            ),
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends an order that the worker answers at once.
    pub fn order(&mut self, order: &Order) -> Result<Answer, SideError> {
        self.order_within(order, ORDER_WITHIN)
    }

    /// Sends an order that the worker answers within `limit`.
    pub fn order_within(&mut self, order: &Order, limit: Duration) -> Result<Answer, SideError> {
        self.send(order)?;
        match self.channel.recv(limit)? {
            Answer::Failed(failure) => Err(SideError::Failed(failure)),
            answer => Ok(answer),
        }
    }

    /// Sends an order whose answers come later.
    pub fn send(&mut self, order: &Order) -> Result<(), SideError> {
        Ok(self.channel.send(order)?)
    }

    /// The next answer, within `timeout`.
    pub fn answer(&mut self, timeout: Duration) -> Result<Answer, SideError> {
        Ok(self.channel.recv(timeout)?)
    }

    /// The next answer, if it has come.
    pub fn try_answer(&mut self) -> Result<Option<Answer>, SideError> {
        Ok(self.channel.try_recv()?)
    }

    /// The worker's clock and the facts of its host: of `interface`, and of the cores that `threads` threads use, from `cpu` on.
    pub fn facts(
        &mut self,
        interface: Option<&str>,
        cpu: Option<u32>,
        threads: u32,
        server: bool,
    ) -> Result<(HostFacts, ClockFacts), SideError> {
        match self.order(&Order::Facts { interface: interface.map(Into::into), cpu, threads, server })? {
            Answer::Facts { facts, clock, .. } => Ok((facts, clock)),
            other => Err(SideError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// The address, MTU and counters of an interface in the worker's network namespace.
    pub fn interface_facts(&mut self, name: &str) -> Result<InterfaceFacts, SideError> {
        match self.order(&Order::Interface(name.into()))? {
            Answer::Interface(facts) => Ok(facts),
            other => Err(SideError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// Asks the worker to end its row. It may sleep in a system call: nudge it until it answers.
    pub fn stop(&mut self) {
        self.stop.request_stop();
        self.nudge();
    }

    /// Clears the stop flag for the next row.
    pub fn clear_stop(&self) {
        self.stop.clear_stop();
    }

    /// Asks a client's worker to stand still before its next request, or to go on.
    pub fn pause(&mut self, pause: bool) {
        self.stop.request_pause(pause);
    }

    /// Freezes the worker, or lets it go on. No effect on a worker that has ended.
    pub fn freeze(&mut self, frozen: bool) {
        let _ = self.process.freeze(frozen);
    }

    /// Wakes the worker from any system call. A worker that has ended needs no waking.
    pub fn nudge(&mut self) {
        let _ = self.process.nudge();
    }

    /// True if the worker still runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl AsFd for WorkerSide {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Sleeps until a descriptor is readable, a signal comes, or `limit` has passed.
pub fn wait(on: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = on.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let limit = limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() });
    match poll(&mut fds, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
