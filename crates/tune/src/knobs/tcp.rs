//! TCP. A thread sees the values of its own network namespace; they hold for IPv6 as well.

use crate::knob::{Control, Knob, Network};
use crate::read::Read;
use crate::reading::{number, numbers, text};
use crate::values::Values;

const PER_NAMESPACE: &str = "The value is that of the network namespace that carries the traffic.";

pub(crate) static CONGESTION_CONTROL: Knob = Knob {
    name: "tcp_congestion_control",
    summary: "The default congestion control",
    read: Read::Host("/proc/sys/net/ipv4/tcp_congestion_control", text),
    source: PER_NAMESPACE,
    why: "With a single small request in flight the window never limits, but `bbr` paces packets through a \
          timer, which delays them.",
    change: Some(Control {
        network: Network::Own,
        values: Values::Word("one of net.ipv4.tcp_available_congestion_control, such as cubic"),
        mechanism: "How new connections decide how much may be in flight.",
        effect: "None for requests within the first window. Under bulk traffic it decides how long queues \
                 along the path get.",
        cost: "Depends on the algorithm.",
        risk: "Only new connections change.",
        needs: "CAP_NET_ADMIN in the network namespace. The algorithm must be built in or loaded.",
        reference: "Documentation/networking/ip-sysctl.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static TIMESTAMPS: Knob = Knob {
    name: "tcp_timestamps",
    summary: "Whether segments carry timestamps, 12 bytes each",
    read: Read::Host("/proc/sys/net/ipv4/tcp_timestamps", number),
    source: PER_NAMESPACE,
    why: "12 bytes per segment: the MSS falls from 1460 to 1448 on Ethernet, so a payload of 1460 bytes \
          takes one segment without timestamps and two with them.",
    change: Some(Control {
        network: Network::Own,
        values: Values::Number(0, 2),
        mechanism: "Every segment carries two timestamps: 12 bytes more.",
        effect: "Off, segments are 12 bytes shorter, and a payload of 1460 bytes fits in one.",
        cost: "No protection against wrapped sequence numbers at high rates, and a coarser RTT estimate.",
        risk: "Connections through address translation may fail. Only new connections change.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static SACK: Knob = Knob {
    name: "tcp_sack",
    summary: "Whether the receiver reports segments that arrived after a gap",
    read: Read::Host("/proc/sys/net/ipv4/tcp_sack", number),
    source: PER_NAMESPACE,
    why: "With loss, SACK lets the sender repeat only the missing segments, without waiting for a timeout. \
          Without loss it has no effect.",
    change: Some(Control {
        network: Network::Own,
        values: Values::Flag,
        mechanism: "The receiver reports which segments arrived after a gap.",
        effect: "None without losses.",
        cost: "Off: slower recovery from losses.",
        risk: "Only new connections change.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        throughput: Some("on"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static AUTOCORKING: Knob = Knob {
    name: "tcp_autocorking",
    summary: "Whether small sends wait for an earlier packet still in the device's queue",
    read: Read::Host("/proc/sys/net/ipv4/tcp_autocorking", number),
    source: PER_NAMESPACE,
    why: "A small send may be held back, to be joined with the next, while an earlier packet is still in the \
          device's queue. With several requests outstanding the first of them waits.",
    change: Some(Control {
        network: Network::Own,
        values: Values::Flag,
        mechanism: "A small send waits while an earlier packet of the flow is still in the qdisc or the \
                    device, to be joined with the next send.",
        effect: "Off, each send goes out at once. It matters where a request is written in several pieces, \
                 or several requests are in flight.",
        cost: "More small packets.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        latency: Some("off"),
        throughput: Some("on"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static SLOW_START_AFTER_IDLE: Knob = Knob {
    name: "tcp_slow_start_after_idle",
    summary: "Whether the congestion window shrinks while a connection is idle",
    read: Read::Host("/proc/sys/net/ipv4/tcp_slow_start_after_idle", number),
    source: PER_NAMESPACE,
    why: "After a pause longer than the retransmission timeout the window is small again: a paced run with \
          large messages pays extra round trips for each.",
    change: Some(Control {
        network: Network::Own,
        values: Values::Flag,
        mechanism: "After an idle period the congestion window of a connection starts again at its initial \
                    size.",
        effect: "Off, a long reply after a pause goes out in one go and not over several RTTs. No effect on \
                 replies within ten segments.",
        cost: "A burst into a network that may have changed in the meantime.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        latency: Some("off"),
        throughput: Some("off"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static LOW_LATENCY: Knob = Knob {
    name: "tcp_low_latency",
    summary: "Whether TCP prefers latency to throughput; without effect since Linux 4.14",
    read: Read::Host("/proc/sys/net/ipv4/tcp_low_latency", number),
    source: PER_NAMESPACE,
    why: "It once disabled the prequeue. Linux 4.14 removed the prequeue, so the setting has no effect; it \
          is recorded because old tuning guides set it.",
    ..Knob::FACT
};

pub(crate) static PINGPONG_THRESH: Knob = Knob {
    name: "tcp_pingpong_thresh",
    summary: "Replies after which a connection counts as interactive and delays its ACKs",
    read: Read::Host("/proc/sys/net/ipv4/tcp_pingpong_thresh", number),
    source: "Left out by older kernels.",
    why: "A connection that has sent this many replies counts as interactive. It then delays its ACKs, so \
          that the reply carries them: one segment per side and transaction instead of two.",
    change: Some(Control {
        network: Network::Own,
        values: Values::Number(1, 255),
        mechanism: "After N replies a connection counts as interactive, and its ACKs travel with its \
                    replies.",
        effect: "Higher: the first requests of a connection are acknowledged at once, which helps a sender \
                 that waits for the ACK (Nagle).",
        cost: "Bare ACKs.",
        needs: "CAP_NET_ADMIN in the network namespace. Linux 6.7 or later.",
        reference: "Documentation/networking/ip-sysctl.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RMEM: Knob = Knob {
    name: "tcp_rmem_bytes",
    summary: "Receive buffer of a TCP connection: minimum, initial, maximum",
    read: Read::Host("/proc/sys/net/ipv4/tcp_rmem", numbers),
    source: PER_NAMESPACE,
    why: "The initial value bounds how much a peer may send before the first window update, the maximum how \
          far the window may grow. It matters where a message is larger than the window.",
    change: Some(Control {
        network: Network::Own,
        values: Values::Numbers(3),
        mechanism: "Receive buffer of a connection: minimum, initial, maximum.",
        effect: "None for one request in flight.",
        cost: "Memory.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static WMEM: Knob = Knob {
    name: "tcp_wmem_bytes",
    summary: "Send buffer of a TCP connection: minimum, initial, maximum",
    read: Read::Host("/proc/sys/net/ipv4/tcp_wmem", numbers),
    source: PER_NAMESPACE,
    why: "A send larger than the free buffer blocks until ACKs come back. A connection starts with the \
          initial value.",
    change: Some(Control {
        network: Network::Own,
        values: Values::Numbers(3),
        mechanism: "Send buffer of a connection: minimum, initial, maximum.",
        effect: "None for one request in flight. A smaller buffer bounds the queue in front of a request of \
                 the same connection.",
        cost: "Memory.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static TW_REUSE: Knob = Knob {
    name: "tcp_tw_reuse",
    summary: "Whether a new connection may reuse the ports of one in TIME_WAIT",
    read: Read::Host("/proc/sys/net/ipv4/tcp_tw_reuse", number),
    source: PER_NAMESPACE,
    why: "0 never, 1 always, 2 on loopback only. Where ports are reused, `tcp-crr` continues long after they \
          would have run out.",
    ..Knob::FACT
};
