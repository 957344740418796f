//! The settings of a host that move round trips: each read by one knob, and changed with what is needed to put it back.
//!
//! ```text
//!   KNOBS ── probe(host, place) ──► Reading ──► facts() ──► HostFacts of the record
//!                                   Is(value)               the fact under the knob's name
//!                                   Absent                  nothing: this host has no such thing
//!                                   Unread(reason)          the reason under `unread`
//! ```
//! A knob is one item: a struct in the file of its subject, a line in [`KNOBS`], a page `docs/knobs/<name>.md`. Probing only reads.
//!
//! ```text
//!   KNOB=VALUE ── Setting ── plan(host, place) ──► [Change] ── Journal::begin ──► Tuning ── on / off / keep / restore
//!   controls: what may be changed, and what a person should know before               │
//!                                                                     Journal::revert ◄┘ after a crash, and when asked
//! ```
//! [`activity`] is the other half of what a record says of a host: not how it is set, but what happened on the cores during the run.
//!
//! Names are the kernel's own words in snake case, with the unit where the kernel's word has none.

#![forbid(unsafe_code)]

pub mod activity;
pub mod attend;
pub mod change;
pub mod check;
mod clocksource;
pub mod control;
mod cpu;
mod cpulist;
mod device;
mod frequency;
mod idle;
mod interface;
mod interrupts;
mod irq;
pub mod journal;
mod kernel;
pub mod list;
mod memory;
mod network;
pub mod plan;
pub mod profile;
mod reading;
pub mod residency;
pub mod revert;
pub mod rows;
mod scheduler;
pub mod setting;
mod tcp;
pub mod tuning;

#[cfg(test)]
mod tests;

use hairpin_record::run::HostFacts;
use hairpin_sys::host::Host;

pub use change::{Address, Change, Trouble};
pub use control::{Control, Profile, Spot};
pub use journal::Journal;
pub use plan::{Plan, plan};
pub use reading::Reading;
pub use setting::Setting;
pub use tuning::Tuning;

/// Where on a host a run takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// The CPUs that the measuring threads are pinned to; empty if they are not pinned.
    pub cpus: &'a [u32],
    /// The interface the traffic passes; `None` for paths that use no network.
    pub interface: Option<&'a str>,
}

/// One setting of a host that moves round trips.
pub trait Knob: Sync {
    /// The fact's name in the record and the name of its page under `docs/knobs`.
    fn name(&self) -> &'static str;

    /// What it is, in one line.
    fn summary(&self) -> &'static str;

    /// Reads how it stands. Writes nothing.
    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading;

    /// Where its values stand on this host, for who would change them: for the CPUs of `place`, or all that are online if it names none.
    /// Empty if it is only reported, or this host has no such thing. Writes nothing.
    ///
    /// # Errors
    /// What could not be read.
    fn spots(&self, _host: &dyn Host, _place: &Place<'_>) -> Result<Vec<Spot>, String> {
        Ok(Vec::new())
    }
}

/// Every knob, by subject.
pub static KNOBS: &[&dyn Knob] = &[
    &kernel::RELEASE,
    &kernel::VERSION,
    &kernel::CommandLine,
    &kernel::PREEMPT_MODEL,
    &kernel::PREEMPT_MODE,
    &kernel::REALTIME,
    &kernel::TimerHz,
    &kernel::Mitigations,
    &cpu::Model,
    &cpu::ONLINE,
    &cpu::CoresUsed,
    &cpu::CoreRelation,
    &cpu::Hypervisor,
    &clocksource::CURRENT,
    &clocksource::AVAILABLE,
    &frequency::DRIVER,
    &frequency::GOVERNOR,
    &frequency::ENERGY_PERFORMANCE_PREFERENCE,
    &frequency::Turbo,
    &idle::DRIVER,
    &idle::GOVERNOR,
    &idle::States,
    &idle::DmaLatency,
    &idle::RESUME_LATENCY,
    &idle::GUEST_HALT_POLL,
    &scheduler::ISOLATED,
    &scheduler::NOHZ_FULL,
    &scheduler::SMT,
    &scheduler::RT_RUNTIME,
    &scheduler::RT_PERIOD,
    &scheduler::TIMER_MIGRATION,
    &scheduler::WATCHDOG,
    &scheduler::NMI_WATCHDOG,
    &scheduler::CpusetPartition,
    &memory::TRANSPARENT_HUGEPAGE,
    &memory::NUMA_BALANCING,
    &memory::NUMA_NODES,
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
    &interface::Name,
    &device::Driver,
    &device::DRIVER_VERSION,
    &device::FIRMWARE_VERSION,
    &interface::MTU,
    &interface::SPEED,
    &interface::DUPLEX,
    &interface::Queues::RX,
    &interface::Queues::TX,
    &interface::TX_QUEUE_LEN,
    &interface::GRO_FLUSH_TIMEOUT,
    &interface::NAPI_DEFER_HARD_IRQS,
    &interface::NAPI_THREADED,
    &interface::NUMA_NODE,
    &interface::PCIE_SPEED,
    &interface::PCIE_LANES,
    &interface::QueueFile::RPS,
    &interface::QueueFile::RPS_FLOWS,
    &interface::QueueFile::XPS,
    &device::COMBINED_CHANNELS,
    &device::RX_RING_ENTRIES,
    &device::TX_RING_ENTRIES,
    &device::RX_USECS,
    &device::RX_FRAMES,
    &device::TX_USECS,
    &device::TX_FRAMES,
    &device::ADAPTIVE_RX,
    &device::ADAPTIVE_TX,
    &device::GRO,
    &device::GSO,
    &device::TSO,
    &device::LRO,
    &device::SCATTER_GATHER,
    &device::RX_CHECKSUM,
    &device::TX_CHECKSUM,
    &device::HARDWARE_TIMESTAMPING,
    &device::IRQ_SUSPEND_TIMEOUT,
    &device::QDISC,
    &device::QUICKACK_ROUTES,
    &irq::Affinity,
];

/// The CPUs of a list such as `0-3,8`.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_cpus(text: &str) -> Result<Vec<u32>, String> {
    let cpus = cpulist::parse(text)?;
    if cpus.is_empty() { Err(format!("{text:?} names no CPU")) } else { Ok(cpus) }
}

/// Every fact of the host, as the knobs read it now.
///
/// Call it from a thread inside the run's network namespace, with a sysfs mounted there: both answer for the namespace they are read in.
pub fn facts(host: &dyn Host, place: &Place<'_>) -> HostFacts {
    let mut facts = HostFacts::default();
    match host.read(HOSTNAME) {
        Ok(name) => facts.hostname = name,
        Err(why) => {
            facts.unread.insert("hostname".to_owned(), format!("{HOSTNAME}: {why}"));
        }
    }
    for knob in KNOBS {
        match knob.probe(host, place) {
            Reading::Is(value) => {
                facts.facts.insert(knob.name().to_owned(), value);
            }
            Reading::Absent => {}
            Reading::Unread(reason) => {
                facts.unread.insert(knob.name().to_owned(), reason);
            }
        }
    }
    facts
}

const HOSTNAME: &str = "/proc/sys/kernel/hostname";
