//! Runs both loops on their threads: one measuring thread per `--threads`, each on its own CPU with its own flows.
//!
//! ```text
//!   path opens all flows ─▶ chunks, one a thread ─▶ pin, schedule, own file table ─▶ clock × pace × policy as types ─▶ drive / echo
//!                                                                                                  merged ◀──────────────┘
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hairpin_record::histogram::Times;
use hairpin_record::recorder::{Recorder, Sample};
use hairpin_record::run::{FlowFacts, Granted, Pcie, Side, TcpSide};
use hairpin_record::warning::Warning;
use hairpin_sys::clock::{Clock, MonotonicRaw, Relation, Ticks, Tsc};
use hairpin_sys::process;
use hairpin_sys::shared::{Shared, Stamp, Stamps, Told};
use hairpin_sys::socket::cookie;
use hairpin_sys::thread;
use hairpin_sys::wait::{Policy, Wait, WithWait, with_wait};

use crate::delayed::Delayed;
use crate::drive::{BLOCK_TRANSACTIONS, Between, Counts, End, Found, Work, drive};
use crate::echo::{Attention, Echoed, TURN_NS, echo};
use crate::endpoint::{Endpoint, NoMarks};
use crate::flows::{Carrier, Flows};
use crate::job::{Address, Job, Listen, Schedule};
use crate::option::DELAY;
use crate::pace::{Closed, Every, Open};
use crate::path::PathError;
use crate::spec::SideSpec;

/// Transactions of a traced block: short, so that blocks with and without a tracer are close in time, and so that what the tracer writes stays in the
/// cache.
pub const TRACED_BLOCK: usize = 4_096;

/// The clock of a run, chosen once.
#[derive(Clone, Copy, Debug)]
pub enum AnyClock {
    /// The TSC.
    Tsc(Tsc),
    /// CLOCK_MONOTONIC_RAW.
    Raw(MonotonicRaw),
}

impl AnyClock {
    /// Ticks per ns.
    pub fn rate(&self) -> f64 {
        match self {
            AnyClock::Tsc(clock) => clock.rate(),
            AnyClock::Raw(clock) => clock.rate(),
        }
    }

    /// Ticks in ns.
    pub fn to_ns(&self, ticks: u64) -> u64 {
        match self {
            AnyClock::Tsc(clock) => clock.to_ns(ticks),
            AnyClock::Raw(clock) => clock.to_ns(ticks),
        }
    }

    /// All clocks, read now.
    pub fn relation(&self) -> Relation {
        match self {
            AnyClock::Tsc(clock) => Relation::read(clock),
            AnyClock::Raw(clock) => Relation::read(clock),
        }
    }
}

/// What a run tells whoever ordered it, never inside a measured interval.
pub trait Observer: Sync {
    /// The side is ready; a server says where it can be met.
    fn ready(&self, address: Option<&Address>) -> io::Result<()>;
    /// Thread 0 has folded a block.
    fn progress(&self, recorder: &Recorder, counts: &Counts);
    /// Every sample of a block, if the job keeps them all.
    fn raw(&self, thread: u32, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()>;
    /// The first thread's loop has its memory and begins: CPU time counts from here.
    fn starts(&self) {}
    /// The calling thread spent so much CPU time on meeting the other side's core, which is no work of the path.
    fn met(&self, _cpu_ns: u64) {}
    /// A traced run's block is over, and its stamps are left: returns when the next may begin.
    fn block(&self) -> io::Result<()>;
}

/// The client's side of a row: what it needs, and what it found.
pub struct ClientRun<'a> {
    /// What to do.
    pub job: &'a Job,
    /// Where the server is.
    pub peer: Address,
    /// The clock.
    pub clock: AnyClock,
    /// Whoever ordered the run stops it here.
    pub stop: &'a Shared,
    /// Shared with the other side, if that is on this host: where the two cores meet.
    pub neighbour: Option<&'a Shared>,
    /// Where the stamps of each transaction are left, if a tracer wants them.
    pub stamps: Option<&'a Stamps>,
    /// The CPUs that the process was allowed before any thread was pinned.
    pub allowed: &'a [u32],
    /// Whom to tell.
    pub observer: &'a dyn Observer,
    /// What it found.
    pub found: ClientFound,
}

