//! The network stack below TCP.
//!
//! Under /proc/sys/net a thread sees the values of its own network namespace. A few exist in the initial namespace only and are
//! absent elsewhere.

use crate::knob::{Control, Knob, Network};
use crate::read::Read;
use crate::reading::{number, numbers, text};
use crate::values::Values;

const PER_NAMESPACE: &str = "The value is that of the network namespace that carries the traffic.";

pub(crate) static BUSY_POLL: Knob = Knob {
    name: "busy_poll_us",
    summary: "How long poll and select poll the device's queue before they sleep",
    read: Read::Host("/proc/sys/net/core/busy_poll", number),
    source: "Only in the initial network namespace; left out elsewhere.",
    why: "Without an interrupt, a packet is found as soon as it is in the ring. It works only on devices \
          whose queues have a NAPI id, and it costs a core.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(0, 1_000_000),
        mechanism: "How long poll, select and epoll poll the device's queue themselves before they sleep.",
        effect: "The receiving thread finds the packet without interrupt and wake-up: several us less, if \
                 the device has a NAPI id; loopback and plain veth have none.",
        cost: "CPU time: the thread spins while it waits.",
        needs: "Root, the initial network namespace, and a device whose driver can be polled.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        power: Some("0"),
        stake_ns: 8000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static BUSY_READ: Knob = Knob {
    name: "busy_read_us",
    summary: "How long a receive polls the device's queue before it sleeps, unless the socket says otherwise",
    read: Read::Host("/proc/sys/net/core/busy_read", number),
    source: "Only in the initial network namespace; left out elsewhere.",
    why: "As `busy_poll_us`, for a blocking receive. A socket's SO_BUSY_POLL overrides it.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(0, 1_000_000),
        mechanism: "How long a receive polls the device's queue itself before it sleeps, unless the socket \
                    says otherwise (SO_BUSY_POLL).",
        effect: "As busy_poll_us, for blocking receives.",
        cost: "As busy_poll_us.",
        needs: "As busy_poll_us.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        power: Some("0"),
        stake_ns: 8000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RMEM_DEFAULT: Knob = Knob {
    name: "rmem_default_bytes",
    summary: "Default receive buffer of a socket",
    read: Read::Host("/proc/sys/net/core/rmem_default", number),
    why: "It bounds how much may wait in a socket. It affects a round trip only where many requests are \
          outstanding: too small and datagrams are dropped, too large and they queue unnoticed.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(2304, 2_147_483_647),
        mechanism: "Receive buffer of a socket that sets none.",
        effect: "None for one request in flight. A larger buffer loses fewer datagrams in a burst.",
        cost: "Memory.",
        needs: "Root; in newer kernels any network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RMEM_MAX: Knob = Knob {
    name: "rmem_max_bytes",
    summary: "The largest receive buffer that a socket may ask for",
    read: Read::Host("/proc/sys/net/core/rmem_max", number),
    why: "A `rcvbuf` above it is reduced without an error; the record shows the granted size.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(2304, 2_147_483_647),
        mechanism: "The largest receive buffer that a socket may ask for.",
        effect: "None by itself.",
        cost: "Memory.",
        needs: "Root; in newer kernels any network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static WMEM_DEFAULT: Knob = Knob {
    name: "wmem_default_bytes",
    summary: "Default send buffer of a socket",
    read: Read::Host("/proc/sys/net/core/wmem_default", number),
    why: "It bounds how much of a UDP socket may be on its way to the device; once it is full, a send blocks \
          or is refused.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(4608, 2_147_483_647),
        mechanism: "Send buffer of a socket that sets none.",
        effect: "None for one request in flight. A smaller buffer bounds the queue in front of a packet.",
        cost: "Memory.",
        needs: "Root; in newer kernels any network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static WMEM_MAX: Knob = Knob {
    name: "wmem_max_bytes",
    summary: "The largest send buffer that a socket may ask for",
    read: Read::Host("/proc/sys/net/core/wmem_max", number),
    why: "A `sndbuf` above it is reduced without an error; the record shows the granted size.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(4608, 2_147_483_647),
        mechanism: "The largest send buffer that a socket may ask for.",
        effect: "None by itself.",
        cost: "Memory.",
        needs: "Root; in newer kernels any network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static NETDEV_BUDGET: Knob = Knob {
    name: "netdev_budget",
    summary: "Packets that one round of the receive softirq handles, over all devices",
    read: Read::Host("/proc/sys/net/core/netdev_budget", number),
    why: "When a round of the receive softirq reaches its budget, the rest waits for the next round, perhaps \
          in the thread `ksoftirqd`, behind other threads. It shows under load, not with one packet in \
          flight.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(1, 1_000_000),
        mechanism: "Packets that one round of the receive softirq handles before it yields.",
        effect: "A smaller budget lets other softirqs and ksoftirqd run sooner; a larger one empties a long \
                 queue in one go. No effect on single packets.",
        cost: "Smaller: drops under load.",
        needs: "Root and the initial network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static NETDEV_BUDGET_USECS: Knob = Knob {
    name: "netdev_budget_usecs",
    summary: "How long one round of the receive softirq may take",
    read: Read::Host("/proc/sys/net/core/netdev_budget_usecs", number),
    why: "The same bound in time: a longer round delays other work on that core, a shorter one leaves \
          packets to `ksoftirqd` sooner.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(1, 10_000_000),
        mechanism: "How long one round of the receive softirq may take.",
        effect: "As netdev_budget.",
        cost: "As netdev_budget.",
        needs: "Root and the initial network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static GRO_NORMAL_BATCH: Knob = Knob {
    name: "gro_normal_batch",
    summary: "Packets that GRO collects before it passes them up the stack",
    read: Read::Host("/proc/sys/net/core/gro_normal_batch", number),
    why: "A burst goes up the stack in such batches. The first packet of a batch waits for its last, at most \
          until the poll ends.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(1, 2_147_483_647),
        mechanism: "Packets that GRO collects before it passes them up the stack.",
        effect: "1 passes each packet up at once; it matters within one poll only.",
        cost: "More calls up the stack per packet.",
        needs: "Root and the initial network namespace.",
        reference: "Documentation/admin-guide/sysctl/net.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RPS_SOCK_FLOW_ENTRIES: Knob = Knob {
    name: "rps_sock_flow_entries",
    summary: "Flows that RFS steers to the CPU of their reader; 0 is off",
    read: Read::Host("/proc/sys/net/core/rps_sock_flow_entries", number),
    why: "With RFS a packet is processed on the core where its reader last ran: warm caches, but one more \
          interrupt from core to core.",
    change: Some(Control {
        network: Network::Shared,
        values: Values::Number(0, 536_870_912),
        mechanism: "The number of flows whose reader's CPU RFS remembers; 0 is off. rps_flow_count turns it \
                    on per queue.",
        effect: "As rps_flow_count.",
        cost: "Memory for the table.",
        needs: "Root and the initial network namespace.",
        reference: "Documentation/networking/scaling.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static DEFAULT_QDISC: Knob = Knob {
    name: "default_qdisc",
    summary: "The queueing discipline of a new interface",
    read: Read::Host("/proc/sys/net/core/default_qdisc", text),
    why: "Every packet passes its interface's queueing discipline. `noqueue` (loopback, veth) costs nothing, \
          `pfifo_fast` and `fq_codel` some tens of nanoseconds; `fq` also paces TCP.",
    ..Knob::FACT
};

pub(crate) static SOMAXCONN: Knob = Knob {
    name: "somaxconn",
    summary: "The longest queue of connections waiting to be accepted",
    read: Read::Host("/proc/sys/net/core/somaxconn", number),
    source: PER_NAMESPACE,
    why: "If connections arrive faster than they are accepted (`tcp-crr`), those beyond the queue are \
          dropped and their SYN is sent again a second later.",
    ..Knob::FACT
};

pub(crate) static LOCAL_PORT_RANGE: Knob = Knob {
    name: "ip_local_port_range",
    summary: "First and last port that the kernel assigns to a connection",
    read: Read::Host("/proc/sys/net/ipv4/ip_local_port_range", numbers),
    source: PER_NAMESPACE,
    why: "Ports in TIME_WAIT stay occupied for 60 s. With `tcp-crr` a small range runs out, and connecting \
          gets slow long before it fails.",
    ..Knob::FACT
};
