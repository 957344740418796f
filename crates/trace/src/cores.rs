//! From events to intervals: which thread, idle state or interrupt had each CPU, from when to when.
//!
//! ```text
//!   threads      ──── hairpin ────┬───────── stress ─────────┬──── hairpin ────
//!   idle                                                                          a lower line has the CPU,
//!   soft                   ▐▌                    ▐███▌                            and the lines above it wait
//!   hard                  ▐▌                     ▐▌
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;

use hairpin_units::Arrange;

use crate::events::{Event, What};

/// Most events kept per transaction: a part is enough to describe a flood of interrupts. The threads on its CPUs are known from
/// all switches.
const MOST: usize = 256;

/// The soft interrupts for packets, numbered as in `include/linux/interrupt.h`.
const NET_TX: u32 = 2;
const NET_RX: u32 = 3;

/// The holder of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Busy {
    /// A thread; 0 is the kernel's idle thread.
    Thread(u32),
    /// Idle, in this state.
    Idle(u32),
    /// A soft interrupt, by its number.
    Softirq(u32),
    /// A device's interrupt, by its number.
    Interrupt(u32),
    /// The CPU's own timer.
    Timer,
    /// A call from another CPU.
    Call,
}

impl Busy {
    /// Of several holders at once, the one with the highest rank has the CPU.
    fn rank(self) -> u8 {
        match self {
            Busy::Thread(_) => 0,
            Busy::Idle(_) => 1,
            Busy::Softirq(_) => 2,
            Busy::Interrupt(_) | Busy::Timer | Busy::Call => 3,
        }
    }
}

/// An event on the time scale of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub cpu: u32,
    /// The end, in ns since the block's first reading.
    pub at: i64,
    /// The duration in ns; for [`What::Stolen`] the stolen time.
    pub took: u64,
    pub what: What,
    /// The begin; for [`What::Stolen`] the previous reading of the counter.
    pub since: i64,
}

impl Seen {
    fn busy(&self) -> Option<Busy> {
        match self.what {
            What::Interrupt(number) => Some(Busy::Interrupt(number)),
            What::Timer => Some(Busy::Timer),
            What::Reschedule | What::Call => Some(Busy::Call),
            What::Softirq(number) => Some(Busy::Softirq(number)),
            What::Idle(state) => Some(Busy::Idle(state)),
            _ => None,
        }
    }
}

/// A CPU went from one thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Switch {
    at: i64,
    from: u32,
    to: u32,
    /// True if the thread that left was still runnable.
    runnable: bool,
}

impl Switch {
    /// True if the thread that left could have gone on, and nobody came.
    fn stops(self) -> bool {
        self.runnable && self.to == 0
    }
}

/// A block's events.
#[derive(Clone, Debug, Default)]
pub struct Cores {
    events: Vec<Seen>,
    /// Every switch of a CPU.
    switches: HashMap<u32, Vec<Switch>>,
    /// The thread on each CPU when the previous block ended.
    before: HashMap<u32, u32>,
}

impl Cores {
    /// `events` of a block are in the order of time; `scale` converts their times. `before` holds the thread on each CPU at
    /// the begin, as far as it is known, and afterwards the one at the end.
    pub fn new(events: &[Event], scale: impl Fn(u64) -> i64, before: &mut HashMap<u32, u32>) -> Cores {
        let mut cores = Cores { before: before.clone(), ..Cores::default() };
        // By CPU: the look before the last one, and the last one.
        let mut looked: HashMap<u32, [i64; 2]> = HashMap::new();
        for event in events {
            let at = scale(event.at);
            let looks = looked.entry(event.cpu).or_insert([i64::MIN; 2]);
            let is_look = matches!(event.what, What::Switched { .. } | What::Timer | What::Stolen);
            if is_look && at.saturating_sub(looks[1]) > SAME_LOOK_NS {
                *looks = [looks[1], at];
            }
            let since = if event.what == What::Stolen { looks[0] } else { at - event.took as i64 };
            if let What::Switched { from, to, runnable } = event.what {
                cores.switches.entry(event.cpu).or_default().push(Switch { at, from, to, runnable });
                before.insert(event.cpu, to);
            }
            cores.events.push(Seen { cpu: event.cpu, at, took: event.took, what: event.what, since });
        }
        cores
    }

