//! Runs both loops on their threads: `--threads` measuring threads, each on its own CPU with its own flows.
//!
//! ```text
//!   path opens all flows ─▶ chunks, one a thread ─▶ pin, schedule, own file table ─▶ drive / echo
//!                                                                              merged ◀──────────────┘
//! ```

mod allowance;
mod around;
mod threads;
mod told;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use hairpin_plan::job::{Address, Job, Listen};
use hairpin_plan::option::{BUDGET, BUSY_USECS, DEFAULT_BUDGET, DELAY, PREFER};
use hairpin_plan::path::Speaks;
use hairpin_plan::schedule::{Arrivals, OpenLoop};
use hairpin_plan::spec::SideSpec;
use hairpin_record::bounce::Bounced;
use hairpin_record::histogram::Times;
use hairpin_record::recorder::{Recorder, Sample};
use hairpin_record::run::{Granted, OwnRequest, Side, Silence};
use hairpin_sys::clock::{AnyClock, Clock, Ticks};
use hairpin_sys::shared::{Shared, Stamps};
use hairpin_sys::wait::{EpollPolling, PATIENCE, Policy, Waiting};
use hairpin_wire::probe;

use self::allowance::Allowance;
use self::around::AtClient;
pub(crate) use self::around::AtServer;
pub(crate) use self::threads::cpu_beside;
pub use self::threads::cpu_of;
pub use self::threads::first_of;
use self::threads::{Cores, each_chunk, settle_thread};
pub(crate) use self::told::tell;
use self::told::tell_if_untold;
use crate::delay::Delay;
use crate::drive::{BLOCK_TRANSACTIONS, BetweenBlocks, Counts, LoopEnd, LoopResult, TURN_NS, Work, drive};
use crate::echo::{Echoed, echo};
use crate::endpoint::Endpoint;
use crate::error::PathError;
use crate::flows::{Carrier, Flows};
pub use crate::found::{OfReply, Polled, SideFound};
use crate::pace::{Pace, Timetable};
use crate::polling::Polling;
use crate::suspend::Suspension;

/// Transactions of a traced block: few, so that blocks with and without a tracer are close in time and the tracer's output stays
/// in the cache.
pub const TRACED_BLOCK: usize = 4_096;
/// Round trips of every flow in a block: the block begins and ends with none in flight, and that should be a small part of it.
const ROUNDS: usize = 16;
/// Most transactions in such a block, at 32 bytes of memory each.
const MOST_TRANSACTIONS: usize = 4 * BLOCK_TRANSACTIONS;

