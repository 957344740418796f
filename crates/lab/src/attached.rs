//! Watches a running application for a while: the stages of its transactions, and why some are slow.
//!
//! ```text
//!   /proc/PID ─▶ ports ─▶ trace::attached ─ drained every 50 ms ─▶ totals ─▶ record
//!                          until the duration, Ctrl-C, or the end of the process
//!   once a second ─▶ moves off the server's CPUs, and passes on the record so far if it is drawn
//! ```
//! Runs in the verb's process: nothing is measured here, records are only taken out of the kernel.

mod seat;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hairpin_record::attached::{Attached as Seen, AttachedBody, Total, Unmatched, Watched};
use hairpin_record::head::Record;
use hairpin_record::run::HostFacts;
use hairpin_record::warning::Note;
use hairpin_sys::clock::monotonic_ns;
use hairpin_sys::host::RealHost;
use hairpin_sys::signal::Signals;
use hairpin_trace::attached::process::{has_numbers_of_hooks, is_served, sockets};
use hairpin_trace::attached::totals::Totals;
use hairpin_trace::attached::{AttachError, Attached, Counts, WatchTarget};
use hairpin_tune::{Place, facts};
use hairpin_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, nice, pidfd_open};

use self::seat::Seat;
use hairpin_session::error::Blame;
use hairpin_session::rows;
use hairpin_session::side::wait;

/// The ring has room for 31,744 transactions, which at this interval is 630,000 a second.
const DRAIN_EVERY: Duration = Duration::from_millis(50);
/// Interval at which the observer is moved, and drawn.
const SECOND: Duration = Duration::from_secs(1);
/// A greater share of lost records is reported at the head of the report.
const LOST: f64 = 0.001;
/// A greater share of unmatched records deserves a note.
const UNMATCHED: f64 = 0.1;
/// Connections with fewer transactions each are opened for one or two requests; noted from [`MANY`] connections on.
const SHORT: f64 = 3.0;
const MANY: u64 = 20;

/// The application to watch, and the duration.
#[derive(Clone, Debug)]
pub struct AttachPlan {
    pub target: Target,
    /// The longest duration; `None` for no limit.
    pub duration: Option<Nanos>,
    /// True for an event every second.
    pub live: bool,
    /// True for the whole record so far once a second; less work than `live`.
    pub drawn: bool,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// The application to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The server on this port, TCP or UDP.
    Port(u16),
    /// This process and its descendants.
    Process(i32),
}

/// Events during an attached run.
#[derive(Debug)]
pub enum News<'a> {
    /// The hooks are attached.
    Begun(&'a Watched),
    /// The record until now, once a second, if the plan is drawn and not live.
    SoFar(&'a AttachedBody),
    /// A second is over, if the plan is live.
    Second {
        /// The record so far.
        so_far: &'a AttachedBody,
        /// Totals of the last second.
        last: Vec<Total>,
        /// The length of that second.
        last_ns: u64,
    },
}

/// Why nothing was watched.
#[derive(Debug, thiserror::Error)]
pub enum AttachedError {
    /// The process does not exist.
    #[error("there is no process {0}: pgrep NAME finds one")]
    NoProcess(i32),
    /// The process is another user's.
    #[error(
        "the sockets of process {0} are hidden from this user (/proc/{0}/fd): run as root, in a container with CAP_SYS_PTRACE as well, or watch its :PORT"
    )]
    Hidden(i32),
    /// The kernel cannot tell when a process ends, and lacks the tracepoints as well.
    #[error("watching an application needs Linux 5.12 or later with BTF (this kernel has no pidfd_open either)")]
    Kernel,
    /// The BPF programs could not be attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Waiting failed.
    #[error("cannot wait: {0}")]
    Wait(#[from] std::io::Error),
}

impl AttachedError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            AttachedError::NoProcess(_) => Blame::Usage,
            AttachedError::Kernel | AttachedError::Hidden(_) => Blame::Missing,
            AttachedError::Attach(error) if error.missing() => Blame::Missing,
            _ => Blame::Failed,
        }
    }
}

/// Why the watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    Duration,
    User,
    Process,
}

