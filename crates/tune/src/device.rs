//! The device behind the interface, as it answers over ethtool: driver, rings, coalescing, offloads.

use std::io;

use hairpin_sys::device::{Attribute, DeviceError};
use hairpin_sys::ethtool::DriverInfo;
use hairpin_sys::host::Host;
use serde_json::Value;

use crate::control::Spot;
use crate::reading::{interface_directory, present};
use crate::{Knob, Place, Reading};

/// A knob that is one of the device's answers.
pub(crate) struct Answer {
    name: &'static str,
    summary: &'static str,
    of: Question,
}

/// What is asked, and the part of the answer that is the fact.
enum Question {
    Driver(fn(DriverInfo) -> Option<String>),
    Number(Attribute),
    Flag(Attribute),
    Text(Attribute),
}

impl Question {
    fn ask(&self, host: &dyn Host, interface: &str) -> Result<Option<Value>, DeviceError> {
        let text = |attribute: Attribute| host.attribute(interface, attribute);
        Ok(match self {
            Question::Driver(part) => host.driver_info(interface)?.and_then(part).map(Value::from),
            // Instances that differ are told apart in the text.
            Question::Number(attribute) => {
                text(*attribute)?.map(|text| text.parse::<u64>().map_or_else(|_| text.into(), Value::from))
            }
            Question::Flag(attribute) => text(*attribute)?.map(|text| Value::from(text == "on")),
            Question::Text(attribute) => text(*attribute)?.map(Value::from),
        })
    }

    fn attribute(&self) -> Option<Attribute> {
        match self {
            Question::Driver(_) => None,
            Question::Number(attribute) | Question::Flag(attribute) | Question::Text(attribute) => Some(*attribute),
        }
    }
}

impl Knob for Answer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        let Some(interface) = place.interface else {
            return Reading::Absent;
        };
        answered(self.of.ask(host, interface)).into()
    }

    fn spots(&self, host: &dyn Host, place: &Place<'_>) -> Result<Vec<Spot>, String> {
        let (Some(interface), Some(attribute)) = (place.interface, self.of.attribute()) else {
            return Ok(Vec::new());
        };
        let there = answered(host.attribute(interface, attribute))?.is_some();
        Ok(if there { vec![Spot::Device(interface.to_owned(), attribute)] } else { Vec::new() })
    }
}

/// An interface that does not exist has no settings: that it is missing is said once, by `interface`.
fn answered<T>(answer: Result<Option<T>, DeviceError>) -> Result<Option<T>, String> {
    match answer {
        Ok(value) => Ok(value),
        Err(why) if why.errno() == Some(ENODEV) => Ok(None),
        Err(why) => Err(why.to_string()),
    }
}

/// No such device, the same number on every architecture (`include/uapi/asm-generic/errno-base.h`).
const ENODEV: i32 = 19;

/// The interface's driver.
pub(crate) struct Driver;

impl Knob for Driver {
    fn name(&self) -> &'static str {
        "driver"
    }

    fn summary(&self) -> &'static str {
        "The kernel driver of the interface"
    }

    fn probe(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        driver(host, place).into()
    }
}

/// Virtual interfaces have no device in sysfs and answer over ethtool; the few drivers that do not answer have one in sysfs.
fn driver(host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
    let (Some(interface), Some(directory)) = (place.interface, interface_directory(place)) else {
        return Ok(None);
    };
    let named = |info: DriverInfo| Some(info.driver).filter(|driver| !driver.is_empty());
    if let Some(driver) = answered(Question::Driver(named).ask(host, interface))? {
        return Ok(Some(driver));
    }
    let path = format!("{directory}/device/driver");
    match host.link_target(&path) {
        Err(why) if why.kind() == io::ErrorKind::InvalidInput => Err(format!("{path}: is no link")),
        answer => Ok(present(&path, answer)?.map(Value::from)),
    }
}

pub(crate) static DRIVER_VERSION: Answer = Answer {
    name: "driver_version",
    summary: "The version the driver calls itself; for drivers of the kernel tree that of the kernel",
    of: Question::Driver(|info| info.version),
};

pub(crate) static FIRMWARE_VERSION: Answer = Answer {
    name: "firmware_version",
    summary: "The version of the device's firmware",
    of: Question::Driver(|info| info.firmware),
};

