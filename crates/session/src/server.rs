//! The server's side as the verb sees it: its own worker, a remote `hairpin serve`, or an echo service or reflector that says nothing.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use hairpin_plan::job::{Address, Job, Listen};
use hairpin_record::run::HostFacts;
use hairpin_record::warning::Note;
use hairpin_trace::halves;

use crate::channel::Channel;
use crate::error::RunError;
use crate::message::{Answer, Order, Request, ServerReport};
use crate::side::{SideError, WorkerSide};

/// How long a server may take to listen, or to report after it was told to stop.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// … and how long after a row that failed, which is noticed late enough.
const FAILED_WITHIN: Duration = Duration::from_secs(1);
/// A stopped worker is nudged so often until it reports.
pub const NUDGE_EVERY: Duration = Duration::from_millis(20);

/// Whoever answers the requests.
#[derive(Debug)]
pub enum Server {
    /// A worker of ours.
    Worker {
        /// The process.
        side: Box<WorkerSide>,
        /// Where it listens.
        listen: Listen,
    },
    /// A session with `hairpin serve`.
    Remote {
        /// The session.
        channel: Box<Channel>,
        /// The session's address as seen from here.
        at: SocketAddr,
    },
    /// A plain echo service or a reflector, which says nothing.
    Silent(Address),
}

/// What a server said in mid-run.
#[derive(Debug)]
pub enum Heard {
    /// Nothing of note.
    Nothing,
    /// It ended by itself.
    Ended(Box<ServerReport>),
    /// It is gone, or failed.
    Gone(String),
}

impl Server {
    /// The facts of its host, if it can tell.
    pub fn facts(&mut self, interface: &str, job: &Job) -> Result<Option<HostFacts>, RunError> {
        let answer = match self {
            Server::Silent(_) => return Ok(None),
            Server::Worker { side, .. } => {
                return Ok(Some(side.facts(Some(interface), job.cpus.server, job.threads, true)?.0));
            }
            Server::Remote { channel, .. } => {
                channel.send(&Request::Facts { threads: job.threads }).map_err(SideError::ToServer)?;
                channel.recv(ANSWER_WITHIN).map_err(SideError::Server)?
            }
        };
        match answer {
            Answer::Facts { facts, .. } => Ok(Some(facts)),
            Answer::Failed(failure) => Err(SideError::Failed(failure).into()),
            other => Err(SideError::OutOfTurn(format!("{other:?}")).into()),
        }
    }

    /// Has it listen for a row; returns where.
    pub fn plan(&mut self, job: &Job) -> Result<Address, RunError> {
        let answer = match self {
            Server::Silent(address) => return Ok(address.clone()),
            Server::Worker { side, listen } => {
                side.clear_stop();
                side.send(&Order::Plan { job: Box::new(job.clone()), listen: *listen })?;
                side.answer(ANSWER_WITHIN)?
            }
            Server::Remote { channel, .. } => {
                channel.send(&Request::Plan(Box::new(job.clone()))).map_err(SideError::ToServer)?;
                channel.recv(ANSWER_WITHIN).map_err(SideError::Server)?
            }
        };
        match (answer, self) {
            // A server behind a translator of addresses knows its port, but not the address under which it is seen; nor this host's interfaces.
            (Answer::Ready(Some(Address::Inet(announced))), Server::Remote { at, .. }) => {
                let mut at = *at;
                at.set_port(announced.port());
                Ok(Address::Inet(at))
            }
            (Answer::Ready(Some(address)), _) => Ok(address),
            (Answer::Failed(failure), _) => Err(SideError::Failed(failure).into()),
            (other, _) => Err(SideError::OutOfTurn(format!("{other:?}")).into()),
        }
    }

    /// Measuring begins. A session that broke shows at the next look.
    pub fn go(&mut self) {
        if let Server::Remote { channel, .. } = self {
            let _ = channel.send(&Request::Go);
        }
    }

