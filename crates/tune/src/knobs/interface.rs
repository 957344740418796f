//! The interface: name, driver, link, PCIe slot.
//!
//! /sys/class/net shows the interfaces of the network namespace in which that sysfs was mounted.

use std::io;

use hairpin_sys::device::Attribute;
use hairpin_sys::ethtool::DriverInfo;
use hairpin_sys::host::Host;
use serde_json::Value;

use crate::change::Form;
use crate::knob::{Control, Knob, Network, Scope, Write};
use crate::place::{Place, interface_directory};
use crate::read::{Answer, Read, unless_gone};
use crate::reading::{number, number_or_none, present};
use crate::values::Values;

pub(crate) static INTERFACE: Knob = Knob {
    name: "interface",
    summary: "The interface that carries the traffic",
    read: Read::By(interface),
    source: "`/sys/class/net/<interface>`, which exists in the namespace of the traffic.",
    why: "All facts below are about this interface.",
    look: "ip link",
    ..Knob::FACT
};

pub(crate) static DRIVER: Knob = Knob {
    name: "driver",
    summary: "The kernel driver of the interface",
    read: Read::By(driver),
    source: "The device's answer to `ETHTOOL_GDRVINFO`, which virtual interfaces such as veth give too; \
             otherwise the link `/sys/class/net/<interface>/device/driver`.",
    why: "Drivers differ by microseconds in how they ring the doorbell, refill rings and moderate \
          interrupts.",
    look: "ethtool -i eth0",
    ..Knob::FACT
};

pub(crate) static DRIVER_VERSION: Knob = Knob {
    name: "driver_version",
    summary: "The driver's version; for drivers of the kernel tree, the kernel's",
    read: Read::By(|host, place| answered(host, place, |info| info.version)),
    source: "The device's answer to `ETHTOOL_GDRVINFO` (SIOCETHTOOL, ethtool(8)). Left out where the driver \
             does not answer.",
    why: "Drivers from outside the kernel tree have their own versions, and change independently of the \
          kernel.",
    look: "ethtool -i eth0",
    ..Knob::FACT
};

pub(crate) static FIRMWARE_VERSION: Knob = Knob {
    name: "firmware_version",
    summary: "The version of the device's firmware",
    read: Read::By(|host, place| answered(host, place, |info| info.firmware)),
    source: "The device's answer to `ETHTOOL_GDRVINFO` (SIOCETHTOOL, ethtool(8)). Left out where the driver \
             does not answer.",
    why: "Firmware decides much of what an adapter does between wire and memory. Two adapters of one model \
          may differ by it.",
    look: "ethtool -i eth0",
    ..Knob::FACT
};

pub(crate) static MTU: Knob = Knob {
    name: "mtu_bytes",
    summary: "The largest packet that the interface sends whole",
    read: Read::Interface("mtu", number),
    why: "A message beyond it is split into several packets. Loopback's 65,536 hides what the same message \
          costs on Ethernet.",
    look: "ip link show dev eth0",
    ..Knob::FACT
};

pub(crate) static SPEED: Knob = Knob {
    name: "link_speed_mbit_per_s",
    summary: "The negotiated rate of the link",
    read: Read::Interface("speed", number_or_none),
    source: "Left out where the link is down or the interface has none. A veth claims 10,000 and is not \
             limited by it.",
    why: "Serialization takes bits divided by this rate: a full frame of 1,538 bytes on the wire takes 12.3 \
          us at 1 Gbit/s and 0.12 us at 100.",
    look: "ethtool eth0",
    ..Knob::FACT
};

pub(crate) static DUPLEX: Knob = Knob {
    name: "duplex",
    summary: "Whether the link carries both directions at once",
    read: Read::Interface("duplex", duplex),
    source: "Left out where unknown.",
    why: "In half duplex the reply has to wait for the medium. On a link that should be full duplex, half \
          means that negotiation failed.",
    look: "ethtool eth0",
    ..Knob::FACT
};

pub(crate) static NUMA_NODE: Knob = Knob {
    name: "interface_numa_node",
    summary: "The NUMA node of the interface's device",
    read: Read::Interface("device/numa_node", number_or_none),
    source: "Left out where the platform does not report it.",
    why: "A core on another node than the device reads every descriptor and packet from further away, some \
          100 ns each.",
    ..Knob::FACT
};

pub(crate) static PCIE_SPEED: Knob = Knob {
    name: "pcie_gt_per_s",
    summary: "Negotiated transfers per second of each PCIe lane of the interface's device, in 10^9",
    read: Read::Interface("device/current_link_speed", transfers),
    source: "2.5 is Gen1, 5 Gen2, 8 Gen3, 16 Gen4, 32 Gen5, 64 Gen6. Left out where the device is not on \
             PCIe or does not report it.",
    why: "Every byte of a frame crosses PCIe once on its way out and once on its way in. A slot that trained \
          to a lower generation than card and board support is a common and silent loss.",
    look: "cat /sys/class/net/eth0/device/current_link_speed /sys/class/net/eth0/device/max_link_speed",
    ..Knob::FACT
};

pub(crate) static PCIE_LANES: Knob = Knob {
    name: "pcie_lanes",
    summary: "Negotiated PCIe lanes of the interface's device",
    read: Read::Interface("device/current_link_width", lanes),
    source: "Left out where the device is not on PCIe or does not report it.",
    why: "A frame's bytes are spread over the lanes: with four instead of eight each byte takes twice as \
          long. An eight-lane card in a slot wired for four works, and is silently slow.",
    look: "cat /sys/class/net/eth0/device/current_link_width /sys/class/net/eth0/device/max_link_width",
    ..Knob::FACT
};