/// What the client's side found.
#[derive(Debug, Default)]
pub struct ClientFound {
    /// Samples of all threads, folded.
    pub recorder: Option<Recorder>,
    /// Events of all threads.
    pub counts: Counts,
    /// Transactions of any kind, warm-up included: what TCP's accounts are divided by.
    pub exchanges: u64,
    /// Longest time between blocks of any thread, in ns.
    pub gap_ns: u64,
    /// True if the run was stopped.
    pub stopped: bool,
    /// Why it ended early, if it did.
    pub error: Option<String>,
    /// Parts of a transaction, timed apart.
    pub parts: BTreeMap<String, Times>,
    /// Transactions that overlap a stall of either core, where the path watches for those, and their RTTs added up in ns.
    pub stalled: Option<(u64, u64)>,
    /// What was taken off an emulated latency of one way in ns, because it is from program to program.
    pub own_ns: Option<f64>,
    /// Relative change of the clock's rate over the run in parts per 10^9, if it was long enough to tell.
    pub drift_ppb: Option<f64>,
    /// What this side shares with the server's.
    pub side: SideFound,
}

/// The server's side of a row: what it needs, and what it found.
pub struct ServerRun<'a> {
    /// What to do.
    pub job: &'a Job,
    /// Where to listen.
    pub listen: Listen,
    /// The clock.
    pub clock: AnyClock,
    /// Whoever ordered the run stops it here.
    pub stop: &'a Shared,
    /// Shared with the other side, if that is on this host: where the two cores meet.
    pub neighbour: Option<&'a Shared>,
    /// Where the stamps of each transaction are left, if a tracer wants them.
    pub stamps: Option<&'a Stamps>,
    /// The CPUs that the process was allowed before any thread was pinned.
    pub allowed: &'a [u32],
    /// Whom to tell.
    pub observer: &'a dyn Observer,
    /// What it found.
    pub found: ServerFound,
}

/// What the server's side found.
#[derive(Debug, Default)]
pub struct ServerFound {
    /// Receive call returned → send call entered.
    pub turnaround: Times,
    /// Requests answered, warm-up included.
    pub answered: u64,
    /// Why it ended early, if it did.
    pub error: Option<String>,
    /// What this side shares with the client's.
    pub side: SideFound,
}

/// What either side found about its sockets and threads.
#[derive(Debug, Default)]
pub struct SideFound {
    /// TCP's accounts; the counts are totals, not yet per transaction.
    pub tcp: Option<TcpSide>,
    /// Where the kernel delivered each flow.
    pub flow_facts: Vec<FlowFacts>,
    /// Asked and granted.
    pub granted: Vec<Granted>,
    /// The CPUs of the threads.
    pub cpus: Vec<u32>,
    /// System calls beyond send and receive.
    pub extra_calls: u64,
    /// What the driver of the emulated NIC did on PCI Express.
    pub pcie: Option<Pcie>,
    /// What was noticed.
    pub warnings: Vec<Warning>,
}

