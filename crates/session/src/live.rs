//! Additions of this process to a snapshot of a running row: the server's CPU time if its worker is local,
//! and the current warnings.
//!
//! The warnings are those that [`row::derive`](crate::row::derive) makes of the whole row at its end, but of the last minute
//! alone: of an endless row the whole would keep a warning of an hour ago, and drown a fresh one in an hour of good samples. All
//! of it is read here, in the verb's process, and costs the workers nothing.

mod window;

use hairpin_plan::job::Job;
use hairpin_plan::option::RCVBUF;
use hairpin_record::progress::Progress;
use hairpin_record::run::{Block, CpuSide, Hosts, Row, Side};
use hairpin_record::warning::{Note, Warning};
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::thread;
use hairpin_tune::activity::CoreActivity;
use hairpin_units::Nanos;

use self::window::{Reading, Window};
use crate::pinnable::of_threads;
use crate::row::{RowContext, derive};
use crate::testbed::Testbed;
use crate::watch::{Told, Turn, Wants, Watcher};

/// A tick of /proc/PID/stat (USER_HZ, part of the ABI: proc(5)).
const NS_PER_TICK: u64 = 10_000_000;
/// Warnings are about this last part of a row.
const WARNED_OF: Nanos = Nanos::from_secs(60);

/// Passes everything on to a watcher; adds the local data to snapshots.
pub struct Live<'a> {
    watcher: &'a mut dyn Watcher,
    job: &'a Job,
    hosts: &'a Hosts,
    client: Cores,
    /// The server's workers, if they are on this host.
    server: Option<ServerHere>,
    /// The last progress message of each measuring thread.
    threads: Vec<Option<Progress>>,
    /// The least and the greatest distance between the two cores since the last reading that the window kept.
    cores: Option<(u64, u64)>,
    window: Window,
    /// Time for which the probe has stood still since measuring began.
    paused: Nanos,
}

/// The cores of one side, and their activity counters when measuring began.
struct Cores {
    cpus: Vec<u32>,
    before: Option<CoreActivity>,
}

struct ServerHere {
    /// One, or all responders of a group.
    pids: Vec<u32>,
    cores: Cores,
    before_ns: Option<u64>,
}

impl ServerHere {
    fn cpu_ns(&self) -> Option<u64> {
        self.pids.iter().map(|&pid| cpu_ns(&RealHost, pid)).sum()
    }
}

impl Cores {
    fn of(job: &Job, side: Side) -> Cores {
        let allowed = thread::allowed_cpus().unwrap_or_default();
        Cores { cpus: of_threads(job, side, &allowed), before: None }
    }

    fn begin(&mut self) {
        self.before = Some(CoreActivity::read(&RealHost, &self.cpus));
    }

    /// The side's CPU figures so far, in the form of the record.
    fn side(&self, own_ns: u64, switches_involuntary: u64) -> CpuSide {
        let so_far = self.before.as_ref().map(|before| CoreActivity::read(&RealHost, &self.cpus).since(before));
        let activity = so_far.unwrap_or_default();
        CpuSide {
            cpus: self.cpus.clone(),
            user_ns: own_ns,
            irq_ns: activity.irq_ns,
            softirq_ns: activity.softirq_ns,
            foreign_ns: activity.busy_ns.map(|busy| busy.saturating_sub(own_ns)),
            switches_involuntary,
            ..CpuSide::default()
        }
    }
}

