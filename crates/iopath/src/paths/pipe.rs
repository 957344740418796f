//! `pipe`: request and reply over two pipes per flow, one for each direction.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hairpin_plan::job::Job;
use hairpin_plan::path::LinkKind;
use hairpin_record::run::Side;
use hairpin_sys::wait::or_nothing;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::error::PathError;
use crate::flows::Carrier;
use crate::measure::{ClientRun, ServerRun};
use crate::rendezvous;
use crate::runner::{Runner, Support, probe_local};
use crate::stream::{closed, push_rest};

pub struct Pipe;

/// Granule of a pipe's buffer; in the worst case each message starts a new page.
const PAGE: u64 = 4096;

impl Runner for Pipe {
    fn probe(&self, link: LinkKind) -> Support {
        probe_local(link)
    }

    /// The server has both ends of both pipes until the client has its own.
    fn descriptors_per_flow(&self, side: Side) -> u32 {
        if side == Side::Server { 4 } else { 2 }
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        let fds = rendezvous::take_over(run, 2 * run.job.flows as usize)?;
        run.over(&mut all(&fds, run.job))
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..run.job.flows {
            let (requests_out, requests_in) = new_pipe(run.job)?;
            let (replies_out, replies_in) = new_pipe(run.job)?;
            ours.extend([requests_out, replies_in]);
            theirs.extend([replies_out, requests_in]);
        }
        rendezvous::hand_over(run, &theirs.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
        // Left open here, they would hide the client's exit.
        drop(theirs);
        run.over(&mut all(&ours, run.job))
    }
}

/// A pipe with room for all messages in flight, so that no writer ever waits: its read end and its write end.
fn new_pipe(job: &Job) -> Result<(OwnedFd, OwnedFd), PathError> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(PathError::at("cannot make a pipe"))?;
    make_room(&writer, u64::from(job.outstanding) * u64::from(job.request.max(job.reply)).next_multiple_of(PAGE))?;
    // Both sides may be in a write at once; neither may sleep there. The read end is set up by the wait policy.
    fcntl_setfl(&writer, OFlags::NONBLOCK).map_err(PathError::at("cannot prepare a pipe"))?;
    Ok((reader, writer))
}

/// Makes a pipe hold `needed` bytes. The kernel makes it smaller than usual where the user has many (pipe(7)).
fn make_room(pipe: &OwnedFd, needed: u64) -> Result<(), PathError> {
    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
    let has = fcntl_getpipe_size(pipe).map_err(PathError::at("cannot read the size of a pipe"))?;
    if needed > has {
        fcntl_setpipe_size(pipe, needed).map_err(PathError::at(format!(
            "cannot make a pipe that holds {needed} bytes: use fewer --outstanding or --flows, or raise fs.pipe-max-size and fs.pipe-user-pages-soft"
        )))?;
    }
    Ok(())
}

/// One side of two pipes.
struct Pipes<'fd> {
    from: BorrowedFd<'fd>,
    to: BorrowedFd<'fd>,
    have: usize,
    patience: Duration,
    /// The last send waited for room.
    waited: bool,
}

/// The flows over pairs of a read end and a write end.
fn all<'fd>(fds: &'fd [OwnedFd], job: &Job) -> Vec<Pipes<'fd>> {
    let patience = Duration::from(job.timeout);
    let (pairs, _) = fds.as_chunks::<2>();
    pairs.iter().map(|[from, to]| Pipes { from: from.as_fd(), to: to.as_fd(), have: 0, patience, waited: false }).collect()
}

impl<'fd> Carrier<'fd> for Pipes<'fd> {
    const LOSSY: bool = false;
    const WHOLE: bool = false;

    fn readable(&self) -> BorrowedFd<'fd> {
        self.from
    }

    fn writable(&self) -> BorrowedFd<'fd> {
        self.to
    }

    #[inline(always)]
    fn begun(&self) -> usize {
        self.have
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        match or_nothing(write(self.to, message))? {
            Some(written) if written == message.len() => Ok(true),
            None => Ok(false),
            Some(written) => {
                self.waited = true;
                push_rest(self.to, &message[written..], self.patience, |rest| write(self.to, rest)).map(|()| true)
            }
        }
    }

    #[inline(always)]
    fn has_waited(&mut self) -> bool {
        std::mem::take(&mut self.waited)
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8], expected: usize) -> io::Result<Option<usize>> {
        let Some(len) = or_nothing(read(self.from, &mut buffer[self.have..expected]))? else { return Ok(None) };
        if len == 0 {
            return Err(closed());
        }
        self.have += len;
        if self.have < expected {
            return Ok(None);
        }
        self.have = 0;
        Ok(Some(expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_the_kernel_made_small_gets_room() {
        let (_reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let small = fcntl_setpipe_size(&writer, 4096).unwrap();
        make_room(&writer, 4 * small as u64).unwrap();
        assert!(fcntl_getpipe_size(&writer).unwrap() >= 4 * small);
    }
}
