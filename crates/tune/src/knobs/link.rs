//! Queueing in front of the interface, and its routes.

use hairpin_sys::device::Attribute;

use crate::knob::{Control, Knob, Network, Scope};
use crate::read::{Answer, Read};
use crate::reading::number;
use crate::values::Values;

pub(crate) static TX_QUEUE_LEN: Knob = Knob {
    name: "tx_queue_len",
    summary: "Packets that the interface's queueing discipline may hold",
    read: Read::Interface("tx_queue_len", number),
    why: "It is the longest queue in front of the interface, for the disciplines that use it. Under load a \
          full queue is pure delay.",
    look: "ip link show dev eth0",
    ..Knob::FACT
};

pub(crate) static QDISC: Knob = Knob {
    name: "qdisc",
    summary: "The queueing discipline at the interface's root",
    read: Read::Device(Attribute::Qdisc, Answer::Text),
    source: "The root qdisc of the interface over rtnetlink. `default (…)` is one that the kernel chose \
             itself.",
    why: "A packet passes it on its way out. `noqueue` is a call; `fq` may hold a packet back on purpose; \
          behind a bulk flow its order decides.",
    look: "tc qdisc show dev eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Word("a qdisc such as fq, pfifo_fast, noqueue, or default"),
        mechanism: "The queueing discipline at the interface's root. `default` is the kernel's own choice.",
        effect: "`noqueue` and `pfifo_fast` do least per packet; fq and fq_codel keep a bulk flow from \
                 delaying the others.",
        cost: "Different behaviour under load.",
        risk: "Packets that wait in the old qdisc are lost. Refused where a qdisc was set up by hand, whose \
               parameters would be lost.",
        needs: "CAP_NET_ADMIN, and a kernel with that qdisc.",
        reference: "tc(8)",
        safe: false,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static QUICKACK_ROUTES: Knob = Knob {
    name: "quickack_routes",
    summary: "Whether ACKs over the interface's IPv4 routes are sent at once",
    read: Read::Device(Attribute::QuickAck, Answer::Text),
    source: "The metric `quickack` of the IPv4 routes of the main table over the interface. One word if all \
             agree, otherwise one per destination.",
    why: "A delayed ACK (40 ms) holds up a sender that waits for it before its next segment. A route with \
          quickack acknowledges at once.",
    look: "ip route show dev eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::OnOff,
        mechanism: "Whether ACKs of connections over the interface's IPv4 routes are sent at once.",
        effect: "Where a sender waits for an ACK before its next segment (Nagle), it saves the delayed ACK's \
                 40 ms.",
        cost: "One more packet per request: CPU time of both sides.",
        risk: "The routes are rewritten: changes that another program makes to them at the same moment are \
               lost. Refused where another interface has a route with the same destination and metric.",
        needs: "CAP_NET_ADMIN, and routes in the main table.",
        reference: "ip-route(8) (quickack)",
        safe: false,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};
