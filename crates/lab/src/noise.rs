//! `hairpin check --host`: how often each core stalls under a thread that only reads the clock, who had it instead, and how near
//! the cores are.
//!
//! ```text
//!   cores     dealt into turns: at most half of those allowed spin at once, SMT siblings never together
//!   round     turn 1: block │ block with hooks │ turn 2: block │ block with hooks │ …        so that all turns see the same times
//!   block     every core of the turn spins, and this process sleeps; between blocks it reads events and counters
//!   end       a cache line to and fro between each two cores ─▶ the pair to take
//! ```
//! Counts and lengths are of blocks without hooks, causes of those with: a hook adds its own time to a stall.

mod choice;
mod core;
mod look;
mod spin;

use std::io;
use std::time::Instant;

use hairpin_record::compare::Placement;
use hairpin_record::head::Record;
use hairpin_record::noise::{CoreNoise, Noise, NoiseBody};
use hairpin_record::warning::Note;
use hairpin_session::error::Blame;
use hairpin_session::pinnable::{choices, refused};
use hairpin_session::rows;
use hairpin_session::worker::{choose_clock, clock_facts};
use hairpin_sys::clock::Clock;
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::signal::Signals;
use hairpin_sys::thread;
use hairpin_trace::events::most_cpus;
use hairpin_trace::tracer::TracerError;
use hairpin_tune::{Place, facts, parse_cpus};
use hairpin_units::{Arrange, Nanos};

use self::choice::choose;
use self::look::{Look, Turn, in_turns};
use crate::compare::placements::{distance, related};

/// Most cores, since each two of them are a pair to measure …
pub const MOST: usize = 64;
/// … and most if nobody names them.
const UNNAMED: usize = 16;
/// The least time for a core.
pub const LEAST: Nanos = Nanos::from_millis(100);
/// The least gap that is a stall, in ns …
const STALL_NS: f64 = 1_000.0;
/// … unless the clock is coarse: then it takes this many steps.
const STEPS: f64 = 4.0;

