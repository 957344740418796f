//! The server's side as the verb sees it: a local worker, a remote `hairpin serve`, or an echo service or reflector that reports
//! nothing.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use hairpin_plan::job::{Address, Job, Listen, MOST_THREADS};
use hairpin_record::run::{HostFacts, MOST_FLOW_FACTS};
use hairpin_record::warning::Note;
use hairpin_sys::signal::Signals;
use hairpin_trace::moment::HOOKS;
use hairpin_units::Nanos;

use crate::channel::{Channel, RecvError};
use crate::error::RunError;
use crate::message::{Answer, Failure, Order, Request, ServerReport, Times, read_halves};
use crate::printable::printable;
use crate::side::{SideError, WorkerSide, wait};
use crate::time_source;
use crate::watch::{Told, Turn, Wants};

/// Time limit for a server to listen: it may wait up to 6 s for probes, and up to 15 s twice for a link that a new XDP program
/// takes down.
const LISTENS_WITHIN: Duration = Duration::from_secs(40);
/// Time limit for an answer that takes no preparation.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for the report of a server that was stopped: it may wait up to 15 s for a link that loses its XDP program.
const REPORTS_WITHIN: Duration = Duration::from_secs(20);
/// The limit after a failed row, whose failure has taken long enough to notice; a link that loses its XDP program comes back
/// meanwhile.
const FAILED_WITHIN: Duration = Duration::from_secs(5);
/// Interval at which a stopped worker is nudged until it reports.
pub const NUDGE_EVERY: Duration = Duration::from_millis(20);
/// Longest text that is taken from a remote server.
const LONGEST: usize = 1_000;
/// Most warnings that are taken from one.
const MOST_WARNINGS: usize = 100;
/// Refused options, as many as paths have several times over.
const MOST_GRANTED: usize = 1_000;
/// Names of interrupts of a server's cores.
const MOST_INTERRUPTS: usize = 4_096;

/// The server's side of a run.
#[derive(Debug)]
pub enum Server {
    /// A local worker.
    Worker {
        /// The worker process.
        side: Box<WorkerSide>,
        /// The address and ports on which it listens.
        listen: Listen,
        /// It has not reported on an earlier row.
        late: bool,
    },
    /// A session with `hairpin serve` on another host.
    Remote {
        channel: Box<Channel>,
        /// The session's address as seen from this host.
        at: SocketAddr,
        /// The session is a probe's: only its rows stand still while another session measures.
        probes: bool,
        /// The server can have its packets stamped; known once it has told its facts.
        stamps: bool,
    },
    /// A plain echo service or a reflector, which reports nothing.
    Silent(Address),
}

/// A server's report during a row.
#[derive(Debug)]
pub enum ServerEvent {
    /// No report.
    Nothing,
    /// The server's side ended by itself.
    Ended(Box<ServerReport>),
    /// Another session measures, for about this time if it is known: the row stands still.
    Pause(Option<Nanos>),
    /// The row goes on.
    Resume,
    /// The server is gone or has failed; the reason.
    Gone(String),
}

impl Server {
    /// The facts of the server's host, if it can report them.
    pub fn facts(&mut self, interface: &str, job: &Job) -> Result<Option<HostFacts>, RunError> {
        let answer = match self {
            Server::Silent(_) => return Ok(None),
            Server::Worker { side, .. } => {
                return Ok(Some(side.facts(Some(interface), job.cpus.server, job.threads, true)?.0));
            }
            Server::Remote { channel, .. } => {
                channel.send(&Request::Facts { threads: job.threads }).map_err(SideError::ToServer)?;
                hear(channel, ANSWER_WITHIN)?
            }
        };
        match answer {
            Answer::Facts { facts, stamps: offered, .. } => {
                if let Server::Remote { stamps, .. } = self {
                    *stamps = offered;
                }
                Ok(Some(facts))
            }
            Answer::Pause(left) if self.probes() => Err(SideError::Later(left).into()),
            Answer::Failed(failure) => Err(SideError::Failed(failure).into()),
            other => Err(SideError::OutOfTurn(shown(&other)).into()),
        }
    }