/// Receives a run's reports, never inside a measured interval.
pub trait Observer: Sync {
    /// The side is ready; a server reports its address.
    fn ready(&self, address: Option<&Address>) -> io::Result<()>;
    /// A thread has folded a block.
    fn progress(&self, thread: u32, recorder: &Recorder, counts: &Counts);
    /// All samples of a block, if the job keeps them.
    fn raw(&self, thread: u32, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()>;
    /// `flows` flows of the row are open so far.
    fn opened(&self, _flows: u32) {}
    /// The first thread's loop has its memory and begins: CPU time and the kernel's counters count from here.
    fn starts(&self) {}
    /// CPU time that the calling thread spent on meeting the other side's core; not part of the path's work.
    fn met(&self, _cpu_ns: u64) {}
    /// CPU time that the calling thread spent on a block of measured transactions.
    fn worked(&self, _cpu_ns: u64, _transactions: u64) {}
    /// A traced run's block is over and its stamps are written; returns when the next block may begin.
    fn block(&self) -> io::Result<()>;
    /// The loop stands still because a pause was requested; returns when it may go on.
    fn paused(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The client's side of a row: its input and its result.
pub struct ClientRun<'a> {
    pub job: &'a Job,
    /// The server's address.
    pub peer: Address,
    pub clock: AnyClock,
    /// Carries the stop flag.
    pub stop: &'a Shared,
    /// Shared with the other side if it is on this host; the two cores meet there.
    pub neighbour: Option<&'a Shared>,
    /// Area for the stamps of each transaction, if a tracer wants them.
    pub stamps: Option<&'a Stamps>,
    /// The CPUs allowed to the process before any thread was pinned.
    pub allowed: &'a [u32],
    /// True if the interface that leads to the server is in a network namespace of this process alone.
    pub own_link: bool,
    pub observer: &'a dyn Observer,
    pub found: ClientFound,
}

/// Result of the client's side.
#[derive(Debug, Default)]
pub struct ClientFound {
    /// Samples of all threads, folded.
    pub recorder: Option<Recorder>,
    /// Events of all threads.
    pub counts: Counts,
    /// Transactions of any kind, warm-up included; TCP's counters are divided by it.
    pub exchanges: u64,
    /// Longest time between blocks of any thread, in ns.
    pub gap_ns: u64,
    /// Stretches without a reply, of all threads.
    pub silences: Vec<Silence>,
    /// True if the run was stopped.
    pub stopped: bool,
    /// The error that ended the run early, if any.
    pub error: Option<String>,
    /// Times of a transaction's parts.
    pub parts: BTreeMap<String, Times>,
    /// Transactions that overlap a stall of either core, and the sum of their RTTs in ns; only on paths that watch for stalls.
    pub stalled: Option<(u64, u64)>,
    /// Time subtracted from an emulated one-way latency in ns, because that latency is from program to program.
    pub own_ns: Option<f64>,
    /// Relative change of the clock's rate over the run in parts per 10^9; `None` if the run was too short to tell.
    pub drift_ppb: Option<f64>,
    /// The replies to a request of the user's own, if any came.
    pub own: Option<OwnRequest>,
    /// Of a group: the first reply to each request, then the replies of each responder.
    pub replies: Vec<OfReply>,
    /// Facts that both sides report.
    pub side: SideFound,
}

/// The server's side of a row: its input and its result.
pub struct ServerRun<'a> {
    pub job: &'a Job,
    pub listen: Listen,
    pub clock: AnyClock,
    /// Carries the stop flag.
    pub stop: &'a Shared,
    /// Shared with the other side if it is on this host; the two cores meet there.
    pub neighbour: Option<&'a Shared>,
    /// Area for the stamps of each transaction, if a tracer wants them.
    pub stamps: Option<&'a Stamps>,
    /// The CPUs allowed to the process before any thread was pinned.
    pub allowed: &'a [u32],
    /// Number of CPUs for this side and the process that ordered the run.
    pub cores: usize,
    /// True if the interface that leads to the client is in a network namespace of this process alone.
    pub own_link: bool,
    /// Most requests per second that the client may send: the rate that it gave. `None`: no limit.
    pub most_per_s: Option<f64>,
    /// NAPI instances that the client's messages came through before the flows had sockets of their own.
    pub heard_on: Vec<u32>,
    pub observer: &'a dyn Observer,
    pub found: ServerFound,
}

/// Result of the server's side.
#[derive(Debug, Default)]
pub struct ServerFound {
    /// Time from the return of the receive call to the entry of the send call.
    pub turnaround: Times,
    /// Requests answered, warm-up included.
    pub answered: u64,
    /// Waits that ended without a request.
    pub waits_in_vain: u64,
    /// The error that ended the run early, if any.
    pub error: Option<String>,
    /// Frames of a group's responder, calculated from its datagrams.
    pub bounced: Option<Bounced>,
    /// Facts that both sides report.
    pub side: SideFound,
}

impl<'a> ClientRun<'a> {
    fn cores(&self) -> Cores<'a> {
        Cores { allowed: self.allowed, of_host: self.allowed.len() }
    }

