//! Why slow transactions were slow: the events on both cores during each, and the causes with the time that they
//! explain.
//!
//! ```text
//!   a block's transactions and events ─▶ the slowest so far, each with its events
//!   at the end: above p99, or slower than 1 ms ─▶ rules ─▶ causes with their parts of the time lost ─▶ one table
//! ```
//! One hundredth of the largest possible number of transactions is kept, so that none above p99 is missing.

mod kinds;
mod rules;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use hairpin_record::explain::{Cause, Direction};
use hairpin_units::Arrange;

use crate::cores::{Busy, Cores, During};
use crate::events::{Event, Origin, What};
use crate::join::{Span, Transaction};
use crate::moment::Moment;
use crate::names::{LIMITED, Names};
pub use kinds::{KINDS, Kind, KindOf};
use rules::Stolen;

/// Transactions that are kept with their events.
const KEPT: usize = 16_384;
/// RTT from which a transaction always counts as slow, in ns.
const SLOW_NS: u64 = 1_000_000;
/// Names listed per kind of cause; the rest is counted.
const NAMED: usize = 5;
/// A shorter wait for a CPU is the switch itself, in ns.
const WAIT_NS: i64 = 20_000;
/// Delayed ACKs of a side that are closer to each other, in ns, are one that several devices queued.
const SAME_ACK_NS: u64 = 1_000_000;
/// Smallest part of a transaction's lost time that makes a cause.
const COUNTS: f64 = 0.1;
/// What helps a thread that a limit stopped; nothing that keeps other threads away does.
pub(crate) const LIMIT_ADVICE: &str =
    "raise the limit (cpu.max of its cgroup: docker --cpus, limits.cpu of a pod), or give the process more CPUs within it";

/// The typical transaction: medians.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typical {
    /// RTT.
    pub rtt_ns: u64,
    /// The RTT from which a transaction is slow: p99.
    pub slow_ns: u64,
    /// The intervals between moments, over transactions with a typical RTT.
    pub intervals: HashMap<(Direction, Moment, Moment), u64>,
}

/// The threads of a flow and their CPUs: the client's, the server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    pub threads: [u32; 2],
    /// Their CPUs; `None` on another host.
    pub cpus: [Option<u32>; 2],
    /// True if TCP may hold back small segments (Nagle): the client's, the server's.
    pub nagle: [bool; 2],
}

impl Whose {
    fn place(&self, side: usize) -> String {
        match self.cpus[side] {
            Some(cpu) => format!("CPU {cpu} ({})", rules::SIDES[side]),
            None => "the other host or the way".into(),
        }
    }

    fn known(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = self.cpus.into_iter().flatten().collect();
        cpus.dedup();
        cpus
    }
}

/// Requests of more than one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parted {
    pub requests: u64,
    /// All requests of the same blocks.
    pub of: u64,
}

/// A cause of one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub kind: Kind,
    /// The thread or interrupt that caused it; empty if there is none.
    pub who: String,
    /// The time it took, in ns.
    pub ns: f64,
}

impl Part {
    /// What helps, on a host with or without a cpuidle driver.
    pub fn advice(&self, has_idle_driver: bool) -> &'static str {
        match self.kind {
            Kind::Preempted if self.who == LIMITED => LIMIT_ADVICE,
            kind => kind.of().advice.for_host(has_idle_driver),
        }
    }
}

/// A transaction with the events during it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    pub rtt_ns: u64,
    /// The begin, in ns since the first traced block.
    pub at_ns: u64,
    pub transaction: Transaction,
    pub during: During,
}

