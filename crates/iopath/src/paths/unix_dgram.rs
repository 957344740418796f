//! `unix-dgram`: one datagram each way, over a pair of UNIX datagram sockets per flow.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;
use hairpin_sys::message::{recv, send};
use hairpin_sys::wait::or_nothing;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType};

use crate::error::PathError;
use crate::flows::Carrier;
use crate::inet;
use crate::measure::{ClientRun, ServerRun};
use crate::paths::unix::pairs;
use crate::rendezvous;
use crate::runner::{Runner, Support, probe_local};
use crate::stream::closed;

pub struct UnixDgram;

impl Runner for UnixDgram {
    fn probe(&self, link: LinkKind) -> Support {
        probe_local(link)
    }

    /// The server has both ends until the client has its own.
    fn descriptors_per_flow(&self, side: Side) -> u32 {
        if side == Side::Server { 2 } else { 1 }
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let fds = rendezvous::take_over(run, run.job.flows as usize)?;
        for fd in &fds {
            inet::before_connect(fd, &run.job.spec.client, Side::Client, &mut run.found.side)?;
        }
        run.over(&mut datagrams(&fds))
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let (ours, theirs) = pairs(SocketType::DGRAM, run.job.flows)?;
        for fd in &ours {
            inet::before_connect(fd, &run.job.spec.server, Side::Server, &mut run.found.side)?;
        }
        rendezvous::hand_over(run, &theirs.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
        // Left open here, they would hide the client's exit.
        drop(theirs);
        run.over(&mut datagrams(&ours))
    }
}

fn datagrams(fds: &[OwnedFd]) -> Vec<Datagram<'_>> {
    fds.iter().map(|fd| Datagram { fd: fd.as_fd() }).collect()
}

/// One end of a pair. Dropping it sends an empty datagram to the other end, since these sockets have no end of stream.
struct Datagram<'fd> {
    fd: BorrowedFd<'fd>,
}

impl<'fd> Carrier<'fd> for Datagram<'fd> {
    const LOSSY: bool = false;
    const WHOLE: bool = true;

    fn readable(&self) -> BorrowedFd<'fd> {
        self.fd
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        // Never sleeps in a send: with both queues full each side would wait for the other to receive.
        match or_nothing(send(self.fd, message, SendFlags::DONTWAIT)) {
            Ok(sent) => Ok(sent.is_some()),
            Err(error) => Err(refused(error, message.len())),
        }
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8], _expected: usize) -> io::Result<Option<usize>> {
        match or_nothing(recv(self.fd, buffer, RecvFlags::empty()))? {
            Some(0) => Err(closed()),
            received => Ok(received),
        }
    }
}

impl Drop for Datagram<'_> {
    fn drop(&mut self) {
        // Fails only if the other end is gone, or has stalled until its own timeout reports it.
        let _ = send(self.fd, &[], SendFlags::DONTWAIT);
    }
}

#[cold]
fn refused(error: io::Error, len: usize) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MSGSIZE) => io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a datagram of {len} bytes exceeds the send buffer: use sndbuf={}, or raise net.core.wmem_max", len + 32),
        ),
        Some(Errno::CONNREFUSED) => closed(),
        _ => error,
    }
}
