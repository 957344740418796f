//! One value of the host, wherever it is stored: read, written, read back and put back.
//!
//! ```text
//!   Address ── read ──► from ── write to, read back ──► applied, or Refused { wanted, got }
//!      │                                    read ──► still `to`? ── write from, read back ──► reverted
//!      ├ File        a file of /proc/sys, /sys or /proc/irq
//!      ├ Device      a setting of a network device, over ethtool or netlink
//!      ├ Napi        a setting of one of its NAPI instances, over netlink
//!      ├ Held        a demand that lasts while a process keeps a file open; never in the journal
//!      └ Controller, Partition      a cgroup that reserves CPUs
//! ```
//! Values are text, as the host reads and writes them.

use std::fmt;
use std::io;

use hairpin_sys::capability::Capability;
use hairpin_sys::device::{Attribute, DeviceError};
use hairpin_sys::host::{Held, Host};
use hairpin_sys::napi::{self, NapiSetting};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cpulist;
use crate::reading::bracketed;

/// The controllers of the root cgroup: it exists where cgroup v2 is mounted (Documentation/admin-guide/cgroup-v2.rst).
pub(crate) const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";
/// Hairpin's cgroup, directly below the root because a partition's parent must be one.
pub(crate) const PARTITION: &str = "/sys/fs/cgroup/hairpin.isolated";

/// Format of a value in a file's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The whole text, or words separated by any blanks.
    Words,
    /// The word in brackets: `always [madvise] never`.
    Choice,
    /// A mask of CPUs: `00000000,00000003`.
    CpuMask,
    /// A list of CPUs: `0-1`.
    CpuList,
}

impl Form {
    /// True if both texts represent the same value.
    fn same(self, one: &str, other: &str) -> bool {
        let cpus = |parse: fn(&str) -> Result<Vec<u32>, String>| match (parse(one), parse(other)) {
            (Ok(one), Ok(other)) => one == other,
            _ => one.trim() == other.trim(),
        };
        match self {
            Form::Words | Form::Choice => one.split_whitespace().eq(other.split_whitespace()),
            Form::CpuMask => cpus(cpulist::parse_mask),
            Form::CpuList => cpus(cpulist::parse),
        }
    }
}

/// Storage place of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    File {
        path: String,
        form: Form,
    },
    Device {
        interface: String,
        #[serde(serialize_with = "attribute_name", deserialize_with = "attribute_of_name")]
        attribute: Attribute,
    },
    Napi {
        interface: String,
        #[serde(serialize_with = "napi_name", deserialize_with = "napi_of_name")]
        setting: NapiSetting,
        /// The instance's name, which stays when the interface is set up again.
        instance: String,
    },
    /// A file that is kept open with four bytes written to it, such as /dev/cpu_dma_latency.
    Held {
        path: String,
    },
    /// Whether a cgroup's children have the controller `cpuset`: `on` or `off`.
    Controller {
        /// The cgroup's file `cgroup.subtree_control`.
        path: String,
    },
    /// The CPUs that a cgroup of its own reserves, or `none` if it does not exist.
    Partition {
        /// The cgroup's directory.
        path: String,
    },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::File { path, .. } | Address::Held { path } | Address::Controller { path } | Address::Partition { path } => {
                f.write_str(path)
            }
            Address::Device { interface, attribute } => write!(f, "{} of {interface}", attribute.name()),
            Address::Napi { interface, setting, instance } => write!(f, "{} of {interface} {instance}", setting.name()),
        }
    }
}

fn attribute_name<S: Serializer>(attribute: &Attribute, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(attribute.name())
}

fn attribute_of_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attribute, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(|()| serde::de::Error::custom(format!("{name:?} is not a setting of a device")))
}

fn napi_name<S: Serializer>(setting: &NapiSetting, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(setting.name())
}

fn napi_of_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NapiSetting, D::Error> {
    let name = String::deserialize(deserializer)?;
    let found = NapiSetting::ALL.into_iter().find(|setting| setting.name() == name);
    found.ok_or_else(|| serde::de::Error::custom(format!("{name:?} is not a setting of a NAPI instance")))
}

/// One value to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The knob's name.
    pub knob: String,
    pub address: Address,
    /// The present text.
    pub from: String,
    /// The text to write.
    pub to: String,
}

