//! The calling thread and its process: CPU, scheduler, exact sleep, resource usage; threads with a file table of their own.

mod own_files;

use std::io;
use std::num::NonZeroU64;

use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{Pid, Resource, getrlimit};
use rustix::thread::{
    ClockId, CpuSet, Timespec, clock_nanosleep_absolute, sched_getaffinity, sched_getcpu, sched_setaffinity,
    set_current_timer_slack,
};

pub use own_files::spawn_with_own_files;

/// The CPUs allowed to the calling thread, in ascending order.
///
/// # Errors
/// The errors of sched_getaffinity(2); `EINVAL` on a machine with more than 1,024 CPUs.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// The calling thread's id, as from gettid(2).
pub fn id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// The calling thread's current CPU; unless pinned, it may already be on another when this returns.
pub fn current_cpu() -> u32 {
    sched_getcpu() as u32
}

/// Reason why a thread was not pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The machine has no such CPU.
    #[error("CPU {cpu} does not exist: this machine has CPUs 0 to {last}")]
    NoSuchCpu {
        /// The requested CPU.
        cpu: u32,
        /// The machine's highest CPU number.
        last: u32,
    },
    /// The CPU exists but is offline or outside the set allowed to this process (cpuset, container).
    #[error("CPU {cpu} is offline or not allowed for this process, which may use {}", ranges(allowed))]
    NotAllowed {
        /// The requested CPU.
        cpu: u32,
        /// The CPUs allowed before the call.
        allowed: Vec<u32>,
    },
    /// The kernel refused for another reason.
    #[error("cannot pin to CPU {cpu}: {error}")]
    Kernel {
        /// The requested CPU.
        cpu: u32,
        /// The kernel's error.
        error: io::Error,
    },
}

/// Pins the calling thread to one CPU (sched_setaffinity(2)).
///
/// # Errors
/// [`PinError`].
pub fn pin(cpu: u32) -> Result<(), PinError> {
    let kernel = |error: rustix::io::Errno| PinError::Kernel { cpu, error: error.into() };
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(PinError::NoSuchCpu { cpu, last: configured().saturating_sub(1) });
    }
    let allowed = allowed_cpus().map_err(|error| PinError::Kernel { cpu, error })?;
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    match sched_setaffinity(None, &set) {
        // The kernel's error if none of these CPUs is present and allowed.
        Err(rustix::io::Errno::INVAL) => Err(not_pinned(cpu, configured(), allowed)),
        other => other.map_err(kernel),
    }
}

/// Number of CPUs of this machine; 0 if it is unknown.
fn configured() -> u32 {
    // SAFETY: sysconf reads a number; -1, an unknown name, becomes 0 below.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(count).unwrap_or(0)
}

/// Why the kernel refuses a CPU on a machine of `configured` CPUs. Their numbers may have gaps, so that higher ones exist.
fn not_pinned(cpu: u32, configured: u32, allowed: Vec<u32>) -> PinError {
    let last = configured.saturating_sub(1).max(allowed.last().copied().unwrap_or(0));
    if configured > 0 && cpu > last { PinError::NoSuchCpu { cpu, last } } else { PinError::NotAllowed { cpu, allowed } }
}

/// Keeps the calling thread off these CPUs. Returns false and changes nothing if no other CPU is allowed.
///
/// # Errors
/// The errors of sched_getaffinity(2) and sched_setaffinity(2).
pub fn keep_off(cpus: &[u32]) -> io::Result<bool> {
    let mut set = sched_getaffinity(None)?;
    cpus.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.unset(cpu));
    if set.count() == 0 {
        return Ok(false);
    }
    sched_setaffinity(None, &set)?;
    Ok(true)
}

