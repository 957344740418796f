//! The causes of one slow transaction.
//!
//! ```text
//!   interval     Waking ──────── Switched        on the receiver's CPU
//!   excess       its duration, less the typical one
//!   shares       holders of that CPU meanwhile, its own thread left out      ─▶ causes, as far as the excess goes
//!   rest         time without a holder: a gap, or, if short, many small delays
//! ```
//! Idle time comes last among the shares, because a receiver that sleeps is idle in typical transactions too. If its thread could
//! have gone on, a limit on its process's time stopped it.

use std::collections::{BTreeMap, HashMap};

use hairpin_record::explain::Direction;
use hairpin_units::Arrange;

use crate::cores::{Busy, During, Seen};
use crate::events::{Origin, What};
use crate::join::Transaction;
use crate::moment::Moment;
use crate::names::{LIMITED, Names};

use super::kinds::Kind;
use super::{Part, Slow, Typical, Whose};

/// A rest of an interval that is a gap, in ns; caches and memory explain a shorter one.
const GAP_NS: f64 = 5_000.0;
/// Largest distance of an acknowledgement from the data that it releases, in ns.
const SOON_NS: i64 = 100_000;

/// The causes of the excess of a transaction over typical ones, each with its part of it. The parts add up to
/// the time lost, to rounding.
pub(super) fn parts(slow: &Slow, typical: &Typical, whose: &Whose, names: &Names, stolen: &mut Stolen) -> Vec<Part> {
    let Slow { transaction, during, .. } = slow;
    stolen.block = slow.at_ns as i64 - transaction.began();
    let lost = transaction.rtt_ns() as f64 - typical.rtt_ns as f64;
    if lost <= 0.0 {
        return Vec::new();
    }
    let excesses: Vec<(Interval, f64)> = intervals(transaction).map(|interval| (interval, interval.excess(typical))).collect();
    let sum: f64 = excesses.iter().map(|(_, excess)| excess).sum();
    // Intervals that were shorter than typical make up for a part of it.
    let scale = if sum > lost { lost / sum } else { 1.0 };
    let mut found = Attribution { parts: Vec::new(), gaps: Vec::new(), stolen };
    for (interval, excess) in excesses {
        if excess > 0.0 {
            Rule { transaction, during, whose, names, interval }.apply(excess * scale, &mut found);
        }
    }
    found.settle_gaps(during, whose);
    let explained: f64 = found.parts.iter().map(|part| part.ns).sum();
    if lost - explained > 0.5 {
        found.add(Kind::Small, String::new(), lost - explained);
    }
    found.parts
}

/// From one moment of a transaction to the next.
#[derive(Clone, Copy, Debug)]
struct Interval {
    direction: Direction,
    from: (Moment, i64),
    to: (Moment, i64),
    /// The two sides are on two hosts.
    apart: bool,
}

/// In order; the reply's way begins with the turn-around.
fn intervals(transaction: &Transaction) -> impl Iterator<Item = Interval> + '_ {
    let [request, reply] = &transaction.ways;
    let interval = |direction, from: &(Moment, i64), to: &(Moment, i64)| Interval {
        direction,
        from: *from,
        to: *to,
        apart: transaction.home.is_some(),
    };
    let turn = request.last().zip(reply.first()).map(|(from, to)| interval(Direction::Reply, from, to));
    let of = |direction, way: &[(Moment, i64)]| {
        let pairs = way.windows(2).enumerate().filter(|(at, _)| !transaction.is_outside(direction, at + 1));
        pairs.map(|(_, pair)| interval(direction, &pair[0], &pair[1])).collect::<Vec<_>>()
    };
    of(Direction::Request, request).into_iter().chain(turn).chain(of(Direction::Reply, reply))
}

impl Interval {
    fn excess(&self, typical: &Typical) -> f64 {
        let usual = typical.intervals.get(&(self.direction, self.from.0, self.to.0)).copied().unwrap_or(0);
        ((self.to.1 - self.from.1) as f64 - usual as f64).max(0.0)
    }