/// Watches until the duration, the user or the end of the process ends it, and tells of it in `news`.
///
/// # Errors
/// The hooks or the wait failed before the watching began.
pub fn run(plan: &AttachPlan, signals: &Signals, news: &mut dyn FnMut(News<'_>)) -> Result<Seen, AttachedError> {
    run_until(plan, Until::Signals(signals), news)
}

/// An end of the watching other than its duration and the end of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until<'a> {
    /// The user.
    Signals(&'a Signals),
    /// The end of other work.
    Over(&'a AtomicBool),
}

impl Until<'_> {
    /// The reason, once the end has come.
    fn reached(self) -> std::io::Result<Option<EndReason>> {
        Ok(match self {
            Until::Signals(signals) => signals.next()?.map(|_| EndReason::User),
            Until::Over(over) => over.load(Ordering::Acquire).then_some(EndReason::Duration),
        })
    }

    /// Sleeps until the end comes, at most for `most`.
    fn wait(self, most: Duration) -> std::io::Result<()> {
        match self {
            Until::Signals(signals) => wait(&[signals.as_fd()], Some(most)).map(|_| ()),
            Until::Over(_) => {
                std::thread::sleep(most);
                Ok(())
            }
        }
    }
}

/// As [`run`], with `until` in place of signals.
pub(crate) fn run_until(plan: &AttachPlan, until: Until<'_>, news: &mut dyn FnMut(News<'_>)) -> Result<Seen, AttachedError> {
    let host = facts(&RealHost, &Place::default());
    let Resolved { watch, watched, process, unix } = resolve(plan.target)?;
    let attached = Attached::attach(&watch)?;
    // The application has precedence: draining records can wait a little, and must not make a transaction slow.
    let _ = nice(5);
    let head = rows::begin::<AttachedBody>(&plan.command);
    let mut totals = attached.totals();
    let mut record = Record { head, body: empty(host, watched) };
    record.missing = attached.missing().to_vec();
    news(News::Begun(&record.watched));
    let end = follow(plan, until, process.as_ref(), &attached, &mut totals, &mut record, news);
    record.duration_ns = monotonic_ns() - attached.since();
    let counts = attached.finish(&mut totals);
    let end = end?;
    record.head.interrupted = end == EndReason::User;
    (record.open, record.lost, record.untracked) = (counts.open, counts.lost, counts.untracked);
    totals.write(counts.unanswered, &mut record);
    record.head.error = ended(plan.target, end, &record, unix);
    record.warnings = warnings(&record, counts);
    Ok(record)
}

/// The resolved target.
#[derive(Debug)]
struct Resolved {
    watch: WatchTarget,
    /// The target's description for the record.
    watched: Watched,
    /// Readable when the process has ended.
    process: Option<OwnedFd>,
    /// Number of UNIX sockets of the process.
    unix: usize,
}

fn resolve(target: Target) -> Result<Resolved, AttachedError> {
    match target {
        Target::Port(port) => {
            let watched = Watched { port: Some(port), ..Watched::default() };
            Ok(Resolved { watch: WatchTarget::Port(port), watched, process: None, unix: 0 })
        }
        Target::Process(pid) => {
            // Told first: the remedy of another error would only lead to this one.
            let has_numbers = has_numbers_of_hooks(&RealHost);
            let missing = || if has_numbers { AttachedError::NoProcess(pid) } else { AttachError::Namespace.into() };
            let handle = Pid::from_raw(pid).ok_or_else(missing)?;
            // Opened first, so that a reused pid cannot go unnoticed.
            let handle = pidfd_open(handle, PidfdFlags::empty()).map_err(|error| match error {
                Errno::NOSYS => AttachedError::Kernel,
                _ => missing(),
            })?;
            let found = sockets(&RealHost, pid).ok_or_else(missing)?;
            if !has_numbers {
                return Err(AttachError::Namespace.into());
            }
            // Without its ports a server would be taken for a client.
            if found.hidden {
                return Err(AttachedError::Hidden(pid));
            }
            let watched = Watched {
                pid: Some(pid),
                comm: Some(found.comm),
                serves: found.servers.iter().copied().collect(),
                ..Watched::default()
            };
            let watch = WatchTarget::Process { pid, servers: found.servers, clients: found.clients };
            Ok(Resolved { watch, watched, process: Some(handle), unix: found.unix })
        }
    }
}