impl<'a> Live<'a> {
    pub fn new(watcher: &'a mut dyn Watcher, job: &'a Job, hosts: &'a Hosts, testbed: &Testbed) -> Live<'a> {
        let pids = testbed.servers_here();
        let here = || ServerHere { pids, cores: Cores::of(job, Side::Server), before_ns: None };
        Live {
            watcher,
            job,
            hosts,
            client: Cores::of(job, Side::Client),
            server: testbed.server.is_here().then(here),
            threads: vec![None; job.threads as usize],
            cores: None,
            window: Window::default(),
            paused: Nanos::ZERO,
        }
    }

    /// The row's counters so far. Those of the cores are read for the lines of the first thread: on a host with many cores that
    /// takes milliseconds, and each of many threads has a line a second.
    fn reading(&self, progress: &Progress) -> Reading {
        let sum = |of: fn(&Progress) -> u64| self.threads.iter().flatten().map(of).sum::<u64>();
        let (elapsed_ns, client, server) = match self.window.last().filter(|_| progress.thread > 0) {
            Some(last) => (last.elapsed_ns, last.client.clone(), last.server.clone()),
            None => {
                let cpu = progress.cpu.clone().unwrap_or_default();
                let server = self.server.as_ref().zip(cpu.server_ns);
                let client = self.client.side(cpu.client_ns, cpu.client_switches_involuntary);
                (cpu.elapsed_ns, client, server.map(|(server, own_ns)| server.cores.side(own_ns, 0)))
            }
        };
        Reading {
            elapsed_ns,
            transactions: sum(|line| line.transactions),
            sent: sum(|line| line.sent),
            lost: sum(|line| line.lost),
            suspects: sum(|line| line.clock_suspects),
            paused_ns: self.paused.0,
            client,
            server,
            cores: self.cores,
        }
    }

    /// A row of this growth alone, for the warnings that follow from it.
    fn row(&self, growth: Reading) -> Row {
        // `derive` adds the length of the warm-up, from whose start CPU time is metered.
        let measured_ns = growth.elapsed_ns.saturating_sub(self.job.warmup.0);
        let paused_ns = Some(growth.paused_ns).filter(|ns| *ns > 0);
        let mut row = Row { duration_ns: measured_ns, paused_ns, ..Row::default() };
        row.rtt_ns.count = growth.transactions;
        (row.cpu.client, row.cpu.server) = (growth.client, growth.server);
        let core = |core_rtt_ns| Block { core_rtt_ns: Some(core_rtt_ns), ..Block::default() };
        row.blocks = growth.cores.map_or(Vec::new(), |(near, far)| vec![core(near), core(far)]);
        row
    }

    fn warnings(&mut self, now: &Reading) -> Vec<Note> {
        // No window is taken for the warm-up alone.
        let length = WARNED_OF.0.max(self.job.warmup.0.saturating_mul(2));
        let growth = self.window.growth(now, Nanos(length));
        let mut warnings = Vec::new();
        if growth.lost > 0 {
            let rcvbuf = self.job.spec.client.path.takes(&RCVBUF);
            warnings.push(Warning::Loss { lost: growth.lost, sent: growth.sent, rcvbuf });
        }
        if growth.suspects > 0 {
            warnings.push(Warning::ClockSuspect { blocks: growth.suspects });
        }
        // Which quantiles will be blank is known only at the end.
        let around = RowContext { hosts: self.hosts, one_host: self.server.is_some(), shown: &[] };
        warnings.extend(derive(self.job, &self.row(growth), around));
        warnings.iter().map(Warning::note).collect()
    }
}

impl Watcher for Live<'_> {
    fn begins(&mut self, index: usize, of: usize, job: &Job) {
        self.watcher.begins(index, of, job);
    }

    fn opened(&mut self, flows: u32) {
        self.watcher.opened(flows);
    }

    fn ready(&mut self) -> Result<(), String> {
        self.paused = Nanos::ZERO;
        if self.watcher.wants_snapshots() {
            self.client.begin();
            if let Some(server) = &mut self.server {
                server.cores.begin();
                server.before_ns = server.cpu_ns();
            }
        }
        self.watcher.ready()
    }

    fn wants(&self) -> Wants {
        self.watcher.wants()
    }

    fn block(&mut self, told: Told) -> Result<Option<Turn>, String> {
        self.watcher.block(told)
    }

    fn paused(&mut self, left: Option<Nanos>) {
        self.watcher.paused(left);
    }

