//! A bounce server: sends every frame that matches the filter back, with counts once a second, until the user ends it.
//!
//! ```text
//!   verb's process                        worker
//!   refuses filters that cut off the host
//!   Rings ───────────────────────────────▶ opens the queue (and that of -o)
//!   Bounce ──────────────────────────────▶ pinned, one thread: receive, rewrite, send back
//!   a line ◀── Bouncing, once a second ────┘
//!   Ctrl-C: stop ────────────────────────▶ Bounced: the whole
//! ```

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_packet::bounce::Rewrite;
use hairpin_packet::filter::Filter;
use hairpin_plan::job::Refused;
use hairpin_record::bounce::{Bounce, BounceBody, BounceSecond, Bounced};
use hairpin_record::frames::{Rings, per_s};
use hairpin_record::head::{Body, Head, Record};
use hairpin_record::run::Side;
use hairpin_record::warning::Warning;
use hairpin_sys::signal::Signals;
use hairpin_sys::thread;
use hairpin_units::Nanos;

use hairpin_session::ending::repeats;
use hairpin_session::error::Blame;
use hairpin_session::io::IoSpec;
use hairpin_session::looks::Looks;
use hairpin_session::message::{Answer, AskRings, BounceReport, BounceWork, Failure, Flush, Order};
use hairpin_session::pinnable::{choices, refused};
use hairpin_session::row::foreign_time;
use hairpin_session::rows;
use hairpin_session::server::NUDGE_EVERY;
use hairpin_session::side::{SideError, WorkerSide, wait};

pub mod group;
pub mod lifeline;

/// A worker that was told to stop reports within this time.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// A worker that sends nothing for this long is given up; it normally reports once a second.
const SILENT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct BouncePlan {
    /// The interface on which frames come in.
    pub interface: String,
    /// The interface on which they go out, if another.
    pub output: Option<String>,
    /// The rings to try; the first that opens is used.
    pub io: Vec<IoSpec>,
    pub queue: u32,
    /// The CPU; the second allowed one if not given.
    pub cpu: Option<u32>,
    pub filter: Filter,
    /// Changes made to a frame.
    pub rewrite: Rewrite,
    /// The rule for handing frames to the kernel.
    pub flush: Flush,
    /// Check checksums.
    pub verify: bool,
    /// Limit on sending back identical frames in quick succession.
    pub repeats: Option<u32>,
    /// The duration; `None` until the user ends it.
    pub duration: Option<Nanos>,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Receives the progress of a bouncer.
pub trait BounceWatcher {
    /// The rings are open; `passed_over` holds the reason for every earlier choice that did not open.
    fn opened(&mut self, _io: &IoSpec, _rings: &Rings, _passed_over: &[String]) {}
    fn second(&mut self, _second: &BounceSecond) {}
}

/// Why nothing was bounced.
#[derive(Debug, thiserror::Error)]
pub enum BounceError {
    /// This process may not use the CPU.
    #[error("CPU {cpu} does not exist or is not allowed to this process: choose from {allowed} (--cpu N)")]
    Cpu {
        /// The CPU asked for.
        cpu: u32,
        /// The CPUs allowed.
        allowed: String,
    },
    /// Requests on this path or group cannot be answered.
    #[error(transparent)]
    Job(#[from] Refused),
    /// The worker failed.
    #[error(transparent)]
    Side(#[from] SideError),
    /// Ctrl-C came before it began.
    #[error("stopped before a frame was bounced")]
    Interrupted,
}

impl BounceError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            BounceError::Cpu { .. } | BounceError::Job(_) => Blame::Usage,
            BounceError::Side(side) if side.missing() => Blame::Missing,
            _ => Blame::Failed,
        }
    }
}

/// Bounces until the user or the duration ends it.
///
/// # Errors
/// The start failed. A later failure is in the record.
pub fn run(plan: &BouncePlan, signals: &Signals, watcher: &mut dyn BounceWatcher) -> Result<Bounce, BounceError> {
    let cpus = cpus(plan.cpu)?;
    let head = rows::begin::<BounceBody>(&plan.command);
    let mut worker = WorkerSide::start(None, None, None)?;
    let (host, _) = worker.facts(Some(&plan.interface), cpus.first().copied(), cpus.len() as u32, false)?;
    let ask = AskRings {
        io: plan.io.clone(),
        interface: plan.interface.clone(),
        queue: plan.queue,
        queues: 1,
        filter: plan.filter.to_string(),
        longest: None,
        output: plan.output.clone(),
    };
    let (io, input, output) = match worker.order(&Order::Rings(Some(Box::new(ask))))? {
        Answer::Rings { io, rings, output, passed_over } => {
            watcher.opened(&io, &rings, &passed_over);
            (io, rings, output)
        }
        other => return Err(SideError::OutOfTurn(format!("{other:?}")).into()),
    };
    let work = BounceWork {
        filter: plan.filter.to_string(),
        rewrite: plan.rewrite.to_string(),
        flush: plan.flush,
        verify: plan.verify,
        repeats: plan.repeats,
        duration: plan.duration,
        cpus,
    };
    worker.send(&Order::Bounce(Box::new(work)))?;
    let report = watch(&mut worker, signals, watcher)?;
    let foreign = foreign_time(Side::Server, &report.cpu, report.duration);
    let warnings = foreign.into_iter().filter_map(|warning| match warning {
        Warning::ForeignTime { took, of, cores, .. } => Some(Warning::BusyCore { took, of, cores }.note()),
        _ => None,
    });
    let (frames, duration_ns) = (report.frames, report.duration.0);
    Ok(Record {
        head: Head { error: report.error, ..head },
        body: BounceBody {
            host,
            io: io.to_string(),
            filter: plan.filter.to_string(),
            rewrite: plan.rewrite.to_string(),
            flush: plan.flush.to_string(),
            repeats: plan.repeats,
            verify: plan.verify,
            input,
            output,
            duration_ns,
            frames,
            frames_per_s: per_s(frames.sent, duration_ns),
            wire_bits_per_s: per_s(8 * frames.sent_wire_bytes, duration_ns),
            cpu: report.cpu,
            warnings: warnings.collect(),
        },
    })
}

