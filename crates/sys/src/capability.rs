//! Capabilities of this process (capabilities(7)).

use std::fs;

/// A capability that a path may need, with its number in `linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Network devices, routes, XDP programs.
    NetAdmin = 12,
    /// Packet and AF_XDP sockets.
    NetRaw = 13,
    /// Nearly everything, BPF included.
    SysAdmin = 21,
    /// BPF programs and maps.
    Bpf = 39,
}

impl Capability {
    /// True if this thread has the capability in effect, directly or through CAP_SYS_ADMIN, which includes CAP_BPF (`bpf_capable`
    /// in `linux/capability.h`). In a user namespace of its own a process has all capabilities, but only over objects of that
    /// namespace.
    #[must_use]
    pub fn is_effective(self) -> bool {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        self.is_in(&status)
    }

    fn is_in(self, status: &str) -> bool {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
        let has = |capability: Capability| set >> (capability as u32) & 1 == 1;
        has(self) || (self == Capability::Bpf && has(Capability::SysAdmin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_kernel_writes_them() {
        let status = |set: u64| format!("Name:\tx\nCapPrm:\t{:016x}\nCapEff:\t{set:016x}\n", u64::MAX);
        let all = [Capability::NetAdmin, Capability::NetRaw, Capability::SysAdmin, Capability::Bpf];
        for capability in all {
            assert!(capability.is_in(&status(1 << capability as u32)), "{capability:?}");
            assert!(!capability.is_in(&status(0)) && !capability.is_in(""), "{capability:?}");
        }
        assert!(Capability::Bpf.is_in(&status(1 << 21)) && !Capability::NetRaw.is_in(&status(1 << 21)));
    }
}