    /// The cache line by which the first thread measures the distance to the other side's core. `None` if both are one core: the
    /// other side would hold it for milliseconds with the reply to a request already sent.
    fn neighbour(&self) -> Option<&'a Shared> {
        let cpu = |side| cpu_of(self.job, side, 0, self.allowed);
        self.neighbour.filter(|_| cpu(Side::Client) != cpu(Side::Server))
    }

    /// Runs the loop over `flows`, split between the threads, and keeps the results.
    pub(crate) fn over<'fd, F: Carrier<'fd> + Send>(&mut self, flows: &mut [F]) -> Result<(), PathError> {
        let (job, clock) = (self.job, self.clock);
        self.over_each(flows, |flows, wait, work, between| {
            let mut endpoint = Flows::new(flows, wait, work.reply, job.request as usize);
            drive_paced(&mut endpoint, &clock, job, work, between)
        })
    }

    /// Lets `run` run the loop over each thread's part of `flows`, and keeps the results.
    pub(crate) fn over_each<'fd, F: Carrier<'fd> + Send>(
        &mut self,
        flows: &mut [F],
        run: impl Fn(&mut [F], Waiting<'fd>, Work, &mut dyn BetweenBlocks) -> LoopResult + Sync,
    ) -> Result<(), PathError> {
        let (job, clock) = (self.job, self.clock);
        let socket = flows.first().map(Carrier::readable);
        tell(self.stamps, socket, socket);
        let spec = self.timed(&job.spec.client);
        let suspension = Suspension::begin(&mut flows.iter().map(Carrier::readable), &[], &spec, self.own_link)?;
        self.on_threads(flows, |flows, work, between| {
            let wait = waiting(&spec, clock, flows)?;
            Ok(run(flows, wait, work, between))
        })?;
        suspension.iter().for_each(|suspension| suspension.note(&spec, Side::Client, &mut self.found.side));
        Ok(())
    }

    /// The wait policy of an open loop, which must wake when the next request is due: a policy that cannot do that becomes
    /// poll(2), and the record says so.
    fn timed(&mut self, spec: &SideSpec) -> SideSpec {
        let why = match spec.policy {
            _ if self.job.open.is_none() => return spec.clone(),
            Policy::Block | Policy::BusyPoll => {
                "an open loop waits for a reply or for the next due time, and a receive call knows of none"
            }
            Policy::Epoll => "an open loop wakes when the next request is due, and epoll_wait(2) counts its time in whole ms",
            Policy::Poll | Policy::Spin | Policy::Adaptive => return spec.clone(),
        };
        self.found.side.granted.push(Granted {
            side: Side::Client,
            option: "wait".into(),
            asked: spec.policy.name().into(),
            got: Policy::Poll.name().into(),
            why: why.into(),
        });
        SideSpec { policy: Policy::Poll, ..spec.clone() }
    }

    /// Runs the loop over one endpoint created by `run`, for paths that are more than descriptors.
    pub(crate) fn alone(&mut self, run: impl FnOnce(&Job, Work, &mut dyn BetweenBlocks) -> LoopResult) -> Result<(), PathError> {
        tell_if_untold(self.stamps);
        self.side_ready()?;
        let work = work(self.job, 0, 1, self.job.flows, self.stamps);
        let cores = self.cores();
        self.found.side.cpus.push(settle_thread(self.job, Side::Client, 0, cores, &mut self.found.side.granted)?);
        let observer = self.observer;
        let mut between = AtClient {
            stop: self.stop,
            neighbour: self.neighbour(),
            called: 0,
            raw: self.job.raw,
            thread: 0,
            observer,
            stamps: self.stamps,
            rate: self.clock.rate(),
            began: Ticks::default(),
            block_from_ns: 0,
        };
        let found = run(self.job, work, &mut between);
        self.keep(vec![found]);
        Ok(())
    }

    fn side_ready(&mut self) -> Result<(), PathError> {
        self.observer.ready(None).map_err(PathError::at("cannot tell that the client is ready"))
    }

    /// Runs the loop on each thread with its part of `flows`, and keeps the results.
    pub(crate) fn on_threads<F: Send>(
        &mut self,
        flows: &mut [F],
        run: impl Fn(&mut [F], Work, &mut dyn BetweenBlocks) -> Result<LoopResult, PathError> + Sync,
    ) -> Result<(), PathError> {
        self.side_ready()?;
        let job = self.job;
        let (stop, neighbour, stamps, rate) = (self.stop, self.neighbour(), self.stamps, self.clock.rate());
        let observer = self.observer;
        let polling = Polling::begin(&job.spec.client);
        let results = each_chunk(job, Side::Client, self.cores(), flows, &mut self.found.side, stop, |thread, flows| {
            let work = work(job, thread, job.threads, flows.len() as u32, stamps);
            let neighbour = neighbour.filter(|_| thread == 0);
            let mut between = AtClient {
                stop,
                neighbour,
                called: 0,
                raw: job.raw,
                thread,
                observer,
                stamps,
                rate,
                began: Ticks::default(),
                block_from_ns: 0,
            };
            let result = run(flows, work, &mut between)?;
            if matches!(result.end, LoopEnd::Failed(_)) {
                stop.request_stop();
            }
            Ok(result)
        })?;
        self.keep(results);
        // A lost request brought no packet.
        let answered = self.found.exchanges.saturating_sub(self.found.counts.lost);
        self.found.side.polled = polling.and_then(|polling| polling.end(answered));
        Ok(())
    }

    fn keep(&mut self, results: Vec<LoopResult>) {
        for one in results {
            let found = &mut self.found;
            let (mine, theirs) = (&mut found.counts, one.counts);
            mine.sent += theirs.sent;
            mine.lost += theirs.lost;
            mine.late += theirs.late;
            mine.duplicates += theirs.duplicates;
            mine.reordered += theirs.reordered;
            mine.corrupt += theirs.corrupt;
            mine.full += theirs.full;
            mine.longest_stop_ns = mine.longest_stop_ns.max(theirs.longest_stop_ns);
            mine.waits_in_vain += theirs.waits_in_vain;
            mine.stalls += theirs.stalls;
            mine.stalled_ns += theirs.stalled_ns;
            mine.longest_silence_ns = mine.longest_silence_ns.max(theirs.longest_silence_ns);
            found.exchanges += one.exchanges;
            found.gap_ns = found.gap_ns.max(one.gap_ns);
            found.silences.extend(one.silences);
            found.drift_ppb = found.drift_ppb.or(one.drift_ppb);
            match one.end {
                LoopEnd::Done => {}
                LoopEnd::Stopped => found.stopped = true,
                LoopEnd::Failed(error) => {
                    found.error = found.error.take().or_else(|| Some(in_words(self.job, one.exchanges, &error)))
                }
            }
            match &mut found.recorder {
                None => found.recorder = Some(one.recorder),
                Some(recorder) => recorder.merge(one.recorder),
            }
        }
    }
}

