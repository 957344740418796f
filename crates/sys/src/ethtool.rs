//! Client of the ethtool ioctl: a network device's driver, interrupt coalescing, queues, rings and offloads.
//!
//! Every reader returns `None` if the device lacks the feature (EOPNOTSUPP): that is a fact, not an error. Values are set one at
//! a time: the others of the same structure are read first and written back unchanged.
//!
//! Sources: `include/uapi/linux/ethtool.h`, `net/ethtool/ioctl.c`, ethtool(8), netdevice(7).

mod claims;
mod uapi;

use std::ffi::c_char;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

pub use claims::{Claims, Event, Filter, Layer};
use uapi::Request;

/// Error of an ethtool call.
#[derive(Debug, thiserror::Error)]
pub enum EthtoolError {
    /// No socket could be opened.
    #[error("cannot open a socket for ethtool: {0}")]
    Open(#[source] io::Error),
    /// The kernel or the driver refused.
    #[error("cannot {operation} of {interface}: {source}{}", remedy(.source))]
    Refused {
        /// The attempted operation, such as "read the coalescing".
        operation: &'static str,
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel accepted the setting but did not apply it: the device's features are fixed, or depend on others.
    #[error("asked {interface} for {feature} {}, but it stays {}", on_off(*.asked), on_off(!*.asked))]
    NotTaken {
        /// The feature, such as "gro".
        feature: &'static str,
        interface: String,
        /// The requested state.
        asked: bool,
    },
}

fn remedy(source: &io::Error) -> &'static str {
    if source.raw_os_error() == Some(libc::EPERM) { ": needs CAP_NET_ADMIN in the interface's namespace" } else { "" }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Driver of an interface; fields that the driver leaves empty are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// The driver's name, such as `mlx5_core` or `veth`.
    pub driver: String,
    /// The driver's version; for drivers in the kernel tree usually the kernel's.
    pub version: Option<String>,
    /// The device's firmware.
    pub firmware: Option<String>,
    /// The device's address on its bus, such as `0000:3b:00.0`.
    pub bus: Option<String>,
}

/// Interrupt coalescing: how a device gathers packets before it raises an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// Longest delay after a received packet in microseconds.
    pub rx_usecs: u32,
    /// Number of received packets after which it stops waiting; 0: no such limit.
    pub rx_frames: u32,
    /// Longest delay after a sent packet in microseconds.
    pub tx_usecs: u32,
    /// Number of sent packets after which it stops waiting; 0: no such limit.
    pub tx_frames: u32,
    /// True if the driver adjusts the receive values to the load.
    pub adaptive_rx: bool,
    /// True if the driver adjusts the transmit values to the load.
    pub adaptive_tx: bool,
}

/// Queues of each kind, in use and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Queues that only receive.
    pub rx: u32,
    /// Queues that only transmit.
    pub tx: u32,
    /// Queues that do both.
    pub combined: u32,
    /// Largest `rx` that the device supports.
    pub max_rx: u32,
    /// Largest `tx` that the device supports.
    pub max_tx: u32,
    /// Largest `combined` that the device supports.
    pub max_combined: u32,
}

/// Descriptors per queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Receive descriptors.
    pub rx: u32,
    /// Transmit descriptors.
    pub tx: u32,
    /// Largest `rx` that the device supports.
    pub max_rx: u32,
    /// Largest `tx` that the device supports.
    pub max_tx: u32,
}

/// State of each offload; `None` if the kernel does not report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Checksums of received packets verified by the device.
    pub rx_checksum: Option<bool>,
    /// Checksums of sent packets computed by the device.
    pub tx_checksum: Option<bool>,
    /// Packets sent from several pieces of memory.
    pub scatter_gather: Option<bool>,
    /// TCP segmentation by the device, for any of NETIF_F_ALL_TSO. Newer kernels keep AccECN segmentation separate, so `ethtool
    /// -k` may print `tcp-segmentation-offload: on` for a device whose other `tx-tcp*-segmentation` are off.
    pub tso: Option<bool>,
    /// Segmentation by the kernel just before the device.
    pub gso: Option<bool>,
    /// Received segments joined by the kernel.
    pub gro: Option<bool>,
    /// Received segments joined by the device.
    pub lro: Option<bool>,
}