/// Keeps the calling thread, and everything it starts later, on these CPUs.
///
/// # Errors
/// The errors of sched_setaffinity(2): `EINVAL` if none of them is present and allowed.
pub fn stay_on(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

/// Keeps all threads of this process, and their later children, on these CPUs.
///
/// # Errors
/// /proc cannot be read; the errors of sched_setaffinity(2). Threads that end meanwhile are no error.
pub fn all_stay_on(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    for task in std::fs::read_dir("/proc/self/task")? {
        let thread = task?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match thread.map_or(Ok(()), |thread| sched_setaffinity(Some(thread), &set)) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// `0-3,8` for 0, 1, 2, 3 and 8, the kernel's notation for CPU lists.
fn ranges(cpus: &[u32]) -> String {
    let parts: Vec<String> = cpus
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| if run.len() == 1 { run[0].to_string() } else { format!("{}-{}", run[0], run[run.len() - 1]) })
        .collect();
    parts.join(",")
}

/// A thread's scheduling policy (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sched {
    /// `SCHED_OTHER`, the default of every process.
    Other,
    /// `SCHED_FIFO` with a priority of 1 to 99.
    Fifo(u8),
}

/// Reason why a scheduling policy was not set.
#[derive(Debug, thiserror::Error)]
pub enum SchedError {
    /// Missing permission.
    #[error(
        "SCHED_FIFO at priority {0} is not permitted: run as root, grant CAP_SYS_NICE, or raise the limit (ulimit -r {0}); a cgroup whose cpu.rt_runtime_us is 0 forbids it even to root"
    )]
    NotPermitted(u8),
    /// The priority is not one of 1 to 99.
    #[error("SCHED_FIFO has no priority {0}: use 1 to 99")]
    NoSuchPriority(u8),
    /// The kernel refused for another reason.
    #[error("cannot set {policy:?}: {error}")]
    Kernel {
        /// The requested policy.
        policy: Sched,
        /// The kernel's error.
        error: io::Error,
    },
}

/// Sets the calling thread's scheduling policy.
///
/// A spinning `SCHED_FIFO` thread keeps everything else off its CPU except for the share reserved by
/// `/proc/sys/kernel/sched_rt_runtime_us` (5 % by default): leave a CPU free.
///
/// # Errors
/// [`SchedError`].
pub fn set_sched(policy: Sched) -> Result<(), SchedError> {
    let (number, priority) = match policy {
        Sched::Other => (libc::SCHED_OTHER, 0),
        Sched::Fifo(priority @ 1..=99) => (libc::SCHED_FIFO, priority),
        Sched::Fifo(priority) => return Err(SchedError::NoSuchPriority(priority)),
    };
    // SAFETY: all zeroes is a valid sched_param (musl's has more fields than the priority).
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority.into();
    // SAFETY: `parameters` is a valid sched_param, and the calling thread exists.
    match unsafe { libc::pthread_setschedparam(libc::pthread_self(), number, &raw const parameters) } {
        0 => Ok(()),
        libc::EPERM => Err(SchedError::NotPermitted(priority)),
        error => Err(SchedError::Kernel { policy, error: io::Error::from_raw_os_error(error) }),
    }
}

/// Sets how long, in ns, the kernel may delay the calling thread's wake-ups to combine them with others (`PR_SET_TIMERSLACK`,
/// 50,000 ns by default; `SCHED_FIFO` threads have no slack).
///
/// # Errors
/// The errors of prctl(2).
pub fn set_timer_slack(ns: NonZeroU64) -> io::Result<()> {
    Ok(set_current_timer_slack(Some(ns))?)
}

/// The process's memory could not be locked.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot lock memory ({error}): the limit is {}; run as root, grant CAP_IPC_LOCK, or raise it (ulimit -l unlimited)",
    limit_bytes.map_or("unlimited".into(), |bytes| format!("{} KiB", bytes / 1024))
)]
pub struct LockMemoryError {
    /// `RLIMIT_MEMLOCK`, or `None` if unlimited.
    pub limit_bytes: Option<u64>,
    /// The error of mlockall(2).
    pub error: io::Error,
}