    /// Makes the server listen for a row; returns its address.
    ///
    /// # Errors
    /// [`RunError::Interrupted`] if a signal came first.
    pub fn plan(&mut self, job: &Job, signals: &Signals) -> Result<Address, RunError> {
        self.await_late_report()?;
        match self {
            Server::Silent(address) => return Ok(address.clone()),
            Server::Worker { side, listen, .. } => {
                side.clear_stop();
                side.send(&Order::Plan { job: Box::new(job.clone()), listen: *listen, most_per_s: None })?;
            }
            Server::Remote { channel, .. } => {
                channel.send(&Request::Plan(Box::new(job.clone()))).map_err(SideError::ToServer)?;
            }
        }
        let mut answer = self.answer_to_plan(signals)?;
        if let (Answer::Server(_), Server::Remote { .. }) = (&answer, &*self) {
            // The report of the row before, which nobody waits for any more.
            answer = self.answer_to_plan(signals)?;
        }
        match (answer, self) {
            // A server behind a network address translator knows its port, but not the address under which others see it, nor
            // this host's interfaces.
            (Answer::Ready(Some(Address::Inet(announced))), Server::Remote { at, .. }) => {
                let mut at = *at;
                at.set_port(announced.port());
                Ok(Address::Inet(at))
            }
            (Answer::Ready(Some(address)), Server::Worker { .. }) => Ok(address),
            (Answer::Pause(left), Server::Remote { probes: true, .. }) => Err(SideError::Later(left).into()),
            (Answer::Failed(failure), _) => Err(SideError::Failed(failure).into()),
            (other, _) => Err(SideError::OutOfTurn(shown(&other)).into()),
        }
    }

    /// Waits for the end of a row that a local server has not reported on: the flag that ends it is that of the next row too.
    fn await_late_report(&mut self) -> Result<(), SideError> {
        if !matches!(self, Server::Worker { late: true, .. }) {
            return Ok(());
        }
        let report = self.report(REPORTS_WITHIN, &mut || false);
        match (report, self) {
            (Err(why), Server::Worker { late: true, .. }) => Err(SideError::Failed(Failure {
                message: format!(
                    "the server is still in an earlier row: {why}; if its core is busy, choose another with --cpu CLIENT,SERVER"
                ),
                missing: false,
            })),
            _ => Ok(()),
        }
    }