pub(crate) static RX_RING_ENTRIES: Answer =
    Answer { name: "rx_ring_entries", summary: "Descriptors of each receive queue", of: Question::Number(Attribute::RxRing) };

pub(crate) static TX_RING_ENTRIES: Answer =
    Answer { name: "tx_ring_entries", summary: "Descriptors of each transmit queue", of: Question::Number(Attribute::TxRing) };

pub(crate) static RX_USECS: Answer = Answer {
    name: "rx_usecs",
    summary: "How long the device may wait after a received packet before it interrupts",
    of: Question::Number(Attribute::RxUsecs),
};

pub(crate) static RX_FRAMES: Answer = Answer {
    name: "rx_frames",
    summary: "Received packets after which the device waits no longer; 0 is no such bound",
    of: Question::Number(Attribute::RxFrames),
};

pub(crate) static TX_USECS: Answer = Answer {
    name: "tx_usecs",
    summary: "How long the device may wait after a sent packet before it interrupts",
    of: Question::Number(Attribute::TxUsecs),
};

pub(crate) static TX_FRAMES: Answer = Answer {
    name: "tx_frames",
    summary: "Sent packets after which the device waits no longer; 0 is no such bound",
    of: Question::Number(Attribute::TxFrames),
};

pub(crate) static ADAPTIVE_RX: Answer = Answer {
    name: "adaptive_rx",
    summary: "Whether the driver varies receive coalescing by load",
    of: Question::Flag(Attribute::AdaptiveRx),
};

pub(crate) static ADAPTIVE_TX: Answer = Answer {
    name: "adaptive_tx",
    summary: "Whether the driver varies transmit coalescing by load",
    of: Question::Flag(Attribute::AdaptiveTx),
};

pub(crate) static GRO: Answer = Answer {
    name: "gro",
    summary: "Whether the kernel joins received segments before the stack (generic receive offload)",
    of: Question::Flag(Attribute::Gro),
};

pub(crate) static GSO: Answer = Answer {
    name: "gso",
    summary: "Whether the kernel cuts segments only just before the device (generic segmentation offload)",
    of: Question::Flag(Attribute::Gso),
};

pub(crate) static TSO: Answer = Answer {
    name: "tso",
    summary: "Whether the device cuts TCP segments (TCP segmentation offload)",
    of: Question::Flag(Attribute::Tso),
};

pub(crate) static LRO: Answer = Answer {
    name: "lro",
    summary: "Whether the device joins received segments (large receive offload)",
    of: Question::Flag(Attribute::Lro),
};

pub(crate) static SCATTER_GATHER: Answer = Answer {
    name: "scatter_gather",
    summary: "Whether the device sends packets from several pieces of memory",
    of: Question::Flag(Attribute::ScatterGather),
};

pub(crate) static RX_CHECKSUM: Answer = Answer {
    name: "rx_checksum",
    summary: "Whether the device verifies checksums of received packets",
    of: Question::Flag(Attribute::RxChecksum),
};

pub(crate) static TX_CHECKSUM: Answer = Answer {
    name: "tx_checksum",
    summary: "Whether the device computes checksums of sent packets",
    of: Question::Flag(Attribute::TxChecksum),
};

pub(crate) static COMBINED_CHANNELS: Answer = Answer {
    name: "combined_channels",
    summary: "Queues of the device that receive and send",
    of: Question::Number(Attribute::CombinedChannels),
};

pub(crate) static HARDWARE_TIMESTAMPING: Answer = Answer {
    name: "hardware_timestamping",
    summary: "Which packets the device stamps, in the kernel's numbers",
    of: Question::Text(Attribute::Stamping),
};

pub(crate) static IRQ_SUSPEND_TIMEOUT: Answer = Answer {
    name: "irq_suspend_timeout_ns",
    summary: "How long interrupts stay off at most while an application busy-polls and finds packets",
    of: Question::Number(Attribute::IrqSuspendTimeout),
};

pub(crate) static QDISC: Answer =
    Answer { name: "qdisc", summary: "The queueing discipline at the interface's root", of: Question::Text(Attribute::Qdisc) };

pub(crate) static QUICKACK_ROUTES: Answer = Answer {
    name: "quickack_routes",
    summary: "Whether ACKs of connections over the interface's IPv4 routes are sent at once",
    of: Question::Text(Attribute::QuickAck),
};
