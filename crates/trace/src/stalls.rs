//! Causes of the stalls of a thread that only reads the clock: the thread or interrupt that had its core instead.
//!
//! ```text
//!   readings  ││││││││              │││││││││                 ││││││
//!   stall             └── 42 us ───┘         └──── 3 ms ─────┘
//!   events             ▐timer▌▐RCU▌           ───── cc1 ─────       shares of the stall: the largest is its cause
//!   rest              ▌            ▐         ▌               ▐      way into an interrupt and out of it, unless it is long:
//!                                                                   then the hypervisor (steal), the firmware (SMI), or unknown
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hairpin_record::explain::Cause;
use hairpin_units::Arrange;

use crate::causes::{Kind, Part, few};
use crate::cores::{Busy, Cores};
use crate::events::What;
use crate::names::{LIMITED, Names};

/// The cause of a stall without any event, and of one whose events were not recorded.
pub const UNKNOWN: &str = "unknown";
/// Longest way into an interrupt and out of it, hooks included, without the handler, in ns: in a virtual machine it leaves the
/// guest, and took more than 10 us.
const ENTRY_NS: u64 = 20_000;

/// The cause of each stall (from, to) of a core in a block, in the same order. `own` is the thread that spun, `smis` the number
/// of system management interrupts that the core counted meanwhile. Stalls without an event go, the longest first, to stolen
/// time, each ns of which counts for one stall only, and then to those interrupts.
pub fn causes(cores: &Cores, cpu: u32, own: u32, stalls: &[(i64, i64)], smis: u64, names: &Names) -> Vec<Part> {
    let mut found: Vec<(Part, Unseen)> = stalls.iter().map(|stall| cause(cores, cpu, own, *stall, names)).collect();
    let mut unseen: Vec<&mut (Part, Unseen)> = found.iter_mut().filter(|(part, _)| part.kind == Kind::Nothing).collect();
    unseen.arrange_by(|(a, _), (b, _)| b.ns.total_cmp(&a.ns));
    let mut left: BTreeMap<i64, u64> = BTreeMap::new();
    for (part, Unseen { rest, looks }) in &mut unseen {
        let stolen: u64 = looks.iter().map(|(at, took)| *left.entry(*at).or_insert(*took)).sum();
        if 2 * stolen < *rest {
            continue;
        }
        part.kind = Kind::Stolen;
        for (at, _) in looks.iter() {
            let left = left.entry(*at).or_default();
            let used = (*rest).min(*left);
            (*left, *rest) = (*left - used, *rest - used);
        }
    }
    let unknown = unseen.into_iter().filter(|(part, _)| part.kind == Kind::Nothing);
    unknown.take(usize::try_from(smis).unwrap_or(usize::MAX)).for_each(|(part, _)| part.kind = Kind::Firmware);
    found.into_iter().map(|(part, _)| part).collect()
}

/// The part of a stall that no event explains, in ns, and the readings of stolen time (when, how much) that may explain it.
#[derive(Default)]
struct Unseen {
    rest: u64,
    looks: Vec<(i64, u64)>,
}

/// The cause that events show; [`Kind::Nothing`] with the rest if they do not.
fn cause(cores: &Cores, cpu: u32, own: u32, (from, to): (i64, i64), names: &Names) -> (Part, Unseen) {
    let ns = (to - from).max(0) as u64;
    let part = |kind, who: String| (Part { kind, who, ns: ns as f64 }, Unseen::default());
    let during = cores.during(from, to, &[cpu]);
    let others: Vec<(Busy, u64)> =
        during.shares(cpu, from, to).into_iter().filter(|(busy, _)| *busy != Busy::Thread(own)).collect();
    let seen: u64 = others.iter().map(|(_, ns)| ns).sum();
    let rest = ns.saturating_sub(seen);
    if let Some((busy, _)) = others.iter().max_by_key(|(busy, ns)| (*ns, Reverse(*busy)))
        && rest <= seen.max(ENTRY_NS)
    {
        return match *busy {
            Busy::Thread(0) | Busy::Idle(_) => part(Kind::Preempted, LIMITED.into()),
            Busy::Thread(thread) if names.bare(thread).starts_with("ksoftirqd/") => part(Kind::Deferred, names.named(thread)),
            Busy::Thread(thread) => part(Kind::Preempted, names.named(thread)),
            Busy::Softirq(_) => part(Kind::SoftInterrupt, names.busy(cpu, *busy)),
            Busy::Interrupt(_) => part(Kind::HardInterrupt, names.busy(cpu, *busy)),
            Busy::Timer => part(Kind::Timer, String::new()),
            Busy::Call => part(Kind::Call, String::new()),
        };
    }
    let looks = during.events().iter().filter(|event| event.what == What::Stolen && event.cpu == cpu);
    let looks = looks.map(|event| (event.at, event.took)).collect();
    (part(Kind::Nothing, String::new()).0, Unseen { rest, looks })
}