/// Why a value was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The place does not exist, or no longer exists.
    #[error("{place} does not exist")]
    Gone { place: String },
    /// The interface has another name now.
    #[error("{place}: the interface is called {now} now, and has kept this value: rename it back")]
    Renamed { place: String, now: String },
    /// The interface does not have this NAPI instance now.
    #[error(
        "{place}: there is no such NAPI instance now (the interface is down, or has fewer queues), and it may come back with this value"
    )]
    NoInstance { place: String },
    /// A permission is missing.
    #[error("{what}; {remedy}")]
    Denied {
        /// The attempted change, and the kernel's answer.
        what: String,
        remedy: &'static str,
    },
    /// The kernel or the device has another value after the write.
    #[error("{place}: wanted {wanted}, but it is {got}{}", why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default())]
    Refused {
        place: String,
        wanted: String,
        got: String,
        /// The kernel's error, if any.
        why: Option<String>,
    },
    /// The value is neither Hairpin's nor the old one, and is left alone.
    #[error("{place}: another program changed it since, to {now}, and it is left so; it was {from}")]
    Changed { place: String, now: String, from: String },
    /// The value could not be read or written for another reason.
    #[error("{0}")]
    Failed(String),
}

const AS_ROOT: &str = "run as root";
const AS_ADMIN: &str = "run as root, or with CAP_NET_ADMIN in this network namespace";
const AS_ROOT_OUTSIDE: &str = "run as root of the host: the kernel asks for CAP_NET_ADMIN outside of any user namespace";
const NOT_HERE: &str =
    "root may not change it in this network namespace either: if it can be changed at all, then in the initial one";
const READ_ONLY: &str = "it is mounted read-only here, as in most containers: run on the host itself";
const NOT_EVEN_ROOT: &str = "root may not set it here: the kernel or the firmware bars it, or this container lacks a capability";

/// True if root was refused with EPERM.
fn is_refused_to_root(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) && rustix::process::geteuid().is_root()
}

/// The advice where a change of a network setting was denied.
fn remedy_of_network(is_admin: bool) -> &'static str {
    if is_admin { NOT_HERE } else { AS_ADMIN }
}

impl Trouble {
    fn of_io(place: &Address, verb: &str, error: &io::Error) -> Trouble {
        let what = format!("cannot {verb} {place}: {error}");
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Trouble::Gone { place: place.to_string() },
            // The file was opened, so the right is there, and this value is refused, as turbo that the firmware has off.
            io::ErrorKind::PermissionDenied if verb == "write" && !place.is_of_network_admin() && is_refused_to_root(error) => {
                Trouble::Failed(format!("{what}; {NOT_EVEN_ROOT}"))
            }
            io::ErrorKind::PermissionDenied => {
                let of_network = || remedy_of_network(Capability::NetAdmin.is_effective());
                Trouble::Denied { what, remedy: if place.is_of_network_admin() { of_network() } else { AS_ROOT } }
            }
            io::ErrorKind::ReadOnlyFilesystem => Trouble::Denied { what, remedy: READ_ONLY },
            // The answer of sysfs if an interface was removed while its file was open.
            _ if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                Trouble::Gone { place: place.to_string() }
            }
            _ => Trouble::Failed(what),
        }
    }

    fn of_device(place: &Address, error: &DeviceError) -> Trouble {
        if let DeviceError::NoNapi { .. } = error {
            return Trouble::NoInstance { place: place.to_string() };
        }
        match error.errno().map(io::Error::from_raw_os_error) {
            Some(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                let is_admin = Capability::NetAdmin.is_effective();
                let remedy = if matches!(place, Address::Napi { .. }) { AS_ROOT_OUTSIDE } else { remedy_of_network(is_admin) };
                Trouble::Denied { what: error.to_string(), remedy }
            }
            Some(source) if source.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                Trouble::Gone { place: place.to_string() }
            }
            _ => Trouble::Failed(error.to_string()),
        }
    }
}