    /// Has a remote server put its hooks on, or take them off.
    pub fn hooks(&mut self, on: bool) -> Result<(), SideError> {
        match self {
            Server::Remote { channel, .. } => {
                channel.send(&Request::Hooks(on)).map_err(SideError::ToServer)?;
                // They are on before the next request is sent.
                match channel.recv(ANSWER_WITHIN).map_err(SideError::Server)? {
                    Answer::Done => Ok(()),
                    other => Err(SideError::OutOfTurn(format!("{other:?}"))),
                }
            }
            Server::Worker { .. } | Server::Silent(_) => Ok(()),
        }
    }

    /// What a remote server's host saw of the block that is over; of a worker's the verb sees everything itself.
    pub fn halves(&mut self) -> Result<Vec<halves::Half>, SideError> {
        let Server::Remote { channel, .. } = self else { return Ok(Vec::new()) };
        channel.send(&Request::Halves).map_err(SideError::ToServer)?;
        match channel.recv(ANSWER_WITHIN).map_err(SideError::Server)? {
            Answer::Halves(halves) => Ok(halves.into_iter().map(halves::Half::from).collect()),
            Answer::Failed(failure) => Err(SideError::Failed(failure)),
            other => Err(SideError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// Keeps a session alive.
    pub fn beat(&mut self) {
        if let Server::Remote { channel, .. } = self {
            let _ = channel.send(&Request::Beat);
        }
    }

    /// The descriptor to watch.
    pub fn watched(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Server::Worker { side, .. } => Some(side.as_fd()),
            Server::Remote { channel, .. } => Some(channel.as_fd()),
            Server::Silent(_) => None,
        }
    }

    /// What it said, without waiting.
    pub fn look(&mut self) -> Heard {
        let said = match self {
            Server::Worker { side, .. } => side.try_answer(),
            Server::Remote { channel, .. } => channel.try_recv().map_err(SideError::Server),
            Server::Silent(_) => Ok(None),
        };
        match said {
            Ok(None) => Heard::Nothing,
            Ok(Some(Answer::Server(report))) => Heard::Ended(report),
            Ok(Some(Answer::Failed(failure))) => Heard::Gone(failure.message),
            Ok(Some(other)) => Heard::Gone(format!("it answered {other:?} out of turn")),
            Err(error) => Heard::Gone(error.to_string()),
        }
    }

    /// Ends the row and returns what it saw, or why that is unknown; `None` under `--echo` and `--reflector`. After a row that `failed`, the way
    /// to a remote server may be gone too, and is not waited for once more.
    pub fn finish(&mut self, failed: bool) -> Option<Result<ServerReport, String>> {
        let within = if failed { FAILED_WITHIN } else { ANSWER_WITHIN };
        let told = match self {
            Server::Silent(_) => return None,
            Server::Worker { side, .. } => {
                side.stop();
                Ok(())
            }
            Server::Remote { channel, .. } => channel.send(&Request::Done).map_err(|error| error.to_string()),
        };
        Some(told.and_then(|()| self.report(within)))
    }

    fn report(&mut self, within: Duration) -> Result<ServerReport, String> {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            match self.look() {
                Heard::Ended(report) => return Ok(*report),
                Heard::Gone(why) => return Err(why),
                Heard::Nothing => {
                    std::thread::sleep(NUDGE_EVERY / 10);
                    if let Server::Worker { side, .. } = self {
                        side.nudge();
                    }
                }
            }
        }
        Err(format!("it did not report within {within:?}"))
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

    /// The process of a worker of ours.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Server::Worker { side, .. } => Some(side.pid()),
            Server::Remote { .. } | Server::Silent(_) => None,
        }
    }

    /// True if it shares this host with the client.
    pub fn is_here(&self) -> bool {
        matches!(self, Server::Worker { .. })
    }
}

/// A server's report with nothing in it but a warning.
pub fn without_error(mut report: ServerReport, client_failed: bool) -> ServerReport {
    // A stream's server sees the client close; that is how every good run ends.
    if let Some(why) = report.error.take().filter(|_| client_failed) {
        report.warnings.push(Note { code: "server-ended".into(), message: format!("the server's side ended by itself: {why}") });
    }
    report
}