impl ClientRun<'_> {
    /// Runs the loop over `flows`, split between the threads, and keeps what it found.
    pub(crate) fn over<F: Carrier + Send>(&mut self, flows: &mut [F]) -> Result<(), PathError> {
        let job = self.job;
        let socket = flows.first().map(Carrier::readable);
        tell(self.stamps, socket, socket);
        let longest = job.request as usize;
        let policy = self.timed(&job.spec.client);
        match self.clock {
            AnyClock::Tsc(clock) => self.on_threads(clock, flows, |clock, flows, work, between| {
                over_wait(clock, flows, &policy, ClientLoop { clock, job, work, between, longest })
            }),
            AnyClock::Raw(clock) => self.on_threads(clock, flows, |clock, flows, work, between| {
                over_wait(clock, flows, &policy, ClientLoop { clock, job, work, between, longest })
            }),
        }
    }

    /// The policy of an open loop, which has to wake when the next request is due: what cannot do that sleeps in poll(2) instead, and says so.
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

    /// Runs the loop over one endpoint that is made on the spot, for paths that are more than descriptors.
    pub(crate) fn alone(&mut self, run: impl FnOnce(&Job, Work, &mut dyn Between) -> Found) -> Result<(), PathError> {
        tell_if_untold(self.stamps);
        self.side_ready()?;
        let work = work(self.job, 0, 1, self.job.flows, self.stamps);
        self.found.side.cpus.push(settle_thread(self.job, Side::Client, 0, self.allowed, &mut self.found.side.granted)?);
        let observer = self.observer;
        let mut between = Surroundings {
            stop: self.stop,
            neighbour: self.neighbour,
            called: 0,
            raw: self.job.raw,
            thread: 0,
            observer,
            stamps: self.stamps,
            rate: self.clock.rate(),
            began: Ticks::default(),
        };
        let found = run(self.job, work, &mut between);
        self.keep(vec![found]);
        Ok(())
    }

    fn side_ready(&mut self) -> Result<(), PathError> {
        self.observer.ready(None).map_err(PathError::at("cannot tell that the client is ready"))
    }

    fn on_threads<C: Clock, F: Carrier + Send>(
        &mut self,
        clock: C,
        flows: &mut [F],
        run: impl Fn(&C, &mut [F], Work, &mut dyn Between) -> Result<Found, PathError> + Sync,
    ) -> Result<(), PathError> {
        self.side_ready()?;
        let job = self.job;
        let (stop, neighbour, stamps, rate) = (self.stop, self.neighbour, self.stamps, self.clock.rate());
        let observer = self.observer;
        let results = each_chunk(job, Side::Client, self.allowed, flows, &mut self.found.side, |thread, flows| {
            let work = work(job, thread, job.threads, flows.len() as u32, stamps);
            let neighbour = neighbour.filter(|_| thread == 0);
            let mut between = Surroundings {
                stop,
                neighbour,
                called: 0,
                raw: job.raw,
                thread,
                observer,
                stamps,
                rate,
                began: Ticks::default(),
            };
            run(&clock, flows, work, &mut between)
        })?;
        self.keep(results);
        Ok(())
    }

    fn keep(&mut self, results: Vec<Found>) {
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
            mine.unsent += theirs.unsent;
            mine.stalls += theirs.stalls;
            mine.stalled_ns += theirs.stalled_ns;
            mine.longest_silence_ns = mine.longest_silence_ns.max(theirs.longest_silence_ns);
            found.exchanges += one.exchanges;
            found.gap_ns = found.gap_ns.max(one.gap_ns);
            found.drift_ppb = found.drift_ppb.or(one.drift_ppb);
            match one.end {
                End::Done => {}
                End::Stopped => found.stopped = true,
                End::Failed(error) => found.error = found.error.take().or_else(|| Some(in_words(&error))),
            }
            match &mut found.recorder {
                None => found.recorder = Some(one.recorder),
                Some(recorder) => recorder.merge(one.recorder),
            }
        }
    }
}