impl<'a> ServerRun<'a> {
    fn cores(&self) -> Cores<'a> {
        Cores { allowed: self.allowed, of_host: self.cores }
    }

    /// Answers over `flows`, split between the threads, until told to stop.
    pub(crate) fn over<'fd, F: Carrier<'fd> + Send>(&mut self, flows: &mut [F]) -> Result<(), PathError> {
        let socket = flows.first().map(Carrier::readable);
        tell(self.stamps, socket, socket);
        let (job, clock) = (self.job, self.clock);
        let spec = &job.spec.server;
        let suspension = Suspension::begin(&mut flows.iter().map(Carrier::readable), &self.heard_on, spec, self.own_link)?;
        self.on_threads(flows, |flows, at| {
            let wait = waiting(spec, clock, flows)?;
            let delay = spec.options.number(&DELAY).filter(|ns| *ns > 0).map(|ns| Delay::new(clock, ns.into()));
            let mut endpoint = Flows::new(flows, wait, job.request as usize, job.reply as usize).delayed(delay);
            Ok(echo(&mut endpoint, &clock, job.reply as usize, at))
        })?;
        suspension.iter().for_each(|suspension| suspension.note(spec, Side::Server, &mut self.found.side));
        Ok(())
    }

    /// Answers on each thread over its part of `flows`, until told to stop.
    pub(crate) fn on_threads<F: Send>(
        &mut self,
        flows: &mut [F],
        run: impl Fn(&mut [F], &mut AtServer<'_>) -> Result<Echoed, PathError> + Sync,
    ) -> Result<(), PathError> {
        let (job, stop, neighbour, stamps, observer) = (self.job, self.stop, self.neighbour, self.stamps, self.observer);
        let (most_per_s, clock) = (self.most_per_s, self.clock);
        let [spins, blocks] = [Policy::Spin, Policy::Block].map(|policy| job.spec.server.policy == policy);
        let polling = Polling::begin(&job.spec.server);
        let results = each_chunk(job, Side::Server, self.cores(), flows, &mut self.found.side, stop, |thread, flows| {
            let neighbour = neighbour.filter(|_| thread == 0);
            let allowance = most_per_s.map(|per_s| Allowance::new(per_s, clock.rate(), clock.now()));
            let mut at = AtServer { stop, neighbour, thread, stamps, observer, spins, blocks, seen: 0, allowance };
            let echoed = run(flows, &mut at)?;
            if echoed.error.is_some() {
                stop.request_stop();
            }
            Ok(echoed)
        })?;
        self.keep(results);
        self.found.side.polled = polling.and_then(|polling| polling.end(self.found.answered));
        Ok(())
    }

    /// Answers over one endpoint created by `run`.
    pub(crate) fn alone(&mut self, run: impl FnOnce(&Job, &mut AtServer<'_>) -> Echoed) -> Result<(), PathError> {
        tell_if_untold(self.stamps);
        let cores = self.cores();
        self.found.side.cpus.push(settle_thread(self.job, Side::Server, 0, cores, &mut self.found.side.granted)?);
        let mut at = AtServer {
            stop: self.stop,
            neighbour: self.neighbour,
            thread: 0,
            stamps: self.stamps,
            observer: self.observer,
            spins: self.job.spec.server.policy == Policy::Spin,
            blocks: self.job.spec.server.policy == Policy::Block,
            seen: 0,
            allowance: self.most_per_s.map(|per_s| Allowance::new(per_s, self.clock.rate(), self.clock.now())),
        };
        let echoed = run(self.job, &mut at);
        self.keep(vec![echoed]);
        Ok(())
    }

    fn keep(&mut self, results: Vec<Echoed>) {
        for one in results {
            self.found.turnaround.add(&one.turnaround);
            self.found.answered += one.answered;
            self.found.waits_in_vain += one.waits_in_vain;
            if let Some(error) = one.error {
                self.found.error.get_or_insert(error.to_string());
            }
        }
    }
}

/// Describes the error that ended a run, for readers who do not know errno; `sent` requests had been sent by then.
fn in_words(job: &Job, sent: u64, error: &io::Error) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let first = sent <= u64::from(job.flows) * u64::from(job.outstanding);
    match (error.kind(), job.plain_peer) {
        (ConnectionRefused, _) if first => format!("nothing listens at the peer's address and port ({error})"),
        (ConnectionRefused, _) => format!("nothing takes the requests any more, so the peer's process has ended ({error})"),
        (ConnectionReset | BrokenPipe | UnexpectedEof, true) if job.own.is_some() => {
            let once = if job.spec.client.speaks() == Speaks::Tcp {
                "; one that answers once a connection takes --path tcp-crr"
            } else {
                ""
            };
            format!("the server closed the connection ({error}){once}")
        }
        (ConnectionReset | BrokenPipe | UnexpectedEof, true) => format!(
            "the peer closed the connection; an echo service returns requests unchanged and keeps the connection: is it one, without TLS? ({error})"
        ),
        (ConnectionReset | BrokenPipe | UnexpectedEof, false) => {
            format!("the peer closed the connection: its process has ended ({error})")
        }
        _ => error.to_string(),
    }
}

