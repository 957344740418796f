//! `hairpin check --host`: how often each core stalls under a thread that only reads the clock, who had it instead, and how near the cores are.
//!
//! ```text
//!   cores     dealt into turns: at most half of those allowed spin at once, SMT siblings never together
//!   round     turn 1: block │ block with hooks │ turn 2: block │ block with hooks │ …        so that all turns see the same times
//!   block     every core of the turn spins, and this process sleeps; between blocks it reads events and counters
//!   end       a cache line to and fro between each two cores ─▶ the pair to take
//! ```
//! Counts and lengths are of blocks without hooks, causes of those with: a hook adds its own time to a stall.

mod choice;
mod spin;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

use hairpin_record::compare::Placement;
use hairpin_record::head::Record;
use hairpin_record::histogram::Times;
use hairpin_record::noise::{CoreNoise, Noise, NoiseBody, Stall};
use hairpin_record::warning::Note;
use hairpin_session::error::Blame;
use hairpin_session::rows;
use hairpin_session::side::wait;
use hairpin_session::worker::{choose_clock, clock_facts};
use hairpin_sys::clock::{AnyClock, Clock};
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::shared::Announced;
use hairpin_sys::signal::Signals;
use hairpin_sys::thread;
use hairpin_trace::causes::Part;
use hairpin_trace::cores::Cores;
use hairpin_trace::events::{CPUS, Event, Events, WatchedFlow, What};
use hairpin_trace::join::Span;
use hairpin_trace::names::Names;
use hairpin_trace::stalls::{self, Sums, UNKNOWN};
use hairpin_trace::tracer::TracerError;
use hairpin_tune::activity::CoreActivity;
use hairpin_tune::{Place, facts, parse_cpus};
use hairpin_units::{Arrange, Nanos};

use self::choice::choose;
use self::spin::Spun;
use crate::compare::placements::{distance, related};

/// Most cores, since each two of them are a pair to measure …
pub const MOST: usize = 64;
/// … and as many as are looked at if nobody names them.
const UNNAMED: usize = 16;
/// The least time for a core.
pub const LEAST: Nanos = Nanos::from_millis(100);
/// Longest block.
const BLOCK: Duration = Duration::from_millis(500);
/// Readings before each block are not counted: the loop comes into the caches.
const WARM_UP: Duration = Duration::from_millis(1);
/// The least gap that is a stall, in ns …
const STALL_NS: f64 = 1_000.0;
/// … unless the clock is coarse: then it takes this many steps.
const STEPS: f64 = 4.0;
/// The longest stalls of a core that are kept one by one.
const LONGEST: usize = 16;
/// MSR_SMI_COUNT of Intel's CPUs.
const SMI_COUNT: u64 = 0x34;

/// What to look at.
#[derive(Clone, Debug)]
pub struct NoisePlan {
    /// The cores; those allowed if not given.
    pub cpus: Option<Vec<u32>>,
    /// The time for which each core is looked at.
    pub duration: Nanos,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Why nothing was looked at.
#[derive(Debug, thiserror::Error)]
pub enum NoiseError {
    /// A core that this process may not use.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed} (--cpu LIST)")]
    Cpu {
        cpu: u32,
        /// The CPUs allowed.
        allowed: String,
    },
    /// Too many pairs.
    #[error("--cpu names {0} CPUs, and {MOST} can be looked at in one go: name fewer")]
    TooMany(usize),
    /// Too short a time.
    #[error("--duration {0} is too short to see stalls: give each core {LEAST} or more")]
    Short(Nanos),
    /// A call failed.
    #[error("cannot {step}: {error}")]
    Failed { step: &'static str, error: String },
    /// Ctrl-C came before anything was seen.
    #[error("stopped before anything was measured")]
    Interrupted,
}

impl NoiseError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            NoiseError::Cpu { .. } | NoiseError::TooMany(_) | NoiseError::Short(_) => Blame::Usage,
            NoiseError::Failed { .. } | NoiseError::Interrupted => Blame::Failed,
        }
    }
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> NoiseError {
    move |error| NoiseError::Failed { step, error: error.to_string() }
}

/// The part of the work that goes on, and how much of it is over.
pub type Watcher<'a> = dyn FnMut(&str, f64) + 'a;

