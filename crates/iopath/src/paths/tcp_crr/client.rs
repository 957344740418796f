//! The client of `tcp-crr`: connects within the RTT, then closes the connection and prepares the next socket.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hairpin_plan::job::{Job, LocalPort};
use hairpin_plan::request::Request;
use hairpin_record::histogram::Times;
use hairpin_record::run::{OwnRequest, Side};
use hairpin_sys::clock::{AnyClock, Clock, Ticks};
use hairpin_sys::socket;
use hairpin_sys::wait::or_nothing;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, connect, recv, send};
use socket2::{Protocol, SockAddr, Type};

use super::tuples::Tuples;
use super::{Turn, server_closes};
use crate::content::Content;
use crate::drive::BLOCK_TRANSACTIONS;
use crate::endpoint::{Endpoint, Reply};
use crate::error::PathError;
use crate::inet;
use crate::measure::SideFound;
use crate::own_request::{self, Header, Replies, Tally};
use crate::stream::{closed, push_to_socket};
#[cfg(feature = "tls")]
use crate::tls::{Connector, Handshakes, Session};

/// One connection at a time, and the socket for the next.
pub(super) struct Client<'a> {
    job: &'a Job,
    clock: AnyClock,
    turn: Turn,
    peer: SocketAddr,
    tuples: Tuples,
    prepared: Option<OwnedFd>,
    current: Option<OwnedFd>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    have: usize,
    /// The last send waited for the connect, or for room.
    waited: bool,
    server_closes: bool,
    connections: u64,
    used_up: bool,
    /// Options granted and refused.
    pub(super) side: SideFound,
    parts: Parts,
    own: Option<Own<'a>>,
}

/// The user's own request, and the replies to it.
struct Own<'a> {
    request: &'a Request,
    replies: Replies,
    current: Header,
    tally: Tally,
    #[cfg(feature = "tls")]
    tls: Option<Secured>,
}

/// TLS on each connection anew.
#[cfg(feature = "tls")]
struct Secured {
    connector: Connector,
    session: Option<Session>,
    handshakes: Handshakes,
}

impl<'a> Own<'a> {
    fn new(request: &'a Request) -> Result<Own<'a>, PathError> {
        Ok(Own {
            request,
            replies: Replies::new(request, 1, 1),
            current: Header::default(),
            tally: Tally::default(),
            #[cfg(feature = "tls")]
            tls: match &request.tls {
                Some(tls) => Some(Secured { connector: Connector::new(tls)?, session: None, handshakes: Handshakes::default() }),
                None => None,
            },
        })
    }

    /// Receives on the current connection: the number of bytes, `None` if none have come, and true if more are decrypted already.
    #[inline(always)]
    fn came(&mut self, fd: &OwnedFd) -> io::Result<(Option<usize>, bool)> {
        #[cfg(feature = "tls")]
        if let Some(session) = self.tls.as_mut().and_then(|tls| tls.session.as_mut()) {
            let len = session.recv(fd.as_fd(), self.replies.room()?, RecvFlags::empty())?;
            return Ok((len, session.holds_more()));
        }
        Ok((or_nothing(recv(fd, self.replies.room()?, RecvFlags::empty()))?.map(|(len, _)| len), false))
    }

    /// Receives more of the reply on the current connection; `None`: not whole yet.
    #[inline(always)]
    fn recv(&mut self, fd: &OwnedFd) -> io::Result<Option<()>> {
        let whole = loop {
            let came = self.came(fd).map_err(|error| own_request::with_count(error, &self.replies, &self.tally));
            match came? {
                (None, _) => return Ok(None),
                (Some(0), _) if self.replies.ends_with_the_connection() => break self.replies.closed(),
                (Some(0), _) => return Err(own_request::closed(&self.replies, &self.tally, None)),
                (Some(len), more) => {
                    self.replies.came(len);
                    let whole = self.replies.next()?;
                    if whole.is_some() || !more {
                        break whole;
                    }
                }
            }
        };
        let Some((header, reply)) = whole else { return Ok(None) };
        self.current = header;
        self.tally.count(self.request, reply);
        Ok(Some(()))
    }
}

impl<'a> Client<'a> {
    /// Hears the server out if it is to answer the user's own request, and prepares the first socket.
    pub(super) fn new(job: &'a Job, clock: AnyClock, peer: SocketAddr, tuples: Tuples) -> Result<Self, PathError> {
        if job.own.is_some() {
            hear_out(job, peer)?;
        }
        let mut client = Client {
            job,
            clock,
            turn: Turn::of(job.spec.client.policy),
            peer,
            tuples,
            prepared: None,
            current: None,
            outgoing: vec![0; job.request as usize],
            // Replies to the user's own request are kept elsewhere; waiting for the server's close takes one byte.
            incoming: vec![0; job.reply.max(1) as usize],
            have: 0,
            waited: false,
            server_closes: server_closes(job),
            connections: 0,
            used_up: false,
            side: SideFound::default(),
            parts: Parts::new(clock),
            own: job.own.as_ref().map(Own::new).transpose()?,
        };
        client.prepare()?;
        Ok(client)
    }

