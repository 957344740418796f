//! `tcp-crr`: a new TCP connection per transaction: connect, request, reply, close.
//!
//! ```text
//!   client:  [socket, bind] │ connect ── send ── receive │ close │ [socket, bind] │ …        [ ] before the RTT of the next
//!                           │◀────────── RTT ───────────▶│
//!   parts:                  │ connect │     exchange     │ close │
//!   server:                   accept ── receive ── send ── receive the end, close
//! ```

mod client;
mod server;
mod tuples;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use hairpin_plan::job::{Address, Job};
use hairpin_plan::option::{self};
use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;
use hairpin_record::warning::Warning;
use hairpin_sys::clock::{AnyClock, Clock, Ticks};
use hairpin_sys::wait::{Policy, or_nothing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::drive::LoopEnd;
use crate::echo::echo;
use crate::error::{PathError, needs_inet};
use crate::inet;
use crate::measure::{ClientRun, ServerRun, drive_paced};
use crate::runner::{Runner, Support};

use client::Client;
use server::Server;
use tuples::Tuples;

pub struct TcpCrr;

impl Runner for TcpCrr {
    fn probe(&self, _link: LinkKind) -> Support {
        Support::Yes
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let (peer, clock) = (needs_inet(&run.peer)?, run.clock);
        let mut client = Client::new(run.job, clock, peer, Tuples::new(peer, run.job.local_port, inet::random()?))?;
        run.alone(|job, work, between| {
            let mut found = drive_paced(&mut client, &clock, job, work, between);
            // The samples are valid: running out of pairs ends the run just as its duration does.
            if client.is_used_up() && matches!(found.end, LoopEnd::Failed(_)) {
                found.end = LoopEnd::Done;
            }
            if let LoopEnd::Failed(error) = &mut found.end
                && error.kind() == io::ErrorKind::TimedOut
                && let Some(why) = client.silent()
            {
                *error = why;
            }
            found
        })?;
        run.found.side.granted.append(&mut client.side.granted);
        if client.is_used_up() {
            run.found.side.warnings.push(Warning::TuplesUsedUp { connections: client.connections() });
        }
        client.tell(&mut run.found.parts, &mut run.found.own);
        Ok(())
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let clock = run.clock;
        let listener = inet::listen_tcp(run.job, &run.listen, &mut run.found.side)?;
        // Accepted sockets inherit all options but the priority from the listening socket.
        inet::after_connect(&listener, &run.job.spec.server, Side::Server, &mut run.found.side)?;
        let turn = Turn::of(run.job.spec.server.policy);
        turn.prepare(&listener).map_err(PathError::at("cannot prepare the listening socket"))?;
        let address = listener.local_addr().map_err(PathError::at("cannot read the data port"))?;
        run.observer.ready(Some(&Address::Inet(address))).map_err(PathError::at("cannot announce the data port"))?;
        let mut server = Server::new(run.job, clock, turn, listener, run.listen.client);
        run.alone(|job, callbacks| echo(&mut server, &clock, job.reply as usize, callbacks))
    }
}

/// True if the server closes each connection first; the client's side of the spec decides for both.
fn server_closes(job: &Job) -> bool {
    job.spec.client.options.get(&option::CLOSES) == Some("server")
}

/// A thread's wait for a call on a descriptor to succeed. Each connection is waited for only a few times, so
/// there is nothing to prepare once, as a [`Waiting`](hairpin_sys::wait::Waiting) over persistent descriptors
/// does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// `block`: the call itself blocks.
    Block,
    /// `poll`: poll(2), then the call.
    Poll,
    /// `spin`: repeats the call.
    Spin,
}

impl Turn {
    fn of(policy: Policy) -> Turn {
        match policy {
            Policy::Poll => Turn::Poll,
            Policy::Spin => Turn::Spin,
            _ => Turn::Block,
        }
    }

    fn is_nonblocking(self) -> bool {
        self != Turn::Block
    }

    /// Sets the mode of a new socket: non-blocking, or blocking for at most [`PATIENCE`](hairpin_sys::wait::PATIENCE).
    fn prepare(self, fd: &impl AsFd) -> io::Result<()> {
        if self.is_nonblocking() {
            Ok(rustix::io::ioctl_fionbio(fd, true)?)
        } else {
            hairpin_sys::socket::set_receive_timeout(fd, hairpin_sys::wait::PATIENCE)
        }
    }

    /// Repeats `attempt` until it succeeds or `until` has passed, waiting for `events` before each call.
    #[inline(always)]
    fn take<T>(
        self,
        clock: AnyClock,
        fd: BorrowedFd<'_>,
        events: PollFlags,
        until: Ticks,
        mut attempt: impl FnMut() -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        loop {
            if self == Turn::Poll {
                let left = clock.to_ns(until.since(clock.now()));
                let left = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
                or_nothing(poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&left)))?;
            }
            if let Some(found) = attempt()? {
                return Ok(Some(found));
            }
            if clock.now() >= until {
                return Ok(None);
            }
        }
    }
}
