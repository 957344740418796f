//! A probe's session: it stands still while another session measures, and may ask for less.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::ended::SessionError;
use super::probes::{Place, Wanted, left};
use super::turn::Until;
use crate::message::{Answer, Request};
use crate::side::WorkerSide;

/// Most messages of a probe …
const MESSAGES: u32 = 300;
/// … within this time.
const WINDOW: Duration = Duration::from_secs(1);

/// The row in progress.
pub(super) struct RowState {
    pub(super) deadline: Instant,
    /// An XDP program of either side may take the link down.
    pub(super) may_take_link_down: bool,
    /// The client knows the data port.
    pub(super) ready: bool,
    /// Measuring has begun.
    pub(super) going: bool,
    pub(super) done: bool,
}

impl RowState {
    pub(super) fn is_measured(&self) -> bool {
        self.going && !self.done
    }
}

/// The state that only a probe's session has.
#[derive(Debug)]
pub(super) struct Probing<'a> {
    place: Place<'a>,
    /// When the row in progress was told to stand still.
    told: Option<Instant>,
    frozen: bool,
    window: Instant,
    messages: u32,
}

impl<'a> Probing<'a> {
    pub(super) fn new(place: Place<'a>) -> Probing<'a> {
        Probing { place, told: None, frozen: false, window: Instant::now(), messages: 0 }
    }

    /// The number of this probe.
    pub(super) fn index(&self) -> usize {
        self.place.index()
    }

    /// True while its row stands still.
    pub(super) fn is_paused(&self) -> bool {
        self.frozen
    }

    /// Counts a message of the client.
    ///
    /// # Errors
    /// The message is one too many, or a request that no probe may make.
    pub(super) fn counts(&mut self, request: &Request) -> Result<(), SessionError> {
        if self.window.elapsed() >= WINDOW {
            (self.window, self.messages) = (Instant::now(), 0);
        }
        self.messages += 1;
        match request {
            _ if self.messages > MESSAGES => Err(SessionError::Chatty),
            Request::Hooks(_)
            | Request::Only(_)
            | Request::Halves
            | Request::Stamps(_)
            | Request::Nics
            | Request::Times
            | Request::Clock => Err(SessionError::NotForProbes),
            _ => Ok(()),
        }
    }

    /// The end of the row that another session measures, if one does.
    pub(super) fn must_wait(&self) -> Option<Until> {
        match self.place.wanted() {
            Wanted::Pause(until) => Some(until),
            Wanted::GoOn | Wanted::Close => None,
        }
    }

    /// Does the probe's duty; returns the message for the client, if any.
    ///
    /// # Errors
    /// It did not stand still in time.
    pub(super) fn follow(&mut self, row: &mut Option<RowState>, worker: &mut WorkerSide) -> Result<Option<Answer>, SessionError> {
        match (self.place.wanted(), row) {
            (Wanted::Close, _) => Err(SessionError::Moving),
            (Wanted::Pause(_), None) => {
                self.place.stands_still();
                Ok(None)
            }
            (Wanted::Pause(until), Some(row)) if row.ready && !row.done && self.told.is_none() => {
                let now = Instant::now();
                self.told = Some(now);
                Ok(Some(Answer::Pause(left(until, now))))
            }
            (Wanted::GoOn, Some(row)) => {
                let Some(told) = self.told.take() else { return Ok(None) };
                self.thaw(worker);
                row.deadline += told.elapsed();
                Ok(Some(Answer::Resume))
            }
            (Wanted::Pause(_) | Wanted::GoOn, _) => Ok(None),
        }
    }

    /// The client says that its row stands still: from here on nothing of it is answered.
    pub(super) fn stands_still(&mut self, worker: &mut WorkerSide) {
        if self.told.is_some() && !self.frozen {
            self.frozen = true;
            worker.freeze(true);
            self.place.stands_still();
        }
    }

    /// The row in progress ends, or has ended.
    pub(super) fn row_ends(&mut self, worker: &mut WorkerSide) {
        self.told = None;
        self.thaw(worker);
    }

    fn thaw(&mut self, worker: &mut WorkerSide) {
        if std::mem::take(&mut self.frozen) {
            worker.freeze(false);
        }
    }
}

impl AsFd for Probing<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.place.as_fd()
    }
}
