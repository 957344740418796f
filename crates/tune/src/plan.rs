//! From requested settings to the values that must change. Reads only.

use hairpin_units::Arrange;
use std::collections::BTreeMap;

use hairpin_sys::device::Attribute;
use hairpin_sys::host::Host;

use crate::change::{Address, Change, OTHER_SYSFS, Trouble};
use crate::cpulist;
use crate::knob::Spot;
use crate::knobs::knob;
use crate::place::{Place, interface_directory};
use crate::read::{Read, instances};
use crate::setting::Setting;
use crate::values::Values;

/// The values that must change on this host.
pub type Plan = Vec<Change>;

/// Why settings cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The same setting is given twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// The setting belongs to an interface, and none was named.
    #[error("{0} belongs to an interface: name it with -i IF")]
    NoInterface(&'static str),
    /// There is no such interface.
    #[error("there is no interface \"{0}\" in this network namespace; see `ip link`")]
    Interface(String),
    /// This host does not have the setting.
    #[error("this host has no {name}{}. Needs: {needs}", interface.as_deref().map(|name| format!(" on {name}")).unwrap_or_default())]
    Absent {
        name: &'static str,
        /// The interface, for a setting of one.
        interface: Option<String>,
        needs: &'static str,
    },
    /// The interface has no NAPI instance that serves the queue.
    #[error("{interface} has no NAPI instance {}", if has.is_empty() {
        "now: loopback, veth without GRO and an interface that is down have none".to_owned()
    } else {
        format!("of the queue {queue}; it has {}", has.join(", "))
    })]
    NoInstance {
        interface: String,
        queue: String,
        /// The instances that it has.
        has: Vec<String>,
    },
    /// There is no such CPU.
    #[error("{name}={value}: there is no CPU {cpu}; this host has {present}")]
    Cpu {
        name: &'static str,
        /// The requested value.
        value: String,
        /// The missing CPU.
        cpu: u32,
        /// The CPUs of this host.
        present: String,
    },
    /// A present value could not be read.
    #[error(transparent)]
    Unread(#[from] Trouble),
}

impl PlanError {
    /// True if a permission or a device is missing; false if the request is wrong.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            PlanError::Absent { .. } | PlanError::Unread(Trouble::Denied { .. }) => true,
            PlanError::NoInstance { has, .. } => has.is_empty(),
            _ => false,
        }
    }
}

/// The changes that make all of `settings` hold on this host: each place with its present and its new value. A place
/// that already has the value needs no change; a demand that lasts only while it is held is always a change. Changes that
/// replace the interrupts come first, and adaptive coalescing goes off before its delays change, and on after that.
///
/// # Errors
/// This host has no such setting, or a value could not be read.
pub fn plan(host: &dyn Host, place: &Place<'_>, settings: &[Setting]) -> Result<Plan, PlanError> {
    // By knob: the NAPI instances, `None` for all.
    let mut seen: BTreeMap<&str, Vec<Option<String>>> = BTreeMap::new();
    let mut changes = Vec::new();
    for setting in in_turn(settings) {
        has_interface(host, place, setting)?;
        let instance = setting.queue.as_ref().map(|queue| instance_of(host, place, queue)).transpose()?;
        let others = seen.entry(setting.knob.name).or_default();
        if others.iter().any(|other| other.is_none() || instance.is_none() || *other == instance) {
            return Err(PlanError::Twice(setting.knob.name));
        }
        changes.extend(of_setting(host, place, setting, instance.as_deref())?);
        others.push(instance);
    }
    Ok(changes)
}

/// Settings in the order of their changes.
pub(crate) fn in_turn(settings: &[Setting]) -> Vec<&Setting> {
    let mut settings: Vec<&Setting> = settings.iter().collect();
    settings.arrange_by_key(|setting| turn(setting));
    settings
}

/// Some drivers refuse the delays while coalescing is adaptive: i40e, iavf and ice.
fn turn(setting: &Setting) -> u8 {
    let is_adaptive = matches!(setting.knob.read, Read::Device(Attribute::AdaptiveRx | Attribute::AdaptiveTx, _));
    match setting.value.as_str() {
        _ if setting.control.remakes_interrupts => 0,
        "off" if is_adaptive => 1,
        _ if is_adaptive => 3,
        _ => 2,
    }
}

