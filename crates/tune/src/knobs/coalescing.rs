//! Interrupt coalescing of the interface's device.

use hairpin_sys::device::Attribute;
use hairpin_sys::host::Host;

use crate::knob::{Control, Knob, Network, Scope};
use crate::place::Place;
use crate::read::{Answer, Read};
use crate::values::Values;

const COALESCE: &str = "The device's answer to `ETHTOOL_GCOALESCE` (SIOCETHTOOL, ethtool(8)). Left out where \
                     the driver does not answer, and where it lacks this one setting (`ETHTOOL_MSG_COALESCE_GET`; \
                     before Linux 5.6 that reads as 0, or off).";

pub(crate) static RX_USECS: Knob = Knob {
    name: "rx_usecs",
    summary: "How long the device may wait after a received packet before it interrupts",
    read: Read::Device(Attribute::RxUsecs, Answer::Number),
    source: COALESCE,
    why: "The delay is added to each round trip that waits for an interrupt, up to its full length at low \
          rates. 0 interrupts at once. Polling paths are not affected.",
    look: "ethtool -c eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 4_294_967_295),
        mechanism: "How long the device may wait for more packets, after a received one, before it \
                    interrupts.",
        effect: "Each blocking round trip waits up to this long for the interrupt, on either side. 0 \
                 interrupts at once.",
        cost: "An interrupt per packet: CPU time, and fewer packets per second under load.",
        risk: "A flood of small packets keeps a core busy with interrupts.",
        needs: "CAP_NET_ADMIN, and a device that coalesces. Some drivers (i40e, iavf, ice) take it only with \
                adaptive_rx off.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (rx-usecs)",
        latency: Some("0"),
        throughput: Some("50"),
        stake_ns: 20_000,
        stake_here: Some(rx_usecs_ns),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static RX_FRAMES: Knob = Knob {
    name: "rx_frames",
    summary: "Received packets after which the device interrupts without waiting further; 0 is no limit",
    read: Read::Device(Attribute::RxFrames, Answer::Number),
    source: COALESCE,
    why: "With 1 the device interrupts for the first packet, whatever `rx_usecs` says; with more, a lone \
          packet waits for `rx_usecs`.",
    look: "ethtool -c eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 4_294_967_295),
        mechanism: "Received packets after which the device interrupts without waiting further; 0 is no \
                    limit.",
        effect: "With rx_usecs above 0, a value of 1 interrupts at each packet. With rx_usecs at 0 it \
                 changes nothing.",
        cost: "As rx_usecs.",
        risk: "As rx_usecs.",
        needs: "CAP_NET_ADMIN, and a device that coalesces by frames.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (rx-frames)",
        stake_ns: 5000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static TX_USECS: Knob = Knob {
    name: "tx_usecs",
    summary: "How long the device may wait after a sent packet before it interrupts",
    read: Read::Device(Attribute::TxUsecs, Answer::Number),
    source: COALESCE,
    why: "It delays the completion of sent packets, not the packets. Late completions hold back a sender \
          whose buffer is full, and TCP small queues.",
    look: "ethtool -c eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 4_294_967_295),
        mechanism: "How long the device may wait after a sent packet before it interrupts to have its buffer \
                    freed.",
        effect: "None for the packet itself. It delays packets that wait for room in the queue, and TCP \
                 small queues under load.",
        cost: "At 0: an interrupt per sent packet.",
        needs: "CAP_NET_ADMIN, and a device that coalesces.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (tx-usecs)",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static TX_FRAMES: Knob = Knob {
    name: "tx_frames",
    summary: "Sent packets after which the device interrupts without waiting further; 0 is no limit",
    read: Read::Device(Attribute::TxFrames, Answer::Number),
    source: COALESCE,
    why: "As `tx_usecs`, by count.",
    look: "ethtool -c eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Number(0, 4_294_967_295),
        mechanism: "Sent packets after which the device interrupts without waiting further; 0 is no limit.",
        effect: "As tx_usecs.",
        cost: "As tx_usecs.",
        needs: "CAP_NET_ADMIN, and a device that coalesces by frames.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (tx-frames)",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static ADAPTIVE_RX: Knob = Knob {
    name: "adaptive_rx",
    summary: "Whether the driver adapts receive coalescing to the load",
    read: Read::Device(Attribute::AdaptiveRx, Answer::Flag),
    source: COALESCE,
    why: "The delay then depends on earlier traffic: the same request is fast at one rate and slow at \
          another, and `rx_usecs` is only the initial value.",
    look: "ethtool -c eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::OnOff,
        mechanism: "Whether the driver adapts receive coalescing to the load, whatever rx_usecs says.",
        effect: "Off, the delay is rx_usecs; on, it varies with the rate, and the RTT with it.",
        cost: "Off with rx_usecs at 0: an interrupt per packet at any load.",
        needs: "CAP_NET_ADMIN, and a device with adaptive coalescing.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (adaptive-rx)",
        latency: Some("off"),
        throughput: Some("on"),
        stake_ns: 15_000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static ADAPTIVE_TX: Knob = Knob {
    name: "adaptive_tx",
    summary: "Whether the driver adapts transmit coalescing to the load",
    read: Read::Device(Attribute::AdaptiveTx, Answer::Flag),
    source: COALESCE,
    why: "As `adaptive_rx`, for completions.",
    look: "ethtool -c eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::OnOff,
        mechanism: "Whether the driver adapts transmit coalescing to the load, whatever tx_usecs says.",
        effect: "As tx_usecs.",
        cost: "As tx_usecs.",
        needs: "CAP_NET_ADMIN, and a device with adaptive coalescing.",
        reference: "ethtool(8), Documentation/networking/ethtool-netlink.rst (adaptive-tx)",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

/// A delay above 0 is lost once on each side, up to its full length.
fn rx_usecs_ns(host: &dyn Host, place: &Place<'_>) -> Option<u64> {
    RX_USECS.value(host, place)?.as_u64().map(|us| us.saturating_mul(1_000))
}