pub(crate) static HARDWARE_TIMESTAMPING: Knob = Knob {
    name: "hardware_timestamping",
    summary: "Which packets the device timestamps, in the kernel's numbers",
    read: Read::Device(Attribute::Stamping, Answer::Text),
    source: "The device's answer to `SIOCGHWTSTAMP`: `tx` is `HWTSTAMP_TX_*`, `rx` is `HWTSTAMP_FILTER_*`, 0 \
             is none. Left out where the driver does not support it.",
    why: "A device that timestamps every packet writes more for each; some disable receive offloads for it.",
    look: "ethtool -T eth0\nhwstamp_ctl -i eth0",
    change: Some(Control {
        network: Network::Own,
        scope: Scope::Interface,
        values: Values::Words(&["on", "ptp", "off"]),
        write: Write::WhereRead { form: Form::Words, encode: stamping_text },
        mechanism: "Whether the device timestamps packets: `on` asks for sent packets whose sender requests \
                    it and for all received ones; `ptp` for PTP's event messages among the received ones, where \
                    a device can do no more.",
        effect: "Off, the device runs at full speed; with all received packets timestamped some devices are \
                 slower, or lose receive offloads.",
        cost: "On: the device writes a timestamp with every packet.",
        risk: "Off stops programs that need the timestamps, such as ptp4l: they ask for them only when they \
               start.",
        needs: "CAP_NET_ADMIN, and a device with a clock.",
        reference: "Documentation/networking/timestamping.rst (SIOCSHWTSTAMP)",
        safe: false,
        ..Control::PLAIN
    }),
    ..Knob::FACT
};

fn interface(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    let Some(name) = place.interface else {
        return Ok(None);
    };
    match interface_directory(place) {
        Some(directory) if host.exists(&directory) => Ok(Some(name.into())),
        _ => Err(format!("/sys/class/net has no interface {name:?}")),
    }
}

/// One field of the driver's own description.
fn answered(host: &dyn Host, place: &Place<'_>, part: fn(DriverInfo) -> Option<String>) -> Result<Option<Value>, String> {
    let Some(interface) = place.interface else {
        return Ok(None);
    };
    let info = unless_gone(host.driver_info(interface).map_err(Into::into))?;
    Ok(info.and_then(part).map(Value::from))
}

/// Virtual interfaces have no device in sysfs, but answer over ethtool; the few drivers that do not answer have one in sysfs.
fn driver(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    let Some(directory) = interface_directory(place) else {
        return Ok(None);
    };
    let named = |info: DriverInfo| Some(info.driver).filter(|driver| !driver.is_empty());
    if let Some(driver) = answered(host, place, named)? {
        return Ok(Some(driver));
    }
    let path = format!("{directory}/device/driver");
    match host.link_target(&path) {
        Err(why) if why.kind() == io::ErrorKind::InvalidInput => Err(format!("{path}: is not a link")),
        answer => Ok(present(&path, answer)?.map(Value::from)),
    }
}

/// `8.0 GT/s PCIe`, `8 GT/s` or `Unknown`, as the kernel's pci_speed_string() writes them.
fn transfers(text: &str) -> Result<Option<Value>, String> {
    match text.trim().split_once(" GT/s") {
        Some((number, _)) => {
            number.parse::<f64>().map(|number| Some(number.into())).map_err(|_| format!("{text:?} is not a speed"))
        }
        None if text.starts_with("Unknown") => Ok(None),
        None => Err(format!("{text:?} is not a speed")),
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

/// `HWTSTAMP_TX_ON` with `HWTSTAMP_FILTER_ALL` or `HWTSTAMP_FILTER_PTP_V2_EVENT`, or neither.
fn stamping_text(value: &str) -> String {
    match value {
        "on" => "tx=1,rx=1,flags=0",
        "ptp" => "tx=1,rx=12,flags=0",
        _ => "tx=0,rx=0,flags=0",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;
    use hairpin_sys::host::FakeHost;
    use serde_json::json;

    const ETH0: Place<'_> = Place { cpus: &[], interface: Some("eth0") };

    #[test]
    fn leaves_out_the_speed_of_a_link_that_is_down_or_virtual() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/sys/class/net/eth0/speed", "-1\n")
            .with("/sys/class/net/eth0/duplex", "unknown\n");
        assert_eq!(SPEED.read(&host, &ETH0), Reading::Absent);
        assert_eq!(DUPLEX.read(&host, &ETH0), Reading::Absent);
        let host = host.with_error("/sys/class/net/eth0/speed", libc::EINVAL);
        assert_eq!(SPEED.read(&host, &ETH0), Reading::Absent);
    }

    #[test]
    fn reads_every_form_of_a_pcie_link() {
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
            let (speed, lanes) = (PCIE_SPEED.read(&host, &ETH0), PCIE_LANES.read(&host, &ETH0));
            match is {
                Some((gt, n)) => assert_eq!((speed, lanes), (Reading::Is(json!(gt)), Reading::Is(json!(n)))),
                None => assert_eq!((speed, lanes), (Reading::Absent, Reading::Absent)),
            }
        }
        let host = FakeHost::at(directory.path()).with("/sys/class/net/eth0/device/current_link_speed", "fast\n");
        assert!(matches!(PCIE_SPEED.read(&host, &ETH0), Reading::Unread(_)));
    }

    #[test]
    fn rejects_an_interface_name_that_leaves_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with("/sys/class/net/eth0/mtu", "1500").with("/sys/class/mtu", "1");
        for name in ["..", ".", "", "../..", "eth0/../eth0", "eth1"] {
            let place = Place { cpus: &[], interface: Some(name) };
            assert!(matches!(INTERFACE.read(&host, &place), Reading::Unread(_)), "{name}");
            assert_eq!(MTU.read(&host, &place), Reading::Absent, "{name}");
        }
    }
}
