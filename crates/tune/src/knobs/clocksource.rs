//! The clock behind the kernel's time, and the clocks available.

use hairpin_record::tune::Finding;
use hairpin_sys::host::Host;

use crate::knob::{Control, Knob};
use crate::place::Place;
use crate::read::Read;
use crate::reading::{text, words};
use crate::values::Values;

pub(crate) static CURRENT: Knob = Knob {
    name: "clocksource",
    summary: "The hardware clock that the kernel's time is read from",
    read: Read::Host("/sys/devices/system/clocksource/clocksource0/current_clocksource", text),
    why: "With `tsc`, reading the time takes some 20 ns in user mode. With `hpet` or `acpi_pm` it is a \
          system call and a read from a device, a microsecond or more, in programs and within the network \
          stack.",
    change: Some(Control {
        values: Values::Word("one of available_clocksources, such as tsc"),
        mechanism: "The hardware clock behind the kernel's time. The TSC is read in user space; any other \
                    clock takes a system call and often a read from a device.",
        effect: "Every clock_gettime takes some 20 ns instead of about 1 us (hpet, acpi_pm), and so do the \
                 kernel's own timestamps.",
        cost: "None.",
        risk: "If the kernel left the TSC because it found it unstable, time runs wrong: check dmesg first.",
        needs: "Root, and tsc among available_clocksources.",
        reference: "Documentation/admin-guide/kernel-parameters.txt (clocksource=)",
        safe: false,
        stake_ns: 2000,
        ..Control::PLAIN
    }),
    finding: Some(clocksource_finding),
    ..Knob::FACT
};

pub(crate) static AVAILABLE: Knob = Knob {
    name: "available_clocksources",
    summary: "The hardware clocks that the kernel can use",
    read: Read::Host("/sys/devices/system/clocksource/clocksource0/available_clocksource", words),
    why: "If `tsc` is missing here, the kernel found it unstable and dropped it.",
    look: "cat /sys/devices/system/clocksource/clocksource0/available_clocksource\ndmesg | grep -i tsc",
    ..Knob::FACT
};

/// Clocks that are read in user space.
const FAST: [&str; 4] = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];

fn clocksource_finding(host: &dyn Host, place: &Place<'_>) -> Option<Finding> {
    let now = CURRENT.value(host, place)?;
    let now = now.as_str().filter(|now| !FAST.contains(now))?;
    let can = AVAILABLE.value(host, place)?.as_array()?.iter().any(|one| one == "tsc");
    let control = CURRENT.change.as_ref()?;
    Some(Finding {
        name: CURRENT.name.to_owned(),
        now: now.to_owned(),
        better: "tsc".to_owned(),
        effect: control.effect.to_owned(),
        stake_ns: control.stake_ns,
        cost: control.cost.to_owned(),
        fix: if can {
            "sudo hairpin tune apply clocksource=tsc".to_owned()
        } else {
            "look in dmesg why the kernel gave up the TSC; tsc=reliable on the kernel's command line forces it".to_owned()
        },
        or: None,
        at_boot: !can,
    })
}
