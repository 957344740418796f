//! Activity of the cores during a run: their time by kind, and the interrupts they served.
//!
//! ```text
//!   CoreActivity::read ── the run ── CoreActivity::read ── since() ──► Activity
//!     /proc/stat        time by kind, in steps of 10 ms
//!     /proc/interrupts  counts by handler
//!     /proc/softirqs    counts by kind
//! ```
//! A value that cannot be read is `None` with a reason, never zero.

use hairpin_units::Gather;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use hairpin_sys::host::Host;

use crate::{cpulist, interrupts};

const STAT: &str = "/proc/stat";
const INTERRUPTS: &str = "/proc/interrupts";
const SOFTIRQS: &str = "/proc/softirqs";

/// One tick of /proc/stat. USER_HZ is 100 on every architecture but Alpha and IA-64, whatever the kernel's own HZ: it is part of
/// the ABI (proc(5), `sysconf(_SC_CLK_TCK)`).
const NS_PER_TICK: u64 = 10_000_000;

/// The counters of a set of cores at one moment.
#[derive(Clone, Debug)]
pub struct CoreActivity {
    cpus: Vec<u32>,
    times: Result<Times, String>,
    interrupts: Result<Interrupts, String>,
}

/// Counts of hard and soft interrupts.
#[derive(Clone, Debug, Default)]
struct Interrupts {
    /// By name, then by interrupt and CPU.
    counts: BTreeMap<String, Vec<u64>>,
    /// The names of hard interrupts by number.
    names: BTreeMap<String, String>,
}

/// Ticks, summed over the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    user: u64,
    nice: u64,
    system: u64,
    irq: u64,
    softirq: u64,
    steal: u64,
}

/// The difference between two readings, summed over the cores. Times come from /proc/stat, in steps of 10 ms per core
/// and kind; without CONFIG_IRQ_TIME_ACCOUNTING the kernel samples them at its tick and misses most interrupts shorter
/// than that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Hard interrupts.
    pub irq_ns: Option<u64>,
    /// Soft interrupts.
    pub softirq_ns: Option<u64>,
    /// Time that the hypervisor gave to others while the cores were ready to run.
    pub steal_ns: Option<u64>,
    /// Busy time: user, nice, system, hard and soft interrupts. Excludes idle, I/O wait and stolen time.
    pub busy_ns: Option<u64>,
    /// Interrupts with a count above 0, by handler name, by the letters of /proc/interrupts (`LOC`, `RES`, …), and soft
    /// ones as `softirq:NET_RX`.
    pub interrupts: Option<BTreeMap<String, u64>>,
    /// The reason of each `None`.
    pub unread: Vec<String>,
}

impl CoreActivity {
    /// Reads the counters of these CPUs now.
    pub fn read(host: &dyn Host, cpus: &[u32]) -> CoreActivity {
        let cpus = cpulist::distinct(cpus);
        let times = read(host, STAT, |text| parse_stat(text, &cpus));
        let interrupts = read_interrupts(host, &cpus);
        CoreActivity { cpus, times, interrupts }
    }

    /// The difference to `earlier`, a reading of the same CPUs.
    pub fn since(&self, earlier: &CoreActivity) -> Activity {
        let mut activity = Activity::default();
        if self.cpus != earlier.cpus {
            let reason = format!("CPUs {:?} cannot be compared with CPUs {:?}", self.cpus, earlier.cpus);
            activity.unread.push(reason);
            return activity;
        }
        match (&self.times, &earlier.times) {
            (Ok(now), Ok(then)) => {
                let mut grown = |kind: &str, of: fn(&Times) -> u64| {
                    let ticks = of(now).checked_sub(of(then));
                    if ticks.is_none() {
                        activity.unread.push(format!("{STAT}: {kind} ran backwards"));
                    }
                    ticks.map(|ticks| ticks.saturating_mul(NS_PER_TICK))
                };
                activity.irq_ns = grown("irq", |times| times.irq);
                activity.softirq_ns = grown("softirq", |times| times.softirq);
                activity.steal_ns = grown("steal", |times| times.steal);
                activity.busy_ns = grown("user + nice + system + irq + softirq", Times::busy);
            }
            (Err(why), _) | (_, Err(why)) => activity.unread.push(why.clone()),
        }
        match (&self.interrupts, &earlier.interrupts) {
            (Ok(now), Ok(then)) => activity.interrupts = Some(happened(now, then, &mut activity.unread)),
            (Err(why), _) | (_, Err(why)) => activity.unread.push(why.clone()),
        }
        activity
    }
}

