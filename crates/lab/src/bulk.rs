//! TCP streams that fill a link beside the measured flow, each end in a worker process of its own.
//!
//! ```text
//!   client's network namespace                    server's network namespace
//!   source: writes whenever a stream takes more ─────▶ sink: reads and counts            as fast as TCP goes, until both are stopped
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hairpin_plan::job::Address;
use hairpin_plan::path::LinkKind;
use hairpin_record::load::BulkFacts;
use hairpin_sys::shared::Shared;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::message::{Answer, BulkReport, BulkWork, Namespace, Order};
use crate::ping::{PingError, Target};
use crate::side::{SideError, WorkerSide};
use crate::stage::Stage;

/// Bytes of a read or write.
const CHUNK: usize = 64 << 10;
/// How often an end that waits looks at its stop flag.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Both ends are on this host: they meet within this, and report within this after they were stopped.
const WITHIN: Duration = Duration::from_secs(10);

/// More than any link needs to be full.
const MOST_STREAMS: u32 = 64;

/// Reads `tcp:N`, and `none` for no stream.
///
/// # Errors
/// What to write.
pub fn streams(text: &str) -> Result<u32, String> {
    let some = |n: &str| n.parse().ok().filter(|n| (1..=MOST_STREAMS).contains(n));
    let streams = if text == "none" { Some(0) } else { text.strip_prefix("tcp:").and_then(some) };
    streams.ok_or_else(|| format!("\"{text}\" is no bulk traffic: write tcp:N with N from 1 to {MOST_STREAMS}, or none"))
}

/// Does one end's work in this process. `ready` is told where the sink listens, or that all streams of the source are connected.
pub(crate) fn run(
    work: BulkWork,
    stop: &Shared,
    mut ready: impl FnMut(Option<Address>) -> io::Result<()>,
) -> io::Result<BulkReport> {
    let mut streams = match work {
        BulkWork::Sink { at, streams } => {
            let listener = TcpListener::bind(at)?;
            ready(Some(Address::Inet(listener.local_addr()?)))?;
            accept(&listener, streams, stop)?
        }
        BulkWork::Source { to, streams } => {
            let streams = (0..streams).map(|_| TcpStream::connect_timeout(&to, WITHIN)).collect::<io::Result<Vec<_>>>()?;
            ready(None)?;
            streams
        }
    };
    streams.iter().try_for_each(|stream| stream.set_nonblocking(true))?;
    let sends = matches!(work, BulkWork::Source { .. });
    let (mut report, mut first, mut last) = (BulkReport::default(), None, Instant::now());
    let mut chunk = vec![0; CHUNK];
    while !stop.stop_requested() {
        match turn(&mut streams, &mut chunk, sends) {
            Ok(0) => {}
            Ok(bytes) => {
                last = Instant::now();
                first.get_or_insert(last);
                report.bytes += bytes;
            }
            // The other end is stopped first or last, as it happens.
            Err(error) => {
                std::thread::sleep(Duration::from_millis(50));
                report.error = (!stop.stop_requested()).then(|| format!("the other end of a bulk stream has ended: {error}"));
                break;
            }
        }
    }
    report.duration_ns = first.map_or(0, |first| last.duration_since(first).as_nanos() as u64);
    Ok(report)
}

