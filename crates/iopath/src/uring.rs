//! The endpoint of `uring-udp` and `uring-tcp`: the flows of a thread through one io_uring.
//!
//! ```text
//!   spin    send: queue send, [receive] ─▶ submit (a call, or the kernel's thread takes them)      recv: look at the completions, no call
//!   block   send: queue send, [receive]                                                           recv: submit and sleep, in one call
//! ```
//! The request for the next message is queued together with the next send, so that a transaction takes one call a side, and
//! behind the send, so that the message is on its way while the kernel looks in vain for another one.

use hairpin_units::Gather;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use hairpin_plan::job::Job;
use hairpin_plan::option::{self, DEFAULT_USECS, DELAY};
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::{Granted, Side};
use hairpin_sys::clock::{AnyClock, Clock, Ticks};
use hairpin_sys::socket;
use hairpin_sys::uring::{Completion, Config, Done, LentSends, Napi, Uring, lacking};
use hairpin_sys::wait::{PATIENCE, Policy};
use rustix::io::Errno;

use crate::content::Content;
use crate::delay::Delay;
use crate::echo::echo;
use crate::endpoint::{Endpoint, Reply};
use crate::error::PathError;
use crate::inet;
use crate::measure::{ClientRun, ServerRun, SideFound, cpu_beside, drive_paced, tell};
use crate::runner::Support;
use crate::stream::{closed, push_to_socket};

/// Send buffers of a thread: one a request in flight, within these bounds, and in at most this memory.
const LEAST_SENDS: u32 = 2;
const MOST_SENDS: u32 = 256;
const SEND_MEMORY: usize = 4 << 20;
/// Provided buffers of a thread with recv=multishot: two a request in flight, within these bounds, and in at most this memory.
const LEAST_PROVIDED: u32 = 8;
const MOST_PROVIDED: u32 = 32_768;
const PROVIDED_MEMORY: usize = 64 << 20;

/// Whether this process may make rings.
pub(crate) fn probe() -> Support {
    match lacking() {
        Err(error) => Support::No(error.to_string()),
        Ok(lacking) if lacking.is_empty() => Support::Yes,
        Ok(lacking) => Support::Degraded(format!("this kernel lacks {}", lacking.join(", "))),
    }
}

/// Runs the client over connected sockets.
pub(crate) fn ping<const STREAM: bool>(run: &mut ClientRun<'_>, sockets: &mut [OwnedFd]) -> Result<(), PathError> {
    let (job, clock) = (run.job, run.clock);
    let first = sockets.first().map(AsFd::as_fd);
    tell(run.stamps, first, first);
    let notes = Mutex::new(Notes::default());
    let side = Part {
        spec: &job.spec.client,
        side: Side::Client,
        expected: job.reply,
        longest: job.request,
        overstays: job.open.is_none(),
        heard_on: &[],
        allowed: run.allowed,
    };
    let outcome = run.on_threads(sockets, |sockets, work, between| {
        let mut flows = Flows::<STREAM>::open(sockets, job, &side, work.thread, clock, &notes)?;
        let found = drive_paced(&mut flows, &clock, job, work, between);
        flows.note(&notes);
        Ok(found)
    });
    finish(notes, side.side, sockets, &mut run.found.side);
    outcome
}

/// Answers over connected sockets.
pub(crate) fn answer<const STREAM: bool>(run: &mut ServerRun<'_>, sockets: &mut [OwnedFd]) -> Result<(), PathError> {
    let (job, clock) = (run.job, run.clock);
    let first = sockets.first().map(AsFd::as_fd);
    tell(run.stamps, first, first);
    let notes = Mutex::new(Notes::default());
    let heard_on = std::mem::take(&mut run.heard_on);
    let side = Part {
        spec: &job.spec.server,
        side: Side::Server,
        expected: job.request,
        longest: job.reply,
        overstays: true,
        heard_on: &heard_on,
        allowed: run.allowed,
    };
    let outcome = run.on_threads(sockets, |sockets, at| {
        let mut flows = Flows::<STREAM>::open(sockets, job, &side, at.thread, clock, &notes)?;
        flows.delay = side.spec.options.number(&DELAY).filter(|ns| *ns > 0).map(|ns| Delay::new(clock, ns.into()));
        let found = echo(&mut flows, &clock, job.reply as usize, at);
        flows.note(&notes);
        Ok(found)
    });
    finish(notes, side.side, sockets, &mut run.found.side);
    outcome
}