    /// The threads on a CPU from the one at `from` to the first to leave the CPU after `to`.
    fn held(&self, cpu: u32, from: i64, to: i64) -> Option<Held> {
        let none = Vec::new();
        let switches = self.switches.get(&cpu).unwrap_or(&none);
        let next = switches.partition_point(|switch| switch.at <= from);
        let earlier = next.checked_sub(1).map(|earlier| switches[earlier]);
        let first = earlier.map(|switch| switch.to).or_else(|| switches.first().map(|first| first.from));
        let first = first.or_else(|| self.before.get(&cpu).copied())?;
        let last = switches.partition_point(|switch| switch.at <= to);
        let leaves = switches.get(last).map(|switch| switch.from);
        let stopped = earlier.filter(|switch| switch.stops()).map(|switch| switch.from);
        let switches = switches.get(next..last).unwrap_or_default().to_vec();
        Some(Held { cpu, first, switches, leaves, stopped })
    }

    /// Time for which each other thread kept the runnable `thread` off its CPU between `from` and `to`. Events reach beyond a
    /// block, because the hooks stay on while its transactions are processed.
    pub fn kept_from(&self, cpu: u32, thread: u32, from: i64, to: i64) -> HashMap<u32, u64> {
        let mut by = HashMap::new();
        let (mut waits, mut since) = (false, 0);
        for switch in self.switches.get(&cpu).into_iter().flatten() {
            if switch.from == thread {
                waits = switch.runnable;
            } else if waits {
                *by.entry(switch.from).or_default() += (switch.at.min(to) - since.max(from)).max(0) as u64;
            }
            waits &= switch.to != thread;
            since = switch.at;
        }
        by
    }

    /// The events on these CPUs between two moments.
    pub fn during(&self, from: i64, to: i64, cpus: &[u32]) -> During {
        let first = self.events.partition_point(|event| event.at < from);
        // Stolen time shows at the next reading of the counter, at most some ms later.
        let late = self.events[first..].iter().take_while(|event| event.at <= to.saturating_add(LATE_NS));
        let mut events: Vec<Seen> =
            late.filter(|event| event.at <= to || (event.what == What::Stolen && event.since < to)).copied().collect();
        let left_out = events.len().saturating_sub(MOST);
        if left_out > 0 {
            let length = |event: Seen| (event.what.is_of_flow(), self.length(&event, from, to), event);
            let mut by_length: Vec<(bool, u64, Seen)> = events.into_iter().map(length).collect();
            by_length.arrange_by_key(|(is_of_flow, length, _)| Reverse((*is_of_flow, *length)));
            by_length.truncate(MOST);
            events = by_length.into_iter().map(|(.., event)| event).collect();
            events.arrange_by_key(|event| event.at);
        }
        let holders = cpus.iter().filter_map(|cpu| self.held(*cpu, from, to)).collect();
        During { from, to, holders, events, left_out, own: Vec::new() }
    }

    /// The duration of an event in ns; of a switch, the longer of the stays before and after it, between `from` and `to`.
    fn length(&self, event: &Seen, from: i64, to: i64) -> u64 {
        let (What::Switched { .. }, Some(switches)) = (event.what, self.switches.get(&event.cpu)) else { return event.took };
        let at = switches.partition_point(|switch| switch.at < event.at);
        let before = at.checked_sub(1).map_or(from, |before| switches[before].at.max(from));
        let after = switches.get(at + 1).map_or(to, |after| after.at.min(to));
        (event.at - before).max(after - event.at).max(0) as u64
    }

    /// Time of each holder on a CPU over a span of time. Interrupts and idle states count separately; their
    /// time is also part of the thread that they interrupted.
    pub fn totals(&self, from: i64, to: i64, into: &mut HashMap<(u32, Busy), u64>) {
        for (cpu, switches) in &self.switches {
            let mut since = from;
            for switch in switches {
                // The thread that leaves had the CPU. If another thread came before, a switch between the two was not
                // seen.
                let at = switch.at.clamp(from, to);
                *into.entry((*cpu, Busy::Thread(switch.from))).or_default() += (at - since).max(0) as u64;
                since = since.max(at);
            }
            if let Some(last) = switches.last() {
                *into.entry((*cpu, Busy::Thread(last.to))).or_default() += (to - since).max(0) as u64;
            }
        }
        for event in &self.events {
            if let Some(busy) = event.busy() {
                let inside = event.at.min(to) - event.since.max(from);
                *into.entry((event.cpu, busy)).or_default() += inside.max(0) as u64;
            }
        }
    }
}