    /// Sender and receiver: 0 is the client, 1 the server.
    fn sides(&self) -> (usize, usize) {
        match self.direction {
            Direction::Request => (0, 1),
            Direction::Reply => (1, 0),
        }
    }

    /// The CPUs on which the time passes.
    fn on(&self) -> Vec<usize> {
        let (sender, receiver) = self.sides();
        let (from, to) = (self.from.0, self.to.0);
        match () {
            () if from == Moment::Returned => vec![sender],
            // The time outside of two hosts passes on neither core; it is told as the other host's, or the way's.
            () if self.apart && from <= Moment::Started && to >= Moment::Received => vec![receiver],
            // Between two hosts a packet is received on its receiver's CPU.
            () if self.apart && from >= Moment::Passed => vec![receiver],
            () if to <= Moment::Waking => vec![sender],
            () if from >= Moment::Ready => vec![receiver],
            () => vec![sender, receiver],
        }
    }

    /// A woken thread waits for its CPU.
    fn is_wake_up(&self) -> bool {
        matches!(self.from.0, Moment::Waking | Moment::Woken) || self.to.0 == Moment::Switched
    }

    /// A packet waits to be sent.
    fn is_sending(&self) -> bool {
        self.from.0 <= Moment::Submitted && self.to.0 <= Moment::Passed
    }

    /// A packet is on its way through the kernel.
    fn is_packet(&self) -> bool {
        self.from.0 >= Moment::Queued && self.from.0 < Moment::Ready
    }

    fn has(&self, at: i64) -> bool {
        (self.from.1..=self.to.1).contains(&at)
    }
}

/// Stolen time that has explained nothing yet: each ns of it explains one transaction only.
#[derive(Default)]
pub(super) struct Stolen {
    /// The begin of the transaction's block, in ns since the first one.
    block: i64,
    /// Time left of each reading, in ns, by CPU and by the moment of the reading.
    left: HashMap<u32, BTreeMap<i64, u64>>,
}

impl Stolen {
    /// The readings of a side's CPU that may explain the transaction.
    fn readings<'a>(during: &'a During, whose: &Whose, side: usize) -> impl Iterator<Item = &'a Seen> {
        let cpu = whose.cpus[side];
        during.events().iter().filter(move |seen| seen.what == What::Stolen && Some(seen.cpu) == cpu)
    }

    fn left(&mut self, seen: &Seen) -> &mut u64 {
        self.left.entry(seen.cpu).or_default().entry(self.block + seen.at).or_insert(seen.took)
    }

    /// Time that the hypervisor took from a side's CPU and that explains nothing yet, in ns.
    fn of(&mut self, during: &During, whose: &Whose, side: usize) -> u64 {
        Stolen::readings(during, whose, side).map(|seen| *self.left(seen)).sum()
    }
}

struct Attribution<'a> {
    parts: Vec<Part>,
    /// Side, and the time without any event there.
    gaps: Vec<(usize, f64)>,
    stolen: &'a mut Stolen,
}

impl Attribution<'_> {
    fn add(&mut self, kind: Kind, who: String, ns: f64) {
        match self.parts.iter_mut().find(|part| part.kind == kind && part.who == who) {
            Some(part) => part.ns += ns,
            None => self.parts.push(Part { kind, who, ns }),
        }
    }

    /// Takes up to the given time from `left`, and returns the part taken.
    fn take(&mut self, kind: Kind, who: String, ns: f64, left: &mut f64) {
        let ns = ns.min(*left);
        if ns > 0.0 {
            self.add(kind, who, ns);
            *left -= ns;
        }
    }

    /// Attributes gaps on that CPU to the hypervisor up to its stolen time; the rest stays unexplained.
    fn settle_gaps(&mut self, during: &During, whose: &Whose) {
        let mut gaps: HashMap<usize, f64> = HashMap::new();
        self.gaps.iter().for_each(|(side, ns)| *gaps.entry(*side).or_default() += ns);
        let mut gaps: Vec<_> = gaps.into_iter().collect();
        gaps.arrange_by_key(|(side, _)| *side);
        for (side, gap) in gaps {
            let mut left = gap;
            for seen in Stolen::readings(during, whose, side) {
                let stolen = self.stolen.left(seen);
                let ns = (*stolen as f64).min(left);
                *stolen -= ns as u64;
                self.take(Kind::Stolen, whose.place(side), ns, &mut left);
            }
            if left > 0.0 {
                self.add(if whose.cpus[side].is_some() { Kind::Nothing } else { Kind::Outside }, whose.place(side), left);
            }
        }
    }
}