    fn resumed(&mut self, paused: Nanos) {
        self.paused.0 += paused.0;
        self.watcher.resumed(paused);
    }

    fn say(&mut self, text: String) {
        self.watcher.say(text);
    }

    fn wants_snapshots(&self) -> bool {
        self.watcher.wants_snapshots()
    }

    fn draws(&self) -> bool {
        self.watcher.draws()
    }

    fn progress(&mut self, progress: &Progress) {
        if !self.watcher.wants_snapshots() {
            return self.watcher.progress(progress);
        }
        let mut progress = progress.clone();
        if let (Some(cpu), Some(server)) = (&mut progress.cpu, &self.server) {
            cpu.server_ns = server.before_ns.zip(server.cpu_ns()).map(|(before, now)| now.saturating_sub(before));
        }
        if let Some(interval) = &progress.interval {
            for core_ns in [interval.core_rtt_least_ns, interval.core_rtt_most_ns].into_iter().flatten() {
                let (near, far) = self.cores.unwrap_or((core_ns, core_ns));
                self.cores = Some((near.min(core_ns), far.max(core_ns)));
            }
        }
        if let Some(last) = self.threads.get_mut(progress.thread as usize) {
            *last = Some(progress.clone());
        }
        let now = self.reading(&progress);
        progress.warnings = self.warnings(&now);
        // One reading a second; without CPU time nothing tells when it was.
        if progress.thread == 0 && progress.cpu.is_some() {
            self.cores = None;
            self.window.keep(now);
        }
        self.watcher.progress(&progress);
    }

    fn ends(&mut self, row: &Row) {
        self.watcher.ends(row);
    }
}

/// User and system time of all threads of a process; `None` if /proc does not give it.
fn cpu_ns(host: &dyn Host, pid: u32) -> Option<u64> {
    let text = host.read(&format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses, which may hold any character; utime and stime are the 14th and 15th.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) * NS_PER_TICK)
}

#[cfg(test)]
mod tests {
    use hairpin_record::progress::{CpuSoFar, Interval};
    use hairpin_record::run::HostFacts;
    use hairpin_sys::host::FakeHost;

    use super::*;

    #[derive(Default)]
    struct Recorded(Vec<Progress>);

    impl Watcher for Recorded {
        fn wants_snapshots(&self) -> bool {
            true
        }
        fn progress(&mut self, progress: &Progress) {
            self.0.push(progress.clone());
        }
    }

    #[test]
    fn process_with_a_hostile_name_has_its_times() {
        let root = tempfile::tempdir().unwrap();
        let host = FakeHost::at(root.path()).with("/proc/7/stat", "7 (a) b ) R 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20\n");
        assert_eq!(cpu_ns(&host, 7), Some(1_750_000_000));
        assert_eq!(cpu_ns(&host, 8), None);
    }

