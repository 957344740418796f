//! Queues and rings of the device, and how packets are spread over queues and CPUs.

use hairpin_sys::device::Attribute;
use hairpin_sys::host::Host;
use serde_json::Value;

use crate::cpulist;
use crate::knob::{Control, Knob, Network, Scope, Write};
use crate::place::{Place, queues};
use crate::read::{Answer, Read};
use crate::reading::number;
use crate::values::Values;

pub(crate) static RX_QUEUES: Knob = Knob {
    name: "rx_queues",
    summary: "Receive queues of the interface",
    read: Read::By(|host, place| count(host, place, "rx-")),
    source: "The directories `/sys/class/net/<interface>/queues/rx-*`.",
    why: "With several queues a hash of addresses and ports decides which queue a flow arrives on, and with \
          it which core takes its interrupt.",
    look: "ls /sys/class/net/eth0/queues\nethtool -l eth0",
    ..Knob::FACT
};

pub(crate) static TX_QUEUES: Knob = Knob {
    name: "tx_queues",
    summary: "Transmit queues of the interface",
    read: Read::By(|host, place| count(host, place, "tx-")),
    source: "The directories `/sys/class/net/<interface>/queues/tx-*`.",
    why: "With a queue per core no sender waits for another's lock.",
    look: "ls /sys/class/net/eth0/queues\nethtool -l eth0",
    ..Knob::FACT
};

