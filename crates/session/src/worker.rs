//! A worker: the process that measures one side of a run, with one measuring thread per `--threads` and nothing else.
//!
//! It takes orders from the process that started it, and dies with it.

mod bulk;
mod links;
mod reporter;
mod rings;
mod stack;
mod time_of_day;

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hairpin_iopath::drive::Counts;
use hairpin_iopath::error::PathError;
use hairpin_iopath::measure::{ClientFound, ClientRun, OfReply, ServerFound, ServerRun, first_of};
use hairpin_iopath::paths::runner;
use hairpin_iopath::room::make_room;
use hairpin_plan::job::{Address, FrameTimes, Job, Listen, Schedule};
use hairpin_plan::option::RCVBUF;
use hairpin_plan::path::Speaks;
use hairpin_plan::replay;
use hairpin_plan::request::ReplyEnd;
use hairpin_plan::schedule::{Arrivals, OpenLoop};
use hairpin_record::load::OpenFound;
use hairpin_record::run::{
    ClockFacts, CpuSide, FIRST_REPLY, HostFacts, LAST_REPLY, Niq, Origin, OwnRequest, Pcie, Quantiles, Row, Side, Silence,
};
use hairpin_record::stack::Stacks;
use hairpin_record::warning::{MOST_SILENCES, Warning};
use hairpin_sys::clock::{AnyClock, Clock, Quality};
use hairpin_sys::ethtool::Ethtool;
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::netlink::{Netlink, Tbf};
use hairpin_sys::netns::{self, Sysfs};
use hairpin_sys::process::{self, Inherited};
use hairpin_sys::shared::{Announced, Shared, Stamps};
use hairpin_sys::thread::{self, Sched};
use hairpin_sys::wait::Policy;
use hairpin_units::{Arrange, Bytes, Nanos, Picos};

use crate::channel::{Channel, RecvError};
use crate::message::{
    Answer, AskRings, BounceReport, BounceWork, BulkWork, ClientReport, Failure, InterfaceFacts, LinkEnd, Namespace, Order,
    ServerReport, StreamReport, StreamWork,
};
use crate::pinnable::{choices, counted_from, of_side};
use crate::raw::{RawRow, RawWriter};

use self::reporter::{Meter, Own, Reporter, Reports};
use self::rings::{Open, Opened};
use self::time_of_day::TimeOfDay;
use crate::fds::{CONTROL_FD, NEIGHBOUR_FD, STAMPS_FD, STOP_FD};

/// A worker waits for its next order, and for its message to be read, as long as its parent lives: the parent may be stopped, or
/// wait for a reader of its own output.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// The kernel releases a queue within this time after its socket was closed.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(1);