/// Locks all present and future memory of the process (`mlockall(MCL_CURRENT | MCL_FUTURE)`): no page fault afterwards.
///
/// Once memory is locked under a finite limit, an allocation beyond the limit fails, and that ends a Rust program: allocate what
/// is needed beforehand.
///
/// # Errors
/// [`LockMemoryError`].
pub fn lock_memory() -> Result<(), LockMemoryError> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|error| LockMemoryError { limit_bytes: getrlimit(Resource::Memlock).current, error: error.into() })
}

/// Unlocks all memory of the process again (munlockall(2)).
///
/// # Errors
/// The errors of munlockall(2).
pub fn unlock_memory() -> io::Result<()> {
    Ok(munlockall()?)
}

/// Sleeps until CLOCK_MONOTONIC shows `monotonic_ns` (clock_nanosleep(2), `TIMER_ABSTIME`); returns at once if that time has
/// passed.
///
/// True if the time has come; `false` if a signal (a [`nudge`](crate::process::Worker::nudge)) came first.
pub fn sleep_until(monotonic_ns: u64) -> bool {
    let due =
        Timespec { tv_sec: (monotonic_ns / 1_000_000_000).cast_signed(), tv_nsec: (monotonic_ns % 1_000_000_000).cast_signed() };
    // With a valid clock and time EINTR is the only error.
    clock_nanosleep_absolute(ClockId::Monotonic, &due).is_ok()
}

/// CPU time of the calling thread in ns (CLOCK_THREAD_CPUTIME_ID, clock_gettime(2)).
pub fn cpu_time_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// CPU time and context switches since the start of the process or thread.
///
/// The sum of the two times is as exact as the scheduler's clock; their division depends on the code that ran at each tick,
/// unless the kernel counts every transition (`CONFIG_VIRT_CPU_ACCOUNTING_GEN`), so below some hundred ms it is a guess.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user space, in ns (a multiple of 1,000).
    pub user_ns: u64,
    /// CPU time in the kernel on its behalf, in ns (a multiple of 1,000).
    pub system_ns: u64,
    /// Context switches because it waited.
    pub voluntary: u64,
    /// Context switches because something else took the CPU.
    pub involuntary: u64,
}

/// Usage of the whole process (`RUSAGE_SELF`).
///
/// # Errors
/// The errors of getrusage(2).
pub fn process_usage() -> io::Result<Usage> {
    usage(libc::RUSAGE_SELF)
}

/// Usage of the calling thread (`RUSAGE_THREAD`).
///
/// # Errors
/// The errors of getrusage(2).
pub fn thread_usage() -> io::Result<Usage> {
    usage(libc::RUSAGE_THREAD)
}