impl ServerRun<'_> {
    /// Answers over `flows`, split between the threads, until told to stop.
    pub(crate) fn over<F: Carrier + Send>(&mut self, flows: &mut [F]) -> Result<(), PathError> {
        let socket = flows.first().map(Carrier::readable);
        tell(self.stamps, socket, socket);
        match self.clock {
            AnyClock::Tsc(clock) => self.on_threads(clock, flows),
            AnyClock::Raw(clock) => self.on_threads(clock, flows),
        }
    }

    /// Answers over one endpoint that is made on the spot.
    pub(crate) fn alone(&mut self, run: impl FnOnce(&Job, &mut AtServer<'_>) -> Echoed) -> Result<(), PathError> {
        tell_if_untold(self.stamps);
        self.found.side.cpus.push(settle_thread(self.job, Side::Server, 0, self.allowed, &mut self.found.side.granted)?);
        let mut at = AtServer {
            stop: self.stop,
            neighbour: self.neighbour,
            stamps: self.stamps,
            observer: self.observer,
            spins: self.job.spec.server.policy == Policy::Spin,
            seen: 0,
        };
        let echoed = run(self.job, &mut at);
        self.keep(vec![echoed]);
        Ok(())
    }

    fn on_threads<C: Clock, F: Carrier + Send>(&mut self, clock: C, flows: &mut [F]) -> Result<(), PathError> {
        let (job, stop, neighbour, stamps) = (self.job, self.stop, self.neighbour, self.stamps);
        let (observer, spins) = (self.observer, job.spec.server.policy == Policy::Spin);
        let results = each_chunk(job, Side::Server, self.allowed, flows, &mut self.found.side, |thread, flows| {
            let longest = job.reply as usize;
            let at = AtServer { stop, neighbour: neighbour.filter(|_| thread == 0), stamps, observer, spins, seen: 0 };
            over_wait(&clock, flows, &job.spec.server, ServerLoop { clock: &clock, job, at, longest })
        })?;
        self.keep(results);
        Ok(())
    }

    fn keep(&mut self, results: Vec<Echoed>) {
        for one in results {
            self.found.turnaround.add(&one.turnaround);
            self.found.answered += one.answered;
            if let Some(error) = one.error {
                self.found.error.get_or_insert(error.to_string());
            }
        }
    }
}

/// Tells a tracer this thread, and the sockets that it sends and receives on if there are some.
pub(crate) fn tell(stamps: Option<&Stamps>, sends_on: Option<BorrowedFd<'_>>, receives_on: Option<BorrowedFd<'_>>) {
    // What is no socket, such as a pipe, has no cookie.
    let told = |socket: Option<BorrowedFd<'_>>| socket.and_then(|socket| cookie(&socket).ok()).unwrap_or(0);
    if let Some(stamps) = stamps {
        let port = receives_on.and_then(local_port).unwrap_or(0);
        stamps.tell(Told { thread: thread::id(), sends_on: told(sends_on), receives_on: told(receives_on), port });
    }
}

/// The port of a socket of the internet.
fn local_port(socket: BorrowedFd<'_>) -> Option<u16> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    Some(address.port())
}

/// A path without sockets has a thread at least.
fn tell_if_untold(stamps: Option<&Stamps>) {
    if stamps.is_some_and(|stamps| stamps.told().thread == 0) {
        tell(stamps, None, None);
    }
}

/// What ended a run, for someone who does not know errno.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("nothing takes the requests any more, so the peer's process has ended ({error})")
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            format!("the peer closed the connection: its process has ended ({error})")
        }
        _ => error.to_string(),
    }
}

/// Splits the flows between the threads and runs `run` on each; thread 0 is the caller's.
fn each_chunk<F: Send, R: Send>(
    job: &Job,
    side: Side,
    allowed: &[u32],
    flows: &mut [F],
    found: &mut SideFound,
    run: impl Fn(u32, &mut [F]) -> Result<R, PathError> + Sync,
) -> Result<Vec<R>, PathError> {
    let run = &run;
    std::thread::scope(|scope| {
        let mut chunks = shares(flows, job.threads as usize).into_iter().enumerate();
        let first = chunks.next();
        let others: Vec<_> = chunks
            .map(|(at, chunk)| {
                scope.spawn(move || {
                    process::unshare_files().map_err(PathError::at("cannot give a measuring thread its own file table"))?;
                    let mut granted = Vec::new();
                    let cpu = settle_thread(job, side, at as u32, allowed, &mut granted)?;
                    Ok::<_, PathError>((cpu, run(at as u32, chunk)?))
                })
            })
            .collect();
        let mut results = Vec::new();
        if let Some((_, chunk)) = first {
            found.cpus.push(settle_thread(job, side, 0, allowed, &mut found.granted)?);
            results.push(run(0, chunk)?);
        }
        for other in others {
            let joined = other.join().map_err(|_| PathError::Thread("a measuring thread panicked".into()))?;
            let (cpu, result) = joined?;
            found.cpus.push(cpu);
            results.push(result);
        }
        Ok(results)
    })
}