/// A side's part of a job.
struct Part<'a> {
    spec: &'a SideSpec,
    side: Side,
    /// Bytes of a message that arrives, and of the longest that leaves.
    expected: u32,
    longest: u32,
    /// A wait may last longer than the loop asks, because the loop looks at its deadlines only from time to time.
    overstays: bool,
    /// NAPI instances beside those of the sockets.
    heard_on: &'a [u32],
    /// The CPUs allowed to the process.
    allowed: &'a [u32],
}

/// Notes of the rings of a side's threads.
#[derive(Default)]
struct Notes {
    refused: Vec<Granted>,
    /// Number of errors from the kernel that a datagram was too long for the path.
    too_long: u64,
    lent: LentSends,
}

/// Records the refusals, each once, and the sends that the kernel copied although zero-copy was asked for. Warns of a path that
/// takes smaller packets than the link, with the kernel's path MTU.
fn finish(notes: Mutex<Notes>, side: Side, sockets: &[OwnedFd], found: &mut SideFound) {
    let Notes { mut refused, too_long, lent: LentSends { done, copied } } = notes.into_inner().unwrap_or_default();
    if copied > 0 {
        let got = if copied == done { "copied".into() } else { format!("{copied} of {done} copied") };
        let why = "the kernel copies what a device cannot take page by page, or what it hands to another socket of this host";
        refused.push(Granted { side, option: option::SEND.name.into(), asked: "zero-copy".into(), got, why: why.into() });
    }
    for note in refused {
        if !found.granted.contains(&note) {
            found.granted.push(note);
        }
    }
    if let Some(socket) = sockets.first().filter(|_| too_long > 0) {
        found.warnings.push(inet::path_mtu(socket, side, too_long));
    }
}

fn push(notes: &Mutex<Notes>, note: Granted) {
    if let Ok(mut notes) = notes.lock() {
        notes.refused.push(note);
    }
}

/// A message, or a part of a stream, that has arrived.
#[derive(Clone, Copy)]
struct Arrived {
    flow: u32,
    buffer: u32,
    /// The bytes that are left of it.
    from: usize,
    to: usize,
}

/// The message returned last.
#[derive(Clone, Copy)]
enum Held {
    In(Arrived),
    /// In `joined`, put together from parts.
    Joined,
}

/// The flows of one thread.
struct Flows<'a, const STREAM: bool> {
    uring: Uring,
    sockets: &'a [OwnedFd],
    clock: AnyClock,
    spins: bool,
    multishot: bool,
    overstays: bool,
    least: Option<u32>,
    delay: Option<Delay>,
    expected: usize,
    patience: Duration,
    arrived: VecDeque<Arrived>,
    /// Multishot: the flows whose standing request found no buffer.
    starved: Vec<u32>,
    /// The part of a stream that messages are being taken from.
    current: Option<Arrived>,
    held: Option<Held>,
    /// Streams: number of bytes of the next message that have come, by flow, and with multishot the bytes themselves.
    have: Vec<usize>,
    parts: Vec<Box<[u8]>>,
    joined: Vec<u8>,
    /// Streams: a send that is not completed, by flow.
    sending: Vec<Option<usize>>,
    /// Streams: a peer has closed its end. Told once the messages that came before are read.
    closed: bool,
    /// Streams: a send waited for room.
    waited: bool,
    /// Streams: some send has found too little room. From then on each is looked at before the thread sleeps.
    fills: bool,
    /// The last attempt to send found no buffer.
    full: bool,
    /// Number of errors from the kernel that a datagram was too long for the path.
    too_long: u64,
}

