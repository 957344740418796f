//! The facts that either side of a run finds, apart from its samples.

use hairpin_record::recorder::Recorder;
use hairpin_record::run::{FlowFacts, FlowGroup, Granted, Pcie, Side, TcpSide};
use hairpin_record::warning::Warning;

/// Facts of either side about its sockets and threads.
#[derive(Debug, Default)]
pub struct SideFound {
    /// TCP's counters, as totals, not yet per transaction.
    pub tcp: Option<TcpSide>,
    /// The queue and CPU on which the kernel delivered each flow.
    pub flow_facts: Vec<FlowFacts>,
    /// The same for more than [`MOST_FLOW_FACTS`](hairpin_record::run::MOST_FLOW_FACTS) flows: a count for each queue and CPU.
    pub flow_groups: Vec<FlowGroup>,
    /// Options requested, with the values granted.
    pub granted: Vec<Granted>,
    /// The CPUs of the threads.
    pub cpus: Vec<u32>,
    /// System calls other than send and receive.
    pub extra_calls: u64,
    /// Work of busy polling, if it was asked for and the kernel counts it.
    pub polled: Option<Polled>,
    /// Counters of the emulated NIC's driver on PCI Express.
    pub pcie: Option<Pcie>,
    pub warnings: Vec<Warning>,
}

/// The first reply of a group to each request, or all replies of one responder.
#[derive(Debug)]
pub struct OfReply {
    /// `first`, or the responder's address and port.
    pub reply: String,
    pub recorder: Recorder,
    /// Requests that were given up.
    pub lost: u64,
    /// Replies to requests that were given up.
    pub late: u64,
    pub duplicates: u64,
    /// Requests that should have had this reply.
    pub asked: u64,
}

/// Work of busy polling during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Packets that busy polling took from devices of this side's network namespace, for any process in it.
    pub packets: u64,
    /// This side's transactions, warm-up included, without lost requests. Each brings at least one packet.
    pub transactions: u64,
}

/// Records the value that the kernel granted for an option.
pub(crate) fn grant(found: &mut SideFound, side: Side, option: &str, asked: &str, got: String, why: String) {
    let granted = Granted { side, option: option.into(), asked: asked.into(), got, why };
    // Every flow makes the same requests; one entry is enough unless the answers differ.
    if !found.granted.contains(&granted) {
        found.granted.push(granted);
    }
}
