//! The observer's CPUs: those that the watched threads do not use, if there are any.

use hairpin_units::Gather;
use std::collections::BTreeSet;

use hairpin_sys::host::Host;
use hairpin_sys::thread::{all_stay_on, allowed_cpus};

/// The field of /proc/PID/stat that holds the CPU on which a thread ran last, counted from the state after its name.
const PROCESSOR: usize = 36;

/// The place of this process.
pub(super) struct Seat {
    /// The CPUs allowed at the start.
    allowed: Vec<u32>,
    on: Option<Vec<u32>>,
}

impl Seat {
    pub(super) fn new() -> Seat {
        Seat { allowed: allowed_cpus().unwrap_or_default(), on: None }
    }

    /// True once the threads were moved, or left in place because no other CPU was free.
    pub(super) fn is_taken(&self) -> bool {
        self.on.is_some()
    }

    /// Moves all threads of this process off the CPUs on which these threads of clients and servers ran last.
    /// Best effort: on an error the threads stay.
    pub(super) fn move_off(&mut self, host: &dyn Host, [clients, servers]: &[BTreeSet<i32>; 2]) {
        let cpus = |threads: &BTreeSet<i32>| -> BTreeSet<u32> {
            threads.iter().filter_map(|thread| last_cpu(&host.read(&format!("/proc/{thread}/stat")).ok()?)).gather()
        };
        let free = free(&self.allowed, &cpus(servers), &cpus(clients));
        if self.on.as_ref() != Some(&free) {
            if !(free.is_empty() || self.on.is_none() && free == self.allowed) {
                let _ = all_stay_on(&free);
            }
            self.on = Some(free);
        }
    }
}

/// The allowed CPUs without those of server and client, or at least of the server; else all of them.
fn free(allowed: &[u32], servers: &BTreeSet<u32>, clients: &BTreeSet<u32>) -> Vec<u32> {
    let without = |taken: &dyn Fn(&u32) -> bool| allowed.iter().copied().filter(|cpu| !taken(cpu)).collect::<Vec<_>>();
    let choices = [without(&|cpu| servers.contains(cpu) || clients.contains(cpu)), without(&|cpu| servers.contains(cpu))];
    choices.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or_else(|| allowed.to_vec())
}

/// The CPU in the text of /proc/PID/stat: `PID (name) STATE PPID …`, where the name may hold anything.
fn last_cpu(stat: &str) -> Option<u32> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(PROCESSOR)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_cpus_are_left_to_it() {
        let set = |cpus: &[u32]| cpus.iter().copied().gather::<BTreeSet<_>>();
        assert_eq!(free(&[0, 1, 2], &set(&[1]), &set(&[0])), [2]);
        assert_eq!(free(&[0, 1], &set(&[1]), &set(&[0])), [0], "the client's rather than the server's");
        assert_eq!(free(&[0, 1], &set(&[0, 1]), &set(&[])), [0, 1], "no CPU is left");
        assert_eq!(free(&[1], &set(&[1]), &set(&[])), [1], "pinned by its user");
    }

    #[test]
    fn reads_the_cpu_of_any_name() {
        let stat = format!("7 (a) b) c) S {} 3 0 0 0", (4..39).map(|field| field.to_string()).collect::<Vec<_>>().join(" "));
        assert_eq!(last_cpu(&stat), Some(3));
        assert_eq!(last_cpu("nonsense"), None);
        // The field is the kernel's 39th, and this thread is on a CPU that it may use.
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(last_cpu(&own).is_some());
    }
}
