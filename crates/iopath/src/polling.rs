//! Finds out whether the kernel polled the device for a side's flows as the side had asked, from the flows' NAPI ids and from the
//! kernel's own count.
//!
//! ```text
//!   SO_INCOMING_NAPI_ID    a reply came through a queue that can be polled
//!   BusyPollRxPackets      packets that busy polling took in this network namespace, against the transactions of the same time
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use hairpin_plan::spec::SideSpec;
use hairpin_record::run::{FlowFacts, FlowGroup, MOST_FLOW_FACTS, Side};
use hairpin_record::warning::Warning;
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::socket;

use crate::error::counted;
use crate::found::{Polled, SideFound, grant};

/// The kernel's count at the start of a run.
pub(crate) struct Polling(u64);

impl Polling {
    /// Begins to count, if the side asks for polling and the kernel counts.
    pub(crate) fn begin(spec: &SideSpec) -> Option<Polling> {
        spec.device_polling_usecs().and_then(|_| busy_polled_packets()).map(Polling)
    }

    pub(crate) fn end(self, transactions: u64) -> Option<Polled> {
        busy_polled_packets().map(|now| Polled { packets: now.saturating_sub(self.0), transactions })
    }
}

/// Packets that busy polling took from devices in this network namespace, since it was made (`BusyPollRxPackets`); `None` if the
/// kernel does not count.
fn busy_polled_packets() -> Option<u64> {
    packets_in(&RealHost.read("/proc/self/net/netstat").ok()?)
}

fn packets_in(text: &str) -> Option<u64> {
    // Pairs of lines: names, then their values, both after the name of the group.
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        if let Some(at) = names.split_whitespace().position(|name| name == "BusyPollRxPackets") {
            return values.split_whitespace().nth(at)?.parse().ok();
        }
    }
    None
}

/// Records where the kernel delivered the client's flows, on which replies arrive, and whether busy polling was in force. Runs
/// after the loop.
#[cold]
pub(crate) fn note_queues(flows: &[OwnedFd], spec: &SideSpec, side: Side, found: &mut SideFound) {
    let mut can_poll = true;
    let mut groups = BTreeMap::new();
    for (flow, fd) in flows.iter().enumerate() {
        let napi_id = socket::napi_id(fd);
        let incoming_cpu = socket::get(fd, socket::SO_INCOMING_CPU).ok().and_then(|cpu| u32::try_from(cpu).ok());
        let local_port =
            rustix::net::getsockname(fd).ok().and_then(|any| SocketAddr::try_from(any).ok()).map_or(0, |at| at.port());
        can_poll &= napi_id.is_some();
        match side {
            Side::Server => {}
            Side::Client if flows.len() <= MOST_FLOW_FACTS => {
                found.flow_facts.push(FlowFacts { flow: flow as u32, local_port, napi_id, incoming_cpu });
            }
            Side::Client => *groups.entry((napi_id, incoming_cpu)).or_insert(0) += 1,
        }
    }
    let group = |((napi_id, incoming_cpu), flows)| FlowGroup { flows, napi_id, incoming_cpu };
    found.flow_groups.extend(groups.into_iter().map(group));
    if let Some(usecs) = spec.device_polling_usecs() {
        note_polling(usecs, can_poll, side, found);
    }
}

fn note_polling(usecs: u32, can_poll: bool, side: Side, found: &mut SideFound) {
    let asked = format!("{usecs} us");
    let not = || "asked, not in force".to_owned();
    let (got, why) = match found.polled {
        _ if !can_poll => {
            found.warnings.push(Warning::BusyPollNotInForce { side });
            (not(), "replies carry no NAPI id: the device polls nothing".into())
        }
        Some(Polled { packets, transactions }) if 2 * packets < transactions => {
            found.warnings.push(Warning::BusyPollInVain { side, packets, transactions });
            let transactions = counted(transactions, "transaction");
            (not(), format!("in {transactions} busy polling took less than half of the packets: {packets} (BusyPollRxPackets)"))
        }
        _ => (asked.clone(), String::new()),
    };
    grant(found, side, "busy-poll", &asked, got, why);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_busy_polling_took_are_counted_by_the_kernel() {
        assert_eq!(packets_in("TcpExt: SyncookiesSent BusyPollRxPackets\nTcpExt: 3 41\nIpExt: InOctets\nIpExt: 5\n"), Some(41));
        assert_eq!(packets_in("IpExt: InOctets\nIpExt: 5\nTcpExt: BusyPollRxPackets\nTcpExt: 7\n"), Some(7));
        for without in ["TcpExt: SyncookiesSent\nTcpExt: 3\n", "TcpExt: BusyPollRxPackets\nTcpExt:\n", ""] {
            assert_eq!(packets_in(without), None, "{without:?}");
        }
    }

    /// The grant's `got`, and the code of the warning or nothing.
    fn noted(can_poll: bool, polled: Option<(u64, u64)>) -> (String, String) {
        let polled = polled.map(|(packets, transactions)| Polled { packets, transactions });
        let mut found = SideFound { polled, ..SideFound::default() };
        note_polling(50, can_poll, Side::Client, &mut found);
        let codes: Vec<&str> = found.warnings.iter().map(Warning::code).collect();
        (found.granted[0].got.clone(), codes.join(" "))
    }

    #[test]
    fn polling_is_in_force_where_its_packets_are_those_of_the_transactions() {
        for polled in [None, Some((1000, 1000)), Some((2000, 1000)), Some((500, 1000)), Some((0, 0))] {
            assert_eq!(noted(true, polled), ("50 us".into(), String::new()), "{polled:?}");
        }
        let not = |code: &str| ("asked, not in force".to_owned(), code.to_owned());
        for polled in [Some((499, 1000)), Some((0, 1))] {
            assert_eq!(noted(true, polled), not("busy-poll-in-vain"), "{polled:?}");
        }
        for polled in [None, Some((1000, 1000))] {
            assert_eq!(noted(false, polled), not("busy-poll-not-in-force"), "{polled:?}");
        }
    }
}
