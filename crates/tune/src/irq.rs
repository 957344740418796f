//! The interrupts of the interface used, and the CPUs they go to.

use hairpin_sys::host::Host;
use serde_json::{Map, Value, json};

use crate::control::Spot;
use crate::reading::{interface_directory, present};
use crate::{Knob, Place, Reading, cpulist, interrupts};

const INTERRUPTS: &str = "/proc/interrupts";

/// Where the interface's interrupts go.
pub(crate) struct Affinity;

impl Knob for Affinity {
    fn name(&self) -> &'static str {
        "irq_affinity"
    }

    fn summary(&self) -> &'static str {
        "The interrupts of the interface, each with its name and the CPUs it goes to"
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        affinity(host, place).into()
    }

    fn spots(&self, host: &dyn Host, place: &Place<'_>) -> Result<Vec<Spot>, String> {
        let paths = interrupts_of(host, place)?.into_iter().map(|(number, _)| format!("/proc/irq/{number}/smp_affinity_list"));
        Ok(paths.filter(|path| host.exists(path)).map(Spot::File).collect())
    }
}

fn affinity(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    let mut found = Map::new();
    for (number, name) in interrupts_of(host, place)? {
        if let Some(cpus) = cpus_of(host, number)? {
            found.insert(number.to_string(), json!({"name": name, "cpus": cpus}));
        }
    }
    Ok((!found.is_empty()).then_some(Value::Object(found)))
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

/// The interrupts that the device's bus gave it; empty where the bus does not tell. A virtio device has those of the PCI function around it.
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
    use hairpin_sys::host::FakeHost;

    const ETH0: Place<'_> = Place { cpus: &[], interface: Some("eth0") };
    const TABLE: &str = "      CPU0  CPU1
 38:  0  2030  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 40:  5  0  PCI-MSIX-0000:00:04.0   1-edge      eth0-TxRx-0
 41:  5  0  PCI-MSIX-0000:00:05.0   1-edge      eth01
";

    #[test]
    fn a_pci_device_lists_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with(INTERRUPTS, TABLE)
            .with("/sys/class/net/eth0/device/msi_irqs/40", "msix\n")
            .with_link("/sys/class/net/eth0/device/subsystem", "../../../../bus/pci")
            .with("/proc/irq/40/smp_affinity_list", "0-1\n")
            .with("/proc/irq/40/effective_affinity_list", "1\n");
        assert_eq!(Affinity.probe(&host, &ETH0), Reading::Is(json!({"40": {"name": "eth0-TxRx-0", "cpus": "1"}})));
    }

    #[test]
    fn a_virtio_device_has_those_of_the_function_around_it() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with(INTERRUPTS, TABLE)
            .with("/sys/devices/pci/0000:00:03.0/msi_irqs/38", "msix\n")
            .with_directory("/sys/devices/pci/0000:00:03.0/virtio2")
            .with_link("/sys/devices/pci/0000:00:03.0/virtio2/subsystem", "../../../../bus/virtio")
            .with_link("/sys/class/net/eth0/device", "../../../devices/pci/0000:00:03.0/virtio2")
            .with("/proc/irq/38/smp_affinity_list", "0-1\n");
        assert_eq!(Affinity.probe(&host, &ETH0), Reading::Is(json!({"38": {"name": "virtio2-input.0", "cpus": "0-1"}})));
    }

    #[test]
    fn without_such_a_list_the_names_decide() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with(INTERRUPTS, TABLE)
            .with_directory("/sys/class/net/eth0/device")
            .with("/proc/irq/40/smp_affinity_list", "0\n");
        assert_eq!(Affinity.probe(&host, &ETH0), Reading::Is(json!({"40": {"name": "eth0-TxRx-0", "cpus": "0"}})));
    }

    #[test]
    fn an_interface_without_a_device_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with(INTERRUPTS, TABLE).with("/sys/class/net/eth0/mtu", "1500");
        assert_eq!(Affinity.probe(&host, &ETH0), Reading::Absent);
    }
}
