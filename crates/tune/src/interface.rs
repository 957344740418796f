//! The interface the traffic passes, as sysfs shows it.
//!
//! /sys/class/net holds the interfaces of the network namespace in which that sysfs was mounted.

use std::io;

use hairpin_sys::host::Host;
use serde_json::Value;

use crate::control::Spot;
use crate::reading::{Form, InterfaceFile, agreed, interface_directory, number, number_or_none, present};
use crate::{Knob, Place, Reading, cpulist};

pub(crate) static MTU: InterfaceFile = InterfaceFile {
    name: "mtu_bytes",
    summary: "The largest packet that the interface carries whole",
    file: "mtu",
    form: number,
};

pub(crate) static SPEED: InterfaceFile = InterfaceFile {
    name: "link_speed_mbit_per_s",
    summary: "The rate of the link, as negotiated",
    file: "speed",
    form: number_or_none,
};

pub(crate) static DUPLEX: InterfaceFile =
    InterfaceFile { name: "duplex", summary: "Whether the link carries both directions at once", file: "duplex", form: duplex };

pub(crate) static TX_QUEUE_LEN: InterfaceFile = InterfaceFile {
    name: "tx_queue_len",
    summary: "Packets that the interface's queueing discipline may hold",
    file: "tx_queue_len",
    form: number,
};

pub(crate) static GRO_FLUSH_TIMEOUT: InterfaceFile = InterfaceFile {
    name: "gro_flush_timeout_ns",
    summary: "How long NAPI may sit on packets before a timer takes them up",
    file: "gro_flush_timeout",
    form: number,
};

pub(crate) static NAPI_DEFER_HARD_IRQS: InterfaceFile = InterfaceFile {
    name: "napi_defer_hard_irqs",
    summary: "Empty polls before NAPI re-arms the interrupt",
    file: "napi_defer_hard_irqs",
    form: number,
};

pub(crate) static NAPI_THREADED: InterfaceFile = InterfaceFile {
    name: "napi_threaded",
    summary: "Whether NAPI polls in threads of its own instead of in softirqs",
    file: "threaded",
    form: number,
};

pub(crate) static NUMA_NODE: InterfaceFile = InterfaceFile {
    name: "interface_numa_node",
    summary: "The NUMA node that the interface's device is attached to",
    file: "device/numa_node",
    form: number_or_none,
};

pub(crate) static PCIE_SPEED: InterfaceFile = InterfaceFile {
    name: "pcie_gt_per_s",
    summary: "Transfers per second of each PCIe lane of the interface's device, as negotiated, in 10^9",
    file: "device/current_link_speed",
    form: transfers,
};

pub(crate) static PCIE_LANES: InterfaceFile = InterfaceFile {
    name: "pcie_lanes",
    summary: "PCIe lanes of the interface's device, as negotiated",
    file: "device/current_link_width",
    form: lanes,
};

/// `8.0 GT/s PCIe`, `8 GT/s` or `Unknown`, as the kernel's pci_speed_string() writes them.
fn transfers(text: &str) -> Result<Option<Value>, String> {
    match text.trim().split_once(" GT/s") {
        Some((number, _)) => number.parse::<f64>().map(|number| Some(number.into())).map_err(|_| format!("{text:?} is no speed")),
        None if text.starts_with("Unknown") => Ok(None),
        None => Err(format!("{text:?} is no speed")),
    }
}

/// 0 and 255 stand for an unknown width.
fn lanes(text: &str) -> Result<Option<Value>, String> {
    Ok(number(text)?.filter(|lanes| *lanes != 0 && *lanes != 255))
}

fn duplex(text: &str) -> Result<Option<Value>, String> {
    match text.trim() {
        known @ ("full" | "half") => Ok(Some(known.into())),
        "unknown" => Ok(None),
        _ => Err(format!("{text:?} is neither full nor half")),
    }
}

/// The interface itself.
pub(crate) struct Name;

impl Knob for Name {
    fn name(&self) -> &'static str {
        "interface"
    }

    fn summary(&self) -> &'static str {
        "The interface the traffic passes"
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        let Some(name) = place.interface else {
            return Reading::Absent;
        };
        match interface_directory(place) {
            Some(directory) if host.exists(&directory) => Reading::Is(name.into()),
            _ => Reading::Unread(format!("/sys/class/net has no interface {name:?}")),
        }
    }
}

/// How many queues the interface has in one direction.
pub(crate) struct Queues {
    name: &'static str,
    summary: &'static str,
    prefix: &'static str,
}

impl Queues {
    pub(crate) const RX: Queues = Queues { name: "rx_queues", summary: "Receive queues of the interface", prefix: "rx-" };
    pub(crate) const TX: Queues = Queues { name: "tx_queues", summary: "Transmit queues of the interface", prefix: "tx-" };
}

impl Knob for Queues {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        queues(host, place, self.prefix).map(|names| names.map(|names| names.len().into())).into()
    }
}

/// The names of the queues that start with `prefix`.
fn queues(host: &dyn Host, place: &Place<'_>, prefix: &str) -> Result<Option<Vec<String>>, String> {
    let Some(directory) = interface_directory(place) else {
        return Ok(None);
    };
    let path = format!("{directory}/queues");
    let names = present(&path, host.list(&path))?;
    Ok(names.map(|names| names.into_iter().filter(|name| name.starts_with(prefix)).collect()))
}

/// A file that each of the interface's queues of one direction has.
pub(crate) struct QueueFile {
    name: &'static str,
    summary: &'static str,
    prefix: &'static str,
    file: &'static str,
    form: Form,
}