/// Looks at the cores.
///
/// # Errors
/// Nothing was measured. A later failure is in the record.
pub fn run(plan: &NoisePlan, signals: &Signals, watcher: &mut Watcher<'_>) -> Result<Noise, NoiseError> {
    let allowed = thread::allowed_cpus().map_err(failed("tell the CPUs that are allowed"))?;
    let cpus = cores_of(plan, &allowed)?;
    let head = rows::begin::<NoiseBody>(&plan.command);
    let (clock, _) = choose_clock();
    let clock_facts = clock_facts(&clock);
    let threshold_ns = STALL_NS.max(STEPS * clock_facts.step_ns).ceil() as u64;
    let at_once = (allowed.len() / 2).clamp(1, CPUS);
    let mut turns: Vec<Turn> = in_turns(&RealHost, &cpus, at_once).into_iter().map(Turn::new).collect();
    let mut noise = Record {
        head,
        body: NoiseBody {
            host: facts(&RealHost, &Place { cpus: &cpus, interface: None }),
            clock: clock_facts,
            threshold_ns,
            at_once: at_once.min(cpus.len()) as u32,
            no_causes: turns.iter_mut().find_map(|turn| turn.load().err()).as_ref().map(without_hooks),
            cores: Vec::new(),
            pairs: Vec::new(),
            choice: None,
            why: String::new(),
            warnings: Vec::new(),
        },
    };
    if noise.no_causes.is_some() {
        turns.iter_mut().for_each(|turn| turn.events = None);
    }
    let mut look = Look { clock, threshold: clock.to_ticks(threshold_ns), began: Instant::now(), interrupted: false };
    let ended = look.rounds(&mut turns, plan.duration.into(), &allowed, signals, watcher);
    noise.head.interrupted = look.interrupted;
    noise.head.error = ended.err().map(|error| error.to_string());
    let missing = turns.iter().filter_map(|turn| turn.events.as_ref()).flat_map(|events| events.missing()).map(|hook| hook.name);
    let mut missing: Vec<&str> = missing.collect();
    missing.dedup();
    noise.warnings =
        warnings(&RealHost, &noise, &allowed, plan.cpus.is_none(), &missing, turns.iter().map(|turn| turn.lost).sum());
    let no_causes = noise.no_causes.clone();
    noise.cores = turns.into_iter().flat_map(|turn| turn.cores).map(|core| core.finish(no_causes.as_deref())).collect();
    noise.cores.retain(|core| core.duration_ns > 0);
    noise.cores.arrange_by_key(|core| core.cpu);
    if noise.cores.is_empty() {
        return Err(noise
            .head
            .error
            .map_or(NoiseError::Interrupted, |error| NoiseError::Failed { step: "look at the cores", error }));
    }
    if !noise.head.interrupted && noise.head.error.is_none() {
        noise.pairs = pairs(&cpus, &mut noise.head.interrupted, signals, watcher);
    }
    (noise.body.choice, noise.body.why) = choose(&noise.body.cores, &noise.body.pairs);
    Ok(noise)
}

/// The cores that were asked for, or the first of those allowed.
fn cores_of(plan: &NoisePlan, allowed: &[u32]) -> Result<Vec<u32>, NoiseError> {
    let cpus = plan.cpus.clone().unwrap_or_else(|| allowed.iter().take(UNNAMED).copied().collect());
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        let allowed = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        return Err(NoiseError::Cpu { cpu: *cpu, allowed });
    }
    if cpus.len() > MOST {
        return Err(NoiseError::TooMany(cpus.len()));
    }
    if plan.duration < LEAST {
        return Err(NoiseError::Short(plan.duration));
    }
    Ok(cpus)
}

/// Deals the cores into turns of at most `at_once`: the first threads of all cores before the second ones.
fn in_turns(host: &dyn Host, cpus: &[u32], at_once: usize) -> Vec<Vec<u32>> {
    let sibling = |cpu: &u32| {
        let siblings = host.read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        siblings.ok().and_then(|list| parse_cpus(&list).ok()).map_or(0, |all| all.iter().take_while(|other| *other < cpu).count())
    };
    let mut cpus = cpus.to_vec();
    cpus.arrange_by_key(|cpu| (sibling(cpu), *cpu));
    let turns = cpus.len().div_ceil(at_once.max(1)).max(1);
    cpus.chunks(cpus.len().div_ceil(turns).max(1)).map(<[u32]>::to_vec).collect()
}

