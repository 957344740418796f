//! Between device and stack: NAPI, interrupts, steering of packets to cores, qdisc, routes.

use super::{Control, Values};
use crate::change::Form;

pub(super) static CONTROLS: &[Control] = &[
    Control {
        name: "gro_flush_timeout_ns",
        mechanism: "With napi_defer_hard_irqs: how long packets may lie in the queue with the interrupt off before a timer takes them up.",
        effect: "Alone it adds up to its length to a round trip that no application polls for. With busy polling it keeps interrupts away from \
                    the thread that polls.",
        cost: "Latency for whoever does not poll.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/napi.rst",
        values: Values::Number(0, 1_000_000_000),
        latency: Some("0"),
        stake_ns: 10000,
        ..Control::PLAIN
    },
    Control {
        name: "napi_defer_hard_irqs",
        mechanism: "How many empty polls NAPI makes, each after gro_flush_timeout, before it switches the interrupt on again.",
        effect: "Above 0 an application that busy-polls is not interrupted; whoever blocks waits for the timer.",
        cost: "Latency for whoever does not poll.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/napi.rst",
        values: Values::Number(0, 2_147_483_647),
        latency: Some("0"),
        stake_ns: 10000,
        ..Control::PLAIN
    },
    Control {
        name: "irq_suspend_timeout_ns",
        mechanism: "How long the interrupts of a NAPI instance stay off at most while epoll busy-polls and finds packets.",
        effect: "Under load the application polls without interrupts, idle it is woken by them: the latency of polling, the power of interrupts.",
        cost: "Packets wait up to this long if the application stops polling.",
        needs: "CAP_NET_ADMIN, Linux 6.13, a device with NAPI instances, and an application with epoll busy polling.",
        reference: "Documentation/networking/napi.rst (IRQ suspension)",
        values: Values::Number(0, 1_000_000_000),
        ..Control::PLAIN
    },
    Control {
        name: "napi_threaded",
        mechanism: "NAPI polls in kernel threads of its own in place of softirqs.",
        effect: "The threads can be pinned and given a priority, away from the application's core; every packet then needs one more wake-up.",
        cost: "A wake-up per poll.",
        needs: "Root, and an interface with NAPI.",
        reference: "Documentation/networking/napi.rst (threaded)",
        values: Values::Number(0, 1),
        latency: Some("0"),
        stake_ns: 5000,
        ..Control::PLAIN
    },
    Control {
        name: "irq_affinity",
        mechanism: "Which CPUs the interrupts of the interface may go to.",
        effect: "The core that takes the interrupt runs the receive work: on the application's core it interrupts it, on its neighbour it shares \
                    the cache, on another node it is far.",
        cost: "None.",
        risk: "irqbalance, if it runs, changes it back: stop it first.",
        needs: "Root, and interrupts that the kernel lets be moved.",
        reference: "Documentation/core-api/irq/irq-affinity.rst",
        values: Values::Cpus,
        form: Form::CpuList,
        ..Control::PLAIN
    },
    Control {
        name: "rps_cpus",
        mechanism: "Receive work after the driver is spread over these CPUs by a hash of the flow; none is off.",
        effect: "On, each packet needs an interrupt to another core. For latency it is off, unless a device with a single queue has several busy \
                    flows.",
        cost: "An inter-processor interrupt per packet.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/scaling.rst",
        values: Values::CpusOrNone,
        form: Form::CpuMask,
        latency: Some("none"),
        stake_ns: 3000,
        ..Control::PLAIN
    },
    Control {
        name: "rps_flow_count",
        mechanism: "How many flows each receive queue may steer to the CPU of their reader (RFS); needs rps_sock_flow_entries too.",
        effect: "With several readers on several cores, the receive work happens where the reader is.",
        cost: "A table of this length per queue.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/scaling.rst",
        values: Values::Number(0, 1073741824),
        ..Control::PLAIN
    },
    Control {
        name: "xps_cpus",
        mechanism: "Which CPUs send through which transmit queue. The list is given to every queue.",
        effect: "A queue per core needs no lock between cores, and its completion comes back to the core that sent.",
        cost: "None.",
        needs: "Root, and an interface with more than one transmit queue.",
        reference: "Documentation/networking/scaling.rst",
        values: Values::CpusOrNone,
        form: Form::CpuMask,
        ..Control::PLAIN
    },
    Control {
        name: "combined_channels",
        mechanism: "How many queues the device uses that receive and send.",
        effect: "One queue per core that reads; with more than that, flows and interrupts wander.",
        cost: "Fewer: less for many flows at once.",
        risk: "Most drivers take the link down for a moment, and flows change their queue.",
        needs: "CAP_NET_ADMIN, and a device that can change it.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (channels)",
        values: Values::Number(1, 65535),
        safe: false,
        ..Control::PLAIN
    },
    Control {
        name: "qdisc",
        mechanism: "The queueing discipline at the interface's root. `default` is what the kernel puts there by itself.",
        effect: "`noqueue` and `pfifo_fast` do least for a packet; fq and fq_codel keep a bulk flow from holding up the others.",
        cost: "Another qdisc, another behaviour under load.",
        risk: "A packet that waits in the old one is lost. Refused where somebody has set one up, whose parameters would be lost.",
        needs: "CAP_NET_ADMIN, and a kernel with that qdisc.",
        reference: "tc(8)",
        values: Values::Word("a qdisc such as fq, pfifo_fast, noqueue, or default"),
        safe: false,
        ..Control::PLAIN
    },
    Control {
        name: "quickack_routes",
        mechanism: "Whether ACKs of connections over the interface's IPv4 routes are sent at once.",
        effect: "Where a sender waits for an ACK before its next segment (Nagle), the delayed ACK's 40 ms go.",
        cost: "One packet more per request: CPU time of both sides.",
        risk: "The routes are written anew: what another program changes in them at the same moment is lost.",
        needs: "CAP_NET_ADMIN, and routes in the main table.",
        reference: "ip-route(8) (quickack)",
        values: Values::OnOff,
        safe: false,
        ..Control::PLAIN
    },
];