fn work(job: &Job, thread: u32, threads: u32, flows: u32, stamps: Option<&Stamps>) -> Work {
    // The first threads take the remainder.
    let share = |count: u64| count / u64::from(threads) + u64::from(u64::from(thread) < count % u64::from(threads));
    // With a request of the user's own the loop sees only its probe header.
    let (request, reply) = match &job.own {
        Some(_) => (probe::LEN, probe::LEN),
        None => (job.open.as_ref().map_or(job.request, |open| open.smallest) as usize, job.reply as usize),
    };
    Work {
        request,
        reply,
        flows,
        outstanding: job.outstanding,
        duration_ns: job.duration.map(|duration| duration.0),
        count: job.count.map(share),
        warmup_ns: job.warmup.0,
        timeout_ns: job.timeout.0,
        cookie: job.cookie,
        verify: job.verify,
        thread,
        threads,
        // An open loop never waits in the receive call itself.
        overstays_ns: match job.spec.client.policy {
            _ if job.open.is_some() => 0,
            Policy::Block | Policy::BusyPoll => PATIENCE.as_nanos() as u64,
            Policy::Poll | Policy::Epoll | Policy::Adaptive => TURN_NS,
            Policy::Spin => 0,
        },
        block: match stamps {
            Some(_) => TRACED_BLOCK,
            // The timetable prepares `BLOCK_TRANSACTIONS` due times.
            None if job.open.is_some() || job.pace.is_some() => BLOCK_TRANSACTIONS,
            None => (ROUNDS * flows as usize * job.outstanding as usize).clamp(BLOCK_TRANSACTIONS, MOST_TRANSACTIONS),
        },
    }
}