fn follow(
    plan: &AttachPlan,
    ended: Until<'_>,
    process: Option<&OwnedFd>,
    attached: &Attached,
    totals: &mut Totals,
    record: &mut Seen,
    news: &mut dyn FnMut(News<'_>),
) -> Result<EndReason, std::io::Error> {
    let until = plan.duration.and_then(|duration| Instant::now().checked_add(Duration::from(duration)));
    let mut seat = Seat::new();
    if plan.live {
        // From here on the last second is counted apart.
        totals.recent();
    }
    let mut second = Instant::now();
    loop {
        attached.drain(totals);
        if let Some(reason) = ended.reached()? {
            return Ok(reason);
        }
        if process.is_some_and(readable) {
            return Ok(EndReason::Process);
        }
        // This process is moved at the first chance, and then once a second.
        if totals.transactions() > 0 && (!seat.is_taken() || second.elapsed() >= SECOND) {
            seat.move_off(&RealHost, &totals.threads());
        }
        let elapsed = second.elapsed();
        if elapsed >= SECOND {
            if plan.live || plan.drawn {
                record.duration_ns = monotonic_ns() - attached.since();
                record.lost = attached.lost();
                totals.write(0, record);
            }
            if plan.live {
                news(News::Second { so_far: record, last: totals.recent(), last_ns: elapsed.as_nanos() as u64 });
            } else if plan.drawn {
                news(News::SoFar(record));
            }
            second += elapsed;
        }
        let left = until.map_or(DRAIN_EVERY, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(EndReason::Duration);
        }
        ended.wait(left.min(DRAIN_EVERY))?;
    }
}

/// True if the process has ended, which makes its pidfd readable.
fn readable(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

fn empty(host: HostFacts, watched: Watched) -> AttachedBody {
    AttachedBody {
        host,
        watched,
        duration_ns: 0,
        missing: Vec::new(),
        transactions: 0,
        unmatched: 0,
        unmatched_by: Unmatched::default(),
        open: 0,
        lost: 0,
        untracked: 0,
        totals: Vec::new(),
        connections: Vec::new(),
        other_connections: 0,
        slowest: Vec::new(),
        causes: Vec::new(),
        slow: 0,
        slow_observer: 0,
        slow_above: None,
        findings: Vec::new(),
        client: None,
        warnings: Vec::new(),
    }
}

/// The reason why less was seen than asked for, if any.
fn ended(target: Target, end: EndReason, record: &AttachedBody, unix: usize) -> Option<String> {
    let took = Nanos(record.duration_ns);
    let who = match target {
        Target::Port(port) => format!("port {port}"),
        Target::Process(pid) => format!("process {pid}"),
    };
    if end == EndReason::Process {
        return Some(format!("{who} ended after {took}"));
    }
    if record.transactions > 0 {
        return None;
    }
    let seen = record.unmatched + record.open;
    if seen > 0 {
        return Some(format!("{seen} messages of {who} were seen within {took}, and none was a request with its reply"));
    }
    let served = match target {
        Target::Port(port) if !is_served(&RealHost, port) => {
            ": no server listens there in this network namespace (ss -lntup shows who serves where)".into()
        }
        Target::Port(_) => String::new(),
        Target::Process(_) if unix > 0 => format!(": only TCP and UDP sockets can be watched, not its {unix} Unix sockets"),
        Target::Process(_) => ": it has received nothing on a TCP or UDP socket, and other sockets are not seen".into(),
    };
    Some(format!("no message of {who} was seen within {took}{served}"))
}

fn warnings(record: &AttachedBody, counts: Counts) -> Vec<Note> {
    let note = |code: &str, message: String| Note { code: code.into(), message };
    let mut notes = Vec::new();
    let share = |part: u64, of: u64| part as f64 / (part + of).max(1) as f64;
    if share(counts.lost, record.transactions) > LOST {
        notes.push(note(
            "lost-events",
            format!(
                "{} transactions found no room on their way out of the kernel, beside {} that did: the figures leave them out; end what keeps hairpin from its CPU",
                counts.lost, record.transactions
            ),
        ));
    }
    if counts.untracked > 0 {
        // A process alone has fewer connections than a port.
        let remedy = match record.watched.port {
            Some(_) => "; watch a process, `hairpin explain PID`, instead of a port",
            None => "",
        };
        notes.push(note(
            "untracked-connections",
            format!("{} times a connection found no place among 4096 and was not watched{remedy}", counts.untracked),
        ));
    }
    if share(record.unmatched, record.transactions) > UNMATCHED {
        let overlapped = match record.unmatched_by.pipelined {
            0 => String::new(),
            count => format!(
                "; {count} of them were sent before the answer to the one before: a client that pipelines, datagrams that overlap, or TLS, where the first \
                 request follows the client's last word of the handshake at once: then the table is of handshakes and of what came later on a connection"
            ),
        };
        notes.push(note(
            "unmatched",
            format!(
                "{} messages could not be matched, beside {} transactions: pipelined requests, messages that answer none, or datagrams that several threads read from one socket{overlapped}",
                record.unmatched, record.transactions
            ),
        ));
    }
    let connections = record.connections.len() as u64 + record.other_connections;
    if connections >= MANY && (record.transactions as f64) < SHORT * connections as f64 {
        notes.push(note(
            "short-connections",
            format!(
                "{} transactions on {connections} connections: what a client spends on connecting and closing is outside of the sum, which begins with the request",
                record.transactions
            ),
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> AttachedBody {
        AttachedBody { duration_ns: 1_000_000_000, ..empty(HostFacts::default(), Watched::default()) }
    }

    #[test]
    fn a_run_that_saw_nothing_says_so() {
        let none = record();
        // Nobody serves on port 1 (tcpmux) any more.
        let text = ended(Target::Port(1), EndReason::Duration, &none, 0).unwrap();
        assert_eq!(
            text,
            "no message of port 1 was seen within 1.000 s: no server listens there in this network namespace (ss -lntup shows who serves where)"
        );
        let text = ended(Target::Process(7), EndReason::User, &none, 2).unwrap();
        let unix = "only TCP and UDP sockets can be watched, not its 2 Unix sockets";
        assert_eq!(text, format!("no message of process 7 was seen within 1.000 s: {unix}"));
        let text = ended(Target::Process(7), EndReason::User, &AttachedBody { unmatched: 3, ..none.clone() }, 0).unwrap();
        assert_eq!(text, "3 messages of process 7 were seen within 1.000 s, and none was a request with its reply");
        let some = AttachedBody { transactions: 1, ..none };
        assert_eq!(ended(Target::Process(7), EndReason::Duration, &some, 0), None);
        assert_eq!(ended(Target::Process(7), EndReason::Process, &some, 0).unwrap(), "process 7 ended after 1.000 s");
    }

    #[test]
    fn losses_and_mismatches_are_worth_a_warning() {
        let codes = |record: &AttachedBody, counts: Counts| -> Vec<String> {
            warnings(record, counts).into_iter().map(|note| note.code).collect()
        };
        let many = AttachedBody { transactions: 10_000, unmatched: 100, ..record() };
        assert_eq!(codes(&many, Counts { lost: 5, ..Counts::default() }), Vec::<String>::new());
        let counts = Counts { lost: 20, untracked: 1, ..Counts::default() };
        assert_eq!(
            codes(&AttachedBody { unmatched: 2000, ..many.clone() }, counts),
            ["lost-events", "untracked-connections", "unmatched"]
        );
        let short = AttachedBody { transactions: 1_000, other_connections: 990, ..record() };
        assert_eq!(codes(&short, Counts::default()), ["short-connections"]);
        assert!(codes(&AttachedBody { other_connections: 990, ..many }, Counts::default()).is_empty());
        let overlapped = Unmatched { pipelined: 900, ..Unmatched::default() };
        let tls = AttachedBody { transactions: 1_000, unmatched: 900, unmatched_by: overlapped, ..record() };
        let notes = warnings(&tls, Counts::default());
        assert!(notes[0].message.contains("900 of them were sent before the answer to the one before"), "{}", notes[0].message);
    }

    #[test]
    fn only_who_watches_a_port_is_told_to_watch_a_process() {
        let told = |port| {
            let watched = Watched { port, ..Watched::default() };
            let counts = Counts { untracked: 1, ..Counts::default() };
            warnings(&AttachedBody { watched, ..record() }, counts)[0].message.contains("hairpin explain PID")
        };
        assert!(told(Some(80)) && !told(None));
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        // Greater than the kernel's largest pid (PID_MAX_LIMIT).
        let error = resolve(Target::Process(i32::MAX)).unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.blame()),
            ("there is no process 2147483647: pgrep NAME finds one", Blame::Usage)
        );
        assert!(resolve(Target::Process(0)).is_err());
    }
}
