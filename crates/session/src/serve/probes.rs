//! The probes that are served beside each other, and their pause while a session measures.
//!
//! ```text
//!   measuring session:  plan ─▶ pause ─────────────────────────▶ its rows ─▶ its end ─▶ all go on
//!   each probe:                  told ─▶ stands still, its worker frozen ······························ told ─▶ goes on
//!                                 └ not within 5 s: closed
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::turn::Until;

/// Probes served at once.
pub(super) const MOST: usize = 64;
/// A probe that was told to stand still does so within this time: its last request is answered, or given up.
pub(super) const STILL_WITHIN: Duration = Duration::from_secs(5);
/// The worker of a probe that is closed has ended within this time.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// All probes of a server.
#[derive(Debug)]
pub(super) struct Probes {
    most: usize,
    still_within: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The end of the row that is measured, while a session measures alone.
    until: Option<Until>,
    seats: Vec<Option<Seat>>,
}

#[derive(Debug)]
struct Seat {
    /// Sends nothing and answers nothing.
    still: bool,
    /// Did not stand still in time.
    closed: bool,
    wake: OwnedFd,
}

/// Why a probe has no place.
#[derive(Debug)]
pub(super) enum NoPlace {
    /// A session measures.
    Paused(Until),
    /// All places are taken.
    Full(usize),
    /// Out of descriptors.
    Failed(io::Error),
}

/// The duty of a probe's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    GoOn,
    Pause(Until),
    /// It stood still too late.
    Close,
}

impl Probes {
    /// No probes, and room for `most`, which stand still within this time.
    pub(super) fn new(most: usize, still_within: Duration) -> Probes {
        Probes { most, still_within, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more probe.
    pub(super) fn enter(&self) -> Result<Place<'_>, NoPlace> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| NoPlace::Failed(error.into()))?;
        let woken = wake.try_clone().map_err(NoPlace::Failed)?;
        let mut state = self.state();
        if let Some(until) = state.until {
            return Err(NoPlace::Paused(until));
        }
        let index = state.seats.iter().position(Option::is_none).unwrap_or(state.seats.len());
        if index >= self.most {
            return Err(NoPlace::Full(self.most));
        }
        let seat = Seat { still: false, closed: false, wake };
        if index == state.seats.len() {
            state.seats.push(None);
        }
        state.seats[index] = Some(seat);
        Ok(Place { probes: self, index, woken })
    }

    /// Makes all probes stand still until the result is dropped. Those that do not are closed.
    pub(super) fn pause(&self, until: Until) -> Pause<'_> {
        let mut state = self.state();
        state.until = Some(until);
        state.wake();
        let (mut state, late) =
            self.changed.wait_timeout_while(state, self.still_within, State::is_moving).unwrap_or_else(PoisonError::into_inner);
        let waiting = state.seats.iter().flatten().filter(|seat| seat.still).count();
        let mut closed = 0;
        if late.timed_out() {
            for seat in state.seats.iter_mut().flatten().filter(|seat| !seat.still) {
                seat.closed = true;
                closed += 1;
            }
            state.wake();
            drop(self.changed.wait_timeout_while(state, CLOSED_WITHIN, State::is_moving));
        }
        Pause { probes: self, waiting, closed }
    }
}

impl State {
    fn is_moving(&mut self) -> bool {
        self.seats.iter().flatten().any(|seat| !seat.still)
    }

    fn wake(&self) {
        for seat in self.seats.iter().flatten() {
            // Full: it is awake.
            let _ = rustix::io::write(&seat.wake, &1_u64.to_ne_bytes());
        }
    }
}

/// A pause of all probes; over when dropped.
#[derive(Debug)]
pub(super) struct Pause<'a> {
    probes: &'a Probes,
    /// Probes that stand still.
    pub(super) waiting: usize,
    /// Probes that were closed.
    pub(super) closed: usize,
}

impl Pause<'_> {
    /// Sets the end of the row that is measured now.
    pub(super) fn set(&self, until: Until) {
        self.probes.state().until = Some(until);
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = self.probes.state();
        state.until = None;
        state.wake();
    }
}

