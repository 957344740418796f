//! Capabilities of this process (capabilities(7)).

use std::fs;

use rustix::process::{Resource, getrlimit};

/// A capability that a path may need, with its number in `linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Network devices, routes, XDP programs.
    NetAdmin = 12,
    /// Packet and AF_XDP sockets.
    NetRaw = 13,
    /// Locked memory beyond the limit, such as AF_XDP's.
    IpcLock = 14,
    /// Nearly everything, BPF and hooks included.
    SysAdmin = 21,
    /// Hooks in the kernel.
    Perfmon = 38,
    /// BPF programs and maps.
    Bpf = 39,
}

impl Capability {
    /// True if this thread has the capability in effect, directly or through CAP_SYS_ADMIN, which includes CAP_BPF and
    /// CAP_PERFMON (`bpf_capable`, `perfmon_capable` in `linux/capability.h`). In a user namespace of its own a process has all
    /// capabilities, but only over objects of that namespace.
    #[must_use]
    pub fn is_effective(self) -> bool {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        self.is_in(&status)
    }

    fn is_in(self, status: &str) -> bool {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
        let has = |capability: Capability| set >> (capability as u32) & 1 == 1;
        has(self) || (matches!(self, Capability::Bpf | Capability::Perfmon) && has(Capability::SysAdmin))
    }
}

/// True if this process may lock `bytes` of memory: CAP_IPC_LOCK, or a limit (`ulimit -l`) that is as high.
#[must_use]
pub fn may_lock(bytes: u64) -> bool {
    suffices(bytes, getrlimit(Resource::Memlock).current, Capability::IpcLock.is_effective())
}

fn suffices(bytes: u64, limit: Option<u64>, capable: bool) -> bool {
    capable || limit.is_none_or(|limit| bytes <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_locked_by_right_or_below_the_limit() {
        assert!(suffices(2, Some(1), true) && suffices(2, Some(2), false) && suffices(2, None, false));
        assert!(!suffices(2, Some(1), false));
    }

    #[test]
    fn as_the_kernel_writes_them() {
        let status = |set: u64| format!("Name:\tx\nCapPrm:\t{:016x}\nCapEff:\t{set:016x}\n", u64::MAX);
        let all = [
            Capability::NetAdmin,
            Capability::NetRaw,
            Capability::IpcLock,
            Capability::SysAdmin,
            Capability::Perfmon,
            Capability::Bpf,
        ];
        for capability in all {
            assert!(capability.is_in(&status(1 << capability as u32)), "{capability:?}");
            assert!(!capability.is_in(&status(0)) && !capability.is_in(""), "{capability:?}");
        }
        assert!([Capability::Bpf, Capability::Perfmon].iter().all(|one| one.is_in(&status(1 << 21))));
        assert!(!Capability::IpcLock.is_in(&status(1 << 21)) && !Capability::NetRaw.is_in(&status(1 << 21)));
    }
}