impl<'a, const STREAM: bool> Flows<'a, STREAM> {
    #[cold]
    fn open(
        sockets: &'a [OwnedFd],
        job: &Job,
        part: &Part<'_>,
        thread: u32,
        clock: AnyClock,
        notes: &Mutex<Notes>,
    ) -> Result<Self, PathError> {
        let options = &part.spec.options;
        let is = |def, word| options.get(def) == Some(word);
        let in_flight = (sockets.len() as u32).saturating_mul(job.outstanding);
        let (expected, send_bytes) = (part.expected as usize, part.expected.max(part.longest) as usize);
        // One byte more, to detect a longer datagram.
        let receive_bytes = if STREAM { expected } else { expected + 1 };
        let most = (SEND_MEMORY / send_bytes.max(1)).max(LEAST_SENDS as usize) as u32;
        let multishot = is(&option::RECV, "multishot");
        let zero_copy = is(&option::SEND, "zero-copy");
        // Zero-copy buffers come back only when the network is done with them.
        let in_flight = if zero_copy { in_flight.saturating_mul(2) } else { in_flight };
        let napi = options.get(&option::NAPI).map(|how| Napi {
            usecs: part.spec.device_polling_usecs().unwrap_or(DEFAULT_USECS),
            // The kernel takes each id only once.
            ids: (how == "static").then(|| {
                let all: BTreeSet<u32> = part.heard_on.iter().copied().chain(sockets.iter().filter_map(socket::napi_id)).gather();
                all.into_iter().collect()
            }),
        });
        let fit = (PROVIDED_MEMORY / receive_bytes.max(1)).max(LEAST_PROVIDED as usize) as u32;
        let provided = in_flight.saturating_mul(2).clamp(LEAST_PROVIDED, MOST_PROVIDED.min(fit));
        let config = Config {
            receive_bytes,
            send_bytes,
            send_buffers: in_flight.clamp(LEAST_SENDS, MOST_SENDS.min(most)),
            multishot: multishot.then_some(provided),
            sqpoll: is(&option::SUBMIT, "sqpoll").then(|| cpu_beside(job, part.side, thread, part.allowed)),
            defer_taskrun: is(&option::RING, "defer-taskrun"),
            napi,
            zero_copy,
            datagrams: !STREAM,
        };
        let fds: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        let uring = Uring::open(&fds, config)?;
        let least = options.number(&option::WAIT);
        if least.is_some() && !uring.has_min_timeout() {
            return Err(PathError::Step {
                what: "wait= takes io_uring's minimum timeout (Linux 6.12)".into(),
                source: io::ErrorKind::Unsupported.into(),
            });
        }
        if uring.lends_unregistered() {
            let note = Granted {
                side: part.side,
                option: "registered-buffers".into(),
                asked: "on".into(),
                got: "off".into(),
                why: "the limit of locked memory (ulimit -l) is too low".into(),
            };
            push(notes, note);
        }
        let count = sockets.len();
        let mut this = Flows {
            uring,
            sockets,
            clock,
            spins: part.spec.policy == Policy::Spin,
            multishot,
            overstays: part.overstays,
            least,
            delay: None,
            expected,
            patience: Duration::from(job.timeout),
            arrived: VecDeque::with_capacity(if multishot { provided.next_power_of_two() as usize } else { count }),
            starved: Vec::with_capacity(if multishot { count } else { 0 }),
            current: None,
            held: None,
            have: vec![0; count],
            parts: (0..if STREAM && multishot { count } else { 0 }).map(|_| vec![0; expected].into()).collect(),
            joined: vec![0; expected],
            sending: vec![None; count],
            closed: false,
            waited: false,
            fills: false,
            full: false,
            too_long: 0,
        };
        let asked = (0..count as u32).try_for_each(|flow| this.ask(flow)).and_then(|()| this.uring.submit());
        asked.map_err(PathError::at("cannot start io_uring"))?;
        Ok(this)
    }