/// Stolen time is read at a switch or a tick, which is an event of its own: events at most this far apart are one look, in ns.
const SAME_LOOK_NS: i64 = 2_000;

/// The timer's tick at 100 Hz: stolen time may be seen this late.
const LATE_NS: i64 = 10_000_000;

/// The threads on a CPU during a transaction: the one when it began, and the first to leave after the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    cpu: u32,
    first: u32,
    /// All of them: without the switch at which a thread left, the thread would have the rest of the time.
    switches: Vec<Switch>,
    leaves: Option<u32>,
    /// The thread that was stopped on this CPU when the transaction began.
    stopped: Option<u32>,
}

/// The events during a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct During {
    from: i64,
    to: i64,
    /// The threads on each CPU.
    holders: Vec<Held>,
    /// Known moments at which a thread of the flow had a CPU: CPU, when, thread.
    own: Vec<(u32, i64, u32)>,
    events: Vec<Seen>,
    /// The number of events that were not kept.
    pub left_out: usize,
}

/// Stamps of the program and of the kernel may differ by this time, in ns.
const STAMPS_APART_NS: i64 = 1_000;

impl During {
    pub fn events(&self) -> &[Seen] {
        &self.events
    }

    /// Leaves out packet soft interrupts that processed a packet of the transaction itself, at one of these moments:
    /// they are part of its way, not a delay.
    pub fn without_own(mut self, moments: &[i64]) -> During {
        let own = |seen: &Seen| moments.iter().any(|at| (seen.since..=seen.at).contains(at));
        self.events.retain(|seen| !(matches!(seen.what, What::Softirq(NET_TX | NET_RX)) && own(seen)));
        self
    }

    /// Adds the moments at which a thread of the flow had a CPU, in order: CPU, when, thread. Where the kernel does not
    /// report a switch, they show that the thread before it has left.
    /// No thread runs within a soft interrupt on its own CPU: such a packet interrupt was that of the thread's own call, and
    /// began later.
    pub fn with_own(mut self, own: Vec<(u32, i64, u32)>) -> During {
        let is_within = |seen: &Seen, (cpu, at, _): &(u32, i64, u32)| {
            *cpu == seen.cpu && seen.since + STAMPS_APART_NS < *at && *at + STAMPS_APART_NS < seen.at
        };
        let is_own = |seen: &Seen| own.iter().any(|moment| is_within(seen, moment));
        self.events.retain(|seen| !(matches!(seen.what, What::Softirq(NET_TX | NET_RX)) && is_own(seen)));
        self.own = own;
        self
    }

    /// Time of each holder on a CPU between two moments, in ns.
    pub fn shares(&self, cpu: u32, from: i64, to: i64) -> Vec<(Busy, u64)> {
        let stretches = self.stretches(cpu, from, to);
        // Where stretches begin (true) and end, with their places.
        let edges = stretches.iter().enumerate().flat_map(|(at, (since, until, _))| [(*since, true, at), (*until, false, at)]);
        let mut edges: Vec<(i64, bool, usize)> = edges.collect();
        edges.arrange_by(Ord::cmp);
        let mut shares: Vec<(Busy, u64)> = Vec::new();
        // The stretches at one moment, a thread and the interrupts within each other: the highest has the CPU.
        let mut over: Vec<(u8, usize)> = Vec::new();
        let mut since = from;
        for (at, begins, stretch) in edges {
            if let Some((_, highest)) = over.iter().max()
                && since < at
            {
                let (busy, ns) = (stretches[*highest].2, (at - since) as u64);
                match shares.iter_mut().find(|(known, _)| *known == busy) {
                    Some((_, sum)) => *sum += ns,
                    None => shares.push((busy, ns)),
                }
            }
            since = at;
            if begins {
                over.push((stretches[stretch].2.rank(), stretch));
            } else {
                over.retain(|(_, other)| *other != stretch);
            }
        }
        shares
    }

