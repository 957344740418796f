//! `suspend-usecs`: the NAPI instances that deliver a side's packets keep their interrupts off while epoll finds packets.
//!
//! ```text
//!   SO_INCOMING_NAPI_ID of each flow ──▶ instance ──▶ a link of Hairpin's own     set, and put back at the end; the link dies with its processes
//!                                                 └─▶ any other                   as asked already; if not, an error names the command
//! ```
//! The kernel suspends interrupts for `irq-suspend-timeout` only while they are deferred, so `defer-hard-irqs` and
//! `gro-flush-timeout` must not be 0.

use hairpin_units::Gather;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use hairpin_plan::option::SUSPEND_USECS;
use hairpin_plan::spec::SideSpec;
use hairpin_record::run::Side;
use hairpin_sys::device::DeviceError;
use hairpin_sys::napi::{self, Napi, NapiSetting};
use hairpin_sys::netlink::Netlink;
use hairpin_sys::socket;
use hairpin_sys::wait::Policy;

use crate::error::PathError;
use crate::found::{SideFound, grant};

/// Each setting that `suspend-usecs` needs, the name of its knob, and the value on a link of Hairpin's own: the shortest
/// deferral, so that an interrupt comes soon once epoll finds nothing. `None`: the value asked for.
const TAKES: [(NapiSetting, &str, Option<u64>); 3] = [
    (NapiSetting::IrqSuspendTimeout, "irq_suspend_timeout_ns", None),
    (NapiSetting::DeferHardIrqs, "napi_defer_hard_irqs", Some(1)),
    (NapiSetting::GroFlushTimeout, "gro_flush_timeout_ns", Some(20_000)),
];

/// The instances of a side's flows, set as asked until this is dropped.
pub(crate) struct Suspension {
    ids: BTreeSet<u32>,
    /// The changed settings: interface, instance, setting, and the value before.
    set: Vec<(String, String, NapiSetting, String)>,
}

impl Suspension {
    /// Sets the instances as the side asks, or checks that they are; `None` if it asks for nothing. `heard_on`: the instances of
    /// flows that have received nothing yet.
    ///
    /// # Errors
    /// A flow's packets come through no instance, or one that is not Hairpin's own is not as asked, or a right is missing.
    #[cold]
    pub(crate) fn begin<'a>(
        flows: &mut dyn Iterator<Item = BorrowedFd<'a>>,
        heard_on: &[u32],
        spec: &SideSpec,
        own_link: bool,
    ) -> Result<Option<Suspension>, PathError> {
        // An open loop waits in poll(2) instead.
        let asked = spec.options.number(&SUSPEND_USECS).filter(|_| spec.policy == Policy::Epoll);
        let Some(usecs) = asked else { return Ok(None) };
        let failed = |why: &dyn std::fmt::Display| PathError::Missing(format!("suspend-usecs={usecs}: {why}"));
        let (told, untold): (Vec<_>, Vec<_>) = flows.map(socket::napi_id).partition(Option::is_some);
        let mut ids: BTreeSet<u32> = told.into_iter().flatten().gather();
        // On a link of Hairpin's own every instance is this side's.
        if !untold.is_empty() && own_link {
            ids = of_this_namespace().map_err(|error| failed(&error))?;
        } else if !untold.is_empty() {
            ids = if heard_on.is_empty() { BTreeSet::new() } else { ids.into_iter().chain(heard_on.iter().copied()).gather() };
        }
        if ids.is_empty() {
            return Err(failed(&NO_INSTANCE));
        }
        let mut suspension = Suspension { ids, set: Vec::new() };
        for id in suspension.ids.clone() {
            let (interface, napi) = Napi::of_id(id).map_err(|error| failed(&error))?;
            let other =
                differing(|setting| napi.facts.value(setting), usecs, own_link).ok_or_else(|| failed(&"it takes Linux 6.13"))?;
            if !own_link && !other.is_empty() {
                return Err(failed(&not_in_force(&interface, napi.name(), &other)));
            }
            for (setting, _, value) in other {
                let before = napi.text(setting).unwrap_or_default();
                let set = napi::set(&interface, napi.name(), setting, &value.to_string());
                set.map_err(|error| failed(&format_args!("{error}; {AS_ROOT}")))?;
                suspension.set.push((interface.clone(), napi.name().to_owned(), setting, before));
            }
        }
        Ok(Some(suspension))
    }

    /// Records the settings of the instances, by their ids, after the run.
    pub(crate) fn note(&self, spec: &SideSpec, side: Side, found: &mut SideFound) {
        let asked_ns = u64::from(spec.options.number(&SUSPEND_USECS).unwrap_or_default()) * 1000;
        for id in &self.ids {
            let napi = Napi::of_id(*id).ok().map(|(_, napi)| napi);
            for (setting, _, _) in TAKES {
                let got = napi.as_ref().and_then(|napi| napi.text(setting)).unwrap_or_else(|| "gone".into());
                let asked = if setting == NapiSetting::IrqSuspendTimeout { asked_ns.to_string() } else { got.clone() };
                let why = if asked == got { "" } else { "it was changed during the run" };
                grant(found, side, setting.name(), &asked, got, why.into());
            }
        }
    }
}