struct Rule<'a> {
    transaction: &'a Transaction,
    during: &'a During,
    whose: &'a Whose,
    names: &'a Names,
    interval: Interval,
}

impl Rule<'_> {
    fn apply(&self, excess: f64, found: &mut Attribution) {
        if let Some((kind, who)) = self.protocol() {
            return found.add(kind, who, excess);
        }
        let mut left = excess;
        let sides = self.interval.on();
        let mut order = sides.clone();
        // Where other threads kept both sides, the side that went on last held the message up for all of that time. A packet that
        // was left to ksoftirqd waited on its sender's core first.
        order.arrange_by_key(|side| std::cmp::Reverse(self.kept_until(*side)));
        for side in &order {
            let Some(cpu) = self.whose.cpus[*side] else { continue };
            self.others(*side, cpu, &mut left, found);
        }
        if left > 0.0 && self.events(|what| matches!(what, What::Migrated(_))) {
            return found.add(Kind::Migration, String::new(), left);
        }
        if left >= GAP_NS {
            // Where it may have been on either core: the one that time was stolen from, else the sender's.
            let side = sides.iter().rev().copied().max_by_key(|side| found.stolen.of(self.during, self.whose, *side));
            found.gaps.push((side.unwrap_or(sides[0]), left));
        } else if left > 0.0 {
            found.add(Kind::Small, String::new(), left);
        }
    }

    /// The moment until which a thread of neither side had the CPU of `side`, or nobody while its own was stopped: `i64::MIN` if
    /// none had it, `i64::MAX` where ksoftirqd has the packet.
    fn kept_until(&self, side: usize) -> i64 {
        let Some(cpu) = self.whose.cpus[side] else { return i64::MIN };
        let (from, to) = (self.interval.from.1, self.interval.to.1);
        let other = |(busy, _): (Busy, u64)| match busy {
            Busy::Thread(thread) if thread != 0 && !self.whose.threads.contains(&thread) => Some(thread),
            _ => None,
        };
        let carries = |thread: u32| side == self.interval.sides().0 && self.interval.is_packet() && self.is_ksoftirqd(thread);
        let shares = self.during.shares(cpu, from, to);
        let own = self.whose.threads[side];
        let stopped = shares.iter().any(|(busy, _)| idles(*busy)) && self.during.is_stopped(cpu, own, to);
        let others = shares.into_iter().filter_map(other).chain(stopped.then_some(0));
        others
            .map(|thread| if carries(thread) { i64::MAX } else { self.during.last_of(cpu, thread, to) })
            .max()
            .unwrap_or(i64::MIN)
    }

    fn is_ksoftirqd(&self, thread: u32) -> bool {
        self.names.bare(thread).starts_with("ksoftirqd/")
    }

    /// True if such an event lies in the interval.
    fn events(&self, is: impl Fn(What) -> bool) -> bool {
        self.during.events().iter().any(|seen| self.interval.has(seen.at) && is(seen.what))
    }

    /// TCP's reason to delay a packet.
    fn protocol(&self) -> Option<(Kind, String)> {
        if !self.interval.is_sending() {
            return None;
        }
        let (sender, receiver) = self.interval.sides();
        let of = |side| if side == 0 { Origin::Client } else { Origin::Server };
        if self.events(|what| what == What::Retransmitted(of(sender))) {
            return Some((Kind::Retransmission, format!("the {}", SIDES[sender])));
        }
        // The acknowledgement that lets the last segment go.
        let lets_go = |seen: &&Seen| {
            let by = matches!(seen.what, What::Acknowledged { by, .. } if by == of(receiver));
            by && self.interval.has(seen.at) && self.interval.to.1 - seen.at <= SOON_NS
        };
        let last = self.during.events().iter().rev().find(lets_go)?;
        let parted = self.interval.direction == Direction::Reply || self.transaction.packets > 1;
        match last.what {
            What::Acknowledged { late: true, .. } if parted => Some((Kind::DelayedAck, format!("the {}", SIDES[receiver]))),
            _ if parted && self.whose.nagle[sender] => Some((Kind::Nagle, format!("the {}", SIDES[sender]))),
            _ => None,
        }
    }

    /// Other holders of the CPU.
    fn others(&self, side: usize, cpu: u32, left: &mut f64, found: &mut Attribution) {
        let interval = &self.interval;
        let shares = self.during.shares(cpu, interval.from.1, interval.to.1);
        let own = self.whose.threads[side];
        let others = shares.iter().filter(|(busy, _)| *busy != Busy::Thread(own) && !idles(*busy));
        let mut others: Vec<(Busy, u64)> = others.copied().collect();
        let deferred = |busy: Busy| matches!(busy, Busy::Thread(thread) if self.is_ksoftirqd(thread));
        let left_to = others.iter().find(|(busy, _)| interval.is_packet() && deferred(*busy)).map(|(busy, _)| *busy);
        others.retain(|(busy, _)| left_to != Some(*busy));
        others.arrange_by_key(|(busy, ns)| (std::cmp::Reverse(*ns), *busy));
        for (busy, ns) in others {
            let kind = match busy {
                Busy::Thread(_) if deferred(busy) => Kind::Deferred,
                Busy::Thread(_) if interval.is_wake_up() => Kind::RunQueue,
                Busy::Thread(_) => Kind::Preempted,
                Busy::Softirq(_) => Kind::SoftInterrupt,
                Busy::Interrupt(_) => Kind::HardInterrupt,
                Busy::Timer => Kind::Timer,
                Busy::Call => Kind::Call,
                Busy::Idle(_) => Kind::Idle,
            };
            found.take(kind, self.who(cpu, busy), ns as f64, left);
        }
        if let Some(Busy::Thread(thread)) = left_to {
            // The packet waited until that thread had had its turn: the thread gets all of the time until then that no other
            // holder had.
            let end = self.during.last_of(cpu, thread, interval.to.1);
            let shares = self.during.shares(cpu, interval.from.1, end);
            let held =
                shares.iter().filter(|(busy, _)| ![Busy::Thread(own), Busy::Thread(thread)].contains(busy) && !idles(*busy));
            let waited = (end - interval.from.1) as u64 - held.map(|(_, ns)| ns).sum::<u64>();
            found.take(Kind::Deferred, self.who(cpu, Busy::Thread(thread)), waited as f64, left);
        }
        // The idle state, and the way out of it in the kernel's idle thread.
        let idle: u64 = shares.iter().filter(|(busy, _)| idles(*busy)).map(|(_, ns)| ns).sum();
        if self.during.is_stopped(cpu, own, interval.to.1) {
            return found.take(Kind::Preempted, LIMITED.into(), idle as f64, left);
        }
        let state = shares.iter().find(|(busy, _)| matches!(busy, Busy::Idle(_)));
        let who = state.map_or_else(|| self.whose.place(side), |(state, _)| self.names.busy(cpu, *state));
        found.take(Kind::Idle, who, idle as f64, left);
    }

    fn who(&self, cpu: u32, busy: Busy) -> String {
        match busy {
            Busy::Thread(thread) => match self.whose.threads.iter().position(|own| *own == thread) {
                Some(side) => format!("the {}'s thread", SIDES[side]),
                None => self.names.named(thread),
            },
            Busy::Timer | Busy::Call => format!("CPU {cpu}"),
            other => self.names.busy(cpu, other),
        }
    }
}

/// True if nobody has the CPU.
fn idles(busy: Busy) -> bool {
    matches!(busy, Busy::Idle(_) | Busy::Thread(0))
}

/// As the record names them.
pub(super) const SIDES: [&str; 2] = ["client", "server"];