/// Cores that spin at once, and the hooks on them.
struct Turn {
    cores: Vec<Core>,
    events: Option<Events>,
    /// Events that found no room.
    lost: u64,
}

impl Turn {
    fn new(cpus: Vec<u32>) -> Turn {
        Turn { cores: cpus.into_iter().map(Core::new).collect(), events: None, lost: 0 }
    }

    fn cpus(&self) -> Vec<u32> {
        self.cores.iter().map(|core| core.noise.cpu).collect()
    }

    fn load(&mut self) -> Result<(), TracerError> {
        let nobody = Announced::default();
        self.events = Some(Events::load(&WatchedFlow { protocol: None, client: nobody, server: nobody, cpus: self.cpus() })?);
        Ok(())
    }
}

/// Why no hook looks for causes, with the right that it takes.
fn without_hooks(error: &TracerError) -> String {
    let rights = matches!(error, TracerError::Bpf(error) if error.source.kind() == io::ErrorKind::PermissionDenied);
    format!("{}: {error}", if rights { "no rights" } else { "no hooks" })
}

/// One core so far.
struct Core {
    noise: CoreNoise,
    turns: u64,
    times: Times,
    traced: Times,
    causes: Sums,
    /// Stolen time of all blocks, while it can be read.
    steal: Option<u64>,
}

impl Core {
    fn new(cpu: u32) -> Core {
        let noise = CoreNoise { cpu, ..CoreNoise::default() };
        Core { noise, turns: 0, times: Times::new(), traced: Times::new(), causes: Sums::default(), steal: Some(0) }
    }

    /// Adds a block without hooks.
    fn add(&mut self, spun: &Spun, clock: &AnyClock, at_ns: u64) {
        self.noise.duration_ns += clock.to_ns(spun.ended.since(spun.began));
        self.turns += spun.turns;
        for (from, to) in &spun.stalls {
            let ns = clock.to_ns(to.since(*from));
            self.times.record(ns);
            self.noise.lost_ns += ns;
            self.noise.above_1us += u64::from(ns > 1_000);
            self.noise.above_10us += u64::from(ns > 10_000);
            self.noise.above_100us += u64::from(ns > 100_000);
            self.keep(Stall { at_ns: at_ns + clock.to_ns(from.since(spun.began)), ns, ..Stall::default() });
        }
    }

    /// Adds a block with hooks; `parts` has the cause of each stall.
    fn add_traced(&mut self, spun: &Spun, parts: &[Part], clock: &AnyClock, at_ns: u64) {
        self.noise.traced_ns += clock.to_ns(spun.ended.since(spun.began));
        for ((from, to), part) in spun.stalls.iter().zip(parts) {
            let ns = clock.to_ns(to.since(*from));
            self.traced.record(ns);
            self.causes.add(part);
            let (cause, who) = stalls::words(part);
            self.keep(Stall { at_ns: at_ns + clock.to_ns(from.since(spun.began)), ns, cause, who });
        }
    }

    fn keep(&mut self, stall: Stall) {
        let longest = &mut self.noise.longest;
        if longest.len() < LONGEST || longest.last().is_some_and(|least| least.ns < stall.ns) {
            let at = longest.partition_point(|known| known.ns >= stall.ns);
            longest.insert(at, stall);
            longest.truncate(LONGEST);
        }
    }

    fn finish(self, no_causes: Option<&str>) -> CoreNoise {
        let spun_ns = self.noise.duration_ns.saturating_sub(self.noise.lost_ns) as f64;
        let mut noise = CoreNoise {
            turn_ns: (10.0 * spun_ns / self.turns.max(1) as f64).round() / 10.0,
            stall_ns: self.times.quantiles(),
            histogram: self.times.encode(),
            traced_stall_ns: self.traced.quantiles(),
            causes: self.causes.causes(),
            steal_ns: self.steal,
            ..self.noise
        };
        if let Some(why) = no_causes {
            for stall in &mut noise.longest {
                (stall.cause, stall.who) = (UNKNOWN.into(), why.into());
            }
        }
        noise
    }
}

/// The blocks.
struct Look {
    clock: AnyClock,
    /// In ticks.
    threshold: u64,
    began: Instant,
    interrupted: bool,
}

