//! NAPI: how the kernel polls the device, and when the interrupt is on.

use hairpin_sys::device::Attribute;

use crate::knob::{Control, Knob, Scope};
use crate::read::{Answer, Read};
use crate::reading::number;
use crate::values::Values;

pub(crate) static GRO_FLUSH_TIMEOUT: Knob = Knob {
    name: "gro_flush_timeout_ns",
    summary: "How long NAPI may hold packets before a timer processes them",
    read: Read::Interface("gro_flush_timeout", number),
    why: "Together with `napi_defer_hard_irqs` it keeps the interrupt off and polls by timer. With busy \
          polling, that keeps interrupts away from the polling thread; without, a packet may wait this long.",
    change: Some(Control {
        scope: Scope::Interface,
        values: Values::Number(0, 1_000_000_000),
        mechanism: "With napi_defer_hard_irqs: how long packets may wait in the queue, with the interrupt \
                    off, before a timer processes them.",
        effect: "Alone it adds up to this time to a round trip that no application polls for. With busy \
                 polling it keeps interrupts away from the polling thread.",
        cost: "Latency for receivers that do not poll.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/napi.rst",
        latency: Some("0"),
        stake_ns: 10_000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static NAPI_DEFER_HARD_IRQS: Knob = Knob {
    name: "napi_defer_hard_irqs",
    summary: "Empty polls before NAPI enables the interrupt again",
    read: Read::Interface("napi_defer_hard_irqs", number),
    why: "The interrupt stays off for this many empty polls; until then a packet waits for the timer of \
          `gro_flush_timeout_ns`, unless an application busy-polls.",
    change: Some(Control {
        scope: Scope::Interface,
        values: Values::Number(0, 2_147_483_647),
        mechanism: "The number of empty polls, gro_flush_timeout apart, before NAPI enables the interrupt \
                    again.",
        effect: "Above 0 an application that busy-polls is not interrupted; one that blocks waits for the \
                 timer.",
        cost: "Latency for receivers that do not poll.",
        needs: "Root and the interface's namespace.",
        reference: "Documentation/networking/napi.rst",
        latency: Some("0"),
        stake_ns: 10_000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static NAPI_THREADED: Knob = Knob {
    name: "napi_threaded",
    summary: "Whether NAPI polls in its own threads instead of in softirqs",
    read: Read::Interface("threaded", number),
    why: "A NAPI thread can be pinned and given a priority, but the scheduler has to wake it: one more \
          switch on a packet's way. 0 is off, 1 on; newer kernels have further modes.",
    change: Some(Control {
        scope: Scope::Interface,
        values: Values::Number(0, 1),
        mechanism: "NAPI polls in its own kernel threads instead of in softirqs.",
        effect: "The threads can be pinned and given a priority, away from the application's core; every \
                 packet then needs one more wake-up.",
        cost: "A wake-up per poll.",
        needs: "Root, and an interface with NAPI.",
        reference: "Documentation/networking/napi.rst (threaded)",
        latency: Some("0"),
        stake_ns: 5000,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static IRQ_SUSPEND_TIMEOUT: Knob = Knob {
    name: "irq_suspend_timeout_ns",
    summary: "How long interrupts stay off, at most, while an application busy-polls and finds packets",
    read: Read::Device(Attribute::IrqSuspendTimeout, Answer::Number),
    source: "`irq-suspend-timeout` of the interface's NAPI instances in the netlink family `netdev` (Linux \
             6.13). One value if all agree, otherwise one per instance. Left out where there is no instance: \
             loopback, plain veth, an interface that is down.",
    why: "While an application busy-polls with epoll and finds packets, interrupts stay off for at most this \
          long: they do not disturb it while it works, and wake it when it sleeps.",
    look: "ynl --family netdev --dump napi-get",
    change: Some(Control {
        scope: Scope::Interface,
        values: Values::Number(0, 1_000_000_000),
        mechanism: "How long the interrupts of a NAPI instance stay off, at most, while epoll busy-polls and \
                    finds packets.",
        effect: "Under load the application polls without interrupts; when idle, interrupts wake it: the \
                 latency of polling at the power of interrupts.",
        cost: "Packets wait up to this long if the application stops polling.",
        needs: "CAP_NET_ADMIN, Linux 6.13, a device with NAPI instances, and an application with epoll busy \
                polling.",
        reference: "Documentation/networking/napi.rst (IRQ suspension)",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};