/// Splits `flows` into so many parts; the first ones are longer by one if it does not divide evenly.
fn shares<F>(mut flows: &mut [F], threads: usize) -> Vec<&mut [F]> {
    let mut parts = Vec::with_capacity(threads);
    for left in (1..=threads).rev() {
        let (part, rest) = flows.split_at_mut(flows.len().div_ceil(left));
        parts.push(part);
        flows = rest;
    }
    parts
}

/// The CPU of thread `index` of a side: the first is the one asked for, else the first (client) or second (server) that is allowed; the
/// others follow.
pub fn cpu_of(job: &Job, side: Side, index: u32, allowed: &[u32]) -> u32 {
    let asked = match side {
        Side::Client => job.cpus.client,
        Side::Server => job.cpus.server,
    };
    let first = asked.or_else(|| allowed.get(usize::from(allowed.len() > 1 && side == Side::Server)).copied()).unwrap_or(0);
    match allowed.iter().position(|cpu| *cpu == first) {
        Some(position) => allowed[(position + index as usize) % allowed.len()],
        // Not allowed: pinning to it says so.
        None => first,
    }
}

/// Pins and schedules the calling thread as the job says; returns its CPU.
fn settle_thread(job: &Job, side: Side, index: u32, allowed: &[u32], granted: &mut Vec<Granted>) -> Result<u32, PathError> {
    let spec = match side {
        Side::Client => &job.spec.client,
        Side::Server => &job.spec.server,
    };
    let cpu = cpu_of(job, side, index, allowed);
    thread::pin(cpu).map_err(|error| PathError::Thread(error.to_string()))?;
    if let Some(least) = NonZeroU64::new(1) {
        thread::set_timer_slack(least).map_err(PathError::at("cannot set the timer slack"))?;
    }
    if let Schedule::Fifo(priority) = job.sched {
        granted.extend(schedule_fifo(job, side, spec, priority, allowed.len()));
    }
    Ok(cpu)
}

/// SCHED_FIFO and locked memory, unless that would take every core from the kernel's own threads. A refusal is shown, not fatal.
fn schedule_fifo(job: &Job, side: Side, spec: &SideSpec, priority: u8, cores: usize) -> [Granted; 2] {
    let asked = format!("fifo:{priority}");
    let granted = |option: &str, asked: &str, outcome: Result<(), String>| Granted {
        side,
        option: option.into(),
        asked: asked.into(),
        got: if outcome.is_ok() { asked.into() } else { "other".into() },
        why: outcome.err().unwrap_or_default(),
    };
    // Both sides may be on this host; the client goes first.
    let spinning = job.threads as usize * if side == Side::Server { 2 } else { 1 };
    let takes_all = spec.policy == Policy::Spin && spinning >= cores;
    let outcome = match takes_all {
        true => Err(format!("spinning under SCHED_FIFO would take all {cores} cores, and the kernel's own threads need one")),
        false => thread::set_sched(job.sched.policy()).map_err(|error| error.to_string()),
    };
    let locked = thread::lock_memory().map_err(|error| error.to_string());
    let mut lock = granted("mlock", "all memory", locked);
    if !lock.why.is_empty() {
        lock.got = "not locked".into();
    }
    [granted("sched", &asked, outcome), lock]
}

fn work(job: &Job, thread: u32, threads: u32, flows: u32, stamps: Option<&Stamps>) -> Work {
    // The first threads take what does not divide evenly.
    let share = |count: u64| count / u64::from(threads) + u64::from(u64::from(thread) < count % u64::from(threads));
    Work {
        request: job.open.as_ref().map_or(job.request, |open| open.smallest) as usize,
        reply: job.reply as usize,
        flows,
        outstanding: job.outstanding,
        duration_ns: job.duration.map(|duration| duration.0),
        count: job.count.map(share),
        warmup_ns: job.warmup.0,
        timeout_ns: job.timeout.0,
        cookie: job.cookie,
        verify: job.verify,
        thread,
        block: if stamps.is_some() { TRACED_BLOCK } else { BLOCK_TRANSACTIONS },
    }
}