/// The place of one probe; free again when dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    probes: &'a Probes,
    index: usize,
    woken: OwnedFd,
}

impl Place<'_> {
    /// The probe's number, the least that was free.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Number of probes now.
    pub(super) fn of(&self) -> usize {
        self.probes.state().seats.iter().flatten().count()
    }

    /// The probe's duty. Once told to go on, it counts as moving.
    pub(super) fn wanted(&self) -> Wanted {
        let _ = rustix::io::read(&self.woken, &mut [0; 8]);
        let mut state = self.probes.state();
        let until = state.until;
        match (state.seats.get_mut(self.index).and_then(Option::as_mut), until) {
            (None, _) => Wanted::Close,
            (Some(seat), _) if seat.closed => Wanted::Close,
            (Some(_), Some(until)) => Wanted::Pause(until),
            (Some(seat), None) => {
                seat.still = false;
                Wanted::GoOn
            }
        }
    }

    /// The probe stands still.
    pub(super) fn stands_still(&self) {
        if let Some(Some(seat)) = self.probes.state().seats.get_mut(self.index) {
            seat.still = true;
        }
        self.probes.changed.notify_all();
    }
}

impl AsFd for Place<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.probes.state().seats.get_mut(self.index) {
            *seat = None;
        }
        self.probes.changed.notify_all();
    }
}

/// The time left until `until`, if it is known.
pub(super) fn left(until: Until, now: Instant) -> Option<hairpin_units::Nanos> {
    match until {
        Until::At(end) => Some(hairpin_units::Nanos::from_secs(
            u64::try_from(end.saturating_duration_since(now).as_millis().div_ceil(1_000))
                .unwrap_or(u64::MAX / 1_000_000_000)
                .max(1),
        )),
        Until::Count(_) | Until::Client => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_enter_up_to_the_limit_and_one_more_when_one_has_left() {
        let probes = Probes::new(3, STILL_WITHIN);
        let mut places: Vec<Place<'_>> = (0..3).map(|_| probes.enter().unwrap()).collect();
        assert!(matches!(probes.enter(), Err(NoPlace::Full(3))));
        places.remove(1);
        let next = probes.enter().unwrap();
        assert_eq!((next.index(), next.of()), (1, 3));
    }

    #[test]
    fn a_pause_begins_when_all_stand_still_and_lets_nobody_in() {
        let probes = Probes::new(3, STILL_WITHIN);
        let (one, other) = (probes.enter().unwrap(), probes.enter().unwrap());
        assert_eq!(one.wanted(), Wanted::GoOn);
        std::thread::scope(|scope| {
            let pausing = scope.spawn(|| probes.pause(Until::Client));
            while one.wanted() == Wanted::GoOn {
                std::thread::yield_now();
            }
            one.stands_still();
            assert!(!pausing.is_finished(), "one of two stands still");
            assert_eq!(other.wanted(), Wanted::Pause(Until::Client));
            other.stands_still();
            let pause = pausing.join().unwrap();
            assert_eq!((pause.waiting, pause.closed), (2, 0));
            assert!(matches!(probes.enter(), Err(NoPlace::Paused(Until::Client))));
            pause.set(Until::Count(7));
            assert_eq!(one.wanted(), Wanted::Pause(Until::Count(7)));
            drop(pause);
        });
        assert_eq!((one.wanted(), other.wanted()), (Wanted::GoOn, Wanted::GoOn));
        assert!(probes.state().is_moving() && probes.enter().is_ok());
    }

    #[test]
    fn a_probe_that_does_not_stand_still_is_closed_and_the_others_wait() {
        let probes = Probes::new(3, Duration::from_millis(50));
        let (good, bad) = (probes.enter().unwrap(), probes.enter().unwrap());
        good.stands_still();
        std::thread::scope(|scope| {
            let pausing = scope.spawn(|| probes.pause(Until::Client));
            while bad.wanted() != Wanted::Close {
                std::thread::sleep(Duration::from_millis(10));
            }
            drop(bad);
            let pause = pausing.join().unwrap();
            assert_eq!((pause.waiting, pause.closed), (1, 1));
        });
    }
}
