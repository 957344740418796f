//! The device behind the interface, as it answers over ethtool: driver, rings, coalescing, offloads.

use std::io;

use hairpin_sys::ethtool::{Coalesce, DriverInfo, EthtoolError, Offloads, Rings};
use hairpin_sys::host::Host;
use serde_json::Value;

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
    Rings(fn(Rings) -> u32),
    Coalesce(fn(Coalesce) -> u32),
    Adaptive(fn(Coalesce) -> bool),
    Offload(fn(Offloads) -> Option<bool>),
}

impl Question {
    fn ask(&self, host: &dyn Host, interface: &str) -> Result<Option<Value>, EthtoolError> {
        Ok(match self {
            Question::Driver(part) => host.driver_info(interface)?.and_then(part).map(Value::from),
            Question::Rings(part) => host.rings(interface)?.map(part).map(Value::from),
            Question::Coalesce(part) => host.coalesce(interface)?.map(part).map(Value::from),
            Question::Adaptive(part) => host.coalesce(interface)?.map(part).map(Value::from),
            Question::Offload(part) => part(host.offloads(interface)?).map(Value::from),
        })
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
}

/// An interface that does not exist has no settings: that it is missing is said once, by `interface`.
fn answered(answer: Result<Option<Value>, EthtoolError>) -> Result<Option<Value>, String> {
    match answer {
        Ok(value) => Ok(value),
        Err(EthtoolError::Refused { source, .. }) if source.raw_os_error() == Some(ENODEV) => Ok(None),
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
    Answer { name: "rx_ring_entries", summary: "Descriptors of each receive queue", of: Question::Rings(|rings| rings.rx) };

pub(crate) static TX_RING_ENTRIES: Answer =
    Answer { name: "tx_ring_entries", summary: "Descriptors of each transmit queue", of: Question::Rings(|rings| rings.tx) };

pub(crate) static RX_USECS: Answer = Answer {
    name: "rx_usecs",
    summary: "How long the device may wait after a received packet before it interrupts",
    of: Question::Coalesce(|coalesce| coalesce.rx_usecs),
};

pub(crate) static RX_FRAMES: Answer = Answer {
    name: "rx_frames",
    summary: "Received packets after which the device waits no longer; 0 is no such bound",
    of: Question::Coalesce(|coalesce| coalesce.rx_frames),
};

pub(crate) static TX_USECS: Answer = Answer {
    name: "tx_usecs",
    summary: "How long the device may wait after a sent packet before it interrupts",
    of: Question::Coalesce(|coalesce| coalesce.tx_usecs),
};

pub(crate) static TX_FRAMES: Answer = Answer {
    name: "tx_frames",
    summary: "Sent packets after which the device waits no longer; 0 is no such bound",
    of: Question::Coalesce(|coalesce| coalesce.tx_frames),
};

pub(crate) static ADAPTIVE_RX: Answer = Answer {
    name: "adaptive_rx",
    summary: "Whether the driver varies receive coalescing by load",
    of: Question::Adaptive(|coalesce| coalesce.adaptive_rx),
};

pub(crate) static ADAPTIVE_TX: Answer = Answer {
    name: "adaptive_tx",
    summary: "Whether the driver varies transmit coalescing by load",
    of: Question::Adaptive(|coalesce| coalesce.adaptive_tx),
};

pub(crate) static GRO: Answer = Answer {
    name: "gro",
    summary: "Whether the kernel joins received segments before the stack (generic receive offload)",
    of: Question::Offload(|offloads| offloads.gro),
};

pub(crate) static GSO: Answer = Answer {
    name: "gso",
    summary: "Whether the kernel cuts segments only just before the device (generic segmentation offload)",
    of: Question::Offload(|offloads| offloads.gso),
};

pub(crate) static TSO: Answer = Answer {
    name: "tso",
    summary: "Whether the device cuts TCP segments (TCP segmentation offload)",
    of: Question::Offload(|offloads| offloads.tso),
};

pub(crate) static LRO: Answer = Answer {
    name: "lro",
    summary: "Whether the device joins received segments (large receive offload)",
    of: Question::Offload(|offloads| offloads.lro),
};

pub(crate) static SCATTER_GATHER: Answer = Answer {
    name: "scatter_gather",
    summary: "Whether the device sends packets from several pieces of memory",
    of: Question::Offload(|offloads| offloads.scatter_gather),
};

pub(crate) static RX_CHECKSUM: Answer = Answer {
    name: "rx_checksum",
    summary: "Whether the device verifies checksums of received packets",
    of: Question::Offload(|offloads| offloads.rx_checksum),
};

pub(crate) static TX_CHECKSUM: Answer = Answer {
    name: "tx_checksum",
    summary: "Whether the device computes checksums of sent packets",
    of: Question::Offload(|offloads| offloads.tx_checksum),
};