/// Hardware timestamping of a device, in the kernel's numbers (`include/uapi/linux/net_tstamp.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamping {
    /// Flags, as read.
    pub flags: i32,
    /// `HWTSTAMP_TX_*`: 0 none, 1 packets whose sender asks for a timestamp.
    pub tx_type: i32,
    /// `HWTSTAMP_FILTER_*`: 0 none, 1 all, others by protocol.
    pub rx_filter: i32,
}

/// A socket for queries about the devices of one network namespace: that of the process at the time of opening.
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens a socket in the calling thread's current network namespace.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub fn open() -> Result<Ethtool, EthtoolError> {
        socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map(|socket| Ethtool { socket })
            .map_err(|e| EthtoolError::Open(e.into()))
    }

    /// Reads the interface's driver.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn driver_info(&self, interface: &str) -> Result<Option<DriverInfo>, EthtoolError> {
        let info = self.read("read the driver", interface, uapi::DriverInfo::get())?;
        Ok(info.map(|info| DriverInfo {
            driver: until_nul(&info.driver).unwrap_or_default(),
            version: until_nul(&info.version),
            firmware: until_nul(&info.fw_version),
            bus: until_nul(&info.bus_info),
        }))
    }

    /// Reads the device's interrupt coalescing.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn coalesce(&self, interface: &str) -> Result<Option<Coalesce>, EthtoolError> {
        let coalesce = self.read("read the coalescing", interface, uapi::Coalesce::get())?;
        Ok(coalesce.map(|c| c.read()))
    }

    /// Reads the number of queues the device uses.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn channels(&self, interface: &str) -> Result<Option<Channels>, EthtoolError> {
        let channels = self.read("read the channels", interface, uapi::Channels::get())?;
        Ok(channels.map(|c| c.read()))
    }

    /// Reads the number of descriptors in the device's queues.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn rings(&self, interface: &str) -> Result<Option<Rings>, EthtoolError> {
        let rings = self.read("read the rings", interface, uapi::RingParameters::get())?;
        Ok(rings.map(|r| r.read()))
    }

    /// Reads the state of the offloads.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn offloads(&self, interface: &str) -> Result<Offloads, EthtoolError> {
        let state = |command| self.value(interface, command).map(|value| value.map(|value| value != 0));
        Ok(Offloads {
            rx_checksum: state(uapi::GRXCSUM)?,
            tx_checksum: state(uapi::GTXCSUM)?,
            scatter_gather: state(uapi::GSG)?,
            tso: state(uapi::GTSO)?,
            gso: state(uapi::GGSO)?,
            gro: state(uapi::GGRO)?,
            lro: self.value(interface, uapi::GFLAGS)?.map(|flags| flags & uapi::FLAG_LRO != 0),
        })
    }

    /// Turns generic receive offload on or off, and reads it back.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), CAP_NET_ADMIN is missing (EPERM), or the device does not follow.
    pub fn set_gro(&self, interface: &str, on: bool) -> Result<(), EthtoolError> {
        self.set("gro", "set the gro", interface, (uapi::SGRO, uapi::GGRO), on)
    }

    /// Turns TCP segmentation offload on or off, and reads it back.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), CAP_NET_ADMIN is missing (EPERM), or the device does not follow.
    pub fn set_tso(&self, interface: &str, on: bool) -> Result<(), EthtoolError> {
        self.set("tso", "set the tso", interface, (uapi::STSO, uapi::GTSO), on)
    }

    /// Changes one coalescing value.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), the device lacks the value or refuses it, or CAP_NET_ADMIN is missing (EPERM).
    pub fn set_coalesce(&self, interface: &str, change: impl FnOnce(&mut Coalesce)) -> Result<(), EthtoolError> {
        let mut raw = self.ask("read the coalescing", interface, uapi::Coalesce::get())?;
        let mut coalesce = raw.read();
        change(&mut coalesce);
        raw.write(&coalesce);
        self.ask("set the coalescing", interface, raw).map(drop)
    }

    /// Changes one ring size.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), the device lacks the ring or refuses the size, or CAP_NET_ADMIN is missing (EPERM).
    pub fn set_rings(&self, interface: &str, change: impl FnOnce(&mut Rings)) -> Result<(), EthtoolError> {
        let mut raw = self.ask("read the rings", interface, uapi::RingParameters::get())?;
        let mut rings = raw.read();
        change(&mut rings);
        raw.write(&rings);
        self.ask("set the rings", interface, raw).map(drop)
    }

    /// Changes the number of queues of one kind.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), the device does not support it or refuses the number, or CAP_NET_ADMIN is missing
    /// (EPERM).
    pub fn set_channels(&self, interface: &str, change: impl FnOnce(&mut Channels)) -> Result<(), EthtoolError> {
        let mut raw = self.ask("read the channels", interface, uapi::Channels::get())?;
        let mut channels = raw.read();
        change(&mut channels);
        raw.write(&channels);
        self.ask("set the channels", interface, raw).map(drop)
    }

    /// Turns generic segmentation offload on or off, and reads it back.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), CAP_NET_ADMIN is missing (EPERM), or the device does not follow.
    pub fn set_gso(&self, interface: &str, on: bool) -> Result<(), EthtoolError> {
        self.set("gso", "set the gso", interface, (uapi::SGSO, uapi::GGSO), on)
    }

    /// Turns large receive offload on or off, and reads it back.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), CAP_NET_ADMIN is missing (EPERM), or the device does not follow.
    pub fn set_lro(&self, interface: &str, on: bool) -> Result<(), EthtoolError> {
        let flags = self.ask("read the offloads", interface, uapi::Value { cmd: uapi::GFLAGS, data: 0 })?.data;
        let data = if on { flags | uapi::FLAG_LRO } else { flags & !uapi::FLAG_LRO };
        self.ask("set the lro", interface, uapi::Value { cmd: uapi::SFLAGS, data })?;
        match self.offloads(interface)?.lro {
            Some(state) if state == on => Ok(()),
            _ => Err(EthtoolError::NotTaken { feature: "lro", interface: interface.to_owned(), asked: on }),
        }
    }

    /// Reads the device's claims about its stamps; `None` if it makes none.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn claims(&self, interface: &str) -> Result<Option<Claims>, EthtoolError> {
        let info = self.read("read the stamps", interface, uapi::StampsInfo::get())?;
        Ok(info.map(|info| Claims::new(info.so_timestamping, info.phc_index, info.tx_types, info.rx_filters)))
    }

    /// Reads which packets the device stamps; `None` if it has no timestamps.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn stamping(&self, interface: &str) -> Result<Option<Stamping>, EthtoolError> {
        let mut config = uapi::HwtstampConfig::default();
        match self.ioctl_of(uapi::SIOCGHWTSTAMP, interface, &mut config) {
            Ok(()) => Ok(Some(Stamping { flags: config.flags, tx_type: config.tx_type, rx_filter: config.rx_filter })),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY)) => Ok(None),
            Err(source) => Err(refused("read the hardware stamping", interface, source)),
        }
    }

    /// Sets which packets the device stamps. A device may stamp more than requested: read it back.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), the device does not support it (ERANGE), or CAP_NET_ADMIN is missing (EPERM).
    pub fn set_stamping(&self, interface: &str, stamping: Stamping) -> Result<(), EthtoolError> {
        let Stamping { flags, tx_type, rx_filter } = stamping;
        let mut config = uapi::HwtstampConfig { flags, tx_type, rx_filter };
        let answer = self.ioctl_of(uapi::SIOCSHWTSTAMP, interface, &mut config);
        answer.map_err(|source| refused("set the hardware stamping", interface, source))
    }

    fn set(
        &self,
        feature: &'static str,
        operation: &'static str,
        interface: &str,
        (set, get): (u32, u32),
        on: bool,
    ) -> Result<(), EthtoolError> {
        let mut value = uapi::Value { cmd: set, data: u32::from(on) };
        self.ioctl(interface, &mut value).map_err(|source| EthtoolError::Refused {
            operation,
            interface: interface.to_owned(),
            source,
        })?;
        // The kernel answers 0 even if the feature is fixed.
        match self.value(interface, get)? {
            Some(state) if (state != 0) == on => Ok(()),
            _ => Err(EthtoolError::NotTaken { feature, interface: interface.to_owned(), asked: on }),
        }
    }

    fn value(&self, interface: &str, command: u32) -> Result<Option<u32>, EthtoolError> {
        let value = self.read("read the offloads", interface, uapi::Value { cmd: command, data: 0 })?;
        Ok(value.map(|value| value.data))
    }

    /// Sends a request; a device that lacks the feature is an error.
    fn ask<T: Request>(&self, operation: &'static str, interface: &str, mut request: T) -> Result<T, EthtoolError> {
        self.ioctl(interface, &mut request).map_err(|source| refused(operation, interface, source))?;
        Ok(request)
    }

    /// Sends a read request; `None` if the device lacks the feature.
    fn read<T: Request>(&self, operation: &'static str, interface: &str, mut request: T) -> Result<Option<T>, EthtoolError> {
        match self.ioctl(interface, &mut request) {
            Ok(()) => Ok(Some(request)),
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(source) => Err(EthtoolError::Refused { operation, interface: interface.to_owned(), source }),
        }
    }

    fn ioctl<T: Request>(&self, interface: &str, request: &mut T) -> io::Result<()> {
        self.ioctl_of(libc::SIOCETHTOOL as _, interface, request)
    }

    fn ioctl_of<T: Request>(&self, number: u32, interface: &str, request: &mut T) -> io::Result<()> {
        let mut ifr_name = [0 as c_char; libc::IFNAMSIZ];
        if interface.is_empty() || interface.len() >= libc::IFNAMSIZ || interface.contains('\0') {
            // The kernel's error for an interface that cannot exist.
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as c_char;
        }
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: std::ptr::from_mut(request).cast() };
        let mut ifreq = libc::ifreq { ifr_name, ifr_ifru };
        // SAFETY: SIOCETHTOOL takes an ifreq whose name ends in a NUL and whose data points at the structure of the command in
        // its first field, SIOC[GS]HWTSTAMP one whose data points at a hwtstamp_config; `Request` promises that T is that
        // structure, and it is borrowed mutably for the call's length.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), number as _, &mut ifreq) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