fn waiting<'fd>(spec: &SideSpec, clock: AnyClock, flows: &[impl Carrier<'fd>]) -> Result<Waiting<'fd>, PathError> {
    let fds: Vec<_> = flows.iter().map(Carrier::readable).collect();
    waiting_on(spec, clock, &fds)
}

/// The side's wait over descriptors.
pub(crate) fn waiting_on<'fd>(spec: &SideSpec, clock: AnyClock, fds: &[BorrowedFd<'fd>]) -> Result<Waiting<'fd>, PathError> {
    let options = &spec.options;
    if let Some(usecs) = options.number(&BUSY_USECS).filter(|_| spec.policy == Policy::Epoll) {
        // The cast cuts nothing off: the option is at most 65,535.
        let budget = options.number(&BUDGET).map_or(DEFAULT_BUDGET, |packets| packets as u16);
        let polling = EpollPolling { usecs, budget, prefer: options.get(&PREFER) == Some("on") };
        return Ok(Waiting::on_polling_epoll(polling, clock, fds)?);
    }
    Ok(Waiting::on(spec.policy, spec.usecs(), clock, fds)?)
}

/// Runs `drive` at the job's pace.
pub(crate) fn drive_paced<E: Endpoint, C: Clock>(
    endpoint: &mut E,
    clock: &C,
    job: &Job,
    work: Work,
    between: &mut dyn BetweenBlocks,
) -> LoopResult {
    drive(endpoint, clock, pace_of(clock, job, work.thread), work, between)
}

