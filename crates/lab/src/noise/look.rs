//! The blocks: the cores of a turn spin at once, and their hooks and counters are read in between.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

use hairpin_session::side::wait;
use hairpin_sys::clock::{AnyClock, Clock};
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::shared::Announced;
use hairpin_sys::signal::Signals;
use hairpin_sys::thread;
use hairpin_trace::cores::Cores;
use hairpin_trace::events::{Event, Events, WatchedFlow, What};
use hairpin_trace::join::Span;
use hairpin_trace::names::Names;
use hairpin_trace::stalls;
use hairpin_trace::tracer::TracerError;
use hairpin_tune::activity::CoreActivity;
use hairpin_tune::parse_cpus;
use hairpin_units::Arrange;

use super::core::Core;
use super::spin::Spun;
use super::{NoiseError, Watcher, failed};

/// Longest block.
const BLOCK: Duration = Duration::from_millis(500);
/// Time before each block whose readings do not count: it brings the loop into the caches.
const WARM_UP: Duration = Duration::from_millis(1);
/// A thread that has not ended this long after its block gets no time on its core.
const GRACE: Duration = Duration::from_millis(500);
/// MSR_SMI_COUNT of Intel's CPUs.
const SMI_COUNT: u64 = 0x34;

/// Deals the cores into turns of at most `at_once`, SMT siblings into different ones.
pub(super) fn in_turns(host: &dyn Host, cpus: &[u32], at_once: usize) -> Vec<Vec<u32>> {
    let first_sibling = |cpu: u32| {
        let siblings = host.read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        siblings.ok().and_then(|list| parse_cpus(&list).ok()?.first().copied()).unwrap_or(cpu)
    };
    let mut cpus: Vec<(u32, u32)> = cpus.iter().map(|cpu| (first_sibling(*cpu), *cpu)).collect();
    cpus.arrange_by(Ord::cmp);
    let most_siblings = cpus.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(1);
    let turns = cpus.len().div_ceil(at_once.max(1)).max(most_siblings);
    // Siblings follow each other, and there are at least as many turns.
    (0..turns).map(|turn| cpus.iter().skip(turn).step_by(turns).map(|(_, cpu)| *cpu).collect()).collect()
}

/// The number of rounds, and the length of the two blocks of each.
pub(super) fn split(duration: Duration) -> (u32, Duration) {
    let rounds = (duration.as_secs_f64() / (2.0 * BLOCK.as_secs_f64())).ceil().max(1.0) as u32;
    (rounds, duration.div_f64(2.0 * f64::from(rounds)))
}

/// Cores that spin at once, and the hooks on them.
pub(super) struct Turn {
    pub(super) cores: Vec<Core>,
    pub(super) events: Option<Events>,
    /// Events that found no room.
    pub(super) lost: u64,
}

impl Turn {
    pub(super) fn new(cpus: Vec<u32>) -> Turn {
        Turn { cores: cpus.into_iter().map(Core::new).collect(), events: None, lost: 0 }
    }

    fn cpus(&self) -> Vec<u32> {
        self.cores.iter().map(|core| core.noise.cpu).collect()
    }

    pub(super) fn load(&mut self) -> Result<(), TracerError> {
        let nobody = Announced::default();
        self.events = Some(Events::load(&WatchedFlow {
            protocol: None,
            client: nobody,
            server: nobody,
            cpus: self.cpus(),
            light: false,
            acks: false,
        })?);
        Ok(())
    }
}

pub(super) struct Look {
    pub(super) clock: AnyClock,
    /// In ticks.
    pub(super) threshold: u64,
    pub(super) began: Instant,
    pub(super) interrupted: bool,
    /// The cores that are left to the rest of the host in this turn.
    pub(super) rest: Vec<u32>,
}

impl Look {
    /// Looks at every core for `duration`.
    pub(super) fn rounds(
        &mut self,
        turns: &mut [Turn],
        duration: Duration,
        allowed: &[u32],
        signals: &Signals,
        watcher: &mut Watcher<'_>,
    ) -> Result<(), NoiseError> {
        let (rounds, block) = split(duration);
        let all = f64::from(rounds) * turns.len() as f64;
        for round in 0..rounds {
            for at in 0..turns.len() {
                watcher("stalls", (f64::from(round) * turns.len() as f64 + at as f64) / all);
                let turn = &mut turns[at];
                let spinning = turn.cpus();
                self.rest = allowed.iter().filter(|cpu| !spinning.contains(cpu)).copied().collect();
                if !self.rest.is_empty() {
                    thread::stay_on(&self.rest).map_err(failed("leave the cores that are looked at"))?;
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
            core.count(after.0.since(&before.0));
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
            // A thread behind a real-time thread that never sleeps does not see the stop either.
            let until = Instant::now() + GRACE;
            let ended = || started.iter().flatten().all(ScopedJoinHandle::is_finished);
            while !ended() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            if !ended() && !self.rest.is_empty() {
                stop.store(true, Ordering::Relaxed);
                thread::all_stay_on(&self.rest).map_err(failed("take a thread off a core that another one holds"))?;
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

/// The system management interrupts that a core has counted; `None` without Intel's counter, the module msr, or the right to read
/// it.
pub(super) fn smi_count(host: &dyn Host, cpu: u32) -> Option<u64> {
    let mut count = [0; 8];
    host.open(&format!("/dev/cpu/{cpu}/msr")).ok()?.read_exact_at(&mut count, SMI_COUNT).ok()?;
    Some(u64::from_ne_bytes(count))
}