impl Look {
    /// Looks at every core for `duration`.
    fn rounds(
        &mut self,
        turns: &mut [Turn],
        duration: Duration,
        allowed: &[u32],
        signals: &Signals,
        watcher: &mut Watcher<'_>,
    ) -> Result<(), NoiseError> {
        let rounds = (duration.as_secs_f64() / (2.0 * BLOCK.as_secs_f64())).ceil().max(1.0) as u32;
        let block = duration / (2 * rounds);
        let all = f64::from(rounds) * turns.len() as f64;
        for round in 0..rounds {
            for at in 0..turns.len() {
                watcher("stalls", (f64::from(round) * turns.len() as f64 + at as f64) / all);
                let turn = &mut turns[at];
                let spinning = turn.cpus();
                let rest: Vec<u32> = allowed.iter().filter(|cpu| !spinning.contains(cpu)).copied().collect();
                if !rest.is_empty() {
                    thread::stay_on(&rest).map_err(failed("leave the cores that are looked at"))?;
                }
                for hooks in [false, true] {
                    self.block(turn, hooks && turn.events.is_some(), block, signals)?;
                    if self.interrupted {
                        return Ok(());
                    }
                }
                thread::stay_on(allowed).map_err(failed("return to the cores that are allowed"))?;
            }
        }
        Ok(())
    }

    fn block(&mut self, turn: &mut Turn, hooks: bool, length: Duration, signals: &Signals) -> Result<(), NoiseError> {
        let Turn { cores, events, lost } = turn;
        let cpus: Vec<u32> = cores.iter().map(|core| core.noise.cpu).collect();
        let mut events = events.as_mut().filter(|_| hooks);
        if let Some(events) = &mut events {
            events.attach().map_err(|error| NoiseError::Failed { step: "attach the hooks", error: error.to_string() })?;
            events.take();
        }
        let counters = || cpus.iter().map(|cpu| (CoreActivity::read(&RealHost, &[*cpu]), smi_count(&RealHost, *cpu)));
        let before: Vec<_> = counters().collect();
        let at_ns = self.began.elapsed().as_nanos() as u64;
        let from = self.clock.relation();
        let spun = self.spin(&cpus, length, signals)?;
        let span = Span::new(from, self.clock.relation(), self.clock.rate());
        let after: Vec<_> = counters().collect();
        let taken = events.map(|events| {
            events.detach();
            let taken = events.take();
            *lost += taken.lost;
            let mut names = Names::read(&RealHost, &cpus);
            names.threads.extend(events.names().clone());
            names.learn(&RealHost, taken.events.iter().filter_map(came));
            (Cores::new(&taken.events, |at| span.of_monotonic(at), &mut HashMap::new()), names)
        });
        for ((core, (own, spun)), (before, after)) in cores.iter_mut().zip(spun).zip(before.into_iter().zip(after)) {
            core.steal = core.steal.zip(after.0.since(&before.0).steal_ns).map(|(sum, ns)| sum + ns);
            let Some((seen, names)) = &taken else {
                core.add(&spun, &self.clock, at_ns);
                continue;
            };
            let smis = after.1.zip(before.1).map_or(0, |(after, before)| after.saturating_sub(before));
            let on_scale: Vec<(i64, i64)> =
                spun.stalls.iter().map(|(from, to)| (span.of_ticks(from.0), span.of_ticks(to.0))).collect();
            let parts = stalls::causes(seen, core.noise.cpu, own, &on_scale, smis, names);
            core.add_traced(&spun, &parts, &self.clock, at_ns);
        }
        Ok(())
    }

    /// Spins on each of the cores; returns the thread's id and its readings. A signal ends it early.
    fn spin(&mut self, cpus: &[u32], length: Duration, signals: &Signals) -> Result<Vec<(u32, Spun)>, NoiseError> {
        let (clock, threshold, stop) = (self.clock, self.threshold, AtomicBool::new(false));
        let ticks = |duration: Duration| clock.to_ticks(duration.as_nanos() as u64);
        scope(|scope| {
            let spin = |cpu: u32| {
                let stop = &stop;
                let spins = move || {
                    thread::pin(cpu)?;
                    let mut spun = Spun::new();
                    spun.spin(&clock, ticks(WARM_UP), threshold, stop);
                    spun.spin(&clock, ticks(length), threshold, stop);
                    Ok::<_, thread::PinError>((thread::id(), spun))
                };
                Builder::new().spawn_scoped(scope, spins)
            };
            let started: io::Result<Vec<_>> = cpus.iter().map(|cpu| spin(*cpu)).collect();
            if started.is_ok() {
                let due = Instant::now() + WARM_UP + length;
                while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
                    if wait(&[signals.as_fd()], Some(left)).is_err() || matches!(signals.next(), Ok(Some(_))) {
                        self.interrupted = true;
                        break;
                    }
                }
            }
            if self.interrupted || started.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            let join = |thread: ScopedJoinHandle<'_, Result<(u32, Spun), thread::PinError>>| match thread.join() {
                Ok(Ok(found)) => Ok(found),
                Ok(Err(error)) => Err(NoiseError::Failed { step: "spin", error: error.to_string() }),
                Err(_) => Err(NoiseError::Failed { step: "spin", error: "a thread ended; please report this".into() }),
            };
            started.map_err(failed("start a thread"))?.into_iter().map(join).collect()
        })
    }
}