    /// The latest moment until `to` at which a thread had that CPU.
    pub fn last_of(&self, cpu: u32, thread: u32, to: i64) -> i64 {
        let stretches = self.stretches(cpu, i64::MIN, to);
        stretches.iter().filter(|(.., busy)| *busy == Busy::Thread(thread)).map(|(_, until, _)| *until).max().unwrap_or(to)
    }

    /// True if the thread, when it last left that CPU before `to`, could have gone on, and the CPU went idle: a limit on its
    /// process's time stopped it.
    pub fn is_stopped(&self, cpu: u32, thread: u32, to: i64) -> bool {
        let Some(held) = self.held(cpu) else { return false };
        let until = held.switches.partition_point(|switch| switch.at <= to);
        let left = held.switches[..until].iter().rev().find(|switch| switch.from == thread);
        left.map_or(held.stopped == Some(thread), |switch| switch.stops())
    }

    fn held(&self, cpu: u32) -> Option<&Held> {
        self.holders.iter().find(|held| held.cpu == cpu)
    }

    /// The intervals of a span of time, by rank: from, to, holder.
    fn stretches(&self, cpu: u32, from: i64, to: i64) -> Vec<(i64, i64, Busy)> {
        let mut found = Vec::new();
        let mut add = |since: i64, until: i64, busy| {
            let (since, until) = (since.max(from), until.min(to));
            if since < until {
                found.push((since, until, busy));
            }
        };
        if let Some(held) = self.held(cpu) {
            let next = held.switches.partition_point(|switch| switch.at <= from);
            let earlier = next.checked_sub(1).map(|earlier| held.switches[earlier]);
            let (mut holder, mut since) = earlier.map_or((held.first, self.from), |switch| (switch.to, switch.at));
            for switch in &held.switches[next..] {
                if since >= to {
                    break;
                }
                // If no event shows `switch.from` coming, the holder left at an unknown time: the whole stretch goes to
                // `switch.from`, which had the CPU at its end. For a thread of the flow, `left_by` knows more.
                let thread = if self.is_stranger(switch.from) { switch.from } else { holder };
                add(since, self.left_by(cpu, since, switch.at, thread == switch.from), Busy::Thread(thread));
                (holder, since) = (switch.to, switch.at);
            }
            add(since, self.left_by(cpu, since, self.to, held.leaves == Some(holder)), Busy::Thread(holder));
        }
        for event in self.events.iter().filter(|event| event.cpu == cpu) {
            if let Some(busy) = event.busy() {
                add(event.since, event.at, busy);
            }
        }
        found
    }

    /// True for a thread that does not belong to the flow, if the flow's threads are known.
    fn is_stranger(&self, thread: u32) -> bool {
        !self.own.is_empty() && self.own.iter().all(|(.., own)| *own != thread)
    }

