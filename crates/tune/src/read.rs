//! The reading of a knob: one file, one file per CPU or queue, a device's answer, or a function.
//!
//! ```text
//!   Host        one file                                        /proc/sys/net/core/busy_poll
//!   Cpu         one file per CPU, one value if all agree        /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor
//!   Interface   one file of the interface                       /sys/class/net/*/mtu
//!   Queue       one file per queue, one value if all agree      /sys/class/net/*/queues/rx-*/rps_cpus
//!   Device      the device's answer, over ethtool or netlink    rx-usecs
//!   Napi        a setting of each NAPI instance, one value if all agree; the device's file where the kernel reports no instance
//!   By          a function, for everything else
//! ```

use std::io;

use hairpin_sys::device::{Attribute, DeviceError};
use hairpin_sys::host::Host;
use hairpin_sys::napi::{Napi, NapiSetting};
use serde_json::Value;

use crate::change::{Address, Form};
use crate::place::{Place, cpu_directory, cpus_or_online, interface_directory, queue_files};
use crate::reading::{Parse, agreed, each_cpu, file, number, parsed};

/// Reads a value: `None` if this host has none, otherwise why it cannot be read.
pub type ReadBy = fn(&dyn Host, &Place<'_>) -> Result<Option<Value>, String>;

/// The reading of a knob. Nothing here writes.
#[derive(Clone, Copy)]
pub enum Read {
    /// The file at this path.
    Host(&'static str, Parse),
    /// This file below the directory of each CPU.
    Cpu(&'static str, Parse),
    /// This file below the interface's directory.
    Interface(&'static str, Parse),
    /// A file of each of the interface's queues in one direction.
    Queue {
        /// `rx-` or `tx-`.
        prefix: &'static str,
        /// The file's name.
        file: &'static str,
        /// From its text to the value.
        parse: Parse,
    },
    /// An attribute of the interface's device.
    Device(Attribute, Answer),
    /// A setting of the NAPI instances.
    Napi(NapiSetting),
    /// A function.
    By(ReadBy),
}

/// Form of a device's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A whole number, or text where several instances disagree.
    Number,
    /// `on` or `off`.
    Flag,
    /// Text.
    Text,
}

impl Read {
    pub(crate) fn value(&self, host: &dyn Host, place: &Place<'_>) -> Result<Option<Value>, String> {
        match *self {
            Read::Host(path, parse) => file(host, path, parse),
            Read::Cpu(name, parse) => each_cpu(place.cpus, |cpu| file(host, &format!("{}/{name}", cpu_directory(cpu)), parse)),
            Read::Interface(name, parse) => {
                let Some(directory) = interface_directory(place) else {
                    return Ok(None);
                };
                let path = format!("{directory}/{name}");
                match host.read(&path) {
                    // EINVAL: the interface has no such attribute, or not while its link is down.
                    Err(why) if why.kind() == io::ErrorKind::InvalidInput => Ok(None),
                    answer => parsed(&path, answer, parse),
                }
            }
            Read::Queue { prefix, file, parse } => {
                let mut values = Vec::new();
                for one in queue_files(host, place, prefix, file)? {
                    let value = one.text.map(|text| parse(&text)).transpose().map_err(|why| format!("{}: {why}", one.path))?;
                    values.push((one.queue, value.flatten()));
                }
                Ok(agreed(values))
            }
            Read::Device(attribute, answer) => {
                let Some(interface) = place.interface else {
                    return Ok(None);
                };
                let text = unless_gone(host.attribute(interface, attribute))?;
                Ok(text.map(|text| match answer {
                    Answer::Number => number_or_text(text),
                    Answer::Flag => Value::from(text == "on"),
                    Answer::Text => Value::from(text),
                }))
            }
            Read::Napi(setting) => {
                let named = |napi: &Napi| Some((napi.name().to_owned(), Some(number_or_text(napi.text(setting)?))));
                match (agreed(instances(host, place)?.iter().filter_map(named).collect()), setting.file()) {
                    (None, Some(file)) => Read::Interface(file, number).value(host, place),
                    (value, _) => Ok(value),
                }
            }
            Read::By(read) => read(host, place),
        }
    }

    /// Every place on this host that holds the value, for the CPUs of `place` or all online CPUs if it names none. Empty if this
    /// host has none, and for [`Read::By`].
    pub(crate) fn addresses(&self, host: &dyn Host, place: &Place<'_>, form: Form) -> Result<Vec<Address>, String> {
        let existing = |paths: Vec<String>| -> Vec<Address> {
            paths.into_iter().filter(|path| host.exists(path)).map(|path| Address::File { path, form }).collect()
        };
        Ok(match *self {
            Read::Host(path, _) => existing(vec![path.to_owned()]),
            Read::Cpu(name, _) => {
                let cpus = cpus_or_online(host, place)?;
                existing(cpus.into_iter().map(|cpu| format!("{}/{name}", cpu_directory(cpu))).collect())
            }
            Read::Interface(name, _) => {
                existing(interface_directory(place).map(|directory| format!("{directory}/{name}")).into_iter().collect())
            }
            Read::Queue { prefix, file, .. } => {
                let files = queue_files(host, place, prefix, file)?;
                files.into_iter().filter(|one| one.text.is_some()).map(|one| Address::File { path: one.path, form }).collect()
            }
            Read::Device(attribute, _) => {
                let Some(interface) = place.interface else {
                    return Ok(Vec::new());
                };
                let answer = unless_gone(host.attribute(interface, attribute))?;
                answer.map(|_| Address::Device { interface: interface.to_owned(), attribute }).into_iter().collect()
            }
            Read::Napi(setting) => {
                let interface = place.interface.unwrap_or_default();
                let file =
                    setting.file().map_or(Ok(Vec::new()), |file| Read::Interface(file, number).addresses(host, place, form));
                let instances = instances(host, place)?.into_iter().filter(|napi| napi.text(setting).is_some());
                let address = |napi: Napi| {
                    let (interface, instance) = (interface.to_owned(), napi.name().to_owned());
                    Address::Napi { interface, setting, instance }
                };
                file?.into_iter().chain(instances.map(address)).collect()
            }
            Read::By(_) => Vec::new(),
        })
    }
}

/// The NAPI instances of the interface; none if it does not exist.
pub(crate) fn instances(host: &dyn Host, place: &Place<'_>) -> Result<Vec<Napi>, String> {
    let Some(interface) = place.interface else { return Ok(Vec::new()) };
    Ok(unless_gone(host.napis(interface).map(Some))?.unwrap_or_default())
}

fn number_or_text(text: String) -> Value {
    text.parse::<u64>().map_or_else(|_| text.into(), Value::from)
}

/// A device's answer; `None` if the interface does not exist. The knob `interface` alone reports that it is missing.
pub(crate) fn unless_gone<T>(answer: Result<Option<T>, DeviceError>) -> Result<Option<T>, String> {
    /// No such device, the same number on every architecture (`include/uapi/asm-generic/errno-base.h`).
    const ENODEV: i32 = 19;
    match answer {
        Ok(value) => Ok(value),
        Err(why) if why.errno() == Some(ENODEV) => Ok(None),
        Err(why) => Err(why.to_string()),
    }
}
