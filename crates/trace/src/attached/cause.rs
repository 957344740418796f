//! Why a transaction was slow: the stage that grew, and the event seen in it.
//!
//! Only observed events are named: a preempted thread and the thread that preempted it, the thread that had the CPU
//! while another waited, a sleep, a retransmission. Everything else is `nothing seen`.

use super::stages::{HookPair, Hooks, Measured};
use super::transaction::{Process, Transaction};
use crate::causes::LIMIT_ADVICE;

/// The cause of a slow transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub what: What,
    /// The thread that caused it; thread 0 is none.
    pub who: Process,
    /// The stage that exceeded its usual time the most.
    pub stage: HookPair,
    /// Time by which the stage exceeded it, in ns.
    pub excess: u64,
    /// The part of the excess that the event explains, if known.
    pub took: Option<u64>,
}

/// The kinds of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A thread was preempted.
    Preempted,
    /// The server's thread slept before it answered: it waited for something else.
    Waited,
    /// The notified thread was runnable, and another thread had its CPU.
    RunQueue,
    /// The notified thread was runnable, and its CPU was idle.
    Idle,
    /// The message waited while the thread read another one.
    Busy,
    /// TCP retransmitted.
    Retransmitted,
    /// A signal or a debugger stopped the thread.
    Stopped,
    /// A later part of the message waited for the ACK of an earlier part.
    Nagle,
    /// The watching process had the CPU.
    Observer,
    /// None of these.
    NothingSeen,
}

impl What {
    /// The name in the record.
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

    fn advice(self) -> &'static str {
        match self {
            What::Preempted => "give the application a CPU of its own (isolated_cpus), or end what runs there",
            What::Waited => {
                "look at what it waits for: a disk, a lock, another server (hairpin explain :PORT, with that one's port)"
            }
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

impl Cause {
    /// True if nobody had the CPU of a thread that could have gone on.
    pub fn is_limit(&self) -> bool {
        matches!(self.what, What::Preempted) && self.who.thread == 0
    }

    /// `has_idle_driver`: the host has a cpuidle driver, without which no demand on idle states is heeded.
    pub fn advice(&self, has_idle_driver: bool) -> &'static str {
        match self.what {
            _ if self.is_limit() => LIMIT_ADVICE,
            What::Idle if !has_idle_driver => "let the application poll: a core that never sleeps need not be woken",
            what => what.advice(),
        }
    }
}

/// Advice for a message whose parts wait for each other.
pub const NAGLE: &str = "set TCP_NODELAY on the sender's socket, or write the message in one call (writev, a buffer, MSG_MORE)";

/// The cause of a slow transaction. `usual` is a stage's usual time; `observer` is the watching process.
pub fn cause(
    transaction: &Transaction,
    measured: &Measured,
    hooks: Hooks,
    observer: i32,
    usual: impl Fn(HookPair) -> u64,
) -> Option<Cause> {
    let grown = measured.stages.iter().map(|(stage, ns)| (*stage, ns.saturating_sub(usual(*stage))));
    let (stage, excess) = grown.max_by_key(|(_, excess)| *excess)?;
    let got = &transaction.got[stage.way()];
    let nobody = Process::default;
    // An event explains a stage if it took at least half of the excess.
    let half = excess.div_ceil(2).max(1);
    // The thread that handles it next: the server's, which is notified and answers, or the client's.
    let stopped = transaction.stopped[usize::from(stage.way() == 0 || stage.is_application())];
    let held = stage.later_parts().map_or(0, |way| transaction.sent[way].held);
    // `before` is the thread that preempted it after it had its CPU, if one did.
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
    } else if transaction.retransmitted && !stage.is_application() {
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
    fn names_the_event_in_the_stage_that_grew() {
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
    fn names_stopped_threads_and_held_back_parts() {
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
    fn a_held_back_part_delays_no_other_stage() {
        let mut t = server();
        (t.sent[1].sent, t.sent[1].queued, t.sent[1].started, t.sent[1].queued_last) = (1060, 1070, 1080, 1090);
        t.sent[1].held = 600;
        t.retransmitted = true;
        assert_eq!(of(&t), (What::NothingSeen, 0, "tcp_sendmsg_locked", 1000));
        t.slept = 900;
        assert_eq!(of(&t).0, What::Waited);
        // The request's, where the application read its first part before.
        let mut t = server();
        (t.got[0].read_last, t.sent[0].held) = (1050, 900);
        (t.sent[1].sent, t.sent[1].queued, t.sent[1].started) = (1060, 1070, 1080);
        assert_eq!(of(&t), (What::Nagle, 0, "sock_recv_length", 990));
    }

    #[test]
    fn a_client_alone_sees_its_held_back_request_as_time_of_the_other_side() {
        let asked = Sent { sent: 10, queued: 20, started: 30, held: 39_000_000, ..Sent::default() };
        let answered = Sent { received: 40_000_000, ready: 40_000_010, ..Sent::default() };
        let got = [Got::default(), Got { read: 40_000_020, ..Got::default() }];
        let t = Transaction { sent: [asked, answered], got, ..Transaction::default() };
        assert_eq!((of(&t).0, of(&t).2), (What::Nagle, "netif_receive_skb"));
    }

    #[test]
    fn names_the_watching_process_as_observer() {
        let mut t = server();
        (t.sent[1].sent, t.sent[1].queued, t.sent[1].started) = (1060, 1070, 1080);
        (t.preempted, t.by) = (900, Process { pid: 99, thread: 100, comm: "hairpin".into() });
        assert_eq!(of(&t).0, What::Observer);
        t.by.pid = 98;
        assert_eq!(of(&t).0, What::Preempted, "another hairpin is another process");
    }

    #[test]
    fn names_the_thread_on_the_cpu_of_a_notified_one() {
        let mut t = server();
        let late = |t: &mut Transaction| {
            (t.got[0].switched, t.got[0].read) = (540, 550);
            (t.sent[1].sent, t.sent[1].queued, t.sent[1].started) = (560, 570, 580);
        };
        late(&mut t);
        assert_eq!(of(&t), (What::Idle, 0, "sched_switch", 500));
        t.got[0].before = Process { pid: 7, thread: 8, comm: "stress".into() };
        assert_eq!(of(&t), (What::RunQueue, 8, "sched_switch", 500));
        // The thread was awake, and no event was seen.
        (t.sent[0].waking, t.got[0].switched) = (0, 0);
        assert_eq!(of(&t), (What::NothingSeen, 0, "sock_recv_length", 520));
        t.got[0].busy = true;
        assert_eq!(of(&t).0, What::Busy);
        t.got[0].pushed = 400;
        assert_eq!(of(&t), (What::Preempted, 8, "sock_recv_length", 520));
    }
}
