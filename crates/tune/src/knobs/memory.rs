//! Memory: huge pages and the migration of pages.

use hairpin_record::tune::Finding;
use hairpin_sys::host::Host;

use crate::knob::{Control, Knob, Write};
use crate::place::Place;
use crate::read::Read;
use crate::reading::{bracketed, cpu_list, number};
use crate::values::Values;

pub(crate) static TRANSPARENT_HUGEPAGE: Knob = Knob {
    name: "transparent_hugepage",
    summary: "Which memory gets huge pages without asking",
    read: Read::Host("/sys/kernel/mm/transparent_hugepage/enabled", bracketed),
    source: "The word in brackets.",
    why: "With `always` the kernel joins pages in the background: fewer TLB misses, but now and then a stall \
          while memory is compacted or moved.",
    change: Some(Control {
        values: Values::Words(&["always", "madvise", "never"]),
        write: Write::CHOICE,
        mechanism: "Which memory gets huge pages without asking for them.",
        effect: "`always` makes page faults long and lets khugepaged copy pages in the background: spikes of \
                 some 100 us. `madvise` gives huge pages only to programs that ask.",
        cost: "Programs that gain from huge pages but do not ask lose them.",
        needs: "Root and a kernel with CONFIG_TRANSPARENT_HUGEPAGE.",
        reference: "Documentation/admin-guide/mm/transhuge.rst",
        throughput: Some("always"),
        ..Control::PLAIN
    }),
    finding: Some(hugepage_finding),
    ..Knob::FACT
};

pub(crate) static NUMA_BALANCING: Knob = Knob {
    name: "numa_balancing",
    summary: "Whether the kernel moves pages towards the node that uses them",
    read: Read::Host("/proc/sys/kernel/numa_balancing", number),
    why: "To learn which node uses a page, the kernel unmaps it and waits for the fault. These faults, and \
          the moves after them, add to the tail of a pinned thread that gains nothing from them.",
    change: Some(Control {
        values: Values::Number(0, 3),
        mechanism: "Unmaps pages now and then to see which node uses them, and moves them there.",
        effect: "Off, these page faults stop, and with them spikes of some 10 us. With a single node it does \
                 nothing.",
        cost: "The memory of a process that moves between nodes stays where it is.",
        needs: "Root and a kernel with CONFIG_NUMA_BALANCING.",
        reference: "Documentation/admin-guide/sysctl/kernel.rst",
        latency: Some("0"),
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

pub(crate) static NUMA_NODES: Knob = Knob {
    name: "numa_nodes",
    summary: "The NUMA nodes of this host",
    read: Read::Host("/sys/devices/system/node/online", cpu_list),
    source: "A list such as `0-1`.",
    why: "With more than one node, the distance between cores, memory and interface matters.",
    look: "lscpu | grep NUMA\nnumactl --hardware",
    ..Knob::FACT
};

fn hugepage_finding(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = TRANSPARENT_HUGEPAGE.value(host, place)?;
    let control = TRANSPARENT_HUGEPAGE.change.as_ref()?;
    (now == "always").then(|| Finding {
        name: TRANSPARENT_HUGEPAGE.name.to_owned(),
        now: "always".to_owned(),
        better: "madvise".to_owned(),
        effect: control.effect.to_owned(),
        stake_ns: control.stake_ns,
        cost: control.cost.to_owned(),
        fix: "sudo hairpin tune apply transparent_hugepage=madvise".to_owned(),
        or: None,
        at_boot: false,
    })
}