impl Times {
    fn busy(&self) -> u64 {
        [self.user, self.nice, self.system, self.irq, self.softirq].into_iter().fold(0, u64::saturating_add)
    }

    fn add(&mut self, other: Times) {
        for (sum, more) in [
            (&mut self.user, other.user),
            (&mut self.nice, other.nice),
            (&mut self.system, other.system),
            (&mut self.irq, other.irq),
            (&mut self.softirq, other.softirq),
            (&mut self.steal, other.steal),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

fn read<T>(host: &dyn Host, path: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, String> {
    let text = host.read(path).map_err(|why: io::Error| format!("{path}: {why}"))?;
    parse(&text).map_err(|why| format!("{path}: {why}"))
}

/// `cpu0 user nice system idle iowait irq softirq steal guest guest_nice`, in ticks; guest time is part of user time.
fn parse_stat(text: &str, cpus: &[u32]) -> Result<Times, String> {
    let mut sum = Times::default();
    for cpu in cpus {
        let label = format!("cpu{cpu}");
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(&label));
        let line = line.ok_or_else(|| format!("has no line for CPU {cpu}: is it online?"))?;
        let ticks = line.split_whitespace().skip(1).map(str::parse).collect::<Result<Vec<u64>, _>>();
        let Ok(&[user, nice, system, _idle, _iowait, irq, softirq, steal, ..]) = ticks.as_deref() else {
            return Err(format!("cannot parse the line {line:?}"));
        };
        sum.add(Times { user, nice, system, irq, softirq, steal });
    }
    Ok(sum)
}

fn read_interrupts(host: &dyn Host, cpus: &[u32]) -> Result<Interrupts, String> {
    let mut all = Interrupts::default();
    let hard = read(host, INTERRUPTS, |text| interrupts::parse(text, cpus))?;
    let soft = read(host, SOFTIRQS, |text| interrupts::parse(text, cpus))?;
    all.names.extend(hard.iter().filter(|line| line.number().is_some()).map(|line| (line.label.clone(), line.name.clone())));
    let soft = soft.into_iter().map(|line| (format!("softirq:{}", line.name), line.counts));
    // Several interrupts may share a name; each keeps its own counters, which wrap on their own.
    for (name, counters) in hard.into_iter().map(|line| (line.name, line.counts)).chain(soft) {
        all.counts.entry(name).or_default().extend(counters);
    }
    Ok(all)
}

/// The growth of every counter, summed by name, without counters that did not grow.
fn happened(now: &Interrupts, then: &Interrupts, unread: &mut Vec<String>) -> BTreeMap<String, u64> {
    let mut grown = BTreeMap::new();
    // The counters are the number's, and stay when handlers come and go.
    let is_new = |(number, name): &(&String, &String)| then.names.get(*number).is_some_and(|before| before != *name);
    let renamed: BTreeSet<&String> = now.names.iter().filter(is_new).map(|(_, name)| name).gather();
    for (name, now) in &now.counts {
        if renamed.contains(name) {
            unread.push(format!("{INTERRUPTS}: the handlers of {name} changed"));
            continue;
        }
        // An interrupt that was added between the two readings starts at zero.
        let zeros = vec![0; now.len()];
        let then = then.counts.get(name).unwrap_or(&zeros);
        let ways: Option<Vec<u64>> =
            if then.len() == now.len() { now.iter().zip(then).map(|(&now, &then)| counted(now, then)).collect() } else { None };
        match ways {
            Some(ways) => {
                let sum: u64 = ways.iter().sum();
                if sum > 0 {
                    grown.insert(name.clone(), sum);
                }
            }
            None => unread.push(format!("{INTERRUPTS}: the counters of {name} started anew")),
        }
    }
    grown
}

/// The growth of one counter. Counters have 32 bits: at 1,000 timer interrupts a second one wraps every 50 days. `None`
/// if it went back further than a wrap explains: its handler was removed and added again.
fn counted(now: u64, then: u64) -> Option<u64> {
    if now >= then {
        return Some(now - then);
    }
    let wrapped = (now + (1 << 32)).checked_sub(then)?;
    (wrapped < 1 << 31).then_some(wrapped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::host::{FakeHost, RealHost};

    const STAT_THEN: &str =
        "cpu  300 0 30 3000 0 6 9 12 0 0\ncpu0 100 1 10 1000 5 2 3 4 0 0\ncpu1 200 0 20 2000 0 4 6 8 0 0\nintr 5 0\n";
    const STAT_NOW: &str = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 150 2 13 1000 5 3 5 4 0 0\ncpu1 201 0 20 2100 0 4 6 9 0 0\nintr 9 0\n";
    const INTERRUPTS_THEN: &str = "  CPU0 CPU1\n 30: 5 6  IO-APIC  5-edge      eth0\n 31: 1 1  IO-APIC  6-edge      eth0\nLOC: 4294967290 7  Timer\nERR: 0\n";
    const INTERRUPTS_NOW: &str =
        "  CPU0 CPU1\n 30: 7 6  IO-APIC  5-edge      eth0\n 31: 2 1  IO-APIC  6-edge      eth0\nLOC: 4 9  Timer\nERR: 0\n";
    const SOFTIRQS_THEN: &str = "  CPU0 CPU1\n NET_TX: 1 1\n NET_RX: 10 10\n";
    const SOFTIRQS_NOW: &str = "  CPU0 CPU1\n NET_TX: 1 1\n NET_RX: 15 11\n";

    fn host(root: &std::path::Path, stat: &str, interrupts: &str, softirqs: &str) -> FakeHost {
        FakeHost::at(root).with(STAT, stat).with(INTERRUPTS, interrupts).with(SOFTIRQS, softirqs)
    }

    fn between(then: [&str; 3], now: [&str; 3], cpus: &[u32]) -> Activity {
        let directory = tempfile::tempdir().unwrap();
        let read = |[stat, interrupts, softirqs]: [&str; 3]| {
            CoreActivity::read(&host(directory.path(), stat, interrupts, softirqs), cpus)
        };
        let then = read(then);
        read(now).since(&then)
    }

    const THEN: [&str; 3] = [STAT_THEN, INTERRUPTS_THEN, SOFTIRQS_THEN];
    const NOW: [&str; 3] = [STAT_NOW, INTERRUPTS_NOW, SOFTIRQS_NOW];

    #[test]
    fn sums_only_the_given_cores() {
        let names = |counts: &[(&str, u64)]| Some(counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect());
        assert_eq!(
            between(THEN, NOW, &[0]),
            Activity {
                irq_ns: Some(10_000_000),
                softirq_ns: Some(20_000_000),
                steal_ns: Some(0),
                busy_ns: Some(570_000_000), // 50 user + 1 nice + 3 system + 1 irq + 2 softirq
                interrupts: names(&[("eth0", 3), ("LOC", 10), ("softirq:NET_RX", 5)]),
                unread: vec![],
            }
        );
        let both = between(THEN, NOW, &[1, 0, 1]);
        assert_eq!((both.steal_ns, both.busy_ns), (Some(10_000_000), Some(580_000_000)));
        assert_eq!(both.interrupts, names(&[("eth0", 3), ("LOC", 12), ("softirq:NET_RX", 6)]));
    }

    #[test]
    fn unreadable_counters_are_none_with_a_reason() {
        for (now, missing) in [
            (["cpu0 1 2\n", INTERRUPTS_NOW, SOFTIRQS_NOW], STAT),
            (["cpu0 100 1 10 x 5 2 3 4 0 0\n", INTERRUPTS_NOW, SOFTIRQS_NOW], STAT),
            (["cpu1 201 0 20 2100 0 4 6 9 0 0\n", INTERRUPTS_NOW, SOFTIRQS_NOW], STAT),
            ([STAT_NOW, "", SOFTIRQS_NOW], INTERRUPTS),
            ([STAT_NOW, INTERRUPTS_NOW, "CPU0\nNET_RX: many\n"], SOFTIRQS),
        ] {
            let activity = between(THEN, now, &[0]);
            assert_eq!(activity.unread.len(), 1, "{activity:?}");
            assert!(activity.unread[0].starts_with(missing), "{activity:?}");
            assert_eq!(activity.busy_ns.is_none(), missing == STAT);
            assert_eq!(activity.irq_ns.is_none(), missing == STAT);
            assert_eq!(activity.interrupts.is_none(), missing != STAT);
        }
        let directory = tempfile::tempdir().unwrap();
        let nothing = CoreActivity::read(&FakeHost::at(directory.path()), &[0]);
        let activity = nothing.since(&nothing);
        assert_eq!((activity.busy_ns, activity.interrupts.is_none(), activity.unread.len()), (None, true, 2));
    }

    #[test]
    fn reports_counters_that_run_backwards() {
        let activity = between([STAT_NOW, INTERRUPTS_THEN, SOFTIRQS_THEN], [STAT_THEN, INTERRUPTS_NOW, SOFTIRQS_NOW], &[0]);
        assert_eq!((activity.irq_ns, activity.steal_ns, activity.busy_ns), (None, Some(0), None));
        let activity = between([STAT_THEN, INTERRUPTS_NOW, SOFTIRQS_THEN], [STAT_NOW, INTERRUPTS_THEN, SOFTIRQS_NOW], &[0]);
        assert_eq!(activity.unread, ["/proc/interrupts: the counters of eth0 started anew"]);
        assert!(!activity.interrupts.unwrap().contains_key("eth0"));
    }

    #[test]
    fn counters_outlive_their_handlers() {
        let table = |handlers: &str| format!("  CPU0 CPU1\n 31: 900 1  IO-APIC  6-edge      {handlers}\nERR: 0\n");
        for (before, after, name) in [("eth1", "", "IRQ 31"), ("", "eth1", "eth1"), ("smbus", "smbus, snd", "smbus, snd")] {
            let (then, now) = (table(before), table(after));
            let activity = between([STAT_THEN, &then, SOFTIRQS_THEN], [STAT_NOW, &now, SOFTIRQS_NOW], &[0]);
            assert_eq!(activity.unread, [format!("/proc/interrupts: the handlers of {name} changed")]);
            assert_eq!(activity.interrupts.unwrap().get(name), None);
        }
    }

    #[test]
    fn refuses_to_compare_different_cores() {
        let directory = tempfile::tempdir().unwrap();
        let host = host(directory.path(), STAT_THEN, INTERRUPTS_THEN, SOFTIRQS_THEN);
        let activity = CoreActivity::read(&host, &[0]).since(&CoreActivity::read(&host, &[1]));
        assert_eq!((activity.busy_ns, activity.unread.len()), (None, 1));
    }

    #[test]
    fn reads_the_first_core_of_the_real_host() {
        let then = CoreActivity::read(&RealHost, &[0]);
        let activity = CoreActivity::read(&RealHost, &[0]).since(&then);
        assert_eq!(activity.unread, [""; 0]);
        assert!(activity.busy_ns.is_some() && activity.interrupts.is_some());
    }
}
