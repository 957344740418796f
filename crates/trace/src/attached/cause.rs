//! Why a transaction was slow: the stage that grew, and the event that was seen in it.
//!
//! What is named was seen: a thread pushed off its CPU, and by whom; who had the CPU while a thread waited for it; a sleep; something sent again.
//! All else is `nothing seen`.

use super::stages::{Hooks, Measured, Stage};
use super::transaction::{Process, Transaction};

/// Why, by whom, and in which stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What it was.
    pub what: What,
    /// By whom; thread 0 is nobody.
    pub who: Process,
    /// The stage that exceeded its p50 by most.
    pub stage: Stage,
    /// By how much.
    pub excess: u64,
    /// How long it took of that, where it is known.
    pub took: Option<u64>,
}

/// What may make a transaction slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A thread had to give its CPU to another.
    Preempted,
    /// The server's thread slept before it had answered: it waited for something else.
    Waited,
    /// The thread that was told was to run, and another had its CPU.
    RunQueue,
    /// The thread that was told was to run, and its CPU was idle.
    Idle,
    /// The message lay there while the thread read another.
    Busy,
    /// TCP sent something again.
    Retransmitted,
    /// A signal or a debugger stopped the thread.
    Stopped,
    /// A later part of the message was not sent until the part before it was acknowledged.
    Nagle,
    /// Whoever watches had the CPU.
    Observer,
    /// None of these.
    NothingSeen,
}

impl What {
    /// As it stands in a record.
    pub fn name(self) -> &'static str {
        match self {
            What::Preempted => "preempted",
            What::Waited => "application slept",
            What::RunQueue => "run queue wait",
            What::Idle => "idle wake-up",
            What::Busy => "application busy",
            What::Retransmitted => "retransmission",
            What::Stopped => "stopped",
            What::Nagle => "Nagle",
            What::Observer => "observer",
            What::NothingSeen => "nothing seen",
        }
    }

    /// What to do.
    pub fn advice(self) -> &'static str {
        match self {
            What::Preempted => "give the application a CPU of its own (isolated_cpus), or end what runs there",
            What::Waited => "look at what it waits for: a disk, a lock, another server (hairpin explain --port of that one)",
            What::RunQueue => "give the application a CPU of its own (isolated_cpus), or end what runs there",
            What::Idle => "hold /dev/cpu_dma_latency at 0 (cpu_dma_latency_us), or let the application poll",
            What::Busy => "its thread served others first: more threads, or fewer connections per thread",
            What::Retransmitted => "look for a lossy link: nstat TcpRetransSegs",
            What::Stopped => {
                "SIGSTOP or a debugger stopped the process: look for who sends it signals (job control, cgroup managers, strace, gdb)"
            }
            What::Nagle => NAGLE,
            What::Observer => "hairpin itself had the CPU: it is in no cause",
            What::NothingSeen => {
                "the time passed between two hooks without an event: the application's own work, an interrupt, or the hypervisor"
            }
        }
    }
}

/// What to do about a message whose parts wait for each other.
pub const NAGLE: &str = "set TCP_NODELAY on the sender's socket, or write the message in one call (writev, a buffer, MSG_MORE)";

/// The cause of a slow transaction; `usual` is a stage's p50, or its mean where there are too few for that. `observer` is the process that watches.
pub fn cause(
    transaction: &Transaction,
    measured: &Measured,
    hooks: Hooks,
    observer: i32,
    usual: impl Fn(Stage) -> u64,
) -> Option<Cause> {
    let grown = measured.stages.iter().map(|(stage, ns)| (*stage, ns.saturating_sub(usual(*stage))));
    let (stage, excess) = grown.max_by_key(|(_, excess)| *excess)?;
    let got = &transaction.got[stage.way()];
    let nobody = Process::default;
    // An event explains a stage if it took at least half of what the stage is longer.
    let half = excess.div_ceil(2).max(1);
    // Whose thread has it next: the server's, which is told and answers, or the client's.
    let stopped = transaction.stopped[usize::from(stage.way() == 0 || stage.is_application())];
    let held = transaction.sent[stage.way()].held;
    // `before` is who pushed the thread off after it had its CPU, if somebody did.
    let (what, who) = if stopped >= half {
        (What::Stopped, nobody())
    } else if held >= half {
        (What::Nagle, nobody())
    } else if stage.is_wake_up() && got.pushed == 0 {
        if got.before.thread == 0 { (What::Idle, nobody()) } else { (What::RunQueue, got.before) }
    } else if (stage.is_queue(hooks) || stage.is_read()) && got.pushed >= half {
        (What::Preempted, got.before)
    } else if stage.is_application() && transaction.preempted >= half {
        (What::Preempted, transaction.by)
    } else if stage.is_application() && transaction.slept >= half {
        (What::Waited, nobody())
    } else if stage.is_queue(hooks) && got.busy {
        (What::Busy, nobody())
    } else if transaction.retransmitted {
        (What::Retransmitted, nobody())
    } else {
        (What::NothingSeen, nobody())
    };
    let what = if who.thread != 0 && who.pid == observer { What::Observer } else { what };
    let took = match what {
        What::Stopped => Some(stopped),
        What::Nagle => Some(held),
        _ => None,
    };
    Some(Cause { what, who, stage, excess, took })
}

