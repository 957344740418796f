//! Requests of the user's own to a server that is not Hairpin's, over standing connections.
//!
//! ```text
//!   drive ── its probe header ──▶ a queue per flow ◀── the oldest ── a whole reply
//!                 the request's bytes ──▶ server ──▶ the reply's, up to the end that the rule names
//! ```
//! The loop sees each transaction as its own probe header there and back, so its figures mean the same as on every other path.
//! The RTT includes the time to find the end of a reply, as it does in every client.

mod reader;
mod replies;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hairpin_plan::job::Job;
use hairpin_plan::path::Speaks;
use hairpin_plan::request::Request;
#[cfg(feature = "tls")]
use hairpin_sys::clock::Clock;
use hairpin_sys::clock::Ticks;
use hairpin_sys::socket;
use hairpin_sys::wait::{Waiting, for_room};
use rustix::net::RecvFlags;

pub(crate) use self::replies::{Header, Replies, Tally, strange};
use crate::content::Content;
use crate::drive::{LoopEnd, LoopResult};
use crate::endpoint::{Endpoint, Reply};
use crate::error::{PathError, counted};
use crate::flows::Carrier;
use crate::measure::{ClientRun, drive_paced};
use crate::stream::{How, Stream};

/// A server's greeting, or a second answer, comes within this time, or within three round trips if those take longer.
const UNASKED_WITHIN: Duration = Duration::from_millis(20);
/// Flows that are checked between blocks for bytes that nobody asked for: the others would show the same.
const LOOKED_AT: usize = 64;

/// The flows of one thread.
struct Asking<'a, 'fd> {
    wait: Waiting<'fd>,
    asked: AskedFlows<'a, 'fd>,
    /// The error of bytes that nobody asked for, found between blocks.
    unasked: Option<io::Error>,
    /// A flow whose server has closed the connection, as a send has found, and the error of that send.
    gone: Option<(usize, io::Error)>,
    /// The last send waited for room.
    waited: bool,
}

/// The flows without their wait.
struct AskedFlows<'a, 'fd> {
    request: &'a Request,
    flows: &'a mut [Stream<'fd>],
    replies: Vec<Replies>,
    /// The flow whose last bytes may hold another whole reply.
    more: Option<usize>,
    current: Header,
    tally: Tally,
    over_tcp: bool,
}

impl AskedFlows<'_, '_> {
    /// Receives more of a reply on flow `at`; returns the flow once the reply is whole.
    #[inline(always)]
    fn recv(&mut self, at: usize) -> io::Result<Option<usize>> {
        loop {
            let replies = &mut self.replies[at];
            let came = self.flows[at].recv_some(replies.room()?, RecvFlags::empty());
            let Some(len) = came.map_err(|error| with_count(error, replies, &self.tally))? else { return Ok(None) };
            if len == 0 {
                return Err(closed(replies, &self.tally, None));
            }
            replies.came(len);
            let found = self.take(at)?;
            if found.is_some() || !self.flows[at].holds_more() {
                return Ok(found);
            }
        }
    }

    /// Takes a whole reply from the bytes that came with the one before.
    #[inline(always)]
    fn rest(&mut self, at: usize) -> io::Result<Option<usize>> {
        let found = self.take(at)?;
        if found.is_none() && self.flows[at].holds_more() { self.recv(at) } else { Ok(found) }
    }

    /// Takes a whole reply of flow `at`, if there is one.
    #[inline(always)]
    fn take(&mut self, at: usize) -> io::Result<Option<usize>> {
        let Some((header, reply)) = self.replies[at].next()? else {
            self.more = None;
            return match self.replies[at].ends_with_the_connection() {
                true => Err(strange(format!(
                    "the reply ends only when the server closes the connection{}",
                    match self.over_tcp {
                        true => ": use --path tcp-crr",
                        false => ", and over a UNIX socket each connection is kept: ask for a reply with a length",
                    }
                ))),
                false => Ok(None),
            };
        };
        self.current = header;
        self.tally.count(self.request, reply);
        self.more = (self.replies[at].begun() > 0 || self.flows[at].holds_more()).then_some(at);
        Ok(Some(at))
    }
}

impl Asking<'_, '_> {
    /// A request on flow `at` was not sent. If the server has closed the connection, replies to earlier requests may have come
    /// before: they are received first, and the run ends after the last of them.
    ///
    /// # Errors
    /// Any other error, and that of a connection on which no reply is expected. Its kind is not `TimedOut`, by which the loop
    /// reports a missing reply.
    #[cold]
    fn not_sent(&mut self, at: usize, error: io::Error) -> io::Result<()> {
        let AskedFlows { replies, tally, .. } = &self.asked;
        match error.kind() {
            io::ErrorKind::TimedOut => Err(io::Error::other(error)),
            _ if is_end(&error) && !replies[at].is_idle() => {
                self.gone.get_or_insert((at, error));
                Ok(())
            }
            _ => Err(with_count(error, &replies[at], tally)),
        }
    }

