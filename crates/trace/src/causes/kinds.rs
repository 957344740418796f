//! The kinds of causes, and the advice for each.

use crate::advice::{Advice, Name};

use Name::{Flag, Knob, Option as Of, Policy};

/// A kind of cause, without its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A segment was sent again.
    Retransmission,
    /// An acknowledgement that was waited for came when its timer ran out.
    DelayedAck,
    /// A small segment was held back until the one before it was acknowledged.
    Nagle,
    /// Packets were left to the kernel's thread for soft interrupts.
    Deferred,
    /// Another thread had the CPU of a runnable thread.
    Preempted,
    /// Another thread had the CPU of a woken thread.
    RunQueue,
    /// A soft interrupt had the CPU.
    SoftInterrupt,
    /// A hard interrupt had the CPU.
    HardInterrupt,
    /// The CPU's own timer, and the work that it triggers.
    Timer,
    /// Another CPU called this one.
    Call,
    /// The CPU had to leave an idle state.
    Idle,
    /// The thread was given to another CPU.
    Migration,
    /// The hypervisor reports that it ran something else.
    Stolen,
    /// The firmware had every core.
    Firmware,
    /// A gap without any event.
    Nothing,
    /// Time outside this host.
    Outside,
    /// No gap, but everything took a little longer.
    Small,
}

/// Texts about a kind of cause.
#[derive(Clone, Copy, Debug)]
pub struct KindOf {
    pub kind: Kind,
    /// Its name in the table.
    pub name: &'static str,
    pub advice: Advice,
}

const fn kind(kind: Kind, name: &'static str, text: &'static str, names: &'static [Name]) -> KindOf {
    KindOf { kind, name, advice: Advice { text, names } }
}

pub static KINDS: &[KindOf] = &[
    kind(
        Kind::Retransmission,
        "retransmission",
        "a segment was lost or thought lost: look for drops, give the sockets room (rcvbuf, rmem_max_bytes), keep tcp_sack on",
        &[Of("tcp", "rcvbuf"), Knob("rmem_max_bytes"), Knob("tcp_sack")],
    ),
    kind(
        Kind::DelayedAck,
        "delayed ACK",
        "send a request in one write (writes=1), or with nodelay=on; quickack=on acknowledges at once; see tcp_pingpong_thresh",
        &[Of("tcp", "writes"), Of("tcp", "nodelay"), Of("tcp", "quickack"), Knob("tcp_pingpong_thresh")],
    ),
    kind(
        Kind::Nagle,
        "Nagle",
        "nodelay=on sends small segments at once; or send a request in one write (writes=1)",
        &[Of("tcp", "nodelay"), Of("tcp", "writes")],
    ),
    kind(
        Kind::Deferred,
        "ksoftirqd",
        "more packets than soft interrupts may take at once: raise netdev_budget and netdev_budget_usecs, take other traffic to another core (irq_affinity, rps_cpus)",
        &[Knob("netdev_budget"), Knob("netdev_budget_usecs"), Knob("irq_affinity"), Knob("rps_cpus")],
    ),
    kind(
        Kind::Preempted,
        "preempted",
        "keep others off this core: isolated_cpus, or another core with --cpu, or --sched fifo:50",
        &[Knob("isolated_cpus"), Flag("--cpu"), Flag("--sched")],
    ),
    kind(
        Kind::RunQueue,
        "run queue wait",
        "the woken thread waited for its turn: keep others off this core (isolated_cpus, --cpu), or wake it before them with --sched fifo:50",
        &[Knob("isolated_cpus"), Flag("--cpu"), Flag("--sched")],
    ),
    kind(
        Kind::SoftInterrupt,
        "soft interrupt",
        "take interrupts and packets of others to another core (irq_affinity, rps_cpus), timers and RCU off this one (nohz_full_cpus)",
        &[Knob("irq_affinity"), Knob("rps_cpus"), Knob("nohz_full_cpus")],
    ),
    kind(
        Kind::HardInterrupt,
        "hard interrupt",
        "take this interrupt to another core (irq_affinity), or measure on another one (--cpu)",
        &[Knob("irq_affinity"), Flag("--cpu")],
    ),
    kind(
        Kind::Timer,
        "timer",
        "the tick of this core: nohz_full_cpus stops it while one thread runs; timer_hz says how often it comes",
        &[Knob("nohz_full_cpus"), Knob("timer_hz")],
    ),
    kind(
        Kind::Call,
        "call from another CPU",
        "other CPUs had this one do something, such as forget a memory mapping: keep threads of the same processes off it (isolated_cpus, --cpu)",
        &[Knob("isolated_cpus"), Flag("--cpu")],
    ),
    kind(
        Kind::Idle,
        "idle wake-up",
        "hold cpu_dma_latency_us at 0, or in a virtual machine raise guest_halt_poll_ns; see idle_states; spin and busy-poll never sleep",
        &[Knob("cpu_dma_latency_us"), Knob("guest_halt_poll_ns"), Knob("idle_states"), Policy("spin"), Policy("busy-poll")],
    ),
    kind(
        Kind::Migration,
        "migration",
        "pin both threads (--cpu), and look at numa_balancing",
        &[Flag("--cpu"), Knob("numa_balancing")],
    ),
    kind(
        Kind::Stolen,
        "stolen",
        "the hypervisor ran something else on this core and counted it as steal: nothing on this host moves it but fewer virtual CPUs or a host of one's own (hypervisor)",
        &[Knob("hypervisor")],
    ),
    kind(
        Kind::Firmware,
        "SMI",
        "the firmware stopped the core: look in its settings for power capping, thermal throttling, memory scrubbing and legacy USB; it mostly stops all cores at once, so that another one (--cpu) seldom helps",
        &[Flag("--cpu")],
    ),
    kind(
        Kind::Nothing,
        "nothing seen",
        "the hypervisor or firmware took it: no event of the kernel lies in the gap, and the steal count does not tell; see hypervisor, and compare another core (--cpu)",
        &[Knob("hypervisor"), Flag("--cpu")],
    ),
    kind(
        Kind::Outside,
        "outside",
        "neither of this host's cores had it: look at the other host, and at rx_usecs and tx_usecs of both",
        &[Knob("rx_usecs"), Knob("tx_usecs")],
    ),
    kind(
        Kind::Small,
        "many small delays",
        "no gap: caches, memory, clock frequency and the distance between the cores (core_relation, numa_nodes, scaling_governor); try other cores with --cpu",
        &[Knob("core_relation"), Knob("numa_nodes"), Knob("scaling_governor"), Flag("--cpu")],
    ),
];

impl Kind {
    pub fn of(self) -> &'static KindOf {
        // The test below checks that each is listed.
        KINDS.iter().find(|known| known.kind == self).unwrap_or(&KINDS[KINDS.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_listed_once_in_its_order() {
        assert!(KINDS.windows(2).all(|pair| pair[0].kind < pair[1].kind));
        assert_eq!((KINDS.len(), KINDS.last().map(|last| last.kind)), (Kind::Small as usize + 1, Some(Kind::Small)));
        assert!(KINDS.iter().all(|known| known.kind.of().name == known.name));
    }
}