#[cfg(test)]
mod tests {
    use super::super::stages::measure;
    use super::super::transaction::{Got, Sent};
    use super::*;

    /// A server alone, 10 ns per stage.
    fn server() -> Transaction {
        let asked = Sent { received: 10, ready: 20, waking: 30, ..Sent::default() };
        let answered = Sent { sent: 60, queued: 70, started: 80, ..Sent::default() };
        let got = Got { switched: 40, read: 50, ..Got::default() };
        Transaction { sent: [asked, answered], got: [got, Got::default()], ..Transaction::default() }
    }

    fn of(t: &Transaction) -> (What, i32, &'static str, u64) {
        let measured = measure(t, Hooks::ALL).unwrap();
        let cause = cause(t, &measured, Hooks::ALL, 99, |_| 10).unwrap();
        (cause.what, cause.who.thread, cause.stage.to(), cause.excess)
    }

    #[test]
    fn what_was_seen_in_the_stage_that_grew() {
        let mut t = server();
        (t.sent[1].sent, t.sent[1].queued, t.sent[1].started) = (1060, 1070, 1080);
        assert_eq!(of(&t), (What::NothingSeen, 0, "tcp_sendmsg_locked", 1000));
        t.slept = 400;
        assert_eq!(of(&t).0, What::NothingSeen, "not even half of it");
        t.slept = 900;
        assert_eq!(of(&t).0, What::Waited);
        (t.preempted, t.by.thread) = (700, 4711);
        assert_eq!(of(&t), (What::Preempted, 4711, "tcp_sendmsg_locked", 1000));
        let mut t = server();
        t.retransmitted = true;
        (t.sent[1].queued, t.sent[1].started) = (5070, 5080);
        assert_eq!(of(&t).0, What::Retransmitted);
    }

    #[test]
    fn a_thread_that_was_stopped_and_a_part_that_was_held_back_are_told() {
        let mut t = server();
        (t.got[0].switched, t.sent[0].waking, t.got[0].read) = (0, 0, 20_000_040);
        (t.sent[1].sent, t.sent[1].queued, t.sent[1].started) = (20_000_050, 20_000_060, 20_000_070);
        t.stopped = [0, 19_000_000];
        assert_eq!(of(&t).0, What::Stopped);
        t.stopped = [19_000_000, 0];
        assert_eq!(of(&t).0, What::NothingSeen, "the client's stop is not the server's");
        let mut t = server();
        t.sent[1].queued_last = 40_000_000;
        assert_eq!(of(&t).0, What::NothingSeen);
        t.sent[1].held = 39_000_000;
        let measured = measure(&t, Hooks::ALL).unwrap();
        let found = cause(&t, &measured, Hooks::ALL, 99, |_| 10).unwrap();
        assert_eq!((found.what, found.took, found.stage.name(Hooks::ALL)), (What::Nagle, Some(39_000_000), "reply rest".into()));
    }

    #[test]
    fn who_watches_is_named_as_the_observer() {
        let mut t = server();
        (t.sent[1].sent, t.sent[1].queued, t.sent[1].started) = (1060, 1070, 1080);
        (t.preempted, t.by) = (900, Process { pid: 99, thread: 100, comm: "hairpin".into() });
        assert_eq!(of(&t).0, What::Observer);
        t.by.pid = 98;
        assert_eq!(of(&t).0, What::Preempted, "another hairpin is another process");
    }

    #[test]
    fn who_had_the_cpu_of_a_thread_that_was_told() {
        let mut t = server();
        let late = |t: &mut Transaction| {
            (t.got[0].switched, t.got[0].read) = (540, 550);
            (t.sent[1].sent, t.sent[1].queued, t.sent[1].started) = (560, 570, 580);
        };
        late(&mut t);
        assert_eq!(of(&t), (What::Idle, 0, "sched_switch", 500));
        t.got[0].before = Process { pid: 7, thread: 8, comm: "stress".into() };
        assert_eq!(of(&t), (What::RunQueue, 8, "sched_switch", 500));
        // Awake, and not seen to do anything else: who knows.
        (t.sent[0].waking, t.got[0].switched) = (0, 0);
        assert_eq!(of(&t), (What::NothingSeen, 0, "sock_recv_length", 520));
        t.got[0].busy = true;
        assert_eq!(of(&t).0, What::Busy);
        t.got[0].pushed = 400;
        assert_eq!(of(&t), (What::Preempted, 8, "sock_recv_length", 520));
    }
}