    /// Notes the datagrams that were too long, and the lent sends.
    fn note(&self, notes: &Mutex<Notes>) {
        if let Ok(mut notes) = notes.lock() {
            let lent = self.uring.lent_sends();
            notes.too_long += self.too_long;
            notes.lent.done += lent.done;
            notes.lent.copied += lent.copied;
        }
    }

    /// Asks for the flow's next message, or the rest of it.
    #[inline(always)]
    fn ask(&mut self, flow: u32) -> io::Result<()> {
        let to = if STREAM { self.expected } else { self.expected + 1 };
        let from = if self.multishot { 0 } else { self.have[flow as usize] };
        self.uring.receive(flow, from, to)
    }

    /// The message returned last has been used.
    #[inline(always)]
    fn release(&mut self) -> io::Result<()> {
        match self.held.take() {
            Some(Held::In(one)) if !self.multishot => self.ask(one.flow),
            Some(Held::In(one)) if self.current.is_none() => {
                self.uring.give_back(one.buffer);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes the completions.
    #[inline(always)]
    fn reap(&mut self) -> io::Result<()> {
        while let Some(done) = self.uring.completed() {
            match (done.what, done.result) {
                (Done::Received, bytes @ 0..) => self.take(done, bytes as usize)?,
                (Done::Sent, 0..) if !STREAM => {}
                _ => self.unusual(done)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self, done: Completion, bytes: usize) -> io::Result<()> {
        if STREAM && bytes == 0 {
            self.closed = true;
            return Ok(());
        }
        let Some(buffer) = done.buffer else { return Ok(()) };
        let flow = done.socket;
        let (mut to, at) = (bytes, flow as usize);
        if STREAM && !self.multishot {
            self.have[at] += bytes;
            if self.have[at] < self.expected {
                return self.ask(flow);
            }
            to = std::mem::take(&mut self.have[at]);
        }
        self.arrived.push_back(Arrived { flow, buffer, from: 0, to });
        Ok(())
    }

    #[inline(never)]
    fn unusual(&mut self, done: Completion) -> io::Result<()> {
        let flow = done.socket;
        let error = -done.result;
        match done.what {
            Done::Sent => self.sent(flow, done),
            // A request made again at once would find no buffer either.
            Done::Ended if is(error, &[Errno::NOBUFS]) => {
                self.starved.push(flow);
                Ok(())
            }
            Done::Ended if error <= 0 || passing(error) => self.ask(flow),
            Done::Received if passing(error) => self.ask(flow),
            Done::Ended | Done::Received if is_too_long::<STREAM>(error) => {
                self.too_long += 1;
                self.ask(flow)
            }
            Done::Ended | Done::Received => Err(io::Error::from_raw_os_error(error)),
        }
    }

    fn sent(&mut self, flow: u32, done: Completion) -> io::Result<()> {
        let error = -done.result;
        if !STREAM {
            // A datagram that found no room, or does not fit any more, is lost.
            let too_long = is_too_long::<STREAM>(error);
            self.too_long += u64::from(too_long);
            return if too_long || passing(error) { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) };
        }
        let Some(len) = self.sending[flow as usize].take() else { return Ok(()) };
        let sent = match done.result {
            sent @ 0.. => sent as usize,
            _ if passing(error) => 0,
            _ => return Err(io::Error::from_raw_os_error(error)),
        };
        let (Some(buffer), socket) = (done.buffer, &self.sockets[flow as usize]) else { return Ok(()) };
        if sent < len {
            (self.waited, self.fills) = (true, true);
            let rest = &self.uring.sent_bytes(buffer)[sent..len];
            push_to_socket(socket.as_fd(), rest, self.patience)?;
        }
        Ok(())
    }

    /// A send buffer, once the flow may send.
    #[inline(always)]
    fn room(&mut self, flow: u32) -> io::Result<Option<u32>> {
        if STREAM && self.sending[flow as usize].is_some() {
            self.hand_over()?;
            if self.sending[flow as usize].is_some() {
                return Ok(None);
            }
        }
        if let Some(buffer) = self.uring.free_buffer() {
            return Ok(Some(buffer));
        }
        self.hand_over()?;
        let buffer = self.uring.free_buffer();
        self.full = buffer.is_none();
        Ok(buffer)
    }

    /// True if the wait ended because a lent buffer came back that no send waits for.
    #[inline(always)]
    fn got_back_in_passing(&self) -> bool {
        !self.full && self.uring.has_got_back()
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if self.uring.has_queued() {
            self.uring.submit()?;
        } else {
            // Deferred work may give a lent buffer back.
            self.uring.run_deferred()?;
        }
        self.reap()
    }

    /// Sends, and asks for the message after the one returned last.
    #[inline(always)]
    fn launch(&mut self, flow: u32, buffer: u32, len: usize) -> io::Result<()> {
        if STREAM {
            self.sending[flow as usize] = Some(len);
        }
        self.uring.send(flow, buffer, len)?;
        self.release()?;
        if self.spins || !self.overstays || (STREAM && self.fills) { self.uring.submit() } else { Ok(()) }
    }

    /// The next message that has arrived.
    #[inline(always)]
    fn arrived(&mut self) -> Option<(u32, Held)> {
        if STREAM && self.multishot {
            return self.cut();
        }
        self.arrived.pop_front().map(|one| (one.flow, Held::In(one)))
    }

    /// Cuts the next message of a stream out of the parts that have arrived.
    fn cut(&mut self) -> Option<(u32, Held)> {
        loop {
            let part = self.current.take().or_else(|| self.arrived.pop_front())?;
            let (flow, left) = (part.flow, part.to - part.from);
            let have = &mut self.have[flow as usize];
            if *have == 0 && left >= self.expected {
                let to = part.from + self.expected;
                self.current = (to < part.to).then_some(Arrived { from: to, ..part });
                return Some((flow, Held::In(Arrived { to, ..part })));
            }
            let taken = left.min(self.expected - *have);
            let bytes = &self.uring.bytes(part.buffer)[part.from..part.from + taken];
            self.parts[flow as usize][*have..*have + taken].copy_from_slice(bytes);
            *have += taken;
            match part.from + taken < part.to {
                true => self.current = Some(Arrived { from: part.from + taken, ..part }),
                false => self.uring.give_back(part.buffer),
            }
            if *have == self.expected {
                *have = 0;
                self.joined.copy_from_slice(&self.parts[flow as usize]);
                return Some((flow, Held::Joined));
            }
        }
    }
}

fn is(error: i32, of: &[Errno]) -> bool {
    of.iter().any(|one| one.raw_os_error() == error)
}

/// An error after which the request is made again.
fn passing(error: i32) -> bool {
    is(error, &[Errno::AGAIN, Errno::INTR, Errno::CANCELED])
}

/// A router's report that a datagram did not fit: it counts as lost.
fn is_too_long<const STREAM: bool>(error: i32) -> bool {
    !STREAM && is(error, &[Errno::MSGSIZE])
}

impl<const STREAM: bool> Endpoint for Flows<'_, STREAM> {
    fn is_lossy(&self) -> bool {
        !STREAM
    }

    #[inline(always)]
    fn send(&mut self, flow: u32, len: usize, content: Content) -> io::Result<bool> {
        let Some(buffer) = self.room(flow)? else { return Ok(false) };
        content.write(&mut self.uring.bytes_mut(buffer)[..len]);
        self.launch(flow, buffer, len).map(|()| true)
    }

    #[inline(always)]
    fn has_waited(&mut self) -> bool {
        STREAM && std::mem::take(&mut self.waited)
    }

    #[inline(always)]
    fn recv(&mut self, until: Ticks) -> io::Result<Option<Reply<'_>>> {
        self.release()?;
        let mut waited = false;
        loop {
            self.reap()?;
            if let Some((flow, held)) = self.arrived() {
                self.held = Some(held);
                let bytes = match held {
                    Held::In(one) => &self.uring.bytes(one.buffer)[one.from..one.to],
                    Held::Joined => &self.joined,
                };
                return Ok(Some(Reply { flow, bytes }));
            }
            if STREAM && self.closed {
                return Err(closed());
            }
            // All buffers are free.
            while let Some(flow) = self.starved.pop() {
                self.ask(flow)?;
            }
            let now = self.clock.now();
            if self.spins {
                if self.uring.has_queued() {
                    self.uring.submit()?
                } else {
                    self.uring.run_deferred()?
                }
                if now >= until {
                    return Ok(None);
                }
            } else {
                // A part of a message does not make the wait longer. A lent buffer that comes back may: each send has one.
                if waited && now >= until && !self.got_back_in_passing() {
                    return Ok(None);
                }
                waited = true;
                let left = Duration::from_nanos(self.clock.to_ns(until.since(now)));
                self.uring.wait(if self.overstays { PATIENCE } else { left }, self.least)?;
                self.reap()?;
                if self.arrived.is_empty() && self.current.is_none() && !self.got_back_in_passing() {
                    return Ok(None);
                }
            }
        }
    }

    #[inline(always)]
    fn replying(&mut self, _flow: u32) -> io::Result<()> {
        if let Some(delay) = &self.delay {
            delay.take();
        }
        Ok(())
    }

    #[inline(always)]
    fn reply(&mut self, flow: u32, len: usize) -> io::Result<bool> {
        let Some(buffer) = self.room(flow)? else { return Ok(false) };
        match self.held {
            Some(Held::In(one)) => self.uring.copy(one.buffer, one.from..one.to.min(one.from + len), buffer),
            _ => {
                let len = len.min(self.expected);
                self.uring.bytes_mut(buffer)[..len].copy_from_slice(&self.joined[..len]);
            }
        }
        self.launch(flow, buffer, len).map(|()| true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_over()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use hairpin_sys::clock::MonotonicRaw;

    use super::*;

    const CLOCK: AnyClock = AnyClock::Raw(MonotonicRaw);
    const BYTES: usize = 64;

    /// False, with a message, where this process may not make rings, or the kernel lacks a feature.
    fn has(feature: &str) -> bool {
        match lacking() {
            Ok(lacking) if !lacking.iter().any(|one| one.starts_with(feature)) => true,
            refused => {
                println!("skipped: {feature}: {refused:?}");
                false
            }
        }
    }

    /// Linux 6.0 receives with a standing request; this is of 6.1.
    const MULTISHOT: &str = "ring=defer-taskrun";

    fn flows<'a, const STREAM: bool>(sockets: &'a [OwnedFd], spec: &str, bytes: u32) -> Flows<'a, STREAM> {
        let job = Job { request: bytes, reply: bytes, ..Job::new(spec.parse().unwrap()) };
        let part = Part {
            spec: &job.spec.client,
            side: Side::Client,
            expected: bytes,
            longest: bytes,
            overstays: true,
            heard_on: &[],
            allowed: &[0],
        };
        Flows::open(sockets, &job, &part, 0, CLOCK, &Mutex::default()).unwrap()
    }

    /// The next message, waited for as long as any host takes.
    fn next(flows: &mut Flows<'_, true>) -> io::Result<Vec<u8>> {
        let until = CLOCK.now().plus(10_000_000_000);
        while CLOCK.now() < until {
            if let Some(message) = flows.recv(until)? {
                return Ok(message.bytes.to_vec());
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    #[test]
    fn the_end_of_a_stream_is_told_behind_its_last_message() {
        if !has(MULTISHOT) {
            return;
        }
        for spec in ["uring-tcp:block,recv=multishot", "uring-tcp:spin,recv=multishot", "uring-tcp:block"] {
            let (own, mut peer) = UnixStream::pair().unwrap();
            let sockets = [OwnedFd::from(own)];
            let mut flows = flows::<true>(&sockets, spec, BYTES as u32);
            peer.write_all(&[7; 2 * BYTES]).unwrap();
            drop(peer);
            for _ in 0..2 {
                assert_eq!(next(&mut flows).unwrap(), [7; BYTES], "{spec}");
            }
            assert_eq!(next(&mut flows).unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{spec}");
        }
    }

    #[test]
    fn a_send_to_a_peer_that_reads_late_has_waited() {
        const LEN: usize = 2 << 20;
        if !has(MULTISHOT) {
            return;
        }
        let (own, mut peer) = UnixStream::pair().unwrap();
        let sockets = [OwnedFd::from(own)];
        let mut flows = flows::<true>(&sockets, "uring-tcp:block", LEN as u32);
        let content = Content { sequence: 0, cookie: 0, verify: false };
        assert!(flows.send(0, LEN, content).unwrap() && !flows.has_waited(), "not handed to the kernel yet");
        let echoed = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                let mut message = vec![0; LEN];
                peer.read_exact(&mut message).unwrap();
                peer.write_all(&message).unwrap();
            });
            next(&mut flows).unwrap().len()
        });
        assert_eq!((echoed, flows.has_waited(), flows.has_waited()), (LEN, true, false), "told once");
    }

    #[test]
    fn parts_of_a_message_do_not_make_a_wait_longer() {
        if !has(MULTISHOT) {
            return;
        }
        let (own, mut peer) = UnixStream::pair().unwrap();
        let sockets = [OwnedFd::from(own)];
        let mut flows = flows::<true>(&sockets, "uring-tcp:block,recv=multishot", 65_536);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // True if nobody has stopped it.
            let trickle = scope.spawn(|| {
                (0..2_000).all(|_| {
                    std::thread::sleep(Duration::from_millis(5));
                    !over.load(Ordering::Relaxed) && peer.write_all(&[1]).is_ok()
                })
            });
            let found = flows.recv(Ticks(0)).unwrap().is_some();
            over.store(true, Ordering::Relaxed);
            assert_eq!((found, trickle.join().unwrap()), (false, false), "the wait lasted as long as the peer wrote");
        });
    }