impl QueueFile {
    pub(crate) const RPS: QueueFile = QueueFile {
        name: "rps_cpus",
        summary: "CPUs that received packets are spread over in software",
        prefix: "rx-",
        file: "rps_cpus",
        form: cpu_mask,
    };
    pub(crate) const RPS_FLOWS: QueueFile = QueueFile {
        name: "rps_flow_count",
        summary: "Flows that each receive queue may steer to the CPU of their reader",
        prefix: "rx-",
        file: "rps_flow_cnt",
        form: number,
    };
    pub(crate) const XPS: QueueFile = QueueFile {
        name: "xps_cpus",
        summary: "CPUs that send through each transmit queue",
        prefix: "tx-",
        file: "xps_cpus",
        form: cpu_mask,
    };
}

/// A mask of CPUs as a list.
fn cpu_mask(mask: &str) -> Result<Option<Value>, String> {
    cpulist::parse_mask(mask).map(|cpus| Some(cpulist::format(&cpus).into()))
}

impl Knob for QueueFile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        self.read(host, place).into()
    }

    fn spots(&self, host: &dyn Host, place: &Place<'_>) -> Result<Vec<Spot>, String> {
        let paths = self.files(host, place)?.into_iter().filter(|(_, _, text)| text.is_some());
        Ok(paths.map(|(_, path, _)| Spot::File(path)).collect())
    }
}

impl QueueFile {
    /// One value if all queues agree, else one by queue.
    fn read(&self, host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
        let mut values = Vec::new();
        for (queue, path, text) in self.files(host, place)? {
            let value = text.map(|text| (self.form)(&text)).transpose().map_err(|why| format!("{path}: {why}"))?;
            values.push((queue, value.flatten()));
        }
        Ok(agreed(values))
    }

    /// Each queue with the path and the text of its file.
    fn files(&self, host: &dyn Host, place: &Place<'_>) -> Result<Vec<(String, String, Option<String>)>, String> {
        let (Some(directory), Some(names)) = (interface_directory(place), queues(host, place, self.prefix)?) else {
            return Ok(Vec::new());
        };
        let mut files = Vec::new();
        for queue in names {
            let path = format!("{directory}/queues/{queue}/{}", self.file);
            let text = match host.read(&path) {
                // An interface with a single queue lists the file but answers that there is no such thing, or refuses to say.
                Err(why) if why.kind() == io::ErrorKind::InvalidInput => None,
                answer => present(&path, answer)?,
            };
            files.push((queue, path, text));
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::host::FakeHost;
    use serde_json::json;

    const ETH0: Place<'_> = Place { cpus: &[], interface: Some("eth0") };

    #[test]
    fn queues_that_differ_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with("/sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n")
            .with("/sys/class/net/eth0/queues/tx-0/xps_cpus", "00000001,00000001\n")
            .with("/sys/class/net/eth0/queues/tx-1/xps_cpus", "00000000,00000006\n");
        assert_eq!(QueueFile::RPS.probe(&host, &ETH0), Reading::Is("".into()));
        assert_eq!(QueueFile::XPS.probe(&host, &ETH0), Reading::Is(json!({"tx-0": "0,32", "tx-1": "1-2"})));
    }

    #[test]
    fn a_link_that_is_down_or_virtual_has_no_speed() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/sys/class/net/eth0/speed", "-1\n")
            .with("/sys/class/net/eth0/duplex", "unknown\n");
        assert_eq!(SPEED.probe(&host, &ETH0), Reading::Absent);
        assert_eq!(DUPLEX.probe(&host, &ETH0), Reading::Absent);
        let host = host.with_error("/sys/class/net/eth0/speed", libc::EINVAL);
        assert_eq!(SPEED.probe(&host, &ETH0), Reading::Absent);
    }

    #[test]
    fn a_pcie_link_is_read_in_each_form() {
        let directory = tempfile::tempdir().unwrap();
        for (speed, lanes, is) in [
            ("8.0 GT/s PCIe\n", "8\n", Some((8.0, 8))),
            ("2.5 GT/s PCIe\n", "1\n", Some((2.5, 1))),
            ("16 GT/s\n", "16\n", Some((16.0, 16))),
            ("Unknown\n", "255\n", None),
            ("Unknown speed\n", "0\n", None),
        ] {
            let host = FakeHost::at(directory.path())
                .with("/sys/class/net/eth0/device/current_link_speed", speed)
                .with("/sys/class/net/eth0/device/current_link_width", lanes);
            let (speed, lanes) = (PCIE_SPEED.probe(&host, &ETH0), PCIE_LANES.probe(&host, &ETH0));
            match is {
                Some((gt, n)) => assert_eq!((speed, lanes), (Reading::Is(json!(gt)), Reading::Is(json!(n)))),
                None => assert_eq!((speed, lanes), (Reading::Absent, Reading::Absent)),
            }
        }
        let host = FakeHost::at(directory.path()).with("/sys/class/net/eth0/device/current_link_speed", "fast\n");
        assert!(matches!(PCIE_SPEED.probe(&host, &ETH0), Reading::Unread(_)));
    }

    #[test]
    fn a_name_that_leaves_the_directory_is_no_interface() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with("/sys/class/net/eth0/mtu", "1500").with("/sys/class/mtu", "1");
        for name in ["..", ".", "", "../..", "eth0/../eth0", "eth1"] {
            let place = Place { cpus: &[], interface: Some(name) };
            assert!(matches!(Name.probe(&host, &place), Reading::Unread(_)), "{name}");
            assert_eq!(MTU.probe(&host, &place), Reading::Absent, "{name}");
        }
    }
}
