//! Offloads: segmentation, joining and checksums in the kernel or the device.

use hairpin_sys::device::Attribute;

use crate::knob::{Control, Knob, Network, Scope};
use crate::read::{Answer, Read};
use crate::values::Values;

pub(crate) static GRO: Knob = Knob {
    name: "gro",
    summary: "Whether the kernel joins received segments before the stack (generic receive offload)",
    read: Read::Device(Attribute::Gro, Answer::Flag),
    source: "The device's answer to `ETHTOOL_GGRO` (SIOCETHTOOL, ethtool(8)). Left out where the driver does \
             not answer.",
    why: "Joining saves work where messages take many segments; a lone small packet pays for the look-up. On \
          veth it also decides whether there is a NAPI to busy-poll.",
    look: "ethtool -k eth0 | grep generic-receive-offload",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::OnOff,
        mechanism: "The kernel joins received segments of a flow before they go up the stack.",
        effect: "Off, packets go up the stack at once and one by one: a little less work for a single \
                 packet, more for a stream. On veth, off also disables NAPI.",
        cost: "Off: more CPU time per byte of a stream.",
        needs: "CAP_NET_ADMIN, and a device that does not have it fixed.",
        reference: "Documentation/networking/segmentation-offloads.rst",
        throughput: Some("on"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static GSO: Knob = Knob {
    name: "gso",
    summary: "Whether the kernel splits segments only just before the device (generic segmentation offload)",
    read: Read::Device(Attribute::Gso, Answer::Flag),
    source: "The device's answer to `ETHTOOL_GGSO` (SIOCETHTOOL, ethtool(8)). Left out where the driver does \
             not answer.",
    why: "A message of many segments passes the stack once instead of once per segment.",
    look: "ethtool -k eth0 | grep generic-segmentation-offload",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::OnOff,
        mechanism: "The kernel splits large sends into segments only just before the device.",
        effect: "None for requests that fit in one segment.",
        cost: "Off: more CPU time per byte of a stream.",
        needs: "CAP_NET_ADMIN, and a device that does not have it fixed.",
        reference: "Documentation/networking/segmentation-offloads.rst",
        throughput: Some("on"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static TSO: Knob = Knob {
    name: "tso",
    summary: "Whether the device splits TCP segments (TCP segmentation offload)",
    read: Read::Device(Attribute::Tso, Answer::Flag),
    source: "The device's answer to `ETHTOOL_GTSO` (SIOCETHTOOL, ethtool(8)). Left out where the driver does \
             not answer.",
    why: "As `gso`, but the device splits: less work for large messages, no difference for small ones.",
    look: "ethtool -k eth0 | grep tcp-segmentation-offload",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::OnOff,
        mechanism: "The device splits large TCP sends into segments.",
        effect: "None for requests that fit in one segment. A large send occupies the wire for a long time \
                 in one piece.",
        cost: "Off: more CPU time per byte of a stream.",
        needs: "CAP_NET_ADMIN, and a device that does not have it fixed.",
        reference: "Documentation/networking/segmentation-offloads.rst",
        throughput: Some("on"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static LRO: Knob = Knob {
    name: "lro",
    summary: "Whether the device joins received segments (large receive offload)",
    read: Read::Device(Attribute::Lro, Answer::Flag),
    source: "The device's answer to `ETHTOOL_GFLAGS` (SIOCETHTOOL, ethtool(8)). Left out where the driver \
             does not answer.",
    why: "The device may hold a packet back to join it with the next.",
    look: "ethtool -k eth0 | grep large-receive-offload",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::OnOff,
        mechanism: "The device joins received segments.",
        effect: "On, the device may hold a packet back to see whether another follows, and forwarding \
                 breaks.",
        cost: "Off: more CPU time per byte of a stream, unless gro joins segments instead.",
        needs: "CAP_NET_ADMIN, and a device that supports it.",
        reference: "Documentation/networking/segmentation-offloads.rst",
        latency: Some("off"),
        stake_ns: 3000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static SCATTER_GATHER: Knob = Knob {
    name: "scatter_gather",
    summary: "Whether the device sends a packet from several pieces of memory",
    read: Read::Device(Attribute::ScatterGather, Answer::Flag),
    source: "The device's answer to `ETHTOOL_GSG` (SIOCETHTOOL, ethtool(8)). Left out where the driver does \
             not answer.",
    why: "Without it the kernel copies each packet into one piece before it is sent, and segmentation \
          offload is impossible.",
    look: "ethtool -k eth0 | grep scatter-gather",
    ..Knob::FACT
};

pub(crate) static RX_CHECKSUM: Knob = Knob {
    name: "rx_checksum",
    summary: "Whether the device verifies checksums of received packets",
    read: Read::Device(Attribute::RxChecksum, Answer::Flag),
    source: "The device's answer to `ETHTOOL_GRXCSUM` (SIOCETHTOOL, ethtool(8)). Left out where the driver \
             does not answer.",
    why: "Without it the kernel reads every byte of a received packet once more.",
    look: "ethtool -k eth0 | grep rx-checksumming",
    ..Knob::FACT
};

pub(crate) static TX_CHECKSUM: Knob = Knob {
    name: "tx_checksum",
    summary: "Whether the device computes checksums of sent packets",
    read: Read::Device(Attribute::TxChecksum, Answer::Flag),
    source: "The device's answer to `ETHTOOL_GTXCSUM` (SIOCETHTOOL, ethtool(8)). Left out where the driver \
             does not answer.",
    why: "Without it the kernel reads every byte of a packet once more before sending it.",
    look: "ethtool -k eth0 | grep tx-checksumming",
    ..Knob::FACT
};