/// The thread that came to a CPU.
fn came(event: &Event) -> Option<u32> {
    if let What::Switched { to, .. } = event.what { Some(to) } else { None }
}

/// The system management interrupts that a core has counted; `None` without Intel's counter, the module msr, or the right to read it.
fn smi_count(host: &dyn Host, cpu: u32) -> Option<u64> {
    let mut count = [0; 8];
    host.open(&format!("/dev/cpu/{cpu}/msr")).ok()?.read_exact_at(&mut count, SMI_COUNT).ok()?;
    Some(u64::from_ne_bytes(count))
}

/// Each two of these cores, with their distance.
fn pairs(cpus: &[u32], interrupted: &mut bool, signals: &Signals, watcher: &mut Watcher<'_>) -> Vec<Placement> {
    let all: Vec<(u32, u32)> = cpus.iter().enumerate().flat_map(|(at, a)| cpus[at + 1..].iter().map(move |b| (*a, *b))).collect();
    let mut found = Vec::new();
    for (at, (a, b)) in all.iter().enumerate() {
        watcher("distances", at as f64 / all.len() as f64);
        if matches!(signals.next(), Ok(Some(_))) {
            *interrupted = true;
            break;
        }
        let core_rtt_ns = distance(*a, *b);
        found.push(Placement { client: *a, server: *b, core_rtt_ns, stands_for: 1, ..related(&RealHost, *a, *b) });
    }
    found
}

/// What may mislead.
fn warnings(host: &dyn Host, noise: &NoiseBody, allowed: &[u32], unnamed: bool, missing: &[&str], lost: u64) -> Vec<Note> {
    let note = |code: &str, message: String| Note { code: code.into(), message };
    let mut found = Vec::new();
    if allowed.len() == 1 {
        let cpu = allowed[0];
        found.push(note(
            "one-core",
            format!("CPU {cpu} is the only one that this process may use, and this program ran on it too: the rest of the host's work is in its stalls"),
        ));
    }
    if unnamed && allowed.len() > UNNAMED {
        let text = format!(
            "of {} CPUs that this process may use the first {UNNAMED} were looked at: --cpu LIST takes others",
            allowed.len()
        );
        found.push(note("not-all-cores", text));
    }
    let guest_of = noise.host.facts.get("hypervisor").and_then(|name| name.as_str()).filter(|name| *name != "none");
    if let (Some(name), Some(0)) = (guest_of, stolen_ticks(host)) {
        found.push(note(
            "steal-not-reported",
            format!("this is a guest of a hypervisor ({name}) that has reported no stolen time since boot (steal in /proc/stat): what it takes is among the unknown stalls"),
        ));
    }
    if noise.threshold_ns as f64 > STALL_NS {
        let text = format!(
            "the clock moves in steps of {:.1} ns, so that stalls below {} ns cannot be told",
            noise.clock.step_ns, noise.threshold_ns
        );
        found.push(note("coarse-clock", text));
    }
    if !missing.is_empty() {
        let text = format!(
            "this kernel has no such tracepoint, or does not describe it (BTF): {}; what it would show is among the unknown stalls",
            missing.join(", ")
        );
        found.push(note("hooks-missing", text));
    }
    if lost > 0 {
        found.push(note(
            "events-lost",
            format!("{lost} events found no room: stalls at the end of a block may be unknown for that"),
        ));
    }
    found
}

/// Ticks that the hypervisor stole from all CPUs since boot; `None` if the kernel does not count them.
fn stolen_ticks(host: &dyn Host) -> Option<u64> {
    host.read("/proc/stat").ok()?.lines().next()?.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests;