    /// The answer to a plan, which may take the server [`LISTENS_WITHIN`].
    fn answer_to_plan(&mut self, signals: &Signals) -> Result<Answer, RunError> {
        let deadline = Instant::now() + LISTENS_WITHIN;
        loop {
            if let Some(answer) = self.next_answer()? {
                return Ok(answer);
            }
            if matches!(signals.next(), Ok(Some(_))) {
                return Err(RunError::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let silent = RecvError::Timeout(LISTENS_WITHIN);
                let error = if self.is_here() { SideError::Receive(silent) } else { SideError::Server(silent) };
                return Err(error.into());
            }
            let fds: Vec<_> = self.watched().into_iter().chain([signals.as_fd()]).collect();
            wait(&fds, Some(left)).map_err(SideError::Prepare)?;
        }
    }

    /// Tells the server that measuring begins. A broken session shows at the next look.
    pub fn go(&mut self) {
        if let Server::Remote { channel, .. } = self {
            let _ = channel.send(&Request::Go);
        }
    }

    /// True if another session's measuring makes it wait.
    fn probes(&self) -> bool {
        matches!(self, Server::Remote { probes: true, .. })
    }

    /// True if the packets of its side can be stamped where they leave and enter its host.
    pub fn stamps(&self) -> bool {
        match self {
            Server::Worker { .. } => true,
            Server::Remote { stamps, .. } => *stamps,
            Server::Silent(_) => false,
        }
    }

    /// Makes a remote server work differently in the blocks to come; a local worker is told by the verb itself.
    pub fn turn(&mut self, turn: Turn) -> Result<(), SideError> {
        let Server::Remote { channel, .. } = self else { return Ok(()) };
        let request = match turn {
            Turn::Hooks(hooks) if hooks.is_empty() || hooks.len() == HOOKS.len() => Request::Hooks(!hooks.is_empty()),
            Turn::Hooks(hooks) => Request::Only(hooks.iter().map(|hook| hook.name.into()).collect()),
            Turn::Stamps(every) => Request::Stamps(every),
        };
        channel.send(&request).map_err(SideError::ToServer)?;
        // The change is made before the next request of the row is sent.
        match hear(channel, ANSWER_WITHIN)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// The report of a remote server's host on the block that is over. Nothing for a local worker: the verb itself sees all of
    /// it.
    pub fn told(&mut self, wants: Wants) -> Result<Told, SideError> {
        let Server::Remote { channel, .. } = self else { return Ok(Told::Nothing) };
        let request = match wants {
            Wants::Nothing => return Ok(Told::Nothing),
            Wants::Halves => Request::Halves,
            Wants::Nics => Request::Nics,
        };
        channel.send(&request).map_err(SideError::ToServer)?;
        match (hear(channel, ANSWER_WITHIN)?, wants) {
            (Answer::Halves(halves), Wants::Halves) => Ok(Told::Halves(read_halves(halves))),
            (Answer::Nics(report), Wants::Nics) => Ok(Told::Nics(report)),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Times of the block that is over, by the time of day of a remote server's host. For a local worker there are none: the verb
    /// has its stamps itself.
    pub fn times(&mut self) -> Result<Times, SideError> {
        let Server::Remote { channel, .. } = self else { return Ok(Times::default()) };
        channel.send(&Request::Times).map_err(SideError::ToServer)?;
        match hear(channel, ANSWER_WITHIN)? {
            Answer::Times(times) => Ok(times.checked()),
            other => Err(unexpected(other)),
        }
    }

    /// The source of the time of day of a remote server's host; `None` for a local worker, which has this host's.
    pub fn clock(&mut self) -> Result<Option<time_source::Told>, SideError> {
        let Server::Remote { channel, .. } = self else { return Ok(None) };
        channel.send(&Request::Clock).map_err(SideError::ToServer)?;
        match hear(channel, ANSWER_WITHIN)? {
            Answer::Clock(told) => {
                told.checked().map(Some).map_err(|message| SideError::Failed(Failure { message, missing: false }))
            }
            other => Err(unexpected(other)),
        }
    }

    /// The address of a remote server, as seen from this host.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Server::Remote { at, .. } => Some(*at),
            Server::Worker { .. } | Server::Silent(_) => None,
        }
    }

    /// Sends a sign of life to keep the session alive.
    pub fn beat(&mut self) {
        if let Server::Remote { channel, .. } = self {
            let _ = channel.send(&Request::Beat);
        }
    }

    /// Tells a remote server that the row stands still.
    pub fn paused(&mut self) {
        if let Server::Remote { channel, .. } = self {
            let _ = channel.send(&Request::Paused);
        }
    }

    /// The descriptor to poll.
    pub fn watched(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Server::Worker { side, .. } => Some(side.as_fd()),
            Server::Remote { channel, .. } => Some(channel.as_fd()),
            Server::Silent(_) => None,
        }
    }

    /// The server's next answer, without waiting.
    fn next_answer(&mut self) -> Result<Option<Answer>, SideError> {
        match self {
            Server::Worker { side, .. } => side.try_answer(),
            Server::Remote { channel, .. } => channel.try_recv().map(|said| said.map(harmless)).map_err(SideError::Server),
            Server::Silent(_) => Ok(None),
        }
    }

    /// The server's next report, without waiting.
    pub fn look(&mut self) -> ServerEvent {
        match self.next_answer() {
            Ok(None) => ServerEvent::Nothing,
            Ok(Some(Answer::Server(report))) => ServerEvent::Ended(report),
            // In any other session it would have the row wait for ever.
            Ok(Some(Answer::Pause(left))) if self.probes() => ServerEvent::Pause(left),
            Ok(Some(Answer::Resume)) => ServerEvent::Resume,
            Ok(Some(Answer::Failed(failure))) => ServerEvent::Gone(failure.message),
            Ok(Some(other)) => ServerEvent::Gone(format!("it answered {} out of turn", shown(&other))),
            Err(error) => ServerEvent::Gone(error.to_string()),
        }
    }

    /// Ends the row and returns the server's report, or why it is missing; `None` under `--echo` and `--reflector`. After a row
    /// that `failed`, the connection to a remote server may be gone too, so the wait is short; it also ends once `gives_up`.
    pub fn finish(&mut self, failed: bool, gives_up: &mut dyn FnMut() -> bool) -> Option<Result<ServerReport, String>> {
        let within = if failed { FAILED_WITHIN } else { REPORTS_WITHIN };
        let told = match self {
            Server::Silent(_) => return None,
            Server::Worker { side, .. } => {
                side.stop();
                Ok(())
            }
            Server::Remote { channel, .. } => channel.send(&Request::Done).map_err(|error| error.to_string()),
        };
        Some(told.and_then(|()| self.report(within, gives_up)))
    }

    fn report(&mut self, within: Duration, gives_up: &mut dyn FnMut() -> bool) -> Result<ServerReport, String> {
        let deadline = Instant::now() + within;
        self.set_late(false);
        while Instant::now() < deadline {
            match self.look() {
                ServerEvent::Ended(report) => return Ok(*report),
                ServerEvent::Gone(why) => return Err(why),
                // The row is over.
                ServerEvent::Pause(_) | ServerEvent::Resume => {}
                ServerEvent::Nothing if gives_up() => {
                    self.set_late(true);
                    return Err("it had not reported when the run was ended".into());
                }
                ServerEvent::Nothing => {
                    std::thread::sleep(NUDGE_EVERY / 10);
                    if let Server::Worker { side, .. } = self {
                        side.nudge();
                    }
                }
            }
        }
        self.set_late(true);
        Err(format!("it did not report within {within:?}"))
    }

    fn set_late(&mut self, is_late: bool) {
        if let Server::Worker { late, .. } = self {
            *late = is_late;
        }
    }

    /// True if requests go out over IPv6.
    pub fn is_ipv6(&self) -> bool {
        match self {
            Server::Worker { listen, .. } => listen.address.is_ipv6(),
            Server::Remote { at, .. } => at.is_ipv6(),
            Server::Silent(Address::Inet(address)) => address.is_ipv6(),
            Server::Silent(_) => false,
        }
    }

    /// The pid of a local worker.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Server::Worker { side, .. } => Some(side.pid()),
            Server::Remote { .. } | Server::Silent(_) => None,
        }
    }

    /// True if the server runs on this host.
    pub fn is_here(&self) -> bool {
        matches!(self, Server::Worker { .. })
    }
}