impl Ord for Slow {
    fn cmp(&self, other: &Slow) -> std::cmp::Ordering {
        (self.rtt_ns, self.at_ns).cmp(&(other.rtt_ns, other.at_ns))
    }
}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Slow) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The events during all transactions of a path.
#[derive(Debug)]
pub struct Causes {
    pub whose: Whose,
    slowest: BinaryHeap<Reverse<Slow>>,
    /// The thread on each CPU when the last block ended.
    holders: HashMap<u32, u32>,
    /// Time of each holder on a CPU in all blocks.
    pub totals: HashMap<(u32, Busy), u64>,
    /// Time for which each thread kept a side's thread off its CPU, by side and thread.
    pub kept: HashMap<(usize, u32), u64>,
    /// The length of these blocks, in ns.
    pub traced_ns: u64,
    /// Delayed ACKs sent by timer, by side.
    pub late_acks: [u64; 2],
    /// Datagrams dropped by a full queue, by receiving side.
    pub overflows: [u64; 2],
    pub parted: Parted,
}

impl Causes {
    pub fn new(whose: Whose) -> Causes {
        Causes {
            whose,
            slowest: BinaryHeap::new(),
            holders: HashMap::new(),
            totals: HashMap::new(),
            kept: HashMap::new(),
            traced_ns: 0,
            late_acks: [0; 2],
            overflows: [0; 2],
            parted: Parted::default(),
        }
    }

    /// Adds a block that began `at_ns` after the first one.
    pub fn add(&mut self, transactions: &[Transaction], events: &[Event], span: &Span, at_ns: u64) {
        let cores = Cores::new(events, |at| span.of_monotonic(at), &mut self.holders);
        cores.totals(0, span.length_ns(), &mut self.totals);
        self.waited(&cores, transactions, span.length_ns());
        self.traced_ns += span.length_ns() as u64;
        self.parted.requests += transactions.iter().filter(|transaction| transaction.packets > 1).count() as u64;
        self.parted.of += transactions.len() as u64;
        let mut late = [None::<u64>; 2];
        for event in events {
            let side = |origin| usize::from(origin == Origin::Server);
            match event.what {
                What::Acknowledged { by, late: true } => {
                    // Over a bond or a VLAN each device queues it; the timer of another one takes 40 ms (TCP_DELACK_MIN).
                    let last = late[side(by)].replace(event.at);
                    self.late_acks[side(by)] += u64::from(last.is_none_or(|last| event.at.abs_diff(last) >= SAME_ACK_NS));
                }
                What::Overflowed(at) => self.overflows[side(at)] += 1,
                _ => {}
            }
        }
        for transaction in transactions {
            let rtt_ns = transaction.rtt_ns();
            let full = self.slowest.len() >= KEPT;
            if full && self.slowest.peek().is_some_and(|Reverse(least)| rtt_ns <= least.rtt_ns) {
                continue;
            }
            let began = transaction.began();
            let during = cores.during(began, began + rtt_ns as i64, &self.whose.known());
            let during = during.without_own(&handed_on(transaction)).with_own(self.ran(transaction));
            let at_ns = at_ns.saturating_add_signed(began);
            self.slowest.push(Reverse(Slow { rtt_ns, at_ns, transaction: transaction.clone(), during }));
            if full {
                self.slowest.pop();
            }
        }
    }

    /// The threads that kept the flow's runnable or woken threads off their CPUs.
    fn waited(&mut self, cores: &Cores, transactions: &[Transaction], length_ns: i64) {
        for (side, (cpu, thread)) in self.whose.cpus.into_iter().zip(self.whose.threads).enumerate() {
            let Some(cpu) = cpu else { continue };
            for (by, ns) in cores.kept_from(cpu, thread, 0, length_ns) {
                *self.kept.entry((side, by)).or_default() += ns;
            }
        }
        for (transaction, way) in transactions.iter().flat_map(|transaction| [(transaction, 0), (transaction, 1)]) {
            let (moments, receiver) = (&transaction.ways[way], 1 - way);
            let at = |of: Moment| moments.iter().find(|(moment, _)| *moment == of).map(|(_, at)| *at);
            let woken = at(Moment::Woken).or_else(|| at(Moment::Waking));
            let (Some(woken), Some(switched), Some(cpu)) = (woken, at(Moment::Switched), self.whose.cpus[receiver]) else {
                continue;
            };
            if switched - woken < WAIT_NS {
                continue;
            }
            for (busy, ns) in cores.during(woken, switched, &[cpu]).shares(cpu, woken, switched) {
                if let Busy::Thread(by) = busy {
                    *self.kept.entry((receiver, by)).or_default() += ns;
                }
            }
        }
    }