impl Address {
    /// True if a value lasts only as long as the process that holds it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self, Address::Held { .. })
    }

    /// True if CAP_NET_ADMIN may write here, without being root.
    fn is_of_network_admin(&self) -> bool {
        match self {
            Address::Device { .. } | Address::Napi { .. } => true,
            Address::File { path, .. } => path.starts_with("/proc/sys/net/") || path.starts_with("/sys/class/net/"),
            _ => false,
        }
    }

    /// True if Hairpin may write here. A journal that names any other place was not written by Hairpin.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        let (Address::File { path, .. } | Address::Held { path } | Address::Controller { path } | Address::Partition { path }) =
            self
        else {
            return true;
        };
        let below = ["/proc/sys/", "/proc/irq/", "/sys/", "/dev/cpu_dma_latency"].iter().any(|root| path.starts_with(root));
        below && !path.split('/').any(|part| part == "..")
    }

    /// True if both texts represent the same value.
    #[must_use]
    pub fn same(&self, one: &str, other: &str) -> bool {
        match self {
            Address::File { form, .. } => form.same(one, other),
            Address::Partition { .. } => Form::CpuList.same(one, other),
            // Only the first word counts: `default` is followed by the qdisc that the kernel chose.
            Address::Device { attribute: Attribute::Qdisc, .. } => one.split(' ').next() == other.split(' ').next(),
            _ => one.trim() == other.trim(),
        }
    }

    /// True if the present text is what the host makes of `to`: a driver may stamp more packets than it was asked for, and says
    /// so (Documentation/networking/timestamping.rst, SIOCSHWTSTAMP).
    pub(crate) fn meets(&self, now: &str, to: &str) -> bool {
        let is_stamping = matches!(self, Address::Device { attribute: Attribute::Stamping, .. });
        self.same(now, to) || is_stamping && self.same(now, &to.replace(",rx=12,", ",rx=1,"))
    }

    /// True if the present text is what is left of `to`: a partition that could not be removed has its CPUs still, and reserves
    /// them no more.
    pub(crate) fn is_left_of(&self, now: &str, to: &str) -> bool {
        let Address::Partition { .. } = self else { return false };
        now.split_once(" (").is_some_and(|(cpus, _)| self.same(cpus, to))
    }

    /// A mask of CPUs as a list, `none` if it is empty; `None` if this is not a mask.
    pub(crate) fn as_cpus(&self, text: &str) -> Option<String> {
        let Address::File { form: Form::CpuMask, .. } = self else { return None };
        let cpus = cpulist::parse_mask(text).ok()?;
        Some(if cpus.is_empty() { NONE.to_owned() } else { cpulist::format(&cpus) })
    }

    /// The value for human readers.
    pub(crate) fn shown(&self, text: &str) -> String {
        self.as_cpus(text).unwrap_or_else(|| text.to_owned())
    }

    /// The interface that the value is of.
    pub(crate) fn interface(&self) -> Option<&str> {
        match self {
            Address::Device { interface, .. } | Address::Napi { interface, .. } => Some(interface),
            _ => self.sysfs_interface(),
        }
    }

    /// True for a controller that another cgroup than Hairpin's has come to need: without it, that one's CPUs would be forgotten.
    pub(crate) fn is_needed_by_others(&self, host: &dyn Host) -> bool {
        let Address::Controller { path } = self else { return false };
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let needs = |name: &String| {
            let read = |file: &str| host.read(&format!("{above}/{name}/{file}")).unwrap_or_default();
            let hands_on = || read("cgroup.subtree_control").split_whitespace().any(|word| word == CPUSET);
            ["cpuset.cpus", "cpuset.mems"].iter().any(|file| !read(file).trim().is_empty()) || hands_on()
        };
        let is_other = |name: &String| format!("{above}/{name}") != PARTITION;
        host.list(above).unwrap_or_default().iter().filter(|name| is_other(name)).any(needs)
    }

    /// The interface, if this is one of its files in sysfs.
    fn sysfs_interface(&self) -> Option<&str> {
        let Address::File { path, .. } = self else { return None };
        path.strip_prefix("/sys/class/net/")?.split('/').next()
    }

    /// Checks that /sys shows this network namespace. It shows the namespace in which it was mounted: in another one, a
    /// write would reach an interface of the same name out there.
    fn is_of_this_namespace(&self, host: &dyn Host) -> Result<(), Trouble> {
        let Some(interface) = self.sysfs_interface() else { return Ok(()) };
        let index = host.attribute(interface, Attribute::Index).map_err(|error| Trouble::of_device(self, &error))?;
        let directory = format!("/sys/class/net/{interface}");
        let shown = host.read(&format!("{directory}/ifindex")).ok();
        match (index, shown) {
            (Some(index), Some(shown)) if shown.trim() != index => Err(Trouble::Failed(OTHER_SYSFS.to_owned())),
            // Netlink has just found it here.
            (Some(_), None) if !host.exists(&directory) => Err(Trouble::Failed(OTHER_SYSFS.to_owned())),
            _ => Ok(()),
        }
    }

    /// Checks that cgroup v2 is mounted where this address wants it. `ip netns exec` mounts a fresh /sys, without it.
    fn is_mounted(&self, host: &dyn Host) -> Result<(), Trouble> {
        match self {
            Address::Partition { .. } | Address::Controller { .. } if !host.exists(CONTROLLERS) => {
                Err(Trouble::Failed("no cgroup v2 is mounted at /sys/fs/cgroup here, as under `ip netns exec`".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The present text.
    ///
    /// # Errors
    /// The place does not exist, a permission is missing, or the device does not answer.
    pub fn read(&self, host: &dyn Host) -> Result<String, Trouble> {
        self.is_of_this_namespace(host)?;
        self.is_mounted(host)?;
        let text = |path: &str| host.read(path).map_err(|error| Trouble::of_io(self, "read", &error));
        match self {
            Address::File { path, form: Form::Choice } => match bracketed(&text(path)?) {
                Ok(Some(word)) => Ok(word.as_str().unwrap_or_default().to_owned()),
                Ok(None) => Err(Trouble::Gone { place: path.clone() }),
                Err(why) => Err(Trouble::Failed(format!("{path}: {why}"))),
            },
            Address::File { path, .. } => Ok(text(path)?.trim().to_owned()),
            Address::Device { interface, attribute } => match host.attribute(interface, *attribute) {
                Ok(Some(text)) => Ok(text),
                Ok(None) => Err(Trouble::Gone { place: self.to_string() }),
                Err(error) => Err(Trouble::of_device(self, &error)),
            },
            Address::Napi { interface, setting, instance } => {
                let all = host.napis(interface).map_err(|error| Trouble::of_device(self, &error))?;
                let napi = all.iter().find(|napi| napi.name() == instance);
                let napi = napi.ok_or_else(|| Trouble::NoInstance { place: self.to_string() })?;
                napi.text(*setting).ok_or_else(|| Trouble::Gone { place: self.to_string() })
            }
            Address::Held { path } => {
                let bytes = host.read_bytes(path).map_err(|error| Trouble::of_io(self, "read", &error))?;
                let bytes =
                    <[u8; 4]>::try_from(bytes).map_err(|_| Trouble::Failed(format!("{path}: did not answer four bytes")))?;
                Ok(i32::from_ne_bytes(bytes).to_string())
            }
            Address::Controller { path } => {
                let on = text(path)?.split_whitespace().any(|word| word == CPUSET);
                Ok(if on { "on" } else { "off" }.to_owned())
            }
            Address::Partition { path } if !host.exists(path) => Ok(NONE.to_owned()),
            Address::Partition { path } => {
                let state = text(&format!("{path}/cpuset.cpus.partition"))?;
                let cpus = text(&format!("{path}/cpuset.cpus"))?;
                Ok(if state.trim() == "isolated" {
                    cpus.trim().to_owned()
                } else {
                    format!("{} ({})", cpus.trim(), state.trim())
                })
            }
        }
    }

    /// Writes a value and reads it back.
    ///
    /// # Errors
    /// The place does not exist, a permission is missing, or the value differs afterwards.
    pub fn write(&self, host: &dyn Host, to: &str) -> Result<(), Trouble> {
        let said = match self.write_only(host, to) {
            Ok(()) => None,
            Err(Trouble::Failed(why)) => Some(why),
            Err(other) => return Err(other),
        };
        let got = self.read(host)?;
        if said.is_none() && self.meets(&got, to) {
            return Ok(());
        }
        Err(Trouble::Refused { place: self.to_string(), wanted: self.shown(to), got: self.shown(&got), why: said })
    }

    fn write_only(&self, host: &dyn Host, to: &str) -> Result<(), Trouble> {
        self.is_of_this_namespace(host)?;
        // The kernel also answers ENOENT to an unknown name, such as that of a congestion control.
        let write = |path: &str, text: &str| {
            host.write(path, text).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound if host.exists(path) => Trouble::Failed(format!("cannot write {path}: {error}")),
                _ => Trouble::of_io(self, "write", &error),
            })
        };
        match self {
            Address::File { path, .. } => match napi::of_file(path) {
                None => write(path, to),
                Some((interface, setting)) => self.write_for_new_instances(host, interface, setting, to, || write(path, to)),
            },
            Address::Device { interface, attribute } => {
                host.set_attribute(interface, *attribute, to).map_err(|error| Trouble::of_device(self, &error))
            }
            Address::Napi { interface, setting, instance } => {
                host.set_napi(interface, instance, *setting, to).map_err(|error| Trouble::of_device(self, &error))
            }
            Address::Held { path } => Err(Trouble::Failed(format!("{path} is held, not written"))),
            Address::Controller { .. } if to != "on" && host.exists(PARTITION) => {
                Err(Trouble::Failed(format!("{PARTITION} is still there and needs it")))
            }
            Address::Controller { path } => write(path, &format!("{}{CPUSET}", if to == "on" { '+' } else { '-' })),
            Address::Partition { path } if to == NONE => {
                if !host.exists(path) {
                    return Ok(());
                }
                write(&format!("{path}/cpuset.cpus.partition"), "member")?;
                let procs = host.read(&format!("{path}/cgroup.procs")).map_err(|error| Trouble::of_io(self, "read", &error))?;
                let above = path.rsplit_once('/').map_or("/", |(above, _)| above);
                for process in procs.split_whitespace() {
                    // A process that has ended meanwhile need not be moved.
                    let _ = host.write(&format!("{above}/cgroup.procs"), process);
                }
                host.remove_directory(path).map_err(|error| self.unremoved(host, path, &error))
            }
            Address::Partition { path } => {
                if !host.exists(path) {
                    host.make_directory(path).map_err(|error| Trouble::of_io(self, "make", &error))?;
                }
                write(&format!("{path}/cpuset.cpus"), to)?;
                write(&format!("{path}/cpuset.cpus.partition"), "isolated")
            }
        }
    }

    /// The error of a cgroup that cannot be removed, with what it still holds.
    fn unremoved(&self, host: &dyn Host, path: &str, error: &io::Error) -> Trouble {
        const NAMED: usize = 4;
        let what = match Trouble::of_io(self, "remove", error) {
            Trouble::Failed(what) => what,
            other => return other,
        };
        let is_cgroup = |name: &String| host.exists(&format!("{path}/{name}/cgroup.procs"));
        let cgroups = host.list(path).unwrap_or_default().into_iter().filter(is_cgroup).map(|name| format!("cgroup {name}"));
        let procs = host.read(&format!("{path}/cgroup.procs")).unwrap_or_default();
        let processes = procs.split_whitespace().map(|process| match host.read(&format!("/proc/{process}/comm")) {
            Ok(name) => format!("process {process} ({})", name.trim()),
            Err(_) => format!("process {process}"),
        });
        let mut holds: Vec<String> = cgroups.chain(processes).take(NAMED + 1).collect();
        if holds.is_empty() {
            return Trouble::Failed(what);
        }
        if holds.len() > NAMED {
            holds[NAMED] = "more".to_owned();
        }
        Trouble::Failed(format!("{what}; it still holds {}: end or move them, and revert again", holds.join(", ")))
    }

    /// Writes the file with the value that new NAPI instances take. The kernel sets the existing instances too, so each gets its
    /// own value back: an instance is a place of its own.
    fn write_for_new_instances(
        &self,
        host: &dyn Host,
        interface: &str,
        setting: NapiSetting,
        to: &str,
        write: impl FnOnce() -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let instances = host.napis(interface).map_err(|error| Trouble::of_device(self, &error))?;
        write()?;
        for napi in &instances {
            if let Some(own) = napi.text(setting).filter(|own| own != to) {
                host.set_napi(interface, napi.name(), setting, &own).map_err(|error| Trouble::of_device(self, &error))?;
            }
        }
        Ok(())
    }

    /// Makes a demand that lasts as long as the returned value. Another process may demand more.
    ///
    /// # Errors
    /// As [`Address::write`].
    pub fn hold(&self, host: &dyn Host, to: &str) -> Result<Held, Trouble> {
        let Address::Held { path } = self else {
            return Err(Trouble::Failed(format!("{self} is written, not held")));
        };
        let wanted: i32 = to.parse().map_err(|_| Trouble::Failed(format!("{to:?} is not a whole number")))?;
        let held = host.hold(path, &wanted.to_ne_bytes()).map_err(|error| Trouble::of_io(self, "open", &error))?;
        let got = self.read(host)?;
        if got.parse::<i32>().is_ok_and(|got| got <= wanted) {
            return Ok(held);
        }
        Err(Trouble::Refused { place: self.to_string(), wanted: to.to_owned(), got, why: None })
    }
}

/// The error where /sys shows another network namespace.
pub(crate) const OTHER_SYSFS: &str = "/sys shows the interfaces of another network namespace than this one: enter it with `ip netns exec`, or mount a \
                                      sysfs in it (mount -t sysfs sysfs /sys, in a mount namespace of its own)";

const CPUSET: &str = "cpuset";
/// The value of a partition that does not exist.
pub(crate) const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_values_not_texts() {
        assert!(Form::Words.same("4096\t131072\t6291456", "4096 131072 6291456"));
        assert!(Form::CpuMask.same("00000000,00000003", "3"));
        assert!(Form::CpuList.same("0,1", "0-1"));
        assert!(!Form::CpuList.same("0", "0-1"));
        assert!(!Form::Words.same("1", "10"));
    }

    #[test]
    fn a_device_may_stamp_more_than_it_was_asked_for_and_not_less() {
        let stamping = Address::Device { interface: "eth0".to_owned(), attribute: Attribute::Stamping };
        let (all, ptp) = ("tx=1,rx=1,flags=0", "tx=1,rx=12,flags=0");
        assert!(stamping.meets(all, ptp) && stamping.meets(ptp, ptp) && !stamping.meets(ptp, all));
    }

    #[test]
    fn shows_masks_as_lists() {
        let file = |form| Address::File { path: "/sys/class/net/eth0/queues/rx-0/rps_cpus".to_owned(), form };
        for (mask, list) in [("00000004", "2"), ("00000000", "none"), ("1,0000010f", "0-3,8,32")] {
            assert_eq!(file(Form::CpuMask).as_cpus(mask).unwrap(), list);
        }
        assert_eq!((file(Form::Words).as_cpus("4"), file(Form::CpuMask).shown("x")), (None, "x".to_owned()));
    }

    #[test]
    fn does_not_advise_a_permission_that_is_held() {
        assert!(remedy_of_network(false).contains("CAP_NET_ADMIN"));
        let remedy = remedy_of_network(true);
        assert!(!remedy.contains("CAP_NET_ADMIN") && !remedy.contains("run as") && remedy.contains("initial"), "{remedy}");
    }

    #[test]
    fn allows_only_files_of_the_kernel() {
        let file = |path: &str| Address::File { path: path.to_owned(), form: Form::Words };
        for allowed in ["/proc/sys/net/core/busy_poll", "/sys/class/net/eth0/threaded", "/proc/irq/40/smp_affinity_list"] {
            assert!(file(allowed).is_allowed(), "{allowed}");
        }
        for not in ["/etc/shadow", "/proc/sys/../../etc/shadow", "/sys/../etc/shadow", "sys/x", ""] {
            assert!(!file(not).is_allowed(), "{not}");
        }
    }

    #[test]
    fn the_json_of_an_address_is_stable() {
        let device = Address::Device { interface: "eth0".to_owned(), attribute: Attribute::RxUsecs };
        let text = serde_json::to_string(&device).unwrap();
        assert_eq!(text, r#"{"device":{"interface":"eth0","attribute":"rx-usecs"}}"#);
        assert_eq!(serde_json::from_str::<Address>(&text).unwrap(), device);
        assert!(serde_json::from_str::<Address>(&text.replace("rx-usecs", "x")).is_err());
        let (interface, setting) = ("eth0".to_owned(), NapiSetting::DeferHardIrqs);
        let napi = Address::Napi { interface, setting, instance: "rx-0".to_owned() };
        let text = serde_json::to_string(&napi).unwrap();
        assert_eq!(text, r#"{"napi":{"interface":"eth0","setting":"defer-hard-irqs","instance":"rx-0"}}"#);
        assert_eq!(serde_json::from_str::<Address>(&text).unwrap(), napi);
        assert!(serde_json::from_str::<Address>(&text.replace("defer", "x")).is_err());
    }
}