impl Drop for Suspension {
    fn drop(&mut self) {
        for (interface, name, setting, before) in self.set.iter().rev() {
            // Nobody is left to be told of an error, and the link ends with this process at the latest.
            let _ = napi::set(interface, name, *setting, before);
        }
    }
}

/// The ids of all instances in this network namespace.
fn of_this_namespace() -> Result<BTreeSet<u32>, DeviceError> {
    let mut ids = BTreeSet::new();
    for link in Netlink::open()?.links()? {
        ids.extend(Napi::all_of(&link.name)?.iter().map(|napi| napi.facts.id));
    }
    Ok(ids)
}

const NO_INSTANCE: &str = "no NAPI instance delivers the packets of this side, so there is none to set (loopback and plain veth have none; \
                           veth:gro=on,tso=off has)";
const AS_ROOT: &str = "run as root of the host: the kernel asks for CAP_NET_ADMIN outside of any user namespace";

/// The settings that are not as asked, with the value to give them; `None` if the kernel does not report them. An instance of
/// others may defer its interrupts for as long as it likes.
fn differing(
    now: impl Fn(NapiSetting) -> Option<u64>,
    usecs: u32,
    own_link: bool,
) -> Option<Vec<(NapiSetting, &'static str, u64)>> {
    let mut other = Vec::new();
    for (setting, knob, own) in TAKES {
        let value = own.unwrap_or(u64::from(usecs) * 1000);
        let now = now(setting)?;
        let fits = if own.is_some() && !own_link { now > 0 } else { now == value };
        if !fits {
            other.push((setting, knob, value));
        }
    }
    Some(other)
}

fn not_in_force(interface: &str, name: &str, other: &[(NapiSetting, &'static str, u64)]) -> String {
    let settings: Vec<String> = other.iter().map(|(_, knob, value)| format!("{knob}@{name}={value}")).collect();
    format!(
        "it is not in force on the NAPI instance {name} of {interface}, which delivers the packets of this side: sudo hairpin tune apply {} -i {interface}",
        settings.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings that the message names.
    fn asked_for([suspend, defer, flush]: [u64; 3], own_link: bool) -> String {
        let now = |setting| match setting {
            NapiSetting::IrqSuspendTimeout => Some(suspend),
            NapiSetting::DeferHardIrqs => Some(defer),
            NapiSetting::GroFlushTimeout => Some(flush),
            NapiSetting::Threaded => None,
        };
        let message = not_in_force("eth0", "rx-2", &differing(now, 20, own_link).unwrap());
        message.split("tune apply ").nth(1).unwrap().to_owned()
    }

    #[test]
    fn an_instance_of_others_needs_the_timeout_and_any_deferral() {
        assert_eq!(asked_for([20_000, 7, 9], false), " -i eth0", "nothing");
        let both = "irq_suspend_timeout_ns@rx-2=20000 napi_defer_hard_irqs@rx-2=1 -i eth0";
        assert_eq!(asked_for([0, 0, 9], false), both, "what defers already stays");
        assert_eq!(asked_for([20_001, 0, 9], false), both, "another time is not the time asked for");
        assert_eq!(
            asked_for([20_000, 7, 20_000], true),
            "napi_defer_hard_irqs@rx-2=1 -i eth0",
            "a link of its own is set wholly"
        );
        assert_eq!(differing(|_| None, 20, true), None, "before Linux 6.13");
    }
}