    /// The moments at which threads of the flow are known to have run, from a transaction's stamps.
    fn ran(&self, transaction: &Transaction) -> Vec<(u32, i64, u32)> {
        let mut ran = Vec::new();
        for (way, (sender, receiver)) in transaction.ways.iter().zip([(0, 1), (1, 0)]) {
            for (moment, at) in way {
                let side = match moment {
                    Moment::Send | Moment::Kicked => sender,
                    Moment::Copied | Moment::Seen | Moment::Returned => receiver,
                    _ => continue,
                };
                if let Some(cpu) = self.whose.cpus[side] {
                    ran.push((cpu, *at, self.whose.threads[side]));
                }
            }
        }
        ran
    }

    /// Drops a block with transactions that could not be joined, but keeps the threads on the CPUs at its
    /// end.
    pub fn pass(&mut self, events: &[Event]) {
        Cores::new(events, |at| at as i64, &mut self.holders);
    }

    /// Adds to each transaction, from the events of its block, the moment at which a sleeping receiver got its CPU, where no hook
    /// of the flow stamps it. One that was pushed off its CPU did not sleep.
    pub fn add_switches(&self, transactions: &mut [Transaction], events: &[Event], span: &Span) {
        for (way, receiver) in [(0, 1), (1, 0)] {
            let Some(cpu) = self.whose.cpus[receiver] else { continue };
            let thread = self.whose.threads[receiver];
            let mut slept = true;
            let came = |event: &Event| match event.what {
                What::Switched { from, runnable, .. } if event.cpu == cpu && from == thread => {
                    slept = !runnable;
                    None
                }
                What::Switched { to, .. } if event.cpu == cpu && to == thread => {
                    // Its next leaving may be hidden.
                    std::mem::replace(&mut slept, true).then(|| span.of_monotonic(event.at))
                }
                _ => None,
            };
            let mut switches = events.iter().filter_map(came).peekable();
            for transaction in &mut *transactions {
                let moments = &mut transaction.ways[way];
                let at = moments.partition_point(|(moment, _)| *moment < Moment::Switched);
                let (Some((Moment::Ready, ready)), Some((next, until))) = (moments[..at].last(), moments.get(at)) else {
                    continue;
                };
                while switches.next_if(|switched| switched < ready).is_some() {}
                if let Some(switched) = switches.next_if(|switched| *next != Moment::Switched && switched <= until) {
                    moments.insert(at, (Moment::Switched, switched));
                }
            }
        }
    }

    /// Forgets all blocks but the threads on the CPUs at the end of the last one.
    pub fn forget(&mut self) {
        let holders = std::mem::take(&mut self.holders);
        *self = Causes { holders, ..Causes::new(self.whose) };
    }

    /// Sets the last thread that came to the CPU in a block whose events were not read; `None`: the events do not show it.
    pub fn came(&mut self, cpu: u32, thread: Option<u32>) {
        match thread {
            Some(thread) => self.holders.insert(cpu, thread),
            None => self.holders.remove(&cpu),
        };
    }

    /// Forgets the threads on the CPUs: others have come since, and no event shows them.
    pub fn forget_holders(&mut self) {
        self.holders.clear();
    }

    /// The `count` slowest transactions, slowest first, each with its causes, largest first.
    pub fn slowest(&self, count: usize, typical: &Typical, names: &Names) -> Vec<(&Slow, Vec<Part>)> {
        self.explained(typical, names, &|at, _| at < count)
    }