/// The next answer of a remote server.
fn hear(channel: &mut Channel, within: Duration) -> Result<Answer, SideError> {
    channel.recv(within).map(harmless).map_err(SideError::Server)
}

/// An answer of a remote server, which may be hostile: its texts go to terminals and into records.
fn harmless(mut answer: Answer) -> Answer {
    let clean = |text: &mut String| *text = printable(text, LONGEST);
    match &mut answer {
        Answer::Failed(failure) => clean(&mut failure.message),
        Answer::Server(report) => {
            report.error.iter_mut().for_each(clean);
            report.warnings.truncate(MOST_WARNINGS);
            report.warnings.iter_mut().flat_map(|note| [&mut note.code, &mut note.message]).for_each(clean);
            report.granted.truncate(MOST_GRANTED);
            let words = report.granted.iter_mut().flat_map(|one| [&mut one.option, &mut one.asked, &mut one.got, &mut one.why]);
            words.for_each(clean);
            report.cpu.cpus.truncate(MOST_THREADS as usize);
            if report.cpu.interrupts.len() > MOST_INTERRUPTS {
                report.cpu.interrupts.clear();
            }
            report.flow_facts.truncate(MOST_FLOW_FACTS);
        }
        _ => {}
    }
    answer
}

/// The error for an unexpected answer between two blocks.
fn unexpected(answer: Answer) -> SideError {
    match answer {
        Answer::Failed(failure) => SideError::Failed(failure),
        // The server's report was on its way already.
        Answer::Server(report) => {
            let why = report.error.unwrap_or_else(|| "it stopped".into());
            SideError::Failed(Failure { message: format!("the server's side ended in mid-run: {why}"), missing: false })
        }
        other => SideError::OutOfTurn(shown(&other)),
    }
}

/// An answer out of turn.
fn shown(answer: &Answer) -> String {
    printable(&format!("{answer:?}"), LONGEST)
}