/// Runs the worker until its parent closes the socket. `parent` is the pid of the process that started it; `neighbour` says
/// whether [`NEIGHBOUR_FD`] is open, `stamps` whether [`STAMPS_FD`] is. Must be called before any thread exists.
pub fn main(parent: u32, neighbour: bool, stamps: bool) -> ExitCode {
    match Worker::adopt(parent, neighbour, stamps).and_then(Worker::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hairpin worker: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Worker {
    parent: u32,
    channel: Channel,
    stop: Shared,
    neighbour: Option<Shared>,
    stamps: Option<Stamps>,
    allowed: Vec<u32>,
    /// The CPUs allowed to the parent.
    parents: Vec<u32>,
    /// True in a network namespace of this process alone, whose interfaces end with it.
    own_link: bool,
    clock: AnyClock,
    no_tsc: Option<Warning>,
    sysfs: Option<String>,
    raw: Option<RawWriter>,
    rings: Option<Box<dyn Opened>>,
}

impl Worker {
    fn adopt(parent: u32, neighbour: bool, stamps: bool) -> io::Result<Worker> {
        die_with(parent)?;
        process::install_nudge_handler()?;
        // The process was started as /proc/self/exe, so process lists and timelines would call it `exe`.
        let _ = std::fs::write("/proc/self/comm", "hairpin");
        let (clock, no_tsc) = choose_clock();
        let mut inherited = Inherited::claim()?;
        let allowed = thread::allowed_cpus()?;
        Ok(Worker {
            parent,
            channel: Channel::plain(inherited.take(CONTROL_FD)?).waits(FOREVER),
            stop: Shared::open(inherited.take(STOP_FD)?)?,
            neighbour: if neighbour { Some(Shared::open(inherited.take(NEIGHBOUR_FD)?)?) } else { None },
            stamps: if stamps { Some(Stamps::open(inherited.take(STAMPS_FD)?)?) } else { None },
            parents: allowed.clone(),
            own_link: false,
            allowed,
            clock,
            no_tsc,
            sysfs: None,
            raw: None,
            rings: None,
        })
    }

    fn serve(mut self) -> io::Result<()> {
        loop {
            let order = match self.channel.recv::<Order>(FOREVER) {
                Ok(order) => order,
                Err(RecvError::Closed) => return Ok(()),
                Err(error) => return Err(io::Error::other(error)),
            };
            let answer = self.obey(order).unwrap_or_else(Answer::Failed);
            self.channel.send(&answer).map_err(io::Error::other)?;
        }
    }

    fn obey(&mut self, order: Order) -> Result<Answer, Failure> {
        match order {
            Order::StayOn(cpus) => self.stay_on(&cpus),
            Order::Stack(library) => Ok(Answer::Stack(stack::found(&library))),
            Order::Enter(namespace) => self.enter(namespace),
            Order::MakeLink { medium, mtu, queues, tx_queues, peer_pid } => {
                made(links::make(medium, links::Ends { mtu, queues, tx_queues, peer_pid }))
            }
            Order::MakePort { mtu, queues, tx_queues, peer_pid, port } => {
                made(links::port(links::Ends { mtu, queues, tx_queues, peer_pid }, port))
            }
            Order::MakeOverlay(end) => made(links::overlay(&end)),
            Order::Addresses => links::addresses().map(Answer::Addresses).map_err(failed),
            Order::Towards(address) => Ok(Answer::From(links::towards(address))),
            Order::SetUp(end) => set_up(&end).map(|()| Answer::Done).map_err(failed),
            Order::Facts { interface, cpu, threads, server } => Ok(self.facts(interface.as_deref(), cpu, threads, server)),
            Order::Raw { path, rows } => {
                let row = |(path, request_bytes, reply_bytes)| RawRow { path, request_bytes, reply_bytes };
                let rows: Vec<RawRow> = rows.into_iter().map(row).collect();
                self.raw = Some(RawWriter::create(&path, &rows).map_err(failed)?);
                Ok(Answer::Done)
            }
            Order::Plan { job, listen, most_per_s } => self.answer_requests(&job, listen, most_per_s),
            Order::Row { job, peer, index, snapshots, drawn } => self.measure(&job, peer, index, snapshots, drawn),
            Order::Go => Ok(Answer::Done),
            Order::Rings(ask) => self.open_rings(ask.as_deref()),
            Order::Stream(work) => self.stream(&work),
            Order::Bounce(work) => self.bounce(&work),
            Order::Bulk(work) => self.bulk(work),
            Order::Interface(name) => interface(&name).map(Answer::Interface).map_err(failed),
            Order::End => match self.raw.take() {
                Some(raw) => raw.finish().map(|()| Answer::Done).map_err(failed),
                None => Ok(Answer::Done),
            },
        }
    }

    fn stay_on(&mut self, cpus: &[u32]) -> Result<Answer, Failure> {
        thread::stay_on(cpus).and_then(|()| thread::allowed_cpus()).map(|allowed| self.allowed = allowed).map_err(failed)?;
        Ok(Answer::Done)
    }

    fn enter(&mut self, namespace: Namespace) -> Result<Answer, Failure> {
        let own_link = !matches!(namespace, Namespace::JoinNetwork(_) | Namespace::JoinFile(_));
        let entered = match namespace {
            Namespace::New => netns::enter_new(false),
            Namespace::NewUser => netns::enter_new(true),
            Namespace::JoinUser(pid) => netns::join_user_of(pid),
            Namespace::JoinNetwork(pid) => {
                let unread = || Sysfs::Unread("only the network namespace was joined".into());
                netns::join_network_of(pid).map(|()| netns::Entered { sysfs: unread() })
            }
            Namespace::JoinFile(file) => netns::join_network_at(&file),
        };
        let entered = entered.map_err(|error| Failure { message: error.to_string(), missing: true })?;
        self.own_link = own_link;
        // A change of credentials clears the parent-death signal.
        die_with(self.parent).map_err(failed)?;
        self.sysfs = match entered.sysfs {
            Sysfs::Own => None,
            Sysfs::Unread(why) => Some(why),
        };
        Ok(Answer::Entered { sysfs: self.sysfs.clone() })
    }

    fn facts(&self, interface: Option<&str>, cpu: Option<u32>, threads: u32, server: bool) -> Answer {
        let choices = choices(cpu.as_slice(), &self.allowed);
        let side = if server { Side::Server } else { Side::Client };
        let first = cpu.or_else(|| choices.get(first_of(side, threads, choices.len())).copied()).unwrap_or(0);
        let cpus = counted_from(first, threads as usize, &choices);
        let mut facts: HostFacts = hairpin_tune::facts(&RealHost, &hairpin_tune::Place { cpus: &cpus, interface });
        if let Some(why) = &self.sysfs {
            facts.unread.insert("sysfs".into(), why.clone());
        }
        Answer::Facts { facts, clock: clock_facts(&self.clock), stamps: true }
    }

    fn open_rings(&mut self, ask: Option<&AskRings>) -> Result<Answer, Failure> {
        // A queue has one owner, so the open rings must close first.
        let had = self.rings.take().map(|rings| rings.close()).is_some();
        let Some(ask) = ask else { return Ok(Answer::Done) };
        let patience = if had { GIVEN_BACK_WITHIN } else { Duration::ZERO };
        let Open { io, opened, rings, output, passed_over } = rings::open(ask, patience)?;
        self.rings = Some(opened);
        Ok(Answer::Rings { io: Box::new(io), rings, output, passed_over })
    }

    fn bounce(&mut self, work: &BounceWork) -> Result<Answer, Failure> {
        let rings = self.rings.as_mut().ok_or_else(|| failed("no rings are open"))?;
        let channel = &mut self.channel;
        channel.send(&Answer::Ready(None)).map_err(failed)?;
        let (meter, start) = (Meter::start(&work.cpus), Instant::now());
        let since = || Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let ran = rings.bounce(work, self.clock, &self.stop, &mut |frames| {
            // The thread that bounces must not wait for its parent. If that is gone, this process dies with it; there is nobody
            // to tell.
            let _ = channel.offer(&Answer::Bouncing { at: since(), frames: *frames });
        });
        let (duration, cpu) = (since(), meter.cpu(ran.counts.received, Policy::Spin, 0));
        Ok(Answer::Bounced(Box::new(BounceReport { duration, frames: ran.counts, cpu, error: ran.error })))
    }

    fn stream(&mut self, work: &StreamWork) -> Result<Answer, Failure> {
        let rings = self.rings.as_mut().ok_or_else(|| failed("no rings are open"))?;
        let channel = &mut self.channel;
        channel.send(&Answer::Ready(None)).map_err(failed)?;
        let meter = Meter::start(&work.cpus);
        let ran = rings.stream(work, self.clock, &self.stop, &mut |counts| {
            // The thread that counts must not wait for its parent, which reads the other side first.
            let _ = channel.offer(&Answer::Streaming(*counts));
        });
        let cpu = meter.cpu(ran.counts.sent.max(ran.counts.came), Policy::Spin, 0);
        Ok(Answer::Streamed(Box::new(StreamReport { counts: ran.counts, lost: ran.lost, cpu, error: ran.error })))
    }

    fn bulk(&mut self, work: BulkWork) -> Result<Answer, Failure> {
        let channel = &mut self.channel;
        let report = bulk::run(work, &self.stop, |address| channel.send(&Answer::Ready(address)).map_err(io::Error::other));
        report.map(Answer::Bulk).map_err(failed)
    }

    fn answer_requests(&mut self, job: &Job, listen: Listen, most_per_s: Option<f64>) -> Result<Answer, Failure> {
        self.untell();
        make_room(job, Side::Server).map_err(path_failure)?;
        let allowed = of_side(job, Side::Server, &self.allowed);
        let others = self.parents.iter().filter(|cpu| !allowed.contains(cpu)).count();
        let began = TimeOfDay::now();
        let own = Own { allowed: &allowed, shares_network: !self.own_link };
        let reporter = Reporter::new(&mut self.channel, job, Side::Server, own, None, Reports::default());
        let mut run = ServerRun {
            job,
            listen,
            clock: self.clock,
            stop: &self.stop,
            neighbour: self.neighbour.as_ref(),
            stamps: self.stamps.as_ref().filter(|_| job.traced),
            allowed: &allowed,
            cores: allowed.len() + others,
            own_link: self.own_link,
            most_per_s,
            heard_on: Vec::new(),
            observer: &reporter,
            found: ServerFound::default(),
        };
        let outcome = runner(job.spec.server.path).echo(&mut run);
        leave_fifo(job.sched);
        let mut found = run.found;
        found.side.warnings.extend(began.set_until(&TimeOfDay::now(), Side::Server));
        let stack = reporter.stack(found.answered);
        let mut cpu = reporter.meter().cpu(found.answered, job.spec.server.policy, found.waits_in_vain);
        cpu.busy_polled_packets = found.side.polled.map(|polled| polled.packets);
        outcome.map_err(path_failure)?;
        Ok(Answer::Server(Box::new(ServerReport {
            turnaround_ns: found.turnaround.quantiles(),
            answered: found.answered,
            error: found.error,
            cpu,
            tcp: found.side.tcp,
            granted: found.side.granted,
            flow_facts: found.side.flow_facts,
            extra_calls: found.side.extra_calls,
            pcie: found.side.pcie,
            stack,
            bounced: found.bounced,
            warnings: found.side.warnings.iter().map(Warning::note).collect(),
        })))
    }

    /// Clears the thread and flow announced for the row before.
    fn untell(&self) {
        if let Some(stamps) = &self.stamps {
            stamps.announce(Announced::default());
        }
    }

    fn measure(&mut self, job: &Job, peer: Address, index: u32, snapshots: bool, drawn: bool) -> Result<Answer, Failure> {
        self.untell();
        make_room(job, Side::Client).map_err(path_failure)?;
        let raw = self.raw.as_mut().map(|raw| (raw, index));
        let job = &with_recording(job)?;
        let allowed = of_side(job, Side::Client, &self.allowed);
        let began = TimeOfDay::now();
        let own = Own { allowed: &allowed, shares_network: !self.own_link };
        let reporter = Reporter::new(&mut self.channel, job, Side::Client, own, raw, Reports { snapshots, drawn });
        let mut run = ClientRun {
            job,
            peer,
            clock: self.clock,
            stop: &self.stop,
            neighbour: self.neighbour.as_ref(),
            stamps: self.stamps.as_ref().filter(|_| job.traced),
            allowed: &allowed,
            own_link: self.own_link,
            observer: &reporter,
            found: ClientFound::default(),
        };
        let outcome = runner(job.spec.client.path).ping(&mut run);
        leave_fifo(job.sched);
        let mut found = run.found;
        found.side.warnings.extend(began.set_until(&TimeOfDay::now(), Side::Client));
        let stack = reporter.stack(received(found.exchanges, &found.counts));
        let mut cpu = reporter.meter().cpu(found.exchanges, job.spec.client.policy, found.counts.waits_in_vain);
        cpu.busy_polled_packets = found.side.polled.map(|polled| polled.packets);
        // A run that failed after it began still has results.
        if found.recorder.is_none() {
            outcome.map_err(path_failure)?;
            return Err(failed("nothing was measured"));
        }
        let replies = std::mem::take(&mut found.replies);
        let mut report = self.client_report(job, found, cpu, outcome.err());
        report.replies = replies.into_iter().map(|one| of_reply(&mut report.row, one)).collect();
        report.row.stack = stack.map(|client| Box::new(Stacks { client: Some(client), server: None }));
        Ok(Answer::Client(Box::new(report)))
    }

    fn client_report(&self, job: &Job, found: ClientFound, cpu: CpuSide, error: Option<PathError>) -> ClientReport {
        let mut row = Row {
            path: job.spec.to_string(),
            origin: if job.emulated.is_some() { Origin::Emulated } else { Origin::Measured },
            request_bytes: job.request.into(),
            reply_bytes: job.reply.into(),
            flows: job.flows,
            threads: job.threads,
            outstanding: job.outstanding,
            pace_per_s: job.pace,
            lost: found.counts.lost,
            late: found.counts.late,
            duplicates: found.counts.duplicates,
            reordered: found.counts.reordered,
            corrupt: found.counts.corrupt,
            gap_ns: found.gap_ns,
            parts_ns: found.parts.iter().map(|(name, times)| (name.clone(), times.quantiles())).collect(),
            extra_calls: found.side.extra_calls,
            flow_facts: found.side.flow_facts,
            flow_groups: found.side.flow_groups,
            granted: found.side.granted,
            ..Row::default()
        };
        row.cpu.client = cpu;
        row.tcp = found.side.tcp.map(|client| hairpin_record::run::Tcp { client, server: None });
        let mut warnings: Vec<Warning> = found.side.warnings;
        warnings.extend(self.no_tsc.clone());
        row.silences = found.silences;
        row.silences.arrange_by_key(|silence| silence.at_ns);
        warnings.extend(no_answer(&row.silences));
        // Silence is left out: a server that stood still lost nothing that a larger buffer would have kept.
        let lost = found.counts.lost.saturating_sub(lost_in(&row.silences, found.counts.late));
        // With a full list nothing tells how much of it was lost in other silences.
        if lost > 0 && (row.silences.len() as u64) < MOST_SILENCES {
            let rcvbuf = job.spec.client.path.takes(&RCVBUF);
            warnings.push(Warning::Loss { lost, sent: found.counts.sent, rcvbuf });
        }
        if let Some(own) = &found.own {
            row.reply_bytes = own.first_bytes;
            warnings.extend(unlike(job, own));
        }
        if job.own.as_ref().and_then(|own| own.tls.as_ref()).is_some_and(|tls| tls.insecure) {
            warnings.push(Warning::CertificateUnchecked);
        }
        row.own_request = found.own.map(Box::new);
        let mut open = None;
        if let Some(recorder) = found.recorder {
            open = OpenFound::distributions(&recorder).map(|found_by| {
                let counts = &found.counts;
                Box::new(OpenFound {
                    sent: counts.sent,
                    found_no_room: counts.full,
                    stalls: (counts.stalls, counts.stalled_ns),
                    ..found_by
                })
            });
            if recorder.suspects() > 0 {
                warnings.push(Warning::ClockSuspect { blocks: recorder.suspects() });
            }
            recorder.finish(&mut row);
        }
        row.niq = found.side.pcie.map(|client| Box::new(niq(job, client, found.own_ns, found.stalled, &row.rtt_ns)));
        let stop = Nanos(found.counts.longest_stop_ns);
        // Time in a blocking send call is not a stop.
        if stop.0 > 2 * row.rtt_ns.p50.unwrap_or(0) {
            warnings.push(Warning::Stopped { gap: stop });
        }
        row.warnings = warnings.iter().map(Warning::note).collect();
        let error = found.error.or(error.map(|error| error.to_string()));
        let answered = row.own_request.is_some();
        ClientReport {
            row,
            exchanges: found.exchanges,
            stopped: found.stopped,
            error: error.map(|error| if answered { with_limits(job, error) } else { error }),
            drift_ppb: found.drift_ppb,
            open,
            replies: Vec::new(),
        }
    }
}

/// Gives the next row an ordinary thread and ordinary memory, as it may not ask for others.
fn leave_fifo(sched: Schedule) {
    if sched != Schedule::Other {
        // Both are always allowed.
        let _ = thread::set_sched(Sched::Other);
        let _ = thread::unlock_memory();
    }
}

/// A row of one of the replies to each request, beside that of the last one.
fn of_reply(last: &mut Row, one: OfReply) -> Row {
    last.reply = Some(LAST_REPLY.into());
    let mut row = Row {
        path: last.path.clone(),
        request_bytes: last.request_bytes,
        reply_bytes: last.reply_bytes,
        flows: last.flows,
        threads: last.threads,
        outstanding: last.outstanding,
        pace_per_s: last.pace_per_s,
        lost: one.lost,
        late: one.late,
        duplicates: one.duplicates,
        gap_ns: last.gap_ns,
        ..Row::default()
    };
    one.recorder.finish(&mut row);
    if one.lost > 0 {
        row.warnings.push(Warning::Loss { lost: one.lost, sent: one.asked, rcvbuf: true }.note());
    }
    if one.reply != FIRST_REPLY {
        // With the blocks and series of every responder a record would have some 50 MB.
        (row.blocks, row.series) = (Vec::new(), Vec::new());
    }
    row.reply = Some(one.reply);
    row
}

/// The job with the recording that it replays, read on the host that needs it.
fn with_recording(job: &Job) -> Result<Job, Failure> {
    let mut job = job.clone();
    if let Some(OpenLoop { arrivals: Arrivals::Replay { file, arrivals }, smallest, .. }) = &mut job.open {
        let read = replay::load(file).map_err(failed)?;
        // Buffers and tables are sized for the sizes read first.
        if read.iter().any(|one| !(*smallest..=job.request).contains(&one.size)) {
            return Err(failed(format_args!("{} has changed since it was read first", file.display())));
        }
        *arrivals = read.into();
    }
    Ok(job)
}

/// The emulated design, and the steps of the client's driver.
fn niq(job: &Job, client: Pcie, own_ns: Option<f64>, stalled: Option<(u64, u64)>, rtt: &Quantiles) -> Niq {
    let one_way = |times: FrameTimes| Picos(times.one_way_ps());
    let without = stalled.zip(rtt.mean).and_then(|((count, ns), mean)| {
        let others = rtt.count.checked_sub(count).filter(|others| *others > 0)?;
        Some((mean * rtt.count as f64 - ns as f64) / others as f64)
    });
    Niq {
        nic: job.emulated.as_ref().map(|emulated| emulated.nic.clone()),
        request_ns: job.emulated.as_ref().map(|emulated| one_way(emulated.request)),
        reply_ns: job.emulated.as_ref().map(|emulated| one_way(emulated.reply)),
        own_ns,
        client,
        server: None,
        stalled: stalled.map(|(count, _)| count),
        rtt_mean_without_stalled_ns: without,
    }
}

/// Warns of errors of the server, and of replies that may be errors.
fn unlike(job: &Job, own: &OwnRequest) -> Option<Warning> {
    own.warning(job.own.as_ref().is_some_and(|request| request.end.tells_errors()))
}

/// The error, with the settings of HTTP servers that close a connection which was to stay open.
fn with_limits(job: &Job, error: String) -> String {
    let is_http = job.own.as_ref().is_some_and(|own| own.end == ReplyEnd::Http);
    let stays = job.spec.client.speaks() != Speaks::TcpPerTransaction;
    if is_http && stays && error.starts_with("the server closed the connection") {
        format!("{error}; nginx closes one after keepalive_requests requests, Apache after MaxKeepAliveRequests: raise that")
    } else {
        error
    }
}

/// Warns of the longest silence. They are in order of time; several threads hear the same one.
fn no_answer(silences: &[Silence]) -> Option<Warning> {
    let longest = *silences.iter().max_by_key(|silence| silence.length_ns)?;
    let (mut count, mut together, mut until) = (0, 0, 0);
    for one in silences {
        let end = one.at_ns + one.length_ns;
        count += u64::from(count == 0 || one.at_ns >= until);
        together += end.saturating_sub(one.at_ns.max(until));
        until = until.max(end);
    }
    Some(Warning::NoAnswer { longest, count, together: Nanos(together) })
}

/// Most requests of silences that count as lost: those that were never answered, and the `late` ones.
fn lost_in(silences: &[Silence], late: u64) -> u64 {
    let sent: u64 = silences.iter().map(|silence| silence.sent).sum();
    let answered: u64 = silences.iter().map(|silence| silence.answered).sum();
    sent.saturating_sub(answered) + answered.min(late)
}

/// Messages that came to the client. Requests lost during warm-up are not subtracted.
fn received(exchanges: u64, counts: &Counts) -> u64 {
    (exchanges + counts.late + counts.duplicates).saturating_sub(counts.lost)
}

fn die_with(parent: u32) -> io::Result<()> {
    let pid = i32::try_from(parent).ok().and_then(rustix::process::Pid::from_raw);
    process::die_with_parent(pid.ok_or(io::ErrorKind::InvalidInput)?)
}

fn failed(error: impl ToString) -> Failure {
    Failure { message: error.to_string(), missing: false }
}

fn path_failure(error: PathError) -> Failure {
    Failure { message: error.to_string(), missing: error.is_missing() }
}

/// The clock's facts for the record; measures the clock.
pub fn clock_facts<C: Clock>(clock: &C) -> ClockFacts {
    let quality = Quality::measure(clock);
    let tenth = |ns: f64| (ns * 10.0).round() / 10.0;
    ClockFacts {
        source: clock.source().into(),
        cost_ns: tenth(quality.cost_ns),
        step_ns: tenth(quality.step_ns),
        ticks_per_s: (clock.rate() * 1e9).round(),
        drift_ppb: None,
    }
}

/// A failure to make a link is a missing feature of the host.
fn made(made: Result<(), links::MakeError>) -> Result<Answer, Failure> {
    made.map(|()| Answer::Done).map_err(|error| Failure { message: error.to_string(), missing: true })
}

fn set_up(end: &LinkEnd) -> Result<(), String> {
    let netlink = Netlink::open().map_err(|error| error.to_string())?;
    if let Some(on) = end.timestamps {
        netns::set_sysctl("net.ipv4.tcp_timestamps", if on { "1" } else { "0" }).map_err(|error| error.to_string())?;
    }
    if end.gro.is_some() || end.tso.is_some() {
        let ethtool = Ethtool::open().map_err(|error| error.to_string())?;
        let gro = end.gro.map_or(Ok(()), |on| ethtool.set_gro(&end.interface, on));
        let tso = end.tso.map_or(Ok(()), |on| ethtool.set_tso(&end.interface, on));
        gro.and(tso).map_err(|error| error.to_string())?;
    }
    if let Some(rate) = end.rate {
        // The bucket holds two full frames or 1 ms, whichever is more; the queue holds 50 ms.
        let mtu = netlink.link(&end.interface).map_err(|error| error.to_string())?.mtu;
        let burst = Bytes((rate.0 / 8 / 1000).max(2 * (u64::from(mtu) + 14)));
        let tbf = Tbf { rate, burst, limit: Bytes((rate.0 / 8 / 20).max(burst.0)) };
        netlink.add_tbf(&end.interface, &tbf).map_err(|error| error.to_string())?;
    }
    if end.quiet {
        // A kernel without IPv6 lacks this sysctl, and needs none.
        let _ = netns::set_sysctl(&format!("net.ipv6.conf.{}.disable_ipv6", end.interface), "1");
    }
    for (address, prefix) in &end.addresses {
        netlink.add_address(&end.interface, *address, *prefix).map_err(|error| error.to_string())?;
    }
    netlink.set_up(&end.interface).map_err(|error| error.to_string())
}

/// An interface's address, and the frames that the kernel counted on it (/proc/net/dev of this process's namespace).
fn interface(name: &str) -> Result<InterfaceFacts, String> {
    let link = Netlink::open().and_then(|netlink| netlink.link(name)).map_err(|error| error.to_string())?;
    let text = RealHost.read("/proc/self/net/dev").map_err(|error| format!("cannot read /proc/self/net/dev: {error}"))?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    // The second field is the count of received frames.
    let rx_frames = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    let rx_frames = rx_frames.ok_or_else(|| format!("/proc/self/net/dev says nothing of {name}"))?;
    Ok(InterfaceFacts { mac: link.mac, mtu: link.mtu, rx_frames })
}

/// The CPU's counter if it can be trusted, else CLOCK_MONOTONIC_RAW with a warning that gives the reason. Calibrates for 10 ms.
pub fn choose_clock() -> (AnyClock, Option<Warning>) {
    let (clock, why) = AnyClock::calibrate();
    (clock, why.map(|why| Warning::NoTsc { why: why.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence(at_ms: u64, ms: u64, sent: u64, answered: u64) -> Silence {
        Silence { at_ns: at_ms * 1_000_000, length_ns: ms * 1_000_000, sent, answered }
    }

    #[test]
    fn a_silence_that_several_threads_hear_is_one() {
        let told = |silences: &[Silence]| match no_answer(silences) {
            Some(Warning::NoAnswer { longest, count, together }) => (longest.at_ns / 1_000_000, count, together.0 / 1_000_000),
            other => panic!("{other:?}"),
        };
        let heard = [silence(3_000, 1_000, 1, 1), silence(3_100, 1_000, 1, 1), silence(5_000, 200, 1, 0)];
        assert_eq!(told(&heard), (3_100, 2, 1_300));
        assert_eq!(told(&[silence(0, 500, 1, 1), silence(100, 200, 1, 1), silence(500, 100, 1, 1)]), (0, 2, 600));
        assert_eq!(no_answer(&[]), None);
    }

    #[test]
    fn a_silence_hides_no_loss_of_another_time() {
        // Of 15,000 requests a third was given up before the answers came.
        assert_eq!(lost_in(&[silence(0, 150, 15_000, 15_000)], 5_000), 5_000);
        assert_eq!(lost_in(&[silence(0, 150, 15_000, 0), silence(900, 150, 10, 8)], 3), 15_005, "a dead link");
        assert_eq!(lost_in(&[], 7), 0);
    }

    #[test]
    fn a_lost_request_brings_no_message() {
        let counts = Counts { lost: 60, late: 3, duplicates: 2, ..Counts::default() };
        assert_eq!((received(100, &counts), received(10, &counts)), (45, 0));
    }

    #[test]
    fn the_thread_is_an_ordinary_one_after_a_row_under_fifo() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("the thread's line");
            // The 41st field. The second, the name, ends with the last bracket, and may contain spaces.
            let (_, after) = stat.rsplit_once(')').expect("a name");
            after.split_whitespace().nth(38).map(str::to_owned)
        };
        let then = std::thread::spawn(move || {
            // Without the right to it, the thread stays an ordinary one throughout.
            let _ = thread::set_sched(Sched::Fifo(1));
            leave_fifo(Schedule::Fifo(1));
            policy()
        });
        assert_eq!(then.join().expect("the thread").as_deref(), Some("0"), "SCHED_OTHER");
    }
}