    /// Receives the next reply that came on flow `at` before its connection was closed.
    ///
    /// # Errors
    /// There is none left: `error`, by which a send found the connection closed.
    #[cold]
    fn came_before(&mut self, (at, error): (usize, io::Error)) -> io::Result<usize> {
        let asked = &mut self.asked;
        let found = match asked.take(at)? {
            None => asked.recv(at),
            found => Ok(found),
        };
        match found {
            Ok(Some(at)) => {
                self.gone = Some((at, error));
                Ok(at)
            }
            Err(other) if !is_end(&other) => Err(other),
            _ => Err(closed(&asked.replies[at], &asked.tally, Some(&error))),
        }
    }

    /// Looks for bytes on flows without a request in flight.
    fn look_for_unasked(&mut self) {
        let AskedFlows { flows, replies, .. } = &mut self.asked;
        for (flow, replies) in flows.iter_mut().zip(replies).take(LOOKED_AT).filter(|(_, replies)| replies.is_idle()) {
            let looked = replies.room().and_then(|room| flow.recv_some(room, RecvFlags::DONTWAIT)).map(|len| {
                replies.came(len.unwrap_or(0));
            });
            // The next request finds the end of a connection.
            if let (Ok(()), Err(why)) = (looked, replies.next()) {
                self.unasked = Some(why);
            }
        }
    }

    /// Completes the result: a timeout gets the error for a missing reply, and bytes that nobody asked for are an error.
    fn ended(&mut self, found: &mut LoopResult, timeout: Duration) {
        match &found.end {
            LoopEnd::Failed(error)
                if error.kind() == io::ErrorKind::TimedOut && !self.asked.replies.iter().all(Replies::is_idle) =>
            {
                found.end = LoopEnd::Failed(silent(self.asked.request, &self.asked.replies, timeout));
            }
            LoopEnd::Done | LoopEnd::Stopped => {
                std::thread::sleep(unasked_within(self.asked.flows));
                self.look_for_unasked();
                found.end = self.unasked.take().map_or(std::mem::replace(&mut found.end, LoopEnd::Done), LoopEnd::Failed);
            }
            LoopEnd::Failed(_) => {}
        }
    }
}

/// Time within which bytes that nobody asked for come over these flows, by the round trip that TCP has measured.
fn unasked_within(flows: &[Stream<'_>]) -> Duration {
    within(flows.iter().take(LOOKED_AT).filter_map(|flow| socket::tcp_info(flow.readable()).ok()).map(|info| info.rtt))
}

fn within(rtts: impl Iterator<Item = Duration>) -> Duration {
    rtts.map(|rtt| 3 * rtt).fold(UNASKED_WITHIN, Duration::max)
}

/// The error for a reply without an end, or for none at all.
pub(crate) fn silent<'a>(request: &Request, replies: impl IntoIterator<Item = &'a Replies>, timeout: Duration) -> io::Error {
    let begun = replies.into_iter().find(|replies| replies.begun() > 0);
    strange(match begun {
        Some(replies) => format!(
            "{} of a reply came and not its end within {timeout:?}: {}; does --reply {} name it?",
            counted(replies.begun() as u64, "byte"),
            replies.start(),
            request.end
        ),
        None => format!("no reply within {timeout:?}: is the request whole? A server that waits for the rest of it says nothing"),
    })
}

