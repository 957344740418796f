//! The interrupts of the interface, and their CPUs.

use hairpin_sys::host::Host;
use serde_json::{Map, Value, json};

use crate::change::{Address, Form};
use crate::knob::{Control, Knob, Scope, Spot, Write};
use crate::place::{Place, interface_directory};
use crate::read::Read;
use crate::reading::present;
use crate::values::Values;
use crate::{cpulist, interrupts};

const INTERRUPTS: &str = "/proc/interrupts";

pub(crate) static AFFINITY: Knob = Knob {
    name: "irq_affinity",
    summary: "The interrupts of the interface, each with its name and CPUs",
    read: Read::By(affinity),
    source: "The interrupts in `/sys/class/net/<interface>/device/msi_irqs` (for a virtio device, of the PCI \
             function around it), otherwise those in `/proc/interrupts` named after the interface; for each \
             `effective_affinity_list`, otherwise `smp_affinity_list`, below `/proc/irq/<n>`. Left out for \
             virtual interfaces.",
    why: "The interrupt's core runs the receive softirq. A reader on another core is woken across cores; a \
          reader on the same core is interrupted.",
    look: "grep eth0 /proc/interrupts\ncat /proc/irq/*/effective_affinity_list",
    change: Some(Control {
        scope: Scope::Interface,
        values: Values::Cpus,
        write: Write::At(affinity_spots),
        mechanism: "The CPUs that may take the interrupts of the interface.",
        effect: "The core that takes the interrupt runs the receive work. On the application's core it \
                 interrupts the application, on a neighbour it shares the cache, on another node it is far \
                 away.",
        cost: "None.",
        risk: "irqbalance, if it runs, changes it back: stop it first.",
        needs: "Root, and interrupts that the kernel allows to move.",
        reference: "Documentation/core-api/irq/irq-affinity.rst",
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

fn affinity(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    let mut found = Map::new();
    for (number, name) in interrupts_of(host, place)? {
        if let Some(cpus) = cpus_of(host, number)? {
            found.insert(number.to_string(), json!({"name": name, "cpus": cpus}));
        }
    }
    Ok((!found.is_empty()).then_some(Value::Object(found)))
}

fn affinity_spots(host: &dyn Host, place: &Place<'_>, value: &str) -> Result<Vec<Spot>, String> {
    let interrupts = interrupts_of(host, place)?.into_iter();
    let paths = interrupts.map(|(number, _)| format!("/proc/irq/{number}/smp_affinity_list")).filter(|path| host.exists(path));
    Ok(paths.map(|path| Spot { address: Address::File { path, form: Form::CpuList }, to: value.to_owned() }).collect())
}

/// The numbers and names of the interface's interrupts.
fn interrupts_of(host: &dyn Host, place: &Place<'_>) -> Result<Vec<(u32, String)>, String> {
    let Some(directory) = interface_directory(place) else {
        return Ok(Vec::new());
    };
    if !host.exists(&format!("{directory}/device")) {
        return Ok(Vec::new()); // veth, loopback and the like raise none
    }
    let Some(table) = present(INTERRUPTS, host.read(INTERRUPTS))? else {
        return Ok(Vec::new());
    };
    let lines = interrupts::parse(&table, &[]).map_err(|why| format!("{INTERRUPTS}: {why}"))?;
    let own = own_interrupts(host, &directory)?;
    let name = place.interface.unwrap_or_default();
    let mut found = Vec::new();
    for line in lines {
        let Some(number) = line.number() else { continue };
        let ours = if own.is_empty() { names_interface(&line.name, name) } else { own.contains(&number) };
        if ours {
            found.push((number, line.name));
        }
    }
    Ok(found)
}

/// The interrupts that the device's bus gave it; empty where the bus does not tell. A virtio device has those of the PCI function
/// around it.
fn own_interrupts(host: &dyn Host, directory: &str) -> Result<Vec<u32>, String> {
    let bus = format!("{directory}/device/subsystem");
    let virtio = present(&bus, host.link_target(&bus))?.is_some_and(|bus| bus == "virtio");
    let path = format!("{directory}/device/{}msi_irqs", if virtio { "../" } else { "" });
    let names = present(&path, host.list(&path))?.unwrap_or_default();
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Whether an interrupt's name has the interface's name as a word of its own: `eth1-TxRx-0` is eth1's, `eth10` is not.
fn names_interface(interrupt: &str, interface: &str) -> bool {
    interrupt.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.')).any(|word| word == interface)
}

/// The CPUs that an interrupt really goes to, else those it may go to; `None` if it is gone.
fn cpus_of(host: &dyn Host, number: u32) -> Result<Option<String>, String> {
    for file in ["effective_affinity_list", "smp_affinity_list"] {
        let path = format!("/proc/irq/{number}/{file}");
        if let Some(text) = present(&path, host.read(&path))? {
            let cpus = cpulist::parse(&text).map_err(|why| format!("{path}: {why}"))?;
            return Ok(Some(cpulist::format(&cpus)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;
    use hairpin_sys::host::FakeHost;

    const ETH0: Place<'_> = Place { cpus: &[], interface: Some("eth0") };
    const TABLE: &str = "      CPU0  CPU1
 38:  0  2030  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 40:  5  0  PCI-MSIX-0000:00:04.0   1-edge      eth0-TxRx-0
 41:  5  0  PCI-MSIX-0000:00:05.0   1-edge      eth01
";

    #[test]
    fn lists_the_interrupts_of_a_pci_device() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with(INTERRUPTS, TABLE)
            .with("/sys/class/net/eth0/device/msi_irqs/40", "msix\n")
            .with_link("/sys/class/net/eth0/device/subsystem", "../../../../bus/pci")
            .with("/proc/irq/40/smp_affinity_list", "0-1\n")
            .with("/proc/irq/40/effective_affinity_list", "1\n");
        assert_eq!(AFFINITY.read(&host, &ETH0), Reading::Is(json!({"40": {"name": "eth0-TxRx-0", "cpus": "1"}})));
    }

    #[test]
    fn lists_the_interrupts_of_the_function_around_a_virtio_device() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with(INTERRUPTS, TABLE)
            .with("/sys/devices/pci/0000:00:03.0/msi_irqs/38", "msix\n")
            .with_directory("/sys/devices/pci/0000:00:03.0/virtio2")
            .with_link("/sys/devices/pci/0000:00:03.0/virtio2/subsystem", "../../../../bus/virtio")
            .with_link("/sys/class/net/eth0/device", "../../../devices/pci/0000:00:03.0/virtio2")
            .with("/proc/irq/38/smp_affinity_list", "0-1\n");
        assert_eq!(AFFINITY.read(&host, &ETH0), Reading::Is(json!({"38": {"name": "virtio2-input.0", "cpus": "0-1"}})));
    }

    #[test]
    fn matches_names_where_the_bus_lists_no_interrupts() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with(INTERRUPTS, TABLE)
            .with_directory("/sys/class/net/eth0/device")
            .with("/proc/irq/40/smp_affinity_list", "0\n");
        assert_eq!(AFFINITY.read(&host, &ETH0), Reading::Is(json!({"40": {"name": "eth0-TxRx-0", "cpus": "0"}})));
    }

    #[test]
    fn leaves_out_interrupts_of_an_interface_without_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with(INTERRUPTS, TABLE).with("/sys/class/net/eth0/mtu", "1500");
        assert_eq!(AFFINITY.read(&host, &ETH0), Reading::Absent);
    }
}
