//! Every knob as a person asks for it: what it is, how it stands, and how it is changed.

use std::collections::BTreeMap;

use hairpin_record::head::Label;
use hairpin_record::tune::{KnobRow, List, Settable};
use hairpin_sys::host::Host;

use crate::control::{Control, Profile, control};
use crate::reading::meant_cpus;
use crate::setting::{SettingError, unknown};
use crate::{KNOBS, Place, Reading};

/// Every knob, or those of these names; of all CPUs that are online if `place` names none. Reads only.
///
/// # Errors
/// No knob has such a name.
pub fn list(host: &dyn Host, place: &Place<'_>, names: &[String]) -> Result<List, SettingError> {
    if let Some(name) = names.iter().find(|name| !KNOBS.iter().any(|knob| knob.name() == *name)) {
        return Err(unknown(name));
    }
    let cpus = meant_cpus(host, place).unwrap_or_default();
    let place = &Place { cpus: &cpus, ..*place };
    let asked = KNOBS.iter().filter(|knob| names.is_empty() || names.iter().any(|name| name == knob.name()));
    let knobs = asked.map(|knob| {
        let (now, unread) = match knob.probe(host, place) {
            Reading::Is(value) => (Some(value), None),
            Reading::Absent => (None, None),
            Reading::Unread(why) => (None, Some(why)),
        };
        let (name, summary) = (knob.name().to_owned(), knob.summary().to_owned());
        KnobRow { name, summary, now, unread, change: control(knob.name()).map(settable) }
    });
    Ok(List { label: Label::of::<List>(), knobs: knobs.collect() })
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
        profiles: profiles.collect::<BTreeMap<String, String>>(),
    }
}
