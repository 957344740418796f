//! A library in the place of the kernel's sockets in this process: its facts, and what the kernel received meanwhile.
//!
//! ```text
//!   the loop starts ─ Watch::begin ─ /proc/thread-self/net/{snmp,snmp6} ─▶ … ─▶ Watch::end, the difference beside the messages received
//! ```

use std::io;
use std::path::Path;

use hairpin_plan::path::Speaks;
use hairpin_plan::spec::SideSpec;
use hairpin_record::stack::{Counter, Passed, Stack};
use hairpin_sys::host::Host;
use hairpin_sys::stack::{self, InPlace};

use crate::message::StackFound;

/// Whether the library `wanted` is in force in this process.
pub(super) fn found(wanted: &str) -> StackFound {
    let name = Path::new(wanted).file_name().unwrap_or_default();
    let real = std::fs::canonicalize(wanted).ok();
    let provider = stack::in_place();
    let is_wanted = |found: &&InPlace| found.found_as.file_name() == Some(name) || Some(&found.file) == real.as_ref();
    StackFound {
        in_place: provider.as_ref().is_some_and(is_wanted),
        provider: provider.map(|found| found.file.display().to_string()),
        mapped: stack::is_mapped(real.as_ref().and_then(|real| real.file_name()).unwrap_or(name)),
        secure: stack::is_secure(),
    }
}

/// The kernel's counter at the start of a loop.
pub(super) struct Watch {
    library: &'static InPlace,
    counter: Counter,
    from: io::Result<u64>,
    /// Others use this network namespace too.
    shared: bool,
}

impl Watch {
    /// Begins to count; `None` if the kernel's own sockets carry the messages of this path.
    pub(super) fn begin(host: &impl Host, spec: &SideSpec, shared: bool) -> Option<Watch> {
        if !spec.path.takes_stack {
            return None;
        }
        let counter = match spec.path.speaks {
            Speaks::Udp => Counter::UdpInDatagrams,
            Speaks::Tcp | Speaks::TcpPerTransaction => Counter::TcpInSegs,
            Speaks::Raw(_) | Speaks::Local(_) => return None,
        };
        Some(Watch { library: stack::in_place()?, counter, from: read(host, counter), shared })
    }

    /// The library, with the counts since the beginning; `received` messages came to this side meanwhile.
    pub(super) fn end(self, host: &impl Host, received: u64) -> Stack {
        let Watch { library, counter, from, shared } = self;
        let count = from.and_then(|from| Ok(read(host, counter)?.saturating_sub(from)));
        let prefix = library.prefix();
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(&prefix))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Stack {
            name: library.name(),
            library: library.file.display().to_string(),
            version: library.version.clone(),
            variables: variables.collect(),
            received,
            kernel: count.ok().map(|count| Passed { counter, count, shared }),
        }
    }
}

/// The counter of the calling thread's network namespace.
fn read(host: &impl Host, counter: Counter) -> io::Result<u64> {
    let missing = |name| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/thread-self/net has no {name}"));
    let both = host.read("/proc/thread-self/net/snmp")?;
    match counter {
        Counter::TcpInSegs => of_table(&both, "Tcp:", "InSegs").ok_or_else(|| missing("Tcp InSegs")),
        Counter::UdpInDatagrams => {
            let four = of_table(&both, "Udp:", "InDatagrams").ok_or_else(|| missing("Udp InDatagrams"))?;
            // A kernel without IPv6 has no such file.
            let six = host.read("/proc/thread-self/net/snmp6").unwrap_or_default();
            Ok(four + of_list(&six, "Udp6InDatagrams").unwrap_or(0))
        }
    }
}

/// A value of /proc/net/snmp: a line with the names, then one with their values.
fn of_table(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)).map(str::split_whitespace);
    let (names, values) = (lines.next()?, lines.next()?);
    names.zip(values).find(|(known, _)| *known == name)?.1.parse().ok()
}

/// A value of /proc/net/snmp6: a line each.
fn of_list(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .map(str::split_whitespace)
        .find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use hairpin_sys::host::{FakeHost, RealHost};

    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoMin InSegs OutSegs\nTcp: 200 4711 4800\nUdp: InDatagrams NoPorts\nUdp: 1000 7\nUdpLite: InDatagrams NoPorts\nUdpLite: 9 9\n";

    #[test]
    fn the_kernels_counters_of_both_families() {
        let dir = tempfile::tempdir().unwrap();
        let host = FakeHost::at(dir.path()).with("/proc/thread-self/net/snmp", SNMP);
        assert_eq!(read(&host, Counter::TcpInSegs).unwrap(), 4711);
        assert_eq!(read(&host, Counter::UdpInDatagrams).unwrap(), 1000, "without IPv6");
        let host =
            host.with("/proc/thread-self/net/snmp6", "Ip6InReceives   \t5\nUdp6InDatagrams \t30\nUdpLite6InDatagrams \t8\n");
        assert_eq!(read(&host, Counter::UdpInDatagrams).unwrap(), 1030);
        let host = host.with("/proc/thread-self/net/snmp", "Udp: NoPorts\nUdp: 7\n");
        assert!(read(&host, Counter::UdpInDatagrams).unwrap_err().to_string().contains("Udp InDatagrams"));
        assert!(read(&host, Counter::TcpInSegs).is_err());
    }

    #[test]
    fn the_kernel_has_these_counters() {
        for counter in [Counter::TcpInSegs, Counter::UdpInDatagrams] {
            read(&RealHost, counter).unwrap();
        }
    }

    #[test]
    fn without_a_library_nothing_is_watched() {
        let spec: hairpin_plan::spec::Spec = "udp".parse().unwrap();
        assert!(Watch::begin(&RealHost, &spec.client, false).is_none());
        assert_eq!(found("/usr/lib/libnot-here.so"), StackFound::default());
    }
}