/// The error for a connection that the server has closed: after how many replies, and `why` if it was no clean end.
#[cold]
pub(crate) fn closed(replies: &Replies, tally: &Tally, why: Option<&io::Error>) -> io::Error {
    let whole = tally.replies();
    let mut text = match replies.begun() {
        0 => format!("after {}", counted(whole, "transaction")),
        begun => format!("{} into a reply, after {}", counted(begun as u64, "byte"), counted(whole, "whole one")),
    };
    if let Some(why) = why {
        text.push_str(&format!(": {why}"));
    }
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

/// The error of a call on a connection: with the count of replies if the server has closed that.
#[cold]
pub(crate) fn with_count(error: io::Error, replies: &Replies, tally: &Tally) -> io::Error {
    if is_end(&error) { closed(replies, tally, Some(&error)) } else { error }
}

/// True for the error of a connection that the server has closed.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl Endpoint for Asking<'_, '_> {
    fn is_lossy(&self) -> bool {
        false
    }

    #[inline(always)]
    fn send(&mut self, flow: u32, _len: usize, content: Content) -> io::Result<bool> {
        let mut header = Header::default();
        content.write(&mut header);
        let (asked, at) = (&mut self.asked, flow as usize);
        let sent = asked.flows[at].ask(&asked.request.bytes);
        self.waited = asked.flows[at].has_waited();
        match sent {
            Ok(true) => asked.replies[at].asked(header),
            Ok(false) => return Ok(false),
            Err(error) => return self.not_sent(at, error).map(|()| false),
        }
        Ok(true)
    }

    #[inline(always)]
    fn has_waited(&mut self) -> bool {
        std::mem::take(&mut self.waited)
    }

    fn await_room(&mut self, flow: u32) -> io::Result<()> {
        if self.wait.sleeps() { for_room(self.asked.flows[flow as usize].writable()) } else { Ok(()) }
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        if let Some(why) = self.unasked.take() {
            return Err(why);
        }
        if let Some(gone) = self.gone.take() {
            let at = self.came_before(gone)?;
            return Ok(Some(Reply { flow: at as u32, bytes: &self.asked.current }));
        }
        let (wait, asked) = (&mut self.wait, &mut self.asked);
        let before = match asked.more {
            Some(at) => asked.rest(at)?,
            None => None,
        };
        let found = match before {
            None => wait.wait(until, |at| asked.recv(at))?,
            found => found,
        };
        Ok(found.map(|at| Reply { flow: at as u32, bytes: &self.asked.current }))
    }

    #[inline(always)]
    fn received(&mut self, flow: u32, _at: Ticks) -> io::Result<()> {
        self.asked.flows[flow as usize].received()
    }

    fn fold(&mut self, _keep: bool) {
        self.look_for_unasked();
    }
}

impl ClientRun<'_> {
    /// As [`over`](ClientRun::over), with the user's own request if the job has one.
    pub(crate) fn ask<'fd>(&mut self, flows: &mut [Stream<'fd>]) -> Result<(), PathError> {
        let (job, clock) = (self.job, self.clock);
        let over_tcp = job.spec.client.speaks() == Speaks::Tcp;
        let Some(request) = &job.own else { return self.over(flows) };
        #[cfg(feature = "tls")]
        let mut handshakes = crate::tls::Handshakes::default();
        #[cfg(feature = "tls")]
        if let Some(tls) = &request.tls {
            let connector = crate::tls::Connector::new(tls)?;
            for flow in flows.iter_mut() {
                let begun = clock.now();
                let session = flow.secure(&connector).map_err(|error| PathError::Peer(error.to_string()))?;
                handshakes.add(session, clock.to_ns(clock.now().since(begun)));
            }
        }
        first_words(flows)?;
        let all = Mutex::new(Tally::default());
        let tally = || all.lock().unwrap_or_else(PoisonError::into_inner).beside();
        self.over_each(flows, |flows, wait, work, between| {
            let count = flows.len() * job.threads as usize;
            let replies = flows.iter().map(|_| Replies::new(request, count, job.outstanding)).collect();
            let asked = AskedFlows { request, flows, replies, more: None, current: Header::default(), tally: tally(), over_tcp };
            let mut endpoint = Asking { wait, asked, unasked: None, gone: None, waited: false };
            let mut found = drive_paced(&mut endpoint, &clock, job, work, between);
            endpoint.ended(&mut found, job.timeout.into());
            all.lock().unwrap_or_else(PoisonError::into_inner).add(endpoint.asked.tally);
            found
        })?;
        self.found.own = all.into_inner().unwrap_or_else(PoisonError::into_inner).record(request);
        #[cfg(feature = "tls")]
        handshakes.tell(&mut self.found.parts, self.found.own.as_mut());
        Ok(())
    }
}

/// Refuses a server that speaks first, by a connection that asks nothing.
pub(crate) fn hear_out(connection: OwnedFd, job: &Job) -> Result<(), PathError> {
    let (fds, how) = ([connection], How::plain(job.timeout.into()));
    let mut flows = Stream::all(&fds, &how);
    #[cfg(feature = "tls")]
    if let Some(tls) = job.own.as_ref().and_then(|own| own.tls.as_ref()) {
        let connector = crate::tls::Connector::new(tls)?;
        for flow in &mut flows {
            flow.secure(&connector).map_err(|error| PathError::Peer(error.to_string()))?;
        }
    }
    first_words(&mut flows)
}