    /// Of the client alone, with its server elsewhere.
    fn live<'a>(watcher: &'a mut dyn Watcher, job: &'a Job, hosts: &'a Hosts) -> Live<'a> {
        Live {
            watcher,
            job,
            hosts,
            client: Cores { cpus: Vec::new(), before: None },
            server: None,
            threads: vec![None; job.threads as usize],
            cores: None,
            window: Window::default(),
            paused: Nanos::ZERO,
        }
    }

    fn codes(line: &Progress) -> Vec<&str> {
        line.warnings.iter().map(|note| note.code.as_str()).collect()
    }

    #[test]
    fn warnings_come_with_their_cause() {
        let job = Job { threads: 2, ..hairpin_plan::job::Job::new("udp:spin".parse().unwrap()) };
        let hosts = Hosts { client: HostFacts::default(), server: None };
        let mut kept = Recorded::default();
        let mut live = live(&mut kept, &job, &hosts);
        let line = |thread, lost, core| Progress {
            thread,
            transactions: 1,
            sent: 100,
            lost,
            interval: Some(Interval { core_rtt_least_ns: core, core_rtt_most_ns: core, ..Interval::default() }),
            cpu: Some(CpuSoFar { elapsed_ns: 1_000_000_000, ..CpuSoFar::default() }),
            ..Progress::default()
        };
        live.progress(&line(0, 0, Some(120)));
        live.progress(&line(1, 2, None));
        live.progress(&line(0, 1, Some(510)));
        live.progress(&Progress {
            cpu: Some(CpuSoFar { client_switches_involuntary: 11, ..CpuSoFar::default() }),
            ..line(0, 1, None)
        });
        live.resumed(Nanos(5));
        assert_eq!(live.row(live.reading(&line(0, 1, None))).paused_ns, Some(5));
        live.ready().unwrap();
        assert_eq!(live.row(live.reading(&line(0, 1, None))).paused_ns, None, "before measuring began");
        let codes: Vec<Vec<&str>> = kept.0.iter().map(codes).collect();
        let expected: [&[&str]; 4] = [&[], &["loss"], &["loss", "core-states"], &["loss", "involuntary-switches", "core-states"]];
        assert_eq!(codes, expected);
        assert!(kept.0[2].warnings[0].message.contains("3 of 200"), "both threads: {:?}", kept.0[2].warnings[0]);
    }

    #[test]
    fn the_cores_counters_are_read_for_the_first_thread() {
        let job = Job { threads: 2, ..hairpin_plan::job::Job::new("udp:spin".parse().unwrap()) };
        let hosts = Hosts { client: HostFacts::default(), server: None };
        let mut kept = Recorded::default();
        let mut live = live(&mut kept, &job, &hosts);
        for (thread, seconds, client_switches_involuntary) in [(0, 1, 0), (1, 2, 400), (0, 2, 400)] {
            let elapsed_ns = Nanos::from_secs(seconds).0;
            let cpu = CpuSoFar { elapsed_ns, client_switches_involuntary, ..CpuSoFar::default() };
            live.progress(&Progress { thread, transactions: 9, cpu: Some(cpu), ..Progress::default() });
        }
        let codes: Vec<Vec<&str>> = kept.0.iter().map(codes).collect();
        let expected: [&[&str]; 3] = [&[], &[], &["involuntary-switches"]];
        assert_eq!(codes, expected);
    }

    #[test]
    fn warnings_are_of_the_last_minute() {
        let job = hairpin_plan::job::Job::new("udp:spin".parse().unwrap());
        let hosts = Hosts { client: HostFacts::default(), server: None };
        let mut kept = Recorded::default();
        let mut live = live(&mut kept, &job, &hosts);
        // A disturbance in the tenth second, and another one an hour later.
        for second in 1..=3_700 {
            let far = if second == 10 { 510 } else { 120 };
            live.progress(&Progress {
                transactions: second * 10,
                sent: second * 10,
                lost: u64::from(second >= 10),
                clock_suspects: u64::from(second >= 10),
                interval: Some(Interval { core_rtt_least_ns: Some(120), core_rtt_most_ns: Some(far), ..Interval::default() }),
                cpu: Some(CpuSoFar {
                    elapsed_ns: Nanos::from_secs(second).0,
                    client_switches_involuntary: if second >= 3_650 { 400 } else { 0 },
                    ..CpuSoFar::default()
                }),
                ..Progress::default()
            });
        }
        let early: &[&str] = &["loss", "clock-suspect", "core-states"];
        let all: [(usize, &[&str]); 6] =
            [(9, &[]), (10, early), (69, early), (70, &[]), (3_649, &[]), (3_650, &["involuntary-switches"])];
        for (second, expected) in all {
            assert_eq!(codes(&kept.0[second - 1]), expected, "after {second} s");
        }
        let loss = &kept.0[68].warnings[0];
        assert!(loss.message.contains("1 of 600 requests"), "those of the minute: {loss:?}");
    }
}
