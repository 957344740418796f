//! The server of `tcp-crr`: accepts, answers and closes one connection after another; none can delay the next for long.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hairpin_plan::job::Job;
use hairpin_plan::option::PRIORITY;
use hairpin_sys::clock::{AnyClock, Clock, Ticks};
use hairpin_sys::socket;
use hairpin_sys::wait::or_nothing;
use hairpin_wire::probe;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send};

use super::{Turn, server_closes};
use crate::content::Content;
use crate::endpoint::{Endpoint, Reply};
use crate::stream::push_to_socket;

/// A connection is closed after this time, or a quarter of the run's timeout: a stalled client must not block the others.
const LONGEST: Duration = Duration::from_secs(1);

/// One connection at a time.
pub(super) struct Server {
    clock: AnyClock,
    turn: Turn,
    listener: TcpListener,
    client: IpAddr,
    /// Every request long enough for a cookie must carry this one.
    cookie: u64,
    connection: Option<OwnedFd>,
    answered: bool,
    deadline: Ticks,
    /// Buffer for request and reply.
    buffer: Vec<u8>,
    request: usize,
    have: usize,
    longest: Duration,
    server_closes: bool,
    /// SO_PRIORITY, which an accepted socket does not inherit (`sk_clone_lock` of net/core/sock.c).
    priority: Option<u32>,
}

impl Server {
    pub(super) fn new(job: &Job, clock: AnyClock, turn: Turn, listener: TcpListener, client: IpAddr) -> Server {
        Server {
            clock,
            turn,
            listener,
            client,
            cookie: job.cookie,
            connection: None,
            answered: false,
            deadline: Ticks::NEVER,
            buffer: vec![0; job.request.max(job.reply) as usize],
            request: job.request as usize,
            have: 0,
            longest: LONGEST.min(Duration::from(job.timeout) / 4),
            server_closes: server_closes(job),
            priority: job.spec.server.options.number(&PRIORITY),
        }
    }

    /// `false`: no connection before `until`.
    #[inline(always)]
    fn accept(&mut self, until: Ticks) -> io::Result<bool> {
        let flags = if self.turn.is_nonblocking() { SocketFlags::CLOEXEC | SocketFlags::NONBLOCK } else { SocketFlags::CLOEXEC };
        let accepted = self.turn.take(self.clock, self.listener.as_fd(), PollFlags::IN, until, || {
            match acceptfrom_with(&self.listener, flags) {
                // The client closed the connection before it was accepted.
                Err(Errno::CONNABORTED) => Ok(None),
                result => or_nothing(result),
            }
        })?;
        let Some((connection, from)) = accepted else { return Ok(false) };
        let from = from.and_then(|any| SocketAddr::try_from(any).ok());
        if from.is_some_and(|from| self.is_client(from.ip())) {
            if let Some(priority) = self.priority {
                socket::set(&connection, socket::SO_PRIORITY, priority as i32)?;
            }
            self.connection = Some(connection);
            (self.answered, self.have) = (false, 0);
            self.deadline = self.clock.now().plus(self.clock.to_ticks(self.longest.as_nanos() as u64));
        }
        Ok(true)
    }

    /// True for the client's address; on loopback, the client cycles through all loopback addresses.
    fn is_client(&self, from: IpAddr) -> bool {
        let (from, client) = (from.to_canonical(), self.client.to_canonical());
        from == client || (from.is_loopback() && client.is_loopback())
    }

    /// Receives more of the request or, once it is answered, the client's close. `None`: not complete yet; `false`: the
    /// connection is over, whichever side ended it.
    #[inline(always)]
    fn advance(&mut self, connection: &OwnedFd, until: Ticks) -> io::Result<Option<bool>> {
        let end = if self.answered { 1 } else { self.request };
        let begin = if self.answered { 0 } else { self.have };
        let (buffer, have, answered) = (&mut self.buffer[..end], &mut self.have, self.answered);
        let mut at = begin;
        let until = until.min(self.deadline);
        let whole = self.turn.take(self.clock, connection.as_fd(), PollFlags::IN, until, || {
            match recv(connection, &mut buffer[at..], RecvFlags::empty()) {
                Ok((len, _)) if len == 0 || answered => return Ok(Some(false)),
                Ok((len, _)) => at += len,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Ok(Some(false)),
            }
            Ok((at == end).then_some(true))
        })?;
        *have = at;
        match whole {
            None if self.clock.now() >= self.deadline => Ok(Some(false)),
            Some(true) => Ok(Some(self.is_ours())),
            other => Ok(other),
        }
    }

    fn is_ours(&self) -> bool {
        probe::cookie(&self.buffer[..self.request]).is_none_or(|cookie| cookie == self.cookie)
    }
}

impl Endpoint for Server {
    fn is_lossy(&self) -> bool {
        false
    }

    /// A server sends no requests.
    fn send(&mut self, _flow: u32, _len: usize, _content: Content) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        loop {
            match self.connection.take() {
                None if !self.accept(until)? => return Ok(None),
                None => {}
                // Dropping the connection closes it.
                Some(_) if self.answered && self.server_closes => {}
                Some(connection) => match self.advance(&connection, until)? {
                    Some(true) => {
                        self.connection = Some(connection);
                        return Ok(Some(Reply { flow: 0, bytes: &self.buffer[..self.request] }));
                    }
                    Some(false) => {}
                    None => {
                        self.connection = Some(connection);
                        return Ok(None);
                    }
                },
            }
            // A series of other connections must not keep the caller from its stop flag.
            if self.clock.now() >= until {
                return Ok(None);
            }
        }
    }

    #[inline(always)]
    fn reply(&mut self, _flow: u32, len: usize) -> io::Result<bool> {
        let Some(connection) = &self.connection else { return Ok(true) };
        let message = &self.buffer[..len];
        // A blocking send would never end if the client took nothing.
        let sent = or_nothing(send(connection, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)).map(|sent| sent.unwrap_or(0));
        let whole = match sent {
            Ok(sent) if sent == len => Ok(()),
            Ok(sent) => push_to_socket(connection.as_fd(), &message[sent..], self.longest),
            Err(error) => Err(error),
        };
        self.answered = true;
        if whole.is_err() {
            // The client is gone or does not receive; its own side reports that.
            self.connection = None;
        }
        Ok(true)
    }
}