fn usage(who: libc::c_int) -> io::Result<Usage> {
    // SAFETY: all zeroes is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage.
    if unsafe { libc::getrusage(who, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel reports no negative times or counts.
    let ns = |time: libc::timeval| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1_000;
    Ok(Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        voluntary: usage.ru_nvcsw.cast_unsigned(),
        involuntary: usage.ru_nivcsw.cast_unsigned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::time::clock_gettime;

    use super::*;

    /// Runs `f` in a separate thread, so that changes to affinity, policy and slack end with it.
    fn apart<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(f).join().unwrap()
    }

    #[test]
    fn a_thread_keeps_off_where_it_can() {
        let allowed = allowed_cpus().unwrap();
        let (first, all) = (allowed[0], allowed.clone());
        let left = apart(move || (keep_off(&[first, u32::MAX]).unwrap(), allowed_cpus().unwrap()));
        let expected: Vec<u32> = if allowed.len() > 1 { allowed[1..].to_vec() } else { allowed.clone() };
        assert_eq!(left, (allowed.len() > 1, expected));
        let kept = apart(move || (keep_off(&all).unwrap(), allowed_cpus().unwrap()));
        assert_eq!(kept, (false, allowed), "there is no other");
    }

    fn now_ns() -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
    }

    #[test]
    fn a_pinned_thread_runs_there() {
        let allowed = allowed_cpus().unwrap();
        for cpu in allowed {
            let seen = apart(move || {
                pin(cpu).unwrap();
                (current_cpu(), allowed_cpus().unwrap())
            });
            assert_eq!(seen, (cpu, vec![cpu]));
        }
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_told_apart_from_one_that_is_not_allowed() {
        assert!(matches!(pin(100_000), Err(PinError::NoSuchCpu { cpu: 100_000, .. })));
        assert_eq!(
            PinError::NotAllowed { cpu: 9, allowed: vec![0, 1, 2, 5, 7, 8] }.to_string(),
            "CPU 9 is offline or not allowed for this process, which may use 0-2,5,7-8"
        );
        assert_eq!(PinError::NoSuchCpu { cpu: 64, last: 1 }.to_string(), "CPU 64 does not exist: this machine has CPUs 0 to 1");
    }

    #[test]
    fn a_cpu_above_the_number_of_cpus_exists_where_their_numbers_have_gaps() {
        // CPU 1 was unplugged; older C libraries count three.
        let refused = |cpu| not_pinned(cpu, 3, vec![0, 2, 3]);
        assert!([1, 3].into_iter().all(|cpu| matches!(refused(cpu), PinError::NotAllowed { .. })));
        assert!(matches!(refused(4), PinError::NoSuchCpu { cpu: 4, last: 3 }));
        assert!(matches!(not_pinned(2, 2, vec![0, 1]), PinError::NoSuchCpu { cpu: 2, last: 1 }));
        assert!(matches!(not_pinned(2, 0, vec![0, 1]), PinError::NotAllowed { .. }), "their number is unknown");
    }

    #[test]
    fn policies_are_set_or_refused_with_a_remedy() {
        apart(|| {
            // SAFETY: reads the calling thread's policy.
            let policy = || unsafe { libc::sched_getscheduler(0) };
            match set_sched(Sched::Fifo(1)) {
                Ok(()) => assert_eq!(policy(), libc::SCHED_FIFO),
                Err(SchedError::NotPermitted(1)) => assert_eq!(policy(), libc::SCHED_OTHER),
                Err(other) => panic!("{other}"),
            }
            set_sched(Sched::Other).unwrap();
            assert_eq!(policy(), libc::SCHED_OTHER);
        });
        let refused = SchedError::NotPermitted(7).to_string();
        assert!(refused.ends_with("(ulimit -r 7); a cgroup whose cpu.rt_runtime_us is 0 forbids it even to root"), "{refused}");
        assert_eq!(set_sched(Sched::Fifo(100)).unwrap_err().to_string(), "SCHED_FIFO has no priority 100: use 1 to 99");
    }

    #[test]
    fn slack_is_set() {
        apart(|| {
            set_timer_slack(NonZeroU64::MIN).unwrap();
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
        });
    }

    #[test]
    fn a_refused_lock_says_the_limit() {
        let error = io::Error::from_raw_os_error(libc::ENOMEM);
        let text = LockMemoryError { limit_bytes: Some(64 << 10), error }.to_string();
        assert!(text.contains("the limit is 64 KiB; run as root"), "{text}");
    }

    #[test]
    fn sleep_ends_when_due_and_not_before() {
        let due = now_ns() + 2_000_000;
        assert!(sleep_until(due));
        assert!(now_ns() >= due);
        let start = Instant::now();
        assert!(sleep_until(1));
        assert!(start.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn usage_grows_with_work_and_waiting() {
        apart(|| {
            let before = thread_usage().unwrap();
            let until = Instant::now() + Duration::from_millis(5);
            while Instant::now() < until {}
            sleep_until(now_ns() + 1_000_000);
            let (after, all) = (thread_usage().unwrap(), process_usage().unwrap());
            assert!(after.user_ns + after.system_ns > before.user_ns + before.system_ns);
            assert!(after.voluntary > before.voluntary);
            assert!(all.user_ns + all.system_ns >= after.user_ns + after.system_ns);
        });
    }
}
