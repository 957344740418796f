//! The session of one client: its requests, checked, become orders to its worker, and the worker's answers go back.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_plan::job::{Job, Listen, MOST_THREADS};
use hairpin_sys::shared::Stamps;
use hairpin_trace::moment::HOOKS;

use super::ended::SessionError;
use super::grants::admit;
use super::hooks::ServersHost;
use super::probes::{Pause, left};
use super::probing::{Probing, RowState};
use super::turn::Until;
use super::{House, SILENCE};
use crate::address::interface_at;
use crate::channel::{Channel, RecvError};
use crate::message::{Answer, Failure, Half, Order, Request, named_hooks};
use crate::side::{SideError, WorkerSide, wait};

/// A row may last this much longer than planned.
const GRACE: Duration = Duration::from_secs(60);
/// [`SILENCE`] while a row is opened or closed, and all through a row with an XDP program: as it comes or goes it may take down the links of
/// both sides, up to 15 s twice, and the session goes over them too.
const LINK_DOWN: Duration = Duration::from_secs(40);
/// Interval at which a session checks its deadlines.
const TICK: Duration = Duration::from_millis(500);
/// [`TICK`] while a probe stands still, so that it takes no time from the session that measures.
const PAUSED_TICK: Duration = Duration::from_secs(4);
/// Requests handled before the worker and the deadlines get their turn, however many more there are.
const REQUESTS_AT_ONCE: u32 = 32;