/// Passes on the counts of every second until the worker has reported. Ctrl-C asks it to stop; a second Ctrl-C does not wait.
fn watch(worker: &mut WorkerSide, signals: &Signals, watcher: &mut dyn BounceWatcher) -> Result<BounceReport, BounceError> {
    let (mut before, mut at) = (Bounced::default(), Nanos::ZERO);
    let mut stopped = None::<Instant>;
    let mut heard = Instant::now();
    let mut looks = Looks::begin(heard);
    loop {
        let now = Instant::now();
        let stood_still = looks.stood_still(now);
        heard += stood_still;
        stopped = stopped.map(|stopped| stopped + stood_still);
        while let Ok(Some(signal)) = signals.next() {
            if repeats(stopped, signal, now) {
                continue;
            }
            if stopped.is_some() {
                return Err(BounceError::Interrupted);
            }
            stopped = Some(now);
            worker.stop();
        }
        match worker.try_answer()? {
            Some(Answer::Bouncing { at: now, frames }) => {
                heard = Instant::now();
                watcher.second(&second(now, now.0 - at.0, frames.since(before)));
                (before, at) = (frames, now);
            }
            Some(Answer::Bounced(report)) => return Ok(*report),
            Some(Answer::Ready(_)) => heard = Instant::now(),
            Some(Answer::Failed(failure)) => return Err(SideError::Failed(failure).into()),
            Some(other) => return Err(SideError::OutOfTurn(format!("{other:?}")).into()),
            None => {
                let late = stopped.is_some_and(|stopped| stopped.elapsed() > STOP_WITHIN) || heard.elapsed() > SILENT;
                if late {
                    return Err(unanswered());
                }
                if stopped.is_some() {
                    worker.nudge();
                }
                wait(&[worker.as_fd(), signals.as_fd()], Some(NUDGE_EVERY)).map_err(SideError::Prepare)?;
            }
        }
    }
}

fn unanswered() -> BounceError {
    let message = "the worker process did not answer and was ended; its counts are lost".into();
    SideError::Failed(Failure { message, missing: false }).into()
}

/// The CPU of the worker, if there is a choice.
fn cpus(asked: Option<u32>) -> Result<Vec<u32>, BounceError> {
    let allowed = thread::allowed_cpus().map_err(SideError::from)?;
    if let Some((cpu, allowed)) = refused(asked.as_slice(), &choices(asked.as_slice(), &allowed)) {
        return Err(BounceError::Cpu { cpu, allowed });
    }
    Ok(asked.or(default_cpu(&allowed)).into_iter().collect())
}

fn second(at: Nanos, duration_ns: u64, frames: Bounced) -> BounceSecond {
    BounceSecond {
        schema: BounceSecond::SCHEMA.into(),
        at_ns: at.0,
        duration_ns,
        frames,
        frames_per_s: per_s(frames.sent, duration_ns),
        wire_bits_per_s: per_s(8 * frames.sent_wire_bytes, duration_ns),
    }
}

/// The second CPU, as for a server's side: the first one is for a client on the same host.
fn default_cpu(allowed: &[u32]) -> Option<u32> {
    allowed.get(1).or(allowed.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_on_the_same_host_has_another_cpu_by_default() {
        let job = hairpin_plan::job::Job::new("packet:spin".parse().unwrap());
        for allowed in [&[4, 5, 6][..], &[2, 7]] {
            let client = hairpin_iopath::measure::cpu_of(&job, Side::Client, 0, allowed);
            assert!(default_cpu(allowed).is_some_and(|cpu| cpu != client && allowed.contains(&cpu)));
        }
        assert_eq!((default_cpu(&[3]), default_cpu(&[])), (Some(3), None));
    }

    #[test]
    fn flushes_parse_and_print() {
        for text in ["each", "adaptive", "1", "64", "1024"] {
            assert_eq!(text.parse::<Flush>().unwrap().to_string(), text);
        }
        for text in ["", "0", "1025", "-1", "all"] {
            assert!(text.parse::<Flush>().unwrap_err().to_string().contains("each, adaptive, or a number"), "{text}");
        }
    }
}
