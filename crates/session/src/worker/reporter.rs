//! Reports a side's progress to the parent, between blocks.
//!
//! The cost of a snapshot falls into the gap between two blocks, once a second: some 10 us for the quantiles since the start. If
//! a watcher wants snapshots ([`Before`]), the difference of two histograms and its encoding come on top. If one draws, the gap
//! lasts until it has drawn. None of it is inside a measured interval; it is in `gap_ns`.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hairpin_iopath::drive::Counts;
use hairpin_iopath::measure::{Observer, cpu_of};
use hairpin_plan::job::{Address, Job};
use hairpin_plan::option::SUBMIT;
use hairpin_record::head::Body;
use hairpin_record::histogram::Times;
use hairpin_record::progress::{CpuSoFar, Interval, Progress};
use hairpin_record::recorder::{Recorder, Sample};
use hairpin_record::run::{CpuSide, Side};
use hairpin_record::stack::Stack;
use hairpin_sys::host::RealHost;
use hairpin_sys::thread;
use hairpin_sys::wait::Policy;
use hairpin_tune::activity::CoreActivity;
use hairpin_units::Nanos;

use super::FOREVER;
use super::stack::Watch;
use crate::channel::Channel;
use crate::message::{Answer, Order};
use crate::raw::RawWriter;

/// Interval of progress messages.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// [`PROGRESS_EVERY`] where each is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(250);
/// Interval of messages on how many flows are open.
const OPENED_EVERY: Duration = Duration::from_millis(250);

/// Progress that the parent requested.
#[derive(Clone, Copy, Default)]
pub(super) struct Reports {
    /// A watcher wants the data of each second.
    pub(super) snapshots: bool,
    /// A watcher draws.
    pub(super) drawn: bool,
}

/// Facts of this process.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    /// The CPUs allowed to it.
    pub(super) allowed: &'a [u32],
    /// Others use its network namespace too.
    pub(super) shares_network: bool,
}

/// Reports a side's progress to the parent.
pub(super) struct Reporter<'a> {
    channel: Mutex<&'a mut Channel>,
    raw: Mutex<Option<(&'a mut RawWriter, u32)>>,
    job: &'a Job,
    side: Side,
    /// The parent draws each message, and says `Go` after that.
    drawn: bool,
    cpus: Vec<u32>,
    /// One per measuring thread.
    last: Vec<Mutex<LastReport>>,
    meter: Mutex<Option<Meter>>,
    shares_network: bool,
    /// The library in the place of the kernel's sockets, if there is one, since the loop's start.
    stack: Mutex<Option<Watch>>,
    /// CPU time spent on meeting the other side's core, in ns.
    met: AtomicU64,
    /// CPU time of blocks in ns, and their transactions.
    worked: [AtomicU64; 2],
}