/// The session of one client, with its worker.
pub(super) struct Session<'a> {
    channel: Channel,
    worker: WorkerSide,
    listen: Listen,
    house: &'a House<'a>,
    /// Only a probe has it.
    probing: Option<Probing<'a>>,
    heard: Instant,
    /// The row in progress: its deadline, and whether the client has asked for its end.
    row: Option<RowState>,
    rows: u32,
    /// Traces the rows that ask for it.
    host: ServersHost,
    /// Makes the probes stand still while this session measures. The last field, so that it is dropped last.
    pause: Option<Pause<'a>>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        mut channel: Channel,
        listen: Listen,
        house: &'a House<'a>,
        probing: Option<Probing<'a>>,
    ) -> Result<Session<'a>, SessionError> {
        let (host, worker) = prepare(house).inspect_err(|error| tell(&mut channel, error))?;
        let heard = Instant::now();
        Ok(Session { channel, worker, listen, house, probing, heard, row: None, rows: 0, host, pause: None })
    }

    /// Serves the client until it leaves. If the server ends the session, the client hears why.
    pub(super) fn run(&mut self) -> Result<u32, SessionError> {
        self.serve().inspect_err(|error| tell(&mut self.channel, error))
    }

    fn serve(&mut self) -> Result<u32, SessionError> {
        loop {
            for _ in 0..REQUESTS_AT_ONCE {
                match self.next_request()? {
                    None => break,
                    Some(Some(request)) => self.take(request)?,
                    Some(None) => return Ok(self.rows),
                }
            }
            while let Some(answer) = self.worker.try_answer()? {
                self.relay(answer)?;
            }
            self.follow()?;
            let now = Instant::now();
            let patience = patience(self.row.as_ref());
            if now.duration_since(self.heard) >= patience {
                return Err(SessionError::Silent(patience));
            }
            let is_paused = self.probing.as_ref().is_some_and(Probing::is_paused);
            if !is_paused && self.row.as_ref().is_some_and(|row| now >= row.deadline) {
                return Err(SessionError::Overdue);
            }
            let done = self.row.as_ref().is_some_and(|row| row.done);
            if done {
                self.worker.nudge();
            }
            let limit = match done {
                // Requests are still buffered.
                _ if self.channel.buffered() => Duration::ZERO,
                true => Duration::from_millis(20),
                false if is_paused => PAUSED_TICK,
                false => TICK,
            };
            let mut fds = vec![self.channel.as_fd(), self.worker.as_fd()];
            fds.extend(self.probing.as_ref().map(AsFd::as_fd));
            wait(&fds, Some(limit)).map_err(SessionError::Wait)?;
        }
    }

    /// The next request; `Some(None)` at the end of the session, `None` if nothing has come yet.
    fn next_request(&mut self) -> Result<Option<Option<Request>>, SessionError> {
        match self.channel.try_recv::<Request>() {
            Ok(None) => Ok(None),
            Ok(Some(request)) => {
                self.heard = Instant::now();
                Ok(Some(Some(request)))
            }
            Err(RecvError::Closed) => Ok(Some(None)),
            Err(error) => Err(SessionError::Client(error)),
        }
    }

    fn take(&mut self, request: Request) -> Result<(), SessionError> {
        if let Some(probing) = &mut self.probing {
            probing.counts(&request)?;
            let until = match request {
                Request::Facts { .. } | Request::Plan(_) if self.row.is_none() => probing.must_wait(),
                _ => None,
            };
            if let Some(until) = until {
                return Ok(self.channel.send(&Answer::Pause(left(until, Instant::now())))?);
            }
        }
        match request {
            Request::Beat => Ok(()),
            Request::Paused => {
                if let Some(probing) = &mut self.probing
                    && self.row.as_ref().is_some_and(|row| !row.done)
                {
                    probing.stands_still(&mut self.worker);
                }
                Ok(())
            }
            Request::Go => {
                if let Some(row) = &mut self.row {
                    row.going = true;
                }
                self.host.goes();
                Ok(())
            }
            Request::Times => {
                let times = self.host.times();
                Ok(self.channel.send(&Answer::Times(times))?)
            }
            Request::Clock => {
                let told = self.host.told();
                Ok(self.channel.send(&Answer::Clock(Box::new(told)))?)
            }
            Request::Hooks(on) => {
                self.host.hooks(if on { HOOKS.iter().collect() } else { Vec::new() });
                Ok(self.channel.send(&Answer::Done)?)
            }
            Request::Only(names) => {
                self.host.hooks(named_hooks(&names));
                Ok(self.channel.send(&Answer::Done)?)
            }
            Request::Halves => {
                let halves = self.host.halves().into_iter().map(Half::from).collect();
                Ok(self.channel.send(&Answer::Halves(halves))?)
            }
            Request::Stamps(every) => {
                let Listen { address, scope, .. } = self.listen;
                self.host.stamps_of(every, || interface_at(address, scope));
                Ok(self.channel.send(&Answer::Done)?)
            }
            Request::Nics => {
                let report = self.host.nics();
                Ok(self.channel.send(&Answer::Nics(Box::new(report)))?)
            }
            // The worker is measuring and would not answer.
            Request::Facts { .. } if self.row.is_some() => self.fails("facts are read between rows, not in one".into()),
            Request::Facts { threads } => {
                let threads = threads.clamp(1, MOST_THREADS);
                let interface = interface_at(self.listen.address, self.listen.scope);
                let answer = self.worker.order(&Order::Facts { interface, cpu: None, threads, server: true })?;
                Ok(self.channel.send(&answer)?)
            }
            Request::Plan(job) => match self.admit(&job) {
                Ok(()) => self.begin(job),
                Err(failure) => Ok(self.channel.send(&Answer::Failed(failure))?),
            },
            Request::Done => {
                if let Some(row) = &mut self.row {
                    if let Some(probing) = &mut self.probing {
                        probing.row_ends(&mut self.worker);
                    }
                    row.done = true;
                    self.worker.stop();
                }
                Ok(())
            }
        }
    }

    fn admit(&self, job: &Job) -> Result<(), Failure> {
        admit(job, &self.house.service.grants, self.listen.address.is_ipv6(), self.row.is_some())?;
        match &self.probing {
            Some(_) if !job.is_probe() => Err(Failure {
                message: "a probe takes at most 100 requests per second, and no busy waiting".into(),
                missing: false,
            }),
            _ => Ok(()),
        }
    }

    /// The probes stand still for a row until `until`.
    fn pause_probes(&mut self, until: Until) {
        if let Some(pause) = &self.pause {
            return pause.set(until);
        }
        let pause = self.house.probes.pause(until);
        if pause.waiting + pause.closed > 0 {
            (self.house.log)(format!("probes: {} wait for it, {} were closed", pause.waiting, pause.closed));
        }
        self.pause = Some(pause);
    }

    /// Does the duty of a probe.
    fn follow(&mut self) -> Result<(), SessionError> {
        let Some(probing) = &mut self.probing else { return Ok(()) };
        if let Some(answer) = probing.follow(&mut self.row, &mut self.worker)? {
            self.channel.send(&answer)?;
        }
        Ok(())
    }

    fn begin(&mut self, mut job: Box<Job>) -> Result<(), SessionError> {
        let most_per_s = match &self.probing {
            None => {
                let until = Until::end_of(&job, Instant::now());
                self.house.busy.set(until);
                self.pause_probes(until);
                None
            }
            Some(probing) => {
                let cpus = &self.house.service.grants.cpus;
                job.cpus.server = job.cpus.server.or_else(|| cpus.get(probing.index() % cpus.len().max(1)).copied());
                job.pace
            }
        };
        let now = Instant::now();
        // A job without a limit ends when the client stops sending.
        let lasts = job.duration.map_or(Duration::from_secs(366 * 86_400), Duration::from);
        let deadline = now + Duration::from(job.warmup) + lasts + GRACE + job.opens_within();
        let may_take_link_down = job.may_take_link_down();
        self.row = Some(RowState { deadline, may_take_link_down, ready: false, going: false, done: false });
        self.host.rests();
        if job.traced {
            self.host.follow_day();
        }
        self.worker.clear_stop();
        Ok(self.worker.send(&Order::Plan { job, listen: self.listen, most_per_s })?)
    }

    fn fails(&mut self, message: String) -> Result<(), SessionError> {
        Ok(self.channel.send(&Answer::Failed(Failure { message, missing: false }))?)
    }

    fn relay(&mut self, answer: Answer) -> Result<(), SessionError> {
        match &answer {
            Answer::Server(_) | Answer::Failed(_) => {
                self.row = None;
                // The client could only wait for it.
                self.heard = Instant::now();
                self.rows += u32::from(matches!(answer, Answer::Server(_)));
                self.host.rests();
                match &mut self.probing {
                    None => self.house.busy.set(Until::At(Instant::now() + SILENCE)),
                    Some(probing) => probing.row_ends(&mut self.worker),
                }
            }
            Answer::Ready(_) => {
                if let Some(row) = &mut self.row {
                    row.ready = true;
                }
            }
            _ => {}
        }
        self.channel.send(&answer)?;
        match answer {
            Answer::Server(report) if self.probing.is_some() => report.error.map_or(Ok(()), |why| Err(SessionError::Row(why))),
            _ => Ok(()),
        }
    }
}

