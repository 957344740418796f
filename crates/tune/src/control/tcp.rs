//! TCP.

use super::{Control, Values};

pub(super) static CONTROLS: &[Control] = &[
    Control {
        name: "tcp_autocorking",
        mechanism: "A small send waits while an earlier packet of the flow is still in the qdisc or the device, to be joined with the next.",
        effect: "Off, each send goes out at once. It matters where a request is written in several pieces, or several are in flight.",
        cost: "More small packets.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        values: Values::Flag,
        latency: Some("off"),
        throughput: Some("on"),
        ..Control::PLAIN
    },
    Control {
        name: "tcp_slow_start_after_idle",
        mechanism: "The congestion window of a connection that was idle starts again at its first size.",
        effect: "Off, a long reply after a pause goes out in one go and not over several RTTs. No effect on replies within ten segments.",
        cost: "A burst into a network that may have changed meanwhile.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        values: Values::Flag,
        latency: Some("off"),
        throughput: Some("off"),
        ..Control::PLAIN
    },
    Control {
        name: "tcp_timestamps",
        mechanism: "Every segment carries two stamps: 12 bytes more.",
        effect: "Off, segments are 12 bytes shorter, and a payload of 1460 bytes fits one of them.",
        cost: "No protection against wrapped sequence numbers at high rates, a coarser RTT estimate.",
        risk: "Connections behind address translation may fail; only new connections change.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        values: Values::Number(0, 2),
        ..Control::PLAIN
    },
    Control {
        name: "tcp_sack",
        mechanism: "The receiver says which segments arrived after a gap.",
        effect: "None without losses.",
        cost: "Off: slower recovery from losses.",
        risk: "Only new connections change.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        values: Values::Flag,
        throughput: Some("on"),
        ..Control::PLAIN
    },
    Control {
        name: "tcp_pingpong_thresh",
        mechanism: "After so many replies a connection counts as interactive, and its ACKs ride on replies.",
        effect: "Higher: the first requests of a connection are acknowledged at once, which helps a sender that waits for it (Nagle).",
        cost: "Bare ACKs.",
        needs: "CAP_NET_ADMIN in the network namespace. Linux 6.6 or later.",
        reference: "Documentation/networking/ip-sysctl.rst",
        values: Values::Number(1, 255),
        ..Control::PLAIN
    },
    Control {
        name: "tcp_rmem_bytes",
        mechanism: "Receive buffer of a connection: least, at first, most.",
        effect: "None for one request in flight.",
        cost: "Memory.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        values: Values::Numbers(3),
        ..Control::PLAIN
    },
    Control {
        name: "tcp_wmem_bytes",
        mechanism: "Send buffer of a connection: least, at first, most.",
        effect: "None for one request in flight. A smaller one bounds what waits before a request of the same connection.",
        cost: "Memory.",
        needs: "CAP_NET_ADMIN in the network namespace.",
        reference: "Documentation/networking/ip-sysctl.rst",
        values: Values::Numbers(3),
        ..Control::PLAIN
    },
    Control {
        name: "tcp_congestion_control",
        mechanism: "How new connections decide how much may be on the way.",
        effect: "None for requests within the first window. Under bulk traffic it decides how long the queue on the way gets.",
        cost: "By algorithm.",
        risk: "Only new connections change.",
        needs: "CAP_NET_ADMIN in the network namespace. The algorithm must be built in or loaded.",
        reference: "Documentation/networking/ip-sysctl.rst",
        values: Values::Word("one of net.ipv4.tcp_available_congestion_control, such as cubic"),
        ..Control::PLAIN
    },
];