/// A stall's cause and culprit, as records name them.
pub fn words(part: &Part) -> (String, String) {
    match part.kind {
        Kind::Nothing => (UNKNOWN.into(), part.kind.of().name.into()),
        kind => (kind.of().name.into(), part.who.clone()),
    }
}

/// The causes of many stalls: their number and their time.
#[derive(Clone, Debug, Default)]
pub struct Sums(BTreeMap<(Kind, String), (u64, f64)>);

impl Sums {
    /// Adds a stall.
    pub fn add(&mut self, part: &Part) {
        let sum = self.0.entry((part.kind, part.who.clone())).or_default();
        *sum = (sum.0 + 1, sum.1 + part.ns);
    }

    /// The largest first.
    pub fn causes(self) -> Vec<Cause> {
        let cause = |((kind, who), (count, ns)): ((Kind, String), (u64, f64))| {
            let part = Part { kind, who, ns };
            let (cause, who) = words(&part);
            // The core spins: none of its stalls comes from an idle state, about which hosts differ.
            let advice = part.advice(true).into();
            Cause { cause, who, count, lost_ns: ns.round() as u64, advice }
        };
        let mut causes: Vec<Cause> = few(self.0).into_iter().map(cause).collect();
        causes.arrange_by_key(|cause| Reverse(cause.lost_ns));
        causes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use hairpin_sys::host::FakeHost;

    use super::*;
    use crate::events::Event;

    const OWN: u32 = 7;

    fn event(at: u64, took: u64, what: What) -> Event {
        Event { cpu: 2, at, took, what }
    }

    fn switch(at: u64, from: u32, to: u32) -> Event {
        event(at, 0, What::Switched { from, to, runnable: true })
    }

    /// Names of a host with an interrupt 36 and some threads.
    fn names() -> Names {
        let directory = tempfile::tempdir().unwrap();
        let host =
            FakeHost::at(directory.path()).with("/proc/interrupts", " 36: 0 1 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0\n");
        let mut names = Names::read(&host, &[2]);
        names.threads.extend([(0, "swapper/2".into()), (99, "stress".into()), (12, "ksoftirqd/2".into())]);
        names
    }

    fn found(events: &[Event], stalls: &[(i64, i64)], smis: u64) -> Vec<(&'static str, String)> {
        let cores = Cores::new(events, |at| at as i64, &mut HashMap::new());
        let parts = causes(&cores, 2, OWN, stalls, smis, &names());
        assert_eq!(parts.len(), stalls.len());
        parts.into_iter().map(|part| (part.kind.of().name, part.who)).collect()
    }

    #[test]
    fn each_kind_is_named_by_the_largest_share() {
        let us = 1_000;
        let events = [
            // A tick that raises a soft interrupt: most of the time is that of RCU.
            event(1_001 * us, 700, What::Timer),
            event(1_003 * us, 1_800, What::Softirq(9)),
            event(2_004 * us, 3_000, What::Interrupt(36)),
            event(3_002 * us, 1_000, What::Call),
            switch(4_001 * us, OWN, 99),
            event(5_500 * us, 100 * us, What::Timer),
            switch(7_001 * us, 99, OWN),
            switch(8_001 * us, OWN, 12),
            switch(8_090 * us, 12, OWN),
            switch(9_001 * us, OWN, 0),
            event(9_990 * us, 900 * us, What::Idle(0)),
            switch(9_999 * us, 0, OWN),
            event(10_002 * us, 1_500, What::Timer),
        ];
        let at = |from: i64, to: i64| (from * 1_000, to * 1_000);
        let stalls = [
            at(1_000, 1_004),
            at(2_000, 2_005),
            at(3_000, 3_003),
            at(4_000, 7_002),
            at(8_000, 8_091),
            at(9_000, 10_000),
            at(10_000, 10_003),
            at(11_000, 11_040),
        ];
        let expected = [
            ("soft interrupt", "RCU"),
            ("hard interrupt", "virtio1-req.0 (interrupt 36)"),
            ("call from another CPU", ""),
            ("preempted", "stress (pid 99)"),
            ("ksoftirqd", "ksoftirqd/2 (pid 12)"),
            ("preempted", LIMITED),
            ("timer", ""),
            ("nothing seen", ""),
        ];
        assert_eq!(found(&events, &stalls, 0), expected.map(|(kind, who)| (kind, who.to_owned())));
    }

    #[test]
    fn a_tick_within_a_long_stall_is_not_its_cause() {
        let tick = [event(1_502_000, 2_000, What::Timer)];
        assert_eq!(found(&tick, &[(1_000_000, 1_600_000)], 0), [("nothing seen", String::new())]);
        // With steal counted by the hypervisor, the cause is the hypervisor.
        let stolen = [event(900_000, 1_000, What::Timer), tick[0], event(1_700_000, 580_000, What::Stolen)];
        assert_eq!(found(&stolen, &[(1_000_000, 1_600_000)], 0), [("stolen", String::new())]);
        // Far too little steal does not explain the stall.
        let little = [event(900_000, 1_000, What::Timer), tick[0], event(1_700_000, 20_000, What::Stolen)];
        assert_eq!(found(&little, &[(1_000_000, 1_600_000)], 0), [("nothing seen", String::new())]);
    }

    #[test]
    fn each_ns_of_stolen_time_explains_one_stall_and_the_longest_come_first() {
        // 1 ms of steal, reported at one tick; before it a stall of 0.9 ms and fifteen of 30 us.
        let events = [event(1_000_000, 1_000, What::Timer), event(4_000_000, 1_000_000, What::Stolen)];
        let mut stalls: Vec<(i64, i64)> = (0..15).map(|at| (1_100_000 + 50_000 * at, 1_130_000 + 50_000 * at)).collect();
        stalls.push((2_000_000, 2_900_000));
        let found = found(&events, &stalls, 2);
        let count = |name: &str| found.iter().filter(|(kind, _)| *kind == name).count();
        assert_eq!((found[15].0, count("stolen"), count("SMI"), count("nothing seen")), ("stolen", 1 + 3, 2, 10));
    }

    #[test]
    fn the_longest_unseen_stalls_are_those_of_the_firmware() {
        let stalls = [(0, 30_000), (100_000, 250_000), (300_000, 420_000)];
        let kinds: Vec<&str> = found(&[], &stalls, 2).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, ["nothing seen", "SMI", "SMI"]);
    }