    #[test]
    fn a_lent_buffer_comes_back_to_a_side_that_only_sends() {
        if !has("send=zero-copy") || !has("ring=defer-taskrun") {
            return;
        }
        let [own, peer] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        own.connect(peer.local_addr().unwrap()).unwrap();
        let sockets = [OwnedFd::from(own)];
        let mut flows = flows::<false>(&sockets, "uring-udp:block,send=zero-copy,ring=defer-taskrun", BYTES as u32);
        while let Some(buffer) = flows.uring.free_buffer() {
            flows.launch(0, buffer, BYTES).unwrap();
        }
        flows.uring.submit().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while flows.room(0).unwrap().is_none() {
            assert!(Instant::now() < until, "no buffer comes back");
        }
    }

    #[test]
    fn a_refusal_of_several_threads_is_recorded_once() {
        let note = |option: &str| Granted {
            side: Side::Client,
            option: option.into(),
            asked: "on".into(),
            got: "off".into(),
            why: String::new(),
        };
        let refused = ["registered-buffers", "send", "registered-buffers", "send"].map(note).to_vec();
        let mut found = SideFound::default();
        finish(Mutex::new(Notes { refused, ..Notes::default() }), Side::Client, &[], &mut found);
        assert_eq!(found.granted, ["registered-buffers", "send"].map(note));
    }

    #[test]
    fn copied_sends_are_recorded_as_copied() {
        for (copied, expected) in [(0, None), (3, Some("3 of 9 copied")), (9, Some("copied"))] {
            let mut found = SideFound::default();
            let notes = Notes { lent: LentSends { done: 9, copied }, ..Notes::default() };
            finish(Mutex::new(notes), Side::Client, &[], &mut found);
            assert_eq!(found.granted.first().map(|granted| granted.got.as_str()), expected);
        }
    }
}