fn refused(operation: &'static str, interface: &str, source: io::Error) -> EthtoolError {
    EthtoolError::Refused { operation, interface: interface.to_owned(), source }
}

/// The text up to the first NUL; `None` if it is empty.
fn until_nul(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_offloads_and_no_driver_coalescing_or_rings() {
        let ethtool = Ethtool::open().unwrap();
        assert!(ethtool.offloads("lo").unwrap().gso.is_some());
        assert_eq!(ethtool.driver_info("lo").unwrap(), None);
        assert_eq!(ethtool.coalesce("lo").unwrap(), None);
        assert_eq!(ethtool.rings("lo").unwrap(), None);
        assert_eq!(ethtool.channels("lo").unwrap(), None);
    }

    #[test]
    fn loopback_claims_the_kernels_stamps_and_no_clock() {
        let claims =
            Ethtool::open().unwrap().claims("lo").unwrap().expect("the kernel answers for devices without a driver's answer");
        assert_eq!(
            (claims.software_in(), claims.hardware_out(), claims.hardware_in(), claims.clock()),
            (true, false, false, None)
        );
        assert!(Ethtool::open().unwrap().claims("hp-missing").is_err());
    }

    #[test]
    fn a_missing_interface_is_an_error_that_names_it() {
        let ethtool = Ethtool::open().unwrap();
        let error = ethtool.coalesce("hp-missing").unwrap_err().to_string();
        assert_eq!(error, "cannot read the coalescing of hp-missing: No such device (os error 19)");
        for impossible in ["", "a-name-that-is-too-long", "nul\0nul"] {
            assert!(ethtool.offloads(impossible).is_err(), "{impossible:?}");
        }
    }

    #[test]
    fn empty_driver_texts_are_none() {
        assert_eq!(until_nul(b"veth\0junk"), Some("veth".to_owned()));
        assert_eq!(until_nul(&[0; 32]), None);
    }
}