#[derive(Clone, Debug)]
pub struct NoisePlan {
    /// The cores; the isolated ones and those allowed if not given.
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
    let isolated = isolated(&RealHost);
    let choices = choices(plan.cpus.as_deref().unwrap_or(&isolated), &allowed);
    let unnamed = unnamed(&allowed, &isolated, &choices);
    let cpus = cores_of(plan, &unnamed, &choices)?;
    let head = rows::begin::<NoiseBody>(&plan.command);
    let (clock, _) = choose_clock();
    let clock_facts = clock_facts(&clock);
    let threshold_ns = STALL_NS.max(STEPS * clock_facts.step_ns).ceil() as u64;
    let at_once = (allowed.len() / 2).clamp(1, most_cpus());
    let mut turns: Vec<Turn> = in_turns(&RealHost, &cpus, at_once).into_iter().map(Turn::new).collect();
    let mut noise = Record {
        head,
        body: NoiseBody {
            host: facts(&RealHost, &Place { cpus: &cpus, interface: None }),
            clock: clock_facts,
            threshold_ns,
            at_once: turns.iter().map(|turn| turn.cores.len()).max().unwrap_or(0) as u32,
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
    let mut look =
        Look { clock, threshold: clock.to_ticks(threshold_ns), began: Instant::now(), interrupted: false, rest: Vec::new() };
    let ended = look.rounds(&mut turns, plan.duration.into(), &allowed, signals, watcher);
    noise.head.interrupted = look.interrupted;
    noise.head.error = ended.err().map(|error| error.to_string());
    // Every turn lacks the same ones.
    let missing = turns.iter().find_map(|turn| turn.events.as_ref()).map(|events| events.missing()).unwrap_or_default();
    let missing: Vec<&str> = missing.iter().map(|hook| hook.name).collect();
    let only = allowed.first().copied().filter(|cpu| allowed.len() == 1 && cpus.contains(cpu));
    let left_out = if plan.cpus.is_none() { unnamed.len() - cpus.len() } else { 0 };
    noise.warnings = warnings(&RealHost, &noise, only, left_out, &missing, turns.iter().map(|turn| turn.lost).sum());
    let no_causes = noise.no_causes.clone();
    noise.cores = turns.into_iter().flat_map(|turn| turn.cores).map(|core| core.finish(no_causes.as_deref())).collect();
    let (looked, held): (Vec<CoreNoise>, Vec<CoreNoise>) =
        std::mem::take(&mut noise.cores).into_iter().partition(|core| core.duration_ns > 0);
    noise.cores = looked;
    if !noise.head.interrupted && noise.head.error.is_none() {
        noise.warnings.extend(held.iter().map(|core| Note {
            code: "core-held".into(),
            message: format!(
                "on CPU {} this program had no time at all: a real-time thread holds that core, and it is left out",
                core.cpu
            ),
        }));
    }
    noise.cores.arrange_by_key(|core| core.cpu);
    if noise.cores.is_empty() {
        let failed = |error| NoiseError::Failed { step: "look at the cores", error };
        return Err(match noise.head.error {
            Some(error) => failed(error),
            None if noise.head.interrupted => NoiseError::Interrupted,
            None => failed("real-time threads hold all of them".into()),
        });
    }
    if !noise.head.interrupted && noise.head.error.is_none() {
        let looked: Vec<u32> = noise.cores.iter().map(|core| core.cpu).collect();
        noise.pairs = pairs(&looked, &mut noise.head.interrupted, signals, watcher);
    }
    (noise.body.choice, noise.body.why) = choose(&noise.body.cores, &noise.body.pairs);
    Ok(noise)
}

/// The cores that the scheduler was told at boot to leave alone (`isolcpus=`).
fn isolated(host: &dyn Host) -> Vec<u32> {
    host.read("/sys/devices/system/cpu/isolated").ok().and_then(|list| parse_cpus(&list).ok()).unwrap_or_default()
}

/// The cores to look at if nobody names them: the isolated ones first, which are there to be pinned to.
fn unnamed(allowed: &[u32], isolated: &[u32], choices: &[u32]) -> Vec<u32> {
    let others = allowed.iter().filter(|cpu| !isolated.contains(cpu));
    isolated.iter().filter(|cpu| choices.contains(cpu)).chain(others).copied().collect()
}

/// The cores that were asked for, or the first of the unnamed ones.
fn cores_of(plan: &NoisePlan, unnamed: &[u32], choices: &[u32]) -> Result<Vec<u32>, NoiseError> {
    let cpus = plan.cpus.clone().unwrap_or_else(|| unnamed.iter().take(UNNAMED).copied().collect());
    if let Some((cpu, allowed)) = refused(&cpus, choices) {
        return Err(NoiseError::Cpu { cpu, allowed });
    }
    if cpus.len() > MOST {
        return Err(NoiseError::TooMany(cpus.len()));
    }
    if plan.duration < LEAST {
        return Err(NoiseError::Short(plan.duration));
    }
    Ok(cpus)
}

/// Why no hook looks for causes, with the right that it takes.
fn without_hooks(error: &TracerError) -> String {
    let rights = matches!(error, TracerError::Bpf(error) if error.source.kind() == io::ErrorKind::PermissionDenied);
    format!("{}: {error}", if rights { "no rights" } else { "no hooks" })
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

/// Reasons why the figures may mislead. `only`: the one core that this process is allowed, if it was looked at; `left_out`: the
/// number of cores that were not, since nobody named any.
fn warnings(host: &dyn Host, noise: &NoiseBody, only: Option<u32>, left_out: usize, missing: &[&str], lost: u64) -> Vec<Note> {
    let note = |code: &str, message: String| Note { code: code.into(), message };
    let mut found = Vec::new();
    if let Some(cpu) = only {
        found.push(note(
            "one-core",
            format!("CPU {cpu} is the only one that this process may use, and this program ran on it too: the rest of the host's work is in its stalls"),
        ));
    }
    if left_out > 0 {
        let text = format!(
            "of {} CPUs that this process may use the first {UNNAMED} were looked at: --cpu LIST takes others",
            left_out + UNNAMED
        );
        found.push(note("not-all-cores", text));
    }
    if let (Some(name), Some(0)) = (noise.host.hypervisor(), stolen_ticks(host)) {
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
