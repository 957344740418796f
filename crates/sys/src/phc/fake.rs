//! A NIC's clock for tests: it runs off this host's own clocks, at a rate and with brackets that the test sets.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::time::ClockId;

use super::{Between, Latched, Method, NicClock};
use crate::clock::kernel_ns;

/// Readings of this host's clocks; the narrowest is taken.
const READINGS: usize = 50;

/// A NIC's clock for tests. Copies share its state, so that a test can set the clock that a [`Phc`](super::Phc) owns.
#[derive(Clone, Debug)]
pub struct FakeNicClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// It showed `nic_ns` when CLOCK_MONOTONIC_RAW showed `raw_ns`.
    nic_ns: i64,
    raw_ns: u64,
    /// Its rate against CLOCK_MONOTONIC_RAW, less 1, in parts per 10^9.
    ppb: i64,
    has: Vec<Method>,
    /// Widths of the brackets to come, in turn.
    widths_ns: Vec<u64>,
    /// The NIC's clock is read at this part of a bracket.
    inside: f64,
    /// The error number of every further request.
    error: Option<i32>,
    /// The error number of the next request alone.
    passing: Option<i32>,
    asked: usize,
    blind_ns: u64,
}

impl FakeNicClock {
    /// A clock that shows `nic_ns` now and runs `ppb` parts in 10^9 too fast, read in the middle of brackets of 2, 1 and 3 us in
    /// turn.
    pub fn new(nic_ns: i64, ppb: i64, has: &[Method]) -> FakeNicClock {
        FakeNicClock(Arc::new(Mutex::new(State {
            nic_ns,
            raw_ns: kernel_ns(ClockId::MonotonicRaw),
            ppb,
            has: has.to_vec(),
            widths_ns: vec![2_000, 1_000, 3_000],
            inside: 0.5,
            error: None,
            passing: None,
            asked: 0,
            blind_ns: 0,
        })))
    }

    /// Reads the clock at this part of a bracket, 0 to 1.
    #[must_use]
    pub fn inside(self, part: f64) -> FakeNicClock {
        self.state().inside = part;
        self
    }

    /// Sets it forward (or back) by `ns`, as a daemon does.
    pub fn step(&self, ns: i64) {
        self.state().nic_ns += ns;
    }

    /// Changes its rate, as a daemon does.
    pub fn slew(&self, ppb: i64) {
        let mut state = self.state();
        let raw_ns = kernel_ns(ClockId::MonotonicRaw);
        (state.nic_ns, state.raw_ns, state.ppb) = (state.at(raw_ns as i64), raw_ns, ppb);
    }

    /// Fails every request from now on with this error number, like a removed device.
    pub fn fail(&self, error: i32) {
        self.state().error = Some(error);
    }

    /// Fails the next request with this error number, like a device that is busy.
    pub fn fail_once(&self, error: i32) {
        self.state().passing = Some(error);
    }

    /// Its time when CLOCK_MONOTONIC_RAW shows `raw_ns`.
    pub fn at(&self, raw_ns: u64) -> i64 {
        self.state().at(raw_ns as i64)
    }

    /// Requests so far.
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    /// Largest error of the readings so far that no bracket shows: the time between two readings of this host's clocks, in ns.
    pub fn blind_ns(&self) -> u64 {
        self.state().blind_ns
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn brackets(&self, method: Method) -> io::Result<Vec<Between>> {
        let mut state = self.state();
        state.ask(method)?;
        let (realtime, raw, blind_ns) = at_once();
        state.blind_ns = state.blind_ns.max(blind_ns);
        // All brackets lie a little in the past, so that the readings after them are later.
        let at = |width: &u64| {
            let before = -(*width as i64) - 5_000;
            let inside = before + (*width as f64 * state.inside) as i64;
            Between { before_ns: realtime + before, nic_ns: state.at(raw + inside), after_ns: realtime + before + *width as i64 }
        };
        Ok(state.widths_ns.iter().map(at).collect())
    }
}

/// CLOCK_REALTIME and CLOCK_MONOTONIC_RAW at one moment, and the time between their readings, in which this thread may lose its
/// core.
fn at_once() -> (i64, i64, u64) {
    let read = |_| {
        let before = kernel_ns(ClockId::MonotonicRaw);
        let realtime = kernel_ns(ClockId::Realtime);
        let after = kernel_ns(ClockId::MonotonicRaw);
        (after.saturating_sub(before), realtime, before)
    };
    let (width, realtime, raw) = (0..READINGS).map(read).min().unwrap_or_default();
    (realtime as i64, (raw + width / 2) as i64, width)
}

impl State {
    fn at(&self, raw_ns: i64) -> i64 {
        let since = raw_ns - self.raw_ns as i64;
        self.nic_ns + since + (since as f64 * self.ppb as f64 / 1e9).round() as i64
    }

    fn ask(&mut self, method: Method) -> io::Result<()> {
        self.asked += 1;
        match self.passing.take().or(self.error) {
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None if self.has.contains(&method) => Ok(()),
            None => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        }
    }
}

impl NicClock for FakeNicClock {
    fn precise(&self) -> io::Result<Latched> {
        let mut state = self.state();
        state.ask(Method::Precise)?;
        let raw_ns = kernel_ns(ClockId::MonotonicRaw) as i64;
        Ok(Latched { nic_ns: state.at(raw_ns), raw_ns })
    }

    fn extended(&self) -> io::Result<Vec<Between>> {
        self.brackets(Method::Extended)
    }

    fn plain(&self) -> io::Result<Vec<Between>> {
        self.brackets(Method::Plain)
    }
}