/// Starts the worker of a session, and what traces its rows.
fn prepare(house: &House<'_>) -> Result<(ServersHost, WorkerSide), SessionError> {
    let host = ServersHost::new(Stamps::create().map_err(SideError::from)?);
    let mut worker = WorkerSide::start(None, Some(host.stamps()), house.service.stack.as_ref())?;
    worker.order(&Order::StayOn(house.service.grants.cpus.clone()))?;
    Ok((host, worker))
}

/// Tells the client why the server ends its session. One that is gone does not hear it, and the session ends all the same.
fn tell(channel: &mut Channel, error: &SessionError) {
    if error.is_news() {
        let failure = Failure { message: format!("the server ended the session: {error}"), missing: false };
        let _ = channel.send(&Answer::Failed(failure));
    }
}

/// A client that says nothing for this long counts as gone.
fn patience(row: Option<&RowState>) -> Duration {
    match row {
        // A worker that has measured takes its XDP program away, and reports after that.
        Some(row) if row.may_take_link_down || !row.is_measured() => LINK_DOWN,
        _ => SILENCE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_be_silent_longer_while_a_row_is_opened_or_closed() {
        let row =
            |may_take_link_down, going, done| RowState { deadline: Instant::now(), may_take_link_down, ready: true, going, done };
        let of = |may_take_link_down| {
            [(false, false), (true, false), (true, true)]
                .map(|(going, done)| patience(Some(&row(may_take_link_down, going, done))))
        };
        assert_eq!(of(false), [LINK_DOWN, SILENCE, LINK_DOWN]);
        assert_eq!(of(true), [LINK_DOWN; 3], "the client's worker ends its row before the client says so");
        assert_eq!(patience(None), SILENCE);
    }
}
