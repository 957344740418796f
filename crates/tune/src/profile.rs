//! Profiles: values for several knobs, built in or as a file with the measurements behind each value.
//!
//! ```toml
//! interface = "eth0"          # left out: the one named with -i
//!
//! [knobs]
//! rx_usecs = 0
//! tcp_autocorking = "off"
//!
//! [evidence.rx_usecs]         # the findings of `tune try`; for people, never needed
//! gain_p50 = 0.31
//! ```

use std::collections::BTreeMap;

use hairpin_sys::host::Host;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::knob::{Control, Profile};
use crate::knobs::{all, knob};
use crate::place::Place;
use crate::plan::{Plan, PlanError, in_turn, plan};
use crate::setting::{Setting, SettingError, unknown};

/// A profile file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    /// The interface that the settings are for, unless another is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its origin, for human readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Settings and values.
    pub knobs: BTreeMap<String, Value>,
    /// Measurements of each setting.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evidence: BTreeMap<String, Table>,
}

/// Why a text is not a valid profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It is not TOML, or has unknown fields.
    #[error("is not a profile: {0}")]
    Parse(String),
    /// One of its settings is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// There is evidence for a knob that is not set.
    #[error("has evidence for \"{0}\", which it does not set")]
    Evidence(String),
}

impl ProfileFile {
    /// Parses a profile file.
    ///
    /// # Errors
    /// It is not a valid profile.
    pub fn parse(text: &str) -> Result<ProfileFile, ProfileError> {
        let file: ProfileFile = toml::from_str(text).map_err(|why| ProfileError::Parse(why.to_string()))?;
        file.settings()?;
        match file.evidence.keys().find(|name| !file.knobs.contains_key(*name)) {
            Some(name) => Err(ProfileError::Evidence(name.clone())),
            None => Ok(file),
        }
    }

    /// The settings.
    ///
    /// # Errors
    /// One of them is invalid.
    pub fn settings(&self) -> Result<Vec<Setting>, SettingError> {
        self.knobs
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => Setting::new(name, text),
                Value::Integer(number) => Setting::new(name, &number.to_string()),
                Value::Boolean(on) => Setting::new(name, if *on { "on" } else { "off" }),
                Value::Array(parts) => {
                    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                    Setting::new(name, &parts.join(","))
                }
                other if knob(name).is_some_and(|knob| knob.change.is_some()) => Setting::new(name, &other.to_string()),
                _ => Err(unknown(name)),
            })
            .collect()
    }

    /// Adds a setting with its measurements.
    pub fn add(&mut self, setting: &Setting, evidence: Table) {
        let value = setting.value.parse().map_or_else(|_| Value::String(setting.value.clone()), Value::Integer);
        self.knobs.insert(setting.name(), value);
        if !evidence.is_empty() {
            self.evidence.insert(setting.name(), evidence);
        }
    }

    /// As TOML.
    #[must_use]
    pub fn text(&self) -> String {
        // Tables with text as keys can always be written as TOML.
        toml::to_string_pretty(self).unwrap_or_default()
    }
}

/// The settings of a built-in profile. With `held`, a demand that lasts as long as a process replaces the setting with the same
/// effect.
#[must_use]
pub fn settings(profile: Profile, held: bool) -> Vec<Setting> {
    let settings = all().filter_map(|knob| Setting::new(knob.name, knob.change.as_ref()?.of_profile(profile)?).ok());
    let replaced = |control: &Control| {
        let held = control.while_held.and_then(|knob| knob.change.as_ref());
        held.is_some_and(|held| held.of_profile(profile).is_some())
    };
    settings.filter(|setting| if held { !replaced(setting.control) } else { !setting.control.is_held() }).collect()
}

/// The changes that these settings need on this host, and the names of settings that it does not have. Reads only.
///
/// # Errors
/// A value could not be read.
pub fn plans_existing_settings(
    host: &dyn Host,
    place: &Place<'_>,
    settings: &[Setting],
) -> Result<(Plan, Vec<&'static str>), PlanError> {
    let (mut changes, mut absent) = (Plan::new(), Vec::new());
    for setting in in_turn(settings) {
        match plan(host, place, std::slice::from_ref(setting)) {
            Ok(more) => changes.extend(more),
            Err(PlanError::Absent { name, .. }) => absent.push(name),
            // Settings of an interface are left out if none is named.
            Err(PlanError::NoInterface(_)) => {}
            Err(why) => return Err(why),
        }
    }
    Ok((changes, absent))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_profile_survives_writing_and_reading() {
        let mut file = ProfileFile { interface: Some("eth0".to_owned()), ..ProfileFile::default() };
        let evidence = toml::from_str("gain_p50 = 0.31\ninterval = [0.28, 0.34]\n").unwrap();
        file.add(&"rx_usecs=0".parse().unwrap(), evidence);
        file.add(&"tcp_rmem_bytes=4096,131072,6291456".parse().unwrap(), Table::new());
        let text = file.text();
        assert_eq!(ProfileFile::parse(&text).unwrap(), file);
        assert!(text.contains("[evidence.rx_usecs]") && text.contains("rx_usecs = 0"), "{text}");
        let names: Vec<String> = file.settings().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["rx_usecs=0", "tcp_rmem_bytes=4096 131072 6291456"]);
    }

    #[test]
    fn values_may_be_numbers_words_and_booleans() {
        let file =
            ProfileFile::parse("[knobs]\nrx_usecs = 0\ngro = false\ntcp_autocorking = \"off\"\ntcp_wmem_bytes = [1, 2, 3]\n")
                .unwrap();
        let texts: Vec<String> = file.settings().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["gro=off", "rx_usecs=0", "tcp_autocorking=0", "tcp_wmem_bytes=1 2 3"]);
    }

    #[test]
    fn errors_name_the_mistake() {
        for (text, part) in [
            ("knobs = 3", "is not a profile"),
            ("[knobs]\nrx_usec = 0", "did you mean rx_usecs"),
            ("[knobs]\nrx_usecs = \"few\"", "cannot be \"few\""),
            ("[knobs]\n[evidence.rx_usecs]\nx = 1", "which it does not set"),
            ("[knob]\n", "is not a profile"),
            ("[knobs]\nmitigations = \"off\"", "only reported"),
        ] {
            let error = ProfileFile::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_profile_has_only_valid_values() {
        for profile in Profile::ALL {
            let of_profile = all().filter_map(|knob| knob.change.as_ref()?.of_profile(profile)).count();
            let with = [true, false].map(|held| settings(profile, held).len());
            let want = if profile == Profile::Latency { [of_profile - 1; 2] } else { [of_profile; 2] };
            assert_eq!(with, want, "{}", profile.name());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_profile_or_an_error(text in "\\PC{0,80}", knob in "[a-z_]{1,12}", value in "\\PC{0,12}") {
            let _ = ProfileFile::parse(&text);
            let _ = ProfileFile::parse(&format!("[knobs]\n{knob} = {value}\n"));
            let _ = Setting::new(&knob, &value);
        }
    }
}
