//! Names for the numbers in events: threads as seen, interrupts and idle states as named by this host.

use std::collections::HashMap;

use hairpin_sys::host::Host;

use crate::cores::Busy;

/// Nobody had the core, though its thread could have gone on.
pub(crate) const LIMITED: &str = "nobody: a limit on this process's time, such as cpu.max of its cgroup";

/// As `include/linux/interrupt.h` counts them.
const SOFTIRQS: [&str; 10] = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Names of numbered things.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Threads, by number.
    pub threads: HashMap<u32, String>,
    interrupts: HashMap<u32, String>,
    idle: HashMap<(u32, u32), String>,
    /// A cpuidle driver knows idle states of this host.
    pub has_idle_driver: bool,
}

impl Names {
    /// Reads this host's names of its interrupts and of the idle states of these CPUs; without a name the
    /// number is used.
    pub fn read(host: &dyn Host, cpus: &[u32]) -> Names {
        let interrupts = host.read("/proc/interrupts").unwrap_or_default();
        let mut idle = HashMap::new();
        for cpu in cpus {
            let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
            for file in host.list(&directory).unwrap_or_default() {
                let state = file.strip_prefix("state").and_then(|number| number.parse().ok());
                if let (Some(state), Ok(name)) = (state, host.read(&format!("{directory}/{file}/name"))) {
                    idle.insert((*cpu, state), name);
                }
            }
        }
        let driver = host.read("/sys/devices/system/cpu/cpuidle/current_driver");
        Names {
            threads: HashMap::new(),
            interrupts: interrupts.lines().filter_map(interrupt).collect(),
            idle,
            has_idle_driver: driver.is_ok_and(|name| name.trim() != "none"),
        }
    }

    /// Learns the names of threads that were not seen leaving a CPU and are still there.
    pub fn learn(&mut self, host: &dyn Host, threads: impl Iterator<Item = u32>) {
        for thread in threads {
            if !self.threads.contains_key(&thread)
                && let Ok(name) = host.read(&format!("/proc/{thread}/comm"))
            {
                self.threads.insert(thread, name);
            }
        }
    }

    /// A thread: its name and number.
    pub fn thread(&self, thread: u32) -> String {
        match self.threads.get(&thread) {
            Some(name) if thread == 0 => name.clone(),
            Some(name) => format!("{name} ({thread})"),
            None if thread == 0 => "swapper".into(),
            None => format!("thread {thread}"),
        }
    }

    /// A thread as the cause of something: `NAME (pid NUMBER)`.
    pub fn named(&self, thread: u32) -> String {
        match self.bare(thread) {
            "" => format!("pid {thread}"),
            name => format!("{name} (pid {thread})"),
        }
    }

    /// A thread's name; empty if it was not seen leaving a CPU.
    pub fn bare(&self, thread: u32) -> &str {
        self.threads.get(&thread).map_or("", String::as_str)
    }

    /// The name of a CPU's holder.
    pub fn busy(&self, cpu: u32, busy: Busy) -> String {
        match busy {
            Busy::Thread(thread) => self.thread(thread),
            Busy::Idle(state) => self.idle(cpu, state),
            Busy::Softirq(number) => softirq(number),
            Busy::Interrupt(number) => match self.interrupts.get(&number) {
                Some(name) => format!("{name} (interrupt {number})"),
                None => format!("interrupt {number}"),
            },
            Busy::Timer => "the CPU's own timer".into(),
            Busy::Call => "a call from another CPU".into(),
        }
    }

    /// An idle state of a CPU.
    pub fn idle(&self, cpu: u32, state: u32) -> String {
        self.idle.get(&(cpu, state)).cloned().unwrap_or_else(|| format!("idle state {state}"))
    }

    /// True if a CPU in this state keeps running, and looks for work itself.
    pub fn polls(&self, cpu: u32, state: u32) -> bool {
        self.idle.get(&(cpu, state)).is_some_and(|name| name == "POLL")
    }
}

fn softirq(number: u32) -> String {
    SOFTIRQS.get(number as usize).map_or_else(|| format!("softirq {number}"), |name| (*name).to_owned())
}

/// A line of /proc/interrupts: number, a count for each CPU, chip, pin, name.
fn interrupt(line: &str) -> Option<(u32, String)> {
    let (number, rest) = line.split_once(':')?;
    let words = rest.split_whitespace().skip_while(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let name = words.last()?;
    Some((number.trim().parse().ok()?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use hairpin_sys::host::FakeHost;

    use super::*;

    #[test]
    fn names_come_from_the_host_or_are_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let interrupts = "           CPU0       CPU1\n 36:          0     171065 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\nLOC:     453334     564714   Local timer interrupts\n";
        let host = FakeHost::at(directory.path())
            .with("/proc/interrupts", interrupts)
            .with("/sys/devices/system/cpu/cpu3/cpuidle/state0/name", "POLL\n")
            .with("/sys/devices/system/cpu/cpu3/cpuidle/state2/name", "C6\n");
        let mut names = Names::read(&host, &[0, 3]);
        names.threads.extend([(0, "swapper/1".into()), (4_711, "stress".into())]);
        let host = host.with("/proc/68/comm", "kworker/0:1H\n").with("/proc/4711/comm", "another\n");
        names.learn(&host, [4_711, 68, 5].into_iter());
        assert_eq!(names.bare(68), "kworker/0:1H");
        let named = [Busy::Interrupt(36), Busy::Interrupt(9), Busy::Idle(2), Busy::Idle(7), Busy::Softirq(3), Busy::Softirq(99)];
        let expected = ["virtio1-req.0 (interrupt 36)", "interrupt 9", "C6", "idle state 7", "NET_RX", "softirq 99"];
        assert_eq!(named.map(|busy| names.busy(3, busy)), expected);
        assert_eq!([0, 4_711, 5].map(|thread| names.thread(thread)), ["swapper/1", "stress (4711)", "thread 5"]);
        assert!(names.polls(3, 0) && !names.polls(3, 2) && !names.polls(0, 0));
        assert!(!names.has_idle_driver);
        for (driver, is_one) in [("none\n", false), ("intel_idle\n", true)] {
            let host = host.clone().with("/sys/devices/system/cpu/cpuidle/current_driver", driver);
            assert_eq!(Names::read(&host, &[3]).has_idle_driver, is_one, "{driver}");
        }
    }
}
