//! Time that the cores spent in idle states with an exit latency.

use hairpin_sys::host::Host;

use crate::place::{Place, cpu_directory, cpus_or_online};
use crate::reading::parse_number;

/// The sum over all online cores, in ns since boot; `None` if the kernel does not count it.
///
/// `latency` and `time` of each state below `/sys/devices/system/cpu/cpu*/cpuidle` are in us (the kernel's
/// Documentation/admin-guide/pm/cpuidle.rst). A polling state has a latency of 0 and does not count.
#[must_use]
pub fn deep_ns(host: &dyn Host) -> Option<u64> {
    let mut total = None;
    for cpu in cores(host) {
        let directory = format!("{}/cpuidle", cpu_directory(cpu));
        for state in host.list(&directory).unwrap_or_default() {
            let read = |file: &str| parse_number(&host.read(&format!("{directory}/{state}/{file}")).ok()?).ok();
            if let Some((latency, us)) = read("latency").zip(read("time"))
                && latency > 0
            {
                total = Some(total.unwrap_or(0) + u64::try_from(us).unwrap_or(0) * 1_000);
            }
        }
    }
    total
}

/// The online cores.
#[must_use]
pub fn cores(host: &dyn Host) -> Vec<u32> {
    cpus_or_online(host, &Place::default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::host::FakeHost;

    #[test]
    fn polling_states_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let mut host = FakeHost::at(directory.path()).with("/sys/devices/system/cpu/online", "0-1\n");
        for (cpu, state, latency, time) in [(0, 0, 0, 900), (0, 1, 1, 40), (1, 0, 0, 900), (1, 1, 1, 2)] {
            let at = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            host = host.with(&format!("{at}/latency"), format!("{latency}\n")).with(&format!("{at}/time"), format!("{time}\n"));
        }
        assert_eq!(deep_ns(&host), Some(42_000));
        let none = tempfile::tempdir().unwrap();
        assert_eq!(deep_ns(&FakeHost::at(none.path()).with("/sys/devices/system/cpu/online", "0\n")), None);
    }
}
