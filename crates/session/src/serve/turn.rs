//! The turn to measure: the session that has it, its end, and the wait for a session that is over but still
//! ending.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hairpin_plan::job::Job;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A session whose client has gone shuts its worker and rings down within this time.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// The end of a client may go unnoticed for this long.
const NOTICED_WITHIN: Duration = Duration::from_millis(150);
/// Polling interval of the waiting session.
const LOOK: Duration = Duration::from_millis(5);

/// End of a session, or of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// At this time at the latest.
    At(Instant),
    /// After this many transactions.
    Count(u64),
    /// The client ends it.
    Client,
}

impl Until {
    /// The end of a row that begins now.
    pub(super) fn end_of(job: &Job, now: Instant) -> Until {
        let paced = || Some(Duration::try_from_secs_f64(job.count? as f64 / job.pace?).unwrap_or(Duration::MAX));
        match (job.duration.map(Duration::from).or_else(paced), job.count) {
            (Some(lasts), count) => {
                let end = now.checked_add(Duration::from(job.warmup)).and_then(|at| at.checked_add(lasts));
                end.map_or(count.map_or(Until::Client, Until::Count), Until::At)
            }
            (None, Some(count)) => Until::Count(count),
            (None, None) => Until::Client,
        }
    }

    /// The text that tells the next client how long to wait.
    pub(super) fn in_words(self, now: Instant) -> String {
        match self {
            Until::At(end) => {
                let seconds = end.saturating_duration_since(now).as_millis().div_ceil(1000).max(1);
                format!("this server is busy with another session for {seconds} s more; run again then")
            }
            Until::Count(count) => {
                format!(
                    "this server is busy with another session until {count} transactions are done (--count); run again after that"
                )
            }
            Until::Client => {
                "this server is busy with another session until its client ends it (--forever); run again after that".into()
            }
        }
    }
}

/// The session that measures now, if any.
#[derive(Debug, Default)]
pub(super) struct Busy(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    until: Until,
    client: IpAddr,
    /// A copy of the session's connection, to notice its client's end.
    connection: OwnedFd,
}

impl Busy {
    /// Sets when the current session will be over.
    pub(super) fn set(&self, until: Until) {
        if let Some(running) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            running.until = until;
        }
    }

    /// True if the session that has the turn is of a client at this address, as in a comparison of two addresses of one server.
    pub(super) fn is_of(&self, client: IpAddr) -> bool {
        let now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        now.as_ref().is_some_and(|running| running.client == client)
    }

    /// Gives the turn to the session of `client` over `connection`, or returns until when another has it. Waits for a session
    /// whose client has gone.
    pub(super) fn take(&self, connection: &impl AsFd, client: IpAddr, until: Until) -> io::Result<Result<Turn<'_>, Until>> {
        let connection = connection.as_fd().try_clone_to_owned()?;
        let begun = Instant::now();
        loop {
            let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(running) = &*now else {
                *now = Some(Running { until, client, connection });
                return Ok(Ok(Turn(self)));
            };
            let patience = if has_gone(&running.connection) { GONE_WITHIN } else { NOTICED_WITHIN };
            if begun.elapsed() >= patience {
                return Ok(Err(running.until));
            }
            drop(now);
            std::thread::sleep(LOOK);
        }
    }
}

/// True if the peer has closed its end, even with data unread.
fn has_gone(connection: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(connection, PollFlags::RDHUP)];
    let found = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    found.is_ok() && fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}

/// The right to measure; given back on drop.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Busy);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use hairpin_units::Nanos;

    use super::*;

    #[test]
    fn one_session_at_a_time_and_the_next_when_its_client_has_gone() {
        let busy = Busy::default();
        let ((first, client), (second, _other)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let until = Until::Count(7);
        let at = IpAddr::from([10, 0, 0, 1]);
        let turn = busy.take(&first, at, until).unwrap().unwrap();
        assert_eq!(busy.take(&second, at, until).unwrap().unwrap_err(), until, "its client is there");
        assert!(busy.is_of(at) && !busy.is_of([10, 0, 0, 2].into()));
        drop(client);
        std::thread::scope(|scope| {
            let next = scope.spawn(|| busy.take(&second, at, until).unwrap().is_ok());
            // The session takes a while to end, and the next one waits for it.
            std::thread::sleep(2 * NOTICED_WITHIN);
            drop((turn, first));
            assert!(next.join().unwrap());
        });
        assert!(busy.0.lock().unwrap().is_none(), "given back");
    }

    #[test]
    fn a_row_tells_how_long_it_takes() {
        let now = Instant::now();
        let at = |seconds| Until::At(now + Duration::from_secs(seconds));
        let job = Job {
            warmup: Nanos::from_secs(1),
            duration: None,
            count: None,
            ..hairpin_plan::job::Job::new("udp".parse().unwrap())
        };
        for (duration, count, pace, until, part) in [
            (Some(8), None, None, at(9), "for 9 s more"),
            (Some(8), Some(1_000), None, at(9), "for 9 s more"),
            (None, Some(5), None, Until::Count(5), "until 5 transactions are done"),
            (None, Some(50), Some(10.0), at(6), "for 6 s more"),
            (None, Some(1 << 60), Some(0.01), Until::Count(1 << 60), "until 1152921504606846976 transactions are done"),
            (None, None, Some(10.0), Until::Client, "until its client ends it"),
        ] {
            let found = Until::end_of(&Job { duration: duration.map(Nanos::from_secs), count, pace, ..job.clone() }, now);
            assert_eq!(found, until);
            assert!(found.in_words(now).contains(part), "{}", found.in_words(now));
        }
        assert!(Until::At(now).in_words(now + Duration::from_secs(3)).contains("for 1 s more"), "it is about to end");
    }
}