    /// The same for those, slowest first, for which `wanted` holds: their place and the transaction. Stolen time goes to the slowest
    /// first, and each ns of it explains one of them only.
    fn explained(&self, typical: &Typical, names: &Names, wanted: &dyn Fn(usize, &Slow) -> bool) -> Vec<(&Slow, Vec<Part>)> {
        let mut slowest: Vec<&Slow> = self.slowest.iter().map(|Reverse(slow)| slow).collect();
        slowest.arrange_by(|a, b| b.cmp(a));
        let mut stolen = Stolen::default();
        let mut explained = Vec::new();
        for (at, slow) in slowest.into_iter().enumerate() {
            if !wanted(at, slow) {
                break;
            }
            let mut parts = rules::parts(slow, typical, &self.whose, names, &mut stolen);
            parts.arrange_by(|a, b| b.ns.total_cmp(&a.ns).then(a.kind.cmp(&b.kind)));
            explained.push((slow, parts));
        }
        explained
    }

    /// The causes of all slow transactions, by total time.
    pub fn table(&self, typical: &Typical, names: &Names) -> Vec<Cause> {
        let mut sums: BTreeMap<(Kind, String), (u64, f64)> = BTreeMap::new();
        let is_slow = |slow: &Slow| slow.rtt_ns >= typical.slow_ns || slow.rtt_ns > SLOW_NS;
        for (_, parts) in self.explained(typical, names, &|_, slow| is_slow(slow)) {
            let lost: f64 = parts.iter().map(|part| part.ns).sum();
            for Part { kind, who, ns } in parts {
                let sum = sums.entry((kind, who)).or_default();
                sum.0 += u64::from(ns >= lost * COUNTS);
                sum.1 += ns;
            }
        }
        // Without a cause of at least a tenth, the delay is one of many small ones.
        let small: f64 = sums.values().filter(|(count, _)| *count == 0).map(|(_, ns)| ns).sum();
        sums.retain(|_, (count, _)| *count > 0);
        if small > 0.5 {
            sums.entry((Kind::Small, String::new())).or_default().1 += small;
        }
        let sums = few(sums);
        let cause = |((kind, who), (count, ns)): ((Kind, String), (u64, f64))| {
            let part = Part { kind, who, ns };
            let advice = part.advice(names.has_idle_driver).into();
            Cause { cause: kind.of().name.into(), who: part.who, count, lost_ns: ns.round() as u64, advice }
        };
        let mut causes: Vec<Cause> = sums.into_iter().map(cause).collect();
        causes.arrange_by_key(|cause| Reverse(cause.lost_ns));
        causes
    }
}

/// Short-lived threads, as of a build, are not named one by one.
pub(crate) fn few(sums: BTreeMap<(Kind, String), (u64, f64)>) -> Vec<((Kind, String), (u64, f64))> {
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.arrange_by(|a, b| a.0.0.cmp(&b.0.0).then(b.1.1.total_cmp(&a.1.1)));
    let mut named = Vec::new();
    for of_kind in sorted.chunk_by(|a, b| a.0.0 == b.0.0) {
        // A single further one is named, not counted.
        let count = if of_kind.len() > NAMED + 1 { NAMED } else { of_kind.len() };
        let (first, rest) = of_kind.split_at(count);
        named.extend_from_slice(first);
        if let Some(((kind, _), _)) = rest.first() {
            let sum = |of: fn(&(u64, f64)) -> f64| rest.iter().map(|(_, sum)| of(sum)).sum::<f64>();
            let sums = (sum(|sum| sum.0 as f64) as u64, sum(|sum| sum.1));
            named.push(((*kind, format!("{} others", rest.len())), sums));
        }
    }
    named
}

/// The moments at which a soft interrupt processed the transaction's packets.
fn handed_on(transaction: &Transaction) -> Vec<i64> {
    let moments = transaction.ways.iter().flatten();
    moments
        .filter(|(moment, _)| matches!(moment, Moment::Received | Moment::Redirected | Moment::Ready))
        .map(|(_, at)| *at)
        .collect()
}

#[cfg(test)]
mod tests;