fn over_wait<C: Clock, F: Carrier, L: OverFlows<F>>(
    clock: &C,
    flows: &mut [F],
    spec: &SideSpec,
    run: L,
) -> Result<L::Out, PathError> {
    struct Run<'a, F, L>(&'a mut [F], L);
    impl<F: Carrier, L: OverFlows<F>> WithWait for Run<'_, F, L> {
        type Out = L::Out;
        fn run<W: Wait>(self, wait: W) -> L::Out {
            self.1.run(self.0, wait)
        }
    }
    // The wait borrows copies, since the flows themselves are handed on.
    let copies = flows.iter().map(|flow| flow.readable().try_clone_to_owned()).collect::<Result<Vec<_>, _>>();
    let copies = copies.map_err(PathError::at("cannot duplicate a descriptor to wait on"))?;
    let fds: Vec<BorrowedFd<'_>> = copies.iter().map(std::os::fd::AsFd::as_fd).collect();
    Ok(with_wait(spec.policy, spec.usecs(), clock.clone(), &fds, Run(flows, run))?)
}

trait OverFlows<F> {
    type Out;
    fn run<W: Wait>(self, flows: &mut [F], wait: W) -> Self::Out;
}

struct ClientLoop<'a, C> {
    clock: &'a C,
    job: &'a Job,
    work: Work,
    between: &'a mut dyn Between,
    longest: usize,
}

impl<C: Clock, F: Carrier> OverFlows<F> for ClientLoop<'_, C> {
    type Out = Found;

    fn run<W: Wait>(self, flows: &mut [F], wait: W) -> Found {
        let mut endpoint = Flows::new(flows, wait, self.work.reply, self.longest);
        drive_paced(&mut endpoint, self.clock, self.job, &mut NoMarks, self.work, self.between)
    }
}

/// Runs `drive` with the job's pace as a type.
pub(crate) fn drive_paced<E: Endpoint, C: Clock, M: crate::endpoint::Marks>(
    endpoint: &mut E,
    clock: &C,
    job: &Job,
    marks: &mut M,
    work: Work,
    between: &mut dyn Between,
) -> Found {
    match (&job.open, job.pace) {
        (None, None) => drive(endpoint, clock, Closed, marks, work, between),
        (Some(open), _) => {
            let schedule = open.share(work.thread, job.threads, job.request);
            let pace = Open::new(clock.clone(), schedule, job.spec.client.policy.sleeps());
            drive(endpoint, clock, pace, marks, work, between)
        }
        (None, Some(per_s)) => {
            // The rate is that of the run; its threads share it.
            let pace = Every::new(clock.clone(), per_s / f64::from(job.threads), job.spec.client.policy.sleeps());
            drive(endpoint, clock, pace, marks, work, between)
        }
    }
}

struct ServerLoop<'a, C> {
    clock: &'a C,
    job: &'a Job,
    at: AtServer<'a>,
    longest: usize,
}

impl<C: Clock, F: Carrier> OverFlows<F> for ServerLoop<'_, C> {
    type Out = Echoed;

    fn run<W: Wait>(mut self, flows: &mut [F], wait: W) -> Echoed {
        let mut endpoint = Flows::new(flows, wait, self.job.request as usize, self.longest);
        let reply = self.job.reply as usize;
        match self.job.spec.server.options.number(&DELAY) {
            None | Some(0) => echo(&mut endpoint, self.clock, reply, &mut self.at),
            Some(ns) => echo(&mut Delayed::new(endpoint, self.clock, ns.into()), self.clock, reply, &mut self.at),
        }
    }
}

/// What the server's loop looks at.
pub(crate) struct AtServer<'a> {
    stop: &'a Shared,
    neighbour: Option<&'a Shared>,
    stamps: Option<&'a Stamps>,
    observer: &'a dyn Observer,
    /// Nobody sleeps, so that looking up costs nothing.
    spins: bool,
    seen: u32,
}