pub(crate) static RPS_CPUS: Knob = Knob {
    name: "rps_cpus",
    summary: "CPUs that share received packets in software (RPS)",
    read: Read::Queue { prefix: "rx-", file: "rps_cpus", parse: cpu_mask },
    source: "A mask, shown and recorded as a list of CPUs. One list if all queues agree, otherwise one per \
             queue.",
    why: "RPS passes received packets to the stack on another core: several cores share the load, and each \
          packet pays for an interrupt from core to core. An empty list is off.",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::CpusOrNone,
        write: Write::CPU_MASK,
        mechanism: "A hash of the flow spreads receive work after the driver over these CPUs; none is off. \
                    CPUs that the host lacks are refused.",
        effect: "On, each packet needs an interrupt to another core. For latency it is off, unless a device \
                 with a single queue has several busy flows.",
        cost: "An inter-processor interrupt per packet.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/scaling.rst",
        latency: Some("none"),
        stake_ns: 3000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RPS_FLOW_COUNT: Knob = Knob {
    name: "rps_flow_count",
    summary: "Flows that each receive queue may steer to the CPU of their reader",
    read: Read::Queue { prefix: "rx-", file: "rps_flow_cnt", parse: number },
    source: "One value if all queues agree, otherwise one per queue.",
    why: "With receive flow steering (RFS), a packet is processed on the core of its reader: its data is in \
          that core's cache, and the wake-up needs no interrupt to another core. It needs \
          `rps_sock_flow_entries` too.",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 1_073_741_824),
        mechanism: "The number of flows that each receive queue may steer to the CPU of their reader (RFS); \
                    needs rps_sock_flow_entries too.",
        effect: "With several readers on several cores, receive work runs where the reader is.",
        cost: "A table of this length per queue.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/scaling.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static XPS_CPUS: Knob = Knob {
    name: "xps_cpus",
    summary: "CPUs that send through each transmit queue",
    read: Read::Queue { prefix: "tx-", file: "xps_cpus", parse: cpu_mask },
    source: "A mask, recorded as a list of CPUs. One list if all queues agree, otherwise one per queue. Left \
             out for a single queue.",
    why: "A core with its own transmit queue shares neither lock nor completions with others.",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::CpusOrNone,
        write: Write::CPU_MASK,
        mechanism: "The CPUs that send through each transmit queue. Every queue gets the same list: it \
                    widens or narrows all queues at once.",
        effect: "The CPUs of the list send through any of the queues, chosen by the flow's hash. It \
                 gives no core a queue of its own.",
        cost: "None.",
        needs: "Root, and an interface with more than one transmit queue.",
        reference: "Documentation/networking/scaling.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static COMBINED_CHANNELS: Knob = Knob {
    name: "combined_channels",
    summary: "Queues of the device that both receive and send",
    read: Read::Device(Attribute::CombinedChannels, Answer::Number),
    source: "The device's answer to `ETHTOOL_GCHANNELS` (SIOCETHTOOL, ethtool(8)). Left out where the device \
             has no such queues.",
    why: "Each queue has an interrupt and a core. With more queues than readers, flows land on sleeping \
          cores.",
    look: "ethtool -l eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(1, 65_535),
        mechanism: "The number of queues of the device that both receive and send. It is set before other settings, whose \
                    queues and interrupts are looked for after it, and put back after them.",
        effect: "One queue per reading core; with more, flows and interrupts move between cores.",
        cost: "Fewer: less throughput for many flows at once.",
        risk: "Most drivers take the link down for a moment, and flows change their queue.",
        needs: "CAP_NET_ADMIN, and a device that can change it.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (channels)",
        remakes_interrupts: true,
        safe: false,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RX_RING_ENTRIES: Knob = Knob {
    name: "rx_ring_entries",
    summary: "Descriptors of each receive queue",
    read: Read::Device(Attribute::RxRing, Answer::Number),
    source: "The device's answer to `ETHTOOL_GRINGPARAM` (SIOCETHTOOL, ethtool(8)). Left out where the \
             driver does not answer.",
    why: "More descriptors survive longer bursts without loss, but their buffers no longer fit in the cache \
          that the device writes to.",
    look: "ethtool -g eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(1, 1_048_576),
        mechanism: "Descriptors of each receive queue: the number of packets that may wait for the kernel.",
        effect: "Fewer stay in the cache and hold no long queue; more lose fewer packets in a burst.",
        cost: "Fewer: losses in bursts. More: memory, and longer queues.",
        risk: "Most drivers take the link down for a moment: connections stall, some drivers lose the link \
               for seconds.",
        needs: "CAP_NET_ADMIN, and a device that has rings.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (rings)",
        safe: false,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static TX_RING_ENTRIES: Knob = Knob {
    name: "tx_ring_entries",
    summary: "Descriptors of each transmit queue",
    read: Read::Device(Attribute::TxRing, Answer::Number),
    source: "The device's answer to `ETHTOOL_GRINGPARAM` (SIOCETHTOOL, ethtool(8)). Left out where the \
             driver does not answer.",
    why: "A long ring is a queue that the queueing discipline does not see: under load packets wait in it.",
    look: "ethtool -g eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(1, 1_048_576),
        mechanism: "Descriptors of each transmit queue: the number of packets that may wait for the device.",
        effect: "Fewer bound the time that a packet can wait behind others.",
        cost: "Fewer: the qdisc has to hold more.",
        risk: "Most drivers take the link down for a moment.",
        needs: "CAP_NET_ADMIN, and a device that has rings.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (rings)",
        safe: false,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

/// The number of queues in one direction.
fn count(host: &dyn Host, place: &Place<'_>, prefix: &str) -> Result<Option<Value>, String> {
    Ok(queues(host, place, prefix)?.map(|names| names.len().into()))
}

/// A mask of CPUs as a list.
fn cpu_mask(mask: &str) -> Result<Option<Value>, String> {
    cpulist::parse_mask(mask).map(|cpus| Some(cpulist::format(&cpus).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;
    use hairpin_sys::host::FakeHost;
    use serde_json::json;

    #[test]
    fn shows_one_value_per_queue_where_queues_differ() {
        const ETH0: Place<'_> = Place { cpus: &[], interface: Some("eth0") };
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with("/sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n")
            .with("/sys/class/net/eth0/queues/tx-0/xps_cpus", "00000001,00000001\n")
            .with("/sys/class/net/eth0/queues/tx-1/xps_cpus", "00000000,00000006\n");
        assert_eq!(RPS_CPUS.read(&host, &ETH0), Reading::Is("".into()));
        assert_eq!(XPS_CPUS.read(&host, &ETH0), Reading::Is(json!({"tx-0": "0,32", "tx-1": "1-2"})));
    }
}
