//! The network stack below TCP.

use super::{Control, Values};

pub(super) static CONTROLS: &[Control] = &[
    Control {
        name: "busy_poll_us",
        mechanism: "How long poll, select and epoll look into the device's queue themselves before they sleep.",
        effect: "The receiving thread finds the packet without interrupt and wake-up: several us less, if the device has a NAPI id; loopback and \
                    plain veth have none.",
        cost: "The thread spins: CPU time while it waits.",
        needs: "Root, the initial network namespace, and a device whose driver can be polled.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(0, 1000000),
        power: Some("0"),
        stake_ns: 8000,
        ..Control::PLAIN
    },
    Control {
        name: "busy_read_us",
        mechanism: "How long a receive looks into the device's queue itself before it sleeps, where the socket does not say (SO_BUSY_POLL).",
        effect: "As busy_poll_us, for blocking receives.",
        cost: "As busy_poll_us.",
        needs: "As busy_poll_us.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(0, 1000000),
        power: Some("0"),
        stake_ns: 8000,
        ..Control::PLAIN
    },
    Control {
        name: "netdev_budget",
        mechanism: "Packets that one round of the receive softirq takes before it gives way.",
        effect: "Fewer let other softirqs and ksoftirqd in sooner; more empty a long queue in one go. No effect on single packets.",
        cost: "Fewer: drops under load.",
        needs: "Root and the initial network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(1, 1000000),
        ..Control::PLAIN
    },
    Control {
        name: "netdev_budget_usecs",
        mechanism: "How long one round of the receive softirq may take.",
        effect: "As netdev_budget.",
        cost: "As netdev_budget.",
        needs: "Root and the initial network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(1, 10000000),
        ..Control::PLAIN
    },
    Control {
        name: "gro_normal_batch",
        mechanism: "Packets that GRO gathers before it hands them up.",
        effect: "1 hands each up at once; it matters within one poll only.",
        cost: "More calls up the stack per packet.",
        needs: "Root and the initial network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(1, 2_147_483_647),
        ..Control::PLAIN
    },
    Control {
        name: "rps_sock_flow_entries",
        mechanism: "How many flows RFS remembers with the CPU of their reader; 0 is off. rps_flow_count turns it on per queue.",
        effect: "As rps_flow_count.",
        cost: "Memory for the table.",
        needs: "Root and the initial network namespace.",
        reference: "Documentation/networking/scaling.rst",
        values: Values::Number(0, 536870912),
        ..Control::PLAIN
    },
    Control {
        name: "rmem_default_bytes",
        mechanism: "Receive buffer of a socket that does not ask.",
        effect: "None for one request in flight. A larger one loses fewer datagrams in a burst.",
        cost: "Memory.",
        needs: "Root; in newer kernels any network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(2304, 2_147_483_647),
        ..Control::PLAIN
    },
    Control {
        name: "rmem_max_bytes",
        mechanism: "The largest receive buffer that a socket may ask for.",
        effect: "None by itself.",
        cost: "Memory.",
        needs: "Root; in newer kernels any network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(2304, 2_147_483_647),
        ..Control::PLAIN
    },
    Control {
        name: "wmem_default_bytes",
        mechanism: "Send buffer of a socket that does not ask.",
        effect: "None for one request in flight. A smaller one bounds what waits before a packet.",
        cost: "Memory.",
        needs: "Root; in newer kernels any network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(4608, 2_147_483_647),
        ..Control::PLAIN
    },
    Control {
        name: "wmem_max_bytes",
        mechanism: "The largest send buffer that a socket may ask for.",
        effect: "None by itself.",
        cost: "Memory.",
        needs: "Root; in newer kernels any network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        values: Values::Number(4608, 2_147_483_647),
        ..Control::PLAIN
    },
];