/// Waits for the time in which a greeting comes, and refuses a server that has sent one: it would be taken for the first reply,
/// and each reply for that to the next request.
fn first_words(flows: &mut [Stream<'_>]) -> Result<(), PathError> {
    std::thread::sleep(unasked_within(flows));
    flows.iter_mut().take(LOOKED_AT).try_for_each(first_word)
}

fn first_word(flow: &mut Stream<'_>) -> Result<(), PathError> {
    const CLOSED: &str = "the server closed the connection before it was asked";
    let mut bytes = [0; 256];
    match flow.recv_some(&mut bytes, RecvFlags::DONTWAIT) {
        Ok(None) => Ok(()),
        Ok(Some(0)) => Err(PathError::Peer(CLOSED.into())),
        Ok(Some(len)) => Err(PathError::Peer(replies::greeting(&bytes[..len]))),
        Err(error) if is_end(&error) => Err(PathError::Peer(format!("{CLOSED} ({error})"))),
        Err(error) => Err(PathError::at("cannot look for a greeting")(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use hairpin_sys::clock::{AnyClock, MonotonicRaw};

    use super::*;

    fn request(bytes: Vec<u8>, end: &str) -> Request {
        Request { name: "x".into(), bytes, end: end.parse().unwrap(), tls: None }
    }

    fn connected() -> ([OwnedFd; 1], UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        ([ours.into()], theirs)
    }

    fn asking<'a, 'fd>(request: &'a Request, flows: &'a mut [Stream<'fd>]) -> Asking<'a, 'fd> {
        let (replies, current, tally) = (vec![Replies::new(request, 1, 4)], Header::default(), Tally::default());
        let asked = AskedFlows { request, flows, replies, more: None, current, tally, over_tcp: true };
        Asking { wait: Waiting::spin(AnyClock::Raw(MonotonicRaw)), asked, unasked: None, gone: None, waited: false }
    }

    fn ask(endpoint: &mut Asking<'_, '_>) -> io::Result<bool> {
        endpoint.send(0, 16, Content { sequence: 0, cookie: 0, verify: false })
    }

    #[test]
    fn a_server_that_takes_no_more_is_not_one_that_says_nothing() {
        let ((fds, _theirs), how) = (connected(), How::plain(Duration::from_millis(20)));
        let (mut flows, request) = (Stream::all(&fds, &how), request(vec![b'x'; 8 << 20], "1"));
        let why = ask(&mut asking(&request, &mut flows)).unwrap_err();
        assert_ne!(why.kind(), io::ErrorKind::TimedOut, "as which it would be told as a missing reply");
        assert!(why.to_string().starts_with("the peer takes no more"), "{why}");
    }

    #[test]
    fn replies_that_came_before_a_reset_are_received_though_a_send_meets_it_first() {
        let ((fds, mut theirs), how) = (connected(), How::plain(Duration::from_secs(5)));
        let (mut flows, request) = (Stream::all(&fds, &how), request(vec![b'x'], r"\n"));
        let mut endpoint = asking(&request, &mut flows);
        (0..3).for_each(|_| assert!(ask(&mut endpoint).unwrap()));
        theirs.read_exact(&mut [0; 2]).unwrap();
        theirs.write_all(b"a\nb\npart").unwrap();
        drop(theirs);
        for _ in 0..2 {
            assert!(!ask(&mut endpoint).unwrap());
            assert_eq!(endpoint.recv(Ticks::NEVER).unwrap().map(|reply| reply.flow), Some(0));
        }
        let why = endpoint.recv(Ticks::NEVER).unwrap_err();
        assert_eq!(why.to_string(), "4 bytes into a reply, after 2 whole ones: Broken pipe (os error 32)");
        assert_eq!(why.kind(), io::ErrorKind::UnexpectedEof, "as which it is told as the server's");
    }

    #[test]
    fn a_send_to_a_server_that_has_gone_tells_the_count() {
        let ((fds, mut theirs), how) = (connected(), How::plain(Duration::from_secs(5)));
        let (mut flows, request) = (Stream::all(&fds, &how), request(vec![b'x'], r"\n"));
        let mut endpoint = asking(&request, &mut flows);
        assert!(ask(&mut endpoint).unwrap());
        theirs.read_exact(&mut [0]).unwrap();
        theirs.write_all(b"a\n").unwrap();
        assert!(endpoint.recv(Ticks::NEVER).unwrap().is_some());
        drop(theirs);
        assert_eq!(ask(&mut endpoint).unwrap_err().to_string(), "after 1 transaction: Broken pipe (os error 32)");
    }

    #[test]
    fn a_greeting_has_three_round_trips_to_come() {
        let ms = Duration::from_millis;
        assert_eq!(within(std::iter::empty()), ms(20), "a UNIX socket has no round trips");
        assert_eq!(within([ms(1), ms(50), ms(7)].into_iter()), ms(150));
    }
}
