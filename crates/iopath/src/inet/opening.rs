//! The opening of many flows: how many at once, for how long, and how far it is.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_plan::job::Job;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::PathError;
use crate::measure::Observer;

/// Flows that a client opens at once: as many as the shortest usual queue of a listening socket takes (net.core.somaxconn, 128
/// before Linux 5.4), and as fit into the default receive buffer of a datagram socket.
pub(super) const BATCH: u32 = 128;

/// Progress of the opening. It is in time if a flow opens at least once every `--timeout`, and all within [`Job::opens_within`].
pub(super) struct Opening<'a> {
    observer: &'a dyn Observer,
    timeout: Duration,
    end: Instant,
    last: Instant,
    open: u32,
}

impl<'a> Opening<'a> {
    pub(super) fn begin(job: &Job, observer: &'a dyn Observer) -> Opening<'a> {
        let now = Instant::now();
        Opening { observer, timeout: Duration::from(job.timeout), end: now + job.opens_within(), last: now, open: 0 }
    }

    /// `count` more flows are open.
    pub(super) fn opened(&mut self, count: u32) {
        if count > 0 {
            self.open += count;
            self.last = Instant::now();
            self.observer.opened(self.open);
        }
    }

    /// The time that is left; zero: too late.
    pub(super) fn left(&self) -> Duration {
        self.end.min(self.last + self.timeout).saturating_duration_since(Instant::now())
    }

    /// Sleeps until one of the descriptors is ready, a signal comes, or `limit` or the time that is left has passed.
    pub(super) fn sleep(&self, fds: &mut [PollFd<'_>], limit: Duration) -> Result<(), PathError> {
        wait(fds, limit.min(self.left())).map_err(PathError::at("cannot wait for the flows to open"))
    }
}

/// Sleeps until one of the descriptors is ready, a signal comes, or `limit` has passed.
pub(super) fn wait(fds: &mut [PollFd<'_>], limit: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    match poll(fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps until `socket` has something to read, or `limit` has passed.
pub(super) fn readable(socket: &impl AsFd, limit: Duration) -> io::Result<()> {
    wait(&mut [PollFd::new(socket, PollFlags::IN)], limit)
}