    #[test]
    fn events_of_another_core_explain_nothing() {
        let elsewhere = [Event { cpu: 3, at: 1_090_000, took: 90_000, what: What::Softirq(3) }];
        assert_eq!(found(&elsewhere, &[(1_000_000, 1_090_000)], 0), [("nothing seen", String::new())]);
    }

    #[test]
    fn a_limit_has_its_own_advice() {
        let mut sums = Sums::default();
        for (who, ns) in [(LIMITED, 4_000_000.0), ("stress (pid 99)", 3_000_000.0)] {
            sums.add(&Part { kind: Kind::Preempted, who: who.into(), ns });
        }
        let rows: Vec<(String, bool)> = sums.causes().into_iter().map(|row| (row.who, row.advice.contains("cpu.max"))).collect();
        assert_eq!(rows, [(LIMITED.to_owned(), true), ("stress (pid 99)".to_owned(), false)]);
    }

    #[test]
    fn a_table_has_each_stall_once_with_its_whole_length() {
        let part = |kind, who: &str, ns| Part { kind, who: who.into(), ns };
        let all = [
            part(Kind::Timer, "", 3_000.0),
            part(Kind::Preempted, "stress (pid 99)", 3_000_000.0),
            part(Kind::Timer, "", 2_000.0),
            part(Kind::Nothing, "", 40_000.0),
        ];
        let mut sums = Sums::default();
        all.iter().for_each(|part| sums.add(part));
        let rows: Vec<_> = sums.causes().into_iter().map(|row| (row.cause, row.who, row.count, row.lost_ns)).collect();
        let row = |cause: &str, who: &str, count, ns| (cause.to_owned(), who.to_owned(), count, ns);
        assert_eq!(
            rows,
            [
                row("preempted", "stress (pid 99)", 1, 3_000_000),
                row("unknown", "nothing seen", 1, 40_000),
                row("timer", "", 2, 5_000)
            ]
        );
    }
}