    /// True if the run ended because every pair of address and port was used, at least one of them for a connection.
    pub(super) fn is_used_up(&self) -> bool {
        self.used_up
    }

    /// Connections made.
    pub(super) fn connections(&self) -> u64 {
        self.connections
    }

    /// The error for a reply without an end, if the loop has waited for one.
    pub(super) fn silent(&self) -> Option<io::Error> {
        let own = self.own.as_ref().filter(|_| self.current.is_some());
        own.map(|own| own_request::silent(own.request, [&own.replies], self.job.timeout.into()))
    }

    /// Enters the times of the parts, by name, and the replies to a request of the user's own.
    pub(super) fn tell(self, parts: &mut BTreeMap<String, Times>, own: &mut Option<OwnRequest>) {
        *own = self.own.as_ref().and_then(|own| own.tally.record(own.request));
        #[cfg(feature = "tls")]
        if let Some(tls) = self.own.and_then(|own| own.tls) {
            tls.handshakes.tell(parts, own.as_mut());
        }
        parts.extend(NAMES.into_iter().map(String::from).zip(self.parts.times));
    }

    /// Creates the next socket, bound to a fresh pair; none if all pairs are used.
    fn prepare(&mut self) -> Result<(), PathError> {
        while let Some(source) = self.tuples.next() {
            let socket = inet::new_socket(self.peer, Type::STREAM, Protocol::TCP)?;
            // The port may still be in TIME_WAIT from another destination.
            socket.set_reuse_address(true).map_err(PathError::at("cannot reuse a local port"))?;
            match socket.bind(&SockAddr::from(source)) {
                // Another program holds the port.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                bound => bound.map_err(PathError::at(format!("cannot bind {source}")))?,
            }
            let spec = &self.job.spec.client;
            inet::before_connect(&socket, spec, Side::Client, &mut self.side)?;
            inet::after_connect(&socket, spec, Side::Client, &mut self.side)?;
            self.turn.prepare(&socket).map_err(PathError::at("cannot prepare a socket"))?;
            if !self.turn.is_nonblocking() {
                socket::set_send_timeout(&socket, Duration::from(self.job.timeout))
                    .map_err(PathError::at("cannot bound the time of a connect"))?;
            }
            self.prepared = Some(socket.into());
            return Ok(());
        }
        Ok(())
    }

    /// The error for a connection without a pair to begin from.
    #[cold]
    fn no_pair_left(&self) -> io::Error {
        let text = match self.connections {
            0 => inet::no_way_out(self.peer, self.job.local_port, Errno::ADDRNOTAVAIL.into()).to_string(),
            _ => "every source address and port has been used once".into(),
        };
        io::Error::new(io::ErrorKind::AddrNotAvailable, text)
    }

    /// `false`: an earlier connection, such as one of another run, still holds the pair.
    #[inline(always)]
    fn connect(&self, fd: &OwnedFd) -> io::Result<bool> {
        let attempt = || match connect(fd, &self.peer) {
            Ok(()) | Err(Errno::ISCONN) => Ok(Some(true)),
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(Errno::ADDRNOTAVAIL) => Ok(Some(false)),
            Err(error) => Err(io::Error::from(error)),
        };
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        // A blocking attempt may have taken the whole time.
        let until = self.parts.began.plus(self.clock.to_ticks(self.job.timeout.0));
        let done = match self.clock.now() < until {
            true => self.turn.take(self.clock, fd.as_fd(), PollFlags::OUT, until, attempt)?,
            false => None,
        };
        done.ok_or_else(|| {
            let firewall =
                if self.job.plain_peer { "" } else { ": a firewall may drop the data port (see `serve --data-ports A-B`)" };
            let text = format!("no connection to {} within {}{firewall}", self.peer, self.job.timeout);
            io::Error::new(io::ErrorKind::TimedOut, text)
        })
    }

    /// The error of a send: with the count of replies if the server has closed the connection.
    #[cold]
    fn not_sent(&self, error: io::Error) -> io::Error {
        match &self.own {
            Some(own) => own_request::with_count(error, &own.replies, &own.tally),
            None => error,
        }
    }

