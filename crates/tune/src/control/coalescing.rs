//! The device: interrupt coalescing, rings, offloads, stamps.

use super::{Control, Values};

pub(super) static CONTROLS: &[Control] = &[
    Control {
        name: "rx_usecs",
        mechanism: "How long the device may wait after a received packet before it interrupts, to gather more.",
        effect: "Each blocking round trip waits up to this long for the interrupt, on either side. 0 interrupts at once.",
        cost: "An interrupt per packet: CPU time, and fewer packets per second at load.",
        risk: "A flood of small packets keeps a core in interrupts.",
        needs: "CAP_NET_ADMIN, and a device that coalesces.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (rx-usecs)",
        values: Values::Number(0, 4_294_967_295),
        latency: Some("0"),
        throughput: Some("50"),
        stake_ns: 20000,
        ..Control::PLAIN
    },
    Control {
        name: "rx_frames",
        mechanism: "Received packets after which the device waits no longer; 0 is no such bound.",
        effect: "With rx_usecs above 0, 1 interrupts at each packet. With rx_usecs at 0 it changes nothing.",
        cost: "As rx_usecs.",
        risk: "As rx_usecs.",
        needs: "CAP_NET_ADMIN, and a device that coalesces by frames.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (rx-frames)",
        values: Values::Number(0, 4_294_967_295),
        stake_ns: 5000,
        ..Control::PLAIN
    },
    Control {
        name: "tx_usecs",
        mechanism: "How long the device may wait after a sent packet before it interrupts to have its buffer freed.",
        effect: "None for the packet itself. It holds back what waits for room in the queue, and TCP small queues under load.",
        cost: "An interrupt per sent packet at 0.",
        needs: "CAP_NET_ADMIN, and a device that coalesces.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (tx-usecs)",
        values: Values::Number(0, 4_294_967_295),
        ..Control::PLAIN
    },
    Control {
        name: "tx_frames",
        mechanism: "Sent packets after which the device waits no longer; 0 is no such bound.",
        effect: "As tx_usecs.",
        cost: "As tx_usecs.",
        needs: "CAP_NET_ADMIN, and a device that coalesces by frames.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (tx-frames)",
        values: Values::Number(0, 4_294_967_295),
        ..Control::PLAIN
    },
    Control {
        name: "adaptive_rx",
        mechanism: "Whether the driver varies receive coalescing by load, whatever rx_usecs says.",
        effect: "Off, the delay is what rx_usecs says; on, it wanders with the rate, and the RTT with it.",
        cost: "Off and rx_usecs at 0: an interrupt per packet at any load.",
        needs: "CAP_NET_ADMIN, and a device that has adaptive coalescing.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (adaptive-rx)",
        values: Values::OnOff,
        latency: Some("off"),
        throughput: Some("on"),
        stake_ns: 15000,
        ..Control::PLAIN
    },
    Control {
        name: "adaptive_tx",
        mechanism: "Whether the driver varies transmit coalescing by load, whatever tx_usecs says.",
        effect: "As tx_usecs.",
        cost: "As tx_usecs.",
        needs: "CAP_NET_ADMIN, and a device that has adaptive coalescing.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (adaptive-tx)",
        values: Values::OnOff,
        ..Control::PLAIN
    },
    Control {
        name: "rx_ring_entries",
        mechanism: "Descriptors of each receive queue: how many packets may wait for the kernel.",
        effect: "Fewer stay in the cache and cannot hold a long queue; more lose fewer packets in a burst.",
        cost: "Fewer: losses in bursts. More: memory, and longer queues.",
        risk: "Most drivers take the link down for a moment: connections stall, some drivers lose the link for seconds.",
        needs: "CAP_NET_ADMIN, and a device that has rings.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (rings)",
        values: Values::Number(1, 1048576),
        safe: false,
        ..Control::PLAIN
    },
    Control {
        name: "tx_ring_entries",
        mechanism: "Descriptors of each transmit queue: how many packets may wait for the device.",
        effect: "Fewer bound the time that a packet can wait behind others.",
        cost: "Fewer: the qdisc has to hold more.",
        risk: "Most drivers take the link down for a moment.",
        needs: "CAP_NET_ADMIN, and a device that has rings.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (rings)",
        values: Values::Number(1, 1048576),
        safe: false,
        ..Control::PLAIN
    },
    Control {
        name: "gro",
        mechanism: "Received segments of a flow are joined before they go up the stack.",
        effect: "Off, single packets go up at once and one by one: a little less work for each, more for a stream. It also turns off NAPI on \
                    veth.",
        cost: "Off: more CPU time per byte of a stream.",
        needs: "CAP_NET_ADMIN, and a device that does not have it fixed.",
        reference: "Documentation/networking/segmentation-offloads.rst",
        values: Values::OnOff,
        throughput: Some("on"),
        ..Control::PLAIN
    },
    Control {
        name: "gso",
        mechanism: "The kernel cuts large sends into segments only just before the device.",
        effect: "None for requests that fit one segment.",
        cost: "Off: more CPU time per byte of a stream.",
        needs: "CAP_NET_ADMIN, and a device that does not have it fixed.",
        reference: "Documentation/networking/segmentation-offloads.rst",
        values: Values::OnOff,
        throughput: Some("on"),
        ..Control::PLAIN
    },
    Control {
        name: "tso",
        mechanism: "The device cuts large TCP sends into segments.",
        effect: "None for requests that fit one segment. A large one occupies the wire for a long time in one piece.",
        cost: "Off: more CPU time per byte of a stream.",
        needs: "CAP_NET_ADMIN, and a device that does not have it fixed.",
        reference: "Documentation/networking/segmentation-offloads.rst",
        values: Values::OnOff,
        throughput: Some("on"),
        ..Control::PLAIN
    },
    Control {
        name: "lro",
        mechanism: "The device joins received segments.",
        effect: "On, the device may hold a packet to see whether another follows. It breaks forwarding.",
        cost: "Off: more CPU time per byte of a stream, unless gro does the same.",
        needs: "CAP_NET_ADMIN, and a device that has it.",
        reference: "Documentation/networking/segmentation-offloads.rst",
        values: Values::OnOff,
        latency: Some("off"),
        stake_ns: 3000,
        ..Control::PLAIN
    },
    Control {
        name: "hardware_timestamping",
        mechanism: "Whether the device stamps packets: `on` asks for sent ones whose sender wants it and for all received ones.",
        effect: "Off is as fast as the device can be; with all received packets stamped some devices are slower, or lose receive offloads.",
        cost: "On: a write by the device with every packet.",
        risk: "Off stops whoever needs the stamps, such as ptp4l: it asks for them again only when it is started.",
        needs: "CAP_NET_ADMIN, and a device that has a clock.",
        reference: "Documentation/networking/timestamping.rst (SIOCSHWTSTAMP)",
        values: Values::OnOff,
        safe: false,
        ..Control::PLAIN
    },
];