    /// The latest moment until which a thread had the CPU: until it was seen leaving, otherwise until a thread of the
    /// flow ran there.
    fn left_by(&self, cpu: u32, since: i64, until: i64, seen: bool) -> i64 {
        let runs = self.own.iter().find(|(of, at, _)| *of == cpu && *at >= since && *at < until);
        runs.filter(|_| !seen).map_or(until, |(_, at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use crate::events::Origin;

    use super::*;

    fn event(cpu: u32, at: u64, took: u64, what: What) -> Event {
        Event { cpu, at, took, what }
    }

    fn switch(cpu: u32, at: u64, from: u32, to: u32) -> Event {
        event(cpu, at, 0, What::Switched { from, to, runnable: true })
    }

    /// Threads 98 and 99 take turns.
    fn turns(cpu: u32, count: u64, ns: u64) -> Vec<Event> {
        let threads = [(98, 99), (99, 98)].into_iter().cycle();
        (0..count).zip(threads).map(|(n, (from, to))| switch(cpu, 1_000 + ns * n, from, to)).collect()
    }

    fn cores(events: &[Event], before: &mut HashMap<u32, u32>) -> Cores {
        // Another scale: 1,000 less.
        Cores::new(events, |at| at as i64 - 1_000, before)
    }

    #[test]
    fn an_interrupt_takes_the_cpu_from_the_interrupted_thread() {
        let events = [
            switch(1, 1_100, 7, 9),
            event(1, 1_260, 20, What::Interrupt(33)),
            event(1, 1_300, 100, What::Softirq(3)),
            event(0, 1_350, 300, What::Idle(1)),
            switch(1, 1_400, 9, 7),
        ];
        let mut before = HashMap::new();
        let cores = cores(&events, &mut before);
        assert_eq!(before, HashMap::from([(1, 7)]));
        let during = cores.during(50, 500, &[0, 1]);
        let found = during.shares(1, 50, 500);
        let expected =
            [(Busy::Thread(7), 50 + 100), (Busy::Thread(9), 100 + 100), (Busy::Softirq(3), 80), (Busy::Interrupt(33), 20)];
        assert_eq!(found, expected);
        assert_eq!(during.shares(1, 220, 250), [(Busy::Softirq(3), 20), (Busy::Interrupt(33), 10)]);
        assert_eq!(during.shares(0, 50, 500), [(Busy::Idle(1), 300)]);
        let mut totals = HashMap::new();
        cores.totals(0, 500, &mut totals);
        let known = |busy| totals.get(&(1, busy)).copied();
        assert_eq!((known(Busy::Thread(7)), known(Busy::Thread(9)), known(Busy::Softirq(3))), (Some(200), Some(300), Some(100)));
    }

    #[test]
    fn tells_waiting_for_a_cpu_from_sleeping() {
        let sleeps = event(1, 1_600, 0, What::Switched { from: 7, to: 9, runnable: false });
        let events = [switch(1, 1_100, 7, 9), switch(1, 1_200, 9, 3), switch(1, 1_500, 3, 7), sleeps, switch(1, 1_900, 9, 7)];
        let cores = cores(&events, &mut HashMap::new());
        assert_eq!(cores.kept_from(1, 7, 0, 1_000), HashMap::from([(9, 100), (3, 300)]));
        assert_eq!(cores.kept_from(1, 7, 150, 400), HashMap::from([(9, 50), (3, 200)]), "what lies beyond is not of the block");
        assert!(cores.kept_from(0, 7, 0, 1_000).is_empty());
    }

    #[test]
    fn a_cpu_without_a_switch_keeps_its_thread() {
        let mut before = HashMap::from([(0, 42)]);
        let cores = cores(&[event(1, 1_010, 5, What::Timer)], &mut before);
        assert_eq!(cores.during(0, 100, &[0, 1]).shares(0, 20, 60), [(Busy::Thread(42), 40)]);
        assert_eq!(cores.during(0, 100, &[0, 1]).shares(1, 0, 100), [(Busy::Timer, 5)]);
    }

    #[test]
    fn a_thread_has_the_cpu_until_a_thread_of_the_flow_runs_there() {
        // 75 comes, and the next one to leave is 7.
        let events = [switch(0, 1_100, 7, 75), switch(0, 1_900, 7, 9), switch(0, 2_000, 9, 7)];
        let cores = cores(&events, &mut HashMap::new());
        let during = |own: &[(u32, i64, u32)]| cores.during(0, 800, &[0]).with_own(own.to_vec());
        assert_eq!(during(&[]).shares(0, 0, 800), [(Busy::Thread(7), 100), (Busy::Thread(75), 700)]);
        let own = [(0, 50, 7), (0, 300, 7), (0, 700, 7)];
        assert_eq!(during(&own).shares(0, 0, 800), [(Busy::Thread(7), 100), (Busy::Thread(75), 200)]);
        // A thread that was seen leaving had the CPU until then.
        let during = cores.during(850, 1_050, &[0]).with_own(vec![(0, 950, 7)]);
        assert_eq!(during.shares(0, 850, 1_050), [(Busy::Thread(75), 50), (Busy::Thread(9), 100), (Busy::Thread(7), 50)]);
        let mut totals = HashMap::new();
        cores.totals(0, 2_000, &mut totals);
        assert_eq!(totals.get(&(0, Busy::Thread(75))), None);
    }

    #[test]
    fn a_thread_that_was_not_seen_leaving_is_gone_where_a_transaction_begins_on_its_cpu() {
        let cores = cores(&[], &mut HashMap::from([(0, 75)]));
        assert_eq!(cores.during(0, 800, &[0]).shares(0, 0, 800), [(Busy::Thread(75), 800)]);
        assert!(cores.during(0, 800, &[0]).with_own(vec![(0, 0, 7)]).shares(0, 0, 800).is_empty());
    }

    #[test]
    fn a_stranger_that_leaves_had_the_cpu_even_if_no_event_shows_it_coming() {
        let cores = cores(&[switch(0, 1_100, 7, 75), switch(0, 1_900, 9, 7)], &mut HashMap::new());
        let during = cores.during(0, 950, &[0]).with_own(vec![(0, 50, 7)]);
        assert_eq!(during.shares(0, 0, 950), [(Busy::Thread(7), 100 + 50), (Busy::Thread(9), 800)]);
    }

    #[test]
    fn stolen_time_lies_between_two_looks() {
        let events = [event(0, 1_100, 2, What::Timer), event(0, 5_000, 700, What::Stolen), event(0, 9_000, 1, What::Stolen)];
        let cores = cores(&events, &mut HashMap::new());
        let during = cores.during(200, 300, &[0]);
        assert_eq!(during.events().iter().map(|seen| (seen.since, seen.at, seen.took)).collect::<Vec<_>>(), [(100, 4_000, 700)]);
        assert!(during.shares(0, 200, 300).is_empty());
    }

    #[test]
    fn a_tick_and_the_stolen_time_read_at_it_are_one_look() {
        let tick = |at| event(0, at, 2, What::Timer);
        let events = [tick(1_100), tick(4_001_000), event(0, 4_001_200, 700, What::Stolen), tick(8_001_000)];
        let cores = cores(&events, &mut HashMap::new());
        let during = cores.during(200, 300, &[0]);
        assert_eq!(during.events().iter().map(|seen| (seen.since, seen.at)).collect::<Vec<_>>(), [(100, 4_000_200)]);
    }

    #[test]
    fn of_two_threads_that_take_turns_each_has_half_of_a_long_time() {
        let during = cores(&turns(1, 600, 1_000_000), &mut HashMap::new()).during(0, 600_000_000, &[0, 1]);
        assert_eq!((during.events().len(), during.left_out), (MOST, 600 - MOST));
        assert_eq!(during.shares(1, 0, 600_000_000), [(Busy::Thread(99), 300_000_000), (Busy::Thread(98), 300_000_000)]);
        let last = during.shares(1, 598_500_000, 600_000_000);
        assert_eq!(last, [(Busy::Thread(99), 500_000), (Busy::Thread(98), 1_000_000)]);
    }

    #[test]
    fn many_switches_hide_no_long_stay_no_long_interrupt_and_no_limit() {
        let mut events = turns(0, 300, 10);
        events.extend([
            switch(1, 5_000, 7, 75),
            switch(1, 900_000, 75, 7),
            switch(1, 950_000, 7, 0),
            event(0, 960_000, 50_000, What::Softirq(3)),
        ]);
        let during = cores(&events, &mut HashMap::new()).during(0, 1_000_000, &[0, 1]);
        let expected = [(Busy::Thread(7), 4_000 + 50_000), (Busy::Thread(75), 895_000), (Busy::Thread(0), 51_000)];
        assert_eq!(during.shares(1, 0, 1_000_000), expected);
        assert!(during.is_stopped(1, 7, 1_000_000) && !during.is_stopped(1, 7, 900_000));
        assert!(during.shares(0, 0, 1_000_000).contains(&(Busy::Softirq(3), 50_000)));
        let comes = |seen: &Seen| matches!(seen.what, What::Switched { to: 75, .. });
        assert!(during.events().iter().any(comes), "the timeline shows it");
    }

    #[test]
    fn keeps_the_longest_events_of_a_flood_and_those_of_the_flow() {
        let mut events: Vec<Event> = (0..1_000).map(|n| event(0, 1_000 + 10 * n, n % 7, What::Softirq(3))).collect();
        events[500] = switch(0, 6_000, 1, 2);
        let late = What::Acknowledged { by: Origin::Server, late: true };
        events[700] = event(0, 8_000, 0, late);
        let during = cores(&events, &mut HashMap::new()).during(0, 10_000, &[0]);
        assert_eq!((during.events().len(), during.left_out), (MOST, 1_000 - MOST));
        assert!(during.events().is_sorted_by_key(|seen| seen.at));
        assert!(during.events().iter().any(|seen| matches!(seen.what, What::Switched { .. })));
        assert!(during.events().iter().any(|seen| seen.what == late), "why TCP waited");
        assert!(during.events().iter().filter(|seen| seen.took > 0).all(|seen| seen.took >= 5));
    }
}
