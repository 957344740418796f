//! The CPUs that a thread of this process can be pinned to.
//!
//! Isolated CPUs (`isolcpus=`) are among them, though sched_getaffinity(2) leaves them out. Those that it names are called
//! allowed: threads stay there unless other CPUs are asked for.

use std::io;
use std::thread::{Builder, scope};

use hairpin_iopath::measure::cpu_of;
use hairpin_plan::job::Job;
use hairpin_record::run::Side;
use hairpin_sys::thread;

/// Number of CPUs that a set has room for (CPU_SETSIZE).
const ALL: u32 = 1024;

/// All pinnable CPUs, in ascending order.
fn pinnable() -> io::Result<Vec<u32>> {
    // The kernel keeps the CPUs of a set that exist and are in the cpuset. The thread stays where it is: pinned to a core that a
    // real-time thread holds, it would never come back.
    let asks = || {
        thread::stay_on(&(0..ALL).collect::<Vec<u32>>())?;
        thread::allowed_cpus()
    };
    scope(|scope| {
        let asking = Builder::new().spawn_scoped(scope, asks)?;
        asking.join().unwrap_or_else(|_| Err(io::Error::other("the thread that asks has ended")))
    })
}

/// The CPUs to choose from where `asked` are asked for: those allowed, or all pinnable ones if one asked for is not allowed.
pub fn choices(asked: &[u32], allowed: &[u32]) -> Vec<u32> {
    choices_of(asked, allowed, pinnable)
}

fn choices_of(asked: &[u32], allowed: &[u32], pinnable: impl FnOnce() -> io::Result<Vec<u32>>) -> Vec<u32> {
    if asked.iter().all(|cpu| allowed.contains(cpu)) {
        return allowed.to_vec();
    }
    pinnable().unwrap_or_else(|_| allowed.to_vec())
}

/// The first CPU in `asked` that is not among `choices`, and the choices in words.
pub fn refused(asked: &[u32], choices: &[u32]) -> Option<(u32, String)> {
    let cpu = asked.iter().find(|cpu| !choices.contains(cpu))?;
    Some((*cpu, choices.iter().map(u32::to_string).collect::<Vec<_>>().join(",")))
}

/// `count` CPUs: `first` and those after it in `choices`, round and round.
pub fn counted_from(first: u32, count: usize, choices: &[u32]) -> Vec<u32> {
    match choices.iter().position(|cpu| *cpu == first) {
        Some(at) => (at..at + count).map(|at| choices[at % choices.len()]).collect(),
        // Pinning to `first` fails, and says why.
        None => vec![first],
    }
}

/// The CPUs to choose from for the threads of a side.
pub fn of_side(job: &Job, side: Side, allowed: &[u32]) -> Vec<u32> {
    let asked = match side {
        Side::Client => job.cpus.client,
        Side::Server => job.cpus.server,
    };
    choices(asked.as_slice(), allowed)
}

/// The CPU of each thread of a side.
pub fn of_threads(job: &Job, side: Side, allowed: &[u32]) -> Vec<u32> {
    let choices = of_side(job, side, allowed);
    (0..job.threads).map(|thread| cpu_of(job, side, thread, &choices)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isolated_cpu_is_a_choice_if_it_is_asked_for() {
        // isolcpus=2,3, and 4 is offline.
        let all = || Ok(vec![0, 1, 2, 3]);
        assert_eq!(choices_of(&[1], &[0, 1], || panic!("nobody asked for another")), [0, 1]);
        let choices = choices_of(&[0, 2], &[0, 1], all);
        assert_eq!((&choices[..], refused(&[0, 2], &choices)), (&[0, 1, 2, 3][..], None));
        assert_eq!(refused(&[3, 4], &choices_of(&[3, 4], &[0, 1], all)), Some((4, "0,1,2,3".into())));
        let unknown = choices_of(&[2], &[0, 1], || Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused(&[2], &unknown), Some((2, "0,1".into())));
    }

    #[test]
    fn the_kernel_names_cpus_outside_the_threads_own_set() {
        let allowed = thread::allowed_cpus().unwrap();
        let kept = std::thread::spawn(move || {
            thread::stay_on(&allowed[..1]).unwrap();
            let all = pinnable().unwrap();
            assert!(allowed.iter().all(|cpu| all.contains(cpu)), "{allowed:?} {all:?}");
            assert_eq!(thread::allowed_cpus().unwrap(), allowed[..1], "this thread is as it was");
        });
        kept.join().unwrap();
    }

    #[test]
    fn threads_count_on_from_the_first() {
        assert_eq!(counted_from(2, 3, &[0, 1, 2, 3]), [2, 3, 0]);
        assert_eq!(counted_from(7, 2, &[0, 1]), [7]);
    }
}