/// If a plan has changes that replace the interrupts, leaves only these in it and returns true: the places of the other settings
/// are known once these are made.
pub fn keep_first(changes: &mut Plan) -> bool {
    let remakes = |change: &Change| {
        knob(&change.knob).and_then(|knob| knob.change.as_ref()).is_some_and(|control| control.remakes_interrupts)
    };
    let first = changes.iter().take_while(|change| remakes(change)).count();
    if first > 0 {
        changes.truncate(first);
    }
    first > 0
}

/// Checks that the interface exists, if the setting is of one.
fn has_interface(host: &dyn Host, place: &Place<'_>, Setting { knob, control, .. }: &Setting) -> Result<(), PlanError> {
    if control.is_of_interface() {
        let interface = place.interface.ok_or(PlanError::NoInterface(knob.name))?;
        if interface_directory(place).is_none() || host.attribute(interface, Attribute::Index).is_err() {
            return Err(PlanError::Interface(interface.to_owned()));
        }
    }
    Ok(())
}

/// The name of the NAPI instance that serves `queue`.
fn instance_of(host: &dyn Host, place: &Place<'_>, queue: &str) -> Result<String, PlanError> {
    let all = instances(host, place).map_err(Trouble::Failed)?;
    let found = all.iter().find(|napi| napi.serves(queue)).map(|napi| napi.name().to_owned());
    found.ok_or_else(|| PlanError::NoInstance {
        interface: place.interface.unwrap_or_default().to_owned(),
        queue: queue.to_owned(),
        has: all.iter().map(|napi| napi.name().to_owned()).collect(),
    })
}

fn of_setting(host: &dyn Host, place: &Place<'_>, setting: &Setting, instance: Option<&str>) -> Result<Vec<Change>, PlanError> {
    let Setting { knob, control, value, .. } = setting;
    let mut spots = knob.spots(host, place, value).map_err(Trouble::Failed)?;
    if let Some(wanted) = instance {
        spots.retain(|spot| matches!(&spot.address, Address::Napi { instance, .. } if instance == wanted));
    }
    if spots.is_empty() {
        let in_sysfs = interface_directory(place).is_some_and(|directory| host.exists(&directory));
        if control.is_of_interface() && !in_sysfs {
            return Err(Trouble::Failed(OTHER_SYSFS.to_owned()).into());
        }
        let interface = place.interface.filter(|_| control.is_of_interface()).map(str::to_owned);
        return Err(PlanError::Absent { name: knob.name, interface, needs: control.needs });
    }
    cpus_exist(host, setting)?;
    let mut changes = Vec::new();
    for Spot { address, to } in spots {
        let from = address.read(host)?;
        keeps_qdisc(&address, &from, &to)?;
        if address.is_held() || !address.meets(&from, &to) {
            changes.push(Change { knob: knob.name.to_owned(), address, from, to });
        }
    }
    Ok(changes)
}

/// Refuses to give up a queueing discipline that somebody set: its parameters could not be put back.
fn keeps_qdisc(address: &Address, from: &str, to: &str) -> Result<(), Trouble> {
    match address {
        Address::Device { interface, attribute: Attribute::Qdisc } if to == "default" && !address.same(from, to) => {
            Err(Trouble::Failed(format!(
                "{interface} has the queueing discipline {from}, which is not the kernel's own choice, and its parameters would be lost: \
                 remove it with tc(8), or with `hairpin tune revert` if hairpin set it"
            )))
        }
        _ => Ok(()),
    }
}

/// Checks that every CPU of the value exists: the kernel accepts a mask that is too wide, and CPUs that may be plugged in later.
fn cpus_exist(host: &dyn Host, setting: &Setting) -> Result<(), PlanError> {
    if !matches!(setting.control.values, Values::Cpus | Values::CpusOrNone) {
        return Ok(());
    }
    const CPUS: &str = "/sys/devices/system/cpu";
    let read = |name: &str| cpulist::parse(&host.read(&format!("{CPUS}/{name}")).ok()?).ok().filter(|cpus| !cpus.is_empty());
    let Some(present) = read("present").or_else(|| read("online")) else { return Ok(()) };
    let asked = cpulist::parse(&setting.value).unwrap_or_default();
    match asked.into_iter().find(|cpu| !present.contains(cpu)) {
        Some(cpu) => {
            Err(PlanError::Cpu { name: setting.knob.name, value: setting.value.clone(), cpu, present: cpulist::format(&present) })
        }
        None => Ok(()),
    }
}