/// A server's side that spins looks at its stop flag so often while nothing comes, in ns: an experiment stops it after each block.
const SPIN_TURN_NS: u64 = 500_000;

impl Attention for AtServer<'_> {
    fn turn_ns(&self) -> u64 {
        if self.spins { SPIN_TURN_NS } else { TURN_NS }
    }

    #[inline(always)]
    fn stopped(&self) -> bool {
        self.stop.stop_requested()
    }

    #[inline(always)]
    fn is_tracing(&self) -> bool {
        self.stamps.is_some()
    }

    #[inline(always)]
    fn answered(&mut self, sequence: u32, received: Ticks, sent: Ticks) {
        if let Some(stamps) = self.stamps {
            stamps.push(Stamp { sequence, first: received, second: sent });
        }
    }

    #[inline(always)]
    fn answer_neighbour(&mut self) -> bool {
        match self.neighbour {
            Some(shared) if shared.ping_requested(&mut self.seen) => {
                let since = cpu_ns();
                shared.answer_ping(self.seen, 2 * (PING_PATIENCE + PING_LENGTH));
                self.observer.met(cpu_ns().saturating_sub(since));
                true
            }
            _ => false,
        }
    }
}

/// How long the other core may take to join: it has just been woken by a request.
const PING_PATIENCE: Duration = Duration::from_millis(10);
/// How long the two cores bounce their line, beside each block.
const PING_LENGTH: Duration = Duration::from_millis(2);

/// CPU time of the calling thread; 0 if the kernel does not say.
fn cpu_ns() -> u64 {
    thread::thread_usage().map_or(0, |usage| usage.user_ns + usage.system_ns)
}

/// What the client's loop looks at, between blocks.
struct Surroundings<'a> {
    stop: &'a Shared,
    neighbour: Option<&'a Shared>,
    called: u32,
    raw: bool,
    thread: u32,
    observer: &'a dyn Observer,
    stamps: Option<&'a Stamps>,
    /// Of the clock, in ticks per ns.
    rate: f64,
    began: Ticks,
}

impl Between for Surroundings<'_> {
    fn stopped(&self) -> bool {
        self.stop.stop_requested()
    }

    fn call_neighbour(&mut self) -> bool {
        // Untimed transactions would be traced with the others.
        self.neighbour.filter(|_| self.stamps.is_none()).map(|shared| self.called = shared.call_ping()).is_some()
    }

    fn meet_neighbour(&mut self) -> Option<u64> {
        let since = cpu_ns();
        let found = self.neighbour?.measure_ping(self.called, PING_PATIENCE, PING_LENGTH);
        self.observer.met(cpu_ns().saturating_sub(since));
        found
    }

    fn starts(&mut self) {
        if self.thread == 0 {
            self.observer.starts();
        }
    }

    fn begins(&mut self, at: Ticks) {
        self.began = at;
    }

    fn block(&mut self, recorder: &Recorder, counts: &Counts, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        if let Some(stamps) = self.stamps {
            let after = |ns: u64| self.began.plus((ns as f64 * self.rate).round() as u64);
            for sample in samples {
                let (first, second) = (after(sample.sent_ns), after(sample.sent_ns + sample.rtt_ns));
                stamps.push(Stamp { sequence: sample.sequence, first, second });
            }
            self.observer.block()?;
        } else if self.raw {
            self.observer.raw(self.thread, samples)?;
        }
        if self.thread == 0 {
            self.observer.progress(recorder, counts);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_gets_its_share_of_the_flows() {
        for (flows, threads, expected) in [(5, 4, vec![2, 1, 1, 1]), (4, 2, vec![2, 2]), (3, 3, vec![1, 1, 1]), (7, 1, vec![7])] {
            let mut all = vec![(); flows];
            assert_eq!(shares(&mut all, threads).iter().map(|part| part.len()).collect::<Vec<_>>(), expected);
        }
    }
}