    /// Waits for the server's close.
    fn server_has_closed(&mut self, fd: &OwnedFd) -> io::Result<()> {
        let until = self.clock.now().plus(self.clock.to_ticks(self.job.timeout.0));
        let rest = &mut self.incoming[..1];
        let end = self.turn.take(self.clock, fd.as_fd(), PollFlags::IN, until, || {
            Ok(or_nothing(recv(fd, &mut *rest, RecvFlags::empty()))?.map(|(len, _)| len))
        })?;
        match end {
            Some(0) => Ok(()),
            Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the server sent more than the reply")),
            None => Err(io::Error::new(io::ErrorKind::TimedOut, "the server did not close the connection (closes=server)")),
        }
    }
}

impl Endpoint for Client<'_> {
    fn is_lossy(&self) -> bool {
        false
    }

    #[inline(always)]
    fn begins(&mut self, sent: Ticks) {
        self.parts.began = sent;
    }

    #[inline(always)]
    fn send(&mut self, _flow: u32, len: usize, content: Content) -> io::Result<bool> {
        let Some(fd) = self.prepared.take() else {
            self.prepare().map_err(io::Error::other)?;
            if self.prepared.is_none() {
                self.used_up = self.connections > 0;
                return Err(self.no_pair_left());
            }
            // The loop calls again with a later stamp, so that creating the socket is not timed.
            return Ok(false);
        };
        // Drops a connection whose request was given up.
        self.current = None;
        self.have = 0;
        match &mut self.own {
            None => content.write(&mut self.outgoing[..len]),
            Some(own) => {
                let mut header = Header::default();
                content.write(&mut header);
                own.replies.clear();
                own.replies.asked(header);
            }
        }
        self.waited = true;
        if !self.connect(&fd)? {
            return Ok(false);
        }
        self.parts.connected = self.clock.stop();
        self.parts.asked = self.parts.connected;
        #[cfg(feature = "tls")]
        if let Some(Own { request, replies, tally, tls: Some(tls), .. }) = &mut self.own {
            let patience = Duration::from(self.job.timeout);
            let mut session = tls.connector.begin(fd.as_fd(), patience)?;
            self.parts.asked = self.clock.stop();
            let sent = session.send(fd.as_fd(), &request.bytes, patience);
            sent.map_err(|error| own_request::with_count(error, replies, tally))?;
            tls.handshakes.add(&session, self.clock.to_ns(self.parts.asked.since(self.parts.connected)));
            tls.session = Some(session);
            self.current = Some(fd);
            self.connections += 1;
            return Ok(true);
        }
        let message: &[u8] = match &self.own {
            None => &self.outgoing[..len],
            Some(own) => &own.request.bytes,
        };
        send_whole(&fd, message, self.job.timeout.into()).map_err(|error| self.not_sent(error))?;
        self.current = Some(fd);
        self.connections += 1;
        Ok(true)
    }

    /// A send waits for the end of the connect, and of the handshake of TLS.
    #[inline(always)]
    fn has_waited(&mut self) -> bool {
        std::mem::take(&mut self.waited)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        let Some(fd) = &self.current else { return Ok(None) };
        if let Some(own) = &mut self.own {
            let whole = self.turn.take(self.clock, fd.as_fd(), PollFlags::IN, until, || own.recv(fd))?;
            return Ok(whole.map(|()| Reply { flow: 0, bytes: &own.current }));
        }
        let (incoming, have) = (&mut self.incoming, &mut self.have);
        let whole = self.turn.take(self.clock, fd.as_fd(), PollFlags::IN, until, || {
            match or_nothing(recv(fd, &mut incoming[*have..], RecvFlags::empty()))? {
                Some((0, _)) => return Err(closed()),
                Some((len, _)) => *have += len,
                None => {}
            }
            Ok((*have == incoming.len()).then_some(()))
        })?;
        Ok(whole.map(|()| Reply { flow: 0, bytes: &self.incoming }))
    }

    #[inline(always)]
    fn received(&mut self, _flow: u32, _at: Ticks) -> io::Result<()> {
        self.parts.replied = self.clock.stop();
        let fd = self.current.take();
        #[cfg(feature = "tls")]
        if let (Some(fd), Some(tls)) = (&fd, self.own.as_mut().and_then(|own| own.tls.as_mut()))
            && let Some(mut session) = tls.session.take()
        {
            session.end(fd.as_fd());
        }
        if let Some(fd) = fd
            && self.server_closes
        {
            self.server_has_closed(&fd)?;
        }
        self.parts.close(self.clock.stop());
        self.prepare().map_err(io::Error::other)
    }

