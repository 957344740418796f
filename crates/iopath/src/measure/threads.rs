//! Splits the flows between threads, each pinned and scheduled as the job says.

use std::io;
use std::num::NonZeroU64;

use hairpin_plan::job::{Job, Schedule};
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::{Granted, Side};
use hairpin_sys::shared::Shared;
use hairpin_sys::thread;
use hairpin_sys::wait::Policy;

use super::SideFound;
use crate::error::PathError;

/// The cores that a side's threads may use, and the number of cores for them and everything else.
#[derive(Clone, Copy)]
pub(super) struct Cores<'a> {
    pub(super) allowed: &'a [u32],
    pub(super) of_host: usize,
}

/// Splits the flows between the threads and runs `run` on each; thread 0 is the caller's. One that fails asks the others to
/// `stop`.
pub(super) fn each_chunk<F: Send, R: Send>(
    job: &Job,
    side: Side,
    cores: Cores<'_>,
    flows: &mut [F],
    found: &mut SideFound,
    stop: &Shared,
    run: impl Fn(u32, &mut [F]) -> Result<R, PathError> + Sync,
) -> Result<Vec<R>, PathError> {
    let run = &|thread: u32, parted: io::Result<()>, chunk: &mut [F], granted: &mut Vec<Granted>| {
        let result = parted
            .map_err(PathError::at("cannot give a measuring thread its own file table"))
            .and_then(|()| settle_thread(job, side, thread, cores, granted))
            .and_then(|cpu| Ok((cpu, run(thread, chunk)?)));
        if result.is_err() {
            stop.request_stop();
        }
        result
    };
    std::thread::scope(|scope| {
        let mut chunks = shares(flows, job.threads as usize).into_iter().enumerate();
        let first = chunks.next();
        let others: io::Result<Vec<_>> = chunks
            .map(|(at, chunk)| thread::spawn_with_own_files(scope, move |parted| run(at as u32, parted, chunk, &mut Vec::new())))
            .collect();
        let others = others.map_err(|error| {
            stop.request_stop();
            PathError::Thread(format!(
                "cannot start {} measuring threads: {error}; use fewer --threads, or raise the limit (ulimit -u, pids.max)",
                job.threads
            ))
        })?;
        let mut results = Vec::new();
        if let Some((_, chunk)) = first {
            let (cpu, result) = run(0, Ok(()), chunk, &mut found.granted)?;
            found.cpus.push(cpu);
            results.push(result);
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

/// Splits `flows` into `threads` parts; the first ones are longer by one if it does not divide evenly.
fn shares<F>(mut flows: &mut [F], threads: usize) -> Vec<&mut [F]> {
    let mut parts = Vec::with_capacity(threads);
    for left in (1..=threads).rev() {
        let (part, rest) = flows.split_at_mut(flows.len().div_ceil(left));
        parts.push(part);
        flows = rest;
    }
    parts
}

/// The CPU of thread `index` of a side. The first thread takes the requested CPU, or else the one at [`first_of`]; the other
/// threads take the next ones.
pub fn cpu_of(job: &Job, side: Side, index: u32, allowed: &[u32]) -> u32 {
    let asked = match side {
        Side::Client => job.cpus.client,
        Side::Server => job.cpus.server,
    };
    let first = asked.or_else(|| allowed.get(first_of(side, job.threads, allowed.len())).copied()).unwrap_or(0);
    match allowed.iter().position(|cpu| *cpu == first) {
        Some(position) => allowed[(position + index as usize) % allowed.len()],
        // Not allowed: pinning to it reports that.
        None => first,
    }
}

/// The CPU for a thread of the kernel's that works for thread `index` of a side: one without a measuring thread of either side if
/// there is one, else that of the thread.
pub(crate) fn cpu_beside(job: &Job, side: Side, index: u32, allowed: &[u32]) -> u32 {
    let mut free = allowed.to_vec();
    for at in 0..job.threads {
        for side in [Side::Client, Side::Server] {
            let taken = cpu_of(job, side, at, allowed);
            free.retain(|cpu| *cpu != taken);
        }
    }
    let place = index as usize + if side == Side::Server { job.threads as usize } else { 0 };
    match free.len() {
        0 => cpu_of(job, side, index, allowed),
        len => free[place % len],
    }
}

/// Place of the CPU of a side's first thread among the `allowed` ones, if none is requested: the server's threads come after the
/// client's, or from the second CPU on where these are too few for both.
pub fn first_of(side: Side, threads: u32, allowed: usize) -> usize {
    let threads = threads as usize;
    match side {
        Side::Client => 0,
        Side::Server if allowed >= 2 * threads => threads,
        Side::Server => usize::from(allowed > 1),
    }
}

/// Pins and schedules the calling thread as the job says; returns its CPU.
pub(super) fn settle_thread(
    job: &Job,
    side: Side,
    index: u32,
    cores: Cores<'_>,
    granted: &mut Vec<Granted>,
) -> Result<u32, PathError> {
    let spec = match side {
        Side::Client => &job.spec.client,
        Side::Server => &job.spec.server,
    };
    let cpu = cpu_of(job, side, index, cores.allowed);
    thread::pin(cpu).map_err(|error| PathError::Thread(error.to_string()))?;
    if let Some(least) = NonZeroU64::new(1) {
        thread::set_timer_slack(least).map_err(PathError::at("cannot set the timer slack"))?;
    }
    if let Schedule::Fifo(priority) = job.sched {
        granted.extend(schedule_fifo(job, side, spec, priority, cores.of_host));
    }
    Ok(cpu)
}

/// Sets SCHED_FIFO and locks memory, unless that would take every core from the kernel's own threads. A refusal is shown, not
/// fatal.
fn schedule_fifo(job: &Job, side: Side, spec: &SideSpec, priority: u8, cores: usize) -> [Granted; 2] {
    let asked = format!("fifo:{priority}");
    let granted = |option: &str, asked: &str, outcome: Result<(), String>| Granted {
        side,
        option: option.into(),
        asked: asked.into(),
        got: if outcome.is_ok() { asked.into() } else { "other".into() },
        why: outcome.err().unwrap_or_default(),
    };
    let outcome = match takes_all(job.threads, side, spec.policy, cores) {
        true => Err(format!(
            "busy waiting under SCHED_FIFO would take all cores of this host ({cores}), and the kernel's own threads need one"
        )),
        false => thread::set_sched(job.sched.policy()).map_err(|error| error.to_string()),
    };
    let locked = thread::lock_memory().map_err(|error| error.to_string());
    let mut lock = granted("mlock", "all memory", locked);
    if !lock.why.is_empty() {
        lock.got = "not locked".into();
    }
    [granted("sched", &asked, outcome), lock]
}

/// True if the side's busy-waiting threads would leave no core free.
fn takes_all(threads: u32, side: Side, policy: Policy, cores: usize) -> bool {
    let busy = matches!(policy, Policy::Spin | Policy::BusyPoll | Policy::Adaptive);
    // Both sides may be on this host; the client goes first.
    let threads = threads as usize * if side == Side::Server { 2 } else { 1 };
    busy && threads >= cores
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn busy_waiting_of_every_kind_leaves_a_core_to_the_kernel() {
        for policy in Policy::ALL {
            let busy = !matches!(policy, Policy::Block | Policy::Poll | Policy::Epoll);
            assert_eq!(takes_all(4, Side::Client, policy, 4), busy, "{policy}");
            assert_eq!(takes_all(2, Side::Server, policy, 4), busy, "{policy}");
            assert!(!takes_all(3, Side::Client, policy, 4) && !takes_all(1, Side::Server, policy, 4), "{policy}");
        }
    }

    #[test]
    fn the_sides_share_no_cpu_if_there_are_enough() {
        let cpus = |threads: u32, allowed: &[u32]| {
            let job = Job { threads, ..Job::new("udp".parse().unwrap()) };
            [Side::Client, Side::Server].map(|side| (0..threads).map(|at| cpu_of(&job, side, at, allowed)).collect::<Vec<_>>())
        };
        assert_eq!(cpus(1, &[3, 5, 7]), [[3], [5]]);
        assert_eq!(cpus(1, &[3]), [[3], [3]]);
        assert_eq!(cpus(4, &[0, 1, 2, 3, 8, 9, 10, 11, 12]), [[0, 1, 2, 3], [8, 9, 10, 11]]);
        assert_eq!(cpus(2, &[0, 1, 2]), [[0, 1], [1, 2]]);
        assert_eq!(cpus(2, &[0, 1]), [[0, 1], [1, 0]]);
    }

    #[test]
    fn a_thread_of_the_kernels_has_a_cpu_of_its_own_if_there_is_one() {
        let beside = |threads: u32, allowed: &[u32]| {
            let job = Job { threads, ..Job::new("uring-udp".parse().unwrap()) };
            [Side::Client, Side::Server]
                .map(|side| (0..threads).map(|at| cpu_beside(&job, side, at, allowed)).collect::<Vec<_>>())
        };
        assert_eq!(beside(1, &[3, 5, 7, 9]), [[7], [9]]);
        assert_eq!(beside(1, &[3, 5, 7]), [[7], [7]]);
        assert_eq!(beside(1, &[3, 5]), [[3], [5]]);
        assert_eq!(beside(2, &[0, 1, 2, 3, 4, 5, 6, 7]), [[4, 5], [6, 7]]);
    }

    #[test]
    fn a_thread_that_fails_stops_the_others() {
        let job = Job { threads: 2, ..Job::new("udp".parse().unwrap()) };
        let allowed = thread::allowed_cpus().unwrap();
        let cores = Cores { allowed: &allowed, of_host: allowed.len() };
        let stop = Shared::create().unwrap();
        for fails in [0, 1] {
            stop.clear_stop();
            let run = |thread: u32, _: &mut [()]| {
                if thread == fails {
                    return Err(PathError::Thread("broken".into()));
                }
                for _ in 0..10_000 {
                    if stop.stop_requested() {
                        return Ok(());
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                panic!("thread {thread} is not stopped");
            };
            let result = each_chunk(&job, Side::Client, cores, &mut [(); 2], &mut SideFound::default(), &stop, run);
            assert_eq!(result.unwrap_err().to_string(), "broken", "thread {fails} fails");
        }
    }

    #[test]
    fn every_thread_gets_its_share_of_the_flows() {
        for (flows, threads, expected) in [(5, 4, vec![2, 1, 1, 1]), (4, 2, vec![2, 2]), (3, 3, vec![1, 1, 1]), (7, 1, vec![7])] {
            let mut all = vec![(); flows];
            assert_eq!(shares(&mut all, threads).iter().map(|part| part.len()).collect::<Vec<_>>(), expected);
        }
    }
}