/// The pace of a thread; the rate is that of the whole run, and its threads take turns.
fn pace_of<C: Clock>(clock: &C, job: &Job, thread: u32) -> Pace {
    let sleeps = job.spec.client.policy.sleeps();
    let table = |open: &OpenLoop| Timetable::new(clock, open.share(thread, job.threads, job.request), sleeps);
    match (&job.open, job.pace) {
        (None, None) => Pace::Closed,
        (Some(open), _) => Pace::Open(table(open)),
        (None, Some(per_s)) => Pace::Every(table(&OpenLoop { per_s, arrivals: Arrivals::Fixed, smallest: job.request })),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hairpin_sys::clock::{FakeClock, MonotonicRaw};
    use hairpin_units::Nanos;

    use super::*;
    use crate::fake::Null;

    #[test]
    fn paced_threads_take_turns() {
        let job = Job { threads: 4, pace: Some(1_000.0), ..Job::new("udp".parse().unwrap()) };
        let first = |thread| pace_of(&FakeClock::default(), &job, thread).timetable().map(|table| table.next().at);
        assert_eq!([0, 1, 2, 3].map(first), [1, 2, 3, 4].map(|ms| Some(Ticks(ms * 1_000_000))));
    }

    /// An observer of no interest.
    pub(crate) struct Nobody;

    impl Observer for Nobody {
        fn ready(&self, _: Option<&Address>) -> io::Result<()> {
            Ok(())
        }
        fn progress(&self, _: u32, _: &Recorder, _: &Counts) {}
        fn raw(&self, _: u32, _: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
            Ok(())
        }
        fn block(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn two_sides_on_one_core_do_not_meet() {
        let shared = Shared::create().unwrap();
        let meet = |client: u32, server: u32| {
            let mut job = Job::new("udp".parse().unwrap());
            (job.cpus.client, job.cpus.server) = (Some(client), Some(server));
            let run = ClientRun {
                job: &job,
                peer: Address::Inet(([127, 0, 0, 1], 1).into()),
                clock: AnyClock::Raw(MonotonicRaw),
                stop: &shared,
                neighbour: Some(&shared),
                stamps: None,
                allowed: &[0, 1],
                own_link: false,
                observer: &Nobody,
                found: ClientFound::default(),
            };
            run.neighbour().is_some()
        };
        assert_eq!([meet(0, 1), meet(1, 0), meet(1, 1), meet(5, 5)], [true, true, false, false]);
    }

    #[test]
    fn a_loop_that_fails_stops_those_of_the_other_threads() {
        let (stop, allowed) = (Shared::create().unwrap(), hairpin_sys::thread::allowed_cpus().unwrap());
        let job = Job { threads: 2, flows: 2, warmup: Nanos(0), ..Job::new("udp".parse().unwrap()) };
        let clock = AnyClock::Raw(MonotonicRaw);
        let mut run = ClientRun {
            job: &job,
            peer: Address::Inet(([127, 0, 0, 1], 1).into()),
            clock,
            stop: &stop,
            neighbour: None,
            stamps: None,
            allowed: &allowed,
            own_link: false,
            observer: &Nobody,
            found: ClientFound::default(),
        };
        run.on_threads(&mut [Null::default(), Null::default()], |flows, work, between| {
            let fails = work.thread == 1;
            let work = Work { count: fails.then_some(1), ..work };
            let mut result = drive(&mut flows[0], &clock, Pace::Closed, work, between);
            if fails {
                result.end = LoopEnd::Failed(io::Error::other("broken"));
            }
            Ok(result)
        })
        .unwrap();
        assert_eq!((run.found.stopped, run.found.error.as_deref()), (true, Some("broken")));
    }

    #[test]
    fn an_end_is_told_by_its_cause() {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
        let (closed, ended) = ("the peer closed the connection; ", "process has ended");
        for (kind, plain_peer, sent, part) in [
            (ConnectionRefused, false, 2, "nothing listens"),
            (ConnectionRefused, true, 1, "nothing listens"),
            (ConnectionRefused, false, 3, ended),
            (ConnectionReset, true, 9, closed),
            (BrokenPipe, true, 1, closed),
            (UnexpectedEof, true, 1, closed),
            (ConnectionReset, false, 1, ended),
            (UnexpectedEof, false, 9, ended),
        ] {
            let job = Job { plain_peer, outstanding: 2, ..Job::new("udp".parse().unwrap()) };
            let text = in_words(&job, sent, &kind.into());
            assert!(text.contains(part), "{kind:?}, {sent} sent: {text}");
            assert_eq!(text.contains("process"), part == ended, "{text}");
        }
    }
}
