//! Hairpin's own costs: CPU time, wall time and memory.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::super::children::{field, run, start};
use super::super::hairpin::{Tool, parse};

/// Runs of which an interval is made.
const ROUNDS: usize = 7;
/// Round trips of the memory bound.
const BILLION: u64 = 1_000_000_000;

impl Tool {
    /// The wall times of short runs, in s.
    pub(crate) fn wall_times(&self, scratch: &Path) -> Result<Vec<f64>, String> {
        let once = || {
            let mut command = Command::new(&self.program);
            command.args(["ping", "--link", "loopback", "--path", "udp:spin", "--duration", "1s", "--warmup", "100ms"]);
            command.env("HAIRPIN_RUNS", scratch.join("runs"));
            let begin = Instant::now();
            run(&mut command, Duration::from_secs(20))?;
            Ok(begin.elapsed().as_secs_f64())
        };
        (0..ROUNDS).map(|_| once()).collect()
    }

    /// The instrument's own cost per transaction over a null endpoint, in ns, as each of several runs of `hairpin check` finds
    /// it.
    pub(crate) fn own_costs(&self) -> Result<Vec<f64>, String> {
        (0..ROUNDS).map(|_| Ok(self.check()?.own_cost_ns)).collect()
    }

    /// The most memory that one of hairpin's processes held (VmHWM, proc(5)) over 10^9 transactions, in MiB.
    pub(crate) fn memory_of_a_billion(&self) -> Result<f64, String> {
        let mut command = Command::new(&self.program);
        command.args(["ping", "--link", "loopback", "--path", "memory", "--count", &BILLION.to_string(), "--json", "--no-store"]);
        if let Some([client, server]) = self.cpus {
            command.args(["--cpu", &format!("{client},{server}")]);
        }
        let child = start(&mut command)?;
        let root = child.pid();
        let (done, over) = std::sync::mpsc::channel::<()>();
        // Peaks only grow, so only growth in the last 20 ms of a process is missed.
        let watcher = thread::spawn(move || {
            let mut peak = 0;
            while over.recv_timeout(Duration::from_millis(20)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                peak = family(root).into_iter().filter_map(peak_kib).fold(peak, u64::max);
            }
            peak
        });
        let text = child.finish(Duration::from_secs(1200));
        drop(done);
        let peak = watcher.join().map_err(|_| "the watcher of memory panicked")?;
        let counted = parse(&text?)?.results.first().map_or(0, |row| row.transactions);
        if counted < BILLION {
            return Err(format!("the run for the memory bound counted only {counted} transactions"));
        }
        Ok(peak as f64 / 1024.0)
    }
}

/// `root` and every process below it that lives now.
fn family(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// The most that a process held, in KiB.
fn peak_kib(pid: u32) -> Option<u64> {
    field(pid, "VmHWM:")?.trim_end_matches(" kB").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_of_its_own_family_and_holds_memory() {
        let me = std::process::id();
        assert_eq!(family(me)[0], me);
        assert!(peak_kib(me).unwrap() > 100);
    }
}
