//! One end of the TCP bulk streams that fill the link beside the measured flow.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hairpin_plan::job::Address;
use hairpin_sys::shared::Shared;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::message::{BulkReport, BulkWork};

/// Bytes per read or write.
const CHUNK: usize = 64 << 10;
/// Interval at which a waiting end checks its stop flag.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Time limit for the connections to the other end.
const WITHIN: Duration = Duration::from_secs(10);

/// Runs one end in this process. `ready` gets the sink's address, or `None` once all streams of the source are connected.
pub fn run(work: BulkWork, stop: &Shared, mut ready: impl FnMut(Option<Address>) -> io::Result<()>) -> io::Result<BulkReport> {
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
            // Either end may be stopped first.
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

/// Waits until some stream is ready, and reads or writes each ready one once. Returns the bytes moved.
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
            let (tell_connected, connected) = std::sync::mpsc::channel();
            let source = scope.spawn(move || {
                run(BulkWork::Source { to, streams: 2 }, stop, |_| {
                    tell_connected.send(()).unwrap();
                    Ok(())
                })
            });
            // A source that cannot connect tells why below.
            let _ = connected.recv();
            std::thread::sleep(Duration::from_millis(50));
            // The sink first, as a verb stops them: its report is the one that counts, however late its source hears of the stop.
            stop_sink.request_stop();
            let received = sink.join().unwrap().unwrap();
            stop_source.request_stop();
            let sent = source.join().unwrap().unwrap();
            assert!(sent.bytes > 0 && received.error.is_none(), "{received:?} {sent:?}");
            assert!(received.bytes <= sent.bytes, "{received:?} {sent:?}");
        });
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