    fn fold(&mut self, keep: bool) {
        self.parts.fold(keep);
    }
}

/// Refuses a server that speaks first, whose greeting would be taken for the reply, by a connection before the run that asks
/// nothing. There is none with a local port of the user's choice: that is for the run.
fn hear_out(job: &Job, peer: SocketAddr) -> Result<(), PathError> {
    if job.local_port != LocalPort::Any {
        return Ok(());
    }
    let socket = inet::new_socket(peer, Type::STREAM, Protocol::TCP)?;
    match socket.connect_timeout(&SockAddr::from(peer), job.timeout.into()) {
        Ok(()) => own_request::hear_out(socket.into(), job),
        // An earlier run has left a connection in TIME_WAIT on each port that the kernel would choose; the run chooses its own.
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(()),
        Err(error) => Err(inet::unreached(job, "cannot connect to", peer, error)),
    }
}

/// Sends a message whole; a server that takes nothing for `patience` is an error.
#[inline(always)]
fn send_whole(fd: &OwnedFd, message: &[u8], patience: Duration) -> io::Result<()> {
    match or_nothing(send(fd, message, SendFlags::NOSIGNAL))?.unwrap_or(0) {
        sent if sent == message.len() => Ok(()),
        sent => push_to_socket(fd.as_fd(), &message[sent..], patience),
    }
}

/// Times of each transaction's parts, kept like the samples and folded between blocks.
struct Parts {
    clock: AnyClock,
    began: Ticks,
    connected: Ticks,
    /// End of the connect, or of the handshake of TLS.
    asked: Ticks,
    replied: Ticks,
    taken: Vec<[u64; 3]>,
    times: [Times; 3],
}

/// Names of the parts in the record.
const NAMES: [&str; 3] = ["connect", "exchange", "close"];

impl Parts {
    fn new(clock: AnyClock) -> Parts {
        let mut taken = vec![[0; 3]; BLOCK_TRANSACTIONS];
        // Touch every page now, so that no page fault happens inside a block.
        taken.clear();
        let (began, times) = (Ticks::default(), std::array::from_fn(|_| Times::new()));
        Parts { clock, began, connected: began, asked: began, replied: began, taken, times }
    }

    fn close(&mut self, now: Ticks) {
        // There is room for a whole block of transactions.
        if self.taken.len() < self.taken.capacity() {
            self.taken.push([self.connected.since(self.began), self.replied.since(self.asked), now.since(self.replied)]);
        }
    }

    fn fold(&mut self, keep: bool) {
        if keep {
            for (at, times) in self.times.iter_mut().enumerate() {
                self.taken.iter().for_each(|parts| times.record(self.clock.to_ns(parts[at])));
            }
        }
        self.taken.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use hairpin_sys::clock::MonotonicRaw;

    use super::*;

    #[test]
    fn the_servers_close_is_waited_for_after_a_reply_of_any_length() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let own = Request { name: "x".into(), bytes: b"x".to_vec(), end: "1".parse().unwrap(), tls: None };
        let job = Job { reply: 0, own: Some(own), ..Job::new("tcp-crr:closes=server".parse().unwrap()) };
        let tuples = Tuples::new(peer, LocalPort::Any, 0);
        let mut client = Client::new(&job, AnyClock::Raw(MonotonicRaw), peer, tuples).unwrap();
        // The connection by which the client has heard the server out.
        drop(listener.accept().unwrap());
        let connection = OwnedFd::from(TcpStream::connect(peer).unwrap());
        drop(listener.accept().unwrap());
        client.server_has_closed(&connection).unwrap();
    }

    #[test]
    fn a_run_without_any_connection_has_not_used_its_pairs_up() {
        let [listener, holder] = ["127.0.0.1:0", "0.0.0.0:0"].map(|here| TcpListener::bind(here).unwrap());
        let (peer, local_port) = (listener.local_addr().unwrap(), LocalPort::Fixed(holder.local_addr().unwrap().port()));
        let job = Job { local_port, ..Job::new("tcp-crr".parse().unwrap()) };
        let mut client = Client::new(&job, AnyClock::Raw(MonotonicRaw), peer, Tuples::new(peer, local_port, 0)).unwrap();
        let why = client.send(0, 64, Content { sequence: 0, cookie: 0, verify: false }).unwrap_err().to_string();
        assert!(why.starts_with("cannot connect to 127.0.0.1:") && why.contains("use another --local-port"), "{why}");
        assert!(!client.is_used_up());
    }
}
