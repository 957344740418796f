//! What the CPUs of both threads did, from events: who had a CPU from when to when.
//!
//! ```text
//!   threads      ──── hairpin ────┬───────── stress ─────────┬──── hairpin ────
//!   idle                                                                          what lies further down has the CPU,
//!   soft                   ▐▌                    ▐███▌                            and what lies above it waits
//!   hard                  ▐▌                     ▐▌
//! ```

use std::collections::HashMap;

use crate::events::{Event, What};

/// Events of a transaction that are kept, at most: a flood of interrupts is told from a part of them.
const MOST: usize = 256;

/// Soft interrupts for packets, as `include/linux/interrupt.h` counts them.
const NET_TX: u32 = 2;
const NET_RX: u32 = 3;

/// What had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Busy {
    /// This thread; 0 is the kernel's own that idles.
    Thread(u32),
    /// Nothing, in this idle state.
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
    /// What has the CPU while several are there.
    fn rank(self) -> u8 {
        match self {
            Busy::Thread(_) => 0,
            Busy::Idle(_) => 1,
            Busy::Softirq(_) => 2,
            Busy::Interrupt(_) | Busy::Timer | Busy::Call => 3,
        }
    }
}

/// An event on the scale of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where.
    pub cpu: u32,
    /// When it was over, in ns since the block's first reading.
    pub at: i64,
    /// How long it took, in ns; of [`What::Stolen`] how much was stolen.
    pub took: u64,
    /// What it was.
    pub what: What,
    /// Since when: of [`What::Stolen`] the look before.
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
#[derive(Clone, Copy, Debug)]
struct Switch {
    at: i64,
    from: u32,
    to: u32,
    /// The one that left could have gone on.
    runnable: bool,
}

/// A block's events.
#[derive(Clone, Debug, Default)]
pub struct Cores {
    events: Vec<Seen>,
    /// Every switch of a CPU.
    switches: HashMap<u32, Vec<Switch>>,
    /// Who had a CPU when the block before ended.
    before: HashMap<u32, u32>,
}

impl Cores {
    /// Of a block's events in the order of time, on another scale; `before` says who had each CPU when it began, as far as that is known, and says afterwards who has it
    /// when it ends.
    pub fn new(events: &[Event], scale: impl Fn(u64) -> i64, before: &mut HashMap<u32, u32>) -> Cores {
        let mut cores = Cores { before: before.clone(), ..Cores::default() };
        let mut looked: HashMap<u32, i64> = HashMap::new();
        for event in events {
            let at = scale(event.at);
            let since = match event.what {
                What::Stolen => looked.get(&event.cpu).copied().unwrap_or(i64::MIN),
                _ => at - event.took as i64,
            };
            if let What::Switched { from, to, runnable } = event.what {
                cores.switches.entry(event.cpu).or_default().push(Switch { at, from, to, runnable });
                before.insert(event.cpu, to);
            }
            if matches!(event.what, What::Switched { .. } | What::Timer | What::Stolen) {
                looked.insert(event.cpu, at);
            }
            cores.events.push(Seen { cpu: event.cpu, at, took: event.took, what: event.what, since });
        }
        cores
    }

    /// Which thread had a CPU at a moment, and which left it first after another.
    fn held(&self, cpu: u32, from: i64, to: i64) -> Option<Held> {
        let none = Vec::new();
        let switches = self.switches.get(&cpu).unwrap_or(&none);
        let next = switches.partition_point(|switch| switch.at <= from);
        let earlier = next.checked_sub(1).map(|earlier| switches[earlier].to);
        let first = earlier.or_else(|| switches.first().map(|first| first.from)).or_else(|| self.before.get(&cpu).copied())?;
        let leaves = switches.iter().skip(switches.partition_point(|switch| switch.at <= to)).map(|next| next.from).next();
        Some(Held { cpu, first, leaves })
    }

    /// How long of a span of time a thread that could have gone on was kept from its CPU, by whom. Events reach beyond a block: its transactions are being
    /// looked at while the hooks are on.
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

    /// What went on at any time from one moment to another on these CPUs.
    pub fn during(&self, from: i64, to: i64, cpus: &[u32]) -> During {
        let first = self.events.partition_point(|event| event.at < from);
        // What the hypervisor took is seen at the next look, some ms later at most.
        let late = self.events[first..].iter().take_while(|event| event.at <= to.saturating_add(LATE_NS));
        let mut events: Vec<Seen> =
            late.filter(|event| event.at <= to || (event.what == What::Stolen && event.since < to)).copied().collect();
        let left_out = events.len().saturating_sub(MOST);
        if left_out > 0 {
            events.sort_by_key(|event| std::cmp::Reverse((matches!(event.what, What::Switched { .. }), event.took)));
            events.truncate(MOST);
            events.sort_by_key(|event| event.at);
        }
        let holders = cpus.iter().filter_map(|cpu| self.held(*cpu, from, to)).collect();
        During { from, to, holders, events, left_out, own: Vec::new() }
    }