/// The report without its error, which becomes a warning if the client failed too.
pub fn without_error(mut report: ServerReport, client_failed: bool) -> ServerReport {
    // The server of a stream sees the client close; every good run ends like that.
    if let Some(why) = report.error.take().filter(|_| client_failed) {
        report.warnings.push(Note { code: "server-ended".into(), message: format!("the server's side ended by itself: {why}") });
    }
    report
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A server on another host, and the channel by which the test answers in its place.
    fn remote(probes: bool) -> (Server, Channel) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let at = ([127, 0, 0, 1], 7).into();
        (Server::Remote { channel: Box::new(Channel::plain(ours)), at, probes, stamps: false }, Channel::plain(theirs))
    }

    #[test]
    fn a_server_that_ended_between_two_blocks_says_why() {
        let (mut server, mut peer) = remote(false);
        let report = ServerReport { error: Some("the client is silent".into()), ..ServerReport::default() };
        peer.send(&Answer::Server(Box::new(report))).unwrap();
        let error = server.told(Wants::Halves).unwrap_err();
        assert_eq!(error.to_string(), "the server's side ended in mid-run: the client is silent");
    }

    #[test]
    fn a_report_that_comes_late_is_no_answer_to_the_next_plan() {
        let (mut server, mut peer) = remote(false);
        let (job, signals) = (Job::new("udp".parse().unwrap()), Signals::block(&[]).unwrap());
        let late = || Answer::Server(Box::default());
        let ready = Answer::Ready(Some(Address::Inet(([10, 0, 0, 1], 9).into())));
        for answer in [late(), ready, late(), late()] {
            peer.send(&answer).unwrap();
        }
        assert_eq!(server.plan(&job, &signals).unwrap(), Address::Inet(([127, 0, 0, 1], 9).into()));
        let endless = server.plan(&job, &signals).unwrap_err();
        assert!(matches!(endless, RunError::Side(SideError::OutOfTurn(_))), "{endless}");
    }

    #[test]
    fn only_a_probe_is_told_to_wait() {
        for probes in [true, false] {
            let (mut server, mut peer) = remote(probes);
            (0..3).for_each(|_| peer.send(&Answer::Pause(None)).unwrap());
            let (job, signals) = (Job::new("udp".parse().unwrap()), Signals::block(&[]).unwrap());
            let waits = |error: RunError| matches!(error, RunError::Side(SideError::Later(None)));
            assert_eq!(waits(server.facts("", &job).unwrap_err()), probes);
            assert_eq!(waits(server.plan(&job, &signals).unwrap_err()), probes);
            assert_eq!(matches!(server.look(), ServerEvent::Pause(None)), probes);
        }
    }

    #[test]
    fn texts_of_a_hostile_server_are_printable_and_short() {
        let (mut server, mut peer) = remote(false);
        let (job, signals) = (Job::new("udp".parse().unwrap()), Signals::block(&[]).unwrap());
        let hostile = || "\u{1b}]52;c;aGE=\u{7}\u{9b}2J".repeat(100);
        let failed = || Answer::Failed(Failure { message: hostile(), missing: false });
        let mut warnings = vec![Note { code: "x".into(), message: "…".into() }; MOST_WARNINGS + 3];
        warnings[0].message = hostile();
        let report = Answer::Server(Box::new(ServerReport { error: Some(hostile()), warnings, ..ServerReport::default() }));
        let foreign = Answer::Ready(Some(Address::Socket(hostile().into())));
        let early = Answer::Entered { sysfs: Some(hostile()) };
        for answer in [failed(), failed(), foreign, failed(), failed(), failed(), early, failed(), report] {
            peer.send(&answer).unwrap();
        }
        let mut said = vec![
            server.facts("", &job).unwrap_err().to_string(),
            server.plan(&job, &signals).unwrap_err().to_string(),
            server.plan(&job, &signals).unwrap_err().to_string(),
            server.told(Wants::Halves).unwrap_err().to_string(),
            server.times().unwrap_err().to_string(),
            server.clock().unwrap_err().to_string(),
            server.turn(Turn::Hooks(Vec::new())).unwrap_err().to_string(),
        ];
        let ServerEvent::Gone(why) = server.look() else { panic!("it has failed") };
        let ServerEvent::Ended(report) = server.look() else { panic!("it has reported") };
        said.push(why);
        said.extend(report.error);
        said.extend(report.warnings.into_iter().map(|note| note.message));
        assert_eq!(said.len(), 9 + MOST_WARNINGS);
        for text in said {
            assert!(text.contains('…') && !text.chars().any(char::is_control), "{text:?}");
        }
    }
}