impl<'a> Reporter<'a> {
    pub(super) fn new(
        channel: &'a mut Channel,
        job: &'a Job,
        side: Side,
        own: Own<'_>,
        raw: Option<(&'a mut RawWriter, u32)>,
        reports: Reports,
    ) -> Reporter<'a> {
        let last =
            || LastReport { at: Instant::now(), before: reports.snapshots.then(|| Box::new(Before::new(job.pace.is_some()))) };
        Reporter {
            channel: Mutex::new(channel),
            raw: Mutex::new(raw),
            job,
            side,
            drawn: reports.drawn,
            cpus: (0..job.threads).map(|thread| cpu_of(job, side, thread, own.allowed)).collect(),
            last: (0..job.threads).map(|_| Mutex::new(last())).collect(),
            meter: Mutex::new(None),
            shares_network: own.shares_network,
            stack: Mutex::new(None),
            met: AtomicU64::new(0),
            worked: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    pub(super) fn meter(&self) -> Meter {
        let meter = self.meter.lock().ok().and_then(|mut meter| meter.take()).unwrap_or_else(|| Meter::start(&self.cpus));
        let [cpu_ns, transactions] = [0, 1].map(|at| self.worked[at].load(Ordering::Relaxed));
        // The thread that works for io_uring is another one of this process, so only the process's time holds both.
        let alone = self.job.spec.client.options.get(&SUBMIT) != Some("sqpoll");
        let worked = (alone && transactions > 0).then_some((cpu_ns, transactions));
        Meter { met: self.met.load(Ordering::Relaxed), worked, ..meter }
    }

    /// The library in the place of the kernel's sockets; `received` messages came since the loop's start.
    pub(super) fn stack(&self, received: u64) -> Option<Stack> {
        Some(self.stack.lock().ok()?.take()?.end(&RealHost, received))
    }

    fn send(&self, answer: &Answer) -> io::Result<()> {
        let mut channel = self.channel.lock().map_err(|_| io::Error::other("another measuring thread panicked"))?;
        channel.send(answer).map_err(io::Error::other)
    }

    /// Waits for the parent's `Go`, which normally comes at once, for as long as the parent lives.
    fn await_go(&self) -> io::Result<()> {
        let mut channel = self.channel.lock().map_err(|_| io::Error::other("another measuring thread panicked"))?;
        match channel.recv(FOREVER).map_err(io::Error::other)? {
            Order::Go => Ok(()),
            other => Err(io::Error::other(format!("{other:?} came instead of Go"))),
        }
    }
}

impl Observer for Reporter<'_> {
    fn ready(&self, address: Option<&Address>) -> io::Result<()> {
        self.send(&Answer::Ready(address.cloned()))?;
        if self.side == Side::Client { self.await_go() } else { Ok(()) }
    }

    fn opened(&self, flows: u32) {
        let Some(Ok(mut last)) = self.last.first().map(Mutex::lock).filter(|_| self.side == Side::Client) else { return };
        if last.at.elapsed() >= OPENED_EVERY {
            last.at = Instant::now();
            // If the parent is gone, this process dies with it; there is nobody to tell.
            let _ = self.send(&Answer::Opened(flows));
        }
    }

    fn starts(&self) {
        if let Ok(mut stack) = self.stack.lock() {
            let spec = match self.side {
                Side::Client => &self.job.spec.client,
                Side::Server => &self.job.spec.server,
            };
            *stack = Watch::begin(&RealHost, spec, self.shares_network);
        }
        if let Ok(mut meter) = self.meter.lock() {
            *meter = Some(Meter::start(&self.cpus));
        }
    }

    fn met(&self, cpu_ns: u64) {
        self.met.fetch_add(cpu_ns, Ordering::Relaxed);
    }

    fn worked(&self, cpu_ns: u64, transactions: u64) {
        self.worked[0].fetch_add(cpu_ns, Ordering::Relaxed);
        self.worked[1].fetch_add(transactions, Ordering::Relaxed);
    }

    fn block(&self) -> io::Result<()> {
        self.send(&Answer::Block)?;
        self.await_go()
    }

    fn paused(&self) -> io::Result<()> {
        self.send(&Answer::Paused)?;
        self.await_go()
    }

    fn progress(&self, thread: u32, recorder: &Recorder, counts: &Counts) {
        let Some(Ok(mut last)) = self.last.get(thread as usize).map(Mutex::lock) else { return };
        if last.at.elapsed() < if self.drawn { DRAWN_EVERY } else { PROGRESS_EVERY } {
            return;
        }
        last.at = Instant::now();
        let measured = Nanos(recorder.measured_ns());
        let rtt = recorder.rtt();
        let progress = Progress {
            schema: Progress::SCHEMA.into(),
            path: self.job.spec.to_string(),
            request_bytes: self.job.request.into(),
            reply_bytes: (self.job.reply > 0).then(|| self.job.reply.into()),
            thread,
            threads: (self.job.threads > 1).then_some(self.job.threads),
            at_ns: measured.0,
            transactions: rtt.count(),
            sent: counts.sent,
            lost: counts.lost,
            late: counts.late,
            clock_suspects: recorder.suspects(),
            transactions_per_s: if measured.0 == 0 { 0.0 } else { rtt.count() as f64 / measured.as_secs_f64() },
            rtt_ns: rtt.quantiles(),
            interval: last.before.as_mut().map(|before| before.interval(recorder)),
            cpu: self.meter.lock().ok().and_then(|meter| meter.as_ref().and_then(Meter::so_far)),
            incidents: None,
            warnings: Vec::new(),
        };
        // If the parent is gone, this process dies with it; there is nobody to tell.
        let _ = self.send(&Answer::Progress(Box::new(progress)));
        if self.drawn {
            let _ = self.await_go();
        }
    }

    fn raw(&self, thread: u32, samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        let mut raw = self.raw.lock().map_err(|_| io::Error::other("another measuring thread panicked"))?;
        match raw.as_mut() {
            Some((writer, row)) => writer.write_block(*row, thread, samples).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

/// Time of a measuring thread's last report, and its results by then.
struct LastReport {
    at: Instant,
    /// Only with snapshots.
    before: Option<Box<Before>>,
}

/// The results of a measuring thread at its last report. Its memory is allocated before the run.
struct Before {
    rtt: Times,
    /// Times from due, if the loop has due times.
    from_due: Option<Times>,
    since: Times,
    measured_ns: u64,
    /// Start of the last block reported.
    block_at_ns: Option<u64>,
}

impl Before {
    fn new(timed: bool) -> Before {
        Before { rtt: Times::new(), from_due: timed.then(Times::new), since: Times::new(), measured_ns: 0, block_at_ns: None }
    }

    /// The results since the last report; the next call starts from here.
    fn interval(&mut self, recorder: &Recorder) -> Interval {
        let due = recorder.from_due().zip(self.from_due.as_mut()).map(|(now, before)| {
            self.since.set_to_difference(now, before);
            before.set_to(now);
            (self.since.quantiles(), self.since.encode())
        });
        let (rtt_from_due_ns, histogram_from_due) = due.unzip();
        self.since.set_to_difference(recorder.rtt(), &self.rtt);
        self.rtt.set_to(recorder.rtt());
        let duration_ns = recorder.measured_ns() - self.measured_ns;
        self.measured_ns = recorder.measured_ns();
        let new = recorder.blocks().rev().take_while(|block| self.block_at_ns.is_none_or(|told| block.at_ns > told));
        let cores: Vec<u64> = new.filter_map(|block| block.core_rtt_ns).collect();
        self.block_at_ns = recorder.blocks().next_back().map(|block| block.at_ns);
        Interval {
            duration_ns,
            rtt_ns: self.since.quantiles(),
            histogram: self.since.encode(),
            rtt_from_due_ns,
            histogram_from_due,
            core_rtt_least_ns: cores.iter().min().copied(),
            core_rtt_most_ns: cores.iter().max().copied(),
        }
    }
}

/// CPU time of this process and activity of its cores since the meter's start.
pub(super) struct Meter {
    cpus: Vec<u32>,
    began: Instant,
    usage: io::Result<thread::Usage>,
    activity: CoreActivity,
    met: u64,
    /// CPU time in ns and transactions of the measured blocks, if there were any.
    worked: Option<(u64, u64)>,
}

impl Meter {
    pub(super) fn start(cpus: &[u32]) -> Meter {
        let activity = CoreActivity::read(&RealHost, cpus);
        Meter { cpus: cpus.to_vec(), began: Instant::now(), usage: thread::process_usage(), activity, met: 0, worked: None }
    }

    /// The CPU time so far, from one system call.
    fn so_far(&self) -> Option<CpuSoFar> {
        let (Ok(before), Ok(after)) = (&self.usage, thread::process_usage()) else { return None };
        let times = |usage: &thread::Usage| usage.user_ns + usage.system_ns;
        Some(CpuSoFar {
            elapsed_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            client_ns: times(&after).saturating_sub(times(before)),
            client_switches_involuntary: after.involuntary.saturating_sub(before.involuntary),
            server_ns: None,
        })
    }

    /// The CPU figures per transaction, over `transactions`. A sleeping side that was woken in vain more than once in ten
    /// transactions gets no CPU time per transaction: waking it was the instrument's own work.
    pub(super) fn cpu(self, transactions: u64, policy: Policy, waits_in_vain: u64) -> CpuSide {
        let activity = CoreActivity::read(&RealHost, &self.cpus).since(&self.activity);
        let mut side = CpuSide {
            cpus: self.cpus,
            irq_ns: activity.irq_ns,
            softirq_ns: activity.softirq_ns,
            steal_ns: activity.steal_ns,
            interrupts: activity.interrupts.unwrap_or_default(),
            ..CpuSide::default()
        };
        if let (Ok(before), Ok(after)) = (self.usage, thread::process_usage()) {
            side.user_ns = after.user_ns.saturating_sub(before.user_ns);
            side.system_ns = after.system_ns.saturating_sub(before.system_ns);
            side.switches_voluntary = after.voluntary.saturating_sub(before.voluntary);
            side.switches_involuntary = after.involuntary.saturating_sub(before.involuntary);
            let own = side.user_ns + side.system_ns;
            side.foreign_ns = activity.busy_ns.map(|busy| busy.saturating_sub(own));
            let (work, transactions) = self.worked.unwrap_or((own.saturating_sub(self.met), transactions));
            let is_own = policy.sleeps() && waits_in_vain > transactions / 10;
            side.per_transaction_ns =
                (transactions > 0 && !is_own).then(|| (work as f64 / transactions as f64 * 10.0).round() / 10.0);
        }
        side
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use hairpin_record::histogram::Decoded;
    use hairpin_record::recorder::BlockFacts;

    use super::*;

    fn fold(recorder: &mut Recorder, at_ms: u64, core_ns: u64, rtts: std::ops::Range<u64>) {
        let facts =
            BlockFacts { at_ns: at_ms * 1_000_000, length_ns: 90_000_000, core_rtt_ns: Some(core_ns), clock_suspect: false };
        recorder.fold(facts, rtts.map(|rtt_ns| Sample { rtt_ns, ..Sample::default() }));
    }

    #[test]
    fn intervals_add_up_to_the_whole_and_know_their_cores() {
        let mut recorder = Recorder::new(None, false, 0, 1);
        let mut before = Before::new(false);
        let mut sum = Decoded::empty();
        fold(&mut recorder, 0, 120, 1000..2000);
        fold(&mut recorder, 100, 510, 1000..1100);
        let first = before.interval(&recorder);
        assert_eq!((first.rtt_ns.count, first.duration_ns), (1100, 180_000_000));
        assert_eq!((first.core_rtt_least_ns, first.core_rtt_most_ns), (Some(120), Some(510)));
        fold(&mut recorder, 200, 130, 5000..5100);
        let second = before.interval(&recorder);
        assert_eq!((second.rtt_ns.count, second.duration_ns), (100, 90_000_000));
        assert_eq!((second.core_rtt_least_ns, second.core_rtt_most_ns), (Some(130), Some(130)));
        assert!(second.rtt_ns.min.is_some_and(|min| (4990..=5000).contains(&min)), "{second:?}");
        for interval in [&first, &second] {
            sum.add(&Decoded::decode(&interval.histogram).unwrap());
        }
        assert!(sum.counts().eq(Decoded::decode(&recorder.rtt().encode()).unwrap().counts()));
        let none = before.interval(&recorder);
        assert_eq!((none.rtt_ns.count, none.core_rtt_most_ns), (0, None));
    }

    #[test]
    fn the_time_of_the_kernels_thread_counts_too() {
        let worked = |path: &str| {
            let (_other, mine) = UnixStream::pair().unwrap();
            let mut channel = Channel::plain(mine);
            let job = Job::new(path.parse().unwrap());
            let own = Own { allowed: &[0], shares_network: true };
            let reporter = Reporter::new(&mut channel, &job, Side::Client, own, None, Reports::default());
            reporter.worked(700, 7);
            reporter.meter().worked
        };
        assert_eq!((worked("uring-udp:spin"), worked("uring-udp:spin,submit=sqpoll")), (Some((700, 7)), None));
    }

    /// Prints the cost, which no test judges.
    #[test]
    fn an_interval_of_a_second_holds_all_of_it() {
        let mut recorder = Recorder::new(None, false, 0, 1);
        let mut before = Before::new(false);
        let mut took = Vec::new();
        for second in 0..5_u64 {
            for block in 0..10 {
                fold(&mut recorder, second * 1000 + block * 100, 120, 3_000..23_000);
            }
            let began = Instant::now();
            let interval = before.interval(&recorder);
            took.push(began.elapsed());
            assert_eq!(interval.rtt_ns.count, 200_000);
        }
        took.sort();
        println!("an interval of 200,000 transactions: {:?} (the middle of {})", took[2], took.len());
    }
}