    /// How long each had a CPU over a span of time, threads and idle states apart from what interrupted them.
    pub fn totals(&self, from: i64, to: i64, into: &mut HashMap<(u32, Busy), u64>) {
        for (cpu, switches) in &self.switches {
            let mut since = from;
            for switch in switches {
                // Who left had it. Where somebody else had come, a switch between the two was not seen.
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

/// The timer's tick at 100 Hz: so late may be seen what the hypervisor took.
const LATE_NS: i64 = 10_000_000;

/// Who had a CPU when a transaction began, and who left it first after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    cpu: u32,
    first: u32,
    leaves: Option<u32>,
}

/// What went on during a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct During {
    from: i64,
    to: i64,
    /// Who had each CPU.
    holders: Vec<Held>,
    /// When a thread of the flow is known to have had a CPU: CPU, when, thread.
    own: Vec<(u32, i64, u32)>,
    /// In the order of time.
    events: Vec<Seen>,
    /// Events beyond those that are kept.
    pub left_out: usize,
}

impl During {
    /// The events.
    pub fn events(&self) -> &[Seen] {
        &self.events
    }

    /// Leaves out soft interrupts for packets that handed on a packet of the transaction itself, at one of these moments: they are its way, not in its way.
    pub fn without_own(mut self, moments: &[i64]) -> During {
        let own = |seen: &Seen| moments.iter().any(|at| (seen.since..=seen.at).contains(at));
        self.events.retain(|seen| !(matches!(seen.what, What::Softirq(NET_TX | NET_RX)) && own(seen)));
        self
    }

    /// With the moments at which a thread of the flow had a CPU, in order: CPU, when, thread. A kernel may keep some switches to itself; then these say that who
    /// came has left.
    pub fn with_own(mut self, own: Vec<(u32, i64, u32)>) -> During {
        self.own = own;
        self
    }

    /// How long each had a CPU from one moment to another, in ns.
    pub fn shares(&self, cpu: u32, from: i64, to: i64) -> Vec<(Busy, u64)> {
        let stretches = self.stretches(cpu, from, to);
        let mut edges: Vec<i64> = stretches.iter().flat_map(|stretch| [stretch.0, stretch.1]).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut shares: Vec<(Busy, u64)> = Vec::new();
        for pair in edges.windows(2) {
            let over = stretches.iter().filter(|(since, until, _)| *since <= pair[0] && *until >= pair[1]);
            let Some((.., busy)) = over.max_by_key(|(.., busy)| busy.rank()) else { continue };
            let ns = (pair[1] - pair[0]) as u64;
            match shares.iter_mut().find(|(known, _)| known == busy) {
                Some((_, sum)) => *sum += ns,
                None => shares.push((*busy, ns)),
            }
        }
        shares
    }

    /// What lies over a span of time, one above the other: from, to, what.
    fn stretches(&self, cpu: u32, from: i64, to: i64) -> Vec<(i64, i64, Busy)> {
        let mut found = Vec::new();
        let mut add = |since: i64, until: i64, busy| {
            let (since, until) = (since.max(from), until.min(to));
            if since < until {
                found.push((since, until, busy));
            }
        };
        let held = self.holders.iter().find(|held| held.cpu == cpu);
        let mut holder = held.map(|held| held.first);
        let mut since = self.from;
        for event in self.events.iter().filter(|event| event.cpu == cpu) {
            if let What::Switched { from: left, to: came, .. } = event.what {
                let thread = holder.unwrap_or(left);
                add(since, self.left_by(cpu, since, event.at, thread == left), Busy::Thread(thread));
                (holder, since) = (Some(came), event.at);
            }
            if let Some(busy) = event.busy() {
                add(event.since, event.at, busy);
            }
        }
        if let Some(thread) = holder {
            let seen = held.and_then(|held| held.leaves) == Some(thread);
            add(since, self.left_by(cpu, since, self.to, seen), Busy::Thread(thread));
        }
        found
    }

    /// Until when somebody who came had the CPU at most: until it was seen leaving, else until a thread of the flow ran there.
    fn left_by(&self, cpu: u32, since: i64, until: i64, seen: bool) -> i64 {
        let runs = self.own.iter().find(|(of, at, _)| *of == cpu && *at > since && *at < until);
        runs.filter(|_| !seen).map_or(until, |(_, at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(cpu: u32, at: u64, took: u64, what: What) -> Event {
        Event { cpu, at, took, what }
    }

    fn switch(cpu: u32, at: u64, from: u32, to: u32) -> Event {
        event(cpu, at, 0, What::Switched { from, to, runnable: true })
    }

    fn cores(events: &[Event], before: &mut HashMap<u32, u32>) -> Cores {
        // A scale of its own: 1,000 less.
        Cores::new(events, |at| at as i64 - 1_000, before)
    }

    #[test]
    fn what_interrupts_has_the_cpu_and_who_is_interrupted_has_not() {
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
    fn who_kept_a_thread_from_its_cpu_is_told_from_who_had_it_while_that_slept() {
        let sleeps = event(1, 1_600, 0, What::Switched { from: 7, to: 9, runnable: false });
        let events = [switch(1, 1_100, 7, 9), switch(1, 1_200, 9, 3), switch(1, 1_500, 3, 7), sleeps, switch(1, 1_900, 9, 7)];
        let cores = cores(&events, &mut HashMap::new());
        assert_eq!(cores.kept_from(1, 7, 0, 1_000), HashMap::from([(9, 100), (3, 300)]));
        assert_eq!(cores.kept_from(1, 7, 150, 400), HashMap::from([(9, 50), (3, 200)]), "what lies beyond is not of the block");
        assert!(cores.kept_from(0, 7, 0, 1_000).is_empty());
    }

    #[test]
    fn a_cpu_that_nobody_left_is_whose_it_was() {
        let mut before = HashMap::from([(0, 42)]);
        let cores = cores(&[event(1, 1_010, 5, What::Timer)], &mut before);
        assert_eq!(cores.during(0, 100, &[0, 1]).shares(0, 20, 60), [(Busy::Thread(42), 40)]);
        assert_eq!(cores.during(0, 100, &[0, 1]).shares(1, 0, 100), [(Busy::Timer, 5)]);
    }

    #[test]
    fn who_was_not_seen_leaving_had_the_cpu_until_a_thread_of_the_flow_ran_there() {
        // 75 comes, and next it is 7 that leaves.
        let events = [switch(0, 1_100, 7, 75), switch(0, 1_900, 7, 9), switch(0, 2_000, 9, 7)];
        let cores = cores(&events, &mut HashMap::new());
        let during = |own: &[(u32, i64, u32)]| cores.during(0, 800, &[0]).with_own(own.to_vec());
        assert_eq!(during(&[]).shares(0, 0, 800), [(Busy::Thread(7), 100), (Busy::Thread(75), 700)]);
        let own = [(0, 50, 7), (0, 300, 7), (0, 700, 7)];
        assert_eq!(during(&own).shares(0, 0, 800), [(Busy::Thread(7), 100), (Busy::Thread(75), 200)]);
        // One that was seen leaving had it until then.
        let during = cores.during(850, 1_050, &[0]).with_own(vec![(0, 950, 7)]);
        assert_eq!(during.shares(0, 850, 1_050), [(Busy::Thread(75), 50), (Busy::Thread(9), 100), (Busy::Thread(7), 50)]);
        let mut totals = HashMap::new();
        cores.totals(0, 2_000, &mut totals);
        assert_eq!(totals.get(&(0, Busy::Thread(75))), None);
    }

    #[test]
    fn what_was_stolen_lies_between_two_looks() {
        let events = [event(0, 1_100, 2, What::Timer), event(0, 5_000, 700, What::Stolen), event(0, 9_000, 1, What::Stolen)];
        let cores = cores(&events, &mut HashMap::new());
        let during = cores.during(200, 300, &[0]);
        assert_eq!(during.events().iter().map(|seen| (seen.since, seen.at, seen.took)).collect::<Vec<_>>(), [(100, 4_000, 700)]);
        assert!(during.shares(0, 200, 300).is_empty());
    }

    #[test]
    fn of_a_flood_the_longest_are_kept() {
        let mut events: Vec<Event> = (0..1_000).map(|n| event(0, 1_000 + 10 * n, n % 7, What::Softirq(3))).collect();
        events[500] = switch(0, 6_000, 1, 2);
        let during = cores(&events, &mut HashMap::new()).during(0, 10_000, &[0]);
        assert_eq!((during.events().len(), during.left_out), (MOST, 1_000 - MOST));
        assert!(during.events().is_sorted_by_key(|seen| seen.at));
        assert!(during.events().iter().any(|seen| matches!(seen.what, What::Switched { .. })));
        assert!(during.events().iter().filter(|seen| seen.took > 0).all(|seen| seen.took >= 5));
    }
}
