//! Every knob, by subject: one entry each, in the file of its subject.

mod clocksource;
mod coalescing;
mod cpu;
mod frequency;
mod idle;
mod interface;
mod irq;
mod kernel;
mod link;
mod memory;
mod napi;
mod network;
mod offload;
mod queues;
mod scheduler;
mod tcp;

use hairpin_record::run::HostFacts;
use hairpin_sys::host::Host;

pub use self::idle::has_idle_states;
pub(crate) use self::scheduler::CPUSET_PARTITION;
use crate::change::Change;
use crate::knob::{Knob, Network};
use crate::place::Place;
use crate::reading::Reading;

/// Every knob, under the title of its subject.
pub static KNOBS: &[(&str, &[&Knob])] = &[
    (
        "Kernel",
        &[
            &kernel::RELEASE,
            &kernel::VERSION,
            &kernel::COMMAND_LINE,
            &kernel::PREEMPT_MODEL,
            &kernel::PREEMPT_MODE,
            &kernel::REALTIME,
            &kernel::TIMER_HZ,
            &kernel::MITIGATIONS,
        ],
    ),
    ("CPU", &[&cpu::MODEL, &cpu::ONLINE, &cpu::CORES_USED, &cpu::CORE_RELATION, &cpu::HYPERVISOR]),
    ("Clock", &[&clocksource::CURRENT, &clocksource::AVAILABLE]),
    ("CPU frequency", &[&frequency::DRIVER, &frequency::GOVERNOR, &frequency::ENERGY_PERFORMANCE_PREFERENCE, &frequency::TURBO]),
    (
        "Idle states",
        &[&idle::DRIVER, &idle::GOVERNOR, &idle::STATES, &idle::DMA_LATENCY, &idle::RESUME_LATENCY, &idle::GUEST_HALT_POLL],
    ),
    (
        "Scheduler",
        &[
            &scheduler::ISOLATED,
            &scheduler::NOHZ_FULL,
            &scheduler::SMT,
            &scheduler::RT_RUNTIME,
            &scheduler::RT_PERIOD,
            &scheduler::TIMER_MIGRATION,
            &scheduler::WATCHDOG,
            &scheduler::NMI_WATCHDOG,
            &scheduler::CPUSET_PARTITION,
        ],
    ),
    ("Memory", &[&memory::TRANSPARENT_HUGEPAGE, &memory::NUMA_BALANCING, &memory::NUMA_NODES]),
    (
        "Network stack",
        &[
            &network::BUSY_POLL,
            &network::BUSY_READ,
            &network::RMEM_DEFAULT,
            &network::RMEM_MAX,
            &network::WMEM_DEFAULT,
            &network::WMEM_MAX,
            &network::NETDEV_BUDGET,
            &network::NETDEV_BUDGET_USECS,
            &network::GRO_NORMAL_BATCH,
            &network::RPS_SOCK_FLOW_ENTRIES,
            &network::DEFAULT_QDISC,
            &network::SOMAXCONN,
            &network::LOCAL_PORT_RANGE,
        ],
    ),
    (
        "TCP",
        &[
            &tcp::CONGESTION_CONTROL,
            &tcp::TIMESTAMPS,
            &tcp::SACK,
            &tcp::AUTOCORKING,
            &tcp::SLOW_START_AFTER_IDLE,
            &tcp::LOW_LATENCY,
            &tcp::PINGPONG_THRESH,
            &tcp::RMEM,
            &tcp::WMEM,
            &tcp::TW_REUSE,
        ],
    ),
    (
        "The interface",
        &[
            &interface::INTERFACE,
            &interface::DRIVER,
            &interface::DRIVER_VERSION,
            &interface::FIRMWARE_VERSION,
            &interface::MTU,
            &interface::SPEED,
            &interface::DUPLEX,
            &interface::NUMA_NODE,
            &interface::PCIE_SPEED,
            &interface::PCIE_LANES,
            &interface::HARDWARE_TIMESTAMPING,
        ],
    ),
    (
        "Interrupt coalescing",
        &[
            &coalescing::RX_USECS,
            &coalescing::RX_FRAMES,
            &coalescing::TX_USECS,
            &coalescing::TX_FRAMES,
            &coalescing::ADAPTIVE_RX,
            &coalescing::ADAPTIVE_TX,
        ],
    ),
    ("NAPI", &[&napi::GRO_FLUSH_TIMEOUT, &napi::NAPI_DEFER_HARD_IRQS, &napi::NAPI_THREADED, &napi::IRQ_SUSPEND_TIMEOUT]),
    (
        "Queues and rings",
        &[
            &queues::RX_QUEUES,
            &queues::TX_QUEUES,
            &queues::RPS_CPUS,
            &queues::RPS_FLOW_COUNT,
            &queues::XPS_CPUS,
            &queues::COMBINED_CHANNELS,
            &queues::RX_RING_ENTRIES,
            &queues::TX_RING_ENTRIES,
        ],
    ),
    ("Interrupts", &[&irq::AFFINITY]),
    (
        "Offloads",
        &[
            &offload::GRO,
            &offload::GSO,
            &offload::TSO,
            &offload::LRO,
            &offload::SCATTER_GATHER,
            &offload::RX_CHECKSUM,
            &offload::TX_CHECKSUM,
        ],
    ),
    ("Queueing and routes", &[&link::TX_QUEUE_LEN, &link::QDISC, &link::QUICKACK_ROUTES]),
];

pub fn all() -> impl Iterator<Item = &'static Knob> {
    KNOBS.iter().flat_map(|(_, knobs)| knobs.iter().copied())
}

#[must_use]
pub fn knob(name: &str) -> Option<&'static Knob> {
    all().find(|knob| knob.name == name)
}

/// How network namespaces share the setting of `change`; [`Network::Own`] for a knob that only another version knows.
pub fn network_of(change: &Change) -> Network {
    knob(&change.knob).and_then(|knob| knob.change.as_ref()).map_or(Network::Own, |control| control.network)
}

const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Every fact of the host, as the knobs read it now.
///
/// Call it from a thread inside the run's network namespace, with a sysfs mounted there: both describe the namespace they are
/// read in.
pub fn facts(host: &dyn Host, place: &Place<'_>) -> HostFacts {
    let mut facts = HostFacts::default();
    match host.read(HOSTNAME) {
        Ok(name) => facts.hostname = name,
        Err(why) => {
            facts.unread.insert("hostname".to_owned(), format!("{HOSTNAME}: {why}"));
        }
    }
    for knob in all() {
        match knob.read(host, place) {
            Reading::Is(value) => {
                facts.facts.insert(knob.name.to_owned(), value);
            }
            Reading::Absent => {}
            Reading::Unread(reason) => {
                facts.unread.insert(knob.name.to_owned(), reason);
            }
        }
    }
    facts
}