fn accept(listener: &TcpListener, count: u32, stop: &Shared) -> io::Result<Vec<TcpStream>> {
    listener.set_nonblocking(true)?;
    let mut streams = Vec::new();
    while streams.len() < count as usize && !stop.stop_requested() {
        match listener.accept() {
            Ok((stream, _)) => streams.push(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(&mut [PollFd::new(listener, PollFlags::IN)])?,
            Err(error) => return Err(error),
        }
    }
    Ok(streams)
}

/// Waits until some stream can go on, and lets each go on once. Returns the bytes.
fn turn(streams: &mut [TcpStream], chunk: &mut [u8], sends: bool) -> io::Result<u64> {
    let flags = if sends { PollFlags::OUT } else { PollFlags::IN };
    sleep(&mut streams.iter().map(|stream| PollFd::new(stream, flags)).collect::<Vec<_>>())?;
    let mut bytes = 0;
    for stream in streams {
        match if sends { stream.write(chunk) } else { stream.read(chunk) } {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(moved) => bytes += moved as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn sleep(fds: &mut [PollFd<'_>]) -> io::Result<()> {
    match poll(fds, Some(&LOOK_EVERY)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Both ends as the verb sees them.
pub(crate) struct Bulk {
    source: WorkerSide,
    sink: WorkerSide,
    /// Where the sink listens.
    at: IpAddr,
}

impl Bulk {
    /// Starts both ends, in the network namespaces of the two sides of a stage. They wait.
    ///
    /// # Errors
    /// The other side is another host; a worker does not start.
    pub(crate) fn beside(stage: &Stage, target: &Target, ipv6: bool) -> Result<Bulk, PingError> {
        let Target::Link(link) = target else { return Err(PingError::BulkElsewhere) };
        let (mut source, mut sink) = (WorkerSide::start(None, None)?, WorkerSide::start(None, None)?);
        if let (LinkKind::Veth, Some(server)) = (link.kind(), stage.server.pid()) {
            source.order(&Order::Enter(Namespace::JoinNetwork(stage.client.pid())))?;
            sink.order(&Order::Enter(Namespace::JoinNetwork(server)))?;
        }
        Ok(Bulk { source, sink, at: link.addresses(ipv6).1 })
    }

    /// Fills the link with so many streams from now on.
    pub(crate) fn go(&mut self, streams: u32) -> Result<(), SideError> {
        self.sink.clear_stop();
        self.source.clear_stop();
        self.sink.send(&Order::Bulk(BulkWork::Sink { at: SocketAddr::new(self.at, 0), streams }))?;
        let to = match self.sink.answer(WITHIN)? {
            Answer::Ready(Some(Address::Inet(to))) => to,
            other => return Err(unexpected(other)),
        };
        self.source.send(&Order::Bulk(BulkWork::Source { to, streams }))?;
        match self.source.answer(WITHIN)? {
            Answer::Ready(None) => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Stops both ends and says what arrived.
    pub(crate) fn halt(&mut self) -> Result<BulkFacts, PingError> {
        self.source.stop();
        self.sink.stop();
        let [_, received] = [&mut self.source, &mut self.sink].map(|end| match end.answer(WITHIN) {
            Ok(Answer::Bulk(BulkReport { error: Some(why), .. })) => Err(PingError::Bulk(why)),
            Ok(Answer::Bulk(report)) => Ok(report),
            Ok(other) => Err(unexpected(other).into()),
            Err(error) => Err(error.into()),
        });
        let received = received?;
        let seconds = received.duration_ns as f64 / 1e9;
        let bits_per_s = if seconds > 0.0 { (received.bytes as f64 * 8.0 / seconds).round() } else { 0.0 };
        Ok(BulkFacts { bytes: received.bytes, duration_ns: received.duration_ns, bits_per_s })
    }
}

fn unexpected(answer: Answer) -> SideError {
    match answer {
        Answer::Failed(failure) => SideError::Failed(failure),
        other => SideError::OutOfTurn(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_carry_the_same_until_they_are_stopped() {
        let (stop_sink, stop_source) = (Shared::create().unwrap(), Shared::create().unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let sink = scope.spawn(|| {
                let at = "127.0.0.1:0".parse().unwrap();
                run(BulkWork::Sink { at, streams: 2 }, &stop_sink, |address| {
                    tell.send(address.unwrap()).unwrap();
                    Ok(())
                })
            });
            let Address::Inet(to) = told.recv().unwrap() else { panic!("the sink is somewhere else") };
            let stop = &stop_source;
            let source = scope.spawn(move || run(BulkWork::Source { to, streams: 2 }, stop, |_| Ok(())));
            std::thread::sleep(Duration::from_millis(50));
            stop_source.request_stop();
            let sent = source.join().unwrap().unwrap();
            stop_sink.request_stop();
            let received = sink.join().unwrap().unwrap();
            assert!(sent.bytes > 0 && sent.error.is_none());
            assert!(received.bytes <= sent.bytes, "{received:?} {sent:?}");
        });
    }

    #[test]
    fn bulk_traffic_is_tcp_and_a_number() {
        assert_eq!((streams("tcp:4"), streams("none")), (Ok(4), Ok(0)));
        for text in ["4", "tcp:", "tcp:0", "tcp:65", "udp:1", ""] {
            assert!(streams(text).unwrap_err().contains("write tcp:N"), "{text}");
        }
    }

    #[test]
    fn an_end_that_is_gone_is_told_and_no_end_waits_for_ever() {
        let stop = Shared::create().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let source = scope.spawn(|| run(BulkWork::Source { to, streams: 1 }, &stop, |_| Ok(())));
            drop(listener.accept().unwrap());
            let report = source.join().unwrap().unwrap();
            assert!(report.error.unwrap().contains("has ended"));
        });
    }
}
