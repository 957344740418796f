//! `tune list`: every knob with its present value and how it is changed.

use hairpin_units::Gather;
use std::collections::BTreeMap;

use hairpin_record::head::Label;
use hairpin_record::tune::{KnobRow, List, NapiRow, Settable};
use hairpin_sys::host::Host;
use hairpin_sys::napi::{Napi, NapiSetting};

use crate::knob::{Control, Profile};
use crate::knobs::{all, knob};
use crate::place::{Place, cpus_or_online};
use crate::read::{Read, instances};
use crate::reading::Reading;
use crate::setting::{SettingError, unknown};

/// Every knob, or those in `names`; for all online CPUs if `place` names none. Reads only.
///
/// # Errors
/// No knob has such a name.
pub fn list(host: &dyn Host, place: &Place<'_>, names: &[String]) -> Result<List, SettingError> {
    if let Some(name) = names.iter().find(|name| knob(name).is_none()) {
        return Err(unknown(name));
    }
    let cpus = cpus_or_online(host, place).unwrap_or_default();
    let place = &Place { cpus: &cpus, ..*place };
    let asked: Vec<_> = all().filter(|knob| names.is_empty() || names.iter().any(|name| name == knob.name)).collect();
    let of_napi = asked.iter().any(|knob| matches!(knob.read, Read::Napi(_)));
    // Each setting reports what could not be read.
    let napis = if of_napi { instances(host, place).unwrap_or_default() } else { Vec::new() };
    let knobs = asked.into_iter().map(|knob| {
        let (now, unread) = match knob.read(host, place) {
            Reading::Is(value) => (Some(value), None),
            Reading::Absent => (None, None),
            Reading::Unread(why) => (None, Some(why)),
        };
        let (name, summary) = (knob.name.to_owned(), knob.summary.to_owned());
        KnobRow { name, summary, now, unread, change: knob.change.as_ref().map(settable) }
    });
    Ok(List { label: Label::of::<List>(), knobs: knobs.collect(), napis: napis.into_iter().map(row_of).collect() })
}

fn row_of(napi: Napi) -> NapiRow {
    let settings = NapiSetting::ALL.into_iter().filter_map(|setting| Some((setting.name().to_owned(), napi.text(setting)?)));
    NapiRow {
        name: napi.name().to_owned(),
        id: napi.facts.id,
        irq: napi.facts.irq,
        settings: settings.collect(),
        queues: napi.queues.into_iter().filter(|queue| !queue.starts_with("napi-")).collect(),
    }
}

fn settable(control: &Control) -> Settable {
    let profiles =
        Profile::ALL.into_iter().filter_map(|profile| Some((profile.name().to_owned(), control.of_profile(profile)?.to_owned())));
    Settable {
        mechanism: control.mechanism.to_owned(),
        effect: control.effect.to_owned(),
        cost: control.cost.to_owned(),
        risk: control.risk.to_owned(),
        needs: control.needs.to_owned(),
        reference: control.reference.to_owned(),
        values: control.values.to_string(),
        safe: control.safe,
        lasts: if control.is_held() { "process" } else { "boot" }.to_owned(),
        of_interface: control.is_of_interface(),
        profiles: profiles.gather::<BTreeMap<String, String>>(),
    }
}
